//! Benchmarks of parts: redis-benchmark and `openssl speed`.
//!
//! Neither is a load on the web server. The surprise is redis-benchmark's list below a test: its first line with 100 %
//! is its longest time, whatever stands behind.

use super::events::{artefact, told};
use super::hyperfine::is_mean;
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
        let signed = signatures(line).or_else(|| counted(line));
        if let Some((name, n)) = signed.or_else(|| of_bssl(line)) {
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

/// The name of a benchmark; one that is a number alone is a cell of a table, whose head names it.
fn named(above: &[&str], label: String) -> String {
    let head = above.iter().rev().find_map(|line| {
        let text = line.trim().strip_prefix('|')?;
        let cell = text.split('|').next()?.trim();
        cell.starts_with(char::is_alphabetic).then_some(cell)
    });
    match head.filter(|_| value(&label).is_some()) {
        Some(head) => format!("{head} {label}"),
        None => label,
    }
}

/// `Name-8  4.180m ± 0%  3.446m ± 8%  -17.57% (p=0.000 n=8)`, with or without bars between them: what
/// changed, and by how much.
fn benchstat(lines: &[&str]) -> Option<Artefact> {
    let mut found = artefact("benchstat", 0);
    // hyperfine's line names the deviation before the figures.
    let numbered = (1_u32..).zip(lines).filter(|(_, l)| !is_mean(l));
    for (number, line) in numbered {
        let bars = |w: &&str| !["|", "\u{2502}"].contains(w);
        let words: Vec<&str> = line.split_whitespace().filter(bars).collect();
        let marks: Vec<usize> = (1..words.len())
            .filter(|i| ["\u{b1}", "+/-"].contains(&words[*i]))
            .collect();
        let [first, second] = marks[..] else {
            continue;
        };
        let Some(behind) = words.get(second + 2..).filter(|b| !b.is_empty()) else {
            continue;
        };
        found.begin_at(number);
        found.add("benchstat.lines", 1.0);
        // A person's table may have more behind the percent: `+75%, ~1.75x`.
        let changes = behind.iter().filter_map(|word| {
            let word = word.trim_matches([',', ';', '(', ')', '~', '*']);
            Some((word, word.strip_suffix('%')?.parse::<f64>().ok()?))
        });
        if let Some((change, percent)) = changes.into_iter().next() {
            let label = words[..first - 1].join(" ");
            found.rows.push(Row {
                label: named(&lines[..number as usize - 1], label),
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

/// `Did 2158 RSA 2048 signing operations in 1004019us (2149.4 ops/sec)`, as BoringSSL and AWS-LC print it.
fn of_bssl(line: &str) -> Option<(String, f64)> {
    let (_, rest) = line.trim().strip_prefix("Did ")?.split_once(' ')?;
    let (name, rest) = rest.split_once(" operations in ")?;
    let (_, rate) = rest.split_once('(')?;
    let rate = value(rate.split_whitespace().next()?)?;
    let signs = name.contains("sign") || name.contains("private");
    signs.then(|| (name.to_owned(), rate))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signatures_of_other_libraries_are_read() {
        let text = "rsa 2048 bits 0.000181s 0.000012s 5513.3 82933.9\n\
            Did 300 ECDSA P-256 signing operations in 10000us (30000.0 ops/sec)\n\
            Did 150 RSA 4096 signing operations in 500000us (300.0 ops/sec)\n\
            Did 9 AES-128-GCM (16 bytes) seal operations in 9us (1000000.0 ops/sec)\n";
        let found = openssl(&text.lines().collect::<Vec<_>>()).unwrap();
        assert_eq!(found.value("speed.signs_per_s"), Some(300.0));
        assert_eq!(found.rows.len(), 3);
        assert_eq!(found.rows[0].label, "RSA 4096 signing");
    }

    #[test]
    fn a_table_of_a_person_has_bars_and_more_behind_the_percent() {
        let text = "| Columns | Before (ops/ms) | After (ops/ms) | Change |\n|---|---:|---:|---:|\n| 10 | 5.35 +/- 0.20 | 9.34 +/- 0.37 | +75%, ~1.75x |\n| 50 | 0.96 +/- 0.07 | 0.97 +/- 0.13 | ~ |\n";
        let found = benchstat(&text.lines().collect::<Vec<_>>()).unwrap();
        assert_eq!(found.value("benchstat.lines"), Some(2.0));
        assert_eq!(found.rows.len(), 1);
        assert_eq!(found.rows[0].label, "Columns 10");
        assert_eq!(found.rows[0].place, "5.35 -> 9.34 (+75%)");
        let plain = "Get-8  4.180m \u{b1} 0%  3.446m \u{b1} 8%  -17.57% (p=0.000 n=8)";
        let found = benchstat(&[plain]).unwrap();
        assert_eq!(found.rows[0].label, "Get-8");
        assert_eq!(found.rows[0].place, "4.180m -> 3.446m (-17.57%)");
    }
}
