//! What a server asks those behind it, again and again, with what it waits for that.
//!
//! The surprise: no rule takes part in this. A row says for whom requests wait; this says what for, in the words of the
//! one who asks, so that whoever knows the program finds the line that does it.

use super::LedgerCase;
use super::types::{Account, Asked, Row};
use record::{Question, UpstreamStats};

/// Questions that are kept of a target.
const KEPT: usize = 5;
/// What takes less of the wait for all answers is not told.
const LEAST: f64 = 0.1;
/// Fewer looks tell no shares.
const FEWEST: u64 = 8;
/// Requests that spend less of their time behind the server, which take less of its cores, are not about what it asks.
const BEHIND: f64 = 0.1;
const OF_CORES: f64 = 0.2;
/// From so many rows an answer on, their number is told.
const MANY_ROWS: f64 = 100.0;

/// What a target was seen to ask while its requests took the time of this account; nothing where they hardly wait for
/// answers, nor take these much of the cores, or where it hands each request on as it is.
pub(super) fn of(case: &LedgerCase<'_>, account: &Account) -> Vec<Asked> {
    let behind = |row: &Row| row.kind == "upstream" || !row.server.is_empty();
    let cores = case
        .facts
        .view(&account.target)
        .value("core.own_peers_share");
    if account.share_of(behind) < BEHIND && cores.is_none_or(|share| share < OF_CORES) {
        return Vec::new();
    }
    let asked = seen(case, &account.target);
    match asked.as_slice() {
        [one] if one.is_handed_on() => Vec::new(),
        _ => asked,
    }
}

fn seen(case: &LedgerCase<'_>, target: &str) -> Vec<Asked> {
    let signature = case.examination.and_then(|e| e.signature.as_ref());
    let mut targets = signature.iter().flat_map(|s| &s.targets);
    let theirs = targets.find(|t| t.target == target);
    let upstreams = theirs
        .and_then(|t| t.upstreams.as_deref())
        .unwrap_or_default();
    let each = || {
        upstreams
            .iter()
            .flat_map(|u| u.asked.iter().map(move |q| (u, q)))
    };
    let all_ns: u64 = each().map(|(_, q)| q.wait_ns).sum();
    if all_ns == 0 || each().map(|(_, q)| q.seen).sum::<u64>() < FEWEST {
        return Vec::new();
    }
    let turns: u64 = upstreams.iter().map(|u| u.requests).sum();
    let per_request = case
        .facts
        .view(target)
        .value("upstream.requests_per_request");
    let of_turn = per_request.filter(|_| turns > 0).map(|n| n / turns as f64);
    let asked = |(upstream, question): (&UpstreamStats, &Question)| {
        let of_told = |n: u64| (question.told > 0).then(|| n as f64 / question.told as f64);
        Asked {
            server: case.peer(&upstream.address),
            protocol: question.protocol.clone(),
            text: question.text.clone(),
            per_request: of_turn.map(|n| question.turns as f64 * n),
            share: question.wait_ns as f64 / all_ns as f64,
            wait_ms: question.wait_ns as f64 / question.turns.max(1) as f64 / 1e6,
            empty_share: of_told(question.empty),
            rows: of_told(question.rows),
        }
    };
    let mut all: Vec<Asked> = each().map(asked).collect();
    all.retain(|a| !a.text.is_empty() && a.share >= LEAST);
    all.sort_by(|a, b| b.share.total_cmp(&a.share).then(a.text.cmp(&b.text)));
    all.truncate(KEPT);
    all
}

impl LedgerCase<'_> {
    fn peer(&self, address: &str) -> String {
        let turns = self.turns();
        turns.map_or_else(|| address.to_owned(), |turns| turns.peer(address))
    }
}

impl Asked {
    /// A request of a client as it came.
    fn is_handed_on(&self) -> bool {
        let once = self.per_request.is_none_or(|n| n < 1.5);
        matches!(self.protocol.as_str(), "HTTP" | "FastCGI") && once
    }

    /// In words: `127.0.0.1:5432 (postgres) is asked 38.0 times a request, 0.41 ms each, 82 % of the wait for answers:
    /// SELECT name FROM orders WHERE customer = ?`.
    pub fn words(&self) -> String {
        let Self {
            server,
            wait_ms,
            text,
            ..
        } = self;
        let share = crate::words::percent(self.share);
        let often = match self.per_request {
            Some(n) => format!("{n:.1} times a request, "),
            None => String::new(),
        };
        let found = match (self.empty_share, self.rows) {
            (Some(empty), _) if empty >= 0.5 => {
                format!(", {} of them found nothing", crate::words::percent(empty))
            }
            (_, Some(rows)) if rows >= MANY_ROWS => format!(", {rows:.0} rows each"),
            _ => String::new(),
        };
        format!(
            "{server} is asked {often}{wait_ms:.2} ms each, {share} of the wait for answers{found}: {text}"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::super::LedgerCase;
    use super::{Account, Asked, Row, of};
    use crate::diagnosis::FactSet;
    use record::{Examination, Question, Signature, TargetSignature, UpstreamStats};

    fn question(protocol: &str, text: &str, turns: u64, wait_ms: u64) -> Question {
        Question {
            protocol: protocol.to_owned(),
            text: text.to_owned(),
            seen: 10,
            turns,
            wait_ns: wait_ms * 1_000_000,
            told: turns,
            empty: turns,
            rows: 0,
        }
    }

    /// What the requests of `web`, of which `behind` is spent at a server behind, are said to ask of it.
    fn asked(questions: &[Question], behind: f64) -> Vec<Asked> {
        let upstream = UpstreamStats {
            address: "10.0.0.7:5432".to_owned(),
            requests: questions.iter().map(|q| q.turns).sum(),
            asked: questions.to_vec(),
            ..UpstreamStats::default()
        };
        let target = TargetSignature {
            target: "web".to_owned(),
            upstreams: Some(vec![upstream]),
            ..TargetSignature::default()
        };
        let examination = Examination {
            signature: Some(Signature {
                targets: vec![target],
                ..Signature::default()
            }),
            ..Examination::default()
        };
        let mut facts = FactSet::default();
        facts.targets.push("web".to_owned());
        facts.known("web", "upstream.requests_per_request", 20.0, "test");
        let case = LedgerCase {
            examination: Some(&examination),
            observed: None,
            facts: &facts,
            seconds: 1.0,
            requests: None,
        };
        let row = |kind: &str, share: f64| Row {
            kind: kind.to_owned(),
            share,
            ..Row::default()
        };
        let account = Account {
            target: "web".to_owned(),
            rows: vec![row("upstream", behind), row("on_cpu", 1.0 - behind)],
            ..Account::default()
        };
        of(&case, &account)
    }

    #[test]
    fn what_requests_wait_for_is_told_in_the_words_of_who_asks() {
        let questions = [
            question("PostgreSQL", "SELECT a FROM t WHERE b = ?", 190, 760),
            question("PostgreSQL", "COMMIT", 10, 40),
            question("", "", 100, 200),
        ];
        let told = asked(&questions, 0.6);
        assert_eq!(
            told.len(),
            1,
            "a twentieth is not told, nor what has no words: {told:?}"
        );
        assert_eq!(
            told[0].words(),
            "10.0.0.7:5432 is asked 12.7 times a request, 4.00 ms each, 76 % of the wait for answers, 100 % of them \
             found nothing: SELECT a FROM t WHERE b = ?"
        );
        assert_eq!(asked(&questions, 0.05), [], "requests hardly wait for it");
    }

    #[test]
    fn a_request_that_is_handed_on_asks_nothing_of_its_own() {
        let one = |turns| [question("HTTP", "GET /?", turns, 100)];
        let handed_on = |turns| {
            let mut questions = one(turns).to_vec();
            // So that a request asks as often as is meant: the other half has no words, and takes no time.
            questions.push(question("", "", 100 - turns, 0));
            asked(&questions, 0.6)
        };
        assert_eq!(handed_on(5), [], "once a request");
        assert_eq!(handed_on(50).len(), 1, "ten times a request");
    }
}
