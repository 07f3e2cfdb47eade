//! What a runtime told of a thread, in words: what it waits for, in which function, and who has it.
//!
//! The surprise: the innermost function is that of a library (a semaphore, a queue), and says which kind of thing is
//! waited for; the innermost one of the application says which of them. A label has the latter, so that two pools are two
//! rows; the place has both.

use record::{Told, ToldState};

/// Functions that a place names.
const NAMED: usize = 4;
/// How names of functions begin that belong to a runtime's own library.
const LIBRARIES: [&str; 5] = ["java.", "javax.", "jdk.", "sun.", "com.sun."];

/// Kind and words of a wait; `None` where the runtime knows of none, as the system call does.
pub(super) fn wait(told: &Told) -> Option<(&'static str, String)> {
    let (kind, words) = match told.state {
        ToldState::Running => return None,
        ToldState::Lock => ("lock", "waiting for a lock"),
        ToldState::Permit => ("lock", "waiting for a permit of a semaphore or pool"),
        ToldState::Signal => ("lock", "waiting until another thread signals"),
        ToldState::Result => ("lock", "waiting for the result of another thread"),
        ToldState::Sleep => ("sleep", "asleep"),
    };
    Some(match own_function(told) {
        Some(function) => (kind, format!("{words}: {function}")),
        None => (kind, words.to_owned()),
    })
}

/// The functions that lead there, and who has what is waited for.
pub(super) fn place(told: &Told, waker: &str) -> String {
    let names: Vec<&str> = told.frames.iter().take(NAMED).map(|f| bare(f)).collect();
    let mut text = names.join(" < ");
    let add = |text: &mut String, more: String| {
        if !text.is_empty() {
            text.push_str("; ");
        }
        text.push_str(&more);
    };
    if !told.owner.is_empty() {
        add(&mut text, format!("held by {}", told.owner));
    } else if told.state != ToldState::Sleep && waker.starts_with("thread ") {
        add(&mut text, format!("woken by {waker}"));
    }
    text
}

/// The innermost function of the application.
fn own_function(told: &Told) -> Option<&str> {
    let of_library = |frame: &&String| LIBRARIES.iter().any(|l| frame.starts_with(l));
    let own = told.frames.iter().find(|f| !of_library(f));
    own.or(told.frames.first()).map(|f| bare(f))
}

/// `Pool.getConnection` of `com.example.db.Pool.getConnection`; what is no such path stays as it is.
fn bare(function: &str) -> &str {
    if function.contains(['/', ' ', '<']) {
        return function;
    }
    let mut dots = function.rmatch_indices('.').map(|(at, _)| at);
    match (dots.next(), dots.next()) {
        (Some(_), Some(class)) => &function[class + 1..],
        _ => function,
    }
}
