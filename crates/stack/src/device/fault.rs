//! A wire that is not perfect, around any device: frames that vanish, come twice, are overtaken, damaged or late, and a
//! rate; each direction for itself, drawn from a seed, so that the same traffic meets the same faults.
//!
//! Faults happen to *packets*, as on a wire: a super-segment is looked at packet by packet, and what is lost or damaged
//! in it leaves a gap between the parts that go on. A damaged packet gets its checksum finished first, so that the
//! receiver can find out. Time comes from the clock that the caller gives; frames that are late leave when the device
//! is used, at the latest at [`Fault::next_at_ns`], until which [`Device::wait`] waits.

use super::packets::{self, Undone};
use super::{Capabilities, Device, DeviceCounters};
use crate::frame::{Frame, RxMeta, TxMeta};
use crate::random::Random;
use crate::wire::ethernet::HEADER_BYTES;
use std::collections::BTreeMap;
use std::io;
use std::os::fd::RawFd;

/// Frames that may be on their way in one direction; more are lost, whatever the settings.
const UNDER_WAY_MAX: usize = 1 << 16;
/// By how many packets one is overtaken at most.
const OVERTAKEN_MAX: u32 = 8;

/// Faults of one direction. Shares are 0 to 1, of packets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Faults {
    /// Packets that vanish.
    pub loss: f64,
    /// Packets that come twice.
    pub duplicate: f64,
    /// Packets that are overtaken by the next 1 to 8.
    pub reorder: f64,
    /// Packets of which a bit behind the link header is wrong.
    pub corrupt: f64,
    /// How long each packet takes longer.
    pub delay_ns: u64,
    /// By how much more, evenly from 0. It does not change the order.
    pub jitter_ns: u64,
    /// How long an overtaken packet is held at most, when fewer follow.
    pub held_ns: u64,
    /// What the wire carries; 0 is no limit.
    pub rate_bits_per_s: u64,
    /// Bytes that may wait for the wire when there is a rate; more are lost.
    pub queue_bytes: u64,
}

impl Default for Faults {
    fn default() -> Self {
        Faults {
            loss: 0.0,
            duplicate: 0.0,
            reorder: 0.0,
            corrupt: 0.0,
            delay_ns: 0,
            jitter_ns: 0,
            held_ns: 4_000_000,
            rate_bits_per_s: 0,
            queue_bytes: 256 * 1_514,
        }
    }
}

impl Faults {
    fn are_none(&self) -> bool {
        let shares = self.loss + self.duplicate + self.reorder + self.corrupt;
        shares == 0.0 && self.delay_ns + self.jitter_ns + self.rate_bits_per_s == 0
    }
}

/// What one direction did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaultCounters {
    /// Packets that came in.
    pub packets: u64,
    /// That vanished.
    pub lost: u64,
    /// That came twice.
    pub duplicated: u64,
    /// That were overtaken, or held for so long.
    pub reordered: u64,
    /// Of which a bit was wrong.
    pub corrupted: u64,
    /// That found no room before the wire.
    pub overflowed: u64,
}

/// What becomes of one packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Fate {
    is_lost: bool,
    is_duplicated: bool,
    is_reordered: bool,
    is_corrupt: bool,
}

/// A frame and what was left undone in it.
#[derive(Debug)]
struct Item<U> {
    bytes: Vec<u8>,
    undone: U,
}

/// One that is to be overtaken.
#[derive(Debug)]
struct Held<U> {
    item: Item<U>,
    /// By so many.
    left: u32,
    until_ns: u64,
}

/// One direction.
#[derive(Debug)]
struct Wire<U> {
    faults: Faults,
    random: Random,
    /// When the wire is free again.
    free_at_ns: u64,
    /// When the last packet arrives that is not overtaken.
    last_at_ns: u64,
    /// By arrival and number.
    under_way: BTreeMap<(u64, u64), Item<U>>,
    number: u64,
    held: Vec<Held<U>>,
    /// Memory of frames that have arrived.
    spare: Vec<Vec<u8>>,
    counters: FaultCounters,
}

impl<U: Undone> Wire<U> {
    fn new(faults: Faults, seed: u64) -> Self {
        Wire {
            faults,
            random: Random::new(seed),
            free_at_ns: 0,
            last_at_ns: 0,
            under_way: BTreeMap::new(),
            number: 0,
            held: Vec::new(),
            spare: Vec::new(),
            counters: FaultCounters::default(),
        }
    }

    fn chance(&mut self, share: f64) -> bool {
        share > 0.0 && f64::from(self.random.next_u32()) < share * 4_294_967_296.0
    }

    fn fate(&mut self) -> Fate {
        let faults = self.faults;
        Fate {
            is_lost: self.chance(faults.loss),
            is_duplicated: self.chance(faults.duplicate),
            is_reordered: self.chance(faults.reorder),
            is_corrupt: self.chance(faults.corrupt),
        }
    }

    /// When packets of so many bytes that come now arrive; `None` when they find no room.
    fn arrival_ns(&mut self, now_ns: u64, wire_bytes: usize) -> Option<u64> {
        let faults = self.faults;
        let mut at = now_ns;
        if faults.rate_bits_per_s > 0 {
            let takes = |bytes: u64| {
                let ns = u128::from(bytes) * 8_000_000_000 / u128::from(faults.rate_bits_per_s);
                u64::try_from(ns).unwrap_or(u64::MAX)
            };
            let begin = self.free_at_ns.max(now_ns);
            if begin - now_ns > takes(faults.queue_bytes) {
                return None;
            }
            at = begin.saturating_add(takes(wire_bytes as u64));
            self.free_at_ns = at;
        }
        at = at.saturating_add(faults.delay_ns);
        if faults.jitter_ns > 0 {
            let share = u128::from(self.random.next_u32());
            at = at.saturating_add(((share * u128::from(faults.jitter_ns)) >> 32) as u64);
        }
        self.last_at_ns = self.last_at_ns.max(at);
        Some(self.last_at_ns)
    }

    /// Takes a frame; true when nothing happens to it and it may go on at once, as it is.
    fn put(&mut self, now_ns: u64, frame: &[u8], undone: U) -> bool {
        let packets = packets::count(frame, undone.segment_bytes());
        let mut from = 0;
        let is_first_clean = self.under_way.is_empty() && self.held.is_empty();
        let fates: Vec<Fate> = (0..packets).map(|_| self.fate()).collect();
        self.counters.packets += packets as u64;
        let happens = |fate: &Fate| {
            fate.is_lost || fate.is_duplicated || fate.is_reordered || fate.is_corrupt
        };
        if is_first_clean && self.is_immediate() && !fates.iter().any(happens) {
            return true;
        }
        for (n, fate) in fates.iter().enumerate() {
            if happens(fate) {
                if from < n {
                    self.go(now_ns, frame, undone, from..n, None);
                }
                self.go(now_ns, frame, undone, n..n + 1, Some(*fate));
                from = n + 1;
            }
        }
        if from < packets {
            self.go(now_ns, frame, undone, from..packets, None);
        }
        false
    }

    fn is_immediate(&self) -> bool {
        let faults = &self.faults;
        faults.delay_ns + faults.jitter_ns + faults.rate_bits_per_s == 0
    }

    /// Puts packets of a frame under way: several to which nothing happens, or one with its fate.
    fn go(
        &mut self,
        now_ns: u64,
        frame: &[u8],
        undone: U,
        range: std::ops::Range<usize>,
        fate: Option<Fate>,
    ) {
        let packets = range.len();
        let mut bytes = self.spare.pop().unwrap_or_default();
        let undone = packets::part(frame, undone, range.start, range.end, &mut bytes);
        let wire_bytes = packets::wire_bytes(&bytes, undone.segment_bytes(), packets);
        let arrival = self.arrival_ns(now_ns, wire_bytes);
        let has_room = self.under_way.len() + self.held.len() < UNDER_WAY_MAX;
        let Some(at) = arrival.filter(|_| has_room) else {
            self.counters.overflowed += packets as u64;
            return self.spare.push(bytes);
        };
        let mut item = Item { bytes, undone };
        let Some(fate) = fate else {
            return self.arrives(at, item, packets);
        };
        if fate.is_lost {
            self.counters.lost += 1;
            return self.spare.push(item.bytes);
        }
        if fate.is_corrupt {
            self.damage(&mut item);
        }
        if fate.is_duplicated {
            self.counters.duplicated += 1;
            let bytes = item.bytes.clone();
            self.arrives(at, Item { bytes, ..item }, 1);
        }
        if fate.is_reordered {
            self.counters.reordered += 1;
            let left = 1 + self.random.below(OVERTAKEN_MAX);
            return self.held.push(Held {
                item,
                left,
                until_ns: at.saturating_add(self.faults.held_ns),
            });
        }
        self.arrives(at, item, 1);
    }

    fn damage(&mut self, item: &mut Item<U>) {
        self.counters.corrupted += 1;
        if item.undone.is_partial() {
            packets::finish(&mut item.bytes);
        }
        // Verified or not before: now it is not.
        item.undone = item.undone.finished();
        let behind = item.bytes.len().saturating_sub(HEADER_BYTES) as u32;
        if behind > 0 {
            let at = HEADER_BYTES + self.random.below(behind) as usize;
            item.bytes[at] ^= 1 << self.random.below(8);
        }
    }

    /// A frame arrives, and those that it is the last to overtake behind it.
    fn arrives(&mut self, at: u64, item: Item<U>, packets: usize) {
        self.enter(at, item);
        let mut n = 0;
        while n < self.held.len() {
            let held = &mut self.held[n];
            held.left = held.left.saturating_sub(packets as u32);
            if held.left == 0 {
                let held = self.held.remove(n);
                self.enter(at, held.item);
            } else {
                n += 1;
            }
        }
    }

    fn enter(&mut self, at: u64, item: Item<U>) {
        self.number += 1;
        self.under_way.insert((at, self.number), item);
    }

    /// Those that have been held long enough go on.
    fn release(&mut self, now_ns: u64) {
        let mut n = 0;
        while n < self.held.len() {
            if self.held[n].until_ns <= now_ns {
                let held = self.held.remove(n);
                self.enter(held.until_ns, held.item);
            } else {
                n += 1;
            }
        }
    }

    /// The next frame that has arrived; `false` from `take` leaves it there.
    fn deliver(
        &mut self,
        now_ns: u64,
        mut take: impl FnMut(&[u8], U) -> io::Result<bool>,
    ) -> io::Result<bool> {
        let Some(entry) = self.under_way.first_entry() else {
            return Ok(false);
        };
        if entry.key().0 > now_ns || !take(&entry.get().bytes, entry.get().undone)? {
            return Ok(false);
        }
        let item = entry.remove();
        if self.spare.len() < 64 {
            self.spare.push(item.bytes);
        }
        Ok(true)
    }

    fn next_at_ns(&self) -> Option<u64> {
        let arrival = self.under_way.keys().next().map(|(at, _)| *at);
        let held = self.held.iter().map(|held| held.until_ns).min();
        arrival.into_iter().chain(held).min()
    }
}

/// A device behind a wire with faults; see the module.
#[derive(Debug)]
pub struct Fault<D, C> {
    device: D,
    /// Nanoseconds of a clock that does not go back.
    clock: C,
    sent: Wire<TxMeta>,
    received: Wire<RxMeta>,
    /// Where a frame is written before its fate is known.
    room: Vec<u8>,
    /// Where the pieces of a received frame are joined.
    joined: Vec<u8>,
}

impl<D: Device, C: FnMut() -> u64> Fault<D, C> {
    /// A device of which what is sent meets the faults `sent`, and what is received `received`. The `clock` gives
    /// nanoseconds and does not go back.
    pub fn new(device: D, sent: Faults, received: Faults, seed: u64, clock: C) -> Self {
        Fault {
            device,
            clock,
            sent: Wire::new(sent, seed),
            received: Wire::new(received, seed ^ 0x5bd1_e995),
            room: Vec::new(),
            joined: Vec::new(),
        }
    }

    /// When the next late frame is due, on the caller's clock.
    pub fn next_at_ns(&self) -> Option<u64> {
        let both = [self.sent.next_at_ns(), self.received.next_at_ns()];
        both.into_iter().flatten().min()
    }

    /// What happened to what was sent, and to what was received.
    pub fn faults(&self) -> [FaultCounters; 2] {
        [self.sent.counters, self.received.counters]
    }

    /// The device behind.
    pub fn device(&self) -> &D {
        &self.device
    }

    /// Sends what has arrived at the far end of our wire; false when the device is full.
    fn send_due(&mut self, now_ns: u64) -> io::Result<bool> {
        self.sent.release(now_ns);
        let (device, mut is_full) = (&mut self.device, false);
        let mut send = |bytes: &[u8], undone: TxMeta| {
            is_full = !device.transmit(bytes.len(), &mut |room| {
                room[..bytes.len()].copy_from_slice(bytes);
                Some((bytes.len(), undone))
            })?;
            Ok(!is_full)
        };
        while self.sent.deliver(now_ns, &mut send)? {}
        Ok(!is_full)
    }
}

impl<D: Device, C: FnMut() -> u64> Device for Fault<D, C> {
    fn capabilities(&self) -> &Capabilities {
        self.device.capabilities()
    }

    fn receive(&mut self, budget: usize, sink: &mut dyn FnMut(Frame<'_>)) -> io::Result<usize> {
        if self.received.faults.are_none() {
            return self.device.receive(budget, sink);
        }
        let now_ns = (self.clock)();
        let (wire, joined, mut done) = (&mut self.received, &mut self.joined, 0);
        self.device.receive(budget, &mut |frame| {
            let head: &[u8] = if frame.rest.is_empty() {
                frame.head
            } else {
                joined.clear();
                joined.extend(frame.head);
                frame.rest.iter().for_each(|piece| joined.extend(*piece));
                &*joined
            };
            if wire.put(now_ns, head, frame.meta) {
                sink(frame);
                done += 1;
            }
        })?;
        wire.release(now_ns);
        let mut take = |head: &[u8], meta| {
            let rest = &[];
            sink(Frame { head, rest, meta });
            Ok(true)
        };
        while done < budget && wire.deliver(now_ns, &mut take)? {
            done += 1;
        }
        Ok(done)
    }

    fn transmit(
        &mut self,
        len_max: usize,
        fill: &mut dyn FnMut(&mut [u8]) -> Option<(usize, TxMeta)>,
    ) -> io::Result<bool> {
        if self.sent.faults.are_none() {
            return self.device.transmit(len_max, fill);
        }
        let now_ns = (self.clock)();
        if !self.send_due(now_ns)? {
            return Ok(false);
        }
        if self.room.len() < len_max {
            self.room.resize(len_max, 0);
        }
        let Some((len, meta)) = fill(&mut self.room[..len_max]) else {
            return Ok(true);
        };
        let frame = &self.room[..len];
        if self.sent.put(now_ns, frame, meta) {
            let is_taken = self.device.transmit(len, &mut |room| {
                room[..len].copy_from_slice(frame);
                Some((len, meta))
            })?;
            if !is_taken {
                let bytes = frame.to_vec();
                let undone = meta;
                self.sent.enter(now_ns, Item { bytes, undone });
            }
            return Ok(true);
        }
        self.send_due(now_ns)?;
        Ok(true)
    }

    fn flush(&mut self) -> io::Result<()> {
        let now_ns = (self.clock)();
        self.send_due(now_ns)?;
        self.device.flush()
    }

    fn wait(&mut self, timeout_ns: u64) -> io::Result<()> {
        let now_ns = (self.clock)();
        self.send_due(now_ns)?;
        self.device.flush()?;
        let due = self
            .next_at_ns()
            .map_or(u64::MAX, |at| at.saturating_sub(now_ns));
        if due > 0 {
            self.device.wait(timeout_ns.min(due))?;
            let now_ns = (self.clock)();
            self.send_due(now_ns)?;
            self.device.flush()?;
        }
        Ok(())
    }

    fn counters(&self) -> DeviceCounters {
        self.device.counters()
    }

    fn named(&self, tell: &mut dyn FnMut(&'static str, u64)) {
        self.device.named(tell);
        let [sent, received] = self.faults();
        tell("fault_tx_packets", sent.packets);
        tell("fault_tx_lost", sent.lost);
        tell("fault_tx_duplicated", sent.duplicated);
        tell("fault_tx_reordered", sent.reordered);
        tell("fault_tx_corrupted", sent.corrupted);
        tell("fault_tx_overflowed", sent.overflowed);
        tell("fault_rx_packets", received.packets);
        tell("fault_rx_lost", received.lost);
        tell("fault_rx_duplicated", received.duplicated);
        tell("fault_rx_reordered", received.reordered);
        tell("fault_rx_corrupted", received.corrupted);
        tell("fault_rx_overflowed", received.overflowed);
    }

    fn descriptors(&self, add: &mut dyn FnMut(RawFd)) {
        self.device.descriptors(add);
    }

    fn sync(&mut self) {
        self.device.sync();
    }

    fn trouble(&self) -> Option<String> {
        self.device.trouble()
    }
}

#[cfg(test)]
mod tests {
    use super::super::loopback::{self, Loopback};
    use super::super::packets::tests::{opened, sample};
    use super::*;
    use crate::frame::Checksum;
    use std::cell::Cell;
    use std::rc::Rc;

    type Clock = Rc<Cell<u64>>;
    type Faulty<C> = Fault<Loopback, C>;

    fn wire(sent: Faults) -> (Faulty<impl FnMut() -> u64>, Loopback, Clock) {
        let (a, b) = loopback::pair(&loopback::Settings::default());
        let clock = Clock::default();
        let read = Rc::clone(&clock);
        let fault = Fault::new(a, sent, Faults::default(), 7, move || read.get());
        (fault, b, clock)
    }

    fn send(device: &mut impl Device, frame: &[u8], meta: TxMeta) {
        let sent = device.transmit(frame.len(), &mut |room| {
            room.copy_from_slice(frame);
            Some((frame.len(), meta))
        });
        assert!(sent.expect("there"));
        device.flush().expect("there");
    }

    /// First bytes of what has come.
    fn taken(device: &mut impl Device) -> Vec<u8> {
        let mut all = Vec::new();
        let mut sink = |frame: Frame<'_>| all.push(frame.head[0]);
        device.receive(1_000, &mut sink).expect("there");
        all
    }

    fn plain(device: &mut impl Device, byte: u8) {
        send(device, &[byte; 60], TxMeta::default());
    }

    #[test]
    fn shares_of_packets_meet_their_fate_and_the_same_each_time() {
        let faults = Faults {
            loss: 0.1,
            duplicate: 0.2,
            ..Faults::default()
        };
        let run = || {
            let (mut fault, mut end, _) = wire(faults);
            let mut got = Vec::new();
            for n in 0..10_000u32 {
                plain(&mut fault, n as u8);
                got.extend(taken(&mut end));
            }
            (got, fault.faults()[0])
        };
        let (got, counters) = run();
        assert_eq!(counters.packets, 10_000);
        assert!((900..1_100).contains(&counters.lost), "{counters:?}");
        assert!(
            (1_700..2_000).contains(&counters.duplicated),
            "{counters:?}"
        );
        let left = 10_000 - counters.lost + counters.duplicated;
        assert_eq!(got.len() as u64, left);
        assert_eq!((got, counters), run());
    }

    #[test]
    fn late_frames_arrive_in_order_at_their_time() {
        let (mut fault, mut end, clock) = wire(Faults {
            delay_ns: 1_000,
            jitter_ns: 500,
            ..Faults::default()
        });
        for byte in 0..20 {
            plain(&mut fault, byte);
        }
        clock.set(999);
        fault.flush().expect("there");
        assert_eq!(taken(&mut end), []);
        let due = fault.next_at_ns().expect("late frames");
        assert!((1_000..1_500).contains(&due));
        clock.set(1_500);
        fault.flush().expect("there");
        assert_eq!(taken(&mut end), (0..20).collect::<Vec<u8>>());
        assert_eq!(fault.next_at_ns(), None);
    }

    #[test]
    fn an_overtaken_frame_comes_behind_the_next_ones_or_after_its_time() {
        let (mut fault, mut end, clock) = wire(Faults {
            reorder: 0.1,
            held_ns: 50,
            ..Faults::default()
        });
        let mut got = Vec::new();
        for byte in 0..200 {
            plain(&mut fault, byte);
            got.extend(taken(&mut end));
        }
        clock.set(50);
        fault.flush().expect("there");
        got.extend(taken(&mut end));
        let moved: Vec<i32> = (0..).zip(&got).map(|(n, b)| n - i32::from(*b)).collect();
        assert!(moved.iter().any(|by| *by > 1) && moved.iter().all(|by| *by <= 16));
        got.sort_unstable();
        assert_eq!(got, (0..200).collect::<Vec<u8>>(), "all of them, once");
    }

    #[test]
    fn a_rate_spaces_frames_and_its_queue_overflows() {
        let (mut fault, mut end, clock) = wire(Faults {
            rate_bits_per_s: 480_000_000,
            queue_bytes: 600,
            ..Faults::default()
        });
        // 60 bytes take a microsecond; ten wait and one more is begun.
        for byte in 0..20 {
            plain(&mut fault, byte);
        }
        assert_eq!(fault.faults()[0].overflowed, 9);
        for at in 1..=11 {
            clock.set(at * 1_000);
            fault.flush().expect("there");
            assert_eq!(taken(&mut end), [at as u8 - 1]);
        }
    }

    #[test]
    fn a_super_segment_loses_and_damages_packets_not_itself() {
        let (mut fault, mut end, _) = wire(Faults {
            loss: 0.1,
            corrupt: 0.1,
            reorder: 0.05,
            ..Faults::default()
        });
        let (frame, meta) = sample(false, 60_000, 1_448);
        let (mut packets, mut frames, mut broken) = (0, 0, 0);
        for _ in 0..50 {
            send(&mut fault, &frame, meta);
            let mut sink = |frame: Frame<'_>| {
                let count = packets::count(frame.head, frame.meta.segment_bytes);
                let mut one = Vec::new();
                packets += count as u64;
                frames += 1;
                if frame.meta.checksum == Checksum::Unknown {
                    broken += 1;
                    return;
                }
                for n in 0..count {
                    packets::part(frame.head, frame.meta, n, n + 1, &mut one);
                    packets::finish(&mut one);
                    let (_, seq, _, payload) = opened(&one);
                    let at = seq.wrapping_sub(0xffff_f000) as usize;
                    let headers = usize::from(meta.header_bytes);
                    assert_eq!(payload, frame_of(at, headers, payload.len()));
                }
            };
            end.receive(1_000, &mut sink).expect("there");
        }
        let counters = fault.faults()[0];
        let still_held = fault.sent.held.len() as u64;
        assert_eq!(counters.packets, 50 * 42);
        assert_eq!(packets, counters.packets - counters.lost - still_held);
        assert_eq!(broken, counters.corrupted);
        assert!(frames < packets && counters.lost > 100 && counters.reordered > 50);

        fn frame_of(at: usize, headers: usize, len: usize) -> Vec<u8> {
            let (frame, _) = sample(false, 60_000, 1_448);
            frame[headers + at..][..len].to_vec()
        }
    }

    #[test]
    fn what_is_received_meets_faults_too() {
        let (a, mut b) = loopback::pair(&loopback::Settings::default());
        let faults = Faults {
            loss: 0.5,
            ..Faults::default()
        };
        let mut fault = Fault::new(a, Faults::default(), faults, 7, || 0);
        for byte in 0..100 {
            plain(&mut b, byte);
        }
        let got = taken(&mut fault).len() as u64;
        assert_eq!(got, 100 - fault.faults()[1].lost);
        assert!((30..70).contains(&got));
    }
}
