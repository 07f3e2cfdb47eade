//! Two outputs of one tool, before and after: what changed most.
//!
//! Counts are compared per request where the text has requests, else as they are. A share is compared by how much of
//! the whole it moved, everything else by its ratio.

use super::readings::Held;
use super::shown::row_text;
use crate::Evidence;
use crate::words::percent;
use record::pasted::{Artefact, Pasted, Row, requests_in};
use std::collections::BTreeMap;

/// A function whose share moved by this much is what differs between two profiles.
const MOVED: f64 = 0.08;
/// Calls per request that changed by this factor.
const FACTOR: f64 = 1.5;
/// A call that is made less than this for a request differs by chance.
const RARE: f64 = 0.05;
/// A rate that changed by less is within what two runs differ by.
const RATE: f64 = 1.15;
/// Changes that a sentence holds.
const NAMED: usize = 3;

/// What differs between the last two outputs of a kind.
pub(super) fn between(pasted: &Pasted) -> Vec<Held> {
    let mut held: Vec<Held> = Vec::new();
    held.extend(profiles(pasted));
    held.extend(straces(pasted));
    held.extend(loads(pasted));
    held
}

fn changed(says: String, next: &str, weight: f64, evidence: Vec<Evidence>) -> Held {
    Held {
        name: "changed".to_owned(),
        cause: None,
        of_generator: false,
        says,
        next: next.to_owned(),
        weight,
        evidence,
    }
}

fn profiles(pasted: &Pasted) -> Option<Held> {
    let profiles: Vec<&Artefact> = pasted
        .artefacts
        .iter()
        .filter(|a| a.profile.is_some())
        .collect();
    let [.., before, after] = profiles.as_slice() else {
        return None;
    };
    if before.tool != after.tool {
        return None;
    }
    let shares = |a: &Artefact| -> BTreeMap<String, f64> {
        let mut shares = BTreeMap::new();
        for row in &a.rows {
            *shares.entry(row.label.clone()).or_insert(0.0) += row.share;
        }
        shares
    };
    let (old, new) = (shares(before), shares(after));
    let names: std::collections::BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    let mut moved: Vec<(f64, f64, &String)> = names
        .into_iter()
        .map(|name| {
            let of = |shares: &BTreeMap<String, f64>| shares.get(name).copied().unwrap_or(0.0);
            (of(&old), of(&new), name)
        })
        .filter(|(a, b, _)| (a - b).abs() >= MOVED)
        .collect();
    moved.sort_by(|x, y| (y.1 - y.0).abs().total_cmp(&(x.1 - x.0).abs()));
    moved.truncate(NAMED);
    if moved.is_empty() {
        return None;
    }
    let words: Vec<String> = moved
        .iter()
        .map(|(a, b, name)| {
            let row = Row {
                label: (*name).clone(),
                place: String::new(),
                share: *b,
            };
            let now = row_text(&row);
            format!("{now} was {}", percent(*a))
        })
        .collect();
    let evidence = moved
        .iter()
        .map(|(_, b, name)| Evidence::new(name.as_str(), *b, "1", None, &after.tool))
        .collect();
    Some(changed(
        format!(
            "between the two profiles the largest changes are {}",
            words.join(", ")
        ),
        "the callers of that function in both (`perf report -g caller`), and what changed there between the two versions or settings",
        0.9,
        evidence,
    ))
}

fn straces(pasted: &Pasted) -> Option<Held> {
    let [.., before, after] = pasted.straces.as_slice() else {
        return None;
    };
    let per_request = |summary: &record::pasted::StraceSummary| {
        let calls = summary.calls();
        let requests = requests_in(&calls)?;
        let each = calls
            .into_iter()
            .map(move |(name, n)| (name, n as f64 / requests));
        Some(each.collect::<BTreeMap<String, f64>>())
    };
    let (old, new) = (per_request(before)?, per_request(after)?);
    let mut moved: Vec<(f64, f64, &String)> = old
        .keys()
        .chain(new.keys().filter(|n| !old.contains_key(*n)))
        .map(|name| {
            let of = |calls: &BTreeMap<String, f64>| calls.get(name).copied().unwrap_or(0.0);
            (of(&old), of(&new), name)
        })
        .filter(|(a, b, _)| a.max(*b) >= RARE && a.max(*b) >= FACTOR * a.min(*b))
        .collect();
    moved.sort_by(|x, y| (y.1 - y.0).abs().total_cmp(&(x.1 - x.0).abs()));
    moved.truncate(NAMED);
    if moved.is_empty() {
        return None;
    }
    let words: Vec<String> = moved
        .iter()
        .map(|(a, b, name)| format!("{name} from {a:.2} to {b:.2}"))
        .collect();
    Some(changed(
        format!(
            "per request, the calls that changed most are {}",
            words.join(", ")
        ),
        "`strace -f -T -e trace=CALL -p PID` on the slower one for what those calls are made on",
        0.88,
        Vec::new(),
    ))
}

/// Response times that differ by this factor at the same rate are no noise.
const SLOWER: f64 = 2.0;

fn loads(pasted: &Pasted) -> Option<Held> {
    let [before, after] = pasted.loads.as_slice() else {
        return None;
    };
    let figures = |name: &str| before.value(name).zip(after.value(name));
    let (old, new) = figures("rate_per_s")?;
    let same = before.tool == after.tool
        && before.value("connections") == after.value("connections")
        && old > 0.0
        && new > 0.0;
    if !same {
        return None;
    }
    let slower = figures("latency_ns.p50")
        .or_else(|| figures("latency_ns.mean"))
        .filter(|(a, b)| *a > 0.0 && *b > 0.0 && (b / a).max(a / b) >= SLOWER);
    let mut said = if (new / old).max(old / new) >= RATE {
        format!(
            "the second run reached {:.2} times the rate of the first ({old:.0} and {new:.0}/s) with as many connections",
            new / old
        )
    } else if let Some((a, b)) = slower {
        format!(
            "at the same rate ({old:.0} and {new:.0}/s) the second run's typical response took {:.2} times as long as the first's",
            b / a
        )
    } else {
        return None;
    };
    if let Some((a, b)) = figures("threads").filter(|(a, b)| a != b) {
        said += &format!(
            "; the generator used {a:.0} and {b:.0} threads, so the difference may be its own"
        );
    }
    Some(changed(
        said,
        "what differs between the two, one at a time, each several times in turn (`prony run` with it as a factor), and `perf record -g -p PID -- sleep 10` in both",
        0.5,
        Vec::new(),
    ))
}
