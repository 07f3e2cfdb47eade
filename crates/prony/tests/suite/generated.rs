//! What a package takes from the binary: completions that a shell reads, and a manual page of every verb.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use crate::common::{finish, prony};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

fn output(dir: &Path, args: &[&str]) -> String {
    let finished = finish(prony(&dir.join("state")).args(args));
    assert_eq!(finished.code, Some(0), "{args:?}: {}", finished.stderr);
    finished.stdout
}

/// Verbs as a help lists them: lines below `Commands:` that are indented by two.
fn verbs(help: &str) -> Vec<String> {
    let listed = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    listed
        .take_while(|line| !line.is_empty())
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next())
        .filter(|verb| *verb != "help")
        .map(str::to_owned)
        .collect()
}

/// Long flags as a help lists them.
fn flags(help: &str) -> Vec<&str> {
    let own = help.lines().map(str::trim_start);
    own.filter(|line| line.starts_with('-'))
        .flat_map(str::split_whitespace)
        .filter(|word| word.starts_with("--"))
        .collect()
}

#[test]
fn every_verb_has_a_manual_page_with_every_flag_of_its_help() {
    let dir = tempfile::tempdir().unwrap();
    let pages = dir.path().join("man1");
    output(
        dir.path(),
        &["man", "--all", "--out", pages.to_str().unwrap()],
    );
    let mut open = vec![Vec::<String>::new()];
    let mut seen = 0;
    while let Some(words) = open.pop() {
        let drop_in = ["ab", "wrk", "wrk2", "weighttp"].map(str::to_owned);
        // Their `--help` is the tool's own.
        let is_drop_in = words.first().is_some_and(|verb| drop_in.contains(verb));
        let asked = words.iter().map(String::as_str).chain(["--help"]);
        let help = match is_drop_in {
            true => String::new(),
            false => output(dir.path(), &asked.collect::<Vec<_>>()),
        };
        let name = [&["prony".to_owned()], &words[..]].concat().join("-");
        let page = fs::read_to_string(pages.join(format!("{name}.1"))).unwrap();
        let plain = page.replace("\\-", "-");
        assert!(plain.contains(".SH EXAMPLE"), "{name}: {plain}");
        for flag in flags(&help).into_iter().filter(|f| *f != "--version") {
            assert!(plain.contains(flag), "{name} lacks {flag}: {plain}");
        }
        // Verbs of a verb, likewise.
        let below = verbs(&help).into_iter();
        open.extend(below.map(|verb| [words.clone(), vec![verb]].concat()));
        seen += 1;
    }
    assert_eq!(fs::read_dir(&pages).unwrap().count(), seen);
    assert!(seen > 13, "{seen}");
    // A verb alone is the same page, hidden ones have one too, and none stays unanswered.
    let load = fs::read_to_string(pages.join("prony-load.1")).unwrap();
    assert_eq!(output(dir.path(), &["man", "load"]), load);
    assert!(output(dir.path(), &["man", "man"]).contains("prony man tune apply"));
    let unknown = finish(prony(&dir.path().join("state")).args(["man", "laod"]));
    assert_eq!(unknown.code, Some(2));
    assert!(unknown.stderr.contains("`load`"), "{}", unknown.stderr);
}

#[test]
fn manual_pages_render_without_a_warning_and_keep_their_columns() {
    let dir = tempfile::tempdir().unwrap();
    if Command::new("man").arg("--version").output().is_err() {
        eprintln!("man is not installed: manual pages are not rendered");
        return;
    }
    output(
        dir.path(),
        &["man", "--all", "--out", dir.path().to_str().unwrap()],
    );
    for entry in fs::read_dir(dir.path()).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "1") {
            continue;
        }
        let mut man = Command::new("man");
        man.args(["--local-file", "--warnings", "--encoding=utf8"])
            .arg(&path)
            .envs([("MANWIDTH", "100"), ("LC_ALL", "C.UTF-8")])
            .stdin(Stdio::null());
        let rendered = finish(&mut man);
        assert_eq!(rendered.stderr, "", "{}", path.display());
        let title = rendered.stdout.lines().next().unwrap();
        assert!(title.contains("prony manual"), "{title}");
        if path.ends_with("prony.1") {
            assert!(
                rendered.stdout.contains("2    command line or experiment"),
                "{}",
                rendered.stdout
            );
        }
    }
}

/// What bash offers for a command line, whose last word is the one begun.
fn completed(script: &Path, words: &[&str]) -> Vec<String> {
    let last = words.len() - 1;
    let quoted: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
    let run = format!(
        "source '{}'; COMP_WORDS=({}); COMP_CWORD={last}; _prony prony '{}' '{}'; printf '%s\\n' \"${{COMPREPLY[@]}}\"",
        script.display(),
        quoted.join(" "),
        words[last],
        words[last - 1]
    );
    let mut bash = Command::new("bash");
    bash.args(["--norc", "-c", &run]).stdin(Stdio::null());
    let finished = finish(&mut bash);
    assert_eq!(finished.stderr, "", "{words:?}");
    finished.stdout.lines().map(str::to_owned).collect()
}

#[test]
fn bash_reads_its_completions_and_completes_verbs_flags_and_values() {
    let dir = tempfile::tempdir().unwrap();
    let script = dir.path().join("prony.bash");
    fs::write(&script, output(dir.path(), &["completions", "bash"])).unwrap();
    let parsed = finish(Command::new("bash").arg("-n").arg(&script));
    assert_eq!((parsed.code, parsed.stderr.as_str()), (Some(0), ""));
    for (words, offered) in [
        (&["prony", "dia"][..], &["diagnose"][..]),
        (
            &["prony", "load", "--connect"],
            &["--connections", "--connect-to"],
        ),
        (&["prony", "tune", "apply", "--dry"], &["--dry-run"]),
        (&["prony", "report", "--format", "ht"], &["html"]),
        // A verb has its own flags and not another's.
        (&["prony", "compare", "--pipe"], &[""]),
    ] {
        let mut got = completed(&script, words);
        got.sort_unstable();
        let mut want = offered.to_vec();
        want.sort_unstable();
        assert_eq!(got, want, "{words:?}");
    }
}

#[test]
fn zsh_and_fish_read_their_completions_where_they_are_installed() {
    let dir = tempfile::tempdir().unwrap();
    for shell in ["zsh", "fish"] {
        let script = dir.path().join(shell);
        let text = output(dir.path(), &["completions", shell]);
        assert!(text.contains("find-knee"), "{shell}: {text}");
        fs::write(&script, text).unwrap();
        if Command::new(shell).arg("--version").output().is_err() {
            eprintln!("{shell} is not installed: its completions are not read");
            continue;
        }
        let parsed = finish(Command::new(shell).arg("-n").arg(&script));
        assert_eq!((parsed.code, parsed.stderr.as_str()), (Some(0), ""));
    }
}
