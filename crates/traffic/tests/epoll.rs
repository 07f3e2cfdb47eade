//! The byte scripts of `load/cases.rs`, played to the load loop over epoll.

#![allow(
    clippy::unwrap_used,
    reason = "a test may fail by panicking, in its helpers too"
)]

#[path = "load/cases.rs"]
mod cases;

/// The engine of all cases.
fn engine() -> record::Engine {
    record::Engine::Epoll
}
