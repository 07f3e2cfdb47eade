//! A diagnosis for a terminal: the answer on the first line, then why, what to do, and what speaks for it.
//!
//! The order is that of a reader with one minute: cause, numbers, remedy, bound on the gain. What was ruled out, what
//! could not be seen and what the server does for a request follow, cut to the rows that matter.

use super::ledger::ledger;
use super::prediction::would_bring;
use super::style::Style;
use super::table::{columns, names};
use super::wrap::{WIDTH, wrapped};
use crate::quantity::value_and_threshold;
use crate::signature::{self, CallRow, CostRow, SignatureTable};
use analysis::words::{count, percent, plural};
use analysis::{
    CallChange, Change, Diagnosis, Evidence, Finding, Proof, ProofRatio, Status, Unseen,
};
use record::{Examination, Nanos};

/// Characters of a signal that are shown.
const LONGEST_SIGNAL: usize = 64;
/// Causes ruled out that are shown with their reason.
const RULED_OUT_SHOWN: usize = 5;
/// Causes not seen that are shown with their reason.
const UNSEEN_SHOWN: usize = 4;
/// Rows of the signature that are shown for each target.
const CALLS_SHOWN: usize = 8;
/// A call below this many per request matters to no cause.
const RARE_CALL: f64 = 0.05;

/// What limits the server, why, and what to do. `examination` brings the calls per request and what the probes took;
/// without one (a diagnosis of pasted output) both are left out. No line is wider than 100 characters, except where
/// a single word is.
pub fn diagnosis_text(
    diagnosis: &Diagnosis,
    examination: Option<&Examination>,
    style: Style,
) -> String {
    let table = examination
        .and_then(|e| e.signature.as_ref())
        .and_then(signature::table);
    let (main, others) = match diagnosis.findings.split_first() {
        Some((main, others)) => (Some(main), others),
        None => (None, &[][..]),
    };
    let mut sections = vec![first_lines(diagnosis, main, style)];
    if let Some(main) = main {
        sections.push(evidence(&main.evidence, style));
        sections.push(remedy(main, style));
        sections.extend(main.proof.as_ref().map(|p| proof(p, style)));
    }
    sections.push(accounts(diagnosis, main));
    let container = examination.and_then(|e| e.container.as_ref());
    sections.extend(container.map(|c| super::container::container(c, examination, diagnosis)));
    sections.push(ledger(diagnosis.ledger.as_ref(), style));
    sections.push(further(others, style));
    sections.push(ruled_out(diagnosis, style));
    sections.push(unseen(diagnosis, style));
    sections.extend(table.as_ref().map(|t| calls(t, style)));
    sections.push(probes(diagnosis, examination, table.as_ref()));
    sections.retain(|s| !s.is_empty());
    sections.join("\n")
}

fn status(status: Status) -> &'static str {
    match status {
        Status::Refuted => "refuted by a measured change",
        Status::Suspected => "suspected",
        Status::Supported => "supported",
        Status::Proved => "proved",
    }
}

/// A frequency with the cases that it was counted in, or the score that the rules gave, which is none.
fn confidence(finding: &Finding) -> String {
    match (finding.calibrated, finding.status) {
        (_, Status::Proved) => format!("confidence {:.2}", finding.confidence),
        (Some(of), _) => format!(
            "confidence {:.2}: right in {} of {} recorded cases",
            finding.confidence, of.right, of.cases
        ),
        (None, _) => format!("score {:.2}, not calibrated", finding.confidence),
    }
}

/// `on server`; nothing for the host, the client and the path between.
fn at(target: &str) -> String {
    match target {
        "" => String::new(),
        target => format!(" on {target}"),
    }
}

fn first_lines(diagnosis: &Diagnosis, main: Option<&Finding>, style: Style) -> String {
    let Some(main) = main else {
        let cause = style.doubtful("no cause found:");
        return marked(&cause, "no cause found:", &diagnosis.station.why);
    };
    let label = format!("{}:", main.cause);
    let coloured = match (main.cause.as_str(), main.status) {
        ("none", _) => style.good(&label),
        ("unknown", _) => style.doubtful(&label),
        ("unlabelled", _) => style.bad(&label),
        (_, Status::Suspected | Status::Refuted) => style.doubtful(&label),
        _ => style.bad(&label),
    };
    let mut rest = format!("{}{}", main.title.trim_end_matches('.'), at(&main.target));
    // No cause is alleged where a row is told as it is.
    if !matches!(main.cause.as_str(), "unknown" | "unlabelled") {
        rest += &format!(" ({}, {})", status(main.status), confidence(main));
    }
    marked(&coloured, &label, &rest) + &wrapped("  ", &main.why, 2)
}

/// A coloured label before wrapped words: the width is that of the plain label.
fn marked(coloured: &str, label: &str, words: &str) -> String {
    let text = wrapped(&format!("{label} "), words, 2);
    text.replacen(label, coloured, 1)
}

fn heading(table: &str, style: Style) -> String {
    let (head, body) = table.split_once('\n').unwrap_or((table, ""));
    format!("{}\n{body}", style.heading(head))
}

/// Arithmetic over many facts by its beginning: all of it stands in `--json`.
fn shortened(signal: &str) -> String {
    if signal.chars().count() <= LONGEST_SIGNAL {
        return signal.to_owned();
    }
    let terms = signal.split(" + ").count();
    let first: String = signal.chars().take(LONGEST_SIGNAL).collect();
    let end = first.rfind(' ').unwrap_or(first.len());
    let first = first[..end].trim_end_matches(['+', '-', '*', '/', ' ']);
    match terms {
        1 => format!("{first} ..."),
        n => format!("{first} + ... ({n} terms)"),
    }
}

/// The source in the last column where it fits, else on a line of its own below.
fn evidence(items: &[Evidence], style: Style) -> String {
    if items.is_empty() {
        return String::new();
    }
    let mut rows = vec![
        ["evidence", "value", "threshold"]
            .map(str::to_owned)
            .to_vec(),
    ];
    rows.extend(items.iter().map(|e| {
        let (value, threshold) = value_and_threshold(&e.signal, &e.unit, e.value, e.threshold);
        vec![format!("  {}", shortened(&e.signal)), value, threshold]
    }));
    let table = columns(&rows, names(1));
    let widest = table.lines().map(|l| l.chars().count()).max().unwrap_or(0);
    let sources = std::iter::once("source").chain(items.iter().map(|e| e.source.as_str()));
    let lines = table.lines().zip(sources).map(|(line, source)| {
        let column = widest + 2;
        match column + 20 <= WIDTH {
            true => wrapped(&format!("{line:<column$}"), source, column),
            false if source == "source" => format!("{line}\n"),
            false => format!("{line}\n{}", wrapped("      ", source, 6)),
        }
    });
    heading(&lines.collect::<String>(), style)
}

fn remedy(finding: &Finding, style: Style) -> String {
    let mut text = String::new();
    if !finding.remedy.is_empty() {
        let label = if matches!(finding.cause.as_str(), "none" | "unknown" | "unlabelled") {
            "next:"
        } else {
            "remedy:"
        };
        text += &marked(&style.heading(label), label, &finding.remedy);
    }
    text += &changes(&finding.changes, style);
    text
}

fn changes(changes: &[Change], style: Style) -> String {
    let mut text = String::new();
    let mut before = String::new();
    for change in changes {
        let mut place = match change.place.as_str() {
            "" => "not set anywhere".to_owned(),
            place => place.to_owned(),
        };
        if !change.context.is_empty() {
            place += &format!(" ({})", change.context);
        }
        if place != before {
            text += &wrapped("  ", &place, 4);
            before = place;
        }
        for line in lines_of(&change.from) {
            text += &format!("    {}\n", style.bad(&format!("- {line}")));
        }
        for line in lines_of(&change.to) {
            text += &format!("    {}\n", style.good(&format!("+ {line}")));
        }
    }
    text
}

fn lines_of(directive: &str) -> impl Iterator<Item = &str> {
    directive
        .lines()
        .map(str::trim_end)
        .filter(|l| !l.is_empty())
}

pub(super) fn proof(proof: &Proof, style: Style) -> String {
    let result = proof.result.replace('_', " ");
    let label = format!("proof: {result}");
    let coloured = match proof.result.as_str() {
        "proved" => style.good(&label),
        "worse" => style.bad(&label),
        _ => style.doubtful(&label),
    };
    with_evidence(proof, (&coloured, &label), style)
}

/// A proof of no change: three copies of the same, which should be equal.
pub fn aa_text(proof: &Proof, style: Style) -> String {
    let label = format!("copies of the same: {}", proof.result.replace('_', " "));
    let coloured = match proof.result.as_str() {
        analysis::EQUAL => style.good(&label),
        _ => style.doubtful(&label),
    };
    with_evidence(proof, (&coloured, &label), style)
}

fn with_evidence(proof: &Proof, (coloured, label): (&str, &str), style: Style) -> String {
    let mut text = marked(coloured, label, &format!("- {}", proof.why));
    if let Some(by) = &proof.judged_by {
        let words = format!(
            "{}, because {}; named before the first load",
            by.metric.words(),
            by.why
        );
        text += &wrapped("  judged by ", &words, 4);
    }
    if let Some(held) = &proof.predicted {
        text += &wrapped("  ", &super::prediction::held(held), 4);
    }
    if !proof.evidence.is_empty() {
        let head = [
            "measured", "before", "after", "ratio", "interval", "expected", "signal",
        ];
        let mut rows = vec![head.map(str::to_owned).to_vec()];
        rows.extend(proof.evidence.iter().map(proof_row));
        text += &heading(&columns(&rows, |c| c == 0 || c > 4), style);
    }
    if !proof.calls.is_empty() {
        let changes: Vec<String> = proof.calls.iter().map(call_change).collect();
        text += &wrapped("  calls per request: ", &changes.join("; "), 4);
    }
    text
}

/// `readv on upstream 10.0 -> 1.00 (9,120 B -> 91,200 B each)`.
fn call_change(change: &CallChange) -> String {
    let class = match change.class.name() {
        "none" => String::new(),
        class => format!(" on {class}"),
    };
    let target = match change.target.as_str() {
        // The server behind the URL, which the proof is about.
        "server" => "",
        target => &format!(" of {target}"),
    };
    let sizes = match (change.mean_bytes_before, change.mean_bytes_after) {
        (Some(before), Some(after)) if before.round() != after.round() => format!(
            " ({} B -> {} B each)",
            count(before.round() as u64),
            count(after.round() as u64)
        ),
        _ => String::new(),
    };
    format!(
        "{}{class}{target} {} -> {}{sizes}",
        change.call,
        per_request(change.before),
        per_request(change.after)
    )
}

fn proof_row(ratio: &ProofRatio) -> Vec<String> {
    // The signal's name says the unit.
    let bare = |value, beside| {
        value_and_threshold(&ratio.signal, &ratio.unit, Some(beside), Some(value)).1
    };
    let before = bare(ratio.before, ratio.after);
    let after = bare(ratio.after, ratio.before);
    vec![
        format!("  {}", ratio.role.replace('_', " ")),
        before,
        after,
        ratio
            .ratio
            .map_or_else(|| "-".to_owned(), |r| format!("{r:.3}")),
        ratio.interval.map_or_else(
            || "-".to_owned(),
            |(low, high)| format!("[{low:.3}..{high:.3}]"),
        ),
        if ratio.as_predicted { "yes" } else { "NO" }.to_owned(),
        ratio.signal.clone(),
    ]
}

/// Who is the limit, what the change can bring, what nothing explains.
fn accounts(diagnosis: &Diagnosis, main: Option<&Finding>) -> String {
    let station = &diagnosis.station;
    let name = match station.target.as_str() {
        "" => station.name.replace('_', " "),
        target => format!("{} of {target}", station.name.replace('_', " ")),
    };
    let mut text = String::new();
    // Without a finding the first line has said it.
    if main.is_some() {
        text += &wrapped("limit:       ", &format!("{name}: {}", station.why), 13);
    }
    if let Some(bound) = main.and_then(|m| m.gain_bound) {
        let words = format!(
            "at most {} of the limiting resource's time goes into this; removing it cannot bring more",
            percent(bound)
        );
        text += &wrapped("gain:        ", &words, 13);
    } else if let Some(why) = main.and_then(|m| m.gain_unknown.as_deref()) {
        let words = format!("what it would bring is not known: {why}");
        text += &wrapped("gain:        ", &words, 13);
    }
    if let Some(said) = main.and_then(|m| m.predicted.as_ref()) {
        text += &wrapped("would bring: ", &would_bring(said), 13);
    }
    let rest = match diagnosis.unexplained {
        Some(share) => format!("{} of the limiting resource's time", percent(share)),
        None => "cannot be told".to_owned(),
    };
    text + &wrapped("unexplained: ", &rest, 13)
}

fn further(others: &[Finding], style: Style) -> String {
    let refuted = |f: &&Finding| f.status == Status::Refuted;
    let mut text = String::new();
    let groups: [(&str, Vec<&Finding>); 4] = [
        (
            "further causes",
            others
                .iter()
                .filter(|f| f.worth_changing && !refuted(f))
                .collect(),
        ),
        (
            "causes whose gain is not known",
            others
                .iter()
                .filter(|f| f.gain_unknown.is_some() && !refuted(f))
                .collect(),
        ),
        (
            "true, but not worth changing",
            others
                .iter()
                .filter(|f| !f.may_gain() && !refuted(f))
                .collect(),
        ),
        (
            "refuted by a measured change",
            others.iter().filter(refuted).collect(),
        ),
    ];
    for (title, findings) in groups.iter().filter(|(_, f)| !f.is_empty()) {
        text += &format!("{}\n", style.heading(title));
        text += &findings.iter().map(|f| short(f)).collect::<String>();
    }
    text
}

/// Two or three lines: what, the first number, the remedy.
fn short(finding: &Finding) -> String {
    let bound = finding
        .gain_bound
        .map_or_else(String::new, |b| format!(", gain at most {}", percent(b)));
    let head = format!(
        "{}{} ({}, {}{bound})",
        finding.title.trim_end_matches('.'),
        at(&finding.target),
        status(finding.status),
        confidence(finding)
    );
    let mut text = wrapped(&format!("  {}: ", finding.cause), &head, 4);
    text += &wrapped("    ", &finding.why, 4);
    if let Some(why) = &finding.gain_unknown {
        text += &wrapped("    what it would bring is not known: ", why, 6);
    }
    if finding.may_gain() && finding.status != Status::Refuted && !finding.remedy.is_empty() {
        text += &wrapped("    remedy: ", &finding.remedy, 6);
    }
    text
}

fn named(cause: &str, target: &str) -> String {
    format!("{cause}{}", at(target))
}

fn ruled_out(diagnosis: &Diagnosis, style: Style) -> String {
    let all = &diagnosis.ruled_out;
    let lines = all.iter().take(RULED_OUT_SHOWN).map(|r| {
        wrapped(
            &format!("  {}: ", named(&r.cause, &r.target)),
            &in_short(&r.why),
            4,
        )
    });
    listed(
        "ruled out",
        &lines.collect::<String>(),
        all.len(),
        RULED_OUT_SHOWN,
        style,
    )
}

/// The first reasons, as many as fit two lines; a condition with many alternatives names each.
fn in_short(why: &str) -> String {
    const LONGEST: usize = 150;
    let mut short = String::new();
    for reason in why.split("; ") {
        if !short.is_empty() {
            if short.len() + reason.len() > LONGEST {
                return short + "; ...";
            }
            short.push_str("; ");
        }
        short.push_str(reason);
    }
    short
}

/// Causes that are hidden by the same thing stand together: one remedy shows them all.
fn unseen(diagnosis: &Diagnosis, style: Style) -> String {
    // Pasted output speaks of a few causes, and what it lacks for each of the others is no news.
    if diagnosis.tier == analysis::PASTED && !diagnosis.unseen.is_empty() {
        let causes = plural(diagnosis.unseen.len() as u64, "cause");
        let words = format!("{causes}, of which this says too little (--json has all)");
        return wrapped("could not be judged: ", &words, 21);
    }
    let mut groups: Vec<(&str, Vec<&Unseen>)> = Vec::new();
    for unseen in &diagnosis.unseen {
        match groups.iter_mut().find(|(why, _)| *why == unseen.why) {
            Some((_, group)) => group.push(unseen),
            None => groups.push((&unseen.why, vec![unseen])),
        }
    }
    let lines = groups.iter().take(UNSEEN_SHOWN).map(|(why, group)| {
        let mut causes: Vec<String> = group
            .iter()
            .take(UNSEEN_SHOWN)
            .map(|u| named(&u.cause, &u.target))
            .collect();
        if let Some(more) = group.len().checked_sub(UNSEEN_SHOWN).filter(|n| *n > 0) {
            causes.push(format!("{} more", count(more as u64)));
        }
        let missing = match group.as_slice() {
            [one] => format!(" (missing: {})", one.signals.join(", ")),
            _ => String::new(),
        };
        wrapped("  ", &format!("{}: {why}{missing}", causes.join(", ")), 4)
    });
    let lines: String = lines.collect();
    listed(
        "could not be judged",
        &lines,
        groups.len(),
        UNSEEN_SHOWN,
        style,
    )
}

fn listed(title: &str, lines: &str, all: usize, shown: usize, style: Style) -> String {
    if all == 0 {
        return String::new();
    }
    let rest = match all.saturating_sub(shown) {
        0 => String::new(),
        rest => format!("  and {} more (--json has all)\n", count(rest as u64)),
    };
    format!("{}\n{lines}{rest}", style.heading(title))
}

fn calls(table: &SignatureTable, style: Style) -> String {
    let head = [
        "calls per request",
        "on",
        "calls",
        "mean size",
        "most frequent",
        "full",
        "errors",
    ];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    let mut uncounted = Vec::new();
    for target in &table.targets {
        let Some(calls) = &target.calls else {
            uncounted.push(target.target.as_str());
            continue;
        };
        rows.push(vec![format!("  {}", target.target)]);
        let shown = calls
            .iter()
            .take(CALLS_SHOWN)
            .filter(|c| c.per_request >= RARE_CALL);
        let shown: Vec<Vec<String>> = shown.map(call_row).collect();
        let rest = &calls[shown.len()..];
        rows.extend(shown);
        if !rest.is_empty() {
            let sum: f64 = rest.iter().map(|c| c.per_request).sum();
            let others = plural(rest.len() as u64, "other");
            rows.push(vec![
                format!("    {others}"),
                String::new(),
                per_request(sum),
            ]);
        }
    }
    let text = heading(&columns(&rows, |c| c < 2 || c == 6), style);
    match uncounted.is_empty() {
        true => text,
        false => text + &wrapped("  could not be counted: ", &uncounted.join(", "), 4),
    }
}

fn per_request(n: f64) -> String {
    if n >= 10.0 {
        format!("{n:.1}")
    } else {
        format!("{n:.2}")
    }
}

fn call_row(row: &CallRow) -> Vec<String> {
    let dash = || "-".to_owned();
    let bytes = |n: f64| format!("{} B", count(n.round() as u64));
    let top = match (row.top_bytes, row.top_share) {
        (Some(size), Some(share)) => format!("{} ({})", bytes(size as f64), percent(share)),
        (Some(size), None) => bytes(size as f64),
        (None, _) => dash(),
    };
    let errors: Vec<String> = row
        .errors_per_request
        .iter()
        .map(|(errno, n)| format!("{errno} {}", per_request(*n)))
        .collect();
    vec![
        format!("    {}", row.call),
        match row.class.name() {
            "none" => "-".to_owned(),
            class => class.to_owned(),
        },
        per_request(row.per_request),
        row.mean_bytes.map_or_else(dash, bytes),
        top,
        row.full_share.map_or_else(dash, percent),
        match errors.is_empty() {
            true => dash(),
            false => errors.join(", "),
        },
    ]
}

/// Tier, requests counted, what was lost and what each probe took.
fn probes(
    diagnosis: &Diagnosis,
    examination: Option<&Examination>,
    table: Option<&SignatureTable>,
) -> String {
    let mut words = vec![diagnosis.tier.clone()];
    if let Some(table) = table {
        words.push(format!("{} counted", plural(table.requests, "request")));
        if table.failed > 0 {
            words.push(format!("{} of them failed", count(table.failed)));
        }
        if table.lost > 0 {
            words.push(format!(
                "{} lost: counts are too low",
                plural(table.lost, "event")
            ));
        }
    }
    let mut text = wrapped("probes: ", &words.join(", "), 8);
    let timing = examination.map_or(&[][..], |e| &e.monitor_cost);
    let timing: Vec<String> = timing.iter().map(|c| cost(&CostRow::from(c))).collect();
    let armed: Vec<String> = table
        .map_or(&[][..], |t| &t.cost)
        .iter()
        .map(cost)
        .collect();
    for (label, costs) in [("  while timed:   ", timing), ("  while counted: ", armed)] {
        if !costs.is_empty() {
            text += &wrapped(label, &costs.join("; "), 17);
        }
    }
    text
}

fn cost(cost: &CostRow) -> String {
    let mut text = format!("{} {}", cost.probe, plural(cost.events, "event"));
    if let Some(ns) = cost.measured_ns {
        text += &format!(", took {}", Nanos(ns));
    }
    if let Some(share) = cost.expected_share {
        text += &format!(", expected {} of a core", percent(share));
    }
    text
}
