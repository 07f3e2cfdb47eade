//! Counters of network devices: `ip -s link`, ifconfig old and new, `ethtool -S`; and what a link was negotiated at:
//! `ethtool`, the kernel's log.
//!
//! What is told is what was lost, by the name that it has there. They count since the device came up, so that one
//! output shows that packets were lost and not when.

use super::events::{artefact, told};
use super::pieces::{pieces, short, value};
use record::pasted::{Artefact, Row};

/// Parts of names of counters of what was lost.
const LOST: [&str; 9] = [
    "err",
    "drop",
    "miss",
    "fifo",
    "no_buf",
    "out_of_buf",
    "discard",
    "overrun",
    "timeout",
];

/// Speeds of links, Mbit/s.
const MEGABITS: [f64; 9] = [10.0, 100.0, 1e3, 2.5e3, 5e3, 1e4, 2.5e4, 4e4, 1e5];

/// What links were negotiated at: `Speed: 100Mb/s`, `Duplex: Half`, `Link is Up - 100Mbps/Full`.
pub(super) fn speeds(lines: &[&str]) -> Option<Artefact> {
    let mut found = artefact("speed of a link", 0);
    for (number, line) in (1_u32..).zip(lines) {
        let line = line.trim();
        let up = line.split_once("Link is Up").map(|(_, rest)| rest);
        let said = line.strip_prefix("Speed:").or(up).map(str::trim_start);
        if let Some(speed) = said.and_then(megabits) {
            found.begin_at(number);
            found
                .figures
                .entry("link.mbit_per_s".into())
                .or_insert(speed);
            found.add("link.rows", 1.0);
            found.rows.push(Row::new(short(line), speed));
        }
        let half = line
            .strip_prefix("Duplex:")
            .is_some_and(|d| d.trim() == "Half");
        if half || up.is_some_and(|rest| rest.contains("Half")) {
            found.largest("link.half_duplex", 1.0);
        }
    }
    found.settle();
    told(found)
}

/// `100Mb/s`, `- 100Mbps/Full`, `at 1000 Mbps, full duplex`.
fn megabits(text: &str) -> Option<f64> {
    let begin = text.find(|c: char| c.is_ascii_digit())?;
    let digits = text[begin..].find(|c: char| !c.is_ascii_digit())?;
    let n: f64 = text[begin..begin + digits].parse().ok()?;
    let unit = text[begin + digits..].trim_start();
    let n = match () {
        () if unit.starts_with("Mb") => n,
        () if unit.starts_with("Gb") => n * 1e3,
        () => return None,
    };
    MEGABITS.contains(&n).then_some(n)
}

/// The counters of a text.
pub(super) fn read(lines: &[&str]) -> Option<Artefact> {
    let mut found = artefact("counters of network devices", 0);
    let mut device = "";
    let mut head: Vec<&str> = Vec::new();
    let mut listed = false;
    for (number, line) in (1_u32..).zip(lines) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let numbers = |words: &[&str]| words.iter().all(|w| w.parse::<f64>().is_ok());
        device = named(line, &words).unwrap_or(device);
        match words.as_slice() {
            // `RX: bytes packets errors dropped`, and the numbers below it.
            [way @ ("RX:" | "TX:"), "bytes", ..] => {
                head.clone_from(&words);
                head[0] = way.trim_end_matches(':');
                continue;
            }
            [_, ..] if numbers(&words) && head.len() > words.len() => {
                for (name, n) in head[1..].iter().zip(&words) {
                    let name = format!("{} {name}", head[0]);
                    counter(&mut found, number, device, &name, n);
                }
            }
            ["RX" | "TX", _, ..] => {
                let parts = pieces(line);
                for pair in parts[1..].windows(2).filter(|p| value(p[0].text).is_none()) {
                    let name = format!("{} {}", words[0], pair[0].text);
                    counter(&mut found, number, device, &name, pair[1].text);
                }
            }
            ["NIC", "statistics:"] => listed = true,
            [name, n] if listed && name.ends_with(':') => {
                counter(&mut found, number, device, name.trim_end_matches(':'), n);
            }
            [_, _, ..] => listed = false,
            _ => {}
        }
        head.clear();
    }
    found.largest_first();
    told(found)
}

/// `2: eth0: <BROADCAST`, `eth0: flags=4163<UP`, `eth0      Link encap:Ethernet`.
fn named<'a>(line: &str, words: &[&'a str]) -> Option<&'a str> {
    let name = match words {
        [n, name, flags, ..] if flags.starts_with('<') && n.ends_with(':') => name,
        [name, ..] if line.contains(" flags=") || line.contains("Link encap:") => name,
        _ => return None,
    };
    Some(name.trim_end_matches(':'))
}

fn counter(found: &mut Artefact, line: u32, device: &str, name: &str, text: &str) {
    let Ok(n) = text.parse::<f64>() else { return };
    found.begin_at(line);
    found.figures.entry("devices.rows".into()).or_insert(0.0);
    found.figures.entry("devices.lost".into()).or_insert(0.0);
    let lost = LOST
        .iter()
        .any(|part| name.to_ascii_lowercase().contains(part));
    if !lost || n <= 0.0 {
        return;
    }
    found.add("devices.rows", 1.0);
    found.add("devices.lost", n);
    found.largest("devices.most", n);
    found.rows.push(Row {
        label: format!("{device} {name}").trim_start().to_owned(),
        place: text.to_owned(),
        share: n,
    });
}
