//! The model of one trial: its facts as a queueing network that must first say what was measured.
//!
//! ```text
//! cores       busy time of a set of cores per request: the targets on them, interrupts, a generator that shares them
//! generator   its busiest thread per request, where it has cores of its own
//! wait        what a single client waits for beyond those: a disk, a sleep, a lock, an upstream elsewhere, the wire
//! slots       as many as are served at a time, where that is fewer than the connections and nobody is full
//! ```
//! The surprise: capacity is not asked of the configuration. A set of cores, or a single thread, that was busy for a
//! share of the time can serve the measured rate over that share, whatever it was that could not go on.

use super::mva::{self, Center, Solution};
use crate::diagnosis::FactSet;
use crate::words::percent;
use std::collections::BTreeSet;

/// The model must come as near to the measured rate and mean response time: what queueing rows are good for at all.
pub(crate) const TOLERANCE: f64 = 0.20;
/// A set of cores that is busy for this share is what limits; nothing behind it needs slots.
const FULL: f64 = 0.85;
/// More failures than these, and what was measured is not the serving of requests.
const FAILURES: f64 = 0.02;

/// Who serves at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Cores of the server behind the URL, and whoever shares them.
    Core,
    /// Cores of servers behind it.
    Upstream,
    Generator,
    /// No CPU of this host.
    Wait,
    /// Something that lets only so many through.
    Cap,
}

impl Kind {
    /// As stations are called.
    pub(crate) const fn station(self) -> &'static str {
        match self {
            Kind::Core => "core",
            Kind::Upstream => "upstream",
            Kind::Generator => "generator",
            Kind::Wait => "blocked",
            Kind::Cap => "limit",
        }
    }
}

/// A center with who it is.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Place {
    pub kind: Kind,
    /// Targets that spend their CPU time there; empty where none does.
    pub targets: Vec<String>,
    pub center: Center,
    /// What is known to be waited for, of the demand of a wait, s.
    pub explained: f64,
    /// How much serves there when nothing stops it: cores under a quota.
    pub whole: f64,
    /// A quota stops it.
    pub held_back: bool,
    /// CPU time of each target per request, s, in their order.
    pub own: Vec<f64>,
}

impl Place {
    /// A place where no target spends CPU time, and nobody anything yet.
    fn nobodys() -> Self {
        Self {
            kind: Kind::Wait,
            targets: Vec::new(),
            center: Center::delay(0.0),
            explained: 0.0,
            whole: 1.0,
            held_back: false,
            own: Vec::new(),
        }
    }

    /// CPU time that a target spends here per request, s.
    pub(crate) fn own(&self, target: &str) -> Option<f64> {
        let at = self.targets.iter().position(|t| t == target)?;
        self.own.get(at).copied()
    }
}

/// What sends the requests.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Arrivals {
    Closed(u32),
    Open(f64),
}

/// A trial as a network.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Model {
    pub places: Vec<Place>,
    pub arrivals: Arrivals,
    pub slots: Option<f64>,
    /// Mean response time of a single client, s.
    pub alone: Option<f64>,
    /// Measured: successes per second.
    pub rate: f64,
    /// Measured: relative spread of the rate from slice to slice.
    pub noise: f64,
    /// In words, with the numbers.
    pub basis: Vec<String>,
}

impl Model {
    /// The places of CPU time, or why there are none.
    fn cpu(facts: &FactSet) -> Result<Self, String> {
        let run = facts.view("");
        let value = |name: &str| run.value(name);
        let rate = value("client.rate_per_s").filter(|r| *r > 0.0);
        let rate = rate.ok_or("no rate was measured")?;
        if value("client.errors_share").is_some_and(|share| share > FAILURES) {
            return Err("requests fail, and what fails costs other than what is served".to_owned());
        }
        let mut model = Self {
            places: cores(facts, rate),
            arrivals: arrivals(facts, rate)?,
            slots: None,
            alone: value("client.single_client_mean_ms").map(|ms| ms / 1e3),
            rate,
            noise: value("client.rate_spread").unwrap_or(0.0),
            basis: Vec::new(),
        };
        if model.places.is_empty() {
            return Err("the server's CPU time was not watched".to_owned());
        }
        let shares_cores = |front: &str| facts.view(front).value("core.own_generator_share");
        let shared = facts.targets.first().and_then(|front| shares_cores(front));
        if shared.is_none_or(|share| share < 0.05)
            && let Some(busy) = value("client.generator_utilization")
        {
            model.places.push(Place {
                kind: Kind::Generator,
                center: Center::queue(busy / rate, 1.0),
                ..Place::nobodys()
            });
        }
        Ok(model)
    }

    /// The network of the facts as it stands, or why it does not say what was measured.
    pub(crate) fn of(facts: &FactSet) -> Result<Self, String> {
        let mut model = Self::cpu(facts)?;
        model.wait(facts);
        model.hold();
        model.say();
        model.check(facts)?;
        Ok(model)
    }

    /// The same where something lets only so many through that is no place of the network: one more place, as wide as
    /// the measured rate. What a single client waits for without a reason is that place's doing.
    pub(crate) fn capped(facts: &FactSet) -> Result<Self, String> {
        let mut model = Self::cpu(facts)?;
        model.wait(facts);
        if let Some(at) = model.wait_place() {
            model.places[at].center.demand = model.places[at].explained;
        }
        if !model
            .places
            .iter()
            .any(|p| p.center.spacing() * model.rate >= FULL)
        {
            model.places.push(Place {
                kind: Kind::Cap,
                center: Center::queue(1.0 / model.rate, 1.0),
                ..Place::nobodys()
            });
        }
        model.say();
        model.check(facts)?;
        Ok(model)
    }

    /// What a single client waits for beyond all CPU.
    fn wait(&mut self, facts: &FactSet) {
        let Some(alone) = self.alone else {
            return;
        };
        let served: f64 = self.places.iter().map(|p| p.center.demand).sum();
        let front = facts.targets.first().map_or("", String::as_str);
        let view = facts.view(front);
        let reasons = [
            "disk", "lock", "sleep", "dns", "unix", "pipe", "child", "sync", "file", "upstream",
        ];
        let us = |reason: &&str| view.value(&format!("blocked.{reason}_us_per_request"));
        let known: f64 = reasons.iter().filter_map(us).sum::<f64>() / 1e6;
        let turns = view.value("upstream.requests_per_request").unwrap_or(1.0);
        let turns = view
            .value("upstream.service_ms_mean")
            .map(|ms| ms / 1e3 * turns);
        let rest = alone - served;
        if rest > 0.0 {
            self.places.push(Place {
                kind: Kind::Wait,
                center: Center::delay(rest),
                explained: known.max(turns.unwrap_or(0.0)).min(rest),
                ..Place::nobodys()
            });
        }
    }

    /// Slots, where nobody is full and still fewer are served than a delay would let through.
    fn hold(&mut self) {
        let (Arrivals::Closed(customers), Some(alone)) = (self.arrivals, self.alone) else {
            return;
        };
        let full = self
            .places
            .iter()
            .any(|p| p.center.spacing() * self.rate >= FULL);
        let free = mva::closed(&self.centers(), 0.0, customers).rate_per_s;
        let at_once = self.rate * alone;
        if !full && self.rate < free * (1.0 - TOLERANCE) && at_once < f64::from(customers) {
            self.slots = Some(at_once.max(0.1));
        }
    }

    pub(crate) fn centers(&self) -> Vec<Center> {
        self.places.iter().map(|p| p.center.clone()).collect()
    }

    /// What the network says; `None` where a clock sends more than it can serve.
    pub(crate) fn solve(&self) -> Option<Solution> {
        let centers = self.centers();
        match self.arrivals {
            Arrivals::Closed(customers) => Some(match self.slots {
                Some(slots) => mva::pooled(&centers, 0.0, customers, slots),
                None => mva::closed(&centers, 0.0, customers),
            }),
            // The variance of the service is not measured: that of an exponential one, with which every discipline
            // that does not look at sizes has the same mean.
            Arrivals::Open(rate) => mva::open(&centers, rate, 1.0),
        }
    }

    /// Whether it says what was measured.
    fn check(&self, facts: &FactSet) -> Result<(), String> {
        let near =
            |found: f64, measured: f64| (found / measured).ln().abs() <= (1.0 + TOLERANCE).ln();
        let said = self
            .solve()
            .ok_or("the model cannot serve the rate that was measured")?;
        if !near(said.rate_per_s, self.rate) {
            return Err(format!(
                "the model gives {:.0} requests/s, {:.0} were measured: further apart than {}",
                said.rate_per_s,
                self.rate,
                percent(TOLERANCE)
            ));
        }
        let mean = facts.view("").value("client.mean_ms").map(|ms| ms / 1e3);
        match mean {
            Some(mean) if !near(said.response_s, mean) => Err(format!(
                "the model gives a mean response time of {:.3} ms, {:.3} ms were measured: further apart than {}",
                said.response_s * 1e3,
                mean * 1e3,
                percent(TOLERANCE)
            )),
            _ => Ok(()),
        }
    }

    /// The place of a target's CPU time.
    pub(crate) fn cpu_of(&self, target: &str) -> Option<usize> {
        let mut places = self.places.iter();
        places.position(|p| p.targets.iter().any(|t| t == target))
    }

    pub(crate) fn wait_place(&self) -> Option<usize> {
        self.places.iter().position(|p| p.kind == Kind::Wait)
    }

    fn say(&mut self) {
        for place in &self.places {
            let us = place.center.demand * 1e6;
            let busy = percent(place.center.spacing() * self.rate);
            self.basis.push(match place.kind {
                Kind::Wait => format!("a single client waits {us:.0} us beyond all CPU time"),
                Kind::Cap => format!("something lets {:.0} requests/s through", self.rate),
                Kind::Generator => format!("the generator {us:.1} us/request, {busy} busy"),
                _ => format!(
                    "cores of {} {us:.1} us/request, {busy} busy",
                    place.targets.join(", ")
                ),
            });
        }
        self.basis.push(match self.arrivals {
            Arrivals::Closed(n) => format!("{n} requests in flight"),
            Arrivals::Open(rate) => format!("{rate:.0} requests/s by a clock"),
        });
        if let Arrivals::Closed(customers) = self.arrivals {
            let (low, high) = mva::bounds(&self.centers(), 0.0, customers);
            let words = format!("asymptotic bounds: {low:.0} to {high:.0} requests/s");
            self.basis.push(words);
        }
        if let Some(slots) = self.slots {
            let words =
                format!("{slots:.1} are served at a time, by rate x a single client's mean");
            self.basis.push(words);
        }
    }
}

fn arrivals(facts: &FactSet, rate: f64) -> Result<Arrivals, String> {
    let run = facts.view("");
    match run.value("client.open_loop") {
        Some(open) if open >= 1.0 => Ok(Arrivals::Open(
            // A clock that is not met is a closed loop in effect: what came through is what the model must serve.
            rate,
        )),
        Some(_) => {
            let connections = run.value("client.connections");
            let connections = connections.ok_or("the number of connections is not known")?;
            let pipeline = run.value("client.pipeline").unwrap_or(1.0).max(1.0);
            let in_flight = (connections * pipeline).round();
            Ok(Arrivals::Closed(in_flight.max(1.0) as u32))
        }
        None => Err("how the load was sent is not known".to_owned()),
    }
}

/// Cores that a target's workers may run on.
fn allowed(facts: &FactSet, target: &str) -> BTreeSet<u32> {
    let Some(server) = facts.servers.get(target) else {
        return BTreeSet::new();
    };
    let several = server.processes.len() > 1;
    let workers = server.processes.iter();
    let workers = workers.filter(|p| !several || p.role != "main");
    workers.flat_map(|p| p.cpus.iter().copied()).collect()
}

/// Targets whose cores overlap compete, and make up one place.
fn cores(facts: &FactSet, rate: f64) -> Vec<Place> {
    let mut groups: Vec<(BTreeSet<u32>, Vec<&str>)> = Vec::new();
    for target in &facts.targets {
        if facts.view(target).value("cpu.us_per_request").is_none() {
            continue;
        }
        let cores = allowed(facts, target);
        match groups.iter_mut().find(|(of, _)| !of.is_disjoint(&cores)) {
            Some((of, targets)) => {
                of.extend(cores);
                targets.push(target);
            }
            None => groups.push((cores, vec![target])),
        }
    }
    let front = facts.targets.first().map_or("", String::as_str);
    let places = groups.into_iter().map(|(cores, targets)| {
        let views = || targets.iter().map(|t| facts.view(t));
        let value = |name: &str| views().filter_map(|v| v.value(name)).reduce(f64::max);
        let each = views().map(|v| v.value("cpu.us_per_request").unwrap_or(0.0) / 1e6);
        let each: Vec<f64> = each.collect();
        let own: f64 = each.iter().sum();
        let n = value("cpu.cores_allowed")
            .unwrap_or(1.0)
            .max(cores.len() as f64);
        let foreign = value("core.own_foreign_share").unwrap_or(0.0).min(0.95);
        // Interrupts are part of the work for a request, and so is a generator on the same cores.
        let all = value("core.own_mean").map(|busy| (busy - foreign).max(0.0) * n / rate);
        let demand = all.unwrap_or(0.0).max(own);
        let of_cores = (demand * rate / n) / (1.0 - foreign);
        let quota = value("cgroup.quota_cores")
            .filter(|_| value("cgroup.throttled_share").is_some_and(|share| share >= 0.05));
        let of_quota = quota.map(|quota| own * rate / quota);
        let busiest = value("worker.busiest").unwrap_or(0.0);
        let busy = of_cores.max(busiest).max(of_quota.unwrap_or(0.0));
        let busy = busy.clamp(1e-6, 1.0);
        Place {
            kind: if targets.contains(&front) {
                Kind::Core
            } else {
                Kind::Upstream
            },
            targets: targets.iter().map(|t| (*t).to_owned()).collect(),
            center: Center::queue(demand, (demand * rate / busy).clamp(1e-6, n)),
            explained: 0.0,
            whole: n * (1.0 - foreign),
            held_back: quota.is_some(),
            own: each,
        }
    });
    places.collect()
}
