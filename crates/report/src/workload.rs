//! The document of `prony import har|curl|openapi --json`: a workload file and what must be known about it.

use import::ConvertedWorkload;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Version of the document.
const FORMAT: u32 = 1;

/// What is printed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WorkloadDocument {
    /// Version of this document.
    pub format: u32,
    /// Where the workload file was written; absent without `--out`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The workload file.
    pub workload: String,
    /// Scheme, host and port; absent where the source names none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// What each request is called in results, in order.
    pub requests: Vec<String>,
    /// What was left out, changed or must be filled in.
    pub notes: Vec<String>,
}

/// The document of a conversion.
pub fn document(made: &ConvertedWorkload, file: Option<&str>) -> WorkloadDocument {
    WorkloadDocument {
        format: FORMAT,
        file: file.map(str::to_owned),
        workload: made.text.clone(),
        server: made.server.clone(),
        requests: made.requests.clone(),
        notes: made.notes.clone(),
    }
}

/// The published schema of [`WorkloadDocument`].
pub fn schema() -> serde_json::Value {
    schemars::schema_for!(WorkloadDocument).to_value()
}
