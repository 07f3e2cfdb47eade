//! Record and analysis to text, JSON and one HTML file. Pure: returns strings, opens nothing.

pub mod html;
