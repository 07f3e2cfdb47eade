//! TCP headers (RFC 9293 3.1) and their options: MSS, window scale and timestamps (RFC 7323), SACK (RFC 2018).
//!
//! An option that is cut off or whose length is wrong ends the list; what came before it counts (RFC 9293 3.2
//! leaves the rest open, and Linux does the same).

/// Length of a header without options.
pub const HEADER_BYTES: usize = 20;
/// Protocol number of TCP.
pub const PROTOCOL: u8 = 6;

/// Bits of [`Segment::flags`].
pub mod flag {
    /// Last segment of its direction.
    pub const FIN: u8 = 0x01;
    /// First segment of its direction.
    pub const SYN: u8 = 0x02;
    /// The connection is no more.
    pub const RST: u8 = 0x04;
    /// Hand it on at once.
    pub const PSH: u8 = 0x08;
    /// The acknowledgement field counts.
    pub const ACK: u8 = 0x10;
    /// The urgent pointer counts; ignored here (RFC 6093).
    pub const URG: u8 = 0x20;
    /// Congestion was seen on the way here (RFC 3168).
    pub const ECE: u8 = 0x40;
    /// The sender has reduced its window (RFC 3168).
    pub const CWR: u8 = 0x80;
}

/// SACK blocks in one header: four without timestamps, three with them.
pub const SACK_MAX: usize = 4;

/// Edges of a range of sequence numbers: from, and up to but without.
pub type Edges = (u32, u32);

/// A header with its options.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Segment {
    /// Port of the sender.
    pub source_port: u16,
    /// Port of the receiver.
    pub destination_port: u16,
    /// Number of the first byte (or of the SYN).
    pub seq: u32,
    /// The next number that the sender expects.
    pub ack: u32,
    /// See [`flag`].
    pub flags: u8,
    /// As it stands in the field, not scaled.
    pub window: u16,
    /// Largest segment that the sender takes; 0 when it does not say.
    pub mss: u16,
    /// By how much windows are shifted.
    pub window_scale: Option<u8>,
    /// TSval and TSecr.
    pub timestamps: Option<(u32, u32)>,
    /// The sender understands SACK.
    pub sack_permitted: bool,
    /// The first [`Segment::sack_count`] are blocks that the sender holds.
    pub sack: [Edges; SACK_MAX],
    /// How many.
    pub sack_count: u8,
}

impl Segment {
    /// All of these flags are set.
    #[inline]
    pub fn has(&self, flags: u8) -> bool {
        self.flags & flags == flags
    }

    /// The SACK blocks.
    pub fn sack_blocks(&self) -> &[Edges] {
        &self.sack[..usize::from(self.sack_count)]
    }

    /// Length of the header that [`write()`] makes of it.
    #[inline]
    pub fn header_bytes(&self) -> usize {
        // See `write`: two bytes before each, outside a SYN.
        let filler = if self.has(flag::SYN) { 0 } else { 2 };
        let mut options = 0;
        if self.mss != 0 {
            options += 4;
        }
        if self.sack_permitted {
            options += 2;
        }
        if self.window_scale.is_some() {
            options += 3;
        }
        if self.timestamps.is_some() {
            options += 10 + filler;
        }
        if self.sack_count > 0 {
            options += filler + 2 + 8 * usize::from(self.sack_count);
        }
        HEADER_BYTES + options.next_multiple_of(4)
    }
}

fn word16(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

fn word32(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// Reads a header; also says where the payload begins. `None` when the bytes are no header.
#[inline]
pub fn read(bytes: &[u8]) -> Option<(Segment, usize)> {
    let fixed: &[u8; HEADER_BYTES] = bytes.first_chunk()?;
    let header_bytes = usize::from(fixed[12] >> 4) * 4;
    let options = bytes.get(HEADER_BYTES..header_bytes)?;
    let mut segment = Segment {
        source_port: word16(fixed, 0),
        destination_port: word16(fixed, 2),
        seq: word32(fixed, 4),
        ack: word32(fixed, 8),
        flags: fixed[13],
        window: word16(fixed, 14),
        ..Segment::default()
    };
    // What nearly all segments of a connection with timestamps carry.
    if options.len() == 12 && options[..4] == [1, 1, 8, 10] {
        segment.timestamps = Some((word32(options, 4), word32(options, 8)));
    } else if !options.is_empty() {
        read_options(options, &mut segment);
    }
    Some((segment, header_bytes))
}

fn read_options(mut options: &[u8], segment: &mut Segment) {
    const END: u8 = 0;
    const NOTHING: u8 = 1;
    while let Some(&kind) = options.first() {
        if kind == END {
            return;
        }
        if kind == NOTHING {
            options = &options[1..];
            continue;
        }
        let len = options.get(1).map_or(0, |len| usize::from(*len));
        if len < 2 || len > options.len() {
            return;
        }
        let (option, rest) = options.split_at(len);
        match (kind, len) {
            (2, 4) => segment.mss = word16(option, 2),
            (3, 3) => segment.window_scale = Some(option[2]),
            (4, 2) => segment.sack_permitted = true,
            (5, 10..) if (len - 2).is_multiple_of(8) => {
                for block in option[2..].chunks_exact(8).take(SACK_MAX) {
                    let edges = (word32(block, 0), word32(block, 4));
                    segment.sack[usize::from(segment.sack_count)] = edges;
                    segment.sack_count += 1;
                    if usize::from(segment.sack_count) == SACK_MAX {
                        break;
                    }
                }
            }
            (8, 10) => segment.timestamps = Some((word32(option, 2), word32(option, 6))),
            _ => {}
        }
        options = rest;
        if usize::from(segment.sack_count) == SACK_MAX {
            return;
        }
    }
}

/// Writes the header and its options, checksum 0, and returns its length.
///
/// # Panics
///
/// When `into` is shorter than [`Segment::header_bytes`].
#[inline]
pub fn write(into: &mut [u8], segment: &Segment) -> usize {
    let len = segment.header_bytes();
    into[0..2].copy_from_slice(&segment.source_port.to_be_bytes());
    into[2..4].copy_from_slice(&segment.destination_port.to_be_bytes());
    into[4..8].copy_from_slice(&segment.seq.to_be_bytes());
    into[8..12].copy_from_slice(&segment.ack.to_be_bytes());
    into[12] = ((len / 4) << 4) as u8;
    into[13] = segment.flags;
    into[14..16].copy_from_slice(&segment.window.to_be_bytes());
    into[16..20].fill(0);
    let mut at = HEADER_BYTES;
    let mut put = |bytes: &[u8]| {
        into[at..at + bytes.len()].copy_from_slice(bytes);
        at += bytes.len();
    };
    if segment.mss != 0 {
        put(&[2, 4]);
        put(&segment.mss.to_be_bytes());
    }
    let plain = segment.flags & flag::SYN == 0;
    if let Some((value, echo)) = segment.timestamps {
        // Outside a SYN the two words stand on their boundaries (RFC 7323 appendix A).
        if plain {
            put(&[1, 1]);
        }
        put(&[8, 10]);
        put(&value.to_be_bytes());
        put(&echo.to_be_bytes());
    }
    if segment.sack_permitted {
        put(&[4, 2]);
    }
    if let Some(shift) = segment.window_scale {
        put(&[3, 3, shift]);
    }
    if segment.sack_count > 0 {
        if plain {
            put(&[1, 1]);
        }
        put(&[5, 2 + 8 * segment.sack_count]);
        for (from, to) in segment.sack_blocks() {
            put(&from.to_be_bytes());
            put(&to.to_be_bytes());
        }
    }
    into[at..len].fill(0);
    len
}

/// Where the checksum stands in a header.
pub const CHECKSUM_AT: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    #[test]
    fn reads_what_it_wrote() {
        let mut random = Random::new(7);
        for round in 0..20_000 {
            let mut chance = |n: u32| random.below(n) == 0;
            let (mss, scale, stamps, sack) = (chance(2), chance(2), chance(2), chance(2));
            let count = if sack && !mss {
                random.below(4) as u8
            } else {
                0
            };
            let edges = (random.next_u32(), random.next_u32());
            let mut segment = Segment {
                source_port: random.next_u32() as u16,
                destination_port: random.next_u32() as u16,
                seq: random.next_u32(),
                ack: random.next_u32(),
                flags: random.next_u32() as u8,
                window: random.next_u32() as u16,
                mss: if mss {
                    1 + random.below(65_000) as u16
                } else {
                    0
                },
                window_scale: (scale && count == 0).then(|| random.below(15) as u8),
                timestamps: stamps.then(|| (random.next_u32(), random.next_u32())),
                sack_permitted: sack && count == 0,
                sack: [(0, 0); SACK_MAX],
                sack_count: count,
            };
            segment.sack[..usize::from(count)].fill(edges);
            let mut bytes = [0xee; 64];
            let len = write(&mut bytes, &segment);
            assert!(len <= 60 && len == segment.header_bytes(), "round {round}");
            assert_eq!(read(&bytes[..len]), Some((segment, len)), "round {round}");
        }
    }

    #[test]
    fn any_bytes_are_read_without_a_panic() {
        let mut random = Random::new(11);
        let mut bytes = [0; 60];
        for _ in 0..200_000 {
            bytes.fill_with(|| random.next_u32() as u8);
            // Mostly options: kinds and lengths that exist.
            for byte in &mut bytes[20..] {
                if random.below(2) == 0 {
                    *byte = random.below(12) as u8;
                }
            }
            let len = random.below(61) as usize;
            if let Some((segment, header)) = read(&bytes[..len]) {
                assert!(header <= len && usize::from(segment.sack_count) <= SACK_MAX);
            }
        }
    }

    #[test]
    fn a_broken_option_ends_the_list_and_what_came_before_counts() {
        let check = |options: &[u8], mss: u16, scale: Option<u8>| {
            let mut bytes = vec![0; 20];
            bytes.extend(options);
            bytes.resize(20 + options.len().div_ceil(4) * 4, 0);
            bytes[12] = ((bytes.len() / 4) << 4) as u8;
            let (segment, _) = read(&bytes).unwrap();
            assert_eq!((segment.mss, segment.window_scale), (mss, scale));
        };
        check(&[2, 4, 5, 180, 3, 3, 7], 1460, Some(7));
        check(&[2, 4, 5, 180, 3, 0, 7], 1460, None);
        check(&[2, 4, 5, 180, 3, 200, 7], 1460, None);
        check(&[2, 3, 5, 3, 3, 7], 0, Some(7));
        check(&[0, 2, 4, 5, 180], 0, None);
        check(&[254, 4, 0, 0, 3, 3, 2], 0, Some(2));
    }
}
