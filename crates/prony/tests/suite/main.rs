//! End-to-end tests that bear another one beside them: one program, so that none of their files runs alone to its
//! slowest test. What measures times by itself, or fills the machine, has a program of its own beside this directory.

#[path = "../common/mod.rs"]
mod common;
#[path = "../common/wires.rs"]
mod wires;

mod check;
mod compare;
mod container;
mod dropin;
mod emulated;
mod failures;
mod faults;
mod fleet;
mod gate;
mod generated;
mod grpc;
mod hosts;
mod http2;
mod import;
mod import_workload;
mod lab;
mod limited;
mod local_ports;
mod proxies;
mod qa;
mod readme;
mod run;
mod sse;
mod studies;
mod tls;
mod traffic;
mod tune;
mod websocket;
mod workloads;
