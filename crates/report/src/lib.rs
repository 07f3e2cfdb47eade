//! Record and analysis to text, JSON and one HTML file. Pure: returns strings, opens nothing.
//!
//! Every format shows what `analysis` says and computes nothing of its own beyond sums and units.

pub mod check;
pub mod conclusion;
pub mod csv;
pub mod dropin;
pub mod export;
pub mod gate;
pub mod hosts;
pub mod html;
pub mod index;
mod intervals;
pub mod json;
pub mod lab;
pub mod markdown;
mod number;
mod quantity;
pub mod signature;
pub mod text;
pub mod traffic;
pub mod tune;
pub mod workload;
