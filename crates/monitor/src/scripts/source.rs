//! Lines of scripts: the text of the one that a function is at, from the file that the process runs.
//!
//! In the flow: a reader finds the number, here it becomes a line that a person recognises. The surprise: a file may
//! have been changed since the process read it, and then the line says something else; so of such a file the number
//! alone is told. A line that may hold a secret stays where it is, as records are shown to others.

use super::{Asked, Function, Language, own};
use crate::attach::is_newer;
use record::SourceLine;
use std::collections::HashMap;

/// A file is read up to this, in bytes.
const MOST_BYTES: u64 = 4 << 20;
/// Letters of a line that are kept.
const MOST_LETTERS: usize = 100;
/// Lines that are remembered; a program that makes its code anew would fill the memory.
const MOST_LINES: usize = 4_096;
/// Words of a line that may hold a secret, in small letters.
const SECRETS: [&str; 6] = ["passw", "secret", "token", "api_key", "apikey", "://"];

/// The lines that one process was met at.
#[derive(Debug)]
pub(super) struct Sources {
    of: Asked,
    known: HashMap<(String, u32), String>,
}

impl Sources {
    pub(super) fn of(asked: Asked) -> Self {
        Self {
            of: asked,
            known: HashMap::new(),
        }
    }

    /// A line of a function's file, by its number; `None` for 0, which is none.
    pub(super) fn line(&mut self, function: &Function, number: u32) -> Option<SourceLine> {
        if number == 0 {
            return None;
        }
        if self.known.len() >= MOST_LINES {
            self.known.clear();
        }
        let of = self.of;
        let text = (self.known.entry((function.path.clone(), number)))
            .or_insert_with_key(|(path, number)| text(of, path, *number).unwrap_or_default());
        Some(SourceLine {
            number,
            text: text.clone(),
        })
    }
}

/// The function of a stack whose line is told: that of the application or, without one, the innermost of a script.
pub(super) fn shown<P>(language: Language, stack: &[(P, Function)]) -> Option<&(P, Function)> {
    let of_script = || (stack.iter()).position(|(_, function)| !function.path.is_empty());
    stack.get(own(language, stack).or_else(of_script)?)
}

/// A line of a file as the process sees it; `None` where there is none, and where it is not what the process runs.
fn text(of: Asked, path: &str, number: u32) -> Option<String> {
    let Asked { language, pid } = of;
    let seen = match path.strip_prefix('/') {
        Some(path) => format!("/proc/{pid}/root/{path}"),
        None => format!("/proc/{pid}/cwd/{path}"),
    };
    // To open something else may wait for ever.
    let found = std::fs::metadata(&seen).ok()?;
    // PHP compiles a file anew that was changed; the others read it once.
    let is_changed = language != Language::Php && is_newer(&found, pid);
    if !found.is_file() || found.len() > MOST_BYTES || is_changed {
        return None;
    }
    let bytes = std::fs::read(seen).ok()?;
    let line = bytes
        .split(|byte| *byte == b'\n')
        .nth(number as usize - 1)?;
    Some(cut(&String::from_utf8_lossy(line)))
}

/// A line as it is shown: without its indentation, cut, and empty where it may hold a secret.
fn cut(line: &str) -> String {
    let small = line.to_ascii_lowercase();
    if SECRETS.iter().any(|word| small.contains(word)) {
        return String::new();
    }
    let letters = line.trim().chars();
    let plain = letters.map(|c| if c.is_control() { ' ' } else { c });
    let mut text: String = plain.clone().take(MOST_LETTERS).collect();
    if plain.count() > MOST_LETTERS {
        text.push('\u{2026}');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_shown_without_its_indentation_and_without_secrets() {
        assert_eq!(
            cut("    name = SAFE.sub('', name)\r"),
            "name = SAFE.sub('', name)"
        );
        assert_eq!(cut("a\tb\u{1b}[31mc"), "a b [31mc");
        assert_eq!(cut("connect('postgres://shop:x@db/shop')"), "");
        assert_eq!(cut("login(PASSWORD)"), "");
        let long = cut(&"x".repeat(500));
        assert_eq!(long.chars().count(), MOST_LETTERS + 1);
    }

    #[test]
    fn of_a_file_that_was_changed_since_no_text_is_told() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("app.py");
        std::fs::write(&path, "first\n  second\n").expect("written");
        let path = path.to_str().expect("a name");
        let pid = i32::try_from(std::process::id()).expect("an id");
        let of = |language| Asked { language, pid };
        // Written after this process began, and not by much: to be sure, its time is set ahead.
        let file = std::fs::File::options()
            .write(true)
            .open(path)
            .expect("opened");
        let later = std::time::SystemTime::now() + std::time::Duration::from_secs(3_600);
        file.set_modified(later).expect("set");
        assert_eq!(text(of(Language::Python), path, 2), None);
        assert_eq!(text(of(Language::Php), path, 2).as_deref(), Some("second"));
        file.set_modified(std::time::UNIX_EPOCH).expect("set");
        assert_eq!(
            text(of(Language::Python), path, 2).as_deref(),
            Some("second")
        );
        assert_eq!(text(of(Language::Python), path, 9), None);
        let directory = directory.path().to_str().expect("a name");
        assert_eq!(text(of(Language::Python), directory, 1), None);
    }
}
