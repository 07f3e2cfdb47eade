//! What a browser, curl or an interface's description says of requests becomes a workload file for `prony load`.
//!
//! ```text
//! HAR, curl command, OpenAPI document -> calls (`draft`) -> text of a workload file (`text`), read back once
//! ```
//! The rule: what cannot be carried over is said, in the file's first lines and to the caller, or refused where the
//! request would be another one without it. Credentials are left out unless asked for, since such files are passed on.
//! The surprise: nothing is read here but the text itself; a body in a file stays a name in the workload.

mod curl;
mod draft;
mod har;
mod openapi;
mod schema;
mod secrets;
mod shell;
mod text;
mod url_text;

use crate::error::ImportError;
use draft::Draft;

/// What can become a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkloadFormat {
    /// HTTP Archive 1.1 or 1.2, as browsers export it.
    Har,
    /// One or several command lines of curl.
    Curl,
    /// An OpenAPI 3 document as JSON.
    OpenApi,
}

impl WorkloadFormat {
    /// All of them with their names.
    pub const ALL: [(WorkloadFormat, &'static str); 3] = [
        (WorkloadFormat::Har, "har"),
        (WorkloadFormat::Curl, "curl"),
        (WorkloadFormat::OpenApi, "openapi"),
    ];

    /// The format of that name.
    pub fn named(name: &str) -> Option<Self> {
        let lower = name.to_lowercase();
        let known = Self::ALL.iter().find(|(_, n)| *n == lower);
        known.map(|(format, _)| *format)
    }

    /// Name on the command line.
    pub fn name(self) -> &'static str {
        let named = Self::ALL.iter().find(|(format, _)| *format == self);
        named.map_or("", |(_, name)| name)
    }
}

/// What a person may ask of a conversion.
#[derive(Clone, Debug, Default)]
pub struct WorkloadOptions {
    /// Keep credentials.
    pub secrets: bool,
    /// Hosts of a HAR whose requests are taken; empty is that of the first page.
    pub hosts: Vec<String>,
}

/// A workload file and what must be known about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConvertedWorkload {
    /// The file.
    pub text: String,
    /// Scheme, host and port; `None` where the source names none.
    pub server: Option<String>,
    /// What each request is called in results, in order.
    pub requests: Vec<String>,
    /// What was left out, changed or must be filled in, a sentence or two each.
    pub notes: Vec<String>,
}

/// Makes a workload file.
///
/// # Errors
/// [`ImportError`] when the source is none of its format, holds no request, or says what a workload cannot.
pub fn convert(
    format: WorkloadFormat,
    file: &str,
    bytes: &[u8],
    options: &WorkloadOptions,
) -> Result<ConvertedWorkload, ImportError> {
    let refused = |Refusal { cause, remedy }: Refusal| ImportError::NotConverted {
        file: file.to_owned(),
        cause,
        remedy,
    };
    let Ok(text) = std::str::from_utf8(bytes) else {
        return Err(refused(Refusal::new(
            "it is not a text in UTF-8",
            "save it again as UTF-8",
        )));
    };
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if text.trim().is_empty() {
        return Err(ImportError::Empty {
            file: file.to_owned(),
        });
    }
    let draft = match format {
        WorkloadFormat::Har => har::read(text, options),
        WorkloadFormat::Curl => curl::read(text, options),
        WorkloadFormat::OpenApi => openapi::read(text),
    };
    let made = draft.and_then(|draft| finish(draft, format, file));
    made.map_err(refused)
}

/// The file is read as `prony load` will read it: what is handed out can be loaded.
fn finish(draft: Draft, format: WorkloadFormat, file: &str) -> Result<ConvertedWorkload, Refusal> {
    if draft.calls.is_empty() {
        let mut cause = "it holds no request that a load can send".to_owned();
        for note in &draft.notes {
            cause = format!("{cause}; {note}");
        }
        return Err(Refusal::new(cause, format.expects()));
    }
    let text = text::written(&draft, format, file);
    if let Err(error) = plan::workload::parse(&text, file) {
        return Err(Refusal::new(
            format!("the workload made of it cannot be read: {error}"),
            "take the request that is named out of it",
        ));
    }
    Ok(ConvertedWorkload {
        text,
        requests: draft.calls.iter().map(|call| call.name.clone()).collect(),
        server: draft.server,
        notes: draft.notes,
    })
}

impl WorkloadFormat {
    fn expects(self) -> &'static str {
        match self {
            WorkloadFormat::Har => {
                "record the page again with the network panel open, and save all of it as HAR"
            }
            WorkloadFormat::Curl => "give a command such as: curl 'http://127.0.0.1:8080/'",
            WorkloadFormat::OpenApi => {
                "give an OpenAPI 3 document as JSON, with operations below `paths`"
            }
        }
    }
}

/// Why a source cannot become a workload, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Refusal {
    cause: String,
    remedy: String,
}

impl Refusal {
    fn new(cause: impl Into<String>, remedy: impl Into<String>) -> Self {
        Refusal {
            cause: cause.into(),
            remedy: remedy.into(),
        }
    }
}
