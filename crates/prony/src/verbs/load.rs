//! `prony load`: one load, watched, judged, shown.
//!
//! Its surprise: when the URL is served by processes of this host, they are watched too, so that the
//! verdict can name the worker that limits.

use crate::cli::{Export, LoadArgs};
use crate::executor::drive::{Driven, Instrumentation};
use crate::executor::source::Source;
use crate::exit::{Exit, Failure};
use crate::interrupt::Interrupt;
use crate::terminal;
use analysis::{AgentFigures, Verdict};
use monitor::Watched;
use record::workload::{Part, Template, WorkloadBody, WorkloadRequest};
use record::{Body, Clock, LoadOutcome, LoadSpec, TargetRecord, Warning, Workload};
use report::export::WallTime;
use report::json::{LoadDocument, Replayed, SloKept};
use std::path::Path;
use sut::discover;
use traffic::{MonotonicClock, Place};

/// Runs the verb.
///
/// # Errors
/// [`Failure`] when the load could not start.
pub fn run(args: &LoadArgs) -> Result<Exit, Failure> {
    let (mut spec, replayed) = spec(args)?;
    refuse_of_events(args, &spec)?;
    let mut source = Source::of(&args.from, &mut spec)?;
    if args.search.is_asked() {
        return super::find::run(args, &spec, &mut source);
    }
    let interrupt = Interrupt::install()?;
    let measured = measure(&mut source, &spec, args.load.error_limit, &interrupt, "")?;
    let Measured {
        outcome,
        verdict,
        agents,
    } = &measured;
    let slo = args.slo.as_ref().map(|slo| SloKept {
        asked: slo.to_string(),
        broken: slo.broken(outcome),
    });
    // Most are made by hand, and want no document: its histogram is compressed.
    let document = || LoadDocument {
        replay: replayed.clone(),
        slo: slo.clone(),
        agents: agents.clone(),
        ..report::json::load_document(&spec, outcome, verdict)
    };
    if args.json {
        terminal::result(&super::to_json(&document()))?;
    } else {
        let style = terminal::style();
        let text = report::text::load_text(&spec, outcome, verdict, style);
        let text = text + &report::hosts::agents_text(agents);
        let slo = slo.as_ref().map(|slo| report::text::slo_text(slo, style));
        let replay = replayed.as_ref();
        let replay = replay.map(|replay| report::text::replay_text(replay, outcome, style));
        terminal::result(&(slo.unwrap_or_default() + &replay.unwrap_or_default() + &text))?;
    }
    if !args.out.is_empty() {
        export(&args.out, &document(), outcome)?;
    }
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
    /// What each host brought, of a load from several.
    pub agents: Vec<AgentFigures>,
}

/// Makes a load, watches the servers behind it that are of this host, and judges it.
///
/// # Errors
/// [`Failure`] when the load could not start.
pub(super) fn measure(
    source: &mut Source,
    spec: &LoadSpec,
    error_limit: f64,
    interrupt: &Interrupt,
    prefix: &str,
) -> Result<Measured, Failure> {
    let load = source.prepare(spec)?;
    let place = load.place();
    // Whom to ask who listens, and what the monitors then read, takes ten times as long as a few requests.
    let watch = !spec.is_probe();
    let listening = |place: &Place| match place {
        Place::Tcp(address) => discover::listening_at(*address),
        Place::Unix(path) => discover::listening_at_path(Path::new(path)),
    };
    let place = place.filter(|_| watch);
    let targets = Vec::from_iter(place.as_ref().and_then(listening));
    let mut progress = terminal::Progress::new(prefix);
    let Driven {
        mut outcome,
        hosts,
        watched,
        profiled: _,
    } = load.drive(
        spec,
        &Instrumentation {
            watch: watch.then(|| targets.iter().map(watched).collect()),
            ..Instrumentation::default()
        },
        &mut progress,
        &mut || interrupt.asked(),
    )?;
    let mut verdict = analysis::judge_load(&outcome, &watched.series, spec, &targets, error_limit);
    let warnings = analysis::load_warnings(&outcome, &watched.series, spec, &targets, error_limit);
    outcome.warnings.extend(warnings);
    let mut agents = Vec::new();
    if !hosts.is_empty() {
        let judged = analysis::judge_parts(verdict, &hosts, spec, error_limit, &outcome);
        (verdict, agents) = (judged.verdict, judged.agents);
        outcome.warnings.extend(judged.warnings);
    }
    if let Some(place) = place.filter(|place| servers_hidden(place, &outcome, &targets)) {
        outcome.warnings.push(hidden_server(&place));
    }
    Ok(Measured {
        outcome,
        verdict,
        agents,
    })
}

/// Writes the files of `--out`; `-` is standard output.
pub(super) fn export(
    all: &[Export],
    document: &LoadDocument,
    outcome: &LoadOutcome,
) -> Result<(), Failure> {
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

/// The load that the flags describe, with the workload, the log or the times that they name.
fn spec(args: &LoadArgs) -> Result<(LoadSpec, Option<Replayed>), Failure> {
    let mut spec = args.spec();
    if let Some(path) = &args.workload {
        let (mut workload, url) = read_workload(path)?;
        match (args.urls.as_slice(), url) {
            ([], Some(url)) => spec.url = url,
            ([_], Some(own)) => leave_server(&mut workload, &own),
            ([_], None) => {}
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
    let replayed = super::replay::read(args, &mut spec)?;
    Ok((spec, replayed))
}

/// Refuses what is about response times: an event has none.
fn refuse_of_events(args: &LoadArgs, spec: &LoadSpec) -> Result<(), Failure> {
    if !spec.sse {
        return Ok(());
    }
    if args.search.is_asked() {
        return Err(Failure::new(
            Exit::Usage,
            "--sse and a search cannot both be given: a search finds a rate, and a server of events sends at its own",
            "raise --connections until the verdict names what is full",
        ));
    }
    if args.slo.as_ref().is_some_and(analysis::Slo::asks_for_times) {
        return Err(Failure::new(
            Exit::Usage,
            "--sse and a service level of response times cannot both be given: when an event was sent only its server knows",
            "leave errors and rate in --slo; the gap between events stands in the result",
        ));
    }
    Ok(())
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

/// URLs of the server that the file names become paths, for the server that the command line names.
fn leave_server(workload: &mut Workload, own: &str) {
    let authority_at = own.find("://").map_or(0, |at| at + 3);
    let path_at = own[authority_at..].find(['/', '?', '#']);
    let server = &own[..path_at.map_or(own.len(), |at| authority_at + at)];
    for request in &mut workload.requests {
        let Some(Part::Text(text)) = request.target.0.first_mut() else {
            continue;
        };
        match text.strip_prefix(server).map(str::to_owned) {
            Some(path) if path.starts_with('/') => *text = path,
            Some(path) if path.is_empty() || path.starts_with(['?', '#']) => {
                *text = format!("/{path}");
            }
            _ => {}
        }
    }
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

pub(super) fn watched(target: &TargetRecord) -> Watched {
    Watched {
        target: target.name.clone(),
        pids: target.processes.iter().map(|p| p.pid).collect(),
    }
}

/// Whether something of this host has answered whose processes this user may not see.
fn servers_hidden(place: &Place, outcome: &LoadOutcome, seen: &[TargetRecord]) -> bool {
    let is_local = || place.address().is_none_or(discover::is_local);
    seen.is_empty() && outcome.requests.completed > 0 && is_local()
}

fn hidden_server(place: &Place) -> Warning {
    let address = match place {
        Place::Tcp(address) => address.to_string(),
        Place::Unix(path) => path.clone(),
    };
    Warning::new(
        "server_not_seen",
        format!(
            "{address} is on this host, but the server behind it was not watched: this user may not see its processes"
        ),
        "run prony as root or as the server's user",
    )
}
