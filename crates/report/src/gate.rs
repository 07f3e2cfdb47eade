//! A gate as Markdown, for the summary of a pull request.

use crate::markdown::escaped;
use analysis::words::{levels, percent};
use analysis::{Gate, GateFigure, GateReading, GateResult, GateRow};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;

/// What `prony gate --json` prints.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GateDocument {
    /// Version of this document.
    pub format: u32,
    pub question: String,
    #[serde(flatten)]
    pub gate: Gate,
}

/// The schema of [`GateDocument`].
pub fn schema() -> serde_json::Value {
    schemars::schema_for!(GateDocument).to_value()
}

/// The gate in GitHub's dialect of Markdown.
pub fn gate_markdown(document: &GateDocument) -> String {
    let gate = &document.gate;
    let allowed = percent(gate.options.threshold);
    let said = match gate.result {
        GateResult::Passed => format!("**passed**: nothing is worse by more than {allowed}"),
        GateResult::Failed if gate.silent.iter().any(|silent| silent.broken) => {
            "**failed**: the server does not run".to_owned()
        }
        GateResult::Failed => match gate.rows.iter().any(|r| r.reading == GateReading::Worse) {
            true => format!("**failed**: certainly worse by more than {allowed}"),
            false => "**failed**: more system calls for each request".to_owned(),
        },
        GateResult::Undecided => {
            format!("**not decided**, and so no failure: this host cannot tell {allowed} here")
        }
    };
    let mut text = format!("### {}\n\n{said}\n", escaped(&document.question));
    if !gate.rows.is_empty() {
        text += "\n| | figure | against the baseline | 95 % interval | smallest effect seen | |\n|---|---|---|---|---|---|\n";
        for row in &gate.rows {
            text += &line(row);
        }
    }
    for calls in gate.calls.iter().filter(|calls| !calls.changes.is_empty()) {
        let cell = escaped(&levels(&calls.levels));
        let mark = if calls.more {
            "**more calls for each request**"
        } else {
            "calls for each request"
        };
        write!(text, "\n{mark}, {cell}:").expect("a string takes all");
        for change in &calls.changes {
            write!(
                text,
                " {} `{}` {:.2} → {:.2};",
                escaped(&change.target),
                change.call,
                change.before,
                change.after
            )
            .expect("a string takes all");
        }
        text.push('\n');
    }
    for silent in &gate.silent {
        writeln!(
            text,
            "\n{}: {}",
            escaped(&levels(&silent.levels)),
            escaped(&silent.why)
        )
        .expect("a string takes all");
    }
    text
}

fn line(row: &GateRow) -> String {
    let figure = match row.figure {
        GateFigure::RatePerS => "rate",
        GateFigure::ResponseNsP99 => "p99",
        GateFigure::CpuUsPerRequest => "CPU per request",
    };
    let reading = match row.reading {
        GateReading::Worse => "**worse**",
        GateReading::Held => "held",
        GateReading::Undecided => "not decided",
    };
    let change = |ratio: f64| format!("{:+.1} %", (ratio - 1.0) * 1e2);
    let smallest = row.ratio.smallest_effect;
    format!(
        "| {} | {figure} | {} | {} to {} | {} | {reading} |\n",
        escaped(&levels(&row.levels)),
        change(row.ratio.ratio),
        change(row.ratio.low),
        change(row.ratio.high),
        smallest.map_or_else(|| "-".to_owned(), percent),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use analysis::{GateOptions, GateSilent};

    #[test]
    fn what_cannot_be_told_is_said_to_be_no_failure() {
        let document = GateDocument {
            format: 1,
            question: "a|b?".to_owned(),
            gate: Gate {
                options: GateOptions {
                    threshold: 0.05,
                    tolerance: 0.02,
                },
                result: GateResult::Undecided,
                rows: Vec::new(),
                calls: Vec::new(),
                silent: vec![GateSilent {
                    stage: "main".to_owned(),
                    levels: [("build".to_owned(), "head".to_owned())].into(),
                    why: "3 of 6 trials are valid".to_owned(),
                    broken: false,
                }],
            },
        };
        let text = gate_markdown(&document);
        assert!(text.starts_with("### a\\|b?\n\n**not decided**"), "{text}");
        assert!(text.contains("3 of 6 trials are valid"), "{text}");
    }
}
