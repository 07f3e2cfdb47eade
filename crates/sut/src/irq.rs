//! Interrupts on CPUs of choice while a trial runs, journalled and put back.
//!
//! The surprise: a network card's interrupts do not carry its name on every driver (a virtio card's are its bus
//! device's), so they are found both by name and by the card's device in sysfs.

use crate::journal::{Change, ChangeId, Journal};
use plan::IrqPin;
use record::Unavailable;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Pinned interrupts. Dropping it puts them back.
#[derive(Debug)]
pub struct PinnedIrqs {
    changed: Vec<(PathBuf, String, ChangeId)>,
    journal: Journal,
    /// What could not be pinned, and why.
    pub unavailable: Vec<Unavailable>,
}

impl PinnedIrqs {
    /// Pins the interrupts; what the host does not allow is said and left.
    pub fn apply(journal: &Journal, pins: &[IrqPin]) -> Self {
        Self::apply_in(journal, pins, Path::new("/"))
    }

    fn apply_in(journal: &Journal, pins: &[IrqPin], root: &Path) -> Self {
        let mut pinned = Self {
            changed: Vec::new(),
            journal: journal.clone(),
            unavailable: Vec::new(),
        };
        for pin in pins {
            if let Err(reason) = pinned.pin(pin, root) {
                pinned.unavailable.push(Unavailable {
                    what: format!("pinning the interrupts of {}", pin.device),
                    reason,
                    remedy: "see /proc/interrupts for the names; it takes root, and hardware whose interrupts move"
                        .to_owned(),
                });
            }
        }
        pinned
    }

    fn pin(&mut self, pin: &IrqPin, root: &Path) -> Result<(), String> {
        let numbers = numbers(root, &pin.device);
        if numbers.is_empty() {
            return Err("it has no interrupt on this host".to_owned());
        }
        let cpus: Vec<String> = pin.cpus.iter().map(u32::to_string).collect();
        for number in numbers {
            let path = root.join(format!("proc/irq/{number}/smp_affinity_list"));
            self.write(&path, &cpus.join(","))?;
        }
        Ok(())
    }

    fn write(&mut self, path: &Path, cpus: &str) -> Result<(), String> {
        let failed = |e: &dyn ToString| format!("{}: {}", path.display(), e.to_string());
        let before = std::fs::read_to_string(path).map_err(|e| failed(&e))?;
        let before = before.trim().to_owned();
        let change = Change::File {
            path: path.to_owned(),
            before: before.clone(),
        };
        let id = self.journal.record(change).map_err(|e| failed(&e))?;
        match std::fs::write(path, cpus) {
            Ok(()) => {
                self.changed.push((path.to_owned(), before, id));
                Ok(())
            }
            Err(e) => {
                // Nothing was changed; not noted, the next start writes what stands there.
                let _ = self.journal.undone(id);
                Err(failed(&e))
            }
        }
    }
}

impl Drop for PinnedIrqs {
    fn drop(&mut self) {
        for (path, before, id) in self.changed.iter().rev() {
            if std::fs::write(path, before).is_ok() {
                // Not noted, the next start writes the same again.
                let _ = self.journal.undone(*id);
            }
        }
    }
}

/// Interrupts of a device, by the names in /proc/interrupts and by sysfs; or the one of this number.
fn numbers(root: &Path, device: &str) -> BTreeSet<u32> {
    if let Ok(number) = device.parse() {
        return BTreeSet::from([number]);
    }
    let table = std::fs::read_to_string(root.join("proc/interrupts")).unwrap_or_default();
    let mut numbers: BTreeSet<u32> = table
        .lines()
        .filter(|line| line.split_whitespace().skip(1).any(|w| is_of(w, device)))
        .filter_map(|line| line.split_once(':')?.0.trim().parse().ok())
        .collect();
    let card = root.join("sys/class/net").join(device).join("device");
    for dir in [card.join("msi_irqs"), card.join("../msi_irqs")] {
        let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
        numbers.extend(entries.filter_map(|e| e.file_name().to_str()?.parse::<u32>().ok()));
    }
    numbers
}

/// `eth0`, `eth0-rx-1` and `eth0:` are of `eth0`; `eth01` is not.
fn is_of(word: &str, device: &str) -> bool {
    let word = word.trim_end_matches(',');
    word.strip_prefix(device)
        .is_some_and(|rest| !rest.starts_with(|c: char| c.is_alphanumeric()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "           CPU0       CPU1\n\
        24:          5          0   PCI-MSI 1-edge      eth0-rx-0\n\
        25:          0          9   PCI-MSI 2-edge      eth0-tx-0\n\
        26:          0          0   PCI-MSI 3-edge      eth01\n\
        NMI:         0          0   Non-maskable interrupts\n";

    #[test]
    fn interrupts_are_pinned_and_put_back() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        for irq in [24, 25, 26, 31] {
            std::fs::create_dir_all(root.join(format!("proc/irq/{irq}"))).unwrap();
            std::fs::write(
                root.join(format!("proc/irq/{irq}/smp_affinity_list")),
                "0-1\n",
            )
            .unwrap();
        }
        std::fs::write(root.join("proc/interrupts"), TABLE).unwrap();
        std::fs::create_dir_all(root.join("sys/class/net/eth0/device/msi_irqs/31")).unwrap();
        let read = |irq: u32| {
            let path = root.join(format!("proc/irq/{irq}/smp_affinity_list"));
            std::fs::read_to_string(path).unwrap().trim().to_owned()
        };
        let journal = Journal::open(&root.join("state")).unwrap();
        let pin = |device: &str| IrqPin {
            device: device.to_owned(),
            cpus: vec![0],
        };
        let pinned = PinnedIrqs::apply_in(&journal, &[pin("eth0"), pin("eth9"), pin("99")], root);
        assert_eq!([24, 25, 26, 31].map(read), ["0", "0", "0-1", "0"]);
        let said: Vec<&str> = pinned.unavailable.iter().map(|u| u.what.as_str()).collect();
        assert_eq!(
            said,
            [
                "pinning the interrupts of eth9",
                "pinning the interrupts of 99"
            ]
        );
        drop(pinned);
        assert_eq!([24, 25, 26, 31].map(read), ["0-1"; 4]);
        drop(journal);
        assert_eq!(std::fs::read_dir(root.join("state")).unwrap().count(), 0);
    }
}
