//! The byte scripts of `load/cases.rs`, played to the load loop over io_uring.

#![allow(
    clippy::unwrap_used,
    reason = "a test may fail by panicking, in its helpers too"
)]
#![allow(
    clippy::print_stderr,
    reason = "a test says what it could not try here"
)]

#[path = "load/cases.rs"]
mod cases;

/// The engine of all cases: io_uring, or epoll again where the kernel refuses it.
fn engine() -> record::Engine {
    let engine = record::Engine::Uring;
    let spec = record::LoadSpec {
        engine,
        ..record::LoadSpec::new("http://127.0.0.1/")
    };
    match traffic::Load::prepare(&spec) {
        Err(traffic::LoadError::Engine { cause }) => {
            eprintln!("the cases run over epoll: io_uring is refused here: {cause}");
            record::Engine::Epoll
        }
        _ => engine,
    }
}
