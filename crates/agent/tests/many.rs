//! Conductor and agents in one process, over pipes, with a generator that sends nothing: what is divided, started,
//! added up, and what happens when one of them ends otherwise.
#![allow(
    clippy::unwrap_used,
    reason = "in a test, helpers included, a panic is the report"
)]

mod common;

use agent::message::{Message, Slice};
use agent::{Done, Fleet, FleetError, Gate, Gathered, Generator, Prepare, Refusal, Right};
use common::{Served, met, serving};
use linux::clock::monotonic_ns;
use record::{
    Connections, GeneratorCost, Histogram, HostEnd, Interval, LoadOutcome, LoadSpec, Nanos,
    RequestCounts,
};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

/// Answers each request of its part after as many us as the request's number in the whole load.
struct Counts {
    fails: Fails,
}

#[derive(Clone, Copy, PartialEq)]
enum Fails {
    No,
    /// It does not start.
    Refuses,
    /// It panics in the middle.
    Panics,
}

impl Generator for Counts {
    fn carry(
        &self,
        asked: &Prepare,
        files: &Path,
        gate: &Gate,
        tell: &mut dyn FnMut(Message),
    ) -> Result<Done, Refusal> {
        let mut asked = asked.clone();
        for name in asked.spec.files_mut() {
            assert_eq!(std::fs::read(files.join(&*name)).unwrap(), b"what is sent");
        }
        if self.fails == Fails::Refuses {
            return Err(Refusal {
                what: "no".to_owned(),
                remedy: "ask another".to_owned(),
                exit: 4,
            });
        }
        tell(Message::Ready);
        let Some(start) = gate.start_at() else {
            return Err(Refusal {
                what: "stopped".to_owned(),
                remedy: String::new(),
                exit: 3,
            });
        };
        let ahead = start.0.saturating_sub(monotonic_ns());
        std::thread::sleep(Duration::from_nanos(ahead));
        let begun = Nanos(monotonic_ns());
        assert!(self.fails != Fails::Panics, "on purpose");
        let mut response = Histogram::new();
        let requests = asked.spec.requests.unwrap();
        for number in asked.part.first..asked.part.first + asked.part.threads {
            for n in (u64::from(number)..requests).step_by(asked.part.of as usize) {
                response.record(Nanos((n + 1) * 1_000));
            }
        }
        let interval = Interval {
            from: Nanos(0),
            to: Nanos(100_000_000),
            succeeded: response.count(),
            ..Interval::default()
        };
        tell(Message::Slices(vec![Slice {
            interval,
            response: response.to_base64(),
        }]));
        Ok(Done {
            outcome: outcome(begun, response, &asked),
            series: Vec::new(),
            unavailable: Vec::new(),
        })
    }
}

fn outcome(begun: Nanos, response: Histogram, asked: &Prepare) -> LoadOutcome {
    let n = response.count();
    let asked = asked.part.of_count(u64::from(asked.spec.connections)) as u32;
    LoadOutcome {
        started_at: begun,
        measured_from: begun,
        measured_to: Nanos(begun.0 + 100_000_000),
        interrupted: false,
        requests: RequestCounts {
            scheduled: n,
            sent: n,
            completed: n,
            succeeded: n,
            ..RequestCounts::default()
        },
        status: BTreeMap::from([(200, n)]),
        received_bytes: n,
        sent_bytes: n,
        service: response.clone(),
        connect: Histogram::new(),
        first_byte: response.clone(),
        response,
        connections: Connections {
            asked,
            ..Connections::default()
        },
        generator: GeneratorCost {
            engine: "none".to_owned(),
            threads: Vec::new(),
            syscalls: 0,
            pauses: None,
            peak_rss_bytes: 0,
            schedule_lag: Histogram::new(),
            stack: None,
        },
        successes_per_connection: Vec::new(),
        intervals: Vec::new(),
        first_failure: BTreeMap::new(),
        warnings: Vec::new(),
        contents: None,
        log: Vec::new(),
        by_request: Vec::new(),
        by_piece: Vec::new(),
        event_streams: None,
    }
}

/// Agents whose generator fails as said, and the threads that serve.
fn fleet(fails: &[Fails]) -> (Fleet, Vec<Served>) {
    let each = fails.iter().copied().enumerate().map(|(i, fails)| {
        let (from_agent, to_agent, served) = serving(&[Right::Load], Counts { fails });
        (met(&format!("host{i}"), from_agent, to_agent), served)
    });
    let (agents, served) = each.unzip();
    (Fleet::of(agents), served)
}

fn spec(requests: u64) -> LoadSpec {
    LoadSpec {
        requests: Some(requests),
        duration: None,
        connections: 5_000,
        ..LoadSpec::new("http://127.0.0.1:1/")
    }
}

/// What a debug build can do in a second or two: what the agents say is a hundred times their work here.
const AGENTS: usize = if cfg!(debug_assertions) { 60 } else { 500 };

/// One load. A machine that is busy elsewhere may not wake all agents before the time of the start, and then says so.
fn carried(fleet: &mut Fleet, spec: &LoadSpec) -> Gathered {
    for _ in 0..20 {
        let gathered = fleet.start(spec).unwrap().finish();
        let whys = gathered.parts.iter().filter_map(|part| match &part.end {
            HostEnd::Carried(_) => None,
            HostEnd::Refused { why, .. } | HostEnd::Lost { why, .. } => Some(why.clone()),
        });
        let whys: Vec<String> = whys.collect();
        if whys.is_empty() {
            return gathered;
        }
        let late = |why: &String| why.contains("after the time of the start") || why == "stopped";
        assert!(whys.iter().all(late), "{whys:?}");
    }
    panic!("the machine never woke all agents in time");
}

#[test]
fn many_agents_carry_one_load_and_its_percentiles_are_exact() {
    let (mut fleet, served) = fleet(&[Fails::No; AGENTS]);
    // One more than can be divided evenly.
    let spec = spec(10_001);
    let gathered = carried(&mut fleet, &spec);
    let mut whole = Histogram::new();
    (1..=10_001).for_each(|n| whole.record(Nanos(n * 1_000)));
    let sum = gathered.sum().unwrap();
    assert_eq!(sum.requests.completed, 10_001);
    assert_eq!(sum.connections.asked, 5_000);
    assert!(sum.response == whole, "bit for bit");
    assert!(sum.response.to_base64() == whole.to_base64());
    let slice = &sum.intervals[0];
    assert_eq!(slice.succeeded, 10_001);
    assert_eq!(slice.response_ns_p99, whole.quantile(0.99).unwrap().0);
    // All of one process: one clock.
    for part in &gathered.parts {
        let carried = part.carried().unwrap();
        let clock = carried.clock;
        assert!(clock.offset_ns.unsigned_abs() <= clock.bound_ns);
        assert!(carried.start_late_ns + clock.bound_ns as i64 >= 0);
    }
    // The same agents once more.
    let again = carried(&mut fleet, &spec).sum().unwrap();
    assert!(again.response == whole);
    drop(fleet);
    for served in served {
        served.join().unwrap().unwrap();
    }
}

#[test]
fn a_load_is_carried_by_the_hosts_that_it_names() {
    let (mut fleet, served) = fleet(&[Fails::No; 3]);
    let named = |hosts: &[&str]| LoadSpec {
        hosts: hosts.iter().map(|&host| host.to_owned()).collect(),
        ..spec(11)
    };
    let gathered = carried(&mut fleet, &named(&["host2", "host0"]));
    let hosts: Vec<_> = gathered.parts.iter().map(|part| &part.host).collect();
    assert_eq!(hosts, ["host2", "host0"]);
    let counts = gathered.parts.iter().map(|part| {
        let carried = part.carried().unwrap();
        carried.outcome.requests.completed
    });
    assert_eq!(counts.collect::<Vec<_>>(), [6, 5]);
    let error = fleet.start(&named(&["host7"])).err().unwrap();
    assert!(error.to_string().contains("`host7`"), "{error}");
    drop(fleet);
    for served in served {
        served.join().unwrap().unwrap();
    }
}

#[test]
fn files_go_along() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("body");
    std::fs::write(&file, b"what is sent").unwrap();
    let (mut fleet, _served) = fleet(&[Fails::No; 2]);
    let mut spec = spec(10);
    spec.body = record::Body::File(file.display().to_string());
    assert_eq!(
        fleet
            .start(&spec)
            .unwrap()
            .finish()
            .sum()
            .unwrap()
            .requests
            .sent,
        10
    );
    spec.body = record::Body::File("/nowhere/at/all".to_owned());
    let error = fleet.start(&spec).err().unwrap();
    assert!(matches!(error, FleetError::File { .. }), "{error}");
}

#[test]
fn a_load_that_one_host_refuses_does_not_start_on_any() {
    let (mut fleet, served) = fleet(&[Fails::No, Fails::Refuses, Fails::No]);
    let error = fleet.start(&spec(10)).err().unwrap();
    assert_eq!(error.to_string(), "host host1: no");
    assert_eq!(error.remedy(), "ask another");
    drop(fleet);
    for served in served {
        served.join().unwrap().unwrap();
    }
}

#[test]
fn an_agent_whose_load_dies_is_refused_and_takes_the_others_along() {
    let (mut fleet, _served) = fleet(&[Fails::No, Fails::Panics]);
    let gathered = fleet.start(&spec(10)).unwrap().finish();
    assert!(gathered.parts[0].carried().is_some());
    let HostEnd::Refused { why, .. } = &gathered.parts[1].end else {
        panic!("{:?}", gathered.parts[1].failure());
    };
    assert!(why.contains("on purpose"), "{why}");
}

#[test]
fn what_cannot_be_divided_is_said() {
    let (mut fleet, _served) = fleet(&[Fails::No; 3]);
    let error = fleet.start(&spec(2)).err().unwrap().to_string();
    assert!(
        error.contains("3 load threads on 3 hosts cannot share 2"),
        "{error}"
    );
    let threads = LoadSpec {
        threads: Some(7),
        ..spec(100)
    };
    let parts = fleet.divide(&threads).unwrap();
    let counts: Vec<u32> = parts.iter().map(|part| part.threads).collect();
    assert_eq!(counts, [3, 2, 2]);
    assert!(parts.iter().all(|part| part.of == 7));
}

#[test]
fn an_agent_ends_when_its_conductor_is_gone() {
    let (_from_agent, to_agent, served) = serving(&[Right::Load], Counts { fails: Fails::No });
    // As after kill -9: the stream ends without a farewell.
    drop(to_agent);
    let error = served.join().unwrap().unwrap_err();
    assert!(
        error.to_string().starts_with("the conductor is gone"),
        "{error}"
    );
}
