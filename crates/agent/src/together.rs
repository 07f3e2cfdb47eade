//! The slices of several agents as one: the counterpart, between hosts, of what the load does with its threads.

use crate::message::Slice;
use record::{Histogram, Interval, Nanos};
use std::collections::VecDeque;

/// See the module.
pub struct Together {
    agents: Vec<Lane>,
    /// End of the last interval.
    edge: Nanos,
}

#[derive(Default)]
struct Lane {
    slices: VecDeque<Slice>,
    over: bool,
}

impl Together {
    /// Of so many agents.
    pub fn new(agents: usize) -> Self {
        Self {
            agents: (0..agents).map(|_| Lane::default()).collect(),
            edge: Nanos(0),
        }
    }

    /// Takes what an agent sent.
    pub fn push(&mut self, agent: usize, slices: Vec<Slice>) {
        self.agents[agent].slices.extend(slices);
    }

    /// Nothing more comes of an agent.
    pub fn end(&mut self, agent: usize) {
        self.agents[agent].over = true;
    }

    /// The next interval, when every agent that goes on has come to its end; an agent whose slices are longer pulls the
    /// others along. Times count from the start of the load.
    pub fn next(&mut self) -> Option<Interval> {
        let going = |lane: &&Lane| !lane.over || !lane.slices.is_empty();
        let mut end = Nanos(0);
        for lane in self.agents.iter().filter(going) {
            let first = lane.slices.front()?;
            end = end.max(first.interval.to);
        }
        // The longest slice may end where another agent has not come to yet.
        let reached = |lane: &Lane| {
            let last = lane.slices.back();
            lane.over || last.is_some_and(|slice| slice.interval.to >= end)
        };
        if end == Nanos(0) || !self.agents.iter().all(reached) {
            return None;
        }
        let mut merged = Interval {
            from: self.edge,
            to: end,
            ..Interval::default()
        };
        let mut response = Histogram::new();
        for lane in &mut self.agents {
            while let Some(slice) = lane.slices.front().filter(|s| s.interval.to <= end) {
                let one = &slice.interval;
                merged.sent += one.sent;
                merged.succeeded += one.succeeded;
                merged.failed += one.failed;
                merged.received_bytes += one.received_bytes;
                merged.queued += one.queued;
                merged.generator_permille = merged.generator_permille.max(one.generator_permille);
                response.merge(&slice.response);
                lane.slices.pop_front();
            }
        }
        let at = |quantile| response.quantile(quantile).unwrap_or_default().0;
        merged.response_ns_p50 = at(0.5);
        merged.response_ns_p99 = at(0.99);
        merged.response_ns_max = response.max().unwrap_or_default().0;
        self.edge = end;
        Some(merged)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slice(from: u64, to: u64, latencies: &[u64]) -> Slice {
        let mut response = Histogram::new();
        latencies.iter().for_each(|ns| response.record(Nanos(*ns)));
        Slice {
            interval: Interval {
                from: Nanos(from),
                to: Nanos(to),
                succeeded: latencies.len() as u64,
                ..Interval::default()
            },
            response,
        }
    }

    #[test]
    fn percentiles_are_those_of_all_samples() {
        let mut together = Together::new(2);
        together.push(0, vec![slice(0, 100, &[10; 98])]);
        assert_eq!(together.next(), None, "the other has not come");
        together.push(1, vec![slice(0, 100, &[900, 1_000])]);
        let merged = together.next().unwrap();
        assert_eq!((merged.from, merged.to), (Nanos(0), Nanos(100)));
        assert_eq!(merged.succeeded, 100);
        // The mean of both agents' p99 would be about 500.
        assert_eq!((merged.response_ns_p50, merged.response_ns_p99), (10, 900));
        assert_eq!(together.next(), None);
    }

    #[test]
    fn a_longer_slice_pulls_the_others_along() {
        let mut together = Together::new(2);
        together.push(0, vec![slice(0, 300, &[1])]);
        together.push(1, vec![slice(0, 100, &[1]), slice(100, 200, &[1])]);
        assert_eq!(together.next(), None, "the second is not at 300");
        together.push(1, vec![slice(200, 300, &[1]), slice(300, 400, &[1])]);
        assert_eq!(together.next().unwrap().succeeded, 4);
        together.end(0);
        let last = together.next().unwrap();
        assert_eq!(
            (last.from, last.to, last.succeeded),
            (Nanos(300), Nanos(400), 1)
        );
    }
}
