//! Labels: which rows a cause explains, what it can gain at most, and which account decides.

use super::latency::{BEHIND, way_from};
use super::types::{Account, Basis, Ledger, Row};
use crate::diagnosis::{Catalogue, Cause, Explains, Finding, Station};

/// A row smaller than this was not seen.
const NOTHING: f64 = 0.005;
/// Of a request's time, less than this in no thread that was seen hides no wait worth its name.
const FEW_HIDDEN: f64 = 0.1;
/// What holds the threads of a pool for this part of their time makes the queue before it.
const MOST_OF_POOL: f64 = 0.5;
/// Kinds of waits that are called so wherever they are met: at the server behind, in the request before.
pub(super) const LEAVES: [&str; 11] = [
    "lock",
    "pool",
    "limiter",
    "lock_spin",
    "futex",
    "sleep",
    "disk",
    "sync",
    "pipe",
    "dns",
    "child",
];
/// Kinds of waits that say less of what is waited for; they too are met where they are.
const NAMELESS_WAITS: [&str; 4] = ["other", "channel", "condition", HIDDEN];
/// Kinds of rows of requests that wait until somebody takes them.
const QUEUES: [&str; 4] = [QUEUE, "listen_queue", "read_paused", "unanswered"];
/// Kinds of rows of what is on its way, to a client or to a server behind.
pub(super) const ON_THE_WAY: [&str; 5] = ["client", "path", "receiving", "sending", "upstream"];
/// Kinds of rows of requests that wait for others, for a CPU, or for nothing.
const IN_LINE: [&str; 17] = [
    QUEUE,
    "read_paused",
    "receiving",
    "listen_queue",
    "starting",
    "unanswered",
    LOCK,
    "pool",
    "limiter",
    "futex",
    OTHER_TURNS,
    "run_queue",
    "wake_up",
    "idle",
    "client",
    "path",
    "shared",
];
const LOCK: &str = "lock";
const UPSTREAM: &str = "upstream";
const OTHER_TURNS: &str = "other_turns";
/// Kinds of rows: in no thread that was seen, and waiting for a free one.
pub(super) const HIDDEN: &str = "hidden";
const QUEUE: &str = "no_free_thread";
/// Threads that serve are several from here on; one alone is a loop.
const SEVERAL: f64 = 1.5;

impl Ledger {
    /// The account of a target's CPU.
    pub(crate) fn cpu_of(&self, target: &str, front: &str) -> Option<&Account> {
        self.cpu.get(if target.is_empty() { front } else { target })
    }

    /// The account of the time of requests: that of the whole way where the target is a part of it.
    fn latency_of(&self, target: &str, front: &str) -> Option<&Account> {
        let behind = self
            .servers
            .iter()
            .find(|s| s.target == target && target != front);
        let own = behind.and_then(|s| s.latency.as_ref());
        own.or(self.latency.as_ref())
    }
}

/// The account of what limits: CPU where a core or a thread is full, else the time of the threads that serve where
/// these were full, else that of requests.
pub(crate) fn deciding<'a>(
    ledger: &'a Ledger,
    station: &Station,
    front: &str,
) -> Option<&'a Account> {
    match station.name.as_str() {
        "worker" | "core" => {
            let rate = ledger.rate.as_ref().filter(|a| a.basis == Basis::Cpu);
            rate.or(ledger.cpu_of(front, front))
        }
        "upstream" if !station.target.is_empty() => ledger.cpu_of(&station.target, front),
        "generator" => None,
        _ => {
            let full = |a: &&Account| matches!(a.basis, Basis::Threads | Basis::Cpu);
            let rate = ledger.rate.as_ref().filter(full);
            rate.or(ledger.latency.as_ref())
        }
    }
}

/// The share of the CPU's account in rows that a cause names; `None` where none tells.
pub(crate) fn on_cpu(ledger: &Ledger, cause: &Cause, target: &str, front: &str) -> Option<f64> {
    let account = ledger.cpu_of(target, front)?;
    Some(account.share_of(|r| cause.rows.contains(&r.kind)))
}

/// The most that a cause can gain by the rows that it names; `None` where no account tells.
pub(crate) fn bound(ledger: &Ledger, cause: &Cause, target: &str, front: &str) -> Option<f64> {
    if cause.rows.is_empty() {
        return None;
    }
    // A constant of the front's own way, as that to a server behind is, is no wait that such a server has at another.
    let own = cause.explains == Explains::Quantum && target == front;
    let way = way_from(target);
    let its_own = |r: &Row| r.server.is_empty() || r.label.starts_with(&way);
    let is_named = |r: &Row| cause.rows.contains(&r.kind) && (!own || its_own(r));
    let named = |account: &Account| account.share_of(is_named);
    // Where nothing has its name, it may be in what has none.
    let share = |account: &Account| match named(account) {
        share if share < NOTHING => share + account.share_of(Row::is_nameless),
        share => share,
    };
    match cause.explains {
        Explains::Cpu => ledger.cpu_of(target, front).map(share),
        _ => {
            let account = ledger.latency_of(target, front)?;
            let seen = named(account)
                + kept_by_others(ledger, account, cause)
                + queue(account) * pool(ledger, account).map_or(0.0, named)
                + behind_lock(account, &cause.rows)
                + behind_loop(ledger, account, is_named);
            // What stands at a server behind is the wait of whoever asks it, as the rest of that wait is.
            let waits = seen > 0.0 && target == front && cause.rows == [UPSTREAM];
            let is_behind = |r: &Row| waits && !r.server.is_empty() && !is_named(r);
            let seen = seen + account.share_of(is_behind);
            let hidden = account.share_of(|r| r.kind == HIDDEN && r.server.is_empty());
            // A wait may hide where no thread of the server shows it; where hardly anything is hidden, it is not there.
            // Nor is a queue.
            let are = |kinds: &[&str]| cause.rows.iter().all(|row| kinds.contains(&row.as_str()));
            let absent = match cause.explains {
                Explains::Wait => are(&[&LEAVES[..], &NAMELESS_WAITS].concat()),
                Explains::Cap => are(&QUEUES),
                Explains::Quantum => are(&ON_THE_WAY),
                _ => false,
            } && hidden < FEW_HIDDEN;
            let bound = (seen > 0.0 || absent).then_some(if seen > 0.0 { seen } else { hidden });
            let is_front = target == front || target.is_empty();
            match ledger.latency.as_ref().filter(|_| !is_front) {
                Some(whole) => {
                    bound.map(|b| of_the_way(ledger, (whole, account), cause, target, b))
                }
                None => bound,
            }
        }
    }
}

/// The part of the time of requests that wait for a free thread while this wait holds most of the threads' time.
pub(crate) fn in_line(ledger: &Ledger, cause: &Cause, target: &str, front: &str) -> f64 {
    let account = ledger.latency_of(target, front);
    let account = account.filter(|_| cause.explains == Explains::Wait);
    let held = account.and_then(|account| {
        let threads = pool(ledger, account)?;
        let share = threads.share_of(|r| cause.rows.contains(&r.kind));
        (share >= MOST_OF_POOL).then(|| queue(account) * share)
    });
    held.unwrap_or(0.0)
}

/// A bound at a server behind, whose own account this is: no more than what the whole way has there, and what is kept
/// before a server that takes no more at a time.
fn of_the_way(
    ledger: &Ledger,
    (whole, account): (&Account, &Account),
    cause: &Cause,
    target: &str,
    bound: f64,
) -> f64 {
    let is_there = |r: &Row| r.server == target;
    let there = whole.share_of(is_there) + behind_loop(ledger, whole, is_there);
    if there < NOTHING {
        return bound;
    }
    let kept = match cause.explains {
        Explains::Cap => kept_before(whole, account, target),
        _ => 0.0,
    };
    bound.min(there) + kept
}

/// Whoever asks a server that takes no more at a time keeps the others, on no thread of its own. They do not stand
/// where a request goes on from that server.
fn kept_before(whole: &Account, account: &Account, target: &str) -> f64 {
    let beyond = |server: &str| account.rows.iter().any(|r| r.server == server);
    let before = |r: &Row| r.server.is_empty() || r.server != target && !beyond(&r.server);
    whole.share_of(|r| r.kind == HIDDEN && before(r))
}

/// The part of the wait for a thread's other requests in which that thread is at these rows, working or waiting.
fn behind_loop(ledger: &Ledger, account: &Account, chosen: impl Fn(&Row) -> bool) -> f64 {
    let behind = account.share_of(|r| is_behind(r) && !chosen(r));
    behind * pool(ledger, account).map_or(0.0, |thread| thread.share_of(&chosen))
}

/// Where several threads have their connections to themselves, to stand behind what one of them waits for is to wait
/// for a free thread.
fn kept_by_others(ledger: &Ledger, account: &Account, cause: &Cause) -> f64 {
    let several = pool(ledger, account).is_some_and(|threads| threads.total >= SEVERAL);
    if !several || !cause.rows.iter().any(|row| row == QUEUE) {
        return 0.0;
    }
    account.share_of(|r| is_behind(r) && r.kind != OTHER_TURNS && !cause.rows.contains(&r.kind))
}

/// A request that waits until a thread is done with another one.
fn is_behind(row: &Row) -> bool {
    let in_line = row.kind == OTHER_TURNS || row.label.starts_with(BEHIND);
    in_line && row.server.is_empty()
}

/// Time of requests that wait for a free thread.
fn queue(account: &Account) -> f64 {
    account.share_of(|r| r.kind == QUEUE)
}

/// Where most requests stand before a lock: their part, and that of those who were let in. One request is let in at a
/// time, so that what those do who do not wait for their turn is what the holders do.
fn locked(account: &Account) -> Option<(f64, f64)> {
    let locked = account.share_of(is_lock);
    let held = account.share_of(is_let_in);
    (locked >= MOST_OF_POOL && held >= NOTHING).then_some((locked, held))
}

/// The part of the wait for a lock in which its holder is at one of these rows.
fn behind_lock(account: &Account, rows: &[String]) -> f64 {
    let Some((locked, held)) = locked(account) else {
        return 0.0;
    };
    if rows.iter().any(|row| row == LOCK) {
        return 0.0;
    }
    locked * account.share_of(|r| is_let_in(r) && rows.contains(&r.kind)) / held
}

/// The cause of most of what the holders of a lock do, before which most requests stand.
fn holds_lock(account: &Account) -> Option<String> {
    let (_, held) = locked(account)?;
    let causes = account.rows.iter().filter(|r| is_let_in(r));
    let mut causes = causes.filter_map(|r| r.cause.as_ref());
    let of = |cause: &String| {
        account.share_of(|r| is_let_in(r) && r.cause.as_ref() == Some(cause)) / held
    };
    causes.find(|cause| of(cause) >= MOST_OF_POOL).cloned()
}

/// A wait for a lock of the application: an interpreter's own is let go by whoever waits.
fn is_lock(row: &Row) -> bool {
    row.kind == LOCK && !is_for_interpreter(row)
}

/// A wait for the lock of an interpreter, which runs one thread at a time as a CPU does.
pub(super) fn is_for_interpreter(row: &Row) -> bool {
    row.label.contains("(GIL)")
}

/// A request that waits for nobody's turn to end, as far as was seen.
fn is_let_in(row: &Row) -> bool {
    !IN_LINE.contains(&row.kind.as_str()) && row.kind != HIDDEN
}

/// What the threads are at that the requests of this account wait for.
fn pool<'a>(ledger: &'a Ledger, account: &Account) -> Option<&'a Account> {
    let behind = ledger.servers.iter().map(|server| server.rate.as_ref());
    let rates = [ledger.rate.as_ref()].into_iter().chain(behind).flatten();
    let mut rates = rates.filter(|rate| rate.basis == Basis::Threads);
    rates.find(|rate| rate.target == account.target)
}

/// Requests wait for a free thread as long as those before them take: a cause that holds the threads for most of their
/// time holds the queue as well.
fn label_queues(ledger: &mut Ledger) {
    let holds = |account: &Account| {
        let threads = pool(ledger, account)?;
        let open = threads.rows.iter().filter(|r| !r.own_work);
        let row = open.max_by(|a, b| a.share.total_cmp(&b.share))?;
        row.cause.clone().filter(|_| row.share >= MOST_OF_POOL)
    };
    let mut causes: Vec<(String, String)> = Vec::new();
    let behind = ledger.servers.iter().map(|server| server.latency.as_ref());
    for account in [ledger.latency.as_ref()]
        .into_iter()
        .chain(behind)
        .flatten()
    {
        causes.extend(holds(account).map(|cause| (account.target.clone(), cause)));
    }
    let behind = ledger
        .servers
        .iter_mut()
        .map(|server| server.latency.as_mut());
    let accounts = [ledger.latency.as_mut(), ledger.tail.as_mut()];
    for account in accounts.into_iter().chain(behind).flatten() {
        let behind = holds_lock(account);
        let locks = account.rows.iter_mut();
        for row in locks.filter(|r| is_lock(r) && r.cause.is_none()) {
            row.cause.clone_from(&behind);
        }
        let cause = causes.iter().find(|(target, _)| *target == account.target);
        let queues = account
            .rows
            .iter_mut()
            .filter(|r| r.kind == QUEUE && r.cause.is_none());
        for row in queues {
            row.cause = cause.map(|(_, cause)| cause.clone());
        }
    }
}

/// What a server does beside its requests is its own up to this share of their time: more holds them up.
const MOST_BESIDE: f64 = 0.5;

/// Opens rows of a server's own work that no cause of this catalogue has judged, and work beside the requests that
/// takes most of their time.
pub(crate) fn open_unjudged(ledger: &mut Ledger, catalogue: &Catalogue) {
    let lacks = |names: &[String]| names.iter().any(|name| catalogue.cause(name).is_none());
    let rules = super::cpu::rules().iter();
    let open: Vec<&str> = rules
        .filter(|rule| lacks(&rule.judged_by))
        .map(|rule| rule.key.as_str())
        .collect();
    let servers = (ledger.servers.iter_mut()).flat_map(|s| [s.rate.as_mut(), s.latency.as_mut()]);
    let front = [
        ledger.rate.as_mut(),
        ledger.latency.as_mut(),
        ledger.tail.as_mut(),
    ];
    let accounts = front.into_iter().chain(servers).flatten();
    for account in accounts.chain(ledger.cpu.values_mut()) {
        let rows = account.rows.iter_mut();
        let holds_up = |row: &Row| row.kind == "loop" && row.share >= MOST_BESIDE;
        for row in rows.filter(|row| open.contains(&row.kind.as_str()) || holds_up(row)) {
            row.own_work = false;
        }
    }
}

/// Writes the first finding that explains a row beside it.
pub(crate) fn label(ledger: &mut Ledger, findings: &[Finding], catalogue: &Catalogue, front: &str) {
    for finding in findings {
        let Some(cause) = catalogue.cause(&finding.cause) else {
            continue;
        };
        let accounts = [
            ledger.rate.as_mut(),
            ledger.latency.as_mut(),
            ledger.tail.as_mut(),
        ];
        let own = finding.target.is_empty() || finding.target == front;
        let behind = ledger
            .servers
            .iter_mut()
            .filter(|s| s.target == finding.target)
            .flat_map(|s| [s.rate.as_mut(), s.latency.as_mut()]);
        // The way of a request leads through all servers: the front's latency holds theirs as well.
        let accounts = accounts.into_iter().enumerate();
        let accounts = accounts
            .filter(|(index, _)| own || *index > 0)
            .map(|(_, a)| a);
        let cpu = ledger
            .cpu
            .get_mut(if own { front } else { finding.target.as_str() });
        for account in accounts.chain(behind).chain([cpu]).flatten() {
            for row in &mut account.rows {
                // What holds of a server behind says nothing of the rows of others.
                let theirs = row.server == finding.target;
                let of_cpu = matches!(account.basis, Basis::Cpu | Basis::CpuUsed);
                let its = match of_cpu && !row.server.is_empty() {
                    true => theirs,
                    false => own || account.target == finding.target || theirs,
                };
                if its && row.cause.is_none() && cause.rows.contains(&row.kind) {
                    row.cause = Some(cause.name.clone());
                }
            }
        }
    }
    label_waits(ledger, findings, catalogue, front);
    label_queues(ledger);
}

/// What stands at a server behind, for no cause of its own, is what the one in front waits for.
fn label_waits(ledger: &mut Ledger, findings: &[Finding], catalogue: &Catalogue, front: &str) {
    let waits = |finding: &&Finding| {
        let cause = catalogue.cause(&finding.cause);
        finding.target == front && cause.is_some_and(|cause| cause.rows == [UPSTREAM])
    };
    let Some(finding) = findings.iter().find(waits) else {
        return;
    };
    let accounts = [
        ledger.rate.as_mut(),
        ledger.latency.as_mut(),
        ledger.tail.as_mut(),
    ];
    let accounts = accounts.into_iter().flatten();
    for account in accounts.filter(|a| !matches!(a.basis, Basis::Cpu | Basis::CpuUsed)) {
        let rows = account.rows.iter_mut();
        for row in rows.filter(|r| r.cause.is_none() && !r.own_work && !r.server.is_empty()) {
            row.cause = Some(finding.cause.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Account, Row, behind_lock, holds_lock};

    fn account(lock: &str, rows: &[(&str, f64, &str)]) -> Account {
        let row = |&(kind, share, cause): &(&str, f64, &str)| Row {
            kind: kind.to_owned(),
            label: lock.to_owned(),
            share,
            cause: (!cause.is_empty()).then(|| cause.to_owned()),
            ..Row::default()
        };
        Account {
            rows: rows.iter().map(row).collect(),
            ..Account::default()
        }
    }

    fn check(account: &Account, part: f64, cause: Option<&str>) {
        let sync = ["sync".to_owned()];
        let found = behind_lock(account, &sync);
        assert!((found - part).abs() < 1e-9, "{found}: {account:?}");
        assert_eq!(holds_lock(account).as_deref(), cause);
    }

    #[test]
    fn what_is_done_by_whoever_was_let_in_is_what_a_lock_is_held_for() {
        let synced = [
            ("lock", 0.9, ""),
            ("run_queue", 0.02, ""),
            ("sync", 0.06, "synced_log"),
            ("on_cpu", 0.02, ""),
        ];
        check(
            &account("waiting for a lock", &synced),
            0.9 * 0.75,
            Some("synced_log"),
        );
        // An interpreter's lock is not held while its thread waits.
        let gil = "waiting for the interpreter's lock (GIL)";
        check(&account(gil, &synced), 0.0, None);
        // Fewer than half of the requests stand there, or the holders mostly do something else.
        let few = [("lock", 0.4, ""), ("sync", 0.6, "synced_log")];
        check(&account("waiting for a lock", &few), 0.0, None);
        let other = [
            ("lock", 0.8, ""),
            ("sync", 0.05, "synced_log"),
            ("on_cpu", 0.15, ""),
        ];
        check(&account("waiting for a lock", &other), 0.2, None);
        // Nobody was seen inside.
        check(
            &account("waiting for a lock", &[("lock", 1.0, "")]),
            0.0,
            None,
        );
    }

    #[test]
    fn a_cause_of_the_lock_itself_takes_its_row_and_no_more() {
        let account = account(
            "waiting for a lock",
            &[("lock", 0.9, ""), ("sync", 0.1, "")],
        );
        assert!(behind_lock(&account, &["lock".to_owned(), "sync".to_owned()]).abs() < 1e-9);
    }
}
