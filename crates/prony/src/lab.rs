//! The laboratory of `prony traffic --lab`: the same loads by the kernel's TCP and by prony's own, on either side, over
//! wires of its own.
//!
//! A core for each side; what the cores were busy, divided by the requests, is a side's cost. Clients are loads of this
//! process in the client's namespace and wrk, servers are nginx (without it `prony origin`) on the kernel's TCP and the
//! emulated server. The surprise: everything that runs here ends with the thread that started it, and what is on the
//! host is in the journal before it is made.

mod kernels;
pub mod program;

use crate::exit::{Exit, Failure};
use kernels::{Kernels, Pages};
use linux::namespace::Namespace;
use record::{Bytes, Carrier, LoadOutcome, LoadSpec, Nanos};
use report::lab::{LabDocument, LabRow, LabWarning};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use sut::{Lab, Launcher};
use traffic::Load;
use traffic::origin::{Origin, OriginSpec};
use traffic::user_space::{AddressRange, Attachment, Words};

/// Where the kernel's server listens.
const PORT: u16 = 8080;
/// Where the emulated server does.
const EMULATED_PORT: u16 = 80;
/// What is run, and how large.
#[derive(Clone, Debug)]
pub struct Size {
    /// Connections at one time.
    pub connections: u32,
    /// Length of each load.
    pub duration: Nanos,
    /// How long packets may gather at a TCP of prony's own.
    pub coalesce: Nanos,
    /// Bytes of a response's body.
    pub body: Bytes,
    /// The works, in their order.
    pub works: Vec<Work>,
    /// Segments that a server sends before the first acknowledgement; `None` is each TCP's default.
    pub initial_window: Option<u32>,
    /// What a TCP of prony's own is attached to, in this order.
    pub devices: Vec<Carrier>,
    /// How often everything is run, in turns.
    pub rounds: u32,
}

/// What a connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Work {
    /// A new connection for each request
    ConnectionEach,
    /// Connections that stay open for one request after the other
    KeepAlive,
}

impl Work {
    fn name(self) -> &'static str {
        match self {
            Work::ConnectionEach => "connection each",
            Work::KeepAlive => "keep-alive",
        }
    }
}

/// Runs all of it; `progress` is told what comes next.
///
/// # Errors
/// [`Failure`] when the laboratory cannot be made, or a server or a load cannot start. Everything is taken away then.
pub fn run(
    launcher: &Launcher,
    size: &Size,
    interrupted: &dyn Fn() -> bool,
    progress: &mut dyn FnMut(&str),
) -> Result<LabDocument, Failure> {
    let (client, server) = cores();
    progress("making the laboratory");
    let lab = Lab::create(&launcher.journal, client, server).map_err(|e| of_target(&e))?;
    if let Some(segments) = size.initial_window {
        lab.set_initial_window(segments)
            .map_err(|e| of_target(&e))?;
    }
    let mut document = LabDocument::new(size.connections, size.duration.0, size.coalesce.0);
    (document.client_cpu, document.server_cpu) = (client, server);
    (document.body_bytes, document.rounds) = (size.body.0, size.rounds);
    document.initial_window = size.initial_window;
    match &lab.charging {
        Ok(how) => document.charging = Some(how.clone()),
        Err(cause) => document.warnings.push(LabWarning {
            seen: format!("CPU times are not compared: {cause}"),
            remedy: "use a host with two cores or more, and a kernel with RPS and threaded NAPI"
                .to_owned(),
        }),
    }
    let path = format!("/bytes/{}", size.body.0);
    let pages = Pages::one(PORT, &path, size.body);
    let kernels = Kernels::start(launcher, &lab.server, &pages, interrupted)?;
    if kernels.name != "nginx" {
        document.warnings.push(LabWarning {
            seen: "nginx is not installed, so that prony's own server answers on the kernel's TCP"
                .to_owned(),
            remedy: "install nginx".to_owned(),
        });
    }
    let with_wrk = has("wrk");
    let bench = Bench {
        lab: &lab,
        size,
        path,
        kernels: &kernels,
    };
    let runs = bench.runs(with_wrk);
    let mut rounds: Vec<Vec<LabRow>> = Vec::new();
    'all: for round in 1..=size.rounds {
        rounds.push(Vec::new());
        for work in &size.works {
            for run in &runs {
                if interrupted() {
                    document.interrupted = true;
                    break 'all;
                }
                let Run {
                    client,
                    server,
                    over,
                } = run;
                let mut what = format!("{}: {client} against {server} over {over}", work.name());
                if size.rounds > 1 {
                    what += &format!(", round {round} of {}", size.rounds);
                }
                progress(&what);
                let row = bench.row(*run, *work, document.charging.is_some())?;
                rounds.last_mut().expect("just pushed").push(row);
            }
        }
    }
    document.rows = LabRow::medians(&rounds, size.coalesce.0);
    Ok(document)
}

/// The cores of the client's and of the server's side.
fn cores() -> (u32, u32) {
    match linux::affinity::allowed().as_slice() {
        [] => (0, 0),
        [only] => (*only, *only),
        [first, .., last] => (*last, *first),
    }
}

pub(crate) fn of_target(error: &sut::TargetError) -> Failure {
    Failure::new(Exit::Environment, error.to_string(), error.remedy())
}

fn has(program: &str) -> bool {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&paths).any(|dir| dir.join(program).is_file())
}

fn inside<T>(namespace: &Namespace, work: impl FnOnce() -> T) -> Result<T, Failure> {
    namespace.within(work).map_err(|e| {
        let remedy = "run it again; a container may have to be privileged";
        Failure::new(Exit::Environment, e.to_string(), remedy)
    })
}

/// Who loads whom over what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    client: &'static str,
    server: &'static str,
    over: &'static str,
}

struct Bench<'a> {
    lab: &'a Lab,
    size: &'a Size,
    path: String,
    kernels: &'a Kernels,
}

/// What a client has counted.
struct Counted {
    succeeded: u64,
    failed: u64,
    wall: Duration,
    p50: Option<Nanos>,
    p99: Option<Nanos>,
}

impl Bench<'_> {
    fn runs(&self, with_wrk: bool) -> Vec<Run> {
        let server = self.kernels.name;
        let run = |client, server, over| Run {
            client,
            server,
            over,
        };
        let mut runs = Vec::new();
        if with_wrk {
            runs.push(run("wrk", server, "veth"));
        }
        runs.push(run("sockets", server, "veth"));
        let devices = || self.size.devices.iter().map(|device| device.name());
        runs.extend(devices().map(|over| run("stack", server, over)));
        if with_wrk {
            runs.extend(devices().take(1).map(|over| run("wrk", "emulated", over)));
        }
        runs.extend(devices().map(|over| run("sockets", "emulated", over)));
        // A TAP's other end is a kernel, so that it joins no two stacks.
        let joins = devices().filter(|over| *over != Carrier::Tap.name());
        runs.extend(joins.map(|over| run("stack", "emulated", over)));
        runs
    }

    fn row(&self, run: Run, work: Work, is_charged: bool) -> Result<LabRow, Failure> {
        let each = work == Work::ConnectionEach;
        let emulated = match run.server {
            "emulated" => Some(self.emulated(run.over)?),
            _ => None,
        };
        let (client, server) = (&self.lab.client, &self.lab.server);
        let target = match (&emulated, run.over) {
            (Some(origin), _) => origin.address(),
            (None, "tap") => SocketAddr::from((server.tap_address, PORT)),
            (None, _) => SocketAddr::from((server.veth_address, PORT)),
        };
        let url = format!("http://{target}{}", self.path);
        let before = [client.cpu, server.cpu].map(busy_s);
        let began = Instant::now();
        let counted = match run.client {
            "wrk" => self.wrk(&url, each)?,
            _ => self.load(run, &url, each)?,
        };
        let wall_s = began.elapsed().as_secs_f64();
        let after = [client.cpu, server.cpu].map(busy_s);
        drop(emulated);
        let took = [after[0] - before[0], after[1] - before[1]];
        let of_request = |s: f64| {
            (is_charged && counted.succeeded > 0).then(|| s * 1e6 / counted.succeeded as f64)
        };
        Ok(LabRow {
            work: work.name().to_owned(),
            client: run.client.to_owned(),
            server: run.server.to_owned(),
            over: run.over.to_owned(),
            requests: counted.succeeded,
            failed: counted.failed,
            requests_per_s: counted.succeeded as f64 / counted.wall.as_secs_f64().max(1e-9),
            client_cpu_us: of_request(took[0]),
            server_cpu_us: of_request(took[1]),
            client_busy: (took[0] / wall_s).min(1.0),
            server_busy: (took[1] / wall_s).min(1.0),
            p50_ns: counted.p50.map(|t| t.0),
            p99_ns: counted.p99.map(|t| t.0),
            ..LabRow::default()
        })
    }

    /// The device of that name.
    fn carrier(&self, over: &str) -> Carrier {
        let mut devices = self.size.devices.iter().copied();
        devices
            .find(|device| device.name() == over)
            .unwrap_or(Carrier::AfXdp)
    }

    /// The emulated server, on the server's core. Over a TAP its kernel is the client's, so it is in that namespace.
    fn emulated(&self, over: &str) -> Result<Origin, Failure> {
        let (client, server) = (&self.lab.client, &self.lab.server);
        let transport = self.carrier(over);
        let (side, interface, network) = match transport {
            Carrier::Tap => (client, &client.tap, client.tap_address),
            _ => (server, &server.veth, server.veth_address),
        };
        let address = with_last(network, 100);
        let spec = OriginSpec {
            cpus: vec![server.cpu],
            attachment: Some(Attachment {
                transport,
                interface: interface.clone(),
                addresses: Vec::from_iter(AddressRange::new(address, address)),
                networks: Vec::new(),
                gateways: Vec::new(),
                targets: Vec::new(),
                coalesce: self.size.coalesce,
                words: WORDS,
            }),
            initial_window: self.size.initial_window,
            ..OriginSpec::new(SocketAddr::new(address, EMULATED_PORT))
        };
        let origin = inside(&side.namespace, || Origin::start(&spec))?;
        origin.map_err(|e| Failure::new(Exit::Environment, e.to_string(), e.remedy()))
    }

    fn load(&self, run: Run, url: &str, each: bool) -> Result<Counted, Failure> {
        let (client, server) = (&self.lab.client, &self.lab.server);
        let mut spec = LoadSpec::new(url);
        spec.connections = self.size.connections;
        spec.threads = Some(1);
        spec.duration = Some(self.size.duration);
        spec.requests_per_connection = each.then_some(1);
        spec.cpus = vec![client.cpu];
        spec.timeout = Nanos::from_secs(5);
        let mut side = client;
        if run.client == "stack" {
            spec.coalesce = Some(self.size.coalesce);
            let transport = self.carrier(run.over);
            let (interface, network) = match transport {
                // A TAP's other end is the server's kernel.
                Carrier::Tap => (&server.tap, server.tap_address),
                _ => (&client.veth, client.veth_address),
            };
            if transport == Carrier::Tap {
                side = server;
            }
            spec.transport = transport;
            spec.interface = Some(interface.clone());
            spec.source = (2..32).map(|last| with_last(network, last)).collect();
        }
        let start = || Load::prepare(&spec).and_then(Load::start);
        let running = inside(&side.namespace, start)?;
        let outcome =
            running.map_err(|e| Failure::new(Exit::Environment, e.to_string(), e.remedy()))?;
        Ok(counted(&outcome.finish()))
    }

    fn wrk(&self, url: &str, each: bool) -> Result<Counted, Failure> {
        let client = &self.lab.client;
        let seconds = self.size.duration.0.div_ceil(Nanos::SECOND.0).max(1);
        let mut command = Command::new("wrk");
        command
            .args(["-t1", "--latency"])
            .arg(format!("-c{}", self.size.connections))
            .arg(format!("-d{seconds}s"))
            .arg(url)
            .stdin(Stdio::null());
        if each {
            command.args(["-H", "Connection: close"]);
        }
        let run = || {
            // The child inherits the core of this thread, which goes back to its own afterwards.
            let own = linux::affinity::CpuSet::new(&linux::affinity::allowed());
            linux::affinity::pin_to(client.cpu)?;
            let output = command.output();
            own.pin_this_thread()?;
            output
        };
        let failed = |cause: String| {
            Failure::new(
                Exit::Environment,
                format!("running wrk: {cause}"),
                "run it by hand",
            )
        };
        let output = inside(&client.namespace, run)?.map_err(|e| failed(e.to_string()))?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let counted = wrk_counted(&text).filter(|_| output.status.success());
        counted.ok_or_else(|| failed(String::from_utf8_lossy(&output.stderr).into_owned() + &text))
    }
}

/// How this program's own options are named; the laboratory chooses all of them.
const WORDS: Words = Words {
    interface: "--interface",
    addresses: "--address",
    transport: "--transport",
};

/// The address of the same /24 with that last byte.
fn with_last(network: Ipv4Addr, last: u8) -> IpAddr {
    let [a, b, c, _] = network.octets();
    IpAddr::from([a, b, c, last])
}

fn counted(outcome: &LoadOutcome) -> Counted {
    let requests = &outcome.requests;
    Counted {
        succeeded: requests.succeeded,
        failed: requests.failed.values().sum(),
        wall: Duration::from_nanos(outcome.measured().0),
        p50: outcome.response.quantile(0.5),
        p99: outcome.response.quantile(0.99),
    }
}

/// What wrk prints.
fn wrk_counted(text: &str) -> Option<Counted> {
    let summary = text.lines().find(|line| line.contains(" requests in "))?;
    let words: Vec<&str> = summary.split_whitespace().collect();
    let duration = words.get(3)?.trim_end_matches(',');
    let wall = record::parse_duration(duration).ok()?;
    let percentile = |name: &str| {
        let line = text
            .lines()
            .find_map(|line| line.trim().strip_prefix(name))?;
        record::parse_duration(line.trim()).ok()
    };
    let failed = text.lines().find_map(|line| {
        let count = line.trim().strip_prefix("Non-2xx or 3xx responses:")?;
        count.trim().parse().ok()
    });
    Some(Counted {
        succeeded: words.first()?.parse::<u64>().ok()? - failed.unwrap_or(0),
        failed: failed.unwrap_or(0),
        wall: Duration::from_nanos(wall.0),
        p50: percentile("50%"),
        p99: percentile("99%"),
    })
}

/// How long a core has been busy: user, nice, system, interrupts and softirq.
fn busy_s(cpu: u32) -> f64 {
    let stat = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    linux::procfs::seconds(busy_ticks(&stat, cpu).unwrap_or(0))
}

fn busy_ticks(stat: &str, cpu: u32) -> Option<u64> {
    let name = format!("cpu{cpu} ");
    let line = stat.lines().find_map(|line| line.strip_prefix(&name))?;
    let ticks: Vec<u64> = line
        .split_whitespace()
        .map_while(|word| word.parse().ok())
        .collect();
    [0, 1, 2, 5, 6].iter().map(|at| ticks.get(*at)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_core_is_busy_with_all_but_idling_and_waiting() {
        let stat = "cpu  9 9 9 9 9 9 9\ncpu0 1 2 4 800 1600 8 16 32 0 0\ncpu1 5 0 0 1 1 0 0\n";
        assert_eq!(busy_ticks(stat, 0), Some(31));
        assert_eq!(busy_ticks(stat, 1), Some(5));
        assert_eq!(busy_ticks(stat, 2), None);
    }

    #[test]
    fn what_wrk_prints_is_read() {
        let text = "Running 2s test @ http://10.8.0.1:8080/\n  1 threads and 256 connections\n  Latency Distribution\n\
                    \x20    50%    5.61ms\n     75%    6.02ms\n     90%    7.11ms\n     99%   12.30ms\n\
                    \x20 84231 requests in 2.01s, 99.31MB read\n  Non-2xx or 3xx responses: 31\nRequests/sec:  41900.12\n";
        let counted = wrk_counted(text).unwrap();
        assert_eq!((counted.succeeded, counted.failed), (84_200, 31));
        assert_eq!(counted.wall, Duration::from_millis(2_010));
        assert_eq!(counted.p50, Some(Nanos(5_610_000)));
        assert_eq!(counted.p99, Some(Nanos(12_300_000)));
        assert!(wrk_counted("unable to connect").is_none());
    }
}
