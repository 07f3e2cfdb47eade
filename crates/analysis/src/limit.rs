//! What is full: a server's worker, its cores, its listen queue, the generator, or nothing.
//!
//! The order matters and follows the field's first fork of every diagnosis: server saturated, queue
//! overflowing, generator saturated, path losing segments, nobody saturated. In a closed loop with nobody
//! saturated Little's law says the rest: so many connections times so long a service time make that rate.

use crate::observed::{
    Case, CoreUse, GENERATOR, LoadThreadUse, Observed, Others, Sight, TaskUse, Window, named,
};
use crate::stats::share;
use crate::words::{percent, plural, rate};
use crate::{Evidence, Limit};
use record::{Nanos, TargetRecord};
use std::collections::BTreeMap;

/// A thread that ran, or waited to run, for this share of the time had no time off.
const SATURATED: f64 = 0.95;
/// A core this busy is full: the rest is the resolution of the kernel's ticks.
const CORE_FULL: f64 = 0.97;
/// Of full cores, the share that must be the server's own work (interrupts included) to call it the cause.
const OWN_SHARE: f64 = 0.8;
/// A closed-loop generator above this, with nothing else saturated, is what the next request waits for.
pub(crate) const GENERATOR_BUSY: f64 = 0.85;
/// In a shorter window a task's share of CPU is mostly start-up and the edges of the samples: who was busier than whom
/// cannot be told.
const SHORTEST: Nanos = Nanos::from_millis(50);
/// Above this share of retransmitted segments the path shapes the result.
const RETRANSMITTED: f64 = 0.01;
/// Fewer retransmissions than this are chance.
const FEWEST_RETRANSMITS: f64 = 10.0;
/// CPU that others may take of the cores that a server's thread is confined to, before its figures are no
/// longer its own. The kernel's ticks and prony's own monitors stay well below.
const OTHERS_SHARE: f64 = 0.1;
/// Little's law closes when connections in use and connections asked differ by less. A busy closed loop lets
/// answers gather, so that a sixteenth of the connections may be between an answer and the next request at
/// any time; the rest is for the edges of the measured part.
pub(crate) const LITTLE_TOLERANCE: f64 = 0.15;

/// Connections that carry this share of what they are limited to are held back by that. The rest is for the requests
/// between the responses and the edges of the measured part.
const LIMIT_USED: f64 = 0.85;

/// A limit with its reason; [`crate::Verdict`] without the question of validity.
#[derive(Clone, Debug)]
pub(crate) struct Finding {
    pub limit: Limit,
    pub resource: &'static str,
    pub why: String,
    pub remedy: String,
    pub evidence: Vec<Evidence>,
}

/// What was found, and the generator's saturation beside it: both may be full at once.
#[derive(Clone, Debug)]
pub(crate) struct Limits {
    pub finding: Finding,
    pub generator: Option<Finding>,
    /// Others took the server's CPU: then this is the finding, and the figures are not the server's own.
    pub neighbour: Option<Finding>,
}

impl Evidence {
    pub(crate) fn new(
        signal: impl Into<String>,
        value: impl Into<Option<f64>>,
        unit: &str,
        threshold: Option<f64>,
        source: &str,
    ) -> Self {
        Self {
            signal: signal.into(),
            value: value.into().filter(|v| v.is_finite()),
            unit: unit.to_owned(),
            threshold,
            source: source.to_owned(),
        }
    }
}

/// Names what limits the load. `schedule_met` is about an open loop; a closed one has no schedule.
pub(crate) fn limits(case: &Case<'_>, observed: &Observed, schedule_met: bool) -> Limits {
    if case.spec.is_probe() {
        return Limits {
            finding: probe(),
            generator: None,
            neighbour: None,
        };
    }
    let sight = &case.sight();
    let saturated = saturated_task(sight, observed);
    let neighbour = match saturated {
        Some(_) => None,
        None => neighbour(observed),
    };
    let generator = generator_limit(case, observed);
    let finding = saturated
        .or_else(|| neighbour.clone())
        .or_else(|| full_cores(sight, observed))
        .or_else(|| stopped_task(sight, observed))
        .or_else(|| crowded_task(sight, observed))
        .or_else(|| listen_queue_limit(sight))
        .or_else(|| shared_cores(observed))
        .or_else(|| generator.clone())
        .or_else(|| network_limit(sight))
        .or_else(|| starved_task(observed))
        .unwrap_or_else(|| nobody_saturated(case, observed, schedule_met));
    Limits {
        finding,
        generator,
        neighbour,
    }
}

fn probe() -> Finding {
    Finding {
        limit: Limit::Unknown,
        resource: "",
        why: "so few requests have no rate that anything could limit, so that nothing was watched"
            .to_owned(),
        remedy: "send more (--requests), or for a time (--duration)".to_owned(),
        evidence: Vec::new(),
    }
}

/// Names what is full where traffic was watched and no load made: the same stations by the same signs, without those
/// that only a generator can tell.
pub(crate) fn watched(sight: &Sight<'_>, observed: &Observed) -> Finding {
    saturated_task(sight, observed)
        .or_else(|| neighbour(observed))
        .or_else(|| full_cores(sight, observed))
        .or_else(|| stopped_task(sight, observed))
        .or_else(|| crowded_task(sight, observed))
        .or_else(|| listen_queue_limit(sight))
        .or_else(|| network_limit(sight))
        .or_else(|| starved_task(observed))
        .unwrap_or_else(|| room_left(observed))
}

/// Nobody was full: what came was served with room.
fn room_left(observed: &Observed) -> Finding {
    let Some(task) = observed.tasks.first() else {
        return Finding {
            limit: Limit::Unknown,
            resource: "",
            why: "the server's threads were not seen, so nothing says who was busy".to_owned(),
            remedy: "run prony on the server's host, as root or as the server's user".to_owned(),
            evidence: Vec::new(),
        };
    };
    Finding {
        limit: Limit::OfferedLoad,
        resource: "offered_load",
        why: format!(
            "the traffic that was there left room: the busiest server thread, {}, was at {}",
            task.label(),
            percent(task.busy)
        ),
        remedy: "watch it at its busiest, or load it to find its capacity".to_owned(),
        evidence: idle_evidence(observed),
    }
}

/// The target that the URL names, by name or by address; else the one that started last (a proxy starts
/// after its backend). A server that listens at several addresses is recorded with one of them, so what was found
/// behind a server never stands in for it.
pub(crate) fn addressed<'a>(sight: &Sight<'a>) -> Option<&'a TargetRecord> {
    let authority = authority(&sight.spec.url);
    let host = authority.rsplit_once(':').map_or(authority, |(h, _)| h);
    sight
        .targets
        .iter()
        .find(|t| t.name == host || t.name == authority || t.address == authority)
        .or_else(|| {
            let found_behind = |t: &&TargetRecord| t.name.starts_with("upstream-");
            sight.targets.iter().rev().find(|t| !found_behind(t))
        })
        .or(sight.targets.last())
}

/// `host:port` of a URL.
pub(crate) fn authority(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    rest.split(['/', '?', '#']).next().unwrap_or(rest)
}

fn resource_of(sight: &Sight<'_>, owner: &str) -> &'static str {
    match addressed(sight) {
        Some(target) if target.name != owner && sight.targets.len() > 1 => "backend",
        _ => "worker",
    }
}

fn saturated_task(sight: &Sight<'_>, observed: &Observed) -> Option<Finding> {
    let task = observed
        .tasks
        .iter()
        .find(|t| t.threads <= 1.0 && t.busy >= SATURATED)?;
    Some(server_finding(sight, observed, task, ""))
}

/// A thread with work all the time that got the larger part of it done: its own siblings or interrupts
/// took the rest.
fn crowded_task(sight: &Sight<'_>, observed: &Observed) -> Option<Finding> {
    let task = observed
        .tasks
        .iter()
        .find(|t| t.had_no_time_off() && t.busy >= t.wait.unwrap_or(0.0))?;
    let wait = percent(task.wait.unwrap_or(0.0));
    let note = format!(", and waited for a CPU another {wait}");
    Some(server_finding(sight, observed, task, &note))
}

impl TaskUse {
    /// Ran or waited for a CPU all the time.
    fn had_no_time_off(&self) -> bool {
        self.threads <= 1.0 && self.demand() >= SATURATED
    }
}

/// A thread that wanted more CPU than it got, on cores of which others took a part: what it did with the
/// rest says little about what it can do. Its siblings and the other targets are no others, because they
/// belong to the server.
fn neighbour(observed: &Observed) -> Option<Finding> {
    let (task, cores, others) = observed.tasks.iter().find_map(|task| {
        let cores = observed.cores_of(task);
        let short = task.had_no_time_off() || filling(observed, &cores).is_some();
        let others = observed.others_on(&cores)?;
        (short && others.share() > OTHERS_SHARE).then_some((task, cores, others))
    })?;
    let place = core_list(&cores);
    let mut evidence = others.evidence(&place);
    evidence.extend(task_evidence(task, observed));
    Some(Finding {
        limit: Limit::Unknown,
        resource: "host_cpu",
        why: format!(
            "{} ran {} of the time and waited for a CPU another {}, while {} of {place}: the figures are \
             not the server's own",
            task.label(),
            percent(task.busy),
            percent(task.wait.unwrap_or(0.0)),
            others.words(),
        ),
        remedy:
            "stop what else runs there, or give the server cores that nobody else uses (`cpus`)"
                .to_owned(),
        evidence,
    })
}

impl Others {
    /// `processes outside the experiment took 48 %`, to be followed by the cores.
    fn words(&self) -> String {
        let took = |share: f64| (share > OTHERS_SHARE / 2.0).then(|| percent(share));
        match (took(self.foreign), took(self.generator)) {
            (Some(foreign), Some(generator)) => format!(
                "processes outside the experiment took {foreign} and the generator {generator}"
            ),
            (None, Some(generator)) => format!("the generator took {generator}"),
            (_, None) => format!(
                "processes outside the experiment took {}",
                percent(self.foreign)
            ),
        }
    }

    fn evidence(&self, place: &str) -> Vec<Evidence> {
        let on = |signal: &str, value, source| {
            let signal = format!("{signal}{{{}}}", place.replace(' ', "="));
            Evidence::new(signal, value, "1", Some(OTHERS_SHARE), source)
        };
        vec![
            on(
                "cpu.foreign",
                self.foreign,
                "/proc/stat less the threads of targets and generator",
            ),
            on(
                "cpu.generator",
                self.generator,
                "the load threads' CPU clocks",
            ),
        ]
    }
}

/// All cores that a target may use are full, and of its own work: several threads share them, or softirq
/// work fills what the threads leave.
fn full_cores(sight: &Sight<'_>, observed: &Observed) -> Option<Finding> {
    let (cores, filling) = observed.tasks.iter().find_map(|task| {
        let cores = observed.cores_of(task);
        let filling = filling(observed, &cores)?;
        Some((cores, filling))
    })?;
    let task = largest_part(observed, &cores)?;
    let note = format!(
        "; the server's threads fill {} ({} of run time and {} of softirq each)",
        core_list(&cores),
        percent(filling.run),
        percent(filling.interrupts)
    );
    let mut finding = server_finding(sight, observed, task, &note);
    let used = cores
        .iter()
        .filter_map(|c| Some((c, observed.cores.get(c)?)));
    finding
        .evidence
        .extend(used.map(|(core, used)| core_evidence(*core, used)));
    Some(finding)
}

/// The busiest thread of the server whose threads run most on these cores: of two that share them, each with many
/// threads, the busiest thread of all tells nothing.
fn largest_part<'a>(observed: &'a Observed, cores: &[u32]) -> Option<&'a TaskUse> {
    let mut of: BTreeMap<&str, (f64, Option<&TaskUse>)> = BTreeMap::new();
    // Busiest first: that is the thread to name.
    for task in there(observed, cores) {
        let (busy, first) = of.entry(&task.owner).or_default();
        *busy += task.busy;
        first.get_or_insert(task);
    }
    let largest = of.into_values().max_by(|a, b| a.0.total_cmp(&b.0));
    largest?.1
}

/// Threads that may run on these cores and on no other, the busiest first.
fn there<'a>(observed: &'a Observed, cores: &[u32]) -> impl Iterator<Item = &'a TaskUse> {
    observed.tasks_here().filter(|task| {
        let theirs = observed.cores_of(task);
        theirs.iter().all(|core| cores.contains(core))
    })
}

/// What fills a set of cores, as shares of one core.
struct Filling {
    run: f64,
    interrupts: f64,
}

/// `None` when the cores have room or somebody else's work fills them. Where cores were not watched, the
/// threads' own run time must do.
fn filling(observed: &Observed, cores: &[u32]) -> Option<Filling> {
    let n = cores.len() as f64;
    let used: Vec<&CoreUse> = cores.iter().filter_map(|c| observed.cores.get(c)).collect();
    let run = share(there(observed, cores).map(|t| t.busy).sum(), n)?;
    let interrupts = share(used.iter().map(|c| c.interrupts()).sum(), n)?;
    let full = used.len() == cores.len() && used.iter().all(|c| c.busy >= CORE_FULL);
    let theirs = full && run + interrupts >= OWN_SHARE;
    let unseen = used.is_empty() && run >= SATURATED;
    (theirs || unseen).then_some(Filling { run, interrupts })
}

/// `core 0`, `cores 0,1`.
pub(crate) fn core_list(cores: &[u32]) -> String {
    let numbers: Vec<String> = cores.iter().map(u32::to_string).collect();
    let s = if cores.len() == 1 { "" } else { "s" };
    format!("core{s} {}", numbers.join(","))
}

fn server_finding(sight: &Sight<'_>, observed: &Observed, task: &TaskUse, note: &str) -> Finding {
    let resource = resource_of(sight, &task.owner);
    let side = if resource == "backend" {
        "the backend's "
    } else {
        ""
    };
    let room = match observed.loaded {
        true => format!("; {}", head_room(observed)),
        false => String::new(),
    };
    let own = observed.tasks.iter().filter(|t| t.owner == task.owner);
    let (threads, run) = own.fold((0_u64, 0.0), |(n, run), t| (n + 1, run + t.busy));
    // Where many threads fill the cores together, none of them is busy.
    let together = match threads > 1 && task.busy < SATURATED && run >= SATURATED {
        true => format!("{threads} threads ran on {run:.2} cores together; of them "),
        false => String::new(),
    };
    Finding {
        limit: Limit::Server,
        resource,
        why: format!(
            "{side}{together}{} was busy {} of the time (user {}, system {}){note}{}",
            task.label(),
            percent(task.busy),
            percent(task.user),
            percent(task.system),
            room,
        ),
        remedy: if resource == "backend" {
            "give the backend more workers or CPU; what stands before it is not the limit"
                .to_owned()
        } else {
            "this is what the server does with this CPU: add workers or cores, or make a request cheaper"
                .to_owned()
        },
        evidence: task_evidence(task, observed),
    }
}

fn task_evidence(task: &TaskUse, observed: &Observed) -> Vec<Evidence> {
    let labels = format!("{{name={},pid={},tid={}}}", task.name, task.pid, task.tid);
    let ticks = "/proc/PID/task/TID/stat";
    let mut evidence = vec![
        Evidence::new(
            format!("thread.utilization{labels}"),
            task.busy,
            "1",
            Some(SATURATED),
            task.source,
        ),
        Evidence::new(
            format!("thread.cpu_user{labels}"),
            task.user,
            "1",
            None,
            ticks,
        ),
        Evidence::new(
            format!("thread.cpu_system{labels}"),
            task.system,
            "1",
            None,
            ticks,
        ),
    ];
    if let Some(wait) = task.wait {
        let signal = format!("thread.run_queue_wait{labels}");
        evidence.push(Evidence::new(signal, wait, "1", None, task.source));
    }
    evidence.extend(generator_evidence(observed, None));
    evidence
}

/// `the generator had 38 % headroom`.
pub(crate) fn head_room(observed: &Observed) -> String {
    match observed.busiest_load_thread() {
        Some(thread) => format!(
            "the generator had {} headroom",
            percent((1.0 - thread.busy).max(0.0))
        ),
        None => "the generator's own CPU was not measured".to_owned(),
    }
}

fn generator_evidence(observed: &Observed, threshold: Option<f64>) -> Option<Evidence> {
    let thread = observed.busiest_load_thread()?;
    Some(Evidence::new(
        "generator.utilization",
        thread.busy,
        "1",
        threshold,
        "the load thread's CPU clock",
    ))
}

/// How full a load thread is, and why. Spinning before a scheduled send is not work, so the wait for a CPU
/// and the core count only in a closed loop, which does not spin.
fn load_thread_full(
    case: &Case<'_>,
    observed: &Observed,
    thread: &LoadThreadUse,
) -> Option<String> {
    let closed = case.spec.arrival.offered_per_s().is_none();
    if thread.busy >= SATURATED {
        return Some(String::new());
    }
    let wait = thread.wait.unwrap_or(0.0);
    if closed && thread.busy + wait >= SATURATED {
        return Some(format!(" and waited for a CPU another {}", percent(wait)));
    }
    let core = observed.cores.get(&thread.cpu?)?;
    let own = thread.busy + core.interrupts();
    (core.busy - thread.spin >= CORE_FULL && own >= GENERATOR_BUSY).then(|| {
        format!(
            ", which softirq work fills by another {}",
            percent(core.interrupts())
        )
    })
}

fn generator_limit(case: &Case<'_>, observed: &Observed) -> Option<Finding> {
    let full = observed
        .generator
        .iter()
        .find_map(|t| Some((t, load_thread_full(case, observed, t)?, SATURATED)));
    let (thread, note, threshold) = full.or_else(|| {
        let thread = observed.busiest_load_thread()?;
        let server = observed.tasks.first().map_or(0.0, TaskUse::demand);
        let closed = case.spec.arrival.offered_per_s().is_none();
        let judged = case.outcome.measured() >= SHORTEST;
        (closed && judged && thread.busy >= GENERATOR_BUSY && thread.busy > server)
            .then(|| (thread, String::new(), GENERATOR_BUSY))
    })?;
    Some(Finding {
        limit: Limit::Generator,
        resource: GENERATOR,
        why: format!(
            "the generator was the limit: {} was busy {} of the time (user {}, system {}){note}; {}",
            thread.label(),
            percent(thread.busy),
            percent(thread.user),
            percent(thread.system),
            busiest_server(observed),
        ),
        remedy:
            "give the generator more threads and cores of its own (`threads`, --threads; `cpus`, --cpus), \
                 or offer a rate that it can hold (`rate`, --rate)"
                .to_owned(),
        evidence: generator_evidence(observed, Some(threshold))
            .into_iter()
            .chain(observed.tasks.first().map(|task| {
                let signal = format!("thread.utilization{{name={},pid={}}}", task.name, task.pid);
                Evidence::new(signal, task.busy, "1", Some(SATURATED), task.source)
            }))
            .collect(),
    })
}

fn busiest_server(observed: &Observed) -> String {
    match observed.tasks.first() {
        Some(task) => format!(
            "the server had room (busiest: {} at {})",
            task.label(),
            percent(task.busy)
        ),
        None => "the server's side was not watched".to_owned(),
    }
}

/// An overflow at the start only is the burst of the first connections; it must still grow in the second
/// half of the window to be what limits.
fn listen_queue_limit(sight: &Sight<'_>) -> Option<Finding> {
    let window = sight.window;
    let grown = |signal| window.grown(sight.series, signal).unwrap_or(0.0);
    let late = |signal| {
        let grown = window.grown_in_second_half(sight.series, signal);
        grown.unwrap_or(0.0) >= 1.0
    };
    let (overflows, drops) = (grown("tcp.listen_overflows"), grown("tcp.listen_drops"));
    let full = full_listen_queue(sight, &window);
    let lasting = late("tcp.listen_overflows") || late("tcp.listen_drops");
    if !lasting && full.is_none() {
        return None;
    }
    let mut evidence: Vec<Evidence> = [
        ("tcp.listen_overflows", overflows),
        ("tcp.listen_drops", drops),
    ]
    .map(|(signal, n)| Evidence::new(signal, n, "calls", Some(0.0), "/proc/net/netstat"))
    .into();
    let mut why = "the listen queue overflowed: ".to_owned();
    why += &format!(
        "{} of the queue and {} of connection requests",
        plural(overflows.round() as u64, "overflow"),
        plural(drops.round() as u64, "drop"),
    );
    if let Some((address, queue, backlog)) = full {
        why += &format!("; the queue of {address} reached {queue} of {backlog}");
        let signal = format!("listen.queue{{address={address}}}");
        evidence.insert(
            0,
            Evidence::new(signal, queue, "connections", Some(backlog), "sock_diag"),
        );
    }
    why += "; each drop costs its client a retransmission timeout of 1 s or more";
    Some(Finding {
        limit: Limit::Server,
        resource: "listen_queue",
        why,
        remedy: "raise the server's backlog and net.core.somaxconn, or let it accept sooner (more workers)"
            .to_owned(),
        evidence,
    })
}

/// Address, length and limit of a listen queue that was full in at least a tenth of the samples.
fn full_listen_queue(sight: &Sight<'_>, window: &Window) -> Option<(String, f64, f64)> {
    named(sight.series, "listen.queue").find_map(|queue| {
        let address = queue.label("address")?;
        let backlog = named(sight.series, "listen.backlog")
            .find(|s| s.label("address") == Some(address))?
            .max(window.from, window.to)
            .filter(|b| *b > 0.0)?;
        let inside = queue
            .at_ns
            .iter()
            .zip(&queue.values)
            .filter(|(t, _)| (window.from.0..=window.to.0).contains(t));
        let lengths: Vec<f64> = inside.map(|(_, v)| *v).collect();
        let full = lengths.iter().filter(|v| **v >= backlog).count();
        let longest = lengths.iter().copied().reduce(f64::max)?;
        (full > 0 && full * 10 >= lengths.len()).then(|| (address.to_owned(), longest, backlog))
    })
}

fn network_limit(sight: &Sight<'_>) -> Option<Finding> {
    let window = sight.window;
    let resent = window.grown(sight.series, "tcp.retrans_segs")?;
    let sent = window.grown(sight.series, "tcp.out_segs")?;
    let lost = share(resent, sent)?;
    if lost < RETRANSMITTED || resent < FEWEST_RETRANSMITS {
        return None;
    }
    Some(Finding {
        limit: Limit::Network,
        resource: "retransmissions",
        why: format!(
            "the path lost segments: {} of those sent were retransmitted; no CPU was saturated",
            percent(lost)
        ),
        remedy: "look at drops on the path: interface counters, queues, the switch".to_owned(),
        evidence: vec![Evidence::new(
            "tcp.retransmitted_share",
            lost,
            "1",
            Some(RETRANSMITTED),
            "/proc/net/snmp",
        )],
    })
}

/// All cores of the host are full, and of the server's and the generator's work together: neither is
/// the limit alone, so neither can be blamed. A load thread that is full by itself can.
fn shared_cores(observed: &Observed) -> Option<Finding> {
    let cores: Vec<&CoreUse> = observed.cores.values().collect();
    let n = cores.len() as f64;
    let server: f64 = observed.tasks_here().map(|t| t.busy).sum();
    let generator: f64 = observed.generator.iter().map(|t| t.busy).sum();
    let interrupts: f64 = cores.iter().map(|c| c.interrupts()).sum();
    let mixed = observed
        .generator
        .iter()
        .all(|t| t.cpu.is_none() && t.busy < SATURATED);
    let full = !cores.is_empty() && cores.iter().all(|c| c.busy >= CORE_FULL);
    if !(mixed && full && server > 0.0 && server + generator + interrupts >= OWN_SHARE * n) {
        return None;
    }
    Some(Finding {
        limit: Limit::Unknown,
        resource: "host_cpu",
        why: format!(
            "server and generator share all {} of this host and fill them: the server used {server:.2} of them, \
             the generator {generator:.2}, softirq work {interrupts:.2}",
            plural(cores.len() as u64, "core"),
        ),
        remedy: "pin the server and the generator (`cpus`, --cpus) to cores of their own"
            .to_owned(),
        evidence: observed
            .cores
            .iter()
            .map(|(core, used)| core_evidence(*core, used))
            .collect(),
    })
}

fn core_evidence(core: u32, used: &CoreUse) -> Evidence {
    let signal = format!("cpu.busy{{core={core}}}");
    Evidence::new(signal, used.busy, "1", Some(CORE_FULL), "/proc/stat")
}

/// A thread with work all the time that its control group's quota stopped: no others took its CPU.
fn stopped_task(sight: &Sight<'_>, observed: &Observed) -> Option<Finding> {
    let task = observed.tasks.iter().find(|t| t.had_no_time_off())?;
    let of_owner = named(sight.series, "cgroup.throttled_s")
        .filter(|s| s.label("target") == Some(&task.owner));
    let stopped = of_owner
        .filter_map(|series| sight.window.share(series))
        .reduce(f64::max)
        .filter(|share| *share >= OTHERS_SHARE)?;
    let mut evidence = task_evidence(task, observed);
    evidence.push(Evidence::new(
        format!("cgroup.throttled{{target={}}}", task.owner),
        stopped,
        "1",
        Some(OTHERS_SHARE),
        "control group",
    ));
    Some(Finding {
        limit: Limit::Server,
        resource: "cpu_quota",
        why: format!(
            "{} had work all the time but ran only {} of it: the CPU quota of its control group stopped it {} of the time",
            task.label(),
            percent(task.busy),
            percent(stopped)
        ),
        remedy: "raise the quota (`CPUQuota=`, `--cpus`, `limits.cpu`), or start as many workers as it has cores"
            .to_owned(),
        evidence,
    })
}

/// A thread with work all the time that mostly waited for a CPU: others took it.
fn starved_task(observed: &Observed) -> Option<Finding> {
    let task = observed.tasks.iter().find(|t| t.had_no_time_off())?;
    Some(Finding {
        limit: Limit::Unknown,
        resource: "host_cpu",
        why: format!(
            "{} had work all the time but ran only {} of it: others used its CPU",
            task.label(),
            percent(task.busy)
        ),
        remedy: "pin server and generator to cores of their own, and stop what else runs there"
            .to_owned(),
        evidence: task_evidence(task, observed),
    })
}

fn nobody_saturated(case: &Case<'_>, observed: &Observed, schedule_met: bool) -> Finding {
    let mut finding = with_room(case, observed, schedule_met);
    let mut hosts: Vec<&str> = case.targets.iter().filter_map(|t| t.elsewhere()).collect();
    hosts.sort_unstable();
    hosts.dedup();
    if !hosts.is_empty() {
        finding.why += &format!(
            "; of {}, where targets ran, only their threads were watched: interrupts and other programs may have filled its cores",
            hosts.join(" and ")
        );
    }
    finding
}

fn with_room(case: &Case<'_>, observed: &Observed, schedule_met: bool) -> Finding {
    let kind = limited_rate(case, observed).or_else(|| own_pace(case, observed));
    if let Some(finding) = kind {
        return finding;
    }
    match case.spec.arrival.offered_per_s() {
        Some(offered) if schedule_met => offered_load(offered, observed),
        offered => connections_limit(case, observed, offered),
    }
}

/// The connections carried what they were allowed to (`limit_rate`), so that the server was never asked for more.
fn limited_rate(case: &Case<'_>, observed: &Observed) -> Option<Finding> {
    let rate = case.spec.limit_rate?;
    let allowed =
        rate.0 as f64 * f64::from(case.spec.connections) * case.outcome.measured().as_secs_f64();
    let outcome = case.outcome;
    // What each connection begins with passes whatever the limit is.
    let at_once = case.spec.limit_burst()?.0 as f64 * outcome.connections.opened as f64;
    let carried = outcome.received_bytes.max(outcome.sent_bytes) as f64 - at_once;
    let used = share(carried, allowed).filter(|used| *used >= LIMIT_USED)?;
    let mut evidence = idle_evidence(observed);
    let source = "load: (bytes - bursts of new connections) / (limit x connections x time)";
    evidence.insert(
        0,
        Evidence::new("limit_rate.used", used, "1", Some(LIMIT_USED), source),
    );
    Some(Finding {
        limit: Limit::OfferedLoad,
        resource: "limit_rate",
        why: format!(
            "{} x {rate}/s is all that the load takes, as asked, and {} of it was carried; nobody is saturated: {}",
            plural(u64::from(case.spec.connections), "connection"),
            percent(used),
            busiest_server(observed),
        ),
        remedy: "add slow clients (`connections`, --connections), or leave out the limit (`limit_rate`, --limit-rate) to find the capacity"
            .to_owned(),
        evidence,
    })
}

/// Events come when their server sends them: no connection asks for the next.
fn own_pace(case: &Case<'_>, observed: &Observed) -> Option<Finding> {
    let streams = case.outcome.event_streams.as_ref()?;
    let per_s = case.outcome.achieved_per_s()?;
    let mut evidence = idle_evidence(observed);
    let open = Evidence::new(
        "event_streams.open",
        streams.open as f64,
        "streams",
        None,
        "load",
    );
    evidence.insert(0, open);
    Some(Finding {
        limit: Limit::OfferedLoad,
        resource: "events",
        why: format!(
            "the server sent {}/s on {} at its own pace, and nobody is saturated: {}; {}",
            rate(per_s),
            plural(u64::from(case.spec.connections), "stream"),
            busiest_server(observed),
            head_room(observed)
        ),
        remedy: "have it send more, or open more streams (`connections`, --connections), to find the capacity"
            .to_owned(),
        evidence,
    })
}

fn offered_load(offered: f64, observed: &Observed) -> Finding {
    let server = match observed.tasks.first() {
        Some(task) => format!(
            "the busiest server thread, {}, was at {}",
            task.label(),
            percent(task.busy)
        ),
        None => "the server's side was not watched".to_owned(),
    };
    Finding {
        limit: Limit::OfferedLoad,
        resource: "offered_load",
        why: format!(
            "the offered {}/s were met with room: {server}; {}",
            rate(offered),
            head_room(observed)
        ),
        remedy: "offer more (`rate`, --rate) to find the capacity".to_owned(),
        evidence: idle_evidence(observed),
    }
}

fn idle_evidence(observed: &Observed) -> Vec<Evidence> {
    let server = observed.tasks.first().map(|task| {
        let signal = format!("thread.utilization{{name={},pid={}}}", task.name, task.pid);
        Evidence::new(signal, task.busy, "1", Some(SATURATED), task.source)
    });
    let generator = generator_evidence(observed, Some(GENERATOR_BUSY));
    server.into_iter().chain(generator).collect()
}

/// Connections in use by Little's law (N = X R, R from the actual send plus the time to connect, spread
/// over the requests of a connection) divided by those asked. `None` without a success.
pub(crate) fn littles_law(case: &Case<'_>) -> Option<f64> {
    let service_s = case.outcome.service.mean_ns()? / 1e9;
    let connect_s = case.spec.requests_per_connection.map_or(0.0, |n| {
        case.outcome.connect.mean_ns().unwrap_or(0.0) / 1e9 / n.max(1) as f64
    });
    let in_use = case.outcome.achieved_per_s()? * (service_s + connect_s);
    share(in_use, slots(case))
}

/// Requests in flight on one connection at most.
fn depth(case: &Case<'_>) -> u32 {
    let allowed = case.outcome.connections.streams_allowed;
    case.spec.depth().min(allowed.unwrap_or(u32::MAX))
}

fn slots(case: &Case<'_>) -> f64 {
    f64::from(case.spec.connections) * f64::from(depth(case))
}

/// `64 connections`, or `160 requests in flight (10 connections x 16)` where a connection has several.
fn slots_in_words(case: &Case<'_>) -> String {
    let connections = plural(u64::from(case.spec.connections), "connection");
    match depth(case) {
        1 => connections,
        depth => format!(
            "{} requests in flight ({connections} x {depth})",
            slots(case)
        ),
    }
}

/// All connections were in use and nobody was saturated: their number and the service time make the rate.
fn connections_limit(case: &Case<'_>, observed: &Observed, offered: Option<f64>) -> Finding {
    let closes = littles_law(case).filter(|l| (l - 1.0).abs() <= LITTLE_TOLERANCE);
    let service = case.outcome.service.mean_ns();
    let (Some(little), Some(service), true) = (closes, service, observed.server_watched()) else {
        return unknown(case, observed);
    };
    let mut evidence = idle_evidence(observed);
    evidence.insert(
        0,
        Evidence::new(
            "littles_law",
            little,
            "1",
            Some(1.0),
            "rate x service time / connections",
        ),
    );
    evidence.insert(
        1,
        Evidence::new("service_ns.mean", service, "ns", None, "load"),
    );
    let more = if offered.is_some() {
        "more connections would hold the schedule"
    } else {
        "more connections would raise the rate"
    };
    Finding {
        limit: Limit::OfferedLoad,
        resource: "connections",
        why: format!(
            "{} x {} service time make this rate, and nobody is saturated: {}; {more}{}",
            slots_in_words(case),
            Nanos(service as u64),
            where_time_goes(case, observed, service),
            at_most(observed),
        ),
        remedy: "add connections (`connections`, --connections) to find the capacity, or offer a rate (`rate`, --rate)"
            .to_owned(),
        evidence,
    }
}

/// The busiest station bounds what more connections can bring (asymptotic bound, Denning and Buzen 1978).
fn at_most(observed: &Observed) -> String {
    let server = observed.tasks.first().map_or(0.0, TaskUse::demand);
    let generator = observed.busiest_load_thread().map_or(0.0, |t| t.busy);
    match share(1.0, server.max(generator)) {
        Some(bound) if (1.0..3.0).contains(&bound) => {
            format!(", by {} at most", percent(bound - 1.0))
        }
        _ => String::new(),
    }
}

fn where_time_goes(case: &Case<'_>, observed: &Observed, service_ns: f64) -> String {
    let busiest = observed.tasks.first().map_or_else(String::new, |task| {
        format!(
            "the busiest server thread, {}, was at {}, ",
            task.label(),
            percent(task.busy)
        )
    });
    let generator = observed.busiest_load_thread().map_or(0.0, |t| t.busy);
    let completed = case.outcome.requests.completed as f64;
    let server_s = observed.target_cpu_s.unwrap_or(0.0);
    let load_s: f64 = case
        .outcome
        .generator
        .threads
        .iter()
        .map(|t| t.utilization() * t.wall_ns as f64 / 1e9)
        .sum();
    let on_cpu = share((server_s + load_s) * 1e9, completed)
        .and_then(|ns| share(ns, service_ns))
        .unwrap_or(0.0);
    let place = if on_cpu >= 0.5 {
        "client and server take turns on their CPUs"
    } else {
        "a request spends its time waiting at the server, not on a CPU"
    };
    format!("{busiest}the generator at {}; {place}", percent(generator))
}

fn unknown(case: &Case<'_>, observed: &Observed) -> Finding {
    let room = head_room(observed);
    let (why, remedy) = if observed.server_watched() {
        let in_use = littles_law(case).map_or_else(String::new, |little| {
            format!(
                ", and rate x service time says that only {} of the connections were in use",
                percent(little)
            )
        });
        let busiest = percent(observed.tasks.first().map_or(0.0, |t| t.busy));
        (
            format!(
                "nobody was saturated (the busiest server thread at {busiest}; {room}){in_use}"
            ),
            "look at connections without a response, at errors and at the time to connect"
                .to_owned(),
        )
    } else {
        (
            format!("the server's side was not watched; {room}"),
            "run the load on the server's host or name its processes, to see what limits it"
                .to_owned(),
        )
    };
    Finding {
        limit: Limit::Unknown,
        resource: "",
        why,
        remedy,
        evidence: idle_evidence(observed),
    }
}
