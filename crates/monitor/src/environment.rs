//! The host as it is before a run: everything that can make the same load give another figure elsewhere.
//!
//! Each fact is an item with a value, or with the reason why there is none, never a default. The
//! surprise: a fact that a host does not have at all (a frequency governor in a virtual machine) is also
//! an item, because a reader of the report must be able to tell it from a fact that was not looked for.

mod ability;
pub(crate) mod cgroup;
mod cpu;
mod facts;
mod kernel;
mod look;
mod memory;
mod network;
mod nic;

pub use ability::abilities;
pub use look::look;

use facts::Facts;
use linux::Root;
use record::EnvironmentItem;

/// Describes the host under `root`. Takes some ms; not for the time while a load runs.
pub fn collect(root: &Root) -> Vec<EnvironmentItem> {
    let mut facts = Facts::new(root);
    kernel::describe(&mut facts);
    cpu::describe(&mut facts);
    memory::describe(&mut facts);
    cgroup::describe(&mut facts);
    network::describe(&mut facts);
    nic::describe(&mut facts);
    facts.into_items()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn an_empty_root_gives_reasons_and_no_values() {
        let dir = tempfile::tempdir().unwrap();
        let items = collect(&Root::new(dir.path()));
        assert!(items.len() > 40, "{}", items.len());
        for item in items {
            assert_eq!(item.value, None, "{item:?}");
            assert!(
                item.reason.is_some_and(|reason| !reason.is_empty()),
                "{}",
                item.name
            );
        }
    }

    #[test]
    fn of_the_running_host_every_item_has_a_value_or_a_reason_and_its_own_name() {
        let items = collect(&Root::default());
        let names: BTreeSet<_> = items
            .iter()
            .map(|i| (i.group.as_str(), i.name.as_str()))
            .collect();
        assert_eq!(names.len(), items.len());
        for item in &items {
            assert!(item.value.is_some() != item.reason.is_some(), "{item:?}");
            assert_ne!(item.value.as_deref(), Some(""), "{item:?}");
        }
        for (group, name) in [
            ("kernel", "release"),
            ("cpu", "count"),
            ("memory", "total_bytes"),
            ("limit", "open_files"),
            ("sysctl", "net.core.somaxconn"),
        ] {
            let item = items
                .iter()
                .find(|i| i.group == group && i.name == name)
                .unwrap();
            assert!(item.value.is_some(), "{item:?}");
        }
    }
}
