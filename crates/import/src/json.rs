//! Results that tools print as JSON: weighttp 0.5, oha, vegeta, k6, fortio, bombardier.
//!
//! A document may stand anywhere in the text: every `{` at which a whole JSON value begins is tried. Its numbers are
//! stored in full, so they carry no rounding.

use super::found::{Found, Harvest, Nature};
use super::text::{Number, percentile_name};
use record::LatencyBase;
use serde_json::{Map, Value};

/// Sums that a tool took at different moments agree within this.
const SLACK: f64 = 0.02;
/// Documents that end early are recognised by these.
const KEYS: [&str; 6] = [
    "\"reqs_per_sec\"",
    "\"requestsPerSec\"",
    "\"latencies\"",
    "\"http_req_duration\"",
    "\"DurationHistogram\"",
    "\"timeTakenSeconds\"",
];

type Object = Map<String, Value>;
/// Tool, what recognises its document, what reads it.
type Reader = (
    &'static str,
    fn(&Object) -> bool,
    fn(&Object) -> Option<Found>,
);

const READERS: [Reader; 6] = [
    ("weighttp", |o| o.contains_key("reqs_per_sec"), weighttp),
    (
        "oha",
        |o| at(o, "summary.requestsPerSec").is_some() && o.contains_key("statusCodeDistribution"),
        oha,
    ),
    (
        "vegeta",
        |o| o.contains_key("latencies") && o.contains_key("throughput"),
        vegeta,
    ),
    ("k6", |o| at(o, "metrics.http_req_duration").is_some(), k6),
    (
        "fortio",
        |o| o.contains_key("ActualQPS") && o.contains_key("DurationHistogram"),
        fortio,
    ),
    (
        "bombardier",
        |o| at(o, "result.timeTakenSeconds").is_some() && o.contains_key("spec"),
        bombardier,
    ),
];

/// All documents of one tool in the text; `None` for those of any.
pub(crate) fn read(text: &str, tool: Option<&str>) -> Harvest {
    let mut harvest = Harvest::default();
    let mut from = 0;
    // A wrapped line may have been broken within a string, where JSON allows no line end.
    let flat = text.replace(['\n', '\t'], " ");
    while let Some(brace) = text[from..].find('{').map(|i| from + i) {
        let mut values = serde_json::Deserializer::from_str(&flat[brace..]).into_iter::<Value>();
        let read = values.next();
        let end = brace + values.byte_offset();
        match read {
            Some(Ok(Value::Object(object))) => {
                let lines = (line_of(text, brace), line_of(text, end));
                document(&object, lines, tool, &mut harvest);
                from = end.max(brace + 1);
            }
            Some(Err(e)) if e.is_eof() && KEYS.iter().any(|k| text[brace..].contains(k)) => {
                let last = line_of(text, text.len());
                let why = "a JSON result that ends in the middle".to_owned();
                harvest.left_out.push((line_of(text, brace), last, why));
                break;
            }
            _ => from = brace + 1,
        }
    }
    harvest
}

fn line_of(text: &str, at: usize) -> u32 {
    let newlines = text[..at].trim_end().matches('\n').count();
    u32::try_from(newlines)
        .unwrap_or(u32::MAX)
        .saturating_add(1)
}

fn document(object: &Object, lines: (u32, u32), tool: Option<&str>, harvest: &mut Harvest) {
    let reader = READERS
        .iter()
        .find(|(name, is, _)| tool.is_none_or(|t| t == *name) && is(object));
    let Some((name, _, read)) = reader else {
        return;
    };
    match read(object) {
        Some(mut found) => {
            found.reported.lines = lines;
            harvest.take(found, "rate_per_s", SLACK);
        }
        None => {
            let why = format!("a JSON result of {name} without its rate or its latencies");
            harvest.left_out.push((lines.0, lines.1, why));
        }
    }
}

/// The value below `path`, names separated by points.
fn at<'a>(object: &'a Object, path: &str) -> Option<&'a Value> {
    let mut names = path.split('.');
    let mut value = object.get(names.next()?)?;
    for name in names {
        value = value.get(name)?;
    }
    Some(value)
}

fn num(object: &Object, path: &str) -> Option<f64> {
    at(object, path)?
        .as_f64()
        .filter(|v| v.is_finite() && *v >= 0.0)
}

impl Found {
    /// Adds a number of the document, times `factor`, if it is there.
    fn take_number(&mut self, object: &Object, path: &str, name: &str, unit: &str, factor: f64) {
        if let Some(value) = num(object, path) {
            self.set(name, unit, Number::exact(value * factor));
        }
    }

    /// Adds counts by status: below 400 they are answers, everything else failed.
    fn statuses(&mut self, object: &Object, path: &str) {
        let Some(Value::Object(codes)) = at(object, path) else {
            return;
        };
        for (code, n) in codes {
            let Some(n) = n.as_f64() else { continue };
            let good = code.parse::<u16>().is_ok_and(|c| (100..400).contains(&c));
            let kind = if good { "status" } else { "failed.status" };
            self.set_count(format!("{kind}.{code}"), n);
        }
    }
}

fn result(tool: &str, base: LatencyBase) -> Found {
    Found::new(Nature::Load, tool, base, 1)
}

fn weighttp(o: &Object) -> Option<Found> {
    let mut found = result("weighttp", LatencyBase::Sent);
    found.take_number(o, "request_counts.retired", "requests", "1", 1.0);
    found.take_number(o, "secs_elapsed", "duration_s", "s", 1.0);
    found.take_number(o, "reqs_per_sec", "rate_per_s", "1/s", 1.0);
    found.take_number(o, "traffic.bytes_total", "received_bytes", "bytes", 1.0);
    found.take_number(o, "response_counts.fail", "failed.responses", "1", 1.0);
    found.take_number(o, "response_counts.errs", "failed.errors", "1", 1.0);
    for (key, name) in [
        ("total_times", "latency_ns"),
        ("connect_times", "connect_ns"),
        ("time_to_first_byte", "first_byte_ns"),
    ] {
        let Some(Value::Object(times)) = o.get(key) else {
            continue;
        };
        let factor = match times.get("unit").and_then(Value::as_str) {
            Some("us") => 1e3,
            Some("ms") => 1e6,
            Some("ns") => 1.0,
            _ => continue,
        };
        found.take_number(times, "avg", &format!("{name}.mean"), "ns", factor);
        found.take_number(times, "stddev", &format!("{name}.stddev"), "ns", factor);
        for (which, value) in times {
            let Some(p) = which.strip_suffix('%').and_then(|p| p.parse().ok()) else {
                continue;
            };
            let name = match p {
                0.0 => format!("{name}.min"),
                100.0 => format!("{name}.max"),
                p => percentile_name(name, p),
            };
            if let Some(v) = value.as_f64() {
                found.set_ns(name, Number::exact(v * factor));
            }
        }
    }
    Some(found)
}

fn oha(o: &Object) -> Option<Found> {
    let mut found = result("oha", LatencyBase::Unknown);
    found.take_number(o, "summary.requestsPerSec", "rate_per_s", "1/s", 1.0);
    found.take_number(o, "summary.totalData", "received_bytes", "bytes", 1.0);
    for (key, which) in [("fastest", "min"), ("average", "mean"), ("slowest", "max")] {
        let path = format!("summary.{key}");
        found.take_number(o, &path, &format!("latency_ns.{which}"), "ns", 1e9);
    }
    if let Some(Value::Object(percentiles)) = o.get("latencyPercentiles") {
        for (p, value) in percentiles {
            let p = p.strip_prefix('p')?.parse().ok()?;
            if let Some(v) = value.as_f64() {
                found.set_ns(percentile_name("latency_ns", p), Number::exact(v * 1e9));
            }
        }
    }
    found.statuses(o, "statusCodeDistribution");
    if let Some(Value::Object(errors)) = o.get("errorDistribution") {
        let all: f64 = errors.values().filter_map(Value::as_f64).sum();
        found.set_count("failed.errors", all);
    }
    Some(found)
}

fn vegeta(o: &Object) -> Option<Found> {
    let mut found = result("vegeta", LatencyBase::Scheduled);
    found.take_number(o, "requests", "requests", "1", 1.0);
    found.take_number(o, "rate", "offered_per_s", "1/s", 1.0);
    found.take_number(o, "throughput", "rate_per_s", "1/s", 1.0);
    found.take_number(o, "duration", "attack_s", "s", 1e-9);
    found.take_number(o, "bytes_in.total", "received_bytes", "bytes", 1.0);
    for which in ["min", "mean", "max"] {
        let path = format!("latencies.{which}");
        found.take_number(o, &path, &format!("latency_ns.{which}"), "ns", 1.0);
    }
    for p in ["50", "90", "95", "99"] {
        let path = format!("latencies.{p}th");
        found.take_number(o, &path, &format!("latency_ns.p{p}"), "ns", 1.0);
    }
    found.statuses(o, "status_codes");
    Some(found)
}

/// The values of a metric stand in it, or below `values` in what `handleSummary` gets.
fn k6(o: &Object) -> Option<Found> {
    let metric = |name: &str| -> Option<&Object> {
        let metric = at(o, "metrics")?.get(name)?.as_object()?;
        match metric.get("values") {
            Some(Value::Object(values)) => Some(values),
            _ => Some(metric),
        }
    };
    let mut found = result("k6", LatencyBase::Sent);
    let requests = metric("http_reqs")?;
    found.take_number(requests, "count", "requests", "1", 1.0);
    found.take_number(requests, "rate", "rate_per_s", "1/s", 1.0);
    for (name, ours) in [
        ("http_req_duration", "latency_ns"),
        ("http_req_connecting", "connect_ns"),
        ("http_req_waiting", "first_byte_ns"),
    ] {
        for (which, value) in metric(name).into_iter().flatten() {
            let which = match which.as_str() {
                "avg" => "mean".to_owned(),
                "med" => "p50".to_owned(),
                "min" | "max" => which.clone(),
                p => match p.strip_prefix("p(").and_then(|p| p.strip_suffix(')')) {
                    Some(p) => format!("p{p}"),
                    None => continue,
                },
            };
            if let Some(ms) = value.as_f64() {
                found.set_ns(format!("{ours}.{which}"), Number::exact(ms * 1e6));
            }
        }
    }
    let share = metric("http_req_failed").and_then(|m| num(m, "value").or_else(|| num(m, "rate")));
    if let Some(share) = share {
        found.set("failed_share", "%", Number::exact(share * 100.0));
    }
    if let Some(dropped) = metric("dropped_iterations").and_then(|m| num(m, "count")) {
        found.set_count("dropped", dropped);
    }
    if let Some(vus) = metric("vus_max").and_then(|m| num(m, "value").or_else(|| num(m, "max"))) {
        found.set_count("vus_max", vus);
    }
    Some(found)
}

fn fortio(o: &Object) -> Option<Found> {
    let mut found = result("fortio", LatencyBase::Sent);
    if let Some(Value::String(url)) = o.get("URL") {
        url.clone_into(&mut found.url);
    }
    found.take_number(o, "ActualQPS", "rate_per_s", "1/s", 1.0);
    found.take_number(o, "ActualDuration", "duration_s", "s", 1e-9);
    found.take_number(o, "NumThreads", "connections", "1", 1.0);
    let asked = o.get("RequestedQPS").and_then(Value::as_str);
    if let Some(rate) = asked.and_then(|text| text.parse::<f64>().ok()) {
        found.set("offered_per_s", "1/s", Number::exact(rate));
    }
    found.take_number(o, "DurationHistogram.Count", "requests", "1", 1.0);
    for (key, which) in [
        ("Min", "min"),
        ("Avg", "mean"),
        ("Max", "max"),
        ("StdDev", "stddev"),
    ] {
        let path = format!("DurationHistogram.{key}");
        found.take_number(o, &path, &format!("latency_ns.{which}"), "ns", 1e9);
    }
    if let Some(Value::Array(list)) = at(o, "DurationHistogram.Percentiles") {
        for entry in list.iter().filter_map(Value::as_object) {
            if let (Some(p), Some(v)) = (num(entry, "Percentile"), num(entry, "Value")) {
                found.set_ns(percentile_name("latency_ns", p), Number::exact(v * 1e9));
            }
        }
    }
    found.statuses(o, "RetCodes");
    Some(found)
}

fn bombardier(o: &Object) -> Option<Found> {
    let mut found = result("bombardier", LatencyBase::Sent);
    if let Some(Value::String(url)) = at(o, "spec.url") {
        url.clone_into(&mut found.url);
    }
    found.take_number(o, "spec.numberOfConnections", "connections", "1", 1.0);
    found.take_number(o, "result.timeTakenSeconds", "duration_s", "s", 1.0);
    found.take_number(o, "result.bytesRead", "received_bytes", "bytes", 1.0);
    for class in ["1xx", "2xx", "3xx"] {
        let path = format!("result.req{class}");
        found.take_number(o, &path, &format!("status.{class}"), "1", 1.0);
    }
    for class in ["4xx", "5xx"] {
        let path = format!("result.req{class}");
        found.take_number(o, &path, &format!("failed.{class}"), "1", 1.0);
    }
    found.take_number(o, "result.others", "failed.others", "1", 1.0);
    found.take_number(o, "result.rps.mean", "rate_per_s", "1/s", 1.0);
    for which in ["mean", "stddev", "max"] {
        let path = format!("result.latency.{which}");
        found.take_number(o, &path, &format!("latency_ns.{which}"), "ns", 1e3);
    }
    if let Some(Value::Object(percentiles)) = at(o, "result.latency.percentiles") {
        for (p, v) in percentiles {
            if let (Ok(p), Some(v)) = (p.parse(), v.as_f64()) {
                found.set_ns(percentile_name("latency_ns", p), Number::exact(v * 1e3));
            }
        }
    }
    Some(found)
}
