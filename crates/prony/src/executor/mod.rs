//! The glue between plan, targets, load, monitors and record: runs trials one after another.

pub mod drive;
pub mod run;
pub mod trial;
