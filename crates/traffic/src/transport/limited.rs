//! A limit on the bandwidth of each connection, as a transport over sockets: a token bucket for each direction.
//!
//! While the bucket of what is received is empty, nothing is read: the receive buffer fills, the window closes, and the
//! server sees a slow client. It does only where that buffer is small (see [`receive_buffer`]), or the kernel takes the
//! response at once and the server is done with it. TLS stands above, so that every byte over TCP counts.
//!
//! The surprise: epoll tells of each change once. What it tells of a connection in a pause is kept until the pause is
//! over, an end of the stream too.

use super::{Event, Failure, Generation, Handshakes, Received, Slot, Tagged, Transport, Want};
use crate::clock::MonotonicClock;
use record::{Clock, Close};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// With less than this part of a burst a direction pauses until it has half of one: a busy connection would be read a
/// few bytes at a time. The other half is for wake-ups that come late, or they would cost bandwidth.
const LEAST_PART: u64 = 8;
/// Of the kernel's receive buffer, at the limit's rate: a longer round trip of the path than this costs bandwidth.
const BUFFER_NS: u64 = 100_000_000;
/// The kernel's buffer takes a few segments whatever the limit is.
const BUFFER_LEAST: u64 = 4 * 1024;
const SECOND: u64 = 1_000_000_000;

/// The size that the receive buffer of a socket with this limit is set to before it connects, bytes. The kernel doubles
/// it for its own accounts, and takes `net.core.rmem_max` for anything larger.
pub(crate) fn receive_buffer(bytes_per_s: u64) -> i32 {
    let bytes = bytes_per_s / (SECOND / BUFFER_NS);
    i32::try_from(bytes.max(BUFFER_LEAST)).unwrap_or(i32::MAX)
}

/// How fast a bucket fills and how much it holds, in time at that rate.
#[derive(Clone, Copy, Debug)]
struct Pace {
    ns_per_byte: f64,
    burst_ns: u64,
}

impl Pace {
    fn new(bytes_per_s: u64, burst_bytes: u64) -> Self {
        let ns_per_byte = SECOND as f64 / bytes_per_s.max(1) as f64;
        Pace {
            ns_per_byte,
            burst_ns: (burst_bytes as f64 * ns_per_byte).ceil() as u64,
        }
    }

    fn ns(&self, bytes: usize) -> u64 {
        (bytes as f64 * self.ns_per_byte).ceil() as u64
    }
}

/// The bucket of one direction of a connection.
#[derive(Clone, Copy, Debug, Default)]
struct Bucket {
    /// When it is full again.
    full_at: u64,
    /// Nothing passes before; `None` without a pause.
    paused_until: Option<u64>,
    /// It stands among the wake-ups, for a pause of this connection or of one before.
    is_listed: bool,
}

impl Bucket {
    /// How many of `wanted` bytes may pass now; none when a pause begins or lasts.
    fn room(&mut self, pace: &Pace, wanted: usize, now: u64) -> usize {
        if self.paused_until.is_some_and(|until| now < until) {
            return 0;
        }
        let room_ns = pace
            .burst_ns
            .saturating_sub(self.full_at.saturating_sub(now));
        let wanted_ns = pace.ns(wanted);
        if room_ns >= wanted_ns {
            return wanted;
        }
        if room_ns < pace.burst_ns / LEAST_PART {
            self.pause(pace);
            return 0;
        }
        (room_ns as f64 / pace.ns_per_byte) as usize
    }

    /// So many bytes have passed.
    fn take(&mut self, pace: &Pace, bytes: usize, now: u64) {
        self.full_at = self.full_at.max(now) + pace.ns(bytes);
    }

    /// Rests until it is half full.
    fn pause(&mut self, pace: &Pace) {
        self.paused_until = Some(self.full_at.saturating_sub(pace.burst_ns / 2));
    }
}

/// The buckets of one slot, and what was told of its connection.
#[derive(Clone, Copy, Debug, Default)]
struct Limits {
    generation: Generation,
    receive: Bucket,
    send: Bucket,
    /// The peer has ended its side.
    hangup: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Direction {
    Receive,
    Send,
}

impl Limits {
    fn bucket(&mut self, direction: Direction) -> &mut Bucket {
        match direction {
            Direction::Receive => &mut self.receive,
            Direction::Send => &mut self.send,
        }
    }

    /// Takes out of an event what a pause keeps back; false when nothing is left of it.
    fn keep_back(&mut self, event: &mut Event) -> bool {
        let Event::Ready {
            readable,
            writable,
            hangup,
        } = event
        else {
            return true;
        };
        self.hangup |= *hangup;
        *readable &= self.receive.paused_until.is_none();
        *writable &= self.send.paused_until.is_none();
        *hangup &= *readable;
        *readable || *writable
    }
}

/// The transport; see the module.
pub(crate) struct Limited<T, C = MonotonicClock> {
    inner: T,
    clock: C,
    pace: Pace,
    slots: Vec<Limits>,
    /// Ends of pauses, each bucket at most once.
    wakes: BinaryHeap<Reverse<(u64, Slot, Direction)>>,
}

impl<T: Transport, C: Clock> Limited<T, C> {
    /// Over `inner`, so many bytes a second in each direction of each of `slots` connections, so many of them at once.
    pub fn new(inner: T, clock: C, slots: u32, bytes_per_s: u64, burst_bytes: u64) -> Self {
        let slots = slots as usize;
        Limited {
            inner,
            clock,
            pace: Pace::new(bytes_per_s, burst_bytes),
            slots: vec![Limits::default(); slots],
            wakes: BinaryHeap::with_capacity(2 * slots),
        }
    }

    /// Sees to it that the end of a bucket's pause is told.
    fn list(&mut self, slot: Slot, direction: Direction) {
        let bucket = self.slots[slot as usize].bucket(direction);
        if let Some(until) = bucket.paused_until
            && !bucket.is_listed
        {
            bucket.is_listed = true;
            self.wakes.push(Reverse((until, slot, direction)));
        }
    }

    /// Ends the pauses that are over, as far as there is room for the news.
    fn resume(&mut self, events: &mut Vec<Tagged>, now: u64) {
        while events.len() < events.capacity()
            && let Some(&Reverse((at, slot, direction))) = self.wakes.peek()
            && at <= now
        {
            self.wakes.pop();
            let limits = &mut self.slots[slot as usize];
            let (generation, ended) = (limits.generation, limits.hangup);
            let bucket = limits.bucket(direction);
            bucket.is_listed = false;
            match bucket.paused_until {
                Some(until) if until <= now => {
                    bucket.paused_until = None;
                    let readable = direction == Direction::Receive;
                    let event = Event::Ready {
                        readable,
                        writable: !readable,
                        hangup: readable && ended,
                    };
                    events.push(Tagged {
                        slot,
                        generation,
                        event,
                    });
                }
                // It was listed for a connection that is gone.
                Some(_) => self.list(slot, direction),
                None => {}
            }
        }
    }
}

impl<T: Transport, C: Clock> Transport for Limited<T, C> {
    fn open(&mut self, slot: Slot, generation: Generation) -> Result<(), Failure> {
        let limits = &mut self.slots[slot as usize];
        let fresh = |bucket: Bucket| Bucket {
            is_listed: bucket.is_listed,
            ..Bucket::default()
        };
        *limits = Limits {
            generation,
            receive: fresh(limits.receive),
            send: fresh(limits.send),
            hangup: false,
        };
        self.inner.open(slot, generation)
    }

    fn send(&mut self, slot: Slot, bytes: &[u8]) -> Result<usize, Failure> {
        let now = self.clock.now().0;
        let bucket = &mut self.slots[slot as usize].send;
        let room = bucket.room(&self.pace, bytes.len(), now);
        let mut sent = 0;
        if room > 0 {
            sent = self.inner.send(slot, &bytes[..room])?;
            bucket.take(&self.pace, sent, now);
            // What the kernel did not take it tells of itself.
            if sent == room && sent < bytes.len() {
                bucket.pause(&self.pace);
            }
        }
        self.list(slot, Direction::Send);
        Ok(sent)
    }

    fn recv(&mut self, slot: Slot, want: Want) -> Result<Received<'_>, Failure> {
        let now = self.clock.now().0;
        let (Want::Bytes(wanted) | Want::Discard(wanted)) = want;
        let bucket = &mut self.slots[slot as usize].receive;
        let room = bucket.room(&self.pace, wanted, now);
        if room == 0 {
            self.list(slot, Direction::Receive);
            return Ok(Received::Blocked);
        }
        let want = match want {
            Want::Bytes(_) => Want::Bytes(room),
            Want::Discard(_) => Want::Discard(room),
        };
        let received = self.inner.recv(slot, want)?;
        let len = match &received {
            Received::Data { bytes, .. } => bytes.len(),
            Received::Discarded { len, .. } => *len,
            _ => 0,
        };
        bucket.take(&self.pace, len, now);
        Ok(received)
    }

    fn close(&mut self, slot: Slot, how: Close) {
        let limits = &mut self.slots[slot as usize];
        limits.receive.paused_until = None;
        limits.send.paused_until = None;
        self.inner.close(slot, how);
    }

    fn wait(&mut self, events: &mut Vec<Tagged>, timeout_ns: u64) -> Result<(), Failure> {
        let until_wake = match self.wakes.peek() {
            Some(&Reverse((at, ..))) => at.saturating_sub(self.clock.now().0),
            None => u64::MAX,
        };
        let waited = self.inner.wait(events, timeout_ns.min(until_wake));
        events.retain_mut(|tagged| self.slots[tagged.slot as usize].keep_back(&mut tagged.event));
        self.resume(events, self.clock.now().0);
        waited
    }

    fn syscalls(&self) -> u64 {
        self.inner.syscalls()
    }

    fn name(&self) -> String {
        self.inner.name()
    }

    fn flush(&mut self) -> bool {
        self.inner.flush()
    }

    fn handshakes(&self) -> Handshakes {
        self.inner.handshakes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::{ManualClock, Nanos};

    const RATE: u64 = 1_000_000;
    /// 20 ms of it.
    const BURST: usize = 20_000;

    /// A peer that has sent all its bytes and takes so many at once; what epoll tells of it is told by hand.
    struct Peer {
        bytes: Vec<u8>,
        takes: usize,
        told: Vec<Event>,
        timeout_ns: u64,
    }

    impl Transport for Peer {
        fn open(&mut self, _: Slot, _: Generation) -> Result<(), Failure> {
            Ok(())
        }

        fn send(&mut self, _: Slot, bytes: &[u8]) -> Result<usize, Failure> {
            Ok(bytes.len().min(self.takes))
        }

        fn recv(&mut self, _: Slot, want: Want) -> Result<Received<'_>, Failure> {
            let (Want::Bytes(most) | Want::Discard(most)) = want;
            let len = most.min(self.bytes.len());
            let left = self.bytes.split_off(len);
            self.bytes = left;
            Ok(match len {
                0 => Received::End { orderly: true },
                _ => Received::Discarded {
                    len,
                    more: len == most,
                },
            })
        }

        fn close(&mut self, _: Slot, _: Close) {}

        fn wait(&mut self, events: &mut Vec<Tagged>, timeout_ns: u64) -> Result<(), Failure> {
            self.timeout_ns = timeout_ns;
            events.extend(self.told.drain(..).map(|event| Tagged {
                slot: 0,
                generation: 7,
                event,
            }));
            Ok(())
        }

        fn syscalls(&self) -> u64 {
            0
        }

        fn name(&self) -> String {
            "peer".to_owned()
        }
    }

    fn limited(bytes: usize) -> Limited<Peer, ManualClock> {
        let peer = Peer {
            bytes: vec![0; bytes],
            takes: usize::MAX,
            told: Vec::new(),
            timeout_ns: 0,
        };
        let clock = ManualClock::at(Nanos::SECOND);
        let mut limited = Limited::new(peer, clock, 1, RATE, BURST as u64);
        limited.open(0, 7).unwrap();
        limited
    }

    /// Receives until nothing comes; how much, and whether the end came.
    fn receive(from: &mut Limited<Peer, ManualClock>) -> (usize, bool) {
        let mut sum = 0;
        loop {
            match from.recv(0, Want::Bytes(usize::MAX)).unwrap() {
                Received::Discarded { len, .. } => sum += len,
                Received::Blocked => return (sum, false),
                Received::End { .. } => return (sum, true),
                other => panic!("{other:?}"),
            }
        }
    }

    /// Waits once: readable, writable and hang-up of each event.
    fn told(by: &mut Limited<Peer, ManualClock>) -> Vec<(bool, bool, bool)> {
        let mut events = Vec::with_capacity(4);
        by.wait(&mut events, u64::MAX).unwrap();
        let flags = events.into_iter().map(|tagged| {
            assert_eq!((tagged.slot, tagged.generation), (0, 7));
            match tagged.event {
                Event::Ready {
                    readable,
                    writable,
                    hangup,
                } => (readable, writable, hangup),
                other => panic!("{other:?}"),
            }
        });
        flags.collect()
    }

    fn ready(hangup: bool) -> Event {
        Event::Ready {
            readable: true,
            writable: true,
            hangup,
        }
    }

    #[test]
    fn a_second_carries_what_the_limit_says_and_one_burst_more() {
        let mut limited = limited(10 * RATE as usize);
        let mut sum = receive(&mut limited).0;
        assert_eq!(sum, BURST);
        assert_eq!(told(&mut limited), []);
        for _ in 0..1_000 {
            limited.clock.advance(Nanos::MILLI);
            let readable = told(&mut limited).iter().any(|(readable, ..)| *readable);
            // The wait ends when the pause does.
            assert!(limited.inner.timeout_ns <= 20_000_000);
            if readable {
                sum += receive(&mut limited).0;
            }
        }
        assert_eq!(sum, RATE as usize + BURST);
    }

    #[test]
    fn what_is_below_the_limit_does_not_wait() {
        let mut limited = limited(usize::MAX >> 40);
        for _ in 0..100 {
            // Nine tenths of the limit, in pieces behind one another.
            for _ in 0..9 {
                let got = limited.recv(0, Want::Bytes(1_000)).unwrap();
                assert!(matches!(got, Received::Discarded { len: 1_000, .. }));
            }
            limited.clock.advance(Nanos::from_millis(10));
        }
    }

    #[test]
    fn an_end_in_a_pause_is_told_after_it() {
        let mut limited = limited(BURST + 1);
        assert_eq!(receive(&mut limited), (BURST, false));
        limited.inner.told.push(ready(true));
        // Requests can be sent meanwhile.
        assert_eq!(told(&mut limited), [(false, true, false)]);
        limited.clock.advance(Nanos::from_millis(20));
        assert_eq!(told(&mut limited), [(true, false, true)]);
        assert_eq!(receive(&mut limited), (1, true));
        assert_eq!(told(&mut limited), []);
    }

    #[test]
    fn an_end_before_a_pause_is_told_again_after_it() {
        let mut limited = limited(BURST + 1);
        limited.inner.told.push(ready(true));
        assert_eq!(told(&mut limited), [(true, true, true)]);
        assert_eq!(receive(&mut limited), (BURST, false));
        limited.clock.advance(Nanos::from_millis(20));
        assert_eq!(told(&mut limited), [(true, false, true)]);
    }

    #[test]
    fn a_pause_ends_with_its_connection() {
        let mut limited = limited(3 * BURST);
        receive(&mut limited);
        limited.close(0, Close::Fin);
        limited.open(0, 7).unwrap();
        assert_eq!(receive(&mut limited).0, BURST, "a bucket of its own");
        // The wake-up of the one before comes to nothing, and this one's is not lost by it.
        limited.clock.advance(Nanos::from_millis(20));
        assert_eq!(told(&mut limited), [(true, false, false)]);
        assert_eq!(told(&mut limited), []);
        receive(&mut limited);
        assert_eq!(limited.wakes.len(), 1);
    }

    #[test]
    fn bodies_are_sent_at_the_limit() {
        let mut limited = limited(0);
        let body = vec![0; RATE as usize];
        let mut sent = limited.send(0, &body).unwrap();
        assert_eq!(sent, BURST);
        assert_eq!(limited.send(0, &body[sent..]).unwrap(), 0);
        limited.inner.told.push(ready(false));
        assert_eq!(told(&mut limited), [(true, false, false)]);
        while sent < body.len() {
            limited.clock.advance(Nanos::from_millis(20));
            assert_eq!(told(&mut limited), [(false, true, false)]);
            let taken = limited.send(0, &body[sent..]).unwrap();
            assert_eq!(taken, BURST);
            sent += taken;
        }
        // A kernel that takes less tells of itself when it takes more.
        limited.clock.advance(Nanos::from_millis(20));
        told(&mut limited);
        limited.inner.takes = 5;
        assert_eq!(limited.send(0, &body[..100]).unwrap(), 5);
        limited.clock.advance(Nanos::SECOND);
        assert_eq!(told(&mut limited), []);
    }

    #[test]
    fn any_limit_lets_a_burst_pass() {
        const SEGMENT: u64 = 1_460;
        for bytes_per_s in [1, 10, 1_024, 73_000, 1 << 30, 1 << 40] {
            let burst = SEGMENT.max(bytes_per_s / 50);
            let pace = Pace::new(bytes_per_s, burst);
            let mut bucket = Bucket::default();
            let now = 10 * pace.burst_ns;
            let room = bucket.room(&pace, usize::MAX >> 12, now);
            assert!(
                (burst..=burst + burst / 1_000).contains(&(room as u64)),
                "{bytes_per_s}: {room}"
            );
            bucket.take(&pace, room, now);
            assert_eq!(bucket.room(&pace, 1, now), 0);
            let until = bucket.paused_until.unwrap();
            assert!(bucket.room(&pace, SEGMENT as usize, until) >= SEGMENT as usize / 2);
            assert!(receive_buffer(bytes_per_s) >= 4_096);
        }
    }
}
