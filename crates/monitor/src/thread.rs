//! `/proc/PID/task/TID/{stat,schedstat,status}`: CPU, waiting for a CPU, and context switches of one thread.
//!
//! The surprise: `schedstat` counts in ns while `stat` counts in ticks of 10 ms, and a kernel with the
//! accounting switched off writes `0 0 0` there instead of failing: for a thread that has run, that is
//! taken as a gap and not as zero.

use crate::task::{Task, TaskFile, TaskSeries};
use crate::{Pass, Recorder, Signal};
use linux::Reread;
use linux::procfs::Stat;
use record::Nanos;

const STAT_FILE: &str = "/proc/PID/task/TID/stat";
const SCHEDSTAT_FILE: &str = "/proc/PID/task/TID/schedstat";
const STATUS_FILE: &str = "/proc/PID/task/TID/status";

/// From `stat`.
pub const STAT: [Signal; 2] = [
    Signal::counter("thread.cpu_user_s", "s", STAT_FILE),
    Signal::counter("thread.cpu_system_s", "s", STAT_FILE),
];

/// From `schedstat`.
pub const SCHEDSTAT: [Signal; 2] = [
    Signal::counter("thread.run_s", "s", SCHEDSTAT_FILE),
    Signal::counter("thread.run_queue_wait_s", "s", SCHEDSTAT_FILE),
];

/// From `status`.
pub const STATUS: [Signal; 2] = [
    Signal::counter("thread.context_switches_voluntary", "calls", STATUS_FILE),
    Signal::counter("thread.context_switches_involuntary", "calls", STATUS_FILE),
];

/// Reads the text of `schedstat`: time run and time waited on a run queue, s; `None` when it is cut.
pub fn parse_schedstat(text: &str) -> Option<[f64; 2]> {
    let mut words = text.split_ascii_whitespace();
    let mut seconds = || Some(words.next()?.parse::<u64>().ok()? as f64 / 1e9);
    Some([seconds()?, seconds()?])
}

/// Reads the voluntary and the involuntary switches from the text of `status`; `None` when one is missing.
pub fn parse_switches(text: &str) -> Option<[f64; 2]> {
    let after = |key: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(key))?;
        line.trim().parse().ok()
    };
    Some([
        after("voluntary_ctxt_switches:")?,
        after("nonvoluntary_ctxt_switches:")?,
    ])
}

/// A thread that is watched.
#[derive(Debug)]
pub struct Thread {
    pid: i32,
    tid: i32,
    task: Task,
    stat: Reread,
    stat_series: TaskSeries<2>,
    schedstat: TaskFile<2>,
    status: TaskFile<2>,
    status_at: Option<Nanos>,
}

impl Thread {
    /// A thread of `process`, whose id is `pid`, found by a watch that began at `since`; nothing is read yet.
    /// `keep_open` keeps its two frequent files open between samples.
    pub fn new(process: &Task, pid: i32, tid: i32, since: Option<Nanos>, keep_open: bool) -> Self {
        let task = process.thread(tid).found_since(since);
        let file =
            |name, needs, keep_open: bool| task.file(name, needs).closed_between_reads(!keep_open);
        let schedstat = file(
            "schedstat",
            "use a kernel with CONFIG_SCHED_INFO",
            keep_open,
        );
        Self {
            pid,
            tid,
            stat: file("stat", "", keep_open),
            stat_series: TaskSeries::new(STAT),
            schedstat: TaskFile::new(schedstat, parse_schedstat, SCHEDSTAT),
            status: TaskFile::new(file("status", "", false), parse_switches, STATUS),
            status_at: None,
            task,
        }
    }

    /// Ids of its process and of itself.
    pub fn id(&self) -> (i32, i32) {
        (self.pid, self.tid)
    }

    /// Takes a sample; context switches only when `slow_interval` has passed since they were last read,
    /// or at an edge. Returns whether the thread still exists.
    pub fn sample(
        &mut self,
        at: Nanos,
        pass: Pass,
        slow_interval: Nanos,
        out: &mut Recorder,
    ) -> bool {
        let stat = match self.stat.try_parse("fields of a thread", Stat::parse) {
            Ok(stat) if !stat.is_alive() => return false,
            Ok(stat) => stat,
            Err(error) if error.says_gone() => return false,
            Err(error) => {
                self.stat_series.unavailable(&self.task, &error.into(), out);
                return false;
            }
        };
        self.task.note_start(at, &stat);
        self.follow_name(&stat.name, out);
        let times = [stat.user_s(), stat.system_s()];
        self.stat_series.push(&self.task, at, times, out);
        let has_run = stat.user_ticks + stat.system_ticks > 0;
        let doubt = |times: &[f64; 2]| has_run && times == &[0.0, 0.0];
        self.schedstat.sample(&self.task, at, doubt, out);
        if pass == Pass::Edge
            || self
                .status_at
                .is_none_or(|last| at.since(last) >= slow_interval)
        {
            self.status_at = Some(at);
            self.status.sample(&self.task, at, |_| false, out);
        }
        true
    }

    fn follow_name(&mut self, name: &str, out: &mut Recorder) {
        if self.task.set_name(name) {
            self.stat_series.rename(&self.task, out);
            self.schedstat.series().rename(&self.task, out);
            self.status.series().rename(&self.task, out);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedstat_and_switches() {
        assert_eq!(
            parse_schedstat("2526997 1500 12\n"),
            Some([0.002_526_997, 0.000_001_5])
        );
        for text in ["", "7", "7 x 1"] {
            assert_eq!(parse_schedstat(text), None, "{text:?}");
        }
        let status =
            "Name:\tnginx\nvoluntary_ctxt_switches:\t150\nnonvoluntary_ctxt_switches:\t7\n";
        assert_eq!(parse_switches(status), Some([150.0, 7.0]));
        assert_eq!(parse_switches("voluntary_ctxt_switches:\t150\n"), None);
    }
}
