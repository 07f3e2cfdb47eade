//! A profile held against the host, and set on it.

use super::host::{Place, PutBack, SettingChange};
use super::place::places;
use super::same;
use crate::error::TargetError;
use crate::journal::{Change, ChangeId, Journal};
use plan::near_miss;
use plan::tuning::{Knob, Profile, Setting, gone};
use std::path::{Path, PathBuf};

/// Sysctls that a module brings: the beginning of their names, and the module.
const MODULES: [(&str, &str); 3] = [
    ("net.netfilter.", "nf_conntrack"),
    ("net.bridge.", "br_netfilter"),
    ("sunrpc.", "sunrpc"),
];
const HUGE_PAGES: &str = "vm.nr_hugepages";

/// How a setting stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// The wanted value stands there.
    Same,
    /// Another value stands there.
    Differs,
    /// It was set.
    Set,
    /// No kernel of today has it.
    Gone,
    /// This host does not have it: a module, a device or a driver's ability is missing.
    Absent,
    /// It was not set, and could not be.
    Refused,
}

impl State {
    /// The word for it in every output.
    pub const fn name(self) -> &'static str {
        match self {
            State::Same => "same",
            State::Differs => "differs",
            State::Set => "set",
            State::Gone => "gone",
            State::Absent => "absent",
            State::Refused => "refused",
        }
    }
}

/// A setting of a profile at one place of this host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The name that people know.
    pub name: String,
    /// What the profile wants, in its words.
    pub wanted: String,
    /// What stands there; once it was set, what stood there before. `None` when it cannot be read.
    pub old: Option<String>,
    /// What is written, or what came of it; `None` when nothing can be.
    pub new: Option<String>,
    /// How it stands.
    pub state: State,
    /// Why; may be empty.
    pub note: String,
    /// What to do about it; may be empty.
    pub remedy: String,
    /// Why the profile wants it.
    pub why: String,
    /// What to beware of; may be empty.
    pub caution: String,
}

/// Reads and sets what profiles ask for.
#[derive(Clone, Debug)]
pub struct Tuner {
    root: PathBuf,
}

impl Default for Tuner {
    fn default() -> Self {
        Self::new("/")
    }
}

/// Settings that hold until this is dropped. What could not be put back stays in the journal.
#[derive(Debug)]
pub struct Tuned {
    journal: Journal,
    made: Vec<(ChangeId, SettingChange, String)>,
    /// What came of each setting of the profile.
    pub rows: Vec<Row>,
}

impl Tuner {
    /// The host whose `proc` and `sys` lie in `root`. Network devices are always those of this host.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// What the profile would change; nothing is changed.
    pub fn look(&self, profile: &Profile) -> Vec<Row> {
        let rows = profile.set.iter().flat_map(|setting| self.rows(setting));
        rows.map(|(row, _)| row).collect()
    }

    /// Sets what the profile asks for; each change is in the journal before it is made. What cannot be set is
    /// said and passed over.
    ///
    /// # Errors
    /// [`TargetError::File`] when the journal cannot be written; what was set until then is put back.
    pub fn apply(&self, profile: &Profile, journal: &Journal) -> Result<Tuned, TargetError> {
        let mut tuned = Tuned {
            journal: journal.clone(),
            made: Vec::new(),
            rows: Vec::new(),
        };
        for setting in &profile.set {
            for (mut row, place) in self.rows(setting) {
                if let (State::Differs, Some(place)) = (row.state, place) {
                    tuned.set(&self.root, &mut row, place)?;
                }
                tuned.rows.push(row);
            }
        }
        Ok(tuned)
    }

    /// A setting at each of its places.
    fn rows(&self, setting: &Setting) -> Vec<(Row, Option<Place>)> {
        let row = |name: String| Row {
            name,
            wanted: setting.wanted.words(),
            old: None,
            new: None,
            state: State::Absent,
            note: String::new(),
            remedy: String::new(),
            why: setting.why.clone(),
            caution: setting.caution.clone(),
        };
        match places(&self.root, &setting.knob) {
            Ok(places) => places
                .into_iter()
                .map(|(name, place)| (self.row(row(name), setting, &place), Some(place)))
                .collect(),
            Err(why) => {
                let mut row = row(setting.knob.name());
                row.note = why;
                vec![(row, None)]
            }
        }
    }

    fn row(&self, mut row: Row, setting: &Setting, place: &Place) -> Row {
        let now = match place.read() {
            Ok(now) => now,
            Err(refusal) => {
                row.state = if refusal.absent {
                    State::Absent
                } else {
                    State::Refused
                };
                row.note = refusal.cause;
                row.remedy = refusal.remedy;
                if refusal.absent {
                    self.explain(&mut row, &setting.knob);
                }
                return row;
            }
        };
        let other = |name: &str| {
            let path = self.root.join("proc/sys").join(name.replace('.', "/"));
            Place::File { path }.read().ok()
        };
        match setting.wanted.text(&now, &other) {
            Ok(new) => {
                row.state = if same(&now, &new) {
                    State::Same
                } else {
                    State::Differs
                };
                row.new = Some(new);
            }
            Err(why) => {
                row.state = State::Refused;
                row.note = why;
            }
        }
        row.old = Some(now);
        row
    }

    /// Why a sysctl is not there.
    fn explain(&self, row: &mut Row, knob: &Knob) {
        let Knob::Sysctl(name) = knob else {
            return;
        };
        if let Some(gone) = gone(name) {
            row.state = State::Gone;
            row.note = gone.what.clone();
            row.remedy = match gone.instead.as_str() {
                "" => String::new(),
                instead => format!("instead: {instead}"),
            };
            return;
        }
        if let Some((_, module)) = MODULES.iter().find(|(start, _)| name.starts_with(start)) {
            row.note = format!("the module {module} is not loaded");
            row.remedy = format!("modprobe {module}, when it is to be used at all");
            return;
        }
        let Some((group, last)) = name.rsplit_once('.') else {
            return;
        };
        let dir = self.root.join("proc/sys").join(group.replace('.', "/"));
        let known: Vec<String> = std::fs::read_dir(dir)
            .into_iter()
            .flatten()
            .flatten()
            .map(|e| e.file_name().to_string_lossy().into_owned())
            .collect();
        row.note = "this kernel has no such sysctl".to_owned();
        if own_network(name) {
            row.note += ", or shows it in the first network namespace only";
        }
        if let Some(near) = near_miss(last, known.iter().map(String::as_str)) {
            row.remedy = format!("did you mean {group}.{near}?");
        }
    }
}

fn own_network(name: &str) -> bool {
    name.starts_with("net.")
}

/// Why so many huge pages would take the memory that the server needs; `None` when they fit.
fn too_much_memory(root: &Path, row: &Row) -> Option<String> {
    if row.name != HUGE_PAGES {
        return None;
    }
    let pages: u64 = row.new.as_ref()?.parse().ok()?;
    let text = std::fs::read_to_string(root.join("proc/meminfo")).ok()?;
    let kib = |key: &str| {
        let line = text.lines().find_map(|l| l.strip_prefix(key))?;
        line.trim_start_matches(':')
            .trim()
            .strip_suffix("kB")?
            .trim()
            .parse::<u64>()
            .ok()
    };
    let (size, available) = (kib("Hugepagesize")?, kib("MemAvailable")?);
    let asked = pages.saturating_mul(size);
    (asked > available / 2).then(|| {
        format!(
            "{pages} pages of {} MiB are {} MiB, more than half of the {} MiB that are available",
            size / 1024,
            asked / 1024,
            available / 1024
        )
    })
}

impl Tuned {
    /// Makes one change, the journal first.
    fn set(&mut self, root: &Path, row: &mut Row, place: Place) -> Result<(), TargetError> {
        let (Some(old), Some(new)) = (row.old.clone(), row.new.clone()) else {
            return Ok(());
        };
        let refuse = |row: &mut Row, note: String, remedy: String| {
            (row.state, row.note, row.remedy) = (State::Refused, note, remedy);
        };
        if let Some(why) = too_much_memory(root, row) {
            let remedy = "take fewer pages in a profile of your own".to_owned();
            refuse(row, why, remedy);
            return Ok(());
        }
        // Devices are spared it: many drivers reset the link at every write.
        if matches!(place, Place::File { .. })
            && let Err(refusal) = place.write(&old)
        {
            refuse(
                row,
                format!(
                    "not changed, because it could not be put back: {}",
                    refusal.cause
                ),
                refusal.remedy,
            );
            return Ok(());
        }
        let change = SettingChange::new(&row.name, place, &old, &new);
        let id = self.journal.record(Change::Setting(change.clone()))?;
        if let Err(refusal) = change.place.write(&new) {
            self.journal.undone(id)?;
            refuse(row, refusal.cause, refusal.remedy);
            return Ok(());
        }
        let found = change.place.read().unwrap_or_else(|_| new.clone());
        if same(&found, &old) {
            self.journal.undone(id)?;
            refuse(
                row,
                format!("the kernel took `{new}` and kept `{old}`"),
                String::new(),
            );
            return Ok(());
        }
        self.journal.wrote(id, &found)?;
        if !same(&found, &new) {
            row.note = format!("`{new}` was written, it became `{found}`");
        }
        row.state = State::Set;
        row.new = Some(found.clone());
        self.made.push((id, change, found));
        Ok(())
    }

    /// How many settings were changed.
    pub fn changed(&self) -> usize {
        self.made.len()
    }

    /// Leaves the settings as they are when this process ends; `restore` puts them back.
    ///
    /// # Errors
    /// [`TargetError::File`]; they are put back then.
    pub fn keep(mut self, profile: &str, at: &str) -> Result<Vec<Row>, TargetError> {
        if !self.made.is_empty() {
            self.journal.keep(profile, at)?;
        }
        self.made.clear();
        Ok(std::mem::take(&mut self.rows))
    }

    /// Puts everything back, the last change first; what could not be, by name with the reason.
    pub fn put_back(&mut self) -> Vec<(String, String)> {
        let mut left = Vec::new();
        while let Some((id, change, found)) = self.made.pop() {
            match change.put_back(Some(&found), false) {
                PutBack::Done { .. } | PutBack::NothingToDo { .. } => {}
                PutBack::Changed { now } => {
                    let why =
                        format!("somebody else has made it `{now}` meanwhile; it was left so");
                    left.push((change.name.clone(), why));
                }
                PutBack::Failed(cause) => {
                    // Its note stays: the next start tries again.
                    left.push((change.name.clone(), cause));
                    continue;
                }
            }
            if let Err(e) = self.journal.undone(id) {
                left.push((change.name, e.to_string()));
            }
        }
        left
    }
}

impl Drop for Tuned {
    /// On a panic as well. Who wants to know what was left calls [`Tuned::put_back`] first.
    fn drop(&mut self) {
        self.put_back();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn profile(sets: &str) -> Profile {
        Profile::parse("mine", &format!("about = \"x\"\n{sets}")).unwrap()
    }

    /// A root with these sysctls.
    fn host(sysctls: &[(&str, &str)]) -> (tempfile::TempDir, Tuner) {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in sysctls {
            let path = dir.path().join("proc/sys").join(name.replace('.', "/"));
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let tuner = Tuner::new(dir.path());
        (dir, tuner)
    }

    fn value(dir: &tempfile::TempDir, name: &str) -> String {
        std::fs::read_to_string(dir.path().join("proc/sys").join(name.replace('.', "/"))).unwrap()
    }

    const TWO: &str = "[[set]]\nsysctl = \"net.core.somaxconn\"\nat_least = 4096\n\
                       [[set]]\nsysctl = \"net.ipv4.tcp_rmem\"\nvalue = \"1 2 3\"\n";

    #[test]
    fn set_and_put_back_exactly() {
        let before = [
            ("net.core.somaxconn", "128\n"),
            ("net.ipv4.tcp_rmem", "4\t5\t6\n"),
        ];
        let (dir, tuner) = host(&before);
        let state = dir.path().join("state");
        let journal = Journal::open(&state).unwrap();
        let mut tuned = tuner.apply(&profile(TWO), &journal).unwrap();
        assert_eq!(tuned.changed(), 2);
        assert_eq!(value(&dir, "net.core.somaxconn"), "4096\n");
        assert_eq!(value(&dir, "net.ipv4.tcp_rmem"), "1 2 3\n");
        assert_eq!(tuned.put_back(), []);
        for (name, text) in before {
            assert_eq!(value(&dir, name), text);
        }
        drop((tuned, journal));
        assert_eq!(std::fs::read_dir(&state).unwrap().count(), 0);
    }

    #[test]
    fn a_panic_puts_back_too() {
        let (dir, tuner) = host(&[("net.core.somaxconn", "128\n")]);
        let journal = Journal::open(&dir.path().join("state")).unwrap();
        let panicked = std::panic::catch_unwind(|| {
            let _tuned = tuner.apply(&profile(TWO), &journal).unwrap();
            assert_eq!(value(&dir, "net.core.somaxconn"), "4096\n");
            panic!("in the middle of a run");
        });
        assert!(panicked.is_err());
        assert_eq!(value(&dir, "net.core.somaxconn"), "128\n");
    }

    #[test]
    fn what_somebody_else_changed_meanwhile_is_left() {
        let (dir, tuner) = host(&[("net.core.somaxconn", "128\n")]);
        let journal = Journal::open(&dir.path().join("state")).unwrap();
        let mut tuned = tuner.apply(&profile(TWO), &journal).unwrap();
        std::fs::write(dir.path().join("proc/sys/net/core/somaxconn"), "512\n").unwrap();
        let left = tuned.put_back();
        assert_eq!(left.len(), 1);
        assert!(left[0].1.contains("512"), "{left:?}");
        assert_eq!(value(&dir, "net.core.somaxconn"), "512\n");
    }

    #[test]
    fn every_state_is_named() {
        let (_dir, tuner) = host(&[
            ("net.core.somaxconn", "8192\n"),
            ("net.ipv4.tcp_fin_timeout", "60\n"),
            ("net.ipv4.tcp_rmem", "soft\n"),
        ]);
        let sets = "[[set]]\nsysctl = \"net.core.somaxconn\"\nat_least = 4096\n\
                    [[set]]\nsysctl = \"net.ipv4.tcp_fin_timeout\"\nvalue = 15\n\
                    [[set]]\nsysctl = \"net.ipv4.tcp_rmem\"\nat_least = [1, 2, 3]\n\
                    [[set]]\nsysctl = \"net.ipv4.tcp_tw_recycle\"\nvalue = 1\n\
                    [[set]]\nsysctl = \"net.netfilter.nf_conntrack_max\"\nvalue = 1\n\
                    [[set]]\nsysctl = \"net.ipv4.tcp_fin_timeot\"\nvalue = 1\n\
                    [[set]]\nfile = \"/sys/kernel/mm/none\"\nvalue = 1\n\
                    [[set]]\nnic = \"ring.rx\"\nvalue = 1\n";
        let rows = tuner.look(&profile(sets));
        let found: Vec<_> = rows.iter().map(|r| r.state).collect();
        use State::{Absent, Differs, Gone, Refused, Same};
        let expected = [Same, Differs, Refused, Gone, Absent, Absent, Absent, Absent];
        assert_eq!(found, expected, "{rows:#?}");
        assert!(rows[3].note.contains("4.12") && rows[3].remedy.contains("tcp_tw_reuse"));
        assert!(rows[4].note.contains("nf_conntrack is not loaded"));
        assert!(rows[5].remedy.contains("net.ipv4.tcp_fin_timeout"));
    }

    #[test]
    fn what_cannot_be_written_back_is_not_changed() {
        let (dir, tuner) = host(&[("vm.nr_hugepages", "0\n")]);
        let journal = Journal::open(&dir.path().join("state")).unwrap();
        let meminfo = "MemAvailable:    1048576 kB\nHugepagesize:       2048 kB\n";
        std::fs::write(dir.path().join("proc/meminfo"), meminfo).unwrap();
        let pages = profile("[[set]]\nsysctl = \"vm.nr_hugepages\"\nvalue = 4096\n");
        let tuned = tuner.apply(&pages, &journal).unwrap();
        assert_eq!(tuned.rows[0].state, State::Refused);
        assert!(tuned.rows[0].note.contains("8192 MiB"), "{:?}", tuned.rows);
        assert_eq!(value(&dir, "vm.nr_hugepages"), "0\n");
        // A real one that shows a value and takes no write, not even of root.
        let only_read = profile("[[set]]\nsysctl = \"kernel.osrelease\"\nvalue = \"x\"\n");
        let tuned = Tuner::default().apply(&only_read, &journal).unwrap();
        assert_eq!(tuned.rows[0].state, State::Refused);
        assert!(
            tuned.rows[0].note.contains("could not be put back"),
            "{:?}",
            tuned.rows
        );
    }

    #[test]
    fn every_profile_that_is_built_in_can_be_looked_at_here() {
        for profile in plan::tuning::profiles() {
            let rows = Tuner::default().look(profile);
            assert!(rows.len() >= profile.set.len(), "{}", profile.name);
            for row in rows {
                let is_known = matches!(row.state, State::Same | State::Differs);
                assert!(
                    is_known == row.old.is_some() || row.state == State::Refused,
                    "{row:?}"
                );
                assert!(is_known || !row.note.is_empty(), "{row:?}");
            }
        }
    }
}
