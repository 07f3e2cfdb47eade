//! What databases and caches say of their statements: slow logs, lists of what runs, plans, counters.
//!
//! All become the same figures: how many statements, the longest, how many wait for a lock, with the statement as the
//! row. The surprise is redis, which has one thread: a statement of 15 ms holds everybody else for 15 ms.

use super::events::{artefact, told};
use super::executed::{self, unboxed};
use super::passed::WHOLE;
use super::pieces::{Piece, pieces, seconds, short, value};
use record::pasted::{Artefact, Row};

/// All of them in a text; `wide` is what [`horizontal`] made of it.
pub(super) fn read(lines: &[&str], wide: &[&str]) -> Vec<Artefact> {
    let mut done = Vec::new();
    done.extend(slowlog(lines));
    done.extend(latency(lines));
    done.extend(info(lines));
    done.extend(lengths(lines));
    done.extend(commands(lines));
    done.extend(processes(lines));
    done.extend(process_words(lines));
    done.extend(vertical(lines));
    done.extend(slow_queries(lines));
    done.extend(durations(lines));
    done.extend(activity(lines));
    done.extend(activity(wide));
    done.extend(waits(lines));
    done.extend(executed::read(lines));
    done.extend(plan_without_times(lines));
    done.extend(plan_without_times(wide));
    done.extend(events(lines));
    done.extend(memcached(lines));
    done
}

/// Counts a statement of so many seconds; of those that are alike the longest is the row.
pub(super) fn statement(found: &mut Artefact, line: u32, took: f64, text: &str) {
    found.begin_at(line);
    found.add("database.statements", 1.0);
    found.largest("database.longest_s", took);
    let label = short(text);
    match found.rows.iter_mut().find(|r| r.label == label) {
        Some(row) => row.share = row.share.max(took),
        None => found.rows.push(Row::new(label, took)),
    }
}

/// The longest first.
pub(super) fn sorted(mut found: Artefact) -> Option<Artefact> {
    found.rows.retain(|r| !r.label.is_empty());
    found.largest_first();
    told(found)
}

/// `SLOWLOG GET`: number, time, microseconds, then the words of the command.
fn slowlog(lines: &[&str]) -> Option<Artefact> {
    let mut found = artefact("redis SLOWLOG", 0);
    let mut took: Option<f64> = None;
    let mut words: Vec<&str> = Vec::new();
    let (mut numbers, mut first) = (0, 0);
    // Where the numbers of an entry's parts stand.
    let mut outer = usize::MAX;
    // An entry ends where the next one begins.
    for (number, line) in (1_u32..).zip(lines.iter().copied().chain([" 0) 1) (integer) 0"])) {
        let text = line.trim();
        if let Some((before, n)) = text.split_once("(integer)") {
            let begins = before.matches(')').count() >= 2 || took.is_some() && !words.is_empty();
            if begins {
                if let Some(us) = took.take().filter(|_| !words.is_empty()) {
                    statement(&mut found, first, us / 1e6, &words.join(" "));
                }
                words.clear();
                numbers = 0;
                first = number;
            }
            numbers += 1;
            if numbers == 3 {
                took = n.trim().parse().ok();
            }
        } else if took.is_some() {
            // Behind the command stand the client's address and name, one level up.
            let begins = text.matches(") ").count() >= 2;
            let column = line.find(')').unwrap_or(0);
            if begins && words.is_empty() {
                outer = column;
            }
            let deep = begins || column > outer;
            let word = text.rsplit(") ").next().map(|w| w.trim_matches('"'));
            words.extend(word.filter(|_| deep));
        }
    }
    if let Some(n) = found.value("database.statements") {
        found.figures.insert("redis.slow_commands".into(), n);
    }
    sorted(found)
}

/// `min: 0, max: 959, avg: 0.79 (1377 samples)` of `redis-cli --latency`, in ms.
fn latency(lines: &[&str]) -> Option<Artefact> {
    let mut found = artefact("redis-cli --latency", 0);
    for (number, line) in (1_u32..).zip(lines) {
        if !line.contains("samples)") || !line.contains("max: ") {
            continue;
        }
        let split = pieces(line);
        let of = |name: &str| behind(&split, name);
        let (Some(largest), Some(mean)) = (of("max"), of("avg")) else {
            continue;
        };
        found.begin_at(number);
        found.add("latency.ranges", 1.0);
        found.largest("latency.max_ms", largest);
        found.largest("latency.mean_ms", mean);
        let above = largest > 100.0_f64.max(20.0 * mean);
        found.add("latency.stalls", f64::from(u8::from(above)));
    }
    sorted(found)
}

fn behind(line: &[Piece<'_>], name: &str) -> Option<f64> {
    let at = line.iter().position(|p| p.text == name)?;
    value(line.get(at + 1)?.text)
}

/// Names of redis' INFO and MySQL's status, and ours.
const COUNTERS: [(&str, &str); 13] = [
    ("latest_fork_usec", "redis.fork_us"),
    ("evicted_keys", "redis.evicted"),
    ("rejected_connections", "redis.rejected"),
    ("blocked_clients", "redis.blocked"),
    ("connected_clients", "redis.clients"),
    ("used_memory", "redis.memory_bytes"),
    ("maxmemory", "redis.memory_limit_bytes"),
    ("keyspace_hits", "cache.hits"),
    ("keyspace_misses", "cache.misses"),
    ("mem_fragmentation_ratio", "redis.fragmentation"),
    ("instantaneous_ops_per_sec", "redis.commands_per_s"),
    ("aof_delayed_fsync", "redis.delayed_syncs"),
    ("loading", "redis.loading"),
];

/// `latest_fork_usec:981432`, a name of INFO a line.
fn info(lines: &[&str]) -> Option<Artefact> {
    let mut found = artefact("redis INFO", 0);
    for (number, line) in (1_u32..).zip(lines) {
        let text = line.trim();
        // A summary that somebody wrote has spaces or a sign there.
        let of_a_person = || {
            let split = text.split_once(|c: char| c.is_whitespace() || "=|".contains(c));
            split.filter(|(name, _)| name.contains('_'))
        };
        let split = text.split_once(':').or_else(of_a_person);
        let Some((name, n)) = split else {
            continue;
        };
        let n = n.trim_matches([' ', '\t', '=', '|', ':']);
        let ours = COUNTERS.iter().find(|(theirs, _)| *theirs == name);
        if let (Some((_, ours)), Some(n)) = (ours, value(n)) {
            found.begin_at(number);
            found.figures.insert((*ours).to_owned(), n);
        }
    }
    sorted(found)
}

/// Commands of redis that walk everything.
const WALKS: [&str; 6] = [
    "KEYS ",
    "HGETALL ",
    "SMEMBERS ",
    "LRANGE ",
    "SORT ",
    "FLUSHALL",
];

/// `SLOWLOG LEN` and `DBSIZE` with what they returned, behind them or in the next line, and a command that walks
/// everything where one is named.
fn lengths(lines: &[&str]) -> Option<Artefact> {
    let mut found = artefact("lengths of redis", 0);
    for (at, line) in lines.iter().enumerate() {
        let lower = line.to_ascii_lowercase();
        let asked = [
            ("slowlog len", "redis.slowlog_length"),
            ("dbsize", "redis.keys"),
        ];
        for (command, name) in asked {
            let Some(from) = lower.find(command) else {
                continue;
            };
            let returned = |text: &str| {
                let text = text.trim().trim_start_matches("(integer)");
                value(text.trim_matches([' ', '\t', ':', '=', '|']))
            };
            let behind = returned(&line[from + command.len()..]);
            let n = behind.or_else(|| returned(lines.get(at + 1)?));
            if let Some(n) = n {
                found.begin_at(u32::try_from(at + 1).unwrap_or(u32::MAX));
                found.figures.insert(name.to_owned(), n);
            }
        }
    }
    found.value("redis.slowlog_length")?;
    let walks = |l: &&&str| WALKS.iter().any(|w| l.contains(w));
    found.rows = lines
        .iter()
        .filter(walks)
        .map(|l| Row::new(short(l), 1.0))
        .collect();
    let walks = found.rows.len() as f64;
    found.figures.insert("redis.walks".into(), walks);
    sorted(found)
}

/// `cmdstat_keys:calls=12,usec=44880,usec_per_call=3740.00` of `INFO commandstats`: a command's share of the time.
fn commands(lines: &[&str]) -> Option<Artefact> {
    let mut found = artefact("redis commandstats", 0);
    for (number, line) in (1_u32..).zip(lines) {
        let Some((name, counts)) = line
            .trim()
            .strip_prefix("cmdstat_")
            .and_then(|l| l.split_once(':'))
        else {
            continue;
        };
        let us = counts
            .split(',')
            .find_map(|c| c.strip_prefix("usec=")?.parse::<f64>().ok());
        let Some(us) = us else { continue };
        found.begin_at(number);
        found.add("redis.commands_us", us);
        found.rows.push(Row::new(name.to_owned(), us));
    }
    let all = found.value("redis.commands_us").filter(|us| *us > 0.0)?;
    found.rows.iter_mut().for_each(|r| r.share /= all);
    sorted(found)
}

/// The cells of a table that is drawn with bars.
pub(super) fn bars(line: &str) -> Vec<&str> {
    if line.contains('|') {
        cells(line)
    } else {
        Vec::new()
    }
}

/// The cells of a table that is drawn with bars, or whose columns tabs or commas separate.
fn cells(line: &str) -> Vec<&str> {
    let mark = ['|', '\t']
        .into_iter()
        .find(|m| line.contains(*m))
        .unwrap_or(',');
    let inner = line.trim().trim_matches('|');
    inner
        .split(mark)
        .map(|c| c.trim().trim_matches('\''))
        .collect()
}

/// What a statement waits for, by MySQL's state.
fn locked(state: &str) -> bool {
    let lower = state.to_ascii_lowercase();
    lower.contains("lock") || lower.starts_with("waiting for")
}

/// `SHOW PROCESSLIST` as a table, with or without its head.
fn processes(lines: &[&str]) -> Option<Artefact> {
    let mut found = artefact("MySQL processlist", 0);
    let mut columns: Vec<&str> = Vec::new();
    for (number, line) in (1_u32..).zip(lines) {
        let row = cells(line);
        let has = |name: &str| row.iter().any(|c| c.eq_ignore_ascii_case(name));
        if has("Command") && has("Time") && has("State") {
            columns = row;
            continue;
        }
        let at = |name: &str| {
            let at = columns.iter().position(|c| c.eq_ignore_ascii_case(name))?;
            row.get(at).copied()
        };
        // Without a head: number, user, host, schema, command, time, state, statement.
        let bare = columns.is_empty()
            && line.contains(['|', '\t'])
            && row.len() >= 8
            && row[0].parse::<u64>().is_ok()
            && row[4].starts_with(|c: char| c.is_ascii_alphabetic());
        let (command, time, state, text) = match bare {
            true => (row[4], row[5], row[6], row[7]),
            false => match (at("Command"), at("Time"), at("State"), at("Info")) {
                (Some(command), Some(time), state, text) => {
                    (command, time, state.unwrap_or(""), text.unwrap_or(""))
                }
                _ => continue,
            },
        };
        process(&mut found, number, command, time, state, text);
    }
    sorted(found)
}

/// innotop's `02:48` in seconds.
fn minutes(text: &str) -> Option<f64> {
    let parts = text.split(':').map(|p| p.parse::<f64>().ok());
    let parts: Vec<f64> = parts.collect::<Option<_>>()?;
    (parts.len() >= 2).then(|| parts.iter().fold(0.0, |all, p| all * 60.0 + p))
}

fn process(found: &mut Artefact, line: u32, command: &str, time: &str, state: &str, text: &str) {
    let Some(took) = time.parse().ok().or_else(|| minutes(time)) else {
        return;
    };
    let idle = ["Sleep", "Daemon", "Binlog Dump"].contains(&command) || command.is_empty();
    if idle {
        found.begin_at(line);
        found.add("database.idle", 1.0);
        return;
    }
    let named = match (text, state) {
        ("" | "NULL", state) => state.to_owned(),
        (text, "" | "NULL") => text.to_owned(),
        (text, state) => format!("{state}: {text}"),
    };
    statement(found, line, took.max(0.0), &named);
    if locked(state) {
        found.add("database.locked", 1.0);
    }
}

/// Commands of MySQL's process list.
const COMMANDS: [&str; 8] = [
    "Query", "Execute", "Sleep", "Connect", "Killed", "Prepare", "Fetch", "Daemon",
];
/// Words with which a statement begins.
const VERBS: [&str; 14] = [
    "SELECT", "INSERT", "UPDATE", "DELETE", "REPLACE", "CALL", "ALTER", "CREATE", "COMMIT", "SHOW",
    "TRUNCATE", "OPTIMIZE", "WITH", "/*",
];

/// A process list without bars: mytop (`2504 web localhost shop 168 Query Sending SELECT ...`), innotop
/// (`Query 2504 Sending data web localhost shop 02:48 SELECT ...`), and one that lost its bars.
fn process_words(lines: &[&str]) -> Option<Artefact> {
    let mut found = artefact("MySQL processlist", 0);
    for (number, line) in (1_u32..).zip(lines) {
        let barred = line.contains(['|', '\t']);
        if barred {
            continue;
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        let Some((command, took, rest)) = process_of_words(&words) else {
            continue;
        };
        let upper = |w: &&str| VERBS.iter().any(|v| w.to_ascii_uppercase() == *v);
        let at = rest.iter().position(upper).unwrap_or(rest.len());
        let (state, text) = (rest[..at].join(" "), rest[at..].join(" "));
        process(&mut found, number, command, took, &state, &text);
    }
    sorted(found)
}

/// The command, its seconds, and the words of its state and statement.
fn process_of_words<'a>(words: &[&'a str]) -> Option<(&'a str, &'a str, Vec<&'a str>)> {
    let whole = |w: &str| !w.is_empty() && w.bytes().all(|b| b.is_ascii_digit());
    let command = |w: &&str| COMMANDS.contains(w);
    if whole(words.first()?) {
        let at = words
            .iter()
            .position(command)
            .filter(|at| (3..=5).contains(at))?;
        let before = words[at - 1];
        // mytop has the time before the command, the server's own list behind it.
        return match words.get(at + 1) {
            Some(took) if whole(took) => Some((words[at], took, words[at + 2..].to_vec())),
            rest if whole(before) && at >= 4 => {
                let rest = rest.map_or(Vec::new(), |_| words[at + 1..].to_vec());
                Some((words[at], before, rest))
            }
            _ => None,
        };
    }
    let [first, id, ..] = words else { return None };
    if !command(first) || !whole(id) {
        return None;
    }
    let at = words.iter().position(|w| {
        w.split_once(':')
            .is_some_and(|(m, s)| whole(m) && s.split(':').all(|p| p.len() == 2 && whole(p)))
    })?;
    let state = words.get(2..at.checked_sub(3)?)?;
    let rest = state.iter().chain(&words[at + 1..]).copied().collect();
    Some((*first, words[at], rest))
}

/// `SHOW PROCESSLIST\G`: a name a line.
fn vertical(lines: &[&str]) -> Option<Artefact> {
    let mut found = artefact("MySQL processlist", 0);
    let mut open: [&str; 4] = [""; 4];
    let mut begun = 1;
    let names = ["Command", "Time", "State", "Info"];
    for (number, line) in (1_u32..).zip(lines.iter().copied().chain(["Id: 0"])) {
        let Some((name, content)) = line.trim().split_once(':') else {
            continue;
        };
        if name.eq_ignore_ascii_case("Id") {
            let [command, time, state, text] = std::mem::take(&mut open);
            process(&mut found, begun, command, time, state, text);
            begun = number;
        }
        if let Some(at) = names.iter().position(|n| n.eq_ignore_ascii_case(name)) {
            open[at] = content.trim();
        }
    }
    // `Time:` alone stands in many texts.
    sorted(found).filter(|a| a.value("database.statements").is_some())
}

/// `# Query_time: 12.5 Lock_time: 0.1 Rows_sent: 1 Rows_examined: 4000000`, then the statement.
fn slow_queries(lines: &[&str]) -> Option<Artefact> {
    let mut found = artefact("MySQL slow log", 0);
    for (at, line) in lines
        .iter()
        .enumerate()
        .filter(|(_, l)| l.contains("Query_time"))
    {
        let split = pieces(line);
        let Some(took) = behind(&split, "Query_time") else {
            continue;
        };
        let text = lines[at + 1..].iter().map(|l| l.trim()).find(|l| {
            let lower = l.to_ascii_lowercase();
            !l.is_empty()
                && !l.starts_with('#')
                && !lower.starts_with("set timestamp")
                && !lower.starts_with("use ")
        });
        let number = u32::try_from(at + 1).unwrap_or(u32::MAX);
        let head = lines[at..]
            .iter()
            .take_while(|l| l.trim_start().starts_with('#'));
        let unseen = || match largest_part(head) {
            Some((name, seconds)) => format!("not in the text; {name} took {seconds:.3} s of it"),
            None => "not in the text".to_owned(),
        };
        let text = text.map_or_else(unseen, str::to_owned);
        statement(&mut found, number, took, &text);
        for (name, ours) in [
            ("Lock_time", "database.lock_s"),
            ("Rows_examined", "database.rows_read"),
            ("Rows_sent", "database.rows_sent"),
        ] {
            if let Some(n) = behind(&split, name) {
                found.largest(ours, n);
            }
        }
    }
    sorted(found)
}

/// The largest of the times that the head of a statement names beside the whole (`# Compile_time: 0.1005`), s.
fn largest_part<'a>(head: impl Iterator<Item = &'a &'a str>) -> Option<(&'a str, f64)> {
    let words = head.flat_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let pairs = words.windows(2).map(|pair| (pair[0], pair[1]));
        pairs.collect::<Vec<_>>()
    });
    let times = words.filter_map(|(name, value)| {
        let name = name
            .strip_suffix(':')
            .filter(|name| name.ends_with("_time"))?;
        let seconds = value.parse::<f64>().ok().filter(|s| *s > 0.0)?;
        (name != "Query_time").then_some((name, seconds))
    });
    times.max_by(|a, b| a.1.total_cmp(&b.1))
}

/// PostgreSQL's `duration: 5012.123 ms  statement: SELECT ...`, and MongoDB's lines that end with `5012ms`.
fn durations(lines: &[&str]) -> Vec<Artefact> {
    let mut orm = artefact("statements of the framework", 0);
    let mut redis = artefact("redis SLOWLOG", 0);
    let mut postgres = artefact("PostgreSQL log", 0);
    let mut mongo = artefact("MongoDB log", 0);
    for (number, line) in (1_u32..).zip(lines) {
        if let Some((_, rest)) = line.split_once("duration: ") {
            let mut words = rest.splitn(3, ' ');
            if let (Some(ms), Some("ms")) = (
                words.next().and_then(|w| w.parse::<f64>().ok()),
                words.next(),
            ) {
                let text = words.next().unwrap_or("").trim_start();
                let text = text.split_once(": ").map_or(text, |(_, t)| t);
                statement(&mut postgres, number, ms / 1e3, text);
                continue;
            }
        }
        if let Some((took, text)) = go_line(line) {
            statement(&mut orm, number, took, text);
            continue;
        }
        if let Some((took, text)) = gorm_line(line, lines.get(number as usize)) {
            statement(&mut orm, number, took, text);
            continue;
        }
        if let Some((took, text)) = orm_line(line) {
            statement(&mut orm, number, took, text);
            continue;
        }
        if let Some((took, text)) = redis_entry(line) {
            statement(&mut redis, number, took, text);
            redis.add("redis.slow_commands", 1.0);
            continue;
        }
        if let Some((ms, text, scanned)) = mongo_line(line) {
            statement(&mut mongo, number, ms / 1e3, &text);
            for (name, ours) in [
                ("docsExamined", "database.rows_read"),
                ("nreturned", "database.rows_sent"),
            ] {
                if let Some(n) = behind(&pieces(line), name) {
                    mongo.largest(ours, n);
                }
            }
            if scanned {
                mongo.add("database.scans", 1.0);
            }
        }
    }
    [postgres, mongo, orm, redis]
        .into_iter()
        .filter_map(sorted)
        .collect()
}

/// `{'id': 12, 'duration': 250015, 'command': b'KEYS session:*'}`, as redis' client for Python prints an entry.
fn redis_entry(line: &str) -> Option<(f64, &str)> {
    let (_, rest) = line.split_once("'duration': ")?;
    let us: f64 = rest.split([',', '}']).next()?.trim().parse().ok()?;
    let (_, command) = line.split_once("'command': ")?;
    Some((
        us / 1e6,
        command.trim_start_matches('b').split('\'').nth(1)?,
    ))
}

/// Words with which a statement of a framework's log begins.
const STATEMENTS: [&str; 7] = [
    "SELECT", "INSERT", "UPDATE", "DELETE", "WITH", "BEGIN", "COMMIT",
];

fn is_statement(text: &str) -> bool {
    STATEMENTS.iter().any(|w| {
        text.get(..w.len())
            .is_some_and(|t| t.eq_ignore_ascii_case(w))
    })
}

/// xorm's `[SQL] SELECT ... [args] - 2m35.2s` (older: `- took: 2.35s`), pgx' `sql="SELECT ..." time=2.35s`, in seconds.
fn go_line(line: &str) -> Option<(f64, &str)> {
    if let Some((_, rest)) = line.split_once("[SQL] ") {
        let (text, took) = rest.trim_end().rsplit_once(" - ")?;
        let took = seconds(took.trim_start_matches("took: ").trim())?;
        return Some((took, text)).filter(|_| is_statement(text));
    }
    let (_, rest) = line
        .split_once(" sql=\"")
        .or_else(|| line.split_once("\"sql\":\""))?;
    let (text, _) = rest.split_once('"')?;
    let (_, took) = line
        .split_once(" time=")
        .or_else(|| line.split_once("\"time\":"))?;
    let took = took
        .trim_start_matches('"')
        .split(['"', ' ', ',', '}'])
        .next()?;
    Some((seconds(took)?, text)).filter(|_| is_statement(text))
}

/// gorm's `[2345.678ms] [rows:1] SELECT ...`; its first version ends the line behind the time.
fn gorm_line<'a>(line: &'a str, next: Option<&&'a str>) -> Option<(f64, &'a str)> {
    let at = line.find("ms] ").or_else(|| {
        line.trim_end()
            .ends_with("ms]")
            .then(|| line.trim_end().len() - 3)
    })?;
    let (_, took) = line[..at].rsplit_once('[')?;
    let took: f64 = took.parse().ok()?;
    let rest = line.get(at + 3..).unwrap_or("").trim_start();
    let text = match rest.strip_prefix("[rows:") {
        Some(rows) => rows.split_once(']')?.1.trim_start(),
        None if rest.is_empty() => next?.trim_start().trim_start_matches("[0m").trim_start(),
        None => rest,
    };
    Some((took / 1e3, text)).filter(|_| is_statement(text))
}

/// `  Order Load (3801.4ms)  SELECT ...` of Rails and `(4.201) SELECT ...; args=()` of Django, in seconds.
fn orm_line(line: &str) -> Option<(f64, &str)> {
    const WORDS: [&str; 6] = ["SELECT", "INSERT", "UPDATE", "DELETE", "BEGIN", "COMMIT"];
    let (_, rest) = line.split_once('(')?;
    let (took, rest) = rest.split_once(')')?;
    let text = rest.trim_start_matches(|c: char| c.is_whitespace() || c == '\u{1b}');
    WORDS.iter().any(|w| text.starts_with(w)).then_some(())?;
    let took = match took.strip_suffix("ms") {
        Some(ms) => ms.parse::<f64>().ok()? / 1e3,
        None => took.parse::<f64>().ok().filter(|_| took.contains('.'))?,
    };
    Some((took, text))
}

/// `command db.things command: find {...} planSummary: COLLSCAN ... 5012ms`, or JSON with `durationMillis`.
fn mongo_line(line: &str) -> Option<(f64, String, bool)> {
    let scanned = line.contains("COLLSCAN");
    let names = [
        "\"attr\"",
        "\"ns\"",
        "\"planSummary\"",
        "\"nreturned\"",
        "\"reslen\"",
    ];
    let of_mongo = scanned || names.iter().any(|name| line.contains(name));
    if let Some((_, rest)) = line.split_once("\"durationMillis\":").filter(|_| of_mongo) {
        let digits = rest.trim_start();
        let end = digits
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(digits.len());
        let between = |from: &str| {
            let (_, rest) = line.split_once(from)?;
            rest.split('"').next()
        };
        let name = between("\"ns\":\"").unwrap_or("");
        let plan = between("\"planSummary\":\"").unwrap_or("");
        return Some((
            digits[..end].parse().ok()?,
            format!("{name} {plan}"),
            scanned,
        ));
    }
    let (before, last) = line.trim_end().rsplit_once(' ')?;
    let ms = last.strip_suffix("ms")?.parse().ok()?;
    let plan = line.contains("planSummary") || line.contains("protocol:op_");
    let kinds = ["command ", "query ", "update ", "remove ", "getmore "];
    let at = kinds.iter().filter_map(|k| before.find(k)).min()?;
    // The plan stands behind a statement that may be long.
    let summary = line
        .split_once("planSummary: ")
        .and_then(|(_, s)| s.split_whitespace().next());
    let text = match summary {
        Some(summary) => format!("{summary}: {}", &before[at..]),
        None => before[at..].to_owned(),
    };
    plan.then_some((ms, text, scanned))
}

/// Names of the column with the statement, as people select it.
const QUERIES: [&str; 7] = [
    "query",
    "current_query",
    "substr",
    "substring",
    "left",
    "regexp_replace",
    "replace",
];
/// Names of columns that pg_stat_activity has beside the state; one must be in the head.
const COLUMNS: [&str; 10] = [
    "pid",
    "procpid",
    "count",
    "query",
    "current_query",
    "waiting",
    "wait_event",
    "wait_event_type",
    "query_start",
    "xact_start",
];

/// What waits for a lock first, and what is older than it and does not wait.
#[derive(Default)]
struct Waits {
    first: Option<(String, String)>,
    oldest: Option<(String, String)>,
}

impl Waits {
    fn see(&mut self, waits: bool, since: &str, text: &str) {
        let held = match waits {
            true => &mut self.first,
            false => &mut self.oldest,
        };
        // Stamps of one time zone are in the order of their text; without any the first row is.
        if held.as_ref().is_none_or(|(at, _)| since < at.as_str()) {
            *held = Some((since.to_owned(), short(text)));
        }
    }

    fn sorted(self, line: u32) -> Option<Artefact> {
        let (since, label) = self.first?;
        let older = self.oldest.filter(|(at, _)| !at.is_empty() && *at < since);
        let mut found = artefact("first that waits", line);
        found.figures.insert("database.waits_first".into(), 1.0);
        found.rows.push(Row {
            label,
            place: older.map(|(_, text)| text).unwrap_or_default(),
            share: 1.0,
        });
        Some(found)
    }
}

/// `pg_stat_activity`: states and what they wait for, as a table with bars.
fn activity(lines: &[&str]) -> Vec<Artefact> {
    let mut found = artefact("pg_stat_activity", 0);
    let mut waits = Waits::default();
    let mut columns: Vec<&str> = Vec::new();
    for (number, line) in (1_u32..).zip(lines).filter(|(_, l)| l.contains('|')) {
        let row = cells(line);
        let has = |name: &&str| row.contains(name);
        // Before PostgreSQL 9.2 the statement sorted the state too.
        if has(&"state") && COLUMNS.iter().any(has) || has(&"waiting") && has(&"current_query") {
            columns = row;
            continue;
        }
        let at = |name: &str| {
            let at = columns.iter().position(|c| *c == name)?;
            row.get(at).copied().filter(|c| !c.is_empty())
        };
        let text = QUERIES.iter().find_map(|name| at(name));
        let old = || match text? {
            "<IDLE>" => Some("idle"),
            "<IDLE> in transaction" => Some("idle in transaction"),
            _ => at("waiting").map(|_| "active"),
        };
        let Some(state) = at("state").or_else(old) else {
            continue;
        };
        let n = at("count").and_then(|c| c.parse().ok()).unwrap_or(1.0);
        let name = match state {
            "active" => "database.active",
            "idle in transaction" | "idle in transaction (aborted)" => "database.in_transaction",
            "idle" => "database.idle",
            _ => continue,
        };
        found.begin_at(number);
        found.add(name, n);
        let locked = at("wait_event_type") == Some("Lock")
            || at("waiting").is_some_and(|w| ["t", "true"].contains(&w));
        if locked {
            found.add("database.locked", n);
        }
        let age = ["duration", "age", "runtime", "query_age", "xact_age"]
            .iter()
            .find_map(|c| clock(at(c)?));
        if let (Some(took), Some(text)) = (age.filter(|_| state != "idle"), text) {
            statement(&mut found, number, took, text);
        } else if let Some(text) = text.filter(|_| state != "idle") {
            let since = at("xact_start").or_else(|| at("query_start"));
            waits.see(locked, since.unwrap_or(""), text);
        }
    }
    let line = found.line;
    sorted(found)
        .into_iter()
        .chain(waits.sorted(line))
        .collect()
}

/// `00:12:05.5` in seconds.
fn clock(text: &str) -> Option<f64> {
    let parts: Option<Vec<f64>> = text.split(':').map(|p| p.parse().ok()).collect();
    let parts = parts.filter(|p| p.len() == 3)?;
    Some(parts.iter().fold(0.0, |sum, part| sum * 60.0 + part))
}

/// What connections wait for, counted: `wait_event_type | wait_event | count`.
fn waits(lines: &[&str]) -> Option<Artefact> {
    let mut found = artefact("waits of the database", 0);
    let mut columns: Vec<&str> = Vec::new();
    for (number, line) in (1_u32..).zip(lines).filter(|(_, l)| l.contains('|')) {
        let row = cells(line);
        let has = |name: &str| row.contains(&name);
        if has("wait_event") && has("count") && !has("state") {
            columns = row;
            continue;
        }
        let at = |name: &str| {
            let at = columns.iter().position(|c| *c == name)?;
            row.get(at).copied().filter(|c| !c.is_empty())
        };
        let Some(n) = at("count").and_then(|n| n.parse::<f64>().ok()) else {
            continue;
        };
        let kind = at("wait_event_type").unwrap_or("");
        // A client's silence is no wait of the database.
        if kind == "Client" || kind == "Activity" {
            continue;
        }
        let name = format!("{kind} {}", at("wait_event").unwrap_or("none"));
        found.begin_at(number);
        found.add("database.waits", n);
        found.rows.push(Row::new(name.trim().to_owned(), n));
    }
    sorted(found)
}

/// Tables as `\x` of psql and `\G` of MySQL print them, a column a line, as tables with bars.
pub(super) fn horizontal(lines: &[&str]) -> Vec<String> {
    let begins =
        |l: &str| l.starts_with("-[ RECORD") || l.starts_with("***") && l.contains(". row *");
    let mut done = Vec::new();
    let mut open: Vec<(&str, &str)> = Vec::new();
    let mut close = |open: &mut Vec<(&str, &str)>| {
        if open.len() >= 2 {
            let (names, cells): (Vec<&str>, Vec<String>) =
                open.iter().map(|(n, c)| (*n, c.replace('|', "/"))).unzip();
            done.push(names.join(" | "));
            done.push(cells.join(" | "));
        }
        open.clear();
    };
    let mut inside = false;
    for line in lines.iter().map(|l| l.trim()) {
        if begins(line) {
            close(&mut open);
            inside = true;
        } else if let Some((name, content)) = line
            .split_once('|')
            .or_else(|| line.split_once(':'))
            .filter(|_| inside)
        {
            open.push((name.trim(), content.trim()));
        }
    }
    close(&mut open);
    done
}

/// `EXPLAIN` without times: MySQL's table (`ALL` reads a whole one), PostgreSQL's `Seq Scan on orders (cost=...)`.
fn plan_without_times(lines: &[&str]) -> Option<Artefact> {
    let mut found = artefact("EXPLAIN", 0);
    let mut columns: Vec<&str> = Vec::new();
    for (number, line) in (1_u32..).zip(lines) {
        if line.contains("(cost=") && !line.contains("actual time") {
            let (name, cost) = unboxed(line).split_once("(cost=")?;
            let name = name.trim().trim_start_matches("->").trim();
            let after = |mark: &str| {
                let (_, rest) = cost.split_once(mark)?;
                rest.split([' ', ')']).next()?.parse::<f64>().ok()
            };
            found.begin_at(number);
            found.add("plan.steps", 1.0);
            let whole = name.contains("Seq Scan");
            found.add("plan.scans", f64::from(u8::from(whole)));
            found.rows.push(Row {
                label: short(name),
                place: after("rows=")
                    .map(|n| format!("about {n:.0} rows"))
                    .unwrap_or_default(),
                share: after("..").unwrap_or(0.0) + if whole { 1e12 } else { 0.0 },
            });
            continue;
        }
        if !line.contains('|') {
            continue;
        }
        let row = cells(line);
        let has = |name: &str| row.contains(&name);
        if has("select_type") && has("table") {
            columns = row;
            continue;
        }
        let at = |name: &str| {
            let at = columns.iter().position(|c| *c == name)?;
            row.get(at).copied()
        };
        let (Some(table), Some(kind)) = (at("table"), at("type")) else {
            continue;
        };
        let rows = at("rows")
            .and_then(|n| n.parse::<f64>().ok())
            .unwrap_or(0.0);
        found.begin_at(number);
        found.add("plan.steps", 1.0);
        let whole = WHOLE.contains(&kind);
        found.add("plan.scans", f64::from(u8::from(whole)));
        let extra = at("Extra")
            .filter(|e| !e.is_empty() && *e != "NULL")
            .map(|e| format!(", {e}"));
        found.rows.push(Row {
            label: format!("{table} (type {kind}, key {})", at("key").unwrap_or("NULL")),
            place: format!("about {rows:.0} rows{}", extra.unwrap_or_default()),
            share: rows + if whole { 1e12 } else { 0.0 },
        });
    }
    found.figures.entry("plan.scans".into()).or_insert(0.0);
    sorted(found)
}

/// Names of what redis' latency monitor sees; a slow command looks alike and has another name.
const EVENTS: [&str; 8] = [
    "command",
    "fast-command",
    "fork",
    "aof-",
    "rdb-",
    "expire-",
    "eviction-",
    "active-defrag",
];

/// `LATENCY LATEST` of redis: an event, when, its last time and the longest, in ms.
fn events(lines: &[&str]) -> Option<Artefact> {
    let mut found = artefact("redis LATENCY", 0);
    let mut name = "";
    let mut numbers: Vec<f64> = Vec::new();
    for (number, line) in (1_u32..).zip(lines) {
        let text = line.trim();
        let quoted = text.split('"').nth(1).filter(|_| text.ends_with('"'));
        let is_event = |e: &&str| EVENTS.iter().any(|known| e.starts_with(known));
        if let Some(event) = quoted
            .filter(|_| text.matches(") ").count() >= 2)
            .filter(is_event)
        {
            (name, numbers) = (event, Vec::new());
        } else if let Some((_, n)) = text.split_once("(integer) ").filter(|_| !name.is_empty()) {
            numbers.extend(n.trim().parse::<f64>().ok());
            if let [_, _, most] = numbers.as_slice() {
                found.begin_at(number);
                found.largest("redis.event_ms", *most);
                found.rows.push(Row::new(name.to_owned(), *most));
                name = "";
            }
        }
    }
    sorted(found)
}

/// `STAT get_hits 12`, of memcached's `stats`.
fn memcached(lines: &[&str]) -> Option<Artefact> {
    const NAMES: [(&str, &str); 10] = [
        ("rejected_connections", "memcached.rejected"),
        ("total_connections", "memcached.accepted"),
        ("max_connections", "memcached.most"),
        ("get_hits", "cache.hits"),
        ("get_misses", "cache.misses"),
        ("evictions", "memcached.evicted"),
        ("curr_connections", "memcached.connections"),
        ("listen_disabled_num", "memcached.refused"),
        ("limit_maxbytes", "memcached.limit_bytes"),
        ("bytes", "memcached.bytes"),
    ];
    let mut found = artefact("memcached stats", 0);
    for (number, line) in (1_u32..).zip(lines) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let ["STAT", name, n] = words.as_slice() else {
            continue;
        };
        let ours = NAMES.iter().find(|(theirs, _)| theirs == name);
        if let (Some((_, ours)), Some(n)) = (ours, value(n).or_else(|| seconds(n))) {
            found.begin_at(number);
            found.figures.insert((*ours).to_owned(), n);
        }
    }
    sorted(found)
}
