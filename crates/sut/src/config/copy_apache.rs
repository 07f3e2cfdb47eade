//! A copy of Apache's configuration: one file, with the included ones in their places.
//!
//! Lines are kept as they are written, variables included, except those that name what two instances would share. The
//! surprise is the virtual hosts: each is chosen by the address that a connection came to, so its own addresses follow
//! the listeners that were moved, or the copy would serve another site.

use super::apache::{self, Line, Role};
use super::copy::{
    ChangeAction, ConfigChange, Moves, make_for_workers, meant, nothing_to_change, refused,
};
use super::files::{self, Files};
use crate::error::TargetError;
use record::Server;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;

/// Directives of which there may be several, one for each first argument.
const KEYED: [&str; 12] = [
    "AddHandler",
    "AddType",
    "Alias",
    "BalancerMember",
    "CustomLog",
    "Define",
    "ErrorDocument",
    "Listen",
    "LoadModule",
    "ProxyPass",
    "ProxyPassReverse",
    "SetEnv",
];
/// What an instance has once; the copy's own are given in its first lines.
const OWN: [&str; 4] = ["DefaultRuntimeDir", "LockFile", "PidFile", "ScoreBoardFile"];
/// Directives whose first argument is a file that is written.
const WRITTEN: [&str; 14] = [
    "CustomLog",
    "DavLockDB",
    "ErrorLog",
    "FcgidProcessTableFile",
    "ForensicLog",
    "GlobalLog",
    "JkLogFile",
    "JkShmFile",
    "ScriptLog",
    "ScriptSock",
    "SecAuditLog",
    "SecDebugLog",
    "TransferLog",
    "WSGISocketPrefix",
];
/// Directives whose first argument is a directory in which workers write.
const WRITTEN_IN: [&str; 4] = ["CacheLockPath", "CacheRoot", "FcgidIPCDir", "SecDataDir"];
/// Directives whose first argument is `KIND:PATH(SIZE)`.
const SHARED_CACHES: [&str; 4] = [
    "AuthnCacheSOCache",
    "CacheSocache",
    "SSLSessionCache",
    "SSLStaplingCache",
];

/// Where a `Listen` was and is.
struct Listener {
    /// `None`: all addresses.
    ip: Option<IpAddr>,
    port: u16,
    new: SocketAddr,
}

/// Name and text of the file, and the command line.
pub(crate) fn copied(
    server: &Server,
    changes: &[ConfigChange],
    files: &mut Files,
    moves: &mut Moves,
) -> Result<(&'static str, String, Vec<String>), TargetError> {
    const NAME: &str = "apache.conf";
    let (root, mut lines) = apache::all_lines(server, files);
    // Changes speak of the running server's addresses and files, so they come before those are moved.
    for change in changes {
        if !apply(&mut lines, change) {
            return Err(nothing_to_change(server, change));
        }
    }
    if let Some((cause, remedy)) = shared_beyond_files(&lines) {
        return Err(refused(server, &cause, remedy));
    }
    if let Some(line) = move_listeners(&mut lines, moves) {
        let cause = format!("the address of `{line}` is not known");
        let remedy = "write address and port out, without variables of a macro";
        return Err(refused(server, &cause, remedy));
    }
    move_files(&mut lines, &root, moves);
    for path in directories(&mut lines, &root, moves) {
        make_for_workers(server, &path)?;
    }
    let text = own_lines(moves)
        .into_iter()
        .chain(lines.into_iter().map(|l| l.text));
    let text = text.map(|line| format!("{line}\n")).collect();
    Ok((NAME, text, words(server, &root, &moves.dir.join(NAME))))
}

/// The same program with the same defines, in the foreground.
fn words(server: &Server, root: &str, file: &Path) -> Vec<String> {
    let mut argv = vec![server.exe.clone(), "-d".to_owned(), root.to_owned()];
    let mut defines = super::values_of(&server.command, "-D");
    if !defines.iter().any(|d| d == "FOREGROUND") {
        defines.push("FOREGROUND".to_owned());
    }
    for define in defines {
        argv.extend(["-D".to_owned(), define]);
    }
    argv.extend(server.command.iter().filter(|w| *w == "-X").cloned());
    argv.extend(["-f".to_owned(), file.display().to_string()]);
    argv
}

fn own_lines(moves: &Moves) -> Vec<String> {
    let own = |name: &str| quoted(&moves.dir.join(name).display().to_string());
    vec![
        format!(
            "DefaultRuntimeDir {}",
            quoted(&moves.dir.display().to_string())
        ),
        format!("PidFile {}", own("apache.pid")),
        // Where the main section names one, that comes later and holds.
        format!("ErrorLog {}", own("error.log")),
    ]
}

fn is_named(line: &Line, names: &[&str]) -> bool {
    names
        .iter()
        .any(|name| line.name.eq_ignore_ascii_case(name))
}

/// What two instances would share that no path in the configuration tells: cause and remedy.
fn shared_beyond_files(lines: &[Line]) -> Option<(String, &'static str)> {
    let piped =
        |l: &&Line| is_named(l, &WRITTEN) && l.args.first().is_some_and(|to| to.starts_with('|'));
    if let Some(line) = lines.iter().find(piped) {
        let cause = format!(
            "`{}` logs to a program, and a second one would write where the first does",
            line.text
        );
        return Some((cause, "log to a file while it is examined"));
    }
    let managed = |l: &&Line| is_named(l, &["MDomain", "MDomainSet"]);
    lines.iter().find(managed).map(|line| {
        let cause = format!(
            "`{}` orders certificates, which a copy would do too",
            line.text
        );
        (cause, "give the certificate by SSLCertificateFile")
    })
}

/// Moves every `Listen`, and the addresses of virtual hosts with them; a line whose address is not known.
fn move_listeners(lines: &mut Vec<Line>, moves: &mut Moves) -> Option<String> {
    let mut listeners: Vec<Listener> = Vec::new();
    let mut standing: Vec<(usize, SocketAddr, Vec<String>)> = Vec::new();
    let mut left_out: Vec<usize> = Vec::new();
    for (at, line) in lines.iter_mut().enumerate() {
        if line.role != Role::Says || !is_named(line, &["Listen"]) {
            continue;
        }
        let address = line.args.first().and_then(|a| split_address(a));
        let Some((ip, Some(port))) = address else {
            return Some(line.text.clone());
        };
        let Some(new) = moves.address(ip, port) else {
            return Some(line.text.clone());
        };
        // All and one address fall together, and the server binds each line of its own. What stands under a condition
        // may be one of several that exclude each other, as for two TLS modules.
        let same = |(_, to, around): &(usize, SocketAddr, Vec<String>)| {
            *to == new && line.context.starts_with(around)
        };
        if standing.iter().any(same) {
            left_out.push(at);
        } else {
            let within = |(_, to, around): &(usize, SocketAddr, Vec<String>)| {
                *to == new && around.starts_with(&line.context)
            };
            left_out.extend(standing.iter().filter(|l| within(l)).map(|(at, ..)| *at));
            standing.retain(|l| !within(l));
            standing.push((at, new, line.context.clone()));
            with_first(line, &new.to_string());
        }
        listeners.push(Listener { ip, port, new });
    }
    for line in lines.iter_mut().filter(|l| l.role == Role::Opens) {
        if !is_named(line, &["VirtualHost"]) {
            continue;
        }
        let Some(hosts) = hosts(&line.args, &listeners, moves) else {
            return Some(line.text.clone());
        };
        line.text = format!("<VirtualHost {}>", hosts.join(" "));
    }
    left_out.sort_unstable();
    for at in left_out.into_iter().rev() {
        lines.remove(at);
    }
    for line in lines.iter_mut().filter(|l| is_forwarding(l)) {
        if let Some(text) = moves.inside(&line.text) {
            line.text = text;
        }
    }
    None
}

fn is_forwarding(line: &Line) -> bool {
    let name = line.name.to_ascii_lowercase();
    name.starts_with("proxypass") || is_named(line, &["BalancerMember", "RewriteRule"])
}

/// `80`, `*:80`, `1.2.3.4:80`, `[::]:80`, `1.2.3.4`, `*`, `name:80`: the address unless it is all or a name, and the
/// port unless it is any.
fn split_address(text: &str) -> Option<(Option<IpAddr>, Option<u16>)> {
    if text.chars().all(|c| c.is_ascii_digit()) {
        return Some((None, Some(text.parse().ok()?)));
    }
    let (host, port) = match text.rsplit_once(':') {
        Some((host, "*")) => (host, None),
        Some((host, port)) if !port.ends_with(']') => (host, Some(port.parse().ok()?)),
        _ => (text, None),
    };
    let ip: Option<IpAddr> = host.trim_matches(['[', ']']).parse().ok();
    Some((ip.filter(|ip| !ip.is_unspecified()), port))
}

/// Where a virtual host's addresses have gone to.
fn hosts(args: &[String], listeners: &[Listener], moves: &Moves) -> Option<Vec<String>> {
    let mut found: Vec<String> = Vec::new();
    for arg in args {
        for new in moved_host(arg, listeners, moves)? {
            if !found.contains(&new) {
                found.push(new);
            }
        }
    }
    Some(found)
}

/// One address of a virtual host; as it is where no listener of it was moved, so that it catches nothing.
fn moved_host(arg: &str, listeners: &[Listener], moves: &Moves) -> Option<Vec<String>> {
    let (ip, port) = split_address(arg)?;
    let is_all = ["*", "_default_"]
        .iter()
        .any(|all| arg.split(':').next() == Some(all));
    let ip = match ip {
        None if is_all || arg.starts_with("[::]") || arg.starts_with("0.0.0.0") => None,
        // A name is the address that is served, as far as a copy is concerned.
        other => Some(other.unwrap_or(moves.serves.ip())),
    };
    let reaches = |l: &&Listener| {
        port.is_none_or(|port| port == l.port)
            && ip.is_none_or(|ip| l.ip.unwrap_or(moves.serves.ip()) == ip)
    };
    let reached = listeners.iter().filter(reaches);
    let new: Vec<String> = match (ip, port) {
        (None, None) => vec!["*".to_owned()],
        (None, Some(_)) => reached.map(|l| format!("*:{}", l.new.port())).collect(),
        (Some(_), _) => reached.map(|l| l.new.to_string()).collect(),
    };
    Some(if new.is_empty() {
        vec![arg.to_owned()]
    } else {
        new
    })
}

/// A path that is a file of ours to move: not a service, not a device or descriptor.
fn is_file(path: &str) -> bool {
    !["syslog", "journald", "/dev/", "/proc/"]
        .iter()
        .any(|other| path.starts_with(other))
}

fn move_files(lines: &mut Vec<Line>, root: &str, moves: &Moves) {
    lines.retain(|l| l.role != Role::Says || !is_named(l, &OWN));
    let mut root = root.to_owned();
    for line in lines.iter_mut().filter(|l| l.role == Role::Says) {
        let Some(first) = line.args.first().cloned() else {
            continue;
        };
        let moved = |path: &str| moves.path(&files::join(&root, path).display().to_string());
        if is_named(line, &["ServerRoot"]) {
            root = first;
        } else if is_named(line, &WRITTEN) && is_file(&first) {
            with_first(line, &moved(&first));
        } else if is_named(line, &SHARED_CACHES)
            && let Some((kind, path)) = first.split_once(':')
        {
            let (path, size) = path.split_at(path.find('(').unwrap_or(path.len()));
            with_first(line, &format!("{kind}:{}{size}", moved(path)));
        } else if is_named(line, &["Mutex"])
            && let Some((kind, _)) = first.split_once(':')
        {
            with_first(line, &format!("{kind}:{}", moves.dir.display()));
        }
    }
}

/// Moves directories that workers write in; they are empty in the copy, and have to be made.
fn directories(lines: &mut [Line], root: &str, moves: &mut Moves) -> Vec<String> {
    let mut made = Vec::new();
    for line in lines.iter_mut().filter(|l| is_named(l, &WRITTEN_IN)) {
        let Some(first) = line.args.first().cloned() else {
            continue;
        };
        let new = moves.path(&files::join(root, &first).display().to_string());
        with_first(line, &new);
        let note = format!("{} begins empty: {first}", line.name);
        moves.notes.push(note);
        made.push(new);
    }
    made
}

/// The line with another first argument.
fn with_first(line: &mut Line, first: &str) {
    if let Some(arg) = line.args.first_mut() {
        *arg = first.to_owned();
        line.raw[0] = quoted(first);
        line.text = format!("{} {}", line.name, line.raw.join(" "));
    }
}

/// A word in quotes where it needs them.
fn quoted(word: &str) -> String {
    let needs = |c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '#');
    if !word.is_empty() && !word.contains(needs) {
        return word.to_owned();
    }
    format!("\"{}\"", word.replace('"', "\\\""))
}

fn written(change: &ConfigChange) -> Line {
    let raw: Vec<String> = change.args.iter().map(|a| quoted(a)).collect();
    Line {
        text: format!("{} {}", change.name, raw.join(" ")),
        role: Role::Says,
        name: change.name.clone(),
        args: change.args.clone(),
        raw,
        context: change.context.clone(),
        file: String::new(),
        line: 0,
    }
}

/// Where the lines of every section of that name stand, the last one first; the main section is all.
fn sections(lines: &[Line], context: &[String]) -> Vec<std::ops::Range<usize>> {
    if context.is_empty() {
        return std::iter::once(0..lines.len()).collect();
    }
    let opens = |l: &Line| {
        l.role == Role::Opens && context == [l.context.as_slice(), &[l.label()]].concat()
    };
    let begins = (0..lines.len()).rev().filter(|at| opens(&lines[*at]));
    let end = |at: usize| {
        let closes = |l: &Line| l.role == Role::Closes && l.context == lines[at].context;
        let inside = lines[at + 1..].iter().position(closes);
        inside.map_or(lines.len(), |n| at + 1 + n)
    };
    begins.map(|at| at + 1..end(at)).collect()
}

/// Applies it in every section of that name; false when it found no place.
fn apply(lines: &mut Vec<Line>, change: &ConfigChange) -> bool {
    let keyed = KEYED.iter().any(|k| change.name.eq_ignore_ascii_case(k));
    let mut touched = false;
    for section in sections(lines, &change.context) {
        // What stands in a section within is another's, by the name that nobody has.
        let said = lines[section.clone()].iter().map(|l| {
            let is_it = l.role == Role::Says
                && l.context == change.context
                && l.name.eq_ignore_ascii_case(&change.name);
            let name = if is_it { change.name.as_str() } else { "" };
            (name, l.args.as_slice())
        });
        let found = meant(change, said, keyed);
        let new = written(change);
        match (change.action, found.first()) {
            (ChangeAction::Add, _) | (ChangeAction::Set, None) => lines.insert(section.end, new),
            (ChangeAction::Remove, Some(_)) => {
                for at in found.into_iter().rev() {
                    lines.remove(section.start + at);
                }
            }
            // The last one holds where there are several.
            (_, Some(_)) => {
                for at in found {
                    lines[section.start + at] = new.clone();
                }
            }
            (_, None) => continue,
        }
        touched = true;
    }
    touched
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn lines(text: &str) -> Vec<Line> {
        apache::lines(text, &mut Files::ours())
    }

    fn moves() -> Moves {
        Moves {
            ports: BTreeMap::from([(80, 9080), (443, 9443), (8081, 9081)]),
            ..Moves::sample("/c", "10.0.0.1:80", "127.0.0.1:9000")
        }
    }

    fn texts(lines: &[Line]) -> Vec<&str> {
        lines.iter().map(|l| l.text.as_str()).collect()
    }

    #[test]
    fn listeners_and_virtual_hosts_move_together() {
        for (text, want) in [
            (
                "Listen 80\n<VirtualHost *:80>\n</VirtualHost>",
                "Listen 127.0.0.1:9000|<VirtualHost *:9000>|</VirtualHost>",
            ),
            (
                "listen 0.0.0.0:80 http\nListen [::]:80",
                "listen 127.0.0.1:9000 http",
            ),
            // Two addresses at one port are two sites.
            (
                "Listen 10.0.0.1:80\nListen 10.0.0.2:80\n<VirtualHost 10.0.0.2:80>\n</VirtualHost>\n<VirtualHost *:80 _default_:443>\n</VirtualHost>",
                "Listen 127.0.0.1:9000|Listen 127.0.0.1:9080|<VirtualHost 127.0.0.1:9080>|</VirtualHost>|<VirtualHost *:9000 *:9080 _default_:443>|</VirtualHost>",
            ),
            // Another address of a listener at all of them is not the one that is served.
            (
                "Listen 80\n<VirtualHost 10.0.0.1>\n</VirtualHost>\n<VirtualHost 10.0.0.2:80>\n</VirtualHost>\n<VirtualHost www:*>\n</VirtualHost>",
                "Listen 127.0.0.1:9000|<VirtualHost 127.0.0.1:9000>|</VirtualHost>|<VirtualHost 10.0.0.2:80>|</VirtualHost>|<VirtualHost 127.0.0.1:9000>|</VirtualHost>",
            ),
            // Debian's ports.conf: either module, never both.
            (
                "<IfModule ssl_module>\nListen 443\n</IfModule>\n<IfModule mod_gnutls.c>\nListen 443\n</IfModule>",
                "<IfModule ssl_module>|Listen 127.0.0.1:9443|</IfModule>|<IfModule mod_gnutls.c>|Listen 127.0.0.1:9443|</IfModule>",
            ),
            (
                "<IfDefine A>\nListen [::]:80\n</IfDefine>\nListen 80",
                "<IfDefine A>|</IfDefine>|Listen 127.0.0.1:9000",
            ),
            (
                "Listen 8081\nProxyPass / http://localhost:8081/ retry=0\nProxyPass /b http://127.0.0.1:80810/",
                "Listen 127.0.0.1:9081|ProxyPass / http://127.0.0.1:9081/ retry=0|ProxyPass /b http://127.0.0.1:80810/",
            ),
        ] {
            let mut lines = lines(text);
            assert_eq!(move_listeners(&mut lines, &mut moves()), None, "{text}");
            assert_eq!(texts(&lines).join("|"), want, "{text}");
        }
        for unknown in ["Listen $port", "<VirtualHost *:$port>"] {
            let said = move_listeners(&mut lines(unknown), &mut moves());
            assert_eq!(said.as_deref(), Some(unknown));
        }
    }

    #[test]
    fn what_is_written_goes_to_the_copy() {
        for (line, want) in [
            ("ErrorLog ${no}/e.log", "ErrorLog /c/r___no__e.log"),
            (
                "CustomLog /l/a.log \"%h \\\"%r\\\"\" env=x",
                "CustomLog /c/l_a.log \"%h \\\"%r\\\"\" env=x",
            ),
            ("ErrorLog syslog:local1", "ErrorLog syslog:local1"),
            ("ErrorLog /dev/stderr", "ErrorLog /dev/stderr"),
            ("Mutex file:/run/lock default", "Mutex file:/c default"),
            ("Mutex sem rewrite-map", "Mutex sem rewrite-map"),
            (
                "SSLSessionCache shmcb:/run/s(512000)",
                "SSLSessionCache shmcb:/c/run_s(512000)",
            ),
            ("PidFile /run/p", ""),
            ("DocumentRoot /var/www", "DocumentRoot /var/www"),
        ] {
            let mut lines = lines(line);
            move_files(&mut lines, "/r", &moves());
            assert_eq!(texts(&lines).join("|"), want, "{line}");
        }
    }

    #[test]
    fn what_cannot_be_shared_is_refused_with_cause_and_remedy() {
        for (line, cause) in [
            (
                "CustomLog \"|rotatelogs /l/a 60\" common",
                "logs to a program",
            ),
            ("ErrorLog |cat", "logs to a program"),
            ("MDomain a.test", "orders certificates"),
        ] {
            let (said, remedy) = shared_beyond_files(&lines(line)).expect(line);
            assert!(said.contains(cause) && said.contains(line), "{said}");
            assert!(!remedy.is_empty());
        }
        assert_eq!(shared_beyond_files(&lines("CustomLog a b")), None);
    }

    #[test]
    fn changes_find_their_section() {
        use ChangeAction::{Add, Remove, Replace, Set};
        let text = "keepalive Off\n<Directory /a>\nAllowOverride All\n<IfModule m>\nAllowOverride All\n</IfModule>\n</Directory>\nSetEnv a 1\nSetEnv b 2\nKeepAlive Off";
        let directory: &[&str] = &["Directory /a"];
        for (action, context, words, from, want) in [
            (
                Set,
                &[][..],
                "KeepAlive On",
                "",
                Some("KeepAlive On||||||||SetEnv b 2|KeepAlive On"),
            ),
            (
                Set,
                directory,
                "AllowOverride None",
                "All",
                Some("||AllowOverride None||AllowOverride All"),
            ),
            (
                Set,
                directory,
                "Options None",
                "",
                Some("||||||Options None|</Directory>"),
            ),
            (
                Set,
                &[],
                "SetEnv b 3",
                "",
                Some("|||||||SetEnv a 1|SetEnv b 3"),
            ),
            (
                Add,
                &[],
                "Timeout 5",
                "",
                Some("|||||||||KeepAlive Off|Timeout 5"),
            ),
            (Remove, &[], "SetEnv a", "", Some("|||||||SetEnv b 2")),
            (Replace, &[], "Timeout 5", "", None),
            (Set, &["Directory /b"], "AllowOverride None", "", None),
        ] {
            let mut words = words.split(' ').map(str::to_owned);
            let owned = |words: &[&str]| words.iter().map(|w| (*w).to_owned()).collect();
            let change = ConfigChange {
                action,
                context: owned(context),
                name: words.next().unwrap(),
                args: words.collect(),
                from: from.split_whitespace().map(str::to_owned).collect(),
            };
            let mut lines = lines(text);
            assert_eq!(apply(&mut lines, &change), want.is_some(), "{change:?}");
            for (at, want) in want.unwrap_or_default().split('|').enumerate() {
                assert!(
                    want.is_empty() || lines[at].text == want,
                    "{change:?}: {:?}",
                    texts(&lines)
                );
            }
        }
    }
}
