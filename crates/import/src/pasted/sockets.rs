//! Sockets one a line: `ss -tan`, `ss -ltn`, `ss -ti`, `netstat -an`, lsof, and states that were counted.
//!
//! A line is known by the state in it, so that a head is not needed and text that is cut off loses nothing. `Recv-Q` of
//! a listener is the length of its queue and `Send-Q` the limit (ss); netstat shows no limit, but for `netstat -L` of
//! the BSDs: `QLEN/INCQLEN/MAXQLEN`.

use super::events::{artefact, told};
use super::pieces::short;
use record::pasted::{Artefact, Row};

/// States as ss and netstat spell them, and ours.
const STATES: [(&str, &str); 20] = [
    ("LISTEN", "listen"),
    ("ESTAB", "established"),
    ("ESTABLISHED", "established"),
    ("TIME-WAIT", "time_wait"),
    ("TIME_WAIT", "time_wait"),
    ("CLOSE-WAIT", "close_wait"),
    ("CLOSE_WAIT", "close_wait"),
    ("SYN-RECV", "syn_recv"),
    ("SYN_RECV", "syn_recv"),
    ("SYN-SENT", "syn_sent"),
    ("SYN_SENT", "syn_sent"),
    ("FIN-WAIT-1", "fin_wait_1"),
    ("FIN_WAIT1", "fin_wait_1"),
    ("FIN-WAIT-2", "fin_wait_2"),
    ("FIN_WAIT2", "fin_wait_2"),
    ("LAST-ACK", "last_ack"),
    ("LAST_ACK", "last_ack"),
    ("CLOSING", "closing"),
    ("SYN_RCVD", "syn_recv"),
    ("FIN_WAIT_2", "fin_wait_2"),
];

fn state(word: &str) -> Option<&'static str> {
    let word = word.trim_matches(['(', ')', '"', ',', ':']);
    let found = STATES.iter().find(|(theirs, _)| *theirs == word);
    found.map(|(_, ours)| *ours)
}

/// All lists of sockets in a text, each as one artefact: a gap of prose begins the next.
pub(super) fn read(lines: &[&str]) -> Vec<Artefact> {
    let mut done: Vec<Artefact> = Vec::new();
    let mut last = 0;
    for (number, line) in (1_u32..).zip(lines) {
        let words: Vec<&str> = line.split_whitespace().collect();
        // A count of states repeats none; a list may go on after a few lines that are none of it.
        let near = number <= last + 4 && !done.is_empty();
        let fresh = |done: &mut Vec<Artefact>| {
            if !near {
                done.push(Artefact {
                    tool: "list of sockets".to_owned(),
                    line: number,
                    ..Artefact::default()
                });
            }
        };
        if let Some((state, n)) = counted_by(line, &lines[number as usize..]) {
            // The same command again is another moment.
            let name = format!("sockets.{state}");
            if !near || done.last().is_some_and(|a| a.value(&name).is_some()) {
                done.push(Artefact {
                    tool: "list of sockets".to_owned(),
                    line: number,
                    ..Artefact::default()
                });
            }
            if let Some(open) = done.last_mut() {
                open.add(&name, n);
            }
            last = number;
        } else if let pairs = counted(line)
            && !pairs.is_empty()
        {
            fresh(&mut done);
            if let Some(open) = done.last_mut() {
                for (state, n) in pairs {
                    open.add(&format!("sockets.{state}"), n);
                }
            }
            last = number;
        } else if let Some(socket) = socket(&words).or_else(|| listener(&words)) {
            fresh(&mut done);
            if let Some(open) = done.last_mut() {
                count(open, &socket);
            }
            last = number;
        } else if near && last > 0 && details(&words, done.last_mut()) {
            last = number;
        }
    }
    for artefact in &mut done {
        artefact.settle();
    }
    done
}

/// `710 CLOSE_WAIT`, `CLOSE_WAIT 710`, cells of a table, several of them in a line (`TIME_WAIT=3 ESTABLISHED=12`,
/// JSON), and `710 tcp 10.0.0.1:80 CLOSE_WAIT`, what uniq counted of a line's columns.
fn counted(line: &str) -> Vec<(&'static str, f64)> {
    // Each state has one of these.
    if !["WAIT", "ESTAB", "SYN", "ACK", "CLOSING", "LISTEN"]
        .iter()
        .any(|part| line.contains(part))
    {
        return Vec::new();
    }
    let words: Vec<&str> = line.split_whitespace().collect();
    if let [n, rest @ .., last] = words.as_slice()
        && (1..=3).contains(&rest.len())
        && rest.iter().all(|w| w.parse::<f64>().is_err())
        && let (Ok(n), Some(state)) = (n.parse::<f64>(), state(last))
    {
        return vec![(state, n)];
    }
    let apart = |c: char| !(c.is_ascii_alphanumeric() || "_-.%".contains(c));
    let tokens: Vec<&str> = line
        .split(apart)
        .filter(|t| !t.is_empty() && !t.ends_with('%'))
        .collect();
    let (pairs, rest) = tokens.as_chunks::<2>();
    let number = |w: &str| w.parse::<f64>().ok();
    let forth: Option<Vec<_>> = pairs.iter().map(|[a, b]| state(a).zip(number(b))).collect();
    let back = || {
        pairs
            .iter()
            .map(|[a, b]| state(b).zip(number(a)))
            .collect::<Option<Vec<_>>>()
    };
    let found = forth.or_else(back).filter(|_| rest.is_empty());
    found.unwrap_or_default()
}

/// What of a state people give to grep.
const PARTS: [(&str, &str); 6] = [
    ("ESTAB", "established"),
    ("ESTA", "established"),
    ("CLOSE", "close_wait"),
    ("CLOS", "close_wait"),
    ("TIME", "time_wait"),
    ("CLOSE_W", "close_wait"),
];

fn part_of_a_state(word: &str) -> Option<&'static str> {
    let upper = word.to_ascii_uppercase();
    state(&upper).or_else(|| {
        PARTS
            .iter()
            .find(|(p, _)| *p == upper)
            .map(|(_, ours)| *ours)
    })
}

/// `ss -ant state close-wait | wc -l`, `netstat -an | grep -c TIME_WAIT`, with the number alone on the next line. The
/// head that ss prints is counted with them.
fn counted_by(line: &str, below: &[&str]) -> Option<(&'static str, f64)> {
    let words: Vec<&str> = line
        .split(|c: char| c.is_whitespace() || "|'\"`/()$".contains(c))
        .filter(|w| !w.is_empty())
        .collect();
    let lists = words.iter().any(|w| ["ss", "netstat", "lsof"].contains(w));
    let pair = |first: &str, second: fn(&str) -> bool| {
        let mut pairs = words.windows(2);
        pairs.any(|p| p[0] == first && second(p[1]))
    };
    let counts = pair("wc", |w| w.starts_with("-l"))
        || pair("grep", |w| w.starts_with('-') && w.contains('c'));
    let inverse = pair("grep", |w| w.starts_with('-') && w.contains('v'));
    if !lists || !counts || inverse {
        return None;
    }
    let mut named = words.iter().filter_map(|w| part_of_a_state(w));
    let first = named.next()?;
    let number = below.iter().take(2).find(|l| !l.trim().is_empty())?;
    let n: u64 = number.trim().parse().ok()?;
    named.all(|n| n == first).then_some((first, n as f64))
}

pub(super) struct Socket<'a> {
    pub(super) state: &'static str,
    pub(super) receive_queue: Option<f64>,
    send_queue: Option<f64>,
    pub(super) local: &'a str,
    peer: &'a str,
    /// ss prints a listener's limit.
    limit: bool,
}

pub(super) fn socket<'a>(words: &[&'a str]) -> Option<Socket<'a>> {
    let at = words.iter().position(|w| state(w).is_some())?;
    let state = state(words[at])?;
    let number = |i: usize| words.get(i).and_then(|w| w.parse::<f64>().ok());
    let address = |i: usize| {
        words
            .get(i)
            .copied()
            .filter(|w| w.contains(':') || w.contains('.'))
    };
    // ss: STATE RECV-Q SEND-Q LOCAL PEER, `tcp` before it or not.
    if at <= 1
        && let (Some(r), Some(s), Some(local)) = (number(at + 1), number(at + 2), address(at + 3))
    {
        return Some(Socket {
            state,
            receive_queue: Some(r),
            send_queue: Some(s),
            local,
            peer: address(at + 4).unwrap_or_default(),
            limit: true,
        });
    }
    // netstat: tcp RECV-Q SEND-Q LOCAL FOREIGN STATE.
    if words[0].starts_with("tcp") && at >= 5 {
        return Some(Socket {
            state,
            receive_queue: number(1),
            send_queue: number(2),
            local: address(3).unwrap_or_default(),
            peer: address(4).unwrap_or_default(),
            limit: false,
        });
    }
    // lsof: `... TCP local->peer (STATE)`.
    let pair = words.get(at.checked_sub(1)?)?;
    let (local, peer) = pair.split_once("->")?;
    words[at].starts_with('(').then_some(Socket {
        state,
        receive_queue: None,
        send_queue: None,
        local,
        peer,
        limit: false,
    })
}

/// Descriptors that lsof lists in CLOSE_WAIT, each with its program: `prog 4711 root 27u IPv4 704887 0t0 TCP a:1->b:2
/// (CLOSE_WAIT)`. One that stands in several lists is one, and what it was before is told with it.
pub(super) fn held(lines: &[&str]) -> Option<Artefact> {
    let mut found = artefact("descriptors by lsof", 0);
    // Process and descriptor, and the state in which they were seen last.
    let mut before: Vec<((&str, &str), &str)> = Vec::new();
    let is_one = |w: &&&str| {
        let digits = w.trim_end_matches(['r', 'w', 'u']);
        digits.len() + 1 == w.len() && digits.bytes().all(|b| b.is_ascii_digit())
    };
    for (number, line) in (1_u32..).zip(lines) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [program, process, .., pair, last] = words.as_slice() else {
            continue;
        };
        let state = last.strip_prefix('(').and_then(|w| w.strip_suffix(')'));
        let descriptor = words[2..].iter().find(is_one);
        let (Some(state), Some(descriptor)) = (state, descriptor) else {
            continue;
        };
        if !pair.contains("->") || process.parse::<u32>().is_err() {
            continue;
        }
        let name = (*process, *descriptor);
        let known = before.iter().position(|(held, _)| *held == name);
        let was = match known {
            Some(at) => Some(std::mem::replace(&mut before[at].1, state)),
            None => {
                before.push((name, state));
                None
            }
        };
        if state != "CLOSE_WAIT" || was == Some(state) {
            continue;
        }
        found.begin_at(number);
        let was = was.map_or_else(String::new, |was| format!(", {was} before"));
        found.rows.push(Row {
            label: format!("{program} {descriptor}"),
            place: short(&format!("PID {process}, {pair} {state}{was}")),
            share: 1.0,
        });
    }
    let rows = found.rows.len() as f64;
    found.figures.insert("held.rows".into(), rows);
    told(found)
}

/// `tcp4 3073/0/2048 127.0.0.1.5001`: waiting, not yet complete, and the limit.
fn listener<'a>(words: &[&'a str]) -> Option<Socket<'a>> {
    let [protocol, queues, local] = words else {
        return None;
    };
    let known = protocol.starts_with("tcp") || *protocol == "unix";
    let numbers: Option<Vec<f64>> = queues.split('/').map(|n| n.parse().ok()).collect();
    let [queue, _, limit] = numbers.filter(|_| known)?.try_into().ok()?;
    Some(Socket {
        state: "listen",
        receive_queue: Some(queue),
        send_queue: Some(limit),
        local,
        peer: "",
        limit: true,
    })
}

fn count(open: &mut Artefact, socket: &Socket<'_>) {
    open.add(&format!("sockets.{}", socket.state), 1.0);
    if socket.state == "listen" {
        if let (true, Some(queue), Some(limit)) =
            (socket.limit, socket.receive_queue, socket.send_queue)
            && limit > 0.0
        {
            open.largest("listen.queue", queue);
            if queue / limit >= open.value("listen.used").unwrap_or(0.0) {
                open.figures.insert("listen.used".into(), queue / limit);
                open.figures.insert("listen.limit".into(), limit);
            }
        }
        return;
    }
    if let Some(queue) = socket.receive_queue {
        open.largest("sockets.receive_queue_largest", queue);
        open.add("sockets.unread", f64::from(u8::from(queue > 0.0)));
    }
    if let Some(queue) = socket.send_queue {
        open.largest("sockets.send_queue_largest", queue);
        open.add("sockets.unsent", f64::from(u8::from(queue > 0.0)));
    }
    // Which peer holds most of a state: one destination is what ports run out towards.
    open.rows.push(Row {
        label: socket.state.to_owned(),
        place: if socket.state == "time_wait" {
            socket.peer.to_owned()
        } else {
            socket.local.to_owned()
        },
        share: 1.0,
    });
}

/// The second line of `ss -ti`: `cubic wscale:7,7 rto:204 rtt:1.5/0.7 cwnd:10 retrans:0/12 rwnd_limited:4ms(12.5%)`.
fn details(words: &[&str], open: Option<&mut Artefact>) -> bool {
    let find = |key: &str| words.iter().find_map(|w| w.strip_prefix(key));
    if find("rtt:").is_none() && find("cwnd:").is_none() {
        return false;
    }
    let Some(open) = open else { return false };
    let share = |text: &str| -> Option<f64> {
        let (_, rest) = text.split_once('(')?;
        rest.trim_end_matches([')', '%'])
            .trim_end_matches('%')
            .parse::<f64>()
            .ok()
    };
    for (key, name) in [
        ("rwnd_limited:", "sockets.window_limited"),
        ("sndbuf_limited:", "sockets.buffer_limited"),
    ] {
        if let Some(part) = find(key).and_then(share) {
            open.largest(name, part / 100.0);
        }
    }
    if let Some(all) = find("retrans:").and_then(|t| t.split_once('/')?.1.parse::<f64>().ok()) {
        open.add("sockets.retransmits", all);
    }
    if let Some(all) = find("segs_out:").and_then(|t| t.parse::<f64>().ok()) {
        open.add("sockets.segments", all);
    }
    if let Some(rtt) = find("rtt:").and_then(|t| t.split('/').next()?.parse::<f64>().ok()) {
        open.largest("sockets.rtt_ms", rtt);
    }
    if let Some(window) = find("cwnd:").and_then(|t| t.parse::<f64>().ok()) {
        open.smallest("sockets.congestion_window", window);
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lsof_lists_in_close_wait_has_its_program_and_descriptor() {
        let text = "prog 115 root 8u IPv4 70 0t0 TCP *:8888 (LISTEN)\nprog 115 root 27u IPv4 71 0t0 TCP h:1->192.0.2.5:2 (ESTABLISHED)\n\nlater\nprog 115 root 27u IPv4 71 0t0 TCP h:1->192.0.2.5:2 (CLOSE_WAIT)\nprog 115 root 27u IPv4 71 0t0 TCP h:1->192.0.2.5:2 (CLOSE_WAIT)\n";
        let found = held(&text.lines().collect::<Vec<_>>()).unwrap();
        assert_eq!(found.rows.len(), 1);
        assert_eq!(found.rows[0].label, "prog 27u");
        assert_eq!(
            found.rows[0].place,
            "PID 115, h:1->192.0.2.5:2 CLOSE_WAIT, ESTABLISHED before"
        );
        assert!(held(&["prog 115 root 27u IPv4 71 0t0 TCP h:1->h:2 (ESTABLISHED)"]).is_none());
    }
}
