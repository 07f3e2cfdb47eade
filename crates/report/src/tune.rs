//! What `prony tune` shows: settings of a profile against the host, what is applied, what was put back.
//!
//! One document for its three actions, as `--json` (`schema/tune.schema.json`) and as text. The surprise: a sysctl
//! that no kernel has any more is no failure; it is shown with what became of it.

use crate::text::Style;
use crate::text::table::{columns, names};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Version of the document; it rises when a name changes its meaning or goes.
const FORMAT: u32 = 1;

/// What `prony tune --json` prints.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TuneDocument {
    /// Version of this document.
    pub format: u32,
    /// `apply`, `show` or `restore`.
    pub action: String,
    /// The profile that was named; `null` without one.
    pub profile: Option<String>,
    /// What the profile is for; empty without one.
    pub about: String,
    /// Nothing was changed.
    pub dry_run: bool,
    /// The profile's settings at their places on this host (`apply`, `show`).
    pub settings: Vec<TuneRow>,
    /// What belongs to the profile and is left to a person.
    pub by_hand: Vec<String>,
    /// What was put back, or why not (`restore`).
    pub restored: Vec<RestoredRow>,
    /// Profiles that are applied now, oldest first (`show`, and after `apply`).
    pub applied: Vec<AppliedProfile>,
    /// Profiles that are built in (`show` without a profile).
    pub profiles: Vec<ProfileRow>,
}

/// A setting of a profile at one place of the host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TuneRow {
    /// The name that people know.
    pub name: String,
    /// What the profile wants, in its words.
    pub wanted: String,
    /// What stands there, or stood there before it was set; `null` when it cannot be read.
    pub old: Option<String>,
    /// What is to be written, or what came of it; `null` when nothing can be.
    pub new: Option<String>,
    /// `same`, `differs`, `set`, `gone` (no kernel of today has it), `absent` (this host has it not), `refused`.
    pub state: String,
    /// Why; may be empty.
    pub note: String,
    /// What to do about it; may be empty.
    pub remedy: String,
    /// Why the profile wants it.
    pub why: String,
    /// What to beware of; may be empty.
    pub caution: String,
}

/// A setting that was to be put back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RestoredRow {
    /// The profile that had changed it.
    pub profile: String,
    /// The name that people know.
    pub name: String,
    /// What stood there; `null` when that is not known.
    pub now: Option<String>,
    /// The value from before the profile.
    pub old: String,
    /// `restored`, `already`, `changed` (by somebody else, left alone), `held` (by a later profile), `failed`.
    pub outcome: String,
    /// Why; may be empty.
    pub note: String,
}

/// A profile that is applied.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AppliedProfile {
    pub profile: String,
    /// When, RFC 3339.
    pub at: String,
    /// What it changed.
    pub settings: Vec<AppliedRow>,
}

/// A setting that a profile changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AppliedRow {
    /// The name that people know.
    pub name: String,
    /// What stood there before.
    pub old: String,
    /// What was made of it.
    pub new: String,
    /// What is different by now; may be empty.
    pub note: String,
}

/// A profile that is built in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProfileRow {
    pub name: String,
    pub about: String,
    /// Number of its settings.
    pub settings: u32,
}

impl TuneDocument {
    /// An empty document of an action.
    pub fn new(action: &str) -> Self {
        Self {
            format: FORMAT,
            action: action.to_owned(),
            ..Self::default()
        }
    }

    /// How many settings are in that state.
    pub fn count(&self, state: &str) -> usize {
        self.settings
            .iter()
            .filter(|row| row.state == state)
            .count()
    }
}

/// The published schema of [`TuneDocument`].
pub fn schema() -> serde_json::Value {
    schemars::schema_for!(TuneDocument).to_value()
}

/// The document as text: what came of it first, then the settings.
pub fn text(document: &TuneDocument, style: Style) -> String {
    let mut text = summary(document, style);
    if !document.about.is_empty() {
        text += &format!("{}\n", document.about);
    }
    text += &settings(document);
    text += &restored(document);
    for line in &document.by_hand {
        text += &format!("by hand: {line}\n");
    }
    text += &profiles(document);
    text += &applied(document);
    text
}

fn summary(document: &TuneDocument, style: Style) -> String {
    let profile = document.profile.as_deref().unwrap_or_default();
    let counts = |states: &[(&str, &str)]| {
        let parts = states
            .iter()
            .filter_map(|(state, words)| match document.count(state) {
                0 => None,
                n => Some(format!("{n} {words}")),
            });
        parts.collect::<Vec<_>>().join(", ")
    };
    let rest = [
        ("refused", "could not be set"),
        ("absent", "not on this host"),
        ("gone", "gone from today's kernels"),
        ("same", "as wanted already"),
    ];
    match document.action.as_str() {
        "apply" if document.dry_run => {
            let states = [&[("differs", "to be set")], rest.as_slice()].concat();
            format!(
                "{}: {profile}: {}\n",
                style.heading("dry run"),
                counts(&states)
            )
        }
        "apply" => {
            let head = match document.count("refused") {
                0 => style.good("applied"),
                _ => style.doubtful("applied in part"),
            };
            let states = [&[("set", "set")], rest.as_slice()].concat();
            let how_back = match document.count("set") {
                0 => "nothing was changed\n".to_owned(),
                _ => format!(
                    "it stays until `prony tune restore {profile}`, or a restart of the host\n"
                ),
            };
            format!("{head}: {profile}: {}\n{how_back}", counts(&states))
        }
        "show" if !profile.is_empty() => {
            let rest = rest.map(|(state, words)| match state {
                "refused" => (state, "cannot be read or computed"),
                _ => (state, words),
            });
            let states = [&[("differs", "differ")], rest.as_slice()].concat();
            format!("{}: {}\n", style.heading(profile), counts(&states))
        }
        "restore" => restored_summary(document, style),
        _ => String::new(),
    }
}

fn restored_summary(document: &TuneDocument, style: Style) -> String {
    let count = |outcome: &str| {
        document
            .restored
            .iter()
            .filter(|r| r.outcome == outcome)
            .count()
    };
    if document.restored.is_empty() {
        return match &document.profile {
            Some(profile) => format!("nothing to restore: {profile} is not applied\n"),
            None => "nothing to restore: no profile is applied\n".to_owned(),
        };
    }
    let back = count("restored") + count("already");
    let left = document.restored.len() - back;
    let head = match (left, document.dry_run) {
        (_, true) => style.heading("dry run"),
        (0, _) => style.good("restored"),
        _ => style.doubtful("restored in part"),
    };
    let left = match left {
        0 => String::new(),
        n => format!(", {n} left as they are"),
    };
    format!(
        "{head}: {back} of {} settings{left}\n",
        document.restored.len()
    )
}

/// A table of what differs or was set, and a line with its reason for everything else that is not as wanted.
fn settings(document: &TuneDocument) -> String {
    let shown = |row: &&TuneRow| matches!(row.state.as_str(), "set" | "differs");
    let mut rows: Vec<Vec<String>> = document
        .settings
        .iter()
        .filter(shown)
        .map(|row| {
            let sign = if row.state == "set" { "set" } else { "  " };
            let old = row.old.as_deref().unwrap_or("?").replace('\t', " ");
            let new = row.new.as_deref().unwrap_or("?").replace('\t', " ");
            vec![sign.to_owned(), row.name.clone(), old, "->".to_owned(), new]
        })
        .collect();
    let mut text = String::new();
    if !rows.is_empty() {
        rows.insert(
            0,
            ["", "setting", "now", "", "wanted"]
                .map(str::to_owned)
                .to_vec(),
        );
        if document.action == "apply" && !document.dry_run {
            rows[0] = ["", "setting", "before", "", "now"]
                .map(str::to_owned)
                .to_vec();
        }
        text += "\n";
        text += &columns(&rows, names(5));
    }
    for row in document.settings.iter().filter(shown) {
        for remark in [&row.note, &row.caution]
            .into_iter()
            .filter(|r| !r.is_empty())
        {
            text += &format!("note: {}: {remark}\n", row.name);
        }
    }
    for row in &document.settings {
        if matches!(row.state.as_str(), "gone" | "absent" | "refused") {
            let wanted = &row.wanted;
            text += &format!("{}: {} ({wanted}): {}\n", row.state, row.name, row.note);
            if !row.remedy.is_empty() {
                text += &format!("  remedy: {}\n", row.remedy);
            }
        }
    }
    text
}

fn restored(document: &TuneDocument) -> String {
    if document.restored.is_empty() {
        return String::new();
    }
    let mut rows = vec![
        ["", "setting", "was", "", "before the profile"]
            .map(str::to_owned)
            .to_vec(),
    ];
    rows.extend(document.restored.iter().map(|r| {
        let now = r.now.as_deref().unwrap_or("-").replace('\t', " ");
        let old = r.old.replace('\t', " ");
        vec![r.outcome.clone(), r.name.clone(), now, "->".to_owned(), old]
    }));
    let mut text = format!("\n{}", columns(&rows, names(5)));
    for r in document.restored.iter().filter(|r| !r.note.is_empty()) {
        text += &format!("note: {}: {}\n", r.name, r.note);
    }
    text
}

fn profiles(document: &TuneDocument) -> String {
    if document.profiles.is_empty() {
        return String::new();
    }
    let rows: Vec<Vec<String>> = document
        .profiles
        .iter()
        .map(|p| {
            vec![
                p.name.clone(),
                format!("{} settings", p.settings),
                p.about.clone(),
            ]
        })
        .collect();
    columns(&rows, names(3))
}

fn applied(document: &TuneDocument) -> String {
    if document.action != "show" {
        return String::new();
    }
    let mut text = String::new();
    for profile in &document.applied {
        text += &format!(
            "\napplied: {} since {}, {} settings\n",
            profile.profile,
            profile.at,
            profile.settings.len()
        );
        let rows: Vec<Vec<String>> = profile
            .settings
            .iter()
            .map(|s| {
                let flat = |text: &str| text.replace('\t', " ");
                let (old, new) = (flat(&s.old), flat(&s.new));
                vec![
                    "  ".to_owned(),
                    s.name.clone(),
                    old,
                    "->".to_owned(),
                    new,
                    s.note.clone(),
                ]
            })
            .collect();
        text += &columns(&rows, names(6));
    }
    if document.applied.is_empty() {
        text += "\napplied: nothing\n";
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str, state: &str, note: &str) -> TuneRow {
        TuneRow {
            name: name.to_owned(),
            wanted: "at least 4096".to_owned(),
            old: Some("4\t5".to_owned()),
            new: Some("4096".to_owned()),
            state: state.to_owned(),
            note: note.to_owned(),
            remedy: "do".to_owned(),
            why: "Because.".to_owned(),
            caution: String::new(),
        }
    }

    #[test]
    fn what_was_not_done_is_said_with_its_reason() {
        let mut document = TuneDocument::new("apply");
        document.profile = Some("p".to_owned());
        document.settings = vec![
            row("a.set", "set", ""),
            row("a.same", "same", ""),
            row("a.gone", "gone", "removed in Linux 4.12"),
            row("a.refused", "refused", "read-only"),
        ];
        let text = text(&document, Style::Plain);
        let expected = "applied in part: p: 1 set, 1 could not be set, 1 gone from today's kernels, 1 as wanted already\n\
            it stays until `prony tune restore p`, or a restart of the host\n\
            \n     setting  before      now\nset  a.set    4 5     ->  4096\n\
            gone: a.gone (at least 4096): removed in Linux 4.12\n  remedy: do\n\
            refused: a.refused (at least 4096): read-only\n  remedy: do\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn restoring_nothing_is_said() {
        let document = TuneDocument::new("restore");
        assert_eq!(
            text(&document, Style::Plain),
            "nothing to restore: no profile is applied\n"
        );
    }
}
