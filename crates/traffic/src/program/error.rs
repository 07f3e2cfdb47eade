//! Why traffic cannot be made, or came to an end before its time. All but the device's end is found before the first
//! packet.

use crate::load::LoadError;
use record::Nanos;
use stack::address::BadRange;
use stack::error::Error as StackError;
use std::io;
use std::net::SocketAddr;

/// Why traffic cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum ProgramError {
    /// Neither a client side nor a server side.
    #[error("the traffic has neither a client side nor a server side")]
    NoSide,
    /// A side of the spec has no device.
    #[error("the {side} side has no device")]
    NoDevice {
        /// `client` or `server`.
        side: &'static str,
    },
    /// A range of ports that cannot be divided.
    #[error(
        "the client side has {threads} threads and {ports} local ports, and each thread needs ports of its own"
    )]
    FewPorts {
        /// Threads asked for.
        threads: u32,
        /// Ports of the range.
        ports: u32,
    },
    /// Threads without a connection.
    #[error(
        "the client side has {threads} threads, and its templates have connections for {busy} at one time"
    )]
    IdleThreads {
        /// Threads asked for.
        threads: u32,
        /// Those that would have something to do.
        busy: u32,
    },
    /// Nothing to carry.
    #[error("the traffic has no template")]
    NoTemplate,
    /// More templates or targets than are counted here.
    #[error("{what}: there are {count}, and at most {most} can be told apart")]
    TooMany {
        /// Of what.
        what: String,
        /// How many.
        count: u64,
        /// How many there may be.
        most: u64,
    },
    /// A side's addresses cannot be read.
    #[error("reading the addresses of the {side} side: {cause}")]
    Addresses {
        /// `client` or `server`.
        side: &'static str,
        /// What is wrong.
        cause: BadRange,
    },
    /// A template without a target.
    #[error("the template `{template}` has no target")]
    NoTarget {
        /// The template's name.
        template: String,
    },
    /// Two templates would answer at one address.
    #[error("the templates `{one}` and `{other}` have the same target {target}")]
    SameTarget {
        /// The first template.
        one: String,
        /// The second.
        other: String,
        /// What both have.
        target: SocketAddr,
    },
    /// A rate that is none.
    #[error("the template `{template}`: {per_s} connections a second is no rate")]
    Rate {
        /// The template's name.
        template: String,
        /// As given.
        per_s: f64,
    },
    /// Something of a template cannot be done.
    #[error("the template `{template}`: {cause}")]
    Template {
        /// The template's name.
        template: String,
        /// What.
        cause: String,
    },
    /// The HTTP request of a template cannot be sent.
    #[error("the template `{template}`: {cause}")]
    Request {
        /// The template's name.
        template: String,
        /// What is wrong.
        cause: Box<LoadError>,
    },
    /// A datagram does not fit into a packet.
    #[error(
        "the template `{template}`: a datagram of {bytes} bytes does not fit into a packet of {mtu_bytes} bytes"
    )]
    DatagramTooLarge {
        /// The template's name.
        template: String,
        /// Its payload.
        bytes: u32,
        /// What the device carries.
        mtu_bytes: u16,
    },
    /// Certificates or keys cannot be used.
    #[error("the template `{template}`: TLS: {cause}")]
    Tls {
        /// The template's name.
        template: String,
        /// What is wrong.
        cause: String,
    },
    /// The stack's link refuses a side's addresses.
    #[error("the {side} side: {cause}")]
    Stack {
        /// `client` or `server`.
        side: &'static str,
        /// What is wrong.
        cause: StackError,
    },
    /// The thread of a side cannot run on its CPU.
    #[error("running the {side} side on CPU {cpu}: {cause}")]
    Pin {
        /// `client` or `server`.
        side: &'static str,
        /// Where it should run.
        cpu: u32,
        /// The kernel's words.
        cause: io::Error,
    },
    /// The thread of a side cannot be started.
    #[error("starting the thread of the {side} side: {cause}")]
    Thread {
        /// `client` or `server`.
        side: &'static str,
        /// The kernel's words.
        cause: io::Error,
    },
    /// The device went away.
    #[error("the device of the {side} side failed after {}: {cause}", seconds(.after))]
    Device {
        /// `client` or `server`.
        side: &'static str,
        /// When, from the beginning.
        after: Nanos,
        /// The kernel's words.
        cause: io::Error,
    },
    /// The thread of a side ended by a fault of its own.
    #[error("the thread of the {side} side ended by a fault of prony's own")]
    Panicked {
        /// `client` or `server`.
        side: &'static str,
    },
}

fn seconds(after: &Nanos) -> String {
    format!("{:.1} s", after.0 as f64 / 1e9)
}

impl ProgramError {
    /// What to do about it; empty when nothing can be done.
    pub fn remedy(&self) -> String {
        match self {
            ProgramError::NoSide | ProgramError::NoDevice { .. } => {
                "describe a client side, a server side or both".to_owned()
            }
            ProgramError::FewPorts { ports, .. } => {
                format!("widen `ports` of [client], or use at most {ports} threads")
            }
            ProgramError::IdleThreads { busy, .. } => {
                format!("use {busy} threads, or raise `concurrent` and `count`")
            }
            ProgramError::NoTemplate => "add a template: what a connection carries".to_owned(),
            ProgramError::TooMany { .. } => "name fewer, or several runs".to_owned(),
            ProgramError::Addresses { .. } | ProgramError::Panicked { .. } => String::new(),
            ProgramError::NoTarget { .. } => {
                "name at least one address and port to connect to".to_owned()
            }
            ProgramError::SameTarget { .. } => {
                "give each template addresses or ports of its own: the server side tells templates by them"
                    .to_owned()
            }
            ProgramError::Rate { .. } => "name a rate above 0".to_owned(),
            ProgramError::Template { .. } => "change the template".to_owned(),
            ProgramError::Request { cause, .. } => cause.remedy(),
            ProgramError::DatagramTooLarge { mtu_bytes, .. } => format!(
                "at most {} bytes fit; packets are not cut into fragments",
                mtu_bytes.saturating_sub(48)
            ),
            ProgramError::Tls { .. } => {
                "give a certificate chain and its key in PEM, or none: then one is made for the run"
                    .to_owned()
            }
            ProgramError::Stack { cause, .. } => cause.remedy(),
            ProgramError::Pin { .. } => "name a CPU that this process may run on".to_owned(),
            ProgramError::Thread { .. } => "allow this process more threads".to_owned(),
            ProgramError::Device { .. } => {
                "see whether the interface still exists and is up".to_owned()
            }
        }
    }
}
