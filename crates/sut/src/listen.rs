//! Addresses to listen on: a free port, whether an address is taken, and by whom.
//!
//! The kernel names the holder of a port only by the inode of its socket; who has that inode open is
//! found by looking through everybody's file descriptors, as far as this user may.

use crate::error::{Holder, TargetError};
use linux::procfs::{self, PROC};
use linux::sockets;
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
    let inodes: BTreeSet<u64> = sockets::tcp(root, sockets::LISTEN)
        .iter()
        .filter(|s| overlap(s.local, address))
        .map(|s| s.inode)
        .collect();
    // Those that have ended hold nothing, so that nobody need be asked whether it lives.
    let pids = procfs::pids(root);
    let holders: BTreeSet<i32> = sockets::holders(root, &inodes, &pids)
        .into_values()
        .flatten()
        .collect();
    holders.into_iter().collect()
}

fn overlap(one: SocketAddr, other: SocketAddr) -> bool {
    let (a, b) = (one.ip().to_canonical(), other.ip().to_canonical());
    one.port() == other.port() && (a == b || a.is_unspecified() || b.is_unspecified())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_addresses_overlap_with_each() {
        for (listens, asked, overlaps) in [
            ("127.0.0.1:8080", "127.0.0.1:8080", true),
            ("127.0.0.1:8080", "127.0.0.2:8080", false),
            ("127.0.0.1:8080", "127.0.0.1:8081", false),
            ("127.0.0.1:8080", "0.0.0.0:8080", true),
            ("0.0.0.0:80", "192.0.2.1:80", true),
            ("0.0.0.0:80", "[::]:80", true),
            ("[::ffff:127.0.0.1]:80", "127.0.0.1:80", true),
        ] {
            let address = |text: &str| text.parse().unwrap();
            assert_eq!(
                overlap(address(listens), address(asked)),
                overlaps,
                "{listens} {asked}"
            );
        }
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
