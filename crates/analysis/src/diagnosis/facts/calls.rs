//! System calls per request, by what their descriptor leads to, and groups of them.
//!
//! A call that was watched for and never made is 0 per request; its mean size then has no meaning.

use super::{Material, Sheet};
use crate::diagnosis::fact::Reading;
use record::{CallStats, FdClass, Tier};

const SOURCE: &str = "signature: system calls";
const UNSEEN: &str = "counters without BPF do not see what calls ask for, nor what their descriptors lead to (remedy: run prony as root on a kernel with BPF and BTF)";
const READS: [&str; 9] = [
    "read", "readv", "recvfrom", "recvmsg", "recv", "pread64", "preadv", "preadv2", "recvmmsg",
];
const WRITES: [&str; 9] = [
    "write", "writev", "sendto", "sendmsg", "send", "pwrite64", "pwritev", "pwritev2", "sendmmsg",
];
/// Calls that wait for events of many descriptors.
pub(super) const POLLS: [&str; 8] = [
    "epoll_wait",
    "epoll_pwait",
    "epoll_pwait2",
    "poll",
    "ppoll",
    "select",
    "pselect6",
    "io_uring_enter",
];
pub(super) const OPENS: [&str; 4] = ["open", "openat", "openat2", "creat"];
const STATS: [&str; 9] = [
    "stat",
    "lstat",
    "fstat",
    "newfstatat",
    "statx",
    "access",
    "faccessat",
    "faccessat2",
    "readlink",
];
const SYNCS: [&str; 4] = ["fsync", "fdatasync", "sync_file_range", "msync"];
const SLEEPS: [&str; 2] = ["nanosleep", "clock_nanosleep"];

/// Facts of a group of calls: the name and the calls that it counts.
const GROUPS: [(&str, &[&str]); 11] = [
    ("open.per_request", &OPENS),
    ("stat.per_request", &STATS),
    ("futex.per_request", &["futex"]),
    ("sleep.per_request", &SLEEPS),
    (
        "map.per_request",
        &["mmap", "munmap", "mremap", "brk", "madvise"],
    ),
    ("map.unmap_per_request", &["munmap", "madvise"]),
    ("poll.per_request", &POLLS),
    (
        "clock.per_request",
        &[
            "clock_gettime",
            "gettimeofday",
            "time",
            "times",
            "getrusage",
        ],
    ),
    ("sendfile.per_request", &["sendfile", "sendfile64"]),
    ("splice.per_request", &["splice", "tee", "vmsplice"]),
    ("call.total_per_request", &[]),
];
const OTHERS: [&str; 7] = [
    "accept.per_request",
    "sendfile.mean_bytes",
    "poll.empty_share",
    "poll.busy_share",
    "sleep.us_per_request",
    "sync.time_us_per_request",
    "dns.per_request",
];

pub(super) fn extract(material: &Material<'_>, sheet: &mut Sheet<'_>) {
    let reason = material.reason(
        &["syscall", "system call", "signature"],
        "system calls were not counted: there was no signature pass",
    );
    let signature = material.signature(&sheet.target);
    let calls = signature.and_then(|s| s.calls.as_deref());
    let (Some(calls), Some(requests)) = (calls, material.signature_requests()) else {
        nothing(&reason, sheet);
        return;
    };
    let tier = material.examination().and_then(|e| e.signature.as_ref());
    let counted = Counted {
        calls,
        requests,
        arguments: tier.is_some_and(|s| s.tier == Tier::Ebpf),
    };
    if !counted.arguments {
        for pattern in ["read.*.*", "write.*.*"] {
            sheet.family(pattern, Reading::Unknown(UNSEEN.to_owned()), "");
        }
    }
    single(&counted, sheet);
    groups(&counted, sheet);
    for (group, names) in [("read", &READS), ("write", &WRITES)] {
        for class in FdClass::ALL.into_iter().filter(|_| counted.arguments) {
            moved(&counted, group, names, Some(class), sheet);
        }
        moved(&counted, group, names, None, sheet);
    }
}

fn nothing(reason: &str, sheet: &mut Sheet<'_>) {
    let unknown = || Reading::Unknown(reason.to_owned());
    for pattern in ["call.*.*.*", "call.*.*.errors.*", "read.*.*", "write.*.*"] {
        sheet.family(pattern, unknown(), "");
    }
    let groups = GROUPS.iter().map(|(name, _)| *name);
    for name in groups.chain(OTHERS) {
        sheet.unknown(name, reason);
    }
}

struct Counted<'a> {
    calls: &'a [CallStats],
    requests: f64,
    /// The probes saw the calls' arguments: descriptors and sizes asked for.
    arguments: bool,
}

impl<'a> Counted<'a> {
    /// Calls of these names and, where given, of this class.
    fn of(&self, names: &[&str], class: Option<FdClass>) -> Vec<&'a CallStats> {
        let calls = self.calls.iter();
        calls
            .filter(|c| names.contains(&c.call.as_str()))
            .filter(|c| class.is_none_or(|class| c.class == class))
            .collect()
    }

    fn per_request(&self, n: u64) -> f64 {
        n as f64 / self.requests
    }
}

fn sum(calls: &[&CallStats], of: impl Fn(&CallStats) -> u64) -> u64 {
    calls.iter().map(|c| of(c)).sum()
}

fn failures(call: &CallStats) -> u64 {
    call.errors.values().sum()
}

/// Time in these calls, us per request; `None` when one of them was not timed.
fn time_us(counted: &Counted<'_>, calls: &[&CallStats]) -> Option<f64> {
    let times: Option<Vec<u64>> = calls.iter().map(|c| c.time_ns).collect();
    Some(times?.iter().sum::<u64>() as f64 / 1e3 / counted.requests)
}

fn errno(calls: &[&CallStats], names: &[&str]) -> u64 {
    let of = |c: &CallStats| names.iter().filter_map(|n| c.errors.get(*n)).sum::<u64>();
    sum(calls, of)
}

/// The most frequent exact size of calls that moved bytes.
fn typical(calls: &[&CallStats]) -> Option<f64> {
    let mut sizes: std::collections::BTreeMap<u64, u64> = std::collections::BTreeMap::new();
    for (size, n) in calls.iter().flat_map(|c| &c.top_sizes) {
        if *size > 0 {
            *sizes.entry(*size).or_default() += n;
        }
    }
    let most = sizes.into_iter().max_by_key(|(size, n)| (*n, *size));
    most.map(|(size, _)| size as f64)
}

/// Each call by itself.
fn single(counted: &Counted<'_>, sheet: &mut Sheet<'_>) {
    let seen = if counted.arguments { "*" } else { "any" };
    for name in ["per_request", "errors.*"] {
        let pattern = format!("call.{seen}.*.{name}");
        sheet.family(&pattern, Reading::Known(0.0), SOURCE);
    }
    if !counted.arguments {
        for pattern in ["call.*.*.*", "call.*.*.errors.*"] {
            sheet.family(pattern, Reading::Unknown(UNSEEN.to_owned()), "");
        }
    }
    let never = Reading::NotApplicable("that call was not made".to_owned());
    sheet.family("call.*.*.partial_share", never, "");
    let mut names: Vec<&str> = counted.calls.iter().map(|c| c.call.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    for name in names {
        let all = counted.of(&[name], None);
        one(counted, &format!("call.any.{name}"), &all, sheet);
        for class in FdClass::ALL.into_iter().filter(|_| counted.arguments) {
            let calls = counted.of(&[name], Some(class));
            if !calls.is_empty() {
                let prefix = format!("call.{}.{name}", class.name());
                one(counted, &prefix, &calls, sheet);
            }
        }
    }
}

fn one(counted: &Counted<'_>, prefix: &str, calls: &[&CallStats], sheet: &mut Sheet<'_>) {
    let made = sum(calls, |c| c.calls);
    let failed = sum(calls, failures);
    sheet.known(
        &format!("{prefix}.per_request"),
        counted.per_request(made),
        SOURCE,
    );
    for errno in calls.iter().flat_map(|c| c.errors.keys()) {
        let n = sum(calls, |c| c.errors.get(errno).copied().unwrap_or(0));
        let name = format!("{prefix}.errors.{errno}_per_request");
        sheet.known(&name, counted.per_request(n), SOURCE);
    }
    let moved = made.saturating_sub(failed + sum(calls, |c| c.zero));
    let partial = Some(sum(calls, |c| c.partial) as f64).filter(|_| counted.arguments);
    let name = format!("{prefix}.partial_share");
    sheet.divided(&name, partial, Some(moved as f64), SOURCE, UNSEEN);
}

/// Sizes and shares of the calls that did not fail.
fn sizes(
    counted: &Counted<'_>,
    prefix: &str,
    calls: &[&CallStats],
    succeeded: u64,
    sheet: &mut Sheet<'_>,
) {
    let moved = succeeded.saturating_sub(sum(calls, |c| c.zero));
    let useful = Some(moved as f64);
    let part = |of: &dyn Fn(&CallStats) -> u64| Some(sum(calls, of) as f64);
    let name = |last: &str| format!("{prefix}.{last}");
    sheet.divided(&name("mean_bytes"), part(&|c| c.bytes), useful, SOURCE, "");
    // A read that fills its buffer left something; a write cut short found no room.
    let (last, n) = if prefix.starts_with("read") {
        ("full_share", part(&|c| c.full))
    } else {
        ("partial_share", part(&|c| c.partial))
    };
    let n = n.filter(|_| counted.arguments);
    sheet.divided(&name(last), n, useful, SOURCE, UNSEEN);
    match typical(calls) {
        Some(size) => sheet.known(&name("typical_bytes"), size, SOURCE),
        None if moved == 0 => sheet.not_applicable(&name("typical_bytes"), "nothing was moved"),
        None => sheet.unknown(&name("typical_bytes"), "exact sizes were not taken"),
    }
}

/// Reads or writes on one class of descriptors, or on all.
fn moved(
    counted: &Counted<'_>,
    group: &str,
    names: &[&str],
    class: Option<FdClass>,
    sheet: &mut Sheet<'_>,
) {
    let calls = counted.of(names, class);
    let prefix = format!("{group}.{}", class.map_or("any", FdClass::name));
    let made = sum(&calls, |c| c.calls);
    let failed = sum(&calls, failures);
    let succeeded = made.saturating_sub(failed);
    let zero = sum(&calls, |c| c.zero);
    let again = errno(&calls, &["EAGAIN", "EWOULDBLOCK"]);
    for (name, n) in [
        ("useful_per_request", succeeded.saturating_sub(zero)),
        ("bytes_per_request", sum(&calls, |c| c.bytes)),
        ("eagain_per_request", again),
    ] {
        sheet.known(&format!("{prefix}.{name}"), counted.per_request(n), SOURCE);
    }
    if group == "write" {
        let name = format!("{prefix}.per_request");
        sheet.known(&name, counted.per_request(made), SOURCE);
    }
    sizes(counted, &prefix, &calls, succeeded, sheet);
    let name = format!("{prefix}.time_us_per_request");
    sheet.maybe(
        &name,
        time_us(counted, &calls),
        SOURCE,
        "the calls were not timed",
    );
}

fn groups(counted: &Counted<'_>, sheet: &mut Sheet<'_>) {
    for (name, names) in GROUPS {
        let calls = match name {
            "call.total_per_request" => counted.calls.iter().collect(),
            _ => counted.of(names, None),
        };
        let made = sum(&calls, |c| c.calls);
        sheet.known(name, counted.per_request(made), SOURCE);
    }
    let accepts = counted.of(&["accept", "accept4"], None);
    let taken = sum(&accepts, |c| c.calls).saturating_sub(sum(&accepts, failures));
    sheet.known("accept.per_request", counted.per_request(taken), SOURCE);
    let files = counted.of(&["sendfile", "sendfile64"], None);
    let sent = sum(&files, |c| c.calls).saturating_sub(sum(&files, failures));
    let bytes = Some(sum(&files, |c| c.bytes) as f64);
    sheet.divided("sendfile.mean_bytes", bytes, Some(sent as f64), SOURCE, "");
    let polls = counted.of(&POLLS, None);
    let empty = Some(sum(&polls, |c| c.zero) as f64);
    let polled = Some(sum(&polls, |c| c.calls) as f64);
    sheet.divided("poll.empty_share", empty, polled, SOURCE, "");
    let untold = "the time-outs that polls ask for are not recorded";
    sheet.unknown("poll.busy_share", untold);
    for (name, names) in [
        ("sleep.us_per_request", &SLEEPS[..]),
        ("sync.time_us_per_request", &SYNCS),
    ] {
        let time = time_us(counted, &counted.of(names, None));
        sheet.maybe(name, time, SOURCE, "the calls were not timed");
    }
    let asked = counted.per_request(look_ups(counted));
    let asked = Some(asked).filter(|_| counted.arguments);
    sheet.maybe("dns.per_request", asked, SOURCE, UNSEEN);
}

/// Datagrams sent on sockets that are read as well: a log sent by UDP is never answered.
fn look_ups(counted: &Counted<'_>) -> u64 {
    let reads = counted.of(&READS, Some(FdClass::Udp));
    let writes = counted.of(&WRITES, Some(FdClass::Udp));
    if sum(&reads, |c| c.calls) == 0 {
        return 0;
    }
    sum(&writes, |c| c.calls).saturating_sub(sum(&writes, failures))
}
