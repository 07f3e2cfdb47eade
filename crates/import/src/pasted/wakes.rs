//! How often a program wakes by `perf stat`: its context switches beside the time that it ran and the CPUs that it
//! used.
//!
//! The surprise is the locale, in which perf groups and parts its numbers: `25 474`, `25,474`, `275,687107`.

use super::events::artefact;
use record::pasted::Artefact;

/// The first run of a text.
pub(super) fn read(lines: &[&str]) -> Option<Artefact> {
    let mut found = artefact("perf stat's switches", 0);
    let (mut ran_ms, mut cpus, mut switches) = (None, None, None);
    for (number, line) in (1_u32..).zip(lines) {
        if let Some((before, rest)) = line.split_once("task-clock") {
            ran_ms = ran_ms.or_else(|| parted(&before.replace("msec", "")));
            let of = rest.split_once('#').and_then(|(_, r)| r.split_once("CPU"));
            cpus = cpus.or_else(|| of.and_then(|(n, _)| parted(n)));
        } else if let Some((before, _)) = line.split_once("context-switches") {
            found.begin_at(number);
            let digits: String = before.chars().filter(char::is_ascii_digit).collect();
            switches = switches.or_else(|| digits.parse::<f64>().ok());
        }
    }
    let (ran_ms, cpus, switches) = (ran_ms?, cpus?, switches.filter(|n| *n > 0.0)?);
    let s = ran_ms / 1e3 / cpus;
    for (name, n) in [
        ("count", switches),
        ("per_s", switches / s),
        ("each_us", ran_ms * 1e3 / switches),
        ("cpus", cpus),
    ] {
        found.figures.insert(format!("wakes.{name}"), n);
    }
    Some(found).filter(|_| s > 0.0 && s.is_finite())
}

/// `2,003.45`, `275,687107`, `0.138`: what stands behind the last mark are parts.
fn parted(text: &str) -> Option<f64> {
    let text: String = text.split_whitespace().collect();
    let (whole, parts) = text.rsplit_once([',', '.']).unwrap_or((&text, ""));
    let whole: String = whole.chars().filter(|c| !",.".contains(*c)).collect();
    format!("{whole}.{parts}0")
        .parse()
        .ok()
        .filter(|n: &f64| *n > 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn switches_are_told_by_the_second_and_by_what_each_runs() {
        for text in [
            "  1,000.00 msec task-clock  #    0.250 CPUs utilized\n  40,000      context-switches  #  40.000 K/sec\n",
            " 1 000,000000 task-clock (msec) #  0,250 CPUs utilized\n  40 000      context-switches  #  0,040 M/sec\n",
        ] {
            let found = read(&text.lines().collect::<Vec<_>>()).unwrap();
            let of = |name: &str| found.value(&format!("wakes.{name}")).unwrap();
            assert_eq!([of("per_s"), of("each_us")], [10_000.0, 25.0]);
        }
        assert!(read(&["  40,000      context-switches"]).is_none());
    }
}
