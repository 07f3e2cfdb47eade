//! Why probes in the kernel cannot be had, in the words of what failed.

use record::Unavailable;
use std::error::Error;

/// Why the tier, or a part of it, cannot be had.
#[derive(Debug, thiserror::Error)]
pub(crate) enum EbpfError {
    #[error("the probes need the running kernel's /proc, not a copy of one")]
    NotLive,
    #[error("the kernel's side is built for x86_64 and aarch64")]
    Architecture,
    #[error("prony runs in a pid namespace of its own, whose ids the kernel's side does not know")]
    PidNamespace,
    #[error("reading the kernel's types: {0}")]
    Btf(String),
    #[error("loading the kernel's side: {0}")]
    Load(String),
    #[error("attaching to the tracepoint {tracepoint}: {cause}")]
    Attach {
        tracepoint: &'static str,
        cause: String,
    },
    #[error("the object has no {0}")]
    Missing(&'static str),
    #[error("writing the map of {what}: {cause}")]
    Map { what: &'static str, cause: String },
}

impl EbpfError {
    /// What would help; may be empty.
    fn remedy(&self) -> &'static str {
        match self {
            Self::NotLive | Self::Missing(_) => "",
            Self::Architecture => "measure on one of them",
            Self::PidNamespace => "run prony in the host's pid namespace (docker run --pid=host)",
            Self::Btf(_) => "use a kernel with CONFIG_DEBUG_INFO_BTF (/sys/kernel/btf/vmlinux)",
            Self::Load(_) | Self::Attach { .. } => {
                "run prony as root, or with CAP_BPF and CAP_PERFMON, on Linux 5.15 or later"
            }
            Self::Map { .. } => "probe fewer processes",
        }
    }

    pub(crate) fn unavailable(&self, what: &str) -> Unavailable {
        Unavailable {
            what: what.to_owned(),
            reason: self.to_string(),
            remedy: self.remedy().to_owned(),
        }
    }
}

/// An error with all its causes: the outer one alone says only that something failed.
pub(crate) fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let words = inner.to_string();
        // Some errors repeat their cause in their own words.
        if !text.contains(&words) {
            text.push_str(": ");
            text.push_str(&words);
        }
        cause = inner.source();
    }
    // The verifier's log is for whoever writes the programs.
    text.lines().next().unwrap_or_default().to_owned()
}
