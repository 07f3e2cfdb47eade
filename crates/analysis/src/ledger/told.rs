//! What a runtime told of a thread, in words: what it waits for, in which function, and who has it.
//!
//! The surprise: the innermost function is that of a library (a semaphore, a queue), and says which kind of thing is
//! waited for; the innermost one of the application says which of them. A label has the latter, so that two pools
//! are two rows; the place has both.

use super::cpu::{CpuRow, RowRule, rules};
use super::names::makes;
use crate::diagnosis::work::works;
use record::{PlaceTold, SourceLine, Told, ToldState};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

/// Kind of the row of an interpreter.
const INTERPRETER: &str = "interpreter";
/// Kind of work of what could be made once.
const MAKING: &str = "making";
/// Functions below this share of all samples are told together.
const SMALL: f64 = 0.02;
/// Fewer meetings than this do not say what ran.
const FEWEST: u64 = 30;
/// Functions that a place names.
const NAMED: usize = 4;
/// How names of functions begin that belong to a runtime's own library.
const LIBRARIES: [&str; 5] = ["java.", "javax.", "jdk.", "sun.", "com.sun."];
/// How names of functions begin that are the lock itself, whoever takes it.
const LOCKS: [&str; 4] = [
    "java.util.concurrent.locks.",
    "java.lang.Object.",
    "jdk.internal.misc.Unsafe.",
    "java.lang.Thread.",
];

/// Kind and words of the rows of those whom a limiter of a rate holds back.
pub(super) const LIMITER: &str = "limiter";
pub(super) const AT_LIMITER: &str = "held back by a limiter of a rate";
/// Functions of libraries in which a free connection of a pool is waited for, by a part of their names.
const POOLS: [&str; 41] = [
    "com.mchange.v2.resourcepool.BasicResourcePool.",
    "com.zaxxer.hikari.pool.HikariPool.getConnection",
    "io.agroal.pool.ConnectionPool.",
    "org.apache.commons.dbcp.PoolingDataSource.getConnection",
    "org.apache.commons.pool.impl.GenericObjectPool.borrowObject",
    "org.apache.commons.pool2.impl.GenericObjectPool.borrowObject",
    "org.apache.http.impl.conn.PoolingHttpClientConnectionManager",
    "org.apache.http.pool.AbstractConnPool.",
    "org.apache.tomcat.jdbc.pool.ConnectionPool.",
    "org.apache.tomcat.dbcp.",
    "redis.clients.jedis.util.Pool.getResource",
    "database/sql.(*DB).conn",
    "github.com/bradfitz/gomemcache/memcache.(*Client).getConn",
    "github.com/gomodule/redigo/redis.(*Pool).",
    "github.com/jackc/puddle",
    "internal/pool.(*ConnPool).waitTurn",
    "go.mongodb.org/mongo-driver/x/mongo/driver/topology.(*pool).",
    "github.com/valyala/fasthttp.(*wantConn).",
    "(asyncpg/pool.py",
    "(httpcore/_sync/connection_pool.py",
    "(psycopg_pool/",
    "(psycopg2/pool.py",
    "(redis/connection.py",
    "(sqlalchemy/pool/",
    "(urllib3/connectionpool.py",
    "(aiohttp/connector.py",
    "(pymongo/pool.py",
    "(mysql/connector/pooling.py",
    "(active_record/connection_adapters/abstract/connection_pool",
    "(connection_pool.rb",
    "(connection_pool/",
    "(sequel/connection_pool",
    "Npgsql.PoolingDataSource",
    "ajp_get_endpoint",
    "ap_proxy_acquire_connection",
    "apr_reslist_acquire",
    "mongoc_client_pool_pop",
    "r2d2::Pool",
    "deadpool::managed",
    "bb8::",
    "sqlx_core::pool",
];
/// What a function that holds back what comes too fast is called in any language, by a part of its name in small
/// letters. What limits how many go on at a time is a pool, and no limiter of a rate.
const LIMITERS: [&str; 12] = [
    "rate.(*limiter)",
    "ratelimit",
    "rate_limit",
    "rate-limit",
    "asynclimiter",
    "bwlimit",
    "bandwidthlimit",
    "throttl",
    "tokenbucket",
    "token_bucket",
    "leakybucket",
    "leaky_bucket",
];
/// A pool's own functions lie among the innermost: further out is what was asked with its connection.
const INNERMOST: usize = 8;

/// Functions of libraries in which a thread of a pool waits for work, by a part of their names.
const AT_REST: [&str; 6] = [
    "io.netty.util.concurrent.SingleThreadEventExecutor.takeTask",
    "java.util.concurrent.ForkJoinPool.awaitWork",
    "java.util.concurrent.ThreadPoolExecutor.getTask",
    "org.eclipse.jetty.util.thread.QueuedThreadPool$Runner.idleJobPoll",
    "org.eclipse.jetty.util.thread.ReservedThreadExecutor$ReservedThread.",
    "_worker (concurrent/futures/thread.py",
];

/// Whether a thread of a pool has nothing to do: it waits there, and not in the application that it has called.
pub(super) fn is_at_rest(told: &Told) -> bool {
    let at = place_within(told, &AT_REST);
    at.is_some_and(|at| told.own.is_none_or(|own| own as usize >= at))
}

/// Parts of names of functions that wait for a lock that only one holds. Pools wait for a signal, behind no such lock;
/// locks of scripts' threads are made of whatever their runtime has, and so are their signals.
pub(super) const MUTEXES: [&str; 5] = [
    "ObjectMonitor::enter",
    "ObjectMonitor::EnterI",
    "sync.(*Mutex)",
    "ReentrantLock.lock",
    "pthread_mutex_lock",
];

/// Whether a thread waits for a free connection of a pool.
pub(super) fn is_in_pool(told: &Told) -> bool {
    is_within(told, &POOLS)
}

/// Whether functions, the innermost first, wait for a free connection of a pool, where they wait.
pub(super) fn are_of_pool(names: &[impl AsRef<str>]) -> bool {
    are_within(names, &POOLS)
}

/// Whether a thread waits until a limiter of a rate lets it go on.
pub(super) fn is_at_limiter(told: &Told) -> bool {
    told.state != ToldState::Running && are_at_limiter(&told.frames)
}

/// Whether functions, the innermost first, are those of a limiter of a rate, where they wait.
pub(super) fn are_at_limiter(names: &[impl AsRef<str>]) -> bool {
    let mut names = names.iter().take(INNERMOST).map(AsRef::as_ref);
    names.any(|name: &str| {
        let name = name.to_ascii_lowercase();
        LIMITERS.iter().any(|part| name.contains(part))
    })
}

/// Whether a thread sleeps before it tries again to get a lock (on a file, a key of a store), by the functions that it
/// sleeps in.
pub(super) fn tries_a_lock(told: &Told) -> bool {
    told.state == ToldState::Sleep && is_near_a_lock(told)
}

/// Whether one of the innermost functions takes a lock.
pub(super) fn is_near_a_lock(told: &Told) -> bool {
    let mut near = told.frames.iter().take(NEAR_A_LOCK);
    near.any(|frame| is_of_lock(bare(function_of(frame))))
}

/// Whether one of the innermost functions of a library, in which steps are small, takes a lock.
pub(super) fn are_near_a_lock(names: &[&str]) -> bool {
    let near = names.iter().take(2 * NEAR_A_LOCK);
    near.map(|name| bare(name)).any(is_of_lock)
}

/// Whether a thread waits for a lock that is made of a condition, as those of a database are, by the names of what
/// takes it: the signal comes from whoever gives it back.
pub(crate) fn waits_for_made_lock(told: &Told) -> bool {
    let mut near = own_frames(told).take(NEAR_A_LOCK);
    told.state == ToldState::Signal && near.any(|frame| names_a_lock(bare(function_of(frame))))
}

/// Whether one of the innermost functions names a file or a session.
pub(super) fn is_near_a_file(told: &Told) -> bool {
    let mut near = told.frames.iter().take(NEAR_A_LOCK);
    near.any(|frame| {
        let frame = frame.to_ascii_lowercase();
        ["session", "file", "flock"]
            .iter()
            .any(|word| frame.contains(word))
    })
}

/// Words of rows of threads that wait for what another one does, and for no lock.
pub(super) const UNTIL_SIGNALLED: &str = "waiting until another thread signals";
pub(super) const UNTIL_RESULT: &str = "waiting for the result of another thread";
/// Words of the row of those.
pub(super) const UNTIL_TRIED: &str = "asleep until a lock is tried again";
/// A loop that tries a lock sleeps in the function that takes it, or in a helper of that.
const NEAR_A_LOCK: usize = 3;

/// `FileLock.lock` of `FileLock.lock (mapproxy/util/lock.py:62)`.
pub(super) fn function_of(frame: &str) -> &str {
    frame
        .split_once(" (")
        .map_or(frame, |(function, _)| function)
}

/// Whether a function takes a lock, by its name: `FileLock.lock`, `acquire_lock`, `flock`; not `unlock`, `block`,
/// `clock`. A session that is begun (PHP) sleeps for nothing but its lock.
fn is_of_lock(function: &str) -> bool {
    let name = function.to_ascii_lowercase();
    let words = ["acquire", "mutex", "semaphore", "flock", "session_start"];
    words.iter().any(|word| name.contains(word)) || names_a_lock(function)
}

/// Whether a word of a function's name begins with `lock`.
fn names_a_lock(function: &str) -> bool {
    let begins = |(at, _): (usize, &str)| {
        let before = function[..at].chars().next_back();
        !before.is_some_and(char::is_alphabetic) || function[at..].starts_with('L')
    };
    let name = function.to_ascii_lowercase();
    name.match_indices("lock").any(begins)
}

fn is_within(told: &Told, functions: &[&str]) -> bool {
    place_within(told, functions).is_some()
}

/// Which of its functions, from the innermost on, a thread waits in.
fn place_within(told: &Told, functions: &[&str]) -> Option<usize> {
    let waits = !matches!(told.state, ToldState::Running | ToldState::Sleep);
    waits
        .then(|| place_among(&told.frames, functions))
        .flatten()
}

fn are_within(names: &[impl AsRef<str>], functions: &[&str]) -> bool {
    place_among(names, functions).is_some()
}

fn place_among(names: &[impl AsRef<str>], functions: &[&str]) -> Option<usize> {
    let mut names = names.iter().take(INNERMOST).map(AsRef::as_ref);
    names.position(|name: &str| functions.iter().any(|function| name.contains(function)))
}

/// Kind and words of a wait; `None` where the runtime knows of none, as the system call does.
pub(super) fn wait(told: &Told) -> Option<(&'static str, String)> {
    let (kind, words) = match told.state {
        _ if is_at_rest(told) => return Some(("idle", "a thread that waits for work".to_owned())),
        _ if is_at_limiter(told) => (LIMITER, AT_LIMITER),
        _ if is_in_pool(told) => ("pool", "waiting for a free connection of a pool"),
        ToldState::Running => return None,
        ToldState::Lock if !told.object.is_empty() && told.runtime != "jvm" => {
            return Some(("lock", format!("waiting for {}", told.object)));
        }
        ToldState::Lock => ("lock", "waiting for a lock"),
        ToldState::Permit => ("lock", "waiting for a permit of a semaphore or pool"),
        ToldState::Signal if waits_for_made_lock(told) => ("lock", "waiting for a lock"),
        ToldState::Signal => ("lock", UNTIL_SIGNALLED),
        ToldState::Result => ("lock", UNTIL_RESULT),
        ToldState::Sleep if tries_a_lock(told) => ("lock", UNTIL_TRIED),
        ToldState::Sleep => ("sleep", "asleep"),
    };
    let words = match guarded(told).filter(|_| told.state == ToldState::Lock) {
        Some(call) => format!("waiting for the lock of {call}"),
        None => words.to_owned(),
    };
    Some(match own_function(told) {
        Some(function) => (kind, format!("{words}: {function}")),
        None => (kind, words),
    })
}

/// The library's function that guards itself by a lock: of a file, a stream or a logger, and none of the application.
fn guarded(told: &Told) -> Option<&str> {
    let first = told.frames.first()?;
    let of = |names: &[&str]| names.iter().any(|name| first.starts_with(name));
    (of(&LIBRARIES) && !of(&LOCKS)).then(|| bare(first))
}

/// Divides the row of an interpreter by what its runtime told of threads that ran: kinds of work that are known
/// (`catalogue/rows.toml`), and functions. Without enough of these, or without such a row, all stays as it is.
pub(super) fn divided(mut rows: Vec<CpuRow>, ran: &[&PlaceTold], all: &[Told]) -> Vec<CpuRow> {
    let mut met = Met::default();
    for one in ran {
        if let Some(told) = one.running(all) {
            met.add(told, one.samples);
        }
    }
    let found = rows.iter().position(|row| row.kind == INTERPRETER);
    let Some(found) = found.filter(|_| met.samples >= FEWEST) else {
        return rows;
    };
    let total: u64 = rows.iter().map(|row| row.samples).sum();
    let whole = rows.remove(found);
    let mut rest = whole.samples;
    for (of, looks) in &met.by {
        let part = u128::from(whole.samples) * u128::from(looks.samples) / u128::from(met.samples);
        let part = part as u64;
        if part == 0 || (part as f64) < SMALL * total as f64 {
            continue;
        }
        rest -= part;
        let row = looks.row(*of, part, &whole);
        // What an extension in C does of the same kind has a row already.
        match rows.iter_mut().find(|r| r.label == row.label) {
            Some(same) => same.samples += row.samples,
            None => rows.push(row),
        }
    }
    rows.push(CpuRow {
        samples: rest,
        ..whole
    });
    rows.retain(|row| row.samples > 0);
    rows.sort_by(|a, b| b.samples.cmp(&a.samples).then(a.label.cmp(&b.label)));
    rows
}

/// What an interpreter was met at.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum At<'a> {
    /// A kind of work, by the index of its rule among the [`scripted`] ones.
    Rule(usize),
    Function(&'a str),
}

/// The rules that functions of scripts can fit.
fn scripted() -> &'static [&'static RowRule] {
    static SCRIPTED: OnceLock<Vec<&RowRule>> = OnceLock::new();
    SCRIPTED.get_or_init(|| {
        let kinds = |rule: &&RowRule| rule.kinds.iter().any(|kind| works().has_scripts(kind));
        rules().iter().filter(kinds).collect()
    })
}

/// How often an interpreter was met, and at what.
#[derive(Default)]
struct Met<'a> {
    samples: u64,
    by: BTreeMap<At<'a>, Looks<'a>>,
}

impl<'a> Met<'a> {
    fn add(&mut self, told: &'a Told, samples: u64) {
        // What is compiled into an interpreter has a row of its own kind, or is the caller's.
        let Some(function) = told.innermost_of_script().map(|at| &told.frames[at]) else {
            return;
        };
        let of_rule = |rule: &&RowRule| rule.kinds.iter().any(|kind| works().scripted(told, kind));
        let rule = scripted().iter().position(of_rule);
        let at = rule.map_or(At::Function(function), At::Rule);
        self.samples += samples;
        let looks = self.by.entry(at).or_default();
        looks.samples += samples;
        if let Some(line) = at_line(told) {
            *looks.lines.entry(line).or_default() += samples;
        }
        // The callers that led there most often stand for all.
        if looks.most.is_none_or(|(_, most)| samples > most) {
            looks.most = Some((told, samples));
        }
    }
}

#[derive(Default)]
struct Looks<'a> {
    samples: u64,
    most: Option<(&'a Told, u64)>,
    /// Samples of each line of the application.
    lines: BTreeMap<Line<'a>, u64>,
}

/// A line of a script: the file as its functions have it, and the line.
pub(super) type Line<'a> = (&'a str, &'a SourceLine);

impl Looks<'_> {
    /// `part` of the interpreter's row.
    fn row(&self, at: At<'_>, part: u64, whole: &CpuRow) -> CpuRow {
        let mut place = self.most.map_or(String::new(), |(told, _)| match at {
            At::Rule(index) => for_whom(told, scripted()[index]),
            At::Function(_) => callers(told),
        });
        if let Some((line, samples)) = self.lines.iter().max_by_key(|(_, samples)| **samples) {
            let part = match *samples as f64 / self.samples as f64 {
                part if part > 0.995 => String::new(),
                part => format!("{:.0} % ", 100.0 * part),
            };
            add(&mut place, &format!("{part}at {}", words_of(*line)));
        }
        match at {
            At::Rule(index) => CpuRow {
                kind: scripted()[index].key.clone(),
                label: scripted()[index].label.clone(),
                place,
                own: scripted()[index].own,
                samples: part,
                ..CpuRow::default()
            },
            At::Function(function) => CpuRow {
                label: format!("running scripts: {function}"),
                place,
                samples: part,
                ..whole.clone()
            },
        }
    }
}

/// The function that ran, or the outermost that makes something where that is what the row is about, and that of the
/// application for which it did.
fn for_whom(told: &Told, rule: &RowRule) -> String {
    let maker = || told.called().iter().rev().find(|f| makes(f));
    let is_made = rule.kinds.iter().any(|kind| kind == MAKING);
    let maker = is_made.then(maker).flatten();
    let ran = maker.or(told.frames.first()).map_or("", |f| bare(f));
    match told.own.and_then(|own| told.frames.get(own as usize)) {
        Some(own) if own != ran => format!("{ran}, for {own}"),
        _ => callers(told),
    }
}

/// The function, and those that lead there.
fn callers(told: &Told) -> String {
    let names: Vec<&str> = told.frames.iter().take(NAMED).map(|f| bare(f)).collect();
    names.join(" < ")
}

fn add(text: &mut String, more: &str) {
    if !text.is_empty() {
        text.push_str("; ");
    }
    text.push_str(more);
}

/// The line of a script that a thread is at.
pub(super) fn at_line(told: &Told) -> Option<Line<'_>> {
    let line = told.line.as_ref()?;
    let own = told.own.map(|own| own as usize);
    let frame = told
        .frames
        .get(own.or_else(|| told.innermost_of_script())?)?;
    Some((file_of(frame)?, line))
}

/// `shop.py` of `total (shop.py:41)`.
fn file_of(frame: &str) -> Option<&str> {
    let (_, place) = frame.trim_end_matches(')').rsplit_once(" (")?;
    Some(place.rsplit_once(':').map_or(place, |(file, _)| file))
}

/// The file of the application's own function that a thread is in, where the runtime tells it from libraries.
pub(super) fn own_file(told: &Told) -> Option<&str> {
    file_of(told.frames.get(told.own? as usize)?)
}

/// Whether a function is the application's own: of one of its files, or, where the runtime tells no files, of no
/// library of the runtime's.
pub(super) fn is_own(told: &Told, frame: &str, files: &BTreeSet<&str>) -> bool {
    match told.innermost_of_script() {
        Some(_) => file_of(frame).is_some_and(|file| files.contains(file)),
        None => !is_of_runtime(frame),
    }
}

fn is_of_runtime(frame: &str) -> bool {
    LIBRARIES.iter().any(|library| frame.starts_with(library))
}

/// `shop.py:47: total += price(item)`, without the text where that is not known.
pub(super) fn words_of((file, line): Line<'_>) -> String {
    match line.text.as_str() {
        "" => format!("{file}:{}", line.number),
        text => format!("{file}:{}: {text}", line.number),
    }
}

/// The functions that lead there, the line of the application, and who has what is waited for.
pub(super) fn place(told: &Told, waker: &str) -> String {
    let mut text = callers(told);
    if let Some(line) = at_line(told) {
        add(&mut text, &format!("at {}", words_of(line)));
    }
    if !told.owner.is_empty() {
        add(&mut text, &format!("held by {}", told.owner));
    } else if told.state != ToldState::Sleep && waker.starts_with("thread ") {
        add(&mut text, &format!("woken by {waker}"));
    }
    text
}

/// The innermost function of the application.
fn own_function(told: &Told) -> Option<&str> {
    let own = own_frames(told).next();
    own.or(told.frames.first()).map(|f| bare(f))
}

/// Functions that are none of a runtime's own library, the innermost first.
fn own_frames(told: &Told) -> impl Iterator<Item = &String> {
    let frames = told.frames.iter();
    frames.filter(|frame| !is_of_runtime(frame))
}

/// `Pool.getConnection` of `com.example.db.Pool.getConnection`; what is no such path stays as it is.
fn bare(function: &str) -> &str {
    if function.contains(['/', ' ', '<']) {
        return function;
    }
    let mut dots = function.rmatch_indices('.').map(|(at, _)| at);
    match (dots.next(), dots.next()) {
        (Some(_), Some(class)) => &function[class + 1..],
        _ => function,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_that_is_made_of_a_condition_is_one() {
        let waits = |state, frames: &[&str]| {
            waits_for_made_lock(&Told {
                state,
                frames: frames.iter().map(|f| (*f).to_owned()).collect(),
                ..Told::default()
            })
        };
        let row = [
            "java.lang.Object.wait",
            "org.example.store.RowLock.waitForGrant",
            "org.example.store.Table.read",
        ];
        assert!(waits(ToldState::Signal, &row));
        assert!(!waits(ToldState::Running, &row), "it has it");
        // A queue is guarded by a lock of the library, and is none.
        let queue = [
            "java.util.concurrent.locks.LockSupport.park",
            "org.example.BlockingQueue.poll",
            "org.example.Clock.run",
        ];
        assert!(!waits(ToldState::Signal, &queue));
        let far = [
            "f (a.py:1)",
            "g (a.py:2)",
            "h (a.py:3)",
            "RowLock.take (b.py:4)",
        ];
        assert!(
            !waits(ToldState::Signal, &far),
            "what asked for it further out says nothing"
        );
    }

    #[test]
    fn a_thread_of_a_pool_that_waits_in_the_application_is_not_at_rest() {
        let in_pool = |inner: &[&str], own| Told {
            runtime: "cpython".to_owned(),
            state: ToldState::Signal,
            frames: [
                inner,
                &[
                    "_worker (concurrent/futures/thread.py:69)",
                    "run (threading.py:1)",
                ],
            ]
            .concat()
            .iter()
            .map(|frame| (*frame).to_owned())
            .collect(),
            own,
            ..Told::default()
        };
        assert!(is_at_rest(&in_pool(&["get (queue.py:1)"], None)));
        let waits = [
            "wait (threading.py:2)",
            "publish (mqtt/client.py:3)",
            "show (shop.py:4)",
        ];
        assert!(!is_at_rest(&in_pool(&waits, Some(2))));
    }

    #[test]
    fn a_lock_is_known_by_the_name_of_what_takes_it() {
        for name in [
            "FileLock.lock",
            "acquire_lock",
            "lock",
            "flock",
            "SemLock.__enter__",
            "tryLock",
        ] {
            assert!(is_of_lock(name), "{name}");
        }
        for name in [
            "unlock",
            "block",
            "wallClock",
            "Clock.tick",
            "Blocking.sleep",
        ] {
            assert!(!is_of_lock(name), "{name}");
        }
    }
}
