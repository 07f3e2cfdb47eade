//! `strace -c` summaries, lines of `strace -e`, and sizes that `sort | uniq -c` counted.

use super::Sizes;
use std::collections::BTreeMap;

/// One row of a summary.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CallCount {
    /// System call.
    pub call: String,
    /// Calls.
    pub calls: u64,
    /// Failed calls.
    pub errors: u64,
    /// Time in the kernel, s, as strace accounts it.
    pub seconds: f64,
}

/// One summary.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StraceSummary {
    /// Rows, as printed.
    pub rows: Vec<CallCount>,
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

/// All summaries in these lines.
pub(super) fn summaries(lines: &[&str]) -> Vec<StraceSummary> {
    let mut found: Vec<StraceSummary> = Vec::new();
    let mut open = false;
    for line in lines {
        if line.contains("% time") && line.contains("usecs/call") {
            found.push(StraceSummary::default());
            open = true;
        } else if open && line.trim_end().ends_with(" total") {
            open = false;
        } else if open && let (Some(row), Some(summary)) = (row(line), found.last_mut()) {
            summary.rows.push(row);
        }
    }
    found.retain(|summary| !summary.rows.is_empty());
    found
}

/// `53.49  4.035007  11  365710  [errors]  writev`.
fn row(line: &str) -> Option<CallCount> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let (call, numbers) = words.split_last()?;
    let is_name = call.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        && call.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    if !is_name || !(4..=5).contains(&numbers.len()) {
        return None;
    }
    Some(CallCount {
        call: (*call).to_owned(),
        seconds: numbers[1].parse().ok()?,
        calls: numbers[3].parse().ok()?,
        errors: match numbers.get(4) {
            Some(text) => text.parse().ok()?,
            None => 0,
        },
    })
}

/// Calls whose sizes people count.
const SIZED: [&str; 12] = [
    "readv", "writev", "recvfrom", "sendto", "recvmsg", "sendmsg", "pread64", "pwrite64", "preadv",
    "sendfile", "read", "write",
];

/// Counted sizes and lines of strace, by call.
pub(super) fn sizes(file: &str, lines: &[&str]) -> Vec<Sizes> {
    let mut found = counted(file, lines);
    found.extend(traced(lines));
    found
}

/// Blocks of `COUNT SIZE` lines, at least three in a row, named by the last call that was mentioned above.
fn counted(file: &str, lines: &[&str]) -> Vec<Sizes> {
    let named_in = |text: &str| {
        let words: Vec<&str> = text
            .split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
            .collect();
        SIZED.iter().find(|call| words.contains(call)).copied()
    };
    let mut call = named_in(file).unwrap_or_default();
    let mut found: Vec<Sizes> = Vec::new();
    let mut block: Vec<(u64, u64)> = Vec::new();
    let mut close = |block: &mut Vec<(u64, u64)>, call: &str| {
        if block.len() >= 3 {
            found.push(Sizes {
                call: call.to_owned(),
                counts: std::mem::take(block),
                asked: None,
            });
        }
        block.clear();
    };
    for line in lines {
        if let Some(pair) = count_and_size(line) {
            block.push(pair);
            continue;
        }
        close(&mut block, call);
        // A line of strace names its call too; a heading or a command names what follows.
        if let Some(named) = named_in(line).filter(|_| traced_call(line).is_none()) {
            call = named;
        }
    }
    close(&mut block, call);
    found
}

/// `144120 4096`, counts not rising within a block is not checked: people sort as they like.
fn count_and_size(line: &str) -> Option<(u64, u64)> {
    let mut words = line.split_whitespace();
    let count = words.next()?.parse().ok()?;
    let size = words.next()?.parse().ok()?;
    words.next().is_none().then_some((size, count))
}

/// Lines of strace, gathered by call; at least eight of a call.
fn traced(lines: &[&str]) -> Vec<Sizes> {
    const FEWEST: u64 = 8;
    let mut by_call: BTreeMap<&str, (BTreeMap<u64, u64>, u64, u64)> = BTreeMap::new();
    for line in lines {
        let Some((call, arguments, returned)) = traced_call(line) else {
            continue;
        };
        let (counts, asked, full) = by_call.entry(call).or_default();
        *counts.entry(returned).or_default() += 1;
        if let Some(length) = asked_bytes(call, arguments) {
            *asked += 1;
            *full += u64::from(length == returned);
        }
    }
    by_call
        .into_iter()
        .filter(|(_, (counts, ..))| counts.values().sum::<u64>() >= FEWEST)
        .map(|(call, (counts, asked, full))| Sizes {
            call: call.to_owned(),
            counts: counts.into_iter().collect(),
            asked: (asked > 0).then_some((asked, full)),
        })
        .collect()
}

/// `readv(85, [{iov_base="...", iov_len=4096}], 1) = 4096`, a pid in front allowed.
fn traced_call(line: &str) -> Option<(&'static str, &str, u64)> {
    let (before, returned) = line.rsplit_once(" = ")?;
    let (head, arguments) = before.split_once('(')?;
    let name = head.split_whitespace().next_back()?;
    let call = SIZED.into_iter().find(|call| *call == name)?;
    let returned = returned.split_whitespace().next()?.parse().ok()?;
    Some((call, arguments, returned))
}

fn asked_bytes(call: &str, arguments: &str) -> Option<u64> {
    if call.ends_with('v') || call.ends_with("msg") {
        let lengths: Vec<u64> = arguments
            .split("iov_len=")
            .skip(1)
            .filter_map(|rest| {
                let digits = rest.split(|c: char| !c.is_ascii_digit()).next()?;
                digits.parse().ok()
            })
            .collect();
        return (!lengths.is_empty()).then(|| lengths.iter().sum());
    }
    // The length follows the buffer, which is quoted and may hold anything.
    let after = arguments.rsplit_once('"')?.1;
    let mut numbers = after
        .split(|c: char| !c.is_ascii_digit())
        .filter(|word| !word.is_empty());
    numbers.next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_with_and_without_errors() {
        let text = "$ timeout 30 strace -c -p 7\n\
            % time     seconds  usecs/call     calls    errors syscall\n\
            ------ ----------- ----------- --------- --------- ----------------\n\
            53.49    4.035007          11    365710           writev\n\
             0.07    0.004944          14       337       337 connect\n\
            100.00    7.543812           9    827460       363 total\n";
        let found = summaries(&text.lines().collect::<Vec<_>>());
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].rows.len(), 2);
        assert_eq!(found[0].rows[1].errors, 337);
        assert_eq!(found[0].calls()["writev"], 365_710);
    }

    #[test]
    fn counted_sizes_take_the_name_of_the_command_above() {
        let text = "$ grep 'readv' out | sort | uniq -c | sort -rn | head\n 144120 4096\n  18007 36864\n  17796 19540\n$ grep 'writev' out\n 126115 8192\n  36032 4096\n  18028 143\n";
        let found = sizes("x", &text.lines().collect::<Vec<_>>());
        assert_eq!(found.len(), 2);
        assert_eq!(
            (found[0].call.as_str(), found[0].counts[0]),
            ("readv", (4096, 144_120))
        );
        assert_eq!(found[1].call, "writev");
    }

    #[test]
    fn lines_of_strace_tell_what_was_asked_for() {
        let line = "[pid 7] readv(85, [{iov_base=\"ST (x) = 3\"..., iov_len=4096}], 1) = 4096\n";
        let recv = "recvfrom(264, \"HTTP/1.1 200 \\r\\nA\"..., 4096, 0, NULL, NULL) = 67\n";
        let text = line.repeat(9) + &recv.repeat(9);
        let found = sizes("x", &text.lines().collect::<Vec<_>>());
        assert_eq!(found[0].asked, Some((9, 9)));
        assert_eq!(
            (found[1].call.as_str(), found[1].asked),
            ("recvfrom", Some((9, 0)))
        );
    }
}
