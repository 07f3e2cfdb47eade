//! A pcap file of all that goes through a device, for Wireshark and tcpdump.
//!
//! The file holds *packets as a wire carries them*: super-segments are cut, and checksums that were left to the device
//! are finished, so that a reader sees neither packets of 64 KiB nor sums that look wrong. Only the part before the
//! snap length is kept. Writing must not stop the traffic: after the first error (a full disk) nothing more is written,
//! what is missing is counted, and [`Device::trouble`] names the error.

use super::packets::{self, Undone};
use super::{Capabilities, Device, DeviceCounters};
use crate::frame::{Frame, TxMeta};
use std::io::{self, Write};
use std::os::fd::RawFd;

/// pcap with nanoseconds.
const MAGIC: u32 = 0xa1b2_3c4d;
const ETHERNET: u32 = 1;
/// Gathered before it is written.
const BUFFER_BYTES: usize = 256 * 1024;

/// What was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CaptureCounters {
    /// Packets in the file, or on their way there.
    pub packets: u64,
    /// Packets that are not in it, since the error.
    pub missing: u64,
}

/// The file.
#[derive(Debug)]
struct Pcap<W: Write> {
    into: W,
    snap_bytes: usize,
    buffer: Vec<u8>,
    counters: CaptureCounters,
    /// Packets of the buffer.
    buffered: u64,
    error: Option<io::Error>,
    packet: Vec<u8>,
}

impl<W: Write> Pcap<W> {
    fn new(into: W, snap_bytes: u32) -> Self {
        let mut buffer = Vec::with_capacity(BUFFER_BYTES + 2 * usize::from(u16::MAX));
        let (major, minor): (u16, u16) = (2, 4);
        buffer.extend(MAGIC.to_ne_bytes());
        buffer.extend(major.to_ne_bytes());
        buffer.extend(minor.to_ne_bytes());
        // Zone and precision, which nobody uses.
        buffer.extend([0; 8]);
        buffer.extend(snap_bytes.to_ne_bytes());
        buffer.extend(ETHERNET.to_ne_bytes());
        Pcap {
            into,
            snap_bytes: snap_bytes as usize,
            buffer,
            counters: CaptureCounters::default(),
            buffered: 0,
            error: None,
            packet: Vec::new(),
        }
    }

    fn frame<U: Undone>(&mut self, at_ns: u64, frame: &[u8], undone: U) {
        let count = packets::count(frame, undone.segment_bytes());
        if self.error.is_some() {
            self.counters.missing += count as u64;
            return;
        }
        if count == 1 && !undone.is_partial() {
            return self.record(at_ns, frame);
        }
        let mut packet = std::mem::take(&mut self.packet);
        for n in 0..count {
            packets::part(frame, undone, n, n + 1, &mut packet);
            packets::finish(&mut packet);
            self.record(at_ns, &packet);
        }
        self.packet = packet;
    }

    fn record(&mut self, at_ns: u64, packet: &[u8]) {
        let kept = &packet[..packet.len().min(self.snap_bytes)];
        let seconds = (at_ns / 1_000_000_000) as u32;
        let fraction = (at_ns % 1_000_000_000) as u32;
        for word in [seconds, fraction, kept.len() as u32, packet.len() as u32] {
            self.buffer.extend(word.to_ne_bytes());
        }
        self.buffer.extend(kept);
        self.buffered += 1;
        if self.buffer.len() >= BUFFER_BYTES {
            self.write();
        }
    }

    fn write(&mut self) {
        if self.error.is_some() {
            return;
        }
        match self.into.write_all(&self.buffer) {
            Ok(()) => self.counters.packets += self.buffered,
            Err(error) => {
                self.counters.missing += self.buffered;
                self.error = Some(error);
            }
        }
        self.buffered = 0;
        self.buffer.clear();
    }

    fn counters(&self) -> CaptureCounters {
        CaptureCounters {
            packets: self.counters.packets + self.buffered,
            ..self.counters
        }
    }
}

impl<W: Write> Drop for Pcap<W> {
    fn drop(&mut self) {
        self.write();
        if self.error.is_none() {
            // Nobody is left to be told.
            let _ = self.into.flush();
        }
    }
}

/// A device whose frames are written down; see the module.
#[derive(Debug)]
pub struct Capture<D, W: Write, C> {
    device: D,
    pcap: Pcap<W>,
    clock: C,
    joined: Vec<u8>,
}

impl<D: Device, W: Write, C: FnMut() -> u64> Capture<D, W, C> {
    /// Writes into `into` at most `snap_bytes` of each packet, with the time of `clock`: nanoseconds since 1970, as
    /// readers of such files show them.
    pub fn new(device: D, into: W, snap_bytes: u32, clock: C) -> Self {
        Capture {
            device,
            pcap: Pcap::new(into, snap_bytes),
            clock,
            joined: Vec::new(),
        }
    }

    /// What was written.
    pub fn captured(&self) -> CaptureCounters {
        self.pcap.counters()
    }
}

impl<D: Device, W: Write, C: FnMut() -> u64> Device for Capture<D, W, C> {
    fn capabilities(&self) -> &Capabilities {
        self.device.capabilities()
    }

    fn receive(&mut self, budget: usize, sink: &mut dyn FnMut(Frame<'_>)) -> io::Result<usize> {
        let (pcap, joined, clock) = (&mut self.pcap, &mut self.joined, &mut self.clock);
        // One look at the clock for what was taken at once: it waited together too.
        let mut at_ns = None;
        self.device.receive(budget, &mut |frame| {
            let at_ns = *at_ns.get_or_insert_with(&mut *clock);
            if frame.rest.is_empty() {
                pcap.frame(at_ns, frame.head, frame.meta);
            } else {
                joined.clear();
                joined.extend(frame.head);
                frame.rest.iter().for_each(|piece| joined.extend(*piece));
                pcap.frame(at_ns, joined, frame.meta);
            }
            sink(frame);
        })
    }

    fn transmit(
        &mut self,
        len_max: usize,
        fill: &mut dyn FnMut(&mut [u8]) -> Option<(usize, TxMeta)>,
    ) -> io::Result<bool> {
        let (pcap, clock) = (&mut self.pcap, &mut self.clock);
        self.device.transmit(len_max, &mut |room| {
            let (len, meta) = fill(room)?;
            pcap.frame(clock(), &room[..len], meta);
            Some((len, meta))
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        self.device.flush()
    }

    fn wait(&mut self, timeout_ns: u64) -> io::Result<()> {
        self.device.wait(timeout_ns)
    }

    fn counters(&self) -> DeviceCounters {
        self.device.counters()
    }

    fn named(&self, tell: &mut dyn FnMut(&'static str, u64)) {
        self.device.named(tell);
        let counters = self.captured();
        tell("capture_packets", counters.packets);
        tell("capture_missing", counters.missing);
    }

    fn descriptors(&self, add: &mut dyn FnMut(RawFd)) {
        self.device.descriptors(add);
    }

    /// What was gathered is written when there is much, here, and at the end.
    fn sync(&mut self) {
        self.pcap.write();
        self.device.sync();
    }

    fn trouble(&self) -> Option<String> {
        let own = self.pcap.error.as_ref().map(|error| {
            let missing = self.captured().missing;
            format!("the capture ends early, up to {missing} packets are not in it: {error}")
        });
        own.or_else(|| self.device.trouble())
    }
}

#[cfg(test)]
mod tests {
    use super::super::loopback;
    use super::super::packets::tests::{opened, sample};
    use super::*;
    use std::sync::{Arc, Mutex};

    /// A disk of so many bytes.
    #[derive(Clone, Default)]
    struct Disk {
        bytes: Arc<Mutex<Vec<u8>>>,
        size: usize,
    }

    impl Write for Disk {
        fn write(&mut self, from: &[u8]) -> io::Result<usize> {
            let mut bytes = self.bytes.lock().expect("one thread");
            if bytes.len() + from.len() > self.size {
                return Err(io::ErrorKind::StorageFull.into());
            }
            bytes.extend(from);
            Ok(from.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn word(bytes: &[u8], at: usize) -> u32 {
        u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
    }

    /// Time, kept bytes and length of each record.
    fn records(file: &[u8]) -> Vec<(u64, Vec<u8>, u32)> {
        assert_eq!((word(file, 0), word(file, 20)), (0xa1b2_3c4d, 1));
        let (mut at, mut all) = (24, Vec::new());
        while at < file.len() {
            let time = u64::from(word(file, at)) * 1_000_000_000 + u64::from(word(file, at + 4));
            let kept = word(file, at + 8) as usize;
            let bytes = file[at + 16..at + 16 + kept].to_vec();
            all.push((time, bytes, word(file, at + 12)));
            at += 16 + kept;
        }
        all
    }

    fn send(device: &mut impl Device, frame: &[u8], meta: TxMeta) {
        let sent = device.transmit(frame.len(), &mut |room| {
            room[..frame.len()].copy_from_slice(frame);
            Some((frame.len(), meta))
        });
        assert!(sent.expect("there"));
        device.flush().expect("there");
    }

    #[test]
    fn both_directions_are_written_as_a_wire_carries_them() {
        let disk = Disk {
            size: 1 << 20,
            ..Disk::default()
        };
        let (a, mut b) = loopback::pair(&loopback::Settings::default());
        let mut now = 1_700_000_000_000_000_000;
        let mut a = Capture::new(a, disk.clone(), 65_535, move || {
            now += 1;
            now
        });
        let (frame, meta) = sample(true, 3_000, 1_428);
        send(&mut a, &frame, meta);
        let (answer, meta) = sample(false, 10, 0);
        send(&mut b, &answer, meta);
        let mut got: Vec<u8> = Vec::new();
        a.receive(9, &mut |frame| got.extend(frame.head))
            .expect("there");
        assert_eq!(got, answer, "the traffic itself is not touched");
        assert_eq!(a.captured().packets, 4);
        drop(a);
        let file = disk.bytes.lock().expect("one thread").clone();
        let records = records(&file);
        let times: Vec<u64> = records.iter().map(|(at, ..)| at % 1_000).collect();
        assert_eq!(times, [1, 1, 1, 2]);
        let payload: Vec<usize> = records
            .iter()
            .map(|(_, packet, len)| {
                assert_eq!(packet.len(), *len as usize);
                opened(packet).3.len()
            })
            .collect();
        assert_eq!(payload, [1_428, 1_428, 144, 10]);
    }

    #[test]
    fn only_the_beginning_of_a_packet_is_kept() {
        let disk = Disk {
            size: 1 << 20,
            ..Disk::default()
        };
        let (a, _b) = loopback::pair(&loopback::Settings::default());
        let mut a = Capture::new(a, disk.clone(), 96, || 0);
        let (frame, meta) = sample(false, 1_000, 0);
        send(&mut a, &frame, meta);
        a.sync();
        let file = disk.bytes.lock().expect("one thread").clone();
        let (_, packet, len) = &records(&file)[0];
        assert_eq!((packet.len(), *len as usize), (96, frame.len()));
    }

    #[test]
    fn a_full_disk_is_counted_and_named_and_stops_nothing() {
        let disk = Disk {
            size: 1 << 20,
            ..Disk::default()
        };
        let (a, mut b) = loopback::pair(&loopback::Settings::default());
        let mut a = Capture::new(a, disk.clone(), 65_535, || 0);
        let (frame, meta) = sample(false, 50_000, 0);
        for _ in 0..60 {
            send(&mut a, &frame, meta);
            assert_eq!(b.receive(9, &mut |_| ()).expect("there"), 1);
        }
        let counters = a.captured();
        assert_eq!(counters.packets + counters.missing, 60);
        assert!(counters.missing > 30 && counters.packets > 10);
        let trouble = a.trouble().expect("a full disk");
        assert!(trouble.contains("the capture ends early"), "{trouble}");
        drop(a);
        let file = disk.bytes.lock().expect("one thread").clone();
        assert_eq!(records(&file).len() as u64, counters.packets, "whole ones");
    }
}
