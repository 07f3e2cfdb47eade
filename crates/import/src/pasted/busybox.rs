//! `top` of BusyBox, as Alpine's containers and routers have it.
//!
//! The surprise is its `%CPU`, which is of the whole machine and not of one core, and its columns: a state may be two
//! words (`S <`), and a large `VSZ` leaves no blank before its share (`1222m1578%`). So a row is read from its
//! numbers on and not by its columns.

use super::events::{artefact, told};
use super::pieces::{short, value};
use record::pasted::{Artefact, Row};

pub(super) const TOOL: &str = "top of BusyBox";

/// Whether these are the columns of BusyBox' top.
pub(super) fn is_head(cells: &[&str]) -> bool {
    let share = |c: &&str| ["%VSZ", "%MEM"].contains(c);
    cells.starts_with(&["PID", "PPID"]) && cells.contains(&"%CPU") && cells.iter().any(share)
}

/// What the line of the CPU calls its modes, and ours.
const MODES: [(&str, &str); 7] = [
    ("usr", "user"),
    ("sys", "system"),
    ("nic", "nice"),
    ("idle", "idle"),
    ("io", "iowait"),
    ("irq", "irq"),
    ("sirq", "softirq"),
];

/// The first look in a text, as the later ones stand below their own heads.
pub(super) fn read(lines: &[&str]) -> Option<Artefact> {
    let mut found = artefact(TOOL, 0);
    let mut cores = None;
    for (number, line) in (1_u32..).zip(lines) {
        let words: Vec<&str> = line.split_whitespace().collect();
        if let Some(modes) = modes(&words) {
            if found.value("cpu.idle").is_some() {
                break;
            }
            found.begin_at(number);
            for (name, n) in modes {
                found.figures.insert(format!("cpu.{name}"), n);
            }
        } else if is_head(&words) {
            if !found.rows.is_empty() {
                break;
            }
            cores = Some(words.contains(&"CPU"));
        } else if let Some((share, command)) = cores.and_then(|cores| process(&words, cores)) {
            found.begin_at(number);
            found.largest("busybox.busiest", share);
            found.rows.push(Row::new(short(&command), share / 100.0));
        }
    }
    let rows = found.rows.len() as f64;
    found.figures.insert("busybox.rows".into(), rows);
    found.largest_first();
    told(found).filter(|a| !a.rows.is_empty())
}

/// `CPU:   2% usr   3% sys   0% nic  93% idle   0% io   0% irq   0% sirq`.
fn modes(words: &[&str]) -> Option<Vec<(&'static str, f64)>> {
    let (first, rest) = words.split_first()?;
    (*first == "CPU:").then_some(())?;
    let pairs = rest.chunks_exact(2).map(|pair| {
        let (_, ours) = MODES.iter().find(|(theirs, _)| *theirs == pair[1])?;
        Some((*ours, value(pair[0].strip_suffix('%')?)?))
    });
    pairs.collect::<Option<Vec<_>>>().filter(|m| m.len() >= 4)
}

/// `%CPU` and the command of a row: PID, PPID, the user, a state of one or two words, VSZ and its share, then a CPU
/// where the head has one.
fn process(words: &[&str], cores: bool) -> Option<(f64, String)> {
    let [process, parent, _, rest @ ..] = words else {
        return None;
    };
    (process.parse::<u32>().is_ok() && parent.parse::<u32>().is_ok()).then_some(())?;
    let is_share = |w: &str| {
        let digits = w.strip_suffix('%').unwrap_or_default();
        digits.starts_with(|c: char| c.is_ascii_digit())
    };
    // The share of VSZ ends the first word with a percent sign, joined to VSZ or not.
    let at = rest.iter().take(4).position(|w| is_share(w))?;
    let behind = &rest[at + 1 + usize::from(cores)..];
    let (share, command) = behind.split_first()?;
    let share = value(share.strip_suffix('%')?)?;
    (!command.is_empty()).then(|| (share, command.join(" ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_read_whatever_their_columns_do() {
        let text = "Mem: 812344K used, 190456K free, 1234K shrd, 0K buff, 1K cached\nCPU:  12% usr   8% sys   0% nic  79% idle   0% io   0% irq   1% sirq\nLoad average: 0.40 0.22 0.10 2/310 4711\n  PID  PPID USER     STAT   VSZ %VSZ CPU %CPU COMMAND\n  310     1 root     S <  18432m2310%   1   3% /usr/bin/crowd -d\n   12     2 root     SW       0   0%   0   0% [ksoftirqd/0]\n  402     1 http     R     9120   1%   2  15% nginx: worker process\n";
        let found = read(&text.lines().collect::<Vec<_>>()).unwrap();
        assert_eq!(found.rows[0].label, "nginx: worker process");
        assert_eq!(found.rows[1].label, "/usr/bin/crowd -d");
        assert_eq!(found.value("busybox.busiest"), Some(15.0));
        assert_eq!(found.value("cpu.softirq"), Some(1.0));
        let text = "  PID  PPID USER     STAT   VSZ %MEM %CPU COMMAND\n  512     1 root     S     1420   2%   7% hostapd\n";
        let found = read(&text.lines().collect::<Vec<_>>()).unwrap();
        assert_eq!(found.value("busybox.busiest"), Some(7.0));
        assert!(read(&["  512     1 root     S     1420   2%   7% hostapd"]).is_none());
    }
}
