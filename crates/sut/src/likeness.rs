//! What a copy takes over of the server that it copies, beside its program and configuration: user, groups,
//! capabilities, limits, control groups, nice value and CPUs.
//!
//! A copy that runs under prony's conditions instead of the server's is another server: with another limit of open
//! files HAProxy has another maxconn. The surprise: between fork and exec every step may be refused and none ends the
//! copy. What came of it is read from /proc once the copy runs, and what is missing is said.

use crate::cgroup::{self, Group};
use crate::config;
use crate::error::TargetError;
use crate::journal::Journal;
use crate::relimit::Relimits;
use crate::rlimits::{self, Rlimits};
use linux::affinity::{self, CpuSet};
use linux::procfs::PROC;
use record::Server;
use std::fs::File;
use std::path::Path;

/// Capabilities by their bits (linux/capability.h), without `CAP_`.
const CAPABILITIES: [&str; 41] = [
    "CHOWN",
    "DAC_OVERRIDE",
    "DAC_READ_SEARCH",
    "FOWNER",
    "FSETID",
    "KILL",
    "SETGID",
    "SETUID",
    "SETPCAP",
    "LINUX_IMMUTABLE",
    "NET_BIND_SERVICE",
    "NET_BROADCAST",
    "NET_ADMIN",
    "NET_RAW",
    "IPC_LOCK",
    "IPC_OWNER",
    "SYS_MODULE",
    "SYS_RAWIO",
    "SYS_CHROOT",
    "SYS_PTRACE",
    "SYS_PACCT",
    "SYS_ADMIN",
    "SYS_BOOT",
    "SYS_NICE",
    "SYS_RESOURCE",
    "SYS_TIME",
    "SYS_TTY_CONFIG",
    "MKNOD",
    "LEASE",
    "AUDIT_WRITE",
    "AUDIT_CONTROL",
    "SETFCAP",
    "MAC_OVERRIDE",
    "MAC_ADMIN",
    "SYSLOG",
    "WAKE_ALARM",
    "BLOCK_SUSPEND",
    "AUDIT_READ",
    "PERFMON",
    "BPF",
    "CHECKPOINT_RESTORE",
];

/// The conditions of a process, as /proc shows them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Conditions {
    /// Real, effective and saved.
    pub users: [u32; 3],
    /// Real, effective and saved.
    pub groups: [u32; 3],
    supplementary: Vec<u32>,
    inheritable: u64,
    bounding: u64,
    ambient: u64,
    rlimits: Rlimits,
    nice: i32,
    cpus: Vec<u32>,
    /// Lines of `/proc/PID/cgroup`.
    cgroups: Vec<String>,
}

impl Conditions {
    /// Those of a process; `None` when it has ended.
    pub fn of(pid: i32) -> Option<Self> {
        let dir = Path::new(PROC).join(pid.to_string());
        let status = std::fs::read_to_string(dir.join("status")).ok()?;
        let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name));
        let ids = |name: &str| {
            let mut ids = field(name)?.split_whitespace().map(str::parse);
            let mut next = || ids.next()?.ok();
            Some([next()?, next()?, next()?])
        };
        let set = |name: &str| u64::from_str_radix(field(name)?.trim(), 16).ok();
        let mut supplementary: Vec<u32> = field("Groups:")?
            .split_whitespace()
            .filter_map(|id| id.parse().ok())
            .collect();
        supplementary.sort_unstable();
        let cgroups = std::fs::read_to_string(dir.join("cgroup")).unwrap_or_default();
        // SAFETY: a system call on integers; it cannot fail for a process that was just read.
        let nice = unsafe { libc::getpriority(libc::PRIO_PROCESS, u32::try_from(pid).ok()?) };
        Some(Self {
            users: ids("Uid:")?,
            groups: ids("Gid:")?,
            supplementary,
            inheritable: set("CapInh:")?,
            bounding: set("CapBnd:")?,
            // Kernels before 4.3 have none.
            ambient: set("CapAmb:").unwrap_or(0),
            rlimits: Rlimits::of(Path::new(PROC), pid)?,
            nice,
            cpus: affinity::of(pid).ok()?,
            cgroups: cgroups.lines().map(str::to_owned).collect(),
        })
    }

    /// What of `self` is not so in `other`, in words.
    fn missing_in(&self, other: &Self) -> Vec<String> {
        let mut missing = Vec::new();
        let mut differs = |what: &str, wanted: String, got: String| {
            if wanted != got {
                missing.push(format!("{what} {wanted} (it has {got})"));
            }
        };
        differs(
            "user",
            self.users[1].to_string(),
            other.users[1].to_string(),
        );
        differs(
            "group",
            self.groups[1].to_string(),
            other.groups[1].to_string(),
        );
        differs(
            "supplementary groups",
            list(&self.supplementary),
            list(&other.supplementary),
        );
        differs("nice value", self.nice.to_string(), other.nice.to_string());
        differs("CPUs", list(&self.cpus), list(&other.cpus));
        for (what, wanted, got) in [
            ("bounding", self.bounding, other.bounding),
            ("inheritable", self.inheritable, other.inheritable),
            ("ambient", self.ambient, other.ambient),
        ] {
            let what = format!("{what} capabilities");
            differs(&what, capabilities(wanted, got), capabilities(got, wanted));
        }
        missing.extend(self.rlimits.missing_in(&other.rlimits));
        missing
    }
}

fn list(numbers: &[u32]) -> String {
    match numbers {
        [] => "none".to_owned(),
        numbers => numbers
            .iter()
            .map(u32::to_string)
            .collect::<Vec<_>>()
            .join(" "),
    }
}

/// The names of those of `set` that are not in `other`.
fn capabilities(set: u64, other: u64) -> String {
    let only = set & !other;
    let names: Vec<&str> = (0..CAPABILITIES.len())
        .filter(|bit| only >> bit & 1 == 1)
        .map(|bit| CAPABILITIES[bit])
        .collect();
    match names.is_empty() {
        true => "none more".to_owned(),
        false => names.join(" "),
    }
}

/// The server's conditions, ready to be taken on by a copy.
pub(crate) struct Likeness {
    wanted: Conditions,
    /// Users and groups that it starts with: real, effective and saved.
    starts: ([u32; 3], [u32; 3]),
    /// Control groups that were made for it.
    pub group: Option<Group>,
    /// What of the control groups could not be had.
    missing: Vec<String>,
}

/// What the child needs to take them on: plain values and open files, made before the fork.
pub(crate) struct TakenOn {
    wanted: Conditions,
    starts: ([u32; 3], [u32; 3]),
    pinned: CpuSet,
    doors: Vec<File>,
}

impl Likeness {
    /// Reads the server's conditions, and makes control groups with its limits where prony is not in the same ones.
    /// `None` when the server has ended.
    pub fn of(pid: i32, journal: &Journal, marker: &str) -> Option<Self> {
        let wanted = Conditions::of(pid)?;
        let own = std::fs::read_to_string(Path::new(PROC).join("self/cgroup")).unwrap_or_default();
        let others = wanted.cgroups.iter().map(String::as_str);
        let others = others.filter(|line| own.lines().all(|ours| ours != *line));
        let (group, missing) = Group::beside(journal, marker, others);
        Some(Self {
            starts: (wanted.users, wanted.groups),
            wanted,
            group,
            missing,
        })
    }

    /// Changes what the copy is held to.
    ///
    /// # Errors
    /// [`TargetError`] where the limit is not the server's own, or cannot be had.
    pub fn relimit(&mut self, server: &Server, limits: &Relimits) -> Result<(), TargetError> {
        if let Some(nice) = limits.nice {
            self.wanted.nice = nice;
        }
        if let Some(files) = limits.open_files {
            rlimits::check("the copy", Some(files))?;
            self.wanted.rlimits = self.wanted.rlimits.with_more_open_files(files);
        }
        let grouped = [
            limits.quota_cores.map(cgroup::Raised::Quota),
            limits.cpu_weight.map(cgroup::Raised::Weight),
        ];
        for limit in grouped.into_iter().flatten() {
            let raised = match &self.group {
                Some(group) => group.raise(limit),
                None => Err("prony is in the same control group as it".to_owned()),
            };
            raised.map_err(|cause| {
                let remedy = "change the limit where it is set, with prony outside of that group";
                config::refused(server, &cause, remedy)
            })?;
        }
        Ok(())
    }

    /// A process that goes about as another user, and may become the one that started it again, is started by that
    /// one: varnishd of root works as `varnish`, and its child as `vcache`.
    pub fn started_by_its_real_user(&mut self) {
        self.starts = ([self.wanted.users[0]; 3], [self.wanted.groups[0]; 3]);
    }

    /// User and group of the server's main process.
    pub fn owner(&self) -> (u32, u32) {
        (self.wanted.users[1], self.wanted.groups[1])
    }

    /// For the child.
    pub fn to_take_on(&self) -> TakenOn {
        TakenOn {
            wanted: self.wanted.clone(),
            starts: self.starts,
            pinned: CpuSet::new(&self.wanted.cpus),
            doors: self.group.as_ref().map_or_else(Vec::new, Group::open_doors),
        }
    }

    /// What the copy does not have of it.
    pub fn missing_in(&self, copy: i32) -> Vec<String> {
        let mut missing = self.missing.clone();
        let Some(got) = Conditions::of(copy) else {
            return missing;
        };
        missing.extend(self.wanted.missing_in(&got));
        if let Some(group) = &self.group {
            missing.extend(group.not_joined(&got.cgroups));
        }
        missing
    }
}

impl TakenOn {
    /// Only system calls, no allocation: it runs between fork and exec. Whatever takes a capability comes before the
    /// user is changed.
    pub fn take_on(&self) {
        for door in &self.doors {
            // "0" is the process that writes (cgroups(7)).
            let _ = rustix::io::write(door, b"0");
        }
        let wanted = &self.wanted;
        wanted.rlimits.approach();
        // SAFETY: a system call on integers; 0 is this process.
        unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, wanted.nice) };
        let _ = self.pinned.pin_this_thread();
        for bit in (0..64).filter(|bit| wanted.bounding >> bit & 1 == 0) {
            // SAFETY: a system call on integers; a bit that the kernel does not know is refused.
            unsafe { libc::prctl(libc::PR_CAPBSET_DROP, bit) };
        }
        self.become_user();
        self.keep_capabilities();
    }

    fn become_user(&self) {
        let ([real_user, user, saved_user], [real_group, group, saved_group]) = self.starts;
        let groups = &self.wanted.supplementary;
        // SAFETY: system calls on integers, and one that reads as many groups as are given. Permitted capabilities are
        // kept until exec, so that ambient ones can be set.
        unsafe {
            libc::prctl(libc::PR_SET_KEEPCAPS, 1);
            libc::setgroups(groups.len(), groups.as_ptr());
            libc::setresgid(real_group, group, saved_group);
            libc::setresuid(real_user, user, saved_user);
        }
    }

    /// Inheritable and ambient ones: exec makes the others of these, the user and the bounding set (capabilities(7)).
    fn keep_capabilities(&self) {
        const VERSION_3: u32 = 0x2008_0522;
        let mut header: [u32; 2] = [VERSION_3, 0];
        // Effective, permitted and inheritable: the lower halves, then the upper ones.
        let mut sets = [0u32; 6];
        // SAFETY: the kernel reads the header and fills in as many words as this version has.
        let got =
            unsafe { libc::syscall(libc::SYS_capget, header.as_mut_ptr(), sets.as_mut_ptr()) };
        if got != 0 {
            return;
        }
        for half in 0..2 {
            sets[3 * half] = sets[3 * half + 1];
            sets[3 * half + 2] = (self.wanted.inheritable >> (32 * half)) as u32;
        }
        // SAFETY: the kernel reads the header and the words; both live through the call.
        unsafe { libc::syscall(libc::SYS_capset, header.as_ptr(), sets.as_ptr()) };
        for bit in (0..64).filter(|bit| self.wanted.ambient >> bit & 1 == 1) {
            let raise = libc::PR_CAP_AMBIENT_RAISE;
            // SAFETY: a system call on integers.
            unsafe { libc::prctl(libc::PR_CAP_AMBIENT, raise, bit as libc::c_ulong, 0, 0) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_copy_lacks_is_said_in_words() {
        let pid = i32::try_from(std::process::id()).unwrap();
        let got = Conditions::of(pid).unwrap();
        assert_eq!(got.missing_in(&got), [""; 0]);
        let mut wanted = got.clone();
        wanted.users = [7, 7, 7];
        wanted.supplementary = vec![4, 24];
        wanted.nice = -5;
        wanted.bounding = got.bounding | 1 << 24;
        wanted.rlimits = got.rlimits.with_open_files(Some(77));
        let missing = wanted.missing_in(&got);
        for (said, start) in missing.iter().zip([
            "user 7 (it has ",
            "supplementary groups 4 24 (it has ",
            "nice value -5 (it has ",
        ]) {
            assert!(said.starts_with(start), "{said}");
        }
        assert!(
            missing
                .last()
                .unwrap()
                .starts_with("limit of open files 77")
        );
        let named = capabilities(1 << 24 | 1 << 10, 1 << 10);
        assert_eq!(named, "SYS_RESOURCE");
        assert_eq!(Conditions::of(i32::MAX), None);
    }
}
