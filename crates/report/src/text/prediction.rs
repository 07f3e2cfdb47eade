//! What a change would bring, in one line, and whether it did.

use analysis::{Held, Metric, NextLimit, WhatIf};

/// `CPU time per request x0.73 (0.60-0.80), the rate x1.24; then the cores of upstream-9000 are full, at x1.30 of the
/// rate`; why nothing is said where it is withheld.
pub(crate) fn would_bring(said: &WhatIf) -> String {
    let Some(ratio) = said.ratio else {
        let why = said.withheld.as_deref().unwrap_or("nothing is predicted");
        return format!("not predicted: {why}");
    };
    let mut text = format!("{} x{ratio:.2}", bare(said.metric));
    match said.interval {
        Some((low, high)) => text += &format!(" ({low:.2}-{high:.2})"),
        None => text += " (interval not known)",
    }
    if let Some(rate) = said.rate {
        text += &format!(", rate x{rate:.2} if the load asks for it");
    }
    match &said.next_limit {
        Some(next) => format!("{text}; {}", then(next)),
        None => text,
    }
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
    let Some(ratio) = held.ratio else {
        let why = held.withheld.as_deref().unwrap_or("nothing was said");
        return format!("not predicted ({why}), {measured}");
    };
    let interval = held.interval;
    let interval =
        interval.map_or_else(String::new, |(low, high)| format!(" ({low:.2}-{high:.2})"));
    let verdict = match held.within {
        Some(true) => ": within",
        Some(false) => ": OUTSIDE",
        None => "",
    };
    format!(
        "{} predicted x{ratio:.2}{interval}, {measured}{verdict}",
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
        let withheld = WhatIf {
            ratio: None,
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
        held_to.withheld = Some("requests fail".to_owned());
        assert_eq!(
            held(&held_to),
            "not predicted (requests fail), measured x1.50"
        );
    }
}
