//! One stack as a person lists it or a debugger copies it: `A.b()` above `-> C.d()`, `put:251, Queue {org.example}`.
//!
//! It becomes lines that `dumps` reads. The surprise is the order: arrows lead from the caller to what it calls, a
//! debugger begins with what runs.

/// Fewer names are no stack.
const FEWEST: usize = 4;
/// Lines that are frames, as a part of all that are not empty.
const PART: f64 = 0.7;
/// What stands before a name that another calls.
const ARROWS: [&str; 6] = ["->", "=>", "\u{2192}", "\u{2514}", "\u{21b3}", "|-"];
/// Parts of names of functions that wait, with what such a name begins, and parts of those that take a lock.
const PARTS: [&str; 3] = ["cond_wait", "park", "sleep"];
const WAITS: [&str; 7] = ["wait", "poll", "epoll_", "select", "recv", "read", "accept"];
const TAKES: [&str; 5] = ["mutex", "_lock", "semaphore", "SemAcquire", "monitorenter"];
/// What the lines that are handed on begin with.
pub(super) const HEAD: &str = "chain of calls: ";
pub(super) const FRAME: &str = "chain calls ";

/// The stack of a text as lines: its state, then its frames from what runs to who called it.
pub(super) fn lines(lines: &[&str]) -> Vec<String> {
    let filled: Vec<&str> = lines
        .iter()
        .map(|l| l.trim())
        .filter(|l| !l.is_empty())
        .collect();
    let mut frames: Vec<String> = filled.iter().filter_map(|l| frame(l)).collect();
    let arrows = filled.iter().filter(|l| bare(l) != **l).count();
    let debugger = filled.iter().filter(|l| of_a_debugger(l).is_some()).count();
    let listed = arrows + 1 >= frames.len() || debugger == frames.len();
    let most = frames.len() as f64 >= PART * filled.len() as f64;
    if frames.len() < FEWEST || !most || !listed {
        return Vec::new();
    }
    if arrows > 0 {
        frames.reverse();
    }
    let at = frames[0].to_ascii_lowercase();
    let name = at.rsplit(['.', ':']).next().unwrap_or_default();
    let name = name.trim_start_matches('_');
    let waits = PARTS.iter().any(|p| name.contains(p)) || WAITS.iter().any(|w| name.starts_with(w));
    let locks = frames.iter().take(2);
    let locks = locks
        .filter(|f| TAKES.iter().any(|t| f.contains(t)))
        .count();
    let state = match () {
        () if locks > 0 => "blocked",
        () if waits => "waits",
        () => "runs",
    };
    let head = std::iter::once(format!("{HEAD}{state}"));
    head.chain(frames.iter().map(|f| format!("{FRAME}{f}")))
        .collect()
}

/// A line without what draws the tree.
fn bare(line: &str) -> &str {
    let line = line.trim();
    let mut rest = line;
    for arrow in ARROWS {
        if let Some(behind) = rest.strip_prefix(arrow) {
            rest = behind.trim_start_matches(['\u{2500}', '-', '>', ' ']);
        }
    }
    rest
}

/// A line that is a name of a function and nothing else.
fn frame(line: &str) -> Option<String> {
    if let Some(named) = of_a_debugger(line) {
        return Some(named);
    }
    let name = bare(line);
    let plain = |c: char| c.is_ascii_alphanumeric() || "_.:$<>/#~*()".contains(c);
    let called = name.contains("::") || name.contains("()") || name.contains('_');
    let dotted = name.contains('.') && name.ends_with(')');
    let is_name = name.len() >= 4
        && name.chars().all(plain)
        && name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    (is_name && (called || dotted)).then(|| name.trim_end_matches("()").to_owned())
}

/// `put:251, ArrayBlockingQueue {java.util.concurrent}` of an IDE, as `java.util.concurrent.ArrayBlockingQueue.put`.
fn of_a_debugger(line: &str) -> Option<String> {
    let (place, class) = line.trim().split_once(", ")?;
    let (method, number) = place.rsplit_once(':')?;
    number.parse::<i64>().ok()?;
    let (class, package) = class.strip_suffix('}')?.split_once(" {")?;
    let package = package.split_whitespace().next()?;
    Some(format!("{package}.{class}.{method}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Vec<String> {
        lines(&text.lines().collect::<Vec<_>>())
    }

    #[test]
    fn arrows_lead_to_what_is_called_and_a_debugger_begins_with_it() {
        let arrows = "A.handle()\n  -> B.log()\n  -> Table::lookup\n  -> table_lock\n  -> pthread_cond_wait\n";
        let found = of(arrows);
        assert_eq!(found[0], format!("{HEAD}blocked"));
        assert_eq!(found[1], format!("{FRAME}pthread_cond_wait"));
        assert_eq!(found[5], format!("{FRAME}A.handle"));
        // `thread` begins with no `read`.
        let runs = "A.main()\n-> B.a()\n-> C.b()\n-> D.thread_body()\n";
        assert_eq!(of(runs)[0], format!("{HEAD}runs"));
        let ide = "park:1, Unsafe {sun.misc}\nput:2, Queue {a.b}\nsend:3, Writer {a.b}\nrun:4, Main {a}\n";
        let found = of(ide);
        assert_eq!(found[0], format!("{HEAD}waits"));
        assert_eq!(found[2], format!("{FRAME}a.b.Queue.put"));
    }

    #[test]
    fn other_lists_of_names_are_no_stack() {
        for text in [
            "max_connections\nshared_buffers\nwork_mem\nwal_buffers\n",
            "a -> b\nc -> d\n",
            "GET /a\nGET /b\nGET /c\nGET /d\n",
        ] {
            assert!(of(text).is_empty(), "{text}");
        }
    }
}
