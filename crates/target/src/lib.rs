//! target: filled in next.
