//! Progress of a transfer, a file a line: scp and sftp, rsync, wget, pv.
//!
//! Each prints what has come and its rate in an order of its own. The surprise is the terminal, which shows one line
//! for all that were written over another; a paste may have them all, and the last one counts.

use super::events::{artefact, told};
use super::pieces::short;
use crate::text::{bytes, number};
use record::pasted::{Artefact, Row};

/// A longer line is data.
const LINE: usize = 400;

/// The transfers of a text, the slowest first.
pub(super) fn read(lines: &[&str]) -> Option<Artefact> {
    let mut found = artefact("progress of a transfer", 0);
    let mut encrypted = 0.0;
    for (line_number, line) in (1_u32..).zip(lines) {
        let Some(last) = line.rsplit('\r').find(|part| !part.trim().is_empty()) else {
            continue;
        };
        if last.len() > LINE {
            continue;
        }
        let words: Vec<&str> = last.split_whitespace().collect();
        let by_ssh = copied(&words).or_else(|| synchronised(&words));
        let Some(per_s) = by_ssh.or_else(|| fetched(last)).or_else(|| piped(last)) else {
            continue;
        };
        found.begin_at(line_number);
        encrypted += f64::from(u8::from(by_ssh.is_some()));
        found.rows.push(Row::new(short(last), per_s));
    }
    found.rows.sort_by(|a, b| a.share.total_cmp(&b.share));
    let slowest = found.rows.first()?.share;
    for (name, n) in [
        ("rows", found.rows.len() as f64),
        ("per_s", slowest),
        ("encrypted", encrypted),
    ] {
        found.figures.insert(format!("transfer.{name}"), n);
    }
    told(found)
}

/// `7.9MB/s`, `146.38kB/s`: bytes a second.
fn rate(word: &str) -> Option<f64> {
    let upper = word.strip_suffix("/s")?.to_ascii_uppercase();
    bytes(&upper.replace("IB", "B")).map(|n| n.value)
}

fn is_percent(word: &str) -> bool {
    let n = word.strip_suffix('%').and_then(|n| n.parse::<u8>().ok());
    n.is_some_and(|n| n <= 100)
}

/// `0:00:08`, `11:47`, `--:--`.
fn is_clock(word: &str) -> bool {
    word.contains(':') && word.chars().all(|c| c.is_ascii_digit() || ":-".contains(c))
}

/// scp and sftp: `big.iso   7%  464MB   7.9MB/s   11:47 ETA`.
fn copied(words: &[&str]) -> Option<f64> {
    let at = words
        .iter()
        .position(|w| is_percent(w))
        .filter(|at| *at >= 1)?;
    let [size, per_s, clock, ..] = words.get(at + 1..)? else {
        return None;
    };
    bytes(size)?;
    let stalled = || (*per_s == "-").then_some(0.0);
    rate(per_s).filter(|_| is_clock(clock)).or_else(stalled)
}

/// rsync: `  1,238,099 100%  146.38kB/s    0:00:08  (xfr#5, to-chk=169/396)`.
fn synchronised(words: &[&str]) -> Option<f64> {
    let [size, percent, per_s, clock, ..] = words else {
        return None;
    };
    number(size).or_else(|| bytes(size))?;
    rate(per_s).filter(|_| is_percent(percent) && is_clock(clock))
}

/// wget: `big.iso  34%[=====>      ]  12.5M  2.35MB/s  eta 12s`.
fn fetched(line: &str) -> Option<f64> {
    let (_, behind) = line.split_once("%[")?;
    let (_, behind) = behind.split_once(']')?;
    behind.split_whitespace().find_map(rate)
}

/// pv: ` 1.2GiB 0:00:12 [ 102MiB/s] [====>   ] 34% ETA 0:00:10`.
fn piped(line: &str) -> Option<f64> {
    let (before, behind) = line.split_once('[')?;
    let per_s = rate(behind.split_once(']')?.0.trim())?;
    let [.., size, clock] = before.split_whitespace().collect::<Vec<_>>()[..] else {
        return None;
    };
    (bytes(&size.replace("iB", "B")).is_some() && is_clock(clock)).then_some(per_s)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, per_s: f64, encrypted: f64) {
        let found = read(&text.lines().collect::<Vec<_>>());
        let found = found.unwrap_or_else(|| panic!("nothing in {text}"));
        assert_eq!(found.value("transfer.per_s"), Some(per_s), "{text}");
        assert_eq!(found.value("transfer.encrypted"), Some(encrypted), "{text}");
    }

    #[test]
    fn each_tool_has_its_line() {
        let mib = 1_048_576.0;
        check(
            "big.iso      7%  464MB   7.5MB/s   11:47 ETA\n",
            7.5 * mib,
            1.0,
        );
        check(
            "big.iso    100%   64MB   2.0MB/s   00:32\nb   3%  1MB  - stalled -\n",
            0.0,
            2.0,
        );
        check(
            "    1,238,099 100%  146.50kB/s    0:00:08  (xfr#5, to-chk=1/9)\n",
            146.5 * 1024.0,
            1.0,
        );
        check(
            "f  34%[=====>     ]  12.5M  2.50MB/s    eta 12s\n",
            2.5 * mib,
            0.0,
        );
        check(
            " 1.2GiB 0:00:12 [ 102MiB/s] [====>   ] 34% ETA 0:00:10\n",
            102.0 * mib,
            0.0,
        );
        // Of what was written over, the last counts.
        check(
            "a  1%  4MB  9.0MB/s  11:47 ETA\ra  7%  64MB  0.5MB/s  21:47 ETA\n",
            0.5 * mib,
            1.0,
        );
        for other in [
            "cpu 7% 464MB 3 12:00",
            "disk 40% of 7.9MB/s at 11:47",
            "[ 5] 7.9MB/s",
        ] {
            assert!(read(&[other]).is_none(), "{other}");
        }
    }
}
