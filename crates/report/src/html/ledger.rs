//! The time ledger as bars whose segments are rows, each with its table; a segment opens the flame graph at its
//! place.

use crate::number::{Number, Source, Unit};
use analysis::{Account, Asked, Branch, Ledger, Row};
use serde::Serialize;

/// Narrower segments carry no label, as a share of the bar.
const LEAST_LABELLED: f64 = 0.12;
/// Colours that tell neighbours apart.
const COLOURS: usize = 6;

/// One account.
#[derive(Debug, Serialize)]
pub struct AccountView {
    /// `rate`, `latency`, `slowest 1 %`, with the server where it is not the one that was asked.
    name: String,
    of: String,
    total: Option<Number>,
    unit: String,
    requests: Option<Number>,
    /// What it is below, one sentence each.
    branches: Vec<String>,
    /// What it asks of the servers behind, one sentence each.
    asked: Vec<String>,
    rows: Vec<RowView>,
    /// Pointer of the account in the document.
    at: String,
}

#[derive(Debug, Serialize)]
struct RowView {
    label: String,
    place: String,
    cause: Option<String>,
    source: String,
    share: Option<Number>,
    error: Option<Number>,
    requests: Option<Number>,
    /// Per cent from the left, and width.
    from: String,
    width: String,
    labelled: bool,
    class: String,
    /// What the flame graph is searched for; empty where it shows nothing of it.
    search: String,
}

/// All accounts of a ledger that stands at `at` of the document.
pub fn accounts(ledger: &Ledger, at: &str, source: &Source) -> Vec<AccountView> {
    let all = ledger.accounts().into_iter();
    all.map(|(name, field, account)| view(&name, account, &format!("{at}/{field}"), source))
        .collect()
}

fn view(name: &str, account: &Account, at: &str, source: &Source) -> AccountView {
    let mut from = 0.0;
    let rows = account.rows.iter().enumerate().map(|(n, row)| {
        let view = row_view(row, n, from, &format!("{at}/rows/{n}"), source);
        from += row.share;
        view
    });
    let again = account.is_of_latency();
    let branches = account.branches.iter().filter(|_| !again);
    let asked = account.asked.iter().filter(|_| !again);
    AccountView {
        name: name.to_owned(),
        of: account.of.clone(),
        total: source.number(&format!("{at}/total"), Unit::Plain),
        unit: account.unit.clone(),
        requests: source.number(&format!("{at}/requests"), Unit::Plain),
        rows: rows.collect(),
        branches: branches.map(Branch::words).collect(),
        asked: asked.map(Asked::words).collect(),
        at: at.to_owned(),
    }
}

fn row_view(row: &Row, n: usize, from: f64, at: &str, source: &Source) -> RowView {
    let class = match row.kind.as_str() {
        "idle" | "rest" | "client" => "pale".to_owned(),
        _ if row.cause.is_some() => "caused".to_owned(),
        _ => format!("c{}", n % COLOURS),
    };
    // `symbol in module, called from ...`, or `symbol < caller`.
    let symbol = row.place.split(" in ").next().unwrap_or_default();
    let symbol = symbol.split(" < ").next().unwrap_or_default();
    let function =
        matches!(row.kind.as_str(), "function" | "library" | "call") || row.place.contains(" in ");
    RowView {
        label: row.label.clone(),
        place: row.place.clone(),
        cause: row.cause.clone(),
        source: row.source.clone(),
        share: source.number(&format!("{at}/share"), Unit::Share),
        error: source.number(&format!("{at}/share_error"), Unit::Share),
        requests: source.number(&format!("{at}/requests"), Unit::Plain),
        from: format!("{:.2}", from * 100.0),
        width: format!("{:.2}", row.share * 100.0),
        labelled: row.share >= LEAST_LABELLED,
        class,
        search: if function {
            symbol.to_owned()
        } else {
            String::new()
        },
    }
}
