//! What /proc says about processes: who is whose child, in which session, started when, by whom.
//!
//! Functions take the root so that tests can fake it. A process may end at any time, so everything
//! about a single one is an `Option`: `None` means that it is gone or not ours to see.

use crate::root::slurp;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Where the running kernel's is mounted.
pub const PROC: &str = "/proc";

/// What `stat` says of a process, or of a thread (proc_pid_stat(5)).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stat {
    /// Its number.
    pub pid: i32,
    /// Its name, at most 15 bytes.
    pub name: String,
    /// `R`, `S`, `D`, ...; `Z` and `X` have ended.
    pub state: char,
    /// Who started it, or took it over.
    pub parent: i32,
    /// Its session (setsid(2)).
    pub session: i32,
    pub minor_faults: u64,
    /// Minor faults of children that ended and were waited for; the other fields of children are alike.
    pub children_minor_faults: u64,
    pub major_faults: u64,
    pub children_major_faults: u64,
    /// Ticks in user mode.
    pub user_ticks: u64,
    /// Ticks in the kernel.
    pub system_ticks: u64,
    pub children_user_ticks: u64,
    pub children_system_ticks: u64,
    /// Nice value: 0 is normal, 19 yields most.
    pub nice: i32,
    pub threads: u64,
    /// Start time in ticks since boot: with the pid it names a process for certain.
    pub start_ticks: u64,
    pub rss_pages: u64,
}

impl Stat {
    /// Reads the text of `stat`; `None` when it is cut.
    pub fn parse(text: &str) -> Option<Self> {
        let (pid, rest) = text.split_once(" (")?;
        // The name may hold anything, brackets included; the last one ends it.
        let (name, rest) = rest.rsplit_once(") ")?;
        let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
        // The state is field 3 of the manual page and the first here.
        let field = |number: usize| fields.get(number - 3).copied();
        let count = |number: usize| field(number)?.parse().ok();
        Some(Self {
            pid: pid.trim().parse().ok()?,
            name: name.to_owned(),
            state: field(3)?.chars().next()?,
            parent: field(4)?.parse().ok()?,
            session: field(6)?.parse().ok()?,
            minor_faults: count(10)?,
            children_minor_faults: count(11)?,
            major_faults: count(12)?,
            children_major_faults: count(13)?,
            user_ticks: count(14)?,
            system_ticks: count(15)?,
            children_user_ticks: count(16)?,
            children_system_ticks: count(17)?,
            nice: field(19)?.parse().ok()?,
            threads: count(20)?,
            start_ticks: count(22)?,
            rss_pages: count(24)?,
        })
    }

    /// It has not ended; one that has waits only for its parent to take note.
    pub fn is_alive(&self) -> bool {
        !matches!(self.state, 'Z' | 'X' | 'x')
    }

    /// When it began, in `CLOCK_BOOTTIME`, ns; to the tick.
    pub fn started_ns(&self) -> u64 {
        self.start_ticks.saturating_mul(tick_ns())
    }

    /// Time in user mode, s.
    pub fn user_s(&self) -> f64 {
        seconds(self.user_ticks)
    }

    /// Time in the kernel, s.
    pub fn system_s(&self) -> f64 {
        seconds(self.system_ticks)
    }

    /// Time in user mode of children that ended and were waited for, and of theirs, s.
    pub fn children_user_s(&self) -> f64 {
        seconds(self.children_user_ticks)
    }

    /// The same in the kernel, s.
    pub fn children_system_s(&self) -> f64 {
        seconds(self.children_system_ticks)
    }
}

/// A tick of the kernel's accounting, ns.
pub fn tick_ns() -> u64 {
    1_000_000_000 / rustix::param::clock_ticks_per_second()
}

/// Ticks of the kernel's accounting, s.
pub fn seconds(ticks: u64) -> f64 {
    ticks as f64 / rustix::param::clock_ticks_per_second() as f64
}

/// One process.
pub fn stat(root: &Path, pid: i32) -> Option<Stat> {
    let text = slurp(&root.join(pid.to_string()).join("stat")).ok()?;
    Stat::parse(&String::from_utf8_lossy(&text))
}

/// The id of each process, rising.
pub fn pids(root: &Path) -> Vec<i32> {
    let mut pids: Vec<i32> = std::fs::read_dir(root)
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect();
    pids.sort_unstable();
    pids
}

/// All processes, by pid; those that have ended but were not waited for are left out.
pub fn living(root: &Path) -> Vec<Stat> {
    let stats = pids(root).into_iter().filter_map(|pid| stat(root, pid));
    stats.filter(Stat::is_alive).collect()
}

/// The process `leader`, its children, their children, and whoever else is in its session: a server that
/// lost its parent on the way still belongs. The leader first, the others by pid.
pub fn family(root: &Path, leader: i32) -> Vec<Stat> {
    let all = living(root);
    let mut members = BTreeSet::from([leader]);
    loop {
        let before = members.len();
        for s in &all {
            if s.session == leader || members.contains(&s.parent) {
                members.insert(s.pid);
            }
        }
        if members.len() == before {
            break;
        }
    }
    let mut family: Vec<Stat> = all
        .into_iter()
        .filter(|s| members.contains(&s.pid))
        .collect();
    family.sort_by_key(|s| (s.pid != leader, s.pid));
    family
}

/// Was the process started with this variable of its environment? A server that overwrites its environment (nginx
/// does, to set its title) has lost it.
pub fn has_variable(root: &Path, pid: i32, name: &str, value: &str) -> bool {
    let wanted = format!("{name}={value}");
    std::fs::read(root.join(pid.to_string()).join("environ"))
        .is_ok_and(|environ| environ.split(|b| *b == 0).any(|v| v == wanted.as_bytes()))
}

/// The working directory, even when it has been removed.
pub fn working_directory(root: &Path, pid: i32) -> Option<PathBuf> {
    let path = std::fs::read_link(root.join(pid.to_string()).join("cwd")).ok()?;
    let text = path.to_str()?;
    Some(PathBuf::from(
        text.strip_suffix(" (deleted)").unwrap_or(text),
    ))
}

/// What its descriptors lead to; empty where they are hidden.
pub fn open_paths(root: &Path, pid: i32) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(root.join(pid.to_string()).join("fd")) else {
        return Vec::new();
    };
    entries
        .filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok())
        .collect()
}

/// The most memory that a process has had resident (`VmHWM`). Unlike the `ru_maxrss` of getrusage(2) it begins anew
/// with the program: that of a child starts at what its parent had when it was forked.
pub fn peak_rss_bytes(root: &Path, pid: i32) -> Option<u64> {
    let status = std::fs::read_to_string(root.join(pid.to_string()).join("status")).ok()?;
    kib_field(&status, "VmHWM").map(|kib| kib * 1024)
}

/// `VmHWM:     1234 kB` of a process' `status`.
pub fn kib_field(status: &str, name: &str) -> Option<u64> {
    let value = |line: &str| {
        line.strip_prefix(name)?
            .strip_prefix(':')
            .map(str::to_owned)
    };
    let value = status.lines().find_map(value)?;
    value.split_ascii_whitespace().next()?.parse().ok()
}

/// The command line, or the title that the process has given itself, as one line.
pub fn command_line(root: &Path, pid: i32) -> Option<String> {
    let bytes = std::fs::read(root.join(pid.to_string()).join("cmdline")).ok()?;
    let text = String::from_utf8_lossy(&bytes).replace('\0', " ");
    Some(text.trim_end().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_hold_brackets_and_spaces() {
        let text = "4711 (ng (x) inx: w) S 4700 4711 4700 0 -1 4194624 \
            1234 6 5 1 700 300 40 20 20 -5 3 0 99 12345678 2500 18446744073709551615 0 0\n";
        let stat = Stat::parse(text).unwrap();
        assert_eq!(
            stat,
            Stat {
                pid: 4711,
                name: "ng (x) inx: w".to_owned(),
                state: 'S',
                parent: 4700,
                session: 4700,
                minor_faults: 1234,
                children_minor_faults: 6,
                major_faults: 5,
                children_major_faults: 1,
                user_ticks: 700,
                system_ticks: 300,
                children_user_ticks: 40,
                children_system_ticks: 20,
                nice: -5,
                threads: 3,
                start_ticks: 99,
                rss_pages: 2500,
            }
        );
        for text in ["", "4711", "4711 (nginx", "4711 (nginx) S 1 2 3"] {
            assert_eq!(Stat::parse(text), None, "{text:?}");
        }
    }

    /// A fake /proc with these `(pid, state, parent, session)`.
    fn fake(processes: &[(i32, char, i32, i32)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (pid, state, parent, session) in processes {
            let dir = root.path().join(pid.to_string());
            std::fs::create_dir(&dir).unwrap();
            let zeros = "0 ".repeat(15);
            let text = format!("{pid} (p) {state} {parent} 0 {session} {zeros}1000 0 0");
            std::fs::write(dir.join("stat"), text).unwrap();
        }
        root
    }

    #[test]
    fn a_family_is_descendants_and_session_without_the_dead() {
        let root = fake(&[
            (1, 'S', 0, 1),
            (50, 'S', 1, 50),
            (10, 'S', 50, 50), // child with a smaller pid
            (11, 'S', 10, 11), // grandchild that left the session
            (12, 'S', 1, 50),  // lost its parent, kept the session
            (13, 'Z', 50, 50), // dead
            (99, 'S', 1, 99),
        ]);
        let pids: Vec<i32> = family(root.path(), 50).iter().map(|s| s.pid).collect();
        assert_eq!(pids, [50, 10, 11, 12]);
        assert_eq!(family(root.path(), 7), []);
        assert_eq!(stat(root.path(), 99).unwrap().start_ticks, 1000);
    }

    #[test]
    fn a_variable_is_whole() {
        let root = fake(&[(5, 'S', 1, 5)]);
        std::fs::write(root.path().join("5/environ"), "A=1\0PRONY_RUN=7-8-9\0B=2\0").unwrap();
        assert!(has_variable(root.path(), 5, "PRONY_RUN", "7-8-9"));
        assert!(!has_variable(root.path(), 5, "PRONY_RUN", "7-8"));
        assert!(!has_variable(root.path(), 6, "PRONY_RUN", "7-8-9"));
    }
}
