//! What of the waiting for upstreams is the upstreams' own.
//!
//! A turn lasts from the last write to the read that brings the answer, and the surprise is whose time that is: an
//! answer that has arrived lies in the socket until the target's worker comes to it. A full proxy so makes every
//! upstream look slow. Two things tell: when the data arrived, where that was seen, and a single client, for whom
//! nothing queues: an upstream cannot take longer to answer it than it waits for its first byte.

use super::{Material, Sheet};
use crate::diagnosis::station::cpu_wanted_by_itself;
use record::{Place, TargetTurns, Turns};

const SOURCE: &str = "signature: upstream turns, and the load of a single client";
const PATH: &str = "sock_diag: shortest round trip x (turns + connects)";
const LITTLE: &str = "rate x time of the turns (Little's law) / established connections";
const AT_ONCE: &str = "signature: upstream turns, and turns: sockets and threads, traced";
const PEERS: &str = "the peers' own facts";
const TURNS: &str = "turns: sockets and threads, traced";
/// A worker that runs or waits for a CPU for this share of the time: what waits for it proves nothing about others.
const FULL: f64 = 0.85;
/// The same for all cores of a target together.
const CORES_FULL: f64 = 0.95;
/// What requests wait for this part of their time and less is none of their upstreams.
const HARDLY: f64 = 0.02;
/// Processes for each request from which on a peer's page faults are those of new processes.
const FORKS: f64 = 0.3;

pub(super) fn extract(material: &Material<'_>, sheet: &mut Sheet<'_>) {
    answers(material, sheet);
    own_part(material, sheet);
    asking_calls(sheet);
    whole_turns(material, sheet);
    peers(material, sheet);
}

/// Responses of its own for each request of the load: a server behind may be asked often for one.
fn answers(material: &Material<'_>, sheet: &mut Sheet<'_>) {
    let name = "server.answers_per_request";
    if sheet.value("server.is_front") == Some(1.0) {
        sheet.known(name, 1.0, "record");
        return;
    }
    let taken = material.signature(&sheet.target);
    let taken = taken.and_then(|s| s.requests_taken).map(|n| n as f64);
    let reason = material.reason(&["signature"], "its requests were not counted");
    let requests = material.signature_requests();
    sheet.divided(
        name,
        taken,
        requests,
        "signature: turns of its clients",
        &reason,
    );
}

/// The part of its CPU time that goes into asking upstreams, as if one system call took as long as another.
fn asking_calls(sheet: &mut Sheet<'_>) {
    let calls = [
        "read.upstream.useful_per_request",
        "read.upstream.eagain_per_request",
        "write.upstream.per_request",
    ];
    let calls: Option<f64> = calls.iter().map(|name| sheet.value(name)).sum();
    let of_system = calls.zip(sheet.value("cpu.system_share"));
    let asking = of_system.map(|(calls, share)| calls * share);
    let all = sheet.value("call.total_per_request");
    let reason = "its system calls were not counted, or there were none";
    sheet.divided(
        "upstream.calls_cpu_share",
        asking,
        all,
        "signature: system calls",
        reason,
    );
}

/// How the turns with upstreams lie in time: within a request, and on the connections.
fn whole_turns(material: &Material<'_>, sheet: &mut Sheet<'_>) {
    let (in_turn, busy) = ("upstream.in_turn_share", "upstream.connections_busy_share");
    let at_once = "upstream.at_once";
    let turns = sheet.value("upstream.requests_per_request");
    let ms = sheet.value("upstream.answer_ms_mean");
    let each = ms.or_else(|| sheet.value("upstream.service_ms_mean"));
    let asked = turns.zip(each).map(|(n, ms)| n * ms);
    if turns == Some(0.0) {
        for name in [in_turn, busy, at_once] {
            sheet.not_applicable(name, "nothing was asked of an upstream");
        }
        return;
    }
    let reason = "turns with upstreams were not probed";
    let whole = material.single_client_mean_ns().map(|ns| ns / 1e6);
    let whole = whole.or_else(|| watched_ms(material, sheet));
    sheet.divided(in_turn, asked, whole, SOURCE, reason);
    let stands = material
        .turns(&sheet.target)
        .and_then(stands_at_upstreams_ms);
    sheet.divided(
        at_once,
        asked,
        stands,
        AT_ONCE,
        "no request was seen to stand at an upstream",
    );
    let wait = turns.zip(sheet.value("upstream.wait_ms_mean"));
    let rate = sheet.value("client.rate_per_s");
    let open = wait.zip(rate).map(|((n, ms), rate)| rate * n * ms / 1e3);
    let connections = sheet.value("upstream.connections");
    sheet.divided(busy, open, connections, LITTLE, reason);
}

fn own_part(material: &Material<'_>, sheet: &mut Sheet<'_>) {
    let (mean, share) = ("upstream.service_ms_mean", "upstream.service_share");
    let names = [mean, share, "upstream.path_share"];
    if sheet.value("upstream.requests_per_request") == Some(0.0) {
        for name in names {
            sheet.not_applicable(name, "nothing was asked of an upstream");
        }
        return;
    }
    if material.turns(&sheet.target).is_some_and(never_wait) {
        for name in names {
            let reason = "no request waits for anything: upstreams are asked beside the requests";
            sheet.not_applicable(name, reason);
        }
        return;
    }
    let relayed = material.turns(&sheet.target).and_then(relayed_ms);
    // What is written to a message bus is no question that the next read answers: each request waits for one.
    let turns = relayed.map(|_| 1.0);
    let turns = turns.or(sheet.value("upstream.requests_per_request"));
    let single_client = single_client_bound_ms(material, sheet, turns.unwrap_or(1.0));
    let arrived = sheet.value("upstream.answer_ms_mean");
    let wait = sheet.value("upstream.wait_ms_mean");
    let service = match relayed {
        Some(ms) => Some(single_client.map_or(ms, |most| ms.min(most))),
        None => service_ms(arrived, wait, single_client, is_full(sheet)),
    };
    let reason = material.reason(
        &["upstream", "signature"],
        "the worker was full, and its own queue counts in the wait for upstreams",
    );
    sheet.maybe(mean, service, SOURCE, &reason);
    let whole = material.single_client_mean_ns().map(|ns| ns / 1e6);
    let whole = whole.or_else(|| watched_ms(material, sheet));
    let part = service.zip(turns).map(|(ms, turns)| ms * turns);
    let part = part.map(|ms| ms.min(whole.unwrap_or(ms)));
    let reason = if service.is_some() {
        "no load of a single client was made to hold the wait against"
    } else {
        &reason
    };
    sheet.divided(share, part, whole, SOURCE, reason);
    path(turns, whole, sheet);
}

/// How long a request stands at upstreams, ms, however many it waits for at a time.
fn stands_at_upstreams_ms(turns: &TargetTurns) -> Option<f64> {
    let each = ms_at(turns, |place| place == Place::Upstream);
    Some(each).filter(|ms| *ms > 0.0)
}

/// How long a request waits for what another task brings of an upstream, ms; `None` where most ask otherwise.
fn relayed_ms(turns: &TargetTurns) -> Option<f64> {
    crate::ledger::relayed(turns)?;
    use Place::{Hidden, Upstream, UpstreamUnread};
    let waits = |place| matches!(place, Hidden | Upstream | UpstreamUnread);
    Some(ms_at(turns, waits))
}

/// How long a request is at these places, ms.
fn ms_at(turns: &TargetTurns, of: impl Fn(Place) -> bool) -> f64 {
    turns.account.ns_at(of) as f64 / 1e6 / turns.account.turns as f64
}

/// Whether the requests of a target, once somebody is at them, run and hardly wait.
fn never_wait(turns: &TargetTurns) -> bool {
    let waits = turns.account.ns_at(|place| {
        use Place::{Blocked, Hidden, OthersBlocked, Upstream, UpstreamUnread};
        matches!(
            place,
            Blocked | Hidden | OthersBlocked | Upstream | UpstreamUnread
        )
    });
    let runs = turns.account.ns_at(|place| place == Place::OnCpu);
    turns.account.turns >= super::turns::FEWEST && (waits as f64) < HARDLY * (waits + runs) as f64
}

/// What of a request the path to the upstreams takes: a round trip for each turn, and one for each connection that is
/// opened first.
fn path(turns: Option<f64>, whole_ms: Option<f64>, sheet: &mut Sheet<'_>) {
    let round_trip = sheet.value("socket.upstream.least_rtt_ms");
    let connects = sheet.value("upstream.connects_per_request").unwrap_or(0.0);
    let all = round_trip.zip(turns).map(|(ms, n)| ms * (n + connects));
    let part = all.map(|ms| ms.min(whole_ms.unwrap_or(ms)));
    let reason = "no connection to an upstream was sampled, or no turn with one was probed";
    sheet.divided("upstream.path_share", part, whole_ms, PATH, reason);
}

/// Time of a request at this target, where traffic was watched: its mean turn, else what is seen of it.
fn watched_ms(material: &Material<'_>, sheet: &Sheet<'_>) -> Option<f64> {
    material.watching()?;
    let turns = material
        .turns(&sheet.target)
        .filter(|t| t.account.turns > 0);
    match turns {
        Some(turns) => Some(turns.account.total_ns as f64 / 1e6 / turns.account.turns as f64),
        None => super::traffic::own_ms(&sheet.target, sheet),
    }
}

/// All in ms of a turn. What was seen to arrive is exact where the target has time to send at once; a full one delays
/// its own requests too, and an upstream on its cores gets less CPU than alone.
fn service_ms(
    arrived: Option<f64>,
    wait: Option<f64>,
    single_client: Option<f64>,
    full: bool,
) -> Option<f64> {
    match (arrived, single_client) {
        (Some(arrived), _) if !full => Some(arrived),
        (Some(arrived), single_client) => {
            Some(single_client.map_or(arrived, |single_client| arrived.min(single_client)))
        }
        (None, Some(single_client)) => wait.map(|wait| wait.min(single_client)),
        (None, None) => wait.filter(|_| !full),
    }
}

/// The longest that an upstream can have taken for a single client, ms of each turn: until the first byte, without the
/// CPU time that the target itself spent.
fn single_client_bound_ms(material: &Material<'_>, sheet: &Sheet<'_>, turns: f64) -> Option<f64> {
    let first_byte = material.single_client()?.first_byte.mean_ns()? / 1e6;
    let own = sheet.value("cpu.us_per_request").unwrap_or(0.0) / 1e3;
    Some((first_byte - own).max(0.0) / turns.max(1.0))
}

fn is_full(sheet: &Sheet<'_>) -> bool {
    let demand = demand(sheet, &sheet.target).unwrap_or(0.0);
    let used = sheet.value("core.own_mean").unwrap_or(0.0);
    let foreign = sheet.value("core.own_foreign_share").unwrap_or(0.0);
    demand >= FULL || used - foreign >= CORES_FULL
}

/// Time in which the busiest worker of a target ran or wanted to.
fn demand(sheet: &Sheet<'_>, target: &str) -> Option<f64> {
    let view = sheet.set.view(target);
    let waited = view.value("worker.run_queue_wait_share").unwrap_or(0.0);
    // Of many that share a core none runs or waits all the time, and the requests that they are for may.
    let requests = cpu_wanted_by_itself(&view).unwrap_or(0.0);
    Some((view.value("worker.busiest")? + waited).max(requests))
}

/// What the peers on this host say of themselves: whether they want more CPU than they get, and whether it is this
/// target's window that stops them.
fn peers(material: &Material<'_>, sheet: &mut Sheet<'_>) {
    let local: Vec<&str> = match material.server(&sheet.target) {
        Some(server) => {
            let peers = server.upstreams.iter();
            let named = peers.filter_map(|u| u.target.as_deref());
            named.filter(|t| *t != server.target).collect()
        }
        None => Vec::new(),
    };
    opening(material, sheet, &local);
    let alone = material.server(&sheet.target);
    if alone.is_some_and(|server| server.upstreams.is_empty()) {
        for name in ["upstream.busiest_demand", "upstream.rwnd_limited_share"] {
            sheet.not_applicable(name, "it has no upstream");
        }
        return;
    }
    let largest =
        |of: &dyn Fn(&str) -> Option<f64>| local.iter().filter_map(|t| of(t)).reduce(f64::max);
    let wanted = largest(&|target| demand(sheet, target));
    let stopped = largest(&|target| {
        let view = sheet.set.view(target);
        view.value("socket.client.rwnd_limited_share")
    });
    let reason = "no upstream on this host was watched";
    sheet.maybe("upstream.busiest_demand", wanted, PEERS, reason);
    sheet.maybe("upstream.rwnd_limited_share", stopped, PEERS, reason);
}

/// The part of its requests' time in which a server has not accepted their connections, and how many others it is at
/// for each thread that serves, by Little's law.
fn accepting(traced: &Turns, turns: &TargetTurns, threads: u64) -> Option<(f64, f64)> {
    let waiting = turns.account.ns_at(|place| place == Place::ListenQueue);
    let all = turns.account.total_ns;
    let window = traced.window_ns as f64 * threads as f64 / f64::from(traced.sampled_one_in.max(1));
    let inside = all.saturating_sub(waiting) as f64;
    (all > 0 && window > 0.0).then(|| (waiting as f64 / all as f64, inside / window))
}

/// What opening connections takes of whom this target asks. A chain's servers are all noted at the first of it, so that
/// the counted questions say who asks whom.
fn opening(material: &Material<'_>, sheet: &mut Sheet<'_>, noted: &[&str]) {
    const OPENING: &str = "upstream.opening_share";
    const ACCEPTING: [&str; 2] = ["upstream.accept_wait_share", "upstream.inside_each"];
    let asked: Vec<&str> = match material.signature(&sheet.target) {
        Some(signature) => {
            let peers = signature.upstreams.iter().flatten();
            let asked = peers.filter(|peer| peer.connects > 0 || peer.requests > 0);
            let targets = asked.filter_map(|peer| material.target_at(&peer.address));
            targets.filter(|t| *t != sheet.target).collect()
        }
        None => noted.to_vec(),
    };
    if asked.is_empty() && noted.is_empty() {
        for name in [OPENING].iter().chain(&ACCEPTING) {
            sheet.not_applicable(name, "it has no upstream");
        }
        return;
    }
    let traced = material.examination().and_then(|e| e.turns.as_ref());
    let at_peer = |target: &&str| {
        let turns = material.turns(target)?;
        // Where none was seen to come back for the next request, each process has one.
        let processes = || Some(material.server(target)?.processes.len() as u64);
        let threads = turns
            .threads
            .as_ref()
            .map(|t| t.threads)
            .or_else(processes)?;
        accepting(traced?, turns, threads)
    };
    let accepts = asked.iter().filter_map(at_peer);
    let accepts = accepts.max_by(|a, b| a.0.total_cmp(&b.0));
    let (waits, inside) = accepts.unzip();
    let reason = "no turns of an upstream on this host were traced";
    sheet.maybe(ACCEPTING[0], waits, TURNS, reason);
    sheet.maybe(ACCEPTING[1], inside, TURNS, reason);
    let opening = asked.iter().filter_map(|target| {
        let view = sheet.set.view(target);
        let share = |kind: &str| view.value(&format!("profile.{kind}_share"));
        // A new process copies the pages that it writes to.
        let of = |name: &str| view.value(name).unwrap_or(0.0);
        let forks = of("spawn.per_request") - of("thread_start.per_request");
        let of_process = match forks >= FORKS {
            true => share("page_fault")? + share("memory_map")?,
            false => 0.0,
        };
        Some(share("spawn")? + share("connection")? + share("connect")? + of_process)
    });
    let reason = "no upstream on this host was watched";
    sheet.maybe(OPENING, opening.reduce(f64::max), PEERS, reason);
}

#[cfg(test)]
mod tests {
    use super::{accepting, never_wait, service_ms, stands_at_upstreams_ms};
    use record::{Place, PlaceTime, TargetTurns, TurnAccount, Turns};

    fn turns(places: &[(Place, u64)]) -> TargetTurns {
        let places = places.iter().map(|&(place, total_ns)| PlaceTime {
            place,
            detail: String::new(),
            waker: String::new(),
            stack: None,
            told: None,
            helper: String::new(),
            turns: 100,
            total_ns,
        });
        let account = TurnAccount {
            turns: 100,
            places: places.collect(),
            ..TurnAccount::default()
        };
        TargetTurns {
            account,
            ..TargetTurns::default()
        }
    }

    #[test]
    fn who_serves_a_connection_to_its_end_lets_the_others_wait_before_it() {
        let traced = Turns {
            window_ns: 1_000,
            sampled_one_in: 1,
            ..Turns::default()
        };
        let turns = |waiting, on_cpu| {
            let mut turns = turns(&[(Place::ListenQueue, waiting), (Place::OnCpu, on_cpu)]);
            turns.account.total_ns = waiting + on_cpu;
            turns
        };
        assert_eq!(
            accepting(&traced, &turns(14_100, 900), 1),
            Some((0.94, 0.9))
        );
        // A loop has taken them all, and is at one after the other.
        assert_eq!(
            accepting(&traced, &turns(1_000, 15_000), 1),
            Some((0.0625, 15.0))
        );
        assert_eq!(accepting(&traced, &turns(0, 0), 1), None);
    }

    #[test]
    fn requests_that_queue_and_run_wait_for_no_upstream() {
        use Place::{Blocked, Hidden, OnCpu, OtherTurns, Upstream};
        for (places, expected) in [
            (&[(OnCpu, 1_000), (OtherTurns, 90_000)][..], true),
            (&[(OnCpu, 1_000), (Upstream, 10)], true),
            // The queue of a full proxy hides how long its upstream takes.
            (
                &[(OnCpu, 1_000), (OtherTurns, 90_000), (Upstream, 900)],
                false,
            ),
            (&[(OnCpu, 1_000), (Hidden, 500)], false),
            (&[(OnCpu, 1_000), (Blocked, 500)], false),
        ] {
            assert_eq!(never_wait(&turns(places)), expected, "{places:?}");
        }
        let mut few = turns(&[(OnCpu, 1_000)]);
        few.account.turns = 3;
        assert!(!never_wait(&few));
    }

    #[test]
    fn the_time_at_upstreams_is_that_of_each_request() {
        let there = turns(&[(Place::OnCpu, 1_000), (Place::Upstream, 500_000_000)]);
        assert_eq!(stands_at_upstreams_ms(&there), Some(5.0));
        assert_eq!(stands_at_upstreams_ms(&turns(&[(Place::OnCpu, 1)])), None);
    }

    #[test]
    fn the_queue_of_a_full_proxy_is_not_its_upstreams_time() {
        for (arrived, wait, single_client, full, expected) in [
            // Slow for a single client as well.
            (None, Some(21.0), Some(20.0), false, Some(20.0)),
            // Quick for a single client, and read late under load.
            (None, Some(11.0), Some(0.1), true, Some(0.1)),
            (Some(4.0), Some(11.0), Some(0.1), true, Some(0.1)),
            // Quick alone and slow under load, before a proxy that has time: a queue in the upstream.
            (Some(4.0), Some(4.1), Some(0.1), false, Some(4.0)),
            // Nothing to hold the wait against.
            (None, Some(11.0), None, true, None),
            (None, Some(11.0), None, false, Some(11.0)),
            (None, None, Some(0.1), false, None),
        ] {
            let found = service_ms(arrived, wait, single_client, full);
            assert_eq!(
                found, expected,
                "{arrived:?} {wait:?} {single_client:?} {full}"
            );
        }
    }
}
