//! What a watch showed: what it took, which seconds were slow and what differs in them, and what a request takes more
//! of than in an earlier record.
//!
//! The seconds are a row of bars without scripts; the tables below say the same in numbers.

use super::paths;
use crate::json::RunDocument;
use crate::number::{Number, Source, Unit, unit_named};
use analysis::{AgainstRow, TimelinePoint};
use record::{RunRecord, Unavailable};
use serde::Serialize;
use std::fmt::Write as _;

/// Slow seconds that are listed; the document has them all.
const LISTED: usize = 12;
/// Height of the bars, CSS pixels.
const HEIGHT: f64 = 110.0;

/// The first screen of a record in which one server was examined: what was found, and what to do.
#[derive(Debug, Serialize)]
pub struct FoundView {
    title: String,
    cause: String,
    why: String,
    remedy: String,
    slow: Option<Number>,
    seconds: Option<Number>,
    /// Pointer of the finding in the document.
    at: String,
}

/// Traffic that was there was watched, and nothing loaded: what was found is all the answer.
pub fn no_load(record: &RunRecord, document: &RunDocument) -> bool {
    document.watched.is_some() && record.trials.iter().all(|t| t.outcome.is_none())
}

/// What was found in traffic that was there, or under the one load of a diagnosis; `None` where several loads or
/// settings stand for the answer.
pub fn found(record: &RunRecord, document: &RunDocument, source: &Source) -> Option<FoundView> {
    let watched = document
        .watched
        .as_ref()
        .filter(|_| no_load(record, document));
    let cell = match (watched, document.diagnosed.as_slice()) {
        (Some(_), all) => {
            let newest = record.trials.first()?.id;
            all.iter().position(|d| d.trial == newest)?
        }
        (None, [only]) if record.trials.iter().all(|t| t.id == only.trial) => 0,
        _ => return None,
    };
    let first = document.diagnosed[cell].diagnosed.diagnosis.first()?;
    let number = |field: &str| {
        watched?.slow_seconds.as_ref()?;
        source.number(&format!("/watched/slow_seconds/{field}"), Unit::Count)
    };
    Some(FoundView {
        title: first.title.clone(),
        cause: first.cause.clone(),
        why: first.why.clone(),
        remedy: first.remedy.clone(),
        slow: number("slow"),
        seconds: number("seconds"),
        at: format!("/diagnosed/{cell}/diagnosis/0"),
    })
}

/// Both sections; `None` where nothing was watched or held against a record.
#[derive(Debug, Serialize)]
pub struct WatchedView {
    overhead: Option<OverheadView>,
    seconds: Option<SecondsView>,
    against: Option<AgainstView>,
}

#[derive(Debug, Serialize)]
struct OverheadView {
    budget: Option<Number>,
    share: Option<Number>,
    cpus: Option<Number>,
    elapsed: Option<Number>,
    afterwards: Option<Number>,
    parts: Vec<PartView>,
    held_by: Vec<String>,
    over: bool,
}

#[derive(Debug, Serialize)]
struct PartView {
    what: &'static str,
    time: Option<Number>,
    known: String,
}

#[derive(Debug, Serialize)]
struct SecondsView {
    when: String,
    seconds: Option<Number>,
    slow: Option<Number>,
    probed: Option<Number>,
    signal: String,
    unit: String,
    svg: String,
    /// End of the timeline, s.
    last: Option<Number>,
    listed: Vec<ListedView>,
    more: usize,
    differs: Vec<DiffersView>,
    rows: RowsView,
    not_visible: Vec<Unavailable>,
    any_slow: bool,
}

#[derive(Debug, Serialize)]
struct ListedView {
    at: Option<Number>,
    value: Option<Number>,
    why: String,
}

#[derive(Debug, Serialize)]
struct DiffersView {
    signal: String,
    unit: String,
    normal: Option<Number>,
    slow: Option<Number>,
    difference: Option<Number>,
    low: Option<Number>,
    high: Option<Number>,
}

/// Rows that differ and rows that do not.
#[derive(Debug, Serialize)]
struct RowsView {
    at: String,
    differ: Vec<RowView>,
    same: Vec<RowView>,
}

#[derive(Debug, Serialize)]
struct RowView {
    target: String,
    row: String,
    unit: String,
    before: Option<Number>,
    after: Option<Number>,
    low: Option<Number>,
    high: Option<Number>,
    noise: String,
}

#[derive(Debug, Serialize)]
struct AgainstView {
    record: String,
    started: String,
    /// Target and what changed of it.
    versions: Vec<(String, String)>,
    rows: RowsView,
    not_visible: Vec<Unavailable>,
}

/// What the document says of a watch.
pub fn watched(document: &RunDocument, source: &Source) -> Option<WatchedView> {
    debug_assert_eq!(source.name(), paths::DOCUMENT);
    let watched = document.watched.as_ref();
    let overhead = watched.and_then(|w| w.overhead.as_ref()).map(|overhead| {
        let number = |field: &str, unit| source.number(&format!("/watched/overhead/{field}"), unit);
        let parts = overhead.parts.iter().enumerate().map(|(n, part)| PartView {
            what: match part.what.as_str() {
                "process" => "own threads",
                "probes" => "probes in the kernel",
                _ => "stack samples",
            },
            time: number(&format!("parts/{n}/cpu_ns"), Unit::Nanos),
            known: part.known.clone(),
        });
        OverheadView {
            budget: number("budget", Unit::Share),
            share: number("share", Unit::Share),
            cpus: number("cpus", Unit::Count),
            elapsed: number("elapsed_ns", Unit::Nanos),
            afterwards: (overhead.afterwards_ns > 0)
                .then(|| number("afterwards_ns", Unit::Nanos))
                .flatten(),
            parts: parts.collect(),
            held_by: overhead.held_by.clone(),
            over: overhead.share > overhead.budget,
        }
    });
    let seconds = seconds(document, source);
    let against = document.against.as_ref().map(|against| AgainstView {
        record: against.record.clone(),
        started: against.started.clone(),
        versions: against
            .versions
            .iter()
            .map(|v| (v.target.clone(), v.words()))
            .collect(),
        rows: rows(&against.rows, "/against/rows", source),
        not_visible: against.not_visible.clone(),
    });
    let any = overhead.is_some() || seconds.is_some() || against.is_some();
    any.then_some(WatchedView {
        overhead,
        seconds,
        against,
    })
}

fn seconds(document: &RunDocument, source: &Source) -> Option<SecondsView> {
    let seconds = document.watched.as_ref()?.slow_seconds.as_ref()?;
    let at = "/watched/slow_seconds";
    let number = |field: &str, unit| source.number(&format!("{at}/{field}"), unit);
    let listed = seconds.listed.iter().enumerate().take(LISTED);
    let differs = seconds.differs.iter().enumerate();
    let last = seconds.timeline.len().saturating_sub(1);
    Some(SecondsView {
        when: seconds.when.clone(),
        seconds: number("seconds", Unit::Count),
        slow: number("slow", Unit::Count),
        probed: number("probed", Unit::Count),
        signal: seconds
            .signal
            .as_ref()
            .map_or(String::new(), |s| s.name.replace('_', " ")),
        unit: seconds
            .signal
            .as_ref()
            .map_or(String::new(), |s| s.unit.clone()),
        svg: timeline(&seconds.timeline),
        last: number(&format!("timeline/{last}/at_s"), Unit::Seconds),
        listed: listed
            .map(|(n, second)| ListedView {
                at: number(&format!("listed/{n}/at_s"), Unit::Seconds),
                value: seconds.signal.as_ref().and_then(|signal| {
                    number(&format!("listed/{n}/values/{}", signal.name), Unit::Plain)
                }),
                why: second.why.clone(),
            })
            .collect(),
        more: seconds.listed.len().saturating_sub(LISTED),
        differs: differs
            .map(|(n, d)| {
                let of = |field: &str| number(&format!("differs/{n}/{field}"), Unit::Plain);
                DiffersView {
                    signal: d.signal.replace('_', " "),
                    unit: d.unit.clone(),
                    normal: of("normal"),
                    slow: of("slow"),
                    difference: of("difference"),
                    low: of("interval/0"),
                    high: of("interval/1"),
                }
            })
            .collect(),
        rows: rows(&seconds.rows, &format!("{at}/rows"), source),
        not_visible: seconds.not_visible.clone(),
        any_slow: seconds.slow > 0,
    })
}

fn rows(all: &[AgainstRow], at: &str, source: &Source) -> RowsView {
    let view = |(n, row): (usize, &AgainstRow)| {
        let (unit, behind) = unit_named(&row.unit);
        let number = |field: &str| source.number(&format!("{at}/{n}/{field}"), unit);
        RowView {
            target: row.target.clone(),
            row: row.row.clone(),
            unit: behind.to_owned(),
            before: number("before"),
            after: number("after"),
            low: number("interval/0"),
            high: number("interval/1"),
            noise: row.noise.clone(),
        }
    };
    let numbered = || all.iter().enumerate();
    RowsView {
        at: at.to_owned(),
        differ: numbered().filter(|(_, r)| r.differs).map(view).collect(),
        same: numbered().filter(|(_, r)| !r.differs).map(view).collect(),
    }
}

/// A bar for each point, as high as its value; slow ones stand out, those with probes are pale, and a slow one without
/// a value is marked all the same.
fn timeline(points: &[TimelinePoint]) -> String {
    let values = points.iter().filter_map(|p| p.value);
    let most = values.fold(0.0, f64::max);
    let width = 100.0 / points.len().max(1) as f64;
    let mut svg = format!(
        "<svg class=\"seconds\" width=\"100%\" height=\"{HEIGHT}\" role=\"img\" aria-label=\"the seconds in order; \
         slow ones stand out\">"
    );
    for (n, point) in points.iter().enumerate() {
        let x = n as f64 * width;
        let class = match (point.slow, point.probed) {
            (true, _) => "slow",
            (false, true) => "probed",
            (false, false) => "normal",
        };
        if point.slow {
            mark(&mut svg, "behind", (x, width), HEIGHT);
        }
        let height = match point.value {
            Some(value) if most > 0.0 => (value / most * (HEIGHT - 8.0)).max(1.0),
            _ => 0.0,
        };
        if height > 0.0 {
            mark(&mut svg, class, (x, width), height);
        }
    }
    svg + "</svg>"
}

fn mark(svg: &mut String, class: &str, (x, width): (f64, f64), height: f64) {
    let y = HEIGHT - height;
    write!(
        svg,
        "<rect class=\"{class}\" x=\"{x:.2}%\" y=\"{y:.1}\" width=\"{width:.2}%\" height=\"{height:.1}\"/>"
    )
    .expect("writing to a string does not fail");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_second_stands_out_even_without_a_value() {
        let point = |value, slow, probed| TimelinePoint {
            at_s: 0.0,
            value,
            slow,
            probed,
        };
        let svg = timeline(&[
            point(Some(2.0), false, true),
            point(Some(4.0), false, false),
            point(None, true, false),
            point(None, false, false),
        ]);
        assert_eq!(svg.matches("<rect").count(), 3, "{svg}");
        assert!(svg.contains("class=\"behind\" x=\"50.00%\""), "{svg}");
        assert!(
            svg.contains("class=\"probed\" x=\"0.00%\" y=\"59.0\""),
            "{svg}"
        );
        assert!(!timeline(&[]).contains("rect"));
    }
}
