//! One load as a page, with the search that it ended: `--out html=FILE`.
//!
//! Like the index it has no scripts: the figure is SVG. The surprise: both of its axes are logarithmic, because a
//! search doubles its rate and p99 leaps where a queue grows.

use super::flame::escaped;
use super::render;
use crate::json::LoadDocument;
use crate::text::find::{held, in_short};
use crate::text::limit_words;
use analysis::words::{count, percent, plural, rate};
use analysis::{Found, LatencySummary, Limit, RateSearch, SearchStep};
use record::{Bytes, Nanos};
use serde::Serialize;
use std::fmt::Write as _;

#[derive(Serialize)]
struct LoadPage<'a> {
    report_css: &'static str,
    document: &'a LoadDocument,
    limit: &'static str,
    search: Option<SearchView>,
    figures: Vec<(&'static str, String)>,
    latencies: Vec<Vec<String>>,
}

#[derive(Serialize)]
struct SearchView {
    summary: String,
    plan: String,
    ended: &'static str,
    badge: &'static str,
    tone: &'static str,
    figure: Option<String>,
    steps: Vec<StepView>,
}

#[derive(Serialize)]
struct StepView {
    number: u32,
    offered: String,
    achieved: String,
    p99: String,
    held: &'static str,
    tone: &'static str,
    why: String,
}

/// The page of a load.
pub fn load_page(document: &LoadDocument) -> String {
    let streams = document.event_streams.as_ref();
    let latencies = [
        ("gap between events", streams.and_then(|s| s.gap_ns)),
        ("first event", streams.and_then(|s| s.first_event_ns)),
        ("response time", document.latency_ns.response),
        ("service time", document.latency_ns.service),
        ("connect", document.latency_ns.connect),
        ("first byte", document.latency_ns.first_byte),
    ];
    let page = LoadPage {
        report_css: include_str!("../../assets/report.css"),
        document,
        limit: limit_words(document.verdict.limit),
        search: document.search.as_ref().map(search_view),
        figures: figures(document),
        latencies: latencies
            .into_iter()
            .filter_map(|(name, s)| Some(latency(name, s?)))
            .collect(),
    };
    render("load.html", &page)
}

fn per_s(of: Option<f64>) -> String {
    of.map_or_else(|| "–".to_owned(), |r| format!("{}/s", rate(r)))
}

/// What each connection was limited to; empty without a limit.
fn bandwidth(per_s: Option<u64>) -> String {
    per_s.map_or_else(String::new, |bytes| {
        format!(", each {}/s at most", Bytes(bytes))
    })
}

fn figures(document: &LoadDocument) -> Vec<(&'static str, String)> {
    let asked = &document.asked;
    let requests = &document.requests;
    let offered = match document.rate_per_s.offered {
        None if asked.sse => "the server's".to_owned(),
        None => "closed loop".to_owned(),
        offered => format!("{} offered", per_s(offered)),
    };
    let failed: u64 = requests.failed.values().sum();
    let busy = document.generator.utilization.map(percent);
    vec![
        (
            if asked.sse { "events of" } else { "request" },
            format!("{} {}", asked.method, asked.url),
        ),
        (
            "connections",
            count(u64::from(asked.connections)) + &bandwidth(asked.limit_rate_bytes_per_s),
        ),
        (
            "measured",
            Nanos((document.measured_s * 1e9) as u64).to_string(),
        ),
        (
            "rate",
            format!(
                "{offered}, {} achieved",
                per_s(document.rate_per_s.achieved)
            ),
        ),
        (
            if asked.sse { "events" } else { "requests" },
            format!(
                "{} sent, {} succeeded, {} failed, {} late, {} dropped",
                count(requests.sent),
                count(requests.succeeded),
                count(failed),
                count(requests.late),
                count(requests.dropped)
            ),
        ),
        (
            "generator",
            format!(
                "{} ({}), the busiest {} busy",
                plural(u64::from(document.generator.threads), "thread"),
                document.generator.engine,
                busy.unwrap_or_else(|| "–".to_owned())
            ),
        ),
    ]
}

fn latency(name: &str, s: LatencySummary) -> Vec<String> {
    let times = [
        s.min,
        s.mean.round() as u64,
        s.p50,
        s.p90,
        s.p99,
        s.p999,
        s.max,
    ];
    let times = times.into_iter().map(|ns| Nanos(ns).to_string());
    std::iter::once(name.to_owned()).chain(times).collect()
}

fn search_view(search: &RateSearch) -> SearchView {
    let (badge, tone) = match search.found {
        Found::Between => ("found", "valid"),
        Found::AtLeast => ("not whole", "invalid"),
        Found::NotHeld => ("not held", "invalid"),
        Found::NotValid => ("not valid", "invalid"),
    };
    SearchView {
        summary: search.summary(),
        plan: crate::text::search_plan_text(&search.plan)
            .trim_end()
            .to_owned(),
        ended: search.ended.map_or("", analysis::Ended::words),
        badge,
        tone,
        figure: figure(search),
        steps: search.steps.iter().map(step_view).collect(),
    }
}

fn step_view(step: &SearchStep) -> StepView {
    StepView {
        number: step.trial + 1,
        offered: per_s(Some(step.offered_per_s)),
        achieved: per_s(step.achieved_per_s),
        p99: step
            .response_ns_p99
            .map_or_else(|| "–".to_owned(), |p99| Nanos(p99).to_string()),
        held: held(step),
        tone: tone(step),
        why: match step.held {
            Some(true) => String::new(),
            _ => in_short(&step.why),
        },
    }
}

fn tone(step: &SearchStep) -> &'static str {
    match step.held {
        Some(true) => "held",
        Some(false) if step.limit != Limit::Generator => "failed",
        _ => "silent",
    }
}

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 260.0;
const LEFT: f64 = 62.0;
const BOTTOM: f64 = 34.0;
const MARGIN: f64 = 12.0;

/// A logarithmic axis, from and to in the units of the figure.
struct Axis {
    least: f64,
    most: f64,
    from: f64,
    to: f64,
}

impl Axis {
    fn new(values: impl Iterator<Item = f64> + Clone, from: f64, to: f64) -> Option<Self> {
        let least = values.clone().reduce(f64::min)? / 1.15;
        let most = values.reduce(f64::max)? * 1.15;
        (least > 0.0).then_some(Self {
            least,
            most,
            from,
            to,
        })
    }

    fn at(&self, value: f64) -> f64 {
        let share = (value / self.least).ln() / (self.most / self.least).ln();
        self.from + (self.to - self.from) * share.clamp(0.0, 1.0)
    }

    /// 1, 2 and 5 of each power of ten; of a long axis the powers alone.
    fn ticks(&self) -> Vec<f64> {
        let long = self.most / self.least > 200.0;
        let steps: &[f64] = if long { &[1.0] } else { &[1.0, 2.0, 5.0] };
        let decades = self.least.log10().floor() as i32..=self.most.log10().ceil() as i32;
        let all = decades.flat_map(|d| steps.iter().map(move |s| s * 10_f64.powi(d)));
        all.filter(|t| (self.least..=self.most).contains(t))
            .collect()
    }
}

/// p99 against the offered rate, a mark for each step, with the interval of the edge.
fn figure(search: &RateSearch) -> Option<String> {
    let marks = || {
        let steps = search.steps.iter();
        steps.filter_map(|s| Some((s, s.response_ns_p99.filter(|p99| *p99 > 0)? as f64)))
    };
    let x = Axis::new(marks().map(|(s, _)| s.offered_per_s), LEFT, WIDTH - MARGIN)?;
    let y = Axis::new(marks().map(|(_, p99)| p99), HEIGHT - BOTTOM, MARGIN)?;
    let mut svg = format!(
        "<svg class=\"steps\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"p99 of each step against its rate\">"
    );
    let mut write = |text: String| svg.push_str(&text);
    if let (Some(low), Some(high)) = (search.edge_low_per_s, search.edge_high_per_s) {
        let (low, high) = (x.at(low), x.at(high));
        write(format!(
            "<rect class=\"edge\" x=\"{low:.1}\" y=\"{MARGIN}\" width=\"{:.1}\" height=\"{:.1}\"/>",
            (high - low).max(1.0),
            HEIGHT - BOTTOM - MARGIN
        ));
    }
    for tick in x.ticks() {
        let (at, foot) = (x.at(tick), HEIGHT - BOTTOM);
        write(format!(
            "<line x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{MARGIN}\" y2=\"{foot}\"/><text x=\"{at:.1}\" y=\"{}\" \
             text-anchor=\"middle\">{}/s</text>",
            foot + 18.0,
            rate(tick)
        ));
    }
    for tick in y.ticks() {
        let (at, end) = (y.at(tick), WIDTH - MARGIN);
        write(format!(
            "<line x1=\"{LEFT}\" x2=\"{end}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/><text x=\"{}\" y=\"{:.1}\" \
             text-anchor=\"end\">{}</text>",
            LEFT - 6.0,
            at + 4.0,
            Nanos(tick as u64)
        ));
    }
    for (step, p99) in marks() {
        let mut title = format!(
            "step {}: {}/s, p99 ",
            step.trial + 1,
            rate(step.offered_per_s)
        );
        let _ = write!(title, "{}, {}", Nanos(p99 as u64), held(step));
        write(format!(
            "<circle class=\"{}\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"5\"><title>{}</title></circle>",
            tone(step),
            x.at(step.offered_per_s),
            y.at(p99),
            escaped(&title)
        ));
    }
    Some(svg + "</svg>")
}
