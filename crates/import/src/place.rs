//! Where in a text a result stands: under which heading, behind which words, after which command line.

use super::text::words;

/// A line of the text and what it is.
#[derive(Clone, Debug)]
struct Line {
    text: String,
    /// Number of the heading that it stands under; 0 is none.
    heading: usize,
    fenced: bool,
    fence: bool,
}

/// The text by lines.
#[derive(Clone, Debug, Default)]
pub(crate) struct Places {
    lines: Vec<Line>,
    headings: Vec<String>,
}

/// A place.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Place {
    /// Number of its heading; results with the same belong together.
    pub heading: usize,
    /// The heading's words; empty without one.
    pub title: String,
    /// The words right before it; empty without.
    pub label: String,
}

/// Programs whose command lines are looked for.
const PROGRAMS: [&str; 16] = [
    "wrk",
    "wrk2",
    "ab",
    "weighttp",
    "h2load",
    "hey",
    "oha",
    "bombardier",
    "vegeta",
    "k6",
    "fortio",
    "strace",
    "vmstat",
    "mpstat",
    "prony",
    "dpdk-httpperf",
];
/// A label is a line and no paragraph.
const LABEL_CHARS: usize = 80;
/// Lines that a command may stand before the result, progress lines between them.
const COMMAND_LINES: usize = 40;

impl Places {
    /// Of plain text.
    pub fn of(text: &str) -> Self {
        let mut places = Self {
            headings: vec![String::new()],
            ..Self::default()
        };
        let mut fenced = false;
        for line in text.lines() {
            let fence = line.trim_start().starts_with("```");
            if fence {
                fenced = !fenced;
            }
            if let (Some(title), false) = (heading(line), fenced) {
                places.headings.push(title);
            }
            places.lines.push(Line {
                text: line.trim().to_owned(),
                heading: places.headings.len() - 1,
                fenced: fenced || fence,
                fence,
            });
        }
        places
    }

    /// The place of a result that begins at `line` (from 1); nothing before `after` belongs to it.
    pub fn at(&self, line: u32, after: u32) -> Place {
        let index = (line as usize)
            .saturating_sub(1)
            .min(self.lines.len().saturating_sub(1));
        let Some(own) = self.lines.get(index) else {
            return Place::default();
        };
        Place {
            heading: own.heading,
            title: self.headings[own.heading].clone(),
            label: self.label(index, after as usize).unwrap_or_default(),
        }
    }

    /// The last line of prose before a result.
    fn label(&self, index: usize, after: usize) -> Option<String> {
        let heading = self.lines[index].heading;
        let fenced = self.lines[index].fenced;
        let before = self.lines[after.min(index)..index].iter().rev();
        let mut skipped = 0;
        for line in before {
            let title = heading_like(&line.text);
            if line.heading != heading || title {
                return None;
            }
            let code = line.fence || (fenced && line.fenced);
            if line.text.is_empty() || code {
                continue;
            }
            let plain = line.text.trim_end_matches([':', ' ']);
            let is_command = command(&line.text).is_some();
            let words = plain.chars().any(char::is_alphabetic);
            // The same output's own head may stand before what was recognised.
            skipped += 1;
            if words && !is_command && (fenced || line.text.ends_with(':')) {
                let short = plain.chars().count() <= LABEL_CHARS;
                return short.then(|| plain.trim_matches(['*', '`', '"']).to_owned());
            }
            if skipped > 3 {
                return None;
            }
        }
        None
    }

    /// The command line of `tool` before `line`, not before `after`, and not in another block of code.
    pub fn command(&self, tool: &str, line: u32, after: u32) -> Option<String> {
        let index = (line as usize).saturating_sub(1).min(self.lines.len());
        let from = (after as usize)
            .max(index.saturating_sub(COMMAND_LINES))
            .min(index);
        let own = self.lines.get(index)?;
        for before in self.lines[from..index].iter().rev() {
            if before.fence || before.heading != own.heading {
                return None;
            }
            if let Some((program, command)) = command(&before.text) {
                let named = program == tool || (tool == "wrk2" && program == "wrk");
                return named.then_some(command);
            }
        }
        None
    }
}

/// `## Title`, `7. Title`, `3.1 Title`.
fn heading(line: &str) -> Option<String> {
    let text = line.trim();
    if let Some(rest) = text.strip_prefix('#') {
        let rest = rest.trim_start_matches('#');
        let title = rest.trim();
        // `# target 50%` and a prompt's `#` are none: what follows a prompt is a command.
        let ok = rest.starts_with(' ') && !title.is_empty() && command(title).is_none();
        return (ok && !title.starts_with("target ") && !title.starts_with('['))
            .then(|| title.to_owned());
    }
    if line.starts_with([' ', '\t']) || text.chars().count() > 60 {
        return None;
    }
    let (number, title) = text.split_once(' ')?;
    let numbered = number.starts_with(|c: char| c.is_ascii_digit())
        && number.contains('.')
        && number.chars().all(|c| c.is_ascii_digit() || c == '.');
    let words = title.starts_with(|c: char| c.is_alphabetic())
        && !title.ends_with(['.', ',', ';', ':'])
        && title
            .split_whitespace()
            .all(|w| super::text::number(w).is_none());
    (numbered && words).then(|| title.to_owned())
}

fn heading_like(line: &str) -> bool {
    heading(line).is_some()
}

/// The program and the command line behind a prompt.
fn command(line: &str) -> Option<(String, String)> {
    let mut rest = line.trim().trim_matches('`');
    if let Some(end) = rest.starts_with('[').then(|| rest.find(']')).flatten() {
        rest = &rest[end + 1..];
    }
    rest = rest.trim_start_matches(['$', '#', '%', '>', ' ']);
    let words = words(rest);
    let name = |text: &str| text.rsplit('/').next().unwrap_or(text).to_owned();
    let program = words
        .iter()
        .take(8)
        .map(|w| name(w.text))
        .find(|n| PROGRAMS.contains(&n.as_str()))?;
    let first = name(words.first()?.text);
    let wrapped = [
        "timeout", "taskset", "numactl", "sudo", "nice", "onload", "time", "env",
    ];
    let starts = PROGRAMS.contains(&first.as_str()) || wrapped.contains(&first.as_str());
    // A sentence may begin with a tool's name; a command has a flag or an address.
    let flagged = words
        .iter()
        .any(|w| w.text.starts_with('-') || w.text.contains("://"));
    (starts && (flagged || words.len() <= 3)).then(|| (program, rest.to_owned()))
}

/// What a command line says of the load: `connections`, `threads`, `offered_per_s`, `requests_asked`.
pub(crate) fn flags(tool: &str, command: &str) -> Vec<(&'static str, f64)> {
    let names: &[(&str, &str)] = match tool {
        "wrk" | "wrk2" => &[
            ("-c", "connections"),
            ("-t", "threads"),
            ("-R", "offered_per_s"),
        ],
        "ab" | "hey" | "oha" | "fortio" | "bombardier" => &[("-c", "connections")],
        "weighttp" | "h2load" => &[("-c", "connections"), ("-t", "threads")],
        _ => &[],
    };
    let words = words(command);
    let mut found = Vec::new();
    for (flag, name) in names {
        let value = words.iter().enumerate().find_map(|(i, w)| {
            let rest = w.text.strip_prefix(flag)?;
            let text = if rest.is_empty() {
                words.get(i + 1)?.text
            } else {
                rest
            };
            super::text::thousands(text)
        });
        if let Some(value) = value.filter(|v| v.value >= 1.0) {
            found.push((*name, value.value));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headings_labels_and_commands() {
        let text = "# Study\n\n## First\n\nDirect:\n\n```\n$ wrk -c 500 -t 4 http://h/\n  4 threads\n```\nProxied:\n```\n  4 threads\n```\n7. Run test\nab -n 5 -c 100 http://h/\nThis is ApacheBench\n";
        let places = Places::of(text);
        let place = places.at(9, 0);
        assert_eq!(
            (place.title.as_str(), place.label.as_str()),
            ("First", "Direct")
        );
        assert_eq!(places.at(13, 10).label, "Proxied");
        assert_eq!(places.at(17, 14).title, "Run test");
        assert_eq!(
            places.command("wrk", 9, 0).unwrap(),
            "wrk -c 500 -t 4 http://h/"
        );
        assert_eq!(places.command("wrk", 13, 10), None);
        let ab = places.command("ab", 17, 14).unwrap();
        assert_eq!(flags("ab", &ab), [("connections", 100.0)]);
    }

    #[test]
    fn flags_with_and_without_a_space() {
        let found = flags("wrk", "wrk -t7 -c20 -R 2k http://h/");
        assert_eq!(
            found,
            [
                ("connections", 20.0),
                ("threads", 7.0),
                ("offered_per_s", 2000.0)
            ]
        );
    }
}
