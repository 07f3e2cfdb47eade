//! Who else has connections to a server that others stand behind: maybe its consumers, processes that take from a queue
//! or broker what its clients bring, do it, and bring what these wait for.
//!
//! A chain of servers is followed by who connects to whom, and a consumer connects the other way. The surprise: nothing
//! in a table of sockets tells it from any other client (a job beside the requests, a shell of a database). This only
//! lists who may be one; a trace of turns tells whether answers wait for it.

use super::upstreams::{by_ends, ports};
use super::{Look, exists};
use linux::procfs::PROC;
use linux::sockets::{self, ESTABLISHED, Socket};
use record::{Server, ServerProcess};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Processes on this host that have TCP connections to one of `servers` but the first, whose clients are whoever asks,
/// and that belong to none: index of the server, and the process as its consumer.
pub fn other_clients(servers: &[Server]) -> Vec<(usize, ServerProcess)> {
    let root = Path::new(PROC);
    let tcp = sockets::tcp(root, ESTABLISHED);
    let behind = (0..).zip(servers).skip(1);
    let asked: BTreeMap<u64, usize> = behind
        .flat_map(|(index, server)| {
            let ends = ends_of_clients(&tcp, &ports(server));
            ends.into_iter().map(move |inode| (inode, index))
        })
        .collect();
    if asked.is_empty() {
        return Vec::new();
    }
    let me = i32::try_from(std::process::id()).unwrap_or_default();
    let known: BTreeSet<i32> = (servers.iter().flat_map(|s| &s.processes))
        .map(|process| process.pid)
        .chain([me])
        .collect();
    let look = Look::take();
    let others = look.processes.keys().copied();
    let others: Vec<i32> = others.filter(|pid| !known.contains(pid)).collect();
    let holders = sockets::holders(root, &asked.keys().copied().collect(), &others);
    let found: BTreeSet<(usize, i32)> = holders
        .iter()
        .flat_map(|(inode, pids)| pids.iter().map(|pid| (asked[inode], *pid)))
        .collect();
    let found = found.into_iter().filter(|(_, pid)| exists(*pid));
    found
        .filter_map(|(index, pid)| Some((index, look.consumer(pid)?)))
        .collect()
}

/// Inodes of the clients' ends of the connections to these ports, as far as they are on this host.
fn ends_of_clients(all: &[Socket], listens: &BTreeSet<u16>) -> BTreeSet<u64> {
    let by_ends = by_ends(all);
    all.iter()
        .filter(|s| listens.contains(&s.local.port()))
        .filter_map(|s| by_ends.get(&(s.remote, s.local)).copied())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::CONSUMER;

    #[test]
    fn clients_of_a_server_are_the_other_ends_of_its_connections() {
        let socket = |local: &str, remote: &str, inode| Socket {
            local: local.parse().unwrap(),
            remote: remote.parse().unwrap(),
            inode,
        };
        let all = [
            socket("127.0.0.1:4730", "127.0.0.1:5000", 1),
            socket("127.0.0.1:5000", "127.0.0.1:4730", 2),
            socket("10.0.0.1:4730", "10.0.0.2:5000", 3), // from elsewhere
            socket("127.0.0.1:6000", "127.0.0.1:80", 4), // somebody else's
            socket("127.0.0.1:80", "127.0.0.1:6000", 5),
        ];
        let found = ends_of_clients(&all, &BTreeSet::from([4730]));
        assert_eq!(found, BTreeSet::from([2]));
    }

    #[test]
    fn a_client_of_a_server_behind_is_listed_and_one_of_the_first_is_not() {
        use std::process::{Command, Stdio};
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let mut child = Command::new("bash")
            .args([
                "-c",
                &format!("exec 3<>/dev/tcp/127.0.0.1/{port}; read -u 3 line"),
            ])
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        let (accepted, _) = listener.accept().unwrap();
        let server = Server {
            listens: vec![format!("127.0.0.1:{port}")],
            ..Server::default()
        };
        let pid = i32::try_from(child.id()).unwrap();
        let behind = other_clients(&[Server::default(), server.clone()]);
        let first = other_clients(&[server, Server::default()]);
        drop(accepted);
        child.wait().unwrap();
        let found = behind.iter().find(|(_, process)| process.pid == pid);
        let found = found.map(|(index, process)| (*index, process.role.as_str()));
        assert_eq!(found, Some((1, CONSUMER)));
        assert!(first.iter().all(|(_, process)| process.pid != pid));
    }
}
