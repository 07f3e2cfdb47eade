//! HTTP/2 (RFC 9113): frames and header compression, as far as a load generator needs them.
#![allow(dead_code, reason = "the transport over it is not there yet")]

mod frame;
mod hpack;
mod huffman;
mod request;
