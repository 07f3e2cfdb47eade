//! One event a line, with a time: access logs, GC logs, calls of strace with their duration.
//!
//! Each kind has a function that reads one line; what they share is the walk and the summary: how many, how much of
//! the window, the longest, the 99th percentile. The surprise of access logs is that their times have no names: a
//! number behind the quotes is a request's time only if it has a point and is no version, and the next one is the
//! upstream's.

use super::pieces::{by_sixties, is_in_number, seconds};
use super::requests::{self, Request};
use super::retries;
use record::pasted::{Artefact, Row};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// All of them in a text.
pub(super) fn read(lines: &[&str]) -> Vec<Artefact> {
    let mut done = Vec::new();
    done.extend(access_log(lines));
    done.extend(retries::read(lines));
    done.extend(haproxy_log(lines));
    done.extend(collections(lines));
    done.extend(calls(lines));
    done.extend(histograms(lines));
    done
}

pub(super) fn artefact(tool: &str, line: u32) -> Artefact {
    Artefact {
        tool: tool.to_owned(),
        line,
        ..Artefact::default()
    }
}

/// What was found, if anything was.
pub(super) fn told(found: Artefact) -> Option<Artefact> {
    (found.line > 0).then_some(found)
}

/// `label: place` of each row.
#[cfg(test)]
pub(super) fn written(found: &Artefact) -> Vec<String> {
    let rows = found.rows.iter();
    rows.map(|row| format!("{}: {}", row.label, row.place))
        .collect()
}

/// The value that a share of the sorted ones stays below.
fn quantile(sorted: &[f64], share: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    sorted.get((last as f64 * share).round() as usize).copied()
}

fn spread(artefact: &mut Artefact, name: &str, mut values: Vec<f64>) {
    values.sort_by(f64::total_cmp);
    for (which, share) in [("p50", 0.5), ("p99", 0.99), ("max", 1.0)] {
        if let Some(value) = quantile(&values, share) {
            artefact.figures.insert(format!("{name}_{which}_s"), value);
        }
    }
}

/// The status with which a connection becomes a WebSocket's or another protocol's (RFC 9110 15.2.2).
const SWITCHED: u16 = 101;

/// `"GET /x HTTP/1.1" 200 512 "-" "agent" 0.123 0.120` and its kin.
fn access_log(lines: &[&str]) -> Option<Artefact> {
    let mut found = artefact("access log", 0);
    let (mut requests, mut upstreams) = (Vec::new(), Vec::new());
    // Seconds of the requests whose upstream's seconds are told too.
    let mut proxied_s = 0.0;
    let mut columns = None;
    for (number, line) in (1_u32..).zip(lines) {
        columns = requests::columns(line).or(columns);
        let by_columns = || requests::by_columns(columns.as_ref()?, line);
        let Some(request) = by_columns().or_else(|| request(line)) else {
            continue;
        };
        found.begin_at(number);
        found.add("access.requests", 1.0);
        let status = request.status;
        found.add(&format!("access.status_{}xx", status / 100), 1.0);
        found.add(&format!("access.status_{status}"), 1.0);
        // Its time is that for which the connection was open.
        if status == SWITCHED {
            found.add("access.switched", 1.0);
            found.largest("access.switched_max_s", request.took_s.unwrap_or(0.0));
            continue;
        }
        requests.extend(request.took_s);
        if let (Some(took), Some(upstream)) = (request.took_s, request.upstream_s) {
            proxied_s += took;
            upstreams.push(upstream);
        }
        let slow = request.took_s.unwrap_or(0.0);
        found.rows.push(Row::new(request.path, slow));
    }
    let n = found.value("access.requests")?;
    if found.value("access.status_499").is_none() {
        found.figures.insert("access.status_499".into(), 0.0);
    }
    let answered = n - found.value("access.switched").unwrap_or(0.0);
    if answered > 0.0 {
        let timed = requests.len() as f64 / answered;
        found.figures.insert("access.timed".into(), timed);
    }
    if !upstreams.is_empty() {
        let of: f64 = upstreams.iter().sum();
        if proxied_s > 0.0 {
            found
                .figures
                .insert("access.upstream_share".into(), of / proxied_s);
        }
        spread(&mut found, "access.upstream", upstreams);
    }
    spread(&mut found, "access.request", requests);
    found.rows.retain(|r| r.share > 0.0);
    found.settle();
    Some(found)
}

/// A request by its line in the combined form or its kin, or in another one.
fn request(line: &str) -> Option<Request> {
    let Some((path, status, rest)) = access_line(line) else {
        return requests::read_line(line);
    };
    let (took_s, upstream_s) = match requests::flags(rest) {
        Some((_, took, upstream)) => (took, upstream),
        None if named_time(rest, &TOOK).is_some() => {
            (named_time(rest, &TOOK), named_time(rest, &UPSTREAM))
        }
        None => {
            let times = times_of(rest);
            // Traefik ends with its time in ms.
            let last = rest.split_whitespace().last();
            let traefik = || seconds(last.filter(|w| w.ends_with("ms"))?);
            (
                times.first().copied().or_else(traefik),
                times.get(1).copied(),
            )
        }
    };
    Some(Request {
        path: path.to_owned(),
        status,
        took_s,
        upstream_s,
    })
}

/// The path, the status, and what stands behind.
fn access_line(line: &str) -> Option<(&str, u16, &str)> {
    let at = line.find(" HTTP/")?;
    let before = &line[..at];
    let open = before.rfind('"')?;
    let (method, path) = before[open + 1..].split_once(' ')?;
    if method.is_empty() || !method.bytes().all(|b| b.is_ascii_uppercase()) {
        return None;
    }
    let (_, rest) = line[at..].split_once('"')?;
    let status: u16 = rest.split_whitespace().next()?.parse().ok()?;
    // Envoy has 0 where the client went away before there was one.
    let known = (100..600).contains(&status) || status == 0 && requests::flags(rest).is_some();
    known.then_some((path, status, rest))
}

/// Names of the whole time and of the upstream's, as people write them into nginx' log_format.
const TOOK: [&str; 3] = ["rt=", "request_time=", "request_time:"];
const UPSTREAM: [&str; 4] = [
    "urt=",
    "upstream_response_time=",
    "upstream_response_time:",
    "upstream_time=",
];

/// `rt=12.412 uct="0.001" urt="0.1, 12.4"`: the time of that name, of several upstreams their sum.
fn named_time(rest: &str, names: &[&str]) -> Option<f64> {
    let behind = |name: &&str| {
        let at = rest.match_indices(*name).map(|(at, _)| at).find(|at| {
            let before = rest[..*at].chars().next_back();
            before.is_none_or(|c| !c.is_ascii_alphanumeric() && c != '_')
        })?;
        Some(rest[at + name.len()..].trim_start())
    };
    let text = names.iter().find_map(behind)?;
    let text = match text.strip_prefix('"') {
        Some(quoted) => quoted.split('"').next()?,
        None => text.split_whitespace().next()?,
    };
    let parts = text.split([',', ':']).map(|p| p.trim().parse::<f64>());
    parts.sum::<Result<f64, _>>().ok()
}

/// Times behind the request: plain numbers with a point, or named ones; quoted text is passed over.
fn times_of(rest: &str) -> Vec<f64> {
    let outside: String = rest
        .split('"')
        .enumerate()
        .filter(|(i, part)| i % 2 == 0 || part.parse::<f64>().is_ok())
        .map(|(_, part)| part)
        .collect::<Vec<_>>()
        .join(" ");
    let time = |word: &str| {
        let word = word.trim_matches(['[', ']', ',', '"']);
        let plain = word.rsplit(['=', ':']).next().unwrap_or(word);
        let decimal = plain.contains('.') && plain.matches('.').count() == 1;
        plain
            .parse::<f64>()
            .ok()
            .filter(|n| decimal && *n < 86_400.0)
    };
    outside.split_whitespace().filter_map(time).collect()
}

/// HAProxy: `... backend/server 10/0/30/69/109 200 2750 - - ---- 1/1/1/1/0 0/0`: TR, Tw, Tc, Tr, Ta in ms.
fn haproxy_log(lines: &[&str]) -> Option<Artefact> {
    let mut found = artefact("HAProxy log", 0);
    let mut sums: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    let mut all = Vec::new();
    for (number, line) in (1_u32..).zip(lines) {
        let Some((timers, status, flags)) = haproxy_line(line) else {
            continue;
        };
        found.begin_at(number);
        found.add("access.requests", 1.0);
        found.add(&format!("access.status_{}xx", status / 100), 1.0);
        if status == SWITCHED {
            found.add("access.switched", 1.0);
            found.largest("access.switched_max_s", timers[4].max(0.0) / 1e3);
            continue;
        }
        if let Some(first) = flags.chars().next().filter(|c| *c != '-') {
            let second = flags.chars().nth(1).unwrap_or('-');
            found.add(&format!("haproxy.ended_{first}{second}"), 1.0);
        }
        for (name, ms) in ["request", "queue", "connect", "response"]
            .iter()
            .zip(timers)
        {
            if ms >= 0.0 {
                sums.entry(name).or_default().push(ms / 1e3);
            }
        }
        if timers[4] >= 0.0 {
            all.push(timers[4] / 1e3);
        }
    }
    if found.line == 0 {
        return None;
    }
    let total: f64 = all.iter().sum();
    for (name, values) in sums {
        let sum: f64 = values.iter().sum();
        if total > 0.0 {
            found.rows.push(Row::new(name.to_owned(), sum / total));
            found
                .figures
                .insert(format!("haproxy.{name}_share"), sum / total);
        }
        spread(&mut found, &format!("haproxy.{name}"), values);
    }
    spread(&mut found, "access.request", all);
    found.settle();
    Some(found)
}

fn haproxy_line(line: &str) -> Option<([f64; 5], u16, &str)> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let at = words
        .iter()
        .position(|w| w.matches('/').count() == 4 && timers(w).is_some())?;
    let status: u16 = words.get(at + 1)?.parse().ok()?;
    let rest = words.get(at + 2..)?;
    let flags = rest
        .iter()
        .find(|w| w.len() == 4 && w.chars().all(|c| c == '-' || c.is_ascii_alphabetic()));
    // A format of one's own may leave the state out: the connections behind it tell that it is HAProxy's.
    let connections = || rest.iter().any(|w| timers(w).is_some());
    let flags = flags.copied().or_else(|| connections().then_some("----"))?;
    Some((timers(words[at])?, status, flags))
}

fn timers(word: &str) -> Option<[f64; 5]> {
    let parts: Option<Vec<f64>> = word
        .split('/')
        .map(|p| p.trim_start_matches('+').parse().ok())
        .collect();
    parts?.try_into().ok()
}

/// Pauses of the JVM, old and unified logs, and Go's gctrace.
fn collections(lines: &[&str]) -> Vec<Artefact> {
    let mut jvm = artefact("GC log", 0);
    let mut go = artefact("Go GC trace", 0);
    let mut pauses = Vec::new();
    let mut times: Vec<f64> = Vec::new();
    let mut full = Vec::new();
    let mut told: Vec<Row> = Vec::new();
    for (number, line) in (1_u32..).zip(lines) {
        let line = &*with_points(line);
        if let Some((figure, n)) = collector_event(line) {
            jvm.begin_at(number);
            jvm.add(figure, 1.0);
            if let Some(s) = n {
                jvm.largest("gc.stall_max_s", s);
            }
        }
        if let Some(found) = in_elasticsearch(line) {
            jvm.begin_at(number);
            jvm.add("gc.collections", found.collections);
            told.push(Row::new(
                super::pieces::short(found.text),
                found.longest + f64::from(u8::from(found.old)) * 1e6,
            ));
            if found.old {
                full.push(found.longest);
                jvm.largest("gc.heap_used_after_full", found.used_after);
            }
            jvm.largest("gc.overhead_share", found.share);
            jvm.largest("gc.heap_used_after", found.used_after);
            if found.longest > 0.0 {
                pauses.push(found.longest);
            }
        } else if let Some((pause, is_full)) = jvm_pause(line) {
            jvm.begin_at(number);
            jvm.add("gc.collections", 1.0);
            jvm.add("gc.mode_failures", f64::from(u8::from(mode_failed(line))));
            if is_full {
                full.push(pause);
            }
            // Full collections first, and of the same the longest.
            told.push(Row::new(
                described(line),
                pause + f64::from(u8::from(is_full)) * 1e6,
            ));
            pauses.push(pause);
            if let Some((after, whole)) = heap_after(&without_classes(line)) {
                jvm.largest("gc.heap_used_after", after / whole);
                if is_full {
                    jvm.largest("gc.heap_used_after_full", after / whole);
                }
            }
            if is_full {
                if let Some((after, whole)) = generation_after(line) {
                    jvm.largest("gc.classes_used_share", after / whole);
                }
                let started = CLASSES_STARTED.iter().any(|c| line.contains(c));
                jvm.add("gc.full_for_classes", f64::from(u8::from(started)));
            }
            times.extend(uptime(line));
        } else if let Some((share, procs)) = go_trace(line) {
            go.begin_at(number);
            go.add("gc.collections", 1.0);
            go.largest("gc.cpu_share", share);
            if let Some(procs) = procs {
                go.largest("go.procs", procs);
            }
            times.extend(uptime(line));
        }
    }
    let window = times.iter().copied().reduce(f64::max).unwrap_or(0.0)
        - times.iter().copied().reduce(f64::min).unwrap_or(0.0);
    let mut done = Vec::new();
    if jvm.line > 0 {
        let sum: f64 = pauses.iter().sum();
        if window > 0.0 {
            // The first pause stands before the window.
            let within = sum - pauses.first().copied().unwrap_or(0.0);
            jvm.figures
                .insert("gc.paused_share".into(), (within / window).min(1.0));
        }
        let begun = jvm.value("gc.full_begun").unwrap_or(0.0);
        let all = begun.max(full.len() as f64);
        jvm.figures.insert("gc.full".into(), all);
        for name in ["humongous", "to_space", "stalls", "humongous_regions"] {
            jvm.figures.entry(format!("gc.{name}")).or_insert(0.0);
        }
        told.sort_by(|a, b| b.share.total_cmp(&a.share));
        told.truncate(3);
        for row in &mut told {
            row.share %= 1e6;
        }
        jvm.rows = told;
        jvm.figures
            .insert("gc.full_seconds".into(), full.iter().sum());
        spread(&mut jvm, "gc.pause", pauses);
        done.push(jvm);
    }
    if go.line > 0 {
        if window > 0.0 {
            let n = go.value("gc.collections").unwrap_or(0.0) - 1.0;
            go.figures.insert("gc.per_s".into(), n / window);
        }
        done.push(go);
    }
    done
}

/// A line of Elasticsearch's (and OpenSearch's) watcher of the collector.
struct Watched<'a> {
    text: &'a str,
    old: bool,
    collections: f64,
    longest: f64,
    /// Of the time that it looked at.
    share: f64,
    used_after: f64,
}

/// `[gc][old][86562][4] duration [47.6s], collections [2]/[48.9s], total [47.6s]/[48s], memory
/// [29.6gb]->[26.3gb]/[31gb], ...`, and `[gc][86562] overhead, spent [334ms] collecting in the last [1.3s]`, which
/// stands alone where collections are many and short.
fn in_elasticsearch(line: &str) -> Option<Watched<'_>> {
    let text = &line[line.find("[gc][")?..];
    let inside = |mark: &str| {
        let (_, behind) = text.split_once(mark)?;
        behind.split_once(']').map(|(inner, _)| inner)
    };
    if let Some(spent) = inside("spent [").and_then(seconds) {
        let of = inside("in the last [").and_then(seconds)?;
        return Some(Watched {
            text,
            old: false,
            collections: 0.0,
            longest: 0.0,
            share: (spent / of).min(1.0),
            used_after: 0.0,
        });
    }
    let took = inside("duration [").and_then(seconds)?;
    let collections: f64 = inside("collections [")?.parse().ok()?;
    let size = |text: &str| super::pieces::value(&text.to_ascii_uppercase());
    let memory = text.split_once("memory [").map_or("", |(_, memory)| memory);
    let of_memory = |mark: &str| {
        let (_, behind) = memory.split_once(mark)?;
        size(behind.split(']').next()?)
    };
    let used_after = of_memory("->[").zip(of_memory("]/["));
    Some(Watched {
        text,
        old: text.starts_with("[gc][old]"),
        collections,
        longest: took,
        share: 0.0,
        used_after: used_after.map_or(0.0, |(used, whole)| used / whole),
    })
}

/// Words of a full collection that the space of classes started.
const CLASSES_STARTED: [&str; 3] = [
    "Metadata GC Threshold",
    "Metadata GC Clear Soft References",
    "Last ditch collection",
];
/// Names of the space of classes where it has a limit that is its own; Metaspace's size in brackets is address space.
const CLASSES: [&str; 4] = ["[PSPermGen", "[CMS Perm", "[Perm", "[Metaspace"];

/// A line of a GC log with decimal points: a locale may write `0,2459160 secs`, and no number of it is grouped.
fn with_points(line: &str) -> Cow<'_, str> {
    let of_gc = ["[GC", "[Full GC", "GC(", "[gc", "secs]"];
    if !line.contains(',') || !of_gc.iter().any(|w| line.contains(w)) {
        return Cow::Borrowed(line);
    }
    let pointed = line.char_indices().map(|(at, c)| match c {
        ',' if is_in_number(line, at) => '.',
        c => c,
    });
    Cow::Owned(pointed.collect())
}

/// The permanent generation behind a collection: used, and all.
fn generation_after(line: &str) -> Option<(f64, f64)> {
    let at = CLASSES[..3].iter().find_map(|c| line.find(c))?;
    heap_after(line[at + 1..].split(']').next()?)
}

/// A line without the space of classes.
fn without_classes(line: &str) -> Cow<'_, str> {
    let Some(at) = CLASSES.iter().find_map(|c| line.find(c)) else {
        return Cow::Borrowed(line);
    };
    let rest = line[at..].split_once(']').map_or("", |(_, rest)| rest);
    Cow::Owned(format!("{}{rest}", &line[..at]))
}

/// What a line of a GC log says beside pauses: its figure, and a time.
fn collector_event(line: &str) -> Option<(&'static str, Option<f64>)> {
    let of_gc = line.contains("GC(")
        || line.contains("[gc")
        || line.contains("[GC")
        || line.contains("[Full GC");
    if let Some((_, rest)) = line.split_once("Allocation Stall (").filter(|_| of_gc) {
        let took = rest.split_whitespace().last().and_then(seconds);
        // A cause in brackets of a collection is none of a thread.
        return took.map(|s| ("gc.stalls", Some(s)));
    }
    let found = match () {
        () if !of_gc => return None,
        () if line.contains("o-space exhausted") || line.contains("to-space overflow") => {
            "gc.to_space"
        }
        () if line.contains("Humongous regions:") => "gc.humongous_regions",
        // The same collection is told at its start and at its end.
        () if line.contains("Pause Full") && jvm_pause(line).is_none() => "gc.full_begun",
        () if line.contains("Humongous Allocation") && !line.contains(",start") => "gc.humongous",
        () if line.contains("Degenerated GC") => "gc.degenerated",
        () if line.contains("Eden regions:") || line.contains("Old regions:") => "gc.region_lines",
        () => return None,
    };
    Some((found, None))
}

/// A pause in the log's own words, from its kind to the heap: `Pause Full (G1 Humongous Allocation) 381M->381M(512M)`.
fn described(line: &str) -> String {
    let from = ["Pause ", "Full GC", "GC ("]
        .iter()
        .filter_map(|k| line.find(k))
        .min();
    let text = &line[from.unwrap_or(0)..];
    let text = text.split(" [PS").next().unwrap_or(text);
    let words: Vec<&str> = text.split_whitespace().collect();
    let until = words
        .iter()
        .position(|w| w.contains("->"))
        .map_or(words.len(), |at| at + 1);
    super::pieces::short(&words[..until].join(" "))
}

/// A pause in s and whether it is a full collection.
fn jvm_pause(line: &str) -> Option<(f64, bool)> {
    let full = line.contains("Full GC") || line.contains("Pause Full") || mode_failed(line);
    // Unified: `GC(12) Pause Young (Normal) (G1 Evacuation Pause) 24M->4M(256M) 3.456ms`.
    if line.contains("GC(") && line.contains("Pause") {
        return Some((seconds(line.split_whitespace().last()?)?, full));
    }
    if !line.contains("[GC") && !line.contains("[Full GC") {
        return None;
    }
    // `..., 1.5100144 secs]`: the last one that is not inside of `[Times: ...]` is the whole pause.
    let line = without_times(line);
    let (before, _) = line.rsplit_once(" secs]")?;
    let pause = before.rsplit([' ', ',']).next()?.parse().ok()?;
    Some((pause, full))
}

/// The old generation filled up before CMS was done with it: the program stands until all of the heap is collected.
fn mode_failed(line: &str) -> bool {
    line.contains("concurrent mode failure") || line.contains("promotion failed")
}

/// A line without its `[Times: ...]`; a phase of CMS has one in the middle.
fn without_times(line: &str) -> String {
    let mut parts = line.split("[Times");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |kept, part| {
        kept + part.split_once(']').map_or("", |(_, rest)| rest)
    })
}

/// `1596474K->1561923K(3860480K)`, the last on the line that is not a generation's: used after, and all.
fn heap_after(line: &str) -> Option<(f64, f64)> {
    let kilobytes = |text: &str| -> Option<f64> {
        let split = text.find(|c: char| c.is_ascii_alphabetic())?;
        let n: f64 = text[..split].parse().ok()?;
        Some(
            n * match &text[split..split + 1] {
                "K" => 1.0,
                "M" => 1024.0,
                "G" => 1_048_576.0,
                _ => return None,
            },
        )
    };
    let mut found = None;
    for word in line.split(|c: char| c.is_whitespace() || c == ',') {
        // `[PSYoungGen:` is a word of its own; what follows a colon is a part of the heap.
        let Some((_, after)) = word.split_once("->") else {
            continue;
        };
        let Some((used, whole)) = after.split_once('(') else {
            continue;
        };
        let pair = kilobytes(used).zip(kilobytes(whole.trim_end_matches([')', ']'])));
        let larger = |p: &(f64, f64)| found.is_none_or(|(_, w)| p.1 > w);
        if let Some(pair) = pair.filter(larger).filter(|p| p.1 > 0.0) {
            found = Some(pair);
        }
    }
    // A class space is larger than most heaps, and no part of it.
    found
}

/// Seconds since the start: `591.922:`, `[12.345s]`, `@1346.084s`.
fn uptime(line: &str) -> Option<f64> {
    line.split_whitespace().find_map(|word| {
        let word = word.trim_start_matches(['[', '@']);
        let word = word.split(']').next()?.trim_end_matches([':', 's']);
        word.contains('.').then(|| word.parse::<f64>().ok())?
    })
}

/// `gc 274 @1346.084s 14%: ... 3 P`: the share of CPU that collections took, and the processors that Go uses.
fn go_trace(line: &str) -> Option<(f64, Option<f64>)> {
    let rest = &line[line.find("gc ")?..];
    let words: Vec<&str> = rest.split_whitespace().collect();
    words.get(1)?.parse::<u64>().ok()?;
    words.get(2)?.strip_prefix('@')?;
    let share: f64 = words.get(3)?.strip_suffix("%:")?.parse().ok()?;
    let procs = words.iter().position(|w| *w == "P");
    let procs = procs.and_then(|at| words[at - 1].parse().ok());
    Some((share / 100.0, procs))
}

/// `09:06:54.709978` as seconds of the day; `1346.084` as they are.
pub(super) fn clock(word: &str) -> Option<f64> {
    by_sixties(word).filter(|_| word.contains('.'))
}

/// Waiting for work is no work.
pub(super) const WAITS: [&str; 9] = [
    "epoll_wait",
    "epoll_pwait",
    "select",
    "pselect6",
    "poll",
    "ppoll",
    "accept",
    "accept4",
    "wait4",
];

/// `epoll_wait(...) = 1 <0.012345>`, with a thread and a time before it or not.
fn calls(lines: &[&str]) -> Option<Artefact> {
    let mut found = artefact("strace -T", 0);
    for (number, line) in (1_u32..).zip(lines) {
        let Some((call, took, rest)) = timed_call(line) else {
            continue;
        };
        found.begin_at(number);
        found.add("strace.calls", 1.0);
        found.largest("strace.longest_s", took);
        found.add("strace.seconds", took);
        found.rows.push(Row {
            label: call.to_owned(),
            place: rest,
            share: took,
        });
    }
    if found.line == 0 {
        return None;
    }
    let all = found.value("strace.seconds").unwrap_or(0.0);
    let waits = |row: &Row| WAITS.contains(&row.label.as_str());
    let idle: f64 = found
        .rows
        .iter()
        .filter(|r| waits(r))
        .map(|r| r.share)
        .sum();
    found.rows.retain(|r| !waits(r));
    found.settle();
    if let Some(longest) = found.rows.first().map(|r| r.share) {
        found.figures.insert("strace.row_s".into(), longest);
    }
    if all > 0.0 {
        found.figures.insert("strace.idle_share".into(), idle / all);
    }
    Some(found)
}

/// The call, its seconds, and what it was made on: the first argument in quotes.
pub(super) fn timed_call(line: &str) -> Option<(&str, f64, String)> {
    let (before, took) = line.trim_end().rsplit_once(" <")?;
    let took: f64 = took.strip_suffix('>')?.parse().ok()?;
    let open = before.find('(')?;
    let name = before[..open].rsplit([' ', ']', '\t']).next()?;
    let name = name.trim_start_matches("<...");
    let known = !name.is_empty()
        && name
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
    let quoted = before[open..].split('"').nth(1).unwrap_or_default();
    known.then(|| (name, took, quoted.chars().take(60).collect()))
}

/// No time is so long, even counted in nanoseconds (104 days): a negative one that is read without its sign is 2^64
/// less it, and divided by 1,000 lies in the bucket from 2^54 on.
const ABSURD: f64 = 9_007_199_254_740_992.0;
/// The same divided by 1,000,000.
const OF_MS: f64 = 17_592_186_044_416.0;

/// `[1K, 2K)  123 |@@@@ |` of bpftrace and bcc's `1024 -> 2047 : 123 |****|`.
fn histograms(lines: &[&str]) -> Vec<Artefact> {
    let mut done: Vec<Artefact> = Vec::new();
    let (mut title, mut unit) = (String::new(), String::new());
    let mut buckets: Vec<(f64, f64)> = Vec::new();
    let mut first = 0;
    for (number, line) in (1_u32..).zip(lines.iter().copied().chain([""])) {
        if let Some(bucket) = bucket(line) {
            if buckets.is_empty() {
                first = number;
            }
            buckets.push(bucket);
            continue;
        }
        let all: f64 = buckets.iter().map(|b| b.1).sum();
        if buckets.len() >= 2 && all > 0.0 {
            let mut found = artefact("histogram", first);
            found.figures.insert("histogram.count".into(), all);
            let mut sum = 0.0;
            for (from, n) in &buckets {
                sum += n;
                let name = [(0.5, "histogram.p50"), (0.99, "histogram.p99")];
                for (share, name) in name {
                    if sum >= share * all && found.value(name).is_none() {
                        found.figures.insert(name.to_owned(), *from);
                    }
                }
            }
            let largest = buckets.iter().filter(|b| b.1 > 0.0).map(|b| b.0);
            found
                .figures
                .insert("histogram.largest".into(), largest.fold(0.0, f64::max));
            found.figures.insert("histogram.rows".into(), 1.0);
            let absurd = buckets
                .iter()
                .filter(|b| b.0 >= ABSURD || b.0 == OF_MS && unit.contains("msec"));
            let absurd = absurd.map(|b| b.1).sum::<f64>();
            if absurd > 0.0 {
                found.figures.insert("histogram.absurd".into(), absurd);
            }
            let of_disk = ["block", "bio", "disk"].iter();
            let of_disk = of_disk.filter(|w| title.to_ascii_lowercase().contains(*w));
            let of_queue = title.to_ascii_lowercase().contains("run queue");
            let kinds = [
                ("histogram.of_disk", of_disk.count() > 0),
                ("histogram.of_run_queue", of_queue),
            ];
            for (name, is) in kinds {
                found.figures.insert(name.into(), f64::from(u8::from(is)));
            }
            found.rows.push(Row {
                label: match title.as_str() {
                    "" => "without a title".to_owned(),
                    title => title.to_owned(),
                },
                place: unit.clone(),
                share: 1.0,
            });
            done.push(found);
        }
        buckets.clear();
        // bcc: what is traced, and above the buckets the unit.
        match line.split_once(": count") {
            Some((of, _)) => of.trim().clone_into(&mut unit),
            None if ["", "^C"].contains(&line.trim()) => {}
            None => {
                let text = line.split("...").next().unwrap_or(line);
                let text = text.trim().trim_end_matches(':');
                title = text.chars().take(60).collect();
                unit.clear();
            }
        }
    }
    done
}

fn bucket(line: &str) -> Option<(f64, f64)> {
    let (range, bar) = line.split_once('|')?;
    if !bar.contains('|') {
        return None;
    }
    let size = |text: &str| -> Option<f64> {
        let text = text.trim();
        let split = text
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(text.len());
        let n: f64 = text[..split].parse().ok()?;
        Some(
            n * match &text[split..] {
                "" => 1.0,
                "K" => 1024.0,
                "M" => 1_048_576.0,
                "G" => 1_073_741_824.0,
                _ => return None,
            },
        )
    };
    if let Some((from, rest)) = range
        .trim()
        .strip_prefix('[')
        .and_then(|r| r.split_once([',', ']']))
    {
        let count = rest.rsplit([' ', ')', ']']).find(|w| !w.is_empty())?;
        return Some((size(from)?, count.parse().ok()?));
    }
    let (from, rest) = range.split_once("->")?;
    let (_, count) = rest.split_once(':')?;
    Some((size(from)?, count.trim().parse().ok()?))
}
