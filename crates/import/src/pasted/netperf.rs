//! netperf's tables: rates of streams, and transactions a second.
//!
//! A table is known by its last line of the head, which has the units: the rate stands in the column of its unit. Of
//! several runs the rates are set beside each other, each under what stands above its table. The surprise is the second
//! line of a run, which has no rate, or what the receiver of datagrams saw.

use super::events::{artefact, told};
use super::pieces::{apart, short};
use record::pasted::{Artefact, Row};

/// Units of a stream's rate, and bits a second of each.
const STREAMS: [(&str, f64); 6] = [
    ("10^3bits/", 1e3),
    ("10^6bits/", 1e6),
    ("10^9bits/", 1e9),
    ("KBytes/", 8_192.0),
    ("MBytes/", 8_388_608.0),
    ("GBytes/", 8_589_934_592.0),
];
/// Words of the head above the units.
#[rustfmt::skip]
const HEAD: [&str; 24] = [
    "Recv", "Send", "Socket", "Message", "Messages", "Elapsed", "Size", "Time", "Throughput", "Local", "/Remote", "Remote",
    "Request", "Resp.", "Trans.", "Rate", "Okay", "Errors", "Utilization", "Service", "Demand", "CPU", "local", "remote",
];

/// What a table counts, and the columns of its rate and its time.
struct Columns {
    /// Bits a second of the unit; none where it counts transactions.
    bits: Option<f64>,
    rate: usize,
    time: usize,
}

/// All runs of a text.
pub(super) fn read(lines: &[&str]) -> Vec<Artefact> {
    let mut streams = artefact("netperf", 0);
    let mut answered = artefact("netperf, requests and responses", 0);
    for (number, (at, line)) in (1_u32..).zip(lines.iter().enumerate()) {
        let Some(columns) = columns(line) else {
            continue;
        };
        let Some(rate) = rate_below(&lines[at + 1..], &columns) else {
            continue;
        };
        let (found, name, written) = match columns.bits {
            Some(bits) => (&mut streams, "netperf", in_bits(rate * bits)),
            None => (&mut answered, "netperf_rr", format!("{rate:.0} a second")),
        };
        found.begin_at(number);
        let n = rate * columns.bits.unwrap_or(1.0);
        found.smallest(&format!("{name}.least"), n);
        found.largest(&format!("{name}.most"), n);
        found.add(&format!("{name}.rows"), 1.0);
        let label = above(&lines[..at]).map_or_else(
            || format!("run {}", found.rows.len() + 1),
            |line| short(line.trim_end_matches(':')),
        );
        found.rows.push(Row {
            label,
            place: written,
            share: n,
        });
    }
    for (found, name) in [(&mut streams, "netperf"), (&mut answered, "netperf_rr")] {
        let of = |which: &str| found.value(&format!("{name}.{which}"));
        if let (Some(least), Some(most)) = (of("least"), of("most")) {
            let times = apart(least, most);
            found.figures.insert(format!("{name}.times"), times);
        }
    }
    [told(streams), told(answered)]
        .into_iter()
        .flatten()
        .collect()
}

/// `bytes  bytes  bytes  secs.  10^6bits/sec`.
fn columns(line: &str) -> Option<Columns> {
    let line = line.replace("per sec", "per_sec");
    let words: Vec<&str> = line.split_whitespace().collect();
    let time = words.iter().position(|w| w.starts_with("secs"))?;
    let unit = |word: &&str| STREAMS.iter().find(|(unit, _)| word.starts_with(unit));
    let rate = words
        .iter()
        .position(|w| *w == "per_sec" || unit(w).is_some())?;
    words[0].eq_ignore_ascii_case("bytes").then_some(Columns {
        bits: unit(&words[rate]).map(|(_, bits)| *bits),
        rate,
        time,
    })
}

/// The rate of the first line of numbers below the units.
fn rate_below(lines: &[&str], columns: &Columns) -> Option<f64> {
    let row = lines.iter().take(3).find(|line| !line.trim().is_empty())?;
    let cells: Option<Vec<f64>> = row.split_whitespace().map(|w| w.parse().ok()).collect();
    let cells = cells?;
    let ran = cells.get(columns.time).is_some_and(|s| *s > 0.0);
    let rate = cells.get(columns.rate).copied();
    rate.filter(|n| ran && *n > 0.0 && n.is_finite())
}

/// The nearest line above a table's head that is no part of a table.
fn above<'a>(lines: &[&'a str]) -> Option<&'a str> {
    let line = lines.iter().rev().map(|line| line.trim()).find(|line| {
        let head = line.split_whitespace().all(|word| HEAD.contains(&word));
        !line.is_empty() && !head
    })?;
    // Numbers are those of the run before.
    line.contains(char::is_alphabetic).then_some(line)
}

/// `1.91 Mbit/s`.
fn in_bits(n: f64) -> String {
    match n {
        n if n >= 1e9 => format!("{:.2} Gbit/s", n / 1e9),
        n if n >= 1e6 => format!("{:.2} Mbit/s", n / 1e6),
        n => format!("{:.2} kbit/s", n / 1e3),
    }
}

#[cfg(test)]
mod tests {
    use super::super::events::written;
    use super::*;

    #[test]
    fn runs_stand_beside_each_other_by_what_is_above_them() {
        let text = "\
netperf -H 10.0.0.2 -t TCP_STREAM
MIGRATED TCP STREAM TEST from 0.0.0.0 () port 0 AF_INET to 10.0.0.2 () port 0 AF_INET
Recv   Send    Send                          Utilization       Service Demand
Socket Socket  Message  Elapsed              Send     Recv     Send    Recv
Size   Size    Size     Time     Throughput  local    remote   local   remote
bytes  bytes   bytes    secs.    10^6bits/s  % S      % S      us/KB   us/KB

 87380  16384  16384    10.02       941.50   2.10     3.20     0.731   1.114
after:
bytes  bytes   bytes    secs.    10^9bits/sec

 87380  16384  16384    10.00        9.41
";
        let [found] = read(&text.lines().collect::<Vec<_>>()).try_into().unwrap();
        let rows = written(&found);
        assert!(rows[0].starts_with("MIGRATED TCP STREAM"), "{rows:?}");
        assert!(rows[0].ends_with(": 941.50 Mbit/s"), "{rows:?}");
        assert_eq!(rows[1], "after: 9.41 Gbit/s");
        assert_eq!(found.value("netperf.times").map(f64::round), Some(10.0));
    }

    #[test]
    fn transactions_and_datagrams_have_their_rate_in_its_column() {
        let text = "\
Local /Remote
Socket Size   Request  Resp.   Elapsed  Trans.
Send   Recv   Size     Size    Time     Rate
bytes  Bytes  bytes    bytes   secs.    per sec

16384  87380  1        1       10.00    8000.00
16384  87380
Socket  Message  Elapsed      Messages
Size    Size     Time         Okay Errors   Throughput
bytes   bytes    secs            #      #   10^6bits/sec

212992   65507   10.00       30000      0    1572.10
212992           10.00       29000           1519.70
";
        let [streams, answered] = read(&text.lines().collect::<Vec<_>>()).try_into().unwrap();
        assert_eq!(written(&answered), ["run 1: 8000 a second"]);
        assert_eq!(written(&streams), ["run 1: 1.57 Gbit/s"]);
        assert!(read(&["bytes  bytes  secs.  10^6bits/sec", "cut off"]).is_empty());
    }
}
