//! One server process with all that it starts: spawned in a session of its own, watched, stopped whole.
//!
//! Everything that must hold before the server's first instruction (session, death signal, CPUs) is set
//! between fork and exec, so its children inherit it. Standard output and error go to files in the
//! working directory, where a dying server's last words are found.

use crate::error::TargetError;
use crate::journal::{Change, ChangeId, Journal, Leader};
use crate::likeness::TakenOn;
use crate::members::{Identity, MARKER};
use crate::rlimits::Rlimits;
use linux::affinity::CpuSet;
use linux::pidfd::PidFd;
use linux::procfs::{self, PROC, Stat};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

/// How long a server may take to end by itself.
const GRACE: Duration = Duration::from_secs(5);
/// A tail of a server's output, in bytes.
const TAIL: u64 = 64 << 10;
/// Lines of last words.
const LAST_LINES: usize = 10;

/// What to start.
pub(crate) struct Order<'a> {
    pub target: &'a str,
    /// Program (an absolute path) and arguments.
    pub argv: &'a [String],
    pub env: &'a BTreeMap<String, String>,
    pub cpus: &'a [u32],
    /// Its own directory, where its output goes.
    pub directory: &'a Path,
    /// Directory that it runs in.
    pub start_in: &'a Path,
    pub marker: &'a str,
    /// What it joins before its first instruction.
    pub places: Surroundings,
    pub under: Under,
}

/// Under which limits a process starts.
pub(crate) enum Under {
    /// These, or it does not start.
    Limits(Box<Rlimits>),
    /// A running server's conditions, as far as they can be had.
    Conditions(Box<TakenOn>),
}

/// What a process enters between fork and exec.
#[derive(Debug, Default)]
pub(crate) struct Surroundings {
    /// Files by which it joins control groups.
    pub groups: Vec<File>,
    /// Network namespace.
    pub network: Option<File>,
    /// NUMA node that its memory comes from.
    pub memory_node: Option<u32>,
}

impl Surroundings {
    /// Only system calls, no allocation: it runs between fork and exec.
    fn enter(&self) -> io::Result<()> {
        for group in &self.groups {
            // "0" is the process that writes (cgroups(7)).
            rustix::io::write(group, b"0")?;
        }
        if let Some(network) = &self.network {
            // SAFETY: the descriptor is open as long as `self` lives; the call takes integers only.
            check(unsafe { libc::setns(network.as_raw_fd(), libc::CLONE_NEWNET) })?;
        }
        if let Some(node) = self.memory_node {
            const MPOL_BIND: libc::c_int = 2;
            let mask: [libc::c_ulong; 2] = match node {
                0..64 => [1 << node, 0],
                64..128 => [0, 1 << (node - 64)],
                _ => return Err(io::Error::from_raw_os_error(libc::EINVAL)),
            };
            let bits = 8 * size_of_val(&mask) + 1;
            // SAFETY: the kernel reads the mask, which lives through the call, up to the number of bits given.
            let result =
                unsafe { libc::syscall(libc::SYS_set_mempolicy, MPOL_BIND, mask.as_ptr(), bits) };
            if result < 0 {
                return Err(io::Error::last_os_error());
            }
        }
        Ok(())
    }
}

fn check(result: libc::c_int) -> io::Result<()> {
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

pub(crate) struct Process {
    target: String,
    child: Child,
    /// `None` on kernels before 5.3, where waiting is done by looking.
    pidfd: Option<PidFd>,
    identity: Identity,
    journal: Journal,
    id: ChangeId,
    ended: Option<ExitStatus>,
    /// Ended with all that it had started.
    stopped: bool,
}

impl Process {
    pub fn spawn(order: Order<'_>, journal: &Journal) -> Result<Self, TargetError> {
        let (target, marker, directory) = (order.target, order.marker, order.directory);
        let program = order.argv.first().cloned().unwrap_or_default();
        let mut command = command(order)?;
        let id = journal.record(Change::Processes {
            marker: marker.to_owned(),
            directory: directory.to_owned(),
        })?;
        let child = command.spawn().map_err(|e| {
            // Nothing was started; not noted, the next start finds nothing to kill.
            let _ = journal.undone(id);
            TargetError::Spawn {
                target: target.to_owned(),
                program,
                cause: e.to_string(),
            }
        })?;
        let pid = i32::try_from(child.id()).expect("the kernel's process ids are positive i32");
        let start_ticks = procfs::stat(Path::new(PROC), pid).map(|s| s.start_ticks);
        let leader = start_ticks.map(|start_ticks| Leader { pid, start_ticks });
        let process = Self {
            target: target.to_owned(),
            child,
            pidfd: PidFd::open(pid).ok(),
            identity: Identity {
                marker: marker.to_owned(),
                directory: directory.to_owned(),
                leader,
            },
            journal: journal.clone(),
            id,
            ended: None,
            stopped: false,
        };
        // Noted after the fact because a pid exists only then; until then the marker identifies it.
        if let Some(leader) = leader {
            process.journal.started(id, leader)?;
        }
        Ok(process)
    }

    pub fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).expect("the kernel's process ids are positive i32")
    }

    /// The process and what it has started, itself first. Once it has been waited for its number may be
    /// another's, and only what is surely ours is told.
    pub fn family(&self) -> Vec<Stat> {
        match self.ended {
            None => procfs::family(Path::new(PROC), self.pid()),
            Some(_) => self.identity.members(Path::new(PROC)),
        }
    }

    /// Sends a signal to the main process, which must still run.
    pub fn signal(&self, signal: i32) -> io::Result<()> {
        match (self.ended, &self.pidfd) {
            (Some(_), _) => Err(io::Error::from_raw_os_error(libc::ESRCH)),
            (None, Some(pidfd)) => pidfd.signal(signal),
            // SAFETY: a system call on integers; the child has not been waited for, so the number is its own.
            (None, None) => check(unsafe { libc::kill(self.pid(), signal) }),
        }
    }

    /// How it ended, at the latest after `longest`; `None` when it still runs then.
    pub fn wait(&mut self, longest: Duration) -> Option<ExitStatus> {
        if self.ended.is_none() {
            match &self.pidfd {
                Some(pidfd) => {
                    pidfd.wait(longest);
                }
                None => std::thread::sleep(longest),
            }
            self.ended = self.child.try_wait().ok().flatten();
        }
        self.ended
    }

    /// The last lines that it wrote to standard error, or to standard output when there are none.
    pub fn last_words(&self) -> String {
        let last_lines = |name: &str| {
            let text = self.output(name);
            let lines: Vec<&str> = text.lines().filter(|l| !l.trim().is_empty()).collect();
            lines[lines.len().saturating_sub(LAST_LINES)..].join("\n")
        };
        let words = last_lines("stderr");
        if words.is_empty() {
            last_lines("stdout")
        } else {
            words
        }
    }

    /// The end of `stdout` or `stderr`.
    pub fn output(&self, name: &str) -> String {
        tail(&output_path(&self.identity.directory, name)).unwrap_or_default()
    }

    /// Asks the whole group to end, waits for a while, kills what is left. Dropping does the same.
    pub fn stop(&mut self) -> Result<(), TargetError> {
        let family = self.family();
        if self.ended.is_none() {
            // SAFETY: the child has not been waited for, so the number is still that of its group.
            unsafe { libc::kill(-self.pid(), libc::SIGTERM) };
            self.wait(GRACE);
        }
        self.identity
            .kill(Path::new(PROC), &family)
            .map_err(|pids| TargetError::Unstoppable {
                target: self.target.clone(),
                pids,
            })?;
        if self.ended.is_none() {
            self.ended = self.child.wait().ok();
        }
        self.stopped = true;
        self.journal.undone(self.id)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if !self.stopped {
            // Best effort: what stays is in the journal, and the next start undoes it.
            let _ = self.stop();
        }
    }
}

fn output_path(directory: &Path, name: &str) -> PathBuf {
    directory.join(format!("{name}.log"))
}

fn tail(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(TAIL)))?;
    let mut bytes = Vec::new();
    file.take(TAIL).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn command(order: Order<'_>) -> Result<Command, TargetError> {
    let output = |name| {
        let path = output_path(order.directory, name);
        File::create(&path).map_err(|e| TargetError::file("creating", path, &e))
    };
    let (program, arguments) = order
        .argv
        .split_first()
        .expect("the launcher finds a program before it orders one");
    let mut command = Command::new(program);
    // What prony was started with is no part of a server that was started without it.
    if matches!(order.under, Under::Conditions(_)) {
        command.env_clear();
    }
    command
        .args(arguments)
        .envs(order.env)
        .env(MARKER, order.marker)
        .current_dir(order.start_in)
        .stdin(Stdio::null())
        .stdout(output("stdout")?)
        .stderr(output("stderr")?);
    let pinned = (!order.cpus.is_empty()).then(|| CpuSet::new(order.cpus));
    let (surroundings, under) = (order.places, order.under);
    let parent = std::process::id();
    // SAFETY: between fork and exec only async-signal-safe calls are made: `before_exec` makes system
    // calls on plain values that the closure owns, and allocates nothing.
    unsafe {
        command.pre_exec(move || before_exec(parent, pinned.as_ref(), &surroundings, &under))
    };
    Ok(command)
}

/// A session of its own (Ctrl-C reaches prony alone, which then stops it in order), its surroundings, its CPUs and its
/// limits, and death with the thread that started it.
fn before_exec(
    parent: u32,
    pinned: Option<&CpuSet>,
    surroundings: &Surroundings,
    under: &Under,
) -> io::Result<()> {
    // SAFETY: a system call without memory; it fails only for a group leader, which a fresh child is not.
    if unsafe { libc::setsid() } < 0 {
        return Err(io::Error::last_os_error());
    }
    surroundings.enter()?;
    pinned.map_or(Ok(()), CpuSet::pin_this_thread)?;
    match under {
        Under::Limits(limits) => limits.set()?,
        Under::Conditions(conditions) => conditions.take_on(),
    }
    // Behind all that changes the user: the kernel forgets the signal then (prctl(2)).
    // SAFETY: a system call on integers.
    if unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM) } < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a system call without memory. The parent may have died before the line above took effect.
    if u32::try_from(unsafe { libc::getppid() }) != Ok(parent) {
        return Err(io::Error::from_raw_os_error(libc::ESRCH));
    }
    Ok(())
}
