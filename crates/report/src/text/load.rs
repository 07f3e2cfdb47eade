//! One load for a terminal: what a wrk user expects, with asked beside actual and response beside service.

use super::style::Style;
use super::table::{columns, names};
use super::{verdict_text, warnings_text};
use analysis::words::{count, percent, plural, rate};
use analysis::{LatencySummary, Verdict};
use record::workload::Order;
use record::{
    Bytes, EventStreams, FailureKind, Histogram, Http, Interval, LoadOutcome, LoadSpec, Nanos,
    Precision, RatePieces, ThreadCost,
};

/// The result of one load. The verdict is on the first line, then asked and actual, latencies, errors, bytes,
/// the generator's own cost, warnings.
pub fn load_text(
    spec: &LoadSpec,
    outcome: &LoadOutcome,
    verdict: &Verdict,
    style: Style,
) -> String {
    let sections = [
        verdict_text(verdict, style),
        asked_for(spec) + &columns(&asked_and_actual(spec, outcome), names(3)),
        columns(&latencies(spec, outcome), names(1)),
        columns(&by_request(outcome), names(1)),
        columns(&by_piece(spec, outcome), names(1)),
        columns(&failed_checks(outcome), names(2)),
        columns(&counts(spec, outcome), names(2)),
        columns(&generator(spec, outcome), names(2)),
        stack(spec, outcome, style),
        warnings_text(&outcome.warnings, style),
    ];
    let shown: Vec<String> = sections.into_iter().filter(|s| !s.is_empty()).collect();
    shown.join("\n")
}

/// The request, or what the workload holds.
fn asked_for(spec: &LoadSpec) -> String {
    let way = way(spec);
    match &spec.workload {
        None if spec.sse => format!("events of {} {}{way}\n", spec.method, spec.url),
        None if spec.is_websocket() => format!("messages to {}{way}\n", spec.url),
        None => format!("{} {}{way}\n", spec.method, spec.url),
        Some(workload) => {
            let n = workload.requests.len() as u64;
            let what = match workload.order {
                Order::Mix => plural(n, "kind") + " of requests",
                Order::Session => "sessions of ".to_owned() + &plural(n, "step"),
            };
            format!("{what} to {}{way}\n", spec.url)
        }
    }
}

/// What is between the generator and the server by request.
fn way(spec: &LoadSpec) -> String {
    let proxy = spec.proxy.iter();
    proxy
        .map(|proxy| format!(" through the proxy {proxy}"))
        .collect()
}

/// The counters of a TCP in user space that are not zero.
fn stack(spec: &LoadSpec, outcome: &LoadOutcome, style: Style) -> String {
    let counters = crate::json::load_stack(spec, outcome).map(|stack| stack.counters);
    counters.map_or_else(String::new, |rows| {
        crate::traffic::counters_text(&rows, style)
    })
}

fn row(cells: &[&str]) -> Vec<String> {
    cells.iter().map(|&cell| cell.to_owned()).collect()
}

fn asked_and_actual(spec: &LoadSpec, outcome: &LoadOutcome) -> Vec<Vec<String>> {
    let connections = &outcome.connections;
    let mut rows = vec![
        row(&["", "asked", "actual"]),
        row(&[
            "connections",
            &count(u64::from(spec.connections)),
            &format!(
                "{} open at most, {} opened{}",
                count(u64::from(connections.peak_open)),
                count(connections.opened),
                tls(outcome)
            ),
        ]),
    ];
    if spec.http == Http::Two {
        let actual = outcome.connections.streams_allowed.unwrap_or(spec.streams);
        let [asked, actual] =
            [spec.streams, actual].map(|n| plural(u64::from(n), "stream") + " each");
        rows.push(row(&["HTTP/2", &asked, &actual]));
    }
    rows.extend(streams_row(spec, outcome));
    rows.extend(limit_row(spec, outcome));
    rows.push(row(&["duration", &duration(spec), &measured(outcome)]));
    if let Some(n) = spec.requests {
        let succeeded = count(outcome.requests.completed);
        rows.push(row(&[what(spec), &count(n), &succeeded]));
    }
    rows.extend(rate_row(spec, outcome));
    rows.extend(handshake_rows(spec, outcome));
    rows
}

/// The streams of a load of events.
fn streams_row(spec: &LoadSpec, outcome: &LoadOutcome) -> Option<Vec<String>> {
    let streams = outcome.event_streams.as_ref()?;
    let mut actual = format!(
        "{} open at the end, {} opened",
        count(streams.open),
        count(streams.opened)
    );
    for (n, fate) in [
        (streams.ended, "ended by the server"),
        (streams.reopened, "opened anew"),
    ] {
        if n > 0 {
            actual += &format!(", {} {fate}", count(n));
        }
    }
    let asked = count(u64::from(spec.connections));
    Some(row(&["event streams", &asked, &actual]))
}

/// What each connection was limited to, and what it carried on average.
fn limit_row(spec: &LoadSpec, outcome: &LoadOutcome) -> Option<Vec<String>> {
    let asked = format!("{}/s each", spec.limit_rate?);
    let each = |bytes: u64| {
        let per_s = bytes as f64 / outcome.measured().as_secs_f64();
        Bytes((per_s / f64::from(spec.connections)) as u64)
    };
    let actual = match outcome.measured() {
        Nanos(0) => "none".to_owned(),
        _ => format!(
            "{}/s received, {}/s sent",
            each(outcome.received_bytes),
            each(outcome.sent_bytes)
        ),
    };
    Some(row(&["bandwidth", &asked, &actual]))
}

/// A span for people who typed it: whole seconds as `10s`.
fn time(span: Nanos) -> String {
    match span.0 {
        ns if ns > 0 && ns.is_multiple_of(Nanos::SECOND.0) => format!("{}s", ns / Nanos::SECOND.0),
        _ => span.to_string(),
    }
}

fn measured(outcome: &LoadOutcome) -> String {
    let time = time(outcome.measured());
    if outcome.interrupted {
        format!("{time}, interrupted")
    } else {
        time
    }
}

fn duration(spec: &LoadSpec) -> String {
    let asked = spec.duration.map_or_else(|| "-".to_owned(), time);
    match spec.warmup {
        Nanos(0) => asked,
        warmup => format!("{asked} after {} of warm-up", time(warmup)),
    }
}

fn tls(outcome: &LoadOutcome) -> String {
    let connections = &outcome.connections;
    let mut text = match connections.tls_full + connections.tls_resumed {
        0 => return String::new(),
        _ => format!(
            ", TLS handshakes {} full, {} resumed",
            count(connections.tls_full),
            count(connections.tls_resumed)
        ),
    };
    if !connections.alpn.is_empty() {
        text += &format!(", ALPN {}", connections.alpn);
    }
    text
}

/// A closed loop without a success has no line; an open one says what was offered.
fn rate_row(spec: &LoadSpec, outcome: &LoadOutcome) -> Option<Vec<String>> {
    let offered = spec.arrival.offered_per_s();
    let achieved = outcome.achieved_per_s();
    if offered.is_none() && achieved.is_none() {
        return None;
    }
    let wait = match spec.precision {
        Precision::Hybrid => "",
        Precision::Sleep => ", by sleeping",
        Precision::Spin => ", by spinning",
    };
    let asked = offered.map_or_else(
        || match spec.sse {
            true => "the server's".to_owned(),
            false => "closed loop".to_owned(),
        },
        |r| match spec.rate_pieces.is_empty() {
            true if spec.timetable.is_some() => {
                format!("as listed ({}/s on average){wait}", rate(r))
            }
            true => format!("{}/s{wait}", rate(r)),
            false => format!("{} ({}/s on average){wait}", spec.rate_pieces, rate(r)),
        },
    );
    let mut actual = achieved.map_or_else(|| "none".to_owned(), |r| format!("{}/s", rate(r)));
    let streams = crate::json::event_streams(outcome).and_then(|s| s.events_per_s);
    if let Some(each) = streams {
        actual += &format!(
            ", {}/s a stream (the least {}/s, the most {}/s)",
            rate(each.mean),
            rate(each.min),
            rate(each.max)
        );
    }
    Some(row(&["rate", &asked, &actual]))
}

/// Where connections are part of the load: how many handshakes a second that is.
fn handshake_rows(spec: &LoadSpec, outcome: &LoadOutcome) -> Vec<Vec<String>> {
    let connections = &outcome.connections;
    let loaded_s = outcome.measured_to.since(outcome.started_at).as_secs_f64();
    if spec.requests_per_connection.is_none() || loaded_s <= 0.0 {
        return Vec::new();
    }
    let upgrades = if spec.is_websocket() {
        connections.opened
    } else {
        0
    };
    let kinds = [
        (
            "TLS handshakes",
            connections.tls_full + connections.tls_resumed,
        ),
        ("WebSocket handshakes", upgrades),
    ];
    let made = kinds.into_iter().filter(|(_, handshakes)| *handshakes > 0);
    made.map(|(name, handshakes)| {
        let per_s = format!("{}/s", rate(handshakes as f64 / loaded_s));
        row(&[name, "", &per_s])
    })
    .collect()
}

/// What is counted as a request.
fn what(spec: &LoadSpec) -> &'static str {
    if spec.is_websocket() {
        "messages"
    } else if spec.sse {
        "events"
    } else {
        "requests"
    }
}

fn latencies(spec: &LoadSpec, outcome: &LoadOutcome) -> Vec<Vec<String>> {
    if let Some(streams) = &outcome.event_streams {
        return event_times(streams, outcome);
    }
    if outcome.response.count() == 0 {
        return Vec::new();
    }
    let per_request = spec.requests_per_connection.is_some();
    let connect = per_request || outcome.connections.tls_full > 0;
    let mut rows = vec![row(&TIMES)];
    rows.extend(latency_row("response time", &outcome.response));
    rows.extend(latency_row("service time", &outcome.service));
    rows.extend(latency_row("first byte", &outcome.first_byte));
    rows.extend(
        connect
            .then(|| latency_row("connect", &outcome.connect))
            .flatten(),
    );
    rows
}

const TIMES: [&str; 9] = [
    "", "min", "mean", "p50", "p90", "p99", "p99.9", "max", "stddev",
];

/// What is known of the times of events: their latency is not.
fn event_times(streams: &EventStreams, outcome: &LoadOutcome) -> Vec<Vec<String>> {
    let named = [
        ("gap between events", &streams.gap),
        ("first event", &streams.first_event),
        ("first byte", &outcome.first_byte),
        ("connect", &outcome.connect),
    ];
    let rows: Vec<_> = named
        .into_iter()
        .filter_map(|(name, times)| latency_row(name, times))
        .collect();
    match rows.is_empty() {
        true => rows,
        false => std::iter::once(row(&TIMES)).chain(rows).collect(),
    }
}

/// The requests of a workload, each by itself.
fn by_request(outcome: &LoadOutcome) -> Vec<Vec<String>> {
    if outcome.by_request.is_empty() {
        return Vec::new();
    }
    let seconds = outcome.measured().as_secs_f64();
    let mut rows = vec![row(&[
        "request",
        "sent",
        "succeeded",
        "failed",
        "rate",
        "p50",
        "p90",
        "p99",
        "max",
    ])];
    for named in &outcome.by_request {
        let per_s = match named.succeeded {
            0 => "none".to_owned(),
            n => format!("{}/s", rate(n as f64 / seconds)),
        };
        let mut cells = vec![
            named.name.clone(),
            count(named.sent),
            count(named.succeeded),
            count(named.failures()),
            per_s,
        ];
        let times = LatencySummary::of(&named.response)
            .map(|s| [s.p50, s.p90, s.p99, s.max].map(|ns| Nanos(ns).to_string()));
        cells.extend(times.unwrap_or_else(|| ["-"; 4].map(str::to_owned)));
        rows.push(cells);
    }
    rows
}

/// The pieces of a rate that changes, each by itself; a single one is the whole load.
fn by_piece(spec: &LoadSpec, outcome: &LoadOutcome) -> Vec<Vec<String>> {
    if spec.rate_pieces.0.len() < 2 || outcome.by_piece.is_empty() {
        return Vec::new();
    }
    let mut rows = vec![row(&[
        "rate asked",
        "sent",
        "late",
        "dropped",
        "failed",
        "rate",
        "p50",
        "p99",
        "max",
    ])];
    for (asked, piece) in spec.rate_pieces.0.iter().zip(&outcome.by_piece) {
        let per_s = piece.achieved_per_s();
        let counts = [piece.sent, piece.late, piece.dropped, piece.failures()];
        let mut cells = vec![RatePieces(vec![*asked]).to_string()];
        cells.extend(counts.map(count));
        cells.push(per_s.map_or_else(|| "none".to_owned(), |n| format!("{}/s", rate(n))));
        let times = LatencySummary::of(&piece.response)
            .map(|s| [s.p50, s.p99, s.max].map(|ns| Nanos(ns).to_string()));
        cells.extend(times.unwrap_or_else(|| ["-"; 3].map(str::to_owned)));
        rows.push(cells);
    }
    rows
}

fn failed_checks(outcome: &LoadOutcome) -> Vec<Vec<String>> {
    let all = outcome.by_request.iter();
    let failed = all.flat_map(|named| named.failed_checks.iter().map(move |each| (named, each)));
    let line = |n: &u64, check: &str| format!("{} {check}", count(*n));
    failed
        .map(|(named, (check, n))| row(&["failed check", &named.name, &line(n, check)]))
        .collect()
}

fn latency_row(name: &str, histogram: &Histogram) -> Option<Vec<String>> {
    let s = LatencySummary::of(histogram)?;
    let times = [
        s.min,
        s.mean.round() as u64,
        s.p50,
        s.p90,
        s.p99,
        s.p999,
        s.max,
        s.stddev.round() as u64,
    ];
    let times = times.into_iter().map(|ns| Nanos(ns).to_string());
    Some(std::iter::once(name.to_owned()).chain(times).collect())
}

fn counts(spec: &LoadSpec, outcome: &LoadOutcome) -> Vec<Vec<String>> {
    let requests = &outcome.requests;
    let mut fates = match &outcome.event_streams {
        Some(streams) => format!(
            "{} came, and {}",
            count(requests.succeeded),
            plural(streams.comments, "comment")
        ),
        None => format!(
            "{} sent, {} answered, {} succeeded",
            count(requests.sent),
            count(requests.completed),
            count(requests.succeeded)
        ),
    };
    for (n, fate) in [
        (requests.late, "late"),
        (requests.dropped, "dropped"),
        (requests.retried, "resent"),
    ] {
        // A stream that is opened anew is counted with the streams.
        if n > 0 && outcome.event_streams.is_none() {
            fates += &format!(", {} {fate}", count(n));
        }
    }
    let mut rows = vec![row(&[what(spec), &fates])];
    let failed = requests.failed.iter().filter(|(_, n)| **n > 0);
    rows.extend(failed.map(|(kind, n)| failure(outcome, *kind, *n)));
    if !outcome.status.is_empty() {
        let statuses = outcome.status.iter();
        let statuses: Vec<String> = statuses
            .map(|(s, n)| format!("{s}: {}", count(*n)))
            .collect();
        rows.push(row(&["status", &statuses.join(", ")]));
    }
    rows.push(row(&["bytes", &bytes(outcome)]));
    rows
}

fn failure(outcome: &LoadOutcome, kind: FailureKind, n: u64) -> Vec<String> {
    let words = match outcome.first_failure.get(&kind) {
        Some(first) if !first.is_empty() => format!(" (first: {first})"),
        _ => String::new(),
    };
    row(&["failed", &format!("{} {}{words}", count(n), kind.name())])
}

fn bytes(outcome: &LoadOutcome) -> String {
    let seconds = outcome.measured().as_secs_f64();
    let received = Bytes(outcome.received_bytes);
    let speed = if outcome.received_bytes > 0 && seconds > 0.0 {
        let per_s = outcome.received_bytes as f64 / seconds;
        format!(" ({}/s)", Bytes(per_s.round() as u64))
    } else {
        String::new()
    };
    format!(
        "{received} received{speed}, {} sent",
        Bytes(outcome.sent_bytes)
    )
}

fn generator(spec: &LoadSpec, outcome: &LoadOutcome) -> Vec<Vec<String>> {
    let cost = &outcome.generator;
    if cost.threads.is_empty() {
        return Vec::new();
    }
    let busiest = cost
        .threads
        .iter()
        .max_by(|a, b| a.utilization().total_cmp(&b.utilization()));
    let threads = plural(cost.threads.len() as u64, "thread");
    let busy = busiest.map_or_else(String::new, busy);
    let memory = Bytes(cost.peak_rss_bytes);
    let mut rows = vec![row(&[
        "generator",
        &format!(
            "{threads} ({}), {busy}, {memory} of memory at most",
            cost.engine
        ),
    ])];
    if outcome.requests.completed > 0 {
        let each = if spec.sse { "per event" } else { "per request" };
        rows.push(row(&[each, &per_request(outcome)]));
    }
    rows.extend(pauses(outcome).map(|text| row(&["pauses", &text])));
    if let (Some(p50), Some(p99), Some(max)) = (
        cost.schedule_lag.quantile(0.5),
        cost.schedule_lag.quantile(0.99),
        cost.schedule_lag.max(),
    ) {
        let lag = format!("p50 {p50}, p99 {p99}, max {max}");
        rows.push(row(&["schedule lag", &lag]));
    }
    rows
}

/// Pauses that let responses gather, when there were any.
fn pauses(outcome: &LoadOutcome) -> Option<String> {
    let pauses = outcome.generator.pauses?;
    let mean = Nanos(pauses.mean_ns()?.round() as u64);
    let share = outcome
        .pause_share()
        .map(|share| format!(": at most {} of the mean response time", percent(share)));
    Some(format!(
        "{} of {mean} while the server was full{}",
        count(pauses.count),
        share.unwrap_or_default()
    ))
}

fn busy(thread: &ThreadCost) -> String {
    let wall = thread.wall_ns.max(1) as f64;
    let mode = |ns: u64| percent(ns as f64 / wall);
    let spin = match thread.spin_ns {
        0 => String::new(),
        ns => format!(", of that {} spinning", mode(ns)),
    };
    format!(
        "the busiest {} busy (user {}, system {}{spin})",
        percent(thread.utilization()),
        mode(thread.cpu_user_ns),
        mode(thread.cpu_system_ns)
    )
}

fn per_request(outcome: &LoadOutcome) -> String {
    let completed = outcome.requests.completed as f64;
    let work = |t: &ThreadCost| (t.cpu_user_ns + t.cpu_system_ns).saturating_sub(t.spin_ns);
    let cpu_ns: u64 = outcome.generator.threads.iter().map(work).sum();
    format!(
        "{} of the generator's CPU, {:.2} system calls",
        Nanos((cpu_ns as f64 / completed).round() as u64),
        outcome.generator.syscalls as f64 / completed
    )
}

/// One line of live progress for a slice of the load.
///
/// `started_at` is [`LoadOutcome::started_at`]; until the warm-up of `spec` is over the line says so.
pub fn progress_line(spec: &LoadSpec, started_at: Nanos, slice: &Interval) -> String {
    let elapsed = slice.to.since(started_at);
    let seconds = slice.to.since(slice.from).as_secs_f64();
    let mut line = format!("{:>6.1}s", elapsed.as_secs_f64());
    if let Some(measured) = spec.duration {
        line += &format!(" of {:.1}s", (spec.warmup + measured).as_secs_f64());
    }
    if slice.succeeded > 0 && seconds > 0.0 {
        line += &format!("  {:>10}/s", rate(slice.succeeded as f64 / seconds));
        if !spec.sse {
            line += &format!(
                "  p50 {:>6}  p99 {:>6}",
                Nanos(slice.response_ns_p50).to_string(),
                Nanos(slice.response_ns_p99).to_string()
            );
        }
    } else if spec.sse {
        line += "  no event in this slice";
    } else {
        line += "  no response yet in this slice";
    }
    line += &format!(
        "  errors {}  generator {}",
        count(slice.failed),
        percent(f64::from(slice.generator_permille) / 1000.0)
    );
    if spec.arrival.offered_per_s().is_some() {
        line += &format!("  queued {}", count(slice.queued));
    }
    if elapsed <= spec.warmup {
        line += "  (warm-up)";
    }
    line
}
