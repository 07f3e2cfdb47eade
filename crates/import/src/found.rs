//! One result as a parser found it, before it is given a place in a record.

use super::text::Number;
use record::{CallStats, LatencyBase, Reported, ReportedFigure};
use std::collections::BTreeMap;

/// A tool may wait this long for its last answers.
const LONGEST_WAIT_S: f64 = 60.0;

/// A percentile of an HdrHistogram is the end of its bucket: up to this share above the largest value.
const HDR: f64 = 0.001;

/// What kind of thing a result is: what is observed of a server joins the load under which it was observed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Nature {
    /// A load generator's result.
    Load,
    /// What was seen of a host or a server: vmstat, mpstat, strace.
    Observation,
    /// A cell of a table in a text; its levels are known.
    Cell,
}

/// A result.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    pub nature: Nature,
    pub reported: Reported,
    /// URL that was loaded; empty when not said.
    pub url: String,
    /// Stage that a table's caption names.
    pub stage: Option<String>,
    /// Levels that a table states, in the order of its factors.
    pub levels: Vec<(String, String)>,
    /// Counts and sizes of system calls.
    pub calls: Vec<CallStats>,
    /// What a table said of its own gains, and other remarks on this result.
    pub notes: Vec<String>,
    /// What must make the reader doubt the figures; stored as a warning.
    pub doubts: Vec<String>,
}

impl Found {
    /// A result of `tool` that begins at `line`.
    pub fn new(nature: Nature, tool: &str, base: LatencyBase, line: u32) -> Self {
        Self {
            nature,
            reported: Reported {
                tool: tool.to_owned(),
                lines: (line, line),
                latency_base: base,
                ..Reported::default()
            },
            url: String::new(),
            stage: None,
            levels: Vec::new(),
            calls: Vec::new(),
            notes: Vec::new(),
            doubts: Vec::new(),
        }
    }

    /// It reaches to this line at least.
    pub fn reach(&mut self, line: u32) {
        self.reported.lines.1 = self.reported.lines.1.max(line);
    }

    /// Adds a figure; the first of a name stays.
    pub fn set(&mut self, name: impl Into<String>, unit: &str, number: Number) {
        let name = name.into();
        if self.reported.figure(&name).is_none() {
            let figure = ReportedFigure::new(name, unit, number.value, number.half);
            self.reported.figures.push(figure);
        }
    }

    /// Adds a count.
    pub fn set_count(&mut self, name: impl Into<String>, value: f64) {
        self.set(name, "1", Number::exact(value));
    }

    /// Adds a time in ns.
    pub fn set_ns(&mut self, name: impl Into<String>, number: Number) {
        self.set(name, "ns", number);
    }

    /// Whether it has a figure of this name.
    pub fn has(&self, name: &str) -> bool {
        self.reported.figure(name).is_some()
    }

    /// Its rate is what its count over its time gives, within what rounding allows and `slack` (relative).
    ///
    /// # Errors
    /// What contradicts what, in words.
    pub fn consistent(&self, slack: f64) -> Result<(), String> {
        let r = &self.reported;
        if let (Some(n), Some(s), Some(rate)) =
            (r.ended(), r.figure("duration_s"), r.figure("rate_per_s"))
        {
            let low = n / (s.value + s.rounding) * (1.0 - slack) - rate.rounding;
            let short = (s.value - s.rounding).max(f64::MIN_POSITIVE);
            let high = n / short * (1.0 + slack) + rate.rounding;
            if !(low..=high).contains(&rate.value) {
                return Err(format!(
                    "{n} requests in {} s do not make {} a second",
                    s.value, rate.value
                ));
            }
        }
        let longest = r
            .value("duration_s")
            .map(|s| (2.0 * s + LONGEST_WAIT_S) * 1e9);
        let latency = |f: &&ReportedFigure| f.name.starts_with("latency_ns.");
        if let Some(beyond) =
            longest.and_then(|ns| r.figures.iter().filter(latency).find(|f| f.value > ns))
        {
            return Err(format!(
                "{} of {} s is longer than the whole test",
                beyond.name,
                beyond.value / 1e9
            ));
        }
        ordered(&r.figures)
    }
}

/// Percentiles of one kind must rise.
fn ordered(figures: &[ReportedFigure]) -> Result<(), String> {
    let mut by_kind: BTreeMap<&str, Vec<(f64, &ReportedFigure)>> = BTreeMap::new();
    for figure in figures {
        let Some((kind, which)) = figure.name.split_once('.') else {
            continue;
        };
        let at = match which {
            "min" => Some(0.0),
            "max" => Some(100.0),
            p => p.strip_prefix('p').and_then(|p| p.parse().ok()),
        };
        if let (Some(at), true) = (at, figure.unit == "ns") {
            by_kind.entry(kind).or_default().push((at, figure));
        }
    }
    for list in by_kind.values_mut() {
        list.sort_by(|a, b| a.0.total_cmp(&b.0));
        for pair in list.windows(2) {
            let (a, b) = (pair[0].1, pair[1].1);
            if a.value - a.rounding > (b.value + b.rounding) * (1.0 + HDR) {
                return Err(format!(
                    "{} of {} is above {} of {}",
                    a.name, a.value, b.name, b.value
                ));
            }
        }
    }
    Ok(())
}

/// Results and the lines that looked like one and were not.
#[derive(Clone, Debug, Default)]
pub(crate) struct Harvest {
    pub found: Vec<Found>,
    /// First and last line, and why they were left out.
    pub left_out: Vec<(u32, u32, String)>,
}

impl Harvest {
    /// Takes a finished result if it holds what its tool always prints and does not contradict itself.
    pub fn take(&mut self, found: Found, needs: &str, slack: f64) {
        let (from, to) = found.reported.lines;
        let tool = &found.reported.tool;
        if !found.has(needs) {
            let why = format!("a result of {tool} that ends before its {needs}");
            self.left_out.push((from, to, why));
        } else if let Err(why) = found.consistent(slack) {
            let why = format!("a result of {tool} that contradicts itself: {why}");
            self.left_out.push((from, to, why));
        } else {
            self.found.push(found);
        }
    }

    /// Everything of another one.
    pub fn add(&mut self, other: Harvest) {
        self.found.extend(other.found);
        self.left_out.extend(other.left_out);
    }
}
