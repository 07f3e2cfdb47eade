//! One line of an access log in the common or the combined format, as nginx and Apache write it.
//!
//! `HOST IDENT USER [31/Jan/2026:12:00:00 +0100] "GET /path HTTP/1.1" 200 1024 ...`; what follows is not looked at. The
//! surprise: the request is escaped, by nginx as `\x22` and by Apache as `\"` too, and is what a client sent: anything.

use super::LeftOutLine;
use super::when;

/// A request that can be sent again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Logged {
    /// Since 1970, s.
    pub at: i64,
    pub method: String,
    pub target: String,
    pub status: u16,
}

/// Reads a line.
pub(super) fn read(line: &[u8], takes_unsafe: bool) -> Result<Logged, LeftOutLine> {
    let (at, request, status) = fields(line).ok_or(LeftOutLine::Malformed)?;
    let (method, target) = request_line(&request).ok_or(LeftOutLine::Malformed)?;
    match method {
        "CONNECT" => return Err(LeftOutLine::Connect),
        "POST" | "PUT" | "PATCH" => return Err(LeftOutLine::Body),
        "GET" | "HEAD" | "OPTIONS" => {}
        _ if takes_unsafe => {}
        _ => return Err(LeftOutLine::Unsafe),
    }
    let target = path_of(target).ok_or(LeftOutLine::Target)?;
    Ok(Logged {
        at,
        method: method.to_owned(),
        target,
        status,
    })
}

/// Time, request and status.
fn fields(line: &[u8]) -> Option<(i64, Vec<u8>, u16)> {
    // A user's name may hold anything: the time is what stands before the request.
    let mut ends = (line.windows(3).enumerate()).filter(|(_, window)| *window == b"] \"");
    let (head, at, rest) = ends.find_map(|(end, _)| {
        let begin = line[..end].len().checked_sub(TIME_LEN)?;
        let head = line[..begin].strip_suffix(b"[")?;
        Some((head, time(&line[begin..end])?, &line[end + 3..]))
    })?;
    let (request, rest) = unquoted(rest)?;
    let rest = rest.strip_prefix(b" ")?;
    let end = rest.iter().position(|b| *b == b' ')?;
    let mut digits = &rest[..end];
    let status = when::number(&mut digits, 3).filter(|status| *status >= 100)?;
    let is_whole = digits.is_empty() && head.contains(&b' ');
    is_whole.then_some((at, request, status as u16))
}

/// Of `31/Jan/2026:12:00:00 +0100`.
const TIME_LEN: usize = 26;

/// `31/Jan/2026:12:00:00 +0100`.
fn time(mut text: &[u8]) -> Option<i64> {
    const MONTHS: &[u8] = b"JanFebMarAprMayJunJulAugSepOctNovDec";
    let text = &mut text;
    let day = when::number(text, 2)?;
    when::one_of(text, b"/")?;
    let (name, rest) = text.split_at_checked(3)?;
    *text = rest;
    let month = MONTHS.chunks(3).position(|month| month == name)? as u32 + 1;
    when::one_of(text, b"/")?;
    let year = when::number(text, 4)?;
    when::one_of(text, b":")?;
    let time = when::time_of_day(text)?;
    when::one_of(text, b" ")?;
    let sign = when::one_of(text, b"+-")?;
    let hours = when::number(text, 2)?;
    let offset_s = when::offset_s(sign, hours, when::number(text, 2)?)?;
    let at = when::seconds([year, month, day], time, offset_s)?;
    text.is_empty().then_some(at)
}

/// What stands before the closing quote, its escapes undone, and what stands behind it.
fn unquoted(text: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let mut inside = Vec::new();
    let mut i = 0;
    loop {
        match text.get(i)? {
            b'"' => return Some((inside, &text[i + 1..])),
            b'\\' => {
                let (byte, len) = match text.get(i + 1)? {
                    b'x' => {
                        let digits = text.get(i + 2..i + 4)?;
                        let digits = std::str::from_utf8(digits).ok()?;
                        let is_hex = digits.bytes().all(|b| b.is_ascii_hexdigit());
                        let byte = u8::from_str_radix(digits, 16).ok().filter(|_| is_hex)?;
                        (byte, 4)
                    }
                    b'n' => (b'\n', 2),
                    b'r' => (b'\r', 2),
                    b't' => (b'\t', 2),
                    b'b' => (8, 2),
                    b'v' => (11, 2),
                    b'f' => (12, 2),
                    same @ (b'"' | b'\\') => (*same, 2),
                    _ => return None,
                };
                inside.push(byte);
                i += len;
            }
            byte => {
                inside.push(*byte);
                i += 1;
            }
        }
    }
}

/// As servers log them; nginx and Apache write 2.0 where the protocol says 2.
const VERSIONS: [&[u8]; 6] = [
    b"HTTP/1.0",
    b"HTTP/1.1",
    b"HTTP/2",
    b"HTTP/2.0",
    b"HTTP/3",
    b"HTTP/3.0",
];

/// Method and target.
fn request_line(request: &[u8]) -> Option<(&str, &[u8])> {
    let method_end = request.iter().position(|b| *b == b' ')?;
    let version_at = request.iter().rposition(|b| *b == b' ')?;
    let is_version = VERSIONS.contains(&&request[version_at + 1..]);
    let method = std::str::from_utf8(&request[..method_end]).ok()?;
    let is_method =
        !method.is_empty() && method.bytes().all(|b| b.is_ascii_uppercase() || b == b'-');
    let target = request.get(method_end + 1..version_at)?;
    (is_version && is_method).then_some((method, target))
}

/// Path and query: a target that one request of HTTP/1.1 or 2 can carry, without the server of an absolute one.
fn path_of(target: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(target).ok()?;
    let path = match text.split_once("://") {
        Some((scheme, rest)) if !text.starts_with('/') => {
            let known = ["http", "https"]
                .iter()
                .any(|s| scheme.eq_ignore_ascii_case(s));
            let path = rest.find('/').map_or("/", |at| &rest[at..]);
            known.then_some(path)?
        }
        _ => text,
    };
    let path = path.split('#').next()?;
    let can_be_sent = path.starts_with('/') && path.bytes().all(|b| b > b' ' && b != 127);
    can_be_sent.then(|| path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn logged(line: &str) -> Result<(i64, String, u16), LeftOutLine> {
        let read = read(line.as_bytes(), false)?;
        let request = format!("{} {}", read.method, read.target);
        Ok((read.at, request, read.status))
    }

    #[test]
    fn lines_of_nginx_and_apache_are_read() {
        let same = |at, request: &str, status| Ok((at, request.to_owned(), status));
        // The example of Apache's manual.
        let apache = r#"127.0.0.1 - frank [10/Oct/2000:13:55:36 -0700] "GET /apache_pb.gif HTTP/1.0" 200 2326"#;
        assert_eq!(logged(apache), same(971_211_336, "GET /apache_pb.gif", 200));
        let combined = r#"127.0.0.1 - frank [10/Oct/2000:13:55:36 -0700] "GET /apache_pb.gif HTTP/1.0" 200 2326 "http://www.example.com/start.html" "Mozilla/4.08 [en] (Win98; I ;Nav)""#;
        assert_eq!(logged(combined), logged(apache));
        let v6 = r#"2001:db8::17 - - [01/Jan/1970:00:00:07 +0000] "HEAD /a?b=c&d=%20 HTTP/1.1" 404 0 "-" "curl/8.5.0""#;
        assert_eq!(logged(v6), same(7, "HEAD /a?b=c&d=%20", 404));
        let no_length = r#"::1 - - [01/Jan/1970:00:00:07 +0000] "OPTIONS /x HTTP/2.0" 304 -"#;
        assert_eq!(logged(no_length), same(7, "OPTIONS /x", 304));
        let proxied = r#"10.0.0.1 - - [01/Jan/1970:00:00:00 +0000] "GET http://a.example/x?y HTTP/1.1" 200 5"#;
        assert_eq!(logged(proxied), same(0, "GET /x?y", 200));
    }

    #[test]
    fn escapes_are_undone_and_names_may_hold_anything() {
        let line = |request: &str| {
            format!(r#"::1 - a [b] "c" [01/Jan/1970:00:00:00 +0000] "{request}" 200 5 "-" "-""#)
        };
        let target = |request: &str| logged(&line(request)).map(|(_, request, _)| request);
        assert_eq!(target(r#"GET /a\"b HTTP/1.1"#).unwrap(), "GET /a\"b");
        assert_eq!(
            target(r"GET /a\x22b\x5Cc HTTP/1.1").unwrap(),
            "GET /a\"b\\c"
        );
        assert_eq!(
            target(r"GET /caf\xC3\xA9 HTTP/1.1").unwrap(),
            "GET /caf\u{e9}"
        );
        assert_eq!(target("GET /{{uuid}} HTTP/1.1").unwrap(), "GET /{{uuid}}");
        for request in [
            r"GET /\xC3 HTTP/1.1",
            r"GET /a\nb HTTP/1.1",
            "GET /a b HTTP/1.1",
            "OPTIONS * HTTP/1.1",
        ] {
            assert_eq!(target(request), Err(LeftOutLine::Target), "{request}");
        }
    }

    #[test]
    fn what_cannot_be_sent_has_a_reason() {
        let line = |request: &str| {
            let line = format!(r#"::1 - - [01/Jan/1970:00:00:00 +0000] "{request}" 200 5"#);
            logged(&line).unwrap_err()
        };
        assert_eq!(line("CONNECT a:443 HTTP/1.1"), LeftOutLine::Connect);
        for method in ["POST", "PUT", "PATCH"] {
            assert_eq!(line(&format!("{method} / HTTP/1.1")), LeftOutLine::Body);
        }
        assert_eq!(line("DELETE / HTTP/1.1"), LeftOutLine::Unsafe);
        for request in [
            "-",
            "",
            r"\x16\x03\x01",
            "GET /",
            "GET",
            "get / HTTP/1.1",
            r"GET /\q HTTP/1.1",
        ] {
            assert_eq!(line(request), LeftOutLine::Malformed, "{request}");
        }
        for text in [
            "",
            "nonsense",
            r#"::1 - - [32/Jan/1970:00:00:00 +0000] "GET / HTTP/1.1" 200 5"#,
            r#"::1 - - [01/Foo/1970:00:00:00 +0000] "GET / HTTP/1.1" 200 5"#,
            r#"::1 - - [01/Jan/1970:00:00:00] "GET / HTTP/1.1" 200 5"#,
            r#"::1 - - [01/Jan/1970:00:00:00 +0000] "GET / HTTP/1.1" 2000 5"#,
            r#"::1 - - [01/Jan/1970:00:00:00 +0000] "GET / HTTP/1.1" 200"#,
            r#"::1 - - [01/Jan/1970:00:00:00 +0000] "GET / HTTP/1.1"#,
        ] {
            assert_eq!(logged(text), Err(LeftOutLine::Malformed), "{text}");
        }
    }
}
