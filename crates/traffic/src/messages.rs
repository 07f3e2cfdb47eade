//! Reads the HTTP messages of one connection, at any split of the bytes; sans-IO. Responses and requests are two
//! [`Kind`]s of it.
//!
//! Two shortcuts make it cheap. Heads repeat byte for byte (but for the second in `Date`), so a thread remembers the
//! last head with its meaning: equal bytes mean the same, exactly. And a head that arrives whole, which is nearly
//! always, is never copied.

use crate::transport::{Detail, Failure};
use http1::{BodyDecoder, CodecError, Framing};
use record::FailureKind;

/// Largest head that is understood.
pub(crate) const HEAD_BYTES: usize = 16 * 1024;

/// Which messages come, and what is to be known of them.
pub(crate) trait Kind {
    /// What a message says to whoever reads it.
    type Said: Copy + std::fmt::Debug;

    /// The head at the front of the bytes; `None` when it is not whole.
    fn parse(&self, bytes: &[u8]) -> Result<Option<Head<Self::Said>>, CodecError>;

    /// What a message says once its body, of so many bytes, is whole.
    #[inline]
    fn ended(said: Self::Said, _body_bytes: u64) -> Self::Said {
        said
    }
}

/// A whole head.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Head<S> {
    /// Its empty line included.
    pub len: usize,
    /// Where the body ends, and what the message says; `None` for a head that another one follows at once.
    pub meaning: Option<(Framing, S)>,
}

/// The last head of this thread, with what it means.
pub(crate) struct HeadCache<K: Kind> {
    kind: K,
    bytes: Vec<u8>,
    last: Option<Head<K::Said>>,
}

impl<K: Kind> HeadCache<K> {
    /// An empty cache.
    pub fn of(kind: K) -> Self {
        HeadCache {
            kind,
            bytes: Vec::with_capacity(HEAD_BYTES),
            last: None,
        }
    }

    #[inline]
    fn parse(&mut self, input: &[u8]) -> Result<Option<Head<K::Said>>, CodecError> {
        if let Some(head) = self.last
            && input.starts_with(&self.bytes)
        {
            return Ok(Some(head));
        }
        self.parse_anew(input)
    }

    fn parse_anew(&mut self, input: &[u8]) -> Result<Option<Head<K::Said>>, CodecError> {
        let parsed = self.kind.parse(input)?;
        if let Some(head) = parsed
            && head.len <= HEAD_BYTES
        {
            self.bytes.clear();
            self.bytes.extend_from_slice(&input[..head.len]);
            self.last = parsed;
        }
        Ok(parsed)
    }

    /// The last head as it came; empty before the first.
    pub fn last_head(&self) -> &[u8] {
        &self.bytes
    }

    /// What the coming heads are taken to mean: what was remembered meant something else.
    pub fn set_kind(&mut self, kind: K) {
        self.kind = kind;
        self.last = None;
    }

    /// What heads are taken to mean.
    pub fn kind(&self) -> &K {
        &self.kind
    }

    /// Length of the last body, where its head told: the next message is probably alike.
    pub fn expected_body(&self) -> u64 {
        match self.last.and_then(|head| head.meaning) {
            Some((Framing::Length(bytes), _)) => bytes,
            _ => 0,
        }
    }
}

/// Why bytes are no message.
#[derive(Clone, Debug)]
pub(crate) enum BadMessage {
    /// They break the grammar.
    Malformed(CodecError),
    /// The head is larger than [`HEAD_BYTES`].
    TooLarge,
}

/// As a load counts it: the messages are responses.
impl From<BadMessage> for Failure {
    fn from(bad: BadMessage) -> Self {
        match bad {
            BadMessage::Malformed(error) => Failure {
                kind: FailureKind::Malformed,
                detail: Detail::Codec(error),
            },
            BadMessage::TooLarge => Failure::text(
                FailureKind::HeadTooLarge,
                "the response head is larger than 16 KiB",
            ),
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum State<S> {
    /// Before or in a head, of which so many bytes lie in the partial buffer.
    Head(usize),
    /// In the body of a message that says so.
    Body(BodyDecoder, S),
}

/// Where one connection stands in its messages.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MessageReader<S> {
    pub state: State<S>,
}

impl<S> Default for MessageReader<S> {
    fn default() -> Self {
        MessageReader {
            state: State::Head(0),
        }
    }
}

impl<S: Copy> MessageReader<S> {
    /// Takes bytes off the front of `input`, up to the end of one message; what it says when that end was reached.
    /// `partial` holds this connection's incomplete head between calls.
    pub fn feed<K: Kind<Said = S>>(
        &mut self,
        input: &mut &[u8],
        partial: &mut [u8],
        cache: &mut HeadCache<K>,
    ) -> Result<Option<S>, BadMessage> {
        self.feed_with(input, partial, cache, |_| {})
    }

    /// As [`MessageReader::feed`]; `seen` is shown the content of the body, piece by piece.
    #[inline]
    pub fn feed_with<K: Kind<Said = S>>(
        &mut self,
        input: &mut &[u8],
        partial: &mut [u8],
        cache: &mut HeadCache<K>,
        seen: impl FnMut(&[u8]),
    ) -> Result<Option<S>, BadMessage> {
        loop {
            let (mut decoder, said) = match self.state {
                State::Body(decoder, said) => (decoder, said),
                State::Head(held) => match read_head(held, input, partial, cache)? {
                    Read::Partial(held) => {
                        self.state = State::Head(held);
                        return Ok(None);
                    }
                    Read::Whole(None) => {
                        self.state = State::Head(0);
                        continue;
                    }
                    Read::Whole(Some((framing, said))) => (BodyDecoder::new(framing), said),
                },
            };
            let fed = decoder
                .feed_with(input, seen)
                .map_err(BadMessage::Malformed)?;
            *input = &input[fed.consumed..];
            if fed.done {
                self.state = State::Head(0);
                return Ok(Some(K::ended(said, decoder.body_bytes())));
            }
            self.state = State::Body(decoder, said);
            return Ok(None);
        }
    }

    /// Part of a head lies in the partial buffer.
    #[inline]
    pub fn holds(&self) -> bool {
        matches!(self.state, State::Head(1..))
    }

    /// Neither at the beginning nor past the end of a message.
    #[inline]
    pub fn is_mid_message(&self) -> bool {
        !matches!(self.state, State::Head(0))
    }
}

enum Read<S> {
    /// Not whole; so many bytes are in the partial buffer.
    Partial(usize),
    Whole(Option<(Framing, S)>),
}

#[inline]
fn read_head<K: Kind>(
    held: usize,
    input: &mut &[u8],
    partial: &mut [u8],
    cache: &mut HeadCache<K>,
) -> Result<Read<K::Said>, BadMessage> {
    let taken = input.len().min(partial.len() - held);
    let parsed = if held == 0 {
        cache.parse(input)
    } else {
        partial[held..held + taken].copy_from_slice(&input[..taken]);
        cache.parse(&partial[..held + taken])
    };
    match parsed.map_err(BadMessage::Malformed)? {
        Some(head) if head.len > HEAD_BYTES => Err(BadMessage::TooLarge),
        Some(head) => {
            *input = &input[head.len - held..];
            Ok(Read::Whole(head.meaning))
        }
        None if held + input.len() >= partial.len() => Err(BadMessage::TooLarge),
        None => {
            partial[held..held + taken].copy_from_slice(&input[..taken]);
            *input = &input[taken..];
            Ok(Read::Partial(held + taken))
        }
    }
}
