//! The header that stands before a frame where it is handed over with what is left to do (`struct virtio_net_hdr`,
//! virtio 1.2, 5.1.6).

use crate::frame::{Checksum, PartialChecksum, RxMeta, TxMeta};

/// Its length.
pub const BYTES: usize = 10;

const NEEDS_CSUM: u8 = 1;
const DATA_VALID: u8 = 2;
const GSO_TCPV4: u8 = 1;
const GSO_TCPV6: u8 = 4;
/// Beside the kind: the first segment has CWR, the others not.
const GSO_ECN: u8 = 0x80;

/// What the header before a received frame says.
pub fn read(header: &[u8; BYTES]) -> RxMeta {
    let is_segmented = matches!(header[1] & !GSO_ECN, GSO_TCPV4 | GSO_TCPV6);
    RxMeta {
        checksum: match header[0] {
            flags if flags & NEEDS_CSUM != 0 => Checksum::Partial,
            flags if flags & DATA_VALID != 0 => Checksum::Valid,
            _ => Checksum::Unknown,
        },
        segment_bytes: if is_segmented {
            u16::from_le_bytes([header[4], header[5]])
        } else {
            0
        },
        at_ns: 0,
    }
}

/// The header before a frame that is sent.
pub fn write(meta: &TxMeta) -> [u8; BYTES] {
    let mut header = [0; BYTES];
    if meta.segment_bytes > 0 {
        header[1] = if meta.is_ipv6 { GSO_TCPV6 } else { GSO_TCPV4 };
        header[2..4].copy_from_slice(&meta.header_bytes.to_le_bytes());
        header[4..6].copy_from_slice(&meta.segment_bytes.to_le_bytes());
    }
    if let Some(PartialChecksum { start, offset }) = meta.checksum {
        header[0] = NEEDS_CSUM;
        header[6..8].copy_from_slice(&start.to_le_bytes());
        header[8..].copy_from_slice(&offset.to_le_bytes());
    }
    header
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_those_of_virtio() {
        let meta = TxMeta {
            checksum: Some(PartialChecksum {
                start: 34,
                offset: 16,
            }),
            segment_bytes: 1448,
            header_bytes: 66,
            is_ipv6: false,
        };
        let bytes = write(&meta);
        assert_eq!(bytes, [1, 1, 66, 0, 0xa8, 0x05, 34, 0, 16, 0]);
        let seen = read(&bytes);
        assert_eq!(
            (seen.checksum, seen.segment_bytes),
            (Checksum::Partial, 1448)
        );
        assert_eq!(write(&TxMeta::default()), [0; 10]);
        assert_eq!(read(&[0; 10]), RxMeta::PLAIN);
        let valid = read(&[2, 0x84, 0, 0, 1, 1, 0, 0, 0, 0]);
        assert_eq!(
            (valid.checksum, valid.segment_bytes),
            (Checksum::Valid, 257)
        );
    }
}
