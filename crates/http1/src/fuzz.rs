//! Seeded mutation of messages: whatever arrives, the codec does not panic, never claims more bytes
//! than there are, and says the same however the bytes were split.
//!
//! The last test is the canary: it plants a fault in a copy of the property and fails unless the fuzz
//! finds it, so that a fuzz test that has stopped reaching anything cannot stay green.

use super::{BodyDecoder, CodecError, Framing, parse_request, parse_response};

const MUTANTS: u64 = 40_000;

const SEEDS: &[&str] = &[
    "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: keep-alive\r\n\r\nhello",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;x=y\r\nhello\r\n1f\r\n0123456789abcdef0123456789abcde\r\n0\r\nA: b\r\n\r\n",
    "HTTP/1.0 200 OK\r\nServer: x\r\n\r\nuntil the end",
    "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n",
    "POST /upload HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nTransfer-Encoding: gzip, chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
    "GET /bytes/91k HTTP/1.1\r\nHost: h\r\nContent-Length: 3, 3\r\nConnection: close, x\r\n\r\nabc",
];

/// Fragments that mean something to the codec, so that mutants get past the first line.
const FRAGMENTS: &[&str] = &[
    "\r\n",
    "\n",
    "\r",
    "0\r\n\r\n",
    "ffffffffffffffff",
    ";",
    ",",
    "chunked",
    "Content-Length: 7\r\n",
    "Transfer-Encoding: chunked\r\n",
    "\r\n\r\n",
    "HTTP/1.1 ",
    "\0",
    "-1",
    "99999999999999999999",
];

/// All of a test's chance comes from one number (splitmix64).
struct Chance(u64);

impl Chance {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % n as u64) as usize
    }
}

fn mutant(seed: u64) -> Vec<u8> {
    let mut chance = Chance(seed);
    let mut bytes = SEEDS[chance.below(SEEDS.len())].as_bytes().to_vec();
    for _ in 0..=chance.below(4) {
        let at = chance.below(bytes.len() + 1);
        match chance.below(4) {
            0 if at < bytes.len() => bytes[at] = chance.below(256) as u8,
            1 => bytes.truncate(at),
            2 => drop(bytes.drain(at..(at + chance.below(9)).min(bytes.len()))),
            _ => {
                let fragment = FRAGMENTS[chance.below(FRAGMENTS.len())];
                bytes.splice(at..at, fragment.bytes());
            }
        }
    }
    bytes
}

/// Body bytes of the message behind a head, consumed bytes, done.
type Walk = Result<(u64, usize, bool), CodecError>;

fn walk(framing: Framing, pieces: &[&[u8]]) -> Walk {
    let mut decoder = BodyDecoder::new(framing);
    let mut consumed = 0;
    for piece in pieces {
        let fed = decoder.feed(piece)?;
        assert!(fed.consumed <= piece.len() && fed.done == decoder.is_done());
        consumed += fed.consumed;
    }
    let complete = decoder.is_done();
    assert_eq!(
        decoder.finish_at_eof().is_ok(),
        complete || framing == Framing::UntilClose
    );
    Ok((decoder.body_bytes(), consumed, complete))
}

/// The property, for one message and one place to split its body at.
fn check(input: &[u8], split: usize) {
    let heads = [
        parse_response(input, false).map(|h| h.map(|h| (h.head_len, h.framing))),
        parse_response(input, true).map(|h| h.map(|h| (h.head_len, h.framing))),
        parse_request(input).map(|h| h.map(|h| (h.head_len, h.framing))),
    ];
    for (head_len, framing) in heads.into_iter().flatten().flatten() {
        assert!(head_len <= input.len());
        let body = &input[head_len..];
        let (a, b) = body.split_at(split % (body.len() + 1));
        assert_eq!(walk(framing, &[body]), walk(framing, &[a, b]));
    }
    // Bodies also without a head that allows them.
    let _ = walk(Framing::Chunked, &[input]);
}

/// The first mutant for which `property` panics.
fn fuzz(property: impl Fn(&[u8], usize) + std::panic::RefUnwindSafe) -> Option<u64> {
    (0..MUTANTS).find(|&seed| {
        let input = mutant(seed);
        std::panic::catch_unwind(|| property(&input, seed as usize)).is_err()
    })
}

#[test]
fn no_mutant_breaks_the_codec() {
    let found = fuzz(check).map(|seed| mutant(seed).escape_ascii().to_string());
    assert_eq!(found, None, "panics with this input");
}

#[test]
fn the_fuzz_finds_a_planted_fault() {
    let forgets_large_chunks = |input: &[u8], _| {
        if let Ok(Some(head)) = parse_response(input, false) {
            let walked = walk(head.framing, &[&input[head.head_len..]]);
            assert_ne!(walked, Err(CodecError::ChunkTooLarge), "planted");
        }
    };
    assert!(fuzz(forgets_large_chunks).is_some());
}
