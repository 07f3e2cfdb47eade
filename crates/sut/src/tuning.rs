//! Settings of the host: what a profile asks for, held against what is there, set, and put back exactly.
//!
//! In the flow: `prony tune` and an experiment with `[design] tune` call [`Tuner`]; every change is a
//! [`crate::Change::Setting`] in the journal before it is made. The surprise: before a value is changed it is
//! written back as it is. What cannot be written so could not be restored either, and is left alone.

mod host;
mod place;
mod restore;
mod tuner;

pub use host::{Place, PutBack, SettingChange};
pub use restore::{Applied, AppliedSetting, Outcome, Restored, applied, restore};
pub use tuner::{Row, State, Tuned, Tuner};

/// Whether two texts of a setting say the same: the kernel separates numbers by tabs, people by blanks.
pub(crate) fn same(a: &str, b: &str) -> bool {
    a.split_whitespace().eq(b.split_whitespace())
}
