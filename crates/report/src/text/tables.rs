//! The tables that an experiment asks for, on a terminal.
//!
//! Where the rows are levels, gains are columns of their own behind the values, as in a cookbook; where the rows are
//! figures, the gain stands behind its value, as in a before/after table.

use super::style::Style;
use super::table::columns;
use super::wrap::wrapped;
use crate::number::{text, unit_named};
use analysis::words::{percent, plural};
use analysis::{Gain, Table, TableRow, TableValue};

/// All of them, each with its title and its notes.
pub(crate) fn tables_text(tables: &[Table], style: Style) -> String {
    let each: Vec<String> = tables.iter().map(|t| table_text(t, style)).collect();
    each.join("\n")
}

fn table_text(table: &Table, style: Style) -> String {
    let mut result = format!("{}\n", style.heading(&title(table)));
    if !table.rows.is_empty() {
        let shown = rows(table);
        let names = table.names.len();
        let body = columns(&shown, |column| column < names);
        let (head, body) = body.split_once('\n').unwrap_or((&body, ""));
        result.push_str(&format!("{}\n{body}", style.heading(head)));
    }
    for note in &table.notes {
        result.push_str(&wrapped("note: ", note, 6));
    }
    result
}

/// Head and rows as they are shown; the first `table.names.len()` columns are words.
pub(crate) fn rows(table: &Table) -> Vec<Vec<String>> {
    match gains_apart(table) {
        true => with_gain_columns(table),
        false => with_gains_inside(table),
    }
}

pub(crate) fn title(table: &Table) -> String {
    match (table.title.as_str(), table.stage.as_str()) {
        (title, "main") if !title.is_empty() => title.to_owned(),
        ("", stage) => format!("{} ({stage})", table.kind),
        (title, stage) => format!("{title} ({stage})"),
    }
}

/// Rows that are figures have no name for themselves.
fn gains_apart(table: &Table) -> bool {
    table.names.iter().all(|name| !name.is_empty())
}

/// Columns of one group side by side, then the gains of those that have any.
fn with_gain_columns(table: &Table) -> Vec<Vec<String>> {
    let order = column_order(table);
    let mut head = table.names.clone();
    head.extend(order.iter().map(|shown| match shown {
        Shown::Value(i) => table.columns[*i].head.clone(),
        Shown::Gain(i) => format!("{} gain", table.columns[*i].head),
    }));
    let row = |row: &TableRow| {
        let mut cells = row.names.clone();
        cells.extend(order.iter().map(|shown| match shown {
            Shown::Value(i) => value_text(&row.values[*i]),
            Shown::Gain(i) => {
                let value = &row.values[*i];
                let gain = value.gain.as_ref().map(gain_text);
                gain.or(value.no_gain.clone()).unwrap_or("-".to_owned())
            }
        }));
        cells
    };
    std::iter::once(head)
        .chain(table.rows.iter().map(row))
        .collect()
}

enum Shown {
    Value(usize),
    Gain(usize),
}

fn column_order(table: &Table) -> Vec<Shown> {
    let has_gain = |i: usize| {
        let mut values = table.rows.iter().map(|row| &row.values[i]);
        values.any(|v| v.gain.is_some() || v.no_gain.is_some())
    };
    let mut order = Vec::new();
    let mut from = 0;
    while from < table.columns.len() {
        let group = &table.columns[from].group;
        let of_group = table.columns[from..]
            .iter()
            .take_while(|c| c.group == *group);
        let to = from + of_group.count();
        order.extend((from..to).map(Shown::Value));
        order.extend((from..to).filter(|i| has_gain(*i)).map(Shown::Gain));
        from = to;
    }
    order
}

fn with_gains_inside(table: &Table) -> Vec<Vec<String>> {
    let mut head = table.names.clone();
    head.extend(table.columns.iter().map(|c| c.head.clone()));
    let row = |row: &TableRow| {
        let mut cells = row.names.clone();
        cells.extend(
            row.values
                .iter()
                .map(|value| match (&value.gain, &value.no_gain) {
                    (Some(gain), _) => format!("{} ({})", value_text(value), gain_text(gain)),
                    (None, Some(why)) if value.value.is_some() => {
                        format!("{} (no gain: {why})", value_text(value))
                    }
                    (None, _) => value_text(value),
                }),
        );
        cells
    };
    std::iter::once(head)
        .chain(table.rows.iter().map(row))
        .collect()
}

/// A value in its unit; a dash where nothing was measured.
pub(crate) fn value_text(value: &TableValue) -> String {
    let Some(number) = value.value.filter(|v| v.is_finite()) else {
        return "-".to_owned();
    };
    match value.unit.as_str() {
        "1/s" => analysis::words::rate(number),
        "bit/s" => bits(number),
        "1" | "cores" | "fair shares" => plain(number),
        unit => {
            let (unit, behind) = unit_named(unit);
            format!("{}{behind}", text(number, unit).replace(' ', "")).replace('%', " %")
        }
    }
}

fn bits(per_s: f64) -> String {
    match per_s {
        b if b >= 1e9 => format!("{:.2}Gbit/s", b / 1e9),
        b if b >= 1e6 => format!("{:.1}Mbit/s", b / 1e6),
        b => format!("{:.1}kbit/s", b / 1e3),
    }
}

/// Numbers per request: small ones are the interesting ones.
fn plain(number: f64) -> String {
    match number.abs() {
        n if n >= 1_000.0 => analysis::words::count(number.round() as u64),
        n if n >= 100.0 => format!("{number:.0}"),
        n if n >= 10.0 => format!("{number:.1}"),
        n if n >= 0.1 || n == 0.0 => format!("{number:.2}"),
        _ => format!("{number:.4}"),
    }
}

/// `+84 % [+80..+88]`, always with its sign; and of how many pairs, where the values beside it show another gain.
pub(crate) fn gain_text(gain: &Gain) -> String {
    let signed = |change: f64| {
        let sign = if change >= 0.0 { "+" } else { "" };
        format!("{sign}{}", percent(change))
    };
    let bare = |change: f64| signed(change).replace(" %", "");
    let interval = gain
        .low
        .zip(gain.high)
        .map_or_else(String::new, |(low, high)| {
            format!(" [{}..{}]", bare(low), bare(high))
        });
    let pairs = match gain.follows {
        true => String::new(),
        false => format!(" over {}", plural(u64::from(gain.pairs), "pair")),
    };
    format!("{}{interval}{pairs}", signed(gain.change))
}

#[cfg(test)]
mod tests {
    use super::*;
    use analysis::TableColumn;

    fn value(number: f64, unit: &str, gain: Option<f64>) -> TableValue {
        TableValue {
            value: Some(number),
            unit: unit.into(),
            gain: gain.map(|change| Gain {
                change,
                low: Some(change - 0.05),
                high: Some(change + 0.05),
                pairs: 3,
                follows: true,
            }),
            ..TableValue::default()
        }
    }

    fn column(head: &str, group: &str) -> TableColumn {
        TableColumn {
            head: head.into(),
            group: group.into(),
            ..TableColumn::default()
        }
    }

    /// Two rows of the cookbook's first table.
    #[test]
    fn gains_stand_behind_the_levels_that_they_are_of() {
        let row = |workers: &str, kernel, bypass, gain| TableRow {
            names: vec![workers.into()],
            values: vec![value(kernel, "1/s", None), value(bypass, "1/s", Some(gain))],
        };
        let table = Table {
            title: "Connections per second".into(),
            stage: "main".into(),
            names: vec!["workers".into()],
            columns: vec![column("kernel", "rate/s"), column("onload", "rate/s")],
            rows: vec![
                row("2", 70_957.0, 187_431.0, 1.64),
                row("40", 511_138.0, 2_287_115.0, 3.47),
            ],
            notes: vec!["two machines".into()],
            ..Table::default()
        };
        assert_eq!(
            table_text(&table, Style::Plain),
            "Connections per second\n\
             workers   kernel     onload          onload gain\n\
             2         70,957    187,431  +164 % [+159..+169]\n\
             40       511,138  2,287,115  +347 % [+342..+352]\n\
             note: two machines\n"
        );
    }

    #[test]
    fn rows_that_are_figures_hold_their_gain() {
        let table = Table {
            title: "Before and after".into(),
            stage: "origin".into(),
            names: vec![String::new()],
            columns: vec![column("direct", ""), column("8 4k", "")],
            rows: vec![
                TableRow {
                    names: vec!["p50".into()],
                    values: vec![
                        value(13_710_000.0, "ns", None),
                        value(37_200_000.0, "ns", Some(1.71)),
                    ],
                },
                TableRow {
                    names: vec!["server idle".into()],
                    values: vec![value(0.0, "share", None), TableValue::default()],
                },
            ],
            ..Table::default()
        };
        let wanted = [
            "Before and after (origin)",
            "             direct                          8 4k",
            "p50          13.7ms  37.2ms (+171 % [+166..+176])",
            "server idle     0 %                             -",
        ];
        assert_eq!(table_text(&table, Style::Plain), wanted.join("\n") + "\n");
    }

    #[test]
    fn a_gain_that_the_values_do_not_show_names_its_pairs() {
        let gain = |low: Option<f64>, follows| Gain {
            change: 0.55,
            low,
            high: low.map(|l| l + 0.2),
            pairs: 3,
            follows,
        };
        for (gain, text) in [
            (gain(Some(0.45), true), "+55 % [+45..+65]"),
            (gain(Some(-0.05), false), "+55 % [-5..+15] over 3 pairs"),
            // Counts depend on no noise.
            (gain(None, true), "+55 %"),
        ] {
            assert_eq!(gain_text(&gain), text);
        }
    }

    #[test]
    fn a_reason_stands_in_the_place_of_a_gain() {
        let table = Table {
            names: vec!["workers".into()],
            columns: vec![column("kernel", "rate/s"), column("onload", "rate/s")],
            rows: vec![TableRow {
                names: vec!["2".into()],
                values: vec![
                    value(20_968.0, "1/s", None),
                    TableValue {
                        no_gain: Some("1 of 5 pairs valid".into()),
                        ..value(38_572.0, "1/s", None)
                    },
                ],
            }],
            ..Table::default()
        };
        assert_eq!(rows(&table)[1][3], "1 of 5 pairs valid");
        let mut beside = table;
        beside.names = vec![String::new()];
        assert_eq!(rows(&beside)[1][2], "38,572 (no gain: 1 of 5 pairs valid)");
    }

    #[test]
    fn numbers_in_their_units() {
        for (number, unit, want) in [
            (4.711e9, "bit/s", "4.71Gbit/s"),
            (5.5e6, "bit/s", "5.5Mbit/s"),
            (512.0, "bit/s", "0.5kbit/s"),
            (0.3066, "share", "31 %"),
            (2_714.0, "bytes", "2.65KiB"),
            (20.72, "us", "20.7us"),
            (3.98, "1", "3.98"),
            (0.0123, "1", "0.0123"),
            (14_211.0, "1", "14,211"),
            (1.84, "cores", "1.84"),
        ] {
            assert_eq!(value_text(&value(number, unit, None)), want);
        }
    }
}
