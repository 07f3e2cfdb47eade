//! A laboratory for a TCP in user space: two namespaces, one for each side, a veth pair between them and a TAP in each.
//!
//! What a packet costs in softirq lands on the core that sent it, unless it is led away; then a side would pay for the
//! other. So each kernel end steers its packets to its side's core (RPS), and the polling of the pair (NAPI) runs in
//! threads that are pinned there. What was set is read back: where it does not hold, CPU times are not to be compared,
//! and [`Lab::charging`] says why. Each namespace is journalled before it is made; interfaces, addresses, routes and
//! settings go with it.

use crate::error::TargetError;
use crate::journal::{Change, ChangeId, DIRECTORY_PREFIX, Journal, unique};
use crate::network::{self, run, tool};
use linux::affinity::CpuSet;
use linux::ethtool::Device;
use linux::namespace::Namespace;
use linux::procfs::{self, PROC};
use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::process::Command;

/// The offload that makes a veth interface poll.
const GRO: &str = "feature.rx-gro";

/// One side of the laboratory.
#[derive(Clone, Debug)]
pub struct LabSide {
    /// Its namespace.
    pub namespace: Namespace,
    /// Its core.
    pub cpu: u32,
    /// Its end of the pair.
    pub veth: String,
    /// Address of its kernel on the pair, of a /24.
    pub veth_address: Ipv4Addr,
    /// A TAP, whose other end a stack takes.
    pub tap: String,
    /// Address of its kernel on the TAP, of a /24.
    pub tap_address: Ipv4Addr,
}

/// What the kernel of a side is, when everybody else is a peer.
#[derive(Clone, Debug)]
pub struct Peers {
    /// Its own addresses.
    pub own: Vec<IpAddr>,
    /// Segments that it sends before the first acknowledgement; `None` is the kernel's default.
    pub initial_window: Option<u32>,
}

impl Peers {
    /// A kernel with these addresses.
    pub fn new(own: impl IntoIterator<Item = IpAddr>) -> Self {
        Peers {
            own: own.into_iter().collect(),
            initial_window: None,
        }
    }
}

/// The laboratory; dropping it takes everything away.
#[derive(Debug)]
pub struct Lab {
    /// Where clients are.
    pub client: LabSide,
    /// Where servers are.
    pub server: LabSide,
    /// How the sides' packets were led to their own cores, or why CPU times cannot be compared.
    pub charging: Result<String, String>,
    made: Vec<(String, ChangeId)>,
    journal: Journal,
}

impl Lab {
    /// Makes it, the sides on the cores `client` and `server`.
    ///
    /// # Errors
    /// [`TargetError::NoTopology`] without root or `ip`, or in the words of `ip`; nothing is left then.
    pub fn create(journal: &Journal, client: u32, server: u32) -> Result<Self, TargetError> {
        let lab = Self::create_bare(journal, client, server)?;
        for side in [&lab.client, &lab.server] {
            let (veth, tap) = (&side.veth, &side.tap);
            let (on_veth, on_tap) = (side.veth_address, side.tap_address);
            let lines =
                format!("addr add {on_veth}/24 dev {veth}\naddr add {on_tap}/24 dev {tap}\n");
            run("ip", Some(&side.namespace), &lines)?;
        }
        Ok(lab)
    }

    /// [`Lab::create`] without any address: the kernels of both sides know nobody yet.
    ///
    /// # Errors
    /// As [`Lab::create`].
    pub fn create_bare(journal: &Journal, client: u32, server: u32) -> Result<Self, TargetError> {
        // SAFETY: the call takes nothing and cannot fail.
        if unsafe { libc::geteuid() } != 0 {
            return Err(TargetError::NoTopology {
                cause: "network namespaces are made by root only".to_owned(),
                remedy: "run as root".to_owned(),
            });
        }
        tool("ip")?;
        let marker = unique();
        // Names of interfaces are short, and those of their kernel threads say no namespace: ours are told apart by
        // the process.
        let number = std::process::id() % 1_000_000;
        let side = |role: &str, letter: char, cpu, third: u8| LabSide {
            namespace: Namespace::named(format!("{DIRECTORY_PREFIX}{marker}-{role}")),
            cpu,
            veth: format!("v{letter}{number}"),
            veth_address: Ipv4Addr::new(10, 8, 0, if letter == 's' { 1 } else { 254 }),
            tap: format!("t{letter}{number}"),
            tap_address: Ipv4Addr::new(10, third, 0, 1),
        };
        let mut lab = Self {
            client: side("client", 'c', client, 7),
            server: side("server", 's', server, 9),
            charging: Err("nothing is set yet".to_owned()),
            made: Vec::new(),
            journal: journal.clone(),
        };
        lab.make()?;
        lab.charging = lab.charge();
        Ok(lab)
    }

    fn make(&mut self) -> Result<(), TargetError> {
        let mut lines = String::new();
        for side in [&self.client, &self.server] {
            let name = side.namespace.name().to_owned();
            let change = Change::Namespace { name: name.clone() };
            let id = self.journal.record(change)?;
            // Writing to a string does not fail, here and below.
            let _ = writeln!(lines, "netns add {name}");
            self.made.push((name, id));
        }
        run("ip", None, &lines)?;
        let (c, s) = (&self.client, &self.server);
        let pair = format!(
            "link add name {} netns {} type veth peer name {} netns {}\n",
            s.veth,
            s.namespace.name(),
            c.veth,
            c.namespace.name()
        );
        run("ip", None, &pair)?;
        for side in [c, s] {
            let (veth, tap) = (&side.veth, &side.tap);
            let lines = format!(
                "link set lo up\ntuntap add dev {tap} mode tap vnet_hdr\nlink set {veth} up\nlink set {tap} up\n"
            );
            run("ip", Some(&side.namespace), &lines)?;
            // A client of the kernel's needs a port for each connection.
            let ports = || {
                let set = |name, value| std::fs::write(format!("/proc/sys/net/ipv4/{name}"), value);
                set("tcp_tw_reuse", "1").and_then(|()| set("ip_local_port_range", "10000 65535"))
            };
            let failed = |cause: String| TargetError::NoTopology {
                cause,
                remedy: "a container may have to be privileged".to_owned(),
            };
            let done = side.namespace.within(ports);
            done.map_err(|e| failed(e.to_string()))?
                .map_err(|e| failed(format!("setting the local ports: {e}")))?;
        }
        Ok(())
    }

    /// Lets the kernels of both sides send so many segments before the first acknowledgement of a connection.
    ///
    /// # Errors
    /// [`TargetError::NoTopology`] in the words of `ip`.
    pub fn set_initial_window(&self, segments: u32) -> Result<(), TargetError> {
        for side in [&self.client, &self.server] {
            let wires = [
                (&side.veth, side.veth_address),
                (&side.tap, side.tap_address),
            ];
            let route = |(interface, address): (&String, Ipv4Addr)| {
                let [a, b, c, _] = address.octets();
                format!(
                    "route change {a}.{b}.{c}.0/24 dev {interface} proto kernel scope link src {address} initcwnd {segments}\n"
                )
            };
            let lines: String = wires.into_iter().map(route).collect();
            run("ip", Some(&side.namespace), &lines)?;
        }
        Ok(())
    }

    /// Gives the kernel of a side addresses on an interface, and everybody else to reach by it.
    ///
    /// # Errors
    /// [`TargetError::NoTopology`] in the words of `ip`.
    pub fn everybody_behind(
        &self,
        side: &LabSide,
        interface: &str,
        peers: &Peers,
    ) -> Result<(), TargetError> {
        let window = peers.initial_window;
        let window = window.map_or_else(String::new, |n| format!(" initcwnd {n}"));
        let mut lines = String::new();
        for (is_v6, all, bits, flags) in [
            (false, "0.0.0.0/0", 32, ""),
            // An address that is being looked for elsewhere does not answer yet (RFC 4862 5.4).
            (true, "::/0", 128, " nodad"),
        ] {
            let own: Vec<_> = peers
                .own
                .iter()
                .filter(|ip| ip.is_ipv6() == is_v6)
                .collect();
            for ip in &own {
                let _ = writeln!(lines, "addr add {ip}/{bits} dev {interface}{flags}");
            }
            if !own.is_empty() {
                let _ = writeln!(lines, "route add {all} dev {interface}{window}");
            }
        }
        run("ip", Some(&side.namespace), &lines)
    }

    /// Leads each side's packets to its core, and looks whether that holds.
    fn charge(&self) -> Result<String, String> {
        if self.client.cpu == self.server.cpu {
            return Err("both sides are on one core".to_owned());
        }
        for side in [&self.client, &self.server] {
            for interface in [&side.veth, &side.tap] {
                steer(side, interface)?;
            }
            let gro = || Device::open(&side.veth)?.set(GRO, "on");
            let polled = side.namespace.within(gro).map_err(|e| e.to_string())?;
            polled.map_err(|e| e.to_string())?;
            // Only what polls can poll in a thread.
            set(side, &format!("{}/threaded", side.veth), "1")?;
        }
        let mut threads = 0;
        for side in [&self.client, &self.server] {
            threads += pin_polling(side)?;
        }
        Ok(format!(
            "packets steered to each side's core (RPS), {threads} polling threads pinned there"
        ))
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        for (name, id) in self.made.iter().rev() {
            if network::remove(name).is_ok() {
                // Not noted, the next start finds that it is gone.
                let _ = self.journal.undone(*id);
            }
        }
    }
}

/// Steers what an interface receives to its side's core.
fn steer(side: &LabSide, interface: &str) -> Result<(), String> {
    let mask = cpu_mask(side.cpu);
    set(side, &format!("{interface}/queues/rx-0/rps_cpus"), &mask)
}

/// A core in the kernel's form: words of 32 bits in hexadecimal, the highest first.
fn cpu_mask(cpu: u32) -> String {
    let mut mask = format!("{:x}", 1u32 << (cpu % 32));
    for _ in 0..cpu / 32 {
        mask.push_str(",00000000");
    }
    mask
}

/// Writes a file below `/sys/class/net` of the side's namespace, and looks whether it holds. `ip netns exec` mounts the
/// tree that shows that namespace; a thread that only enters it sees the old one.
fn set(side: &LabSide, file: &str, value: &str) -> Result<(), String> {
    let path = format!("/sys/class/net/{file}");
    let script = format!("echo {value} > {path} && cat {path}");
    let output = Command::new("ip")
        .args(["netns", "exec", side.namespace.name(), "sh", "-c", &script])
        .output()
        .map_err(|e| format!("setting {file}: {e}"))?;
    let found = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    if !output.status.success() {
        return Err(format!("setting {file} to {value}: {said}"));
    }
    // The kernel fills the words of a mask up.
    let bare = |text: &str| text.replace(',', "").trim_start_matches('0').to_owned();
    if bare(&found) != bare(value) {
        return Err(format!("{file} was set to {value} and is {found}"));
    }
    Ok(())
}

/// Pins the kernel's polling threads of a side's end of the pair; how many there are.
fn pin_polling(side: &LabSide) -> Result<u32, String> {
    let prefix = format!("napi/{}-", side.veth);
    let mut pinned = 0;
    for thread in procfs::living(Path::new(PROC)) {
        if !thread.name.starts_with(&prefix) {
            continue;
        }
        let core = CpuSet::new(&[side.cpu]);
        core.pin(thread.pid)
            .map_err(|e| format!("pinning the polling thread {}: {e}", thread.name))?;
        pinned += 1;
    }
    match pinned {
        0 => Err(format!("{} has no polling threads to pin", side.veth)),
        n => Ok(n),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_core_is_a_bit_of_the_kernels_words() {
        for (cpu, mask) in [
            (0, "1"),
            (5, "20"),
            (31, "80000000"),
            (32, "1,00000000"),
            (65, "2,00000000,00000000"),
        ] {
            assert_eq!(cpu_mask(cpu), mask);
        }
    }
}
