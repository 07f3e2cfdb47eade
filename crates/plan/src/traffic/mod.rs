//! Traffic of a TCP in user space: targets, steps, and what a capture says of a flow that is to be replayed.
#![allow(dead_code, reason = "the reader of traffic files, which uses it, comes next")]

mod address;
mod pcap;
mod replay;
mod steps;
