//! Frames of RFC 6455 as a client sends them.
//!
//! The surprise: the load loop's bytes are whole frames whose mask is zero, and who sends them puts a mask of its own
//! in. So a message is framed once and masked as often as it is sent.

use super::frame::{CONTROL_MAX, FIN, MASKED, opcode};

/// Most bytes before the payload.
const HEAD_MAX: usize = 14;
const MASK_BYTES: usize = 4;

/// The opcode of a message.
pub(crate) const fn opcode_of(is_binary: bool) -> u8 {
    if is_binary {
        opcode::BINARY
    } else {
        opcode::TEXT
    }
}

/// Writes what stands before a payload of `len` bytes: one whole frame, its mask zero.
pub(crate) fn put_head(out: &mut Vec<u8>, opcode: u8, len: usize) {
    out.push(FIN | opcode);
    match len {
        0..=125 => out.push(MASKED | len as u8),
        126..=0xffff => {
            out.push(MASKED | 126);
            out.extend_from_slice(&(len as u16).to_be_bytes());
        }
        _ => {
            out.push(MASKED | 127);
            out.extend_from_slice(&(len as u64).to_be_bytes());
        }
    }
    out.extend_from_slice(&[0; MASK_BYTES]);
}

/// A message as the load loop hands it out.
pub(crate) fn framed(payload: &[u8], is_binary: bool) -> Vec<u8> {
    let mut out = Vec::with_capacity(HEAD_MAX + payload.len());
    put_head(&mut out, opcode_of(is_binary), payload.len());
    out.extend_from_slice(payload);
    out
}

/// Length of the head and of all of the frame that begins here, by [`put_head`]; `None` when it is cut off.
pub(super) fn extent(frame: &[u8]) -> Option<(usize, usize)> {
    let (head, len) = match frame.get(1)? & !MASKED {
        126 => {
            let len = frame.get(2..4)?.try_into().ok()?;
            (4, u16::from_be_bytes(len) as usize)
        }
        127 => {
            let len = frame.get(2..10)?.try_into().ok()?;
            (10, usize::try_from(u64::from_be_bytes(len)).ok()?)
        }
        len => (2, len as usize),
    };
    let head = head + MASK_BYTES;
    (frame.len() >= head).then_some((head, head.checked_add(len)?))
}

/// Copies bytes of a frame to `to`, masked by `mask`; `at` is where in the frame they begin, `head` the length of its
/// head. `from` and `to` are of one length.
pub(super) fn copy_masked(to: &mut [u8], from: &[u8], mask: [u8; 4], at: usize, head: usize) {
    to.copy_from_slice(from);
    let mask_at = head - MASK_BYTES;
    for (i, byte) in to.iter_mut().enumerate().take(head.saturating_sub(at)) {
        if at + i >= mask_at {
            *byte = mask[at + i - mask_at];
        }
    }
    let payload = head.saturating_sub(at).min(to.len());
    mask_payload(
        &mut to[payload..],
        mask,
        (at + payload).saturating_sub(head),
    );
}

/// RFC 6455 5.3, for bytes that begin `at` bytes behind the payload's first.
fn mask_payload(bytes: &mut [u8], mut mask: [u8; 4], at: usize) {
    mask.rotate_left(at % MASK_BYTES);
    let word = u64::from(u32::from_ne_bytes(mask));
    let word = word << 32 | word;
    let (words, rest) = bytes.as_chunks_mut::<8>();
    for bytes in words {
        *bytes = (u64::from_ne_bytes(*bytes) ^ word).to_ne_bytes();
    }
    for (i, byte) in rest.iter_mut().enumerate() {
        *byte ^= mask[i % MASK_BYTES];
    }
}

/// A control frame of the client's, held inline.
#[derive(Clone, Copy, Debug)]
pub(super) struct Control {
    bytes: [u8; 2 + MASK_BYTES + CONTROL_MAX],
    len: u8,
    sent: u8,
}

impl Control {
    /// Nothing to be sent.
    pub const NONE: Control = Control {
        bytes: [0; 2 + MASK_BYTES + CONTROL_MAX],
        len: 0,
        sent: 0,
    };

    /// A frame with this payload of at most [`CONTROL_MAX`] bytes.
    pub fn new(opcode: u8, payload: &[u8], mask: [u8; 4]) -> Control {
        let mut control = Control::NONE;
        let head = 2 + MASK_BYTES;
        let len = payload.len().min(CONTROL_MAX);
        control.bytes[0] = FIN | opcode;
        control.bytes[1] = MASKED | len as u8;
        control.bytes[2..head].copy_from_slice(&mask);
        control.bytes[head..head + len].copy_from_slice(&payload[..len]);
        mask_payload(&mut control.bytes[head..head + len], mask, 0);
        control.len = (head + len) as u8;
        control
    }

    /// What of it is not sent yet.
    pub fn unsent(&self) -> &[u8] {
        &self.bytes[usize::from(self.sent)..usize::from(self.len)]
    }

    /// So many bytes more are sent.
    pub fn advance(&mut self, taken: usize) {
        self.sent += taken as u8;
    }

    /// It is sent in part: nothing else may be sent before the rest of it.
    pub fn is_under_way(&self) -> bool {
        self.sent > 0 && self.sent < self.len
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As a server takes the mask off again.
    fn unmasked(bytes: &[u8]) -> Vec<u8> {
        let (head, len) = extent(bytes).unwrap();
        assert_eq!(len, bytes.len());
        let mask: Vec<u8> = bytes[head - 4..head].to_vec();
        let payload = bytes[head..].iter().zip(mask.iter().cycle());
        payload.map(|(byte, mask)| byte ^ mask).collect()
    }

    #[test]
    fn a_message_is_masked_however_it_leaves() {
        let mask = [1, 2, 3, 4];
        for len in [0, 1, 7, 8, 9, 125, 126, 300, 65_536] {
            let payload: Vec<u8> = (0..len).map(|i| (i % 251) as u8).collect();
            let frame = framed(&payload, false);
            let (head, whole) = extent(&frame).unwrap();
            assert_eq!((frame[0], whole), (0x81, frame.len()));
            for piece in [1, 3, 64, usize::MAX] {
                let mut sent = Vec::new();
                while sent.len() < whole {
                    let at = sent.len();
                    let n = piece.min(whole - at);
                    let mut to = vec![0; n];
                    copy_masked(&mut to, &frame[at..at + n], mask, at, head);
                    sent.extend(to);
                }
                assert_eq!(sent[head - 4..head], mask);
                assert_eq!(unmasked(&sent), payload);
            }
        }
        assert_eq!(framed(b"", true)[0], 0x82);
        // RFC 6455 5.7: a masked "Hello".
        let mask = [0x37, 0xfa, 0x21, 0x3d];
        let pong = Control::new(opcode::PONG, b"Hello", mask);
        let expected = [
            0x8a, 0x85, 0x37, 0xfa, 0x21, 0x3d, 0x7f, 0x9f, 0x4d, 0x51, 0x58,
        ];
        assert_eq!(pong.unsent(), expected);
    }
}
