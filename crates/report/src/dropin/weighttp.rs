//! weighttp's layouts: the lines of 0.3 and 0.4, and the JSON of 0.5.

use super::{SocketFailures, contents, seconds, statuses};
use record::{Histogram, LoadOutcome, LoadSpec};
use serde_json::{Map, Value, json};
use std::fmt::Write as _;

/// The lines of 0.3 and 0.4. Its figures are cut off, not rounded.
pub fn text(spec: &LoadSpec, outcome: &LoadOutcome, threads: u32) -> String {
    let total = spec.requests.unwrap_or(outcome.requests.sent);
    let mut text = "weighttp - a lightweight and simple webserver benchmarking tool\n\n".to_owned();
    text += "starting benchmark...\n";
    let part = |whole: u64, i: u64| {
        let of = u64::from(threads.max(1));
        whole / of + u64::from(i < whole % of)
    };
    for i in 0..u64::from(threads) {
        let clients = part(u64::from(spec.connections), i);
        let _ = writeln!(
            text,
            "spawning thread #{}: {clients} concurrent requests, {} total requests",
            i + 1,
            part(total, i)
        );
    }
    let requests = &outcome.requests;
    let done = requests.completed + SocketFailures::of(outcome).all();
    let percent = (done * 100).checked_div(total).unwrap_or(100).min(100);
    let _ = writeln!(text, "progress: {percent:>3}% done\n");
    let us = outcome.measured().0 / 1_000;
    let seconds = seconds(outcome);
    let _ = writeln!(
        text,
        "finished in {} sec, {} millisec and {} microsec, {} req/s, {} kbyte/s",
        us / 1_000_000,
        us / 1_000 % 1_000,
        us % 1_000,
        (requests.completed as f64 / seconds) as u64,
        (outcome.received_bytes as f64 / 1024.0 / seconds) as u64
    );
    let _ = writeln!(
        text,
        "requests: {total} total, {} started, {done} done, {} succeeded, {} failed, {} errored",
        requests.sent,
        requests.succeeded,
        done - requests.succeeded,
        SocketFailures::of(outcome).all()
    );
    let [two, three, four, five] = classes(outcome);
    let _ = writeln!(
        text,
        "status codes: {two} 2xx, {three} 3xx, {four} 4xx, {five} 5xx"
    );
    let body = contents(outcome).body_bytes;
    let received = outcome.received_bytes;
    let _ = writeln!(
        text,
        "traffic: {received} bytes total, {} bytes http, {body} bytes data",
        received.saturating_sub(body)
    );
    text
}

fn classes(outcome: &LoadOutcome) -> [u64; 4] {
    [200, 300, 400, 500].map(|from| statuses(outcome, from, from + 99))
}

/// The document of 0.5. Its percentiles are values of its array of requests; these are of the histograms.
pub fn json(outcome: &LoadOutcome, extended: bool) -> String {
    let requests = &outcome.requests;
    let failures = SocketFailures::of(outcome);
    let seconds = seconds(outcome);
    let [two, three, four, five] = classes(outcome);
    let body = contents(outcome).body_bytes;
    let received = outcome.received_bytes;
    let times = |histogram: &Histogram| times(histogram, extended);
    let connections = outcome.connect.count();
    let document = json!({
        "reqs_per_sec": (requests.completed as f64 / seconds) as u64,
        "kBps_per_sec": (received as f64 / 1024.0 / seconds) as u64,
        "secs_elapsed": (seconds * 1e6).round() / 1e6,
        "request_counts": {
            "started": requests.sent,
            "retired": requests.completed + failures.all(),
            "keep-alive": requests.completed.saturating_sub(connections),
        },
        "response_counts": {
            "pass": requests.succeeded,
            "fail": requests.completed - requests.succeeded,
            "errs": failures.all(),
        },
        "status_codes": { "2xx": two, "3xx": three, "4xx": four, "5xx": five },
        "traffic": {
            "bytes_total": received,
            "bytes_headers": received.saturating_sub(body),
            "bytes_body": body,
        },
        "connect_times": times(&outcome.connect),
        "time_to_first_byte": times(&outcome.first_byte),
        "response_times": times(&outcome.service),
        "total_times": times(&outcome.response),
    });
    serde_json::to_string_pretty(&document).unwrap_or_default() + "\n"
}

fn times(histogram: &Histogram, extended: bool) -> Value {
    let us = |ns: f64| (ns / 1e3).round() as u64;
    let mut times = Map::new();
    times.insert("num".to_owned(), histogram.count().into());
    if let (Some(mean), Some(stddev)) = (histogram.mean_ns(), histogram.stddev_ns()) {
        times.insert("avg".to_owned(), us(mean).into());
        times.insert("stddev".to_owned(), us(stddev).into());
    }
    times.insert("unit".to_owned(), "us".into());
    let shown: &[u32] = match extended {
        true => &[0, 50, 66, 75, 80, 90, 95, 98, 99, 100],
        false => &[0, 100],
    };
    for p in shown {
        let value = match p {
            0 => histogram.min(),
            p => histogram.quantile(f64::from(*p) / 100.0),
        };
        if let Some(value) = value {
            times.insert(format!("{p}%"), us(value.0 as f64).into());
        }
    }
    Value::Object(times)
}

/// The file of `-e`: microseconds.
pub fn csv(outcome: &LoadOutcome) -> String {
    let mut text = "Percentage served,Time in us\n".to_owned();
    for (percent, ns) in super::ab::served(&outcome.response) {
        let _ = writeln!(text, "{percent},{}", (ns / 1e3).round());
    }
    text
}
