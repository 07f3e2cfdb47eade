//! Bytes as a function of their offset: what a template sends is never held for a connection, only known.
//!
//! A [`Content`] is a row of stretches, each of given bytes or of a pattern. It fills what is to be sent, first or
//! again, and compares what has come. The pattern's period is prime and longer than a packet, so that a byte at a wrong
//! place is a wrong byte.

use record::traffic::Data;
use std::sync::OnceLock;

/// Period of the pattern: the largest prime below 64 Ki.
const PERIOD: usize = 65_521;

/// Where in the pattern the body of a response begins.
const BODY_SHIFT: u64 = 1;

fn pattern() -> &'static [u8] {
    static BYTES: OnceLock<Box<[u8]>> = OnceLock::new();
    BYTES.get_or_init(|| {
        let mut random = crate::random::Random::seeded(0x7072_6f6e_7900);
        (0..PERIOD).map(|_| (random.bits() >> 32) as u8).collect()
    })
}

/// Calls `each` with the parts of the pattern from `offset` on that make `len` bytes, until it says no.
#[inline]
fn pattern_parts(offset: u64, len: usize, mut each: impl FnMut(&[u8]) -> bool) {
    let pattern = pattern();
    let (mut at, mut left) = ((offset % PERIOD as u64) as usize, len);
    while left > 0 {
        let part = &pattern[at..PERIOD.min(at + left)];
        left -= part.len();
        at = 0;
        if !each(part) {
            return;
        }
    }
}

#[derive(Clone, Debug)]
enum Source {
    Bytes(Box<[u8]>),
    Pattern,
}

#[derive(Clone, Debug)]
struct Stretch {
    begin: u64,
    end: u64,
    source: Source,
}

/// Bytes of one direction; see the module.
#[derive(Clone, Debug, Default)]
pub(super) struct Content {
    stretches: Vec<Stretch>,
    /// Where in the pattern offset 0 stands, so that two directions differ.
    shift: u64,
}

impl Content {
    /// Nothing; `shift` makes its pattern another one.
    pub fn new(shift: u64) -> Self {
        Content {
            stretches: Vec::new(),
            shift,
        }
    }

    /// A row of given bytes and so many of the pattern behind them.
    pub fn of(head: &[u8], pattern_bytes: u64, shift: u64) -> Self {
        let mut content = Content::new(shift);
        content.push(&Data::Bytes(head.to_vec()));
        content.push(&Data::Pattern(pattern_bytes));
        content
    }

    /// A head, and behind it so many bytes of the pattern, which are those of [`Content::body`] whatever the head is.
    pub fn message(head: &[u8], body_bytes: u64) -> Self {
        let beyond = (PERIOD - head.len() % PERIOD) as u64;
        Content::of(head, body_bytes, BODY_SHIFT + beyond)
    }

    /// The body of a [`Content::message`], alone.
    pub fn body(bytes: u64) -> Self {
        Content::of(&[], bytes, BODY_SHIFT)
    }

    /// Adds a stretch; returns where it ends.
    pub fn push(&mut self, data: &Data) -> u64 {
        let begin = self.len();
        let (len, source) = match data {
            Data::Bytes(bytes) => (bytes.len() as u64, Source::Bytes(bytes.as_slice().into())),
            Data::Pattern(len) => (*len, Source::Pattern),
        };
        let end = begin.saturating_add(len);
        if len > 0 {
            self.stretches.push(Stretch { begin, end, source });
        }
        end
    }

    /// How many there are.
    pub fn len(&self) -> u64 {
        self.stretches.last().map_or(0, |last| last.end)
    }

    /// Calls `each` with the parts that make the bytes from `offset` on, at most `len`, until it says no; returns how
    /// many there were.
    #[inline]
    fn parts(&self, offset: u64, len: usize, mut each: impl FnMut(&[u8]) -> bool) -> usize {
        let mut done = 0;
        let first = match self.stretches.as_slice() {
            [_] => 0,
            stretches => stretches.partition_point(|stretch| stretch.end <= offset),
        };
        for stretch in &self.stretches[first.min(self.stretches.len())..] {
            if done == len {
                break;
            }
            let at = offset + done as u64;
            let here = stretch.end.saturating_sub(at).min((len - done) as u64) as usize;
            let mut goes_on = true;
            match &stretch.source {
                Source::Bytes(bytes) => {
                    let from = (at - stretch.begin) as usize;
                    goes_on = here == 0 || each(&bytes[from..from + here]);
                }
                Source::Pattern => pattern_parts(at + self.shift, here, |part| {
                    goes_on = each(part);
                    goes_on
                }),
            }
            if !goes_on {
                break;
            }
            done += here;
        }
        done
    }

    /// Fills `into` with the bytes from `offset` on; what lies behind the end stays as it is.
    #[inline]
    pub fn fill(&self, offset: u64, into: &mut [u8]) -> usize {
        let mut at = 0;
        let len = into.len();
        self.parts(offset, len, |part| {
            into[at..at + part.len()].copy_from_slice(part);
            at += part.len();
            true
        })
    }

    /// [`Content::fill`] of the content repeated for ever.
    #[inline]
    pub fn fill_round(&self, offset: u64, mut into: &mut [u8]) {
        let period = self.len();
        if period == 0 {
            return;
        }
        let mut at = offset % period;
        while !into.is_empty() {
            let done = self.fill(at, into);
            into = &mut into[done..];
            at = 0;
        }
    }

    /// `bytes` are those from `offset` on, and there are so many.
    #[inline]
    pub fn matches(&self, offset: u64, bytes: &[u8]) -> bool {
        let mut at = 0;
        let done = self.parts(offset, bytes.len(), |part| {
            let is_same = bytes[at..at + part.len()] == *part;
            at += part.len();
            is_same
        });
        done == bytes.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mixed() -> Content {
        let mut content = Content::new(3);
        assert_eq!(content.push(&Data::Bytes(b"hello ".to_vec())), 6);
        assert_eq!(content.push(&Data::Bytes(Vec::new())), 6);
        assert_eq!(content.push(&Data::Pattern(200_000)), 200_006);
        assert_eq!(content.push(&Data::Bytes(b" end".to_vec())), 200_010);
        content
    }

    #[test]
    fn any_part_is_the_same_as_of_the_whole() {
        let content = mixed();
        let mut whole = vec![0; content.len() as usize];
        assert_eq!(content.fill(0, &mut whole), whole.len());
        assert!(whole.starts_with(b"hello ") && whole.ends_with(b" end"));
        let mut random = crate::random::Random::seeded(7);
        for _ in 0..2_000 {
            let from = (random.bits() % content.len()) as usize;
            let len = (random.bits() % 70_000) as usize;
            let end = whole.len().min(from + len);
            let mut part = vec![0; end - from];
            assert_eq!(content.fill(from as u64, &mut part), part.len());
            assert!(part == whole[from..end]);
            assert!(content.matches(from as u64, &part));
        }
    }

    #[test]
    fn one_wrong_or_misplaced_byte_is_seen() {
        let content = mixed();
        let mut part = vec![0; 3_000];
        content.fill(1, &mut part);
        assert!(!content.matches(2, &part), "one byte too late");
        for at in [0, 1_500, 2_999] {
            part[at] ^= 1;
            assert!(!content.matches(1, &part));
            part[at] ^= 1;
        }
        assert!(content.matches(1, &part));
        assert!(
            !content.matches(content.len() - 2, b"nd!"),
            "beyond the end"
        );
        assert!(content.matches(content.len(), b""));
    }

    #[test]
    fn a_body_is_the_same_behind_any_head() {
        let body = Content::body(150_000);
        for head in ["", "HTTP/1.1 200 OK\r\n\r\n", "a longer one"] {
            let message = Content::message(head.as_bytes(), 150_000);
            let mut bytes = vec![0; message.len() as usize];
            message.fill(0, &mut bytes);
            assert!(bytes.starts_with(head.as_bytes()));
            assert!(body.matches(0, &bytes[head.len()..]));
        }
    }

    #[test]
    fn a_period_repeats_at_any_cut() {
        let content = Content::of(b"GET / HTTP/1.1\r\n\r\n", 5, 0);
        let mut twice = vec![0; 2 * content.len() as usize];
        content.fill_round(0, &mut twice);
        let (a, b) = twice.split_at(content.len() as usize);
        assert!(a == b && a.starts_with(b"GET "));
        let mut part = [0; 30];
        content.fill_round(10 + 7 * content.len(), &mut part);
        assert_eq!(part[..], twice[10..40]);
    }
}
