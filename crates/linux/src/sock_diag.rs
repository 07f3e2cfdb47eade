//! The sock_diag conversation with the kernel: TCP sockets by state and port, of this network namespace and of those
//! that given processes live in.
//!
//! The surprise: `/proc/net/tcp` holds much of the same, but takes 100 ms when
//! there are many TIME_WAIT sockets; here the kernel filters by state and by port before it answers. The message
//! formats (include/uapi/linux/inet_diag.h) are small enough to be written here by hand.

use crate::{Error, Root, namespace};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, recv, send, socket_with,
};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::fs::File;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;

/// Sockets of TCP of both families in one walk: the kernel walks its whole table for each question, however few sockets
/// there are (some milliseconds where that is cold).
pub const AF_UNSPEC: u8 = 0;
/// IPv4.
pub const AF_INET: u8 = 2;
/// IPv6; sockets of it that carry IPv4 count as this family, too.
pub const AF_INET6: u8 = 10;
/// Offset of the receive queue in `struct inet_diag_msg`.
pub const RECEIVE_QUEUE: usize = 56;
/// Offset of the send queue.
pub const SEND_QUEUE: usize = 60;

/// Sockets of TCP.
pub const TCP: u8 = 6;
/// Sockets of UDP.
pub const UDP: u8 = 17;
const SOCK_DIAG_BY_FAMILY: u16 = 20;
/// The older question, which cannot name a family.
const TCPDIAG_GETSOCK: u16 = 18;
const NLM_F_REQUEST_DUMP: u16 = 0x1 | 0x300;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
/// As much as the kernel puts into one datagram (net/netlink/af_netlink.c).
const BUFFER: usize = 32 * 1024;
/// Length of `struct nlmsghdr`.
const HEADER: usize = 16;
/// Length of `struct inet_diag_msg`, behind which the attributes are.
const FIXED: usize = 72;
/// The attribute of a question that holds a filter program.
const REQ_BYTECODE: u16 = 1;
/// Operations of a filter program.
const BC_JMP: u8 = 1;
const BC_SOURCE_COND: u8 = 7;
const BC_DESTINATION_COND: u8 = 8;

/// Most ports of a filter: a jump of the program is 16 bits long.
pub const MOST_PORTS: usize = 1024;

/// A port on one side of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Port {
    /// This socket's own.
    Local(u16),
    /// Its peer's.
    Remote(u16),
}

/// What is asked for.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    /// [`AF_INET`] or [`AF_INET6`]; of TCP also [`AF_UNSPEC`].
    pub family: u8,
    /// [`TCP`] or [`UDP`].
    pub protocol: u8,
    /// Bit `1 << state` for each state (include/net/tcp_states.h).
    pub states: u32,
    /// Bit `1 << (attribute - 1)` for each attribute that the answer is to have.
    pub extensions: u8,
    /// Sockets with any of these; empty: all. At most [`MOST_PORTS`] are looked at.
    pub filter: &'a [Port],
}

impl Question<'_> {
    /// The datagram.
    pub fn bytes(&self) -> Vec<u8> {
        let states = self.states.to_ne_bytes();
        let (kind, mut body) = if self.family == AF_UNSPEC {
            // struct inet_diag_req: family, two lengths, extensions, an id that stays zero, states.
            let mut body = vec![0u8; 60];
            body[3] = self.extensions;
            body[52..56].copy_from_slice(&states);
            (TCPDIAG_GETSOCK, body)
        } else {
            // struct inet_diag_req_v2: family, protocol, extensions, padding, states, then such an id.
            let mut body = vec![0u8; 56];
            body[..3].copy_from_slice(&[self.family, self.protocol, self.extensions]);
            body[4..8].copy_from_slice(&states);
            (SOCK_DIAG_BY_FAMILY, body)
        };
        let program = program(&self.filter[..self.filter.len().min(MOST_PORTS)]);
        if !program.is_empty() {
            body.extend(((program.len() + 4) as u16).to_ne_bytes());
            body.extend(REQ_BYTECODE.to_ne_bytes());
            body.extend(program);
        }
        datagram(kind, &body)
    }
}

/// A question's body behind its `struct nlmsghdr`.
fn datagram(kind: u16, body: &[u8]) -> Vec<u8> {
    let mut message = vec![0u8; HEADER];
    message[4..6].copy_from_slice(&kind.to_ne_bytes());
    message[6..8].copy_from_slice(&NLM_F_REQUEST_DUMP.to_ne_bytes());
    message.extend(body);
    let length = message.len() as u32;
    message[0..4].copy_from_slice(&length.to_ne_bytes());
    message
}

/// "Any of these ports" for the kernel's filter machine (net/ipv4/inet_diag.c): each condition that holds goes on to
/// a jump to the end, which accepts; the last one that fails jumps four bytes beyond the end, which refuses.
fn program(ports: &[Port]) -> Vec<u8> {
    const CONDITION: usize = 16;
    const STEP: usize = CONDITION + 4;
    let length = (ports.len() * STEP).saturating_sub(4);
    let mut program = Vec::with_capacity(length);
    for (i, port) in ports.iter().enumerate() {
        let (code, port) = match *port {
            Port::Local(port) => (BC_SOURCE_COND, port),
            Port::Remote(port) => (BC_DESTINATION_COND, port),
        };
        // struct inet_diag_bc_op: code, how far to go if it holds, how far if not.
        program.extend([code, CONDITION as u8]);
        program.extend((STEP as u16).to_ne_bytes());
        // struct inet_diag_hostcond of any family, with a prefix of no bits, padding, the port, and, only to fill
        // up, a word of address.
        program.extend([0; 4]);
        program.extend(i32::from(port).to_ne_bytes());
        program.extend([0; 4]);
        if i + 1 < ports.len() {
            let rest = (length - program.len()) as u16;
            program.extend([BC_JMP, 4]);
            program.extend(rest.to_ne_bytes());
        }
    }
    program
}

/// One socket of the answer: `struct inet_diag_msg` with its attributes.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a>(&'a [u8]);

impl<'a> Message<'a> {
    /// State (include/net/tcp_states.h).
    pub fn state(&self) -> Option<u8> {
        self.0.get(1).copied()
    }

    /// This end.
    pub fn local(&self) -> Option<SocketAddr> {
        self.address(4, 8)
    }

    /// The other end.
    pub fn remote(&self) -> Option<SocketAddr> {
        self.address(6, 24)
    }

    /// Number of the socket's file; 0 when no process holds it.
    pub fn inode(&self) -> Option<u32> {
        self.u32_at(68)
    }

    /// A number at an offset of the fixed part.
    pub fn u32_at(&self, at: usize) -> Option<u32> {
        read_u32(self.0, at)
    }

    /// An attribute's value.
    pub fn attribute(&self, wanted: u16) -> Option<&'a [u8]> {
        attribute(self.0.get(FIXED..)?, wanted)
    }

    /// Ports and addresses are in network order.
    fn address(&self, port: usize, ip: usize) -> Option<SocketAddr> {
        let port = u16::from_be_bytes(self.0.get(port..port + 2)?.try_into().ok()?);
        let address: [u8; 16] = self.0.get(ip..ip + 16)?.try_into().ok()?;
        let ip = match *self.0.first()? {
            AF_INET => {
                let [a, b, c, d, ..] = address;
                IpAddr::V4(Ipv4Addr::new(a, b, c, d))
            }
            _ => IpAddr::V6(Ipv6Addr::from(address)),
        };
        Some(SocketAddr::new(ip, port))
    }
}

/// The value of one of the attributes in `rest`: length, kind, value, each aligned to four bytes.
pub(crate) fn attribute(mut rest: &[u8], wanted: u16) -> Option<&[u8]> {
    while rest.len() >= 4 {
        let length = usize::from(u16::from_ne_bytes([rest[0], rest[1]]));
        let kind = u16::from_ne_bytes([rest[2], rest[3]]);
        let value = rest.get(4..length)?;
        if kind == wanted {
            return Some(value);
        }
        rest = rest.get(length.next_multiple_of(4)..)?;
    }
    None
}

/// A number in the kernel's own byte order.
pub fn read_u32(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// A number in the kernel's own byte order.
pub fn read_u64(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

/// The conversation. It is with the running kernel; there is no fake root.
#[derive(Debug)]
pub struct Diag {
    rooms: Vec<Room>,
    buffer: Vec<u8>,
}

/// One network namespace. A socket shows those of the namespace that its maker was in.
#[derive(Debug, Default)]
struct Room {
    /// `None`: where the asking thread is.
    namespace: Option<OwnedFd>,
    netlink: Option<OwnedFd>,
}

impl Default for Diag {
    fn default() -> Self {
        Self {
            rooms: vec![Room::default()],
            buffer: Vec::new(),
        }
    }
}

impl Diag {
    /// About the network namespaces of these processes; without any that can be looked at, about that of the
    /// asking thread. No more than these: for each the kernel walks all sockets of the host.
    pub fn of(root: &Root, pids: impl IntoIterator<Item = i32>) -> Self {
        let own = namespace::of(root, "thread-self");
        let mut known: Vec<PathBuf> = Vec::new();
        let mut rooms = Vec::new();
        for pid in pids {
            let path = root.path(&format!("proc/{pid}/ns/net"));
            let (Some(name), Ok(opened)) =
                (namespace::of(root, &pid.to_string()), File::open(&path))
            else {
                continue;
            };
            if known.contains(&name) {
                continue;
            }
            rooms.push(Room {
                namespace: (own.as_ref() != Some(&name)).then(|| opened.into()),
                netlink: None,
            });
            known.push(name);
        }
        if rooms.is_empty() {
            return Self::default();
        }
        Self {
            rooms,
            buffer: Vec::new(),
        }
    }

    /// Asks, and hands each socket of the answer to `take`, which returns `None` for one that is cut.
    ///
    /// # Errors
    /// [`Error::Netlink`]; `what` names the sockets in it.
    pub fn ask(
        &mut self,
        question: &Question<'_>,
        what: &'static str,
        mut take: impl FnMut(Message<'_>) -> Option<()>,
    ) -> Result<(), Error> {
        self.buffer.resize(BUFFER, 0);
        for room in &mut self.rooms {
            room.ask(&mut self.buffer, question, what, &mut take)?;
        }
        Ok(())
    }
}

impl Room {
    fn ask(
        &mut self,
        buffer: &mut [u8],
        question: &Question<'_>,
        what: &'static str,
        mut take: impl FnMut(Message<'_>) -> Option<()>,
    ) -> Result<(), Error> {
        let failed = |doing| move |cause: io::Error| Error::Netlink { doing, what, cause };
        let netlink = match (self.netlink.take(), &self.namespace) {
            (Some(netlink), _) => netlink,
            (None, None) => open_netlink().map_err(failed("opening a sock_diag socket for"))?,
            (None, Some(namespace)) => {
                let opened = open_netlink_in(namespace.as_fd());
                opened.map_err(failed("entering the server's network namespace for"))?
            }
        };
        converse(&netlink, buffer, &question.bytes(), |body| {
            take(Message(body))
        })
        .map_err(failed("listing"))?;
        // Kept only after a whole answer: the rest of a broken one must not answer the next question.
        self.netlink = Some(netlink);
        Ok(())
    }
}

/// Sends the question and hands the body of each message of the answer to `take`, which returns `None` for one that
/// is cut.
fn converse(
    netlink: &OwnedFd,
    buffer: &mut [u8],
    question: &[u8],
    mut take: impl FnMut(&[u8]) -> Option<()>,
) -> io::Result<()> {
    send(netlink, question, SendFlags::empty())?;
    loop {
        let (length, _) = recv(netlink, &mut *buffer, RecvFlags::empty())?;
        if length == 0 || parse(&buffer[..length], &mut take)? {
            return Ok(());
        }
    }
}

/// One question about the network namespace of the calling thread, by its body.
pub(crate) fn ask_here(body: &[u8], take: impl FnMut(&[u8]) -> Option<()>) -> io::Result<()> {
    let question = datagram(SOCK_DIAG_BY_FAMILY, body);
    converse(&open_netlink()?, &mut [0; BUFFER], &question, take)
}

fn open_netlink() -> io::Result<OwnedFd> {
    let socket = socket_with(
        AddressFamily::NETLINK,
        SocketType::DGRAM,
        SocketFlags::CLOEXEC,
        Some(netlink::SOCK_DIAG),
    )?;
    Ok(socket)
}

/// On a thread of its own, which ends there: nobody has to find the way back.
fn open_netlink_in(namespace: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    std::thread::scope(|scope| {
        let opened = scope.spawn(|| {
            move_into_link_name_space(namespace, Some(LinkNameSpaceType::Network))?;
            open_netlink()
        });
        let died = |_| Err(io::Error::other("the thread that was to enter it died"));
        opened.join().unwrap_or_else(died)
    })
}

/// Reads one datagram of the kernel's answer; whether it was the last one.
fn parse(mut bytes: &[u8], mut take: impl FnMut(&[u8]) -> Option<()>) -> io::Result<bool> {
    let cut = || io::Error::new(io::ErrorKind::InvalidData, "the answer is cut");
    let mut last = false;
    while !bytes.is_empty() {
        let length = read_u32(bytes, 0).ok_or_else(cut)? as usize;
        let message = bytes
            .get(..length)
            .filter(|_| length >= HEADER)
            .ok_or_else(cut)?;
        let kind = u16::from_ne_bytes([message[4], message[5]]);
        let body = &message[HEADER..];
        match kind {
            NLMSG_DONE => last = true,
            NLMSG_ERROR => {
                let errno = read_u32(body, 0).ok_or_else(cut)? as i32;
                return Err(io::Error::from_raw_os_error(errno.wrapping_neg()));
            }
            SOCK_DIAG_BY_FAMILY | TCPDIAG_GETSOCK => take(body).ok_or_else(cut)?,
            _ => {}
        }
        // Messages are aligned to four bytes.
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    Ok(last)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    fn message(kind: u16, body: &[u8]) -> Vec<u8> {
        let mut message = Vec::new();
        message.extend(((HEADER + body.len()) as u32).to_ne_bytes());
        message.extend(kind.to_ne_bytes());
        message.extend([0; 10]);
        message.extend(body);
        message
    }

    fn diag(family: u8, address: [u8; 16], port: u16, queue: u32, backlog: u32) -> Vec<u8> {
        let mut body = vec![0u8; 72];
        body[0] = family;
        body[4..6].copy_from_slice(&port.to_be_bytes());
        body[8..24].copy_from_slice(&address);
        body[56..60].copy_from_slice(&queue.to_ne_bytes());
        body[60..64].copy_from_slice(&backlog.to_ne_bytes());
        message(SOCK_DIAG_BY_FAMILY, &body)
    }

    /// Address and both queues.
    type Read = (String, u32, u32);

    /// The sockets of a datagram, and whether it is the last.
    fn read(bytes: &[u8]) -> io::Result<(Vec<Read>, bool)> {
        let mut sockets = Vec::new();
        let last = parse(bytes, |body| {
            let message = Message(body);
            let queues = (message.u32_at(RECEIVE_QUEUE)?, message.u32_at(SEND_QUEUE)?);
            sockets.push((message.local()?.to_string(), queues.0, queues.1));
            Some(())
        })?;
        Ok((sockets, last))
    }

    #[test]
    fn sockets_of_both_families_up_to_the_end_mark() {
        let mut v4 = [0; 16];
        v4[..4].copy_from_slice(&[127, 0, 0, 1]);
        let mut bytes = diag(AF_INET, v4, 8080, 5, 511);
        bytes.extend(diag(AF_INET6, [0; 16], 80, 0, 4096));
        bytes.extend(message(NLMSG_DONE, &[0; 4]));
        let (sockets, last) = read(&bytes).unwrap();
        let expected = [
            ("127.0.0.1:8080".to_owned(), 5, 511),
            ("[::]:80".to_owned(), 0, 4096),
        ];
        assert_eq!(sockets, expected);
        assert!(last);
        assert!(!read(&diag(AF_INET, v4, 1, 0, 0)).unwrap().1);
    }

    #[test]
    fn the_kernels_refusal_and_cut_answers_are_errors() {
        let refusal = read(&message(NLMSG_ERROR, &(-2i32).to_ne_bytes())).unwrap_err();
        assert_eq!(refusal.kind(), io::ErrorKind::NotFound);
        let whole = diag(AF_INET, [0; 16], 1, 0, 0);
        for cut in [
            &whole[..3],
            &whole[..40],
            &message(SOCK_DIAG_BY_FAMILY, &[0; 8])[..],
        ] {
            assert_eq!(read(cut).unwrap_err().kind(), io::ErrorKind::InvalidData);
        }
        assert!(read(&[0; 16]).is_err(), "a length of zero must not loop");
    }

    #[test]
    fn attributes_by_number() {
        let mut body = vec![0; FIXED];
        body.extend([5, 0, 2, 0, 9, 0, 0, 0, 8, 0, 7, 0, 1, 2, 3, 4]);
        assert_eq!(Message(&body).attribute(2), Some(&[9][..]));
        assert_eq!(Message(&body).attribute(7), Some(&[1, 2, 3, 4][..]));
        assert_eq!(Message(&body).attribute(3), None);
        body.extend([99, 0, 3, 0]);
        assert_eq!(Message(&body).attribute(3), None);
    }

    #[test]
    fn the_kernel_answers_only_for_the_ports_that_were_asked_for() {
        let listeners: Vec<_> = (0..3)
            .map(|_| TcpListener::bind("127.0.0.1:0").unwrap())
            .collect();
        let ports: Vec<u16> = listeners
            .iter()
            .map(|l| l.local_addr().unwrap().port())
            .collect();
        let _clients: Vec<_> = ports
            .iter()
            .map(|port| TcpStream::connect(("127.0.0.1", *port)).unwrap())
            .collect();
        let ask = |filter: &[Port]| {
            let mut found = Vec::new();
            let question = Question {
                family: AF_INET,
                protocol: TCP,
                states: 1 << 1,
                extensions: 0,
                filter,
            };
            let take = |message: Message<'_>| {
                found.push((message.local()?.port(), message.remote()?.port()));
                Some(())
            };
            Diag::default().ask(&question, "sockets", take).unwrap();
            found.sort_unstable();
            found
        };
        // On loopback each connection has two sockets: the accepted one, and the one that connected.
        assert!(
            ask(&[Port::Local(ports[1])])
                .iter()
                .all(|s| s.0 == ports[1])
        );
        assert_eq!(ask(&[Port::Local(ports[1])]).len(), 1);
        assert!(
            ask(&[Port::Remote(ports[1])])
                .iter()
                .all(|s| s.1 == ports[1])
        );
        let both = ask(&[
            Port::Local(ports[0]),
            Port::Remote(ports[0]),
            Port::Local(ports[2]),
        ]);
        assert_eq!(both.len(), 3, "{both:?}");
        // The longest program that is sent is one that the kernel takes.
        let most = vec![Port::Local(ports[0]); MOST_PORTS];
        assert_eq!(ask(&most).len(), 1);
    }

    #[test]
    fn one_question_finds_the_sockets_of_both_families() {
        let at = ["127.0.0.1:0", "[::1]:0"];
        let listeners = at.map(|at| TcpListener::bind(at).unwrap());
        let ports = listeners.each_ref().map(|l| l.local_addr().unwrap());
        let filter = ports.map(|at| Port::Local(at.port()));
        let mut found = Vec::new();
        let question = Question {
            family: AF_UNSPEC,
            protocol: TCP,
            states: 1 << 10,
            extensions: 0,
            filter: &filter,
        };
        let take = |message: Message<'_>| {
            found.push(message.local()?);
            Some(())
        };
        Diag::default().ask(&question, "sockets", take).unwrap();
        found.sort_unstable();
        assert_eq!(found, ports);
    }
}
