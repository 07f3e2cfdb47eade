//! A copy of a server's configuration that a second instance can run with beside the first.
//!
//! A remedy is proved on the copy, so that the running server and its files stay as they are. Everything that two
//! instances would fight over is moved: addresses, pid files, sockets, logs, temporary files. The surprise:
//! what the copy forwards to is not copied: backends and certificates are the same for both.

use super::files::Files;
use super::{
    copy_apache, copy_caddy, copy_haproxy, copy_lighttpd, copy_nginx, copy_process, copy_tomcat,
    copy_varnish,
};
use crate::error::TargetError;
use crate::relimit::LIMITS;
use linux::procfs::PROC;
use record::Server;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, ToSocketAddrs};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// What is done with a directive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeAction {
    /// Replaced where it stands in the section, added where it does not.
    Set,
    /// Replaced where it stands; it is an error that it stands nowhere.
    Replace,
    /// Added to what is there.
    Add,
    /// Taken out: the one with exactly these arguments where it stands, else all of that name (and subject).
    Remove,
}

/// A change of a configuration. Where a directive may be given for several subjects (`timeout client`, `option x`,
/// `proxy_set_header Host`), the first argument belongs to its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigChange {
    /// What is done.
    pub action: ChangeAction,
    /// Section, as in [`record::Directive::context`]; all sections of that name are changed.
    pub context: Vec<String>,
    pub name: String,
    /// Arguments, unquoted.
    pub args: Vec<String>,
    /// Arguments of the directive that is replaced, where there may be several of that name; empty: the first one, or
    /// the one of the same subject.
    pub from: Vec<String>,
}

impl ConfigChange {
    /// It is about what holds the server, which no configuration of its own says.
    pub fn is_of_limits(&self) -> bool {
        self.context == [LIMITS]
    }
}

/// The address that a copy of a plain process listens at: that of the server's listener, which its words keep, where it
/// is one and not all.
pub(crate) fn bound_at(server: &Server, serves: SocketAddr) -> Option<IpAddr> {
    let mut listeners = server.listens.iter().filter_map(|l| l.parse().ok());
    let is_it = |l: &SocketAddr| l.port() == serves.port() && l.ip().to_canonical() == serves.ip();
    let bound = listeners.find(is_it)?;
    copy_process::is_plain(&server.kind).then(|| bound.ip().to_canonical())
}

/// A configuration that was written, and how to run it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopiedConfig {
    /// Command line: the same program, in the foreground.
    pub argv: Vec<String>,
    /// Directory to start it in: that of the running server, for the sake of relative paths.
    pub directory: PathBuf,
    /// Environment of the running server.
    pub env: BTreeMap<String, String>,
    /// The configuration file; empty for a plain process, which has none.
    pub file: PathBuf,
    /// What is different from the original beside the changes.
    pub notes: Vec<String>,
}

/// Writes a copy of the server's configuration into `dir`, with `changes`. The listener that serves `serves` (an
/// address
/// of the running server) is moved to `listen`, the others to free loopback ports.
///
/// # Errors
/// [`TargetError::CannotCopy`] for a server whose configuration cannot be copied or changed like that, and
/// [`TargetError::File`] when the copy cannot be written.
pub fn copy(
    server: &Server,
    changes: &[ConfigChange],
    dir: &Path,
    serves: SocketAddr,
    listen: SocketAddr,
) -> Result<CopiedConfig, TargetError> {
    let refuse = |cause: &str, remedy: &str| Err(refused(server, cause, remedy));
    let pid = server.main_pid;
    let Ok(process) = std::fs::metadata(format!("{PROC}/{pid}")) else {
        return refuse("it has ended", "start it again");
    };
    // SAFETY: the call takes nothing and cannot fail.
    let me = unsafe { libc::geteuid() };
    if me != 0 && me != process.uid() {
        return refuse("it runs as another user", "run as root, or as that user");
    }
    let mut files = Files::of(pid);
    if files.is_apart() {
        return refuse("its files are in a container", "run prony in the container");
    }
    let mut plan = Moves {
        dir: dir.to_owned(),
        serves,
        listen,
        ports: BTreeMap::new(),
        notes: Vec::new(),
    };
    if copy_process::is_plain(&server.kind) {
        let started = copy_process::copied(server, changes, &mut plan)?;
        return Ok(CopiedConfig {
            argv: started.argv,
            directory: PathBuf::from(super::working_directory(pid)),
            env: started.env,
            file: PathBuf::new(),
            notes: plan.notes,
        });
    }
    let mut env = copy_process::environment(pid);
    let (name, text, argv) = match server.kind.as_str() {
        "nginx" => copy_nginx::copied(server, changes, &mut files, &mut plan)?,
        "haproxy" => copy_haproxy::copied(server, changes, &mut files, &mut plan)?,
        "apache" => copy_apache::copied(server, changes, &mut files, &mut plan)?,
        "lighttpd" => copy_lighttpd::copied(server, changes, &mut plan)?,
        "tomcat" => copy_tomcat::copied(server, changes, &mut files, &mut env, &mut plan)?,
        "varnish" => copy_varnish::copied(server, changes, &mut plan)?,
        "caddy" => copy_caddy::copied(server, changes, &mut env, &mut plan)?,
        kind => {
            return refuse(
                &format!(
                    "for {kind} it is not known which files and addresses two instances share"
                ),
                "make the change by hand on a copy of your own and compare with `prony run`",
            );
        }
    };
    if let Some(missing) = files.unavailable.first() {
        return refuse(
            &format!("{}: {}", missing.what, missing.reason),
            &missing.remedy,
        );
    }
    let file = dir.join(name);
    std::fs::write(&file, text).map_err(|e| TargetError::file("writing", &file, &e))?;
    if me == 0 {
        // Workers of another user must be able to reach their temporary files.
        let mode = std::fs::metadata(dir).map_or(0o700, |m| m.mode());
        let open = std::fs::Permissions::from_mode(mode | 0o011);
        std::fs::set_permissions(dir, open)
            .map_err(|e| TargetError::file("changing the mode of", dir, &e))?;
    }
    Ok(CopiedConfig {
        argv,
        directory: PathBuf::from(super::working_directory(pid)),
        env,
        file,
        notes: plan.notes,
    })
}

pub(crate) fn refused(server: &Server, cause: &str, remedy: &str) -> TargetError {
    TargetError::CannotCopy {
        server: server.kind.clone(),
        pid: server.main_pid,
        cause: cause.to_owned(),
        remedy: remedy.to_owned(),
    }
}

/// A change that finds nothing to change.
pub(crate) fn nothing_to_change(server: &Server, change: &ConfigChange) -> TargetError {
    let place = match change.context.as_slice() {
        [] => "the main section".to_owned(),
        context => format!("`{}`", context.join(" > ")),
    };
    refused(
        server,
        &format!("there is no `{}` to change in {place}", change.name),
        "name a section that the configuration has",
    )
}

/// Makes a directory of the copy in which workers write.
pub(crate) fn make_for_workers(server: &Server, path: &str) -> Result<(), TargetError> {
    let path = Path::new(path);
    std::fs::create_dir_all(path).map_err(|e| TargetError::file("creating", path, &e))?;
    let worker = server.processes.iter().find(|p| p.pid != server.main_pid);
    let owner = worker.and_then(|w| std::fs::metadata(format!("{PROC}/{}", w.pid)).ok());
    // Only root may give it away, and only then the workers are somebody else.
    if let Some(owner) = owner {
        let _kept = std::os::unix::fs::chown(path, Some(owner.uid()), Some(owner.gid()));
    }
    Ok(())
}

/// Where things go.
pub(crate) struct Moves {
    pub dir: PathBuf,
    pub serves: SocketAddr,
    pub listen: SocketAddr,
    /// New ports by the old ones.
    pub ports: BTreeMap<u16, u16>,
    pub notes: Vec<String>,
}

impl Moves {
    /// For a test: no port has been given yet.
    #[cfg(test)]
    pub fn sample(dir: &str, serves: &str, listen: &str) -> Self {
        Self {
            dir: dir.into(),
            serves: serves.parse().unwrap(),
            listen: listen.parse().unwrap(),
            ports: BTreeMap::new(),
            notes: Vec::new(),
        }
    }

    /// Where the listener at `ip` (`None`: all addresses) and `port` goes to; `None` when no port is free.
    pub fn address(&mut self, ip: Option<IpAddr>, port: u16) -> Option<SocketAddr> {
        let is_served = port == self.serves.port()
            && ip.is_none_or(|ip| ip.is_unspecified() || ip == self.serves.ip());
        if is_served {
            return Some(self.listen);
        }
        let new = match self.ports.get(&port) {
            Some(new) => *new,
            None => self.apart(port)?.port(),
        };
        Some(SocketAddr::new(Ipv4Addr::LOCALHOST.into(), new))
    }

    /// The same of a listener at a host by its name or address, in brackets or not; empty: all addresses. Of a name
    /// with several addresses the one that serves stands for it. `None` too for a host that is not known.
    pub fn address_of(&mut self, host: &str, port: u16) -> Option<SocketAddr> {
        let host = host.trim_start_matches('[').trim_end_matches(']');
        if host.is_empty() {
            return self.address(None, port);
        }
        let found = (host, port).to_socket_addrs().ok()?;
        let found: Vec<IpAddr> = found.map(|a| a.ip().to_canonical()).collect();
        let serving = found.iter().find(|ip| **ip == self.serves.ip());
        let ip = *serving.or(found.first())?;
        self.address(Some(ip), port)
    }

    /// Where a listener at `port` goes to that is not the one that serves; `None` when no port is free.
    pub fn apart(&mut self, port: u16) -> Option<SocketAddr> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).ok()?;
        let new = listener.local_addr().ok()?;
        self.ports.insert(port, new.port());
        self.notes
            .push(format!("the listener at port {port} is at {new}"));
        Some(new)
    }

    /// `text` where it names a listener of the server itself on this host: it goes to that of the copy.
    pub fn inside(&self, text: &str) -> Option<String> {
        for (old, new) in &self.ports {
            for host in ["127.0.0.1", "localhost"] {
                let from = format!("{host}:{old}");
                if let Some(at) = text.find(&from)
                    && !text[at + from.len()..].starts_with(|c: char| c.is_ascii_digit())
                {
                    let to = format!("127.0.0.1:{new}");
                    return Some(format!("{}{to}{}", &text[..at], &text[at + from.len()..]));
                }
            }
        }
        None
    }

    /// A file of this name in the directory, told apart by its whole path.
    pub fn path(&self, path: &str) -> String {
        let plain: String = path
            .trim_start_matches('/')
            .chars()
            .map(|c| {
                if c.is_ascii_alphanumeric() || ".-_".contains(c) {
                    c
                } else {
                    '_'
                }
            })
            .collect();
        self.dir.join(plain).display().to_string()
    }
}

/// The places, among the directives of one section, of those that a change means. `keyed` says that the first
/// argument belongs to the name. One that is spelled as the change says goes before others of its name.
pub(crate) fn meant<'a>(
    change: &ConfigChange,
    section: impl Iterator<Item = (&'a str, &'a [String])>,
    keyed: bool,
) -> Vec<usize> {
    let exactly = match change.action {
        ChangeAction::Remove => &change.args,
        _ => &change.from,
    };
    let subject = if change.from.is_empty() {
        change.args.first()
    } else {
        change.from.first()
    };
    let of_name: Vec<(usize, &[String])> = section
        .enumerate()
        .filter(|(_, (name, _))| *name == change.name)
        .map(|(at, (_, args))| (at, args))
        .collect();
    let spelled = of_name.iter().filter(|(_, args)| args == exactly);
    let spelled: Vec<usize> = spelled.map(|(at, _)| *at).collect();
    if !exactly.is_empty() && !spelled.is_empty() {
        return spelled;
    }
    let of_subject = |args: &[String]| !keyed || subject.is_none() || subject == args.first();
    let of_subject = of_name.iter().filter(|(_, args)| of_subject(args));
    of_subject.map(|(at, _)| *at).collect()
}
