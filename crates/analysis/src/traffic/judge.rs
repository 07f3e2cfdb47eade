//! May the figures of traffic be used, and what limits it?
//!
//! In the order in which a reason makes the later ones pointless: nothing completed, too many failed, the schedule was
//! not kept, our own side was the limit. Where both ends are ours, a full core is what was to be measured.

use super::figures::{failures, offered_per_s, utilization};
use crate::limit::GENERATOR_BUSY;
use crate::words::{count, percent, plural, rate};
use crate::{Evidence, Limit, Verdict};
use record::traffic::{Pace, Protocol, SideOutcome, TemplateOutcome};
use record::{TrafficRun, Warning};

/// Failed connections, as a share of those that ended, above which the figures are not used.
const ERRORS: f64 = 0.01;
/// Connections begun late, or never, as a share of those due.
const LATE: f64 = 0.01;
/// Frames that the device lost, as a share of those received.
const LOST: f64 = 0.0001;
/// Where figures are read.
const SOURCE: &str = "traffic.json";

/// The verdict over a run.
pub fn judge(run: &TrafficRun) -> Verdict {
    let evidence = evidence(run);
    let verdict = unusable(run).unwrap_or_else(|| limit(run));
    Verdict {
        evidence,
        ..verdict
    }
}

fn sum(run: &TrafficRun, part: impl Fn(&TemplateOutcome) -> u64) -> u64 {
    run.outcome.templates.iter().map(part).sum()
}

/// What was begun and what was completed of all templates: connections. UDP has none that a server could accept: there
/// it is the questions that came and were answered.
fn work(run: &TrafficRun, is_client: bool) -> (u64, u64) {
    let of = |(number, t): (usize, &TemplateOutcome)| {
        let template = run.spec.templates.get(number);
        let is_udp = template.is_some_and(|t| matches!(t.protocol, Protocol::Udp { .. }));
        match (is_client, is_udp) {
            (true, _) => (t.attempted, t.completed),
            (false, true) => (t.exchanges + failures(t, false), t.exchanges),
            (false, false) => (t.accepted, t.completed),
        }
    };
    let parts = run.outcome.templates.iter().enumerate().map(of);
    parts.fold((0, 0), |all, one| (all.0 + one.0, all.1 + one.1))
}

fn side<'a>(run: &'a TrafficRun, name: &str) -> Option<&'a SideOutcome> {
    run.outcome.sides.iter().find(|s| s.side == name)
}

/// Why the figures say nothing of the other side; the first reason that applies.
fn unusable(run: &TrafficRun) -> Option<Verdict> {
    let is_client = run.spec.client.is_some();
    let failed = sum(run, |t| failures(t, is_client));
    let (begun, completed) = work(run, is_client);
    if begun == 0 {
        let (what, remedy) = match is_client {
            true => (
                "no connection was begun",
                "run it for longer, or check rate and count",
            ),
            false => (
                "no connection came",
                "load one of its targets while it runs",
            ),
        };
        return Some(Verdict::invalid(what, remedy));
    }
    if completed == 0 {
        let why = format!(
            "none of {} was completed{}",
            plural(begun, "connection"),
            worst(run, is_client)
        );
        return Some(Verdict::invalid(why, remedy_of(run, is_client)));
    }
    let ended = completed + failed;
    if failed as f64 > ERRORS * ended as f64 {
        let why = format!(
            "{} of {} failed{}",
            percent(failed as f64 / ended as f64),
            plural(ended, "connection"),
            worst(run, is_client)
        );
        return Some(Verdict::invalid(why, remedy_of(run, is_client)));
    }
    // Those that keep a number open have no schedule.
    let is_open = |i: usize| {
        let template = run.spec.templates.get(i);
        template.is_some_and(|t| !matches!(t.pace, Pace::Concurrent(_)))
    };
    let scheduled = || (run.outcome.templates.iter().enumerate()).filter(|(i, _)| is_open(*i));
    let of = |part: fn(&TemplateOutcome) -> u64| scheduled().map(|(_, t)| part(t)).sum::<u64>();
    let (due, late, dropped) = (of(|t| t.scheduled), of(|t| t.late), of(|t| t.dropped));
    if is_client && (late + dropped) as f64 > LATE * due as f64 {
        let busy = side(run, "client").map_or(0.0, |s| utilization(s, run.outcome.wall_ns));
        let held = run
            .spec
            .templates
            .iter()
            .any(|t| t.concurrent_max.is_some())
            || of(|t| t.failed.get("no_local_port").copied().unwrap_or(0)) > 0;
        let (limit, because, remedy) = match (busy >= GENERATOR_BUSY, held) {
            (true, _) => (
                Limit::Generator,
                format!("the client's core is {} busy", percent(busy)),
                "lower the rate, raise `coalesce`, or take a faster transport",
            ),
            (false, true) => (
                Limit::Unknown,
                "connections waited for `concurrent_max` or for a free port".to_owned(),
                "lower the rate, raise `concurrent_max`, or give the client more addresses",
            ),
            (false, false) => (
                Limit::Generator,
                format!(
                    "the client's thread was {} busy and did not get its core in time",
                    percent(busy)
                ),
                "give it a core of its own with `cpu`, and end what else runs there",
            ),
        };
        let why = format!(
            "the schedule was not met: of {} due {} began late and {} never; {because}",
            plural(due, "connection"),
            count(late),
            count(dropped)
        );
        return Some(Verdict {
            limit,
            ..Verdict::invalid(why, remedy)
        });
    }
    generator_limited(run)
}

/// Our client's core is full while somebody else answers.
fn generator_limited(run: &TrafficRun) -> Option<Verdict> {
    let client = side(run, "client")?;
    let busy = utilization(client, run.outcome.wall_ns);
    let closed = offered_per_s(run).is_none();
    (closed && run.spec.server.is_none() && busy >= GENERATOR_BUSY).then(|| Verdict {
        limit: Limit::Generator,
        resource: "generator".to_owned(),
        ..Verdict::invalid(
            format!(
                "the generator was the limit: its core is {} busy",
                percent(busy)
            ),
            "raise `coalesce`, give it a core of its own with `cpu`, or take a faster transport",
        )
    })
}

/// The most frequent failure, in words that follow the sentence.
fn worst(run: &TrafficRun, is_client: bool) -> String {
    most_frequent(run, is_client).map_or_else(String::new, |(kind, n)| {
        format!("; most of them as `{kind}`, {}", count(n))
    })
}

fn most_frequent(run: &TrafficRun, is_client: bool) -> Option<(String, u64)> {
    let mut kinds = std::collections::BTreeMap::<&String, u64>::new();
    for (kind, n) in run.outcome.templates.iter().flat_map(|t| &t.failed) {
        if !is_client || !kind.ends_with("_at_server") {
            *kinds.entry(kind).or_default() += n;
        }
    }
    let worst = kinds
        .into_iter()
        .max_by_key(|(_, n)| *n)
        .filter(|(_, n)| *n > 0);
    worst.map(|(kind, n)| (kind.clone(), n))
}

fn remedy_of(run: &TrafficRun, is_client: bool) -> &'static str {
    match most_frequent(run, is_client)
        .as_ref()
        .map(|(kind, _)| kind.as_str())
    {
        Some("connect_refused") => "start a server at the target, or correct its port",
        Some("connect_timeout" | "connect_failed") => {
            "check that the target answers on this interface: its address, a firewall, `ip neigh`"
        }
        Some("no_local_port") => "give the client more `addresses` or `ports`",
        Some("tls") => "check `server_name`, or set insecure = true",
        Some("wrong_bytes") => "the other side must send what the steps say, byte for byte",
        Some("status4xx" | "status5xx") => "check the path, and that the server serves it",
        Some("timeout") => "raise `timeout`, or lower the load",
        _ => "find out why these connections fail, and run it again",
    }
}

fn limit(run: &TrafficRun) -> Verdict {
    let both = run.spec.client.is_some() && run.spec.server.is_some();
    let busiest = run
        .outcome
        .sides
        .iter()
        .map(|s| (s, utilization(s, run.outcome.wall_ns)))
        .max_by(|a, b| a.1.total_cmp(&b.1));
    let (_, completed) = work(run, run.spec.client.is_some());
    let completed = completed as f64 * 1e9 / run.outcome.wall_ns.max(1) as f64;
    let reached = format!("{} connections/s completed", rate(completed));
    let full = busiest.filter(|(_, busy)| *busy >= GENERATOR_BUSY);
    let (limit, why) = match (full, offered_per_s(run)) {
        (Some((side, busy)), _) if both => (
            Limit::Generator,
            format!(
                "{reached}; both ends are ours, and the {}'s core is {} busy: this is what the stacks can do",
                side.side,
                percent(busy)
            ),
        ),
        (Some((side, busy)), None) => (
            Limit::Generator,
            format!(
                "{reached}; the {}'s core is {} busy",
                side.side,
                percent(busy)
            ),
        ),
        (_, Some(offered)) => (
            Limit::OfferedLoad,
            format!("{reached} of {} asked for, in time", rate(offered)),
        ),
        (None, None) if both => (
            Limit::Unknown,
            format!(
                "{reached}; both ends are ours, and neither's core was full: another program had it, or too few connections were open"
            ),
        ),
        (None, None) => (
            Limit::Unknown,
            format!("{reached}; no core of ours is full, so the other end or the way to it limits"),
        ),
    };
    Verdict {
        valid: true,
        limit,
        ..Verdict::invalid(why, "")
    }
}

fn evidence(run: &TrafficRun) -> Vec<Evidence> {
    let of_side = |s: &SideOutcome| {
        let busy = utilization(s, run.outcome.wall_ns);
        let signal = format!("core.utilization{{side={}}}", s.side);
        Evidence::new(signal, busy, "1", Some(GENERATOR_BUSY), SOURCE)
    };
    run.outcome.sides.iter().map(of_side).collect()
}

/// What a reader must know beside the verdict: what was seen, its likely cause, what to do.
pub fn warnings(run: &TrafficRun) -> Vec<Warning> {
    let mut found = Vec::new();
    for s in &run.outcome.sides {
        let of = |name: &str| s.device.get(name).copied().unwrap_or(0);
        let (rx_dropped, tx_dropped) = (of("rx_dropped"), of("tx_dropped"));
        if rx_dropped as f64 > LOST * (of("rx_frames") + rx_dropped) as f64 {
            found.push(Warning::new(
                "device_drops",
                format!(
                    "the {}'s device lost {} of {} received frames before they were taken, and TCP sent them again: its latencies are the ring's",
                    s.side,
                    count(rx_dropped),
                    count(of("rx_frames") + rx_dropped)
                ),
                "lower `coalesce`, lower the load, or give the side a core of its own with `cpu`",
            ));
        }
        if tx_dropped > 0 {
            found.push(Warning::new(
                "device_send_drops",
                format!("the {}'s device could not send {} frames", s.side, count(tx_dropped)),
                "lower the load, or raise the queue of the interface (ip link set dev NAME txqueuelen)",
            ));
        }
        if s.tcp.get("err_flow_overflow").is_some_and(|n| *n > 0) {
            found.push(Warning::new(
                "flows_refused",
                format!(
                    "the {} had no room for {} connections",
                    s.side,
                    count(s.tcp["err_flow_overflow"])
                ),
                "raise `flows_max` of its [tcp] section",
            ));
        }
    }
    let unfinished = sum(run, |t| t.unfinished);
    let begun = sum(run, |t| t.attempted);
    if unfinished > 0 && !run.outcome.interrupted && unfinished as f64 > LATE * begun as f64 {
        found.push(Warning::new(
            "unfinished",
            format!(
                "{} of {} were still open when the time to drain was over, and stand in no latency",
                count(unfinished),
                plural(begun, "connection")
            ),
            "raise `drain` above the time that a connection takes",
        ));
    }
    for kind in ["wrong_bytes", "wrong_bytes_at_server"] {
        let wrong = sum(run, |t| t.failed.get(kind).copied().unwrap_or(0));
        if wrong > 0 {
            found.push(Warning::new(
                kind,
                format!("{} carried other bytes than their template says", plural(wrong, "connection")),
                "check that the other side answers with the same template; capture the frames with `capture`",
            ));
        }
    }
    // What the run itself has said already is not said again.
    found.retain(|w| !run.outcome.warnings.iter().any(|said| said.name == w.name));
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::traffic::samples::{both_full, run};
    use record::Nanos;

    #[test]
    fn traffic_that_kept_its_schedule_is_valid() {
        let verdict = judge(&run());
        assert!(verdict.valid, "{}", verdict.why);
        assert_eq!(verdict.limit, Limit::OfferedLoad);
        assert!(
            verdict
                .why
                .contains("1,999 connections/s completed of 2,000"),
            "{}",
            verdict.why
        );
        assert_eq!(warnings(&run()), []);
    }

    /// A server of ours that answers questions by UDP has accepted nothing.
    #[test]
    fn a_server_of_udp_is_judged_by_its_answers() {
        let mut run = run();
        run.spec.server = run.spec.client.take();
        run.spec.templates[0].protocol = Protocol::Udp {
            request_bytes: 64,
            response_bytes: 64,
            exchanges: 1,
            gap: Nanos(0),
        };
        let template = &mut run.outcome.templates[0];
        (template.accepted, template.completed, template.exchanges) = (0, 0, 500);
        template.failed.clear();
        let verdict = judge(&run);
        assert!(verdict.valid, "{}", verdict.why);
        run.outcome.templates[0].exchanges = 0;
        let verdict = judge(&run);
        assert!(
            verdict.why.contains("no connection came"),
            "{}",
            verdict.why
        );
    }

    /// What is changed, and words of the reason and of the remedy.
    type Case = (fn(&mut TrafficRun), &'static str, &'static str);

    #[test]
    fn what_cannot_be_used_says_why() {
        let cases: [Case; 7] = [
            (
                |r| r.outcome.templates.clear(),
                "no connection was begun",
                "rate",
            ),
            (
                |r| {
                    r.outcome.templates[0].completed = 0;
                    r.outcome.templates[0].failed = [("connect_refused".to_owned(), 20_000)].into();
                },
                "none of 20,000 connections was completed; most of them as `connect_refused`",
                "start a server",
            ),
            (
                |r| {
                    r.outcome.templates[0].failed = [("wrong_bytes".to_owned(), 900)].into();
                },
                "failed; most of them as `wrong_bytes`",
                "byte for byte",
            ),
            (
                |r| {
                    r.spec.templates[0].concurrent_max = Some(9);
                    r.outcome.templates[0].late = 900;
                },
                "connections waited for `concurrent_max`",
                "concurrent_max",
            ),
            (
                |r| r.outcome.templates[0].late = 900,
                "did not get its core in time",
                "`cpu`",
            ),
            (
                |r| {
                    r.outcome.templates[0].dropped = 900;
                    r.outcome.sides[0].cpu_system_ns = 9_000_000_000;
                },
                "the client's core is",
                "coalesce",
            ),
            (
                |r| {
                    r.spec.templates[0].pace = Pace::Concurrent(8);
                    r.outcome.sides[0].cpu_system_ns = 9_000_000_000;
                },
                "the generator was the limit",
                "cpu",
            ),
        ];
        for (change, why, remedy) in cases {
            let mut run = run();
            change(&mut run);
            let verdict = judge(&run);
            assert!(
                !verdict.valid && verdict.why.contains(why),
                "{}",
                verdict.why
            );
            assert!(verdict.remedy.contains(remedy), "{}", verdict.remedy);
        }
    }

    #[test]
    fn a_full_core_is_the_figure_where_both_ends_are_ours() {
        let verdict = judge(&both_full());
        assert!(verdict.valid, "{}", verdict.why);
        assert!(
            verdict.why.contains("what the stacks can do"),
            "{}",
            verdict.why
        );
    }

    #[test]
    fn spinning_is_no_work() {
        let mut run = run();
        run.spec.templates[0].pace = Pace::Concurrent(8);
        run.outcome.sides[0].cpu_user_ns = 9_900_000_000;
        run.outcome.sides[0].spun_ns = 9_500_000_000;
        assert!(judge(&run).valid);
    }

    #[test]
    fn losses_of_the_device_are_said() {
        let mut run = run();
        run.outcome.sides[0]
            .device
            .insert("rx_dropped".to_owned(), 500);
        run.outcome.templates[0].unfinished = 400;
        let names: Vec<String> = warnings(&run).into_iter().map(|w| w.name).collect();
        assert_eq!(names, ["device_drops", "unfinished"]);
    }
}
