//! The first screen: the answer in three lines, and one picture that shows it.

use super::curves::Curves;
use crate::conclusion::{Said, Sentence, answer_lines};
use crate::json::RunDocument;
use crate::number::{Number, Source, Unit, trimmed};
use analysis::words::levels as levels_words;
use analysis::{Answer, AnswerKind, AnswerMetric, Cell, Levels, Spread};
use record::PROOF_STAGE;
use serde::Serialize;

/// The answer as the page shows it.
#[derive(Debug, Serialize)]
pub struct AnswerView {
    answered: bool,
    valid: bool,
    /// Said where the figures may not be used, unless the answer says the same.
    why_not: String,
    lines: Vec<LineView>,
    bars: Option<BarsView>,
    /// The curve that shows it, by its index in the plot data; the stage then leaves it out.
    curve: Option<usize>,
    curve_words: &'static str,
    curve_knee: bool,
}

#[derive(Debug, Serialize)]
struct LineView {
    label: &'static str,
    said: Said,
    sentence: Sentence,
}

/// A bar for each level, so that two can be compared.
#[derive(Debug, Serialize)]
struct BarsView {
    caption: String,
    rows: Vec<BarRow>,
}

#[derive(Debug, Serialize)]
struct BarRow {
    index: usize,
    name: String,
    /// `worse`, `better`, or nothing for the baseline and what shows no difference.
    tone: &'static str,
    value: Option<Number>,
    width: String,
    low: String,
    span: String,
}

/// More bars than this are a table.
const MOST_BARS: usize = 8;

/// The answer of the document; `None` in one of an earlier version.
pub fn answer(document: &RunDocument, curves: &[Curves]) -> Option<AnswerView> {
    let answer = &document.answer.as_ref()?.answer;
    let within = Source::at("", "/answer", answer);
    let curve = curve(answer, curves);
    let verdict = &document.verdict;
    let repeated = answer
        .unanswered
        .as_ref()
        .is_some_and(|u| u.why == verdict.why);
    let lines = answer_lines(answer, &within);
    Some(AnswerView {
        answered: answer.kind != AnswerKind::NotAnswered,
        valid: verdict.valid,
        why_not: match verdict.valid || repeated {
            true => String::new(),
            false => verdict.why.clone(),
        },
        lines: lines.into_iter().map(|s| line(s, answer.kind)).collect(),
        bars: match curve {
            Some(_) => None,
            None => bars(answer, document),
        },
        curve_words: curve.map_or("", |i| curves[i].axis.words()),
        curve_knee: curve.is_some_and(|i| curves[i].lines.iter().any(|l| l.knee_at.is_some())),
        curve,
    })
}

fn line(sentence: Sentence, kind: AnswerKind) -> LineView {
    LineView {
        label: match (sentence.said, kind) {
            (Said::Answer, _) => "Answer",
            (Said::Mechanism, AnswerKind::Capacity) => "What limits it",
            (Said::Mechanism, _) => "Why",
            _ => "What to do",
        },
        said: sentence.said,
        sentence,
    }
}

/// How much is held is a curve where the load was varied.
fn curve(answer: &Answer, curves: &[Curves]) -> Option<usize> {
    let capacity = answer.capacity.as_ref()?;
    curves.iter().position(|c| c.stage == capacity.stage)
}

fn bars(answer: &Answer, document: &RunDocument) -> Option<BarsView> {
    let stage = match (&answer.effect, &answer.capacity) {
        (Some(effect), _) => effect.stage.as_str(),
        (None, Some(capacity)) => capacity.stage.as_str(),
        (None, None) => document.comparisons.first()?.stage.as_str(),
    };
    let setting = answer.effect.as_ref().map(|e| &e.setting);
    let of = |cell: &Cell| -> Option<Spread> {
        match answer.metric {
            AnswerMetric::Rate => cell.achieved_per_s,
            AnswerMetric::P99 => cell.response_ns_p99,
            AnswerMetric::Cpu => cell.target_cpu_us_per_request,
        }
    };
    let shown: Vec<(usize, &Cell, Spread)> = document
        .comparisons
        .iter()
        .enumerate()
        .filter(|(_, c)| c.stage == stage && c.stage != PROOF_STAGE)
        .filter(|(_, c)| setting.is_none_or(|s| within(s, &c.levels)))
        .filter_map(|(i, c)| Some((i, c, of(c)?)))
        .take(MOST_BARS)
        .collect();
    let most = shown.iter().map(|(_, _, s)| s.max).fold(0.0, f64::max);
    let percent = |v: f64| trimmed(100.0 * v / most.max(f64::MIN_POSITIVE));
    let (field, unit, metric) = match answer.metric {
        AnswerMetric::Rate => ("achieved_per_s", Unit::PerSecond, "Successes per second"),
        AnswerMetric::P99 => ("response_ns_p99", Unit::Nanos, "p99 of the response time"),
        AnswerMetric::Cpu => (
            "target_cpu_us_per_request",
            Unit::Micros,
            "CPU of the servers per request",
        ),
    };
    let source = Source::at("", "/comparisons", &document.comparisons);
    let rows: Vec<BarRow> = shown
        .iter()
        .map(|(index, cell, spread)| BarRow {
            index: *index,
            name: name(&cell.levels, setting),
            tone: tone(answer, &cell.levels),
            value: source.number(&format!("/{index}/{field}/median"), unit),
            width: percent(spread.median),
            low: percent(spread.min),
            span: percent(spread.max - spread.min),
        })
        .collect();
    let place = match setting {
        Some(setting) if !setting.is_empty() => format!(" at {}", levels_words(setting)),
        _ => String::new(),
    };
    (!rows.is_empty()).then(|| BarsView {
        caption: format!("{metric}{place}: median, and the range of the valid trials"),
        rows,
    })
}

fn within(some: &Levels, all: &Levels) -> bool {
    some.iter().all(|(f, l)| all.get(f) == Some(l))
}

/// Levels without those of the setting, which the caption names.
fn name(levels: &Levels, setting: Option<&Levels>) -> String {
    let mut own = levels.clone();
    own.retain(|factor, _| setting.is_none_or(|s| !s.contains_key(factor)));
    levels_words(&own)
}

fn tone(answer: &Answer, levels: &Levels) -> &'static str {
    let effects = answer.effect.iter().chain(&answer.others);
    let of_level = |e: &&analysis::Effect| within(&e.to, levels) && within(&e.setting, levels);
    let Some(effect) = { effects }.find(of_level).filter(|e| e.is_shown()) else {
        return "";
    };
    let more = effect.ratio.ratio > 1.0;
    match (answer.metric, more) {
        (AnswerMetric::Rate, true) | (AnswerMetric::P99 | AnswerMetric::Cpu, false) => "better",
        _ => "worse",
    }
}
