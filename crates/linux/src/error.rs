//! Why the kernel could not be read or asked, in its own words.

use std::io;
use std::path::PathBuf;

/// What was being done, with what, and what the system said.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file could not be opened or read.
    #[error("reading `{}`: {cause}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's words.
        cause: io::Error,
        /// What makes the file exist, for the case that it does not; may be empty.
        needs: &'static str,
    },
    /// The file does not have the form that the kernel documents.
    #[error("reading `{}`: no {expected} in it", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What was looked for.
        expected: &'static str,
    },
    /// The sock_diag conversation with the kernel failed.
    #[error("{doing} {what}: {cause}")]
    Netlink {
        /// What was being done.
        doing: &'static str,
        /// With which sockets.
        what: &'static str,
        /// The system's words.
        cause: io::Error,
    },
    /// A network namespace could not be entered or left.
    #[error("{doing} `{}`: {cause}", path.display())]
    Namespace {
        /// `opening`, `entering`.
        doing: &'static str,
        /// The namespace's file.
        path: PathBuf,
        /// The system's words.
        cause: io::Error,
    },
    /// A thread is not in the network namespace that it belongs to.
    #[error("this thread is in network namespace {now} and found no way back to {home}")]
    Stranded {
        /// Where it is.
        now: String,
        /// Where it belongs.
        home: String,
    },
}

impl Error {
    /// What would make it readable; empty when nothing would.
    pub fn remedy(&self) -> &'static str {
        match self {
            Self::Read { cause, needs, .. } => match cause.kind() {
                io::ErrorKind::PermissionDenied => {
                    "run prony as root or as the owner of the process, or give it CAP_SYS_PTRACE"
                }
                io::ErrorKind::NotFound | io::ErrorKind::Unsupported => needs,
                _ => "",
            },
            Self::Netlink { .. } => "use a kernel with CONFIG_INET_DIAG (module tcp_diag)",
            Self::Namespace { .. } => "run prony as root",
            Self::Stranded { .. } => "continue the run with a new process (--continue)",
            Self::Malformed { .. } => "",
        }
    }

    /// Whether the process or thread behind the file has ended, as far as the error alone can tell:
    /// opening says "no such file", reading a file kept open says "no such process".
    pub fn says_gone(&self) -> bool {
        matches!(self, Self::Read { cause, .. }
            if cause.kind() == io::ErrorKind::NotFound
                || cause.raw_os_error() == Some(libc::ESRCH))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(kind: io::ErrorKind) -> Error {
        Error::Read {
            path: PathBuf::from("/proc/pressure/cpu"),
            cause: io::Error::from(kind),
            needs: "boot with psi=1",
        }
    }

    #[test]
    fn the_remedy_follows_the_cause() {
        for (kind, remedy) in [
            (io::ErrorKind::NotFound, "boot with psi=1"),
            (io::ErrorKind::PermissionDenied, "CAP_SYS_PTRACE"),
        ] {
            let error = read(kind);
            assert!(error.remedy().contains(remedy), "{error}");
            assert!(
                error
                    .to_string()
                    .starts_with("reading `/proc/pressure/cpu`: ")
            );
        }
        assert_eq!(read(io::ErrorKind::IsADirectory).remedy(), "");
    }

    #[test]
    fn a_process_that_ended_is_told_from_one_that_is_hidden() {
        assert!(read(io::ErrorKind::NotFound).says_gone());
        assert!(!read(io::ErrorKind::PermissionDenied).says_gone());
    }
}
