//! Why a load cannot start. All of it is found before the first connection is opened.

use crate::user_space::AttachError;
use record::Nanos;
use std::io;
use std::net::{IpAddr, SocketAddr};

const HOUR_NS: u64 = 3_600_000_000_000;

/// Why a load cannot start.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The URL is not one.
    #[error("reading the URL `{url}`: {cause}")]
    Url {
        /// As typed.
        url: String,
        /// What the parser says.
        cause: url::ParseError,
    },
    /// A scheme other than `http`, `https`, `ws` and `wss`.
    #[error("reading the URL `{url}`: the scheme is `{scheme}`, known are http, https, ws and wss")]
    Scheme {
        /// As typed.
        url: String,
        /// What stands before `://`.
        scheme: String,
    },
    /// The URL names a user.
    #[error("reading the URL `{url}`: it holds a user name or password, which is not supported")]
    Credentials {
        /// As typed.
        url: String,
    },
    /// The host's name has no address.
    #[error("resolving `{host}`: {cause}")]
    Resolve {
        /// The host's name.
        host: String,
        /// What the resolver says.
        cause: io::Error,
    },
    /// The host has no address that can be reached from the sources.
    #[error("resolving `{host}`: no address of the family of the source address {source_address}")]
    NoAddressOfFamily {
        /// The host's name.
        host: String,
        /// The first source.
        source_address: IpAddr,
    },
    /// The method is not a token.
    #[error("reading the method `{method}`: it must be letters, digits and !#$%&'*+-.^_`|~ only")]
    Method {
        /// As typed.
        method: String,
    },
    /// A header cannot be sent.
    #[error("reading the header `{name}: {value}`: {cause}")]
    Header {
        name: String,
        value: String,
        /// What is wrong.
        cause: &'static str,
    },
    /// The body's file cannot be read.
    #[error("reading the request body from `{path}`: {cause}")]
    BodyFile {
        /// As typed.
        path: String,
        /// What the system says.
        cause: io::Error,
    },
    /// A quantity that must not be zero, or must be a finite number.
    #[error("reading the load: {what} is {value}, which is no load at all")]
    NotPositive {
        /// The quantity.
        what: &'static str,
        value: String,
    },
    /// Neither a duration nor a number of requests.
    #[error(
        "reading the load: it has neither a duration nor a number of requests, so it would never end"
    )]
    NoEnd,
    /// What is asked for cannot be had in this HTTP.
    #[error("choosing the protocol: {what} cannot be had: {why}")]
    Http {
        /// What was asked for.
        what: &'static str,
        why: &'static str,
        /// What to do.
        remedy: &'static str,
    },
    /// What is asked for cannot be had over WebSocket.
    #[error("speaking WebSocket: {what} cannot be had: {why}")]
    WebSocket {
        /// What was asked for.
        what: &'static str,
        why: &'static str,
        /// What to do.
        remedy: &'static str,
    },
    /// What is asked for cannot be had of a stream of server-sent events.
    #[error("awaiting server-sent events: {what} cannot be had: {why}")]
    Sse {
        /// What was asked for.
        what: &'static str,
        why: &'static str,
        /// What to do.
        remedy: &'static str,
    },
    /// What is asked for cannot be had over a Unix socket.
    #[error("connecting to a Unix socket: {what} cannot be had: {why}")]
    Unix {
        /// What was asked for.
        what: &'static str,
        why: &'static str,
        /// What to do.
        remedy: &'static str,
    },
    /// What is asked for cannot be had on the way that the load is to take.
    #[error("choosing the load's way: {what} cannot be had: {why}")]
    Way {
        /// What was asked for.
        what: &'static str,
        why: &'static str,
        /// What to do.
        remedy: &'static str,
    },
    /// io_uring was asked for, and the kernel refuses it.
    #[error("choosing the engine `uring`: the kernel refuses io_uring: {cause}")]
    Engine {
        /// What the kernel said.
        cause: io::Error,
    },
    /// More connections than open files.
    #[error(
        "cannot open {connections} connections: the process may have {limit} open files and keeps {reserved} for itself"
    )]
    DescriptorLimit {
        /// Asked for.
        connections: u32,
        /// The hard limit, to which the soft one has been raised.
        limit: u64,
        /// What the rest of the process needs.
        reserved: u64,
    },
    /// More connections than local ports.
    #[error(
        "cannot open {connections} connections to {server}: the local port range has {ports} ports for each of {sources} source address(es) and {time_wait} are in TIME_WAIT"
    )]
    LocalPorts {
        /// Asked for.
        connections: u32,
        /// Where to.
        server: SocketAddr,
        /// Ports in `net.ipv4.ip_local_port_range`.
        ports: u64,
        /// Addresses to connect from.
        sources: usize,
        /// Sockets in TIME_WAIT on this host.
        time_wait: u64,
    },
    /// A source address that is not this host's.
    #[error("binding to the source address {address}: {cause}")]
    Source {
        address: IpAddr,
        /// What the system says.
        cause: io::Error,
    },
    /// A source address of the other family.
    #[error("the source address {address} cannot reach {server}: one is IPv4 and the other IPv6")]
    SourceFamily {
        address: IpAddr,
        /// Where to.
        server: SocketAddr,
    },
    /// A CPU that this process may not use.
    #[error(
        "pinning a load thread to CPU {cpu}: this process may use {}",
        list(allowed)
    )]
    Cpu {
        cpu: u32,
        /// Those allowed.
        allowed: Vec<u32>,
    },
    /// No root certificate can be read.
    #[error(
        "reading the system's root certificates: none found{}",
        because(complaints)
    )]
    NoRoots {
        /// What the system says.
        complaints: Vec<String>,
    },
    /// TLS cannot be set up.
    #[error("setting up TLS for `{host}`: {cause}")]
    Tls {
        /// The host's name.
        host: String,
        /// What the library says.
        cause: rustls::Error,
    },
    /// A certificate or key cannot be read.
    #[error("reading `{path}` for TLS: {cause}")]
    Pem {
        /// As typed.
        path: String,
        /// What is wrong.
        cause: String,
    },
    /// The host's name cannot stand in a certificate.
    #[error("setting up TLS for `{host}`: it is neither a DNS name nor an IP address")]
    ServerName {
        /// The host's name.
        host: String,
    },
    /// A timeout below what the load loop can tell apart.
    #[error(
        "reading the load: the timeout is {timeout}, and the shortest that can be kept is 1 ms"
    )]
    Timeout {
        /// As asked.
        timeout: Nanos,
    },
    /// A duration or warm-up whose end the clock could not hold.
    #[error(
        "reading the load: {what} is {} hours, and the longest that is taken is 8760 hours (a year)",
        asked.0 / HOUR_NS
    )]
    TooLong {
        /// The quantity.
        what: &'static str,
        asked: Nanos,
    },
    /// A stack in user space cannot attach.
    #[error(transparent)]
    Attach(#[from] AttachError),
    /// A workload that cannot be sent.
    #[error("reading the workload: {what}: {cause}")]
    Workload {
        /// Where in it.
        what: String,
        /// What is wrong.
        cause: String,
        remedy: String,
    },
    /// The system refuses a thread or an epoll instance.
    #[error("starting the load: {what}: {cause}")]
    Start {
        /// What was being made.
        what: &'static str,
        /// What the system says.
        cause: io::Error,
    },
}

fn list(cpus: &[u32]) -> String {
    let names: Vec<String> = cpus.iter().map(ToString::to_string).collect();
    names.join(", ")
}

fn because(complaints: &[String]) -> String {
    complaints
        .first()
        .map(|first| format!(" ({first})"))
        .unwrap_or_default()
}

impl LoadError {
    /// What to do about it.
    pub fn remedy(&self) -> String {
        match self {
            LoadError::Url { .. } => "write it as http://host:port/path".to_owned(),
            LoadError::Scheme { url, scheme } => scheme_remedy(url, scheme),
            LoadError::Credentials { .. } => {
                "pass them as a header: -H 'Authorization: Basic ...'".to_owned()
            }
            LoadError::Resolve { .. } => {
                "check the name, or use the server's IP address with -H 'Host: name'".to_owned()
            }
            LoadError::NoAddressOfFamily { .. } | LoadError::SourceFamily { .. } => {
                "use source addresses and a server address of one family".to_owned()
            }
            LoadError::Method { .. } => "use a method such as GET, HEAD or POST".to_owned(),
            LoadError::Header { .. } => {
                "write headers as -H 'Name: value', one line each".to_owned()
            }
            LoadError::BodyFile { .. } => "check the path and its permissions".to_owned(),
            LoadError::NotPositive { what, .. } => format!("give {what} above zero"),
            LoadError::NoEnd => {
                "give a duration (-d 10s) or a number of requests (-n 1000)".to_owned()
            }
            LoadError::Attach(cause) => cause.remedy(),
            LoadError::Http { remedy, .. }
            | LoadError::WebSocket { remedy, .. }
            | LoadError::Sse { remedy, .. }
            | LoadError::Unix { remedy, .. }
            | LoadError::Way { remedy, .. } => (*remedy).to_owned(),
            LoadError::Workload { remedy, .. } => remedy.clone(),
            LoadError::Engine { .. } => {
                format!("use --engine epoll; {}", super::engine::REMEDY)
            }
            LoadError::DescriptorLimit { limit, .. } => format!(
                "ask for fewer connections, or raise the hard limit above {limit} (ulimit -Hn as root, LimitNOFILE= in a systemd unit)"
            ),
            LoadError::LocalPorts { server, .. } => format!(
                "widen net.ipv4.ip_local_port_range, or add source addresses{}",
                if server.ip().is_loopback() && server.is_ipv4() {
                    " with --source 127.0.0.2-127.0.0.9"
                } else {
                    " with --source"
                }
            ),
            LoadError::Source { address, .. } => {
                format!("give the address to an interface first: ip address add {address} dev ...")
            }
            LoadError::Cpu { .. } => "choose from those with --cpus".to_owned(),
            LoadError::NoRoots { .. } => {
                "install the package ca-certificates, set SSL_CERT_FILE, or use --insecure"
                    .to_owned()
            }
            LoadError::Tls { .. } => {
                "use --insecure for a certificate that nobody signed".to_owned()
            }
            LoadError::Pem { .. } => {
                "give PEM files: --cert with the certificate, --key with its key, --cacert with those to trust"
                    .to_owned()
            }
            LoadError::ServerName { .. } => "use a DNS name or an IP address".to_owned(),
            LoadError::Timeout { .. } => "use --timeout 1ms or more".to_owned(),
            LoadError::TooLong { what, .. } => {
                format!(
                    "shorten {what}; a load is ended at any time with Ctrl-C, and keeps what it measured"
                )
            }
            LoadError::Start { .. } => {
                "raise the limits of processes and open files (ulimit -u, ulimit -n)".to_owned()
            }
        }
    }
}

/// `localhost:8080` parses as scheme `localhost`; a misspelt scheme is near one of the known.
fn scheme_remedy(url: &str, scheme: &str) -> String {
    if !url.contains("://") {
        return format!("did you mean http://{url}?");
    }
    let near = match (scheme.starts_with('w'), scheme.ends_with('s')) {
        (true, true) => "wss",
        (true, false) => "ws",
        (false, true) => "https",
        (false, false) => "http",
    };
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    format!("did you mean {near}://{rest}?")
}
