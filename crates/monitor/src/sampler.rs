//! All sources of one observation, sampled together.
//!
//! [`Watch`](crate::Watch) calls [`Sampler::sample_now`] from its thread; a test, or a load that wants a
//! sample at a moment of its own, can call it directly. The surprise: every source is stamped with the
//! time just before it is read, not with the time of the whole sample, because on a saturated host the
//! sampler itself may wait for a CPU between two sources.

use crate::cgroup::Cgroups;
use crate::conntrack::Conntrack;
use crate::cpu::Cpu;
use crate::jvm::Jvm;
use crate::listen::Listen;
use crate::nic::Nic;
use crate::queues::Queues;
use crate::slab::Slab;
use crate::sockets::Sockets;
use crate::softirq::{Softirqs, Softnet};
use crate::tasks::Tasks;
use crate::tlb::Tlb;
use crate::tree::Members;
use crate::watch::{Cost, Observation, PART};
use crate::{MonitorError, Pass, Recorder, Source, WatchConfig, memory, pressure, tcp};
use linux::sock_diag::Diag;
use record::Nanos;
use std::sync::Arc;

/// The run's clock, in a form that can be handed to a thread.
pub type RunClock = Arc<dyn Fn() -> Nanos + Send + Sync>;

/// The sources, and what they have said so far.
pub struct Sampler {
    sources: Vec<Box<dyn Source>>,
    members: Members,
    clock: RunClock,
    out: Recorder,
    cost: Cost,
}

impl Sampler {
    /// All sources of `config`; nothing is read yet.
    pub fn new(config: &WatchConfig, clock: RunClock) -> Self {
        let root = &config.root;
        let members = Members::new(root, &config.targets, config.generator);
        let mut sources: Vec<Box<dyn Source>> = vec![
            Box::new(Tasks::new(
                root,
                &config.targets,
                config.generator,
                members.clone(),
                config.slow_interval,
            )),
            Box::new(Cpu::new(root)),
            Box::new(Softirqs::new(root)),
            Box::new(Softnet::new(root)),
            Box::new(Nic::new(root, config.devices.clone())),
            Box::new(Conntrack::new(root)),
        ];
        let fields = tcp::sources(root, &config.targets)
            .into_iter()
            .chain(memory::sources(root));
        for source in fields.chain(pressure::sources(root)) {
            sources.push(Box::new(source));
        }
        if !config.targets.is_empty() {
            sources.push(Box::new(Sockets::new(
                root,
                members.clone(),
                Diag::of(
                    root,
                    config.targets.iter().flat_map(|t| t.pids.iter().copied()),
                ),
                &config.listen,
                (config.slow_interval, config.budget * PART),
            )));
            let (slow, same) = (config.slow_interval, members.clone());
            sources.push(Box::new(Jvm::new(root, same, slow)));
            if config.extras.tlb {
                sources.push(Box::new(Tlb::new(root, members.clone(), slow)));
            }
            sources.push(Box::new(Cgroups::new(root, members.clone(), slow)));
        }
        if config.extras.slabs {
            sources.push(Box::new(Slab::new(root)));
        }
        if config.extras.queues {
            sources.push(Box::new(Queues::new(root, config.devices.clone())));
        }
        if !config.listen.is_empty() {
            sources.push(Box::new(Listen::new(
                root,
                &config.targets,
                config.listen.clone(),
            )));
        }
        Self {
            sources,
            members,
            clock,
            out: Recorder::default(),
            cost: Cost::default(),
        }
    }

    /// Takes one sample of all sources that are due in `pass`; the CPU time that it took, s, in a fast pass without
    /// sources that pace themselves.
    pub fn sample_now(&mut self, pass: Pass) -> f64 {
        let before = thread_cpu_s();
        let mut paced_s = 0.0;
        for source in &mut self.sources {
            if source.due(pass) {
                let paced = pass == Pass::Fast && source.paces_itself();
                let before = paced.then(thread_cpu_s);
                source.sample((self.clock)(), pass, &mut self.out);
                paced_s += before.map_or(0.0, |before| thread_cpu_s() - before);
            }
        }
        let took_s = thread_cpu_s() - before;
        self.cost.samples += 1;
        self.cost.cpu_s += took_s;
        took_s - paced_s
    }

    /// Notes what the samples were expected to take, as a share of one core.
    pub fn expect(&mut self, share: f64) {
        self.cost.expected_share = Some(share);
    }

    /// The targets' processes, for others that look at them.
    pub fn members(&self) -> Members {
        self.members.clone()
    }

    /// What was sampled so far.
    pub fn series(&self) -> &[record::Series] {
        self.out.all()
    }

    /// Forgets samples of before `at`, but for the last one of each series before it.
    pub fn forget_before(&mut self, at: Nanos) {
        self.out.forget_before(at);
    }

    /// Records a gap that the sampler's owner knows of.
    pub fn unavailable(&mut self, what: &str, error: &MonitorError) {
        self.out.unavailable(what, error);
    }

    /// What was seen.
    pub fn finish(mut self) -> Observation {
        for source in &mut self.sources {
            source.finish(&mut self.out);
        }
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
    linux::clock::thread_cpu_ns() as f64 / 1e9
}
