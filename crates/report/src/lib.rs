//! Record and analysis to text, JSON and one HTML file. Pure: returns strings, opens nothing.
//!
//! Every format shows what `analysis` says and computes nothing of its own beyond sums and units.

pub mod check;
pub mod html;
mod intervals;
pub mod json;
mod quantity;
pub mod signature;
pub mod text;
pub mod tune;
