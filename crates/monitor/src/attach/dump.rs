//! What a JVM prints of its threads, read: where each is, what it waits for, and who holds that.
//!
//! In the flow: after the window, of the texts that the dumper kept. The surprise: a thread that waits for a signal
//! (`Object.wait`) is still shown as one that has locked the monitor, which it has given back for that time.

use record::{Told, ToldState};
use std::collections::HashMap;

/// Innermost functions of a stack that are kept.
const MOST_FRAMES: usize = 32;
/// Classes of the runtime's own that stand between a wait and who asked for it.
const INNER: [&str; 6] = [
    "jdk.internal.",
    "sun.misc.Unsafe",
    "java.util.concurrent.locks.LockSupport",
    "java.util.concurrent.locks.AbstractQueued",
    "java.util.concurrent.locks.AbstractOwnable",
    "java.util.concurrent.ForkJoinPool.managedBlock",
];

/// A thread of a dump.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DumpedThread {
    pub name: String,
    /// Its id as the JVM sees it.
    pub tid: u32,
    /// `RUNNABLE`, `WAITING (parking)`, ...
    pub state: String,
    /// Functions, innermost first.
    pub frames: Vec<String>,
    /// Address and class of what it waits for.
    pub waits_for: Option<(String, String)>,
    /// Addresses of monitors that it has.
    pub holds: Vec<String>,
}

/// The thread that stops all others and looks at them.
const STOPPER: &str = "VM Thread";

/// The id of the thread that took a dump.
pub(super) fn stopper(text: &str) -> Option<u32> {
    let mut headings = text.lines().filter(|line| line.starts_with('"'));
    let stopper = headings.find_map(|line| heading(line).filter(|one| one.name == STOPPER));
    stopper.map(|one| one.tid)
}

/// The threads of a dump that run Java code.
pub(super) fn parse(text: &str) -> Vec<DumpedThread> {
    let mut threads: Vec<DumpedThread> = Vec::new();
    let mut open = false;
    for line in text.lines() {
        if line.starts_with('"') {
            let thread = heading(line);
            open = thread.is_some();
            threads.extend(thread);
            continue;
        }
        let Some(thread) = threads.last_mut().filter(|_| open) else {
            continue;
        };
        let line = line.trim_start();
        if line.is_empty() {
            open = false;
        } else if let Some(state) = line.strip_prefix("java.lang.Thread.State: ") {
            thread.state = state.trim_end().to_owned();
        } else if let Some(frame) = line.strip_prefix("at ") {
            thread
                .frames
                .extend(function(frame).filter(|_| thread.frames.len() < MOST_FRAMES));
        } else if let Some(what) = line.strip_prefix("- ") {
            remark(thread, what);
        }
    }
    for thread in &mut threads {
        // What it waits for it does not have.
        if let Some((address, _)) = &thread.waits_for {
            thread.holds.retain(|held| held != address);
        }
    }
    threads.retain(|thread| !thread.state.is_empty());
    threads
}

/// `"name" #12 [30832] daemon prio=5 ... nid=0x767f waiting on condition`: a name may hold anything, even a quote.
fn heading(line: &str) -> Option<DumpedThread> {
    let (name, rest) = line.get(1..)?.rsplit_once('"')?;
    let nid = rest.split("nid=").nth(1)?.split_ascii_whitespace().next()?;
    let tid = match nid.strip_prefix("0x") {
        Some(hex) => u32::from_str_radix(hex, 16),
        None => nid.parse(),
    };
    Some(DumpedThread {
        name: name.to_owned(),
        tid: tid.ok()?,
        ..DumpedThread::default()
    })
}

/// `L.withLock(L.java:5)`, with a module before the file or a class loader before the class: the function alone.
/// Proxies that the runtime makes for lambdas say nothing.
pub(crate) fn function(frame: &str) -> Option<String> {
    let name = frame.split('(').next()?.trim();
    let name = name.rsplit_once("//").map_or(name, |(_, name)| name);
    let proxy = name.contains("$$Lambda") || name.contains("LambdaForm");
    (!name.is_empty() && !proxy).then(|| name.to_owned())
}

fn remark(thread: &mut DumpedThread, what: &str) {
    let object = |rest: &str| {
        let (address, rest) = rest.trim_start().strip_prefix('<')?.split_once('>')?;
        let class = rest.trim().strip_prefix("(a ")?.strip_suffix(')')?;
        Some((address.to_owned(), class.to_owned()))
    };
    for waits in [
        "waiting to lock",
        "waiting to re-lock in wait()",
        "waiting on",
        "parking to wait for",
    ] {
        if let Some(rest) = what.strip_prefix(waits) {
            thread.waits_for = object(rest).or(thread.waits_for.take());
            return;
        }
    }
    if let Some((address, _)) = what.strip_prefix("locked").and_then(object) {
        thread.holds.push(address);
    }
}

/// All threads of a dump in the words of the record, by their ids.
pub(crate) fn told(threads: &[DumpedThread]) -> Vec<(u32, Told)> {
    let mut holders: HashMap<&str, &DumpedThread> = HashMap::new();
    for thread in threads {
        for held in &thread.holds {
            holders.insert(held, thread);
        }
    }
    let mut all = Vec::new();
    for thread in threads.iter().filter(|thread| !thread.frames.is_empty()) {
        let waits_for = thread.waits_for.as_ref();
        let state = state(thread);
        let owner = waits_for
            .filter(|_| state == ToldState::Lock)
            .and_then(|(address, _)| holders.get(address.as_str()));
        let told = Told {
            runtime: "jvm".to_owned(),
            state,
            frames: callers(thread),
            own: None,
            line: None,
            object: waits_for.map_or(String::new(), |(_, class)| class.clone()),
            owner: owner.map_or(String::new(), |holder| owner_text(holder)),
        };
        all.push((thread.tid, told));
    }
    all
}

/// Whether a function stands between a wait and who asked for it.
pub(crate) fn is_inner(function: &str) -> bool {
    INNER.iter().any(|prefix| function.starts_with(prefix))
}

/// The functions from the one on that the application or a library of the runtime called to wait.
fn callers(thread: &DumpedThread) -> Vec<String> {
    let inner = |frame: &&String| is_inner(frame);
    let waits = !thread.state.starts_with("RUNNABLE");
    let skip = if waits {
        thread.frames.iter().take_while(inner).count()
    } else {
        0
    };
    let frames = thread.frames.get(skip..).filter(|rest| !rest.is_empty());
    frames.unwrap_or(&thread.frames).to_vec()
}

fn state(thread: &DumpedThread) -> ToldState {
    let state = thread.state.as_str();
    if state.starts_with("BLOCKED") {
        return ToldState::Lock;
    }
    if state.ends_with("(on object monitor)") {
        return ToldState::Signal;
    }
    if state.ends_with("(sleeping)") {
        return ToldState::Sleep;
    }
    if !state.ends_with("(parking)") {
        return ToldState::Running;
    }
    let class = thread.waits_for.as_ref().map(|(_, class)| class.as_str());
    let has = |class: &str, parts: &[&str]| parts.iter().any(|part| class.contains(part));
    match class {
        // To park for a time and for nobody is to sleep.
        None if state.starts_with("TIMED") => ToldState::Sleep,
        None => ToldState::Signal,
        Some(class) if has(class, &["Semaphore"]) => ToldState::Permit,
        // A latch, a future or a promise of any library: what is waited for is another thread's result.
        Some(class) if has(class, &["Latch", "Future", "Promise", "Phaser", "Barrier"]) => {
            ToldState::Result
        }
        Some(class)
            if has(
                class,
                &[
                    "ConditionObject",
                    "SynchronousQueue",
                    "Exchanger",
                    "Transfer",
                ],
            ) =>
        {
            ToldState::Signal
        }
        Some(_) => ToldState::Lock,
    }
}

/// Who holds something, and in which function: threads of a pool are one, whatever their number.
fn owner_text(holder: &DumpedThread) -> String {
    let name = holder.name.trim_end_matches(|c: char| c.is_ascii_digit());
    let name = if name.len() < holder.name.len() && name.ends_with(['-', '#', ' ']) {
        name.trim_end_matches(['-', '#', ' '])
    } else {
        &holder.name
    };
    let own = |frame: &&String| {
        !["java.", "javax.", "jdk.", "sun."]
            .iter()
            .any(|prefix| frame.starts_with(prefix))
    };
    let within = holder.frames.iter().find(own).or(holder.frames.first());
    match within {
        Some(function) => format!("thread {name} in {function}"),
        None => format!("thread {name}"),
    }
}
