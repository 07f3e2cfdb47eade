//! From what a profile names to the places on this host: patterns, devices with hardware, their interrupts.

use super::host::Place;
use plan::tuning::Knob;
use std::path::{Path, PathBuf};

/// The places that `knob` means under `root`, with the name that people know; or why there is none.
pub(super) fn places(root: &Path, knob: &Knob) -> Result<Vec<(String, Place)>, String> {
    match knob {
        Knob::Sysctl(name) => {
            let path = root.join("proc/sys").join(name.replace('.', "/"));
            Ok(vec![(name.clone(), Place::File { path })])
        }
        Knob::File(pattern) => {
            let relative = pattern.trim_start_matches('/');
            let found = matching(root, relative);
            if found.is_empty() && pattern.contains('*') {
                return Err(format!("nothing here matches {pattern}"));
            }
            let name = |path: &Path| {
                let inside = path.strip_prefix(root).unwrap_or(path);
                Path::new("/").join(inside).display().to_string()
            };
            let found = if found.is_empty() {
                vec![root.join(relative)]
            } else {
                found
            };
            Ok(found
                .into_iter()
                .map(|path| (name(&path), Place::File { path }))
                .collect())
        }
        Knob::Nic { device, figure } => Ok(devices(root, device.as_ref())?
            .into_iter()
            .map(|device| {
                let name = format!("nic {device} {figure}");
                let figure = figure.clone();
                (name, Place::Nic { device, figure })
            })
            .collect()),
        Knob::Irq { device } => {
            let devices = devices(root, device.as_ref())?;
            let found: Vec<_> = devices
                .iter()
                .flat_map(|device| {
                    interrupts(root, device)
                        .into_iter()
                        .map(move |irq| (device, irq))
                })
                .map(|(device, irq)| {
                    let path = root.join(format!("proc/irq/{irq}/smp_affinity_list"));
                    (format!("nic {device} irq {irq}"), Place::File { path })
                })
                .collect();
            if found.is_empty() {
                return Err(format!("no interrupt of {} is listed", devices.join(", ")));
            }
            Ok(found)
        }
    }
}

/// The device that was named, or all with hardware behind them: virtual ones have no `device`.
fn devices(root: &Path, named: Option<&String>) -> Result<Vec<String>, String> {
    if let Some(device) = named {
        return Ok(vec![device.clone()]);
    }
    let found: Vec<String> = names(&root.join("sys/class/net"))
        .into_iter()
        .filter(|name| {
            root.join("sys/class/net")
                .join(name)
                .join("device")
                .exists()
        })
        .collect();
    if found.is_empty() {
        return Err("no network device here has hardware behind it".to_owned());
    }
    Ok(found)
}

/// Numbers of a device's interrupts. Those of a virtio device hang on the PCI device above it.
fn interrupts(root: &Path, device: &str) -> Vec<String> {
    let hardware = root.join("sys/class/net").join(device).join("device");
    let hardware = hardware.canonicalize().unwrap_or(hardware);
    let own = names(&hardware.join("msi_irqs"));
    if !own.is_empty() {
        return own;
    }
    hardware
        .parent()
        .map_or_else(Vec::new, |above| names(&above.join("msi_irqs")))
}

/// Paths below `root` that match, sorted. `*` stands for any text within one part.
fn matching(root: &Path, pattern: &str) -> Vec<PathBuf> {
    let mut found = vec![root.to_owned()];
    for part in pattern.split('/') {
        found = found
            .into_iter()
            .flat_map(|dir| match part.split_once('*') {
                None => vec![dir.join(part)],
                Some((start, end)) => {
                    let fits = |name: &String| {
                        name.len() >= start.len() + end.len()
                            && name.starts_with(start)
                            && name.ends_with(end)
                    };
                    let fitting = names(&dir).into_iter().filter(fits);
                    fitting.map(|name| dir.join(name)).collect()
                }
            })
            .filter(|path| path.exists())
            .collect();
    }
    found
}

/// Names in a directory, sorted; none when it cannot be read.
fn names(dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries
        .map(|e| e.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_devices_and_interrupts() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        let make = |path: &str| {
            let path = root.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "x\n").unwrap();
        };
        for cpu in ["cpu0", "cpu1"] {
            make(&format!(
                "sys/devices/system/cpu/{cpu}/cpufreq/scaling_governor"
            ));
        }
        make("sys/devices/system/cpu/cpufreq/x");
        make("sys/class/net/eth0/device/msi_irqs/31");
        make("sys/class/net/eth0/device/msi_irqs/32");
        make("sys/class/net/lo/mtu");
        let found = |knob: Knob| -> Result<Vec<String>, String> {
            Ok(places(root, &knob)?
                .into_iter()
                .map(|(name, _)| name)
                .collect())
        };
        let governor = "/sys/devices/system/cpu/cpu*/cpufreq/scaling_governor";
        assert_eq!(
            found(Knob::File(governor.into())).unwrap(),
            [
                "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor",
                "/sys/devices/system/cpu/cpu1/cpufreq/scaling_governor"
            ]
        );
        assert!(found(Knob::File("/sys/none*/x".into())).is_err());
        assert_eq!(
            found(Knob::File("/sys/none".into())).unwrap(),
            ["/sys/none"]
        );
        let figure = "ring.rx".to_owned();
        let nic = Knob::Nic {
            device: None,
            figure,
        };
        assert_eq!(found(nic).unwrap(), ["nic eth0 ring.rx"]);
        assert_eq!(
            found(Knob::Irq { device: None }).unwrap(),
            ["nic eth0 irq 31", "nic eth0 irq 32"]
        );
        let lo = Some("lo".to_owned());
        assert!(found(Knob::Irq { device: lo }).is_err());
    }
}
