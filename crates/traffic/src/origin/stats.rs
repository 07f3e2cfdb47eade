//! What each thread has done, readable at any time without a lock.
//!
//! A thread alone writes its [`Counters`], on cache lines of their own, so that counting costs plain
//! loads and stores and reading disturbs nobody. A reader sees each counter exact and the set of them
//! a moment apart.

use record::traffic::SideOutcome;
use serde::{Deserialize, Serialize};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering::Relaxed};

/// A count with one writer.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds `n`. Load and store instead of a locked read-modify-write: only one thread ever writes.
    pub fn add(&self, n: u64) {
        self.0.store(self.0.load(Relaxed).wrapping_add(n), Relaxed);
    }

    /// Takes `n` away, likewise.
    pub fn subtract(&self, n: u64) {
        self.0.store(self.0.load(Relaxed).wrapping_sub(n), Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// One thread's counters. 128 bytes: x86 fetches cache lines in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Counters {
    /// Kernel thread id, set once.
    pub tid: AtomicI32,
    /// Connections accepted.
    pub accepted: Counter,
    /// Connections open now.
    pub open: Counter,
    /// Failures of `accept` for want of descriptors or memory.
    pub accept_errors: Counter,
    /// Answers to `/stats`.
    pub stats_requests: Counter,
    /// All other answers by class, 2xx to 5xx.
    pub answers: [Counter; 4],
    /// Bytes read from connections.
    pub received_bytes: Counter,
    /// Bytes written to connections.
    pub sent_bytes: Counter,
    /// Content bytes of the bodies sent to `/upload`.
    pub upload_bytes: Counter,
}

impl Counters {
    /// Counts an answer.
    pub fn answered(&self, status: u16) {
        let class = usize::from(status / 100).clamp(2, 5) - 2;
        self.answers[class].add(1);
    }

    fn counts(&self) -> Counts {
        let [status_2xx, status_3xx, status_4xx, status_5xx] =
            [0, 1, 2, 3].map(|class: usize| self.answers[class].get());
        let responses = Responses {
            status_2xx,
            status_3xx,
            status_4xx,
            status_5xx,
        };
        Counts {
            accepted: self.accepted.get(),
            open: self.open.get(),
            accept_errors: self.accept_errors.get(),
            requests: responses.total(),
            stats_requests: self.stats_requests.get(),
            responses,
            received_bytes: self.received_bytes.get(),
            sent_bytes: self.sent_bytes.get(),
            upload_bytes: self.upload_bytes.get(),
        }
    }
}

/// Responses by class of their status.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Responses {
    /// 200 to 299.
    #[serde(rename = "2xx")]
    pub status_2xx: u64,
    /// 300 to 399.
    #[serde(rename = "3xx")]
    pub status_3xx: u64,
    /// 400 to 499.
    #[serde(rename = "4xx")]
    pub status_4xx: u64,
    /// 500 to 599.
    #[serde(rename = "5xx")]
    pub status_5xx: u64,
}

impl Responses {
    fn total(&self) -> u64 {
        self.status_2xx + self.status_3xx + self.status_4xx + self.status_5xx
    }
}

/// What was counted, for one thread or all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Connections accepted.
    pub accepted: u64,
    /// Connections open now.
    pub open: u64,
    /// Failures of `accept` for want of descriptors or memory; accepting pauses after one.
    pub accept_errors: u64,
    /// Requests answered, those for `/stats` left out: equals what a load has sent.
    pub requests: u64,
    /// Requests for `/stats` answered.
    pub stats_requests: u64,
    /// The `requests` by class of their answer.
    pub responses: Responses,
    /// Bytes read from connections, heads and `/stats` included.
    pub received_bytes: u64,
    /// Bytes written to connections, likewise.
    pub sent_bytes: u64,
    /// Content bytes of the bodies sent to `/upload`.
    pub upload_bytes: u64,
}

impl Counts {
    fn plus(self, other: &Counts) -> Counts {
        let (a, b) = (self.responses, other.responses);
        Counts {
            accepted: self.accepted + other.accepted,
            open: self.open + other.open,
            accept_errors: self.accept_errors + other.accept_errors,
            requests: self.requests + other.requests,
            stats_requests: self.stats_requests + other.stats_requests,
            responses: Responses {
                status_2xx: a.status_2xx + b.status_2xx,
                status_3xx: a.status_3xx + b.status_3xx,
                status_4xx: a.status_4xx + b.status_4xx,
                status_5xx: a.status_5xx + b.status_5xx,
            },
            received_bytes: self.received_bytes + other.received_bytes,
            sent_bytes: self.sent_bytes + other.sent_bytes,
            upload_bytes: self.upload_bytes + other.upload_bytes,
        }
    }
}

/// One thread's share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadStats {
    /// Index, from 0.
    pub thread: u32,
    /// Kernel thread id.
    pub tid: i32,
    /// CPU that it is pinned to.
    pub cpu: Option<u32>,
    #[serde(flatten)]
    pub counts: Counts,
}

/// The whole server: what `/stats` answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OriginStats {
    /// Sum over the threads.
    pub total: Counts,
    /// One entry a thread, by index.
    pub threads: Vec<ThreadStats>,
    /// Of a TCP in user space: its counters, when it has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stack: Option<SideOutcome>,
}

/// The counters of all threads.
#[derive(Debug)]
pub struct Board {
    threads: Vec<Place>,
}

/// What there is of one thread.
#[derive(Debug)]
struct Place {
    counters: Counters,
    /// The CPU that it is pinned to.
    cpu: Option<u32>,
    stack: OnceLock<StackEnd>,
}

/// The end of a thread's stack in user space.
#[derive(Debug)]
struct StackEnd {
    outcome: SideOutcome,
    gone: Option<String>,
}

impl Board {
    /// Zeros, for one thread per entry; the entry is the CPU that it is pinned to.
    pub fn new(cpus: impl IntoIterator<Item = Option<u32>>) -> Self {
        Self {
            threads: cpus
                .into_iter()
                .map(|cpu| Place {
                    counters: Counters::default(),
                    cpu,
                    stack: OnceLock::new(),
                })
                .collect(),
        }
    }

    /// A thread's stack has ended; with the words of its device when that has gone.
    pub fn set_stack(&self, thread: usize, outcome: SideOutcome, gone: Option<String>) {
        let place = &self.threads[thread];
        let cpu = place.cpu;
        // Nobody else ends it.
        let _ = place.stack.set(StackEnd {
            outcome: SideOutcome { cpu, ..outcome },
            gone,
        });
    }

    fn stacks(&self) -> impl Iterator<Item = &StackEnd> {
        self.threads.iter().filter_map(|place| place.stack.get())
    }

    /// Why serving has ended by itself, all of it or a thread's part.
    pub fn gone(&self) -> Option<String> {
        self.stacks().find_map(|end| end.gone.clone())
    }

    /// Counters of a thread; only that thread may write them.
    pub fn counters(&self, thread: usize) -> &Counters {
        &self.threads[thread].counters
    }

    /// All counters now.
    pub fn read(&self) -> OriginStats {
        let threads: Vec<ThreadStats> = self
            .threads
            .iter()
            .zip(0..)
            .map(|(place, thread)| ThreadStats {
                thread,
                tid: place.counters.tid.load(Relaxed),
                cpu: place.cpu,
                counts: place.counters.counts(),
            })
            .collect();
        OriginStats {
            total: threads
                .iter()
                .fold(Counts::default(), |sum, t| sum.plus(&t.counts)),
            threads,
            stack: SideOutcome::of_threads(self.stacks().map(|end| end.outcome.clone()).collect()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_are_the_sum_of_the_threads() {
        let board = Board::new([Some(3), None]);
        for (thread, statuses) in [(0, &[200, 204, 404][..]), (1, &[301, 503, 200])] {
            let counters = board.counters(thread);
            counters.tid.store(thread as i32 + 70, Relaxed);
            for &status in statuses {
                counters.answered(status);
            }
            counters.open.add(5);
            counters.open.subtract(4);
            counters.sent_bytes.add(1000);
        }
        let stats = board.read();
        assert_eq!(stats.total.requests, 6);
        assert_eq!((stats.total.open, stats.total.sent_bytes), (2, 2000));
        assert_eq!(
            stats.total.responses,
            Responses {
                status_2xx: 3,
                status_3xx: 1,
                status_4xx: 1,
                status_5xx: 1
            }
        );
        let ids: Vec<_> = stats
            .threads
            .iter()
            .map(|t| (t.thread, t.tid, t.cpu))
            .collect();
        assert_eq!(ids, [(0, 70, Some(3)), (1, 71, None)]);
    }

    #[test]
    fn stacks_of_the_threads_are_one_side() {
        let board = Board::new([Some(3), Some(5)]);
        let of = |connections| SideOutcome {
            tcp: [("accepts".to_owned(), connections)].into(),
            peak_flows: connections,
            ..SideOutcome::default()
        };
        assert!(board.read().stack.is_none() && board.gone().is_none());
        board.set_stack(1, of(30), Some("it has gone".to_owned()));
        board.set_stack(0, of(4), None);
        let stack = board.read().stack.unwrap();
        assert_eq!((stack.tcp["accepts"], stack.peak_flows), (34, 34));
        let cpus: Vec<_> = stack.threads.iter().map(|thread| thread.cpu).collect();
        assert_eq!(cpus, [Some(3), Some(5)]);
        assert_eq!(board.gone().as_deref(), Some("it has gone"));
    }

    #[test]
    fn the_json_is_flat_and_reads_back() {
        let board = Board::new([None]);
        board.counters(0).answered(404);
        let stats = board.read();
        let json = serde_json::to_value(&stats).unwrap();
        assert_eq!(json["threads"][0]["responses"]["4xx"], 1);
        assert_eq!(json["total"]["requests"], 1);
        assert_eq!(serde_json::from_value::<OriginStats>(json).unwrap(), stats);
    }
}
