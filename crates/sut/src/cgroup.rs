//! Limits of a target's CPU time and memory: a control group of its own, journalled, removed with the target.
//!
//! The process joins the group between fork and exec, so that what it starts is limited from the first instruction.
//! The surprise: a host may have the two controllers in either version of the interface, and even one in each
//! (cgroups(7)), so each is looked for by itself.

use crate::error::TargetError;
use crate::journal::{Change, ChangeId, DIRECTORY_PREFIX, Journal};
use plan::Limits;
use std::ffi::CString;
use std::fs::{File, OpenOptions};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Where the hierarchies are mounted.
const ROOT: &str = "/sys/fs/cgroup";

/// The kernel's period of CPU quotas, microseconds.
const PERIOD_US: f64 = 100_000.0;

/// A group that has been made. Removed when dropped, after its processes have ended.
#[derive(Debug)]
pub(crate) struct Group {
    directories: Vec<(PathBuf, ChangeId)>,
    journal: Journal,
}

/// One write into a group's file.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Setting {
    /// Directory of the hierarchy.
    hierarchy: PathBuf,
    file: &'static str,
    value: String,
}

/// Can these limits be set on this host?
///
/// # Errors
/// [`TargetError::NoLimit`] with what stands in the way.
pub(crate) fn check(target: &str, limits: Limits) -> Result<(), TargetError> {
    let settings = settings(Path::new(ROOT), target, limits)?;
    for setting in settings {
        writable(target, &setting.hierarchy)?;
    }
    Ok(())
}

fn writable(target: &str, hierarchy: &Path) -> Result<(), TargetError> {
    let path = CString::new(hierarchy.as_os_str().as_encoded_bytes());
    let path = path.expect("a path below ROOT that was found holds no zero byte");
    // SAFETY: the path is a C string that lives through the call.
    match unsafe { libc::access(path.as_ptr(), libc::W_OK) } {
        0 => Ok(()),
        _ => Err(no_limit(
            target,
            format!(
                "{} cannot be written: {}",
                hierarchy.display(),
                std::io::Error::last_os_error()
            ),
            "run as root, outside of a container or in one that may write its control groups",
        )),
    }
}

fn no_limit(target: &str, cause: String, remedy: &str) -> TargetError {
    TargetError::NoLimit {
        target: target.to_owned(),
        cause,
        remedy: remedy.to_owned(),
    }
}

fn settings(root: &Path, target: &str, limits: Limits) -> Result<Vec<Setting>, TargetError> {
    let mut settings = Vec::new();
    if let Some(cores) = limits.cpu {
        let quota = (cores * PERIOD_US).round().max(1_000.0);
        settings.extend(match hierarchy(root, target, "cpu")? {
            (hierarchy, Version::One) => vec![
                setting(&hierarchy, "cpu.cfs_period_us", format!("{PERIOD_US}")),
                setting(&hierarchy, "cpu.cfs_quota_us", format!("{quota}")),
            ],
            (hierarchy, Version::Two) => {
                vec![setting(
                    &hierarchy,
                    "cpu.max",
                    format!("{quota} {PERIOD_US}"),
                )]
            }
        });
    }
    if let Some(memory) = limits.memory {
        let (hierarchy, version) = hierarchy(root, target, "memory")?;
        let file = match version {
            Version::One => "memory.limit_in_bytes",
            Version::Two => "memory.max",
        };
        settings.push(setting(&hierarchy, file, memory.0.to_string()));
    }
    Ok(settings)
}

fn setting(hierarchy: &Path, file: &'static str, value: String) -> Setting {
    Setting {
        hierarchy: hierarchy.to_owned(),
        file,
        value,
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

/// The directory below which a group with this controller can be made.
fn hierarchy(
    root: &Path,
    target: &str,
    controller: &str,
) -> Result<(PathBuf, Version), TargetError> {
    let one = root.join(controller);
    if one.join("cgroup.procs").exists() {
        return Ok((one, Version::One));
    }
    let has = |dir: &Path, file: &str| {
        let text = std::fs::read_to_string(dir.join(file)).unwrap_or_default();
        text.split_whitespace().any(|c| c == controller)
    };
    let two = [root.to_owned(), root.join("unified")];
    match two.iter().find(|dir| has(dir, "cgroup.controllers")) {
        Some(dir) if has(dir, "cgroup.subtree_control") => Ok((dir.clone(), Version::Two)),
        Some(dir) => Err(no_limit(
            target,
            format!(
                "the controller `{controller}` is not enabled below {}",
                dir.display()
            ),
            &format!(
                "as root: echo +{controller} > {}/cgroup.subtree_control",
                dir.display()
            ),
        )),
        None => Err(no_limit(
            target,
            format!(
                "this kernel offers no controller `{controller}` below {}",
                root.display()
            ),
            "mount the control groups, or run on a host that has them",
        )),
    }
}

impl Group {
    /// Makes a group with these limits; `None` without limits.
    ///
    /// # Errors
    /// [`TargetError::NoLimit`]; nothing is left then.
    pub fn create(
        journal: &Journal,
        target: &str,
        marker: &str,
        limits: Limits,
    ) -> Result<Option<Self>, TargetError> {
        let settings = settings(Path::new(ROOT), target, limits)?;
        let mut group = Self {
            directories: Vec::new(),
            journal: journal.clone(),
        };
        for setting in &settings {
            let dir = setting
                .hierarchy
                .join(format!("{DIRECTORY_PREFIX}{marker}"));
            if group.directories.iter().all(|(made, _)| *made != dir) {
                group.make(target, &dir)?;
            }
            let path = dir.join(setting.file);
            std::fs::write(&path, &setting.value).map_err(|e| {
                let cause = format!("writing {} to {}: {e}", setting.value, path.display());
                no_limit(target, cause, "give a limit that this host can hold")
            })?;
        }
        Ok((!settings.is_empty()).then_some(group))
    }

    fn make(&mut self, target: &str, dir: &Path) -> Result<(), TargetError> {
        let id = self.journal.record(Change::Cgroup {
            path: dir.to_owned(),
        })?;
        // Noted as ours at once: a drop undoes it, made or not.
        self.directories.push((dir.to_owned(), id));
        std::fs::create_dir(dir).map_err(|e| {
            let cause = format!("creating {}: {e}", dir.display());
            no_limit(
                target,
                cause,
                "run as root, where control groups can be written",
            )
        })
    }

    /// A group beside each of a process's own (`lines` of its `/proc/PID/cgroup`), with the same limits; what could
    /// not be made, in words. A copy in the very same group would take memory and CPU time from the server.
    pub fn beside<'a>(
        journal: &Journal,
        marker: &str,
        lines: impl Iterator<Item = &'a str>,
    ) -> (Option<Self>, Vec<String>) {
        let mut group = Self {
            directories: Vec::new(),
            journal: journal.clone(),
        };
        let mut missing = Vec::new();
        for line in lines {
            let Some(theirs) = directory_of(Path::new(ROOT), line) else {
                continue;
            };
            let path = path_of(line).unwrap_or_default();
            let made = match theirs.parent() {
                Some(parent) if path != "/" => {
                    let dir = parent.join(format!("{DIRECTORY_PREFIX}{marker}"));
                    group
                        .make("copy", &dir)
                        .map_err(|e| e.to_string())
                        .and_then(|()| same_limits(&theirs, &dir))
                }
                _ => Err("it is the root of the control groups".to_owned()),
            };
            if let Err(cause) = made {
                missing.push(format!("control group {path} ({cause})"));
            }
        }
        ((!group.directories.is_empty()).then_some(group), missing)
    }

    /// Changes a limit that one of the groups has.
    ///
    /// # Errors
    /// In words: it has no such limit, or the kernel does not take it.
    pub fn raise(&self, limit: Raised) -> Result<(), String> {
        let (dir, (file, value)) = self
            .directories
            .iter()
            .find_map(|(dir, _)| Some((dir, limit.written(dir)?)))
            .ok_or_else(|| format!("its own control group has no {}", limit.name()))?;
        let path = dir.join(file);
        std::fs::write(&path, &value)
            .map_err(|e| format!("writing {value} to {}: {e}", path.display()))
    }

    /// Files that a process joins the group by, as far as they can be opened.
    pub fn open_doors(&self) -> Vec<File> {
        let open = |(dir, _): &(PathBuf, ChangeId)| {
            let path = dir.join("cgroup.procs");
            OpenOptions::new().write(true).open(path).ok()
        };
        self.directories.iter().filter_map(open).collect()
    }

    /// The groups that a process is not in, in words; `lines` are of its `/proc/PID/cgroup`.
    pub fn not_joined(&self, lines: &[String]) -> Vec<String> {
        let joined: Vec<PathBuf> = lines
            .iter()
            .filter_map(|line| directory_of(Path::new(ROOT), line))
            .collect();
        let left = self
            .directories
            .iter()
            .filter(|(dir, _)| !joined.contains(dir));
        left.map(|(dir, _)| format!("control group {} (it could not join)", dir.display()))
            .collect()
    }

    /// Files that a process joins the group by: it writes `0` to each.
    ///
    /// # Errors
    /// [`TargetError::NoLimit`].
    pub fn doors(&self, target: &str) -> Result<Vec<File>, TargetError> {
        let open = |(dir, _): &(PathBuf, ChangeId)| {
            let path = dir.join("cgroup.procs");
            OpenOptions::new().write(true).open(&path).map_err(|e| {
                let cause = format!("opening {}: {e}", path.display());
                no_limit(
                    target,
                    cause,
                    "run as root, where control groups can be written",
                )
            })
        };
        self.directories.iter().map(open).collect()
    }
}

/// A limit of a group with its new value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Raised {
    /// CPU time, cores.
    Quota(f64),
    /// Weight, 100 is the usual one.
    Weight(u64),
}

impl Raised {
    fn name(self) -> &'static str {
        match self {
            Raised::Quota(_) => "CPU quota",
            Raised::Weight(_) => "CPU weight",
        }
    }

    /// The file of a group and what is written to it; `None` where that group has no such limit now.
    fn written(self, dir: &Path) -> Option<(&'static str, String)> {
        let read = |file: &str| std::fs::read_to_string(dir.join(file)).ok();
        let number = |file: &str| read(file)?.trim().parse::<f64>().ok();
        match self {
            Raised::Quota(cores) => {
                if let Some(max) = read("cpu.max") {
                    let period: f64 = max.split_whitespace().nth(1)?.parse().ok()?;
                    let quota = (cores * period).round();
                    return (!max.starts_with("max"))
                        .then(|| ("cpu.max", format!("{quota} {period}")));
                }
                let period = number("cpu.cfs_period_us")?;
                let is_held = number("cpu.cfs_quota_us")? > 0.0;
                is_held.then(|| ("cpu.cfs_quota_us", format!("{}", (cores * period).round())))
            }
            Raised::Weight(weight) => match read("cpu.weight") {
                Some(_) => Some(("cpu.weight", weight.to_string())),
                // 1024 shares are as much as a weight of 100.
                None => {
                    read("cpu.shares").map(|_| ("cpu.shares", (weight * 1024 / 100).to_string()))
                }
            },
        }
    }
}

/// Controllers that hold a process back, and the files that say how far. CPUs and nodes come first: without them no
/// process can join.
const HOLDS_BACK: [(&str, &[&str]); 5] = [
    ("cpuset", &["cpuset.cpus", "cpuset.mems"]),
    (
        "cpu",
        &[
            "cpu.max",
            "cpu.weight",
            "cpu.cfs_period_us",
            "cpu.cfs_quota_us",
            "cpu.shares",
        ],
    ),
    (
        "memory",
        &[
            "memory.max",
            "memory.high",
            "memory.swap.max",
            "memory.limit_in_bytes",
        ],
    ),
    ("pids", &["pids.max"]),
    ("io", &["io.max", "io.weight"]),
];

/// The path in a line of `/proc/PID/cgroup`: `ID:CONTROLLERS:PATH` (cgroups(7)).
pub(crate) fn path_of(line: &str) -> Option<&str> {
    line.splitn(3, ':').nth(2)
}

/// The directory of a line of `/proc/PID/cgroup`; `None` for hierarchies that hold nothing back, and for groups out of
/// sight.
fn directory_of(root: &Path, line: &str) -> Option<PathBuf> {
    let mut parts = line.splitn(3, ':').skip(1);
    let (controllers, path) = (parts.next()?, parts.next()?);
    let hierarchy = if controllers.is_empty() {
        let two = [root.to_owned(), root.join("unified")];
        two.into_iter()
            .find(|dir| dir.join("cgroup.controllers").exists())?
    } else {
        let mut names = controllers.split(',');
        names.find(|name| HOLDS_BACK.iter().any(|(known, _)| known == name))?;
        let together = root.join(controllers);
        match together.exists() {
            true => together,
            false => root.join(controllers.split(',').next()?),
        }
    };
    let dir = hierarchy.join(path.trim_start_matches('/'));
    dir.join("cgroup.procs").exists().then_some(dir)
}

/// Gives the group in `ours` what the one in `theirs` is held to.
fn same_limits(theirs: &Path, ours: &Path) -> Result<(), String> {
    for file in HOLDS_BACK.iter().flat_map(|(_, files)| *files) {
        let read = |dir: &Path| std::fs::read_to_string(dir.join(file)).ok();
        if let (Some(wanted), Some(now)) = (read(theirs), read(ours))
            && wanted != now
        {
            std::fs::write(ours.join(file), &wanted).map_err(|e| format!("{file}: {e}"))?;
        }
    }
    Ok(())
}

impl Drop for Group {
    fn drop(&mut self) {
        for (dir, id) in self.directories.iter().rev() {
            if remove(dir).is_ok() {
                // Not noted, the next start finds that it is gone.
                let _ = self.journal.undone(*id);
            }
        }
    }
}

/// Removes a group; one that is gone is fine. Its processes have been killed, but the kernel lets go of them a
/// moment later.
pub(crate) fn remove(dir: &Path) -> Result<(), String> {
    const ROUNDS: u32 = 200;
    let is_ours = dir
        .file_name()
        .is_some_and(|name| name.to_string_lossy().starts_with(DIRECTORY_PREFIX));
    if !is_ours || !dir.starts_with(ROOT) {
        return Err(format!("{} is not a control group of prony", dir.display()));
    }
    for _ in 0..ROUNDS {
        match std::fs::remove_dir(dir) {
            Ok(()) => return Ok(()),
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(()),
            Err(e) if e.raw_os_error() == Some(libc::EBUSY) => {
                std::thread::sleep(Duration::from_millis(5));
            }
            Err(e) => return Err(e.to_string()),
        }
    }
    Err("processes in it do not end".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::Bytes;

    fn fake(files: &[(&str, &str)]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = dir.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        dir
    }

    fn said(files: &[(&str, &str)]) -> Result<Vec<String>, String> {
        let root = fake(files);
        let limits = Limits {
            cpu: Some(0.5),
            memory: Some(Bytes(1 << 28)),
            ..Limits::default()
        };
        let settings = settings(root.path(), "s", limits).map_err(|e| e.to_string())?;
        let text = |s: &Setting| {
            let dir = s.hierarchy.strip_prefix(root.path()).unwrap();
            format!("{}={}", dir.join(s.file).display(), s.value)
        };
        Ok(settings.iter().map(text).collect())
    }

    #[test]
    fn each_controller_is_found_in_its_version() {
        let one = said(&[("cpu/cgroup.procs", ""), ("memory/cgroup.procs", "")]);
        assert_eq!(
            one.unwrap(),
            [
                "cpu/cpu.cfs_period_us=100000",
                "cpu/cpu.cfs_quota_us=50000",
                "memory/memory.limit_in_bytes=268435456"
            ]
        );
        let both = "cpuset cpu memory pids";
        let two = said(&[
            ("cgroup.controllers", both),
            ("cgroup.subtree_control", both),
        ]);
        assert_eq!(
            two.unwrap(),
            ["cpu.max=50000 100000", "memory.max=268435456"]
        );
        let mixed = said(&[
            ("cpu/cgroup.procs", ""),
            ("unified/cgroup.controllers", both),
            ("unified/cgroup.subtree_control", "memory"),
        ]);
        assert_eq!(mixed.unwrap()[2], "unified/memory.max=268435456");
        let off = said(&[("cgroup.controllers", both), ("cgroup.subtree_control", "")]);
        assert!(
            off.unwrap_err()
                .contains("the controller `cpu` is not enabled below")
        );
        assert!(said(&[]).unwrap_err().contains("no controller `cpu`"));
    }

    #[test]
    fn a_group_is_found_and_given_the_same_limits() {
        let root = fake(&[
            ("cpu,cpuacct/a/cgroup.procs", ""),
            ("memory/a/cgroup.procs", ""),
            ("unified/cgroup.controllers", "io"),
            ("unified/a/cgroup.procs", ""),
            ("theirs/pids.max", "7\n"),
            ("theirs/cpu.max", "5 10\n"),
            ("ours/cpu.max", "max 10\n"),
        ]);
        for (line, want) in [
            ("4:cpu,cpuacct:/a", Some("cpu,cpuacct/a")),
            ("7:memory:/a", Some("memory/a")),
            ("0::/a", Some("unified/a")),
            ("1:name=systemd:/a", None),
            ("7:memory:/../elsewhere", None),
        ] {
            let want = want.map(|dir| root.path().join(dir));
            assert_eq!(directory_of(root.path(), line), want, "{line}");
        }
        let (theirs, ours) = (root.path().join("theirs"), root.path().join("ours"));
        same_limits(&theirs, &ours).unwrap();
        assert_eq!(
            std::fs::read_to_string(ours.join("cpu.max")).unwrap(),
            "5 10\n"
        );
        assert!(
            !ours.join("pids.max").exists(),
            "a controller that ours has not"
        );
    }

    #[test]
    fn a_limit_is_raised_where_the_group_has_one() {
        let root = fake(&[
            ("two/cpu.max", "10000 50000\n"),
            ("two/cpu.weight", "20\n"),
            ("one/cpu.cfs_period_us", "100000\n"),
            ("one/cpu.cfs_quota_us", "10000\n"),
            ("one/cpu.shares", "2\n"),
            ("free/cpu.cfs_period_us", "100000\n"),
            ("free/cpu.cfs_quota_us", "-1\n"),
            ("none/cpu.max", "max 100000\n"),
        ]);
        for (dir, limit, want) in [
            ("two", Raised::Quota(2.0), Some("cpu.max=100000 50000")),
            ("two", Raised::Weight(100), Some("cpu.weight=100")),
            ("one", Raised::Quota(1.5), Some("cpu.cfs_quota_us=150000")),
            ("one", Raised::Weight(100), Some("cpu.shares=1024")),
            ("free", Raised::Quota(2.0), None),
            ("none", Raised::Quota(2.0), None),
            ("none", Raised::Weight(100), None),
        ] {
            let written = limit.written(&root.path().join(dir));
            let written = written.map(|(file, value)| format!("{file}={value}"));
            assert_eq!(written.as_deref(), want, "{dir} {limit:?}");
        }
    }

    #[test]
    fn a_foreign_group_is_never_removed() {
        for path in ["/sys/fs/cgroup/system.slice", "/tmp/prony-1"] {
            assert!(remove(Path::new(path)).is_err(), "{path}");
        }
        assert_eq!(
            remove(Path::new("/sys/fs/cgroup/prony-no-such-group")),
            Ok(())
        );
    }
}
