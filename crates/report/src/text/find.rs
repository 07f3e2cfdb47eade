//! A search for a rate: its plan before it begins, a line for each step, the answer with its steps.

use super::load_text;
use super::style::Style;
use super::table::columns;
use analysis::words::{plural, rate};
use analysis::{Found, RateSearch, SearchPlan, SearchStep, Verdict};
use record::{LoadOutcome, LoadSpec, Nanos};

/// Room for a reason in a table.
const WHY_CHARS: usize = 120;

fn seconds(s: f64) -> String {
    match s.round() as u64 {
        whole if whole >= 60 => format!("{} min {} s", whole / 60, whole % 60),
        _ => format!("{s:.1} s"),
    }
}

/// What a search will do, and how long it takes at most.
pub fn search_plan_text(plan: &SearchPlan) -> String {
    let from = match plan.from_per_s {
        Some(per_s) => format!("from {}/s", rate(per_s)),
        None => "from a tenth of a closed loop's rate, which is measured first".to_owned(),
    };
    format!(
        "search of the highest rate with {}: {from}, on {}; at most {} of {} after {} of warm-up; at most {} in all\n",
        plan.sought,
        plural(u64::from(plan.connections), "connection"),
        plural(u64::from(plan.most_steps), "step"),
        seconds(plan.measured_s),
        seconds(plan.warmup_s),
        seconds(plan.at_most_s)
    )
}

pub(crate) fn held(step: &SearchStep) -> &'static str {
    match step.held {
        Some(true) => "held",
        Some(false) if step.limit == analysis::Limit::Generator => "limit of the generator",
        Some(false) => "not held",
        None => "disturbed",
    }
}

/// The first clauses of a reason, for a table; the whole of it is in the line of its step.
pub(crate) fn in_short(why: &str) -> String {
    let mut short = String::new();
    for clause in why.split("; ") {
        if !short.is_empty() && short.len() + clause.len() > WHY_CHARS {
            break;
        }
        let between = if short.is_empty() { "" } else { "; " };
        short += between;
        short += clause;
    }
    short
}

fn p99(step: &SearchStep) -> String {
    let p99 = step.response_ns_p99.map(|p99| Nanos(p99).to_string());
    p99.unwrap_or_else(|| "-".to_owned())
}

fn per_s(of: Option<f64>) -> String {
    of.map_or_else(|| "-".to_owned(), |r| format!("{}/s", rate(r)))
}

/// The newest step in one line, and what is known since.
pub fn find_line(search: &RateSearch) -> String {
    let Some(step) = search.steps.last() else {
        return String::new();
    };
    let why = match step.held {
        Some(true) => String::new(),
        _ => format!(" ({})", step.why),
    };
    format!(
        "step {}: {}/s offered, p99 {}: {}{why}; so far {}",
        search.steps.len(),
        rate(step.offered_per_s),
        p99(step),
        held(step),
        so_far(search)
    )
}

fn so_far(search: &RateSearch) -> String {
    let [low, high] = [search.edge_low_per_s, search.edge_high_per_s].map(per_s);
    match search.found {
        Found::Between => format!("{low} to {high}"),
        Found::AtLeast => format!("at least {}", per_s(search.highest_held_per_s)),
        Found::NotHeld => "no rate held".to_owned(),
        Found::NotValid => "nothing".to_owned(),
    }
}

/// The answer, and the steps that led there.
pub fn find_text(search: &RateSearch, style: Style) -> String {
    let label = match search.found {
        Found::Between => style.good("found"),
        Found::AtLeast => style.doubtful("NOT WHOLE"),
        Found::NotHeld => style.bad("NOT HELD"),
        Found::NotValid => style.bad("NOT VALID"),
    };
    let mut text = format!("{label}: {}\n", search.summary());
    if let Some(ended) = search.ended {
        text += &format!("ended: {}\n", ended.words());
    }
    if let Some(closed) = search.closed_loop_per_s {
        text += &format!(
            "closed loop with {}: {}/s\n",
            plural(u64::from(search.plan.connections), "connection"),
            rate(closed)
        );
    }
    if let Some(low) = search.low_load_ns_p99 {
        text += &format!("p99 at the low load: {}\n", Nanos(low));
    }
    if search.steps.is_empty() {
        return text;
    }
    let head = ["step", "offered", "achieved", "p99", "", ""].map(str::to_owned);
    let mut rows = vec![head.to_vec()];
    rows.extend(search.steps.iter().map(|step| {
        let why = match step.held {
            Some(true) => String::new(),
            _ => in_short(&step.why),
        };
        vec![
            (step.trial + 1).to_string(),
            per_s(Some(step.offered_per_s)),
            per_s(step.achieved_per_s),
            p99(step),
            held(step).to_owned(),
            why,
        ]
    }));
    text + "\n" + &columns(&rows, |column| column >= 4)
}

/// The load whose figures stand below a search, under its rate.
pub fn load_at_text(
    spec: &LoadSpec,
    outcome: &LoadOutcome,
    verdict: &Verdict,
    style: Style,
) -> String {
    let of = match spec.arrival.offered_per_s() {
        Some(per_s) => format!("the newest step at {}/s", rate(per_s)),
        None => "the closed loop".to_owned(),
    };
    format!(
        "{}\n{}",
        style.heading(&of),
        load_text(spec, outcome, verdict, style)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use analysis::{Aim, Ended, Limit};

    #[test]
    fn a_search_reads_as_an_answer_and_its_steps() {
        let aim = Aim {
            slo: "p99<5ms".parse().ok(),
            knee: false,
        };
        let times = (Nanos::SECOND, Nanos::from_secs(5));
        let plan = SearchPlan::new(&aim, 64, None, times, Some(Nanos::from_secs(90))).unwrap();
        assert_eq!(
            search_plan_text(&plan),
            "search of the highest rate with p99<5.00ms: from a tenth of a closed loop's rate, which is measured first, on \
             64 connections; at most 12 steps of 5.0 s after 1.0 s of warm-up; at most 1 min 25 s in all\n"
        );
        let mut search = RateSearch::new(plan, Some(12_345.0));
        let step = |trial, offered: f64, held, why: &str| SearchStep {
            trial,
            offered_per_s: offered,
            achieved_per_s: Some(offered),
            response_ns_p99: Some(1_200_000),
            held,
            why: why.to_owned(),
            limit: Limit::OfferedLoad,
        };
        search.steps = vec![
            step(0, 1_230.0, Some(true), "all served"),
            step(1, 2_460.0, Some(false), "p99<5.00ms: it was 6.00ms"),
        ];
        search.found = Found::Between;
        search.ended = Some(Ended::Steps);
        (search.edge_per_s, search.highest_held_per_s) = (Some(2_000.0), Some(1_230.0));
        (search.edge_low_per_s, search.edge_high_per_s) = (Some(1_900.0), Some(2_100.0));
        search.held_times = 1;
        assert_eq!(
            find_text(&search, Style::Plain),
            "found: p99<5.00ms holds up to 2,000/s (95 % interval 1,900/s to 2,100/s); 1,230/s held each time, in 1 step\n\
             ended: all steps were made\n\
             closed loop with 64 connections: 12,345/s\n\
             \n\
             step  offered  achieved     p99\n\
             \x20  1  1,230/s   1,230/s  1.20ms  held\n\
             \x20  2  2,460/s   2,460/s  1.20ms  not held  p99<5.00ms: it was 6.00ms\n"
        );
        assert_eq!(
            find_line(&search),
            "step 2: 2,460/s offered, p99 1.20ms: not held (p99<5.00ms: it was 6.00ms); so far 1,900/s to 2,100/s"
        );
    }
}
