//! Which process belongs to which target, what its threads are called, and what code it has mapped.
//!
//! In the flow: looked up before the profile begins, carried on by the kernel's records of starts, names and
//! mappings, and looked up once more at its end. The surprise: a process that lived only in between is known as
//! well as the others.

use super::maps::{self, Files, Mapping};
use super::wire::Record;
use crate::MonitorError;
use crate::probe::ProbeTarget;
use crate::tree::Tree;
use linux::Root;
use std::collections::{BTreeMap, HashMap, HashSet};

/// Processes and threads of the targets.
#[derive(Debug, Default)]
pub struct Owners {
    /// Index of its target, by process.
    target: HashMap<i32, usize>,
    names: HashMap<i32, String>,
    maps: HashMap<i32, Vec<Mapping>>,
    /// Processes that ran at the beginning and belong to nobody.
    foreign: HashSet<i32>,
    /// Time of their end, ns, by thread.
    ended: HashMap<i32, u64>,
}

impl Owners {
    /// Finds the targets' processes, their threads' names and mappings, and opens the files of these.
    ///
    /// # Errors
    /// [`linux::Error::Read`] when `/proc` cannot be listed.
    pub fn find(targets: &[ProbeTarget], files: &mut Files) -> Result<Self, MonitorError> {
        let mut tree = Tree::default();
        tree.refresh(&Root::default())?;
        // The targets may be prony's children; its other children are nobody's.
        let mut watched = BTreeMap::from([(std::process::id() as i32, None)]);
        for (index, target) in targets.iter().enumerate() {
            watched.extend(target.pids.iter().map(|&pid| (pid, Some(index))));
        }
        let mut owners = Self {
            target: tree.owned(&watched).into_iter().collect(),
            ..Self::default()
        };
        owners.foreign = Root::default().list_ids("proc")?.into_iter().collect();
        // A process that began since the tree was read is new, not foreign.
        owners
            .foreign
            .retain(|pid| tree.holds(*pid) && !owners.target.contains_key(pid));
        for pid in owners.pids() {
            for tid in threads(pid) {
                owners.look_up_name(pid, tid);
            }
            let mappings = maps::of_process(pid);
            files.open(pid, &mappings);
            owners.maps.insert(pid, mappings);
        }
        Ok(owners)
    }

    /// Processes, in no order.
    pub fn pids(&self) -> Vec<i32> {
        self.target.keys().copied().collect()
    }

    /// Processes that are nobody's.
    pub fn foreign(&self) -> &HashSet<i32> {
        &self.foreign
    }

    /// Takes in what the kernel recorded meanwhile, and looks at what is still there.
    pub fn catch_up(&mut self, tasks: Vec<Record<'_>>, sampled: &HashSet<(i32, i32)>) {
        let forks: Vec<(i32, i32)> = tasks.iter().filter_map(new_process).collect();
        self.adopt(&forks);
        for task in tasks {
            self.follow(task);
        }
        let mut looked_at = HashSet::new();
        for &(pid, tid) in sampled {
            if self.target.contains_key(&pid) {
                self.look_up_name(pid, tid);
                if looked_at.insert(pid) {
                    maps::add(self.maps.entry(pid).or_default(), maps::of_process(pid));
                }
            }
        }
    }

    /// Children belong to the target of their parent. The rings are read one after another, so that a grandchild may
    /// come before its parent: it is looked for until nothing is found any more.
    fn adopt(&mut self, forks: &[(i32, i32)]) {
        loop {
            let before = self.target.len();
            for (pid, parent) in forks {
                if let Some(&target) = self.target.get(parent) {
                    self.target.entry(*pid).or_insert(target);
                    let inherited = self.maps.get(parent).cloned().unwrap_or_default();
                    self.maps.entry(*pid).or_insert(inherited);
                }
            }
            if self.target.len() == before {
                return;
            }
        }
    }

    fn follow(&mut self, task: Record<'_>) {
        match task {
            Record::Fork {
                tid, parent_tid, ..
            } => {
                if let Some(name) = self.names.get(&parent_tid).cloned() {
                    self.names.entry(tid).or_insert(name);
                }
            }
            Record::Exit { tid, time, .. } => {
                self.ended.insert(tid, time);
            }
            Record::Comm {
                pid,
                tid,
                exec,
                name,
            } => {
                self.names.insert(tid, name);
                if exec {
                    self.maps.remove(&pid);
                }
            }
            Record::Map { pid, mapping } => {
                maps::add(self.maps.entry(pid).or_default(), vec![mapping]);
            }
            Record::Sample(_) | Record::Switch(_) | Record::Lost(_) => {}
        }
    }

    fn look_up_name(&mut self, pid: i32, tid: i32) {
        if let Ok(name) = std::fs::read(format!("/proc/{pid}/task/{tid}/comm")) {
            let name = String::from_utf8_lossy(name.trim_ascii_end()).into_owned();
            self.names.insert(tid, name);
        }
    }

    /// Index of the target that a process belongs to.
    pub fn target(&self, pid: i32) -> Option<usize> {
        self.target.get(&pid).copied()
    }

    /// Name of a thread; empty when it ended before it could be read.
    pub fn name(&self, tid: i32) -> &str {
        self.names.get(&tid).map_or("", String::as_str)
    }

    /// Code of a process.
    pub fn maps(&self, pid: i32) -> &[Mapping] {
        self.maps.get(&pid).map_or(&[], Vec::as_slice)
    }

    /// When a thread ended, ns.
    pub fn ended(&self, tid: i32) -> Option<u64> {
        self.ended.get(&tid).copied()
    }
}

fn new_process(task: &Record<'_>) -> Option<(i32, i32)> {
    match task {
        Record::Fork { pid, parent, .. } if pid != parent => Some((*pid, *parent)),
        _ => None,
    }
}

/// Threads of a process; empty when it has ended.
pub fn threads(pid: i32) -> Vec<i32> {
    let listed = Root::default().list_ids(&format!("proc/{pid}/task"));
    listed.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fork(pid: i32, parent: i32) -> Record<'static> {
        Record::Fork {
            pid,
            parent,
            tid: pid,
            parent_tid: parent,
        }
    }

    #[test]
    fn descendants_are_found_in_whatever_order_they_are_read() {
        let mut owners = Owners {
            target: HashMap::from([(10, 3)]),
            names: HashMap::from([(10, "main".to_owned())]),
            ..Default::default()
        };
        let tasks = vec![fork(-12, -11), fork(-11, 10), fork(-21, -20)];
        owners.catch_up(tasks, &HashSet::new());
        let targets = [-11, -12, -21].map(|pid| owners.target(pid));
        assert_eq!(targets, [Some(3), Some(3), None]);
        assert_eq!(owners.name(-11), "main");
    }

    #[test]
    fn another_program_drops_the_mappings() {
        let map = |start| Mapping {
            start,
            end: start + 1,
            ..Default::default()
        };
        let mut owners = Owners {
            maps: HashMap::from([(-5, vec![map(1)])]),
            ..Default::default()
        };
        owners.follow(Record::Comm {
            pid: -5,
            tid: -5,
            exec: true,
            name: "other".to_owned(),
        });
        owners.follow(Record::Map {
            pid: -5,
            mapping: map(7),
        });
        assert_eq!(owners.maps(-5), [map(7)]);
        assert_eq!(owners.name(-5), "other");
    }
}
