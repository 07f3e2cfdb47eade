//! The times of a request, as `curl -w` prints them: in curl's words (`time_connect`), in a person's (`TTFB: 0.2s`),
//! or bare where the command with its format (`%{time_connect}`) stands in the text.
//!
//! A person's words mean something only together, so that three of them are needed. Each run is an artefact of its own;
//! a name that comes again begins the next one.

use super::events::{artefact, told};
use super::pieces::{by_sixties, parts, seconds, short};
use crate::text::{bytes, number};
use record::pasted::{Artefact, Row};

/// Lines that lie between two times of a run at most.
const LINES: u32 = 9;
/// Fewer of a person's words are no run.
const FEWEST: usize = 3;

/// Names of a phase, without `time_`, spaces, dashes and underscores.
#[rustfmt::skip]
const PHASES: [(&str, &[&str]); 5] = [
    ("curl.lookup_s", &["namelookup", "dnslookup", "dns", "lookup", "resolve", "nameresolution"]),
    ("curl.connect_s", &["connect", "tcpconnect", "tcpconnection", "connection", "establishconnection", "tcphandshake"]),
    ("curl.tls_s", &["appconnect", "tls", "ssl", "handshake", "tlshandshake", "sslhandshake"]),
    ("curl.first_byte_s", &["starttransfer", "ttfb", "firstbyte", "timetofirstbyte"]),
    ("curl.total_s", &["total", "totaltime"]),
];

struct Run {
    artefact: Artefact,
    /// Whether a name was curl's own.
    own: bool,
    /// Whether a name was that of a phase by itself, and its time no sum of those before it.
    apart: bool,
    last: u32,
}

/// Which time of a run, in which words, how many seconds.
struct Phase {
    name: &'static str,
    own: bool,
    apart: bool,
    took: f64,
}

/// All runs of a text, in order.
pub(super) fn read(lines: &[&str]) -> Vec<Artefact> {
    let mut done = Vec::new();
    let mut open: Option<Run> = None;
    for (number, line) in (1_u32..).zip(lines) {
        for phase in phases(line) {
            let mut run = match open.take() {
                Some(run) if run.goes_on(phase.name, number) => run,
                other => {
                    done.extend(other.and_then(Run::finished));
                    Run::begun(number)
                }
            };
            let figures = &mut run.artefact.figures;
            figures.insert(phase.name.to_owned(), phase.took);
            run.own |= phase.own;
            run.apart |= phase.apart;
            run.last = number;
            open = Some(run);
        }
    }
    done.extend(open.and_then(Run::finished));
    if done.is_empty() {
        done = bare(lines);
    }
    let posts =
        |line: &&&str| line.contains("curl ") && POSTS.iter().any(|flag| line.contains(flag));
    if lines.iter().find(posts).is_some() {
        for run in &mut done {
            run.figures.insert("curl.posted".into(), 1.0);
        }
    }
    done
}

/// curl's meter of a transfer: `100 23.0M  100 23.0M    0     0  2858k      0  0:00:08  0:00:08 --:--:-- 2945k`, of
/// each command its last line. Its units are powers of 1024; the rate is the mean of all of the transfer.
pub(super) fn meters(lines: &[&str]) -> Vec<Artefact> {
    let mut done: Vec<Artefact> = Vec::new();
    let (mut command, mut fresh) = ("", true);
    for (number, line) in (1_u32..).zip(lines) {
        if line.contains("curl ") {
            (command, fresh) = (line.trim(), true);
        } else if line.contains("% Total") && line.contains("% Received") {
            fresh = true;
        }
        // A terminal shows one line for all that it wrote over another.
        let Some((bytes, per_s, took)) = line.rsplit('\r').find_map(meter) else {
            continue;
        };
        if fresh {
            done.push(artefact("curl's meter", number));
        }
        fresh = false;
        let Some(open) = done.last_mut() else {
            continue;
        };
        for (name, n) in [("bytes", bytes), ("per_s", per_s), ("s", took)] {
            open.figures.insert(format!("meter.{name}"), n);
        }
        let label = command.trim_start_matches(['$', '#', '%', ' ']);
        let label = label.strip_prefix("time ").unwrap_or(label);
        let words: Vec<&str> = line.split_whitespace().collect();
        open.rows = vec![Row {
            label: short(label),
            place: format!("{} at {} a second, {took:.0} s", words[3], words[6]),
            share: per_s,
        }];
    }
    done
}

fn meter(line: &str) -> Option<(f64, f64, f64)> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [_, _, _, received, _, _, down, _, _, spent, _, _] = words.as_slice() else {
        return None;
    };
    let spent = by_sixties(spent).filter(|_| spent.contains(':'));
    let percents = [words[0], words[2], words[4]];
    let percents = percents
        .iter()
        .all(|p| p.parse::<u8>().is_ok_and(|n| n <= 100));
    let all = (in_1024(received)?, in_1024(down)?, spent?);
    (percents && all.1 > 0.0).then_some(all)
}

/// `2858k`, `21.1M`, `345`.
fn in_1024(text: &str) -> Option<f64> {
    let found = number(text).or_else(|| bytes(&text.to_ascii_uppercase()));
    found.map(|n| n.value)
}

/// Lines of `curl -v` about its connection, and their figures.
const CONNECTION: [(&str, &str); 10] = [
    ("left intact", "connection.kept"),
    ("Re-using existing", "connection.reused"),
    ("Reusing existing", "connection.reused"),
    ("seems to be dead", "connection.dead"),
    ("Connection died", "connection.dead"),
    ("Closing connection", "connection.closed"),
    ("SSL reusing session ID", "connection.resumed"),
    ("SSL session ID reuse", "connection.resumed"),
    ("Empty reply from server", "connection.empty"),
    ("Connection reset by peer", "connection.reset"),
];

/// What `curl -v` says of its connections: kept, used again, found dead, closed.
pub(super) fn connections(lines: &[&str]) -> Option<Artefact> {
    let mut found = artefact("curl -v", 0);
    for (number, line) in (1_u32..).zip(lines) {
        let Some(text) = line.trim_start().strip_prefix("* ") else {
            continue;
        };
        // What ends during the handshake had no request yet.
        let known = CONNECTION.iter().find(|(words, _)| text.contains(words));
        let Some((_, name)) = known.filter(|_| !text.contains("SSL_connect")) else {
            continue;
        };
        found.begin_at(number);
        found.add(name, 1.0);
        found.rows.push(Row {
            label: short(text),
            place: (*name).to_owned(),
            share: 1.0,
        });
    }
    for (_, name) in CONNECTION {
        found.figures.entry(name.to_owned()).or_insert(0.0);
    }
    // What was found dead or told to end before what was merely kept.
    let rank = |row: &Row| match row.place.as_str() {
        "connection.dead" | "connection.empty" | "connection.reset" => 0,
        "connection.closed" => 1,
        _ => 2,
    };
    found.rows.sort_by_key(rank);
    for row in &mut found.rows {
        row.place.clear();
    }
    told(found)
}

/// A body that `curl -v` announced (`Expect: 100-continue`) and sent without the server's word, after a
/// time of its own.
pub(super) fn announced(lines: &[&str]) -> Option<Artefact> {
    let mut found = artefact("announced body", 0);
    for (number, line) in (1_u32..).zip(lines) {
        let text = line.trim_start();
        // Its mark of what it sends is also that of what a mail quotes.
        let head = text.trim_start_matches("> ").to_ascii_lowercase();
        let announces = head.starts_with("expect:") && head.contains("100-continue");
        if announces {
            found.begin_at(number);
            found.add("announced.bodies", 1.0);
        }
        if text.starts_with("* Done waiting for 100-continue") {
            found.add("announced.in_vain", 1.0);
        }
    }
    told(found).filter(|a| a.value("announced.in_vain").is_some())
}

/// Flags with which curl sends a body.
const POSTS: [&str; 6] = [" -d ", " -d@", " --data", " -F ", " -T ", " --upload-file"];

/// Lines of numbers whose names are the format's, in its order.
fn bare(lines: &[&str]) -> Vec<Artefact> {
    let named = |line: &&str| -> Vec<Option<&'static str>> {
        let names = line.split("%{").skip(1).filter_map(|n| n.split_once('}'));
        names
            .map(|(name, _)| phase(name.strip_prefix("time_")?))
            .collect()
    };
    let columns: Vec<_> = lines.iter().flat_map(named).collect();
    if columns.iter().all(Option::is_none) {
        return Vec::new();
    }
    let run = |(line, text): (u32, &&str)| {
        // A comma stands between two numbers or inside of one, whichever makes as many as there are names.
        let split = |marks: &str| {
            let words = text.split(|c: char| c.is_whitespace() || marks.contains(c));
            let numbers: Option<Vec<f64>> = words.filter(|w| !w.is_empty()).map(time).collect();
            numbers.filter(|n| n.len() == columns.len())
        };
        let numbers = split(";").or_else(|| split(",;"))?;
        let mut found = artefact("curl -w", line);
        for (name, n) in columns.iter().zip(numbers) {
            if let Some(name) = name {
                found.figures.insert((*name).to_owned(), n);
            }
        }
        Some(found)
    };
    (1_u32..).zip(lines).filter_map(run).collect()
}

impl Run {
    fn begun(line: u32) -> Self {
        Self {
            artefact: artefact("curl -w", line),
            own: false,
            apart: false,
            last: line,
        }
    }

    fn goes_on(&self, phase: &str, line: u32) -> bool {
        self.artefact.value(phase).is_none() && line <= self.last + LINES
    }

    fn finished(mut self) -> Option<Artefact> {
        let enough = self.own || self.artefact.figures.len() >= FEWEST;
        let of = |name: &str| self.artefact.value(name).filter(|s| *s > 0.0);
        let (connect, tls) = (of("curl.connect_s"), of("curl.tls_s"));
        // curl counts from the begin of the request on, and a person's handshake may be that alone.
        if let (Some(connect), Some(tls)) = (connect, tls.filter(|_| self.apart && !self.own)) {
            let both = connect + tls;
            let fits = of("curl.total_s").is_none_or(|all| both <= all);
            if fits {
                self.artefact.figures.insert("curl.tls_s".into(), both);
            }
        }
        enough.then_some(self.artefact)
    }
}

/// The phases of a line.
fn phases(line: &str) -> Vec<Phase> {
    let mut found = Vec::new();
    let parts = parts(line);
    for part in &parts {
        let words = words_of(part);
        if words.iter().any(|w| w.contains("time_")) {
            found.extend(words.windows(2).filter_map(|pair| own(pair[0], pair[1])));
            continue;
        }
        let marked = part.contains([':', '=']);
        let named = persons(&words).filter(|_| marked);
        // `request 1: tcp connect 0.125s | total 4.410s`: the unit is what makes a time of it.
        let behind = part.rsplit_once(':').map_or(*part, |(_, behind)| behind);
        let united = part.trim_end().ends_with(char::is_alphabetic) && parts.len() >= FEWEST;
        found.extend(named.or_else(|| persons(&words_of(behind)).filter(|_| united)));
    }
    found
}

fn words_of(part: &str) -> Vec<&str> {
    let words = part.split(|c: char| c.is_whitespace() || ":=".contains(c));
    words.filter(|w| !w.is_empty()).collect()
}

fn own(name: &str, took: &str) -> Option<Phase> {
    let name = name.trim_matches(['"', '\'']).strip_prefix("time_")?;
    Some(Phase {
        name: phase(name)?,
        own: true,
        apart: false,
        took: time(took)?,
    })
}

/// `Establish Connection: 0.0172s`: a name of some words, one time, and nothing else.
fn persons(words: &[&str]) -> Option<Phase> {
    let (took, name) = words.split_last()?;
    let name = name.concat().to_ascii_lowercase().replace(['_', '-'], "");
    // A bare number without a point may be anything.
    let sure = took.contains(['.', ',']) || took.ends_with("ms");
    let took = time(took).filter(|_| sure)?;
    Some(Phase {
        apart: name.ends_with("handshake"),
        name: phase(&name)?,
        own: false,
        took,
    })
}

fn phase(name: &str) -> Option<&'static str> {
    let found = PHASES.iter().find(|(_, names)| names.contains(&name));
    found.map(|(ours, _)| *ours)
}

/// Seconds; what the shell prints next may stand right behind them.
fn time(text: &str) -> Option<f64> {
    let text = text.trim_matches(['"', '\'']);
    let end = text.find("Command").unwrap_or(text.len());
    let plain = number(&text[..end]).map(|n| n.value);
    plain.or_else(|| seconds(&text[..end]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &[(f64, f64)]) {
        let lines: Vec<&str> = text.lines().collect();
        let runs = read(&lines);
        let time = |run: &Artefact, name: &str| run.value(name).unwrap_or(-1.0);
        let times: Vec<(f64, f64)> = runs
            .iter()
            .map(|r| (time(r, "curl.connect_s"), time(r, "curl.total_s")))
            .collect();
        assert_eq!(times, expected, "{text}");
    }

    #[test]
    fn a_body_is_announced_in_vain() {
        let found = announced(&[
            "> PUT /a HTTP/1.1",
            "> expect: 100-continue",
            "* Done waiting for 100-continue",
            "< HTTP/1.1 201 Created",
        ]);
        assert_eq!(found.unwrap().value("announced.in_vain"), Some(1.0));
        assert!(announced(&["* Done waiting for 100-continue"]).is_none());
    }

    #[test]
    fn each_run_is_its_own() {
        let one = "time_namelookup: 0.01\n time_connect:  0.02\ntime_total:  0.03\n";
        let line = "  time_namelookup:  5.008615   time_connect:  5.096003  ----- time_total:  5.197362Command exited\n";
        check(
            &format!("{one}{line}"),
            &[(0.02, 0.03), (5.096_003, 5.197_362)],
        );
    }

    #[test]
    fn a_handshake_is_a_phase_by_itself_unless_it_does_not_fit() {
        let tls = |text: &str| read(&[text])[0].value("curl.tls_s").unwrap();
        assert!((tls("connect 0.5s | TLS handshake 1.25s | total 2.0s") - 1.75).abs() < 1e-9);
        assert!((tls("connect 0.5s | TLS handshake 1.25s | total 1.5s") - 1.25).abs() < 1e-9);
        assert!((tls("connect: 0.5s | tls: 1.25s | total: 2.0s") - 1.25).abs() < 1e-9);
    }

    #[test]
    fn a_persons_words_count_together() {
        check(
            "Establish Connection: 0.202240s\nTTFB: 0.279984s\nTotal: 0.280161s\n",
            &[(0.202_24, 0.280_161)],
        );
        check(
            "dnslookup: 0.0022 | connect: 0.2016 | appconnect: 0.5712 | starttransfer: 0.4484\n",
            &[(0.2016, -1.0)],
        );
        // Phases between bars, with a number of the request before them.
        check(
            "request 1: tcp connect 0.125s | TLS handshake 4.194s | total 4.410s\nrequest 2: tcp connect 0.000s | TLS handshake 0.000s | total 0.183s\n",
            &[(0.125, 4.410), (0.0, 0.183)],
        );
        check(
            "it is total 4.4s, we connect 0.1s, so tls 0.2s is fine\n",
            &[],
        );
        // A generator's table, and numbers without a point.
        check(
            "Total: 0.5s\nConnect:        0    2   0.6      2       6\n",
            &[],
        );
        check("total: 12\nconnect: 3\ndns: 4\n", &[]);
    }
}
