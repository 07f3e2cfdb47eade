//! Versions as facts of a record: those of its servers, and what changed of them since an earlier record.
//!
//! The surprise: a library's file name holds its version or not (`libz.so.1.2.13`, `libssl.so.3`), so that two are the
//! same library when their names agree up to `.so`.

use record::{EnvironmentItem, Server, TrialRecord, Unavailable, VersionFact};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Versions of one server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ServerVersions {
    /// Target's name.
    pub target: String,
    /// What it states of itself, its program and its libraries; a part that is not visible says why.
    pub versions: Vec<VersionFact>,
}

/// A program, library or kernel that is another one than in the earlier record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct VersionChange {
    /// Target's name; empty for the host.
    pub target: String,
    /// `program`, `libssl.so`, `kernel`.
    pub name: String,
    /// Version then; empty where it was not visible, or `name` was not there.
    pub before: String,
    pub after: String,
    /// ELF build ids, empty where there is none.
    pub build_id_before: String,
    pub build_id_after: String,
}

impl VersionChange {
    /// `libssl.so 3.0.15 -> 3.0.17 (build id 12345678 -> 9abcdef0)`.
    pub fn words(&self) -> String {
        let or_none = |text: &str| match text {
            "" => "none".to_owned(),
            text => text.chars().take(40).collect(),
        };
        let short = |id: &str| or_none(&id.chars().take(12).collect::<String>());
        let mut words = format!(
            "{} {} -> {}",
            self.name,
            or_none(&self.before),
            or_none(&self.after)
        );
        if self.build_id_before != self.build_id_after {
            words += &format!(
                " (build id {} -> {})",
                short(&self.build_id_before),
                short(&self.build_id_after)
            );
        }
        words
    }
}

/// Versions of the servers of a trial.
pub fn versions_of(servers: &[Server]) -> Vec<ServerVersions> {
    let of = |server: &Server| ServerVersions {
        target: server.target.clone(),
        versions: server.versions.clone(),
    };
    servers
        .iter()
        .filter(|s| !s.versions.is_empty())
        .map(of)
        .collect()
}

/// What is another version than in the earlier trial, and what cannot be told.
pub(crate) fn changed(
    before: (&TrialRecord, &[EnvironmentItem]),
    after: (&TrialRecord, &[EnvironmentItem]),
) -> (Vec<VersionChange>, Vec<Unavailable>) {
    let (mut changes, mut gaps) = (Vec::new(), Vec::new());
    let mut gap = |what: String, reason: &str| {
        gaps.push(Unavailable {
            what,
            reason: reason.to_owned(),
            remedy: "record both with this version of prony, as root".to_owned(),
        });
    };
    match (kernel(before.1), kernel(after.1)) {
        (Some(was), Some(is)) if was != is => changes.push(VersionChange {
            target: String::new(),
            name: "kernel".to_owned(),
            before: was.to_owned(),
            after: is.to_owned(),
            build_id_before: String::new(),
            build_id_after: String::new(),
        }),
        (Some(_), Some(_)) => {}
        _ => gap(
            "whether the kernel changed".to_owned(),
            "one record does not hold its release",
        ),
    }
    let servers = |trial: &TrialRecord| -> BTreeMap<String, Vec<VersionFact>> {
        let all = trial.examination.iter().flat_map(|e| &e.servers);
        all.map(|s| (s.target.clone(), s.versions.clone()))
            .collect()
    };
    let (were, are) = (servers(before.0), servers(after.0));
    for (target, is) in &are {
        let Some(was) = were.get(target) else {
            continue;
        };
        if was.is_empty() || is.is_empty() {
            let reason = "one record was made before versions were noted";
            gap(format!("which versions of {target} changed"), reason);
            continue;
        }
        let (was, is) = (by_name(was), by_name(is));
        let names: BTreeSet<&&str> = was.keys().chain(is.keys()).collect();
        for name in names {
            let nothing = VersionFact::default();
            let (w, i) = (was.get(*name).copied(), is.get(*name).copied());
            let (w, i) = (w.unwrap_or(&nothing), i.unwrap_or(&nothing));
            if w.version == i.version && w.build_id == i.build_id {
                if w.version.is_empty() && w.build_id.is_empty() {
                    let reason = [&w.reason, &i.reason].map(String::as_str).join("; ");
                    gap(format!("whether {name} of {target} changed"), &reason);
                }
                continue;
            }
            changes.push(VersionChange {
                target: target.clone(),
                name: (*name).to_string(),
                before: w.version.clone(),
                after: i.version.clone(),
                build_id_before: w.build_id.clone(),
                build_id_after: i.build_id.clone(),
            });
        }
    }
    (changes, gaps)
}

fn kernel(environment: &[EnvironmentItem]) -> Option<&str> {
    let mut items = environment.iter();
    let item = items.find(|i| i.group == "kernel" && i.name == "release")?;
    item.value.as_deref()
}

fn by_name(versions: &[VersionFact]) -> BTreeMap<&str, &VersionFact> {
    let key = |v: &VersionFact| v.name.find(".so").map_or(v.name.len(), |at| at + 3);
    versions.iter().map(|v| (&v.name[..key(v)], v)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fact(name: &str, version: &str, build_id: &str) -> VersionFact {
        VersionFact {
            name: name.into(),
            version: version.into(),
            build_id: build_id.into(),
            reason: if version.is_empty() {
                "hidden".into()
            } else {
                String::new()
            },
            ..VersionFact::default()
        }
    }

    fn trial(versions: Vec<VersionFact>) -> TrialRecord {
        let examination = record::Examination {
            servers: vec![Server {
                target: "server".into(),
                versions,
                ..Server::default()
            }],
            ..record::Examination::default()
        };
        TrialRecord {
            id: 0,
            stage: "diagnose".into(),
            block: 0,
            levels: BTreeMap::new(),
            load: crate::samples::spec(),
            state: record::TrialState::Complete,
            outcome: None,
            reported: None,
            targets: vec![],
            unavailable: vec![],
            warnings: vec![],
            series: vec![],
            hosts: Vec::new(),
            examination: Some(examination),
            files: BTreeMap::new(),
        }
    }

    fn release(value: &str) -> Vec<EnvironmentItem> {
        vec![EnvironmentItem {
            group: "kernel".into(),
            name: "release".into(),
            value: Some(value.into()),
            reason: None,
        }]
    }

    #[test]
    fn what_changed_is_told_with_its_build_id_and_what_is_hidden_is_said() {
        let was = trial(vec![
            fact("libssl.so.3", "3.0.15-1", "aa"),
            fact("libz.so.1.2.13", "1.2.13", "cc"),
            fact("libc.so.6", "2.41", "dd"),
            fact("libold.so.1", "1.0-1", "ee"),
            fact("libdark.so", "", ""),
        ]);
        let is = trial(vec![
            fact("libssl.so.3", "3.0.17-1", "bb"),
            fact("libz.so.1.3.1", "1.3.1", "cf"),
            fact("libc.so.6", "2.41", "dd"),
            fact("libdark.so", "", ""),
        ]);
        let (before, after) = (release("6.1.0"), release("6.12.1"));
        let (changes, gaps) = changed((&was, &before), (&is, &after));
        let words: Vec<String> = changes.iter().map(VersionChange::words).collect();
        assert_eq!(
            words,
            [
                "kernel 6.1.0 -> 6.12.1",
                "libold.so 1.0-1 -> none (build id ee -> none)",
                "libssl.so 3.0.15-1 -> 3.0.17-1 (build id aa -> bb)",
                "libz.so 1.2.13 -> 1.3.1 (build id cc -> cf)",
            ]
        );
        assert_eq!(gaps.len(), 1);
        assert_eq!(gaps[0].what, "whether libdark.so of server changed");
        let (none, gaps) = changed((&trial(vec![]), &[]), (&is, &after));
        assert_eq!(
            (none.len(), gaps.len()),
            (0, 2),
            "an older record says nothing"
        );
    }
}
