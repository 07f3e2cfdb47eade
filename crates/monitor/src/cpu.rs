//! `/proc/stat`: each core's time by mode, context switches, forks, running and blocked tasks.
//! Where the host shows them, the cores' frequencies too, once a second. A virtual machine has none; that is a property
//! of the host, which the environment names with its reason, and no failure of every trial.
//!
//! The surprise: `user` already includes the time of guests (kernel/sched/cputime.c adds it to both), so
//! the guest columns are left out. A core that goes offline stops; the file then lacks its line.

use crate::recorder::Rows;
use crate::{MonitorError, Pass, Recorder, SeriesId, Signal, Source};
use linux::Reread;
use linux::Root;
use record::Nanos;

const FILE: &str = "/proc/stat";

/// Modes in the order of the file.
pub const CORE: [Signal; 8] = [
    Signal::counter("cpu.user_s", "s", FILE),
    Signal::counter("cpu.nice_s", "s", FILE),
    Signal::counter("cpu.system_s", "s", FILE),
    Signal::counter("cpu.idle_s", "s", FILE),
    Signal::counter("cpu.iowait_s", "s", FILE),
    Signal::counter("cpu.irq_s", "s", FILE),
    Signal::counter("cpu.softirq_s", "s", FILE),
    Signal::counter("cpu.steal_s", "s", FILE),
];

/// A core's frequency as its driver sees it.
pub const FREQUENCY: Signal = Signal::gauge(
    "cpu.frequency_hz",
    "Hz",
    "/sys/devices/system/cpu/cpuN/cpufreq/scaling_cur_freq",
);

/// Signals of the whole host.
pub const HOST: [Signal; 4] = [
    Signal::counter("host.context_switches", "calls", FILE),
    Signal::counter("host.forks", "calls", FILE),
    Signal::gauge("host.running", "tasks", FILE),
    Signal::gauge("host.blocked", "tasks", FILE),
];

/// The file's first words of [`HOST`], in the same order.
const HOST_KEYS: [&str; 4] = ["ctxt", "processes", "procs_running", "procs_blocked"];

/// What the file says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HostStat {
    /// One entry per online core: its number, and its time by mode in ticks, in the order of [`CORE`].
    pub cores: Vec<(u32, [f64; 8])>,
    /// In the order of [`HOST`].
    pub host: [Option<f64>; 4],
}

/// Reads the text of `/proc/stat`; `None` when it has no core.
pub fn parse(text: &str) -> Option<HostStat> {
    let mut stat = HostStat::default();
    for line in text.lines() {
        let Some((key, rest)) = line.split_once(' ') else {
            continue;
        };
        if let Some(core) = key.strip_prefix("cpu").and_then(|n| n.parse().ok()) {
            stat.cores.push((core, ticks(rest)?));
        } else if let Some(i) = HOST_KEYS.iter().position(|k| *k == key) {
            stat.host[i] = rest.trim().parse().ok();
        }
    }
    (!stat.cores.is_empty()).then_some(stat)
}

fn ticks(rest: &str) -> Option<[f64; 8]> {
    let mut words = rest.split_ascii_whitespace();
    let mut ticks = [0.0; 8];
    for tick in &mut ticks {
        *tick = words.next()?.parse().ok()?;
    }
    Some(ticks)
}

/// The source.
#[derive(Debug)]
pub struct Cpu {
    file: Reread,
    ticks_per_s: f64,
    cores: Rows<u32, 8>,
    frequencies: Rows<u32, 1>,
    root: Root,
    host: [Option<SeriesId>; 4],
}

impl Cpu {
    /// Reads under `root`.
    pub fn new(root: &Root) -> Self {
        Self {
            file: Reread::new(root, "proc/stat", "mount /proc"),
            ticks_per_s: rustix::param::clock_ticks_per_second() as f64,
            cores: Rows::new(CORE),
            frequencies: Rows::new([FREQUENCY]),
            root: root.clone(),
            host: [None; 4],
        }
    }
}

impl Cpu {
    /// `None` where the host does not show it.
    fn frequency_hz(&self, core: u32) -> Option<f64> {
        let file = format!("sys/devices/system/cpu/cpu{core}/cpufreq/scaling_cur_freq");
        let khz: f64 = self.root.read(&file).ok()?.trim().parse().ok()?;
        Some(khz * 1e3)
    }
}

fn no_field(file: &Reread, key: &'static str) -> MonitorError {
    let path = file.path().to_owned();
    MonitorError::NoField { path, field: key }
}

impl Source for Cpu {
    fn name(&self) -> &'static str {
        "cpu"
    }

    fn sample(&mut self, at: Nanos, pass: Pass, out: &mut Recorder) {
        let read = self.file.parse("line of a core", parse);
        let Some(stat) = out.value_or_gap("cpu", read) else {
            return;
        };
        for (core, ticks) in stat.cores {
            let labels = || vec![("core", core.to_string())];
            let seconds = ticks.map(|t| t / self.ticks_per_s);
            self.cores.push(&core, labels, at, seconds, out);
            if pass != Pass::Fast
                && let Some(hz) = self.frequency_hz(core)
            {
                self.frequencies.push(&core, labels, at, [hz], out);
            }
        }
        for (i, value) in stat.host.into_iter().enumerate() {
            match value {
                Some(value) => {
                    let id = *self.host[i].get_or_insert_with(|| out.series(&HOST[i], &[]));
                    out.push(id, at, value);
                }
                None => out.unavailable(HOST[i].name, &no_field(&self.file, HOST_KEYS[i])),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::{Series, Unavailable};

    const TEXT: &str = "cpu  43199 181 6978 185114 772 0 90 60 0 0\n\
        cpu0 19051 85 3103 95749 171 1 10 26 0 0\n\
        cpu3 24147 96 3874 89364 601 0 80 34 0 0\n\
        intr 347418 0 0\nctxt 700123\nbtime 1795000000\nprocesses 9876\n\
        procs_running 3\nprocs_blocked 1\nsoftirq 5 0 0\n";

    #[test]
    fn reads_cores_that_are_online_and_the_host() {
        let stat = parse(TEXT).unwrap();
        assert_eq!(stat.cores.len(), 2);
        let first = [19051.0, 85.0, 3103.0, 95749.0, 171.0, 1.0, 10.0, 26.0];
        assert_eq!(stat.cores[0], (0, first));
        assert_eq!(stat.cores[1].0, 3);
        assert_eq!(
            stat.host,
            [Some(700_123.0), Some(9876.0), Some(3.0), Some(1.0)]
        );
    }

    #[test]
    fn a_text_without_cores_or_with_a_cut_line_is_refused() {
        for text in [
            "",
            "ctxt 1\n",
            "cpu  1 2 3\n",
            "cpu0 1 2 3\n",
            "cpu0 1 2 3 4 5 6 seven 8\n",
        ] {
            assert_eq!(parse(text), None, "{text:?}");
        }
    }

    fn sample_of(text: &str) -> (Vec<Series>, Vec<Unavailable>) {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("proc")).unwrap();
        std::fs::write(dir.path().join("proc/stat"), text).unwrap();
        let mut out = Recorder::default();
        Cpu::new(&Root::new(dir.path())).sample(Nanos(5), Pass::Fast, &mut out);
        out.finish()
    }

    #[test]
    fn samples_become_seconds_per_core() {
        let (series, unavailable) = sample_of(TEXT);
        assert_eq!(unavailable, []);
        assert_eq!(series.len(), 2 * 8 + 4);
        let ticks_per_s = rustix::param::clock_ticks_per_second() as f64;
        let softirq = |core| {
            series
                .iter()
                .find(|s| s.signal == "cpu.softirq_s" && s.label("core") == Some(core))
                .unwrap()
        };
        assert_eq!(softirq("3").values, [80.0 / ticks_per_s]);
        assert_eq!(softirq("0").at_ns, [5]);
    }

    #[test]
    fn the_frequency_is_read_where_the_host_shows_it() {
        let dir = tempfile::tempdir().unwrap();
        let driver = dir.path().join("sys/devices/system/cpu/cpu3/cpufreq");
        std::fs::create_dir_all(&driver).unwrap();
        std::fs::create_dir(dir.path().join("proc")).unwrap();
        std::fs::write(dir.path().join("proc/stat"), TEXT).unwrap();
        std::fs::write(driver.join("scaling_cur_freq"), "2400000\n").unwrap();
        let mut out = Recorder::default();
        let mut cpu = Cpu::new(&Root::new(dir.path()));
        cpu.sample(Nanos(5), Pass::Fast, &mut out);
        cpu.sample(Nanos(6), Pass::Slow, &mut out);
        let (series, unavailable) = out.finish();
        assert_eq!(unavailable, []);
        let found: Vec<&Series> = (series.iter())
            .filter(|s| s.signal == FREQUENCY.name)
            .collect();
        assert_eq!(found.len(), 1, "core 0 has no driver");
        assert_eq!(
            (found[0].label("core"), &found[0].values),
            (Some("3"), &vec![2.4e9])
        );
    }

    #[test]
    fn what_the_kernel_does_not_count_is_a_gap() {
        let (series, unavailable) =
            sample_of("cpu0 1 2 3 4 5 6 7 8\nctxt 5\nprocesses 6\nprocs_running 7\n");
        assert_eq!(series.len(), 8 + 3);
        assert_eq!(unavailable.len(), 1);
        assert_eq!(unavailable[0].what, "host.blocked");
    }
}
