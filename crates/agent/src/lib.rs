//! A load on many hosts: framed messages between a conductor, which is the command that a person runs, and one agent a
//! host, which carries threads of the load.

pub mod clock;
pub mod frame;
pub mod message;
pub mod together;

pub use message::{Done, Hello, Prepare, Refusal, Right};
