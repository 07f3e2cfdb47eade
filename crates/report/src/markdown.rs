//! A run as Markdown for a pull request or a wiki: verdict, conclusion, a table a stage, what to know, how to
//! repeat it.
//!
//! GitHub's dialect (tables with pipes). Text of the record may hold any character: whatever could open markup is
//! escaped, so that a level called `a|b` or a message with a `<` reads as it was written.

use crate::conclusion::{Said, Statement};
use crate::intervals::{FEWEST_PAIRS_WORDS, WINDOW_WORDS, interval_words, shown};
use crate::json::RunDocument;
use crate::number::{Unit, text as number};
use crate::text::imported as reported;
use crate::text::limit_words;
use crate::text::tables as own;
use crate::text::window_mark;
use analysis::words::levels as levels_words;
use analysis::{Cell, Knee, Plan, Ratio, Spread, Verdict};
use record::{PROOF_STAGE, RunRecord, TrialRecord};
use serde::Deserialize;
use std::cmp::Ordering;
use std::fmt::Write as _;

/// The run's document as Markdown. Links are relative to `base`, where the record lies as seen from the place that the
/// text is put; empty for the record's own directory.
pub fn run_markdown(record: &RunRecord, document: &RunDocument, base: &str) -> String {
    let plan = Plan::deserialize(&record.plan).ok();
    let link = |file: &str| match base.trim_end_matches('/') {
        "" => file.to_owned(),
        base => format!("{base}/{file}"),
    };
    let question = match record.manifest.question.as_str() {
        "" => "A run without a question",
        question => question,
    };
    let mut text = format!("# {}\n\n", escaped(question));
    text += &answer(document);
    text += &conclusion(&document.conclusion);
    for name in stages(document) {
        text += &stage(name, document, plan.as_ref());
    }
    text += &knees(&document.knees);
    text += &tables(document);
    text += &warnings(document);
    text += &method(record, plan.as_ref());
    let links = [
        ("report with all plots", "report.html"),
        ("every number", "report.json"),
        ("experiment", "experiment.toml"),
        ("host", "environment.json"),
    ];
    let links = links.map(|(words, file)| format!("[{words}]({})", target(&link(file))));
    let trials = record.trials.first().map_or_else(String::new, |t| {
        let file = format!("{}/trial.json", TrialRecord::directory(t.id));
        format!(" · [first trial]({})", target(&link(&file)))
    });
    text + &format!("{}{trials}\n", links.join(" · "))
}

/// Characters that open markup, with a backslash before them.
pub(crate) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\\' | '`' | '*' | '_' | '[' | ']' | '<' | '>' | '|' | '#' | '~' | '&' => {
                out.push('\\');
                out.push(c);
            }
            // A line would end its table or start a heading.
            '\n' | '\r' => out.push(' '),
            _ => out.push(c),
        }
    }
    out
}

/// The target of a link: what would end it is percent-encoded.
pub(crate) fn target(path: &str) -> String {
    let mut out = String::with_capacity(path.len());
    for byte in path.bytes() {
        match byte {
            b' ' | b'(' | b')' | b'<' | b'>' | b'%' | b'"' | b'\\' => {
                write!(out, "%{byte:02X}").expect("writing to a string does not fail");
            }
            _ if byte.is_ascii_graphic() => out.push(char::from(byte)),
            _ => write!(out, "%{byte:02X}").expect("writing to a string does not fail"),
        }
    }
    out
}

/// A table; `left` columns are words, the others numbers.
pub(crate) fn table(head: &[String], left: &[bool], rows: &[Vec<String>]) -> String {
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let rule: Vec<String> = left
        .iter()
        .map(|left| if *left { ":--" } else { "--:" }.to_owned())
        .collect();
    let body: String = rows.iter().map(|row| line(row)).collect();
    format!("{}{}{body}\n", line(head), line(&rule))
}

/// The experiment's own tables, and what other tools reported.
fn tables(document: &RunDocument) -> String {
    let shown = |title: &str, words: usize, rows: Vec<Vec<String>>| {
        let rows: Vec<Vec<String>> = rows
            .into_iter()
            .map(|row| row.iter().map(|cell| escaped(cell)).collect())
            .collect();
        let Some((head, body)) = rows.split_first() else {
            return String::new();
        };
        let left: Vec<bool> = (0..head.len()).map(|column| column < words).collect();
        format!("### {}\n\n{}", escaped(title), table(head, &left, body))
    };
    let own = document.tables.iter().map(|t| {
        let rows = match t.rows.is_empty() {
            true => Vec::new(),
            false => own::rows(t),
        };
        let notes: String = t
            .notes
            .iter()
            .map(|n| format!("{}\n\n", escaped(n)))
            .collect();
        shown(&own::title(t), t.names.len(), rows) + &notes
    });
    let reported = document.reported.iter().map(|t| {
        let rows = reported::rows(t);
        shown(&reported::title(t), t.heads.len(), rows)
    });
    let all: String = own.chain(reported).collect();
    match all.is_empty() {
        true => all,
        false => format!("## Tables\n\n{all}"),
    }
}

fn verdict(verdict: &Verdict) -> String {
    let limit = limit_words(verdict.limit);
    let start = match verdict.valid {
        true => format!("**Valid, {limit}:**"),
        false => "**NOT VALID:**".to_owned(),
    };
    let next = match verdict.remedy.as_str() {
        "" => String::new(),
        remedy => format!("Next: {}\n\n", escaped(remedy)),
    };
    format!("{start} {}\n\n{next}", escaped(&verdict.why))
}

/// The three lines of the answer; before them what makes the figures useless, where something does.
fn answer(document: &RunDocument) -> String {
    let verdict_first = match document.verdict.valid {
        true => String::new(),
        false => verdict(&document.verdict),
    };
    let Some(answered) = &document.answer else {
        return verdict_first;
    };
    let line = |s: &Statement| match s.said {
        Said::Answer => format!("**{}**\n\n", escaped(&s.text)),
        _ => format!("{}\n\n", escaped(&s.text)),
    };
    let repeated = |s: &&Statement| {
        let why = answered.answer.unanswered.as_ref().map(|u| &u.why);
        document.verdict.valid || s.said == Said::Answer || why != Some(&document.verdict.why)
    };
    let lines = answered.lines.iter().filter(repeated);
    verdict_first + &lines.map(line).collect::<String>()
}

fn conclusion(statements: &[Statement]) -> String {
    let list = |unsaid: bool| -> String {
        let of_kind = statements
            .iter()
            .filter(|s| !s.said.is_in_the_answer())
            .filter(|s| (s.said == Said::CannotSay) == unsaid);
        of_kind
            .map(|s| format!("- {}\n", escaped(&s.text)))
            .collect()
    };
    let part = |title: &str, list: String| match list.is_empty() {
        true => String::new(),
        false => format!("## {title}\n\n{list}\n"),
    };
    part("What else the numbers say", list(false)) + &part("What cannot be said", list(true))
}

fn stages(document: &RunDocument) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for cell in &document.comparisons {
        if !names.contains(&cell.stage.as_str()) {
            names.push(&cell.stage);
        }
    }
    names
}

fn stage(name: &str, document: &RunDocument, plan: Option<&Plan>) -> String {
    let cells: Vec<&Cell> = document
        .comparisons
        .iter()
        .filter(|c| c.stage == name)
        .collect();
    let planned = plan.and_then(|p| p.stages.iter().find(|s| s.name == name));
    let factors: Vec<String> = match planned {
        Some(stage) => stage.factors.iter().map(|f| f.name.clone()).collect(),
        None => cells
            .first()
            .map_or_else(Vec::new, |c| c.levels.keys().cloned().collect()),
    };
    let some = |has: fn(&Cell) -> bool| cells.iter().any(|c| has(c));
    let (offered, cpu, ratios) = (
        some(|c| c.offered_per_s.is_some()),
        some(|c| c.target_cpu_us_per_request.is_some()),
        some(|c| c.rate_ratio.is_some() || c.p99_ratio.is_some() || c.no_ratio.is_some()),
    );
    let mut head: Vec<String> = factors.iter().map(|f| escaped(f)).collect();
    let mut left = vec![true; head.len()];
    let mut column = |name: &str, is_left: bool| {
        head.push(name.to_owned());
        left.push(is_left);
    };
    column("valid", false);
    if offered {
        column("offered, 1/s", false);
    }
    column("rate, 1/s", false);
    column("p50", false);
    column("p99", false);
    if cpu {
        column("CPU per request", false);
    }
    if ratios {
        column("rate against baseline", false);
        column("p99 against baseline", false);
    }
    column("limit", true);
    let row = |cell: &&Cell| {
        let level = |f: &String| escaped(cell.levels.get(f).map_or("", String::as_str));
        let mut row: Vec<String> = factors.iter().map(level).collect();
        row.push(format!("{}/{}", cell.valid.len(), cell.planned));
        if offered {
            row.push(median(cell.offered_per_s, Unit::PerSecond));
        }
        let mark = escaped(window_mark(cell));
        row.push(spread(cell.achieved_per_s, Unit::PerSecond).replacen(
            ' ',
            &format!("{mark} "),
            1,
        ));
        row.push(median(cell.response_ns_p50, Unit::Nanos));
        row.push(spread(cell.response_ns_p99, Unit::Nanos));
        if cpu {
            row.push(median(cell.target_cpu_us_per_request, Unit::Micros));
        }
        if ratios {
            let why = |shown: String| match &cell.no_ratio {
                Some(why) => escaped(why),
                None => shown,
            };
            row.push(why(ratio(cell.rate_ratio)));
            row.push(why(ratio(cell.p99_ratio)));
        }
        row.push(limit(cell));
        row
    };
    let rows: Vec<Vec<String>> = cells.iter().map(row).collect();
    let of_proof = match name {
        PROOF_STAGE => " (copies of the server)",
        _ => "",
    };
    let mut notes = vec!["Median of the valid trials (smallest to largest).".to_owned()];
    if let Some(stage) = planned.filter(|s| !s.baseline.is_empty()) {
        notes.push(format!("Baseline: {}.", levels_words(&stage.baseline)));
    }
    match interval_words(cells.iter().filter_map(|c| c.rate_ratio)) {
        words if words.is_empty() => {}
        words => notes.push(format!(
            "Changes: {words}. **Bold** where the interval excludes no change."
        )),
    }
    if cells.iter().any(|c| c.no_ratio.is_some()) {
        notes.push(format!(
            "No change where too few pairs are left: {FEWEST_PAIRS_WORDS}."
        ));
    }
    if cells.iter().any(|c| c.rate_dropped_s > Some(0.0)) {
        notes.push(WINDOW_WORDS.to_owned());
    }
    format!(
        "## Stage {}{of_proof}\n\n{}{}\n\n",
        escaped(name),
        table(&head, &left, &rows),
        // The notes hold names of levels; their own emphasis is put in after the escape.
        escaped(&notes.join(" ")).replace("\\*\\*", "**")
    )
}

fn median(spread: Option<Spread>, unit: Unit) -> String {
    spread.map_or_else(|| "–".to_owned(), |s| number(s.median, unit))
}

fn spread(spread: Option<Spread>, unit: Unit) -> String {
    spread.map_or_else(
        || "–".to_owned(),
        |s| {
            let [median, min, max] = [s.median, s.min, s.max].map(|v| number(v, unit));
            format!("{median} ({min} to {max})")
        },
    )
}

fn ratio(ratio: Option<Ratio>) -> String {
    let Some(ratio) = ratio else {
        return "–".to_owned();
    };
    let change = number(ratio.ratio, Unit::Change);
    let Some((low, high)) = ratio.interval() else {
        return "–".to_owned();
    };
    let interval = format!(
        "({} to {})",
        number(low, Unit::Change),
        number(high, Unit::Change)
    );
    match shown(ratio) {
        Some(Ordering::Greater | Ordering::Less) => format!("**{change}** {interval}"),
        Some(Ordering::Equal) | None => format!("{change} {interval}"),
    }
}

fn limit(cell: &Cell) -> String {
    let Some(verdict) = &cell.verdict else {
        return "not run".to_owned();
    };
    let name = verdict.limit.name().replace('_', " ");
    let resource = match verdict.resource.replace('_', " ") {
        same if same.is_empty() || same == name => String::new(),
        resource => format!(" ({resource})"),
    };
    match &cell.not_measured {
        Some(why) => escaped(&format!("not measured: {why}")),
        None => escaped(&format!("{name}{resource}")),
    }
}

fn knees(knees: &[Knee]) -> String {
    let line = |knee: &Knee| {
        let fixed = match knee.levels.is_empty() {
            true => String::new(),
            false => format!(", {}", levels_words(&knee.levels)),
        };
        let at = match knee.axis.as_str() {
            "connections" => format!("{} connections", number(knee.at, Unit::Count)),
            _ => format!("{}/s offered", number(knee.at, Unit::PerSecond)),
        };
        let p99 = knee.response_ns_p99.map_or_else(String::new, |p99| {
            format!(", p99 {}", number(p99, Unit::Nanos))
        });
        let words = format!(
            "{}{fixed}: {at}, {}/s{p99}. {}",
            knee.stage,
            number(knee.achieved_per_s, Unit::PerSecond),
            knee.method
        );
        format!("- {}\n", escaped(&words))
    };
    match knees.is_empty() {
        true => String::new(),
        false => format!(
            "## Knees\n\n{}\n",
            knees.iter().map(line).collect::<String>()
        ),
    }
}

fn warnings(document: &RunDocument) -> String {
    let line = |w: &record::Warning| {
        let remedy = match w.remedy.as_str() {
            "" => String::new(),
            remedy => format!(" Remedy: {}.", escaped(remedy.trim_end_matches('.'))),
        };
        format!("- {}.{remedy}\n", escaped(w.seen.trim_end_matches('.')))
    };
    match document.warnings.is_empty() {
        true => String::new(),
        false => format!(
            "## What to know before using these figures\n\n{}\n",
            document.warnings.iter().map(line).collect::<String>()
        ),
    }
}

/// Design, host and command.
fn method(record: &RunRecord, plan: Option<&Plan>) -> String {
    let mut text = "## Method\n\n".to_owned();
    for stage in plan.map_or(&[][..], |p| &p.stages) {
        let first = record.trials.iter().find(|t| t.stage == stage.name);
        let lengths = first.map_or_else(String::new, |t| {
            let measured = match (t.load.duration, t.load.requests) {
                (Some(duration), _) => format!("{duration} measured"),
                (None, Some(requests)) => format!("{requests} requests measured"),
                (None, None) => "measured until stopped".to_owned(),
            };
            format!(", {measured} after {} of warm-up", t.load.warmup)
        });
        let trials = analysis::words::plural(u64::from(stage.repeats), "trial");
        let many = match stage.search {
            Some(_) => {
                "a search for the highest open-loop rate that holds, step by step".to_owned()
            }
            None => format!("{trials} of each cell in interleaved blocks"),
        };
        let words = format!("stage {}: {many}{lengths}", stage.name);
        text += &format!("- {}\n", escaped(&words));
    }
    let fact = |group: &str, name: &str| {
        let mut items = record.environment.iter();
        let item = items.find(|i| i.group == group && i.name == name)?;
        Some(format!("{group} {}", item.value.as_ref()?))
    };
    let host: Vec<String> = [("cpu", "model"), ("cpu", "online"), ("kernel", "release")]
        .iter()
        .filter_map(|(group, name)| fact(group, name))
        .collect();
    if !host.is_empty() {
        text += &format!("- host: {}\n", escaped(&host.join(", ")));
    }
    text += &format!(
        "- prony {}, started {}\n\n",
        escaped(&record.manifest.prony),
        escaped(&record.manifest.started)
    );
    let again = crate::html::design::again(&record.manifest.command);
    // A fence longer than any in the command, so that the command cannot end it.
    format!("{text}To repeat it:\n\n````sh\n{again}\n````\n\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_the_record_cannot_become_markup() {
        for (found, want) in [
            ("a|b", "a\\|b"),
            ("<img src=x>", "\\<img src=x\\>"),
            ("[x](y)", "\\[x\\](y)"),
            ("two\nlines", "two lines"),
            ("proxy_buffers", "proxy\\_buffers"),
        ] {
            assert_eq!(escaped(found), want);
        }
        assert_eq!(
            target("my run/report (1).html"),
            "my%20run/report%20%281%29.html"
        );
    }
}
