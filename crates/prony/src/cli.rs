//! The command line: flags first, their meaning later (in `verbs/`).

use crate::lists::{parse_cpus, parse_sources};
use clap::{Args, Parser, Subcommand, ValueEnum};
use record::{Arrival, Body, Close, Engine, LoadSpec, Nanos, Tier, parse_count, parse_duration};
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

const EXIT_CODES: &str = "\
Exit codes:
  0    valid result
  1    a threshold or comparison failed: a remedy was not proved, a record is worse than another
  2    command line or experiment file
  3    the measurement is not valid: nothing answered, errors over the limit,
       the generator was the limit, or the schedule was not met
  4    the environment lacks something
  130  interrupted, partial results kept";

/// A dynamometer for web servers and reverse proxies: loads a server, watches both ends, says what limits it.
#[derive(Debug, Parser)]
#[command(name = "prony", version, after_help = EXIT_CODES, max_term_width = 110)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub verb: Verb,
    /// Print results, warnings and errors only: neither progress nor notes
    #[arg(long, global = true)]
    pub quiet: bool,
}

/// The verbs.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Load one URL and say what limited it.
    Load(Box<LoadArgs>),
    /// Serve as a backend, or to calibrate a generator.
    Origin(OriginArgs),
    /// Run an experiment; without a file, the built-in evaluation.
    Run(RunArgs),
    /// Name what limits a running server, with the evidence and the remedy.
    Diagnose(Box<DiagnoseArgs>),
    /// Compare two records: what got faster or slower, and how sure that is.
    Compare(CompareArgs),
    /// Analyse stored records again and write their report, or an index of many.
    Report(ReportArgs),
    /// Hold this host against what is advised for a workload.
    Check(CheckArgs),
    /// Set what a profile asks for on this host, show it, or put everything back.
    Tune(TuneArgs),
    /// Make a record of what other tools printed: wrk, ab, strace -c, vmstat, tables of a study, ...
    Import(ImportArgs),
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum ArrivalName {
    /// Equal gaps.
    Constant,
    /// Exponential gaps.
    Poisson,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum CloseName {
    /// Orderly close.
    Fin,
    /// Reset: no TIME_WAIT.
    Rst,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum EngineName {
    /// The best that this build and host have.
    Auto,
    /// io_uring.
    Uring,
    /// epoll.
    Epoll,
}

const LOAD_EXAMPLES: &str = "\
Examples:
  prony load http://127.0.0.1:8080/                     10 connections, 10 s, as fast as answers come
  prony load -c 64 -d 30s http://127.0.0.1:8080/        closed loop, 64 connections
  prony load -c 64 -R 20k http://127.0.0.1:8080/        open loop: 20,000 requests a second, latency
                                                        from the scheduled send
  prony load --requests-per-connection 1 URL            a connection per request
  prony load -n 10000 --json URL                        10,000 requests, result as JSON

The first line of the result says whether it is valid and what limited it.";

/// Flags of `prony load`.
#[derive(Debug, Args)]
#[command(after_help = LOAD_EXAMPLES)]
pub struct LoadArgs {
    /// http:// or https:// URL
    pub url: String,
    /// The load.
    #[command(flatten)]
    pub load: LoadFlags,
    /// Print the result as JSON
    #[arg(long)]
    pub json: bool,
}

impl LoadArgs {
    /// The load that the flags describe.
    pub fn spec(&self) -> LoadSpec {
        self.load.spec(&self.url, LoadDefaults::LOAD)
    }
}

/// What a load is when its flags do not say.
#[derive(Clone, Copy, Debug)]
pub struct LoadDefaults {
    connections: u32,
    duration: Nanos,
}

impl LoadDefaults {
    /// `prony load`.
    const LOAD: Self = Self {
        connections: 10,
        duration: Nanos::from_secs(10),
    };
    /// `prony diagnose`: enough connections to keep several workers busy, and no longer than the counts need.
    const DIAGNOSE: Self = Self {
        connections: 50,
        duration: Nanos::from_secs(4),
    };
}

/// Flags that describe a load, the same for every verb that makes one.
#[derive(Debug, Args)]
pub struct LoadFlags {
    /// Connections in total [default: 10; 50 to diagnose]
    #[arg(short, long, value_parser = count_u32)]
    pub connections: Option<u32>,
    /// Load threads [default: one for every two CPUs, at most one a connection]
    #[arg(short, long, value_parser = count_u32)]
    pub threads: Option<u32>,
    /// Measure for this long (2s, 500ms, 1m) [default: 10s unless -n is given; 4s to diagnose]
    #[arg(short, long, visible_short_alias = 'z', value_parser = duration)]
    pub duration: Option<Nanos>,
    /// Stop after this many requests
    #[arg(short = 'n', long, value_parser = count)]
    pub requests: Option<u64>,
    /// Open loop: this many requests per second over all connections
    #[arg(short = 'R', long, value_parser = rate)]
    pub rate: Option<f64>,
    /// Arrival process of the open loop
    #[arg(long, value_enum, default_value = "constant", requires = "rate")]
    pub arrival: ArrivalName,
    /// Seed of random arrivals
    #[arg(long, default_value = "1", hide = true)]
    pub seed: u64,
    /// The client closes a connection after N requests (1: a connection per request)
    #[arg(long, value_name = "N", value_parser = count)]
    pub requests_per_connection: Option<u64>,
    /// How the client closes
    #[arg(long, value_enum, default_value = "fin")]
    pub close: CloseName,
    /// Requests in flight on one connection
    #[arg(long, value_name = "N", default_value = "1", value_parser = count_u32)]
    pub pipeline: u32,
    /// Kernel interface that drives the sockets
    #[arg(long, value_enum, default_value = "auto")]
    pub engine: EngineName,
    /// Local addresses to connect from, in turn (127.0.0.2-127.0.0.9 or 127.0.1.0/28)
    #[arg(long, value_name = "RANGE", value_parser = sources)]
    pub source: Option<Sources>,
    /// Pin the load threads to these CPUs, in turn (0,2-4)
    #[arg(long, value_name = "LIST", value_parser = cpus)]
    pub cpus: Option<Cpus>,
    /// Load before the measurement that is not counted
    #[arg(long, default_value = "0s", value_parser = duration)]
    pub warmup: Nanos,
    /// A request without a complete answer for this long has failed
    #[arg(long, default_value = "2s", value_parser = duration)]
    pub timeout: Nanos,
    /// Request header, may be repeated
    #[arg(short = 'H', long = "header", value_name = "NAME: VALUE", value_parser = header)]
    pub headers: Vec<(String, String)>,
    /// Request method
    #[arg(short, long, visible_short_alias = 'X', default_value = "GET")]
    pub method: String,
    /// Request body (@FILE reads a file)
    #[arg(long, conflicts_with = "body_file")]
    pub body: Option<String>,
    /// Request body from a file
    #[arg(long, value_name = "FILE")]
    pub body_file: Option<String>,
    /// Do not verify the server's certificate
    #[arg(long)]
    pub insecure: bool,
    /// Share of failed requests above which the result is not valid
    #[arg(long, value_name = "SHARE", default_value = "1%", value_parser = share)]
    pub error_limit: f64,
    /// Percentiles are always printed; taken because wrk's users type it
    #[arg(short = 'L', long, hide = true)]
    pub latency: bool,
}

impl LoadFlags {
    /// The load that the flags describe.
    pub fn spec(&self, url: &str, default: LoadDefaults) -> LoadSpec {
        let body = match (&self.body, &self.body_file) {
            (_, Some(file)) => Body::File(file.clone()),
            (Some(text), None) => match text.strip_prefix('@') {
                Some(file) => Body::File(file.to_owned()),
                None => Body::Text(text.clone()),
            },
            (None, None) => Body::None,
        };
        LoadSpec {
            url: with_scheme(url),
            connections: self.connections.unwrap_or(default.connections),
            threads: self.threads,
            duration: self
                .duration
                .or(self.requests.is_none().then_some(default.duration)),
            requests: self.requests,
            arrival: match (self.rate, self.arrival) {
                (None, _) => Arrival::Closed,
                (Some(per_s), ArrivalName::Constant) => Arrival::Constant { per_s },
                (Some(per_s), ArrivalName::Poisson) => Arrival::Poisson {
                    per_s,
                    seed: self.seed,
                },
            },
            requests_per_connection: self.requests_per_connection.filter(|&n| n > 0),
            close: match self.close {
                CloseName::Fin => Close::Fin,
                CloseName::Rst => Close::Rst,
            },
            pipeline: self.pipeline,
            engine: match self.engine {
                EngineName::Auto => Engine::Auto,
                EngineName::Uring => Engine::Uring,
                EngineName::Epoll => Engine::Epoll,
            },
            source: self.source.clone().map(|s| s.0).unwrap_or_default(),
            cpus: self.cpus.clone().map(|c| c.0).unwrap_or_default(),
            warmup: self.warmup,
            timeout: self.timeout,
            method: self.method.clone(),
            headers: self.headers.clone(),
            body,
            insecure: self.insecure,
        }
    }
}

const ORIGIN_EXAMPLES: &str = "\
Examples:
  prony origin --listen 127.0.0.1:9000 --threads 2
  prony origin --freeze 200ms/2s           answers nothing for 200 ms every 2 s
  prony origin --delay exponential:5ms     sleeps before each answer, 5 ms on average

Paths: /bytes/SIZE (/bytes/91KiB), /status/CODE, /upload, /stats (counters as JSON), and files under --files.";

/// Flags of `prony origin`.
#[derive(Debug, Args)]
#[command(after_help = ORIGIN_EXAMPLES)]
pub struct OriginArgs {
    /// Address to listen on
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:9000")]
    pub listen: SocketAddr,
    /// Threads, each with a listening socket of its own (SO_REUSEPORT)
    #[arg(short, long, default_value = "1", value_parser = count_u32)]
    pub threads: u32,
    /// Pin the threads to these CPUs, in turn (0,2-4)
    #[arg(long, value_name = "LIST", value_parser = cpus)]
    pub cpus: Option<Cpus>,
    /// Size of the answer to /
    #[arg(long, value_name = "SIZE", default_value = "1KiB", value_parser = size)]
    pub body: record::Bytes,
    /// Serve the files below this directory too
    #[arg(long, value_name = "DIR")]
    pub files: Option<PathBuf>,
    /// Sleep before each answer: 5ms, exponential:5ms (mean), lognormal:5ms,0.5 (median, sigma)
    #[arg(long, value_name = "DIST")]
    pub delay: Option<String>,
    /// Answer nothing for LENGTH in every PERIOD, as a stop-the-world pause does
    #[arg(long, value_name = "LENGTH/PERIOD")]
    pub freeze: Option<String>,
    /// Close each connection after N answers
    #[arg(long, value_name = "N", value_parser = count)]
    pub close_after: Option<u64>,
    /// Print the address and, at the end, the counters as JSON
    #[arg(long)]
    pub json: bool,
}

const RUN_EXAMPLES: &str = "\
Examples:
  prony run                                      the built-in evaluation of the embedded server, under a minute
  prony run experiments/nginx-static.toml        an experiment
  prony run proxy-buffers                        one that is built in: a file of experiments/ by its name
  prony run FILE --dry-run                       what would run, in which order, and for how long
  prony run FILE --scale paper                   the same at the size that [scale.paper] gives it, for a larger machine
  prony run FILE --until '±1%'                   whole blocks until every interval is that narrow
  prony run FILE --out DIR --continue            the trials that an interrupted run still owes

DIR/report.html is the report; the other files are the record (see ARCHITECTURE.md).";

/// Flags of `prony run`.
#[derive(Debug, Args)]
#[command(after_help = RUN_EXAMPLES)]
pub struct RunArgs {
    /// Experiment file, or the name of one that is built in; without either, the built-in evaluation
    pub file: Option<PathBuf>,
    /// Directory for the record and report.html [default: results/NAME-TIME]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Size of the experiment: `small`, or one that the file has of its own, such as `paper`
    #[arg(long, value_name = "NAME", default_value = "small")]
    pub scale: String,
    /// Print the plan and its time, run nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Repeat whole blocks until every ratio to the baseline (without one: every rate) is known to this: ±1%, 0.02
    #[arg(long, value_name = "PRECISION", value_parser = half_width)]
    pub until: Option<f64>,
    /// Run only the trials that the record in --out still lacks
    #[arg(long = "continue", requires = "out")]
    pub resume: bool,
    /// Print the result as JSON
    #[arg(long)]
    pub json: bool,
}

const DIAGNOSE_EXAMPLES: &str = "\
Examples:
  prony diagnose --url http://127.0.0.1:8080/         find the processes behind the URL, load it, name the cause
  prony diagnose --url URL -c 500 --prove             and prove the remedy on a copy of the server
  prony diagnose --url URL --prove --put-back         and that the effect returns with the fault
  prony diagnose --url URL --improve                  diagnose, change, prove until nothing is left that helps
  prony diagnose --listen 8080 --no-load -d 10s       watch the traffic that is there
  prony diagnose results/quickstart-20260101-120000   judge a stored record
  prony diagnose --from strace-c.txt --from wrk.txt   judge what other tools printed

The first line names the cause; `none` is a healthy server, with what it is busy with. A running server and its
files are never touched: a proof is made on a copy.";

/// Flags of `prony diagnose`.
#[derive(Debug, Args)]
#[command(after_help = DIAGNOSE_EXAMPLES)]
pub struct DiagnoseArgs {
    /// A record that `prony run` or `prony diagnose --out` wrote
    #[arg(conflicts_with_all = ["url", "pid", "unit", "listen", "from"])]
    pub record: Option<PathBuf>,
    /// The URL to load
    #[arg(long)]
    pub url: Option<String>,
    /// A process of the server; its children belong to it [default: whoever listens at the URL's address]
    #[arg(long, value_name = "PID")]
    pub pid: Vec<i32>,
    /// The server's systemd unit
    #[arg(long, value_name = "NAME")]
    pub unit: Option<String>,
    /// The port that the server listens on
    #[arg(long, value_name = "PORT")]
    pub listen: Option<u16>,
    /// Watch the traffic that is there instead of loading
    #[arg(long)]
    pub no_load: bool,
    /// What another tool printed: strace -c, vmstat, wrk, ab, pidstat, sizes counted by `uniq -c`; may be repeated
    #[arg(long, value_name = "FILE", conflicts_with_all = ["url", "pid", "unit", "listen", "no_load"])]
    pub from: Vec<PathBuf>,
    /// Measure the remedy against the server as it is, on copies of it
    #[arg(long, requires = "url")]
    pub prove: bool,
    /// After a proof, put the fault back in a fresh copy: the effect must return
    #[arg(long, requires = "prove")]
    pub put_back: bool,
    /// Make a proof of no change: what this host calls an effect where there is none
    #[arg(long, requires = "url", conflicts_with_all = ["prove", "improve"])]
    pub aa: bool,
    /// Repeat diagnosis, change and proof until nothing is left that helps
    #[arg(long, requires = "url")]
    pub improve: bool,
    /// What `--improve` was called; it is about a server, and `prony tune` about the host.
    #[arg(long, hide = true)]
    pub tune: bool,
    /// Keep the record and a page in this directory
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Best kind of probes to use: ebpf, perf_events, proc
    #[arg(long, value_name = "TIER", default_value = "ebpf", value_parser = tier)]
    pub probes: Tier,
    /// The load.
    #[command(flatten)]
    pub load: LoadFlags,
    /// Print the result as JSON
    #[arg(long)]
    pub json: bool,
}

impl DiagnoseArgs {
    /// The load that the flags describe.
    pub fn spec(&self, url: &str) -> LoadSpec {
        self.load.spec(url, LoadDefaults::DIAGNOSE)
    }
}

fn tier(text: &str) -> Result<Tier, String> {
    [Tier::Ebpf, Tier::PerfEvents, Tier::Proc]
        .into_iter()
        .find(|tier| tier.name() == text)
        .ok_or_else(|| format!("`{text}` is none of ebpf, perf_events, proc"))
}

const COMPARE_EXAMPLES: &str = "\
Examples:
  prony compare before/ after/                   rate, p50, p99, CPU and calls per request of every common cell
  prony compare before/ after/ --threshold 5%    a gate: exit code 1 only when something got worse by more than 5 %
  prony compare before/ after/ --tolerance 5%    a difference of less than 5 % of a count of calls is none

With three valid trials a cell or more in both records a ratio has an interval, and `slower` means that it excludes
chance (5 % over the whole table). With fewer only --threshold and the calls per request can judge.
The trials of two records never ran in turn: put both servers into one experiment where the host is not quiet.

Exit codes: 0 nothing got worse, 1 something did (without --threshold also: a server does something else for each
request), 2 no record, 3 nothing valid that can be compared or judged.";

/// Flags of `prony compare`.
#[derive(Debug, Args)]
#[command(after_help = COMPARE_EXAMPLES)]
pub struct CompareArgs {
    /// Record that `prony run` or `prony diagnose --out` wrote
    pub before: PathBuf,
    /// Record to hold against it
    pub after: PathBuf,
    /// Relative change for the worse that is tolerated; what is worse by more fails
    #[arg(long, value_name = "SHARE", value_parser = share)]
    pub threshold: Option<f64>,
    /// Relative difference of a count of calls that is none
    #[arg(long, value_name = "SHARE", default_value = "2%", value_parser = share)]
    pub tolerance: f64,
    /// Print the result as JSON
    #[arg(long)]
    pub json: bool,
}

const REPORT_EXAMPLES: &str = "\
Examples:
  prony report results/proxy                            write report.html again and print the tables
  prony report results/proxy --format markdown          tables and conclusion for a pull request or a wiki
  prony report results/proxy --out proxy.csv            one row for each trial and metric, for R or pandas
  prony report results                                  an index of all records below it, results/index.html:
                                                        each experiment over time, regressions marked
  prony report monday tuesday --format markdown         the same for two records, as Markdown

What --out names by its ending (html, md, csv, json, txt) needs no --format.";

/// Flags of `prony report`.
#[derive(Debug, Args)]
#[command(after_help = REPORT_EXAMPLES)]
pub struct ReportArgs {
    /// Directory that `prony run` wrote; several, or a directory of such directories, make an index
    #[arg(required = true, value_name = "DIR")]
    pub records: Vec<PathBuf>,
    /// Form of the result [default: text, and the page in the record's directory]
    #[arg(long, value_enum)]
    pub format: Option<ReportFormat>,
    /// Write the result to this file instead of standard output
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Print the result as JSON, as --format json does
    #[arg(long, conflicts_with = "format")]
    pub json: bool,
}

const CHECK_EXAMPLES: &str = "\
Examples:
  prony check                                everything, what matters most first
  prony check --for connection-per-request   what matters to a connection per request
  prony check --strict --json                for a script: exit code 1 when something differs

Workloads: keep-alive, connection-per-request, large-bodies, proxy, latency. It looks at the host for a second,
measures loopback for 0.2 s, and changes nothing; `prony tune` sets what stands under `tune`.";

/// Flags of `prony check`.
#[derive(Debug, Args)]
#[command(after_help = CHECK_EXAMPLES)]
pub struct CheckArgs {
    /// Only what matters to this workload
    #[arg(long = "for", value_name = "WORKLOAD")]
    pub workload: Option<String>,
    /// Exit code 1 when something differs from what is advised
    #[arg(long)]
    pub strict: bool,
    /// Directory that holds `proc` and `sys`
    #[arg(long, value_name = "DIR", hide = true)]
    pub root: Option<PathBuf>,
    /// Print the result as JSON
    #[arg(long)]
    pub json: bool,
}

const TUNE_EXAMPLES: &str = "\
Examples:
  prony tune show                            the profiles, and what is applied now
  prony tune show connection-rate            what it would change here
  prony tune apply connection-rate           set it, until it is restored
  prony tune restore                         put back everything that was applied

An experiment may say `[design] tune = \"connection-rate\"`: the run sets it and puts it back at its end. Every
change is written to a journal before it is made, and the old value is kept exactly.";

/// Flags of `prony tune`.
#[derive(Debug, Args)]
#[command(after_help = TUNE_EXAMPLES)]
pub struct TuneArgs {
    /// What to do with the profile.
    #[command(subcommand)]
    pub action: TuneAction,
    /// Directory that holds `proc` and `sys`
    #[arg(long, value_name = "DIR", hide = true, global = true)]
    pub root: Option<PathBuf>,
}

/// What `prony tune` does.
#[derive(Debug, Subcommand)]
pub enum TuneAction {
    /// Set what a profile asks for; it stays until it is restored
    Apply(TuneApplyArgs),
    /// Hold a profile against this host; without one, list the profiles and what is applied
    Show(TuneShowArgs),
    /// Put back what was applied, the last profile first
    Restore(TuneRestoreArgs),
}

/// Flags of `prony tune apply`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  prony tune apply throughput --dry-run")]
pub struct TuneApplyArgs {
    /// Name of a profile, or a file whose name ends in .toml
    pub profile: String,
    /// Show what would be set, set nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Print the result as JSON
    #[arg(long)]
    pub json: bool,
}

/// Flags of `prony tune show`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  prony tune show study-000")]
pub struct TuneShowArgs {
    /// Name of a profile, or a file whose name ends in .toml
    pub profile: Option<String>,
    /// Print the result as JSON
    #[arg(long)]
    pub json: bool,
}

/// Flags of `prony tune restore`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  prony tune restore connection-rate")]
pub struct TuneRestoreArgs {
    /// The profile; without one, every profile that is applied
    pub profile: Option<String>,
    /// Put back also what somebody else has changed since
    #[arg(long)]
    pub force: bool,
    /// Show what would be put back, change nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Print the result as JSON
    #[arg(long)]
    pub json: bool,
}

const IMPORT_EXAMPLES: &str = "\
Formats: auto (by content), ab, wrk, wrk2, weighttp, h2load, oha, vegeta, k6, fortio, hey, bombardier,
dpdk-httpperf, hdr (HdrHistogram log or spectrum), strace (-c, and sizes counted by uniq -c), vmstat, mpstat,
table (tables of numbers in a text)

Examples:
  wrk --latency -c 100 http://h/ > wrk.txt
  prony import wrk wrk.txt --out before            one result
  prony import auto study.md --out study           every result in a text; headings name the cases
  prony import auto study.md --factor path --map 2=proxied --baseline direct
                                                   the second result is the case `proxied` of the factor `path`
  prony import auto study.md --select 1 --out a    the first result alone, to hold it against others:
  prony compare a b
  prony import wrk run1.txt run2.txt --name direct --name proxied

A figure is imported as it was printed or not at all. What a tool does not say is absent, never zero. A result that
ends early or contradicts itself is left out with its lines and the reason.";

/// Flags of `prony import`.
#[derive(Debug, Args)]
#[command(after_help = IMPORT_EXAMPLES)]
pub struct ImportArgs {
    /// What printed it, or `auto`
    pub format: String,
    /// Files with its output, `-` for standard input; text around it does no harm
    #[arg(required = true)]
    pub files: Vec<PathBuf>,
    /// Directory for the record [default: results/NAME-TIME]
    #[arg(short, long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// A level of all results
    #[arg(long, value_name = "FACTOR=LEVEL", value_parser = pair)]
    pub level: Vec<(String, String)>,
    /// Rename a case, given by its name or by a result's number; cases of one name become one
    #[arg(long, value_name = "CASE=NAME", value_parser = pair)]
    pub map: Vec<(String, String)>,
    /// Name of the first result's case, then of the second's, ...
    #[arg(long, value_name = "CASE")]
    pub name: Vec<String>,
    /// Factor that the cases are levels of [default: case]
    #[arg(long, value_name = "NAME")]
    pub factor: Option<String>,
    /// Case to compare with [default: the first]
    #[arg(long, value_name = "CASE")]
    pub baseline: Option<String>,
    /// Import only the results with these numbers
    #[arg(long, value_name = "N,...", value_delimiter = ',')]
    pub select: Vec<u32>,
    /// Question that the record is to answer
    #[arg(long, value_name = "TEXT")]
    pub question: Option<String>,
    /// Print the result as JSON
    #[arg(long)]
    pub json: bool,
}

/// Forms of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ReportFormat {
    /// One file with all plots, which needs no network
    Html,
    /// Tables and conclusion, with links to the page and to the record
    #[value(alias = "md")]
    Markdown,
    /// One row for each trial and metric
    Csv,
    /// Every number
    Json,
    /// Tables for a terminal
    Text,
}

impl ReportArgs {
    /// The form that was asked for, or that the name of the output file tells.
    pub fn form(&self) -> Option<ReportFormat> {
        let by_name = || match self.out.as_ref()?.extension()?.to_str()? {
            "html" | "htm" => Some(ReportFormat::Html),
            "md" | "markdown" => Some(ReportFormat::Markdown),
            "csv" => Some(ReportFormat::Csv),
            "json" => Some(ReportFormat::Json),
            _ => None,
        };
        let json = self.json.then_some(ReportFormat::Json);
        self.format.or(json).or_else(by_name)
    }
}

/// A list of CPUs. A newtype, because clap reads a bare `Vec` as a repeated flag.
#[derive(Clone, Debug)]
pub struct Cpus(pub Vec<u32>);

/// A list of source addresses, likewise.
#[derive(Clone, Debug)]
pub struct Sources(pub Vec<IpAddr>);

fn cpus(text: &str) -> Result<Cpus, String> {
    parse_cpus(text).map(Cpus)
}

fn sources(text: &str) -> Result<Sources, String> {
    parse_sources(text).map(Sources)
}

fn duration(text: &str) -> Result<Nanos, String> {
    parse_duration(text).map_err(|e| e.to_string())
}

fn size(text: &str) -> Result<record::Bytes, String> {
    record::parse_bytes(text).map_err(|e| e.to_string())
}

fn count(text: &str) -> Result<u64, String> {
    parse_count(text).map_err(|e| e.to_string())
}

/// A plain number may have a fraction (0.5: one request every two seconds); with a suffix it is a count.
fn rate(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(per_s) if per_s.is_finite() && per_s >= 0.0 => Ok(per_s),
        Ok(_) => Err(format!("`{text}` is not a rate such as 0.5, 300 or 20k")),
        Err(_) => count(text).map(|per_s| per_s as f64),
    }
}

fn count_u32(text: &str) -> Result<u32, String> {
    match count(text)? {
        0 => Err("must be at least 1".to_owned()),
        n => u32::try_from(n).map_err(|_| format!("{n} is too large")),
    }
}

fn half_width(text: &str) -> Result<f64, String> {
    plan::parse_half_width(text)
        .ok_or_else(|| format!("`{text}` is not a precision such as ±1% or 0.01"))
}

fn share(text: &str) -> Result<f64, String> {
    let (number, scale) = match text.strip_suffix('%') {
        Some(number) => (number, 100.0),
        None => (text, 1.0),
    };
    match number.trim().parse::<f64>() {
        Ok(value) if (0.0..=scale).contains(&value) => Ok(value / scale),
        _ => Err(format!("`{text}` is not a share such as 1% or 0.01")),
    }
}

/// `FACTOR=LEVEL`; what stands behind the first sign of equality is the level.
fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.trim().is_empty() && !value.trim().is_empty() => {
            Ok((name.trim().to_owned(), value.trim().to_owned()))
        }
        _ => Err(format!(
            "`{text}` is not NAME=VALUE, for example path=direct"
        )),
    }
}

fn header(text: &str) -> Result<(String, String), String> {
    match text.split_once(':') {
        Some((name, value)) if !name.trim().is_empty() => {
            Ok((name.trim().to_owned(), value.trim().to_owned()))
        }
        _ => Err(format!("`{text}` is not of the form `Name: value`")),
    }
}

/// `127.0.0.1:8080` is what people type; every peer reads it as http.
fn with_scheme(url: &str) -> String {
    if url.contains("://") {
        url.to_owned()
    } else {
        format!("http://{url}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(args: &[&str]) -> LoadSpec {
        let args = ["prony", "load"].iter().chain(args);
        match Cli::try_parse_from(args).unwrap().verb {
            Verb::Load(load) => load.spec(),
            other => panic!("not a load: {other:?}"),
        }
    }

    #[test]
    fn the_command_line_is_consistent() {
        use clap::CommandFactory;
        Cli::command().debug_assert();
    }

    #[test]
    fn wrk_habits_are_understood() {
        let spec = load(&["-t2", "-c64", "-d30s", "--latency", "http://h/"]);
        assert_eq!((spec.connections, spec.threads), (64, Some(2)));
        assert_eq!(spec.duration, Some(Nanos::from_secs(30)));
        assert_eq!(load(&["-z", "5s", "h:80/x"]).url, "http://h:80/x");
        assert_eq!(
            load(&["-R", "20k", "http://h/"]).arrival,
            Arrival::Constant { per_s: 20_000.0 }
        );
        assert_eq!(
            load(&["-R", "0.5", "http://h/"]).arrival,
            Arrival::Constant { per_s: 0.5 }
        );
        for bad in ["-1", "nan", "inf", "1x"] {
            let rate = format!("--rate={bad}");
            assert!(Cli::try_parse_from(["prony", "load", &rate, "http://h/"]).is_err());
        }
        let counted = load(&["-n", "10k", "http://h/"]);
        assert_eq!((counted.requests, counted.duration), (Some(10_000), None));
    }

    #[test]
    fn bodies_and_headers() {
        let spec = load(&["-H", "A: b:c", "--body", "@f", "http://h/"]);
        assert_eq!(spec.headers, [("A".to_owned(), "b:c".to_owned())]);
        assert_eq!(spec.body, Body::File("f".to_owned()));
    }

    #[test]
    fn a_near_miss_is_suggested() {
        let error =
            Cli::try_parse_from(["prony", "load", "--conections", "3", "http://h/"]).unwrap_err();
        assert_eq!(error.exit_code(), 2);
        assert!(error.to_string().contains("--connections"));
    }
}
