//! `prony`: the command line, the executor and the messages. The only crate that prints or exits.

mod cli;
#[cfg(test)]
mod documented;
mod executor;
mod exit;
mod host;
mod interrupt;
mod lab;
mod screen;
mod store;
mod terminal;
mod verbs;

use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    // Before a load raises its own: servers get the limits that prony was started with.
    sut::keep_limits();
    let cli = cli::Cli::parse();
    if cli.quiet {
        screen::be_quiet();
    }
    match verbs::run(&cli.verb) {
        Ok(exit) => exit.into(),
        Err(failure) => {
            terminal::failure(&failure);
            failure.exit.into()
        }
    }
}
