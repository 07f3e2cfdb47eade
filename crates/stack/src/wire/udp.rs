//! UDP headers (RFC 768): read out of any bytes, written with their checksum.

use super::checksum::Sum;

/// Protocol number.
pub const PROTOCOL: u8 = 17;
/// Length of a header.
pub const HEADER_BYTES: usize = 8;
/// Where the checksum stands.
pub const CHECKSUM_AT: usize = 6;

/// A header as read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// From.
    pub source_port: u16,
    /// To.
    pub destination_port: u16,
    /// Header and payload.
    pub len: usize,
    /// As it stands there; 0 is none, which only IPv4 allows.
    pub checksum: u16,
}

/// Reads a header; `None` when the bytes are none. Whether all of the datagram is there is not asked.
pub fn read(bytes: &[u8]) -> Option<Header> {
    let &[s0, s1, d0, d1, l0, l1, c0, c1] = bytes.first_chunk::<HEADER_BYTES>()?;
    let len = usize::from(u16::from_be_bytes([l0, l1]));
    (len >= HEADER_BYTES).then(|| Header {
        source_port: u16::from_be_bytes([s0, s1]),
        destination_port: u16::from_be_bytes([d0, d1]),
        len,
        checksum: u16::from_be_bytes([c0, c1]),
    })
}

/// Writes a header whose checksum field holds `checksum`.
pub fn write(into: &mut [u8; HEADER_BYTES], header: &Header) {
    into[..2].copy_from_slice(&header.source_port.to_be_bytes());
    into[2..4].copy_from_slice(&header.destination_port.to_be_bytes());
    into[4..6].copy_from_slice(&(header.len as u16).to_be_bytes());
    into[6..].copy_from_slice(&header.checksum.to_be_bytes());
}

/// The field for a sum over pseudo header and datagram: 0 would say that there is none (RFC 768).
pub fn field(sum: Sum) -> u16 {
    match sum.finish() {
        0 => 0xffff,
        field => field,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::damage::any_bytes;

    #[test]
    fn reads_what_it_wrote() {
        let header = Header {
            source_port: 10_000,
            destination_port: 53,
            len: 20,
            checksum: 0xbeef,
        };
        let mut bytes = [0; HEADER_BYTES];
        write(&mut bytes, &header);
        assert_eq!(read(&bytes), Some(header));
        assert_eq!(read(&bytes[..7]), None);
        write(&mut bytes, &Header { len: 7, ..header });
        assert_eq!(read(&bytes), None, "shorter than its header");
    }

    #[test]
    fn any_bytes_are_read_without_harm() {
        any_bytes(17, |bytes| {
            if let Some(header) = read(bytes) {
                assert!(header.len >= HEADER_BYTES);
            }
        });
    }

    #[test]
    fn a_checksum_of_nothing_is_written_as_all_ones() {
        assert_eq!(field(Sum::ZERO.word(0xffff)), 0xffff);
        assert_eq!(field(Sum::ZERO.word(0x0102)), 0xfefd);
    }
}
