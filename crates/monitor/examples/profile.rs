//! Profiles a process and its children, and prints the heaviest stacks.
//!
//! `cargo run -p monitor --example profile -- PID [-d SECONDS] [-F HZ] [-n STACKS] [--off]`

#![allow(
    clippy::print_stdout,
    reason = "an example is a program, and its output is its purpose"
)]

use monitor::probe::ProbeTarget;
use monitor::profile::{ProfileConfig, Profiled, Profiler};
use record::ProfileKind;
use std::time::{Duration, Instant};

fn main() {
    if let Err(cause) = run(std::env::args().skip(1)) {
        println!("{cause}");
    }
}

fn run(mut args: impl Iterator<Item = String>) -> Result<(), String> {
    let pid = args.next().and_then(|pid| pid.parse().ok());
    let mut config = ProfileConfig {
        targets: vec![ProbeTarget {
            target: "server".to_owned(),
            pids: vec![pid.ok_or("give a process id")?],
            ..ProbeTarget::default()
        }],
        kind: ProfileKind::OnCpu,
        hz: 199,
    };
    let (mut seconds, mut stacks) = (5.0, 10);
    while let Some(flag) = args.next() {
        if flag == "--off" {
            config.kind = ProfileKind::OffCpu;
            config.hz = 0;
            continue;
        }
        let text = args.next().ok_or(format!("{flag} needs a value"))?;
        let number: f64 = text.parse().map_err(|e| format!("{flag} {text}: {e}"))?;
        match flag.as_str() {
            "-d" => seconds = number,
            "-F" => config.hz = number as u32,
            "-n" => stacks = number as usize,
            _ => return Err(format!("unknown flag {flag}")),
        }
    }
    let began = Instant::now();
    let profiler = Profiler::start(&config)
        .map_err(|no| format!("{}: {}\nremedy: {}", no.what, no.reason, no.remedy))?;
    let started_in = began.elapsed();
    std::thread::sleep(Duration::from_secs_f64(seconds));
    let ended = Instant::now();
    let profiled = profiler.stop();
    println!(
        "started in {started_in:.1?}, folded in {:.1?}",
        ended.elapsed()
    );
    show(&profiled, stacks);
    Ok(())
}

fn show(profiled: &Profiled, stacks: usize) {
    let profile = &profiled.profile;
    let total: u64 = profile.stacks.iter().map(|stack| stack.weight).sum();
    println!(
        "{} samples, {} lost, {:.1} % unwound, {} stacks, {} frames; reader {:.2} ms for {} records",
        profile.samples,
        profile.lost,
        100.0 * profile.unwound as f64 / profile.samples.max(1) as f64,
        profile.stacks.len(),
        profile.frames.len(),
        profiled.cost.measured_ns.unwrap_or(0) as f64 / 1e6,
        profiled.cost.events,
    );
    for gap in &profiled.unavailable {
        println!("{}: {} ({})", gap.what, gap.reason, gap.remedy);
    }
    for stack in profile.stacks.iter().take(stacks) {
        let frames = stack.frames.iter();
        let names: Vec<&str> = frames
            .map(|&frame| profile.frames[frame as usize].symbol.as_str())
            .collect();
        println!(
            "{:5.1} % {} {} {:?} {}",
            100.0 * stack.weight as f64 / total.max(1) as f64,
            stack.pid,
            stack.thread,
            stack.state,
            names.join(";"),
        );
    }
}
