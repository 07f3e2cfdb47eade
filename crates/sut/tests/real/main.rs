//! Tests with real servers and real processes, on loopback and free ports.

mod adapters;
mod bench;
mod copies;
mod discover;
mod process_copies;
mod recover;
mod servers;
mod topology;
