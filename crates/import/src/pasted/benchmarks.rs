//! Benchmarks of parts: redis-benchmark.
//!
//! It is no load on the web server. The surprise is redis-benchmark's list below a test: its first line with 100 %
//! is its longest time, whatever stands behind.

use super::events::artefact;
use super::pieces::value;
use record::pasted::{Artefact, Row};

/// `====== SET ======` and what follows, and `SET: 102040.82 requests per second, p50=0.255 msec`: an artefact a test.
pub(super) fn read(lines: &[&str]) -> Vec<Artefact> {
    let mut done: Vec<Artefact> = Vec::new();
    let mut columns = false;
    for (number, line) in (1_u32..).zip(lines) {
        let text = line.trim();
        let begun = |name: &str| {
            let mut found = artefact("redis-benchmark", number);
            found.rows.push(Row::new(name, 1.0));
            found
        };
        if let Some((name, rest)) = text.split_once(": ")
            && let Some((rate, rest)) = rest.split_once(" requests per second")
            && let Some(rate) = value(rate)
        {
            let mut found = match done.pop_if(|a| a.value("load.rate_per_s").is_none()) {
                Some(open) => open,
                None => begun(name),
            };
            found.figures.insert("load.rate_per_s".into(), rate);
            let p50 = rest
                .split_once("p50=")
                .and_then(|(_, p)| p.split(' ').next()?.parse().ok());
            found
                .figures
                .extend(p50.map(|ms| ("load.p50_ms".to_owned(), ms)));
            done.push(found);
            continue;
        }
        if let Some(name) = text
            .strip_prefix("====== ")
            .and_then(|t| t.strip_suffix(" ======"))
        {
            done.push(begun(name));
            continue;
        }
        let Some(open) = done.last_mut() else {
            continue;
        };
        let words: Vec<&str> = text.split_whitespace().collect();
        let put = match words.as_slice() {
            [n, "requests", "completed", "in", took, ..] => {
                put(open, "load.requests", value(n));
                ("redis.test_s", value(took))
            }
            [n, "parallel", "clients"] => ("load.connections", value(n)),
            [n, "bytes", "payload"] => ("redis.payload_bytes", value(n)),
            [n, "requests", "per", "second"] => ("load.rate_per_s", value(n)),
            [share, "<=", ms, "milliseconds", ..] => {
                let most = (*share == "100.00%" || *share == "100.000%")
                    && open.value("load.max_ms").is_none();
                ("load.max_ms", value(ms).filter(|_| most))
            }
            ["avg", "min", "p50", "p95", "p99", "max"] => {
                columns = true;
                continue;
            }
            [_, _, p50, _, p99, most] if columns => {
                columns = false;
                put(open, "load.p50_ms", value(p50));
                put(open, "load.p99_ms", value(p99));
                ("load.max_ms", value(most))
            }
            _ => continue,
        };
        self::put(open, put.0, put.1);
    }
    // A single request's time is the test's.
    for test in &mut done {
        let one = test.value("load.requests") == Some(1.0);
        let took = test.value("redis.test_s").filter(|_| one);
        put(test, "load.mean_ms", took.map(|s| s * 1e3));
    }
    done.retain(|a| !a.figures.is_empty());
    for test in &mut done {
        put(test, "redis.benchmark", Some(1.0));
    }
    done
}

fn put(found: &mut Artefact, name: &str, n: Option<f64>) {
    if let Some(n) = n {
        found.figures.insert(name.to_owned(), n);
    }
}
