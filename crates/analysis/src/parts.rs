//! The verdict on a load that several hosts carried: the worst of its parts decides, and is named. Nothing is rescaled.

use crate::words::{percent, plural};
use crate::{LatencySummary, Limit, Verdict, judge_load};
use record::{
    ClockSeen, Connections, Histogram, HostEnd, HostPart, LoadOutcome, LoadSpec, Nanos, Part,
    Unavailable, Warning,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Of a start that was agreed on, the most that may lie between two hosts; or this share of the measured part.
const SKEW: Nanos = Nanos(10_000_000);
const SKEW_SHARE: f64 = 0.005;
/// One host has as many of the slowest requests as this times its share of all requests: it owns the tail.
const OWNS: f64 = 2.0;
/// Slowest requests of which fewer say nothing.
const TAIL_LEAST: u64 = 50;

/// What one host brought to a load of several.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AgentFigures {
    pub host: String,
    /// Load threads there: its share of the load is theirs.
    pub threads: u32,
    #[serde(flatten)]
    pub state: AgentState,
}

/// How a host's part ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum AgentState {
    /// It was carried to its end.
    Carried(Box<AgentCarried>),
    /// The host's prony would not.
    Refused { why: String, remedy: String },
    /// The host, or the connection to it, was lost.
    Lost {
        why: String,
        /// Counted from the start of the load.
        after_s: f64,
    },
}

/// A part that was carried.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AgentCarried {
    pub connections: Connections,
    /// Answered whole.
    pub completed: u64,
    /// Answered whole with a status below 400.
    pub succeeded: u64,
    pub failed: u64,
    /// Successes per second; `null` without one.
    pub achieved_per_s: Option<f64>,
    /// Of the answers to all hosts, 0 to 1.
    pub share_of_requests: f64,
    /// Response times, ns; `null` without one.
    pub response_ns: Option<LatencySummary>,
    /// The same as HdrHistogram V2 compressed, base64; those of all hosts add up to the load's.
    pub histogram: String,
    /// Share of the time that the busiest load thread worked, 0 to 1.
    pub utilization: Option<f64>,
    /// By how much it started later than agreed, ns; negative for earlier.
    pub start_late_ns: i64,
    pub clock: ClockSeen,
    /// On this part alone; `null` where it was not carried.
    pub verdict: Option<Verdict>,
    /// What could not be watched on that host.
    pub unavailable: Vec<Unavailable>,
}

/// A load of several hosts, judged.
pub struct JudgedParts {
    /// On all of it.
    pub verdict: Verdict,
    /// Each host's figures.
    pub agents: Vec<AgentFigures>,
    /// What a reader must know.
    pub warnings: Vec<Warning>,
}

/// Judges a load by the verdict on its sum and by its parts; `whole` is the sum.
pub fn judge_parts(
    sum: Verdict,
    parts: &[HostPart],
    spec: &LoadSpec,
    error_limit: f64,
    whole: &LoadOutcome,
) -> JudgedParts {
    let verdicts: Vec<_> = parts
        .iter()
        .map(|part| {
            let carried = part.carried()?;
            let (outcome, series) = (&carried.outcome, &carried.series);
            let spec = of_part(spec, part.part);
            Some(judge_load(outcome, series, &spec, &[], error_limit))
        })
        .collect();
    let worst = lost(parts)
        .or_else(|| invalid(parts, &verdicts))
        .or_else(|| skewed(parts));
    let mut warnings = one_machine(parts);
    warnings.extend(tail_owner(parts));
    let agents = parts.iter().zip(verdicts);
    JudgedParts {
        verdict: worst.unwrap_or(sum),
        agents: agents
            .map(|(part, verdict)| figures(part, verdict, whole))
            .collect(),
        warnings,
    }
}

fn figures(part: &HostPart, verdict: Option<Verdict>, whole: &LoadOutcome) -> AgentFigures {
    let state = match &part.end {
        HostEnd::Carried(carried) => {
            let outcome = &carried.outcome;
            let share = |own: u64, all: u64| own as f64 / all.max(1) as f64;
            AgentState::Carried(Box::new(AgentCarried {
                connections: outcome.connections.clone(),
                completed: outcome.requests.completed,
                succeeded: outcome.requests.succeeded,
                failed: outcome.requests.failures(),
                achieved_per_s: outcome.achieved_per_s(),
                share_of_requests: share(outcome.requests.completed, whole.requests.completed),
                response_ns: LatencySummary::of(&outcome.response),
                histogram: outcome.response.to_base64(),
                utilization: outcome.generator.utilization(),
                start_late_ns: carried.start_late_ns,
                clock: carried.clock,
                verdict,
                unavailable: carried.unavailable.clone(),
            }))
        }
        HostEnd::Refused { why, remedy } => AgentState::Refused {
            why: why.clone(),
            remedy: remedy.clone(),
        },
        HostEnd::Lost { why, after } => AgentState::Lost {
            why: why.clone(),
            after_s: after.as_secs_f64(),
        },
    };
    AgentFigures {
        host: part.host.clone(),
        threads: part.part.threads,
        state,
    }
}

/// The load that one part is.
fn of_part(spec: &LoadSpec, part: Part) -> LoadSpec {
    let share = f64::from(part.threads) / f64::from(part.of);
    let mut spec = spec.clone();
    // Its series are of the host that it was sent from.
    spec.hosts.clear();
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

fn lost(parts: &[HostPart]) -> Option<Verdict> {
    let (part, why) = (parts.iter()).find_map(|part| Some((part, part.failure()?)))?;
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

fn invalid(parts: &[HostPart], verdicts: &[Option<Verdict>]) -> Option<Verdict> {
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

fn skewed(parts: &[HostPart]) -> Option<Verdict> {
    let starts = parts.iter().filter_map(|part| {
        let carried = part.carried()?;
        let late = carried.start_late_ns.unsigned_abs();
        let certain = late.saturating_sub(carried.clock.bound_ns);
        Some((&part.host, Nanos(certain), carried.outcome.measured()))
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
fn one_machine(parts: &[HostPart]) -> Vec<Warning> {
    let twin = parts.iter().enumerate().find_map(|(i, part)| {
        let others = &parts[i + 1..];
        let same = others.iter().find(|other| other.boot_id == part.boot_id)?;
        Some((&part.host, &same.host))
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
fn tail_owner(parts: &[HostPart]) -> Option<Warning> {
    let outcomes: Vec<_> = parts
        .iter()
        .filter_map(|part| Some((&part.host, &part.carried()?.outcome.response)))
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
            (host, of_all, above(response) as f64 / slow.max(1) as f64)
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
    use record::CarriedPart;

    const PART: Part = Part {
        first: 0,
        threads: 1,
        of: 2,
    };

    fn part(host: &str, outcome: &LoadOutcome, start_late_ns: i64) -> HostPart {
        HostPart {
            host: host.to_owned(),
            boot_id: host.to_owned(),
            part: PART,
            end: HostEnd::Carried(Box::new(CarriedPart {
                outcome: outcome.clone(),
                series: Vec::new(),
                unavailable: Vec::new(),
                start_late_ns,
                clock: ClockSeen {
                    offset_ns: 0,
                    bound_ns: 100_000,
                    rate_ppm: None,
                    round_trip_ns: 200_000,
                },
            })),
        }
    }

    fn judged(parts: &[HostPart]) -> (Verdict, Vec<Warning>) {
        let outcome = with_rate(20_000, Nanos::from_millis(10), 0.3);
        let sum = judge_load(&outcome, &[], &spec(), &[], 0.01);
        assert!(sum.valid, "{sum:?}");
        let judged = judge_parts(sum, parts, &spec(), 0.01, &outcome);
        (judged.verdict, judged.warnings)
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
            end: HostEnd::Lost {
                why: "the connection to its agent was cut".to_owned(),
                after: Nanos::from_millis(3_200),
            },
            ..part("b", &good, 0)
        };
        let (verdict, _) = judged(&[part("a", &good, 0), gone]);
        assert!(!verdict.valid);
        assert!(verdict.why.contains("host b") && verdict.why.contains("3.20s"));
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
            boot_id: "a".to_owned(),
            ..part("b", &good, 0)
        };
        let (_, warnings) = judged(&[part("a", &good, 0), twin]);
        assert_eq!(warnings[0].name, "one_machine");
    }
}
