//! Depth and limit of listen queues, by sock_diag over netlink.
//!
//! The question to the kernel is "all TCP sockets in state LISTEN", which walks only the table of listening
//! sockets: `/proc/net/tcp` holds the same numbers but takes 100 ms when there are many TIME_WAIT sockets.
//! The surprise: with SO_REUSEPORT several sockets share an address, each with a queue of its own; the
//! series is that of the fullest one, because that is the one that overflows first. The message formats
//! (include/uapi/linux/inet_diag.h) are small enough to be written here by hand.

use crate::recorder::Rows;
use crate::{MonitorError, Pass, Recorder, Signal, Source};
use record::Nanos;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, recv, send, socket_with,
};
use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::OwnedFd;

/// Signals of a listening address.
pub const QUEUE: [Signal; 2] = [
    Signal::gauge("listen.queue", "connections", "sock_diag"),
    Signal::gauge("listen.backlog", "connections", "sock_diag"),
];

const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;
const IPPROTO_TCP: u8 = 6;
/// `1 << TCP_LISTEN` (include/net/tcp_states.h).
const STATE_LISTEN: u32 = 1 << 10;
const SOCK_DIAG_BY_FAMILY: u16 = 20;
const NLM_F_REQUEST_DUMP: u16 = 0x1 | 0x300;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
/// Length of `struct nlmsghdr`.
const HEADER: usize = 16;

/// A listening socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListenSocket {
    /// Where it listens.
    pub address: SocketAddr,
    /// Connections that wait to be accepted.
    pub queue: u32,
    /// Most of them that the kernel lets wait.
    pub backlog: u32,
}

impl ListenSocket {
    /// Share of the queue in use; more than 1 is possible, as the kernel accepts one above the backlog.
    fn fullness(&self) -> f64 {
        f64::from(self.queue) / f64::from(self.backlog.max(1))
    }

    /// Whether a connection to `wanted` would arrive here.
    fn serves(&self, wanted: SocketAddr) -> bool {
        self.address.port() == wanted.port()
            && (self.address.ip() == wanted.ip()
                || self.address.ip().is_unspecified()
                || wanted.ip().is_unspecified())
    }
}

/// What one datagram from the kernel held.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Part {
    /// Listening sockets.
    pub sockets: Vec<ListenSocket>,
    /// It was the last one.
    pub last: bool,
}

/// The question for all listening TCP sockets of an address family.
pub fn request(family: u8) -> [u8; 72] {
    let mut message = [0u8; 72];
    message[0..4].copy_from_slice(&72u32.to_ne_bytes());
    message[4..6].copy_from_slice(&SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    message[6..8].copy_from_slice(&NLM_F_REQUEST_DUMP.to_ne_bytes());
    // struct inet_diag_req_v2: family, protocol, extensions, padding, states, then an id that stays zero.
    message[HEADER] = family;
    message[HEADER + 1] = IPPROTO_TCP;
    message[HEADER + 4..HEADER + 8].copy_from_slice(&STATE_LISTEN.to_ne_bytes());
    message
}

/// Reads one datagram of the kernel's answer.
///
/// # Errors
/// The kernel's error number as [`io::Error`]; `InvalidData` when the datagram is cut.
pub fn parse(mut bytes: &[u8]) -> io::Result<Part> {
    let cut = || io::Error::new(io::ErrorKind::InvalidData, "the answer is cut");
    let mut part = Part::default();
    while !bytes.is_empty() {
        let length = read_u32(bytes, 0).ok_or_else(cut)? as usize;
        let message = bytes
            .get(..length)
            .filter(|_| length >= HEADER)
            .ok_or_else(cut)?;
        let kind = u16::from_ne_bytes([message[4], message[5]]);
        let body = &message[HEADER..];
        match kind {
            NLMSG_DONE => part.last = true,
            NLMSG_ERROR => {
                let errno = read_u32(body, 0).ok_or_else(cut)? as i32;
                return Err(io::Error::from_raw_os_error(-errno));
            }
            SOCK_DIAG_BY_FAMILY => part.sockets.push(socket(body).ok_or_else(cut)?),
            _ => {}
        }
        // Messages are aligned to four bytes.
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    Ok(part)
}

fn read_u32(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// `struct inet_diag_msg`: family at 0, source port at 4 and source address at 8 (both in network order),
/// receive queue at 56 and send queue at 60: for a listening socket these are queue and backlog.
fn socket(body: &[u8]) -> Option<ListenSocket> {
    let family = *body.first()?;
    let port = u16::from_be_bytes(body.get(4..6)?.try_into().ok()?);
    let address: [u8; 16] = body.get(8..24)?.try_into().ok()?;
    let ip = match family {
        AF_INET => {
            let [a, b, c, d, ..] = address;
            IpAddr::V4(Ipv4Addr::new(a, b, c, d))
        }
        _ => IpAddr::V6(Ipv6Addr::from(address)),
    };
    Some(ListenSocket {
        address: SocketAddr::new(ip, port),
        queue: read_u32(body, 56)?,
        backlog: read_u32(body, 60)?,
    })
}

/// The fullest socket of each address that serves one of `wanted`.
pub fn fullest(
    sockets: &[ListenSocket],
    wanted: &[SocketAddr],
) -> BTreeMap<SocketAddr, ListenSocket> {
    let mut by_address: BTreeMap<SocketAddr, ListenSocket> = BTreeMap::new();
    for socket in sockets {
        if wanted.iter().any(|wanted| socket.serves(*wanted)) {
            let known = by_address.entry(socket.address).or_insert(*socket);
            if socket.fullness() > known.fullness() {
                *known = *socket;
            }
        }
    }
    by_address
}

/// The source. It asks the running kernel about prony's own network namespace; there is no fake root.
#[derive(Debug)]
pub struct Listen {
    wanted: Vec<SocketAddr>,
    netlink: Option<OwnedFd>,
    buffer: Vec<u8>,
    rows: Rows<SocketAddr, 2>,
    gave_up: bool,
}

impl Listen {
    /// Watches the sockets that serve `wanted`.
    pub fn new(wanted: Vec<SocketAddr>) -> Self {
        Self {
            wanted,
            netlink: None,
            buffer: vec![0; 32 * 1024],
            rows: Rows::new(QUEUE),
            gave_up: false,
        }
    }

    /// All listening TCP sockets of this network namespace.
    ///
    /// # Errors
    /// [`MonitorError::Netlink`].
    pub fn sockets(&mut self) -> Result<Vec<ListenSocket>, MonitorError> {
        let mut sockets = Vec::new();
        for family in [AF_INET, AF_INET6] {
            self.ask(family, &mut sockets)?;
        }
        Ok(sockets)
    }

    fn ask(&mut self, family: u8, sockets: &mut Vec<ListenSocket>) -> Result<(), MonitorError> {
        let failed = |doing| move |cause: io::Error| MonitorError::Netlink { doing, cause };
        let netlink = match self.netlink.take() {
            Some(netlink) => netlink,
            None => open_netlink().map_err(failed("opening a sock_diag socket"))?,
        };
        send(&netlink, &request(family), SendFlags::empty())
            .map_err(|e| failed("asking for the listening sockets")(e.into()))?;
        loop {
            let (length, _) = recv(&netlink, &mut self.buffer[..], RecvFlags::empty())
                .map_err(|e| failed("receiving the listening sockets")(e.into()))?;
            let part =
                parse(&self.buffer[..length]).map_err(failed("listing the listening sockets"))?;
            sockets.extend(part.sockets);
            if part.last {
                break;
            }
        }
        // Kept only after a whole answer: the rest of a broken one must not answer the next question.
        self.netlink = Some(netlink);
        Ok(())
    }

    fn note_absent(&self, found: &BTreeMap<SocketAddr, ListenSocket>, out: &mut Recorder) {
        for &address in &self.wanted {
            if found.values().all(|socket| !socket.serves(address)) {
                let error = MonitorError::NotListening { address };
                out.unavailable(
                    &format!("listen.queue, listen.backlog of {address}"),
                    &error,
                );
            }
        }
    }
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

impl Source for Listen {
    fn name(&self) -> &'static str {
        "listen"
    }

    fn sample(&mut self, at: Nanos, pass: Pass, out: &mut Recorder) {
        if self.gave_up {
            return;
        }
        let sockets = match self.sockets() {
            Ok(sockets) => sockets,
            Err(error) => {
                self.gave_up = true;
                return out.unavailable("listen.queue, listen.backlog", &error);
            }
        };
        let found = fullest(&sockets, &self.wanted);
        if pass == Pass::Edge {
            self.note_absent(&found, out);
        }
        for (address, socket) in found {
            let labels = || vec![("address", address.to_string())];
            let values = [f64::from(socket.queue), f64::from(socket.backlog)];
            self.rows.push(&address, labels, at, values, out);
        }
    }
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

    fn at(address: &str, queue: u32, backlog: u32) -> ListenSocket {
        ListenSocket {
            address: address.parse().unwrap(),
            queue,
            backlog,
        }
    }

    #[test]
    fn sockets_of_both_families_up_to_the_end_mark() {
        let mut v4 = [0; 16];
        v4[..4].copy_from_slice(&[127, 0, 0, 1]);
        let mut bytes = diag(AF_INET, v4, 8080, 5, 511);
        bytes.extend(diag(AF_INET6, [0; 16], 80, 0, 4096));
        bytes.extend(message(NLMSG_DONE, &[0; 4]));
        let part = parse(&bytes).unwrap();
        assert_eq!(
            part.sockets,
            [at("127.0.0.1:8080", 5, 511), at("[::]:80", 0, 4096)]
        );
        assert!(part.last);
        assert!(!parse(&diag(AF_INET, v4, 1, 0, 0)).unwrap().last);
    }

    #[test]
    fn the_kernels_refusal_and_cut_answers_are_errors() {
        let refusal = parse(&message(NLMSG_ERROR, &(-2i32).to_ne_bytes())).unwrap_err();
        assert_eq!(refusal.kind(), io::ErrorKind::NotFound);
        let whole = diag(AF_INET, [0; 16], 1, 0, 0);
        for cut in [
            &whole[..3],
            &whole[..40],
            &message(SOCK_DIAG_BY_FAMILY, &[0; 8])[..],
        ] {
            assert_eq!(parse(cut).unwrap_err().kind(), io::ErrorKind::InvalidData);
        }
        assert!(parse(&[0; 16]).is_err(), "a length of zero must not loop");
    }

    #[test]
    fn the_fullest_socket_stands_for_its_address() {
        let sockets = [
            at("0.0.0.0:80", 1, 511),
            at("0.0.0.0:80", 9, 511),
            at("0.0.0.0:80", 3, 511),
            at("127.0.0.1:80", 7, 128),
            at("127.0.0.2:80", 8, 128),
            at("0.0.0.0:81", 500, 511),
        ];
        let found = fullest(&sockets, &["127.0.0.1:80".parse().unwrap()]);
        let found: Vec<ListenSocket> = found.into_values().collect();
        assert_eq!(
            found,
            [at("0.0.0.0:80", 9, 511), at("127.0.0.1:80", 7, 128)]
        );
    }

    #[test]
    fn connections_that_wait_are_seen() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let mut listen = Listen::new(vec![address]);
        let mut out = Recorder::default();
        listen.sample(Nanos(1), Pass::Edge, &mut out);
        // connect() returns after the handshake, so these wait in the queue.
        let clients: Vec<TcpStream> = (0..3)
            .map(|_| TcpStream::connect(address).unwrap())
            .collect();
        listen.sample(Nanos(2), Pass::Fast, &mut out);
        for _ in &clients {
            listener.accept().unwrap();
        }
        listen.sample(Nanos(3), Pass::Edge, &mut out);
        let (series, unavailable) = out.finish();
        assert_eq!(unavailable, []);
        assert_eq!(series[0].signal, "listen.queue");
        assert_eq!(
            series[0].label("address"),
            Some(address.to_string().as_str())
        );
        assert_eq!(series[0].values, [0.0, 3.0, 0.0]);
        assert_eq!(series[1].signal, "listen.backlog");
        assert!(series[1].values[0] >= 1.0);
    }

    #[test]
    fn an_address_where_nothing_listens_is_a_gap() {
        let freed = TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap();
        let mut out = Recorder::default();
        Listen::new(vec![freed]).sample(Nanos(1), Pass::Edge, &mut out);
        let (series, unavailable) = out.finish();
        assert_eq!(series, []);
        assert!(unavailable[0].reason.contains(&freed.to_string()));
    }
}
