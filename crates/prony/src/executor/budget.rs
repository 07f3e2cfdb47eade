//! What watching may take of the host's CPU, what it took, and how long the next pass may be.
//!
//! The budget is a share of all CPUs over the time of the watch. Three things take CPU: prony's own threads, BPF
//! programs, and stack samples that the kernel copies. The first is read from the process' clock, the second from the
//! kernel's account of the programs; of the third nobody keeps an account: the number of records times what one costs.
//! The surprise: what a pass will cost is known only when it runs, so passes are not planned but ended when they have
//! taken their part.

use monitor::profile::SAMPLE_NS;
use record::{Nanos, Overhead, OverheadPart};

/// Share of the budget that the samples of /proc and sock_diag may take.
const MONITORS: f64 = 0.3;
/// Share that the on-CPU profile may take.
const ON_CPU: f64 = 0.25;
/// Share that looking at goroutines may take.
const TASKS: f64 = 0.2;
/// A shorter pass takes no larger share of a core than this one.
const SHORTEST_S: f64 = 0.25;

/// The budget and what was taken of it.
#[derive(Clone, Debug)]
pub struct Budget {
    share: f64,
    cpus: u32,
    began: Nanos,
    /// CPU time of this process when the watch began, ns.
    process_began_ns: u64,
    probes_ns: u64,
    samples_ns: u64,
    held_by: Vec<String>,
}

impl Budget {
    /// A budget of `share` of `cpus` CPUs, from now on. `process_ns` is the CPU time of this process.
    pub fn new(share: f64, cpus: u32, now: Nanos, process_ns: u64) -> Self {
        Self {
            share,
            cpus: cpus.max(1),
            began: now,
            process_began_ns: process_ns,
            probes_ns: 0,
            samples_ns: 0,
            held_by: Vec::new(),
        }
    }

    /// CPUs that may be taken, as a number of cores.
    fn cores(&self) -> f64 {
        self.share * f64::from(self.cpus)
    }

    /// Share of one core that the monitors may take.
    pub fn monitors(&self) -> f64 {
        self.cores() * MONITORS
    }

    /// Share of one core that looking at goroutines may take for `time` from now on. They are looked at in no other
    /// part of the watch: their share of all of it is spent there.
    pub fn tasks(&self, now: Nanos, time: Nanos) -> f64 {
        let whole = (now.since(self.began) + time).as_secs_f64();
        self.cores() * TASKS * whole / time.as_secs_f64().max(SHORTEST_S)
    }

    /// Samples per second and CPU of an on-CPU profile that takes its part, at most `wanted`.
    pub fn on_cpu_hz(&mut self, wanted: u32) -> u32 {
        let most = (self.share * ON_CPU / SAMPLE_NS * 1e9) as u32;
        let hz = wanted.min(most).max(1);
        if hz < wanted {
            self.note(format!(
                "{hz} stack samples a second and CPU instead of {wanted}"
            ));
        }
        hz
    }

    /// Switches per second and CPU of which an off-CPU profile over `time` takes the stack, so that it takes no more
    /// than is left; `None` when nothing is.
    pub fn off_cpu_hz(&mut self, left_ns: u64, time: Nanos) -> Option<u32> {
        let samples = left_ns as f64 / SAMPLE_NS;
        let hz = samples / time.as_secs_f64() / f64::from(self.cpus);
        if hz < 1.0 {
            self.note("no stacks of waits: the budget was spent".to_owned());
            return None;
        }
        Some(hz.min(f64::from(u32::MAX)) as u32)
    }

    /// The probes took this much.
    pub fn add_probes(&mut self, ns: u64) {
        self.probes_ns += ns;
    }

    /// The kernel's samples took this much.
    pub fn add_samples(&mut self, ns: u64) {
        self.samples_ns += ns;
    }

    /// What was done to hold the budget.
    pub fn note(&mut self, what: String) {
        if !self.held_by.contains(&what) {
            self.held_by.push(what);
        }
    }

    /// What was taken so far, ns.
    fn spent_ns(&self, process_ns: u64) -> u64 {
        process_ns.saturating_sub(self.process_began_ns) + self.probes_ns + self.samples_ns
    }

    /// What may still be taken of a watch that ends at `end`, ns.
    pub fn left_ns(&self, end: Nanos, process_ns: u64) -> u64 {
        let whole = self.cores() * end.since(self.began).0 as f64;
        (whole as u64).saturating_sub(self.spent_ns(process_ns))
    }

    /// What a pass of this length may take in any case, ns: its own time's worth. To load probes takes the same however
    /// long they are armed; on a small host that alone is more than a short watch may take, and probes that were paid
    /// for and see nothing would be no use to anybody.
    pub fn of_pass_ns(&self, time: Nanos) -> u64 {
        (self.cores() * time.0 as f64) as u64
    }

    /// What was taken until `now`, for the record.
    pub fn overhead(&self, now: Nanos, process_ns: u64) -> Overhead {
        let elapsed_ns = now.since(self.began).0;
        let whole = elapsed_ns as f64 * f64::from(self.cpus);
        let share = match elapsed_ns {
            0 => 0.0,
            _ => self.spent_ns(process_ns) as f64 / whole,
        };
        let part = |what: &str, cpu_ns: u64, known: &str| OverheadPart {
            what: what.to_owned(),
            cpu_ns,
            known: known.to_owned(),
        };
        let own = process_ns.saturating_sub(self.process_began_ns);
        Overhead {
            budget: self.share,
            share,
            cpus: self.cpus,
            elapsed_ns,
            parts: vec![
                part("process", own, "measured"),
                part("probes", self.probes_ns, "measured"),
                part("samples", self.samples_ns, "estimated"),
            ],
            afterwards_ns: 0,
            held_by: self.held_by.clone(),
        }
    }
}

/// `took 0.4 % of this host's 2 CPUs (budget 1 %): own threads 0.2 %, probes 0.1 %, stack samples 0.1 %; ...`.
pub fn overhead_text(overhead: &Overhead) -> String {
    let whole = overhead.elapsed_ns as f64 * f64::from(overhead.cpus);
    let percent = |share: f64| format!("{:.2} %", share * 1e2);
    let of_host = |ns: u64| percent(ns as f64 / whole.max(1.0));
    let words = |what: &str| match what {
        "process" => "own threads",
        "probes" => "probes in the kernel",
        _ => "stack samples",
    };
    let parts: Vec<String> = overhead
        .parts
        .iter()
        .map(|part| format!("{} {}", words(&part.what), of_host(part.cpu_ns)))
        .collect();
    let mut text = format!(
        "watching took {} of this host's {} CPUs over {} (budget {}): {}",
        percent(overhead.share),
        overhead.cpus,
        Nanos(overhead.elapsed_ns),
        percent(overhead.budget),
        parts.join(", ")
    );
    if !overhead.held_by.is_empty() {
        text += &format!("; held by {}", overhead.held_by.join(", "));
    }
    if overhead.share > overhead.budget {
        text += "; more than the budget, because to load the probes takes the same however short the watch is \
                 (a longer one, -d or --for, spreads it)";
    }
    if overhead.afterwards_ns > 0 {
        let after = Nanos(overhead.afterwards_ns);
        text += &format!("; then {after} of CPU to follow and name the stacks");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn budget() -> Budget {
        // 1 % of 4 CPUs; the process had used 5 s before.
        Budget::new(0.01, 4, Nanos::from_secs(100), 5 * SECOND)
    }

    #[test]
    fn what_is_left_is_what_was_not_taken() {
        let mut budget = budget();
        let end = Nanos::from_secs(110);
        // 10 s x 4 CPUs x 1 %.
        assert_eq!(budget.left_ns(end, 5 * SECOND), 400_000_000);
        budget.add_probes(100_000_000);
        budget.add_samples(13_000_000);
        assert_eq!(budget.left_ns(end, 5 * SECOND), 287_000_000);
        assert_eq!(budget.left_ns(end, 6 * SECOND), 0, "never below zero");
        // A pass of half a second may take its own time's worth whatever was spent before.
        assert_eq!(budget.of_pass_ns(Nanos::from_millis(500)), 20_000_000);
        let overhead = budget.overhead(end, 5 * SECOND + 50_000_000);
        let sum: u64 = overhead.parts.iter().map(|p| p.cpu_ns).sum();
        assert_eq!(sum, 163_000_000);
        assert!((overhead.share - 0.163 / 40.0).abs() < 1e-9, "{overhead:?}");
    }

    #[test]
    fn goroutines_have_their_part_of_the_whole_watch() {
        let budget = budget();
        let now = Nanos::from_secs(104);
        // A fifth of 4 % of a core for 4 s that are over and the one to come, in that one.
        let share = budget.tasks(now, Nanos::from_secs(1));
        assert!((share - 0.04).abs() < 1e-9, "{share}");
        assert!(budget.tasks(now, Nanos::from_millis(1)) < 0.14);
    }

    #[test]
    fn rates_of_samples_follow_the_budget() {
        let mut budget = budget();
        // 0.25 % of a CPU / 13 us = 192 a second.
        assert_eq!(budget.on_cpu_hz(99), 99);
        assert!(budget.held_by.is_empty());
        assert_eq!(budget.on_cpu_hz(1_000), 192);
        assert_eq!(budget.held_by.len(), 1);
        // 52 ms for stacks over half a second on 4 CPUs: 4,000 stacks.
        let time = Nanos::from_millis(500);
        assert_eq!(budget.off_cpu_hz(52_000_000, time), Some(2_000));
        assert_eq!(budget.off_cpu_hz(10_000, time), None);
        let mut small = Budget::new(0.000_01, 1, Nanos(0), 0);
        assert_eq!(small.on_cpu_hz(199), 1);
    }

    #[test]
    fn nothing_elapsed_is_nothing_taken() {
        let overhead = budget().overhead(Nanos::from_secs(100), 5 * SECOND);
        assert_eq!(overhead.share, 0.0);
        assert!(overhead_text(&overhead).contains("0.00 %"));
    }
}
