//! Frames of RFC 6455 as a server sends them; sans-IO.
//!
//! A message is counted, checked and never kept, however long it says that it is.

/// Longest payload of a control frame (RFC 6455 5.5).
pub(super) const CONTROL_MAX: usize = 125;
/// Most bytes before the payload.
const HEAD_MAX: usize = 10;
/// In the first byte: the message's last frame.
pub(super) const FIN: u8 = 0x80;
/// In the second byte: the payload is masked, as a client's must be and a server's must not.
pub(super) const MASKED: u8 = 0x80;

/// What a frame is (RFC 6455 11.8).
pub(super) mod opcode {
    pub const CONTINUATION: u8 = 0;
    pub const TEXT: u8 = 1;
    pub const BINARY: u8 = 2;
    pub const CLOSE: u8 = 8;
    pub const PING: u8 = 9;
    pub const PONG: u8 = 10;
}

/// What the server said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Said {
    /// A whole message of so many bytes.
    Message(u64),
    /// To be answered with the same payload, which [`Reader::control`] lends.
    Ping,
    /// It closes, with this code; [`Reader::control`] lends all of the payload.
    Close(Option<u16>),
}

/// Frames of the server's, in pieces of any size.
#[derive(Clone, Debug)]
pub struct Reader {
    head: [u8; HEAD_MAX],
    head_len: u8,
    in_payload: bool,
    /// Of the frame under way.
    opcode: u8,
    is_last: bool,
    left: u64,
    /// Opcode of the message under way; [`opcode::CONTINUATION`] for none.
    message: u8,
    message_bytes: u64,
    control: [u8; CONTROL_MAX],
    control_len: u8,
    text: Utf8,
}

impl Default for Reader {
    fn default() -> Self {
        Reader {
            head: [0; HEAD_MAX],
            head_len: 0,
            in_payload: false,
            opcode: 0,
            is_last: false,
            left: 0,
            message: opcode::CONTINUATION,
            message_bytes: 0,
            control: [0; CONTROL_MAX],
            control_len: 0,
            text: Utf8::default(),
        }
    }
}

impl Reader {
    /// Neither a frame nor a message is under way.
    pub fn is_at_rest(&self) -> bool {
        self.head_len == 0 && !self.in_payload && self.message == opcode::CONTINUATION
    }

    /// The payload of the control frame that was told of last.
    pub fn control(&self) -> &[u8] {
        &self.control[..usize::from(self.control_len)]
    }

    /// Takes bytes off the front of `rest`, as far as there is something to tell or to their end.
    ///
    /// # Errors
    /// How the server breaks RFC 6455, in words. Nothing can be made of what follows.
    pub fn feed(&mut self, rest: &mut &[u8]) -> Result<Option<Said>, &'static str> {
        loop {
            if !self.in_payload && !self.feed_head(rest)? {
                return Ok(None);
            }
            if !self.feed_payload(rest)? {
                return Ok(None);
            }
            self.in_payload = false;
            let said = self.ended()?;
            if said.is_some() {
                return Ok(said);
            }
        }
    }

    /// Whether the head is whole.
    fn feed_head(&mut self, rest: &mut &[u8]) -> Result<bool, &'static str> {
        loop {
            let need = match (self.head_len, self.head[1]) {
                (0..2, _) => 2,
                (_, 126) => 4,
                (_, 127) => 10,
                _ => 2,
            };
            if self.head_len == need {
                break;
            }
            let Some((&byte, behind)) = rest.split_first() else {
                return Ok(false);
            };
            *rest = behind;
            self.head[usize::from(self.head_len)] = byte;
            self.head_len += 1;
            match self.head_len {
                1 => self.begin(byte)?,
                2 if byte & MASKED != 0 => {
                    return Err("a frame of the server's is masked (RFC 6455 5.1)");
                }
                2 if is_control(self.opcode) && usize::from(byte) > CONTROL_MAX => {
                    return Err("a control frame is longer than 125 bytes (RFC 6455 5.5)");
                }
                _ => {}
            }
        }
        self.left = self.length()?;
        self.head_len = 0;
        self.in_payload = true;
        Ok(true)
    }

    /// The first byte of a frame.
    fn begin(&mut self, byte: u8) -> Result<(), &'static str> {
        self.opcode = byte & 0x0f;
        self.is_last = byte & FIN != 0;
        if byte & 0x70 != 0 {
            return Err("reserved bits are set although no extension was agreed on (RFC 6455 5.2)");
        }
        let in_message = self.message != opcode::CONTINUATION;
        match self.opcode {
            opcode::CONTINUATION if !in_message => {
                Err("a continuation without a message that it continues (RFC 6455 5.4)")
            }
            opcode::TEXT | opcode::BINARY if in_message => {
                Err("a message begins inside another (RFC 6455 5.4)")
            }
            opcode::TEXT | opcode::BINARY => {
                self.message = self.opcode;
                self.message_bytes = 0;
                self.text = Utf8::default();
                Ok(())
            }
            opcode::CONTINUATION => Ok(()),
            opcode::CLOSE | opcode::PING | opcode::PONG if self.is_last => {
                self.control_len = 0;
                Ok(())
            }
            opcode::CLOSE | opcode::PING | opcode::PONG => {
                Err("a control frame is fragmented (RFC 6455 5.5)")
            }
            _ => Err("a frame of an unknown kind (RFC 6455 5.2)"),
        }
    }

    /// RFC 6455 5.2: in the fewest bytes, and below 2^63.
    fn length(&self) -> Result<u64, &'static str> {
        let (len, least) = match self.head[1] {
            126 => (
                u64::from(u16::from_be_bytes([self.head[2], self.head[3]])),
                126,
            ),
            127 => {
                let mut bytes = [0; 8];
                bytes.copy_from_slice(&self.head[2..]);
                (u64::from_be_bytes(bytes), 1 << 16)
            }
            len => return Ok(u64::from(len)),
        };
        if len < least {
            return Err("a length is not written in the fewest bytes (RFC 6455 5.2)");
        }
        if len >= 1 << 63 {
            return Err("a frame of 2^63 bytes or more (RFC 6455 5.2)");
        }
        Ok(len)
    }

    /// Whether the payload is whole.
    fn feed_payload(&mut self, rest: &mut &[u8]) -> Result<bool, &'static str> {
        let len = usize::try_from(self.left).map_or(rest.len(), |left| left.min(rest.len()));
        let (piece, behind) = rest.split_at(len);
        *rest = behind;
        self.left -= len as u64;
        if is_control(self.opcode) {
            let from = usize::from(self.control_len);
            self.control[from..from + len].copy_from_slice(piece);
            self.control_len += len as u8;
        } else {
            self.message_bytes = self.message_bytes.saturating_add(len as u64);
            if self.message == opcode::TEXT {
                self.text.feed(piece).ok_or(NOT_UTF8)?;
            }
        }
        Ok(self.left == 0)
    }

    /// The frame is whole.
    fn ended(&mut self) -> Result<Option<Said>, &'static str> {
        Ok(match self.opcode {
            opcode::PING => Some(Said::Ping),
            opcode::PONG => None,
            opcode::CLOSE => Some(Said::Close(match *self.control() {
                [] => None,
                [_] => return Err("a close frame with half a code (RFC 6455 5.5.1)"),
                [a, b, ..] => Some(u16::from_be_bytes([a, b])),
            })),
            _ if !self.is_last => None,
            _ => {
                if self.message == opcode::TEXT && !self.text.is_whole() {
                    return Err(NOT_UTF8);
                }
                self.message = opcode::CONTINUATION;
                Some(Said::Message(self.message_bytes))
            }
        })
    }
}

const NOT_UTF8: &str = "a text message is not UTF-8 (RFC 6455 5.6)";

const fn is_control(opcode: u8) -> bool {
    opcode >= 8
}

/// Text in pieces that may end within a character.
#[derive(Clone, Debug, Default)]
struct Utf8 {
    begun: [u8; 4],
    len: u8,
}

impl Utf8 {
    fn is_whole(&self) -> bool {
        self.len == 0
    }

    /// `None` when it cannot be UTF-8, whatever follows.
    fn feed(&mut self, mut piece: &[u8]) -> Option<()> {
        while self.len > 0 {
            let (&byte, behind) = match piece.split_first() {
                Some(split) => split,
                None => return Some(()),
            };
            piece = behind;
            self.begun[usize::from(self.len)] = byte;
            self.len += 1;
            match std::str::from_utf8(&self.begun[..usize::from(self.len)]) {
                Ok(_) => self.len = 0,
                Err(error) if error.error_len().is_some() => return None,
                Err(_) => {}
            }
        }
        if let Err(error) = std::str::from_utf8(piece) {
            if error.error_len().is_some() {
                return None;
            }
            let tail = &piece[error.valid_up_to()..];
            self.begun[..tail.len()].copy_from_slice(tail);
            self.len = tail.len() as u8;
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Walked = (Vec<Said>, Option<&'static str>);

    fn walk(input: &[u8], piece: usize) -> Walked {
        let mut reader = Reader::default();
        let mut told = Vec::new();
        for mut rest in input.chunks(piece) {
            loop {
                match reader.feed(&mut rest) {
                    Ok(None) => break,
                    Ok(Some(said)) => told.push(said),
                    Err(words) => return (told, Some(words)),
                }
            }
            assert!(rest.is_empty());
        }
        (told, None)
    }

    /// A frame of the server's.
    fn server(first: u8, payload: &[u8]) -> Vec<u8> {
        let len = payload.len();
        let head = match len {
            0..126 => vec![first, len as u8],
            126..0x10000 => [&[first, 126][..], &(len as u16).to_be_bytes()].concat(),
            _ => [&[first, 127][..], &(len as u64).to_be_bytes()].concat(),
        };
        [&head, payload].concat()
    }

    fn read(bytes: &[u8]) -> Result<Vec<Said>, &'static str> {
        let (said, refused) = walk(bytes, bytes.len().max(1));
        for piece in [1, 2, 7] {
            assert_eq!(walk(bytes, piece), (said.clone(), refused));
        }
        refused.map_or(Ok(said), Err)
    }

    #[test]
    fn messages_are_counted_however_they_are_split() {
        let check = |frames: &[Vec<u8>], said: &[Said]| {
            assert_eq!(read(&frames.concat()), Ok(said.to_vec()));
        };
        for len in [0, 1, 125, 126, 127, 65_535, 65_536, 70_000] {
            let frame = server(0x82, &vec![0xff; len]);
            check(&[frame], &[Said::Message(len as u64)]);
        }
        // RFC 6455 5.7: fragments, with a ping between them.
        check(
            &[
                server(0x01, b"Hel"),
                server(0x89, b"are you there"),
                server(0x80, b"lo"),
                server(0x8a, b""),
                server(0x81, b""),
            ],
            &[Said::Ping, Said::Message(5), Said::Message(0)],
        );
        // A character may lie across fragments.
        let clef = "\u{1d11e}".as_bytes();
        check(
            &[
                server(0x01, &clef[..1]),
                server(0x00, &clef[1..3]),
                server(0x80, &clef[3..]),
            ],
            &[Said::Message(4)],
        );
        check(&[server(0x88, b"\x03\xe8bye")], &[Said::Close(Some(1000))]);
        check(&[server(0x88, b"")], &[Said::Close(None)]);
        check(&[server(0x01, b"abc")], &[]);
    }

    #[test]
    fn what_breaks_the_rules_is_named() {
        let long = |first: u8, len: &[u8]| [&[first][..], len].concat();
        for (bytes, words) in [
            (server(0xc1, b"x"), "reserved bits"),
            (server(0x83, b"x"), "unknown kind"),
            (server(0x8b, b"x"), "unknown kind"),
            (vec![0x81, 0x80], "masked"),
            (server(0x09, b"x"), "control frame is fragmented"),
            (vec![0x89, 126], "longer than 125"),
            (server(0x80, b"x"), "continuation without"),
            (
                [server(0x01, b"x"), server(0x81, b"y")].concat(),
                "inside another",
            ),
            (long(0x82, &[126, 0, 125]), "fewest bytes"),
            (
                long(0x82, &[127, 0, 0, 0, 0, 0, 0, 255, 255]),
                "fewest bytes",
            ),
            (long(0x82, &[127, 128, 0, 0, 0, 0, 0, 0, 0]), "2^63"),
            (server(0x88, b"\x03"), "half a code"),
            (server(0x81, b"\xff"), "not UTF-8"),
            (server(0x81, b"\xe2\x82"), "not UTF-8"),
            (
                [server(0x01, b"\xe2"), server(0x80, b"x")].concat(),
                "not UTF-8",
            ),
        ] {
            let refused = read(&bytes).unwrap_err();
            assert!(refused.contains(words), "{words}: {refused}");
        }
        // Nearly endless is not wrong.
        let nearly = long(0x82, &[127, 127, 255, 255, 255, 255, 255, 255, 255, 1, 2]);
        assert_eq!(read(&nearly), Ok(vec![]));
    }

    #[test]
    fn random_bytes_are_told_alike_in_all_pieces() {
        let mut random = crate::random::Random::seeded(7);
        for _ in 0..3_000 {
            let mut bytes = Vec::new();
            for _ in 0..random.bits() % 6 {
                let first = [
                    0x81,
                    0x82,
                    0x01,
                    0x00,
                    0x80,
                    0x89,
                    0x8a,
                    0x88,
                    random.bits() as u8,
                ];
                let first = first[random.bits() as usize % first.len()];
                bytes.extend(server(first, &vec![b'a'; random.bits() as usize % 300]));
            }
            if let Some(len) = (bytes.len() as u64).checked_sub(1).filter(|n| *n > 0) {
                bytes[(random.bits() % len) as usize] = random.bits() as u8;
            }
            // Whatever is said of it.
            let _ = read(&bytes);
        }
    }
}
