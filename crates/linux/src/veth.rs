//! Whether an interface is one end of a veth pair, and whether the kernel's receive work there has a place of its own.
//!
//! The surprise is why it matters: what is sent into a veth is received on the core of the *sender*, so each side's CPU
//! time holds the other's work, unless threaded NAPI or RPS moves it.

use crate::Root;

/// A veth pair, and where its packets are received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Veth {
    /// Receive work runs in threads of its own, or is spread to stated cores.
    pub is_pinned: bool,
}

/// The veth of that name; `None` for another kind of interface, and where /sys cannot be read.
pub fn veth(root: &Root, interface: &str) -> Option<Veth> {
    let directory = format!("sys/class/net/{interface}");
    let read = |file: &str| root.read(&format!("{directory}/{file}")).ok();
    let number = |file: &str| read(file)?.trim().parse::<u64>().ok();
    // Hardware has a device; tunnels and VLANs say their type, and bridges and TAPs are bound to nothing else.
    let is_hardware = root.path(&format!("{directory}/device")).exists();
    let kind = read("uevent")?;
    let kind = kind.lines().find_map(|line| line.strip_prefix("DEVTYPE="));
    let is_pair = number("ifindex")? != number("iflink")?;
    if is_hardware || !is_pair || !matches!(kind, None | Some("veth")) {
        return None;
    }
    let is_threaded = number("threaded").is_some_and(|n| n > 0);
    let is_spread = |queue: u32| {
        let cpus = read(&format!("queues/rx-{queue}/rps_cpus"))?;
        Some(cpus.chars().any(|c| c.is_ascii_hexdigit() && c != '0'))
    };
    let spread = (0..).map_while(is_spread).any(|is| is);
    Some(Veth {
        is_pinned: is_threaded || spread,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root(files: &[(&str, &str)]) -> (tempfile::TempDir, Root) {
        let dir = tempfile::tempdir().unwrap();
        for (file, text) in files {
            let path = dir.path().join("sys/class/net/v0").join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let root = Root::new(dir.path());
        (dir, root)
    }

    #[test]
    fn a_veth_and_where_its_work_is_done() {
        let pair = [
            ("uevent", "INTERFACE=v0\nIFINDEX=4\n"),
            ("ifindex", "4\n"),
            ("iflink", "3\n"),
        ];
        let with = |more: &[(&'static str, &'static str)]| {
            let (_dir, root) = root(&[pair.as_slice(), more].concat());
            veth(&root, "v0")
        };
        assert_eq!(with(&[]), Some(Veth { is_pinned: false }));
        assert_eq!(with(&[("threaded", "1\n")]), Some(Veth { is_pinned: true }));
        assert_eq!(
            with(&[("queues/rx-0/rps_cpus", "0\n")]),
            Some(Veth { is_pinned: false })
        );
        assert_eq!(
            with(&[("queues/rx-0/rps_cpus", "00,2\n")]),
            Some(Veth { is_pinned: true })
        );
        assert_eq!(with(&[("uevent", "DEVTYPE=vlan\n")]), None);
        assert_eq!(with(&[("iflink", "4\n")]), None, "a TAP");
        assert_eq!(with(&[("device/vendor", "0x8086\n")]), None, "hardware");
        assert_eq!(veth(&Root::new("/nowhere"), "v0"), None);
    }
}
