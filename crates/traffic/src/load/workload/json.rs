//! One value out of a JSON text, by a pointer (RFC 6901), without a tree of it: a load thread may not allocate.
//!
//! What lies on the way to the value is read, what lies beside it is skipped, and what follows it is never looked at.

/// A pointer, split and unescaped.
#[derive(Clone, Debug)]
pub(super) struct Pointer(Vec<String>);

/// How deep values may lie in each other where they are skipped.
const DEPTH_MAX: u32 = 128;

impl Pointer {
    /// Of text that is empty or starts with a slash.
    pub fn new(text: &str) -> Self {
        let unescaped = |token: &str| token.replace("~1", "/").replace("~0", "~");
        Pointer(text.split('/').skip(1).map(unescaped).collect())
    }

    /// The bytes of the value, quotes included.
    pub fn find<'a>(&self, text: &'a [u8]) -> Option<&'a [u8]> {
        let mut at = Cursor { text, at: 0 };
        for token in &self.0 {
            at.blank();
            match at.peek()? {
                b'{' => at.enter_member(token)?,
                b'[' => at.enter_item(token)?,
                _ => return None,
            }
        }
        at.blank();
        let from = at.at;
        at.skip(0)?;
        Some(&text[from..at.at])
    }
}

struct Cursor<'a> {
    text: &'a [u8],
    at: usize,
}

impl Cursor<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn take(&mut self, byte: u8) -> Option<()> {
        self.blank();
        (self.peek()? == byte).then(|| self.at += 1)
    }

    fn blank(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\r' | b'\n')) {
            self.at += 1;
        }
    }

    /// Stops before the value of the member of this name.
    fn enter_member(&mut self, name: &str) -> Option<()> {
        self.at += 1;
        loop {
            self.blank();
            let from = self.at;
            self.string()?;
            let key = &self.text[from + 1..self.at - 1];
            self.take(b':')?;
            if unescaped(key).eq(name.bytes()) {
                return Some(());
            }
            self.skip(0)?;
            self.take(b',')?;
        }
    }

    /// Stops before the item of this index.
    fn enter_item(&mut self, index: &str) -> Option<()> {
        let is_index = index == "0" || !index.starts_with(['0', '+']);
        let index: usize = index.parse().ok().filter(|_| is_index)?;
        self.at += 1;
        self.blank();
        if self.peek()? == b']' {
            return None;
        }
        for _ in 0..index {
            self.skip(0)?;
            self.take(b',')?;
        }
        Some(())
    }

    /// Past a value.
    fn skip(&mut self, depth: u32) -> Option<()> {
        self.blank();
        match self.peek()? {
            b'"' => self.string(),
            b'{' | b'[' if depth == DEPTH_MAX => None,
            open @ (b'{' | b'[') => {
                let close = open + 2;
                self.at += 1;
                self.blank();
                if self.peek()? == close {
                    self.at += 1;
                    return Some(());
                }
                loop {
                    if open == b'{' {
                        self.blank();
                        self.string()?;
                        self.take(b':')?;
                    }
                    self.skip(depth + 1)?;
                    self.blank();
                    let next = self.peek()?;
                    self.at += 1;
                    match next {
                        b',' => {}
                        next => return (next == close).then_some(()),
                    }
                }
            }
            _ => {
                let from = self.at;
                let is_part = |b: u8| b.is_ascii_alphanumeric() || b"+-.".contains(&b);
                while self.peek().is_some_and(is_part) {
                    self.at += 1;
                }
                (self.at > from).then_some(())
            }
        }
    }

    fn string(&mut self) -> Option<()> {
        if self.peek()? != b'"' {
            return None;
        }
        self.at += 1;
        loop {
            match self.peek()? {
                b'"' => {
                    self.at += 1;
                    return Some(());
                }
                b'\\' => self.at += 2,
                _ => self.at += 1,
            }
        }
    }
}

/// Are two values of plain kinds the same, whatever their escapes? Numbers are compared as such.
pub(super) fn is_equal(found: &[u8], expected: &[u8]) -> bool {
    let inside = |text: &'_ [u8]| -> Option<(usize, usize)> {
        matches!(text, [b'"', .., b'"']).then_some((1, text.len() - 1))
    };
    match (inside(found), inside(expected)) {
        (Some((a, b)), Some((c, d))) => unescaped(&found[a..b]).eq(unescaped(&expected[c..d])),
        (None, None) if found == expected => true,
        (None, None) => match (number(found), number(expected)) {
            (Some(a), Some(b)) => a == b,
            _ => false,
        },
        _ => false,
    }
}

fn number(text: &[u8]) -> Option<f64> {
    let text = std::str::from_utf8(text).ok()?;
    text.parse().ok().filter(|x: &f64| x.is_finite())
}

/// The bytes of a string's inside with its escapes resolved.
pub(super) fn unescaped(inside: &[u8]) -> impl Iterator<Item = u8> + '_ {
    Unescaped {
        inside,
        at: 0,
        left: [0; 4],
        held: 0,
    }
}

struct Unescaped<'a> {
    inside: &'a [u8],
    at: usize,
    /// Bytes of a character that is being given out, in reverse.
    left: [u8; 4],
    held: usize,
}

impl Unescaped<'_> {
    /// Four hexadecimal digits at a place.
    fn unit(&self, at: usize) -> Option<u32> {
        let digits = std::str::from_utf8(self.inside.get(at..at + 4)?).ok()?;
        u32::from_str_radix(digits, 16).ok()
    }

    /// Behind `\u`, with the second half of a pair of surrogates.
    fn character(&mut self) -> char {
        let Some(unit) = self.unit(self.at) else {
            return char::REPLACEMENT_CHARACTER;
        };
        self.at += 4;
        if (0xd800..0xdc00).contains(&unit)
            && self.inside.get(self.at..self.at + 2) == Some(b"\\u")
            && let Some(low) = self.unit(self.at + 2)
            && (0xdc00..0xe000).contains(&low)
        {
            self.at += 6;
            let code = 0x1_0000 + ((unit - 0xd800) << 10) + (low - 0xdc00);
            return char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER);
        }
        char::from_u32(unit).unwrap_or(char::REPLACEMENT_CHARACTER)
    }
}

impl Iterator for Unescaped<'_> {
    type Item = u8;

    fn next(&mut self) -> Option<u8> {
        if self.held > 0 {
            self.held -= 1;
            return Some(self.left[self.held]);
        }
        let byte = *self.inside.get(self.at)?;
        self.at += 1;
        if byte != b'\\' {
            return Some(byte);
        }
        let escape = *self.inside.get(self.at)?;
        self.at += 1;
        Some(match escape {
            b'b' => 8,
            b'f' => 12,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'u' => {
                let mut bytes = [0; 4];
                let len = self.character().encode_utf8(&mut bytes).len();
                bytes[..len].reverse();
                self.left = bytes;
                self.held = len - 1;
                bytes[len - 1]
            }
            other => other,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;
    use serde_json::Value;

    fn find<'a>(pointer: &str, text: &'a str) -> Option<&'a str> {
        let found = Pointer::new(pointer).find(text.as_bytes())?;
        std::str::from_utf8(found).ok()
    }

    #[test]
    fn pointers_lead_to_their_values() {
        let text = r#" {"a": {"b\"": [1, {"c": "x"}, [] ], "d/e": null}, "": -1.5e3, "a~": true} "#;
        for (pointer, value) in [
            ("/a/b\"/0", Some("1")),
            ("/a/b\"/1/c", Some("\"x\"")),
            ("/a/b\"/2", Some("[]")),
            ("/a/b\"/3", None),
            ("/a/b\"/01", None),
            ("/a/d~1e", Some("null")),
            ("/", Some("-1.5e3")),
            ("/a~0", Some("true")),
            ("/missing", None),
            ("/a/d~1e/x", None),
        ] {
            assert_eq!(find(pointer, text), value, "{pointer}");
        }
        assert_eq!(find("", "[1]"), Some("[1]"));
        assert_eq!(find("/0", "[]"), None);
    }

    #[test]
    fn equal_is_what_means_the_same() {
        for (a, b, equal) in [
            (r#""a\u0062\n""#, "\"ab\\u000a\"", true),
            (r#""\ud83d\ude00""#, "\"😀\"", true),
            ("1", "1.0", true),
            ("1", "\"1\"", false),
            ("true", "true", true),
            ("true", "false", false),
            ("\"a\"", "\"b\"", false),
        ] {
            assert_eq!(is_equal(a.as_bytes(), b.as_bytes()), equal, "{a} {b}");
        }
    }

    /// A random value, and a pointer to one inside.
    fn grown(random: &mut Random, depth: u32) -> (Value, String) {
        let pick = random.bits() % if depth == 0 { 4 } else { 6 };
        match pick {
            0 => (Value::from(random.bits() as i32), String::new()),
            1 => (Value::from("a\"\\\u{1}é😀/~"), String::new()),
            2 => (Value::Bool(random.bits().is_multiple_of(2)), String::new()),
            3 => (Value::Null, String::new()),
            4 => {
                let n = 1 + random.bits() % 3;
                let chosen = random.bits() % n;
                let mut path = String::new();
                let items = (0..n).map(|i| {
                    let (item, below) = grown(random, depth - 1);
                    if i == chosen {
                        path = format!("/{i}{below}");
                    }
                    item
                });
                (Value::Array(items.collect()), path)
            }
            _ => {
                let mut path = String::new();
                let names = ["a", "b/c", "d~e\"", "é"];
                let chosen = random.bits() as usize % names.len();
                let members = names.iter().enumerate().map(|(i, name)| {
                    let (member, below) = grown(random, depth - 1);
                    if i == chosen {
                        let token = name.replace('~', "~0").replace('/', "~1");
                        path = format!("/{token}{below}");
                    }
                    ((*name).to_owned(), member)
                });
                (Value::Object(members.collect()), path)
            }
        }
    }

    #[test]
    fn fuzz_like_values_are_those_that_serde_json_finds() {
        let mut random = Random::seeded(1);
        for _ in 0..2_000 {
            let (value, path) = grown(&mut random, 4);
            let text = match random.bits() % 2 {
                0 => serde_json::to_string(&value).unwrap(),
                _ => serde_json::to_string_pretty(&value).unwrap(),
            };
            let expected = value.pointer(&path).unwrap();
            let found = Pointer::new(&path).find(text.as_bytes()).unwrap();
            assert_eq!(&serde_json::from_slice::<Value>(found).unwrap(), expected);
            if expected.is_string() || expected.is_number() {
                let compact = serde_json::to_string(expected).unwrap();
                assert!(is_equal(found, compact.as_bytes()));
            }
            // Whatever is cut off or changed, nothing panics.
            let mut broken = text.into_bytes();
            let at = random.bits() as usize % broken.len();
            broken[at] = random.bits() as u8;
            Pointer::new(&path).find(&broken);
            broken.truncate(at);
            Pointer::new(&path).find(&broken);
        }
    }
}
