//! What a change would bring, in one line, and whether it did.

use analysis::{Held, Metric, NextLimit, WhatIf};

/// `CPU time per request x0.73 (0.60-0.80), the rate x1.24; then the cores of upstream-9000 are full, at x1.30 of the
/// rate`; the end of an interval that is too wide for a number; why nothing is said where it is withheld.
pub(crate) fn would_bring(said: &WhatIf) -> String {
    let metric = bare(said.metric);
    let mut text = match (said.ratio, said.interval) {
        (Some(ratio), Some((low, high))) => format!("{metric} x{ratio:.2} ({low:.2}-{high:.2})"),
        (Some(ratio), None) => format!("{metric} x{ratio:.2} (interval not known)"),
        (None, Some(interval)) => format!("{metric} {}", least(interval)),
        (None, None) => {
            let why = said.withheld.as_deref().unwrap_or("nothing is predicted");
            return format!("not predicted: {why}");
        }
    };
    if let Some(rate) = said.rate {
        text += &format!(", rate x{rate:.2} if the load asks for it");
    }
    match &said.next_limit {
        Some(next) => format!("{text}; {}", then(next)),
        None => text,
    }
}

/// `x0.51 or less`, `x1.40 or more`: what nine in ten brought at least.
fn least((low, high): (f64, f64)) -> String {
    let (end, more) = if high < 1.0 {
        (high, "less")
    } else {
        (low, "more")
    };
    format!("x{end:.2} or {more}, by nine in ten such changes on other servers")
}

/// `then the cores of server are full, at x1.24 of the rate`.
fn then(next: &NextLimit) -> String {
    let who = match next.station.as_str() {
        "generator" => "the load generator is".to_owned(),
        _ => format!("the cores of {} are", next.target),
    };
    format!("then {who} full, at x{:.2} of the rate", next.at_ratio)
}

/// `predicted x0.73 (0.60-0.80), measured x0.70: within`.
pub fn held(held: &Held) -> String {
    let measured = format!("measured x{:.2}", held.measured);
    let predicted = match (held.ratio, held.interval) {
        (Some(ratio), Some((low, high))) => format!("x{ratio:.2} ({low:.2}-{high:.2})"),
        (Some(ratio), None) => format!("x{ratio:.2}"),
        (None, Some((low, high))) => format!("x{low:.2}-{high:.2}"),
        (None, None) => {
            let why = held.withheld.as_deref().unwrap_or("nothing was said");
            return format!("not predicted ({why}), {measured}");
        }
    };
    let verdict = match held.within {
        Some(true) => ": within",
        Some(false) => ": OUTSIDE",
        None => "",
    };
    format!(
        "{} predicted {predicted}, {measured}{verdict}",
        bare(held.metric)
    )
}

fn bare(metric: Metric) -> &'static str {
    metric.words().trim_start_matches("the ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said() -> WhatIf {
        WhatIf {
            metric: Metric::CpuPerRequest,
            ratio: Some(0.728),
            interval: Some((0.6, 0.8)),
            net: Some((0.78, 0.68)),
            rate: Some(1.24),
            next_limit: Some(NextLimit {
                station: "upstream".to_owned(),
                target: "upstream-9000".to_owned(),
                at_ratio: 1.3,
            }),
            kind: "row".to_owned(),
            model: "CPU account".to_owned(),
            basis: Vec::new(),
            withheld: None,
        }
    }

    #[test]
    fn what_it_would_bring_is_one_line() {
        assert_eq!(
            would_bring(&said()),
            "CPU time per request x0.73 (0.60-0.80), rate x1.24 if the load asks for it; then the cores of \
             upstream-9000 are full, at x1.30 of the rate"
        );
        let generator = NextLimit {
            station: "generator".to_owned(),
            target: String::new(),
            at_ratio: 1.031,
        };
        let rate = WhatIf {
            metric: Metric::Rate,
            rate: None,
            interval: None,
            next_limit: Some(generator),
            ..said()
        };
        assert_eq!(
            would_bring(&rate),
            "rate x0.73 (interval not known); then the load generator is full, at x1.03 of the rate"
        );
        let wide = |metric, interval| WhatIf {
            metric,
            ratio: None,
            interval: Some(interval),
            rate: None,
            next_limit: None,
            ..said()
        };
        assert_eq!(
            would_bring(&wide(Metric::P50, (0.01, 0.514))),
            "median response time x0.51 or less, by nine in ten such changes on other servers"
        );
        assert_eq!(
            would_bring(&wide(Metric::Rate, (1.4, 30.0))),
            "rate x1.40 or more, by nine in ten such changes on other servers"
        );
        let withheld = WhatIf {
            ratio: None,
            interval: None,
            withheld: Some("requests fail".to_owned()),
            ..said()
        };
        assert_eq!(would_bring(&withheld), "not predicted: requests fail");
    }

    #[test]
    fn a_prediction_is_held_to_account() {
        let mut held_to = Held {
            metric: Metric::Rate,
            ratio: Some(1.24),
            interval: Some((1.1, 1.38)),
            measured: 1.19,
            measured_interval: None,
            within: Some(true),
            withheld: None,
        };
        assert_eq!(
            held(&held_to),
            "rate predicted x1.24 (1.10-1.38), measured x1.19: within"
        );
        held_to.within = Some(false);
        held_to.measured = 1.5;
        assert_eq!(
            held(&held_to),
            "rate predicted x1.24 (1.10-1.38), measured x1.50: OUTSIDE"
        );
        held_to.ratio = None;
        assert_eq!(
            held(&held_to),
            "rate predicted x1.10-1.38, measured x1.50: OUTSIDE"
        );
        held_to.interval = None;
        held_to.withheld = Some("requests fail".to_owned());
        assert_eq!(
            held(&held_to),
            "not predicted (requests fail), measured x1.50"
        );
    }
}
