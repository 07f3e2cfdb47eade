//! How much of a target's CPU time a finding's row takes: alone, and with the code that exists to call it.
//!
//! A system call that is not made is not prepared either: taking off the call alone promises too little. So a row comes
//! with its callers' own time, each caller's in the proportion in which what it calls belongs to the row, up to the
//! second function of the program. The surprise: a row that is called from a main loop gets almost nothing of it, since
//! the loop calls everything else too.

use crate::diagnosis::work::{frames, works};
use record::{Profile, ProfileKind, Stack};
use std::collections::{BTreeMap, BTreeSet};

/// Functions of the program whose own time may be charged, from the row outwards.
const CALLERS: usize = 2;

/// Shares of a target's samples, 0 to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Row {
    /// Samples in the row and below it.
    pub share: f64,
    /// Own time of its callers, in proportion.
    pub callers: f64,
    /// Samples of the target, for the error of the share.
    pub samples: f64,
}

impl Row {
    /// Standard error of the share.
    pub(crate) fn error(&self) -> f64 {
        (self.share * (1.0 - self.share) / self.samples.max(1.0)).sqrt()
    }
}

/// The row of `kinds` at `target`; `None` without a profile of it.
pub(crate) fn row(profiles: &[Profile], target: &str, kinds: &BTreeSet<&str>) -> Option<Row> {
    let profile = profiles.iter().find(|p| p.kind == ProfileKind::OnCpu)?;
    let stacks: Vec<&Stack> = profile
        .stacks
        .iter()
        .filter(|s| s.target == target)
        .collect();
    let whole: u64 = stacks.iter().map(|s| s.weight).sum();
    if whole == 0 {
        return None;
    }
    // Weight of the row below each caller; own weight of every function, and weight of what it calls.
    let mut below: BTreeMap<u32, u64> = BTreeMap::new();
    let mut own: BTreeMap<u32, u64> = BTreeMap::new();
    let mut inclusive: BTreeMap<u32, u64> = BTreeMap::new();
    let mut of_row = 0;
    for stack in &stacks {
        if let Some(leaf) = stack.frames.last() {
            *own.entry(*leaf).or_default() += stack.weight;
        }
        let once: BTreeSet<u32> = stack.frames.iter().copied().collect();
        for frame in once {
            *inclusive.entry(frame).or_default() += stack.weight;
        }
        let Some(top) = starts_at(profile, stack, kinds) else {
            continue;
        };
        of_row += stack.weight;
        for caller in callers(profile, &stack.frames[..top]) {
            *below.entry(caller).or_default() += stack.weight;
        }
    }
    let charged = below.iter().map(|(caller, row)| {
        let own = own.get(caller).copied().unwrap_or(0) as f64;
        let called = inclusive.get(caller).copied().unwrap_or(0) as f64 - own;
        match called > 0.0 {
            true => own * (*row as f64 / called).min(1.0),
            false => 0.0,
        }
    });
    let whole = whole as f64;
    Some(Row {
        share: of_row as f64 / whole,
        callers: charged.sum::<f64>() / whole,
        samples: whole,
    })
}

/// The outermost frame of the row in a stack.
fn starts_at(profile: &Profile, stack: &Stack, kinds: &BTreeSet<&str>) -> Option<usize> {
    let whole = frames(profile, stack);
    let of_row = |frames: &[&record::Frame]| {
        let mut kinds = kinds.iter();
        kinds.any(|kind| works().matches(frames, &stack.thread, kind))
    };
    if !of_row(&whole) {
        return None;
    }
    (0..whole.len()).find(|at| of_row(&whole[..=*at]))
}

/// Who calls the row: all of the kernel on the way, and the nearest functions of the program.
fn callers(profile: &Profile, above: &[u32]) -> Vec<u32> {
    let mut found = Vec::new();
    let mut of_program = 0;
    for at in above.iter().rev() {
        let kernel = profile.frames.get(*at as usize).is_some_and(|f| f.kernel);
        of_program += usize::from(!kernel);
        if of_program > CALLERS {
            break;
        }
        if !found.contains(at) {
            found.push(*at);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::Frame;

    fn frame(symbol: &str, kernel: bool) -> Frame {
        Frame {
            symbol: symbol.to_owned(),
            module: if kernel { "kernel" } else { "nginx" }.to_owned(),
            kernel,
        }
    }

    fn profile(stacks: &[(&[u32], u64)]) -> Profile {
        let stack = |(frames, weight): &(&[u32], u64)| Stack {
            target: "server".to_owned(),
            thread: "nginx".to_owned(),
            frames: frames.to_vec(),
            weight: *weight,
            pid: 1,
            state: None,
        };
        Profile {
            kind: ProfileKind::OnCpu,
            hz: 99,
            samples: 100,
            lost: 0,
            unwound: 100,
            frames: vec![
                frame("main_loop", false),
                frame("serve_file", false),
                frame("do_sys_openat2", true),
                frame("path_openat", true),
                frame("write_response", false),
            ],
            stacks: stacks.iter().map(stack).collect(),
        }
    }

    #[test]
    fn callers_are_charged_in_proportion() {
        let kinds = BTreeSet::from(["path_lookup"]);
        let profile = profile(&[
            // The loop: 10 alone, 30 in serve_file (10 its own, 20 in the kernel's look-up), 50 elsewhere.
            (&[0], 10),
            (&[0, 1], 10),
            (&[0, 1, 2, 3], 20),
            (&[0, 4], 60),
        ]);
        let row = row(std::slice::from_ref(&profile), "server", &kinds).unwrap();
        assert_eq!(row.share, 0.2);
        // serve_file does nothing else: all of it; the loop's 10 in the proportion 20 of 90 that it calls.
        let expected = 0.1 + 0.1 * 20.0 / 90.0;
        assert!((row.callers - expected).abs() < 1e-9, "{row:?}");
        assert!((row.error() - 0.04).abs() < 1e-9);
        assert_eq!(super::row(&[profile], "other", &kinds), None);
    }
}
