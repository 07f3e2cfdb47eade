//! Kernel TCP sockets under one io_uring per load thread.
//!
//! What a thread wants of the kernel lies in a queue until it waits, or until [`SUBMIT_AT`] entries have gathered: one
//! system call sends many requests and takes many answers. Answers are received into buffers that the kernel picks when
//! they come (`buffers`): an idle connection holds none.
//!
//! A connection receives in one of three ways. Small answers on a kept connection come by one receive that goes on by
//! itself (multishot). Where a connection ends with its answer, or a body turned out to be large, each receive is asked
//! for: once the rest of a body is known, it is thrown away in the kernel without a copy.
//!
//! In an open loop a send must go out when it is due: there it is a plain system call (`prompt`). So is one that is not
//! a whole request from the memory that the threads share: only that stays where it is until the kernel has read it.

mod buffers;

use super::dial::{Dialler, Endpoint};
use super::epoll::OpenCount;
use super::{Detail, Event, Failure, Generation, Received, Slot, Tagged, Transport, Want};
use crate::sys::{self, Descriptor, Errno, RawAddress};
use buffers::{BUFFER_BYTES, Buffers, GROUP, NONE};
use io_uring::squeue::{Entry, Flags};
use io_uring::types::{CancelBuilder, Fd, SubmitArgs, Timespec};
use io_uring::{IoUring, cqueue, opcode};
use record::{Close, FailureKind};
use std::io;
use std::sync::Arc;

/// Entries of the submission queue.
const ENTRIES: u32 = 256;
/// From so many entries on they are handed over without waiting: the server shall not idle while a batch is handled.
const SUBMIT_AT: usize = 16;
/// The longest request that is sent through the ring: it fits into an empty send buffer, whatever its setting.
const QUEUED_SEND_MAX: usize = 4 * 1024;
/// A rest of a body is thrown away in the kernel from this size on, which is worth a change of the way to receive.
const DISCARD_FROM: usize = 16 * 1024;

/// What an entry was about, kept in its user data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
enum Kind {
    Connect = 0,
    Receive = 1,
    Send = 2,
    Writable = 3,
    /// Nobody asks what came of it.
    Aside = 4,
}

const KIND_BITS: u32 = 3;
const SLOT_BITS: u32 = 29;

fn user_data(kind: Kind, slot: Slot, generation: Generation) -> u64 {
    u64::from(generation) << (KIND_BITS + SLOT_BITS) | u64::from(slot) << KIND_BITS | kind as u64
}

fn parts(user_data: u64) -> (Kind, Slot, Generation) {
    let kind = match user_data & ((1 << KIND_BITS) - 1) {
        0 => Kind::Connect,
        1 => Kind::Receive,
        2 => Kind::Send,
        3 => Kind::Writable,
        _ => Kind::Aside,
    };
    let slot = (user_data >> KIND_BITS) & ((1 << SLOT_BITS) - 1);
    (
        kind,
        slot as Slot,
        (user_data >> (KIND_BITS + SLOT_BITS)) as Generation,
    )
}

/// What the kernel has been asked to receive on a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Armed {
    Nothing,
    /// Whatever comes, again and again.
    Stream,
    /// What comes next.
    Once,
    /// So many bytes, to be thrown away.
    Discard,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Closed,
    Connecting,
    Open,
}

#[derive(Debug)]
struct Socket {
    descriptor: Option<Descriptor>,
    state: State,
    armed: Armed,
    /// Receives are asked for one by one.
    one_by_one: bool,
    /// It stands in the list of connections to arm.
    listed: bool,
    /// An event will tell when more can be sent.
    awaits_room: bool,
    /// It is being reset, and its descriptor stays for the slot's next connection.
    kept: bool,
    /// The peer has ended its side.
    ended: bool,
    /// The connection broke with this; 0 for not.
    error: i32,
    generation: Generation,
    /// Buffers received and not yet lent out, first and last.
    first: u16,
    last: u16,
    /// How much to throw away next.
    discard: u32,
    /// How much was thrown away and not yet told.
    discarded: u32,
}

impl Socket {
    fn closed() -> Self {
        Socket {
            descriptor: None,
            state: State::Closed,
            armed: Armed::Nothing,
            one_by_one: false,
            listed: false,
            awaits_room: false,
            kept: false,
            ended: false,
            error: 0,
            generation: 0,
            first: NONE,
            last: NONE,
            discard: 0,
            discarded: 0,
        }
    }

    fn raw(&self) -> i32 {
        // The kernel answers EBADF for a closed one, which is then reported: the loop never does it.
        self.descriptor.as_ref().map_or(-1, Descriptor::raw)
    }
}

/// How the connections of a load are used, as far as it decides how to ask for bytes.
#[derive(Clone, Debug)]
pub(crate) struct Usage {
    /// A whole request, or as many as a connection may have in flight: memory that does not move.
    pub requests: Arc<[u8]>,
    /// Sends go out when they are made.
    pub prompt: bool,
    /// A connection carries more than one request.
    pub kept: bool,
}

/// The transport; see the module.
pub(crate) struct Uring {
    /// Dropped before the memory that the kernel reads and writes.
    ring: IoUring,
    buffers: Buffers,
    usage: Usage,
    dialler: Dialler,
    /// What ends a connection by a reset when it is connected to.
    nowhere: RawAddress,
    sockets: Vec<Socket>,
    /// Connections that have nothing asked for, longest first.
    to_arm: Vec<Slot>,
    /// The buffer that the loop reads; [`NONE`] for none.
    lent: u16,
    /// A body was large: new connections start with receives one by one.
    large_bodies: bool,
    is_enabled: bool,
    open_count: Arc<OpenCount>,
    syscalls: u64,
}

/// A ring of one thread, which the thread that will use it has to enable. The flags are those of Linux 6.1, which has
/// all operations of this file.
fn build(completions: u32) -> io::Result<IoUring> {
    IoUring::builder()
        .setup_single_issuer()
        .setup_defer_taskrun()
        .setup_taskrun_flag()
        .setup_submit_all()
        .setup_r_disabled()
        .setup_cqsize(completions)
        .dontfork()
        .build(ENTRIES)
}

impl Uring {
    /// Says whether this kernel gives such a ring to this process.
    ///
    /// # Errors
    /// As [`Uring::new`].
    pub fn probe() -> io::Result<()> {
        build(2 * ENTRIES).map(drop)
    }

    /// A transport of `slots` closed slots. `first_source` spreads the threads over the sources. It belongs to the
    /// thread that uses it first.
    ///
    /// # Errors
    /// The kernel's: `EPERM` and `ENOSYS` where io_uring is forbidden or not built in, `EINVAL` before Linux 6.1.
    pub fn new(
        slots: u32,
        endpoint: &Endpoint,
        first_source: usize,
        usage: Usage,
        open_count: Arc<OpenCount>,
    ) -> io::Result<Self> {
        let completions = (slots.saturating_mul(2)).next_power_of_two();
        let ring = build(completions.clamp(1 << 10, 1 << 15))?;
        let buffers = Buffers::new((slots.next_power_of_two() as u16).clamp(1 << 6, 1 << 10));
        Ok(Uring {
            ring,
            buffers,
            usage,
            dialler: Dialler::new(endpoint, first_source),
            nowhere: RawAddress::none(),
            sockets: (0..slots).map(|_| Socket::closed()).collect(),
            to_arm: Vec::with_capacity(slots as usize),
            lent: NONE,
            large_bodies: false,
            is_enabled: false,
            open_count,
            syscalls: 0,
        })
    }

    /// The ring belongs to the thread that enables it.
    fn enable(&mut self) -> io::Result<()> {
        self.syscalls += 2;
        self.ring.submitter().register_enable_rings()?;
        self.buffers.register(&self.ring.submitter())?;
        self.is_enabled = true;
        Ok(())
    }

    /// Queues an entry. What it points to must stay where it is until it has completed.
    #[inline]
    fn push(&mut self, entry: &Entry) {
        // SAFETY: all that entries of this file point to (the requests, the server's address, the buffers) belongs to
        // `self`, does not move, and is dropped after the ring, which `drop` has emptied by then.
        while unsafe { self.ring.submission().push(entry) }.is_err() {
            self.submit();
        }
    }

    fn submit(&mut self) {
        self.syscalls += 1;
        // What was not taken stays queued; `wait` meets the same error and reports it.
        let _ = self.ring.submit();
    }

    #[inline]
    fn submit_if_many(&mut self) {
        if self.ring.submission().len() >= SUBMIT_AT {
            self.submit();
        }
    }

    fn call<T>(&mut self, result: T) -> T {
        self.syscalls += 1;
        result
    }

    // ---- Receives ----

    /// Sees to it that the connection is asked for what comes next before the thread waits.
    #[inline]
    fn list(&mut self, slot: Slot) {
        let socket = &mut self.sockets[slot as usize];
        if !socket.listed {
            socket.listed = true;
            self.to_arm.push(slot);
        }
    }

    /// In the order in which they came to have nothing asked for: who found no free buffer stands before those who used
    /// them up, and gets the next.
    fn arm_listed(&mut self) {
        let mut listed = std::mem::take(&mut self.to_arm);
        for slot in listed.drain(..) {
            let socket = &mut self.sockets[slot as usize];
            socket.listed = false;
            let is_done = socket.ended || socket.error != 0;
            if socket.state == State::Open && socket.armed == Armed::Nothing && !is_done {
                self.arm(slot);
            }
        }
        self.to_arm = listed;
    }

    fn arm(&mut self, slot: Slot) {
        let socket = &mut self.sockets[slot as usize];
        let fd = Fd(socket.raw());
        let (armed, entry) = if socket.discard > 0 {
            // Under MSG_TRUNC nothing is written to a TCP socket's buffer (tcp(7)). Not with MSG_WAITALL: what is
            // thrown away does not count as received there, and the receive would wait for ever (Linux 6.18).
            let entry = opcode::Recv::new(fd, std::ptr::null_mut(), socket.discard)
                .flags(libc::MSG_TRUNC)
                .build();
            socket.discard = 0;
            (Armed::Discard, entry)
        } else if socket.one_by_one {
            let entry = opcode::Recv::new(fd, std::ptr::null_mut(), BUFFER_BYTES as u32)
                .buf_group(GROUP)
                .build()
                .flags(Flags::BUFFER_SELECT);
            (Armed::Once, entry)
        } else {
            (Armed::Stream, opcode::RecvMulti::new(fd, GROUP).build())
        };
        socket.armed = armed;
        let data = user_data(Kind::Receive, slot, socket.generation);
        self.push(&entry.user_data(data));
    }

    /// Takes back what was asked for, without a word about it.
    fn cancel(&mut self, kind: Kind, slot: Slot) {
        let generation = self.sockets[slot as usize].generation;
        let entry = opcode::AsyncCancel::new(user_data(kind, slot, generation))
            .build()
            .flags(Flags::SKIP_SUCCESS)
            .user_data(Kind::Aside as u64);
        self.push(&entry);
    }

    fn give_back_lent(&mut self) {
        if self.lent != NONE {
            self.buffers
                .give_back(std::mem::replace(&mut self.lent, NONE));
        }
    }

    fn on_received(&mut self, slot: Slot, result: i32, flags: u32) {
        let socket = &mut self.sockets[slot as usize];
        let was = socket.armed;
        if !cqueue::more(flags) {
            socket.armed = Armed::Nothing;
        }
        match (result, cqueue::buffer_select(flags)) {
            (1.., Some(id)) => {
                self.buffers.fill(id, result as u32);
                if socket.first == NONE {
                    socket.first = id;
                } else {
                    self.buffers.chain(socket.last, id);
                }
                socket.last = id;
            }
            (1.., None) => socket.discarded += result as u32,
            (0, _) => socket.ended = true,
            // No buffer was free, or the way to receive has changed: asked again when there is one.
            (_, _) if result == -libc::ENOBUFS || result == -libc::ECANCELED => {}
            _ => socket.error = -result,
        }
        debug_assert!(was != Armed::Nothing, "nothing was asked for");
        if socket.armed == Armed::Nothing {
            self.list(slot);
        }
    }

    // ---- Events ----

    fn is_current(&self, slot: Slot, generation: Generation) -> bool {
        let socket = &self.sockets[slot as usize];
        socket.generation == generation && socket.state != State::Closed
    }

    /// What a completion means for its slot; `None` for nothing that the loop must know.
    fn translate(&mut self, completion: &cqueue::Entry) -> Option<Tagged> {
        let (kind, slot, generation) = parts(completion.user_data());
        let (result, flags) = (completion.result(), completion.flags());
        if kind == Kind::Aside {
            return None;
        }
        if !self.is_current(slot, generation) {
            // The connection has gone; its bytes with it.
            if let Some(id) = cqueue::buffer_select(flags) {
                self.buffers.give_back(id);
            }
            return None;
        }
        let event = match kind {
            Kind::Connect => self.on_connected(slot, result),
            Kind::Receive => {
                self.on_received(slot, result, flags);
                let socket = &self.sockets[slot as usize];
                let has_news = socket.first != NONE || socket.discarded > 0;
                let is_over = socket.ended || socket.error != 0;
                if !has_news && !is_over {
                    return None;
                }
                Event::Ready {
                    readable: true,
                    writable: false,
                    hangup: is_over,
                }
            }
            // Only what went wrong is told.
            Kind::Send => {
                let socket = &mut self.sockets[slot as usize];
                socket.error = if result < 0 { -result } else { libc::EPIPE };
                Event::Ready {
                    readable: true,
                    writable: false,
                    hangup: true,
                }
            }
            Kind::Writable => {
                self.sockets[slot as usize].awaits_room = false;
                Event::Ready {
                    readable: false,
                    writable: true,
                    hangup: false,
                }
            }
            Kind::Aside => return None,
        };
        Some(Tagged {
            slot,
            generation,
            event,
        })
    }

    fn on_connected(&mut self, slot: Slot, result: i32) -> Event {
        let socket = &mut self.sockets[slot as usize];
        if result < 0 {
            socket.state = State::Closed;
            socket.descriptor = None;
            self.syscalls += 1;
            return Event::OpenFailed(Failure::connect("connect", Errno(-result)));
        }
        socket.state = State::Open;
        self.open_count.add();
        self.list(slot);
        Event::Opened
    }

    /// Hands over what is queued and waits for the first completion.
    fn enter(&mut self, timeout_ns: u64) -> io::Result<()> {
        let is_idle = {
            let (_, submission, completion) = self.ring.split();
            let has_work = submission.taskrun() || submission.cq_overflow();
            submission.is_empty() && !has_work && completion.is_empty()
        };
        if timeout_ns == 0 && is_idle {
            // The kernel has left word that there is nothing to fetch: a look costs no system call.
            return Ok(());
        }
        self.syscalls += 1;
        let timeout = Timespec::from(std::time::Duration::from_nanos(timeout_ns));
        let (want, args) = match timeout_ns {
            0 => (0, SubmitArgs::new()),
            _ => (1, SubmitArgs::new().timespec(&timeout)),
        };
        match self.ring.submitter().submit_with_args(want, &args) {
            Ok(_) => Ok(()),
            // Time is up, a signal came, or completions must be taken first.
            Err(error) => match error.raw_os_error() {
                Some(libc::ETIME | libc::EINTR | libc::EBUSY | libc::EAGAIN) => Ok(()),
                _ => Err(error),
            },
        }
    }
}

impl Transport for Uring {
    fn open(&mut self, slot: Slot, generation: Generation) -> Result<(), Failure> {
        if !self.is_enabled {
            let failed = |error: io::Error| Failure::io("io_uring_register", errno_of(&error));
            self.enable().map_err(failed)?;
        }
        let descriptor = match self.sockets[slot as usize].descriptor.take() {
            Some(kept) => {
                self.dialler.delay_acknowledgement(&kept);
                kept
            }
            // A non-blocking socket would make the ring give up where it should wait.
            None => self.dialler.socket(sys::Blocking::Yes)?,
        };
        let (address, len) = self.dialler.server.parts();
        let entry = opcode::Connect::new(Fd(descriptor.raw()), address, len).build();
        self.push(&entry.user_data(user_data(Kind::Connect, slot, generation)));
        let listed = self.sockets[slot as usize].listed;
        self.sockets[slot as usize] = Socket {
            descriptor: Some(descriptor),
            state: State::Connecting,
            generation,
            one_by_one: !self.usage.kept || self.large_bodies,
            listed,
            ..Socket::closed()
        };
        self.submit_if_many();
        Ok(())
    }

    #[inline]
    fn send(&mut self, slot: Slot, bytes: &[u8]) -> Result<usize, Failure> {
        let socket = &self.sockets[slot as usize];
        let whole = &self.usage.requests[..];
        let is_whole = std::ptr::eq(bytes, whole) && whole.len() <= QUEUED_SEND_MAX;
        if is_whole && !self.usage.prompt {
            let entry = opcode::Send::new(Fd(socket.raw()), bytes.as_ptr(), bytes.len() as u32)
                .flags(libc::MSG_NOSIGNAL | libc::MSG_WAITALL)
                .build()
                .flags(Flags::SKIP_SUCCESS)
                .user_data(user_data(Kind::Send, slot, socket.generation));
            self.push(&entry);
            self.submit_if_many();
            return Ok(bytes.len());
        }
        self.syscalls += 1;
        let sent = match sys::send(socket.raw(), bytes) {
            Err(Errno(libc::EAGAIN | libc::EINTR)) => 0,
            sent => sent.map_err(|errno| Failure::io("send", errno))?,
        };
        if sent < bytes.len() {
            self.await_room(slot);
        }
        Ok(sent)
    }

    #[inline]
    fn recv(&mut self, slot: Slot, want: Want) -> Result<Received<'_>, Failure> {
        self.give_back_lent();
        let socket = &mut self.sockets[slot as usize];
        if socket.first != NONE {
            let id = socket.first;
            socket.first = self.buffers.next(id);
            socket.discard = 0;
            let more = socket.first != NONE || socket.ended || socket.error != 0;
            self.lent = id;
            let bytes = self.buffers.bytes(id);
            let more = more || bytes.len() == BUFFER_BYTES;
            return Ok(Received::Data { bytes, more });
        }
        if socket.discarded > 0 {
            let len = std::mem::take(&mut socket.discarded) as usize;
            let more = socket.ended || socket.error != 0;
            return Ok(Received::Discarded { len, more });
        }
        if socket.error != 0 {
            return Err(Failure::io("recv", Errno(socket.error)));
        }
        if socket.ended {
            return Ok(Received::End { orderly: true });
        }
        match want {
            Want::Discard(len) if len >= DISCARD_FROM => self.discard_next(slot, len),
            _ => socket.discard = 0,
        }
        Ok(Received::Blocked)
    }

    fn close(&mut self, slot: Slot, how: Close) {
        self.give_back_lent();
        let state = self.sockets[slot as usize].state;
        match state {
            State::Closed => return,
            State::Connecting => self.cancel(Kind::Connect, slot),
            State::Open => {
                self.open_count.sub();
                if self.sockets[slot as usize].armed != Armed::Nothing {
                    self.cancel(Kind::Receive, slot);
                }
                if self.sockets[slot as usize].awaits_room {
                    self.cancel(Kind::Writable, slot);
                }
                if how == Close::Rst {
                    self.reset(slot);
                }
            }
        }
        let socket = &mut self.sockets[slot as usize];
        socket.state = State::Closed;
        let mut id = std::mem::replace(&mut socket.first, NONE);
        let kept = std::mem::take(&mut socket.kept);
        let descriptor = socket.descriptor.take_if(|_| !kept);
        while id != NONE {
            let next = self.buffers.next(id);
            self.buffers.give_back(id);
            id = next;
        }
        if let Some(descriptor) = descriptor {
            let entry = opcode::Close::new(Fd(descriptor.release()))
                .build()
                .flags(Flags::SKIP_SUCCESS)
                .user_data(Kind::Aside as u64);
            self.push(&entry);
            self.submit_if_many();
        }
    }

    fn wait(&mut self, events: &mut Vec<Tagged>, timeout_ns: u64) -> Result<(), Failure> {
        let failed = |error: io::Error| Failure {
            kind: FailureKind::Io,
            detail: Detail::Call("io_uring_enter", errno_of(&error)),
        };
        if !self.is_enabled {
            self.enable().map_err(failed)?;
        }
        self.give_back_lent();
        self.arm_listed();
        self.enter(timeout_ns).map_err(failed)?;
        while events.len() < events.capacity() {
            let Some(completion) = self.ring.completion().next() else {
                break;
            };
            events.extend(self.translate(&completion));
        }
        Ok(())
    }

    fn syscalls(&self) -> u64 {
        self.syscalls + self.dialler.syscalls
    }

    fn name(&self) -> String {
        "uring".to_owned()
    }
}

impl Uring {
    /// Ends a connection by a reset. Its socket is used again, unless something is asked for that could reach the next
    /// connection on it.
    fn reset(&mut self, slot: Slot) {
        let socket = &mut self.sockets[slot as usize];
        socket.kept = socket.armed == Armed::Nothing && !socket.awaits_room;
        let fd = Fd(socket.raw());
        if socket.kept {
            // In the queue, behind what is still to be sent.
            let (address, len) = self.nowhere.parts();
            let entry = opcode::Connect::new(fd, address, len).build();
            self.push(
                &entry
                    .flags(Flags::SKIP_SUCCESS)
                    .user_data(Kind::Aside as u64),
            );
        } else {
            // A failure leaves a FIN in place of the reset; the connection ends all the same.
            let _ = self.call(sys::set_reset_on_close(fd.0));
        }
    }

    /// An event shall tell when more can be sent.
    fn await_room(&mut self, slot: Slot) {
        let socket = &mut self.sockets[slot as usize];
        if std::mem::replace(&mut socket.awaits_room, true) {
            return;
        }
        let entry = opcode::PollAdd::new(Fd(socket.raw()), libc::POLLOUT as u32)
            .build()
            .user_data(user_data(Kind::Writable, slot, socket.generation));
        self.push(&entry);
    }

    /// The next `len` bytes are to be thrown away, and receives asked for one by one from now on.
    fn discard_next(&mut self, slot: Slot, len: usize) {
        self.large_bodies = true;
        let socket = &mut self.sockets[slot as usize];
        socket.discard = len as u32;
        if !std::mem::replace(&mut socket.one_by_one, true) && socket.armed == Armed::Stream {
            self.cancel(Kind::Receive, slot);
        }
    }
}

impl Drop for Uring {
    /// Nothing may be under way when the memory goes that the kernel reads and writes.
    fn drop(&mut self) {
        if self.is_enabled {
            self.submit();
            // Nothing left to take back is an error to the kernel, and none here.
            let all = CancelBuilder::any().all();
            let _ = self.ring.submitter().register_sync_cancel(None, all);
        }
    }
}

fn errno_of(error: &io::Error) -> Errno {
    Errno(error.raw_os_error().unwrap_or(libc::EIO))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{SocketAddr, TcpListener, TcpStream};

    const REQUEST: &[u8] = b"hello";

    fn transport(server: SocketAddr, slots: u32, prompt: bool, kept: bool) -> Uring {
        let endpoint = Endpoint {
            server: super::super::Place::Tcp(server),
            sources: Vec::new(),
            one_segment: !kept,
            receive_buffer: None,
        };
        let usage = Usage {
            requests: REQUEST.into(),
            prompt,
            kept,
        };
        Uring::new(slots, &endpoint, 0, usage, Arc::default()).unwrap()
    }

    /// Waits for events of one slot until one fits.
    fn until(uring: &mut Uring, fits: impl Fn(&Event) -> bool) -> Tagged {
        let mut events = Vec::with_capacity(16);
        for _ in 0..100 {
            uring.wait(&mut events, 100_000_000).unwrap();
            if let Some(found) = events.drain(..).find(|tagged| fits(&tagged.event)) {
                return found;
            }
        }
        panic!("no such event within ten seconds");
    }

    fn is_readable(event: &Event) -> bool {
        matches!(event, Event::Ready { readable: true, .. })
    }

    fn open(uring: &mut Uring, listener: &TcpListener, slot: Slot) -> TcpStream {
        uring.open(slot, 7).unwrap();
        let opened = until(uring, |event| matches!(event, Event::Opened));
        assert_eq!((opened.slot, opened.generation), (slot, 7));
        listener.accept().unwrap().0
    }

    /// All bytes that can be received now.
    fn take(uring: &mut Uring, slot: Slot) -> Vec<u8> {
        let mut all = Vec::new();
        while let Received::Data { bytes, .. } = uring.recv(slot, Want::Bytes(usize::MAX)).unwrap()
        {
            all.extend_from_slice(bytes);
        }
        all
    }

    #[test]
    fn requests_go_out_and_answers_come_in_on_all_ways() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        for (prompt, kept) in [(false, false), (false, true), (true, false), (true, true)] {
            let mut uring = transport(listener.local_addr().unwrap(), 1, prompt, kept);
            let mut peer = open(&mut uring, &listener, 0);
            for _ in 0..3 {
                let requests = Arc::clone(&uring.usage.requests);
                assert_eq!(uring.send(0, &requests).unwrap(), REQUEST.len());
                uring.wait(&mut Vec::with_capacity(1), 0).unwrap();
                let mut got = [0; REQUEST.len()];
                peer.read_exact(&mut got).unwrap();
                assert_eq!(got, REQUEST);
                peer.write_all(b"answer").unwrap();
                until(&mut uring, is_readable);
                assert_eq!(take(&mut uring, 0), b"answer");
            }
            uring.close(0, Close::Fin);
            uring.wait(&mut Vec::with_capacity(1), 1).unwrap();
            assert_eq!(peer.read(&mut [0]).unwrap(), 0, "an orderly end");
        }
    }

    #[test]
    fn bytes_that_are_not_a_whole_request_go_out_at_once() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut uring = transport(listener.local_addr().unwrap(), 1, false, true);
        let mut peer = open(&mut uring, &listener, 0);
        assert_eq!(uring.send(0, b"other bytes").unwrap(), 11);
        let mut got = [0; 11];
        peer.read_exact(&mut got).unwrap();
        assert_eq!(&got, b"other bytes");
    }

    /// More than all buffers hold, many times over: none may be lost, and none lent twice.
    #[test]
    fn a_long_stream_comes_whole_and_in_order() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut uring = transport(listener.local_addr().unwrap(), 1, false, true);
        let mut peer = open(&mut uring, &listener, 0);
        let sent: Vec<u8> = (0..3_000_000_u32).map(|i| (i % 251) as u8).collect();
        let whole = sent.clone();
        let writer = std::thread::spawn(move || peer.write_all(&whole).unwrap());
        let mut got = Vec::new();
        while got.len() < sent.len() {
            until(&mut uring, is_readable);
            got.extend(take(&mut uring, 0));
        }
        writer.join().unwrap();
        assert!(got == sent, "{} of {} bytes", got.len(), sent.len());
    }

    /// Four peers whose sockets are always full share buffers for two: each gets its turn, though a turn takes only a
    /// part of what has come.
    #[test]
    fn nobody_waits_for_a_buffer_for_ever() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut uring = transport(listener.local_addr().unwrap(), 4, false, true);
        let mut peers: Vec<TcpStream> = (0..4).map(|i| open(&mut uring, &listener, i)).collect();
        for peer in &peers {
            peer.set_nonblocking(true).unwrap();
        }
        let mut events = Vec::with_capacity(16);
        let (mut ready, mut got) = (Vec::new(), [0_usize; 4]);
        while got.iter().copied().max() < Some(20_000_000) {
            for peer in &mut peers {
                while peer.write(&[0; 1 << 16]).is_ok() {}
            }
            uring.wait(&mut events, 1_000_000).unwrap();
            ready.extend(events.drain(..).map(|tagged| tagged.slot));
            for slot in std::mem::take(&mut ready) {
                for _ in 0..16 {
                    match uring.recv(slot, Want::Bytes(usize::MAX)).unwrap() {
                        Received::Data { bytes, .. } => got[slot as usize] += bytes.len(),
                        _ => break,
                    }
                }
                if uring.sockets[slot as usize].first != NONE && !ready.contains(&slot) {
                    ready.push(slot);
                }
            }
        }
        assert!(got.iter().all(|bytes| *bytes > 2_000_000), "{got:?}");
    }

    #[test]
    fn what_is_thrown_away_is_counted_to_the_byte() {
        const LEN: usize = 1_000_000;
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut uring = transport(listener.local_addr().unwrap(), 1, false, true);
        let mut peer = open(&mut uring, &listener, 0);
        let writer = std::thread::spawn(move || {
            peer.write_all(&vec![b'x'; LEN]).unwrap();
            peer.write_all(b"the next").unwrap();
            peer
        });
        let (mut left, mut discarded) = (LEN, 0);
        while left > 0 {
            until(&mut uring, is_readable);
            loop {
                let want = match left {
                    0 => Want::Bytes(1),
                    _ => Want::Discard(left),
                };
                match uring.recv(0, want).unwrap() {
                    // The last buffer may hold the beginning of what follows.
                    Received::Data { bytes, .. } => left -= bytes.len().min(left),
                    Received::Discarded { len, .. } => {
                        left -= len;
                        discarded += len;
                    }
                    Received::Blocked => break,
                    other => panic!("{other:?} before the end of the body"),
                }
            }
        }
        assert!(
            discarded > LEN / 2,
            "{discarded} of {LEN} bytes without a copy"
        );
        drop(writer.join().unwrap());
        until(&mut uring, |event| {
            matches!(event, Event::Ready { hangup: true, .. })
        });
    }

    #[test]
    fn an_end_a_reset_and_a_closed_port_are_told_apart() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let mut uring = transport(address, 2, false, true);
        drop(open(&mut uring, &listener, 0));
        until(&mut uring, is_readable);
        let end = uring.recv(0, Want::Bytes(1)).unwrap();
        assert!(matches!(end, Received::End { orderly: true }));

        let peer = open(&mut uring, &listener, 1);
        socket2::SockRef::from(&peer)
            .set_linger(Some(std::time::Duration::ZERO))
            .unwrap();
        drop(peer);
        until(&mut uring, is_readable);
        let failure = uring.recv(1, Want::Bytes(1)).unwrap_err();
        assert_eq!(failure.kind, FailureKind::Reset);

        drop(listener);
        uring.close(0, Close::Fin);
        uring.open(0, 8).unwrap();
        let refused = until(&mut uring, |event| matches!(event, Event::OpenFailed(_)));
        let Event::OpenFailed(failure) = refused.event else {
            unreachable!("it was looked for")
        };
        assert_eq!(failure.kind, FailureKind::ConnectRefused);
    }

    /// What comes for a connection that has gone must not reach the next one in its slot, and no buffer may go with it.
    #[test]
    fn a_slot_forgets_its_earlier_connection() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut uring = transport(listener.local_addr().unwrap(), 1, false, true);
        let count = 500;
        for generation in 0..count {
            uring.open(0, generation).unwrap();
            until(&mut uring, |event| matches!(event, Event::Opened));
            let (mut peer, _) = listener.accept().unwrap();
            peer.write_all(&generation.to_be_bytes()).unwrap();
            if generation % 2 == 0 {
                let ready = until(&mut uring, is_readable);
                assert_eq!(ready.generation, generation);
                assert_eq!(take(&mut uring, 0), generation.to_be_bytes());
            }
            uring.close(
                0,
                if generation % 3 == 0 {
                    Close::Rst
                } else {
                    Close::Fin
                },
            );
        }
    }

    #[test]
    fn a_look_without_news_costs_no_system_call() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut uring = transport(listener.local_addr().unwrap(), 1, true, true);
        let _peer = open(&mut uring, &listener, 0);
        let mut events = Vec::with_capacity(1);
        uring.wait(&mut events, 0).unwrap();
        let before = uring.syscalls();
        for _ in 0..100 {
            uring.wait(&mut events, 0).unwrap();
        }
        assert_eq!(uring.syscalls(), before);
        uring.wait(&mut events, 1_000).unwrap();
        assert!(events.is_empty());
        assert_eq!(uring.syscalls(), before + 1);
    }
}
