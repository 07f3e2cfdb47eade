//! Every command that a document or a help text shows is one that the command line accepts.
//!
//! Beside the flow: a test alone. What a command prints is tried in `tests/suite/readme.rs`; here only its flags and
//! values are read, so that a renamed flag cannot survive in a chapter that nobody reruns.

use crate::cli::Cli;
use clap::{CommandFactory, Parser};
use std::path::Path;

/// Documents of the project that show commands.
const DOCUMENTS: [&str; 10] = [
    "README.md",
    "docs/load.md",
    "docs/traffic.md",
    "docs/diagnose.md",
    "docs/experiments.md",
    "docs/results.md",
    "docs/host.md",
    "docs/hosts.md",
    "docs/ci.md",
    "experiments/README.md",
];

/// Commands in the code blocks of a document, or in a help text: lines that start with `prony `. A trailing
/// explanation is set off by two spaces.
fn commands(text: &str) -> Vec<String> {
    let lines = text.lines().map(str::trim);
    lines
        .filter(|line| line.starts_with("prony "))
        .map(|line| line.split("  ").next().unwrap_or(line))
        .map(|line| line.trim_end_matches('&').trim().to_owned())
        .collect()
}

fn code_blocks(document: &str) -> String {
    let blocks: Vec<&str> = document.split("```").skip(1).step_by(2).collect();
    blocks.join("\n")
}

/// Why the command line refuses `command`; `None` when it takes it.
fn refused(command: &str) -> Option<String> {
    let words = command
        .split_whitespace()
        .map(|word| word.trim_matches('\''));
    match Cli::try_parse_from(words) {
        Ok(_) => None,
        Err(error) => Some(format!("{command}\n{error}")),
    }
}

#[test]
fn documents_show_commands_that_are_accepted() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for name in DOCUMENTS {
        let text = std::fs::read_to_string(root.join(name)).unwrap();
        let shown = commands(&code_blocks(&text));
        assert!(
            !shown.is_empty() || name == "experiments/README.md",
            "{name} shows no command"
        );
        let faults: Vec<String> = shown.iter().filter_map(|c| refused(c)).collect();
        assert!(faults.is_empty(), "{name}:\n{}", faults.join("\n"));
    }
}

#[test]
fn help_shows_commands_that_are_accepted() {
    for verb in Cli::command().get_subcommands() {
        let help = verb.get_after_help().map(ToString::to_string);
        let help = help.unwrap_or_default();
        let shown = commands(&help);
        assert!(!shown.is_empty(), "`{}` has no example", verb.get_name());
        let faults: Vec<String> = shown.iter().filter_map(|c| refused(c)).collect();
        assert!(
            faults.is_empty(),
            "{}:\n{}",
            verb.get_name(),
            faults.join("\n")
        );
    }
}

#[test]
fn canary_unknown_flag() {
    let block = "```\nprony load URL --nonsense  says nothing\nprony origin &\n```\n";
    let shown = commands(&code_blocks(block));
    assert_eq!(shown, ["prony load URL --nonsense", "prony origin"]);
    assert!(refused(&shown[0]).is_some_and(|why| why.contains("--nonsense")));
    assert_eq!(refused(&shown[1]), None);
}
