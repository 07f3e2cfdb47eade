//! Streams of events that never pause, on simulated time: each has its turn, and the load its end.

use super::super::connection::Policy;
use super::super::exchange::Exchange;
use super::super::shared::Shared;
use super::super::slices;
use super::super::worker::{Task, Worker};
use crate::arrival::Share;
use crate::clock::LoopClock;
use crate::transport::{Event, Failure, Generation, Received, Slot, Tagged, Transport, Want};
use record::{Arrival, Clock, Close, Nanos};
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

const SLOTS: u32 = 4;
const DURATION_NS: u64 = 100_000_000;
/// What a call to receive takes.
const RECEIVE_NS: u64 = 1_000_000;
const HEAD: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n";
const EVENT: &[u8] = b"data: x\n\n";

struct Time(Rc<Cell<u64>>);

impl Clock for Time {
    fn now(&self) -> Nanos {
        Nanos(self.0.get())
    }
}

impl LoopClock for Time {
    fn pause(&self, ns: u64) {
        self.0.set(self.0.get() + ns);
    }

    fn spin(&self) {
        self.pause(1_000);
    }
}

/// A transport whose every connection always has more.
struct Flood {
    time: Rc<Cell<u64>>,
    told: Vec<Tagged>,
    has_head: [bool; SLOTS as usize],
    events: Vec<u8>,
}

impl Flood {
    fn tell(&mut self, slot: Slot, event: Event) {
        self.told.push(Tagged {
            slot,
            generation: 1,
            event,
        });
    }
}

impl Transport for Flood {
    fn open(&mut self, slot: Slot, _: Generation) -> Result<(), Failure> {
        self.tell(slot, Event::Opened);
        Ok(())
    }

    fn send(&mut self, slot: Slot, bytes: &[u8]) -> Result<usize, Failure> {
        // The one edge that tells of bytes: there is never a moment without any.
        let (readable, writable, hangup) = (true, false, false);
        let event = Event::Ready {
            readable,
            writable,
            hangup,
        };
        self.tell(slot, event);
        Ok(bytes.len())
    }

    fn recv(&mut self, slot: Slot, _: Want) -> Result<Received<'_>, Failure> {
        let now = self.time.get() + RECEIVE_NS;
        assert!(now < 10 * DURATION_NS, "the load does not end");
        self.time.set(now);
        let bytes = match std::mem::replace(&mut self.has_head[slot as usize], true) {
            false => HEAD,
            true => &self.events,
        };
        Ok(Received::Data { bytes, more: true })
    }

    fn close(&mut self, _: Slot, _: Close) {}

    fn wait(&mut self, events: &mut Vec<Tagged>, timeout_ns: u64) -> Result<(), Failure> {
        if self.told.is_empty() {
            self.time.set(self.time.get() + timeout_ns);
        }
        events.append(&mut self.told);
        Ok(())
    }

    fn syscalls(&self) -> u64 {
        0
    }

    fn name(&self) -> String {
        "flood".to_owned()
    }
}

#[test]
fn streams_that_never_pause_have_their_turns_and_the_load_its_end() {
    let time = Rc::new(Cell::new(1));
    let transport = Flood {
        time: Rc::clone(&time),
        told: Vec::new(),
        has_head: [false; SLOTS as usize],
        events: EVENT.repeat(4_000),
    };
    let policy = Policy {
        depth: 1,
        per_connection: u64::MAX,
        announces_close: false,
        connect_counts: false,
        head_requests: false,
        request_bytes: 1,
        streams: 1,
        is_decoded: false,
        timeout_ns: 10 * DURATION_NS,
    };
    let task = Task {
        requests: Arc::new([b'?']),
        arrival: Arrival::Closed,
        course: None,
        timetable: None,
        share: Share { index: 0, of: 1 },
        budget: u64::MAX,
        close: Close::Fin,
        open_first: true,
        timeout_ns: policy.timeout_ns,
        spin_ns: 0,
        coalesce_ns: None,
    };
    let (slicer, _lane) = slices::lane();
    let exchange = Exchange::new(policy, SLOTS, slicer).with_streams();
    let shared = Arc::new(Shared::new(1, 0, Some(DURATION_NS)));
    let report = Worker::new(transport, Time(time), exchange, task, shared).run();
    let (least, most) = (report.successes.iter().min(), report.successes.iter().max());
    // A turn is two of these receives.
    assert!(
        *most.unwrap() <= least.unwrap() + 2 * 4_000,
        "{:?}",
        report.successes
    );
    assert!(least > Some(&40_000), "{:?}", report.successes);
    let streams = report.event_streams.unwrap();
    assert_eq!(streams.gap.count() + 4, report.tally.succeeded);
}
