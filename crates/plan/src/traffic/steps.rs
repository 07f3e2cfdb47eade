//! The steps of a stream as a person writes them: `client 100`, `server 32KiB`, `client "QUIT\r\n"`,
//! `server hex 0a0b`, `pause 10ms`, `client closes`, `server resets`.

use crate::error::Found;
use crate::node::Field;
use crate::typed;
use record::Close;
use record::traffic::{Data, Step};

/// Largest run of bytes that is not a pattern: it stays in memory as it is.
const LONGEST_TEXT: usize = 16 << 20;

const FORMS: &str = "a step such as \"client 100\", \"server 32KiB\", \"client \\\"QUIT\\\\r\\\\n\\\"\", \
                     \"server hex 0a0b\", \"pause 10ms\", \"client closes\" or \"server resets\"";

/// The steps of a list.
pub(super) fn read(field: Field<'_>) -> Result<Vec<Step>, Found> {
    let steps: Vec<Step> = field.list()?.map(step).collect::<Result<_, _>>()?;
    match steps.is_empty() {
        true => Err(field.must_be("a list of at least one step")),
        false => Ok(steps),
    }
}

fn step(field: Field<'_>) -> Result<Step, Found> {
    let text = field.text()?.trim();
    let (first, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    let rest = rest.trim_start();
    match (first, rest) {
        ("pause", length) => {
            let pause = typed::duration_above_zero(length);
            pause.map(Step::Pause).map_err(|_| field.must_be(FORMS))
        }
        ("client", "closes") => Ok(Step::ClientCloses(Close::Fin)),
        ("client", "resets") => Ok(Step::ClientCloses(Close::Rst)),
        ("server", "closes") => Ok(Step::ServerCloses(Close::Fin)),
        ("server", "resets") => Ok(Step::ServerCloses(Close::Rst)),
        ("client", what) => Ok(Step::ClientSends(
            data(what).ok_or_else(|| field.must_be(FORMS))?,
        )),
        ("server", what) => Ok(Step::ServerSends(
            data(what).ok_or_else(|| field.must_be(FORMS))?,
        )),
        _ => Err(field.must_be(FORMS)),
    }
}

/// Bytes as text in quotes, in hex, or so many of the pattern; `None` for what is none of them, and for none at all.
fn data(text: &str) -> Option<Data> {
    if let Some(digits) = text.strip_prefix("hex ") {
        let digits: String = digits.split_whitespace().collect();
        let byte = |i: usize| u8::from_str_radix(digits.get(i..i + 2)?, 16).ok();
        let whole = !digits.is_empty() && digits.len().is_multiple_of(2) && digits.is_ascii();
        let bytes: Option<Vec<u8>> = (0..digits.len()).step_by(2).map(byte).collect();
        return bytes.filter(|_| whole).map(Data::Bytes);
    }
    if let Some(quoted) = text.strip_prefix('"').and_then(|t| t.strip_suffix('"')) {
        let bytes = unescaped(quoted)?;
        let fits = (1..=LONGEST_TEXT).contains(&bytes.len());
        return fits.then_some(Data::Bytes(bytes));
    }
    let size = typed::bytes(text).ok()?;
    (size.0 > 0).then_some(Data::Pattern(size.0))
}

/// The escapes that TOML's own basic strings have not already taken, and `\xHH`.
fn unescaped(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
            continue;
        }
        bytes.push(match chars.next()? {
            'r' => b'\r',
            'n' => b'\n',
            't' => b'\t',
            '0' => 0,
            '\\' => b'\\',
            '"' => b'"',
            'x' => {
                let digits: String = chars.by_ref().take(2).collect();
                u8::from_str_radix(&digits, 16).ok()?
            }
            _ => return None,
        });
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::parse;
    use record::Nanos;

    fn steps(list: &str) -> Result<Vec<Step>, Found> {
        let entries = parse(&format!("steps = [{list}]")).unwrap();
        read(entries[0].field())
    }

    #[test]
    fn every_form_of_a_step() {
        let bytes = |b: &[u8]| Data::Bytes(b.to_vec());
        for (text, want) in [
            ("'client 100'", Step::ClientSends(Data::Pattern(100))),
            ("'server 32KiB'", Step::ServerSends(Data::Pattern(32_768))),
            (
                r#"'client "QUIT\r\n"'"#,
                Step::ClientSends(bytes(b"QUIT\r\n")),
            ),
            (r#""client \"a b\"""#, Step::ClientSends(bytes(b"a b"))),
            (
                r#"'server "\x00\xff"'"#,
                Step::ServerSends(bytes(&[0, 255])),
            ),
            ("'server hex 0a 0B'", Step::ServerSends(bytes(&[10, 11]))),
            ("'pause 10ms'", Step::Pause(Nanos::from_millis(10))),
            ("'client closes'", Step::ClientCloses(Close::Fin)),
            ("'server resets'", Step::ServerCloses(Close::Rst)),
        ] {
            assert_eq!(steps(text), Ok(vec![want]), "{text}");
        }
        for bad in [
            "''",
            "'client'",
            "'client 0'",
            "'server many'",
            "'pause'",
            "'proxy 100'",
            "'client hex 0'",
            "'client hex zz'",
            r#"'client ""'"#,
            r#"'client "\q"'"#,
            "100",
            "'client hex é'",
        ] {
            assert!(steps(bad).is_err(), "{bad}");
        }
        assert!(steps("").is_err(), "no step at all");
    }
}
