//! Interfaces and the networks that they are attached to, from `/proc/net` of this network namespace.
//!
//! The surprise: `/proc/net/route` writes IPv4 addresses as the machine has them in memory, `/proc/net/ipv6_route`
//! as they stand on the wire.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;

/// A network that is reached through an interface without a gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attached {
    /// Its address, host bits 0.
    pub address: IpAddr,
    /// Length of its prefix.
    pub prefix_bits: u8,
}

/// The interfaces of this namespace, in the kernel's order. Empty where `/proc` cannot be read.
pub fn interfaces(proc_root: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(proc_root.join("net/dev")).unwrap_or_default();
    let named = text.lines().filter_map(|line| line.split_once(':'));
    named.map(|(name, _)| name.trim().to_owned()).collect()
}

/// The networks of an interface.
pub fn attached(proc_root: &Path, interface: &str) -> Vec<Attached> {
    let read = |name: &str| std::fs::read_to_string(proc_root.join(name)).unwrap_or_default();
    let (v4, v6) = (read("net/route"), read("net/ipv6_route"));
    let v4 = v4.lines().filter_map(|line| attached_v4(line, interface));
    let v6 = v6.lines().filter_map(|line| attached_v6(line, interface));
    v4.chain(v6).collect()
}

/// `Iface Destination Gateway Flags RefCnt Use Metric Mask MTU Window IRTT`
fn attached_v4(line: &str, interface: &str) -> Option<Attached> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let number = |at: usize| u32::from_str_radix(words.get(at)?, 16).ok();
    let (destination, gateway, mask) = (number(1)?, number(2)?, number(7)?);
    (words[0] == interface && gateway == 0 && mask != 0).then(|| Attached {
        address: Ipv4Addr::from(destination.to_ne_bytes()).into(),
        prefix_bits: mask.count_ones() as u8,
    })
}

/// `destination length source length next-hop metric references use flags interface`
fn attached_v6(line: &str, interface: &str) -> Option<Attached> {
    const LOCAL: u32 = 0x8000_0000;
    let words: Vec<&str> = line.split_whitespace().collect();
    let address = |at: usize| u128::from_str_radix(words.get(at)?, 16).ok();
    let prefix_bits = u8::from_str_radix(words.get(1)?, 16).ok()?;
    let flags = u32::from_str_radix(words.get(8)?, 16).ok()?;
    let destination = Ipv6Addr::from(address(0)?);
    let is_network = address(4)? == 0 && flags & LOCAL == 0 && prefix_bits > 0;
    (words.get(9) == Some(&interface) && is_network && !destination.is_multicast()).then_some(
        Attached {
            address: destination.into(),
            prefix_bits,
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_are_those_without_a_gateway() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join("net")).unwrap();
        let write = |name: &str, text: &str| {
            std::fs::write(root.path().join("net").join(name), text).unwrap()
        };
        assert!(attached(root.path(), "tap0").is_empty() && interfaces(root.path()).is_empty());
        write(
            "dev",
            "Inter-| Receive\n face |bytes\n    lo: 1 2\n  tap0: 0 0\n",
        );
        let line = |interface: &str, bytes: [u8; 4], gateway: u32, mask: [u8; 4]| {
            let word = |bytes| u32::from_ne_bytes(bytes);
            format!(
                "{interface}\t{:08X}\t{gateway:08X}\t0001\t0\t0\t0\t{:08X}\t0\t0\t0\n",
                word(bytes),
                word(mask)
            )
        };
        let v4 = [
            "Iface Destination Gateway Flags RefCnt Use Metric Mask MTU Window IRTT\n".to_owned(),
            line("tap0", [10, 9, 0, 0], 0, [255, 255, 255, 0]),
            line("tap0", [0, 0, 0, 0], 7, [0, 0, 0, 0]),
            line("eth0", [10, 8, 0, 0], 0, [255, 255, 0, 0]),
        ];
        write("route", &v4.concat());
        let zero = "0".repeat(32);
        let v6 = |address: &str, bits: &str, flags: &str, interface: &str| {
            format!(
                "{address} {bits} {zero} 00 {zero} 00000100 00000001 00000000 {flags} {interface}\n"
            )
        };
        let fd = format!("fd00{}", "0".repeat(28));
        let lines = [
            v6(&fd, "40", "00000001", "tap0"),
            v6(&fd, "80", "80200001", "tap0"),
            v6(&fd, "40", "00000001", "lo"),
        ];
        write("ipv6_route", &lines.concat());
        let found = attached(root.path(), "tap0");
        let shown: Vec<String> = found
            .iter()
            .map(|it| format!("{}/{}", it.address, it.prefix_bits))
            .collect();
        assert_eq!(shown, ["10.9.0.0/24", "fd00::/64"]);
        assert_eq!(interfaces(root.path()), ["lo", "tap0"]);
    }
}
