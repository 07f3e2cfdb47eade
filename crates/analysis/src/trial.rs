//! One trial's figures and verdict, from its record.

use crate::diagnosis::full_of_requests;
use crate::observed::{Case, Observed};
use crate::stats::share;
use crate::words::count;
use crate::{
    LatencySummary, TrialAnalysis, Usage, Verdict, imported, judge_parts, limit, steady, validity,
    verdict, warn,
};
use record::{
    FailureKind, LoadOutcome, LoadSpec, Nanos, TargetRecord, ThreadCost, TrialRecord, TrialState,
    Warning,
};

/// The kernel counts a core's time in ticks of 10 ms: in a shorter measurement a tenth of a core is a few of them.
const SHORTEST_WATCHED: Nanos = Nanos::SECOND;

/// The server's count of requests and that of several hosts agree to this share.
const REFEREE: f64 = 0.001;

/// Figures, verdict and warnings of a trial; its own stored warnings come first.
pub fn analyse_trial(record: &TrialRecord, error_limit: f64) -> (TrialAnalysis, Vec<Warning>) {
    let mut warnings = record.warnings.clone();
    let Some(outcome) = &record.outcome else {
        let analysis = match &record.reported {
            Some(reported) => imported::analysis(without_outcome(record), reported, error_limit),
            None => without_outcome(record),
        };
        return (analysis, warnings);
    };
    let case = Case {
        outcome,
        series: &record.series,
        spec: &record.load,
        targets: &record.targets,
        error_limit,
    };
    let observed = Observed::of(&case).with_profile(record.examination.as_ref());
    warnings.extend(outcome.warnings.iter().cloned());
    warnings.extend(warn::warnings(&case, &observed));
    let mut analysis = with_outcome(record, &case, &observed);
    if let Some(full) = full_of_requests(record, error_limit, &analysis.verdict) {
        analysis.verdict = full;
    }
    if !record.hosts.is_empty() {
        let sum = match ended_early(&record.state) {
            None => referee(outcome, limit::addressed(&case.sight()), &record.load),
            early => early,
        };
        let sum = sum.unwrap_or(analysis.verdict);
        let judged = judge_parts(sum, &record.hosts, &record.load, error_limit, outcome);
        warnings.extend(judged.warnings);
        (analysis.verdict, analysis.agents) = (judged.verdict, judged.agents);
    }
    (analysis, warnings)
}

/// The server's own count of requests against the sum of the hosts': apart by more than what was under way at the end,
/// what failed, of which the server may have counted any, and a thousandth, one of the two is wrong.
fn referee(
    outcome: &LoadOutcome,
    target: Option<&TargetRecord>,
    spec: &LoadSpec,
) -> Option<Verdict> {
    let counted = target?.requests_counted? as f64;
    let seen = answered(outcome);
    let under_way = u64::from(spec.connections) * u64::from(spec.pipeline.max(spec.streams));
    let failed: u64 = outcome.intervals.iter().map(|i| i.failed).sum();
    let slack = seen * REFEREE + (under_way + failed) as f64;
    ((counted - seen).abs() > slack).then(|| {
        Verdict::invalid(
            format!(
                "the server counted {} requests, and the hosts of the load {} answers to them, warm-up included",
                count(counted as u64),
                count(seen as u64)
            ),
            "look for other clients of the server, or for a host whose answers did not come from it",
        )
    })
}

fn without_outcome(record: &TrialRecord) -> TrialAnalysis {
    TrialAnalysis {
        id: record.id,
        stage: record.stage.clone(),
        block: record.block,
        levels: record.levels.clone(),
        verdict: ended_early(&record.state)
            .unwrap_or_else(|| Verdict::invalid("the trial has no load", "run it again")),
        offered_per_s: None,
        achieved_per_s: None,
        response_ns: None,
        service_ns: None,
        error_share: None,
        generator_cpu_us_per_request: None,
        pause_share: None,
        target_cpu_us_per_request: None,
        generator_utilization: None,
        foreign_cores: None,
        replaced_by: None,
        interrupted: record.state == TrialState::Interrupted,
        counted_by_server: None,
        agents: Vec::new(),
        usage: Vec::<Usage>::new(),
        steady: None,
        reported: None,
        littles_law: None,
    }
}

/// The verdict of a trial that did not come to its end.
fn ended_early(state: &TrialState) -> Option<Verdict> {
    match state {
        TrialState::Complete => None,
        TrialState::Interrupted => Some(Verdict::invalid(
            "interrupted before the end of the trial",
            "continue the run",
        )),
        TrialState::Failed { error, remedy } => Some(Verdict::invalid(error, remedy)),
    }
}

fn with_outcome(record: &TrialRecord, case: &Case<'_>, observed: &Observed) -> TrialAnalysis {
    let outcome = case.outcome;
    let completed = outcome.requests.completed as f64;
    let steady = steady::steady(outcome, &record.load);
    TrialAnalysis {
        verdict: ended_early(&record.state).unwrap_or_else(|| verdict::judge(case, observed)),
        offered_per_s: record.load.arrival.offered_per_s(),
        achieved_per_s: match &steady {
            Some(steady) => steady.rate_per_s,
            None => outcome.achieved_per_s(),
        },
        response_ns: LatencySummary::of(&outcome.response),
        service_ns: LatencySummary::of(&outcome.service),
        error_share: validity::error_share(outcome),
        generator_cpu_us_per_request: share(generator_cpu_us(outcome), completed),
        pause_share: outcome.pause_share(),
        target_cpu_us_per_request: observed
            .target_cpu_s
            .and_then(|s| share(s * 1e6, completed)),
        generator_utilization: outcome.generator.utilization(),
        foreign_cores: observed
            .foreign_cores()
            .filter(|_| outcome.measured() >= SHORTEST_WATCHED),
        counted_by_server: counted_by_server(outcome, limit::addressed(&case.sight())),
        usage: observed.usage(&case.sight()),
        steady,
        littles_law: match record.load.arrival.offered_per_s() {
            None => limit::littles_law(case),
            Some(_) => None,
        },
        ..without_outcome(record)
    }
}

fn generator_cpu_us(outcome: &LoadOutcome) -> f64 {
    let work = |t: &ThreadCost| (t.cpu_user_ns + t.cpu_system_ns).saturating_sub(t.spin_ns);
    outcome.generator.threads.iter().map(work).sum::<u64>() as f64 / 1e3
}

/// What the server counted over what the generator saw answered, warm-up included. The intervals cover the
/// warm-up but know failures only as one number; of those, the share that were answers is taken
/// from the measured part.
fn counted_by_server(outcome: &LoadOutcome, target: Option<&TargetRecord>) -> Option<f64> {
    let counted = target?.requests_counted? as f64;
    share(counted, answered(outcome))
}

/// Answers of all intervals, warm-up included.
fn answered(outcome: &LoadOutcome) -> f64 {
    let failed = &outcome.requests.failed;
    let answered = [
        FailureKind::Status4xx,
        FailureKind::Status5xx,
        FailureKind::Check,
        FailureKind::Capture,
        FailureKind::BodyTooLarge,
    ];
    let statuses: u64 = answered.iter().filter_map(|kind| failed.get(kind)).sum();
    let answers = share(statuses as f64, outcome.requests.failures() as f64).unwrap_or(0.0);
    let intervals = outcome.intervals.iter();
    intervals
        .map(|i| i.succeeded as f64 + i.failed as f64 * answers)
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::{nginx, spec, with_rate};

    #[test]
    fn the_servers_own_count_referees_the_sum_of_hosts() {
        let mut outcome = with_rate(100_000, Nanos::from_millis(5), 0.3);
        outcome.intervals = vec![record::Interval {
            succeeded: 100_000,
            ..record::Interval::default()
        }];
        let judged = |counted| {
            let target = TargetRecord {
                requests_counted: counted,
                ..nginx()
            };
            referee(&outcome, Some(&target), &spec())
        };
        // A thousandth, and what the connections had under way at the end.
        let slack = 100 + u64::from(spec().connections);
        assert_eq!(judged(Some(100_000 + slack)), None);
        assert_eq!(judged(Some(100_000 - slack)), None);
        for wrong in [100_001 + slack, 99_999 - slack] {
            let verdict = judged(Some(wrong)).unwrap();
            assert!(
                !verdict.valid && verdict.why.contains("100,000 answers"),
                "{verdict:?}"
            );
        }
        assert_eq!(judged(None), None, "it keeps no count");
    }
}
