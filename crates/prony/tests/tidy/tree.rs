//! Reading for the tidy test: which files there are, and which of a file's lines are code.
//!
//! Only what the rules need is understood of Rust and Markdown. The surprise: a file's test module is taken to
//! stand last in it, as it does everywhere here.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// A rule that was broken: line (from 1) and what is wrong there.
pub type Finding = (usize, String);

pub fn root() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.canonicalize()
        .expect("the workspace is where cargo found it")
}

/// Whether the directory at `path`, relative to the root, holds source: not what hides (save `.ci`), and neither
/// the build's nor the runs' output.
pub fn is_source_directory(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    name == ".ci" || !(name.starts_with('.') || name == "target" || path == "results")
}

/// Adds the files below `directory` whose name has one of the `endings`, as path relative to `root` and text.
fn collect(
    root: &Path,
    directory: &Path,
    endings: &[&str],
    found: &mut Vec<(String, String)>,
) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        let relative = path
            .strip_prefix(root)
            .unwrap_or(&path)
            .to_string_lossy()
            .into_owned();
        if path.is_dir() {
            if is_source_directory(&relative) {
                collect(root, &path, endings, found)?;
            }
        } else if endings.iter().any(|ending| relative.ends_with(ending)) {
            found.push((relative, fs::read_to_string(&path)?));
        }
    }
    Ok(())
}

/// All source files whose name has one of the `endings`, sorted by path.
pub fn tree(endings: &[&str]) -> Vec<(String, String)> {
    let (root, mut found) = (root(), Vec::new());
    collect(&root, &root, endings, &mut found).unwrap_or_else(|e| panic!("reading the tree: {e}"));
    assert!(!found.is_empty(), "no file with {endings:?} below {root:?}");
    found.sort();
    found
}

pub fn document(name: &str) -> String {
    fs::read_to_string(root().join(name)).unwrap_or_else(|e| panic!("reading `{name}`: {e}"))
}

/// Applies a rule to every file and fails with all findings at once.
pub fn hold(endings: &[&str], rule: impl Fn(&str, &str) -> Vec<Finding>) {
    let broken: Vec<String> = tree(endings)
        .iter()
        .flat_map(|(path, text)| {
            rule(path, text)
                .into_iter()
                .map(move |(line, what)| format!("{path}:{line}: {what}"))
        })
        .collect();
    assert!(broken.is_empty(), "\n{}\n", broken.join("\n"));
}

pub fn crate_of(path: &str) -> Option<&str> {
    path.strip_prefix("crates/")?.split('/').next()
}

/// A path whose code no user runs: `tests/`, `benches/`, `examples/`, or a `tests.rs` beside its module.
pub fn is_test_path(path: &str) -> bool {
    let beside = ["/tests/", "/benches/", "/examples/"];
    beside.iter().any(|directory| path.contains(directory)) || path.ends_with("/tests.rs")
}

/// Lines of code that is not a test, numbered from 1: comment lines and everything from
/// `#[cfg(test)] mod` on are left out (a test module stands last in its file).
pub fn code_lines<'a>(path: &str, text: &'a str) -> Vec<(usize, &'a str)> {
    if is_test_path(path) {
        return Vec::new();
    }
    let lines: Vec<&str> = text.lines().collect();
    let opens_tests = |i: usize| {
        lines[i].trim() == "#[cfg(test)]"
            && lines[i + 1..]
                .iter()
                .map(|l| l.trim_start())
                .find(|l| !l.starts_with("#["))
                .is_some_and(|l| l.starts_with("mod ") && l.ends_with('{'))
    };
    let end = (0..lines.len())
        .find(|&i| opens_tests(i))
        .unwrap_or(lines.len());
    (1..)
        .zip(lines[..end].iter().copied())
        .filter(|(_, line)| !line.trim_start().starts_with("//"))
        .collect()
}

/// Whether `word` stands in `line` by itself, not as a part of a longer name.
pub fn mentions(line: &str, word: &str) -> bool {
    let in_name = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + word.len()..].chars().next();
        !in_name(before) && (word.ends_with(':') || !in_name(after))
    })
}

/// Findings for every line that mentions one of `words`, with `why` behind the word.
pub fn mentioning(lines: &[(usize, &str)], words: &[&str], why: &str) -> Vec<Finding> {
    lines
        .iter()
        .flat_map(|(number, line)| {
            let said = words.iter().filter(|word| mentions(line, word));
            said.map(|word| (*number, format!("`{word}`: {why}")))
        })
        .collect()
}

/// Names in the cells of a Markdown table: what stands between backticks.
pub fn quoted(cell: &str) -> Vec<String> {
    cell.split('`')
        .skip(1)
        .step_by(2)
        .map(str::to_owned)
        .collect()
}

/// Rows of the first table under the heading `## heading`, as cells; the two head rows are left out.
pub fn table(document: &str, heading: &str) -> Vec<Vec<String>> {
    document
        .lines()
        .skip_while(|line| *line != format!("## {heading}"))
        .skip(1)
        .take_while(|line| !line.starts_with("## "))
        .skip_while(|line| !line.starts_with('|'))
        .take_while(|line| line.starts_with('|'))
        .skip(2)
        .map(|row| {
            row.trim_matches('|')
                .split('|')
                .map(|c| c.trim().to_owned())
                .collect()
        })
        .collect()
}
