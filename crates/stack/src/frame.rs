//! A frame on its way between a device and the stack, and what each side has left undone.
//!
//! Devices that segment and checksum for us (TAP with `vnet_hdr`) carry *super-segments*: one TCP header and up to
//! 64 KiB of payload that a wire would see as many packets. Both directions may, so a frame says how long its
//! segments are. Nothing here copies or allocates.

/// What a device says of the checksums of a frame that it received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checksum {
    /// Nothing: the stack verifies. A TCP field that holds only the sum of the pseudo header is accepted and
    /// counted (kernel peers on veth leave it so).
    Unknown,
    /// The device has verified them.
    Valid,
    /// Only the sum of the pseudo header is there; the sender was on this host and nothing could have been damaged.
    Partial,
}

/// What comes with a received frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RxMeta {
    /// Of its checksums.
    pub checksum: Checksum,
    /// Payload bytes of each segment that was merged into it, 0 when it is one packet.
    pub segment_bytes: u16,
    /// When the device saw it, nanoseconds of the monotonic clock; 0 when the device does not say.
    pub at_ns: u64,
}

impl RxMeta {
    /// A packet of which the device says nothing.
    pub const PLAIN: RxMeta = RxMeta {
        checksum: Checksum::Unknown,
        segment_bytes: 0,
        at_ns: 0,
    };
}

/// A received frame: its bytes in the device's memory, valid for the call that hands it out.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    /// The first piece; all headers lie in it.
    pub head: &'a [u8],
    /// Further pieces, in order (multi-buffer AF_XDP); empty for most devices.
    pub rest: &'a [&'a [u8]],
    /// What the device says of it.
    pub meta: RxMeta,
}

impl Frame<'_> {
    /// Bytes of all pieces.
    pub fn len(&self) -> usize {
        self.head.len() + self.rest.iter().map(|piece| piece.len()).sum::<usize>()
    }

    /// There is no byte in it.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// What the stack leaves for the device to do with a frame that it sends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TxMeta {
    /// Sum from `start` (offset in the frame) to its end and put it at `start + offset`; the field holds the sum of
    /// the pseudo header. `None`: all checksums are whole.
    pub checksum: Option<PartialChecksum>,
    /// Cut the TCP payload into segments of so many bytes; 0 for a frame that is one packet.
    pub segment_bytes: u16,
    /// Length of all headers (link, IP, TCP), for a device that segments.
    pub header_bytes: u16,
    /// The IP version is 6.
    pub is_ipv6: bool,
}

/// Where a checksum is still to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartialChecksum {
    /// First byte of the sum, from the beginning of the frame.
    pub start: u16,
    /// Where the sum is put, from `start`.
    pub offset: u16,
}
