//! fio's sums at the end of a run: `READ: io=177071MB, aggrb=2951.2MB/s, ...` and `READ: bw=2951MiB/s (3094MB/s), ...`.
//!
//! Of several the rates are set beside each other. The surprise is a rate that no disk has: what is read may be in a
//! cache, and then the sum is of the software.

use super::events::{artefact, told};
use super::pieces::apart;
use crate::text::bytes;
use record::pasted::{Artefact, Row};

/// Directions, as a sum begins.
const DIRECTIONS: [&str; 3] = ["READ:", "WRITE:", "TRIM:"];
/// What stands before the rate, in older versions and later ones.
const RATES: [&str; 2] = ["aggrb=", "bw="];
/// Characters of the words above a sum that are kept, from their end.
const ABOVE: usize = 48;

/// The sums of a text.
pub(super) fn read(lines: &[&str]) -> Option<Artefact> {
    let mut found = artefact("sums of fio", 0);
    let mut times = 1.0_f64;
    let mut above = "";
    let mut sums: Vec<(&str, f64)> = Vec::new();
    for (number, line) in (1_u32..).zip(lines) {
        let text = line.trim().trim_start_matches(['-', '*', '`', ' ']);
        let Some((direction, written, rate)) = sum(text) else {
            // A heading or the sentence before it.
            if let Some(words) = text.strip_suffix(':').filter(|w| w.contains(' ')) {
                above = words;
            }
            continue;
        };
        found.begin_at(number);
        let others = sums.iter().filter(|(of, _)| *of == direction);
        times = others.fold(times, |most, (_, other)| most.max(apart(*other, rate)));
        sums.push((direction, rate));
        let kind = direction.trim_end_matches(':');
        let label = match std::mem::take(&mut above) {
            "" => format!("{kind} of run {}", sums.len()),
            words => format!("{kind}, {}", end_of(words)),
        };
        found.rows.push(Row {
            label,
            place: written.to_owned(),
            share: rate,
        });
    }
    let rows = found.rows.len() as f64;
    found.figures.insert("fiosums.rows".into(), rows);
    found.figures.insert("fiosums.times".into(), times);
    told(found)
}

/// The direction, the rate as it is written, and in bytes a second.
fn sum(text: &str) -> Option<(&'static str, &str, f64)> {
    let direction = DIRECTIONS.into_iter().find(|d| text.starts_with(d))?;
    let at = RATES
        .iter()
        .find_map(|r| text.find(&format!(" {r}")).map(|at| at + 1 + r.len()))?;
    let written = text[at..].split([',', ' ']).next()?;
    let rate = bytes(written).filter(|n| n.value > 0.0)?;
    Some((direction, written, rate.value))
}

/// The last words of a sentence.
fn end_of(words: &str) -> &str {
    let from = words.ceil_char_boundary(words.len().saturating_sub(ABOVE));
    match words[from..].split_once(' ') {
        Some((_, rest)) if from > 0 => rest,
        _ => &words[from..],
    }
}

#[cfg(test)]
mod tests {
    use super::super::events::written;
    use super::*;

    #[test]
    fn sums_of_old_and_new_versions_are_set_beside_each_other() {
        let text = "with checksums on a pool of two disks, four jobs, everything is cached, we get:\n  READ: bw=900MiB/s (944MB/s), 225MiB/s-225MiB/s (236MB/s-236MB/s), io=52GiB (56GB), run=60001-60001msec\nwithout them:\n  READ: bw=1800MiB/s (1887MB/s), io=105GiB (113GB), run=60001-60001msec\n";
        let found = read(&text.lines().collect::<Vec<_>>()).unwrap();
        assert_eq!(
            written(&found),
            [
                "READ, disks, four jobs, everything is cached, we get: 900MiB/s",
                "READ, without them: 1800MiB/s"
            ]
        );
        assert_eq!(found.value("fiosums.times"), Some(2.0));
        let text = "  WRITE: io=512MB, aggrb=10MB/s, minb=10MB/s, maxb=10MB/s, mint=51msec, maxt=51msec\n   READ: io=512MB, aggrb=90MB/s, minb=90MB/s, maxb=90MB/s, mint=51msec, maxt=51msec\n";
        let found = read(&text.lines().collect::<Vec<_>>()).unwrap();
        assert_eq!(
            written(&found),
            ["WRITE of run 1: 10MB/s", "READ of run 2: 90MB/s"]
        );
        assert_eq!(found.value("fiosums.times"), Some(1.0));
        assert!(read(&["READ: 12 times", "we read: bw=3MB/s"]).is_none());
    }
}
