//! Gain bars: each level against the baseline, with its interval, on one logarithmic scale a stage.
//!
//! Logarithmic, because half and twice are the same distance from no change. A bar whose interval holds no change is
//! drawn open: it is not a gain.

use crate::intervals::shown;
use crate::number::{Number, Source, Unit, text};
use analysis::{Cell, Ratio, words};
use serde::Serialize;
use std::cmp::Ordering;

/// The bars of a stage.
#[derive(Debug, Serialize)]
pub struct GainsView {
    metrics: Vec<MetricView>,
    rows: Vec<GainRow>,
}

#[derive(Debug, Serialize)]
struct MetricView {
    name: &'static str,
    better: &'static str,
    ticks: Vec<Tick>,
}

#[derive(Debug, Serialize)]
struct Tick {
    at: String,
    text: String,
}

#[derive(Debug, Serialize)]
struct GainRow {
    index: usize,
    levels: String,
    /// Why it has no bars.
    no_ratio: Option<String>,
    bars: Vec<Option<GainBar>>,
}

#[derive(Debug, Serialize)]
struct GainBar {
    svg: String,
    ratio: Option<Number>,
    low: Option<Number>,
    high: Option<Number>,
}

/// A metric: its head, which way is better, and where it stands in a cell.
struct Metric {
    name: &'static str,
    better: &'static str,
    field: &'static str,
    more_is_better: bool,
    of: fn(&Cell) -> Option<Ratio>,
}

const METRICS: [Metric; 2] = [
    Metric {
        name: "Rate",
        better: "right is faster",
        field: "rate_ratio",
        more_is_better: true,
        of: |c| c.rate_ratio,
    },
    Metric {
        name: "p99 of the response time",
        better: "left is faster",
        field: "p99_ratio",
        more_is_better: false,
        of: |c| c.p99_ratio,
    },
];

/// Least that the scale spans to each side: a noise of two per cent must not fill the figure.
const LEAST_SPAN: f64 = 1.1;
/// Ratios at which the axis may be marked.
const TICKS: [f64; 17] = [
    0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 0.8, 0.9, 1.0, 1.1, 1.25, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0,
];
/// Marks stand no closer, per cent of the width.
const TICKS_APART: f64 = 21.0;

/// Places on a scale from `1 / span` to `span`, in per cent.
#[derive(Clone, Copy)]
struct Scale {
    span: f64,
}

impl Scale {
    fn over(ratios: &[Ratio]) -> Self {
        let ends = ratios.iter().flat_map(|r| {
            let (low, high) = r.interval().unwrap_or((r.ratio, r.ratio));
            [low, high, r.ratio]
        });
        let far = ends
            .filter(|r| r.is_finite() && *r > 0.0)
            .map(|r| r.max(1.0 / r))
            .fold(LEAST_SPAN, f64::max);
        // A little room at both ends, so that the outermost mark is whole.
        Self {
            span: far.powf(1.06),
        }
    }

    fn place(self, ratio: f64) -> f64 {
        let share = 0.5 + 0.5 * ratio.max(f64::MIN_POSITIVE).ln() / self.span.ln();
        (100.0 * share).clamp(0.0, 100.0)
    }

    /// No change is always marked; the others where there is room, from the middle outwards.
    fn ticks(self) -> Vec<Tick> {
        let mut taken: Vec<(f64, f64)> = vec![(50.0, 1.0)];
        let mut candidates = TICKS.to_vec();
        candidates.sort_by(|a, b| b.ln().abs().total_cmp(&a.ln().abs()));
        for ratio in candidates {
            let at = self.place(ratio);
            let room = taken.iter().all(|(x, _)| (x - at).abs() >= TICKS_APART);
            // A mark at the very edge would be cut.
            if room && (8.0..=92.0).contains(&at) {
                taken.push((at, ratio));
            }
        }
        taken
            .into_iter()
            .map(|(at, ratio)| Tick {
                at: format!("{at:.1}"),
                text: match ratio {
                    1.0 => "0".to_owned(),
                    _ => text(ratio, Unit::Change),
                },
            })
            .collect()
    }
}

/// Bars of the cells that are compared with a baseline; `None` where no cell of the stage is.
pub fn gains(cells: &[(usize, &Cell)], source: &Source) -> Option<GainsView> {
    let metrics: Vec<&Metric> = METRICS
        .iter()
        .filter(|m| cells.iter().any(|(_, c)| (m.of)(c).is_some()))
        .collect();
    let scales: Vec<Scale> = metrics
        .iter()
        .map(|m| {
            let ratios: Vec<Ratio> = cells.iter().filter_map(|(_, c)| (m.of)(c)).collect();
            Scale::over(&ratios)
        })
        .collect();
    let compared = cells
        .iter()
        .filter(|(_, c)| c.no_ratio.is_some() || METRICS.iter().any(|m| (m.of)(c).is_some()));
    let row = |&(index, cell): &(usize, &Cell)| GainRow {
        index,
        levels: words::levels(&cell.levels),
        no_ratio: cell.no_ratio.clone(),
        bars: metrics
            .iter()
            .zip(&scales)
            .map(|(metric, scale)| {
                let at = format!("/comparisons/{index}/{}", metric.field);
                (metric.of)(cell).map(|ratio| bar(ratio, metric, *scale, &at, source))
            })
            .collect(),
    };
    let rows: Vec<GainRow> = compared.map(row).collect();
    (!metrics.is_empty()).then(|| GainsView {
        metrics: metrics
            .iter()
            .zip(&scales)
            .map(|(m, scale)| MetricView {
                name: m.name,
                better: m.better,
                ticks: scale.ticks(),
            })
            .collect(),
        rows,
    })
}

fn bar(ratio: Ratio, metric: &Metric, scale: Scale, at: &str, source: &Source) -> GainBar {
    let number = |field: &str| source.number(&format!("{at}/{field}"), Unit::Change);
    let interval = ratio.interval();
    GainBar {
        svg: svg(ratio, metric, scale),
        ratio: number("ratio"),
        low: interval.and_then(|_| number("low")),
        high: interval.and_then(|_| number("high")),
    }
}

fn svg(ratio: Ratio, metric: &Metric, scale: Scale) -> String {
    let tone = match shown(ratio) {
        Some(Ordering::Greater) if metric.more_is_better => "better",
        Some(Ordering::Less) if !metric.more_is_better => "better",
        Some(Ordering::Greater | Ordering::Less) => "worse",
        Some(Ordering::Equal) | None => "open",
    };
    let (from, to) = (scale.place(1.0), scale.place(ratio.ratio));
    let (x, width) = (from.min(to), (from - to).abs());
    let range = ratio.interval().map_or_else(String::new, |(low, high)| {
        let (low, high) = (scale.place(low), scale.place(high));
        let cap = |x: f64| {
            format!("<line class=\"range\" x1=\"{x:.1}%\" x2=\"{x:.1}%\" y1=\"5\" y2=\"15\"/>")
        };
        format!(
            "<line class=\"range\" x1=\"{low:.1}%\" x2=\"{high:.1}%\" y1=\"10\" y2=\"10\"/>{}{}",
            cap(low),
            cap(high)
        )
    });
    format!(
        "<svg class=\"gain\" data-figure=\"gain\" width=\"100%\" height=\"20\" aria-hidden=\"true\"><rect class=\"{tone}\" x=\"{x:.1}%\" y=\"3\" width=\"{width:.1}%\" height=\"14\"/><line class=\"one\" x1=\"50%\" x2=\"50%\" y1=\"0\" y2=\"20\"/>{range}</svg>"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By its stored form, which has defaults for what a test does not care about.
    fn ratio(ratio: f64, low: f64, high: f64, pairs: u32) -> Ratio {
        let excludes_one = low > 1.0 || high < 1.0;
        let p = (pairs >= 3).then_some(if excludes_one { 0.01 } else { 0.5 });
        let stored = serde_json::json!({
            "ratio": ratio, "low": low, "high": high, "pairs": pairs, "coverage": 0.95, "p_adjusted": p,
        });
        serde_json::from_value(stored).unwrap()
    }

    #[test]
    fn half_and_twice_are_as_far_from_no_change() {
        let scale = Scale::over(&[ratio(2.0, 1.9, 2.2, 6)]);
        assert!((scale.place(0.5) + scale.place(2.0) - 100.0).abs() < 1e-9);
        assert_eq!(scale.place(1.0), 50.0);
        assert!(scale.place(2.2) < 99.0);
        let ticks = scale.ticks();
        assert!(ticks.iter().any(|t| t.text == "+100 %"), "{ticks:?}");
        // A stage of noise alone keeps its scale.
        assert!(Scale::over(&[ratio(1.001, 0.999, 1.002, 6)]).span > 1.1);
    }

    #[test]
    fn only_what_is_shown_is_coloured() {
        let scale = Scale { span: 2.0 };
        for (ratio, metric, tone) in [
            (ratio(1.5, 1.4, 1.6, 6), 0, "better"),
            (ratio(0.5, 0.4, 0.6, 6), 0, "worse"),
            (ratio(0.5, 0.4, 0.6, 6), 1, "better"),
            (ratio(1.5, 0.9, 1.6, 6), 0, "open"),
            // Two pairs give no interval, however far the ratio is from 1.
            (ratio(1.5, 1.4, 1.6, 2), 0, "open"),
        ] {
            let svg = svg(ratio, &METRICS[metric], scale);
            assert!(svg.contains(&format!("class=\"{tone}\"")), "{svg}");
        }
    }
}
