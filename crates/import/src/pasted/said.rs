//! What a text says in its own words, whoever wrote it: the lines that say most, what it advises, the settings that it
//! names. [`read`] is the last reader: a text with a sentence of a program in it is not refused.
//!
//! A sentence of a program has signs that prose has not: names of classes and functions, paths, brackets, numbers with
//! their unit. The surprise is that no sign is enough alone, because people write such words too.

use super::about;
use super::events::{artefact, told};
use super::messages::{LINE, PERSON, STRONG, TELLING, has, longest, message, unstamped};
use super::pieces::{seconds, short};
use record::pasted::{Artefact, Row, Said};

/// Bytes of a text that are kept from its begin and from its end.
const BEGIN: usize = 48 << 10;
const END: usize = 16 << 10;
/// Telling lines, sentences of advice and names of settings that are kept.
const LINES: usize = 4;
const ADVICE: usize = 2;
const NAMES: usize = 3;
/// How much a line tells that is quoted beside what a reader found.
const QUOTED: f64 = 3.5;
/// Lines of one record that is broken, the fields of one, and the words of a sentence in it.
const BROKEN: usize = 8;
const FIELDS: usize = 8;
const FEW: usize = 4;
/// Words of what a person quotes of a program at most.
const CITED: usize = 20;
/// So many lines with a sign of a program are a program's, and so many words a sentence that reports.
const MARKED: usize = 3;
const REPORT: usize = 5;
/// Lines that are looked at.
const LOOKED_AT: usize = 5_000;

/// Words that tell something beyond those of a log's messages, and how much.
const FURTHER: [(&str, f64); 39] = [
    ("full table", 4.0),
    ("full collection", 4.0),
    ("full scan", 4.0),
    ("scanned", 3.0),
    ("disabled", 3.0),
    ("discard", 3.0),
    ("waited", 3.0),
    ("waiting for", 2.0),
    ("detected", 3.0),
    ("missing", 2.5),
    ("unused", 2.5),
    ("skipp", 2.0),
    ("ignor", 2.0),
    ("expired", 3.0),
    ("denied", 2.5),
    ("invalid", 2.0),
    ("not found", 2.0),
    ("retry", 2.0),
    ("retries", 2.0),
    ("ended", 1.5),
    ("shut down", 2.0),
    ("shutting down", 2.0),
    ("suspend", 2.0),
    ("busy", 2.0),
    ("too frequent", 4.0),
    ("too often", 4.0),
    ("too small", 4.0),
    ("too low", 4.0),
    ("too high", 4.0),
    ("too big", 4.0),
    ("too short", 4.0),
    ("larger than", 3.0),
    ("more than", 1.5),
    ("behind", 1.5),
    ("unstable", 3.0),
    ("degraded", 3.0),
    ("deprecated", 2.0),
    ("interrupted", 2.0),
    ("idle", 1.0),
];

/// The text's own words.
pub(super) fn of(texts: &[&String]) -> Said {
    let mut said = Said::default();
    for text in texts {
        let lines: Vec<&str> = text.lines().take(LOOKED_AT).collect();
        said.text += &kept(text);
        said.text.push('\n');
        said.advice.extend(advice(&lines));
        said.settings.extend(settings(&lines));
        let telling = telling(&lines, false);
        let best = telling.first().map(|(_, line)| short(unstamped(line)));
        said.best = said.best.take().or(best);
        let telling = telling.into_iter().take(LINES);
        let telling = telling.filter(|(score, _)| *score >= QUOTED);
        said.telling
            .extend(telling.map(|(_, line)| short(unstamped(line))));
    }
    dedup(&mut said.advice, ADVICE);
    dedup(&mut said.settings, NAMES);
    dedup(&mut said.telling, LINES);
    said
}

/// The first of each, and at most so many.
fn dedup(all: &mut Vec<String>, most: usize) {
    let mut kept: Vec<String> = Vec::new();
    for one in all.drain(..) {
        if kept.len() < most && !kept.contains(&one) {
            kept.push(one);
        }
    }
    *all = kept;
}

/// A text without its middle.
fn kept(text: &str) -> String {
    if text.len() <= BEGIN + END {
        return text.to_owned();
    }
    let (begin, end) = (
        text.floor_char_boundary(BEGIN),
        text.ceil_char_boundary(text.len() - END),
    );
    format!("{}\n{}", &text[..begin], &text[end..])
}

/// The sentences in quotes of a log that is written as comma separated values, each a line; lines that a mail or a
/// terminal broke are one.
fn quoted(lines: &[&str]) -> Vec<String> {
    let mut done = Vec::new();
    let (mut open, mut joined) = (String::new(), 0);
    for line in lines {
        if joined > 0 {
            open.push(' ');
        }
        open += line.trim();
        joined += 1;
        let whole = open.matches('"').count().is_multiple_of(2);
        if whole || joined >= BROKEN {
            if whole && open.matches(',').count() >= FIELDS {
                let fields = open.replace("\"\"", "'");
                let fields = fields.split('"').skip(1).step_by(2);
                let sentences = fields.filter(|f| f.split_whitespace().count() >= FEW);
                done.extend(sentences.map(str::to_owned));
            }
            open.clear();
            joined = 0;
        }
    }
    done
}

/// The most telling lines of a text in which no other reader found anything.
pub(super) fn read(lines: &[&str]) -> Option<Artefact> {
    let lines = &lines[..lines.len().min(LOOKED_AT)];
    let fields = quoted(lines);
    let sentences: Vec<&str> = fields.iter().map(String::as_str).collect();
    let lines = if sentences.is_empty() {
        lines
    } else {
        &sentences
    };
    let marked = || lines.iter().filter(|line| signs(line) > 0).nth(MARKED - 1);
    let programs = lines.iter().any(|line| of_a_program(line)) || marked().is_some();
    // A page or a person may say how long something took, and no more than that.
    let reported = || lines.iter().any(|line| is_reported(line));
    if !programs && !reported() {
        return None;
    }
    let telling = telling(lines, !programs);
    let (first, _) = telling.first().copied()?;
    let at = |line: &str| lines.iter().position(|l| *l == line).unwrap_or(0);
    let mut found = artefact("sentences", at(telling[0].1) as u32 + 1);
    found.figures.insert("sentence.rows".into(), 1.0);
    if first >= STRONG {
        found.figures.insert("sentence.telling".into(), 1.0);
    }
    for (_, line) in telling.into_iter().take(LINES) {
        let label = short(unstamped(line));
        if found.rows.iter().all(|row| row.label != label) {
            found.rows.push(Row::new(label, 0.0));
        }
    }
    about::add(&mut found, lines);
    told(found)
}

/// Lines of programs with how much they tell, the most telling first.
fn telling<'a>(lines: &[&'a str], persons: bool) -> Vec<(f64, &'a str)> {
    let scored = lines.iter().filter_map(|line| {
        let line = line.trim();
        let words = line
            .split_whitespace()
            .any(|w| w.chars().filter(|c| c.is_alphabetic()).count() >= 3);
        if !words || line.len() > LINE || !persons && of_a_person(line) {
            return None;
        }
        let tells = tells(&line.to_ascii_lowercase());
        let signs = signs(line).min(2) as f64;
        let time = match longest(line) {
            Some(s) if s >= 1.0 => 2.0,
            Some(s) if s >= 0.1 => 0.5,
            _ => 0.0,
        };
        let advises = f64::from(u8::from(sentences(line).any(is_advice)));
        // A frame of a stack says where and not what.
        let frame =
            line.starts_with("at ") || line.contains(":in `") || line.starts_with("File \"");
        let nothing = if moves_nothing(line) { 3.0 } else { 0.0 };
        let score = tells + 0.5 * signs + time + magnitude(line) + nothing + 2.0 * advises;
        (tells + signs + time + nothing > 0.0)
            .then_some((if frame { score - 2.0 } else { score }, line))
    });
    let mut scored: Vec<(f64, &str)> = scored.collect();
    scored.sort_by(|a, b| b.0.total_cmp(&a.0));
    scored.dedup_by(|a, b| a.1 == b.1);
    scored
}

/// What a line's largest number tells: half a point that there is one, and 1.5 from a million on.
fn magnitude(line: &str) -> f64 {
    if !line.contains(|c: char| c.is_ascii_digit()) {
        return 0.0;
    }
    let numbers = line.split(|c: char| !c.is_ascii_alphanumeric() && c != '.');
    let numbers = numbers.filter_map(|w| w.parse::<f64>().ok());
    0.5 + numbers.fold(1.0, f64::max).log10().min(6.0) / 6.0
}

/// `Upload: 0.00 Mbit/s`: a rate of nothing, where there should be one.
fn moves_nothing(line: &str) -> bool {
    let words: Vec<&str> = line.split_whitespace().collect();
    words.windows(2).any(|pair| {
        let nothing = pair[0].parse::<f64>().is_ok_and(|n| n.abs() < f64::EPSILON);
        nothing && (pair[1].ends_with("/s") || pair[1].ends_with("bps"))
    })
}

/// How much the words of a line in small letters tell.
fn tells(lower: &str) -> f64 {
    let known = TELLING.iter().map(|(word, _, much)| (*word, *much));
    let all = known.chain(FURTHER);
    let found =
        all.filter(|(word, much)| lower.contains(word) && has(lower, word, *much >= STRONG));
    found.map(|(_, much)| much).fold(0.0, f64::max)
}

/// Whether a sentence says of something how long it took.
fn is_reported(line: &str) -> bool {
    let words = line.split_whitespace().count();
    words >= REPORT && line.len() <= LINE && longest(line).is_some_and(|s| s > 0.0)
}

fn of_a_person(line: &str) -> bool {
    let lower = format!(" {} ", line.to_ascii_lowercase());
    // Programs ask and advise too.
    let own = [" you ", " your ", "please", "?"];
    PERSON
        .iter()
        .filter(|w| !own.contains(w))
        .any(|w| lower.contains(w))
}

/// Whether a line is a sentence of a program by its form.
fn of_a_program(line: &str) -> bool {
    let line = line.trim();
    let words = line
        .split_whitespace()
        .filter(|w| w.chars().filter(|c| c.is_alphabetic()).count() >= 2)
        .count();
    if words < 2 || line.len() > LINE || of_a_person(line) {
        return false;
    }
    let signs = signs(line);
    let tells = tells(&line.to_ascii_lowercase());
    signs >= 2 || signs >= 1 && tells >= 2.0 || signs >= 1 && sentences(line).any(is_advice)
}

/// Words with which a line of a statement begins.
const STATEMENTS: [&str; 16] = [
    "SELECT", "INSERT", "UPDATE", "DELETE", "FROM", "WHERE", "JOIN", "ORDER", "GROUP", "EXPLAIN",
    "WITH", "MATCH", "PROFILE", "ALTER", "CREATE", "MERGE",
];

/// What a person quotes of a program: lines behind a mark, and words in quotes, where nothing else is a program's.
pub(super) fn quoted_by_a_person(text: &str) -> Option<Artefact> {
    let mut found = artefact("sentences", 0);
    for (number, line) in (1_u32..).zip(text.lines()).take(LOOKED_AT) {
        let behind = line.trim_start().strip_prefix('>').map(str::trim);
        let marks = ['"', '`', '\u{201c}', '\u{201d}'];
        let inside = line.split(marks).skip(1).step_by(2).map(str::trim);
        for quote in behind
            .into_iter()
            .chain(inside.filter(|_| behind.is_none()))
        {
            let words = quote.split_whitespace().count();
            if (2..=CITED).contains(&words) && quote.contains(char::is_alphabetic) {
                found.begin_at(number);
                found.rows.push(Row::new(short(quote), 0.0));
            }
        }
    }
    found.rows.truncate(LINES);
    found.figures.insert("sentence.rows".into(), 1.0);
    let lines: Vec<&str> = text.lines().collect();
    about::add(&mut found, &lines);
    (!found.rows.is_empty()).then(|| told(found))?
}

/// How many kinds of signs of a program a line has.
fn signs(line: &str) -> usize {
    let words = || line.split_whitespace();
    let apart = |c: char| c.is_whitespace() || "()[]{}\"'`,;=|".contains(c);
    let names = || {
        line.split(apart)
            .map(|w| w.trim_matches(['.', ':', '?', '!']))
    };
    let marks = ["=>", "->", "()", "`", "::", "[:", "!!!", "={", "=\""];
    let bracketed = line.contains(['[', '{']) && line.contains([']', '}']);
    let kinds = [
        message(line).is_some_and(|(level, _)| level >= 0.0),
        names().any(is_name),
        names().any(|w| w.starts_with('/') || is_place(w)),
        names().any(|w| seconds(w).is_some() && !w.ends_with(|c: char| c.is_ascii_digit())),
        marks.iter().any(|m| line.contains(m)) || bracketed,
        words().next().is_some_and(|w| STATEMENTS.contains(&w)),
        words().any(|w| {
            w.split_once('=').is_some_and(|(name, value)| {
                name.len() > 1 && name.contains(char::is_alphabetic) && !value.is_empty()
            })
        }),
    ];
    kinds.into_iter().filter(|k| *k).count()
}

/// `max_connections`, `HikariPool`, `org.apache.kafka`: a name of a program and no word of a language.
fn is_name(word: &str) -> bool {
    let letters = word.chars().filter(|c| c.is_ascii_alphabetic()).count();
    let parts = |mark: char| {
        word.split(mark)
            .filter(|p| p.len() > 1 && p.contains(|c: char| c.is_ascii_alphabetic()))
            .count()
    };
    let pairs = word.as_bytes().windows(2);
    let humps = pairs
        .filter(|p| p[0].is_ascii_lowercase() && p[1].is_ascii_uppercase())
        .count();
    letters >= 4 && (parts('_') >= 2 || word.matches('.').count() >= 2 && letters >= 6 || humps > 0)
}

/// `Server.java:47`, `index.php`: a place in a program.
fn is_place(word: &str) -> bool {
    const ENDS: [&str; 14] = [
        "java", "py", "rb", "php", "js", "ts", "go", "rs", "cs", "cpp", "c", "scala", "ex", "erb",
    ];
    let file = word.split(':').next().unwrap_or(word);
    file.rsplit_once('.')
        .is_some_and(|(name, end)| name.len() > 1 && ENDS.contains(&end))
}

/// The sentences of a line, without its stamp.
fn sentences(line: &str) -> impl Iterator<Item = &str> {
    let mut rest = unstamped(line.trim());
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let ends = [". ", "! ", "? "].iter().filter_map(|e| rest.find(e));
        let end = ends.min().map_or(rest.len(), |at| at + 1);
        let (sentence, behind) = rest.split_at(end);
        rest = behind.trim_start();
        Some(sentence)
    })
}

/// Words with which a clause begins that says what to do.
const BEGINS: [&str; 34] = [
    "try ",
    "consider ",
    "increase ",
    "reduce ",
    "decrease ",
    "add to your ",
    "add an index",
    "make sure ",
    "you should ",
    "you may ",
    "you might ",
    "you need to ",
    "you can ",
    "you must ",
    "you probably ",
    "are you missing",
    "did you forget",
    "please ",
    "see http",
    "check that ",
    "check your ",
    "check whether ",
    "ensure ",
    "avoid ",
    "raise ",
    "lower the ",
    "enable the ",
    "disable the ",
    "upgrade to ",
    "restart the ",
    "hint: ",
    "tip: ",
    "it is recommended",
    "recommended: ",
];

/// Words of a clause that say so wherever they stand.
const ANYWHERE: [&str; 22] = [
    "consider raising",
    "consider increasing",
    "consider using",
    "consider adding",
    "consider setting",
    "try increasing",
    "try setting",
    "try to increase",
    "need to increase",
    "should be increased",
    "should be set",
    "should set",
    "should use",
    "should increase",
    "must be increased",
    "is recommended",
    "are recommended",
    "we recommend",
    "we suggest",
    "to fix this",
    "to avoid this",
    "by setting ",
];

/// Whether a sentence says what to do.
fn is_advice(sentence: &str) -> bool {
    let lower = sentence.to_ascii_lowercase();
    let lower = lower.trim_start_matches(['-', '*', '#', ' ', '>']);
    let words = lower.split_whitespace().count();
    (3..=45).contains(&words) && begin_of_advice(lower).is_some()
}

/// Where the clause begins that says what to do, in a sentence in small letters.
fn begin_of_advice(lower: &str) -> Option<usize> {
    let begins = |clause: &str| {
        let weak = clause.starts_with("use ") && clause.contains(" instead")
            || clause.starts_with("set ") && clause.contains(" to ")
            || clause.starts_with("run `");
        weak || BEGINS.iter().any(|b| clause.starts_with(b))
    };
    let marks = [": ", ", ", "; ", " - ", "] ", "("];
    let behind = marks.iter().flat_map(|m| lower.match_indices(m));
    let mut clauses = behind
        .map(|(at, m)| at + m.len())
        .filter(|at| begins(&lower[*at..]));
    match begins(lower) {
        true => Some(0),
        false => clauses
            .next()
            .or_else(|| ANYWHERE.iter().any(|w| lower.contains(w)).then_some(0)),
    }
}

/// Words of a clause that is understood without the sentence before it.
const CLAUSE: usize = 5;
/// A longer sentence is not quoted whole.
const WHOLE: usize = 120;

/// The part of a sentence that says what to do; all of it where that part is short.
fn clause(sentence: &str) -> &str {
    let lower = sentence.to_ascii_lowercase();
    let at = begin_of_advice(&lower).unwrap_or(0);
    let words = sentence[at..].split_whitespace().count();
    match words >= CLAUSE || sentence.len() > WHOLE {
        true => &sentence[at..],
        false => sentence,
    }
}

/// Sentences of a text that say what to do.
fn advice(lines: &[&str]) -> Vec<String> {
    let short_enough = lines.iter().filter(|l| l.len() <= LINE);
    let programs = short_enough.filter(|l| !l.contains(';') || !l.ends_with(['{', '}', ';']));
    let all = programs.flat_map(|line| sentences(line).filter(|s| !of_a_person(s)));
    let advice = all.filter(|s| is_advice(s)).map(|s| short(clause(s)));
    advice.take(ADVICE).collect()
}

/// Words beside which a name may be a setting's.
const BESIDE: [&str; 17] = [
    "limit",
    "exceed",
    "maximum",
    "minimum",
    "timeout",
    "timed out",
    "threshold",
    "too ",
    "increase",
    "configur",
    "setting",
    "parameter",
    "property",
    "reached",
    "not enough",
    "raising",
    "option",
];
/// Parts of names of settings.
const PARTS: [&str; 23] = [
    "somaxconn",
    "max",
    "min",
    "limit",
    "timeout",
    "size",
    "threshold",
    "interval",
    "buffer",
    "pool",
    "conn",
    "worker",
    "backlog",
    "quota",
    "memory",
    "thresh",
    "retries",
    "burst",
    "concurren",
    "children",
    "thread",
    "cache",
    "queue",
];

/// Names of settings beside words of a limit.
fn settings(lines: &[&str]) -> Vec<String> {
    let mut found = Vec::new();
    for line in lines.iter().filter(|l| l.len() <= LINE && !of_a_person(l)) {
        if let Some(none) = set_to_nothing(line) {
            found.push(none);
            continue;
        }
        let lower = line.to_ascii_lowercase();
        // Names in a statement are columns.
        let statement = lower.contains("select ") || lower.contains("where ");
        if statement || !BESIDE.iter().any(|w| lower.contains(w)) {
            continue;
        }
        let apart = |c: char| c.is_whitespace() || "[]{}\"'`,;<>".contains(c);
        let names = line.split(apart).filter_map(setting);
        found.extend(names.map(str::to_owned));
        if found.len() >= NAMES {
            break;
        }
    }
    found
}

/// `max_queued_messages 0` of a configuration: a bound of nothing, or of none.
fn set_to_nothing(line: &str) -> Option<String> {
    let line = line.trim().trim_end_matches(';');
    let (name, value) = line
        .split_once('=')
        .or_else(|| line.split_once(": "))
        .or_else(|| line.split_once(' '))?;
    let bound = ["max", "limit", "timeout", "size", "pool", "cache"];
    let is_bound = name
        .split(['.', '_', '-'])
        .any(|part| bound.contains(&part));
    (value.trim() == "0" && is_bound && setting(name.trim()).is_some())
        .then(|| format!("{} {}", name.trim(), value.trim()))
}

/// `max.poll.interval.ms`, `tombstone_failure_threshold`, `-XX:ReservedCodeCacheSize`, `pm.max_children`.
fn setting(word: &str) -> Option<&str> {
    let word = word.trim_matches(['.', ':', ')', '(', '?', '!']);
    let name = word.split('=').next().unwrap_or(word);
    if name.starts_with("-XX:") {
        return Some(name);
    }
    let bare = name.trim_start_matches("--");
    let shape = bare.len() >= 6
        && bare.starts_with(|c: char| c.is_ascii_lowercase())
        && bare
            .chars()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "._-".contains(c));
    let whole = bare
        .split(['.', '_', '-'])
        .filter(|p| !p.is_empty())
        .count();
    let marked = bare.contains('_') || bare.matches('.').count() >= 2 || name.starts_with("--");
    let mut words = bare.split(['.', '_', '-']);
    let is_setting = words.any(|w| PARTS.iter().any(|p| w.starts_with(p)));
    (shape && whole >= 2 && marked && is_setting && !is_place(bare) && bare.len() <= 60)
        .then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(text: &str) -> Said {
        of(&[&text.to_owned()])
    }

    #[test]
    fn what_a_text_advises_is_kept_and_what_it_says_else_is_not() {
        for (text, advice) in [
            (
                "VM warning: CodeCache is full. Compiler has been disabled.\nVM warning: Try increasing the code cache size using -XX:ReservedCodeCacheSize=\n",
                "Try increasing the code cache size using -XX:ReservedCodeCacheSize=",
            ),
            (
                "Knex: Timeout acquiring a connection. The pool is probably full. Are you missing a .transacting(trx) call?\n",
                "Are you missing a .transacting(trx) call?",
            ),
            (
                "[pool www] server reached pm.max_children setting (5), consider raising it\n",
                "[pool www] server reached pm.max_children setting (5), consider raising it",
            ),
            (
                "ERROR 1205 (HY000): Lock wait timeout exceeded; try restarting transaction\n",
                "ERROR 1205 (HY000): Lock wait timeout exceeded; try restarting transaction",
            ),
        ] {
            let found = said(text).advice;
            assert_eq!(found, [advice], "{text}");
        }
        for text in [
            "I think that I should try something, and my colleague agrees.\n",
            "GET /try?consider=1 200\nuse of the cache: 12\nset x 3\n",
        ] {
            assert!(
                said(text).advice.is_empty(),
                "{text}: {:?}",
                said(text).advice
            );
        }
    }

    #[test]
    fn settings_are_named_beside_a_limit() {
        let of = |text: &str| said(text).settings;
        assert_eq!(
            of("pool exceeded max.poll.interval.ms now"),
            ["max.poll.interval.ms"]
        );
        assert_eq!(
            of("limit (see tombstone_failure_threshold)"),
            ["tombstone_failure_threshold"]
        );
        assert_eq!(
            of("increase it using -XX:MaxDirectMemorySize="),
            ["-XX:MaxDirectMemorySize"]
        );
        assert!(of("timeout at www.example.org in worker_pool.py:12").is_empty());
    }

    #[test]
    fn the_most_telling_line_stands_first() {
        let text = "com.a.driver.ReadFailure: failure during read (1 required)\n\nScanned over 100001 tombstones during query\n";
        assert!(said(text).telling[0].starts_with("Scanned over 100001"));
        let trace =
            "+---[4046.39ms] a.b.Controller:scores()\n  +---[0.02ms] a.b.Response:<init>()\n";
        assert!(said(trace).telling[0].contains("4046.39ms"));
    }

    #[test]
    fn a_sentence_of_a_program_is_one_by_its_signs() {
        for line in [
            "Application maximum poll interval (300000ms) exceeded by 88ms",
            "WARNI [urllib3.connectionpool] Connection pool is full, discarding connection: 127.0.0.1",
            "  Filter(pred=\"hasLabel(n:Attachment)\", _rows=0, _db_hits=123142)",
            "USE eager loading detected CasaCase => [:judge]",
        ] {
            assert!(of_a_program(line), "{line}");
        }
        for line in [
            "It took 30 seconds.",
            "error handling is limited in this version: it was reset",
            "Time: 12",
            "My server.js is slow: it took 30s, and I see max_connections exceeded",
        ] {
            assert!(!of_a_program(line), "{line}");
        }
    }
}
