//! From the trace to the record: rows with their sums, the slowest turns, and the stacks that fell on them.
//!
//! In the flow: the last step. The surprise: where a server hands a request on to tasks that no thread shows
//! (goroutines, pools of connections), an upstream's turn cannot be told for one request. Then the hidden time of the
//! requests that were open is shared out by how many upstream turns were open at each moment: each single row may be
//! another request's, their sum is right (Little's law).

use super::helpers::Helpers;
use super::looks::{AtLook, Looks};
use super::pieces::{self, Piece, is_idle, overlapping};
use super::sockets::{Act, Loose, NONE, Sockets, Turn};
use super::started::{Born, Started};
use super::threads::{Names, Span, State, Threads, Wait, WaitKind};
use super::told::Met;
use super::walk::{Full, Ran, Row, Scene, Words, polls};
use super::wire::{Class, Event, Kind, PREEMPTED};
use super::{Located, Stacks, Traced};
use crate::probe::calls;
use record::ProbeCost;
use record::{
    Asking, Histogram, MetTold, Nanos, Place, PlaceSamples, PlaceTime, PlaceTold, Stalls,
    TargetTurns, ThreadLooks, ThreadTime, TurnAccount, TurnTail, Turns,
};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// Key of the turns that any thread of their runtime may read: no thread has this number.
const ANY_THREAD: u32 = 0;
/// A turn this long belongs to the tail.
const TAIL_QUANTILE: f64 = 0.99;
/// Fewer slow turns than this tell nothing of their places: more belong to the tail then, up to this share.
const LEAST_TAIL_TURNS: u64 = 20;
const MOST_OF_TURNS: f64 = 0.05;
/// Slow turns this far apart come from different moments, ns.
const BURST_GAP_NS: u64 = 100_000_000;
/// A turn of this many medians belongs to a stall: queues of a server that has room make no such lengths.
const STALL_RATIO: u64 = 5;
/// And it lasts at least this part of the longest turn.
const OF_LONGEST: u64 = 4;
/// A moment in which less than this part of the largest one's time was lost is another matter, too.
const OF_LARGEST: u64 = 5;
/// Bursts that tell a period.
const LEAST_PERIOD_BURSTS: u64 = 3;
/// Ticks of a clock that may be missing.
const MISSED: f64 = 0.25;
/// Rows of an account at most; what is rarer loses its stack and its waker, then its detail.
const MOST_ROWS: usize = 80;
/// Requests that a helper does in one stretch of work, at most: a batch that is synced at once.
const MOST_AT_ONCE: usize = 64;
/// Waits with a stack that tell where others alike waited.
const LEAST_SAMPLED_WAITS: u64 = 20;
/// So many where all of them have one stack.
const LEAST_OF_ONE_STACK: u64 = 8;
/// Of a time that is shared out, so much stands for a moment, ns.
const MOMENT_NS: u64 = 10_000;
/// A pool is the requests' when these are out of their readers' hands for at least this part of its work.
const LEAST_HANDED: f64 = 0.5;
/// Peers that hidden time is shared out to by name.
const MOST_SHARED_PEERS: usize = 8;

impl Traced {
    /// What the programs in the kernel took.
    pub fn cost(&self) -> &[ProbeCost] {
        &self.cost
    }

    /// How long the trace was, ns.
    pub fn window_ns(&self) -> u64 {
        self.to_ns.saturating_sub(self.begin_ns)
    }

    /// Whether nothing arrived for the first target at a connection that is followed.
    pub fn is_empty(&self) -> bool {
        let of_front = |event: &&Event| match event.class() {
            Class::Client => self.ports.get(&event.port) == Some(&0),
            class => class.is_client(),
        };
        let mut of_front = self.events.iter().filter(of_front);
        !of_front.any(|event| event.kind() == Some(Kind::Arrived))
    }

    /// Leaves out what was before and after, ns on the monotonic clock: connections that a load opens all at once say
    /// nothing of a server at work. Outside of the trace there is nothing to leave out.
    pub fn only(&mut self, from_ns: u64, to_ns: u64) {
        self.begin_ns = from_ns.clamp(self.begin_ns, self.to_ns);
        self.to_ns = to_ns.clamp(self.begin_ns, self.to_ns);
    }

    /// Where the time of the turns went. `stacks` are what profilers took in the same window.
    pub fn account(mut self, stacks: &Stacks) -> Turns {
        self.events.retain(|event| event.at_ns <= self.to_ns);
        self.events.sort_by_key(|event| event.at_ns);
        let calls: HashMap<i32, &'static str> = calls::all()
            .map(|(number, name)| (number.cast_signed(), name))
            .collect();
        let mut names = Names::default();
        let mut threads = Threads::build(&self, &stacks.waits, &calls, &mut names);
        threads.meet(&stacks.told);
        let idles = |event: &Event| {
            let green = self.green.contains(&event.tgid);
            !event.has(PREEMPTED) && event.value != 0 && waits_idle(event, &calls, green)
        };
        let sockets = Sockets::build(&self, &idles, &threads);
        let words = Words::new(&mut names, &sockets);
        let mut pieces = all_pieces(&self, &threads, &sockets, words.timer);
        let started = Started::find(&self.events, &sockets, &mut pieces);
        let green = pieces.keys().copied();
        let green = green
            .filter(|tid| is_green(&self, &threads, *tid))
            .collect();
        let mut scene = Scene::new(&sockets, pieces, words);
        scene.green = green;
        scene.unpolled = (0..self.targets.len())
            .map(|target| unpolled(&self, &scene, &threads, target))
            .collect();
        scene.told = threads.met.iter().map(|one| one.tid).collect();
        scene.started = started;
        scene.born = Born::find(&self.events, &sockets, &threads.tgid);
        scene.full = (0..self.targets.len())
            .map(|target| full(&self, &scene, &threads, target))
            .collect();
        let helpers: Vec<Helpers> = (0..self.targets.len())
            .map(|target| Helpers::find(&self, &scene, &threads, &mut names, target))
            .collect();
        let targets = helpers.iter().enumerate().map(|(target, helpers)| {
            let accountant = Accountant::new(&self, &scene, &names, &threads, (target, helpers));
            accountant.account(stacks)
        });
        Turns {
            window_ns: self.window_ns(),
            traced_ns: self.to_ns.saturating_sub(self.from_ns),
            sampled_one_in: self.one_in,
            load: None,
            lost: self.lost,
            targets: targets.collect(),
            told: stacks.told.told().to_vec(),
            unavailable: self.unavailable.clone(),
            cost: self.cost.clone(),
        }
    }
}

fn waits_idle(event: &Event, calls: &HashMap<i32, &'static str>, green: bool) -> bool {
    let call = calls.get(&event.nr).copied().unwrap_or_default();
    let wait = Wait {
        kind: WaitKind::of(call, event),
        sk: event.sk,
        class: event.class(),
        waker: 0,
        by: 0,
        stack: None,
        met: (0, 0),
    };
    is_idle(&wait, green)
}

/// Whether a thread carries many tasks of its runtime.
fn is_green(traced: &Traced, threads: &Threads, tid: u32) -> bool {
    let process = threads.tgid.get(&tid);
    process.is_some_and(|tgid| traced.green.contains(tgid))
}

/// The target that a thread belongs to.
pub(super) fn target_of(traced: &Traced, threads: &Threads, tid: u32) -> Option<usize> {
    traced.members.get(threads.tgid.get(&tid)?).copied()
}

/// When no thread of a target's runtime polls, and one that runs meanwhile.
fn unpolled(traced: &Traced, scene: &Scene<'_>, threads: &Threads, target: usize) -> Vec<Ran> {
    let ours =
        |tid: &u32| scene.green.contains(tid) && target_of(traced, threads, *tid) == Some(target);
    let all = scene.pieces.iter().filter(|(tid, _)| ours(tid));
    super::walk::unpolled(all.map(|(tid, pieces)| (*tid, pieces.as_slice())))
}

fn all_pieces(
    traced: &Traced,
    threads: &Threads,
    sockets: &Sockets,
    timer: u32,
) -> BTreeMap<u32, Vec<Piece>> {
    let mut ops: HashMap<u32, Vec<super::sockets::Op>> = HashMap::new();
    // The end of a connection is the kernel's, whatever its thread does then.
    for op in sockets.ops.iter().filter(|op| op.act != Act::GiveUp) {
        ops.entry(op.tid).or_default().push(*op);
    }
    let tids: BTreeSet<u32> = threads.spans.keys().chain(ops.keys()).copied().collect();
    // A thread that was never switched ran all the time.
    let always = [Span {
        from: traced.from_ns,
        to: traced.to_ns,
        state: State::Running,
    }];
    let build = |tid: u32| {
        let spans = threads.spans.get(&tid).map_or(&always[..], Vec::as_slice);
        let ops = ops.get(&tid).map_or(&[][..], Vec::as_slice);
        let green = is_green(traced, threads, tid);
        let pieces = pieces::build(spans, ops, &sockets.turns, green, timer);
        (tid, pieces)
    };
    tids.into_iter().map(build).collect()
}

/// The threads that read requests of a target.
fn readers(traced: &Traced, scene: &Scene<'_>, threads: &Threads, target: usize) -> BTreeSet<u32> {
    let turns = scene.sockets.turns.iter();
    let turns = turns.filter(|turn| turn.target == target);
    let in_target = |tid: &u32| {
        let tgid = threads.tgid.get(tid);
        tgid.is_none_or(|tgid| traced.members.get(tgid) == Some(&target))
    };
    turns.map(|turn| turn.reader).filter(in_target).collect()
}

/// The threads that answer requests of a target: where one reads and hands over, these are its pool.
fn answering(
    traced: &Traced,
    scene: &Scene<'_>,
    threads: &Threads,
    target: usize,
) -> BTreeSet<u32> {
    let of_target = |turn: u32| {
        let turn = scene.sockets.turns.get(turn as usize);
        turn.is_some_and(|turn| turn.target == target)
    };
    let in_target = |tid: &u32| {
        let tgid = threads.tgid.get(tid);
        tgid.is_none_or(|tgid| traced.members.get(tgid) == Some(&target))
    };
    let ops = scene.sockets.ops.iter();
    let ops = ops.filter(|op| op.act == Act::Write && of_target(op.turn));
    ops.map(|op| op.tid).filter(in_target).collect()
}

/// When no thread that answers requests of a target was free.
fn full(traced: &Traced, scene: &Scene<'_>, threads: &Threads, target: usize) -> Full {
    let pool = answering(traced, scene, threads, target);
    let (mut busy, mut polling) = (Vec::new(), Vec::new());
    for tid in &pool {
        for piece in scene.pieces.get(tid).into_iter().flatten() {
            if !piece.idle && piece.owner != NONE {
                busy.push((piece.from, piece.to));
            } else if polls(piece) {
                polling.push((piece.from, piece.to));
            }
        }
    }
    Full {
        polling: none_free(&busy, &polling, pool.len()),
        busy: none_free(&busy, &[], pool.len()),
    }
}

/// When so many are busy or poll at once, and some are busy, by rising time.
fn none_free(busy: &[(u64, u64)], polling: &[(u64, u64)], all: usize) -> Vec<(u64, u64)> {
    let busy = busy.iter().map(|times| (times, 1));
    let polling = polling.iter().map(|times| (times, 0));
    let mut edges: Vec<(u64, i64, i64)> = (busy.chain(polling))
        .flat_map(|(&(from, to), works)| [(from, 1, works), (to, -1, -works)])
        .collect();
    edges.sort_unstable();
    let mut full = Vec::new();
    let (mut taken, mut at_work, mut since) = (0, 0, None);
    for edges in edges.chunk_by(|a, b| a.0 == b.0) {
        let now = edges[0].0;
        taken += edges.iter().map(|edge| edge.1).sum::<i64>();
        at_work += edges.iter().map(|edge| edge.2).sum::<i64>();
        match (taken >= all as i64 && at_work > 0, since) {
            (true, None) => since = Some(now),
            (false, Some(from)) => {
                full.push((from, now));
                since = None;
            }
            _ => {}
        }
    }
    full
}

/// The account of one target.
struct Accountant<'a> {
    traced: &'a Traced,
    scene: &'a Scene<'a>,
    names: &'a Names,
    threads: &'a Threads,
    target: usize,
    helpers: &'a Helpers,
    /// Turns that have an answer.
    turns: Vec<u32>,
    shares: Shares,
}

impl<'a> Accountant<'a> {
    fn new(
        traced: &'a Traced,
        scene: &'a Scene<'a>,
        names: &'a Names,
        threads: &'a Threads,
        (target, helpers): (usize, &'a Helpers),
    ) -> Self {
        let turns = (0_u32..).zip(&scene.sockets.turns);
        let turns = turns.filter(|(_, turn)| turn.target == target && turn.answered);
        let turns = turns.filter(|(_, turn)| turn.end >= traced.begin_ns);
        // Connections that were all opened at once before wait for each other as they never do later.
        let at_once = |turn: &Turn| turn.unaccepted && turn.arrived < traced.begin_ns;
        let turns = turns.filter(|(_, turn)| !at_once(turn));
        let turns: Vec<u32> = turns.map(|(index, _)| index).collect();
        let shares = Shares::of(traced, scene, (target, helpers), &turns);
        Self {
            traced,
            scene,
            names,
            threads,
            target,
            helpers,
            turns,
            shares,
        }
    }

    fn turn(&self, index: u32) -> &Turn {
        &self.scene.sockets.turns[index as usize]
    }

    fn account(&self, stacks: &Stacks) -> TargetTurns {
        let looks = self.looks(stacks);
        let counts = &self.scene.sockets.counts[self.target];
        let mut given_up = Histogram::new();
        for &wait_ns in &counts.given_up {
            given_up.record(Nanos(wait_ns));
        }
        let mut lengths = Histogram::new();
        let mut connections = BTreeSet::new();
        let (mut read_bytes, mut written_bytes) = (0, 0);
        for &index in &self.turns {
            let turn = self.turn(index);
            lengths.record(Nanos(turn.end - turn.arrived));
            connections.insert(turn.connection);
            read_bytes += turn.read_bytes;
            written_bytes += turn.written_bytes;
        }
        TargetTurns {
            target: self.traced.targets[self.target].clone(),
            connections: connections.len() as u64,
            account: self.sum(&self.turns, stacks, &looks),
            tail: self.tail(&lengths, stacks, &looks),
            stalls: self.stalls(&lengths),
            ran: self.ran(stacks),
            threads: self.thread_time(stacks),
            lengths: (lengths.count() > 0).then_some(lengths),
            between_ns: counts.between_ns,
            irregular: counts.irregular,
            read_bytes,
            written_bytes,
            answers: counts.answers,
            relayed: (counts.relayed.iter())
                .map(|(&peer, &turns)| (self.scene.sockets.peers[peer as usize].clone(), turns))
                .collect(),
            given_up: (given_up.count() > 0).then_some(given_up),
            asking: self.asking(),
            accepted: counts.accepted,
            closed: counts.closed,
            rested: counts.rested,
            rested_ns: counts.rested_ns,
        }
    }

    /// CPU time between the first of several questions to upstreams and the last answer: of turns on their own threads,
    /// and of helpers, of which each works for one request as long as it has no pause.
    fn asking(&self) -> Option<Asking> {
        let mut asking = Asking::default();
        let mut add = |among: Option<(u64, u64)>, from: u64, to: u64| {
            asking.of_ns += to - from;
            if let Some((first, last)) = among {
                asking.cpu_ns += to.min(last).saturating_sub(from.max(first));
            }
        };
        for &index in &self.turns {
            let among = self.scene.asking(index);
            self.scene.walk(index, &mut |row, from, to| {
                if row.place == Place::OnCpu {
                    add(among, from, to);
                }
            });
        }
        let loose = self.scene.sockets.loose.iter();
        let mut of_helpers: HashMap<u32, Vec<&Loose>> = HashMap::new();
        for one in loose.filter(|one| one.target == self.target) {
            of_helpers.entry(one.tid).or_default().push(one);
        }
        for asked in of_helpers.values_mut() {
            asked.sort_unstable_by_key(|one| one.asked);
        }
        for &tid in &self.helpers.tids {
            let asked = of_helpers.get(&tid).map_or(&[][..], Vec::as_slice);
            for (from, to) in self.helpers.without_pause(tid) {
                let first = asked.partition_point(|one| one.asked < from);
                let within = asked[first..].iter().take_while(|one| one.asked < to);
                let last = within.clone().map(|one| one.read).max().unwrap_or(from);
                let several = within.count() > 1;
                let among = several.then(|| (asked[first].asked, last));
                for piece in overlapping(&self.scene.pieces[&tid], from, to) {
                    if piece.state == State::Running {
                        add(among, piece.from.max(from), piece.to.min(to));
                    }
                }
            }
        }
        (asking.of_ns > 0).then_some(asking)
    }

    /// The looks at this target's tasks, and what its turns did then.
    fn looks<'s>(&self, stacks: &'s Stacks) -> Looks<'s> {
        let of = &self.traced.targets[self.target];
        let looks = stacks.looks.iter().filter(|look| look.target == *of);
        let lengths = self.turns.iter().map(|&index| {
            let turn = self.turn(index);
            turn.end - turn.arrived
        });
        let mean_ns = lengths.sum::<u64>() / (self.turns.len() as u64).max(1);
        let window = (self.traced.begin_ns, self.traced.to_ns);
        let mut looks = Looks::within(looks.collect(), window, mean_ns, self.traced.one_in);
        looks.all = self.at_looks(&looks, &self.turns);
        if !looks.looks.is_empty() {
            let own =
                |one: &&Located| target_of(self.traced, self.threads, one.tid) == Some(self.target);
            looks.ran = stacks.samples.iter().filter(own).copied().collect();
            looks.ran.sort_by_key(|sample| sample.at_ns);
        }
        looks
    }

    /// How many of the turns were where at each look.
    fn at_looks(&self, looks: &Looks<'_>, turns: &[u32]) -> Vec<AtLook> {
        let mut all = vec![AtLook::default(); looks.looks.len()];
        if all.is_empty() {
            return all;
        }
        for &index in turns {
            self.scene.walk(index, &mut |row, from, to| {
                let first = looks.looks.partition_point(|look| look.at_ns < from);
                let seen = looks.looks[first..].iter().zip(&mut all[first..]);
                for (look, at) in seen.take_while(|(look, _)| look.at_ns < to) {
                    let until = to.min(look.at_ns + MOMENT_NS);
                    self.shares.split(row, look.at_ns, until, &mut |row, ns| {
                        at.add(&row, ns as f64 / (until - look.at_ns) as f64);
                    });
                }
            });
        }
        all
    }

    fn tail(&self, lengths: &Histogram, stacks: &Stacks, looks: &Looks<'_>) -> Option<TurnTail> {
        let least = LEAST_TAIL_TURNS as f64 / lengths.count().max(1) as f64;
        if least > MOST_OF_TURNS {
            return None;
        }
        let from_ns = lengths.quantile(TAIL_QUANTILE.min(1.0 - least))?.0;
        let length = |index: &u32| {
            let turn = self.turn(*index);
            turn.end - turn.arrived
        };
        let mut slow: Vec<u32> = self.turns.clone();
        slow.retain(|index| length(index) >= from_ns);
        let turns = slow
            .iter()
            .map(|index| (self.turn(*index).end, length(index)));
        let mut turns: Vec<(u64, u64)> = turns.collect();
        turns.sort_unstable();
        let moments = moments(&turns);
        let bursts = moments.len() as u64;
        let period = (bursts >= LEAST_PERIOD_BURSTS)
            .then(|| (moments[moments.len() - 1].at_ns - moments[0].at_ns) / (bursts - 1));
        Some(TurnTail {
            from_ns,
            bursts,
            period_ns: period,
            account: self.sum(&slow, stacks, looks),
        })
    }

    fn stalls(&self, lengths: &Histogram) -> Option<Stalls> {
        let median = lengths.quantile(0.5)?.0;
        // What is short beside the longest is another matter: noise of the host would else hide the regular ones.
        let from_ns = (lengths.max()?.0 / OF_LONGEST).max(median.checked_mul(STALL_RATIO)?);
        let turns = self.turns.iter().map(|&index| self.turn(index));
        let slow = turns.filter(|turn| turn.end - turn.arrived >= from_ns);
        let mut slow: Vec<(u64, u64)> = slow.map(|t| (t.end, t.end - t.arrived)).collect();
        slow.sort_unstable();
        let mut moments = moments(&slow);
        let largest = moments.iter().map(|m| m.total_ns).max().unwrap_or(0);
        moments.retain(|m| m.total_ns >= largest / OF_LARGEST);
        let gaps = moments.windows(2).map(|two| two[1].at_ns - two[0].at_ns);
        let gaps: Vec<f64> = gaps.map(|gap| gap as f64).collect();
        let (period_ns, spread) = period(&gaps);
        let told = gaps.len() as u64 + 1 >= LEAST_PERIOD_BURSTS;
        Some(Stalls {
            from_ns,
            turns: moments.iter().map(|m| m.turns).sum(),
            total_ns: moments.iter().map(|m| m.total_ns).sum(),
            longest_ns: slow.iter().map(|(_, length)| *length).max().unwrap_or(0),
            moments: moments.len() as u64,
            period_ns: told.then_some(period_ns as u64),
            period_spread: told.then_some(spread),
        })
    }

    fn sum(&self, turns: &[u32], stacks: &Stacks, looks: &Looks<'_>) -> TurnAccount {
        let mut met = Met::default();
        let mut rows: HashMap<Row, (u64, u64)> = HashMap::new();
        let mut total_ns = 0;
        let mut one: Vec<(Row, u64)> = Vec::new();
        let mut waiting = Waiting::default();
        for &index in turns {
            one.clear();
            let turn = self.turn(index);
            let readers = self.readers_of(turn);
            for reader in readers.into_iter().flatten() {
                waiting.requests.add(reader, turn.arrived, turn.read);
            }
            self.scene.walk(index, &mut |mut row, from, to| {
                if row.place == Place::UpstreamUnread {
                    for reader in readers.into_iter().flatten() {
                        waiting.answers.add(reader, from, to);
                    }
                }
                met.take(&mut row, (from, to), self.threads, &stacks.told, self.names);
                self.shares
                    .split(row, from, to, &mut |row, ns| add(&mut one, row, ns));
            });
            for (row, ns) in &one {
                let sum = rows.entry(*row).or_default();
                sum.0 += 1;
                sum.1 += ns;
                total_ns += ns;
            }
        }
        for (mut row, part) in self.helpers.met() {
            met.take(&mut row, part, self.threads, &stacks.told, self.names);
        }
        let at_looks = self.at_looks(looks, turns);
        waiting.requests.sort();
        waiting.answers.sort();
        let mut cpu_samples = self.samples(turns, &waiting, &stacks.samples);
        cpu_samples.extend(looks.behind(&at_looks));
        TurnAccount {
            turns: turns.len() as u64,
            total_ns,
            places: self.places(rows, &met),
            cpu_samples,
            cpu_told: self.told(turns, &waiting, stacks),
            threads: self.thread_looks(turns),
            tasks: looks.tasks(&at_looks),
        }
    }

    /// What runtimes told of threads that ran while turns were with them or waited for them.
    fn told(&self, turns: &[u32], waiting: &Waiting, stacks: &Stacks) -> Vec<PlaceTold> {
        let samples = self.samples(turns, waiting, &self.threads.running(&stacks.told));
        let told = samples.into_iter().map(|one| PlaceTold {
            place: one.place,
            told: one.stack,
            samples: one.samples,
        });
        told.collect()
    }

    /// When some of the turns are open to helpers, where there are any: beginnings and ends of the stretches, by rising
    /// time.
    fn open_to_helpers(&self, turns: &[u32]) -> Vec<(u64, u64)> {
        if self.helpers.tids.is_empty() {
            return Vec::new();
        }
        let turns = turns.iter().map(|&index| self.turn(index));
        joined(turns.map(|turn| (turn.read, turn.end)).collect())
    }

    /// Where the threads that had a turn were whenever all were looked at.
    fn thread_looks(&self, turns: &[u32]) -> Option<ThreadLooks> {
        let own =
            |one: &&Located| target_of(self.traced, self.threads, one.tid) == Some(self.target);
        let looks = self.threads.met_with_all.iter().filter(own);
        let looks = looks.filter(|one| one.at_ns >= self.traced.begin_ns);
        let chosen: HashSet<u32> = turns.iter().copied().collect();
        // All threads of a process are looked at at once, those of others a little later.
        let mut moments: HashMap<u32, BTreeSet<u64>> = HashMap::new();
        let times = self.open_to_helpers(turns);
        let mut sums: BTreeMap<u32, u64> = BTreeMap::new();
        for one in looks {
            let process = self.threads.tgid.get(&one.tid).copied();
            let moments = moments.entry(process.unwrap_or_default()).or_default();
            moments.insert(one.at_ns);
            let Some(piece) = self.scene.piece_at(one.tid, one.at_ns) else {
                continue;
            };
            let owner = piece.owner;
            let has = chosen.contains(&owner) && self.turn(owner).times().contains(&one.at_ns);
            let helps = self.helpers.works(one.tid, piece) && open_at(&times, one.at_ns);
            if has || helps {
                *sums.entry(one.stack).or_default() += one.count;
            }
        }
        let moments = moments.into_values().max_by_key(BTreeSet::len)?;
        let mut open = Lines::default();
        for &index in turns {
            let times = self.turn(index).times();
            open.add(ANY_THREAD, times.start, times.end);
        }
        open.sort();
        let mut met: Vec<MetTold> = sums
            .into_iter()
            .map(|(told, looks)| MetTold { told, looks })
            .collect();
        met.sort_by_key(|one| (std::cmp::Reverse(one.looks), one.told));
        let open = moments.iter().map(|at_ns| open.open(ANY_THREAD, *at_ns));
        Some(ThreadLooks {
            open: open.sum(),
            met,
        })
        .filter(|looks| !looks.met.is_empty())
    }

    /// What runtimes told of threads that ran, whatever for.
    fn ran(&self, stacks: &Stacks) -> Vec<PlaceTold> {
        let mut sums: BTreeMap<u32, u64> = BTreeMap::new();
        for one in self.threads.running(&stacks.told) {
            if target_of(self.traced, self.threads, one.tid) == Some(self.target) {
                *sums.entry(one.stack).or_default() += one.count;
            }
        }
        let mut all: Vec<PlaceTold> = sums
            .into_iter()
            .map(|(told, samples)| PlaceTold {
                place: Place::OnCpu,
                told,
                samples,
            })
            .collect();
        all.sort_by_key(|one| (std::cmp::Reverse(one.samples), one.told));
        all
    }

    /// What the threads that serve did, requests or not: those that read requests, or those that answer or work for
    /// them where these have less time off.
    fn thread_time(&self, stacks: &Stacks) -> Option<ThreadTime> {
        let readers = readers(self.traced, self.scene, self.threads, self.target);
        let readers = self.time_of(&readers, stacks);
        let pools = self.helpers.pools.iter().enumerate();
        let pools = pools.filter(|(_, pool)| pool.size > 0);
        let pools: Vec<_> = pools.map(|(pool, _)| self.helpers.of_pool(pool)).collect();
        // All turns are walked for it, which most servers need not.
        let handed = match pools.is_empty() {
            true => Vec::new(),
            false => self.handed_over(),
        };
        let pools = pools.into_iter().filter(|tids| self.serves(tids, &handed));
        let answering = answering(self.traced, self.scene, self.threads, self.target);
        let pools = pools.filter_map(|tids| self.time_of(&tids, stacks));
        let others = pools.chain(self.time_of(&answering, stacks));
        // The first of several that are as busy.
        let all = readers.into_iter().chain(others);
        all.reduce(|best, time| {
            if time.idle_share() < best.idle_share() {
                time
            } else {
                best
            }
        })
    }

    /// Whether a pool's work is the requests': when one of its threads is at work, a request is out of its reader's
    /// hands. Whoever only shares a lock with a reader is at something of its own, and is so when no request waits.
    fn serves(&self, tids: &BTreeSet<u32>, handed: &[(u64, u64)]) -> bool {
        // Who only sleeps while requests wait took none of them.
        let taken: usize = (tids.iter())
            .map(|&tid| self.helpers.without_pause(tid).len())
            .sum();
        if taken * MOST_AT_ONCE < self.turns.len() {
            return false;
        }
        let begun = self.traced.begin_ns;
        let (mut work, mut covered) = (0, 0);
        for tid in tids {
            let pieces = self.scene.pieces.get(tid).into_iter().flatten();
            for piece in pieces.filter(|piece| piece.to > begun) {
                if self.helpers.works(*tid, piece) {
                    let (from, to) = (piece.from.max(begun), piece.to);
                    work += to.saturating_sub(from);
                    covered += covered_ns(handed, from, to);
                }
            }
        }
        // Of some connections alone, as much less is seen.
        covered as f64 * f64::from(self.traced.one_in) >= LEAST_HANDED * work as f64
    }

    /// When turns are hidden, or their threads wait for another one, by rising time.
    fn handed_over(&self) -> Vec<(u64, u64)> {
        let others = [WaitKind::Futex, WaitKind::Pipe, WaitKind::Unix];
        let others = others.map(|kind| self.scene.words.kind(kind));
        let timer = self.scene.words.timer;
        let mut times = Vec::new();
        for &index in &self.turns {
            self.scene.walk(index, &mut |row, from, to| {
                let out = match row.place {
                    Place::Hidden | Place::NoFreeThread => true,
                    // What a timer ends is a sleep of its own.
                    Place::Blocked => others.contains(&row.detail) && row.waker != timer,
                    _ => false,
                };
                if out {
                    times.push((from, to));
                }
            });
        }
        joined(times)
    }

    fn time_of(&self, tids: &BTreeSet<u32>, stacks: &Stacks) -> Option<ThreadTime> {
        let mut rows: HashMap<Row, (u64, u64)> = HashMap::new();
        let mut met = Met::default();
        let mut total_ns = 0;
        let begun = self.traced.begin_ns;
        for tid in tids {
            let pieces = self.scene.pieces.get(tid).into_iter().flatten();
            for piece in pieces.filter(|piece| piece.to > begun) {
                let ns = piece.to.saturating_sub(piece.from.max(begun));
                let mut row = if self.helpers.tids.contains(tid) {
                    let works = self.helpers.at_work(*tid, piece);
                    works.unwrap_or(Row::at(Place::Idle))
                } else {
                    self.scene.of_thread(*tid, piece)
                };
                let part = (piece.from.max(begun), piece.to);
                met.take(&mut row, part, self.threads, &stacks.told, self.names);
                let sum = rows.entry(row).or_default();
                sum.0 += 1;
                sum.1 += ns;
                total_ns += ns;
            }
        }
        let mut ran: BTreeMap<u32, u64> = BTreeMap::new();
        let within = |s: &&Located| tids.contains(&s.tid) && s.at_ns >= begun;
        for sample in stacks.samples.iter().filter(within) {
            *ran.entry(sample.stack).or_default() += sample.count;
        }
        let ran = ran.into_iter().map(|(stack, samples)| PlaceSamples {
            place: Place::OnCpu,
            stack,
            samples,
        });
        let only = (tids.len() == 1).then(|| tids.first()).flatten();
        let name = only.and_then(|tid| {
            let process = self.threads.tgid.get(tid);
            let names = &self.traced.names;
            names.get(tid).or_else(|| names.get(process?))
        });
        (total_ns > 0).then(|| ThreadTime {
            threads: tids.len() as u64,
            name: name.cloned().unwrap_or_default(),
            account: TurnAccount {
                turns: rows.values().map(|(parts, _)| parts).sum(),
                total_ns,
                places: self.places(rows, &met),
                cpu_samples: ran.collect(),
                ..TurnAccount::default()
            },
        })
    }

    fn places(&self, mut rows: HashMap<Row, (u64, u64)>, met: &Met) -> Vec<PlaceTime> {
        met.name(&mut rows, self.names);
        name_by_sample(&mut rows);
        let coarser: [fn(Row) -> Row; 2] = [
            |row| Row::with(row.place, row.detail),
            |row| Row::at(row.place),
        ];
        for coarser in coarser {
            if rows.len() > MOST_ROWS {
                rows = fold(rows, coarser);
            }
        }
        let mut places: Vec<PlaceTime> = rows
            .into_iter()
            .map(|(row, (turns, total_ns))| PlaceTime {
                place: row.place,
                detail: self.names.text(row.detail).to_owned(),
                waker: self.names.text(row.waker).to_owned(),
                stack: row.stack,
                told: row.told,
                helper: self.names.text(row.thread).to_owned(),
                turns,
                total_ns,
            })
            .collect();
        places.sort_by(|a, b| {
            let key = |p: &PlaceTime| (p.place, p.detail.clone(), p.waker.clone(), p.stack, p.told);
            b.total_ns
                .cmp(&a.total_ns)
                .then_with(|| key(a).cmp(&key(b)))
        });
        places
    }

    /// Who may read what comes for a turn: the thread that has its connection, and any of a runtime with tasks.
    fn readers_of(&self, turn: &Turn) -> [Option<u32>; 2] {
        let pinned = self.scene.is_pinned(turn).then_some(turn.reader);
        let any = (self.scene.green.contains(&turn.reader)).then_some(ANY_THREAD);
        [pinned, any]
    }

    /// What threads ran while turns were with them or waited for them.
    fn samples(&self, turns: &[u32], waiting: &Waiting, samples: &[Located]) -> Vec<PlaceSamples> {
        let chosen: HashSet<u32> = turns.iter().copied().collect();
        let times = self.open_to_helpers(turns);
        let mut sums: BTreeMap<(Place, u32), u64> = BTreeMap::new();
        for sample in samples {
            // What came and went within the trace is no member of its target.
            let target = match self.scene.started.turn_of(sample.tid) {
                Some(turn) => Some(self.turn(turn).target),
                None => target_of(self.traced, self.threads, sample.tid),
            };
            if target != Some(self.target) {
                continue;
            }
            let Some(piece) = self.scene.piece_at(sample.tid, sample.at_ns) else {
                continue;
            };
            let key = match self.scene.is_unpolled(self.target, sample) {
                true => ANY_THREAD,
                false => sample.tid,
            };
            let mut others = waiting.requests.open(key, sample.at_ns);
            let unread = waiting.answers.open(key, sample.at_ns);
            if unread > 0 {
                let sum = sums.entry((Place::UpstreamUnread, sample.stack));
                *sum.or_default() += sample.count * unread;
            }
            if chosen.contains(&piece.owner) {
                let turn = self.turn(piece.owner);
                if turn.times().contains(&sample.at_ns) {
                    *sums.entry((Place::OnCpu, sample.stack)).or_default() += sample.count;
                }
                if sample.at_ns < turn.read {
                    others = others.saturating_sub(1);
                }
            }
            if self.helpers.works(sample.tid, piece) && open_at(&times, sample.at_ns) {
                *sums.entry((Place::OnCpu, sample.stack)).or_default() += sample.count;
                continue;
            }
            let place = if piece.owner == NONE || piece.after {
                Place::Loop
            } else {
                Place::OtherTurns
            };
            if others > 0 {
                *sums.entry((place, sample.stack)).or_default() += sample.count * others;
            }
        }
        let mut all: Vec<PlaceSamples> = sums
            .into_iter()
            .map(|((place, stack), samples)| PlaceSamples {
                place,
                stack,
                samples,
            })
            .collect();
        all.sort_by_key(|s| (std::cmp::Reverse(s.samples), s.place, s.stack));
        all
    }
}

/// What waits until a thread reads it.
#[derive(Default)]
struct Waiting {
    requests: Lines,
    /// Of upstreams.
    answers: Lines,
}

/// Times by the thread that whoever is in them waits for.
#[derive(Default)]
struct Lines(HashMap<u32, (Vec<u64>, Vec<u64>)>);

impl Lines {
    fn add(&mut self, thread: u32, from: u64, to: u64) {
        let (begins, ends) = self.0.entry(thread).or_default();
        begins.push(from);
        ends.push(to);
    }

    fn sort(&mut self) {
        for (begins, ends) in self.0.values_mut() {
            begins.sort_unstable();
            ends.sort_unstable();
        }
    }

    /// How many wait for a thread at a time; only of what is sorted.
    fn open(&self, thread: u32, at: u64) -> u64 {
        self.0.get(&thread).map_or(0, |(begins, ends)| {
            let before = |times: &[u64]| times.partition_point(|&time| time <= at) as u64;
            before(begins).saturating_sub(before(ends))
        })
    }
}

/// Stretches that overlap or touch as one, by rising time.
fn joined(mut times: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
    times.sort_unstable();
    times.dedup_by(|next, open| {
        let joins = next.0 <= open.1;
        if joins {
            open.1 = open.1.max(next.1);
        }
        joins
    });
    times
}

/// How much of a stretch lies within those of `times`, which are apart from each other, ns.
fn covered_ns(times: &[(u64, u64)], from: u64, to: u64) -> u64 {
    let first = times.partition_point(|&(_, end)| end <= from);
    let within = times[first..].iter().take_while(|&&(begin, _)| begin < to);
    within
        .map(|&(begin, end)| end.min(to) - begin.max(from))
        .sum()
}

fn open_at(times: &[(u64, u64)], at: u64) -> bool {
    let after = times.partition_point(|&(_, end)| end <= at);
    times.get(after).is_some_and(|&(from, _)| from <= at)
}

fn add(rows: &mut Vec<(Row, u64)>, row: Row, ns: u64) {
    if ns == 0 {
        return;
    }
    match rows.iter_mut().find(|(known, _)| *known == row) {
        Some((_, sum)) => *sum += ns,
        None => rows.push((row, ns)),
    }
}

/// Stacks are taken of some waits only, at random: those of which none was taken are shared out as the others are,
/// where these are enough to tell.
fn name_by_sample(rows: &mut HashMap<Row, (u64, u64)>) {
    let nameless: Vec<Row> = rows
        .keys()
        .filter(|row| {
            row.stack.is_none()
                && row.told.is_none()
                && matches!(
                    row.place,
                    Place::Blocked | Place::OthersBlocked | Place::Loop
                )
        })
        .copied()
        .collect();
    for row in nameless {
        let alike = |other: &Row| {
            other.stack.is_some()
                && Row {
                    stack: None,
                    ..*other
                } == row
        };
        let mut sampled: Vec<Row> = rows.keys().filter(|other| alike(other)).copied().collect();
        sampled.sort_unstable();
        let waits: u64 = sampled.iter().map(|row| rows[row].0).sum();
        let known: u64 = sampled.iter().map(|row| rows[row].1).sum();
        let least = match sampled.len() {
            1 => LEAST_OF_ONE_STACK,
            _ => LEAST_SAMPLED_WAITS,
        };
        if waits < least || known == 0 {
            continue;
        }
        let (turns, ns) = rows.remove(&row).unwrap_or_default();
        let mut rest = ns;
        for (index, row) in sampled.iter().enumerate() {
            let sum = rows.entry(*row).or_default();
            let part = if index + 1 == sampled.len() {
                rest
            } else {
                (u128::from(ns) * u128::from(sum.1) / u128::from(known)) as u64
            };
            rest -= part.min(rest);
            sum.0 += (u128::from(turns) * u128::from(sum.1) / u128::from(known)) as u64;
            sum.1 += part;
        }
    }
}

/// The largest rows stay as they are, the others become coarser.
fn fold(rows: HashMap<Row, (u64, u64)>, coarser: fn(Row) -> Row) -> HashMap<Row, (u64, u64)> {
    let mut sorted: Vec<(Row, (u64, u64))> = rows.into_iter().collect();
    sorted.sort_by_key(|&(row, (_, ns))| (std::cmp::Reverse(ns), row));
    let mut folded: HashMap<Row, (u64, u64)> = HashMap::new();
    for (rank, (row, (turns, ns))) in sorted.into_iter().enumerate() {
        let row = if rank < MOST_ROWS / 2 {
            row
        } else {
            coarser(row)
        };
        let sum = folded.entry(row).or_default();
        sum.0 += turns;
        sum.1 += ns;
    }
    folded
}

/// A moment in which turns were slow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Moment {
    /// End of the first of them, ns.
    at_ns: u64,
    turns: u64,
    total_ns: u64,
}

/// The time between moments, and how much it spreads, as a share of it. A clock of which one tick in four was not seen
/// is one still: then there is a whole number of ticks between two moments, and each that is missing counts as spread.
fn period(gaps: &[f64]) -> (f64, f64) {
    let spread = |ticks: &[f64]| {
        let period = gaps.iter().sum::<f64>() / ticks.iter().sum::<f64>();
        let off = gaps
            .iter()
            .zip(ticks)
            .map(|(gap, n)| (gap - n * period).powi(2));
        let variance = off.sum::<f64>() / gaps.len() as f64;
        (period, variance.sqrt() / period)
    };
    let plain = spread(&vec![1.0; gaps.len()]);
    let Some(shortest) = gaps.iter().copied().reduce(f64::min).filter(|g| *g > 0.0) else {
        return plain;
    };
    let ticks: Vec<f64> = gaps.iter().map(|gap| (gap / shortest).round()).collect();
    let all = ticks.iter().sum::<f64>();
    let missing = all - gaps.len() as f64;
    if missing == 0.0 || missing > all * MISSED {
        return plain;
    }
    let (period, off) = spread(&ticks);
    let off = off * (1.0 + missing);
    if off < plain.1 { (period, off) } else { plain }
}

/// The moments of slow turns, each given by its end and its length, by rising end.
fn moments(slow: &[(u64, u64)]) -> Vec<Moment> {
    let mut moments: Vec<Moment> = Vec::new();
    let mut last = None;
    for &(end, length) in slow {
        if last.is_none_or(|last| end - last > BURST_GAP_NS) {
            moments.push(Moment {
                at_ns: end,
                turns: 0,
                total_ns: 0,
            });
        }
        last = Some(end);
        if let Some(moment) = moments.last_mut() {
            moment.turns += 1;
            moment.total_ns += length;
        }
    }
    moments
}

/// Which upstream turns lie within a request: what a server asks on its own account (a subscription, a check of health)
/// goes on whoever is there.
struct Within {
    /// When requests were read, by rising time, and the latest end of those until there.
    latest: Vec<(u64, u64)>,
}

impl Within {
    fn of(scene: &Scene<'_>, turns: &[u32]) -> Self {
        let turns = turns
            .iter()
            .map(|&turn| &scene.sockets.turns[turn as usize]);
        let mut latest: Vec<(u64, u64)> = turns.map(|turn| (turn.read, turn.end)).collect();
        latest.sort_unstable();
        let mut end = 0;
        for turn in &mut latest {
            end = end.max(turn.1);
            turn.1 = end;
        }
        Self { latest }
    }

    fn holds(&self, one: &Loose) -> bool {
        let began = self.latest.partition_point(|&(read, _)| read <= one.asked);
        let ends = began.checked_sub(1).map(|last| self.latest[last].1);
        ends.is_some_and(|end| end >= one.read)
    }
}

/// How hidden time is shared out to upstream turns that belong to no turn in particular.
#[derive(Default)]
struct Shares {
    /// Rows that time goes to.
    slots: Vec<Row>,
    /// Times at which something changes.
    times: Vec<u64>,
    /// For each time and slot, the integral until then of the share of one hidden turn, ns.
    sums: Vec<f64>,
}

impl Shares {
    fn of(
        traced: &Traced,
        scene: &Scene<'_>,
        (target, helpers): (usize, &Helpers),
        turns: &[u32],
    ) -> Self {
        let within = Within::of(scene, turns);
        let loose = scene
            .sockets
            .loose
            .iter()
            .filter(|one| one.target == target);
        // What may belong to a request that is not followed cannot be held against those that are.
        let loose = loose.filter(|one| traced.one_in > 1 || within.holds(one));
        let loose: Vec<&Loose> = loose.collect();
        let shared = scene.sockets.shared.values();
        let shared = shared.filter(|connection| connection.is_shared());
        let shared = shared.flat_map(|connection| &connection.exchanges);
        let shared: Vec<&Loose> = shared.filter(|one| one.target == target).collect();
        if loose.is_empty() && shared.is_empty() && helpers.tids.is_empty() {
            return Self::default();
        }
        let mut by_peer: HashMap<u32, u64> = HashMap::new();
        for one in loose.iter().chain(&shared) {
            *by_peer.entry(one.peer).or_default() += one.read - one.asked;
        }
        let mut peers: Vec<(u64, u32)> = by_peer.into_iter().map(|(peer, ns)| (ns, peer)).collect();
        peers.sort_unstable_by(|a, b| b.cmp(a));
        let place_of = |peer: u32| peers.iter().position(|&(_, p)| p == peer);
        let last = MOST_SHARED_PEERS.min(peers.len()).saturating_sub(1);
        let mut slots = Vec::new();
        for &(_, peer) in peers.iter().take(last + 1) {
            let detail = scene.words.peers[peer as usize];
            slots.push(Row::with(Place::Upstream, detail));
            slots.push(Row::with(Place::UpstreamUnread, detail));
        }
        let open = Open {
            asked: slots.len(),
            sure: slots.len() + helpers.sure_rows,
            rows: slots.len() + helpers.rows.len(),
            pools: helpers.pools.iter().map(|pool| pool.size as i32).collect(),
            one_in: f64::from(traced.one_in),
        };
        slots.extend(&helpers.rows);
        slots.extend(helpers.pools.iter().map(|pool| pool.wait));
        // Edges: time, slot or one of the numbers behind them, change.
        let hidden = slots.len();
        let mut edges: Vec<(u64, usize, i32)> = Vec::new();
        let many = hidden + 1 + open.pools.len();
        let each = loose.into_iter().map(|one| (one, 0));
        for (one, from) in each.chain(shared.into_iter().map(|one| (one, many))) {
            let slot = from + 2 * place_of(one.peer).unwrap_or(last).min(last);
            edges.extend([(one.asked, slot, 1), (one.arrived, slot, -1)]);
            edges.extend([(one.arrived, slot + 1, 1), (one.read, slot + 1, -1)]);
        }
        for part in &helpers.parts {
            if let Some(row) = part.row {
                let slot = open.asked + row;
                edges.extend([(part.from, slot, 1), (part.to, slot, -1)]);
            }
            if part.sure {
                let busy = hidden + 1 + part.pool;
                edges.extend([(part.from, busy, 1), (part.to, busy, -1)]);
            }
        }
        for &turn in turns {
            scene.walk(turn, &mut |row, from, to| {
                if row.is_out_of_sight() {
                    edges.extend([(from, hidden, 1), (to, hidden, -1)]);
                }
            });
        }
        edges.sort_unstable();
        let width = slots.len();
        let mut shares = Self {
            slots,
            times: Vec::with_capacity(edges.len()),
            sums: Vec::with_capacity(edges.len() * width),
        };
        let mut counts = vec![0_i32; many + open.asked];
        let mut sums = vec![0.0; width];
        let mut last_at = edges.first().map_or(0, |edge| edge.0);
        for (at, slot, change) in edges {
            if at > last_at {
                if counts[hidden] > 0 {
                    let ns = (at - last_at) as f64 / f64::from(counts[hidden]);
                    open.share(&counts, ns, &mut sums);
                }
                shares.times.push(at);
                shares.sums.extend_from_slice(&sums);
                last_at = at;
            }
            counts[slot] += change;
        }
        shares
    }

    fn until(&self, at: u64, slot: usize) -> f64 {
        let width = self.slots.len();
        let after = self.times.partition_point(|&time| time < at);
        let sum = |index: usize| self.sums.get(index * width + slot).copied();
        match (after.checked_sub(1), self.times.get(after)) {
            (_, Some(&time)) if time == at => sum(after).unwrap_or(0.0),
            (Some(before), Some(&time)) => {
                let from = self.times[before];
                let share = (at - from) as f64 / (time - from).max(1) as f64;
                let (low, high) = (sum(before).unwrap_or(0.0), sum(after).unwrap_or(0.0));
                low + (high - low) * share
            }
            (Some(before), None) => sum(before).unwrap_or(0.0),
            (None, _) => 0.0,
        }
    }

    /// Hands a time on, shared out when it is hidden.
    fn split(&self, row: Row, from: u64, to: u64, give: &mut dyn FnMut(Row, u64)) {
        let mut rest = to - from;
        if !self.slots.is_empty() && row.is_out_of_sight() {
            for (index, slot) in self.slots.iter().enumerate() {
                let ns = self.until(to, index) - self.until(from, index);
                let ns = (ns.max(0.0) as u64).min(rest);
                rest -= ns;
                give(*slot, ns);
            }
        }
        give(row, rest);
    }
}

/// Who is open at a moment, by slots: upstream turns, helpers that are certainly at work, helpers that may be, and
/// waits for a free one by pool. Behind them are the numbers of hidden turns, of busy helpers by pool, and of exchanges
/// on connections that many requests share, by the slots of upstream turns.
struct Open {
    /// Ends of the slots of each kind.
    asked: usize,
    sure: usize,
    rows: usize,
    /// How many helpers there are by pool; 0 where they are never all busy.
    pools: Vec<i32>,
    one_in: f64,
}

impl Open {
    /// Shares the hidden turns of a moment out: `ns` for each of them.
    fn share(&self, counts: &[i32], ns: f64, sums: &mut [f64]) {
        let hidden = self.rows + self.pools.len();
        let mut left = f64::from(counts[hidden]);
        for slots in [0..self.asked, self.asked..self.sure, self.sure..self.rows] {
            let open: i32 = counts[slots.clone()].iter().sum();
            if open <= 0 {
                continue;
            }
            // Those of connections that are not followed are among them.
            let part = (f64::from(open) / self.one_in).min(left);
            for slot in slots {
                sums[slot] += ns * part * f64::from(counts[slot]) / f64::from(open);
            }
            left -= part;
        }
        let (busy, shared) = counts[hidden + 1..].split_at(self.pools.len());
        let open: i32 = shared.iter().sum();
        if open > 0 {
            for (sum, &shared) in sums.iter_mut().zip(shared) {
                *sum += ns * left * f64::from(shared) / f64::from(open);
            }
            return;
        }
        let full = |pool: &usize| self.pools[*pool] > 0 && busy[*pool] >= self.pools[*pool];
        let full: Vec<usize> = (0..self.pools.len()).filter(full).collect();
        for &pool in &full {
            sums[self.rows + pool] += ns * left / full.len() as f64;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_without_a_stack_have_that_of_enough_that_are_alike() {
        let row = |stack| Row {
            place: Place::Blocked,
            detail: 1,
            waker: 2,
            stack,
            thread: 0,
            told: None,
            met: crate::turns::told::Meetings::default(),
        };
        for (sampled, left) in [
            (&[(3, 8)][..], 0),
            (&[(3, 7)], 90),
            (&[(3, 8), (4, 8)], 90),
            (&[(3, 15), (4, 5)], 0),
        ] {
            let mut rows = HashMap::from([(row(None), (90, 90))]);
            rows.extend(sampled.iter().map(|&(stack, n)| (row(Some(stack)), (n, n))));
            name_by_sample(&mut rows);
            let rest = rows.get(&row(None)).map_or(0, |(_, ns)| *ns);
            assert_eq!(rest, left, "{sampled:?}");
        }
    }

    #[test]
    fn a_clock_of_which_a_tick_was_not_seen_is_a_clock() {
        for (gaps, expected, most) in [
            (&[1.0, 1.0, 1.0][..], 1.0, 0.0),
            (&[1.0, 1.02, 2.0], 1.0, 0.05),
            (&[2.0, 1.0, 1.0, 1.0, 1.0, 2.0], 1.0, 0.0),
        ] {
            let (period, spread) = period(gaps);
            assert!(
                (period - expected).abs() < 0.02 && spread <= most,
                "{gaps:?}: {period} {spread}"
            );
        }
        // Half of the ticks may not be missing, and what comes by chance is at no multiple.
        for gaps in [&[1.0, 2.0, 2.0][..], &[1.0, 1.4, 2.5], &[0.3, 1.0, 2.1]] {
            assert!(period(gaps).1 > 0.2, "{gaps:?}");
        }
    }
}
