//! What people pasted in public threads, held against the cause that the thread confirmed.
//!
//! `threads/threads.toml` says for each what is right; it was written before prony saw the text. A right answer names
//! such a cause; an honest one says that it cannot be told and names a step that leads there; all else is wrong
//! (a cause that it was not) or weak (nothing that helps).

use analysis::{Diagnosis, diagnose_pasted};
use import::read_pasted;
use serde::Deserialize;
use std::path::{Path, PathBuf};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Thread {
    file: String,
    address: String,
    tool: String,
    confirmed: String,
    right: Vec<String>,
    #[serde(default)]
    next: Vec<String>,
    /// What an honest answer names; empty where any row will do.
    #[serde(default)]
    says: Vec<String>,
    /// 1: the readers were written with it; later ones were collected then, and used after their first run.
    #[serde(default = "first")]
    round: u8,
}

fn first() -> u8 {
    1
}

#[derive(Deserialize)]
struct Threads {
    thread: Vec<Thread>,
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/threads")
}

fn threads() -> Vec<Thread> {
    let text = std::fs::read_to_string(folder().join("threads.toml")).expect("the list is there");
    let threads: Threads = toml::from_str(&text).expect("the list is well-formed");
    threads.thread
}

fn text_of(file: &str) -> String {
    std::fs::read_to_string(folder().join(format!("{file}.txt"))).expect("each thread has its text")
}

fn answer(text: &str) -> Option<Diagnosis> {
    let pasted = read_pasted(&[("paste.txt".to_owned(), text.to_owned())]);
    (!pasted.is_empty()).then(|| diagnose_pasted(&pasted))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Judged {
    Right,
    Honest,
    Weak,
    Wrong,
    Refused,
}

fn judge(thread: &Thread, answer: Option<&Diagnosis>) -> Judged {
    let Some(finding) = answer.and_then(|d| d.findings.first()) else {
        return Judged::Refused;
    };
    if finding.cause != "unknown" {
        return match thread.right.contains(&finding.cause) {
            true => Judged::Right,
            false => Judged::Wrong,
        };
    }
    // Where the output reaches a cause, saying that it does not is no right answer, but an honest one.
    let leads = thread.next.is_empty() || thread.next.iter().any(|n| finding.remedy.contains(n));
    let named = thread.says.is_empty() || thread.says.iter().any(|n| finding.why.contains(n));
    let reaches = !thread.right.iter().any(|r| r == "unknown");
    match leads && named && !(reaches && thread.next.is_empty()) {
        true => Judged::Honest,
        false => Judged::Weak,
    }
}

/// Judges one round, with a line for each.
fn table(round: u8) -> (Vec<Judged>, String) {
    let mut all = Vec::new();
    let mut text = String::new();
    for thread in threads().iter().filter(|t| t.round == round) {
        let answer = answer(&text_of(&thread.file));
        let judged = judge(thread, answer.as_ref());
        let finding = answer.as_ref().and_then(|d| d.findings.first());
        let said = finding.map_or("refused", |f| f.cause.as_str());
        text += &format!("{judged:?}\t{said}\t{} ({})\n", thread.file, thread.tool);
        if let Some(finding) = finding.filter(|_| judged != Judged::Right) {
            text += &format!("\t{}\n\tnext: {}\n", finding.why, finding.remedy);
            text += &format!("\tconfirmed: {}\n", thread.confirmed);
        }
        all.push(judged);
    }
    (all, text)
}

/// None wrong, no more than so many refused, and so many in a hundred right or honest; the counts in a line.
fn reach(judged: &[Judged], percent: usize, refusals: usize) -> Result<String, String> {
    let count = |wanted: Judged| judged.iter().filter(|j| **j == wanted).count();
    let counts = format!(
        "{} threads: {} right, {} honest, {} weak, {} refused, {} wrong",
        judged.len(),
        count(Judged::Right),
        count(Judged::Honest),
        count(Judged::Weak),
        count(Judged::Refused),
        count(Judged::Wrong)
    );
    let good = count(Judged::Right) + count(Judged::Honest);
    let fails = count(Judged::Wrong) > 0 || count(Judged::Refused) > refusals;
    match !fails && good * 100 >= judged.len() * percent {
        true => Ok(counts),
        false => Err(counts),
    }
}

/// Holds rounds to that, none refused, and gives a line of counts for each.
fn hold(rounds: &[u8], percent: usize) -> String {
    hold_but(rounds, percent, 0)
}

/// The same where so many of a round may be refused.
fn hold_but(rounds: &[u8], percent: usize, refusals: usize) -> String {
    let (mut counts, mut failed) = (String::new(), String::new());
    for round in rounds {
        let (judged, text) = table(*round);
        match reach(&judged, percent, refusals) {
            Ok(reached) => counts += &format!("round {round}: {reached}\n"),
            Err(reached) => failed += &format!("round {round}: {reached}\n{text}"),
        }
    }
    assert!(failed.is_empty(), "{failed}");
    counts
}

#[test]
fn threads_that_the_readers_were_written_with() {
    println!("{}", hold(&[1], 90));
}

#[test]
fn threads_that_were_collected_afterwards() {
    println!("{}", hold(&[2, 3, 4, 5, 6, 7, 8, 9], 90));
}

#[test]
fn threads_that_were_collected_later() {
    println!("{}", hold(&[10, 11, 12, 13, 14, 15, 16, 17], 90));
}

/// Of these only what holds for any text was mended.
#[test]
fn threads_of_the_last_rounds() {
    println!("{}", hold(&[18, 19, 20, 22, 23], 75));
}

/// Nothing was mended after them.
#[test]
fn threads_of_the_rounds_behind_these() {
    println!("{}", hold(&[21], 70) + &hold(&[24], 40));
}

/// Since their first sight (71, 54, 79, 54, 50, 63, 54, 58, 75, 58, 54 and 75 %) only what holds for any text was
/// mended.
#[test]
fn threads_of_the_newest_rounds() {
    println!(
        "{}",
        hold(&[25], 70)
            + &hold(&[26, 27], 80)
            + &hold(&[28, 29, 30, 31], 90)
            + &hold(&[32], 87)
            + &hold(&[33], 90)
            + &hold(&[34], 90)
            + &hold(&[35], 95)
            + &hold(&[36], 100)
    );
}

#[test]
fn every_thread_has_its_address_and_nothing_is_called_healthy() {
    let threads = threads();
    for thread in &threads {
        assert!(thread.address.starts_with("http"), "{}", thread.file);
        let Some(diagnosis) = answer(&text_of(&thread.file)) else {
            continue;
        };
        let none = diagnosis.findings.iter().any(|f| f.cause == "none");
        assert!(!none && !diagnosis.findings.is_empty(), "{}", thread.file);
    }
    let files = std::fs::read_dir(folder()).unwrap();
    assert_eq!(files.count(), threads.len() + 1, "a text without its entry");
}
