//! What a runtime told of a thread, in words: what it waits for, in which function, and who has it.
//!
//! The surprise: the innermost function is that of a library (a semaphore, a queue), and says which kind of thing is
//! waited for; the innermost one of the application says which of them. A label has the latter, so that two pools
//! are two rows; the place has both.

use super::cpu::CpuRow;
use record::{PlaceTold, Told, ToldState};
use std::collections::BTreeMap;

/// Kind of the row of an interpreter.
const INTERPRETER: &str = "interpreter";
/// Functions below this share of all samples are told together.
const SMALL: f64 = 0.02;
/// Fewer meetings than this do not say what ran.
const FEWEST: u64 = 30;
/// Functions that a place names.
const NAMED: usize = 4;
/// How names of functions begin that belong to a runtime's own library.
const LIBRARIES: [&str; 5] = ["java.", "javax.", "jdk.", "sun.", "com.sun."];

/// Kind and words of a wait; `None` where the runtime knows of none, as the system call does.
pub(super) fn wait(told: &Told) -> Option<(&'static str, String)> {
    let (kind, words) = match told.state {
        ToldState::Running => return None,
        ToldState::Lock if !told.object.is_empty() && told.runtime != "jvm" => {
            return Some(("lock", format!("waiting for {}", told.object)));
        }
        ToldState::Lock => ("lock", "waiting for a lock"),
        ToldState::Permit => ("lock", "waiting for a permit of a semaphore or pool"),
        ToldState::Signal => ("lock", "waiting until another thread signals"),
        ToldState::Result => ("lock", "waiting for the result of another thread"),
        ToldState::Sleep => ("sleep", "asleep"),
    };
    Some(match own_function(told) {
        Some(function) => (kind, format!("{words}: {function}")),
        None => (kind, words.to_owned()),
    })
}

/// Divides the row of an interpreter by the functions that its runtime told of threads that ran. Without enough of
/// these, or without such a row, all stays as it is.
pub(super) fn divided(mut rows: Vec<CpuRow>, ran: &[&PlaceTold], all: &[Told]) -> Vec<CpuRow> {
    let mut functions: BTreeMap<&str, (u64, u64, &Told)> = BTreeMap::new();
    for one in ran {
        let told = all.get(one.told as usize);
        let told = told.filter(|told| told.state == ToldState::Running);
        let Some((told, function)) = told.and_then(|t| Some((t, t.frames.first()?))) else {
            continue;
        };
        let entry = functions.entry(function).or_insert((0, 0, told));
        entry.0 += one.samples;
        // The callers that led there most often stand for all.
        if one.samples > entry.1 {
            (entry.1, entry.2) = (one.samples, told);
        }
    }
    let met: u64 = functions.values().map(|(samples, ..)| samples).sum();
    let total: u64 = rows.iter().map(|row| row.samples).sum();
    let found = rows.iter().position(|row| row.kind == INTERPRETER);
    let Some(found) = found.filter(|_| met >= FEWEST) else {
        return rows;
    };
    let whole = rows.remove(found);
    let mut rest = whole.samples;
    for (function, (samples, _, told)) in functions {
        let part = (u128::from(whole.samples) * u128::from(samples) / u128::from(met)) as u64;
        if part == 0 || (part as f64) < SMALL * total as f64 {
            continue;
        }
        rest -= part;
        rows.push(CpuRow {
            label: format!("running scripts: {function}"),
            place: place(told, ""),
            samples: part,
            ..whole.clone()
        });
    }
    rows.push(CpuRow {
        samples: rest,
        ..whole
    });
    rows.retain(|row| row.samples > 0);
    rows.sort_by(|a, b| b.samples.cmp(&a.samples).then(a.label.cmp(&b.label)));
    rows
}

/// The functions that lead there, and who has what is waited for.
pub(super) fn place(told: &Told, waker: &str) -> String {
    let names: Vec<&str> = told.frames.iter().take(NAMED).map(|f| bare(f)).collect();
    let mut text = names.join(" < ");
    let add = |text: &mut String, more: String| {
        if !text.is_empty() {
            text.push_str("; ");
        }
        text.push_str(&more);
    };
    if !told.owner.is_empty() {
        add(&mut text, format!("held by {}", told.owner));
    } else if told.state != ToldState::Sleep && waker.starts_with("thread ") {
        add(&mut text, format!("woken by {waker}"));
    }
    text
}

/// The innermost function of the application.
fn own_function(told: &Told) -> Option<&str> {
    let of_library = |frame: &&String| LIBRARIES.iter().any(|l| frame.starts_with(l));
    let own = told.frames.iter().find(|f| !of_library(f));
    own.or(told.frames.first()).map(|f| bare(f))
}

/// `Pool.getConnection` of `com.example.db.Pool.getConnection`; what is no such path stays as it is.
fn bare(function: &str) -> &str {
    if function.contains(['/', ' ', '<']) {
        return function;
    }
    let mut dots = function.rmatch_indices('.').map(|(at, _)| at);
    match (dots.next(), dots.next()) {
        (Some(_), Some(class)) => &function[class + 1..],
        _ => function,
    }
}
