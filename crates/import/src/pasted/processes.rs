//! `ps` with the CPU time of each process: `ps aux`, `ps -ef`, `ps axf`, `ps -eo pid,etime,time,cmd`.
//!
//! The surprise is `%CPU`: it is the mean since the process began, not that of the last second as in top, so that a
//! large one of an old process says that it has hardly ever slept.

use super::events::{artefact, told};
use super::pieces::{by_sixties, short};
use record::pasted::{Artefact, Row};

/// Columns that no other tool has beside `TIME`.
const OF_PS: [&str; 4] = ["START", "STIME", "STARTED", "ELAPSED"];
/// The columns of `ps aux`, which are known by what stands in them where their head was cut off.
const OF_AUX: [&str; 11] = [
    "USER", "PID", "%CPU", "%MEM", "VSZ", "RSS", "TTY", "STAT", "START", "TIME", "COMMAND",
];
/// A process that used more of a core than this since it began, and so many seconds of it, has hardly slept.
const BUSY_PERCENT: f64 = 25.0;
const LONG_S: f64 = 3_600.0;

/// `root 92 35.8 0.0 0 0 ? S 12:40 82:49 [kswapd0]`.
fn is_aux(words: &[&str]) -> bool {
    let [_, pid, cpu, memory, vsz, rss, tty, state, _, time, _, ..] = words else {
        return false;
    };
    let whole = |w: &&str| w.parse::<u64>().is_ok();
    let percent = |w: &&str| w.contains('.') && w.parse::<f64>().is_ok();
    let tty = *tty == "?" || tty.starts_with("pts/") || tty.starts_with("tty");
    let state = state.starts_with(|c: char| "DIRSTWXZt".contains(c));
    let numbers = [pid, vsz, rss].into_iter().all(whole) && [cpu, memory].into_iter().all(percent);
    numbers && tty && state && clock(time).is_some()
}

/// The processes of a text.
pub(super) fn read(lines: &[&str]) -> Option<Artefact> {
    let mut found = artefact("ps", 0);
    let mut columns: Vec<&str> = Vec::new();
    for (number, line) in (1_u32..).zip(lines) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let has = |name: &&str| words.contains(name);
        if has(&"PID") && has(&"TIME") && OF_PS.iter().any(has) {
            columns = words;
            continue;
        }
        let columns = match columns.as_slice() {
            [] if is_aux(&words) => &OF_AUX,
            columns => columns,
        };
        let width = columns.len();
        if width == 0 || words.len() < width {
            continue;
        }
        let at = |name: &str| columns.iter().position(|c| *c == name);
        let cell = |name: &str| words.get(at(name)?).copied();
        let Some(cpu_s) = cell("TIME").and_then(clock) else {
            continue;
        };
        let percent = ["%CPU", "C"]
            .iter()
            .find_map(|c| cell(c)?.parse::<f64>().ok());
        let began = OF_PS.iter().find_map(|c| cell(c));
        let (Some(percent), Some(began), Some(pid)) = (percent, began, cell("PID")) else {
            continue;
        };
        found.begin_at(number);
        found.add("ps.rows", 1.0);
        let busy = percent >= BUSY_PERCENT && cpu_s >= LONG_S;
        found.add("ps.busy", f64::from(u8::from(busy)));
        found.largest("ps.most_s", cpu_s);
        if words[width - 1].starts_with("[kswapd") {
            found.largest("ps.kswapd", percent / 100.0);
        }
        let drawn = |w: &&&str| !["\\_", "|"].contains(*w);
        let command: Vec<&str> = words[width - 1..].iter().filter(drawn).copied().collect();
        let since = match cell("ELAPSED") {
            Some(elapsed) => format!("for {elapsed}"),
            None => format!("since {began}"),
        };
        found.rows.push(Row {
            label: short(&command.join(" ")),
            place: format!(
                "PID {pid}, {percent} % of a core {since}, CPU time {}",
                cell("TIME").unwrap_or_default()
            ),
            share: cpu_s,
        });
    }
    found.largest_first();
    told(found)
}

/// `19687:56` and `0:05` (minutes and seconds), `01:02:03`, `12-01:02:03`, in seconds.
fn clock(text: &str) -> Option<f64> {
    let (days, rest) = text.split_once('-').unwrap_or(("0", text));
    let days: f64 = days.parse().ok()?;
    let all = by_sixties(rest).filter(|_| rest.contains(':'))?;
    Some(days * 86_400.0 + all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_has_minutes_hours_or_days() {
        assert_eq!(clock("19687:56"), Some(1_181_276.0));
        assert_eq!(clock("01:02:03"), Some(3_723.0));
        assert_eq!(clock("2-00:00:01"), Some(172_801.0));
        assert_eq!(clock("12"), None);
    }
}
