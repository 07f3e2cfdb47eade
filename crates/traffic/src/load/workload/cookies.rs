//! The cookies of one client (RFC 6265): name, value, path and end, in one buffer that is made before the load.
//!
//! All cookies are those of the one host that a load has, so domains are not told apart. A cookie that does not fit is
//! left out, and with it only itself.

/// What the cookies of a client may take, bookkeeping included.
const JAR_BYTES: usize = 8 * 1024;
/// Before each cookie: its end, and the lengths of its name, value and path.
const PREFIX: usize = 8 + 3 * 2;

/// The cookies of one client.
#[derive(Clone, Debug)]
pub(super) struct Jar(Vec<u8>);

/// One cookie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cookie<'a> {
    /// Until when it is sent, ns.
    pub until: u64,
    pub name: &'a [u8],
    pub value: &'a [u8],
    /// Of requests whose path starts so.
    pub path: &'a [u8],
}

impl Jar {
    /// An empty one that will not grow.
    pub fn new() -> Self {
        Jar(Vec::with_capacity(JAR_BYTES))
    }

    /// Forgets all cookies.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Keeps a cookie in place of the one of its name and path; one that has ended only goes.
    pub fn set(&mut self, cookie: Cookie<'_>, now: u64) {
        let mut at = 0;
        while at < self.0.len() {
            let (kept, len) = read(&self.0[at..]);
            if (kept.name, kept.path) == (cookie.name, cookie.path) {
                self.0.copy_within(at + len.., at);
                self.0.truncate(self.0.len() - len);
                break;
            }
            at += len;
        }
        let parts = [cookie.name, cookie.value, cookie.path];
        let len: usize = parts.iter().map(|part| part.len()).sum();
        if cookie.until <= now || self.0.len() + PREFIX + len > JAR_BYTES {
            return;
        }
        self.0.extend_from_slice(&cookie.until.to_le_bytes());
        for part in parts {
            // Shorter than the jar, which is shorter than 64 KiB.
            self.0.extend_from_slice(&(part.len() as u16).to_le_bytes());
        }
        parts.iter().for_each(|part| self.0.extend_from_slice(part));
    }

    /// The cookies for a request path, oldest first.
    pub fn matching<'a>(&'a self, path: &'a [u8], now: u64) -> impl Iterator<Item = Cookie<'a>> {
        let mut rest = self.0.as_slice();
        let all = std::iter::from_fn(move || {
            let (cookie, len) = (!rest.is_empty()).then(|| read(rest))?;
            rest = &rest[len..];
            Some(cookie)
        });
        all.filter(move |cookie| cookie.until > now && covers(cookie.path, path))
    }
}

/// The cookie at the front, and what it takes.
fn read(bytes: &[u8]) -> (Cookie<'_>, usize) {
    let length = |i: usize| usize::from(u16::from_le_bytes([bytes[i], bytes[i + 1]]));
    let mut until = [0; 8];
    until.copy_from_slice(&bytes[..8]);
    let (name, value, path) = (length(8), length(10), length(12));
    let [a, b, c] = [
        PREFIX + name,
        PREFIX + name + value,
        PREFIX + name + value + path,
    ];
    let cookie = Cookie {
        until: u64::from_le_bytes(until),
        name: &bytes[PREFIX..a],
        value: &bytes[a..b],
        path: &bytes[b..c],
    };
    (cookie, c)
}

/// RFC 6265 5.1.4.
fn covers(cookie: &[u8], request: &[u8]) -> bool {
    request
        .strip_prefix(cookie)
        .is_some_and(|rest| rest.is_empty() || cookie.ends_with(b"/") || rest.starts_with(b"/"))
}

/// The path of a request target: without its query.
pub(super) fn path_of(target: &[u8]) -> &[u8] {
    let end = target.iter().position(|b| matches!(b, b'?' | b'#'));
    &target[..end.unwrap_or(target.len())]
}

/// RFC 6265 5.1.4: the directory of the request's path.
fn default_path(path: &[u8]) -> &[u8] {
    match path.iter().rposition(|&b| b == b'/') {
        None | Some(0) => b"/",
        Some(at) => &path[..at],
    }
}

/// Reads the value of a `Set-Cookie` field of a response to `path` (RFC 6265 5.2). `date` is the response's own.
pub(super) fn read_field<'a>(
    field: &'a [u8],
    path: &'a [u8],
    date: Option<&[u8]>,
    is_secure: bool,
    now: u64,
) -> Option<Cookie<'a>> {
    let mut parts = field.split(|&b| b == b';');
    let (name, value) = split(parts.next()?)?;
    if name.is_empty() || name.iter().chain(value).any(|b| b.is_ascii_control()) {
        return None;
    }
    let mut cookie = Cookie {
        until: u64::MAX,
        name,
        value,
        path: default_path(path),
    };
    let mut has_max_age = false;
    for part in parts {
        let (key, value) = split(part).unwrap_or((part.trim_ascii(), b""));
        if key.eq_ignore_ascii_case(b"path") && value.starts_with(b"/") {
            cookie.path = value;
        } else if key.eq_ignore_ascii_case(b"max-age") {
            let seconds: Option<i64> = std::str::from_utf8(value).ok().and_then(|s| s.parse().ok());
            if let Some(seconds) = seconds {
                has_max_age = true;
                let left = u64::try_from(seconds).unwrap_or(0);
                cookie.until = match left {
                    0 => 0,
                    left => now.saturating_add(left.saturating_mul(1_000_000_000)),
                };
            }
        } else if key.eq_ignore_ascii_case(b"expires") && !has_max_age {
            // Without a date of the response there is nothing that an end could lie before.
            if let (Some(ends), Some(date)) = (moment(value), date.and_then(moment)) {
                cookie.until = match ends.saturating_sub(date) {
                    0 => 0,
                    left => now.saturating_add(left.saturating_mul(1_000_000_000)),
                };
            }
        } else if key.eq_ignore_ascii_case(b"secure") && !is_secure {
            return None;
        }
    }
    Some(cookie)
}

fn split(part: &[u8]) -> Option<(&[u8], &[u8])> {
    let at = part.iter().position(|&b| b == b'=')?;
    Some((part[..at].trim_ascii(), part[at + 1..].trim_ascii()))
}

/// Seconds of an HTTP date (`Sun, 06 Nov 1994 08:49:37 GMT`, also with hyphens) since the year 0.
fn moment(text: &[u8]) -> Option<u64> {
    const MONTHS: &str = "janfebmaraprmayjunjulaugsepoctnovdec";
    let text = std::str::from_utf8(text).ok()?;
    let words = text.split([' ', '-', ',']).filter(|w| !w.is_empty());
    let mut words = words.skip_while(|w| !w.starts_with(|c: char| c.is_ascii_digit()));
    let day: u64 = words.next()?.parse().ok()?;
    let name = words.next()?.get(..3)?;
    let month = (0..12).find(|m| MONTHS[m * 3..m * 3 + 3].eq_ignore_ascii_case(name))? as u64;
    let year: u64 = words.next()?.parse().ok().filter(|year| *year < 10_000)?;
    let year = match year {
        0..70 => year + 2000,
        70..100 => year + 1900,
        year => year,
    };
    let mut clock = words.next()?.split(':').map(|n| n.parse::<u64>().ok());
    let (hour, minute, second) = (clock.next()??, clock.next()??, clock.next()??);
    // Months of 31 days keep the order, and Max-Age is there for exact lengths.
    let days = year * 372 + month * 31 + day;
    days.checked_mul(86_400)?
        .checked_add(hour.checked_mul(3_600)? + minute.checked_mul(60)? + second)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    const DATE: Option<&[u8]> = Some(b"Mon, 23 Nov 2026 11:00:00 GMT");

    fn sent(fields: &[&str], path: &str) -> String {
        let mut jar = Jar::new();
        for field in fields {
            if let Some(cookie) = read_field(field.as_bytes(), b"/shop/cart", DATE, false, 5) {
                jar.set(cookie, 5);
            }
        }
        let pair = |c: Cookie<'_>| {
            format!(
                "{}={}",
                String::from_utf8_lossy(c.name),
                String::from_utf8_lossy(c.value)
            )
        };
        let pairs: Vec<String> = jar.matching(path.as_bytes(), 6).map(pair).collect();
        pairs.join("; ")
    }

    #[test]
    fn cookies_are_kept_replaced_and_ended() {
        assert_eq!(
            sent(&["a=1; Path=/", "b=2; Path=/; HttpOnly"], "/"),
            "a=1; b=2"
        );
        assert_eq!(sent(&["a=1; Path=/", "a=2; Path=/"], "/"), "a=2");
        assert_eq!(sent(&["a=1; Path=/", "a=; Path=/; Max-Age=0"], "/"), "");
        assert_eq!(sent(&["a=1; Max-Age=60; Path=/"], "/"), "a=1");
        let gone = "a=1; Path=/; Expires=Thu, 01 Jan 1970 00:00:00 GMT";
        assert_eq!(sent(&["a=1; Path=/", gone], "/"), "");
        let later = "a=1; Path=/; Expires=Wed, 25-Nov-2026 00:00:00 GMT";
        assert_eq!(sent(&[later], "/"), "a=1");
        assert_eq!(sent(&["a=1; Path=/; Secure"], "/"), "");
        assert_eq!(sent(&["=1", "a", "a=\u{1}"], "/"), "");
    }

    #[test]
    fn paths_decide() {
        assert_eq!(sent(&["a=1"], "/shop/x"), "a=1");
        assert_eq!(sent(&["a=1"], "/shopping"), "");
        assert_eq!(sent(&["a=1; Path=/shop/"], "/shop/x"), "a=1");
        assert_eq!(sent(&["a=1; Path=/other"], "/shop"), "");
        assert_eq!(path_of(b"/a?b=/c"), b"/a");
    }

    #[test]
    fn a_jar_never_grows_and_fuzz_like_fields_do_not_break_it() {
        let mut random = Random::seeded(3);
        let mut jar = Jar::new();
        let capacity = jar.0.capacity();
        for i in 0..20_000_u64 {
            let alphabet = b"ab=;, /0\"\\Pathmaxge-Expirs1970\xff";
            let len = random.bits() % 200;
            let field: Vec<u8> = (0..len)
                .map(|_| alphabet[random.bits() as usize % alphabet.len()])
                .collect();
            if let Some(cookie) = read_field(&field, b"/a/b", DATE, true, i) {
                jar.set(cookie, i);
            }
            assert!(jar.matching(b"/a", i).all(|c| !c.name.is_empty()));
        }
        assert_eq!(jar.0.capacity(), capacity);
        assert!(jar.matching(b"/a/b", 0).count() > 0);
    }
}
