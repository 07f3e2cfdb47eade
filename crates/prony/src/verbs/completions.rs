//! `prony completions`: what a shell reads to complete prony's command lines, from their definition.
//!
//! Beside the flow. A package writes it to a file when it is built, so that package and binary cannot differ.

use crate::cli::{Cli, CompletionsArgs};
use crate::exit::{Exit, Failure};
use crate::terminal;
use clap::CommandFactory;

/// Runs the verb.
///
/// # Errors
/// [`Failure`] when standard output cannot be written.
pub fn run(args: &CompletionsArgs) -> Result<Exit, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "prony", &mut script);
    terminal::result(&String::from_utf8_lossy(&script))?;
    Ok(Exit::Valid)
}
