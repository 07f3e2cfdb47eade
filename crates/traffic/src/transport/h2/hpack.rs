//! Header compression (RFC 7541), cut to what a load needs.
//!
//! Of a response only `:status` matters, so the table of the decoder remembers of an entry its size
//! and what it means, and no text. Responses repeat: a block that is byte for byte the last one means the same, unless
//! the table has changed in between. nginx inserts all its fields anew with every response and never refers to them;
//! such a block is not entered into the table each time either, but counted, and entered when a block comes that
//! may refer to it.
//!
//! Requests are encoded once and sent many times: with the first request of a connection its fields enter the server's
//! table, and all later ones are an index a field. See [`Request`](super::request::Request).

use super::huffman;
use std::collections::VecDeque;

/// The size of a dynamic table unless a SETTINGS frame says otherwise, here and at the peer (RFC 9113 6.5.2).
pub(super) const TABLE_BYTES: usize = 4_096;
/// What an entry takes beside its texts (RFC 7541 4.1).
pub(super) const ENTRY_BYTES: usize = 32;
/// A block up to this size is remembered.
const REMEMBERED_BYTES: usize = 2_048;

/// RFC 7541 appendix A.
#[rustfmt::skip]
pub(super) static STATIC_TABLE: [(&[u8], &[u8]); 61] = [
    (b":authority", b""),
    (b":method", b"GET"),
    (b":method", b"POST"),
    (b":path", b"/"),
    (b":path", b"/index.html"),
    (b":scheme", b"http"),
    (b":scheme", b"https"),
    (b":status", b"200"),
    (b":status", b"204"),
    (b":status", b"206"),
    (b":status", b"304"),
    (b":status", b"400"),
    (b":status", b"404"),
    (b":status", b"500"),
    (b"accept-charset", b""),
    (b"accept-encoding", b"gzip, deflate"),
    (b"accept-language", b""),
    (b"accept-ranges", b""),
    (b"accept", b""),
    (b"access-control-allow-origin", b""),
    (b"age", b""),
    (b"allow", b""),
    (b"authorization", b""),
    (b"cache-control", b""),
    (b"content-disposition", b""),
    (b"content-encoding", b""),
    (b"content-language", b""),
    (b"content-length", b""),
    (b"content-location", b""),
    (b"content-range", b""),
    (b"content-type", b""),
    (b"cookie", b""),
    (b"date", b""),
    (b"etag", b""),
    (b"expect", b""),
    (b"expires", b""),
    (b"from", b""),
    (b"host", b""),
    (b"if-match", b""),
    (b"if-modified-since", b""),
    (b"if-none-match", b""),
    (b"if-range", b""),
    (b"if-unmodified-since", b""),
    (b"last-modified", b""),
    (b"link", b""),
    (b"location", b""),
    (b"max-forwards", b""),
    (b"proxy-authenticate", b""),
    (b"proxy-authorization", b""),
    (b"range", b""),
    (b"referer", b""),
    (b"refresh", b""),
    (b"retry-after", b""),
    (b"server", b""),
    (b"set-cookie", b""),
    (b"strict-transport-security", b""),
    (b"transfer-encoding", b""),
    (b"user-agent", b""),
    (b"vary", b""),
    (b"via", b""),
    (b"www-authenticate", b"")
,
];

/// What a header block says to a load.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Said {
    /// `:status`; `None` in trailers.
    pub status: Option<u16>,
    /// `grpc-status`, which stands in trailers, or in the head of a response without a body.
    pub grpc: Option<u16>,
}

/// The block cannot be decoded, and with it no later one of the connection (RFC 7541 2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BadBlock;

/// What a field means to a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Meaning {
    None,
    Status(u16),
    /// A name without its value that would make it a status.
    StatusName,
    Grpc(u16),
    /// The same for `grpc-status`.
    GrpcName,
}

impl Meaning {
    /// What a field means that has the name of this one.
    fn named(self, value: &[u8]) -> Meaning {
        match self {
            Meaning::None => Meaning::None,
            Meaning::Status(_) | Meaning::StatusName => status_of(value),
            Meaning::Grpc(_) | Meaning::GrpcName => grpc_of(value),
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    bytes: u32,
    name_bytes: u32,
    meaning: Meaning,
}

/// How the last block can be taken again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Again {
    No,
    /// It neither reads nor changes the table, or only reads it: as long as the table stays.
    Same,
    /// It enters fields and refers to none: its entries can be made up for later.
    Counted,
}

/// The decoder of one connection's responses.
pub(super) struct Decoder {
    table: VecDeque<Entry>,
    table_bytes: usize,
    table_limit: usize,
    last: Vec<u8>,
    last_said: Said,
    last_entries: Vec<Entry>,
    again: Again,
    /// How often the last block came again without its entries having been entered.
    owed: u64,
}

impl Decoder {
    /// With an empty table.
    pub fn new() -> Self {
        Decoder {
            table: VecDeque::with_capacity(TABLE_BYTES / ENTRY_BYTES),
            table_bytes: 0,
            table_limit: TABLE_BYTES,
            last: Vec::with_capacity(REMEMBERED_BYTES),
            last_said: Said::default(),
            last_entries: Vec::with_capacity(TABLE_BYTES / ENTRY_BYTES),
            again: Again::No,
            owed: 0,
        }
    }

    /// For a new connection.
    pub fn reset(&mut self) {
        self.table.clear();
        self.table_bytes = 0;
        self.table_limit = TABLE_BYTES;
        self.again = Again::No;
        self.owed = 0;
    }

    /// Decodes a whole block.
    #[inline]
    pub fn decode(&mut self, block: &[u8]) -> Result<Said, BadBlock> {
        if self.again != Again::No && *block == *self.last {
            self.owed += u64::from(self.again == Again::Counted);
            return Ok(self.last_said);
        }
        self.decode_anew(block)
    }

    fn decode_anew(&mut self, block: &[u8]) -> Result<Said, BadBlock> {
        self.pay();
        self.last_entries.clear();
        let mut said = Said::default();
        let (mut refers, mut changes, mut resizes) = (false, false, false);
        let mut rest = block;
        while let Some(&first) = rest.first() {
            let meaning = match first {
                0x80.. => {
                    let index = integer(&mut rest, 7)?;
                    refers |= index > STATIC_TABLE.len();
                    self.entry(index)?.meaning
                }
                0x40..0x80 => {
                    changes = true;
                    let entry = self.literal(&mut rest, 6, &mut refers)?;
                    self.insert(entry);
                    self.last_entries.push(entry);
                    entry.meaning
                }
                0x20..0x40 => {
                    // RFC 7541 4.2: only up to what our SETTINGS allow.
                    resizes = true;
                    let limit = integer(&mut rest, 5)?;
                    if limit > TABLE_BYTES {
                        return Err(BadBlock);
                    }
                    self.table_limit = limit;
                    self.evict();
                    Meaning::None
                }
                _ => self.literal(&mut rest, 4, &mut refers)?.meaning,
            };
            match meaning {
                Meaning::Status(status) => said.status = Some(status),
                Meaning::Grpc(code) => said.grpc = Some(code),
                Meaning::None | Meaning::StatusName | Meaning::GrpcName => {}
            }
        }
        self.again = match (refers, changes) {
            _ if resizes || block.len() > REMEMBERED_BYTES => Again::No,
            (_, false) => Again::Same,
            (false, true) => Again::Counted,
            (true, true) => Again::No,
        };
        if self.again != Again::No {
            self.last.clear();
            self.last.extend_from_slice(block);
            self.last_said = said;
        }
        Ok(said)
    }

    /// Enters what was only counted; more rounds than fill the table leave the same behind.
    fn pay(&mut self) {
        let rounds = self.owed.min((TABLE_BYTES / ENTRY_BYTES) as u64);
        self.owed = 0;
        for _ in 0..rounds {
            for at in 0..self.last_entries.len() {
                self.insert(self.last_entries[at]);
            }
        }
    }

    fn entry(&self, index: usize) -> Result<Entry, BadBlock> {
        let at = index.checked_sub(1).ok_or(BadBlock)?;
        if let Some((name, value)) = STATIC_TABLE.get(at) {
            return Ok(Entry {
                bytes: (name.len() + value.len() + ENTRY_BYTES) as u32,
                name_bytes: name.len() as u32,
                meaning: match *name {
                    b":status" => status_of(value),
                    _ => Meaning::None,
                },
            });
        }
        let entry = self.table.get(at - STATIC_TABLE.len());
        entry.copied().ok_or(BadBlock)
    }

    /// A field given as text, its name perhaps by index.
    fn literal(&self, rest: &mut &[u8], prefix: u32, refers: &mut bool) -> Result<Entry, BadBlock> {
        let index = integer(rest, prefix)?;
        let (name_bytes, named) = if index == 0 {
            let name = string(rest)?;
            let named = match name.start() {
                b":status" if name.len == 7 => Meaning::StatusName,
                b"grpc-status" if name.len == 11 => Meaning::GrpcName,
                _ => Meaning::None,
            };
            (name.len, named)
        } else {
            *refers |= index > STATIC_TABLE.len();
            let entry = self.entry(index)?;
            (entry.name_bytes as usize, entry.meaning)
        };
        let value = string(rest)?;
        Ok(Entry {
            bytes: (name_bytes + value.len + ENTRY_BYTES) as u32,
            name_bytes: name_bytes as u32,
            meaning: named.named(value.start()),
        })
    }

    fn insert(&mut self, entry: Entry) {
        self.table.push_front(entry);
        self.table_bytes += entry.bytes as usize;
        self.evict();
    }

    /// RFC 7541 4.4: an entry larger than the table empties it.
    fn evict(&mut self) {
        while self.table_bytes > self.table_limit {
            let Some(oldest) = self.table.pop_back() else {
                break;
            };
            self.table_bytes -= oldest.bytes as usize;
        }
    }
}

fn status_of(value: &[u8]) -> Meaning {
    match value {
        [a, b, c] if value.iter().all(u8::is_ascii_digit) => {
            let digit = |d: &u8| u16::from(d - b'0');
            Meaning::Status(digit(a) * 100 + digit(b) * 10 + digit(c))
        }
        _ => Meaning::StatusName,
    }
}

/// A code of gRPC; one that is no number is its UNKNOWN, 2.
fn grpc_of(value: &[u8]) -> Meaning {
    let code = std::str::from_utf8(value)
        .ok()
        .and_then(|text| text.parse().ok());
    Meaning::Grpc(code.unwrap_or(2))
}

/// RFC 7541 5.1, with a prefix of so many bits.
fn integer(rest: &mut &[u8], prefix: u32) -> Result<usize, BadBlock> {
    let mut next = || {
        let (&first, tail) = rest.split_first().ok_or(BadBlock)?;
        *rest = tail;
        Ok(usize::from(first))
    };
    let mask = (1 << prefix) - 1;
    let mut value = next()? & mask;
    if value < mask {
        return Ok(value);
    }
    // Five more bytes hold any length that could be meant.
    for shift in (0..35).step_by(7) {
        let byte = next()?;
        value += (byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err(BadBlock)
}

/// So much of a string is looked at: a longer name is none of those that are known.
const FIRST: usize = 12;

/// A decoded string: its length, and its first bytes.
struct Decoded {
    len: usize,
    first: [u8; FIRST],
}

impl Decoded {
    fn start(&self) -> &[u8] {
        &self.first[..self.len.min(self.first.len())]
    }
}

/// RFC 7541 5.2.
fn string(rest: &mut &[u8]) -> Result<Decoded, BadBlock> {
    let is_huffman = rest.first().ok_or(BadBlock)? & 0x80 != 0;
    let len = integer(rest, 7)?;
    let (bytes, tail) = rest.split_at_checked(len).ok_or(BadBlock)?;
    *rest = tail;
    let mut decoded = Decoded {
        len: 0,
        first: [0; FIRST],
    };
    let mut push = |byte| {
        if let Some(place) = decoded.first.get_mut(decoded.len) {
            *place = byte;
        }
        decoded.len += 1;
    };
    if is_huffman {
        huffman::decode(bytes, push)
            .then_some(decoded)
            .ok_or(BadBlock)
    } else {
        bytes.iter().take(FIRST).for_each(|&byte| push(byte));
        decoded.len = len;
        Ok(decoded)
    }
}

// ---- Encoding ----

/// Appends an integer whose first byte begins with the bits of `high`.
pub(super) fn put_integer(out: &mut Vec<u8>, high: u8, prefix: u32, value: usize) {
    let mask = (1 << prefix) - 1;
    if value < mask {
        out.push(high | value as u8);
        return;
    }
    out.push(high | mask as u8);
    let mut left = value - mask;
    while left >= 0x80 {
        out.push(0x80 | (left & 0x7f) as u8);
        left >>= 7;
    }
    out.push(left as u8);
}

fn put_string(out: &mut Vec<u8>, text: &[u8]) {
    put_integer(out, 0, 7, text.len());
    out.extend_from_slice(text);
}

/// How a field that is not in the static table is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Write {
    /// As text, entering the peer's table.
    Entering,
    /// As text, entering nothing.
    Plain,
    /// As the `n`th entry of the peer's dynamic table, counted from its newest, 0.
    Indexed(usize),
}

/// The index of a field whose name and value the static table holds.
pub(super) fn static_field(name: &[u8], value: &[u8]) -> Option<usize> {
    let same = |entry: &(&[u8], &[u8])| *entry == (name, value) && !value.is_empty();
    STATIC_TABLE.iter().position(same).map(|at| at + 1)
}

/// Appends a field.
pub(super) fn put_field(out: &mut Vec<u8>, name: &[u8], value: &[u8], how: Write) {
    if let Some(index) = static_field(name, value) {
        return put_integer(out, 0x80, 7, index);
    }
    let (high, prefix) = match how {
        Write::Indexed(at) => return put_integer(out, 0x80, 7, STATIC_TABLE.len() + 1 + at),
        Write::Entering => (0x40, 6),
        Write::Plain => (0, 4),
    };
    let named = STATIC_TABLE.iter().position(|(known, _)| *known == name);
    put_integer(out, high, prefix, named.map_or(0, |at| at + 1));
    if named.is_none() {
        put_string(out, name);
    }
    put_string(out, value);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(hex: &str) -> Vec<u8> {
        let digits: Vec<u8> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
        let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16);
        digits.chunks(2).map(|pair| byte(pair).unwrap()).collect()
    }

    /// RFC 7541 C.6: three responses with Huffman coding on one connection, there with a table of 256 bytes.
    #[test]
    fn the_responses_of_the_specification() {
        let mut decoder = Decoder::new();
        let blocks = [
            (
                "3fe101 4882 6402 5885 aec3 771a 4b61 96d0 7abe 9410 54d4 44a8 2005 9504 0b81 66e0 82a6 2d1b ff6e 919d 29ad 1718 63c7 8f0b 97c8 e9ae 82ae 43d3",
                302,
                222,
            ),
            ("4883 640e ffc1 c0bf", 307, 222),
            (
                "88c1 6196 d07a be94 1054 d444 a820 0595 040b 8166 e084 a62d 1bff c05a 839b d9ab 77ad 94e7 821d d7f2 e6c7 b335 dfdf cd5b 3960 d5af 2708 7f36 72c1 ab27 0fb5 291f 9587 3160 65c0 03ed 4ee5 b106 3d50 07",
                200,
                215,
            ),
        ];
        for (block, status, table_bytes) in blocks {
            let said = decoder.decode(&bytes(block)).unwrap();
            assert_eq!(said.status, Some(status));
            assert_eq!(decoder.table_bytes, table_bytes);
        }
    }

    fn block(fields: &[(&str, &str, Write)]) -> Vec<u8> {
        let mut out = Vec::new();
        for (name, value, how) in fields {
            put_field(&mut out, name.as_bytes(), value.as_bytes(), *how);
        }
        out
    }

    /// The same blocks to a decoder that remembers and to one that never does end in the same table.
    #[test]
    fn a_remembered_block_leaves_the_same_table() {
        let entering = block(&[
            (":status", "206", Write::Entering),
            (":status", "299", Write::Entering),
            ("server", "one", Write::Entering),
            ("x-long", &"y".repeat(300), Write::Entering),
        ]);
        let by_index = block(&[(":status", "", Write::Indexed(2))]);
        for repeats in [1, 2, 9, 10, 11, 500] {
            let (mut quick, mut slow) = (Decoder::new(), Decoder::new());
            for _ in 0..repeats {
                slow.again = Again::No;
                assert_eq!(quick.decode(&entering), slow.decode(&entering));
            }
            assert_eq!(quick.decode(&by_index), slow.decode(&by_index));
            assert_eq!(quick.decode(&by_index).unwrap().status, Some(299));
            assert_eq!(quick.table_bytes, slow.table_bytes, "after {repeats}");
            assert_eq!(quick.table.len(), slow.table.len());
        }
    }

    #[test]
    fn an_index_means_what_the_table_holds_by_then() {
        let mut decoder = Decoder::new();
        let newest = block(&[(":status", "", Write::Indexed(0))]);
        let enter = |status| block(&[(":status", status, Write::Entering)]);
        decoder.decode(&enter("201")).unwrap();
        assert_eq!(decoder.decode(&newest).unwrap().status, Some(201));
        assert_eq!(decoder.decode(&newest).unwrap().status, Some(201));
        decoder.decode(&enter("202")).unwrap();
        assert_eq!(decoder.decode(&newest).unwrap().status, Some(202));
    }

    #[test]
    fn what_is_no_block_is_refused_and_never_reads_beyond_its_end() {
        for bad in [
            "80",
            "be",
            "ff",
            "ffffffffffffff",
            "4805",
            "08",
            "3fe21f",
            "7f",
        ] {
            assert_eq!(Decoder::new().decode(&bytes(bad)), Err(BadBlock), "{bad}");
        }
        let good = bytes("4882 6402 5885 aec3 771a 4b");
        for len in 0..good.len() {
            let _ = Decoder::new().decode(&good[..len]);
        }
    }

    #[test]
    fn integers_are_those_of_the_specification() {
        let put = |prefix, value| {
            let mut out = Vec::new();
            put_integer(&mut out, 0, prefix, value);
            let mut rest = &out[..];
            assert_eq!(integer(&mut rest, prefix), Ok(value));
            out
        };
        assert_eq!(put(5, 10), [10]);
        assert_eq!(put(5, 1_337), [31, 154, 10]);
        assert_eq!(put(8, 42), [42]);
    }
}
