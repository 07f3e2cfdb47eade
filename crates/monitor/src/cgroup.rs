//! Control groups of the targets: CPU quota and throttling, memory limit and how often it was hit.
//!
//! Read at the slow passes, in the layout of version 1, of version 2, or of both: a host may have them mounted side
//! by side with each controller in only one. The surprise: the group that binds is the tightest of all ancestors, so
//! the series carry the name of that group, which need not be the one that the process is in. A group without a
//! limit has no `cgroup.quota_cores` and no `cgroup.memory_limit_bytes`.

use crate::cgroup_io::{self, IoLimit};
use crate::environment::cgroup::{MOUNT, ancestors, parse_cfs, parse_max};
use crate::recorder::Rows;
use crate::tree::Members;
use crate::{MonitorError, Pass, Recorder, Signal, Source};
use linux::Root;
use record::Nanos;
use std::collections::BTreeSet;

/// Throttling by a CPU quota.
pub const THROTTLING: [Signal; 3] = [
    Signal::counter("cgroup.periods", "calls", CPU_STAT),
    Signal::counter("cgroup.throttled_periods", "calls", CPU_STAT),
    Signal::counter("cgroup.throttled_s", "s", CPU_STAT),
];
/// CPU time of the group.
pub const CPU: [Signal; 1] = [Signal::counter("cgroup.cpu_s", "s", CPU_STAT)];
/// Its weight against its siblings, in the first version's scale, in which 1024 is the default.
pub const SHARES: [Signal; 1] = [Signal::gauge(
    "cgroup.shares",
    "shares",
    "cgroup cpu.weight or cpu.shares",
)];
/// Times that the group was above `memory.high`; only the second version has it.
pub const HIGH_EVENTS: [Signal; 1] = [Signal::counter(
    "cgroup.memory_high_events",
    "calls",
    "cgroup memory.events",
)];
/// Pages taken from the group because it, or the host, had too little memory.
pub const RECLAIMED: [Signal; 1] = [Signal::counter(
    "cgroup.reclaimed_pages",
    "pages",
    "cgroup memory.stat",
)];
/// Processes and threads in the group.
pub const PIDS: [Signal; 1] = [Signal::gauge("cgroup.pids", "tasks", "cgroup pids.current")];
/// How many it may have.
pub const PIDS_LIMIT: [Signal; 1] = [Signal::gauge(
    "cgroup.pids_limit",
    "tasks",
    "cgroup pids.max",
)];
/// The quota.
pub const QUOTA: [Signal; 1] = [Signal::gauge(
    "cgroup.quota_cores",
    "cores",
    "cgroup cpu.max or cpu.cfs_quota_us",
)];
/// Memory in use: what counts against the limit, caches included.
pub const MEMORY: [Signal; 1] = [Signal::gauge(
    "cgroup.memory_bytes",
    "bytes",
    "cgroup memory.current or memory.usage_in_bytes",
)];
/// The memory limit.
pub const MEMORY_LIMIT: [Signal; 1] = [Signal::gauge(
    "cgroup.memory_limit_bytes",
    "bytes",
    "cgroup memory.max or memory.limit_in_bytes",
)];
/// How often the limit was reached.
pub const LIMIT_HITS: [Signal; 1] = [Signal::counter(
    "cgroup.memory_limit_hits",
    "calls",
    "cgroup memory.events or memory.failcnt",
)];
/// Processes that the kernel killed there for want of memory.
pub const OOM_KILLS: [Signal; 1] = [Signal::counter(
    "cgroup.oom_kills",
    "calls",
    "cgroup memory.events or memory.oom_control",
)];
/// Bytes read or written, or such operations, of a device for which the group has a limit of these.
pub const IO_USED: [Signal; 1] = [Signal::counter(
    "cgroup.io_used",
    "bytes/operations",
    "cgroup io.stat or blkio.throttle.io_serviced",
)];
/// That limit.
pub const IO_LIMIT: [Signal; 1] = [Signal::gauge(
    "cgroup.io_limit_per_s",
    "bytes/operations a second",
    "cgroup io.max or blkio.throttle.*_device",
)];

const CPU_STAT: &str = "cgroup cpu.stat";

/// Most groups of a target, and most processes of all targets, that are looked at: workers of a server share one.
const MOST_GROUPS: usize = 16;
const MOST_PROCESSES: usize = 256;

/// The first version's "no limit" is the largest number of whole pages in 63 bits; no host has a tenth of it.
const NO_LIMIT_BYTES: f64 = 9e17;

/// What the CPU controller says of one group.
#[derive(Clone, Copy, Debug, PartialEq)]
struct CpuUse {
    quota_cores: Option<f64>,
    /// Periods, throttled periods, time throttled in s.
    throttling: [f64; 3],
    cpu_s: Option<f64>,
    shares: Option<f64>,
}

/// What the memory controller says of one group.
#[derive(Clone, Copy, Debug, PartialEq)]
struct MemoryUse {
    bytes: f64,
    limit_bytes: Option<f64>,
    hits: Option<f64>,
    oom_kills: Option<f64>,
    high_events: Option<f64>,
    reclaimed: Option<f64>,
}

/// What the pids controller says of one group.
#[derive(Clone, Copy, Debug, PartialEq)]
struct PidsUse {
    pids: f64,
    limit: Option<f64>,
}

/// A target and the name of a group.
type Key = (usize, String);
/// These, a device, and what is limited.
type IoKey = (Key, String, &'static str);

/// The source.
#[derive(Debug)]
pub struct Cgroups {
    root: Root,
    members: Members,
    slow_interval: Nanos,
    targets: Vec<String>,
    throttling: Rows<Key, 3>,
    quota: Rows<Key, 1>,
    memory: Rows<Key, 1>,
    memory_limit: Rows<Key, 1>,
    limit_hits: Rows<Key, 1>,
    oom_kills: Rows<Key, 1>,
    cpu: Rows<Key, 1>,
    shares: Rows<Key, 1>,
    high_events: Rows<Key, 1>,
    reclaimed: Rows<Key, 1>,
    pids: Rows<Key, 1>,
    pids_limit: Rows<Key, 1>,
    io_used: Rows<IoKey, 1>,
    io_limit: Rows<IoKey, 1>,
}

impl Cgroups {
    /// The groups of the processes of `members`.
    pub fn new(root: &Root, members: Members, slow_interval: Nanos) -> Self {
        Self {
            root: root.clone(),
            targets: members.targets(),
            members,
            slow_interval,
            throttling: Rows::new(THROTTLING),
            quota: Rows::new(QUOTA),
            memory: Rows::new(MEMORY),
            memory_limit: Rows::new(MEMORY_LIMIT),
            limit_hits: Rows::new(LIMIT_HITS),
            oom_kills: Rows::new(OOM_KILLS),
            cpu: Rows::new(CPU),
            shares: Rows::new(SHARES),
            high_events: Rows::new(HIGH_EVENTS),
            reclaimed: Rows::new(RECLAIMED),
            pids: Rows::new(PIDS),
            pids_limit: Rows::new(PIDS_LIMIT),
            io_used: Rows::new(IO_USED),
            io_limit: Rows::new(IO_LIMIT),
        }
    }

    /// The distinct texts of `/proc/PID/cgroup` of each target.
    fn groups(&self, at: Nanos, out: &mut Recorder) -> BTreeSet<(usize, String)> {
        let members = match self.members.at(at, self.slow_interval) {
            Ok(members) => members,
            Err(error) => {
                out.unavailable("cgroup.*", &error);
                return BTreeSet::new();
            }
        };
        let mut found = BTreeSet::new();
        for (pid, target) in members.into_iter().take(MOST_PROCESSES) {
            match self.root.read(&format!("proc/{pid}/cgroup")) {
                Ok(text) => {
                    found.insert((target, text));
                }
                Err(error) if error.says_gone() => {}
                Err(error) => {
                    let what = format!("cgroup.* of {}", self.targets[target]);
                    out.unavailable(&what, &error.into());
                }
            }
        }
        found
    }

    fn sample_cpu(&mut self, key: &Key, used: CpuUse, at: Nanos, out: &mut Recorder) {
        let labels = || labels(&self.targets, key);
        self.throttling.push(key, labels, at, used.throttling, out);
        for (rows, value) in [
            (&mut self.quota, used.quota_cores),
            (&mut self.cpu, used.cpu_s),
            (&mut self.shares, used.shares),
        ] {
            if let Some(value) = value {
                rows.push(key, labels, at, [value], out);
            }
        }
    }

    fn sample_memory(&mut self, key: &Key, used: MemoryUse, at: Nanos, out: &mut Recorder) {
        let labels = || labels(&self.targets, key);
        self.memory.push(key, labels, at, [used.bytes], out);
        for (rows, value) in [
            (&mut self.memory_limit, used.limit_bytes),
            (&mut self.limit_hits, used.hits),
            (&mut self.oom_kills, used.oom_kills),
            (&mut self.high_events, used.high_events),
            (&mut self.reclaimed, used.reclaimed),
        ] {
            if let Some(value) = value {
                rows.push(key, labels, at, [value], out);
            }
        }
    }

    fn sample_io(&mut self, group: &Key, limit: IoLimit, at: Nanos, out: &mut Recorder) {
        let key = (group.clone(), limit.device, limit.what);
        let labels = || {
            let mut all = labels(&self.targets, group);
            all.extend([("device", key.1.clone()), ("what", key.2.to_owned())]);
            all
        };
        self.io_used.push(&key, labels, at, [limit.used], out);
        self.io_limit
            .push(&key, labels, at, [limit.limit_per_s], out);
    }

    fn no_controller(&self, target: usize, controller: &'static str, out: &mut Recorder) {
        let error = MonitorError::NoController {
            target: self.targets[target].clone(),
            controller,
        };
        let what = match controller {
            "cpu" => "cgroup.quota_cores",
            _ => "cgroup.memory_bytes",
        };
        out.unavailable(&format!("{what} of {}", self.targets[target]), &error);
    }
}

fn labels(targets: &[String], (target, group): &Key) -> Vec<(&'static str, String)> {
    vec![
        ("target", targets[*target].clone()),
        ("cgroup", group.clone()),
    ]
}

impl Source for Cgroups {
    fn name(&self) -> &'static str {
        "cgroup"
    }

    fn due(&self, pass: Pass) -> bool {
        pass != Pass::Fast
    }

    fn sample(&mut self, at: Nanos, _pass: Pass, out: &mut Recorder) {
        let mut looked_at = vec![0; self.targets.len()];
        // Groups of several leaves may be bound by the same ancestor: pushing its values twice at one time is
        // harmless, as the recorder keeps only the first.
        for (target, text) in self.groups(at, out) {
            looked_at[target] += 1;
            if looked_at[target] > MOST_GROUPS {
                continue;
            }
            let cpu = directories(&text, "cpu").filter_map(|d| Some((cpu_use(&self.root, &d)?, d)));
            let cores = |used: &CpuUse| used.quota_cores;
            match tightest(cpu, cores) {
                Some((used, group)) => self.sample_cpu(&(target, group.name), used, at, out),
                None => self.no_controller(target, "cpu", out),
            }
            let memory =
                directories(&text, "memory").filter_map(|d| Some((memory_use(&self.root, &d)?, d)));
            match tightest(memory, |used: &MemoryUse| used.limit_bytes) {
                Some((used, group)) => self.sample_memory(&(target, group.name), used, at, out),
                None => self.no_controller(target, "memory", out),
            }
            let pids =
                directories(&text, "pids").filter_map(|d| Some((pids_use(&self.root, &d)?, d)));
            // Without that controller nothing bounds them: no gap.
            if let Some((used, group)) = tightest(pids, |used: &PidsUse| used.limit) {
                let key = (target, group.name);
                let labels = || labels(&self.targets, &key);
                self.pids.push(&key, labels, at, [used.pids], out);
                if let Some(limit) = used.limit {
                    self.pids_limit.push(&key, labels, at, [limit], out);
                }
            }
            // Each group above limits for itself, and most have no limit.
            let io: Vec<Directory> = directories(&text, "io")
                .chain(directories(&text, "blkio"))
                .collect();
            for group in io {
                for limit in cgroup_io::limits(&self.root, &group.path) {
                    self.sample_io(&(target, group.name.clone()), limit, at, out);
                }
            }
        }
    }
}

/// A directory of a controller.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Directory {
    /// Relative to the root.
    path: String,
    /// The group as `/proc/PID/cgroup` names it; `/` for the outermost.
    name: String,
}

/// Where a controller of a process may be: its group and all ancestors, innermost first, in both layouts.
fn directories(cgroup: &str, controller: &str) -> impl Iterator<Item = Directory> {
    let found = cgroup.lines().filter_map(move |line| {
        let mut parts = line.splitn(3, ':').skip(1);
        let (controllers, path) = (parts.next()?, parts.next()?);
        let mounts = match controllers {
            "" => vec![String::new(), "/unified".to_owned()],
            _ if controllers.split(',').any(|c| c == controller) => {
                vec![format!("/{controllers}"), format!("/{controller}")]
            }
            _ => return None,
        };
        Some((mounts, path))
    });
    found.flat_map(|(mounts, path)| {
        mounts.into_iter().flat_map(move |mount| {
            ancestors(path).map(move |path| Directory {
                path: format!("{MOUNT}{mount}{path}"),
                name: if path.is_empty() { "/" } else { path }.to_owned(),
            })
        })
    })
}

/// The group with the smallest limit; the innermost when none has one.
fn tightest<T>(
    groups: impl Iterator<Item = (T, Directory)>,
    limit: impl Fn(&T) -> Option<f64>,
) -> Option<(T, Directory)> {
    let limit = |used: &T| limit(used).unwrap_or(f64::INFINITY);
    groups.min_by(|(a, _), (b, _)| limit(a).total_cmp(&limit(b)))
}

/// `None` where there is no CPU controller. The outermost group of version 2 has a `cpu.stat` without periods.
fn cpu_use(root: &Root, group: &Directory) -> Option<CpuUse> {
    let read = |name: &str| root.read(&format!("{}/{name}", group.path)).ok();
    let stat = read("cpu.stat")?;
    let number = |key| keyed(&stat, key);
    let throttled_s = number("throttled_usec")
        .map(|us| us / 1e6)
        .or_else(|| Some(number("throttled_time")? / 1e9))?;
    let quota_cores = match read("cpu.max") {
        Some(max) => parse_max(&max)?,
        None => parse_cfs(&read("cpu.cfs_quota_us")?, &read("cpu.cfs_period_us")?)?,
    };
    let number_in = |name| read(name)?.trim().parse::<f64>().ok();
    let cpu_s = number("usage_usec").map(|us| us / 1e6);
    // Both versions' numbers become the same weight in the scheduler at 100 and 1024.
    let weight = number_in("cpu.weight").map(|weight| weight * 1024.0 / 100.0);
    Some(CpuUse {
        cpu_s: cpu_s.or_else(|| number_in("cpuacct.usage").map(|ns| ns / 1e9)),
        shares: weight.or_else(|| number_in("cpu.shares")),
        quota_cores,
        throttling: [number("nr_periods")?, number("nr_throttled")?, throttled_s],
    })
}

/// `None` where there is no memory controller.
fn memory_use(root: &Root, group: &Directory) -> Option<MemoryUse> {
    let read = |name: &str| root.read(&format!("{}/{name}", group.path)).ok();
    let number = |name: &str| read(name)?.trim().parse::<f64>().ok();
    if let Some(bytes) = number("memory.current") {
        let events = read("memory.events");
        let event = |key| keyed(events.as_deref()?, key);
        let stat = read("memory.stat").unwrap_or_default();
        return Some(MemoryUse {
            bytes,
            // `max`, for none, is no number.
            limit_bytes: number("memory.max"),
            hits: event("max"),
            oom_kills: event("oom_kill"),
            high_events: event("high"),
            reclaimed: keyed(&stat, "pgsteal"),
        });
    }
    Some(MemoryUse {
        bytes: number("memory.usage_in_bytes")?,
        limit_bytes: number("memory.limit_in_bytes").filter(|limit| *limit < NO_LIMIT_BYTES),
        hits: number("memory.failcnt"),
        oom_kills: read("memory.oom_control").and_then(|text| keyed(&text, "oom_kill")),
        high_events: None,
        reclaimed: None,
    })
}

/// `None` where there is no pids controller; the outermost group has none.
fn pids_use(root: &Root, group: &Directory) -> Option<PidsUse> {
    let number = |name: &str| {
        let text = root.read(&format!("{}/{name}", group.path)).ok()?;
        text.trim().parse::<f64>().ok()
    };
    Some(PidsUse {
        pids: number("pids.current")?,
        // `max`, for none, is no number.
        limit: number("pids.max"),
    })
}

/// The number behind a name in lines of a name and a number.
fn keyed(text: &str, key: &str) -> Option<f64> {
    text.lines().find_map(|line| {
        let (name, number) = line.split_once(' ')?;
        (name == key).then(|| number.trim().parse().ok())?
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Watched;
    use record::{Series, Unavailable};
    use std::collections::BTreeMap;

    fn sample(files: &[(&str, &str)]) -> (Vec<Series>, Vec<Unavailable>) {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::new(dir.path());
        let stat = format!("7 (x) S 1 {}", "0 ".repeat(25));
        for (relative, text) in [("proc/7/stat", stat.as_str())].iter().chain(files) {
            let path = root.path(relative);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let watched = Watched {
            target: "web".to_owned(),
            pids: vec![7],
        };
        let members = Members::new(&root, &[watched], None);
        let mut source = Cgroups::new(&root, members, Nanos::SECOND);
        let mut out = Recorder::default();
        source.sample(Nanos(1), Pass::Edge, &mut out);
        out.finish()
    }

    /// Value and group by signal.
    fn seen(series: &[Series]) -> BTreeMap<&str, (f64, &str)> {
        let seen = series.iter().map(|s| {
            assert_eq!(s.label("target"), Some("web"));
            (s.signal.as_str(), (s.values[0], s.label("cgroup").unwrap()))
        });
        seen.collect()
    }

    #[test]
    fn the_second_version_with_the_quota_on_an_ancestor() {
        let (series, unavailable) = sample(&[
            ("proc/7/cgroup", "0::/a/b\n"),
            ("sys/fs/cgroup/cpu.stat", "usage_usec 9\n"),
            (
                "sys/fs/cgroup/a/cpu.stat",
                "usage_usec 9\nnr_periods 40\nnr_throttled 10\nthrottled_usec 2500000\n",
            ),
            ("sys/fs/cgroup/a/cpu.max", "50000 100000\n"),
            ("sys/fs/cgroup/a/cpu.weight", "50\n"),
            ("sys/fs/cgroup/a/b/pids.current", "7\n"),
            ("sys/fs/cgroup/a/b/pids.max", "70\n"),
            (
                "sys/fs/cgroup/a/io.max",
                "254:0 rbps=max wbps=max riops=max wiops=9\n",
            ),
            (
                "sys/fs/cgroup/a/io.stat",
                "254:0 rbytes=1 wbytes=1 rios=1 wios=30\n",
            ),
            ("sys/fs/cgroup/a/b/memory.stat", "anon 1\npgsteal 12\n"),
            (
                "sys/fs/cgroup/a/b/cpu.stat",
                "nr_periods 0\nnr_throttled 0\nthrottled_usec 0\n",
            ),
            ("sys/fs/cgroup/a/b/cpu.max", "max 100000\n"),
            ("sys/fs/cgroup/a/b/memory.current", "4096\n"),
            ("sys/fs/cgroup/a/b/memory.max", "8192\n"),
            (
                "sys/fs/cgroup/a/b/memory.events",
                "low 0\nhigh 2\nmax 3\noom 1\noom_kill 1\n",
            ),
        ]);
        assert_eq!(unavailable, []);
        let expected = [
            ("cgroup.cpu_s", (9e-6, "/a")),
            ("cgroup.shares", (512.0, "/a")),
            ("cgroup.pids", (7.0, "/a/b")),
            ("cgroup.pids_limit", (70.0, "/a/b")),
            ("cgroup.io_used", (30.0, "/a")),
            ("cgroup.io_limit_per_s", (9.0, "/a")),
            ("cgroup.memory_high_events", (2.0, "/a/b")),
            ("cgroup.reclaimed_pages", (12.0, "/a/b")),
            ("cgroup.memory_bytes", (4096.0, "/a/b")),
            ("cgroup.memory_limit_bytes", (8192.0, "/a/b")),
            ("cgroup.memory_limit_hits", (3.0, "/a/b")),
            ("cgroup.oom_kills", (1.0, "/a/b")),
            ("cgroup.periods", (40.0, "/a")),
            ("cgroup.quota_cores", (0.5, "/a")),
            ("cgroup.throttled_periods", (10.0, "/a")),
            ("cgroup.throttled_s", (2.5, "/a")),
        ];
        assert_eq!(seen(&series), BTreeMap::from(expected));
    }

    #[test]
    fn the_first_version_without_limits() {
        let (series, unavailable) = sample(&[
            ("proc/7/cgroup", "4:memory:/m\n1:cpu,cpuacct:/\n0::/\n"),
            (
                "sys/fs/cgroup/cpu,cpuacct/cpu.stat",
                "nr_periods 0\nnr_throttled 0\nthrottled_time 3000000000\n",
            ),
            ("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n"),
            ("sys/fs/cgroup/cpu,cpuacct/cpu.shares", "1024\n"),
            ("sys/fs/cgroup/cpu,cpuacct/cpuacct.usage", "2000000000\n"),
            ("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n"),
            ("sys/fs/cgroup/memory/m/memory.usage_in_bytes", "4096\n"),
            (
                "sys/fs/cgroup/memory/m/memory.limit_in_bytes",
                "9223372036854771712\n",
            ),
            ("sys/fs/cgroup/memory/m/memory.failcnt", "2\n"),
            (
                "sys/fs/cgroup/memory/m/memory.oom_control",
                "oom_kill_disable 0\nunder_oom 0\noom_kill 5\n",
            ),
        ]);
        assert_eq!(unavailable, []);
        let expected = [
            ("cgroup.cpu_s", (2.0, "/")),
            ("cgroup.shares", (1024.0, "/")),
            ("cgroup.memory_bytes", (4096.0, "/m")),
            ("cgroup.memory_limit_hits", (2.0, "/m")),
            ("cgroup.oom_kills", (5.0, "/m")),
            ("cgroup.periods", (0.0, "/")),
            ("cgroup.throttled_periods", (0.0, "/")),
            ("cgroup.throttled_s", (3.0, "/")),
        ];
        assert_eq!(seen(&series), BTreeMap::from(expected));
    }

    #[test]
    fn a_host_without_controllers_is_a_gap() {
        let (series, unavailable) = sample(&[("proc/7/cgroup", "0::/a\n")]);
        assert_eq!(series, []);
        let gaps: Vec<_> = unavailable.iter().map(|u| u.what.as_str()).collect();
        assert_eq!(
            gaps,
            ["cgroup.quota_cores of web", "cgroup.memory_bytes of web"]
        );
        assert!(unavailable[0].reason.contains("cpu controller"));
    }
}
