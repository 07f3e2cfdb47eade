//! `/proc/PID/{stat,io,fd}`: CPU, faults, threads, memory, reads and writes, open files of one process.
//!
//! The surprise: `process.read_bytes` and `process.write_bytes` are the kernel's fields of that name, which
//! count what reached the *storage*, while `read_calls` and `write_calls` count every read or write system
//! call (`syscr`, `syscw`; not recv, send or sendfile). So bytes per call cannot be formed from them.

use crate::task::{Task, TaskFile, TaskSeries};
use crate::{Pass, Recorder, Signal};
use linux::Reread;
use linux::Root;
use linux::procfs::Stat;
use record::Nanos;

const STAT_FILE: &str = "/proc/PID/stat";
const IO_FILE: &str = "/proc/PID/io";

/// From `stat`.
pub const STAT: [Signal; 8] = [
    Signal::counter("process.cpu_user_s", "s", STAT_FILE),
    Signal::counter("process.cpu_system_s", "s", STAT_FILE),
    Signal::counter("process.minor_faults", "calls", STAT_FILE),
    Signal::counter("process.major_faults", "calls", STAT_FILE),
    Signal::gauge("process.threads", "threads", STAT_FILE),
    Signal::gauge("process.rss_bytes", "bytes", STAT_FILE),
    Signal::counter("process.children_user_s", "s", STAT_FILE),
    Signal::counter("process.children_system_s", "s", STAT_FILE),
];

/// From `io`.
pub const IO: [Signal; 4] = [
    Signal::counter("process.read_bytes", "bytes", IO_FILE),
    Signal::counter("process.write_bytes", "bytes", IO_FILE),
    Signal::counter("process.read_calls", "calls", IO_FILE),
    Signal::counter("process.write_calls", "calls", IO_FILE),
];

/// The kernel's names of [`IO`], in the same order.
const IO_KEYS: [&str; 4] = ["read_bytes", "write_bytes", "syscr", "syscw"];

/// From the directory `fd`.
pub const OPEN_FILES: Signal = Signal::gauge("process.open_files", "files", "/proc/PID/fd");

/// From `limits`: the soft limit of open files; none while it is unlimited.
pub const OPEN_FILES_LIMIT: Signal =
    Signal::gauge("process.open_files_limit", "files", "/proc/PID/limits");

/// From `stat`, read with the slow ones because it hardly ever changes.
pub const NICE: Signal = Signal::gauge("process.nice", "nice", STAT_FILE);

/// From `status`: what of it is swapped out.
pub const SWAP: [Signal; 1] = [Signal::gauge(
    "process.swap_bytes",
    "bytes",
    "/proc/PID/status",
)];

/// Reads the text of `io`, in the order of [`IO`]; `None` when a number is missing.
pub fn parse_io(text: &str) -> Option<[f64; 4]> {
    let mut values = [0.0; 4];
    for (value, key) in values.iter_mut().zip(IO_KEYS) {
        *value = text.lines().find_map(|line| {
            let (name, number) = line.split_once(':')?;
            (name == key).then(|| number.trim().parse().ok())?
        })?;
    }
    Some(values)
}

/// The soft limit of open files from the text of `limits`, `Some(None)` when it is unlimited; `None` when the
/// text has no such line.
pub fn parse_open_files_limit(text: &str) -> Option<Option<u64>> {
    let rest = text
        .lines()
        .find_map(|line| line.strip_prefix("Max open files"))?;
    match rest.split_ascii_whitespace().next()? {
        "unlimited" => Some(None),
        soft => Some(Some(soft.parse().ok()?)),
    }
}

/// Swapped bytes from the text of `status`; `None` when it has no such line.
pub fn parse_swap(text: &str) -> Option<[f64; 1]> {
    let kib = linux::procfs::kib_field(text, "VmSwap")?;
    Some([kib as f64 * 1024.0])
}

/// A process that is watched.
#[derive(Debug)]
pub struct Process {
    root: Root,
    pid: i32,
    task: Task,
    stat: Reread,
    stat_series: TaskSeries<8>,
    io: TaskFile<4>,
    swap: TaskFile<1>,
    open_files: TaskSeries<1>,
    nice: TaskSeries<1>,
    limits: Reread,
    open_files_limit: TaskSeries<1>,
    limit_gave_up: bool,
    slow_at: Option<Nanos>,
}

impl Process {
    /// A process under `root`, found by a watch that began at `since`; nothing is read yet. `keep_open` keeps its
    /// files open between samples.
    pub fn new(root: &Root, target: &str, pid: i32, since: Option<Nanos>, keep_open: bool) -> Self {
        let task = Task::process(root, target, pid).found_since(since);
        let file = |name, needs| task.file(name, needs).closed_between_reads(!keep_open);
        let io = file("io", "use a kernel with CONFIG_TASK_IO_ACCOUNTING");
        let status = task.file("status", "use a kernel with CONFIG_SWAP");
        let status = status.closed_between_reads(true);
        Self {
            root: root.clone(),
            pid,
            stat: file("stat", ""),
            stat_series: TaskSeries::new(STAT),
            io: TaskFile::new(io, parse_io, IO),
            swap: TaskFile::new(status, parse_swap, SWAP),
            open_files: TaskSeries::new([OPEN_FILES]),
            nice: TaskSeries::new([NICE]),
            limits: task.file("limits", "").closed_between_reads(true),
            open_files_limit: TaskSeries::new([OPEN_FILES_LIMIT]),
            limit_gave_up: false,
            slow_at: None,
            task,
        }
    }

    /// Its id.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Who it is.
    pub fn task(&self) -> &Task {
        &self.task
    }

    /// Takes a sample; reads, writes and open files only when `slow_interval` has passed since they were
    /// last read, or at an edge. Returns what `stat` said, `None` for a process that has ended and waits
    /// for its parent.
    ///
    /// # Errors
    /// [`linux::Error`] when `stat` cannot be read, also because the process has ended.
    pub fn sample(
        &mut self,
        at: Nanos,
        pass: Pass,
        slow_interval: Nanos,
        out: &mut Recorder,
    ) -> Result<Option<Stat>, linux::Error> {
        let stat = self.stat.try_parse("fields of a process", Stat::parse)?;
        // A main thread that has ended while others go on looks like a zombie, too.
        if !stat.is_alive() && stat.threads <= 1 {
            return Ok(None);
        }
        self.task.note_start(at, &stat);
        self.follow_name(&stat.name, out);
        self.stat_series.push(&self.task, at, in_units(&stat), out);
        if pass == Pass::Edge
            || self
                .slow_at
                .is_none_or(|last| at.since(last) >= slow_interval)
        {
            self.slow_at = Some(at);
            self.io.sample(&self.task, at, |_| false, out);
            self.swap.sample(&self.task, at, |_| false, out);
            self.sample_open_files(at, out);
            self.sample_open_files_limit(at, out);
            self.nice.push(&self.task, at, [f64::from(stat.nice)], out);
        }
        Ok(Some(stat))
    }

    fn follow_name(&mut self, name: &str, out: &mut Recorder) {
        if self.task.set_name(name) {
            self.stat_series.rename(&self.task, out);
            self.io.series().rename(&self.task, out);
            self.swap.series().rename(&self.task, out);
            self.open_files.rename(&self.task, out);
            self.open_files_limit.rename(&self.task, out);
            self.nice.rename(&self.task, out);
        }
    }

    fn sample_open_files_limit(&mut self, at: Nanos, out: &mut Recorder) {
        if self.limit_gave_up {
            return;
        }
        match self
            .limits
            .try_parse("`Max open files`", parse_open_files_limit)
        {
            Ok(Some(limit)) => self
                .open_files_limit
                .push(&self.task, at, [limit as f64], out),
            Ok(None) => {}
            Err(error) if self.task.has_ended(&error) => {}
            Err(error) => {
                self.limit_gave_up = true;
                self.open_files_limit
                    .unavailable(&self.task, &error.into(), out);
            }
        }
    }

    fn sample_open_files(&mut self, at: Nanos, out: &mut Recorder) {
        match open_files(&self.root, self.pid) {
            Ok(count) => self.open_files.push(&self.task, at, [count as f64], out),
            Err(error) if self.task.has_ended(&error) => {}
            Err(error) => self.open_files.unavailable(&self.task, &error.into(), out),
        }
    }
}

/// The values of [`STAT`].
fn in_units(stat: &Stat) -> [f64; 8] {
    [
        stat.user_s(),
        stat.system_s(),
        stat.minor_faults as f64,
        stat.major_faults as f64,
        stat.threads as f64,
        stat.rss_pages as f64 * rustix::param::page_size() as f64,
        stat.children_user_s(),
        stat.children_system_s(),
    ]
}

/// Open files of a process. Since Linux 6.2 the size of the directory is their number (fs/proc/fd.c),
/// which spares listing 10,000 connections and needs no permission; before, the size is 0.
fn open_files(root: &Root, pid: i32) -> Result<u64, linux::Error> {
    let relative = format!("proc/{pid}/fd");
    // Only the running kernel's /proc has that meaning of the size; a copy's directory has a size of its own.
    if root.is_live()
        && let Ok(metadata) = std::fs::metadata(root.path(&relative))
        && metadata.len() > 0
    {
        return Ok(metadata.len());
    }
    Ok(root.list(&relative)?.len() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cut_texts_are_refused() {
        assert_eq!(parse_io("rchar: 5\nsyscr: 1\n"), None);
    }

    #[test]
    fn io_takes_storage_bytes_and_all_calls() {
        let text = "rchar: 6976\nwchar: 11\nsyscr: 10\nsyscw: 4\nread_bytes: 4096\nwrite_bytes: 8192\ncancelled_write_bytes: 0\n";
        assert_eq!(parse_io(text), Some([4096.0, 8192.0, 10.0, 4.0]));
    }

    #[test]
    fn the_soft_limit_of_open_files() {
        let text = |soft: &str| {
            format!(
                "Limit   Soft Limit   Hard Limit   Units\nMax open files    {soft}    4096    files\n"
            )
        };
        assert_eq!(parse_open_files_limit(&text("1024")), Some(Some(1024)));
        assert_eq!(parse_open_files_limit(&text("unlimited")), Some(None));
        assert_eq!(parse_open_files_limit("Max processes  7  7  x\n"), None);
    }

    #[test]
    fn open_files_of_a_copied_root_are_counted() {
        let dir = tempfile::tempdir().unwrap();
        for fd in ["0", "1", "17"] {
            std::fs::create_dir_all(dir.path().join("proc/9/fd")).unwrap();
            std::fs::write(dir.path().join("proc/9/fd").join(fd), "").unwrap();
        }
        assert_eq!(open_files(&Root::new(dir.path()), 9).unwrap(), 3);
    }

    #[test]
    fn own_open_files_by_either_way_agree() {
        let pid = std::process::id() as i32;
        let held: Vec<_> = (0..50)
            .map(|_| std::fs::File::open("/dev/null").unwrap())
            .collect();
        let counted = open_files(&Root::default(), pid).unwrap();
        // Other tests of this process open and close files meanwhile.
        assert!(counted >= held.len() as u64, "{counted}");
    }
}
