//! The conclusion in words: what the numbers of a run allow to say, what limits, and what cannot be said.
//!
//! Sentences are made from the run's document and carry the place of each number in it. The rule that shapes all of
//! them: nothing is claimed without an interval, and nothing from a cell without a valid trial; what falls short of
//! that becomes a sentence about what cannot be said.

mod answer;
mod compared;
mod limits;
mod unsaid;

use crate::json::RunDocument;
use crate::number::{Number, Source, Unit};
use analysis::Plan;
pub(crate) use answer::lines as answer_lines;
use compared::Stage;
use record::PROOF_STAGE;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a sentence of the conclusion says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Said {
    /// Of the answer: what the factor does, or how much is held.
    Answer,
    /// Of the answer: by which mechanism, or what limits it.
    Mechanism,
    /// Of the answer: what to do, and how sure.
    Next,
    /// Which level is best, and by how much.
    Best,
    /// Levels that cannot be told apart from the best.
    Tie,
    /// A level against the baseline over all settings of the other factors.
    Difference,
    /// No level is shown to be better than the baseline.
    NoDifference,
    /// The highest rate of a stage that compares nothing.
    Highest,
    /// Where more load stops to pay.
    Knee,
    /// What limits the server at its best.
    Limit,
    Cause,
    /// What cannot be said, and why.
    CannotSay,
}

impl Said {
    /// The answer says it, and a page that shows the answer need not.
    pub(crate) fn is_in_the_answer(self) -> bool {
        matches!(
            self,
            Said::Best | Said::NoDifference | Said::Highest | Said::Limit | Said::Cause
        )
    }
}

/// One sentence of the conclusion.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Statement {
    /// What it says.
    pub said: Said,
    /// Stage that it speaks of; empty for the run.
    pub stage: String,
    /// The sentence.
    pub text: String,
    /// JSON pointers of its numbers within this document, in the order of the sentence.
    pub from: Vec<String>,
}

/// A sentence whose numbers know where they come from.
#[derive(Debug, Serialize)]
pub(crate) struct Sentence {
    pub said: Said,
    pub stage: String,
    pub parts: Vec<Part>,
    /// What the sentence as a whole is about.
    pub about: String,
}

/// Words, or a number.
#[derive(Debug, Serialize)]
pub(crate) struct Part {
    pub words: String,
    pub number: Option<Number>,
}

impl Sentence {
    fn new(said: Said, stage: &str, about: impl Into<String>) -> Self {
        Self {
            said,
            stage: stage.to_owned(),
            parts: Vec::new(),
            about: about.into(),
        }
    }

    fn words(mut self, words: impl Into<String>) -> Self {
        self.parts.push(Part {
            words: words.into(),
            number: None,
        });
        self
    }

    /// A number; a gap reads as `unknown`, which only a damaged record can show.
    fn number(mut self, source: &Source, pointer: &str, unit: Unit) -> Self {
        let number = source.number(pointer, unit);
        self.parts.push(Part {
            words: number
                .as_ref()
                .map_or_else(|| "unknown".to_owned(), |n| n.text.clone()),
            number,
        });
        self
    }

    /// `+12 % (+8 % to +15 %; 5 pairs, 94 %)`.
    fn change(self, source: &Source, at: &str) -> Self {
        self.number(source, &format!("{at}/ratio"), Unit::Change)
            .words(" (")
            .number(source, &format!("{at}/low"), Unit::Change)
            .words(" to ")
            .number(source, &format!("{at}/high"), Unit::Change)
            .words("; ")
            .number(source, &format!("{at}/pairs"), Unit::Count)
            .words(" pairs, coverage ")
            .number(source, &format!("{at}/coverage"), Unit::Share)
            .words(")")
    }

    /// A capital at the start, but for the name of a level or a command.
    fn begin(&mut self) {
        let Some(first) = self.parts.first_mut() else {
            return;
        };
        let is_name = first
            .words
            .split(' ')
            .next()
            .is_some_and(|w| w.contains('=') || w.starts_with("apt-"));
        let mut letters = first.words.chars();
        if let Some(letter) = letters.next().filter(|_| !is_name) {
            first.words = letter.to_uppercase().chain(letters).collect();
        }
    }

    fn text(&self) -> String {
        self.parts.iter().map(|p| p.words.as_str()).collect()
    }

    /// As a statement of the document.
    pub fn statement(&self) -> Statement {
        let pointers = self.parts.iter().filter_map(|p| p.number.as_ref());
        Statement {
            said: self.said,
            stage: self.stage.clone(),
            text: self.text(),
            from: pointers
                .map(|n| n.from.trim_start_matches('#').to_owned())
                .collect(),
        }
    }
}

/// The sentences of an answer by itself, as statements of the document that holds it.
pub(crate) fn answer_statements(answer: &analysis::Answer) -> Vec<Statement> {
    let source = Source::at("", "/answer", answer);
    let lines = answer_lines(answer, &source);
    lines.iter().map(Sentence::statement).collect()
}

/// Cells that are named one by one before a sentence says "and more".
const NAMED: usize = 4;

/// All sentences of a run: what was shown, what limits, what cannot be said.
pub(crate) fn sentences(document: &RunDocument, plan: Option<&Plan>) -> Vec<Sentence> {
    let source = Source::new("", document);
    let mut all = Vec::new();
    for stage in stages(document) {
        let baseline = plan
            .and_then(|p| p.stages.iter().find(|s| s.name == stage))
            .map(|s| s.baseline.clone())
            .unwrap_or_default();
        let of_stage = Stage::new(document, &source, stage, baseline);
        all.extend(of_stage.against_baseline());
        all.extend(of_stage.highest());
    }
    all.extend(limits::knees(document, &source));
    all.extend(limits::limit(document));
    all.extend(limits::causes(document, &source));
    all.extend(unsaid::cannot_say(document, plan));
    all.iter_mut().for_each(Sentence::begin);
    // A person reads what was shown first; within one kind the order of the stages stays.
    all.sort_by_key(|s| s.said == Said::CannotSay);
    all
}

fn stages(document: &RunDocument) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for cell in document
        .comparisons
        .iter()
        .filter(|c| c.stage != PROOF_STAGE)
    {
        if !names.contains(&cell.stage.as_str()) {
            names.push(&cell.stage);
        }
    }
    names
}
