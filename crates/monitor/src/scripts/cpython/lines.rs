//! Which line an instruction of CPython belongs to, by the table of its code.
//!
//! In the flow: asked for the frame of the application that was met. The surprise: three versions have a table of their
//! own kind each (`Objects/lnotab_notes.txt` of 3.9 and 3.10, `Objects/locations.md` since 3.11), and an instruction
//! may belong to no line.

/// How a version writes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Table {
    /// 3.9: pairs of how many bytes further, and how many lines.
    Increments,
    /// 3.10: pairs of a range's length in bytes, and how many lines it lies further.
    Ranges,
    /// 3.11 and later: entries that begin with a byte whose highest bit is set.
    Locations,
}

/// No line, in a table of ranges.
const NO_LINE: i8 = -128;

/// The line of the instruction at `offset` bytes of its code, whose first line is `first`; `None` where it has none.
pub(super) fn line(table: Table, bytes: &[u8], first: u32, offset: u32) -> Option<u32> {
    let mut line = i64::from(first);
    let offset = u64::from(offset);
    let found = match table {
        Table::Increments => {
            let mut at = 0;
            for pair in bytes.chunks_exact(2) {
                at += u64::from(pair[0]);
                if at > offset {
                    break;
                }
                line += i64::from(pair[1].cast_signed());
            }
            line
        }
        Table::Ranges => {
            let mut end = 0;
            let mut met = None;
            for pair in bytes.chunks_exact(2) {
                end += u64::from(pair[0]);
                let further = pair[1].cast_signed();
                line += if further == NO_LINE {
                    0
                } else {
                    i64::from(further)
                };
                if offset < end {
                    met = (further != NO_LINE).then_some(line);
                    break;
                }
            }
            met?
        }
        Table::Locations => {
            let mut end = 0;
            let entries = bytes.chunk_by(|_, next| next & 0x80 == 0);
            let mut met = None;
            for entry in entries {
                // A code unit has two bytes.
                end += 2 * u64::from((entry[0] & 7) + 1);
                let further = further(entry);
                line += further.unwrap_or(0);
                if offset < end {
                    met = further.map(|_| line);
                    break;
                }
            }
            met?
        }
    };
    u32::try_from(found).ok()
}

/// How many lines further an entry of locations lies; `None` for one without a line.
fn further(entry: &[u8]) -> Option<i64> {
    match entry[0] >> 3 & 15 {
        0..=9 => Some(0),
        // One line, the difference in the code.
        code @ 10..=12 => Some(i64::from(code) - 10),
        13 | 14 => Some(signed(&entry[1..])),
        _ => None,
    }
}

/// A number of variable length: six bits a byte, the lowest first; the seventh says that more follow, the lowest bit of
/// all is the sign.
fn signed(bytes: &[u8]) -> i64 {
    let length = bytes.iter().take_while(|byte| *byte & 0x40 != 0).count() + 1;
    let digits = bytes.iter().take(length.min(10)).rev();
    let value = digits.fold(0, |value, byte| value << 6 | i64::from(byte & 0x3f));
    match value & 1 {
        0 => value >> 1,
        _ => -(value >> 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(table: Table, bytes: &[u8], offsets: &[u32]) -> Vec<Option<u32>> {
        offsets
            .iter()
            .map(|&at| line(table, bytes, 10, at))
            .collect()
    }

    #[test]
    fn each_versions_table_is_read() {
        // Two bytes of line 10, then 11, then back to 10 at byte 6.
        let increments = [2, 1, 4, 0xff];
        assert_eq!(
            lines(Table::Increments, &increments, &[0, 2, 4, 6, 90]),
            [Some(10), Some(11), Some(11), Some(10), Some(10)]
        );
        // Bytes 0 to 3 of line 11, 4 and 5 of none, 6 and 7 of line 9.
        let ranges = [4, 1, 2, 0x80, 2, 0xfe];
        assert_eq!(
            lines(Table::Ranges, &ranges, &[0, 2, 4, 6, 8]),
            [Some(11), Some(11), None, Some(9), None]
        );
        // Short at the first line, one line further in one unit, two units 100 lines further without columns, none.
        let locations = [0x80, 0x11, 0xd8, 0x12, 0x13, 0xe9, 0x40 | 0x08, 0x03, 0xf8];
        assert_eq!(
            lines(Table::Locations, &locations, &[0, 2, 4, 6, 8]),
            [Some(10), Some(11), Some(111), Some(111), None]
        );
        assert_eq!(signed(&[0x40 | 0x09, 0x03]), -100);
        assert_eq!(signed(&[0x06]), 3);
        assert_eq!(signed(&[]), 0);
        assert_eq!(lines(Table::Locations, &[], &[0]), [None]);
    }
}
