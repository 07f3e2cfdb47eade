//! Is the copy of a server the same server? Its answer and its calls per request beside those of the original.
//!
//! A proof on a copy says something of the original only when both do the same work for a request. Counts per
//! request repeat within one per cent, so a copy that lacks a cache, a module or a file shows at once. The
//! surprise: calls that wait are left out, because their number follows the load and not the work.

use record::{FdClass, Signature, TrialRecord};
use std::collections::BTreeMap;

/// A copy may differ by this share of a call's number, a hundred times what counts repeat within ...
const RELATIVE: f64 = 0.20;
/// ... and by this many calls per request: half of the requests take another way.
const ABSOLUTE: f64 = 0.5;
/// Answers vary in length by a time or a token in the page, not by more.
const ANSWER: f64 = 0.05;
/// Calls that wait or give way: how often depends on how busy the server is.
const WAITING: [&str; 12] = [
    "clock_nanosleep",
    "epoll_pwait",
    "epoll_pwait2",
    "epoll_wait",
    "futex",
    "nanosleep",
    "poll",
    "ppoll",
    "pselect6",
    "restart_syscall",
    "sched_yield",
    "select",
];

/// Whether an unchanged `copy` does what the `original` does; both were examined under the same load.
///
/// # Errors
/// What differs, in one sentence with the numbers. What could not be seen of either does not differ.
pub fn alike(original: &TrialRecord, copy: &TrialRecord, error_limit: f64) -> Result<(), String> {
    errors(original, copy, error_limit)?;
    let (Some(original), Some(copy)) = (&original.examination, &copy.examination) else {
        return Ok(());
    };
    if let (Some(a), Some(b)) = (&original.answer, &copy.answer) {
        answers((a.status, a.body_bytes), (b.status, b.body_bytes))?;
    }
    match (&original.signature, &copy.signature) {
        (Some(a), Some(b)) => calls(a, b),
        _ => Ok(()),
    }
}

fn errors(original: &TrialRecord, copy: &TrialRecord, limit: f64) -> Result<(), String> {
    let share = |trial: &TrialRecord| {
        let requests = &trial.outcome.as_ref()?.requests;
        let (failed, succeeded) = (requests.failures(), requests.succeeded);
        (failed + succeeded > 0).then(|| failed as f64 / (failed + succeeded) as f64)
    };
    match (share(original), share(copy)) {
        (Some(a), Some(b)) if b > limit && b > 2.0 * a => Err(format!(
            "{:.1} % of its requests failed, of the server's {:.1} %",
            b * 100.0,
            a * 100.0
        )),
        _ => Ok(()),
    }
}

fn answers(original: (u16, u64), copy: (u16, u64)) -> Result<(), String> {
    if original.0 != copy.0 {
        return Err(format!(
            "its response has status {}, the server's {}",
            copy.0, original.0
        ));
    }
    let (a, b) = (original.1 as f64, copy.1 as f64);
    if (a - b).abs() > ANSWER * a.max(b) {
        return Err(format!(
            "its response has {} bytes, the server's {}",
            copy.1, original.1
        ));
    }
    Ok(())
}

fn calls(original: &Signature, copy: &Signature) -> Result<(), String> {
    let (Some(a), Some(b)) = (per_request(original), per_request(copy)) else {
        return Ok(());
    };
    let names: Vec<&str> = a.keys().chain(b.keys()).copied().collect();
    let differs = names.into_iter().filter_map(|name| {
        let at = |calls: &BTreeMap<&str, f64>| calls.get(name).copied().unwrap_or(0.0);
        let (was, is) = (at(&a), at(&b));
        let apart = (was - is).abs();
        (apart > ABSOLUTE && apart > RELATIVE * was.max(is)).then_some((apart, name, was, is))
    });
    match differs.max_by(|x, y| x.0.total_cmp(&y.0)) {
        Some((_, name, was, is)) => Err(format!(
            "it calls {name} {is:.2} times per request, the server {was:.2} times"
        )),
        None => Ok(()),
    }
}

/// Calls of the first target by name, those left out that wait or that found nothing to do.
fn per_request(signature: &Signature) -> Option<BTreeMap<&str, f64>> {
    let requests = signature.requests + signature.failed;
    let counted = signature.targets.first()?.calls.as_ref()?;
    if requests == 0 {
        return None;
    }
    let mut found = BTreeMap::new();
    for call in counted {
        if WAITING.contains(&call.call.as_str()) || call.class == FdClass::Poll {
            continue;
        }
        let nothing = call.errors.get("EAGAIN").copied().unwrap_or(0);
        *found.entry(call.call.as_str()).or_insert(0.0) +=
            call.calls.saturating_sub(nothing) as f64 / requests as f64;
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::{CallStats, TargetSignature};

    fn signature(calls: &[(&str, u64, u64)]) -> Signature {
        let stats = |(call, calls, again): &(&str, u64, u64)| CallStats {
            call: (*call).to_owned(),
            class: FdClass::File,
            calls: *calls,
            errors: BTreeMap::from([("EAGAIN".to_owned(), *again)]),
            ..CallStats::default()
        };
        Signature {
            requests: 1_000,
            targets: vec![TargetSignature {
                target: "server".into(),
                calls: Some(calls.iter().map(stats).collect()),
                ..TargetSignature::default()
            }],
            ..Signature::default()
        }
    }

    #[test]
    fn a_copy_that_takes_another_way_is_named_by_the_call() {
        let original = signature(&[("pread64", 10_000, 0), ("writev", 1_000, 0)]);
        let check = |calls: &[(&str, u64, u64)]| super::calls(&original, &signature(calls));
        assert_eq!(check(&[("pread64", 10_100, 0), ("writev", 990, 0)]), Ok(()));
        assert_eq!(
            check(&[("pread64", 2_000, 0), ("writev", 1_000, 0)]),
            Err("it calls pread64 2.00 times per request, the server 10.00 times".to_owned())
        );
        // A call that only one of them makes.
        assert!(
            check(&[
                ("pread64", 10_000, 0),
                ("writev", 1_000, 0),
                ("openat", 600, 0)
            ])
            .is_err()
        );
    }

    #[test]
    fn small_differences_waits_and_empty_reads_are_none() {
        let original = signature(&[("writev", 1_000, 0), ("epoll_wait", 100, 0)]);
        for calls in [
            // More than a fifth, but not half a call.
            vec![("writev", 1_400, 0)],
            // Half a call and more, but less than a fifth.
            vec![("writev", 1_000, 0), ("epoll_wait", 3_000, 0)],
            vec![("writev", 1_000, 0), ("recvfrom", 900, 900)],
        ] {
            assert_eq!(super::calls(&original, &signature(&calls)), Ok(()));
        }
        let many = signature(&[("readv", 22_000, 0)]);
        assert_eq!(
            super::calls(&many, &signature(&[("readv", 25_000, 0)])),
            Ok(())
        );
    }

    #[test]
    fn what_was_not_counted_does_not_differ() {
        let mut unseen = signature(&[]);
        unseen.targets[0].calls = None;
        assert_eq!(
            super::calls(&signature(&[("readv", 9_000, 0)]), &unseen),
            Ok(())
        );
        assert_eq!(
            super::calls(&Signature::default(), &Signature::default()),
            Ok(())
        );
    }

    #[test]
    fn another_answer_is_another_server() {
        assert!(answers((200, 1_000), (404, 1_000)).is_err());
        assert!(answers((200, 91_000), (200, 1_000)).is_err());
        assert_eq!(answers((200, 91_000), (200, 91_012)), Ok(()));
        assert_eq!(answers((304, 0), (304, 0)), Ok(()));
    }
}
