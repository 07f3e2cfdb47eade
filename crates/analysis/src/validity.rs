//! May the figures be used as the server's? Asked before anything else is said about them.
//!
//! The first reason that applies is given: nothing answered, errors over the limit, the generator was the
//! limit, others took the server's CPU, the schedule was not met, a target died. A target's death stands
//! behind the other reasons because it usually causes one of them; it is then named in the same sentence.

use crate::limit::{Finding, Limits, authority};
use crate::observed::Case;
use crate::stats::share;
use crate::words::{count, percent, plural, rate};
use crate::{Evidence, Limit};
use record::{Arrival, FailureKind, LoadOutcome, Nanos};

/// Of the requests due, the share that may stay unanswered without a reason.
const UNMET: f64 = 0.01;
/// The generator's own lateness may be this share of the response time's p99, and is always allowed 1 ms.
const LAG_SHARE: f64 = 0.1;

/// Whether an open loop kept its schedule.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Schedule {
    /// A closed loop has none.
    None,
    /// Kept.
    Met,
    /// Too few of the due requests were answered.
    Short { due: f64, answered: f64 },
    /// The generator itself sent too late for its response times to be the server's.
    Lagging { p99: Nanos, allowed: Nanos },
}

/// Of attempts that came to an end, answers below 400 and failures; `None` where none did. What fails of a load of
/// events is a stream, whatever number of events the others carry.
pub(crate) fn error_share(outcome: &LoadOutcome) -> Option<f64> {
    let failures = outcome.requests.failures() as f64;
    let streams = outcome.event_streams.as_ref().map(|s| s.opened);
    let good = streams.unwrap_or(outcome.requests.succeeded);
    share(failures, good as f64 + failures)
}

/// Compares what was due with what was answered.
///
/// Not counted as missing: requests in flight at the stop as far as Little's law explains them (a queue that
/// grows until the stop is not in steady state, and is missing), failures (they have their own limit),
/// and for Poisson arrivals three standard deviations of the count.
pub(crate) fn schedule(case: &Case<'_>) -> Schedule {
    let outcome = case.outcome;
    let Some(offered) = case.spec.arrival.offered_per_s() else {
        return Schedule::None;
    };
    let expected = case.spec.expected(outcome.measured()).unwrap_or(0.0);
    let chance = match case.spec.arrival {
        Arrival::Poisson { .. } => 3.0 * expected.sqrt(),
        Arrival::Closed | Arrival::Constant { .. } => 1.0,
    };
    let scheduled = outcome.requests.scheduled as f64;
    // A load that stops after a number of requests waits for the last answers: time without arrivals.
    let due = match case.spec.requests {
        Some(_) => scheduled,
        None => scheduled.max(expected - chance),
    };
    let answered = outcome.requests.completed as f64;
    let ended =
        answered.max(outcome.requests.succeeded as f64 + outcome.requests.failures() as f64);
    let residence_s = outcome.response.mean_ns().unwrap_or(0.0) / 1e9;
    // Where the rate changes, what Little's law lets be in flight is what came due last.
    let before = outcome
        .measured()
        .0
        .saturating_sub((residence_s * 1e9) as u64);
    let in_flight = match case.spec.has_changing_rate() {
        false => offered * residence_s,
        true => expected - case.spec.expected(Nanos(before)).unwrap_or(0.0),
    };
    if due - ended > UNMET * due + in_flight + 1.0 {
        return Schedule::Short { due, answered };
    }
    lag(outcome)
}

fn lag(outcome: &LoadOutcome) -> Schedule {
    let Some(p99) = outcome.generator.schedule_lag.quantile(0.99) else {
        return Schedule::Met;
    };
    let response = outcome.response.quantile(0.99).unwrap_or_default();
    let allowed = Nanos::MILLI.max(Nanos((response.0 as f64 * LAG_SHARE) as u64));
    if p99 > allowed {
        Schedule::Lagging { p99, allowed }
    } else {
        Schedule::Met
    }
}

/// The first reason why the figures are not the server's.
pub(crate) fn refusal(case: &Case<'_>, limits: &Limits, schedule: Schedule) -> Option<Finding> {
    let died = case
        .targets
        .iter()
        .find_map(|t| Some((t, t.died.as_deref()?)))
        .map(|(target, how)| format!("{} ended while the load ran: {how}", target.name));
    let refusal = nothing_answered(case)
        .or_else(|| too_many_errors(case))
        .or_else(|| (limits.finding.limit == Limit::Generator).then(|| limits.finding.clone()))
        .or_else(|| limits.neighbour.clone())
        .or_else(|| schedule_not_met(case, limits, schedule));
    match (refusal, died) {
        (Some(refusal), Some(died)) => Some(Finding {
            why: format!("{}; {died}", refusal.why),
            ..refusal
        }),
        (None, Some(died)) => Some(target_died(died)),
        (refusal, None) => refusal,
    }
}

fn target_died(died: String) -> Finding {
    Finding {
        limit: Limit::Unknown,
        resource: "",
        why: died,
        remedy: "read the target's output in the record".to_owned(),
        evidence: Vec::new(),
    }
}

/// The most frequent failure; the earlier in [`FailureKind::ALL`] of equals.
fn dominant(outcome: &LoadOutcome) -> Option<(FailureKind, u64)> {
    FailureKind::ALL
        .into_iter()
        .filter_map(|kind| Some((kind, *outcome.requests.failed.get(&kind)?)))
        .filter(|(_, n)| *n > 0)
        .rev()
        .max_by_key(|(_, n)| *n)
}

/// What fails.
fn noun(case: &Case<'_>) -> &'static str {
    if case.spec.sse { "stream" } else { "request" }
}

/// That nothing succeeded.
fn none_succeeded(case: &Case<'_>) -> &'static str {
    if case.spec.sse {
        "no event came"
    } else {
        "no request succeeded"
    }
}

/// A failure as a clause: `127.0.0.1:1 refused 10 connections (Connection refused)`.
fn clause(case: &Case<'_>, kind: FailureKind, n: u64, all: bool) -> String {
    let server = authority(&case.spec.url);
    let proxy = case.spec.proxy.as_deref();
    let peer = match proxy {
        None => server.to_owned(),
        Some(proxy) => format!("{server} through the proxy {proxy}"),
    };
    let next = proxy.unwrap_or(server);
    let all = if all && n > 1 { "all " } else { "" };
    let connections = format!("{all}{}", plural(n, "connection"));
    let requests = format!("{all}{}", plural(n, noun(case)));
    let responses = format!("{all}{}", plural(n, "response"));
    let timeout = case.spec.timeout;
    let text = match kind {
        FailureKind::ConnectRefused => format!("{next} refused {connections}"),
        FailureKind::ConnectTimeout => {
            format!("{next} accepted none of {connections} within {timeout}")
        }
        FailureKind::ConnectFailed => format!("{connections} to {next} failed"),
        FailureKind::NoLocalPort => format!("no local port was free for {connections} to {peer}"),
        FailureKind::NoDescriptor => format!("no file descriptor was free for {connections}"),
        FailureKind::Tls => format!("TLS failed on {connections} to {peer}"),
        FailureKind::Timeout if case.spec.sse => {
            format!("{peer} sent no event for {timeout} on {requests}")
        }
        FailureKind::Timeout => format!("{peer} left {requests} without a response for {timeout}"),
        FailureKind::Reset => format!("{peer} reset {connections} with a request outstanding"),
        FailureKind::ClosedEarly => format!("{peer} closed {connections} before a response"),
        FailureKind::Truncated => format!("{responses} of {peer} broke off in the middle"),
        FailureKind::Malformed => format!("{responses} of {peer} were not HTTP"),
        FailureKind::HeadTooLarge => {
            format!("{responses} of {peer} had a head larger than the buffer")
        }
        FailureKind::Status4xx => format!("{responses} of {peer} had a status of 400 to 499"),
        FailureKind::Status5xx => format!("{responses} of {peer} had a status of 500 to 599"),
        FailureKind::Check => format!("{responses} of {peer} failed a check of the workload"),
        FailureKind::Capture => format!("{responses} of {peer} lacked a value that is captured"),
        FailureKind::BodyTooLarge => {
            format!("{responses} of {peer} had a body larger than what is kept for checks")
        }
        FailureKind::Io => format!("a socket call failed for {requests} to {peer}"),
        FailureKind::NotHttp2 => format!("{peer} spoke no HTTP/2 on {connections}"),
        FailureKind::StreamRefused => format!("{peer} refused to process {requests}"),
        FailureKind::StreamReset => format!("{peer} reset the streams of {requests}"),
        FailureKind::GoAway => format!("{peer} ended connections with {requests} outstanding"),
        FailureKind::Grpc => format!("{peer} ended calls of gRPC with an error: {requests}"),
        FailureKind::ProxyRefused => format!("the proxy {next} refused {connections} to {server}"),
        FailureKind::UpgradeRefused => {
            format!("{peer} refused to speak WebSocket on {connections}")
        }
        FailureKind::WebSocket => format!("{peer} broke the rules of WebSocket on {connections}"),
        FailureKind::WebSocketClosed => {
            format!("{peer} closed {connections} in place of a reply")
        }
        FailureKind::NotEventStream => {
            format!("{responses} of {peer} were no streams of events")
        }
    };
    match case.outcome.first_failure.get(&kind) {
        Some(words) if !words.is_empty() => format!("{text} ({words})"),
        _ => text,
    }
}

fn remedy(kind: FailureKind) -> &'static str {
    match kind {
        FailureKind::ConnectRefused => "start the server, or check the address and the port",
        FailureKind::ConnectTimeout => {
            "check the address, the firewall and the server's listen queue"
        }
        FailureKind::ConnectFailed => "check the address and the route to it",
        FailureKind::NoLocalPort => {
            "widen net.ipv4.ip_local_port_range, add source addresses (`source`, --source), or keep connections alive"
        }
        FailureKind::NoDescriptor => {
            "raise the limit of open files (ulimit -n), or use fewer connections"
        }
        FailureKind::Tls => {
            "check the certificate and the name, or accept a test certificate (`insecure`, --insecure)"
        }
        FailureKind::Timeout => {
            "see what the server waits for, or allow more time (`timeout`, --timeout)"
        }
        FailureKind::Reset | FailureKind::ClosedEarly | FailureKind::Truncated => {
            "read the server's error log: it ended connections that it had accepted"
        }
        FailureKind::Malformed => "check that the port speaks HTTP (and http:// against https://)",
        FailureKind::HeadTooLarge => "look at the response's headers with curl -i",
        FailureKind::Status4xx => "check the path, the method and the headers with curl -i",
        FailureKind::Status5xx => "read the server's error log",
        FailureKind::Check | FailureKind::Capture => {
            "see which check of which request failed, and look at the response with curl -i"
        }
        FailureKind::BodyTooLarge => "raise body_limit in the workload file",
        FailureKind::Io => "read the system's words above",
        FailureKind::NotHttp2 => {
            "turn HTTP/2 on in the server (over http:// it must take prior knowledge, h2c), or use --http 1.1"
        }
        FailureKind::StreamRefused => {
            "use fewer streams (`streams`, --streams), or read the server's error log"
        }
        FailureKind::Grpc => {
            "read the code in the words above: the path is /package.Service/Method, and --body-file the message as protobuf encodes it"
        }
        FailureKind::StreamReset | FailureKind::GoAway => {
            "read the server's error log, and the code in the words above"
        }
        FailureKind::ProxyRefused => {
            "give the proxy a user (`proxy_user`, --proxy-user), let it tunnel to this port, or check that it reaches the server"
        }
        FailureKind::UpgradeRefused => {
            "check the path, and what the server asks of the upgrade: -H 'Origin: ...', -H 'Sec-WebSocket-Protocol: ...', a token"
        }
        FailureKind::WebSocket => "the server, or a proxy before it, breaks RFC 6455: repair it",
        FailureKind::WebSocketClosed => {
            "read the code in the words above, and the server's log: it may not take such messages (`body`, --body; `ws_binary`, --ws-binary)"
        }
        FailureKind::NotEventStream => {
            "give the path of the events, and what the server asks of a client (-H 'Authorization: ...'), or leave out `sse`, --sse"
        }
    }
}

/// Failures that the load's own host causes.
fn failure_limit(kind: FailureKind) -> (Limit, &'static str) {
    match kind {
        FailureKind::NoLocalPort => (Limit::Generator, "local_ports"),
        FailureKind::NoDescriptor => (Limit::Generator, "open_files"),
        _ => (Limit::Unknown, ""),
    }
}

fn failure_finding(case: &Case<'_>, why: String, kind: FailureKind) -> Finding {
    let (limit, resource) = failure_limit(kind);
    let failed = case.outcome.requests.failed.iter();
    let kinds = failed.map(|(kind, n)| {
        let signal = format!("requests.failed{{kind={}}}", kind.name());
        Evidence::new(signal, *n as f64, "requests", None, "load")
    });
    let errors = Evidence::new(
        "requests.error_share",
        error_share(case.outcome),
        "1",
        Some(case.error_limit),
        "load",
    );
    Finding {
        limit,
        resource,
        why,
        remedy: match (kind, case.spec.limit_rate) {
            (FailureKind::Timeout, Some(rate)) => format!(
                "at {rate}/s (`limit_rate`, --limit-rate) a response needs its size in time: allow more (`timeout`, --timeout)"
            ),
            (FailureKind::Timeout, None) if case.spec.sse => {
                "see whether the server has events to send, or allow more time between two (`timeout`, --timeout)"
                    .to_owned()
            }
            (FailureKind::Status4xx, _) if case.spec.sse => {
                "check the path, the method and the headers with curl -iN".to_owned()
            }
            _ => remedy(kind).to_owned(),
        },
        evidence: std::iter::once(errors).chain(kinds).collect(),
    }
}

fn nothing_answered(case: &Case<'_>) -> Option<Finding> {
    let requests = &case.outcome.requests;
    if requests.succeeded > 0 {
        return None;
    }
    let Some((kind, n)) = dominant(case.outcome) else {
        return Some(silence(case));
    };
    let all = n == requests.failures();
    let rest = match requests.failures() - n {
        0 => String::new(),
        others => format!(
            "; {} in other ways",
            plural(others, &format!("more {}", noun(case)))
        ),
    };
    let why = format!(
        "{}: {}{rest}",
        none_succeeded(case),
        clause(case, kind, n, all)
    );
    Some(failure_finding(case, why, kind))
}

/// Neither an answer nor a failure: the load ended before anything could time out.
fn silence(case: &Case<'_>) -> Finding {
    let sent = case.outcome.requests.sent;
    let time = case.outcome.measured();
    if sent == 0 && case.outcome.interrupted {
        let why = "it was stopped before the measurement began: nothing was measured".to_owned();
        return Finding {
            remedy: "let it run past the warm-up".to_owned(),
            limit: Limit::Unknown,
            resource: "",
            ..failure_finding(case, why, FailureKind::Timeout)
        };
    }
    let why = if sent == 0 {
        format!("{}: none was sent within {time}", none_succeeded(case))
    } else if case.spec.sse {
        format!(
            "no event came: {} sent none on {} within {time}",
            authority(&case.spec.url),
            plural(sent, "stream")
        )
    } else {
        format!(
            "no request succeeded: {} responded to none of {} within {time}",
            authority(&case.spec.url),
            plural(sent, "request")
        )
    };
    failure_finding(case, why, FailureKind::Timeout)
}

fn too_many_errors(case: &Case<'_>) -> Option<Finding> {
    let errors = error_share(case.outcome)?;
    if errors <= case.error_limit {
        return None;
    }
    let (kind, n) = dominant(case.outcome)?;
    let why = format!(
        "{} of the {}s failed, more than the {} allowed: {}",
        percent(errors),
        noun(case),
        percent(case.error_limit),
        clause(case, kind, n, false)
    );
    Some(failure_finding(case, why, kind))
}

fn schedule_not_met(case: &Case<'_>, limits: &Limits, schedule: Schedule) -> Option<Finding> {
    match schedule {
        Schedule::None | Schedule::Met => None,
        Schedule::Short { due, answered } => Some(short(case, limits, due, answered)),
        Schedule::Lagging { p99, allowed } => Some(Finding {
            limit: Limit::Generator,
            resource: "generator",
            why: format!(
                "the generator sent late by itself: its schedule lag has a p99 of {p99}, more than the {allowed} \
                 that would leave the response times the server's"
            ),
            remedy: "give the generator cores of its own (`cpus`, --cpus), or offer less per thread (`threads`, --threads; `rate`, --rate)"
                .to_owned(),
            evidence: vec![Evidence::new(
                "generator.schedule_lag_ns.p99",
                p99.0 as f64,
                "ns",
                Some(allowed.0 as f64),
                "load",
            )],
        }),
    }
}

fn short(case: &Case<'_>, limits: &Limits, due: f64, answered: f64) -> Finding {
    let requests = &case.outcome.requests;
    let offered = case.spec.arrival.offered_per_s().unwrap_or(0.0);
    let achieved = share(answered, case.outcome.measured().as_secs_f64()).unwrap_or(0.0);
    let cause = &limits.finding;
    let mut evidence = short_evidence(case, due, answered);
    evidence.extend(cause.evidence.iter().cloned());
    Finding {
        limit: cause.limit,
        resource: cause.resource,
        why: format!(
            "the schedule was not met: of {}/s offered {}/s were served ({} late, {} dropped); {}",
            rate(offered),
            rate(achieved),
            count(requests.late),
            count(requests.dropped),
            cause.why
        ),
        remedy: match cause.limit {
            Limit::Server => {
                "offer less (`rate`, --rate): this is above what the server can do".to_owned()
            }
            _ => cause.remedy.clone(),
        },
        evidence,
    }
}

fn short_evidence(case: &Case<'_>, due: f64, answered: f64) -> Vec<Evidence> {
    let requests = &case.outcome.requests;
    let of_due = share(answered, due);
    let counted = |signal, n: u64| Evidence::new(signal, n as f64, "requests", None, "load");
    vec![
        Evidence::new(
            "requests.answered_of_due",
            of_due,
            "1",
            Some(1.0 - UNMET),
            "load",
        ),
        counted("requests.late", requests.late),
        counted("requests.dropped", requests.dropped),
    ]
}
