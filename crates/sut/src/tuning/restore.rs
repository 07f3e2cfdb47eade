//! What was applied to stay: shown, and put back, the last profile first.
//!
//! The surprise: two profiles may hold one setting. The older one's value is only right again once the younger
//! one is restored, so the older is refused until then.

use super::host::{PutBack, SettingChange, Standing};
use crate::error::TargetError;
use crate::journal::{Change, ChangeId, Journal, Kept};
use std::path::Path;

/// A profile that was applied and is not restored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Applied {
    pub profile: String,
    /// When, RFC 3339.
    pub at: String,
    /// What it changed, in its order.
    pub settings: Vec<AppliedSetting>,
}

/// A setting that a profile changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AppliedSetting {
    /// The name that people know.
    pub name: String,
    /// What stood there before.
    pub old: String,
    /// What was made of it.
    pub new: String,
    /// What stands there now, when that is something else; or why it cannot be seen, or is gone.
    pub note: String,
}

/// What came of restoring a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The old value stands again (or would, in a dry run).
    Restored,
    /// There was nothing to put back.
    Already,
    /// Somebody else has changed it since: left alone.
    Changed,
    /// A profile that was applied later holds it: left alone.
    Held,
    /// It could not be done.
    Failed,
}

impl Outcome {
    /// The word for it in every output.
    pub const fn name(self) -> &'static str {
        match self {
            Outcome::Restored => "restored",
            Outcome::Already => "already",
            Outcome::Changed => "changed",
            Outcome::Held => "held",
            Outcome::Failed => "failed",
        }
    }
}

/// One setting's restoration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restored {
    /// The profile that had changed it.
    pub profile: String,
    /// The name that people know.
    pub name: String,
    /// What stood there; `None` when that is not known.
    pub now: Option<String>,
    /// The value from before the profile.
    pub old: String,
    /// What came of it.
    pub outcome: Outcome,
    /// Why; may be empty.
    pub note: String,
}

fn settings(kept: &Kept) -> impl Iterator<Item = (ChangeId, &SettingChange, Option<&str>)> {
    kept.pending.iter().filter_map(|p| match &p.change {
        Change::Setting(setting) => Some((p.id, setting, p.found.as_deref())),
        Change::Directory { .. }
        | Change::Processes { .. }
        | Change::Cgroup { .. }
        | Change::Namespace { .. }
        | Change::File { .. } => None,
    })
}

/// The profiles that are applied by the journals in `dir`, oldest first.
pub fn applied(dir: &Path) -> Vec<Applied> {
    Journal::kept(dir)
        .iter()
        .map(|kept| Applied {
            profile: kept.profile.clone(),
            at: kept.at.clone(),
            settings: settings(kept)
                .map(|(_, setting, found)| AppliedSetting {
                    name: setting.name.clone(),
                    old: setting.old.clone(),
                    new: found.unwrap_or(&setting.new).to_owned(),
                    note: match setting.stands(found) {
                        Standing::Ours { .. } => String::new(),
                        Standing::Changed { now } => {
                            format!("now `{now}`: changed by somebody else")
                        }
                        Standing::Nothing { why } | Standing::Unknown(why) => why,
                    },
                })
                .collect(),
        })
        .collect()
}

/// Puts back what the profile named `profile` changed, or all of them, the last change first. Whoever changed a
/// setting since keeps his value, unless `force` says otherwise. A dry run changes nothing.
///
/// # Errors
/// [`TargetError::File`] when a journal cannot be written; restoring again does no harm.
pub fn restore(
    dir: &Path,
    profile: Option<&str>,
    force: bool,
    dry_run: bool,
) -> Result<Vec<Restored>, TargetError> {
    let mut restored = Vec::new();
    // Settings of younger profiles that stay, with the profile's name.
    let mut held: Vec<(String, String)> = Vec::new();
    for mut kept in Journal::kept(dir).into_iter().rev() {
        let name = kept.profile.clone();
        if profile.is_some_and(|wanted| wanted != name) {
            held.extend(settings(&kept).map(|(_, s, _)| (s.name.clone(), name.clone())));
            continue;
        }
        let mut todo: Vec<(ChangeId, SettingChange, Option<String>)> = settings(&kept)
            .map(|(id, s, found)| (id, s.clone(), found.map(str::to_owned)))
            .collect();
        todo.reverse();
        for (id, setting, found) in todo {
            let by = held.iter().find(|(held, _)| *held == setting.name);
            let (outcome, now, note) = match by {
                Some((_, by)) => (
                    Outcome::Held,
                    None,
                    format!("the profile {by} was applied later and holds it: restore that first"),
                ),
                None if dry_run => preview(&setting, found.as_deref(), force),
                None => outcome(setting.put_back(found.as_deref(), force)),
            };
            if !dry_run && matches!(outcome, Outcome::Restored | Outcome::Already) {
                kept.undone(id)?;
            }
            if outcome == Outcome::Changed {
                held.push((setting.name.clone(), name.clone()));
            }
            restored.push(Restored {
                profile: name.clone(),
                name: setting.name,
                now,
                old: setting.old,
                outcome,
                note,
            });
        }
    }
    Ok(restored)
}

fn outcome(put_back: PutBack) -> (Outcome, Option<String>, String) {
    match put_back {
        PutBack::Done { was } => (Outcome::Restored, Some(was), String::new()),
        PutBack::NothingToDo { why } => (Outcome::Already, None, why),
        PutBack::Changed { now } => changed(now),
        PutBack::Failed(cause) => (Outcome::Failed, None, cause),
    }
}

fn changed(now: String) -> (Outcome, Option<String>, String) {
    let note = "somebody else has changed it since; --force puts it back all the same";
    (Outcome::Changed, Some(now), note.to_owned())
}

fn preview(
    setting: &SettingChange,
    found: Option<&str>,
    force: bool,
) -> (Outcome, Option<String>, String) {
    match setting.stands(found) {
        Standing::Ours { now } => (Outcome::Restored, Some(now), String::new()),
        Standing::Changed { now } if force => (Outcome::Restored, Some(now), String::new()),
        Standing::Changed { now } => changed(now),
        Standing::Nothing { why } => (Outcome::Already, None, why),
        Standing::Unknown(cause) => (Outcome::Failed, None, cause),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Tuner;
    use super::*;
    use plan::tuning::Profile;
    use std::path::PathBuf;

    struct Host {
        dir: tempfile::TempDir,
    }

    impl Host {
        fn new(sysctls: &[(&str, &str)]) -> Self {
            let host = Self {
                dir: tempfile::tempdir().unwrap(),
            };
            for (name, text) in sysctls {
                std::fs::create_dir_all(host.path(name).parent().unwrap()).unwrap();
                host.set(name, text);
            }
            host
        }

        fn path(&self, name: &str) -> PathBuf {
            self.dir
                .path()
                .join("proc/sys")
                .join(name.replace('.', "/"))
        }

        fn set(&self, name: &str, text: &str) {
            std::fs::write(self.path(name), format!("{text}\n")).unwrap();
        }

        fn value(&self, name: &str) -> String {
            std::fs::read_to_string(self.path(name))
                .unwrap()
                .trim()
                .to_owned()
        }

        fn state(&self) -> PathBuf {
            self.dir.path().join("state")
        }

        fn apply(&self, name: &str, sets: &[(&str, &str)]) {
            let sets: String = sets
                .iter()
                .map(|(key, value)| format!("[[set]]\nsysctl = \"{key}\"\nvalue = \"{value}\"\n"))
                .collect();
            let profile = Profile::parse(name, &format!("about = \"x\"\n{sets}")).unwrap();
            let journal = Journal::open(&self.state()).unwrap();
            let tuned = Tuner::new(self.dir.path())
                .apply(&profile, &journal)
                .unwrap();
            tuned.keep(name, "2026-01-01T00:00:00Z").unwrap();
        }

        fn restore(&self, profile: Option<&str>, force: bool) -> Vec<(String, Outcome)> {
            let restored = restore(&self.state(), profile, force, false).unwrap();
            restored.into_iter().map(|r| (r.name, r.outcome)).collect()
        }
    }

    #[test]
    fn restored_once_and_exactly() {
        let host = Host::new(&[("a.x", "1"), ("a.y", "1 2")]);
        host.apply("p", &[("a.x", "7"), ("a.y", "3 4")]);
        assert_eq!(
            Journal::recover(&host.state()),
            [],
            "a start leaves it alone"
        );
        assert_eq!(
            (host.value("a.x"), host.value("a.y")),
            ("7".into(), "3 4".into())
        );
        let shown = applied(&host.state());
        assert_eq!((shown.len(), shown[0].settings.len()), (1, 2));
        let dry = restore(&host.state(), None, false, true).unwrap();
        assert!(dry.iter().all(|r| r.outcome == Outcome::Restored));
        assert_eq!(host.value("a.x"), "7");
        let done = host.restore(None, false);
        let expected = ["a.y", "a.x"].map(|name| (name.to_owned(), Outcome::Restored));
        assert_eq!(done, expected);
        assert_eq!(
            (host.value("a.x"), host.value("a.y")),
            ("1".into(), "1 2".into())
        );
        assert_eq!(host.restore(None, false), []);
        assert_eq!(std::fs::read_dir(host.state()).unwrap().count(), 0);
    }

    #[test]
    fn what_somebody_else_changed_needs_force() {
        let host = Host::new(&[("a.x", "1")]);
        host.apply("p", &[("a.x", "7")]);
        host.set("a.x", "9");
        assert!(
            applied(&host.state())[0].settings[0]
                .note
                .contains("now `9`")
        );
        assert_eq!(
            host.restore(None, false),
            [("a.x".into(), Outcome::Changed)]
        );
        assert_eq!(host.value("a.x"), "9");
        assert_eq!(
            host.restore(None, true),
            [("a.x".into(), Outcome::Restored)]
        );
        assert_eq!(host.value("a.x"), "1");
    }

    #[test]
    fn an_older_profile_waits_for_a_younger_one() {
        let host = Host::new(&[("a.x", "1"), ("a.y", "1")]);
        host.apply("older", &[("a.x", "2"), ("a.y", "2")]);
        // Journals are told apart by the start of their process, which is one here.
        let first = std::fs::read_dir(host.state())
            .unwrap()
            .next()
            .unwrap()
            .unwrap()
            .path();
        std::fs::rename(&first, host.state().join("1-1-0.jsonl")).unwrap();
        host.apply("younger", &[("a.x", "3")]);
        let done = host.restore(Some("older"), false);
        assert_eq!(
            done,
            [
                ("a.y".into(), Outcome::Restored),
                ("a.x".into(), Outcome::Held)
            ]
        );
        assert_eq!(host.value("a.x"), "3");
        let all = host.restore(None, false);
        assert_eq!(all.len(), 2);
        assert_eq!(host.value("a.x"), "1");
    }
}
