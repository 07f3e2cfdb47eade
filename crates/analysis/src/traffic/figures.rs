//! What came of a run, in the numbers that every output shows.

use super::counters::{self, CounterRow};
use crate::LatencySummary;
use record::traffic::{Protocol, SideOutcome, SideThread, TemplateOutcome};
use record::{Histogram, TrafficRun};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Name of the warning after which CPU figures are not shown: whoever runs the load and sees the interface adds it.
pub const CPU_NOT_COMPARABLE: &str = "cpu_not_comparable";

/// One run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TrafficFigures {
    /// From the first connection's due time to the end, draining included, s.
    pub duration_s: f64,
    /// Connections completed per second, over all templates; `null` without one.
    pub completed_per_s: Option<f64>,
    /// Connections asked for per second; `null` where a template keeps a number open instead.
    pub offered_per_s: Option<f64>,
    pub templates: Vec<TemplateFigures>,
    /// Of the sides that were ours, the client first.
    pub sides: Vec<SideFigures>,
    /// All counters, zeros included; TRex's names where it has them.
    pub counters: Vec<CounterRow>,
}

/// One template.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TemplateFigures {
    pub name: String,
    /// Connections due.
    pub scheduled: u64,
    /// Begun.
    pub attempted: u64,
    /// Established.
    pub connected: u64,
    /// All of the template was done, and every byte was right.
    pub completed: u64,
    /// Open and not done when the run was over.
    pub unfinished: u64,
    /// Begun more than 1 ms after they were due.
    pub late: u64,
    /// Never begun.
    pub dropped: u64,
    /// Accepted by the server side; `null` where that was not ours, and for UDP, which has nothing to accept.
    pub accepted: Option<u64>,
    /// Connections by the kind of their failure; kinds that did not occur are left out.
    pub failed: BTreeMap<String, u64>,
    /// HTTP responses by status.
    pub statuses: BTreeMap<String, u64>,
    /// HTTP responses, UDP answers, or steps done.
    pub exchanges: u64,
    /// Payload.
    pub sent_bytes: u64,
    /// Payload.
    pub received_bytes: u64,
    /// Connections begun per second; `null` without one.
    pub attempted_per_s: Option<f64>,
    /// Connections completed per second; `null` without one.
    pub completed_per_s: Option<f64>,
    /// Exchanges per second; `null` without one.
    pub exchanges_per_s: Option<f64>,
    pub latency_ns: TrafficLatencies,
}

/// Latencies of a template, ns; each is `null` when nothing was measured.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TrafficLatencies {
    /// From the due time to the established connection.
    pub connect: Option<LatencySummary>,
    /// From the request's first packet to the first of the response.
    pub first_byte: Option<LatencySummary>,
    /// From the due time of the request to its last byte.
    pub response: Option<LatencySummary>,
}

/// One side of ours.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SideFigures {
    /// `client` or `server`.
    pub side: String,
    /// Device as it describes itself.
    pub transport: String,
    /// How long packets were let gather before they were looked at, ns: it is in every latency.
    pub coalesce_ns: u64,
    /// The thread's CPU; `null` when it was not pinned.
    pub cpu: Option<u32>,
    /// CPU time of its thread, s.
    pub cpu_user_s: f64,
    /// In the kernel; on a TAP the receive work of the host's stack is in it.
    pub cpu_system_s: f64,
    /// Of both, time in which it looked for packets and found none, s.
    pub spun_s: f64,
    /// Share of the run's time that it worked, 0 to 1; of several threads that of the busiest.
    pub utilization: f64,
    /// CPU time per connection, spinning left out, us; `null` without a connection, or where it is not comparable.
    pub cpu_us_per_connection: Option<f64>,
    /// Of that, in user mode, us.
    pub cpu_user_us_per_connection: Option<f64>,
    /// Cores for one Gb/s, both directions counted; `null` without a byte, or where it is not comparable.
    pub cores_per_gbit: Option<f64>,
    /// Connections open at the most.
    pub peak_flows: u64,
    /// Bytes of state of one connection, tables and timers included.
    pub flow_bytes: f64,
    pub ports: PortFigures,
    /// Each of several threads; empty when there was one.
    #[serde(default)]
    pub threads: Vec<ThreadFigures>,
}

/// One of several threads of a side.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ThreadFigures {
    /// The CPU that it was pinned to; `null` where it was not.
    pub cpu: Option<u32>,
    /// CPU time, s.
    pub cpu_user_s: f64,
    /// In the kernel.
    pub cpu_system_s: f64,
    /// Of both, time in which it looked for packets and found none, s.
    pub spun_s: f64,
    /// Share of the run's time that it worked, 0 to 1.
    pub utilization: f64,
    /// Connections open at the most.
    pub peak_flows: u64,
    pub tx_frames: u64,
    pub rx_frames: u64,
    /// Frames that came in by its queue and belonged to another thread.
    pub handed_over: u64,
}

/// What the device carried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PortFigures {
    /// Frames sent; a super-segment counts once.
    pub tx_frames: u64,
    pub tx_bytes: u64,
    pub tx_dropped: u64,
    /// Times that a frame waited because the ring was full.
    pub tx_full: u64,
    pub rx_frames: u64,
    pub rx_bytes: u64,
    /// For us, and lost before we took them.
    pub rx_dropped: u64,
    pub syscalls: u64,
}

/// All figures of a run.
pub fn figures(run: &TrafficRun) -> TrafficFigures {
    let outcome = &run.outcome;
    let side = |name: &str| outcome.sides.iter().find(|s| s.side == name);
    let counted = |name: &str| {
        side(name).map(|s| {
            let all = s.tcp.iter().chain(&s.link);
            all.map(|(name, n)| (name.clone(), *n))
                .collect::<BTreeMap<String, u64>>()
        })
    };
    let (client, server) = (counted("client"), counted("server"));
    let completed: u64 = outcome.templates.iter().map(|t| t.completed).sum();
    TrafficFigures {
        duration_s: outcome.wall_ns as f64 / 1e9,
        completed_per_s: per_s(completed, outcome.wall_ns),
        offered_per_s: offered_per_s(run),
        templates: outcome
            .templates
            .iter()
            .enumerate()
            .map(|(i, t)| template(t, accepts(run, i), outcome.wall_ns))
            .collect(),
        sides: ["client", "server"]
            .into_iter()
            .filter_map(|name| Some(side_figures(run, side(name)?)))
            .collect(),
        counters: counters::rows(client.as_ref(), server.as_ref()),
    }
}

/// Connections per second that were asked for; `None` where a template keeps a number open.
pub(super) fn offered_per_s(run: &TrafficRun) -> Option<f64> {
    use record::traffic::Pace;
    let of = |pace: Pace| match pace {
        Pace::Constant(per_s) | Pace::Poisson(per_s) => Some(per_s),
        Pace::Concurrent(_) => None,
    };
    run.spec.client.as_ref()?;
    run.spec.templates.iter().map(|t| of(t.pace)).sum()
}

fn per_s(n: u64, wall_ns: u64) -> Option<f64> {
    (n > 0 && wall_ns > 0).then(|| n as f64 * 1e9 / wall_ns as f64)
}

/// The server side is ours, and has connections of the template to accept.
fn accepts(run: &TrafficRun, template: usize) -> bool {
    let asked = run.spec.templates.get(template);
    let is_udp = asked.is_some_and(|t| matches!(t.protocol, Protocol::Udp { .. }));
    !is_udp && run.outcome.sides.iter().any(|s| s.side == "server")
}

fn template(t: &TemplateOutcome, accepts: bool, wall_ns: u64) -> TemplateFigures {
    let happened = t.failed.iter().filter(|(_, n)| **n > 0);
    let summary = |histogram: &Histogram| LatencySummary::of(histogram);
    TemplateFigures {
        name: t.name.clone(),
        scheduled: t.scheduled,
        attempted: t.attempted,
        connected: t.connected,
        completed: t.completed,
        unfinished: t.unfinished,
        late: t.late,
        dropped: t.dropped,
        accepted: accepts.then_some(t.accepted),
        failed: happened.map(|(kind, n)| (kind.clone(), *n)).collect(),
        statuses: t
            .statuses
            .iter()
            .map(|(s, n)| (s.to_string(), *n))
            .collect(),
        exchanges: t.exchanges,
        sent_bytes: t.sent_bytes,
        received_bytes: t.received_bytes,
        attempted_per_s: per_s(t.attempted, wall_ns),
        completed_per_s: per_s(t.completed, wall_ns),
        exchanges_per_s: per_s(t.exchanges, wall_ns),
        latency_ns: TrafficLatencies {
            connect: summary(&t.connect),
            first_byte: summary(&t.first_byte),
            response: summary(&t.response),
        },
    }
}

/// Failed connections of a template, those that the server side alone saw left out: they are the same ones.
pub(super) fn failures(t: &TemplateOutcome, is_client: bool) -> u64 {
    let counts = |kind: &&String| !is_client || !kind.ends_with("_at_server");
    let own = t.failed.iter().filter(|(kind, _)| counts(kind));
    own.map(|(_, n)| n).sum()
}

/// Share of the run that a side's thread worked, the busiest of several; spinning left out.
pub(super) fn utilization(side: &SideOutcome, wall_ns: u64) -> f64 {
    let busiest = side.threads.iter().map(thread_busy_ns).max();
    busiest.unwrap_or_else(|| busy_ns(side)) as f64 / wall_ns.max(1) as f64
}

fn thread_busy_ns(thread: &SideThread) -> u64 {
    (thread.cpu_user_ns + thread.cpu_system_ns).saturating_sub(thread.spun_ns)
}

fn thread(thread: &SideThread, wall_ns: u64) -> ThreadFigures {
    ThreadFigures {
        cpu: thread.cpu,
        cpu_user_s: thread.cpu_user_ns as f64 / 1e9,
        cpu_system_s: thread.cpu_system_ns as f64 / 1e9,
        spun_s: thread.spun_ns as f64 / 1e9,
        utilization: thread_busy_ns(thread) as f64 / wall_ns.max(1) as f64,
        peak_flows: thread.peak_flows,
        tx_frames: thread.tx_frames,
        rx_frames: thread.rx_frames,
        handed_over: thread.handed_over,
    }
}

fn busy_ns(side: &SideOutcome) -> u64 {
    (side.cpu_user_ns + side.cpu_system_ns).saturating_sub(side.spun_ns)
}

fn side_figures(run: &TrafficRun, side: &SideOutcome) -> SideFigures {
    let outcome = &run.outcome;
    let is_client = side.side == "client";
    let comparable = !outcome
        .warnings
        .iter()
        .any(|w| w.name == CPU_NOT_COMPARABLE);
    let connections: u64 = outcome
        .templates
        .iter()
        .map(|t| if is_client { t.connected } else { t.accepted })
        .sum();
    let ports = ports(side);
    let spec = if is_client {
        &run.spec.client
    } else {
        &run.spec.server
    };
    let each_us =
        |ns: u64| (comparable && connections > 0).then(|| ns as f64 / 1e3 / connections as f64);
    let bits = (ports.tx_bytes + ports.rx_bytes) as f64 * 8.0;
    SideFigures {
        side: side.side.clone(),
        transport: side.transport.clone(),
        coalesce_ns: spec.as_ref().map_or(0, |s| s.coalesce.0),
        cpu: side.cpu,
        cpu_user_s: side.cpu_user_ns as f64 / 1e9,
        cpu_system_s: side.cpu_system_ns as f64 / 1e9,
        spun_s: side.spun_ns as f64 / 1e9,
        utilization: utilization(side, outcome.wall_ns),
        cpu_us_per_connection: each_us(busy_ns(side)),
        // What was spun is user time, but for the system calls in it, which are not told apart.
        cpu_user_us_per_connection: each_us(side.cpu_user_ns.saturating_sub(side.spun_ns)),
        // Busy s a s, over Gbit a s.
        cores_per_gbit: (comparable && bits > 0.0).then(|| busy_ns(side) as f64 / bits),
        peak_flows: side.peak_flows,
        flow_bytes: side.flow_bytes,
        ports,
        threads: (side.threads.iter())
            .map(|it| thread(it, outcome.wall_ns))
            .collect(),
    }
}

/// What the device of a side carried.
pub fn ports(side: &SideOutcome) -> PortFigures {
    let of = |name: &str| side.device.get(name).copied().unwrap_or(0);
    PortFigures {
        tx_frames: of("tx_frames"),
        tx_bytes: of("tx_bytes"),
        tx_dropped: of("tx_dropped"),
        tx_full: of("tx_full"),
        rx_frames: of("rx_frames"),
        rx_bytes: of("rx_bytes"),
        rx_dropped: of("rx_dropped"),
        syscalls: of("syscalls"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::traffic::samples::run;
    use record::Warning;

    #[test]
    fn costs_are_per_connection_and_per_bit() {
        let all = figures(&run());
        let client = &all.sides[0];
        // 0.4 s of work for 20,000 connections over 10 s.
        assert_eq!(client.cpu_us_per_connection, Some(20.0));
        assert_eq!(client.cpu_user_us_per_connection, Some(5.0));
        assert!((client.utilization - 0.04).abs() < 1e-9);
        // 100 MB in both directions: 0.8 Gbit took 0.4 core-seconds.
        assert_eq!(client.cores_per_gbit, Some(0.5));
        assert_eq!(all.completed_per_s, Some(1_999.0));
        assert_eq!(all.offered_per_s, Some(2_000.0));
        let rates = &all.templates[0];
        assert_eq!(
            (rates.attempted_per_s, rates.failed.len()),
            (Some(2_000.0), 1)
        );
    }

    #[test]
    fn cpu_that_is_not_comparable_is_not_shown() {
        let mut run = run();
        run.outcome
            .warnings
            .push(Warning::new(CPU_NOT_COMPARABLE, "veth", "pin"));
        let client = &figures(&run).sides[0];
        assert_eq!(
            (client.cpu_us_per_connection, client.cores_per_gbit),
            (None, None)
        );
        assert!(
            client.utilization > 0.0,
            "that it is busy is known all the same"
        );
    }

    #[test]
    fn what_did_not_happen_is_null() {
        let all = figures(&TrafficRun::default());
        assert_eq!((all.completed_per_s, all.sides.len()), (None, 0));
    }
}
