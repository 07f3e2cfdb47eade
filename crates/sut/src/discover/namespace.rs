//! Servers in other network namespaces, as containers have them.
//!
//! A namespace is entered by no system call here: the tables of any process in it show its sockets and
//! addresses. The surprise: a published port of a container has either a forwarder on this host, whose command
//! line names the address inside, or no listener at all, when packets are rewritten on their way.

use linux::procfs::{PROC, Stat};
use linux::sockets;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

/// Processes of other network namespaces that listen on `port` where `ip` is an address of the namespace.
/// Loopback addresses are each namespace's own, so there is nothing to look for.
pub(crate) fn holders(processes: &BTreeMap<i32, Stat>, ip: IpAddr, port: u16) -> Vec<i32> {
    if ip.is_loopback() || ip.is_unspecified() {
        return Vec::new();
    }
    let root = Path::new(PROC);
    let own = own();
    let mut by_namespace: BTreeMap<PathBuf, Vec<i32>> = BTreeMap::new();
    for pid in processes.keys() {
        if let Some(ns) = of(*pid).filter(|ns| Some(ns) != own.as_ref()) {
            by_namespace.entry(ns).or_default().push(*pid);
        }
    }
    for pids in by_namespace.values() {
        let dir = root.join(pids[0].to_string());
        let inodes: BTreeSet<u64> = sockets::tcp_table(&dir, sockets::LISTEN)
            .iter()
            .filter(|s| s.local.port() == port)
            .filter(|s| s.local.ip() == ip || s.local.ip().is_unspecified())
            .map(|s| s.inode)
            .collect();
        if !inodes.is_empty() && has_address(&dir, ip) {
            let found: BTreeSet<i32> = sockets::holders(root, &inodes, pids)
                .into_values()
                .flatten()
                .collect();
            return found.into_iter().collect();
        }
    }
    Vec::new()
}

/// Of a process; `None` when it has ended or is not ours to see.
fn of(pid: i32) -> Option<PathBuf> {
    std::fs::read_link(format!("{PROC}/{pid}/ns/net")).ok()
}

fn own() -> Option<PathBuf> {
    std::fs::read_link(format!("{PROC}/self/ns/net")).ok()
}

/// The process is in another network namespace than this one, as far as this user may see.
pub(crate) fn is_another(pid: i32) -> bool {
    matches!((of(pid), own()), (Some(its), Some(own)) if its != own)
}

/// Addresses that the namespace of `pid` listens on.
pub(crate) fn listens(pid: i32) -> Vec<String> {
    let dir = Path::new(PROC).join(pid.to_string());
    let own = sockets::inodes_of(Path::new(PROC), pid);
    let addresses: BTreeSet<SocketAddr> = sockets::tcp_table(&dir, sockets::LISTEN)
        .iter()
        .filter(|s| own.contains(&s.inode))
        .map(|s| s.local)
        .collect();
    addresses.iter().map(SocketAddr::to_string).collect()
}

/// The routing table of a namespace lists its own addresses with `host LOCAL`.
fn has_address(dir: &Path, ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => {
            let text = std::fs::read_to_string(dir.join("net/fib_trie")).unwrap_or_default();
            is_local(&text, &ip.to_string())
        }
        IpAddr::V6(ip) => {
            let text = std::fs::read_to_string(dir.join("net/if_inet6")).unwrap_or_default();
            let hex: String = ip.octets().iter().map(|b| format!("{b:02x}")).collect();
            text.lines().any(|line| line.starts_with(&hex))
        }
    }
}

fn is_local(fib_trie: &str, ip: &str) -> bool {
    let mut before = "";
    for line in fib_trie.lines() {
        if line.contains("host LOCAL") && before.trim_start_matches([' ', '|', '-']) == ip {
            return true;
        }
        before = line;
    }
    false
}

/// Where docker-proxy passes connections on to, by its own flags.
pub(crate) fn forwarded_to(command: &[String]) -> Option<(IpAddr, u16)> {
    let behind = |flag: &str| {
        let at = command.iter().position(|a| a == flag)?;
        command.get(at + 1)
    };
    Some((
        behind("-container-ip")?.parse().ok()?,
        behind("-container-port")?.parse().ok()?,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_forwarder_names_what_is_behind_it() {
        let words = "/usr/bin/docker-proxy -proto tcp -host-ip 0.0.0.0 -host-port 80 -container-ip 172.17.0.2 -container-port 8080";
        let command: Vec<String> = words.split(' ').map(str::to_owned).collect();
        assert_eq!(
            forwarded_to(&command),
            Some(("172.17.0.2".parse().unwrap(), 8080))
        );
        assert_eq!(forwarded_to(&command[..9]), None);
    }

    #[test]
    fn local_addresses_of_the_routing_table() {
        let trie = "Main:\n  +-- 0.0.0.0/0 3 0 5\n     |-- 172.17.0.2\n        /32 host LOCAL\n     |-- 172.17.0.1\n        /32 link UNICAST\n";
        assert!(is_local(trie, "172.17.0.2"));
        assert!(!is_local(trie, "172.17.0.1"));
        assert!(!is_local(trie, "2.17.0.2"));
    }
}
