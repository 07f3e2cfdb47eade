//! A traffic program, stack against stack over a wire in memory: what a connection costs.
//!
//! `cargo run --release --example program -- [-c OPEN] [-d SECONDS] [-b RESPONSE_BYTES] [--per REQUESTS]
//! [--iw SEGMENTS] [--cpus CLIENT,SERVER] [--coalesce MICROSECONDS] [--idle CONNECTIONS] [--bulk BYTES]`
//!
//! With `--idle` that many connections are opened and left alone, and what they hold is told; with `--bulk` each
//! carries so many bytes both ways.

#![allow(
    clippy::print_stdout,
    reason = "an example is a program, and its output is its purpose"
)]

use record::traffic::{Data, Http, Pace, Protocol, Side, Step, Template, TrafficSpec};
use record::{Carrier, Close, Nanos, TrafficOutcome};
use stack::device::loopback;
use std::net::SocketAddr;
use traffic::program::{End, Ends, run};

struct Asked {
    open: u32,
    duration: Nanos,
    response_bytes: u64,
    requests: u64,
    initial_window: u32,
    cpus: [Option<u32>; 2],
    coalesce: Nanos,
    idle: u32,
    bulk: u64,
}

fn main() {
    let shown = parse(std::env::args().skip(1)).and_then(|asked| make(&asked));
    if let Err(cause) = shown {
        println!("{cause}");
    }
}

fn parse(mut args: impl Iterator<Item = String>) -> Result<Asked, String> {
    let mut asked = Asked {
        open: 256,
        duration: Nanos::from_secs(5),
        response_bytes: 100,
        requests: 1,
        initial_window: 10,
        cpus: [None; 2],
        coalesce: Nanos(20_000),
        idle: 0,
        bulk: 0,
    };
    while let Some(flag) = args.next() {
        let text = args.next().ok_or(format!("{flag} needs a value"))?;
        if flag == "--cpus" {
            let (client, server) = text.split_once(',').ok_or("--cpus CLIENT,SERVER")?;
            asked.cpus = [client.parse().ok(), server.parse().ok()];
            continue;
        }
        let number: f64 = text.parse().map_err(|e| format!("{flag} {text}: {e}"))?;
        match flag.as_str() {
            "-c" => asked.open = number as u32,
            "-d" => asked.duration = Nanos((number * 1e9) as u64),
            "-b" => asked.response_bytes = number as u64,
            "--per" => asked.requests = number as u64,
            "--iw" => asked.initial_window = number as u32,
            "--coalesce" => asked.coalesce = Nanos((number * 1e3) as u64),
            "--idle" => asked.idle = number as u32,
            "--bulk" => asked.bulk = number as u64,
            _ => return Err(format!("{flag} is not known")),
        }
    }
    Ok(asked)
}

fn side(addresses: &str, asked: &Asked, cpu: Option<u32>) -> Side {
    let mut tcp = record::traffic::TcpSettings {
        initial_window: Some(asked.initial_window),
        ..Default::default()
    };
    if asked.idle > 0 {
        tcp.flows_max = Some(asked.idle + 1_024);
    }
    Side {
        transport: Carrier::Tap,
        interface: "wire".to_owned(),
        addresses: vec![addresses.to_owned()],
        order: Default::default(),
        ports: None,
        networks: Vec::new(),
        gateways: Vec::new(),
        coalesce: asked.coalesce,
        threads: 1,
        cpu,
        cpus: Vec::new(),
        tcp,
        capture: None,
        faults: None,
    }
}

fn end(device: loopback::Loopback, addresses: &str) -> Result<End, String> {
    Ok(End {
        devices: vec![Box::new(device)],
        link: stack::link::Settings {
            interface: "wire".to_owned(),
            mac: [2, 0, 0, 0, 0, 1],
            own: vec![addresses.parse().map_err(|e| format!("{e}"))?],
            networks: vec!["10.9.0.0/16".parse().map_err(|e| format!("{e}"))?],
            gateways: Vec::new(),
        },
    })
}

fn make(asked: &Asked) -> Result<(), String> {
    let (ours, theirs) = ("10.9.1.1-10.9.1.64", "10.9.2.1");
    let protocol = match asked.idle {
        0 if asked.bulk > 0 => Protocol::Stream(vec![
            Step::ClientSends(Data::Pattern(asked.bulk)),
            Step::ServerSends(Data::Pattern(asked.bulk)),
        ]),
        0 => Protocol::Http(Http {
            path: "/".to_owned(),
            method: "GET".to_owned(),
            headers: Vec::new(),
            body_bytes: 0,
            requests: asked.requests,
            response_bytes: asked.response_bytes,
            think: Nanos(0),
            expect: None,
        }),
        _ => Protocol::Stream(vec![
            Step::ClientSends(Data::Pattern(100)),
            Step::ServerSends(Data::Pattern(100)),
            Step::Pause(Nanos::from_secs(3_600)),
            Step::ClientSends(Data::Pattern(1)),
        ]),
    };
    let spec = TrafficSpec {
        duration: Some(asked.duration),
        drain: Nanos::from_secs(if asked.bulk > 0 { 100 } else { 0 }),
        client: Some(side(ours, asked, asked.cpus[0])),
        server: Some(side(theirs, asked, asked.cpus[1])),
        templates: vec![Template {
            name: "one".to_owned(),
            targets: vec![SocketAddr::from(([10, 9, 2, 1], 80))],
            pace: Pace::Concurrent(asked.open.max(asked.idle)),
            concurrent_max: None,
            count: match asked.idle {
                0 if asked.bulk > 0 => Some(u64::from(asked.open)),
                0 => None,
                idle => Some(u64::from(idle)),
            },
            protocol,
            close: Close::Fin,
            timeout: Nanos::from_secs(60),
            tls: None,
        }],
        ..TrafficSpec::default()
    };
    let (client, server) = loopback::pair(&loopback::Settings {
        is_lossless: true,
        ..loopback::Settings::default()
    });
    let ends = Ends {
        client: Some(end(client, ours)?),
        server: Some(end(server, theirs)?),
    };
    let before = resident_kib();
    let mut resident = 0;
    let outcome = run(&spec, ends, &mut || false, &mut |interval, _| {
        resident = resident.max(resident_kib().saturating_sub(before));
        println!(
            "{:6.2} s: {} begun, {} done, {} open",
            interval.to.0 as f64 / 1e9,
            interval.attempted,
            interval.completed,
            interval.open
        );
    });
    show(
        &outcome.map_err(|e| format!("{e}; {}", e.remedy()))?,
        resident,
    );
    Ok(())
}

fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    let words = line.and_then(|line| line.split_whitespace().nth(1));
    words.and_then(|kib| kib.parse().ok()).unwrap_or(0)
}

fn show(outcome: &TrafficOutcome, resident_kib: u64) {
    let template = &outcome.templates[0];
    let (done, seconds) = (template.completed, outcome.wall_ns as f64 / 1e9);
    println!(
        "{done} connections in {seconds:.2} s: {:.0}/s; {} exchanges: {:.0}/s; failed {:?}",
        done as f64 / seconds,
        template.exchanges,
        template.exchanges as f64 / seconds,
        template.failed
    );
    for side in &outcome.sides {
        let each = |ns: u64| ns as f64 / 1e3 / template.connected.max(1) as f64;
        println!(
            "{}: {:.2} us user, {:.2} us system a connection, {:.1} bytes a flow, {} at the most, spun {:.0} ms",
            side.side,
            each(side.cpu_user_ns),
            each(side.cpu_system_ns),
            side.flow_bytes,
            side.peak_flows,
            side.spun_ns as f64 / 1e6
        );
    }
    for side in &outcome.sides {
        let told = side.tcp.iter().chain(&side.device).chain(&side.link);
        let told: Vec<String> = told
            .filter(|(_, count)| **count > 0)
            .map(|(name, count)| format!("{name} {count}"))
            .collect();
        println!("{}: {}", side.side, told.join(", "));
    }
    let open: u64 = outcome.sides.iter().map(|side| side.peak_flows).sum();
    println!(
        "resident at the most: {} MiB, {:.0} bytes for each flow of both sides",
        resident_kib >> 10,
        resident_kib as f64 * 1024.0 / open.max(1) as f64
    );
    let micros = |quantile| {
        template
            .response
            .quantile(quantile)
            .map_or(0, |ns| ns.0 / 1_000)
    };
    println!(
        "response: p50 {} us, p99 {} us; late {}",
        micros(0.5),
        micros(0.99),
        template.late
    );
}
