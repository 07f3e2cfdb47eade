//! CPU samples as rows: each stack in exactly one, by what a person calls that work.
//!
//! Known kinds of work come first (`catalogue/rows.toml`). What is left is a system call by its name, a library by its
//! function, or the program's own code. There the surprise is that neither the innermost nor the outermost function
//! says much: the tree of callers is followed down while one branch holds nearly all of it, and where it parts the
//! branches are the rows, each named by the deepest function that holds nearly all of its branch. A function below
//! which requests are read as well (a dispatcher, a state machine) is on the way of everything, and divided again.

use crate::diagnosis::work::{Shown, Works, frames, works};
use record::{Frame, Profile, Stack};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

/// A branch with this share of its parent is the way on, and no row.
const MAIN_BRANCH: f64 = 0.8;
/// In the name of a function that has none: its address in its file.
pub(super) const ADDRESS: &str = "+0x";
/// Functions below this share of the samples are told together.
const SMALL: f64 = 0.02;
/// What turns off from a branch is told by itself from this share of all samples on.
const APART: f64 = 0.05;
/// A function below which this part of the requests is read is on the way of them all.
const WAY: f64 = 0.25;
/// Fewer samples of reading do not say what the way is.
const FEWEST_READ: u64 = 5;
/// Callers that are named.
const CALLERS: usize = 3;

/// A row as it is declared.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RowRule {
    pub key: String,
    pub label: String,
    /// Kinds of work, one of which the stack must be of.
    pub kinds: Vec<String>,
    /// Where the innermost frame must be; anywhere when left out.
    #[serde(default)]
    pub side: Option<Side>,
    /// The innermost frame is of the module of the frame that shows the kind.
    #[serde(default)]
    pub same_module: bool,
    /// Kinds of work of which no sample of the target may be.
    #[serde(default)]
    pub absent: Vec<String>,
    /// What any server does for what was asked.
    #[serde(default)]
    pub own: bool,
    /// Causes that tell how much of it is too much: where the catalogue lacks one, nobody has said that this is not.
    #[serde(default)]
    pub judged_by: Vec<String>,
    /// No request asks for it.
    #[serde(default)]
    pub needless: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Side {
    User,
    Kernel,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RowRules {
    /// How the names of libraries begin whose functions do what their caller wants.
    helpers: Vec<String>,
    row: Vec<RowRule>,
}

/// The rules that are compiled in.
pub(crate) fn rules() -> &'static [RowRule] {
    &compiled_in().row
}

/// Whether rows of this kind are what no request asks for.
pub(crate) fn is_needless(kind: &str) -> bool {
    rules().iter().any(|rule| rule.needless && rule.key == kind)
}

fn compiled_in() -> &'static RowRules {
    static RULES: OnceLock<RowRules> = OnceLock::new();
    RULES.get_or_init(|| {
        toml::from_str(include_str!("../../catalogue/rows.toml"))
            .expect("a test parses the file that is compiled in")
    })
}

/// What a JVM calls its interpreter in the map of its code.
const INTERPRETER: &str = "Interpreter";
/// The module of code that lies in no file: what a runtime compiled, by its own map or without a name.
const COMPILED_MODULE: &str = "jit";
/// What compiled functions are called together that are too small to be told one by one.
pub(super) const COMPILED: &str = "code that a runtime compiled";
/// What compiled code is called that has no names.
pub(crate) const NAMELESS: &str = "code without names that a runtime compiled";

/// A library that serves, and one function of it, have less than this of a server that does little else.
const MOST_SERVING: f64 = 0.4;
const MOST_SERVING_EACH: f64 = 0.2;

/// A function with less than this of its branch is one of many there (seen: at most 0.22 in healthy servers, 0.29 and
/// more where one function was what is slow).
pub(super) const ONE_OF_MANY: f64 = 0.25;
/// A branch with more of the samples than this is told, however many functions share it.
const MOST_SPREAD: f64 = 0.5;

/// A part of the samples.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct CpuRow {
    pub kind: String,
    pub label: String,
    /// Function and callers.
    pub place: String,
    pub own: bool,
    pub samples: u64,
    /// The one function below which nearly all that the program itself does is, if that is on no request's way.
    pub below: String,
}

/// Samples of some stacks as rows, largest first. `program` is the file name of the server's program.
pub(crate) fn cpu_rows(profile: &Profile, stacks: &[(&Stack, u64)], program: &str) -> Vec<CpuRow> {
    let works = works();
    let mut known: BTreeMap<&str, (&RowRule, Gathered)> = BTreeMap::new();
    let mut calls: BTreeMap<String, Gathered> = BTreeMap::new();
    let mut libraries: BTreeMap<String, Gathered> = BTreeMap::new();
    let mut compiled: BTreeMap<String, Gathered> = BTreeMap::new();
    let mut own = Tree::default();
    let mut read = Read::default();
    let mut read_by = Read::default();
    let seen = stacks.iter().map(|&(stack, samples)| {
        let all = frames(profile, stack);
        let shown = works.shown(&all);
        (stack, samples, all, shown)
    });
    let seen: Vec<(&Stack, u64, Vec<&Frame>, Shown)> = seen.collect();
    let is_met = |kind: &String| {
        let mut stacks = seen.iter();
        stacks.any(|(stack, _, _, shown)| works.shows(*shown, &stack.thread, kind))
    };
    let apply = |rule: &&RowRule| !rule.absent.iter().any(is_met);
    let apply: Vec<&RowRule> = rules().iter().filter(apply).collect();
    for (stack, samples, all, shown) in &seen {
        let fits = |r: &&RowRule| fits(r, works, &stack.thread, (all, *shown));
        let rule = apply.iter().copied().find(fits);
        if let Some(rule) = rule {
            let (_, gathered) = known
                .entry(&rule.key)
                .or_insert((rule, Gathered::default()));
            gathered.add(all, *samples, named_in(all));
            if rule.key == "net_receive" {
                let of_own = all.iter().filter(|f| of_program(&f.module, program));
                read.add(of_own.map(|f| short(&f.symbol)), *samples);
                let users = all.iter().filter(|f| !f.kernel);
                read_by.add(users.map(|f| f.module.as_str()), *samples);
            }
        } else if all.last().is_none_or(|f| f.kernel) {
            let call = call_of(all).unwrap_or_default();
            let gathered = calls.entry(call).or_default();
            gathered.add(all, *samples, kernel_leaf(all));
        } else {
            let users: Vec<&Frame> = all.iter().filter(|f| !f.kernel).copied().collect();
            // What a helper does is done for its caller.
            let leaf = users.iter().rposition(|f| !is_helper(&f.module));
            let leaf = leaf.unwrap_or(users.len() - 1);
            let module = users[leaf].module.clone();
            let of_image = is_image(users[leaf]);
            if of_program(&module, program) && !of_image {
                let of_own = users[..=leaf].iter().filter(|f| f.module == module);
                let path: Vec<&str> = of_own.map(|f| short(&f.symbol)).collect();
                own.add(&path, *samples);
            } else if of_image || is_jit(&module) {
                let gathered = compiled
                    .entry(compiled_name(users[leaf]).to_owned())
                    .or_default();
                gathered.add(all, *samples, Some(users[leaf]));
            } else {
                let gathered = libraries.entry(module).or_default();
                gathered.add(all, *samples, Some(users[leaf]));
            }
        }
    }
    let total: u64 = stacks.iter().map(|(_, samples)| samples).sum();
    let mut rows: Vec<CpuRow> = Vec::new();
    for (rule, gathered) in known.into_values() {
        rows.push(gathered.into_row(&rule.key, rule.label.clone(), rule.own));
    }
    for (call, gathered) in calls {
        let row = match call.as_str() {
            "" => gathered.into_row(
                "kernel",
                "interrupts and other work of the kernel".to_owned(),
                true,
            ),
            _ => gathered.into_row("call", format!("the system call {call}"), false),
        };
        rows.push(row);
    }
    let servers = read_by.ways();
    for (module, gathered) in libraries {
        let serves = servers.contains(&module) && gathered.is_as_serving(total);
        rows.push(gathered.into_row("library", module, serves));
    }
    let mut rest = Gathered::default();
    for (name, gathered) in compiled {
        if name.is_empty() {
            rows.push(gathered.into_row("compiled", NAMELESS.to_owned(), true));
        } else if (gathered.samples as f64) < SMALL * total as f64 {
            rest.join(gathered);
        } else {
            // One function is told like one of a program in C; what is spread over many is what was asked for.
            rows.push(gathered.into_row("compiled", name, false));
        }
    }
    rows.push(rest.into_row("compiled", COMPILED.to_owned(), true));
    rows.extend(own.rows(total, program, &read.ways()));
    rows.retain(|r| r.samples > 0);
    rows.sort_by(|a, b| b.samples.cmp(&a.samples).then(a.label.cmp(&b.label)));
    rows
}

fn fits(rule: &RowRule, works: &Works, thread: &str, (all, shown): (&[&Frame], Shown)) -> bool {
    let leaf_kernel = all.last().is_none_or(|f| f.kernel);
    let side = match rule.side {
        None => true,
        Some(Side::User) => !leaf_kernel,
        Some(Side::Kernel) => leaf_kernel,
    };
    side && rule.kinds.iter().any(|kind| {
        if rule.same_module {
            let Some(leaf) = all.last() else { return false };
            let shown = works.shown_by(kind, all, thread);
            // What a runtime compiled may lie in one module with its interpreter, and is the application's.
            let compiled = leaf.module == COMPILED_MODULE
                || is_image(leaf)
                || is_jit(&leaf.module) && !compiled_name(leaf).is_empty();
            return shown.is_some_and(|f| {
                f.module == leaf.module && (!compiled || leaf.symbol == INTERPRETER)
            });
        }
        works.shows(shown, thread, kind)
    })
}

pub(super) fn is_helper(module: &str) -> bool {
    let helpers = &compiled_in().helpers;
    helpers.iter().any(|h| module.starts_with(h.as_str()))
}

fn is_jit(module: &str) -> bool {
    module.is_empty()
        || module == COMPILED_MODULE
        || module.starts_with('[')
        || module.starts_with("perf-")
        || module.starts_with("//anon")
}

/// Code in a file that is no program and no library: what a runtime compiled before, as SBCL has it in its core.
fn is_image(frame: &Frame) -> bool {
    frame.symbol.ends_with("+?")
}

/// Code that nothing names: `[jit]`, or of an image.
pub(crate) fn is_nameless(frame: &Frame) -> bool {
    frame.symbol.starts_with('[') || is_image(frame)
}

/// The function of compiled code; empty where its runtime does not name it.
fn compiled_name(frame: &Frame) -> &str {
    if is_nameless(frame) {
        ""
    } else {
        short(&frame.symbol)
    }
}

/// The program itself; a program that was replaced while it ran is still itself.
fn of_program(module: &str, program: &str) -> bool {
    let name = module.trim_end_matches(" (deleted)");
    name == program
        || is_library_of(name, program)
        || !name.contains(".so") && !is_jit(name) && program.is_empty()
}

/// A library by the program's name is where its functions are: the program itself only starts them
/// (`libpython3.11.so` of `python3`, `librspamd-server.so` of `rspamd`).
fn is_library_of(module: &str, program: &str) -> bool {
    let stem = module
        .strip_prefix("lib")
        .and_then(|rest| rest.split(".so").next());
    let stem = stem.filter(|stem| !stem.is_empty() && module.contains(".so"));
    let Some(stem) = stem.filter(|_| !program.is_empty()) else {
        return false;
    };
    let versioned = program.strip_prefix(stem);
    let part = stem.strip_prefix(program);
    versioned.is_some_and(|rest| !rest.starts_with(char::is_alphabetic))
        || part.is_some_and(|rest| rest.starts_with(['-', '_', '.']))
}

/// The system call that a stack is below.
fn call_of(all: &[&Frame]) -> Option<String> {
    let names = all.iter().filter(|f| f.kernel).filter_map(|f| {
        let rest = ["__x64_sys_", "__arm64_sys_", "__se_sys_", "__ia32_sys_"];
        rest.iter().find_map(|p| f.symbol.strip_prefix(p))
    });
    names.map(str::to_owned).next().or_else(|| entered(all))
}

/// The call by the kernel's first function below its entry, where the compiler left out the one that has the name.
fn entered(all: &[&Frame]) -> Option<String> {
    let entry = all.iter().position(|f| {
        f.kernel
            && matches!(
                f.symbol.as_str(),
                "do_syscall_64" | "invoke_syscall" | "do_el0_svc"
            )
    })?;
    let first = all.get(entry + 1).filter(|f| f.kernel)?;
    let prefixes = [
        "ksys_",
        "__do_sys_",
        "__sys_",
        "__do_",
        "do_sys_",
        "do_",
        "vfs_",
    ];
    let name = prefixes.iter().find_map(|p| first.symbol.strip_prefix(p));
    Some(name.unwrap_or(&first.symbol).to_owned())
}

/// The innermost user function with a name worth telling.
fn named_in<'a>(all: &[&'a Frame]) -> Option<&'a Frame> {
    let users = || all.iter().rev().filter(|f| !f.kernel);
    users()
        .find(|f| !is_helper(&f.module))
        .or(users().next())
        .copied()
}

fn kernel_leaf<'a>(all: &[&'a Frame]) -> Option<&'a Frame> {
    all.last().copied()
}

/// Samples of a row with the functions that stand for it.
#[derive(Default)]
struct Gathered {
    samples: u64,
    /// By function, with its callers.
    at: BTreeMap<(String, String), (u64, String)>,
}

impl Gathered {
    fn add(&mut self, all: &[&Frame], samples: u64, at: Option<&Frame>) {
        self.samples += samples;
        let Some(at) = at else { return };
        let key = (short(&at.symbol).to_owned(), at.module.clone());
        let entry = self.at.entry(key).or_insert_with(|| (0, callers(all, at)));
        entry.0 += samples;
    }

    fn join(&mut self, other: Self) {
        self.samples += other.samples;
        for (key, (samples, callers)) in other.at {
            let entry = self.at.entry(key).or_insert((0, callers));
            entry.0 += samples;
        }
    }

    /// Whether a library that reads the requests has no more than that takes: it calls the handlers and makes the
    /// responses too, in many functions. One function that has much of it is told like one of the program.
    fn is_as_serving(&self, total: u64) -> bool {
        let most = self.at.values().map(|(samples, _)| *samples).max();
        (self.samples as f64) < MOST_SERVING * total as f64
            && (most.unwrap_or_default() as f64) < MOST_SERVING_EACH * total as f64
    }

    fn into_row(self, kind: &str, label: String, own: bool) -> CpuRow {
        let top = self.at.iter().max_by_key(|(_, (samples, _))| *samples);
        let place = top.map_or(String::new(), |((symbol, module), (_, callers))| {
            let function = format!("{symbol} in {module}");
            match callers.as_str() {
                "" => function,
                _ => format!("{function}, called from {callers}"),
            }
        });
        CpuRow {
            kind: kind.to_owned(),
            label,
            place,
            own,
            samples: self.samples,
            ..CpuRow::default()
        }
    }
}

/// A function's name without the parameters that compilers of C++ put behind it.
pub(super) fn short(symbol: &str) -> &str {
    let bare = symbol.trim_end_matches(" const");
    if !bare.ends_with(')') {
        return symbol;
    }
    let mut depth = 0_usize;
    for (at, letter) in bare.char_indices().rev() {
        match letter {
            ')' => depth += 1,
            '(' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 && letter == '(' {
            return if at > 0 { &bare[..at] } else { symbol };
        }
    }
    symbol
}

/// Who called a frame: the nearest named functions above it.
fn callers(all: &[&Frame], at: &Frame) -> String {
    let index = all.iter().rposition(|f| *f == at).unwrap_or(0);
    let above = all[..index]
        .iter()
        .rev()
        .filter(|f| !f.kernel && !is_helper(&f.module));
    let mut names: Vec<&str> = Vec::new();
    for frame in above {
        let name = short(&frame.symbol);
        if names.last() != Some(&name) {
            names.push(name);
        }
        if names.len() == CALLERS {
            break;
        }
    }
    names.join(" < ")
}

/// Samples of reading from sockets by the functions above.
#[derive(Default)]
pub(super) struct Read {
    samples: u64,
    below: BTreeMap<String, u64>,
}

impl Read {
    pub(super) fn add<'a>(&mut self, names: impl Iterator<Item = &'a str>, samples: u64) {
        self.samples += samples;
        // Recursion is one function.
        for name in names.collect::<BTreeSet<_>>() {
            *self.below.entry(name.to_owned()).or_default() += samples;
        }
    }

    /// Functions on the way of all requests.
    pub(super) fn ways(self) -> BTreeSet<String> {
        let least = (WAY * self.samples as f64).max(FEWEST_READ as f64);
        let below = self.below.into_iter();
        let ways = below.filter(|(_, samples)| *samples as f64 >= least);
        ways.map(|(name, _)| name).collect()
    }
}

/// Branches by the function that holds them.
type ByName = BTreeMap<String, Branch>;

/// How branches are cut.
struct Cut<'a> {
    /// Functions on the way of all requests.
    ways: &'a BTreeSet<String>,
    /// What turns off from a branch is one of its own with so many samples.
    apart: f64,
}

/// Samples of a branch.
#[derive(Default)]
struct Branch {
    samples: u64,
    callers: String,
    /// By the function that ran.
    ran: BTreeMap<String, u64>,
    /// What [`CpuRow::below`] says.
    below: String,
}

impl Branch {
    fn join(&mut self, other: Self) {
        if self.samples == 0 {
            self.callers = other.callers;
        }
        self.samples += other.samples;
        for (name, samples) in other.ran {
            *self.ran.entry(name).or_default() += samples;
        }
    }

    /// Whether many functions share it, and more is done besides: the work that was asked for, and no function that
    /// stands out.
    fn is_spread(&self, total: u64) -> bool {
        let most = self.ran.values().max().copied().unwrap_or_default();
        (most as f64) < ONE_OF_MANY * self.samples as f64
            && (self.samples as f64) < MOST_SPREAD * total as f64
    }
}

/// The program's own functions by callers.
#[derive(Default)]
struct Tree {
    samples: u64,
    children: BTreeMap<String, Tree>,
}

impl Tree {
    fn add(&mut self, path: &[&str], samples: u64) {
        self.samples += samples;
        if let Some((first, rest)) = path.split_first() {
            self.children
                .entry((*first).to_owned())
                .or_default()
                .add(rest, samples);
        }
    }

    fn largest(&self) -> Option<(&String, &Tree)> {
        self.children.iter().max_by_key(|(_, child)| child.samples)
    }

    /// Samples by the function that ran; this one has that name.
    fn ran(&self, name: &str, into: &mut BTreeMap<String, u64>) {
        *into.entry(name.to_owned()).or_default() += self.itself();
        for (name, child) in &self.children {
            child.ran(name, into);
        }
    }

    /// Samples in the function itself.
    fn itself(&self) -> u64 {
        self.samples - self.children.values().map(|c| c.samples).sum::<u64>()
    }

    /// Rows of what is below, each at least a small share of `total`; the rest is one row.
    fn rows(&self, total: u64, program: &str, ways: &BTreeSet<String>) -> Vec<CpuRow> {
        let mut at = self;
        let mut above: Vec<&str> = Vec::new();
        let mut by_name = ByName::new();
        let cut = Cut {
            ways,
            apart: APART * total as f64,
        };
        while let Some((name, child)) = at.largest() {
            let main = child.samples as f64 >= MAIN_BRANCH * at.samples as f64;
            // A function that does the work itself is a row, not the way to one.
            if !main || child.itself() as f64 >= 0.5 * child.samples as f64 {
                break;
            }
            // What turned off before.
            for (other, child) in at.children.iter().filter(|(other, _)| *other != name) {
                child.branch(other, &above, &cut, &mut by_name);
            }
            above.push(name);
            at = child;
        }
        let mut last = ByName::new();
        for (name, child) in &at.children {
            child.branch(name, &above, &cut, &mut last);
        }
        if let Some(name) = above.last().filter(|_| at.itself() > 0) {
            let branch = last.entry((*name).to_owned()).or_default();
            branch.samples += at.itself();
            *branch.ran.entry((*name).to_owned()).or_default() += at.itself();
        }
        // Where threads begin, and what all requests pass, holds everything without doing it.
        let below = match above.as_slice() {
            [_, .., name] if !ways.contains(*name) => *name,
            _ => "",
        };
        for (name, branch) in last {
            let joined = by_name.entry(name).or_default();
            joined.join(branch);
            joined.below = below.to_owned();
        }
        let mut rest = self.samples - by_name.values().map(|b| b.samples).sum::<u64>();
        let mut rows = Vec::new();
        for (name, branch) in by_name {
            // An address tells nobody what is done there; one place that takes most of it is told all the same.
            let least = if name.contains(ADDRESS) {
                MOST_SPREAD
            } else {
                SMALL
            };
            if (branch.samples as f64) < least * total as f64 {
                rest += branch.samples;
                continue;
            }
            rows.push(CpuRow {
                kind: "function".to_owned(),
                label: name.clone(),
                place: match branch.callers.as_str() {
                    "" => format!("{name} in {program}"),
                    callers => format!("{name} in {program}, called from {callers}"),
                },
                own: branch.is_spread(total),
                samples: branch.samples,
                below: branch.below,
            });
        }
        if rest > 0 {
            rows.push(CpuRow {
                kind: "functions".to_owned(),
                label: format!("other functions of {program}"),
                place: String::new(),
                own: true,
                samples: rest,
                ..CpuRow::default()
            });
        }
        rows
    }

    /// Adds this branch by its deepest function, or by what is below that where it is on the way of all requests or
    /// where threads begin; what turns off before, and is large, by itself.
    fn branch<'a>(&'a self, name: &'a str, above: &[&'a str], cut: &Cut<'_>, by_name: &mut ByName) {
        let mut callers = above.to_vec();
        let (mut at, mut deepest) = (self, name);
        let mut samples = self.samples;
        while let Some((next, child)) = at.largest() {
            if (child.samples as f64) < MAIN_BRANCH * at.samples as f64 {
                break;
            }
            callers.push(deepest);
            let others = at.children.iter().filter(|(other, _)| *other != next);
            for (other, child) in others.filter(|(_, c)| c.samples as f64 >= cut.apart) {
                child.branch(other, &callers, cut, by_name);
                samples -= child.samples;
            }
            (at, deepest) = (child, next);
        }
        let divided = callers.is_empty() || cut.ways.contains(deepest);
        let below = if divided { at.samples - at.itself() } else { 0 };
        if samples > below {
            let nearest: Vec<&str> = callers.iter().rev().take(CALLERS).copied().collect();
            let branch = by_name.entry(deepest.to_owned()).or_default();
            if branch.samples == 0 {
                branch.callers = nearest.join(" < ");
            }
            branch.samples += samples - below;
            if divided {
                *branch.ran.entry(deepest.to_owned()).or_default() += at.itself();
            } else {
                at.ran(deepest, &mut branch.ran);
            }
        }
        if divided {
            callers.push(deepest);
            for (name, child) in &at.children {
                child.branch(name, &callers, cut, by_name);
            }
        }
    }
}
