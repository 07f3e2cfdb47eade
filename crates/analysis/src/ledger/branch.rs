//! The function below which most of a target's CPU time is: where the widest branch of its flame graph parts.
//!
//! Rows divide the time by what runs; a person asks first who it is for. The surprise: whatever all requests pass (a
//! dispatcher, the function that reads them) has everything below it and says nothing. An interpreter's own functions
//! say nothing either: there the functions of its scripts are the tree.

use super::cpu::{self, Read};
use super::types::Branch;
use crate::diagnosis::work::{frames, works};
use record::{Frame, PlaceTold, Profile, Stack, Told};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// A branch has at least this part of the samples.
const MOST: f64 = 0.5;
/// Fewer looks at scripts, or samples, than this say nothing of it.
const FEWEST: u64 = 50;
/// Callers that are named.
const CALLERS: usize = 3;

/// Samples below each function, and the callers of its heaviest stack.
#[derive(Default)]
struct Below {
    samples: u64,
    by: BTreeMap<String, Function>,
}

#[derive(Default)]
struct Function {
    samples: u64,
    /// Of the stack that has most of them: its samples, how deep the function lies there, and who calls it.
    most: u64,
    depth: usize,
    callers: Vec<String>,
}

impl Below {
    /// `path`: the outermost function first.
    fn add(&mut self, path: &[&str], samples: u64) {
        self.samples += samples;
        let mut met = BTreeSet::new();
        for (at, name) in path.iter().enumerate() {
            // Recursion is one function.
            if !met.insert(*name) {
                continue;
            }
            let known = self.by.entry((*name).to_owned()).or_default();
            known.samples += samples;
            if samples > known.most {
                let above = path[..at].iter().rev();
                let above = above.filter(|caller| *caller != name).take(CALLERS);
                (known.most, known.depth) = (samples, at);
                known.callers = above.map(|caller| (*caller).to_owned()).collect();
            }
        }
    }

    /// The smallest that still has most of it, as a share of all of it.
    fn narrowest(&self, is_way: impl Fn(&str) -> bool) -> Option<Branch> {
        let most = |samples: u64| samples as f64 >= MOST * self.samples as f64;
        // Where threads begin is no place of work.
        let wide = self
            .by
            .iter()
            .filter(|(name, one)| most(one.samples) && !one.callers.is_empty() && !is_way(name));
        let narrow = wide.min_by_key(|(_, one)| (one.samples, Reverse(one.depth)));
        let (function, one) = narrow?;
        Some(Branch {
            function: function.clone(),
            callers: one.callers.clone(),
            server: String::new(),
            line: String::new(),
            share: one.samples as f64 / self.samples as f64,
        })
    }
}

/// The branch of some samples, as a share of them; `None` where the code has no names, or only the way of all requests
/// has most of it. `ran`: what interpreters were met at.
pub(super) fn branch(
    profile: &Profile,
    stacks: &[(&Stack, u64)],
    ran: &[&PlaceTold],
    told: &[Told],
) -> Option<Branch> {
    let works = works();
    let mut native = Below::default();
    let mut read = Read::default();
    let mut interpreted = 0;
    for (stack, samples) in stacks {
        let all = frames(profile, stack);
        let shown = works.shown(&all);
        let path: Vec<&str> = (all.iter().filter(|frame| is_named(frame)))
            .map(|frame| cpu::short(&frame.symbol))
            .collect();
        if works.shows(shown, &stack.thread, "net_receive") {
            read.add(path.iter().copied(), *samples);
        }
        if works.shows(shown, &stack.thread, "interpreter") {
            interpreted += samples;
        }
        native.add(&path, *samples);
    }
    if native.samples < FEWEST {
        return None;
    }
    let part = interpreted as f64 / native.samples as f64;
    if part < MOST {
        let ways = read.ways();
        return native.narrowest(|name| ways.contains(name));
    }
    let mut scripts = Below::default();
    for (one, looks) in ran
        .iter()
        .filter_map(|one| Some((one.running(told)?, one.samples)))
    {
        let frames = one.frames.iter().rev().filter(|frame| frame.contains(" ("));
        let path: Vec<&str> = frames.map(String::as_str).collect();
        if !path.is_empty() {
            scripts.add(&path, looks);
        }
    }
    if scripts.samples < FEWEST {
        return None;
    }
    let branch = scripts.narrowest(|_| false)?;
    Some(Branch {
        share: branch.share * part,
        ..branch
    })
}

/// Whether a function's name tells what it is for.
fn is_named(frame: &Frame) -> bool {
    !frame.kernel
        && !frame.symbol.contains(cpu::ADDRESS)
        && !cpu::is_nameless(frame)
        && !cpu::is_helper(&frame.module)
        && !works().matches(&[frame], "", "interpreter")
}
