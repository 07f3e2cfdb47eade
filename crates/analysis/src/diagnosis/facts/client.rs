//! What the client saw: failures, times, quanta, connections, the answer itself.
//!
//! A *quantum* is the share of responses that lie around a time that the protocol stacks wait by constant:
//! 40 ms and 200 ms (delayed acknowledgement and the least retransmission time-out, Linux `TCP_DELACK_MIN`
//! and `TCP_RTO_MIN`), 1 s and 3 s (first and second retransmission of a SYN, RFC 6298).

use super::{Material, Sheet, flag};
use crate::diagnosis::fact::Reading;
use crate::stats::median;
use crate::validity;
use record::{Answer, Arrival, Body, FailureKind, Histogram, LoadOutcome, LoadSpec};

const LOAD: &str = "load";
const SINGLE_CLIENT: &str = "load of a single client";
const ANSWER: &str = "one response";
/// Windows of the quanta, ms.
pub(super) const QUANTA: [(&str, f64, f64); 4] = [
    ("40ms", 38.0, 50.0),
    ("200ms", 195.0, 240.0),
    ("1s", 900.0, 1_250.0),
    ("3s", 2_900.0, 3_500.0),
];

pub(super) fn extract(material: &Material<'_>, sheet: &mut Sheet<'_>) {
    match (material.outcome(), material.watching()) {
        (Some(outcome), _) => {
            asked(&material.trial.load, sheet);
            load(material, outcome, sheet);
        }
        (None, Some(watching)) => super::traffic::client(material, watching, sheet),
        (None, None) => {
            asked(&material.trial.load, sheet);
            for name in LOAD_NAMES {
                sheet.unknown(name, "the load never started");
            }
            let reading = Reading::Unknown("the load never started".to_owned());
            sheet.family("client.failed.*", reading, "");
        }
    }
    single_client(material, sheet);
    answer(material, sheet);
}

const LOAD_NAMES: [&str; 39] = [
    "client.errors_share",
    "client.status_4xx_share",
    "client.status_5xx_share",
    "client.status_413_share",
    "client.status_429_share",
    "client.status_502_share",
    "client.status_503_share",
    "client.status_504_share",
    "client.connects_per_request",
    "client.reconnects_per_request",
    "client.closed_by_server_per_request",
    "client.requests_per_connection",
    "client.unanswered_share",
    "client.fairness",
    "client.p50_ms",
    "client.p99_ms",
    "client.mean_ms",
    "client.connect_p50_ms",
    "client.connect_max_ms",
    "client.transfer_p50_ms",
    "client.quantum_40ms_share",
    "client.quantum_200ms_share",
    "client.quantum_1s_share",
    "client.connect_quantum_1s_share",
    "client.connect_quantum_3s_share",
    "client.tls_full_per_request",
    "client.tls_handshakes_per_request",
    "client.tls_resumed_share",
    "client.tls_handshake_ms",
    "client.cpu_us_per_request",
    "client.received_bytes_per_request",
    "client.generator_utilization",
    "client.rate_per_s",
    "client.achieved_of_offered",
    "client.rate_spread",
    "client.queueing_ratio",
    "client.effective_parallelism",
    "client.parallel_share",
    "client.streams_allowed",
];

/// What was asked for is known without an outcome.
fn asked(spec: &LoadSpec, sheet: &mut Sheet<'_>) {
    let closes = |(name, value): &(String, String)| {
        name.eq_ignore_ascii_case("connection") && value.to_ascii_lowercase().contains("close")
    };
    let keeps = spec.requests_per_connection.is_none() && !spec.headers.iter().any(closes);
    sheet.known("client.asked_keepalive", flag(keeps), LOAD);
    match spec.requests_per_connection {
        Some(n) => sheet.known("client.asked_requests_per_connection", n as f64, LOAD),
        None => sheet.not_applicable("client.asked_requests_per_connection", "no limit was asked"),
    }
    sheet.known("client.connections", f64::from(spec.connections), LOAD);
    sheet.known("client.pipeline", f64::from(spec.depth()), LOAD);
    sheet.known("client.tls", flag(spec.is_tls()), LOAD);
    sheet.known("client.http10", 0.0, LOAD);
    let personal = spec.headers.iter().any(|(name, _)| is_personal(name));
    sheet.known("client.asked_personally", flag(personal), LOAD);
    let open = spec.arrival != Arrival::Closed;
    sheet.known("client.open_loop", flag(open), LOAD);
    match &spec.body {
        Body::None => sheet.known("client.request_body_bytes", 0.0, LOAD),
        Body::Text(text) => sheet.known("client.request_body_bytes", text.len() as f64, LOAD),
        Body::File(_) => sheet.unknown(
            "client.request_body_bytes",
            "the record names the body's file and not its size",
        ),
    }
}

fn ms(histogram: &Histogram, quantile: f64) -> Option<f64> {
    histogram.quantile(quantile).map(|n| n.0 as f64 / 1e6)
}

/// Share of the values within `from..to` ms; `None` for an empty histogram.
pub(super) fn share_within(histogram: &Histogram, from: f64, to: f64) -> Option<f64> {
    // Ticks for each halving of the distance to 1: what is common is resolved to a hundredth, what is rare finer.
    const TICKS: u32 = 50;
    let spectrum = histogram.spectrum(TICKS);
    let below = |limit_ms: f64| {
        let reached = spectrum
            .iter()
            .rfind(|(_, at)| (at.0 as f64) < limit_ms * 1e6);
        reached.map_or(0.0, |(quantile, _)| *quantile)
    };
    (histogram.count() > 0).then(|| (below(to) - below(from)).clamp(0.0, 1.0))
}

fn load(material: &Material<'_>, outcome: &LoadOutcome, sheet: &mut Sheet<'_>) {
    failures(outcome, sheet);
    times(material, outcome, sheet);
    connections(material, outcome, sheet);
    rates(material, outcome, sheet);
    allowed(outcome, sheet);
}

/// How many requests the server allows at a time on a connection, where that is fewer than were asked for.
fn allowed(outcome: &LoadOutcome, sheet: &mut Sheet<'_>) {
    let name = "client.streams_allowed";
    match outcome.connections.streams_allowed {
        Some(n) => sheet.known(name, f64::from(n), LOAD),
        None => sheet.not_applicable(name, "the server allowed as many as were asked for"),
    }
}

fn failures(outcome: &LoadOutcome, sheet: &mut Sheet<'_>) {
    let none = "no request came to an end";
    let (failed, succeeded) = (outcome.requests.failures(), outcome.requests.succeeded);
    let ended = (failed + succeeded) as f64;
    let ended_if = (ended > 0.0).then_some(ended);
    let errors = validity::error_share(outcome);
    sheet.maybe("client.errors_share", errors, LOAD, none);
    for kind in FailureKind::ALL {
        let n = outcome.requests.failed.get(&kind).copied().unwrap_or(0) as f64;
        let name = format!("client.failed.{}_share", kind.name());
        sheet.divided(&name, Some(n), ended_if, LOAD, none);
    }
    let answers: u64 = outcome.status.values().sum();
    let answers = (answers > 0).then_some(answers as f64);
    let within = |from: u16, to: u16| {
        let counted = outcome.status.range(from..=to).map(|(_, n)| *n);
        Some(counted.sum::<u64>() as f64)
    };
    for (name, from, to) in [
        ("4xx", 400, 499),
        ("5xx", 500, 599),
        ("413", 413, 413),
        ("429", 429, 429),
        ("502", 502, 502),
        ("503", 503, 503),
        ("504", 504, 504),
    ] {
        let name = format!("client.status_{name}_share");
        sheet.divided(
            &name,
            within(from, to),
            answers,
            LOAD,
            "no response arrived",
        );
    }
}

fn times(material: &Material<'_>, outcome: &LoadOutcome, sheet: &mut Sheet<'_>) {
    let none = "no request succeeded";
    let response = &outcome.response;
    for (name, quantile) in [("p50", 0.5), ("p99", 0.99)] {
        let name = format!("client.{name}_ms");
        sheet.maybe(&name, ms(response, quantile), LOAD, none);
    }
    let mean = response.mean_ns().map(|ns| ns / 1e6);
    sheet.maybe("client.mean_ms", mean, LOAD, none);
    let first = ms(&outcome.first_byte, 0.5);
    let service = ms(&outcome.service, 0.5);
    let transfer = service
        .zip(first)
        .map(|(whole, first)| (whole - first).max(0.0));
    sheet.maybe("client.transfer_p50_ms", transfer, LOAD, none);
    let unopened = "no connection was opened";
    for (name, quantile) in [("p50", 0.5), ("max", 1.0)] {
        let name = format!("client.connect_{name}_ms");
        sheet.maybe(&name, ms(&outcome.connect, quantile), LOAD, unopened);
    }
    let late = acknowledged_late(outcome);
    sheet.maybe("client.quantum_40ms_share", late, LOAD, none);
    for (name, from, to) in &QUANTA[1..3] {
        let share = share_within(response, *from, *to);
        sheet.maybe(&format!("client.quantum_{name}_share"), share, LOAD, none);
    }
    // A connection is opened by SYNs, which are retransmitted after seconds.
    for (name, from, to) in &QUANTA[2..] {
        let share = share_within(&outcome.connect, *from, *to);
        let name = format!("client.connect_quantum_{name}_share");
        sheet.maybe(&name, share, LOAD, unopened);
    }
    let single_client = material.single_client().and_then(|l| ms(&l.response, 0.5));
    let median = ms(response, 0.5);
    let unexamined = "no load of a single client was made";
    sheet.divided(
        "client.queueing_ratio",
        median,
        single_client,
        LOAD,
        unexamined,
    );
}

fn connections(material: &Material<'_>, outcome: &LoadOutcome, sheet: &mut Sheet<'_>) {
    let connections = &outcome.connections;
    // Connections are counted over the whole load, so requests have to be as well.
    let slices: u64 = outcome
        .intervals
        .iter()
        .map(|i| i.succeeded + i.failed)
        .sum();
    let requests = slices.max(outcome.requests.completed) as f64;
    let requests = (requests > 0.0).then_some(requests);
    let none = "no response arrived";
    let opened = connections.opened as f64;
    sheet.divided(
        "client.connects_per_request",
        Some(opened),
        requests,
        LOAD,
        none,
    );
    let again = connections
        .opened
        .saturating_sub(u64::from(connections.asked));
    sheet.divided(
        "client.reconnects_per_request",
        Some(again as f64),
        requests,
        LOAD,
        none,
    );
    let closed = Some(connections.closed_by_server as f64);
    sheet.divided(
        "client.closed_by_server_per_request",
        closed,
        requests,
        LOAD,
        none,
    );
    sheet.divided(
        "client.requests_per_connection",
        requests,
        Some(opened),
        LOAD,
        none,
    );
    let asked = f64::from(connections.asked);
    let unanswered = Some(f64::from(connections.unanswered));
    sheet.divided(
        "client.unanswered_share",
        unanswered,
        Some(asked),
        LOAD,
        none,
    );
    let few = "connections carried too few requests to compare";
    sheet.maybe("client.fairness", fairness(outcome), LOAD, few);
    let handshakes = (connections.tls_full + connections.tls_resumed) as f64;
    if material.trial.load.is_tls() {
        let full = Some(connections.tls_full as f64);
        sheet.divided("client.tls_full_per_request", full, requests, LOAD, none);
        let name = "client.tls_handshakes_per_request";
        sheet.divided(name, Some(handshakes), requests, LOAD, none);
        let resumed = Some(connections.tls_resumed as f64);
        sheet.divided(
            "client.tls_resumed_share",
            resumed,
            Some(handshakes),
            LOAD,
            none,
        );
        let connect = ms(&outcome.connect, 0.5);
        sheet.maybe(
            "client.tls_handshake_ms",
            connect,
            LOAD,
            "no connection was opened",
        );
    } else {
        for name in [
            "tls_full_per_request",
            "tls_handshakes_per_request",
            "tls_resumed_share",
            "tls_handshake_ms",
        ] {
            sheet.not_applicable(&format!("client.{name}"), "the load uses no TLS");
        }
    }
}

/// Mean of the slowest tenth of the connections / median.
fn fairness(outcome: &LoadOutcome) -> Option<f64> {
    let mut counts: Vec<f64> = outcome
        .successes_per_connection
        .iter()
        .map(|n| *n as f64)
        .collect();
    let middle = median(&counts).filter(|m| *m >= 1.0)?;
    counts.sort_by(f64::total_cmp);
    let slowest = &counts[..counts.len().div_ceil(10)];
    Some(slowest.iter().sum::<f64>() / slowest.len() as f64 / middle)
}

fn rates(material: &Material<'_>, outcome: &LoadOutcome, sheet: &mut Sheet<'_>) {
    let none = "no request succeeded";
    let rate = outcome.achieved_per_s();
    sheet.maybe("client.rate_per_s", rate, LOAD, none);
    let completed = material.completed();
    let received = received_in_window(outcome);
    sheet.divided(
        "client.received_bytes_per_request",
        received,
        completed,
        LOAD,
        none,
    );
    let utilization = outcome.generator.utilization();
    sheet.maybe(
        "client.generator_utilization",
        utilization,
        LOAD,
        "no load thread came to the measured part",
    );
    let busy_us = outcome.generator.busy_ns().map(|ns| ns as f64 / 1e3);
    let idle = "no load thread came to the measured part";
    let name = "client.cpu_us_per_request";
    match busy_us {
        Some(busy_us) => sheet.divided(name, Some(busy_us), completed, LOAD, none),
        None => sheet.unknown(name, idle),
    }
    // What came due by chance is what was offered, and not its mean.
    let due = material.seconds().filter(|s| *s > 0.0);
    let due = due.map(|s| outcome.requests.scheduled as f64 / s);
    let offered = match material.trial.load.arrival {
        Arrival::Poisson { per_s, .. } => due.filter(|n| *n > 0.0).or(Some(per_s)),
        other => other.offered_per_s(),
    };
    match offered {
        Some(offered) => {
            let reached = Some(rate.unwrap_or(0.0));
            sheet.divided(
                "client.achieved_of_offered",
                reached,
                Some(offered),
                LOAD,
                none,
            );
        }
        None => {
            sheet.not_applicable("client.achieved_of_offered", "a closed loop offers no rate");
        }
    }
    let few = "too few slices of time";
    sheet.maybe("client.rate_spread", rate_spread(outcome), LOAD, few);
    let single_client = material.single_client_mean_ns();
    let parallel = rate.zip(single_client).map(|(rate, ns)| rate * ns / 1e9);
    let unexamined = "no load of a single client was made";
    sheet.maybe("client.effective_parallelism", parallel, LOAD, unexamined);
    let asked = Some(f64::from(outcome.connections.asked));
    sheet.divided("client.parallel_share", parallel, asked, LOAD, unexamined);
}

/// Bytes received in the measured part.
fn received_in_window(outcome: &LoadOutcome) -> Option<f64> {
    let inside = outcome
        .intervals
        .iter()
        .filter(|i| i.from >= outcome.measured_from && i.to <= outcome.measured_to);
    let (bytes, answers) = inside.fold((0u64, 0u64), |(bytes, answers), i| {
        (bytes + i.received_bytes, answers + i.succeeded)
    });
    if answers > 0 {
        let whole = outcome.requests.completed as f64;
        return Some(bytes as f64 / answers as f64 * whole);
    }
    // Without slices the total is all there is; it holds the warm-up's bytes only when there was one.
    let warm = outcome.started_at < outcome.measured_from;
    (!warm).then_some(outcome.received_bytes as f64)
}

fn rate_spread(outcome: &LoadOutcome) -> Option<f64> {
    let rates: Vec<f64> = outcome
        .intervals
        .iter()
        .filter(|i| i.from >= outcome.measured_from && i.to <= outcome.measured_to)
        .filter_map(|i| {
            let seconds = i.to.since(i.from).as_secs_f64();
            (seconds > 0.0).then(|| i.succeeded as f64 / seconds)
        })
        .collect();
    let n = rates.len() as f64;
    let mean = rates.iter().sum::<f64>() / n;
    let variance = rates.iter().map(|r| (r - mean).powi(2)).sum::<f64>() / n;
    (rates.len() >= 5 && mean > 0.0).then(|| variance.sqrt() / mean)
}

/// Share of responses that took as long as a delayed acknowledgement: by themselves, or from their first byte on, where
/// the median tells it of half of them.
fn acknowledged_late(outcome: &LoadOutcome) -> Option<f64> {
    let (_, from, to) = QUANTA[0];
    let whole = share_within(&outcome.response, from, to)?;
    let transfer = ms(&outcome.service, 0.5).zip(ms(&outcome.first_byte, 0.5));
    let half = transfer.is_some_and(|(whole, first)| (from..to).contains(&(whole - first)));
    Some(whole.max(if half { 0.5 } else { 0.0 }))
}

fn single_client(material: &Material<'_>, sheet: &mut Sheet<'_>) {
    let single_client = material.single_client();
    let reason = "no load of a single client was made, or it got no response";
    let of = |get: &dyn Fn(&LoadOutcome) -> Option<f64>| single_client.and_then(get);
    let values = [
        ("client.single_client_p50_ms", of(&|l| ms(&l.response, 0.5))),
        (
            "client.single_client_min_ms",
            of(&|l| Some(l.response.min()?.0 as f64 / 1e6)),
        ),
        (
            "client.single_client_mean_ms",
            of(&|l| l.response.mean_ns().map(|ns| ns / 1e6)),
        ),
        (
            "client.single_client_first_byte_p50_ms",
            of(&|l| ms(&l.first_byte, 0.5)),
        ),
        (
            "client.single_client_transfer_p50_ms",
            of(&|l| {
                let (whole, first) = (ms(&l.response, 0.5)?, ms(&l.first_byte, 0.5)?);
                Some((whole - first).max(0.0))
            }),
        ),
        (
            "client.single_client_quantum_40ms_share",
            of(&|l| acknowledged_late(l)),
        ),
        (
            "client.single_client_quantum_200ms_share",
            of(&|l| share_within(&l.response, QUANTA[1].1, QUANTA[1].2)),
        ),
    ];
    for (name, value) in values {
        sheet.maybe(name, value, SINGLE_CLIENT, reason);
    }
}

fn answer(material: &Material<'_>, sheet: &mut Sheet<'_>) {
    let answer = material.examination().and_then(|e| e.answer.as_ref());
    let reason = "no single response was examined";
    let received = sheet.value("client.received_bytes_per_request");
    match (answer, received) {
        (Some(answer), _) => sheet.known("client.answer_bytes", answer.body_bytes as f64, ANSWER),
        // The head is a few hundred bytes: near enough for what sizes decide.
        (None, bytes) => sheet.maybe("client.answer_bytes", bytes, LOAD, reason),
    }
    let has = |test: &dyn Fn(&Answer) -> bool| answer.map(|a| flag(test(a)));
    let values = [
        (
            "compressed",
            has(&|a| field(a, "content-encoding").is_some_and(|v| v != "identity")),
        ),
        ("closes", has(&closes)),
        (
            "chunked",
            has(&|a| field(a, "transfer-encoding").is_some_and(|v| v.contains("chunked"))),
        ),
        ("sets_cookie", has(&|a| field(a, "set-cookie").is_some())),
        (
            "forbids_caching",
            has(&|a| field(a, "cache-control").is_some_and(|v| forbids_caching(&v))),
        ),
        (
            "without_lifetime",
            has(&|a| !has_lifetime(|name| field(a, name))),
        ),
        (
            "varies_by_client",
            has(&|a| field(a, "vary").is_some_and(|v| varies_by_client(&v))),
        ),
        (
            "text",
            has(&|a| field(a, "content-type").is_some_and(|v| is_text(&v))),
        ),
    ];
    for (name, value) in values {
        let name = format!("client.answer_{name}");
        // What heads of watched traffic told stands.
        if value.is_some() || sheet.value(&name).is_none() {
            sheet.maybe(&name, value, ANSWER, reason);
        }
    }
}

fn field(answer: &Answer, name: &str) -> Option<String> {
    let mut headers = answer.headers.iter();
    let found = headers.find(|(n, _)| n.eq_ignore_ascii_case(name))?;
    Some(found.1.to_ascii_lowercase())
}

/// A request with such a field is one person's: caches pass it on (RFC 9111 3.5; Varnish for cookies too).
pub(super) fn is_personal(name: &str) -> bool {
    name.eq_ignore_ascii_case("cookie") || name.eq_ignore_ascii_case("authorization")
}

/// RFC 9111 5.2.2: what a shared cache may not keep, or has to ask for again every time.
pub(super) fn forbids_caching(cache_control: &str) -> bool {
    let told = cache_control
        .split(',')
        .map(|word| word.trim().to_ascii_lowercase());
    let forbids = ["no-store", "no-cache", "private", "max-age=0", "s-maxage=0"];
    told.into_iter()
        .any(|word| forbids.contains(&word.as_str()))
}

/// RFC 9111 4.2: how long a response stays fresh is said by it, or guessed by when it was last changed. `field` gives
/// the value of a field by its name in small letters.
pub(super) fn has_lifetime(field: impl Fn(&str) -> Option<String>) -> bool {
    let control = field("cache-control").unwrap_or_default();
    let control = control.to_ascii_lowercase();
    let said = ["max-age=", "s-maxage="]
        .iter()
        .any(|w| control.contains(w));
    said || ["expires", "last-modified", "etag"]
        .iter()
        .any(|name| field(name).is_some())
}

/// Fields of a request that differ from client to client: a response that varies by one is kept for each of them.
pub(super) fn varies_by_client(vary: &str) -> bool {
    let fields = vary.split(',').map(|word| word.trim().to_ascii_lowercase());
    let own = ["*", "cookie", "user-agent", "authorization", "referer"];
    fields
        .into_iter()
        .any(|field| own.contains(&field.as_str()))
}

/// RFC 9112 9.3: HTTP/1.0 closes unless it says keep-alive.
fn closes(answer: &Answer) -> bool {
    match field(answer, "connection") {
        Some(value) if value.contains("close") => true,
        Some(value) if value.contains("keep-alive") => false,
        _ => answer.version == "HTTP/1.0",
    }
}

/// Types that compress well.
fn is_text(content_type: &str) -> bool {
    let words = ["text/", "json", "javascript", "xml", "svg", "wasm"];
    words.iter().any(|word| content_type.contains(word))
}
