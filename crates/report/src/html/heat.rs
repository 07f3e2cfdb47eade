//! Heat maps of sweeps over two factors: rate, p99 and gain, as tables whose cells are coloured.
//!
//! Tables, so that every number can be read, traced and copied, with colours or without. With more than two factors
//! there is one set of maps for each setting of the others.

use crate::intervals::shown;
use crate::number::{Number, Source, Unit};
use analysis::{Cell, Levels, Stage, words};
use serde::Serialize;
use std::cmp::Ordering;

/// The maps of one setting of the other factors.
#[derive(Debug, Serialize)]
pub struct HeatView {
    setting: String,
    rows_factor: String,
    columns_factor: String,
    columns: Vec<String>,
    maps: Vec<HeatMap>,
}

#[derive(Debug, Serialize)]
struct HeatMap {
    name: &'static str,
    /// `more` and `less` colour away from no change; `plain` from the smallest to the largest.
    note: &'static str,
    rows: Vec<HeatRow>,
}

#[derive(Debug, Serialize)]
struct HeatRow {
    level: String,
    cells: Vec<HeatCell>,
}

#[derive(Debug, Serialize)]
struct HeatCell {
    number: Option<Number>,
    /// Strength of the colour, per cent.
    heat: String,
    tone: &'static str,
    /// Why there is no number.
    gap: &'static str,
}

/// Settings of further factors that get maps; more of them are better read in the table.
const SETTINGS_MAX: usize = 6;

/// A quantity that is mapped.
struct Quantity {
    name: &'static str,
    note: &'static str,
    field: &'static str,
    unit: Unit,
    scale: Scale,
    of: fn(&Cell) -> Option<f64>,
}

#[derive(Clone, Copy, PartialEq)]
enum Scale {
    Linear,
    Logarithmic,
    /// Logarithmic from 1 to both sides.
    AroundOne,
}

const QUANTITIES: [Quantity; 3] = [
    Quantity {
        name: "Rate, 1/s",
        note: "the stronger the colour, the more",
        field: "achieved_per_s/median",
        unit: Unit::PerSecond,
        scale: Scale::Linear,
        of: |c| c.achieved_per_s.map(|s| s.median),
    },
    Quantity {
        name: "p99 of the response time",
        note: "the stronger the colour, the longer; logarithmic",
        field: "response_ns_p99/median",
        unit: Unit::Nanos,
        scale: Scale::Logarithmic,
        of: |c| c.response_ns_p99.map(|s| s.median),
    },
    Quantity {
        name: "Rate against the baseline",
        note: "blue is faster, orange is slower; without colour: no difference shown",
        field: "rate_ratio/ratio",
        unit: Unit::Change,
        scale: Scale::AroundOne,
        of: |c| c.rate_ratio.map(|r| r.ratio),
    },
];

/// Maps of a stage with two factors or more that were varied; empty otherwise. `is_load` tells the factor that is the
/// load, which goes along the columns.
pub fn heat(
    cells: &[(usize, &Cell)],
    factors: &[String],
    planned: Option<&Stage>,
    is_load: impl Fn(&str) -> bool,
    source: &Source,
) -> Vec<HeatView> {
    let levels = |factor: &str| levels_of(factor, cells, planned);
    let varied: Vec<&String> = factors.iter().filter(|f| levels(f).len() > 1).collect();
    let Some(columns) = varied
        .iter()
        .find(|f| is_load(f))
        .or_else(|| varied.last())
        .filter(|_| varied.len() > 1)
    else {
        return Vec::new();
    };
    let in_baseline = |f: &str| planned.is_some_and(|s| s.baseline.contains_key(f));
    let others: Vec<&&String> = varied.iter().filter(|f| f != &columns).collect();
    let rows = others.iter().find(|f| in_baseline(f)).or(others.first());
    let Some(rows) = rows else {
        return Vec::new();
    };
    let setting = |cell: &Cell| -> Levels {
        let mut setting = cell.levels.clone();
        setting.retain(|factor, _| *factor != **columns && *factor != ***rows);
        setting.retain(|factor, _| varied.contains(&factor));
        setting
    };
    let mut settings: Vec<Levels> = Vec::new();
    for (_, cell) in cells {
        let of_cell = setting(cell);
        if !settings.contains(&of_cell) {
            settings.push(of_cell);
        }
    }
    settings.truncate(SETTINGS_MAX);
    settings
        .iter()
        .map(|wanted| {
            let here: Vec<(usize, &Cell)> = cells
                .iter()
                .filter(|(_, c)| setting(c) == *wanted)
                .copied()
                .collect();
            let (row_levels, column_levels) = (levels(rows), levels(columns));
            let maps = QUANTITIES
                .iter()
                .filter_map(|q| {
                    map(
                        q,
                        &here,
                        (rows, &row_levels),
                        (columns, &column_levels),
                        source,
                    )
                })
                .collect();
            HeatView {
                setting: match wanted.is_empty() {
                    true => String::new(),
                    false => words::levels(wanted),
                },
                rows_factor: (**rows).clone(),
                columns_factor: (**columns).clone(),
                columns: column_levels,
                maps,
            }
        })
        .collect()
}

/// Levels in the order of the plan; without one in that of the cells.
fn levels_of(factor: &str, cells: &[(usize, &Cell)], planned: Option<&Stage>) -> Vec<String> {
    let planned = planned.and_then(|s| s.factors.iter().find(|f| f.name == factor));
    let mut levels: Vec<String> = planned.map(|f| f.levels.clone()).unwrap_or_default();
    for level in cells.iter().filter_map(|(_, c)| c.levels.get(factor)) {
        if !levels.contains(level) {
            levels.push(level.clone());
        }
    }
    levels.retain(|l| cells.iter().any(|(_, c)| c.levels.get(factor) == Some(l)));
    levels
}

fn map(
    quantity: &Quantity,
    cells: &[(usize, &Cell)],
    (rows, row_levels): (&str, &[String]),
    (columns, column_levels): (&str, &[String]),
    source: &Source,
) -> Option<HeatMap> {
    let values: Vec<f64> = cells.iter().filter_map(|(_, c)| (quantity.of)(c)).collect();
    if values.is_empty() {
        return None;
    }
    let range = Range::over(&values, quantity.scale);
    let at = |row: &String, column: &String| {
        cells
            .iter()
            .find(|(_, c)| c.levels.get(rows) == Some(row) && c.levels.get(columns) == Some(column))
    };
    let cell = |row: &String, column: &String| match at(row, column) {
        Some((index, cell)) => heat_cell(quantity, *index, cell, range, source),
        None => HeatCell {
            number: None,
            heat: String::new(),
            tone: "none",
            gap: "not planned",
        },
    };
    Some(HeatMap {
        name: quantity.name,
        note: quantity.note,
        rows: row_levels
            .iter()
            .map(|row| HeatRow {
                level: row.clone(),
                cells: column_levels
                    .iter()
                    .map(|column| cell(row, column))
                    .collect(),
            })
            .collect(),
    })
}

fn heat_cell(
    quantity: &Quantity,
    index: usize,
    cell: &Cell,
    range: Range,
    source: &Source,
) -> HeatCell {
    let pointer = format!("/comparisons/{index}/{}", quantity.field);
    let value = (quantity.of)(cell);
    let tone = match (quantity.scale, value) {
        (Scale::AroundOne, Some(_)) => match cell.rate_ratio.and_then(shown) {
            Some(Ordering::Greater) => "more",
            Some(Ordering::Less) => "less",
            Some(Ordering::Equal) | None => "none",
        },
        (_, Some(_)) => "plain",
        (_, None) => "none",
    };
    HeatCell {
        number: value.and_then(|_| source.number(&pointer, quantity.unit)),
        heat: value.map_or_else(String::new, |v| format!("{:.0}", 100.0 * range.share(v))),
        tone,
        gap: match (!cell.is_measured(), quantity.scale) {
            (true, _) => "not measured",
            (false, Scale::AroundOne) if cell.no_ratio.is_some() => "too few pairs",
            (false, Scale::AroundOne) => "baseline",
            (false, _) => "–",
        },
    }
}

#[derive(Clone, Copy)]
struct Range {
    low: f64,
    high: f64,
    scale: Scale,
}

impl Range {
    fn over(values: &[f64], scale: Scale) -> Self {
        let mut range = Self {
            low: 0.0,
            high: 0.0,
            scale,
        };
        let mapped: Vec<f64> = values.iter().map(|v| range.mapped(*v)).collect();
        range.high = mapped.iter().copied().fold(f64::MIN, f64::max);
        range.low = match scale {
            Scale::AroundOne => 0.0,
            _ => mapped.iter().copied().fold(f64::MAX, f64::min),
        };
        range
    }

    fn mapped(self, value: f64) -> f64 {
        match self.scale {
            Scale::Linear => value,
            Scale::Logarithmic => value.max(f64::MIN_POSITIVE).ln(),
            Scale::AroundOne => value.max(f64::MIN_POSITIVE).ln().abs(),
        }
    }

    /// From 0, no colour, to 1.
    fn share(self, value: f64) -> f64 {
        let span = self.high - self.low;
        match span > 0.0 {
            true => ((self.mapped(value) - self.low) / span).clamp(0.0, 1.0),
            false => 0.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_span_from_the_smallest_to_the_largest() {
        for (values, scale, value, want) in [
            (&[10.0, 20.0, 30.0][..], Scale::Linear, 20.0, 0.5),
            (&[1.0, 100.0], Scale::Logarithmic, 10.0, 0.5),
            (&[0.5, 1.0, 1.5], Scale::AroundOne, 0.5, 1.0),
            (&[0.5, 2.0], Scale::AroundOne, 1.0, 0.0),
            // One value says nothing about more or less.
            (&[7.0], Scale::Linear, 7.0, 0.0),
        ] {
            let found = Range::over(values, scale).share(value);
            assert!((found - want).abs() < 1e-9, "{values:?}: {found}");
        }
    }
}
