//! HAProxy's `show activity`: a counter a line, its sum and its parts by thread, or one number.
//!
//! The counters grow from the start on, but for the averages. The surprise is `avg_loop_us`: a turn of the event loop
//! is what every other connection of that thread waits for.

use super::events::artefact;
use record::pasted::Artefact;

/// Names of `show activity`, and ours.
const COUNTERS: [(&str, &str); 7] = [
    ("loops", "activity.loops"),
    ("stream_calls", "activity.streams"),
    ("long_rq", "activity.long_queues"),
    ("cpust_ms_tot", "activity.stolen_ms"),
    ("cpust_ms_1s", "activity.stolen_last_ms"),
    ("avg_cpu_pct", "activity.cpu_percent"),
    ("avg_loop_us", "activity.loop_us"),
];
/// Counters whose first number is a mean of the threads, not their sum.
const MEANS: [&str; 2] = ["activity.cpu_percent", "activity.loop_us"];
/// Fewer of them are another tool's words.
const FEWEST: usize = 3;

/// Each `show activity`, in order.
pub(super) fn read(lines: &[&str]) -> Vec<Artefact> {
    let mut done: Vec<Artefact> = Vec::new();
    for (number, line) in (1_u32..).zip(lines) {
        let Some((name, all, parts)) = counter(line) else {
            continue;
        };
        if done.last().is_none_or(|open| open.value(name).is_some()) {
            done.push(artefact("show activity", number));
        }
        if let Some(open) = done.last_mut() {
            put(open, name, all, &parts);
        }
    }
    done.retain(|a| a.figures.len() >= FEWEST);
    done
}

fn put(open: &mut Artefact, name: &str, all: f64, parts: &[f64]) {
    open.figures.insert(name.to_owned(), all);
    let largest = parts.iter().copied().fold(0.0, f64::max);
    if MEANS.contains(&name) {
        open.largest(&format!("{name}_largest"), largest.max(all));
    } else if name == "activity.streams" && parts.len() > 1 && all > 0.0 {
        let threads = parts.len() as f64;
        open.figures.insert("activity.threads".into(), threads);
        let skew = largest * threads / all;
        open.figures
            .insert("activity.busiest_over_mean".into(), skew);
    }
}

/// `avg_loop_us: 19888 [ 19000 20776 ]`.
fn counter(line: &str) -> Option<(&'static str, f64, Vec<f64>)> {
    let (name, rest) = line.trim().split_once(':')?;
    let (_, ours) = COUNTERS.iter().find(|(theirs, _)| *theirs == name)?;
    let mut words = rest
        .split(|c: char| c.is_whitespace() || "[]".contains(c))
        .filter(|w| !w.is_empty());
    let all: f64 = words.next()?.parse().ok()?;
    let parts = words.map_while(|w| w.parse().ok()).collect();
    Some((ours, all, parts))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_calls_are_two_and_a_thread_that_does_all_is_seen() {
        let text = "\
thread_id: 1 (1..2)
loops: 30 [ 10 20 ]
stream_calls: 400 [ 380 20 ]
avg_cpu_pct: 55 [ 99 11 ]
avg_loop_us: 19888 [ 39000 776 ]
loops: 40 [ 20 20 ]
long_rq: 1
stream_calls: 500 [ 400 100";
        let calls = read(&text.lines().collect::<Vec<_>>());
        assert_eq!(calls.len(), 2);
        let skew = "activity.busiest_over_mean";
        assert_eq!(calls[0].value(skew), Some(1.9));
        assert_eq!(calls[1].value(skew), Some(1.6));
        assert_eq!(calls[0].value("activity.loop_us_largest"), Some(39_000.0));
        assert!(read(&["loops: 3", "he said"]).is_empty());
    }
}
