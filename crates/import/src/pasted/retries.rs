//! Requests that a proxy sent to a second upstream because the first one failed, by its access log.
//!
//! nginx writes what it tried as lists of one length: `10.0.0.1:80, 10.0.0.2:80 0, 5 2.997, 0.002 502, 200`, each
//! in its own variable, which a format may name (`upstream_addr="..."`, JSON). All but the last of a list failed.

use super::events::artefact;
use super::requests;
use record::pasted::{Artefact, Row};

/// All of a text.
pub(super) fn read(lines: &[&str]) -> Option<Artefact> {
    let mut found = artefact("requests that were sent again", 0);
    let (mut lost, mut took) = (0.0, 0.0);
    for (number, line) in (1_u32..).zip(lines) {
        let Some(tried) = tried(line) else { continue };
        found.begin_at(number);
        found.add("retried.requests", 1.0);
        let served = tried
            .statuses
            .last()
            .is_some_and(|s| (100..500).contains(s));
        found.add("retried.served", f64::from(u8::from(served)));
        let (last, first) = tried.times.split_last().unwrap_or((&0.0, &[]));
        let failed: f64 = first.iter().sum();
        (lost, took) = (lost + failed, took + failed + last);
        found.largest("retried.lost_max_s", failed);
        for (address, status) in tried.addresses.iter().zip(&tried.statuses).rev().skip(1) {
            found.rows.push(Row {
                label: (*address).to_owned(),
                place: match status {
                    0 => "without a response".to_owned(),
                    status => format!("with status {status}"),
                },
                share: 1.0,
            });
        }
    }
    if found.line == 0 {
        return None;
    }
    let logged = |line: &&&str| {
        line.contains(" HTTP/") && !line.contains(" request: \"")
            || requests::read_line(line).is_some()
    };
    let all = lines.iter().filter(logged).count() as f64;
    let share = if took > 0.0 { lost / took } else { 0.0 };
    for (name, n) in [("of", all), ("lost_share", share)] {
        found.figures.insert(format!("retried.{name}"), n);
    }
    found.settle();
    Some(found)
}

/// What one request was sent to, in order.
struct Tried<'a> {
    addresses: Vec<&'a str>,
    times: Vec<f64>,
    statuses: Vec<u16>,
}

fn tried(line: &str) -> Option<Tried<'_>> {
    if !line.contains(", ") {
        return None;
    }
    let lists = lists(line);
    let at = lists
        .iter()
        .position(|l| l.len() >= 2 && l.iter().all(|w| is_address(w)))?;
    let addresses = lists[at].clone();
    // A request that got no response has a dash.
    let as_long = || lists.iter().filter(|l| l.len() == addresses.len());
    let number = |w: &&str| match *w {
        "-" => Some(0.0),
        w => w.parse::<f64>().ok(),
    };
    let timed =
        |l: &&Vec<&str>| l.iter().any(|w| w.contains('.')) && l.iter().all(|w| number(w).is_some());
    let times = as_long().rfind(timed)?.iter().filter_map(number).collect();
    let status = |w: &&str| match *w {
        "-" | "0" => Some(0),
        w => w
            .parse()
            .ok()
            .filter(|s| w.len() == 3 && (100..600).contains(s)),
    };
    let coded = |l: &&Vec<&str>| {
        l.iter().any(|w| status(w).is_some_and(|s| s > 0)) && l.iter().all(|w| status(w).is_some())
    };
    let statuses = as_long().rfind(coded)?.iter().filter_map(status).collect();
    Some(Tried {
        addresses,
        times,
        statuses,
    })
}

/// Words that commas join, without their names and quotes.
fn lists(line: &str) -> Vec<Vec<&str>> {
    let mut done: Vec<Vec<&str>> = Vec::new();
    let mut goes_on = false;
    for word in line.split_whitespace() {
        // JSON without spaces has the next name right behind a value.
        let mut parts = word.split("\",\"").peekable();
        while let Some(part) = parts.next() {
            let joins = parts.peek().is_none() && part.ends_with(',') && !part.ends_with("\",");
            let bare = part.trim_matches([',', '"', '{', '}', '\'', ']', '[', ';']);
            let bare = bare.rsplit(['=', '"']).next().unwrap_or(bare);
            match done.last_mut().filter(|_| goes_on) {
                Some(open) => open.push(bare),
                None => done.push(vec![bare]),
            }
            goes_on = joins;
        }
    }
    done
}

/// `10.0.0.1:80`, `[::1]:80`, `unix:/run/app.sock`.
fn is_address(word: &str) -> bool {
    let port = word
        .rsplit_once(':')
        .map(|(_, port)| port.parse::<u16>().is_ok());
    word.starts_with("unix:")
        || port == Some(true) && word.matches('.').count() == 3
        || word.contains("]:")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_each_format_are_read() {
        for line in [
            "1.1.1.1 - - \"GET / HTTP/1.1\" 200 5 \"-\" \"-\" 10 2.999 [a-80] [] 10.0.0.1:80, 10.0.0.2:80 0, 5 2.997, 0.002 502, 200 id",
            "\"GET / HTTP/1.1\" 200 5 upstream_addr=\"10.0.0.1:80, 10.0.0.2:80\" rt=3.0 urt=\"2.997, 0.002\" us=\"502, 200\"",
            "{\"status\":\"200\",\"upstream_addr\":\"10.0.0.1:80, 10.0.0.2:80\",\"upstream_status\":\"502, 200\",\"upstream_response_time\":\"2.997, 0.002\"}",
            "{\"status\":\"200\",\"upstream_addr\":\"10.0.0.1:80, 10.0.0.2:80\", \"upstream_response_time\":\"2.997, 0.002\", \"upstream_status\":\"502, 200\"}",
        ] {
            let found = read(&[line]).expect(line);
            assert_eq!(found.rows[0].label, "10.0.0.1:80", "{line}");
            assert_eq!(found.value("retried.lost_max_s"), Some(2.997), "{line}");
            assert_eq!(found.value("retried.served"), Some(1.0), "{line}");
        }
        assert!(
            read(&["\"GET /a HTTP/1.1\" 200 5 \"-\" \"Mozilla (X11, Linux)\" 0.1 0.1"]).is_none()
        );
    }
}
