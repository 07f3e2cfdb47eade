//! What every source of signals can do.

use crate::Recorder;
use record::Nanos;

/// How thorough a sample is to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pass {
    /// The frequent sample: what is cheap or changes fast.
    Fast,
    /// About once a second: also what is expensive or changes slowly.
    Slow,
    /// The first or the last sample: everything there is, so that growth over the whole run is exact.
    Edge,
}

/// Something that can be read again and again.
pub trait Source: Send {
    /// Name of the source, as used in [`record::Unavailable`].
    fn name(&self) -> &'static str;

    /// Whether the source takes part in this pass.
    fn due(&self, _pass: Pass) -> bool {
        true
    }

    /// Whether it keeps to a part of the budget by itself, and is not there in most passes.
    fn paces_itself(&self) -> bool {
        false
    }

    /// Reads the source and appends the values at `at`. A failure is recorded as unavailable and does
    /// not reach the caller.
    fn sample(&mut self, at: Nanos, pass: Pass, out: &mut Recorder);

    /// Called once after the last sample: records what was expected and never seen.
    fn finish(&mut self, _out: &mut Recorder) {}
}
