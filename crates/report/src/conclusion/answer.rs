//! The answer of a run as three sentences: what the factor does (or how much is held), by which mechanism (or what
//! limits it), what to do and how sure that is.
//!
//! Every number is one of the document's `answer`; a level without an interval is named as such and nothing else is
//! said of it.

use super::{NAMED, Said, Sentence};
use crate::number::{Source, Unit};
use analysis::words::{levels as levels_words, plural};
use analysis::{
    Answer, AnswerKind, AnswerMetric, Capacity, CauseSeen, Effect, Knee, Levels, Limit,
    MechanismChange, Met, Method, PerRequest, RequestChange, Status,
};

/// Kinds of calls that are named of each target.
const CALLS_NAMED: usize = 3;
/// A call is named when its number changes by this share of the largest change.
const CALLS_MATTER: f64 = 0.25;
/// Parts of the CPU time that are named.
const PARTS_NAMED: usize = 1;
/// A wait for a CPU is named when it changes by this share of the CPU time's change.
const WAIT_MATTERS: f64 = 0.5;
/// Intervals that reach no farther from 1 exclude what anybody would act on.
const NARROW: f64 = 0.1;
/// Levels without an interval that are named.
const UNCOMPARED_NAMED: usize = 2;

/// The three sentences; `source` is the document's part `answer`.
pub(crate) fn lines(answer: &Answer, source: &Source) -> Vec<Sentence> {
    let lines = Lines { answer, source };
    let mut all = match answer.kind {
        AnswerKind::Comparison => lines.comparison(),
        AnswerKind::Capacity => lines.capacity(),
        AnswerKind::NotAnswered => lines.not_answered(),
    };
    all.iter_mut().for_each(Sentence::begin);
    all
}

struct Lines<'a> {
    answer: &'a Answer,
    source: &'a Source,
}

fn metric_words(metric: AnswerMetric) -> &'static str {
    match metric {
        AnswerMetric::Rate => "rate",
        AnswerMetric::P99 => "p99 of the response time",
        AnswerMetric::Cpu => "servers' CPU per request",
    }
}

/// ` at backend=origin`; nothing where there is no other factor.
fn at_setting(levels: &Levels) -> String {
    match levels.is_empty() {
        true => String::new(),
        false => format!(" at {}", levels_words(levels)),
    }
}

fn sentence(said: Said, at: &str) -> Sentence {
    Sentence::new(said, "", format!("#/answer{at}"))
}

impl Lines<'_> {
    fn number(&self, s: Sentence, at: &str, unit: Unit) -> Sentence {
        s.number(self.source, at, unit)
    }

    /// `-68 % (-69 % to -67 %)`.
    fn ratio(&self, s: Sentence, at: &str) -> Sentence {
        let s = self.number(s, &format!("{at}/ratio"), Unit::Change);
        let s = self.number(s.words(" ("), &format!("{at}/low"), Unit::Change);
        self.number(s.words(" to "), &format!("{at}/high"), Unit::Change)
            .words(")")
    }

    /// A ratio, and that it shows nothing where it does not.
    fn judged(&self, s: Sentence, effect: &Effect, at: &str) -> Sentence {
        let s = self.ratio(s, at);
        match effect.is_shown() {
            true => s,
            false => s.words(", no difference shown"),
        }
    }

    /// A signed time: `+11.4 us`.
    fn signed(&self, s: Sentence, at: &str, value: f64, unit: Unit) -> Sentence {
        let s = if value >= 0.0 { s.words("+") } else { s };
        self.number(s, at, unit)
    }

    fn comparison(&self) -> Vec<Sentence> {
        let Some(effect) = &self.answer.effect else {
            return Vec::new();
        };
        let first = match self.answer.no_difference_above {
            Some(_) => self.no_difference(effect),
            None => self.difference(effect),
        };
        vec![
            self.uncompared(first),
            self.mechanism(effect),
            self.next(effect),
        ]
    }

    fn difference(&self, effect: &Effect) -> Sentence {
        let metric = self.answer.metric;
        let s = sentence(Said::Answer, "/effect").words(format!(
            "{} against {}{}: the {} changes by ",
            levels_words(&effect.to),
            levels_words(&effect.from),
            at_setting(&effect.setting),
            metric_words(metric),
        ));
        let s = self.judged(s, effect, "/effect/ratio");
        let (unit, behind) = match metric {
            AnswerMetric::Rate => (Unit::PerSecond, "/s"),
            AnswerMetric::P99 => (Unit::Nanos, ""),
            AnswerMetric::Cpu => (Unit::Micros, ""),
        };
        let s = match (effect.before, effect.after) {
            (Some(_), Some(_)) => {
                let s = self.number(s.words(", from "), "/effect/before/median", unit);
                let s = s.words(format!("{behind} to "));
                self.number(s, "/effect/after/median", unit).words(behind)
            }
            _ => s,
        };
        self.elsewhere(self.others(s).words("."), effect)
    }

    /// The other levels in the same setting.
    fn others(&self, mut s: Sentence) -> Sentence {
        let others = &self.answer.others;
        for (i, other) in others.iter().take(NAMED).enumerate() {
            let between = if i == 0 { "; " } else { ", " };
            s = s.words(format!("{between}{} ", levels_words(&other.to)));
            s = self.judged(s, other, &format!("/others/{i}/ratio"));
        }
        match others.len().saturating_sub(NAMED) {
            0 => s,
            more => s.words(format!(" and {}", plural(more as u64, "more level"))),
        }
    }

    /// The same level in other settings; where there are many, the least and the most of all.
    fn elsewhere(&self, s: Sentence, effect: &Effect) -> Sentence {
        let all = &self.answer.elsewhere;
        let place = |e: &Effect| match e.stage == effect.stage {
            true => levels_words(&e.setting),
            false => format!("stage {}{}", e.stage, at_setting(&e.setting)),
        };
        let same: Vec<(usize, &Effect)> = all
            .iter()
            .enumerate()
            .filter(|(_, e)| e.to == effect.to)
            .collect();
        if same.is_empty() {
            return s;
        }
        if same.len() == 1 {
            let (i, one) = same[0];
            let s = s.words(format!(" At {} it is ", place(one)));
            return self
                .judged(s, one, &format!("/elsewhere/{i}/ratio"))
                .words(".");
        }
        let by = |a: &&(usize, &Effect), b: &&(usize, &Effect)| {
            a.1.ratio.ratio.total_cmp(&b.1.ratio.ratio)
        };
        let (Some((least, a)), Some((most, b))) = (same.iter().min_by(by), same.iter().max_by(by))
        else {
            return s;
        };
        let s = s.words(format!(" In {} others it is between ", same.len()));
        let s = self.ratio(s, &format!("/elsewhere/{least}/ratio"));
        let s = s.words(format!(" at {} and ", place(a)));
        self.ratio(s, &format!("/elsewhere/{most}/ratio"))
            .words(format!(" at {}.", place(b)))
    }

    fn no_difference(&self, effect: &Effect) -> Sentence {
        let factors: Vec<&str> = effect.from.keys().map(String::as_str).collect();
        let factors = factors.join(", ");
        let metric = metric_words(self.answer.metric);
        let compared = 1 + self.answer.others.len() + self.answer.elsewhere.len();
        let compared = plural(compared as u64, "comparison");
        let narrow = self.answer.no_difference_above <= Some(NARROW);
        let s = sentence(Said::Answer, "/no_difference_above").words(match narrow {
            true => format!("no: {factors} makes no difference to the {metric} that is larger than "),
            false => format!(
                "not shown: no level of {factors} is shown to change the {metric}, but the intervals are so wide that they allow changes of up to "
            ),
        });
        let s = self.number(s, "/no_difference_above", Unit::Share);
        let s = s.words(format!(
            " in {compared} with {}; farthest from it is {}{}, ",
            levels_words(&effect.from),
            levels_words(&effect.to),
            at_setting(&effect.setting),
        ));
        self.ratio(s, "/effect/ratio").words(".")
    }

    /// Levels that no interval speaks of.
    fn uncompared(&self, mut s: Sentence) -> Sentence {
        let all = &self.answer.uncompared;
        if all.is_empty() {
            return s;
        }
        s = s.words(" Not compared: ");
        for (i, one) in all.iter().take(UNCOMPARED_NAMED).enumerate() {
            let between = if i == 0 { "" } else { ", " };
            s = s.words(format!(
                "{between}{} ({})",
                levels_words(&one.levels),
                one.why
            ));
        }
        s.words(match all.len().saturating_sub(UNCOMPARED_NAMED) {
            0 => ".".to_owned(),
            more => format!(" and {more} more."),
        })
    }

    fn mechanism(&self, effect: &Effect) -> Sentence {
        let mut s = sentence(Said::Mechanism, "/mechanism");
        let better = self.answer.better_mechanism.as_ref();
        if let Some(m) = &self.answer.mechanism {
            s = self.times(s, m, "/mechanism", better.is_none());
            // Where two levels have the server in question, what differs between these two says it better.
            s = match (&self.answer.better, better) {
                (Some(_), Some(_)) => self.joins(s, m, "/mechanism"),
                _ => self.counts(s, m, "/mechanism"),
            };
        }
        if let (Some(between), Some(m)) = (&self.answer.better, better) {
            s = s.words(format!(
                " With {} in place of {} ",
                levels_words(&between.to),
                levels_words(&between.from)
            ));
            s = self.times(s, m, "/better_mechanism", false);
            s = self.counts(s, m, "/better_mechanism");
        }
        match self.answer.cause() {
            Some(cause) => s.words(format!(" {}", cause_words(self.answer, effect, cause))),
            None => s,
        }
    }

    /// CPU of a request with its largest part, and the wait for it where there is room for it; all with their
    /// intervals.
    fn times(&self, mut s: Sentence, m: &RequestChange, at: &str, with_wait: bool) -> Sentence {
        let timed = || {
            let all = m.changes.iter().enumerate();
            all.filter(|(_, c)| c.what.is_timed())
        };
        let Some((i, cpu)) = timed().find(|(_, c)| c.what == PerRequest::Cpu) else {
            return s
                .words("the servers' CPU per request was not measured in three pairs of trials.");
        };
        let change = |i: usize| format!("{at}/changes/{i}");
        let Some(difference) = cpu.difference else {
            return s;
        };
        let interval = |s: Sentence, i: usize, c: &MechanismChange| {
            let Some(d) = c.difference else { return s };
            let at = format!("{}/difference", change(i));
            let s = self.signed(s.words(" ("), &format!("{at}/low"), d.low, Unit::Plain);
            self.signed(s.words(" to "), &format!("{at}/high"), d.high, Unit::Plain)
                .words(")")
        };
        s = match difference.is_shown() {
            true => s.words("a request takes "),
            false => s.words("the servers' CPU per request is not shown to differ: "),
        };
        s = self.number(s, &format!("{}/after", change(i)), Unit::Micros);
        s = match difference.is_shown() {
            true if at == "/mechanism" => s.words(" of CPU on the servers instead of "),
            true => s.words(" instead of "),
            false => s.words(" and "),
        };
        s = self.number(s, &format!("{}/before", change(i)), Unit::Micros);
        s = match difference.is_shown() {
            true => s.words(", "),
            false => s.words(", difference "),
        };
        s = self.signed(
            s,
            &format!("{}/difference/mean", change(i)),
            difference.mean,
            Unit::Micros,
        );
        s = interval(s, i, cpu);
        let part = |c: &MechanismChange| {
            let same_way = (c.grown() > 0.0) == (difference.mean > 0.0);
            same_way && difference.is_shown() && c.what != PerRequest::RunQueue
        };
        let parts = timed().filter(|(_, c)| c.what != PerRequest::Cpu && part(c));
        let wait = timed().filter(|(_, c)| {
            with_wait
                && c.what == PerRequest::RunQueue
                && c.grown().abs() >= WAIT_MATTERS * difference.mean.abs()
        });
        let parts_named = if at == "/mechanism" { PARTS_NAMED } else { 0 };
        for (i, c) in parts.take(parts_named).chain(wait) {
            let Some(d) = c.difference else { continue };
            s = s.words(match c.what {
                PerRequest::User => "; in user mode ",
                PerRequest::System => "; in system calls ",
                PerRequest::Softirq => "; in softirq ",
                _ => "; waiting for a CPU ",
            });
            s = self.signed(
                s,
                &format!("{}/difference/mean", change(i)),
                d.mean,
                Unit::Micros,
            );
            s = interval(s, i, c);
        }
        s.words(".")
    }

    /// Calls of a request that differ, those of one target together.
    fn counts(&self, mut s: Sentence, m: &RequestChange, at: &str) -> Sentence {
        if !m.missing.is_empty() {
            return s.words(format!(
                " What it does for a request is not known: {}.",
                m.missing
            ));
        }
        let counted: Vec<(usize, &MechanismChange)> = m
            .changes
            .iter()
            .enumerate()
            .filter(|(_, c)| !c.what.is_timed())
            .collect();
        let most = counted.iter().map(|(_, c)| c.grown().abs());
        let least = CALLS_MATTER * most.fold(0.0, f64::max);
        let counted: Vec<(usize, &MechanismChange)> = counted
            .into_iter()
            .filter(|(_, c)| c.grown().abs() >= least)
            .collect();
        let mut targets: Vec<&str> = Vec::new();
        for (_, c) in &counted {
            if !targets.contains(&c.target.as_str()) {
                targets.push(&c.target);
            }
        }
        if targets.is_empty() {
            let same = " The system calls of a request are the same";
            return match (m.calls_before, m.calls_after) {
                (Some(_), Some(_)) => {
                    let s = self.number(
                        s.words(format!("{same} (")),
                        &format!("{at}/calls_after"),
                        Unit::Plain,
                    );
                    s.words(").")
                }
                _ => s.words(format!("{same}.")),
            };
        }
        for target in targets {
            let of_target = counted.iter().filter(|(_, c)| c.target == target);
            s = s.words(format!(" Per request {target} makes "));
            for (n, (i, c)) in of_target.take(CALLS_NAMED).enumerate() {
                s = if n == 0 { s } else { s.words(", ") };
                s = self.count(s, c, &format!("{at}/changes/{i}"));
            }
            s = s.words(".");
        }
        s
    }

    /// `10.0 reads from upstream of 8.7 KiB instead of 1.0 of 87 KiB`.
    fn count(&self, s: Sentence, c: &MechanismChange, at: &str) -> Sentence {
        let side = |s: Sentence, which: &str, bytes: Option<f64>| {
            let s = self.number(s, &format!("{at}/{which}"), Unit::Decimal);
            let s = match which {
                "after" => s.words(format!(" {}", call_words(c))),
                _ => s,
            };
            match bytes {
                Some(_) => {
                    let s = s.words(" of ");
                    self.number(s, &format!("{at}/mean_bytes_{which}"), Unit::Bytes)
                }
                None => s,
            }
        };
        match (c.before, c.after) {
            (Some(_), Some(_)) => {
                let s = side(s, "after", c.mean_bytes_after);
                side(s.words(" instead of "), "before", c.mean_bytes_before)
            }
            (None, _) => side(s, "after", c.mean_bytes_after),
            (Some(_), None) => {
                let s = self.number(s, &format!("{at}/before"), Unit::Decimal);
                s.words(format!(" {} fewer", call_words(c)))
            }
        }
    }

    /// Who takes part at one level only.
    fn joins(&self, s: Sentence, m: &RequestChange, at: &str) -> Sentence {
        if m.joins.is_empty() || m.missing.is_empty() && m.calls_after.is_none() {
            return self.counts(s, m, at);
        }
        let s = s.words(format!(
            " {} takes part in every request",
            m.joins.join(", ")
        ));
        match (m.calls_before, m.calls_after) {
            (Some(_), Some(_)) => {
                let s = self.number(
                    s.words(", which then takes "),
                    &format!("{at}/calls_after"),
                    Unit::Decimal,
                );
                let s = s.words(" system calls instead of ");
                self.number(s, &format!("{at}/calls_before"), Unit::Decimal)
                    .words(".")
            }
            _ => s.words("."),
        }
    }

    fn next(&self, effect: &Effect) -> Sentence {
        let s = sentence(Said::Next, "/effect");
        let metric = metric_words(self.answer.metric);
        let remedy = first_sentence(&self.answer.remedy);
        let worse = effect.is_shown()
            && match self.answer.metric {
                AnswerMetric::Rate => effect.ratio.ratio < 1.0,
                AnswerMetric::P99 | AnswerMetric::Cpu => effect.ratio.ratio > 1.0,
            };
        let s = match (&self.answer.better, self.answer.no_difference_above) {
            (_, Some(bound)) if bound > NARROW => s.words(
                "repeat on a quiet host: four times the blocks halve the intervals (`repeats` in [design]).",
            ),
            (_, Some(_)) => s.words(format!(
                "keep {}, or choose by something else than speed.",
                levels_words(&effect.from)
            )),
            (Some(better), None) => {
                let s = s.words(format!(
                    "choose {} over {}: the {metric} changes by ",
                    levels_words(&better.to),
                    levels_words(&better.from)
                ));
                self.ratio(s, "/better/ratio").words(".")
            }
            (None, None) if worse => {
                let nothing_better = self
                    .answer
                    .others
                    .iter()
                    .all(|o| !gains(self.answer.metric, o));
                match nothing_better {
                    true => s.words(format!("keep {}.", levels_words(&effect.from))),
                    false => s.words(format!("avoid {}.", levels_words(&effect.to))),
                }
            }
            (None, None) => s.words(format!("use {}.", levels_words(&effect.to))),
        };
        let s = match remedy {
            "" => s,
            remedy => s.words(format!(" {remedy}.")),
        };
        self.sure(s, effect)
    }

    /// What the interval stands on, and whether the cause was proved.
    fn sure(&self, s: Sentence, effect: &Effect) -> Sentence {
        let s = self.number(
            s.words(" Intervals of 95 % from "),
            "/effect/ratio/pairs",
            Unit::Count,
        );
        let s = self.number(s.words(" pairs of trials in "), "/blocks", Unit::Count);
        let s = s.words(match effect.ratio.method {
            Method::StudentT => " blocks (Student's t)",
            Method::Rank => " blocks (ranks)",
            Method::None => " blocks",
        });
        match self.answer.cause().map(|c| c.status) {
            Some(Status::Proved) => s.words("; the cause was proved by changing it."),
            Some(_) => s.words(
                "; the counts support the cause, `prony diagnose --prove` proves it or not.",
            ),
            None => s.words("."),
        }
    }

    fn capacity(&self) -> Vec<Sentence> {
        let Some(capacity) = &self.answer.capacity else {
            return Vec::new();
        };
        vec![
            self.held(capacity),
            limited(capacity),
            self.next_of_capacity(capacity),
        ]
    }

    fn held(&self, capacity: &Capacity) -> Sentence {
        let s = sentence(Said::Answer, "/capacity").words(match capacity.offered {
            true => "of the rates that were offered it met ",
            false => "it serves ",
        });
        let s = self.number(s, "/capacity/rate_per_s/median", Unit::PerSecond);
        let s = s.words(format!("/s{}", at_setting(&capacity.levels)));
        let few = capacity.trials < FEWEST_TRIALS;
        let s = match few {
            true => s.words(format!(
                " in {}, too few for an interval",
                plural(u64::from(capacity.trials), "trial")
            )),
            false => {
                let s = self.number(s.words(" ("), "/capacity/rate_per_s/min", Unit::PerSecond);
                let s = self.number(s.words(" to "), "/capacity/rate_per_s/max", Unit::PerSecond);
                s.words(format!(
                    " in {})",
                    plural(u64::from(capacity.trials), "trial")
                ))
            }
        };
        let s = match capacity.response_ns_p99 {
            Some(_) => self.number(
                s.words(", p99 "),
                "/capacity/response_ns_p99/median",
                Unit::Nanos,
            ),
            None => s,
        };
        let s = match &capacity.knee {
            Some(knee) => self.knee(s, knee),
            None => s,
        };
        self.met(s.words("."), capacity.open.as_ref())
    }

    fn knee(&self, s: Sentence, knee: &Knee) -> Sentence {
        let (unit, behind) = match knee.axis.as_str() {
            "connections" => (Unit::Count, " connections"),
            _ => (Unit::PerSecond, "/s offered"),
        };
        let s = self.number(s.words("; the knee is at "), "/capacity/knee/at", unit);
        let s = self.number(
            s.words(format!("{behind} (")),
            "/capacity/knee/achieved_per_s",
            Unit::PerSecond,
        );
        s.words("/s)")
    }

    /// A closed loop says nothing of how fast users are served: the highest rate that was met does.
    fn met(&self, s: Sentence, met: Option<&Met>) -> Sentence {
        let Some(met) = met else {
            return s;
        };
        let s = s.words(format!(" In an open loop{} ", at_setting(&met.levels)));
        let s = self.number(s, "/capacity/open/rate_per_s/median", Unit::PerSecond);
        let s = self.number(
            s.words("/s are served with p50 "),
            "/capacity/open/response_ns_p50/median",
            Unit::Nanos,
        );
        let s = self.number(
            s.words(" and p99 "),
            "/capacity/open/response_ns_p99/median",
            Unit::Nanos,
        );
        s.words(".")
    }

    fn next_of_capacity(&self, capacity: &Capacity) -> Sentence {
        let s = sentence(Said::Next, "/remedy");
        let s = match first_sentence(&self.answer.remedy) {
            "" => s.words("nothing to fix was found."),
            remedy => s.words(format!("{remedy}.")),
        };
        match (capacity.trials < FEWEST_TRIALS, &capacity.cause) {
            (true, _) => {
                s.words(" Repeat three times at least: only then the rate has an interval.")
            }
            (false, Some(c)) if c.status == Status::Proved => {
                s.words(" The cause was proved by changing it.")
            }
            (false, Some(_)) => {
                s.words(" The counts support the cause; `prony diagnose --prove` would prove it.")
            }
            (false, None) => s,
        }
    }

    fn not_answered(&self) -> Vec<Sentence> {
        let Some(unanswered) = &self.answer.unanswered else {
            return Vec::new();
        };
        let part = |said, at: &str, text: &str| {
            let text = text.trim_end_matches('.');
            (!text.is_empty()).then(|| sentence(said, at).words(format!("{text}.")))
        };
        [
            part(
                Said::Answer,
                "/unanswered/what",
                &format!("not answered: {}", unanswered.what),
            ),
            part(Said::Mechanism, "/unanswered/why", &unanswered.why),
            part(Said::Next, "/unanswered/next", &unanswered.next),
        ]
        .into_iter()
        .flatten()
        .collect()
    }
}

/// A remedy's first sentence, which says what to do; the rest says what else, and stands with the cause.
fn first_sentence(text: &str) -> &str {
    let end = text.find(". ").unwrap_or(text.len());
    text[..end].trim_end_matches('.')
}

/// Fewest trials whose range is worth as much as an interval.
const FEWEST_TRIALS: u32 = 3;

fn gains(metric: AnswerMetric, effect: &Effect) -> bool {
    effect.is_shown()
        && match metric {
            AnswerMetric::Rate => effect.ratio.ratio > 1.0,
            AnswerMetric::P99 | AnswerMetric::Cpu => effect.ratio.ratio < 1.0,
        }
}

fn limited(capacity: &Capacity) -> Sentence {
    let s = sentence(Said::Mechanism, "/capacity/why");
    let by = match capacity.limit {
        Limit::Server => "limited by the server: ",
        Limit::Generator => "limited by the load generator: ",
        Limit::OfferedLoad => "limited by the offered load: ",
        Limit::Network => "limited by the network: ",
        Limit::Unknown => "",
    };
    // The first clause is the reason, the rest explains it.
    let why = capacity.why.split(';').next().unwrap_or_default();
    let s = s.words(format!("{by}{}.", why.trim_end_matches('.')));
    match &capacity.cause {
        Some(cause) => s.words(format!(
            " Cause: {} ({}{}).",
            cause.cause,
            cause.title,
            on_target(&cause.target)
        )),
        None => s,
    }
}

fn on_target(target: &str) -> String {
    match target {
        "" => String::new(),
        target => format!(", on {target}"),
    }
}

/// Where the cause was named, and where it is gone.
fn cause_words(answer: &Answer, effect: &Effect, cause: &CauseSeen) -> String {
    let between = answer.better.as_ref().filter(|_| {
        let m = answer.better_mechanism.as_ref();
        m.is_some_and(|m| m.causes.iter().any(|c| std::ptr::eq(c, cause)))
    });
    let (from, to) = match between {
        Some(better) => (&better.from, &better.to),
        None => (&effect.from, &effect.to),
    };
    let (here, gone, other) = match cause.after {
        Some(true) => (to, cause.before, from),
        _ => (from, cause.after, to),
    };
    let gone = match gone {
        Some(false) => format!(", gone at {}", levels_words(other)),
        _ => String::new(),
    };
    format!(
        "Cause: {} ({}{}), named at {}{gone}.",
        cause.cause,
        cause.title,
        on_target(&cause.target),
        levels_words(here),
    )
}

/// `reads from upstream`, `connect calls`.
fn call_words(c: &MechanismChange) -> String {
    match (c.what, c.on.as_str()) {
        (PerRequest::Reads, "") => "reads".to_owned(),
        (PerRequest::Reads, "client") => "reads from the client".to_owned(),
        (PerRequest::Reads, on) => format!("reads from {on}"),
        (PerRequest::Writes, "") => "writes".to_owned(),
        (PerRequest::Writes, "client") => "writes to the client".to_owned(),
        (PerRequest::Writes, on) => format!("writes to {on}"),
        _ => format!("`{}` calls", c.call),
    }
}
