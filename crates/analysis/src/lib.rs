//! analysis: filled in next.
