//! The Internet checksum (RFC 1071), whole, in parts, and changed in place (RFC 1624).
//!
//! A [`Sum`] is not complemented and not folded: sums of parts are added, and [`Sum::finish`] makes the field. The
//! order of bytes does not matter to the algorithm (RFC 1071 2.B), so words are read as the machine has them and
//! the field is swapped once, at the end. A part that begins at an odd offset is swapped on its way in.

use std::net::{Ipv4Addr, Ipv6Addr};

/// A sum in the making, in the machine's byte order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum(u64);

impl Sum {
    /// The sum of nothing.
    pub const ZERO: Sum = Sum(0);

    /// Adds bytes that begin at an even offset.
    #[inline]
    pub fn bytes(self, bytes: &[u8]) -> Sum {
        let mut sum = self.0;
        let (words, rest) = bytes.as_chunks::<4>();
        // 32-bit words into 64 bits: no carry is lost before 16 GiB.
        for word in words {
            sum += u64::from(u32::from_ne_bytes(*word));
        }
        let mut tail = [0; 4];
        tail[..rest.len()].copy_from_slice(rest);
        Sum(sum + u64::from(u32::from_ne_bytes(tail)))
    }

    /// Adds a number of 16 bits as it stands on the wire.
    #[inline]
    pub fn word(self, word: u16) -> Sum {
        Sum(self.0 + u64::from(word.to_be()))
    }

    /// Adds a sum of bytes that follow `offset` others.
    #[inline]
    pub fn part(self, part: Sum, offset: usize) -> Sum {
        let folded = u64::from(part.fold());
        let folded = if offset % 2 == 1 {
            u64::from((folded as u16).swap_bytes())
        } else {
            folded
        };
        Sum(self.0 + folded)
    }

    fn fold(self) -> u16 {
        let mut sum = self.0;
        while sum >> 16 != 0 {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        sum as u16
    }

    /// The sum as a number, not complemented: what the field holds when a device is to finish it.
    #[inline]
    pub fn partial(self) -> u16 {
        u16::from_be(self.fold())
    }

    /// The checksum field.
    #[inline]
    pub fn finish(self) -> u16 {
        !self.partial()
    }
}

/// The pseudo header of IPv4 (RFC 9293 3.1).
pub fn pseudo_v4(source: Ipv4Addr, destination: Ipv4Addr, protocol: u8, len: usize) -> Sum {
    Sum::ZERO
        .bytes(&source.octets())
        .bytes(&destination.octets())
        .word(u16::from(protocol))
        .word(len as u16)
}

/// The pseudo header of IPv6 (RFC 8200 8.1).
pub fn pseudo_v6(source: &Ipv6Addr, destination: &Ipv6Addr, protocol: u8, len: usize) -> Sum {
    Sum::ZERO
        .bytes(&source.octets())
        .bytes(&destination.octets())
        .word(u16::from(protocol))
        .bytes(&(len as u32).to_be_bytes())
}

/// The field after one word under it has changed (RFC 1624 equation 3).
pub fn update(field: u16, old: u16, new: u16) -> u16 {
    let sum = u32::from(!field) + u32::from(!old) + u32::from(new);
    let sum = (sum & 0xffff) + (sum >> 16);
    let sum = (sum & 0xffff) + (sum >> 16);
    !(sum as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_rfc_1071() {
        let bytes = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(Sum::ZERO.bytes(&bytes).partial(), 0xddf2);
    }

    #[test]
    fn a_header_with_its_checksum_sums_to_nothing() {
        let mut header = [
            0x45, 0, 0, 0x73, 0, 0, 0x40, 0, 0x40, 0x11, 0, 0, 192, 168, 0, 1, 192, 168, 0, 199,
        ];
        let field = Sum::ZERO.bytes(&header).finish();
        assert_eq!(field, 0xb861);
        header[10..12].copy_from_slice(&field.to_be_bytes());
        assert_eq!(Sum::ZERO.bytes(&header).finish(), 0);
    }

    #[test]
    fn parts_add_up_wherever_they_are_cut() {
        let bytes: Vec<u8> = (0..97u32).map(|i| (i * 71 + 5) as u8).collect();
        let whole = Sum::ZERO.bytes(&bytes).finish();
        for cut in 0..=bytes.len() {
            let (a, b) = bytes.split_at(cut);
            let parts = Sum::ZERO.bytes(a).part(Sum::ZERO.bytes(b), cut).finish();
            assert_eq!(parts, whole, "cut at {cut}");
        }
    }

    #[test]
    fn a_change_in_place_is_the_sum_of_the_changed_bytes() {
        let mut bytes = [0x12, 0x34, 0xff, 0xff, 0x00, 0x00, 0xab, 0xcd];
        for new in [0u16, 1, 0x00ff, 0xfffe, 0xffff] {
            let before = Sum::ZERO.bytes(&bytes).finish();
            let old = u16::from_be_bytes([bytes[2], bytes[3]]);
            bytes[2..4].copy_from_slice(&new.to_be_bytes());
            let after = Sum::ZERO.bytes(&bytes).finish();
            assert_eq!(update(before, old, new), after, "{old:#x} to {new:#x}");
        }
    }

    #[test]
    fn pseudo_headers_hold_addresses_protocol_and_length() {
        let v4 = pseudo_v4([1, 2, 3, 4].into(), [5, 6, 7, 8].into(), 6, 20);
        let bytes = [1, 2, 3, 4, 5, 6, 7, 8, 0, 6, 0, 20];
        assert_eq!(v4.finish(), Sum::ZERO.bytes(&bytes).finish());
        let (a, b) = (Ipv6Addr::LOCALHOST, Ipv6Addr::UNSPECIFIED);
        let mut bytes = [0; 40];
        bytes[15] = 1;
        bytes[32..36].copy_from_slice(&70_000u32.to_be_bytes());
        bytes[39] = 6;
        assert_eq!(
            pseudo_v6(&a, &b, 6, 70_000).finish(),
            Sum::ZERO.bytes(&bytes).finish()
        );
    }
}
