//! What the host's cores did while the traffic ran: a TCP in user space has the kernel work for it on cores that are not
//! its own, and a process's CPU time does not show that.

use record::Series;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Modes in which a core does something, as `/proc/stat` names them.
const MODES: [&str; 6] = ["user", "nice", "system", "irq", "softirq", "steal"];

/// One core over the run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CoreFigures {
    pub core: u32,
    /// Share of the time that it worked, 0 to 1.
    pub utilization: f64,
    /// The same by mode; `softirq` is the kernel's packet work.
    pub by_mode: BTreeMap<String, f64>,
}

/// All cores that were watched, by number; empty without samples.
pub fn cores(series: &[Series]) -> Vec<CoreFigures> {
    let mut found: BTreeMap<u32, BTreeMap<String, f64>> = BTreeMap::new();
    for mode in MODES {
        let signal = format!("cpu.{mode}_s");
        for one in series.iter().filter(|s| s.signal == signal) {
            let core = one.label("core").and_then(|core| core.parse().ok());
            if let (Some(core), Some(share)) = (core, share(one)) {
                found
                    .entry(core)
                    .or_default()
                    .insert(mode.to_owned(), share);
            }
        }
    }
    let figures = found.into_iter().map(|(core, by_mode)| CoreFigures {
        core,
        utilization: by_mode.values().sum(),
        by_mode,
    });
    figures.collect()
}

/// Growth of a counter of seconds over the time between its first and its last sample.
fn share(series: &Series) -> Option<f64> {
    let (first, last) = (series.values.first()?, series.values.last()?);
    let elapsed = (series.at_ns.last()?.saturating_sub(*series.at_ns.first()?)) as f64 / 1e9;
    (elapsed > 0.0).then(|| ((last - first) / elapsed).clamp(0.0, 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::{Kind, Nanos};

    #[test]
    fn a_core_is_the_sum_of_its_modes() {
        let mut all = Vec::new();
        for (mode, grown) in [("user", 1.0), ("softirq", 6.0), ("idle", 3.0)] {
            let mut one = Series::new(&format!("cpu.{mode}_s"), "s", "/proc/stat", Kind::Counter)
                .with("core", 1);
            one.push(Nanos::from_secs(5), 100.0);
            one.push(Nanos::from_secs(15), 100.0 + grown);
            all.push(one);
        }
        let cores = cores(&all);
        assert_eq!((cores.len(), cores[0].core), (1, 1));
        assert!((cores[0].utilization - 0.7).abs() < 1e-9);
        assert!((cores[0].by_mode["softirq"] - 0.6).abs() < 1e-9);
    }
}
