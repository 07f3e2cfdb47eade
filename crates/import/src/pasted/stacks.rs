//! Stacks with a number, a frame a line: bcc's offcputime, bpftrace's maps, async-profiler's text, Elasticsearch's hot
//! threads.
//!
//! What is named is the first frame that is not the scheduler's, with its callers. The surprise is where the number
//! stands: above the frames in some, below them in others.

use super::events::{artefact, told};
use super::pieces::short;
use record::pasted::{Artefact, Row};

/// Frames below which every wait stands.
const SCHEDULER: [&str; 6] = [
    "finish_task_switch",
    "__schedule",
    "schedule",
    "__traceiter_",
    "do_syscall_64",
    "[unknown]",
];
/// Frames of a stack that are told.
const TOLD: usize = 3;

/// The names of their figures, and their tools.
const KINDS: [(&str, &str); 6] = [
    ("offcpu", "offcputime"),
    ("probed", "bpftrace"),
    ("sampled", "async-profiler"),
    ("hot", "hot threads"),
    ("stood", "pt-pmp"),
    ("kernel", "/proc/PID/stack"),
];
const OFFCPU: usize = 0;
const PROBED: usize = 1;
const SAMPLED: usize = 2;
const HOT: usize = 3;
const STOOD: usize = 4;
const KERNEL: usize = 5;

/// A stack's kind, its number, and what is told behind its frames.
type Number = (usize, f64, String);

/// All kinds of a text.
pub(super) fn read(lines: &[&str]) -> Vec<Artefact> {
    let mut done = KINDS.map(|(_, tool)| artefact(tool, 0));
    let mut frames: Vec<&str> = Vec::new();
    // Of a block whose number stands above its frames; `-  name (pid)`, above the number of offcputime.
    let mut above: Option<Number> = None;
    let mut process: Option<&str> = None;
    for (number, line) in (1_u32..).zip(lines.iter().copied().chain([""])) {
        let text = line.trim();
        let waited = process.take().and_then(|of| {
            let us: f64 = text.parse().ok()?;
            Some((OFFCPU, us, format!("{of}, {us:.0} us")))
        });
        if let Some((n, names)) = aggregated(text) {
            put(
                &mut done,
                number,
                &names,
                (STOOD, n, format!("{n:.0} threads")),
            );
        }
        if let Some((name, n)) = map_of_names(text) {
            put(
                &mut done,
                number,
                &[name],
                (PROBED, n, format!("{n:.0} times")),
            );
        }
        if let Some(below) = waited.or_else(|| map_end(text)) {
            put(&mut done, number, &frames, below);
            frames.clear();
        } else if let Some(of) = of_process(text) {
            process = Some(of);
        } else if let Some(next) = sampled(text).or_else(|| hot(text)) {
            above = Some(next);
            frames.clear();
        } else if let Some(name) = of_kernel(text) {
            // All threads of a list of them stand one below the other.
            above.get_or_insert((KERNEL, 1.0, String::new()));
            frames.push(name);
        } else if text.is_empty() || text.starts_with('@') {
            if let Some(held) = above.take_if(|_| !frames.is_empty()) {
                put(&mut done, number, &frames, held);
            }
            frames.clear();
        } else if !text.contains("snapshots sharing") {
            frames.extend(frame(line));
        }
    }
    let done = done.into_iter().zip(KINDS);
    done.filter_map(|(found, (name, _))| finished(found, name))
        .collect()
}

/// A frame: a name in a line of its own that is set in or numbered.
fn frame(line: &str) -> Option<&str> {
    let text = line.trim();
    let numbered = text.strip_prefix('[').and_then(|t| t.split_once(']'));
    let numbered = numbered.filter(|(n, _)| n.trim().parse::<u32>().is_ok());
    match numbered {
        Some((_, name)) => Some(name.trim()),
        None => line.starts_with([' ', '\t']).then_some(text),
    }
}

/// `-                orderd (4123)`.
fn of_process(text: &str) -> Option<&str> {
    let of = text.strip_prefix("- ")?.trim();
    let (_, pid) = of.strip_suffix(')')?.rsplit_once('(')?;
    pid.parse::<u32>().ok().map(|_| of)
}

/// `]: 812` and `, nginx]: 812`, the end of a stack in a map of bpftrace.
fn map_end(text: &str) -> Option<Number> {
    let (of, n) = text.split_once("]: ")?;
    let n: f64 = n.parse().ok()?;
    let of = of.trim_start_matches([',', ' ']);
    let plain = !of.contains(['[', '@', '{', '"']);
    plain.then(|| {
        (
            PROBED,
            n,
            format!("{of} {n:.0} times").trim_start().to_owned(),
        )
    })
}

/// `    812 pthread_cond_wait,take_order,worker_main`, the poor man's profiler.
fn aggregated(text: &str) -> Option<(f64, Vec<&str>)> {
    let (n, names) = text.split_once(' ')?;
    let n: u32 = n.parse().ok()?;
    let names: Vec<&str> = names.trim().split(',').collect();
    let named = |name: &&str| name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    let whole = names.len() >= 3 && names.iter().all(named) && !names.concat().contains(' ');
    whole.then(|| (f64::from(n), names))
}

/// `@[tcp_retransmit_skb]: 812`, a map whose key is a name.
fn map_of_names(text: &str) -> Option<(&str, f64)> {
    let (name, n) = text.strip_prefix("@[")?.split_once("]: ")?;
    let named = name.starts_with(|c: char| c.is_ascii_alphabetic());
    named.then(|| Some((name, n.parse().ok()?)))?
}

/// `[<0>] nfs_wait_bit_killable+0x1e/0x90 [nfs]`.
fn of_kernel(text: &str) -> Option<&str> {
    let (_, frame) = text.strip_prefix("[<")?.split_once(">] ")?;
    frame.split_once('+').map(|(name, _)| name)
}

/// `--- 29301000000 ns (47.02%), 2930 samples`.
fn sampled(text: &str) -> Option<Number> {
    let (_, rest) = text.strip_prefix("--- ")?.split_once('(')?;
    let (percent, rest) = rest.split_once("%)")?;
    let told = format!("{percent} %{rest}");
    Some((SAMPLED, percent.parse().ok()?, told))
}

/// `98.7% (493.5ms out of 500ms) cpu usage by thread 'name'`.
fn hot(text: &str) -> Option<Number> {
    let (percent, rest) = text.split_once('%')?;
    let (_, of) = rest.split_once("usage by thread ")?;
    Some((
        HOT,
        percent.trim().parse().ok()?,
        format!("{percent} % of {of}"),
    ))
}

fn put(done: &mut [Artefact; 6], line: u32, frames: &[&str], (kind, n, of): Number) {
    let own = |f: &&&str| !SCHEDULER.iter().any(|s| f.starts_with(s));
    let told: Vec<&str> = frames.iter().filter(own).take(TOLD).copied().collect();
    if told.is_empty() || n <= 0.0 {
        return;
    }
    let (name, found) = (KINDS[kind].0, &mut done[kind]);
    found.begin_at(line);
    found.add(&format!("{name}.rows"), 1.0);
    found.add(&format!("{name}.sum"), n);
    found.rows.push(Row {
        label: short(&told.join(" < ")),
        place: of,
        share: n,
    });
}

fn finished(mut found: Artefact, name: &str) -> Option<Artefact> {
    found.largest_first();
    let first = found.rows.first()?.share;
    let sum = found.value(&format!("{name}.sum"))?;
    found.figures.insert(format!("{name}.most"), first);
    found
        .figures
        .insert(format!("{name}.top_share"), first / sum);
    told(found)
}
