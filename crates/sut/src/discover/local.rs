//! Who listens at an address of this host, for a load that is watched and not examined.

use crate::listen;
use linux::affinity;
use linux::procfs::{self, PROC};
use record::{ProcessRecord, TargetRecord};
use std::net::{SocketAddr, UdpSocket};
use std::path::Path;

/// The processes that listen on `address`, when it is one of this host and they may be seen.
pub fn listening_at(address: SocketAddr) -> Option<TargetRecord> {
    // A local server on the same port is a stranger when the load goes to another host.
    let pids = match is_local(address) {
        true => listen::holder_of(address),
        false => Vec::new(),
    };
    (!pids.is_empty()).then(|| TargetRecord {
        name: "server".to_owned(),
        kind: "running".to_owned(),
        address: address.to_string(),
        processes: pids.into_iter().map(process).collect(),
        ..TargetRecord::default()
    })
}

/// The same for the Unix socket of a path.
pub fn listening_at_path(path: &Path) -> Option<TargetRecord> {
    let look = super::Look::take();
    let pids = look.holders_of(super::unix_listeners(path).into_iter());
    (!pids.is_empty()).then(|| TargetRecord {
        name: "server".to_owned(),
        kind: "running".to_owned(),
        address: format!("unix:{}", path.display()),
        processes: pids.into_iter().map(process).collect(),
        ..TargetRecord::default()
    })
}

/// Whether the address is one of this host: only those can be bound.
pub fn is_local(address: SocketAddr) -> bool {
    UdpSocket::bind((address.ip(), 0)).is_ok()
}

/// Whether there is such a process.
pub fn exists(pid: i32) -> bool {
    procfs::stat(Path::new(PROC), pid).is_some()
}

/// A process that listens. Which of several is the main one is not known from outside, so all are workers.
fn process(pid: i32) -> ProcessRecord {
    ProcessRecord {
        pid,
        role: "worker".to_owned(),
        name: procfs::stat(Path::new(PROC), pid).map_or_else(String::new, |s| s.name),
        cpus: affinity::of(pid).unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;
    use std::os::unix::net::UnixListener;

    #[test]
    fn a_listener_on_a_unix_socket_is_found_by_its_path() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.sock");
        let listener = UnixListener::bind(&path).unwrap();
        let own = i32::try_from(std::process::id()).unwrap();
        assert_eq!(listening_at_path(&path).unwrap().processes[0].pid, own);
        let server = crate::discover::behind_unix(&path).unwrap();
        assert!(server.processes.iter().any(|p| p.pid == own));
        assert_eq!(listening_at_path(&directory.path().join("b.sock")), None);
        drop(listener);
        assert_eq!(listening_at_path(&path), None);
    }

    #[test]
    fn a_listener_of_this_host_is_found_and_others_are_strangers() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let own = i32::try_from(std::process::id()).unwrap();
        let found = listening_at(address).unwrap();
        assert_eq!(found.processes[0].pid, own);
        assert!(!found.processes[0].name.is_empty());
        assert!(exists(own) && !exists(i32::MAX));
        // TEST-NET-1 (RFC 5737) is nobody's.
        let elsewhere = SocketAddr::from(([192, 0, 2, 1], address.port()));
        assert_eq!(
            (is_local(elsewhere), listening_at(elsewhere)),
            (false, None)
        );
        drop(listener);
        assert_eq!(listening_at(address), None);
    }
}
