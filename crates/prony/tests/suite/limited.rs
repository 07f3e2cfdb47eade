//! `--limit-rate` as a person meets it: the verdict, the text, the page and what is refused.

#![allow(
    clippy::unwrap_used,
    reason = "a test may fail by panicking, in its helpers too"
)]

use crate::common::{Finished, Origin, finish, prony};
use std::path::Path;

fn load(state: &Path, url: &str, flags: &str) -> Finished {
    let mut command = prony(state);
    command.arg("load").args(flags.split(' ')).arg(url);
    finish(&mut command)
}

#[test]
fn a_limited_load_says_what_bound_it() {
    let state = tempfile::tempdir().unwrap();
    let origin = Origin::start(state.path(), &[]);
    let url = format!("{}/bytes/50k", origin.url.trim_end_matches('/'));
    let page = state.path().join("load.html");
    let flags = format!(
        "-c 4 -d 2s --limit-rate 250k --json --out html={}",
        page.display()
    );
    let finished = load(state.path(), &url, &flags);
    let document = finished.json();
    assert_eq!(finished.code, Some(0), "{document}");
    assert_eq!(
        document["asked"]["limit_rate_bytes_per_s"], 250_000,
        "{document}"
    );
    assert_eq!(document["verdict"]["resource"], "limit_rate", "{document}");
    assert_eq!(document["generator"]["engine"], "epoll");
    let warnings = document["warnings"].as_array().unwrap();
    assert!(
        warnings.iter().any(|w| w["name"] == "limited_rate"),
        "{document}"
    );
    // A burst a connection beside what the limit lets pass.
    let received = document["bytes"]["received"].as_u64().unwrap();
    let passes = 4.0 * 250_000.0 * document["measured_s"].as_f64().unwrap();
    assert!((received as f64) < 1.05 * passes, "{document}");
    let page = std::fs::read_to_string(page).unwrap();
    assert!(page.contains("each 244.14KiB/s at most"), "{page}");
    let text = load(state.path(), &url, "-c 4 -n 20 --limit-rate 250k").stdout;
    assert!(text.contains("bandwidth    244.14KiB/s each"), "{text}");
}

#[test]
fn a_limit_that_cannot_be_is_refused_with_its_remedy() {
    let state = tempfile::tempdir().unwrap();
    let url = "http://127.0.0.1:1/";
    for (flags, code, words) in [
        ("--limit-rate 0", 2, "must be above 0"),
        ("--limit-rate fast", 2, "must be a size"),
        (
            "--limit-rate 1k --engine uring",
            4,
            "epoll drives limited connections",
        ),
    ] {
        let refused = load(state.path(), url, flags);
        assert_eq!(refused.code, Some(code), "{flags}: {}", refused.stderr);
        assert!(refused.stderr.contains(words), "{}", refused.stderr);
    }
}
