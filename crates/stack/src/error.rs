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
}

impl From<Error> for io::Error {
    fn from(error: Error) -> Self {
        io::Error::other(error)
    }
}

impl Error {
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
        }
    }
}
