//! Tests with real servers and real processes, on loopback and free ports.

mod bench;
mod recover;
mod servers;
