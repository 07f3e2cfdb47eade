//! Frames (RFC 9113 4.1, 6): their heads, and those that a client writes.

/// Length of a frame's head.
pub(super) const HEAD_BYTES: usize = 9;
/// What a client sends first (RFC 9113 3.4).
pub(super) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// The largest payload that either side may send unless it is told otherwise (RFC 9113 4.2); ours stays so.
pub(super) const PAYLOAD_MAX: usize = 16_384;
/// The largest window (RFC 9113 6.9.1).
pub(super) const WINDOW_MAX: u32 = (1 << 31) - 1;
/// The window of a connection and of a stream unless it is told otherwise (RFC 9113 6.9.2).
pub(super) const WINDOW_FIRST: u32 = 65_535;
/// The largest number of a stream, which is odd for a client's.
pub(super) const STREAM_MAX: u32 = WINDOW_MAX;

/// Types of frames.
pub(super) mod kind {
    pub const DATA: u8 = 0;
    pub const HEADERS: u8 = 1;
    pub const RST_STREAM: u8 = 3;
    pub const SETTINGS: u8 = 4;
    pub const PUSH_PROMISE: u8 = 5;
    pub const PING: u8 = 6;
    pub const GOAWAY: u8 = 7;
    pub const WINDOW_UPDATE: u8 = 8;
    pub const CONTINUATION: u8 = 9;
}

/// Flags of frames.
pub(super) mod flag {
    pub const ACK: u8 = 0x1;
    pub const END_STREAM: u8 = 0x1;
    pub const END_HEADERS: u8 = 0x4;
    pub const PADDED: u8 = 0x8;
    pub const PRIORITY: u8 = 0x20;
}

/// Numbers of settings.
pub(super) mod setting {
    pub const HEADER_TABLE_SIZE: u16 = 1;
    pub const ENABLE_PUSH: u16 = 2;
    pub const MAX_CONCURRENT_STREAMS: u16 = 3;
    pub const INITIAL_WINDOW_SIZE: u16 = 4;
    pub const MAX_FRAME_SIZE: u16 = 5;
}

/// Codes of RST_STREAM and GOAWAY (RFC 9113 7).
pub(super) mod code {
    pub const NO_ERROR: u32 = 0;
    pub const PROTOCOL_ERROR: u32 = 1;
    pub const REFUSED_STREAM: u32 = 7;
    pub const CANCEL: u32 = 8;
}

/// Name of a code.
pub(in crate::transport) fn name_of(code: u32) -> &'static str {
    match code {
        0 => "NO_ERROR",
        1 => "PROTOCOL_ERROR",
        2 => "INTERNAL_ERROR",
        3 => "FLOW_CONTROL_ERROR",
        4 => "SETTINGS_TIMEOUT",
        5 => "STREAM_CLOSED",
        6 => "FRAME_SIZE_ERROR",
        7 => "REFUSED_STREAM",
        8 => "CANCEL",
        9 => "COMPRESSION_ERROR",
        10 => "CONNECT_ERROR",
        11 => "ENHANCE_YOUR_CALM",
        12 => "INADEQUATE_SECURITY",
        13 => "HTTP_1_1_REQUIRED",
        _ => "a code that is not in RFC 9113",
    }
}

/// The head of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    /// Of the payload.
    pub len: usize,
    pub kind: u8,
    pub flags: u8,
    /// 0 is the connection.
    pub stream: u32,
}

impl Head {
    /// Reads the head at the front of at least [`HEAD_BYTES`] bytes.
    #[inline]
    pub fn read(bytes: &[u8]) -> Option<Head> {
        let &[a, b, c, kind, flags, d, e, f, g, ..] = bytes else {
            return None;
        };
        Some(Head {
            len: usize::from(a) << 16 | usize::from(b) << 8 | usize::from(c),
            kind,
            flags,
            stream: u32::from_be_bytes([d & 0x7f, e, f, g]),
        })
    }

    /// It has a flag.
    pub fn has(self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

/// Appends the head of a frame.
#[inline]
pub(super) fn put_head(out: &mut Vec<u8>, len: usize, kind: u8, flags: u8, stream: u32) {
    let [_, a, b, c] = (len as u32).to_be_bytes();
    let [d, e, f, g] = stream.to_be_bytes();
    out.extend_from_slice(&[a, b, c, kind, flags, d, e, f, g]);
}

/// Appends a frame whose payload is one number.
pub(super) fn put_number(out: &mut Vec<u8>, kind: u8, stream: u32, number: u32) {
    put_head(out, 4, kind, 0, stream);
    out.extend_from_slice(&number.to_be_bytes());
}

/// Appends SETTINGS.
pub(super) fn put_settings(out: &mut Vec<u8>, settings: &[(u16, u32)]) {
    put_head(out, 6 * settings.len(), kind::SETTINGS, 0, 0);
    for (number, value) in settings {
        out.extend_from_slice(&number.to_be_bytes());
        out.extend_from_slice(&value.to_be_bytes());
    }
}

/// Appends a client's GOAWAY: it has taken no stream of the server's.
pub(super) fn put_goaway(out: &mut Vec<u8>, code: u32) {
    put_head(out, 8, kind::GOAWAY, 0, 0);
    out.extend_from_slice(&0_u32.to_be_bytes());
    out.extend_from_slice(&code.to_be_bytes());
}

/// The first number of a payload.
pub(super) fn number(payload: &[u8]) -> Option<u32> {
    payload.first_chunk().map(|four| u32::from_be_bytes(*four))
}
