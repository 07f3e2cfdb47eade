//! Addresses: flows hold numbers of them instead of the 16 bytes of IPv6, and what is known of a peer is known once.

use super::slab::Slab;
use std::collections::HashMap;
use std::net::IpAddr;

/// What is known of the way to a peer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Way {
    /// Nothing yet: segments wait.
    #[default]
    Unknown,
    /// Frames go to this link address.
    Via([u8; 6]),
}

/// A peer's address.
#[derive(Clone, Debug)]
pub struct Remote {
    /// The address.
    pub ip: IpAddr,
    /// Where frames go.
    pub way: Way,
    /// Largest packet on the path; 0 when only the link limits it.
    pub path_mtu: u16,
    /// Flows that use it.
    pub flows: u32,
    /// It stands in the list of those to be resolved.
    pub is_asked: bool,
}

impl Default for Remote {
    fn default() -> Self {
        Remote {
            ip: IpAddr::from([0; 4]),
            way: Way::Unknown,
            path_mtu: 0,
            flows: 0,
            is_asked: false,
        }
    }
}

/// Ours and theirs.
pub struct Addresses {
    /// Ours.
    pub locals: Vec<IpAddr>,
    local_of: HashMap<IpAddr, u32>,
    /// Theirs, while a flow uses them.
    pub remotes: Slab<Remote>,
    remote_of: HashMap<IpAddr, u32>,
}

impl Addresses {
    /// Addresses of ours, and room for `max` of theirs.
    pub fn new(locals: &[IpAddr], max: u32) -> Self {
        let local_of = (0..).zip(locals).map(|(i, ip)| (*ip, i)).collect();
        Addresses {
            locals: locals.to_vec(),
            local_of,
            remotes: Slab::new(max),
            remote_of: HashMap::new(),
        }
    }

    /// Number of an address of ours.
    pub fn local(&self, ip: &IpAddr) -> Option<u32> {
        match self.locals.as_slice() {
            [only] => (only == ip).then_some(0),
            _ => self.local_of.get(ip).copied(),
        }
    }

    /// Number of a peer's address, one flow more; `None` when there are too many.
    pub fn use_remote(&mut self, ip: IpAddr) -> Option<u32> {
        if let Some(&index) = self.remote_of.get(&ip) {
            self.remotes[index].flows += 1;
            return Some(index);
        }
        let index = self.remotes.take()?;
        let remote = &mut self.remotes[index];
        (remote.ip, remote.flows) = (ip, 1);
        self.remote_of.insert(ip, index);
        Some(index)
    }

    /// One flow less. What is known of the last 1024 peers is kept.
    pub fn leave_remote(&mut self, index: u32) {
        let remote = &mut self.remotes[index];
        remote.flows -= 1;
        if remote.flows == 0 && self.remotes.used() > 1_024 {
            let ip = self.remotes[index].ip;
            self.remote_of.remove(&ip);
            self.remotes.give(index);
        }
    }

    /// Number of a peer's address that is known.
    pub fn remote(&self, ip: &IpAddr) -> Option<u32> {
        self.remote_of.get(ip).copied()
    }

    /// Flows over all peers.
    pub fn flows(&mut self) -> u32 {
        self.remotes
            .places()
            .iter()
            .map(|remote| remote.flows)
            .sum()
    }
}
