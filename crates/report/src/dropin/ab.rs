//! ApacheBench's layout, its HTML tables, and its files: `-e` (percentiles) and `-g` (requests one by one).
//!
//! The surprise is in what its rows count: `Total` begins with the opening of the connection, so that the load has to
//! be made with [`record::Habits::connect_counts`], and on a kept connection `Connect` is zero for all but the first.

use super::{SocketFailures, contents, seconds, statuses};
use record::{Body, Histogram, LoadOutcome, LoadSpec, LoggedRequest, Nanos};
use std::fmt::Write as _;

/// What was asked of the layout.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// `-k`.
    pub keep_alive: bool,
    /// `-l`: a body of another length is no failure.
    pub any_length: bool,
    /// `-d`: no table of percentiles.
    pub no_percentiles: bool,
    /// `-S`: no median, no deviation, no doubts.
    pub no_confidence: bool,
    /// `-w`: HTML, with these attributes of table, rows and cells.
    pub html: Option<[String; 3]>,
    /// The host of the URL.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// The path with its query.
    pub path: String,
}

/// Percentiles of the last table.
const SHOWN: [u32; 9] = [50, 66, 75, 80, 90, 95, 98, 99, 100];

/// The whole of the tool's standard output.
pub fn text(spec: &LoadSpec, outcome: &LoadOutcome, options: &Options) -> String {
    if let Some(attributes) = &options.html {
        return html(spec, outcome, options, attributes);
    }
    let mut text = format!(
        "This is prony {}, in the layout of ApacheBench, Version 2.3\n\nBenchmarking {} (be patient).....done\n\n\n",
        env!("CARGO_PKG_VERSION"),
        options.host
    );
    for row in head(spec, outcome, options) {
        match row {
            Some(("", value)) => {
                let _ = writeln!(text, "{:24}{value}", "");
            }
            Some((label, value)) if label.starts_with('(') => {
                let _ = writeln!(text, "   {label}{value}");
            }
            Some((label, value)) => {
                let _ = writeln!(text, "{:<24}{value}", format!("{label}:"));
            }
            None => text.push('\n'),
        }
    }
    if outcome.response.count() == 0 {
        return text;
    }
    text.push('\n');
    times(&mut text, outcome, options);
    if !options.no_percentiles && outcome.response.count() > 1 {
        text += "\nPercentage of the requests served within a certain time (ms)\n";
        for p in SHOWN {
            let last = if p == 100 { " (longest request)" } else { "" };
            let ms = milliseconds(quantile_ns(&outcome.response, p));
            let _ = writeln!(text, " {p:>3}%  {ms:>5}{last}");
        }
    }
    text
}

/// Label and value of the rows above the tables; `None` is an empty line. A label in parentheses stands below another.
fn head(
    spec: &LoadSpec,
    outcome: &LoadOutcome,
    options: &Options,
) -> Vec<Option<(&'static str, String)>> {
    let contents = contents(outcome);
    let requests = &outcome.requests;
    let failures = SocketFailures::of(outcome);
    let seconds = seconds(outcome);
    let answers = requests.completed as f64;
    let length = if options.any_length {
        0
    } else {
        contents.other_length
    };
    let failed = failures.all() + length;
    let row = |label, value: String| Some((label, value));
    let document_length = match options.any_length {
        true => "Variable".to_owned(),
        false => format!("{} bytes", contents.first_body_bytes.unwrap_or(0)),
    };
    let mut rows = vec![
        row("Server Software", contents.server.unwrap_or_default()),
        row("Server Hostname", options.host.clone()),
        row("Server Port", options.port.to_string()),
        None,
        row("Document Path", options.path.clone()),
        row("Document Length", document_length),
        None,
        row("Concurrency Level", spec.connections.to_string()),
        row("Time taken for tests", format!("{seconds:.3} seconds")),
        row("Complete requests", requests.completed.to_string()),
        row("Failed requests", failed.to_string()),
    ];
    if failed > 0 {
        rows.push(row(
            "(",
            format!(
                "Connect: {}, Receive: {}, Length: {length}, Exceptions: {})",
                failures.connect,
                failures.read + failures.timeout,
                failures.other
            ),
        ));
    }
    let refused = requests.completed - statuses(outcome, 200, 299);
    if refused > 0 {
        rows.push(row("Non-2xx responses", refused.to_string()));
    }
    if options.keep_alive {
        rows.push(row("Keep-Alive requests", kept(outcome).to_string()));
    }
    rows.push(row(
        "Total transferred",
        format!("{} bytes", outcome.received_bytes),
    ));
    let has_body = spec.body != Body::None;
    if has_body {
        rows.push(row("Total body sent", outcome.sent_bytes.to_string()));
    }
    rows.push(row(
        "HTML transferred",
        format!("{} bytes", contents.body_bytes),
    ));
    if answers > 0.0 {
        let each = seconds * 1e3 / answers;
        let of_one = each * f64::from(spec.connections);
        let received = outcome.received_bytes as f64 / 1024.0 / seconds;
        rows.push(row(
            "Requests per second",
            format!("{:.2} [#/sec] (mean)", answers / seconds),
        ));
        rows.push(row("Time per request", format!("{of_one:.3} [ms] (mean)")));
        rows.push(row(
            "Time per request",
            format!("{each:.3} [ms] (mean, across all concurrent requests)"),
        ));
        rows.push(row(
            "Transfer rate",
            format!("{received:.2} [Kbytes/sec] received"),
        ));
        if has_body {
            let sent = outcome.sent_bytes as f64 / 1024.0 / seconds;
            rows.push(row("", format!("{sent:.2} kb/s sent")));
            rows.push(row("", format!("{:.2} kb/s total", sent + received)));
        }
    }
    rows
}

/// Responses after which the server kept the connection, or would have: all but those that ended one.
fn kept(outcome: &LoadOutcome) -> u64 {
    let ended = outcome.connections.closed_by_server;
    outcome.requests.completed.saturating_sub(ended)
}

/// A row of the connection times, ns.
struct Times {
    name: &'static str,
    min: f64,
    mean: f64,
    stddev: f64,
    median: f64,
    max: f64,
}

impl Times {
    fn of(name: &'static str, histogram: &Histogram) -> Self {
        let ns = |value: Option<Nanos>| value.map_or(0.0, |ns| ns.0 as f64);
        Times {
            name,
            min: ns(histogram.min()),
            mean: histogram.mean_ns().unwrap_or(0.0),
            stddev: histogram.stddev_ns().unwrap_or(0.0),
            median: ns(histogram.quantile(0.5)),
            max: ns(histogram.max()),
        }
    }
}

fn rows(outcome: &LoadOutcome) -> [Times; 4] {
    let mut connect = outcome.connect.clone();
    let reused = outcome.response.count().saturating_sub(connect.count());
    connect.record_n(Nanos(0), reused);
    [
        Times::of("Connect", &connect),
        Times::of("Processing", &outcome.service),
        Times::of("Waiting", &outcome.first_byte),
        Times::of("Total", &outcome.response),
    ]
}

fn times(text: &mut String, outcome: &LoadOutcome, options: &Options) {
    let rows = rows(outcome);
    *text += "Connection Times (ms)\n";
    if options.no_confidence {
        *text += "              min   avg   max\n";
        for row in &rows {
            let [min, mean, max] = [row.min, row.mean, row.max].map(milliseconds);
            let _ = writeln!(
                text,
                "{:<12}{min:>5} {mean:>5}{max:>5}",
                format!("{}:", row.name)
            );
        }
        return;
    }
    *text += "              min  mean[+/-sd] median   max\n";
    for row in &rows {
        let [min, mean, median, max] = [row.min, row.mean, row.median, row.max].map(milliseconds);
        let _ = writeln!(
            text,
            "{:<12}{min:>5} {mean:>4} {:>5.1} {median:>6} {max:>7}",
            format!("{}:", row.name),
            row.stddev / 1e6
        );
    }
    let names = [
        "the initial connection time",
        "the processing time",
        "the waiting time",
        "the total time",
    ];
    for (row, name) in rows.iter().zip(names) {
        doubt(text, row, name);
    }
}

/// What the tool says when mean and median lie further apart than the values scatter.
fn doubt(text: &mut String, row: &Times, name: &str) {
    let apart = (row.mean - row.median).abs();
    if apart > 2.0 * row.stddev {
        let _ = writeln!(
            text,
            "ERROR: The median and mean for {name} are more than twice the standard\n       deviation apart. These results are NOT reliable."
        );
    } else if apart > row.stddev {
        let _ = writeln!(
            text,
            "WARNING: The median and mean for {name} are not within a normal deviation\n        These results are probably not that reliable."
        );
    }
}

fn html(
    spec: &LoadSpec,
    outcome: &LoadOutcome,
    options: &Options,
    [table, tr, td]: &[String; 3],
) -> String {
    let mut text = format!("\n\n<table {}>\n", escaped(table));
    let (tr, td) = (escaped(tr), escaped(td));
    let plain = |row: Option<(&'static str, String)>| {
        row.filter(|(label, _)| !label.is_empty() && !label.starts_with('('))
    };
    for (label, value) in head(spec, outcome, options).into_iter().filter_map(plain) {
        // A table has one time a request too many for its three columns, and leaves both out.
        let value = match label {
            "Time per request" => continue,
            "Requests per second" => value.replace(" [#/sec] (mean)", ""),
            "Transfer rate" => value.replace("[Kbytes/sec]", "kb/s"),
            _ => escaped(&value),
        };
        let _ = writeln!(
            text,
            "<tr {tr}><th colspan=2 {td}>{label}:</th><td colspan=2 {td}>{value}</td></tr>"
        );
    }
    if outcome.response.count() > 0 {
        let _ = writeln!(
            text,
            "<tr {tr}><th {td} colspan=4>Connection Times (ms)</th></tr>"
        );
        let _ = writeln!(
            text,
            "<tr {tr}><th {td}>&nbsp;</th> <th {td}>min</th>   <th {td}>avg</th>   <th {td}>max</th></tr>"
        );
        for row in rows(outcome).iter().filter(|row| row.name != "Waiting") {
            let [min, mean, max] = [row.min, row.mean, row.max].map(milliseconds);
            let _ = writeln!(
                text,
                "<tr {tr}><th {td}>{}:</th><td {td}>{min:>5}</td><td {td}>{mean:>5}</td><td {td}>{max:>5}</td></tr>",
                row.name
            );
        }
    }
    text + "</table>\n"
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

/// Percent from 0 to 100 with the response time, ns, within which so many were served; empty without a success.
pub(super) fn served(histogram: &Histogram) -> Vec<(u32, f64)> {
    let value = |percent| match percent {
        0 => histogram.min(),
        percent => histogram.quantile(f64::from(percent) / 100.0),
    };
    let all = (0..=100).filter_map(|percent| Some((percent, value(percent)?.0 as f64)));
    all.collect()
}

/// The file of `-e`.
pub fn csv(outcome: &LoadOutcome) -> String {
    let mut text = "Percentage served,Time in ms\n".to_owned();
    for (percent, ns) in served(&outcome.response) {
        let _ = writeln!(text, "{percent},{:.3}", ns / 1e6);
    }
    text
}

/// The file of `-g`: requests from the fastest to the slowest. `date` gives a moment of the run's clock as the tool
/// writes it, and in seconds since 1970.
pub fn gnuplot(log: &[LoggedRequest], date: &dyn Fn(Nanos) -> (String, i64)) -> String {
    let total = |r: &LoggedRequest| r.done_at.since(r.sent_at).0 + r.connect_ns;
    let mut log = log.to_vec();
    log.sort_by_key(total);
    let mut text = "starttime\tseconds\tctime\tdtime\tttime\twait\n".to_owned();
    for request in &log {
        let (text_date, epoch_s) =
            date(Nanos(request.sent_at.0.saturating_sub(request.connect_ns)));
        let dtime = request.done_at.since(request.sent_at).0;
        let wait = request.first_byte_at.since(request.sent_at).0;
        let times = [request.connect_ns, dtime, total(request), wait];
        let [c, d, t, w] = times.map(|ns| milliseconds(ns as f64));
        let _ = writeln!(text, "{text_date}\t{epoch_s}\t{c}\t{d}\t{t}\t{w}");
    }
    text
}

fn quantile_ns(histogram: &Histogram, percent: u32) -> f64 {
    let ns = histogram.quantile(f64::from(percent) / 100.0);
    ns.map_or(0.0, |ns| ns.0 as f64)
}

/// Whole milliseconds, rounded.
fn milliseconds(ns: f64) -> u64 {
    (ns / 1e6).round() as u64
}
