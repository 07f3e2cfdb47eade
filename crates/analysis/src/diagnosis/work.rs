//! Kinds of work by symbol, module and thread: which samples of a profile are compression, locks, logging.
//!
//! The patterns are data (`catalogue/work.toml`). A sample may count for several kinds: encryption of what was
//! compressed is both below the write that sent it.

use record::{Frame, Profile, Stack, Told};
use serde::Deserialize;
use std::sync::OnceLock;

/// One pattern of a kind of work. Several may name the same kind: one that matches is enough.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Work {
    /// Kind: `compression`, for the fact `profile.compression_share`.
    pub kind: String,
    /// Which frames count.
    #[serde(default)]
    pub at: At,
    /// Only kernel frames, or only others; both when not given.
    pub kernel: Option<bool>,
    /// Module patterns, one of which must match; any module when empty.
    #[serde(default)]
    pub modules: Vec<String>,
    /// Symbol patterns, likewise.
    #[serde(default)]
    pub symbols: Vec<String>,
    /// Patterns of the thread's name, likewise. Alone, they need no frame.
    #[serde(default)]
    pub threads: Vec<String>,
    /// Patterns of functions that an interpreter says it is in: `(traceback.py:`. A pattern with them is of scripts
    /// alone.
    #[serde(default)]
    pub scripts: Vec<String>,
}

/// Frames that a pattern looks at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum At {
    /// Any frame of the stack.
    #[default]
    Any,
    /// The innermost frame.
    Leaf,
}

/// All kinds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Works {
    /// Patterns.
    pub work: Vec<Work>,
}

/// The patterns that are compiled in.
pub(crate) fn works() -> &'static Works {
    static WORKS: OnceLock<Works> = OnceLock::new();
    WORKS.get_or_init(|| {
        toml::from_str(include_str!("../../catalogue/work.toml"))
            .expect("a test parses the file that is compiled in")
    })
}

/// Whether a thread of this name makes the code of a runtime that compiles while it runs.
pub fn compiles_code(thread: &str) -> bool {
    works().matches(&[], thread, "compiling")
}

/// `^x` at the start, `=x` all of it, else anywhere.
fn matches(pattern: &str, text: &str) -> bool {
    if let Some(start) = pattern.strip_prefix('^') {
        text.starts_with(start)
    } else if let Some(all) = pattern.strip_prefix('=') {
        text == all
    } else {
        text.contains(pattern)
    }
}

fn one_of(patterns: &[String], text: &str) -> bool {
    patterns.is_empty() || patterns.iter().any(|p| matches(p, text))
}

impl Work {
    fn matches(&self, frames: &[&Frame], thread: &str) -> bool {
        if !one_of(&self.threads, thread) || !self.scripts.is_empty() {
            return false;
        }
        if self.modules.is_empty() && self.symbols.is_empty() {
            return true;
        }
        let fits = |f: &Frame| {
            self.kernel.is_none_or(|kernel| f.kernel == kernel)
                && one_of(&self.modules, &f.module)
                && one_of(&self.symbols, &f.symbol)
        };
        match self.at {
            At::Any => frames.iter().any(|f| fits(f)),
            At::Leaf => frames.last().is_some_and(|f| fits(f)),
        }
    }
}

impl Works {
    /// Kinds, each once, in the order of the file.
    pub(crate) fn kinds(&self) -> Vec<&str> {
        let mut kinds: Vec<&str> = Vec::new();
        for work in &self.work {
            if !kinds.contains(&work.kind.as_str()) {
                kinds.push(&work.kind);
            }
        }
        kinds
    }

    /// Kinds of work on the CPU that rules know, `profile.KIND_share`: what tells locks from idle pools, and sleeps of
    /// requests from others, is about time off it; what a runtime compiles and looking up users are rows of the
    /// ledger alone.
    pub(crate) fn judged(&self) -> impl Iterator<Item = &str> {
        let others = [
            "lock_wait",
            "sleep_wait",
            "housekeeping",
            "compiling",
            "account_names",
        ];
        let kinds = self.kinds().into_iter();
        kinds.filter(move |kind| !others.contains(kind))
    }

    /// Whether a stack is of this kind.
    pub(crate) fn is(&self, profile: &Profile, stack: &Stack, kind: &str) -> bool {
        self.matches(&frames(profile, stack), &stack.thread, kind)
    }

    /// The same of frames, root first, that a thread of this name was in.
    pub(crate) fn matches(&self, frames: &[&Frame], thread: &str, kind: &str) -> bool {
        let mut of_kind = self.work.iter().filter(|w| w.kind == kind);
        of_kind.any(|w| w.matches(frames, thread))
    }

    /// Whether functions of scripts can show a kind.
    pub(crate) fn has_scripts(&self, kind: &str) -> bool {
        let mut of_kind = self.work.iter().filter(|w| w.kind == kind);
        of_kind.any(|w| !w.scripts.is_empty())
    }

    /// Whether functions of a script are doing this.
    pub(crate) fn scripted(&self, told: &Told, kind: &str) -> bool {
        let of_kind = self.work.iter().filter(|w| w.kind == kind);
        let mut patterns = of_kind.flat_map(|w| &w.scripts);
        patterns.any(|p| told.frames.iter().any(|frame| matches(p, frame)))
    }

    /// The innermost frame that shows a kind.
    pub(crate) fn shown_by<'a>(
        &self,
        kind: &str,
        frames: &[&'a Frame],
        thread: &str,
    ) -> Option<&'a Frame> {
        let of_kind = || self.work.iter().filter(|w| w.kind == kind);
        let shows = |f: &&&Frame| of_kind().any(|w| w.matches(&[**f], thread));
        frames.iter().rev().find(shows).copied()
    }
}

/// The frames of a stack, root first; indices that lead nowhere are left out.
pub(crate) fn frames<'a>(profile: &'a Profile, stack: &Stack) -> Vec<&'a Frame> {
    let indices = stack.frames.iter();
    indices
        .filter_map(|i| profile.frames.get(*i as usize))
        .collect()
}
