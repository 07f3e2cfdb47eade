//! Addresses to listen on: a free port, whether an address is taken, and by whom.
//!
//! The kernel names the holder of a port only by the inode of its socket; who has that inode open is
//! found by looking through everybody's file descriptors, as far as this user may.

use crate::error::{Holder, TargetError};
use linux::procfs::{self, PROC};
use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;

/// The address with a free port in place of port 0, checked to be free.
///
/// The check opens and closes a listening socket; servers do the same again a moment later. They set
/// `SO_REUSEADDR` as the standard library does, so connections in TIME_WAIT do not count.
pub(crate) fn claim(target: &str, address: SocketAddr) -> Result<SocketAddr, TargetError> {
    let bound = TcpListener::bind(address).and_then(|listener| listener.local_addr());
    bound.map_err(|e| match e.kind() {
        ErrorKind::AddrInUse => TargetError::PortTaken {
            target: target.to_owned(),
            address,
            holders: named(&holder_of(address)),
        },
        _ => TargetError::Listen {
            target: target.to_owned(),
            address,
            cause: e.to_string(),
        },
    })
}

fn named(pids: &[i32]) -> Vec<Holder> {
    let name = |pid| procfs::stat(Path::new(PROC), pid).map(|s| s.name);
    pids.iter()
        .map(|pid| Holder {
            pid: *pid,
            name: name(*pid).unwrap_or_default(),
        })
        .collect()
}

/// Processes on this machine that listen on `address` (or on all addresses with its port), by pid.
/// Empty when there is none or this user may not see it.
pub fn holder_of(address: SocketAddr) -> Vec<i32> {
    holders(Path::new(PROC), address)
}

fn holders(root: &Path, address: SocketAddr) -> Vec<i32> {
    let sockets: BTreeSet<String> = ["net/tcp", "net/tcp6"]
        .iter()
        .filter_map(|file| std::fs::read_to_string(root.join(file)).ok())
        .flat_map(|table| listening_inodes(&table, address))
        .map(|inode| format!("socket:[{inode}]"))
        .collect();
    if sockets.is_empty() {
        return Vec::new();
    }
    procfs::living(root)
        .iter()
        .map(|s| s.pid)
        .filter(|pid| has_open(root, *pid, &sockets))
        .collect()
}

fn has_open(root: &Path, pid: i32, sockets: &BTreeSet<String>) -> bool {
    std::fs::read_dir(root.join(pid.to_string()).join("fd"))
        .into_iter()
        .flatten()
        .filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok())
        .any(|link| link.to_str().is_some_and(|l| sockets.contains(l)))
}

/// Inodes of the sockets of a `/proc/net/tcp` table that listen where `address` is.
fn listening_inodes(table: &str, address: SocketAddr) -> Vec<u64> {
    const LISTEN: &str = "0A";
    let inode = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let local = linux::sockets::socket_address(fields.get(1)?)?;
        let is_there = *fields.get(3)? == LISTEN && overlap(local, address);
        is_there.then(|| fields.get(9)?.parse().ok())?
    };
    table.lines().skip(1).filter_map(inode).collect()
}

fn overlap(one: SocketAddr, other: SocketAddr) -> bool {
    let (a, b) = (one.ip().to_canonical(), other.ip().to_canonical());
    one.port() == other.port() && (a == b || a.is_unspecified() || b.is_unspecified())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 111 1 0 100 0 0 10 0
   1: 0100007F:1F90 0100007F:D431 01 00000000:00000000 00:00000000 00000000     0        0 222 1 0 20 4 30 10 -1
   2: 00000000:0050 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 333 1 0 100 0 0 10 0
";

    #[test]
    #[cfg(target_endian = "little")]
    fn reads_the_kernels_table() {
        for (address, want) in [
            ("127.0.0.1:8080", vec![111]),
            ("127.0.0.2:8080", vec![]),
            ("0.0.0.0:8080", vec![111]),
            ("192.0.2.1:80", vec![333]),
            ("[::]:80", vec![333]),
        ] {
            assert_eq!(
                listening_inodes(TABLE, address.parse().unwrap()),
                want,
                "{address}"
            );
        }
        assert_eq!(
            linux::sockets::socket_address("00000000000000000000000001000000:0050"),
            Some("[::1]:80".parse().unwrap())
        );
    }

    #[test]
    fn names_the_holder_of_a_taken_port() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let own = i32::try_from(std::process::id()).unwrap();
        assert_eq!(holder_of(address), [own]);
        let error = claim("proxy", address).unwrap_err().to_string();
        let want = format!("cannot start target `proxy`: {address} is in use by pid {own} (");
        assert!(error.starts_with(&want), "{error}");
        drop(listener);
        assert_eq!(claim("proxy", address), Ok(address));
        assert_eq!(holder_of(address), Vec::<i32>::new());
    }

    #[test]
    fn port_0_becomes_a_free_one_and_foreign_addresses_are_refused() {
        assert_ne!(
            claim("s", "127.0.0.1:0".parse().unwrap()).unwrap().port(),
            0
        );
        // 192.0.2.0/24 is reserved for documentation (RFC 5737).
        let error = claim("s", "192.0.2.1:0".parse().unwrap()).unwrap_err();
        assert!(matches!(error, TargetError::Listen { .. }), "{error}");
    }
}
