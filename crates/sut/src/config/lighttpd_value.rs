//! A value of lighttpd's configuration: a number, a text, or a list in brackets, with keys or without.
//!
//! Read from and written for `lighttpd -p`, whose texts escape quotes and backslashes and nothing else. The surprise:
//! a backslash before another character is one of the text, as in a regular expression.

use super::lighttpd::MOST_NESTING;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    Number(String),
    Text(String),
    /// Keys as they are written.
    List(Vec<(Option<String>, Value)>),
}

impl Value {
    /// `None` for what is not a whole value.
    pub fn parse(text: &str) -> Option<Self> {
        let mut rest = text.trim_start();
        let value = value(&mut rest, 0)?;
        rest.trim().is_empty().then_some(value)
    }

    /// What a setting is given by its word: a number where it is one.
    pub fn of_word(word: &str) -> Self {
        match !word.is_empty() && word.chars().all(|c| c.is_ascii_digit()) {
            true => Self::Number(word.to_owned()),
            false => Self::Text(word.to_owned()),
        }
    }

    pub fn written(&self) -> String {
        match self {
            Self::Number(digits) => digits.clone(),
            Self::Text(text) => {
                format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
            }
            Self::List(items) => {
                let item = |(key, value): &(Option<String>, Value)| match key {
                    Some(key) => format!("{key} => {}", value.written()),
                    None => value.written(),
                };
                let items: Vec<String> = items.iter().map(item).collect();
                format!("({})", items.join(", "))
            }
        }
    }

    /// The text or the digits of one that is no list.
    pub fn word(&self) -> Option<&str> {
        match self {
            Self::Number(word) | Self::Text(word) => Some(word),
            Self::List(_) => None,
        }
    }

    /// The value under a key of a list.
    pub fn at(&mut self, key: &str) -> Option<&mut Self> {
        let quoted = format!("\"{key}\"");
        let Self::List(items) = self else { return None };
        let is_it = |(name, _): &&mut (Option<String>, Value)| name.as_ref() == Some(&quoted);
        items.iter_mut().find(is_it).map(|(_, value)| value)
    }

    /// Every list in it, the outer one first.
    pub fn each_list(&mut self, with: &mut dyn FnMut(&mut Self)) {
        if !matches!(self, Self::List(_)) {
            return;
        }
        with(self);
        if let Self::List(items) = self {
            for (_, value) in items {
                value.each_list(with);
            }
        }
    }
}

/// Takes a value off the front.
fn value(rest: &mut &str, depth: usize) -> Option<Value> {
    match rest.chars().next()? {
        '"' => text(rest).map(Value::Text),
        '(' if depth < MOST_NESTING => list(rest, depth),
        c if c.is_ascii_digit() => {
            let end = rest.find(|c: char| !c.is_ascii_digit());
            let (digits, after) = rest.split_at(end.unwrap_or(rest.len()));
            *rest = after;
            Some(Value::Number(digits.to_owned()))
        }
        _ => None,
    }
}

fn text(rest: &mut &str) -> Option<String> {
    let mut found = String::new();
    let mut characters = rest.char_indices().skip(1).peekable();
    while let Some((at, c)) = characters.next() {
        match c {
            '"' => {
                *rest = &rest[at + 1..];
                return Some(found);
            }
            '\\' => match characters.next_if(|(_, c)| matches!(c, '"' | '\\')) {
                Some((_, escaped)) => found.push(escaped),
                None => found.push(c),
            },
            c => found.push(c),
        }
    }
    None
}

fn list(rest: &mut &str, depth: usize) -> Option<Value> {
    let mut items = Vec::new();
    *rest = rest[1..].trim_start();
    loop {
        if let Some(after) = rest.strip_prefix(')') {
            *rest = after;
            return Some(Value::List(items));
        }
        let first = value(rest, depth + 1)?;
        *rest = rest.trim_start();
        match rest.strip_prefix("=>") {
            Some(after) => {
                *rest = after.trim_start();
                items.push((Some(first.written()), value(rest, depth + 1)?));
            }
            None => items.push((None, first)),
        }
        *rest = rest.trim_start();
        match rest.strip_prefix(',') {
            Some(after) => *rest = after.trim_start(),
            None if rest.starts_with(')') => {}
            None => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_written_as_they_are_read() {
        for (text, want) in [
            ("80", Some("80")),
            (r#" "a \"b\" \\ \d #(" "#, Some(r#""a \"b\" \\ \\d #(""#)),
            ("()", Some("()")),
            (r#"( "a", 1, )"#, Some(r#"("a", 1)"#)),
            (
                r#"("" => ( ( "host" => "h", "port" => 8 ), ("a" => ()) ))"#,
                Some(r#"("" => (("host" => "h", "port" => 8), ("a" => ())))"#),
            ),
            ("", None),
            ("(", None),
            ("\"a", None),
            ("80 90", None),
            ("(1 2)", None),
            ("a + 1", None),
            (&"(".repeat(9_999), None),
        ] {
            let read = Value::parse(text);
            assert_eq!(read.map(|v| v.written()).as_deref(), want, "{text}");
        }
    }

    #[test]
    fn keys_and_lists_within() {
        let mut value = Value::parse(r#"("x" => (("port" => 1), ("port" => 2)))"#).unwrap();
        assert_eq!(value.at("port"), None);
        let mut ports = Vec::new();
        value.each_list(&mut |list| {
            ports.extend(list.at("port").and_then(|p| p.word()).map(str::to_owned));
        });
        assert_eq!(ports, ["1", "2"]);
        for (word, want) in [("12", "12"), ("1a", "\"1a\""), ("", "\"\"")] {
            assert_eq!(Value::of_word(word).written(), want);
        }
    }
}
