//! A stop-the-world pause as a schedule: when does the whole server stand still?
//!
//! Pure arithmetic; the threads ask it with the time in hand and all get the same answer, because they
//! count from the same start.
//!
//! The surprise: the freeze is the *last* part of each period, so that a server can be started and found
//! ready before it freezes for the first time.

use super::OriginError;
use record::{Nanos, parse_duration};
use std::str::FromStr;

/// Nothing is served for the last `length` of each `period`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Freeze {
    length: Nanos,
    period: Nanos,
}

impl Freeze {
    /// A freeze of `length` at the end of each `period`.
    ///
    /// # Errors
    /// [`OriginError::Freeze`] unless 0 < `length` < `period`.
    pub fn new(length: Nanos, period: Nanos) -> Result<Self, OriginError> {
        if length.0 == 0 || length >= period {
            return Err(OriginError::Freeze {
                text: format!("{length}/{period}"),
                cause: "the length must be above zero and below the period".to_owned(),
            });
        }
        Ok(Self { length, period })
    }

    /// Length of a freeze.
    pub fn length(&self) -> Nanos {
        self.length
    }

    /// From the start of one freeze to the start of the next.
    pub fn period(&self) -> Nanos {
        self.period
    }

    /// The end of the freeze that `now` falls into, for a server that started at `started`; `None` while
    /// it serves.
    pub fn frozen_until(&self, started: Nanos, now: Nanos) -> Option<Nanos> {
        let into_period = now.since(started).0 % self.period.0;
        let served_part = self.period.0 - self.length.0;
        (into_period >= served_part).then(|| Nanos(now.0 + (self.period.0 - into_period)))
    }
}

impl FromStr for Freeze {
    type Err = OriginError;

    /// Reads `LENGTH/PERIOD`, for example `200ms/2s`.
    fn from_str(text: &str) -> Result<Self, OriginError> {
        let refuse = |cause: String| OriginError::Freeze {
            text: text.to_owned(),
            cause,
        };
        let (length, period) = text
            .split_once('/')
            .ok_or_else(|| refuse("there is no `/` between length and period".to_owned()))?;
        let duration = |part| parse_duration(part).map_err(|e| refuse(e.to_string()));
        Self::new(duration(length)?, duration(period)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_part_of_each_period() {
        let freeze: Freeze = "200ms/2s".parse().unwrap();
        let started = Nanos::from_secs(100);
        for (ms, until_ms) in [
            (0, None),
            (1_799, None),
            (1_800, Some(2_000)),
            (1_900, Some(2_000)),
            (1_999, Some(2_000)),
            (2_000, None),
            (3_800, Some(4_000)),
            (199_999, Some(200_000)),
        ] {
            assert_eq!(
                freeze.frozen_until(started, started + Nanos::from_millis(ms)),
                until_ms.map(|ms| started + Nanos::from_millis(ms)),
                "{ms} ms"
            );
        }
        assert_eq!(
            freeze.frozen_until(started, Nanos(0)),
            None,
            "before the start"
        );
    }

    #[test]
    fn the_frozen_share_is_length_over_period() {
        let freeze = Freeze::new(Nanos::from_millis(3), Nanos::from_millis(7)).unwrap();
        let frozen = (0..70_000u64)
            .filter(|us| {
                freeze
                    .frozen_until(Nanos(5), Nanos(5 + us * 1_000))
                    .is_some()
            })
            .count();
        assert_eq!(frozen, 30_000);
    }

    #[test]
    fn texts_that_are_none() {
        for (text, cause) in [
            ("200ms", "no `/`"),
            ("2s/200ms", "below the period"),
            ("2s/2s", "below the period"),
            ("0s/2s", "above zero"),
            ("x/2s", "must start with a number"),
            ("1s/2 weeks", "weeks"),
        ] {
            let error = text.parse::<Freeze>().unwrap_err();
            assert!(error.to_string().contains(cause), "{text}: {error}");
            assert!(error.remedy().contains("200ms/2s"));
        }
    }
}
