//! Lines of strace without the time of each call: which is made how often, fails, and polls for nothing.
//!
//! A stamp before each line (`-r`, `-tt`, `-ttt`) says what stands between two calls: the call and what the program did
//! after it. The surprise is what a line may begin with: a process in brackets or bare, a clock, seconds since the line
//! above. Text that is cut off ends in the middle of a call, which was made nevertheless.

use super::events::{WAITS, artefact, clock, timed_call, told};
use super::pieces::by_sixties;
use super::{heads, lookups, missing};
use record::pasted::{Artefact, Row};
use std::collections::BTreeMap;

/// Fewer lines of strace than this say nothing about shares of its calls.
const FEWEST_LINES: usize = 4;
/// Fewer reads of one file are nothing to name.
const FEWEST_READS: f64 = 3.0;
/// A shorter time limit is a look, ms.
const LONG_MS: f64 = 100.0;
/// Parts of the paths of sockets at which names and users are looked up.
const LOOKUPS: [&str; 4] = ["nscd", "resolve", "sssd", "winbind"];
/// Seconds since the line above are small; with `-ttt` they are those since 1970.
const EPOCH_S: f64 = 1e8;

const MONTHS: [&str; 12] = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
];

/// A call of one line.
pub(super) struct Call<'a> {
    pub(super) line: u32,
    pub(super) name: &'a str,
    pub(super) rest: &'a str,
    stamp: Option<f64>,
    pub(super) process: Option<&'a str>,
}

/// All lines of calls, and where they have stamps, the time by call.
pub(super) fn read(lines: &[&str]) -> Vec<Artefact> {
    let calls: Vec<Call<'_>> = (1_u32..)
        .zip(lines)
        .filter_map(|(number, line)| call(line, number))
        .collect();
    if lines.iter().any(|l| timed_call(l).is_some()) {
        // Calls with their times are read elsewhere; what follows what is not.
        let (lost, won) = accepts(&calls);
        let mut found = artefact("strace", calls.first().map_or(0, |c| c.line));
        if lost > 0.0 {
            found.add("strace.accepts_lost", lost);
            found.add("strace.accepts_won", won);
        }
        let lost = (lost > 0.0).then_some(found);
        let beside = [
            lost,
            file_read(&calls),
            unanswered(&calls),
            lookups::read(&calls),
            missing::read(&calls),
            heads::read(&calls),
        ];
        return beside.into_iter().flatten().collect();
    }
    if calls.len() < FEWEST_LINES {
        return Vec::new();
    }
    let mut done = vec![counted(&calls)];
    done.extend(unanswered(&calls));
    done.extend(lookups::read(&calls));
    done.extend(missing::read(&calls));
    done.extend(heads::read(&calls));
    done.extend(stamped(&calls));
    done.extend(file_read(&calls));
    done
}

/// Waits for a peer that ended without its answer, where the connection to it is among the lines.
fn unanswered(calls: &[Call<'_>]) -> Option<Artefact> {
    let mut peers: BTreeMap<(Option<&str>, &str), String> = BTreeMap::new();
    let mut found = artefact("waits without an answer", 0);
    for call in calls {
        if call.name == "connect"
            && let Some((fd, address)) = call.rest.split_once(", ")
            && let Some(peer) = peer(address)
        {
            peers.insert((call.process, fd), peer);
        }
        if !WAITS.contains(&call.name) || !call.rest.contains("= 0 (Timeout)") {
            continue;
        }
        let fd = call.rest.split_once("{fd=").map(|(_, rest)| rest);
        let fd = fd.and_then(|rest| rest.split([',', '}']).next());
        // The time limit is the last argument, ms.
        let limit = call.rest.split(')').next();
        let limit = limit.and_then(|args| args.rsplit_once(", ")?.1.parse::<f64>().ok());
        let peer = fd.and_then(|fd| peers.get(&(call.process, fd)));
        let (Some(peer), Some(limit)) = (peer, limit.filter(|ms| *ms >= LONG_MS)) else {
            continue;
        };
        found.begin_at(call.line);
        found.add("unanswered.rows", 1.0);
        found.largest("unanswered.s", limit / 1e3);
        let looks_up = peer.ends_with(":53") || LOOKUPS.iter().any(|part| peer.contains(part));
        found.add("unanswered.lookups", f64::from(u8::from(looks_up)));
        found.rows.push(Row::new(peer.clone(), 1.0));
    }
    found.settle();
    told(found)
}

/// The peer of `{sa_family=AF_UNIX, sun_path="/run/x"}`, `{sa_family=AF_INET, sin_port=htons(53),
/// sin_addr=inet_addr("1.1.1.1")}` and its like.
pub(super) fn peer(address: &str) -> Option<String> {
    let quoted = |from: &str| address.split_once(from)?.1.split('"').nth(1);
    if let Some(path) = quoted("sun_path=") {
        return Some(path.to_owned());
    }
    let (_, port) = address.split_once("_port=htons(")?;
    let port = port.split(')').next()?;
    let ip = quoted("inet_addr(").or_else(|| quoted("inet_pton("))?;
    Some(match ip.contains(':') {
        true => format!("[{ip}]:{port}"),
        false => format!("{ip}:{port}"),
    })
}

/// The file that most reads are of, where its opening is among the lines.
fn file_read(calls: &[Call<'_>]) -> Option<Artefact> {
    let mut open: BTreeMap<(Option<&str>, &str), &str> = BTreeMap::new();
    // Reads, bytes, how often it was opened.
    let mut files: BTreeMap<&str, (f64, f64, f64)> = BTreeMap::new();
    for call in calls {
        let returned = call.rest.rsplit_once(" = ");
        let returned = returned.and_then(|(_, n)| n.split_whitespace().next());
        let of = |descriptor| (call.process, descriptor);
        match call.name {
            "open" | "openat" => {
                let path = call.rest.split('"').nth(1);
                if let Some((path, descriptor)) = path.zip(returned).filter(|(_, d)| *d != "-1") {
                    open.insert(of(descriptor), path);
                    files.entry(path).or_default().2 += 1.0;
                }
            }
            "close" => {
                open.remove(&of(call.rest.split(')').next().unwrap_or_default()));
            }
            "read" | "pread64" | "readv" => {
                let descriptor = call.rest.split(',').next().unwrap_or_default();
                let bytes = returned.and_then(|n| n.parse::<f64>().ok());
                if let Some((path, bytes)) = open.get(&of(descriptor)).zip(bytes) {
                    let file = files.entry(path).or_default();
                    (file.0, file.1) = (file.0 + 1.0, file.1 + bytes);
                }
            }
            _ => {}
        }
    }
    let (path, (reads, bytes, opened)) = files
        .into_iter()
        .max_by(|(_, a), (_, b)| a.0.total_cmp(&b.0))?;
    if reads < FEWEST_READS && opened < FEWEST_READS {
        return None;
    }
    let mut found = artefact("file that is read", calls[0].line);
    for (name, n) in [("reads", reads), ("bytes", bytes), ("opened", opened)] {
        found.figures.insert(format!("file.{name}"), n);
    }
    found.rows.push(Row::new(path, reads));
    Some(found)
}

fn counted(calls: &[Call<'_>]) -> Artefact {
    let mut found = artefact("strace", calls[0].line);
    let all = calls.len() as f64;
    for call in calls {
        let one = |yes: bool| f64::from(u8::from(yes));
        found.add("strace.failing", one(call.rest.contains(" = -1 E")));
        found.add("strace.missing", one(call.rest.contains(" = -1 ENOENT")));
        found.add("strace.empty_polls", one(polls_for_nothing(call)));
        found.rows.push(Row::new(call.name.to_owned(), 1.0 / all));
    }
    found.settle();
    let most = found.rows.first().map_or(0.0, |r| r.share);
    let (lost, won) = accepts(calls);
    let known = [
        ("accepts_lost", lost),
        ("accepts_won", won),
        ("lines", all),
        ("most", most),
        ("idle_wakeups", idle_wakeups(calls)),
        ("reads_at_end", reads_at_end(calls)),
    ];
    for (name, value) in known {
        found.figures.insert(format!("strace.{name}"), value);
    }
    found
}

const POLLS: [&str; 6] = [
    "poll",
    "ppoll",
    "select",
    "pselect6",
    "epoll_wait",
    "epoll_pwait",
];

fn polls_for_nothing(call: &Call<'_>) -> bool {
    let rest = call.rest;
    let at_once =
        rest.contains("{0, 0}") || rest.contains(", 0) ") || rest.contains("tv_sec=0, tv_nsec=0");
    POLLS.contains(&call.name) && at_once && rest.contains(" = 0")
}

/// Whether a wait ended because something is ready.
fn woken(call: &Call<'_>) -> bool {
    let returned = call.rest.rsplit_once(" = ");
    let ready = returned.and_then(|(_, n)| n.split_whitespace().next()?.parse::<u32>().ok());
    POLLS.contains(&call.name) && ready.is_some_and(|n| n > 0)
}

/// Accepts right behind a wait that said ready: those that got no connection, because another process took it, and
/// those that got one. A loop that accepts until nothing is left has its EAGAIN behind another accept.
fn accepts(calls: &[Call<'_>]) -> (f64, f64) {
    let mut last: BTreeMap<Option<&str>, bool> = BTreeMap::new();
    let (mut lost, mut won) = (0.0, 0.0);
    for call in calls {
        let before = last.insert(call.process, woken(call));
        if before == Some(true) && call.name.starts_with("accept") {
            let nothing = call.rest.contains(" = -1 EAGAIN");
            lost += f64::from(u8::from(nothing));
            won += f64::from(u8::from(!call.rest.contains(" = -1 E")));
        }
    }
    (lost, won)
}

/// How often a loop was told of ready descriptors and did nothing with any of them before it waited again.
fn idle_wakeups(calls: &[Call<'_>]) -> f64 {
    let clock = |name: &str| name.starts_with("clock_") || ["gettimeofday", "time"].contains(&name);
    let mut last: BTreeMap<Option<&str>, bool> = BTreeMap::new();
    let mut idle = 0.0;
    for call in calls.iter().filter(|c| !clock(c.name)) {
        let before = last.insert(call.process, woken(call));
        idle += f64::from(u8::from(before == Some(true) && woken(call)));
    }
    idle
}

/// Calls that take what has come from a descriptor.
pub(super) const TAKES: [&str; 5] = ["read", "recv", "recvfrom", "recvmsg", "readv"];

/// How often a loop was told that a descriptor is ready, read the end of its connection from it and kept it: the most
/// of one descriptor. What was closed or came anew begins again.
fn reads_at_end(calls: &[Call<'_>]) -> f64 {
    let mut woken_before: BTreeMap<Option<&str>, bool> = BTreeMap::new();
    let mut ends: BTreeMap<(Option<&str>, &str), f64> = BTreeMap::new();
    let mut most = 0.0_f64;
    for call in calls {
        let before = woken_before.insert(call.process, woken(call));
        let descriptor = call.rest.split([',', ')', '<']).next().unwrap_or_default();
        let key = (call.process, descriptor);
        let returned = call.rest.rsplit_once(" = ").map(|(_, n)| n.trim());
        if !TAKES.contains(&call.name) {
            if ["close", "shutdown"].contains(&call.name) {
                ends.remove(&key);
            }
            continue;
        }
        match (returned, before) {
            (Some("0"), Some(true)) => {
                let n = ends.entry(key).or_default();
                *n += 1.0;
                most = most.max(*n);
            }
            (Some("0"), _) => {}
            _ => {
                ends.remove(&key);
            }
        }
    }
    most
}

/// Seconds by call, from the stamps of one process: a call's time ends at the next line's stamp.
fn stamped(calls: &[Call<'_>]) -> Option<Artefact> {
    let stamps: Vec<f64> = calls.iter().map(|c| c.stamp).collect::<Option<_>>()?;
    if calls.iter().any(|c| c.process != calls[0].process) {
        return None;
    }
    let relative = stamps.iter().all(|s| *s < EPOCH_S) && !stamps.is_sorted();
    let mut found = artefact("stamps of strace", calls[0].line);
    for (call, pair) in calls.iter().zip(stamps.windows(2)) {
        let seconds = match relative {
            true => pair[1],
            false => pair[1] - pair[0],
        };
        if seconds > 0.0 && !WAITS.contains(&call.name) {
            found.largest("strace.stamp_longest_s", seconds);
            found.rows.push(Row::new(call.name.to_owned(), seconds));
        }
    }
    let all: f64 = found.rows.iter().map(|r| r.share).sum();
    found.rows.iter_mut().for_each(|r| r.share /= all);
    found.settle();
    found.figures.insert("strace.stamped_s".into(), all);
    (all > 0.0).then_some(found)
}

/// `[pid 12] 10:00:00 futex(...) = 0`, `12 0.0001 lstat("/mnt", ...) = 0`: what stands before the call, and the call.
fn call(line: &str, number: u32) -> Option<Call<'_>> {
    let (mut stamp, mut process) = (None, None);
    let mut line = line.trim();
    if let Some(rest) = line.strip_prefix("[pid") {
        let (id, rest) = rest.split_once(']')?;
        (process, line) = (Some(id.trim()), rest.trim_start());
    }
    // The date of a journal, a process, then a stamp.
    let mut words = line.splitn(3, ' ');
    if let (Some(month), Some(day), Some(rest)) = (words.next(), words.next(), words.next())
        && MONTHS.contains(&month)
        && day.parse::<u8>().is_ok()
    {
        line = rest;
    }
    for _ in 0..2 {
        let Some((word, rest)) = line.split_once(' ') else {
            break;
        };
        if process.is_none() && stamp.is_none() && word.parse::<u32>().is_ok() {
            process = Some(word);
        } else if let Some(at) = clock(word).filter(|_| stamp.is_none()) {
            stamp = Some(at);
        } else if !in_whole_seconds(word) {
            break;
        }
        line = rest.trim_start();
    }
    // What was begun on another line (`<... futex resumed>`) is counted there.
    let (name, rest) = line.split_once('(')?;
    let returned =
        rest.contains(") = ") || rest.contains(")  ") || rest.ends_with("<unfinished ...>");
    let arguments = |c: char| "\"{[-".contains(c) || c.is_ascii_digit() || c.is_ascii_uppercase();
    let begun = (stamp.is_some() || process.is_some()) && rest.starts_with(arguments);
    (is_name(name) && (returned || begun)).then_some(Call {
        line: number,
        name,
        rest,
        stamp,
        process,
    })
}

/// `21:20:58`, as `-t` and a journal have it: too coarse to be the time of a call.
fn in_whole_seconds(word: &str) -> bool {
    word.len() == "21:20:58".len() && word.contains(':') && by_sixties(word).is_some()
}

fn is_name(name: &str) -> bool {
    name.len() > 2
        && name.starts_with(|c: char| c.is_ascii_lowercase())
        && name
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn artefacts(text: &str) -> Vec<Artefact> {
        read(&text.lines().collect::<Vec<_>>())
    }

    #[test]
    fn a_stamp_since_the_line_above_is_the_time_of_the_call_above() {
        let text = "\
0.000048 lstat(\"/mnt\", {...}) = 0
0.000100 lstat(\"/mnt/a\", {...}) = 0
0.057575 open(\"/mnt/a/b\", O_RDONLY) = 3
0.000200 close(3) = 0
0.000010 lstat(\"/x\", {...
";
        let [calls, stamps] = artefacts(text).try_into().unwrap();
        assert_eq!(calls.value("strace.lines"), Some(5.0));
        assert_eq!(stamps.rows[0].label, "lstat");
        assert!((stamps.rows[0].share - 0.057_675 / 0.057_885).abs() < 1e-9);
        assert_eq!(stamps.value("strace.stamp_longest_s"), Some(0.057_575));
    }

    #[test]
    fn a_clock_is_no_time_since_the_line_above() {
        let text = "\
10:00:00.100 read(3, \"\", 1) = 1
10:00:00.400 write(4, \"\", 1) = 1
10:00:00.500 epoll_wait(5, [], 1, 9) = 0
10:00:09.500 close(3) = 0
";
        let stamps = &artefacts(text)[1];
        assert_eq!(stamps.rows[0].label, "read");
        // The wait for work is left out.
        let all = stamps.value("strace.stamped_s").unwrap();
        assert!((all - 0.4).abs() < 1e-9, "{all}");
    }

    #[test]
    fn a_loop_that_is_woken_and_does_nothing_is_told_from_one_that_works() {
        let wait = "epoll_wait(5, [{EPOLLOUT, {u32=16, u64=16}}], 200, 125) = 1\n";
        let clock = "clock_gettime(CLOCK_THREAD_CPUTIME_ID, {1, 2}) = 0\n";
        let idle = |text: &str| artefacts(text)[0].value("strace.idle_wakeups");
        assert_eq!(
            idle(&format!("{wait}{clock}{clock}{wait}{clock}{wait}")),
            Some(2.0)
        );
        let read = "recvfrom(16, \"x\", 1) = 1\n";
        assert_eq!(
            idle(&format!("{wait}{read}{wait}{clock}{read}{wait}")),
            Some(0.0)
        );
    }

    #[test]
    fn a_wait_without_an_answer_names_whom_it_was_for() {
        for (text, peer, lookups) in [
            (
                "21:20:58 socket(AF_UNIX, SOCK_STREAM, 0) = 5\n21:20:58 connect(5, {sa_family=AF_UNIX, sun_path=\"/var/run/nscd/socket\"}, 110) = 0\n21:20:58 sendto(5, \"\\2\", 29, MSG_NOSIGNAL, NULL, 0) = 29\n21:20:58 poll([{fd=5, events=POLLIN}], 1, 5000) = 0 (Timeout)\n21:21:03 close(5) = 0\n",
                "/var/run/nscd/socket",
                1.0,
            ),
            (
                "Jul 01 13:55:25 socket(AF_INET, SOCK_DGRAM, IPPROTO_IP) = 3\nJul 01 13:55:25 connect(3, {sa_family=AF_INET, sin_port=htons(53), sin_addr=inet_addr(\"192.0.2.1\")}, 16) = 0\nJul 01 13:55:25 poll([{fd=3, events=POLLOUT}], 1, 0) = 1 ([{fd=3, revents=POLLOUT}])\nJul 01 13:55:30 poll([{fd=3, events=POLLIN}], 1, 4981) = 0 (Timeout)\n",
                "192.0.2.1:53",
                1.0,
            ),
            (
                "[pid 7] connect(9, {sa_family=AF_INET6, sin6_port=htons(6379), inet_pton(AF_INET6, \"::1\", &sin6_addr)}, 28) = 0\n[pid 7] write(9, \"x\", 1) = 1\n[pid 8] poll([{fd=9, events=POLLIN}], 1, 900) = 0 (Timeout)\n[pid 7] poll([{fd=9, events=POLLIN}], 1, 900) = 0 (Timeout)\n",
                "[::1]:6379",
                0.0,
            ),
        ] {
            let all = artefacts(text);
            let found = all.iter().find(|a| a.tool == "waits without an answer");
            let found = found.expect("it is told");
            assert_eq!(found.rows[0].label, peer, "{text}");
            assert_eq!(found.figures["unanswered.rows"], 1.0, "{text}");
            assert_eq!(found.figures["unanswered.lookups"], lookups, "{text}");
        }
    }

    #[test]
    fn a_bare_process_and_a_call_that_is_cut_off_are_read() {
        let line = "1193677 access(\"/var/www/a\", F_OK) = -1 ENOENT (No such file)\n";
        let text = format!("{}1193677 access(\"/var/w", line.repeat(3));
        let calls = &artefacts(&text)[0];
        assert_eq!(calls.value("strace.lines"), Some(4.0));
        assert_eq!(calls.value("strace.missing"), Some(3.0));
        assert!(artefacts(&"12 items(of a list) were lost\n".repeat(9)).is_empty());
    }
}
