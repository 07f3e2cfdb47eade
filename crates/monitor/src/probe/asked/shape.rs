//! Words of a question without its values: what is asked again and again has one shape.
//!
//! Lexical, as pg_stat_statements and MySQL's digests look to whoever reads them, and no parser: a text is cut where
//! the kernel's side stopped, and may be of any dialect.
//!
//! The surprise: what is left out here is in no record. A word that may be a value is one.

/// Letters that are kept of a text.
const LONGEST: usize = 200;
/// A longer list of columns is shown by its first one.
const COLUMNS: usize = 40;
/// Longer words are values: tokens, hashes, names of files in a cache.
const WORD: usize = 24;
/// A word with a digit that is no longer is a name: `v1`, `s3`.
const SHORT: usize = 2;

const VALUE: &str = "?";

/// A statement with `?` for its literals and placeholders; a list of them is one. `quotes`: whether double quotes hold
/// a literal (MySQL) or a name.
pub(super) fn sql(text: &str, quotes: bool) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let quoted = |c| c == '\'' || quotes && c == '"';
        let length = if quoted(c) {
            value(&mut out);
            literal(rest, c)
        } else if let Some(length) = dollar_quoted(rest) {
            value(&mut out);
            length
        } else if rest.starts_with("/*") {
            rest.find("*/").map_or(rest.len(), |end| end + 2)
        } else if rest.starts_with("--") {
            rest.find('\n').unwrap_or(rest.len())
        } else if c == '"' || c == '`' {
            1
        } else if c.is_whitespace() {
            space(&mut out);
            c.len_utf8()
        } else if c.is_ascii_digit() || c == '$' {
            value(&mut out);
            1 + run(&rest[1..], |c| c.is_alphanumeric() || c == '.')
        } else {
            let length = run(rest, |c| c.is_alphanumeric() || c == '_').max(c.len_utf8());
            out.push_str(&rest[..length]);
            length
        };
        rest = &rest[length..];
    }
    let one = one_of_each(out.trim().trim_end_matches(';').trim());
    shortened(&without_columns(&one))
}

fn value(out: &mut String) {
    out.push_str(VALUE);
}

fn space(out: &mut String) {
    if !out.ends_with(' ') {
        out.push(' ');
    }
}

/// Bytes of the first letters for which this holds.
fn run(text: &str, holds: impl Fn(char) -> bool) -> usize {
    text.find(|c| !holds(c)).unwrap_or(text.len())
}

/// Bytes of the literal that begins here; one that is cut ends with the text.
fn literal(text: &str, quote: char) -> usize {
    let mut letters = text.char_indices().skip(1).peekable();
    while let Some((at, c)) = letters.next() {
        if c == '\\' {
            letters.next();
        } else if c == quote && letters.next_if(|&(_, next)| next == quote).is_none() {
            return at + 1;
        }
    }
    text.len()
}

/// Bytes of a literal as `$tag$ ... $tag$`.
fn dollar_quoted(text: &str) -> Option<usize> {
    let inner = text.strip_prefix('$')?;
    let end = inner.find('$')?;
    let tag = text.get(..end + 2)?;
    let is_tag = |c: char| c.is_alphabetic() || c == '_';
    if !inner[..end].chars().all(is_tag) {
        return None;
    }
    let body = &text[tag.len()..];
    let length = body.find(tag).map_or(body.len(), |end| end + tag.len());
    Some(tag.len() + length)
}

/// One value for a list of them, one row for a list of rows.
fn one_of_each(text: &str) -> String {
    let mut text = text.to_owned();
    for (many, one) in [
        ("?, ?", "?"),
        ("?,?", "?"),
        ("(?), (?)", "(?)"),
        ("(?),(?)", "(?)"),
    ] {
        while text.contains(many) {
            text = text.replace(many, one);
        }
    }
    text
}

/// A long list of columns as its first one.
fn without_columns(text: &str) -> String {
    let upper = text.to_ascii_uppercase();
    let Some(columns) = upper.strip_prefix("SELECT ") else {
        return text.to_owned();
    };
    let begin = text.len() - columns.len();
    let end = columns.find(" FROM ").unwrap_or(columns.len());
    let first = columns[..end].find(',');
    match first.filter(|_| end > COLUMNS) {
        Some(first) => {
            let (first, end) = (begin + first, begin + end);
            format!("{}, ...{}", &text[..first], &text[end..])
        }
        None => text.to_owned(),
    }
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

/// A path with `?` for what may be a value in it, and the names of its parameters.
pub(super) fn path(target: &str) -> String {
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let names = query.split('&').filter(|p| !p.is_empty());
    let names: Vec<String> = names
        .map(|p| format!("{}={VALUE}", words(p.split('=').next().unwrap_or_default())))
        .collect();
    let mut out = words(path);
    if !names.is_empty() {
        out.push('?');
        out.push_str(&names.join("&"));
    }
    shortened(&out)
}

/// A key or a path: its words, and `?` for those that may be values.
pub(super) fn words(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while !rest.is_empty() {
        let length = run(rest, |c| !matches!(c, ':' | '/' | '|' | ' '));
        let part = &rest[..length];
        if part.contains(['@', '%']) {
            value(&mut out);
        } else {
            parts(part, &mut out);
        }
        let separator = rest[length..].chars().next();
        out.extend(separator);
        rest = &rest[length + separator.map_or(0, char::len_utf8)..];
    }
    shortened(&out)
}

fn parts(text: &str, out: &mut String) {
    let mut rest = text;
    while !rest.is_empty() {
        let length = run(rest, char::is_alphanumeric);
        let word = &rest[..length];
        let is_value = word.len() > WORD
            || word.len() > SHORT && word.contains(|c: char| c.is_ascii_digit())
            || !word.is_empty() && word.chars().all(|c| c.is_ascii_digit());
        match is_value {
            // Two that follow each other are one.
            true if out.ends_with("?-") || out.ends_with("?.") || out.ends_with("?_") => {
                out.pop();
            }
            true => value(out),
            false => out.push_str(word),
        }
        let separator = rest[length..].chars().next();
        out.extend(separator);
        rest = &rest[length + separator.map_or(0, char::len_utf8)..];
    }
}

/// The same with a value for its last word, where that may be a digest: letters that are digits of base 16.
pub(super) fn as_digest(text: &str) -> Option<String> {
    let at = text.rfind([':', '/', '.', '-', '_', ' '])?;
    let word = &text[at + 1..];
    let is_digest = !word.is_empty() && word.chars().all(|c| matches!(c, 'a'..='f'));
    is_digest.then(|| format!("{}{VALUE}", &text[..=at]))
}

/// The same without its last word, for one of many that differ in it alone.
pub(super) fn wider(text: &str) -> String {
    let text = text.split_once('?').map_or(text, |(before, _)| before);
    match text.rfind([':', '/', '.', '-', '_', ' ']) {
        Some(at) => format!("{}*", &text[..=at]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_lose_their_values() {
        for (text, shape) in [
            (
                "SELECT name FROM orders WHERE id = 17 AND town = 'O''Hara\\' x' LIMIT 5;",
                "SELECT name FROM orders WHERE id = ? AND town = ? LIMIT ?",
            ),
            (
                "select *\n  from \"order_lines\"  where t1.id in ($1,$2, $3) -- why\n and x = 0x1f",
                "select * from order_lines where t1.id in (?) and x = ?",
            ),
            (
                "INSERT INTO log (a, b) VALUES (1, 'x'), (2, 'y'),(3,'z') /* app:shop */",
                "INSERT INTO log (a, b) VALUES (?)",
            ),
            (
                "UPDATE t SET a = 1, b = $tag$it's$tag$ WHERE c = 'cut of",
                "UPDATE t SET a = ?, b = ? WHERE c = ?",
            ),
            (
                "SELECT \"users\".\"id\", \"users\".\"name\", \"users\".\"mail\", \"users\".\"town\", \"users\".\"born\" FROM \"users\"",
                "SELECT users.id, ... FROM users",
            ),
        ] {
            assert_eq!(sql(text, false), shape, "{text}");
        }
        assert_eq!(
            sql("select `a` from `t` where b = \"secret\"", true),
            "select a from t where b = ?"
        );
        assert!(sql(&"a".repeat(900), false).len() < 210);
    }

    #[test]
    fn keys_and_paths_lose_what_may_be_a_value() {
        for (text, shape) in [
            ("user:17:profile", "user:?:profile"),
            ("session:bob@example.org", "session:?"),
            ("cache.v1.0f3a9c77b1e2", "cache.v1.?"),
            ("day-2026-11-30", "day-?"),
            ("ThisIsALongTokenThatSomebodyOwns", "?"),
        ] {
            assert_eq!(words(text), shape, "{text}");
        }
        for (text, shape) in [
            ("/items/4711/reviews", "/items/?/reviews"),
            ("/search?q=lamp&page=3", "/search?q=?&page=?"),
            ("/v2/img/a-12.png", "/v2/img/a-?.png"),
            ("/", "/"),
        ] {
            assert_eq!(path(text), shape, "{text}");
        }
        assert_eq!(wider("get product:lamp"), "get product:*");
        assert_eq!(wider("GET /a/b?q=?"), "GET /a/*");
    }
}
