//! Kernel TCP sockets under one edge-triggered epoll instance per load thread.
//!
//! A socket is registered once, for everything, and never again touched by `epoll_ctl`: per request
//! there is one `send`, one `recv` and a share of one wait. A read that comes back short has drained
//! the socket (epoll(7)), so nobody reads on just to see EAGAIN. Closing the descriptor unregisters it.

use super::dial::{Dialler, Endpoint};
use super::{Event, Failure, Generation, Received, Slot, Tagged, Transport, Want};
use crate::clock::now_ns;
use crate::sys::{self, Descriptor, Errno, RawAddress};
use record::{Close, FailureKind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// One receive buffer for all connections of a thread; larger ones saved nothing.
const RECEIVE_BYTES: usize = 64 * 1024;
/// From this on a wait is left to the timer.
const LONG_WAIT_NS: u64 = 1_000_000;
/// `epoll_event.data` of the timer, which no slot can have: slots end far below.
const TIMER: u64 = u64::MAX;
const EVERYTHING: u32 = (libc::EPOLLIN | libc::EPOLLOUT | libc::EPOLLRDHUP | libc::EPOLLET) as u32;

/// Connections open over all threads, and the most there ever were.
#[derive(Debug, Default)]
pub(crate) struct OpenCount {
    now: AtomicU32,
    peak: AtomicU32,
}

impl OpenCount {
    pub(super) fn add(&self) {
        let open = self.now.fetch_add(1, Relaxed) + 1;
        self.peak.fetch_max(open, Relaxed);
    }

    pub(super) fn sub(&self) {
        self.now.fetch_sub(1, Relaxed);
    }

    /// Most open at one time.
    pub fn peak(&self) -> u32 {
        self.peak.load(Relaxed)
    }
}

#[derive(Debug)]
enum Socket {
    Closed,
    /// Reset, and registered still: the slot's next connection takes it.
    Kept(Descriptor),
    Connecting(Descriptor),
    Open(Descriptor),
}

/// The transport; see the module.
pub(crate) struct Epoll {
    epoll: Descriptor,
    /// For long waits: set once and left alone by all waits that end sooner, it costs less than a timeout
    /// of each of them. Also for kernels without `epoll_pwait2` (before 5.11).
    timer: Descriptor,
    /// When the timer fires next; in the past when it does not.
    timer_at: u64,
    /// Shorter timeouts are given to `epoll_pwait2`.
    long_wait_ns: u64,
    sockets: Vec<Socket>,
    /// Under which generation each slot's socket is registered, so that an event of an earlier one is recognised. A
    /// descriptor inherited by a child between fork and exec would keep the old registration alive.
    registered: Vec<Generation>,
    /// Of each slot's connection: a socket that is used again stays registered as it was.
    generations: Vec<Generation>,
    ready: Vec<libc::epoll_event>,
    buffer: Box<[u8]>,
    dialler: Dialler,
    open_count: Arc<OpenCount>,
    syscalls: u64,
}

impl Epoll {
    /// A transport of `slots` closed slots. `first_source` spreads the threads over the sources.
    pub fn new(
        slots: u32,
        endpoint: &Endpoint,
        first_source: usize,
        open_count: Arc<OpenCount>,
    ) -> Result<Self, Errno> {
        let slots = slots as usize;
        let empty = libc::epoll_event { events: 0, u64: 0 };
        let (epoll, timer) = (sys::epoll_create()?, sys::timerfd_create()?);
        let readable = (libc::EPOLLIN | libc::EPOLLET) as u32;
        sys::epoll_add(epoll.raw(), timer.raw(), readable, TIMER)?;
        Ok(Epoll {
            epoll,
            timer,
            timer_at: 0,
            long_wait_ns: LONG_WAIT_NS,
            sockets: (0..slots).map(|_| Socket::Closed).collect(),
            registered: vec![0; slots],
            generations: vec![0; slots],
            ready: vec![empty; (slots + 1).min(512)],
            buffer: vec![0; RECEIVE_BYTES].into_boxed_slice(),
            dialler: Dialler::new(endpoint, first_source),
            open_count,
            syscalls: 0,
        })
    }

    fn call<T>(&mut self, result: T) -> T {
        self.syscalls += 1;
        result
    }

    fn descriptor(&self, slot: Slot) -> i32 {
        match &self.sockets[slot as usize] {
            Socket::Open(fd) | Socket::Connecting(fd) => fd.raw(),
            // The kernel answers EBADF, which is then reported: the loop never does it.
            Socket::Closed | Socket::Kept(_) => -1,
        }
    }

    fn connect(&mut self, socket: &Descriptor) -> Result<(), Failure> {
        match self.call(sys::connect(socket.raw(), &self.dialler.server)) {
            Ok(()) | Err(Errno(libc::EINPROGRESS)) => Ok(()),
            Err(errno) => Err(Failure::connect("connect", errno)),
        }
    }

    /// What an epoll event means for a slot; `None` for one of an earlier socket.
    fn translate(&mut self, raw: libc::epoll_event) -> Option<Tagged> {
        let (slot, generation) = (raw.u64 as Slot, (raw.u64 >> 32) as Generation);
        if raw.u64 == TIMER || self.registered[slot as usize] != generation {
            return None;
        }
        let generation = self.generations[slot as usize];
        let has = |flag: libc::c_int| raw.events & flag as u32 != 0;
        let event = match std::mem::replace(&mut self.sockets[slot as usize], Socket::Closed) {
            Socket::Closed => return None,
            Socket::Kept(socket) => {
                self.sockets[slot as usize] = Socket::Kept(socket);
                return None;
            }
            Socket::Connecting(socket) if has(libc::EPOLLERR) => {
                let errno = self
                    .call(sys::take_error(socket.raw()))
                    .unwrap_or_else(|e| e);
                Event::OpenFailed(Failure::connect("connect", errno))
            }
            Socket::Connecting(socket) if !has(libc::EPOLLOUT) => {
                self.sockets[slot as usize] = Socket::Connecting(socket);
                return None;
            }
            Socket::Connecting(socket) => {
                self.sockets[slot as usize] = Socket::Open(socket);
                self.open_count.add();
                Event::Opened
            }
            Socket::Open(socket) => {
                self.sockets[slot as usize] = Socket::Open(socket);
                let hangup = has(libc::EPOLLRDHUP) || has(libc::EPOLLHUP) || has(libc::EPOLLERR);
                Event::Ready {
                    readable: has(libc::EPOLLIN) || hangup,
                    writable: has(libc::EPOLLOUT),
                    hangup,
                }
            }
        };
        Some(Tagged {
            slot,
            generation,
            event,
        })
    }

    fn poll(&mut self, timeout_ns: u64) -> Result<usize, Errno> {
        self.syscalls += 1;
        let epoll = self.epoll.raw();
        if timeout_ns == 0 {
            return sys::epoll_wait(epoll, &mut self.ready, 0);
        }
        if timeout_ns < self.long_wait_ns {
            return sys::epoll_pwait2(epoll, &mut self.ready, timeout_ns);
        }
        self.set_timer(timeout_ns)?;
        sys::epoll_wait(epoll, &mut self.ready, -1)
    }

    /// Sees to it that the timer fires within this time; an earlier end of a wait does no harm.
    fn set_timer(&mut self, timeout_ns: u64) -> Result<(), Errno> {
        let now = now_ns();
        let until = now.saturating_add(timeout_ns);
        if self.timer_at <= now || self.timer_at > until {
            self.syscalls += 1;
            sys::timerfd_set(self.timer.raw(), timeout_ns)?;
            self.timer_at = until;
        }
        Ok(())
    }
}

impl Transport for Epoll {
    fn open(&mut self, slot: Slot, generation: Generation) -> Result<(), Failure> {
        self.generations[slot as usize] = generation;
        let before = std::mem::replace(&mut self.sockets[slot as usize], Socket::Closed);
        let socket = if let Socket::Kept(socket) = before {
            // What its registration says of the connection before is asked again when it is told.
            self.dialler.delay_acknowledgement(&socket);
            self.connect(&socket)?;
            socket
        } else {
            let socket = self.dialler.socket(sys::Blocking::No)?;
            self.connect(&socket)?;
            self.registered[slot as usize] = generation;
            let data = u64::from(generation) << 32 | u64::from(slot);
            let epoll = self.epoll.raw();
            self.call(sys::epoll_add(epoll, socket.raw(), EVERYTHING, data))
                .map_err(|errno| Failure::connect("epoll_ctl", errno))?;
            socket
        };
        self.sockets[slot as usize] = Socket::Connecting(socket);
        Ok(())
    }

    #[inline]
    fn send(&mut self, slot: Slot, bytes: &[u8]) -> Result<usize, Failure> {
        self.syscalls += 1;
        match sys::send(self.descriptor(slot), bytes) {
            Err(Errno(libc::EAGAIN | libc::EINTR)) => Ok(0),
            sent => sent.map_err(|errno| Failure::io("send", errno)),
        }
    }

    #[inline]
    fn recv(&mut self, slot: Slot, want: Want) -> Result<Received<'_>, Failure> {
        self.syscalls += 1;
        let fd = self.descriptor(slot);
        let (asked, got) = match want {
            Want::Bytes(limit) => {
                let limit = limit.min(self.buffer.len());
                (limit, sys::recv(fd, &mut self.buffer[..limit]))
            }
            Want::Discard(limit) if self.dialler.is_tcp => (limit, sys::recv_discard(fd, limit)),
            // Of a Unix socket nothing is thrown away without a copy.
            Want::Discard(limit) => {
                let limit = limit.min(self.buffer.len());
                (limit, sys::recv(fd, &mut self.buffer[..limit]))
            }
        };
        match (got, want) {
            (Ok(0), _) => Ok(Received::End { orderly: true }),
            (Ok(len), Want::Bytes(_)) => Ok(Received::Data {
                bytes: &self.buffer[..len],
                more: len == asked,
            }),
            (Ok(len), Want::Discard(_)) => Ok(Received::Discarded {
                len,
                more: len == asked,
            }),
            (Err(Errno(libc::EAGAIN)), _) => Ok(Received::Blocked),
            (Err(errno), _) => Err(Failure::io("recv", errno)),
        }
    }

    fn close(&mut self, slot: Slot, how: Close) {
        let socket = std::mem::replace(&mut self.sockets[slot as usize], Socket::Closed);
        match socket {
            Socket::Closed => return,
            Socket::Kept(_) | Socket::Connecting(_) => {}
            Socket::Open(open) => {
                self.open_count.sub();
                if how == Close::Rst {
                    self.syscalls += 1;
                    // A failure leaves a FIN in place of the reset; the connection ends all the same.
                    if sys::connect(open.raw(), &RawAddress::none()).is_ok() {
                        self.sockets[slot as usize] = Socket::Kept(open);
                        return;
                    }
                }
            }
        }
        self.syscalls += 1;
    }

    fn wait(&mut self, events: &mut Vec<Tagged>, timeout_ns: u64) -> Result<(), Failure> {
        let n = match self.poll(timeout_ns) {
            Ok(n) => n,
            Err(Errno(libc::EINTR)) => 0,
            Err(Errno(libc::ENOSYS)) if self.long_wait_ns > 0 => {
                self.long_wait_ns = 0;
                return self.wait(events, timeout_ns);
            }
            Err(errno) => {
                return Err(Failure {
                    kind: FailureKind::Io,
                    detail: super::Detail::Call("epoll_pwait2", errno),
                });
            }
        };
        for i in 0..n {
            let raw = self.ready[i];
            let first = self.translate(raw);
            let opened = matches!(&first, Some(first) if matches!(first.event, Event::Opened));
            events.extend(first);
            // One edge may tell of the connection and of the peer's bytes or end at once.
            if opened
                && raw.events & (libc::EPOLLIN | libc::EPOLLRDHUP | libc::EPOLLHUP) as u32 != 0
            {
                events.extend(self.translate(raw));
            }
        }
        Ok(())
    }

    fn syscalls(&self) -> u64 {
        self.syscalls + self.dialler.syscalls
    }

    fn name(&self) -> String {
        "epoll".to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::super::Place;
    use super::*;
    use std::io::{Read, Write};
    use std::net::TcpListener;

    /// Opens one connection to `listener` and sends and receives five bytes.
    fn exchange(listener: &TcpListener, with_timer: bool) {
        let endpoint = Endpoint {
            server: Place::Tcp(listener.local_addr().unwrap()),
            sources: Vec::new(),
            one_segment: false,
            receive_buffer: None,
        };
        let count = Arc::new(OpenCount::default());
        let mut transport = Epoll::new(1, &endpoint, 0, Arc::clone(&count)).unwrap();
        if with_timer {
            transport.long_wait_ns = 0;
        }
        transport.open(0, 7).unwrap();
        let mut events = Vec::with_capacity(4);
        while events.is_empty() {
            transport.wait(&mut events, 1_000_000_000).unwrap();
        }
        assert!(matches!(events[0].event, Event::Opened));
        assert_eq!((events[0].slot, events[0].generation), (0, 7));
        assert_eq!(count.peak(), 1);
        let (mut peer, _) = listener.accept().unwrap();
        assert_eq!(transport.send(0, b"hello").unwrap(), 5);
        let mut got = [0; 5];
        peer.read_exact(&mut got).unwrap();
        peer.write_all(&got).unwrap();
        events.clear();
        while !matches!(
            events.last().map(|last| &last.event),
            Some(Event::Ready { readable: true, .. })
        ) {
            transport.wait(&mut events, 1_000_000_000).unwrap();
        }
        match transport.recv(0, Want::Bytes(100)).unwrap() {
            Received::Data { bytes, more } => assert_eq!((bytes, more), (&b"hello"[..], false)),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn carries_bytes_with_either_way_to_wait() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        exchange(&listener, false);
        exchange(&listener, true);
    }

    #[test]
    fn both_ways_to_wait_end_without_an_event() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        for with_timer in [false, true] {
            let endpoint = Endpoint {
                server: Place::Tcp(listener.local_addr().unwrap()),
                sources: Vec::new(),
                one_segment: false,
                receive_buffer: None,
            };
            let mut transport = Epoll::new(1, &endpoint, 0, Arc::default()).unwrap();
            if with_timer {
                transport.long_wait_ns = 0;
            }
            let mut events = Vec::with_capacity(1);
            transport.wait(&mut events, 1_000).unwrap();
            assert!(events.is_empty());
        }
    }

    #[test]
    fn a_call_that_fails_for_no_reason_of_the_peers_is_an_io_failure() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = Endpoint {
            server: Place::Tcp(listener.local_addr().unwrap()),
            sources: Vec::new(),
            one_segment: true,
            receive_buffer: None,
        };
        let mut transport = Epoll::new(1, &endpoint, 0, Arc::default()).unwrap();
        // A closed slot has no descriptor: the kernel says EBADF.
        let sent = transport.send(0, b"x").unwrap_err();
        let received = transport.recv(0, Want::Bytes(1)).unwrap_err();
        for (failure, call) in [(sent, "send"), (received, "recv")] {
            assert_eq!(failure.kind, FailureKind::Io);
            let words = format!("{call}: Bad file descriptor (os error 9)");
            assert_eq!(failure.detail.to_string(), words);
        }
    }

    #[test]
    fn a_closed_port_is_refused() {
        let free = TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap();
        let endpoint = Endpoint {
            server: Place::Tcp(free),
            sources: Vec::new(),
            one_segment: true,
            receive_buffer: None,
        };
        let mut transport = Epoll::new(1, &endpoint, 0, Arc::default()).unwrap();
        let failure = transport.open(0, 1).err().unwrap_or_else(|| {
            let mut events = Vec::with_capacity(4);
            while events.is_empty() {
                transport.wait(&mut events, 1_000_000_000).unwrap();
            }
            match events.remove(0).event {
                Event::OpenFailed(failure) => failure,
                other => panic!("{other:?}"),
            }
        });
        assert_eq!(failure.kind, FailureKind::ConnectRefused);
        assert_eq!(
            failure.detail.to_string(),
            "connect: Connection refused (os error 111)"
        );
    }
}
