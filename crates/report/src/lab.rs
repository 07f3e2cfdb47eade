//! What `prony traffic --lab` shows: the same work by the kernel's TCP and by prony's own, on either side.
//!
//! One document, as `--json` (`schema/lab.schema.json`) and as text. The surprise: CPU times are absent, not zero,
//! where the packets of one side could not be kept from the other side's core.

use crate::number::{Unit, text as number};
use crate::text::table::columns;
use crate::text::{Style, warnings_text};
use record::Warning;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Version of the document; it rises when a name changes its meaning or goes.
const FORMAT: u32 = 1;

/// What `prony traffic --lab --json` prints.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LabDocument {
    /// Version of this document.
    pub format: u32,
    /// Connections at one time.
    pub connections: u32,
    /// Length of each load, ns.
    pub duration_ns: u64,
    /// Coalescing of the sides that run prony's own TCP, ns; 0 looks without a pause.
    pub coalesce_ns: u64,
    /// Bytes of a response's body.
    #[serde(default)]
    pub body_bytes: u64,
    /// Segments that a server sent before the first acknowledgement; `null` is each TCP's default.
    #[serde(default)]
    pub initial_window: Option<u32>,
    /// How often everything was run, in turns; a row holds medians.
    #[serde(default)]
    pub rounds: u32,
    /// The client side's core.
    pub client_cpu: u32,
    /// The server side's core.
    pub server_cpu: u32,
    /// How packets were led to the core of the side that causes them; `null` when CPU times are not to be compared.
    pub charging: Option<String>,
    /// The runs, in their order.
    pub rows: Vec<LabRow>,
    /// It was stopped before its end.
    pub interrupted: bool,
    /// What a reader must know.
    pub warnings: Vec<LabWarning>,
}

/// One run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LabRow {
    /// `connection each` or `keep-alive`.
    pub work: String,
    /// Who loads: `wrk`, `sockets` or `stack`.
    pub client: String,
    /// Who answers: `nginx`, `origin` or `emulated`.
    pub server: String,
    /// What is between them: `veth`, `tap` or `af_xdp`.
    pub over: String,
    /// Requests that were answered well, in all rounds.
    pub requests: u64,
    /// Requests that were not, in all rounds.
    pub failed: u64,
    /// Of the good ones.
    pub requests_per_s: f64,
    /// Least of a round.
    #[serde(default)]
    pub requests_per_s_least: f64,
    /// Most of a round.
    #[serde(default)]
    pub requests_per_s_most: f64,
    /// Time of the client side's core for a request, softirq included; `null` when it is not to be compared.
    pub client_cpu_us: Option<f64>,
    /// The same of the server side's core.
    pub server_cpu_us: Option<f64>,
    /// Share of the time that the client side's core was busy.
    pub client_busy: f64,
    /// The same of the server side's core.
    pub server_busy: f64,
    /// Median response time; `null` where the client does not say.
    pub p50_ns: Option<u64>,
    /// 99th percentile.
    pub p99_ns: Option<u64>,
    /// What the figures of this row do not show.
    pub remarks: Vec<String>,
}

/// A warning with its remedy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LabWarning {
    /// What was seen.
    pub seen: String,
    /// What to do about it.
    pub remedy: String,
}

impl LabDocument {
    /// One without runs.
    pub fn new(connections: u32, duration_ns: u64, coalesce_ns: u64) -> Self {
        Self {
            format: FORMAT,
            connections,
            duration_ns,
            coalesce_ns,
            body_bytes: 0,
            initial_window: None,
            rounds: 1,
            client_cpu: 0,
            server_cpu: 0,
            charging: None,
            rows: Vec::new(),
            interrupted: false,
            warnings: Vec::new(),
        }
    }
}

impl LabRow {
    /// The rows of several rounds, of which the last may have been stopped: medians, each with its remarks.
    pub fn medians(rounds: &[Vec<LabRow>], coalesce_ns: u64) -> Vec<LabRow> {
        let rows = rounds.iter().map(Vec::len).max().unwrap_or(0);
        let of = |at: usize| -> Vec<&LabRow> { rounds.iter().filter_map(|r| r.get(at)).collect() };
        (0..rows).map(|at| median(&of(at), coalesce_ns)).collect()
    }

    /// What the figures do not show by themselves.
    pub fn remarks(&self, coalesce_ns: u64) -> Vec<String> {
        /// A core with less time off than that decides the rate.
        const FULL: f64 = 0.95;
        let mut remarks = Vec::new();
        if self.server_busy >= FULL {
            remarks.push("server core full".to_owned());
        } else if self.client_busy >= FULL {
            remarks.push("client core full".to_owned());
        }
        if self.over != "veth" && coalesce_ns > 0 {
            // What gathers at one end arrives in bursts at the other, which then has less to do for each.
            remarks.push("packets come in bursts".to_owned());
        }
        if self.failed > 0 {
            remarks.push(format!(
                "{} failed",
                number(self.failed as f64, Unit::Count)
            ));
        }
        remarks
    }
}

/// One row of the same run in several rounds.
fn median(rows: &[&LabRow], coalesce_ns: u64) -> LabRow {
    let of = |get: fn(&LabRow) -> f64| middle(rows.iter().map(|row| get(row)).collect());
    let known = |get: fn(&LabRow) -> Option<f64>| {
        let values: Vec<f64> = rows.iter().filter_map(|row| get(row)).collect();
        (!values.is_empty()).then(|| middle(values))
    };
    let rates = || rows.iter().map(|row| row.requests_per_s);
    let first = rows[0].clone();
    let mut row = LabRow {
        requests: rows.iter().map(|row| row.requests).sum(),
        failed: rows.iter().map(|row| row.failed).sum(),
        requests_per_s: of(|row| row.requests_per_s),
        requests_per_s_least: rates().fold(f64::INFINITY, f64::min),
        requests_per_s_most: rates().fold(0.0, f64::max),
        client_cpu_us: known(|row| row.client_cpu_us),
        server_cpu_us: known(|row| row.server_cpu_us),
        client_busy: of(|row| row.client_busy),
        server_busy: of(|row| row.server_busy),
        p50_ns: known(|row| row.p50_ns.map(|ns| ns as f64)).map(|ns| ns as u64),
        p99_ns: known(|row| row.p99_ns.map(|ns| ns as f64)).map(|ns| ns as u64),
        ..first
    };
    row.remarks = row.remarks(coalesce_ns);
    row
}

/// The median; of an even number the mean of the two in the middle.
fn middle(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let half = values.len() / 2;
    match values.len() % 2 {
        1 => values[half],
        _ => f64::midpoint(values[half - 1], values[half]),
    }
}

/// The published schema of [`LabDocument`].
pub fn schema() -> serde_json::Value {
    schemars::schema_for!(LabDocument).to_value()
}

/// The document as text.
pub fn text(document: &LabDocument, style: Style) -> String {
    let nanos = |ns: u64| number(ns as f64, Unit::Nanos);
    let mut text = format!(
        "bodies of {}, {} connections at a time, {} each, coalesced by {}{}{}; client on core {}, server on core {}\n",
        number(document.body_bytes as f64, Unit::Bytes),
        document.connections,
        nanos(document.duration_ns),
        nanos(document.coalesce_ns),
        match document.initial_window {
            Some(segments) => format!(", initial window {segments}"),
            None => String::new(),
        },
        match document.rounds {
            0 | 1 => String::new(),
            rounds => format!(", medians of {rounds} rounds with the least and the most"),
        },
        document.client_cpu,
        document.server_cpu
    );
    text += &match &document.charging {
        Some(how) => format!("CPU: {how}\n\n"),
        None => format!("{}\n\n", style.doubtful("CPU times are not compared")),
    };
    text += &columns(&rows(document), |column| column < 4 || column == REMARKS);
    let warnings: Vec<Warning> = document
        .warnings
        .iter()
        .map(|w| Warning::new("lab", w.seen.clone(), w.remedy.clone()))
        .collect();
    if !warnings.is_empty() {
        text.push('\n');
        text += &warnings_text(&warnings, style);
    }
    text
}

/// The column of the remarks.
const REMARKS: usize = 10;

fn rows(document: &LabDocument) -> Vec<Vec<String>> {
    let head = [
        "work",
        "client",
        "server",
        "over",
        "1/s",
        "client CPU",
        "server CPU",
        "busy",
        "p50",
        "p99",
        "",
    ];
    let or_dash = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for row in &document.rows {
        let cpu = |us: Option<f64>| or_dash(us.map(|us| number(us, Unit::Micros)));
        let time = |ns: Option<u64>| or_dash(ns.map(|ns| number(ns as f64, Unit::Nanos)));
        let busy = [row.client_busy, row.server_busy].map(|share| number(share, Unit::Share));
        rows.push(vec![
            row.work.clone(),
            row.client.clone(),
            row.server.clone(),
            row.over.clone(),
            rate(row, document.rounds),
            cpu(row.client_cpu_us),
            cpu(row.server_cpu_us),
            busy.join(" / "),
            time(row.p50_ns),
            time(row.p99_ns),
            row.remarks.join(", "),
        ]);
    }
    rows
}

/// Requests a second, and between which of the rounds they lie.
fn rate(row: &LabRow, rounds: u32) -> String {
    let per_s = |rate: f64| number(rate, Unit::PerSecond);
    match rounds {
        0 | 1 => per_s(row.requests_per_s),
        _ => format!(
            "{} ({} to {})",
            per_s(row.requests_per_s),
            per_s(row.requests_per_s_least),
            per_s(row.requests_per_s_most)
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(busy: (f64, f64), over: &str) -> LabRow {
        LabRow {
            work: "keep-alive".to_owned(),
            client: "stack".to_owned(),
            server: "nginx".to_owned(),
            over: over.to_owned(),
            requests: 100_000,
            failed: 0,
            requests_per_s: 50_000.0,
            client_cpu_us: Some(4.0),
            server_cpu_us: Some(19.6),
            client_busy: busy.0,
            server_busy: busy.1,
            p50_ns: Some(1_500_000),
            p99_ns: None,
            ..LabRow::default()
        }
    }

    #[test]
    fn remarks_say_what_decides_a_row() {
        assert_eq!(
            row((0.4, 0.99), "tap").remarks(50_000),
            ["server core full", "packets come in bursts"]
        );
        assert_eq!(
            row((0.99, 0.5), "veth").remarks(50_000),
            ["client core full"]
        );
        let failed = LabRow {
            failed: 3,
            ..row((0.1, 0.1), "af_xdp")
        };
        assert_eq!(failed.remarks(0), ["3 failed"]);
    }

    #[test]
    fn rounds_give_medians_with_the_least_and_the_most_and_a_stopped_one_counts() {
        let of_rate = |requests_per_s: f64, p50_ns| LabRow {
            requests_per_s,
            p50_ns,
            failed: 1,
            ..row((0.4, 0.99), "tap")
        };
        let rounds = [
            vec![of_rate(50.0, Some(9)), of_rate(7.0, None)],
            vec![of_rate(70.0, Some(5)), of_rate(9.0, None)],
            vec![of_rate(60.0, Some(6))],
        ];
        let rows = LabRow::medians(&rounds, 0);
        assert_eq!(rows.len(), 2);
        let of = |row: &LabRow| {
            let (least, most) = (row.requests_per_s_least, row.requests_per_s_most);
            (row.requests_per_s, least, most)
        };
        assert_eq!(of(&rows[0]), (60.0, 50.0, 70.0));
        assert_eq!((rows[0].p50_ns, rows[0].failed), (Some(6), 3));
        assert_eq!(of(&rows[1]), (8.0, 7.0, 9.0));
        assert_eq!(rows[1].remarks, ["server core full", "2 failed"]);
        assert!(LabRow::medians(&[], 0).is_empty());
    }

    #[test]
    fn the_text_has_a_line_for_each_run_and_says_when_cpu_is_not_compared() {
        let mut document = LabDocument::new(256, 2_000_000_000, 50_000);
        document.rows = vec![LabRow {
            client_cpu_us: None,
            ..row((0.4, 0.99), "tap")
        }];
        let shown = text(&document, Style::Plain);
        assert!(shown.contains("CPU times are not compared"), "{shown}");
        let line = shown.lines().last().unwrap();
        assert!(
            line.starts_with("keep-alive  stack   nginx   tap "),
            "{shown}"
        );
        assert!(line.contains("50,000") && line.contains(" - ") && line.contains("19.6 us"));
    }
}
