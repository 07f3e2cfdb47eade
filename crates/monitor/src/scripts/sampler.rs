//! Looks at interpreters through a window.
//!
//! In the flow: started with a trace of turns and ended with it. A lock is read some hundred times a second, with the
//! stack of the thread that has it, which is what the interpreter's CPU time is spent on; the stacks of all threads are
//! read less often. The surprise: what a look at all costs grows with the threads, a hundred times what the one that
//! works costs, so each of the two has its own pause, in lengths of what it took.

use super::{GIL, Interpreter};
use crate::turns::{TimeSamples, When};
use record::{AskedRuntime, InterpreterLock, ProbeCost};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Between looks at the lock, ns.
const STEP_NS: u64 = 2_500_000;
/// Looks at the lock for each at all stacks, at least.
const STACKS_EVERY: u64 = 4;
/// Time between looks at all stacks in lengths of such a look.
const PAUSE: u64 = 60;
/// Time between looks at the lock in lengths of such a look: with the other, 1.7 % and 0.5 % of a core at most.
const LOCK_PAUSE: u64 = 200;
/// The golden ratio's fraction: pauses of all lengths, so that nothing periodic is always met or never.
const SPREAD: f64 = 0.618_033_988_749_894_9;
/// Samples that are kept at most.
const MOST_SAMPLES: usize = 1 << 20;

/// Looks being taken. Dropping it ends them.
#[derive(Debug)]
pub struct Sampler {
    ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<Gathered>>,
}

/// What looks brought.
#[derive(Debug, Default)]
pub struct Gathered {
    /// Where threads were.
    pub samples: TimeSamples,
    /// Of each interpreter, what was seen of its lock.
    pub asked: Vec<AskedRuntime>,
    pub cost: Option<ProbeCost>,
}

/// One interpreter and its lock.
struct Watched {
    target: String,
    interpreter: Box<dyn Interpreter>,
    looks: u64,
    held: u64,
    waited: u64,
    stacks: u64,
    /// Time and number of switches, first and last.
    first: Option<(u64, u64)>,
    last: (u64, u64),
    gone: bool,
}

impl Sampler {
    /// Begins to look at interpreters, each with its target's name.
    pub fn start(interpreters: Vec<(String, Box<dyn Interpreter>)>) -> Self {
        let ended = Arc::new(AtomicBool::new(false));
        let asked = Arc::clone(&ended);
        let watched = |(target, interpreter)| Watched {
            target,
            interpreter,
            looks: 0,
            held: 0,
            waited: 0,
            stacks: 0,
            first: None,
            last: (0, 0),
            gone: false,
        };
        let all: Vec<Watched> = interpreters.into_iter().map(watched).collect();
        let thread = std::thread::Builder::new()
            .name("scripts".to_owned())
            .spawn(move || look(all, &asked));
        Self {
            ended,
            thread: thread.ok(),
        }
    }

    /// Ends it.
    pub fn end(mut self) -> Gathered {
        self.ended.store(true, Ordering::Release);
        let thread = self.thread.take();
        thread
            .and_then(|thread| thread.join().ok())
            .unwrap_or_default()
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Release);
    }
}

fn look(mut all: Vec<Watched>, ended: &AtomicBool) -> Gathered {
    let mut samples = TimeSamples::default();
    let (mut turn, mut spread, mut stacks_due) = (0_u64, 0.0_f64, 0_u64);
    while !ended.load(Ordering::Acquire) && samples.len() < MOST_SAMPLES {
        let began = linux::clock::monotonic_ns();
        let stacks = began >= stacks_due;
        for one in all.iter_mut().filter(|one| !one.gone) {
            one.look(stacks, &mut samples);
        }
        turn += 1;
        spread += SPREAD;
        let took = linux::clock::monotonic_ns() - began;
        let spread_out = |pause: u64| (pause as f64 * (0.5 + spread.fract())) as u64;
        let pause = if stacks {
            stacks_due = began + spread_out((STACKS_EVERY * STEP_NS).max(PAUSE * took));
            STEP_NS
        } else {
            STEP_NS.max(LOCK_PAUSE * took)
        };
        std::thread::sleep(Duration::from_nanos(spread_out(pause)));
    }
    Gathered {
        samples,
        asked: all.iter().map(Watched::asked).collect(),
        cost: Some(ProbeCost {
            probe: "reader of interpreters' memory".to_owned(),
            events: turn,
            expected_share: None,
            measured_ns: Some(linux::clock::thread_cpu_ns()),
        }),
    }
}

impl Watched {
    fn look(&mut self, stacks: bool, samples: &mut TimeSamples) {
        let Ok(lock) = self.interpreter.lock() else {
            self.gone = true;
            return;
        };
        self.looks += u64::from(lock.is_some() || stacks);
        if let Some(lock) = lock {
            self.held += u64::from(lock.holder.is_some());
            self.last = (linux::clock::monotonic_ns(), lock.switches);
            self.first.get_or_insert(self.last);
        }
        if !stacks {
            if let Some(holder) = lock.and_then(|lock| lock.holder)
                && let Ok(Some((tid, told))) = self.interpreter.at_lock(holder)
            {
                let at = When::of_holder(linux::clock::monotonic_ns());
                samples.add(tid, at, told);
            }
            return;
        }
        // What moved while it was read is left out; the next look comes soon.
        let Ok(threads) = self.interpreter.look() else {
            return;
        };
        let at = When::at(linux::clock::monotonic_ns());
        self.stacks += 1;
        for (tid, told) in threads {
            self.waited += u64::from(told.object == GIL);
            samples.add(tid, at, told);
        }
    }

    fn asked(&self) -> AskedRuntime {
        let lock = self.first.and_then(|(from, switches)| {
            let seconds = (self.last.0 - from) as f64 / 1e9;
            (seconds > 0.0).then(|| InterpreterLock {
                looks: self.looks,
                held_share: self.held as f64 / self.looks as f64,
                switches_per_s: self.last.1.wrapping_sub(switches) as f64 / seconds,
                waiting: self.waited as f64 / self.stacks.max(1) as f64,
            })
        });
        AskedRuntime {
            target: self.target.clone(),
            pid: self.interpreter.pid(),
            runtime: self.interpreter.language().runtime().to_owned(),
            asked: BTreeMap::from([("memory".to_owned(), self.looks)]),
            lock,
            ..AskedRuntime::default()
        }
    }
}
