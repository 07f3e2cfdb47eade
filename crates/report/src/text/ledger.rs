//! The time ledger for a terminal: one table an account, largest row first, and what could not be seen.

use super::style::Style;
use super::wrap::{WIDTH, wrapped};
use analysis::{Account, Ledger, Row};

/// Rows below this share say nothing in an account of another server.
const SMALL: f64 = 0.05;
/// Branches, and questions to the servers behind, that are told of an account.
const BRANCHES_SHOWN: usize = 3;
const ASKED_SHOWN: usize = 3;
/// Gaps that are told.
const GAPS_SHOWN: usize = 4;

/// All accounts; empty without one.
pub(super) fn ledger(ledger: Option<&Ledger>, style: Style) -> String {
    let Some(ledger) = ledger else {
        return String::new();
    };
    let mut text = String::new();
    for (name, at, account) in ledger.accounts() {
        let least = if at.starts_with("servers/") {
            SMALL
        } else {
            0.0
        };
        let again = account.is_of_latency();
        text += &head(&name, account, style);
        for branch in account
            .branches
            .iter()
            .filter(|_| !again)
            .take(BRANCHES_SHOWN)
        {
            text += &wrapped("  ", &branch.words(), 4);
        }
        for row in account.rows.iter().filter(|r| r.share >= least) {
            text += &line(row);
        }
        for asked in account.asked.iter().filter(|_| !again).take(ASKED_SHOWN) {
            text += &wrapped("  ", &asked.words(), 4);
        }
    }
    for gap in ledger.not_visible.iter().take(GAPS_SHOWN) {
        text += &wrapped("not visible: ", gap, 13);
    }
    text
}

fn head(name: &str, account: &Account, style: Style) -> String {
    let requests = account
        .requests
        .filter(|_| !account.is_of_latency())
        .map(|n| format!(", {n:.1} requests"))
        .unwrap_or_default();
    let total = format!("{} {}", number(account.total), account.unit);
    let head = format!("{name}: {}, {total}{requests}", account.of);
    format!("{}\n", style.heading(&head))
}

/// `  41.3 % +-2.1   26.4  sending over TCP`; who stands there only where requests are counted.
fn line(row: &Row) -> String {
    let share = format!("{:5.1} %", row.share * 100.0);
    let error = format!("+-{:.1}", row.share_error * 100.0);
    let requests = row
        .requests
        .map(|n| format!("{n:7.1}  "))
        .unwrap_or_default();
    let first = format!("  {share} {error:<6} {requests}");
    let indent = first.chars().count();
    let mut words = row.label.clone();
    // A function's place begins with its name, which may be all that the label says or end it.
    let name = (row.label.rsplit_once(": ")).map_or(row.label.as_str(), |(_, name)| name);
    if let Some(rest) = row.place.strip_prefix(name) {
        words += rest;
    } else if !row.place.is_empty() {
        words += &format!(": {}", row.place);
    }
    if let Some(cause) = &row.cause {
        words += &format!(" [{cause}]");
    }
    wrapped(&first, &words, indent.min(WIDTH / 2))
}

/// Three digits that say something.
fn number(value: f64) -> String {
    match value.abs() {
        v if v >= 100.0 => format!("{value:.0}"),
        v if v >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}
