//! Statuses of responses: as generators count them, as a loop of curl prints them, and heads of responses with their
//! lines.
//!
//! All become counts by status. The surprise is curl's `-v`: it shows the request's lines in the same form, which say
//! nothing of the server, so that a head begins with its status and ends at a blank line or at the next request.

use super::events::{artefact, told};
use super::pieces::{pieces, value};
use record::pasted::{Artefact, Row};

/// All of them in a text. Where only errors are listed, nothing is said of all.
pub(super) fn read(lines: &[&str]) -> Vec<Artefact> {
    let mut done = Vec::new();
    done.extend(counted(lines));
    done.extend(heads(lines));
    done.extend(heads_of_a_cache(lines));
    done
}

fn put(found: &mut Artefact, status: u16, n: f64, all: bool) {
    found.add(&format!("status.{status}"), n);
    found.add(&format!("status.{}xx", status / 100), n);
    if all {
        found.add("status.all", n);
    }
    found.rows.push(Row::new(status.to_string(), n));
}

fn status(text: &str) -> Option<u16> {
    let three = text.len() == 3 && text.bytes().all(|b| b.is_ascii_digit());
    let n: u16 = text.parse().ok().filter(|_| three)?;
    (100..600).contains(&n).then_some(n)
}

/// Statuses with their counts, in the words of whoever counts.
fn counted(lines: &[&str]) -> Option<Artefact> {
    let mut found = artefact("counts of statuses", 0);
    let bare = lines
        .iter()
        .any(|l| l.contains("http_code") || l.contains("response_code"));
    let mut listed = false;
    for (number, line) in (1_u32..).zip(lines) {
        let words: Vec<&str> = pieces(line).iter().map(|p| p.text).collect();
        let pairs = match () {
            () if line.contains("code:count") => coded(line),
            () => one(line, &words, listed, bare).into_iter().collect(),
        };
        listed = words.as_slice() == ["Codes"] || listed && !pairs.is_empty();
        for (status, n) in pairs {
            found.begin_at(number);
            // Gatling and locust list errors alone.
            put(
                &mut found,
                status,
                n,
                !line.contains("found ") && !line.contains(" Error"),
            );
        }
    }
    found.settle();
    told(found)
}

/// vegeta: `Status Codes [code:count] 200:160 429:441`.
fn coded(line: &str) -> Vec<(u16, f64)> {
    let pairs = line.split_whitespace().filter_map(|w| {
        let (code, n) = w.split_once(':')?;
        Some((status(code)?, n.parse().ok()?))
    });
    pairs.collect()
}

/// A line that counts one status.
fn one(line: &str, words: &[&str], listed: bool, bare: bool) -> Option<(u16, f64)> {
    let n = |text: &str| value(text).filter(|n| *n >= 1.0);
    match words {
        // hey and oha.
        [code, count, "responses"] if line.trim_start().starts_with('[') => {
            Some((status(code)?, n(count)?))
        }
        // artillery, with its dots before the number, and its older list.
        [name, .., count] if name.starts_with("http.codes.") => {
            Some((status(name.trim_start_matches("http.codes."))?, n(count)?))
        }
        [code, count] if listed => Some((status(code)?, n(count)?)),
        // `-w '%{http_code}'` in a loop, as it is and counted by uniq.
        [code] if bare => Some((status(code)?, 1.0)),
        [count, code] if bare => Some((status(code)?, n(count)?)),
        _ => {
            // Gatling: `status.find.is(200), but actually found 503   100 (100.0%)`.
            if let Some(at) = words.iter().position(|w| *w == "found") {
                return Some((status(words.get(at + 1)?)?, n(words.get(at + 2)?)?));
            }
            // locust: `441 GET /: HTTPError('429 Client Error: ...')`.
            let at = words
                .windows(2)
                .position(|w| w[1] == "Error" && ["Client", "Server"].contains(&w[0]))?;
            let code = status(words.get(at.checked_sub(1)?)?)?;
            Some((code, words.first().and_then(|w| n(w)).unwrap_or(1.0)))
        }
    }
}

/// Heads of responses, the lines of which count each.
fn heads(lines: &[&str]) -> Option<Artefact> {
    let mut found = artefact("heads of responses", 0);
    let mut open = false;
    for (number, line) in (1_u32..).zip(lines) {
        let line = line.trim_start_matches(['<', '*', ' ']).trim();
        if let Some((code, rest)) = status_line(line) {
            // A proxy's own response to CONNECT, and what only says that the body may come.
            open = code >= 200 && !rest.contains("onnection established");
            if open {
                found.begin_at(number);
                put(&mut found, code, 1.0, true);
            }
            continue;
        }
        open &= !line.is_empty() && !line.contains(" HTTP/");
        if let Some((name, content)) = line.split_once(':').filter(|_| open) {
            head(
                &mut found,
                &name.trim().to_ascii_lowercase(),
                content.trim(),
            );
        }
    }
    found.settle();
    told(found)
}

/// `HTTP/1.1 429 Too Many Requests`, `HTTP/2 200`: a line of a text, which is no message of HTTP/1.
fn status_line(line: &str) -> Option<(u16, &str)> {
    let (name, rest) = line.split_once('/')?;
    let (version, rest) = rest.split_once(' ')?;
    let version = name == "HTTP" && version.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    let rest = rest.trim_start();
    let (code, rest) = rest.split_once(' ').unwrap_or((rest, ""));
    Some((status(code)?, rest)).filter(|_| version)
}

/// Heads in which a cache says whether it had the response: `X-Cache`, `CF-Cache-Status`, `Cache-Status`.
fn of_a_cache(name: &str) -> bool {
    name == "cache-status"
        || name.starts_with("x-") && name.contains("cache") && !name.contains("control")
        || name.ends_with("-cache-status")
}

/// Names of heads by which a list of heads is known where no space stands behind the colon.
const NAMES: [&str; 20] = [
    "accept-ranges",
    "age",
    "cache-control",
    "cf-cache-status",
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "date",
    "etag",
    "expires",
    "last-modified",
    "location",
    "pragma",
    "server",
    "set-cookie",
    "strict-transport-security",
    "transfer-encoding",
    "vary",
    "via",
];

/// A head of a response: its line, its name in small letters, what it says.
type Head = (u32, String, String);

/// Heads that stand alone, as curl and browsers list them: `Age: 7`, `age:7`, and the name above its content.
fn list_of_heads(lines: &[&str]) -> Vec<Head> {
    let known = |name: &str| NAMES.contains(&name) || of_a_cache(name);
    let mut found: Vec<Head> = Vec::new();
    let mut above: Option<String> = None;
    for (number, line) in (1_u32..).zip(lines) {
        let line = line.trim_start_matches(['<', '*', ' ']).trim();
        if let Some(name) = above.take().filter(|_| !line.is_empty()) {
            found.push((number, name, line.to_owned()));
            continue;
        }
        let Some((name, content)) = line.split_once(':') else {
            continue;
        };
        let token = |c: char| c.is_ascii_alphanumeric() || c == '-';
        let name = name.to_ascii_lowercase();
        if name.len() <= 2 || !name.chars().all(token) {
            continue;
        }
        match content {
            "" if known(&name) => above = Some(name),
            content if content.starts_with(' ') || known(&name) => {
                found.push((number, name, content.trim().to_owned()));
            }
            // Beside those that are known others stand alike.
            content if name.contains('-') || name == "status" => {
                found.push((number, name, content.to_owned()));
            }
            _ => {}
        }
    }
    found
}

/// Seconds behind a word of `Cache-Control`.
fn seconds_of(content: &str, name: &str) -> Option<f64> {
    let mut words = content.split([',', ' ', ';']);
    words.find_map(|w| w.trim().strip_prefix(name)?.strip_prefix('=')?.parse().ok())
}

/// What a cache says in heads that stand alone, without the line of the status.
fn heads_of_a_cache(lines: &[&str]) -> Option<Artefact> {
    let filled = lines.iter().filter(|l| !l.trim().is_empty()).count();
    let named = list_of_heads(lines);
    let status = lines.iter().any(|l| status_line(l.trim()).is_some());
    if status || named.len() * 2 < filled {
        return None;
    }
    let mut found = artefact("heads of a cache", 0);
    for (number, name, content) in &named {
        let telling = ["age", "vary", "cache-control"].contains(&name.as_str());
        if !of_a_cache(name) && !telling && !name.ends_with("-vary") {
            continue;
        }
        found.begin_at(*number);
        if of_a_cache(name) {
            let hit = content.to_ascii_lowercase().contains("hit");
            found.add("cacheheads.hits", f64::from(u8::from(hit)));
            found.add("cacheheads.rows", 1.0);
        }
        let uncached = ["no-store", "no-cache", "private", "max-age=0"];
        let (figure, n) = match name.as_str() {
            "age" => ("age_s", content.parse().ok()),
            "cache-control" if uncached.iter().any(|w| content.contains(w)) => {
                ("uncached", Some(1.0))
            }
            "cache-control" => ("max_age_s", seconds_of(content, "max-age")),
            _ => ("", None),
        };
        if let Some(n) = n {
            found.figures.insert(format!("cacheheads.{figure}"), n);
        }
        let line = lines[*number as usize - 1].trim();
        // Where the content stands below its name both are told.
        let label = match line.contains(':')
            && line.contains(content.as_str())
            && line.len() > content.len()
        {
            true => line.to_owned(),
            false => format!("{name}: {content}"),
        };
        found.rows.push(Row::new(super::pieces::short(&label), 1.0));
    }
    let of = |name: &str| found.value(&format!("cacheheads.{name}"));
    let beyond = of("age_s")
        .zip(of("max_age_s"))
        .is_some_and(|(age, max)| age > max && max > 0.0);
    let told_by = of("rows").is_some() || beyond || of("uncached").is_some();
    found
        .figures
        .insert("cacheheads.beyond".into(), f64::from(u8::from(beyond)));
    found.figures.entry("cacheheads.rows".into()).or_insert(0.0);
    told(found).filter(|_| told_by)
}

fn head(found: &mut Artefact, name: &str, content: &str) {
    let lower = content.to_ascii_lowercase();
    let has = |words: &[&str]| words.iter().any(|w| lower.contains(w));
    match name {
        "connection" if has(&["close"]) => found.add("heads.close", 1.0),
        "set-cookie" => found.add("heads.cookies", 1.0),
        "cache-control" if has(&["no-store", "private", "no-cache", "max-age=0"]) => {
            found.add("heads.uncached", 1.0);
        }
        "cache-control" => found.add("heads.cached", 1.0),
        "vary" if has(&["*", "cookie", "user-agent"]) => found.add("heads.varied", 1.0),
        name if of_a_cache(name) => {
            let kind = match has(&["hit"]) {
                true => "heads.hits",
                false => "heads.misses",
            };
            found.add(kind, 1.0);
        }
        "age" => {
            if let Some(age) = value(content) {
                found.largest("heads.age_s", age);
            }
        }
        "retry-after" => {
            if let Some(after) = value(content) {
                found.largest("heads.retry_after_s", after);
            }
        }
        "x-ratelimit-remaining" | "ratelimit-remaining" | "x-rate-limit-remaining" => {
            if let Some(left) = value(content) {
                found.smallest("heads.limit_left", left);
            }
        }
        _ => {}
    }
}
