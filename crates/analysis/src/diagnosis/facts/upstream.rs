//! The servers behind a target: connections, turns, waits, and what the heads say.

use super::{Material, Sheet};
use crate::stats::median;
use record::{Directive, FdClass, HeadSeen, Refusal, Server, TargetSignature, UpstreamStats};
use std::collections::BTreeMap;

const SOURCE: &str = "signature: upstream turns and heads";
/// Less of the requests to upstreams with a head of HTTP: they are of another protocol.
const FEWEST_OF_HTTP: f64 = 0.1;
const TURNS: [&str; 15] = [
    "skew",
    "wait_ms_mean",
    "answer_ms_mean",
    "slowest_ratio",
    "requests_per_request",
    "most_waited_turns",
    "most_waited_share",
    "connects_per_request",
    "connect_errors_per_request",
    "failing_peers",
    "requests_per_connect",
    "quantum_40ms_share",
    "connections",
    "fewest_connections",
    "peers",
];
/// Daemons of the host that the C library asks where they run, and does without where they do not: no upstreams.
const OF_THE_HOST: [&str; 4] = ["/nscd/", "/run/systemd/", "/run/dbus/", "/dev/log"];
const HEADS: [&str; 5] = [
    "http10_share",
    "request_close_share",
    "answer_closes_share",
    "answer_5xx_share",
    "unasked_share",
];

/// Connections to upstreams of which fewer are opened for a request are kept.
const KEPT: f64 = 0.01;
const CLOSE_ASKED: &str = "upstream.request_close_share";
/// Fewer heads say nothing of most.
const FEWEST_READ: f64 = 4.0;

pub(super) fn extract(material: &Material<'_>, sheet: &mut Sheet<'_>) {
    let reason = material.reason(
        &["upstream", "signature"],
        "connections to upstreams were not probed",
    );
    for name in TURNS.iter().chain(&HEADS) {
        sheet.unknown(&format!("upstream.{name}"), &reason);
    }
    let signature = material.signature(&sheet.target);
    if let Some(turns) = signature.and_then(|s| s.upstreams.as_deref()) {
        let of_the_host = |u: &UpstreamStats| OF_THE_HOST.iter().any(|p| u.address.contains(p));
        // Whoever only ever came to the server, or sent it something, was asked nothing.
        let met = |u: &UpstreamStats| u.connects + u.requests > 0;
        let are_asked = |u: &&UpstreamStats| met(u) && !of_the_host(u) && !is_absent(u, turns);
        let turns: Vec<UpstreamStats> = turns.iter().filter(are_asked).cloned().collect();
        waits(material, &turns, sheet);
    }
    if let Some(heads) = signature.and_then(|s| s.heads.as_deref()) {
        seen(heads, sheet);
    }
    if sheet.value(CLOSE_ASKED).is_none() {
        as_peers_read_it(material, sheet);
    }
    refusals(material, signature, sheet);
    let name = "upstream.closes_first_share";
    match closes_first(signature) {
        Some(share) => sheet.known(name, share, "signature: TCP events"),
        None => sheet.unknown(
            name,
            "no connection to an upstream was closed, or closes were not seen",
        ),
    }
    peers(material, sheet);
}

/// Whether a peer is a daemon that a library tries and does without (`uuidd`): there is no socket at its path, and all
/// that answer are no sockets in the file system, of which that one might be another.
fn is_absent(one: &UpstreamStats, all: &[UpstreamStats]) -> bool {
    let is_unix = |u: &UpstreamStats| !u.address.contains(':');
    let missing = one.connect_errors.get("ENOENT").copied().unwrap_or(0);
    let mut answer = all.iter().filter(|u| u.requests > 0).peekable();
    is_unix(one)
        && missing > 0
        && missing >= one.connects
        && answer.peek().is_some()
        && !answer.any(is_unix)
}

/// Share of the connections to upstreams that this side closed; `None` when none was closed, or nobody looked.
fn closes_first(signature: Option<&TargetSignature>) -> Option<f64> {
    let mut sockets = signature?.sockets.iter().flatten();
    let stats = sockets.find(|s| s.class == FdClass::Upstream)?;
    let all = stats.closed_by_us + stats.closed_by_peer;
    (all > 0).then(|| stats.closed_by_us as f64 / all as f64)
}

fn waits(material: &Material<'_>, turns: &[UpstreamStats], sheet: &mut Sheet<'_>) {
    let requests = material.signature_requests();
    let sum = |of: &dyn Fn(&UpstreamStats) -> u64| turns.iter().map(of).sum::<u64>() as f64;
    let connects = sum(&|u| u.connects);
    let failed = sum(&|u| u.connect_errors.values().sum());
    let asked = sum(&|u| u.requests);
    let wait = sum(&|u| u.wait_ns);
    let none = "";
    let name = |last: &str| format!("upstream.{last}");
    sheet.known(&name("peers"), turns.len() as f64, SOURCE);
    sheet.divided(
        &name("requests_per_request"),
        Some(asked),
        requests,
        SOURCE,
        none,
    );
    sheet.divided(
        &name("connects_per_request"),
        Some(connects),
        requests,
        SOURCE,
        none,
    );
    sheet.divided(
        &name("connect_errors_per_request"),
        Some(failed),
        requests,
        SOURCE,
        none,
    );
    sheet.divided(
        &name("requests_per_connect"),
        Some(asked),
        Some(connects),
        SOURCE,
        none,
    );
    sheet.divided(
        &name("wait_ms_mean"),
        Some(wait / 1e6),
        Some(asked),
        SOURCE,
        none,
    );
    let most = turns.iter().max_by_key(|u| u.wait_ns);
    let most = most.filter(|u| u.wait_ns > 0);
    sheet.divided(
        &name("most_waited_turns"),
        most.map(|u| u.requests as f64),
        requests,
        SOURCE,
        none,
    );
    sheet.divided(
        &name("most_waited_share"),
        most.map(|u| u.wait_ns as f64),
        most.map(|_| wait),
        SOURCE,
        none,
    );
    answers(turns, asked, sheet);
    skew(material, turns, sheet);
    let failing = turns.iter().filter(|u| {
        let errors: u64 = u.connect_errors.values().sum();
        errors > 0 && errors >= u.connects.saturating_sub(errors)
    });
    sheet.known(&name("failing_peers"), failing.count() as f64, SOURCE);
    slowest(material, turns, sheet);
    by_length(turns, asked, sheet);
}

/// Requests of the busiest peer / its even share, over the peers that the configuration names in one group or that were
/// asked: what nobody asked is seen in the configuration alone.
fn skew(material: &Material<'_>, turns: &[UpstreamStats], sheet: &mut Sheet<'_>) {
    let told = material.server(&sheet.target).map_or(0, largest_group);
    // Nobody chooses between a database and a cache: programs that differ share nothing out, unless it is said that
    // they do. Of peers elsewhere the program is not known.
    let mut groups: BTreeMap<&str, BTreeMap<&str, u64>> = BTreeMap::new();
    for turn in turns.iter().filter(|u| u.requests > 0) {
        let server = material.target_at(&turn.address);
        let program = server.and_then(|server| material.server(server));
        let program = program.filter(|_| told < 2).map_or("", |s| &s.exe);
        let group = groups.entry(program).or_default();
        *group.entry(server.unwrap_or(&turn.address)).or_default() += turn.requests;
    }
    let most =
        |group: &BTreeMap<&str, u64>| (group.len().max(told) >= 2, group.values().sum::<u64>());
    let by_server = groups.into_values().max_by_key(most).unwrap_or_default();
    let peers = by_server.len().max(told);
    if peers < 2 {
        sheet.not_applicable("upstream.skew", "there are no two peers to compare");
        return;
    }
    let asked = by_server.values().sum::<u64>() as f64;
    let busiest = by_server.into_values().max().unwrap_or(0) as f64;
    let even = asked / peers as f64;
    sheet.divided("upstream.skew", Some(busiest), Some(even), SOURCE, "");
}

/// Servers in the largest group that the configuration balances over; those kept for later do not count.
fn largest_group(server: &Server) -> usize {
    let mut groups: BTreeMap<&[String], usize> = BTreeMap::new();
    let serves = |d: &&Directive| {
        let section = d
            .context
            .last()
            .map_or("", |c| c.split(' ').next().unwrap_or_default());
        let later = ["backup", "down", "disabled"];
        matches!(section, "upstream" | "backend" | "listen")
            && d.name == "server"
            && !d.args.iter().any(|a| later.contains(&a.as_str()))
    };
    for directive in server.directives.iter().filter(serves) {
        *groups.entry(&directive.context).or_default() += 1;
    }
    groups.into_values().max().unwrap_or(0)
}

/// How long the peers themselves take: until their first data arrived, read or not.
fn answers(turns: &[UpstreamStats], asked: f64, sheet: &mut Sheet<'_>) {
    let name = "upstream.answer_ms_mean";
    if asked == 0.0 {
        sheet.not_applicable(name, "nothing was asked of an upstream");
        return;
    }
    let seen = turns.iter().flat_map(|u| &u.answered).sum::<u64>() as f64;
    let answered = turns.iter().filter_map(|u| u.answered_ns);
    let sum_ns = answered.fold(None, |sum, ns| Some(sum.unwrap_or(0) + ns));
    let mean_ms = sum_ns
        .filter(|_| seen > 0.0)
        .map(|sum_ns| sum_ns as f64 / seen / 1e6);
    let unseen = "the arrival of the upstreams' responses was not seen";
    sheet.maybe(name, mean_ms, SOURCE, unseen);
}

/// Of one turn a request, what is counted may be off by this.
const NEARLY_ONCE: f64 = 0.1;
/// Turns of a request with peers of one kind from which they are not shares of a single one.
const ASKED_IN_TURN: f64 = 1.5;

/// The slowest peer beside the others of its kind: a database is no slow cache. A peer that is not of this test may be
/// of any kind, and counts as one of those like it.
fn slowest(material: &Material<'_>, turns: &[UpstreamStats], sheet: &mut Sheet<'_>) {
    let program = |address: &str| Some(material.server(material.target_at(address)?)?.exe.as_str());
    let requests = material.signature_requests().unwrap_or_default();
    let mut means = comparable(turns, &program, requests);
    means.sort_by(f64::total_cmp);
    let name = "upstream.slowest_ratio";
    match means.split_last() {
        Some((slowest, others)) if !others.is_empty() => {
            let typical = median(others);
            sheet.divided(name, Some(*slowest), typical, SOURCE, "");
        }
        _ => sheet.not_applicable(name, "there are no two peers of a kind to compare"),
    }
}

/// Mean waits, ns, of the peers of one program that may stand for each other: of several such groups, of the one that
/// is asked most. Whom each request asks once, among others, answers for none of them.
fn comparable<'a>(
    turns: &'a [UpstreamStats],
    program: &dyn Fn(&str) -> Option<&'a str>,
    requests: f64,
) -> Vec<f64> {
    let mut kinds: BTreeMap<Option<&str>, Vec<&UpstreamStats>> = BTreeMap::new();
    for peer in turns.iter().filter(|u| u.requests > 0) {
        kinds.entry(program(&peer.address)).or_default().push(peer);
    }
    let per_request = |asked: u64| asked as f64 / requests;
    let once = |u: &UpstreamStats| (per_request(u.requests) - 1.0).abs() < NEARLY_ONCE;
    let groups = kinds.into_values().map(|mut peers| {
        let asked = per_request(peers.iter().map(|u| u.requests).sum());
        peers.retain(|u| asked < ASKED_IN_TURN || !once(u));
        peers
    });
    let groups = groups.filter(|peers| peers.len() > 1);
    let group = groups.max_by_key(|peers| peers.iter().map(|u| u.requests).sum::<u64>());
    let group = group.into_iter().flatten();
    group
        .map(|peer| peer.wait_ns as f64 / peer.requests as f64)
        .collect()
}

/// Of the buckets of powers of two of a microsecond, the one from 32 to 65 ms.
const BUCKET_40_MS: usize = 15;

/// Waits of the length of a delayed acknowledgement.
fn by_length(turns: &[UpstreamStats], asked: f64, sheet: &mut Sheet<'_>) {
    let count = |i: usize| {
        let counts = turns.iter().filter_map(|u| u.waits.get(i));
        counts.sum::<u64>() as f64
    };
    // Where it is a mode of its own: more than in the bucket before, so that slow work does not count.
    let here = count(BUCKET_40_MS);
    let here = if here > count(BUCKET_40_MS - 1) {
        here
    } else {
        0.0
    };
    let name = "upstream.quantum_40ms_share";
    sheet.divided(name, Some(here), Some(asked), SOURCE, "");
}

/// Why a server behind says no.
#[derive(Clone, Copy, PartialEq)]
enum Refused {
    /// Another transaction was in the way.
    Conflict,
    /// What was written breaks a rule of the data, or who asks may not see it: an answer that many programs ask for.
    Constraint,
    Other,
}

/// What a code means, and in words: PostgreSQL's appendix A, MySQL's server error messages.
fn meaning(refusal: &Refusal) -> (Refused, &'static str) {
    let (protocol, code) = (refusal.protocol.as_str(), refusal.code.as_str());
    match (protocol, code) {
        ("PostgreSQL", "40001") => (Refused::Conflict, "could not serialize"),
        ("PostgreSQL", "40P01") | ("MySQL", "1213") => (Refused::Conflict, "deadlock"),
        ("PostgreSQL", "55P03") | ("MySQL", "1205" | "3572") => {
            (Refused::Conflict, "lock not available in time")
        }
        ("PostgreSQL", "57014") | ("MySQL", "3024") => (Refused::Other, "took too long"),
        ("PostgreSQL", "53300") | ("MySQL", "1040") => (Refused::Other, "too many connections"),
        ("MySQL", "1062") => (Refused::Constraint, "duplicate"),
        ("PostgreSQL", code) if code.starts_with("23") => (Refused::Constraint, "constraint"),
        ("PostgreSQL", "42501") | ("MySQL", "1044" | "1142" | "1143" | "1227" | "1370") => {
            (Refused::Constraint, "not permitted")
        }
        ("Redis", "OOM") => (Refused::Other, "no memory left"),
        ("Redis", "MOVED" | "ASK") => (Refused::Other, "another node has the key"),
        _ => (Refused::Other, ""),
    }
}

/// Answers by which databases and caches refuse what they are asked.
fn refusals(material: &Material<'_>, signature: Option<&TargetSignature>, sheet: &mut Sheet<'_>) {
    let requests = material.signature_requests();
    let seen = signature.and_then(|s| s.refusals.as_deref());
    for (name, kind) in [
        ("upstream.conflicts_per_request", Refused::Conflict),
        ("upstream.refused_per_request", Refused::Other),
    ] {
        let Some(seen) = seen else {
            sheet.unknown(name, "the answers of upstreams were not looked at");
            continue;
        };
        let of_kind = seen.iter().filter(|r| meaning(r).0 == kind);
        let count: u64 = of_kind.clone().map(|r| r.answers).sum();
        let most: Vec<String> = of_kind.take(3).map(in_words).collect();
        let source = match most.as_slice() {
            [] => "signature: answers of upstreams".to_owned(),
            most => format!("signature: answers of upstreams: {}", most.join(", ")),
        };
        sheet.divided(name, Some(count as f64), requests, &source, "");
    }
}

/// A head that is written in pieces is read whole by whoever is asked, now and then.
fn as_peers_read_it(material: &Material<'_>, sheet: &mut Sheet<'_>) {
    let server = material.server(&sheet.target);
    let peers = server.iter().flat_map(|server| &server.upstreams);
    let peers = peers.filter_map(|peer| material.signature(peer.target.as_deref()?));
    let heads = peers.flat_map(|peer| peer.heads.iter().flatten());
    let read = heads.filter(|h| h.class == FdClass::Client && h.kind == "request");
    let (part, whole) = closing(read);
    if whole >= FEWEST_READ {
        sheet.known(CLOSE_ASKED, part / whole, SOURCE);
    }
}

/// Heads that ask for the end of their connection or announce it, and those of which it is known whether they do.
fn closing<'a>(heads: impl Iterator<Item = &'a HeadSeen>) -> (f64, f64) {
    let (mut part, mut whole) = (0, 0);
    for head in heads.filter(|h| h.tells("connection")) {
        whole += head.seen;
        part += if head.closes() { head.seen } else { 0 };
    }
    (part as f64, whole as f64)
}

/// `PostgreSQL 40001 (could not serialize) x 812`.
fn in_words(refusal: &Refusal) -> String {
    let mut words = format!("{} {}", refusal.protocol, refusal.code);
    let (_, meaning) = meaning(refusal);
    if !meaning.is_empty() {
        words += &format!(" ({meaning})");
    }
    format!("{words} x {}", refusal.answers)
}

fn seen(heads: &[HeadSeen], sheet: &mut Sheet<'_>) {
    // Among questions in another protocol the few heads are the server's own (Apache wakes its processes by a request).
    let read = |class: FdClass| {
        let requests = heads
            .iter()
            .filter(|h| h.class == class && h.kind == "request");
        requests.map(|h| h.seen).sum::<u64>() as f64
    };
    let turns = sheet.value("upstream.requests_per_request").unwrap_or(1.0);
    let expected = read(FdClass::Client) * turns.min(1.0);
    let is_http = read(FdClass::Upstream) >= FEWEST_OF_HTTP * expected;
    let of_kind = |kind: &'static str| {
        let heads = heads.iter();
        heads.filter(move |h| is_http && h.class == FdClass::Upstream && h.kind == kind)
    };
    let share = |kind: &'static str, test: &dyn Fn(&HeadSeen) -> bool| {
        let all: u64 = of_kind(kind).map(|h| h.seen).sum();
        let fitting: u64 = of_kind(kind).filter(|h| test(h)).map(|h| h.seen).sum();
        (fitting as f64, all as f64)
    };
    let values = [
        (
            "http10_share",
            share("request", &|h| h.version == "HTTP/1.0"),
        ),
        ("request_close_share", closing(of_kind("request"))),
        ("answer_closes_share", closing(of_kind("response"))),
        (
            "answer_5xx_share",
            share("response", &|h| h.what.starts_with('5')),
        ),
    ];
    for (name, (part, whole)) in values {
        let name = format!("upstream.{name}");
        sheet.divided(&name, Some(part), Some(whole), SOURCE, "");
    }
    // A proxy passes on the method that it was asked with.
    let of_clients = |h: &HeadSeen| h.class == FdClass::Client && h.kind == "request";
    let asked: Vec<&str> = heads
        .iter()
        .filter(|h| of_clients(h))
        .map(|h| h.what.as_str())
        .collect();
    let name = "upstream.unasked_share";
    if asked.is_empty() {
        sheet.unknown(name, "the requests of its clients were not read");
    } else {
        let (part, whole) = share("request", &|h| !asked.contains(&h.what.as_str()));
        sheet.divided(name, Some(part), Some(whole), SOURCE, "");
    }
}

/// Connections to upstreams that are open at a time. They were looked up at one moment, or several; where requests open
/// and close them, samples have seen more. Of those that are kept one that is replaced is seen twice for a moment.
fn open_at_a_time(looked_up: f64, seen: &[f64], connects_per_request: Option<f64>) -> f64 {
    if connects_per_request.is_some_and(|per_request| per_request < KEPT) {
        let kept = median(seen).filter(|seen| *seen >= 1.0);
        return kept.unwrap_or(looked_up);
    }
    seen.iter().copied().fold(looked_up, f64::max)
}

/// Who the peers are, and how busy those on this host were.
fn peers(material: &Material<'_>, sheet: &mut Sheet<'_>) {
    let names = ["upstream.busiest_worker", "upstream.use_of_allowed"];
    let Some(server) = material.server(&sheet.target) else {
        for name in names {
            sheet.unknown(
                name,
                "the server's connections to others were not looked at",
            );
        }
        return;
    };
    let proc = "established connections";
    let looked_up: u64 = server.upstreams.iter().map(|u| u.connections).sum();
    let samples = material.series("socket.connections", &server.target);
    let samples = samples.filter(|s| s.label("class") == Some("upstream"));
    let seen: Vec<f64> = samples.flat_map(|s| &s.values).copied().collect();
    let connects = sheet.value("upstream.connects_per_request");
    let open = open_at_a_time(looked_up as f64, &seen, connects);
    sheet.known("upstream.connections", open, proc);
    // Where the configuration names a peer, or one of a pool listens, nobody need have been connected.
    let met = server.upstreams.iter().filter(|u| u.connections > 0);
    let met: Vec<f64> = met.map(|u| u.connections as f64).collect();
    let fewest = match met[..] {
        [] | [_] => open,
        _ => met.into_iter().fold(open, f64::min),
    };
    sheet.known("upstream.fewest_connections", fewest, proc);
    if sheet.value("upstream.peers").is_none() {
        sheet.known("upstream.peers", server.upstreams.len() as f64, proc);
    }
    let local: Vec<&str> = server
        .upstreams
        .iter()
        .filter_map(|u| u.target.as_deref())
        .filter(|t| *t != server.target)
        .collect();
    for (name, of) in [
        ("upstream.busiest_worker", "worker.busiest"),
        ("upstream.use_of_allowed", "cpu.use_of_allowed"),
    ] {
        let values = local.iter().filter_map(|t| sheet.set.view(t).value(of));
        match values.reduce(f64::max) {
            Some(value) => sheet.known(name, value, "/proc/PID/task"),
            None if server.upstreams.is_empty() => sheet.not_applicable(name, "it has no upstream"),
            None => sheet.unknown(name, "no upstream on this host was watched"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kept_connection_that_is_replaced_is_one() {
        let seen = [0.0, 2.0, 2.0, 2.0, 2.0, 3.0];
        assert_eq!(open_at_a_time(2.0, &seen, Some(0.001)), 2.0);
        assert_eq!(open_at_a_time(2.0, &seen, Some(1.0)), 3.0);
        assert_eq!(open_at_a_time(2.0, &seen, None), 3.0);
        assert_eq!(
            open_at_a_time(3.0, &seen, Some(0.0)),
            2.0,
            "a look met both"
        );
        assert_eq!(open_at_a_time(4.0, &[], Some(0.0)), 4.0);
        assert_eq!(open_at_a_time(4.0, &[0.0, 0.0, 1.0], Some(0.0)), 4.0);
    }
    use crate::diagnosis::fact::{FactSet, Reading};

    fn reading(turns: &[UpstreamStats]) -> Reading {
        let mut set = FactSet::default();
        let asked = turns.iter().map(|u| u.requests).sum::<u64>() as f64;
        answers(turns, asked, &mut Sheet::new(&mut set, "front"));
        set.view("front").reading("upstream.answer_ms_mean")
    }

    #[test]
    fn a_servers_own_request_among_others_of_another_protocol_says_nothing_of_these() {
        let head = |class, what: &str, count| HeadSeen {
            class,
            kind: "request".to_owned(),
            version: "HTTP/1.0".to_owned(),
            what: what.to_owned(),
            seen: count,
            ..HeadSeen::default()
        };
        for (asked, want) in [(2, None), (250, Some(1.0))] {
            let heads = [
                head(FdClass::Client, "GET", 250),
                head(FdClass::Upstream, "OPTIONS", asked),
            ];
            let mut set = FactSet::default();
            let mut sheet = Sheet::new(&mut set, "front");
            sheet.known("upstream.requests_per_request", 1.0, SOURCE);
            seen(&heads, &mut sheet);
            for name in ["upstream.http10_share", "upstream.unasked_share"] {
                assert_eq!(set.view("front").value(name), want, "{name}");
            }
        }
    }

    #[test]
    fn peers_that_each_request_asks_once_are_no_replicas() {
        let peer = |address: &str, requests: u64, wait_ms: u64| UpstreamStats {
            address: address.to_owned(),
            requests,
            wait_ns: requests * wait_ms * 1_000_000,
            ..UpstreamStats::default()
        };
        let ratio = |asked: [u64; 2]| {
            let peers = [
                peer("10.0.0.1:80", asked[0], 1),
                peer("10.0.0.2:80", asked[1], 10),
            ];
            let mut means = comparable(&peers, &|_| None, 100.0);
            means.sort_by(f64::total_cmp);
            means
        };
        assert_eq!(ratio([50, 50]), [1.0e6, 10.0e6]);
        assert_eq!(ratio([500, 500]), [1.0e6, 10.0e6]);
        // Whom a balancer keeps away from.
        assert_eq!(ratio([96, 4]), [1.0e6, 10.0e6]);
        assert_eq!(ratio([102, 97]), [0.0; 0]);
        assert_eq!(ratio([2_500, 98]), [0.0; 0]);
    }

    #[test]
    fn the_peers_own_time_ends_when_their_first_data_arrives() {
        let turn = UpstreamStats {
            requests: 10,
            wait_ns: 50_000_000,
            answered_ns: Some(8_000_000),
            answered: vec![0, 0, 8],
            ..UpstreamStats::default()
        };
        assert_eq!(reading(&[turn]), Reading::Known(1.0));
    }

    #[test]
    fn an_arrival_that_was_not_seen_is_not_a_fast_answer() {
        let turn = UpstreamStats {
            requests: 10,
            wait_ns: 50_000_000,
            ..UpstreamStats::default()
        };
        let at_once = UpstreamStats {
            answered_ns: Some(0),
            ..turn.clone()
        };
        for turn in [turn, at_once] {
            assert!(matches!(reading(&[turn]), Reading::Unknown(_)));
        }
        assert!(matches!(reading(&[]), Reading::NotApplicable(_)));
    }
}
