//! The rules of the tree: each is a function of one file's path and text that returns what breaks it.
//!
//! `main.rs` applies them to every file. Below each stands its canary, in `tests`: a text that breaks the rule and
//! must be found, so that a rule that has gone blind fails here.

use crate::tree::{Finding, code_lines, crate_of, mentioning, quoted, table};
use std::collections::BTreeMap;

/// Longest line of a comment: the formatter breaks code, and a message stays in one piece to be searched for.
const LONGEST_COMMENT: usize = 120;

/// Crates that are functions of their arguments.
pub const PURE: [&str; 6] = ["record", "plan", "stack", "analysis", "import", "report"];

/// Where they are not: the devices below `stack`, and the namespaces that are made around them.
const IMPURE_PLACES: [&str; 2] = ["crates/stack/src/device/", "crates/stack/src/lab"];

/// What a pure crate may not name: files, sockets, clocks, the process and its surroundings.
const IMPURE: [&str; 15] = [
    "std::fs",
    "fs::",
    "TcpStream",
    "TcpListener",
    "UdpSocket",
    "UnixStream",
    "UnixListener",
    "to_socket_addrs",
    "Instant",
    "SystemTime",
    "jiff",
    "libc",
    "std::process",
    "process::",
    "env::",
];

/// Crate -> crates of ours that it may use, from the table in ARCHITECTURE.md.
pub fn allowed_dependencies(architecture: &str) -> BTreeMap<String, Vec<String>> {
    let rows = table(architecture, "Code map");
    let names: Vec<String> = rows.iter().flat_map(|row| quoted(&row[0])).collect();
    rows.iter()
        .map(|row| {
            let may = if row[2] == "everything" {
                names.clone()
            } else {
                quoted(&row[2])
            };
            (quoted(&row[0])[0].clone(), may)
        })
        .collect()
}

fn manifest(text: &str) -> toml::Table {
    text.parse().expect("cargo has read this manifest already")
}

/// Dependencies on our own crates run in the direction of the table (tests may use what they like).
pub fn direction(allowed: &BTreeMap<String, Vec<String>>, path: &str, text: &str) -> Vec<Finding> {
    let Some(name) = crate_of(path) else {
        return Vec::new();
    };
    let Some(may) = allowed.get(name) else {
        return vec![(
            1,
            format!("crate `{name}` is not in ARCHITECTURE.md's table"),
        )];
    };
    let manifest: toml::Table = text.parse().expect("cargo has read this manifest already");
    ["dependencies", "build-dependencies"]
        .iter()
        .filter_map(|section| manifest.get(*section)?.as_table())
        .flat_map(toml::Table::keys)
        .filter(|used| allowed.contains_key(*used) && !may.contains(used))
        .map(|used| {
            (
                1,
                format!("`{name}` uses `{used}`, which stands beside or above it"),
            )
        })
        .collect()
}

/// A foreign crate that only one of ours may use, so that what it does exists once.
const SOLE_USERS: [(&str, &str); 5] = [
    ("async-nats", "agent"),
    ("tokio", "agent"),
    ("hdrhistogram", "record"),
    ("httparse", "http1"),
    ("rustls", "traffic"),
];

pub fn sole_users(path: &str, text: &str) -> Vec<Finding> {
    let Some(name) = crate_of(path) else {
        return Vec::new();
    };
    let manifest = manifest(text);
    let used = |what: &str| {
        manifest
            .get("dependencies")
            .is_some_and(|d| d.get(what).is_some())
    };
    SOLE_USERS
        .iter()
        .filter(|(foreign, owner)| name != *owner && used(foreign))
        .map(|(foreign, owner)| {
            (
                1,
                format!("`{name}` uses `{foreign}`, which is `{owner}`'s alone"),
            )
        })
        .collect()
}

/// What only its owner's sources may name, so that what it does exists once: how the codec, the histogram and the
/// kernel's interfaces are spelled.
const SOLE_NAMES: [(&str, &[&str], &str); 4] = [
    ("record", &["hdrhistogram"], "there is one histogram"),
    ("http1", &["httparse"], "there is one HTTP/1 codec"),
    ("traffic", &["rustls"], "there is one TLS transport"),
    (
        "linux",
        &[
            "libc::sched_setaffinity",
            "libc::sched_getaffinity",
            "libc::clock_gettime",
            "ClockId",
            "move_into_link_name_space",
            "SOCK_DIAG",
        ],
        "the kernel is read and asked in one place",
    ),
];

/// How code takes a text apart.
const TAKING_APART: [&str; 7] = [
    "strip_prefix",
    "starts_with",
    "split",
    "find(",
    "position(",
    "windows(",
    "matches!(",
];

/// What only its owner may do, as its sources show it: name the foreign crate or the kernel's call, or take a message
/// of HTTP/1 apart by hand.
pub fn sole_owners(path: &str, text: &str) -> Vec<Finding> {
    let Some(name) = crate_of(path) else {
        return Vec::new();
    };
    let lines = code_lines(path, text);
    let of_others = SOLE_NAMES.iter().filter(|(owner, ..)| name != *owner);
    let mut found: Vec<Finding> = of_others
        .flat_map(|(owner, words, why)| mentioning(&lines, words, &format!("{why}, `{owner}`'s")))
        .collect();
    let by_hand = |line: &&(usize, &str)| {
        let message = line.1.contains("\"HTTP/") || line.1.contains(r"\r\n\r\n");
        message && TAKING_APART.iter().any(|word| line.1.contains(word))
    };
    if name != "http1" {
        let by_hand = lines.iter().filter(by_hand);
        found.extend(by_hand.map(|(n, _)| (*n, "HTTP/1 is taken apart by `http1`".to_owned())));
    }
    found
}

pub fn purity(path: &str, text: &str) -> Vec<Finding> {
    match crate_of(path) {
        _ if IMPURE_PLACES.iter().any(|place| path.starts_with(place)) => Vec::new(),
        Some(name) if PURE.contains(&name) => {
            let why = format!("`{name}` opens no file, socket or clock");
            mentioning(&code_lines(path, text), &IMPURE, &why)
        }
        _ => Vec::new(),
    }
}

pub fn printing(path: &str, text: &str) -> Vec<Finding> {
    // A build script speaks to cargo by what it prints.
    if crate_of(path) == Some("prony") || path.ends_with("/build.rs") {
        return Vec::new();
    }
    let words = [
        "println!",
        "eprintln!",
        "print!",
        "eprint!",
        "dbg!",
        "process::exit",
    ];
    mentioning(
        &code_lines(path, text),
        &words,
        "only the `prony` crate prints or exits",
    )
}

pub fn header(path: &str, text: &str) -> Vec<Finding> {
    let starts = if path.ends_with("build.rs") {
        "//"
    } else {
        "//! "
    };
    let missing = !text.starts_with(starts);
    missing
        .then(|| {
            (
                1,
                format!("starts without `{starts}`: what it is and where it stands"),
            )
        })
        .into_iter()
        .collect()
}

/// Public types, traits, functions and constants of a module say what they are; methods, fields and variants where the
/// name does not. The compiler's own lint cannot tell these apart, and asks for comments that repeat a name.
pub fn documented(_path: &str, text: &str) -> Vec<Finding> {
    const ITEMS: [&str; 7] = ["fn", "const", "struct", "enum", "trait", "type", "static"];
    let lines: Vec<&str> = text.lines().collect();
    let is_item = |line: &str| {
        let words = line.strip_prefix("pub ").and_then(|l| l.split(' ').next());
        words.is_some_and(|word| ITEMS.contains(&word))
    };
    // From an item up to what stands above it: attributes may take several lines.
    let said = |at: usize| {
        let above = lines[..at].iter().rev();
        let mut above = above.take_while(|line| !line.is_empty() && **line != "}");
        above.any(|line| line.starts_with("///"))
    };
    lines
        .iter()
        .enumerate()
        .filter(|(at, line)| is_item(line) && !said(*at))
        .map(|(at, line)| (at + 1, format!("says not what it is: `{line}`")))
        .collect()
}

pub fn leftovers(_path: &str, text: &str) -> Vec<Finding> {
    // Assembled, so that this file does not contain them itself.
    let words = [
        concat!("todo", "!"),
        concat!("unimplemented", "!"),
        concat!("FIX", "ME"),
        concat!("XX", "X"),
        concat!("#[", "ignore"),
    ];
    // What a test starts as a process of its own has to look like a test, and says that it is none.
    let helper = concat!("#[", "ignore = \"not a test: ");
    // And what takes minutes names the target of the Makefile that runs it.
    let long = concat!("#[", "ignore = \"long: make ");
    let lines: Vec<_> = (1..)
        .zip(text.lines())
        .filter(|(_, line)| !line.contains(helper) && !line.contains(long))
        .collect();
    mentioning(&lines, &words, "unfinished work is not committed")
}

/// A path that exists on somebody's machine alone.
pub fn machine_paths(_path: &str, text: &str) -> Vec<Finding> {
    let places = [
        concat!("/ho", "me/"),
        concat!("/wo", "rk/"),
        concat!("/ro", "ot/"),
    ];
    (1..)
        .zip(text.lines())
        .flat_map(|(number, line)| {
            let at = places
                .iter()
                .filter(move |place| starts_a_path(line, place));
            at.map(move |place| (number, format!("`{place}`: a path of one machine")))
        })
        .collect()
}

/// Whether `place` begins a path in `line`: not the middle of one, as in a URL or a relative path.
pub fn starts_a_path(line: &str, place: &str) -> bool {
    line.match_indices(place).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        before.is_none_or(|c| !(c.is_alphanumeric() || "._-}~*".contains(c)))
    })
}

pub fn long_comments(_path: &str, text: &str) -> Vec<Finding> {
    (1..)
        .zip(text.lines())
        .filter(|(_, line)| line.trim_start().starts_with(['/', '#']))
        .map(|(number, line)| (number, line.chars().count()))
        .filter(|(_, length)| *length > LONGEST_COMMENT)
        .map(|(number, length)| {
            (
                number,
                format!("{length} characters, at most {LONGEST_COMMENT}"),
            )
        })
        .collect()
}

/// In `[workspace.dependencies]` a comment stands above every crate that is not ours.
pub fn reasons(path: &str, text: &str) -> Vec<Finding> {
    if path != "Cargo.toml" {
        return Vec::new();
    }
    let lines: Vec<&str> = text.lines().collect();
    let from = lines
        .iter()
        .position(|l| *l == "[workspace.dependencies]")
        .map_or(lines.len(), |i| i + 1);
    let inside = |i: &usize| !lines[from..=*i].iter().any(|l| l.starts_with('['));
    (from..lines.len())
        .take_while(inside)
        .filter(|&i| is_foreign_dependency(lines[i]) && !lines[i - 1].starts_with("# "))
        .map(|i| (i + 1, format!("no reason above `{}`", lines[i])))
        .collect()
}

pub fn is_foreign_dependency(line: &str) -> bool {
    line.starts_with(|c: char| c.is_ascii_alphabetic())
        && line.contains(" = ")
        && !line.contains("path = ")
}

/// Names in the tests column of the invariants' table that no test function bears.
pub fn unknown_tests(architecture: &str, sources: &[(String, String)]) -> Vec<String> {
    let exists = |name: &str| {
        let head = format!("fn {name}(");
        sources.iter().any(|(_, text)| text.contains(&head))
    };
    let rows = table(architecture, "Invariants");
    let held_by = rows.iter().filter_map(|row| row.last());
    held_by
        .flat_map(|cell| quoted(cell))
        .filter(|name| !exists(name))
        .collect()
}

/// Signals of the table in ARCHITECTURE.md that no monitor's code names.
pub fn unwritten_signals(architecture: &str, sources: &[(String, String)]) -> Vec<String> {
    let code: Vec<&str> = sources
        .iter()
        .filter(|(path, _)| crate_of(path) == Some("monitor"))
        .flat_map(|(path, text)| code_lines(path, text))
        .map(|(_, line)| line)
        .collect();
    let is_written = |name: &String| {
        code.iter()
            .any(|line| line.contains(&format!("\"{name}\"")))
    };
    let rows = table(architecture, "Signals");
    let names = rows.iter().flat_map(|row| quoted(&row[0]));
    names.filter(|name| !is_written(name)).collect()
}

/// Names that stand nowhere in `document` between backticks.
pub fn undocumented(document: &str, names: impl IntoIterator<Item = String>) -> Vec<String> {
    let is_missing = |name: &String| !document.contains(&format!("`{name}`"));
    names.into_iter().filter(is_missing).collect()
}

/// The name under which serde stores a plain enum variant.
pub fn stored_name(value: impl serde::Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(name)) => name,
        other => panic!("a plain variant is stored as text, not as {other:?}"),
    }
}

mod tests {
    use super::*;

    const NONE: [usize; 0] = [];

    /// Lines that a rule finds in `text`, as if it lay at `path`.
    fn found(rule: impl Fn(&str, &str) -> Vec<Finding>, path: &str, text: &str) -> Vec<usize> {
        rule(path, text).into_iter().map(|(line, _)| line).collect()
    }

    #[test]
    fn canary_direction() {
        let allowed = allowed_dependencies(
            "## Code map\n\n| crate | holds | may use |\n|---|---|---|\n| `low` | x | nothing of ours |\n\
         | `mid` | x | `low` |\n| `top` | x | everything |\n",
        );
        let uses =
            |it: &str| format!("[dependencies]\nserde = \"1\"\n{it} = {{ workspace = true }}\n");
        let check = |path: &str, text: &str| found(|p, t| direction(&allowed, p, t), path, text);
        assert_eq!(check("crates/low/Cargo.toml", &uses("mid")), [1]);
        assert_eq!(check("crates/mid/Cargo.toml", &uses("low")), NONE);
        assert_eq!(check("crates/top/Cargo.toml", &uses("mid")), NONE);
        assert_eq!(check("crates/new/Cargo.toml", &uses("low")), [1]);
        assert_eq!(
            check(
                "crates/low/Cargo.toml",
                "[dev-dependencies]\nmid = { workspace = true }\n"
            ),
            NONE
        );
    }

    #[test]
    fn canary_sole_users() {
        let text = "[dependencies]\nhttparse = { workspace = true }\n";
        assert_eq!(found(sole_users, "crates/monitor/Cargo.toml", text), [1]);
        assert_eq!(found(sole_users, "crates/http1/Cargo.toml", text), NONE);
    }

    #[test]
    fn canary_sole_owners() {
        let text = "use httparse::Request;\nlet s = head.strip_prefix(b\"HTTP/1.\")?;\n\
                    if matches!(v, \"HTTP/1.0\" | \"HTTP/1.1\") {}\nlet at = find(b\"\\r\\n\\r\\n\");\n\
                    let line = format!(\"GET / HTTP/1.1\\r\\n\\r\\n\");\nlet old = v == \"HTTP/1.0\";\n\
                    libc::clock_gettime(x);\n// httparse in a comment\n#[cfg(test)]\nmod tests {\n    use httparse;\n}\n";
        let mut lines = found(sole_owners, "crates/sut/src/x.rs", text);
        lines.sort_unstable();
        assert_eq!(lines, [1, 2, 3, 4, 7]);
        assert_eq!(found(sole_owners, "crates/http1/src/x.rs", text), [7]);
        assert_eq!(found(sole_owners, "crates/sut/tests/x.rs", text), NONE);
    }

    #[test]
    fn canary_purity() {
        let text = "use std::{fs, net};\nlet t = Instant::now();\nlet b = fs::read(p);\nlet not_fs: Instants;\n\
                // std::fs in a comment\n#[cfg(test)]\nmod tests {\n    use std::fs;\n}\n";
        assert_eq!(found(purity, "crates/plan/src/x.rs", text), [2, 3]);
        assert_eq!(found(purity, "crates/traffic/src/x.rs", text), NONE);
        assert_eq!(found(purity, "crates/plan/tests/x.rs", text), NONE);
        assert_eq!(found(purity, "crates/stack/src/tcp/x.rs", text), [2, 3]);
        assert_eq!(found(purity, "crates/stack/src/device/tap.rs", text), NONE);
    }

    #[test]
    fn canary_printing() {
        let text = "fn f() {\n    println!(\"x\");\n    std::process::exit(1);\n}\n";
        assert_eq!(found(printing, "crates/sut/src/x.rs", text), [2, 3]);
        assert_eq!(found(printing, "crates/prony/src/x.rs", text), NONE);
    }

    #[test]
    fn canary_header() {
        assert_eq!(found(header, "crates/x/src/x.rs", "// no\n"), [1]);
        assert_eq!(found(header, "crates/x/src/x.rs", "//! yes\n"), NONE);
        assert_eq!(found(header, "crates/x/build.rs", "// yes\n"), NONE);
    }

    #[test]
    fn canary_documented() {
        let text = "/// What it is.\n#[derive(\n    Debug\n)]\npub struct A {\n    pub b: u8,\n}\n\npub fn bare() {}\n\
                    #[test]\npub const TOO: u8 = 1;\n";
        assert_eq!(found(documented, "crates/x/src/x.rs", text), [9, 11]);
    }

    #[test]
    fn canary_leftovers() {
        let text = concat!("ok\n    todo", "!()\n// FIX", "ME later\n#[", "ignore]\n");
        assert_eq!(found(leftovers, "x.rs", text), [2, 3, 4]);
    }

    #[test]
    fn canary_machine_paths() {
        let text = concat!(
            "see /ho",
            "me/me/x\nhttp://a/ho",
            "me/x\n\"/wo",
            "rk/x\"\n../ro",
            "ot/x\n"
        );
        assert_eq!(found(machine_paths, "x.rs", text), [1, 3]);
    }

    #[test]
    fn canary_long_comments() {
        let long = "x".repeat(LONGEST_COMMENT);
        let text = format!("let a = \"{long}\";\n// {long}\n    /// {}\n", &long[10..]);
        assert_eq!(found(long_comments, "x.rs", &text), [2]);
    }

    #[test]
    fn canary_reasons() {
        let text = "[workspace.dependencies]\nours = { path = \"x\" }\n# Because.\na = \"1\"\nb = \"1\"\n\n\
                    [lints]\nc = \"1\"\n";
        assert_eq!(found(reasons, "Cargo.toml", text), [5]);
        assert_eq!(found(reasons, "crates/x/Cargo.toml", text), NONE);
    }

    #[test]
    fn build_output_is_no_source() {
        let source = ["crates/sut", "crates/sut/src", ".ci"];
        let other = ["target", "crates/sut/target", "results", ".git"];
        assert!(source.into_iter().all(crate::tree::is_source_directory));
        assert!(!other.into_iter().any(crate::tree::is_source_directory));
    }

    #[test]
    fn canary_signals() {
        let signals =
            "## Signals\n\n| signal | kind |\n|---|---|\n| `cpu.user_s` `cpu.made_up` | x |\n";
        let text = "f(\"cpu.user_s\");\n// \"cpu.made_up\"\n".to_owned();
        let sources = [("crates/monitor/src/cpu.rs".to_owned(), text)];
        assert_eq!(unwritten_signals(signals, &sources), ["cpu.made_up"]);
    }

    #[test]
    fn canary_documents() {
        let invariants =
            "## Invariants\n\n| | rule | held by |\n|---|---|---|\n| 1 | x | `real`, `made_up` |\n";
        let sources = [("x.rs".to_owned(), "fn real() {}\n".to_owned())];
        assert_eq!(unknown_tests(invariants, &sources), ["made_up"]);
        assert_eq!(
            undocumented("`there`", ["there".to_owned(), "not".to_owned()]),
            ["not"]
        );
    }
}
