//! Threads and helper processes that work for requests and touch no client's socket: pools behind an event loop.
//!
//! In the flow: the account shares hidden time out to them, as to upstream turns. Which of them serves which request is
//! not told by any socket, but how many are at work is, and by Little's law that is enough. The surprise: a thread of a
//! pool sleeps in the same futex whether it has no work, wants a lock or sleeps for a while. Who ended the wait tells:
//! the thread that reads requests hands out work, another thread of the pool gives a lock back, and a timer is nobody.

use super::Traced;
use super::account::target_of;
use super::pieces::{Piece, waited};
use super::sockets::{Act, NONE};
use super::threads::{Names, Threads, Wait, WaitKind};
use super::walk::{Row, Scene};
use record::Place;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Fewer exchanges with threads that read requests are chance.
const FEWEST_EXCHANGES: u64 = 3;
/// A helper has at least this part of an equal share of the turns; whoever has less keeps house.
const PART_OF_EQUAL: u64 = 10;
/// Waits with a time limit for each exchange: more are looks for work that is not there.
const MOST_TIMERS: u64 = 10;
/// Rows that time is shared out to.
const MOST_ROWS: usize = 8;
/// A thread that had nothing to do for more than this is spare.
const SPARE: f64 = 0.99;

/// A part of a helper's time in which it was at work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Part {
    pub from: u64,
    pub to: u64,
    /// Index into [`Helpers::rows`]; `None` where a turn of its own tells of it.
    pub row: Option<usize>,
    /// Its pool, a number of [`Helpers::pools`].
    pub pool: usize,
    /// It was certainly at work; else it may have looked for some.
    pub sure: bool,
    /// What it was at, whoever tells of it.
    own: Option<Row>,
    /// Samples that met the wait.
    wait: Option<Wait>,
}

/// The helpers of one target.
#[derive(Debug, Default)]
pub(super) struct Helpers {
    pub tids: BTreeSet<u32>,
    /// Threads of one name in one process, or processes of one name.
    pub pools: Vec<Pool>,
    /// What they were at, the certain first; each has its number of certain rows before it.
    pub rows: Vec<Row>,
    pub sure_rows: usize,
    /// Each helper's by rising time.
    pub parts: Vec<Part>,
    /// Where the parts of each helper begin and end.
    of: HashMap<u32, (usize, usize)>,
}

/// Helpers of one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pool {
    /// How many there are; 0 where others of their kind had no work all along, so that it is never full.
    pub size: usize,
    /// What a request is at that waits for a free one.
    pub wait: Row,
}

/// Process (0 for helper processes) and name without a number.
type PoolKey = (u32, String);

/// What a wait of a helper was for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Idle,
    /// It may have been for want of work.
    Timed,
    Work,
    /// For a peer, whose turn tells of it.
    Peer,
}

struct Finder<'a> {
    traced: &'a Traced,
    scene: &'a Scene<'a>,
    threads: &'a Threads,
    target: usize,
    /// Threads that read requests.
    serving: BTreeSet<u32>,
    /// When such a thread last had something to hand out: what it read, what it was told.
    tokens: HashMap<u32, Vec<u64>>,
}

impl Helpers {
    /// Of a target whose requests are read by these threads.
    pub(super) fn find(
        traced: &Traced,
        scene: &Scene<'_>,
        threads: &Threads,
        names: &mut Names,
        target: usize,
    ) -> Self {
        let mut finder = Finder {
            traced,
            scene,
            threads,
            target,
            serving: BTreeSet::new(),
            tokens: HashMap::new(),
        };
        finder.serve();
        let candidates: Vec<u32> = scene
            .pieces
            .keys()
            .copied()
            .filter(|tid| finder.may_help(*tid))
            .collect();
        if finder.serving.is_empty() || candidates.is_empty() {
            return Self::default();
        }
        finder.told_by(&candidates);
        let handed = finder.handed(&candidates);
        let exchanges = finder.exchanges(&candidates, &handed);
        let turns = scene.sockets.turns.iter();
        let turns = turns.filter(|turn| turn.target == target).count() as u64;
        let least = (turns / candidates.len() as u64 / PART_OF_EQUAL).max(FEWEST_EXCHANGES);
        let helps = |tid: &u32| exchanges.get(tid).is_some_and(|&n| n >= least);
        let tids: BTreeSet<u32> = candidates.iter().copied().filter(helps).collect();
        let mut members: BTreeMap<PoolKey, Vec<u32>> = BTreeMap::new();
        for &tid in &tids {
            members.entry(finder.pool_of(tid)).or_default().push(tid);
        }
        let spare = finder.spare(&candidates, &tids, &handed);
        let mut helpers = Self::default();
        let mut pool_of: HashMap<u32, usize> = HashMap::new();
        for (pool, (key, tids)) in members.iter().enumerate() {
            let thread = finder.helper_name(tids[0], names);
            helpers.pools.push(Pool {
                size: if spare.contains(key) { 0 } else { tids.len() },
                wait: Row {
                    thread,
                    ..Row::at(Place::NoFreeThread)
                },
            });
            pool_of.extend(tids.iter().map(|&tid| (tid, pool)));
        }
        let mut found: Vec<(Part, Option<Row>)> = Vec::new();
        for &tid in &tids {
            let exchanged = exchanges.get(&tid).copied().unwrap_or_default();
            let before = found.len();
            finder.parts((tid, pool_of[&tid]), &handed, exchanged, names, &mut found);
            helpers.of.insert(tid, (before, found.len()));
        }
        helpers.tids = tids;
        helpers.keep(found);
        helpers
    }

    /// Gives the parts their rows: the largest, each with the stack that most of its time has.
    fn keep(&mut self, found: Vec<(Part, Option<Row>)>) {
        let mut sums: BTreeMap<(bool, Row), (u64, BTreeMap<u32, u64>)> = BTreeMap::new();
        for (part, row) in &found {
            let Some(row) = row else { continue };
            let sum = sums.entry((!part.sure, *row)).or_default();
            sum.0 += part.to - part.from;
            if let Some(stack) = part.wait.and_then(|wait| wait.stack) {
                *sum.1.entry(stack).or_default() += part.to - part.from;
            }
        }
        let mut rows: Vec<(u64, bool, Row, Option<u32>)> = sums
            .into_iter()
            .map(|((unsure, row), (ns, stacks))| {
                let stack = stacks.into_iter().max_by_key(|&(_, ns)| ns);
                (ns, unsure, row, stack.map(|(stack, _)| stack))
            })
            .collect();
        rows.sort_by_key(|&(ns, _, row, _)| (std::cmp::Reverse(ns), row));
        rows.truncate(MOST_ROWS);
        rows.sort_by_key(|&(ns, unsure, row, _)| (unsure, std::cmp::Reverse(ns), row));
        self.sure_rows = rows.iter().filter(|(_, unsure, ..)| !unsure).count();
        let known: BTreeMap<(bool, Row), usize> = rows
            .iter()
            .enumerate()
            .map(|(index, &(_, unsure, row, _))| ((unsure, row), index))
            .collect();
        let with_stack = rows.iter().map(|&(_, _, row, stack)| Row { stack, ..row });
        self.rows = with_stack.collect();
        let parts = found.into_iter().map(|(part, row)| Part {
            row: row.and_then(|row| known.get(&(!part.sure, row)).copied()),
            ..part
        });
        self.parts = parts.collect();
    }

    /// Waits at work, with the samples that met them.
    pub(super) fn met(&self) -> impl Iterator<Item = (Row, (u64, u64))> {
        self.parts.iter().filter_map(|part| {
            let (row, wait) = (self.rows.get(part.row?)?, part.wait?);
            let row = Row {
                met: wait.met,
                ..*row
            };
            Some((row, (part.from, part.to)))
        })
    }

    /// The helpers of a pool.
    pub(super) fn of_pool(&self, pool: usize) -> BTreeSet<u32> {
        let of = |tid: &u32| {
            let part = self
                .of
                .get(tid)
                .and_then(|&(first, end)| self.parts[first..end].first());
            part.is_some_and(|part| part.pool == pool)
        };
        self.tids.iter().copied().filter(of).collect()
    }

    /// What a helper was at in a piece of its time, if it was at work.
    pub(super) fn at_work(&self, tid: u32, piece: &Piece) -> Option<Row> {
        let &(first, end) = self.of.get(&tid)?;
        let parts = &self.parts[first..end];
        let at = parts.partition_point(|part| part.to <= piece.from);
        let part = parts
            .get(at)
            .filter(|part| part.from <= piece.from && part.sure)?;
        part.own
    }

    /// From when to when a helper was at work, or waited in the midst of it: each is for one request.
    pub(super) fn without_pause(&self, tid: u32) -> Vec<(u64, u64)> {
        let (first, end) = self.of.get(&tid).copied().unwrap_or_default();
        let mut times: Vec<(u64, u64)> = Vec::new();
        for part in &self.parts[first..end] {
            match times.last_mut() {
                Some(last) if last.1 == part.from => last.1 = part.to,
                _ => times.push((part.from, part.to)),
            }
        }
        times
    }

    /// Whether a helper was at work then, out of sight of any turn.
    pub(super) fn works(&self, tid: u32, piece: &Piece) -> bool {
        piece.owner == NONE && self.at_work(tid, piece).is_some()
    }
}

impl Finder<'_> {
    fn serve(&mut self) {
        for op in &self.scene.sockets.ops {
            let turn = self.scene.sockets.turns.get(op.turn as usize);
            let own = turn.is_some_and(|turn| turn.target == self.target);
            if op.act == Act::Read && own {
                self.serving.insert(op.tid);
            }
            if matches!(op.act, Act::Read | Act::Take { .. }) {
                self.tokens.entry(op.tid).or_default().push(op.at);
            }
        }
    }

    fn is_member(&self, tid: u32) -> bool {
        target_of(self.traced, self.threads, tid) == Some(self.target)
    }

    fn may_help(&self, tid: u32) -> bool {
        let name = self.traced.names.get(&tid);
        self.is_member(tid)
            && !self.serving.contains(&tid)
            && !self.scene.green.contains(&tid)
            && !name.is_some_and(|name| is_of_runtime(name))
    }

    fn pieces(&self, tid: u32) -> &[Piece] {
        self.scene.pieces.get(&tid).map_or(&[], Vec::as_slice)
    }

    /// What candidates told to threads that read requests is something to go on with as well.
    fn told_by(&mut self, candidates: &[u32]) {
        for tid in self.serving.clone() {
            let ended: Vec<u64> = (self.pieces(tid).iter())
                .filter_map(|piece| Some((piece.to, waited(piece)?.by)))
                .filter(|(_, by)| candidates.contains(by))
                .map(|(to, _)| to)
                .collect();
            let tokens = self.tokens.entry(tid).or_default();
            tokens.extend(ended);
            tokens.sort_unstable();
        }
    }

    /// Waits in a futex that ended with work, by thread and end: the one who reads requests woke it, and had got
    /// something since it last woke somebody. What else it ends is a lock that it gives back.
    fn handed(&self, candidates: &[u32]) -> BTreeSet<(u32, u64)> {
        let mut woken: Vec<(u32, u64, u32)> = Vec::new();
        for &tid in candidates {
            for piece in self.pieces(tid) {
                let wait = waited(piece).filter(|wait| wait.kind == WaitKind::Futex);
                if let Some(wait) = wait.filter(|wait| self.serving.contains(&wait.by)) {
                    woken.push((wait.by, piece.to, tid));
                }
            }
        }
        woken.sort_unstable();
        let mut handed = BTreeSet::new();
        let mut last: HashMap<u32, u64> = HashMap::new();
        for (by, at, tid) in woken {
            let tokens = self.tokens.get(&by).map_or(&[][..], Vec::as_slice);
            let before = tokens.partition_point(|&token| token <= at);
            let newest = before.checked_sub(1).map(|index| tokens[index]);
            let since = last.insert(by, at);
            if newest.is_some_and(|token| since.is_none_or(|since| token > since)) {
                handed.insert((tid, at));
            }
        }
        handed
    }

    fn kind(&self, tid: u32, piece: &Piece, wait: &Wait, handed: &BTreeSet<(u32, u64)>) -> Kind {
        let unended = wait.waker == 0 && piece.to >= self.traced.to_ns;
        match wait.kind {
            WaitKind::Poll | WaitKind::Accept => Kind::Idle,
            WaitKind::Futex if unended || handed.contains(&(tid, piece.to)) => Kind::Idle,
            WaitKind::Futex if wait.waker == self.scene.words.timer => Kind::Timed,
            WaitKind::Pipe | WaitKind::Unix if unended || self.is_member(wait.by) => Kind::Idle,
            WaitKind::Socket | WaitKind::Unix if wait.class.is_client() => Kind::Idle,
            WaitKind::Socket if self.scene.sockets.consuming.contains(&wait.sk) => Kind::Idle,
            WaitKind::Socket | WaitKind::Unix | WaitKind::Udp if wait.class.is_upstream() => {
                Kind::Peer
            }
            WaitKind::Other if unended => Kind::Idle,
            _ => Kind::Work,
        }
    }

    fn exchanges(&self, candidates: &[u32], handed: &BTreeSet<(u32, u64)>) -> HashMap<u32, u64> {
        let mut exchanges: HashMap<u32, u64> = HashMap::new();
        for (tid, _) in handed {
            *exchanges.entry(*tid).or_default() += 1;
        }
        for &tid in candidates {
            let asked = self.pieces(tid).iter().filter(|piece| {
                waited(piece).is_some_and(|wait| {
                    let piped = matches!(wait.kind, WaitKind::Pipe | WaitKind::Unix);
                    piped && self.serving.contains(&wait.by) || self.is_consumed(tid, &wait)
                })
            });
            *exchanges.entry(tid).or_default() += asked.count() as u64;
        }
        for &tid in &self.serving {
            for by in self.pieces(tid).iter().filter_map(|p| Some(waited(p)?.by)) {
                *exchanges.entry(by).or_default() += 1;
            }
        }
        exchanges
    }

    /// Whether a consumer waited for work, and its server gave it some.
    fn is_consumed(&self, tid: u32, wait: &Wait) -> bool {
        let consumes = |tid: u32| {
            let process = self.threads.tgid.get(&tid);
            process.is_some_and(|tgid| self.traced.consumers.contains(tgid))
        };
        let waited = match wait.kind {
            WaitKind::Poll => true,
            WaitKind::Socket => self.scene.sockets.consuming.contains(&wait.sk),
            _ => false,
        };
        waited && consumes(tid) && self.is_member(wait.by) && !consumes(wait.by)
    }

    fn pool_of(&self, tid: u32) -> PoolKey {
        let tgid = self.threads.tgid.get(&tid).copied().unwrap_or_default();
        let of = |tid: u32| self.traced.names.get(&tid).map_or("", String::as_str);
        if self.is_process(tgid) {
            (0, of(tgid).to_owned())
        } else {
            (tgid, pool_name(of(tid)).to_owned())
        }
    }

    /// Whether it is a helper process: none of the threads that read requests is in it.
    fn is_process(&self, tgid: u32) -> bool {
        let mut serving = self.serving.iter();
        !serving.any(|one| self.threads.tgid.get(one) == Some(&tgid))
    }

    /// Pools of which others had nothing to do all along.
    fn spare(
        &self,
        candidates: &[u32],
        tids: &BTreeSet<u32>,
        handed: &BTreeSet<(u32, u64)>,
    ) -> BTreeSet<PoolKey> {
        let others = candidates.iter().copied().filter(|tid| !tids.contains(tid));
        let idle = others.filter(|&tid| {
            let (mut idle, mut all) = (0, 0);
            for piece in self.pieces(tid) {
                let ns = piece.to - piece.from;
                let kind = waited(piece).map(|wait| self.kind(tid, piece, &wait, handed));
                idle += if kind == Some(Kind::Idle) { ns } else { 0 };
                all += ns;
            }
            all > 0 && idle as f64 >= SPARE * all as f64
        });
        idle.map(|tid| self.pool_of(tid)).collect()
    }

    /// What a helper was at, with its rows.
    fn parts(
        &self,
        (tid, pool): (u32, usize),
        handed: &BTreeSet<(u32, u64)>,
        exchanged: u64,
        names: &mut Names,
        found: &mut Vec<(Part, Option<Row>)>,
    ) {
        let timers = self.pieces(tid).iter().filter(|piece| {
            waited(piece).is_some_and(|wait| self.kind(tid, piece, &wait, handed) == Kind::Timed)
        });
        let looks = timers.count() as u64 > exchanged * MOST_TIMERS;
        let thread = self.helper_name(tid, names);
        for piece in self.pieces(tid) {
            let wait = waited(piece);
            let kind = wait.map_or(Kind::Work, |wait| self.kind(tid, piece, &wait, handed));
            if kind == Kind::Idle || piece.idle || self.is_between(tid, piece) {
                continue;
            }
            let own = piece.owner == NONE && kind != Kind::Peer;
            let whole = Row {
                thread,
                ..self.scene.of_helper(tid, piece)
            };
            let row = own.then_some(Row {
                stack: None,
                met: (0, 0),
                ..whole
            });
            let part = Part {
                own: Some(whole),
                from: piece.from,
                to: piece.to,
                row: None,
                pool,
                sure: !(kind == Kind::Timed && looks),
                wait,
            };
            found.push((part, row));
        }
    }

    /// Whether a thread that others of its server ask was at nothing that it was asked then: threads that accept by
    /// turns hand the next turn to each other, which looks like a lock.
    fn is_between(&self, tid: u32, piece: &Piece) -> bool {
        let work = self.scene.sockets.own_work.get(&tid);
        work.is_some_and(|work| {
            let begun = work.partition_point(|one| one.from < piece.to);
            let last = work[..begun].last();
            last.is_none_or(|one| one.to.is_some_and(|to| to <= piece.from))
        })
    }

    /// The name of a helper process; 0 for a thread of the server's own.
    fn helper_name(&self, tid: u32, names: &mut Names) -> u32 {
        let tgid = self.threads.tgid.get(&tid).copied().unwrap_or_default();
        let name = self.traced.names.get(&tgid);
        let name = name.filter(|_| self.is_process(tgid));
        names.id(name.map_or("", String::as_str))
    }
}

/// Threads with which a runtime (HotSpot, .NET, V8) compiles and collects, by the 15 characters that the kernel keeps:
/// they and those that serve wake each other, and no request is handed to them.
const OF_RUNTIMES: [&str; 13] = [
    "C1 CompilerThre",
    "C2 CompilerThre",
    "JVMCI-native Co",
    "Sweeper thread",
    "GC Thread#",
    "G1 ",
    "ZWorker",
    "Shenandoah",
    "VM Thread",
    "VM Periodic Tas",
    ".NET Tiered Com",
    ".NET Server GC",
    "V8 DefaultWorke",
];

fn is_of_runtime(name: &str) -> bool {
    OF_RUNTIMES.iter().any(|own| name.starts_with(own))
}

/// The name of a thread without its number in the pool.
fn pool_name(name: &str) -> &str {
    name.trim_end_matches(|c: char| c.is_ascii_digit())
}
