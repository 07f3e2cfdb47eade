//! The servers behind a target: connections, turns, waits, and what the heads say.

use super::{Material, Sheet};
use crate::stats::median;
use record::{FdClass, HeadSeen, UpstreamStats};

const SOURCE: &str = "signature: upstream turns and heads";
const TURNS: [&str; 17] = [
    "wait_ms_mean",
    "answer_ms_mean",
    "answer_share",
    "read_delay_ms_mean",
    "wait_ms_max_bucket",
    "wait_share",
    "slowest_ratio",
    "requests_per_request",
    "connects_per_request",
    "connect_errors_per_request",
    "failing_peers",
    "requests_per_connect",
    "quantum_40ms_share",
    "quantum_200ms_share",
    "top_peer_share",
    "connections",
    "peers",
];
const HEADS: [&str; 7] = [
    "http10_share",
    "request_close_share",
    "answer_closes_share",
    "answer_chunked_share",
    "answer_compressed_share",
    "accept_encoding_share",
    "answer_5xx_share",
];

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
        waits(material, turns, sheet);
    }
    if let Some(heads) = signature.and_then(|s| s.heads.as_deref()) {
        seen(heads, sheet);
    }
    let name = "upstream.closes_first_share";
    match sheet.value("socket.upstream.closed_by_us_share") {
        Some(share) => sheet.known(name, share, "signature: TCP events"),
        None => sheet.unknown(
            name,
            "no connection to an upstream was closed, or closes were not seen",
        ),
    }
    peers(material, sheet);
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
    let most = turns.iter().map(|u| u.requests).max().unwrap_or(0) as f64;
    sheet.divided(
        &name("top_peer_share"),
        Some(most),
        Some(asked),
        SOURCE,
        none,
    );
    let whole = material.lone_mean_ns().zip(requests).map(|(ns, n)| ns * n);
    let part = whole.map(|whole| wait.min(whole));
    let reason = "no lone load was made to hold the wait against";
    if asked == 0.0 {
        sheet.not_applicable(&name("wait_share"), "nothing was asked of an upstream");
    } else {
        sheet.divided(&name("wait_share"), part, whole, SOURCE, reason);
    }
    answers(turns, asked, whole, sheet);
    let failing = turns.iter().filter(|u| {
        let errors: u64 = u.connect_errors.values().sum();
        errors > 0 && errors >= u.connects.saturating_sub(errors)
    });
    sheet.known(&name("failing_peers"), failing.count() as f64, SOURCE);
    slowest(turns, sheet);
    by_length(turns, asked, sheet);
}

/// What of the wait is the peers' own: until their first data arrived. The rest is the target's delay to read it.
fn answers(turns: &[UpstreamStats], asked: f64, whole: Option<f64>, sheet: &mut Sheet<'_>) {
    let names = ["answer_ms_mean", "answer_share", "read_delay_ms_mean"];
    let names = names.map(|last| format!("upstream.{last}"));
    let [answer_ms, answer_share, read_delay_ms] = &names;
    if asked == 0.0 {
        for name in &names {
            sheet.not_applicable(name, "nothing was asked of an upstream");
        }
        return;
    }
    let seen = turns.iter().flat_map(|u| &u.answered).sum::<u64>() as f64;
    let answered = turns.iter().filter_map(|u| u.answered_ns);
    let sum_ns = answered.fold(None, |sum, ns| Some(sum.unwrap_or(0) + ns));
    let mean_ns = sum_ns
        .filter(|_| seen > 0.0)
        .map(|sum_ns| sum_ns as f64 / seen);
    let unseen = "the arrival of the upstreams' answers was not seen";
    sheet.maybe(answer_ms, mean_ns.map(|ns| ns / 1e6), SOURCE, unseen);
    let wait_ns = turns.iter().map(|u| u.wait_ns).sum::<u64>() as f64 / asked;
    let delay_ms = mean_ns.map(|ns| (wait_ns - ns).max(0.0) / 1e6);
    sheet.maybe(read_delay_ms, delay_ms, SOURCE, unseen);
    let reason = match mean_ns {
        Some(_) => "no lone load was made to hold the answers against",
        None => unseen,
    };
    let part = mean_ns.map(|ns| (ns * asked).min(whole.unwrap_or(f64::INFINITY)));
    sheet.divided(answer_share, part, whole, SOURCE, reason);
}

fn slowest(turns: &[UpstreamStats], sheet: &mut Sheet<'_>) {
    let mut means: Vec<f64> = turns
        .iter()
        .filter(|u| u.requests > 0)
        .map(|u| u.wait_ns as f64 / u.requests as f64)
        .collect();
    means.sort_by(f64::total_cmp);
    let name = "upstream.slowest_ratio";
    match means.split_last() {
        Some((slowest, others)) if !others.is_empty() => {
            let typical = median(others);
            sheet.divided(name, Some(*slowest), typical, SOURCE, "");
        }
        _ => sheet.not_applicable(name, "there are no two peers to compare"),
    }
}

/// Buckets of powers of two of a microsecond: 32 to 65 ms is one, 131 to 262 ms another.
fn by_length(turns: &[UpstreamStats], asked: f64, sheet: &mut Sheet<'_>) {
    let longest = turns.iter().map(|u| u.waits.len()).max().unwrap_or(0);
    let count = |i: usize| {
        let counts = turns.iter().filter_map(|u| u.waits.get(i));
        counts.sum::<u64>() as f64
    };
    let last = (0..longest).rfind(|i| count(*i) >= (asked * 0.01).max(1.0));
    let name = "upstream.wait_ms_max_bucket";
    match last {
        Some(i) => sheet.known(name, 2f64.powi(i as i32 + 1) / 1e3, SOURCE),
        None => sheet.not_applicable(name, "nothing was asked of an upstream"),
    }
    for (name, bucket) in [("40ms", 15), ("200ms", 17)] {
        // Where it is a mode of its own: more than in the bucket before, so that slow work does not count.
        let here = if count(bucket) > count(bucket - 1) {
            count(bucket)
        } else {
            0.0
        };
        let name = format!("upstream.quantum_{name}_share");
        sheet.divided(&name, Some(here), Some(asked), SOURCE, "");
    }
}

fn seen(heads: &[HeadSeen], sheet: &mut Sheet<'_>) {
    let of_kind = |kind: &'static str| {
        let heads = heads.iter();
        heads.filter(move |h| h.class == FdClass::Upstream && h.kind == kind)
    };
    let share = |kind: &'static str, test: &dyn Fn(&HeadSeen) -> bool| {
        let all: u64 = of_kind(kind).map(|h| h.seen).sum();
        let fitting: u64 = of_kind(kind).filter(|h| test(h)).map(|h| h.seen).sum();
        (fitting as f64, all as f64)
    };
    let says = |h: &HeadSeen, name: &str, word: &str| {
        h.headers
            .get(name)
            .is_some_and(|v| v.to_ascii_lowercase().contains(word))
    };
    let has = |h: &HeadSeen, name: &str| h.headers.contains_key(name);
    let closes = |h: &HeadSeen| {
        says(h, "connection", "close")
            || (h.version == "HTTP/1.0" && !says(h, "connection", "keep-alive"))
    };
    let values = [
        (
            "http10_share",
            share("request", &|h| h.version == "HTTP/1.0"),
        ),
        ("request_close_share", share("request", &closes)),
        ("answer_closes_share", share("response", &closes)),
        (
            "answer_chunked_share",
            share("response", &|h| says(h, "transfer-encoding", "chunked")),
        ),
        (
            "answer_compressed_share",
            share("response", &|h| has(h, "content-encoding")),
        ),
        (
            "accept_encoding_share",
            share("request", &|h| has(h, "accept-encoding")),
        ),
        (
            "answer_5xx_share",
            share("response", &|h| h.what.starts_with('5')),
        ),
    ];
    for (name, (part, whole)) in values {
        let name = format!("upstream.{name}");
        sheet.divided(&name, Some(part), Some(whole), SOURCE, "");
    }
}

/// Who the peers are, and how busy those on this host were.
fn peers(material: &Material<'_>, sheet: &mut Sheet<'_>) {
    let names = [
        "upstream.local_peers",
        "upstream.busiest_worker",
        "upstream.use_of_allowed",
    ];
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
    // They were looked up at one moment; where the load opens and closes them, the samples have seen more.
    let looked_up: u64 = server.upstreams.iter().map(|u| u.connections).sum();
    let samples = material.series("socket.connections", &server.target);
    let samples = samples.filter(|s| s.label("class") == Some("upstream"));
    let open = samples
        .flat_map(|s| &s.values)
        .copied()
        .fold(looked_up as f64, f64::max);
    sheet.known("upstream.connections", open, proc);
    if sheet.value("upstream.peers").is_none() {
        sheet.known("upstream.peers", server.upstreams.len() as f64, proc);
    }
    let local: Vec<&str> = server
        .upstreams
        .iter()
        .filter_map(|u| u.target.as_deref())
        .filter(|t| *t != server.target)
        .collect();
    sheet.known("upstream.local_peers", local.len() as f64, proc);
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
    use crate::diagnosis::fact::{FactSet, Reading};

    fn facts(turns: &[UpstreamStats], whole: Option<f64>) -> FactSet {
        let mut set = FactSet::default();
        let asked = turns.iter().map(|u| u.requests).sum::<u64>() as f64;
        answers(turns, asked, whole, &mut Sheet::new(&mut set, "front"));
        set
    }

    #[test]
    fn the_wait_is_parted_into_the_peers_answer_and_the_own_delay() {
        let turn = UpstreamStats {
            requests: 10,
            wait_ns: 50_000_000,
            answered_ns: Some(8_000_000),
            answered: vec![0, 0, 8],
            ..UpstreamStats::default()
        };
        let set = facts(std::slice::from_ref(&turn), Some(40_000_000.0));
        let view = set.view("front");
        for (name, expected) in [
            ("upstream.answer_ms_mean", 1.0),
            ("upstream.read_delay_ms_mean", 4.0),
            ("upstream.answer_share", 0.25),
        ] {
            assert_eq!(view.value(name), Some(expected), "{name}");
        }
    }

    #[test]
    fn an_arrival_that_was_not_seen_is_not_a_fast_answer() {
        let turn = UpstreamStats {
            requests: 10,
            wait_ns: 50_000_000,
            ..UpstreamStats::default()
        };
        for (turns, unknown) in [
            (vec![turn.clone()], true),
            (
                vec![UpstreamStats {
                    answered_ns: Some(0),
                    ..turn
                }],
                true,
            ),
            (Vec::new(), false),
        ] {
            let set = facts(&turns, Some(1e9));
            let view = set.view("front");
            for name in ["answer_ms_mean", "answer_share", "read_delay_ms_mean"] {
                let reading = view.reading(&format!("upstream.{name}"));
                assert_eq!(
                    matches!(reading, Reading::Unknown(_)),
                    unknown,
                    "{reading:?}"
                );
                assert_eq!(reading.value(), None);
            }
        }
    }
}
