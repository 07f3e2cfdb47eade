//! TCP connections of a target by class, and its listen queues.

use super::{Material, Sheet};
use record::{FdClass, Series, SocketStats};

const DIAG: &str = "sock_diag";
const EVENTS: &str = "signature: TCP events";

pub(super) fn extract(material: &Material<'_>, sheet: &mut Sheet<'_>) {
    for class in ["client", "upstream"] {
        sampled(material, class, sheet);
        events(material, class, sheet);
    }
    listeners(material, sheet);
}

fn sampled(material: &Material<'_>, class: &'static str, sheet: &mut Sheet<'_>) {
    let reason = material.reason(&["socket"], "the target's connections were not sampled");
    let target = sheet.target.clone();
    let name = |last: &str| format!("socket.{class}.{last}");
    // Samples of the measured part; one series a target and class.
    let samples = |signal: &str| {
        let mut all = crate::observed::named(&material.trial.series, signal);
        let found =
            all.find(|s| s.label("target") == Some(&target) && s.label("class") == Some(class))?;
        let window = material.window()?;
        let samples = found.at_ns.iter().zip(&found.values);
        let inside: Vec<f64> = samples
            .filter(|(at, _)| window.holds(**at))
            .map(|(_, value)| *value)
            .collect();
        (!inside.is_empty()).then_some(inside)
    };
    let mean = |signal: &str| {
        let samples = samples(signal)?;
        Some(samples.iter().sum::<f64>() / samples.len() as f64)
    };
    // The kernel forgets a connection's times with it: only ratios of the same connections mean something.
    let busy = mean("socket.busy_s");
    for (last, signal) in [
        ("rwnd_limited_share", "socket.rwnd_limited_s"),
        ("sndbuf_limited_share", "socket.sndbuf_limited_s"),
    ] {
        sheet.divided(&name(last), mean(signal), busy, DIAG, &reason);
    }
    // A growth is one only while the same connections exist: their number stands still, and no sum fell.
    let open = samples("socket.connections");
    let still = open.as_ref().is_some_and(|o| o.iter().all(|n| *n == o[0]));
    let grown = |signal: &str| {
        let samples = samples(signal).filter(|s| still && s.is_sorted())?;
        let both = samples.first().zip(samples.last());
        both.filter(|_| samples.len() >= 2)
            .map(|(first, last)| last - first)
    };
    let changing = match &open {
        Some(_) => "connections came and went, and the kernel forgets their counters with them",
        None => reason.as_str(),
    };
    for (last, signal, scale) in [
        ("rtt_ms", "socket.rtt_s", 1e3),
        ("receive_queue_bytes", "socket.recv_queue_bytes", 1.0),
        ("mss", "socket.mss_bytes", 1.0),
        ("rcv_buffer_bytes", "socket.recv_buffer_bytes", 1.0),
        ("snd_buffer_bytes", "socket.send_buffer_bytes", 1.0),
    ] {
        let level = mean(signal).map(|value| value * scale);
        sheet.maybe(&name(last), level, DIAG, &reason);
    }
    let shortest = samples("socket.least_rtt_s").and_then(|s| s.into_iter().reduce(f64::min));
    let ms = shortest.map(|seconds| seconds * 1e3);
    sheet.maybe(&name("least_rtt_ms"), ms, DIAG, &reason);
    // Closed by the peer and still held: those that stay are what grows.
    let connected =
        |s: &record::Series| s.label("target") == Some(&target) && s.label("class").is_some();
    let watched = crate::observed::named(&material.trial.series, "socket.connections");
    // No series of a class is no connection of it, where the target's connections were looked at.
    let looked_at = watched.into_iter().any(connected);
    let ended = samples("socket.close_wait").or(looked_at.then(|| vec![0.0; 2]));
    let most = ended
        .as_ref()
        .and_then(|e| e.iter().copied().reduce(f64::max));
    sheet.maybe(&name("close_wait"), most, DIAG, &reason);
    let unanswered = mean("socket.syn_sent").or(looked_at.then_some(0.0));
    sheet.maybe(&name("connecting"), unanswered, DIAG, &reason);
    let more = ended.filter(|e| e.len() >= 2);
    let more = more.and_then(|e| Some(e.last()? - e.first()?));
    let last = name("close_wait_growth_per_request");
    sheet.divided(&last, more, material.completed(), DIAG, &reason);
    let resent = grown("socket.retransmits");
    let requests = material.completed();
    sheet.divided(
        &name("retransmits_per_request"),
        resent,
        requests,
        DIAG,
        changing,
    );
}

fn events(material: &Material<'_>, class: &str, sheet: &mut Sheet<'_>) {
    let reason = material.reason(&["tcp", "signature"], "TCP events were not probed");
    let signature = material.signature(&sheet.target);
    let sockets = signature.and_then(|s| s.sockets.as_deref());
    let wanted = if class == "client" {
        FdClass::Client
    } else {
        FdClass::Upstream
    };
    // Watched, and no event of this class: nothing happened there.
    let none = SocketStats::default();
    let stats = sockets.map(|all| all.iter().find(|s| s.class == wanted).unwrap_or(&none));
    let requests = material.signature_requests();
    let name = |last: &str| format!("socket.{class}.{last}");
    let resets = stats.map(|s| s.resets_sent as f64);
    sheet.divided(
        &name("resets_sent_per_request"),
        resets,
        requests,
        EVENTS,
        &reason,
    );
    let unused = stats.map(|s| s.resets_unused as f64);
    let last = name("resets_unused_per_request");
    sheet.divided(&last, unused, requests, EVENTS, &reason);
    let cut = stats.map(|s| s.resets_received as f64);
    let last = name("resets_received_per_request");
    sheet.divided(&last, cut, requests, EVENTS, &reason);
    if sheet.value(&name("retransmits_per_request")).is_none() {
        let resent = stats.map(|s| s.retransmits as f64);
        let last = name("retransmits_per_request");
        sheet.divided(&last, resent, requests, EVENTS, &reason);
    }
}

/// Queues of the addresses that the target listens on; all of them where its addresses are not known.
fn listeners(material: &Material<'_>, sheet: &mut Sheet<'_>) {
    let reason = material.reason(&["listen"], "its listen queues were not watched");
    let server = material.server(&sheet.target);
    let mut own: Vec<&str> = server.map_or(Vec::new(), |s| {
        s.listens.iter().map(String::as_str).collect()
    });
    let mut targets = material.trial.targets.iter();
    own.extend(
        targets
            .find(|t| t.name == sheet.target)
            .map(|t| t.address.as_str()),
    );
    let ports: Vec<String> = own.iter().filter_map(|a| port(a)).collect();
    let most = |signal: &str| {
        let window = material.window()?;
        queues(material, signal, &ports)
            .filter_map(|s| s.max(window.from, window.to))
            .reduce(f64::max)
    };
    let queue = most("listen.queue");
    let backlog = most("listen.backlog");
    let least = least_waiting(material, &sheet.target, &ports);
    sheet.maybe("listen.queue_least", least, DIAG, &reason);
    sheet.maybe("listen.queue_max", queue, DIAG, &reason);
    sheet.maybe("listen.backlog", backlog, DIAG, &reason);
    sheet.divided("listen.queue_share", queue, backlog, DIAG, &reason);
}

fn port(address: &str) -> Option<String> {
    let (_, port) = address.rsplit_once(':')?;
    Some(port.to_owned())
}

/// The series of this signal for the addresses with one of these ports.
fn queues<'a>(
    material: &Material<'a>,
    signal: &'a str,
    ports: &'a [String],
) -> impl Iterator<Item = &'a Series> {
    let all = crate::observed::named(&material.trial.series, signal);
    all.filter(|s| {
        let address = s.label("address").and_then(port);
        address.is_some_and(|p| ports.contains(&p))
    })
}

/// Connections that waited to be accepted in every sample. The kernel's table of sockets tells those whose clients have
/// given up by then, which are in the length of the queue until they are taken.
fn least_waiting(material: &Material<'_>, target: &str, ports: &[String]) -> Option<f64> {
    let window = material.window()?;
    let least = |series: &Series| series.min(window.from, window.to);
    let mut waiting = crate::observed::named(&material.trial.series, "socket.waiting");
    let waiting =
        waiting.find(|s| s.label("target") == Some(target) && s.label("class") == Some("client"));
    waiting.and_then(least).or_else(|| {
        let queues = queues(material, "listen.queue", ports);
        queues.filter_map(least).reduce(f64::max)
    })
}
