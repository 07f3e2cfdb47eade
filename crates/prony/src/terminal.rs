//! What people see: results on standard output, everything else on standard error.
//!
//! Progress rewrites one line on a terminal; in a log it is a plain line every few seconds.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "this module is the one place that prints"
)]

use crate::exit::Failure;
use record::{Nanos, Warning};
use report::text::Style;
use std::io::{IsTerminal, Write};

/// Seconds between progress lines in a log.
const LOG_EVERY: Nanos = Nanos::from_secs(10);

/// A result on standard output. A reader that went away (`prony ... | head`) is not an error.
pub fn result(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(text.as_bytes());
    if !text.ends_with('\n') {
        let _ = out.write_all(b"\n");
    }
    let _ = out.flush();
}

/// A sentence for the person at the terminal.
pub fn note(text: &str) {
    eprintln!("{text}");
}

/// A warning with its remedy.
pub fn warning(warning: &Warning) {
    eprintln!("warning: {}", warning.seen);
    if !warning.remedy.is_empty() {
        eprintln!("remedy: {}", warning.remedy);
    }
}

/// Why a command could not do its work.
pub fn failure(failure: &Failure) {
    eprintln!("error: {}", failure.message);
    if !failure.remedy.is_empty() {
        eprintln!("remedy: {}", failure.remedy);
    }
}

/// How results are marked: in colour on a terminal, unless `NO_COLOR` is set (no-color.org).
pub fn style() -> Style {
    if std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none() {
        Style::Ansi
    } else {
        Style::Plain
    }
}

/// The one line that says how things go.
#[derive(Debug)]
pub struct Progress {
    live: bool,
    prefix: String,
    shown: usize,
    next: Nanos,
}

impl Progress {
    /// Progress on standard error; `prefix` stands before every line.
    pub fn new(prefix: &str) -> Self {
        Self {
            live: std::io::stderr().is_terminal(),
            prefix: prefix.to_owned(),
            shown: 0,
            next: LOG_EVERY,
        }
    }

    /// Shows `line`, which describes the state `elapsed` after the start.
    pub fn show(&mut self, elapsed: Nanos, line: &str) {
        let line = format!("{}{line}", self.prefix);
        if self.live {
            let width = line.chars().count();
            let padding = self.shown.saturating_sub(width);
            eprint!("\r{line}{:padding$}", "");
            let _ = std::io::stderr().flush();
            self.shown = width;
        } else if elapsed >= self.next {
            self.next = elapsed + LOG_EVERY;
            eprintln!("{line}");
        }
    }

    /// Takes the line away, so that what follows starts on a clean one.
    pub fn clear(&mut self) {
        if self.live && self.shown > 0 {
            eprint!("\r{:width$}\r", "", width = self.shown);
            let _ = std::io::stderr().flush();
            self.shown = 0;
        }
    }
}
