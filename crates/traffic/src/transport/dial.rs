//! Where the kernel's sockets lead, and how a socket is made for it: what the engines have in common.

use super::Failure;
use crate::sys::{self, Blocking, Descriptor, RawAddress};
use std::net::{IpAddr, SocketAddr};

/// What the connections of a load lead to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// An address of TCP.
    Tcp(SocketAddr),
    /// The path of a Unix socket.
    Unix(String),
}

impl Place {
    /// The address of TCP; a Unix socket has none.
    pub fn address(&self) -> Option<SocketAddr> {
        match self {
            Place::Tcp(address) => Some(*address),
            Place::Unix(_) => None,
        }
    }
}

/// Where to and where from.
#[derive(Clone, Debug)]
pub(crate) struct Endpoint {
    pub server: Place,
    /// Local addresses, used in turn; empty leaves the choice to the kernel.
    pub sources: Vec<IpAddr>,
    /// Connections carry one request each, of one segment: there is nothing that it could be delayed behind, so
    /// `TCP_NODELAY` is not set, and the last acknowledgement of the handshake goes with it instead of ahead of it.
    pub one_segment: bool,
    /// Size of the sockets' receive buffers, bytes; `None` leaves it to the kernel.
    pub receive_buffer: Option<i32>,
}

/// Makes the sockets of one load thread.
pub(super) struct Dialler {
    pub server: RawAddress,
    sources: Vec<RawAddress>,
    next_source: usize,
    one_segment: bool,
    receive_buffer: Option<i32>,
    /// The socket is of TCP.
    pub is_tcp: bool,
    /// System calls made.
    pub syscalls: u64,
}

impl Dialler {
    /// `first_source` spreads the threads over the sources.
    pub fn new(endpoint: &Endpoint, first_source: usize) -> Self {
        let raw = |&ip: &IpAddr| SocketAddr::new(ip, 0).into();
        Dialler {
            // A path that the kernel does not take was refused before; nowhere answers EINVAL, which is reported.
            server: match &endpoint.server {
                Place::Tcp(address) => (*address).into(),
                Place::Unix(path) => RawAddress::unix(path).unwrap_or_else(RawAddress::none),
            },
            sources: endpoint.sources.iter().map(raw).collect(),
            next_source: first_source,
            one_segment: endpoint.one_segment,
            receive_buffer: endpoint.receive_buffer,
            is_tcp: endpoint.server.address().is_some(),
            syscalls: 0,
        }
    }

    fn call<T>(&mut self, result: T) -> T {
        self.syscalls += 1;
        result
    }

    /// A socket with its options and its local address, ready to connect.
    pub fn socket(&mut self, blocking: Blocking) -> Result<Descriptor, Failure> {
        let failed = |call| move |errno| Failure::connect(call, errno);
        let socket = self
            .call(sys::stream_socket(self.server.family(), blocking))
            .map_err(failed("socket"))?;
        if !self.is_tcp {
            return Ok(socket);
        }
        if let Some(bytes) = self.receive_buffer {
            // The window is scaled by it when the connection is opened.
            self.call(sys::set_receive_buffer(socket.raw(), bytes))
                .map_err(failed("setsockopt SO_RCVBUF"))?;
        }
        if !self.one_segment {
            self.call(sys::set_no_delay(socket.raw()))
                .map_err(failed("setsockopt TCP_NODELAY"))?;
        }
        if !self.sources.is_empty() {
            let source = self.sources[self.next_source % self.sources.len()];
            self.next_source += 1;
            self.call(sys::set_bind_address_no_port(socket.raw()))
                .map_err(failed("setsockopt IP_BIND_ADDRESS_NO_PORT"))?;
            self.call(sys::bind(socket.raw(), &source))
                .map_err(failed("bind"))?;
        }
        self.delay_acknowledgement(&socket);
        Ok(socket)
    }

    /// Before each connection of a socket: how it acknowledges is forgotten with the one before.
    pub fn delay_acknowledgement(&mut self, socket: &Descriptor) {
        if self.one_segment {
            // Refused, it costs a packet.
            let _ = self.call(sys::set_delayed_acknowledgement(socket.raw()));
        }
    }
}
