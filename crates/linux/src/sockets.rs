//! Sockets of this host and the processes that hold them: sock_diag for the sockets, `/proc/PID/fd` for their holders.
//!
//! The kernel is asked for the states of interest only: `/proc/net/tcp` would list every TIME_WAIT socket as
//! well, which takes 100 ms on a busy host. It is the fall-back where netlink is forbidden, and the way into
//! another network namespace, whose table any of its processes shows. The surprise: a socket has no
//! process. Only its inode number links the two, and a descriptor that was passed on has several holders.

use crate::Error;
use crate::root::slurp;
use crate::sock_diag::{
    AF_INET, AF_INET6, AF_UNSPEC, Diag, Question, TCP, UDP, ask_here, attribute, read_u32,
};
use rustix::fs::{Dir, Mode, OFlags};
use std::collections::{BTreeMap, BTreeSet};
use std::mem::MaybeUninit;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;

const AF_UNIX: u8 = 1;
/// Connections; states are bits (include/net/tcp_states.h).
pub const ESTABLISHED: u32 = 1 << 1;
/// Closed connections that are kept for a minute.
pub const TIME_WAIT: u32 = 1 << 6;
/// Sockets that wait for connections.
pub const LISTEN: u32 = 1 << 10;
/// `UDIAG_SHOW_NAME | UDIAG_SHOW_PEER` (include/uapi/linux/unix_diag.h).
const SHOW_NAME_AND_PEER: u32 = 1 | 4;
const UNIX_DIAG_NAME: u16 = 0;
const UNIX_DIAG_PEER: u16 = 2;
/// Descriptors of one process that are looked at.
const MOST_FDS: usize = 1 << 17;

/// A TCP or UDP socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Socket {
    /// This end.
    pub local: SocketAddr,
    /// The other end.
    pub remote: SocketAddr,
    /// Number of the socket's file; 0 when no process holds it.
    pub inode: u64,
}

/// A Unix stream socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnixSocket {
    /// Path, `@name` for an abstract one, empty for a socket that was never bound.
    pub name: String,
    /// Number of its file.
    pub inode: u64,
    /// Inode of the other end, 0 when there is none.
    pub peer: u64,
    /// It waits for connections.
    pub listens: bool,
}

/// TCP sockets in these states.
pub fn tcp(root: &Path, states: u32) -> Vec<Socket> {
    inet(TCP, states).unwrap_or_else(|_| tcp_table(root, states))
}

/// UDP sockets that are connected; none where netlink is forbidden.
pub fn udp() -> Vec<Socket> {
    inet(UDP, ESTABLISHED).unwrap_or_default()
}

/// TCP sockets by the kernel's text tables below `dir` (`/proc`, or `/proc/PID` for its network namespace).
pub fn tcp_table(dir: &Path, states: u32) -> Vec<Socket> {
    ["net/tcp", "net/tcp6"]
        .iter()
        .filter_map(|file| slurp(&dir.join(file)).ok())
        .flat_map(|text| parse_table(&String::from_utf8_lossy(&text), states))
        .collect()
}

fn parse_table(text: &str, states: u32) -> Vec<Socket> {
    let socket = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let state = u32::from_str_radix(fields.get(3)?, 16).ok()?;
        let wanted = 1u32.checked_shl(state)? & states != 0;
        wanted.then_some(Socket {
            local: canonical(socket_address(fields.get(1)?)?),
            remote: canonical(socket_address(fields.get(2)?)?),
            inode: fields.get(9)?.parse().ok()?,
        })
    };
    text.lines().skip(1).filter_map(socket).collect()
}

/// `0100007F:1F90`: the address as the kernel's 32-bit words in the machine's byte order, the port as a number.
pub fn socket_address(text: &str) -> Option<SocketAddr> {
    let (ip, port) = text.split_once(':')?;
    let word = |i: usize| {
        let hex = ip.get(i * 8..i * 8 + 8)?;
        Some(u32::from_str_radix(hex, 16).ok()?.to_ne_bytes())
    };
    let ip: IpAddr = match ip.len() {
        8 => Ipv4Addr::from(word(0)?).into(),
        32 => {
            let words = [word(0)?, word(1)?, word(2)?, word(3)?];
            let bytes: [u8; 16] = words.concat().try_into().ok()?;
            Ipv6Addr::from(bytes).into()
        }
        _ => return None,
    };
    Some(SocketAddr::new(ip, u16::from_str_radix(port, 16).ok()?))
}

/// IPv4 in an IPv6 socket as IPv4.
fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

fn inet(protocol: u8, states: u32) -> Result<Vec<Socket>, Error> {
    let mut found = Vec::new();
    let families: &[u8] = match protocol {
        TCP => &[AF_UNSPEC],
        _ => &[AF_INET, AF_INET6],
    };
    for &family in families {
        let question = Question {
            family,
            protocol,
            states,
            extensions: 0,
            filter: &[],
        };
        Diag::default().ask(&question, "the sockets", |message| {
            found.push(Socket {
                local: canonical(message.local()?),
                remote: canonical(message.remote()?),
                inode: message.inode()?.into(),
            });
            Some(())
        })?;
    }
    Ok(found)
}

/// Unix stream sockets that listen or are connected.
pub fn unix() -> Vec<UnixSocket> {
    let mut found = Vec::new();
    // struct unix_diag_req: family, protocol, padding, states, inode, what to show, a cookie.
    let mut body = [0u8; 24];
    body[0] = AF_UNIX;
    body[4..8].copy_from_slice(&(ESTABLISHED | LISTEN).to_ne_bytes());
    body[12..16].copy_from_slice(&SHOW_NAME_AND_PEER.to_ne_bytes());
    let take = |answer: &[u8]| {
        found.push(unix_socket(answer)?);
        Some(())
    };
    match ask_here(&body, take) {
        Ok(()) => found,
        Err(_) => Vec::new(),
    }
}

/// `struct unix_diag_msg`: state at 2, inode at 4, then attributes from 16.
fn unix_socket(body: &[u8]) -> Option<UnixSocket> {
    let attributes = body.get(16..)?;
    let peer = attribute(attributes, UNIX_DIAG_PEER).and_then(|value| read_u32(value, 0));
    Some(UnixSocket {
        name: attribute(attributes, UNIX_DIAG_NAME).map_or_else(String::new, unix_name),
        inode: read_u32(body, 4)?.into(),
        peer: peer.unwrap_or(0).into(),
        listens: 1u32.checked_shl((*body.get(2)?).into())? == LISTEN,
    })
}

fn unix_name(value: &[u8]) -> String {
    match value {
        [0, name @ ..] => format!("@{}", String::from_utf8_lossy(name)),
        _ => String::from_utf8_lossy(value)
            .trim_end_matches('\0')
            .to_owned(),
    }
}

/// Inodes of the sockets that a process has open; empty when this user may not see them.
pub fn inodes_of(root: &Path, pid: i32) -> BTreeSet<u64> {
    links_of(&root.join(pid.to_string()).join("fd")).unwrap_or_default()
}

/// Inodes of the sockets among the links of a directory. Each is read relative to the open directory: on a host with
/// thousands of descriptors most of the time would go into finding `/proc/PID/fd` again.
fn links_of(directory: &Path) -> rustix::io::Result<BTreeSet<u64>> {
    let open = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let directory = rustix::fs::open(directory, open, Mode::empty())?;
    let mut inodes = BTreeSet::new();
    // Longer links, which are cut, are files.
    let mut buffer = [MaybeUninit::uninit(); 64];
    for entry in Dir::read_from(&directory)?.take(MOST_FDS) {
        // The process has ended.
        let Ok(entry) = entry else { break };
        let Ok((link, _)) =
            rustix::fs::readlinkat_raw(&directory, entry.file_name(), &mut buffer[..])
        else {
            continue;
        };
        let inode = std::str::from_utf8(link)
            .ok()
            .and_then(|text| text.strip_prefix("socket:["));
        let inode = inode.and_then(|text| text.strip_suffix(']'));
        inodes.extend(inode.and_then(|text| text.parse::<u64>().ok()));
    }
    Ok(inodes)
}

/// Whether this user may see what a process has open.
pub fn may_look(root: &Path, pid: i32) -> bool {
    std::fs::read_dir(root.join(pid.to_string()).join("fd")).is_ok()
}

/// Who has each of these sockets open, by pid.
pub fn holders(root: &Path, wanted: &BTreeSet<u64>, pids: &[i32]) -> BTreeMap<u64, Vec<i32>> {
    let mut found: BTreeMap<u64, Vec<i32>> = BTreeMap::new();
    if wanted.is_empty() {
        return found;
    }
    for pid in pids {
        for inode in inodes_of(root, *pid).intersection(wanted) {
            found.entry(*inode).or_default().push(*pid);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};
    use std::os::unix::net::{UnixListener, UnixStream};

    const PROC: &str = "/proc";

    const TABLE: &str = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 111 1 0 100 0 0 10 0
   1: 0100007F:1F90 0100007F:D431 01 00000000:00000000 00:00000000 00000000     0        0 222 1 0 20 4 30 10 -1
   2: 00000000:0050 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 333 1 0 100 0 0 10 0
";

    #[test]
    #[cfg(target_endian = "little")]
    fn the_kernels_table_by_state() {
        let of = |states| {
            let sockets = parse_table(TABLE, states);
            let text = |s: &Socket| format!("{} {} {}", s.local, s.remote, s.inode);
            sockets.iter().map(text).collect::<Vec<_>>()
        };
        assert_eq!(
            of(LISTEN),
            ["127.0.0.1:8080 0.0.0.0:0 111", "0.0.0.0:80 0.0.0.0:0 333"]
        );
        assert_eq!(of(ESTABLISHED), ["127.0.0.1:8080 127.0.0.1:54321 222"]);
        assert_eq!(
            socket_address("00000000000000000000000001000000:0050"),
            Some("[::1]:80".parse().unwrap())
        );
    }

    #[test]
    fn own_sockets_are_found_in_both_ways() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let client = TcpStream::connect(address).unwrap();
        let root = Path::new(PROC);
        let me = i32::try_from(std::process::id()).unwrap();
        let mine = inodes_of(root, me);
        for table in [tcp(root, LISTEN), tcp_table(root, LISTEN)] {
            let found: Vec<&Socket> = table.iter().filter(|s| s.local == address).collect();
            assert_eq!(found.len(), 1, "{found:?}");
            assert!(mine.contains(&found[0].inode));
            let held = holders(root, &BTreeSet::from([found[0].inode]), &[me]);
            assert_eq!(held[&found[0].inode], [me]);
        }
        for table in [tcp(root, ESTABLISHED), tcp_table(root, ESTABLISHED)] {
            let is_client =
                |s: &&Socket| s.remote == address && s.local == client.local_addr().unwrap();
            assert_eq!(table.iter().filter(is_client).count(), 1);
        }
    }

    #[test]
    fn both_ends_of_a_unix_connection_name_each_other() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        let listener = UnixListener::bind(&path).unwrap();
        let _client = UnixStream::connect(&path).unwrap();
        let _server = listener.accept().unwrap();
        let all = unix();
        let name = path.display().to_string();
        let named: Vec<&UnixSocket> = all.iter().filter(|s| s.name == name).collect();
        assert_eq!(named.len(), 2, "{named:?}");
        let accepted = named.iter().find(|s| !s.listens).unwrap();
        let client = all.iter().find(|s| s.inode == accepted.peer).unwrap();
        assert_eq!((client.peer, client.name.as_str()), (accepted.inode, ""));
    }

    #[test]
    fn cut_answers_do_not_panic() {
        for end in 0..80 {
            assert!(unix_socket(&vec![255; end]).is_none(), "state 255 is none");
        }
    }
}
