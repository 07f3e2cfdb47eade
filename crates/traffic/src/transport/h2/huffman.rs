//! The Huffman code of header strings (RFC 7541 5.2, appendix B).
//!
//! The code is canonical: within a length the codes count up in the order of the symbols. So the lengths alone are
//! the table, and a symbol is found by its rank within its length.

/// Length of the code of each symbol in bits; the end-of-string symbol, which never occurs, has 30.
#[rustfmt::skip]
const LENGTHS: [u8; 256] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28,
    28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 28,
    6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6,
    5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10,
    13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7,
    7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6,
    15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5,
    6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28,
    20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23,
    24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24,
    22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23,
    21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23,
    26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25,
    19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27,
    20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23,
    26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26,
];

const LENGTH_MAX: usize = 30;

/// Symbols in the order of their codes, and for each length the first code and where its symbols begin.
struct Table {
    symbols: [u8; 256],
    first_code: [u32; LENGTH_MAX + 2],
    first_rank: [u16; LENGTH_MAX + 2],
}

static TABLE: Table = table();

const fn table() -> Table {
    let mut table = Table {
        symbols: [0; 256],
        first_code: [0; LENGTH_MAX + 2],
        first_rank: [0; LENGTH_MAX + 2],
    };
    let (mut code, mut rank, mut length) = (0_u32, 0_u16, 1);
    while length <= LENGTH_MAX {
        table.first_code[length] = code;
        table.first_rank[length] = rank;
        let mut symbol = 0;
        while symbol < 256 {
            if LENGTHS[symbol] as usize == length {
                table.symbols[rank as usize] = symbol as u8;
                rank += 1;
                code += 1;
            }
            symbol += 1;
        }
        code <<= 1;
        length += 1;
    }
    table.first_rank[LENGTH_MAX + 1] = rank;
    table
}

/// Calls `each` with every decoded byte; false when the bytes are no string of this code: a symbol is unknown, or
/// the padding is not the beginning of the end-of-string symbol, or as long as a byte.
pub(super) fn decode(bytes: &[u8], mut each: impl FnMut(u8)) -> bool {
    let (mut code, mut length) = (0_u32, 0_usize);
    for byte in bytes {
        for bit in (0..8).rev() {
            code = code << 1 | u32::from(byte >> bit & 1);
            length += 1;
            if length > LENGTH_MAX {
                return false;
            }
            let count = TABLE.first_rank[length + 1] - TABLE.first_rank[length];
            let offset = code.wrapping_sub(TABLE.first_code[length]);
            if code >= TABLE.first_code[length] && offset < u32::from(count) {
                let rank = u32::from(TABLE.first_rank[length]) + offset;
                each(TABLE.symbols[rank as usize]);
                (code, length) = (0, 0);
            }
        }
    }
    length < 8 && code == (1 << length) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(bytes: &[u8]) -> Option<String> {
        let mut out = Vec::new();
        decode(bytes, |byte| out.push(byte)).then(|| String::from_utf8(out).unwrap())
    }

    /// The examples of RFC 7541 appendix C.4 and C.6.
    #[test]
    fn the_examples_of_the_specification() {
        for (bytes, text) in [
            (
                &[
                    0xf1, 0xe3, 0xc2, 0xe5, 0xf2, 0x3a, 0x6b, 0xa0, 0xab, 0x90, 0xf4, 0xff,
                ][..],
                "www.example.com",
            ),
            (&[0xa8, 0xeb, 0x10, 0x64, 0x9c, 0xbf], "no-cache"),
            (&[0x64, 0x02], "302"),
            (&[0x64, 0x0e, 0xff], "307"),
            (&[0xae, 0xc3, 0x77, 0x1a, 0x4b], "private"),
            (
                &[
                    0xd0, 0x7a, 0xbe, 0x94, 0x10, 0x54, 0xd4, 0x44, 0xa8, 0x20, 0x05, 0x95, 0x04,
                    0x0b, 0x81, 0x66, 0xe0, 0x82, 0xa6, 0x2d, 0x1b, 0xff,
                ],
                "Mon, 21 Oct 2013 20:13:21 GMT",
            ),
            (&[], ""),
        ] {
            assert_eq!(decoded(bytes).as_deref(), Some(text));
        }
    }

    #[test]
    fn padding_is_short_and_all_ones() {
        assert_eq!(decoded(&[0b0000_0111]).as_deref(), Some("0"));
        assert_eq!(decoded(&[0b0000_0110]), None, "a zero in the padding");
        assert_eq!(decoded(&[0b0000_0111, 0xff]), None, "a byte of padding");
        assert_eq!(
            decoded(&[0xff, 0xff, 0xff, 0xff]),
            None,
            "the end of string itself"
        );
    }
}
