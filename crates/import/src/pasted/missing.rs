//! Files that strace shows to be looked for and not to be there: the same path again, one name in many directories.
//!
//! The surprise is that a share of what fails says little: a search that ends with a hit fails as often as its path is
//! long. What comes again is what nobody remembered.

use super::calls::Call;
use super::events::{artefact, told};
use super::pieces::short;
use record::pasted::{Artefact, Row};
use std::collections::{BTreeMap, BTreeSet};

/// Calls that look for a file by its path.
const LOOKS: [&str; 16] = [
    "open",
    "openat",
    "openat2",
    "stat",
    "stat64",
    "lstat",
    "lstat64",
    "newfstatat",
    "fstatat64",
    "statx",
    "access",
    "faccessat",
    "faccessat2",
    "readlink",
    "readlinkat",
    "execve",
];
/// Fewer say nothing.
const FEWEST: f64 = 4.0;
/// That many of those that look find nothing.
const SHARE: f64 = 0.5;
/// A name that is looked for so often, or a path so often again.
const OFTEN: usize = 3;
const AGAIN: f64 = 2.0;

/// What is looked for in vain, by its name.
pub(super) fn read(calls: &[Call<'_>]) -> Option<Artefact> {
    let mut names: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let (mut looks, mut missing) = (0.0, 0.0);
    let mut found = artefact("files that are not there", 0);
    for call in calls.iter().filter(|c| LOOKS.contains(&c.name)) {
        let Some(path) = call.rest.split('"').nth(1).filter(|p| !p.is_empty()) else {
            continue;
        };
        looks += 1.0;
        if !call.rest.contains(" = -1 ENOENT") {
            continue;
        }
        found.begin_at(call.line);
        missing += 1.0;
        let (_, name) = path.rsplit_once('/').unwrap_or(("", path));
        names.entry(name).or_default().push(path);
    }
    let mut again = 0.0;
    for (name, paths) in &names {
        let different: BTreeSet<&str> = paths.iter().copied().collect();
        let repeated = paths.len() - different.len();
        again += repeated as f64;
        if paths.len() < OFTEN && repeated == 0 {
            continue;
        }
        // All of one name in one place are one path.
        let (label, places) = match different.len() {
            1 => (paths[0], String::new()),
            n => (*name, format!(" in {n} directories")),
        };
        found.rows.push(Row {
            label: short(label),
            place: format!("{} times{places}, {repeated} of them again", paths.len()),
            share: paths.len() as f64,
        });
    }
    found.largest_first();
    let most = found.rows.first()?.share;
    for (name, n) in [
        ("rows", found.rows.len() as f64),
        ("looks", looks),
        ("count", missing),
        ("again", again),
    ] {
        found.figures.insert(format!("missing.{name}"), n);
    }
    let often = missing >= FEWEST && missing / looks >= SHARE;
    told(found).filter(|_| often && (most >= OFTEN as f64 || again >= AGAIN))
}

#[cfg(test)]
mod tests {
    use super::super::calls;
    use super::super::events::written;
    use record::pasted::Artefact;

    fn found(text: &str) -> Option<Artefact> {
        let all = calls::read(&text.lines().collect::<Vec<_>>());
        all.into_iter().find(|a| a.value("missing.count").is_some())
    }

    #[test]
    fn a_name_in_many_directories_and_a_path_again_are_told() {
        let call = |path: &str, rest: &str| format!("stat(\"{path}\", {rest} <0.000010>\n");
        let missing = |path: &str| call(path, "0x7ffc) = -1 ENOENT (No such file or directory)");
        let text = missing("/srv/a/.rules")
            + &missing("/srv/a/b/.rules")
            + &missing("/etc/app.local")
            + &missing("/srv/a/.rules")
            + &missing("/etc/app.local")
            + &call("/srv/a", "{...}) = 0");
        let all = found(&text).expect("five of six are not there");
        assert_eq!(
            written(&all),
            [
                ".rules: 3 times in 2 directories, 1 of them again",
                "/etc/app.local: 2 times, 1 of them again"
            ]
        );
        let of = |name: &str| all.value(&format!("missing.{name}"));
        assert_eq!(
            ["looks", "count", "again"].map(of),
            [6.0, 5.0, 2.0].map(Some)
        );
        // A search for different files, and one that mostly finds them.
        let files = ["/a/x", "/a/y", "/a/z", "/b/u"].map(missing).concat();
        assert!(found(&files).is_none());
        let hits = call("/srv/a", "{...}) = 0").repeat(6);
        assert!(found(&(text + &hits)).is_none());
    }
}
