//! Holds what can be read off the tree itself: the direction of the crates, the crates that touch nothing,
//! who may print, what every file starts with, and that the documents keep up with the code.
//!
//! It stands beside the flow: nothing here runs prony. `tree` reads files, `rules` has one function a rule
//! with its canary, and the tests below apply the rules to everything. The surprise: the table of crates in
//! ARCHITECTURE.md is not a copy of the rule, it *is* the rule.

mod quotes;
mod rules;
mod tree;

use rules::*;
use tree::{crate_of, document, hold, root, table, tree};

#[test]
fn crates_depend_in_one_direction() {
    let allowed = allowed_dependencies(&document("ARCHITECTURE.md"));
    assert!(
        allowed.len() > PURE.len(),
        "the table was not found: {allowed:?}"
    );
    hold(&["Cargo.toml"], |path, text| {
        direction(&allowed, path, text)
    });
}

#[test]
fn codec_and_histogram_have_one_owner() {
    hold(&["Cargo.toml"], sole_users);
    hold(&[".rs"], sole_owners);
}

#[test]
fn pure_crates_open_no_file_socket_or_clock() {
    hold(&[".rs"], purity);
}

#[test]
fn only_the_prony_crate_prints() {
    hold(&[".rs"], printing);
}

#[test]
fn every_file_says_what_it_is() {
    hold(&[".rs"], header);
}

#[test]
fn public_items_say_what_they_are() {
    hold(&[".rs"], |path, text| match path.contains("/src/") {
        true => documented(path, text),
        false => Vec::new(),
    });
}

#[test]
fn nothing_is_left_unfinished() {
    hold(&[".rs", ".py", ".sh", ".toml", "Makefile"], leftovers);
}

#[test]
fn no_path_of_one_machine() {
    hold(
        &[
            ".rs", ".py", ".sh", ".toml", ".md", ".conf", ".html", "Makefile", "run",
        ],
        machine_paths,
    );
}

#[test]
fn comments_fit_a_screen() {
    hold(&[".rs", ".py", ".sh"], long_comments);
}

#[test]
fn every_dependency_has_its_reason() {
    hold(&["Cargo.toml"], reasons);
}

#[test]
fn the_crates_are_documented() {
    let names: Vec<String> = tree(&["Cargo.toml"])
        .iter()
        .filter_map(|(path, _)| crate_of(path).map(str::to_owned))
        .collect();
    for name in ["ARCHITECTURE.md", "CONTRIBUTING.md"] {
        let missing = undocumented(&document(name), names.clone());
        assert!(
            missing.is_empty(),
            "{name} does not name the crates {missing:?}"
        );
    }
}

#[test]
fn invariants_name_tests_that_exist() {
    let architecture = document("ARCHITECTURE.md");
    assert_eq!(
        table(&architecture, "Invariants").len(),
        11,
        "the invariants"
    );
    let unknown = unknown_tests(&architecture, &tree(&[".rs"]));
    assert!(
        unknown.is_empty(),
        "ARCHITECTURE.md names tests that do not exist: {unknown:?}"
    );
}

#[test]
fn every_documented_signal_is_written() {
    let architecture = document("ARCHITECTURE.md");
    assert!(
        !table(&architecture, "Signals").is_empty(),
        "the table of signals was not found"
    );
    let unwritten = unwritten_signals(&architecture, &tree(&[".rs"]));
    assert!(
        unwritten.is_empty(),
        "no monitor writes the signals {unwritten:?}"
    );
}

#[test]
fn the_glossary_has_every_failure_and_every_limit() {
    use analysis::Limit;
    let failures = record::FailureKind::ALL.map(|kind| kind.name().to_owned());
    let limits = [
        Limit::Server,
        Limit::Generator,
        Limit::OfferedLoad,
        Limit::Network,
        Limit::Unknown,
    ];
    for limit in limits {
        // A new variant must be added to the list above: this match stops the build until it is.
        match limit {
            Limit::Server
            | Limit::Generator
            | Limit::OfferedLoad
            | Limit::Network
            | Limit::Unknown => {}
        }
    }
    let names = failures.into_iter().chain(limits.map(stored_name));
    let missing = undocumented(&document("GLOSSARY.md"), names);
    assert!(
        missing.is_empty(),
        "GLOSSARY.md does not explain {missing:?}"
    );
}

#[test]
fn documents_quote_files_as_they_are() {
    for (path, text) in tree(&[".md"]) {
        let read = |quoted: &str| {
            std::fs::read_to_string(root().join(quoted)).map_err(|e| format!("`{quoted}`: {e}"))
        };
        let fresh = quotes::requoted(&text, read).unwrap_or_else(|e| panic!("{path}: {e}"));
        if std::env::var_os("BLESS").is_some() {
            std::fs::write(root().join(&path), &fresh)
                .expect("a document that was just read can be written");
        } else {
            assert_eq!(
                text, fresh,
                "{path} quotes another text than the file has (BLESS=1 renews it)"
            );
        }
    }
}
