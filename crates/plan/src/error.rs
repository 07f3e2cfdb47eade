//! What can be wrong with an experiment file, said as a compiler says it: place, fact, near miss, remedy.
//!
//! Inside the crate a fault travels as a [`Found`] (a byte offset, or a line of a template); [`Report`]
//! collects them and turns offsets into lines and columns once, at the end. The surprise: one mistake in
//! the file can be met once per cell of the experiment, so equal problems are reported once.

use crate::near_miss::{near_miss, suggestion};
use crate::tuning::ProfileError;
use record::Nanos;
use std::fmt;

/// An experiment file that cannot be run: every problem that was found, in the order of the file.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub struct PlanError {
    /// At least one problem.
    pub problems: Vec<Problem>,
}

/// One problem and its place.
#[derive(Clone, Debug, PartialEq)]
pub struct Problem {
    /// File as the caller named it.
    pub file: String,
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1; 0 when only the line is known (templates).
    pub column: usize,
    /// What is wrong.
    pub fault: Fault,
}

/// What is wrong.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Fault {
    /// The file is not TOML.
    #[error("this is not TOML: {cause}")]
    Syntax {
        /// The parser's words.
        cause: String,
    },
    /// A name that means nothing here.
    #[error("unknown {kind} `{name}` in {inside}{}", suggestion(.near.as_deref()))]
    UnknownName {
        /// `key`, `factor`, `level`, `target`, `adapter`, `name`, ...
        kind: &'static str,
        /// As typed.
        name: String,
        /// Where it was typed.
        inside: String,
        /// The known name that it resembles.
        near: Option<String>,
        /// All known names.
        known: Vec<String>,
    },
    /// A name that belongs elsewhere.
    #[error("`{name}` does not belong in {inside}; use {instead}")]
    Misplaced {
        /// As typed.
        name: String,
        /// Where it was typed.
        inside: String,
        /// What to write where.
        instead: String,
    },
    /// A value of the wrong type or out of range.
    #[error("`{what}` must be {expected}, not {found}")]
    Unexpected {
        /// The key.
        what: String,
        /// What it must be.
        expected: String,
        found: String,
    },
    /// Something that every experiment needs is not there.
    #[error("{inside} has no `{what}`")]
    Missing {
        /// The key.
        what: String,
        /// The section.
        inside: String,
        /// How to write it.
        example: String,
    },
    /// Two settings that exclude each other.
    #[error("`{first}` and `{second}` cannot both be given in {inside}: {why}")]
    Conflict {
        /// One setting.
        first: String,
        /// The other.
        second: String,
        /// The section.
        inside: String,
        /// Why not.
        why: &'static str,
    },
    /// A file named in the experiment cannot be read.
    #[error("cannot read `{path}`: {cause}")]
    Unreadable {
        /// The path as typed.
        path: String,
        /// The system's words.
        cause: String,
    },
    /// A capture holds no flow that can be replayed.
    #[error("`{path}` cannot be replayed: {cause}")]
    Capture {
        /// The path as typed.
        path: String,
        /// What is missing, with the flows that it has.
        cause: String,
    },
    /// A template is not one.
    #[error("the template is malformed: {cause}")]
    Template {
        /// The template engine's words.
        cause: String,
    },
    /// A table keyed by levels that are not the levels of any factor.
    #[error("`{field}` has a value for each of {keys}, but {}", keyed(.factor.as_ref()))]
    Keyed {
        /// The load field.
        field: String,
        keys: String,
        /// The factor that comes closest, with its levels.
        factor: Option<(String, String)>,
    },
    /// A table keyed by levels that several factors have.
    #[error("`{field}` could be keyed by any of the factors {factors}: their levels are the same")]
    KeyedBySeveral {
        /// The load field.
        field: String,
        factors: String,
    },
    /// A URL that cannot be loaded.
    #[error("`{url}` cannot be loaded: {cause}")]
    Url {
        /// As typed, templates filled in.
        url: String,
        /// Why not.
        cause: String,
    },
    /// A target that no trial starts.
    #[error("target `{target}` is never used: no URL names it and no used target's template does")]
    Unused { target: String },
    /// Targets that wait for each other.
    #[error("the targets {targets} need each other's address: none of them can be started first")]
    Cycle {
        /// The circle, in order.
        targets: String,
    },
    /// A name that already has a meaning.
    #[error("the {kind} `{name}` cannot have this name: {why}")]
    Name {
        /// `target`, `factor`, ...
        kind: &'static str,
        /// As typed.
        name: String,
        /// Why not.
        why: String,
    },
    /// An arrival process without a rate.
    #[error("arrival `{arrival}` needs a `rate`")]
    NoRate {
        /// The process.
        arrival: String,
    },
    /// A rate relative to a capacity that nothing measures.
    #[error("{asks}, but no earlier stage measures the capacity")]
    NoCapacity {
        /// What needs it.
        asks: String,
    },
    /// The design has more trials than anyone would wait for.
    #[error(
        "stage `{stage}` has {trials} trials; at most {} are run",
        crate::MOST_TRIALS
    )]
    TooManyTrials {
        stage: String,
        /// Cells times repeats.
        trials: u64,
    },
    /// The tuning profile is not there, or not one.
    #[error("{0}")]
    Tuning(ProfileError),
    /// The plan takes longer than the author allowed.
    #[error("the plan takes {planned}, longer than the budget of {budget}")]
    OverBudget {
        /// Time by plan.
        planned: Nanos,
        /// Time allowed.
        budget: Nanos,
    },
}

impl PlanError {
    /// What to do about the first problem; empty when its text says it all.
    pub fn remedy(&self) -> String {
        self.problems
            .first()
            .map_or_else(String::new, |p| p.fault.remedy())
    }
}

impl fmt::Display for PlanError {
    /// One problem a line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, problem) in self.problems.iter().enumerate() {
            let newline = if i == 0 { "" } else { "\n" };
            write!(f, "{newline}{problem}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Problem {
    /// As compilers do, so that editors can jump there: `experiment.toml:12:3: ...`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:", self.file, self.line)?;
        if self.column > 0 {
            write!(f, "{}:", self.column)?;
        }
        write!(f, " {}", self.fault)
    }
}

impl Fault {
    /// What to do about it; empty when the text says it all.
    pub fn remedy(&self) -> String {
        match self {
            Fault::Syntax { .. }
            | Fault::Misplaced { .. }
            | Fault::Unexpected { .. }
            | Fault::Url { .. } => String::new(),
            Fault::UnknownName { known, .. } if known.is_empty() => String::new(),
            Fault::UnknownName { known, .. } => format!("known here: {}", known.join(", ")),
            Fault::Missing { example, .. } => format!("for example {example}"),
            Fault::Conflict { first, second, .. } => format!("remove `{first}` or `{second}`"),
            Fault::Unreadable { .. } => "paths are relative to the file that names them".to_owned(),
            Fault::Capture { .. } => {
                "capture a whole connection: tcpdump -s 0 -w FILE, begun before it and ended after it"
                    .to_owned()
            }
            Fault::Template { .. } => crate::template::SYNTAX.to_owned(),
            Fault::Keyed { field, .. } => format!(
                "give one plain value, or one value for each level: {field} = {{ level = ... }}"
            ),
            Fault::KeyedBySeveral { .. } => {
                "rename the levels of one of these factors, so that they differ".to_owned()
            }
            Fault::Unused { target } => {
                format!("load it with url = \"http://{target}/\", or remove it")
            }
            Fault::Cycle { .. } => {
                "give one of them a fixed `listen` address and write that address \
                                    into the other's template"
                    .to_owned()
            }
            Fault::Name { .. } => "choose another name".to_owned(),
            Fault::NoRate { .. } => {
                "add rate = \"10k\" (requests per second in total), or remove `arrival`".to_owned()
            }
            Fault::NoCapacity { .. } => {
                "put a [[stage]] without a rate (a closed loop) before it, \
                                         or give requests per second"
                    .to_owned()
            }
            Fault::Tuning(error) => error.remedy(),
            Fault::TooManyTrials { .. } => "use fewer levels or repeats".to_owned(),
            Fault::OverBudget { .. } => {
                "use fewer levels or repeats, a shorter `measure`, or a larger `budget`".to_owned()
            }
        }
    }
}

fn keyed(factor: Option<&(String, String)>) -> String {
    factor.map_or_else(
        || "no factor has these levels".to_owned(),
        |(name, levels)| format!("the levels of factor `{name}` are {levels}"),
    )
}

/// Where a fault was found.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Place {
    /// Byte offset in the experiment file.
    Offset(usize),
    /// Line of a template file.
    Line(String, usize),
}

/// A fault and its place, before offsets are lines.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Found {
    pub place: Place,
    /// Boxed because it travels in every `Result`, nearly always unused.
    pub fault: Box<Fault>,
}

impl Found {
    /// Something that must be there, for example so.
    pub fn missing(offset: usize, what: &str, inside: &str, example: &str) -> Self {
        let fault = Fault::Missing {
            what: what.to_owned(),
            inside: inside.to_owned(),
            example: example.to_owned(),
        };
        Self::at(offset, fault)
    }

    pub fn at(offset: usize, fault: Fault) -> Self {
        Self::new(Place::Offset(offset), fault)
    }

    pub fn new(place: Place, fault: Fault) -> Self {
        Self {
            place,
            fault: Box::new(fault),
        }
    }
}

/// An unknown name at `at`, with its near miss.
pub(crate) fn unknown<'a>(
    at: usize,
    kind: &'static str,
    name: &str,
    inside: &str,
    known: impl IntoIterator<Item = &'a str>,
) -> Found {
    Found::at(at, unknown_name(kind, name, inside, known))
}

pub(crate) fn unknown_name<'a>(
    kind: &'static str,
    name: &str,
    inside: &str,
    known: impl IntoIterator<Item = &'a str>,
) -> Fault {
    let known: Vec<&str> = known.into_iter().collect();
    Fault::UnknownName {
        kind,
        name: name.to_owned(),
        inside: inside.to_owned(),
        near: near_miss(name, known.iter().copied()),
        known: known.into_iter().map(str::to_owned).collect(),
    }
}

/// The problems found so far.
#[derive(Default)]
pub(crate) struct Report(Vec<Found>);

impl Report {
    pub fn push(&mut self, found: Found) {
        if !self.0.contains(&found) {
            self.0.push(found);
        }
    }

    /// The value, or a note of what is wrong with it.
    pub fn take<T>(&mut self, result: Result<T, Found>) -> Option<T> {
        result.map_err(|found| self.push(found)).ok()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All problems with lines and columns, in the order of the file; those of templates last.
    pub fn into_error(self, file: &str, text: &str) -> PlanError {
        let mut found = self.0;
        found.sort_by_key(|f| match f.place {
            Place::Offset(at) => at,
            Place::Line(..) => usize::MAX,
        });
        PlanError {
            problems: found.into_iter().map(|f| f.located(file, text)).collect(),
        }
    }
}

impl Found {
    fn located(self, file: &str, text: &str) -> Problem {
        let (file, line, column) = match self.place {
            Place::Line(template, line) => (template, line, 0),
            Place::Offset(at) => {
                let (line, column) = line_column(text, at);
                (file.to_owned(), line, column)
            }
        };
        Problem {
            file,
            line,
            column,
            fault: *self.fault,
        }
    }
}

/// Line and column (both from 1, the column in characters) of a byte offset.
fn line_column(text: &str, at: usize) -> (usize, usize) {
    let before = text.get(..at).unwrap_or(text);
    let line_start = before.rfind('\n').map_or(0, |i| i + 1);
    (
        before.matches('\n').count() + 1,
        before[line_start..].chars().count() + 1,
    )
}
