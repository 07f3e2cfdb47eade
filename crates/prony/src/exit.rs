//! Exit codes, everywhere the same (README and `prony --help` list them).

use std::process::ExitCode;

/// How a command ended, for scripts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// A valid result, or nothing wrong.
    Valid,
    /// A threshold or comparison failed.
    Failed,
    /// Command line or experiment file.
    Usage,
    /// The measurement is not valid.
    Invalid,
    /// The environment lacks something.
    Environment,
    /// Interrupted; partial results kept.
    Interrupted,
    /// What the tool exits with whose place prony takes.
    Tool(u8),
}

impl Exit {
    /// What another prony would have exited with.
    pub fn of(code: u8) -> Self {
        let ours = [Self::Failed, Self::Usage, Self::Invalid, Self::Interrupted];
        let known = ours.into_iter().find(|exit| exit.code() == code);
        known.unwrap_or(Self::Environment)
    }

    /// The number that the shell sees.
    pub const fn code(self) -> u8 {
        match self {
            Exit::Valid => 0,
            Exit::Failed => 1,
            Exit::Usage => 2,
            Exit::Invalid => 3,
            Exit::Environment => 4,
            Exit::Interrupted => 130,
            Exit::Tool(code) => code,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit.code())
    }
}

/// A command that could not do its work: what, why, what to do, and the exit code.
#[derive(Debug)]
pub struct Failure {
    /// Exit code.
    pub exit: Exit,
    /// What was being done, the cause, the value.
    pub message: String,
    /// What to do; empty when the message says it.
    pub remedy: String,
}

impl Failure {
    /// From its parts.
    pub fn new(exit: Exit, message: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self {
            exit,
            message: message.into(),
            remedy: remedy.into(),
        }
    }
}
