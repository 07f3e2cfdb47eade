//! What a watch of traffic that was there says beside its diagnosis: what it cost, which seconds were slow, what
//! differs in them, and what a request takes more of than in an earlier record.
//!
//! All of it is made from the record, so that terminal, JSON and page say the same. The surprise: the earlier record
//! of `--against` is another record, which may be gone when this one is read again; what came of it is stored beside.

use crate::against::{AgainstRow, against};
use crate::diagnosis::facts_of;
use crate::seconds::{FEWEST_NORMAL, SYMPTOMS, SlowDiffers, UNITS, is_normal, slow_differs};
use crate::versions::{VersionChange, changed};
use plan::When;
use record::{
    EnvironmentItem, Lookout, Overhead, PROOF_STAGE, RunRecord, Second, TrialRecord, Unavailable,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Points of a timeline: as many as a page is wide.
const POINTS: usize = 600;
/// The level of the trial that a longer watch began with.
const BEGINNING: &str = "at the beginning";

/// What a watch says beside its diagnosis.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Watched {
    /// What it took of the host's CPU against what it may take; `null` when that was not measured.
    pub overhead: Option<Overhead>,
    /// `null` when one window was watched.
    pub slow_seconds: Option<SlowSeconds>,
}

/// The seconds of a longer watch: which were slow, and what differs in them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SlowSeconds {
    /// What makes a second slow, as a person gave it; empty: a second that differs from the others.
    pub when: String,
    /// Seconds that were watched.
    pub seconds: usize,
    pub slow: usize,
    /// Seconds with probes, which are not judged.
    pub probed: usize,
    /// What `timeline` shows; `null` when nothing of the kind was visible.
    pub signal: Option<SignalOf>,
    /// The seconds in order, drawn together where there are many.
    pub timeline: Vec<TimelinePoint>,
    /// The slow seconds, oldest first.
    pub listed: Vec<SlowSecond>,
    /// Signals that differ in the slow seconds, farthest first.
    pub differs: Vec<SlowDiffers>,
    /// What a request takes in the slow seconds (after) and at the beginning (before), as far as both were looked at
    /// closely; empty when they were not.
    pub rows: Vec<AgainstRow>,
    /// What could not be seen or said.
    pub not_visible: Vec<Unavailable>,
}

/// A signal of the seconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SignalOf {
    pub name: String,
    pub unit: String,
}

/// A second of the timeline, or some that follow each other.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TimelinePoint {
    /// From the first second on, s.
    pub at_s: f64,
    /// Largest value; `null` when the signal was not visible.
    pub value: Option<f64>,
    /// One of them was slow.
    pub slow: bool,
    /// Probes were armed in one of them.
    pub probed: bool,
}

/// A slow second.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SlowSecond {
    /// From the first second on, s.
    pub at_s: f64,
    /// The condition that it met, or what differed.
    pub why: String,
    /// All signals that were visible in it.
    pub values: BTreeMap<String, f64>,
}

/// One server against its own earlier record.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Against {
    /// The earlier record, as it was named.
    pub record: String,
    /// When that was made.
    pub started: String,
    /// What a request takes then (before) and now (after), what differs first.
    pub rows: Vec<AgainstRow>,
    /// Programs, libraries and kernel that are others than then.
    #[serde(default)]
    pub versions: Vec<VersionChange>,
    /// What could not be compared.
    pub not_visible: Vec<Unavailable>,
}

/// What the record says of a watch; `None` for a record without one.
pub fn watched(record: &RunRecord, error_limit: f64) -> Option<Watched> {
    let newest = record.trials.first()?;
    let watching = newest.examination.as_ref()?.watching.as_ref()?;
    let lookout = watching.lookout.as_ref();
    Some(Watched {
        overhead: watching.overhead.clone(),
        slow_seconds: lookout.map(|lookout| slow_seconds(record, newest, lookout, error_limit)),
    })
}

fn slow_seconds(
    record: &RunRecord,
    newest: &TrialRecord,
    lookout: &Lookout,
    error_limit: f64,
) -> SlowSeconds {
    let all = &lookout.seconds;
    let signal = signal(lookout);
    let slow: Vec<&Second> = all.iter().filter(|s| !s.slow.is_empty()).collect();
    let began = all.first().map_or(0, |s| s.span.from.0);
    let at_s = |second: &Second| second.span.from.0.saturating_sub(began) as f64 / 1e9;
    let mut not_visible = lookout.unavailable.clone();
    let normal = all.iter().filter(|s| is_normal(s)).count();
    if normal < FEWEST_NORMAL {
        not_visible.push(gap(
            "what is normal",
            &format!("{normal} normal seconds do not say it, {FEWEST_NORMAL} would"),
            "watch for longer (--for)",
        ));
    }
    let of_beginning = |t: &&TrialRecord| {
        t.stage != PROOF_STAGE && t.levels.get("seconds").is_some_and(|l| l == BEGINNING)
    };
    let first = record.trials.iter().find(of_beginning);
    let first = first.filter(|first| first.id != newest.id);
    let rows = first.map_or_else(Vec::new, |first| {
        let facts = |t| facts_of(t, &record.environment, error_limit);
        against((first, &facts(first)), (newest, &facts(newest)))
    });
    if !slow.is_empty() && rows.is_empty() {
        let (reason, remedy) = match first {
            None => (
                "no slow second was looked at closely: the watch was about to end, or they were over",
                "watch for longer (--for)",
            ),
            Some(_) => (
                "the slow seconds or the beginning had too few requests, or no probe ran",
                "run prony as root on a kernel with BPF, while requests come",
            ),
        };
        not_visible.push(gap(
            "what a request takes more of in slow seconds",
            reason,
            remedy,
        ));
    }
    SlowSeconds {
        when: lookout.when.clone(),
        seconds: all.len(),
        slow: slow.len(),
        probed: all.iter().filter(|s| s.probed).count(),
        timeline: timeline(all, signal.as_ref(), at_s),
        signal,
        listed: slow
            .iter()
            .map(|second| SlowSecond {
                at_s: at_s(second),
                why: second.slow.clone(),
                values: second.values.clone(),
            })
            .collect(),
        differs: slow_differs(all),
        rows,
        not_visible,
    }
}

fn gap(what: &str, reason: &str, remedy: &str) -> Unavailable {
    Unavailable {
        what: what.to_owned(),
        reason: reason.to_owned(),
        remedy: remedy.to_owned(),
    }
}

/// The signal that a person asked for, or else the first symptom that was visible in most seconds.
fn signal(lookout: &Lookout) -> Option<SignalOf> {
    let asked = lookout.when.split(", ").filter_map(|w| When::parse(w).ok());
    // A quantile is tested and never known by the second; the mean moves with it.
    let asked = asked.map(|when| match when.signal {
        "p50" | "p90" | "p99" => "mean",
        signal => signal,
    });
    let mut candidates = asked.chain(SYMPTOMS.iter().map(|(signal, ..)| *signal));
    let name = candidates.find(|name| {
        let seen = lookout
            .seconds
            .iter()
            .filter(|s| s.values.contains_key(*name));
        2 * seen.count() > lookout.seconds.len()
    })?;
    let unit = UNITS.iter().find(|(signal, _)| *signal == name);
    Some(SignalOf {
        name: name.to_owned(),
        unit: unit.map_or("", |(_, unit)| *unit).to_owned(),
    })
}

fn timeline(
    all: &[Second],
    signal: Option<&SignalOf>,
    at_s: impl Fn(&Second) -> f64,
) -> Vec<TimelinePoint> {
    let together = all.len().div_ceil(POINTS).max(1);
    let point = |seconds: &[Second]| TimelinePoint {
        at_s: at_s(&seconds[0]),
        value: signal.and_then(|signal| {
            let values = seconds.iter().filter_map(|s| s.values.get(&signal.name));
            values.copied().reduce(f64::max)
        }),
        slow: seconds.iter().any(|s| !s.slow.is_empty()),
        probed: seconds.iter().any(|s| s.probed),
    };
    all.chunks(together).map(point).collect()
}

/// What a request takes now against then. `record` and `started` tell which record the earlier trial is of.
pub fn against_earlier(
    (record, started): (&str, &str),
    earlier: (&TrialRecord, &[EnvironmentItem]),
    now: (&TrialRecord, &[EnvironmentItem]),
    error_limit: f64,
) -> Against {
    let facts = |(trial, of)| facts_of(trial, of, error_limit);
    let rows = against((earlier.0, &facts(earlier)), (now.0, &facts(now)));
    let (versions, mut not_visible) = changed(earlier, now);
    if rows.is_empty() {
        let (was, is) = (names(earlier.0), names(now.0));
        let reason = match was.iter().any(|name| is.contains(name)) {
            true => "one of the two has neither CPU time nor calls per request".to_owned(),
            false => format!(
                "they are of different servers: {} then, {} now",
                was.join(", "),
                is.join(", ")
            ),
        };
        not_visible.push(gap(
            "what a request takes more of than in the earlier record",
            &reason,
            "record both with the same flags, as root on a kernel with BPF",
        ));
    }
    Against {
        record: record.to_owned(),
        started: started.to_owned(),
        rows,
        versions,
        not_visible,
    }
}

fn names(trial: &TrialRecord) -> Vec<String> {
    let servers = trial.examination.iter().flat_map(|e| &e.servers);
    servers.map(|s| s.target.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::{Nanos, TimeSpan};

    fn lookout(when: &str, seconds: u64, slow: &[u64], with: &str) -> Lookout {
        let second = |i: u64| Second {
            span: TimeSpan {
                from: Nanos::from_secs(100 + i),
                to: Nanos::from_secs(101 + i),
            },
            values: BTreeMap::from([(with.to_owned(), i as f64)]),
            slow: if slow.contains(&i) {
                "open 9.0 against 1.0".into()
            } else {
                String::new()
            },
            probed: i == 0,
        };
        Lookout {
            when: when.to_owned(),
            seconds: (0..seconds).map(second).collect(),
            unavailable: vec![],
        }
    }

    #[test]
    fn the_timeline_shows_what_was_asked_for_or_the_first_visible_symptom() {
        let name = |when, with| signal(&lookout(when, 9, &[], with)).map(|s| s.name);
        assert_eq!(name("p99>50ms", "mean").as_deref(), Some("mean"));
        assert_eq!(name("cpu>90%", "cpu").as_deref(), Some("cpu"));
        assert_eq!(name("cpu>90%", "open").as_deref(), Some("open"));
        assert_eq!(name("", "segments").as_deref(), Some("segments"));
        assert_eq!(name("", "pressure of nobody"), None);
    }

    #[test]
    fn many_seconds_are_drawn_together_and_no_slow_one_is_lost() {
        let all = lookout("", 6_000, &[4_321], "open").seconds;
        let open = SignalOf {
            name: "open".into(),
            unit: "requests".into(),
        };
        let points = timeline(&all, Some(&open), |s| {
            (s.span.from.0 / 1_000_000_000 - 100) as f64
        });
        assert_eq!(points.len(), POINTS);
        let slow: Vec<&TimelinePoint> = points.iter().filter(|p| p.slow).collect();
        assert_eq!(
            (slow.len(), slow[0].at_s, slow[0].value),
            (1, 4_320.0, Some(4_329.0))
        );
        assert!(points[0].probed && !points[1].probed);
        assert_eq!(timeline(&[], None, |_| 0.0), []);
    }
}
