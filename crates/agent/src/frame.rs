//! Frames on a stream of bytes: a `u32` length (big-endian, of the body), a `u8` kind, a body of JSON.
//!
//! A stream begins with a line of its own, because a login shell may print before the program that it starts. It ends
//! with [`Message::Bye`], which counts the frames: an end without it is a loss, whatever the exit code of the carrier.

use crate::message::{Kind, Message, Side};
use std::io::{self, Read, Write};

/// The line that the frames begin behind.
pub const MAGIC: &[u8] = b"prony-agent 1\n";
/// As much as a shell may print before.
const NOISE_MAX: usize = 1 << 16;

/// Why a stream cannot be read further.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    /// The system's.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The stream ended before [`MAGIC`].
    #[error("the other end ended without a word of the protocol{}", said(.0))]
    NoMagic(String),
    /// It ended in a frame, or without a word of farewell.
    #[error("the stream ended in the middle")]
    Truncated,
    /// What came is none of our frames.
    #[error("what came is no frame: {0}")]
    Foreign(String),
    /// The other end counted another number of frames than came.
    #[error("{sent} frames were sent and {received} came")]
    Lost { sent: u64, received: u64 },
}

/// What came in place of the protocol, for a message.
fn said(text: &str) -> String {
    match text.trim() {
        "" => String::new(),
        text => format!(", but said: {text}"),
    }
}

/// Writes frames, and counts them.
pub struct Sender<W> {
    to: W,
    sent: u64,
}

impl<W: Write> Sender<W> {
    /// Frames to `to`, behind the line that they begin with.
    ///
    /// # Errors
    /// Of `to`.
    pub fn begin(mut to: W) -> io::Result<Self> {
        to.write_all(MAGIC)?;
        to.flush()?;
        Ok(Self { to, sent: 0 })
    }

    /// Sends one message.
    ///
    /// # Errors
    /// Of `to`, and `InvalidData` for a message larger than its kind may be.
    pub fn send(&mut self, message: &Message) -> io::Result<()> {
        let kind = message.kind();
        let body = message.body();
        let too_large = || {
            let words = format!(
                "{kind:?} of {} bytes, and {} is the most",
                body.len(),
                kind.limit()
            );
            io::Error::new(io::ErrorKind::InvalidData, words)
        };
        let length = u32::try_from(body.len())
            .ok()
            .filter(|n| *n <= kind.limit());
        let mut head = [0; 5];
        head[..4].copy_from_slice(&length.ok_or_else(too_large)?.to_be_bytes());
        head[4] = kind as u8;
        self.to.write_all(&head)?;
        self.to.write_all(&body)?;
        self.to.flush()?;
        self.sent += 1;
        Ok(())
    }

    /// Says how many messages there were; nothing may follow.
    ///
    /// # Errors
    /// Of the stream.
    pub fn end(&mut self) -> io::Result<()> {
        let frames = self.sent;
        self.send(&Message::Bye { frames })
    }
}

/// Reads frames.
pub struct Receiver<R> {
    from: R,
    /// Who speaks.
    side: Side,
    received: u64,
}

impl<R: Read> Receiver<R> {
    /// What `side` says. Reads up to the line that frames begin behind, whatever was printed before it.
    ///
    /// # Errors
    /// [`FrameError::NoMagic`] when the stream ends before it, or when more was printed than a shell would.
    pub fn begin(mut from: R, side: Side) -> Result<Self, FrameError> {
        let mut seen = Vec::new();
        while !seen.ends_with(MAGIC) {
            let mut byte = [0];
            if seen.len() >= NOISE_MAX || from.read(&mut byte)? == 0 {
                let tail = seen.len().saturating_sub(400);
                let text = String::from_utf8_lossy(&seen[tail..]).into_owned();
                return Err(FrameError::NoMagic(text));
            }
            seen.push(byte[0]);
        }
        Ok(Self {
            from,
            side,
            received: 0,
        })
    }

    /// The next message; `None` behind the farewell.
    ///
    /// # Errors
    /// [`FrameError`], after which nothing can be read any more.
    pub fn receive(&mut self) -> Result<Option<Message>, FrameError> {
        let mut head = [0; 5];
        self.fill(&mut head)?;
        let length = u32::from_be_bytes([head[0], head[1], head[2], head[3]]);
        // What the other side does not say is not read: no memory is spent on it.
        let kind = Kind::from_byte(head[4])
            .filter(|kind| kind.is_of(self.side))
            .ok_or_else(|| FrameError::Foreign(format!("kind {}", head[4])))?;
        if length > kind.limit() {
            let words = format!(
                "{kind:?} of {length} bytes, and {} is the most",
                kind.limit()
            );
            return Err(FrameError::Foreign(words));
        }
        let mut body = Vec::new();
        // Grows with what comes, not with what was announced.
        let read = (&mut self.from)
            .take(u64::from(length))
            .read_to_end(&mut body)?;
        if read < length as usize {
            return Err(FrameError::Truncated);
        }
        let message = Message::parse(kind, &body)
            .map_err(|e| FrameError::Foreign(format!("{kind:?}: {e}")))?;
        if let Message::Bye { frames } = message {
            let received = self.received;
            return if frames == received {
                Ok(None)
            } else {
                Err(FrameError::Lost {
                    sent: frames,
                    received,
                })
            };
        }
        self.received += 1;
        Ok(Some(message))
    }

    fn fill(&mut self, bytes: &mut [u8]) -> Result<(), FrameError> {
        self.from.read_exact(bytes).map_err(|e| match e.kind() {
            io::ErrorKind::UnexpectedEof => FrameError::Truncated,
            _ => FrameError::Io(e),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::ClockTimes;
    use record::Nanos;

    fn stream(messages: &[Message]) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut sender = Sender::begin(&mut bytes).unwrap();
        for message in messages {
            sender.send(message).unwrap();
        }
        sender.end().unwrap();
        bytes
    }

    fn some() -> Vec<Message> {
        vec![
            Message::Ready,
            Message::ClockAnswer(ClockTimes {
                asked: Nanos(1),
                received: Nanos(2),
                answered: Nanos(3),
            }),
            Message::Beat,
        ]
    }

    /// Everything up to the end or the first error.
    fn read(bytes: &[u8]) -> (Vec<Message>, Result<(), FrameError>) {
        let mut messages = Vec::new();
        let ended = Receiver::begin(bytes, Side::Agent).and_then(|mut receiver| {
            while let Some(message) = receiver.receive()? {
                messages.push(message);
            }
            Ok(())
        });
        (messages, ended)
    }

    #[test]
    fn what_is_sent_comes_behind_any_greeting() {
        for greeting in ["", "Welcome!\nprony-agent 1", "\u{1b}[0m\n\n"] {
            let bytes = [greeting.as_bytes(), &stream(&some())].concat();
            let (messages, ended) = read(&bytes);
            ended.unwrap();
            assert_eq!(format!("{messages:?}"), format!("{:?}", some()));
        }
    }

    #[test]
    fn a_stream_cut_anywhere_is_a_loss() {
        let whole = stream(&some());
        for length in 0..whole.len() {
            let (messages, ended) = read(&whole[..length]);
            assert!(messages.len() <= 3);
            let error = ended.unwrap_err();
            let expected = length >= MAGIC.len();
            assert_eq!(matches!(error, FrameError::Truncated), expected, "{error}");
        }
    }

    #[test]
    fn a_frame_that_is_missing_is_counted() {
        let mut sender = Sender::begin(Vec::new()).unwrap();
        for message in &some() {
            sender.send(message).unwrap();
        }
        sender.sent += 1;
        sender.end().unwrap();
        let (_, ended) = read(&sender.to);
        assert_eq!(
            ended.unwrap_err().to_string(),
            "4 frames were sent and 3 came"
        );
    }

    #[test]
    fn what_is_announced_is_not_believed() {
        let huge = [MAGIC, &u32::MAX.to_be_bytes(), &[Kind::Ready as u8]].concat();
        let error = read(&huge).1.unwrap_err().to_string();
        assert!(error.contains("is the most"), "{error}");
        let unknown = [MAGIC, &[0, 0, 0, 0, 250]].concat();
        assert!(
            read(&unknown)
                .1
                .unwrap_err()
                .to_string()
                .contains("kind 250")
        );
        let conductors = [MAGIC, &[0, 0, 0, 0, Kind::Stop as u8]].concat();
        assert!(
            read(&conductors)
                .1
                .unwrap_err()
                .to_string()
                .contains("kind 10")
        );
        let endless = vec![b'x'; 2 * NOISE_MAX];
        assert!(matches!(read(&endless).1, Err(FrameError::NoMagic(_))));
    }
}
