//! How far the clock of another host is from ours: the exchange of four times of NTP (RFC 5905, section 8; Cristian
//! 1989), whose error is at most half of what the exchange took, however unlike the two ways are.

use record::{ClockSeen, Nanos};

/// Four times: asked and returned by our clock, received and answered by theirs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exchange {
    pub asked: Nanos,
    pub received: Nanos,
    pub answered: Nanos,
    pub returned: Nanos,
}

impl Exchange {
    /// Time on the way, there and back, ns.
    pub fn round_trip_ns(&self) -> u64 {
        let away = self.returned.since(self.asked).0;
        away.saturating_sub(self.answered.since(self.received).0)
    }

    /// Their clock less ours.
    fn estimate(&self) -> Estimate {
        let there = i128::from(self.received.0) - i128::from(self.asked.0);
        let back = i128::from(self.answered.0) - i128::from(self.returned.0);
        let middle = u64::midpoint(self.asked.0, self.returned.0);
        Estimate {
            at: Nanos(middle),
            offset_ns: i64::try_from((there + back) / 2).unwrap_or(i64::MAX),
            round_trip_ns: self.round_trip_ns(),
        }
    }
}

/// How far another clock was from ours at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Estimate {
    /// When, by our clock.
    pub at: Nanos,
    /// Theirs less ours.
    pub offset_ns: i64,
    /// What the exchange took on the way, there and back, ns.
    pub round_trip_ns: u64,
}

impl Estimate {
    /// The offset is wrong by at most this, ns.
    pub fn bound_ns(&self) -> u64 {
        self.round_trip_ns.div_ceil(2) + 1
    }

    /// What a reader is told of it.
    pub fn seen(&self) -> ClockSeen {
        ClockSeen {
            offset_ns: self.offset_ns,
            bound_ns: self.bound_ns(),
            rate_ppm: None,
            round_trip_ns: self.round_trip_ns,
        }
    }

    /// The best of several exchanges: that of the least round trip. `None` without one.
    pub fn of(exchanges: &[Exchange]) -> Option<Self> {
        let best = exchanges.iter().min_by_key(|e| e.round_trip_ns())?;
        Some(best.estimate())
    }
}

/// How far another clock is from ours over a time: a straight line through an estimate before and one after it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Line {
    before: Estimate,
    after: Estimate,
}

impl Line {
    /// Through both. The clocks of two hosts part at a steady rate, unless one of them is being set.
    pub fn through(before: Estimate, after: Estimate) -> Self {
        Self { before, after }
    }

    /// The largest error anywhere between the two, ns.
    pub fn bound_ns(&self) -> u64 {
        self.before.bound_ns().max(self.after.bound_ns())
    }

    /// The shorter of both ways there and back, ns.
    pub fn round_trip_ns(&self) -> u64 {
        self.before.round_trip_ns.min(self.after.round_trip_ns)
    }

    /// By how much their clock runs faster than ours, parts per million.
    pub fn rate_ppm(&self) -> f64 {
        let span = self.after.at.since(self.before.at).0;
        if span == 0 {
            return 0.0;
        }
        (self.after.offset_ns - self.before.offset_ns) as f64 / span as f64 * 1e6
    }

    /// Theirs less ours at a time of ours, ns.
    pub fn offset_ns(&self, ours: Nanos) -> i64 {
        self.offset_after(i128::from(ours.0) - i128::from(self.before.at.0))
    }

    /// The offset so long after the first estimate, ns.
    fn offset_after(&self, since: i128) -> i64 {
        let grown = since as f64 * self.rate_ppm() * 1e-6;
        self.before.offset_ns + grown.round() as i64
    }

    /// What a reader is told of it, with the offset at a time of ours.
    pub fn seen(&self, at: Nanos) -> ClockSeen {
        ClockSeen {
            offset_ns: self.offset_ns(at),
            bound_ns: self.bound_ns(),
            rate_ppm: Some(self.rate_ppm()),
            round_trip_ns: self.round_trip_ns(),
        }
    }

    /// A time of theirs by our clock.
    pub fn ours(&self, theirs: Nanos) -> Nanos {
        let first = i128::from(self.before.at.0) + i128::from(self.before.offset_ns);
        // Their time since then is ours to a few parts of a million, of which the rate is a few more.
        let offset = self.offset_after(i128::from(theirs.0) - first);
        let ours = i128::from(theirs.0) - i128::from(offset);
        Nanos(u64::try_from(ours).unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A clock that starts at another time and runs at another rate, behind a way whose delays differ.
    struct Far {
        offset_ns: i64,
        ppm: f64,
        random: u64,
    }

    impl Far {
        fn bits(&mut self) -> u64 {
            self.random ^= self.random << 13;
            self.random ^= self.random >> 7;
            self.random ^= self.random << 17;
            self.random
        }

        /// Its reading at a true time.
        fn reads(&self, at: u64) -> u64 {
            let drift = at as f64 * self.ppm * 1e-6;
            (at as i64 + self.offset_ns + drift as i64) as u64
        }

        /// Mostly short, now and then a queue.
        fn delay(&mut self, least: u64) -> u64 {
            let queue = if self.bits().is_multiple_of(3) {
                5_000_000
            } else {
                20_000
            };
            least + self.bits() % queue
        }

        /// The exchanges of a moment, and the moment after them.
        fn exchanges(&mut self, mut now: u64, ways: (u64, u64)) -> (Vec<Exchange>, u64) {
            let mut all = Vec::new();
            for _ in 0..16 {
                let asked = now;
                let received = asked + self.delay(ways.0);
                let answered = received + self.bits() % 50_000;
                let returned = answered + self.delay(ways.1);
                all.push(Exchange {
                    asked: Nanos(asked),
                    received: Nanos(self.reads(received)),
                    answered: Nanos(self.reads(answered)),
                    returned: Nanos(returned),
                });
                now = returned + 100_000;
            }
            (all, now)
        }
    }

    #[test]
    fn the_error_is_within_the_bound_whatever_the_way() {
        for seed in 1..400_u64 {
            let mut far = Far {
                offset_ns: (seed as i64 - 200) * 777_777_777_777 / 100 + 90_000_000_000_000,
                ppm: (seed % 61) as f64 - 30.0,
                random: seed.wrapping_mul(0x9E37_79B9_7F4A_7C15),
            };
            // One way may be far longer than the other.
            let ways = (30_000 + seed * 1_000, 30_000 + (seed % 7) * 900_000);
            let (first, _) = far.exchanges(1_000_000_000_000, ways);
            let (second, _) = far.exchanges(1_060_000_000_000, ways);
            let before = Estimate::of(&first).unwrap();
            let line = Line::through(before, Estimate::of(&second).unwrap());
            for step in 0..=60 {
                let truth = 1_000_000_000_000 + step * 1_000_000_000;
                let told = line.ours(Nanos(far.reads(truth))).0;
                let error = told.abs_diff(truth);
                let offset = far.reads(truth) as i64 - truth as i64;
                let error = error.max(line.offset_ns(Nanos(truth)).abs_diff(offset));
                // An exchange lasts, and the clock drifts in it: 30 ppm of 6 ms.
                assert!(
                    error <= line.bound_ns() + 400,
                    "{seed}: {error} of {line:?}"
                );
            }
            assert!(
                (line.rate_ppm() - far.ppm).abs() < 0.2 * 1e6 / 60e3,
                "{seed}"
            );
        }
    }

    #[test]
    fn the_shortest_exchange_is_taken() {
        let exchange = |asked, received, answered, returned| Exchange {
            asked: Nanos(asked),
            received: Nanos(received),
            answered: Nanos(answered),
            returned: Nanos(returned),
        };
        let all = [
            exchange(1_000, 51_900, 51_900, 2_000),
            exchange(3_000, 53_050, 53_150, 3_300),
        ];
        let best = Estimate::of(&all).unwrap();
        assert_eq!((best.offset_ns, best.bound_ns()), (49_950, 101));
        assert_eq!(Estimate::of(&[]), None);
    }
}
