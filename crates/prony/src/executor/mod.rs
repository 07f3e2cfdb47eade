//! The glue between plan, targets, load, monitors and record: runs trials one after another.

pub mod budget;
pub mod carry;
pub mod change;
mod consumers;
pub mod contained;
pub mod drive;
pub mod examine;
pub mod hosted;
pub mod live;
pub mod outlook;
pub mod prove;
pub mod rate;
pub mod run;
pub mod runtimes;
pub mod single;
pub mod source;
pub mod target;
pub mod trial;
mod warm;

use crate::exit::{Exit, Failure};
use crate::host;
use sut::{Journal, Launcher};

/// What starts targets and copies, with its journal.
///
/// # Errors
/// [`Failure`] when the journal cannot be written: nothing is started then.
pub fn launcher() -> Result<Launcher, Failure> {
    // Nothing is started without a journal: after a `kill -9` nobody would know what to end.
    let no_journal = |e: sut::TargetError| {
        Failure::new(
            Exit::Environment,
            format!("opening the journal of what is started on this host: {e}"),
            "set XDG_STATE_HOME to a directory that you may write to",
        )
    };
    Ok(Launcher {
        journal: Journal::open(&sut::state_dir()).map_err(no_journal)?,
        prony: host::own_binary()?,
        work_dir: std::env::temp_dir(),
    })
}
