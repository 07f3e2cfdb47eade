//! Kinds of work by symbol, module and thread: which samples of a profile are compression, locks, logging.
//!
//! The patterns are data (`catalogue/work.toml`). A sample may count for several kinds: encryption of what was
//! compressed is both below the write that sent it.

use crate::ledger::{fetches, makes, serializes};
use record::{Frame, Profile, Stack, Told};
use serde::Deserialize;
use std::collections::HashMap;
use std::sync::{Mutex, OnceLock, PoisonError};

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
    /// Parts of a script's line that calls what is compiled into an interpreter and has no function of its own there:
    /// `.findall(`. Likewise of scripts alone; either will do.
    #[serde(default)]
    pub lines: Vec<String>,
    /// Functions that do this by their names, of scripts and of programs that are compiled from sources with names
    /// like theirs.
    #[serde(default)]
    pub named: Option<Named>,
}

/// What a function does by the words of its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Named {
    /// It makes what could be made once (`ledger::makes`).
    Makes,
    /// It reads rows of a database's answer, or makes objects of them (`ledger::fetches`).
    Fetches,
    /// It turns objects into bytes or back (`ledger::serializes`).
    Serializes,
}

impl Named {
    fn is(self, function: &str) -> bool {
        match self {
            Named::Makes => makes(function),
            Named::Fetches => fetches(function),
            Named::Serializes => serializes(function),
        }
    }
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
    /// Of scripts: the application's innermost function and what that called. A layer around the application
    /// (middleware) is in the stack of all that goes on inside it.
    Called,
}

/// All kinds.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Works {
    /// Patterns, at most 128.
    pub work: Vec<Work>,
    #[serde(skip)]
    known: Known,
}

/// Of a function of a program, and of one of the kernel; `None` where nobody has asked.
type BySide = [Option<u128>; 2];

/// What was found out before: a profile has its few thousand functions in a hundred thousand frames.
#[derive(Debug, Default)]
struct Known {
    /// Patterns that fit a frame, a bit for each, by module, symbol, and whether it is the kernel's.
    fits: Mutex<HashMap<String, HashMap<String, BySide>>>,
    /// Patterns of each kind.
    kinds: OnceLock<HashMap<String, Vec<usize>>>,
}

/// Patterns that fit a frame of a stack, and its innermost one: a bit for each.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Shown {
    any: u128,
    leaf: u128,
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
    fn is_of_scripts(&self) -> bool {
        !self.scripts.is_empty() || !self.lines.is_empty()
    }

    fn fits(&self, frame: &Frame) -> bool {
        // What makes something in C++ is the runtime's own, which compiles and loads all the time.
        let named = |named: Named| !frame.symbol.contains("::") && named.is(&frame.symbol);
        self.kernel.is_none_or(|kernel| frame.kernel == kernel)
            && one_of(&self.modules, &frame.module)
            && one_of(&self.symbols, &frame.symbol)
            && self.named.is_none_or(named)
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
        self.shows(self.shown(frames), thread, kind)
    }

    /// What the frames of a stack show, root first, whatever kind is asked for.
    pub(crate) fn shown(&self, frames: &[&Frame]) -> Shown {
        let mut shown = Shown::default();
        for frame in frames {
            shown.leaf = self.fits(frame);
            shown.any |= shown.leaf;
        }
        shown
    }

    /// Whether frames that showed this, in a thread of this name, are of a kind.
    pub(crate) fn shows(&self, shown: Shown, thread: &str, kind: &str) -> bool {
        let of_kind = self.of_kind(kind).iter().map(|&at| (at, &self.work[at]));
        let mut of_stacks = of_kind.filter(|(_, work)| !work.is_of_scripts());
        of_stacks.any(|(at, work)| {
            let whole = work.modules.is_empty() && work.symbols.is_empty() && work.named.is_none();
            let bits = match work.at {
                At::Any | At::Called => shown.any,
                At::Leaf => shown.leaf,
            };
            one_of(&work.threads, thread) && (whole || bits >> at & 1 == 1)
        })
    }

    fn of_kind(&self, kind: &str) -> &[usize] {
        let kinds = self.known.kinds.get_or_init(|| {
            let mut kinds: HashMap<String, Vec<usize>> = HashMap::new();
            for (at, work) in self.work.iter().enumerate() {
                kinds.entry(work.kind.clone()).or_default().push(at);
            }
            kinds
        });
        kinds.get(kind).map_or(&[], Vec::as_slice)
    }

    /// Patterns that fit a frame.
    fn fits(&self, frame: &Frame) -> u128 {
        let fits = self.known.fits.lock();
        let mut fits = fits.unwrap_or_else(PoisonError::into_inner);
        let side = usize::from(frame.kernel);
        let known = fits.get(&frame.module);
        let known = known.and_then(|of_module| of_module.get(&frame.symbol)?[side]);
        if let Some(known) = known {
            return known;
        }
        let fitting = (self.work.iter().enumerate()).filter(|(_, work)| work.fits(frame));
        let found = fitting.fold(0, |bits, (at, _)| bits | 1 << at);
        let of_module = fits.entry(frame.module.clone()).or_default();
        of_module.entry(frame.symbol.clone()).or_default()[side] = Some(found);
        found
    }

    /// Whether functions of scripts can show a kind.
    pub(crate) fn has_scripts(&self, kind: &str) -> bool {
        let mut of_kind = self.work.iter().filter(|w| w.kind == kind);
        of_kind.any(|work| work.named.is_some() || work.is_of_scripts())
    }

    /// Whether functions of a script are doing this.
    pub(crate) fn scripted(&self, told: &Told, kind: &str) -> bool {
        // The innermost function of a script is the one whose line is told: what it calls is compiled in.
        let innermost = told.innermost_of_script();
        let is_innermost = told.own.is_none_or(|own| Some(own as usize) == innermost);
        let line = told.line.as_ref().filter(|_| is_innermost);
        let calling = line.map(|line| line.text.as_str());
        let mut of_kind = self.work.iter().filter(|w| w.kind == kind);
        of_kind.any(|work| {
            let frames = match work.at {
                At::Called => told.called(),
                At::Any | At::Leaf => &told.frames,
            };
            let fits = |frame: &String| {
                work.named.is_some_and(|named| named.is(frame))
                    || work.scripts.iter().any(|p| matches(p, frame))
            };
            let on_line = |line: &str| work.lines.iter().any(|part| line.contains(part));
            frames.iter().any(fits) || calling.is_some_and(on_line)
        })
    }

    /// The innermost frame that shows a kind.
    pub(crate) fn shown_by<'a>(
        &self,
        kind: &str,
        frames: &[&'a Frame],
        thread: &str,
    ) -> Option<&'a Frame> {
        let shows = |f: &&&Frame| self.matches(&[**f], thread, kind);
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
