//! What processes and threads have in common: who they are, and files whose numbers become series.
//!
//! The surprise: a file of a task that cannot be found is either a task that has ended, which is normal,
//! or a kernel without that file, which is a gap. The task's directory tells the two apart. And one that
//! began while others were watched already has counted from zero: its counters begin when it did, not when
//! it was first seen, or what it did until then would be nobody's.

use crate::{MonitorError, Recorder, SeriesId, Signal};
use linux::Reread;
use linux::Root;
use linux::procfs::Stat;
use record::{Kind, Nanos};
use std::path::PathBuf;

/// Who a process or thread is.
#[derive(Clone, Debug)]
pub struct Task {
    target: String,
    directory: PathBuf,
    labels: Vec<(&'static str, String)>,
    /// When the watch began, until it is known whether this began later.
    watched_since: Option<Nanos>,
    /// When it began; none when that was before the watch.
    began: Option<Nanos>,
}

impl Task {
    /// A process, in `proc/PID` under `root`.
    pub fn process(root: &Root, target: &str, pid: i32) -> Self {
        Self {
            target: target.to_owned(),
            directory: root.path(&format!("proc/{pid}")),
            labels: vec![
                ("target", target.to_owned()),
                ("pid", pid.to_string()),
                ("name", String::new()),
            ],
            watched_since: None,
            began: None,
        }
    }

    /// The same, found by a watch that began at `since`.
    #[must_use]
    pub fn found_since(self, since: Option<Nanos>) -> Self {
        Self {
            watched_since: since,
            ..self
        }
    }

    /// Takes note of when it began, which the first `stat` says; `at` is now.
    pub fn note_start(&mut self, at: Nanos, stat: &Stat) {
        if let Some(since) = self.watched_since.take() {
            let age_ns = linux::clock::boottime_ns().saturating_sub(stat.started_ns());
            // It began up to a tick later than it says.
            let latest = (at.0 + linux::procfs::tick_ns()).checked_sub(age_ns);
            let began_later = latest.is_some_and(|latest| latest >= since.0);
            self.began = began_later.then(|| since.max(Nanos(at.0.saturating_sub(age_ns))));
        }
    }

    /// A thread of it, in `proc/PID/task/TID`.
    #[must_use]
    pub fn thread(&self, tid: i32) -> Self {
        let mut thread = self.clone();
        thread.directory = self.directory.join(format!("task/{tid}"));
        thread.labels.push(("tid", tid.to_string()));
        thread.set_name("");
        thread
    }

    /// The target's name, or `generator`.
    pub fn target(&self) -> &str {
        &self.target
    }

    /// Name as last seen; empty before the first sample.
    pub fn name(&self) -> &str {
        self.labels
            .iter()
            .find(|(label, _)| *label == "name")
            .map_or("", |(_, name)| name)
    }

    /// A file in its directory; `needs` says what makes it exist.
    pub fn file(&self, name: &str, needs: &'static str) -> Reread {
        Reread::new(&Root::new(&self.directory), name, needs)
    }

    /// Takes note of its name, and returns whether it is another than before: between fork and exec a
    /// process has its parent's name, and a thread names itself after it has started.
    pub fn set_name(&mut self, name: &str) -> bool {
        let label = self.labels.iter_mut().find(|(label, _)| *label == "name");
        label.is_some_and(|(_, known)| {
            let changed = known != name;
            name.clone_into(known);
            changed
        })
    }

    /// Whether `error` only means that it has ended.
    pub fn has_ended(&self, error: &linux::Error) -> bool {
        error.says_gone() && !self.directory.exists()
    }
}

/// `N` series of one task, opened at their first sample.
#[derive(Debug)]
pub struct TaskSeries<const N: usize> {
    signals: [Signal; N],
    ids: Option<[SeriesId; N]>,
}

impl<const N: usize> TaskSeries<N> {
    /// Not open yet.
    pub fn new(signals: [Signal; N]) -> Self {
        Self { signals, ids: None }
    }

    /// Appends one sample to each.
    pub fn push(&mut self, task: &Task, at: Nanos, values: [f64; N], out: &mut Recorder) {
        let ids = *self.ids.get_or_insert_with(|| {
            let labels: Vec<_> = task.labels.iter().map(|(l, v)| (*l, v.as_str())).collect();
            self.signals.map(|signal| {
                let id = out.series(&signal, &labels);
                if let (Some(began), Kind::Counter) = (task.began, signal.kind) {
                    out.push(id, began, 0.0);
                }
                id
            })
        });
        for (id, value) in ids.into_iter().zip(values) {
            out.push(id, at, value);
        }
    }

    /// Follows a change of the task's name.
    pub fn rename(&self, task: &Task, out: &mut Recorder) {
        for id in self.ids.iter().flatten() {
            out.relabel(*id, "name", task.name());
        }
    }

    /// Records that the signals cannot be read: once for all processes and threads of the target.
    pub fn unavailable(&self, task: &Task, error: &MonitorError, out: &mut Recorder) {
        let names = self.signals.map(|signal| signal.name).join(", ");
        out.unavailable(&format!("{names} of {}", task.target), error);
    }
}

/// A file of a task whose numbers become `N` series.
#[derive(Debug)]
pub struct TaskFile<const N: usize> {
    file: Reread,
    parse: fn(&str) -> Option<[f64; N]>,
    series: TaskSeries<N>,
    gave_up: bool,
}

impl<const N: usize> TaskFile<N> {
    /// The file, how its numbers are found, and what they become.
    pub fn new(file: Reread, parse: fn(&str) -> Option<[f64; N]>, signals: [Signal; N]) -> Self {
        Self {
            file,
            parse,
            series: TaskSeries::new(signals),
            gave_up: false,
        }
    }

    /// The series, to rename them.
    pub fn series(&self) -> &TaskSeries<N> {
        &self.series
    }

    /// Reads the numbers and appends them at `at`, unless `doubt` says that they cannot be meant.
    pub fn sample(
        &mut self,
        task: &Task,
        at: Nanos,
        doubt: impl FnOnce(&[f64; N]) -> bool,
        out: &mut Recorder,
    ) {
        if self.gave_up {
            return;
        }
        let error = match self.file.try_parse("numbers", self.parse) {
            Ok(values) if doubt(&values) => MonitorError::AccountingOff {
                path: self.file.path().to_owned(),
            },
            Ok(values) => return self.series.push(task, at, values, out),
            Err(error) if task.has_ended(&error) => return,
            Err(error) => error.into(),
        };
        self.gave_up = true;
        self.series.unavailable(task, &error, out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIGNALS: [Signal; 1] = [Signal::counter("x.calls", "calls", "/proc/PID/x")];

    fn number(text: &str) -> Option<[f64; 1]> {
        Some([text.trim().parse().ok()?])
    }

    #[test]
    fn a_task_that_ended_is_no_gap_but_a_missing_file_is() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("proc/7")).unwrap();
        let root = Root::new(dir.path());
        for (pid, gaps) in [(7, 1), (8, 0)] {
            let task = Task::process(&root, "proxy", pid);
            let mut out = Recorder::default();
            let mut file = TaskFile::new(task.file("x", "CONFIG_X"), number, SIGNALS);
            file.sample(&task, Nanos(1), |_| false, &mut out);
            let (_, unavailable) = out.finish();
            assert_eq!(unavailable.len(), gaps, "{pid}");
            for gap in unavailable {
                assert_eq!(
                    (gap.what.as_str(), gap.remedy.as_str()),
                    ("x.calls of proxy", "CONFIG_X")
                );
            }
        }
    }

    #[test]
    fn a_series_follows_the_name_of_its_task() {
        let mut task = Task::process(&Root::default(), "proxy", 7).thread(8);
        let mut out = Recorder::default();
        let mut series = TaskSeries::new(SIGNALS);
        assert!(task.set_name("prony"));
        series.push(&task, Nanos(1), [1.0], &mut out);
        assert!(!task.set_name("prony"));
        assert!(task.set_name("nginx"));
        series.rename(&task, &mut out);
        let (all, _) = out.finish();
        let labels = ["target", "pid", "tid", "name"].map(|label| all[0].label(label).unwrap());
        assert_eq!(labels, ["proxy", "7", "8", "nginx"]);
    }
}
