//! Processes that have ended and whose parent has not asked how (zombies): `<defunct>`, the state `Z`.
//!
//! The surprise is BusyBox, which shows them as a name in brackets, as it does kernel threads: in a list that has the
//! first process and none of the kernel's, as in a container, they are what has ended.

use super::events::{artefact, told};
use super::pieces::short;
use record::pasted::{Artefact, Row};

/// Names of kernel threads begin so.
const OF_THE_KERNEL: [&str; 8] = [
    "kthread",
    "kworker",
    "ksoftirqd",
    "migration",
    "rcu",
    "cpuhp",
    "kswapd",
    "watchdog",
];
/// One that has just ended is no sign; so many of one name in brackets are no chance.
const FEW: f64 = 2.0;
const ALIKE: f64 = 3.0;

/// How many have ended, by name.
pub(super) fn read(lines: &[&str]) -> Option<Artefact> {
    let mut found = artefact("processes that have ended", 0);
    let mut bracketed = artefact("names in brackets", 0);
    let (mut state, mut headed, mut has_first) = (None, false, false);
    for (number, line) in (1_u32..).zip(lines) {
        let words: Vec<&str> = line.split_whitespace().collect();
        if words.contains(&"PID") && words.iter().any(|w| ["COMMAND", "CMD"].contains(w)) {
            state = words
                .iter()
                .position(|w| ["STAT", "S", "STATE"].contains(w));
            headed = true;
            continue;
        }
        let is_number = |w: &&str| w.parse::<u32>().is_ok();
        if words.len() < 3 || !words[..2].iter().any(is_number) {
            continue;
        }
        has_first |= headed && words[..2].contains(&"1");
        let defunct = line.find("<defunct>");
        let in_state = state.and_then(|at: usize| words.get(at));
        let name = line[..defunct.unwrap_or(line.len())]
            .split_whitespace()
            .next_back();
        let name = name.unwrap_or_default();
        let bare = name.strip_prefix('[').and_then(|w| w.strip_suffix(']'));
        let row = Row::new(short(bare.unwrap_or(name)), 1.0);
        if defunct.is_some() || in_state.is_some_and(|s| s.starts_with('Z')) {
            found.begin_at(number);
            found.rows.push(row);
        } else if bare.is_some() {
            bracketed.begin_at(number);
            bracketed.rows.push(row);
        }
    }
    let of_the_kernel = |r: &Row| OF_THE_KERNEL.iter().any(|k| r.label.starts_with(k));
    if found.rows.is_empty() && has_first && !bracketed.rows.iter().any(of_the_kernel) {
        bracketed.settle();
        bracketed.rows.retain(|r| r.share >= ALIKE);
        (found.line, found.rows) = (bracketed.line, bracketed.rows);
    }
    found.settle();
    let all: f64 = found.rows.iter().map(|r| r.share).sum();
    for row in &mut found.rows {
        row.place = format!("{:.0}", row.share);
    }
    for (name, n) in [("rows", found.rows.len() as f64), ("count", all)] {
        found.figures.insert(format!("ended.{name}"), n);
    }
    told(found).filter(|_| all >= FEW)
}

#[cfg(test)]
mod tests {
    use super::super::events::written;
    use super::*;

    #[test]
    fn who_has_ended_and_is_not_waited_for_is_counted_by_name() {
        let of = |text: &str| read(&text.lines().collect::<Vec<_>>());
        let aux = "USER PID %CPU %MEM VSZ RSS TTY STAT START TIME COMMAND\nroot 1 0.0 0.1 9 9 ? Ss 10:00 0:01 node a.js\nroot 8 0.0 0.0 0 0 ? Z 10:01 0:00 [curl] <defunct>\nroot 9 0.0 0.0 0 0 ? Z 10:02 0:00 [curl] <defunct>\n";
        assert_eq!(written(&of(aux).unwrap()), ["curl: 2"]);
        let busy = "PID   USER     TIME   COMMAND\n    1 app       1:57 ./server\n   30 app       0:00 [git]\n   31 app       0:00 [git]\n   32 app       0:00 [git]\n";
        assert_eq!(written(&of(busy).unwrap()), ["git: 3"]);
        // On a host they are the kernel's.
        assert!(of(&busy.replace("30 app       0:00 [git]", "2 root 0:00 [kthreadd]")).is_none());
    }
}
