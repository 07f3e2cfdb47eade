//! What `prony check` shows: a host held against advice, as `--json` (`schema/check.schema.json`) and as text.
//!
//! The summary comes first, then what differs with its reason and its change, then what is not known, then the
//! rest in one line each.

use crate::text::Style;
use crate::text::table::{columns, names};
use analysis::advice::{Checked, Importance, Standing};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Version of the document; it rises when a name changes its meaning or goes.
const FORMAT: u32 = 1;
/// Widest value in the table of what is fine.
const WIDEST: usize = 44;

/// What `prony check --json` prints.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CheckDocument {
    /// Version of this document.
    pub format: u32,
    /// The workload that was named; `null` for all.
    pub workload: Option<String>,
    /// How many entries stand how.
    pub summary: CheckSummary,
    /// Every entry, what matters most first.
    pub checks: Vec<Checked>,
}

/// How many entries stand how.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CheckSummary {
    /// Another value is advised.
    pub differs: u32,
    /// Could not be read.
    pub unknown: u32,
    /// As advised.
    pub fine: u32,
    /// Shown without a judgement.
    pub shown: u32,
}

/// The document of a check.
pub fn document(checks: Vec<Checked>, workload: Option<&str>) -> CheckDocument {
    let count = |standing: Standing| {
        let n = checks.iter().filter(|c| c.standing == standing).count();
        u32::try_from(n).unwrap_or(u32::MAX)
    };
    CheckDocument {
        format: FORMAT,
        workload: workload.map(str::to_owned),
        summary: CheckSummary {
            differs: count(Standing::Differs),
            unknown: count(Standing::Unknown),
            fine: count(Standing::Fine),
            shown: count(Standing::Shown),
        },
        checks,
    }
}

/// The published schema of [`CheckDocument`].
pub fn schema() -> serde_json::Value {
    schemars::schema_for!(CheckDocument).to_value()
}

/// The document as text.
pub fn text(document: &CheckDocument, style: Style) -> String {
    let standing = |standing: Standing| {
        let all = document.checks.iter();
        all.filter(move |c| c.standing == standing)
    };
    let mut text = summary(document, style);
    for check in standing(Standing::Differs) {
        text += &differing(check, style);
    }
    let unknown: Vec<Vec<String>> = standing(Standing::Unknown)
        .map(|c| vec!["  ".to_owned(), c.title.clone(), c.reason.clone()])
        .collect();
    if !unknown.is_empty() {
        text += &format!(
            "\n{}\n{}",
            style.heading("not known"),
            columns(&unknown, names(3))
        );
    }
    for (standing_of, head) in [
        (Standing::Fine, "as advised"),
        (Standing::Shown, "shown, not judged"),
    ] {
        let rows: Vec<Vec<String>> = standing(standing_of)
            .map(|c| vec!["  ".to_owned(), c.title.clone(), short(&found(c))])
            .collect();
        if !rows.is_empty() {
            text += &format!("\n{}\n{}", style.heading(head), columns(&rows, names(3)));
        }
    }
    text
}

fn summary(document: &CheckDocument, style: Style) -> String {
    let CheckSummary {
        differs,
        unknown,
        fine,
        shown,
    } = document.summary;
    let workload = document.workload.as_ref();
    let of = workload.map_or_else(String::new, |w| format!(" for {w}"));
    let judged = differs + fine;
    let mut text = match differs {
        0 => format!("{}: all {judged} are as advised{of}", style.good("good")),
        _ => {
            let most: Vec<&str> = document
                .checks
                .iter()
                .filter(|c| c.standing == Standing::Differs)
                .take(3)
                .map(|c| c.title.as_str())
                .collect();
            let head = format!("{differs} of {judged}");
            format!(
                "{} differ from what is advised{of}: {}",
                style.doubtful(&head),
                most.join("; ")
            ) + if differs > 3 { "; ..." } else { "" }
        }
    };
    text += &format!(" ({unknown} not known, {shown} shown without a judgement)\n");
    text
}

fn differing(check: &Checked, style: Style) -> String {
    let importance = match check.importance {
        Importance::High => style.bad("high"),
        Importance::Medium => style.doubtful("medium"),
        Importance::Low => "low".to_owned(),
    };
    let workloads = match check.workloads.as_slice() {
        [] => "every workload".to_owned(),
        some => some.join(", "),
    };
    let mut text = format!(
        "\n{importance}  {}: {}, advised: {}\n  for     {workloads}\n  why     {}\n",
        check.title,
        found(check),
        check.advised,
        check.why
    );
    if !check.change.is_empty() {
        text += &format!("  change  {}\n", check.change);
    }
    match check.tune.as_slice() {
        [] => {}
        profiles => text += &format!("  tune    {}\n", profiles.join(", ")),
    }
    text
}

/// The value with its unit, or what its absence means.
fn found(check: &Checked) -> String {
    match (&check.found, check.unit.as_str()) {
        (Some(value), "") => value.clone(),
        (Some(value), "%") => format!("{value} %"),
        (Some(value), unit) => format!("{value} {unit}"),
        (None, _) => check.reason.clone(),
    }
}

/// One line of bounded width.
fn short(text: &str) -> String {
    if text.chars().count() <= WIDEST {
        return text.to_owned();
    }
    let cut: String = text.chars().take(WIDEST - 3).collect();
    format!("{cut}...")
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::EnvironmentItem;

    #[test]
    fn what_differs_comes_first_and_with_its_change() {
        let item = |group: &str, name: &str, value: Result<&str, &str>| EnvironmentItem {
            group: group.to_owned(),
            name: name.to_owned(),
            value: value.ok().map(str::to_owned),
            reason: value.err().map(str::to_owned),
        };
        let items = [
            item("sysctl", "net.core.somaxconn", Ok("128")),
            item("sysctl", "net.ipv4.tcp_syncookies", Ok("1")),
            item("sysctl", "net.core.default_qdisc", Ok("fq_codel")),
            item("cpu", "governor", Err("no driver")),
        ];
        let document = document(analysis::advice::advise(&items, None), None);
        let expected = "1 of 2 differ from what is advised: Longest accept queue of a listener \
            (1 not known, 1 shown without a judgement)\n\
            \nhigh  Longest accept queue of a listener: 128, advised: at least 4096\n  \
            for     connection-per-request, proxy\n  \
            why     A listener's queue is never longer, whatever the server asks for; when it is full, clients wait a \
            second for their SYN.\n  \
            change  sysctl -w net.core.somaxconn=16384, and raise the server's own backlog\n  \
            tune    connection-rate, study-000, study-004\n\
            \nnot known\n    Frequency governor  no driver\n\
            \nas advised\n    SYN cookies  1\n\
            \nshown, not judged\n    Queueing of new devices  fq_codel\n";
        assert_eq!(text(&document, Style::Plain), expected);
    }
}
