//! A timetable: when each request of an open loop is due, read from a record of real traffic, and which request it is.
//!
//! It is shared, never copied: millions of entries are held once, at twelve bytes each.

use crate::Nanos;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Due times in order, from the begin of the load on, and for a replay the request that is due.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(from = "Entries", into = "Entries")]
pub struct Timetable {
    due: Arc<[u64]>,
    /// Numbers of requests of the workload; empty where it is left to the load which one is sent.
    which: Arc<[u32]>,
    peak_per_s: f64,
}

/// A timetable as another host is told it.
#[derive(Serialize, Deserialize)]
struct Entries {
    due: Vec<u64>,
    which: Vec<u32>,
}

impl From<Timetable> for Entries {
    fn from(table: Timetable) -> Self {
        Entries {
            due: table.due.to_vec(),
            which: table.which.to_vec(),
        }
    }
}

impl From<Entries> for Timetable {
    /// Whatever order they are told in, and for as many as both lists have.
    fn from(entries: Entries) -> Self {
        let Entries { mut due, mut which } = entries;
        due.sort_unstable();
        if !which.is_empty() {
            which.resize(due.len(), 0);
        }
        Timetable::new(due, which)
    }
}

impl Timetable {
    /// The most entries: with them it takes 120 MB.
    pub const MAX: usize = 10_000_000;

    /// A timetable of `due`, in ns and ascending; `which` is empty or as long.
    pub fn new(due: Vec<u64>, which: Vec<u32>) -> Self {
        const SECOND: u64 = 1_000_000_000;
        debug_assert!(due.is_sorted() && (which.is_empty() || which.len() == due.len()));
        // The most in any stretch of a second, by one walk with two ends.
        let mut from = 0;
        let mut peak = 0;
        for (i, at) in due.iter().enumerate() {
            while at - due[from] >= SECOND {
                from += 1;
            }
            peak = peak.max(i + 1 - from);
        }
        Timetable {
            due: due.into(),
            which: which.into(),
            peak_per_s: peak as f64,
        }
    }

    /// How many requests it has.
    pub fn len(&self) -> usize {
        self.due.len()
    }

    /// It has no request.
    pub fn is_empty(&self) -> bool {
        self.due.is_empty()
    }

    /// When request number `i` is due.
    #[inline]
    pub fn due(&self, i: usize) -> Option<u64> {
        self.due.get(i).copied()
    }

    /// Which request of the workload number `i` is; `None` where the timetable does not say.
    #[inline]
    pub fn which(&self, i: usize) -> Option<u32> {
        self.which.get(i).copied()
    }

    /// How many requests are due in the first `elapsed`.
    pub fn expected(&self, elapsed: Nanos) -> usize {
        self.due.partition_point(|due| *due < elapsed.0)
    }

    /// The most requests in any second.
    pub fn peak_per_s(&self) -> f64 {
        self.peak_per_s
    }

    /// How long a load by it is: to the last request and one mean gap more, so that their number over this time is
    /// their rate; a second where there is no gap.
    pub fn span(&self) -> Nanos {
        const ONE: u64 = 1_000_000_000;
        let gaps = self.due.len().saturating_sub(1) as u64;
        match self.due.last() {
            Some(&last) if last > 0 => Nanos(last + (last / gaps.max(1)).max(1)),
            _ => Nanos(ONE),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timetable_knows_its_number_its_peak_and_its_length() {
        let second = 1_000_000_000;
        let table = Timetable::new(vec![0, 0, second - 1, second, 3 * second], Vec::new());
        let due = |ns| table.expected(Nanos(ns));
        assert_eq!([due(0), due(1), due(second), due(second + 1)], [0, 2, 3, 4]);
        assert_eq!(table.peak_per_s(), 3.0, "a second is half open");
        assert_eq!(table.span(), Nanos(3 * second + 3 * second / 4));
        assert_eq!((table.due(4), table.due(5)), (Some(3 * second), None));
        assert_eq!(table.which(0), None);
        assert_eq!(Timetable::new(vec![0], vec![7]).which(0), Some(7));
        assert_eq!(Timetable::new(vec![0; 4], Vec::new()).span(), Nanos(second));
    }
}
