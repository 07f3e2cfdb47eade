//! What of a file was sent again, and how the statuses that it recorded compare with those answered.

use super::style::Style;
use crate::json::Replayed;
use analysis::words::count;
use record::LoadOutcome;

/// Lines on a replay, for above the result: what of the file was sent, and the statuses recorded and answered.
pub fn replay_text(replay: &Replayed, outcome: &LoadOutcome, style: Style) -> String {
    let mut text = format!(
        "{}: {} requests of {}, at {} times the recorded speed",
        style.good("replay"),
        count(replay.requests),
        replay.file,
        replay.speed
    );
    if let Some(distinct) = replay.distinct {
        text += &format!(", {} different", count(distinct));
    }
    text.push('\n');
    let listed = |counts: &mut dyn Iterator<Item = (String, u64)>| {
        let each = counts.map(|(name, n)| format!("{name}: {}", count(n)));
        each.collect::<Vec<_>>().join(", ")
    };
    let recorded = replay.recorded_status.iter();
    let recorded = listed(&mut recorded.map(|(status, n)| (status.clone(), *n)));
    if !recorded.is_empty() {
        let answered = outcome.status.iter();
        let answered = listed(&mut answered.map(|(status, n)| (status.to_string(), *n)));
        let answered = Some(answered).filter(|a| !a.is_empty());
        let answered = answered.unwrap_or_else(|| "none".to_owned());
        text += &format!("  status recorded  {recorded}\n  status answered  {answered}\n");
    }
    let left_out = replay.left_out.iter();
    let left_out = listed(&mut left_out.map(|(reason, n)| (left_out_words(reason).to_owned(), *n)));
    if !left_out.is_empty() {
        text += &format!("  lines left out   {left_out}\n");
    }
    text
}

fn left_out_words(reason: &str) -> &str {
    match reason {
        "malformed" => "not a line of an access log",
        "target" => "no path that can be sent",
        "connect" => "CONNECT",
        "body" => "POST, PUT or PATCH, whose body is not in the log",
        "unsafe" => "neither GET nor HEAD nor OPTIONS (--replay-unsafe)",
        other => other,
    }
}
