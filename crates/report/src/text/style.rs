//! Colour or none: the caller knows whether its output is a terminal, and says so by a [`Style`].

/// How text is marked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Style {
    /// No escape sequence at all: pipes, files, `NO_COLOR`.
    #[default]
    Plain,
    /// The eight standard colours and bold, which every terminal has (ECMA-48, SGR).
    Ansi,
}

impl Style {
    fn marked(self, sgr: &str, text: &str) -> String {
        match self {
            Style::Plain => text.to_owned(),
            Style::Ansi => format!("\u{1b}[{sgr}m{text}\u{1b}[0m"),
        }
    }

    pub(crate) fn good(self, text: &str) -> String {
        self.marked("1;32", text)
    }

    pub(crate) fn bad(self, text: &str) -> String {
        self.marked("1;31", text)
    }

    pub(crate) fn doubtful(self, text: &str) -> String {
        self.marked("33", text)
    }

    pub(crate) fn heading(self, text: &str) -> String {
        self.marked("1", text)
    }
}
