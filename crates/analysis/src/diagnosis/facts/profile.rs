//! Where a target's CPU time goes: shares of its samples by kind of work.

use super::{Material, Sheet};
use crate::diagnosis::work;
use crate::ledger::is_nameless;
use record::{Frame, Profile, ProfileKind, Stack, Told};
use std::collections::BTreeMap;

const SOURCE: &str = "on-CPU profile";
const SCRIPTS: &str = "on-CPU profile, and the functions that the runtime said it was in";
const SCRIPT: &str = "profile.script_share";
const INTERPRETED: &str = "profile.jvm_interpreted_share";
/// What its interpreter of bytecode is called by itself.
const INTERPRETER: &str = "Interpreter";
/// The library of a virtual machine whose compiled code is a program like any other, and not a script.
const JVM: &str = "libjvm.so";
/// Fewer samples than this say nothing about shares of a few per cent.
const FEWEST: u64 = 50;
/// Looks at an interpreter cost more than samples: of so few on, a part is known less its standard error.
const FEWEST_LOOKS: u64 = 20;
const NAMES: [&str; 8] = [
    SCRIPT,
    INTERPRETED,
    "profile.crypto_share",
    "profile.logging_call_share",
    "profile.kernel_share",
    "profile.syscall_share",
    "profile.top_symbol_share",
    "profile.top_module_share",
];

pub(super) fn extract(material: &Material<'_>, sheet: &mut Sheet<'_>) {
    let mut reason = material.reason(&["profile"], "no profile was taken");
    let profiles = material.examination().map(|e| e.profiles.as_slice());
    let mut profiles = profiles.unwrap_or_default().iter();
    let found = profiles.find(|p| p.kind == ProfileKind::OnCpu);
    let target = sheet.target.clone();
    if let Some(profile) = found {
        let stacks: Vec<&Stack> = profile
            .stacks
            .iter()
            .filter(|s| s.target == target)
            // What a runtime compiles is over when it is warm, and hides what it then does.
            .filter(|s| !work::works().is(profile, s, "compiling"))
            .collect();
        let samples: u64 = stacks.iter().map(|s| s.weight).sum();
        if samples >= FEWEST {
            shares(profile, &stacks, samples as f64, sheet);
            scripts(material, sheet);
            return;
        }
        reason = format!("the profile holds {samples} samples of it, too few for shares");
    }
    for name in NAMES {
        sheet.unknown(name, &reason);
    }
    for kind in work::works().judged() {
        sheet.unknown(&format!("profile.{kind}_share"), &reason);
    }
}

/// Kinds of work that an interpreter said it was at: their part of the looks, of the interpreter's samples. What was
/// seen of a kind in compiled code is below the interpreter too, so that the larger of the two is known, and not their
/// sum.
fn scripts(material: &Material<'_>, sheet: &mut Sheet<'_>) {
    let all = material.examination().and_then(|e| e.turns.as_ref());
    let (Some(turns), Some(all)) = (material.turns(&sheet.target), all) else {
        return;
    };
    let ran: Vec<(&Told, u64)> = turns
        .ran
        .iter()
        .filter_map(|one| Some((one.running(&all.told)?, one.samples)))
        .collect();
    let looks: u64 = ran.iter().map(|(_, samples)| samples).sum();
    let interpreter = sheet.value("profile.interpreter_share");
    let Some(interpreter) = interpreter.filter(|_| looks >= FEWEST_LOOKS) else {
        return;
    };
    for kind in (work::works().judged()).filter(|kind| work::works().has_scripts(kind)) {
        let of_kind = ran.iter().filter(|(t, _)| work::works().scripted(t, kind));
        let part = of_kind.map(|(_, n)| n).sum::<u64>() as f64 / looks as f64;
        let part = part - (part * (1.0 - part) / looks as f64).sqrt();
        let name = format!("profile.{kind}_share");
        let share = (part * interpreter).max(sheet.value(&name).unwrap_or(0.0));
        if part > 0.0 {
            sheet.known(&name, share, SCRIPTS);
        }
    }
}

/// A stack, and what its frames show.
struct Seen<'a> {
    stack: &'a Stack,
    frames: Vec<&'a Frame>,
    shown: work::Shown,
}

fn shares(profile: &Profile, stacks: &[&Stack], samples: f64, sheet: &mut Sheet<'_>) {
    let works = work::works();
    let seen = stacks.iter().map(|stack| {
        let frames = work::frames(profile, stack);
        let shown = works.shown(&frames);
        Seen {
            stack,
            frames,
            shown,
        }
    });
    let seen: Vec<Seen<'_>> = seen.collect();
    let share = |of: &dyn Fn(&Seen<'_>) -> bool| {
        let fitting = seen.iter().filter(|s| of(s));
        fitting.map(|s| s.stack.weight).sum::<u64>() as f64 / samples
    };
    let in_kernel = |s: &Seen<'_>| s.frames.last().is_some_and(|f| f.kernel);
    sheet.known("profile.kernel_share", share(&in_kernel), SOURCE);
    let enters = ["do_syscall_64", "entry_SYSCALL", "el0_svc", "syscall_"];
    let below_call = |s: &Seen<'_>| {
        let mut kernel = s.frames.iter().filter(|f| f.kernel);
        kernel.any(|f| enters.iter().any(|e| f.symbol.contains(e)))
    };
    sheet.known("profile.syscall_share", share(&below_call), SOURCE);
    let is = |s: &Seen<'_>, kind: &str| works.shows(s.shown, &s.stack.thread, kind);
    let logs = |s: &Seen<'_>| in_kernel(s) && is(s, "logging");
    sheet.known("profile.logging_call_share", share(&logs), SOURCE);
    for kind in works.judged() {
        let name = format!("profile.{kind}_share");
        sheet.known(&name, share(&|s| is(s, kind)), SOURCE);
    }
    let is_jvm = (seen.iter()).any(|s| s.frames.iter().any(|f| f.module.ends_with(JVM)));
    let made = if is_jvm {
        let interpreted = |s: &Seen<'_>| s.frames.last().is_some_and(|f| f.symbol == INTERPRETER);
        sheet.known(INTERPRETED, share(&interpreted), SOURCE);
        0.0
    } else {
        sheet.not_applicable(INTERPRETED, "the server is no JVM");
        share(&|s| is(s, "jit"))
    };
    let script = share(&|s| is(s, "interpreter")).max(made);
    sheet.known(SCRIPT, script, SOURCE);
    // Big numbers, ciphers and digests are those of TLS where anything speaks it, else the application's.
    let speaks_tls = seen.iter().any(|s| is(s, "tls_session"));
    let ciphers = ["tls", "tls_handshake", "tls_bulk", "tls_unnamed"];
    let is_cipher = |s: &Seen<'_>| !is(s, "hash") && ciphers.iter().any(|kind| is(s, kind));
    let of_application = |s: &Seen<'_>| !speaks_tls && !in_kernel(s) && is_cipher(s);
    sheet.known("profile.crypto_share", share(&of_application), SOURCE);
    let (mut symbols, mut modules) = (BTreeMap::new(), BTreeMap::new());
    for Seen { stack, frames, .. } in &seen {
        if let Some(leaf) = frames.last() {
            // Code without names is not one function.
            if !is_nameless(leaf) {
                *symbols.entry(leaf.symbol.as_str()).or_insert(0) += stack.weight;
            }
            if !leaf.kernel {
                *modules.entry(leaf.module.as_str()).or_insert(0) += stack.weight;
            }
        }
    }
    let top =
        |counts: &BTreeMap<&str, u64>| counts.values().max().map_or(0.0, |n| *n as f64 / samples);
    sheet.known("profile.top_symbol_share", top(&symbols), SOURCE);
    sheet.known("profile.top_module_share", top(&modules), SOURCE);
}
