//! What the driver of each network device with hardware says: rings, coalescing, channels, offloads, interrupts.
//!
//! The surprise: the figures come from the kernel that runs, through a socket; of another root only what lies in
//! its files is known, and the rest says so.

use super::facts::Facts;
use linux::Root;

const DEVICES: &str = "sys/class/net";

/// Offloads whose loss costs a server CPU, by the kernel's names.
const FEATURES: [&str; 4] = [
    "feature.tx-tcp-segmentation",
    "feature.rx-gro",
    "feature.tx-scatter-gather",
    "feature.rx-checksum",
];

/// Adds the facts.
pub fn describe(facts: &mut Facts) {
    let root = facts.root().clone();
    let devices: Result<Vec<String>, String> = root.list(DEVICES).map_err(|e| e.to_string());
    let has_hardware = |d: &String| root.path(&format!("{DEVICES}/{d}/device")).exists();
    let devices = devices.map(|all| all.into_iter().filter(has_hardware).collect::<Vec<_>>());
    match devices {
        Err(reason) => facts.add("nic", "device", Err(reason)),
        Ok(devices) if devices.is_empty() => {
            let why = "no network device here has hardware behind it".to_owned();
            facts.add("nic", "device", Err(why));
        }
        Ok(devices) => devices.iter().for_each(|d| device(facts, &root, d)),
    }
}

fn device(facts: &mut Facts, root: &Root, device: &str) {
    let directory = format!("{DEVICES}/{device}");
    for (name, file) in [
        ("speed_mbps", "speed"),
        ("numa_node", "device/numa_node"),
        ("rx_missed", "statistics/rx_missed_errors"),
        ("rx_dropped", "statistics/rx_dropped"),
    ] {
        let value = facts.read(&format!("{directory}/{file}"), "number", |text| {
            let text = text.trim();
            text.parse::<i64>().ok().map(|_| text.to_owned())
        });
        // -1 is the kernel's word for what a device does not know.
        let value = match value {
            Ok(text) if text == "-1" => Err("the device does not know it".to_owned()),
            other => other,
        };
        facts.add("nic", &format!("{device}.{name}"), value);
    }
    let interrupts = interrupts(root, device);
    let count = interrupts.as_ref().map(|all| all.len().to_string());
    facts.add(
        "nic",
        &format!("{device}.irqs"),
        count.map_err(Clone::clone),
    );
    let cpus = interrupts.and_then(|all| irq_cpus(root, &all));
    facts.add("nic", &format!("{device}.irq_cpus"), cpus);
    facts.add(
        "nic",
        &format!("{device}.rps_queues"),
        rps_queues(root, &directory),
    );
    if !root.is_live() {
        let why = "only the running kernel can be asked".to_owned();
        facts.add("nic", &format!("{device}.ring.rx"), Err(why));
        return;
    }
    let asked = linux::ethtool::Device::open(device);
    match asked {
        Err(error) => facts.add("nic", &format!("{device}.ring.rx"), Err(error.to_string())),
        Ok(asked) => {
            for (name, value) in asked.figures() {
                facts.add("nic", &format!("{device}.{name}"), value);
            }
            for name in FEATURES {
                let value = asked.get(name).map_err(|e| e.to_string());
                facts.add("nic", &format!("{device}.{name}"), value);
            }
        }
    }
}

/// The device's interrupts. Those of a virtio device hang on the PCI device above it.
fn interrupts(root: &Root, device: &str) -> Result<Vec<String>, String> {
    let hardware = root.path(&format!("{DEVICES}/{device}/device"));
    let hardware = hardware.canonicalize().unwrap_or(hardware);
    let names = |dir: std::path::PathBuf| -> Option<Vec<String>> {
        let entries = std::fs::read_dir(dir).ok()?.flatten();
        let names = entries.map(|e| e.file_name().to_string_lossy().into_owned());
        Some(names.collect())
    };
    let found = names(hardware.join("msi_irqs"))
        .or_else(|| names(hardware.parent()?.join("msi_irqs")))
        .ok_or_else(|| {
            format!("no interrupts of {device} are listed in /{DEVICES}/{device}/device")
        })?;
    Ok(found)
}

/// The CPUs that take these interrupts now, without repetition.
fn irq_cpus(root: &Root, interrupts: &[String]) -> Result<String, String> {
    let mut cpus: Vec<u32> = Vec::new();
    for irq in interrupts {
        let file = format!("proc/irq/{irq}/effective_affinity_list");
        let text = root.read(&file).map_err(|e| e.to_string())?;
        cpus.extend(super::cpu::cpu_list(&text).unwrap_or_default());
    }
    cpus.sort_unstable();
    cpus.dedup();
    let words: Vec<String> = cpus.iter().map(u32::to_string).collect();
    match words.as_slice() {
        [] => Err("the kernel does not say which CPUs take them".to_owned()),
        words => Ok(words.join(",")),
    }
}

/// Receive queues whose packets are spread by software (`rps_cpus` is not zero), of all.
fn rps_queues(root: &Root, directory: &str) -> Result<String, String> {
    let queues = root
        .list(&format!("{directory}/queues"))
        .map_err(|e| e.to_string())?;
    let rx: Vec<&String> = queues.iter().filter(|q| q.starts_with("rx-")).collect();
    let mut with_rps = 0;
    for queue in &rx {
        let file = format!("{directory}/queues/{queue}/rps_cpus");
        let text = root.read(&file).map_err(|e| e.to_string())?;
        with_rps += usize::from(text.contains(|c: char| c.is_ascii_hexdigit() && c != '0'));
    }
    Ok(format!("{with_rps} of {}", rx.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_in_files_is_read_and_the_rest_has_a_reason() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::new(dir.path());
        let write = |path: &str, text: &str| {
            let path = root.path(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        let eth = "sys/class/net/eth0";
        write(&format!("{eth}/speed"), "-1\n");
        write(&format!("{eth}/statistics/rx_missed_errors"), "5\n");
        write(&format!("{eth}/device/msi_irqs/31"), "msi\n");
        write(&format!("{eth}/device/msi_irqs/32"), "msi\n");
        write("proc/irq/31/effective_affinity_list", "2\n");
        write("proc/irq/32/effective_affinity_list", "0-2\n");
        write(&format!("{eth}/queues/rx-0/rps_cpus"), "0000,00000000\n");
        write(&format!("{eth}/queues/rx-1/rps_cpus"), "0f\n");
        write("sys/class/net/lo/mtu", "65536\n");
        let mut facts = Facts::new(&root);
        describe(&mut facts);
        let items = facts.into_items();
        let value = |name: &str| items.iter().find(|i| i.name == name).unwrap().value.clone();
        assert_eq!(value("eth0.irqs").as_deref(), Some("2"));
        assert_eq!(value("eth0.irq_cpus").as_deref(), Some("0,1,2"));
        assert_eq!(value("eth0.rps_queues").as_deref(), Some("1 of 2"));
        assert_eq!(value("eth0.rx_missed").as_deref(), Some("5"));
        assert_eq!(
            (value("eth0.speed_mbps"), value("eth0.ring.rx")),
            (None, None)
        );
        assert!(
            items
                .iter()
                .all(|i| i.value.is_some() != i.reason.is_some())
        );
    }
}
