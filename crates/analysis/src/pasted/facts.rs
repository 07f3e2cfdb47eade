//! From what other tools printed to the facts that rules see.
//!
//! strace does not say what a descriptor leads to. What can be told is told: a process that both accepts and
//! connects is
//! a proxy, which reads one request from the client and everything else from its upstream.

use crate::diagnosis::{FactSet, frames, works};
use record::pasted::{Artefact, Pasted, Sizes, StraceSummary, Table, requests_in};
use std::collections::BTreeMap;

/// The target that everything pasted is about.
const TARGET: &str = "server";

const READS: [&str; 6] = ["read", "readv", "recvfrom", "recvmsg", "pread64", "preadv"];
const WRITES: [&str; 6] = [
    "write", "writev", "sendto", "sendmsg", "pwrite64", "pwritev",
];
const PAGE: u64 = 4096;

/// The facts that these artefacts tell.
pub fn pasted_facts(pasted: &Pasted) -> FactSet {
    let mut facts = FactSet::default();
    facts.targets.push(TARGET.to_owned());
    if let Some(summary) = pasted.straces.first() {
        calls(&mut facts, summary, &pasted.sizes);
    }
    client(pasted, &mut facts);
    processors(pasted, &mut facts);
    changes(pasted, &mut facts);
    let profile = pasted.artefacts.iter().find(|a| a.profile.is_some());
    if let Some(artefact) = profile {
        work(artefact, &mut facts);
    }
    facts
}

/// A list of functions shows no callers: work of which it shows nothing is unknown there, and 0 in whole stacks.
fn work(artefact: &Artefact, facts: &mut FactSet) {
    let Some(profile) = &artefact.profile else {
        return;
    };
    let all: u64 = profile.stacks.iter().map(|s| s.weight).sum();
    if all == 0 {
        return;
    }
    let whole = profile.stacks.iter().any(|s| s.frames.len() > 1);
    let share = |of: &dyn Fn(&record::Stack) -> bool| {
        let fitting = profile.stacks.iter().filter(|s| of(s));
        fitting.map(|s| s.weight).sum::<u64>() as f64 / all as f64
    };
    for kind in works().judged() {
        let of_kind = share(&|s| works().is(profile, s, kind));
        if whole || of_kind > 0.0 {
            let name = format!("profile.{kind}_share");
            facts.known(TARGET, &name, of_kind, &artefact.tool);
        }
    }
    let in_kernel = share(&|s| frames(profile, s).last().is_some_and(|f| f.kernel));
    facts.known(TARGET, "profile.kernel_share", in_kernel, &artefact.tool);
    if let Some(top) = artefact.rows.first() {
        facts.known(
            TARGET,
            "profile.top_symbol_share",
            top.share,
            &artefact.tool,
        );
    }
}

fn client(pasted: &Pasted, facts: &mut FactSet) {
    let Some(load) = pasted.loads.first() else {
        return;
    };
    let mut known = |name: &str, value: Option<f64>| {
        if let Some(value) = value {
            facts.known("", name, value, &load.tool);
        }
    };
    let requests = load.value("requests");
    let per_request = |value: f64| requests.filter(|n| *n > 0.0).map(|n| value / n);
    known("client.rate_per_s", load.value("rate_per_s"));
    known("client.connections", load.value("connections"));
    known(
        "client.answer_bytes",
        load.value("received_bytes").and_then(per_request),
    );
    known(
        "client.errors_share",
        per_request(load.failures().unwrap_or(0.0)),
    );
    for which in [50, 99] {
        let latency_ns = load.value(&format!("latency_ns.p{which}"));
        known(&format!("client.p{which}_ms"), latency_ns.map(|v| v / 1e6));
    }
}

fn processors(pasted: &Pasted, facts: &mut FactSet) {
    if let Some(seen) = pasted.vmstats.first().and_then(Busy::of) {
        let source = "vmstat";
        facts.known(TARGET, "cpu.user_share", seen.user / seen.busy(), source);
        facts.known(
            TARGET,
            "cpu.system_share",
            seen.system / seen.busy(),
            source,
        );
        facts.known("", "host.idle_share", 1.0 - seen.busy(), source);
        facts.known("", "core.steal_share", seen.steal, source);
    }
    let Some(pidstat) = pasted.pidstats.first() else {
        return;
    };
    let largest = |column: &str| {
        let values = pidstat.column(column)?;
        values.into_iter().reduce(f64::max).map(|v| v / 100.0)
    };
    if let Some(busiest) = largest("%CPU") {
        facts.known(TARGET, "worker.busiest", busiest, "pidstat");
        facts.known(TARGET, "worker.count", pidstat.rows.len() as f64, "pidstat");
    }
    if let Some(wait) = largest("%wait") {
        facts.known(TARGET, "worker.run_queue_wait_share", wait, "pidstat");
    }
}

/// What differs between the last two artefacts of a kind.
fn changes(pasted: &Pasted, facts: &mut FactSet) {
    if let [.., before, after] = pasted.vmstats.as_slice()
        && let (Some(before), Some(after)) = (Busy::of(before), Busy::of(after))
    {
        let source = "vmstat, the last two";
        facts.known(
            "",
            "pasted.busy_change",
            after.busy() / before.busy(),
            source,
        );
        facts.known(
            "",
            "pasted.work_change",
            after.interrupts / before.interrupts,
            source,
        );
        facts.known(
            "",
            "pasted.steal_share",
            before.steal.max(after.steal),
            source,
        );
    }
}

/// A machine under load, as shares of all its cores and counts a second.
struct Busy {
    user: f64,
    system: f64,
    steal: f64,
    interrupts: f64,
}

impl Busy {
    /// Medians over the rows under load.
    fn of(table: &Table) -> Option<Self> {
        let under_load = |column: &str| Some(table.under_load(column)?.median);
        let seen = Self {
            user: under_load("us")? / 100.0,
            system: under_load("sy")? / 100.0,
            steal: under_load("st").unwrap_or(0.0) / 100.0,
            interrupts: under_load("in")?,
        };
        (seen.busy() > 0.0 && seen.interrupts > 0.0).then_some(seen)
    }

    fn busy(&self) -> f64 {
        self.user + self.system
    }
}

fn calls(facts: &mut FactSet, summary: &StraceSummary, sizes: &[Sizes]) {
    let counts = summary.calls();
    let source = "strace -c, divided by the common measure of its counts";
    let Some(requests) = requests_in(&counts) else {
        let reason = "the counts of strace -c have no common measure, so the number of requests is not known";
        facts.unknown(TARGET, "call.total_per_request", reason);
        return;
    };
    let per_request = |call: &str| counts.get(call).map_or(0.0, |&n| n as f64 / requests);
    let sum = |calls: &[&str]| -> f64 { calls.iter().map(|c| per_request(c)).sum() };
    let mut known = |name: &str, value: f64| facts.known(TARGET, name, value, source);
    known(
        "call.total_per_request",
        counts.values().sum::<u64>() as f64 / requests,
    );
    for row in &summary.rows {
        known(
            &format!("call.any.{}.per_request", row.call),
            row.calls as f64 / requests,
        );
    }
    known("accept.per_request", sum(&["accept", "accept4"]));
    known("futex.per_request", per_request("futex"));
    known("sync.per_request", sum(&["fsync", "fdatasync"]));
    known("open.per_request", sum(&["open", "openat"]));
    known(
        "stat.per_request",
        sum(&["stat", "lstat", "newfstatat", "statx", "access"]),
    );
    known(
        "map.per_request",
        sum(&["mmap", "munmap", "brk", "madvise"]),
    );
    known("sendfile.per_request", per_request("sendfile"));
    known("write.any.per_request", sum(&WRITES));
    let proxies = counts.contains_key("connect") && (sum(&READS) - 1.0) >= 0.5;
    if proxies {
        known("upstream.connects_per_request", per_request("connect"));
        proxied(facts, &counts, requests, sizes);
    } else {
        facts.known(TARGET, "write.client.per_request", sum(&WRITES), source);
    }
}

/// A proxy: one read takes the request, the others take the answer; one write passes the request on. A plain
/// `write` beside vectored writes to sockets goes to a log.
fn proxied(facts: &mut FactSet, counts: &BTreeMap<String, u64>, requests: f64, sizes: &[Sizes]) {
    let source = "strace -c of a proxy: all reads but the one of the request";
    let per_request = |call: &str| counts.get(call).map_or(0.0, |&n| n as f64 / requests);
    let reads: f64 = READS.iter().map(|c| per_request(c)).sum();
    let log = if per_request("writev") >= 1.0 {
        per_request("write")
    } else {
        0.0
    };
    let writes: f64 = WRITES.iter().map(|c| per_request(c)).sum::<f64>() - log;
    let mut known =
        |name: &str, value: f64, source: &str| facts.known(TARGET, name, value.max(0.0), source);
    known("read.upstream.useful_per_request", reads - 1.0, source);
    for name in ["per_request", "useful_per_request"] {
        known(&format!("write.client.{name}"), writes - 1.0, source);
    }
    known(
        "log_write.per_request",
        log,
        "strace -c: write beside writev",
    );
    let busiest = |calls: &[&str]| -> Option<&Sizes> {
        sizes.iter().find(|s| {
            let most = calls.iter().max_by_key(|c| counts.get(**c));
            most.is_some_and(|c| *c == s.call)
        })
    };
    if let Some(read) = busiest(&READS) {
        sized(facts, "read.upstream", read, per_request(&read.call));
    }
    if let Some(written) = busiest(&WRITES) {
        sized(facts, "write.client", written, per_request(&written.call));
    }
}

/// What the sizes of a call tell that is made `per_request` times for a request.
fn sized(facts: &mut FactSet, group: &str, sizes: &Sizes, per_request: f64) {
    let useful: Vec<(u64, u64)> = sizes
        .counts
        .iter()
        .copied()
        .filter(|(s, _)| *s > 0)
        .collect();
    let calls: u64 = useful.iter().map(|(_, n)| n).sum();
    let Some((typical, _)) = useful.iter().max_by_key(|(_, n)| *n).filter(|_| calls > 0) else {
        return;
    };
    let bytes: u64 = useful.iter().map(|(size, n)| size * n).sum();
    let mut known = |name: &str, value: f64, source: &str| {
        facts.known(TARGET, &format!("{group}.{name}"), value, source);
    };
    known("typical_bytes", *typical as f64, "sizes as counted");
    known(
        "mean_bytes",
        bytes as f64 / calls as f64,
        "sizes as counted",
    );
    known(
        "bytes_per_request",
        bytes as f64 / sizes.counts.iter().map(|(_, n)| n).sum::<u64>() as f64 * per_request,
        "sizes as counted, times the calls of a request",
    );
    match sizes.asked {
        Some((asked, full)) => {
            known(
                "full_share",
                full as f64 / asked as f64,
                "lengths in the lines of strace",
            );
        }
        None => {
            let whole: u64 = useful
                .iter()
                .filter(|(s, _)| s % PAGE == 0)
                .map(|(_, n)| n)
                .sum();
            known(
                "full_share",
                whole as f64 / calls as f64,
                "sizes that are whole pages, as a filled buffer is",
            );
        }
    }
}
