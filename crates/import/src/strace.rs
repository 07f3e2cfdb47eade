//! Sizes of system calls: lines of `strace -e`, and what `sort | uniq -c` counted of them.

use record::pasted::Sizes;
use std::collections::BTreeMap;

/// Calls whose sizes people count.
const SIZED: [&str; 12] = [
    "readv", "writev", "recvfrom", "sendto", "recvmsg", "sendmsg", "pread64", "pwrite64", "preadv",
    "sendfile", "read", "write",
];

/// Counted sizes and lines of strace, by call.
pub(crate) fn sizes(file: &str, lines: &[&str]) -> Vec<Sizes> {
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
    let mut close = |block: &mut Vec<(u64, u64)>, call: &str, line: u32| {
        if block.len() >= 3 {
            found.push(Sizes {
                call: call.to_owned(),
                counts: std::mem::take(block),
                asked: None,
                line,
            });
        }
        block.clear();
    };
    let mut first = 0;
    for (number, line) in (1..).zip(lines) {
        if let Some(pair) = count_and_size(line) {
            if block.is_empty() {
                first = number;
            }
            block.push(pair);
            continue;
        }
        close(&mut block, call, first);
        // A line of strace names its call too; a heading or a command names what follows.
        if let Some(named) = named_in(line).filter(|_| traced_call(line).is_none()) {
            call = named;
        }
    }
    close(&mut block, call, first);
    found
}

/// `144120 4096`, counts not rising within a block is not checked: people sort as they like.
fn count_and_size(line: &str) -> Option<(u64, u64)> {
    let mut words = line.split_whitespace();
    let count = words.next()?.parse().ok()?;
    let size = words.next()?.parse().ok()?;
    words.next().is_none().then_some((size, count))
}

/// Calls by returned size, those whose length was asked for, those of them that got it, the first line.
type Traced = (BTreeMap<u64, u64>, u64, u64, u32);

/// Lines of strace, gathered by call; at least eight of a call.
fn traced(lines: &[&str]) -> Vec<Sizes> {
    const FEWEST: u64 = 8;
    let mut by_call: BTreeMap<&str, Traced> = BTreeMap::new();
    for (number, line) in (1..).zip(lines) {
        let Some((call, arguments, returned)) = traced_call(line) else {
            continue;
        };
        let (counts, asked, full, first) = by_call.entry(call).or_default();
        if *first == 0 {
            *first = number;
        }
        *counts.entry(returned).or_default() += 1;
        if let Some(length) = asked_bytes(call, arguments) {
            *asked += 1;
            *full += u64::from(length == returned);
        }
    }
    by_call
        .into_iter()
        .filter(|(_, (counts, ..))| counts.values().sum::<u64>() >= FEWEST)
        .map(|(call, (counts, asked, full, line))| Sizes {
            call: call.to_owned(),
            counts: counts.into_iter().collect(),
            asked: (asked > 0).then_some((asked, full)),
            line,
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
    use crate::{host, text};
    use record::pasted::StraceSummary;

    fn summaries(text: &str) -> Vec<StraceSummary> {
        let read = host::straces(&text::words(text)).into_iter();
        read.map(|(summary, _)| summary).collect()
    }

    #[test]
    fn a_summary_with_and_without_errors() {
        let text = "$ timeout 30 strace -c -p 7\n\
            % time     seconds  usecs/call     calls    errors syscall\n\
            ------ ----------- ----------- --------- --------- ----------------\n\
            53.49    4.035007          11    365710           writev\n\
             0.07    0.004944          14       337       337 connect\n\
            100.00    7.543812           9    827460       363 total\n";
        let found = summaries(text);
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
