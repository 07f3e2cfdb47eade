//! Numbers as people read them, the same in a verdict, on the terminal and in the page.

/// `0.4236` as `42 %`; one decimal below 10 % where it says something, so that a small share does not
/// read as zero.
pub fn percent(share: f64) -> String {
    let percent = share * 100.0;
    let digits = usize::from(percent.abs() < 9.95);
    let number = format!("{percent:.digits$}");
    format!("{} %", number.strip_suffix(".0").unwrap_or(&number))
}

/// A count with thousands separators: `61,234`.
pub fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A rate per second: thousands separators from 100 on, three significant digits below.
pub fn rate(per_s: f64) -> String {
    if per_s >= 100.0 {
        count(per_s.round() as u64)
    } else if per_s >= 10.0 {
        format!("{per_s:.1}")
    } else {
        format!("{per_s:.2}")
    }
}

/// `1 connection`, `2 connections`.
pub fn plural(n: u64, noun: &str) -> String {
    let s = if n == 1 { "" } else { "s" };
    format!("{} {noun}{s}", count(n))
}

/// Levels as `connections=64 path=direct`; `all` when there is no factor.
pub fn levels(levels: &plan::Levels) -> String {
    if levels.is_empty() {
        return "all".to_owned();
    }
    let pairs: Vec<String> = levels.iter().map(|(k, v)| format!("{k}={v}")).collect();
    pairs.join(" ")
}

/// The levels of several cells in one phrase: `connections=10, 100 path=direct` where they are every combination of
/// these levels, else one after another.
pub fn several_levels(cells: &[&plan::Levels]) -> String {
    let Some(first) = cells.first() else {
        return String::new();
    };
    let mut of_factor: Vec<(&String, Vec<&String>)> =
        first.keys().map(|f| (f, Vec::new())).collect();
    for cell in cells {
        for (factor, all) in &mut of_factor {
            let level = cell.get(*factor);
            all.extend(level.filter(|l| !all.contains(l)));
        }
    }
    let combinations: usize = of_factor.iter().map(|(_, all)| all.len()).product();
    if cells.len() == 1 || combinations != cells.len() {
        let each: Vec<String> = cells.iter().map(|c| levels(c)).collect();
        return each.join("; ");
    }
    let factor = |(factor, all): &(&String, Vec<&String>)| {
        let all: Vec<&str> = all.iter().map(|l| l.as_str()).collect();
        format!("{factor}={}", all.join(", "))
    };
    let phrase: Vec<String> = of_factor.iter().map(factor).collect();
    phrase.join(" ")
}

/// Trials that a warning names by number before it says "and more".
const NAMED_TRIALS: usize = 5;

/// `trials 0, 3, 4 and 2 more`.
pub(crate) fn trial_numbers(ids: impl Iterator<Item = u32>) -> String {
    let ids: Vec<String> = ids.map(|id| id.to_string()).collect();
    let shown = ids[..ids.len().min(NAMED_TRIALS)].join(", ");
    let noun = if ids.len() == 1 { "trial" } else { "trials" };
    match ids.len().saturating_sub(NAMED_TRIALS) {
        0 => format!("{noun} {shown}"),
        more => format!("{noun} {shown} and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_of_several_cells() {
        let cell = |connections: &str, path: &str| {
            plan::Levels::from([
                ("connections".to_owned(), connections.to_owned()),
                ("path".to_owned(), path.to_owned()),
            ])
        };
        let (a, b, c) = (cell("10", "x"), cell("100", "x"), cell("100", "y"));
        for (cells, text) in [
            (vec![], ""),
            (vec![&a], "connections=10 path=x"),
            (vec![&a, &b], "connections=10, 100 path=x"),
            (
                vec![&a, &c],
                "connections=10 path=x; connections=100 path=y",
            ),
            (
                vec![&a, &b, &c],
                "connections=10 path=x; connections=100 path=x; connections=100 path=y",
            ),
        ] {
            assert_eq!(several_levels(&cells), text);
        }
    }

    #[test]
    fn numbers_for_people() {
        for (share, text) in [
            (0.0, "0 %"),
            (0.01, "1 %"),
            (0.004, "0.4 %"),
            (0.0996, "10 %"),
            (0.42, "42 %"),
            (1.0, "100 %"),
        ] {
            assert_eq!(percent(share), text);
        }
        for (per_s, text) in [(0.5, "0.50"), (12.34, "12.3"), (61_234.4, "61,234")] {
            assert_eq!(rate(per_s), text);
        }
        assert_eq!(count(1_234_567), "1,234,567");
        assert_eq!(plural(1, "trial"), "1 trial");
        assert_eq!(plural(1_000, "trial"), "1,000 trials");
    }
}
