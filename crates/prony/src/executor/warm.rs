//! A runtime that compiles while it serves is loaded until it has done that, before anything is measured of it.
//!
//! The surprise: a JVM that shares one core with its compiler is warm after four to ten seconds of full load, in which
//! a third of the core makes code. What is measured then is of a server that nobody runs for long, and what
//! limits it later is hidden. So the load goes on until little is compiled; where that does not end, it is said. Of
//! traffic that is there nothing is watched for a moment (`live`).

use super::examine::{CpuTimes, Examiner, pids};
use crate::exit::Failure;
use monitor::thread::parse_schedstat;
use record::{LoadSpec, Nanos, Server, Warming, Warning};
use std::collections::BTreeMap;
use std::fs::{read_dir, read_to_string};

/// Loads in turn.
const STEP: Nanos = Nanos::SECOND;
/// What is not warm by then has no room for its code, or makes it anew.
const MOST: Nanos = Nanos::from_secs(10);
/// Share of the servers' CPU time below which what a runtime compiles hides nothing.
const LITTLE: f64 = 0.1;
/// Cores that a runtime compiles on below which a server that is hardly at work is not held up.
const LITTLE_CORES: f64 = 0.05;

impl Examiner<'_> {
    /// Loads servers until their runtimes compile little. `None` where no thread of theirs compiles.
    ///
    /// # Errors
    /// [`Failure`] when a load cannot start.
    pub(super) fn warm(&mut self, servers: &mut Vec<Server>) -> Result<Option<Warming>, Failure> {
        let step = LoadSpec {
            warmup: Nanos(0),
            requests: None,
            duration: Some(STEP),
            ..self.spec.steady()
        };
        let before = self.progress.prefix("warming, as its runtime compiles: ");
        let warming = until_little_is_compiled(servers, (STEP, MOST), |servers| {
            self.drive_and_see(&step, servers)?;
            Ok(!(self.interrupted)())
        });
        self.progress.prefix(&before);
        warming
    }
}

/// Lets steps of a time pass, as long as `pass` says to go on and up to the second time in all, until runtimes of the
/// servers compile little. `None` where no thread of theirs compiles.
///
/// # Errors
/// As `pass` has them.
pub(super) fn until_little_is_compiled<E>(
    servers: &mut Vec<Server>,
    (step, most): (Nanos, Nanos),
    mut pass: impl FnMut(&mut Vec<Server>) -> Result<bool, E>,
) -> Result<Option<Warming>, E> {
    let mut began = CompileTimes::of(servers);
    if began.compilers.is_empty() {
        return Ok(None);
    }
    let mut warming = Warming::default();
    while warming.loaded_ns < most.0 {
        let goes_on = pass(servers)?;
        let ended = CompileTimes::of(servers);
        warming.loaded_ns += step.0;
        warming.compiling_share = began.share(&ended);
        let cores = began.compiled_ns(&ended) as f64 / step.0 as f64;
        if warming.compiling_share < LITTLE || cores < LITTLE_CORES || !goes_on {
            break;
        }
        began = ended;
    }
    Ok(Some(warming))
}

/// Whether a thread of the servers compiles code while they serve.
pub(super) fn compiles(servers: &[Server]) -> bool {
    let mut pids = servers.iter().flat_map(pids);
    pids.any(|pid| !compilers(pid).is_empty())
}

/// That servers are still not warm.
pub(super) fn not_warm(warming: &Warming) -> Option<Warning> {
    let share = warming.compiling_share;
    let went_on = warming.loaded_ns >= MOST.0;
    (share >= LITTLE && went_on).then(|| {
        Warning::new(
            "not_warm",
            format!(
                "after {:.0} s of load the server's runtime still took {:.0} % of its CPU time for compiling code",
                warming.loaded_ns as f64 / 1e9,
                share * 100.0
            ),
            "load it for longer (`prony load URL -d 60s`) and repeat; where the share stays, its cache of compiled code is \
             too small (JVM: `jcmd PID Compiler.codecache`) or code is made anew all the time",
        )
    })
}

/// CPU time that servers had taken at a moment, ns.
struct CompileTimes {
    /// Of threads that compile, by id.
    compilers: BTreeMap<i32, u64>,
    /// Of processes with all their threads.
    processes: CpuTimes,
}

impl CompileTimes {
    fn of(servers: &[Server]) -> Self {
        let pids = servers.iter().flat_map(pids);
        Self {
            compilers: pids.flat_map(compilers).collect(),
            processes: CpuTimes::of(servers),
        }
    }

    /// The share of compiling in the CPU time until `later`; 0 where nothing ran.
    fn share(&self, later: &Self) -> f64 {
        let all = grown(&self.processes.of, &later.processes.of).max(1);
        self.compiled_ns(later) as f64 / all as f64
    }

    fn compiled_ns(&self, later: &Self) -> u64 {
        grown(&self.compilers, &later.compilers)
    }
}

/// By how much times have grown, of which some were not there before.
fn grown(before: &BTreeMap<i32, u64>, after: &BTreeMap<i32, u64>) -> u64 {
    let grown = |(id, ns): (&i32, &u64)| ns.saturating_sub(*before.get(id).unwrap_or(&0));
    after.iter().map(grown).sum()
}

/// Threads of a process that compile, with the CPU time that each has taken, ns.
fn compilers(pid: i32) -> Vec<(i32, u64)> {
    let Ok(tasks) = read_dir(format!("/proc/{pid}/task")) else {
        return Vec::new();
    };
    let tids = tasks.filter_map(|task| task.ok()?.file_name().to_str()?.parse().ok());
    tids.filter_map(|tid: i32| {
        let read = |file: &str| read_to_string(format!("/proc/{pid}/task/{tid}/{file}")).ok();
        if !analysis::compiles_code(read("comm")?.trim_end()) {
            return None;
        }
        let [run_s, _] = parse_schedstat(&read("schedstat")?)?;
        Some((tid, (run_s * 1e9) as u64))
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    fn this_process() -> Vec<Server> {
        let pid = std::process::id() as i32;
        vec![sut::discover::of_pids(&[pid], "server")]
    }

    #[test]
    fn what_a_compiler_thread_takes_is_a_part_of_its_process() {
        let before = CompileTimes::of(&this_process());
        let ends = AtomicBool::new(false);
        let spin = || {
            while !ends.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        };
        std::thread::scope(|scope| {
            for name in ["C2 CompilerThread0", "worker"] {
                let named = std::thread::Builder::new().name(name.to_owned());
                named.spawn_scoped(scope, spin).unwrap();
            }
            let share = || before.share(&CompileTimes::of(&this_process()));
            while !(0.02..0.98).contains(&share()) {
                std::thread::yield_now();
            }
            ends.store(true, Ordering::Relaxed);
        });
    }

    #[test]
    fn only_what_goes_on_compiling_is_warned_of() {
        let after = |compiling_share| Warming {
            loaded_ns: MOST.0,
            compiling_share,
        };
        assert_eq!(not_warm(&after(0.03)), None);
        let warning = not_warm(&after(0.27)).unwrap();
        assert!(warning.seen.contains("after 10 s") && warning.seen.contains("27 %"));
    }
}
