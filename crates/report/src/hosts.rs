//! Hosts that carry parts of a load: what each brought, and what `prony hosts check` found.

use crate::text::table::{columns, names};
use analysis::words::{count, percent, rate};
use analysis::{AgentFigures, AgentState, LatencySummary};
use record::{ClockSeen, Nanos};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What `prony hosts check --json` prints.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HostsDocument {
    /// Version of this document.
    pub format: u32,
    /// Of the prony that asks.
    pub version: String,
    /// Its build, which agents must have too.
    pub build: String,
    pub hosts: Vec<HostDocument>,
}

/// One host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HostDocument {
    pub host: String,
    #[serde(flatten)]
    pub state: HostState,
}

/// Whether an agent could be started.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum HostState {
    /// An agent answered.
    Ready {
        /// As the host calls itself.
        hostname: String,
        /// Two hosts with one are one machine.
        boot_id: String,
        kernel: String,
        /// Numeric id.
        user: u32,
        /// That its load threads may use.
        cpus: Vec<u32>,
        /// Files that it may have open: connections at most.
        open_files: u64,
        /// What it may be asked for.
        rights: Vec<String>,
        clock: ClockSeen,
    },
    /// None did.
    Unreachable { why: String, remedy: String },
}

fn signed(ns: i64) -> String {
    let sign = if ns < 0 { "-" } else { "" };
    format!("{sign}{}", Nanos(ns.unsigned_abs()))
}

/// What each host brought, as a table; nothing for a load of this process.
pub fn agents_text(agents: &[AgentFigures]) -> String {
    if agents.is_empty() {
        return String::new();
    }
    let head = [
        "host",
        "threads",
        "connections",
        "rate",
        "share",
        "p50",
        "p99",
        "busy",
        "start",
        "clock",
    ];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    let mut notes = String::new();
    for agent in agents {
        let mut row = vec![agent.host.clone(), agent.threads.to_string()];
        match &agent.state {
            AgentState::Carried(carried) => {
                let at = |get: fn(&LatencySummary) -> u64| {
                    let latency = carried.response_ns.as_ref();
                    latency.map_or_else(|| "-".to_owned(), |l| Nanos(get(l)).to_string())
                };
                row.extend([
                    count(u64::from(carried.connections.asked)),
                    carried.achieved_per_s.map_or_else(|| "-".to_owned(), rate),
                    percent(carried.share_of_requests),
                    at(|l| l.p50),
                    at(|l| l.p99),
                    carried.utilization.map_or_else(|| "-".to_owned(), percent),
                    signed(carried.start_late_ns),
                    format!("+-{}", Nanos(carried.clock.bound_ns)),
                ]);
                if let Some(verdict) = carried.verdict.as_ref().filter(|v| !v.valid) {
                    notes += &format!("{}: not valid: {}\n", agent.host, verdict.why);
                }
            }
            AgentState::Refused { why, .. } => {
                notes += &format!("{}: refused: {why}\n", agent.host);
            }
            AgentState::Lost { why, after_s } => {
                notes += &format!(
                    "{}: lost {after_s:.1} s after the start: {why}\n",
                    agent.host
                );
            }
        }
        rows.push(row);
    }
    format!("\n{}{notes}", columns(&rows, names(1)))
}

/// What was found of each host.
pub fn hosts_text(document: &HostsDocument) -> String {
    let mut text = format!("prony {} ({})\n", document.version, document.build);
    let head = [
        "host",
        "is",
        "kernel",
        "user",
        "CPUs",
        "files",
        "may",
        "round trip",
        "clock",
    ];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    let mut notes = String::new();
    for host in &document.hosts {
        match &host.state {
            HostState::Ready {
                hostname,
                kernel,
                user,
                cpus,
                open_files,
                rights,
                clock,
                ..
            } => rows.push(vec![
                host.host.clone(),
                hostname.clone(),
                kernel.clone(),
                if *user == 0 {
                    "root".to_owned()
                } else {
                    user.to_string()
                },
                cpus.len().to_string(),
                count(*open_files),
                rights.join(","),
                Nanos(clock.round_trip_ns).to_string(),
                format!("{} +-{}", signed(clock.offset_ns), Nanos(clock.bound_ns)),
            ]),
            HostState::Unreachable { why, remedy } => {
                notes += &format!("{}: not reached: {why}\n", host.host);
                if !remedy.is_empty() {
                    notes += &format!("  {remedy}\n");
                }
            }
        }
    }
    if rows.len() > 1 {
        text += &columns(&rows, names(3));
    }
    text += &notes;
    for (i, host) in document.hosts.iter().enumerate() {
        let id = |host: &HostDocument| match &host.state {
            HostState::Ready { boot_id, .. } => Some(boot_id.clone()),
            HostState::Unreachable { .. } => None,
        };
        let twin = document.hosts[i + 1..]
            .iter()
            .find(|other| id(other) == id(host));
        if let (Some(_), Some(twin)) = (id(host), twin) {
            text += &format!("{} and {} are one machine\n", host.host, twin.host);
            break;
        }
    }
    text
}
