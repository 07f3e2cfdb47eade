//! Memory of the same containers in two lists of `kubectl top` or `docker stats`: which grew.
//!
//! The surprise is the name: a container that was made anew has another one, and is not compared.

use super::events::{artefact, told};
use super::pieces::{short, value};
use record::pasted::{Artefact, Row};

/// What is told has become so many times what it was.
const GROWN: f64 = 1.5;
/// And so many bytes more.
const MORE: f64 = 16.0 * 1_048_576.0;

/// What the same names use at first and at last.
pub(super) fn read(lines: &[&str]) -> Option<Artefact> {
    let all = (1_u32..)
        .zip(lines)
        .filter_map(|(n, l)| Some((n, used(l)?)));
    let all: Vec<(u32, Used<'_>)> = all.collect();
    let mut found = artefact("memory of containers, twice", 0);
    for (at, (line, first)) in all.iter().enumerate() {
        let is_it = |(_, other): &&(u32, Used<'_>)| other.name == first.name;
        let seen = all[..at].iter().any(|one| is_it(&one));
        let Some((_, last)) = all[at + 1..].iter().rfind(is_it).filter(|_| !seen) else {
            continue;
        };
        found.begin_at(*line);
        let times = last.bytes / first.bytes;
        found.add("usages.compared", 1.0);
        if times >= GROWN && last.bytes >= first.bytes + MORE {
            found.add("usages.rows", 1.0);
            found.rows.push(Row {
                label: short(first.name),
                place: format!("{} -> {}, {times:.1} times", first.written, last.written),
                share: last.bytes - first.bytes,
            });
        }
    }
    found.largest_first();
    told(found).filter(|a| !a.rows.is_empty())
}

/// A container's name and memory.
struct Used<'a> {
    name: &'a str,
    written: &'a str,
    bytes: f64,
}

/// `NAME 14m 21Mi`, `ID NAME 0.5% 120MiB / 2GiB 5.9% ...`.
fn used(line: &str) -> Option<Used<'_>> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let is_cpu = |word: &str| word.trim_end_matches(['m', '%']).parse::<f64>().is_ok();
    let (name, cpu, written) = match words.iter().position(|w| *w == "/") {
        Some(slash) if slash >= 3 && words.get(slash + 2).is_some_and(|w| w.ends_with('%')) => {
            (words[slash - 3], words[slash - 2], words[slash - 1])
        }
        None if (3..=4).contains(&words.len()) => match words.as_slice() {
            [.., name, cpu, memory] if memory.ends_with('i') => (*name, *cpu, *memory),
            _ => return None,
        },
        _ => return None,
    };
    let bytes = value(written).filter(|n| *n > 0.0 && written.ends_with(['i', 'B']))?;
    let named = is_cpu(cpu) && name.contains(char::is_alphabetic);
    named.then_some(Used {
        name,
        written,
        bytes,
    })
}

#[cfg(test)]
mod tests {
    use super::super::events::written;
    use super::*;

    #[test]
    fn who_grew_between_two_lists_is_told() {
        let text = "\
CONTAINER ID   NAME   CPU %   MEM USAGE / LIMIT   MEM %   NET I/O
a1b2c3d4e5f6   web    0.50%   100MiB / 2GiB       5.0%    1kB / 2kB
b1b2c3d4e5f6   db     1.50%   400MiB / 2GiB       20.0%   1kB / 2kB
an hour later:
a1b2c3d4e5f6   web    0.70%   900MiB / 2GiB       45.0%   1kB / 2kB
b1b2c3d4e5f6   db     1.20%   410MiB / 2GiB       20.5%   1kB / 2kB
";
        let found = read(&text.lines().collect::<Vec<_>>()).unwrap();
        assert_eq!(written(&found), ["web: 100MiB -> 900MiB, 9.0 times"]);
        assert_eq!(found.value("usages.compared"), Some(2.0));
        let pods = ["app-1   10m   50Mi", "app-1   9m   150Mi"];
        assert_eq!(
            written(&read(&pods).unwrap()),
            ["app-1: 50Mi -> 150Mi, 3.0 times"]
        );
        assert!(read(&pods[..1]).is_none());
        assert!(read(&["app-1   10m   50Mi", "app-1   9m   52Mi"]).is_none());
    }
}
