//! Resource limits of processes (getrlimit(2)): those that prony was started with, those of another process.
//!
//! The surprise: prony's own limits change. A load with many connections raises the limit of open files, and what is
//! started after it would inherit that, so a server of the first trial would run under another limit than those of all
//! later ones. [`keep_limits`] is therefore called before anything else, and every server is given what it kept.

use crate::error::TargetError;
use std::io;
use std::path::Path;
use std::sync::OnceLock;

/// Limits that the kernel knows (`RLIM_NLIMITS`), in the order of their numbers.
const NAMES: [&str; 16] = [
    "cpu time",
    "file size",
    "data size",
    "stack size",
    "core file size",
    "resident set",
    "processes",
    "open files",
    "locked memory",
    "address space",
    "file locks",
    "pending signals",
    "msgqueue size",
    "nice priority",
    "realtime priority",
    "realtime timeout",
];

/// Number of the limit of open files among [`NAMES`].
const OPEN_FILES: usize = libc::RLIMIT_NOFILE as usize;

/// Number of the limit of processes.
const PROCESSES: usize = libc::RLIMIT_NPROC as usize;

/// `CAP_SYS_RESOURCE` (linux/capability.h).
const MAY_RAISE: u32 = 24;

static KEPT: OnceLock<Rlimits> = OnceLock::new();

/// Keeps the limits that this process has now, for the servers that it starts.
pub fn keep_limits() {
    Rlimits::kept();
}

/// A soft and a hard limit; `RLIM_INFINITY` is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Limit {
    soft: u64,
    hard: u64,
}

/// All limits of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rlimits([Limit; NAMES.len()]);

impl Rlimits {
    /// Those that [`keep_limits`] kept; those of now when it was not called.
    pub fn kept() -> Self {
        *KEPT.get_or_init(Self::own)
    }

    fn own() -> Self {
        Self(std::array::from_fn(get))
    }

    /// Those of another process, from /proc: asking the kernel for them takes a capability.
    pub fn of(root: &Path, pid: i32) -> Option<Self> {
        let text = std::fs::read_to_string(root.join(pid.to_string()).join("limits")).ok()?;
        let mut found = [Limit { soft: 0, hard: 0 }; NAMES.len()];
        for (limit, name) in found.iter_mut().zip(NAMES) {
            let line = text
                .lines()
                .find_map(|l| l.strip_prefix("Max ")?.strip_prefix(name))?;
            let mut words = line.split_whitespace().map(|word| match word {
                "unlimited" => Some(libc::RLIM_INFINITY),
                number => number.parse().ok(),
            });
            *limit = Limit {
                soft: words.next()??,
                hard: words.next()??,
            };
        }
        Some(Self(found))
    }

    /// With another limit of open files, soft and hard.
    pub fn with_open_files(mut self, files: Option<u64>) -> Self {
        if let Some(files) = files {
            self.0[OPEN_FILES] = Limit {
                soft: files,
                hard: files,
            };
        }
        self
    }

    /// With a limit of open files that is at least so high, soft and hard.
    pub fn with_more_open_files(mut self, files: u64) -> Self {
        let limit = &mut self.0[OPEN_FILES];
        limit.soft = limit.soft.max(files);
        limit.hard = limit.hard.max(files);
        self
    }

    /// Sets them for this process. System calls on plain values only: it runs between fork and exec.
    ///
    /// # Errors
    /// The system's, when one is above what may be set.
    pub fn set(&self) -> io::Result<()> {
        (0..self.0.len()).try_for_each(|i| set(i, self.0[i]))
    }

    /// Sets what may be set: a limit that is out of reach comes as near as it may. A limit of no process at all is what
    /// a program sets for itself (HAProxy, which never forks): under it none could be started.
    pub fn approach(&self) {
        for (i, wanted) in self.0.iter().enumerate() {
            if self.of_its_own(i) {
                continue;
            }
            if set(i, *wanted).is_err() {
                let hard = wanted.hard.min(get(i).hard);
                let nearest = Limit {
                    soft: wanted.soft.min(hard),
                    hard,
                };
                // What is missing is seen by comparing afterwards.
                let _ = set(i, nearest);
            }
        }
    }

    /// The program has set it for itself.
    fn of_its_own(&self, number: usize) -> bool {
        number == PROCESSES && self.0[number].soft == 0
    }

    /// What of `self` is not so in `other`, one text a limit.
    pub fn missing_in(&self, other: &Self) -> Vec<String> {
        let all = NAMES.iter().zip(self.0).zip(other.0);
        all.filter(|((_, wanted), got)| wanted != got)
            .map(|((name, wanted), got)| {
                format!("limit of {name} {} (it has {})", text(wanted), text(got))
            })
            .collect()
    }
}

fn text(limit: Limit) -> String {
    let one = |n: u64| match n {
        libc::RLIM_INFINITY => "unlimited".to_owned(),
        n => n.to_string(),
    };
    match limit.soft == limit.hard {
        true => one(limit.soft),
        false => format!("{}:{}", one(limit.soft), one(limit.hard)),
    }
}

fn get(number: usize) -> Limit {
    let mut raw = libc::rlimit {
        rlim_cur: libc::RLIM_INFINITY,
        rlim_max: libc::RLIM_INFINITY,
    };
    // SAFETY: `raw` is a valid, writable rlimit. The call fails only for numbers that the kernel does not know.
    unsafe { libc::getrlimit(number as _, &mut raw) };
    Limit {
        soft: raw.rlim_cur,
        hard: raw.rlim_max,
    }
}

fn set(number: usize, limit: Limit) -> io::Result<()> {
    let raw = libc::rlimit {
        rlim_cur: limit.soft,
        rlim_max: limit.hard,
    };
    // SAFETY: `raw` is a valid rlimit.
    match unsafe { libc::setrlimit(number as _, &raw) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Can a target have so many open files on this host?
///
/// # Errors
/// [`TargetError::NoLimit`] with what stands in the way.
pub(crate) fn check(target: &str, open_files: Option<u64>) -> Result<(), TargetError> {
    let Some(wanted) = open_files else {
        return Ok(());
    };
    let no_limit = |cause: String, remedy: &str| {
        Err(TargetError::NoLimit {
            target: target.to_owned(),
            cause,
            remedy: remedy.to_owned(),
        })
    };
    let most = std::fs::read_to_string("/proc/sys/fs/nr_open").ok();
    let most: Option<u64> = most.and_then(|text| text.trim().parse().ok());
    if let Some(most) = most.filter(|most| wanted > *most) {
        let cause = format!("{wanted} open files are more than the kernel allows ({most})");
        return no_limit(cause, "give fewer, or raise the sysctl fs.nr_open");
    }
    let hard = Rlimits::kept().0[OPEN_FILES].hard;
    if wanted > hard && !may_raise() {
        let cause = format!("{wanted} open files are above the hard limit of prony ({hard})");
        return no_limit(cause, "run as root, or raise the hard limit: ulimit -Hn");
    }
    Ok(())
}

fn may_raise() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status.lines().find_map(|l| l.strip_prefix("CapEff:"));
    effective
        .and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok())
        .is_some_and(|set| set >> MAY_RAISE & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_prints_is_what_it_says() {
        let pid = i32::try_from(std::process::id()).unwrap();
        let own = Rlimits::own();
        assert_eq!(Rlimits::of(Path::new("/proc"), pid), Some(own));
        assert_eq!(own.missing_in(&own), [""; 0]);
        let other = own.with_open_files(Some(77));
        let missing = other.missing_in(&own);
        assert_eq!(missing.len(), 1, "{missing:?}");
        assert!(missing[0].starts_with("limit of open files 77 (it has "));
        assert_eq!(Rlimits::of(Path::new("/nonexistent"), 1), None);
    }

    /// A copy of an HAProxy could not be started: execve(2) fails with EAGAIN above the limit of processes.
    #[test]
    fn a_limit_of_no_process_is_the_programs_own() {
        let mut limits = Rlimits::own();
        limits.0[PROCESSES] = Limit { soft: 0, hard: 0 };
        assert!(limits.of_its_own(PROCESSES));
        assert!(!limits.of_its_own(OPEN_FILES));
        limits.0[PROCESSES].soft = 100;
        assert!(!limits.of_its_own(PROCESSES));
    }

    #[test]
    fn more_open_files_than_can_be_are_refused_before_anything_starts() {
        assert!(check("s", None).is_ok() && check("s", Some(16)).is_ok());
        let error = check("s", Some(u64::MAX - 1)).unwrap_err();
        assert!(error.to_string().contains("open files"), "{error}");
        assert!(!error.remedy().is_empty());
    }
}
