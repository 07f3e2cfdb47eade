//! Words of a command line by the rules of sh, with `$'...'` of bash (which browsers write for control characters).
//!
//! Nothing is run and nothing is expanded: what a shell would fill in is refused, since what it was is not known here.

use super::Refusal;

/// What ends a command.
const ENDS: [char; 3] = [';', '&', '|'];

/// Commands of a text, each as its words without their quotes.
pub(super) fn commands(text: &str) -> Result<Vec<Vec<String>>, Refusal> {
    if text.lines().any(|line| line.trim_end().ends_with('^')) || text.contains(" ^\"") {
        return Err(Refusal::new(
            "it is quoted for the command prompt of Windows",
            "choose \"Copy as cURL (bash)\" in the browser",
        ));
    }
    let mut words = Words::default();
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\'' => words.push_all(&until_quote(&mut chars)?),
            '"' => {
                let inside = double_quoted(&mut chars)?;
                words.push_all(&inside);
            }
            '\\' => match chars.next() {
                Some('\r') if chars.peek() == Some(&'\n') => {
                    chars.next();
                }
                Some('\n') | None => {}
                Some(c) => words.push(c),
            },
            '$' if chars.peek() == Some(&'\'') => {
                chars.next();
                let inside = ansi_c(&mut chars)?;
                words.push_all(&inside);
            }
            // Of a name or a command; a lone one is itself.
            '$' if chars.peek().is_some_and(|c| is_expanded(*c)) => {
                return Err(expanded('$'));
            }
            '`' => return Err(expanded('`')),
            '#' if words.word.is_none() => while chars.next_if(|c| *c != '\n').is_some() {},
            '\n' => words.end_command(),
            c if c.is_whitespace() => words.end_word(),
            '>' | '<' => {
                // The file descriptor before it is no word of the command.
                if words.word.as_deref().is_some_and(|w| w == "1" || w == "2") {
                    words.word = None;
                }
                words.end_word();
                while chars.next_if(|c| ">&<".contains(*c) || *c == ' ').is_some() {}
                while chars
                    .next_if(|c| !c.is_whitespace() && !ENDS.contains(c))
                    .is_some()
                {}
            }
            c if ENDS.contains(&c) => {
                words.end_command();
                if c == '|' && chars.peek() != Some(&'|') {
                    // What a program behind a pipe does is after the response.
                    while chars.next_if(|c| !"\n;&".contains(*c)).is_some() {}
                }
            }
            c => words.push(c),
        }
    }
    words.end_command();
    Ok(words.commands)
}

type Chars<'a> = std::iter::Peekable<std::str::Chars<'a>>;

#[derive(Default)]
struct Words {
    commands: Vec<Vec<String>>,
    command: Vec<String>,
    /// `Some("")` for a pair of quotes with nothing in it.
    word: Option<String>,
}

impl Words {
    fn push(&mut self, c: char) {
        self.word.get_or_insert_default().push(c);
    }

    fn push_all(&mut self, text: &str) {
        self.word.get_or_insert_default().push_str(text);
    }

    fn end_word(&mut self) {
        self.command.extend(self.word.take());
    }

    fn end_command(&mut self) {
        self.end_word();
        if !self.command.is_empty() {
            self.commands.push(std::mem::take(&mut self.command));
        }
    }
}

fn is_expanded(c: char) -> bool {
    c.is_ascii_alphanumeric() || "_{(@*#?$!".contains(c)
}

fn expanded(sign: char) -> Refusal {
    let what = match sign {
        '`' => "`...`",
        _ => "$",
    };
    Refusal::new(
        format!("a shell would fill in what {what} stands for"),
        "write the value itself, or quote it with '...'",
    )
}

fn open(quote: &str) -> Refusal {
    Refusal::new(
        format!("a quote {quote} is not closed"),
        "copy the whole command",
    )
}

fn until_quote(chars: &mut Chars<'_>) -> Result<String, Refusal> {
    let mut text = String::new();
    loop {
        match chars.next() {
            Some('\'') => return Ok(text),
            Some(c) => text.push(c),
            None => return Err(open("'")),
        }
    }
}

/// POSIX 2.2.3: a backslash is one but before these.
fn double_quoted(chars: &mut Chars<'_>) -> Result<String, Refusal> {
    let mut text = String::new();
    loop {
        match chars.next() {
            Some('"') => return Ok(text),
            Some('\\') => match chars.next() {
                Some('\n') => {}
                Some(c @ ('$' | '`' | '"' | '\\')) => text.push(c),
                Some(c) => text.extend(['\\', c]),
                None => return Err(open("\"")),
            },
            Some('$') if chars.peek().is_some_and(|c| is_expanded(*c)) => {
                return Err(expanded('$'));
            }
            Some('`') => return Err(expanded('`')),
            Some(c) => text.push(c),
            None => return Err(open("\"")),
        }
    }
}

/// Behind `$'`: the escapes of C. Bytes beyond ASCII (`\xe9`, `\303`) are joined to UTF-8.
fn ansi_c(chars: &mut Chars<'_>) -> Result<String, Refusal> {
    let mut bytes = Vec::new();
    let push = |bytes: &mut Vec<u8>, c: char| {
        bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
    };
    loop {
        match chars.next() {
            Some('\'') => break,
            Some('\\') => match chars.next() {
                Some('n') => bytes.push(b'\n'),
                Some('r') => bytes.push(b'\r'),
                Some('t') => bytes.push(b'\t'),
                Some('a') => bytes.push(7),
                Some('b') => bytes.push(8),
                Some('v') => bytes.push(11),
                Some('f') => bytes.push(12),
                Some('e' | 'E') => bytes.push(27),
                Some('x') => bytes.push(number(chars, 16, 2, None) as u8),
                Some('u') => push(&mut bytes, character(number(chars, 16, 4, None))),
                Some('U') => push(&mut bytes, character(number(chars, 16, 8, None))),
                Some(c @ '0'..='7') => bytes.push(number(chars, 8, 2, c.to_digit(8)) as u8),
                // \' \" \\ \? and what has no meaning.
                Some(c @ ('\'' | '"' | '\\' | '?')) => push(&mut bytes, c),
                Some(c) => {
                    bytes.push(b'\\');
                    push(&mut bytes, c);
                }
                None => return Err(open("$'")),
            },
            Some(c) => push(&mut bytes, c),
            None => return Err(open("$'")),
        }
    }
    String::from_utf8(bytes).map_err(|_| {
        Refusal::new(
            "a text in $'...' is no UTF-8",
            "save the body into a file and send it with --data-binary @FILE",
        )
    })
}

fn number(chars: &mut Chars<'_>, radix: u32, digits_max: usize, first: Option<u32>) -> u32 {
    let mut value = first.unwrap_or(0);
    for _ in 0..digits_max {
        let Some(digit) = chars.next_if(|c| c.is_digit(radix)) else {
            break;
        };
        value = value * radix + digit.to_digit(radix).unwrap_or(0);
    }
    value
}

fn character(code: u32) -> char {
    char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &[&[&str]]) {
        let words = commands(text).unwrap();
        let words: Vec<Vec<&str>> = words
            .iter()
            .map(|c| c.iter().map(String::as_str).collect())
            .collect();
        assert_eq!(words, expected, "{text}");
    }

    #[test]
    fn words_are_those_of_a_shell() {
        check("curl a  b\tc", &[&["curl", "a", "b", "c"]]);
        check(r"curl 'a b'\''c'", &[&["curl", "a b'c"]]);
        check(
            "curl \\\n  -H 'A: b' \\\r\n u",
            &[&["curl", "-H", "A: b", "u"]],
        );
        check(
            r#"curl "a\"b\$c\n" '' x"#,
            &[&["curl", "a\"b$c\\n", "", "x"]],
        );
        check(
            r"curl $'it\'s\n\u0021 \x41\101 \xc3\xa9'",
            &[&["curl", "it's\n! AA \u{e9}"]],
        );
        check(
            "curl a ; curl b &\ncurl c",
            &[&["curl", "a"], &["curl", "b"], &["curl", "c"]],
        );
        check("curl a | jq . > x", &[&["curl", "a"]]);
        check(
            "curl a 2>/dev/null > out.txt; curl b",
            &[&["curl", "a"], &["curl", "b"]],
        );
        check("# why\ncurl a#b # c", &[&["curl", "a#b"]]);
        check("curl 'a$b' a$ 'x&y'", &[&["curl", "a$b", "a$", "x&y"]]);
    }

    #[test]
    fn what_a_shell_would_fill_in_is_refused() {
        for (text, said) in [
            ("curl $HOST/", "fill in what $"),
            ("curl \"$(date)\"", "fill in what $"),
            ("curl `date`", "`...`"),
            ("curl 'a", "not closed"),
            ("curl \"a", "not closed"),
            ("curl $'a", "not closed"),
            ("curl $'\\xff'", "no UTF-8"),
            ("curl ^\n  -H ^\"A: b^\"", "Windows"),
        ] {
            let cause = commands(text).unwrap_err().cause;
            assert!(cause.contains(said), "{text}: {cause}");
        }
    }
}
