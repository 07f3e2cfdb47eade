//! `prony traffic FILE`: traffic of a TCP in user space, as a file says, watched, judged, shown, and kept where asked.
//!
//! Its surprise: the CPU of a connection is refused, not shown, on a veth whose receive work has no place of its own.
//! There the kernel's work for one side runs on the core of the other, and both figures would be wrong.

use crate::cli::TrafficArgs;
use crate::executor::run::analyse;
use crate::exit::{Exit, Failure};
use crate::interrupt::Interrupt;
use crate::store::DirStore;
use crate::terminal::{self, Progress};
use crate::{host, screen};
use analysis::traffic::CPU_NOT_COMPARABLE;
use linux::Root;
use monitor::{Observation, Watch, WatchConfig};
use plan::traffic::TrafficFile;
use record::run::FORMAT;
use record::traffic::Side;
use record::{Clock, Manifest, Nanos, RunRecord, TrafficOutcome, TrafficRun, TrafficSpec, Warning};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use traffic::ends::Places;
use traffic::{MonotonicClock, ProgramError, ends, program};

/// Largest file that a traffic file may name: a capture is read whole.
const LARGEST: u64 = 1 << 30;

/// Runs the verb.
///
/// # Errors
/// [`Failure`] when the file is wrong, or the traffic could not start.
pub fn run(args: &TrafficArgs) -> Result<Exit, Failure> {
    let Some(path) = &args.file else {
        return super::traffic_lab::run(args);
    };
    let (mut file, text) = read(path)?;
    if let Some(duration) = args.duration {
        file.spec.duration = Some(duration);
    }
    file.spec.seed = args.seed.unwrap_or(file.spec.seed);
    if let Some(threads) = args.threads {
        let both = file.spec.client.iter_mut().chain(&mut file.spec.server);
        both.for_each(|side| side.threads = threads);
    }
    let cpus: Vec<u32> = sides(&file.spec).flat_map(Side::pinned).collect();
    host::check_cpus(&cpus, "the sides' threads")?;
    if args.dry_run {
        return dry_run(args, &file);
    }
    let out = args.out.as_deref();
    refuse_record(out)?;
    let interrupt = Interrupt::install()?;
    let lab = match args.lab {
        true => Some(super::traffic_lab::place(args, &mut file.spec, &interrupt)?),
        false => None,
    };
    if let Some(coalesce) = args.coalesce {
        let sides = file.spec.client.iter_mut().chain(&mut file.spec.server);
        sides.for_each(|side| side.coalesce = coalesce);
    }
    let spec = &file.spec;
    let cpus: Vec<u32> = sides(spec).flat_map(Side::pinned).collect();
    let base = path.parent().unwrap_or(Path::new(""));
    let places = lab
        .as_ref()
        .map_or_else(Places::default, |lab| lab.places.clone());
    let ends = ends::open(spec, base, &places)
        .map_err(|e| Failure::new(exit_of(&e), e.to_string(), e.remedy()))?;
    let started = host::timestamp();
    let (mut outcome, watched) = drive(spec, ends, &cpus, &interrupt)?;
    outcome.warnings.extend(match &lab {
        Some(lab) => lab.uncharged.as_deref().map(uncharged),
        None => cpu_warning(spec),
    });
    drop(lab);
    let run = TrafficRun {
        spec: file.spec.clone(),
        outcome,
    };
    let directory = out.map(|dir| dir.display().to_string());
    let document =
        report::traffic::document(&run, &watched.series, directory.as_deref().unwrap_or(""));
    let kept = out.map(|dir| keep(path, dir, &file, &text, &run, watched, started));
    if args.json {
        terminal::result(&super::to_json(&document))?;
    } else {
        terminal::result(&report::traffic::traffic_text(&document, terminal::style()))?;
        if let (Some(dir), Some(Ok(()))) = (out, &kept) {
            let page = dir.join(super::report::PAGE);
            terminal::result(&format!("report: {}", page.display()))?;
        }
    }
    kept.transpose()?;
    Ok(match (run.outcome.interrupted, document.verdict.valid) {
        (true, _) => Exit::Interrupted,
        (false, true) => Exit::Valid,
        (false, false) => Exit::Invalid,
    })
}

fn sides(spec: &TrafficSpec) -> impl Iterator<Item = &Side> {
    spec.client.iter().chain(&spec.server)
}

/// The file, and its text for the record.
fn read(path: &Path) -> Result<(TrafficFile, String), Failure> {
    let name = path.display().to_string();
    let text = std::fs::read_to_string(path).map_err(|e| {
        Failure::new(
            Exit::Usage,
            format!("reading `{name}`: {e}"),
            "give a traffic file; docs/traffic.md shows one",
        )
    })?;
    let base = path.parent().unwrap_or(Path::new(""));
    let beside = |file: &str| -> Result<Vec<u8>, String> {
        let path = base.join(file);
        let length = std::fs::metadata(&path).map_err(|e| e.to_string())?.len();
        match length {
            0..=LARGEST => std::fs::read(&path).map_err(|e| e.to_string()),
            _ => Err(format!("it is larger than {} MiB", LARGEST >> 20)),
        }
    };
    let file = TrafficFile::parse(&text, &name, &beside)
        .map_err(|e| Failure::new(Exit::Usage, e.to_string(), e.remedy()))?;
    Ok((file, text))
}

/// What would be run.
fn dry_run(args: &TrafficArgs, file: &TrafficFile) -> Result<Exit, Failure> {
    let run = TrafficRun {
        spec: file.spec.clone(),
        outcome: TrafficOutcome::default(),
    };
    let asked = report::traffic::document(&run, &[], "").asked;
    match args.json {
        true => terminal::result(&super::to_json(&asked))?,
        false => terminal::result(&report::traffic::asked_text(&asked))?,
    }
    Ok(Exit::Valid)
}

/// A record is never written over another one, and that is known before the traffic.
fn refuse_record(out: Option<&Path>) -> Result<(), Failure> {
    match out.filter(|dir| dir.join("manifest.json").exists()) {
        Some(dir) => Err(Failure::new(
            Exit::Usage,
            format!("`{}` holds a record already", dir.display()),
            "give another directory with --out, or delete that one",
        )),
        None => Ok(()),
    }
}

/// Makes the traffic, with the host watched beside it and progress shown.
fn drive(
    spec: &TrafficSpec,
    ends: program::Ends,
    cpus: &[u32],
    interrupt: &Interrupt,
) -> Result<(TrafficOutcome, Observation), Failure> {
    let mut progress = Progress::new("");
    progress.keep_off(cpus);
    let watch = Watch::start(&WatchConfig::default(), Arc::new(|| MonotonicClock.now()));
    let mut begin: Option<Nanos> = None;
    let outcome = program::run(
        spec,
        ends,
        &mut || interrupt.asked(),
        &mut |slice, templates| {
            let begin = *begin.get_or_insert(slice.from);
            if screen::is_live() {
                screen::head(report::traffic::live_templates(templates));
            }
            let line = report::traffic::progress_line(spec, begin, slice);
            progress.show(slice.to.since(begin), &line);
        },
    );
    let watched = watch.stop();
    screen::close();
    Ok((outcome.map_err(|e| failure(&e))?, watched))
}

/// What the file asks for cannot be, or the host lacks it.
fn exit_of(error: &ends::EndError) -> Exit {
    match error {
        ends::EndError::Ports(_) | ends::EndError::UnlikeThreads { .. } => Exit::Usage,
        _ => Exit::Environment,
    }
}

fn failure(error: &ProgramError) -> Failure {
    let exit = match error {
        ProgramError::NoSide
        | ProgramError::NoTemplate
        | ProgramError::FewPorts { .. }
        | ProgramError::IdleThreads { .. }
        | ProgramError::TooMany { .. }
        | ProgramError::Addresses { .. }
        | ProgramError::NoTarget { .. }
        | ProgramError::SameTarget { .. }
        | ProgramError::Rate { .. }
        | ProgramError::Template { .. }
        | ProgramError::Request { .. }
        | ProgramError::DatagramTooLarge { .. }
        | ProgramError::Tls { .. } => Exit::Usage,
        _ => Exit::Environment,
    };
    Failure::new(exit, error.to_string(), error.remedy())
}

/// Why CPU figures of this run would not be what they seem.
fn cpu_warning(spec: &TrafficSpec) -> Option<Warning> {
    let root = Root::default();
    let loose = |side: &&Side| {
        let veth = linux::veth::veth(&root, &side.interface);
        veth.is_some_and(|veth| !veth.is_pinned)
    };
    let interface = &sides(spec).find(loose)?.interface;
    Some(Warning::new(
        CPU_NOT_COMPARABLE,
        format!(
            "{interface} is a veth whose receive work runs on the core of whoever sends: CPU per connection and per Gb/s would hold the other side's work, and are left out"
        ),
        format!(
            "give the work a place at both ends: `echo 1 > /sys/class/net/{interface}/threaded` and pin the threads napi/{interface}-*, or set queues/rx-*/rps_cpus"
        ),
    ))
}

/// The laboratory could not keep the sides' work apart.
fn uncharged(cause: &str) -> Warning {
    Warning::new(
        CPU_NOT_COMPARABLE,
        format!("CPU per connection and per Gb/s are left out: {cause}"),
        "use a host with two cores or more, and a kernel with RPS and threaded NAPI".to_owned(),
    )
}

/// Writes the record and its page.
fn keep(
    path: &Path,
    directory: &Path,
    file: &TrafficFile,
    text: &str,
    run: &TrafficRun,
    watched: Observation,
    started: String,
) -> Result<(), Failure> {
    let question = match file.question.as_str() {
        "" => format!("What does {} reach?", name_of(path)),
        question => question.to_owned(),
    };
    let (plan, mut trials) = analysis::traffic::trials(run, &question);
    if let Some(first) = trials.first_mut() {
        first.series = watched.series;
        first.unavailable = watched.unavailable;
    }
    let record = RunRecord {
        manifest: Manifest {
            format: FORMAT,
            prony: env!("CARGO_PKG_VERSION").to_owned(),
            question,
            command: std::env::args().collect(),
            started,
            ended: Some(host::timestamp()),
            interrupted: run.outcome.interrupted,
        },
        plan: serde_json::to_value(plan).expect("a plan is plain data with string keys"),
        experiment: text.to_owned(),
        environment: monitor::environment::collect(&Root::default()),
        trials,
        traffic: Some(run.clone()),
    };
    let failed = |cause: String| {
        Failure::new(
            Exit::Environment,
            format!("writing the record `{}`: {cause}", directory.display()),
            "check the free space and the permissions of the directory",
        )
    };
    let mut store = DirStore::create(directory).map_err(|e| failed(e.to_string()))?;
    record.save(&mut store).map_err(|e| failed(e.to_string()))?;
    let analysis = analyse(&record)?;
    let diagnoses = super::report::diagnoses(&store, &record, &analysis)?;
    super::report::write_html(&mut store, &record, &analysis, &diagnoses).map_err(failed)
}

fn name_of(path: &Path) -> String {
    path.file_name().map_or_else(
        || PathBuf::from(path).display().to_string(),
        |name| name.to_string_lossy().into_owned(),
    )
}
