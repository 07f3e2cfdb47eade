//! What is asked of caches behind, and whether they have it.

use super::{Material, Sheet};
use record::{Question, TargetSignature};

const SOURCE: &str = "signature: questions to upstreams and their answers";
/// Protocols in which an answer says whether a key was there.
const CACHES: [&str; 2] = ["memcached", "Redis"];
const LOOKUPS: [&str; 11] = [
    "get", "gets", "gat", "mg", "GET", "GETEX", "MGET", "HGET", "HMGET", "HGETALL", "JSON.GET",
];
const FILLS: [&str; 13] = [
    "set", "add", "replace", "cas", "ms", "SET", "SETEX", "PSETEX", "MSET", "HSET", "HMSET",
    "SETNX", "JSON.SET",
];
/// Fewer answers tell no share of them.
const FEWEST: u64 = 16;

pub(super) fn extract(material: &Material<'_>, sheet: &mut Sheet<'_>) {
    let names = ["lookups_per_request", "missed_share", "fills_per_miss"]
        .map(|name| format!("upstream.{name}"));
    let [per_request, missed_share, fills_per_miss] = &names;
    let own = material.signature(&sheet.target);
    let asks_nobody = |own: &TargetSignature| {
        let upstreams = own.upstreams.as_deref();
        upstreams.is_some_and(|all| all.iter().all(|upstream| upstream.requests == 0))
    };
    if own.is_some_and(asks_nobody) {
        for name in &names {
            sheet.not_applicable(name, "it asks no upstream");
        }
        return;
    }
    let Some(own) = own.filter(|own| looked_at(own)) else {
        let reason = material.reason(
            &["upstream", "signature"],
            "nothing was seen of what upstreams are asked",
        );
        names.iter().for_each(|name| sheet.unknown(name, &reason));
        return;
    };
    let sum = |of: &dyn Fn(&Question) -> u64| lookups(own).map(of).sum::<u64>();
    let (asked, told, empty) = (sum(&|q| q.turns), sum(&|q| q.told), sum(&|q| q.empty));
    sheet.divided(
        per_request,
        Some(asked as f64),
        material.signature_requests(),
        SOURCE,
        "",
    );
    if sum(&|q| q.seen) < FEWEST || told == 0 {
        let none = "no cache is asked whose answers tell whether they found something";
        sheet.not_applicable(missed_share, none);
        sheet.not_applicable(fills_per_miss, none);
        return;
    }
    sheet.divided(
        missed_share,
        Some(empty as f64),
        Some(told as f64),
        SOURCE,
        "",
    );
    // Whoever makes what was not there may be another server, and what it keeps may pass a proxy.
    let filled = material
        .signatures()
        .map(|target| fills(target).map(|q| q.turns).sum::<u64>());
    let filled = filled.max().unwrap_or(0) as f64;
    let missed = (empty > 0).then_some(empty as f64);
    sheet.divided(fills_per_miss, Some(filled), missed, SOURCE, "");
}

fn looked_at(target: &TargetSignature) -> bool {
    let mut upstreams = target.upstreams.iter().flatten();
    upstreams.any(|upstream| !upstream.asked.is_empty())
}

fn of_caches(target: &TargetSignature) -> impl Iterator<Item = &Question> {
    let questions = target.upstreams.iter().flatten().flat_map(|u| &u.asked);
    questions.filter(|q| CACHES.contains(&q.protocol.as_str()))
}

/// Behind a value that is written without an answer stands the question that was answered: of a cache, one that looks
/// something up.
fn lookups(target: &TargetSignature) -> impl Iterator<Item = &Question> {
    let is_before_one = |q: &Question| q.text.ends_with(Question::UNANSWERED) && q.told > 0;
    of_caches(target).filter(move |q| LOOKUPS.contains(&verb(q)) || is_before_one(q))
}

fn fills(target: &TargetSignature) -> impl Iterator<Item = &Question> {
    of_caches(target).filter(|q| FILLS.contains(&verb(q)))
}

fn verb(question: &Question) -> &str {
    question.text.split(' ').next().unwrap_or_default()
}
