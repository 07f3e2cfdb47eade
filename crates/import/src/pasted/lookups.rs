//! Questions for names among lines of strace: what goes to port 53, which names are asked for, and what comes back.
//!
//! The surprise is that strace shows the packet as bytes: its names stand behind their lengths (RFC 1035 4.1.2), and
//! the fourth byte of an answer says that nobody knows the name. strace cuts each off after 32 bytes.

use super::calls::{Call, peer};
use super::events::{artefact, told};
use record::pasted::{Artefact, Row};
use std::collections::BTreeMap;

/// Bytes of a packet before its first name.
const HEADER: usize = 12;
/// The code of an answer: nobody has that name (RFC 1035 4.1.1).
const NO_SUCH_NAME: u8 = 3;

/// All questions of a text.
pub(super) fn read(calls: &[Call<'_>]) -> Option<Artefact> {
    let mut servers: BTreeMap<(Option<&str>, &str), String> = BTreeMap::new();
    let mut found = artefact("look-ups by strace", 0);
    let mut asked: Vec<String> = Vec::new();
    for call in calls {
        let fd = call.rest.split([',', ')', '<']).next().unwrap_or_default();
        let key = (call.process, fd);
        // A datagram may have its server beside it instead of a connect.
        let beside = peer(call.rest).filter(|p| p.ends_with(":53"));
        match call.name {
            "connect" => {
                servers.remove(&key);
                servers.extend(beside.map(|server| (key, server)));
            }
            "close" => {
                servers.remove(&key);
            }
            "send" | "sendto" | "sendmsg" | "sendmmsg" | "write" => {
                let Some(server) = beside.or_else(|| servers.get(&key).cloned()) else {
                    continue;
                };
                for packet in quoted(call.rest).filter(|p| p.len() > HEADER && p[2] & 0x80 == 0) {
                    let name = name(&packet[HEADER..]);
                    found.begin_at(call.line);
                    found.add("lookups.count", 1.0);
                    found.add("lookups.again", f64::from(u8::from(asked.contains(&name))));
                    found.rows.push(Row {
                        label: name.clone(),
                        place: format!("of {server}"),
                        share: 1.0,
                    });
                    asked.push(name);
                }
            }
            "recv" | "recvfrom" | "recvmsg" | "read" => {
                if beside.is_none() && !servers.contains_key(&key) {
                    continue;
                }
                let answer = quoted(call.rest).find(|p| p.len() > 3 && p[2] & 0x80 != 0);
                if let Some(packet) = answer {
                    found.add("lookups.answers", 1.0);
                    let unknown = packet[3] & 0x0f == NO_SUCH_NAME;
                    found.add("lookups.unknown", f64::from(u8::from(unknown)));
                }
            }
            _ => {}
        }
    }
    found.settle();
    let names = found.rows.len() as f64;
    found.figures.insert("lookups.rows".into(), names);
    told(found)
}

/// The first name of a packet's question, as far as it is there: `\3www\7example\3com\0`.
fn name(mut bytes: &[u8]) -> String {
    let mut parts: Vec<String> = Vec::new();
    while let Some((length, rest)) = bytes.split_first().filter(|(n, _)| **n > 0) {
        let end = usize::from(*length).min(rest.len());
        parts.push(String::from_utf8_lossy(&rest[..end]).into_owned());
        bytes = &rest[end..];
    }
    parts.join(".")
}

/// The strings of a line, as bytes.
fn quoted(line: &str) -> impl Iterator<Item = Vec<u8>> {
    let mut rest = line.bytes();
    std::iter::from_fn(move || {
        rest.find(|b| *b == b'"')?;
        let mut bytes = Vec::new();
        let mut next = rest.next();
        while let Some(b) = next.filter(|b| *b != b'"') {
            next = rest.next();
            if b != b'\\' {
                bytes.push(b);
                continue;
            }
            let escaped = next?;
            next = rest.next();
            if !(b'0'..=b'7').contains(&escaped) {
                bytes.push(match escaped {
                    b'n' => b'\n',
                    b't' => b'\t',
                    b'r' => b'\r',
                    b'v' => 0x0b,
                    b'f' => 0x0c,
                    other => other,
                });
                continue;
            }
            // One to three digits of eight.
            let mut n = u32::from(escaped - b'0');
            for _ in 0..2 {
                let Some(digit) = next.filter(|b| (b'0'..=b'7').contains(b)) else {
                    break;
                };
                n = n * 8 + u32::from(digit - b'0');
                next = rest.next();
            }
            bytes.push((n & 0xff) as u8);
        }
        Some(bytes)
    })
}

#[cfg(test)]
mod tests {
    use super::super::calls;
    use super::super::events::written;

    #[test]
    fn names_and_what_nobody_knows_are_read_from_the_packets() {
        let text = r#"
socket(AF_INET, SOCK_DGRAM|SOCK_CLOEXEC, IPPROTO_IP) = 3
connect(3, {sa_family=AF_INET, sin_port=htons(53), sin_addr=inet_addr("10.0.0.2")}, 16) = 0
sendto(3, "\25q\1\0\0\1\0\0\0\0\0\0\3api\4test\0\0\1\0\1", 26, MSG_NOSIGNAL, NULL, 0) = 26
recvfrom(3, "\25q\201\203\0\1\0\0\0\0\0\0\3api\4test\0\0\1\0\1", 2048, 0, NULL, NULL) = 26
sendto(3, "\25r\1\0\0\1\0\0\0\0\0\0\3api\4test\0\0\34\0\1", 26, MSG_NOSIGNAL, NULL, 0) = 26
recvfrom(3, "\25r\201\200\0\1\0\1\0\0\0\0\3api\4test\0\0\34\0\1", 2048, 0, NULL, NULL) = 54
close(3) = 0
"#;
        let found = calls::read(&text.lines().collect::<Vec<_>>());
        let found = found.iter().find(|a| a.value("lookups.count").is_some());
        let found = found.unwrap();
        assert_eq!(written(found), ["api.test: of 10.0.0.2:53"]);
        let of = |name: &str| found.value(&format!("lookups.{name}"));
        let all = ["count", "again", "answers", "unknown"].map(of);
        assert_eq!(all, [2.0, 1.0, 2.0, 1.0].map(Some));
    }
}
