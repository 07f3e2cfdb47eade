//! Runs one load and prints what a comparison with another generator needs.
//!
//! `cargo run --release --example load -- URL [-c N] [-d SECONDS] [-R PER_S] [-n N] [--per N] [--cpu N] [--pipeline
//! N] [--full 1]`

#![allow(
    clippy::print_stdout,
    reason = "an example is a program, and its output is its purpose"
)]

use record::{Arrival, LoadOutcome, LoadSpec, Nanos};
use traffic::Load;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    // Nobody watches the server here: whoever runs this says whether it is full.
    let is_full = args.windows(2).any(|pair| pair == ["--full", "1"]);
    match parse(args.into_iter()) {
        Ok(spec) => run(&spec, is_full),
        Err(cause) => println!("{cause}"),
    }
}

fn parse(mut args: impl Iterator<Item = String>) -> Result<LoadSpec, String> {
    let mut spec = LoadSpec::new(args.next().ok_or("give a URL")?);
    while let Some(flag) = args.next() {
        let text = args.next().ok_or(format!("{flag} needs a value"))?;
        let number: f64 = text.parse().map_err(|e| format!("{flag} {text}: {e}"))?;
        match flag.as_str() {
            "-c" => spec.connections = number as u32,
            "-d" => spec.duration = Some(Nanos((number * 1e9) as u64)),
            "-t" => spec.threads = Some(number as u32),
            "-R" => spec.arrival = Arrival::Constant { per_s: number },
            "-n" => {
                spec.requests = Some(number as u64);
                spec.duration = None;
            }
            "--per" => spec.requests_per_connection = Some(number as u64),
            "--cpu" => spec.cpus = vec![number as u32],
            "--pipeline" => spec.pipeline = number as u32,
            "--full" => {}
            _ => return Err(format!("unknown flag {flag}")),
        }
    }
    Ok(spec)
}

fn run(spec: &LoadSpec, is_full: bool) {
    match Load::prepare(spec).and_then(Load::start) {
        Ok(running) => {
            running.set_server_full(is_full);
            show(&running.finish());
        }
        Err(error) => println!("{error}\nremedy: {}", error.remedy()),
    }
}

fn show(outcome: &LoadOutcome) {
    let requests = &outcome.requests;
    let n = requests.completed.max(1) as f64;
    let threads = &outcome.generator.threads;
    let us = |ns: u64| ns as f64 / 1e3 / n;
    println!("{requests:?}");
    println!(
        "{:?} first {:?}",
        outcome.connections, outcome.first_failure
    );
    println!(
        "rate {:.0}/s  user {:.3} us  system {:.3} us  syscalls {:.3}  utilization {:.3}  rss {} KiB",
        outcome.achieved_per_s().unwrap_or(0.0),
        us(threads.iter().map(|t| t.cpu_user_ns).sum()),
        us(threads.iter().map(|t| t.cpu_system_ns).sum()),
        outcome.generator.syscalls as f64 / n,
        outcome.generator.utilization().unwrap_or(f64::NAN),
        outcome.generator.peak_rss_bytes / 1024,
    );
    for (name, histogram) in [
        ("response", &outcome.response),
        ("service", &outcome.service),
        ("lag", &outcome.generator.schedule_lag),
    ] {
        let at = |quantile| histogram.quantile(quantile).unwrap_or_default();
        println!(
            "{name}: mean {:.1} us  p50 {}  p95 {}  p99 {}  max {}",
            histogram.mean_ns().unwrap_or(0.0) / 1e3,
            at(0.5),
            at(0.95),
            at(0.99),
            at(1.0),
        );
    }
}
