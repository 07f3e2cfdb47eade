//! Which processes are a target's, so surely that they may be killed; and killing them.
//!
//! The surprise: no single sign is enough. nginx overwrites its environment, so the marker is gone from
//! its processes; a leader that has died is no proof for its session; a process number comes back. A
//! process is ours when it carries the marker, or when it is in the session that our leader founded and
//! either that leader is still the very same process or the member works in our directory or holds a file of it
//! open, as the workers of a copy do, which runs where the original runs.

use linux::pidfd::PidFd;
use linux::procfs::{self, Stat};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Environment variable that marks the processes of one target.
pub(crate) const MARKER: &str = "PRONY_RUN";

/// The first process of a target, for certain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Leader {
    /// Process id; also the id of its session and process group.
    pub pid: i32,
    /// Start time in clock ticks since boot (field 22 of proc_pid_stat(5)).
    pub start_ticks: u64,
}

/// By what the processes of one target are known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    pub marker: String,
    pub directory: PathBuf,
    /// `None` when prony died before it could note it.
    pub leader: Option<Leader>,
}

impl Identity {
    /// The living processes that are surely the target's.
    pub fn members(&self, root: &Path) -> Vec<Stat> {
        let leader_lives = self.leader.is_some_and(|leader| {
            procfs::stat(root, leader.pid).is_some_and(|s| s.start_ticks == leader.start_ticks)
        });
        let is_member = |s: &Stat| {
            procfs::has_variable(root, s.pid, MARKER, &self.marker)
                || self.is_in_session(s) && (leader_lives || self.works_here(root, s.pid))
        };
        procfs::living(root).into_iter().filter(is_member).collect()
    }

    fn is_in_session(&self, s: &Stat) -> bool {
        self.leader.is_some_and(|leader| s.session == leader.pid)
    }

    /// The directory's name is unique, and a target's output goes to files in it.
    fn works_here(&self, root: &Path, pid: i32) -> bool {
        let is_ours = |path: PathBuf| path.starts_with(&self.directory);
        procfs::working_directory(root, pid).is_some_and(is_ours)
            || procfs::open_paths(root, pid).into_iter().any(is_ours)
    }

    /// Kills every member, and those of `others` that still are who they were. Members may start more
    /// while they are being killed, so it looks again until none is left.
    ///
    /// # Errors
    /// The processes that are still there in the end.
    pub fn kill(&self, root: &Path, others: &[Stat]) -> Result<Vec<i32>, Vec<i32>> {
        const ROUNDS: u32 = 20;
        let mut killed = Vec::new();
        for _ in 0..ROUNDS {
            let left = self.left(root, others);
            if left.is_empty() {
                return Ok(killed);
            }
            let signalled: Vec<PidFd> = left.iter().filter_map(|s| kill_exactly(root, s)).collect();
            for process in &signalled {
                process.wait(Duration::from_millis(250));
            }
            killed.extend(left.iter().map(|s| s.pid));
        }
        killed.sort_unstable();
        killed.dedup();
        match self.left(root, others) {
            left if left.is_empty() => Ok(killed),
            left => Err(left.iter().map(|s| s.pid).collect()),
        }
    }

    fn left(&self, root: &Path, others: &[Stat]) -> Vec<Stat> {
        let is_same = |s: &&Stat| {
            procfs::stat(root, s.pid)
                .is_some_and(|now| now.is_alive() && now.start_ticks == s.start_ticks)
        };
        let mut left = self.members(root);
        for other in others.iter().filter(is_same) {
            if left.iter().all(|s| s.pid != other.pid) {
                left.push(other.clone());
            }
        }
        left
    }
}

/// Kills the process that `seen` describes, not one that has its number by now.
fn kill_exactly(root: &Path, seen: &Stat) -> Option<PidFd> {
    let process = PidFd::open(seen.pid).ok()?;
    let now = procfs::stat(root, seen.pid)?;
    if now.start_ticks != seen.start_ticks {
        return None;
    }
    process.signal(libc::SIGKILL).ok()?;
    Some(process)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    struct Fake(tempfile::TempDir);

    impl Fake {
        fn process(&self, pid: i32, session: i32, start_ticks: u64, environ: &str, cwd: &str) {
            let dir = self.0.path().join(pid.to_string());
            std::fs::create_dir(&dir).unwrap();
            let zeros = "0 ".repeat(15);
            let text = format!("{pid} (p) S 1 {session} {session} {zeros}{start_ticks} 0 0");
            std::fs::write(dir.join("stat"), text).unwrap();
            std::fs::write(dir.join("environ"), environ).unwrap();
            symlink(cwd, dir.join("cwd")).unwrap();
        }

        fn members(&self, leader: Option<Leader>) -> Vec<i32> {
            let identity = Identity {
                marker: "m".to_owned(),
                directory: "/w/prony-m".into(),
                leader,
            };
            let members = identity.members(self.0.path());
            members.iter().map(|s| s.pid).collect()
        }
    }

    #[test]
    fn only_what_is_surely_ours_is_a_member() {
        let fake = Fake(tempfile::tempdir().unwrap());
        fake.process(20, 20, 500, "", "/w/prony-m");
        fake.process(21, 20, 501, "", "/elsewhere");
        fake.process(22, 22, 502, "PRONY_RUN=m\0", "/elsewhere");
        fake.process(23, 23, 503, "PRONY_RUN=other\0", "/w/prony-m"); // a person's shell
        let leader = |start_ticks| {
            Some(Leader {
                pid: 20,
                start_ticks,
            })
        };
        assert_eq!(
            fake.members(leader(500)),
            [20, 21, 22],
            "the leader lives: its session is ours"
        );
        assert_eq!(
            fake.members(leader(499)),
            [20, 22],
            "its number has come back: place decides"
        );
        assert_eq!(fake.members(None), [22], "never noted: the marker alone");
    }

    #[test]
    fn a_member_whose_leader_is_gone_is_known_by_its_place_even_when_that_is_removed() {
        let fake = Fake(tempfile::tempdir().unwrap());
        fake.process(31, 30, 600, "", "/w/prony-m (deleted)");
        fake.process(32, 30, 600, "", "/w/prony-mm");
        let leader = Some(Leader {
            pid: 30,
            start_ticks: 9,
        });
        assert_eq!(fake.members(leader), [31]);
    }

    #[test]
    fn a_worker_that_runs_elsewhere_is_known_by_its_output() {
        let fake = Fake(tempfile::tempdir().unwrap());
        for (pid, output) in [(41, "/w/prony-m/stdout"), (42, "/var/log/other")] {
            fake.process(pid, 40, 700, "", "/elsewhere");
            let open = fake.0.path().join(format!("{pid}/fd"));
            std::fs::create_dir(&open).unwrap();
            symlink(output, open.join("1")).unwrap();
        }
        let leader = Some(Leader {
            pid: 40,
            start_ticks: 9,
        });
        assert_eq!(fake.members(leader), [41]);
        assert_eq!(fake.members(None), [0; 0]);
    }
}
