//! Consumers of a queue or broker behind the server: other programs' processes that connect to it, do what its clients
//! ask, and bring what these wait for. They become processes of the broker, so that the time of requests is followed to
//! them.
//!
//! In the flow: after upstreams are known, and only where somebody else is connected to one of them. The surprise: it
//! takes a trace. Who brings an answer is told by who ended the wait for it, and nothing else tells a consumer from a
//! job beside the requests that asks the same server.

use super::examine::probe_targets;
use monitor::turns::{Stacks, TraceConfig, Tracer, process_number};
use record::{Place, Server, ServerProcess, Tier, Turns};
use std::collections::BTreeMap;
use sut::discover;

/// A server that answers this share of its requests' time with what others bring has consumers.
const BROUGHT: f64 = 0.2;
/// Fewer requests tell nothing.
const FEWEST_TURNS: u64 = 5;

/// A trace that looks for consumers.
pub struct Scout {
    tracer: Tracer,
    /// Who may be one, by the index of the server that it is connected to.
    others: Vec<(usize, ServerProcess)>,
}

impl Scout {
    /// Begins to look whether others that are connected to the servers behind the first are consumers; `None` where
    /// there are none, or neither the kernel nor who asked for this lets turns be traced.
    pub fn start(servers: &[Server], best_tier: Tier) -> Option<Self> {
        if best_tier < Tier::Ebpf {
            return None;
        }
        let others = discover::other_clients(servers);
        if others.is_empty() {
            return None;
        }
        let tracer = Tracer::start(&TraceConfig {
            targets: probe_targets(servers),
            one_in: 1,
            by_process: true,
        });
        Some(Self {
            tracer: tracer.ok()?,
            others,
        })
    }

    /// Ends it; consumers are processes of their servers from now on. Returns whether there are any, and what the
    /// programs in the kernel took, ns.
    pub fn end(self, servers: &mut [Server]) -> (bool, u64) {
        let traced = self.tracer.stop();
        let spent = traced.cost().iter().filter_map(|cost| cost.measured_ns);
        let spent_ns = spent.sum();
        let turns = traced.account(&Stacks::default());
        let found = found(servers, self.others, &turns);
        let any = !found.is_empty();
        for (index, process) in found {
            servers[index].processes.push(process);
        }
        (any, spent_ns)
    }
}

/// Those of `others` that are consumers by a trace: whoever brought something to a server that often waits for that,
/// and those of the same name there, which may have had nothing to do.
fn found(
    servers: &[Server],
    others: Vec<(usize, ServerProcess)>,
    turns: &Turns,
) -> Vec<(usize, ServerProcess)> {
    let brought = brought(turns);
    let share = |index: usize, process: &ServerProcess| {
        let target = servers.get(index).map_or("", |server| &server.target);
        brought.get(&(target, process.pid)).copied().unwrap_or(0.0)
    };
    let mut by_name: BTreeMap<(usize, &str), f64> = BTreeMap::new();
    for (index, process) in &others {
        *by_name.entry((*index, &process.name)).or_default() += share(*index, process);
    }
    let consume: Vec<bool> = (others.iter())
        .map(|(index, process)| by_name[&(*index, process.name.as_str())] >= BROUGHT)
        .collect();
    let both = others.into_iter().zip(consume);
    both.filter(|(_, consumes)| *consumes)
        .map(|(one, _)| one)
        .collect()
}

/// The share of the time of each target's requests that ended with what a process of no target brought.
fn brought(turns: &Turns) -> BTreeMap<(&str, i32), f64> {
    let mut brought = BTreeMap::new();
    let told = turns.targets.iter();
    for target in told.filter(|target| target.account.turns >= FEWEST_TURNS) {
        let all = target.account.total_ns.max(1) as f64;
        let hidden = target.account.places.iter();
        for place in hidden.filter(|place| place.place == Place::Hidden) {
            if let Some(pid) = process_number(&place.waker) {
                let share: &mut f64 = brought.entry((target.target.as_str(), pid)).or_default();
                *share += place.total_ns as f64 / all;
            }
        }
    }
    brought
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::{PlaceTime, TargetTurns, TurnAccount};

    fn process(pid: i32, name: &str) -> ServerProcess {
        ServerProcess {
            pid,
            name: name.to_owned(),
            ..ServerProcess::default()
        }
    }

    fn pids(turns: u64, places: &[(&str, u64)]) -> Vec<i32> {
        let server = |target: &str| Server {
            target: target.to_owned(),
            ..Server::default()
        };
        let place = |&(waker, total_ns): &(&str, u64)| PlaceTime {
            place: Place::Hidden,
            detail: String::new(),
            waker: waker.to_owned(),
            stack: None,
            told: None,
            helper: String::new(),
            turns: 1,
            total_ns,
        };
        let account = TurnAccount {
            turns,
            total_ns: 1_000,
            places: places.iter().map(place).collect(),
            ..TurnAccount::default()
        };
        let turns = Turns {
            targets: vec![TargetTurns {
                target: "upstream-4730".to_owned(),
                account,
                ..TargetTurns::default()
            }],
            ..Turns::default()
        };
        let others = vec![
            (1, process(30, "php")),
            (1, process(31, "php")),
            (1, process(40, "psql")),
        ];
        let servers = [server("server"), server("upstream-4730")];
        let found = found(&servers, others, &turns);
        found.into_iter().map(|(_, process)| process.pid).collect()
    }

    #[test]
    fn whoever_brings_answers_consumes_with_those_of_its_name() {
        let much = ("process php 30", 600);
        assert_eq!(pids(50, &[much]), [30, 31]);
        assert_eq!(
            pids(50, &[("process php 30", 120), ("process php 31", 90)]),
            [30, 31]
        );
        // A job beside the requests ends a wait now and then, and a few requests tell nothing.
        assert!(pids(50, &[("process psql 40", 30), ("timer", 900)]).is_empty());
        assert!(pids(FEWEST_TURNS - 1, &[much]).is_empty());
    }
}
