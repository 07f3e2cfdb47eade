//! What a question is in the protocols that are told by their first bytes, and whether its answer found anything.
//!
//! PostgreSQL's frontend protocol 3, MySQL's client protocol, RESP (Redis, Valkey), memcached's text and binary
//! protocols, MongoDB's `OP_MSG`, FastCGI 1, LDAP 3, HTTP/1. What is encrypted has no words.

use super::shape;

/// Messages before the one that says what is asked: those of the statement before, closed with it.
const MESSAGES: usize = 8;
/// Longer messages are none: what looks like one is of another protocol.
const LONGEST: usize = 1 << 26;

const POSTGRESQL: &str = "PostgreSQL";
const MYSQL: &str = "MySQL";
const REDIS: &str = "Redis";
const MEMCACHED: &str = "memcached";
const SILENT: &str = record::Question::UNANSWERED;

/// What the first read of an answer holds; nothing of what is shorter than a part.
pub(super) struct Answer<'a> {
    pub(super) begins: &'a [u8],
    pub(super) ends: &'a [u8],
}

/// A protocol and the words of a question.
type Words = (&'static str, String);
/// How one protocol is read.
type Way = fn(&[u8]) -> Option<Words>;

/// Protocol and words of a question; `None` where it is of none that is known.
pub(super) fn read(bytes: &[u8]) -> Option<Words> {
    let ways: [Way; 9] = [
        http,
        redis,
        memcached,
        memcached_binary,
        fastcgi,
        mongodb,
        mysql,
        postgresql,
        ldap,
    ];
    ways.iter().find_map(|way| way(bytes))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Up to the next zero, and what follows it; all where there is none.
fn until_zero(bytes: &[u8]) -> (&[u8], &[u8]) {
    match bytes.iter().position(|&b| b == 0) {
        Some(end) => (&bytes[..end], &bytes[end + 1..]),
        None => (bytes, &[]),
    }
}

fn number(bytes: &[u8]) -> Option<usize> {
    str::from_utf8(bytes).ok()?.parse().ok()
}

fn begins_as_words(bytes: &[u8]) -> bool {
    let first = bytes.trim_ascii_start().first();
    first.is_some_and(|b| b.is_ascii_alphabetic() || matches!(b, b'/' | b'(' | b'-'))
}

fn http(bytes: &[u8]) -> Option<Words> {
    let (method, target) = http1::peek_target(bytes)?;
    Some(("HTTP", format!("{method} {}", shape::path(&target))))
}

fn redis(bytes: &[u8]) -> Option<Words> {
    let mut lines = bytes.strip_prefix(b"*")?.split(|&b| b == b'\n');
    let words = number(lines.next()?.trim_ascii_end())?;
    let mut word = || -> Option<&[u8]> {
        lines.next()?.strip_prefix(b"$")?;
        Some(lines.next()?.trim_ascii_end())
    };
    let command = text(word()?).to_ascii_uppercase();
    // What a script is called by is its hash, and what it holds may be anything.
    let key = (words > 1 && !command.starts_with("EVAL"))
        .then(word)
        .flatten();
    let key = key.filter(|k| !k.is_empty() && command != "AUTH" && command != "HELLO");
    Some((
        REDIS,
        match key {
            Some(key) => format!("{command} {}", shape::words(&text(key))),
            None => command,
        },
    ))
}

fn memcached(bytes: &[u8]) -> Option<Words> {
    const COMMANDS: [&[u8]; 15] = [
        b"get", b"gets", b"gat", b"set", b"add", b"replace", b"append", b"prepend", b"cas",
        b"delete", b"incr", b"decr", b"touch", b"mg", b"ms",
    ];
    let line = bytes.split(|&b| b == b'\r').next()?;
    let mut words = line.split(|&b| b == b' ');
    let command = words.next().filter(|c| COMMANDS.contains(c))?;
    let key = words.next()?;
    // Nothing answers it: what was waited for is the question behind it.
    let is_silent = words.next_back() == Some(b"noreply");
    let silent = if is_silent { SILENT } else { "" };
    let key = shape::words(&text(key));
    Some((MEMCACHED, format!("{} {key}{silent}", text(command))))
}

/// Magic, opcode, length of the key, of what goes before it, and the rest of 24 bytes.
fn memcached_binary(bytes: &[u8]) -> Option<Words> {
    let (head, body) = bytes.split_first_chunk::<24>()?;
    let (command, silent) = match (head[0], head[1]) {
        (0x80, 0x00 | 0x09 | 0x0c | 0x0d) => ("get", ""),
        (0x80, 0x01) => ("set", ""),
        (0x80, 0x11) => ("set", SILENT),
        (0x80, 0x04) => ("delete", ""),
        (0x80, 0x14) => ("delete", SILENT),
        _ => return None,
    };
    let key = body.get(usize::from(head[4])..)?;
    let key = &key[..key
        .len()
        .min(usize::from(u16::from_be_bytes([head[2], head[3]])))];
    let key = shape::words(&text(key));
    Some((MEMCACHED, format!("{command} {key}{silent}")))
}

/// Records of version 1: the begin of a request, then pairs of names and values.
fn fastcgi(bytes: &[u8]) -> Option<Words> {
    let params = bytes.strip_prefix(&[1, 1])?.get(14..)?;
    let mut rest = params.strip_prefix(&[1, 4])?.get(6..)?;
    let (mut method, mut path, mut query) = (String::new(), String::new(), String::new());
    while let Some((name, value, more)) = pair(rest) {
        match name {
            b"REQUEST_METHOD" => method = text(value),
            b"SCRIPT_NAME" | b"DOCUMENT_URI" if path.is_empty() => path = text(value),
            b"REQUEST_URI" => path = text(value),
            b"QUERY_STRING" if !value.is_empty() => query = format!("?{}", text(value)),
            _ => {}
        }
        rest = more;
    }
    // Who is told no more is asked by the query alone.
    let path = if path.is_empty() { query } else { path };
    let words = format!("{method} {}", shape::path(&path));
    Some(("FastCGI", words.trim().to_owned()))
}

/// A name, its value, and what follows: lengths of one byte, or of four where the first bit is set.
fn pair(bytes: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let length = |bytes: &[u8]| -> Option<(usize, usize)> {
        let first = *bytes.first()?;
        if first < 0x80 {
            return Some((usize::from(first), 1));
        }
        let four = u32::from_be_bytes(*bytes.first_chunk()?) & 0x7fff_ffff;
        Some((usize::try_from(four).ok()?, 4))
    };
    let (name, used) = length(bytes)?;
    let bytes = bytes.get(used..)?;
    let (value, used) = length(bytes)?;
    let (name, bytes) = bytes.get(used..)?.split_at_checked(name)?;
    let (value, bytes) = bytes.split_at_checked(value)?;
    Some((name, value, bytes))
}

/// `OP_MSG`: a document whose first element names the command, and the collection where it is a text.
fn mongodb(bytes: &[u8]) -> Option<Words> {
    const OP_MSG: u32 = 2013;
    let word = |at: usize| Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?));
    if word(12)? != OP_MSG || *bytes.get(20)? != 0 {
        return None;
    }
    let element = bytes.get(25..)?;
    let (&kind, element) = element.split_first()?;
    let (command, rest) = until_zero(element);
    let collection = (kind == 2).then(|| until_zero(rest.get(4..).unwrap_or_default()).0);
    let words = format!("{} {}", text(command), text(collection.unwrap_or_default()));
    Some(("MongoDB", words.trim().to_owned()))
}

/// Three bytes of length, number 0 in the conversation, a command.
fn mysql(bytes: &[u8]) -> Option<Words> {
    let (head, body) = bytes.split_first_chunk::<5>()?;
    let length = usize::from(head[0]) | usize::from(head[1]) << 8 | usize::from(head[2]) << 16;
    // All of it, or what is cut.
    let is_whole = length == body.len() + 1 || length > body.len() + 1 && bytes.len() > 64;
    if head[3] != 0 || !is_whole {
        return None;
    }
    // With attributes: their number and one set of them.
    let statement = body.strip_prefix(&[0, 1]).unwrap_or(body);
    let words = match head[4] {
        0x03 | 0x16 if begins_as_words(statement) => shape::sql(&text(statement), true),
        0x17 => "EXECUTE".to_owned(),
        0x0e if body.is_empty() => "PING".to_owned(),
        0x02 if begins_as_words(body) => "USE".to_owned(),
        _ => return None,
    };
    Some((MYSQL, words))
}

/// Messages of a letter and a length: `Query`, `Parse` and `Bind` say what is asked.
fn postgresql(bytes: &[u8]) -> Option<Words> {
    const VERSION_3: [u8; 4] = [0, 3, 0, 0];
    let startup = bytes.get(4..8);
    if bytes.first() == Some(&0) && startup == Some(&VERSION_3) {
        return Some((POSTGRESQL, "(logs in)".to_owned()));
    }
    let mut rest = bytes;
    for _ in 0..MESSAGES {
        let (&kind, message) = rest.split_first()?;
        let (length, body) = message.split_first_chunk()?;
        let length = usize::try_from(u32::from_be_bytes(*length))
            .ok()?
            .checked_sub(4)?;
        if length > LONGEST {
            return None;
        }
        let (name, after) = until_zero(body);
        let words = match kind {
            b'Q' if begins_as_words(body) => shape::sql(&text(name), false),
            b'P' if begins_as_words(after) => shape::sql(&text(until_zero(after).0), false),
            b'B' => format!("EXECUTE {}", text(until_zero(after).0))
                .trim()
                .to_owned(),
            b'C' | b'S' | b'H' | b'D' | b'E' => {
                rest = body.get(length..)?;
                continue;
            }
            _ => return None,
        };
        return Some((POSTGRESQL, words));
    }
    None
}

/// A sequence of a number and an operation.
fn ldap(bytes: &[u8]) -> Option<Words> {
    let after = |bytes: &'_ [u8], tag: u8| -> Option<usize> {
        let length = *bytes.strip_prefix(&[tag])?.first()?;
        Some(
            2 + if length < 0x80 {
                0
            } else {
                usize::from(length & 0x7f)
            },
        )
    };
    let message = bytes.get(after(bytes, 0x30)?..)?;
    let number = usize::from(*message.get(1)?);
    let operation = message.get(after(message, 0x02)? + number..)?;
    let words = match operation.first()? {
        0x60 => "bind",
        0x63 => "search",
        0x66 => "modify",
        0x68 => "add",
        0x6e => "compare",
        _ => return None,
    };
    Some(("LDAP", words.to_owned()))
}

impl Answer<'_> {
    /// How many it found, where the protocol says so in what was read; of a cache 1 or none.
    pub(super) fn tells(&self, protocol: &str) -> Option<u64> {
        match protocol {
            MEMCACHED => self.of_memcached(),
            REDIS => self.of_redis(),
            POSTGRESQL => self.of_postgresql(),
            _ => None,
        }
    }

    fn of_memcached(&self) -> Option<u64> {
        let begins = |with: &[u8]| self.begins.starts_with(with);
        if let Some(&[0x81, opcode, _, _, _, _, high, low]) = self.begins.first_chunk() {
            let asked = matches!(opcode, 0x00 | 0x09 | 0x0c | 0x0d);
            return asked.then(|| u64::from((high, low) == (0, 0)));
        }
        if begins(b"END\r\n") || begins(b"EN\r\n") {
            return Some(0);
        }
        (begins(b"VALUE ") || begins(b"VA ")).then_some(1)
    }

    fn of_redis(&self) -> Option<u64> {
        let (&kind, rest) = self.begins.split_first()?;
        let line = rest.split(|&b| b == b'\r').next()?;
        match kind {
            b'_' => Some(0),
            b'$' => Some(u64::from(line != b"-1")),
            b'*' if line == b"-1" => Some(0),
            b'*' => Some(number(line)? as u64),
            _ => None,
        }
    }

    /// `CommandComplete` with its words before `ReadyForQuery`, the last message.
    fn of_postgresql(&self) -> Option<u64> {
        const SELECT: &[u8] = b"SELECT ";
        let at = self.ends.len().checked_sub(6)?;
        let (words, ready) = self.ends.split_at(at);
        if !ready.starts_with(&[b'Z', 0, 0, 0, 5]) {
            return None;
        }
        let at = words.windows(SELECT.len()).rposition(|w| w == SELECT)?;
        let rows = until_zero(&words[at + SELECT.len()..]).0;
        Some(number(rows)? as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: u8, body: &[u8]) -> Vec<u8> {
        let length = (body.len() as u32 + 4).to_be_bytes();
        [&[kind], &length[..], body].concat()
    }

    fn said(bytes: &[u8]) -> Option<Words> {
        read(bytes)
    }

    #[test]
    fn each_protocol_says_what_is_asked() {
        let parse = message(b'P', b"s1\0SELECT a FROM t WHERE b = $1\0\0\0");
        let bind = message(b'B', b"\0S_3\0\0\0");
        let closed = message(b'C', b"Sold\0");
        let mut query = b"\x19\0\0\0\x03".to_vec();
        query.extend(b"SELECT 1 FROM t WHERE a=2");
        query[0] = query.len() as u8 - 4;
        let mut binary = vec![0x80, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 7];
        binary.resize(24, 0);
        binary.extend(b"user:12");
        let mut mongo = vec![0; 12];
        mongo.extend(2013_u32.to_le_bytes());
        mongo.extend([0, 0, 0, 0, 0, 40, 0, 0, 0, 2]);
        mongo.extend(b"find\0\x07\0\0\0orders\0");
        let mut fcgi = vec![
            1, 1, 0, 1, 0, 8, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1, 4, 0, 1, 0, 40, 0, 0,
        ];
        fcgi.extend(b"\x0e\x03REQUEST_METHODGET");
        fcgi.extend(b"\x0b\x0cREQUEST_URI/item.php?i=");
        let mut queried = fcgi[..24].to_vec();
        queried.extend(b"\x0c\x0fQUERY_STRINGFIF=a.tif&JTL=3");
        queried.extend(b"\x0e\x03REQUEST_METHODGET");
        let mut quiet = binary.clone();
        quiet[1] = 0x11;
        let search = [0x30, 0x81, 0x90, 2, 1, 7, 0x63, 0x81, 0x80];
        for (bytes, protocol, words) in [
            (
                message(b'Q', b"SELECT a FROM t WHERE b = 7\0"),
                POSTGRESQL,
                "SELECT a FROM t WHERE b = ?",
            ),
            (parse, POSTGRESQL, "SELECT a FROM t WHERE b = ?"),
            ([closed, bind].concat(), POSTGRESQL, "EXECUTE S_3"),
            (
                b"\0\0\0\x20\0\x03\0\0user\0a\0".to_vec(),
                POSTGRESQL,
                "(logs in)",
            ),
            (query, MYSQL, "SELECT ? FROM t WHERE a=?"),
            (b"\x05\0\0\0\x17\x01\0\0\0".to_vec(), MYSQL, "EXECUTE"),
            (
                b"*2\r\n$3\r\nget\r\n$7\r\nuser:12\r\n".to_vec(),
                REDIS,
                "GET user:?",
            ),
            (
                b"*2\r\n$4\r\nAUTH\r\n$6\r\nsecret\r\n".to_vec(),
                REDIS,
                "AUTH",
            ),
            (b"gets user:12\r\n".to_vec(), MEMCACHED, "gets user:?"),
            (
                b"set user:12 0 9 1 noreply\r\nx\r\n".to_vec(),
                MEMCACHED,
                "set user:? noreply, and the next",
            ),
            (binary, MEMCACHED, "get user:?"),
            (quiet, MEMCACHED, "set user:? noreply, and the next"),
            (mongo, "MongoDB", "find orders"),
            (fcgi, "FastCGI", "GET /item.php?i=?"),
            (queried, "FastCGI", "GET ?FIF=?&JTL=?"),
            (
                b"GET /a/12?x=1 HTTP/1.1\r\nHost: b\r\n".to_vec(),
                "HTTP",
                "GET /a/??x=?",
            ),
            (search.to_vec(), "LDAP", "search"),
        ] {
            assert_eq!(
                said(&bytes),
                Some((protocol, words.to_owned())),
                "{:?}",
                text(&bytes)
            );
            // Cut anywhere, or with another byte, it may be of any protocol, and its words are bounded.
            for at in 0..bytes.len() {
                let mut other = bytes.clone();
                other[at] ^= 0xff;
                for damaged in [&bytes[..at], &other] {
                    let words = said(damaged).map_or(0, |(_, words)| words.chars().count());
                    assert!(words < 250, "{:?}", text(damaged));
                }
            }
        }
        for other in [
            &b"\x17\x03\x03\0\x20abcdefgh"[..],
            b"PRI * HTTP/2.0\r\n",
            b"",
            b"*",
            b"\0\0\0\0",
            b"Qabc",
        ] {
            assert_eq!(said(other), None, "{other:?}");
        }
    }

    #[test]
    fn a_question_may_be_cut_anywhere() {
        let whole = [
            message(b'P', b"s1\0SELECT a FROM t WHERE b = $1\0\0\0"),
            message(b'B', b"\0s1\0"),
        ]
        .concat();
        for end in 0..whole.len() {
            let words = said(&whole[..end]).map(|(_, words)| words);
            assert!(words.is_none_or(|w| {
                "SELECT a FROM t WHERE b = ?".starts_with(w.trim_end_matches('?'))
            }));
        }
    }

    #[test]
    fn answers_tell_how_much_they_found() {
        let mut rows = vec![b'D'; 60];
        rows.extend(message(b'C', b"SELECT 12\0"));
        rows.extend(message(b'Z', b"I"));
        let binary = [0x81, 0, 0, 0, 0, 0, 0, 1];
        for (protocol, answer, found) in [
            (MEMCACHED, &b"END\r\n"[..], Some(0)),
            (MEMCACHED, b"VALUE a 0 1\r\nx\r\nEND\r\n", Some(1)),
            (MEMCACHED, b"STORED\r\n", None),
            (MEMCACHED, &binary, Some(0)),
            (REDIS, b"$-1\r\n", Some(0)),
            (REDIS, b"$5\r\nhello\r\n", Some(1)),
            (REDIS, b"*0\r\n", Some(0)),
            (REDIS, b"+OK\r\n", None),
            (POSTGRESQL, &rows, Some(12)),
            (POSTGRESQL, &rows[..70], None),
            ("HTTP", b"HTTP/1.1 404", None),
        ] {
            let ends = answer
                .get(answer.len().saturating_sub(32)..)
                .unwrap_or_default();
            let answer = Answer {
                begins: &answer[..answer.len().min(16)],
                ends,
            };
            assert_eq!(
                answer.tells(protocol),
                found,
                "{protocol} {:?}",
                text(answer.begins)
            );
        }
    }
}
