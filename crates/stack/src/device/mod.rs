//! Devices: where frames come from and where they go. One trait, so that the stack does not know whether it speaks
//! through a TAP, an AF_XDP socket, a packet ring, DPDK, a simulated wire or a decorator around any of them.

pub mod af_packet;
pub mod af_xdp;
mod batch;
mod bpf;
pub mod capture;
#[cfg(feature = "dpdk")]
pub mod dpdk;
pub mod fault;
pub mod interface;
pub mod loopback;
mod mapping;
mod option;
mod packets;
pub mod queues;
pub mod tap;
mod vnet;

use crate::frame::{Frame, TxMeta};
use std::io;
use std::os::fd::RawFd;

/// What a device can do, asked once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// Name for people and the record: `tap`, `af_xdp (native, copy)`.
    pub name: String,
    /// Its own link address.
    pub mac: [u8; 6],
    /// Largest IP packet on the wire, bytes.
    pub mtu_bytes: u16,
    /// Largest frame that may be handed to [`Device::transmit`]: with segmentation up to 64 KiB, else MTU and link
    /// header.
    pub frame_max_bytes: u32,
    /// It cuts super-segments ([`TxMeta::segment_bytes`]).
    pub segments: bool,
    /// It finishes checksums ([`TxMeta::checksum`]).
    pub checksums: bool,
}

/// What a device counted, since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceCounters {
    /// Frames received.
    pub rx_frames: u64,
    /// Bytes received, link headers included.
    pub rx_bytes: u64,
    /// Frames that were for us and got lost before we took them (ring full, no buffer).
    pub rx_dropped: u64,
    /// Frames sent.
    pub tx_frames: u64,
    /// Bytes sent, link headers included.
    pub tx_bytes: u64,
    /// Frames that could not be sent.
    pub tx_dropped: u64,
    /// Times that a frame waited because the ring was full.
    pub tx_full: u64,
    /// System calls.
    pub syscalls: u64,
}

impl DeviceCounters {
    /// All by name, as for a table.
    pub fn named(&self) -> [(&'static str, u64); 8] {
        [
            ("rx_frames", self.rx_frames),
            ("rx_bytes", self.rx_bytes),
            ("rx_dropped", self.rx_dropped),
            ("tx_frames", self.tx_frames),
            ("tx_bytes", self.tx_bytes),
            ("tx_dropped", self.tx_dropped),
            ("tx_full", self.tx_full),
            ("syscalls", self.syscalls),
        ]
    }

    /// Adds what has come to be between two readings of another device.
    fn add_between(&mut self, before: &Self, after: &Self) {
        self.rx_frames += after.rx_frames - before.rx_frames;
        self.rx_bytes += after.rx_bytes - before.rx_bytes;
        self.rx_dropped += after.rx_dropped - before.rx_dropped;
        self.tx_frames += after.tx_frames - before.tx_frames;
        self.tx_bytes += after.tx_bytes - before.tx_bytes;
        self.tx_dropped += after.tx_dropped - before.tx_dropped;
        self.tx_full += after.tx_full - before.tx_full;
        self.syscalls += after.syscalls - before.syscalls;
    }
}

/// A carrier of Ethernet frames. No call blocks but [`Device::wait`].
pub trait Device {
    /// What it can do.
    fn capabilities(&self) -> &Capabilities;

    /// Hands at most `budget` received frames to `sink`, and says how many.
    ///
    /// # Errors
    ///
    /// The device has gone.
    fn receive(&mut self, budget: usize, sink: &mut dyn FnMut(Frame<'_>)) -> io::Result<usize>;

    /// Lends room for a frame of at most `len_max` bytes to `fill`, which writes it and returns its length and what is
    /// left to do; `None` from `fill` sends nothing. False when there is no room now: `fill` was not called.
    ///
    /// # Errors
    ///
    /// The device has gone.
    #[expect(
        clippy::type_complexity,
        reason = "an alias would need a second lifetime at every use"
    )]
    fn transmit(
        &mut self,
        len_max: usize,
        fill: &mut dyn FnMut(&mut [u8]) -> Option<(usize, TxMeta)>,
    ) -> io::Result<bool>;

    /// Sends on what [`Device::transmit`] has gathered.
    ///
    /// # Errors
    ///
    /// The device has gone.
    fn flush(&mut self) -> io::Result<()>;

    /// Waits until a frame may be received, at most `timeout_ns`; 0 only looks.
    ///
    /// # Errors
    ///
    /// The device has gone.
    fn wait(&mut self, timeout_ns: u64) -> io::Result<()>;

    /// What it counted.
    fn counters(&self) -> DeviceCounters;

    /// Tells of the descriptors that can be read when a frame has come, for whoever waits for more than frames; a
    /// device in memory has none.
    fn descriptors(&self, _add: &mut dyn FnMut(RawFd)) {}

    /// There is nothing to sleep on: [`Device::wait`] looks again and again.
    fn is_polled(&self) -> bool {
        false
    }

    /// All that it counted by name, as for a table; devices with more than [`DeviceCounters`] tell of that too.
    fn named(&self, tell: &mut dyn FnMut(&'static str, u64)) {
        for (name, count) in self.counters().named() {
            tell(name, count);
        }
    }

    /// Writes out what it keeps beside the traffic, so that [`Device::trouble`] knows all of it.
    fn sync(&mut self) {}

    /// What a reader of the results must know: something went wrong that did not stop the traffic.
    fn trouble(&self) -> Option<String> {
        None
    }
}

impl<D: Device + ?Sized> Device for Box<D> {
    fn capabilities(&self) -> &Capabilities {
        (**self).capabilities()
    }

    fn receive(&mut self, budget: usize, sink: &mut dyn FnMut(Frame<'_>)) -> io::Result<usize> {
        (**self).receive(budget, sink)
    }

    fn transmit(
        &mut self,
        len_max: usize,
        fill: &mut dyn FnMut(&mut [u8]) -> Option<(usize, TxMeta)>,
    ) -> io::Result<bool> {
        (**self).transmit(len_max, fill)
    }

    fn flush(&mut self) -> io::Result<()> {
        (**self).flush()
    }

    fn wait(&mut self, timeout_ns: u64) -> io::Result<()> {
        (**self).wait(timeout_ns)
    }

    fn counters(&self) -> DeviceCounters {
        (**self).counters()
    }

    fn named(&self, tell: &mut dyn FnMut(&'static str, u64)) {
        (**self).named(tell);
    }

    fn sync(&mut self) {
        (**self).sync();
    }

    fn trouble(&self) -> Option<String> {
        (**self).trouble()
    }

    fn is_polled(&self) -> bool {
        (**self).is_polled()
    }

    fn descriptors(&self, add: &mut dyn FnMut(RawFd)) {
        (**self).descriptors(add);
    }
}
