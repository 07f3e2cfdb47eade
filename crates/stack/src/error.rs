//! Why a device cannot be opened or an address not be reached, and what to do about it.

use std::io;
use std::net::IpAddr;

/// What was being done, with what, and what stood in the way.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Nobody has said to be that address.
    #[error(
        "cannot reach {address} through {interface}: unanswered {protocol}, nobody answers for {next_hop} \
         after {tries} requests"
    )]
    Unanswered {
        /// `ARP` or `neighbour solicitation`.
        protocol: &'static str,
        /// Where a packet should have gone.
        address: IpAddr,
        /// Who was asked for: that address or the gateway.
        next_hop: IpAddr,
        /// The interface.
        interface: String,
        /// How often it was asked.
        tries: u32,
    },
    /// The address is in none of the interface's networks, and no gateway was named.
    #[error("{address} is outside the networks of {interface} ({networks})")]
    OutsideNetwork {
        /// The address.
        address: IpAddr,
        /// The interface.
        interface: String,
        /// Its networks, as people write them.
        networks: String,
    },
    /// A packet cannot be sent there.
    #[error("{address} cannot be a target: {cause}")]
    BadTarget {
        /// The address.
        address: IpAddr,
        /// What it is instead.
        cause: &'static str,
    },
    /// The stack's own addresses or gateways do not fit together.
    #[error("the addresses for {interface} do not fit: {cause}")]
    BadAddresses {
        /// The interface.
        interface: String,
        /// What is wrong.
        cause: String,
    },
    /// There is no such interface in this network namespace.
    #[error("there is no network interface `{interface}`; there are {}", listed(.known))]
    NoInterface {
        /// As it was asked for.
        interface: String,
        /// Those that there are.
        known: Vec<String>,
    },
    /// The process may not.
    #[error("{doing} {interface} needs {capability}, which this process does not have")]
    NotPermitted {
        /// What was being done.
        doing: &'static str,
        /// The interface.
        interface: String,
        /// `CAP_NET_ADMIN`, ...
        capability: &'static str,
    },
    /// The kernel itself has an address of the range.
    #[error("the addresses {range} cannot be ours: this host has {address} on {interface}")]
    HostAddress {
        /// The range that was asked for.
        range: String,
        /// The host's address in it.
        address: IpAddr,
        /// The interface that has it.
        interface: String,
    },
    /// Somebody else uses what is needed.
    #[error("{interface} is in use: {cause}")]
    Busy {
        /// The interface.
        interface: String,
        /// By what.
        cause: String,
        /// What would free it.
        remedy: String,
    },
    /// The interface, its driver or the kernel cannot do it.
    #[error("{device} cannot be used on {interface}: {cause}")]
    Unsupported {
        /// `af_xdp`, ...
        device: &'static str,
        /// The interface.
        interface: String,
        /// What is missing.
        cause: String,
        /// What would work.
        remedy: String,
    },
    /// A system call failed for another reason.
    #[error("{doing} {interface}: {cause}")]
    Device {
        /// What was being done.
        doing: &'static str,
        /// The interface.
        interface: String,
        /// The kernel's words.
        cause: io::Error,
    },
}

fn listed(names: &[String]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    quoted.join(", ")
}

impl From<Error> for io::Error {
    fn from(error: Error) -> Self {
        io::Error::other(error)
    }
}

impl Error {
    /// What a failed system call on an interface is.
    pub(crate) fn device(doing: &'static str, interface: &str, cause: io::Error) -> Self {
        Error::Device {
            doing,
            interface: interface.to_owned(),
            cause,
        }
    }

    /// As [`Error::device`]; when the kernel did not permit it, `capability` is what is missing.
    pub(crate) fn privileged(
        doing: &'static str,
        interface: &str,
        capability: &'static str,
        cause: io::Error,
    ) -> Self {
        match cause.kind() {
            io::ErrorKind::PermissionDenied => Error::NotPermitted {
                doing,
                interface: interface.to_owned(),
                capability,
            },
            _ => Self::device(doing, interface, cause),
        }
    }

    /// What would help.
    pub fn remedy(&self) -> String {
        match self {
            Error::Unanswered {
                next_hop,
                interface,
                ..
            } => format!(
                "check that a host with {next_hop} is on the network of {interface} and that the link is up"
            ),
            Error::OutsideNetwork { .. } => {
                "name the gateway that leads there, if that network may be loaded".to_owned()
            }
            Error::BadTarget { .. } => "name an address of one host other than ours".to_owned(),
            Error::BadAddresses { .. } => {
                "give addresses that lie in the interface's own networks".to_owned()
            }
            Error::NoInterface { .. } => {
                "name one of these, or make it first (`ip link` lists them)".to_owned()
            }
            Error::NotPermitted { capability, .. } => {
                format!(
                    "run as root, or give the program {capability} (setcap, systemd AmbientCapabilities)"
                )
            }
            Error::HostAddress { address, .. } => format!(
                "choose addresses that no interface of this host has, or remove {address} from it: the kernel would \
                 reset our connections"
            ),
            Error::Busy { remedy, .. } | Error::Unsupported { remedy, .. } => remedy.clone(),
            Error::Device { .. } => {
                "see whether the interface is still there and up (`ip link`)".to_owned()
            }
        }
    }
}
