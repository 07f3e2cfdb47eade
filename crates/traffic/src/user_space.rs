//! What a TCP of our own attaches to: an interface that exists, addresses that no kernel answers for, targets in the
//! interface's own networks, and a device.
//!
//! In the flow: whoever runs a stack (a load, an origin, a traffic program) says an [`Attachment`], checks it before
//! anything is opened, and opens the device on the thread that drives it. Nothing is sent here.

use linux::routes;
use record::traffic::Side;
use record::{Carrier, Nanos};
pub use stack::address::{AddressRange, BadRange, Network};
use stack::device::Device;
use stack::device::af_packet::{self, AfPacket};
use stack::device::af_xdp::{self, AfXdp};
#[cfg(feature = "dpdk")]
use stack::device::dpdk::{self, Dpdk};
use stack::device::interface::{Interface, refuse_host_addresses, refuse_small};
use stack::device::queues::{self, Owners};
use stack::device::tap::{self, Tap};
use stack::error::Error;
use stack::link::{self, Link};
use std::net::IpAddr;
use std::path::Path;

/// A device of any kind.
pub type AnyDevice = Box<dyn Device + Send>;

/// The most addresses of ours that one stack holds: each is known to it by number.
pub const ADDRESSES_MAX: u64 = 1 << 20;

/// How the caller's user names things, for remedies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Words {
    /// Of the interface: `--interface`.
    pub interface: &'static str,
    /// Of our addresses: `--source`.
    pub addresses: &'static str,
    /// Of the transport: `--transport`.
    pub transport: &'static str,
}

impl Words {
    /// Of a network behind the interface, which is called alike everywhere.
    fn network(self) -> &'static str {
        match self.interface.starts_with("--") {
            true => "--network",
            false => "network",
        }
    }
}

/// The device, interface and addresses of a stack in user space.
#[derive(Clone, Debug, PartialEq)]
pub struct Attachment {
    /// Which device; [`Carrier::Kernel`] is refused.
    pub transport: Carrier,
    /// The interface's name; empty when the user named none.
    pub interface: String,
    /// Our addresses; nobody else may have them.
    pub addresses: Vec<AddressRange>,
    /// Networks that the user names beside the interface's own: packets go there without a router.
    pub networks: Vec<Network>,
    /// Routers for all else, one for each version of IP. Without one nothing is sent outside the networks.
    pub gateways: Vec<IpAddr>,
    /// Who must be reachable; empty for a side that only answers.
    pub targets: Vec<IpAddr>,
    /// How long packets may gather before they are looked at; 0 looks at once.
    pub coalesce: Nanos,
    /// For remedies.
    pub words: Words,
}

/// Why a stack cannot attach.
#[derive(Debug, thiserror::Error)]
pub enum AttachError {
    /// No interface was named.
    #[error("choosing the transport `{transport}`: it has no interface to attach to")]
    NoInterface {
        /// Its name.
        transport: &'static str,
        /// The interfaces that there are.
        known: Vec<String>,
        /// For the remedy.
        words: Words,
    },
    /// No address was named.
    #[error("choosing the transport `{transport}`: it needs addresses of its own")]
    NoAddresses {
        /// Its name.
        transport: &'static str,
        /// A network of the interface; empty when it has none.
        network: String,
        /// For the remedy.
        words: Words,
    },
    /// A text is no range of addresses.
    #[error(transparent)]
    BadRange(#[from] BadRange),
    /// More addresses than a stack holds.
    #[error("{count} addresses are named, and a stack holds at most {ADDRESSES_MAX}")]
    TooMany {
        /// How many.
        count: u64,
        /// For the remedy.
        words: Words,
    },
    /// A range is named twice, or two share an address.
    #[error("the addresses {one} and {other} overlap")]
    Overlap {
        /// A range.
        one: AddressRange,
        /// Another.
        other: AddressRange,
    },
    /// The interface has no network, and none was named: nobody could be sent to.
    #[error("{interface} has no address, so no network is known to lie behind it")]
    NoNetwork {
        /// The interface.
        interface: String,
        /// The first of our addresses.
        address: IpAddr,
        /// Its transport.
        transport: Carrier,
        /// For the remedy.
        words: Words,
    },
    /// A target of another family than all our addresses.
    #[error("the source address {address} cannot reach {target}: one is IPv4 and the other IPv6")]
    Family {
        /// An address of ours.
        address: IpAddr,
        /// The target.
        target: IpAddr,
    },
    /// A device that this build does not have.
    #[error("choosing the transport `{transport}`: this build has no such device")]
    NoDevice {
        /// Its name.
        transport: &'static str,
        /// For the remedy.
        words: Words,
    },
    /// The stack's addresses, link or device refuse.
    #[error("choosing the transport `{transport}`: {cause}")]
    Stack {
        /// Its name.
        transport: &'static str,
        /// What was refused.
        cause: Error,
    },
}

impl AttachError {
    /// What to do about it.
    pub fn remedy(&self) -> String {
        match self {
            AttachError::NoInterface { known, words, .. } => {
                let known = known.join(", ");
                format!("name it with {}; there are: {known}", words.interface)
            }
            AttachError::NoAddresses { network, words, .. } => {
                let of = match network.as_str() {
                    "" => "the interface's network",
                    network => network,
                };
                format!("name free addresses of {of} with {}", words.addresses)
            }
            AttachError::BadRange(_) => "write it as the message says".to_owned(),
            AttachError::TooMany { words, .. } => {
                format!("name fewer with {}", words.addresses)
            }
            AttachError::Overlap { .. } => "name each address once".to_owned(),
            AttachError::NoNetwork {
                transport: Carrier::Dpdk,
                words,
                ..
            } => format!("name the network that lies behind it with {}", words.network()),
            AttachError::NoNetwork {
                interface, address, ..
            } => format!(
                "give it an address of the host's own in the network of {address}: `ip address add ADDRESS/BITS dev {interface}`"
            ),
            AttachError::Family { .. } => {
                "use addresses of ours and a target of one family".to_owned()
            }
            AttachError::NoDevice {
                transport: "dpdk", ..
            } => "build prony with it: `make dpdk-build` (cargo build --release --features dpdk, with libdpdk 22.11 or \
                  later installed: scripts/setup.sh dpdk)"
                .to_owned(),
            AttachError::NoDevice { words, .. } => {
                format!("use {0} tap, {0} af_xdp or {0} af_packet", words.transport)
            }
            AttachError::Stack { cause, .. } => cause.remedy(),
        }
    }
}

impl Attachment {
    /// The attachment of a side of a traffic program, whose client side connects to `targets`.
    ///
    /// # Errors
    /// [`AttachError::BadRange`].
    pub fn of_side(side: &Side, targets: Vec<IpAddr>, words: Words) -> Result<Self, AttachError> {
        Ok(Attachment {
            transport: side.transport,
            interface: side.interface.clone(),
            addresses: ranges_of(side)?,
            networks: networks_of(&side.networks)?,
            gateways: side.gateways.clone(),
            targets,
            coalesce: side.coalesce,
            words,
        })
    }

    /// Checks all that can be known before anything is opened, and gives the link under the stack. Its link address
    /// is the device's, when that is open.
    ///
    /// # Errors
    /// [`AttachError`], each variant with its remedy.
    pub fn check(&self) -> Result<link::Settings, AttachError> {
        // A thread may be in another namespace than its process.
        let proc_root = Path::new("/proc/thread-self");
        let transport = self.transport.name();
        if !is_known(self.transport) {
            return Err(self.no_device());
        }
        if self.interface.is_empty() {
            return Err(AttachError::NoInterface {
                transport,
                known: routes::interfaces(proc_root),
                words: self.words,
            });
        }
        // A TAP that does not exist would be made, with no address for the other side to be at.
        let interface = match self.transport {
            // The kernel knows it when a virtual device is attached to it.
            Carrier::Dpdk => self.kernels_end(),
            _ => Some(Interface::named(&self.interface).map_err(|e| self.refused(e))?),
        };
        let name = interface.as_ref().map_or("", Interface::name);
        // Without a link there are no networks either.
        let is_down = |it: &Interface| matches!(it.is_up(), Ok(false));
        if interface.as_ref().is_some_and(is_down) {
            return Err(self.refused(Error::Unsupported {
                device: transport,
                interface: self.interface.clone(),
                cause: "it is down".to_owned(),
                remedy: format!("switch it on: `ip link set {name} up`"),
            }));
        }
        let own = routes::attached(proc_root, name)
            .into_iter()
            .filter_map(|it| Network::new(it.address, it.prefix_bits));
        let networks: Vec<Network> = own.chain(self.networks.iter().copied()).collect();
        self.check_addresses(&networks)?;
        refuse_host_addresses(&self.addresses).map_err(|e| self.refused(e))?;
        if let Some(Ok(mtu)) = interface.as_ref().map(Interface::mtu_bytes) {
            refuse_small(transport, name, mtu, &self.addresses).map_err(|e| self.refused(e))?;
        }
        let link = link::Settings {
            interface: self.interface.clone(),
            mac: [2, 0, 0, 0, 0, 1],
            own: self.addresses.clone(),
            networks,
            gateways: self.gateways.clone(),
        };
        // A target outside the networks is refused before anything is opened.
        let mut probe = Link::new(link.clone()).map_err(|e| self.refused(e))?;
        for target in &self.targets {
            probe.resolve(*target, 0).map_err(|e| self.refused(e))?;
        }
        Ok(link)
    }

    /// The interface of this host that a virtual device of DPDK's is attached to, when it is there already.
    fn kernels_end(&self) -> Option<Interface> {
        let mut arguments = self.interface.split([',', ' ']);
        let name = arguments.find_map(|it| it.strip_prefix("iface="))?;
        Interface::named(name).ok()
    }

    fn check_addresses(&self, networks: &[Network]) -> Result<(), AttachError> {
        let Some(first) = self.addresses.first() else {
            let network = networks.first().map(ToString::to_string);
            return Err(AttachError::NoAddresses {
                transport: self.transport.name(),
                network: network.unwrap_or_default(),
                words: self.words,
            });
        };
        let address = first.first();
        let of_family = |target: &IpAddr| {
            let mut ranges = self.addresses.iter();
            ranges.any(|range| range.first().is_ipv4() == target.is_ipv4())
        };
        if let Some(&target) = self.targets.iter().find(|target| !of_family(target)) {
            return Err(AttachError::Family { address, target });
        }
        for (at, one) in self.addresses.iter().enumerate() {
            if let Some(other) = self.addresses[..at].iter().find(|it| it.overlaps(one)) {
                let (one, other) = (*other, *one);
                return Err(AttachError::Overlap { one, other });
            }
        }
        count(&self.addresses).map_err(|count| AttachError::TooMany {
            count,
            words: self.words,
        })?;
        if networks.is_empty() {
            return Err(AttachError::NoNetwork {
                interface: self.interface.clone(),
                address,
                transport: self.transport,
                words: self.words,
            });
        }
        Ok(())
    }

    /// Our addresses one by one, in the order named; at most [`ADDRESSES_MAX`] after [`Attachment::check`].
    pub fn locals(&self) -> Vec<IpAddr> {
        each(&self.addresses).collect()
    }

    /// Opens a device for each of `count` threads, on queues of their own. Frames get to the thread that owns their
    /// flow. What the process may not do is found here.
    ///
    /// # Errors
    /// [`AttachError::Stack`], also for an interface with fewer queues, and [`AttachError::NoDevice`].
    pub fn open_queues(
        &self,
        count: usize,
        owners: &Owners,
    ) -> Result<Vec<AnyDevice>, AttachError> {
        let name = self.interface.clone();
        match self.transport {
            Carrier::Tap => {
                let settings = tap::Settings {
                    name,
                    mtu_bytes: None,
                    is_offloaded: true,
                };
                self.joined(Tap::open_queues(&settings, count), owners)
            }
            Carrier::AfXdp => {
                let settings = af_xdp::Settings {
                    interface: name,
                    own: self.addresses.clone(),
                    mode: af_xdp::Mode::Best,
                };
                self.joined(AfXdp::open_queues(&settings, count), owners)
            }
            Carrier::AfPacket => {
                let settings = af_packet::Settings {
                    interface: name,
                    own: self.addresses.clone(),
                    is_offloaded: true,
                };
                let sockets = AfPacket::open_queues(&settings, count, owners);
                self.joined(sockets, owners)
            }
            #[cfg(feature = "dpdk")]
            Carrier::Dpdk => {
                let settings = dpdk::Settings {
                    device: name,
                    own: self.addresses.clone(),
                };
                self.joined(Dpdk::open_queues(&settings, count), owners)
            }
            _ => Err(self.no_device()),
        }
    }

    fn joined<D: Device + Send + 'static>(
        &self,
        devices: Result<Vec<D>, Error>,
        owners: &Owners,
    ) -> Result<Vec<AnyDevice>, AttachError> {
        let devices = devices.map_err(|cause| self.refused(cause))?;
        if devices.len() == 1 {
            return Ok(devices.into_iter().map(boxed).collect());
        }
        let joined = queues::join(devices, owners).map_err(|cause| {
            self.refused(Error::Device {
                doing: "joining the queues of",
                interface: self.interface.clone(),
                cause,
            })
        })?;
        Ok(joined.into_iter().map(boxed).collect())
    }

    /// What the stack's link or device refuses, in this attachment's words.
    pub fn refused(&self, cause: Error) -> AttachError {
        AttachError::Stack {
            transport: self.transport.name(),
            cause,
        }
    }

    fn no_device(&self) -> AttachError {
        AttachError::NoDevice {
            transport: self.transport.name(),
            words: self.words,
        }
    }
}

fn boxed<D: Device + Send + 'static>(device: D) -> AnyDevice {
    Box::new(device)
}

/// This build has the device.
fn is_known(transport: Carrier) -> bool {
    match transport {
        Carrier::Tap | Carrier::AfXdp | Carrier::AfPacket => true,
        Carrier::Dpdk => cfg!(feature = "dpdk"),
        Carrier::Kernel | Carrier::Loopback => false,
    }
}

/// The addresses of a side as its spec has them.
pub(crate) fn ranges_of(side: &Side) -> Result<Vec<AddressRange>, BadRange> {
    side.addresses.iter().map(|text| text.parse()).collect()
}

/// Networks as a spec has them.
pub(crate) fn networks_of(texts: &[String]) -> Result<Vec<Network>, BadRange> {
    texts.iter().map(|text| text.parse()).collect()
}

/// How many addresses ranges have; an error with that number when a stack does not hold so many.
pub(crate) fn count(ranges: &[AddressRange]) -> Result<u64, u64> {
    let lens = ranges.iter().map(AddressRange::len);
    let count = lens.fold(0, u64::saturating_add);
    match count <= ADDRESSES_MAX {
        true => Ok(count),
        false => Err(count),
    }
}

/// Addresses one by one, in the order of their ranges.
pub(crate) fn each(ranges: &[AddressRange]) -> impl Iterator<Item = IpAddr> {
    let each = |range: &AddressRange| {
        let range = *range;
        (0..range.len()).map(move |index| range.nth(index))
    };
    ranges.iter().flat_map(each)
}

/// Addresses that follow each other, as ranges.
pub fn ranges(addresses: &[IpAddr]) -> Vec<AddressRange> {
    let number = |ip: IpAddr| match ip {
        IpAddr::V4(ip) => u128::from(ip.to_bits()),
        IpAddr::V6(ip) => ip.to_bits(),
    };
    let mut sorted = addresses.to_vec();
    sorted.sort_unstable();
    let runs = sorted.chunk_by(|a, b| a.is_ipv4() == b.is_ipv4() && number(*b) - number(*a) <= 1);
    runs.filter_map(|run| AddressRange::new(*run.first()?, *run.last()?))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORDS: Words = Words {
        interface: "--interface",
        addresses: "--source",
        transport: "--transport",
    };

    #[test]
    fn addresses_that_follow_each_other_are_one_range() {
        let ip = |last| IpAddr::from([10, 9, 0, last]);
        let shown = |sources: &[IpAddr]| {
            let ranges = ranges(sources);
            ranges
                .iter()
                .map(|range| (range.first(), range.last()))
                .collect::<Vec<_>>()
        };
        assert_eq!(
            shown(&[ip(4), ip(2), ip(3), ip(9)]),
            [(ip(2), ip(4)), (ip(9), ip(9))]
        );
        let v6 = "fd00::1".parse().unwrap();
        assert_eq!(shown(&[v6, ip(2)]), [(ip(2), ip(2)), (v6, v6)]);
    }

    #[test]
    fn a_stack_without_what_it_needs_is_refused_with_the_remedy() {
        let check = |change: fn(&mut Attachment), text: &str, remedy: &str| {
            let mut attachment = Attachment {
                transport: Carrier::Tap,
                interface: "lo".to_owned(),
                addresses: vec!["127.9.0.2".parse().unwrap()],
                networks: vec!["127.0.0.0/8".parse().unwrap()],
                gateways: Vec::new(),
                targets: vec![IpAddr::from([127, 9, 0, 1])],
                coalesce: Nanos(0),
                words: WORDS,
            };
            change(&mut attachment);
            let error = attachment.check().unwrap_err();
            assert!(error.to_string().contains(text), "{error}");
            assert!(error.remedy().contains(remedy), "{}", error.remedy());
        };
        check(
            |a| a.interface.clear(),
            "it has no interface",
            "--interface; there are: lo",
        );
        check(
            |a| a.interface = "tpa0".to_owned(),
            "no network interface `tpa0`",
            "make it first",
        );
        check(
            |a| a.addresses.clear(),
            "addresses of its own",
            "with --source",
        );
        check(
            |a| a.addresses = vec!["::2".parse().unwrap()],
            "one is IPv4 and the other IPv6",
            "one family",
        );
        check(
            |a| a.addresses.push("127.9.0.0/30".parse().unwrap()),
            "127.9.0.2 and 127.9.0.1-127.9.0.2 overlap",
            "once",
        );
        check(
            |a| a.addresses = vec!["127.8.0.0-127.9.255.255".parse().unwrap()],
            "127.9.0.1 cannot be a target",
            "other than ours",
        );
        check(
            |a| a.addresses = vec!["100.0.0.0/8".parse().unwrap()],
            "16777214 addresses",
            "name fewer with --source",
        );
        check(
            |a| {
                a.addresses = vec!["127.0.0.1".parse().unwrap()];
            },
            "this host has 127.0.0.1",
            "that no interface",
        );
        let outside: fn(&mut Attachment) = |a| {
            a.networks = vec!["127.9.0.2/32".parse().unwrap()];
        };
        check(
            outside,
            "127.9.0.1 is outside the networks of lo",
            "gateway",
        );
        check(
            |a| a.transport = Carrier::Kernel,
            "no such device",
            "--transport tap",
        );
    }

    #[test]
    fn an_interface_without_a_network_needs_one() {
        let attachment = Attachment {
            transport: Carrier::Tap,
            interface: "tap0".to_owned(),
            addresses: vec!["10.9.0.2".parse().unwrap()],
            networks: Vec::new(),
            gateways: Vec::new(),
            targets: Vec::new(),
            coalesce: Nanos(0),
            words: WORDS,
        };
        let error = attachment.check_addresses(&[]).unwrap_err();
        assert!(error.to_string().contains("tap0 has no address"), "{error}");
        let remedy = error.remedy();
        assert!(remedy.ends_with("`ip address add ADDRESS/BITS dev tap0`"));
    }

    #[test]
    fn a_network_that_the_user_names_lets_its_addresses_be_reached() {
        let attachment = Attachment {
            transport: Carrier::Tap,
            interface: "lo".to_owned(),
            addresses: vec!["127.9.0.2-127.9.0.4".parse().unwrap()],
            networks: vec!["127.9.0.0/24".parse().unwrap()],
            gateways: Vec::new(),
            targets: vec![IpAddr::from([127, 9, 0, 1])],
            coalesce: Nanos(0),
            words: WORDS,
        };
        let link = attachment.check().unwrap();
        assert_eq!((link.own.len(), link.networks.len()), (1, 1));
        let ip = |last| IpAddr::from([127, 9, 0, last]);
        assert_eq!(attachment.locals(), [ip(2), ip(3), ip(4)]);
    }
}
