//! The next step of an answer, put together in one place: what the text itself says to do, what is looked at in its
//! product's own tools, then the step that holds for anything of its kind.
//!
//! The surprise is what is left out: a step must be readable, so that the last part gives way to the first two.

use super::products::{self, Led};
use super::readings::Held;
use crate::diagnosis::Finding;
use record::pasted::{Pasted, Said};

/// From this weight on a reading knows its tool, and its own step is as good as the product's.
const KNOWN: f64 = 0.45;
/// Characters of a step that is read at a glance.
const READABLE: usize = 520;
/// What is left of the general step at least, where its clauses are no longer.
const LEAST: usize = 240;
/// Characters of a first clause that is kept at any rate.
const FIRST: usize = 320;
/// Products that are named.
const PRODUCTS: usize = 2;
/// The second product is that much as specific as the first.
const AS_SPECIFIC: f64 = 0.7;
/// Characters by which a quoted line is known in a sentence.
const KNOWN_BY: usize = 40;
/// Characters of a quoted line.
const QUOTED: usize = 160;

/// Adds to the first finding what the text's own words say.
pub(super) fn add(finding: &mut Finding, held: &[Held], pasted: &Pasted) {
    if finding.cause != "unknown" {
        let from_messages = |h: &&Held| {
            let mut signals = h.evidence.iter().map(|e| e.signal.as_str());
            signals.any(|s| s.contains("seen.log.") || s.contains("seen.messages."))
        };
        let message = held.iter().find(from_messages);
        let own = message.is_some_and(|h| h.cause.as_ref() == Some(&finding.cause));
        if let Some(advice) = advised(&pasted.said, &finding.remedy).filter(|_| own) {
            finding.remedy = format!("{advice}; then {}", finding.remedy);
        }
        return;
    }
    let generic = held.first().is_none_or(|h| h.weight < KNOWN);
    // What a reader knew is told by a reading, or else by the text's own line.
    if generic && !pasted.said.known || held.is_empty() {
        quote(&mut finding.why, &pasted.said);
    }
    // Of several products that are compared none is what the text is about.
    let compared = pasted
        .artefacts
        .iter()
        .any(|a| a.value("underway.rows").is_some());
    let led = match compared {
        true => Vec::new(),
        false => chosen(&products::led(&pasted.said.text, &finding.why), generic),
    };
    let mut parts: Vec<String> = advised(&pasted.said, &finding.remedy).into_iter().collect();
    parts.extend(led.iter().map(|l| l.product.next.clone()));
    if parts.is_empty() {
        return;
    }
    let general = finding.remedy.trim_end_matches('.');
    let before = parts.join("; then ");
    let rest = match (led.is_empty(), generic) {
        (true, _) => general.to_owned(),
        // A reading that knows its tool has a step of its own, which is not cut.
        (_, false) => shortened(general, &before, usize::MAX),
        _ => {
            let room = READABLE.saturating_sub(before.chars().count());
            shortened(general, &before, room.max(LEAST))
        }
    };
    finding.remedy = match rest.is_empty() {
        true => format!("{before}."),
        false => format!("{before}; then {rest}."),
    };
}

/// Says the most telling line, where it is not quoted yet.
fn quote(why: &mut String, said: &Said) {
    // A reading may quote a line from its telling words on.
    let unquoted = |line: &&String| {
        let begin: String = line.chars().take(KNOWN_BY).collect();
        let skipped = line.chars().count().saturating_sub(KNOWN_BY);
        let end: String = line.chars().skip(skipped).collect();
        !why.contains(&begin) && !why.contains(&end)
    };
    let line = said.telling.first().filter(unquoted);
    let Some(line) = line.or(said.best.as_ref().filter(|_| said.known)) else {
        return;
    };
    let line: String = line.chars().take(QUOTED).collect();
    let before = why.trim_end_matches('.');
    *why = format!(
        "{before}; the line that tells most is `{}`.",
        line.replace('`', "'")
    );
}

/// What the text says to do, and the settings that it names and the step does not.
fn advised(said: &Said, step: &str) -> Option<String> {
    let sentences = said
        .advice
        .iter()
        .map(|s| format!("`{}`", s.replace('`', "'")));
    let sentences: Vec<String> = sentences.collect();
    let names = said.settings.iter().filter(|name| {
        !step.contains(name.as_str()) && !sentences.iter().any(|s| s.contains(name.as_str()))
    });
    let names: Vec<String> = names.map(|name| format!("`{name}`")).collect();
    let mut parts = Vec::new();
    if !sentences.is_empty() {
        parts.push(format!("the text itself says: {}", sentences.join(" ")));
    }
    if !names.is_empty() {
        parts.push(format!("the setting that it names: {}", names.join(", ")));
    }
    (!parts.is_empty()).then(|| parts.join("; "))
}

/// The most specific entries: two of different products or topics, one where the reading knows its tool.
fn chosen(led: &[Led], generic: bool) -> Vec<Led> {
    let mut chosen: Vec<Led> = Vec::new();
    for one in led {
        // Who knows the tool is told more by a topic of its product alone.
        let topic = one.product.is_topic() && !one.product.is_any() && one.whole;
        let known = generic || topic && (one.told || one.apart);
        let as_specific = chosen.first().is_none_or(|first| {
            let lengths = first.product.next.len() + one.product.next.len();
            (one.product.is_topic() && one.whole || first.product.is_any())
                && (one.told || !first.told)
                && one.score as f64 >= AS_SPECIFIC * first.score as f64
                && lengths <= READABLE
        });
        if known && as_specific && chosen.len() < if generic { PRODUCTS } else { 1 } {
            chosen.push(*one);
        }
    }
    chosen
}

/// The first clauses of a step that fit into so many characters, but for those whose commands stand before it already;
/// nothing where the first does not fit.
fn shortened(step: &str, before: &str, room: usize) -> String {
    let said = |clause: &&str| {
        let mut commands = clause.split('`').skip(1).step_by(2).peekable();
        commands.peek().is_none() || commands.any(|command| !before.contains(command))
    };
    let mut kept = String::new();
    for clause in clauses(step).into_iter().filter(said) {
        let clause = clause.trim().trim_start_matches("then ");
        let part = if kept.is_empty() { 0 } else { 2 };
        let room = if kept.is_empty() {
            room.max(FIRST)
        } else {
            room
        };
        if kept.chars().count() + part + clause.chars().count() > room {
            break;
        }
        if part > 0 {
            kept += "; ";
        }
        kept += clause;
    }
    kept
}

/// A step at its semicolons, but for those in code and in brackets.
pub(super) fn clauses(step: &str) -> Vec<&str> {
    let (mut found, mut from) = (Vec::new(), 0);
    let (mut code, mut depth) = (false, 0_i32);
    for (at, c) in step.char_indices() {
        match c {
            '`' => code = !code,
            '(' if !code => depth += 1,
            ')' if !code => depth -= 1,
            ';' if !code && depth <= 0 => {
                found.push(&step[from..at]);
                from = at + 1;
            }
            _ => {}
        }
    }
    found.push(&step[from..]);
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_gives_way_by_clauses() {
        let step = "one (a; b) and `c; d`; then two; three";
        let all = "one (a; b) and `c; d`; two; three";
        assert_eq!(shortened(step, "", 100), all);
        assert_eq!(shortened(step, "", 30), "one (a; b) and `c; d`; two");
        assert_eq!(shortened(step, "run `c; d` first", 30), "two; three");
        assert_eq!(shortened(step, "", 10), "one (a; b) and `c; d`");
        assert_eq!(shortened(&"long ".repeat(FIRST), "", 10), "");
    }

    fn said(text: &str, advice: &[&str], settings: &[&str]) -> Said {
        let all = |of: &[&str]| of.iter().map(|s| (*s).to_owned()).collect();
        Said {
            text: text.to_owned(),
            telling: vec![text.to_owned()],
            best: None,
            advice: all(advice),
            settings: all(settings),
            known: false,
        }
    }

    #[test]
    fn what_the_text_says_stands_first_and_its_product_next() {
        let text = "VM warning: CodeCache is full";
        let pasted = Pasted {
            said: said(text, &["Try increasing it"], &["max_of_it"]),
            ..Pasted::default()
        };
        let mut finding = crate::diagnose_pasted(&Pasted::default())
            .findings
            .remove(0);
        let general = "one thing that holds for anything; another thing that is long".to_owned();
        finding.remedy = format!("{general}.");
        add(&mut finding, &[], &pasted);
        assert!(finding.why.contains(text), "{}", finding.why);
        let order = ["Try increasing it", "max_of_it", "Compiler.codecache"];
        let at = order.map(|w| finding.remedy.find(w).expect(w));
        assert!(at.is_sorted(), "{}", finding.remedy);
    }
}
