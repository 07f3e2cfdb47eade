//! The fuzz targets' bodies on mutants of their corpus: bounded, from a seed, with the stable compiler.
//!
//! An allocator counts, so that a small input that makes much of itself is found too. The last test is the canary: a
//! planted fault that must be found, lest a mutation that has stopped reaching anything stays green.

#![allow(
    clippy::unwrap_used,
    reason = "in a test, helpers included, a panic is the report"
)]

#[path = "../../../fuzz/bodies.rs"]
mod bodies;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::panic::{RefUnwindSafe, catch_unwind};
use std::path::Path;

/// What a body may hold at once beyond this, whatever the input: an input is at most some hundred kilobytes.
const MEMORY_MAX: i64 = 64 << 20;

thread_local! {
    static HELD: Cell<i64> = const { Cell::new(0) };
    static PEAK: Cell<i64> = const { Cell::new(0) };
}

struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn count(bytes: i64) {
    // A thread that ends frees after its own counters are gone.
    let _ = HELD.try_with(|held| {
        held.set(held.get() + bytes);
        let _ = PEAK.try_with(|peak| peak.set(peak.get().max(held.get())));
    });
}

// SAFETY: everything is passed on unchanged to the system's allocator, which keeps the contract.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as i64);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        count(-(layout.size() as i64));
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(at, layout) }
    }
}

/// All of a test's chance comes from one number (splitmix64).
struct Chance(u64);

impl Chance {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % n as u64) as usize
    }
}

/// Files of a directory of the project whose names end so, in order.
fn seeds(directory: &str, ending: &str) -> Vec<Vec<u8>> {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../");
    let entries = std::fs::read_dir(Path::new(root).join(directory)).unwrap();
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.to_str().unwrap().ends_with(ending));
    paths.sort();
    assert!(!paths.is_empty(), "{directory}");
    paths
        .iter()
        .map(|path| std::fs::read(path).unwrap())
        .collect()
}

/// What means something to most of the formats.
const FRAGMENTS: [&str; 24] = [
    "\r\n",
    "\n",
    "'",
    "\"",
    "\\",
    "{",
    "}",
    "[",
    "]",
    "{{",
    "}}",
    "$'",
    "\0",
    "%",
    "&",
    "-1",
    ":",
    "99999999999999999999",
    "1e999",
    "ffffffffffffffff",
    "\u{feff}",
    "\u{e9}",
    "null",
    "  ",
];

/// One of the seeds with some of it changed, cut, doubled, moved in from another, or replaced by a fragment.
fn mutant(seeds: &[Vec<u8>], chance: &mut Chance) -> Vec<u8> {
    let mut bytes = seeds[chance.below(seeds.len())].clone();
    for _ in 0..=chance.below(6) {
        let at = chance.below(bytes.len() + 1);
        let to = (at + chance.below(40)).min(bytes.len());
        match chance.below(7) {
            0 if at < bytes.len() => bytes[at] = chance.below(256) as u8,
            1 => bytes.truncate(at),
            2 => drop(bytes.drain(at..to)),
            3 => {
                let piece = bytes[at..to].to_vec();
                for _ in 0..=chance.below(4) {
                    bytes.splice(at..at, piece.iter().copied());
                }
            }
            4 => {
                let other = &seeds[chance.below(seeds.len())];
                let from = chance.below(other.len() + 1);
                let piece = &other[from..(from + chance.below(200)).min(other.len())];
                bytes.splice(at..to, piece.iter().copied());
            }
            _ => {
                let fragment = FRAGMENTS[chance.below(FRAGMENTS.len())];
                bytes.splice(at..to, fragment.bytes());
            }
        }
    }
    bytes
}

/// The first of so many mutants that `body` panics on, or holds too much for.
fn fuzz(seeds: &[Vec<u8>], mutants: u64, body: impl Fn(&[u8]) + RefUnwindSafe) -> Option<Vec<u8>> {
    for seed in seeds {
        body(seed);
    }
    (0..mutants).find_map(|n| {
        let input = mutant(seeds, &mut Chance(n));
        let before = HELD.get();
        PEAK.set(before);
        let done = catch_unwind(|| body(&input));
        let is_too_much = PEAK.get() - before > MEMORY_MAX;
        (done.is_err() || is_too_much).then_some(input)
    })
}

fn check(seeds: &[Vec<u8>], mutants: u64, body: fn(&[u8])) {
    let found = fuzz(seeds, mutants, body).map(|input| input.escape_ascii().to_string());
    assert_eq!(found, None, "panics or takes more than 64 MiB with this");
}

#[test]
fn messages_of_http_1() {
    let responses = seeds("fuzz/corpus/response", "");
    check(&responses, 60_000, bodies::response);
    check(&responses, 60_000, bodies::chunked);
    check(&seeds("fuzz/corpus/request", ""), 60_000, bodies::request);
}

#[test]
fn frames_of_websocket() {
    let seeds = seeds("fuzz/corpus/websocket", "");
    check(&seeds, 60_000, bodies::websocket);
}

#[test]
fn frames_between_hosts() {
    let seeds = seeds("fuzz/corpus/frames", "");
    check(&seeds, 20_000, bodies::frames);
}

#[test]
fn streams_of_events() {
    let seeds = seeds("fuzz/corpus/event_stream", "");
    check(&seeds, 60_000, bodies::event_stream);
}

#[test]
fn results_of_other_tools() {
    check(
        &seeds("crates/import/tests/tools", ""),
        400,
        bodies::results,
    );
}

#[test]
fn what_people_paste() {
    let seeds = seeds("crates/import/tests/threads", ".txt");
    check(&seeds, 2_000, bodies::pasted);
}

#[test]
fn recordings_of_browsers() {
    check(
        &seeds("crates/import/tests/workload", ".har"),
        600,
        bodies::har,
    );
}

#[test]
fn command_lines_of_curl() {
    check(&seeds("fuzz/corpus/curl", ""), 30_000, bodies::curl);
}

#[test]
fn access_logs() {
    let seeds = seeds("fuzz/corpus/access_log", "");
    check(&seeds, 20_000, bodies::access_log);
}

#[test]
fn descriptions_of_openapi() {
    let seeds = seeds("crates/import/tests/workload", ".openapi.json");
    check(&seeds, 4_000, bodies::openapi);
}

#[test]
fn workload_files() {
    check(&seeds("fuzz/corpus/workload", ""), 10_000, bodies::workload);
}

#[test]
fn planted_faults_are_found() {
    let seeds = seeds("fuzz/corpus/curl", "");
    let hates_open_quotes = |input: &[u8]| {
        let options = import::WorkloadOptions::default();
        let made = import::convert(import::WorkloadFormat::Curl, "c", input, &options);
        let is_open = made.is_err_and(|e| e.to_string().contains("is not closed"));
        assert!(!is_open, "planted");
    };
    assert!(fuzz(&seeds, 2_000, hates_open_quotes).is_some());
    let hoards = |input: &[u8]| {
        let bytes = if input.contains(&0) { 65 << 20 } else { 1 };
        assert_ne!(std::hint::black_box(vec![1_u8; bytes]).len(), 0);
    };
    assert!(fuzz(&seeds, 2_000, hoards).is_some());
}
