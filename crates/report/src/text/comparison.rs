//! Two records side by side, for readers of benchstat and hyperfine: before, after, ratio, and `~` for no difference.

use super::style::Style;
use super::table::{columns, names};
use super::warnings_text;
use analysis::words::{levels, percent, plural, rate};
use analysis::{
    CallChange, CellCompared, Comparison, CpuCompared, FigureCompared, Judgement, Method, Outcome,
    Spread,
};
use record::Nanos;

/// What got faster or slower, cell by cell; the verdict first.
pub fn comparison_text(comparison: &Comparison, style: Style) -> String {
    let word = match comparison.outcome {
        Outcome::Regression => style.bad("regression"),
        Outcome::NotComparable => style.bad("NOT COMPARABLE"),
        Outcome::NotJudged => style.bad("NOT JUDGED"),
        Outcome::OtherCalls => style.bad("different"),
        Outcome::Improvement => style.good("better"),
        Outcome::NoDifference => style.good("no difference seen"),
    };
    let mut text = format!("{word}: {}\n", comparison.why);
    for cell in &comparison.cells {
        text += &cell_text(cell, style);
    }
    for refused in &comparison.refused {
        text += &format!("\nnot compared: {}: {}\n", refused.cell, refused.why);
    }
    if !comparison.unmatched.is_empty() {
        text += &format!(
            "\nonly in one record: {}\n",
            comparison.unmatched.join(", ")
        );
    }
    let notes = notes(comparison);
    if !notes.is_empty() {
        text += &format!("\n{notes}");
    }
    match warnings_text(&comparison.warnings, style) {
        warnings if warnings.is_empty() => text,
        warnings => text + "\n" + &warnings,
    }
}

fn cell_text(cell: &CellCompared, style: Style) -> String {
    let name = match cell.levels.is_empty() {
        true => cell.stage.clone(),
        false => format!("{} {}", cell.stage, levels(&cell.levels)),
    };
    let limits = match (&cell.limits.0, &cell.limits.1) {
        (before, after) if before.is_empty() && after.is_empty() => String::new(),
        (before, after) if before == after => format!(", limited by {before}"),
        (before, after) => format!(", limited by {before}, then by {after}"),
    };
    let mut text = format!("\n{}{limits}\n", style.heading(&name));
    if !cell.figures.is_empty() {
        let head = ["", "before", "after", "ratio", "[95 %]", "could see", ""];
        let mut rows = vec![head.map(str::to_owned).to_vec()];
        rows.extend(cell.figures.iter().map(figure_row));
        text += &columns(&rows, |column| column == 0 || column == head.len() - 1);
    }
    text += &cpu(&cell.cpu);
    text += &table(&cell.changes, "calls per request");
    text + &table(&cell.by_timing, "by timing, no regression")
}

fn figure_row(figure: &FigureCompared) -> Vec<String> {
    let name = match figure.figure.as_str() {
        "rate_per_s" => "rate/s",
        "response_ns_p50" => "p50",
        "response_ns_p99" => "p99",
        "cpu_us_per_request" => "CPU/req",
        "calls_per_request" => "calls/req",
        other => other,
    };
    let ratio = figure.ratio;
    let interval = match ratio.interval() {
        Some((low, high)) => format!("[{low:.3}..{high:.3}]"),
        None if figure.trials == (1, 1) => "-".to_owned(),
        None => format!("n={}+{}", figure.trials.0, figure.trials.1),
    };
    let word = match (figure.judgement, figure.regression) {
        (Judgement::Slower, true) => "worse  REGRESSION",
        (Judgement::Slower, false) => "worse, within the threshold",
        (Judgement::Faster, _) => "better",
        (Judgement::NoDifference, _) => "~",
        (Judgement::NotJudged, _) => "not judged",
    };
    let small = ratio.smallest_effect.map(|s| percent(s.max(0.001)));
    vec![
        format!("  {name}"),
        value(&figure.unit, figure.before),
        value(&figure.unit, figure.after),
        format!("{:.3}", ratio.ratio),
        interval,
        small.unwrap_or_else(|| "-".to_owned()),
        word.to_owned(),
    ]
}

/// The median with half of its range, as benchstat shows it.
fn value(unit: &str, spread: Spread) -> String {
    let median = match unit {
        "ns" => Nanos(spread.median.round() as u64).to_string(),
        "1/s" => rate(spread.median),
        "us" => format!("{:.1}us", spread.median),
        _ => format!("{:.2}", spread.median),
    };
    match (spread.max - spread.min) / 2.0 / spread.median {
        half if half > 0.0 => format!("{median} ±{}", percent(half)),
        _ => median,
    }
}

/// Who used how many cores; what used less than a hundredth in both is left out.
fn cpu(used: &[CpuCompared]) -> String {
    let mut owners: Vec<&str> = used.iter().map(|c| c.owner.as_str()).collect();
    owners.dedup();
    let cores = |owner: &str, mode: &str| {
        let found = used.iter().find(|c| c.owner == owner && c.mode == mode);
        found.map_or((None, None), |c| (c.before, c.after))
    };
    let text = |cores: Option<f64>| cores.map_or("-".to_owned(), |c| format!("{c:.2}"));
    let mut rows = vec![
        [
            "  cores used by",
            "before",
            "after",
            "user",
            "",
            "system",
            "",
        ]
        .map(str::to_owned)
        .to_vec(),
    ];
    for owner in owners {
        let all = cores(owner, "all");
        if all.0.unwrap_or(0.0).max(all.1.unwrap_or(0.0)) < 0.01 {
            continue;
        }
        let mut row = vec![format!("  {owner}"), text(all.0), text(all.1)];
        for mode in ["user", "system"] {
            let (before, after) = cores(owner, mode);
            row.extend([text(before), format!("-> {}", text(after))]);
        }
        rows.push(row);
    }
    match rows.len() {
        1 => String::new(),
        _ => columns(&rows, names(1)),
    }
}

/// How the columns came about.
fn notes(comparison: &Comparison) -> String {
    let figures = || comparison.cells.iter().flat_map(|c| &c.figures);
    let has = |method: Method| figures().any(|f| f.ratio.method == method);
    let mut notes = Vec::new();
    if has(Method::Rank) {
        notes.push(
            "ratio: Hodges-Lehmann; interval: rank sum (Mann-Whitney), whatever the noise"
                .to_owned(),
        );
    }
    if has(Method::StudentT) {
        notes.push(
            "where ranks of so few trials cannot reach 5 %: difference of the means with Welch's t, both on logarithms, takes the \
             noise as normal"
                .to_owned(),
        );
    }
    if comparison.comparisons > 0 {
        notes.push(format!(
            "~ is no difference at the 5 % level, corrected for {} (Holm); could see: found four times in five",
            plural(u64::from(comparison.comparisons), "comparison")
        ));
        notes.push(
            "the trials of two records did not run in turn: what the host did between them is in the ratios".to_owned(),
        );
    }
    if figures().any(|f| f.ratio.method == Method::None && f.unit != "calls") {
        notes.push(match comparison.threshold {
            Some(threshold) => format!(
                "fewer than three trials in one record give no interval: the bare ratio is held against {}",
                percent(threshold)
            ),
            None => "fewer than three trials in one record give no interval: judge by the calls, or give --threshold"
                .to_owned(),
        });
    }
    notes.iter().map(|note| format!("{note}\n")).collect()
}

fn table(changes: &[CallChange], head: &str) -> String {
    if changes.is_empty() {
        return String::new();
    }
    let bytes = |mean: Option<f64>| mean.map_or("-".to_owned(), |b| format!("{b:.0} B"));
    let mut rows = vec![
        [
            &format!("  {head}"),
            "on",
            "of",
            "before",
            "after",
            "mean size",
            "",
        ]
        .map(|s: &str| s.to_owned())
        .to_vec(),
    ];
    rows.extend(changes.iter().map(|c| {
        vec![
            format!("  {}", c.call),
            c.class.name().to_owned(),
            c.target.clone(),
            format!("{:.2}", c.before),
            format!("{:.2}", c.after),
            bytes(c.mean_bytes_before),
            format!("-> {}", bytes(c.mean_bytes_after)),
        ]
    }));
    columns(&rows, names(3))
}
