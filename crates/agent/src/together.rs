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

    /// Nothing more comes of an agent; what came is left out unless it is `whole`.
    pub fn end(&mut self, agent: usize, whole: bool) {
        self.agents[agent].over = true;
        if !whole {
            self.agents[agent].slices.clear();
        }
    }

    /// The next interval, when every agent that goes on has come to its end; an agent whose slices are longer pulls the
    /// others along. Times count from the start of the load.
    ///
    /// # Errors
    /// The number of an agent whose slice is none.
    pub fn next(&mut self) -> Result<Option<Interval>, usize> {
        let going = |lane: &&Lane| !lane.over || !lane.slices.is_empty();
        let mut end = Nanos(0);
        for lane in self.agents.iter().filter(going) {
            let Some(first) = lane.slices.front() else {
                return Ok(None);
            };
            end = end.max(first.interval.to);
        }
        // The longest slice may end where another agent has not come to yet.
        let reached = |lane: &Lane| {
            let last = lane.slices.back();
            lane.over || last.is_some_and(|slice| slice.interval.to >= end)
        };
        if end == Nanos(0) || !self.agents.iter().all(reached) {
            return Ok(None);
        }
        let mut merged = Interval {
            from: self.edge,
            to: end,
            ..Interval::default()
        };
        let mut response = Histogram::new();
        for (i, lane) in self.agents.iter_mut().enumerate() {
            while let Some(slice) = lane.slices.front().filter(|s| s.interval.to <= end) {
                let one = &slice.interval;
                merged.sent += one.sent;
                merged.succeeded += one.succeeded;
                merged.failed += one.failed;
                merged.received_bytes += one.received_bytes;
                merged.queued += one.queued;
                merged.generator_permille = merged.generator_permille.max(one.generator_permille);
                let own = Histogram::from_base64(&slice.response);
                response.merge(&own.map_err(|_| i)?);
                lane.slices.pop_front();
            }
        }
        let at = |quantile| response.quantile(quantile).unwrap_or_default().0;
        merged.response_ns_p50 = at(0.5);
        merged.response_ns_p99 = at(0.99);
        merged.response_ns_max = response.max().unwrap_or_default().0;
        self.edge = end;
        Ok(Some(merged))
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
            response: response.to_base64(),
        }
    }

    #[test]
    fn percentiles_are_those_of_all_samples() {
        let mut together = Together::new(2);
        together.push(0, vec![slice(0, 100, &[10; 98])]);
        assert_eq!(together.next(), Ok(None), "the other has not come");
        together.push(1, vec![slice(0, 100, &[900, 1_000])]);
        let merged = together.next().unwrap().unwrap();
        assert_eq!((merged.from, merged.to), (Nanos(0), Nanos(100)));
        assert_eq!(merged.succeeded, 100);
        // The mean of both agents' p99 would be about 500.
        assert_eq!((merged.response_ns_p50, merged.response_ns_p99), (10, 900));
        assert_eq!(together.next(), Ok(None));
        let broken = Slice {
            response: "none".to_owned(),
            ..slice(100, 200, &[])
        };
        together.push(0, vec![slice(100, 200, &[1])]);
        together.push(1, vec![broken]);
        assert_eq!(together.next(), Err(1));
    }

    #[test]
    fn a_longer_slice_pulls_the_others_along() {
        let mut together = Together::new(2);
        together.push(0, vec![slice(0, 300, &[1])]);
        together.push(1, vec![slice(0, 100, &[1]), slice(100, 200, &[1])]);
        assert_eq!(together.next(), Ok(None), "the second is not at 300");
        together.push(1, vec![slice(200, 300, &[1]), slice(300, 400, &[1])]);
        assert_eq!(together.next().unwrap().unwrap().succeeded, 4);
        together.end(0, true);
        let last = together.next().unwrap().unwrap();
        assert_eq!(
            (last.from, last.to, last.succeeded),
            (Nanos(300), Nanos(400), 1)
        );
    }
}
