//! Programs that a server starts while it serves, as rows: whatever they do is done because they were started.
//!
//! In the flow: their samples are taken out of a target's before these become rows. The surprise: a process that was
//! forked and runs the server's own program is none of them; a program is known by a name that none of the server's own
//! processes has.

use super::cpu::{CpuRow, cpu_rows};
use super::latency::mostly;
use record::{Profile, Server, Stack};
use std::collections::BTreeMap;

/// Kind of the rows.
const KIND: &str = "started";
/// What a server calls a process that does not serve.
const HELPER: &str = "helper";

/// Samples of stacks.
pub(super) type Sampled<'p> = Vec<(&'p Stack, u64)>;

/// The samples of programs that `server` starts, and the others.
pub(super) fn apart<'p>(
    server: Option<&Server>,
    stacks: Sampled<'p>,
) -> (Sampled<'p>, Sampled<'p>) {
    let Some(server) = server else {
        return (Vec::new(), stacks);
    };
    let is_own = |stack: &Stack| {
        let mut processes = server.processes.iter();
        processes.any(|one| one.pid == stack.pid || one.role != HELPER && one.name == stack.thread)
    };
    stacks.into_iter().partition(|(stack, _)| !is_own(stack))
}

/// A row for each program, with what it mostly does.
pub(super) fn rows(profile: &Profile, stacks: Sampled<'_>) -> Vec<CpuRow> {
    let mut programs: BTreeMap<&str, Sampled<'_>> = BTreeMap::new();
    for (stack, samples) in stacks {
        let of_program = programs.entry(&stack.thread).or_default();
        of_program.push((stack, samples));
    }
    let row = |(program, stacks): (&str, Sampled<'_>)| CpuRow {
        kind: KIND.to_owned(),
        label: format!("the program {program}, which is started anew"),
        place: mostly(&cpu_rows(profile, &stacks, program)),
        samples: stacks.iter().map(|(_, samples)| samples).sum(),
        ..CpuRow::default()
    };
    programs.into_iter().map(row).collect()
}
