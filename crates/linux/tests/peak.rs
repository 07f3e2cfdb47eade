//! The peak of a process' memory is its own: a large parent must not be seen in the child that it starts.

use std::hint::black_box;
use std::path::Path;
use std::process::Command;

const LARGE: u64 = 64 << 20;

/// Set in the child, which says its peak and does nothing else.
const CHILD: &str = "PRONY_TEST_SAYS_ITS_PEAK";

fn own_peak() -> u64 {
    linux::procfs::peak_rss_bytes(Path::new(linux::procfs::PROC), std::process::id() as i32)
        .expect("the own status can be read")
}

#[test]
fn the_peak_of_memory_does_not_survive_exec() {
    if std::env::var_os(CHILD).is_some() {
        println!("\npeak {}", own_peak());
        return;
    }
    let filled = black_box(vec![1_u8; LARGE as usize]);
    assert!(own_peak() > LARGE);
    let child = Command::new(std::env::current_exe().expect("a running test"))
        .env(CHILD, "1")
        .args([
            "the_peak_of_memory_does_not_survive_exec",
            "--exact",
            "--nocapture",
        ])
        .output()
        .expect("the test can start itself");
    drop(filled);
    let said = String::from_utf8_lossy(&child.stdout).into_owned();
    let peak = said.lines().find_map(|line| line.strip_prefix("peak "));
    let peak: u64 = peak.expect(&said).parse().expect("a number");
    assert!(peak > 0 && peak < LARGE, "{peak}");
}
