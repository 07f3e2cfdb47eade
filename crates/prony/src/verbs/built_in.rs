//! The experiments that are part of prony, with the files that they name: `prony run proxy-buffers` needs no checkout.
//!
//! They are the files of `experiments/` as they stand. The surprise: a file of the same name in the working directory
//! comes first, so that a copy can be changed and run by the same command.

/// The built-in evaluation.
pub const QUICKSTART: &str = "quickstart";

/// An experiment, by the name of its file without its ending.
const EXPERIMENTS: [(&str, &str); 8] = [
    (
        QUICKSTART,
        include_str!("../../../../experiments/quickstart.toml"),
    ),
    (
        "nginx-static",
        include_str!("../../../../experiments/nginx-static.toml"),
    ),
    (
        "nginx-allocator",
        include_str!("../../../../experiments/nginx-allocator.toml"),
    ),
    (
        "proxy-buffers",
        include_str!("../../../../experiments/proxy-buffers.toml"),
    ),
    (
        "reuseport-threads",
        include_str!("../../../../experiments/reuseport-threads.toml"),
    ),
    (
        "proxy-scaling",
        include_str!("../../../../experiments/proxy-scaling.toml"),
    ),
    (
        "traffic-vs-server",
        include_str!("../../../../experiments/traffic-vs-server.toml"),
    ),
    (
        "user-space-server",
        include_str!("../../../../experiments/user-space-server.toml"),
    ),
];

/// Files that they name.
const FILES: [(&str, &str); 9] = [
    ("logo.svg", include_str!("../../../../experiments/logo.svg")),
    (
        "nginx-static.conf",
        include_str!("../../../../experiments/nginx-static.conf"),
    ),
    (
        "nginx-allocator.conf",
        include_str!("../../../../experiments/nginx-allocator.conf"),
    ),
    (
        "proxy-buffers.conf",
        include_str!("../../../../experiments/proxy-buffers.conf"),
    ),
    (
        "reuseport-threads.conf",
        include_str!("../../../../experiments/reuseport-threads.conf"),
    ),
    (
        "proxy-scaling-proxy.conf",
        include_str!("../../../../experiments/proxy-scaling-proxy.conf"),
    ),
    (
        "proxy-scaling-backend.conf",
        include_str!("../../../../experiments/proxy-scaling-backend.conf"),
    ),
    (
        "traffic-vs-server.conf",
        include_str!("../../../../experiments/traffic-vs-server.conf"),
    ),
    (
        "user-space-server.conf",
        include_str!("../../../../experiments/user-space-server.conf"),
    ),
];

/// The text of an experiment.
pub fn experiment(name: &str) -> Option<&'static str> {
    find(&EXPERIMENTS, name)
}

/// The text of a file that one of them names.
pub fn file(name: &str) -> Option<&'static str> {
    find(&FILES, name)
}

/// Names of the experiments.
pub fn names() -> impl Iterator<Item = &'static str> {
    EXPERIMENTS.iter().map(|(name, _)| *name)
}

fn find(all: &[(&str, &'static str)], name: &str) -> Option<&'static str> {
    all.iter().find(|(n, _)| *n == name).map(|(_, text)| *text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use plan::{Lack, Plan};
    use record::Nanos;

    #[test]
    fn every_experiment_plans_within_three_minutes_with_its_own_files() {
        for name in names() {
            let read = |path: &str| {
                let text = file(path).ok_or_else(|| format!("{path} is not built in"))?;
                Ok(text.to_owned())
            };
            let mut plan = Plan::parse(experiment(name).unwrap(), name, &read)
                .unwrap_or_else(|e| panic!("{e}"));
            // No Debian package has Onload, so a host of two cores skips its cells.
            plan.skip(|trial| {
                let mut levels = trial.levels.values();
                levels.any(|l| l.starts_with("onload")).then(|| Lack {
                    reason: "onload is not installed".to_owned(),
                    remedy: String::new(),
                })
            });
            assert!(
                plan.time() <= Nanos::from_secs(180),
                "{name} takes {}",
                plan.time()
            );
            assert!(!plan.trials.is_empty(), "{name}");
            for scale in &plan.scales {
                Plan::parse_at(experiment(name).unwrap(), name, scale, &read)
                    .unwrap_or_else(|e| panic!("{name} at {scale}: {e}"));
            }
        }
    }
}
