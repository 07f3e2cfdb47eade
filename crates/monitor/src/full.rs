//! Whether a server is full right now, for a load generator that must know it while it runs.
//!
//! A server is full when its working threads have no time off: each of them ran, or waited for a CPU, all the time.
//! Then every request waits for one of them, whatever the generator does. That is looked at from outside, in
//! `/proc/PID/task/TID/schedstat`; what cannot be seen is not full. The surprise: a running thread's time there is as
//! old as the last tick of its CPU, so that a look needs some ten ticks between itself and the one before.

use crate::thread::parse_schedstat;
use crate::tree::Members;
use linux::Root;
use record::Nanos;
use std::collections::BTreeMap;

/// A thread without time off, but for the resolution of ticks.
const NO_TIME_OFF: f64 = 0.95;
/// A thread with less than this part of the busiest thread's CPU time does not take part in the work.
const TAKES_PART: f64 = 0.05;
/// The shortest time from one look to the next: ticks are 1 to 10 ms apart.
const BETWEEN: Nanos = Nanos::from_millis(300);
/// With more threads than this a target is not looked at: the looks would cost more than they are for.
const MOST_THREADS: usize = 128;

/// The time that each thread ran, and waited for a CPU, s.
type Threads = BTreeMap<i32, [f64; 2]>;

/// Looks at the targets' threads again and again; see the module.
#[derive(Debug)]
pub struct Full {
    root: Root,
    targets: usize,
    members: Members,
    looked_at: Nanos,
    before: Vec<Threads>,
    is_full: bool,
}

impl Full {
    /// Takes the first look at the threads of `members`, at `now`.
    pub fn new(root: Root, members: Members, now: Nanos) -> Self {
        let mut full = Full {
            root,
            targets: members.targets().len(),
            members,
            looked_at: now,
            before: Vec::new(),
            is_full: false,
        };
        full.before = full.threads(now);
        full
    }

    /// Whether one of the targets is full, by the time since the last look; soon after one it repeats what that found.
    pub fn look(&mut self, now: Nanos) -> bool {
        let elapsed = now.since(self.looked_at);
        if elapsed < BETWEEN {
            return self.is_full;
        }
        let threads = self.threads(now);
        let pairs = self.before.iter().zip(&threads);
        self.is_full = pairs
            .map(|(before, after)| grown(before, after))
            .any(|grown| has_no_time_off(&grown, elapsed.as_secs_f64()));
        self.looked_at = now;
        self.before = threads;
        self.is_full
    }

    /// The threads of each target now; none of a target that cannot be seen as a whole.
    fn threads(&mut self, now: Nanos) -> Vec<Threads> {
        let mut processes = vec![Vec::new(); self.targets];
        if self.targets > 0 {
            for (pid, target) in self.members.at(now, BETWEEN).unwrap_or_default() {
                processes[target].push(pid);
            }
        }
        processes
            .iter()
            .map(|pids| threads(&self.root, pids).unwrap_or_default())
            .collect()
    }
}

/// The threads of some processes; `None` when there are too many, or one ends while it is looked at.
fn threads(root: &Root, pids: &[i32]) -> Option<Threads> {
    let mut threads = Threads::new();
    for pid in pids {
        for tid in root.list_ids(&format!("proc/{pid}/task")).ok()? {
            let text = root.read(&format!("proc/{pid}/task/{tid}/schedstat"));
            threads.insert(tid, parse_schedstat(&text.ok()?)?);
            if threads.len() > MOST_THREADS {
                return None;
            }
        }
    }
    Some(threads)
}

/// Time that each thread ran and waited between two looks; a new thread began with the interval at the latest.
fn grown(before: &Threads, after: &Threads) -> Vec<[f64; 2]> {
    if before.is_empty() {
        return Vec::new();
    }
    let growth = |(tid, [run, wait]): (&i32, &[f64; 2])| {
        let [run_before, wait_before] = before.get(tid).copied().unwrap_or_default();
        [run - run_before, wait - wait_before]
    };
    after.iter().map(growth).collect()
}

fn has_no_time_off(threads: &[[f64; 2]], elapsed_s: f64) -> bool {
    let busiest = threads.iter().map(|[run, _]| *run).fold(0.0, f64::max);
    let mut working = threads
        .iter()
        .filter(|[run, _]| *run > 0.0 && *run >= TAKES_PART * busiest)
        .peekable();
    working.peek().is_some() && working.all(|[run, wait]| run + wait >= NO_TIME_OFF * elapsed_s)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Watched;

    /// A target with a process 7 and its child 8, of one thread each, over a fake /proc.
    struct Host {
        dir: tempfile::TempDir,
        full: Full,
        now: Nanos,
    }

    impl Host {
        fn new() -> Self {
            let dir = tempfile::tempdir().unwrap();
            for (pid, parent) in [(7, 1), (8, 7)] {
                std::fs::create_dir_all(dir.path().join(format!("proc/{pid}/task/{pid}"))).unwrap();
                let stat = format!("{pid} (web) S {parent}{}", " 0".repeat(40));
                std::fs::write(dir.path().join(format!("proc/{pid}/stat")), stat).unwrap();
            }
            let targets = [Watched {
                target: "web".to_owned(),
                pids: vec![7],
            }];
            write(dir.path(), [[0, 0], [0, 0]]);
            let root = Root::new(dir.path());
            let members = Members::new(&root, &targets, None);
            let full = Full::new(root, members, Nanos(0));
            Host {
                dir,
                full,
                now: Nanos(0),
            }
        }

        /// A look half a second later, with these times run and waited so far, ms.
        fn look(&mut self, times_ms: [[u64; 2]; 2]) -> bool {
            write(self.dir.path(), times_ms);
            self.now = self.now + Nanos::from_millis(500);
            self.full.look(self.now)
        }
    }

    fn write(root: &std::path::Path, times_ms: [[u64; 2]; 2]) {
        for (pid, [run, wait]) in [7, 8].into_iter().zip(times_ms) {
            let text = format!("{} {} 9\n", run * 1_000_000, wait * 1_000_000);
            std::fs::write(root.join(format!("proc/{pid}/task/{pid}/schedstat")), text).unwrap();
        }
    }

    #[test]
    fn a_server_is_full_when_its_working_threads_have_no_time_off() {
        let mut host = Host::new();
        assert!(!host.look([[1, 0], [470, 0]]), "6 % of the time off");
        assert!(
            host.look([[2, 0], [970, 0]]),
            "the main process only supervises"
        );
        assert!(host.look([[2, 0], [1_070, 400]]), "it waits for a CPU");
        assert!(!host.look([[102, 0], [1_570, 400]]), "another one has room");
        assert!(host.look([[592, 0], [2_060, 400]]), "both are full");
        assert!(!host.look([[592, 0], [2_060, 400]]), "nothing runs");
    }

    #[test]
    fn what_cannot_be_seen_is_not_full() {
        let mut host = Host::new();
        assert!(host.look([[0, 0], [500, 0]]));
        std::fs::remove_file(host.dir.path().join("proc/8/task/8/schedstat")).unwrap();
        host.now = host.now + Nanos::from_millis(500);
        assert!(!host.full.look(host.now));
        let root = Root::new(host.dir.path());
        let mut nobody = Full::new(root.clone(), Members::new(&root, &[], None), Nanos(0));
        assert!(!nobody.look(Nanos::SECOND));
    }

    #[test]
    fn two_looks_in_a_row_are_one() {
        let mut host = Host::new();
        assert!(host.look([[0, 0], [500, 0]]));
        let soon = host.now + Nanos::from_millis(100);
        assert!(host.full.look(soon), "no time has passed to tell by");
    }
}
