//! Probes of a path and of a scaler: the end of `ping`, `kubectl get hpa`.
//!
//! Both say one thing in one line. The surprise is ping's locale: its times have a decimal comma there.

use super::events::{artefact, told};
use super::pieces::{short, value};
use record::pasted::{Artefact, Row};

/// All of them in a text.
pub(super) fn read(lines: &[&str]) -> Vec<Artefact> {
    let mut done = Vec::new();
    done.extend(ping(lines));
    done.extend(scaler(lines));
    done
}

/// `... 10 received, 20% packet loss, time 9ms` and `rtt min/avg/max/mdev = 0.045/1.050/9.1/0.7 ms`.
fn ping(lines: &[&str]) -> Option<Artefact> {
    let mut found = artefact("ping", 0);
    for (number, line) in (1_u32..).zip(lines) {
        if let Some((before, _)) = line.split_once("% packet loss") {
            let lost = before.rsplit([' ', '(']).next().and_then(value);
            if let Some(lost) = lost {
                found.begin_at(number);
                found.largest("ping.lost_percent", lost);
            }
        }
        let times = [
            "min/avg/max/mdev = ",
            "min/avg/max/stddev = ",
            "min/avg/max = ",
        ];
        let rest = times.iter().find_map(|t| line.split_once(t)).map(|t| t.1);
        let Some(words) = rest.and_then(|r| r.split_whitespace().next()) else {
            continue;
        };
        let times: Option<Vec<f64>> = words.split('/').map(milliseconds).collect();
        if let Some([least, mean, most, ..]) = times.as_deref() {
            found.begin_at(number);
            found.largest("ping.min_ms", *least);
            found.largest("ping.mean_ms", *mean);
            found.largest("ping.max_ms", *most);
        }
    }
    told(found)
}

/// A time of ping: it groups no digits, so that a comma is its decimal comma.
fn milliseconds(text: &str) -> Option<f64> {
    text.replace(',', ".").parse().ok()
}

/// `web  Deployment/web  250%/80%  2  10  10  5d` and `cpu: 250%/80%`: used of what is wanted, least, most, now.
fn scaler(lines: &[&str]) -> Option<Artefact> {
    let mut found = artefact("kubectl get hpa", 0);
    for (number, line) in (1_u32..).zip(lines) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let shares = |w: &str| {
            let (used, wanted) = w.trim_end_matches(',').split_once("%/")?;
            Some((
                used.parse::<f64>().ok()?,
                wanted.strip_suffix('%')?.parse::<f64>().ok()?,
            ))
        };
        let Some(at) = words.iter().position(|w| shares(w).is_some()) else {
            continue;
        };
        let Some((used, wanted)) = shares(words[at]).filter(|(_, wanted)| *wanted > 0.0) else {
            continue;
        };
        let numbers: Vec<f64> = words[at + 1..]
            .iter()
            .map_while(|w| w.parse().ok())
            .collect();
        let [_, most, now] = numbers.as_slice() else {
            continue;
        };
        found.begin_at(number);
        let full = used > wanted && now >= most;
        found.largest("hpa.used_of_target", used / wanted);
        found.largest("hpa.full", f64::from(u8::from(full)));
        found.rows.push(Row::new(short(line), used / wanted));
    }
    found.largest_first();
    told(found)
}
