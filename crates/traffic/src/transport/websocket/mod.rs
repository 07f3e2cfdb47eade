//! WebSocket (RFC 6455): the frames of a server.

pub mod frame;
