//! Processors: model, number, mitigations, frequency control, SMT, clock source, hypervisor.

use super::facts::{Facts, after};
use std::collections::BTreeMap;

const CPUS: &str = "sys/devices/system/cpu";
const CLOCK: &str = "sys/devices/system/clocksource/clocksource0";

/// Adds the facts.
pub fn describe(facts: &mut Facts) {
    facts.find("cpu", "model", "proc/cpuinfo", "model name", |text| {
        after(text, "model name", ':')
    });
    let online = facts.read(&format!("{CPUS}/online"), "list of CPUs", cpu_list);
    let count = online
        .as_ref()
        .map(|cpus| cpus.len().to_string())
        .map_err(Clone::clone);
    facts.add("cpu", "count", count);
    facts.find("cpu", "hypervisor", "proc/cpuinfo", "flags", |text| {
        let flags = after(text, "flags", ':')?;
        let virtual_machine = flags.split(' ').any(|flag| flag == "hypervisor");
        Some(if virtual_machine { "yes" } else { "no" }.to_owned())
    });
    facts.find(
        "cpu",
        "allowed",
        "proc/self/status",
        "Cpus_allowed_list",
        |text| {
            after(text, "Cpus_allowed_list", ':')
                .and_then(|list| Some(cpu_list(&list)?.len().to_string()))
        },
    );
    describe_machine(facts);
    facts.file("cpu", "smt", &format!("{CPUS}/smt/control"));
    for name in ["isolated", "nohz_full"] {
        facts.find(
            "cpu",
            name,
            &format!("{CPUS}/{name}"),
            "list of CPUs",
            |text| {
                // `(null)` is what the kernel prints for an absent nohz_full.
                let cpus = text.trim();
                Some(
                    if matches!(cpus, "" | "(null)") {
                        "none"
                    } else {
                        cpus
                    }
                    .to_owned(),
                )
            },
        );
    }
    let online = online.unwrap_or_default();
    add_per_cpu(
        facts,
        &online,
        "smt_siblings",
        "topology/thread_siblings_list",
    );
    describe_frequency(facts, &online);
    facts.file(
        "cpu",
        "clocksource",
        &format!("{CLOCK}/current_clocksource"),
    );
    facts.file(
        "cpu",
        "clocksources_available",
        &format!("{CLOCK}/available_clocksource"),
    );
    describe_vulnerabilities(facts);
}

fn describe_machine(facts: &mut Facts) {
    let dmi = |name| {
        facts.read(&format!("sys/class/dmi/id/{name}"), "text", |t| {
            Some(t.trim().to_owned())
        })
    };
    let machine =
        dmi("sys_vendor").and_then(|vendor| Ok(format!("{vendor} {}", dmi("product_name")?)));
    facts.add("cpu", "machine", machine);
}

/// A fact from one file of each CPU.
fn add_per_cpu(facts: &mut Facts, cpus: &[u32], name: &str, file: &str) {
    let read = |cpu: u32| {
        let relative = format!("{CPUS}/cpu{cpu}/{file}");
        let text = facts.read(&relative, "text", |text| Some(text.trim().to_owned()));
        (cpu, text)
    };
    let fact = per_cpu(cpus.iter().map(|cpu| read(*cpu)));
    facts.add("cpu", name, fact);
}

fn describe_frequency(facts: &mut Facts, cpus: &[u32]) {
    for (name, file) in [
        ("governor", "scaling_governor"),
        ("frequency_driver", "scaling_driver"),
        ("frequency_max_khz", "scaling_max_freq"),
        ("frequency_built_khz", "cpuinfo_max_freq"),
    ] {
        add_per_cpu(facts, cpus, name, &format!("cpufreq/{file}"));
    }
    facts.find("cpu", "frequency_mhz", "proc/cpuinfo", "cpu MHz", |text| {
        after(text, "cpu MHz", ':')
    });
    describe_turbo(facts);
    facts.file(
        "cpu",
        "idle_driver",
        &format!("{CPUS}/cpuidle/current_driver"),
    );
}

/// Two drivers say the same in opposite words.
fn describe_turbo(facts: &mut Facts) {
    let read = |file: &str, on: &'static str| {
        facts.read(&format!("{CPUS}/{file}"), "0 or 1", |text| {
            Some(if text.trim() == on { "on" } else { "off" }.to_owned())
        })
    };
    let turbo = read("intel_pstate/no_turbo", "0").or_else(|_| read("cpufreq/boost", "1"));
    facts.add("cpu", "turbo", turbo);
}

fn describe_vulnerabilities(facts: &mut Facts) {
    let directory = format!("{CPUS}/vulnerabilities");
    match facts.root().list(&directory) {
        Ok(names) => {
            for name in names {
                facts.file(
                    "cpu",
                    &format!("vulnerability.{name}"),
                    &format!("{directory}/{name}"),
                );
            }
        }
        Err(error) => facts.add("cpu", "vulnerability", Err(error.to_string())),
    }
}

/// One text for all CPUs: the value when all have the same, else the CPUs of each value and reason.
fn per_cpu(values: impl Iterator<Item = (u32, Result<String, String>)>) -> Result<String, String> {
    let mut by_value: BTreeMap<Result<String, String>, Vec<u32>> = BTreeMap::new();
    for (cpu, value) in values {
        by_value.entry(value).or_default().push(cpu);
    }
    if by_value.len() <= 1 || by_value.keys().all(Result::is_err) {
        let first = by_value.into_keys().next();
        return first.unwrap_or_else(|| Err("the CPUs are not known".to_owned()));
    }
    let parts = by_value.iter().map(|(value, cpus)| {
        let value = value.as_ref().unwrap_or_else(|reason| reason);
        let cpus: Vec<String> = cpus.iter().map(u32::to_string).collect();
        format!("{value} (CPU {})", cpus.join(","))
    });
    Ok(parts.collect::<Vec<_>>().join("; "))
}

/// Reads the kernel's list form, `0-3,8`, which is never empty here.
pub(super) fn cpu_list(text: &str) -> Option<Vec<u32>> {
    linux::affinity::list(text.trim()).filter(|cpus| !cpus.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_cpus() {
        assert_eq!(cpu_list("0-2,8\n"), Some(vec![0, 1, 2, 8]));
        assert_eq!(cpu_list("0\n"), Some(vec![0]));
        assert_eq!(cpu_list("\n"), None);
        assert_eq!(cpu_list("a-b"), None);
    }

    #[test]
    fn one_text_for_all_cpus() {
        let ok = |value: &str| Ok(value.to_owned());
        let same = per_cpu([(0, ok("performance")), (1, ok("performance"))].into_iter());
        assert_eq!(same, ok("performance"));
        let mixed = [
            (0, ok("performance")),
            (1, ok("powersave")),
            (2, ok("performance")),
        ];
        assert_eq!(
            per_cpu(mixed.into_iter()),
            ok("performance (CPU 0,2); powersave (CPU 1)")
        );
        let no = || Err("no driver".to_owned());
        assert_eq!(per_cpu([(0, no()), (1, no())].into_iter()), no());
        let partly = per_cpu([(0, ok("performance")), (1, no())].into_iter());
        assert_eq!(partly, ok("performance (CPU 0); no driver (CPU 1)"));
        assert!(per_cpu(std::iter::empty()).is_err());
    }
}
