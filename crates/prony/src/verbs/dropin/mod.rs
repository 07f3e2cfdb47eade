//! `prony ab`, `wrk`, `wrk2`, `weighttp`: those tools' flags to a load, and the load to their layouts.
//!
//! Here is what they share: getopt's way of reading flags, what is refused, and the load itself. Whether its figures
//! can be used is the first line on standard error, because the layouts have no place for it; standard output is
//! byte for byte what a script expects of the tool.

pub mod ab;
mod getopt;
pub mod weighttp;
pub mod wrk;

use super::load::{Measured, measure};
use crate::executor::source::Source;
use crate::exit::{Exit, Failure};
use crate::interrupt::Interrupt;
use crate::terminal;
use analysis::words::percent;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use record::{FailureKind, LoadSpec};
use report::text::{Style, verdict_text};
use url::Url;

/// The share of failures above which the figures cannot be used, as in `prony load`.
const ERROR_LIMIT: f64 = 0.01;

/// A flag that prony cannot honour.
fn refused(tool: &str, flag: &str, why: &str, remedy: &str) -> Failure {
    let message = format!("prony {tool} does not take {flag}: {why}");
    Failure::new(Exit::Usage, message, remedy)
}

/// What the tool itself would not understand; it exits with `code`.
fn misused(tool: &str, code: u8, why: &str) -> Failure {
    let remedy = format!("prony help {tool} has examples; the flags are {tool}'s");
    Failure::new(Exit::Tool(code), format!("{tool}: {why}"), remedy)
}

/// A number of a flag.
fn number<T: std::str::FromStr>(
    tool: &str,
    code: u8,
    flag: &str,
    text: &str,
) -> Result<T, Failure> {
    let parsed = text.trim().parse();
    parsed.map_err(|_| misused(tool, code, &format!("`{text}` is no number for {flag}")))
}

/// `Name: value`.
fn header(tool: &str, code: u8, text: &str) -> Result<(String, String), Failure> {
    plan::typed::header_line(text)
        .map_err(|e| misused(tool, code, &format!("the header `{text}` {e}")))
}

/// The value of a header for basic authorization.
fn basic(user_and_password: &str) -> String {
    format!("Basic {}", STANDARD.encode(user_and_password))
}

/// The host as a `Host` header has it.
fn host_of(url: &Url) -> String {
    url[url::Position::BeforeHost..url::Position::AfterPort].to_owned()
}

/// Makes the load and says the truth about it. The connections keep what they asked for when a person stops it.
fn load(spec: &LoadSpec) -> Result<Measured, Failure> {
    // Without the handler Ctrl-C ends the load at once, which is all that is lost.
    let interrupt = Interrupt::install().unwrap_or_default();
    let measured = measure(&mut Source::Here, spec, ERROR_LIMIT, &interrupt, "")?;
    let verdict = verdict_text(&measured.verdict, Style::Plain);
    let busy = measured.outcome.generator.utilization();
    let busy = busy.map_or("the generator did not run".to_owned(), |share| {
        format!("the generator's busiest thread was {} busy", percent(share))
    });
    let (first, rest) = verdict.split_once('\n').unwrap_or((&verdict, ""));
    let rest = rest.trim_end();
    terminal::truth(&format!("prony: {first}; {busy}"));
    if !rest.is_empty() {
        terminal::truth(rest);
    }
    for warning in &measured.outcome.warnings {
        terminal::warning(warning);
    }
    Ok(measured)
}

/// A name without an address has an exit code of the tool's own; nothing else that stands before a load is not valid.
fn unresolved(failure: Failure, code: u8) -> Failure {
    match failure.exit {
        Exit::Invalid => Failure {
            exit: Exit::Tool(code),
            ..failure
        },
        _ => failure,
    }
}

/// The first way in which the load found no connection, when nothing answered at all.
fn unreachable(measured: &Measured) -> Option<(FailureKind, String)> {
    let outcome = &measured.outcome;
    let no_connection = |kind: &FailureKind| {
        matches!(
            kind,
            FailureKind::ConnectRefused | FailureKind::ConnectTimeout | FailureKind::ConnectFailed
        )
    };
    let mut first = outcome.first_failure.iter();
    let (kind, words) = first.find(|(kind, _)| no_connection(kind))?;
    (outcome.requests.completed == 0).then(|| (*kind, words.clone()))
}
