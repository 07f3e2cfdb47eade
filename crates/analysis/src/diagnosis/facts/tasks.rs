//! What the requests of a server wait for inside its runtime, by looks at its tasks (goroutines).
//!
//! The time is that which no thread shows; the ledger divides it (`ledger/tasks.rs`), and here is its share at locks
//! and pools, so that rules can ask for it as they ask for the waits of threads.

use super::{Material, Sheet};

const SOURCE: &str = "goroutines, read from the process' memory while turns were traced";
const NONE: &str = "no goroutines were read";
pub(super) fn extract(material: &Material<'_>, sheet: &mut Sheet<'_>, target: &str) {
    let examination = material.examination();
    let shares =
        examination.and_then(|examination| crate::ledger::task_shares(examination, target));
    for kind in ["lock", "pool", "sleep", "limiter"] {
        let fact = format!("tasks.{kind}_share");
        match &shares {
            Some(shares) => {
                let share = shares.get(kind).copied().unwrap_or_default();
                sheet.known(&fact, share, SOURCE);
            }
            None => sheet.not_applicable(&fact, NONE),
        }
    }
}
