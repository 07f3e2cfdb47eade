//! Locks by who holds them and who waits: `/proc/locks` and `lslocks` with their files, and PostgreSQL's `pg_locks` by
//! table, each lock a row or counted.
//!
//! What is told is a lock that somebody waits for, with the holder beside it. The surprise of `/proc/locks` is the
//! waiter, which stands below its lock with an arrow and has the holder's number where it is the same process.

use super::events::{artefact, told};
use super::pieces::{short, value};
use record::pasted::{Artefact, Row};

/// All of them in a text.
pub(super) fn read(lines: &[&str]) -> Vec<Artefact> {
    let mut done = Vec::new();
    done.extend(of_the_kernel(lines));
    done.extend(of_tables(lines));
    done
}

/// A lock of the kernel's list.
struct Held<'a> {
    number: u32,
    kind: &'a str,
    inode: &'a str,
    pid: &'a str,
    waiters: Vec<&'a str>,
}

/// `14: FLOCK  ADVISORY  WRITE 1 00:89:1549948 0 EOF`, and `14: -> FLOCK ...` for who waits.
fn of_the_kernel(lines: &[&str]) -> Option<Artefact> {
    let mut all: Vec<Held<'_>> = Vec::new();
    for (number, line) in (1_u32..).zip(lines) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let kinds = ["FLOCK", "POSIX", "OFDLCK", "LEASE"];
        let at = words.iter().position(|w| kinds.contains(w));
        let known = at.and_then(|at| listed(&words, at).or_else(|| by_name(&words, at)));
        let Some((kind, pid, inode, waits)) = known else {
            continue;
        };
        match all.iter_mut().find(|h| h.inode == inode) {
            Some(held) if waits => held.waiters.push(pid),
            _ => all.push(Held {
                number,
                kind,
                inode,
                pid,
                waiters: if waits { vec![pid] } else { Vec::new() },
            }),
        }
    }
    let mut found = artefact("locks of files", 0);
    for held in &all {
        found.begin_at(held.number);
        found.add("filelocks.held", 1.0);
        let n = held.waiters.len();
        found.add("filelocks.waiting", n as f64);
        if n == 0 {
            continue;
        }
        let own = held.waiters.iter().filter(|w| **w == held.pid).count();
        found.largest("filelocks.own", own as f64);
        let name = file_of(lines, held.inode);
        let label = match name {
            _ if held.inode.starts_with('/') => held.inode.to_owned(),
            Some(name) => format!("{name} (inode {})", held.inode),
            None => format!("inode {}", held.inode),
        };
        let session = label.contains("sess_") || label.contains("session");
        found.largest("filelocks.session", f64::from(u8::from(session)));
        let place = format!("{}, held by process {}, {n} waiting", held.kind, held.pid);
        found.rows.push(Row {
            label: short(&label),
            place,
            share: n as f64,
        });
    }
    found.largest_first();
    let rows = found.rows.len() as f64;
    found.figures.insert("filelocks.rows".into(), rows);
    told(found)
}

/// Kind, process, inode or path, and whether it waits.
type Known<'a> = (&'a str, &'a str, &'a str, bool);

/// A row of `/proc/locks`.
fn listed<'a>(words: &[&'a str], at: usize) -> Option<Known<'a>> {
    let [kind, _, _, pid, place, ..] = words.get(at..)? else {
        return None;
    };
    let inode = place
        .rsplit(':')
        .next()
        .filter(|_| place.matches(':').count() == 2)?;
    Some((kind, pid, inode, words[..at].contains(&"->")))
}

/// A row of `lslocks`: `php-fpm 2113 FLOCK 1K WRITE* 0 0 0 /sessions/sess_a`, where the star marks who waits.
fn by_name<'a>(words: &[&'a str], at: usize) -> Option<Known<'a>> {
    let pid = *words.get(at.checked_sub(1)?)?;
    pid.parse::<u32>().ok()?;
    let path = *words.last().filter(|w| w.starts_with('/'))?;
    let mode = words[at..]
        .iter()
        .find(|w| w.starts_with("WRITE") || w.starts_with("READ"))?;
    Some((words[at], pid, path, mode.ends_with('*')))
}

/// The file with that inode, by the output of `stat`, `ls -i` or `find -inum`, or by the command above it.
fn file_of<'a>(lines: &[&'a str], inode: &str) -> Option<&'a str> {
    let is_path = |w: &&str| w.contains('/') && !w.starts_with('-');
    let at = lines.iter().position(|l| {
        let mut words = l.split_whitespace();
        words.any(|w| w == inode)
    })?;
    let within = lines[at].split_whitespace().find(is_path);
    within.or_else(|| {
        let above = lines[..at].last()?;
        above.split_whitespace().rfind(is_path)
    })
}

/// Cells of a line at its bars.
fn cells(line: &str) -> Vec<&str> {
    let line = line.trim().trim_matches(['|', '\u{2502}']);
    line.split(['|', '\u{2502}']).map(str::trim).collect()
}

/// A row of a table of locks.
struct Lock<'a> {
    mode: &'a str,
    of: &'a str,
    granted: bool,
    n: f64,
    more: String,
}

/// Tables with the columns `mode` and `granted`, and a table's or an object's name.
fn of_tables(lines: &[&str]) -> Option<Artefact> {
    let mut found = artefact("locks by table", 0);
    let mut head: Vec<&str> = Vec::new();
    let mut all: Vec<Lock<'_>> = Vec::new();
    for (number, line) in (1_u32..).zip(lines) {
        if !line.contains(['|', '\u{2502}']) {
            continue;
        }
        let row = cells(line);
        let has = |name: &str| row.iter().any(|c| c.eq_ignore_ascii_case(name));
        if has("mode") && has("granted") && (has("relation") || has("relname") || has("table")) {
            head = row;
            found.begin_at(number);
            continue;
        }
        let at = |names: &[&str]| {
            let at = head
                .iter()
                .position(|h| names.iter().any(|n| h.eq_ignore_ascii_case(n)))?;
            row.get(at).copied().filter(|c| !c.is_empty())
        };
        let (Some(mode), Some(granted)) = (at(&["mode"]), at(&["granted"])) else {
            continue;
        };
        let waited = head.iter().zip(&row).find(|(h, c)| {
            let h = h.to_ascii_lowercase();
            ["wait", "age", "duration"].iter().any(|w| h.contains(w)) && !c.is_empty()
        });
        all.push(Lock {
            mode,
            of: at(&["relation", "relname", "table"]).unwrap_or("-"),
            granted: granted.starts_with(['t', 'T', '1']),
            n: at(&["count", "backends", "n", "locks"])
                .and_then(value)
                .unwrap_or(1.0),
            more: waited.map_or_else(String::new, |(h, c)| format!(", {h} {c}")),
        });
    }
    let strong = |mode: &str| mode.contains("AccessExclusive");
    for lock in &all {
        let name = match lock.granted {
            true => "tablelocks.granted",
            false => "tablelocks.waiting",
        };
        found.add(name, lock.n);
        if lock.granted {
            continue;
        }
        let beside = all.iter().filter(|l| l.granted && l.of == lock.of);
        let beside: Vec<&str> = beside.map(|l| l.mode).collect();
        if strong(lock.mode) || beside.iter().any(|m| strong(m)) {
            found.figures.insert("tablelocks.exclusive".into(), 1.0);
        }
        let holds = match beside.is_empty() {
            true => String::new(),
            false => format!("; granted there: {}", beside.join(", ")),
        };
        found.rows.push(Row {
            label: lock.of.to_owned(),
            place: format!("{} waiting for {}{}{holds}", lock.n, lock.mode, lock.more),
            share: lock.n,
        });
    }
    found.largest_first();
    let rows = found.rows.len() as f64;
    found.figures.insert("tablelocks.rows".into(), rows);
    told(found).filter(|_| rows > 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waits_stands_below_the_holder() {
        let text = "1: FLOCK  ADVISORY  WRITE 7 00:89:42 0 EOF\n1: -> FLOCK  ADVISORY  WRITE 7 00:89:42 0 EOF\n2: POSIX  ADVISORY  READ 9 08:01:77 0 EOF\n$ stat -c %i /tmp/sess_a\n42\n";
        let found = of_the_kernel(&text.lines().collect::<Vec<_>>()).unwrap();
        assert_eq!(found.rows[0].label, "/tmp/sess_a (inode 42)");
        assert_eq!(found.rows[0].place, "FLOCK, held by process 7, 1 waiting");
        assert_eq!(found.value("filelocks.session"), Some(1.0));
        assert_eq!(found.value("filelocks.waiting"), Some(1.0));
    }

    #[test]
    fn a_table_is_told_with_what_is_granted_there() {
        let text = "mode | granted | relation | backends | oldest_wait_ms\nAccessShareLock | f | orders | 3 | 4235\nAccessExclusiveLock | t | orders | 1 |\n";
        let found = of_tables(&text.lines().collect::<Vec<_>>()).unwrap();
        assert_eq!(found.rows[0].label, "orders");
        assert_eq!(
            found.rows[0].place,
            "3 waiting for AccessShareLock, oldest_wait_ms 4235; granted there: AccessExclusiveLock"
        );
    }
}
