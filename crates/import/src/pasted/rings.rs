//! A program that waits in io_uring, and a processor that is said to wait for a disk.
//!
//! The surprise is the accounting: from Linux 6.5 on (and in stable versions before it) a task that sleeps in
//! `io_uring_enter` until something comes counts as waiting for I/O, so that an idle processor shows as full of iowait
//! (io_uring/io_uring.c, io_cqring_wait). Linux 6.15 lets a program say that it is not (`IORING_ENTER_NO_IOWAIT`).

use super::events::{artefact, told};
use super::pieces::short;
use record::pasted::{Artefact, Row};

/// The first mention, and the largest share of iowait that a person wrote down: `CPU0: ~98-100% iowait`.
pub(super) fn read(lines: &[&str]) -> Option<Artefact> {
    let named = |l: &&str| l.contains("io_uring") || l.contains("iou-wrk");
    let first = lines.iter().position(named)?;
    lines.iter().any(|l| l.contains("iowait")).then_some(())?;
    let mut found = artefact("io_uring", u32::try_from(first + 1).ok()?);
    found.rows.push(Row::new(short(lines[first]), 0.0));
    for line in lines {
        let Some(share) = share(line) else { continue };
        if share > found.value("ring.iowait").unwrap_or(0.0) {
            found.figures.insert("ring.iowait".into(), share);
            found.rows = vec![Row::new(short(line), share)];
        }
    }
    found.figures.insert("ring.rows".into(), 1.0);
    told(found)
}

/// `98-100% iowait` and `iowait 98%`: the lower end of a range.
fn share(line: &str) -> Option<f64> {
    let at = line.find("iowait")?;
    let percent = |word: &str| {
        let word = word.trim_matches(|c: char| !(c.is_ascii_digit() || c == '%'));
        let low = word.strip_suffix('%')?.split(['-', '–']).next()?;
        low.parse::<f64>().ok().filter(|n| *n <= 100.0)
    };
    let before = line[..at]
        .trim_end_matches('%')
        .split_whitespace()
        .next_back();
    let behind = || {
        line[at + "iowait".len()..]
            .trim_start_matches([':', '='])
            .split_whitespace()
            .next()
    };
    before.and_then(percent).or_else(|| percent(behind()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn iowait_beside_a_ring_is_read_from_prose() {
        let iowait = |text: &str| {
            let found = read(&text.lines().collect::<Vec<_>>());
            found.and_then(|a| a.value("ring.iowait"))
        };
        assert_eq!(
            iowait("it calls io_uring_enter\nCPU3: ~91-99% iowait\n"),
            Some(91.0)
        );
        assert_eq!(iowait("io_uring\niowait: 97% on one core\n"), Some(97.0));
        assert_eq!(iowait("io_uring\n%iowait %idle\n"), None);
        assert!(read(&["it calls io_uring_enter"]).is_none());
        assert_eq!(iowait("CPU3: ~91-99% iowait\n"), None);
    }
}
