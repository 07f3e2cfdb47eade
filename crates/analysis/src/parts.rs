//! The verdict on a load that several hosts carried: the worst of its parts decides, and is named. Nothing is rescaled.

use crate::words::{percent, plural};
use crate::{Limit, Verdict, judge_load};
use record::{Histogram, LoadOutcome, LoadSpec, Nanos, Part, Series, Warning};

/// Of a start that was agreed on, the most that may lie between two hosts; or this share of the measured part.
const SKEW: Nanos = Nanos(10_000_000);
const SKEW_SHARE: f64 = 0.005;
/// One host has as many of the slowest requests as this times its share of all requests: it owns the tail.
const OWNS: f64 = 2.0;
/// Slowest requests of which fewer say nothing.
const TAIL_LEAST: u64 = 50;

/// What one host brought.
pub struct HostPart<'a> {
    /// Its name.
    pub host: &'a str,
    /// Of the kernel that ran it.
    pub boot_id: &'a str,
    pub part: Part,
    /// How its part ended.
    pub end: PartEnd<'a>,
}

/// How a host's part ended.
pub enum PartEnd<'a> {
    /// Carried to its end.
    Carried {
        outcome: &'a LoadOutcome,
        /// What was watched of that host.
        series: &'a [Series],
        /// By how much it started later than agreed, ns.
        start_late_ns: i64,
        /// How far its clock may be from ours beyond that, ns.
        clock_bound_ns: u64,
    },
    /// It was not, and why.
    Not(String),
}

/// Judges a load by the verdict on its sum and by its parts: the verdict on all, on each part (`None` for one that was
/// not carried), and what a reader must know.
pub fn judge_parts(
    sum: Verdict,
    parts: &[HostPart<'_>],
    spec: &LoadSpec,
    error_limit: f64,
) -> (Verdict, Vec<Option<Verdict>>, Vec<Warning>) {
    let verdicts: Vec<_> = parts
        .iter()
        .map(|part| match &part.end {
            PartEnd::Carried {
                outcome, series, ..
            } => {
                let spec = of_part(spec, part.part);
                Some(judge_load(outcome, series, &spec, &[], error_limit))
            }
            PartEnd::Not(_) => None,
        })
        .collect();
    let worst = lost(parts)
        .or_else(|| invalid(parts, &verdicts))
        .or_else(|| skewed(parts));
    let mut warnings = one_machine(parts);
    warnings.extend(tail_owner(parts));
    (worst.unwrap_or(sum), verdicts, warnings)
}

/// The load that one part is.
fn of_part(spec: &LoadSpec, part: Part) -> LoadSpec {
    let share = f64::from(part.threads) / f64::from(part.of);
    let mut spec = spec.clone();
    spec.connections = part.of_count(u64::from(spec.connections)) as u32;
    spec.requests = spec.requests.map(|n| part.of_count(n));
    for piece in &mut spec.rate_pieces.0 {
        piece.from_per_s *= share;
        piece.to_per_s *= share;
    }
    if let record::Arrival::Constant { per_s } | record::Arrival::Poisson { per_s, .. } =
        &mut spec.arrival
    {
        *per_s *= share;
    }
    // Of a timetable the part has every n-th entry: as many as the mean rate says.
    spec.timetable = None;
    spec
}

fn lost(parts: &[HostPart<'_>]) -> Option<Verdict> {
    let (part, why) = parts.iter().find_map(|part| match &part.end {
        PartEnd::Not(why) => Some((part, why)),
        PartEnd::Carried { .. } => None,
    })?;
    let others = parts.len() - 1;
    Some(Verdict {
        limit: Limit::Unknown,
        ..Verdict::invalid(
            format!(
                "host {} did not carry its part: {why}; the {} stopped with it",
                part.host,
                plural(others as u64, "other")
            ),
            "mend that host or leave it out, and repeat the load; nothing was rescaled",
        )
    })
}

fn invalid(parts: &[HostPart<'_>], verdicts: &[Option<Verdict>]) -> Option<Verdict> {
    let judged = parts.iter().zip(verdicts);
    let bad: Vec<_> = judged
        .filter_map(|(part, verdict)| Some((part, verdict.as_ref().filter(|v| !v.valid)?)))
        .collect();
    // The generator's limit is a host's own; anything else may be all hosts'.
    let generator = bad.iter().find(|(_, v)| v.limit == Limit::Generator);
    let (part, verdict) = generator.or_else(|| bad.first())?;
    let mut worst = (*verdict).clone();
    worst.why = match bad.len() {
        n if n == parts.len() => format!("on every host; on {}: {}", part.host, verdict.why),
        n => format!(
            "on host {}{}: {}",
            part.host,
            if n > 1 {
                format!(" and {}", plural(n as u64 - 1, "other"))
            } else {
                String::new()
            },
            verdict.why
        ),
    };
    Some(worst)
}

fn skewed(parts: &[HostPart<'_>]) -> Option<Verdict> {
    let starts = parts.iter().filter_map(|part| match &part.end {
        PartEnd::Carried {
            start_late_ns,
            clock_bound_ns,
            outcome,
            ..
        } => {
            let certain = start_late_ns.unsigned_abs().saturating_sub(*clock_bound_ns);
            Some((part.host, Nanos(certain), outcome.measured()))
        }
        PartEnd::Not(_) => None,
    });
    let (host, late, measured) = starts.max_by_key(|(_, late, _)| *late)?;
    let most = SKEW.0.max((measured.0 as f64 * SKEW_SHARE) as u64);
    (late.0 > most).then(|| {
        Verdict::invalid(
            format!("host {host} started {late} from the agreed time, and {} is the most that changes nothing", Nanos(most)),
            "repeat the load; if it stays so, look for what takes the CPU of that host",
        )
    })
}

/// Agents of one kernel share its CPUs, and what was watched is the same twice.
fn one_machine(parts: &[HostPart<'_>]) -> Vec<Warning> {
    let twin = parts.iter().enumerate().find_map(|(i, part)| {
        let others = &parts[i + 1..];
        let same = others.iter().find(|other| other.boot_id == part.boot_id)?;
        Some((part.host, same.host))
    });
    let words = |(one, other)| {
        Warning::new(
            "one_machine",
            format!(
                "hosts {one} and {other} are one machine: they share its CPUs, its network and its limits"
            ),
            "take hosts on machines of their own for what one machine cannot send",
        )
    };
    twin.map(words).into_iter().collect()
}

/// A host whose requests are the slow ones: a percentile of all is then its own.
fn tail_owner(parts: &[HostPart<'_>]) -> Option<Warning> {
    let outcomes: Vec<_> = parts
        .iter()
        .filter_map(|part| match &part.end {
            PartEnd::Carried { outcome, .. } => Some((part.host, &outcome.response)),
            PartEnd::Not(_) => None,
        })
        .collect();
    let mut all = Histogram::new();
    outcomes
        .iter()
        .for_each(|(_, response)| all.merge(response));
    let edge = all.quantile(0.99)?;
    let above = |response: &Histogram| -> u64 {
        let slow = response.recorded().filter(|(value, _)| *value >= edge);
        slow.map(|(_, n)| n).sum()
    };
    let slow = above(&all);
    let (host, of_all, of_slow) = outcomes
        .iter()
        .map(|(host, response)| {
            let of_all = response.count() as f64 / all.count() as f64;
            (*host, of_all, above(response) as f64 / slow.max(1) as f64)
        })
        .max_by(|a, b| (a.2 / a.1).total_cmp(&(b.2 / b.1)))?;
    // With half of all requests it cannot have twice its share.
    let owns = slow >= TAIL_LEAST
        && outcomes.len() > 1
        && of_slow >= (of_all * OWNS).min(f64::midpoint(of_all, 1.0));
    owns.then(|| {
        Warning::new(
            "tail_of_one_host",
            format!(
                "host {host} sent {} of the requests and {} of the slowest 1 %: the high percentiles are of its way to the server",
                percent(of_all),
                percent(of_slow)
            ),
            format!("compare the percentiles of the hosts; look at the network of {host}, or leave it out"),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::{spec, with_rate};

    const PART: Part = Part {
        first: 0,
        threads: 1,
        of: 2,
    };

    fn part<'a>(host: &'a str, outcome: &'a LoadOutcome, start_late_ns: i64) -> HostPart<'a> {
        HostPart {
            host,
            boot_id: host,
            part: PART,
            end: PartEnd::Carried {
                outcome,
                series: &[],
                start_late_ns,
                clock_bound_ns: 100_000,
            },
        }
    }

    fn judged(parts: &[HostPart<'_>]) -> (Verdict, Vec<Warning>) {
        let outcome = with_rate(20_000, Nanos::from_millis(10), 0.3);
        let sum = judge_load(&outcome, &[], &spec(), &[], 0.01);
        assert!(sum.valid, "{sum:?}");
        let (verdict, _, warnings) = judge_parts(sum, parts, &spec(), 0.01);
        (verdict, warnings)
    }

    #[test]
    fn the_worst_host_decides_and_is_named() {
        let good = with_rate(10_000, Nanos::from_millis(5), 0.3);
        let full = with_rate(10_000, Nanos::from_millis(5), 0.99);
        let (verdict, warnings) = judged(&[part("a", &good, 0), part("b", &good, 0)]);
        assert!(
            verdict.valid && warnings.is_empty(),
            "{verdict:?} {warnings:?}"
        );
        let (verdict, _) = judged(&[part("a", &good, 0), part("b", &full, 0)]);
        assert!(!verdict.valid && verdict.limit == Limit::Generator);
        assert!(verdict.why.starts_with("on host b: "), "{}", verdict.why);
    }

    #[test]
    fn a_host_that_was_lost_makes_the_rest_no_load() {
        let good = with_rate(10_000, Nanos::from_millis(5), 0.3);
        let gone = HostPart {
            end: PartEnd::Not("the connection to its agent was cut after 3.2 s".to_owned()),
            ..part("b", &good, 0)
        };
        let (verdict, _) = judged(&[part("a", &good, 0), gone]);
        assert!(!verdict.valid);
        assert!(verdict.why.contains("host b") && verdict.why.contains("3.2 s"));
    }

    #[test]
    fn a_start_apart_is_held_against_what_the_clocks_allow() {
        let good = with_rate(10_000, Nanos::from_millis(5), 0.3);
        let with = |late| {
            judged(&[part("a", &good, 0), part("b", &good, late)])
                .0
                .valid
        };
        // Half a percent of 10 s.
        assert!(with(50_000_000) && with(-50_000_000));
        assert!(!with(50_200_000) && !with(-50_200_000));
    }

    #[test]
    fn one_host_that_owns_the_tail_is_named() {
        let quick = with_rate(10_000, Nanos::from_millis(5), 0.3);
        let mut slow = quick.clone();
        slow.response.record_n(Nanos::from_millis(900), 60);
        let mut both = quick.clone();
        both.response.record_n(Nanos::from_millis(900), 30);
        let (_, warnings) = judged(&[part("a", &quick, 0), part("b", &slow, 0)]);
        assert_eq!(warnings[0].name, "tail_of_one_host");
        assert!(warnings[0].seen.contains("host b"), "{}", warnings[0].seen);
        let (_, warnings) = judged(&[part("a", &both, 0), part("b", &both, 0)]);
        assert!(warnings.is_empty(), "{warnings:?}");
    }

    #[test]
    fn two_agents_of_one_kernel_are_noticed() {
        let good = with_rate(10_000, Nanos::from_millis(5), 0.3);
        let twin = HostPart {
            boot_id: "a",
            ..part("b", &good, 0)
        };
        let (_, warnings) = judged(&[part("a", &good, 0), twin]);
        assert_eq!(warnings[0].name, "one_machine");
    }
}
