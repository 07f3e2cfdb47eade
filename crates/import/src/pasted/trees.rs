//! Trees of calls with the time of each in seconds, as pyinstrument prints them: `└─ 12.012 execute  app/db.py:66`.
//!
//! What is told is the call that took most itself, with the functions of which it is a part. The surprise is
//! `[await]`: a wait that the event loop does not stand in, where any other call below `_run` of asyncio holds it.

use super::events::{artefact, told};
use super::pieces::short;
use record::pasted::{Artefact, Row};

/// Callers of a call that are told.
const TOLD: usize = 3;
/// Calls that wait for somebody else, as they are named where they are built in.
const WAITS: [&str; 17] = [
    "sleep",
    "recv",
    "recv_into",
    "recvfrom",
    "read",
    "readinto",
    "send",
    "sendall",
    "connect",
    "getaddrinfo",
    "acquire",
    "wait",
    "waitpid",
    "poll",
    "select",
    "do_handshake",
    "fsync",
];
/// Frames that are no program's own.
const MACHINERY: [&str; 7] = [
    "<built-in>",
    "asyncio/",
    "tenacity/",
    "threading.py",
    "socket.py",
    "ssl.py",
    "[",
];

/// A call: how far it is set in, its seconds, its name and place.
struct Call<'a> {
    depth: usize,
    took: f64,
    name: &'a str,
    place: &'a str,
}

/// The tree of a text.
pub(super) fn read(lines: &[&str]) -> Option<Artefact> {
    let calls = (1_u32..)
        .zip(lines)
        .filter_map(|(n, l)| Some((n, call(l)?)));
    let (numbers, calls): (Vec<u32>, Vec<Call<'_>>) = calls.unzip();
    let branches = lines.iter().any(|l| l.contains(BRANCHES));
    if calls.len() < 2 || !branches {
        return None;
    }
    let mut found = artefact("pyinstrument", numbers[0]);
    let longest = calls.iter().map(|c| c.took).fold(0.0, f64::max);
    found.figures.insert("tree.longest_s".into(), longest);
    for (at, call) in calls.iter().enumerate() {
        let own = itself(&calls, at);
        if own <= 0.0 {
            continue;
        }
        let path = above(&calls, at);
        let known = |c: &&Call<'_>| !MACHINERY.iter().any(|m| c.place.contains(m));
        let callers = path.iter().filter(|c| known(c)).take(TOLD);
        let named: Vec<String> = callers.map(|c| format!("{} {}", c.name, c.place)).collect();
        found.add("tree.rows", 1.0);
        if call.name != "[await]" && path.iter().any(|c| runs_a_loop(c)) {
            found.largest("tree.in_loop_s", own);
            if WAITS.contains(&call.name) {
                found.largest("tree.waits_in_loop_s", own);
            }
        }
        found.rows.push(Row {
            label: short(&format!("{} {}", call.name, call.place)),
            place: match named.is_empty() {
                true => format!("{own:.3} s itself"),
                false => short(&format!(
                    "{own:.3} s itself, called by {}",
                    named.join(" < ")
                )),
            },
            share: own,
        });
    }
    found.largest_first();
    let most = found.rows.first()?.share;
    found.figures.insert("tree.most_s".into(), most);
    told(found)
}

const BRANCHES: [char; 2] = ['\u{251c}', '\u{2514}'];

/// Whether it is what asyncio calls for each callback; the loop's own wait for work stands beside it.
fn runs_a_loop(call: &Call<'_>) -> bool {
    call.name.ends_with("_run") && call.place.contains("asyncio/events.py")
}

/// Seconds that are in no call of a call.
fn itself(calls: &[Call<'_>], at: usize) -> f64 {
    let depth = calls[at].depth;
    let below = calls[at + 1..].iter().take_while(|c| c.depth > depth);
    let below: Vec<_> = below.collect();
    let next = below.iter().map(|c| c.depth).min();
    let children = below.iter().filter(|c| Some(c.depth) == next);
    calls[at].took - children.map(|c| c.took).sum::<f64>()
}

/// Those of which a call is a part, the nearest first.
fn above<'a>(calls: &'a [Call<'a>], at: usize) -> Vec<&'a Call<'a>> {
    let mut depth = calls[at].depth;
    let before = calls[..at].iter().rev();
    let above = before.filter(|c| {
        let is = c.depth < depth;
        depth = depth.min(c.depth);
        is
    });
    above.collect()
}

/// `   │  ├─ 12.012 execute  app/db.py:66`; the first one has no branch.
fn call(line: &str) -> Option<Call<'_>> {
    let drawn = |c: char| "\u{2502}\u{251c}\u{2514}\u{2500}|`- ".contains(c);
    let text = line.trim_start_matches(drawn);
    let depth = line.chars().count() - text.chars().count();
    let (n, rest) = text.split_once(' ')?;
    let rest = rest.trim();
    let (name, place) = rest.split_once(' ').unwrap_or((rest, ""));
    let file = place.split_whitespace().next().unwrap_or_default();
    let known = file.contains(':') || name.starts_with('[');
    let took = n.parse().ok().filter(|_| n.contains('.') && known)?;
    Some(Call {
        depth,
        took,
        name,
        place: file,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_has_what_its_own_calls_leave() {
        let text = "1.500 main  app.py:1\n├─ 1.000 load  app.py:9\n│  └─ 0.250 read  <built-in>:0\n└─ 0.400 show  app.py:20\n";
        let lines: Vec<&str> = text.lines().collect();
        let found = read(&lines).unwrap();
        let first = &found.rows[0];
        assert_eq!(first.label, "load app.py:9");
        assert!((first.share - 0.75).abs() < 1e-9);
        assert_eq!(first.place, "0.750 s itself, called by main app.py:1");
        assert!(read(&["1.5 GB of memory", "2.5 s a:b"]).is_none());
    }
}
