//! The glue between plan, targets, load, monitors and record: runs trials one after another.

pub mod change;
pub mod drive;
pub mod examine;
pub mod outlook;
pub mod prove;
pub mod rate;
pub mod run;
pub mod trial;
