//! How the rate of an open loop changes: pieces one after the other, in each of which it is constant or changes evenly.
//!
//! All of it is arithmetic on one integral: how many requests are due until a time, and when a number of them is.
//! The surprise: behind the last piece the rate stays what it was, so that there is one whatever the load's end is.

use crate::Nanos;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A stretch of time in which the rate is constant or changes evenly.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct RatePiece {
    /// Requests per second at its begin.
    pub from_per_s: f64,
    /// Requests per second at its end; the same is a step.
    pub to_per_s: f64,
    /// Its length, ns; 0 is all of the measured part.
    #[serde(rename = "duration_ns")]
    pub duration: Nanos,
}

impl RatePiece {
    /// How many requests are due in its first `s` seconds.
    fn count(&self, s: f64) -> f64 {
        let length = self.duration.as_secs_f64();
        self.from_per_s * s + (self.to_per_s - self.from_per_s) * s * s / (2.0 * length)
    }

    /// After how many seconds `count` requests are due: the root of [`RatePiece::count`] that lies in the piece, in
    /// the form that loses no digits when the rate hardly changes.
    fn reached(&self, count: f64) -> f64 {
        let slope = (self.to_per_s - self.from_per_s) / self.duration.as_secs_f64();
        let root = (self.from_per_s * self.from_per_s + 2.0 * slope * count).max(0.0);
        match self.from_per_s + root.sqrt() {
            _ if count <= 0.0 => 0.0,
            both => 2.0 * count / both,
        }
    }
}

/// The pieces of a rate that changes; none of them for one that does not.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RatePieces(pub Vec<RatePiece>);

impl RatePieces {
    /// The rate does not change.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How long all pieces are; `None` where one is as long as the measured part.
    pub fn total(&self) -> Option<Nanos> {
        let lengths = self.0.iter().map(|piece| piece.duration);
        let known = lengths.map(|length| (length.0 > 0).then_some(length.0));
        known.sum::<Option<u64>>().map(Nanos)
    }

    /// Gives `duration` to a piece that is as long as the measured part.
    pub fn settle(&mut self, duration: Nanos) {
        for piece in &mut self.0 {
            if piece.duration.0 == 0 {
                piece.duration = duration;
            }
        }
    }

    /// How many requests are due in the first `elapsed`.
    pub fn expected(&self, elapsed: Nanos) -> f64 {
        let mut left = elapsed.as_secs_f64();
        let mut due = 0.0;
        for piece in &self.0 {
            let inside = left.min(piece.duration.as_secs_f64());
            if inside > 0.0 {
                due += piece.count(inside);
                left -= inside;
            }
        }
        due + left.max(0.0) * self.last_per_s()
    }

    /// The highest rate of all pieces.
    pub fn peak_per_s(&self) -> f64 {
        let rates = self.0.iter().flat_map(|p| [p.from_per_s, p.to_per_s]);
        rates.fold(0.0, f64::max)
    }

    /// The rate before the first piece, and so that of a warm-up.
    pub fn first_per_s(&self) -> f64 {
        self.0.first().map_or(0.0, |piece| piece.from_per_s)
    }

    /// The rate behind the last piece.
    pub fn last_per_s(&self) -> f64 {
        self.0.last().map_or(0.0, |piece| piece.to_per_s)
    }
}

/// As it is typed: `1k..5k:20s`.
impl fmt::Display for RatePieces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, piece) in self.0.iter().enumerate() {
            let comma = if i == 0 { "" } else { "," };
            write!(f, "{comma}{}", Short(piece.from_per_s))?;
            if piece.from_per_s != piece.to_per_s {
                write!(f, "..{}", Short(piece.to_per_s))?;
            }
            if piece.duration.0 > 0 {
                write!(f, ":{}s", piece.duration.as_secs_f64())?;
            }
        }
        Ok(())
    }
}

/// A rate with an SI suffix where no digit is lost by it.
struct Short(f64);

impl fmt::Display for Short {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scaled = [(1e6, "M"), (1e3, "k")].into_iter();
        let mut scaled = scaled.map(|(by, suffix)| (self.0 / by, suffix));
        match scaled.find(|(n, _)| *n >= 1.0 && (n * 1e3).fract() == 0.0) {
            Some((n, suffix)) => write!(f, "{n}{suffix}"),
            None => write!(f, "{}", self.0),
        }
    }
}

/// The pieces as a walk: when request number so and so is due, for numbers that grow.
#[derive(Clone, Debug, PartialEq)]
pub struct RateCourse(Vec<Leg>);

/// A piece with what came before it.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Leg {
    piece: RatePiece,
    begins_s: f64,
    before: f64,
    /// Requests due until its end.
    until: f64,
}

impl RateCourse {
    /// The pieces behind a warm-up at their first rate.
    pub fn new(pieces: &RatePieces, warmup: Nanos) -> Self {
        let first = pieces.first_per_s();
        let warm = RatePiece {
            from_per_s: first,
            to_per_s: first,
            duration: warmup,
        };
        let last = RatePiece {
            from_per_s: pieces.last_per_s(),
            to_per_s: pieces.last_per_s(),
            duration: Nanos(u64::MAX),
        };
        let (mut begins_s, mut before) = (0.0, 0.0);
        let all = std::iter::once(warm).chain(pieces.0.iter().copied());
        let all = all.filter(|piece| piece.duration.0 > 0).chain([last]);
        let legs = all.map(|piece| {
            let length = piece.duration.as_secs_f64();
            let until = before + piece.count(length);
            let leg = Leg {
                piece,
                begins_s,
                before,
                until,
            };
            begins_s += length;
            before = until;
            leg
        });
        RateCourse(legs.collect())
    }

    /// After how many seconds `count` requests have been due, looked for from leg `at` on, which becomes the one that
    /// it is in; infinite when it never is.
    #[inline]
    pub fn reached(&self, count: f64, at: &mut usize) -> f64 {
        while let Some(leg) = self.0.get(*at) {
            if count < leg.until {
                return leg.begins_s + leg.piece.reached(count - leg.before);
            }
            *at += 1;
        }
        f64::INFINITY
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(from_per_s: f64, to_per_s: f64, s: u64) -> RatePiece {
        RatePiece {
            from_per_s,
            to_per_s,
            duration: Nanos::from_secs(s),
        }
    }

    #[test]
    fn the_integral_of_the_rate_says_how_many_are_due() {
        let pieces = RatePieces(vec![
            piece(1e3, 1e3, 10),
            piece(5e3, 5e3, 10),
            piece(1e3, 5e3, 20),
        ]);
        assert_eq!(pieces.total(), Some(Nanos::from_secs(40)));
        let due = |s| pieces.expected(Nanos::from_secs(s));
        assert_eq!([due(0), due(5), due(10), due(20)], [0.0, 5e3, 1e4, 6e4]);
        assert_eq!(
            due(30),
            6e4 + 2e4,
            "the mean of the ramp's first half is 2k"
        );
        assert_eq!((due(40), due(50)), (1.2e5, 1.7e5), "the last rate stays");
        assert_eq!(pieces.peak_per_s(), 5e3);
        assert_eq!(pieces.to_string(), "1k:10s,5k:10s,1k..5k:20s");
    }

    #[test]
    fn a_course_is_the_inverse_of_the_integral() {
        let pieces = RatePieces(vec![
            piece(0.0, 400.0, 3),
            piece(0.0, 0.0, 2),
            piece(900.0, 30.0, 4),
            piece(50.0, 50.000_001, 5),
        ]);
        let course = RateCourse::new(&pieces, Nanos(0));
        let mut at = 0;
        for n in 0..3_000 {
            let n = f64::from(n);
            let s = course.reached(n, &mut at);
            let due = pieces.expected(Nanos((s * 1e9) as u64));
            assert!((due - n).abs() < 1e-3, "{n} at {s} s: {due}");
            assert!(!(3.0..5.0).contains(&s), "{n} in the pause");
        }
        let ends = RatePieces(vec![piece(10.0, 0.0, 2)]);
        let course = RateCourse::new(&ends, Nanos::from_secs(1));
        assert_eq!(
            course.reached(19.0, &mut 0),
            2.0 * 9.0 / (10.0 + 10.0_f64.sqrt()) + 1.0
        );
        assert!(course.reached(20.0, &mut 0).is_infinite());
    }

    #[test]
    fn what_is_as_long_as_the_load_gets_its_length() {
        let mut pieces = RatePieces(vec![piece(1_500.0, 2.5, 0)]);
        assert_eq!(
            (pieces.total(), pieces.to_string()),
            (None, "1.5k..2.5".to_owned())
        );
        pieces.settle(Nanos::from_secs(4));
        assert_eq!(pieces.to_string(), "1.5k..2.5:4s");
    }
}
