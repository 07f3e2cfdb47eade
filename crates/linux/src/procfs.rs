//! What /proc says about processes: who is whose child, in which session, started when, by whom.
//!
//! Functions take the root so that tests can fake it. A process may end at any time, so everything
//! about a single one is an `Option`: `None` means that it is gone or not ours to see.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Where the running kernel's is mounted.
pub const PROC: &str = "/proc";

/// The part of `/proc/PID/stat` that says who a process is (proc_pid_stat(5)).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stat {
    /// Its number.
    pub pid: i32,
    /// Its name, at most 15 bytes.
    pub name: String,
    /// `R`, `S`, ...; `Z` and `X` have ended.
    pub state: char,
    /// Who started it, or took it over.
    pub parent: i32,
    /// Its session (setsid(2)).
    pub session: i32,
    /// Start time in ticks since boot: with the pid it names a process for certain.
    pub start_ticks: u64,
}

impl Stat {
    fn parse(text: &str) -> Option<Self> {
        let (pid, rest) = text.split_once(" (")?;
        // The name may hold anything, brackets included; the last one ends it.
        let (name, rest) = rest.rsplit_once(") ")?;
        let fields: Vec<&str> = rest.split_whitespace().collect();
        // The state is field 3 of the manual page and the first here.
        let field = |number: usize| fields.get(number - 3).copied();
        Some(Self {
            pid: pid.trim().parse().ok()?,
            name: name.to_owned(),
            state: field(3)?.chars().next()?,
            parent: field(4)?.parse().ok()?,
            session: field(6)?.parse().ok()?,
            start_ticks: field(22)?.parse().ok()?,
        })
    }

    /// It has not ended.
    pub fn is_alive(&self) -> bool {
        !matches!(self.state, 'Z' | 'X')
    }
}

/// One process.
pub fn stat(root: &Path, pid: i32) -> Option<Stat> {
    let text = std::fs::read(root.join(pid.to_string()).join("stat")).ok()?;
    Stat::parse(&String::from_utf8_lossy(&text))
}

/// All processes, by pid; those that have ended but were not waited for are left out.
pub fn living(root: &Path) -> Vec<Stat> {
    let mut found: Vec<Stat> = std::fs::read_dir(root)
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter_map(|pid| stat(root, pid))
        .filter(Stat::is_alive)
        .collect();
    found.sort_by_key(|s| s.pid);
    found
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
        let text = "42 (a) b (c) S 7 42 41 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 98765 1 2 3";
        let stat = Stat::parse(text).unwrap();
        assert_eq!(
            (stat.pid, stat.name.as_str(), stat.state),
            (42, "a) b (c", 'S')
        );
        assert_eq!(
            (stat.parent, stat.session, stat.start_ticks),
            (7, 41, 98_765)
        );
        assert_eq!(Stat::parse("42 (cut off) S 7"), None);
    }

    /// A fake /proc with these `(pid, state, parent, session)`.
    fn fake(processes: &[(i32, char, i32, i32)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (pid, state, parent, session) in processes {
            let dir = root.path().join(pid.to_string());
            std::fs::create_dir(&dir).unwrap();
            let zeros = "0 ".repeat(15);
            let text = format!("{pid} (p) {state} {parent} 0 {session} {zeros}1000 0");
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
