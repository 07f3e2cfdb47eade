//! HAProxy's own words: `show activity` (a counter a line, its sum and its parts by thread), `show stat`, and the
//! states in which its log says that sessions ended.
//!
//! The counters grow from the start on, but for the averages. The surprise is `avg_loop_us`: a turn of the event loop
//! is what every other connection of that thread waits for.

use super::events::{artefact, told};
use record::pasted::{Artefact, Row};

/// Names of `show activity`, and ours.
const COUNTERS: [(&str, &str); 7] = [
    ("loops", "activity.loops"),
    ("stream_calls", "activity.streams"),
    ("long_rq", "activity.long_queues"),
    ("cpust_ms_tot", "activity.stolen_ms"),
    ("cpust_ms_1s", "activity.stolen_last_ms"),
    ("avg_cpu_pct", "activity.cpu_percent"),
    ("avg_loop_us", "activity.loop_us"),
];
/// Counters whose first number is a mean of the threads, not their sum.
const MEANS: [&str; 2] = ["activity.cpu_percent", "activity.loop_us"];
/// Fewer of them are another tool's words.
const FEWEST: usize = 3;

/// All of a text: each `show activity`, in order, `show stat`, and states in which sessions ended.
pub(super) fn read(lines: &[&str]) -> Vec<Artefact> {
    let mut done = activities(lines);
    done.extend(statistics(lines));
    done.extend(ended(lines));
    done.extend(descriptors(lines));
    done
}

/// Characters of a descriptor's line that are told.
const TOLD: usize = 420;

/// `show fd`: `55963 : st=0x22(R:Ra W:Ra) ev=0x11(HeopI) [lc] ... mux=H2 ctx=0x7f h2c.st0=FRP`. A large letter is what
/// is set: `R` ready and `A` asked for, and of the events `H` the end of the connection and `E` an error.
fn descriptors(lines: &[&str]) -> Option<Artefact> {
    let mut found = artefact("show fd", 0);
    for (number, line) in (1_u32..).zip(lines) {
        let Some((id, rest)) = line.trim().split_once(" : st=0x") else {
            continue;
        };
        let inside = |mark: &str| {
            let (_, behind) = rest.split_once(mark)?;
            behind
                .split_once('(')?
                .1
                .split_once(')')
                .map(|(text, _)| text)
        };
        let (Some(events), true) = (inside(" ev="), id.parse::<u32>().is_ok()) else {
            continue;
        };
        let state = rest.split_once('(').and_then(|(_, s)| s.split_once(')'));
        let state = state.map_or("", |(state, _)| state);
        found.begin_at(number);
        found.add("fds.rows", 1.0);
        let ended = events.contains(['H', 'E']);
        found.add("fds.ended", f64::from(u8::from(ended)));
        let of = |name: &str| {
            let mut words = rest.split_whitespace();
            words.find(|w| w.starts_with(name))
        };
        let told = [
            "fe=", "px=", "sv=", "mux=", "h1c.", "h2c.", "h1s.", "h2s.", "xprt=",
        ];
        let told: Vec<&str> = told.iter().filter_map(|name| of(name)).collect();
        found.rows.push(Row {
            label: format!("fd {id} {state} {events} {}", told.join(" "))
                .chars()
                .take(TOLD)
                .collect(),
            place: String::new(),
            share: f64::from(u8::from(ended)),
        });
    }
    found.largest_first();
    told(found)
}

fn activities(lines: &[&str]) -> Vec<Artefact> {
    let mut done: Vec<Artefact> = Vec::new();
    for (number, line) in (1_u32..).zip(lines) {
        let Some((name, all, parts)) = counter(line) else {
            continue;
        };
        if done.last().is_none_or(|open| open.value(name).is_some()) {
            done.push(artefact("show activity", number));
        }
        if let Some(open) = done.last_mut() {
            put(open, name, all, &parts);
        }
    }
    done.retain(|a| a.figures.len() >= FEWEST);
    done
}

fn put(open: &mut Artefact, name: &str, all: f64, parts: &[f64]) {
    open.figures.insert(name.to_owned(), all);
    let largest = parts.iter().copied().fold(0.0, f64::max);
    if MEANS.contains(&name) {
        open.largest(&format!("{name}_largest"), largest.max(all));
    } else if name == "activity.streams" && parts.len() > 1 && all > 0.0 {
        let threads = parts.len() as f64;
        open.figures.insert("activity.threads".into(), threads);
        let skew = largest * threads / all;
        open.figures
            .insert("activity.busiest_over_mean".into(), skew);
    }
}

/// Who ended a session, by the first letter of its state.
const WHO: [(char, &str); 12] = [
    ('C', "the client aborted"),
    ('c', "the client's timeout expired"),
    ('S', "the server aborted or refused"),
    ('s', "the server's timeout expired"),
    ('P', "HAProxy ended it (a rule, a limit, a broken message)"),
    ('R', "a resource of HAProxy was used up"),
    ('I', "HAProxy found an error of its own"),
    ('D', "the server was marked down"),
    (
        'U',
        "a backup server's session was ended for one that came up",
    ),
    ('K', "an administrator ended it"),
    ('L', "HAProxy responded itself"),
    ('T', "a tarpit held it"),
];
/// In which phase, by the second.
const WHERE: [(char, &str); 8] = [
    ('R', "while the request was waited for"),
    ('Q', "in the queue before a server"),
    ('C', "before the connection to the server stood"),
    (
        'H',
        "while the head of the server's response was waited for",
    ),
    ('D', "while data was transferred"),
    ('L', "while the last data went to the client"),
    ('T', "in a tarpit"),
    ('-', "behind its end"),
];

/// Two letters, and in HTTP two more of cookies, wherever a format puts them; the first two.
fn state(word: &str) -> Option<(char, char)> {
    let mut letters = word.chars();
    let (who, at) = (letters.next()?, letters.next()?);
    let rest = letters.as_str();
    let cookies =
        rest.is_empty() || rest.len() == 2 && rest.chars().all(|c| "-NIDVEOUPR".contains(c));
    let known = who == '-' && at == '-'
        || WHO.iter().any(|(c, _)| *c == who) && WHERE.iter().any(|(c, _)| *c == at);
    (cookies && known).then_some((who, at))
}

/// States of a text's sessions: those that ended by themselves are counted, of others it is said how.
fn ended(lines: &[&str]) -> Option<Artefact> {
    let mut found = artefact("HAProxy's states", 0);
    for (number, line) in (1_u32..).zip(lines) {
        let Some((who, at)) = ended_line(line) else {
            continue;
        };
        found.begin_at(number);
        found.add("haproxy.sessions", 1.0);
        if who == '-' {
            continue;
        }
        found.add("haproxy.ended", 1.0);
        found.add(&format!("haproxy.ended_{who}{at}"), 1.0);
        let of = |table: &[(char, &'static str)], c: char| {
            let known = table.iter().find(|(letter, _)| *letter == c);
            known.map_or("", |(_, words)| words)
        };
        found.rows.push(Row {
            label: format!("{who}{at}"),
            place: format!("{} {}", of(&WHO, who), of(&WHERE, at)),
            share: 1.0,
        });
    }
    found.figures.entry("haproxy.ended".into()).or_insert(0.0);
    found.settle();
    told(found)
}

/// The state in a line: one that is named, one of four letters beside a status, or one of two behind timers.
fn ended_line(line: &str) -> Option<(char, char)> {
    let apart = |c: char| c.is_whitespace() || "\"',{}=[]".contains(c);
    let words: Vec<&str> = line
        .split(apart)
        .filter(|w| !w.is_empty() && *w != ":")
        .collect();
    if !words.iter().any(|w| state(w).is_some()) {
        return None;
    }
    let lower = line.to_ascii_lowercase();
    if lower.contains("termination_state") || lower.contains("ts=") || lower.contains("\"ts\":") {
        let names = ["termination_state", "termination_state:", "ts", "ts:"];
        let named = words
            .windows(2)
            .find(|w| names.contains(&w[0].trim_end_matches(':').to_ascii_lowercase().as_str()));
        if let Some(found) = named.and_then(|w| state(w[1])) {
            return Some(found);
        }
    }
    let timers = |w: &&str| {
        let parts: Vec<&str> = w.split('/').collect();
        parts.len() >= 3
            && parts
                .iter()
                .all(|p| p.trim_start_matches('+').parse::<i64>().is_ok())
    };
    let status = words
        .iter()
        .any(|w| w.len() == 3 && w.parse::<u16>().is_ok_and(|s| (100..600).contains(&s)));
    // A number follows: a status, or bytes.
    let counted = |i: usize| {
        words
            .get(i + 1)
            .is_some_and(|w| w.trim_start_matches('+').parse::<i64>().is_ok())
    };
    let first = (0..words.len()).find(|i| timers(&words[*i]) && counted(*i));
    let haproxy = lower.contains("haproxy");
    words.iter().enumerate().find_map(|(i, word)| {
        let behind = first.is_some_and(|t| t < i);
        let fits = match word.len() {
            4 => behind || haproxy || status && word.ends_with("--") && !word.starts_with('-'),
            2 => behind,
            _ => false,
        };
        state(word).filter(|_| fits)
    })
}

/// Columns of `show stat` that are kept, where a paste has no head.
const STATISTICS: [(&str, usize); 14] = [
    ("pxname", 0),
    ("svname", 1),
    ("qcur", 2),
    ("qmax", 3),
    ("scur", 4),
    ("smax", 5),
    ("slim", 6),
    ("econ", 13),
    ("eresp", 14),
    ("status", 17),
    ("chkdown", 22),
    ("hrsp_5xx", 43),
    ("rtime", 60),
    ("qtime", 58),
];

/// `show stat`: a proxy or a server a line, its cells apart by commas.
fn statistics(lines: &[&str]) -> Option<Artefact> {
    let mut found = artefact("show stat", 0);
    let mut columns: Vec<&str> = Vec::new();
    for (number, line) in (1_u32..).zip(lines) {
        let line = line.trim();
        let cells: Vec<&str> = line.trim_start_matches("# ").split(',').collect();
        if cells.starts_with(&["pxname", "svname"]) {
            columns = cells;
            continue;
        }
        let at = |name: &str| {
            let known = STATISTICS.iter().find(|(n, _)| *n == name).map(|(_, i)| *i);
            let at = match columns.is_empty() {
                true => known,
                false => columns.iter().position(|c| *c == name),
            };
            cells.get(at?).copied()
        };
        let n = |name: &str| at(name).and_then(|c| c.parse::<f64>().ok());
        let states = [
            "UP", "DOWN", "OPEN", "NOLB", "MAINT", "DRAIN", "STOP", "FULL", "no check",
        ];
        let status = at("status").unwrap_or("");
        if cells.len() < 30 || !states.iter().any(|s| status.starts_with(s)) {
            continue;
        }
        let (proxy, server) = (at("pxname")?, at("svname")?);
        found.begin_at(number);
        let own = server != "FRONTEND" && server != "BACKEND";
        if own {
            found.add("stat.servers", 1.0);
            found.add("stat.down", f64::from(u8::from(status.starts_with("DOWN"))));
        }
        if server != "FRONTEND" {
            found.largest("stat.queued", n("qcur").unwrap_or(0.0));
            found.largest("stat.queued_most", n("qmax").unwrap_or(0.0));
            found.largest("stat.response_ms", n("rtime").unwrap_or(0.0));
            found.largest("stat.queue_ms", n("qtime").unwrap_or(0.0));
        }
        if own {
            found.add("stat.connect_errors", n("econ").unwrap_or(0.0));
            found.add("stat.response_errors", n("eresp").unwrap_or(0.0));
        }
        let used = n("scur")
            .zip(n("slim").filter(|l| *l > 0.0))
            .map_or(0.0, |(s, l)| s / l);
        let weight = n("qcur").unwrap_or(0.0)
            + used
            + f64::from(u8::from(status.starts_with("DOWN") && own)) * 10.0;
        if server != "BACKEND" {
            found.largest("stat.used_share", used);
            found.rows.push(Row {
                label: format!("{proxy}/{server}"),
                place: format!(
                    "{status}, {} of {} sessions, {} in its queue, {} connects and {} responses failed",
                    at("scur").unwrap_or("some"),
                    at("slim").filter(|c| !c.is_empty()).unwrap_or("any number of"),
                    at("qcur").filter(|c| !c.is_empty()).unwrap_or("none"),
                    at("econ").filter(|c| !c.is_empty()).unwrap_or("no"),
                    at("eresp").filter(|c| !c.is_empty()).unwrap_or("no"),
                ),
                share: weight,
            });
        }
    }
    found.largest_first();
    told(found)
}

/// `avg_loop_us: 19888 [ 19000 20776 ]`.
fn counter(line: &str) -> Option<(&'static str, f64, Vec<f64>)> {
    let (name, rest) = line.trim().split_once(':')?;
    let (_, ours) = COUNTERS.iter().find(|(theirs, _)| *theirs == name)?;
    let mut words = rest
        .split(|c: char| c.is_whitespace() || "[]".contains(c))
        .filter(|w| !w.is_empty());
    let all: f64 = words.next()?.parse().ok()?;
    let parts = words.map_while(|w| w.parse().ok()).collect();
    Some((ours, all, parts))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_is_found_wherever_a_format_puts_it() {
        let of = |line: &str| ended_line(line);
        assert_eq!(
            of("fnt bck/srv1 0/0/5007 212 -- 0/0/0/0/3 0/0"),
            Some(('-', '-'))
        );
        assert_eq!(
            of("fnt bck/<NOSRV> -1/-1/5007 0 SC 0/0/0/0/3 0/0"),
            Some(('S', 'C'))
        );
        assert_eq!(
            of("haproxy[1]: \"GET / HTTP/1.1\" 503 217 0 0 -1 -1 3 CC-- 4 1"),
            Some(('C', 'C'))
        );
        assert_eq!(
            of("{\"status\":504,\"termination_state\":\"sH--\"}"),
            Some(('s', 'H'))
        );
        assert_eq!(
            of("client=1.2.3.4 status=200 ts=SD-- Tr=30"),
            Some(('S', 'D'))
        );
        for none in [
            "a CC of the mail, 200 times",
            "10/20/2020 it was a CD",
            "LR 3 -- 4",
        ] {
            assert_eq!(of(none), None, "{none}");
        }
    }

    #[test]
    fn two_calls_are_two_and_a_thread_that_does_all_is_seen() {
        let text = "\
thread_id: 1 (1..2)
loops: 30 [ 10 20 ]
stream_calls: 400 [ 380 20 ]
avg_cpu_pct: 55 [ 99 11 ]
avg_loop_us: 19888 [ 39000 776 ]
loops: 40 [ 20 20 ]
long_rq: 1
stream_calls: 500 [ 400 100";
        let calls = read(&text.lines().collect::<Vec<_>>());
        assert_eq!(calls.len(), 2);
        let skew = "activity.busiest_over_mean";
        assert_eq!(calls[0].value(skew), Some(1.9));
        assert_eq!(calls[1].value(skew), Some(1.6));
        assert_eq!(calls[0].value("activity.loop_us_largest"), Some(39_000.0));
        assert!(read(&["loops: 3", "he said"]).is_empty());
    }
}
