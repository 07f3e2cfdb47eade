//! The opening handshake (RFC 6455 4): the request with its key, and whether a response agrees to it.

use crate::transport::{Detail, Failure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http1::for_each_field;
use record::FailureKind;
use ring::digest::{Context, SHA1_FOR_LEGACY_USE_ONLY};

/// RFC 6455 1.3.
const GUID: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
/// 16 bytes in base64.
pub(super) const KEY_BYTES: usize = 24;
/// 20 bytes in base64.
const ACCEPT_BYTES: usize = 28;

/// A key as it is sent.
pub(super) type Key = [u8; KEY_BYTES];

/// The request that opens a WebSocket.
#[derive(Clone, Debug)]
pub(crate) struct Upgrade {
    /// Its bytes, with a place for the key.
    bytes: Vec<u8>,
    key_at: usize,
    /// Subprotocols that it offers, as typed.
    offered: String,
}

impl Upgrade {
    /// Of a request line and headers, each with its line end. `offered` is the value of Sec-WebSocket-Protocol.
    pub fn new(head: &[u8], offered: &str) -> Self {
        let mut bytes = head.to_vec();
        bytes.extend_from_slice(
            b"Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: ",
        );
        let key_at = bytes.len();
        bytes.extend_from_slice(&[b'A'; KEY_BYTES]);
        bytes.extend_from_slice(b"\r\n\r\n");
        Upgrade {
            bytes,
            key_at,
            offered: offered.to_owned(),
        }
    }

    /// The request's length.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// The request with this key, in place of what `out` held.
    pub fn write(&self, key: &Key, out: &mut Vec<u8>) {
        out.clear();
        out.extend_from_slice(&self.bytes);
        out[self.key_at..self.key_at + KEY_BYTES].copy_from_slice(key);
    }

    /// Checks the head of a response with status 101 (RFC 6455 4.1).
    ///
    /// # Errors
    /// What it lacks, or agrees to that nobody offered.
    pub fn check(&self, head: &[u8], key: &Key) -> Result<(), Failure> {
        let mut found = Found::default();
        let expected = accept(key);
        for_each_field(head, |name, value| found.note(name, value, self, &expected)).map_err(
            |error| Failure {
                kind: FailureKind::UpgradeRefused,
                detail: Detail::Codec(error),
            },
        )?;
        let refused = |text| Err(Failure::text(FailureKind::UpgradeRefused, text));
        match found {
            Found {
                upgrades: false, ..
            } => refused("the response with status 101 lacks `Upgrade: websocket`"),
            Found {
                connection: false, ..
            } => refused("the response with status 101 lacks `Connection: Upgrade`"),
            Found { accepts: None, .. } => {
                refused("the response with status 101 lacks Sec-WebSocket-Accept")
            }
            Found {
                accepts: Some(false),
                ..
            } => refused("its Sec-WebSocket-Accept is not that of the request's key"),
            Found { extends: true, .. } => refused(
                "it agrees to an extension (Sec-WebSocket-Extensions), and none was offered",
            ),
            Found {
                strange_protocol: true,
                ..
            } => refused("it chose a subprotocol (Sec-WebSocket-Protocol) that was not offered"),
            _ => Ok(()),
        }
    }
}

#[derive(Default)]
struct Found {
    upgrades: bool,
    connection: bool,
    accepts: Option<bool>,
    extends: bool,
    strange_protocol: bool,
}

impl Found {
    fn note(&mut self, name: &str, value: &[u8], asked: &Upgrade, accept: &[u8]) {
        let is = |other: &str| name.eq_ignore_ascii_case(other);
        if is("upgrade") {
            self.upgrades |= value.eq_ignore_ascii_case(b"websocket");
        } else if is("connection") {
            let mut options = value.split(|&b| b == b',').map(<[u8]>::trim_ascii);
            self.connection |= options.any(|option| option.eq_ignore_ascii_case(b"upgrade"));
        } else if is("sec-websocket-accept") {
            self.accepts = Some(value == accept);
        } else if is("sec-websocket-extensions") {
            self.extends = true;
        } else if is("sec-websocket-protocol") {
            let mut offered = asked.offered.split(',').map(str::trim);
            self.strange_protocol |= !offered.any(|one| one.as_bytes() == value);
        }
    }
}

/// A key of 16 random bytes.
pub(super) fn key(high: u64, low: u64) -> Key {
    let mut key = [0; KEY_BYTES];
    let nonce = (u128::from(high) << 64 | u128::from(low)).to_be_bytes();
    let written = STANDARD.encode_slice(nonce, &mut key);
    debug_assert_eq!(written, Ok(KEY_BYTES));
    key
}

/// What a server answers a key with.
pub(super) fn accept(key: &Key) -> [u8; ACCEPT_BYTES] {
    let mut hash = Context::new(&SHA1_FOR_LEGACY_USE_ONLY);
    hash.update(key);
    hash.update(GUID);
    let mut text = [0; ACCEPT_BYTES];
    let written = STANDARD.encode_slice(hash.finish(), &mut text);
    debug_assert_eq!(written, Ok(ACCEPT_BYTES));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 6455 1.3.
    const KEY: &Key = b"dGhlIHNhbXBsZSBub25jZQ==";

    #[test]
    fn a_key_has_its_place_and_its_answer() {
        assert_eq!(&accept(KEY), b"s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
        let nonce = b"the sample nonce";
        let number = u128::from_be_bytes(*nonce);
        assert_eq!(&key((number >> 64) as u64, number as u64), KEY);
        let upgrade = Upgrade::new(b"GET /chat HTTP/1.1\r\nHost: x\r\n", "");
        let mut out = vec![1, 2, 3];
        upgrade.write(KEY, &mut out);
        assert_eq!(out.len(), upgrade.len());
        let text = String::from_utf8(out).unwrap();
        assert!(text.starts_with("GET /chat HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\n"));
        assert!(text.ends_with("Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"));
    }

    #[test]
    fn a_response_that_does_not_agree_is_refused_by_what_it_lacks() {
        let upgrade = Upgrade::new(b"GET / HTTP/1.1\r\nHost: x\r\n", "chat, superchat");
        let check = |fields: &str| {
            let head = format!("HTTP/1.1 101 Switching\r\n{fields}\r\n");
            let checked = upgrade.check(head.as_bytes(), KEY);
            checked.map_err(|failure| failure.detail.to_string())
        };
        let good = "Upgrade: WebSocket\r\nconnection: keep-alive, Upgrade\r\n\
                    Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n";
        assert_eq!(check(good), Ok(()));
        assert_eq!(
            check(&format!("{good}Sec-WebSocket-Protocol: superchat\r\n")),
            Ok(())
        );
        for (without, words) in [
            ("Upgrade: WebSocket\r\n", "`Upgrade: websocket`"),
            (
                "connection: keep-alive, Upgrade\r\n",
                "`Connection: Upgrade`",
            ),
            (
                "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n",
                "lacks Sec-WebSocket-Accept",
            ),
        ] {
            let refused = check(&good.replace(without, "")).unwrap_err();
            assert!(refused.contains(words), "{refused}");
        }
        for (with, words) in [
            (
                "Sec-WebSocket-Accept: AAAA\r\n",
                "not that of the request's key",
            ),
            (
                "Sec-WebSocket-Extensions: permessage-deflate\r\n",
                "none was offered",
            ),
            ("Sec-WebSocket-Protocol: mqtt\r\n", "subprotocol"),
        ] {
            let refused = check(&format!("{good}{with}")).unwrap_err();
            assert!(refused.contains(words), "{refused}");
        }
    }
}
