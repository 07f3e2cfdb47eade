//! Who serves an address: from a listening socket to the server's processes, and on to those behind it.
//!
//! This is the first step of an examination: what monitors watch, what the configuration is read of and what
//! a copy is made of is a [`record::Server`] from here. It only looks. The surprise: the process that holds
//! a listening socket is rarely the whole server. A socket is inherited by workers, shared by several
//! processes with SO_REUSEPORT, held open by a service manager, or belongs to a forwarder of a container
//! engine; so holders are followed up to their common main process and down to all children.

mod consumers;
mod container;
mod elf;
mod libraries;
mod local;
mod namespace;
mod pod;
mod program;
mod unit;
mod upstreams;
mod version;

pub use consumers::other_clients;
pub use container::{Container, Published, Way, container};
pub use libraries::note_versions;
pub use pod::{Pod, PodName, pod};
pub(crate) use program::{read_bounded, words};
pub use upstreams::{listening_at_any, upstreams};
pub(crate) use version::{output as ask, tomcat_number};

use crate::error::TargetError;
use linux::affinity;
use linux::procfs::{self, PROC, Stat};
use linux::sockets::{self, Socket};
use program::Program;
use record::{CONSUMER, Server, ServerProcess, Unavailable};
use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

pub use local::{exists, is_local, listening_at, listening_at_path};

/// Name of the target behind the URL.
const SERVER: &str = "server";

/// The server that a connection to `address` reaches: the holders of its listening sockets, their main process
/// and all children. `None` when nothing listens there that this user may see, or it is not on this host.
pub fn behind(address: SocketAddr) -> Option<Server> {
    Look::take().behind(address, SERVER)
}

/// The server that a connection to the Unix socket of this path reaches.
pub fn behind_unix(path: &Path) -> Option<Server> {
    let look = Look::take();
    let holders = look.holders_of(unix_listeners(path).into_iter());
    (!holders.is_empty()).then(|| look.listening(&holders, SERVER))
}

/// Inodes of the sockets that listen at a path. The kernel knows them by the path that the server gave, which is taken
/// to be absolute, or the same as the one asked for.
fn unix_listeners(path: &Path) -> Vec<u64> {
    let real = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let is_asked = |name: &str| {
        let name = Path::new(name);
        name == path || name == real || std::fs::canonicalize(name).is_ok_and(|it| it == real)
    };
    let all = sockets::unix().into_iter();
    all.filter(|s| s.listens && is_asked(&s.name))
        .map(|s| s.inode)
        .collect()
}

/// The server that listens on a port, on whatever address.
pub fn on_port(port: u16) -> Option<Server> {
    behind(SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), port))
}

/// These processes with all their children as one server. Those that have ended are named in `unavailable`.
pub fn of_pids(pids: &[i32], name: &str) -> Server {
    Look::take().of_pids(pids, name)
}

/// The processes of a systemd unit, or of a cgroup (a path from the cgroup root, as in `/proc/PID/cgroup`).
///
/// # Errors
/// [`TargetError::NoUnit`] when no process is in such a cgroup.
pub fn of_unit(name: &str) -> Result<Server, TargetError> {
    let pids = unit::pids(Path::new(PROC), name)?;
    Ok(of_pids(&pids, SERVER))
}

/// Value of `-Dname=value` in a Java command line; the last one counts.
pub(crate) fn property(argv: &[String], name: &str) -> Option<String> {
    let value = |a: &String| {
        let rest = a.strip_prefix("-D")?.strip_prefix(name)?;
        rest.strip_prefix('=').map(str::to_owned)
    };
    argv.iter().rev().find_map(value)
}

/// What was seen at one moment: processes, listening sockets, and who holds them.
pub(crate) struct Look {
    processes: BTreeMap<i32, Stat>,
    listeners: Vec<Socket>,
    holders: BTreeMap<u64, Vec<i32>>,
    /// This user may not see everybody's descriptors.
    is_partial: bool,
}

impl Look {
    pub fn take() -> Self {
        let root = Path::new(PROC);
        let listeners = sockets::tcp(root, sockets::LISTEN);
        let unix = sockets::unix();
        let inodes = listeners
            .iter()
            .map(|s| s.inode)
            .chain(unix.iter().filter(|s| s.listens).map(|s| s.inode))
            .collect();
        let processes: BTreeMap<i32, Stat> = procfs::living(root)
            .into_iter()
            .map(|s| (s.pid, s))
            .collect();
        let pids: Vec<i32> = processes.keys().copied().collect();
        Self {
            holders: sockets::holders(root, &inodes, &pids),
            is_partial: !pids.iter().all(|pid| sockets::may_look(root, *pid)),
            processes,
            listeners,
        }
    }

    pub fn behind(&self, address: SocketAddr, name: &str) -> Option<Server> {
        let found = best(&self.listeners, address);
        let holders = self.holders_of(found.iter().map(|s| s.inode));
        if holders.is_empty() {
            let pids = namespace::holders(&self.processes, address.ip(), address.port());
            return (!pids.is_empty()).then(|| self.in_namespace(&pids, name));
        }
        let mut server = self.listening(&holders, name);
        let forwarded = server
            .command
            .first()
            .is_some_and(|_| server.kind == "docker-proxy");
        if forwarded && let Some((ip, port)) = namespace::forwarded_to(&server.command) {
            let pids = namespace::holders(&self.processes, ip, port);
            if !pids.is_empty() {
                return Some(self.in_namespace(&pids, name));
            }
            server.unavailable.push(Unavailable {
                what: "processes behind the container's forwarder".to_owned(),
                reason: format!(
                    "docker-proxy passes the port on to {ip}:{port}, and no process that is visible here listens there"
                ),
                remedy: "run as root in the host's PID namespace, or give --pid".to_owned(),
            });
        }
        Some(server)
    }

    /// A server in another network namespace, whose sockets nobody watches.
    fn in_namespace(&self, pids: &[i32], name: &str) -> Server {
        let mut server = self.server(pids, name);
        let main = server.main_pid;
        server.unavailable.push(Unavailable {
            what: "listen queues and TCP state by socket".to_owned(),
            reason: format!("process {main} is in another network namespace"),
            remedy: format!("run prony in it: nsenter -t {main} -n"),
        });
        server
    }

    pub fn of_pids(&self, pids: &[i32], name: &str) -> Server {
        let (alive, gone): (Vec<i32>, Vec<i32>) =
            pids.iter().partition(|p| self.processes.contains_key(*p));
        let mut server = if alive.is_empty() {
            Server {
                target: name.to_owned(),
                kind: "generic".to_owned(),
                ..Server::default()
            }
        } else {
            self.server(&alive, name)
        };
        server
            .unavailable
            .extend(gone.iter().map(|pid| Unavailable {
                what: format!("process {pid}"),
                reason: "there is no such process".to_owned(),
                remedy: "look for its number again, for example with pgrep".to_owned(),
            }));
        server
    }

    /// Who holds one of these sockets. The service manager keeps the sockets that it hands out: it is not the server.
    pub fn holders_of(&self, inodes: impl Iterator<Item = u64>) -> Vec<i32> {
        let all: BTreeSet<i32> = inodes
            .filter_map(|inode| self.holders.get(&inode))
            .flatten()
            .copied()
            .collect();
        let is_manager =
            |pid: &i32| *pid == 1 || self.processes.get(pid).is_some_and(|s| s.name == "systemd");
        let (managers, servers): (Vec<i32>, Vec<i32>) = all.into_iter().partition(is_manager);
        if servers.is_empty() {
            managers
        } else {
            servers
        }
    }

    /// Follows the processes up to their main one and down to all children, and describes them.
    pub fn server(&self, holders: &[i32], name: &str) -> Server {
        let tops = self.tops(holders);
        self.described(&tops, &self.with_children(&tops, |_| false), name)
    }

    /// The same of those that hold a listening socket, without programs that they started and that serve at sockets of
    /// their own: these are servers behind it (Passenger's agent in Apache, php-cgi).
    pub fn listening(&self, holders: &[i32], name: &str) -> Server {
        let tops = self.tops(holders);
        let programs: Vec<PathBuf> = tops.iter().filter_map(|top| exe(*top)).collect();
        let serves = |pid: i32| {
            let mut held = self.holders.values().filter(|pids| pids.contains(&pid));
            held.any(|pids| tops.iter().all(|top| !pids.contains(top)))
        };
        let members = self.with_children(&tops, |pid| {
            exe(pid).is_some_and(|program| !programs.contains(&program)) && serves(pid)
        });
        self.described(&tops, &members, name)
    }

    /// A process of another program, as the consumer of a server.
    fn consumer(&self, pid: i32) -> Option<ServerProcess> {
        let root = Path::new(PROC);
        let program = Program::of(root, pid);
        let kind = program.kind(|| None);
        let allocator = program.allocator(kind, || None);
        let stat = self.processes.get(&pid)?;
        Some(ServerProcess {
            role: CONSUMER.to_owned(),
            ..process(root, stat, pid, &program, kind, &allocator)
        })
    }

    fn tops(&self, holders: &[i32]) -> BTreeSet<i32> {
        holders.iter().map(|pid| self.top(*pid)).collect()
    }

    fn described(&self, tops: &BTreeSet<i32>, members: &BTreeSet<i32>, name: &str) -> Server {
        let root = Path::new(PROC);
        // The oldest founds the server: by start, as process numbers wrap around.
        let main = tops
            .iter()
            .copied()
            .min_by_key(|pid| {
                let start = self.processes.get(pid).map_or(u64::MAX, |s| s.start_ticks);
                (start, *pid)
            })
            .unwrap_or_default();
        let program = Program::of(root, main);
        let read = OnceCell::new();
        let exe_bytes = || {
            read.get_or_init(|| program::exe_bytes(root, main))
                .as_deref()
        };
        let kind = program.kind(exe_bytes);
        let allocator = program.allocator(kind, exe_bytes);
        let mut server = Server {
            target: name.to_owned(),
            kind: kind.to_owned(),
            version: version::of(root, main, kind, &program, exe_bytes),
            exe: program.exe.clone(),
            command: program.argv.clone(),
            main_pid: main,
            listens: self.listens(members),
            ..Server::default()
        };
        for pid in std::iter::once(&main).chain(members.iter().filter(|p| **p != main)) {
            if let Some(stat) = self.processes.get(pid) {
                server
                    .processes
                    .push(process(root, stat, main, &program, kind, &allocator));
            }
        }
        self.note_hidden(&mut server);
        // Its sockets are not in this namespace's tables.
        if namespace::is_another(main) {
            server.listens = namespace::listens(main);
        }
        server
    }

    fn note_hidden(&self, server: &mut Server) {
        if server.exe.is_empty() || !sockets::may_look(Path::new(PROC), server.main_pid) {
            server.unavailable.push(Unavailable {
                what: "executable, mappings and descriptors".to_owned(),
                reason: format!("process {} belongs to another user", server.main_pid),
                remedy: "run as root, or as the server's user".to_owned(),
            });
        } else if self.is_partial {
            server.unavailable.push(Unavailable {
                what: "sockets of other users' processes".to_owned(),
                reason: "their descriptors are not visible to this user".to_owned(),
                remedy: "run as root".to_owned(),
            });
        }
    }

    /// The topmost process of the same server: a parent belongs when it holds a listening socket of its child,
    /// or runs the same program. An interpreter's name says nothing, so there only the socket counts. prony starts
    /// its own origin, which runs the same program, and is no part of it.
    fn top(&self, pid: i32) -> i32 {
        let me = i32::try_from(std::process::id()).unwrap_or_default();
        let mut at = pid;
        while let Some(stat) = self.processes.get(&at) {
            let parent = stat.parent;
            let Some(above) = self.processes.get(&parent) else {
                break;
            };
            if parent <= 1 || parent == me || above.name == "systemd" {
                break;
            }
            let shares = self
                .holders
                .values()
                .any(|pids| pids.contains(&at) && pids.contains(&parent));
            let is_same = || {
                exe(at).is_some_and(|e| Some(&e) == exe(parent).as_ref())
                    && !Program {
                        exe: exe(at).map(|p| p.display().to_string()).unwrap_or_default(),
                        ..Program::default()
                    }
                    .is_interpreter()
            };
            if !shares && !is_same() {
                break;
            }
            at = parent;
        }
        at
    }

    /// These and all that they have started, except prony itself, which may have been started by the server, and what
    /// is apart with its own children.
    fn with_children(&self, tops: &BTreeSet<i32>, is_apart: impl Fn(i32) -> bool) -> BTreeSet<i32> {
        let me = i32::try_from(std::process::id()).unwrap_or_default();
        let mut members = tops.clone();
        loop {
            let before = members.len();
            for stat in self.processes.values() {
                let is_new = members.contains(&stat.parent) && !members.contains(&stat.pid);
                if is_new && stat.pid != me && !is_apart(stat.pid) {
                    members.insert(stat.pid);
                }
            }
            if members.len() == before {
                return members;
            }
        }
    }

    fn listens(&self, members: &BTreeSet<i32>) -> Vec<String> {
        let is_theirs = |s: &&Socket| {
            self.holders
                .get(&s.inode)
                .is_some_and(|pids| pids.iter().any(|pid| members.contains(pid)))
        };
        let addresses: BTreeSet<SocketAddr> = self
            .listeners
            .iter()
            .filter(is_theirs)
            .map(|s| s.local)
            .collect();
        addresses.iter().map(SocketAddr::to_string).collect()
    }
}

/// The program that a process runs.
fn exe(pid: i32) -> Option<PathBuf> {
    std::fs::read_link(format!("{PROC}/{pid}/exe")).ok()
}

/// The listening sockets that the kernel would choose for a connection to `address`: those bound to the very
/// address before wildcards, the own family before the other (inet_lookup_listener). An unspecified address takes all.
fn best(listeners: &[Socket], address: SocketAddr) -> Vec<Socket> {
    let ip = address.ip().to_canonical();
    let rank = |s: &Socket| {
        let bound = s.local.ip();
        if s.local.port() != address.port() {
            None
        } else if ip.is_unspecified() || bound == ip {
            Some(0)
        } else if !bound.is_unspecified() {
            None
        } else if bound.is_ipv4() == ip.is_ipv4() {
            Some(1)
        } else {
            // An IPv6 wildcard takes IPv4 as well, not the other way round.
            bound.is_ipv6().then_some(2)
        }
    };
    // A wildcard listener serves the addresses of this host only.
    let is_here = ip.is_loopback() || is_own_address(ip);
    let lowest = listeners.iter().filter_map(rank).min();
    listeners
        .iter()
        .filter(|s| rank(s) == lowest && lowest.is_some())
        .filter(|s| s.local.ip() == ip || ip.is_unspecified() || is_here)
        .copied()
        .collect()
}

/// Is it an address of this host? The kernel lets a socket be bound to its own addresses only.
fn is_own_address(ip: IpAddr) -> bool {
    std::net::UdpSocket::bind((ip, 0)).is_ok()
}

fn process(
    root: &Path,
    stat: &Stat,
    main: i32,
    program: &Program,
    kind: &str,
    allocator: &str,
) -> ServerProcess {
    let pid = stat.pid;
    let read = |file: &str| {
        let bytes = read_bounded(&root.join(format!("{pid}/{file}"))).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    };
    let exe = std::fs::read_link(root.join(format!("{pid}/exe"))).ok();
    let is_same_program = exe.is_none_or(|e| e.to_str() == Some(program.exe.as_str()));
    let role = if pid == main {
        "main"
    } else if !is_same_program || is_helper(&words(root, pid, "cmdline").join(" ")) {
        "helper"
    } else {
        "worker"
    };
    let own = || {
        let own = Program::of(root, pid);
        let kind = own.kind(|| None);
        own.allocator(kind, || None)
    };
    ServerProcess {
        pid,
        parent: stat.parent,
        role: role.to_owned(),
        name: stat.name.clone(),
        cpus: affinity::of(pid).unwrap_or_default(),
        nice: nice(&read("stat")).unwrap_or_default(),
        open_files_limit: open_files_limit(&read("limits")),
        cgroups: read("cgroup").lines().map(str::to_owned).collect(),
        allocator: if is_same_program || kind == "go" {
            allocator.to_owned()
        } else {
            own()
        },
    }
}

/// Processes that serve nothing say so in their titles: nginx's cache manager and loader, Python's trackers.
fn is_helper(title: &str) -> bool {
    const TITLES: [&str; 3] = [
        "nginx: cache ",
        "multiprocessing.resource_tracker",
        "nginx: privileged agent",
    ];
    TITLES.iter().any(|t| title.contains(t))
}

/// Field 19 of proc_pid_stat(5); the name before may hold anything, so counting starts behind it.
fn nice(stat: &str) -> Option<i32> {
    let (_, rest) = stat.rsplit_once(") ")?;
    rest.split_whitespace().nth(19 - 3)?.parse().ok()
}

/// Soft limit; `None` when it is unlimited or not visible.
fn open_files_limit(limits: &str) -> Option<u64> {
    let line = limits
        .lines()
        .find_map(|l| l.strip_prefix("Max open files"))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    fn at(text: &str) -> Socket {
        Socket {
            local: text.parse().unwrap(),
            remote: "0.0.0.0:0".parse().unwrap(),
            inode: 1,
        }
    }

    #[test]
    fn the_kernels_choice_of_a_listener() {
        let all = [
            at("127.0.0.1:80"),
            at("0.0.0.0:80"),
            at("[::]:80"),
            at("[::]:81"),
            at("0.0.0.0:82"),
        ];
        for (address, want) in [
            ("127.0.0.1:80", vec!["127.0.0.1:80"]),
            ("127.0.0.2:80", vec!["0.0.0.0:80"]),
            ("[::1]:80", vec!["[::]:80"]),
            ("127.0.0.1:81", vec!["[::]:81"]),
            ("[::1]:82", vec![]),
            ("127.0.0.1:83", vec![]),
            ("0.0.0.0:80", vec!["127.0.0.1:80", "0.0.0.0:80", "[::]:80"]),
            ("192.0.2.1:80", vec![]), // documentation address: never this host's
        ] {
            let found: Vec<String> = best(&all, address.parse().unwrap())
                .iter()
                .map(|s| s.local.to_string())
                .collect();
            assert_eq!(found, want, "{address}");
        }
    }

    #[test]
    fn this_process_is_found_behind_its_socket() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = behind(address).unwrap();
        let me = i32::try_from(std::process::id()).unwrap();
        assert!(server.processes.iter().any(|p| p.pid == me), "{server:?}");
        assert!(server.listens.contains(&address.to_string()));
        assert_eq!(server.kind, "generic");
        let own = server.processes.iter().find(|p| p.pid == me).unwrap();
        assert_eq!(own.cpus, affinity::of(0).unwrap());
        assert!(!own.cgroups.is_empty());
        assert_eq!(own.allocator, "glibc");
        drop(listener);
        assert!(behind(address).is_none());
        assert_eq!(on_port(address.port()), None);
    }

    #[test]
    fn a_process_that_is_gone_is_said() {
        let server = of_pids(&[i32::MAX], "s");
        assert_eq!(server.processes, []);
        assert_eq!(server.unavailable[0].what, "process 2147483647");
    }

    #[test]
    fn fields_of_stat_and_limits() {
        let stat = "42 (a) b) S 7 42 41 0 -1 4194560 1 0 0 0 0 0 0 0 20 -5 1 0 98765 1 2 3";
        assert_eq!(nice(stat), Some(-5));
        let line =
            "Max open files            1024                 524288               files     \n";
        assert_eq!(open_files_limit(line), Some(1024));
        assert_eq!(
            open_files_limit("Max open files unlimited unlimited files"),
            None
        );
        let argv = [
            "-Da.b=1".to_owned(),
            "-Da.b=2".to_owned(),
            "-Da.bc=3".to_owned(),
        ];
        assert_eq!(property(&argv, "a.b").as_deref(), Some("2"));
    }
}
