//! The probes of the signature pass: what a target does, counted while a fixed number of requests runs.
//!
//! In the flow: armed before a short load and disarmed after it, never during a timed load, because they
//! slow the target. What comes back are totals per target, to be divided by the requests.
//!
//! The surprise: arming never fails. What the best tier cannot have, a lower one gives, and what none can
//! see is a [`Unavailable`] with its reason, in a field that is `None` and not zero.

mod allocator;
mod asked;
pub(crate) mod calls;
mod collect;
pub(crate) mod ebpf;
pub(crate) mod error;
mod heads;
pub(crate) mod kernel;
mod layout;
mod perf;
pub(crate) mod proc;

use linux::Root;
use record::{ProbeCost, TargetSignature, Tier, Unavailable};

/// Processes that are probed together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProbeTarget {
    /// Its name in the record.
    pub target: String,
    /// Its processes; their children are followed.
    pub pids: Vec<i32>,
    /// TCP ports that it listens on: connections to them are its clients'.
    pub listens: Vec<u16>,
    /// Those of `pids` that are clients of the others, and do what these are asked for: consumers of a broker.
    pub consumers: Vec<i32>,
}

/// What to probe and how.
#[derive(Clone, Debug)]
pub struct ProbeConfig {
    pub targets: Vec<ProbeTarget>,
    /// The best tier to try.
    pub best_tier: Tier,
    /// Count the calls of memory allocators, which costs a trap for each of them.
    pub allocator: bool,
    /// Where `/proc` is; only the live root can be probed above [`Tier::Proc`].
    pub root: Root,
}

impl Default for ProbeConfig {
    /// No target, every tier, the live root.
    fn default() -> Self {
        Self {
            targets: Vec::new(),
            best_tier: Tier::Ebpf,
            allocator: true,
            root: Root::default(),
        }
    }
}

/// Armed probes. Dropping them, like the end of the process, leaves nothing in the kernel.
#[derive(Debug)]
pub struct Probes {
    armed: Armed,
    /// Why better tiers are not in use.
    refused: Vec<Unavailable>,
}

#[derive(Debug)]
enum Armed {
    Ebpf(Box<ebpf::EbpfProbes>),
    Perf(Box<perf::PerfProbes>),
    Proc(proc::ProcProbes),
}

/// What the probes counted.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Probed {
    /// Tier that was in use.
    pub tier: Tier,
    /// Totals, in the order of [`ProbeConfig::targets`].
    pub targets: Vec<TargetSignature>,
    /// What could not be seen.
    pub unavailable: Vec<Unavailable>,
    /// Events that were lost; the counts are too low by up to so many.
    pub lost: u64,
    /// Time between arming and disarming, ns.
    pub window_ns: u64,
    /// What each probe took.
    pub cost: Vec<ProbeCost>,
}

impl Probes {
    /// Arms the best tier that the system allows. What was refused, and why, is in [`Probed::unavailable`].
    pub fn arm(config: &ProbeConfig) -> Probes {
        let mut refused = Vec::new();
        if config.best_tier >= Tier::Ebpf {
            match ebpf::EbpfProbes::arm(config) {
                Ok(probes) => {
                    let armed = Armed::Ebpf(Box::new(probes));
                    return Probes { armed, refused };
                }
                Err(reason) => refused.push(reason),
            }
        }
        if config.best_tier >= Tier::PerfEvents {
            match perf::PerfProbes::arm(config) {
                Ok(probes) => {
                    let armed = Armed::Perf(Box::new(probes));
                    return Probes { armed, refused };
                }
                Err(reason) => refused.push(reason),
            }
        }
        let armed = Armed::Proc(proc::ProcProbes::arm(config));
        Probes { armed, refused }
    }

    /// The tier in use.
    pub fn tier(&self) -> Tier {
        match self.armed {
            Armed::Ebpf(_) => Tier::Ebpf,
            Armed::Perf(_) => Tier::PerfEvents,
            Armed::Proc(_) => Tier::Proc,
        }
    }

    /// CPU time that the probes have taken so far, ns; `None` where the kernel keeps no account of it.
    pub fn spent_ns(&self) -> Option<u64> {
        match &self.armed {
            Armed::Ebpf(probes) => probes.spent_ns(),
            Armed::Perf(_) | Armed::Proc(_) => None,
        }
    }

    /// Requests that the first target has taken so far; `None` where they are not counted.
    pub fn requests_taken(&self) -> Option<u64> {
        match &self.armed {
            Armed::Ebpf(probes) => probes.requests_taken(),
            Armed::Perf(_) | Armed::Proc(_) => None,
        }
    }

    /// Takes the probes away and returns what they counted.
    pub fn disarm(self) -> Probed {
        let mut probed = match self.armed {
            Armed::Ebpf(probes) => probes.disarm(),
            Armed::Perf(probes) => probes.disarm(),
            Armed::Proc(probes) => probes.disarm(),
        };
        let mut unavailable = self.refused;
        unavailable.append(&mut probed.unavailable);
        probed.unavailable = unavailable;
        probed
    }
}
