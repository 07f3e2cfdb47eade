//! The tier that needs no rights: page faults and CPU time of the targets, from `/proc/PID/stat`.
//!
//! The better tiers use it too, because these totals are kept by the kernel anyway.
//!
//! The surprise: a process that ends takes its counters with it, into its parent's sums of children. So the
//! sums of children are counted as well: what a child leaves there cancels out against what it had before.

use super::{ProbeConfig, ProbeTarget, Probed};
use crate::MonitorError;
use crate::tree::{self, Tree};
use linux::Root;
use linux::clock::monotonic_ns;
use linux::procfs::Stat;
use record::{TargetSignature, Tier, Unavailable};
use std::collections::BTreeMap;

/// Inode of the first pid namespace's link (PROC_PID_INIT_INO in include/linux/proc_ns.h).
const FIRST_PID_NAMESPACE: &str = "pid:[4026531836]";

/// Whether the ids that prony sees are not those that the kernel itself uses.
pub(crate) fn in_own_pid_namespace() -> bool {
    let namespace = std::fs::read_link("/proc/self/ns/pid");
    namespace.is_ok_and(|link| link.as_os_str() != FIRST_PID_NAMESPACE)
}

/// Each process of the targets with its target's index: the named ones and their descendants.
///
/// # Errors
/// [`linux::Error::Read`] when `/proc` cannot be listed.
pub(crate) fn members(
    root: &Root,
    targets: &[ProbeTarget],
) -> Result<BTreeMap<i32, usize>, MonitorError> {
    let mut tree = Tree::default();
    tree.refresh(root)?;
    let watched = tree::watched(targets.iter().map(|target| target.pids.as_slice()));
    Ok(tree.owned(&watched).into_iter().collect())
}

/// Names of the processes that were asked for and do not exist.
pub(crate) fn missing(root: &Root, targets: &[ProbeTarget]) -> Vec<Unavailable> {
    let gone = |target: &ProbeTarget, pid: i32| Unavailable {
        what: format!("process {pid} of {}", target.target),
        reason: "there is no such process".to_owned(),
        remedy: "name a process that runs; ids are those of prony's own pid namespace".to_owned(),
    };
    let asked = targets
        .iter()
        .flat_map(|t| t.pids.iter().map(move |&pid| (t, pid)));
    asked
        .filter(|&(_, pid)| !root.path(&format!("proc/{pid}/stat")).exists())
        .map(|(target, pid)| gone(target, pid))
        .collect()
}

/// Minor faults, major faults, ticks in user mode, ticks in the kernel: of the process and of those of its
/// children that have ended.
type Counters = [u64; 4];

/// What `/proc` said of every member at one time.
#[derive(Debug, Default)]
pub(crate) struct Reading {
    members: BTreeMap<i32, (usize, i32, Counters)>,
}

impl Reading {
    /// Reads every member; one that ends meanwhile is left out.
    pub(crate) fn take(root: &Root, members: &BTreeMap<i32, usize>) -> Self {
        let read = |(&pid, &target): (&i32, &usize)| {
            let text = root.read(&format!("proc/{pid}/stat")).ok()?;
            let stat = Stat::parse(&text)?;
            Some((pid, (target, stat.parent, counters(&stat))))
        };
        Self {
            members: members.iter().filter_map(read).collect(),
        }
    }

    /// Growth from `before` to this reading, for one target; `None` when none of its processes was read.
    fn growth(&self, before: &Reading, target: usize) -> Option<Counters> {
        let mut total = [0_u64; 4];
        let mut seen = false;
        for (_, _, counters) in self.members.values().filter(|m| m.0 == target) {
            seen = true;
            for (sum, value) in total.iter_mut().zip(counters) {
                *sum += value;
            }
        }
        for (pid, (_, parent, counters)) in before.members.iter().filter(|(_, m)| m.0 == target) {
            // What has ended under a parent outside of the target is in no sum of the target.
            if self.members.contains_key(pid) || self.members.contains_key(parent) {
                for (sum, value) in total.iter_mut().zip(counters) {
                    *sum = sum.saturating_sub(*value);
                }
            }
        }
        seen.then_some(total)
    }
}

/// Of a process with its children.
fn counters(stat: &Stat) -> Counters {
    [
        stat.minor_faults + stat.children_minor_faults,
        stat.major_faults + stat.children_major_faults,
        stat.user_ticks + stat.children_user_ticks,
        stat.system_ticks + stat.children_system_ticks,
    ]
}

/// Fills in what `/proc` counts; returns the targets of which nothing is left to read.
pub(crate) fn fill(
    signatures: &mut [TargetSignature],
    before: &Reading,
    after: &Reading,
) -> Vec<Unavailable> {
    let mut unavailable = Vec::new();
    let tick_ns = 1_000_000_000 / rustix::param::clock_ticks_per_second().max(1);
    for (index, signature) in signatures.iter_mut().enumerate() {
        if let Some([minor, major, user, system]) = after.growth(before, index) {
            signature.minor_faults = Some(minor);
            signature.major_faults = Some(major);
            signature.cpu_user_ns = Some(user * tick_ns);
            signature.cpu_system_ns = Some(system * tick_ns);
        } else {
            unavailable.push(Unavailable {
                what: format!("page faults and CPU time of {}", signature.target),
                reason: "none of its processes is there any more".to_owned(),
                remedy: String::new(),
            });
        }
    }
    unavailable
}

/// Only `/proc`.
#[derive(Debug)]
pub(crate) struct ProcProbes {
    config: ProbeConfig,
    before: Reading,
    unavailable: Vec<Unavailable>,
    armed_ns: u64,
}

impl ProcProbes {
    /// Reads the counters for the first time.
    pub(crate) fn arm(config: &ProbeConfig) -> Self {
        let mut unavailable = missing(&config.root, &config.targets);
        let members = members(&config.root, &config.targets);
        let members = members.unwrap_or_else(|error| {
            unavailable.push(Unavailable {
                what: "page faults and CPU time".to_owned(),
                reason: error.to_string(),
                remedy: error.remedy().to_owned(),
            });
            BTreeMap::new()
        });
        Self {
            config: config.clone(),
            before: Reading::take(&config.root, &members),
            unavailable,
            armed_ns: monotonic_ns(),
        }
    }

    /// Reads them again.
    pub(crate) fn disarm(self) -> Probed {
        let window_ns = monotonic_ns().saturating_sub(self.armed_ns);
        let targets = &self.config.targets;
        let members = members(&self.config.root, targets).unwrap_or_default();
        let after = Reading::take(&self.config.root, &members);
        let mut signatures: Vec<TargetSignature> = targets.iter().map(empty).collect();
        let mut unavailable = self.unavailable;
        unavailable.append(&mut fill(&mut signatures, &self.before, &after));
        unavailable.push(Unavailable {
            what: "system calls, files, waits, sockets, upstreams, heads, allocator".to_owned(),
            reason: "the processes' own files in /proc do not count them".to_owned(),
            remedy: "run prony as root on a kernel with BPF and BTF".to_owned(),
        });
        Probed {
            tier: Tier::Proc,
            targets: signatures,
            unavailable,
            lost: 0,
            window_ns,
            cost: Vec::new(),
        }
    }
}

/// A signature of which nothing is known.
pub(crate) fn empty(target: &ProbeTarget) -> TargetSignature {
    TargetSignature {
        target: target.target.clone(),
        ..TargetSignature::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stat(parent: i32, own: [u64; 4], children: [u64; 4]) -> String {
        format!(
            "1 (a) b) S {parent} 1 1 0 -1 0 {} {} {} {} {} {} {} {} 20 0 1 0 5 6 7",
            own[0], children[0], own[1], children[1], own[2], own[3], children[2], children[3]
        )
    }

    #[test]
    fn what_a_child_did_is_not_lost_when_it_ends() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::new(dir.path());
        let put = |pid: i32, text: &str| {
            std::fs::create_dir_all(root.path(&format!("proc/{pid}"))).unwrap();
            std::fs::write(root.path(&format!("proc/{pid}/stat")), text).unwrap();
        };
        put(10, &stat(1, [5, 0, 7, 1], [0; 4]));
        put(11, &stat(10, [100, 2, 50, 20], [0; 4]));
        let targets = [ProbeTarget {
            target: "server".to_owned(),
            pids: vec![10],
            listens: Vec::new(),
            ..ProbeTarget::default()
        }];
        let before = Reading::take(&root, &members(&root, &targets).unwrap());
        // The child takes 3 more faults and 8 more ticks, ends, and its parent sums it up.
        std::fs::remove_dir_all(root.path("proc/11")).unwrap();
        put(10, &stat(1, [6, 0, 7, 1], [103, 2, 58, 20]));
        let after = Reading::take(&root, &members(&root, &targets).unwrap());
        let mut signatures = vec![empty(&targets[0])];
        assert!(fill(&mut signatures, &before, &after).is_empty());
        assert_eq!(signatures[0].minor_faults, Some(4));
        assert_eq!(signatures[0].major_faults, Some(0));
        let tick_ns = 1_000_000_000 / rustix::param::clock_ticks_per_second();
        assert_eq!(signatures[0].cpu_user_ns, Some(8 * tick_ns));
    }

    #[test]
    fn a_process_that_does_not_exist_is_named() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("proc")).unwrap();
        let config = ProbeConfig {
            targets: vec![ProbeTarget {
                target: "server".to_owned(),
                pids: vec![77],
                listens: Vec::new(),
                ..ProbeTarget::default()
            }],
            best_tier: Tier::Proc,
            allocator: false,
            root: Root::new(dir.path()),
        };
        let probed = ProcProbes::arm(&config).disarm();
        assert_eq!(probed.targets[0].minor_faults, None);
        assert!(probed.unavailable[0].what.contains("process 77 of server"));
    }
}
