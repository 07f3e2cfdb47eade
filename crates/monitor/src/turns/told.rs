//! Where threads were, in the words of their runtimes, and the waits of the trace that those words name.
//!
//! In the flow: readers of runtimes (thread dumps of a JVM, the memory of interpreters) add samples while the trace
//! runs; the account shares the time of waits out by them. The surprise: these are samples of time, where the stacks of
//! the off-CPU profile are samples of events. A long wait is met more often than a short one by just its length, so
//! every meeting counts for the same time, and the wait that was met counts no more than one that was not.

use super::Located;
use super::threads::{Names, Span, State, Threads, WaitKind};
use super::walk::Row;
use record::{Place, Told, ToldState};
use std::collections::{BTreeMap, HashMap};

/// Meetings that tell how waits alike are shared out. Few are enough: waits that are met seldom are a small part of the
/// time, and so is what chance makes of their division.
const LEAST_MET: u64 = 2;

/// Samples of threads by time, each with what its runtime told.
#[derive(Clone, Debug, Default)]
pub struct TimeSamples {
    told: Vec<Told>,
    ids: HashMap<Told, u32>,
    at: Vec<Sampled>,
}

/// A thread that was met.
#[derive(Clone, Copy, Debug)]
struct Sampled {
    tid: u32,
    when: When,
    /// Index into what was told.
    told: u32,
}

/// When threads were looked at, ns on the monotonic clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct When {
    /// Between these; both are the same where that is exact.
    pub from_ns: u64,
    pub to_ns: u64,
    /// The thread that stopped them and looked, in the longest stretch that it ran there; 0 for nobody.
    pub by: u32,
    /// All threads were looked at, and not just the one that has a lock, which runs more often than others.
    pub all: bool,
}

impl When {
    /// At just this time, of all threads.
    pub fn at(at_ns: u64) -> Self {
        Self {
            from_ns: at_ns,
            to_ns: at_ns,
            by: 0,
            all: true,
        }
    }

    /// The same, of the one that has a lock.
    pub fn of_holder(at_ns: u64) -> Self {
        Self {
            all: false,
            ..Self::at(at_ns)
        }
    }
}

impl TimeSamples {
    /// Adds that a thread was somewhere.
    pub fn add(&mut self, tid: u32, when: When, told: Told) {
        let next = self.told.len() as u32;
        let told = *self.ids.entry(told).or_insert_with_key(|told| {
            self.told.push(told.clone());
            next
        });
        self.at.push(Sampled { tid, when, told });
    }

    /// Adds all samples of another reader.
    pub fn extend(&mut self, other: &Self) {
        for one in &other.at {
            self.add(one.tid, one.when, other.told[one.told as usize].clone());
        }
    }

    /// Without a sample?
    pub fn is_empty(&self) -> bool {
        self.at.is_empty()
    }

    /// What was told, without doubles.
    pub fn told(&self) -> &[Told] {
        &self.told
    }

    /// How often threads were met.
    pub fn len(&self) -> usize {
        self.at.len()
    }
}

/// A part of the meetings of a trace, those of one wait.
pub(super) type Meetings = (u32, u32);

impl Threads {
    /// Notes at each wait which samples met it.
    pub(super) fn meet(&mut self, samples: &TimeSamples) {
        let mut known: Option<(When, u64)> = None;
        let mut met: Vec<Located> = Vec::with_capacity(samples.at.len());
        self.met_with_all.clear();
        for one in &samples.at {
            let at_ns = match known {
                Some((when, at_ns)) if when == one.when => at_ns,
                _ => self.looked_at(one.when),
            };
            known = Some((one.when, at_ns));
            let meeting = Located {
                tid: one.tid,
                at_ns,
                stack: one.told,
                count: 1,
            };
            met.push(meeting);
            if one.when.all {
                self.met_with_all.push(meeting);
            }
        }
        met.sort_by_key(|one| (one.tid, one.at_ns));
        for (tid, spans) in &mut self.spans {
            let own = |one: &Located| one.tid < *tid;
            let mut next = met.partition_point(own);
            for span in spans {
                while met
                    .get(next)
                    .is_some_and(|one| one.tid == *tid && one.at_ns < span.from)
                {
                    next += 1;
                }
                let begin = next;
                while met
                    .get(next)
                    .is_some_and(|one| one.tid == *tid && one.at_ns < span.to)
                {
                    next += 1;
                }
                if let State::Waiting(wait) = &mut span.state {
                    wait.met = (begin as u32, next as u32);
                }
            }
        }
        self.met = met;
    }

    /// When exactly threads were looked at: somebody who stops them for it runs longest while he looks, and waits for
    /// the CPU before and after. Where that was not seen, it is at the end.
    fn looked_at(&self, when: When) -> u64 {
        let spans = self.spans.get(&when.by).map_or(&[][..], Vec::as_slice);
        let first = spans.partition_point(|span| span.to <= when.from_ns);
        let within = spans[first..]
            .iter()
            .take_while(|span| span.from < when.to_ns);
        let ran = within.filter(|span| span.state == State::Running);
        let longest = ran.max_by_key(|span| span.to.min(when.to_ns) - span.from.max(when.from_ns));
        longest.map_or(when.to_ns, |span| span.from.max(when.from_ns))
    }

    /// Samples that met a thread while it ran.
    pub(super) fn running(&self, samples: &TimeSamples) -> Vec<Located> {
        let runs = |one: &&Located| {
            let spans = self.spans.get(&one.tid).map_or(&[][..], Vec::as_slice);
            let at = spans.partition_point(|span: &Span| span.to <= one.at_ns);
            // A thread that was never switched ran all the time.
            let span = spans.get(at).filter(|span| span.from <= one.at_ns);
            span.map_or(spans.is_empty(), |span| span.state == State::Running)
        };
        // A dump of a JVM meets nobody who runs: it stops all threads first.
        let stops = |one: &&Located| samples.told[one.stack as usize].runtime == "jvm";
        let samples = self.met.iter().filter(|one| !stops(one));
        samples.filter(runs).copied().collect()
    }
}

/// How often waits alike were met where.
#[derive(Debug, Default)]
pub(super) struct Met(BTreeMap<(Place, u32, String), BTreeMap<u32, u64>>);

impl Met {
    /// Takes the meetings off a part of a turn and counts those that fell into it.
    pub(super) fn take(
        &mut self,
        row: &mut Row,
        (from, to): (u64, u64),
        threads: &Threads,
        samples: &TimeSamples,
        names: &Names,
    ) {
        let (begin, end) = std::mem::take(&mut row.met);
        for one in &threads.met[begin as usize..end as usize] {
            let told = &samples.told[one.stack as usize];
            let futex = names.text(row.detail) == WaitKind::Futex.name();
            // Who runs by its runtime's account and sleeps in a futex is stopped by the runtime, maybe by the dump
            // itself.
            let stopped = futex && told.state == ToldState::Running && told.runtime == "jvm";
            if (from..to).contains(&one.at_ns) && !stopped {
                let of_alike = self.0.entry(alike(row, names)).or_default();
                *of_alike.entry(one.stack).or_default() += 1;
            }
        }
    }

    /// Shares the time of waits out as waits alike were met. What was told is better than the stack of a wait's
    /// beginning, which ends in the runtime.
    pub(super) fn name(&self, rows: &mut HashMap<Row, (u64, u64)>, names: &Names) {
        let mut named: Vec<Row> = rows.keys().copied().collect();
        named.sort_unstable();
        for row in named {
            let met = self.0.get(&alike(&row, names));
            let Some(met) = met.filter(|met| met.values().sum::<u64>() >= LEAST_MET) else {
                continue;
            };
            let all: u64 = met.values().sum();
            let (turns, ns) = rows.remove(&row).unwrap_or_default();
            let part = |whole: u64, until: u64| {
                (u128::from(whole) * u128::from(until) / u128::from(all)) as u64
            };
            let mut until = 0;
            for (&told, &times) in met {
                let next = until + times;
                let row = Row {
                    stack: None,
                    told: Some(told),
                    ..row
                };
                let sum = rows.entry(row).or_default();
                // Differences of what lies below: rounded, they still add up.
                sum.0 += part(turns, next) - part(turns, until);
                sum.1 += part(ns, next) - part(ns, until);
                until = next;
            }
        }
    }
}

/// Waits that are held to be alike: threads of a pool are one waker, whatever their number.
fn alike(row: &Row, names: &Names) -> (Place, u32, String) {
    let waker = names.text(row.waker);
    let waker = waker.trim_end_matches(|c: char| c.is_ascii_digit());
    (row.place, row.detail, waker.to_owned())
}
