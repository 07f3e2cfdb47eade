//! Probes of a path, of names and of a scaler: ping, mtr, traceroute, iperf3, dig, `kubectl get hpa`.
//!
//! Each says one thing in a line or two. The surprise of ping is its locale: its times have a decimal comma there. That
//! of mtr is a router that answers few probes and forwards all: only what is lost up to the last hop is lost.

use super::events::{artefact, told};
use super::pieces::{pieces, short, value};
use record::pasted::{Artefact, Row};

/// All of them in a text.
pub(super) fn read(lines: &[&str]) -> Vec<Artefact> {
    let mut done = Vec::new();
    done.extend(pings(lines));
    done.extend(mtr(lines));
    done.extend(way(lines));
    done.extend(iperf(lines));
    done.extend(names(lines));
    done.extend(scaler(lines));
    done
}

/// What ping sums up; without that, or for the slowest, its lines.
fn pings(lines: &[&str]) -> Option<Artefact> {
    let echoes = echoes(lines);
    let Some(mut found) = ping(lines) else {
        return echoes;
    };
    let of = |name: &str| echoes.as_ref().and_then(|a| a.value(name));
    // Several hosts in one text are several summaries.
    if let (Some(theirs), Some(ours)) = (of("ping.max_ms"), found.value("ping.max_ms"))
        && theirs >= SUMMED * ours
    {
        for name in ["ping.rows", "ping.near"] {
            found.figures.extend(of(name).map(|n| (name.to_owned(), n)));
        }
        found.rows = echoes.map(|a| a.rows).unwrap_or_default();
    }
    Some(found)
}

/// traceroute: ` 5  edge.example (203.0.113.1)  182.1 ms  181.9 ms  182.3 ms`; a hop's time is its shortest, and a step
/// is what it has more than all before it.
fn way(lines: &[&str]) -> Option<Artefact> {
    let mut found = artefact("traceroute", 0);
    let (mut hops, mut longest, mut step) = (0_u32, 0.0_f64, 0.0);
    for (number, line) in (1_u32..).zip(lines) {
        let words: Vec<&str> = line.split_whitespace().collect();
        // `10 % in 0.92 ms` is a generator's percentile: a hop has a name with a point, or an address.
        let of_a_way = || {
            let host = |w: &&str| {
                w.contains(['.', ':', '(']) && w.trim_start_matches('<').parse::<f64>().is_err()
            };
            !line.contains('%') && words[1..].iter().any(host)
        };
        let hop = words
            .first()
            .and_then(|w| w.parse::<u32>().ok())
            .filter(|_| of_a_way());
        // Windows has its times before the name of the hop.
        let times = words.windows(2).filter(|w| w[1] == "ms");
        let times = times.filter_map(|w| w[0].trim_start_matches('<').parse::<f64>().ok());
        let least = times.reduce(f64::min);
        let (Some(hop), Some(least)) = (hop.filter(|h| *h > hops && *h <= 64), least) else {
            continue;
        };
        hops = hop;
        let name = words[1..]
            .iter()
            .rfind(|w| w.starts_with(|c: char| c.is_ascii_alphabetic() || c == '(') && **w != "ms");
        let name = name.or_else(|| words[1..].iter().rfind(|w| w.contains(['.', ':'])));
        found.begin_at(number);
        found.add("way.hops", 1.0);
        found.figures.insert("way.last_ms".into(), least);
        if least - longest > step {
            step = least - longest;
            let row = Row::new(name.unwrap_or(&"*").trim_matches(['(', ')']), step);
            found.rows = vec![row];
        }
        longest = longest.max(least);
    }
    found.figures.insert("way.step_ms".into(), step);
    found.figures.insert("way.rows".into(), 1.0);
    told(found).filter(|a| a.value("way.hops").is_some_and(|n| n >= 2.0))
}

/// `... 10 received, 20% packet loss, time 9ms` and `rtt min/avg/max/mdev = 0.045/1.050/9.1/0.7 ms`; of Windows
/// `Lost = 9 (9% loss)` and `Minimum = 1ms, Maximum = 251ms, Average = 31ms`.
fn ping(lines: &[&str]) -> Option<Artefact> {
    let mut found = artefact("ping", 0);
    let mut put = |number: u32, figures: &[(&str, f64)]| {
        found.begin_at(number);
        for (name, n) in figures {
            found.largest(&format!("ping.{name}"), *n);
        }
    };
    for (number, line) in (1_u32..).zip(lines) {
        let lost = line
            .split_once("% packet loss")
            .or_else(|| line.split_once("% loss)"));
        let lost = lost.and_then(|(before, _)| before.rsplit([' ', '(']).next().and_then(value));
        if let Some(lost) = lost {
            put(number, &[("lost_percent", lost)]);
        }
        let times = [
            "min/avg/max/mdev = ",
            "min/avg/max/stddev = ",
            "min/avg/max = ",
        ];
        let rest = times.iter().find_map(|t| line.split_once(t)).map(|t| t.1);
        let times: Option<Vec<f64>> = match rest.and_then(|r| r.split_whitespace().next()) {
            Some(words) => words.split('/').map(milliseconds).collect(),
            None => windows(line),
        };
        if let Some([least, mean, most, ..]) = times.as_deref() {
            put(
                number,
                &[("min_ms", *least), ("mean_ms", *mean), ("max_ms", *most)],
            );
        }
    }
    told(found)
}

/// The shortest, the mean and the longest time as Windows prints them.
fn windows(line: &str) -> Option<Vec<f64>> {
    let of = |name: &str| {
        let (_, rest) = line.split_once(name)?;
        rest.split("ms").next()?.trim().parse::<f64>().ok()
    };
    Some(vec![
        of("Minimum = ")?,
        of("Average = ")?,
        of("Maximum = ")?,
    ])
}

/// The slowest line is that of the summary, which may be rounded.
const SUMMED: f64 = 0.99;
/// Lines of ping in the place of an answer: of Windows, and of Linux with `-O`.
const SILENT: [&str; 3] = [
    "Request timed out.",
    "Destination host unreachable",
    "no answer yet for icmp_seq",
];

/// `64 bytes from 10.0.0.5: icmp_seq=2 ttl=64 time=203 ms`, where the end of ping is cut off; a gap in the numbers is
/// what was lost, or a line that says so.
fn echoes(lines: &[&str]) -> Option<Artefact> {
    let mut found = artefact("ping", 0);
    let mut all = Vec::new();
    let mut numbers: Vec<f64> = Vec::new();
    let (mut sent, mut silent) = (0.0, Vec::new());
    for (number, line) in (1_u32..).zip(lines) {
        // A page that translates puts blanks around the sign.
        let line = &line.replace(" = ", "=");
        let behind = |name: &str| {
            let (_, rest) = line.split_once(name)?;
            let end = rest.find(|c: char| !(c.is_ascii_digit() || ".,".contains(c)));
            milliseconds(&rest[..end.unwrap_or(rest.len())])
        };
        if SILENT.iter().any(|s| line.contains(s)) {
            silent.push(sent);
            sent += 1.0;
            continue;
        }
        let windows = line.contains(" TTL=");
        let echo = line.contains("bytes from ") || line.starts_with("Reply from ") || windows;
        let took = behind("time=").or_else(|| behind("time<"));
        let took = took.or_else(|| in_any_words(line).filter(|_| windows));
        let Some(took) = took.filter(|_| echo) else {
            continue;
        };
        found.begin_at(number);
        sent += 1.0;
        let near = f64::from(u8::from(line.split([' ', ':', '(', ')']).any(is_near)));
        found.figures.insert("ping.near".into(), near);
        if all.iter().all(|t| took > *t) {
            found.rows = vec![Row::new(short(line), took)];
            found.figures.insert("ping.rows".into(), 1.0);
        }
        all.push(took);
        numbers.extend(behind("icmp_seq=").or_else(|| behind("seq=")));
    }
    let mean = all.iter().sum::<f64>() / all.len() as f64;
    for took in &all {
        found.smallest("ping.min_ms", *took);
        found.largest("ping.max_ms", *took);
        found.largest("ping.mean_ms", mean);
    }
    if !silent.is_empty() {
        unanswered(&mut found, &silent, sent);
    } else if let (true, Some([first, .., last])) = (numbers.is_sorted(), Some(numbers.as_slice()))
    {
        let sent = last - first + 1.0;
        let lost = (sent - numbers.len() as f64).max(0.0) / sent;
        found
            .figures
            .insert("ping.lost_percent".into(), lost * 100.0);
    }
    told(found)
}

/// `Zeit=2ms`, `temps<1 ms`: the time of Windows in any language.
fn in_any_words(line: &str) -> Option<f64> {
    line.match_indices(['=', '<']).find_map(|(at, _)| {
        let rest = &line[at + 1..];
        let end = rest.find(|c: char| !(c.is_ascii_digit() || ".,".contains(c)))?;
        let unit = rest[end..].trim_start();
        let n = milliseconds(&rest[..end])?;
        (unit.starts_with("ms") || unit.starts_with("\u{43c}\u{441}")).then_some(n)
    })
}

/// Whether a word is an address of a network of one's own (RFC 1918).
fn is_near(word: &str) -> bool {
    word.parse::<std::net::Ipv4Addr>()
        .is_ok_and(|address| address.is_private())
}

/// How many got no answer, and whether they stand at even distances: then something comes again and again.
fn unanswered(found: &mut Artefact, silent: &[f64], sent: f64) {
    let lost = silent.len() as f64;
    for (name, n) in [
        ("lost_percent", lost / sent * 100.0),
        ("unanswered", lost),
        ("sent", sent),
    ] {
        found.figures.insert(format!("ping.{name}"), n);
    }
    let gaps: Vec<f64> = silent.windows(2).map(|w| w[1] - w[0]).collect();
    let most = gaps.iter().copied().fold(0.0, f64::max);
    let least = gaps.iter().copied().fold(f64::INFINITY, f64::min);
    let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
    if gaps.len() >= 2 && least >= 3.0 && most - least <= 1.0 {
        found.figures.insert("ping.every".into(), mean);
    }
}

/// A time of ping: it groups no digits, so that a comma is its decimal comma.
fn milliseconds(text: &str) -> Option<f64> {
    text.replace(',', ".").parse().ok()
}

/// `  3.|-- api.example  7.0%  100  21.4  22.5  20.3  92.1  9.2`: hop, loss, sent, last, mean, best, worst, deviation.
fn mtr(lines: &[&str]) -> Option<Artefact> {
    let mut found = artefact("mtr", 0);
    let mut hops: Vec<(String, f64, Vec<f64>)> = Vec::new();
    for (number, line) in (1_u32..).zip(lines) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let hop = |w: &str| {
            let n = w.trim_end_matches("|--").strip_suffix('.')?;
            n.parse::<u8>().ok()
        };
        // All lost is printed without the sign.
        let sign = |w: &str| w.ends_with('%') || w == "100.0";
        let Some(at) = words.iter().position(|w| sign(w)) else {
            continue;
        };
        let (Some(true), Some(lost)) = (
            words.first().map(|w| hop(w).is_some()),
            milliseconds(words[at].trim_end_matches('%')),
        ) else {
            continue;
        };
        let numbers: Option<Vec<f64>> = words[at + 1..].iter().map(|w| milliseconds(w)).collect();
        let Some(numbers) = numbers.filter(|n| n.len() >= 6 && at >= 2) else {
            continue;
        };
        // A report that begins again is the next one's.
        if hop(words[0]) == Some(1) {
            hops.clear();
        }
        found.begin_at(number);
        hops.push((words[1..at].join(" "), lost, numbers));
    }
    let (name, lost, times) = hops.last()?;
    let between = &hops[..hops.len() - 1];
    let between = between.iter().map(|(_, lost, _)| *lost).fold(0.0, f64::max);
    // From where on all hops lose.
    let kept = hops.iter().rposition(|(_, lost, _)| *lost < 1.0);
    let from = hops.get(kept.map_or(0, |at| at + 1));
    let from = match (from, kept) {
        (Some((name, ..)), Some(at)) if name.contains("???") => format!("behind `{}`", hops[at].0),
        (Some((name, ..)), _) => format!("from `{name}` on"),
        (None, _) => String::new(),
    };
    let figures = [
        ("hops", hops.len() as f64),
        ("lost_percent", *lost),
        ("between_percent", between),
        ("mean_ms", times[2]),
        ("worst_ms", times[4]),
    ];
    for (figure, n) in figures {
        found.figures.insert(format!("mtr.{figure}"), n);
    }
    found.rows.push(Row {
        label: name.clone(),
        place: from,
        share: *lost,
    });
    told(found)
}

/// `[  5] 0.00-10.00 sec 112 MBytes 94.1 Mbits/sec 1834 sender`, and for datagrams `0.012 ms 43210/864200 (5%)`.
/// The receiver's line over the longest time is the result, the sender's has what was sent again.
fn iperf(lines: &[&str]) -> Option<Artefact> {
    let mut found = artefact("iperf3", 0);
    // How much a line counts, and its rate.
    let mut best: Option<(f64, f64)> = None;
    for (number, line) in (1_u32..).zip(lines) {
        let words: Vec<&str> = line
            .split(|c: char| c.is_whitespace() || "[]".contains(c))
            .filter(|w| !w.is_empty())
            .collect();
        let rate = words.windows(2).enumerate().find_map(|(at, pair)| {
            let factor = match pair[1] {
                "bits/sec" => 1.0,
                "Kbits/sec" => 1e3,
                "Mbits/sec" => 1e6,
                "Gbits/sec" => 1e9,
                _ => return None,
            };
            Some((at, pair[0].parse::<f64>().ok()? * factor))
        });
        let range = words.iter().find_map(|w| {
            let (from, to) = w.split_once('-')?;
            Some(to.parse::<f64>().ok()? - from.parse::<f64>().ok()?)
        });
        let (Some((at, rate)), Some(range)) = (rate, range) else {
            continue;
        };
        found.begin_at(number);
        found.smallest("iperf.slowest_bits_per_s", rate);
        found.largest("iperf.fastest_bits_per_s", rate);
        if range <= 1.5 && !words.contains(&"SUM") {
            found.add("iperf.intervals", 1.0);
            found.add("iperf.standing", f64::from(u8::from(rate <= 0.0)));
        }
        let sum = f64::from(u8::from(words.contains(&"SUM")));
        let received = f64::from(u8::from(words.contains(&"receiver")));
        let weight = sum * 1e6 + range + received;
        let rest = &words[at + 2..];
        // Behind the rate of TCP stands what was sent again; an interval's is a part of the sender's.
        // A bare number is that of datagrams.
        let of_tcp = match rest {
            [_, "sender", ..] => true,
            [_, _, unit, ..] => unit.ends_with("Bytes"),
            _ => false,
        };
        let again = rest.first().and_then(|w| w.parse::<f64>().ok());
        if let Some(n) = again.filter(|_| of_tcp) {
            found.largest("iperf.sent_again", n);
            found.add("iperf.again_in_all", n);
        }
        let lost = rest
            .iter()
            .find_map(|w| w.strip_prefix('(')?.strip_suffix("%)")?.parse::<f64>().ok());
        if best.is_none_or(|(held, _)| weight >= held) {
            best = Some((weight, rate));
            found.figures.insert("iperf.seconds".into(), range);
            if let Some(percent) = lost {
                found.figures.insert("iperf.lost_percent".into(), percent);
            }
        }
    }
    let (_, rate) = best?;
    found.figures.insert("iperf.bits_per_s".into(), rate);
    // What TCP reaches on a link of so many bits a second, Ethernet's and its own heads taken off.
    let links = [1e8, 1e9, 2.5e9, 1e10, 2.5e10, 4e10, 1e11];
    let link = links
        .iter()
        .find(|link| (0.9..=0.975).contains(&(rate / **link)));
    if let Some(link) = link {
        found.figures.insert("iperf.link_bits_per_s".into(), *link);
    }
    told(found)
}

/// Statuses of a name server's response, and our figures.
const STATUSES: [(&str, &str); 4] = [
    ("SERVFAIL", "names.servfail"),
    ("NXDOMAIN", "names.missing"),
    ("REFUSED", "names.refused"),
    ("NOERROR", "names.fine"),
];
/// Rows of dig: what failed, then the slowest query, then whom it asked.
const FAILED: f64 = 1.0;
const SLOWEST: f64 = 0.7;
const ASKED: f64 = 0.5;
/// What resolvers' tools say when no response came.
const NO_RESPONSE: [&str; 3] = [
    "no servers could be reached",
    "communications error to",
    "no response from ",
];

/// `;; Query time: 2412 msec` and `status: SERVFAIL` of dig and drill, and what nslookup and host say.
fn names(lines: &[&str]) -> Option<Artefact> {
    let mut found = artefact("dig", 0);
    for (number, line) in (1_u32..).zip(lines) {
        if let Some((_, rest)) = line.split_once("Query time:") {
            let n = pieces(rest).first().and_then(|p| value(p.text));
            let unit = if rest.contains("usec") { 1e-3 } else { 1.0 };
            if let Some(ms) = n {
                found.begin_at(number);
                found.add("names.asked", 1.0);
                let slower = found
                    .value("names.query_ms")
                    .is_none_or(|held| ms * unit > held);
                if slower {
                    found.rows.retain(|r| r.share != SLOWEST);
                    let label = short(line.trim_start_matches([';', ' ']));
                    found.rows.push(Row::new(label, SLOWEST));
                }
                found.largest("names.query_ms", ms * unit);
            }
        }
        let answered = line.contains("->>HEADER<<-")
            || line.contains("** server can't find")
            || line.starts_with("Host ") && line.contains(" not found: ")
            || line.contains("Got SERVFAIL reply");
        let status = STATUSES
            .iter()
            .find(|(word, _)| answered && line.contains(word));
        let silent = line.starts_with(";;") && NO_RESPONSE.iter().any(|w| line.contains(w));
        let name = status
            .map(|(_, name)| *name)
            .or(silent.then_some("names.silent"));
        if let Some(name) = name {
            found.begin_at(number);
            found.add(name, 1.0);
            if name != "names.fine" {
                found
                    .rows
                    .push(Row::new(short(line.trim_start_matches([';', ' '])), FAILED));
            }
        } else if let Some(server) = line.split_once(";; SERVER: ").map(|(_, s)| s) {
            let server = server.split(['#', '(', ' ']).next().unwrap_or_default();
            found.begin_at(number);
            found.figures.entry("names.asked".into()).or_insert(1.0);
            found
                .rows
                .push(Row::new(format!("SERVER: {server}"), ASKED));
        }
    }
    found.largest_first();
    told(found)
}

/// `web  Deployment/web  250%/80%  2  10  10  5d` and `cpu: 250%/80%, memory: 950m/500m`: used of what is wanted, the
/// least, the most, now. `kubectl describe hpa` says the same a line each.
fn scaler(lines: &[&str]) -> Option<Artefact> {
    let mut found = artefact("kubectl get hpa", 0);
    for (number, line) in (1_u32..).zip(lines) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let targets: Vec<(usize, Option<f64>)> = words
            .iter()
            .enumerate()
            .filter_map(|(at, w)| Some((at, target(w.trim_end_matches(','))?)))
            .collect();
        let Some((last, _)) = targets.last() else {
            continue;
        };
        let numbers: Vec<f64> = words[last + 1..]
            .iter()
            .map_while(|w| w.parse().ok())
            .collect();
        let [_, most, now] = numbers.as_slice() else {
            continue;
        };
        found.begin_at(number);
        scaled(&mut found, &targets, *most, *now, line);
    }
    found.largest_first();
    told(found).or_else(|| described(lines))
}

fn scaled(found: &mut Artefact, targets: &[(usize, Option<f64>)], most: f64, now: f64, line: &str) {
    let used = targets.iter().filter_map(|t| t.1).reduce(f64::max);
    match used {
        Some(used) => {
            let full = used > 1.0 && now >= most;
            found.largest("hpa.used_of_target", used);
            found.largest("hpa.full", f64::from(u8::from(full)));
        }
        None => found.add("hpa.unknown", 1.0),
    }
    found.rows.push(Row::new(short(line), used.unwrap_or(0.0)));
}

/// Used of what is wanted: `95%/80%`, `950m/500m`, `1500/1k`; nothing where it is `<unknown>/50%`.
fn target(word: &str) -> Option<Option<f64>> {
    let (used, wanted) = word.split_once('/')?;
    let wanted = quantity(wanted).filter(|n| *n > 0.0)?;
    match used {
        "<unknown>" => Some(None),
        used => Some(Some(quantity(used)? / wanted)),
    }
}

/// A quantity of Kubernetes: `95%`, `950m`, `1k`, `12Mi`, `3`.
fn quantity(text: &str) -> Option<f64> {
    match text.strip_suffix('m') {
        Some(thousandths) => thousandths.parse::<f64>().ok().map(|n| n / 1e3),
        None => value(text),
    }
}

/// `resource cpu on pods (as a percentage of request): 180% (180m) / 50%`, `Max replicas: 10`, `pods: 10 current`.
fn described(lines: &[&str]) -> Option<Artefact> {
    let mut found = artefact("kubectl get hpa", 0);
    let (mut targets, mut most, mut now) = (Vec::new(), None, None);
    for (number, line) in (1_u32..).zip(lines) {
        let text = line.trim();
        let first = |rest: &str| rest.split_whitespace().next().and_then(quantity);
        if let Some((name, rest)) = text.rsplit_once(": ")
            && let Some((used, wanted)) = rest.split_once(" / ")
            && name.starts_with("resource ")
            && let Some(wanted) = first(wanted).filter(|n| *n > 0.0)
        {
            found.begin_at(number);
            targets.push((0, first(used).map(|used| used / wanted)));
        } else if let Some(rest) = text.strip_prefix("Max replicas:") {
            most = first(rest);
        } else if let Some((_, rest)) = text.split_once(" pods:")
            && rest.contains(" current")
        {
            now = first(rest);
        }
    }
    scaled(&mut found, &targets, most?, now?, "kubectl describe hpa");
    told(found)
}
