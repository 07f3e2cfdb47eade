//! What of a host is advised for which workload, as data (`advice/advice.toml`), and a host held against it.
//!
//! In the flow: `prony check` hands in the environment's items as `monitor` read them. The surprise: a value that
//! could not be read is neither right nor wrong. It stays unknown with its reason, save where its absence is itself
//! an answer (no conntrack: nothing is tracked).

use plan::tuning::{Knob, profiles};
use record::EnvironmentItem;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::OnceLock;

const ADVICE: &str = include_str!("advice/advice.toml");

/// The workloads that advice knows.
pub const WORKLOADS: [&str; 5] = [
    "keep-alive",
    "connection-per-request",
    "large-bodies",
    "proxy",
    "latency",
];

/// How much a difference can matter.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Importance {
    /// It can decide the result.
    High,
    /// It moves the result.
    Medium,
    /// It matters to few.
    Low,
}

/// How a fact stands to what is advised.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    /// Another value is advised.
    Differs,
    /// It could not be read.
    Unknown,
    /// As advised.
    Fine,
    /// Shown without a judgement.
    Shown,
}

/// One piece of advice, as it is written.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Advice {
    id: String,
    /// `group/name` of an environment item; one `*` in the name stands for a device.
    fact: String,
    title: String,
    /// Empty: for every workload.
    #[serde(default)]
    workloads: Vec<String>,
    importance: Importance,
    why: String,
    /// How to change it; empty where nobody can.
    #[serde(default)]
    change: String,
    #[serde(default)]
    unit: String,
    #[serde(default)]
    at_least: Option<Bound>,
    #[serde(default)]
    at_most: Option<Bound>,
    #[serde(default)]
    is: Vec<String>,
    #[serde(default)]
    is_not: Vec<String>,
    /// Which number of the value is compared; the first when left out.
    #[serde(default)]
    pick: Option<Pick>,
    /// Fact that bounds `at_least`: a ring has a largest size.
    #[serde(default)]
    cap: Option<String>,
    /// What it means that the fact is not there; then that is fine.
    #[serde(default)]
    absent: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
enum Bound {
    Number(f64),
    /// The number of another fact.
    Fact(String),
}

#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
enum Pick {
    /// The so-many-th number, from 1.
    At(usize),
    Named(Named),
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Named {
    /// The last number less the first, and one: how many ports a range has.
    Width,
}

#[derive(Deserialize)]
struct File {
    advice: Vec<Advice>,
}

/// A fact of a host held against advice.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Checked {
    /// Name of the advice, for scripts.
    pub id: String,
    /// What it is about.
    pub title: String,
    /// Where the value is from: `group/name` of the environment.
    pub fact: String,
    /// How it stands.
    pub standing: Standing,
    /// The value; `null` when it could not be read.
    pub found: Option<String>,
    /// Why it could not be read, or what its absence means; may be empty.
    pub reason: String,
    /// What is advised; empty when the value is only shown.
    pub advised: String,
    /// Unit of the value; may be empty.
    pub unit: String,
    /// Workloads that it matters to; empty: all.
    pub workloads: Vec<String>,
    /// How much it can matter.
    pub importance: Importance,
    /// Why it matters.
    pub why: String,
    /// How to change it; may be empty.
    pub change: String,
    /// Profiles of `prony tune` that set it.
    pub tune: Vec<String>,
}

fn all() -> &'static [Advice] {
    static ALL: OnceLock<Vec<Advice>> = OnceLock::new();
    ALL.get_or_init(|| {
        let file: File = toml::from_str(ADVICE).expect("a test reads the advice that is built in");
        file.advice
    })
}

/// Holds a host against all advice, or against that for `workload`; what matters most comes first.
pub fn advise(items: &[EnvironmentItem], workload: Option<&str>) -> Vec<Checked> {
    let host = Host { items };
    let concerns = |advice: &&Advice| match workload {
        Some(name) => advice.workloads.is_empty() || advice.workloads.iter().any(|w| w == name),
        None => true,
    };
    let mut checked: Vec<Checked> = all()
        .iter()
        .filter(concerns)
        .flat_map(|advice| host.check(advice))
        .collect();
    checked.sort_by_key(|c| (c.standing, c.importance));
    checked
}

struct Host<'a> {
    items: &'a [EnvironmentItem],
}

impl<'a> Host<'a> {
    fn item(&self, fact: &str) -> Option<&'a EnvironmentItem> {
        let (group, name) = fact.split_once('/')?;
        self.items
            .iter()
            .find(|i| i.group == group && i.name == name)
    }

    /// The facts that the advice is about: one, or one for each device. A fact that nobody has read is none.
    fn check(&self, advice: &Advice) -> Vec<Checked> {
        let Some((before, after)) = advice.fact.split_once('*') else {
            let item = self.item(&advice.fact);
            return item
                .map(|item| self.judge(advice, item, ""))
                .into_iter()
                .collect();
        };
        let device = |item: &EnvironmentItem| {
            let fact = format!("{}/{}", item.group, item.name);
            let rest = fact.strip_prefix(before)?.strip_suffix(after)?;
            Some(rest.to_owned())
        };
        self.items
            .iter()
            .filter_map(|item| Some((item, device(item)?)))
            .map(|(item, device)| self.judge(advice, item, &device))
            .collect()
    }

    fn number(&self, fact: &str, device: &str) -> Option<f64> {
        let value = self.item(&fact.replace('*', device))?.value.as_ref()?;
        numbers(value).first().copied()
    }

    fn judge(&self, advice: &Advice, item: &EnvironmentItem, device: &str) -> Checked {
        let least = advice.at_least.as_ref().and_then(|b| self.bound(b, device));
        let cap = advice.cap.as_ref().and_then(|cap| self.number(cap, device));
        let least = least.map(|least| cap.map_or(least, |cap| least.min(cap)));
        let most = advice.at_most.as_ref().and_then(|b| self.bound(b, device));
        let reason = item.reason.clone().unwrap_or_default();
        let is_absent = reason.contains("No such file") || reason.contains("not found");
        let (standing, reason) = match (&item.value, &advice.absent) {
            (None, Some(meaning)) if is_absent => (Standing::Fine, meaning.clone()),
            (None, _) => (Standing::Unknown, reason),
            (Some(value), _) => (standing(advice, value, least, most), String::new()),
        };
        let title = match device {
            "" => advice.title.clone(),
            device => format!("{} of {device}", advice.title),
        };
        Checked {
            id: advice.id.clone(),
            title,
            fact: format!("{}/{}", item.group, item.name),
            standing,
            found: item.value.clone(),
            reason,
            advised: advised(advice, least, most),
            unit: advice.unit.clone(),
            workloads: advice.workloads.clone(),
            importance: advice.importance,
            why: advice.why.clone(),
            change: advice.change.replace('*', device),
            tune: setting_profiles(&advice.fact),
        }
    }

    fn bound(&self, bound: &Bound, device: &str) -> Option<f64> {
        match bound {
            Bound::Number(number) => Some(*number),
            Bound::Fact(fact) => self.number(fact, device),
        }
    }
}

/// All numbers in a text, in order; `unlimited` is one.
fn numbers(text: &str) -> Vec<f64> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '.';
    text.split(|c| !is_part(c))
        .filter_map(|word| match word {
            "unlimited" => Some(f64::INFINITY),
            _ => word.parse::<f64>().ok().filter(|n| n.is_finite()),
        })
        .collect()
}

fn picked(advice: &Advice, value: &str) -> Option<f64> {
    let numbers = numbers(value);
    match &advice.pick {
        None => numbers.first().copied(),
        Some(Pick::At(at)) => numbers.get(at.checked_sub(1)?).copied(),
        Some(Pick::Named(Named::Width)) => Some(numbers.last()? - numbers.first()? + 1.0),
    }
}

fn standing(advice: &Advice, value: &str, least: Option<f64>, most: Option<f64>) -> Standing {
    let has_bound = advice.at_least.is_some() || advice.at_most.is_some();
    if !has_bound && advice.is.is_empty() && advice.is_not.is_empty() {
        return Standing::Shown;
    }
    let begins = |with: &String| value == with || value.starts_with(&format!("{with} "));
    if !advice.is.is_empty() && !advice.is.iter().any(begins) {
        return Standing::Differs;
    }
    if advice
        .is_not
        .iter()
        .any(|is_not| value.contains(is_not.as_str()))
    {
        return Standing::Differs;
    }
    if has_bound {
        let Some(number) = picked(advice, value) else {
            return Standing::Shown;
        };
        let is_low = least.is_some_and(|least| number < least);
        let is_high = most.is_some_and(|most| number > most);
        if is_low || is_high {
            return Standing::Differs;
        }
        if least.is_none() && most.is_none() {
            return Standing::Shown;
        }
    }
    Standing::Fine
}

fn advised(advice: &Advice, least: Option<f64>, most: Option<f64>) -> String {
    let mut parts: Vec<String> = Vec::new();
    let of = match &advice.pick {
        Some(Pick::At(at)) if *at > 1 => format!(" as number {at}"),
        Some(Pick::Named(Named::Width)) => " ports".to_owned(),
        _ => String::new(),
    };
    parts.extend(least.map(|n| format!("at least {n}{of}")));
    parts.extend(most.map(|n| format!("at most {n}{of}")));
    if !advice.is.is_empty() {
        parts.push(advice.is.join(" or "));
    }
    parts.extend(advice.is_not.iter().map(|not| format!("not {not}")));
    parts.join(", ")
}

/// The profiles that set what a fact shows.
fn setting_profiles(fact: &str) -> Vec<String> {
    let is_it = |knob: &Knob| match knob {
        Knob::Sysctl(name) => fact.strip_prefix("sysctl/") == Some(name),
        Knob::Nic { figure, .. } => fact.strip_prefix("nic/*.") == Some(figure),
        Knob::Irq { .. } => fact == "nic/*.irq_cpus",
        Knob::File(path) => {
            fact == "cpu/governor" && path.ends_with("/scaling_governor")
                || fact
                    .strip_prefix("memory/transparent_hugepage.")
                    .is_some_and(|last| path.ends_with(&format!("transparent_hugepage/{last}")))
        }
    };
    let sets = |p: &&plan::tuning::Profile| p.set.iter().any(|s| is_it(&s.knob));
    profiles()
        .iter()
        .filter(sets)
        .map(|p| p.name.clone())
        .collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

    use super::*;
    use std::collections::BTreeSet;

    fn item(fact: &str, value: Result<&str, &str>) -> EnvironmentItem {
        let (group, name) = fact.split_once('/').unwrap();
        EnvironmentItem {
            group: group.to_owned(),
            name: name.to_owned(),
            value: value.ok().map(str::to_owned),
            reason: value.err().map(str::to_owned),
        }
    }

    fn one(fact: &str, value: Result<&str, &str>) -> Option<Checked> {
        advise(&[item(fact, value)], None).into_iter().next()
    }

    #[test]
    fn the_advice_is_whole() {
        let ids: BTreeSet<_> = all().iter().map(|a| &a.id).collect();
        assert_eq!(ids.len(), all().len(), "every id once");
        for advice in all() {
            assert!(advice.fact.contains('/'), "{}", advice.id);
            assert!(advice.why.ends_with('.'), "{}", advice.id);
            for workload in &advice.workloads {
                assert!(
                    WORKLOADS.contains(&workload.as_str()),
                    "{}: {workload}",
                    advice.id
                );
            }
            let judges = advice.at_least.is_some()
                || advice.at_most.is_some()
                || !advice.is.is_empty()
                || !advice.is_not.is_empty();
            assert!(advice.importance != Importance::High || judges || advice.change.is_empty());
        }
    }

    #[test]
    fn values_against_advice() {
        for (fact, value, expected) in [
            ("sysctl/net.core.somaxconn", "128", Standing::Differs),
            ("sysctl/net.core.somaxconn", "65535", Standing::Fine),
            (
                "sysctl/net.ipv4.ip_local_port_range",
                "32768 60999",
                Standing::Differs,
            ),
            (
                "sysctl/net.ipv4.ip_local_port_range",
                "1024 65535",
                Standing::Fine,
            ),
            (
                "sysctl/net.ipv4.tcp_rmem",
                "4096 131072 4194304",
                Standing::Differs,
            ),
            (
                "sysctl/net.ipv4.tcp_rmem",
                "4096 131072 33554432",
                Standing::Fine,
            ),
            (
                "limit/open_files",
                "soft 1024, hard 1048576",
                Standing::Differs,
            ),
            (
                "limit/open_files",
                "soft unlimited, hard unlimited",
                Standing::Fine,
            ),
            ("cpu/governor", "powersave", Standing::Differs),
            (
                "cpu/governor",
                "performance (CPU 0); powersave (CPU 1)",
                Standing::Differs,
            ),
            ("cpu/governor", "performance", Standing::Fine),
            ("cgroup/cpu_quota_cpus", "2.00", Standing::Differs),
            ("cgroup/cpu_quota_cpus", "unlimited", Standing::Fine),
            ("now/steal_percent", "7.5", Standing::Differs),
        ] {
            let checked = one(fact, Ok(value)).unwrap();
            assert_eq!(checked.standing, expected, "{fact} = {value}: {checked:?}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_unknown_and_absence_may_be_an_answer() {
        let unknown = one("sysctl/net.core.somaxconn", Err("Permission denied")).unwrap();
        assert_eq!(unknown.standing, Standing::Unknown);
        assert_eq!(unknown.reason, "Permission denied");
        let why = "reading `/proc/sys/net/netfilter/nf_conntrack_max`: No such file or directory";
        let absent = one("sysctl/net.netfilter.nf_conntrack_max", Err(why)).unwrap();
        assert_eq!(absent.standing, Standing::Fine);
        assert!(absent.reason.contains("not tracked"), "{absent:?}");
        assert!(advise(&[], None).is_empty());
    }

    #[test]
    fn devices_are_judged_one_by_one_within_what_their_driver_can() {
        let items = [
            item("nic/eth0.ring.rx", Ok("256")),
            item("nic/eth0.ring.rx_max", Ok("8192")),
            item("nic/eth1.ring.rx", Ok("512")),
            item("nic/eth1.ring.rx_max", Ok("512")),
        ];
        let rings: Vec<_> = advise(&items, None)
            .into_iter()
            .filter(|c| c.id == "ring_rx")
            .collect();
        let found: Vec<_> = rings
            .iter()
            .map(|c| (c.title.as_str(), c.standing))
            .collect();
        assert_eq!(
            found,
            [
                ("Receive ring of eth0", Standing::Differs),
                ("Receive ring of eth1", Standing::Fine)
            ]
        );
        assert!(
            rings[0].change.contains("ethtool -G eth0"),
            "{}",
            rings[0].change
        );
        assert!(rings[0].tune.contains(&"throughput".to_owned()));
    }

    #[test]
    fn a_workload_sees_its_own_advice_and_that_for_all() {
        let items = [
            item("sysctl/net.core.somaxconn", Ok("128")),
            item("nic/eth0.coalesce.rx_usecs", Ok("400")),
            item("limit/open_files", Ok("soft 1024, hard 1024")),
        ];
        let ids = |workload| -> Vec<String> {
            advise(&items, Some(workload))
                .into_iter()
                .map(|c| c.id)
                .collect()
        };
        assert_eq!(ids("latency"), ["open_files", "coalesce_rx_usecs"]);
        assert_eq!(ids("connection-per-request"), ["somaxconn", "open_files"]);
    }
}
