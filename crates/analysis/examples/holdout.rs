//! What the predictions are worth where nothing was learned from like cases: every recorded change is predicted from
//! the others, without its family of servers, or without its cause.
//!
//! ```text
//! holdout [FILE]     FILE: a calibration (the compiled-in one when left out)
//! ```
#![allow(clippy::print_stdout, reason = "an example speaks for itself")]

use analysis::{Brought, Calibration, WIDEST};
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/catalogue/calibration.toml");
    let file = std::env::args().nth(1).unwrap_or_else(|| file.to_owned());
    let calibration: Calibration = toml::from_str(&std::fs::read_to_string(file)?)?;
    let family = |a: &Brought, b: &Brought| a.family != b.family;
    let cause = |a: &Brought, b: &Brought| a.cause != b.cause && a.case != b.case;
    show(&calibration, "family of servers left out", &family, true);
    show(&calibration, "cause left out", &cause, false);
    let either = |a: &Brought, b: &Brought| family(a, b) && cause(a, b);
    show(&calibration, "family and cause left out", &either, false);
    Ok(())
}

fn show(
    calibration: &Calibration,
    title: &str,
    others: &dyn Fn(&Brought, &Brought) -> bool,
    each: bool,
) {
    let (mut errors, mut held, mut intervals) = (Vec::new(), 0, 0);
    for change in &calibration.brought {
        let of_others = |other: &Brought| others(other, change);
        let Some(learned) = calibration.learned(&change.kind, &change.metric, &of_others) else {
            continue;
        };
        let (ratio, (low, high)) = learned.of(change.net.1, change.noise);
        // As a prediction: what holds no change too is not said.
        if low < 1.0 && high > 1.0 {
            continue;
        }
        let within = (low..=high).contains(&change.measured);
        intervals += 1;
        held += usize::from(within);
        let number = high / low <= WIDEST;
        if number {
            errors.push((ratio / change.measured - 1.0).abs());
        }
        if each {
            println!(
                "{:<32} {:<28} {:<11} model {:.3} x{ratio:.3} ({low:.3}-{high:.3}) measured {:.3} {}{}",
                change.case,
                change.cause,
                change.kind,
                change.net.1,
                change.measured,
                if number { "number " } else { "" },
                if within { "" } else { "OUTSIDE" }
            );
        }
    }
    errors.sort_by(f64::total_cmp);
    let middle = errors.get(errors.len() / 2).copied().unwrap_or(f64::NAN);
    println!(
        "{title}: {} changes, {} numbers with a median error of {:.1} %, {held} of {intervals} intervals held",
        calibration.brought.len(),
        errors.len(),
        middle * 100.0
    );
}
