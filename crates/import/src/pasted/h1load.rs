//! h1load: a second a line below a head that names its columns.
//!
//! The surprise is a number: its unit stands where the point would, `14k1` is 14,100, and `372.8m` in a column of time
//! are milliseconds.

use super::events::{artefact, told};
use super::pieces::middle;
use crate::text::number;
use record::pasted::Artefact;

/// Columns without which it is another tool's table.
const COLUMNS: [&str; 4] = ["conns", "tot_conn", "tot_req", "rps"];
/// Of so many requests a connection that each has its own opens at least one.
const OWN: f64 = 0.95;

/// The run, as far as it is printed.
pub(super) fn read(lines: &[&str]) -> Option<Artefact> {
    let mut found = artefact("h1load", 0);
    let mut head: Vec<&str> = Vec::new();
    let (mut rates, mut waits) = (Vec::new(), Vec::new());
    let mut last = (0.0, 0.0);
    for (number, line) in (1_u32..).zip(lines) {
        let words: Vec<&str> = line.split_whitespace().filter(|w| *w != "#").collect();
        if COLUMNS.iter().all(|column| words.contains(column)) {
            head = words;
            continue;
        }
        if words.len() != head.len() || head.is_empty() {
            continue;
        }
        let cell = |name: &str| {
            let at = head.iter().position(|h| *h == name)?;
            words.get(at).copied()
        };
        let count = |name: &str| united(cell(name)?);
        let all = COLUMNS.map(count);
        let [Some(conns), Some(opened), Some(requests), Some(rate)] = all else {
            continue;
        };
        found.begin_at(number);
        found.largest("load.connections", conns);
        rates.push((rate, ()));
        waits.extend(cell("ttfb").and_then(milliseconds).map(|ms| (ms, ())));
        last = (opened, requests);
        found.figures.insert("load.requests".into(), requests);
        if let Some(failed) = count("err") {
            found.figures.insert("load.not_answered".into(), failed);
        }
    }
    let (rate, ()) = middle(rates)?;
    found.figures.insert("load.rate_per_s".into(), rate);
    if let Some((ms, ())) = middle(waits) {
        found.figures.insert("load.mean_ms".into(), ms);
    }
    if last.1 > 0.0 && last.0 >= OWN * last.1 {
        found.figures.insert("load.opens_each".into(), 1.0);
        let tls = |l: &&str| l.contains("h1load ") && l.contains("https://");
        let tls = lines.iter().any(tls);
        found
            .figures
            .insert("h1load.handshakes".into(), f64::from(u8::from(tls)));
    }
    told(found)
}

/// `14k1`, `9k36`, `23M5`, `812`.
fn united(text: &str) -> Option<f64> {
    let Some(at) = text.find(|c: char| c.is_ascii_alphabetic()) else {
        return Some(number(text)?.value);
    };
    let factor = match &text[at..=at] {
        "k" => 1e3,
        "M" => 1e6,
        "G" => 1e9,
        _ => return None,
    };
    let pointed = text.replacen(&text[at..=at], ".", 1);
    Some(number(&pointed)?.value * factor)
}

/// `372.8m`, `812u`, `1.2s`.
fn milliseconds(text: &str) -> Option<f64> {
    let factor = match text.chars().next_back()? {
        'n' => 1e-6,
        'u' => 1e-3,
        'm' => 1.0,
        's' => 1e3,
        _ => return None,
    };
    Some(number(&text[..text.len() - 1])?.value * factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_stand_where_the_point_would() {
        let numbers = ["812", "9k36", "14k1", "23M5", "1m2"].map(united);
        let right = [Some(812.0), Some(9_360.0), Some(14_100.0), Some(23.5e6)];
        assert_eq!(numbers[..4], right);
        assert_eq!(numbers[4], None);
        assert_eq!(milliseconds("812u"), Some(0.812));
        let text = "$ h1load -d 9 -c 64 https://a.example/\n#     time conns tot_conn  tot_req      tot_bytes    err  cps  rps  bps   ttfb\n         1    64       64     7000        14000      0    64 7k00 98M7 2.178m\n         2    64       64    16000        32000      2     0 9k00 98M7 2.000m\n";
        let found = read(&text.lines().collect::<Vec<_>>()).unwrap();
        for (name, n) in [
            ("load.rate_per_s", Some(9_000.0)),
            ("load.connections", Some(64.0)),
            ("load.requests", Some(16_000.0)),
            ("load.not_answered", Some(2.0)),
            ("load.opens_each", None),
        ] {
            assert_eq!(found.value(name), n, "{name}");
        }
        let own = text.replace("       64     7000", "     7064     7000");
        let own = own.replace("       64    16000", "    16064    16000");
        let found = read(&own.lines().collect::<Vec<_>>()).unwrap();
        assert_eq!(found.value("load.opens_each"), Some(1.0));
        assert_eq!(found.value("h1load.handshakes"), Some(1.0));
        assert!(read(&["a table of conns", "1 2 3 4"]).is_none());
    }
}
