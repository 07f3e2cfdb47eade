//! The hosts of a topology: a network namespace each, a link between every two, routes over the links.
//!
//! Made by the command `ip` of iproute2, three batches of lines for a host, because the crate for the kernel's own
//! interface needs an asynchronous runtime. Every namespace is journalled before it is made; its links go with it.
//! The surprise: a host has its addresses on its loopback interface and none on its links, so that it is
//! reached, and answers, under the same address whichever link a packet takes.

use crate::error::TargetError;
use crate::installed;
use crate::journal::{Change, ChangeId, DIRECTORY_PREFIX, Journal, unique};
use linux::namespace::{self, Namespace};
use plan::{Link, Topology};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::net::Ipv4Addr;
use std::process::{Command, Stdio};

/// The host that the load comes from.
const CLIENT: &str = "client";

/// The hosts of a trial. Dropping it removes them.
#[derive(Debug)]
pub struct Network {
    hosts: BTreeMap<String, Namespace>,
    made: Vec<(String, ChangeId)>,
    journal: Journal,
}

impl Network {
    /// Can this host make such a topology?
    ///
    /// # Errors
    /// [`TargetError::NoTopology`] with what stands in the way.
    pub fn check(topology: &Topology) -> Result<(), TargetError> {
        // SAFETY: the call takes nothing and cannot fail.
        if unsafe { libc::geteuid() } != 0 {
            return Err(TargetError::NoTopology {
                cause: "network namespaces are made by root only".to_owned(),
                remedy: "run as root, or without [topology]".to_owned(),
            });
        }
        tool("ip")?;
        if is_limited(topology) {
            tool("tc")?;
        }
        Ok(())
    }

    /// Makes the hosts and links of a topology.
    ///
    /// # Errors
    /// [`TargetError::NoTopology`] in the words of `ip` or `tc`; nothing is left then.
    pub fn create(journal: &Journal, topology: &Topology) -> Result<Self, TargetError> {
        Self::check(topology)?;
        let mut network = Self {
            hosts: BTreeMap::new(),
            made: Vec::new(),
            journal: journal.clone(),
        };
        let marker = unique();
        let mut lines = String::new();
        for host in &topology.hosts {
            let name = format!("{DIRECTORY_PREFIX}{marker}-{host}");
            let id = journal.record(Change::Namespace { name: name.clone() })?;
            network.made.push((name.clone(), id));
            // Writing to a string does not fail, here and below.
            let _ = writeln!(lines, "netns add {name}");
            network.hosts.insert(host.clone(), Namespace::named(name));
        }
        run("ip", None, &lines)?;
        run("ip", None, &network.links(topology))?;
        for (index, host) in topology.hosts.iter().enumerate() {
            let namespace = &network.hosts[host];
            run(
                "ip",
                Some(namespace),
                &addresses_and_routes(topology, index),
            )?;
            let limits = rate_limits(topology, index);
            if !limits.is_empty() {
                run("tc", Some(namespace), &limits)?;
            }
        }
        Ok(network)
    }

    /// The namespace of a host.
    pub fn host(&self, name: &str) -> Option<&Namespace> {
        self.hosts.get(name)
    }

    /// The namespace that the load comes from.
    pub fn client(&self) -> Option<&Namespace> {
        self.host(CLIENT)
    }

    fn links(&self, topology: &Topology) -> String {
        let mut lines = String::new();
        let name = |host: &str| self.hosts[host].name();
        for (i, one) in topology.hosts.iter().enumerate() {
            for (k, other) in topology.hosts.iter().enumerate().skip(i + 1) {
                let _ = writeln!(
                    lines,
                    "link add name to{k} netns {} type veth peer name to{i} netns {}",
                    name(one),
                    name(other)
                );
            }
        }
        lines
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for (name, id) in self.made.iter().rev() {
            if remove(name).is_ok() {
                // Not noted, the next start finds that it is gone.
                let _ = self.journal.undone(*id);
            }
        }
    }
}

/// Removes a namespace of ours.
pub(crate) fn remove(name: &str) -> Result<(), String> {
    if !name.starts_with(DIRECTORY_PREFIX) || name.contains('/') {
        return Err(format!("{name} is not a network namespace of prony"));
    }
    namespace::remove(name).map_err(|e| e.to_string())
}

fn is_limited(topology: &Topology) -> bool {
    let limited = |l: &Link| l.rate_bits_per_s.is_some();
    limited(&topology.all) || topology.links.values().any(limited)
}

pub(crate) fn tool(name: &str) -> Result<String, TargetError> {
    installed::find_program("", name).map_err(|_| TargetError::NoTopology {
        cause: format!("`{name}` is not installed"),
        remedy: "apt-get install iproute2".to_owned(),
    })
}

/// The other hosts as a host sees them: number, name, link.
fn others(topology: &Topology, index: usize) -> impl Iterator<Item = (usize, &String, Link)> {
    let own = &topology.hosts[index];
    let all = topology.hosts.iter().enumerate();
    all.filter(move |(k, _)| *k != index)
        .map(move |(k, other)| (k, other, topology.link(own, other)))
}

fn addresses_and_routes(topology: &Topology, index: usize) -> String {
    let own = &topology.hosts[index];
    let mut lines = "link set lo up\n".to_owned();
    let addresses: Vec<Ipv4Addr> = match own.as_str() {
        CLIENT => topology.client_addresses().collect(),
        _ => topology.address(own).into_iter().collect(),
    };
    for address in &addresses {
        let _ = writeln!(lines, "addr add {address}/32 dev lo");
    }
    let Some(source) = addresses.first() else {
        return lines;
    };
    for (k, other, link) in others(topology, index) {
        let mtu = link.mtu.map(|m| format!("mtu {m} ")).unwrap_or_default();
        let _ = writeln!(lines, "link set dev to{k} {mtu}up");
        let to = match other.as_str() {
            CLIENT => format!("{}/17", topology.network),
            _ => match topology.address(other) {
                Some(address) => format!("{address}/32"),
                None => continue,
            },
        };
        let window = link
            .initcwnd
            .map(|w| format!(" initcwnd {w}"))
            .unwrap_or_default();
        let _ = writeln!(lines, "route add {to} dev to{k} src {source}{window}");
    }
    lines
}

/// A token bucket at each end that has a rate. The bucket holds 2 ms, and at least the largest segment that TCP hands
/// down at once.
fn rate_limits(topology: &Topology, index: usize) -> String {
    const LARGEST_SEGMENT: u64 = 64 << 10;
    let mut lines = String::new();
    for (k, _, link) in others(topology, index) {
        let Some(rate) = link.rate_bits_per_s else {
            continue;
        };
        let burst = (rate / 8 / 500).max(LARGEST_SEGMENT);
        let _ = writeln!(
            lines,
            "qdisc add dev to{k} root tbf rate {rate}bit burst {burst} latency 50ms"
        );
    }
    lines
}

/// One batch of lines, in a namespace or outside of any.
pub(crate) fn run(
    tool_name: &str,
    namespace: Option<&Namespace>,
    lines: &str,
) -> Result<(), TargetError> {
    let failed = |cause: String| TargetError::NoTopology {
        cause,
        remedy: match tool_name {
            "tc" => "load the module sch_tbf, or leave out `rate`".to_owned(),
            _ => "load the module veth; a container may have to be privileged".to_owned(),
        },
    };
    if lines.is_empty() {
        return Ok(());
    }
    let mut command = Command::new(tool(tool_name)?);
    if let Some(namespace) = namespace {
        command.args(["-n", namespace.name()]);
    }
    let mut child = command
        .args(["-batch", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|e| failed(format!("running `{tool_name}`: {e}")))?;
    // One that ends at the first bad line no longer reads: its own words say more than the broken pipe.
    let written = child
        .stdin
        .take()
        .map(|mut stdin| stdin.write_all(lines.as_bytes()));
    let output = child
        .wait_with_output()
        .map_err(|e| failed(format!("running `{tool_name}`: {e}")))?;
    if output.status.success() && written.is_some_and(|w| w.is_ok()) {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr)
        .trim()
        .replace('\n', "; ");
    Err(failed(format!("{tool_name}: {said}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_foreign_namespace_is_never_removed() {
        for name in ["blue", "prony-/../blue"] {
            assert!(remove(name).is_err(), "{name}");
        }
        assert_eq!(remove("prony-no-such-namespace"), Ok(()));
    }

    #[test]
    fn a_host_has_its_addresses_on_lo_and_a_route_over_each_link() {
        let topology = Topology {
            network: Ipv4Addr::new(10, 83, 0, 0),
            clients: 2,
            hosts: ["client", "backend", "proxy"].map(str::to_owned).to_vec(),
            all: Link {
                mtu: Some(9000),
                ..Link::default()
            },
            links: BTreeMap::from([(
                "proxy-client".to_owned(),
                Link {
                    initcwnd: Some(2),
                    rate_bits_per_s: Some(1_000_000_000),
                    ..Link::default()
                },
            )]),
        };
        assert_eq!(
            addresses_and_routes(&topology, 0),
            "link set lo up\naddr add 10.83.0.1/32 dev lo\naddr add 10.83.0.2/32 dev lo\n\
             link set dev to1 mtu 9000 up\nroute add 10.83.128.1/32 dev to1 src 10.83.0.1\n\
             link set dev to2 mtu 9000 up\nroute add 10.83.129.1/32 dev to2 src 10.83.0.1 initcwnd 2\n"
        );
        assert_eq!(
            addresses_and_routes(&topology, 2),
            "link set lo up\naddr add 10.83.129.1/32 dev lo\n\
             link set dev to0 mtu 9000 up\nroute add 10.83.0.0/17 dev to0 src 10.83.129.1 initcwnd 2\n\
             link set dev to1 mtu 9000 up\nroute add 10.83.128.1/32 dev to1 src 10.83.129.1\n"
        );
        assert_eq!(
            rate_limits(&topology, 0),
            "qdisc add dev to2 root tbf rate 1000000000bit burst 250000 latency 50ms\n"
        );
        assert_eq!(rate_limits(&topology, 1), "");
    }
}
