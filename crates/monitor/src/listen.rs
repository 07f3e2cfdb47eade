//! Depth and limit of listen queues, by sock_diag over netlink.
//!
//! The question to the kernel is "all TCP sockets in state LISTEN", which walks only the table of listening
//! sockets: `/proc/net/tcp` holds the same numbers but takes 100 ms when there are many TIME_WAIT sockets.
//! The surprise: with SO_REUSEPORT several sockets share an address, each with a queue of its own; the
//! series is that of the fullest one, because that is the one that overflows first.

use crate::recorder::Rows;
use crate::{MonitorError, Pass, Recorder, Signal, Source, Watched};
use linux::Root;
use linux::sock_diag::{AF_UNSPEC, Diag, Message, Question, RECEIVE_QUEUE, SEND_QUEUE, TCP};
use record::Nanos;
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// Signals of a listening address.
pub const QUEUE: [Signal; 2] = [
    Signal::gauge("listen.queue", "connections", "sock_diag"),
    Signal::gauge("listen.backlog", "connections", "sock_diag"),
];

/// `1 << TCP_LISTEN` (include/net/tcp_states.h).
const STATE_LISTEN: u32 = 1 << 10;

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

    /// Whether a connection to `wanted` would arrive here. A socket of IPv6 may carry IPv4 as well: a JVM's do.
    fn serves(&self, wanted: SocketAddr) -> bool {
        let (own, wanted_ip) = (self.address.ip().to_canonical(), wanted.ip().to_canonical());
        self.address.port() == wanted.port()
            && (own == wanted_ip || own.is_unspecified() || wanted_ip.is_unspecified())
    }
}

/// For a listening socket, receive and send queue are queue and backlog.
fn listening(message: &Message<'_>) -> Option<ListenSocket> {
    Some(ListenSocket {
        address: message.local()?,
        queue: message.u32_at(RECEIVE_QUEUE)?,
        backlog: message.u32_at(SEND_QUEUE)?,
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

/// The source. It asks the running kernel about prony's own network namespace and those of the targets.
#[derive(Debug)]
pub struct Listen {
    /// Addresses of interest, and whether a socket was seen for each.
    wanted: Vec<(SocketAddr, bool)>,
    diag: Diag,
    rows: Rows<SocketAddr, 2>,
    gave_up: bool,
}

impl Listen {
    /// Watches the sockets that serve `wanted`, beside prony or where the targets live.
    pub fn new(root: &Root, targets: &[Watched], wanted: Vec<SocketAddr>) -> Self {
        Self {
            wanted: wanted.into_iter().map(|address| (address, false)).collect(),
            diag: Diag::of(root, targets.iter().flat_map(|t| t.pids.iter().copied())),
            rows: Rows::new(QUEUE),
            gave_up: false,
        }
    }

    /// All listening TCP sockets of these network namespaces.
    ///
    /// # Errors
    /// [`linux::Error::Netlink`].
    pub fn sockets(&mut self) -> Result<Vec<ListenSocket>, MonitorError> {
        let mut sockets = Vec::new();
        let question = Question {
            family: AF_UNSPEC,
            protocol: TCP,
            states: STATE_LISTEN,
            extensions: 0,
            filter: &[],
        };
        self.diag
            .ask(&question, "the listening sockets", |message| {
                sockets.push(listening(&message)?);
                Some(())
            })?;
        Ok(sockets)
    }

    /// Takes note of which wanted addresses have a socket.
    fn mark_seen(&mut self, found: &BTreeMap<SocketAddr, ListenSocket>) {
        for (wanted, seen) in &mut self.wanted {
            *seen |= found.values().any(|socket| socket.serves(*wanted));
        }
    }
}

impl Source for Listen {
    fn name(&self) -> &'static str {
        "listen"
    }

    fn sample(&mut self, at: Nanos, _pass: Pass, out: &mut Recorder) {
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
        let wanted: Vec<SocketAddr> = self.wanted.iter().map(|(address, _)| *address).collect();
        let found = fullest(&sockets, &wanted);
        self.mark_seen(&found);
        for (address, socket) in found {
            let labels = || vec![("address", address.to_string())];
            let values = [f64::from(socket.queue), f64::from(socket.backlog)];
            self.rows.push(&address, labels, at, values, out);
        }
    }

    fn finish(&mut self, out: &mut Recorder) {
        let absent = self
            .wanted
            .iter()
            .filter(|(_, seen)| !seen && !self.gave_up);
        for &(address, _) in absent {
            let error = MonitorError::NotListening { address };
            out.unavailable(
                &format!("listen.queue, listen.backlog of {address}"),
                &error,
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    fn at(address: &str, queue: u32, backlog: u32) -> ListenSocket {
        ListenSocket {
            address: address.parse().unwrap(),
            queue,
            backlog,
        }
    }

    #[test]
    fn the_fullest_socket_stands_for_its_address() {
        let sockets = [
            at("0.0.0.0:80", 1, 511),
            at("0.0.0.0:80", 9, 511),
            at("0.0.0.0:80", 3, 511),
            at("127.0.0.1:80", 7, 128),
            at("127.0.0.2:80", 8, 128),
            at("[::ffff:127.0.0.1]:80", 2, 100),
            at("0.0.0.0:81", 500, 511),
        ];
        let found = fullest(&sockets, &["127.0.0.1:80".parse().unwrap()]);
        let found: Vec<ListenSocket> = found.into_values().collect();
        assert_eq!(
            found,
            [
                at("0.0.0.0:80", 9, 511),
                at("127.0.0.1:80", 7, 128),
                at("[::ffff:127.0.0.1]:80", 2, 100)
            ]
        );
    }

    #[test]
    fn connections_that_wait_are_seen() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let mut listen = Listen::new(&Root::default(), &[], vec![address]);
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
        listen.finish(&mut out);
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
        let mut listen = Listen::new(&Root::default(), &[], vec![freed]);
        listen.sample(Nanos(1), Pass::Edge, &mut out);
        listen.finish(&mut out);
        let (series, unavailable) = out.finish();
        assert_eq!(series, []);
        assert!(unavailable[0].reason.contains(&freed.to_string()));
    }
}
