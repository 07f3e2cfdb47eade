//! What people paste: profiles, counters, sockets, logs, traces.
#![no_main]

#[path = "../bodies.rs"]
mod bodies;

libfuzzer_sys::fuzz_target!(|input: &[u8]| bodies::pasted(input));
