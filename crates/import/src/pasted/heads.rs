//! Reads of a few bytes, each with another one of the same descriptor behind it: a program that asks for the head of a
//! record alone and then for the rest, in lines of strace.
//!
//! The surprise is that no call fails and none is slow: each record takes two calls where one into a larger buffer
//! would bring several records.

use super::calls::{Call, TAKES};
use super::events::{artefact, told};
use record::pasted::{Artefact, Row};
use std::collections::BTreeMap;

/// Bytes of a head: five of a record of TLS, nine of a frame of HTTP/2, a length of four or eight.
const HEAD: f64 = 16.0;
/// Fewer pairs are none.
const PAIRS: f64 = 2.0;
/// Of the reads of a descriptor so many are such heads.
const SHARE: f64 = 0.3;

/// What was seen of one descriptor.
#[derive(Default)]
struct Reads {
    line: u32,
    name: String,
    all: f64,
    bytes: f64,
    pairs: f64,
    /// Bytes of the head whose rest is awaited, and of the last one that had it.
    open: Option<f64>,
    head: f64,
}

/// The descriptor of which most records are read in two calls.
pub(super) fn read(calls: &[Call<'_>]) -> Option<Artefact> {
    let mut reads: BTreeMap<(Option<&str>, &str), Reads> = BTreeMap::new();
    for call in calls.iter().filter(|c| TAKES.contains(&c.name)) {
        let descriptor = call.rest.split([',', '<']).next().unwrap_or_default();
        let Some((asked, returned)) = sizes(call) else {
            continue;
        };
        let of = reads.entry((call.process, descriptor)).or_default();
        if of.line == 0 {
            of.line = call.line;
            of.name = format!("{} of descriptor {descriptor}", call.name);
        }
        of.all += 1.0;
        of.bytes += returned;
        match of.open.take() {
            Some(head) if asked > head => {
                of.pairs += 1.0;
                of.head = head;
            }
            _ => of.open = Some(asked).filter(|n| *n <= HEAD && returned >= *n),
        }
    }
    let most = reads
        .into_values()
        .reduce(|a, b| if b.pairs > a.pairs { b } else { a })?;
    if most.pairs < PAIRS || most.pairs < SHARE * most.all {
        return None;
    }
    let mut found = artefact("reads in two", most.line);
    for (name, n) in [
        ("rows", 1.0),
        ("pairs", most.pairs),
        ("reads", most.all),
        ("head_bytes", most.head),
        ("mean_bytes", most.bytes / most.all),
    ] {
        found.figures.insert(format!("heads.{name}"), n);
    }
    found.rows.push(Row::new(most.name, most.pairs));
    told(found)
}

/// What a call asked for and what it got: `recvfrom(4, "\27\3"..., 5, 0, NULL, NULL) = 5`, `read(3, "x", 5) = 5`.
fn sizes(call: &Call<'_>) -> Option<(f64, f64)> {
    let (arguments, returned) = call.rest.rsplit_once(" = ")?;
    let returned = returned.split_whitespace().next()?.parse::<f64>().ok()?;
    let (_, behind) = arguments.rsplit_once('"')?;
    let asked = behind.trim_start_matches('.').strip_prefix(", ")?;
    let asked = asked.split([',', ')']).next()?.parse::<f64>().ok()?;
    (returned > 0.0).then_some((asked, returned))
}

#[cfg(test)]
mod tests {
    use super::super::calls;
    use super::*;

    fn found(text: &str) -> Option<Artefact> {
        let all = calls::read(&text.lines().collect::<Vec<_>>());
        all.into_iter().find(|a| a.tool == "reads in two")
    }

    #[test]
    fn heads_that_are_read_alone_are_counted() {
        let text = "read(7, \"\\0\\0\\1\\0\", 4) = 4\nread(7, \"{\\\"a\\\": 1\"..., 256) = 256\n\
            write(9, \"x\", 1) = 1\nread(7, \"\\0\\0\\2\\0\", 4) = 4\nread(7, \"{\\\"b\\\": 2\"..., 512) = 512\n\
            read(8, \"abc\"..., 8192) = 8192\n";
        let heads = found(text).expect("two records in two calls each");
        let of = |name: &str| heads.value(&format!("heads.{name}"));
        assert_eq!(
            ["pairs", "reads", "head_bytes", "mean_bytes"].map(of),
            [2.0, 4.0, 4.0, 194.0].map(Some)
        );
        assert_eq!(heads.rows[0].label, "read of descriptor 7");
        // Into a large buffer little may come, and a small one may be filled again and again.
        assert!(found(&text.replace(", 4) = 4", ", 8192) = 4")).is_none());
        let small = "read(7, \"ab\", 2) = 2\n".repeat(6);
        assert!(found(&small).is_none());
    }
}
