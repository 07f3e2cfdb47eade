//! Network devices with driver, MTU and queues, and the sockets that are left over from before.

use super::facts::Facts;
use crate::tcp::{SOCKSTAT, parse_sockstat};
use linux::Root;

const DEVICES: &str = "sys/class/net";

/// Adds the facts.
pub fn describe(facts: &mut Facts) {
    for field in SOCKSTAT {
        if field.key == "TCP.tw" {
            facts.find(
                "network",
                "time_wait_sockets",
                "proc/net/sockstat",
                field.key,
                |text| {
                    let count = parse_sockstat(text, std::slice::from_ref(field)).pop()??;
                    Some(count.to_string())
                },
            );
        }
    }
    match facts.root().list(DEVICES) {
        Ok(devices) => {
            for device in devices {
                let fact = Ok(description(facts.root(), &device));
                facts.add("network", &format!("device.{device}"), fact);
            }
        }
        Err(error) => facts.add("network", "device", Err(error.to_string())),
    }
}

/// What is known of a device, in one line.
fn description(root: &Root, device: &str) -> String {
    let directory = format!("{DEVICES}/{device}");
    let read = |name: &str| {
        let text = root.read(&format!("{directory}/{name}")).ok()?;
        Some(text.trim().to_owned())
    };
    let link = std::fs::read_link(root.path(&format!("{directory}/device/driver"))).ok();
    let driver = link.as_deref().and_then(|link| link.file_name());
    let driver = driver.map_or("none (virtual)".into(), |name| name.to_string_lossy());
    let mut parts = vec![format!("driver {driver}")];
    for (label, name) in [("state", "operstate"), ("MTU", "mtu")] {
        parts.extend(read(name).map(|value| format!("{label} {value}")));
    }
    // -1 is the kernel's word for a speed that the device does not know.
    let speed = read("speed").filter(|speed| speed != "-1");
    parts.extend(speed.map(|speed| format!("speed {speed} Mb/s")));
    if let Ok(queues) = root.list(&format!("{directory}/queues")) {
        let count = |prefix: &str| {
            queues
                .iter()
                .filter(|queue| queue.starts_with(prefix))
                .count()
        };
        parts.push(format!("queues {} rx, {} tx", count("rx-"), count("tx-")));
    }
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_in_one_line() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::new(dir.path());
        let path = |name: &str| root.path(&format!("{DEVICES}/eth0/{name}"));
        for queue in ["rx-0", "rx-1", "tx-0"] {
            std::fs::create_dir_all(path("queues").join(queue)).unwrap();
        }
        for (name, text) in [("mtu", "1500\n"), ("operstate", "up\n"), ("speed", "-1\n")] {
            std::fs::write(path(name), text).unwrap();
        }
        let line = "driver none (virtual), state up, MTU 1500, queues 2 rx, 1 tx";
        assert_eq!(description(&root, "eth0"), line);
        std::fs::create_dir(path("device")).unwrap();
        std::os::unix::fs::symlink("../../bus/virtio_net", path("device/driver")).unwrap();
        std::fs::write(path("speed"), "10000\n").unwrap();
        let line = "driver virtio_net, state up, MTU 1500, speed 10000 Mb/s, queues 2 rx, 1 tx";
        assert_eq!(description(&root, "eth0"), line);
    }
}
