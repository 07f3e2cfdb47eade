//! Whom a goroutine waits for: those that it has made.
//!
//! In the flow: at the end of a look at all goroutines. A handler that starts others (for each shard, each query, an
//! `errgroup`) and waits until they are done is where they are. The surprise: before Go 1.21 a goroutine does not know
//! who made it, but always in which function that was. Where that function, or the `Wait` of the type whose `Go` it
//! is, stands in the stack of one that waits, the two belong together; which of several such is which does not matter
//! to their sum.

use super::look::{Doing, Seen};
use super::program::Program;
use std::borrow::Cow;
use std::collections::HashMap;

/// Frames of a waiting goroutine in which it may have made others: the runtime's and the library's ways to wait, and
/// the nearest functions of the program.
const NEAREST: usize = 8;
/// Goroutines that wait for each other in turn.
const DEEPEST: usize = 3;
/// Reasons of waits for other goroutines, without what stands behind them in brackets.
const FOR_OTHERS: [&str; 5] = [
    "chan receive",
    "select",
    "semacquire",
    "sync.WaitGroup.Wait",
    "sync.Cond.Wait",
];

/// Puts those that wait for goroutines which they have made where these are: their stack is the other's, with their own
/// below it. Who waits beside one that runs, or for one that waits for a socket, stays as it is.
pub(super) fn follow(seen: &mut [Seen], program: &Program) {
    let mut made: HashMap<&str, Vec<usize>> = HashMap::new();
    for (index, one) in seen.iter().enumerate() {
        if let Some(function) = maker(one, program) {
            made.entry(function).or_default().push(index);
        }
    }
    let waits: Vec<usize> = (0..seen.len())
        .filter(|&index| waits_for_others(&seen[index], program))
        .collect();
    let mut next: HashMap<&str, usize> = HashMap::new();
    let mut child: HashMap<usize, usize> = HashMap::new();
    for &index in &waits {
        let found = functions(&seen[index], program).find_map(|function| {
            let (&function, of) = made.get_key_value(&*function)?;
            let of: Vec<usize> = of.iter().copied().filter(|&one| one != index).collect();
            let turn = next.entry(function).or_default();
            *turn += 1;
            of.get((*turn - 1) % of.len().max(1)).copied()
        });
        child.extend(found.map(|found| (index, found)));
    }
    let mut moved: Vec<(usize, Doing, Vec<u64>)> = Vec::new();
    for (&index, &first) in &child {
        let (mut last, mut stacks) = (first, vec![index, first]);
        while stacks.len() <= DEEPEST
            && let Some(&more) = child.get(&last)
            && !stacks.contains(&more)
        {
            stacks.push(more);
            last = more;
        }
        let is_told = match seen[last].doing {
            Doing::Waiting(reason) => program.reasons[usize::from(reason)] != "IO wait",
            Doing::Syscall => true,
            _ => false,
        };
        if is_told {
            let pcs = stacks.iter().rev().flat_map(|&one| &seen[one].pcs);
            moved.push((index, seen[last].doing, pcs.copied().collect()));
        }
    }
    // Each was put together from what all were before.
    for (index, doing, pcs) in moved {
        seen[index].doing = doing;
        seen[index].pcs = pcs;
    }
}

/// The function that made a goroutine.
fn maker<'a>(one: &Seen, program: &'a Program) -> Option<&'a str> {
    let (_, name) = program.function(one.go_pc.wrapping_sub(1))?;
    Some(name)
}

fn waits_for_others(one: &Seen, program: &Program) -> bool {
    let Doing::Waiting(reason) = one.doing else {
        return false;
    };
    let reason = program.reasons[usize::from(reason)].split(" (").next();
    reason.is_some_and(|reason| FOR_OTHERS.contains(&reason))
}

/// Functions that may have made what a goroutine waits for.
fn functions<'a>(one: &'a Seen, program: &'a Program) -> impl Iterator<Item = Cow<'a, str>> {
    let near = one.pcs.iter().take(NEAREST).skip(1);
    near.filter_map(|pc| {
        let (_, name) = program.function(pc.wrapping_sub(1))?;
        Some(match name.strip_suffix(".Wait") {
            Some(of) => Cow::Owned(format!("{of}.Go")),
            None => Cow::Borrowed(name),
        })
    })
}
