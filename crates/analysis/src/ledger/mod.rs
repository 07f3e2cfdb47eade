//! The time ledger: every microsecond has an owner before any cause is named.
//!
//! ```text
//! threads, cores, on-CPU stacks -> rate account      turns, waits, wakers -> latency account (mean, slowest 1 %)
//! findings -> labels of rows                          what no label has and is not the server's own work: unlabelled
//! ```
//! The accounts are made without any rule. Rules then only label rows: a cause can gain no more than the rows that it
//! names, and a large row that no rule knows is said as it is, so that it is never called healthy.

mod alike;
mod asked;
mod beside;
mod branch;
mod cpu;
mod forks;
mod label;
mod latency;
mod names;
mod need;
mod path;
mod rate;
mod shared;
mod started;
mod tasks;
#[cfg(test)]
mod tests;
mod told;
mod types;

pub(crate) use latency::is_name_server;
pub use types::{Account, Asked, Basis, Branch, Ledger, Row, ServerLedger};

pub(crate) use cpu::{NAMELESS, is_nameless, is_needless};
pub(crate) use label::{bound, deciding, in_line, label, on_cpu, open_unjudged};
pub(crate) use latency::{BRINGS, Service, process_that_ran, relayed};
pub(crate) use names::{fetches, makes, serializes};
pub(crate) use rate::program_of;
pub(crate) use told::waits_for_made_lock;

use crate::diagnosis::FactSet;
use crate::observed::Observed;
use latency::{LatencyCase, Which};
use rate::{CpuCase, cpu_account};
use record::Examination;
use std::collections::BTreeMap;

/// Rows of an account that are shown.
const ROWS: usize = 10;
/// What is smaller joins the rest.
const SMALLEST: f64 = 0.005;

/// What the ledger is made from.
pub(crate) struct LedgerCase<'a> {
    pub examination: Option<&'a Examination>,
    pub observed: Option<&'a Observed>,
    pub facts: &'a FactSet,
    /// Length of the measured part, s, and requests in it.
    pub seconds: f64,
    pub requests: Option<f64>,
}

/// Makes the ledger of a trial; `None` where nothing of it could be seen.
pub(crate) fn ledger(case: &LedgerCase<'_>) -> Option<Ledger> {
    let mut ledger = Ledger::default();
    let (front, behind) = case.facts.targets.split_first()?;
    let mut seen = false;
    let mut keep = |account: Result<Account, String>, gaps: &mut Vec<String>| match account {
        Ok(account) => {
            seen = true;
            Some(shown(account))
        }
        Err(gap) => {
            gaps.push(gap);
            None
        }
    };
    for target in [front].into_iter().chain(behind) {
        if let Some(account) = keep(case.rate(target), &mut ledger.not_visible) {
            ledger.cpu.insert(target.clone(), account);
        }
    }
    // A load that comes by a clock leaves time: what it took of the CPU is what can be told.
    let by_clock = case.facts.view("").value("client.open_loop") == Some(1.0);
    let limiting = |cpu: &BTreeMap<String, Account>, target: &str, latency: Option<&Account>| {
        let cpu_of_all = cpu;
        let cpu = || cpu_of_all.get(target).cloned();
        let full = cpu().filter(|account| account.basis == Basis::Cpu);
        if let Some(mut account) = full {
            beside::divide(&mut account, cpu_of_all);
            return Some(shown(account));
        }
        let of_requests = || latency.and_then(standing);
        let serving = case.turns().and_then(|turns| turns.serving(target));
        serving.map(shown).or_else(|| match by_clock {
            true => cpu().or_else(of_requests),
            false => of_requests().or_else(cpu),
        })
    };
    let mut latency = |target: &str, which: Which, gaps: &mut Vec<String>| {
        keep(case.latency(target, target == front, which), gaps)
    };
    ledger.latency = latency(front, Which::All, &mut ledger.not_visible);
    if ledger.latency.is_some() {
        ledger.tail = latency(front, Which::Tail, &mut ledger.not_visible);
    }
    for target in behind {
        let latency = latency(target, Which::All, &mut ledger.not_visible);
        ledger.servers.push(ServerLedger {
            target: target.clone(),
            rate: limiting(&ledger.cpu, target, latency.as_ref()),
            latency,
        });
    }
    if let Some(latency) = &mut ledger.latency {
        forks::of_behind(latency, &ledger.servers);
    }
    ledger.rate = limiting(&ledger.cpu, front, ledger.latency.as_ref());
    ledger.not_visible.sort();
    ledger.not_visible.dedup();
    ledger.not_visible.extend(case.untold());
    ledger.not_visible.extend(case.unnamed(&ledger));
    // What could not be seen is said, also where nothing else can be.
    (seen || !ledger.not_visible.is_empty()).then_some(ledger)
}

/// What gives names to the code of runtimes that know a way, in words.
pub(crate) const PERF_MAP: &str = "the runtime's own map for perf (/tmp/perf-PID.map: `mono --jitmap`, `DOTNET_PerfMapEnabled=1`, \
     `erl +JPperf true`, `node --perf-basic-prof`)";

/// Shares of the time of a target's requests that its runtime's tasks spent at kinds of rows; `None` where they were
/// not looked at.
pub(crate) fn task_shares(
    examination: &Examination,
    target: &str,
) -> Option<BTreeMap<String, f64>> {
    LatencyCase::of(examination)?.task_shares(target)
}

/// Whether a request waits for a free connection of a pool at a place.
pub(crate) fn is_in_pool(examination: &Examination, place: &record::PlaceTime) -> bool {
    LatencyCase::of(examination).is_some_and(|case| case.in_pool(place))
}

/// Whether a request's thread waits at a place for a lock that only one holds.
pub(crate) fn is_at_mutex(examination: &Examination, place: &record::PlaceTime) -> bool {
    LatencyCase::of(examination).is_some_and(|case| case.at_mutex(place))
}

/// The share of the time of a target's requests in which their threads open connections to others or end them; `None`
/// where no runtime told their functions.
pub(crate) fn opening_share(turns: &record::TargetTurns, told: &[record::Told]) -> Option<f64> {
    forks::opening_share(turns.account.threads.as_ref()?, told)
}

/// Whether a limiter of a rate holds a request back at a place.
pub(crate) fn is_at_limiter(examination: &Examination, place: &record::PlaceTime) -> bool {
    LatencyCase::of(examination).is_some_and(|case| case.at_limiter(place))
}

/// Whether a request's thread sleeps at a place until it tries a lock again.
pub(crate) fn tries_a_lock(examination: &Examination, place: &record::PlaceTime) -> bool {
    LatencyCase::of(examination).is_some_and(|case| case.tries_a_lock(place))
}

/// Whether that lock is one on a file or of a session.
pub(crate) fn tries_a_file(examination: &Examination, place: &record::PlaceTime) -> bool {
    LatencyCase::of(examination).is_some_and(|case| case.tries_a_file(place))
}

/// The time of a target's requests by whom they wait for; `None` where too few turns were traced.
pub(crate) fn service(examination: &Examination, target: &str) -> Option<Service> {
    LatencyCase::of(examination)?.service(target)
}

/// What limits the rate where no CPU was full: what the requests in the server spend their time on, for in a closed
/// loop the next comes when one is done (Little's law). `None` where their number is not known.
fn standing(latency: &Account) -> Option<Account> {
    Some(Account {
        of: "the time of the requests in the server, none of whose CPU was full".to_owned(),
        total: latency.requests?,
        unit: types::STANDING.to_owned(),
        ..latency.clone()
    })
}

impl LedgerCase<'_> {
    fn rate(&self, target: &str) -> Result<Account, String> {
        let observed = self
            .observed
            .ok_or("CPU: nothing was watched while it served")?;
        cpu_account(&CpuCase {
            target,
            observed,
            examination: self.examination,
            facts: self.facts,
            seconds: self.seconds,
            requests: self.requests,
        })
    }

    fn latency(&self, target: &str, front: bool, which: Which) -> Result<Account, String> {
        let turns = self.turns().ok_or(
            "latency by place: turns were not traced (they need BPF, Linux 6.3 or later, and root)",
        )?;
        let mut account = turns.account(target, front, which)?;
        let round_trip_ms = self.facts.view(target).value("socket.client.least_rtt_ms");
        path::divide(&mut account, round_trip_ms.unwrap_or(0.0) * 1e3);
        if which == Which::All {
            account.asked = asked::of(self, &account);
        }
        Ok(account)
    }

    fn turns(&self) -> Option<LatencyCase<'_>> {
        Some(LatencyCase {
            unaccepted: self.unaccepted(),
            ..LatencyCase::of(self.examination?)?
        })
    }

    /// Connections of the server in front that stood in its listen queue at every look.
    fn unaccepted(&self) -> u32 {
        let front = self.facts.targets.first();
        let view = self.facts.view(front.map_or("", String::as_str));
        view.value("listen.queue_least").map_or(0, |n| n as u32)
    }

    /// Why the goroutines of a target could not be read.
    fn unread_tasks(&self, target: &str) -> Option<String> {
        let turns = self.examination?.turns.as_ref()?;
        let what = format!("what the goroutines of {target} wait for");
        let gap = turns.unavailable.iter().find(|gap| gap.what == what)?;
        let remedy = match gap.remedy.as_str() {
            "" => String::new(),
            remedy => format!("; {remedy}"),
        };
        Some(format!("{what}: {}{remedy}", gap.reason))
    }

    /// What runtimes did not tell, with the remedy.
    fn untold(&self) -> Vec<String> {
        let runtimes = self.examination.map(|e| e.runtimes.as_slice());
        let gap = |one: &record::AskedRuntime, gap: &record::Unavailable| {
            let remedy = match gap.remedy.as_str() {
                "" => String::new(),
                remedy => format!("; remedy: {remedy}"),
            };
            format!("{} ({}): {}{remedy}", gap.what, one.target, gap.reason)
        };
        let mut gaps: Vec<String> = Vec::new();
        for one in runtimes.unwrap_or_default() {
            for text in one.unavailable.iter().map(|u| gap(one, u)) {
                if !gaps.contains(&text) {
                    gaps.push(text);
                }
            }
        }
        gaps
    }

    /// Rows that a runtime hides, with what would make them visible.
    fn unnamed(&self, ledger: &Ledger) -> Vec<String> {
        let latencies = ledger.servers.iter().map(|s| s.latency.as_ref());
        let latencies = [ledger.latency.as_ref()]
            .into_iter()
            .chain(latencies)
            .flatten();
        let mut gaps = Vec::new();
        for account in ledger.cpu.values().chain(latencies) {
            let kind = self
                .facts
                .servers
                .get(&account.target)
                .map_or("", |s| s.kind.as_str());
            for row in account.rows.iter().filter(|r| r.share >= 0.1) {
                // What has the name of a function shows itself.
                if row.kind == "compiled" && !row.label.ends_with(cpu::NAMELESS)
                    || row.kind == "interpreter"
                        && row.label.contains("running scripts: ")
                        && row.label.contains(" (")
                {
                    continue;
                }
                let remedy = match (row.kind.as_str(), kind) {
                    ("interpreter", "python") => "python 3.12 or later started with -X perf",
                    ("interpreter", "php-fpm") => {
                        "request_slowlog_timeout in the pool's configuration"
                    }
                    ("compiled", "tomcat" | "java") => {
                        "prony diagnose with --attach (JDK 17 or later)"
                    }
                    ("compiled", "node") => "node started with --perf-basic-prof",
                    ("interpreter" | "compiled", _) => PERF_MAP,
                    ("hidden", "go") => {
                        gaps.extend(self.unread_tasks(&account.target));
                        "/debug/pprof/mutex and /debug/pprof/block of the program (runtime.SetBlockProfileRate)"
                    }
                    ("hidden", "ruby") => {
                        "rbspy dump -p PID while it is loaded, or puma's own statistics (`activate_control_app`: backlog, \
                         pool_capacity)"
                    }
                    ("hidden", "node") => {
                        "node started with --cpu-prof, or async_hooks in the program"
                    }
                    ("hidden", "java" | "tomcat") => "jcmd PID Thread.print while it is loaded",
                    ("hidden", _) => "the runtime's own profile of what its tasks wait for",
                    _ => continue,
                };
                gaps.push(format!(
                    "what is behind `{}` of {} ({}); it shows: {remedy}",
                    row.label,
                    account.target,
                    crate::words::percent(row.share)
                ));
            }
        }
        gaps
    }
}

/// The largest rows; what is left is one.
fn shown(mut account: Account) -> Account {
    account.rows.retain(|r| r.share > 0.0);
    account
        .rows
        .sort_by(|a, b| b.share.total_cmp(&a.share).then(a.label.cmp(&b.label)));
    let large = account.rows.iter().filter(|r| r.share >= SMALLEST).count();
    let keep = large.min(if account.rows.len() > ROWS {
        ROWS - 1
    } else {
        ROWS
    });
    if account.rows.len() <= keep {
        return account;
    }
    let rest = account.rows.split_off(keep);
    let squared = rest.iter().map(|r| r.share_error.powi(2)).sum::<f64>();
    account.rows.push(Row {
        kind: "rest".to_owned(),
        label: crate::words::plural(rest.len() as u64, "smaller row"),
        share: rest.iter().map(|r| r.share).sum(),
        share_error: squared.sqrt(),
        source: "the rows above this one end here".to_owned(),
        requests: rest.iter().map(|r| r.requests).sum(),
        own_work: true,
        smaller: rest,
        ..Row::default()
    });
    account
}
