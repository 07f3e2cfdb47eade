//! Benchmarks of parts: redis-benchmark and `openssl speed`.
//!
//! Neither is a load on the web server. The surprise is redis-benchmark's list below a test: its first line with 100 %
//! is its longest time, whatever stands behind.

use super::events::{artefact, told};
use super::pieces::{pieces, seconds, value};
use record::pasted::{Artefact, Row};

/// All of them in a text.
pub(super) fn read(lines: &[&str]) -> Vec<Artefact> {
    let mut done = redis(lines);
    done.extend(openssl(lines));
    done.extend(benchstat(lines));
    done
}

/// `====== SET ======` and what follows, and `SET: 102040.82 requests per second, p50=0.255 msec`: an artefact a test.
fn redis(lines: &[&str]) -> Vec<Artefact> {
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

/// `rsa 2048 bits 0.000660s 0.000019s 1515.2 52631.6`: signatures a second of one core. Of a cipher the last column, in
/// thousands of bytes a second.
fn openssl(lines: &[&str]) -> Option<Artefact> {
    let mut found = artefact("openssl speed", 0);
    for (number, line) in (1_u32..).zip(lines) {
        if let Some((name, n)) = signatures(line).or_else(|| counted(line)) {
            found.begin_at(number);
            found.rows.push(Row::new(name, n));
            let one = found.value("speed.signs_per_s").unwrap_or(n);
            found.figures.insert("speed.signs_per_s".into(), one.min(n));
        } else if let Some((name, n)) = cipher(line) {
            found.begin_at(number);
            found.rows.push(Row::new(name, n));
            found.largest("speed.cipher_bytes_per_s", n * 1e3);
        }
    }
    // What costs most is the case.
    found.rows.sort_by(|a, b| a.share.total_cmp(&b.share));
    told(found)
}

/// `Name-8  4.180m ± 0%  3.446m ± 8%  -17.57% (p=0.000 n=8)`: what changed, and by how much.
fn benchstat(lines: &[&str]) -> Option<Artefact> {
    let mut found = artefact("benchstat", 0);
    for (number, line) in (1_u32..).zip(lines) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let marks: Vec<usize> = (1..words.len())
            .filter(|i| ["\u{b1}", "+/-"].contains(&words[*i]))
            .collect();
        let [first, second] = marks[..] else {
            continue;
        };
        let Some(change) = words.get(second + 2) else {
            continue;
        };
        found.begin_at(number);
        found.add("benchstat.lines", 1.0);
        let percent = change.strip_suffix('%').and_then(|c| c.parse::<f64>().ok());
        if let Some(percent) = percent {
            found.rows.push(Row {
                label: words[..first - 1].join(" "),
                place: format!("{} -> {} ({change})", words[first - 1], words[second - 1]),
                share: percent.abs(),
            });
        }
    }
    found.largest_first();
    let rows = found.rows.len() as f64;
    found.figures.insert("benchstat.rows".into(), rows);
    told(found)
}

/// Algorithms whose operations a handshake makes.
const KEYS: [&str; 8] = [
    "rsa", "dsa", "ecdsa", "ecdh", "eddsa", "ed25519", "x25519", "ffdh",
];

/// The name and the first of the rates behind the times.
fn signatures(line: &str) -> Option<(String, f64)> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let lower = line.to_ascii_lowercase();
    let key = lower.contains(" bits ") && KEYS.iter().any(|k| lower.contains(k));
    let time = |w: &&str| w.ends_with('s') && seconds(w).is_some();
    let first = words.iter().position(time).filter(|_| key)?;
    let times = words[first..].iter().take_while(|w| time(w)).count();
    let rate = words.get(first + times)?;
    Some((words[..first].join(" "), value(rate)?))
}

/// `Doing 2048 bits private rsa's for 10s: 15152 2048 bits private RSA's in 9.99s`.
fn counted(line: &str) -> Option<(String, f64)> {
    let (name, rest) = line.trim().strip_prefix("Doing ")?.split_once(" for ")?;
    let (_, rest) = rest.split_once(": ")?;
    let n = value(rest.split_whitespace().next()?)?;
    let took = seconds(rest.rsplit(' ').next()?)?;
    let signs = name.contains("private") || name.contains("sign");
    (signs && took > 0.0).then(|| (name.to_owned(), n / took))
}

/// `aes-256-gcm 301234.12k 812345.00k ...`, a column a size of block.
fn cipher(line: &str) -> Option<(String, f64)> {
    let words = pieces(line);
    let numbers = words.iter().rev().map_while(|w| {
        let n: f64 = w.text.strip_suffix('k')?.parse().ok()?;
        w.text.contains('.').then_some(n)
    });
    let numbers: Vec<f64> = numbers.collect();
    let name: Vec<&str> = words[..words.len() - numbers.len()]
        .iter()
        .map(|w| w.text)
        .collect();
    let named = numbers.len() >= 3 && matches!(name.len(), 1..=3);
    Some((name.join(" "), *numbers.first()?)).filter(|_| named)
}
