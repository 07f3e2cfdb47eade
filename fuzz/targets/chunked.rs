//! Chunked bodies (RFC 9112 7.1) without a head before them.
#![no_main]

#[path = "../bodies.rs"]
mod bodies;

libfuzzer_sys::fuzz_target!(|input: &[u8]| bodies::chunked(input));
