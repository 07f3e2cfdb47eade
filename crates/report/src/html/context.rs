//! What surrounds the figures: targets as run, the host, what could not be watched, warnings.
//!
//! Trials repeat most of it, so equal entries are shown once with the trials that they stand for.

use super::{paths, ranges};
use analysis::RunAnalysis;
use record::{EnvironmentItem, RunRecord, TargetRecord, TrialRecord, VersionFact, Warning};
use serde::Serialize;

/// Longest file shown in full, bytes; the rest stays in the record.
const FILE_SHOWN: usize = 16 * 1024;
/// Different files shown; the rest stays in the record.
const FILES_SHOWN: usize = 24;

/// A target as it ran in some trials.
#[derive(Debug, PartialEq, Serialize)]
pub struct TargetView {
    name: String,
    kind: String,
    version: String,
    cpus: String,
    address: String,
    command: String,
    processes: String,
    trials: String,
    file: String,
}

/// Configuration or output of a target.
#[derive(Debug, Serialize)]
pub struct FileView {
    name: String,
    text: String,
    cut: bool,
    trials: String,
    path: String,
}

/// Facts of one group.
#[derive(Debug, Serialize)]
pub struct EnvironmentGroup {
    name: String,
    /// File of the record that holds it.
    from: String,
    items: Vec<EnvironmentItem>,
}

/// A gap, or a warning, with the trials that have it; empty trials: the run as a whole.
#[derive(Debug, Serialize)]
pub struct Noted {
    name: String,
    text: String,
    remedy: String,
    trials: String,
}

/// Entries with the same key, in the order of their first appearance, with all ids that have them.
fn grouped<K: PartialEq>(entries: impl Iterator<Item = (u32, K)>) -> Vec<(K, Vec<u32>)> {
    let mut groups: Vec<(K, Vec<u32>)> = Vec::new();
    for (id, key) in entries {
        match groups.iter_mut().find(|(k, _)| *k == key) {
            Some((_, ids)) if ids.last() == Some(&id) => {}
            Some((_, ids)) => ids.push(id),
            None => groups.push((key, vec![id])),
        }
    }
    groups
}

/// Targets; those that differ only in ports and process ids count as the same and the first is shown.
pub fn targets(record: &RunRecord) -> Vec<TargetView> {
    let identity = |t: &TargetRecord| {
        (
            t.name.clone(),
            t.kind.clone(),
            t.version.clone(),
            t.cpus.clone(),
        )
    };
    let all = record
        .trials
        .iter()
        .flat_map(|trial| trial.targets.iter().map(|t| (trial.id, identity(t))));
    let first = |id: u32, key: &(String, String, String, Vec<u32>)| {
        let trial = record.trials.iter().find(|t| t.id == id)?;
        trial.targets.iter().find(|t| identity(t) == *key)
    };
    grouped(all)
        .into_iter()
        .filter_map(|(key, ids)| Some(target_view(first(*ids.first()?, &key)?, &ids)))
        .collect()
}

fn target_view(target: &TargetRecord, ids: &[u32]) -> TargetView {
    let processes = target.processes.iter().map(|p| {
        let cpus = if p.cpus.is_empty() {
            String::new()
        } else {
            format!(" on CPU {}", ranges(&p.cpus))
        };
        format!("{} {} ({}){cpus}", p.name, p.pid, p.role)
    });
    TargetView {
        name: target.name.clone(),
        kind: target.kind.clone(),
        version: target.version.clone(),
        cpus: ranges(&target.cpus),
        address: target.address.clone(),
        command: shell_words(&target.command),
        processes: processes.collect::<Vec<_>>().join(", "),
        trials: ranges(ids),
        file: paths::trial(ids[0]),
    }
}

/// Files of all trials, equal ones once, and how many different ones are not shown.
pub fn files(record: &RunRecord) -> (Vec<FileView>, usize) {
    let all = record
        .trials
        .iter()
        .flat_map(|t| t.files.iter().map(|(name, text)| (t.id, (name, text))))
        .filter(|(_, (_, text))| !text.trim().is_empty());
    let groups = grouped(all);
    let left_out = groups.len().saturating_sub(FILES_SHOWN);
    let view = |((name, text), ids): ((&String, &String), Vec<u32>)| FileView {
        text: head(text).to_owned(),
        cut: text.len() > FILE_SHOWN,
        trials: ranges(&ids),
        path: paths::file(ids[0], name),
        name: name.clone(),
    };
    (
        groups.into_iter().take(FILES_SHOWN).map(view).collect(),
        left_out,
    )
}

/// The first [`FILE_SHOWN`] bytes, cut at a character.
fn head(text: &str) -> &str {
    &text[..text.floor_char_boundary(FILE_SHOWN)]
}

/// The host by group, in the order of the record.
pub fn environment(record: &RunRecord) -> Vec<EnvironmentGroup> {
    let mut groups: Vec<EnvironmentGroup> = Vec::new();
    for item in &record.environment {
        match groups.iter_mut().find(|g| g.name == item.group) {
            Some(group) => group.items.push(item.clone()),
            None => groups.push(EnvironmentGroup {
                name: item.group.clone(),
                from: "environment.json".to_owned(),
                items: vec![item.clone()],
            }),
        }
    }
    groups.extend(versions(record));
    groups
}

/// Versions of each server and its libraries, of the first trial that knows them.
fn versions(record: &RunRecord) -> Vec<EnvironmentGroup> {
    let mut groups: Vec<EnvironmentGroup> = Vec::new();
    for trial in &record.trials {
        let servers = trial.examination.iter().flat_map(|e| &e.servers);
        for server in servers.filter(|s| !s.versions.is_empty()) {
            let name = format!("versions of {}", server.target);
            if groups.iter().any(|g| g.name == name) {
                continue;
            }
            let from = format!("{}/examination.json", TrialRecord::directory(trial.id));
            let items = server.versions.iter().map(|v| version(&name, v)).collect();
            groups.push(EnvironmentGroup { name, from, items });
        }
    }
    groups
}

fn version(group: &str, fact: &VersionFact) -> EnvironmentItem {
    let id = match fact.build_id.as_str() {
        "" => String::new(),
        id => format!("build id {id}"),
    };
    let parts = [fact.version.clone(), fact.source.clone(), id];
    let mut value = parts
        .into_iter()
        .filter(|p| !p.is_empty())
        .collect::<Vec<_>>()
        .join(", ");
    if !value.is_empty() && !fact.reason.is_empty() {
        value += &format!("; not visible: {}", fact.reason);
    }
    EnvironmentItem {
        group: group.to_owned(),
        name: fact.name.clone(),
        value: (!value.is_empty()).then_some(value),
        reason: Some(fact.reason.clone()),
    }
}

/// What could not be watched.
pub fn unavailable(record: &RunRecord) -> Vec<Noted> {
    let all = record
        .trials
        .iter()
        .flat_map(|t| t.unavailable.iter().map(|u| (t.id, u)));
    grouped(all)
        .into_iter()
        .map(|(u, ids)| Noted {
            name: u.what.clone(),
            text: u.reason.clone(),
            remedy: u.remedy.clone(),
            trials: ranges(&ids),
        })
        .collect()
}

/// Warnings of the run first, then those of the trials that the run's do not sum up: forty trials with the
/// same warning, each with its own number, read as one.
pub fn warnings(record: &RunRecord, analysis: &RunAnalysis) -> Vec<Noted> {
    let noted = |w: &Warning, trials: String| Noted {
        name: w.name.clone(),
        text: w.seen.clone(),
        remedy: w.remedy.clone(),
        trials,
    };
    let of_trials = record.trials.iter().flat_map(|t| {
        let of_load = t.outcome.iter().flat_map(|o| &o.warnings);
        t.warnings.iter().chain(of_load).map(|w| (t.id, w))
    });
    let of_run = analysis.warnings.iter().map(|w| noted(w, String::new()));
    let repeated = |w: &Warning| analysis.warnings.iter().any(|of_run| of_run.name == w.name);
    let others = grouped(of_trials)
        .into_iter()
        .filter(|(w, _)| !repeated(w))
        .map(|(w, ids)| noted(w, ranges(&ids)));
    of_run.chain(others).collect()
}

/// Words as a shell reads them back.
pub fn shell_words(words: &[String]) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,@%+".contains(c);
    let quoted = words.iter().map(|word| {
        if !word.is_empty() && word.chars().all(plain) {
            word.clone()
        } else {
            format!("'{}'", word.replace('\'', r"'\''"))
        }
    });
    quoted.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_can_be_pasted() {
        let words = ["prony", "run", "my file.toml", "it's", ""].map(str::to_owned);
        assert_eq!(
            shell_words(&words),
            r"prony run 'my file.toml' 'it'\''s' ''"
        );
    }

    #[test]
    fn equal_entries_are_shown_once() {
        let groups = grouped([(0, "a"), (1, "b"), (1, "a"), (1, "a")].into_iter());
        assert_eq!(groups, [("a", vec![0, 1]), ("b", vec![1])]);
    }

    #[test]
    fn a_long_file_is_cut_at_a_character() {
        let text = "é".repeat(FILE_SHOWN);
        assert_eq!(head(&text).len(), FILE_SHOWN);
        let odd = format!("x{text}");
        assert_eq!(head(&odd).len(), FILE_SHOWN - 1);
    }
}
