//! Sockets of this host and the processes that hold them: sock_diag for the sockets, `/proc/PID/fd` for their holders.
//!
//! The kernel is asked for the states of interest only: `/proc/net/tcp` would list every TIME_WAIT socket as
//! well, which takes 100 ms on a busy host. It is the fall-back where netlink is forbidden, and the way into
//! another network namespace, whose table any of its processes shows. The surprise: a socket has no
//! process. Only its inode number links the two, and a descriptor that was passed on has several holders.

use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, recv, send, socket_with,
};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;

const AF_UNIX: u8 = 1;
const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;
const TCP: u8 = 6;
const UDP: u8 = 17;
/// Connections; states are bits (include/net/tcp_states.h).
pub const ESTABLISHED: u32 = 1 << 1;
/// Sockets that wait for connections.
pub const LISTEN: u32 = 1 << 10;
const SOCK_DIAG_BY_FAMILY: u16 = 20;
const NLM_F_REQUEST_DUMP: u16 = 0x1 | 0x300;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
/// Length of `struct nlmsghdr`.
const HEADER: usize = 16;
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
        .filter_map(|file| std::fs::read_to_string(dir.join(file)).ok())
        .flat_map(|text| parse_table(&text, states))
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

fn inet(protocol: u8, states: u32) -> io::Result<Vec<Socket>> {
    let mut found = Vec::new();
    for family in [AF_INET, AF_INET6] {
        // struct inet_diag_req_v2: family, protocol, extensions, padding, states, an id that stays zero.
        let mut body = [0u8; 56];
        body[0] = family;
        body[1] = protocol;
        body[4..8].copy_from_slice(&states.to_ne_bytes());
        dump(&body, |answer| found.extend(inet_socket(answer)))?;
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
    match dump(&body, |answer| found.extend(unix_socket(answer))) {
        Ok(()) => found,
        Err(_) => Vec::new(),
    }
}

/// Asks the kernel and hands each answer's body on.
fn dump(question: &[u8], mut each: impl FnMut(&[u8])) -> io::Result<()> {
    let netlink = socket_with(
        AddressFamily::NETLINK,
        SocketType::DGRAM,
        SocketFlags::CLOEXEC,
        Some(netlink::SOCK_DIAG),
    )?;
    let length = u32::try_from(HEADER + question.len()).map_err(io::Error::other)?;
    let mut message = Vec::new();
    message.extend(length.to_ne_bytes());
    message.extend(SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    message.extend(NLM_F_REQUEST_DUMP.to_ne_bytes());
    message.extend([0; 8]);
    message.extend(question);
    send(&netlink, &message, SendFlags::empty())?;
    let mut buffer = vec![0; 64 << 10];
    loop {
        let (length, _) = recv(&netlink, &mut buffer[..], RecvFlags::empty())?;
        if length == 0 || messages(&buffer[..length], &mut each)? {
            return Ok(());
        }
    }
}

/// One datagram of the kernel's answer; true when it was the last.
fn messages(mut bytes: &[u8], each: &mut impl FnMut(&[u8])) -> io::Result<bool> {
    let cut = || io::Error::new(io::ErrorKind::InvalidData, "the answer is cut");
    while !bytes.is_empty() {
        let length = read_u32(bytes, 0).ok_or_else(cut)? as usize;
        let message = bytes
            .get(..length)
            .filter(|_| length >= HEADER)
            .ok_or_else(cut)?;
        let body = &message[HEADER..];
        match u16::from_ne_bytes([message[4], message[5]]) {
            NLMSG_DONE => return Ok(true),
            NLMSG_ERROR => {
                let errno = read_u32(body, 0).ok_or_else(cut)? as i32;
                return Err(io::Error::from_raw_os_error(errno.wrapping_neg()));
            }
            SOCK_DIAG_BY_FAMILY => each(body),
            _ => {}
        }
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    Ok(false)
}

fn read_u32(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn read_u16(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

/// `struct inet_diag_msg`: family at 0; ports at 4 and 6, addresses at 8 and 24, all in network order; inode at 68.
fn inet_socket(body: &[u8]) -> Option<Socket> {
    let family = *body.first()?;
    let address = |port: usize, ip: usize| {
        let port = u16::from_be_bytes(body.get(port..port + 2)?.try_into().ok()?);
        let bytes: [u8; 16] = body.get(ip..ip + 16)?.try_into().ok()?;
        let [a, b, c, d, ..] = bytes;
        let ip = match family {
            AF_INET => IpAddr::V4(Ipv4Addr::new(a, b, c, d)),
            _ => IpAddr::V6(Ipv6Addr::from(bytes)),
        };
        Some(canonical(SocketAddr::new(ip, port)))
    };
    Some(Socket {
        local: address(4, 8)?,
        remote: address(6, 24)?,
        inode: read_u32(body, 68)?.into(),
    })
}

/// `struct unix_diag_msg`: state at 2, inode at 4, then attributes from 16.
fn unix_socket(body: &[u8]) -> Option<UnixSocket> {
    let mut socket = UnixSocket {
        name: String::new(),
        inode: read_u32(body, 4)?.into(),
        peer: 0,
        listens: 1u32.checked_shl((*body.get(2)?).into())? == LISTEN,
    };
    let mut rest = body.get(16..)?;
    while let (Some(length), Some(kind)) = (read_u16(rest, 0), read_u16(rest, 2)) {
        let length = usize::from(length);
        let Some(value) = rest.get(4..length) else {
            break;
        };
        match kind {
            UNIX_DIAG_NAME => socket.name = unix_name(value),
            UNIX_DIAG_PEER => socket.peer = read_u32(value, 0).unwrap_or(0).into(),
            _ => {}
        }
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    Some(socket)
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
    std::fs::read_dir(root.join(pid.to_string()).join("fd"))
        .into_iter()
        .flatten()
        .take(MOST_FDS)
        .filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok())
        .filter_map(|link| {
            let text = link.to_str()?.strip_prefix("socket:[")?;
            text.strip_suffix(']')?.parse().ok()
        })
        .collect()
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
        let mut whole = Vec::new();
        whole.extend(40u32.to_ne_bytes());
        whole.extend(SOCK_DIAG_BY_FAMILY.to_ne_bytes());
        whole.extend([0; 10]);
        whole.extend([9; 24]);
        for end in 0..whole.len() {
            let mut seen = 0;
            let result = messages(&whole[..end], &mut |_| seen += 1);
            assert_eq!(result.is_ok(), end == 0, "{end}");
            assert_eq!(seen, 0);
        }
        for end in 0..80 {
            let bytes = vec![255; end];
            assert_eq!(inet_socket(&bytes).is_some(), end >= 72);
            assert!(unix_socket(&bytes).is_none(), "state 255 is none");
        }
    }
}
