//! A HotSpot JVM that runs already, asked by the protocol that `jcmd` speaks: thread dumps and names of compiled code.
//!
//! In the flow: [`Jvm::attach`] once before the passes that need it, [`Jvm::thread_dump`] and [`Jvm::code_names`] as
//! often as they want; [`Dumper`] takes dumps through a window. The protocol is that of `attachListener_linux.cpp`: a
//! file that names the process, SIGQUIT, and then a Unix socket below its `/tmp` that takes one command a connection.
//!
//! The surprise: without that file SIGQUIT makes the JVM print a dump into the application's output, and a process that
//! does not catch it dies of it. So nothing is sent before the process is seen to be a HotSpot JVM that catches it and
//! does not refuse to be asked.

pub(crate) mod dump;
mod dumper;
#[cfg(test)]
mod tests;

pub use dumper::{Dumped, Dumper};

use crate::jvm::innermost_id;
use dump::DumpedThread;
use linux::pidfd::PidFd;
use record::Unavailable;
use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// A JVM opens its socket within some milliseconds, unless it stands at a safepoint.
const OPENS_WITHIN: Duration = Duration::from_secs(3);
const LOOK: Duration = Duration::from_millis(5);
/// An answer that takes longer is none: a collection may come first.
const ANSWERS_WITHIN: Duration = Duration::from_secs(3);
/// A dump has about 1 KB a thread, a map of compiled code 100 bytes a method.
const MOST_BYTES: u64 = 64 << 20;
/// Bit of SIGQUIT in the masks of `status`.
const SIGQUIT_BIT: u64 = 1 << (libc::SIGQUIT - 1);
/// Flag of a JVM that may not be asked.
const DISABLED: &str = "+DisableAttachMechanism";

/// Why a JVM tells nothing.
#[derive(Debug, thiserror::Error)]
pub enum AttachError {
    #[error("process {0} has ended")]
    Ended(i32),
    #[error("process {0} is no HotSpot JVM")]
    NotJvm(i32),
    #[error("process {pid} does not take SIGQUIT: it is {how}")]
    Signal { pid: i32, how: &'static str },
    #[error("the JVM of process {0} was started with -XX:+DisableAttachMechanism")]
    Disabled(i32),
    #[error("process {pid} runs as user {theirs}, and prony as user {ours}")]
    User { pid: i32, theirs: u32, ours: u32 },
    #[error("{doing}: {cause}")]
    System {
        doing: String,
        cause: std::io::Error,
    },
    #[error("the JVM of process {pid} opened no socket within {} s", OPENS_WITHIN.as_secs())]
    NoSocket { pid: i32 },
    #[error("the JVM of process {0} closed the connection without an answer")]
    Silent(i32),
    #[error("the JVM of process {pid} did not answer `{command}` within {} s", ANSWERS_WITHIN.as_secs())]
    Slow { pid: i32, command: String },
    #[error("the JVM refused `{command}`: {said}")]
    Refused { command: String, said: String },
    #[error("{path} is {what}, and the JVM would write to it")]
    Map { path: String, what: &'static str },
}

impl AttachError {
    /// What would help; may be empty.
    pub fn remedy(&self) -> &'static str {
        match self {
            Self::Ended(_) => "start it, and diagnose again",
            Self::NotJvm(_) | Self::Silent(_) => "",
            Self::Signal { .. } => "start the JVM so that it keeps its handler of SIGQUIT",
            Self::Disabled(_) => "start the JVM without -XX:+DisableAttachMechanism",
            Self::User { .. } => "run prony as root or as the JVM's user",
            Self::System { .. } => "run prony as root, on the host of the JVM",
            Self::NoSocket { .. } => {
                "see whether jcmd can attach; a JVM whose socket in /tmp was removed needs a restart"
            }
            Self::Slow { .. } => "diagnose again when the JVM is not in a long collection",
            Self::Refused { .. } => "names of compiled code need JDK 17 or later",
            Self::Map { .. } => "remove that file",
        }
    }

    /// As a gap of a record.
    pub fn unavailable(&self, what: &str) -> Unavailable {
        Unavailable {
            what: what.to_owned(),
            reason: self.to_string(),
            remedy: self.remedy().to_owned(),
        }
    }
}

/// Whether a process has the HotSpot virtual machine mapped; by its name, where that may not be seen.
pub fn is_jvm(pid: i32) -> bool {
    match std::fs::read_to_string(format!("/proc/{pid}/maps")) {
        Ok(maps) => maps.contains("/libjvm.so") && !maps.contains("/libj9vm"),
        Err(_) => crate::jvm::is_launcher(&linux::Root::default(), pid),
    }
}

/// A JVM that answers.
#[derive(Debug)]
pub struct Jvm {
    pid: i32,
    /// Its id as it sees it.
    own_pid: i32,
    user: (u32, u32),
    /// Its `/tmp`.
    tmp: OwnedFd,
    /// When it began, by the clock of files, ns.
    began_ns: u64,
}

/// What it said, and when.
#[derive(Debug)]
struct Said {
    text: String,
    asked_ns: u64,
    answered_ns: u64,
}

impl Jvm {
    /// Makes a JVM listen, if it does not yet.
    ///
    /// # Errors
    /// Why it is not asked: see [`AttachError`]; nothing was sent to what is no JVM.
    pub fn attach(pid: i32) -> Result<Self, AttachError> {
        let held = PidFd::open(pid).map_err(|_| AttachError::Ended(pid))?;
        let status = status(pid)?;
        let (ours, theirs) = (rustix::process::geteuid().as_raw(), user(pid, &status)?);
        if ours != 0 && ours != theirs.0 {
            let theirs = theirs.0;
            return Err(AttachError::User { pid, theirs, ours });
        }
        if !is_jvm(pid) {
            return Err(AttachError::NotJvm(pid));
        }
        let path = format!("/proc/{pid}/root/tmp");
        let tmp = File::open(&path).map_err(|cause| AttachError::System {
            doing: format!("opening {path}"),
            cause,
        })?;
        let jvm = Self {
            pid,
            own_pid: innermost_id(&status).unwrap_or(pid),
            user: theirs,
            tmp: tmp.into(),
            began_ns: began_ns(pid).ok_or(AttachError::Ended(pid))?,
        };
        if jvm.listens() && jvm.connect().is_ok() {
            return Ok(jvm);
        }
        may_signal(pid, &status)?;
        jvm.wake(&held)?;
        Ok(jvm)
    }

    /// Process id.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Creates the file that makes SIGQUIT a question, asks, and waits for the socket.
    fn wake(&self, held: &PidFd) -> Result<(), AttachError> {
        let name = format!(".attach_pid{}", self.own_pid);
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let made = rustix::fs::openat(
            &self.tmp,
            &name,
            flags | OFlags::WRONLY,
            Mode::RUSR | Mode::WUSR,
        );
        let file = match made {
            Ok(file) => Some(file),
            // Somebody else asks in this very moment, or did not clean up: it serves us as well.
            Err(rustix::io::Errno::EXIST) => None,
            Err(errno) => return Err(self.failed(&format!("creating /tmp/{name}"), errno.into())),
        };
        if let Some(file) = &file {
            // Older JVMs want it to be theirs; without the right to give it away it is ours and theirs alike.
            let _ = std::os::unix::fs::fchown(file, Some(self.user.0), Some(self.user.1));
        }
        let asked = held.signal(libc::SIGQUIT);
        let end = Instant::now() + OPENS_WITHIN;
        let mut opened = false;
        while asked.is_ok() && !opened && Instant::now() < end && !held.wait(LOOK) {
            opened = self.listens() && self.connect().is_ok();
        }
        if file.is_some() {
            let _ = rustix::fs::unlinkat(&self.tmp, &name, AtFlags::empty());
        }
        match asked {
            Err(cause) => Err(self.failed("sending SIGQUIT to the JVM", cause)),
            Ok(()) if opened => Ok(()),
            Ok(()) if held.wait(Duration::ZERO) => Err(AttachError::Ended(self.pid)),
            Ok(()) => Err(AttachError::NoSocket { pid: self.pid }),
        }
    }

    fn failed(&self, doing: &str, cause: std::io::Error) -> AttachError {
        // One that was killed leaves its socket behind.
        if cause.raw_os_error() == Some(libc::ESRCH) || PidFd::open(self.pid).is_err() {
            return AttachError::Ended(self.pid);
        }
        AttachError::System {
            doing: format!("{doing} (process {})", self.pid),
            cause,
        }
    }

    fn socket(&self) -> String {
        format!(".java_pid{}", self.own_pid)
    }

    /// Whether its socket is there, and its own.
    fn listens(&self) -> bool {
        let found = rustix::fs::statat(&self.tmp, self.socket(), AtFlags::SYMLINK_NOFOLLOW);
        found.is_ok_and(|found| {
            FileType::from_raw_mode(found.st_mode) == FileType::Socket
                && found.st_uid == self.user.0
        })
    }

    /// A connection as the JVM's user: it looks at who asks.
    fn connect(&self) -> Result<UnixStream, AttachError> {
        let path = format!("/proc/self/fd/{}/{}", self.tmp.as_raw_fd(), self.socket());
        let open = || -> std::io::Result<UnixStream> {
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            let socket =
                rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
            // A listener whose queue is full is not waited for.
            rustix::net::connect(&socket, &SocketAddrUnix::new(path.as_str())?)?;
            let stream = UnixStream::from(socket);
            stream.set_nonblocking(false)?;
            Ok(stream)
        };
        let opened = as_user(self.user, open).and_then(|opened| opened);
        opened.map_err(|cause| self.failed("connecting to the JVM's socket", cause))
    }

    /// Asks for a diagnostic command, as `jcmd` does.
    fn ask(&self, command: &str) -> Result<Said, AttachError> {
        let mut stream = self.connect()?;
        let asked_ns = linux::clock::monotonic_ns();
        let end = Instant::now() + ANSWERS_WITHIN;
        let broken = |cause: std::io::Error| match cause.kind() {
            std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut => AttachError::Slow {
                pid: self.pid,
                command: command.to_owned(),
            },
            _ => self.failed("asking the JVM", cause),
        };
        // Version of the protocol, the operation, and always three arguments.
        let question = format!("1\0jcmd\0{command}\0\0\0");
        let limit = |stream: &UnixStream| {
            let left = end.saturating_duration_since(Instant::now());
            // A limit of zero would mean none.
            stream.set_read_timeout(Some(left.max(Duration::from_millis(1))))
        };
        stream
            .set_write_timeout(Some(ANSWERS_WITHIN))
            .map_err(broken)?;
        stream.write_all(question.as_bytes()).map_err(broken)?;
        let mut bytes = Vec::new();
        let mut buffer = vec![0; 64 << 10];
        loop {
            limit(&stream).map_err(broken)?;
            let got = stream.read(&mut buffer).map_err(broken)?;
            if got == 0 || bytes.len() as u64 > MOST_BYTES {
                break;
            }
            if Instant::now() > end {
                return Err(broken(std::io::ErrorKind::TimedOut.into()));
            }
            bytes.extend_from_slice(&buffer[..got]);
        }
        let answered_ns = linux::clock::monotonic_ns();
        let text = String::from_utf8_lossy(&bytes);
        let (code, text) = text.split_once('\n').unwrap_or((text.trim(), ""));
        match code.trim() {
            "" if PidFd::open(self.pid).is_err() => Err(AttachError::Ended(self.pid)),
            "" => Err(AttachError::Silent(self.pid)),
            "0" => Ok(Said {
                text: text.to_owned(),
                asked_ns,
                answered_ns,
            }),
            _ => Err(AttachError::Refused {
                command: command.to_owned(),
                said: text
                    .lines()
                    .next()
                    .unwrap_or("no reason was given")
                    .to_owned(),
            }),
        }
    }

    /// Where all its threads are.
    ///
    /// # Errors
    /// [`AttachError`] when it does not answer.
    pub fn thread_dump(&self) -> Result<Vec<DumpedThread>, AttachError> {
        Ok(dump::parse(&self.ask(THREADS)?.text))
    }

    /// Names of the code that it has compiled until now, as lines of a map for perf. The map that it writes for that is
    /// taken away again, if there was none before; a map that an agent keeps is read and left alone.
    ///
    /// # Errors
    /// [`AttachError`] when it does not answer, or writes no map.
    pub fn code_names(&self) -> Result<String, AttachError> {
        let name = format!("perf-{}.map", self.own_pid);
        let before = self.map(&name)?;
        if let Some(map) = &before
            && map.of_agent
        {
            return Ok(map.text.clone());
        }
        self.ask(CODE_NAMES)?;
        let after = self.map(&name)?;
        if before.is_none() && after.is_some() {
            let _ = rustix::fs::unlinkat(&self.tmp, &name, AtFlags::empty());
        }
        let written = |map: &Map| {
            let former = before.as_ref().map_or(0, |before| before.written_ns);
            map.fresh && map.written_ns > former
        };
        let after = after.filter(written);
        after
            .map(|map| map.text)
            .ok_or_else(|| AttachError::Refused {
                command: CODE_NAMES.to_owned(),
                said: format!("it wrote no /tmp/{name}"),
            })
    }

    /// The map in the JVM's `/tmp`, if there is one.
    fn map(&self, name: &str) -> Result<Option<Map>, AttachError> {
        let odd = |what| AttachError::Map {
            path: format!("/tmp/{name}"),
            what,
        };
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = match rustix::fs::openat(&self.tmp, name, flags, Mode::empty()) {
            Ok(file) => File::from(file),
            Err(rustix::io::Errno::NOENT) => return Ok(None),
            Err(rustix::io::Errno::LOOP) => return Err(odd("a symbolic link")),
            Err(errno) => return Err(self.failed(&format!("reading /tmp/{name}"), errno.into())),
        };
        let read = || -> std::io::Result<(std::fs::Metadata, String)> {
            let found = file.metadata()?;
            let mut text = Vec::new();
            if found.is_file() {
                (&file).take(MOST_BYTES).read_to_end(&mut text)?;
            }
            Ok((found, String::from_utf8_lossy(&text).into_owned()))
        };
        let (found, text) =
            read().map_err(|cause| self.failed(&format!("reading /tmp/{name}"), cause))?;
        if !found.is_file() {
            return Err(odd("no ordinary file"));
        }
        if found.uid() != self.user.0 && found.uid() != 0 {
            return Err(odd("another user's"));
        }
        let written_ns = written_ns(&found);
        let fresh = written_ns.saturating_add(START_ERROR_NS) >= self.began_ns;
        Ok(Some(Map {
            fresh,
            // Compiler.perfmap writes numbers with `0x`; agents do as perf itself does.
            of_agent: fresh && !text.is_empty() && !text.starts_with("0x"),
            written_ns,
            text,
        }))
    }
}

const THREADS: &str = "Thread.print";
const CODE_NAMES: &str = "Compiler.perfmap";
/// The kernel counts starts in hundredths of a second, from a start of its own that is rounded to seconds.
const START_ERROR_NS: u64 = 2_000_000_000;

/// A map for perf as it was found.
struct Map {
    text: String,
    written_ns: u64,
    /// Written since the process began.
    fresh: bool,
    of_agent: bool,
}

/// When a file was written, ns since 1970.
pub(crate) fn written_ns(found: &std::fs::Metadata) -> u64 {
    let at = i128::from(found.mtime()) * 1_000_000_000 + i128::from(found.mtime_nsec());
    u64::try_from(at).unwrap_or(0)
}

/// Whether a file was written before a process began: it is about another one that had its id.
pub(crate) fn is_stale(found: &std::fs::Metadata, pid: i32) -> bool {
    let began = began_ns(pid);
    began.is_some_and(|began| written_ns(found).saturating_add(START_ERROR_NS) < began)
}

/// Whether a file was written after a process began: what it read may have been another.
pub(crate) fn is_newer(found: &std::fs::Metadata, pid: i32) -> bool {
    let began = began_ns(pid);
    began.is_none_or(|began| written_ns(found) > began.saturating_add(START_ERROR_NS))
}

/// When a process began, ns since 1970.
fn began_ns(pid: i32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // Field 22; the second one may hold anything.
    let ticks: u64 = stat
        .rsplit_once(')')?
        .1
        .split_ascii_whitespace()
        .nth(19)?
        .parse()
        .ok()?;
    let host = std::fs::read_to_string("/proc/stat").ok()?;
    let booted = host
        .lines()
        .find_map(|line| line.strip_prefix("btime "))?
        .trim();
    let per_s = rustix::param::clock_ticks_per_second().max(1);
    let since_boot = (u128::from(ticks) * 1_000_000_000 / u128::from(per_s)) as u64;
    Some(booted.parse::<u64>().ok()? * 1_000_000_000 + since_boot)
}

fn status(pid: i32) -> Result<String, AttachError> {
    std::fs::read_to_string(format!("/proc/{pid}/status")).map_err(|_| AttachError::Ended(pid))
}

fn field<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    let mut lines = status.lines();
    lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':').map(str::trim))
}

/// Effective user and group.
fn user(pid: i32, status: &str) -> Result<(u32, u32), AttachError> {
    let effective = |name| {
        field(status, name)?
            .split_ascii_whitespace()
            .nth(1)?
            .parse()
            .ok()
    };
    let both = effective("Uid").zip(effective("Gid"));
    both.ok_or(AttachError::Ended(pid))
}

/// Whether SIGQUIT is a question to it, and not its end.
fn may_signal(pid: i32, status: &str) -> Result<(), AttachError> {
    let has = |status: &str, name: &str| {
        let mask = field(status, name).and_then(|mask| u64::from_str_radix(mask, 16).ok());
        mask.is_some_and(|mask| mask & SIGQUIT_BIT != 0)
    };
    let refused = |how| Err(AttachError::Signal { pid, how });
    if has(status, "SigIgn") {
        return refused("ignored");
    }
    if !has(status, "SigCgt") {
        return refused("not caught, and would end it");
    }
    let mut tids = crate::profile::threads(pid).into_iter();
    let takes = |tid| {
        let status = std::fs::read_to_string(format!("/proc/{pid}/task/{tid}/status"));
        status.is_ok_and(|status| !has(&status, "SigBlk"))
    };
    if !tids.any(takes) {
        return refused("blocked in every thread");
    }
    for file in ["cmdline", "environ"] {
        // The environment may hold JAVA_TOOL_OPTIONS; it cannot always be read.
        let bytes = std::fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
        if String::from_utf8_lossy(&bytes).contains(DISABLED) {
            return Err(AttachError::Disabled(pid));
        }
    }
    Ok(())
}

/// Acts as another user where this one is root: credentials belong to threads, so that one is made for it.
fn as_user<T: Send>((uid, gid): (u32, u32), act: impl FnOnce() -> T + Send) -> std::io::Result<T> {
    if uid == rustix::process::geteuid().as_raw() || !rustix::process::geteuid().is_root() {
        return Ok(act());
    }
    // SAFETY: asks for a number of the process.
    let dumpable = unsafe { libc::prctl(libc::PR_GET_DUMPABLE) };
    let result = std::thread::scope(|scope| {
        let acting = scope.spawn(|| {
            become_user(uid, gid)?;
            Ok(act())
        });
        acting.join().unwrap_or_else(|_| {
            Err(std::io::Error::other(
                "the thread that took the JVM's user failed",
            ))
        })
    });
    // The kernel protects a process whose credentials change; none of ours have.
    // SAFETY: sets the number that was read before.
    unsafe { libc::prctl(libc::PR_SET_DUMPABLE, dumpable) };
    result
}

/// Effective ids of the calling thread alone: the C library's functions would change those of all threads.
fn become_user(uid: u32, gid: u32) -> std::io::Result<()> {
    let keep = u32::MAX;
    for (call, id) in [(libc::SYS_setresgid, gid), (libc::SYS_setresuid, uid)] {
        // SAFETY: three integers; the thread ends with these ids.
        if unsafe { libc::syscall(call, keep, id, keep) } != 0 {
            return Err(std::io::Error::last_os_error());
        }
    }
    Ok(())
}

/// Threads by the ids that a JVM in a pid namespace of its own knows them by; empty where both are the same.
fn foreign_ids(pid: i32) -> std::collections::HashMap<u32, u32> {
    let mut ids = std::collections::HashMap::new();
    for tid in crate::profile::threads(pid) {
        let status = std::fs::read_to_string(format!("/proc/{pid}/task/{tid}/status"));
        let inner = status.ok().and_then(|status| innermost_id(&status));
        if let Some(inner) = inner.filter(|&inner| inner != tid) {
            ids.insert(inner.cast_unsigned(), tid.cast_unsigned());
        }
    }
    ids
}
