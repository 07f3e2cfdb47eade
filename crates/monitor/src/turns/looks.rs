//! What the tasks of a runtime did while its requests were out of sight: looks at goroutines, joined with turns.
//!
//! In the flow: part of the account. At the moment of each look it is known of every turn where it was, and of every
//! task what it did; which task served which turn is not. So both are counted, and by Little's law the mean numbers are
//! the times. The surprise: the slowest turns get their own part by the moments, not by names: in a stall all that is
//! hidden are slow turns, and all tasks wait for the lock of that stall.

use super::Located;
use super::walk::Row;
use crate::goroutines::TaskLook;
use record::{Place, PlaceSamples, TaskSamples, TaskSeen};
use std::collections::BTreeMap;

/// Fewer looks than this tell nothing.
const FEWEST_LOOKS: usize = 10;
/// Of the window, the share at each end that may be left out.
const MOST_LEFT_OUT: f64 = 0.2;
/// Mean lengths of turns that are left out at each end: those that began before the trace, or end after it, are not
/// followed, and their tasks are seen.
const LENGTHS_LEFT_OUT: u64 = 2;
/// Stacks of tasks that are kept in an account.
const MOST_STACKS: usize = 300;

/// How many turns were where at one look.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct AtLook {
    pub hidden: f64,
    pub running: f64,
    pub blocked: f64,
}

impl AtLook {
    pub(super) fn add(&mut self, row: &Row, share: f64) {
        match row.place {
            // Between two writes the tasks tell whether the client is slow.
            Place::Hidden if row.is_out_of_sight() => self.hidden += share,
            Place::Sending => self.hidden += share,
            Place::OnCpu | Place::RunQueue => self.running += share,
            Place::Blocked => self.blocked += share,
            _ => {}
        }
    }
}

/// The looks at one target's tasks.
#[derive(Debug, Default)]
pub(super) struct Looks<'a> {
    /// By rising time.
    pub looks: Vec<&'a TaskLook>,
    /// Where all turns were.
    pub all: Vec<AtLook>,
    /// Samples of the target's own threads, by rising time.
    pub ran: Vec<Located>,
    one_in: u32,
}

impl<'a> Looks<'a> {
    /// Those of the window that see whole turns of such a length.
    pub(super) fn within(
        mut looks: Vec<&'a TaskLook>,
        (from, to): (u64, u64),
        mean_ns: u64,
        one_in: u32,
    ) -> Self {
        let most = (to.saturating_sub(from) as f64 * MOST_LEFT_OUT) as u64;
        let edge = (LENGTHS_LEFT_OUT * mean_ns).min(most);
        looks.retain(|look| (from + edge..to.saturating_sub(edge)).contains(&look.at_ns));
        looks.sort_by_key(|look| look.at_ns);
        if looks.len() < FEWEST_LOOKS {
            looks.clear();
        }
        Self {
            looks,
            all: Vec::new(),
            ran: Vec::new(),
            one_in: one_in.max(1),
        }
    }

    /// What the tasks did while some of the turns went on; `some` is where these were.
    pub(super) fn tasks(&self, some: &[AtLook]) -> Option<TaskSamples> {
        let looks = self.looks.len() as u64;
        (looks > 0).then_some(())?;
        let mut samples = TaskSamples {
            looks,
            ..TaskSamples::default()
        };
        let mut seen: BTreeMap<u32, f64> = BTreeMap::new();
        for ((look, all), some) in self.looks.iter().zip(&self.all).zip(some) {
            let part = part(all, some);
            samples.hidden += some.hidden;
            samples.running += all.running * part;
            samples.blocked += all.blocked * part;
            for &(stack, tasks) in &look.tasks {
                // One connection in so many is followed, and all tasks are seen.
                *seen.entry(stack).or_default() += f64::from(tasks) * part / f64::from(self.one_in);
            }
        }
        let seen = seen.into_iter().filter(|(_, tasks)| *tasks > 0.0);
        samples.seen = seen
            .map(|(stack, tasks)| TaskSeen { stack, tasks })
            .collect();
        samples
            .seen
            .sort_by(|a, b| b.tasks.total_cmp(&a.tasks).then(a.stack.cmp(&b.stack)));
        samples.seen.truncate(MOST_STACKS);
        Some(samples)
    }
    /// What ran while tasks stood ready: each sample weighted by the tasks that stood so at the look next to it, and
    /// these by the part that belongs to `some`.
    pub(super) fn behind(&self, some: &[AtLook]) -> Vec<PlaceSamples> {
        let mut sums: BTreeMap<u32, f64> = BTreeMap::new();
        let begin = self.looks.first().map_or(0, |look| look.at_ns);
        let mut from = self.ran.partition_point(|sample| sample.at_ns < begin);
        for (index, (look, (all, some))) in (self.looks.iter())
            .zip(self.all.iter().zip(some))
            .enumerate()
        {
            let until = match self.looks.get(index + 1) {
                Some(next) => look.at_ns.midpoint(next.at_ns),
                None => look.at_ns,
            };
            let rest = &self.ran[from..];
            let near = &rest[..rest.partition_point(|sample| sample.at_ns < until)];
            from += near.len();
            let ready = f64::from(look.ready) * part(all, some) / f64::from(self.one_in);
            if ready > 0.0 {
                for sample in near {
                    *sums.entry(sample.stack).or_default() += sample.count as f64 * ready;
                }
            }
        }
        let sums = sums.into_iter().map(|(stack, samples)| PlaceSamples {
            place: Place::RunQueue,
            stack,
            samples: samples.round() as u64,
        });
        sums.filter(|sum| sum.samples > 0).collect()
    }
}

/// The part of the hidden turns that some of them are.
fn part(all: &AtLook, some: &AtLook) -> f64 {
    if all.hidden > 0.0 {
        some.hidden / all.hidden
    } else if all == some {
        1.0
    } else {
        0.0
    }
}
