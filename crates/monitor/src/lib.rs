//! monitor: filled in next.
