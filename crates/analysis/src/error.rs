//! Why a record cannot be analysed at all; a trial that went wrong is not such a reason.

/// Why a record cannot be analysed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AnalysisError {
    /// The plan in the record is not one that this version understands.
    #[error("reading `plan.json` of the record: {cause}")]
    Plan {
        /// The parser's words.
        cause: String,
    },
}

impl AnalysisError {
    /// What to do about it.
    pub fn remedy(&self) -> &'static str {
        match self {
            AnalysisError::Plan { .. } => {
                "restore the file, or analyse the record with the version that wrote it"
            }
        }
    }
}
