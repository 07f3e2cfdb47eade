//! The verdict as the page shows it: what is valid, what limits, why, what to do, and the numbers behind it.

use super::levels_text;
use crate::number::{Number, Source, Unit, unit_named};
use analysis::{Knee, RunAnalysis, Verdict};
use serde::Serialize;

/// A verdict with its evidence.
#[derive(Debug, Serialize)]
pub struct VerdictView {
    /// Where the verdict stands in the analysis.
    at: String,
    valid: bool,
    limit: &'static str,
    resource: String,
    why: String,
    remedy: String,
    evidence: Vec<EvidenceView>,
}

#[derive(Debug, Serialize)]
struct EvidenceView {
    signal: String,
    value: Option<Number>,
    threshold: Option<Number>,
    unit: String,
    source: String,
}

/// A knee in words and numbers.
#[derive(Debug, Serialize)]
pub struct KneeView {
    index: usize,
    stage: String,
    levels: String,
    axis_words: String,
    at: Option<Number>,
    achieved_per_s: Option<Number>,
    response_ns_p99: Option<Number>,
    method: String,
}

impl VerdictView {
    /// `verdict`, which stands at `pointer` in the analysis.
    pub fn new(verdict: &Verdict, source: &Source, pointer: &str) -> Self {
        let evidence = verdict.evidence.iter().enumerate().map(|(i, e)| {
            let (unit, rest) = unit_named(&e.unit);
            let number =
                |field: &str| source.number(&format!("{pointer}/evidence/{i}/{field}"), unit);
            EvidenceView {
                signal: e.signal.clone(),
                value: number("value"),
                threshold: number("threshold"),
                unit: rest.to_owned(),
                source: e.source.clone(),
            }
        });
        Self {
            at: pointer.to_owned(),
            valid: verdict.valid,
            limit: verdict.limit.name(),
            resource: verdict.resource.replace('_', " "),
            why: verdict.why.clone(),
            remedy: verdict.remedy.clone(),
            evidence: evidence.collect(),
        }
    }
}

/// All knees of the run.
pub fn knees(analysis: &RunAnalysis, source: &Source) -> Vec<KneeView> {
    let view = |(i, knee): (usize, &Knee)| {
        let number = |field: &str, unit| source.number(&format!("/knees/{i}/{field}"), unit);
        let closed_loop = knee.axis == "connections";
        KneeView {
            index: i,
            stage: knee.stage.clone(),
            levels: levels_text(&knee.levels),
            axis_words: knee
                .axis
                .replace("offered_per_s", "requests per second offered"),
            at: number(
                "at",
                if closed_loop {
                    Unit::Count
                } else {
                    Unit::PerSecond
                },
            ),
            achieved_per_s: number("achieved_per_s", Unit::PerSecond),
            response_ns_p99: number("response_ns_p99", Unit::Nanos),
            method: knee.method.clone(),
        }
    };
    analysis.knees.iter().enumerate().map(view).collect()
}
