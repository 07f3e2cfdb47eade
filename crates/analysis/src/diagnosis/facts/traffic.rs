//! What the server's side tells of traffic that was there, where no load of ours was made.
//!
//! The rate comes from a short pass with probes that counts requests. Where the server is full, probes slow it: then a
//! counter that ran through that pass and through the window of observation carries the count to the window.
//! The time of a turn comes from the trace of turns; without it from Little's law, because the kernel tells of every
//! connection when data came last and when it was sent last: one to which data came later has a request open.
//! The surprise: what only a client knows (its own queue, how its connections fared) does not apply and is never 0.

use super::{Material, Sheet, flag};
use crate::diagnosis::fact::Reading;
use crate::ledger::Service;
use crate::observed::{Window, named};
use crate::stats::share;
use record::{CallStats, FdClass, HeadSeen, TargetSignature, TargetTurns, Watching};

const COUNTED: &str = "requests that the probes counted, carried to the window by TCP segments";
const COUNTED_ALONE: &str = "requests that the probes counted, in the time in which they did";
const HEADS: &str = "heads of responses, as the server wrote them";
const CALLS: &str = "signature: calls and TCP events of its clients' connections";
const TURNS: &str = "turns: from a request's first byte to the last write of its response";
const SERVED: &str = "turns: mean time of a request less its waits for others (Little's law)";
const LITTLE: &str =
    "open requests by sock_diag / rate (Little's law); shorter times than 4 ms do not show";
/// Fewer heads than this say nothing about shares; the probes look at the first 256 and then at every 64th.
const FEWEST_HEADS: u64 = 16;
/// With more of the time of requests than this where no thread shows it, what one alone would take cannot be told.
const MOST_HIDDEN: f64 = 0.3;
/// Below this share of their time requests do not stand at upstreams themselves.
const HARDLY_ASKED: f64 = 0.1;
/// Turns with upstreams for a request up to which it asks one, and some again.
const MOST_ASKED_ONCE: f64 = 1.2;
/// A connection that is busy for this share of the time is taken again as soon as it is free.
const NEVER_FREE: f64 = 0.9;
/// Requests that are there, as a multiple of the connections to upstreams, from which on some wait for one.
const MORE_THAN_CONNECTIONS: f64 = 1.3;
/// From so many on they say what requests mostly are.
const FEWEST_ALIKE: u64 = 4;
/// A worker that runs or wants to run for this share of the time is slower with probes.
const FULL: f64 = 0.85;
/// Slices of the window over which the spread of the rate is taken.
const SLICES: u64 = 20;
/// The kernel keeps the times of a connection in ticks: a shorter turn begins and ends in one.
const RESOLUTION_MS: f64 = 4.0;

/// Of the 4xx, those with which a server's own limits answer: a time, a size or a rate was exceeded.
const LIMITS: [u16; 4] = [408, 413, 429, 431];

/// Connections that are accepted for a request, below which those that wait for it are always the same ones.
const ACCEPTED: f64 = 0.01;
const OURS: &str = "no load of ours was made";
const CLIENTS: &str = "only the clients know it, and no load of ours was made";

/// Requests of the window of observation.
pub(super) fn requests(material: &Material<'_>) -> Option<(f64, &'static str)> {
    let watching = material.watching()?;
    let signature = material.examination()?.signature.as_ref()?;
    let counted = signature.requests as f64;
    let window = Window::spanning(watching.window).seconds();
    if counted < super::turns::FEWEST as f64
        && let Some(rate) = material.turns_per_s()
    {
        return Some((rate * window, TURNS));
    }
    if counted == 0.0 {
        return None;
    }
    let pass = watching.counted.map(Window::spanning);
    let segments = |w: &Window| w.grown(&material.trial.series, "tcp.out_segs");
    let carried = pass.and_then(|pass| {
        let then = segments(&pass).filter(|n| *n > 0.0)?;
        share(segments(&Window::spanning(watching.window))?, then)
    });
    // A server with room takes what comes, probes or not; the segments are those of whole network namespaces, so they
    // serve only where probes can have slowed it.
    let busiest = material.observed.as_ref().and_then(|o| o.tasks.first());
    let full = busiest.is_some_and(|task| task.demand() >= FULL);
    if let Some(ratio) = carried.filter(|_| full) {
        return Some((counted * ratio, COUNTED));
    }
    let seconds = signature.window_ns as f64 / 1e9;
    share(window, seconds).map(|ratio| (counted * ratio, COUNTED_ALONE))
}

/// The facts about the client, as far as the server's side tells them.
pub(super) fn client(material: &Material<'_>, watching: &Watching, sheet: &mut Sheet<'_>) {
    let seen = Seen::of(material);
    rates(material, watching, &seen, sheet);
    connections(&seen, sheet);
    statuses(&seen, sheet);
    times(&seen, sheet);
    request(material, &seen, sheet);
    for name in ["generator_utilization", "achieved_of_offered", "open_loop"] {
        sheet.not_applicable(&format!("client.{name}"), OURS);
    }
    for name in ["fairness", "pipeline", "streams_allowed"] {
        sheet.not_applicable(&format!("client.{name}"), CLIENTS);
    }
    let name = "client.asked_requests_per_connection";
    sheet.not_applicable(name, OURS);
    for name in [
        "connect_p50_ms",
        "connect_max_ms",
        "transfer_p50_ms",
        "connect_quantum_1s_share",
        "connect_quantum_3s_share",
        "queueing_ratio",
        "effective_parallelism",
        "parallel_share",
    ] {
        sheet.unknown(&format!("client.{name}"), CLIENTS);
    }
}

/// What of the record is about the clients of the server in front.
struct Seen<'a> {
    requests: Option<(f64, &'static str)>,
    counted: Option<f64>,
    signature: Option<&'a TargetSignature>,
    turns: Option<&'a TargetTurns>,
    open: Option<f64>,
    https: bool,
}

impl<'a> Seen<'a> {
    fn of(material: &Material<'a>) -> Self {
        let front = material.front();
        let signature = front.as_deref().and_then(|front| material.signature(front));
        let turns = front.as_deref().and_then(|front| material.turns(front));
        let connections = front.as_deref().and_then(|front| {
            let mut all = named(&material.trial.series, "socket.connections");
            let found = all
                .find(|s| s.label("target") == Some(front) && s.label("class") == Some("client"))?;
            material.mean_of(found)
        });
        Self {
            requests: requests(material),
            counted: material.signature_requests(),
            signature,
            turns,
            open: connections,
            https: material.trial.load.is_tls(),
        }
    }

    fn heads(&self, kind: &'static str) -> impl Iterator<Item = &'a HeadSeen> + use<'a> {
        let heads = self.signature.and_then(|s| s.heads.as_deref());
        let heads = heads.unwrap_or_default().iter();
        heads.filter(move |h| h.class == FdClass::Client && h.kind == kind)
    }

    /// Share of the heads of this kind that fit; `None` for too few.
    fn head_share(&self, kind: &'static str, test: impl Fn(&HeadSeen) -> bool) -> Option<f64> {
        self.share_of(kind, FEWEST_HEADS, |_| true, test)
    }

    /// The same where only what most of them are is asked for.
    fn mostly(&self, kind: &'static str, test: impl Fn(&HeadSeen) -> bool) -> Option<f64> {
        let share = self.share_of(kind, FEWEST_ALIKE, |_| true, test);
        share.map(|s| flag(s >= 0.5))
    }

    /// The same of a field: a head without its end may have one that was not seen.
    fn told(
        &self,
        kind: &'static str,
        field: &str,
        test: impl Fn(&HeadSeen) -> bool,
    ) -> Option<f64> {
        let share = self.share_of(kind, FEWEST_ALIKE, |h| h.tells(field), test);
        share.map(|s| flag(s >= 0.5))
    }

    fn share_of(
        &self,
        kind: &'static str,
        fewest: u64,
        of: impl Fn(&HeadSeen) -> bool,
        test: impl Fn(&HeadSeen) -> bool,
    ) -> Option<f64> {
        let heads = || self.heads(kind).filter(|h| of(h));
        let all: u64 = heads().map(|h| h.seen).sum();
        let fitting: u64 = heads().filter(|h| test(h)).map(|h| h.seen).sum();
        (all >= fewest).then(|| fitting as f64 / all as f64)
    }

    /// Bytes that its calls wrote to clients.
    fn written(&self) -> Option<f64> {
        let to_client = |c: &&CallStats| {
            let writes = ["write", "send", "pwrite", "splice"];
            c.class == FdClass::Client && writes.iter().any(|w| c.call.starts_with(w))
        };
        let calls = self.signature?.calls.as_deref()?.iter();
        let bytes: u64 = calls.filter(to_client).map(|c| c.bytes).sum();
        (bytes > 0).then_some(bytes as f64)
    }
}

fn rates(material: &Material<'_>, watching: &Watching, seen: &Seen<'_>, sheet: &mut Sheet<'_>) {
    let reason = material.reason(
        &["probes", "signature", "system calls"],
        "no request was counted: probes saw none on the connections of its clients",
    );
    let window = Window::spanning(watching.window);
    let source = seen.requests.map_or("", |(_, source)| source);
    let requests = seen.requests.map(|(n, _)| n);
    let seconds = Some(window.seconds());
    sheet.divided("client.rate_per_s", requests, seconds, source, &reason);
    let bytes = match seen.turns.filter(|t| t.account.turns > 0) {
        Some(turns) => Some(turns.written_bytes as f64 / turns.account.turns as f64),
        None => seen.written().zip(seen.counted).map(|(b, n)| b / n),
    };
    let unsized_ = "no bytes were seen to be written to clients";
    let name = "client.received_bytes_per_request";
    sheet.maybe(name, bytes, CALLS, unsized_);
    let spread = spread(material, &window);
    let few = "the TCP counters were not watched";
    let source = "segments sent in slices of the window";
    sheet.maybe("client.rate_spread", spread, source, few);
}

/// Standard deviation / mean of the segments sent, over slices of the window.
fn spread(material: &Material<'_>, window: &Window) -> Option<f64> {
    let slice = window.to.since(window.from).0 / SLICES;
    let grown: Option<Vec<f64>> = (0..SLICES)
        .map(|i| {
            let from = record::Nanos(window.from.0 + i * slice);
            let part = Window {
                from,
                to: record::Nanos(from.0 + slice),
            };
            part.grown(&material.trial.series, "tcp.out_segs")
        })
        .collect();
    let grown = grown?;
    let mean = grown.iter().sum::<f64>() / grown.len() as f64;
    let variance = grown.iter().map(|g| (g - mean).powi(2)).sum::<f64>() / grown.len() as f64;
    (mean > 0.0).then(|| variance.sqrt() / mean)
}

fn connections(seen: &Seen<'_>, sheet: &mut Sheet<'_>) {
    let unprobed = "connections of its clients were not probed";
    let none = "its clients' connections were not sampled";
    sheet.maybe("client.connections", seen.open, "sock_diag", none);
    // A class without an event is not listed: it was watched, and nothing happened.
    let sockets = seen.signature.and_then(|s| s.sockets.as_deref());
    let of_client = |of: &dyn Fn(&record::SocketStats) -> u64| {
        let found = |all: &[record::SocketStats]| {
            let clients = all.iter().filter(|s| s.class == FdClass::Client);
            clients.map(of).sum::<u64>() as f64
        };
        sockets.map(found)
    };
    let opened = of_client(&|s| s.established);
    let closed = of_client(&|s| s.closed_by_us);
    for (last, part) in [
        ("connects_per_request", opened),
        ("closed_by_server_per_request", closed),
    ] {
        let name = format!("client.{last}");
        sheet.divided(&name, part, seen.counted, CALLS, unprobed);
    }
    // Whether they had been connected before.
    sheet.unknown("client.reconnects_per_request", CLIENTS);
    let name = "client.requests_per_connection";
    sheet.divided(name, seen.counted, opened, CALLS, unprobed);
    match seen.https {
        true => {
            for name in [
                "tls_full_per_request",
                "tls_handshakes_per_request",
                "tls_resumed_share",
                "tls_handshake_ms",
            ] {
                sheet.unknown(&format!("client.{name}"), CLIENTS);
            }
        }
        false => {
            for name in [
                "tls_full_per_request",
                "tls_handshakes_per_request",
                "tls_resumed_share",
                "tls_handshake_ms",
            ] {
                sheet.not_applicable(
                    &format!("client.{name}"),
                    "the traffic is not known to use TLS",
                );
            }
        }
    }
}

fn statuses(seen: &Seen<'_>, sheet: &mut Sheet<'_>) {
    let none = "too few heads of HTTP/1 responses were seen in what it wrote to clients (TLS, HTTP/2, or no probes)";
    let within = |from: u16, to: u16| {
        seen.head_share("response", |h| {
            h.what
                .parse::<u16>()
                .is_ok_and(|s| (from..=to).contains(&s))
        })
    };
    // What people ask for that is not there is their affair; what a limit of the server refuses is not.
    let refused = |status: u16| status >= 500 || LIMITS.contains(&status);
    let failed = seen.head_share("response", |h| h.what.parse::<u16>().is_ok_and(refused));
    sheet.maybe("client.errors_share", failed, HEADS, none);
    for (name, from, to) in [
        ("status_4xx", 400, 499),
        ("status_5xx", 500, 599),
        ("status_413", 413, 413),
        ("status_429", 429, 429),
        ("status_502", 502, 502),
        ("status_503", 503, 503),
        ("status_504", 504, 504),
        ("failed.status4xx", 400, 499),
        ("failed.status5xx", 500, 599),
    ] {
        let name = format!("client.{name}_share");
        sheet.maybe(&name, within(from, to), HEADS, none);
    }
    let reading = Reading::Unknown(CLIENTS.to_owned());
    sheet.family("client.failed.*", reading, "");
}

fn times(seen: &Seen<'_>, sheet: &mut Sheet<'_>) {
    let lengths = seen.turns.and_then(|t| t.lengths.as_ref());
    let untraced = "turns were not traced, and no load of ours was made";
    let quantile = |q: f64| lengths?.quantile(q).map(|n| n.0 as f64 / 1e6);
    for (name, q) in [("p50", 0.5), ("p99", 0.99)] {
        sheet.maybe(&format!("client.{name}_ms"), quantile(q), TURNS, untraced);
    }
    let mean = seen.turns.and_then(turn_ms);
    sheet.maybe("client.mean_ms", mean, TURNS, untraced);
    for (name, from, to) in &super::client::QUANTA[..3] {
        let share = lengths.and_then(|l| super::client::share_within(l, *from, *to));
        sheet.maybe(
            &format!("client.quantum_{name}_share"),
            share,
            TURNS,
            untraced,
        );
    }
}

/// Mean length of the turns that were traced.
fn turn_ms(turns: &TargetTurns) -> Option<f64> {
    let account = &turns.account;
    share(account.total_ns as f64 / 1e6, account.turns as f64)
}

/// What the clients ask for.
fn request(material: &Material<'_>, seen: &Seen<'_>, sheet: &mut Sheet<'_>) {
    let none = "too few heads of HTTP/1 requests were seen in what it read from clients";
    let old = seen.mostly("request", |h| h.version == "HTTP/1.0");
    sheet.maybe("client.http10", old, HEADS, none);
    let kept = seen.told("request", "connection", |h| !h.closes());
    let per_connection = sheet.value("client.requests_per_connection");
    let ended = sheet.value("client.closed_by_server_per_request");
    let by_server = per_connection
        .zip(ended)
        .is_some_and(|(n, ended)| n < 2.0 && ended * n >= 0.5);
    let kept = kept.or_else(|| Some(flag(per_connection? >= 2.0)).filter(|_| !by_server));
    match kept {
        None if by_server => {
            let reason = "no head was seen, and the server ends what carried one request";
            sheet.not_applicable("client.asked_keepalive", reason);
        }
        _ => sheet.maybe("client.asked_keepalive", kept, HEADS, none),
    }
    // A head that could be read was not encrypted.
    let plain = seen.mostly("request", |_| true).map(|_| 0.0);
    let tls = if seen.https { Some(1.0) } else { plain };
    sheet.maybe("client.tls", tls, HEADS, none);
    let length = |h: &HeadSeen| {
        let field = h.headers.get("content-length")?;
        field.trim().parse::<f64>().ok()
    };
    let (bytes, all) = seen.heads("request").fold((0.0, 0), |(bytes, all), h| {
        (
            bytes + length(h).unwrap_or(0.0) * h.seen as f64,
            all + h.seen,
        )
    });
    let personal = seen.told("request", "cookie", |h| {
        h.headers
            .keys()
            .any(|name| super::client::is_personal(name))
    });
    sheet.maybe("client.asked_personally", personal, HEADS, none);
    let mean = (all >= FEWEST_ALIKE).then(|| bytes / all as f64);
    sheet.maybe("client.request_body_bytes", mean, HEADS, none);
    if material.examination().is_some_and(|e| e.answer.is_some()) {
        return;
    }
    let compressed = seen.told("response", "content-encoding", |h| {
        let encoding = h.headers.get("content-encoding");
        encoding.is_some_and(|v| v != "identity")
    });
    let closed = seen.told("response", "connection", HeadSeen::closes);
    let field = |name: &'static str, test: fn(&str) -> bool| {
        seen.told("response", name, |h| {
            h.headers.get(name).is_some_and(|v| test(v))
        })
    };
    let chunked = field("transfer-encoding", |v| {
        v.to_ascii_lowercase().contains("chunked")
    });
    let cookie = field("set-cookie", |_| true);
    let forbidden = field("cache-control", super::client::forbids_caching);
    let varies = field("vary", super::client::varies_by_client);
    let endless = seen.told("response", "last-modified", |h| {
        !super::client::has_lifetime(|name| h.headers.get(name).cloned())
    });
    for (name, share) in [
        ("without_lifetime", endless),
        ("sets_cookie", cookie),
        ("forbids_caching", forbidden),
        ("varies_by_client", varies),
        ("compressed", compressed),
        ("closes", closed),
        ("chunked", chunked),
    ] {
        sheet.maybe(&format!("client.answer_{name}"), share, HEADS, none);
    }
}

const NAMES: [&str; 6] = [
    "traffic.open_requests",
    "traffic.turn_mean_ms",
    "traffic.pause_ms",
    "traffic.pause_share",
    "traffic.rest_ms",
    "traffic.explained_share",
];

/// Facts of watched traffic alone. Looks at the facts of the server in front, so it comes last.
pub(super) fn extract(material: &Material<'_>, sheet: &mut Sheet<'_>) {
    let Some(watching) = material.watching() else {
        sheet.known("traffic.watched", 0.0, "load");
        for name in NAMES {
            sheet.not_applicable(name, "a load was made, and its client tells");
        }
        return;
    };
    sheet.known("traffic.watched", 1.0, "the window of observation");
    let front = material.front().unwrap_or_default();
    let seen = Seen::of(material);
    let window = Window::spanning(watching.window);
    let mean = |signal: &str| {
        let mut all = named(&material.trial.series, signal);
        let found =
            all.find(|s| s.label("target") == Some(&front) && s.label("class") == Some("client"))?;
        material.mean_of(found)
    };
    let unsampled = "its clients' connections were not sampled";
    let open = mean("socket.open_requests");
    sheet.maybe("traffic.open_requests", open, "sock_diag", unsampled);
    let rate = seen.requests.map(|(n, _)| n / window.seconds());
    let little = open
        .zip(rate.filter(|r| *r > 0.0))
        .map(|(n, r)| n / r * 1e3);
    let traced = seen.turns.and_then(turn_ms);
    let turn = traced.or(little);
    let source = if traced.is_some() { TURNS } else { LITTLE };
    let untold = "neither turns were traced nor requests counted";
    sheet.maybe("traffic.turn_mean_ms", turn, source, untold);
    pauses(material.turns(&front), turn, sheet);
    let examination = material.examination();
    let service = examination.and_then(|e| crate::ledger::service(e, &front));
    explained(&front, turn, traced.is_some(), service.as_ref(), sheet);
    let full = pool_is_full(&front, turn, sheet).unwrap_or(false);
    let service = service.map(|s| if full { s.behind_a_full_pool() } else { s });
    let asked_ns = asked_ms(&front, sheet).map_or(0.0, |ms| ms * 1e6);
    let service = service.map(|s| s.asking_for(asked_ns));
    unanswered(&front, sheet);
    served(&front, service.as_ref(), sheet);
}

/// Connections that stand in the listen queue in every sample, while hardly any is accepted, got no response.
fn unanswered(front: &str, sheet: &mut Sheet<'_>) {
    let view = sheet.set.view(front);
    let accepted = view.value("accept.per_request");
    let waiting = view.value("listen.queue_least").zip(accepted);
    let waiting = waiting.map(|(least, accepted)| if accepted < ACCEPTED { least } else { 0.0 });
    let all = view.value("client.connections");
    let waiting = waiting.zip(all).map(|(n, all)| n.min(all));
    let untold = "its listen queue or what it accepts was not seen";
    sheet.divided("client.unanswered_share", waiting, all, "sock_diag", untold);
}

/// How long connections rest between a response and the next request, which is their clients' own time and that of the
/// way, and between the last response and their end.
fn pauses(turns: Option<&TargetTurns>, turn_ms: Option<f64>, sheet: &mut Sheet<'_>) {
    let few = "too few connections asked again while their turns were traced";
    let again = turns.map(|t| (t.account.turns.saturating_sub(t.connections), t.between_ns));
    let again = again.filter(|(again, _)| *again >= FEWEST_HEADS);
    let pause = again.map(|(again, ns)| ns as f64 / again as f64 / 1e6);
    sheet.maybe("traffic.pause_ms", pause, TURNS, few);
    let share = pause.zip(turn_ms).map(|(p, t)| p / (p + t));
    sheet.maybe("traffic.pause_share", share, TURNS, few);
    let few = "too few connections ended while their turns were traced";
    let rested = turns.filter(|t| t.rested >= FEWEST_HEADS);
    let rest = rested.map(|t| t.rested_ns as f64 / t.rested as f64 / 1e6);
    sheet.maybe("traffic.rest_ms", rest, TURNS, few);
}

/// What the one upstream that a request asks takes of its time, where others than the request's thread ask it; `None`
/// where it asks none or several.
fn asked_ms(front: &str, sheet: &Sheet<'_>) -> Option<f64> {
    let view = sheet.set.view(front);
    if view.value("turn.upstream_share")? >= HARDLY_ASKED {
        return None;
    }
    let turns = view.value("upstream.requests_per_request")?;
    let ms = view.value("upstream.answer_ms_mean")?;
    (turns <= MOST_ASKED_ONCE).then_some(ms * turns.min(1.0))
}

/// Whether the connections to the upstreams are never free while more requests are there than connections; `None`
/// where that is not known.
fn pool_is_full(front: &str, turn_ms: Option<f64>, sheet: &Sheet<'_>) -> Option<bool> {
    let view = sheet.set.view(front);
    let busy = view.value("upstream.connections_busy_share")?;
    let connections = view.value("upstream.connections")?;
    let open = sheet.value("client.rate_per_s")? * turn_ms? / 1e3;
    Some(busy >= NEVER_FREE && open >= MORE_THAN_CONNECTIONS * connections)
}

/// What a load of a single client would have shown, and how many requests are served at a time: by Little's law from
/// where the requests stand that were traced. One that waits on a connection that nobody accepts is never traced, and
/// waits all the same.
fn served(front: &str, service: Option<&Service>, sheet: &mut Sheet<'_>) {
    let few = "too few turns were traced, or most of their time is on no thread that was seen";
    let known = service.filter(|s| {
        let whole = s.alone_ns + s.sending_ns + s.queued_ns + s.hidden_ns;
        whole > 0.0 && s.hidden_ns <= MOST_HIDDEN * whole
    });
    let first = known.map(|s| s.alone_ns / s.turns / 1e6);
    let last = known.map(|s| s.sending_ns / s.turns / 1e6);
    let alone = first.zip(last).map(|(a, b)| a + b);
    for (name, value) in [
        ("single_client_mean_ms", alone),
        ("single_client_p50_ms", alone),
        ("single_client_first_byte_p50_ms", first),
        ("single_client_transfer_p50_ms", last),
    ] {
        sheet.maybe(&format!("client.{name}"), value, SERVED, few);
    }
    let rate = sheet.value("client.rate_per_s");
    let parallel = rate.zip(alone).map(|(rate, ms)| rate * ms / 1e3);
    sheet.maybe("client.effective_parallelism", parallel, SERVED, few);
    let both = known.map(|s| (s.alone_ns + s.sending_ns, s.queued_ns));
    let never = sheet.set.view(front).value("client.unanswered_share");
    let taken = 1.0 - never.unwrap_or(0.0);
    let share = both.map(|(alone, queued)| taken * alone / (alone + queued));
    sheet.maybe("client.parallel_share", share, SERVED, few);
    let ratio = share.filter(|s| *s > 0.0).map(|s| 1.0 / s);
    sheet.maybe("client.queueing_ratio", ratio, SERVED, few);
}

/// What of a turn is the server's own work or a wait that was seen. A turn that is too short for the clock is taken to
/// be explained.
fn explained(
    front: &str,
    turn: Option<f64>,
    traced: bool,
    service: Option<&Service>,
    sheet: &mut Sheet<'_>,
) {
    let name = "traffic.explained_share";
    // A queue for a thread or a place in the process does not explain itself.
    let view = sheet.set.view(front);
    let queues = [
        "listen_queue",
        "read_paused",
        "no_free_thread",
        "others_blocked",
    ];
    let queues = queues.map(|place| view.value(&format!("turn.{place}_share")).unwrap_or(0.0));
    let seen = service.and_then(|s| {
        let whole = s.alone_ns + s.sending_ns + s.queued_ns + s.client_ns + s.hidden_ns;
        let hidden = share(s.hidden_ns, whole)?;
        Some(1.0 - hidden - queues.iter().sum::<f64>())
    });
    let own = own_ms(front, sheet);
    let (Some(turn), Some(own)) = (turn, own) else {
        sheet.unknown(name, "the time of a turn, or the work in it, is not known");
        return;
    };
    let least = if traced { 0.0 } else { RESOLUTION_MS };
    let share = if turn <= least {
        1.0
    } else {
        (own / turn).min(1.0)
    };
    match seen.filter(|seen| *seen > share) {
        Some(seen) => sheet.known(
            name,
            seen,
            "turns: what they did and waited for / mean turn",
        ),
        None => sheet.known(name, share, "CPU time, waits and upstreams / mean turn"),
    }
}

/// Time of a request that the server's side accounts for, ms: CPU, named waits, upstreams.
pub(super) fn own_ms(front: &str, sheet: &Sheet<'_>) -> Option<f64> {
    let view = sheet.set.view(front);
    let cpu = view.value("cpu.us_per_request")? / 1e3;
    let waits = super::blocked::WAITS
        .iter()
        .filter_map(|reason| view.value(&format!("blocked.{reason}_us_per_request")));
    let turns = view.value("upstream.requests_per_request");
    let upstream = view.value("upstream.wait_ms_mean").zip(turns);
    let upstream = upstream.map_or(0.0, |(ms, n)| ms * n);
    // A thread that waits for its upstream is blocked and in a turn at once.
    let blocked = view.value("blocked.upstream_us_per_request").unwrap_or(0.0) / 1e3;
    Some(cpu + waits.sum::<f64>() / 1e3 + (upstream - blocked).max(0.0))
}
