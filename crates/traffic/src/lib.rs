//! Both ends of the wire: the load generator and, beside it, the origin server.
//!
//! The load generator takes a [`record::LoadSpec`], drives it over a transport from one or more threads,
//! and returns a [`record::LoadOutcome`]:
//!
//! ```text
//! LoadSpec -> Load::prepare (checks, name, bytes, TLS) -> Load::start -> Running -> LoadOutcome
//!               each thread: arrival (when) x policy (which connection) x transport (how) -> one loop
//! ```
//!
//! There is one loop, whatever the arrival process, the stop condition, the connection policy and the
//! transport are, and one codec ([`http1`]) for both ends. Nothing in this crate prints.

pub mod arrival;
pub mod clock;
pub mod ends;
pub mod event_stream;
mod fetch;
pub mod load;
mod messages;
pub mod origin;
pub mod program;
mod random;
mod side_report;
mod sys;
mod transport;
pub mod user_space;

pub use clock::MonotonicClock;
pub use fetch::{FetchError, Fetched, fetch};
pub use load::{Load, LoadError, Running, Stopper, address_of};
pub use program::ProgramError;
pub use transport::Place;
pub use transport::websocket::frame as websocket;
