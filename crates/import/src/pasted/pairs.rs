//! Two of a table that belong together by their names: what is off in the one and on in the other, and two that do the
//! same.
//!
//! `Don't reuse it (s)` beside `Reuse it (s)`, `default` above `--busy-poll`, `curl time` beside `wget time`. The
//! surprise is that nobody calls them before and after: which is the change their words tell, or nothing does.

use super::cells::{Change, Kind, RATES, Table, measure, name_of};
use super::events::{artefact, told};
use super::pieces::{middle, short};
use record::pasted::{Artefact, Row};

/// Words by which a name says that something is not in use, and those that it has otherwise.
const OFF: [&str; 10] = [
    "without", "no", "not", "don't", "doesn't", "off", "disabled", "disable", "non", "uncached",
];
const ON: [&str; 7] = ["with", "on", "enabled", "enable", "do", "does", "cached"];
/// A row that is called so has nothing set.
const UNSET: [&str; 4] = ["default", "defaults", "none", "off"];

/// Whether the first of two names says of the same that it is not in use: `without caching`, `Don't reuse it (s)`.
fn is_switched_off(off: &str, on: &str) -> bool {
    let lower = (off.to_ascii_lowercase(), on.to_ascii_lowercase());
    let words = |name: &str| -> Vec<String> {
        let words = name.split(|c: char| c.is_whitespace() || "()[],:-".contains(c));
        let words = words.filter(|w| !w.is_empty() && !ON.contains(w));
        words.map(|w| w.replace('\u{2019}', "'")).collect()
    };
    let (off, on) = (words(&lower.0), words(&lower.1));
    let is_off = |w: &&String| OFF.contains(&w.as_str());
    let rest: Vec<&String> = off.iter().filter(|w| !is_off(w)).collect();
    !rest.is_empty() && rest.len() < off.len() && rest.iter().copied().eq(on.iter())
}

/// Columns of which one has off what the other has on.
pub(super) fn columns_switched(table: &Table) -> Option<Vec<Change>> {
    let (off, on) = pair(&table.head, is_switched_off)?;
    let rows = table.rows.iter().filter_map(|row| {
        let n = |at: usize| Some(measure(&row[at], &table.head[at])?.0);
        Some((
            format!("{}, {}", name_of(table, row), table.head[on]),
            row[off].clone(),
            row[on].clone(),
            n(off)?,
            n(on)?,
        ))
    });
    Some(rows.collect())
}

/// Rows of which one has off what the other has on, or of two the one with what is set beside the one without.
pub(super) fn rows_switched(table: &Table) -> Option<Vec<Change>> {
    let names: Vec<String> = table.rows.iter().map(|r| r[0].clone()).collect();
    let unset = |name: &str| UNSET.iter().any(|u| name.eq_ignore_ascii_case(u));
    let (off, on) = pair(&names, is_switched_off).or_else(|| match names.as_slice() {
        [first, second] if unset(first) && !unset(second) => Some((0, 1)),
        [first, second] if unset(second) && !unset(first) => Some((1, 0)),
        _ => None,
    })?;
    let (before, after) = (&table.rows[off], &table.rows[on]);
    let columns = table.head.iter().enumerate().skip(1);
    let columns = columns.filter_map(|(at, head)| {
        let n = |row: &[String]| Some(measure(&row[at], head)?.0);
        Some((
            format!("{head} with {}", names[on].trim_start_matches("with ")),
            before[at].clone(),
            after[at].clone(),
            n(before)?,
            n(after)?,
        ))
    });
    Some(columns.collect())
}

/// The first two names that stand in such a relation.
fn pair(names: &[String], of: fn(&str, &str) -> bool) -> Option<(usize, usize)> {
    let all = (0..names.len()).flat_map(|a| (0..names.len()).map(move |b| (a, b)));
    let mut pairs = all.filter(|(a, b)| a != b && of(&names[*a], &names[*b]));
    pairs.next()
}

/// Two that do the same are told where one is so many times the other in the middle of their rows.
const BESIDE: f64 = 1.5;

/// Two columns that are called by who does it and by one measure, `curl time` beside `wget time`, where one is above
/// the other in each row.
pub(super) fn beside(tables: &[Table]) -> Option<Artefact> {
    tables.iter().find_map(|table| {
        let measured = |at: &usize| {
            let head = table.head[*at].to_ascii_lowercase();
            let kinds = table.rows.iter().map(|row| measure(&row[*at], &head));
            let kinds: Option<Vec<_>> = kinds.collect();
            let rate = RATES.iter().any(|w| head.contains(w));
            let is = |k: Kind| k == Kind::Time || rate && k == Kind::Number;
            kinds.is_some_and(|k| k.iter().all(|(n, kind)| is(*kind) && *n > 0.0))
        };
        let columns: Vec<usize> = (1..table.head.len()).filter(measured).collect();
        let [first, second] = columns[..] else {
            return None;
        };
        let words = |at: usize| table.head[at].split_whitespace().collect::<Vec<_>>();
        let (one, other) = (words(first), words(second));
        let alike = one.len() == 2 && other.len() == 2 && one[1] == other[1] && one[0] != other[0];
        if !alike || table.rows.len() < 2 || table.head.len() != 3 {
            return None;
        }
        let n = |row: &[String], at: usize| Some(measure(&row[at], &table.head[at])?.0);
        let factors = table
            .rows
            .iter()
            .map(|row| Some(n(row, first)? / n(row, second)?));
        let factors: Vec<f64> = factors.collect::<Option<_>>()?;
        let (most, least) = match factors[0] >= 1.0 {
            true => (first, second),
            false => (second, first),
        };
        let times = factors
            .iter()
            .map(|f| if most == first { *f } else { 1.0 / f });
        let times: Vec<(f64, usize)> = times.zip(0..).collect();
        let (typical, _) = middle(times.clone())?;
        if typical < BESIDE || times.iter().any(|(f, _)| *f < 1.0) {
            return None;
        }
        let mut found = artefact("two beside each other", table.line);
        for (times, at) in &times {
            let row = &table.rows[*at];
            found.rows.push(Row {
                label: short(&format!("{} {}", table.head[0], row[0])),
                place: short(&format!(
                    "{} {} against {}, {times:.1} times",
                    table.head[most], row[most], row[least]
                )),
                share: *times,
            });
        }
        found.largest_first();
        for (name, n) in [
            ("rows", found.rows.len() as f64),
            ("typical", typical),
            ("most", found.rows[0].share),
        ] {
            found.figures.insert(format!("beside.{name}"), n);
        }
        told(found)
    })
}

#[cfg(test)]
mod tests {
    use super::super::cells::tests::rows;

    #[test]
    fn what_is_off_is_compared_with_what_is_on() {
        let text =
            "| pages | Don't compress (ms) | Compress (ms) |\n|--|--|--|\n| list | 900 | 300 |\n";
        assert_eq!(
            rows(text, "comparison"),
            ["list, Compress (ms): 900 -> 300"]
        );
        let text = "| run | p99 (ms) |\n|--|--|\n| pooled (no keep-alive) | 80 |\n| pooled (keep-alive) | 9 |\n";
        assert_eq!(
            rows(text, "comparison"),
            ["p99 (ms) with pooled (keep-alive): 80 -> 9"]
        );
        // Its head names no first column.
        let text = "            send (Gbps)    receive (Gbps)   both (Gbps)\n    default        3.1            9.0    4.0\n    --poll         6.2            9.1    4.1\n";
        assert_eq!(
            rows(text, "comparison"),
            ["send (Gbps) with poll: 3.1 -> 6.2"]
        );
        let other = text.replace("default", "--spin ");
        assert!(rows(&other, "comparison").is_empty());
    }

    #[test]
    fn two_that_do_the_same_are_beside_each_other() {
        let text = "files\tours time\ttheirs time\n1\t0.5 s\t9 s\n8\t0.4 s\t2 s\n";
        assert_eq!(
            rows(text, "two beside each other"),
            [
                "files 1: theirs time 9 s against 0.5 s, 18.0 times",
                "files 8: theirs time 2 s against 0.4 s, 5.0 times"
            ]
        );
        // Each is the slower one once.
        assert!(rows(&text.replace("2 s", "0.1 s"), "two beside each other").is_empty());
    }
}
