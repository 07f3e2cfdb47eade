//! All sources of one observation, sampled together.
//!
//! [`Watch`](crate::Watch) calls [`Sampler::sample_now`] from its thread; a test, or a load that wants a
//! sample at a moment of its own, can call it directly. The surprise: every source is stamped with the
//! time just before it is read, not with the time of the whole sample, because on a saturated host the
//! sampler itself may wait for a CPU between two sources.

use crate::cpu::Cpu;
use crate::listen::Listen;
use crate::nic::Nic;
use crate::softirq::{Softirqs, Softnet};
use crate::tasks::Tasks;
use crate::watch::{Cost, Observation};
use crate::{MonitorError, Pass, Recorder, Source, WatchConfig, memory, pressure, tcp};
use record::Nanos;
use std::sync::Arc;

/// The run's clock, in a form that can be handed to a thread.
pub type RunClock = Arc<dyn Fn() -> Nanos + Send + Sync>;

/// The sources, and what they have said so far.
pub struct Sampler {
    sources: Vec<Box<dyn Source>>,
    clock: RunClock,
    out: Recorder,
    cost: Cost,
}

impl Sampler {
    /// All sources of `config`; nothing is read yet.
    pub fn new(config: &WatchConfig, clock: RunClock) -> Self {
        let root = &config.root;
        let mut sources: Vec<Box<dyn Source>> = vec![
            Box::new(Tasks::new(
                root,
                &config.targets,
                config.generator,
                config.slow_interval,
            )),
            Box::new(Cpu::new(root)),
            Box::new(Softirqs::new(root)),
            Box::new(Softnet::new(root)),
            Box::new(Nic::new(root, config.devices.clone())),
        ];
        let fields = tcp::sources(root).into_iter().chain(memory::sources(root));
        for source in fields.chain(pressure::sources(root)) {
            sources.push(Box::new(source));
        }
        if !config.listen.is_empty() {
            sources.push(Box::new(Listen::new(config.listen.clone())));
        }
        Self {
            sources,
            clock,
            out: Recorder::default(),
            cost: Cost::default(),
        }
    }

    /// Takes one sample of all sources that are due in `pass`.
    pub fn sample_now(&mut self, pass: Pass) {
        let before = thread_cpu_s();
        for source in &mut self.sources {
            if source.due(pass) {
                source.sample((self.clock)(), pass, &mut self.out);
            }
        }
        self.cost.samples += 1;
        self.cost.cpu_s += thread_cpu_s() - before;
    }

    /// Records a gap that the sampler's owner knows of.
    pub fn unavailable(&mut self, what: &str, error: &MonitorError) {
        self.out.unavailable(what, error);
    }

    /// What was seen.
    pub fn finish(self) -> Observation {
        let (series, unavailable) = self.out.finish();
        Observation {
            series,
            unavailable,
            cost: self.cost,
        }
    }
}

/// CPU time of the calling thread, s.
fn thread_cpu_s() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}
