//! What limits the server, and where: knees, the verdict, causes with what their proof measured.

use super::{Said, Sentence};
use crate::json::RunDocument;
use crate::number::{Source, Unit};
use analysis::words::levels as levels_words;
use analysis::{Finding, Limit, Status};

/// Where more load stops to pay: at a level that was measured.
pub(super) fn knees<'a>(
    document: &'a RunDocument,
    source: &'a Source,
) -> impl Iterator<Item = Sentence> {
    document.knees.iter().enumerate().map(move |(i, knee)| {
        let at = format!("/knees/{i}");
        let fixed = match knee.levels.is_empty() {
            true => String::new(),
            false => format!(" with {}", levels_words(&knee.levels)),
        };
        let (unit, behind) = match knee.axis.as_str() {
            "connections" => (Unit::Count, " connections"),
            _ => (Unit::PerSecond, "/s offered"),
        };
        let sentence = Sentence::new(Said::Knee, &knee.stage, format!("#{at}"))
            .words(format!(
                "Stage {}{fixed}: of the loads that were tried, the knee is at ",
                knee.stage
            ))
            .number(source, &format!("{at}/at"), unit)
            .words(format!("{behind} ("))
            .number(source, &format!("{at}/achieved_per_s"), Unit::PerSecond);
        match knee.response_ns_p99 {
            Some(_) => sentence
                .words("/s, p99 ")
                .number(source, &format!("{at}/response_ns_p99"), Unit::Nanos)
                .words(")."),
            None => sentence.words("/s)."),
        }
    })
}

/// What limits the server at its best; nothing where the verdict does not say.
pub(super) fn limit(document: &RunDocument) -> Option<Sentence> {
    let verdict = &document.verdict;
    if !verdict.valid || verdict.limit == Limit::Unknown {
        return None;
    }
    let resource = match verdict.resource.replace('_', " ") {
        none if none.is_empty() || none == verdict.limit.name().replace('_', " ") => String::new(),
        resource => format!(" ({resource})"),
    };
    let why = verdict.why.trim_end_matches('.');
    Some(
        Sentence::new(Said::Limit, "", "#/verdict/why").words(format!(
            "At its best it is limited by {}{resource}: {why}.",
            match verdict.limit {
                Limit::Server => "the server",
                Limit::Generator => "the load generator",
                Limit::OfferedLoad => "the offered load",
                Limit::Network => "the network",
                Limit::Unknown => "something that no evidence names",
            },
        )),
    )
}

/// The causes that hold at the run's best, with what their proof measured.
pub(super) fn causes(document: &RunDocument, source: &Source) -> Vec<Sentence> {
    let said = |(i, finding): (usize, &Finding)| {
        let at = format!("/diagnosis/{i}");
        let sentence = Sentence::new(Said::Cause, "", format!("#{at}"));
        let name = format!("{} ({})", finding.title, finding.cause);
        // The best cell is healthy; what the experiment asks about is not.
        let other_named = document
            .answer
            .as_ref()
            .is_some_and(|a| a.answer.cause().is_some());
        if finding.cause == "none" && other_named {
            return None;
        }
        if finding.cause == "none" {
            let text = format!("No cause was found to be removed: {}.", finding.title);
            return Some(sentence.words(text));
        }
        match finding.status {
            Status::Proved => proved(finding, sentence, &name, &at, source),
            Status::Supported => {
                let why = finding.why.trim_end_matches('.');
                let text = format!(
                    "The counts support one cause: {name}. {why}. What its removal brings was not measured."
                );
                Some(sentence.words(text))
            }
            Status::Refuted | Status::Suspected => None,
        }
    };
    document
        .diagnosis
        .iter()
        .enumerate()
        .filter_map(said)
        .collect()
}

fn proved(
    finding: &Finding,
    sentence: Sentence,
    name: &str,
    at: &str,
    source: &Source,
) -> Option<Sentence> {
    let rows = &finding.proof.as_ref()?.evidence;
    let row = rows
        .iter()
        .position(|r| r.role == "metric" && r.interval.is_some())?;
    let row_at = format!("{at}/proof/evidence/{row}");
    Some(
        sentence
            .words(format!(
                "Proved cause: {name}. Without it {} changes by ",
                rows[row].signal
            ))
            .number(source, &format!("{row_at}/ratio"), Unit::Change)
            .words(" (")
            .number(source, &format!("{row_at}/interval/0"), Unit::Change)
            .words(" to ")
            .number(source, &format!("{row_at}/interval/1"), Unit::Change)
            .words(")."),
    )
}
