//! Files by name, page faults, processes started, and the allocator: the rest of what a request costs.
//!
//! Logs are told from temporary files by how they are used: a log is open for appending, or is written for many
//! requests once it is open; what requests open themselves and write, or read as often, is a temporary file.

use super::calls::OPENS;
use super::{Material, Sheet};
use record::{CallStats, FdClass, FileStats, TargetSignature};
use std::collections::BTreeSet;

/// What is opened for fewer of the requests is opened by no request.
const SELDOM: f64 = 0.05;
const FILES: &str = "signature: files by name";
const CALLS: &str = "signature: system calls";
const FILE_NAMES: [&str; 12] = [
    "open.missing_per_request",
    "open.top_per_request",
    "sync.per_request",
    "log_write.per_request",
    "log_write.mean_bytes",
    "log_write.bytes_per_request",
    "log_write.time_us_per_request",
    "log_write.calls_per_request",
    "temp_write.per_request",
    "temp_write.bytes_per_request",
    "htaccess.per_request",
    "resolv_open.per_request",
];
/// What is called so often for each line of a log, at most, and so nearly as often: to open, lock or look at its file.
const CALLS_OF_A_LINE: f64 = 4.0;
const AS_OFTEN: f64 = 0.03;
/// Of fewer lines for a request than this other calls come as often by chance.
const MANY_LINES: f64 = 2.0;
const SYNCS: [&str; 3] = ["fsync", "fdatasync", "msync"];

pub(super) fn extract(material: &Material<'_>, sheet: &mut Sheet<'_>) {
    let signature = material.signature(&sheet.target);
    let reason = material.reason(
        &["file", "signature"],
        "files were not watched: there was no signature pass",
    );
    for name in FILE_NAMES {
        sheet.unknown(name, &reason);
    }
    let requests = material.signature_requests();
    if let (Some(signature), Some(requests)) = (signature, requests) {
        if let Some(calls) = &signature.calls {
            by_calls(calls, requests, sheet);
        }
        if let Some(files) = &signature.files {
            by_name(files, signature.calls.as_deref(), requests, sheet);
        }
    }
    started(signature, requests, sheet);
    faults(material, signature, requests, sheet);
    allocator(material, signature, requests, sheet);
}

/// What calls alone tell where names were not taken.
fn by_calls(calls: &[CallStats], requests: f64, sheet: &mut Sheet<'_>) {
    let of = |names: &[&str]| -> Vec<&CallStats> {
        let calls = calls.iter();
        calls.filter(|c| names.contains(&c.call.as_str())).collect()
    };
    let missing = |c: &&CallStats| c.errors.get("ENOENT").copied().unwrap_or(0);
    let vain: u64 = of(&OPENS).iter().map(missing).sum();
    sheet.known("open.missing_per_request", vain as f64 / requests, CALLS);
    let synced: u64 = of(&SYNCS).iter().map(|c| c.calls).sum();
    sheet.known("sync.per_request", synced as f64 / requests, CALLS);
}

/// Calls on files and on nothing that come as often as lines of a log, or some times as often.
fn calls_of_lines(calls: &[CallStats], lines: f64) -> f64 {
    let with_lines = |c: &&CallStats| {
        let times = c.calls as f64 / lines;
        let whole = times.round();
        (1.0..=CALLS_OF_A_LINE).contains(&whole) && (times - whole).abs() <= AS_OFTEN * whole
    };
    let local = |c: &&CallStats| matches!(c.class, FdClass::File | FdClass::None);
    let of_lines = calls.iter().filter(local).filter(with_lines);
    of_lines.map(|c| c.calls as f64).sum()
}

/// Files that requests make, and writes of each: fewer files, or more writes, may be logs.
const MANY_MADE: u64 = 10;
const WRITES_OF_MADE: u64 = 2;

fn base(name: &str) -> &str {
    name.rsplit('/').next().unwrap_or(name)
}

fn by_name(files: &[FileStats], calls: Option<&[CallStats]>, requests: f64, sheet: &mut Sheet<'_>) {
    // Each request may have a name of its own for what it writes.
    let written: BTreeSet<&str> = (files.iter().filter(|f| f.writes > 0 && !f.append))
        .map(|f| base(&f.name))
        .collect();
    let is_written = |f: &&FileStats| written.contains(base(&f.name));
    let opens: u64 = files.iter().filter(is_written).map(|f| f.opens).sum();
    let often = |opens: u64| opens as f64 > SELDOM * requests;
    let many = often(opens);
    let by_requests = |f: &&FileStats| often(f.opens) || many && f.opens > 0 && is_written(f);
    let opened: BTreeSet<&str> = (files.iter().filter(by_requests))
        .map(|f| base(&f.name))
        .collect();
    // One file after the other is made, each with a name of its own: none of them is a log that goes on.
    let made = |f: &&FileStats| f.writes > 0 && !f.append && f.writes <= WRITES_OF_MADE;
    let number = files.iter().filter(made).count() as u64;
    let are_made = number >= MANY_MADE && often(number);
    // Whoever writes a log does not read it.
    let goes_on = |f: &&FileStats| {
        let own = are_made && made(f);
        !own && !opened.contains(base(&f.name)) && 2 * f.reads < f.writes
    };
    let log = |f: &&FileStats| f.writes > 0 && (f.append || goes_on(f));
    let temporary = |f: &&FileStats| f.writes > 0 && !log(f);
    let per_request = |n: u64| n as f64 / requests;
    let total = |keep: &dyn Fn(&&FileStats) -> bool, of: &dyn Fn(&FileStats) -> u64| {
        files.iter().filter(|f| keep(f)).map(of).sum::<u64>()
    };
    // A log grows at its end: who writes at a position of its own choice keeps a database, or a temporary file.
    let appended = |f: &&FileStats| log(f) && f.append;
    let others = |f: &&FileStats| log(f) && !f.append;
    let temporary_writes = total(&temporary, &|f| f.writes);
    let at_positions = positioned(calls).saturating_sub(temporary_writes);
    let loose = total(&others, &|f| f.writes);
    let kept = 1.0 - (at_positions as f64 / loose.max(1) as f64).min(1.0);
    let of_logs = |of: &dyn Fn(&FileStats) -> u64| {
        total(&appended, of) as f64 + kept * total(&others, of) as f64
    };
    let (writes, written) = (of_logs(&|f| f.writes), of_logs(&|f| f.written_bytes));
    sheet.known("log_write.per_request", writes / requests, FILES);
    sheet.known("log_write.bytes_per_request", written / requests, FILES);
    let (part, whole) = (Some(written), Some(writes));
    sheet.divided("log_write.mean_bytes", part, whole, FILES, "");
    let around = calls.filter(|_| writes >= MANY_LINES * requests);
    let around = around.map_or(0.0, |calls| calls_of_lines(calls, writes));
    sheet.known(
        "log_write.calls_per_request",
        around.max(writes) / requests,
        FILES,
    );
    let time = log_time_us(calls, temporary_writes + at_positions, requests);
    let mixed = "writes to logs were not timed apart from others";
    sheet.maybe("log_write.time_us_per_request", time, CALLS, mixed);
    sheet.known(
        "temp_write.per_request",
        per_request(temporary_writes),
        FILES,
    );
    let written = total(&temporary, &|f| f.written_bytes);
    sheet.known("temp_write.bytes_per_request", per_request(written), FILES);
    let all = |_: &&FileStats| true;
    let vain = per_request(total(&all, &|f| f.missing));
    let by_calls = sheet.value("open.missing_per_request").unwrap_or(0.0);
    sheet.known("open.missing_per_request", vain.max(by_calls), FILES);
    let most = files.iter().map(|f| f.opens).max().unwrap_or(0);
    sheet.known("open.top_per_request", per_request(most), FILES);
    let synced = total(&|f| f.synced, &|f| f.writes) + total(&all, &|f| f.syncs);
    let by_calls = sheet.value("sync.per_request").unwrap_or(0.0);
    sheet.known("sync.per_request", per_request(synced).max(by_calls), FILES);
    let looked = |names: &[&str]| {
        let named = |f: &&FileStats| names.contains(&base(&f.name));
        per_request(total(&named, &|f| f.opens + f.missing + f.stats))
    };
    // The names by which the field's servers and the C library look for them.
    sheet.known("htaccess.per_request", looked(&[".htaccess"]), FILES);
    let resolver = looked(&["resolv.conf", "hosts"]);
    sheet.known("resolv_open.per_request", resolver, FILES);
}

/// Writes to files at a position.
fn positioned(calls: Option<&[CallStats]>) -> u64 {
    let calls = calls.unwrap_or_default().iter();
    let at = calls.filter(|c| c.class == record::FdClass::File && c.call.starts_with("pwrite"));
    at.map(|c| c.calls).sum()
}

/// Time of writes to files, when only logs are written.
fn log_time_us(calls: Option<&[CallStats]>, others: u64, requests: f64) -> Option<f64> {
    let writes = calls?.iter().filter(|c| {
        c.class == record::FdClass::File
            && matches!(c.call.as_str(), "write" | "writev" | "pwrite64" | "pwritev")
    });
    let times: Option<Vec<u64>> = writes.map(|c| c.time_ns).collect();
    let total = times.filter(|_| others == 0)?.iter().sum::<u64>();
    Some(total as f64 / 1e3 / requests)
}

fn started(signature: Option<&TargetSignature>, requests: Option<f64>, sheet: &mut Sheet<'_>) {
    let reason = "starts of processes were not counted";
    let forks = signature.and_then(|s| s.forks).map(|n| n as f64);
    let execs = signature.and_then(|s| s.execs).map(|n| n as f64);
    let calls = signature.and_then(|s| s.calls.as_deref());
    let forked = calls.map(|calls| {
        let forks = calls
            .iter()
            .filter(|c| matches!(c.call.as_str(), "fork" | "vfork" | "wait4"));
        forks
            .map(|c| c.calls - c.errors.values().sum::<u64>().min(c.calls))
            .sum::<u64>() as f64
    });
    sheet.divided("exec.per_request", execs, requests, CALLS, reason);
    // A thread is a start that is neither forked, awaited as a child, nor followed by another program.
    let spawned = execs.map(|e| e.max(forked.unwrap_or(0.0)));
    sheet.divided("spawn.per_request", spawned, requests, CALLS, reason);
    let threads = forks.zip(spawned).map(|(f, s)| (f - s).max(0.0));
    sheet.divided("thread_start.per_request", threads, requests, CALLS, reason);
}

fn faults(
    material: &Material<'_>,
    signature: Option<&TargetSignature>,
    requests: Option<f64>,
    sheet: &mut Sheet<'_>,
) {
    let counted = [
        (
            "faults.minor_per_request",
            signature.and_then(|s| s.minor_faults),
            "process.minor_faults",
        ),
        (
            "faults.major_per_request",
            signature.and_then(|s| s.major_faults),
            "process.major_faults",
        ),
    ];
    for (name, faults, signal) in counted {
        if let (Some(n), Some(requests)) = (faults, requests) {
            sheet.known(name, n as f64 / requests, "signature: page faults");
            continue;
        }
        let grown = material.grown(signal, &sheet.target);
        let reason = material.reason(&["fault", signal], "page faults were not counted");
        sheet.divided(name, grown, material.completed(), "/proc/PID/stat", &reason);
    }
}

fn allocator(
    material: &Material<'_>,
    signature: Option<&TargetSignature>,
    requests: Option<f64>,
    sheet: &mut Sheet<'_>,
) {
    let source = "signature: allocator calls";
    let stats = signature.and_then(|s| s.allocator.as_ref());
    let reason = material.reason(&["alloc"], "calls of the allocator were not counted");
    let count = stats.map(|stats| {
        let calls = stats.calls.iter();
        let allocate = calls.filter(|(name, _)| !name.contains("free"));
        allocate.map(|(_, n)| *n).sum::<u64>() as f64
    });
    sheet.divided("alloc.per_request", count, requests, source, &reason);
}
