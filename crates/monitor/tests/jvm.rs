//! A real JVM's counters; nothing is checked where there is no java.

#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

use monitor::{Watch, WatchConfig, Watched};
use record::Nanos;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Instant;

const PROGRAM: &str =
    "public class Garbage { public static void main(String[] a) throws Exception {
    long sum = 0; for (int i = 0; i < 4000; i++) sum += new byte[100000].length;
    System.gc(); System.out.println(sum); System.in.read(); } }";

#[test]
fn collections_and_heap_of_each_collector() {
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("Garbage.java");
    std::fs::write(&source, PROGRAM).unwrap();
    for collector in ["-XX:+UseSerialGC", "-XX:+UseParallelGC", "-XX:+UseG1GC"] {
        let started = Command::new("java")
            .args([collector, "-Xms64m", "-Xmx64m"])
            .arg(&source)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn();
        let Ok(mut java) = started else { return };
        let mut line = String::new();
        let mut output = BufReader::new(java.stdout.take().unwrap());
        output.read_line(&mut line).unwrap();
        let config = WatchConfig {
            targets: vec![Watched {
                target: "app".to_owned(),
                pids: vec![i32::try_from(java.id()).unwrap()],
            }],
            ..WatchConfig::default()
        };
        let began = Instant::now();
        let clock = Arc::new(move || Nanos(began.elapsed().as_nanos() as u64 + 1));
        let seen = Watch::start(&config, clock).stop();
        drop(java.stdin.take());
        java.wait().unwrap();
        let value = |signal: &str| {
            let found = seen.series.iter().find(|s| s.signal == signal);
            let found = found.unwrap_or_else(|| panic!("{signal}: {:?}", seen.unavailable));
            found.values[0]
        };
        // 400 MB went through a heap of 64 MB, and a whole collection was asked for.
        assert!(value("jvm.gc_count") >= 5.0, "{collector}");
        assert!(value("jvm.full_gc_count") >= 1.0, "{collector}");
        assert!((0.0001..60.0).contains(&value("jvm.gc_s")), "{collector}");
        let used = value("jvm.heap_used_bytes");
        assert!(used > 1e5 && used <= value("jvm.heap_capacity_bytes"));
        let most = value("jvm.heap_max_bytes");
        assert!((50e6..=67.2e6).contains(&most), "{collector}: {most}");
    }
}
