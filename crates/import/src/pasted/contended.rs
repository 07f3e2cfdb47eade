//! Waits for locks with how long they took and where: a stack below a line with its time, as scripts of bpftrace and
//! tracers of one's own write them, and the tables of `perf lock contention`.
//!
//! The surprise is whose name tells most: not the lock's own functions, which stand innermost and are the same
//! everywhere, but the first frame that is none of them.

use super::events::{artefact, told};
use super::pieces::{pieces, seconds, short, time_at};
use record::pasted::{Artefact, Row};

/// Words of a line that says that a lock was waited for.
const WAITED: [&str; 8] = [
    "contended",
    "contention",
    "waited",
    "waiting",
    "blocked",
    "lock",
    "mutex",
    "acquire",
];
/// Parts of the names of functions that take a lock.
const LOCKS: [&str; 11] = [
    "mutex",
    "rwsem",
    "futex",
    "lock(",
    "lock_slow",
    "_lock",
    "::lock",
    "rwlock",
    "semaphore",
    "sem_wait",
    "lockguard",
];
/// Functions below which all that sleeps stands.
const SLEEPS: [&str; 4] = [
    "schedule",
    "finish_task_switch",
    "do_syscall",
    "entry_SYSCALL",
];
/// Frames among which the first of a lock is.
const INNERMOST: usize = 3;
/// Callers that are told.
const CALLERS: usize = 2;

/// Waits of either form.
pub(super) fn read(lines: &[&str]) -> Option<Artefact> {
    let mut found = artefact("waits for locks", 0);
    let (mut at, mut blocker, mut in_table) = (0, None, false);
    while at < lines.len() {
        let line = lines[at].trim();
        let number = at as u32 + 1;
        at += 1;
        blocker = blocked_by(line).or(blocker);
        if is_head(line) {
            in_table = true;
            continue;
        }
        if let Some((row, s, n)) = in_table.then(|| counted(line)).flatten() {
            put(&mut found, number, (row, s), n);
            continue;
        }
        in_table &= line.is_empty();
        let Some((s, written)) = waited(line) else {
            continue;
        };
        let frames = lines[at..].iter().map_while(|l| frame(l));
        let frames: Vec<&str> = frames.collect();
        if let Some((place, callers)) = place(&frames) {
            let below = match callers.is_empty() {
                true => String::new(),
                false => format!(", below {}", callers.join(" < ")),
            };
            let by = blocker
                .take()
                .map_or(String::new(), |b| format!(", blocked by {b}"));
            found.largest("contended.holders", f64::from(u8::from(!by.is_empty())));
            let row = Row {
                label: short(place),
                place: format!("{written}{below}{by}"),
                share: s,
            };
            put(&mut found, number, (row, s), 1.0);
            at += frames.len();
        }
    }
    found.largest_first();
    let rows = found.rows.len() as f64;
    found.figures.insert("contended.rows".into(), rows);
    told(found)
}

fn put(found: &mut Artefact, line: u32, (row, longest): (Row, f64), n: f64) {
    found.begin_at(line);
    found.add("contended.count", n);
    found.largest("contended.longest_s", longest);
    found.rows.push(row);
}

/// The time of a line that says that a lock was waited for, and no more than that: `[contended 33 ms] tid=7`.
fn waited(line: &str) -> Option<(f64, String)> {
    let lower = line.to_ascii_lowercase();
    // A dump of threads quotes their names, and its times are of their lives.
    let says = WAITED.iter().any(|w| lower.contains(w)) && !line.starts_with('"');
    let parts = pieces(line);
    let mut times = (0..parts.len()).filter_map(|at| time_at(&parts, at));
    let (s, written, _) = times.next().filter(|_| says && parts.len() <= 16)?;
    Some((s, written))
}

/// `next_slot blocked by append:`: who holds it.
fn blocked_by(line: &str) -> Option<&str> {
    let (_, by) = line
        .split_once(" blocked by ")
        .or_else(|| line.split_once(" held by "))?;
    let by = by.trim_end_matches(':').trim_matches('`');
    (!by.is_empty() && by.split_whitespace().count() <= 3).then_some(by)
}

/// A frame in a line that is set in, without its number, address, library and offset.
fn frame(line: &str) -> Option<&str> {
    let text = line.trim_start();
    let set_in = text.len() < line.len() || text.starts_with('#');
    let numbered = text.strip_prefix('#').and_then(|t| t.split_once(' '));
    let mut text = numbered.map_or(text, |(_, t)| t).trim();
    text = text.strip_prefix("at ").unwrap_or(text);
    if let Some((_, behind)) = text.strip_prefix("0x").and_then(|t| t.split_once(' ')) {
        text = behind.trim_start().trim_start_matches("in ");
    }
    let begins = text.starts_with(|c: char| c.is_ascii_alphabetic() || "_~*<".contains(c));
    (set_in && begins).then(|| text.split("+0x").next().unwrap_or(text))
}

/// Whether a frame takes a lock or stands below all that sleeps.
fn is_lock(frame: &str) -> bool {
    let name = frame.to_ascii_lowercase();
    let other = name.contains("unlock") || name.contains("block");
    !other && LOCKS.iter().any(|l| name.contains(l)) || SLEEPS.iter().any(|s| frame.contains(s))
}

/// The first frame behind those of a lock, and its callers.
fn place<'a>(frames: &[&'a str]) -> Option<(&'a str, Vec<&'a str>)> {
    let lock = |f: &&str| {
        let sleeps = SLEEPS.iter().any(|s| f.contains(s));
        is_lock(f) && !sleeps
    };
    frames.iter().take(INNERMOST).find(|f| lock(f))?;
    let at = frames.iter().position(|f| !is_lock(f))?;
    let name = |f: &&'a str| f.split_once('(').map_or(*f, |(name, _)| name);
    let callers = frames[at + 1..].iter().take(CALLERS).map(name);
    Some((frames[at], callers.collect()))
}

/// The head of a table of `perf lock contention`.
fn is_head(line: &str) -> bool {
    let words: Vec<&str> = line.split_whitespace().collect();
    line.starts_with("contended") && line.contains("total wait") && words.len() >= 5
}

/// `199    454.54 ms     66.55 ms      2.28 ms     rwsem:W   lock_mm_and_find_vma+0x91`.
fn counted(line: &str) -> Option<(Row, f64, f64)> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [n, total, of_total, most, of_most, _, _, kind, rest @ ..] = words.as_slice() else {
        return None;
    };
    let n: f64 = n.parse().ok()?;
    let total_s = seconds(&format!("{total}{of_total}"))?;
    let most_s = seconds(&format!("{most}{of_most}"))?;
    let place = rest
        .first()
        .map_or(*kind, |p| p.split("+0x").next().unwrap_or(p));
    let row = Row {
        label: short(place),
        place: format!(
            "{kind}, {n:.0} times, {total} {of_total} in all, {most} {of_most} the longest"
        ),
        share: total_s,
    };
    Some((row, most_s, n))
}

#[cfg(test)]
mod tests {
    use super::super::events::written;
    use super::*;

    fn rows(text: &str) -> Option<Vec<String>> {
        read(&text.lines().collect::<Vec<_>>()).map(|a| written(&a))
    }

    #[test]
    fn the_first_frame_that_is_no_locks_is_told_with_who_holds_it() {
        let text = "waited 120ms for a mutex, pid 7\n    futex_wait+0x12\n    __lll_lock_wait+0x1d\n    \
            Cache::size() const+0x20\n    Server::stats()+0x4\n    main\n\n\
            `get` blocked by `flush`:\nlock contention: 80 ms\n  #0 0x7f12 in pthread_mutex_lock\n  #1 0x55aa in Cache::get(int)\n";
        assert_eq!(
            rows(text).expect("two waits"),
            [
                "Cache::size() const: 120ms, below Server::stats < main",
                "Cache::get(int): 80 ms, blocked by flush"
            ]
        );
        // A stack without a lock's functions, and a time without a stack.
        assert!(rows("waited 120ms\n    read+0x1\n    main\n").is_none());
        assert!(rows("lock held for 120 ms\nand more\n").is_none());
    }

    #[test]
    fn the_table_of_perf_lock_is_read() {
        let text = " contended   total wait     max wait     avg wait         type   caller\n\n\
            \x20      12     30.10 ms      9.55 ms      2.51 ms     rwsem:R   do_fault+0x9\n\
            \x20     199    454.54 ms     66.55 ms      2.28 ms     rwsem:W   mmap_write+0x91\n";
        let found = read(&text.lines().collect::<Vec<_>>()).expect("two rows");
        assert_eq!(
            written(&found)[0],
            "mmap_write: rwsem:W, 199 times, 454.54 ms in all, 66.55 ms the longest"
        );
        assert_eq!(found.value("contended.count"), Some(211.0));
    }
}
