//! Templates: Jinja with strict names, for server configurations, command lines, environments and URLs.
//!
//! Used twice on the same text: here to find the names that a template needs before anything is started,
//! and by `target` to fill it in when the addresses are known. Every value is text, levels included:
//! `{{connections|int * 2}}` where a number is meant.

use crate::near_miss::near_miss;
use minijinja::{Environment, UndefinedBehavior};
use std::collections::{BTreeMap, BTreeSet};

/// Names that every template has; `workers` may be given another value.
pub(crate) const TEMPLATE_NAMES: [&str; 6] =
    ["address", "cpu_mask", "listen", "port", "root", "workers"];

/// Why a template could not be filled in.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    /// It uses a name that has no value.
    #[error("{file}:{line}: {}", self.cause())]
    UnknownName {
        /// Template.
        file: String,
        /// Line, from 1.
        line: usize,
        name: String,
        /// The known name that it resembles.
        near: Option<String>,
        /// All known names.
        known: Vec<String>,
    },
    /// The template engine refused it.
    #[error("{file}:{line}: {cause}")]
    Malformed {
        /// Template.
        file: String,
        /// Line, from 1.
        line: usize,
        /// The engine's words.
        cause: String,
    },
}

impl TemplateError {
    /// Line in the template, from 1.
    pub fn line(&self) -> usize {
        match self {
            TemplateError::UnknownName { line, .. } | TemplateError::Malformed { line, .. } => {
                *line
            }
        }
    }

    /// What is wrong, without the place.
    pub fn cause(&self) -> String {
        match self {
            TemplateError::UnknownName { name, near, .. } => {
                format!("unknown name `{name}`{}", did_you_mean(near.as_deref()))
            }
            TemplateError::Malformed { cause, .. } => cause.clone(),
        }
    }

    /// What to do about it.
    pub fn remedy(&self) -> String {
        match self {
            TemplateError::UnknownName { known, .. } => {
                format!("names that have a value here: {}", known.join(", "))
            }
            TemplateError::Malformed { .. } => SYNTAX.to_owned(),
        }
    }
}

/// The remedy for a template that is none.
pub(crate) const SYNTAX: &str =
    "templates are Jinja: {{name}}, {% if name == \"level\" %}...{% endif %}";

fn did_you_mean(near: Option<&str>) -> String {
    near.map_or_else(String::new, |n| format!("; did you mean `{n}`?"))
}

fn environment() -> Environment<'static> {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.set_keep_trailing_newline(true);
    // The engine would escape for HTML by the file's name; ours are configurations.
    environment.set_auto_escape_callback(|_| minijinja::AutoEscape::None);
    environment
}

fn malformed(file: &str, e: &minijinja::Error) -> TemplateError {
    TemplateError::Malformed {
        file: file.to_owned(),
        line: e.line().unwrap_or(1),
        cause: match e.detail() {
            Some(detail) => format!("{}: {detail}", e.kind()),
            None => e.kind().to_string(),
        },
    }
}

/// The names that `text` takes from outside, sorted. `file` is for messages.
///
/// # Errors
/// [`TemplateError::Malformed`].
pub fn names(file: &str, text: &str) -> Result<BTreeSet<String>, TemplateError> {
    let environment = environment();
    let template = environment
        .template_from_named_str(file, text)
        .map_err(|e| malformed(file, &e))?;
    let builtins: BTreeSet<&str> = environment.globals().map(|(name, _)| name).collect();
    Ok(template
        .undeclared_variables(false)
        .into_iter()
        .filter(|name| !builtins.contains(name.as_str()))
        .collect())
}

/// Fills in the `values`. `file` is for messages.
///
/// # Errors
/// [`TemplateError`]: an unknown name with its near miss, or the engine's words.
pub fn render(
    file: &str,
    text: &str,
    values: &BTreeMap<String, String>,
) -> Result<String, TemplateError> {
    if let Some(name) = names(file, text)?
        .into_iter()
        .find(|name| !values.contains_key(name))
    {
        return Err(unknown_name(
            file,
            text,
            &name,
            values.keys().map(String::as_str),
        ));
    }
    environment()
        .render_named_str(file, text, values)
        .map_err(|e| malformed(file, &e))
}

/// For each line of the filled-in template, the line of the template that it came from; both from 1. Where that
/// cannot be told (a tag over several lines) the lines count as the same.
pub fn lines(file: &str, text: &str, values: &BTreeMap<String, String>) -> Vec<usize> {
    // Marks of the C0 controls, which no configuration holds.
    const BEGIN: char = '\u{1}';
    const END: char = '\u{2}';
    let marked: String = text
        .split_inclusive('\n')
        .enumerate()
        .map(|(i, line)| format!("{BEGIN}{}{END}{line}", i + 1))
        .collect();
    let Ok(marked) = render(file, &marked, values) else {
        return Vec::new();
    };
    let mut last = 1;
    let from = |line: &str| {
        let (_, behind) = line.split_once(BEGIN)?;
        behind.split_once(END)?.0.parse().ok()
    };
    let of_line = |line| {
        last = from(line).unwrap_or(last);
        last
    };
    marked.lines().map(of_line).collect()
}

/// The error for a `name` that `text` uses and nobody knows.
pub(crate) fn unknown_name<'a>(
    file: &str,
    text: &str,
    name: &str,
    known: impl Iterator<Item = &'a str>,
) -> TemplateError {
    let known: Vec<&str> = known.collect();
    TemplateError::UnknownName {
        file: file.to_owned(),
        line: line_of(text, name),
        name: name.to_owned(),
        near: near_miss(name, known.iter().copied()),
        known: known.into_iter().map(str::to_owned).collect(),
    }
}

/// First line that has `name` as a whole word behind a brace on the same line; the first with the word otherwise.
pub(crate) fn line_of(text: &str, name: &str) -> usize {
    let has_word = |line: &str| {
        line.split(|c: char| !(c.is_alphanumeric() || c == '_'))
            .any(|word| word == name)
    };
    let in_braces = |line: &str| line.find('{').is_some_and(|i| has_word(&line[i..]));
    text.lines()
        .position(in_braces)
        .or_else(|| text.lines().position(has_word))
        .map_or(1, |i| i + 1)
}

/// An identifier of the template language.
pub(crate) fn is_word(name: &str) -> bool {
    name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        && name.starts_with(|c: char| !c.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs
            .iter()
            .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
            .collect()
    }

    #[test]
    fn fills_in_without_escaping_or_trimming() {
        let text = "listen {{listen}};\n{% if x == \"a<b\" %}x {{x}};{% endif %}\n";
        let got = render(
            "page.html",
            text,
            &values(&[("listen", "1.2.3.4:5"), ("x", "a<b")]),
        );
        assert_eq!(got.unwrap(), "listen 1.2.3.4:5;\nx a<b;\n");
    }

    #[test]
    fn unknown_name_has_its_line_and_near_miss() {
        let error = render(
            "p.conf",
            "http {\n # bufers\n a {{ proxy_bufers }};\n}",
            &values(&[("proxy_buffers", "8 4k")]),
        )
        .unwrap_err();
        assert_eq!(
            error.to_string(),
            "p.conf:3: unknown name `proxy_bufers`; did you mean `proxy_buffers`?"
        );
    }

    #[test]
    fn malformed_has_its_line() {
        let error = render("p.conf", "a;\n{% if %}\n", &values(&[])).unwrap_err();
        assert!(
            error.to_string().starts_with("p.conf:2: syntax error"),
            "{error}"
        );
    }

    #[test]
    fn lines_are_followed_through_loops_and_conditions() {
        let text = "a\n{% for i in range(2) %}\nb {{x}}\n{% endfor %}\n{% if x == \"\" %}no\n{% endif %}c\n";
        let values = values(&[("x", "1\n2")]);
        let rendered = render("t", text, &values).unwrap();
        let of_line = lines("t", text, &values);
        let at = |line: &str| -> Vec<usize> {
            let all = rendered.lines().zip(&of_line);
            all.filter(|(l, _)| *l == line).map(|(_, n)| *n).collect()
        };
        assert_eq!(of_line.len(), rendered.lines().count());
        assert_eq!(
            (at("a"), at("b 1"), at("2")),
            (vec![1], vec![3, 3], vec![3, 3])
        );
        assert_eq!(
            at("c"),
            [5],
            "what is left out takes the end of its line with it"
        );
        assert_eq!(
            lines("t", "{{\nx}}\n", &values),
            [0; 0],
            "a tag over two lines"
        );
    }

    #[test]
    fn names_are_those_from_outside() {
        let text = "{% for i in range(3) %}{{i}} {{backend}}{% endfor %}{% set a = 1 %}{{a}}";
        assert_eq!(
            names("t", text).unwrap().into_iter().collect::<Vec<_>>(),
            ["backend"]
        );
    }
}
