//! From the lines of a configuration as run back to the lines of its template, in a server's own words.
//!
//! A server speaks of the file that it was given; a person has the template. They differ by lines as soon as a
//! template has a loop or a condition, so [`plan::template::lines`] says which came from which.

use crate::server::Values;
use plan::template;
use std::path::Path;

/// What may stand between a file's name and the number of a line in it.
const BEFORE_NUMBER: [&str; 5] = [":", "\" line ", " line ", ", line ", "; lineNumber: "];

/// A template and where its lines went.
#[derive(Clone)]
pub(crate) struct Places {
    template_name: String,
    /// Line of the template (from 1) for each line of the configuration.
    lines: Vec<usize>,
}

impl Places {
    pub fn of(template_name: &str, text: &str, values: &Values) -> Self {
        Self {
            template_name: template_name.to_owned(),
            lines: template::lines(template_name, text, values),
        }
    }

    /// A server's words about the file at `path`, said of the template instead.
    pub fn placed(&self, words: &str, path: &Path) -> String {
        let mut result = String::new();
        let path = path.display().to_string();
        let mut rest = words;
        while let Some(at) = rest.find(&path) {
            result.push_str(&self.line_before(&rest[..at]));
            result.push_str(&self.template_name);
            rest = &rest[at + path.len()..];
            let between = BEFORE_NUMBER.into_iter().find(|b| {
                let behind = rest.strip_prefix(b);
                behind.is_some_and(|b| b.starts_with(|c: char| c.is_ascii_digit()))
            });
            if let Some(between) = between {
                let (number, behind) = leading_number(&rest[between.len()..]);
                result.push_str(between);
                result.push_str(&self.line(number).to_string());
                rest = behind;
            }
        }
        result.push_str(rest);
        result
    }

    /// `... on line 12 of `, as Apache says it before the name.
    fn line_before(&self, text: &str) -> String {
        let placed = || {
            let head = text.strip_suffix(" of ")?;
            let digits = head.rfind(|c: char| !c.is_ascii_digit()).map(|i| i + 1)?;
            let number: usize = head[digits..].parse().ok()?;
            let before = head[..digits].strip_suffix("line ")?;
            Some(format!("{before}line {} of ", self.line(number)))
        };
        placed().unwrap_or_else(|| text.to_owned())
    }

    fn line(&self, of_file: usize) -> usize {
        let found = self.lines.get(of_file.saturating_sub(1));
        found.copied().unwrap_or(of_file)
    }
}

fn leading_number(text: &str) -> (usize, &str) {
    let end = text.find(|c: char| !c.is_ascii_digit());
    let (digits, rest) = text.split_at(end.unwrap_or(text.len()));
    (digits.parse().unwrap_or(0), rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_servers_way_of_naming_a_line() {
        let template = "a\n{% for i in range(3) %}\nb\n{% endfor %}\nc\n";
        let places = Places::of("my.conf", template, &Values::new());
        // As run: a, (empty b) three times, empty, c. The last is line 5 of the template.
        let last = template::render("t", template, &Values::new())
            .unwrap()
            .lines()
            .count();
        for (words, want) in [
            ("unknown x in /w/x.conf:L", "unknown x in my.conf:5"),
            ("parsing [/w/x.conf:L] : no", "parsing [my.conf:5] : no"),
            (
                "error on line L of /w/x.conf:",
                "error on line 5 of my.conf:",
            ),
            ("(file \"/w/x.conf\" line L)", "(file \"my.conf\" line 5)"),
            (
                "file:/w/x.conf; lineNumber: L; c",
                "file:my.conf; lineNumber: 5; c",
            ),
            ("/w/x.conf: no number", "my.conf: no number"),
            ("/w/x.conf:999", "my.conf:999"),
            ("another file:3", "another file:3"),
        ] {
            let words = words.replace('L', &last.to_string());
            assert_eq!(
                places.placed(&words, Path::new("/w/x.conf")),
                want,
                "{words}"
            );
        }
    }
}
