//! Runs chosen monitors on a process and its children, until its input ends or the time is over, and prints what they
//! themselves took. `bench/overhead.py` puts it beside a loaded server.
//!
//! `cargo run --release -p monitor --example watch -- PID [--listen ADDRESS] [--proc] [--profile HZ] [--off-cpu]
//! [--probes ebpf|perf_events|proc] [-d SECONDS]`
//!
//! It says `armed` when everything asked for runs. A monitor that cannot run ends it with the reason: what was asked
//! for is to be measured, not the next best.

#![allow(
    clippy::print_stdout,
    reason = "an example is a program, and its output is its purpose"
)]

use monitor::probe::{ProbeConfig, ProbeTarget, Probes};
use monitor::profile::{ProfileConfig, Profiled, Profiler};
use monitor::{Observation, Watch, WatchConfig, Watched};
use record::{Nanos, ProbeCost, ProfileKind, Tier, Unavailable};
use std::io::Read;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

fn main() -> ExitCode {
    match Asked::parse(std::env::args().skip(1)).and_then(|asked| run(&asked)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(cause) => {
            println!("{cause}");
            ExitCode::FAILURE
        }
    }
}

/// The flags.
struct Asked {
    pid: i32,
    listen: Vec<SocketAddr>,
    proc: bool,
    profile_hz: Option<u32>,
    off_cpu: bool,
    probes: Option<Tier>,
    time: Duration,
}

impl Asked {
    fn parse(mut args: impl Iterator<Item = String>) -> Result<Self, String> {
        let pid = args.next().and_then(|pid| pid.parse().ok());
        let mut asked = Self {
            pid: pid.ok_or("give a process id")?,
            listen: Vec::new(),
            proc: false,
            profile_hz: None,
            off_cpu: false,
            probes: None,
            time: Duration::from_secs(60),
        };
        while let Some(flag) = args.next() {
            let mut value = || args.next().ok_or(format!("{flag} needs a value"));
            match flag.as_str() {
                "--proc" => asked.proc = true,
                "--off-cpu" => asked.off_cpu = true,
                "--listen" => asked.listen.push(number(&value()?)?),
                "--profile" => asked.profile_hz = Some(number(&value()?)?),
                "--probes" => asked.probes = Some(tier(&value()?)?),
                "-d" => asked.time = Duration::from_secs_f64(number(&value()?)?),
                _ => return Err(format!("unknown flag {flag}")),
            }
        }
        Ok(asked)
    }

    fn target(&self) -> ProbeTarget {
        ProbeTarget {
            target: "server".to_owned(),
            pids: vec![self.pid],
            listens: self.listen.iter().map(SocketAddr::port).collect(),
            ..ProbeTarget::default()
        }
    }
}

fn number<T: std::str::FromStr<Err: std::fmt::Display>>(text: &str) -> Result<T, String> {
    text.parse().map_err(|e| format!("`{text}`: {e}"))
}

fn tier(text: &str) -> Result<Tier, String> {
    [Tier::Ebpf, Tier::PerfEvents, Tier::Proc]
        .into_iter()
        .find(|tier| tier.name() == text)
        .ok_or_else(|| format!("`{text}` is no tier"))
}

fn run(asked: &Asked) -> Result<(), String> {
    let watch = asked.proc.then(|| start_watch(asked));
    let on_cpu = asked.profile_hz.map(|hz| (ProfileKind::OnCpu, hz));
    let off_cpu = asked.off_cpu.then_some((ProfileKind::OffCpu, 0));
    let profilers = [on_cpu, off_cpu]
        .into_iter()
        .flatten()
        .map(|(kind, hz)| start_profiler(asked, kind, hz))
        .collect::<Result<Vec<Profiler>, String>>()?;
    let probes = asked.probes.map(|tier| arm(asked, tier)).transpose()?;
    println!("armed");
    wait_for_the_end(asked.time);
    if let Some(probes) = probes {
        let probed = probes.disarm();
        println!("probes: {} events lost", probed.lost);
        show(&probed.cost);
    }
    for profiled in profilers.into_iter().map(Profiler::stop) {
        show_profile(&profiled);
    }
    if let Some(observation) = watch.map(Watch::stop) {
        show_watch(&observation);
    }
    Ok(())
}

fn start_watch(asked: &Asked) -> Watch {
    let config = WatchConfig {
        targets: vec![Watched {
            target: "server".to_owned(),
            pids: vec![asked.pid],
        }],
        listen: asked.listen.clone(),
        ..WatchConfig::default()
    };
    let began = Instant::now();
    Watch::start(
        &config,
        Arc::new(move || Nanos(u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX))),
    )
}

fn start_profiler(asked: &Asked, kind: ProfileKind, hz: u32) -> Result<Profiler, String> {
    let config = ProfileConfig {
        targets: vec![asked.target()],
        kind,
        hz,
    };
    Profiler::start(&config).map_err(|gap| reason(&gap))
}

fn arm(asked: &Asked, tier: Tier) -> Result<Probes, String> {
    let probes = Probes::arm(&ProbeConfig {
        targets: vec![asked.target()],
        best_tier: tier,
        ..ProbeConfig::default()
    });
    if probes.tier() == tier {
        return Ok(probes);
    }
    let gaps = probes.disarm().unavailable;
    Err(gaps.iter().map(reason).collect::<Vec<_>>().join("; "))
}

fn reason(gap: &Unavailable) -> String {
    format!("{}: {}", gap.what, gap.reason)
}

/// Until the input ends, which is how a script says that it has seen enough; at most `time`.
fn wait_for_the_end(time: Duration) {
    let (alive, ended) = mpsc::channel::<()>();
    std::thread::spawn(move || {
        // Whatever is typed only prolongs it, and an input that cannot be read has ended.
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        drop(alive);
    });
    // Both outcomes, a time-out and an ended input, mean the same.
    let _ = ended.recv_timeout(time);
}

fn show_profile(profiled: &Profiled) {
    let profile = &profiled.profile;
    println!(
        "profile: {} samples, {} lost, {} unwound",
        profile.samples, profile.lost, profile.unwound
    );
    show(std::slice::from_ref(&profiled.cost));
}

fn show_watch(observation: &Observation) {
    println!(
        "proc: {} samples of {} series took {:.2} ms",
        observation.cost.samples,
        observation.series.len(),
        observation.cost.cpu_s * 1e3
    );
}

fn show(costs: &[ProbeCost]) {
    for cost in costs {
        let taken = cost.measured_ns.map_or_else(
            || "unknown".to_owned(),
            |ns| format!("{:.2} ms", ns as f64 / 1e6),
        );
        println!("{}: {} events took {taken}", cost.probe, cost.events);
    }
}
