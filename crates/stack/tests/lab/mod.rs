//! What the tests with a real kernel share: a namespace of their own, and our end of a wire to that kernel.
#![allow(dead_code, reason = "each test uses its part")]

use stack::device::{Capabilities, Device, DeviceCounters};
use stack::frame::{Frame, TxMeta};
use stack::link::{Link, Received, Resolution, Settings as LinkSettings};
use stack::tcp::{App, Event, FlowId, Settings, Stack};
use std::io::{self, Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::process::Command;
use std::time::{Duration, Instant};

/// After this the kernel has not answered: no measurement, an end to waiting.
const LIMIT: Duration = Duration::from_secs(20);

/// Runs `test` on a thread in a new network namespace; all that it makes there goes with the thread.
pub fn in_namespace(test: impl FnOnce() + Send) {
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // SAFETY: the call takes an integer only and concerns this thread, which ends here.
            if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
                eprintln!("skipped: a network namespace needs root");
                return;
            }
            ip("link set lo up");
            test();
        });
    });
}

/// One command of iproute2, in the namespace of the calling thread.
pub fn ip(arguments: &str) {
    let output = Command::new("ip")
        .args(arguments.split(' '))
        .output()
        .unwrap();
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "ip {arguments}: {words}");
}

/// An XDP program is on the interface. One that goes takes a moment, which is waited for.
pub fn has_program(interface: &str) -> bool {
    let began = Instant::now();
    loop {
        let shown = Command::new("ip")
            .args(["-d", "link", "show", interface])
            .output()
            .unwrap();
        let has = String::from_utf8_lossy(&shown.stdout).contains("prog/xdp");
        if !has || began.elapsed() > Duration::from_secs(2) {
            return has;
        }
        std::thread::yield_now();
    }
}

/// A device whose longest sent frame is remembered.
pub struct Watched<D> {
    pub device: D,
    pub longest_sent: usize,
    pub counters: DeviceCounters,
}

impl<D: Device> Device for Watched<D> {
    fn capabilities(&self) -> &Capabilities {
        self.device.capabilities()
    }

    fn receive(&mut self, budget: usize, sink: &mut dyn FnMut(Frame<'_>)) -> io::Result<usize> {
        self.device.receive(budget, sink)
    }

    fn transmit(
        &mut self,
        len_max: usize,
        fill: &mut dyn FnMut(&mut [u8]) -> Option<(usize, TxMeta)>,
    ) -> io::Result<bool> {
        let longest = &mut self.longest_sent;
        self.device.transmit(len_max, &mut |room| {
            let filled = fill(room);
            *longest = (*longest).max(filled.map_or(0, |(len, _)| len));
            filled
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        self.counters = self.device.counters();
        self.device.flush()
    }

    fn wait(&mut self, timeout_ns: u64) -> io::Result<()> {
        self.device.wait(timeout_ns)
    }

    fn counters(&self) -> DeviceCounters {
        self.device.counters()
    }
}

/// What became of a stream each way.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Talk {
    acked: u64,
    received: u64,
    is_over: bool,
    to_send: u64,
}

impl Talk {
    /// All of it, both ways.
    pub fn done(bytes: u64) -> Talk {
        Talk {
            acked: bytes,
            received: bytes,
            is_over: true,
            to_send: bytes,
        }
    }
}

fn byte(at: u64) -> u8 {
    (at ^ (at >> 8) ^ (at >> 17)) as u8
}

impl App for Talk {
    fn pull(&mut self, _: FlowId, _: u32, offset: u64, into: &mut [u8]) {
        into.iter_mut()
            .zip(offset..)
            .for_each(|(b, at)| *b = byte(at));
    }

    fn received(&mut self, _: &mut Stack, _: FlowId, _: u32, bytes: &[u8]) {
        for (got, at) in bytes.iter().zip(self.received..) {
            assert_eq!(*got, byte(at), "at {at}");
        }
        self.received += bytes.len() as u64;
    }

    fn event(&mut self, stack: &mut Stack, flow: FlowId, _: u32, event: Event) {
        match event {
            Event::Connected => {
                let taken = stack.send(flow, self.to_send as usize);
                assert_eq!(taken as u64, self.to_send);
                stack.close(flow);
            }
            Event::Acked { offset } => self.acked = offset.min(self.to_send),
            Event::Ended(_) => self.is_over = true,
            Event::Accepted | Event::PeerClosed => {}
        }
    }
}

/// Our end of a wire.
pub struct Ours<D> {
    pub wire: Watched<D>,
    pub link: Link,
    pub longest_received: usize,
    began: Instant,
}

impl<D: Device> Ours<D> {
    pub fn new(device: D, interface: &str) -> Self {
        let settings = LinkSettings {
            interface: interface.to_owned(),
            mac: device.capabilities().mac,
            own: vec![
                "10.9.16.0/24".parse().unwrap(),
                "fd00::1:0/112".parse().unwrap(),
            ],
            networks: vec!["10.9.0.0/16".parse().unwrap(), "fd00::/64".parse().unwrap()],
            gateways: vec![],
        };
        Self {
            wire: Watched {
                device,
                longest_sent: 0,
                counters: DeviceCounters::default(),
            },
            link: Link::new(settings).unwrap(),
            longest_received: 0,
            began: Instant::now(),
        }
    }

    pub fn longest_sent(&self) -> usize {
        self.wire.longest_sent
    }

    fn now_ns(&self) -> u64 {
        let elapsed = self.began.elapsed();
        let counters = self.wire.counters;
        assert!(elapsed < LIMIT, "the kernel does not answer: {counters:?}");
        elapsed.as_nanos() as u64
    }

    /// One turn without a stack: what has come is answered by the link.
    pub fn turn(&mut self) {
        let now = self.now_ns();
        self.wire.wait(10_000_000).unwrap();
        let link = &mut self.link;
        self.wire
            .receive(64, &mut |frame| {
                link.receive(&frame, now);
            })
            .unwrap();
        self.link.poll(now);
        self.link.send(&mut self.wire).unwrap();
        self.wire.flush().unwrap();
    }

    /// The kernel's echo request from one address to one of ours is answered, and before it its ARP or neighbour
    /// solicitation.
    pub fn answers_echo(&mut self, from: &str, to: &str) {
        let (from, to): (IpAddr, IpAddr) = (from.parse().unwrap(), to.parse().unwrap());
        let socket = echo_socket(from);
        let target = SocketAddr::new(to, 0);
        let request: &[u8] = if to.is_ipv4() {
            &[8, 0, 0, 0, 0, 0, 0, 7]
        } else {
            &[128, 0, 0, 0, 0, 0, 0, 7]
        };
        let message = [request, b"is anybody there"].concat();
        socket.send_to(&message, target).unwrap();
        let mut reply = [0; 100];
        let len = loop {
            match socket.recv_from(&mut reply) {
                Ok((len, _)) => break len,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => self.turn(),
                Err(e) => panic!("{e}"),
            }
        };
        assert_eq!(reply[0], if to.is_ipv4() { 0 } else { 129 });
        assert_eq!(&reply[8..len], b"is anybody there");
    }

    /// Connects to the kernel's TCP, sends it so many known bytes and takes as many from it.
    pub fn talks_with_the_kernel(&mut self, kernel: IpAddr, bytes: u64) -> Talk {
        let listener = TcpListener::bind((kernel, 0)).unwrap();
        let to = listener.local_addr().unwrap();
        let own: IpAddr = if kernel.is_ipv4() {
            "10.9.16.5"
        } else {
            "fd00::1:5"
        }
        .parse()
        .unwrap();
        // The thread is started here, so it is in this namespace too.
        let server = std::thread::spawn(move || serve(&listener, bytes));
        let seed = u64::from(to.port());
        let mut stack = Stack::new(
            Settings::default(),
            self.wire.capabilities(),
            &[own],
            seed,
            0,
        );
        let mut talk = Talk {
            to_send: bytes,
            ..Talk::default()
        };
        stack.connect(self.now_ns(), 0, to, 0).unwrap();
        while !talk.is_over {
            let now = self.now_ns();
            let (link, longest) = (&mut self.link, &mut self.longest_received);
            self.wire
                .receive(64, &mut |frame| {
                    *longest = (*longest).max(frame.len());
                    if let Received::Packet { .. } = link.receive(&frame, now) {
                        stack.input(now, frame, &mut talk);
                    }
                })
                .unwrap();
            for address in stack.take_unresolved() {
                match self.link.resolve(address, now).unwrap() {
                    Resolution::Known(mac) => stack.set_link_address(address, mac),
                    Resolution::Waiting => stack.still_unresolved(address),
                }
            }
            self.link.poll(now);
            self.link.send(&mut self.wire).unwrap();
            stack.poll(now, &mut self.wire, &mut talk).unwrap();
            let next = stack.next_deadline_ns().unwrap_or(now + 1_000_000);
            self.wire
                .wait(next.saturating_sub(now).min(1_000_000))
                .unwrap();
        }
        server.join().unwrap();
        talk
    }
}

/// Reads and checks a stream to its end, then sends one back.
fn serve(listener: &TcpListener, bytes: u64) {
    let (mut stream, _) = listener.accept().unwrap();
    let mut got = Vec::new();
    stream.read_to_end(&mut got).unwrap();
    assert_eq!(got.len() as u64, bytes);
    assert!(got.iter().zip(0..).all(|(b, at)| *b == byte(at)));
    stream.write_all(&got).unwrap();
}

/// The kernel's own pinger: a datagram socket for ICMP, which needs the group range to be open.
fn echo_socket(from: IpAddr) -> std::net::UdpSocket {
    use std::os::fd::{FromRawFd as _, OwnedFd};
    std::fs::write("/proc/sys/net/ipv4/ping_group_range", "0 2147483647").unwrap();
    let (family, protocol) = if from.is_ipv4() {
        (libc::AF_INET, libc::IPPROTO_ICMP)
    } else {
        (libc::AF_INET6, libc::IPPROTO_ICMPV6)
    };
    // SAFETY: the call takes integers only.
    let fd = unsafe { libc::socket(family, libc::SOCK_DGRAM | libc::SOCK_NONBLOCK, protocol) };
    assert!(fd >= 0, "{}", io::Error::last_os_error());
    // SAFETY: it was opened just now and nobody else has it; of a UDP socket only its datagrams are used.
    std::net::UdpSocket::from(unsafe { OwnedFd::from_raw_fd(fd) })
}
