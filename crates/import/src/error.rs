//! Why nothing could be imported.

use plan::near_miss;

/// Why a text gave no record.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ImportError {
    #[error("unknown format `{name}`{}", near.as_ref().map_or_else(String::new, |n| format!("; did you mean `{n}`?")))]
    UnknownFormat {
        /// As typed.
        name: String,
        /// The known one that it resembles.
        near: Option<String>,
    },
    /// There is nothing in the file.
    #[error("`{file}` is empty")]
    Empty { file: String },
    /// The file is no text.
    #[error("`{file}` is not a text: byte {at} of it is {byte:#04x}")]
    Binary {
        file: String,
        /// Offset, from 0.
        at: usize,
        /// Its value.
        byte: u8,
    },
    /// What was found is of another tool.
    #[error("`{file}` holds no result of {format}; line {line} begins one of {detected}")]
    OtherFormat {
        file: String,
        /// As typed.
        format: String,
        detected: String,
        /// Line, from 1.
        line: u32,
    },
    /// A result began and did not end, or contradicts itself.
    #[error("`{file}`, lines {from} to {to}: {why}")]
    NotWhole {
        file: String,
        /// First line, from 1.
        from: u32,
        /// Last line.
        to: u32,
        /// What was missing or wrong.
        why: String,
    },
    /// Nothing in it is known.
    #[error("nothing in `{file}` (to line {lines}) is a result of {format}")]
    Unknown {
        file: String,
        /// As typed, or what `auto` knows.
        format: String,
        /// Lines looked at.
        lines: usize,
    },
    /// A source of requests cannot become a workload.
    #[error("`{file}` cannot become a workload: {cause}")]
    NotConverted {
        file: String,
        /// What of it.
        cause: String,
        /// What to do about it.
        remedy: String,
    },
    /// `--map`, `--baseline`, `--factor` or `--select` names something that is not there.
    #[error("there is no {what} `{name}`; there {}", are(known))]
    NoSuch {
        /// `case`, `factor`, ...
        what: &'static str,
        /// As typed.
        name: String,
        /// What there is.
        known: Vec<String>,
    },
}

fn are(known: &[String]) -> String {
    let names: Vec<String> = known.iter().take(12).map(|k| format!("`{k}`")).collect();
    match names.len() {
        0 => "is none".to_owned(),
        1 => format!("is {}", names[0]),
        _ => format!("are {}", names.join(", ")),
    }
}

impl ImportError {
    /// What to do about it.
    pub fn remedy(&self) -> String {
        match self {
            ImportError::UnknownFormat { .. } | ImportError::Unknown { .. } => format!(
                "give the tool's own output, and one of {}",
                crate::format::Format::names().join(", ")
            ),
            ImportError::Empty { .. } => "save the tool's standard output into it".to_owned(),
            ImportError::Binary { .. } => {
                "give text; vegeta's and k6's binary results are turned into text by their own `report`".to_owned()
            }
            ImportError::OtherFormat { detected, .. } => {
                format!("say `prony import {detected}`, or `prony import auto`")
            }
            ImportError::NotWhole { .. } => {
                "copy the whole result, or run the tool again".to_owned()
            }
            ImportError::NotConverted { remedy, .. } => remedy.clone(),
            ImportError::NoSuch { name, known, .. } => {
                match near_miss(name, known.iter().map(String::as_str)) {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => "name one of them".to_owned(),
                }
            }
        }
    }
}
