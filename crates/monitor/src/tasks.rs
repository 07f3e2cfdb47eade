//! The processes and threads of the targets and of the generator, with those that appear later.
//!
//! The surprise: programs with hundreds of threads are read in rotation, at most [`MOST_A_PASS`] processes
//! and as many threads in one pass, so that the monitor stays cheap; the first and the last sample have
//! them all. A process or thread that ends just stops its series.

use crate::process::Process;
use crate::thread::Thread;
use crate::tree::Members;
use crate::watch::{GENERATOR, Watched};
use crate::{Pass, Recorder, Source};
use linux::Root;
use record::Nanos;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Processes, and threads, that one pass reads at most: with 64 a program of 300 threads cost 2.5 % of a core
/// at ten samples a second.
pub const MOST_A_PASS: usize = 32;

/// Processes and threads whose two files stay open between samples; those of further ones are opened for
/// each, because the load needs open files for its connections.
pub const MOST_KEPT_OPEN: usize = 64;

/// The source.
#[derive(Debug)]
pub struct Tasks {
    root: Root,
    slow_interval: Nanos,
    targets: Vec<String>,
    /// Owner (index into `targets`) of each process given by its id; `None` for the generator.
    given: BTreeMap<i32, Option<usize>>,
    members: Members,
    processes: VecDeque<Process>,
    threads: VecDeque<Thread>,
    /// Ids of the processes watched, until they have left the tree.
    known_processes: BTreeSet<i32>,
    /// Ids (process, thread) of the threads in rotation.
    known_threads: BTreeSet<(i32, i32)>,
    /// Number of threads of each process when they were last listed.
    listed: BTreeMap<i32, u64>,
    /// When the first sample was taken.
    began: Option<Nanos>,
}

/// Calls `sample` for the things whose turn it is (for all at an edge), moves them to the end of the
/// queue, and drops those for which it returns false.
fn take_turns<T>(queue: &mut VecDeque<T>, pass: Pass, mut sample: impl FnMut(&mut T) -> bool) {
    let turns = match pass {
        Pass::Edge => queue.len(),
        Pass::Fast | Pass::Slow => queue.len().min(MOST_A_PASS),
    };
    for _ in 0..turns {
        let Some(mut thing) = queue.pop_front() else {
            return;
        };
        if sample(&mut thing) {
            queue.push_back(thing);
        }
    }
}

impl Tasks {
    /// Watches `targets` with their descendants, which `members` finds, and the process `generator` alone.
    pub fn new(
        root: &Root,
        targets: &[Watched],
        generator: Option<i32>,
        members: Members,
        slow_interval: Nanos,
    ) -> Self {
        let mut given = BTreeMap::new();
        for (i, target) in targets.iter().enumerate() {
            given.extend(target.pids.iter().map(|&pid| (pid, Some(i))));
        }
        given.extend(generator.map(|pid| (pid, None)));
        let mut tasks = Self {
            root: root.clone(),
            slow_interval,
            targets: targets.iter().map(|t| t.target.clone()).collect(),
            given,
            members,
            processes: VecDeque::new(),
            threads: VecDeque::new(),
            known_processes: BTreeSet::new(),
            known_threads: BTreeSet::new(),
            listed: BTreeMap::new(),
            began: None,
        };
        for (pid, target) in tasks.given.clone() {
            tasks.watch(pid, target);
        }
        tasks
    }

    /// Whether the files of the process or thread that became known last may stay open.
    fn may_keep_open(&self) -> bool {
        self.known_processes.len() + self.known_threads.len() <= MOST_KEPT_OPEN
    }

    fn watch(&mut self, pid: i32, target: Option<usize>) {
        if self.known_processes.insert(pid) {
            let target = target.map_or(GENERATOR, |i| &self.targets[i]);
            let process = Process::new(&self.root, target, pid, self.began, self.may_keep_open());
            self.processes.push_back(process);
        }
    }

    /// Begins to watch the targets' descendants that have appeared since the last look.
    fn look_for_children(&mut self, at: Nanos, out: &mut Recorder) {
        if self.given.values().all(Option::is_none) {
            return;
        }
        let members = match self.members.at(at, Nanos(0)) {
            Ok(members) => members,
            Err(error) => return out.unavailable("children of the targets", &error),
        };
        self.members.retain(&mut self.known_processes);
        for (pid, target) in members {
            self.watch(pid, Some(target));
        }
    }

    /// Samples the processes, and begins to watch their new threads.
    fn sample_processes(&mut self, at: Nanos, pass: Pass, out: &mut Recorder) {
        let mut processes = std::mem::take(&mut self.processes);
        take_turns(&mut processes, pass, |process| {
            let threads = self.sample_process(process, at, pass, out);
            match threads {
                Some(threads) => self.look_for_threads(process, threads, pass, out),
                None => {
                    self.listed.remove(&process.pid());
                }
            }
            threads.is_some()
        });
        self.processes = processes;
    }

    /// Samples one process; its number of threads, or `None` when it is not watched any more.
    fn sample_process(
        &self,
        process: &mut Process,
        at: Nanos,
        pass: Pass,
        out: &mut Recorder,
    ) -> Option<u64> {
        let error = match process.sample(at, pass, self.slow_interval, out) {
            Ok(stat) => return stat.map(|stat| stat.threads),
            Err(error) => error,
        };
        let (pid, task) = (process.pid(), process.task());
        // A process that was never seen is a gap only when its id was given: a child may be short-lived.
        let may_end = !task.name().is_empty() || !self.given.contains_key(&pid);
        if !(may_end && error.says_gone()) {
            out.unavailable(
                &format!("process {pid} of {}", task.target()),
                &error.into(),
            );
        }
        None
    }

    /// Lists the threads of a process when their number has changed, and at every slow pass.
    fn look_for_threads(&mut self, process: &Process, count: u64, pass: Pass, out: &mut Recorder) {
        let pid = process.pid();
        if self.listed.insert(pid, count) == Some(count) && pass == Pass::Fast {
            return;
        }
        let task = process.task();
        match self.root.list_ids(&format!("proc/{pid}/task")) {
            Ok(tids) => {
                for tid in tids {
                    if self.known_threads.insert((pid, tid)) {
                        let thread = Thread::new(task, pid, tid, self.began, self.may_keep_open());
                        self.threads.push_back(thread);
                    }
                }
            }
            Err(error) if task.has_ended(&error) => {}
            Err(error) => out.unavailable(&format!("threads of {}", task.target()), &error.into()),
        }
    }

    fn sample_threads(&mut self, at: Nanos, pass: Pass, out: &mut Recorder) {
        take_turns(&mut self.threads, pass, |thread| {
            let alive = thread.sample(at, pass, self.slow_interval, out);
            if !alive {
                self.known_threads.remove(&thread.id());
            }
            alive
        });
    }
}

impl Source for Tasks {
    fn name(&self) -> &'static str {
        "tasks"
    }

    fn sample(&mut self, at: Nanos, pass: Pass, out: &mut Recorder) {
        self.began.get_or_insert(at);
        if pass != Pass::Fast {
            self.look_for_children(at, out);
        }
        self.sample_processes(at, pass, out);
        self.sample_threads(at, pass, out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::{Series, Unavailable};
    use tempfile::TempDir;

    /// A fake /proc with the means to let processes and threads come and go.
    struct Host(TempDir);

    impl Host {
        fn new() -> Self {
            Self(tempfile::tempdir().unwrap())
        }

        fn write(&self, relative: &str, text: &str) {
            let path = self.0.path().join("proc").join(relative);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }

        fn process(&self, pid: i32, parent: i32, name: &str, tids: &[i32]) {
            let threads = tids.len();
            let stat = |id| {
                format!(
                    "{id} ({name}) S {parent} 1 1 0 -1 0 10 0 2 0 300 100 20 30 20 0 {threads} 0 9 999 25 0\n"
                )
            };
            self.write(&format!("{pid}/stat"), &stat(pid));
            let io = "syscr: 4\nsyscw: 3\nread_bytes: 2\nwrite_bytes: 1\n";
            self.write(&format!("{pid}/io"), io);
            self.write(&format!("{pid}/status"), "VmSwap:\t  3 kB\n");
            let limits = "Max open files  1024  4096  files\n";
            self.write(&format!("{pid}/limits"), limits);
            self.write(&format!("{pid}/fd/0"), "");
            for tid in tids {
                self.write(&format!("{pid}/task/{tid}/stat"), &stat(*tid));
                self.write(
                    &format!("{pid}/task/{tid}/schedstat"),
                    "4000000000 500000000 7\n",
                );
                let switches = "voluntary_ctxt_switches:\t5\nnonvoluntary_ctxt_switches:\t6\n";
                self.write(&format!("{pid}/task/{tid}/status"), switches);
            }
        }

        fn end(&self, relative: &str) {
            std::fs::remove_dir_all(self.0.path().join("proc").join(relative)).unwrap();
        }

        fn tasks(&self, targets: &[(&str, i32)], generator: Option<i32>) -> Tasks {
            let targets: Vec<Watched> = targets
                .iter()
                .map(|(target, pid)| Watched {
                    target: (*target).to_owned(),
                    pids: vec![*pid],
                })
                .collect();
            let root = Root::new(self.0.path());
            let members = Members::new(&root, &targets, generator);
            Tasks::new(&root, &targets, generator, members, Nanos::SECOND)
        }
    }

    fn sample(tasks: &mut Tasks, passes: &[(u64, Pass)]) -> (Vec<Series>, Vec<Unavailable>) {
        let mut out = Recorder::default();
        for (at, pass) in passes {
            tasks.sample(Nanos(*at), *pass, &mut out);
        }
        out.finish()
    }

    fn find<'a>(series: &'a [Series], signal: &str, label: &str, value: &str) -> &'a Series {
        let mut found = series
            .iter()
            .filter(|s| s.signal == signal && s.label(label) == Some(value));
        let first = found
            .next()
            .unwrap_or_else(|| panic!("no {signal} with {label}={value}"));
        assert_eq!(found.next(), None, "{signal} twice");
        first
    }

    #[test]
    fn everything_of_one_process_and_its_thread() {
        let host = Host::new();
        host.process(7, 1, "nginx", &[7]);
        let (series, unavailable) =
            sample(&mut host.tasks(&[("proxy", 7)], None), &[(1, Pass::Edge)]);
        assert_eq!(unavailable, []);
        let ticks_per_s = rustix::param::clock_ticks_per_second() as f64;
        let page = rustix::param::page_size() as f64;
        for (signal, value) in [
            ("process.cpu_user_s", 300.0 / ticks_per_s),
            ("process.cpu_system_s", 100.0 / ticks_per_s),
            ("process.minor_faults", 10.0),
            ("process.major_faults", 2.0),
            ("process.threads", 1.0),
            ("process.rss_bytes", 25.0 * page),
            ("process.children_user_s", 20.0 / ticks_per_s),
            ("process.children_system_s", 30.0 / ticks_per_s),
            ("process.swap_bytes", 3072.0),
            ("process.read_bytes", 2.0),
            ("process.write_bytes", 1.0),
            ("process.read_calls", 4.0),
            ("process.write_calls", 3.0),
            ("process.open_files", 1.0),
            ("process.open_files_limit", 1024.0),
            ("process.nice", 0.0),
            ("thread.cpu_user_s", 300.0 / ticks_per_s),
            ("thread.cpu_system_s", 100.0 / ticks_per_s),
            ("thread.run_s", 4.0),
            ("thread.run_queue_wait_s", 0.5),
            ("thread.context_switches_voluntary", 5.0),
            ("thread.context_switches_involuntary", 6.0),
        ] {
            let found = find(&series, signal, "pid", "7");
            assert_eq!(found.values, [value], "{signal}");
            assert_eq!(found.label("target"), Some("proxy"));
            assert_eq!(found.label("name"), Some("nginx"));
        }
        assert_eq!(series.len(), 22);
    }

    #[test]
    fn children_and_threads_that_come_later_are_watched_and_those_that_end_stop() {
        let host = Host::new();
        host.process(7, 1, "nginx", &[7]);
        let mut tasks = host.tasks(&[("proxy", 7)], None);
        let mut out = Recorder::default();
        tasks.sample(Nanos(1), Pass::Edge, &mut out);
        host.process(8, 7, "nginx", &[8]);
        tasks.sample(Nanos(2), Pass::Slow, &mut out);
        host.process(8, 7, "nginx", &[8, 9]);
        tasks.sample(Nanos(3), Pass::Fast, &mut out);
        host.end("8/task/9");
        tasks.sample(Nanos(4), Pass::Fast, &mut out);
        host.end("8");
        tasks.sample(Nanos(5), Pass::Edge, &mut out);
        let (series, unavailable) = out.finish();
        assert_eq!(unavailable, []);
        let at = |signal, label, value| find(&series, signal, label, value).at_ns.clone();
        assert_eq!(at("process.threads", "pid", "7"), [1, 2, 3, 4, 5]);
        // Kept-open files of a fake root outlive the directory, so the end shows one sample later here.
        assert_eq!(at("process.threads", "pid", "8")[..3], [2, 3, 4]);
        assert_eq!(at("thread.run_s", "tid", "9")[0], 3);
    }

    #[test]
    fn the_generator_does_not_own_the_targets_that_it_started() {
        let host = Host::new();
        host.process(5, 1, "prony", &[5, 6]);
        host.process(7, 5, "nginx", &[7]);
        host.process(8, 5, "helper", &[8]);
        let (series, _) = sample(
            &mut host.tasks(&[("proxy", 7)], Some(5)),
            &[(1, Pass::Edge)],
        );
        let owner = |pid| find(&series, "process.threads", "pid", pid).label("target");
        assert_eq!(owner("5"), Some("generator"));
        assert_eq!(owner("7"), Some("proxy"));
        assert!(series.iter().all(|s| s.label("pid") != Some("8")));
    }

    #[test]
    fn hundreds_of_threads_are_read_in_rotation_but_all_at_the_edges() {
        let host = Host::new();
        let tids: Vec<i32> = (1000..1150).collect();
        host.process(1000, 1, "java", &tids);
        let mut passes = vec![(1, Pass::Edge)];
        passes.extend((2..=6).map(|at| (at, Pass::Fast)));
        passes.push((7, Pass::Edge));
        let (series, _) = sample(&mut host.tasks(&[("backend", 1000)], None), &passes);
        let runs: Vec<&Series> = series
            .iter()
            .filter(|s| s.signal == "thread.run_s")
            .collect();
        assert_eq!(runs.len(), tids.len());
        for run in &runs {
            assert_eq!((run.at_ns[0], run.at_ns[run.at_ns.len() - 1]), (1, 7));
        }
        let between: usize = runs.iter().map(|run| run.at_ns.len() - 2).sum();
        assert_eq!(between, 5 * MOST_A_PASS);
        let most = runs.iter().map(|run| run.at_ns.len()).max().unwrap();
        let fewest = runs.iter().map(|run| run.at_ns.len()).min().unwrap();
        assert!(most - fewest <= 1, "{fewest} to {most}");
    }

    #[test]
    fn slow_files_are_read_when_their_time_has_come() {
        let host = Host::new();
        host.process(7, 1, "nginx", &[7]);
        let second = Nanos::SECOND.0;
        let passes = [
            (1, Pass::Edge),
            (second / 2, Pass::Fast),
            (second + 1, Pass::Fast),
            (second + 2, Pass::Edge),
        ];
        let (series, _) = sample(&mut host.tasks(&[("proxy", 7)], None), &passes);
        for signal in ["process.read_calls", "thread.context_switches_voluntary"] {
            let at = &find(&series, signal, "pid", "7").at_ns;
            assert_eq!(*at, [1, second + 1, second + 2], "{signal}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_a_gap_and_never_zero() {
        let host = Host::new();
        host.process(7, 1, "nginx", &[7]);
        host.write("7/task/7/schedstat", "0 0 0\n");
        std::fs::remove_file(host.0.path().join("proc/7/io")).unwrap();
        host.end("7/fd");
        let mut tasks = host.tasks(&[("proxy", 7), ("backend", 77)], None);
        let (series, unavailable) = sample(&mut tasks, &[(1, Pass::Edge), (2, Pass::Edge)]);
        let gaps: Vec<&str> = unavailable.iter().map(|u| u.what.as_str()).collect();
        assert_eq!(
            gaps,
            [
                "process.read_bytes, process.write_bytes, process.read_calls, process.write_calls of proxy",
                "process.open_files of proxy",
                "process 77 of backend",
                "thread.run_s, thread.run_queue_wait_s of proxy",
            ]
        );
        assert_eq!(
            find(&series, "process.threads", "pid", "7").values,
            [1.0, 1.0]
        );
        assert!(series.iter().all(|s| s.signal != "thread.run_s"));
        assert_eq!(find(&series, "thread.cpu_user_s", "pid", "7").at_ns, [1, 2]);
    }
}
