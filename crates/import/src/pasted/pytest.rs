//! The longest parts of tests by `pytest --durations`: `21.74s setup    tests/test_api.py::test_list`.
//!
//! A test has three parts, of which setup and teardown are its fixtures. The surprise is a fixture of a module or a
//! session, whose whole time stands at the first test that asks for it.

use super::events::{artefact, told};
use super::pieces::short;
use record::pasted::{Artefact, Row};

/// Parts of a test.
const PARTS: [&str; 3] = ["setup", "call", "teardown"];

/// The parts that a text lists.
pub(super) fn read(lines: &[&str]) -> Option<Artefact> {
    let mut found = artefact("pytest --durations", 0);
    for (number, line) in (1_u32..).zip(lines) {
        let Some((written, part, test)) = part(line) else {
            continue;
        };
        let Ok(took) = written.trim_end_matches('s').parse::<f64>() else {
            continue;
        };
        found.begin_at(number);
        found.add("pytest.rows", 1.0);
        found.add(&format!("pytest.{part}_s"), took);
        found.rows.push(Row {
            label: short(test),
            place: format!("{written} {part}"),
            share: took,
        });
    }
    found.largest_first();
    for part in PARTS {
        let figures = &mut found.figures;
        figures.entry(format!("pytest.{part}_s")).or_insert(0.0);
    }
    told(found)
}

/// Its time as it is written, which part, and the test; a stamp of a log may stand before them.
fn part(line: &str) -> Option<(&str, &str, &str)> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let at = words.windows(2).position(|pair| {
        let seconds = pair[0].strip_suffix('s').is_some_and(|n| n.contains('.'));
        seconds && PARTS.contains(&pair[1])
    })?;
    let test = *words.get(at + 2)?;
    let named = test.contains("::") || test.ends_with(".py");
    (named && at <= 2).then_some((words[at], words[at + 1], test))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_told_with_their_tests_and_added_up() {
        let text = "=== slowest 3 durations ===\n2.50s call     tests/test_b.py::test_b[x]\n2026-01-02T10:31:05.6Z 41.20s setup    tests/test_a.py::test_a\n0.50s teardown tests/test_a.py::test_a\n";
        let found = read(&text.lines().collect::<Vec<_>>()).unwrap();
        assert_eq!(found.value("pytest.rows"), Some(3.0));
        assert_eq!(found.value("pytest.setup_s"), Some(41.2));
        assert_eq!(found.rows[0].label, "tests/test_a.py::test_a");
        assert_eq!(found.rows[0].place, "41.20s setup");
        assert!(read(&["it took 2.5s call it a day::x", "2s setup a::b"]).is_none());
    }
}
