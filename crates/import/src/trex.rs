//! TRex in its stateful (ASTF) mode: the global figures, the statistics of its ports, and its table of counters with a
//! column for each side.
//!
//! Each side and each port is a cell of its own, under the counter's own names: what `prony` counts itself bears the
//! same ones, so that both stand in one table. The surprise is what is not there: TRex leaves out every counter that
//! is zero on both sides, and such a counter stays absent here.

use super::found::{Found, Harvest, Nature};
use super::text::{Number, Word, number, phrase};
use record::LatencyBase;

const TOOL: &str = "trex";
/// A table with fewer rows is a sentence or a cut-off head.
const FEWEST_ROWS: usize = 3;
/// What the block of global figures begins with.
const FIRST_OF_GLOBAL: &str = "cpu.utilization";

/// Global figures: TRex's word, our name, the unit.
const GLOBAL: [(&str, &str, &str); 12] = [
    ("Cpu Utilization", "cpu.utilization", "%"),
    ("Total-Tx", "tx_per_s", "bit/s"),
    ("Total-Rx", "rx_per_s", "bit/s"),
    ("Total-PPS", "packets_per_s", "1/s"),
    ("Total-CPS", "rate_per_s", "1/s"),
    ("Expected-CPS", "offered_per_s", "1/s"),
    ("Active-flows", "active_flows", "1"),
    ("Open-flows", "opened_flows", "1"),
    ("Clients", "clients", "1"),
    ("Servers", "servers", "1"),
    ("drop-rate", "dropped_per_s", "bit/s"),
    ("current time", "duration_s", "s"),
];

/// Words after which nothing known means that a block has ended; the longest description of a counter has twelve.
const FAR_WORDS: usize = 24;

/// All results, in no order.
pub(crate) fn read(words: &[Word<'_>]) -> Harvest {
    let mut harvest = Harvest::default();
    let mut at = 0;
    while at < words.len() {
        let after = |n: usize| words.get(at + n).map(|w| w.text);
        at = if after(0) == Some("client") && after(1) == Some("server") {
            let names = vec!["client", "server"];
            columns(words, at, &names, &COUNTERS, &mut harvest)
        } else if after(0) == Some("ports") {
            let ports = words[at + 1..].iter().map(|w| w.text);
            let names = ports.take_while(|t| t.bytes().all(|b| b.is_ascii_digit()));
            columns(words, at, &names.collect::<Vec<_>>(), &PORTS, &mut harvest)
        } else if global(words, at).is_some_and(|(name, ..)| name == FIRST_OF_GLOBAL) {
            globals(words, at, &mut harvest)
        } else {
            at + 1
        };
    }
    harvest
}

/// Name of the row that begins there, and the index behind it.
type RowName = fn(&[Word<'_>], usize) -> Option<(String, usize)>;

/// A table with a column for each level of a factor.
struct Table {
    stage: &'static str,
    factor: &'static str,
    row: RowName,
}

const COUNTERS: Table = Table {
    stage: "counters",
    factor: "side",
    row: |words, at| {
        let name = words.get(at)?.text;
        let known = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        (name.contains('_') && name.chars().all(known)).then(|| (name.to_owned(), at + 1))
    },
};

const PORTS: Table = Table {
    stage: "ports",
    factor: "port",
    row: |words, at| {
        const NAMES: [&str; 6] = [
            "opackets", "obytes", "ipackets", "ibytes", "ierrors", "oerrors",
        ];
        let name = words.get(at)?.text;
        let bandwidth = || phrase(words, at, "Tx Bw").map(|next| ("tx_per_s".to_owned(), next));
        let plain = || NAMES.contains(&name).then(|| (name.to_owned(), at + 1));
        plain().or_else(bandwidth)
    },
};

/// Of a table whose head stands at `head`: a cell for each column. The index behind it.
fn columns(
    words: &[Word<'_>],
    head: usize,
    names: &[&str],
    table: &Table,
    harvest: &mut Harvest,
) -> usize {
    let mut found: Vec<Found> = names
        .iter()
        .map(|name| {
            let line = words[head].line;
            let mut found = Found::new(Nature::Cell, TOOL, LatencyBase::Unknown, line);
            found.stage = Some(table.stage.to_owned());
            found.levels = vec![(table.factor.to_owned(), (*name).to_owned())];
            found
        })
        .collect();
    let (mut at, mut last) = (head + 1, head);
    while at < words.len() && at - last <= FAR_WORDS {
        let row = (table.row)(words, at).and_then(|(name, next)| {
            let mut next = next;
            let values: Option<Vec<_>> = names
                .iter()
                .map(|_| {
                    let (value, unit, behind) = quantity(words, next)?;
                    next = behind;
                    Some((value, unit))
                })
                .collect();
            Some((name, values?, next))
        });
        let Some((name, values, next)) = row else {
            at += 1;
            continue;
        };
        for (found, (value, unit)) in found.iter_mut().zip(values) {
            found.set(name.clone(), unit, value);
            found.reach(words[next - 1].line);
        }
        (at, last) = (next, next - 1);
    }
    let rows = found.first().map_or(0, |f| f.reported.figures.len());
    if rows >= FEWEST_ROWS {
        harvest.found.extend(found);
        return last + 1;
    }
    // The words of its head stand in many sentences.
    if rows > 0 {
        let (from, to) = found[0].reported.lines;
        let why = format!("a table of {TOOL} that ends behind its head");
        harvest.left_out.push((from, to, why));
    }
    head + 1
}

/// `23.96 Gbps`, `925.43 B`, `100.00 %%`, `512253`: the value in a unit without a prefix of its own, and the index
/// behind it. TRex's prefixes are powers of 1000, those of sizes as well.
fn quantity(words: &[Word<'_>], at: usize) -> Option<(Number, &'static str, usize)> {
    let value = number(words.get(at)?.text)?;
    if let Some((factor, unit)) = words.get(at + 1).and_then(|w| unit(w.text)) {
        return Some((value.times(factor), unit, at + 2));
    }
    // A plain counter is whole, and printed in full.
    let whole = value.value.fract() == 0.0 && value.half == 0.5;
    whole.then(|| (Number::exact(value.value), "1", at + 1))
}

/// Factor and plain unit.
fn unit(text: &str) -> Option<(f64, &'static str)> {
    let (factor, base) = match text.chars().next()? {
        'K' => (1e3, &text[1..]),
        'M' => (1e6, &text[1..]),
        'G' => (1e9, &text[1..]),
        'T' => (1e12, &text[1..]),
        _ => (1.0, text),
    };
    let unit = match base {
        "bps" => "bit/s",
        "pps" | "cps" => "1/s",
        "B" => "bytes",
        "%" | "%%" => "%",
        "sec" => "s",
        _ => return None,
    };
    Some((factor, unit))
}

/// `NAME : VALUE` at `at`: our name, the value and its unit, and the index behind it.
fn global(words: &[Word<'_>], at: usize) -> Option<(&'static str, Number, &'static str, usize)> {
    GLOBAL.iter().find_map(|(word, name, wanted)| {
        let next = phrase(words, at, word)?;
        let next = phrase(words, next, ":")?;
        let (value, unit, next) = quantity(words, next)?;
        (unit == *wanted).then_some((*name, value, unit, next))
    })
}

/// The block of global figures that begins at `first`; the index behind it.
fn globals(words: &[Word<'_>], first: usize, harvest: &mut Harvest) -> usize {
    let mut found = Found::new(Nature::Load, TOOL, LatencyBase::Unknown, words[first].line);
    let (mut at, mut last) = (first, first);
    while at < words.len() && at - last <= FAR_WORDS {
        let Some((name, value, unit, next)) = global(words, at) else {
            at += 1;
            continue;
        };
        if name == FIRST_OF_GLOBAL && at > first {
            break;
        }
        // Zero expected connections a second is TRex's word for a rate that was not given.
        if name != "offered_per_s" || value.value > 0.0 {
            found.set(name, unit, value);
        }
        found.reach(words[next - 1].line);
        (at, last) = (next, next - 1);
    }
    harvest.take(found, "rate_per_s", 0.0);
    last + 1
}

#[cfg(test)]
mod tests {
    use super::super::text::words;
    use super::*;

    #[test]
    fn quantities_with_their_prefixes() {
        for (text, want) in [
            ("75.80 Mbps", Some((75.80e6, "bit/s"))),
            ("2.16 Mpps", Some((2.16e6, "1/s"))),
            ("1.74 KB", Some((1740.0, "bytes"))),
            ("925.43 B", Some((925.43, "bytes"))),
            ("100.00 %%", Some((100.0, "%"))),
            ("512253 0", Some((512_253.0, "1"))),
            ("5.25 parsecs", None),
            ("none", None),
        ] {
            let got = quantity(&words(text), 0);
            let got = got.map(|(n, unit, _)| ((n.value * 1e3).round() / 1e3, unit));
            assert_eq!(got, want, "{text}");
        }
    }

    #[test]
    fn a_table_that_was_cut_off_is_left_out_and_said() {
        let cut = read(&words(
            "| client | server |\n m_active_flows | 1 | 2 | active open flows\n",
        ));
        assert!(cut.found.is_empty());
        assert_eq!(cut.left_out[0].0, 1);
        let sentence = read(&words("the client server and its 3 ports 1 2"));
        assert!(sentence.left_out.is_empty() && sentence.found.is_empty());
    }
}
