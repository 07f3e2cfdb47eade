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
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LabRow {
    /// `connection each` or `keep-alive`.
    pub work: String,
    /// Who loads: `wrk`, `sockets` or `stack`.
    pub client: String,
    /// Who answers: `nginx`, `origin` or `emulated`.
    pub server: String,
    /// What is between them: `veth`, `tap` or `af_xdp`.
    pub over: String,
    /// Requests that were answered well.
    pub requests: u64,
    /// Requests that were not.
    pub failed: u64,
    /// Of the good ones.
    pub requests_per_s: f64,
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

/// The published schema of [`LabDocument`].
pub fn schema() -> serde_json::Value {
    schemars::schema_for!(LabDocument).to_value()
}

/// The document as text.
pub fn text(document: &LabDocument, style: Style) -> String {
    let nanos = |ns: u64| number(ns as f64, Unit::Nanos);
    let mut text = format!(
        "{} connections at a time, {} each, coalesced by {}; client on core {}, server on core {}\n",
        document.connections,
        nanos(document.duration_ns),
        nanos(document.coalesce_ns),
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
            number(row.requests_per_s, Unit::PerSecond),
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
            remarks: Vec::new(),
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
