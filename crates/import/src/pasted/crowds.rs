//! Threads of a process by name, counted: `7324 sdk-Executor-N-M`, what `sort | uniq -c` makes of a dump's names, for a
//! text in which nothing else was found.
//!
//! The surprise is that such threads do nothing and take no CPU: a pool that is made again and again and never ended
//! shows in their number alone.

use super::events::{artefact, told};
use super::pieces::short;
use record::pasted::{Artefact, Row};

/// So many threads of one name are more than a pool.
const MANY: f64 = 100.0;
/// And so large a part of those that are counted.
const PART: f64 = 0.3;
/// A longer line is data.
const LINE: usize = 160;

/// The name that most threads have.
pub(super) fn read(lines: &[&str]) -> Option<Artefact> {
    let of_threads = |l: &&str| {
        let lower = l.to_ascii_lowercase();
        ["threads", "jstack", "thread name", "thread.print"]
            .iter()
            .any(|w| lower.contains(w))
    };
    lines.iter().any(of_threads).then_some(())?;
    let mut found = artefact("threads by name", 0);
    for (number, line) in (1_u32..).zip(lines).filter(|(_, l)| l.len() <= LINE) {
        let Some((n, name)) = counted(line) else {
            continue;
        };
        found.begin_at(number);
        found.add("crowd.all", n);
        found.rows.push(Row {
            label: short(name),
            place: line.split_whitespace().next()?.to_owned(),
            share: n,
        });
    }
    found.largest_first();
    let most = found.rows.first()?.share;
    let all = found.value("crowd.all")?;
    found.figures.insert("crowd.most".into(), most);
    let rows = found.rows.len() as f64;
    found.figures.insert("crowd.rows".into(), rows);
    told(found).filter(|_| most >= MANY && most >= PART * all && rows >= 2.0)
}

/// A number before a name that has a letter and no sentence behind it.
fn counted(line: &str) -> Option<(f64, &str)> {
    let text = line.trim().trim_start_matches(['-', '*', '|']).trim();
    let (n, rest) = text.split_once(char::is_whitespace)?;
    let n: f64 = n.replace(',', "").parse::<u32>().ok()?.into();
    let rest = rest.trim();
    let name = match rest.strip_prefix('"') {
        Some(quoted) => quoted.split('"').next()?,
        None => rest.split("  ").next()?.trim(),
    };
    let is_name = name.chars().any(char::is_alphabetic) && name.split_whitespace().count() <= 3;
    (n >= 1.0 && is_name && !name.ends_with([':', '.', ','])).then_some((n, name))
}

#[cfg(test)]
mod tests {
    use super::super::events::written;
    use super::*;

    #[test]
    fn the_name_of_most_threads_is_told() {
        let text = "jstack 4711 | grep '^\"' | ...\n   1840 \"pool-N-thread-N\"\n     64 \"http-worker-N\"\n      1 \"main\"\n";
        let lines: Vec<&str> = text.lines().collect();
        let found = read(&lines).unwrap();
        assert_eq!(written(&found)[0], "pool-N-thread-N: 1840");
        assert_eq!(found.value("crowd.all"), Some(1905.0));
        let few = text.replace("1840", "40");
        assert!(read(&few.lines().collect::<Vec<_>>()).is_none());
        assert!(read(&lines[1..]).is_none());
    }
}
