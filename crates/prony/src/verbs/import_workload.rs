//! `prony import har|curl|openapi FILE`: requests become a workload file that `prony load --workload` takes.
//!
//! The file goes to standard output or to `--out`, what a person must know about it to standard error. The surprise:
//! a file that is there already is never written over, since it may have been edited.

use super::import::content;
use crate::cli::ImportArgs;
use crate::exit::{Exit, Failure};
use crate::terminal;
use ::import::{ConvertedWorkload, ImportError, WorkloadFormat, WorkloadOptions, convert};
use std::path::Path;

/// Makes the file.
///
/// # Errors
/// [`Failure`] when the source cannot be read or become a workload, or the file cannot be written.
pub fn run(format: WorkloadFormat, args: &ImportArgs) -> Result<Exit, Failure> {
    refuse_flags_of_records(format, args)?;
    let [path] = args.files.as_slice() else {
        return Err(Failure::new(
            Exit::Usage,
            format!("{} files cannot become one workload", args.files.len()),
            "import them one by one; curl's commands may stand in one file",
        ));
    };
    let (file, bytes) = content(path)?;
    let options = WorkloadOptions {
        secrets: args.secrets,
        hosts: args.host.clone(),
    };
    let made = convert(format, &file, &bytes, &options).map_err(|e| {
        let remedy = match &e {
            ImportError::Empty { .. } => "save what is to be imported into it".to_owned(),
            e => e.remedy(),
        };
        Failure::new(Exit::Usage, e.to_string(), remedy)
    })?;
    let out = args.out.as_deref().filter(|out| *out != Path::new("-"));
    if let Some(out) = out {
        if out.exists() {
            return Err(Failure::new(
                Exit::Usage,
                format!("`{}` is there already", out.display()),
                "give another name with --out, or delete that file",
            ));
        }
        super::write_file(out, &made.text)?;
    }
    show(args, &made, out)?;
    Ok(Exit::Valid)
}

/// What of `import` is about results.
fn refuse_flags_of_records(format: WorkloadFormat, args: &ImportArgs) -> Result<(), Failure> {
    let given = [
        (!args.level.is_empty(), "--level"),
        (!args.map.is_empty(), "--map"),
        (!args.name.is_empty(), "--name"),
        (args.factor.is_some(), "--factor"),
        (args.baseline.is_some(), "--baseline"),
        (!args.select.is_empty(), "--select"),
        (args.question.is_some(), "--question"),
    ];
    match given.iter().find(|(is_given, _)| *is_given) {
        None => Ok(()),
        Some((_, flag)) => Err(Failure::new(
            Exit::Usage,
            format!(
                "{flag} is of results, and {} becomes a workload file",
                format.name()
            ),
            "leave it out",
        )),
    }
}

fn show(args: &ImportArgs, made: &ConvertedWorkload, out: Option<&Path>) -> Result<(), Failure> {
    let written = out.map(|out| out.display().to_string());
    if args.json {
        let document = report::workload::document(made, written.as_deref());
        return terminal::result(&super::to_json(&document));
    }
    for note in &made.notes {
        terminal::note(note);
    }
    match written {
        None => terminal::result(made.text.trim_end()),
        Some(file) => {
            let server = match &made.server {
                Some(_) => String::new(),
                None => " URL".to_owned(),
            };
            terminal::result(&format!(
                "workload: {file}, {} {} (load it with `prony load --workload {file}{server}`)",
                made.requests.len(),
                if made.requests.len() == 1 {
                    "request"
                } else {
                    "requests"
                }
            ))
        }
    }
}
