//! One setting at its place on the host: read it, write it, put it back.
//!
//! The surprise: a journal may be read after a restart, or in another network namespace. Then the old value
//! belongs to a host that is gone or elsewhere, and writing it would be a change of its own.

use super::same;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Where the kernel says which start of the host this is.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// Where a setting stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Place {
    /// A file that holds it.
    File { path: PathBuf },
    /// A figure of a network device.
    Nic {
        device: String,
        /// The figure, as the crate `nic` names it.
        figure: String,
    },
}

/// Why a setting cannot be read or written: the cause, and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// It is not there at all.
    pub absent: bool,
    /// The system's words.
    pub cause: String,
    /// What to do; may be empty.
    pub remedy: String,
}

impl Refusal {
    fn of_io(doing: &str, path: &Path, error: &io::Error) -> Self {
        let remedy = match error.kind() {
            io::ErrorKind::PermissionDenied => "run it as root",
            io::ErrorKind::ReadOnlyFilesystem => {
                "it is mounted read-only, as in a container: run prony on the host, or in a privileged container"
            }
            io::ErrorKind::InvalidInput => "this kernel or hardware does not take this value",
            _ => "",
        };
        Self {
            absent: error.kind() == io::ErrorKind::NotFound,
            cause: format!("{doing} {}: {error}", path.display()),
            remedy: remedy.to_owned(),
        }
    }

    fn of_nic(error: &linux::ethtool::NicError) -> Self {
        use linux::ethtool::NicError::{Fixed, System, Unknown, Unsupported};
        let denied = matches!(error, System { cause, .. } if cause.kind() == io::ErrorKind::PermissionDenied);
        Self {
            absent: matches!(error, Unsupported { .. } | Fixed { .. } | Unknown { .. }),
            cause: error.to_string(),
            remedy: if denied { "run it as root" } else { "" }.to_owned(),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::File { path } => write!(f, "{}", path.display()),
            Place::Nic { device, figure } => write!(f, "{device} {figure}"),
        }
    }
}

impl Place {
    /// What stands there, in the form in which it can be written back.
    ///
    /// # Errors
    /// `Refusal`.
    pub fn read(&self) -> Result<String, Refusal> {
        match self {
            Place::File { path } => {
                let text = std::fs::read_to_string(path)
                    .map_err(|e| Refusal::of_io("reading", path, &e))?;
                Ok(chosen(&text).unwrap_or_else(|| text.trim_end_matches('\n').to_owned()))
            }
            Place::Nic { device, figure } => linux::ethtool::Device::open(device)
                .and_then(|d| d.get(figure))
                .map_err(|e| Refusal::of_nic(&e)),
        }
    }

    /// Writes `value`; never creates anything.
    ///
    /// # Errors
    /// `Refusal`.
    pub fn write(&self, value: &str) -> Result<(), Refusal> {
        match self {
            Place::File { path } => OpenOptions::new()
                .write(true)
                .truncate(true)
                .open(path)
                // In one call: the kernel takes each write for a whole value.
                .and_then(|mut file| file.write_all(format!("{value}\n").as_bytes()))
                .map_err(|e| Refusal::of_io("writing", path, &e)),
            Place::Nic { device, figure } => linux::ethtool::Device::open(device)
                .and_then(|d| d.set(figure, value))
                .map_err(|e| Refusal::of_nic(&e)),
        }
    }

    /// Each network namespace has its own.
    fn is_of_namespace(&self) -> bool {
        match self {
            Place::File { path } => path.starts_with("/proc/sys/net"),
            Place::Nic { .. } => true,
        }
    }
}

/// The choice in brackets of `always [madvise] never`.
fn chosen(text: &str) -> Option<String> {
    let (_, rest) = text.split_once('[')?;
    Some(rest.split_once(']')?.0.to_owned())
}

/// A setting that is about to be changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SettingChange {
    /// The name that people know.
    pub name: String,
    /// Where it stands.
    pub place: Place,
    /// What stood there, exactly.
    pub old: String,
    /// What is written.
    pub new: String,
    /// Which start of the host this was.
    boot: String,
    /// The network namespace, when the setting belongs to one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    namespace: Option<u64>,
}

/// What came of putting a setting back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PutBack {
    /// The old value stands again.
    Done {
        /// What stood there before.
        was: String,
    },
    /// It stands already, or there is nothing left to put back.
    NothingToDo { why: String },
    /// Somebody else has changed it since; it was left alone.
    Changed {
        /// What stands there.
        now: String,
    },
    /// It could not be done.
    Failed(String),
}

impl SettingChange {
    /// The change of `place` from `old` to `new`, now and here.
    pub fn new(name: &str, place: Place, old: &str, new: &str) -> Self {
        Self {
            name: name.to_owned(),
            namespace: place.is_of_namespace().then(own_namespace).flatten(),
            place,
            old: old.to_owned(),
            new: new.to_owned(),
            boot: boot(),
        }
    }

    /// The same of a file.
    pub fn of_file(name: &str, path: &Path, old: &str, new: &str) -> Self {
        let path = path.to_owned();
        Self::new(name, Place::File { path }, old, new)
    }

    /// The host has been started anew since: the setting is gone by itself.
    pub fn is_of_another_start(&self) -> bool {
        self.boot != boot()
    }

    /// Puts the old value back. `found` is what stood there once it was set; whoever changed it since keeps his
    /// value, unless `force` says otherwise.
    ///
    /// Without `found` the owner died between writing and looking, so whatever stands there is its own.
    pub fn put_back(&self, found: Option<&str>, force: bool) -> PutBack {
        match self.stands(found) {
            Standing::Ours { now } => self.write_old(now),
            Standing::Changed { now } if force => self.write_old(now),
            Standing::Changed { now } => PutBack::Changed { now },
            Standing::Nothing { why } => PutBack::NothingToDo { why },
            Standing::Unknown(cause) => PutBack::Failed(cause),
        }
    }

    fn write_old(&self, was: String) -> PutBack {
        if let Err(refusal) = self.place.write(&self.old) {
            return PutBack::Failed(refusal.cause);
        }
        match self.place.read() {
            Ok(now) if same(&now, &self.old) => PutBack::Done { was },
            Ok(now) => PutBack::Failed(format!("`{}` was written, `{now}` stands there", self.old)),
            Err(refusal) => PutBack::Failed(refusal.cause),
        }
    }

    /// How the setting stands to what was written.
    pub(super) fn stands(&self, found: Option<&str>) -> Standing {
        let nothing = |why: &str| Standing::Nothing {
            why: why.to_owned(),
        };
        if self.is_of_another_start() {
            return nothing("the host has been started anew since");
        }
        if self.namespace.is_some() && self.namespace != own_namespace() {
            let other = self.namespace.unwrap_or_default();
            return match a_process_in(other) {
                Some(Member::Pid(pid)) => Standing::Unknown(format!(
                    "it was set in another network namespace: `nsenter --net --target {pid}` leads there"
                )),
                Some(Member::Name(name)) => Standing::Unknown(format!(
                    "it was set in another network namespace: `ip netns exec {name}` leads there"
                )),
                None => nothing("its network namespace is gone"),
            };
        }
        let now = match self.place.read() {
            Ok(now) => now,
            Err(refusal) if refusal.absent => return nothing("it is not there any more"),
            Err(refusal) => return Standing::Unknown(refusal.cause),
        };
        if same(&now, &self.old) {
            return nothing("the old value stands there already");
        }
        let is_ours = found.is_none_or(|found| same(&now, found) || same(&now, &self.new));
        if is_ours {
            Standing::Ours { now }
        } else {
            Standing::Changed { now }
        }
    }
}

/// How a setting stands to what was written.
pub(super) enum Standing {
    /// As it was set.
    Ours { now: String },
    /// Somebody else has changed it.
    Changed { now: String },
    /// There is nothing to put back.
    Nothing { why: String },
    /// It cannot be seen.
    Unknown(String),
}

/// Which start of the host this is; empty when the kernel does not say, which then never differs.
fn boot() -> String {
    let id = std::fs::read_to_string(BOOT_ID).unwrap_or_default();
    id.trim().to_owned()
}

/// Number of the network namespace of this process.
fn own_namespace() -> Option<u64> {
    Some(std::fs::metadata("/proc/self/ns/net").ok()?.ino())
}

/// How to get into a network namespace.
enum Member {
    Pid(String),
    Name(String),
}

/// A process in that network namespace, or a name that keeps it.
fn a_process_in(namespace: u64) -> Option<Member> {
    let entries = |dir: &str| {
        let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
        entries.map(|e| e.file_name().to_string_lossy().into_owned())
    };
    let is = |path: String| std::fs::metadata(path).is_ok_and(|m| m.ino() == namespace);
    entries("/run/netns")
        .find(|name| is(format!("/run/netns/{name}")))
        .map(Member::Name)
        .or_else(|| {
            let numeric = |name: &String| name.bytes().all(|b| b.is_ascii_digit());
            entries("/proc")
                .filter(numeric)
                .find(|pid| is(format!("/proc/{pid}/ns/net")))
                .map(Member::Pid)
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices_in_brackets_are_read_as_they_are_written() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("enabled");
        let place = Place::File { path: path.clone() };
        for (text, read) in [
            ("always [madvise] never\n", "madvise"),
            ("4096\t131072\t6291456\n", "4096\t131072\t6291456"),
            ("\n", ""),
        ] {
            std::fs::write(&path, text).unwrap();
            assert_eq!(place.read().as_deref(), Ok(read));
        }
        place.write("7").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "7\n");
        std::fs::remove_file(&path).unwrap();
        assert!(place.read().unwrap_err().absent);
        assert!(place.write("7").unwrap_err().absent, "nothing is created");
    }

    #[test]
    fn after_a_restart_nothing_is_put_back() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("knob");
        std::fs::write(&path, "2\n").unwrap();
        let mut change = SettingChange::of_file("knob", &path, "1", "2");
        change.boot = "another".to_owned();
        assert!(matches!(
            change.put_back(Some("2"), false),
            PutBack::NothingToDo { .. }
        ));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "2\n");
    }

    #[test]
    fn a_setting_of_a_namespace_that_is_gone_needs_nothing() {
        let place = Place::Nic {
            device: "lo".into(),
            figure: "feature.tx-scatter-gather".into(),
        };
        let mut change = SettingChange::new("lo", place, "on", "off");
        assert_eq!(change.namespace, own_namespace());
        change.namespace = Some(1);
        let PutBack::NothingToDo { why } = change.put_back(None, false) else {
            panic!("no process is in the namespace 1");
        };
        assert!(why.contains("gone"), "{why}");
    }
}
