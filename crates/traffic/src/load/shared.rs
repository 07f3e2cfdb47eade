//! What the load threads and whoever stops them share: a few atomics, no lock.

use super::tally::Window;
use crate::clock::now_ns;
use crate::transport::OpenCount;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};

/// From the last thread's readiness to the start: all threads look more often than that. One by itself need not wait.
const START_AHEAD_NS: u64 = 3_000_000;
/// From the wish to stop to the stop: longer than the threads' tick, so that all of them know of it
/// before it comes and end their measurement at the same time.
const STOP_AHEAD_NS: u64 = 120_000_000;

/// See the module.
#[derive(Debug)]
pub(crate) struct Shared {
    threads: u32,
    ready: AtomicU32,
    /// Somebody else sets the time of the start.
    held: bool,
    /// 0 before it is known.
    started_at: AtomicU64,
    /// End of the measured part; `u64::MAX` when only the number of requests ends it.
    stop_at: AtomicU64,
    stopped: AtomicBool,
    /// Threads that cannot reach the server.
    unreachable: AtomicU32,
    gave_up: AtomicBool,
    /// An observer has seen that the server is full.
    server_full: AtomicBool,
    warmup_ns: u64,
    duration_ns: Option<u64>,
    /// Open connections.
    pub open_count: Arc<OpenCount>,
}

impl Shared {
    /// For so many threads, the last of which starts the load.
    pub fn new(threads: u32, warmup_ns: u64, duration_ns: Option<u64>) -> Self {
        Shared {
            threads,
            ready: AtomicU32::new(0),
            held: false,
            started_at: AtomicU64::new(0),
            stop_at: AtomicU64::new(u64::MAX),
            stopped: AtomicBool::new(false),
            unreachable: AtomicU32::new(0),
            gave_up: AtomicBool::new(false),
            server_full: AtomicBool::new(false),
            warmup_ns,
            duration_ns,
            open_count: Arc::default(),
        }
    }

    /// The same, to be started by [`Shared::start_at`].
    pub fn held(self) -> Self {
        Shared { held: true, ..self }
    }

    /// One more thread is ready; the last one sets the time of the start, unless that is somebody else's.
    pub fn thread_is_ready(&self, now: u64) {
        if self.ready.fetch_add(1, SeqCst) + 1 >= self.threads && !self.held {
            let ahead = if self.threads == 1 { 0 } else { START_AHEAD_NS };
            self.start_at(now + ahead);
        }
    }

    /// Every thread has opened its connections, or has given that up.
    pub fn is_ready(&self) -> bool {
        self.ready.load(SeqCst) >= self.threads
    }

    /// Sets the time of the start, which should be [`START_AHEAD_NS`] ahead; the first one stands.
    pub fn start_at(&self, started_at: u64) {
        if let Some(duration_ns) = self.duration_ns {
            let end = started_at
                .saturating_add(self.warmup_ns)
                .saturating_add(duration_ns);
            self.stop_at.fetch_min(end, SeqCst);
        }
        // A thread that panics counts as ready, perhaps a second time.
        let _ = self
            .started_at
            .compare_exchange(0, started_at, SeqCst, SeqCst);
    }

    /// Start of the load, warm-up included; `None` while threads are opening connections.
    pub fn started_at(&self) -> Option<u64> {
        Some(self.started_at.load(SeqCst)).filter(|&at| at > 0)
    }

    /// The measured part as it is known now. A stop during the warm-up leaves nothing measured.
    pub fn window(&self) -> Window {
        let started_at = self.started_at.load(SeqCst);
        let to = self.stop_at.load(SeqCst).max(started_at);
        Window {
            from: started_at.saturating_add(self.warmup_ns).min(to),
            to,
        }
    }

    /// Warm-up and measurement together, if their length is known.
    pub fn total_ns(&self) -> Option<u64> {
        self.duration_ns
            .map(|duration| self.warmup_ns.saturating_add(duration))
    }

    /// Ends the load before its end.
    pub fn stop(&self, now: u64) {
        self.end_early(&self.stopped, now);
    }

    /// Brings the end forward and sets `mark`, unless the load ends sooner by itself.
    fn end_early(&self, mark: &AtomicBool, now: u64) {
        let at = now + STOP_AHEAD_NS;
        let planned = self.stop_at.fetch_min(at, SeqCst);
        if at < planned {
            mark.store(true, SeqCst);
        }
    }

    /// A thread cannot reach the server, or can after all. When no thread can, the load ends.
    pub fn set_unreachable(&self, is_unreachable: bool, now: u64) {
        if !is_unreachable {
            self.unreachable.fetch_sub(1, SeqCst);
        } else if self.unreachable.fetch_add(1, SeqCst) + 1 == self.threads {
            self.end_early(&self.gave_up, now);
        }
    }

    /// The load ended before its end because the server could not be reached.
    pub fn has_given_up(&self) -> bool {
        self.gave_up.load(SeqCst)
    }

    /// An observer has seen whether the server is full; nobody need look.
    pub fn set_server_full(&self, is_full: bool) {
        self.server_full.store(is_full, Relaxed);
    }

    /// What an observer said last; false where none looks.
    pub fn is_server_full(&self) -> bool {
        self.server_full.load(Relaxed)
    }

    /// Somebody ended the load before its end.
    pub fn is_stopped(&self) -> bool {
        self.stopped.load(SeqCst)
    }
}

/// If a load thread panics, the others must not wait for it.
pub(crate) struct StopOnPanic(pub Arc<Shared>);

impl Drop for StopOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.stop(now_ns());
            self.0.thread_is_ready(now_ns());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_000_000_000_000;

    #[test]
    fn the_last_thread_sets_the_start_and_the_end() {
        let shared = Shared::new(2, 10, Some(100));
        shared.thread_is_ready(NOW);
        assert_eq!(shared.started_at(), None);
        shared.thread_is_ready(NOW);
        let at = shared.started_at().unwrap();
        let expected = Window {
            from: at + 10,
            to: at + 110,
        };
        assert_eq!(shared.window(), expected);
    }

    #[test]
    fn a_held_load_starts_when_it_is_told_to() {
        let shared = Shared::new(1, 10, Some(100)).held();
        assert!(!shared.is_ready());
        shared.thread_is_ready(NOW);
        assert!(shared.is_ready());
        assert_eq!(shared.started_at(), None);
        shared.start_at(NOW + 5);
        shared.start_at(NOW + 9);
        assert_eq!(shared.started_at(), Some(NOW + 5));
        assert_eq!(shared.window().to, NOW + 115);
    }

    #[test]
    fn an_absurd_duration_ends_at_the_end_of_time_and_not_before_the_start() {
        let shared = Shared::new(1, u64::MAX / 2, Some(u64::MAX));
        shared.thread_is_ready(NOW);
        assert_eq!(shared.window().to, u64::MAX);
        assert!(shared.window().from > shared.started_at().unwrap());
        assert_eq!(shared.total_ns(), Some(u64::MAX));
    }

    #[test]
    fn a_stop_before_the_start_leaves_an_empty_window() {
        let shared = Shared::new(1, 0, Some(3_600_000_000_000));
        shared.stop(NOW);
        assert!(shared.is_stopped());
        shared.thread_is_ready(NOW);
        let window = shared.window();
        assert!(window.to < shared.started_at().unwrap() + 3_600_000_000_000);
        assert!(window.from <= window.to);
    }

    #[test]
    fn all_threads_must_have_given_up_at_the_same_time() {
        let shared = Shared::new(2, 0, Some(3_600_000_000_000));
        shared.thread_is_ready(NOW);
        shared.thread_is_ready(NOW);
        shared.set_unreachable(true, NOW);
        shared.set_unreachable(false, NOW);
        shared.set_unreachable(true, NOW);
        assert!(!shared.has_given_up());
        shared.set_unreachable(true, NOW);
        assert!(shared.has_given_up());
        assert!(!shared.is_stopped(), "it was not interrupted");
        assert!(shared.window().to < shared.started_at().unwrap() + 3_600_000_000_000);
    }

    #[test]
    fn a_stop_after_the_end_interrupts_nothing() {
        let shared = Shared::new(1, 0, Some(0));
        shared.thread_is_ready(NOW);
        shared.stop(NOW);
        assert!(!shared.is_stopped());
    }
}
