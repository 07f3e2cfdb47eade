//! What other tools reported: tables of figures side by side. The gains are the analysis's; the numbers are printed as
//! they were, and each names the trial's file in which it stands.

use crate::json::RunDocument;
use crate::number::Number;
use crate::text::{figure_text, gain_text};
use analysis::imported::{ReportedCell, ReportedTable};
use record::{RunRecord, TrialRecord};
use serde::Serialize;

/// A table.
#[derive(Debug, Serialize)]
pub struct ReportedView {
    stage: String,
    figure: String,
    factor: String,
    tools: String,
    heads: Vec<String>,
    columns: Vec<String>,
    rows: Vec<RowView>,
}

#[derive(Debug, Serialize)]
struct RowView {
    heads: Vec<String>,
    cells: Vec<Option<CellView>>,
}

#[derive(Debug, Serialize)]
struct CellView {
    number: Number,
    gain: String,
}

/// The tables of all imported stages.
pub fn tables(record: &RunRecord, document: &RunDocument) -> Vec<ReportedView> {
    let tables = document.reported.iter();
    tables.map(|table| view(record, table)).collect()
}

fn view(record: &RunRecord, table: &ReportedTable) -> ReportedView {
    let one = |column: &String| match column.is_empty() {
        true => "reported".to_owned(),
        false => column.clone(),
    };
    ReportedView {
        tools: table.tools.join(", "),
        columns: table.columns.iter().map(one).collect(),
        rows: table
            .rows
            .iter()
            .map(|row| RowView {
                heads: row.head.clone(),
                cells: row
                    .cells
                    .iter()
                    .map(|c| Some(cell(record, c.as_ref()?)))
                    .collect(),
            })
            .collect(),
        stage: table.stage.clone(),
        figure: table.figure.clone(),
        factor: table.factor.clone(),
        heads: table.heads.clone(),
    }
}

fn cell(record: &RunRecord, cell: &ReportedCell) -> CellView {
    let of_trial = record.trials.iter().find(|t| t.id == cell.trial);
    let figures = of_trial
        .and_then(|t| t.reported.as_ref())
        .map(|r| &r.figures);
    let at = figures.and_then(|f| f.iter().position(|f| f.name == cell.figure.name));
    let file = format!("{}/trial.json", TrialRecord::directory(cell.trial));
    CellView {
        number: Number {
            text: figure_text(&cell.figure),
            value: cell.figure.value.to_string(),
            from: format!("{file}#/reported/figures/{}/value", at.unwrap_or(0)),
        },
        gain: cell.gain.as_ref().map(gain_text).unwrap_or_default(),
    }
}
