//! `prony diagnose --from FILE ...`: a diagnosis of what other tools printed.

use crate::cli::DiagnoseArgs;
use crate::exit::{Exit, Failure};
use crate::terminal;

/// Runs the verb on files.
///
/// # Errors
/// [`Failure`] when a file cannot be read or nothing in it is known.
pub fn run(args: &DiagnoseArgs) -> Result<Exit, Failure> {
    let texts: Result<Vec<(String, String)>, Failure> = args
        .from
        .iter()
        .map(|path| {
            let bytes = std::fs::read(path).map_err(|e| {
                Failure::new(
                    Exit::Usage,
                    format!("reading `{}`: {e}", path.display()),
                    "give a file with the output of strace -c, vmstat, pidstat, wrk or ab",
                )
            })?;
            let text = String::from_utf8_lossy(&bytes).into_owned();
            Ok((path.display().to_string(), text))
        })
        .collect();
    let pasted = import::read_pasted(&texts?);
    if pasted.is_empty() {
        return Err(Failure::new(
            Exit::Usage,
            "nothing in these files is the output of a tool that prony knows",
            "give the output of strace -c, lines of strace, sizes counted by `uniq -c`, vmstat, pidstat, wrk or ab",
        ));
    }
    let diagnosis = analysis::diagnose_facts(&analysis::pasted_facts(&pasted), "pasted");
    if args.json {
        let document = report::json::diagnose_document(None, None, &diagnosis, Default::default());
        terminal::result(&super::to_json(&document))?;
    } else {
        terminal::note(&format!("read: {}", pasted.contents().join(", ")));
        let text = report::text::diagnosis_text(&diagnosis, None, terminal::style());
        terminal::result(&text)?;
    }
    Ok(Exit::Valid)
}
