//! The restore journal: what prony is about to change on the host, on disk before it does.
//!
//! One file a prony process, one JSON object a line, synced before the change is made. The owner holds a
//! lock on its file for as long as it lives; the kernel lets go of it however the owner ends, `kill -9`
//! included, so a file that can be locked belongs to nobody and [`Journal::recover`] undoes what it says.
//! The surprise: a file is written under another name first, so that nobody finds it before its lock.

use crate::cgroup;
use crate::error::TargetError;
use crate::members::Identity;
pub use crate::members::Leader;
use crate::network;
use crate::tuning::{PutBack, SettingChange};
use linux::procfs::{self, PROC};
use serde::{Deserialize, Serialize};
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// How the names of directories that prony removes begin; nothing else is ever removed.
pub(crate) const DIRECTORY_PREFIX: &str = "prony-";
const SUFFIX: &str = "jsonl";

/// A change of the host that must be undone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "change", rename_all = "snake_case")]
pub enum Change {
    /// A directory is created; undone by removing it with all that is in it.
    Directory {
        /// Absolute path; its last part begins with `prony-`.
        path: PathBuf,
    },
    /// Processes are started; undone by killing them.
    Processes {
        /// Value of the environment variable `PRONY_RUN` that they are started with.
        marker: String,
        /// Directory that they are started in.
        directory: PathBuf,
    },
    /// A control group is created; undone by removing it.
    Cgroup {
        /// Its directory; the last part begins with `prony-`.
        path: PathBuf,
    },
    /// A network namespace is created; undone by removing it, and its links with it.
    Namespace {
        /// Its name, which begins with `prony-`.
        name: String,
    },
    /// A file of the kernel's is written; undone by writing what stood there.
    File {
        path: PathBuf,
        /// What stood there.
        before: String,
    },
    /// A setting of the host is changed; undone by writing its old value.
    Setting(SettingChange),
}

/// A change by its number in its journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangeId(u32);

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "line", rename_all = "snake_case")]
enum Line {
    Begin {
        id: ChangeId,
        #[serde(flatten)]
        change: Change,
    },
    Leader {
        id: ChangeId,
        #[serde(flatten)]
        leader: Leader,
    },
    /// What stood there once the setting was made: drivers and kernels may round.
    Wrote {
        id: ChangeId,
        found: String,
    },
    /// The owner is done, and what is pending shall stay until it is asked back.
    Kept {
        profile: String,
        /// RFC 3339.
        at: String,
    },
    Undone {
        id: ChangeId,
    },
}

/// What was undone for an owner that had died.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recovered {
    pub change: Change,
    /// Processes that were killed, by pid.
    pub killed: Vec<i32>,
    /// Why it could not be undone; it is tried again by the next start.
    pub failed: Option<String>,
    /// Why it was left as it is, for good: somebody else has changed it since.
    pub left: Option<String>,
}

/// A change that is not undone, as its journal tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pending {
    /// Its number.
    pub id: ChangeId,
    pub change: Change,
    /// The first process, of processes.
    pub leader: Option<Leader>,
    /// What stood there once a setting was made; `None` when its owner died before it could look.
    pub found: Option<String>,
}

/// Settings that were made to stay, and their journal, which is locked for as long as this lives.
#[derive(Debug)]
pub struct Kept {
    path: PathBuf,
    file: File,
    /// The profile's name.
    pub profile: String,
    /// When, RFC 3339.
    pub at: String,
    /// What is not undone, in the order of the changes.
    pub pending: Vec<Pending>,
}

/// The journal of this process. Clones write to the same file.
#[derive(Clone, Debug)]
pub struct Journal(Arc<Mutex<Open>>);

#[derive(Debug)]
struct Open {
    path: PathBuf,
    /// Holds the lock.
    file: File,
    last_id: u32,
    /// Changes that are not undone.
    pending: Vec<ChangeId>,
}

/// Where journals lie: `$XDG_STATE_HOME/prony`, else `/var/lib/prony` for root, else
/// `~/.local/state/prony`.
pub fn state_dir() -> PathBuf {
    let given = |name| {
        std::env::var_os(name)
            .filter(|v| !v.is_empty())
            .map(PathBuf::from)
    };
    // SAFETY: the call takes nothing and cannot fail.
    let is_root = unsafe { libc::geteuid() } == 0;
    match (given("XDG_STATE_HOME"), given("HOME")) {
        (Some(state), _) => state.join("prony"),
        (None, Some(home)) if !is_root => home.join(".local/state/prony"),
        _ => PathBuf::from("/var/lib/prony"),
    }
}

/// A word that no other prony process has used or will use: pid, start time, count.
pub(crate) fn unique() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let pid = std::process::id();
    let own = i32::try_from(pid)
        .ok()
        .and_then(|pid| procfs::stat(Path::new(PROC), pid));
    let ticks = own.map_or(0, |s| s.start_ticks);
    format!("{pid}-{ticks}-{}", COUNT.fetch_add(1, Ordering::Relaxed))
}

impl Journal {
    /// Starts this process's journal in `dir`, which is created if need be.
    ///
    /// # Errors
    /// [`TargetError::File`].
    pub fn open(dir: &Path) -> Result<Self, TargetError> {
        std::fs::create_dir_all(dir).map_err(|e| TargetError::file("creating", dir, &e))?;
        let name = unique();
        let hidden = dir.join(format!(".{name}"));
        let path = dir.join(format!("{name}.{SUFFIX}"));
        let file =
            File::create_new(&hidden).map_err(|e| TargetError::file("creating", &hidden, &e))?;
        file.lock()
            .map_err(|e| TargetError::file("locking", &hidden, &e))?;
        std::fs::rename(&hidden, &path).map_err(|e| TargetError::file("renaming", &hidden, &e))?;
        Ok(Self(Arc::new(Mutex::new(Open {
            path,
            file,
            last_id: 0,
            pending: Vec::new(),
        }))))
    }

    fn open_file(&self) -> MutexGuard<'_, Open> {
        // A panic between two lines leaves whole lines: the journal stays usable for the clean-up.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a change that is about to be made. When this returns, the note is on disk.
    ///
    /// # Errors
    /// [`TargetError::File`]; the change must not be made then.
    pub fn record(&self, change: Change) -> Result<ChangeId, TargetError> {
        let mut open = self.open_file();
        let id = ChangeId(open.last_id + 1);
        open.append(&Line::Begin { id, change })?;
        open.last_id = id.0;
        open.pending.push(id);
        Ok(id)
    }

    /// Notes the first process of a [`Change::Processes`].
    ///
    /// # Errors
    /// [`TargetError::File`].
    pub fn started(&self, id: ChangeId, leader: Leader) -> Result<(), TargetError> {
        self.open_file().append(&Line::Leader { id, leader })
    }

    /// Notes that a change has been undone.
    ///
    /// # Errors
    /// [`TargetError::File`]; the next start will then try to undo it again, which does no harm.
    pub fn undone(&self, id: ChangeId) -> Result<(), TargetError> {
        let mut open = self.open_file();
        open.pending.retain(|pending| *pending != id);
        open.append(&Line::Undone { id })
    }

    /// Notes what stood where a setting was made.
    ///
    /// # Errors
    /// [`TargetError::File`].
    pub fn wrote(&self, id: ChangeId, found: &str) -> Result<(), TargetError> {
        let found = found.to_owned();
        self.open_file().append(&Line::Wrote { id, found })
    }

    /// What is pending shall outlive this process, until it is asked back. Without this line the next start
    /// undoes it.
    ///
    /// # Errors
    /// [`TargetError::File`].
    pub fn keep(&self, profile: &str, at: &str) -> Result<(), TargetError> {
        self.open_file().append(&Line::Kept {
            profile: profile.to_owned(),
            at: at.to_owned(),
        })
    }

    /// The journals in `dir` that are kept by intention, oldest first. Those of other users cannot be opened and
    /// are passed over, and so are those that somebody restores just now.
    pub fn kept(dir: &Path) -> Vec<Kept> {
        let mut kept: Vec<(u64, Kept)> = paths(dir)
            .into_iter()
            .filter_map(|path| {
                let since_boot = path
                    .file_stem()?
                    .to_str()?
                    .split('-')
                    .nth(1)?
                    .parse()
                    .ok()?;
                let file = OpenOptions::new()
                    .read(true)
                    .append(true)
                    .open(&path)
                    .ok()?;
                file.try_lock().ok()?;
                let text = std::fs::read(&path).ok()?;
                let read = read_lines(&String::from_utf8_lossy(&text));
                let (profile, at) = read.kept?;
                let pending = read.pending;
                let kept = Kept {
                    path,
                    file,
                    profile,
                    at,
                    pending,
                };
                Some((since_boot, kept))
            })
            .collect();
        kept.sort_by_key(|(since_boot, _)| *since_boot);
        kept.into_iter().map(|(_, kept)| kept).collect()
    }

    /// Undoes what owners that have died left, the last change first. May be called at any time, by
    /// several processes at once, and again.
    pub fn recover(dir: &Path) -> Vec<Recovered> {
        paths(dir)
            .iter()
            .flat_map(|path| recover_file(path))
            .collect()
    }
}

impl Kept {
    /// Notes that a change has been undone; the journal goes with its last one.
    ///
    /// # Errors
    /// [`TargetError::File`]; undoing it again does no harm.
    pub fn undone(&mut self, id: ChangeId) -> Result<(), TargetError> {
        self.pending.retain(|pending| pending.id != id);
        append(&mut self.file, &self.path, &Line::Undone { id })?;
        if self.pending.is_empty() {
            std::fs::remove_file(&self.path)
                .map_err(|e| TargetError::file("removing", &self.path, &e))?;
        }
        Ok(())
    }
}

/// The journals in `dir`, sorted by name.
fn paths(dir: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> = std::fs::read_dir(dir)
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|e| e == SUFFIX))
        .collect();
    paths.sort();
    paths
}

fn append(file: &mut File, path: &Path, line: &Line) -> Result<(), TargetError> {
    let mut text =
        serde_json::to_string(line).expect("a line has string keys and plain values only");
    text.push('\n');
    file.write_all(text.as_bytes())
        .and_then(|()| file.sync_data())
        .map_err(|e| TargetError::file("writing", path, &e))
}

impl Open {
    fn append(&mut self, line: &Line) -> Result<(), TargetError> {
        append(&mut self.file, &self.path, line)
    }
}

impl Drop for Open {
    /// A journal with nothing left to undo is of no use to anyone.
    fn drop(&mut self) {
        if self.pending.is_empty() {
            // Left behind, it is removed by the next start.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Undoes one file's changes, unless its owner lives; removes the file when all are undone.
fn recover_file(path: &Path) -> Vec<Recovered> {
    let Ok(file) = OpenOptions::new().read(true).write(true).open(path) else {
        return Vec::new(); // Another process has just recovered it, or it is another user's.
    };
    if file.try_lock().is_err() {
        return Vec::new();
    }
    let text = std::fs::read(path).unwrap_or_default();
    let read = read_lines(&String::from_utf8_lossy(&text));
    if read.kept.is_some() {
        let is_over =
            |p: &Pending| matches!(&p.change, Change::Setting(s) if s.is_of_another_start());
        if read.pending.iter().all(is_over) {
            // The host has been started anew: there is nothing left to put back.
            let _ = std::fs::remove_file(path);
        }
        return Vec::new();
    }
    let recovered: Vec<Recovered> = read.pending.into_iter().rev().map(undo).collect();
    if recovered.iter().all(|r| r.failed.is_none()) {
        // A file that cannot be removed is recovered again: what it says is undone already.
        let _ = std::fs::remove_file(path);
    }
    recovered
}

/// What a journal says.
struct Read {
    /// Changes that it does not call undone, in its order.
    pending: Vec<Pending>,
    /// Profile and time, when it is kept by intention.
    kept: Option<(String, String)>,
}

/// Reads a journal. A last line that was cut off by the owner's death was not followed by a change and is passed
/// over.
fn read_lines(text: &str) -> Read {
    let mut read = Read {
        pending: Vec::new(),
        kept: None,
    };
    for line in text.lines().filter_map(|l| serde_json::from_str(l).ok()) {
        let of = |id: ChangeId| move |pending: &&mut Pending| pending.id == id;
        match line {
            Line::Begin { id, change } => read.pending.push(Pending {
                id,
                change,
                leader: None,
                found: None,
            }),
            Line::Leader { id, leader } => {
                let entries = read.pending.iter_mut().filter(of(id));
                entries.for_each(|entry| entry.leader = Some(leader));
            }
            Line::Wrote { id, found } => {
                let entries = read.pending.iter_mut().filter(of(id));
                entries.for_each(|entry| entry.found = Some(found.clone()));
            }
            Line::Kept { profile, at } => read.kept = Some((profile, at)),
            Line::Undone { id } => read.pending.retain(|pending| pending.id != id),
        }
    }
    read
}

fn undo(pending: Pending) -> Recovered {
    let mut recovered = Recovered {
        change: pending.change,
        killed: Vec::new(),
        failed: None,
        left: None,
    };
    match &recovered.change {
        Change::Directory { path } => recovered.failed = remove_directory(path).err(),
        Change::Cgroup { path } => recovered.failed = cgroup::remove(path).err(),
        Change::Namespace { name } => recovered.failed = network::remove(name).err(),
        Change::File { path, before } => {
            recovered.failed = std::fs::write(path, before).err().map(|e| e.to_string());
        }
        Change::Processes { marker, directory } => {
            let identity = Identity {
                marker: marker.clone(),
                directory: directory.clone(),
                leader: pending.leader,
            };
            match identity.kill(Path::new(PROC), &[]) {
                Ok(killed) => recovered.killed = killed,
                Err(left) => recovered.failed = Some(format!("{left:?} cannot be killed")),
            }
        }
        Change::Setting(setting) => match setting.put_back(pending.found.as_deref(), false) {
            PutBack::Done { .. } | PutBack::NothingToDo { .. } => {}
            PutBack::Changed { now } => {
                recovered.left = Some(format!("somebody else has made it `{now}` since"));
            }
            PutBack::Failed(cause) => recovered.failed = Some(cause),
        },
    }
    recovered
}

/// Removes a directory of ours; one that is gone already is fine.
pub(crate) fn remove_directory(path: &Path) -> Result<(), String> {
    let is_ours = path
        .file_name()
        .is_some_and(|name| name.to_string_lossy().starts_with(DIRECTORY_PREFIX));
    if !is_ours {
        return Err(format!("{} is not a directory of prony", path.display()));
    }
    match std::fs::remove_dir_all(path) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(e.to_string()),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directory(path: &Path) -> Change {
        Change::Directory {
            path: path.to_owned(),
        }
    }

    fn files(dir: &Path) -> usize {
        std::fs::read_dir(dir).unwrap().count()
    }

    /// What a killed owner leaves: its file, without its lock.
    fn abandon(journal: Journal) {
        let mut open = Arc::into_inner(journal.0).unwrap().into_inner().unwrap();
        open.pending.push(ChangeId(0)); // keeps the file
        drop(open);
    }

    #[test]
    fn a_living_owner_is_left_alone_and_a_dead_one_is_undone_once() {
        let dir = tempfile::tempdir().unwrap();
        let (state, work) = (dir.path().join("state"), dir.path().join("prony-1"));
        let journal = Journal::open(&state).unwrap();
        journal.record(directory(&work)).unwrap();
        std::fs::create_dir_all(work.join("html")).unwrap();
        assert_eq!(Journal::recover(&state), []);
        assert!(work.exists());
        abandon(journal);
        let recovered = Journal::recover(&state);
        assert_eq!(recovered.len(), 1);
        assert_eq!(
            (&recovered[0].change, &recovered[0].failed),
            (&directory(&work), &None)
        );
        assert!(!work.exists());
        assert_eq!(files(&state), 0);
        assert_eq!(Journal::recover(&state), []);
    }

    #[test]
    fn what_is_undone_is_not_undone_again() {
        let dir = tempfile::tempdir().unwrap();
        let journal = Journal::open(dir.path()).unwrap();
        let first = journal
            .record(directory(&dir.path().join("prony-1")))
            .unwrap();
        let second = journal
            .record(directory(&dir.path().join("prony-2")))
            .unwrap();
        journal.undone(first).unwrap();
        let text = std::fs::read_to_string(&journal.open_file().path).unwrap();
        let left = [(directory(&dir.path().join("prony-2")), None)];
        let pending = |text: &str| -> Vec<_> {
            let pending = read_lines(text).pending;
            pending.into_iter().map(|p| (p.change, p.leader)).collect()
        };
        assert_eq!(pending(&text), left);
        let torn = &text[..text.len() - 3];
        assert_eq!(
            pending(torn).len(),
            2,
            "a line that was cut off says nothing"
        );
        journal.undone(second).unwrap();
        drop(journal);
        assert_eq!(files(dir.path()), 0, "nothing to undo, nothing left");
    }

    #[test]
    fn a_directory_that_is_not_ours_is_never_removed() {
        let dir = tempfile::tempdir().unwrap();
        let (state, theirs) = (dir.path().join("state"), dir.path().join("home"));
        std::fs::create_dir(&theirs).unwrap();
        let journal = Journal::open(&state).unwrap();
        journal.record(directory(&theirs)).unwrap();
        abandon(journal);
        assert!(Journal::recover(&state)[0].failed.is_some());
        assert!(theirs.exists());
        assert_eq!(files(&state), 1, "kept for the next start");
    }

    #[test]
    fn a_leader_is_read_back() {
        let leader = Leader {
            pid: 7,
            start_ticks: 8,
        };
        let change = Change::Processes {
            marker: "m".to_owned(),
            directory: "/w".into(),
        };
        let lines = [
            Line::Begin {
                id: ChangeId(1),
                change: change.clone(),
            },
            Line::Leader {
                id: ChangeId(1),
                leader,
            },
        ];
        let text: String = lines
            .iter()
            .map(|l| serde_json::to_string(l).unwrap() + "\n")
            .collect();
        assert_eq!(
            text,
            "{\"line\":\"begin\",\"id\":1,\"change\":\"processes\",\"marker\":\"m\",\"directory\":\"/w\"}\n\
             {\"line\":\"leader\",\"id\":1,\"pid\":7,\"start_ticks\":8}\n"
        );
        let read = read_lines(&text).pending;
        assert_eq!((&read[0].change, read[0].leader), (&change, Some(leader)));
        assert_eq!(read.len(), 1);
    }

    #[test]
    fn what_is_kept_by_intention_is_not_undone_by_a_start() {
        let dir = tempfile::tempdir().unwrap();
        let (state, file) = (dir.path().join("state"), dir.path().join("knob"));
        std::fs::write(&file, "1\n").unwrap();
        let journal = Journal::open(&state).unwrap();
        let setting = SettingChange::of_file("knob", &file, "1", "2");
        let id = journal.record(Change::Setting(setting)).unwrap();
        std::fs::write(&file, "2").unwrap();
        journal.wrote(id, "2").unwrap();
        journal.keep("mine", "2026-01-01T00:00:00Z").unwrap();
        drop(journal);
        assert_eq!(Journal::recover(&state), []);
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "2");
        let mut kept = Journal::kept(&state);
        assert_eq!((kept.len(), kept[0].profile.as_str()), (1, "mine"));
        assert_eq!(kept[0].pending[0].found.as_deref(), Some("2"));
        assert!(
            Journal::kept(&state).is_empty(),
            "locked while it is restored"
        );
        kept[0].undone(id).unwrap();
        drop(kept);
        assert_eq!(files(&state), 0);
    }

    #[test]
    fn a_setting_whose_owner_died_is_put_back_unless_somebody_else_changed_it() {
        for (now, found, expected, left) in [
            ("2", Some("2"), "1", false),
            ("2", None, "1", false),
            ("3", Some("2"), "3", true),
            ("1", Some("2"), "1", false),
            // Rounded by the driver, and the owner died before it could look.
            ("4", None, "1", false),
        ] {
            let dir = tempfile::tempdir().unwrap();
            let (state, file) = (dir.path().join("state"), dir.path().join("knob"));
            let journal = Journal::open(&state).unwrap();
            let setting = SettingChange::of_file("knob", &file, "1", "2");
            let id = journal.record(Change::Setting(setting)).unwrap();
            if let Some(found) = found {
                journal.wrote(id, found).unwrap();
            }
            std::fs::write(&file, now).unwrap();
            abandon(journal);
            let recovered = Journal::recover(&state);
            assert_eq!(std::fs::read_to_string(&file).unwrap().trim(), expected);
            assert_eq!(recovered[0].left.is_some(), left, "{recovered:?}");
            assert_eq!(files(&state), 0, "said once, not at every start");
        }
    }
}
