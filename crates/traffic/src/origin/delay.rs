//! The time between a complete request and its answer, as a distribution.
//!
//! The delay blocks nothing: the thread serves its other connections meanwhile. A service with a queue
//! in front of it is what a `freeze` or few connections give.

use super::OriginError;
use crate::random::Random;
use record::{Nanos, parse_duration};
use std::str::FromStr;

/// Distribution of the delay.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Delay {
    /// Always the same.
    Constant(Nanos),
    Exponential {
        mean: Nanos,
    },
    /// Lognormal: the logarithm is normal.
    Lognormal {
        median: Nanos,
        /// Standard deviation of the logarithm.
        sigma: f64,
    },
}

/// Names of the distributions, for near misses.
const NAMES: [&str; 3] = ["constant", "exponential", "lognormal"];

/// Longest delay, an hour: the tail of a distribution must not hold a connection for ever.
const LONGEST: Nanos = Nanos(3_600_000_000_000);

impl Delay {
    /// Reads `5ms` or `constant:5ms`, `exponential:5ms` (mean), `lognormal:5ms,0.5` (median, sigma).
    ///
    /// # Errors
    /// [`OriginError::Delay`] with the part that was not understood.
    pub fn parse(text: &str) -> Result<Self, OriginError> {
        read(text).map_err(|cause| OriginError::Delay {
            text: text.to_owned(),
            cause,
        })
    }

    /// One delay, at most an hour.
    pub fn sample(&self, random: &mut Random) -> Nanos {
        match *self {
            Delay::Constant(delay) => delay.min(LONGEST),
            Delay::Exponential { mean } => scaled(mean, random.exponential()),
            Delay::Lognormal { median, sigma } => scaled(median, (sigma * random.normal()).exp()),
        }
    }
}

impl FromStr for Delay {
    type Err = OriginError;

    fn from_str(text: &str) -> Result<Self, OriginError> {
        Self::parse(text)
    }
}

/// `unit * factor`; a float beyond the range of integers becomes the largest integer.
fn scaled(unit: Nanos, factor: f64) -> Nanos {
    Nanos((unit.0 as f64 * factor) as u64).min(LONGEST)
}

fn read(text: &str) -> Result<Delay, String> {
    let duration = |text: &str| parse_duration(text).map_err(|e| e.to_string());
    let Some((name, values)) = text.split_once(':') else {
        return duration(text).map(Delay::Constant);
    };
    match name {
        "constant" => duration(values).map(Delay::Constant),
        "exponential" => duration(values).map(|mean| Delay::Exponential { mean }),
        "lognormal" => lognormal(values, duration),
        _ => Err(unknown(name)),
    }
}

fn lognormal(
    values: &str,
    duration: impl Fn(&str) -> Result<Nanos, String>,
) -> Result<Delay, String> {
    let (median, sigma) = values
        .split_once(',')
        .ok_or("a lognormal delay has a median and a sigma, with a comma between them")?;
    let median = duration(median)?;
    match sigma.trim().parse::<f64>() {
        Ok(sigma) if sigma.is_finite() && sigma >= 0.0 => Ok(Delay::Lognormal { median, sigma }),
        _ => Err(format!(
            "sigma `{}` is not a number of zero or more",
            sigma.trim()
        )),
    }
}

fn unknown(name: &str) -> String {
    let near = NAMES
        .into_iter()
        .max_by(|a, b| strsim::jaro(name, a).total_cmp(&strsim::jaro(name, b)))
        .filter(|near| strsim::jaro(name, near) > 0.7);
    match near {
        Some(near) => format!("unknown distribution `{name}`; did you mean `{near}`?"),
        None => format!(
            "unknown distribution `{name}`; known are {}",
            NAMES.join(", ")
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_people_type() {
        let ms5 = Nanos::from_millis(5);
        for (text, delay) in [
            ("5ms", Delay::Constant(ms5)),
            ("constant:5ms", Delay::Constant(ms5)),
            ("exponential:5ms", Delay::Exponential { mean: ms5 }),
            (
                "lognormal:5ms,0.5",
                Delay::Lognormal {
                    median: ms5,
                    sigma: 0.5,
                },
            ),
            (
                "lognormal:5ms, 0",
                Delay::Lognormal {
                    median: ms5,
                    sigma: 0.0,
                },
            ),
        ] {
            assert_eq!(text.parse::<Delay>().unwrap(), delay, "{text}");
        }
    }

    #[test]
    fn texts_that_are_none() {
        for (text, cause) in [
            ("soon", "must start with a number"),
            ("exponental:5ms", "did you mean `exponential`?"),
            ("log-normal:5ms,1", "did you mean `lognormal`?"),
            ("zipf:3", "known are constant, exponential, lognormal"),
            ("exponential:5 weeks", "weeks"),
            ("lognormal:5ms", "with a comma"),
            ("lognormal:5ms,-1", "sigma `-1`"),
            ("lognormal:5ms,inf", "sigma `inf`"),
        ] {
            let error = Delay::parse(text).unwrap_err();
            assert!(error.to_string().contains(cause), "{text}: {error}");
            assert!(error.remedy().contains("lognormal:5ms,0.5"));
        }
    }

    /// Sorted delays in milliseconds.
    fn samples(text: &str) -> Vec<f64> {
        let delay = Delay::parse(text).unwrap();
        let mut random = Random::seeded(7);
        let mut ms: Vec<f64> = (0..100_001)
            .map(|_| delay.sample(&mut random).as_secs_f64() * 1e3)
            .collect();
        ms.sort_by(f64::total_cmp);
        ms
    }

    #[test]
    fn samples_follow_their_distribution() {
        assert!(samples("5ms").iter().all(|&ms| ms == 5.0));
        let exponential = samples("exponential:5ms");
        let mean = exponential.iter().sum::<f64>() / exponential.len() as f64;
        assert!((mean / 5.0 - 1.0).abs() < 0.02, "{mean}");
        let p99 = exponential[99_000];
        assert!((p99 / (5.0 * 100f64.ln()) - 1.0).abs() < 0.03, "{p99}");
        let lognormal = samples("lognormal:5ms,0.5");
        let (p16, p50, p84) = (lognormal[15_866], lognormal[50_000], lognormal[84_134]);
        assert!((p50 / 5.0 - 1.0).abs() < 0.02, "{p50}");
        for one_sigma in [(p84 / p50).ln(), (p50 / p16).ln()] {
            assert!((one_sigma - 0.5).abs() < 0.02, "{one_sigma}");
        }
    }

    #[test]
    fn no_delay_is_longer_than_an_hour() {
        let delay = Delay::parse("lognormal:1h,400").unwrap();
        let mut random = Random::seeded(3);
        assert!((0..1000).all(|_| delay.sample(&mut random) <= LONGEST));
    }
}
