//! Histograms as Prometheus reads them: `name_bucket{le="0.256"} 1012`, a bucket a line.
//!
//! The counts are cumulative: each bucket has those below it too. The surprise is what a percentile is: the end of the
//! bucket that it lies in, so that the true one is below. Of several histograms the one with the largest times counts.

use super::events::artefact;
use record::pasted::{Artefact, Row};
use std::collections::BTreeMap;

/// Parts of names of what waits for a disk.
const DISK: [&str; 5] = ["fsync", "disk", "_wal_", "backend_commit", "storage"];

/// Buckets of one name: their ends with how many are at most that, and where the first one stands.
type Buckets<'a> = BTreeMap<&'a str, (u32, Vec<(f64, f64)>)>;

/// The slowest histogram of a text.
pub(super) fn read(lines: &[&str]) -> Option<Artefact> {
    let mut all: Buckets<'_> = BTreeMap::new();
    for (number, line) in (1_u32..).zip(lines) {
        let Some((name, end, n)) = bucket(line) else {
            continue;
        };
        let (_, buckets) = all.entry(name).or_insert((number, Vec::new()));
        // Series of one name differ in other labels and add up.
        match buckets.iter_mut().find(|(held, _)| *held == end) {
            Some((_, sum)) => *sum += n,
            None => buckets.push((end, n)),
        }
    }
    let found = all
        .into_iter()
        .filter_map(|(name, (line, buckets))| histogram(name, line, buckets));
    let rank = |a: &Artefact| {
        let of = |name: &str| a.value(name).unwrap_or(0.0);
        of("prometheus.seconds") * of("prometheus.last").min(of("prometheus.p99"))
    };
    found.reduce(|a, b| if rank(&b) > rank(&a) { b } else { a })
}

fn histogram(name: &str, line: u32, mut buckets: Vec<(f64, f64)>) -> Option<Artefact> {
    buckets.sort_by(|a, b| a.0.total_cmp(&b.0));
    let all = buckets.iter().map(|b| b.1).fold(0.0, f64::max);
    let (last, within) = *buckets.iter().rfind(|b| b.0.is_finite())?;
    if all <= 0.0 || buckets.len() < 2 {
        return None;
    }
    let mut found = artefact("Prometheus histogram", line);
    let mut put = |name: &str, n: f64| {
        found.figures.insert(format!("prometheus.{name}"), n);
    };
    let yes = |is: bool| f64::from(u8::from(is));
    put("count", all);
    put("last", last);
    put("beyond", 1.0 - within / all);
    put("of_disk", yes(DISK.iter().any(|part| name.contains(part))));
    put("seconds", yes(name.contains("seconds")));
    for (which, share) in [("p50", 0.5), ("p99", 0.99)] {
        let holding = buckets.iter().find(|b| b.1 >= share * all);
        put(which, holding.map_or(last, |b| b.0.min(last)));
    }
    found.rows.push(Row::new(name.to_owned(), all));
    Some(found)
}

/// The histogram's name, the end of the bucket, and how many are at most that.
fn bucket(line: &str) -> Option<(&str, f64, f64)> {
    let (name, rest) = line.trim().split_once("_bucket{")?;
    let (labels, rest) = rest.split_once('}')?;
    let named = !name.is_empty()
        && name
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b':');
    let end = labels
        .split(',')
        .find_map(|l| l.trim().strip_prefix("le=\"")?.strip_suffix('"'))?;
    // `+Inf` is a number to Rust too.
    let n = rest.split_whitespace().next()?.parse::<f64>().ok()?;
    named.then_some((name, end.parse().ok()?, n))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_of_one_name_add_up_and_the_slowest_name_counts() {
        let text = "\
# TYPE a_seconds histogram
a_seconds_bucket{code=\"200\",le=\"0.1\"} 90
a_seconds_bucket{code=\"200\",le=\"+Inf\"} 90
a_seconds_bucket{code=\"500\",le=\"0.1\"} 0
a_seconds_bucket{code=\"500\",le=\"+Inf\"} 10
b_seconds_bucket{le=\"0.01\"} 3
b_seconds_bucket{le=\"+Inf\"} 3
";
        let found = read(&text.lines().collect::<Vec<_>>()).unwrap();
        assert_eq!(found.rows[0].label, "a_seconds");
        assert_eq!(found.value("prometheus.count"), Some(100.0));
        let beyond = found.value("prometheus.beyond").unwrap();
        assert!((beyond - 0.1).abs() < 1e-9, "{beyond}");
    }
}
