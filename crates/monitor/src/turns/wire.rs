//! An event of the trace, as `bpf/turns.bpf.c` declares it.
//!
//! In the flow: the reader copies them, everything else is worked out of the list when the trace is over. The surprise:
//! which member means what depends on the kind; the kernel's side says it beside each.

/// Bytes of a thread's name.
pub(super) const NAME: usize = 16;
/// Bytes of an event that is followed by the path of a Unix socket.
pub(super) const NAMED_BYTES: usize = size_of::<Event>() + 112;

/// What happened, in the kernel's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Kind {
    Arrived,
    Received,
    Sent,
    Connecting,
    Established,
    Closed,
    Switched,
    Waking,
    Named,
    Forked,
    Ended,
}

impl Kind {
    const ALL: [Self; 11] = [
        Self::Arrived,
        Self::Received,
        Self::Sent,
        Self::Connecting,
        Self::Established,
        Self::Closed,
        Self::Switched,
        Self::Waking,
        Self::Named,
        Self::Forked,
        Self::Ended,
    ];
}

/// What a descriptor or a socket is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Class {
    #[default]
    None,
    Client,
    Upstream,
    UnixClient,
    UnixUpstream,
    Udp,
    File,
    Pipe,
    Poll,
    Other,
}

impl Class {
    const ALL: [Self; 10] = [
        Self::None,
        Self::Client,
        Self::Upstream,
        Self::UnixClient,
        Self::UnixUpstream,
        Self::Udp,
        Self::File,
        Self::Pipe,
        Self::Poll,
        Self::Other,
    ];

    /// A connection that the target was asked on.
    pub(super) fn is_client(self) -> bool {
        matches!(self, Self::Client | Self::UnixClient)
    }

    /// A socket on which the target asks.
    pub(super) fn is_upstream(self) -> bool {
        matches!(self, Self::Upstream | Self::UnixUpstream | Self::Udp)
    }
}

/// The connection was not accepted yet when this arrived.
pub(super) const UNACCEPTED: u8 = 1;
/// The thread that left the CPU was still ready to run.
pub(super) const PREEMPTED: u8 = 2;
/// The thread that left the CPU is a target's.
pub(super) const LEFT: u8 = 4;
/// The thread that came onto the CPU is a target's.
pub(super) const CAME: u8 = 8;
/// It waits in a poll of no descriptor, which is a sleep.
pub(super) const IDLE: u8 = 16;
/// The waker is a thread of the kernel.
pub(super) const KERNEL: u8 = 32;
/// The thread turned to connections that are not followed.
pub(super) const UNFOLLOWED: u8 = 64;

/// The peer of a socket pair.
pub(super) const UNNAMED: &str = "a Unix socket";

/// One event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub(super) struct Event {
    pub at_ns: u64,
    pub sk: u64,
    /// Who received or sent; who left the CPU; who is woken; who began or ended.
    pub tid: u32,
    pub tgid: u32,
    /// Who came onto the CPU; who wakes; the parent.
    pub other_tid: u32,
    pub other_tgid: u32,
    /// System call of the one who left, or of the one who wakes; -1 for none.
    pub nr: i32,
    /// Bytes; state of the one who left.
    pub value: u32,
    pub kind: u8,
    pub class: u8,
    pub flags: u8,
    pub family: u8,
    /// The target's own; number of the CPU of a switch.
    pub port: u16,
    pub peer_port: u16,
    /// Name of the other thread, or the peer's address.
    pub name: [u8; NAME],
}

const _: () = assert!(size_of::<Event>() == 64);

impl Event {
    /// Reads one as it lies in the ring; `None` when it is cut.
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let u64_at = |at: usize| Some(u64::from_ne_bytes(*bytes.get(at..)?.first_chunk()?));
        let u32_at = |at: usize| Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?));
        let u16_at = |at: usize| Some(u16::from_ne_bytes(*bytes.get(at..)?.first_chunk()?));
        Some(Self {
            at_ns: u64_at(0)?,
            sk: u64_at(8)?,
            tid: u32_at(16)?,
            tgid: u32_at(20)?,
            other_tid: u32_at(24)?,
            other_tgid: u32_at(28)?,
            nr: u32_at(32)?.cast_signed(),
            value: u32_at(36)?,
            kind: *bytes.get(40)?,
            class: *bytes.get(41)?,
            flags: *bytes.get(42)?,
            family: *bytes.get(43)?,
            port: u16_at(44)?,
            peer_port: u16_at(46)?,
            name: *bytes.get(48..)?.first_chunk()?,
        })
    }

    pub(super) fn kind(&self) -> Option<Kind> {
        Kind::ALL.get(usize::from(self.kind)).copied()
    }

    pub(super) fn class(&self) -> Class {
        let known = Class::ALL.get(usize::from(self.class)).copied();
        known.unwrap_or(Class::Other)
    }

    pub(super) fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// Name of the other thread.
    pub(super) fn other_name(&self) -> String {
        text(&self.name)
    }

    /// `address:port` of the peer, from an event that introduces a socket.
    pub(super) fn peer(&self, path: &[u8]) -> String {
        use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
        let [a, b, c, d, ..] = self.name;
        let address = match self.family {
            2 => IpAddr::V4(Ipv4Addr::new(a, b, c, d)),
            10 => IpAddr::V6(Ipv6Addr::from(self.name)).to_canonical(),
            _ => {
                let path = text(path);
                return if path.is_empty() {
                    UNNAMED.to_owned()
                } else {
                    format!("unix:{path}")
                };
            }
        };
        if self.class() == Class::Udp && self.peer_port == 0 {
            return "udp".to_owned();
        }
        let address = SocketAddr::new(address, self.peer_port);
        if self.class() == Class::Udp {
            return format!("udp {address}");
        }
        address.to_string()
    }
}

/// Text up to the first zero byte.
pub(super) fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|&byte| byte == 0);
    String::from_utf8_lossy(&bytes[..end.unwrap_or(bytes.len())]).into_owned()
}
