//! The answer of a run for a terminal: the question and three lines, before everything else.

use super::style::Style;
use super::verdict_text;
use super::wrap::wrapped;
use crate::conclusion::{Said, answer_statements};
use analysis::{Answer, AnswerKind, Verdict};

/// What the run answers. Where its figures may not be used the first line says so, as everywhere.
pub fn answer_text(answer: &Answer, verdict: &Verdict, style: Style) -> String {
    let mut text = String::new();
    let mut statements = answer_statements(answer);
    if !verdict.valid {
        text += &verdict_text(verdict, style);
        // The verdict has said why and what to do.
        let same = |why: &str| why == verdict.why;
        if answer.unanswered.as_ref().is_some_and(|u| same(&u.why)) {
            statements.retain(|s| s.said == Said::Answer);
        }
        text.push('\n');
    }
    if !answer.question.is_empty() {
        text += &wrapped("question: ", &answer.question, INDENT);
    }
    for statement in statements {
        let label = match (statement.said, answer.kind) {
            (Said::Answer, _) => "answer:   ",
            (Said::Mechanism, AnswerKind::Capacity) => "limit:    ",
            (Said::Mechanism, _) => "why:      ",
            _ => "next:     ",
        };
        let line = wrapped(label, &statement.text, INDENT);
        text += &match statement.said {
            Said::Answer => style.heading(line.trim_end()) + "\n",
            _ => line,
        };
    }
    text + "\n"
}

/// Width of the labels.
const INDENT: usize = 10;
