//! What other tools printed of a server, as data: `strace -c`, sizes of calls, vmstat, pidstat, load generators.
//!
//! The `import` crate reads it from text, the analysis makes facts of it. The first artefact of a kind is the case to
//! be diagnosed; later ones of the same kind are compared with it.
//!
//! The surprise is the divisor. `strace -c` does not know how many requests there were; a server that does the same for
//! each request betrays it: [`requests_in`] looks for the count of which the others are whole multiples.

use crate::{Profile, Reported};
use std::collections::BTreeMap;

/// Counted sizes of one call: how often each was returned.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sizes {
    /// System call; empty when the text does not say.
    pub call: String,
    /// Returned bytes with their count.
    pub counts: Vec<(u64, u64)>,
    /// Calls whose requested length is known too, and how many of those returned exactly that.
    pub asked: Option<(u64, u64)>,
    /// Line at which they begin, from 1.
    pub line: u32,
}

/// One row of a summary.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CallCount {
    /// System call.
    pub call: String,
    pub calls: u64,
    /// Failed calls.
    pub errors: u64,
    /// Its part of the time of all calls, those that were cut off included, 0 to 1.
    pub share: f64,
    /// Time in the kernel, s, as strace accounts it.
    pub seconds: f64,
}

/// One summary.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StraceSummary {
    /// Rows, as printed.
    pub rows: Vec<CallCount>,
    /// Calls in its last line; `None` when it was cut off before that.
    pub total: Option<u64>,
}

impl StraceSummary {
    /// Calls by name.
    pub fn calls(&self) -> BTreeMap<String, u64> {
        self.rows
            .iter()
            .map(|r| (r.call.clone(), r.calls))
            .collect()
    }
}

/// A table of numbers over time or processes: the column names and the rows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// Names of the columns, as printed.
    pub columns: Vec<String>,
    /// Rows, as long as `columns`.
    pub rows: Vec<Vec<f64>>,
}

impl Table {
    /// The column of that name.
    pub fn column(&self, name: &str) -> Option<Vec<f64>> {
        let at = self.columns.iter().position(|c| c == name)?;
        Some(self.rows.iter().map(|row| row[at]).collect())
    }
}

/// Median and range of the rows under load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct UnderLoad {
    pub median: f64,
    /// Smallest.
    pub min: f64,
    /// Largest.
    pub max: f64,
}

/// A row of vmstat belongs to the load when the machine is at least so busy, as a share of the busiest row.
const LOADED: f64 = 0.8;

impl Table {
    /// A column of vmstat over the rows under load; `None` without its modes.
    pub fn under_load(&self, name: &str) -> Option<UnderLoad> {
        let (user, system) = (self.column("us")?, self.column("sy")?);
        let busy: Vec<f64> = user.iter().zip(&system).map(|(u, s)| u + s).collect();
        let busiest = busy.iter().copied().reduce(f64::max)?;
        let values = self.column(name)?;
        let mut loaded: Vec<f64> = values
            .iter()
            .zip(&busy)
            .filter(|(_, b)| **b >= LOADED * busiest)
            .map(|(v, _)| *v)
            .collect();
        loaded.sort_by(f64::total_cmp);
        let n = loaded.len();
        Some(UnderLoad {
            median: (loaded.get(n.checked_sub(1)? / 2)? + loaded.get(n / 2)?) / 2.0,
            min: *loaded.first()?,
            max: *loaded.last()?,
        })
    }
}

/// A row of what a tool printed, by the name that it has there: a function, a process, a disk, a state of sockets.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Row {
    /// As printed.
    pub label: String,
    /// Where it belongs: the library of a function, the address of a socket; empty when it does not say.
    pub place: String,
    /// Its part of the whole that the tool divides, 0 to 1; a count for rows of sockets.
    pub share: f64,
}

/// What one call of a tool printed, reduced to numbers with names.
///
/// The names are ours and the same however the tool's version spells them. A figure that the text does not hold is
/// absent.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Artefact {
    /// Tool as a person calls it: `netstat -s`, `perf report`.
    pub tool: String,
    /// First line, from 1.
    pub line: u32,
    /// Numbers by name: `netstat.listen_overflows`, `curl.connect_s`.
    pub figures: BTreeMap<String, f64>,
    /// Rows, the largest first.
    pub rows: Vec<Row>,
    /// A profile: with whole stacks, or with one frame each where the tool prints functions alone.
    pub profile: Option<Profile>,
}

impl Row {
    /// A row whose place is not said.
    pub fn new(label: impl Into<String>, share: f64) -> Self {
        Self {
            label: label.into(),
            place: String::new(),
            share,
        }
    }
}

impl Artefact {
    /// It stands where its first line does.
    pub fn begin_at(&mut self, line: u32) {
        if self.line == 0 {
            self.line = line;
        }
    }

    /// Adds to a figure.
    pub fn add(&mut self, name: &str, value: f64) {
        *self.figures.entry(name.to_owned()).or_insert(0.0) += value;
    }

    /// Keeps the largest.
    pub fn largest(&mut self, name: &str, value: f64) {
        let held = self.figures.entry(name.to_owned()).or_insert(value);
        *held = held.max(value);
    }

    /// Keeps the smallest.
    pub fn smallest(&mut self, name: &str, value: f64) {
        let held = self.figures.entry(name.to_owned()).or_insert(value);
        *held = held.min(value);
    }

    /// The figure of that name.
    pub fn value(&self, name: &str) -> Option<f64> {
        self.figures.get(name).copied()
    }

    /// Whether it says nothing.
    pub fn is_empty(&self) -> bool {
        self.figures.is_empty() && self.rows.is_empty() && self.profile.is_none()
    }

    /// Rows with the same name become one, and the largest stands first.
    pub fn settle(&mut self) {
        let mut sums: BTreeMap<(String, String), f64> = BTreeMap::new();
        for row in self.rows.drain(..) {
            *sums.entry((row.label, row.place)).or_insert(0.0) += row.share;
        }
        let rows = sums.into_iter().map(|((label, place), share)| Row {
            label,
            place,
            share,
        });
        self.rows = rows.collect();
        self.largest_first();
    }

    /// The row with the largest share stands first.
    pub fn largest_first(&mut self) {
        self.rows.sort_by(|a, b| b.share.total_cmp(&a.share));
    }
}

/// What a text says in its own words, whatever readers found in it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Said {
    /// Its begin and its end, as much as names a product.
    pub text: String,
    /// Lines that say most of what went wrong, the most telling first.
    pub telling: Vec<String>,
    /// The line that says most, however little that is.
    pub best: Option<String>,
    /// Sentences that say what to do.
    pub advice: Vec<String>,
    /// Names of settings beside words of a limit.
    pub settings: Vec<String>,
    /// Whether a reader knew the tool.
    pub known: bool,
}

/// Everything that was recognised, each kind in the order in which it was pasted.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pasted {
    /// `strace -c`.
    pub straces: Vec<StraceSummary>,
    /// Sizes by call, from counted lists and from lines of strace.
    pub sizes: Vec<Sizes>,
    pub vmstats: Vec<Table>,
    /// pidstat, one table a block.
    pub pidstats: Vec<Table>,
    /// Load generators.
    pub loads: Vec<Reported>,
    /// Everything else.
    pub artefacts: Vec<Artefact>,
    /// The text's own words, which recognise nothing by themselves.
    pub said: Said,
}

impl Pasted {
    /// Whether nothing was recognised.
    pub fn is_empty(&self) -> bool {
        self.straces.is_empty()
            && self.sizes.is_empty()
            && self.vmstats.is_empty()
            && self.pidstats.is_empty()
            && self.loads.is_empty()
            && self.artefacts.is_empty()
    }

    /// What was recognised, in words: `2 x strace -c`.
    pub fn contents(&self) -> Vec<String> {
        let kinds = [
            ("strace -c", self.straces.len()),
            ("sizes of calls", self.sizes.len()),
            ("vmstat", self.vmstats.len()),
            ("pidstat", self.pidstats.len()),
            ("result of a load generator", self.loads.len()),
        ];
        let mut kinds: Vec<(String, usize)> = kinds
            .iter()
            .filter(|(_, n)| *n > 0)
            .map(|(kind, n)| ((*kind).to_owned(), *n))
            .collect();
        for artefact in &self.artefacts {
            match kinds.iter_mut().find(|(kind, _)| *kind == artefact.tool) {
                Some((_, n)) => *n += 1,
                None => kinds.push((artefact.tool.clone(), 1)),
            }
        }
        let named = kinds.iter().map(|(kind, n)| format!("{n} x {kind}"));
        named.collect()
    }
}

/// How close to a whole number a ratio of counts must be, relative to that number.
const WHOLE: f64 = 0.03;
/// A call that is made more often than this for each request says little about their number.
const MOST_PER_REQUEST: f64 = 60.0;
/// Calls below this share of all are not made for each request.
const RARE: f64 = 0.01;

/// Requests behind a count of calls: of all counts the one of which most others are whole multiples, the
/// largest where several are equal in that. `None` when fewer than three calls agree.
pub fn requests_in(calls: &BTreeMap<String, u64>) -> Option<f64> {
    let total: u64 = calls.values().sum();
    let counts: Vec<f64> = calls
        .values()
        .map(|&n| n as f64)
        .filter(|n| *n >= RARE * total as f64)
        .collect();
    let agreeing = |unit: f64| {
        counts
            .iter()
            .filter(|&&n| {
                let ratio = n / unit;
                let whole = ratio.round();
                (1.0..=MOST_PER_REQUEST).contains(&whole)
                    && (ratio - whole).abs() <= WHOLE * whole.sqrt()
            })
            .count()
    };
    counts
        .iter()
        .map(|&unit| (agreeing(unit), unit))
        .filter(|(n, _)| *n >= 3)
        .max_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)))
        .map(|(_, unit)| unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(pairs: &[(&str, u64)]) -> BTreeMap<String, u64> {
        pairs.iter().map(|(n, c)| ((*n).to_owned(), *c)).collect()
    }

    #[test]
    fn the_number_of_requests_is_the_common_measure_of_the_counts() {
        let proxied = counts(&[
            ("writev", 365_710),
            ("readv", 305_123),
            ("recvfrom", 60_984),
            ("write", 30_471),
            ("getsockopt", 30_516),
            ("ioctl", 30_879),
            ("epoll_wait", 674),
            ("close", 286),
        ]);
        let found = requests_in(&proxied).unwrap();
        assert!((30_400.0..31_000.0).contains(&found), "{found}");
        assert_eq!(requests_in(&counts(&[("read", 7), ("write", 19)])), None);
        assert_eq!(requests_in(&BTreeMap::new()), None);
    }
}
