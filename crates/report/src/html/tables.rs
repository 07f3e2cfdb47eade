//! The tables that the experiment asks for, on the page.
//!
//! They read as on the terminal; every number carries its origin. A gain stands below its value here, because a page
//! at phone width has no room for columns of gains.

use crate::number::Number;
use crate::text::tables::{gain_text, value_text};
use analysis::{Table, TableValue};
use serde::Serialize;

/// A table.
#[derive(Serialize)]
pub struct TableView {
    title: String,
    stage: String,
    names: Vec<String>,
    heads: Vec<String>,
    rows: Vec<RowView>,
    notes: Vec<String>,
}

#[derive(Serialize)]
struct RowView {
    names: Vec<String>,
    values: Vec<ValueView>,
}

#[derive(Serialize)]
struct ValueView {
    number: Option<Number>,
    gain: Option<Number>,
    no_gain: Option<String>,
    from: String,
}

/// All of them.
pub fn tables(tables: &[Table]) -> Vec<TableView> {
    tables
        .iter()
        .enumerate()
        .map(|(i, table)| view(i, table))
        .collect()
}

fn view(index: usize, table: &Table) -> TableView {
    let row = |(i, row): (usize, &analysis::TableRow)| RowView {
        names: row.names.clone(),
        values: row
            .values
            .iter()
            .enumerate()
            .map(|(k, value)| value_view(value, &format!("#/tables/{index}/rows/{i}/values/{k}")))
            .collect(),
    };
    TableView {
        title: table.title.clone(),
        stage: table.stage.clone(),
        names: table.names.clone(),
        heads: table.columns.iter().map(|c| c.head.clone()).collect(),
        rows: table.rows.iter().enumerate().map(row).collect(),
        notes: table.notes.clone(),
    }
}

fn value_view(value: &TableValue, from: &str) -> ValueView {
    ValueView {
        number: value.value.map(|number| Number {
            text: value_text(value),
            value: number.to_string(),
            from: format!("{from}/value"),
        }),
        gain: value.gain.map(|gain| Number {
            text: gain_text(&gain),
            value: gain.change.to_string(),
            from: format!("{from}/gain/change"),
        }),
        no_gain: value.no_gain.clone().filter(|_| value.value.is_some()),
        from: format!("{from}/no_gain"),
    }
}
