//! How long a run still takes: its plan, corrected by how the plan has held so far.
//!
//! A plan counts warm-up and measurement; starting servers and examining them comes on top, and differs from server
//! to server. The surprise: before the first trial ends nothing is known but the plan.

use record::Nanos;

/// What is left of a run.
#[derive(Default)]
pub struct Outlook {
    /// Planned time of the trials that have ended, s.
    over_s: f64,
    elapsed: Nanos,
}

impl Outlook {
    /// A trial of that planned time has ended, `elapsed` after the start.
    pub fn ended(&mut self, planned: Nanos, elapsed: Nanos) {
        self.over_s += planned.as_secs_f64();
        self.elapsed = elapsed;
    }

    /// Time until the end, to whole seconds, when trials of these planned times are still to come.
    pub fn left(&self, ahead: impl Iterator<Item = Nanos>) -> Nanos {
        let slower = match self.over_s {
            planned if planned > 0.0 => self.elapsed.as_secs_f64() / planned,
            _ => 1.0,
        };
        let ahead_s: f64 = ahead.map(|n| n.as_secs_f64()).sum();
        Nanos::from_secs((ahead_s * slower).ceil() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_plan_is_corrected_by_what_it_took() {
        let seconds = Nanos::from_secs;
        let mut outlook = Outlook::default();
        assert_eq!(outlook.left([2, 2, 4].map(seconds).into_iter()), seconds(8));
        outlook.ended(seconds(2), seconds(3));
        let left = outlook.left([2, 4].map(seconds).into_iter());
        assert_eq!(left, seconds(9), "half as long again");
        outlook.ended(seconds(2), seconds(6));
        assert_eq!(outlook.left(std::iter::empty()), seconds(0));
    }
}
