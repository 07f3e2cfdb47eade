//! `--replay` and `--arrivals` of `prony load`: a file is read line by line, and says when which request is due.
//!
//! What the lines mean is known in `import`; here they are taken from the file.

use crate::cli::LoadArgs;
use crate::exit::{Exit, Failure};
use import::{AccessLog, ArrivalList, Cut, LeftOutLine, ReplayError};
use record::LoadSpec;
use report::json::Replayed;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

/// A longer line is none of a log: what servers take as a request is shorter.
const LINE_MAX: u64 = 128 * 1024;

/// Makes the load that the flags name, if they do; what was read is for the result.
///
/// # Errors
/// [`Failure`] when flags contradict each other, or the file cannot be read or says no load.
pub fn read(args: &LoadArgs, spec: &mut LoadSpec) -> Result<Option<Replayed>, Failure> {
    let (flag, path) = match (&args.replay, &args.arrivals) {
        (Some(path), _) => ("--replay", path),
        (None, Some(path)) => ("--arrivals", path),
        (None, None) if args.speed == 1.0 => return Ok(None),
        (None, None) => {
            return Err(usage(
                "--speed",
                "it says how fast a record is followed, and none is given",
                "add --replay or --arrivals",
            ));
        }
    };
    let says = [
        (args.load.rate.is_some(), "--rate"),
        (args.load.warmup.is_some(), "--warmup"),
        (args.load.think.is_some(), "--think"),
        (args.search.is_asked(), "a search for a rate"),
        (args.replay.is_some() && args.urls.len() > 1, "several URLs"),
    ];
    if let Some((_, other)) = says.iter().find(|(is_given, _)| *is_given) {
        let cause = format!("{other} cannot be given with it: the file says what is sent when");
        return Err(usage(flag, &cause, &format!("leave out {other} or {flag}")));
    }
    let cut = Cut {
        speed: args.speed,
        span_ns: spec
            .duration
            .filter(|_| args.load.duration.is_some())
            .map(|d| d.0),
        requests: spec.requests,
    };
    // Without -d the load is as long as the file says.
    if args.load.duration.is_none() {
        spec.duration = None;
    }
    let file = path.display().to_string();
    let failed = |cause: Cause| match cause {
        Cause::File(e) => usage(&file, &e.to_string(), "give a file that this user may read"),
        Cause::Content(e) => usage(&file, &e.to_string(), e.remedy()),
    };
    let mut replayed = Replayed {
        file: file.clone(),
        kind: "arrivals".to_owned(),
        speed: args.speed,
        requests: 0,
        distinct: None,
        left_out: Default::default(),
        recorded_status: Default::default(),
    };
    let timetable = if args.replay.is_some() {
        let made = access_log(path, args.replay_unsafe, cut).map_err(failed)?;
        replayed.kind = "access_log".to_owned();
        replayed.distinct = Some(made.workload.requests.len() as u64);
        let left_out = made.left_out.iter();
        replayed.left_out = left_out
            .map(|(why, n)| (why.name().to_owned(), *n))
            .collect();
        let status = made.status.iter();
        replayed.recorded_status = status.map(|(code, n)| (code.to_string(), *n)).collect();
        spec.workload = Some(made.workload);
        made.timetable
    } else {
        let mut list = ArrivalList::default();
        each_line(path, |line| {
            list.line(line.unwrap_or(b"a line that is too long"))
        })
        .map_err(failed)?;
        list.finish(cut).map_err(|e| failed(Cause::Content(e)))?
    };
    replayed.requests = timetable.len() as u64;
    spec.follow(timetable);
    Ok(Some(replayed))
}

fn usage(what: &str, cause: &str, remedy: &str) -> Failure {
    Failure::new(Exit::Usage, format!("reading `{what}`: {cause}"), remedy)
}

/// Why a file makes no load.
enum Cause {
    File(io::Error),
    Content(ReplayError),
}

fn access_log(path: &Path, takes_unsafe: bool, cut: Cut) -> Result<import::Replay, Cause> {
    let mut log = AccessLog::new(takes_unsafe);
    each_line(path, |line| match line {
        Some(line) => log.line(line),
        None => {
            log.leave_out(LeftOutLine::Malformed);
            Ok(())
        }
    })?;
    log.finish(cut).map_err(Cause::Content)
}

/// Shows the lines of a file one by one, `None` for one that is too long.
fn each_line(
    path: &Path,
    mut show: impl FnMut(Option<&[u8]>) -> Result<(), ReplayError>,
) -> Result<(), Cause> {
    let mut file = BufReader::new(File::open(path).map_err(Cause::File)?);
    let mut line = Vec::new();
    loop {
        line.clear();
        let mut short = file.by_ref().take(LINE_MAX);
        let len = short.read_until(b'\n', &mut line).map_err(Cause::File)?;
        if len == 0 {
            return Ok(());
        }
        let is_cut = len as u64 == LINE_MAX && !line.ends_with(b"\n");
        if is_cut {
            file.skip_until(b'\n').map_err(Cause::File)?;
        }
        show((!is_cut).then_some(line.as_slice())).map_err(Cause::Content)?;
    }
}
