//! One load's verdict: what limits it, and before that whether its figures may be used at all.

use crate::limit::{self, Finding};
use crate::observed::{Case, Observed, Sight};
use crate::validity::{self, Schedule};
use crate::{Limit, Verdict};
use record::{LoadOutcome, LoadSpec, Series, TargetRecord};

/// Judges one load from its outcome and from whatever was watched beside it.
///
/// `series` may hold anything from nothing to a full set of monitors; `targets` is empty for a server that
/// is not on this host or was not found. `error_limit` is the largest share of failed requests, 0 to 1.
pub fn judge_load(
    outcome: &LoadOutcome,
    series: &[Series],
    spec: &LoadSpec,
    targets: &[TargetRecord],
    error_limit: f64,
) -> Verdict {
    let case = Case {
        outcome,
        series,
        spec,
        targets,
        error_limit,
    };
    judge(&case, &Observed::of(&case))
}

#[cfg(test)]
thread_local! {
    /// How often this thread has judged a load.
    pub(crate) static JUDGED: std::cell::Cell<u32> = const { std::cell::Cell::new(0) };
}

pub(crate) fn judge(case: &Case<'_>, observed: &Observed) -> Verdict {
    #[cfg(test)]
    JUDGED.set(JUDGED.get() + 1);
    let schedule = validity::schedule(case);
    let met = matches!(schedule, Schedule::Met | Schedule::None);
    let limits = limit::limits(case, observed, met);
    match validity::refusal(case, &limits, schedule) {
        Some(refusal) => verdict(refusal, false),
        None => verdict(limits.finding, true),
    }
}

/// What limits a server whose traffic was watched. There is no load whose figures could be invalid.
pub(crate) fn judge_watched(sight: &Sight<'_>, observed: &Observed) -> Verdict {
    verdict(limit::watched(sight, observed), true)
}

fn verdict(finding: Finding, valid: bool) -> Verdict {
    Verdict {
        valid,
        limit: finding.limit,
        why: finding.why,
        remedy: finding.remedy,
        resource: finding.resource.to_owned(),
        evidence: finding.evidence,
    }
}

impl Verdict {
    /// A verdict on something that has no figures.
    pub(crate) fn invalid(why: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self {
            valid: false,
            limit: Limit::Unknown,
            why: why.into(),
            remedy: remedy.into(),
            resource: String::new(),
            evidence: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load_warnings;
    use crate::observed::{Observed, Sight, Window};
    use crate::samples::{core, counter, nginx, nothing, spec, target, thread, with_rate};
    use record::{Arrival, FailureKind, Kind, Nanos};

    /// A load with everything that was watched beside it.
    struct Load {
        outcome: LoadOutcome,
        series: Vec<Series>,
        spec: LoadSpec,
        targets: Vec<TargetRecord>,
    }

    impl Load {
        /// 10 connections, closed loop, nginx with one worker (pid 7) on core 0 at `server`, the generator on
        /// core 1 at `generator`. Little's law closes.
        fn closed(server: f64, generator: f64) -> Self {
            Self {
                outcome: with_rate(10_000, Nanos::from_millis(10), generator),
                series: thread("web", 7, 7, server, 0.0),
                spec: spec(),
                targets: vec![nginx()],
            }
        }

        /// The same at 1,000/s constant.
        fn open(server: f64, generator: f64) -> Self {
            let mut load = Self::closed(server, generator);
            load.spec.arrival = Arrival::Constant { per_s: 1_000.0 };
            load
        }

        fn remote(mut self) -> Self {
            self.series.clear();
            self.targets.clear();
            self
        }

        fn with(mut self, series: Vec<Series>) -> Self {
            self.series.extend(series);
            self
        }

        fn change(mut self, change: impl Fn(&mut Self)) -> Self {
            change(&mut self);
            self
        }

        fn failing(mut self, kind: FailureKind, failed: u64, succeeded: u64, words: &str) -> Self {
            let requests = &mut self.outcome.requests;
            requests.failed.insert(kind, failed);
            requests.succeeded = succeeded;
            requests.completed = succeeded;
            self.outcome.first_failure.insert(kind, words.into());
            self
        }

        fn verdict(&self) -> Verdict {
            judge_load(&self.outcome, &self.series, &self.spec, &self.targets, 0.01)
        }

        fn warnings(&self) -> Vec<String> {
            load_warnings(&self.outcome, &self.series, &self.spec, &self.targets, 0.01)
                .into_iter()
                .map(|w| w.name)
                .collect()
        }
    }

    /// Validity, limit and resource, and words that the reason must contain.
    fn check(load: &Load, valid: bool, limit: Limit, resource: &str, words: &[&str]) {
        let verdict = load.verdict();
        let found = (verdict.valid, verdict.limit, verdict.resource.as_str());
        assert_eq!(found, (valid, limit, resource), "{verdict:#?}");
        for word in words {
            assert!(verdict.why.contains(word), "`{word}` in {}", verdict.why);
        }
        assert!(!verdict.remedy.is_empty(), "{verdict:#?}");
        let numbers = format!("{verdict:?}");
        assert!(
            !numbers.contains("NaN") && !numbers.contains("inf"),
            "{numbers}"
        );
    }

    #[test]
    fn a_saturated_worker_is_named() {
        let load = Load::closed(0.99, 0.62);
        let words = [
            "nginx worker 7 on core 0",
            "99 %",
            "user 33 %",
            "system 66 %",
            "38 % headroom",
        ];
        check(&load, true, Limit::Server, "worker", &words);
        assert_eq!(load.warnings(), Vec::<String>::new());
        let first = &load.verdict().evidence[0];
        assert_eq!(first.signal, "thread.utilization{name=nginx,pid=7,tid=7}");
        assert_eq!(first.threshold, Some(0.95));
    }

    #[test]
    fn a_saturated_generator_is_not_valid() {
        let words = [
            "the generator was the limit",
            "load thread 901 on core 1",
            "nginx worker 7 on core 0 at 60 %",
        ];
        check(
            &Load::closed(0.6, 0.97),
            false,
            Limit::Generator,
            "generator",
            &words,
        );
        // Not quite full, but in a closed loop nothing else is waited for.
        check(
            &Load::closed(0.5, 0.88),
            false,
            Limit::Generator,
            "generator",
            &["88 %"],
        );
        // In an open loop 88 % is headroom, as long as the schedule was met.
        check(
            &Load::open(0.5, 0.88),
            true,
            Limit::OfferedLoad,
            "offered_load",
            &["12 % headroom"],
        );
        // The server is the busier of two that are not full: the generator is not the limit.
        check(
            &Load::closed(0.93, 0.88),
            true,
            Limit::OfferedLoad,
            "connections",
            &["by 7.5 % at most"],
        );
    }

    #[test]
    fn a_generator_whose_core_softirq_fills_is_saturated() {
        let load = Load::closed(0.5, 0.6).with(core(1, 0.6, 0.39, 0.0));
        check(
            &load,
            false,
            Limit::Generator,
            "generator",
            &["softirq work fills"],
        );
        // The same full core, filled by somebody else.
        let load = Load::closed(0.5, 0.6).with(core(1, 0.99, 0.0, 0.0));
        check(&load, true, Limit::OfferedLoad, "connections", &[]);
        // Waiting for its CPU.
        let wait = counter("thread.run_queue_wait_s", 0.4);
        let wait = wait
            .with("target", "generator")
            .with("pid", 900)
            .with("tid", 901);
        let load = Load::closed(0.5, 0.6).with(vec![wait]);
        check(
            &load,
            false,
            Limit::Generator,
            "generator",
            &["waited for a CPU another 40 %"],
        );
    }

    #[test]
    fn both_saturated_is_the_server_with_a_warning() {
        let load = Load::closed(0.98, 0.97);
        check(&load, true, Limit::Server, "worker", &["nginx worker 7"]);
        assert_eq!(load.warnings(), ["generator_without_head_room"]);
    }

    #[test]
    fn spinning_is_head_room() {
        let load = Load::open(0.2, 0.98)
            .with(core(1, 0.98, 0.0, 0.0))
            .change(|l| {
                l.outcome.generator.threads[0].spin_ns = 8_000_000_000;
            });
        check(
            &load,
            true,
            Limit::OfferedLoad,
            "offered_load",
            &["82 % headroom"],
        );
    }

    #[test]
    fn an_idle_open_loop_is_the_offered_load() {
        let words = [
            "1,000/s",
            "met with room",
            "nginx worker 7 on core 0, was at 12 %",
            "92 % headroom",
        ];
        check(
            &Load::open(0.12, 0.08),
            true,
            Limit::OfferedLoad,
            "offered_load",
            &words,
        );
        check(&Load::open(0.97, 0.08), true, Limit::Server, "worker", &[]);
    }

    /// Ten streams that carry 10,000 events in 10 s.
    fn streams(server: f64, generator: f64) -> Load {
        Load::closed(server, generator).change(|l| {
            l.spec.sse = true;
            l.outcome.response.clear();
            l.outcome.service.clear();
            l.outcome.event_streams = Some(record::EventStreams {
                opened: 10,
                open: 10,
                ..Default::default()
            });
        })
    }

    #[test]
    fn events_come_at_their_servers_pace_unless_somebody_is_full() {
        let words = [
            "1,000/s on 10 streams",
            "its own pace",
            "nginx worker 7 on core 0 at 5 %",
            "92 % headroom",
        ];
        let idle = streams(0.05, 0.08);
        check(&idle, true, Limit::OfferedLoad, "events", &words);
        assert_eq!(idle.warnings(), Vec::<String>::new());
        let words = ["1,000/s on 10 streams", "was not watched"];
        let remote = streams(0.05, 0.08).remote();
        check(&remote, true, Limit::OfferedLoad, "events", &words);
        let full = streams(0.99, 0.4);
        check(&full, true, Limit::Server, "worker", &["nginx worker 7"]);
        let generator = streams(0.3, 0.97);
        check(&generator, false, Limit::Generator, "generator", &["97 %"]);
    }

    #[test]
    fn streams_that_fail_do_not_hide_behind_the_events_of_others() {
        let broken = |failed| {
            streams(0.05, 0.08).change(|l| {
                let requests = &mut l.outcome.requests;
                requests.failed.insert(FailureKind::Timeout, failed);
            })
        };
        let words = [
            "17 % of the streams failed",
            "sent no event for 2.00s on 2 streams",
        ];
        check(&broken(2), false, Limit::Unknown, "", &words);
        let silent = broken(3).change(|l| {
            l.outcome.requests.succeeded = 0;
            l.outcome.requests.completed = 0;
        });
        let words = ["no event came", "sent no event for 2.00s on all 3 streams"];
        check(&silent, false, Limit::Unknown, "", &words);
        let unheard = silent.change(|l| l.outcome.requests.failed.clear());
        check(
            &unheard,
            false,
            Limit::Unknown,
            "",
            &["no event came", "sent none"],
        );
    }

    #[test]
    fn a_sleeping_backend_is_not_a_busy_one() {
        let words = [
            "10 connections x 10.00ms",
            "waiting at the server, not on a CPU",
            "more connections",
        ];
        check(
            &Load::closed(0.05, 0.08),
            true,
            Limit::OfferedLoad,
            "connections",
            &words,
        );
        // Pipelined, it is the requests in flight that count.
        let pipelined = Load::closed(0.05, 0.08).change(|l| {
            l.spec.connections = 5;
            l.spec.pipeline = 2;
        });
        check(
            &pipelined,
            true,
            Limit::OfferedLoad,
            "connections",
            &["10 requests in flight (5 connections x 2) x 10.00ms"],
        );
        // One connection, answered at once: the time goes to the CPUs in turn.
        let ping_pong = Load::closed(0.5, 0.45).change(|l| {
            l.spec.connections = 1;
            l.outcome = with_rate(100_000, Nanos(100_000), 0.45);
        });
        check(
            &ping_pong,
            true,
            Limit::OfferedLoad,
            "connections",
            &["1 connection x 100us", "take turns"],
        );
        // Little's law does not close: half of the connections' time is unaccounted for.
        let lost = Load::closed(0.05, 0.08).change(|l| l.spec.connections = 20);
        check(
            &lost,
            true,
            Limit::Unknown,
            "",
            &["only 50 % of the connections"],
        );
        assert_eq!(lost.warnings(), ["littles_law_open"]);
    }

    #[test]
    fn connections_at_their_limit_are_the_offered_load() {
        let slow = |bytes| {
            Load::closed(0.05, 0.08).change(|l| {
                l.spec.limit_rate = Some(record::Bytes(100_000));
                l.outcome.received_bytes = bytes;
            })
        };
        // 10 connections for 10 s, all but a tenth of what they may carry.
        let words = [
            "10 connections x 97.66KiB/s",
            "90 % of it",
            "nginx worker 7",
        ];
        check(
            &slow(9_000_000),
            true,
            Limit::OfferedLoad,
            "limit_rate",
            &words,
        );
        check(
            &slow(9_000_000).remote(),
            true,
            Limit::OfferedLoad,
            "limit_rate",
            &[],
        );
        // With room in the connections it is something else that they wait for, and a full server comes first.
        check(
            &slow(5_000_000),
            true,
            Limit::OfferedLoad,
            "connections",
            &[],
        );
        let new = slow(9_000_000).change(|l| l.outcome.connections.opened = 4_500);
        check(&new, true, Limit::OfferedLoad, "connections", &[]);
        let full = slow(9_000_000).change(|l| l.series = thread("web", 7, 7, 0.99, 0.0));
        check(&full, true, Limit::Server, "worker", &[]);
        let late = slow(0).failing(FailureKind::Timeout, 10, 0, "");
        check(&late, false, Limit::Unknown, "", &["left all 10 requests"]);
        assert!(late.verdict().remedy.contains("--limit-rate"));
    }

    #[test]
    fn a_connection_per_request_closes_with_its_connect_time() {
        let load = Load::closed(0.05, 0.08).change(|l| {
            l.spec.connections = 20;
            l.spec.requests_per_connection = Some(1);
            l.outcome.connect.record(Nanos::from_millis(10));
        });
        check(&load, true, Limit::OfferedLoad, "connections", &[]);
    }

    #[test]
    fn a_window_of_milliseconds_does_not_tell_who_was_busier() {
        let load = Load::closed(0.05, 0.9);
        check(&load, false, Limit::Generator, "generator", &[]);
        let short = load.change(|l| {
            l.outcome.measured_to = l.outcome.measured_from + Nanos::from_millis(2);
            l.outcome.generator.threads[0].cpu_user_ns = 300_000;
            l.outcome.generator.threads[0].cpu_system_ns = 1_500_000;
            l.outcome.generator.threads[0].wall_ns = 2_000_000;
        });
        let verdict = short.verdict();
        assert_ne!(verdict.limit, Limit::Generator, "{}", verdict.why);
    }

    fn proxied(proxy: f64, backend: f64, url: &str) -> Load {
        let mut load = Load::closed(0.0, 0.4);
        load.spec.url = url.into();
        let mut behind = target("backend", 8, "127.0.0.1:9000");
        behind.cpus = vec![2];
        behind.processes[0].cpus = vec![2];
        load.targets = vec![behind, target("proxy", 7, "127.0.0.1:8080")];
        load.series = thread("proxy", 7, 7, proxy, 0.0);
        load.series.extend(thread("backend", 8, 8, backend, 0.0));
        load
    }

    #[test]
    fn proxy_and_backend_are_told_apart() {
        for (proxy, backend, url, resource, words) in [
            (
                0.99,
                0.5,
                "http://127.0.0.1:8080/x",
                "worker",
                "nginx worker 7 on core 0",
            ),
            (
                0.5,
                0.99,
                "http://127.0.0.1:8080/x",
                "backend",
                "the backend's nginx worker 8 on core 2",
            ),
            (
                0.5,
                0.99,
                "http://proxy/",
                "backend",
                "the backend's nginx worker 8",
            ),
            // Asked directly, the backend is the server.
            (
                0.0,
                0.99,
                "http://backend/",
                "worker",
                "nginx worker 8 on core 2",
            ),
        ] {
            let load = proxied(proxy, backend, url);
            check(&load, true, Limit::Server, resource, &[words]);
        }
    }

    #[test]
    fn proxy_and_backend_fill_one_core_together() {
        let load = proxied(0.6, 0.39, "http://proxy/").change(|l| {
            l.targets[0].processes[0].cpus = vec![0];
            l.series.extend(core(0, 0.99, 0.0, 0.0));
        });
        check(
            &load,
            true,
            Limit::Server,
            "worker",
            &["nginx worker 7", "fill core 0"],
        );
    }

    #[test]
    fn many_threads_fill_one_core_together() {
        let mut load = Load {
            series: thread("web", 7, 7, 0.33, 0.66),
            ..Load::closed(0.0, 0.3)
        };
        for tid in [8, 9] {
            load = load.with(thread("web", 7, tid, 0.33, 0.66));
        }
        let words = ["3 threads ran on 0.99 cores together", "was busy 33 %"];
        check(&load, true, Limit::Server, "worker", &words);
    }

    #[test]
    fn processes_that_came_after_the_look_at_them_fill_the_core_of_the_others() {
        let load = Load {
            series: thread("web", 7, 7, 0.33, 0.66),
            ..Load::closed(0.0, 0.3)
        };
        let mut load = load.change(|l| {
            l.targets[0].cpus.clear();
            l.targets[0].processes[0].cpus = vec![0];
            l.series.extend(core(0, 0.99, 0.0, 0.0));
            l.series.extend(core(1, 0.3, 0.0, 0.0));
        });
        for pid in [8, 9] {
            load = load.with(thread("web", pid, pid, 0.33, 0.66));
        }
        check(&load, true, Limit::Server, "worker", &["core 0"]);
    }

    #[test]
    fn softirq_fills_the_core_of_a_worker() {
        let load = Load::closed(0.6, 0.5).with(core(0, 0.6, 0.39, 0.0));
        check(
            &load,
            true,
            Limit::Server,
            "worker",
            &["fill core 0", "39 % of softirq"],
        );
        // The same core full of somebody else's work, the worker waiting for it.
        let load = Load {
            series: thread("web", 7, 7, 0.3, 0.69),
            ..Load::closed(0.0, 0.3)
        };
        let load = load.with(core(0, 1.0, 0.0, 0.0));
        let words = [
            "ran 30 % of the time",
            "another 69 %",
            "processes outside the experiment took 70 % of core 0",
        ];
        check(&load, false, Limit::Unknown, "host_cpu", &words);
        assert_eq!(load.warnings(), ["foreign_cpu"]);
    }

    /// As nginx's `worker_cpu_affinity auto` does.
    #[test]
    fn a_server_that_leaves_its_cpus_is_named() {
        let cpus = |given: &[u32], own: &[u32]| {
            Load::closed(0.99, 0.3).change(|load| {
                load.targets[0].cpus = given.to_vec();
                for process in &mut load.targets[0].processes {
                    process.cpus = own.to_vec();
                }
            })
        };
        let named = |given, own| {
            cpus(given, own)
                .warnings()
                .contains(&"left_its_cpus".to_owned())
        };
        assert!(named(&[0], &[1]));
        assert!(named(&[0], &[0, 1]));
        assert!(!named(&[0, 1], &[1]));
        assert!(!named(&[], &[1]));
    }

    /// A worker on core 0 that runs half of the time and waits the other half; core 0 is full.
    fn half_of_a_core() -> Load {
        let load = Load {
            series: thread("web", 7, 7, 0.49, 0.49),
            ..Load::closed(0.0, 0.3)
        };
        load.with(core(0, 0.99, 0.0, 0.0))
            .with(core(1, 0.3, 0.0, 0.0))
    }

    #[test]
    fn a_neighbour_on_the_servers_core_spoils_its_figures() {
        let words = [
            "nginx worker 7 on core 0 ran 49 %",
            "outside the experiment took 50 % of core 0",
        ];
        check(&half_of_a_core(), false, Limit::Unknown, "host_cpu", &words);
        let evidence = half_of_a_core().verdict().evidence;
        assert_eq!(evidence[0].signal, "cpu.foreign{core=0}");
        assert!(
            (evidence[0].value.unwrap() - 0.5).abs() < 0.01,
            "{evidence:?}"
        );
        assert_eq!(evidence[0].threshold, Some(0.1));
        // A generator that is pinned there is a neighbour too.
        let load = half_of_a_core().change(|l| {
            l.outcome = with_rate(10_000, Nanos::from_millis(10), 0.49);
            l.outcome.generator.threads[0].cpu = Some(0);
        });
        let words = ["while the generator took 49 % of core 0"];
        check(&load, false, Limit::Unknown, "host_cpu", &words);
    }

    #[test]
    fn a_worker_that_its_quota_stops_shares_its_core_with_nobody() {
        let load = |owner: &str| {
            let stopped = counter("cgroup.throttled_s", 0.48).with("target", owner);
            Load {
                series: thread("web", 7, 7, 0.49, 0.48),
                ..Load::closed(0.0, 0.3)
            }
            .with(core(0, 0.5, 0.0, 0.0))
            .with(core(1, 0.3, 0.0, 0.0))
            .with(vec![stopped])
        };
        let words = ["ran only 49 %", "quota", "stopped it 48 % of the time"];
        check(&load("web"), true, Limit::Server, "cpu_quota", &words);
        let words = ["waited for a CPU another 48 %"];
        check(&load("other"), true, Limit::Server, "worker", &words);
        // Who runs there besides is told first: the figures are not the server's own.
        let beside = load("web").with(core(0, 0.99, 0.0, 0.0));
        assert_eq!(beside.verdict().resource, "host_cpu");
    }

    #[test]
    fn the_cores_of_this_machine_say_nothing_of_a_target_on_another() {
        let there = |is_this_machine| {
            move |load: &mut Load| {
                load.targets[0].host = Some(record::RanOn {
                    name: "far".to_owned(),
                    is_this_machine,
                });
            }
        };
        // Full here, by whomever: that is not what its thread waits for there.
        let load = half_of_a_core().change(there(false));
        let words = [
            "nginx worker 7 on core 0 of far",
            "waited for a CPU another 49 %",
        ];
        check(&load, true, Limit::Server, "worker", &words);
        let load = half_of_a_core().change(there(true));
        let words = ["nginx worker 7 on core 0 ran 49 %"];
        check(&load, false, Limit::Unknown, "host_cpu", &words);
        // Nobody is full as far as was seen, and that is said.
        let words = [
            "met with room",
            "of far, where targets ran, only their threads were watched",
        ];
        let load = Load::open(0.12, 0.08).change(there(false));
        check(&load, true, Limit::OfferedLoad, "offered_load", &words);
        // What it uses there is not missing here.
        let idle = Load::open(0.9, 0.2)
            .with(core(0, 0.5, 0.0, 0.0))
            .with(core(1, 0.2, 0.0, 0.0));
        assert_eq!(idle.change(there(false)).warnings(), ["foreign_cpu"]);
    }

    #[test]
    fn two_threads_of_a_server_on_one_core_are_its_own_limit() {
        let sibling = thread("web", 7, 8, 0.5, 0.49);
        let words = [
            "nginx worker 7 thread 8 on core 0",
            "busy 50 %",
            "fill core 0",
        ];
        let load = half_of_a_core().with(sibling.clone());
        check(&load, true, Limit::Server, "worker", &words);
        assert_eq!(load.warnings(), Vec::<String>::new());
        // So are two targets that share it.
        let load = half_of_a_core()
            .with(thread("backend", 8, 8, 0.5, 0.49))
            .change(|l| {
                l.targets.insert(0, target("backend", 8, "127.0.0.1:9000"));
            });
        check(&load, true, Limit::Server, "backend", &["fill core 0"]);
        // The one with the larger part is told, whose thread is not the busiest.
        let threads = [7, 8].map(|tid| thread("web", 7, tid, 0.3, 0.3)).concat();
        let load = half_of_a_core()
            .change(|l| l.series.retain(|s| !s.signal.starts_with("thread.")))
            .with(threads)
            .with(thread("backend", 9, 9, 0.4, 0.3))
            .change(|l| {
                l.targets.insert(0, target("backend", 9, "127.0.0.1:9000"));
            });
        check(&load, true, Limit::Server, "worker", &["fill core 0"]);
    }

    #[test]
    fn a_neighbour_of_a_server_with_time_off_is_a_warning() {
        let load = Load::open(0.3, 0.2)
            .with(core(0, 0.7, 0.0, 0.0))
            .with(core(1, 0.2, 0.0, 0.0));
        check(&load, true, Limit::OfferedLoad, "offered_load", &[]);
        assert_eq!(load.warnings(), ["foreign_cpu"]);
    }

    #[test]
    fn answers_that_gather_do_not_open_littles_law() {
        // Of 10 connections 8.7 wait for an answer: within what a busy closed loop does.
        let gathering = |service| {
            Load::closed(0.99, 0.2).change(move |l| l.outcome = with_rate(10_000, service, 0.2))
        };
        let load = gathering(Nanos(8_700_000));
        assert_eq!(load.warnings(), Vec::<String>::new());
        let load = gathering(Nanos(8_300_000));
        assert_eq!(load.warnings(), ["littles_law_open"]);
    }

    #[test]
    fn four_threads_fill_two_cores() {
        let mut web = nginx();
        web.cpus = vec![0, 1];
        web.processes[0].cpus = vec![0, 1];
        let mut load = Load::closed(0.0, 0.3);
        load.targets = vec![web];
        load.series = (7..11)
            .flat_map(|tid| thread("web", 7, tid, 0.49, 0.3))
            .collect();
        check(&load, true, Limit::Server, "worker", &["fill cores 0,1"]);
        // Two threads of four busy half the time each fill nothing.
        load.series.truncate(8);
        load.series
            .retain(|s| s.signal != "thread.run_queue_wait_s");
        check(&load, true, Limit::OfferedLoad, "connections", &[]);
    }

    #[test]
    fn threads_that_came_and_went_between_samples_are_the_servers_work_too() {
        let process = |signal, share| {
            counter(signal, share)
                .with("target", "web")
                .with("pid", 7)
                .with("name", "python3")
        };
        let mut load = Load::closed(0.0, 0.3);
        load.series = thread("web", 7, 7, 0.1, 0.0);
        load.series.extend([
            process("process.cpu_user_s", 0.6),
            process("process.cpu_system_s", 0.4),
        ]);
        check(
            &load,
            true,
            Limit::Server,
            "worker",
            &["python3 short-lived threads 7", "busy 90 %"],
        );
        // What ticks and nanoseconds differ by is nobody's work.
        load.series.truncate(4);
        load.targets[0].cpus = vec![0, 1];
        load.targets[0].processes[0].cpus = vec![0, 1];
        load.series.push(process("process.cpu_user_s", 0.13));
        check(&load, true, Limit::OfferedLoad, "connections", &[]);
    }

    #[test]
    fn programs_that_a_server_starts_for_requests_are_its_own() {
        let process = |signal: &str, pid: i32, share: f64| {
            counter(signal, share)
                .with("target", "web")
                .with("pid", pid)
                .with("name", "cgid")
        };
        let mut load = Load::closed(0.1, 0.3);
        load.series.push(process("process.children_user_s", 7, 0.8));
        let observed = |load: &Load| {
            Observed::seen(&Sight {
                window: Window::of(&load.outcome),
                series: &load.series,
                spec: &load.spec,
                targets: &load.targets,
                threads: &load.outcome.generator.threads,
                loaded: true,
            })
        };
        let busy = |load: &Load| -> f64 { observed(load).tasks.iter().map(|t| t.busy).sum() };
        assert!((busy(&load) - 0.9).abs() < 0.01, "{}", busy(&load));
        // One of them was watched until it ended, half way: its whole life is counted once.
        let mut watched = process("process.cpu_user_s", 8, 0.4);
        let half = watched.at_ns.len() / 2;
        watched.at_ns.truncate(half);
        watched.values.truncate(half);
        watched
            .values
            .iter_mut()
            .for_each(|used_s| *used_s -= 100.0);
        let life_s = watched.values[half - 1];
        let before = busy(&load);
        load.series.push(watched);
        let seen = observed(&load);
        let after: f64 = seen
            .tasks
            .iter()
            .filter(|t| t.pid == 7)
            .map(|t| t.busy)
            .sum();
        let window_s = Window::of(&load.outcome).seconds();
        assert!(
            (before - after - life_s / window_s).abs() < 0.01,
            "{before} {after} {life_s}"
        );
        // However many there were, they are no thread that is full.
        load.series.truncate(4);
        load.targets[0].cpus = vec![0, 1];
        load.targets[0].processes[0].cpus = vec![0, 1];
        load.series.push(process("process.children_user_s", 7, 1.0));
        check(&load, true, Limit::OfferedLoad, "connections", &[]);
    }

    #[test]
    fn children_that_nobody_waits_for_are_weighed_by_the_profile() {
        let stack = |pid, weight| record::Stack {
            target: "web".to_owned(),
            pid,
            weight,
            thread: "cgi".to_owned(),
            frames: Vec::new(),
            state: None,
        };
        let examination = |own, others| record::Examination {
            profiles: vec![record::Profile {
                kind: record::ProfileKind::OnCpu,
                hz: 199,
                samples: own + 2 * others,
                lost: 0,
                unwound: 0,
                frames: Vec::new(),
                stacks: vec![stack(7, own), stack(101, others), stack(102, others)],
            }],
            ..record::Examination::default()
        };
        let load = Load::closed(0.2, 0.3);
        let busy = |examination: Option<&record::Examination>| -> f64 {
            let case = Case {
                outcome: &load.outcome,
                series: &load.series,
                spec: &load.spec,
                targets: &load.targets,
                error_limit: 0.01,
            };
            let observed = Observed::of(&case).with_profile(examination);
            observed.tasks.iter().map(|t| t.busy).sum()
        };
        assert!((busy(Some(&examination(100, 150))) - 0.8).abs() < 0.01);
        assert!((busy(None) - 0.2).abs() < 0.01);
        // A dozen samples weigh nothing.
        assert!((busy(Some(&examination(12, 150))) - 0.2).abs() < 0.01);
    }

    #[test]
    fn a_process_of_two_half_busy_threads_is_not_a_saturated_worker() {
        let process = |signal, share| {
            counter(signal, share)
                .with("target", "web")
                .with("pid", 7)
                .with("name", "java")
        };
        let mut threads = counter("process.threads", 0.0).with("pid", 7);
        threads.kind = Kind::Gauge;
        let mut load = Load::closed(0.0, 0.3);
        load.targets[0].cpus = vec![0, 1];
        load.targets[0].processes[0].cpus = vec![0, 1];
        load.series = vec![
            process("process.cpu_user_s", 0.6),
            process("process.cpu_system_s", 0.4),
            threads,
        ];
        check(&load, true, Limit::OfferedLoad, "connections", &[]);
        // Without word of its threads, a process is taken for one.
        load.series.pop();
        check(&load, true, Limit::Server, "worker", &["java worker 7"]);
    }

    fn queue(length: f64) -> Vec<Series> {
        [("listen.queue", length), ("listen.backlog", 128.0)]
            .map(|(signal, value)| {
                let mut s = Series::new(signal, "connections", "sock_diag", Kind::Gauge);
                (2..12).for_each(|t| s.push(Nanos::from_secs(t), value));
                s.with("address", "127.0.0.1:8080")
            })
            .into()
    }

    #[test]
    fn server_and_generator_on_the_same_cores_blame_neither() {
        let mut load = Load::closed(0.0, 0.45);
        load.targets[0].cpus.clear();
        load.targets[0].processes[0].cpus.clear();
        load.series = thread("web", 7, 7, 0.5, 0.3);
        load.series.extend(thread("web", 8, 8, 0.5, 0.3));
        load.series
            .extend([core(0, 0.9, 0.1, 0.0), core(1, 0.9, 0.1, 0.0)].concat());
        load.outcome.generator.threads[0].cpu = None;
        let second = load.outcome.generator.threads[0].clone();
        load.outcome.generator.threads.push(second);
        let words = ["share all 2 cores", "server used 1.00", "generator 0.90"];
        check(&load, true, Limit::Unknown, "host_cpu", &words);
        // A core with room: then nobody is full.
        load.series.retain(|s| s.label("core") != Some("1"));
        load.series.extend(core(1, 0.6, 0.1, 0.0));
        check(&load, true, Limit::OfferedLoad, "connections", &[]);
    }

    #[test]
    fn a_server_that_freezes_slips_but_meets_the_schedule() {
        let load = Load::open(0.1, 0.1).change(|l| l.outcome.requests.late = 900);
        check(&load, true, Limit::OfferedLoad, "offered_load", &[]);
        assert_eq!(load.warnings(), ["schedule_slipped"]);
    }

    /// Numbers of any size that fit together in no way at all.
    fn nonsense(seed: u64) -> Load {
        let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        let mut below = |limit: u64| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state % limit
        };
        let mut load = Load::closed(below(3) as f64, below(3) as f64);
        load.spec.arrival = match below(3) {
            0 => Arrival::Closed,
            1 => Arrival::Constant {
                per_s: below(2) as f64 * 1e6,
            },
            _ => Arrival::Poisson {
                per_s: below(1_000) as f64,
                seed: 1,
            },
        };
        load.spec.connections = below(3) as u32;
        load.spec.requests = (below(2) == 0).then(|| below(10));
        load.outcome.measured_from = Nanos(below(4) * 5_000_000_000);
        load.outcome.measured_to = Nanos(below(4) * 5_000_000_000);
        let requests = &mut load.outcome.requests;
        requests.scheduled = below(2) * below(1 << 40);
        requests.sent = below(2) * below(1 << 40);
        requests.completed = below(2) * below(1 << 40);
        requests.succeeded = below(2) * below(1 << 40);
        requests.failed.insert(
            FailureKind::ALL[below(15) as usize],
            below(2) * below(1 << 40),
        );
        load.outcome.generator.threads[0].wall_ns = below(2) * 10;
        if below(2) == 0 {
            load.outcome.response = record::Histogram::new();
            load.outcome.service = record::Histogram::new();
        }
        load.series.retain(|_| below(2) == 0);
        for series in &mut load.series {
            let kept = below(4) as usize * 5;
            series.at_ns.truncate(kept);
            series.values.truncate(kept);
        }
        load
    }

    #[test]
    fn nonsense_gives_numbers_all_the_same() {
        for seed in 0..300 {
            let load = nonsense(seed);
            let said = format!("{:?} {:?}", load.verdict(), load.warnings());
            assert!(
                !said.contains("NaN") && !said.contains("inf"),
                "{seed}: {said}"
            );
            let none = load.outcome.requests.succeeded == 0;
            assert!(!(none && load.verdict().valid), "{seed}: {said}");
        }
    }

    #[test]
    fn a_listen_queue_that_overflows_is_named() {
        let overflow = || {
            vec![
                counter("tcp.listen_overflows", 16.0),
                counter("tcp.listen_drops", 16.0),
            ]
        };
        let load = Load::closed(0.2, 0.2).with(overflow());
        check(
            &load,
            true,
            Limit::Server,
            "listen_queue",
            &["160 overflows", "160 drops"],
        );
        let load = Load::closed(0.2, 0.2).with(queue(129.0));
        check(
            &load,
            true,
            Limit::Server,
            "listen_queue",
            &["127.0.0.1:8080 reached 129 of 128"],
        );
        let load = Load::closed(0.2, 0.2).with(queue(5.0));
        check(&load, true, Limit::OfferedLoad, "connections", &[]);
        // Behind a saturated worker the queue only tells that it is saturated.
        let load = Load::closed(0.99, 0.2).with(overflow());
        check(&load, true, Limit::Server, "worker", &[]);
        assert_eq!(load.warnings(), ["listen_overflows"]);
    }

    #[test]
    fn the_burst_of_first_connections_is_not_an_overflowing_queue() {
        let mut burst = counter("tcp.listen_overflows", 0.0);
        burst.values[4..].iter_mut().for_each(|v| *v += 50.0);
        let load = Load::closed(0.2, 0.2).with(vec![burst]);
        check(&load, true, Limit::OfferedLoad, "connections", &[]);
        assert_eq!(load.warnings(), ["listen_overflows"]);
    }

    #[test]
    fn lost_segments_are_the_network() {
        let segments = |resent| {
            vec![
                counter("tcp.retrans_segs", resent),
                counter("tcp.out_segs", 1_000.0),
            ]
        };
        let load = Load::closed(0.2, 0.2).with(segments(30.0));
        check(
            &load,
            true,
            Limit::Network,
            "retransmissions",
            &["3 % of those sent"],
        );
        let load = Load::closed(0.2, 0.2).with(segments(1.0));
        check(&load, true, Limit::OfferedLoad, "connections", &[]);
    }

    #[test]
    fn a_server_that_was_not_watched_is_not_guessed_at() {
        let words = ["was not watched", "58 % headroom"];
        check(
            &Load::closed(0.0, 0.42).remote(),
            true,
            Limit::Unknown,
            "",
            &words,
        );
        check(
            &Load::open(0.0, 0.42).remote(),
            true,
            Limit::OfferedLoad,
            "offered_load",
            &words,
        );
        check(
            &Load::closed(0.0, 0.96).remote(),
            false,
            Limit::Generator,
            "generator",
            &words[..1],
        );
    }

    #[test]
    fn a_schedule_that_was_not_met_is_not_valid() {
        let short = |l: &mut Load| {
            l.spec.arrival = Arrival::Constant { per_s: 2_000.0 };
            l.outcome.requests.scheduled = 20_000;
            l.outcome.requests.late = 9_000;
            l.outcome.requests.dropped = 8_000;
        };
        let words = [
            "the schedule was not met",
            "2,000/s offered 1,000/s",
            "9,000 late, 8,000 dropped",
            "nginx worker 7",
        ];
        check(
            &Load::closed(0.99, 0.2).change(short),
            false,
            Limit::Server,
            "worker",
            &words,
        );
        check(
            &Load::closed(0.2, 0.2).change(short),
            false,
            Limit::OfferedLoad,
            "connections",
            &["hold the schedule"],
        );
        check(
            &Load::closed(0.2, 0.99).change(short),
            false,
            Limit::Generator,
            "generator",
            &["the generator was the limit"],
        );
    }

    #[test]
    fn a_schedule_met_within_chance_is_met() {
        // 9,800 of 10,000 is chance for Poisson arrivals, but not for constant ones.
        let fewer = |arrival| {
            Load::open(0.1, 0.1).change(|l| {
                l.spec.arrival = arrival;
                l.outcome = with_rate(9_800, Nanos::from_millis(1), 0.1);
            })
        };
        let poisson = fewer(Arrival::Poisson {
            per_s: 1_000.0,
            seed: 1,
        });
        check(&poisson, true, Limit::OfferedLoad, "offered_load", &[]);
        let constant = fewer(Arrival::Constant { per_s: 1_000.0 });
        check(
            &constant,
            false,
            Limit::Unknown,
            "",
            &["schedule was not met"],
        );
    }

    #[test]
    fn a_generator_that_sends_late_by_itself_is_not_valid() {
        let load = Load::open(0.1, 0.1).change(|l| {
            l.outcome
                .generator
                .schedule_lag
                .record(Nanos::from_millis(5));
        });
        check(
            &load,
            false,
            Limit::Generator,
            "generator",
            &["schedule lag has a p99 of 5.00ms", "1.00ms"],
        );
        let load = Load::open(0.1, 0.1)
            .change(|l| l.outcome.generator.schedule_lag.record(Nanos(900_000)));
        check(&load, true, Limit::OfferedLoad, "offered_load", &[]);
    }

    #[test]
    fn nothing_answered_gives_the_cause_first() {
        let refused = Load::closed(0.0, 0.0).change(|l| l.spec.url = "http://127.0.0.1:1/".into());
        let refused = refused.failing(
            FailureKind::ConnectRefused,
            10,
            0,
            "Connection refused (os error 111)",
        );
        let words =
            ["no request succeeded: 127.0.0.1:1 refused all 10 connections (Connection refused"];
        check(&refused, false, Limit::Unknown, "", &words);
        let only_500 = Load::closed(0.99, 0.2).failing(FailureKind::Status5xx, 900, 0, "500");
        check(
            &only_500,
            false,
            Limit::Unknown,
            "",
            &["all 900 responses of 127.0.0.1:8080 had a status of 500 to 599"],
        );
        let ports = Load::closed(0.2, 0.2).failing(FailureKind::NoLocalPort, 5, 0, "");
        check(
            &ports,
            false,
            Limit::Generator,
            "local_ports",
            &["no local port was free"],
        );
        let silent = Load::closed(0.0, 0.0).failing(FailureKind::Timeout, 10, 0, "");
        check(
            &silent,
            false,
            Limit::Unknown,
            "",
            &["left all 10 requests without a response for 2.00s"],
        );
        let short = Load::closed(0.0, 0.0).change(|l| {
            l.outcome.requests = record::RequestCounts {
                sent: 10,
                ..Default::default()
            };
        });
        check(
            &short,
            false,
            Limit::Unknown,
            "",
            &["responded to none of 10 requests within 10.0s"],
        );
        assert_eq!(silent.warnings(), Vec::<String>::new());
    }

    #[test]
    fn errors_over_the_limit_come_before_the_generator() {
        let load =
            Load::closed(0.2, 0.99).failing(FailureKind::Reset, 300, 9_700, "Connection reset");
        check(
            &load,
            false,
            Limit::Unknown,
            "",
            &[
                "3 % of the requests failed",
                "more than the 1 % allowed",
                "reset 300 connections",
            ],
        );
        let load = Load::closed(0.99, 0.2).failing(FailureKind::Reset, 50, 9_950, "");
        check(&load, true, Limit::Server, "worker", &[]);
    }

    #[test]
    fn a_target_that_died_makes_it_invalid() {
        let died = |l: &mut Load| l.targets[0].died = Some("signal 9".into());
        check(
            &Load::closed(0.5, 0.2).change(died),
            false,
            Limit::Unknown,
            "",
            &["web ended while the load ran: signal 9"],
        );
        let refused = Load::closed(0.0, 0.0)
            .failing(FailureKind::ConnectRefused, 3, 0, "")
            .change(died);
        check(
            &refused,
            false,
            Limit::Unknown,
            "",
            &["refused all 3 connections", "signal 9"],
        );
    }

    #[test]
    fn a_handful_of_requests_has_no_rate_to_limit() {
        let asked = |most| {
            move |l: &mut Load| {
                l.outcome = with_rate(10, Nanos::MILLI, 0.1);
                l.spec.requests = Some(most);
            }
        };
        // A full core and connections that hardly waited: of such a load they say nothing.
        let probe = Load::closed(0.99, 0.2).change(asked(10));
        check(&probe, true, Limit::Unknown, "", &["so few requests"]);
        assert_eq!(probe.warnings(), ["few_successes"]);
        let load = Load::closed(0.99, 0.2).change(asked(11));
        check(&load, true, Limit::Server, "worker", &[]);
    }

    #[test]
    fn what_colours_a_result_is_warned_about() {
        let load = Load::closed(0.99, 0.2).with(core(0, 0.9, 0.0, 0.1));
        assert_eq!(load.warnings(), ["steal"]);
        let few =
            Load::closed(0.99, 0.2).change(|l| l.outcome = with_rate(50, Nanos::from_secs(2), 0.2));
        assert_eq!(few.warnings(), ["few_successes"]);
        let starved = Load::closed(0.99, 0.2).change(|l| l.outcome.connections.unanswered = 3);
        assert_eq!(starved.warnings(), ["connections_without_an_answer"]);
    }

    #[test]
    fn a_stop_in_the_warm_up_is_not_a_silent_server() {
        let mut load = Load::closed(0.0, 0.0);
        load.outcome = nothing();
        load.outcome.interrupted = true;
        let words = ["stopped before the measurement began"];
        check(&load, false, Limit::Unknown, "", &words);
    }

    #[test]
    fn nothing_at_all_gives_no_number() {
        for arrival in [
            Arrival::Closed,
            Arrival::Constant { per_s: 0.0 },
            Arrival::Constant { per_s: 1e9 },
        ] {
            for mut load in [Load::closed(0.0, 0.0), Load::closed(1.0, 1.0).remote()] {
                load.spec.arrival = arrival;
                load.spec.connections = 0;
                load.outcome = nothing();
                check(
                    &load,
                    false,
                    Limit::Unknown,
                    "",
                    &["no request succeeded: none was sent"],
                );
                // A success in no time.
                load.outcome.requests.succeeded = 1;
                load.outcome.requests.completed = 1;
                let said = format!("{:?}", load.verdict());
                assert!(!said.contains("NaN") && !said.contains("inf"), "{said}");
            }
        }
    }
}
