//! report: filled in next.
