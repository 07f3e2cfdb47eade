//! DPDK: a NIC that a driver in this process owns, or one of DPDK's virtual devices.
//!
//! The NIC's rings are looked at by this thread, without a system call and without an interrupt: waiting is looking
//! again. Checksums and segmentation are left to the port where it has them. Frames larger than a buffer lie in a
//! chain of them, both ways. `shim.c` has what DPDK keeps in its headers, `eal` the start of its runtime.

mod eal;
mod ffi;

use super::interface::{refuse_host_addresses, refuse_small};
use super::{Capabilities, Device, DeviceCounters};
use crate::address::AddressRange;
use crate::error::Error;
use crate::frame::{Checksum, Frame, RxMeta, TxMeta};
use crate::wire::{ethernet, udp};
use eal::Named;
use ffi::{Buffer, Info, Piece, Pool};
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Frames that a queue takes and gives at once.
const BURST: usize = 32;
/// Entries of each ring, where the driver has no other limit.
const ENTRIES: u16 = 1024;
/// What a frame has of a buffer where frames may lie in several: a packet of an Ethernet with VLAN tags, rounded up.
const ROOM_BYTES: u32 = 2048;
/// The link header with two VLAN tags and a checksum of the frame, which some drivers hand over.
const LINK_BYTES: u32 = ethernet::HEADER_BYTES as u32 + 12;
/// Pieces of a frame that is received: 64 KiB and one more.
const PIECES_MAX: usize = 40;
/// Largest IP packet.
const PACKET_BYTES: u32 = 65_535;

/// Which device, and what of it is ours.
#[derive(Clone, Debug)]
pub struct Settings {
    /// As EAL names it: a PCI address, or a virtual device with its arguments; options for EAL may follow, after
    /// blanks.
    pub device: String,
    /// Our addresses, which the kernel must not have.
    pub own: Vec<AddressRange>,
}

/// A started port, stopped when nobody uses it any more.
#[derive(Debug)]
struct Port {
    number: u16,
    pools: Vec<*mut Pool>,
}

// SAFETY: DPDK lets any thread call it; a queue is used by one thread, which has its `Dpdk`. The pools are of the kind
// that several may use.
unsafe impl Send for Port {}
// SAFETY: as above; nothing of it is changed after it was opened.
unsafe impl Sync for Port {}

impl Drop for Port {
    fn drop(&mut self) {
        let queues = self.pools.len() as u16;
        // SAFETY: opened by us with so many queues, and nobody has a buffer of its pools any more.
        unsafe { ffi::prony_dpdk_close(self.number, queues, self.pools.as_mut_ptr()) };
        // What was said about it concerns nobody.
        eal::printed();
    }
}

/// One queue of a port.
#[derive(Debug)]
pub struct Dpdk {
    // Before `port`: the buffers go first.
    received: Burst,
    leaving: Burst,
    port: Arc<Port>,
    queue: u16,
    info: Info,
    capabilities: Capabilities,
    counters: DeviceCounters,
    /// The driver has taken nothing since then.
    stuck_since: Option<Instant>,
    /// Where a frame is written that needs several buffers.
    room: Vec<u8>,
}

/// Buffers in our hands, given back when they are left.
#[derive(Debug)]
struct Burst {
    frames: [*mut Buffer; BURST],
    first: usize,
    count: usize,
}

// SAFETY: the buffers belong to whoever has the burst.
unsafe impl Send for Burst {}

impl Burst {
    const EMPTY: Burst = Burst {
        frames: [std::ptr::null_mut(); BURST],
        first: 0,
        count: 0,
    };

    fn len(&self) -> usize {
        self.count - self.first
    }

    /// So many of the first are somebody else's now.
    fn gone(&mut self, count: usize) {
        self.first += count;
        if self.first == self.count {
            (self.first, self.count) = (0, 0);
        }
    }

    /// Makes room behind what is left.
    fn close_up(&mut self) {
        self.frames.copy_within(self.first..self.count, 0);
        (self.first, self.count) = (0, self.count - self.first);
    }
}

impl Drop for Burst {
    fn drop(&mut self) {
        let count = self.len() as u32;
        // SAFETY: these buffers are ours, and nobody has a reference to them.
        unsafe { ffi::prony_dpdk_free(self.frames[self.first..].as_mut_ptr(), count) };
    }
}

impl Dpdk {
    /// Opens the device with one queue.
    ///
    /// # Errors
    /// As [`Dpdk::open_queues`].
    pub fn open(settings: &Settings) -> Result<Self, Error> {
        let mut devices = Self::open_queues(settings, 1)?;
        devices.pop().ok_or_else(|| {
            let named = Named::parse(&settings.device);
            named.unsupported("it has no queue", "use another device")
        })
    }

    /// Opens the device with a queue for each of `count` threads. A packet comes in by the queue that the port chooses
    /// (receive-side scaling): [`super::queues`] gets it to its owner.
    ///
    /// # Errors
    /// [`Error::HostAddress`]; [`Error::Busy`] when the kernel's driver has the NIC; [`Error::NotPermitted`];
    /// [`Error::Unsupported`] without such a device, huge pages, a link or enough queues, and when EAL does not start.
    pub fn open_queues(settings: &Settings, count: usize) -> Result<Vec<Self>, Error> {
        let named = Named::parse(&settings.device);
        refuse_host_addresses(&settings.own)?;
        let number = named.probe()?;
        let mut info = Info::default();
        // SAFETY: the structure is as the shim has it.
        let looked = unsafe { ffi::prony_dpdk_look(number, &mut info) };
        let mut port = Port {
            number,
            pools: vec![std::ptr::null_mut(); count],
        };
        refuse(&named, "asking its port what it can do fails", looked)?;
        refuse_small("dpdk", named.name(), info.mtu_bytes.into(), &settings.own)?;
        if usize::from(info.queues_max) < count {
            return Err(named.unsupported(
                &format!(
                    "it has {} queues, and {count} threads need one each",
                    info.queues_max
                ),
                "use fewer threads, or give a virtual device more queues (qpairs=, queue_count=)",
            ));
        }
        let frame = u32::from(info.mtu_bytes) + LINK_BYTES;
        let room = if info.chains != 0 {
            ROOM_BYTES
        } else {
            frame.max(ROOM_BYTES)
        };
        // SAFETY: there is a place for each queue's pool, and the structure is as the shim has it.
        let opened = unsafe {
            let pools = port.pools.as_mut_ptr();
            ffi::prony_dpdk_open(number, count as u16, ENTRIES, room, &mut info, pools)
        };
        refuse(&named, "its port does not start", opened)?;
        if info.is_up == 0 {
            return Err(named.unsupported(
                "its link is down",
                "see the cable and the other end; switch the interface of a virtual device on",
            ));
        }
        let capabilities = capabilities(&info);
        let port = Arc::new(port);
        let queue = |queue| Self {
            received: Burst::EMPTY,
            leaving: Burst::EMPTY,
            port: Arc::clone(&port),
            queue,
            info,
            capabilities: capabilities.clone(),
            counters: DeviceCounters::default(),
            stuck_since: None,
            room: vec![0; capabilities.frame_max_bytes as usize],
        };
        Ok((0..count as u16).map(queue).collect())
    }

    /// Takes what has come, unless some of it is left from before.
    fn fetch(&mut self) -> usize {
        if self.received.len() == 0 {
            enter();
            let into = self.received.frames.as_mut_ptr();
            // SAFETY: there is room for so many, and this thread alone uses the queue.
            let count = unsafe {
                ffi::prony_dpdk_receive(self.port.number, self.queue, into, BURST as u16)
            };
            (self.received.first, self.received.count) = (0, usize::from(count).min(BURST));
        }
        self.received.len()
    }

    /// Gives the driver what waits; it may take less.
    fn send(&mut self) {
        while self.leaving.len() > 0 {
            let count = self.leaving.len() as u16;
            let mut refused = 0;
            // SAFETY: so many buffers of ours; those that the driver takes are its own from then on.
            let gone = unsafe {
                let frames = self.leaving.frames[self.leaving.first..].as_mut_ptr();
                ffi::prony_dpdk_send(self.port.number, self.queue, frames, count, &mut refused)
            };
            self.counters.tx_dropped += u64::from(refused);
            self.leaving.gone(usize::from(gone));
            if gone == 0 {
                self.counters.tx_full += 1;
                self.leaving.close_up();
                return self.drop_stuck();
            }
            self.stuck_since = None;
        }
    }

    /// A full ring has room again in no time. A frame that a driver cannot send stays the first for ever (net_tap), and
    /// goes here, so that those behind it do.
    fn drop_stuck(&mut self) {
        const PATIENCE: Duration = Duration::from_millis(100);
        let since = *self.stuck_since.get_or_insert_with(Instant::now);
        if since.elapsed() > PATIENCE {
            let first = self.leaving.frames[self.leaving.first..].as_mut_ptr();
            // SAFETY: one buffer of ours.
            unsafe { ffi::prony_dpdk_free(first, 1) };
            self.leaving.gone(1);
            self.counters.tx_dropped += 1;
            self.stuck_since = None;
        }
    }

    /// The frame in buffers of this queue's pool; none when the pool is empty.
    fn chain(&self, frame: &[u8]) -> *mut Buffer {
        let pool = self.port.pools[usize::from(self.queue)];
        let (bytes, len) = (frame.as_ptr(), frame.len() as u32);
        // SAFETY: the queue's pool, and as many bytes as are said.
        unsafe { ffi::prony_dpdk_chain(pool, self.info.room_bytes, bytes, len) }
    }

    /// Puts a frame among those that leave, and leaves to the port what `meta` says.
    fn push(&mut self, frame: *mut Buffer, len: usize, meta: &TxMeta) {
        if let Some(partial) = meta.checksum {
            let l3_bytes = partial.start.saturating_sub(ethernet::HEADER_BYTES as u16);
            let l4_bytes = meta.header_bytes.saturating_sub(partial.start);
            let is_udp = usize::from(partial.offset) == udp::CHECKSUM_AT;
            let (v6, udp) = (meta.is_ipv6.into(), is_udp.into());
            // SAFETY: a buffer of ours.
            unsafe {
                ffi::prony_dpdk_offload(frame, v6, udp, l3_bytes, l4_bytes, meta.segment_bytes);
            }
        }
        self.counters.tx_frames += 1;
        self.counters.tx_bytes += len as u64;
        self.leaving.frames[self.leaving.count] = frame;
        self.leaving.count += 1;
    }
}

/// DPDK wants the sum of the pseudo header without a length where segments of several lengths are to be made, and no
/// checksum in the IPv4 header (`RTE_MBUF_F_TX_TCP_SEG`).
fn prepare_cut(frame: &mut [u8], meta: &TxMeta) {
    let (Some(partial), 1..) = (meta.checksum, meta.segment_bytes) else {
        return;
    };
    let len = frame.len() - usize::from(partial.start);
    let at = usize::from(partial.start + partial.offset);
    if let Some(field) = frame.get_mut(at..at + 2) {
        // In ones' complement, adding the complement takes away.
        let sum = u32::from(u16::from_be_bytes([field[0], field[1]])) + u32::from(!(len as u16));
        let folded = (sum & 0xffff) + (sum >> 16);
        field.copy_from_slice(&(folded as u16).to_be_bytes());
    }
    const IPV4_CHECKSUM_AT: usize = ethernet::HEADER_BYTES + 10;
    if !meta.is_ipv6
        && let Some(field) = frame.get_mut(IPV4_CHECKSUM_AT..IPV4_CHECKSUM_AT + 2)
    {
        field.fill(0);
    }
}

fn refuse(named: &Named, doing: &str, result: i32) -> Result<(), Error> {
    let words = eal::printed();
    match result {
        0 => Ok(()),
        failure => Err(named.unsupported(
            &format!("{doing} ({}){words}", eal::reason(-failure)),
            match -failure {
                libc::ENOMEM => {
                    "give DPDK more memory: `-m 1024` behind the device, or more huge pages"
                }
                _ => "see doc.dpdk.org for what its driver needs",
            },
        )),
    }
}

fn capabilities(info: &Info) -> Capabilities {
    let driver = info.driver.split(|byte| *byte == 0).next();
    let driver = String::from_utf8_lossy(driver.unwrap_or_default()).into_owned();
    let (mut mac, mut mtu_bytes) = (info.mac, info.mtu_bytes);
    if driver == "net_tap" {
        // It has the address of the kernel's end, and takes the link header for a part of the MTU when it cuts.
        mac[0] = (mac[0] | 2) & !1;
        mac[5] ^= 1;
        mtu_bytes -= ethernet::HEADER_BYTES as u16;
    }
    let packet = u32::from(mtu_bytes) + ethernet::HEADER_BYTES as u32;
    let in_buffers = match info.segments_max {
        0 => u32::MAX,
        n => u32::from(n).saturating_mul(info.room_bytes),
    };
    let largest = (PACKET_BYTES + ethernet::HEADER_BYTES as u32).min(in_buffers);
    let cuts = info.cuts != 0 && largest > packet;
    let has = match (cuts, info.checksums != 0) {
        (true, _) => ", segments",
        (false, true) => ", checksums",
        (false, false) => "",
    };
    Capabilities {
        name: format!("dpdk ({driver}{has})"),
        mac,
        mtu_bytes,
        frame_max_bytes: if cuts { largest } else { packet },
        segments: cuts,
        checksums: info.checksums != 0,
    }
}

/// A thread's number with EAL, given back when the thread ends.
struct Entered {
    is_ours: bool,
}

impl Drop for Entered {
    fn drop(&mut self) {
        if self.is_ours {
            // SAFETY: this thread has entered, and calls nothing of DPDK any more.
            unsafe { ffi::prony_dpdk_leave() };
        }
    }
}

/// Enters the thread with EAL, once.
fn enter() {
    thread_local! {
        static ENTERED: Entered = Entered {
            // SAFETY: EAL runs: there is a device.
            is_ours: unsafe { ffi::prony_dpdk_enter() } == 0,
        };
    }
    // At the end of the thread it is gone already, which is fine.
    let _ = ENTERED.try_with(|_| ());
}

/// The pieces of a frame, and whether the port has verified it; 0 pieces when there are too many.
///
/// # Safety
/// The buffer lives as long as the pieces, and nobody writes to it.
unsafe fn look_at(
    frame: *const Buffer,
    pieces: &mut [&[u8]; PIECES_MAX],
    checksum: &mut u32,
) -> usize {
    const NONE: Piece = Piece {
        bytes: std::ptr::null(),
        len: 0,
    };
    let mut found = [NONE; PIECES_MAX];
    // SAFETY: a buffer, and room for so many pieces.
    let count =
        unsafe { ffi::prony_dpdk_look_at(frame, found.as_mut_ptr(), PIECES_MAX as u32, checksum) }
            as usize;
    for (piece, found) in pieces.iter_mut().zip(&found[..count]) {
        // SAFETY: bytes of the buffer, by the caller's promise.
        *piece = unsafe { std::slice::from_raw_parts(found.bytes, found.len) };
    }
    count
}

impl Device for Dpdk {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn receive(&mut self, budget: usize, sink: &mut dyn FnMut(Frame<'_>)) -> io::Result<usize> {
        let mut done = 0;
        while done < budget && self.fetch() > 0 {
            let count = self.received.len().min(budget - done);
            let from = self.received.first;
            for &frame in &self.received.frames[from..from + count] {
                let mut pieces = [const { &[] as &[u8] }; PIECES_MAX];
                let mut checksum = 0;
                // SAFETY: a buffer of ours, which lives until it is freed below.
                let found = unsafe { look_at(frame, &mut pieces, &mut checksum) };
                if found == 0 {
                    self.counters.rx_dropped += 1;
                    continue;
                }
                let frame = Frame {
                    head: pieces[0],
                    rest: &pieces[1..found],
                    meta: RxMeta {
                        checksum: match checksum {
                            0 => Checksum::Unknown,
                            _ => Checksum::Valid,
                        },
                        ..RxMeta::PLAIN
                    },
                };
                self.counters.rx_frames += 1;
                self.counters.rx_bytes += frame.len() as u64;
                sink(frame);
            }
            // SAFETY: so many buffers of ours, to which no reference is left.
            unsafe {
                let frames = self.received.frames[from..].as_mut_ptr();
                ffi::prony_dpdk_free(frames, count as u32);
            }
            self.received.gone(count);
            done += count;
        }
        Ok(done)
    }

    fn transmit(
        &mut self,
        len_max: usize,
        fill: &mut dyn FnMut(&mut [u8]) -> Option<(usize, TxMeta)>,
    ) -> io::Result<bool> {
        if self.leaving.count == BURST {
            self.send();
            if self.leaving.count == BURST {
                return Ok(false);
            }
        }
        enter();
        let len_max = len_max.min(self.capabilities.frame_max_bytes as usize);
        if len_max > self.info.room_bytes as usize {
            let mut room = std::mem::take(&mut self.room);
            if let Some((len, meta)) = fill(&mut room[..len_max]) {
                prepare_cut(&mut room[..len], &meta);
                match self.chain(&room[..len]) {
                    // The stack retransmits it.
                    frame if frame.is_null() => self.counters.tx_dropped += 1,
                    frame => self.push(frame, len, &meta),
                }
            }
            self.room = room;
            return Ok(true);
        }
        let mut bytes = std::ptr::null_mut();
        let pool = self.port.pools[usize::from(self.queue)];
        // SAFETY: the queue's pool.
        let frame = unsafe { ffi::prony_dpdk_room(pool, &mut bytes) };
        if frame.is_null() {
            self.counters.tx_full += 1;
            return Ok(false);
        }
        // SAFETY: the buffer has that room and is nobody else's; EAL has mapped it with bytes in it.
        let room = unsafe { std::slice::from_raw_parts_mut(bytes, len_max) };
        let Some((len, meta)) = fill(room) else {
            // SAFETY: a buffer of ours.
            unsafe { ffi::prony_dpdk_free([frame].as_mut_ptr(), 1) };
            return Ok(true);
        };
        prepare_cut(&mut room[..len], &meta);
        // SAFETY: a buffer of ours, with that room.
        unsafe { ffi::prony_dpdk_set_len(frame, len as u32) };
        self.push(frame, len, &meta);
        Ok(true)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.send();
        Ok(())
    }

    /// Looks again and again: a port of DPDK's has no descriptor to sleep on.
    fn wait(&mut self, timeout_ns: u64) -> io::Result<()> {
        let until = Instant::now() + Duration::from_nanos(timeout_ns);
        while self.fetch() == 0 && Instant::now() < until {
            self.send();
            std::hint::spin_loop();
        }
        Ok(())
    }

    fn counters(&self) -> DeviceCounters {
        let (mut inwards, mut outwards) = (0, 0);
        if self.queue == 0 {
            // SAFETY: the port is open.
            unsafe { ffi::prony_dpdk_lost(self.port.number, &mut inwards, &mut outwards) };
        }
        DeviceCounters {
            rx_dropped: self.counters.rx_dropped + inwards,
            tx_dropped: self.counters.tx_dropped + outwards,
            ..self.counters
        }
    }

    fn is_polled(&self) -> bool {
        true
    }
}
