//! Slow seconds and an earlier record for a terminal: what differs, with its interval, largest first.

use analysis::{Against, AgainstRow, SlowSeconds, Watched};
use record::Unavailable;

/// Slow seconds that are listed one by one.
const LISTED: usize = 10;

/// How many seconds were slow, which, and what differs in them; empty when one window was watched.
pub fn watched_text(watched: &Watched) -> String {
    let Some(seconds) = &watched.slow_seconds else {
        return String::new();
    };
    let mut text = format!(
        "slow seconds: {} of {} ({} with probes are not judged)\n",
        seconds.slow, seconds.seconds, seconds.probed
    );
    text += &listed(seconds);
    for differs in &seconds.differs {
        let interval = match differs.interval {
            Some(interval) => interval_words(interval),
            None => "too few slow seconds for an interval".to_owned(),
        };
        text += &format!(
            "  {:<16} {} against {} {}: {} more, {interval}\n",
            differs.signal,
            number(differs.slow),
            number(differs.normal),
            differs.unit,
            number(differs.difference),
        );
    }
    if !seconds.rows.is_empty() {
        text += &rows("slow seconds against the beginning", &seconds.rows);
    }
    text + &gaps(&seconds.not_visible)
}

/// `  at 12, 13 and 40 s, the first: open 31.0 against 2.0`.
fn listed(seconds: &SlowSeconds) -> String {
    let Some(first) = seconds.listed.first() else {
        return String::new();
    };
    let shown = seconds.listed.iter().take(LISTED);
    let at: Vec<String> = shown.map(|s| format!("{:.0}", s.at_s)).collect();
    let more = match seconds.listed.len().saturating_sub(LISTED) {
        0 => String::new(),
        n => format!(" and {n} more"),
    };
    format!(
        "  at {} s{more} from the first second on, the first because of {}\n",
        at.join(", "),
        first.why
    )
}

/// What a request takes more of, or less, than in the earlier record.
pub fn against_text(against: &Against) -> String {
    let mut text = rows("against the earlier record", &against.rows);
    for change in &against.versions {
        let of = if change.target.is_empty() {
            String::new()
        } else {
            format!(" of {}", change.target)
        };
        text += &format!("  what changed{of}: {}\n", change.words());
    }
    text += &gaps(&against.not_visible);
    text
}

/// Rows that differ, largest first, and how many do not.
fn rows(title: &str, rows: &[AgainstRow]) -> String {
    let (differ, same): (Vec<&AgainstRow>, Vec<&AgainstRow>) = rows.iter().partition(|r| r.differs);
    let mut text = format!(
        "{title}, per request: {} rows differ, {} do not\n",
        differ.len(),
        same.len()
    );
    for row in differ {
        let interval = row
            .interval
            .map_or_else(|| row.noise.clone(), interval_words);
        text += &format!(
            "  {:<40} {} -> {} {} ({interval})\n",
            format!("{} {}", row.target, row.row),
            number(row.before),
            number(row.after),
            row.unit,
        );
    }
    text
}

fn interval_words((low, high): (f64, f64)) -> String {
    format!("95 % between {} and {}", number(low), number(high))
}

fn gaps(gaps: &[Unavailable]) -> String {
    let line = |gap: &Unavailable| match gap.what.strip_prefix("not visible: ") {
        Some(what) => format!("  not visible: {what}: {}\n", gap.reason),
        None => format!("  not visible: {}: {}\n", gap.what, gap.reason),
    };
    gaps.iter().map(line).collect()
}

fn number(value: f64) -> String {
    match value.abs() {
        v if v >= 100.0 => format!("{value:.0}"),
        v if v >= 1.0 => format!("{value:.1}"),
        _ => format!("{value:.3}"),
    }
}
