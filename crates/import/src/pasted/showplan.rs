//! SQL Server's plan as XML (`<ShowPlanXML ...>`), whole or cut off: what the plan itself warns of.
//!
//! Its warnings are elements with attributes, and Management Studio prints one of them as a sentence. The surprise is a
//! conversion: of `ConvertIssue` only `Seek Plan` says that an index was not sought for it; the other concerns how many
//! rows are expected.

use super::events::{artefact, told};
use super::pieces::short;
use record::pasted::{Artefact, Row};

/// Elements of warnings, and what they say.
const WARNINGS: [(&str, &str); 5] = [
    (
        "SpillToTempDb",
        "rows that did not fit into the memory granted",
    ),
    ("NoJoinPredicate=\"true\"", "a join without a condition"),
    ("<NoJoinPredicate", "a join without a condition"),
    ("<ColumnsWithNoStatistics", "columns without statistics"),
    (
        "<UnmatchedIndexes",
        "an index that a parameter keeps from being used",
    ),
];
/// The order of rows: what keeps an index from being sought, an index that is missing, everything else.
const SEEK: f64 = 3.0;
const MISSING: f64 = 2.0;
const OTHER: f64 = 1.0;

/// The warnings of a text's plans.
pub(super) fn read(lines: &[&str]) -> Option<Artefact> {
    let text = lines.join("\n");
    let mut found = artefact("SQL Server's plan", 0);
    let line_of = |at: usize| u32::try_from(text[..at].matches('\n').count() + 1).unwrap_or(1);
    for (at, _) in text.match_indices("<PlanAffectingConvert ") {
        let tag = tag(&text[at..]);
        let issue = attribute(tag, "ConvertIssue").unwrap_or("not said of what");
        let expression = attribute(tag, "Expression").unwrap_or("a conversion");
        found.begin_at(line_of(at));
        convert(&mut found, issue, expression);
    }
    let sentence = "Type conversion in expression (";
    for (at, _) in text.match_indices(sentence) {
        let behind = &text[at + sentence.len()..];
        let Some((expression, rest)) = behind.split_once(") may affect") else {
            continue;
        };
        let issue = rest.trim_start_matches([' ', '"', '\'']);
        let issue = issue.split(['"', '\'', '\n']).next().unwrap_or_default();
        found.begin_at(line_of(at));
        convert(&mut found, issue, expression);
    }
    if !text.contains("sqlserver/2004/07/showplan") && found.rows.is_empty() {
        return None;
    }
    for (at, _) in text.match_indices("<MissingIndexGroup ") {
        let impact = attribute(tag(&text[at..]), "Impact").unwrap_or_default();
        let table = text[at..].split_once("<MissingIndex ");
        let table = table.and_then(|(_, rest)| attribute(tag(rest), "Table"));
        found.begin_at(line_of(at));
        found.add("showplan.missing", 1.0);
        found.rows.push(Row {
            label: short(table.unwrap_or("a table")),
            place: format!("an index is missing by the plan, impact {impact} %"),
            share: MISSING,
        });
    }
    for (mark, says) in WARNINGS {
        let Some(at) = text.find(mark) else {
            continue;
        };
        found.begin_at(line_of(at));
        found.add("showplan.others", 1.0);
        let name = mark.trim_start_matches('<').split('=').next();
        found.rows.push(Row {
            label: name.unwrap_or(mark).to_owned(),
            place: says.to_owned(),
            share: OTHER,
        });
    }
    found.largest_first();
    let rows = found.rows.len() as f64;
    found.figures.insert("showplan.rows".into(), rows);
    for name in ["seek", "missing", "others"] {
        found
            .figures
            .entry(format!("showplan.{name}"))
            .or_insert(0.0);
    }
    told(found)
}

fn convert(found: &mut Artefact, issue: &str, expression: &str) {
    let seek = issue.replace(' ', "") == "SeekPlan";
    let (figure, share) = match seek {
        true => ("showplan.seek", SEEK),
        false => ("showplan.others", OTHER),
    };
    found.add(figure, 1.0);
    found.rows.push(Row {
        label: short(expression),
        place: format!("PlanAffectingConvert, {issue}"),
        share,
    });
}

/// An element from its name to its end, or to where it is cut off.
fn tag(text: &str) -> &str {
    let mut quoted = false;
    let end = text.char_indices().find(|(_, c)| {
        quoted ^= *c == '"';
        *c == '>' && !quoted
    });
    end.map_or(text, |(at, _)| &text[..at])
}

fn attribute<'a>(tag: &'a str, name: &str) -> Option<&'a str> {
    let (_, behind) = tag.split_once(&format!(" {name}=\""))?;
    behind
        .split('"')
        .next()
        .filter(|content| !content.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_conversion_that_keeps_an_index_from_being_sought_is_quoted() {
        let text = "<ShowPlanXML\n xmlns=\"http://schemas.microsoft.com/sqlserver/2004/07/showplan\">\n<Warnings>\n<PlanAffectingConvert ConvertIssue=\"Seek Plan\" Expression=\"CONVERT_IMPLICIT(nvarchar(9),[t].[c],0)=[@P0]\"/>\n<PlanAffectingConvert ConvertIssue=\"Cardinality Estimate\" Expression=\"CONVERT(int,[t].[d],0)\"/>\n<MissingIndexGroup Impact=\"97.5\"><MissingIndex Database=\"[d]\" Table=\"[t]\">\n<Warnings NoJoinPredicate=\"true\"";
        let found = read(&text.lines().collect::<Vec<_>>()).unwrap();
        assert_eq!(
            found.rows[0].label,
            "CONVERT_IMPLICIT(nvarchar(9),[t].[c],0)=[@P0]"
        );
        assert_eq!(found.rows[0].place, "PlanAffectingConvert, Seek Plan");
        assert_eq!(found.rows[1].label, "[t]");
        for (name, n) in [
            ("seek", 1.0),
            ("missing", 1.0),
            ("others", 2.0),
            ("rows", 4.0),
        ] {
            assert_eq!(found.value(&format!("showplan.{name}")), Some(n), "{name}");
        }
        assert_eq!(found.line, 4);
        let printed = "Type conversion in expression (CONVERT_IMPLICIT(int,[t].[c],0)=[@p]) may affect \"SeekPlan\" in query plan choice";
        let found = read(&[printed]).unwrap();
        assert_eq!(found.value("showplan.seek"), Some(1.0));
        assert!(read(&["<Warnings NoJoinPredicate=\"true\">"]).is_none());
    }
}
