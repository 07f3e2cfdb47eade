//! Whom servers connect to, by their established connections at this moment, and who is behind those on this host.
//!
//! A connection whose local port is not listened on was opened by the server. The surprise: that the peer is on
//! this host is not told by its address but by its socket: only then is the other end in the same table.

use super::Look;
use linux::procfs::PROC;
use linux::sockets::{self, ESTABLISHED, Socket, UnixSocket};
use record::{Server, UpstreamPeer};
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::Path;

/// Port of name servers.
const DNS: u16 = 53;

/// Peers of the servers with their connections, most connections first, and the server behind each where it is on
/// this host: named `upstream-PORT`, or `upstream-FILE` for a Unix socket. Several peers may lead to one
/// server; it then has one name and is given with each. A peer that is one of `servers` itself has its name and no
/// server. Connections among a server's own processes and to this process do not count. A name server that is
/// asked over connected UDP is listed by address only.
pub fn upstreams(servers: &[Server]) -> Vec<(UpstreamPeer, Option<Server>)> {
    let root = Path::new(PROC);
    let me = i32::try_from(std::process::id()).unwrap_or_default();
    let mine = sockets::inodes_of(root, me);
    let held = |server: &Server| -> BTreeSet<u64> {
        let pids = server.processes.iter().map(|p| p.pid);
        pids.filter(|pid| *pid != me)
            .flat_map(|pid| sockets::inodes_of(root, pid))
            .collect()
    };
    // A connection for one request is gone before both tables are read: whoever holds it is asked before and after.
    let before: Vec<BTreeSet<u64>> = servers.iter().map(held).collect();
    let unix = sockets::unix();
    let tcp = sockets::tcp(root, ESTABLISHED);
    let udp = sockets::udp();
    let mut tcp_peers: BTreeMap<SocketAddr, (u64, bool)> = BTreeMap::new();
    let mut unix_peers: BTreeMap<String, u64> = BTreeMap::new();
    let mut resolvers: BTreeMap<SocketAddr, u64> = BTreeMap::new();
    for (server, mut own) in servers.iter().zip(before) {
        own.extend(held(server));
        for (peer, is_here) in outgoing(&tcp, &own, &mine, &ports(server)) {
            let entry = tcp_peers.entry(peer).or_default();
            entry.0 += 1;
            entry.1 |= is_here;
        }
        for name in outgoing_unix(&unix, &own, &mine) {
            *unix_peers.entry(name).or_default() += 1;
        }
        // A connection for each request is seldom met; who listens where the configuration sends requests always is.
        for path in configured_unix(server) {
            if unix.iter().any(|s| s.listens && s.name == path) {
                unix_peers.entry(path).or_default();
            }
        }
        for socket in udp.iter().filter(|s| own.contains(&s.inode)) {
            if socket.remote.port() == DNS {
                *resolvers.entry(socket.remote).or_default() += 1;
            }
        }
    }
    let mut names = Names::new(servers);
    let look = Look::take();
    let mut seen: Vec<Seen> = Vec::new();
    for (address, (connections, is_here)) in tcp_peers {
        let is_elsewhere = address.ip().is_loopback() && !is_here;
        let behind = (!is_elsewhere)
            .then(|| look.behind(address, ""))
            .flatten()
            .filter(|s| s.main_pid != me);
        let at = address.port().to_string();
        seen.push((address.to_string(), at, connections, behind));
    }
    for (path, connections) in unix_peers {
        let inodes = unix
            .iter()
            .filter(|s| s.listens && s.name == path)
            .map(|s| s.inode);
        let holders = look.holders_of(inodes);
        let behind = (!holders.is_empty()).then(|| look.listening(&holders, ""));
        let file = path.rsplit('/').next().unwrap_or(&path).to_owned();
        seen.push((path, file, connections, behind));
    }
    seen.extend(beside(&seen, &unix, &look));
    let mains = gathered(&seen);
    let mut found = Vec::new();
    for (address, at, connections, behind) in seen {
        let behind = behind.map(|server| mains.get(&server.main_pid).cloned().unwrap_or(server));
        found.push(peer(address, connections, names.give(behind, &at)));
    }
    for (address, connections) in resolvers {
        found.push(peer(address.to_string(), connections, (None, None)));
    }
    found.sort_by_key(|(peer, _)| (std::cmp::Reverse(peer.connections), peer.address.clone()));
    found
}

/// The same of addresses that the servers are known to have asked, as far as somebody on this host listens there: a
/// connection for each request may be gone at every look.
pub fn listening_at_any(
    servers: &[Server],
    asked: &[SocketAddr],
) -> Vec<(UpstreamPeer, Option<Server>)> {
    let here: Vec<SocketAddr> = (asked.iter().copied())
        .filter(|at| super::is_local(*at))
        .collect();
    // To look goes through all processes, and is not needed where everybody is elsewhere.
    if here.is_empty() {
        return Vec::new();
    }
    let me = i32::try_from(std::process::id()).unwrap_or_default();
    let look = Look::take();
    let mut names = Names::new(servers);
    let found = here.into_iter().filter_map(|at| {
        let behind = look.behind(at, "").filter(|s| s.main_pid != me)?;
        let name = names.give(Some(behind), &at.port().to_string());
        Some(peer(at.to_string(), 0, name))
    });
    found.collect()
}

/// A peer before it has a name: address, what its name ends with, connections, who is behind.
type Seen = (String, String, u64, Option<Server>);

/// Further Unix sockets of servers that were met at one of the same directory: whoever hands requests to one of a pool
/// is seldom met at all of them.
fn beside(seen: &[Seen], unix: &[UnixSocket], look: &Look) -> Vec<Seen> {
    let directory = |path: &str| {
        path.rsplit_once('/')
            .map(|(directory, _)| directory.to_owned())
    };
    let met: BTreeSet<String> = seen
        .iter()
        .filter_map(|(path, ..)| directory(path))
        .collect();
    let is_new = |s: &&UnixSocket| {
        let is_near = directory(&s.name).is_some_and(|d| met.contains(&d));
        s.listens && is_near && seen.iter().all(|(path, ..)| *path != s.name)
    };
    let near = unix.iter().filter(is_new).filter_map(|socket| {
        let holders = look.holders_of(std::iter::once(socket.inode));
        let server = (!holders.is_empty()).then(|| look.listening(&holders, ""))?;
        let is_like = |(path, _, _, other): &Seen| {
            let other = other.as_ref().filter(|o| o.exe == server.exe);
            other.is_some() && directory(path) == directory(&socket.name)
        };
        let file = socket
            .name
            .rsplit('/')
            .next()
            .unwrap_or_default()
            .to_owned();
        let is_one = seen.iter().any(is_like);
        is_one.then(|| (socket.name.clone(), file, 0, Some(server)))
    });
    near.collect()
}

/// Servers that stand for others, by the main process of these: one that has it among its own processes, or of several
/// that one process has started at sockets of one directory the first, with the processes of all (the applications of
/// Passenger, which hands each request to one that is free).
fn gathered(seen: &[Seen]) -> BTreeMap<i32, Server> {
    let servers = || {
        seen.iter()
            .filter_map(|(path, .., server)| Some((path, server.as_ref()?)))
    };
    let holder_of = |server: &Server| {
        let holds = |other: &Server| {
            other.main_pid != server.main_pid
                && other.processes.iter().any(|p| p.pid == server.main_pid)
        };
        servers().map(|(_, other)| other).find(|other| holds(other))
    };
    let mut mains: BTreeMap<i32, Server> = BTreeMap::new();
    let mut pools: BTreeMap<(&str, &str, i32), Server> = BTreeMap::new();
    let mut pooled: Vec<(i32, (&str, &str, i32))> = Vec::new();
    for (path, server) in servers() {
        if holder_of(server).is_some() {
            continue;
        }
        let main = server.processes.iter().find(|p| p.pid == server.main_pid);
        let parent = main.map_or(0, |p| p.parent);
        let Some((directory, _)) = path.rsplit_once('/').filter(|_| parent > 1) else {
            continue;
        };
        let key = (directory, server.exe.as_str(), parent);
        let pool = pools.entry(key).or_insert_with(|| server.clone());
        for process in &server.processes {
            if pool.processes.iter().all(|p| p.pid != process.pid) {
                pool.processes.push(process.clone());
            }
        }
        pooled.push((server.main_pid, key));
    }
    for (main, key) in pooled {
        mains.insert(main, pools[&key].clone());
    }
    for (_, server) in servers() {
        if let Some(holder) = holder_of(server) {
            let stands = mains.get(&holder.main_pid).unwrap_or(holder);
            mains.insert(server.main_pid, stands.clone());
        }
    }
    mains
}

fn peer(
    address: String,
    connections: u64,
    (target, server): (Option<String>, Option<Server>),
) -> (UpstreamPeer, Option<Server>) {
    let peer = UpstreamPeer {
        address,
        connections,
        target,
    };
    (peer, server)
}

pub(super) fn ports(server: &Server) -> BTreeSet<u16> {
    server
        .listens
        .iter()
        .filter_map(|text| Some(text.parse::<SocketAddr>().ok()?.port()))
        .collect()
}

/// Inodes by local and remote end: the other end of a socket has them the other way round, where it is on this host.
pub(super) fn by_ends(all: &[Socket]) -> BTreeMap<(SocketAddr, SocketAddr), u64> {
    all.iter().map(|s| ((s.local, s.remote), s.inode)).collect()
}

/// Peers of the connections that the holder of `own` has opened, one for each connection, and whether the other
/// end is on this host. `mine` are this process's sockets.
fn outgoing(
    all: &[Socket],
    own: &BTreeSet<u64>,
    mine: &BTreeSet<u64>,
    listens: &BTreeSet<u16>,
) -> Vec<(SocketAddr, bool)> {
    let by_ends = by_ends(all);
    all.iter()
        .filter(|s| own.contains(&s.inode) && !listens.contains(&s.local.port()))
        .filter_map(|s| {
            let other_end = by_ends.get(&(s.remote, s.local));
            let is_self = other_end.is_some_and(|i| own.contains(i) || mine.contains(i));
            (!is_self).then_some((s.remote, other_end.is_some()))
        })
        .collect()
}

/// Names of the Unix sockets that the holder of `own` has connected to, one for each connection. A nameless peer
/// is a pair within a program.
fn outgoing_unix(all: &[UnixSocket], own: &BTreeSet<u64>, mine: &BTreeSet<u64>) -> Vec<String> {
    let by_inode: BTreeMap<u64, &UnixSocket> = all.iter().map(|s| (s.inode, s)).collect();
    all.iter()
        .filter(|s| own.contains(&s.inode) && s.name.is_empty())
        .filter_map(|s| by_inode.get(&s.peer))
        .filter(|p| !p.name.is_empty() && !own.contains(&p.inode) && !mine.contains(&p.inode))
        .map(|p| p.name.clone())
        .collect()
}

/// Unix sockets that the configuration names as peers: `fastcgi_pass unix:/run/app.sock`,
/// `proxy:unix:/run/app.sock|fcgi://`.
fn configured_unix(server: &Server) -> Vec<String> {
    let words = server
        .directives
        .iter()
        .filter(|d| !d.name.starts_with("listen") && d.name != "bind");
    let named = words.flat_map(|d| &d.args).filter_map(|arg| {
        let (_, path) = arg.split_once("unix:")?;
        let path = path.split(['|', ':', ';']).next()?;
        path.starts_with('/').then(|| path.to_owned())
    });
    named.collect()
}

/// Names of upstream servers: one for each main process, no name twice.
struct Names {
    by_main: BTreeMap<i32, (String, Option<Server>)>,
    taken: BTreeSet<String>,
}

impl Names {
    fn new(servers: &[Server]) -> Self {
        let known = |s: &Server| (s.main_pid, (s.target.clone(), None));
        Self {
            by_main: servers.iter().map(known).collect(),
            taken: servers.iter().map(|s| s.target.clone()).collect(),
        }
    }

    fn give(&mut self, server: Option<Server>, at: &str) -> (Option<String>, Option<Server>) {
        let Some(mut server) = server else {
            return (None, None);
        };
        if let Some((name, server)) = self.by_main.get(&server.main_pid) {
            return (Some(name.clone()), server.clone());
        }
        let plain = format!("upstream-{at}");
        // Two servers may listen on one port of different addresses.
        let name = std::iter::once(plain.clone())
            .chain((2u32..).map(|n| format!("{plain}-{n}")))
            .find(|name| !self.taken.contains(name))
            .unwrap_or(plain);
        server.target.clone_from(&name);
        self.taken.insert(name.clone());
        self.by_main
            .insert(server.main_pid, (name.clone(), Some(server.clone())));
        (Some(name), Some(server))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn socket(local: &str, remote: &str, inode: u64) -> Socket {
        Socket {
            local: local.parse().unwrap(),
            remote: remote.parse().unwrap(),
            inode,
        }
    }

    #[test]
    fn only_connections_that_the_server_opened_to_others() {
        let all = [
            socket("127.0.0.1:80", "127.0.0.1:5000", 1), // a client of ours
            socket("127.0.0.1:5000", "127.0.0.1:80", 90), // that client: this process
            socket("127.0.0.1:6000", "127.0.0.1:8080", 2), // to a backend here
            socket("127.0.0.1:8080", "127.0.0.1:6000", 50),
            socket("10.0.0.1:6001", "10.0.0.2:8080", 3), // to a backend elsewhere
            socket("127.0.0.1:6002", "127.0.0.1:80", 4), // to itself
            socket("127.0.0.1:80", "127.0.0.1:6002", 5),
            socket("127.0.0.1:6003", "127.0.0.1:7000", 6), // to this process
            socket("127.0.0.1:7000", "127.0.0.1:6003", 91),
        ];
        let own = BTreeSet::from([1, 2, 3, 4, 5, 6]);
        let mine = BTreeSet::from([90, 91]);
        let found = outgoing(&all, &own, &mine, &BTreeSet::from([80]));
        assert_eq!(
            found,
            [
                ("127.0.0.1:8080".parse().unwrap(), true),
                ("10.0.0.2:8080".parse().unwrap(), false),
            ]
        );
    }

    #[test]
    fn a_programs_pool_behind_sockets_of_one_directory_is_one_server() {
        let server = |main_pid, parent, others: &[i32]| {
            let process = |pid| record::ServerProcess {
                pid,
                parent,
                ..Default::default()
            };
            let pids = std::iter::once(&main_pid).chain(others);
            Some(Server {
                main_pid,
                exe: "/usr/bin/ruby".to_owned(),
                processes: pids.map(|pid| process(*pid)).collect(),
                ..Server::default()
            })
        };
        let seen = |path: &str, server| (path.to_owned(), String::new(), 1, server);
        let all = [
            seen("/run/apps/a", server(10, 5, &[])),
            seen("/run/apps/b", server(11, 5, &[])),
            seen("/run/apps/c", server(12, 6, &[])), // another one's
            seen("/run/db/d", server(13, 5, &[])),   // of another kind
            seen("/run/apps/spawner", server(20, 5, &[21])),
            seen("/run/apps/e", server(21, 20, &[])),
            seen("127.0.0.1:80", server(30, 5, &[])),
            seen("/run/apps/gone", None),
        ];
        let mains = gathered(&all);
        let of = |main: i32| {
            let server = mains.get(&main)?;
            let pids = server.processes.iter().map(|p| p.pid);
            Some((server.main_pid, pids.collect::<Vec<_>>()))
        };
        assert_eq!(of(10), Some((10, vec![10, 11, 20, 21])));
        assert_eq!(of(11), of(10));
        assert_eq!(of(20), of(10));
        assert_eq!(of(12), Some((12, vec![12])));
        assert_eq!(of(13), Some((13, vec![13])));
        assert_eq!(of(21), of(10));
        assert_eq!(of(30), None);
    }

    #[test]
    fn unix_peers_by_the_name_of_the_other_end() {
        let unix = |name: &str, inode, peer| UnixSocket {
            name: name.to_owned(),
            inode,
            peer,
            listens: false,
        };
        let all = [
            unix("", 1, 10),
            unix("/run/app.sock", 10, 1),
            unix("/run/own.sock", 2, 11), // accepted here
            unix("", 11, 2),
            unix("", 3, 4), // a pair
            unix("", 4, 3),
        ];
        let own = BTreeSet::from([1, 2, 3, 4]);
        assert_eq!(
            outgoing_unix(&all, &own, &BTreeSet::new()),
            ["/run/app.sock"]
        );
    }

    #[test]
    fn unix_peers_by_the_configuration() {
        let directive = |name: &str, arg: &str| record::Directive {
            name: name.to_owned(),
            args: vec![arg.to_owned()],
            ..record::Directive::default()
        };
        let server = Server {
            directives: vec![
                directive("listen", "unix:/run/own.sock"),
                directive("fastcgi_pass", "unix:/run/php.sock"),
                directive("SetHandler", "proxy:unix:/run/app.sock|fcgi://localhost"),
                directive("proxy_pass", "http://127.0.0.1:8080"),
            ],
            ..Server::default()
        };
        assert_eq!(configured_unix(&server), ["/run/php.sock", "/run/app.sock"]);
    }

    #[test]
    fn one_name_for_each_server() {
        let server = |main_pid| {
            Some(Server {
                main_pid,
                ..Server::default()
            })
        };
        let front = Server {
            target: "server".to_owned(),
            main_pid: 1,
            ..Server::default()
        };
        let mut names = Names::new(&[front]);
        assert_eq!(
            names.give(server(1), "80"),
            (Some("server".to_owned()), None)
        );
        let (first, _) = names.give(server(2), "8080");
        let (other, given) = names.give(server(3), "8080");
        let (again, _) = names.give(server(2), "9090");
        assert_eq!(first.as_deref(), Some("upstream-8080"));
        assert_eq!(other.as_deref(), Some("upstream-8080-2"));
        assert_eq!(given.unwrap().target, "upstream-8080-2");
        assert_eq!(again, first);
        assert_eq!(names.give(None, "1"), (None, None));
    }
}
