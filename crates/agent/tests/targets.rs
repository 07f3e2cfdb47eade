//! A conductor and an agent that runs targets, in one process over pipes, with targets that are none: what is asked and
//! answered, what is refused, and what is left when one of them ends.
#![allow(
    clippy::unwrap_used,
    reason = "in a test, helpers included, a panic is the report"
)]

mod common;

use agent::message::{Message, Seen, StartTarget, Started, Stopped, WatchAsked};
use agent::{
    Done, Fleet, FleetError, Gate, Generator, MakeTargets, Prepare, Refusal, Right, TargetEnd,
    TargetHosts, Targets,
};
use common::{Served, met, serving};
use linux::clock::monotonic_ns;
use plan::{FileContent, TargetKind, TargetSpec};
use record::{Kind, Nanos, Series, TargetRecord};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};

/// What the targets did, for a look from outside.
type Log = Arc<Mutex<Vec<String>>>;

/// Targets by their names: `refuses`, `panics` and `dies` do, `slow` waits to be interrupted.
struct Fakes {
    log: Log,
    running: Vec<String>,
    dying: Vec<String>,
    watched: Vec<Nanos>,
}

impl Fakes {
    fn note(&self, what: String) {
        self.log.lock().unwrap().push(what);
    }
}

fn refused(what: &str) -> Refusal {
    Refusal {
        what: what.to_owned(),
        remedy: "ask another".to_owned(),
        exit: 4,
    }
}

impl Targets for Fakes {
    fn lack(&mut self, spec: &TargetSpec) -> Option<Refusal> {
        (spec.name == "refuses").then(|| refused("nothing is installed"))
    }

    fn start(
        &mut self,
        asked: &StartTarget,
        interrupted: &dyn Fn() -> bool,
    ) -> Result<Started, Refusal> {
        let name = asked.spec.name.clone();
        match name.as_str() {
            "refuses" => return Err(refused("no")),
            "panics" => panic!("on purpose"),
            "slow" => {
                while !interrupted() {
                    std::thread::yield_now();
                }
                return Err(refused("interrupted"));
            }
            "dies" => self.dying.push(name.clone()),
            _ => {}
        }
        let files: Vec<String> = asked
            .spec
            .files
            .values()
            .map(|f| format!("{f:?}"))
            .collect();
        self.note(format!(
            "start {name} {} {:?}",
            files.join(","),
            asked.addresses
        ));
        self.running.push(name.clone());
        Ok(Started {
            address: "10.0.0.3:80".parse().unwrap(),
            record: TargetRecord {
                name,
                ..TargetRecord::default()
            },
        })
    }

    fn died(&mut self) -> Vec<(String, String)> {
        let dying = std::mem::take(&mut self.dying);
        let how = |name| (name, "signal: 9".to_owned());
        dying.into_iter().map(how).collect()
    }

    fn watch(&mut self, asked: WatchAsked) {
        assert!(asked.slabs && !asked.tlb);
        self.watched = vec![Nanos(monotonic_ns())];
    }

    fn end_watch(&mut self) -> Seen {
        let mut series = Series::new("thread.run_s", "s", "/proc", Kind::Counter);
        self.watched.push(Nanos(monotonic_ns()));
        for at in std::mem::take(&mut self.watched) {
            series.push(at, 1.0);
        }
        Seen {
            series: vec![series],
            ..Seen::default()
        }
    }

    fn stop(&mut self, target: &str) -> Stopped {
        self.running.retain(|name| name != target);
        self.note(format!("stop {target}"));
        Stopped {
            files: BTreeMap::from([("stdout".to_owned(), "said".to_owned())]),
            failure: None,
        }
    }
}

impl Drop for Fakes {
    fn drop(&mut self) {
        self.note(format!("drop {:?}", self.running));
    }
}

/// Sends nothing, and runs [`Fakes`].
struct OnlyTargets(Log);

impl Generator for OnlyTargets {
    fn carry(
        &self,
        _: &Prepare,
        _: &Path,
        _: &Gate,
        _: &mut dyn FnMut(Message),
    ) -> Result<Done, Refusal> {
        Err(refused("no loads here"))
    }

    fn targets(&self) -> Box<MakeTargets> {
        let log = Arc::clone(&self.0);
        Box::new(|| {
            Ok(Box::new(Fakes {
                log,
                running: Vec::new(),
                dying: Vec::new(),
                watched: Vec::new(),
            }))
        })
    }
}

/// An agent with these rights, the log of its targets, and the thread that serves.
fn agent(rights: &[Right]) -> (Fleet, Log, Served) {
    let log = Log::default();
    let (from_agent, to_agent, served) = serving(rights, OnlyTargets(Arc::clone(&log)));
    (
        Fleet::of(vec![met("far", from_agent, to_agent)]),
        log,
        served,
    )
}

fn spec(name: &str) -> TargetSpec {
    let text = FileContent::Text("as it was".to_owned());
    TargetSpec {
        name: name.to_owned(),
        kind: TargetKind::Command {
            argv: vec!["p".to_owned()],
        },
        listen: "10.0.0.3:0".parse().unwrap(),
        host: Some("far".to_owned()),
        cpus: Vec::new(),
        numa: None,
        limits: plan::Limits::default(),
        env: BTreeMap::new(),
        wrap: Vec::new(),
        ready_path: None,
        ready_timeout: Nanos::SECOND,
        status_path: None,
        files: BTreeMap::from([("a.txt".to_owned(), text)]),
        values: BTreeMap::new(),
    }
}

fn start(hosts: &mut TargetHosts, name: &str) -> Result<Started, FleetError> {
    let addresses = BTreeMap::from([("db".to_owned(), "10.0.0.9:5432".parse().unwrap())]);
    hosts.start("far", &spec(name), &addresses, &|| name == "slow")
}

fn words(result: Result<Started, FleetError>) -> String {
    result.err().unwrap().to_string()
}

#[test]
fn a_target_is_started_watched_and_stopped_there() {
    let (fleet, log, served) = agent(&[Right::Target]);
    let mut hosts = TargetHosts::of(fleet).unwrap();
    assert_eq!(hosts.lack("far", &spec("web")).unwrap(), None);
    let lack = hosts.lack("far", &spec("refuses")).unwrap();
    assert_eq!(lack.unwrap().what, "nothing is installed");
    let started = start(&mut hosts, "web").unwrap();
    assert_eq!(started.address, "10.0.0.3:80".parse().unwrap());
    let watching = (hosts.watch(
        "far",
        WatchAsked {
            slabs: true,
            ..WatchAsked::default()
        },
    ))
    .unwrap();
    let between = monotonic_ns();
    let watched = hosts.end_watch("far", watching).unwrap();
    let [first, last] = watched.seen.series[0].at_ns[..] else {
        panic!("{watched:?}");
    };
    // On our clock, which is theirs here.
    let bound = watched.clock.bound_ns;
    assert!(first <= between + bound && between <= last + bound);
    let stopped = hosts.stop("far", "web").unwrap();
    assert_eq!(stopped.files["stdout"], "said");
    drop(hosts);
    served.join().unwrap().unwrap();
    assert_eq!(
        *log.lock().unwrap(),
        [
            "start web Text(\"as it was\") {\"db\": 10.0.0.9:5432}",
            "stop web",
            "drop []"
        ]
    );
}

#[test]
fn what_cannot_be_started_there_is_refused_and_the_agent_goes_on() {
    let (fleet, log, served) = agent(&[Right::Target]);
    let mut hosts = TargetHosts::of(fleet).unwrap();
    assert_eq!(words(start(&mut hosts, "refuses")), "host far: no");
    let fault = words(start(&mut hosts, "panics"));
    assert!(fault.contains("on purpose"), "{fault}");
    assert_eq!(words(start(&mut hosts, "slow")), "host far: interrupted");
    start(&mut hosts, "dies").unwrap();
    let mut ended = Vec::new();
    while ended.is_empty() {
        ended = hosts.ended();
        std::thread::yield_now();
    }
    let died = TargetEnd::Died {
        target: "dies".to_owned(),
        how: "signal: 9".to_owned(),
    };
    assert_eq!(ended, [died]);
    start(&mut hosts, "web").unwrap();
    // Whoever leaves without a stop has them stopped.
    drop(hosts);
    served.join().unwrap().unwrap();
    let log = log.lock().unwrap();
    assert_eq!(log.last().unwrap(), "drop [\"dies\", \"web\"]");
}

#[test]
fn an_agent_for_loads_runs_no_target() {
    let (fleet, log, served) = agent(&[Right::Load]);
    let error = TargetHosts::of(fleet).err().unwrap();
    assert!(error.to_string().contains("may not run targets"), "{error}");
    assert!(error.remedy().contains("--allow target"));
    assert_eq!(error.exit(), Some(4));
    served.join().unwrap().unwrap();
    assert!(log.lock().unwrap().is_empty());
}

#[test]
fn targets_end_with_the_way_to_the_conductor() {
    let log = Log::default();
    let generator = OnlyTargets(Arc::clone(&log));
    let (from_agent, to_agent, served) = serving(&[Right::Target], generator);
    let mut to_agent = agent::frame::Sender::begin(to_agent).unwrap();
    let mut without_files = spec("web");
    without_files.files.clear();
    let word = StartTarget {
        spec: without_files,
        addresses: BTreeMap::new(),
    };
    to_agent
        .send(&Message::StartTarget(Box::new(word)))
        .unwrap();
    let mut heard = agent::frame::Receiver::begin(from_agent, agent::message::Side::Agent).unwrap();
    while !matches!(heard.receive().unwrap(), Some(Message::Started(_))) {}
    // Cut, without a farewell.
    drop(to_agent);
    assert!(served.join().unwrap().is_err());
    assert_eq!(log.lock().unwrap().last().unwrap(), "drop [\"web\"]");
}
