//! Where the turns of a target's connections go, as facts: shares of the mean turn by place, and stalls.
//!
//! The surprise: a place at which no turn was is 0 where turns were traced, and unknown where they were not.

use super::{Material, Sheet};
use record::{Place, TargetTurns};

const SOURCE: &str = "turns: sockets and threads, traced";
/// Fewer turns than this tell nothing of shares.
const FEWEST: u64 = 20;
/// Places with their names in facts.
const PLACES: [(&str, Place); 9] = [
    ("listen_queue", Place::ListenQueue),
    ("run_queue", Place::RunQueue),
    ("other_turns", Place::OtherTurns),
    ("others_blocked", Place::OthersBlocked),
    ("no_free_thread", Place::NoFreeThread),
    ("blocked", Place::Blocked),
    ("upstream", Place::Upstream),
    ("sending", Place::Sending),
    ("hidden", Place::Hidden),
];
const STALLS: [&str; 6] = [
    "moments",
    "turns_each",
    "period_s",
    "period_spread",
    "time_share",
    "longest_ms",
];

pub(super) fn extract(material: &Material<'_>, sheet: &mut Sheet<'_>) {
    let reason = material.reason(&["turns"], "its turns were not traced");
    let traced = material.turns(&sheet.target);
    let Some(turns) = traced.filter(|t| t.account.turns >= FEWEST && t.account.total_ns > 0) else {
        for (name, _) in PLACES {
            sheet.unknown(&format!("turn.{name}_share"), &reason);
        }
        sheet.unknown("turn.pipe_share", &reason);
        for name in STALLS {
            sheet.unknown(&format!("stall.{name}"), &reason);
        }
        return;
    };
    let total = turns.account.total_ns as f64;
    let share = |test: &dyn Fn(&record::PlaceTime) -> bool| {
        let places = turns.account.places.iter().filter(|p| test(p));
        places.map(|p| p.total_ns as f64).sum::<f64>() / total
    };
    for (name, place) in PLACES {
        let part = share(&|p| p.place == place);
        sheet.known(&format!("turn.{name}_share"), part, SOURCE);
    }
    let blocked = |p: &record::PlaceTime| matches!(p.place, Place::Blocked | Place::OthersBlocked);
    let pipe = share(&|p| blocked(p) && matches!(p.detail.as_str(), "pipe" | "pipe_write"));
    sheet.known("turn.pipe_share", pipe, SOURCE);
    stalls(turns, sheet);
}

fn stalls(turns: &TargetTurns, sheet: &mut Sheet<'_>) {
    let Some(stalls) = &turns.stalls else {
        for name in STALLS {
            sheet.unknown(
                &format!("stall.{name}"),
                "an older version traced these turns",
            );
        }
        return;
    };
    let few = "turns far above the median came in fewer than three moments";
    sheet.known("stall.moments", stalls.moments as f64, SOURCE);
    let share = stalls.total_ns as f64 / turns.account.total_ns as f64;
    sheet.known("stall.time_share", share, SOURCE);
    let longest = stalls.longest_ns as f64 / 1e6;
    sheet.known("stall.longest_ms", longest, SOURCE);
    for (name, value) in [
        (
            "turns_each",
            stalls
                .period_ns
                .map(|_| stalls.turns as f64 / stalls.moments as f64),
        ),
        ("period_s", stalls.period_ns.map(|ns| ns as f64 / 1e9)),
        ("period_spread", stalls.period_spread),
    ] {
        let name = format!("stall.{name}");
        match value {
            Some(value) => sheet.known(&name, value, SOURCE),
            None => sheet.not_applicable(&name, few),
        }
    }
}
