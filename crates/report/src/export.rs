//! One load for other tools: HdrHistogram's log, CSV, the text format of Prometheus, OTLP as JSON.
//!
//! The surprise: of a load there is one histogram for the whole, so an HdrHistogram log has one interval. Latencies are
//! of the successes, as everywhere.

use crate::json::LoadDocument;
use record::{Histogram, LoadOutcome, Nanos};
use serde_json::{Value, json};
use std::fmt::Write as _;

/// A form of a load for other tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// HdrHistogram's interval log: response time, and service time under a tag.
    Hdr,
    /// HdrHistogram's percentile spectrum of the response time, ms.
    Spectrum,
    /// One line with names and one with the figures.
    Csv,
    /// One line for each slice of the load.
    Series,
    /// Prometheus's text format 0.0.4.
    Prometheus,
    /// OpenTelemetry metrics as JSON, as a collector's file exporter writes them.
    Otlp,
    /// What `--json` prints.
    Json,
    /// A page for people.
    Html,
}

impl Format {
    /// All of them, with their names.
    pub const ALL: [(&'static str, Format); 8] = [
        ("hdr", Format::Hdr),
        ("spectrum", Format::Spectrum),
        ("csv", Format::Csv),
        ("series", Format::Series),
        ("prometheus", Format::Prometheus),
        ("otlp", Format::Otlp),
        ("json", Format::Json),
        ("html", Format::Html),
    ];
}

/// When the measured part began and ended, ns since 1970.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WallTime {
    pub from: u64,
    pub to: u64,
}

/// The load in a form.
pub fn load(
    format: Format,
    document: &LoadDocument,
    outcome: &LoadOutcome,
    at: WallTime,
) -> String {
    match format {
        Format::Hdr => hdr_log(outcome, at),
        Format::Spectrum => spectrum(&outcome.response),
        Format::Csv => summary(document),
        Format::Series => series(outcome),
        Format::Prometheus => prometheus(document),
        Format::Otlp => pretty(&otlp(document, outcome, at)),
        Format::Html => crate::html::load_page(document),
        Format::Json => serde_json::to_string_pretty(document).unwrap_or_default() + "\n",
    }
}

fn pretty(document: &Value) -> String {
    serde_json::to_string_pretty(document).unwrap_or_default() + "\n"
}

/// Version 1.3 of the log format: `[Tag=NAME,]start,length,max,histogram`, seconds and milliseconds.
fn hdr_log(outcome: &LoadOutcome, at: WallTime) -> String {
    let start_s = at.from as f64 / 1e9;
    let mut text = format!(
        "#[Histogram log format version 1.3]\n#[StartTime: {start_s:.3} (seconds since epoch), values are nanoseconds]\n"
    );
    text += "\"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\"Interval_Compressed_Histogram\"\n";
    let length_s = outcome.measured().as_secs_f64();
    for (tag, histogram) in [("", &outcome.response), ("Tag=service,", &outcome.service)] {
        let Some(max) = histogram.max() else { continue };
        let max_ms = max.0 as f64 / 1e6;
        let encoded = histogram.to_base64();
        let _ = writeln!(text, "{tag}0.000,{length_s:.3},{max_ms:.3},{encoded}");
    }
    text
}

/// The rows and the end of a percentile spectrum, ms.
pub(crate) fn spectrum_rows(histogram: &Histogram, per_half: u32) -> String {
    let mut text = String::new();
    for (value, quantile, count) in histogram.percentile_rows(per_half) {
        let ms = value.0 as f64 / 1e6;
        let _ = match quantile {
            q if q < 1.0 => {
                let inverse = 1.0 / (1.0 - q);
                writeln!(text, "{ms:>12.3} {q:>12.6} {count:>12} {inverse:>15.2}")
            }
            q => writeln!(text, "{ms:>12.3} {q:>12.6} {count:>12} {:>15}", "inf"),
        };
    }
    let mean_ms = histogram.mean_ns().unwrap_or(0.0) / 1e6;
    let stddev_ms = histogram.stddev_ns().unwrap_or(0.0) / 1e6;
    let max_ms = histogram.max().map_or(0.0, |ns| ns.0 as f64 / 1e6);
    let (buckets, sub_buckets) = Histogram::shape();
    let _ = writeln!(
        text,
        "#[Mean    = {mean_ms:>12.3}, StdDeviation   = {stddev_ms:>12.3}]"
    );
    let _ = writeln!(
        text,
        "#[Max     = {max_ms:>12.3}, Total count    = {:>12}]",
        histogram.count()
    );
    let _ = writeln!(
        text,
        "#[Buckets = {buckets:>12}, SubBuckets     = {sub_buckets:>12}]"
    );
    text
}

fn spectrum(histogram: &Histogram) -> String {
    "       Value   Percentile   TotalCount 1/(1-Percentile)\n\n".to_owned()
        + &spectrum_rows(histogram, 5)
}

/// Names and values of the figures that a table of many loads has a column for. What was not measured is empty.
fn figures(document: &LoadDocument) -> Vec<(String, Option<f64>)> {
    let requests = &document.requests;
    let failed: u64 = requests.failed.values().sum();
    let mut figures: Vec<(String, Option<f64>)> = [
        ("measured_s", Some(document.measured_s)),
        ("connections", Some(f64::from(document.asked.connections))),
        ("offered_per_s", document.rate_per_s.offered),
        ("achieved_per_s", document.rate_per_s.achieved),
        ("scheduled", Some(requests.scheduled as f64)),
        ("sent", Some(requests.sent as f64)),
        ("completed", Some(requests.completed as f64)),
        ("succeeded", Some(requests.succeeded as f64)),
        ("failed", Some(failed as f64)),
        ("late", Some(requests.late as f64)),
        ("dropped", Some(requests.dropped as f64)),
        ("received_bytes", Some(document.bytes.received as f64)),
        ("sent_bytes", Some(document.bytes.sent as f64)),
        ("generator_utilization", document.generator.utilization),
        ("cpu_us_per_request", document.generator.cpu_us_per_request),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into();
    let latencies = [
        ("response", document.latency_ns.response),
        ("service", document.latency_ns.service),
    ];
    for (name, summary) in latencies {
        let column = |which: &str| format!("{name}_ns_{which}");
        let of = |pick: fn(&analysis::LatencySummary) -> f64| summary.as_ref().map(pick);
        figures.extend([
            (column("mean"), of(|s| s.mean)),
            (column("p50"), of(|s| s.p50 as f64)),
            (column("p90"), of(|s| s.p90 as f64)),
            (column("p99"), of(|s| s.p99 as f64)),
            (column("p999"), of(|s| s.p999 as f64)),
            (column("max"), of(|s| s.max as f64)),
        ]);
    }
    figures
}

fn summary(document: &LoadDocument) -> String {
    let figures = figures(document);
    let names: Vec<&str> = figures.iter().map(|(name, _)| name.as_str()).collect();
    let value = |value: &Option<f64>| value.map_or(String::new(), |v| v.to_string());
    let values: Vec<String> = figures.iter().map(|(_, v)| value(v)).collect();
    let url = crate::csv::quoted(&document.asked.url);
    format!(
        "url,valid,limit,{}\n{url},{},{},{}\n",
        names.join(","),
        document.verdict.valid,
        word(&document.verdict.limit),
        values.join(",")
    )
}

/// An enum's name in JSON.
fn word(value: &impl serde::Serialize) -> String {
    let value = serde_json::to_value(value).unwrap_or_default();
    value.as_str().unwrap_or_default().to_owned()
}

fn series(outcome: &LoadOutcome) -> String {
    let mut text = "from_s,to_s,measured,sent,succeeded,failed,achieved_per_s,received_bytes,response_ns_p50,response_ns_p99,response_ns_max,queued,generator_utilization\n".to_owned();
    for slice in &outcome.intervals {
        let second = |at: Nanos| at.since(outcome.started_at).as_secs_f64();
        let length_s = slice.to.since(slice.from).as_secs_f64();
        let latency = |ns: u64| match slice.succeeded {
            0 => String::new(),
            _ => ns.to_string(),
        };
        let rate = match length_s > 0.0 {
            true => format!("{:.3}", slice.succeeded as f64 / length_s),
            false => String::new(),
        };
        let measured = slice.from >= outcome.measured_from && slice.to <= outcome.measured_to;
        let _ = writeln!(
            text,
            "{:.6},{:.6},{measured},{},{},{},{rate},{},{},{},{},{},{}",
            second(slice.from),
            second(slice.to),
            slice.sent,
            slice.succeeded,
            slice.failed,
            slice.received_bytes,
            latency(slice.response_ns_p50),
            latency(slice.response_ns_p99),
            latency(slice.response_ns_max),
            slice.queued,
            f64::from(slice.generator_permille) / 1000.0
        );
    }
    text
}

type Pick = fn(&analysis::LatencySummary) -> u64;

const QUANTILES: [(&str, Pick); 6] = [
    ("0.5", |s| s.p50),
    ("0.75", |s| s.p75),
    ("0.9", |s| s.p90),
    ("0.95", |s| s.p95),
    ("0.99", |s| s.p99),
    ("0.999", |s| s.p999),
];

/// For the textfile collector or the push gateway.
fn prometheus(document: &LoadDocument) -> String {
    let mut text = String::new();
    let url = label(&document.asked.url);
    let mut family = |name: &str, kind: &str, help: &str, samples: Vec<(String, f64)>| {
        if samples.is_empty() {
            return;
        }
        let _ = writeln!(
            text,
            "# HELP prony_{name} {help}\n# TYPE prony_{name} {kind}"
        );
        for (labels, value) in samples {
            let (suffix, labels) = labels.split_once(' ').unwrap_or(("", &labels));
            let comma = if labels.is_empty() { "" } else { "," };
            let _ = writeln!(
                text,
                "prony_{name}{suffix}{{url=\"{url}\"{comma}{labels}}} {value}"
            );
        }
    };
    let one = |value: f64| vec![(String::new(), value)];
    let some = |value: Option<f64>| value.map_or(Vec::new(), one);
    let requests = &document.requests;
    let fates = [
        ("scheduled", requests.scheduled),
        ("sent", requests.sent),
        ("completed", requests.completed),
        ("succeeded", requests.succeeded),
        ("late", requests.late),
        ("dropped", requests.dropped),
    ];
    let labelled = |key: &str, name: &str, n: u64| (format!("{key}=\"{}\"", label(name)), n as f64);
    let fates = fates.map(|(fate, n)| labelled("fate", fate, n)).to_vec();
    let failed = requests.failed.iter();
    let failed = failed.map(|(kind, n)| labelled("kind", kind, *n)).collect();
    let statuses = document.status.iter();
    let statuses = statuses.map(|(s, n)| labelled("code", s, *n)).collect();
    let rates = &document.rate_per_s;
    family(
        "valid",
        "gauge",
        "1 when the figures may be used.",
        one(f64::from(u8::from(document.verdict.valid))),
    );
    family(
        "measured_seconds",
        "gauge",
        "Length of the measured part.",
        one(document.measured_s),
    );
    family(
        "requests",
        "gauge",
        "Requests of the measured part by fate.",
        fates,
    );
    family("failed", "gauge", "Failed requests by kind.", failed);
    family("responses", "gauge", "Responses by status.", statuses);
    family(
        "offered_per_second",
        "gauge",
        "Requests per second asked for.",
        some(rates.offered),
    );
    family(
        "achieved_per_second",
        "gauge",
        "Successes per second.",
        some(rates.achieved),
    );
    family(
        "received_bytes",
        "gauge",
        "Payload received.",
        one(document.bytes.received as f64),
    );
    family(
        "sent_bytes",
        "gauge",
        "Payload sent.",
        one(document.bytes.sent as f64),
    );
    family(
        "generator_utilization",
        "gauge",
        "Share of the time that the busiest load thread worked.",
        some(document.generator.utilization),
    );
    for (name, help, summary) in [
        (
            "response_seconds",
            "From the scheduled send to the end of the response.",
            document.latency_ns.response,
        ),
        (
            "service_seconds",
            "From the actual send to the end of the response.",
            document.latency_ns.service,
        ),
    ] {
        let Some(summary) = summary else { continue };
        let n = requests.succeeded as f64;
        let quantile =
            |(q, pick): &(&str, Pick)| (format!("quantile=\"{q}\""), pick(&summary) as f64 / 1e9);
        let mut samples: Vec<(String, f64)> = QUANTILES.iter().map(quantile).collect();
        samples.push(("_sum ".to_owned(), summary.mean / 1e9 * n));
        samples.push(("_count ".to_owned(), n));
        family(name, "summary", help, samples);
    }
    text
}

/// A label's value, escaped as the format wants it.
fn label(text: &str) -> String {
    text.replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

/// One in 16 of a doubling: buckets 4.4 % wide.
const SCALE: i32 = 4;

/// OpenTelemetry's metrics, protobuf's JSON mapping: 64-bit integers are strings.
fn otlp(document: &LoadDocument, outcome: &LoadOutcome, at: WallTime) -> Value {
    let times = |mut point: Value| {
        point["startTimeUnixNano"] = at.from.to_string().into();
        point["timeUnixNano"] = at.to.to_string().into();
        point
    };
    let attribute = |key: &str, value: &str| json!({"key": key, "value": {"stringValue": value}});
    let sum = |name: &str, unit: &str, points: Vec<Value>| {
        json!({"name": name, "unit": unit, "sum": {
            "aggregationTemporality": 1, "isMonotonic": true, "dataPoints": points}})
    };
    let count = |n: u64, key: &str, value: &str| {
        times(json!({"asInt": n.to_string(), "attributes": [attribute(key, value)]}))
    };
    let requests = &document.requests;
    let fates = [
        ("scheduled", requests.scheduled),
        ("sent", requests.sent),
        ("completed", requests.completed),
        ("succeeded", requests.succeeded),
        ("late", requests.late),
        ("dropped", requests.dropped),
    ];
    let fates = fates.map(|(fate, n)| count(n, "fate", fate)).to_vec();
    let failed = requests.failed.iter();
    let failed = failed
        .map(|(kind, n)| count(*n, "error.type", kind))
        .collect();
    let statuses = document.status.iter();
    let statuses = statuses.map(|(s, n)| count(*n, "http.response.status_code", s));
    let bytes = [
        ("received", document.bytes.received),
        ("sent", document.bytes.sent),
    ];
    let bytes = bytes.map(|(way, n)| count(n, "direction", way)).to_vec();
    let histogram = |name: &str, histogram: &Histogram| {
        json!({"name": name, "unit": "s", "exponentialHistogram": {
            "aggregationTemporality": 1, "dataPoints": [times(exponential(histogram))]}})
    };
    let valid = u8::from(document.verdict.valid).to_string();
    let metrics = vec![
        sum("prony.requests", "{request}", fates),
        sum("prony.failed", "{request}", failed),
        sum("prony.responses", "{response}", statuses.collect()),
        sum("prony.payload", "By", bytes),
        histogram("prony.response.duration", &outcome.response),
        histogram("prony.service.duration", &outcome.service),
        json!({"name": "prony.valid", "unit": "1", "gauge": {"dataPoints": [times(json!({"asInt": valid}))]}}),
    ];
    let scope = json!({"name": "prony", "version": env!("CARGO_PKG_VERSION")});
    let resource = json!({"attributes": [
        attribute("service.name", "prony"),
        attribute("url.full", &document.asked.url),
    ]});
    json!({"resourceMetrics": [{
        "resource": resource,
        "scopeMetrics": [{"scope": scope, "metrics": metrics}],
    }]})
}

/// Bucket `i` of an exponential histogram holds what is above `base^i` and at most `base^(i+1)`, in seconds.
fn exponential(histogram: &Histogram) -> Value {
    let index = |ns: Nanos| {
        let doublings = (ns.0.max(1) as f64 / 1e9).log2();
        (doublings * f64::from(1 << SCALE)).ceil() as i32 - 1
    };
    let seconds = |ns: Option<Nanos>| ns.map_or(0.0, |ns| ns.0 as f64 / 1e9);
    let offset = histogram.min().map_or(0, index);
    let length = histogram.max().map_or(0, |max| index(max) - offset + 1);
    let mut counts = vec![0_u64; usize::try_from(length).unwrap_or(0)];
    for (value, n) in histogram.recorded() {
        // A value is the middle of its bucket, which may lie beyond the largest.
        let at = (index(value) - offset).clamp(0, length - 1);
        counts[at as usize] += n;
    }
    let counts: Vec<String> = counts.iter().map(ToString::to_string).collect();
    let n = histogram.count();
    json!({
        "count": n.to_string(),
        "sum": histogram.mean_ns().unwrap_or(0.0) / 1e9 * n as f64,
        "min": seconds(histogram.min()),
        "max": seconds(histogram.max()),
        "scale": SCALE,
        "zeroCount": "0",
        "positive": {"offset": offset, "bucketCounts": counts},
    })
}
