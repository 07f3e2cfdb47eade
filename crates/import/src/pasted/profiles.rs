//! Profiles: perf report, perf top, perf script, folded stacks, pprof's text.
//!
//! All become the profile that prony's own sampler writes. What prints functions alone gives stacks of one frame, so
//! a kind of work that is told by its callers is seen less than it is: a lower bound. The surprise is perf's first
//! column: with callers it is the share of everything below a function, and the second its own.

use super::pieces::seconds;
use record::pasted::{Artefact, Row};
use record::{Frame, Profile, ProfileKind, Stack};
use std::collections::BTreeMap;

/// Stacks are stored with whole weights; a share is kept to a millionth.
const PARTS: f64 = 1e6;
const PERF: &str = "perf report";
/// Functions with less than this are noise of the list's end.
const LEAST: f64 = 1e-5;

#[derive(Default)]
struct Function {
    share: f64,
    /// Who called it, the outermost first; of a line of stacks below a row.
    callers: Vec<String>,
    /// With all that it calls, where that stands before its own share.
    with_called: Option<f64>,
    symbol: String,
    module: String,
    thread: String,
    kernel: bool,
}

/// All profiles of a text.
pub(super) fn read(lines: &[&str]) -> Vec<Artefact> {
    let mut done = flat(lines, PERF, 12, perf_row);
    done.extend(flat(lines, "pprof -top", 2, pprof_row));
    if lines
        .iter()
        .any(|l| COLLECTORS.iter().any(|c| l.contains(c)))
    {
        let mut shares = flat(lines, "shares of a profile", 3, share_row);
        for profile in &mut shares {
            let idle = profile.rows.iter().filter(|r| r.label == "(idle)");
            let idle = idle.map(|r| r.share).sum();
            profile.figures.insert("shares.idle".into(), idle);
        }
        done.extend(shares);
    }
    done.extend(folded(lines));
    done.extend(scripted(lines));
    done.extend(by_address(lines));
    done.sort_by_key(|a| a.line);
    done
}

/// Runs of lines that `row` reads, with at most `gap` others between.
fn flat(lines: &[&str], tool: &str, gap: u32, row: fn(&str) -> Option<Function>) -> Vec<Artefact> {
    let mut done = Vec::new();
    let mut open: Vec<Function> = Vec::new();
    let (mut first, mut last) = (0, 0);
    let mut close = |open: &mut Vec<Function>, first: u32| {
        let functions = with_stacks(std::mem::take(open));
        // One row is a profile where its head stands above it.
        let headed = || {
            lines[(first as usize).saturating_sub(4)..first as usize]
                .iter()
                .any(|l| l.contains("flat%") || l.contains("Overhead"))
        };
        // Nothing else prints a row like perf's.
        let enough = functions.len() == 1 && (tool == PERF || headed());
        if functions.len() >= 2 || enough {
            done.push(artefact(tool, first, functions));
        }
    };
    for (number, line) in (1_u32..).zip(lines) {
        // A second list begins where the shares rise again.
        let Some(function) = row(line) else { continue };
        // Stacks begin anew below each row.
        let rises = (open.iter().rfind(|f| f.callers.is_empty()))
            .filter(|_| function.callers.is_empty())
            .is_some_and(|f| function.share > f.share * 1.5 + 0.01);
        if !open.is_empty() && (number > last + gap || rises && number > last + 1) {
            close(&mut open, first);
        }
        if open.is_empty() {
            first = number;
        }
        last = number;
        open.push(function);
    }
    close(&mut open, first);
    done
}

/// `13.63% try_charge;shrink_node;super_cache_count`: a stack below a row of functions (`perf report -g folded`).
fn perf_stack(line: &str) -> Option<Function> {
    let (share, stack) = line.trim().split_once("% ")?;
    let share: f64 = share.parse().ok()?;
    let mut callers: Vec<String> = stack.split(';').map(str::to_owned).collect();
    let named = |name: &String| !name.is_empty() && !name.contains(char::is_whitespace);
    let symbol = callers.pop()?;
    let right = !callers.is_empty() && callers.iter().chain([&symbol]).all(named);
    (right && (0.0..=100.0).contains(&share)).then(|| Function {
        share: share / 100.0,
        callers,
        symbol,
        ..Function::default()
    })
}

/// Stacks stand for the first row that has no share of its own: what it calls. Below other rows they tell the same time
/// again: who called it, or what a row that calls the first one calls.
fn with_stacks(functions: Vec<Function>) -> Vec<Function> {
    let mut kept: Vec<Function> = Vec::new();
    let (mut of, mut row) = (None, 0);
    for mut function in functions {
        if function.callers.is_empty() {
            row = kept.len();
        } else {
            let above = kept
                .get(row)
                .filter(|f| f.with_called.is_some() && f.share < LEAST);
            let Some(above) = above.filter(|_| *of.get_or_insert(row) == row) else {
                continue;
            };
            (function.kernel, function.module) = (above.kernel, above.module.clone());
        }
        kept.push(function);
    }
    kept
}

/// `17.07%  haproxy  libcrypto.so.3  [.] symbol`, perf top without the command, or with callers two shares.
fn perf_row(line: &str) -> Option<Function> {
    let Some(mark) = line.find("[.]").or_else(|| line.find("[k]")) else {
        return perf_stack(line);
    };
    let kernel = line[mark..].starts_with("[k]");
    let mut words = line[..mark]
        .split(|c: char| c.is_whitespace() || c == '|')
        .filter(|w| !w.is_empty() && w.bytes().any(|b| b.is_ascii_alphanumeric()));
    let percent = |w: &str| w.strip_suffix('%')?.parse::<f64>().ok();
    let mut share = percent(words.next()?)?;
    let mut rest: Vec<&str> = words.collect();
    let mut with_called = None;
    if let Some(own) = rest.first().and_then(|w| percent(w)) {
        with_called = Some(share / 100.0);
        share = own;
        rest.remove(0);
    }
    // Samples may stand before the names.
    rest.retain(|w| w.parse::<f64>().is_err());
    let symbol = line[mark + 3..]
        .split(" - ")
        .next()
        .unwrap_or_default()
        .trim();
    let symbol = symbol
        .split("  ")
        .next()
        .unwrap_or_default()
        .trim_matches(['|', '`', ' ']);
    (!symbol.is_empty() && (0.0..=100.0).contains(&share)).then(|| Function {
        share: share / 100.0,
        callers: Vec::new(),
        with_called,
        symbol: symbol.to_owned(),
        module: if kernel {
            "kernel".to_owned()
        } else {
            (*rest.last().unwrap_or(&"")).to_owned()
        },
        thread: match rest.as_slice() {
            [thread, .., _] => (*thread).to_owned(),
            _ => String::new(),
        },
        kernel,
    })
}

/// Rows by which a list of shares is known for a profile: a runtime's collector, and what the inspector of Chrome adds.
const COLLECTORS: [&str; 6] = [
    "(garbage collector)",
    "(program)",
    "(idle)",
    " GC ",
    "garbage collection",
    "Garbage collection",
];

/// `| 39% | JSON.stringify |` as people sum a profile up, and `1234.5 ms 41.2 % 1300.0 ms 43.4 % stringify app.js:10`
/// of Chrome's inspector, its own time first.
fn share_row(line: &str) -> Option<Function> {
    let bars = |c: char| ['|', '\u{2502}'].contains(&c);
    let percent = |w: &str| w.trim().strip_suffix('%')?.trim().parse::<f64>().ok();
    let cells: Vec<&str> = line.trim().trim_matches(bars).split(bars).collect();
    let (share, symbol) = match cells.as_slice() {
        [share, symbol] => (percent(share)?, symbol.trim().to_owned()),
        [whole] => {
            let words: Vec<&str> = whole.split_whitespace().collect();
            let [_, "ms", own, "%", _, "ms", _, "%", symbol @ ..] = words.as_slice() else {
                return None;
            };
            (own.parse().ok()?, symbol.join(" "))
        }
        _ => return None,
    };
    let named = symbol.chars().any(char::is_alphabetic) && (0.0..=100.0).contains(&share);
    named.then(|| Function {
        share: share / 100.0,
        symbol,
        ..Function::default()
    })
}

/// `1.23s 12.3% 45.6% 2.34s 23.4%  runtime.mallocgc`.
fn pprof_row(line: &str) -> Option<Function> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let percent = |i: usize| words.get(i)?.strip_suffix('%')?.parse::<f64>().ok();
    let (share, _, _) = (percent(1)?, percent(2)?, percent(4)?);
    let amount = words.first()?;
    seconds(amount).or_else(|| amount.trim_end_matches(char::is_alphabetic).parse().ok())?;
    let symbol = words.get(5..).filter(|w| !w.is_empty())?.join(" ");
    let symbol = symbol.trim_end_matches("(inline)").trim();
    Some(Function {
        share: share / 100.0,
        symbol: symbol.to_owned(),
        // Go's own names have a package before a point; what the kernel did is below these.
        kernel: false,
        ..Function::default()
    })
}

fn artefact(tool: &str, line: u32, functions: Vec<Function>) -> Artefact {
    let mut profile = empty();
    let mut rows = Vec::new();
    let mut listed = 0.0;
    // Functions that only call others have no share of their own: the last of them is the nearest to the work.
    let working = functions.iter().filter(|f| f.share >= LEAST).count();
    let nearest = functions.iter().rfind(|f| f.with_called.is_some());
    let alone = nearest.filter(|_| functions.len() == 1 || working == 0);
    let alone = alone.map(|f| {
        (
            f.with_called,
            Row {
                label: f.symbol.clone(),
                place: f.module.clone(),
                share: f.share,
            },
        )
    });
    for function in functions.into_iter().filter(|f| f.share >= LEAST) {
        listed += function.share;
        rows.push(Row {
            label: function.symbol.clone(),
            place: function.module.clone(),
            share: function.share,
        });
        let frame = |symbol: &String| Frame {
            symbol: symbol.clone(),
            module: function.module.clone(),
            kernel: function.kernel,
        };
        let callers = function.callers.iter().rev();
        let frames: Vec<Frame> = [&function.symbol]
            .into_iter()
            .chain(callers)
            .map(frame)
            .collect();
        push(
            &mut profile,
            &frames,
            &function.thread,
            function.share * PARTS,
        );
    }
    // What the list does not show is a part of the whole too.
    let rest = Frame {
        symbol: String::new(),
        module: String::new(),
        kernel: false,
    };
    push(&mut profile, &[rest], "", (1.0 - listed).max(0.0) * PARTS);
    let mut done = done(tool, line, profile, rows);
    if let Some((Some(share), row)) = alone {
        done.figures.insert("called.share".into(), share);
        done.figures.insert("called.own_share".into(), row.share);
        done.rows = vec![row];
    }
    done
}

fn done(tool: &str, line: u32, mut profile: Profile, rows: Vec<Row>) -> Artefact {
    profile.samples = profile.stacks.iter().map(|s| s.weight).sum();
    let mut artefact = Artefact {
        tool: tool.to_owned(),
        line,
        rows,
        profile: Some(profile),
        ..Artefact::default()
    };
    artefact.settle();
    artefact
}

fn empty() -> Profile {
    Profile {
        kind: ProfileKind::OnCpu,
        hz: 0,
        samples: 0,
        lost: 0,
        unwound: 0,
        frames: Vec::new(),
        stacks: Vec::new(),
    }
}

/// A stack of more samples or bytes is a broken number; so many of a million lines add up within 64 bits.
const MOST: f64 = 1e13;

fn push(profile: &mut Profile, frames: &[Frame], thread: &str, weight: f64) {
    if weight < 1.0 {
        return;
    }
    let mut indices = Vec::new();
    for frame in frames {
        let at = profile.frames.iter().position(|f| f == frame);
        let at = at.unwrap_or_else(|| {
            profile.frames.push(frame.clone());
            profile.frames.len() - 1
        });
        indices.push(u32::try_from(at).unwrap_or(u32::MAX));
    }
    profile.stacks.push(Stack {
        target: String::new(),
        pid: 0,
        thread: thread.to_owned(),
        frames: indices,
        weight: weight.min(MOST) as u64,
        state: None,
    });
}

/// `nginx;main;ngx_worker;deflate 123`, at least three lines in a row.
fn folded(lines: &[&str]) -> Vec<Artefact> {
    let mut done_ones = Vec::new();
    let mut stacks: Vec<(Vec<Frame>, String, f64)> = Vec::new();
    let mut first = 0;
    for (number, line) in (1_u32..).zip(lines.iter().copied().chain([""])) {
        if let Some((frames, thread, weight)) = folded_line(line) {
            if stacks.is_empty() {
                first = number;
            }
            stacks.push((frames, thread, weight));
            continue;
        }
        if stacks.len() >= 3 {
            done_ones.push(of_stacks("folded stacks", first, &stacks));
        }
        stacks.clear();
    }
    done_ones
}

fn folded_line(line: &str) -> Option<(Vec<Frame>, String, f64)> {
    let (stack, n) = line.trim().rsplit_once(' ')?;
    let weight: f64 = n.parse().ok().filter(|n: &f64| *n >= 1.0)?;
    let frames: Vec<&str> = stack.split(';').collect();
    if frames.len() < 2 || frames.iter().any(|f| f.trim().is_empty()) || stack.contains(" = ") {
        return None;
    }
    let thread = frames[0].to_owned();
    let named = frames.iter().skip(1).map(|f| {
        let kernel = f.ends_with("_[k]") || f.ends_with("_k");
        Frame {
            symbol: f
                .trim_end_matches("_[k]")
                .trim_end_matches("_[j]")
                .to_owned(),
            module: if kernel {
                "kernel".to_owned()
            } else {
                String::new()
            },
            kernel,
        }
    });
    Some((named.collect(), thread, weight))
}

fn of_stacks(tool: &str, line: u32, stacks: &[(Vec<Frame>, String, f64)]) -> Artefact {
    let all: f64 = stacks.iter().map(|(.., n)| n).sum();
    let mut profile = empty();
    let mut rows: BTreeMap<(String, String), f64> = BTreeMap::new();
    for (frames, thread, weight) in stacks {
        push(&mut profile, frames, thread, *weight);
        if let Some(leaf) = frames.last() {
            *rows
                .entry((leaf.symbol.clone(), leaf.module.clone()))
                .or_insert(0.0) += weight / all;
        }
    }
    let rows = rows.into_iter().map(|((label, place), share)| Row {
        label,
        place,
        share,
    });
    done(tool, line, profile, rows.collect())
}

/// perf script: a head with the thread and the event, then a frame a line, leaf first, until an empty line.
fn scripted(lines: &[&str]) -> Vec<Artefact> {
    let mut stacks: Vec<(Vec<Frame>, String, f64)> = Vec::new();
    let mut open: Option<(String, Vec<Frame>)> = None;
    let mut first = 0;
    let mut close = |open: &mut Option<(String, Vec<Frame>)>| {
        if let Some((thread, mut frames)) = open.take()
            && !frames.is_empty()
        {
            frames.reverse();
            stacks.push((frames, thread, 1.0));
        }
    };
    for (number, line) in (1_u32..).zip(lines.iter().copied().chain([""])) {
        if let Some(thread) = script_head(line) {
            close(&mut open);
            first = if first == 0 { number } else { first };
            open = Some((thread, Vec::new()));
        } else if let Some((_, frames)) = open.as_mut() {
            match script_frame(line) {
                Some(frame) => frames.push(frame),
                None => close(&mut open),
            }
        }
    }
    if stacks.len() < 3 {
        return Vec::new();
    }
    vec![of_stacks("perf script", first, &stacks)]
}

/// Stacks of SystemTap (sample-bt, print_ubacktrace): ` 0x7f15 : bn_sqr_comba4+0x26f3/0x88d0 [/lib/libcrypto.so.1.0.0]`
/// a frame, leaf first, and below them how often.
fn by_address(lines: &[&str]) -> Option<Artefact> {
    let mut stacks: Vec<(Vec<Frame>, String, f64)> = Vec::new();
    let mut open: Vec<Frame> = Vec::new();
    let mut first = 0;
    for (number, line) in (1_u32..).zip(lines) {
        let counted = line.trim().parse::<u64>().ok().filter(|n| *n > 0);
        if let Some(frame) = address_frame(line) {
            first = if first == 0 { number } else { first };
            open.push(frame);
        } else if let Some(n) = counted.filter(|_| !open.is_empty()) {
            open.reverse();
            stacks.push((std::mem::take(&mut open), String::new(), n as f64));
        } else {
            open.clear();
        }
    }
    if stacks.is_empty() {
        return None;
    }
    let mut done = of_stacks("SystemTap", first, &stacks);
    // Without callers it is a list of addresses, of which only the longest part may be shown.
    if stacks.iter().all(|(frames, ..)| frames.len() == 1) {
        done.profile = None;
        let all: f64 = stacks.iter().map(|(.., n)| n).sum();
        let numbers = |row: &Row| BIGNUMS.iter().any(|b| row.label.starts_with(b));
        let numbers = done
            .rows
            .iter()
            .filter(|r| numbers(r))
            .map(|r| r.share)
            .sum();
        done.figures.insert("addresses.samples".into(), all);
        done.figures
            .insert("addresses.bignum_share".into(), numbers);
    }
    Some(done)
}

/// Beginnings of OpenSSL's functions for numbers of thousands of bits.
const BIGNUMS: [&str; 6] = ["bn_", "BN_", "rsaz_", "RSAZ_", "ecp_nistz", "EC_"];

fn address_frame(line: &str) -> Option<Frame> {
    let (address, rest) = line.trim().split_once(" : ")?;
    let hex = address.strip_prefix("0x")?;
    hex.bytes().all(|b| b.is_ascii_hexdigit()).then_some(())?;
    let (symbol, module) = rest.rsplit_once(" [")?;
    let module = module.split([']', '+']).next().unwrap_or(module);
    let kernel = module == "kernel";
    let file = module.rsplit('/').next().unwrap_or(module);
    Some(Frame {
        symbol: symbol
            .split("+0x")
            .next()
            .unwrap_or(symbol)
            .trim()
            .to_owned(),
        module: file.to_owned(),
        kernel,
    })
}

/// `nginx 1234 [001] 12345.678901: 250000 cycles:`.
fn script_head(line: &str) -> Option<String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let at = words.iter().position(|w| {
        w.strip_suffix(':')
            .is_some_and(|t| t.contains('.') && t.bytes().all(|b| b.is_ascii_digit() || b == b'.'))
    })?;
    let event = words.last()?.ends_with(':') && at + 1 < words.len();
    (event && at >= 2 && !line.starts_with(char::is_whitespace)).then(|| words[0].to_owned())
}

/// `  ffffffff8106 do_syscall_64+0x5b ([kernel.kallsyms])`.
fn script_frame(line: &str) -> Option<Frame> {
    let line = line.trim();
    let (address, rest) = line.split_once(' ')?;
    if address.len() < 4 || !address.bytes().all(|b| b.is_ascii_hexdigit()) {
        return None;
    }
    let (symbol, module) = rest.rsplit_once(" (")?;
    let module = module.trim_end_matches(')');
    let kernel = module.starts_with('[');
    Some(Frame {
        symbol: symbol.split("+0x").next().unwrap_or(symbol).to_owned(),
        module: if kernel {
            "kernel".to_owned()
        } else {
            module.rsplit('/').next().unwrap_or(module).to_owned()
        },
        kernel,
    })
}
