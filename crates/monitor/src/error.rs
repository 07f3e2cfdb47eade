//! Why something could not be watched, in the system's own words.
//!
//! Every variant ends up as the reason of a [`record::Unavailable`]; none of them stops a run.

use record::Nanos;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Why a source, or one of its signals, cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum MonitorError {
    /// A file or an answer of the kernel's.
    #[error(transparent)]
    Linux(#[from] linux::Error),
    /// The file is fine, but this kernel does not have the counter.
    #[error("reading `{}`: this kernel does not count `{field}`", path.display())]
    NoField {
        /// The file.
        path: PathBuf,
        /// The kernel's name of the counter.
        field: &'static str,
    },
    /// The kernel writes zeros because the accounting is switched off.
    #[error("reading `{}`: all zero for a thread that has run, so the accounting is off", path.display())]
    AccountingOff {
        /// The file.
        path: PathBuf,
    },
    /// More things of one kind exist than are worth watching.
    #[error("{found} {what} exist, only the first {watched} are watched")]
    TooMany {
        /// What there is too much of.
        what: &'static str,
        /// How many there are.
        found: usize,
        /// How many are watched.
        watched: usize,
    },
    /// Sampling at the rhythm that was asked for would take more than its budget.
    #[error("slowed from {asked} to {widest}: one sample took {took} of CPU")]
    TooDear {
        /// The rhythm that was asked for.
        asked: Nanos,
        /// CPU time of the dearest sample.
        took: Nanos,
        /// The longest time between samples.
        widest: Nanos,
    },
    /// A device that was asked for does not exist.
    #[error("there is no network device `{name}`, only {known}")]
    NoDevice {
        name: String,
        /// Those that exist, separated by commas.
        known: String,
    },
    /// The groups of a process have no such controller where it can be read.
    #[error("no group of {target} under /sys/fs/cgroup has the {controller} controller")]
    NoController {
        target: String,
        /// `cpu` or `memory`.
        controller: &'static str,
    },
    /// A counter of the CPU that the kernel does not give.
    #[error("no hardware counter for it here: perf_event_open: {cause}")]
    NoCounter {
        /// The system's words.
        cause: io::Error,
    },
    /// No device has counters by queue.
    #[error("no driver of {devices} counts by queue")]
    NoQueues {
        /// Devices that were asked.
        devices: String,
    },
    /// No socket listened on the address in any sample.
    #[error("no socket listens on {address} in prony's network namespace or a target's")]
    NotListening {
        /// The address of interest.
        address: SocketAddr,
    },
    /// The sampling thread could not be started.
    #[error("starting the sampling thread: {cause}")]
    Thread {
        /// The system's words.
        cause: io::Error,
    },
    /// The sampling thread panicked.
    #[error("the sampling thread ended early: {cause}")]
    Panicked {
        /// The panic's message.
        cause: String,
    },
}

impl MonitorError {
    /// What would make it available; empty when nothing would.
    pub fn remedy(&self) -> &'static str {
        match self {
            Self::Linux(error) => error.remedy(),
            Self::AccountingOff { .. } => {
                "use a kernel with CONFIG_SCHED_INFO and sched accounting on"
            }
            Self::NoDevice { .. } => "name one that exists",
            Self::TooDear { .. } => "watch fewer processes, or load over fewer connections",
            Self::TooMany { .. } => "name the ones of interest",
            Self::NoController { .. } => {
                "mount the control groups at /sys/fs/cgroup and start prony in the host's cgroup namespace"
            }
            Self::NoCounter { cause } => match cause.raw_os_error() {
                Some(libc::EACCES | libc::EPERM) => "run prony as root, or give it CAP_PERFMON",
                _ => {
                    "measure on a machine whose CPU shows its counters; most virtual ones hide them"
                }
            },
            Self::NotListening { .. } => {
                "start prony as root, or in the network namespace of the server"
            }
            Self::Thread { .. } => "raise the limit of processes (ulimit -u) or free some memory",
            Self::Panicked { .. } => "report this as a bug of prony",
            Self::NoField { .. } | Self::NoQueues { .. } => "",
        }
    }
}
