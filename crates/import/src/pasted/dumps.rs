//! Dumps of threads: jstack, Go's goroutines, py-spy, gdb, dotnet-stack, Vert.x' blocked threads, and Node's `--prof`
//! summary.
//!
//! All become threads with a state, frames and perhaps a lock. The surprise is what most threads do: nothing. Those
//! that wait for work are counted and not named, and of the others the row is the first frame that is no machinery of
//! waiting.

use super::beans;
use super::chains;
use super::events::{artefact, told};
use record::pasted::{Artefact, Row};

/// All of them in a text.
pub(super) fn read(lines: &[&str]) -> Vec<Artefact> {
    let json = beans::lines(lines);
    let json: Vec<&str> = json.iter().map(String::as_str).collect();
    let mut done = threads(lines);
    done.extend(threads(&json));
    let chain = chains::lines(lines);
    let chain: Vec<&str> = chain.iter().map(String::as_str).collect();
    done.extend(threads(&chain));
    done.extend(total(lines));
    let ticks = node(lines);
    // Without its own part, rows that are set in may be another tool's.
    done.extend(callers_in_node(lines).filter(|_| ticks.is_some()));
    done.extend(ticks);
    done.extend(collections_of_node(lines));
    done.extend(recorded(lines));
    done
}

/// `[123:0x55] 2234 ms: Mark-sweep 145.1 (160.0) -> 144.1 (161.0) MB, 512.5 / 0.0 ms ...` of `node --trace-gc`.
fn collections_of_node(lines: &[&str]) -> Option<Artefact> {
    let mut found = artefact("node --trace-gc", 0);
    for (number, line) in (1_u32..).zip(lines) {
        if !line.contains(" ms: ") {
            continue;
        }
        let kind = ["Scavenge", "Mark-sweep", "Mark-Compact"]
            .iter()
            .find(|k| line.contains(&format!("ms: {k}")));
        // Newer ones tell pooled memory between the heap and the time.
        let took = line
            .rsplit_once(" MB, ")
            .and_then(|(_, rest)| rest.split_whitespace().next()?.parse::<f64>().ok());
        let left = line
            .split_once(" -> ")
            .and_then(|(_, rest)| rest.split_whitespace().next()?.parse::<f64>().ok());
        let (Some(kind), Some(ms)) = (kind, took) else {
            continue;
        };
        found.begin_at(number);
        found.add("node.collections", 1.0);
        found.add(
            "node.whole_collections",
            f64::from(u8::from(*kind != "Scavenge")),
        );
        if found.rows.first().is_none_or(|r| ms > r.share) {
            found.rows = vec![Row::new(super::pieces::short(line), ms)];
        }
        found.largest("node.collection_ms", ms);
        found.largest("node.left_mb", left.unwrap_or(0.0));
        let ran = line
            .split_once("current mu = ")
            .and_then(|(_, rest)| rest.split([')', ' ', ',']).next()?.parse::<f64>().ok());
        if let Some(ran) = ran {
            found.smallest("node.ran_share", ran);
        }
    }
    told(found)
}

/// `jfr print`: `jdk.JavaMonitorEnter { duration = 1.23 s ... stackTrace = [`; of an event its time and first frame.
fn recorded(lines: &[&str]) -> Option<Artefact> {
    let mut found = artefact("jfr print", 0);
    let mut open: Option<(String, f64)> = None;
    for (number, line) in (1_u32..).zip(lines) {
        let text = line.trim();
        if let Some(name) = text.strip_prefix("jdk.").and_then(|n| n.strip_suffix(" {")) {
            open = Some((name.to_owned(), 0.0));
        } else if let Some((name, took)) = open.as_mut() {
            if let Some(rest) = text.strip_prefix("duration = ") {
                *took = super::pieces::seconds(&rest.replace(' ', "")).unwrap_or(0.0);
            } else if let Some((frame, _)) = text
                .split_once(" line: ")
                .or_else(|| text.split_once(")   "))
            {
                found.begin_at(number);
                found.add("jfr.events", 1.0);
                found.largest("jfr.longest_s", *took);
                found
                    .rows
                    .push(Row::new(format!("{name} in {frame}"), *took));
                open = None;
            }
        }
    }
    found.largest_first();
    told(found)
}

/// `goroutine profile: total 20544`.
fn total(lines: &[&str]) -> Option<Artefact> {
    let (number, n) = (1_u32..).zip(lines).find_map(|(number, line)| {
        let (_, n) = line.split_once("goroutine profile: total ")?;
        Some((number, n.trim().parse::<f64>().ok()?))
    })?;
    let mut found = artefact("goroutine profile", number);
    let label = super::pieces::short(lines[number as usize - 1]);
    found.rows.push(Row::new(label, n));
    found.figures.insert("go.goroutines".into(), n);
    Some(found)
}

/// Callers that are told of a stack that stands alone.
const OF_ONE: usize = 4;

#[derive(Clone, Copy, Default, PartialEq)]
enum State {
    #[default]
    Unknown,
    Runs,
    Waits,
    Blocked,
}

#[derive(Default)]
struct Thread<'a> {
    state: State,
    frames: Vec<&'a str>,
    lock: Option<String>,
    /// Threads that this one stands for.
    count: f64,
    /// How long it has waited.
    minutes: f64,
    /// The line that begins it.
    head: &'a str,
}

/// Frames that only wait, sleep, or lead to what does.
const MACHINERY: [&str; 40] = [
    "net.",
    "net/http.",
    "bufio.",
    "io.",
    "crypto/tls.",
    "java.net.",
    "sun.nio.",
    "java.lang.Object.wait",
    "java.lang.Thread.",
    "jdk.internal.misc.",
    "sun.misc.Unsafe",
    "java.util.concurrent",
    "jdk.internal.reflect",
    "runtime.",
    "sync.",
    "internal/",
    "syscall.",
    "__lll_lock",
    "pthread_",
    "__pthread",
    "___pthread",
    "__GI_",
    "__futex",
    "futex_",
    "syscall",
    "poll",
    "epoll_wait",
    "__poll",
    "clone",
    "start_thread",
    "wait (",
    "acquire (",
    "System.Threading.",
    "[Native Frames]",
    "_L_lock_",
    "org.eclipse.jetty.util.SharedBlockingCallback",
    "org.eclipse.jetty.util.FutureCallback",
    "org.apache.tomcat.util.net.",
    "libc_",
    "__libc_",
];
/// Frames in which a server's thread writes or ends a response.
const WRITES: [&str; 9] = [
    "jetty.server.HttpOutput.close",
    "jetty.server.HttpOutput.write",
    "jetty.server.HttpOutput.flush",
    "jetty.server.HttpOutput.channelWrite",
    "tomcat.util.net.SocketWrapperBase.write",
    "NioSocketWrapper.doWrite",
    "NioBlockingSelector.write",
    "catalina.connector.OutputBuffer.realWriteBytes",
    "undertow.servlet.spec.ServletOutputStreamImpl",
];
/// Parts of frames that wait for a lock.
const LOCKS: [&str; 8] = [
    "lll_lock_wait",
    "flock() ",
    "sem_acquire() ",
    "Monitor.Enter",
    "SemacquireMutex",
    "SemacquireRWMutex",
    "(*Mutex).Lock",
    "(*RWMutex).",
];
/// Parts of frames of what comes with an interpreter, of clients for HTTP, and of locks whose package stands apart.
const LIBRARIES: [&str; 10] = [
    "(*Mutex).",
    "(*RWMutex).",
    "(ssl.py",
    "(socket.py",
    "(http/client.py",
    "(selectors.py",
    "(threading.py",
    "(queue.py",
    "(urllib3/",
    "(requests/",
];
/// Frames of Python's event loops, of pools beside them, and of calls that wait.
const PYTHON_LOOPS: [&str; 7] = [
    "(asyncio/base_events.py",
    "(asyncio/events.py",
    "(twisted/internet/",
    "(tornado/ioloop.py",
    "(tornado/gen.py",
    "(tornado/platform/",
    "(aiohttp/web_protocol.py",
];
const PYTHON_POOLS: [&str; 4] = [
    "threadpool.py",
    "_threadworker.py",
    "(concurrent/futures/thread.py",
    "_bootstrap_inner",
];
const PYTHON_WAITS: [&str; 12] = [
    "create_connection (socket.py",
    "getaddrinfo (socket.py",
    "readinto (socket.py",
    "connect (socket.py",
    "recv_into (ssl.py",
    "read (ssl.py",
    "do_handshake (ssl.py",
    "connect (ssl.py",
    "communicate (subprocess.py",
    "wait (subprocess.py",
    "_try_wait (subprocess.py",
    "select (subprocess.py",
];
/// Names of threads of Java's event loops, and what they must not call.
const JAVA_LOOPS: [&str; 5] = [
    "\"vert.x-eventloop-thread",
    "\"nioEventLoopGroup-",
    "\"reactor-http-",
    "\"epollEventLoopGroup-",
    "\"netty-",
];
const JAVA_WAITS: [&str; 8] = [
    "SocketInputStream.socketRead0",
    "Thread.sleep",
    ".blockingGet",
    ".blockingAwait",
    "CompletableFuture.get(",
    "CompletableFuture.join(",
    "FutureTask.get(",
    "CountDownLatch.await(",
];
/// Frames of threads that wait for work.
const IDLE: [&str; 16] = [
    "getTask",
    "EPoll",
    "epoll",
    "KQueue",
    "awaitWork",
    "accept",
    "Selector",
    "DelayedWorkQueue",
    "select (selectors",
    "ReferenceHandler",
    "Finalizer",
    "get (queue.py",
    "_worker (concurrent/futures",
    "idleJobPoll",
    "BlockingArrayQueue.poll",
    "reservedWait",
];

impl Thread<'_> {
    fn idle(&self) -> bool {
        self.state != State::Blocked
            && self
                .frames
                .iter()
                .any(|f| IDLE.iter().any(|i| f.contains(i)))
    }

    /// Whether it runs an event loop and stands in a call that waits for a peer or a program, so that all of the loop
    /// wait.
    fn in_a_loop(&self) -> bool {
        let any = |parts: &[&str]| {
            self.frames
                .iter()
                .any(|f| parts.iter().any(|p| f.contains(p)))
        };
        let stands = |parts: &[&str]| {
            let top = self.frames.iter().take(2);
            top.into_iter().any(|f| parts.iter().any(|p| f.contains(p)))
        };
        let python = any(&PYTHON_LOOPS) && !any(&PYTHON_POOLS) && stands(&PYTHON_WAITS);
        let java = JAVA_LOOPS.iter().any(|l| self.head.contains(l)) && any(&JAVA_WAITS);
        (python || java) && !self.idle()
    }

    /// Whether it is a goroutine in a read of a connection.
    fn reads(&self) -> bool {
        let has = |part: &str| self.frames.iter().any(|f| f.contains(part));
        has("runtime_pollWait") && (has("waitRead") || has("(*conn).Read") || has("(*netFD).Read"))
            || self.head.starts_with("goroutine ") && self.head.contains("[IO wait") && has(".Read")
    }

    /// Whether it waits while it writes or ends a response.
    fn writes(&self) -> bool {
        let writes = |f: &&str| WRITES.iter().any(|w| f.contains(w));
        self.state == State::Waits && self.frames.iter().any(writes)
    }

    /// Where it stands, and the first frame behind that which is the program's own; more of them where the stack stands
    /// alone.
    fn row(&self, alone: bool) -> Option<String> {
        let own = |frame: &str| {
            let bare = frame.strip_prefix("java.base/").unwrap_or(frame);
            let library = MACHINERY.iter().any(|m| bare.starts_with(m));
            !library && !LIBRARIES.iter().any(|l| bare.contains(l))
        };
        let (first, rest) = self.frames.split_first()?;
        if alone {
            let any = rest.iter().any(|f| own(f));
            let callers = rest.iter().filter(|f| !any || own(f)).take(OF_ONE);
            let told: Vec<&str> = std::iter::once(first).chain(callers).copied().collect();
            return Some(told.join(" < "));
        }
        Some(match rest.iter().find(|f| own(f)) {
            Some(next) => format!("{first} < {next}"),
            // A poll says nothing of who reads: the last frame that is shown does.
            None if first.contains("runtime_pollWait") && !rest.is_empty() => {
                format!("{first} < {}", rest[rest.len() - 1])
            }
            None => (*first).to_owned(),
        })
    }
}

/// What a line of a dump is.
enum Line<'a> {
    Head(State, f64),
    /// A goroutine that has waited for so many minutes.
    Waited(State, f64),
    State(State),
    Frame(&'a str),
    /// A thread of which one frame is shown, in its own line.
    Alone(&'a str),
    Lock(String),
    /// The state and the lock in one line.
    Locked(State, String),
}

/// How a thread begins in a management console, which leaves a blank line before its frames.
const OF_A_CONSOLE: &str = "Name: ";

fn threads(lines: &[&str]) -> Vec<Artefact> {
    let mut all: Vec<Thread<'_>> = Vec::new();
    let mut open: Option<Thread<'_>> = None;
    let (mut first, mut stacks) = (0, false);
    for (number, line) in (1_u32..).zip(lines) {
        let line = unlogged(line);
        let Some(found) = line_of(line) else {
            let heads_on = |t: &Thread<'_>| t.frames.is_empty() && t.head.starts_with(OF_A_CONSOLE);
            if line.trim().is_empty() && !open.as_ref().is_some_and(heads_on) {
                all.extend(open.take());
            }
            continue;
        };
        // Without a head a state begins a thread, and so does a frame behind a gap.
        let begins = match &found {
            Line::Head(..) | Line::Waited(..) | Line::Alone(_) => true,
            Line::Locked(..) if line.trim().starts_with('"') => true,
            Line::State(_) => open.as_ref().is_none_or(|t| !t.frames.is_empty()),
            Line::Frame(_) if line.trim().starts_with("#0 ") => {
                stacks = true;
                open.as_ref().is_none_or(|t| !t.frames.is_empty())
            }
            _ => open.is_none(),
        };
        if begins {
            all.extend(open.replace(Thread {
                count: 1.0,
                ..Thread::default()
            }));
        }
        if first == 0 {
            first = number;
        }
        let Some(thread) = open.as_mut() else {
            continue;
        };
        match found {
            Line::Head(state, count) => {
                (thread.state, thread.count) = (state, count);
                thread.head = line.trim();
            }
            Line::Waited(state, minutes) => {
                (thread.state, thread.minutes) = (state, minutes);
                thread.head = line.trim();
            }
            Line::State(state) => thread.state = state,
            Line::Frame(frame) | Line::Alone(frame) => {
                if matches!(found, Line::Alone(_)) {
                    stacks = true;
                    (thread.state, thread.head) = (State::Waits, line.trim());
                }
                if LOCKS.iter().any(|l| frame.contains(l)) {
                    thread.state = State::Blocked;
                } else if frame.contains("(*WaitGroup).Wait") {
                    // Go calls this `semacquire` too.
                    thread.state = State::Waits;
                }
                thread.frames.push(frame);
            }
            Line::Lock(lock) => thread.lock = Some(lock),
            Line::Locked(state, lock) => {
                thread.state = state;
                thread.lock = Some(lock);
                if thread.head.is_empty() {
                    thread.head = line.trim();
                }
            }
        }
    }
    all.extend(open);
    // Heads alone say what goroutines wait for.
    if all.iter().all(|t| t.frames.is_empty()) {
        for thread in all.iter_mut().filter(|t| t.head.starts_with("goroutine ")) {
            thread.frames.push(thread.head.trim_end_matches(':'));
        }
    }
    once(&mut all);
    // A stack of an exception has frames alone.
    all.retain(|t| !t.frames.is_empty() || t.lock.is_some());
    let told = stacks || all.iter().any(|t| t.state != State::Unknown);
    if !told {
        return Vec::new();
    }
    summary(&all, first)
}

/// gdb prints where a core stands before it is asked for its stack: one frame, which the stack begins with again.
fn once(all: &mut Vec<Thread<'_>>) {
    let mut at = 0;
    while at + 1 < all.len() {
        let (one, next) = (&all[at], &all[at + 1]);
        let again = one.head.is_empty()
            && one.frames.len() == 1
            && next.frames.len() > 1
            && one.frames.first() == next.frames.first();
        match again {
            true => drop(all.remove(at)),
            false => at += 1,
        }
    }
}

fn summary(all: &[Thread<'_>], first: u32) -> Vec<Artefact> {
    let mut found = artefact("thread dump", first);
    let mut locks = artefact("locks of the thread dump", first);
    let mut loops = artefact("event loops of the thread dump", first);
    let mut blocked = artefact("blocked threads", first);
    for thread in all {
        found.add("threads.all", thread.count);
        let state = match thread.state {
            State::Blocked => "threads.blocked",
            State::Waits => "threads.waiting",
            State::Runs | State::Unknown => "threads.running",
        };
        found.add(state, thread.count);
        found.largest("threads.minutes", thread.minutes);
        found.add(
            "threads.network_reads",
            if thread.reads() { thread.count } else { 0.0 },
        );
        let of_session = |f: &&str| f.starts_with("session_start() ");
        if thread.state == State::Blocked && thread.frames.iter().any(of_session) {
            found.add("threads.session_locks", thread.count);
        }
        if thread.in_a_loop() {
            found.add("threads.loop_waits", thread.count);
            if let Some(row) = thread.row(false) {
                loops.rows.push(Row::new(row, thread.count));
            }
        }
        if let Some(lock) = &thread.lock {
            locks.rows.push(Row::new(lock.clone(), thread.count));
        }
        if thread.idle() {
            found.add("threads.idle", thread.count);
        } else if let Some(name) = thread.row(all.len() == 1) {
            if thread.state == State::Blocked {
                blocked.rows.push(Row::new(name.clone(), thread.count));
            }
            if thread.writes() {
                found.add("threads.writes", thread.count);
            }
            found.rows.push(Row::new(name, thread.count));
        }
    }
    for name in [
        "threads.blocked",
        "threads.waiting",
        "threads.running",
        "threads.idle",
    ] {
        found.figures.entry(name.to_owned()).or_insert(0.0);
    }
    found.settle();
    locks.settle();
    if let Some(most) = found.rows.first() {
        found.figures.insert("threads.alike".into(), most.share);
    }
    if let Some(most) = locks.rows.first() {
        locks
            .figures
            .insert("threads.at_one_lock".into(), most.share);
    }
    loops.settle();
    blocked.settle();
    vec![found, locks, loops, blocked]
}

/// A line without what the journal, syslog or a container engine puts before it: `May 19 21:07:48 host app[12]: `,
/// `web_1  | `.
fn unlogged(line: &str) -> &str {
    if let Some((before, rest)) = line.split_once("]: ") {
        let of = before.rsplit_once('[');
        let process = of.is_some_and(|(_, id)| id.parse::<u32>().is_ok());
        if process
            && before.starts_with(|c: char| c.is_ascii_alphanumeric())
            && before.contains(':')
        {
            return rest;
        }
    }
    let engine = line.split_once("| ").filter(|(name, _)| {
        let name = name.trim_end();
        let numbered = name.rsplit_once(['_', '-']);
        let plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        name.chars().all(plain) && numbered.is_some_and(|(_, n)| n.parse::<u32>().is_ok())
    });
    engine.map_or(line, |(_, rest)| rest)
}

fn line_of(line: &str) -> Option<Line<'_>> {
    let text = line.trim();
    java(text)
        .or_else(|| go(line))
        .or_else(|| python(line))
        .or_else(|| gdb(text))
        .or_else(|| dotnet(text))
        .or_else(|| php(text))
        .or_else(|| chained(text))
}

/// What `chains` makes of a stack.
fn chained(text: &str) -> Option<Line<'_>> {
    if let Some(frame) = text.strip_prefix(chains::FRAME) {
        return Some(Line::Frame(frame));
    }
    let state = match text.strip_prefix(chains::HEAD)? {
        "blocked" => State::Blocked,
        "waits" => State::Waits,
        _ => State::Runs,
    };
    Some(Line::Head(state, 1.0))
}

fn java(text: &str) -> Option<Line<'_>> {
    if let Some(state) = text.strip_prefix("java.lang.Thread.State:") {
        return Some(Line::State(match state.split_whitespace().next()? {
            "RUNNABLE" => State::Runs,
            "BLOCKED" => State::Blocked,
            _ => State::Waits,
        }));
    }
    if text.contains(" tid=") && (text.contains(" nid=") || text.contains(" prio=")) {
        let state = match () {
            () if text.contains("waiting for monitor entry") => State::Blocked,
            () if text.contains("waiting on condition") || text.contains("in Object.wait") => {
                State::Waits
            }
            () => State::Runs,
        };
        return Some(Line::Head(state, 1.0));
    }
    if text.contains("has been blocked for") && text.contains(" ms") {
        return Some(Line::Head(State::Blocked, 1.0));
    }
    if let Some(found) = of_a_console(text) {
        return Some(found);
    }
    // `jstack -F` says blocked of everything that does not run.
    if let Some(state) = text
        .strip_prefix("Thread ")
        .and_then(|t| t.split_once("(state = "))
        .map(|t| t.1)
    {
        let runs = state.starts_with("IN_JAVA") || state.starts_with("IN_NATIVE");
        return Some(Line::Head(
            if runs { State::Runs } else { State::Waits },
            1.0,
        ));
    }
    if let Some((frame, _)) = text.strip_prefix("- ").and_then(|t| t.split_once(" @bci=")) {
        return Some(Line::Frame(frame));
    }
    for mark in ["- waiting to lock ", "- parking to wait for "] {
        if let Some(lock) = text.strip_prefix(mark) {
            return Some(Line::Lock(
                lock.trim_matches(['<', ' ']).replace("> (a ", " ("),
            ));
        }
    }
    // As IDEs print it: `waiting for exec-6@3371 to release lock on <0x1> (a a.b.C)`.
    if let Some((holder, lock)) = text
        .strip_prefix("waiting for ")
        .and_then(|t| t.split_once(" to release lock on "))
    {
        let class = lock.split_once("(a ").map_or(lock, |(_, class)| class);
        let class = class.trim_matches(['<', '>', ')', ' ']);
        return Some(Line::Lock(format!("{class}, held by {holder}")));
    }
    // `jcmd PID Thread.dump_to_file` has no word before a frame.
    if let Some(frame) = bare_frame(text) {
        return Some(Line::Frame(frame));
    }
    if text.starts_with('#') && text.contains(" \"") && text.ends_with(['"', 'l', 'E', 'G', 'D']) {
        let number = text[1..].split(' ').next()?;
        number.parse::<u32>().ok()?;
        return Some(Line::Head(State::Waits, 1.0));
    }
    // A page may double the word.
    let frame = text.strip_prefix("at ")?.trim_start_matches("at ");
    let dotted = frame.contains('(') && frame.split('(').next()?.contains('.');
    dotted.then_some(Line::Frame(frame))
}

/// A thread as Java's own beans show it: `Name: exec-62`, `State: BLOCKED on a.Class@24 owned by: exec-44`, and in one
/// line `"exec-62" Id=88 BLOCKED on a.Class@24 owned by "exec-44" Id=71`.
fn of_a_console(text: &str) -> Option<Line<'_>> {
    if text.starts_with(OF_A_CONSOLE) {
        return Some(Line::Head(State::Unknown, 1.0));
    }
    let (state, alone) = match text.strip_prefix("State: ") {
        Some(state) => (state, true),
        None => {
            let (_, rest) = text.strip_prefix('"')?.split_once("\" Id=")?;
            (rest.split_once(' ')?.1, false)
        }
    };
    let (word, rest) = state.split_once(' ').unwrap_or((state, ""));
    let state = match word {
        "BLOCKED" => State::Blocked,
        "RUNNABLE" => State::Runs,
        "WAITING" | "TIMED_WAITING" => State::Waits,
        _ => return None,
    };
    let lock = rest.strip_prefix("on ").filter(|_| state == State::Blocked);
    Some(match lock {
        Some(lock) => {
            let (lock, holder) = lock
                .split_once(" owned by")
                .map_or((lock, ""), |(lock, by)| (lock, by));
            let holder = holder.split(" Id=").next().unwrap_or_default();
            let holder = holder.trim_matches([':', ' ', '"']);
            Line::Locked(
                state,
                match holder {
                    "" => lock.to_owned(),
                    holder => format!("{lock}, held by {holder}"),
                },
            )
        }
        None if alone => Line::State(state),
        None => Line::Head(state, 1.0),
    })
}

/// `java.base/java.net.SocketInputStream.read(SocketInputStream.java:12)`, alone.
fn bare_frame(text: &str) -> Option<&str> {
    let (name, place) = text.strip_suffix(')')?.split_once('(')?;
    let (file, number) = place.rsplit_once(':').unwrap_or((place, "0"));
    let source = [".java", ".kt", ".scala", ".groovy", ".clj"]
        .iter()
        .any(|e| file.ends_with(e));
    let path = name.contains('.')
        && name
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"./_$<>".contains(&b));
    (source && path && number.parse::<u32>().is_ok()).then_some(text)
}

/// php-fpm's slow log: `[01-Jan-2023 10:00:00]  [pool www] pid 1234`, then `[0x00007f12] curl_exec() /www/a.php:162`.
fn php(text: &str) -> Option<Line<'_>> {
    if text.contains("[pool ") && text.contains("] pid ") {
        return Some(Line::Head(State::Waits, 1.0));
    }
    // A panel shows the stack alone.
    if text.starts_with("script_filename = ") {
        return Some(Line::State(State::Waits));
    }
    let (address, frame) = text.strip_prefix("[0x")?.split_once("] ")?;
    let hex = address.bytes().all(|b| b.is_ascii_hexdigit());
    (hex && frame.contains("() ")).then_some(Line::Frame(frame))
}

/// `goroutine 12 [semacquire, 5 minutes]:` and `1200 @ 0x43 0x44` above its functions.
fn go(line: &str) -> Option<Line<'_>> {
    if let Some((_, rest)) = line
        .trim()
        .strip_prefix("goroutine ")
        .and_then(|r| r.split_once('['))
    {
        let state = rest.split([',', ']']).next()?;
        if let Some(minutes) = waited(rest) {
            return Some(Line::Waited(go_state(state), minutes));
        }
        return Some(Line::Head(go_state(state), 1.0));
    }
    if let Some((n, rest)) = line.trim().split_once(" @ 0x")
        && let Ok(n) = n.parse::<f64>()
    {
        let hex = rest.split_whitespace().all(|w| {
            w.trim_start_matches("0x")
                .bytes()
                .all(|b| b.is_ascii_hexdigit())
        });
        return hex.then_some(Line::Head(State::Waits, n));
    }
    if let Some(line) = panicparse(line) {
        return Some(line);
    }
    // `#	0x43c5d8	sync.runtime_SemacquireMutex+0x44	/usr/lib/go/...`.
    if let Some(rest) = line.trim_start().strip_prefix('#') {
        let mut words = rest.split_whitespace();
        let address = words.next()?.starts_with("0x");
        let name = words.next().and_then(|w| w.split('+').next());
        return name.filter(|_| address).map(Line::Frame);
    }
    // `net/http.(*conn).serve(0xc000, {0x1, 0x2})`, at the start of its line.
    let (name, _) = line.rsplit_once('(')?;
    let called = line.ends_with(')') && !line.starts_with([' ', '\t']);
    let path = name.contains('.')
        && name
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"./_-*%()@[]~".contains(&b));
    (called && path).then_some(Line::Frame(name))
}

/// How panicparse sums goroutines up: `10: semacquire [5 minutes] [Created by a.(*B).c @ a.go:612]`, then
/// `    sync       mutex.go:149       (*Mutex).lockSlow(#1)`.
fn panicparse(line: &str) -> Option<Line<'_>> {
    if let Some((n, rest)) = line.split_once(": ")
        && let Ok(n) = n.parse::<f64>()
    {
        let (state, _) = rest.split_once(" [Created by ")?;
        let state = state.split(" [").next()?;
        return Some(Line::Head(go_state(state), n));
    }
    let mut words = line.strip_prefix("    ")?.split_whitespace();
    let (_, place, called) = (words.next()?, words.next()?, words.next()?);
    let (file, number) = place.split_once(".go:")?;
    let is_place = !file.is_empty() && number.parse::<u32>().is_ok();
    let from = line.find(called)?;
    let (name, _) = line[from..].rsplit_once('(')?;
    is_place.then_some(Line::Frame(name))
}

fn go_state(state: &str) -> State {
    match state {
        "running" | "runnable" | "syscall" => State::Runs,
        s if s.contains("semacquire") || s.contains("Mutex") => State::Blocked,
        _ => State::Waits,
    }
}

/// The minutes of `chan receive, 45 minutes]:`.
fn waited(state: &str) -> Option<f64> {
    let (_, rest) = state.split(']').next()?.split_once(", ")?;
    rest.strip_suffix(" minutes")?.parse().ok()
}

/// `Thread 123 (idle): "MainThread"`, then `    wait (threading.py:302)`.
fn python(line: &str) -> Option<Line<'_>> {
    if let Some(rest) = line.trim().strip_prefix("Thread ") {
        let state = match () {
            () if rest.contains("(active") => State::Runs,
            () if rest.contains("(idle") => State::Waits,
            () => return None,
        };
        return Some(Line::Head(state, 1.0));
    }
    let (_, place) = line.trim().split_once(" (")?;
    let (file, number) = place.strip_suffix(')')?.rsplit_once(':')?;
    let source = file.ends_with(".py") || file.ends_with(".pyx") || file.ends_with(".so");
    let indented = line.starts_with([' ', '\t']);
    (source && indented && number.parse::<u32>().is_ok()).then(|| Line::Frame(line.trim()))
}

/// `Thread 12 (Thread 0x7f0000 (LWP 123)):`, then `#1  0x00007f in read () from /lib/...`.
fn gdb(text: &str) -> Option<Line<'_>> {
    if text.starts_with("Thread ") && text.contains("(LWP ") {
        return Some(Line::Head(State::Waits, 1.0));
    }
    if let Some(frame) = listed_by_gdb(text) {
        return Some(Line::Alone(frame));
    }
    let of_elfutils = text.strip_prefix("TID ").and_then(|t| t.strip_suffix(':'));
    if of_elfutils.is_some_and(|n| n.parse::<u32>().is_ok()) {
        return Some(Line::Head(State::Waits, 1.0));
    }
    let rest = text.strip_prefix('#')?;
    let (n, rest) = rest.split_once(' ')?;
    n.parse::<u32>().ok()?;
    let rest = rest.trim_start();
    if let Some(frame) = without_arguments(rest) {
        return Some(Line::Frame(frame));
    }
    // PHP numbers its frames too, without this space.
    let frame = behind_its_address(rest);
    frame.find(" (").map(|end| Line::Frame(&frame[..end]))
}

fn behind_its_address(text: &str) -> &str {
    match text.split_once(" in ") {
        Some((address, frame)) if address.starts_with("0x") => frame,
        _ => text,
    }
}

/// `#0  0x00007f3c8e9b4d7f __poll` of eu-stack, perhaps with ` - 1` behind the address.
fn without_arguments(text: &str) -> Option<&str> {
    let (address, rest) = text.split_once(' ')?;
    let hex = address.strip_prefix("0x")?;
    let name = rest.trim_start().trim_start_matches("- 1").trim();
    let whole = hex.len() >= 8 && hex.bytes().all(|b| b.is_ascii_hexdigit());
    (whole && !name.is_empty() && !name.contains(' ')).then_some(name)
}

/// `* 1    Thread 0x7f12 (LWP 101) "nginx" 0x00007f12 in epoll_wait () from /lib/...` of `info threads`.
fn listed_by_gdb(text: &str) -> Option<&str> {
    let text = text.trim_start_matches(['*', ' ']);
    let (n, rest) = text.split_once(char::is_whitespace)?;
    n.split('.')
        .all(|n| n.parse::<u32>().is_ok())
        .then_some(())?;
    let rest = rest.trim_start();
    let (_, rest) = match rest.starts_with("Thread 0x") {
        true => rest.split_once("(LWP ")?.1.split_once(')')?,
        false => rest.strip_prefix("LWP ")?.split_once(' ')?,
    };
    let rest = rest.trim_start();
    let rest = match rest.strip_prefix('"') {
        Some(named) => named.split_once('"')?.1.trim_start(),
        None => rest,
    };
    let frame = behind_its_address(rest);
    frame.find(" (").map(|end| &frame[..end])
}

/// `Thread (0x1A2B):`, then `  System.Private.CoreLib!System.Threading.Monitor.Enter(class System.Object)`.
fn dotnet(text: &str) -> Option<Line<'_>> {
    if text.starts_with("Thread (0x") || text.starts_with("OS Thread Id:") {
        return Some(Line::Head(State::Waits, 1.0));
    }
    let (module, frame) = text.split_once('!')?;
    let named = !module.is_empty()
        && module
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b));
    (named && frame.contains('.') && frame.contains('(')).then_some(Line::Frame(frame))
}

/// Names of Node's own C++ functions whose ticks are calls that JavaScript waits for: what is asynchronous of them runs
/// on other threads, which this profile does not see.
const SYNCHRONOUS: [&str; 3] = ["crypto", "zlib", "fs"];

fn synchronous(name: &str) -> bool {
    let Some(rest) = name.strip_prefix("node::") else {
        return false;
    };
    let part = rest.split("::").next().unwrap_or_default();
    SYNCHRONOUS.contains(&part) || rest.starts_with("(anonymous namespace)::Zlib")
}

/// A C++ function without the letter of its kind before it and its arguments.
fn bare(name: &str) -> String {
    let named = name
        .split_once(' ')
        .filter(|(kind, rest)| kind.len() == 1 && rest.contains("::"));
    let Some((_, rest)) = named else {
        return name.to_owned();
    };
    rest.split("(v8::").next().unwrap_or(rest).to_owned()
}

/// `   345   12.3%   14.0%  LazyCompile: *render /app/view.js:10:5` below ` ticks  total  nonlib   name`; other parts
/// of the same output have other columns.
fn node(lines: &[&str]) -> Option<Artefact> {
    let mut found = artefact("node --prof", 0);
    let (mut of_all, mut headed) = (true, false);
    for (number, line) in (1_u32..).zip(lines) {
        let words: Vec<&str> = line.split_whitespace().collect();
        if let ["ticks", columns @ ..] = words.as_slice() {
            of_all = columns == ["total", "nonlib", "name"];
            headed |= of_all;
        }
        let [ticks, total, name @ ..] = words.as_slice() else {
            continue;
        };
        let share = |text: &str| text.strip_suffix('%')?.parse::<f64>().ok();
        let (true, Ok(_), Some(total)) = (of_all, ticks.parse::<u64>(), share(total)) else {
            continue;
        };
        // Libraries have no share of what is outside of them.
        let name = match name {
            // Go's pprof has two further numbers there.
            [_, _, cumulated, ..] if share(cumulated).is_some() => continue,
            [nonlib, rest @ ..] if share(nonlib).is_some() => bare(&rest.join(" ")),
            ["Shared", "libraries"] => name.join(" "),
            _ => continue,
        };
        let part = match name.as_str() {
            "JavaScript" => "node.javascript_share",
            "C++" => "node.native_share",
            "GC" => "node.collector_share",
            "Shared libraries" => "node.libraries_share",
            "" => continue,
            _ => "",
        };
        found.begin_at(number);
        match part {
            "" => {
                if synchronous(&name) {
                    found.largest("node.synchronous_share", total / 100.0);
                }
                found.rows.push(Row::new(name, total / 100.0));
            }
            part => found.largest(part, total / 100.0),
        }
    }
    found.settle();
    if let Some(first) = found.rows.first() {
        found.figures.insert("node.top_share".into(), first.share);
    }
    let enough = found.rows.len() >= 2 || found.figures.len() >= 2 || headed;
    (enough && !found.figures.is_empty()).then_some(found)
}

/// Callers that are told.
const CALLERS: usize = 2;

/// Who calls the function with most ticks, by the part `Bottom up (heavy) profile`: `4579  100.0%      LazyCompile:
/// *loop /app/a.js:54:27`, set in below it, each with its share of the one that it calls.
fn callers_in_node(lines: &[&str]) -> Option<Artefact> {
    let mut found = artefact("callers in node --prof", 0);
    // The largest function that has callers, while it is read.
    let mut best: Option<(f64, String, Vec<String>, f64)> = None;
    let mut open = false;
    for (number, line) in (1_u32..).zip(lines) {
        let Some((ticks, share, depth, name)) = in_bottom_up(line) else {
            open &= line.trim().is_empty();
            continue;
        };
        if depth <= OUTER {
            open = best.as_ref().is_none_or(|(most, ..)| ticks > *most);
            if open {
                found.line = number;
                best = Some((ticks, bare(name), Vec::new(), share));
            }
        } else if let Some((_, _, callers, _)) = best.as_mut().filter(|_| open)
            && callers.len() < CALLERS
            && let Some(function) = of_javascript(name)
        {
            callers.push(format!("`{function}` {share} %"));
        }
    }
    let (_, name, callers, share) = best.filter(|(_, _, callers, _)| !callers.is_empty())?;
    found.figures.insert("callers.rows".into(), 1.0);
    found.rows.push(Row {
        label: name,
        place: format!("by {}", callers.join(" and that by ")),
        share,
    });
    Some(found)
}

/// Spaces before a name that has no caller above it.
const OUTER: usize = 2;

/// A row of that part: ticks, percent, how far the name is set in, the name.
fn in_bottom_up(line: &str) -> Option<(f64, f64, usize, &str)> {
    let (ticks, rest) = line.trim_start().split_once(' ')?;
    let ticks: u64 = ticks.parse().ok()?;
    let (share, rest) = rest.trim_start().split_once("% ")?;
    let name = rest.trim_start();
    // The flat parts have a third number.
    let flat = name.split_whitespace().next()?.ends_with('%');
    let depth = rest.len() - name.len() + 1;
    (!flat && !name.is_empty()).then_some(())?;
    Some((ticks as f64, share.parse().ok()?, depth, name))
}

/// The function of `LazyCompile: *gameLoop /app/a.js:54:27`, without the mark of how it was compiled.
fn of_javascript(name: &str) -> Option<&str> {
    let kinds = ["LazyCompile: ", "Function: ", "JS: ", "Script: ", "Eval: "];
    let function = kinds.iter().find_map(|kind| name.strip_prefix(kind))?;
    Some(function.trim_start_matches(['*', '~', '^', '+']))
}
