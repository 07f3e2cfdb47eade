//! Thread dumps through a window.
//!
//! In the flow: started with a trace of turns and ended with it; the texts are read afterwards. A dump stops all
//! threads for as long as it takes, so the next one comes a hundred times as long after it, within bounds. The
//! surprise: when in the time that an answer takes the threads were stopped is told by the trace, which sees the JVM's
//! own thread at it; on a full core, the question and the answer wait for the CPU as everybody does.

use super::{AttachError, Jvm, Said, THREADS, dump, foreign_ids};
use crate::turns::{TimeSamples, When};
use record::{AskedRuntime, ProbeCost, Unavailable};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Time between dumps in lengths of a dump: one per cent of the time at most is a stop.
const PAUSE: u64 = 100;
/// Between dumps at least and at most: so few dumps say little, and more say nothing more.
const LEAST_PAUSE_NS: u64 = 40_000_000;
const MOST_PAUSE_NS: u64 = 400_000_000;
/// Memory for the texts of a window.
const MOST_TEXT: usize = 64 << 20;
/// The golden ratio's fraction: pauses of all lengths, so that nothing periodic is always met or never.
const SPREAD: f64 = 0.618_033_988_749_894_9;

/// Dumps being taken. Dropping it ends them.
#[derive(Debug)]
pub struct Dumper {
    ended: Arc<AtomicBool>,
    taken: Arc<AtomicU64>,
    thread: Option<JoinHandle<Taken>>,
}

/// Texts of one JVM.
#[derive(Debug)]
struct OfJvm {
    target: String,
    jvm: Jvm,
    said: Vec<Said>,
    failed: Option<AttachError>,
}

#[derive(Debug, Default)]
struct Taken {
    of: Vec<OfJvm>,
    cpu_ns: u64,
}

/// What dumps brought.
#[derive(Debug, Default)]
pub struct Dumped {
    /// Where threads were.
    pub samples: TimeSamples,
    /// Whom it took to tell.
    pub asked: Vec<AskedRuntime>,
    pub cost: Option<ProbeCost>,
    /// The JVMs, to be asked again.
    pub jvms: Vec<(String, Jvm)>,
}

impl Dumper {
    /// Begins to take dumps of JVMs, each with its target's name.
    pub fn start(jvms: Vec<(String, Jvm)>) -> Self {
        let of = |(target, jvm)| OfJvm {
            target,
            jvm,
            said: Vec::new(),
            failed: None,
        };
        let taken = Taken {
            of: jvms.into_iter().map(of).collect(),
            cpu_ns: 0,
        };
        let ended = Arc::new(AtomicBool::new(false));
        let asked = Arc::clone(&ended);
        let count = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&count);
        let thread = std::thread::Builder::new()
            .name("dumps".to_owned())
            .spawn(move || take(taken, &asked, &counted));
        Self {
            ended,
            taken: count,
            thread: thread.ok(),
        }
    }

    /// Dumps until now.
    pub fn taken(&self) -> u64 {
        self.taken.load(Ordering::Acquire)
    }

    /// Nobody is left who answers.
    pub fn is_over(&self) -> bool {
        let thread = self.thread.as_ref();
        thread.is_none_or(JoinHandle::is_finished)
    }

    /// Ends them and reads what they say.
    pub fn end(mut self) -> Dumped {
        self.ended.store(true, Ordering::Release);
        if let Some(thread) = &self.thread {
            thread.thread().unpark();
        }
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(taken)) => taken.read(),
            Some(Err(_)) | None => Dumped {
                asked: vec![AskedRuntime {
                    runtime: "jvm".to_owned(),
                    unavailable: vec![Unavailable {
                        what: WHAT.to_owned(),
                        reason: "the thread that asks for dumps could not run".to_owned(),
                        remedy: "raise the limit of processes (ulimit -u) or free some memory"
                            .to_owned(),
                    }],
                    ..AskedRuntime::default()
                }],
                ..Dumped::default()
            },
        }
    }
}

impl Drop for Dumper {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Release);
    }
}

const WHAT: &str = "where the JVM's threads wait (thread dumps)";

fn take(mut taken: Taken, ended: &AtomicBool, count: &AtomicU64) -> Taken {
    let mut text = 0;
    let mut turn = 0.0_f64;
    while text < MOST_TEXT && taken.of.iter().any(|one| one.failed.is_none()) {
        let began = linux::clock::monotonic_ns();
        for one in taken.of.iter_mut().filter(|one| one.failed.is_none()) {
            match one.jvm.ask(THREADS) {
                Ok(said) => {
                    text += said.text.len();
                    one.said.push(said);
                    count.fetch_add(1, Ordering::AcqRel);
                }
                Err(error) => one.failed = Some(error),
            }
        }
        let took = linux::clock::monotonic_ns() - began;
        let pause = (PAUSE * took).clamp(LEAST_PAUSE_NS, MOST_PAUSE_NS);
        turn += SPREAD;
        let until = began + took + (pause as f64 * (0.5 + turn.fract())) as u64;
        loop {
            if ended.load(Ordering::Acquire) {
                taken.cpu_ns = linux::clock::thread_cpu_ns();
                return taken;
            }
            let now = linux::clock::monotonic_ns();
            if now >= until {
                break;
            }
            std::thread::park_timeout(Duration::from_nanos(until - now));
        }
    }
    taken.cpu_ns = linux::clock::thread_cpu_ns();
    taken
}

impl Taken {
    fn read(self) -> Dumped {
        let mut dumped = Dumped::default();
        let mut events = 0;
        for one in self.of {
            let took = |said: &Said| said.answered_ns - said.asked_ns;
            let ids = foreign_ids(one.jvm.pid());
            let own = |tid: u32| ids.get(&tid).copied().unwrap_or(tid);
            for said in &one.said {
                let when = When {
                    from_ns: said.asked_ns,
                    to_ns: said.answered_ns,
                    by: dump::stopper(&said.text).map_or(0, own),
                    all: true,
                };
                for (tid, told) in dump::told(&dump::parse(&said.text)) {
                    dumped.samples.add(own(tid), when, told);
                }
            }
            events += one.said.len() as u64;
            dumped.asked.push(AskedRuntime {
                target: one.target.clone(),
                pid: one.jvm.pid(),
                runtime: "jvm".to_owned(),
                asked: BTreeMap::from([(THREADS.to_owned(), one.said.len() as u64)]),
                longest_ns: one.said.iter().map(took).max().unwrap_or(0),
                lock: None,
                unavailable: (one.failed.iter())
                    .map(|error| error.unavailable(WHAT))
                    .collect(),
            });
            dumped.jvms.push((one.target, one.jvm));
        }
        dumped.cost = Some(ProbeCost {
            probe: "thread dumps".to_owned(),
            events,
            expected_share: None,
            measured_ns: Some(self.cpu_ns),
        });
        dumped
    }
}
