//! What people see: results on standard output, everything else on standard error.
//!
//! Progress is a line of the live screen (`screen`) on a terminal; in a log it is a plain line every few seconds,
//! and with `--quiet` nothing. The surprise: nothing here uses `println!` and its kin, which panic when the stream
//! cannot be written.

use crate::exit::{Exit, Failure};
use crate::screen;
use record::{Nanos, Warning};
use report::text::Style;
use std::io::{ErrorKind, IsTerminal, Write};

/// Seconds between progress lines in a log.
const LOG_EVERY: Nanos = Nanos::from_secs(10);

/// A result on standard output. A reader that went away (`prony ... | head`) is not an error.
///
/// # Errors
/// [`Exit::Environment`] when it cannot be written: a script must not take half a result for a whole one.
pub fn result(text: &str) -> Result<(), Failure> {
    // Both streams may lead to one terminal.
    screen::close();
    let mut out = std::io::stdout().lock();
    let end = if text.ends_with('\n') { "" } else { "\n" };
    match write!(out, "{text}{end}").and_then(|()| out.flush()) {
        Err(e) if e.kind() != ErrorKind::BrokenPipe => Err(Failure::new(
            Exit::Environment,
            format!("writing the result to standard output: {e}"),
            "give standard output a file on a disk with space, or a reader",
        )),
        _ => Ok(()),
    }
}

/// A line on standard error. There is nobody left to tell when that cannot be written.
fn line(text: &str) {
    screen::beside(|| {
        let _ = writeln!(std::io::stderr().lock(), "{text}");
    });
}

/// A sentence for the person at the terminal; none with `--quiet`.
pub fn note(text: &str) {
    if !screen::is_quiet() {
        line(text);
    }
}

/// What must be known of a result whose layout has no place for it; `--quiet` does not silence it.
pub fn truth(text: &str) {
    line(text);
}

/// A warning with its remedy.
pub fn warning(warning: &Warning) {
    line(&format!("warning: {}", warning.seen));
    remedy(&warning.remedy);
}

/// Why a command could not do its work.
pub fn failure(failure: &Failure) {
    line(&format!("error: {}", failure.message));
    remedy(&failure.remedy);
}

fn remedy(text: &str) {
    if !text.is_empty() {
        line(&format!("remedy: {text}"));
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

/// The line that says what runs now.
#[derive(Debug)]
pub struct Progress {
    live: bool,
    quiet: bool,
    prefix: String,
    next: Nanos,
}

impl Progress {
    /// Progress on standard error; `prefix` stands before every line.
    pub fn new(prefix: &str) -> Self {
        Self {
            live: screen::is_live(),
            quiet: screen::is_quiet(),
            prefix: prefix.to_owned(),
            next: LOG_EVERY,
        }
    }

    /// Progress that nobody sees.
    pub fn silent() -> Self {
        Self {
            live: false,
            quiet: true,
            prefix: String::new(),
            next: LOG_EVERY,
        }
    }

    /// What stands before every line from now on; returns what stood there.
    pub fn prefix(&mut self, prefix: &str) -> String {
        std::mem::replace(&mut self.prefix, prefix.to_owned())
    }

    /// CPUs of the load threads: nothing is drawn there.
    pub fn keep_off(&self, cpus: &[u32]) {
        if self.live {
            screen::avoid(cpus);
        }
    }

    /// Something new begins, whose time counts from zero.
    pub fn restart(&mut self) {
        self.next = LOG_EVERY;
    }

    /// Shows `state`, which describes the state `elapsed` after the start. On a terminal it is drawn by another
    /// thread, so a caller in the middle of a measurement is not held up.
    pub fn show(&mut self, elapsed: Nanos, state: &str) {
        if self.live {
            screen::now(&format!("{}{state}", self.prefix));
        } else if elapsed >= self.next && !self.quiet {
            self.next = elapsed + LOG_EVERY;
            line(&format!("{}{state}", self.prefix));
        }
    }

    /// Takes the line away, so that what follows starts on a clean one.
    pub fn clear(&mut self) {
        if self.live {
            screen::now_is_over();
        }
    }
}
