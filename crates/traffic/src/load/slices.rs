//! The load in slices of about 100 ms, from the load threads to whoever watches, without a lock.
//!
//! Each thread owns a few slices. It fills one, pushes it into a queue, and takes an empty one from
//! another queue; the reader merges, empties and gives back. A reader that does not keep up makes slices
//! longer, never a thread wait: without an empty slice the current one stays open until the next edge.

use crossbeam_queue::ArrayQueue;
use record::{Histogram, Interval, Nanos};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Slices a thread owns: the reader may sleep for three seconds.
const SLICES: usize = 32;
/// Slices it begins with; the reader makes the others when the first one has come, so that a load of one request does
/// not map 8 MB that it has no use for.
const FIRST_SLICES: usize = 4;
const SHORT_NS: u64 = 100_000_000;
const LONG_NS: u64 = 1_000_000_000;
/// A run up to this long is cut into short slices.
const SHORT_RUN_NS: u64 = 60_000_000_000;

/// When slices end: every 100 ms in the first minute, every second after it. A run that is known to
/// last longer has one length throughout, up to a second, so that it has some 600 slices.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Edges {
    length_ns: u64,
    short_until: u64,
}

impl Edges {
    /// Edges of a run from `started_at` that lasts `total_ns`, if that is known.
    pub fn new(started_at: u64, total_ns: Option<u64>) -> Self {
        let length_ns = match total_ns {
            Some(total) => (total / 600).clamp(SHORT_NS, LONG_NS),
            None => SHORT_NS,
        };
        Edges {
            length_ns,
            short_until: started_at.saturating_add(SHORT_RUN_NS),
        }
    }

    /// The edge after `edge`, the same for all threads.
    pub fn after(&self, edge: u64) -> u64 {
        edge + if edge < self.short_until {
            self.length_ns
        } else {
            LONG_NS
        }
    }
}

/// One thread's part of an interval.
pub(crate) struct Slice {
    pub from: u64,
    pub to: u64,
    pub sent: u64,
    pub succeeded: u64,
    pub failed: u64,
    pub received_bytes: u64,
    pub queued: u64,
    /// CPU time of the thread without deliberate spinning.
    pub busy_ns: u64,
    pub response: Histogram,
}

impl Slice {
    fn new() -> Box<Self> {
        Box::new(Slice {
            from: 0,
            to: 0,
            sent: 0,
            succeeded: 0,
            failed: 0,
            received_bytes: 0,
            queued: 0,
            busy_ns: 0,
            response: Histogram::new(),
        })
    }

    fn clear(&mut self) {
        self.sent = 0;
        self.succeeded = 0;
        self.failed = 0;
        self.received_bytes = 0;
        self.queued = 0;
        self.busy_ns = 0;
        self.response.clear();
    }
}

/// The two queues between a thread and the reader.
#[derive(Clone)]
struct Queues {
    filled: Arc<ArrayQueue<Box<Slice>>>,
    empty: Arc<ArrayQueue<Box<Slice>>>,
    finished: Arc<AtomicBool>,
}

/// Says that the thread has ended, even when it panics.
struct SayFinished(Arc<AtomicBool>);

impl Drop for SayFinished {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// The thread's end.
pub(crate) struct Slicer {
    /// The slice being filled.
    pub current: Box<Slice>,
    queues: Queues,
    /// Dropped last, behind the last push.
    _finished: SayFinished,
}

/// The reader's end.
pub(crate) struct Lane {
    queues: Queues,
    /// Merged up to here.
    reached: u64,
    over: bool,
    /// Slices that the thread is still to be given.
    owed: usize,
}

/// Both ends of a new lane.
pub(crate) fn lane() -> (Slicer, Lane) {
    lane_of(SLICES)
}

/// Both ends of a new lane with so many slices.
pub(super) fn lane_of(slices: usize) -> (Slicer, Lane) {
    let queues = Queues {
        filled: Arc::new(ArrayQueue::new(slices)),
        empty: Arc::new(ArrayQueue::new(slices)),
        finished: Arc::new(AtomicBool::new(false)),
    };
    let first = slices.min(FIRST_SLICES);
    for _ in 1..first {
        // The queue has room for one more than that.
        let _ = queues.empty.push(Slice::new());
    }
    let slicer = Slicer {
        current: Slice::new(),
        _finished: SayFinished(Arc::clone(&queues.finished)),
        queues: queues.clone(),
    };
    let lane = Lane {
        queues,
        reached: 0,
        over: false,
        owed: slices - first,
    };
    (slicer, lane)
}

impl Slicer {
    /// Ends the current slice at `to` and begins the next there, if an empty one is at hand.
    pub fn cut(&mut self, to: u64) -> bool {
        let Some(next) = self.queues.empty.pop() else {
            return false;
        };
        self.current.to = to;
        let full = std::mem::replace(&mut self.current, next);
        // There are as many slices as places, so there is room.
        let _ = self.queues.filled.push(full);
        self.current.from = to;
        true
    }

    /// Hands over the last slice, which ends at `to`.
    pub fn finish(mut self, to: u64) {
        self.current.to = to.max(self.current.from);
        let _ = self.queues.filled.push(self.current);
    }
}

/// Merges the threads' slices into intervals.
pub(crate) struct Merger {
    lanes: Vec<Lane>,
    /// End of the last interval.
    edge: u64,
    merged: Interval,
    /// Response times of the interval that is being merged, or of the last one until the next poll.
    pub response: Histogram,
    emitted: bool,
}

/// What [`Merger::poll`] found.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Polled {
    /// The next interval.
    Ready(Interval),
    /// Some thread's slice is missing.
    Pending,
    /// All threads have finished.
    Over,
}

impl Merger {
    /// Nothing merged yet.
    pub fn new(lanes: Vec<Lane>) -> Self {
        Merger {
            lanes,
            edge: 0,
            merged: Interval::default(),
            response: Histogram::new(),
            emitted: false,
        }
    }

    /// Takes what is there. An interval is ready when every thread that still runs has been merged up
    /// to the same edge; a thread that skipped edges pulls the others along to its own.
    pub fn poll(&mut self) -> Polled {
        if std::mem::take(&mut self.emitted) {
            self.response.clear();
        }
        let mut pending = true;
        while pending {
            let target = self.merged.to.0;
            pending = false;
            for i in 0..self.lanes.len() {
                let lane = &self.lanes[i];
                if lane.over || (lane.reached > self.edge && lane.reached >= target) {
                    continue;
                }
                if !self.advance(i) {
                    return Polled::Pending;
                }
                pending = true;
            }
        }
        if self.merged.to.0 > self.edge {
            Polled::Ready(self.emit())
        } else {
            Polled::Over
        }
    }

    /// Merges one slice of a lane, or finds that it is over; false when nothing has come yet.
    fn advance(&mut self, lane: usize) -> bool {
        let lane = &mut self.lanes[lane];
        // Read before the queue: what was pushed before the flag is then in the queue.
        let finished = lane.queues.finished.load(Ordering::Acquire);
        let Some(mut slice) = lane.queues.filled.pop() else {
            lane.over = finished;
            return finished;
        };
        if !finished {
            for _ in 0..std::mem::take(&mut lane.owed) {
                let _ = lane.queues.empty.push(Slice::new());
            }
        }
        lane.reached = slice.to;
        let merged = &mut self.merged;
        if merged.to.0 <= self.edge {
            merged.from = Nanos(slice.from);
        }
        merged.from = merged.from.min(Nanos(slice.from));
        merged.to = merged.to.max(Nanos(slice.to));
        merged.sent += slice.sent;
        merged.succeeded += slice.succeeded;
        merged.failed += slice.failed;
        merged.received_bytes += slice.received_bytes;
        merged.queued += slice.queued;
        let wall_ns = slice.to.saturating_sub(slice.from).max(1);
        let permille = (slice.busy_ns * 1000 / wall_ns).min(1000) as u32;
        merged.generator_permille = merged.generator_permille.max(permille);
        self.response.merge(&slice.response);
        slice.clear();
        let _ = lane.queues.empty.push(slice);
        true
    }

    fn emit(&mut self) -> Interval {
        let at = |quantile| self.response.quantile(quantile).unwrap_or_default().0;
        let interval = Interval {
            response_ns_p50: at(0.5),
            response_ns_p99: at(0.99),
            response_ns_max: self.response.max().unwrap_or_default().0,
            ..self.merged
        };
        self.edge = interval.to.0;
        self.merged = Interval {
            to: interval.to,
            ..Interval::default()
        };
        self.emitted = true;
        interval
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(slicer: &mut Slicer, to: u64, sent: u64, latency: u64) {
        slicer.current.sent = sent;
        slicer.current.succeeded = 1;
        slicer.current.response.record(Nanos(latency));
        slicer.cut(to);
    }

    #[test]
    fn a_thread_that_runs_on_is_given_the_slices_that_it_did_not_begin_with() {
        let (mut slicer, lane) = lane();
        let mut merger = Merger::new(vec![lane]);
        let mut cut_until_full = |from: u64| (from..).find(|at| !slicer.cut(*at)).unwrap() - from;
        assert_eq!(cut_until_full(1) as usize, FIRST_SLICES - 1);
        while merger.poll() != Polled::Pending {}
        assert_eq!(cut_until_full(100) as usize, SLICES - 1);
    }

    #[test]
    fn threads_merge_edge_by_edge_with_exact_percentiles() {
        let ((mut a, lane_a), (mut b, lane_b)) = (lane(), lane());
        let mut merger = Merger::new(vec![lane_a, lane_b]);
        cut(&mut a, 100, 3, 10);
        assert_eq!(merger.poll(), Polled::Pending, "b has not come");
        cut(&mut b, 100, 4, 30);
        let Polled::Ready(first) = merger.poll() else {
            panic!("both have come");
        };
        assert_eq!((first.from.0, first.to.0, first.sent), (0, 100, 7));
        assert_eq!((first.response_ns_p50, first.response_ns_max), (10, 30));
        a.finish(150);
        b.finish(150);
        let Polled::Ready(last) = merger.poll() else {
            panic!("both have finished");
        };
        assert_eq!((last.from.0, last.to.0, last.sent), (100, 150, 0));
        assert_eq!(merger.poll(), Polled::Over);
    }

    #[test]
    fn a_thread_that_skipped_an_edge_pulls_the_others_along() {
        let ((mut a, lane_a), (mut b, lane_b)) = (lane(), lane());
        let mut merger = Merger::new(vec![lane_a, lane_b]);
        cut(&mut a, 200, 1, 1);
        cut(&mut b, 100, 1, 1);
        assert_eq!(merger.poll(), Polled::Pending);
        cut(&mut b, 200, 1, 1);
        let Polled::Ready(merged) = merger.poll() else {
            panic!("both have reached 200");
        };
        assert_eq!((merged.from.0, merged.to.0, merged.sent), (0, 200, 3));
    }

    #[test]
    fn an_early_end_of_one_thread_does_not_hold_up_the_rest() {
        let ((a, lane_a), (mut b, lane_b)) = (lane(), lane());
        let mut merger = Merger::new(vec![lane_a, lane_b]);
        a.finish(50);
        cut(&mut b, 100, 1, 1);
        assert!(matches!(merger.poll(), Polled::Ready(_)));
        cut(&mut b, 200, 1, 1);
        assert!(matches!(merger.poll(), Polled::Ready(_)));
        b.finish(200);
        assert_eq!(merger.poll(), Polled::Over);
    }

    #[test]
    fn a_sleeping_reader_makes_slices_longer_and_loses_nothing() {
        let (mut a, lane_a) = lane();
        let mut merger = Merger::new(vec![lane_a]);
        for edge in 1..=100 {
            a.current.sent += 1;
            a.cut(edge * 10);
        }
        a.finish(1_000);
        let mut sent = 0;
        loop {
            match merger.poll() {
                Polled::Ready(interval) => sent += interval.sent,
                Polled::Over => break,
                Polled::Pending => panic!("the lane has finished"),
            }
        }
        assert_eq!(sent, 100);
    }

    #[test]
    fn long_runs_have_long_slices() {
        let slices = |total_ns: Option<u64>, run_ns: u64| {
            let edges = Edges::new(0, total_ns);
            let (mut edge, mut n) = (0, 0);
            while edge < run_ns {
                edge = edges.after(edge);
                n += 1;
            }
            n
        };
        assert_eq!(slices(Some(10 * LONG_NS), 10 * LONG_NS), 100);
        assert_eq!(slices(Some(60 * LONG_NS), 60 * LONG_NS), 600);
        assert_eq!(slices(Some(600 * LONG_NS), 600 * LONG_NS), 600);
        assert_eq!(slices(None, 120 * LONG_NS), 660);
    }
}
