//! `prony load`: one load, watched, judged, shown.
//!
//! Its surprise: when the URL is served by processes of this host, they are watched too, so that the
//! verdict can name the worker that limits.

use crate::cli::{Export, LoadArgs};
use crate::executor::drive::{Driven, Instrumentation, drive};
use crate::exit::{Exit, Failure};
use crate::interrupt::Interrupt;
use crate::{host, terminal};
use analysis::Verdict;
use monitor::Watched;
use record::workload::{Part, Template, WorkloadBody, WorkloadRequest};
use record::{Body, Clock, LoadOutcome, LoadSpec, TargetRecord, Warning, Workload};
use report::export::WallTime;
use report::json::{LoadDocument, SloKept};
use std::net::SocketAddr;
use std::path::Path;
use sut::discover;
use traffic::{Load, LoadError, MonotonicClock};

/// Runs the verb.
///
/// # Errors
/// [`Failure`] when the load could not start.
pub fn run(args: &LoadArgs) -> Result<Exit, Failure> {
    let spec = spec(args)?;
    host::check_cpus(&spec.cpus, "the load threads")?;
    let interrupt = Interrupt::install()?;
    let measured = measure(&spec, args.load.error_limit, &interrupt, "")
        .map_err(|e| super::load_failure(&e))?;
    let Measured { outcome, verdict } = &measured;
    let slo = args.slo.as_ref().map(|slo| SloKept {
        asked: slo.to_string(),
        broken: slo.broken(outcome),
    });
    let document = LoadDocument {
        slo: slo.clone(),
        ..report::json::load_document(&spec, outcome, verdict)
    };
    if args.json {
        terminal::result(&super::to_json(&document))?;
    } else {
        let style = terminal::style();
        let text = report::text::load_text(&spec, outcome, verdict, style);
        let slo = slo.as_ref().map(|slo| report::text::slo_text(slo, style));
        terminal::result(&(slo.unwrap_or_default() + &text))?;
    }
    export(&args.out, &document, outcome)?;
    let broken = slo.as_ref().map_or(0, |slo| slo.broken.len());
    Ok(match (outcome.interrupted, verdict.valid) {
        (true, _) => Exit::Interrupted,
        // Figures that cannot be used neither keep a service level nor miss it.
        (false, false) => Exit::Invalid,
        (false, true) if broken > 0 => Exit::Failed,
        (false, true) => Exit::Valid,
    })
}

/// A load that has ended, judged.
pub(super) struct Measured {
    pub outcome: LoadOutcome,
    pub verdict: Verdict,
}

/// Makes a load, watches the servers behind it that are of this host, and judges it.
///
/// # Errors
/// [`LoadError`] when the load could not start.
pub(super) fn measure(
    spec: &LoadSpec,
    error_limit: f64,
    interrupt: &Interrupt,
    prefix: &str,
) -> Result<Measured, LoadError> {
    let load = Load::prepare(spec)?;
    let address = load.address();
    // Whom to ask who listens, and what the monitors then read, takes ten times as long as a few requests.
    let watch = !spec.is_probe();
    let targets = Vec::from_iter((watch.then(|| discover::listening_at(address))).flatten());
    let mut progress = terminal::Progress::new(prefix);
    let Driven {
        mut outcome,
        watched,
        profiled: _,
    } = drive(
        load,
        spec,
        &Instrumentation {
            watch: watch.then(|| targets.iter().map(watched).collect()),
            ..Instrumentation::default()
        },
        &mut progress,
        &mut || interrupt.asked(),
    )?;
    let verdict = analysis::judge_load(&outcome, &watched.series, spec, &targets, error_limit);
    let warnings = analysis::load_warnings(&outcome, &watched.series, spec, &targets, error_limit);
    outcome.warnings.extend(warnings);
    if watch && servers_hidden(address, &outcome, &targets) {
        outcome.warnings.push(hidden_server(address));
    }
    Ok(Measured { outcome, verdict })
}

/// Writes the files of `--out`; `-` is standard output.
fn export(all: &[Export], document: &LoadDocument, outcome: &LoadOutcome) -> Result<(), Failure> {
    for Export { format, file } in all {
        let text = report::export::load(*format, document, outcome, wall_time(outcome));
        match file.to_str() {
            Some("-") => terminal::result(&text)?,
            _ => super::write_file(file, &text)?,
        }
    }
    Ok(())
}

/// The run's clock counts from the start of the host.
pub(super) fn wall_time(outcome: &LoadOutcome) -> WallTime {
    let now = jiff::Timestamp::now().as_nanosecond();
    let since = |at| i128::from(MonotonicClock.now().since(at).0);
    let wall = |at| u64::try_from(now - since(at)).unwrap_or(0);
    WallTime {
        from: wall(outcome.measured_from),
        to: wall(outcome.measured_to),
    }
}

/// The load that the flags describe, with the workload that they name.
fn spec(args: &LoadArgs) -> Result<LoadSpec, Failure> {
    let mut spec = args.spec();
    if let Some(path) = &args.workload {
        let (workload, url) = read_workload(path)?;
        match (args.urls.as_slice(), url) {
            ([], Some(url)) => spec.url = url,
            ([_], _) => {}
            ([], None) => {
                return Err(Failure::new(
                    Exit::Usage,
                    format!("reading `{}`: no request names a server", path.display()),
                    "give its URL behind the file: prony load --workload FILE http://127.0.0.1:8080/",
                ));
            }
            ([_, _, ..], _) => {
                return Err(Failure::new(
                    Exit::Usage,
                    "several URLs and a workload cannot both be given",
                    "give one URL, which names the server",
                ));
            }
        }
        spec.workload = Some(workload);
    } else if args.urls.len() > 1 {
        spec.workload = Some(several(args, &spec));
    }
    Ok(spec)
}

/// A workload file, and the server that its first request names.
fn read_workload(path: &Path) -> Result<(Workload, Option<String>), Failure> {
    let name = path.display().to_string();
    let text = std::fs::read_to_string(path).map_err(|e| {
        Failure::new(
            Exit::Usage,
            format!("reading `{name}`: {e}"),
            "give a workload file; docs/workloads.md shows one",
        )
    })?;
    let mut workload = plan::workload::parse(&text, &name)
        .map_err(|e| Failure::new(Exit::Usage, e.to_string(), e.remedy()))?;
    let directory = path.parent().unwrap_or(Path::new(""));
    workload.rebase(&directory.display().to_string());
    let first = match workload.requests[0].target.0.first() {
        Some(Part::Text(text)) if text.contains("://") => Some(text.clone()),
        _ => None,
    };
    Ok((workload, first))
}

/// As many requests for each of several URLs; one that is given twice gets twice as many.
fn several(args: &LoadArgs, spec: &LoadSpec) -> Workload {
    let mut requests: Vec<WorkloadRequest> = Vec::new();
    for url in &args.urls {
        let url = plan::typed::url(url).unwrap_or_default();
        if let Some(same) = requests.iter_mut().find(|request| request.name == url) {
            same.weight += 1.0;
            continue;
        }
        requests.push(WorkloadRequest {
            method: spec.method.clone(),
            body: match &spec.body {
                Body::None => WorkloadBody::None,
                Body::Text(text) => WorkloadBody::Text(Template::plain(text)),
                Body::File(file) => WorkloadBody::File(file.clone()),
            },
            ..WorkloadRequest::get(url.clone(), Template::plain(url))
        });
    }
    Workload::mix(requests)
}

fn watched(target: &TargetRecord) -> Watched {
    Watched {
        target: target.name.clone(),
        pids: target.processes.iter().map(|p| p.pid).collect(),
    }
}

/// Whether something of this host has answered whose processes this user may not see.
fn servers_hidden(address: SocketAddr, outcome: &LoadOutcome, seen: &[TargetRecord]) -> bool {
    seen.is_empty() && outcome.requests.completed > 0 && discover::is_local(address)
}

fn hidden_server(address: SocketAddr) -> Warning {
    Warning::new(
        "server_not_seen",
        format!(
            "{address} is on this host, but the server behind it was not watched: this user may not see its processes"
        ),
        "run prony as root or as the server's user",
    )
}
