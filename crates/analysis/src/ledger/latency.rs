//! What makes the latency: the mean time of a request over places, from the turns that were traced.
//!
//! Places of the server come from its turns; what the client saw beyond them is a row of its own, so that the account
//! adds up to the client's mean. A wait for a server on this host whose turns were traced too is divided by that
//! server's own account, however many servers stand behind each other.

use super::alike;
use super::cpu::{CpuRow, cpu_rows};
use super::forks;
use super::tasks::{TaskCase, TaskPart};
use super::told;
use super::types::{Account, Basis, Row};
use crate::diagnosis::work::{frames, works};
use record::{
    CONSUMER, Examination, Frame, Place, PlaceTime, PlaceTold, Profile, ProfileKind, Server, Stack,
    TargetTurns, ThreadTime, Told, TurnAccount, Turns,
};
use std::collections::BTreeMap;

/// Servers behind each other that are followed.
const DEEPEST: usize = 6;
/// Fewer samples than this do not say what ran.
const FEWEST_SAMPLES: u64 = 30;
/// What hidden time is called while the client still sends its request.
const REST_OF_REQUEST: &str = "rest of the request";
/// What it is called until somebody reads the request.
const NOT_READ: &str = "not yet read";
/// What it is called before an upstream is asked, which answers the request.
const BEFORE_ASKING: &str = "before an upstream is asked";
/// How a waker begins that is of no target.
const PROCESS: &str = "process ";
/// What stands around the one that had the CPU, at the place of a wait for one.
const WHILE: &str = "while ";
const RAN: &str = " ran";
/// Threads that have nothing to do for a larger share of their time are not what limits.
const MOSTLY_BUSY: f64 = 0.1;
/// Parts that stand for themselves, however small.
const APART: usize = 7;
/// A response that takes so much longer for the client than for the server waits on its way: for an acknowledgement, a
/// window or a far network.
pub(super) const LONG_WAY_NS: f64 = 10e6;
/// What a wait ends with that another client of a queue or broker ends.
pub(crate) const BRINGS: &str = "brings over a connection of its own";
/// A server on this host whose turns fill less of the waits for it is asked over connections that requests share.
const SHARED: f64 = 0.5;
/// The label of a wait that no stack tells more of.
const NO_ANSWER: &str = "got no answer at all";
const UNACCEPTED: &str = "stood in the listen queue at every look";
/// The thread of HotSpot that stops all others, and wakes them when it is done.
const JVM_STOPS: &str = "thread VM Thread";
pub(super) const LOCK_OR_CONDITION: &str = "waiting in a futex (a lock or a condition)";
/// How the label of a part begins in which what stops the thread in another request is waited for.
pub(super) const BEHIND: &str = "behind a request that is";
/// How the label of a part begins that ran on a CPU.
pub(super) const ON_CPU: &str = "on the CPU in ";
/// Where the rows of requests and of threads are from.
const SOURCE: &str =
    "turns: sk_data_ready, sock_recv_length, sock_send_length, sched_switch, sched_waking";
/// From this part of the turns on the wait of tasks for each other is one for whom they have asked.
const RELAYED: f64 = 0.5;
/// Fewer turns than this make no account.
const FEWEST: u64 = 20;

/// What a latency account is made of.
pub(super) struct LatencyCase<'a> {
    pub turns: &'a Turns,
    pub examination: &'a Examination,
    /// Connections to the server in front that stood in its listen queue at every look, the same or others.
    pub unaccepted: u32,
}

/// The mean of all, or of the slowest.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Which {
    All,
    Tail,
}

/// The time of a target's requests by whom they wait for, ns over all turns.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Service {
    pub turns: f64,
    /// Work, and waits that a request has when it is the only one there.
    pub alone_ns: f64,
    /// Of that, what follows the first part of the response.
    pub sending_ns: f64,
    /// Waiting for others: for a thread, a core, a lock, a connection of a pool, in a queue.
    pub queued_ns: f64,
    /// The client had not sent all of the request.
    pub client_ns: f64,
    /// Neither can be told.
    pub hidden_ns: f64,
    /// Of that, what is in the servers behind.
    pub hidden_behind_ns: f64,
}

impl Service {
    /// The same where the connections to the upstreams are never free: what is hidden in the server is their queue,
    /// and what is hidden behind it is the upstreams' own time, with as many at once as they are asked.
    pub(crate) fn behind_a_full_pool(self) -> Self {
        Self {
            alone_ns: self.alone_ns + self.hidden_behind_ns,
            queued_ns: self.queued_ns + self.hidden_ns - self.hidden_behind_ns,
            hidden_ns: 0.0,
            hidden_behind_ns: 0.0,
            ..self
        }
    }

    /// The same where each request asks an upstream that takes `asked_ns` of its time, whoever asks for it: a thread
    /// that waits for the one that does (Varnish) waits for no other request.
    pub(crate) fn asking_for(self, asked_ns: f64) -> Self {
        let asked_ns = asked_ns * self.turns - self.alone_ns - self.hidden_ns;
        let moved_ns = asked_ns.min(self.queued_ns).max(0.0);
        Self {
            alone_ns: self.alone_ns + moved_ns,
            queued_ns: self.queued_ns - moved_ns,
            ..self
        }
    }

    /// A wait of `ns` for a server whose own time is so divided.
    fn add_behind(&mut self, ns: f64, theirs: &Self) {
        let alone = theirs.alone_ns + theirs.sending_ns + theirs.client_ns;
        let whole = alone + theirs.queued_ns + theirs.hidden_ns;
        if whole <= 0.0 {
            self.alone_ns += ns;
            return;
        }
        self.alone_ns += ns * alone / whole;
        self.queued_ns += ns * theirs.queued_ns / whole;
        let hidden = ns * theirs.hidden_ns / whole;
        self.hidden_ns += hidden;
        self.hidden_behind_ns += hidden;
    }
}

/// Whom most turns ask as soon as they are read, to be answered with what comes from there: a client library whose one
/// reader hands answers on to those who wait (a message bus).
pub(crate) fn relayed(turns: &TargetTurns) -> Option<&str> {
    let most = turns.relayed.iter().max_by_key(|(_, turns)| **turns);
    let enough = |n: u64| n > 0 && n as f64 >= RELAYED * turns.account.turns as f64;
    most.filter(|(_, n)| enough(**n))
        .map(|(peer, _)| peer.as_str())
}

pub(super) fn total_ns(parts: &[Part]) -> f64 {
    parts.iter().map(|p| p.ns).sum()
}

/// Part of an account before it is cut to its largest rows.
#[derive(Clone, Debug)]
pub(super) struct Part {
    kind: String,
    label: String,
    place: String,
    own: bool,
    /// It ran on a CPU there.
    ran: bool,
    /// Target that is the server behind, that it is of; empty for the account's own.
    server: String,
    pub(super) ns: f64,
    /// The largest of what it was put together from, whose place stands for all.
    largest: f64,
    /// What it sums up, where these are shown as one.
    smaller: Vec<Part>,
}

impl Part {
    /// Time that no turn has.
    pub(super) fn outside(kind: &str, label: String, own: bool, ns: f64) -> Self {
        Self {
            kind: kind.to_owned(),
            label,
            place: String::new(),
            own,
            ran: false,
            server: String::new(),
            ns,
            largest: ns,
            smaller: Vec::new(),
        }
    }

    /// The row of it, of a `total` in ns.
    fn row(self, total: f64, error: &dyn Fn(f64) -> f64, concurrency: Option<f64>) -> Row {
        let share = self.ns / total;
        let smaller = self.smaller.into_iter();
        Row {
            kind: self.kind,
            label: self.label,
            share,
            share_error: error(share),
            place: self.place,
            source: SOURCE.to_owned(),
            requests: concurrency.map(|c| c * share),
            own_work: self.own,
            server: self.server,
            smaller: smaller.map(|p| p.row(total, error, concurrency)).collect(),
            ..Row::default()
        }
    }
}

impl<'a> LatencyCase<'a> {
    /// `None` where turns were not traced.
    pub(super) fn of(examination: &'a Examination) -> Option<Self> {
        let turns = examination.turns.as_ref()?;
        Some(Self {
            turns,
            examination,
            unaccepted: 0,
        })
    }
}

/// Of what threads do that are not idle, the part of work from which on the line before them waits for that work.
const MOSTLY_WORK: f64 = 0.8;
/// Threads that are busy for no longer together than one could be run in turn, as a runtime with one lock lets them.
const ONE_AT_A_TIME: f64 = 1.1;

/// Whether threads that a runtime runs one at a time do work whenever they do anything: more of them serve no more.
fn work_in_turn(time: &ThreadTime) -> bool {
    let of = |wanted: &[Place]| {
        let places = time.account.places.iter();
        let places = places.filter(|p| wanted.contains(&p.place));
        places.map(|p| p.total_ns).sum::<u64>() as f64
    };
    let whole = time.account.total_ns as f64;
    let busy = whole - of(&[Place::Idle]);
    let works = of(&[Place::OnCpu, Place::RunQueue, Place::WakeUp]);
    let one = ONE_AT_A_TIME * whole / time.threads.max(1) as f64;
    busy > 0.0 && busy <= one && works >= MOSTLY_WORK * busy
}

impl LatencyCase<'_> {
    /// The account of a target, or why there is none.
    pub(super) fn account(
        &self,
        target: &str,
        front: bool,
        which: Which,
    ) -> Result<Account, String> {
        let turns = self.turns_of(target).ok_or_else(|| {
            let gap = self.turns.unavailable.first();
            let why = gap.map_or("its turns were not traced", |g| g.reason.as_str());
            format!("latency of {target} by place: {why}")
        })?;
        let shared = self.sharing(turns).filter(|_| front);
        if let (Some(_), Which::Tail) = (shared, which) {
            return Err(format!(
                "the slowest 1 % at {target}: its requests share connections, whose turns are not theirs"
            ));
        }
        let account = match which {
            Which::All => &turns.account,
            Which::Tail => {
                let tail = turns.tail.as_ref().map(|t| &t.account);
                tail.ok_or_else(|| {
                    format!(
                        "the slowest 1 % at {target}: too few turns, {} were traced",
                        turns.account.turns
                    )
                })?
            }
        };
        if account.turns < FEWEST {
            let seen = account.turns;
            return Err(format!(
                "latency of {target} by place: only {seen} turns were traced"
            ));
        }
        let (mut parts, n) = match shared {
            Some(load) => self.shared_parts(turns, load),
            None => (self.parts(turns, account, which, 0), account.turns as f64),
        };
        let queue = |p: &&mut Part| p.kind == "listen_queue" && p.server.is_empty();
        if self.queues_by_chance(turns) {
            for part in parts.iter_mut().filter(queue) {
                part.own = true;
                part.label = "waiting to be accepted, as long as others are served".to_owned();
            }
        }
        let server_ns = total_ns(&parts);
        let client = self
            .turns
            .load
            .as_ref()
            .filter(|_| front && which == Which::All);
        let client_ns = client.and_then(|l| l.response.mean_ns());
        let beyond = client_ns
            .map(|ns| ns * n - server_ns)
            .filter(|ns| *ns > 0.0);
        // By the clock a request is due before a connection is free for it: it stands behind others, wherever they are.
        let unsent = client.and_then(|l| Some((l.response.mean_ns()? - l.service.mean_ns()?) * n));
        let unsent = unsent.unwrap_or(0.0).clamp(0.0, beyond.unwrap_or(0.0));
        if unsent > 0.0 {
            let label = "due and not sent: every connection of the load is at a request".to_owned();
            parts.push(Part::outside("unsent", label, true, unsent));
        }
        if let Some(ns) = beyond.map(|ns| ns - unsent).filter(|ns| *ns > 0.0) {
            let label = "the client and the path to it".to_owned();
            parts.push(Part::outside("client", label, ns / n < LONG_WAY_NS, ns));
        }
        match client {
            Some(load) => parts.extend(self.starved(load.connections.unanswered, NO_ANSWER)),
            None if front && which == Which::All => {
                // The turns that were traced stood there, too, until they were accepted.
                let traced = account.ns_at(|place| place == Place::ListenQueue);
                let traced = traced as f64 * self.one_in();
                let seen = (traced / self.turns.window_ns.max(1) as f64).round() as u32;
                parts.extend(self.starved(self.unaccepted.saturating_sub(seen), UNACCEPTED));
            }
            None => {}
        }
        let total = total_ns(&parts);
        let looks = account.threads.as_ref();
        let mut branches =
            looks.map_or_else(Vec::new, |looks| forks::branches(looks, &self.turns.told));
        for branch in &mut branches {
            branch.share *= server_ns / total;
        }
        let mean_ns = total / n;
        let sampled = match shared {
            // All of them were counted.
            Some(_) => 1.0,
            None => self.one_in(),
        };
        let window = self.turns.window_ns as f64;
        let concurrency = (window > 0.0 && which == Which::All).then(|| total * sampled / window);
        Ok(Account {
            target: target.to_owned(),
            of: match (which, client_ns) {
                (Which::Tail, _) => format!(
                    "the mean time of the slowest {} of {} requests in the server",
                    account.turns, turns.account.turns
                ),
                (Which::All, Some(_)) if client.is_some_and(|l| l.connections.unanswered > 0) => {
                    "the time of the requests that were sent, per answer".to_owned()
                }
                (Which::All, Some(_)) => "the mean response time".to_owned(),
                (Which::All, None) => "the mean time of a request in the server".to_owned(),
            },
            total: mean_ns / 1e3,
            unit: "us".to_owned(),
            requests: concurrency,
            rows: self.rows(parts, n, concurrency),
            basis: Basis::Requests,
            branches,
            asked: Vec::new(),
        })
    }

    /// Connections whose request nobody answered: by Little's law they stand there for all of the window, and no turn
    /// of theirs ends.
    fn starved(&self, connections: u32, how: &str) -> Option<Part> {
        let ns = f64::from(connections) * self.turns.window_ns as f64 / self.one_in();
        let of = crate::words::plural(u64::from(connections), "connection");
        let label = format!("requests on {of} that {how}");
        (connections > 0).then(|| Part::outside("unanswered", label, false, ns))
    }

    /// Parts of `n` turns as rows, largest first.
    fn rows(&self, parts: Vec<Part>, n: f64, concurrency: Option<f64>) -> Vec<Row> {
        let total = total_ns(&parts);
        let lost = self.lost_share();
        let error = |share: f64| 2.0 * (share * (1.0 - share) / n).sqrt() + lost;
        let rows = folded(self.copies_as_one(parts)).into_iter();
        let rows = rows.map(|p| p.row(total, &error, concurrency));
        let mut rows: Vec<Row> = rows.collect();
        rows.sort_by(|a, b| b.share.total_cmp(&a.share).then(a.label.cmp(&b.label)));
        rows
    }

    /// What copies of one program have in common as one part, where none of them stands out.
    fn copies_as_one(&self, mut parts: Vec<Part>) -> Vec<Part> {
        for alike in alike::groups(self.examination) {
            let mut groups: BTreeMap<(String, String, bool), Vec<Part>> = BTreeMap::new();
            let mut others = Vec::new();
            for part in parts {
                match alike.of_first(&part.label) {
                    Some(label) => {
                        let key = (label, part.kind.clone(), part.own);
                        groups.entry(key).or_default().push(part);
                    }
                    None => others.push(part),
                }
            }
            for ((label, ..), mut group) in groups {
                let ns: Vec<f64> = group.iter().map(|part| part.ns).collect();
                if group.len() < 2 || !alike::are_even(&ns) {
                    others.append(&mut group);
                    continue;
                }
                group.sort_by(|a, b| b.ns.total_cmp(&a.ns));
                let copies = group.len() - 1;
                let largest = group.swap_remove(0);
                others.push(Part {
                    label: alike.of_all(&label, copies),
                    ns: ns.iter().sum(),
                    server: match largest.server.as_str() {
                        "" => String::new(),
                        _ => alike.first().to_owned(),
                    },
                    ..largest
                });
            }
            parts = others;
        }
        parts
    }

    /// The time of the threads that serve, when they hardly ever had nothing to do: each is busy with one request at a
    /// time, on a CPU or not.
    pub(super) fn serving(&self, target: &str) -> Option<Account> {
        let turns = self.turns_of(target)?;
        let threads = turns.threads.as_ref()?;
        let at_rest = |p: &PlaceTime| self.told(p).is_some_and(told::is_at_rest);
        let idle: u64 = (threads.account.places.iter())
            .filter(|p| p.place == Place::Idle || at_rest(p))
            .map(|p| p.total_ns)
            .sum();
        let total = threads.account.total_ns;
        if turns.account.turns < FEWEST || idle as f64 > MOSTLY_BUSY * total as f64 {
            return None;
        }
        let parts = self.parts(turns, &threads.account, Which::All, 0);
        let of = match (threads.threads, threads.name.as_str()) {
            (1, "") => "the time of the thread that serves".to_owned(),
            (1, name) => format!("the time of thread {name}, which serves"),
            (n, _) => format!("the time of the {n} threads that serve"),
        };
        Some(Account {
            target: target.to_owned(),
            of: format!("{of}, working or waiting"),
            total: threads.threads as f64,
            unit: "threads".to_owned(),
            requests: None,
            rows: self.rows(parts, turns.account.turns as f64, None),
            basis: Basis::Threads,
            branches: Vec::new(),
            asked: Vec::new(),
        })
    }

    /// Requests that come by chance wait for those before them, however well they are served. On average no longer than
    /// busy / (1 - busy) times as long as one takes (M/M/1; Kleinrock 1975): a longer queue has a reason of its own.
    fn queues_by_chance(&self, turns: &TargetTurns) -> bool {
        let Some(threads) = &turns.threads else {
            return false;
        };
        let of = |places: &[PlaceTime], place: Place| -> f64 {
            let found = places.iter().filter(|p| p.place == place);
            found.map(|p| p.total_ns as f64).sum()
        };
        let total = threads.account.total_ns as f64;
        let idle = of(&threads.account.places, Place::Idle);
        let turned = turns.account.turns as f64 * self.one_in();
        if idle < MOSTLY_BUSY * total || turned == 0.0 {
            return false;
        }
        let served = (total - idle) / turned;
        let waited = of(&turns.account.places, Place::ListenQueue) / turns.account.turns as f64;
        waited <= (total - idle) / idle * served
    }

    /// How many turns stand behind each that was followed.
    pub(super) fn one_in(&self) -> f64 {
        f64::from(self.turns.sampled_one_in.max(1))
    }

    pub(super) fn turns_of(&self, target: &str) -> Option<&TargetTurns> {
        self.turns.targets.iter().find(|t| t.target == target)
    }

    fn lost_share(&self) -> f64 {
        let seen: u64 = self.turns.targets.iter().map(|t| t.account.turns).sum();
        let lost = self.turns.lost as f64;
        if lost == 0.0 {
            0.0
        } else {
            lost / (lost + seen as f64)
        }
    }

    /// The places of an account, with waits for servers that were traced divided by theirs.
    pub(super) fn parts(
        &self,
        turns: &TargetTurns,
        account: &TurnAccount,
        which: Which,
        depth: usize,
    ) -> Vec<Part> {
        let mut parts: BTreeMap<(String, String), Part> = BTreeMap::new();
        let mut add = |some: Vec<Part>| {
            for part in some {
                let key = (part.kind.clone(), part.label.clone());
                let entry = parts.entry(key).or_insert_with(|| Part {
                    ns: 0.0,
                    largest: 0.0,
                    smaller: Vec::new(),
                    ..part.clone()
                });
                entry.ns += part.ns;
                if part.ns > entry.largest {
                    entry.largest = part.ns;
                    entry.place = part.place;
                }
            }
        };
        let ran = self.ran(turns, account);
        let mut waits: BTreeMap<&str, f64> = BTreeMap::new();
        let told = self.of_tasks(turns, account);
        let in_line = told.as_ref().is_some_and(|(_, in_line)| *in_line);
        if let Some((parts, _)) = &told {
            add(parts.clone());
        }
        for place in &account.places {
            if told.is_some() && (is_hidden(place) || place.place == Place::Sending) {
                continue;
            }
            if place.place == Place::Upstream
                && depth < DEEPEST
                && self.traced_at(turns, &place.detail).is_some()
            {
                *waits.entry(&place.detail).or_default() += self.asked_ns(turns, place, in_line);
                continue;
            }
            let divided = ran.iter().find(|(of, _)| *of == place.place);
            let whole = self.of_place(turns, place);
            match divided {
                Some((_, rows)) => add(divide(turns, place, &whole, rows)),
                None => add(vec![whole]),
            }
        }
        for (address, ns) in waits {
            add(self.behind(turns, address, ns, (which, depth), in_line));
        }
        parts.into_values().collect()
    }

    /// Shares of the time of a target's requests by kind of what its tasks did.
    pub(super) fn task_shares(&self, target: &str) -> Option<BTreeMap<String, f64>> {
        let turns = self.turns_of(target)?;
        let (parts, _) = self.of_tasks(turns, &turns.account)?;
        let total_ns = turns.account.total_ns.max(1) as f64;
        let mut shares = BTreeMap::new();
        for part in parts {
            *shares.entry(part.kind).or_default() += part.ns / total_ns;
        }
        Some(shares)
    }

    /// Of the time of a target's requests, what would be there for one that came alone, and what is waiting for
    /// others. Waits for a server that was traced too are divided as that server's own time is.
    pub(super) fn service(&self, target: &str) -> Option<Service> {
        let turns = self.turns_of(target)?;
        let told = turns.account.turns >= FEWEST && self.sharing(turns).is_none();
        told.then(|| self.service_of(turns, 0))
    }

    fn service_of(&self, turns: &TargetTurns, depth: usize) -> Service {
        let mut service = Service {
            turns: turns.account.turns as f64,
            ..Service::default()
        };
        let told = self.of_tasks(turns, &turns.account);
        let in_line = told.as_ref().is_some_and(|(_, in_line)| *in_line);
        for part in told.iter().flat_map(|(parts, _)| parts) {
            match part.kind.as_str() {
                "lock" | "run_queue" | "pool" | "limiter" => service.queued_ns += part.ns,
                "sending" => service.sending_ns += part.ns,
                "hidden" | "channel" | "condition" => service.hidden_ns += part.ns,
                _ => service.alone_ns += part.ns,
            }
        }
        for place in &turns.account.places {
            let ns = place.total_ns as f64;
            match place.place {
                _ if told.is_some() && (is_hidden(place) || place.place == Place::Sending) => {}
                Place::Hidden if place.detail == REST_OF_REQUEST => service.client_ns += ns,
                // No timer ends it, and nobody else is asked: it waits until others are done with the upstream.
                Place::Hidden if place.detail == BEFORE_ASKING && place.waker != "timer" => {
                    service.queued_ns += ns;
                }
                Place::Hidden if is_hidden(place) && place.waker != "timer" => {
                    service.hidden_ns += ns;
                }
                Place::Hidden if place.detail == NOT_READ => service.queued_ns += ns,
                Place::ListenQueue
                | Place::Starting
                | Place::ReadPaused
                | Place::RunQueue
                | Place::OtherTurns
                | Place::OthersBlocked
                | Place::NoFreeThread
                | Place::UpstreamUnread
                | Place::Loop => service.queued_ns += ns,
                Place::Blocked if matches!(self.wait(place).0, "lock" | "pool" | "limiter") => {
                    service.queued_ns += ns;
                }
                Place::Upstream => match self.traced_at(turns, &place.detail) {
                    Some((_, theirs)) if depth < DEEPEST => {
                        let asked_ns = self.asked_ns(turns, place, in_line);
                        service.add_behind(asked_ns, &self.service_of(theirs, depth + 1));
                    }
                    _ => service.alone_ns += ns,
                },
                Place::Sending => service.sending_ns += ns,
                Place::WakeUp | Place::OnCpu | Place::Blocked | Place::Hidden | Place::Idle => {
                    service.alone_ns += ns;
                }
            }
        }
        service
    }

    /// The part of the waits for a server on this host that its own turns fill, 0 to 1. They may serve others as well.
    fn filled(&self, turns: &TargetTurns, address: &str) -> Option<f64> {
        let (_, theirs) = self.traced_at(turns, address)?;
        let places = turns.account.places.iter();
        let waited = places.filter(|p| p.place == Place::Upstream && p.detail == address);
        let waited: u64 = waited.map(|p| p.total_ns).sum();
        Some((theirs.account.total_ns as f64 / waited.max(1) as f64).min(1.0))
    }

    /// What a place has of a wait for a server on this host that was over before or after it was that server's turn:
    /// where requests share a connection (HTTP/2, gRPC), they are in line for it, in the process of the one that asks.
    fn in_line_ns(&self, turns: &TargetTurns, place: &PlaceTime) -> f64 {
        let upstream = place.place == Place::Upstream;
        let filled = (upstream.then(|| self.filled(turns, &place.detail))).flatten();
        let short = filled.filter(|filled| *filled < SHARED);
        short.map_or(0.0, |filled| place.total_ns as f64 * (1.0 - filled))
    }

    /// What is left of a wait for a server: without the time in line for it, where the tasks have told that.
    fn asked_ns(&self, turns: &TargetTurns, place: &PlaceTime, in_line: bool) -> f64 {
        let told = in_line.then(|| self.in_line_ns(turns, place));
        place.total_ns as f64 - told.unwrap_or(0.0)
    }

    /// Hidden time by what the tasks of the runtime were seen to do, and whether that holds the time in line for
    /// connections that requests share.
    fn of_tasks(&self, turns: &TargetTurns, account: &TurnAccount) -> Option<(Vec<Part>, bool)> {
        let samples = account.tasks.as_ref()?;
        let sum = |of: &dyn Fn(&PlaceTime) -> f64| account.places.iter().map(of).sum::<f64>();
        let time =
            |place: &PlaceTime, counts: bool| if counts { place.total_ns as f64 } else { 0.0 };
        let program = super::rate::program(Some(self.examination), &turns.target);
        let case = TaskCase {
            target: &turns.target,
            program: &program,
            samples,
            account,
            one_in: self.turns.sampled_one_in,
            traced_ns: self.turns.traced_ns.max(self.turns.window_ns) as f64,
            tasks: self.profile(ProfileKind::Tasks)?,
            on_cpu: self.profile(ProfileKind::OnCpu),
        };
        let (parts, in_line) = case.divide(
            sum(&|place| time(place, is_hidden(place))),
            sum(&|place| self.in_line_ns(turns, place)),
            sum(&|place| time(place, place.place == Place::Sending)),
        )?;
        let relayed = relayed(turns).map(|peer| self.peer(peer));
        let of = |part: &TaskPart| match (part.kind.as_str(), &relayed) {
            ("channel" | "condition", Some(peer)) => {
                let label = format!("waiting for what another goroutine brings of {peer}");
                ("upstream".to_owned(), format!("{label}, {}", part.label))
            }
            _ => (part.kind.clone(), part.label.clone()),
        };
        let parts = parts.into_iter().map(|part| (of(&part), part));
        let parts = parts.map(|((kind, label), part)| Part {
            kind,
            label,
            place: part.place,
            own: part.own,
            ran: part.ran,
            server: String::new(),
            ns: part.ns,
            largest: part.ns,
            smaller: Vec::new(),
        });
        Some((parts.collect(), in_line))
    }

    /// What ran in the places where a thread ran, by the samples that fell there.
    fn ran(&self, turns: &TargetTurns, account: &TurnAccount) -> Vec<(Place, Vec<CpuRow>)> {
        let Some(profile) = self.profile(ProfileKind::OnCpu) else {
            return Vec::new();
        };
        let program = super::rate::program(Some(self.examination), &turns.target);
        let of = |place: Place| {
            let stacks: Vec<(&Stack, u64)> = sampled(profile, account, place).collect();
            let seen = stacks.iter().map(|(_, n)| n).sum::<u64>() >= FEWEST_SAMPLES;
            let told = account.cpu_told.iter().filter(|t| t.place == place);
            let told: Vec<&PlaceTold> = told.collect();
            let rows = || cpu_rows(profile, &stacks, &program);
            seen.then(|| (place, told::divided(rows(), &told, &self.turns.told)))
        };
        let places = [
            Place::OnCpu,
            Place::OtherTurns,
            Place::Loop,
            Place::UpstreamUnread,
        ];
        places.into_iter().filter_map(of).collect()
    }

    fn of_place(&self, turns: &TargetTurns, place: &PlaceTime) -> Part {
        let ns = place.total_ns as f64;
        let (kind, mut label, own) = self.words(turns, place);
        match place.helper.as_str() {
            "" => {}
            thread if thread.starts_with("thread ") => {
                label = format!("waiting for {thread}, which is {label}");
            }
            _ if place.place == Place::NoFreeThread => {}
            helper => {
                let kind = self.kind_of_helper(turns, helper);
                label.push_str(&format!(", in the {kind} {helper}"));
            }
        }
        Part {
            kind: kind.to_owned(),
            label,
            place: match place.place {
                Place::RunQueue if !place.detail.is_empty() => {
                    format!("{WHILE}{}{RAN}", place.detail)
                }
                _ => self.stack_of(place).unwrap_or_default(),
            },
            own,
            ran: place.place == Place::OnCpu,
            server: String::new(),
            ns,
            largest: ns,
            smaller: Vec::new(),
        }
    }

    /// The server at an address with its turns, where these were traced and it is another one.
    pub(super) fn traced_at(
        &self,
        turns: &TargetTurns,
        address: &str,
    ) -> Option<(&Server, &TargetTurns)> {
        let server = self.server_at(address)?;
        let theirs = self.turns_of(&server.target)?;
        let other = server.target != turns.target && theirs.account.total_ns > 0;
        other.then_some((server, theirs))
    }

    /// `ns` of waiting for a server that was traced: its own places, as far as they fill the wait.
    pub(super) fn behind(
        &self,
        turns: &TargetTurns,
        address: &str,
        ns: f64,
        (which, depth): (Which, usize),
        in_line: bool,
    ) -> Vec<Part> {
        let Some((server, theirs)) = self.traced_at(turns, address) else {
            return Vec::new();
        };
        let inner = match (which, &theirs.tail) {
            (Which::Tail, Some(tail)) => &tail.account,
            _ => &theirs.account,
        };
        let mut parts = self.parts(theirs, inner, which, depth + 1);
        let whole = total_ns(&parts);
        // Its turns may serve others as well, and waits may overlap: only the shares are taken, up to what its time
        // is of the time that was waited for it.
        let filled = match self.filled(turns, address) {
            // The rest was told by the tasks that stand in line.
            Some(filled) if filled >= SHARED || !in_line => filled,
            _ => 1.0,
        };
        for part in &mut parts {
            part.ns *= ns * filled / whole;
            if !part.server.is_empty() {
                continue;
            }
            part.server.clone_from(&server.target);
            if !part.label.starts_with(ON_CPU) {
                part.label = format!("in {}: {}", named(server), part.label);
            }
        }
        if filled < 1.0 {
            parts.push(Part {
                kind: "path".to_owned(),
                label: way_from(&turns.target) + &named(server),
                place: address.to_owned(),
                own: false,
                ran: false,
                server: server.target.clone(),
                ns: ns * (1.0 - filled),
                largest: 0.0,
                smaller: Vec::new(),
            });
        }
        parts
    }

    /// The server on this host that listens at an address.
    /// What a process of a target is that talks to no client of it.
    fn kind_of_helper(&self, turns: &TargetTurns, name: &str) -> &'static str {
        let mut servers = self.examination.servers.iter();
        let own = servers.find(|server| server.target == turns.target);
        let mut processes = own.into_iter().flat_map(|server| &server.processes);
        match processes.any(|process| process.role == CONSUMER && process.name == name) {
            true => "consumer",
            false => "helper process",
        }
    }

    fn server_at(&self, address: &str) -> Option<&Server> {
        let servers = &self.examination.servers;
        if let Some(target) = self.examination.target_at(address) {
            return servers.iter().find(|s| s.target == target);
        }
        let port = address.rsplit_once(':')?.1;
        let listens = |s: &&Server| {
            let mut own = s.listens.iter();
            own.any(|l| l == address || l.rsplit_once(':').is_some_and(|(_, p)| p == port))
        };
        servers.iter().find(listens)
    }

    /// Kind, words, and whether it is the server's own work.
    fn words(&self, turns: &TargetTurns, place: &PlaceTime) -> (&'static str, String, bool) {
        let woken = match place.waker.as_str() {
            // A device is done by whichever interrupt or thread of the kernel comes by.
            _ if matches!(place.detail.as_str(), "disk" | "sync" | "page") => String::new(),
            "" => String::new(),
            "timer" if place.detail == "futex" => String::new(),
            // What a runtime told says it better, of its own threads.
            waker if place.told.is_some() && !waker.starts_with(PROCESS) => String::new(),
            waker => format!(", woken by {}", any_of_pool(waker)),
        };
        let detail = place.detail.as_str();
        match place.place {
            Place::ListenQueue => ("listen_queue", "waiting to be accepted".to_owned(), false),
            Place::Starting => (
                "starting",
                "waiting to be accepted, while more processes are started".to_owned(),
                true,
            ),
            Place::ReadPaused => (
                "read_paused",
                "there, and not asked for: the server takes no more at a time".to_owned(),
                false,
            ),
            Place::WakeUp => ("wake_up", "waking the thread that reads".to_owned(), true),
            Place::RunQueue => ("run_queue", "waiting for a CPU".to_owned(), true),
            Place::OtherTurns => (
                "other_turns",
                "waiting while the worker serves other requests".to_owned(),
                true,
            ),
            Place::OthersBlocked => {
                let (kind, words) = self.wait(place);
                let kind = if kind == "idle" {
                    "others_blocked"
                } else {
                    kind
                };
                (kind, format!("{BEHIND} {words}"), false)
            }
            Place::Loop if detail.is_empty() => (
                "loop",
                "the worker runs outside of requests".to_owned(),
                true,
            ),
            Place::Loop => {
                let (kind, words) = self.wait(place);
                let words = format!("the worker is {words}{woken}, outside of requests");
                (kind, words, false)
            }
            Place::Idle => ("idle", "nothing was there to do".to_owned(), true),
            Place::NoFreeThread => (
                "no_free_thread",
                match place.helper.as_str() {
                    "" => "waiting for a free thread".to_owned(),
                    helper => {
                        let kind = self.kind_of_helper(turns, helper);
                        format!("waiting for a free {kind} ({helper})")
                    }
                },
                place.helper.is_empty() && turns.threads.as_ref().is_some_and(work_in_turn),
            ),
            Place::OnCpu => ("on_cpu", format!("{ON_CPU}{}", turns.target), true),
            Place::Blocked => {
                let (kind, words) = self.wait(place);
                (kind, format!("{words}{woken}"), false)
            }
            Place::Upstream if detail.starts_with("udp") => {
                let of = detail.strip_prefix("udp ").unwrap_or("an unknown peer");
                let look_up = if is_name_server(of) {
                    " (name look-up)"
                } else {
                    ""
                };
                let words = format!("waiting for a UDP answer{look_up} of {of}");
                ("dns", words, false)
            }
            Place::Upstream => (
                "upstream",
                format!("waiting for {}", self.peer(detail)),
                false,
            ),
            Place::UpstreamUnread => (
                "upstream_unread",
                format!("answer of {} there, not yet read", self.peer(detail)),
                true,
            ),
            Place::Sending => (
                "sending",
                "sending, until the client takes more".to_owned(),
                false,
            ),
            Place::Hidden if detail == NOT_READ => (
                "other_turns",
                "not yet read, while the process is at other requests".to_owned(),
                true,
            ),
            Place::Hidden if place.waker == "timer" => (
                "sleep",
                "inside the process, until a timer".to_owned(),
                false,
            ),
            Place::Hidden if place.waker.starts_with(PROCESS) => (
                "upstream",
                format!("waiting for what {} {BRINGS}", place.waker),
                false,
            ),
            Place::Hidden if detail == REST_OF_REQUEST => (
                "receiving",
                "waiting for the rest of the request".to_owned(),
                true,
            ),
            Place::Hidden => {
                let what = match detail {
                    "" => "on no thread that was seen",
                    detail => detail,
                };
                ("hidden", format!("inside the process, {what}"), false)
            }
        }
    }

    /// The kind of a blocked thread's wait and its words; a futex is what its stack says.
    fn wait(&self, place: &PlaceTime) -> (&'static str, String) {
        if let Some((kind, words)) = self.told(place).and_then(told::wait) {
            // What a runtime tells ends at the door of a library.
            if kind == "sleep" && self.tries_a_lock(place) {
                return ("lock", words.replacen("asleep", told::UNTIL_TRIED, 1));
            }
            return (kind, words);
        }
        if self.tries_a_lock(place) {
            return ("lock", told::UNTIL_TRIED.to_owned());
        }
        let of = |kind: &str| {
            let (profile, stack) = self.stopped_at(place)?;
            works().is(profile, stack, kind).then_some(())
        };
        match place.detail.as_str() {
            _ if self.at_limiter(place) => (told::LIMITER, told::AT_LIMITER.to_owned()),
            _ if self.in_pool(place) => {
                ("pool", "waiting for a free connection of a pool".to_owned())
            }
            "futex" if of("sleep_wait").is_some() => ("sleep", "asleep".to_owned()),
            "futex" if of("lock_wait").is_some() => ("lock", "waiting for a lock".to_owned()),
            "futex" if place.waker == JVM_STOPS => (
                "stopped",
                "standing still with the whole JVM (a safepoint, mostly a collection)".to_owned(),
            ),
            // Whoever gives a lock back wakes the next: what a timer ends nobody held.
            "futex" if place.waker == "timer" => (
                "sleep",
                "waiting for a condition until a timer, signalled by nobody".to_owned(),
            ),
            "futex" => ("lock", LOCK_OR_CONDITION.to_owned()),
            "flock" => ("lock", "waiting for a file lock".to_owned()),
            "semaphore" => ("lock", "waiting for a semaphore of System V".to_owned()),
            "sleep" => ("sleep", "asleep until a timer".to_owned()),
            "disk" => ("disk", "waiting for the disk".to_owned()),
            "file" => ("disk", "waiting for a file".to_owned()),
            "page" => ("disk", "waiting for a page of memory".to_owned()),
            "sync" => (
                "sync",
                "waiting until data is on the disk (sync)".to_owned(),
            ),
            "pipe" => ("pipe", "waiting for what comes through a pipe".to_owned()),
            "pipe_write" => ("pipe", "waiting until a full pipe is read".to_owned()),
            "unix" => ("unix", "waiting for a Unix socket".to_owned()),
            "udp" => ("dns", "waiting for a UDP answer (name look-up)".to_owned()),
            "child" => ("child", "waiting for a child process".to_owned()),
            "send" => ("sending", "sending, until the peer takes more".to_owned()),
            // Processes of a database stand behind each other so, for a row or a page.
            "signalled" => (
                "lock",
                "waiting until another request of the server lets go (a lock or a queue)"
                    .to_owned(),
            ),
            "poll" => ("idle", "waiting for events".to_owned()),
            other if let Some(peer) = other.strip_prefix("upstream ") => {
                ("upstream", format!("waiting for {}", self.peer(peer)))
            }
            other => (
                "other",
                format!(
                    "blocked ({})",
                    if other.is_empty() { "unknown" } else { other }
                ),
            ),
        }
    }

    /// Whether it waits for a free connection of a pool, by the functions of a runtime or of a library.
    pub(super) fn in_pool(&self, place: &PlaceTime) -> bool {
        if let Some(told) = self.told(place) {
            return told::is_in_pool(told);
        }
        waits_for_another(place) && told::are_of_pool(&self.functions_of(place).unwrap_or_default())
    }

    /// Whether a limiter of a rate holds it back, by the functions of a runtime or of a library.
    pub(super) fn at_limiter(&self, place: &PlaceTime) -> bool {
        if let Some(told) = self.told(place) {
            return told::is_at_limiter(told);
        }
        let waits = place.detail == "poll" || waits_for_another(place);
        waits && told::are_at_limiter(&self.functions_of(place).unwrap_or_default())
    }

    /// Whether it sleeps until it tries a lock again.
    pub(super) fn tries_a_lock(&self, place: &PlaceTime) -> bool {
        // Some runtimes tell what they are in, and the kernel that they sleep there.
        let asleep = place.detail == "sleep";
        let tries =
            |told: &Told| told::tries_a_lock(told) || (asleep && told::is_near_a_lock(told));
        self.told(place).is_some_and(tries) || asleep && self.sleeps_before_a_lock(place)
    }

    /// Whether whoever sleeps in its process does so in functions of a library that take a lock, mostly: a database's
    /// file that another one writes.
    fn sleeps_before_a_lock(&self, place: &PlaceTime) -> bool {
        let in_one = |account: &TurnAccount| account.places.contains(place);
        let owner = self.turns.targets.iter().find(|t| {
            let tail = t.tail.as_ref().map(|tail| &tail.account);
            let threads = t.threads.as_ref().map(|threads| &threads.account);
            let mut accounts = [Some(&t.account), tail, threads].into_iter().flatten();
            accounts.any(in_one)
        });
        let Some((owner, profile)) = owner.zip(self.profile(ProfileKind::OffCpu)) else {
            return false;
        };
        let (mut asleep, mut before_lock) = (0, 0);
        for stack in profile.stacks.iter().filter(|s| s.target == owner.target) {
            let all = frames(profile, stack);
            if !all
                .iter()
                .any(|f| f.kernel && f.symbol.contains("nanosleep"))
            {
                continue;
            }
            let users = all.iter().rev().filter(|f| !f.kernel);
            let names = users.map(|f| super::cpu::short(&f.symbol));
            let names: Vec<&str> = names.filter(|name| !name.ends_with("sleep")).collect();
            asleep += stack.weight;
            before_lock += stack.weight * u64::from(told::are_near_a_lock(&names));
        }
        before_lock * 2 > asleep
    }

    /// Whether the lock that it sleeps before is one on a file or of a session, by the functions that take it.
    pub(super) fn tries_a_file(&self, place: &PlaceTime) -> bool {
        self.tries_a_lock(place) && self.told(place).is_some_and(told::is_near_a_file)
    }

    /// Whether it waits for a lock that only one holds, by the functions of its runtime or of its library.
    pub(super) fn at_mutex(&self, place: &PlaceTime) -> bool {
        let is_mutex = |name: &&str| told::MUTEXES.iter().any(|part| name.contains(part));
        let in_mutex = |names: Vec<&str>| names.iter().any(is_mutex);
        place.detail == "futex" && self.functions_of(place).is_some_and(in_mutex)
    }

    /// The functions of programs and libraries in which a thread waited, the innermost first.
    fn functions_of(&self, place: &PlaceTime) -> Option<Vec<&str>> {
        let (profile, stack) = self.stopped_at(place)?;
        let all = frames(profile, stack).into_iter().rev();
        let users = all.filter(|f| !f.kernel);
        Some(users.map(|f| super::cpu::short(&f.symbol)).collect())
    }

    /// The stack with which a thread went off the CPU, and the profile that has it.
    fn stopped_at(&self, place: &PlaceTime) -> Option<(&Profile, &Stack)> {
        let profile = self.profile(ProfileKind::OffCpu)?;
        Some((profile, profile.stacks.get(place.stack? as usize)?))
    }

    fn told(&self, place: &PlaceTime) -> Option<&Told> {
        self.turns.told.get(place.told? as usize)
    }

    /// An address, with the program that listens there.
    pub(super) fn peer(&self, address: &str) -> String {
        match self.server_at(address) {
            Some(server) => format!("{address} ({})", named(server)),
            None if address.is_empty() => "an upstream".to_owned(),
            None => address.to_owned(),
        }
    }

    /// The last profile of a kind: that of the turn trace.
    fn profile(&self, kind: ProfileKind) -> Option<&Profile> {
        let mut profiles = self.examination.profiles.iter().rev();
        profiles.find(|p| p.kind == kind)
    }

    /// Where a thread waited: the innermost function of the program or a library, with its callers.
    fn stack_of(&self, place: &PlaceTime) -> Option<String> {
        if let Some(told) = self.told(place) {
            return Some(told::place(told, &place.waker));
        }
        let (profile, stack) = self.stopped_at(place)?;
        let all = frames(profile, stack);
        let users: Vec<&&Frame> = all.iter().filter(|f| !f.kernel).collect();
        let own = users
            .iter()
            .rev()
            .filter(|f| !super::cpu::is_helper(&f.module));
        let names: Vec<&str> = own.take(3).map(|f| super::cpu::short(&f.symbol)).collect();
        let module = users.last().map(|f| f.module.as_str());
        (!names.is_empty())
            .then(|| names.join(" < "))
            .or(module.map(str::to_owned))
    }
}

/// Who wakes others, without the number by which the threads of a pool differ.
pub(super) fn any_of_pool(waker: &str) -> String {
    let name = waker.strip_prefix("thread ").unwrap_or_default();
    let bare = name.trim_end_matches(|c: char| c.is_ascii_digit());
    if bare == name {
        return waker.to_owned();
    }
    match bare.trim_end_matches([' ', '-', '_', '#', ':', '/', '.']) {
        "" => waker.to_owned(),
        of => format!("a thread {of}"),
    }
}

/// Ports on which name servers answer: plain, over TLS, and on the own network.
const NAME_SERVERS: [&str; 3] = ["53", "853", "5353"];

/// Whether datagrams for an address (`10.0.0.2:53`) are look-ups of names, by its port; so is what has none.
pub(crate) fn is_name_server(address: &str) -> bool {
    let port = address.rsplit_once(':').map(|(_, port)| port);
    port.is_none_or(|port| NAME_SERVERS.contains(&port))
}

/// In the process, and nothing is known of it but that.
fn waits_for_another(place: &PlaceTime) -> bool {
    matches!(place.detail.as_str(), "futex" | "sleep" | "signalled")
}

fn is_hidden(place: &PlaceTime) -> bool {
    place.place == Place::Hidden && matches!(place.detail.as_str(), "" | BEFORE_ASKING)
}

/// Small parts of one server become one, so that its whole share stays told.
fn folded(mut parts: Vec<Part>) -> Vec<Part> {
    parts.sort_by(|a, b| b.ns.total_cmp(&a.ns).then(a.label.cmp(&b.label)));
    let small = parts.split_off(parts.len().min(APART));
    let mut groups: BTreeMap<(String, bool), Vec<Part>> = BTreeMap::new();
    for part in small {
        // What the account's own server did off the CPU has a name each.
        let key = (part.server.clone(), part.ran && part.server.is_empty());
        groups.entry(key).or_default().push(part);
    }
    for ((server, ran), mut group) in groups {
        if group.len() < 2 || server.is_empty() && !ran {
            parts.append(&mut group);
            continue;
        }
        let first = &group[0];
        let of = if ran {
            first
                .label
                .split(": ")
                .next()
                .unwrap_or_default()
                .to_owned()
        } else {
            let said = group.iter().filter(|p| p.label.starts_with("in "));
            let said = said.filter_map(|p| p.label.split(": ").next()).next();
            said.map_or_else(|| format!("in {server}"), str::to_owned)
        };
        parts.push(Part {
            kind: if ran { "on_cpu" } else { "rest" }.to_owned(),
            label: format!(
                "{of}: {}",
                crate::words::plural(group.len() as u64, "smaller row")
            ),
            place: String::new(),
            own: true,
            ran,
            ns: total_ns(&group),
            largest: first.ns,
            server,
            smaller: group,
        });
    }
    parts
}

/// A place where a thread ran, by what ran there. A queue behind other requests stays one row that says what of.
fn divide(turns: &TargetTurns, place: &PlaceTime, whole: &Part, rows: &[CpuRow]) -> Vec<Part> {
    if place.place != Place::OnCpu {
        return vec![Part {
            place: mostly(rows),
            ..whole.clone()
        }];
    }
    let all: u64 = rows.iter().map(|r| r.samples).sum();
    let parts = rows.iter().map(|r| {
        let ns = whole.ns * r.samples as f64 / all as f64;
        Part {
            kind: r.kind.clone(),
            label: format!("{ON_CPU}{}: {}", turns.target, r.label),
            place: r.place.clone(),
            own: r.own,
            ran: true,
            server: String::new(),
            ns,
            largest: ns,
            smaller: Vec::new(),
        }
    });
    parts.collect()
}

/// Samples of an on-CPU profile that fell on a place of an account's turns.
pub(super) fn sampled<'p>(
    profile: &'p Profile,
    account: &'p TurnAccount,
    place: Place,
) -> impl Iterator<Item = (&'p Stack, u64)> {
    let samples = account.cpu_samples.iter().filter(move |s| s.place == place);
    samples.filter_map(|s| Some((profile.stacks.get(s.stack as usize)?, s.samples)))
}

/// What ran while something waited: `mostly garbage collection 40 %, ...; the first at ...`.
pub(super) fn mostly(rows: &[CpuRow]) -> String {
    let all: u64 = rows.iter().map(|r| r.samples).sum();
    let largest = rows.iter().take(3).map(|r| {
        let share = r.samples as f64 / all as f64;
        format!("{} {}", r.label, crate::words::percent(share))
    });
    let largest: Vec<String> = largest.collect();
    // A kind of work is found by its function.
    let first = rows.first().map(|r| r.place.as_str());
    let at = first.filter(|place| !place.is_empty());
    format!("mostly {}", largest.join(", "))
        + &at.map_or(String::new(), |place| format!("; the first at {place}"))
}

/// The program of another that had the CPU at the place of a wait for one.
pub(crate) fn process_that_ran(place: &str) -> Option<&str> {
    let who = place.strip_prefix(WHILE)?.strip_suffix(RAN)?;
    who.strip_prefix(PROCESS)
}

/// How the label of the part begins that is on the way from a server to one behind it.
pub(super) fn way_from(target: &str) -> String {
    format!("between {target} and ")
}

/// What a server is and the target's name: `postgres upstream-5432`, of no known kind by its program.
pub(super) fn named(server: &Server) -> String {
    let program = server.exe.rsplit('/').next().unwrap_or_default();
    let kind = match server.kind.as_str() {
        "" | "generic" => program,
        kind => kind,
    };
    format!("{kind} {}", server.target).trim_start().to_owned()
}
