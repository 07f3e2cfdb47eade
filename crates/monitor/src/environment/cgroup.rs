//! The CPU quota that this process lives under, in either layout of control groups.
//!
//! The surprise: the tightest quota of all ancestors counts, and hosts with both layouts mounted have the
//! CPU controller in only one of them, so both are asked.

use super::facts::Facts;
use linux::Root;

pub(crate) const MOUNT: &str = "sys/fs/cgroup";

/// A quota of one group.
#[derive(Clone, Debug, PartialEq)]
struct Quota {
    /// Directory of the group, relative to the root.
    group: String,
    /// CPUs; `None` is unlimited.
    cpus: Option<f64>,
}

/// Adds the facts.
pub fn describe(facts: &mut Facts) {
    let groups = facts.read("proc/self/cgroup", "line of a group", |text| {
        Some(directories(text)).filter(|found| !found.is_empty())
    });
    let quota = groups.and_then(|groups| {
        let root = facts.root();
        let quotas = groups.iter().filter_map(|group| quota(root, group));
        let none = || format!("no cpu.max and no cpu.cfs_quota_us of this process under /{MOUNT}");
        tightest(quotas).ok_or_else(none)
    });
    let text = quota.as_ref().map(|quota| match quota.cpus {
        Some(cpus) => format!("{cpus:.2}"),
        None => "unlimited".to_owned(),
    });
    facts.add("cgroup", "cpu_quota_cpus", text.map_err(Clone::clone));
    match quota {
        Ok(quota) => {
            let relative = format!("{}/cpu.stat", quota.group);
            facts.find(
                "cgroup",
                "throttled_periods",
                &relative,
                "nr_throttled",
                |text| {
                    let number = text
                        .lines()
                        .find_map(|line| line.strip_prefix("nr_throttled "))?;
                    Some(number.trim().to_owned())
                },
            );
        }
        Err(reason) => facts.add("cgroup", "throttled_periods", Err(reason)),
    }
}

/// Directories whose quota may bind the process: its groups and their ancestors, in both layouts.
fn directories(cgroup: &str) -> Vec<String> {
    let mut found = Vec::new();
    for line in cgroup.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else {
            continue;
        };
        let mounts: &[&str] = match controllers {
            "" => &["", "/unified"],
            _ if controllers.split(',').any(|c| c == "cpu") => &["/cpu", "/cpu,cpuacct"],
            _ => continue,
        };
        for mount in mounts {
            found.extend(ancestors(path).map(|path| format!("{MOUNT}{mount}{path}")));
        }
    }
    found
}

/// `/a/b`, `/a`, and the empty path of the mount itself.
pub(crate) fn ancestors(path: &str) -> impl Iterator<Item = &str> {
    let path = path.trim_end_matches('/');
    std::iter::successors(Some(path), |path| {
        path.rsplit_once('/').map(|(parent, _)| parent)
    })
}

/// The quota of a group; `None` when it has no CPU controller.
fn quota(root: &Root, group: &str) -> Option<Quota> {
    let read = |name: &str| root.read(&format!("{group}/{name}")).ok();
    let cpus = match read("cpu.max") {
        Some(max) => parse_max(&max)?,
        None => parse_cfs(&read("cpu.cfs_quota_us")?, &read("cpu.cfs_period_us")?)?,
    };
    let group = group.to_owned();
    Some(Quota { group, cpus })
}

/// `200000 100000` or `max 100000`: us per period.
pub(crate) fn parse_max(text: &str) -> Option<Option<f64>> {
    let (quota, period) = text.trim().split_once(' ')?;
    match quota {
        "max" => Some(None),
        _ => parse_cfs(quota, period),
    }
}

/// The first layout's two files; a quota of -1 is none.
pub(crate) fn parse_cfs(quota: &str, period: &str) -> Option<Option<f64>> {
    let (quota, period): (f64, f64) = (quota.trim().parse().ok()?, period.trim().parse().ok()?);
    (period > 0.0).then_some((quota >= 0.0).then(|| quota / period))
}

/// The smallest quota; the first group when all are unlimited.
fn tightest(quotas: impl Iterator<Item = Quota>) -> Option<Quota> {
    let cpus = |quota: &Quota| quota.cpus.unwrap_or(f64::INFINITY);
    quotas.min_by(|a, b| cpus(a).total_cmp(&cpus(b)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotas_of_both_layouts() {
        assert_eq!(parse_max("150000 100000\n"), Some(Some(1.5)));
        assert_eq!(parse_max("max 100000\n"), Some(None));
        assert_eq!(parse_cfs("-1\n", "100000\n"), Some(None));
        assert_eq!(parse_cfs("50000\n", "100000\n"), Some(Some(0.5)));
        assert_eq!(parse_cfs("50000\n", "0\n"), None);
        assert_eq!(parse_max("fast"), None);
    }

    #[test]
    fn the_tightest_ancestor_counts() {
        for (cgroup, mount) in [
            ("0::/a/b\n", ""),
            ("3:cpuset:/x\n1:cpu,cpuacct:/a/b\n0::/\n", "/cpu,cpuacct"),
        ] {
            let dir = tempfile::tempdir().unwrap();
            let root = Root::new(dir.path());
            let write = |relative: String, text: &str| {
                let path = root.path(&relative);
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                std::fs::write(path, text).unwrap();
            };
            write("proc/self/cgroup".to_owned(), cgroup);
            for (group, quota, throttled) in [("/a", "200000", "7"), ("/a/b", "400000", "9")] {
                let group = format!("{MOUNT}{mount}{group}");
                write(
                    format!("{group}/cpu.stat"),
                    &format!("nr_periods 10\nnr_throttled {throttled}\n"),
                );
                if mount.is_empty() {
                    write(format!("{group}/cpu.max"), &format!("{quota} 100000\n"));
                } else {
                    write(format!("{group}/cpu.cfs_quota_us"), quota);
                    write(format!("{group}/cpu.cfs_period_us"), "100000");
                }
            }
            let mut facts = Facts::new(&root);
            describe(&mut facts);
            let values: Vec<_> = facts
                .into_items()
                .into_iter()
                .map(|item| item.value)
                .collect();
            assert_eq!(
                values,
                [Some("2.00".to_owned()), Some("7".to_owned())],
                "{cgroup}"
            );
        }
    }
}
