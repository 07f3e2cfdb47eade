//! AF_XDP by raw system calls: frames between the driver and memory of ours, past the kernel's network stack.
//!
//! An XDP program takes what is ours and passes all else, so the host's own connections go on. Each queue of the
//! interface has a socket, because a packet that arrives on a queue without one would go to the kernel. The surprise:
//! one system call sends at most 32 frames where frames are copied, so [`AfXdp::flush`] calls until the ring is empty.

mod program;
mod ring;

use super::interface::{Interface, checked, owned, refuse_host_addresses, refuse_small, wait_any};
use super::mapping::Mapping;
use super::{Capabilities, Device, DeviceCounters, option};
use crate::address::AddressRange;
use crate::error::Error;
use crate::frame::{Frame, RxMeta, TxMeta};
use crate::wire::ethernet;
use program::Attach;
use ring::{Descriptor, Offsets, Ring};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::time::Duration;

/// A piece of memory holds one packet, or a part of one; the driver keeps some of it for itself.
const CHUNK_BYTES: usize = 4096;
/// What a packet may have of a chunk: the kernel keeps 256 bytes before it (XDP_PACKET_HEADROOM).
const PIECE_BYTES: usize = CHUNK_BYTES - 256;
/// Entries of each ring, and chunks for receiving and for sending.
const ENTRIES: u32 = 2048;
/// More pieces than a packet has (MAX_SKB_FRAGS and its head).
const PIECES_MAX: usize = 18;
/// A queue number that no interface has.
const QUEUES_MAX: u32 = 256;

const UMEM_REG: libc::c_int = 4;
const MMAP_OFFSETS: libc::c_int = 1;
const RX_RING: libc::c_int = 2;
const TX_RING: libc::c_int = 3;
const FILL_RING: libc::c_int = 5;
const COMPLETION_RING: libc::c_int = 6;
const STATISTICS: libc::c_int = 7;

const BIND_COPY: u16 = 1 << 1;
const BIND_ZEROCOPY: u16 = 1 << 2;
const BIND_NEED_WAKEUP: u16 = 1 << 3;
const BIND_SG: u16 = 1 << 4;
/// Another piece of the packet follows.
const CONTINUED: u32 = 1;

/// Where the program runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// In the driver if it can, else in the generic path.
    #[default]
    Best,
    /// In the driver.
    Native,
    /// In the kernel's generic path.
    Generic,
}

/// Which interface, and what of it is ours.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Its name.
    pub interface: String,
    /// Our addresses; packets for them are taken, all others go to the kernel.
    pub own: Vec<AddressRange>,
    /// Where the program runs.
    pub mode: Mode,
}

/// The sockets of an interface's queues, with the program that leads packets to them.
#[derive(Debug)]
pub struct AfXdp {
    queues: Vec<Queue>,
    _attached: Arc<Attached>,
    capabilities: Capabilities,
    /// The queue that is looked at first next time, so that none is starved.
    turn: usize,
    room: Vec<u8>,
}

/// The program on the interface, while somebody uses it.
#[derive(Debug)]
struct Attached {
    /// Closing it takes the program off the interface.
    _link: OwnedFd,
    _map: OwnedFd,
}

/// One socket and its memory.
#[derive(Debug)]
struct Queue {
    rx: Ring<Descriptor>,
    tx: Ring<Descriptor>,
    fill: Ring<u64>,
    completion: Ring<u64>,
    memory: Mapping,
    /// Chunks that may be written to.
    free: Vec<u64>,
    counters: DeviceCounters,
    socket: OwnedFd,
}

impl AfXdp {
    /// Opens a socket for each queue, and leads what is ours to them.
    ///
    /// # Errors
    /// [`Error::NoInterface`], [`Error::HostAddress`], [`Error::NotPermitted`], [`Error::Busy`] when another program is
    /// attached or a queue has a socket, [`Error::Unsupported`] with what is missing, [`Error::Device`].
    pub fn open(settings: &Settings) -> Result<Self, Error> {
        let mut devices = Self::open_queues(settings, 1)?;
        devices.pop().ok_or_else(|| {
            let cause = "it has no queue";
            unsupported(&settings.interface, cause, "use another interface")
        })
    }

    /// As [`AfXdp::open`], with the queues dealt out to `count` devices, one for each thread. A packet comes in by the
    /// queue that the interface chooses: [`super::queues`] gets it to its owner.
    ///
    /// # Errors
    /// As [`AfXdp::open`]; [`Error::Unsupported`] too when there are fewer queues.
    pub fn open_queues(settings: &Settings, count: usize) -> Result<Vec<Self>, Error> {
        let open = |how| Self::open_as(settings, how, count);
        match settings.mode {
            Mode::Native => open(Attach::Native),
            Mode::Generic => open(Attach::Generic),
            Mode::Best => match open(Attach::Native) {
                Err(Error::Unsupported { .. }) => open(Attach::Generic),
                other => other,
            },
        }
    }

    fn open_as(settings: &Settings, how: Attach, count: usize) -> Result<Vec<Self>, Error> {
        let name = &settings.interface;
        let interface = Interface::named(name)?;
        let failed = |doing| move |cause| Error::device(doing, name, cause);
        let index = interface.index().map_err(failed("reading the number of"))?;
        let mac = interface.mac().map_err(failed("reading the address of"))?;
        let mtu = interface
            .mtu_bytes()
            .map_err(failed("reading the MTU of"))?;
        refuse_host_addresses(&settings.own)?;
        refuse_small("af_xdp", name, mtu, &settings.own)?;
        if !interface.is_up().map_err(failed("reading the state of"))? {
            return Err(unsupported(
                name,
                "it is down",
                "switch it on: `ip link set IT up`",
            ));
        }
        // The generic path is handed what the sender has not cut yet, up to 64 KiB.
        let in_pieces =
            how == Attach::Generic || mtu as usize + ethernet::HEADER_BYTES > PIECE_BYTES - 512;
        let mut queues = Vec::new();
        let mut copies = false;
        for number in 0..QUEUES_MAX {
            match Queue::open(name, index, number, in_pieces, how)? {
                Some((queue, is_copied)) => {
                    queues.push(queue);
                    copies |= is_copied;
                }
                None => break,
            }
        }
        if queues.is_empty() {
            let cause = "its first queue cannot be bound";
            return Err(unsupported(
                name,
                cause,
                "use --transport tap, or another interface",
            ));
        }
        if queues.len() < count {
            let cause = format!(
                "it has {} queues, and {count} threads need one each",
                queues.len()
            );
            let remedy =
                format!("give it more (`ethtool -L IT combined {count}`), or use fewer threads");
            return Err(unsupported(name, &cause, &remedy));
        }
        let bpf = |doing| move |cause| Error::privileged(doing, name, missing_for_bpf(), cause);
        let map = program::create_map(queues.len() as u32)
            .map_err(bpf("making the map of sockets for"))?;
        for (queue, number) in queues.iter().zip(0..) {
            program::set_socket(&map, number, &queue.socket)
                .map_err(failed("entering a socket for"))?;
        }
        let program = program::load(&map, &settings.own, in_pieces)
            .map_err(bpf("loading the XDP program for"))?;
        let link = attach(name, index, &program, how)?;
        let how = match how {
            Attach::Native => "native",
            Attach::Generic => "generic",
        };
        let copy = if copies { "copy" } else { "zero-copy" };
        let mtu_bytes = u16::try_from(mtu).unwrap_or(u16::MAX);
        let capabilities = Capabilities {
            name: format!("af_xdp ({how}, {copy})"),
            mac,
            mtu_bytes,
            frame_max_bytes: u32::from(mtu_bytes) + ethernet::HEADER_BYTES as u32,
            segments: false,
            checksums: false,
        };
        let attached = Arc::new(Attached {
            _link: link,
            _map: map,
        });
        let mut devices: Vec<Self> = (0..count)
            .map(|_| Self {
                queues: Vec::new(),
                _attached: Arc::clone(&attached),
                capabilities: capabilities.clone(),
                turn: 0,
                room: vec![0; ethernet::HEADER_BYTES + usize::from(u16::MAX)],
            })
            .collect();
        for (number, queue) in queues.into_iter().enumerate() {
            devices[number % count].queues.push(queue);
        }
        Ok(devices)
    }
}

fn unsupported(interface: &str, cause: &str, remedy: &str) -> Error {
    Error::Unsupported {
        device: "af_xdp",
        interface: interface.to_owned(),
        cause: cause.to_owned(),
        remedy: remedy.replace("IT", interface),
    }
}

/// Attaches the program, or says what is in its way.
fn attach(name: &str, index: u32, program: &OwnedFd, how: Attach) -> Result<OwnedFd, Error> {
    program::attach(program, index, how).map_err(|cause| match cause.raw_os_error() {
        _ if is_busy(&cause) => Error::Busy {
            interface: name.to_owned(),
            cause: "it carries an XDP program already".to_owned(),
            remedy: format!(
                "take that one off (`ip link set {name} xdp off`, or end its owner), or use another interface"
            ),
        },
        Some(libc::EOPNOTSUPP) => unsupported(
            name,
            "its driver has no XDP",
            "leave the mode open, so that the generic path is taken",
        ),
        Some(libc::ERANGE | libc::EINVAL | libc::E2BIG) => unsupported(
            name,
            &format!("its driver takes no XDP program at this MTU, queues or offloads ({cause})"),
            "lower the MTU of IT, or switch large receive offload off (`ethtool -K IT lro off`)",
        ),
        _ => Error::privileged("attaching the XDP program to", name, "CAP_NET_ADMIN", cause),
    })
}

/// Which of the two capabilities that an XDP program needs this process has not; CAP_SYS_ADMIN stands for both.
fn missing_for_bpf() -> &'static str {
    const BPF: u32 = 39;
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix("CapEff:"));
    let effective = line.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok());
    match effective.is_some_and(|set| set >> BPF & 1 == 1) {
        true => "CAP_NET_ADMIN",
        false => "CAP_BPF",
    }
}

fn is_busy(cause: &io::Error) -> bool {
    matches!(cause.raw_os_error(), Some(libc::EBUSY | libc::EEXIST))
}

/// `struct xdp_umem_reg`.
#[repr(C)]
struct UmemReg {
    address: u64,
    len: u64,
    chunk_bytes: u32,
    headroom_bytes: u32,
    flags: u32,
    tx_metadata_bytes: u32,
}

/// `struct sockaddr_xdp`.
#[repr(C)]
struct Address {
    family: u16,
    flags: u16,
    interface: u32,
    queue: u32,
    shared: u32,
}

/// `struct xdp_mmap_offsets`: receiving, sending, filling, completion.
type AllOffsets = [Offsets; 4];

impl Queue {
    /// The socket of a queue and whether frames are copied; none when the interface has no such queue.
    fn open(
        name: &str,
        interface: u32,
        number: u32,
        in_pieces: bool,
        how: Attach,
    ) -> Result<Option<(Self, bool)>, Error> {
        // SAFETY: the call takes integers only.
        let socket =
            owned(unsafe { libc::socket(libc::AF_XDP, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) })
                .map_err(|cause| match cause.raw_os_error() {
                    Some(libc::EAFNOSUPPORT) => unsupported(
                        name,
                        "this kernel has no AF_XDP sockets (CONFIG_XDP_SOCKETS)",
                        "use --transport tap",
                    ),
                    _ => Error::privileged(
                        "opening an AF_XDP socket for",
                        name,
                        "CAP_NET_RAW",
                        cause,
                    ),
                })?;
        let failed = |doing| move |cause| Error::device(doing, name, cause);
        let len = CHUNK_BYTES * 2 * ENTRIES as usize;
        let memory = Mapping::new(None, len, 0).map_err(failed("allocating memory for"))?;
        let register = UmemReg {
            address: memory.address(),
            len: memory.len() as u64,
            chunk_bytes: CHUNK_BYTES as u32,
            headroom_bytes: 0,
            flags: 0,
            tx_metadata_bytes: 0,
        };
        option::set(&socket, libc::SOL_XDP, UMEM_REG, &register).map_err(|cause| {
            match cause.raw_os_error() {
                Some(libc::ENOBUFS | libc::ENOMEM) => unsupported(
                    name,
                    &format!(
                        "the locked-memory limit leaves no {} MiB for a queue",
                        len >> 20
                    ),
                    "raise it: `ulimit -l unlimited`, or LimitMEMLOCK=infinity of a unit",
                ),
                _ => Error::device("registering memory for", name, cause),
            }
        })?;
        let rings = failed("making the rings of");
        for ring in [RX_RING, TX_RING, FILL_RING, COMPLETION_RING] {
            option::set(&socket, libc::SOL_XDP, ring, &ENTRIES).map_err(rings)?;
        }
        let [rx, tx, fill, completion] =
            option::get::<AllOffsets>(&socket, libc::SOL_XDP, MMAP_OFFSETS).map_err(rings)?;
        let mut queue = Self {
            rx: Ring::map(&socket, rx, ENTRIES, 0).map_err(rings)?,
            tx: Ring::map(&socket, tx, ENTRIES, 0x8000_0000).map_err(rings)?,
            fill: Ring::map(&socket, fill, ENTRIES, 0x1_0000_0000).map_err(rings)?,
            completion: Ring::map(&socket, completion, ENTRIES, 0x1_8000_0000).map_err(rings)?,
            memory,
            free: (ENTRIES..2 * ENTRIES).map(chunk).collect(),
            counters: DeviceCounters::default(),
            socket,
        };
        let chunks: Vec<u64> = (0..ENTRIES).map(chunk).collect();
        queue.fill.produce(&chunks);
        let pieces = if in_pieces { BIND_SG } else { 0 };
        let copied = BIND_NEED_WAKEUP | pieces | BIND_COPY;
        let whole = BIND_NEED_WAKEUP | pieces | BIND_ZEROCOPY;
        let zero_copy = how == Attach::Native && queue.bind(interface, number, whole).is_ok();
        if !zero_copy && let Err(cause) = queue.bind(interface, number, copied) {
            return match cause.raw_os_error() {
                Some(libc::EINVAL) if number > 0 => Ok(None),
                Some(libc::EBUSY) => Err(Error::Busy {
                    interface: name.to_owned(),
                    cause: format!("queue {number} has a socket of another program"),
                    remedy: "end that program, or use another interface".to_owned(),
                }),
                _ => Err(unsupported(
                    name,
                    &format!("queue {number} cannot be bound ({cause})"),
                    "leave the interface one queue (`ethtool -L IT combined 1`), or use another one",
                )),
            };
        }
        Ok(Some((queue, !zero_copy)))
    }

    /// Binds the socket. The kernel frees a queue shortly after its socket was closed, not when (`xp_put_pool`): one
    /// that is taken is tried again for a moment, so that a program can follow its killed predecessor.
    fn bind(&self, interface: u32, queue: u32, flags: u16) -> io::Result<()> {
        const TRIES: u32 = 100;
        const PAUSE: Duration = Duration::from_millis(5);
        for _ in 1..TRIES {
            match self.bind_now(interface, queue, flags) {
                Err(e) if e.raw_os_error() == Some(libc::EBUSY) => std::thread::sleep(PAUSE),
                other => return other,
            }
        }
        self.bind_now(interface, queue, flags)
    }

    fn bind_now(&self, interface: u32, queue: u32, flags: u16) -> io::Result<()> {
        let address = Address {
            family: libc::AF_XDP as u16,
            flags,
            interface,
            queue,
            shared: 0,
        };
        // SAFETY: the address lives through the call and has the size that is said.
        checked(unsafe {
            libc::bind(
                self.socket.as_raw_fd(),
                (&raw const address).cast(),
                size_of::<Address>() as libc::socklen_t,
            )
        })?;
        Ok(())
    }

    /// Hands out at most `budget` packets.
    fn receive(&mut self, budget: usize, sink: &mut dyn FnMut(Frame<'_>)) -> usize {
        let filled = self.rx.filled();
        let (mut taken, mut packets) = (0, 0);
        while taken < filled && packets < budget {
            // All pieces of a packet, or none yet when its end has not come.
            let mut descriptors = [Descriptor::default(); PIECES_MAX];
            let mut count = 0;
            let is_whole = loop {
                if taken + count as u32 >= filled || count == PIECES_MAX {
                    break false;
                }
                descriptors[count] = self.rx.peek(taken + count as u32);
                count += 1;
                if descriptors[count - 1].options & CONTINUED == 0 {
                    break true;
                }
            };
            if !is_whole && count < PIECES_MAX {
                break;
            }
            let memory = &self.memory;
            let pieces = descriptors.map(|d| memory.bytes(d.address as usize, d.len as usize));
            if is_whole {
                let frame = Frame {
                    head: pieces[0],
                    rest: &pieces[1..count],
                    meta: RxMeta::PLAIN,
                };
                self.counters.rx_frames += 1;
                self.counters.rx_bytes += frame.len() as u64;
                sink(frame);
                packets += 1;
            } else {
                self.counters.rx_dropped += 1;
            }
            // There is room: the chunks came from this ring.
            let chunks = descriptors.map(|d| d.address & !(CHUNK_BYTES as u64 - 1));
            self.fill.produce(&chunks[..count]);
            taken += count as u32;
        }
        self.rx.consume(taken);
        if taken == 0 && self.fill.needs_wakeup() {
            self.counters.syscalls += 1;
            let (fd, none) = (self.socket.as_raw_fd(), std::ptr::null_mut());
            // SAFETY: no buffer is given; the call only wakes the driver.
            unsafe { libc::recvfrom(fd, none, 0, libc::MSG_DONTWAIT, none.cast(), none.cast()) };
        }
        packets
    }

    /// Takes back the chunks that have been sent.
    fn reclaim(&mut self) {
        let done = self.completion.filled();
        (0..done).for_each(|ahead| self.free.push(self.completion.peek(ahead)));
        self.completion.consume(done);
    }

    /// There is room for a frame in so many pieces.
    fn has_room(&mut self, pieces: usize) -> bool {
        let has = |queue: &Self| queue.free.len() >= pieces && queue.tx.room() as usize >= pieces;
        if !has(self) {
            self.reclaim();
        }
        has(self)
    }

    /// Puts a frame into the ring, in as many pieces as it takes; the caller has asked for the room.
    fn push(&mut self, frame: &[u8]) {
        let mut descriptors = [Descriptor::default(); PIECES_MAX];
        let count = frame.len().div_ceil(PIECE_BYTES);
        for (number, piece) in frame.chunks(PIECE_BYTES).enumerate() {
            let Some(address) = self.free.pop() else {
                return;
            };
            self.memory
                .bytes_mut(address as usize, piece.len())
                .copy_from_slice(piece);
            descriptors[number] = descriptor(address, piece.len(), number + 1 < count);
        }
        self.tx.produce(&descriptors[..count]);
        self.sent(frame.len());
    }

    fn sent(&mut self, len: usize) {
        self.counters.tx_frames += 1;
        self.counters.tx_bytes += len as u64;
    }

    /// Has the kernel send what is in the ring. Where frames are copied, a call sends at most 32 of them
    /// (TX_BATCH_SIZE) and says EAGAIN for more.
    fn kick(&mut self) -> io::Result<()> {
        const WAITING: [i32; 3] = [libc::EAGAIN, libc::EBUSY, libc::ENOBUFS];
        while self.tx.filled() > 0 && self.tx.needs_wakeup() {
            let before = self.tx.filled();
            self.counters.syscalls += 1;
            let none = std::ptr::null_mut::<libc::c_void>();
            // SAFETY: no buffer and no address are given; the call only wakes the kernel.
            let sent = unsafe {
                libc::sendto(
                    self.socket.as_raw_fd(),
                    none,
                    0,
                    libc::MSG_DONTWAIT,
                    none.cast(),
                    0,
                )
            };
            if sent < 0 {
                let cause = io::Error::last_os_error();
                if !cause.raw_os_error().is_some_and(|e| WAITING.contains(&e)) {
                    return Err(cause);
                }
            }
            self.reclaim();
            if self.tx.filled() == before {
                // The interface's own queue is full: later.
                self.counters.tx_full += 1;
                break;
            }
        }
        Ok(())
    }

    /// What the kernel counted of what it could not hand over (`struct xdp_statistics`): dropped packets, then
    /// packets for which the ring was full.
    fn dropped(&self) -> u64 {
        let statistics: [u64; 6] =
            option::get(&self.socket, libc::SOL_XDP, STATISTICS).unwrap_or_default();
        statistics[0] + statistics[3]
    }
}

fn chunk(number: u32) -> u64 {
    u64::from(number) * CHUNK_BYTES as u64
}

fn descriptor(address: u64, len: usize, is_continued: bool) -> Descriptor {
    Descriptor {
        address,
        len: len as u32,
        options: if is_continued { CONTINUED } else { 0 },
    }
}

impl Device for AfXdp {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn receive(&mut self, budget: usize, sink: &mut dyn FnMut(Frame<'_>)) -> io::Result<usize> {
        let mut done = 0;
        let count = self.queues.len();
        for ahead in 0..count {
            let queue = &mut self.queues[(self.turn + ahead) % count];
            done += queue.receive(budget - done, sink);
        }
        self.turn = (self.turn + 1) % count;
        Ok(done)
    }

    /// All frames of a thread leave by its first queue: their order is kept, and one core sends no faster by two.
    fn transmit(
        &mut self,
        len_max: usize,
        fill: &mut dyn FnMut(&mut [u8]) -> Option<(usize, TxMeta)>,
    ) -> io::Result<bool> {
        let len_max = len_max.min(self.capabilities.frame_max_bytes as usize);
        let queue = &mut self.queues[0];
        let pieces = len_max.div_ceil(PIECE_BYTES).max(1);
        if !queue.has_room(pieces) {
            queue.kick()?;
            if !queue.has_room(pieces) {
                queue.counters.tx_full += 1;
                return Ok(false);
            }
        }
        if pieces > 1 {
            if let Some((len, _)) = fill(&mut self.room[..len_max]) {
                queue.push(&self.room[..len]);
            }
        } else if let Some(address) = queue.free.pop() {
            let room = queue.memory.bytes_mut(address as usize, len_max);
            match fill(room) {
                Some((len, _)) => {
                    queue.tx.produce(&[descriptor(address, len, false)]);
                    queue.sent(len);
                }
                None => queue.free.push(address),
            }
        }
        Ok(true)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.queues[0].kick()
    }

    fn wait(&mut self, timeout_ns: u64) -> io::Result<()> {
        let mut fds: Vec<libc::pollfd> = self
            .queues
            .iter()
            .map(|queue| libc::pollfd {
                fd: queue.socket.as_raw_fd(),
                events: libc::POLLIN,
                revents: 0,
            })
            .collect();
        self.queues[0].counters.syscalls += 1;
        wait_any(&mut fds, timeout_ns)
    }

    fn counters(&self) -> DeviceCounters {
        let mut sum = DeviceCounters::default();
        for queue in &self.queues {
            let c = queue.counters;
            sum.rx_frames += c.rx_frames;
            sum.rx_bytes += c.rx_bytes;
            sum.rx_dropped += c.rx_dropped + queue.dropped();
            sum.tx_frames += c.tx_frames;
            sum.tx_bytes += c.tx_bytes;
            sum.tx_dropped += c.tx_dropped;
            sum.tx_full += c.tx_full;
            sum.syscalls += c.syscalls;
        }
        sum
    }
    fn descriptors(&self, add: &mut dyn FnMut(RawFd)) {
        for queue in &self.queues {
            add(queue.socket.as_raw_fd());
        }
    }
}
