//! `[onload.NAME]`: profiles of Onload, a TCP stack in user space that stands before a server as a wrapper.
//!
//! A profile is a list of `EF_` settings; it is laid out as `NAME.opf` beside the configuration of every target whose
//! wrapper names that file, with the levels of a cell filled in. The surprise: Onload takes any name and value and
//! goes on without a word, so a profile that makes no sense measures something else; hence the checks here.

use crate::error::{Fault, Found};
use crate::near_miss::near_miss;
use crate::node::{Entry, Field};
use crate::{FileContent, Levels, TargetSpec, template};
use record::Warning;
use std::collections::BTreeMap;

/// Key that names the profile which this one starts from.
const LIKE: &str = "like";
/// Ending of a profile's file.
const ENDING: &str = ".opf";

/// What a setting may be.
#[derive(Clone, Copy, Debug)]
enum Kind {
    /// 0 or 1.
    Switch,
    /// A whole number within these bounds.
    Number(u64, u64),
    /// Words of its own.
    Text,
}

const ANY: Kind = Kind::Number(0, u64::MAX);

/// Settings whose meaning is known, with what they may be: those of the studies' profiles and their neighbours
/// (Onload's user guide SF-104474-CD, appendix "Parameter Reference").
const KNOWN: [(&str, Kind); 47] = [
    ("EF_ACCEPTQ_MIN_BACKLOG", ANY),
    ("EF_ACK_REDUCTION", Kind::Switch),
    ("EF_CLUSTER_IGNORE", Kind::Switch),
    ("EF_CLUSTER_NAME", Kind::Text),
    ("EF_CLUSTER_RESTART", Kind::Switch),
    ("EF_CLUSTER_SIZE", Kind::Number(1, 4_096)),
    ("EF_CTPIO", Kind::Switch),
    ("EF_DYNAMIC_ACK_THRESH", Kind::Number(0, 65_535)),
    ("EF_EPOLL_MT_SAFE", Kind::Switch),
    ("EF_EPOLL_SPIN", Kind::Switch),
    ("EF_FDTABLE_SIZE", ANY),
    ("EF_HIGH_THROUGHPUT_MODE", Kind::Switch),
    ("EF_INT_DRIVEN", Kind::Switch),
    ("EF_LOAD_ENV", Kind::Switch),
    ("EF_LOG_VIA_IOCTL", Kind::Switch),
    ("EF_MAX_ENDPOINTS", Kind::Number(4, u64::MAX)),
    ("EF_MAX_PACKETS", Kind::Number(1_024, u64::MAX)),
    ("EF_MIN_FREE_PACKETS", ANY),
    ("EF_NO_FAIL", Kind::Switch),
    ("EF_PACKET_BUFFER_MODE", Kind::Number(0, 3)),
    ("EF_PIO", Kind::Number(0, 3)),
    ("EF_POLL_USEC", ANY),
    ("EF_PREFAULT_PACKETS", ANY),
    ("EF_RXQ_SIZE", Kind::Number(512, 4_096)),
    ("EF_SCALABLE_FILTERS", Kind::Text),
    ("EF_SCALABLE_FILTERS_ENABLE", Kind::Number(0, 2)),
    ("EF_SCALABLE_FILTERS_MODE", Kind::Text),
    ("EF_SLEEP_SPIN_USEC", ANY),
    ("EF_SOCKET_CACHE_MAX", ANY),
    ("EF_SPIN_USEC", ANY),
    ("EF_TAIL_DROP_PROBE", Kind::Switch),
    ("EF_TCP_BACKLOG_MAX", ANY),
    ("EF_TCP_FIN_TIMEOUT", ANY),
    ("EF_TCP_INITIAL_CWND", ANY),
    ("EF_TCP_RCVBUF_MODE", Kind::Number(0, 1)),
    ("EF_TCP_SHARED_LOCAL_PORTS", ANY),
    ("EF_TCP_SHARED_LOCAL_PORTS_MAX", ANY),
    ("EF_TCP_SHARED_LOCAL_PORTS_NO_FALLBACK", Kind::Switch),
    ("EF_TCP_SHARED_LOCAL_PORTS_PER_IP", Kind::Switch),
    ("EF_TCP_SHARED_LOCAL_PORTS_REUSE_FAST", Kind::Switch),
    ("EF_TCP_SYNRECV_MAX", ANY),
    ("EF_TCP_TCONST_MSL", ANY),
    ("EF_TXQ_SIZE", Kind::Number(512, 4_096)),
    ("EF_TX_PUSH", Kind::Switch),
    ("EF_UDP", Kind::Switch),
    ("EF_UL_EPOLL", Kind::Number(0, 3)),
    ("EF_USE_HUGE_PAGES", Kind::Number(0, 2)),
];

/// A profile as the file gives it.
#[derive(Clone, Debug)]
pub(crate) struct Profile {
    name: String,
    /// Where it stands in the file.
    at: usize,
    /// Settings in order, each with its place; a later one of a name replaces an earlier one.
    settings: Vec<(usize, String, String)>,
}

/// Reads `[onload]`: the profiles in order. One starts from another that stands before it.
///
/// # Errors
/// What is no `EF_` setting, and a `like` that names no earlier profile.
pub(crate) fn read(field: Field<'_>) -> Result<Vec<Profile>, Found> {
    let mut profiles: Vec<Profile> = Vec::new();
    for entry in field.table()? {
        let profile = profile(entry, &profiles)?;
        profiles.push(profile);
    }
    Ok(profiles)
}

fn profile(entry: &Entry, earlier: &[Profile]) -> Result<Profile, Found> {
    let mut settings: Vec<(usize, String, String)> = Vec::new();
    for f in entry.field().table()?.iter().map(Entry::field) {
        if f.name == LIKE {
            let name = f.text()?;
            let found = earlier.iter().find(|p| p.name == name);
            let found = found.ok_or_else(|| {
                let known = earlier.iter().map(|p| p.name.as_str());
                crate::error::unknown(f.node.at, "profile", name, "`like`", known)
            })?;
            settings.splice(0..0, found.settings.clone());
            continue;
        }
        if !f.name.starts_with("EF_") {
            let fault = Fault::UnknownName {
                kind: "setting",
                name: f.name.to_owned(),
                inside: format!("[onload.{}]", entry.name),
                near: near_miss(f.name, KNOWN.iter().map(|(name, _)| *name)),
                known: vec![LIKE.to_owned(), "EF_...".to_owned()],
            };
            return Err(Found::at(f.name_at, fault));
        }
        settings.retain(|(_, name, _)| name != f.name);
        settings.push((f.node.at, f.name.to_owned(), f.plain()?));
    }
    Ok(Profile {
        name: entry.name.clone(),
        at: entry.at,
        settings,
    })
}

impl Profile {
    fn file(&self) -> String {
        format!("{}{ENDING}", self.name)
    }

    /// A word of the target's wrapper names the profile's file.
    fn is_used_by(&self, target: &TargetSpec) -> bool {
        let file = self.file();
        let ends_so = |word: &str| word == file || word.ends_with(&format!("/{file}"));
        let words = target.wrap.iter().flat_map(|w| w.split_whitespace());
        words.into_iter().any(ends_so)
    }

    /// The settings with the levels of a cell filled in.
    fn filled_in(&self, values: &Levels) -> Result<Vec<(String, String)>, Found> {
        let filled = |(at, name, text): &(usize, String, String)| {
            let value = template::render("value", text, values).map_err(|e| {
                let cause = e.cause();
                Found::at(*at, Fault::Template { cause })
            })?;
            Ok((name.clone(), value))
        };
        self.settings.iter().map(filled).collect()
    }
}

/// Lays the profiles that a cell's target uses beside its configuration; what makes no sense in them is a warning.
///
/// # Errors
/// A setting that names something other than a factor or a value of the target.
pub(crate) fn lay_out(
    profiles: &[Profile],
    target: &mut TargetSpec,
    warnings: &mut Vec<Warning>,
) -> Result<(), Found> {
    let used: Vec<&Profile> = profiles.iter().filter(|p| p.is_used_by(target)).collect();
    for profile in used {
        let settings = profile.filled_in(&target.values)?;
        for seen in nonsense(&settings, target) {
            let warning = Warning::new(
                "onload_profile",
                format!("Onload profile `{}`: {seen}", profile.name),
                format!("change [onload.{}]", profile.name),
            );
            if !warnings.contains(&warning) {
                warnings.push(warning);
            }
        }
        let lines = settings
            .iter()
            .map(|(name, value)| format!("onload_set {name} {}\n", quoted(value)));
        let text: String = lines.collect();
        target.files.insert(profile.file(), FileContent::Text(text));
    }
    Ok(())
}

/// A profile that no target's wrapper names is a mistake, usually in the wrapper.
pub(crate) fn check_used(profiles: &[Profile], targets: &[&TargetSpec]) -> Result<(), Found> {
    let unused = profiles
        .iter()
        .find(|p| targets.iter().all(|t| !p.is_used_by(t)));
    unused.map_or(Ok(()), |profile| {
        let fault = Fault::Name {
            kind: "profile",
            name: profile.name.clone(),
            why: format!("no target's `wrap` names {}", profile.file()),
        };
        Err(Found::at(profile.at, fault))
    })
}

/// A profile is read by a shell.
fn quoted(value: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    match !value.is_empty() && value.chars().all(is_plain) {
        true => value.to_owned(),
        false => format!("'{}'", value.replace('\'', "'\\''")),
    }
}

/// What contradicts itself or Onload's own bounds, one sentence each.
fn nonsense(settings: &[(String, String)], target: &TargetSpec) -> Vec<String> {
    let mut seen: Vec<String> = settings
        .iter()
        .filter_map(|(n, v)| out_of_bounds(n, v))
        .collect();
    let values: BTreeMap<&str, &str> = settings
        .iter()
        .map(|(n, v)| (n.as_str(), v.as_str()))
        .collect();
    let number = |name: &str| values.get(name)?.parse::<u64>().ok();
    let mut add = |holds: bool, why: &str| {
        if holds {
            seen.push(why.to_owned());
        }
    };
    let spins = number("EF_POLL_USEC")
        .or(number("EF_SPIN_USEC"))
        .unwrap_or(0)
        > 0;
    add(
        !spins && number("EF_SLEEP_SPIN_USEC").is_some_and(|us| us > 0),
        "EF_SLEEP_SPIN_USEC says how long to sleep between polls, but EF_POLL_USEC is 0: nothing polls",
    );
    add(
        !spins && number("EF_EPOLL_SPIN") == Some(1),
        "EF_EPOLL_SPIN is 1, but EF_POLL_USEC is 0: epoll_wait does not spin",
    );
    add(
        spins && number("EF_INT_DRIVEN") == Some(1),
        "EF_INT_DRIVEN waits for interrupts and EF_POLL_USEC polls: one of them has no effect",
    );
    let more = |less: &str, than: &str| matches!((number(less), number(than)), (Some(a), Some(b)) if a > b);
    add(
        more("EF_MIN_FREE_PACKETS", "EF_MAX_PACKETS"),
        "EF_MIN_FREE_PACKETS is more than EF_MAX_PACKETS: the stack never starts",
    );
    add(
        more("EF_TCP_SHARED_LOCAL_PORTS", "EF_TCP_SHARED_LOCAL_PORTS_MAX"),
        "EF_TCP_SHARED_LOCAL_PORTS is more than EF_TCP_SHARED_LOCAL_PORTS_MAX",
    );
    add(
        more("EF_SOCKET_CACHE_MAX", "EF_MAX_ENDPOINTS"),
        "EF_SOCKET_CACHE_MAX is more than EF_MAX_ENDPOINTS: the cache cannot fill",
    );
    let in_cluster =
        number("EF_CLUSTER_IGNORE") != Some(1) && values.contains_key("EF_CLUSTER_SIZE");
    let workers = target
        .values
        .get("workers")
        .and_then(|w| w.parse::<u64>().ok());
    if let (true, Some(size), Some(workers)) = (in_cluster, number("EF_CLUSTER_SIZE"), workers)
        && size != workers
    {
        seen.push(format!(
            "EF_CLUSTER_SIZE is {size} and the server has {workers} workers: what has no worker of its own is not served"
        ));
    }
    seen
}

fn out_of_bounds(name: &str, value: &str) -> Option<String> {
    let Some((_, kind)) = KNOWN.iter().find(|(known, _)| *known == name) else {
        let near = near_miss(name, KNOWN.iter().map(|(known, _)| *known));
        let near = near.map_or_else(String::new, |n| format!("; did you mean {n}?"));
        return Some(format!("{name} is not a setting that prony knows{near}"));
    };
    let number = value.parse::<u64>();
    match (kind, number) {
        (Kind::Text, _) | (Kind::Switch, Ok(0 | 1)) => None,
        (Kind::Number(least, most), Ok(n)) if (*least..=*most).contains(&n) => None,
        (Kind::Switch, _) => Some(format!("{name} is `{value}`, but is 0 or 1")),
        (Kind::Number(least, u64::MAX), _) => Some(format!(
            "{name} is `{value}`, but is a number of at least {least}"
        )),
        (Kind::Number(least, most), _) => Some(format!(
            "{name} is `{value}`, but is a number from {least} to {most}"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Plan;
    use crate::node::parse;

    fn profiles(text: &str) -> Result<Vec<Profile>, Found> {
        read(parse(text).unwrap()[0].field())
    }

    fn blank() -> TargetSpec {
        let text =
            "question = 'q'\n[target.proxy]\nadapter = 'nginx'\n[load]\nurl = 'http://proxy/'\n";
        let plan = Plan::parse(text, "x.toml", &|_| Err(String::new())).unwrap();
        plan.trials[0].targets[0].clone()
    }

    fn laid_out(text: &str, workers: &str) -> (TargetSpec, Vec<Warning>) {
        let mut target = blank();
        target.wrap = vec!["onload -p {{root}}/fast.opf".into()];
        target.values.insert("workers".into(), workers.into());
        let mut warnings = Vec::new();
        lay_out(&profiles(text).unwrap(), &mut target, &mut warnings).unwrap();
        (target, warnings)
    }

    #[test]
    fn a_profile_is_laid_out_where_a_wrapper_names_it() {
        let text = "[onload.base]\nEF_POLL_USEC = 100000\nEF_TX_PUSH = 0\nEF_SCALABLE_FILTERS = 'any=rss:active'\n\
                    [onload.fast]\nlike = 'base'\nEF_TX_PUSH = 1\nEF_CLUSTER_SIZE = '{{workers}}'\n";
        let (target, warnings) = laid_out(text, "16");
        let FileContent::Text(file) = &target.files["fast.opf"] else {
            panic!("a text");
        };
        assert_eq!(
            file,
            "onload_set EF_POLL_USEC 100000\nonload_set EF_SCALABLE_FILTERS 'any=rss:active'\n\
             onload_set EF_TX_PUSH 1\nonload_set EF_CLUSTER_SIZE 16\n"
        );
        assert_eq!((target.files.len(), warnings), (1, vec![]));
    }

    #[test]
    fn what_makes_no_sense_is_said() {
        for (settings, want) in [
            (
                "EF_POLL_USEC = 0\nEF_EPOLL_SPIN = 1",
                "epoll_wait does not spin",
            ),
            ("EF_SLEEP_SPIN_USEC = 50", "nothing polls"),
            ("EF_TX_PUSH = 2", "EF_TX_PUSH is `2`, but is 0 or 1"),
            ("EF_UL_EPOLL = 9", "a number from 0 to 3"),
            ("EF_MAX_PACKETS = 'many'", "a number of at least 1024"),
            ("EF_PUSH_TX = 1", "not a setting that prony knows"),
            ("EF_POLL_USECS = 1", "did you mean EF_POLL_USEC?"),
            (
                "EF_MAX_PACKETS = 2000\nEF_MIN_FREE_PACKETS = 3000",
                "never starts",
            ),
            (
                "EF_CLUSTER_SIZE = 12",
                "EF_CLUSTER_SIZE is 12 and the server has 16 workers",
            ),
            (
                "EF_TCP_SHARED_LOCAL_PORTS = 2\nEF_TCP_SHARED_LOCAL_PORTS_MAX = 1",
                "more than EF_TCP_SHARED_LOCAL_PORTS_MAX",
            ),
        ] {
            let (_, warnings) = laid_out(&format!("[onload.fast]\n{settings}\n"), "16");
            assert!(
                warnings.iter().any(|w| w.seen.contains(want)),
                "{settings}: {warnings:?}"
            );
        }
    }

    #[test]
    fn what_is_no_profile_is_refused() {
        for text in [
            "[onload.fast]\nPOLL = 1\n",
            "[onload.fast]\nlike = 'balanced'\n",
            "[onload.fast]\nEF_POLL_USEC = [1]\n",
            "[onload]\nfast = 1\n",
        ] {
            assert!(profiles(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_profile_that_nobody_names_is_a_mistake() {
        let all = profiles("[onload.slow]\nEF_POLL_USEC = 1\n").unwrap();
        let mut target = blank();
        assert!(check_used(&all, &[&target]).is_err());
        target.wrap = vec!["onload".into(), "-p".into(), "slow.opf".into()];
        assert!(check_used(&all, &[&target]).is_ok());
    }
}
