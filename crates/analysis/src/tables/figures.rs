//! What each figure is made of, from one trial.
//!
//! Shares are of the cores that the loaded target is pinned to (of all cores, where it is not pinned), so they hold
//! what the kernel did there for others as well: on loopback the softirq work of the answer's way back.

use super::trial::Trial;
use crate::stats::share;
use plan::Figure;
use record::{Interval, Nanos};

/// Modes of a core that are not work.
const IDLE: [&str; 2] = ["idle", "iowait"];
/// Work in the kernel that is no interrupt.
const KERNEL: [&str; 1] = ["system"];
/// A slice shorter than this has too few answers for a rate.
const SHORTEST_SLICE: Nanos = Nanos::from_millis(50);
/// Names of the calls that free.
const FREES: [&str; 3] = ["free", "cfree", "free_sized"];

/// The figure of a trial; `None` when it was not measured.
pub(super) fn of(trial: &Trial<'_>, figure: Figure) -> Option<f64> {
    use Figure as F;
    let analysis = trial.analysis;
    let per_request = |value: Option<f64>| share(value?, trial.completed()?);
    match figure {
        F::Rate => analysis.achieved_per_s,
        F::PeakRate => peak_rate(trial),
        F::ConnectionRate => share(analysis.achieved_per_s?, requests_per_connection(trial)?),
        F::ReceivedBits => received_bits(trial),
        F::ResponseMean
        | F::ResponseP50
        | F::ResponseP75
        | F::ResponseP90
        | F::ResponseP95
        | F::ResponseP99
        | F::ResponseP999
        | F::ResponseMax => response(trial, figure),
        F::ErrorShare => analysis.error_share,
        F::ServerUser => mode(trial, &["user", "nice"]),
        F::ServerSystem => mode(trial, &KERNEL),
        F::ServerSoftirq => mode(trial, &["softirq", "irq"]),
        F::ServerIdle => mode(trial, &IDLE),
        F::GeneratorUser => generator(trial, true),
        F::GeneratorSystem => generator(trial, false),
        F::ServerCpuPerRequest => analysis.target_cpu_us_per_request,
        F::ServerUserPerRequest => mode_us_per_request(trial, &["user", "nice"]),
        F::ServerSystemPerRequest => mode_us_per_request(trial, &KERNEL),
        F::ServerSoftirqPerRequest => mode_us_per_request(trial, &["softirq", "irq"]),
        F::ServerCpuPerConnection => share(busy_cores(trial)? * 1e6, of(trial, F::ConnectionRate)?),
        F::ServerCoresPerGbit => share(busy_cores(trial)?, received_bits(trial)? / 1e9),
        F::GeneratorCpuPerRequest => analysis.generator_cpu_us_per_request,
        F::AllocationsPerRequest => allocator_calls(trial, |call| !FREES.contains(&call)),
        F::FreesPerRequest => allocator_calls(trial, |call| FREES.contains(&call)),
        F::CallsPerRequest => {
            let (target, requests) = trial.target_signature(None)?;
            let calls: u64 = target.calls.as_ref()?.iter().map(|c| c.calls).sum();
            share(calls as f64, requests)
        }
        F::MinorFaultsPerRequest => per_request(trial.grown("process.minor_faults")),
        F::Rss => {
            let target = trial.target(None)?;
            trial.largest("process.rss_bytes", |s| {
                s.label("target") == Some(&target.name)
            })
        }
        F::TcpMemory => trial.largest("tcp.memory_bytes", |_| true),
        F::TcpSlabs => trial.largest("slab.tcp_bytes", |_| true),
        F::TcpBytesPerConnection => {
            let bytes =
                trial.above_start("tcp.memory_bytes")? + trial.above_start("slab.tcp_bytes")?;
            share(bytes, f64::from(trial.outcome()?.connections.peak_open))
        }
        F::ConnectionsPeak => Some(f64::from(trial.outcome()?.connections.peak_open)),
        F::SegmentsPerRequest => per_request(trial.grown("tcp.out_segs")),
        F::RetransmitShare => share(
            trial.grown("tcp.retrans_segs")?,
            trial.grown("tcp.out_segs")?,
        ),
        F::TlbLoadsPerRequest => per_request(trial.grown("tlb.loads")),
        F::TlbMissesPerRequest => per_request(trial.grown("tlb.misses")),
        F::WorkerImbalance => {
            let shares = super::workers::Shares::of(trial, None)?;
            Some(shares.largest() * shares.values.len() as f64)
        }
    }
}

fn requests_per_connection(trial: &Trial<'_>) -> Option<f64> {
    trial.record.load.requests_per_connection.map(|n| n as f64)
}

fn received_bits(trial: &Trial<'_>) -> Option<f64> {
    share(
        trial.outcome()?.received_bytes as f64 * 8.0,
        trial.seconds()?,
    )
}

fn peak_rate(trial: &Trial<'_>) -> Option<f64> {
    let outcome = trial.outcome()?;
    let is_measured = |i: &&Interval| {
        i.from >= outcome.measured_from
            && i.to <= outcome.measured_to
            && i.to.since(i.from) >= SHORTEST_SLICE
    };
    let slices = outcome.intervals.iter().filter(is_measured);
    let rate = |i: &Interval| i.succeeded as f64 / i.to.since(i.from).as_secs_f64();
    slices.map(rate).reduce(f64::max)
}

fn response(trial: &Trial<'_>, figure: Figure) -> Option<f64> {
    let times = trial.analysis.response_ns?;
    let ns = match figure {
        Figure::ResponseMean => return Some(times.mean),
        Figure::ResponseP50 => times.p50,
        Figure::ResponseP75 => times.p75,
        Figure::ResponseP90 => times.p90,
        Figure::ResponseP95 => times.p95,
        Figure::ResponseP99 => times.p99,
        Figure::ResponseP999 => times.p999,
        Figure::ResponseMax => times.max,
        _ => return None,
    };
    Some(ns as f64)
}

/// Share of the server's cores in these modes.
fn mode(trial: &Trial<'_>, modes: &[&str]) -> Option<f64> {
    let (sum, cores) = trial.server_cores()?;
    share(modes.iter().filter_map(|m| sum.get(*m)).sum(), cores)
}

/// The server's cores that were busy, as a number of cores.
fn busy_cores(trial: &Trial<'_>) -> Option<f64> {
    let (sum, cores) = trial.server_cores()?;
    Some(cores - IDLE.iter().filter_map(|m| sum.get(*m)).sum::<f64>())
}

fn mode_us_per_request(trial: &Trial<'_>, modes: &[&str]) -> Option<f64> {
    let (_, cores) = trial.server_cores()?;
    let seconds = mode(trial, modes)? * cores * trial.seconds()?;
    share(seconds * 1e6, trial.completed()?)
}

/// Share of the load threads' time.
fn generator(trial: &Trial<'_>, user: bool) -> Option<f64> {
    let threads = &trial.outcome()?.generator.threads;
    let spent = |t: &record::ThreadCost| match user {
        true => t.cpu_user_ns.saturating_sub(t.spin_ns),
        false => t.cpu_system_ns,
    };
    let wall: u64 = threads.iter().map(|t| t.wall_ns).sum();
    share(threads.iter().map(spent).sum::<u64>() as f64, wall as f64)
}

fn allocator_calls(trial: &Trial<'_>, keep: impl Fn(&str) -> bool) -> Option<f64> {
    let (target, requests) = trial.target_signature(None)?;
    let calls = &target.allocator.as_ref()?.calls;
    let kept = calls.iter().filter(|(call, _)| keep(call)).map(|(_, n)| n);
    share(kept.sum::<u64>() as f64, requests)
}

/// Where the record says why a figure could not be had.
fn gap_of(figure: Figure) -> Option<&'static str> {
    Some(match figure {
        Figure::TlbLoadsPerRequest | Figure::TlbMissesPerRequest => "tlb",
        Figure::TcpSlabs | Figure::TcpBytesPerConnection => "slab",
        Figure::AllocationsPerRequest | Figure::FreesPerRequest => "allocator",
        Figure::CallsPerRequest => "syscalls",
        _ => return None,
    })
}

/// A note for each reason why figures are nowhere in the table.
pub(super) fn why_absent(absent: &[Figure], trials: &[Trial<'_>]) -> Vec<String> {
    let mut notes: Vec<(String, Vec<&str>)> = Vec::new();
    for figure in absent {
        let why = why(*figure, trials);
        match notes.iter_mut().find(|(reason, _)| *reason == why) {
            Some((_, heads)) => heads.push(figure.head()),
            None => notes.push((why, vec![figure.head()])),
        }
    }
    let note = |(why, heads): (String, Vec<&str>)| format!("{}: {why}", heads.join(", "));
    notes.into_iter().map(note).collect()
}

fn why(figure: Figure, trials: &[Trial<'_>]) -> String {
    let gap = gap_of(figure).and_then(|what| {
        let of_run = trials.iter().flat_map(|t| &t.record.unavailable);
        let of_probes = trials.iter().filter_map(Trial::signature);
        let mut all = of_run.chain(of_probes.flat_map(|s| &s.unavailable));
        all.find(|gap| gap.what.starts_with(what))
    });
    match gap {
        Some(gap) => format!("not measured: {}", gap.reason),
        None if figure == Figure::ConnectionRate || figure == Figure::ServerCpuPerConnection => {
            "the connections carry no fixed number of requests".to_owned()
        }
        None if !figure.is_timed() => "not counted: no trial was examined with probes".to_owned(),
        None => "not measured".to_owned(),
    }
}
