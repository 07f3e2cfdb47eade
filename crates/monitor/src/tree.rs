//! Which process belongs to which target: the targets' own processes and all their descendants.
//!
//! The surprise: prony itself starts the targets, so they are descendants of the generator. A process
//! belongs to the *nearest* ancestor that is watched, and the generator's descendants to nobody.
//! `/proc/PID/task/TID/children` needs a kernel option (CONFIG_PROC_CHILDREN) that many kernels lack, so the
//! parents are read from `stat`, once for each process that appears.

use crate::MonitorError;
use crate::watch::Watched;
use linux::Root;
use linux::procfs::Stat;
use record::Nanos;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

/// What [`Tree::owned`] takes for targets that are given by their processes: each owned by its target's index, and
/// this process by none. Targets that prony started are its descendants, but prony is not their child.
pub(crate) fn watched<'a>(
    targets: impl Iterator<Item = &'a [i32]>,
) -> BTreeMap<i32, Option<usize>> {
    let each = |(index, pids): (usize, &'a [i32])| pids.iter().map(move |&pid| (pid, Some(index)));
    let mut watched: BTreeMap<i32, Option<usize>> = targets.enumerate().flat_map(each).collect();
    let own = i32::try_from(std::process::id()).unwrap_or(0);
    watched.entry(own).or_insert(None);
    watched
}

/// The parent of each process on the host.
#[derive(Debug, Default)]
pub struct Tree {
    parents: BTreeMap<i32, i32>,
}

impl Tree {
    /// Takes note of processes that appeared and that ended. A process that ends while it is looked at
    /// is left out.
    ///
    /// # Errors
    /// [`linux::Error::Read`] when `/proc` cannot be listed.
    pub fn refresh(&mut self, root: &Root) -> Result<(), MonitorError> {
        let pids = root.list_ids("proc")?;
        self.parents
            .retain(|pid, _| pids.binary_search(pid).is_ok());
        for pid in pids {
            if self.parents.contains_key(&pid) {
                continue;
            }
            let stat = root.read(&format!("proc/{pid}/stat")).ok();
            if let Some(stat) = stat.as_deref().and_then(Stat::parse) {
                self.parents.insert(pid, stat.parent);
            }
        }
        Ok(())
    }

    /// Whether the process existed at the last [`Tree::refresh`].
    pub fn holds(&self, pid: i32) -> bool {
        self.parents.contains_key(&pid)
    }

    /// Pairs of each process that has an owner and that owner, by rising id. `watched` has the owner of
    /// each process that is watched by its id: `Some` owns its descendants too, `None` owns nothing.
    pub fn owned<T: Copy>(&self, watched: &BTreeMap<i32, Option<T>>) -> Vec<(i32, T)> {
        let owned = |&pid: &i32| Some((pid, self.owner(pid, watched)?));
        self.parents.keys().filter_map(owned).collect()
    }

    fn owner<T: Copy>(&self, pid: i32, watched: &BTreeMap<i32, Option<T>>) -> Option<T> {
        let mut ancestor = pid;
        // Bounded by the number of processes: a snapshot taken while ids are reused could hold a cycle.
        for _ in 0..self.parents.len() {
            if let Some(owner) = watched.get(&ancestor) {
                return *owner;
            }
            ancestor = *self.parents.get(&ancestor)?;
        }
        None
    }
}

/// The targets' processes, looked up once for all sources that need them.
#[derive(Clone, Debug)]
pub struct Members(Arc<Mutex<Looked>>);

#[derive(Debug)]
struct Looked {
    root: Root,
    targets: Vec<String>,
    given: BTreeMap<i32, Option<usize>>,
    tree: Tree,
    at: Option<Nanos>,
}

impl Members {
    /// The members of `targets`; nothing is looked up yet.
    pub fn new(root: &Root, targets: &[Watched], generator: Option<i32>) -> Self {
        let mut given = BTreeMap::new();
        given.extend(generator.map(|pid| (pid, None)));
        for (i, target) in targets.iter().enumerate() {
            given.extend(target.pids.iter().map(|&pid| (pid, Some(i))));
        }
        Self(Arc::new(Mutex::new(Looked {
            root: root.clone(),
            targets: targets.iter().map(|t| t.target.clone()).collect(),
            given,
            tree: Tree::default(),
            at: None,
        })))
    }

    /// Names of the targets, in the order of their indices.
    pub fn targets(&self) -> Vec<String> {
        self.with(|looked| looked.targets.clone())
    }

    /// Process ids, rising, each with the index of its target; not older than `max_age`.
    ///
    /// # Errors
    /// [`linux::Error::Read`] when `/proc` cannot be listed.
    pub fn at(&self, now: Nanos, max_age: Nanos) -> Result<Vec<(i32, usize)>, MonitorError> {
        self.with(|looked| {
            if looked.at.is_none_or(|at| now.since(at) >= max_age) {
                looked.tree.refresh(&looked.root)?;
                looked.at = Some(now);
            }
            Ok(looked.tree.owned(&looked.given))
        })
    }

    /// Leaves the processes that existed at the last look; all of them before the first one.
    pub fn retain(&self, pids: &mut BTreeSet<i32>) {
        self.with(|looked| {
            if looked.at.is_some() {
                pids.retain(|pid| looked.tree.holds(*pid));
            }
        });
    }

    /// A panic of another source leaves a whole tree behind, perhaps with processes missing.
    fn with<T>(&self, f: impl FnOnce(&mut Looked) -> T) -> T {
        f(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(parents: &[(i32, i32)]) -> Tree {
        Tree {
            parents: parents.iter().copied().collect(),
        }
    }

    #[test]
    fn the_nearest_watched_ancestor_owns() {
        // 1 init, 10 prony, 20 proxy (master) with workers 21 22, 30 backend with 31, 40 a child of prony.
        let tree = tree(&[
            (1, 0),
            (10, 1),
            (20, 10),
            (21, 20),
            (22, 20),
            (30, 10),
            (31, 30),
            (40, 10),
        ]);
        let watched = BTreeMap::from([(10, None), (20, Some("proxy")), (30, Some("backend"))]);
        let owned = [
            (20, "proxy"),
            (21, "proxy"),
            (22, "proxy"),
            (30, "backend"),
            (31, "backend"),
        ];
        assert_eq!(tree.owned(&watched), owned);
    }

    #[test]
    fn a_cycle_ends() {
        let watched = BTreeMap::from([(9, Some(()))]);
        assert_eq!(tree(&[(2, 3), (3, 2)]).owned(&watched), []);
    }

    #[test]
    fn processes_that_ended_are_forgotten() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::new(dir.path());
        let mut tree = Tree::default();
        for (pid, parent) in [(5, 1), (6, 5)] {
            let stat = format!("{pid} (x) S {parent} {}", "0 ".repeat(25));
            std::fs::create_dir_all(root.path(&format!("proc/{pid}"))).unwrap();
            std::fs::write(root.path(&format!("proc/{pid}/stat")), stat).unwrap();
        }
        tree.refresh(&root).unwrap();
        assert_eq!(tree.parents, BTreeMap::from([(5, 1), (6, 5)]));
        std::fs::remove_dir_all(root.path("proc/6")).unwrap();
        tree.refresh(&root).unwrap();
        assert_eq!(tree.parents, BTreeMap::from([(5, 1)]));
    }
}
