//! A short look at the host as it is right now, and small measurements of its own: who else runs, what is stolen,
//! how fast loopback, the clock and a wake-up are.
//!
//! The surprise: these facts are of one moment. They say that a measurement now would be disturbed, not that one
//! tomorrow would not.

use super::facts::Facts;
use crate::cpu;
use linux::Root;
use record::EnvironmentItem;
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

const GROUP: &str = "now";
/// Bytes of one write over loopback.
const CHUNK: usize = 256 * 1024;
const CLOCK_READS: u32 = 20_000;
const SLEEPS: usize = 100;
const SLEEP: Duration = Duration::from_micros(100);
/// Longest wait for the other end of loopback.
const PATIENCE: Duration = Duration::from_secs(2);

/// Looks at the host for `time`, then measures for about half a second more. Nothing else of the caller may run.
pub fn look(root: &Root, time: Duration) -> Vec<EnvironmentItem> {
    let mut facts = Facts::new(root);
    let before = (stat(root), processes(root), throttled(root));
    std::thread::sleep(time);
    let after = (stat(root), processes(root), throttled(root));
    shares(&mut facts, before.0, after.0);
    let ticks = time.as_secs_f64() * rustix::param::clock_ticks_per_second() as f64;
    facts.add(
        GROUP,
        "busiest_process",
        busiest(&before.1, &after.1, ticks),
    );
    let periods = before
        .2
        .zip(after.2)
        .map(|(a, b)| b.saturating_sub(a).to_string());
    let no_quota = || "the control groups of this process count no throttling".to_owned();
    facts.add(GROUP, "throttled_periods", periods.ok_or_else(no_quota));
    for (name, file) in [
        ("cpu_pressure", "cpu"),
        ("memory_pressure", "memory"),
        ("io_pressure", "io"),
    ] {
        facts.find(
            GROUP,
            name,
            &format!("proc/pressure/{file}"),
            "some avg10=",
            |text| {
                let rest = text.split_once("some avg10=")?.1;
                Some(rest.split_whitespace().next()?.to_owned())
            },
        );
    }
    if root.is_live() {
        facts.add(
            GROUP,
            "clock_read_ns",
            Ok(format!("{:.0}", clock_read_ns())),
        );
        facts.add(
            GROUP,
            "sleep_overrun_us_p99",
            Ok(format!("{:.0}", sleep_overrun_us())),
        );
        let rate = loopback(Duration::from_millis(200));
        let rate = rate.map(|bytes_per_s| format!("{bytes_per_s:.0}"));
        facts.add(
            GROUP,
            "loopback_bytes_per_s",
            rate.map_err(|e| e.to_string()),
        );
    }
    facts.into_items()
}

fn stat(root: &Root) -> Result<cpu::HostStat, String> {
    let text = root.read("proc/stat").map_err(|e| e.to_string())?;
    cpu::parse(&text).ok_or_else(|| "reading `/proc/stat`: no core in it".to_owned())
}

/// Shares of the look, in per cent.
fn shares(
    facts: &mut Facts,
    before: Result<cpu::HostStat, String>,
    after: Result<cpu::HostStat, String>,
) {
    let both = before.and_then(|b| Ok((b, after?)));
    let of = |pick: &dyn Fn(&[f64; 8]) -> f64| -> Result<Vec<f64>, String> {
        let (before, after) = both.as_ref().map_err(Clone::clone)?;
        let cores = before.cores.iter().zip(&after.cores);
        let shares: Vec<f64> = cores
            .filter_map(|((_, a), (_, b))| {
                let spent: Vec<f64> = a.iter().zip(b).map(|(a, b)| (b - a).max(0.0)).collect();
                let spent: [f64; 8] = spent.try_into().ok()?;
                let all: f64 = spent.iter().sum();
                (all > 0.0).then(|| 100.0 * pick(&spent) / all)
            })
            .collect();
        match shares.is_empty() {
            true => Err("no core's time moved during the look".to_owned()),
            false => Ok(shares),
        }
    };
    let mean = |all: Vec<f64>| format!("{:.1}", all.iter().sum::<f64>() / all.len() as f64);
    let most = |all: Vec<f64>| format!("{:.1}", all.into_iter().fold(0.0, f64::max));
    // user, nice, system, idle, iowait, irq, softirq, steal: the order of the file.
    let busy = |t: &[f64; 8]| t[0] + t[1] + t[2] + t[5] + t[6];
    facts.add(GROUP, "busy_percent", of(&busy).map(mean));
    facts.add(GROUP, "busiest_core_percent", of(&busy).map(most));
    facts.add(GROUP, "softirq_percent", of(&|t| t[5] + t[6]).map(most));
    facts.add(GROUP, "steal_percent", of(&|t| t[7]).map(mean));
}

/// CPU ticks of each process, with its name.
fn processes(root: &Root) -> BTreeMap<i32, (String, u64)> {
    let ids = root.list_ids("proc").unwrap_or_default();
    ids.into_iter()
        .filter_map(|pid| {
            let text = root.read(&format!("proc/{pid}/stat")).ok()?;
            let stat = linux::procfs::Stat::parse(&text)?;
            Some((pid, (stat.name, stat.user_ticks + stat.system_ticks)))
        })
        .collect()
}

/// The process that used most CPU in between, in per cent of a core.
fn busiest(
    before: &BTreeMap<i32, (String, u64)>,
    after: &BTreeMap<i32, (String, u64)>,
    ticks: f64,
) -> Result<String, String> {
    let own = std::process::id().cast_signed();
    let used = after
        .iter()
        .filter(|(pid, _)| **pid != own)
        .map(|(pid, (name, now))| {
            let earlier = before.get(pid).map_or(0, |(_, ticks)| *ticks);
            (now.saturating_sub(earlier), name, pid)
        });
    match used.max_by_key(|(used, ..)| *used) {
        None => Err("no other process can be seen".to_owned()),
        Some((0, ..)) => Ok("0".to_owned()),
        Some((used, name, pid)) => Ok(format!(
            "{:.0} ({name}, pid {pid})",
            100.0 * used as f64 / ticks
        )),
    }
}

/// Periods in which a control group of this process had used up its quota.
fn throttled(root: &Root) -> Option<u64> {
    let mut facts = Facts::new(root);
    super::cgroup::describe(&mut facts);
    let items = facts.into_items();
    let item = items.iter().find(|i| i.name == "throttled_periods")?;
    item.value.as_ref()?.parse().ok()
}

/// What one read of the monotonic clock costs. With a slow clock source it is a system call.
fn clock_read_ns() -> f64 {
    let start = Instant::now();
    for _ in 0..CLOCK_READS {
        std::hint::black_box(Instant::now());
    }
    start.elapsed().as_nanos() as f64 / f64::from(CLOCK_READS)
}

/// How much later than asked a sleeping thread runs again, the 99th of a hundred.
fn sleep_overrun_us() -> f64 {
    let mut overruns: Vec<f64> = (0..SLEEPS)
        .map(|_| {
            let start = Instant::now();
            std::thread::sleep(SLEEP);
            (start.elapsed() - SLEEP).as_secs_f64() * 1e6
        })
        .collect();
    overruns.sort_by(f64::total_cmp);
    overruns[SLEEPS - 2]
}

/// Bytes per second of one TCP connection over loopback, written for `time`.
fn loopback(time: Duration) -> std::io::Result<f64> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let address = listener.local_addr()?;
    let reader = std::thread::spawn(move || -> std::io::Result<(u64, Duration)> {
        let (mut stream, _) = listener.accept()?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let (mut buffer, mut total, start) = (vec![0; CHUNK], 0, Instant::now());
        loop {
            match stream.read(&mut buffer)? {
                0 => return Ok((total, start.elapsed())),
                n => total += n as u64,
            }
        }
    });
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let (chunk, start) = (vec![0; CHUNK], Instant::now());
    while start.elapsed() < time {
        stream.write_all(&chunk)?;
    }
    drop(stream);
    let (bytes, took) = reader
        .join()
        .map_err(|_| std::io::Error::other("the reading thread has ended"))??;
    Ok(bytes as f64 / took.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_of_a_look() {
        let host = |cores: &[[f64; 8]]| {
            Ok(cpu::HostStat {
                cores: (0..).zip(cores.iter().copied()).collect(),
                ..cpu::HostStat::default()
            })
        };
        let root = Root::new("/nowhere");
        let mut facts = Facts::new(&root);
        let before = [[0.0; 8], [0.0; 8]];
        let after = [
            [50.0, 0.0, 0.0, 40.0, 0.0, 0.0, 5.0, 5.0],
            [0.0, 0.0, 0.0, 100.0, 0.0, 0.0, 0.0, 0.0],
        ];
        shares(&mut facts, host(&before), host(&after));
        let items = facts.into_items();
        let found: Vec<_> = items
            .iter()
            .map(|i| (i.name.as_str(), i.value.as_deref()))
            .collect();
        let expected = [
            ("busy_percent", Some("27.5")),
            ("busiest_core_percent", Some("55.0")),
            ("softirq_percent", Some("5.0")),
            ("steal_percent", Some("2.5")),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn the_busiest_process_is_named() {
        let of = |pid: i32, ticks: u64| (pid, (format!("p{pid}"), ticks));
        let before = BTreeMap::from([of(1, 100), of(2, 100)]);
        let after = BTreeMap::from([of(1, 110), of(2, 150), of(3, 20)]);
        assert_eq!(busiest(&before, &after, 100.0).unwrap(), "50 (p2, pid 2)");
        assert!(busiest(&before, &BTreeMap::new(), 100.0).is_err());
    }

    #[test]
    fn a_look_here_brings_every_fact_with_a_value_or_a_reason() {
        let items = look(&Root::default(), Duration::from_millis(50));
        assert!(items.len() >= 11, "{items:?}");
        for item in &items {
            assert!(item.value.is_some() != item.reason.is_some(), "{item:?}");
        }
        let rate = items
            .iter()
            .find(|i| i.name == "loopback_bytes_per_s")
            .unwrap();
        let rate: f64 = rate.value.as_ref().unwrap().parse().unwrap();
        assert!(rate > 0.0);
    }
}
