//! Tuning profiles: which settings of the host an experiment or a person wants, as data.
//!
//! In the flow: `[design] tune` puts a [`Profile`] into the plan, `prony tune` takes one by name; `target` reads
//! and sets what it asks for. Nothing here knows the host. The surprise: a profile may ask for what no kernel has
//! any more, because the studies did; [`gone`] knows since when, and what took its place.

use crate::near_miss::{near_miss, suggestion};
use serde::{Deserialize, Serialize};
use std::sync::OnceLock;

/// The profiles that are built in, by the name of their file.
const BUILT_IN: [(&str, &str); 6] = [
    (
        "connection-rate",
        include_str!("tuning/profiles/connection-rate.toml"),
    ),
    (
        "throughput",
        include_str!("tuning/profiles/throughput.toml"),
    ),
    ("latency", include_str!("tuning/profiles/latency.toml")),
    ("study-000", include_str!("tuning/profiles/study-000.toml")),
    ("study-003", include_str!("tuning/profiles/study-003.toml")),
    ("study-004", include_str!("tuning/profiles/study-004.toml")),
];
const GONE: &str = include_str!("tuning/gone.toml");

/// Settings that belong together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// Name; of a file, its path as given.
    #[serde(default)]
    pub name: String,
    /// What it is for, in one sentence.
    pub about: String,
    /// Workloads that it is meant for.
    #[serde(default)]
    pub workloads: Vec<String>,
    /// What it sets, in this order.
    pub set: Vec<Setting>,
    /// What belongs to it and is left to a person, because it could not be undone.
    #[serde(default)]
    pub by_hand: Vec<String>,
}

/// One setting and the value that is wanted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Typed", into = "Typed")]
pub struct Setting {
    /// What is set.
    pub knob: Knob,
    pub wanted: Wanted,
    /// Why, in a sentence.
    pub why: String,
    /// What to beware of; may be empty.
    pub caution: String,
}

/// What can be set on a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Knob {
    /// A sysctl by its name with dots.
    Sysctl(String),
    /// A file below `/sys` or `/proc`; a part of the path may be `*`.
    File(String),
    /// A figure of network devices, as the crate `nic` names it.
    Nic {
        /// The device; `None` is every device with hardware behind it.
        device: Option<String>,
        figure: String,
    },
    /// The CPUs that take the interrupts of network devices.
    Irq {
        /// The device; `None` as above.
        device: Option<String>,
    },
}

/// The value that is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// This text.
    Exactly(String),
    /// Numbers that may be larger already: each is raised by itself.
    AtLeast(Vec<u64>),
    /// So many times the value of another sysctl.
    Times(u64, String),
}

/// A setting as it is written.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Typed {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sysctl: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    file: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    nic: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    irq: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    device: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    value: Option<Scalar>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    at_least: Option<Numbers>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    times: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    of: Option<String>,
    #[serde(default)]
    why: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    caution: String,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(untagged)]
enum Scalar {
    Number(i64),
    Text(String),
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(untagged)]
enum Numbers {
    One(u64),
    Many(Vec<u64>),
}

impl TryFrom<Typed> for Setting {
    type Error = String;

    fn try_from(typed: Typed) -> Result<Self, String> {
        let device = typed.device.clone();
        let is_for_device = typed.nic.is_some() || typed.irq.is_some();
        if device.is_some() && !is_for_device {
            return Err("`device` belongs to `nic` or `irq`".to_owned());
        }
        let (knob, of_irq) = match (typed.sysctl, typed.file, typed.nic, typed.irq) {
            (Some(name), None, None, None) => (Knob::Sysctl(sysctl_name(&name)?), None),
            (None, Some(path), None, None) => (Knob::File(host_path(path)?), None),
            (None, None, Some(figure), None) => (Knob::Nic { device, figure }, None),
            (None, None, None, Some(cpus)) => (Knob::Irq { device }, Some(cpus)),
            _ => return Err("a setting has one of `sysctl`, `file`, `nic` and `irq`".to_owned()),
        };
        let value = typed.value.map(|v| match v {
            Scalar::Number(n) => n.to_string(),
            Scalar::Text(text) => text,
        });
        let at_least = typed.at_least.map(|n| match n {
            Numbers::One(n) => vec![n],
            Numbers::Many(all) => all,
        });
        let wanted = match (value.or(of_irq), at_least, typed.times, typed.of) {
            (Some(text), None, None, None) => Wanted::Exactly(text),
            (None, Some(numbers), None, None) => Wanted::AtLeast(numbers),
            (None, None, Some(n), Some(of)) => Wanted::Times(n, sysctl_name(&of)?),
            _ => {
                return Err(
                    "a setting has one of `value`, `at_least`, and `times` with `of`".into(),
                );
            }
        };
        Ok(Self {
            knob,
            wanted,
            why: typed.why,
            caution: typed.caution,
        })
    }
}

impl From<Setting> for Typed {
    fn from(setting: Setting) -> Self {
        let mut typed = Typed {
            why: setting.why,
            caution: setting.caution,
            ..Typed::default()
        };
        match setting.wanted {
            Wanted::Exactly(text) => typed.value = Some(Scalar::Text(text)),
            Wanted::AtLeast(numbers) => typed.at_least = Some(Numbers::Many(numbers)),
            Wanted::Times(n, of) => (typed.times, typed.of) = (Some(n), Some(of)),
        }
        match setting.knob {
            Knob::Sysctl(name) => typed.sysctl = Some(name),
            Knob::File(path) => typed.file = Some(path),
            Knob::Nic { device, figure } => (typed.device, typed.nic) = (device, Some(figure)),
            Knob::Irq { device } => {
                typed.device = device;
                typed.irq = typed.value.take().map(|v| match v {
                    Scalar::Number(n) => n.to_string(),
                    Scalar::Text(text) => text,
                });
            }
        }
        typed
    }
}

/// A sysctl's name with dots; sysctl(8) takes slashes as well.
fn sysctl_name(name: &str) -> Result<String, String> {
    let name = name.trim().replace('/', ".");
    let is_name = |part: &str| {
        let fits = |c: char| c.is_ascii_alphanumeric() || "_-@:".contains(c);
        !part.is_empty() && part.chars().all(fits)
    };
    if name.split('.').all(is_name) && name.contains('.') {
        Ok(name)
    } else {
        Err(format!("`{name}` is not the name of a sysctl"))
    }
}

/// Only what the kernel offers as a setting is ever written: no file of anybody's.
fn host_path(path: String) -> Result<String, String> {
    let is_host = ["/sys/", "/proc/sys/", "/proc/irq/"]
        .iter()
        .any(|start| path.starts_with(start));
    if !is_host || path.split('/').any(|part| part == "..") {
        return Err(format!(
            "`{path}` is not below /sys, /proc/sys or /proc/irq"
        ));
    }
    Ok(path)
}

impl Knob {
    /// The name that people know: `net.core.somaxconn`, `/sys/...`, `nic ring.rx`.
    pub fn name(&self) -> String {
        let of = |device: &Option<String>| match device {
            Some(device) => format!("{device} "),
            None => String::new(),
        };
        match self {
            Knob::Sysctl(name) => name.clone(),
            Knob::File(path) => path.clone(),
            Knob::Nic { device, figure } => format!("nic {}{figure}", of(device)),
            Knob::Irq { device } => format!("nic {}irq_cpus", of(device)),
        }
    }
}

impl Wanted {
    /// As a person reads it: `4096`, `at least 4096`, `4 x net.netfilter.nf_conntrack_buckets`.
    pub fn words(&self) -> String {
        match self {
            Wanted::Exactly(text) => text.clone(),
            Wanted::AtLeast(numbers) => format!("at least {}", joined(numbers)),
            Wanted::Times(n, of) => format!("{n} x {of}"),
        }
    }

    /// The text to write where `now` stands; `other` gives the value of another sysctl.
    ///
    /// # Errors
    /// Why it cannot be computed.
    pub fn text(
        &self,
        now: &str,
        other: &dyn Fn(&str) -> Option<String>,
    ) -> Result<String, String> {
        match self {
            Wanted::Exactly(text) => Ok(text.clone()),
            Wanted::AtLeast(least) => {
                let numbers: Option<Vec<u64>> =
                    now.split_whitespace().map(|w| w.parse().ok()).collect();
                let numbers = numbers.filter(|n| n.len() == least.len());
                let numbers = numbers
                    .ok_or_else(|| format!("`{now}` is not {} whole number(s)", least.len()))?;
                let raised: Vec<u64> = numbers
                    .iter()
                    .zip(least)
                    .map(|(now, least)| *now.max(least))
                    .collect();
                Ok(joined(&raised))
            }
            Wanted::Times(n, of) => {
                let value = other(of).ok_or_else(|| format!("`{of}` cannot be read"))?;
                let number: u64 = value
                    .trim()
                    .parse()
                    .map_err(|_| format!("`{of}` is no number: {value}"))?;
                Ok(number.saturating_mul(*n).to_string())
            }
        }
    }
}

fn joined(numbers: &[u64]) -> String {
    let words: Vec<String> = numbers.iter().map(u64::to_string).collect();
    words.join(" ")
}

impl Profile {
    /// Reads a profile. `name` is kept as its name.
    ///
    /// # Errors
    /// The parser's words, with the place.
    pub fn parse(name: &str, text: &str) -> Result<Profile, String> {
        let mut profile: Profile = toml::from_str(text).map_err(|e| e.to_string())?;
        name.clone_into(&mut profile.name);
        Ok(profile)
    }
}

/// The profiles that are built in.
pub fn profiles() -> &'static [Profile] {
    static PROFILES: OnceLock<Vec<Profile>> = OnceLock::new();
    PROFILES.get_or_init(|| {
        let parse = |(name, text): &(&str, &str)| {
            Profile::parse(name, text).expect("a test reads every profile that is built in")
        };
        BUILT_IN.iter().map(parse).collect()
    })
}

/// Why there is no such profile.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProfileError {
    /// Nothing has this name.
    #[error("there is no tuning profile `{name}`{}", suggestion(near.as_deref()))]
    Unknown {
        /// As typed.
        name: String,
        /// The known name that it resembles.
        near: Option<String>,
    },
    /// The file cannot be read.
    #[error("reading the tuning profile `{path}`: {cause}")]
    Unreadable {
        /// As typed.
        path: String,
        /// The system's words.
        cause: String,
    },
    /// The file is no profile.
    #[error("`{path}` is not a tuning profile: {cause}")]
    Malformed {
        /// As typed.
        path: String,
        /// The parser's words.
        cause: String,
    },
}

impl ProfileError {
    /// What to do about it; empty when the text says it.
    pub fn remedy(&self) -> String {
        match self {
            ProfileError::Unknown { .. } => {
                let known: Vec<&str> = profiles().iter().map(|p| p.name.as_str()).collect();
                format!(
                    "known profiles: {}; a profile of your own is a file whose name ends in .toml",
                    known.join(", ")
                )
            }
            ProfileError::Unreadable { .. } => "give the path of a profile".to_owned(),
            ProfileError::Malformed { .. } => {
                "a profile has `about` and one [[set]] table for each setting".to_owned()
            }
        }
    }
}

/// The profile with that name, or of that file, which `read` gives.
///
/// # Errors
/// [`ProfileError`].
pub fn profile(
    name: &str,
    read: &dyn Fn(&str) -> Result<String, String>,
) -> Result<Profile, ProfileError> {
    if name.ends_with(".toml") {
        let path = name.to_owned();
        let text = read(name).map_err(|cause| ProfileError::Unreadable {
            path: path.clone(),
            cause,
        })?;
        return Profile::parse(name, &text)
            .map_err(|cause| ProfileError::Malformed { path, cause });
    }
    let known = || profiles().iter();
    let found = known().find(|p| p.name == name).cloned();
    found.ok_or_else(|| ProfileError::Unknown {
        name: name.to_owned(),
        near: near_miss(name, known().map(|p| p.name.as_str())),
    })
}

/// A sysctl that kernels no longer have, or never had.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gone {
    /// Its name.
    pub key: String,
    /// What became of it, and since which kernel.
    pub what: String,
    /// What to set instead; empty when nothing is needed.
    pub instead: String,
}

#[derive(Deserialize)]
struct GoneFile {
    gone: Vec<Gone>,
}

/// What became of a sysctl that this kernel does not have.
pub fn gone(key: &str) -> Option<&'static Gone> {
    static ALL: OnceLock<Vec<Gone>> = OnceLock::new();
    let all = ALL.get_or_init(|| {
        let file: GoneFile = toml::from_str(GONE).expect("a test reads the table of gone sysctls");
        file.gone
    });
    all.iter().find(|g| g.key == key)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

    use super::*;

    fn no_file(_: &str) -> Result<String, String> {
        Err("no file".to_owned())
    }

    #[test]
    fn what_is_built_in_is_whole() {
        assert_eq!(profiles().len(), BUILT_IN.len());
        for profile in profiles() {
            assert!(!profile.set.is_empty(), "{}", profile.name);
            for setting in &profile.set {
                assert!(setting.why.ends_with('.'), "{}: {setting:?}", profile.name);
                if let Knob::Nic { figure, .. } = &setting.knob {
                    assert!(figure.contains('.'), "{figure}");
                }
            }
            let text = serde_json::to_string(profile).unwrap();
            let again: Profile = serde_json::from_str(&text).unwrap();
            assert_eq!(again, *profile, "a plan keeps it whole");
        }
        assert!(
            gone("net.ipv4.tcp_tw_recycle")
                .unwrap()
                .what
                .contains("4.12")
        );
        assert_eq!(gone("net.core.somaxconn"), None);
    }

    #[test]
    fn what_todays_profiles_set_is_not_gone() {
        for profile in profiles().iter().filter(|p| !p.name.starts_with("study")) {
            for setting in &profile.set {
                assert_eq!(gone(&setting.knob.name()), None, "{}", profile.name);
            }
        }
    }

    #[test]
    fn names_and_files() {
        assert_eq!(profile("latency", &no_file).unwrap().name, "latency");
        let Err(ProfileError::Unknown { near, .. }) = profile("conection-rate", &no_file) else {
            panic!("a name that is not there");
        };
        assert_eq!(near.as_deref(), Some("connection-rate"));
        let own = "about = \"x\"\n[[set]]\nsysctl = \"net/core/somaxconn\"\nat_least = 8\n";
        let read = |_: &str| Ok(own.to_owned());
        let own = profile("my.toml", &read).unwrap();
        assert_eq!(own.set[0].knob, Knob::Sysctl("net.core.somaxconn".into()));
        assert_eq!(own.set[0].wanted, Wanted::AtLeast(vec![8]));
        assert!(matches!(
            profile("my.toml", &no_file),
            Err(ProfileError::Unreadable { .. })
        ));
    }

    #[test]
    fn what_is_no_setting_is_refused() {
        for (set, said) in [
            ("file = \"/etc/passwd\"\nvalue = \"x\"", "not below"),
            ("file = \"/sys/../etc/passwd\"\nvalue = 1", "not below"),
            ("sysctl = \"somaxconn\"\nvalue = 1", "not the name"),
            ("sysctl = \"../../x\"\nvalue = 1", "not the name"),
            ("sysctl = \"a.b\"", "one of `value`"),
            (
                "sysctl = \"a.b\"\nvalue = 1\nat_least = 1",
                "one of `value`",
            ),
            (
                "sysctl = \"a.b\"\nnic = \"ring.rx\"\nvalue = 1",
                "one of `sysctl`",
            ),
            ("sysctl = \"a.b\"\ndevice = \"eth0\"\nvalue = 1", "`device`"),
            ("sysctl = \"a.b\"\nvalu = 1", "unknown field"),
        ] {
            let error = Profile::parse("x", &format!("about = \"x\"\n[[set]]\n{set}\n"));
            let text = error.unwrap_err();
            assert!(text.contains(said), "{set}: {text}");
        }
    }

    #[test]
    fn wanted_values() {
        let other = |name: &str| (name == "a.buckets").then(|| "100".to_owned());
        let text = |wanted: Wanted, now: &str| wanted.text(now, &other).ok();
        assert_eq!(text(Wanted::Exactly("7".into()), "9"), Some("7".into()));
        assert_eq!(
            text(Wanted::AtLeast(vec![4096, 10, 30]), "8192\t5\t30"),
            Some("8192 10 30".into())
        );
        assert_eq!(text(Wanted::AtLeast(vec![4]), "1 2"), None);
        assert_eq!(
            text(Wanted::Times(4, "a.buckets".into()), "1"),
            Some("400".into())
        );
        assert_eq!(text(Wanted::Times(4, "a.none".into()), "1"), None);
    }
}
