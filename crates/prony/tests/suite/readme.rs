//! Runs what the README tells its reader to type, and compares what it shows with what really comes.
//!
//! Figures change from machine to machine, so the rows are compared by their names. The surprise: a command that
//! this test does not know fails it; nothing is in the README untried.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use crate::common::{Finished, Origin, finish, prony};
use std::path::{Path, PathBuf};

/// The address that the README uses, replaced by a free one here.
const ADDRESS: &str = "http://127.0.0.1:8080";
/// The length of its loads, shortened here.
const LENGTH: (&str, &str) = ("3s", "300ms");

/// The row that only a load has that lasts until the server is seen to be full.
const WHILE_FULL: &str = "pauses";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn readme() -> String {
    std::fs::read_to_string(root().join("README.md")).expect("the README lies in the root")
}

/// Lines of the code blocks that start with `prony `, as words without the first.
fn commands(readme: &str) -> Vec<Vec<&str>> {
    let blocks = readme.split("```").skip(1).step_by(2);
    let lines = blocks.flat_map(|block| block.lines().skip(1));
    lines
        .filter_map(|line| line.strip_prefix("prony "))
        .map(|line| line.trim_end_matches('&').split_whitespace().collect())
        .collect()
}

/// The words of the README's command that starts with `verb`.
fn command<'a>(readme: &'a str, verb: &str) -> Vec<&'a str> {
    let all = commands(readme);
    let found = all.into_iter().find(|words| words[0] == verb);
    found.unwrap_or_else(|| panic!("the README has no `prony {verb}`"))
}

/// Names of the rows of a text: what stands at the start of a line before two spaces.
fn row_names(text: &str) -> Vec<&str> {
    text.lines()
        .filter(|line| !line.starts_with(' '))
        .filter_map(|line| line.split_once("  "))
        .map(|(name, _)| name)
        .collect()
}

/// What the README shows between the marks `name`.
fn shown<'a>(readme: &'a str, name: &str) -> &'a str {
    let (open, close) = (format!("<!-- {name} -->"), format!("<!-- /{name} -->"));
    let behind = readme
        .split_once(&open)
        .unwrap_or_else(|| panic!("no {open}"))
        .1;
    behind
        .split_once(&close)
        .unwrap_or_else(|| panic!("no {close}"))
        .0
}

fn run_load(state: &Path, readme: &str) -> Finished {
    let flags: Vec<&str> = command(readme, "origin").into_iter().skip(1).collect();
    let listen = flags.iter().position(|flag| *flag == "--listen");
    let listen = listen.expect("the README says where the origin listens");
    let more: Vec<&str> = [&flags[..listen], &flags[listen + 2..]].concat();
    let origin = Origin::start(state, &more);
    let words = command(readme, "load");
    let words = words.iter().map(|word| match *word {
        word if word == LENGTH.0 => LENGTH.1.to_owned(),
        word => word.replace(ADDRESS, &origin.url),
    });
    finish(prony(state).args(words))
}

#[test]
fn every_command_is_one_that_is_tried_here() {
    let readme = readme();
    let verbs: Vec<&str> = commands(&readme).iter().map(|words| words[0]).collect();
    assert_eq!(
        verbs,
        ["origin", "load", "diagnose", "run", "compare", "import"]
    );
}

#[test]
fn the_first_load_gives_what_the_readme_shows() {
    let state = tempfile::tempdir().unwrap();
    let readme = readme();
    let done = run_load(state.path(), &readme);
    // 3: on this machine the generator may be the limit. Anything else is a command that does not work.
    assert!(
        matches!(done.code, Some(0 | 3)),
        "{:?}: {}",
        done.code,
        done.stderr
    );
    let real = row_names(&done.stdout);
    let shown = row_names(shown(&readme, "output:load"));
    assert!(
        shown.contains(&"response time"),
        "the README shows no load: {shown:?}"
    );
    let is_stale = |name: &&&str| !real.contains(*name) && **name != WHILE_FULL;
    let stale: Vec<_> = shown.iter().filter(is_stale).collect();
    assert!(
        stale.is_empty(),
        "{stale:?} is not in the output:\n{}",
        done.stdout
    );
}

/// The heads of a diagnosis' sections that every one has.
const SECTIONS: [&str; 3] = ["limit:", "unexplained:", "probes:"];

#[test]
fn a_diagnosis_has_the_sections_that_the_readme_shows() {
    let state = tempfile::tempdir().unwrap();
    let origin = Origin::start(state.path(), &[]);
    let readme = readme();
    let words = command(&readme, "diagnose");
    let words = words.iter().map(|word| match *word {
        word if word.starts_with("http://") => origin.url.clone(),
        word => word.to_owned(),
    });
    // A proof takes most of a minute, and an origin has no configuration to change.
    let words = words.filter(|word| word != "--prove");
    let done = finish(prony(state.path()).args(words).args(["-d", LENGTH.1]));
    assert!(
        matches!(done.code, Some(0 | 3)),
        "{:?}: {}",
        done.code,
        done.stderr
    );
    for (place, text) in [
        ("the README", shown(&readme, "output:diagnose")),
        ("the output", done.stdout.as_str()),
    ] {
        for section in SECTIONS {
            let is_there = text.lines().any(|line| line.starts_with(section));
            assert!(is_there, "`{section}` is not in {place}:\n{text}");
        }
    }
}

#[test]
fn the_experiment_is_one_that_can_run() {
    let state = tempfile::tempdir().unwrap();
    let out = state.path().join("out");
    let readme = readme();
    let mut words = command(&readme, "run");
    let place = words.iter().position(|word| *word == "--out").unwrap() + 1;
    words[place] = out.to_str().unwrap();
    let done = finish(
        prony(state.path())
            .current_dir(root())
            .args(words)
            .arg("--dry-run"),
    );
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    assert!(!out.exists(), "a dry run wrote `{}`", out.display());
}

#[test]
fn results_of_other_tools_are_imported_and_compared_as_shown() {
    let dir = tempfile::tempdir().unwrap();
    let tools = root().join("crates/import/tests/tools");
    std::fs::copy(tools.join("study.md"), dir.path().join("study.md")).unwrap();
    std::fs::copy(tools.join("wrk.txt"), dir.path().join("wrk.txt")).unwrap();
    let run = |words: &[&str]| finish(prony(dir.path()).current_dir(dir.path()).args(words));
    let readme = readme();
    let imported = run(&command(&readme, "import"));
    assert_eq!(imported.code, Some(0), "{}", imported.stderr);
    assert!(dir.path().join("study/manifest.json").exists());
    for name in ["before", "after"] {
        let made = run(&["import", "wrk", "wrk.txt", "--out", name]);
        assert_eq!(made.code, Some(0), "{}", made.stderr);
    }
    let compared = run(&command(&readme, "compare"));
    assert!(
        compared.stdout.contains("rate_per_s"),
        "{:?}: {}{}",
        compared.code,
        compared.stdout,
        compared.stderr
    );
}
