//! `[topology]`: client and servers as hosts of their own, joined by links with an MTU, a rate and routes.
//!
//! Every host is a network namespace with an address of its own, every two hosts have a link. The client is the host
//! `client`; a target's host is called by its `host`, or else by its own name. The surprise: a target listens on
//! its host's address, whatever address its `listen` gives; the port counts.

use crate::error::{Fault, Found, Report, unknown};
use crate::levels::{Cell, Shape};
use crate::node::{Entry, Field};
use crate::{Link, TargetSpec, Topology};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// Name of the host that the load comes from.
pub(crate) const CLIENT: &str = "client";

const KEYS: [&str; 6] = [
    "network",
    "client_addresses",
    "mtu",
    "initcwnd",
    "rate",
    "link",
];
const LINK_KEYS: [&str; 3] = ["mtu", "initcwnd", "rate"];

/// Addresses of clients at most: half of the network's 65,536.
const MOST_CLIENTS: u64 = 32_000;
/// Other hosts at most: one block of 256 addresses each.
const MOST_HOSTS: usize = 120;

pub(crate) const SHAPE: Shape = Shape::Table(|key| match key {
    "link" => Shape::Map(&Shape::Table(|_| Shape::Now)),
    _ => Shape::Now,
});

impl Topology {
    /// Address of a host; that of the client is its first one. `None` for a host that it does not have.
    pub fn address(&self, host: &str) -> Option<Ipv4Addr> {
        if host == CLIENT {
            return Some(self.client_addresses().next().unwrap_or(self.network));
        }
        let index = self
            .hosts
            .iter()
            .filter(|h| *h != CLIENT)
            .position(|h| h == host)?;
        let index = u32::try_from(index).ok()?;
        Some(Ipv4Addr::from(
            u32::from(self.network) + 0x8000 + index * 0x100 + 1,
        ))
    }

    /// Addresses that the client has: the lower half of the network.
    pub fn client_addresses(&self) -> impl Iterator<Item = Ipv4Addr> {
        let first = u32::from(self.network) + 1;
        (first..first + self.clients).map(Ipv4Addr::from)
    }

    /// What holds for the link of two hosts.
    pub fn link(&self, one: &str, other: &str) -> Link {
        let names = [format!("{one}-{other}"), format!("{other}-{one}")];
        let own = names.iter().find_map(|n| self.links.get(n));
        let own = own.copied().unwrap_or_default();
        Link {
            mtu: own.mtu.or(self.all.mtu),
            initcwnd: own.initcwnd.or(self.all.initcwnd),
            rate_bits_per_s: own.rate_bits_per_s.or(self.all.rate_bits_per_s),
        }
    }
}

/// Reads a settled `[topology]`; its hosts are still missing.
pub(crate) fn read(field: Field<'_>) -> Result<Topology, Found> {
    let mut topology = Topology {
        network: Ipv4Addr::new(10, 83, 0, 0),
        clients: 1,
        hosts: Vec::new(),
        all: Link::default(),
        links: BTreeMap::new(),
    };
    for f in field.table()?.iter().map(Entry::field) {
        match f.name {
            "network" => topology.network = network(f)?,
            "client_addresses" => {
                let clients = f.count32(1)?;
                if u64::from(clients) > MOST_CLIENTS {
                    return Err(f.must_be(format!("at most {MOST_CLIENTS}")));
                }
                topology.clients = clients;
            }
            "link" => {
                for entry in f.table()? {
                    let mut link = Link::default();
                    for f in entry.field().table()?.iter().map(Entry::field) {
                        set(&mut link, f, &format!("`link.{}`", entry.name), &LINK_KEYS)?;
                    }
                    topology.links.insert(entry.name.clone(), link);
                }
            }
            _ => set(&mut topology.all, f, "[topology]", &KEYS)?,
        }
    }
    Ok(topology)
}

fn set(link: &mut Link, f: Field<'_>, inside: &str, known: &[&str]) -> Result<(), Found> {
    match f.name {
        // 576 is what every host must take (RFC 791); more than 65535 no packet has.
        "mtu" => {
            let mtu = f.limit(|f| f.count32(576))?;
            if mtu.is_some_and(|m| m > 65_535) {
                return Err(f.must_be("at most 65535"));
            }
            link.mtu = mtu;
        }
        "initcwnd" => link.initcwnd = f.limit(|f| f.count32(1))?,
        "rate" => link.rate_bits_per_s = f.limit(Field::bit_rate)?,
        _ => return Err(f.unknown_key(inside, known)),
    }
    Ok(())
}

fn network(field: Field<'_>) -> Result<Ipv4Addr, Found> {
    let text = field.text()?;
    let address = text.strip_suffix("/16").unwrap_or(text).parse::<Ipv4Addr>();
    address
        .ok()
        .filter(|a| u32::from(*a) & 0xffff == 0)
        .ok_or_else(|| field.must_be("a network of 65536 addresses such as \"10.83.0.0/16\""))
}

/// The topology of one cell: its targets get hosts and addresses.
///
/// # Errors
/// A link between hosts that the cell's targets do not have, or too many hosts.
pub(crate) fn place(
    entry: &Entry,
    cell: Cell<'_>,
    all_hosts: &BTreeSet<String>,
    targets: &mut [TargetSpec],
) -> Result<Topology, Found> {
    let node = cell.settle(entry.field(), SHAPE)?;
    let field = Field {
        node: &node,
        ..entry.field()
    };
    let mut topology = read(field)?;
    topology.hosts.push(CLIENT.to_owned());
    for target in targets.iter() {
        let host = target.host.as_ref().unwrap_or(&target.name);
        if !topology.hosts.contains(host) {
            topology.hosts.push(host.clone());
        }
    }
    if topology.hosts.len() > MOST_HOSTS {
        return Err(field.must_be(format!("of at most {MOST_HOSTS} hosts")));
    }
    for name in topology.links.keys() {
        check_link(name, entry.at, all_hosts)?;
    }
    for target in targets {
        let host = target.host.clone().unwrap_or_else(|| target.name.clone());
        if let Some(address) = topology.address(&host) {
            target.listen = SocketAddr::new(IpAddr::V4(address), target.listen.port());
        }
        target.host = Some(host);
    }
    Ok(topology)
}

fn check_link(name: &str, at: usize, hosts: &BTreeSet<String>) -> Result<(), Found> {
    let known = || hosts.iter().map(String::as_str);
    let Some((one, other)) = name.split_once('-') else {
        let fault = Fault::Name {
            kind: "link",
            name: name.to_owned(),
            why: "a link is named by its two hosts: `client-proxy`".to_owned(),
        };
        return Err(Found::at(at, fault));
    };
    for host in [one, other] {
        if !hosts.contains(host) {
            return Err(unknown(at, "host", host, "[topology]", known()));
        }
    }
    Ok(())
}

/// Finds what is wrong whether or not a cell uses it.
pub(crate) fn check(entry: &Entry, report: &mut Report) {
    for node in crate::levels::variants(entry.field(), SHAPE)
        .iter()
        .flatten()
    {
        let field = Field {
            node,
            ..entry.field()
        };
        report.take(read(field));
    }
}
