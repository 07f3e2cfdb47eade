//! A diagnosis of what other tools printed, as strong as that evidence and no stronger.
//!
//! ```text
//! artefacts -> facts    numbers that mean the same as a measured fact; the catalogue's rules judge them
//!           -> shown    everything else under names of its own (`seen.*`)
//! facts + shown -> readings (catalogue/pasted.toml) -> a cause that this output is enough for, or a row
//! ```
//! The generator's own output is judged first: what it says of itself decides what its figures are worth. Where no
//! cause is established the answer is `unknown`, which names what was shown and the command to run next; pasted text
//! never shows that a server is healthy. Before the next command stands what the text itself says to do, and what is
//! looked at in its product's own tools (catalogue/products.toml): `steps`.

mod changes;
mod facts;
mod products;
mod readings;
mod shown;
mod steps;

pub use facts::pasted_facts;

use crate::diagnosis::{Diagnosis, FactSet, Finding, Scene, Status, catalogue, diagnose_facts};
use readings::{Held, Reading};
use record::pasted::Pasted;

/// What stands for the tier of probes where output was pasted.
pub const PASTED: &str = "pasted";
/// From this weight on a reading names what it says outright: a message or a counter of that very thing.
const OUTRIGHT: f64 = 0.9;
/// What a generator says of itself is put before a cause of the server from this weight on.
const SAID_FIRST: f64 = 0.7;
/// Rows of "cannot be told from this".
const ROWS: usize = 4;
/// Commands that are named as the next step.
const STEPS: usize = 2;

/// Diagnoses everything that was recognised.
pub fn diagnose_pasted(pasted: &Pasted) -> Diagnosis {
    let facts = pasted_facts(pasted);
    let mut diagnosis = diagnose_facts(&facts, PASTED);
    let mut shown = facts.clone();
    shown::add(pasted, &mut shown);
    let mut held = readings::hold(pasted, &shown);
    held.extend(changes::between(pasted));
    held.sort_by(|a, b| {
        let first = |h: &Held| h.of_generator && h.weight >= SAID_FIRST;
        (first(b).cmp(&first(a)))
            .then(b.weight.total_cmp(&a.weight))
            .then(a.name.cmp(&b.name))
    });
    diagnosis.findings = findings(&held, diagnosis.findings, &shown);
    if let Some(first) = diagnosis.findings.first_mut() {
        steps::add(first, &held, pasted);
    }
    diagnosis.facts = shown.values(catalogue());
    for fact in diagnosis
        .facts
        .iter_mut()
        .filter(|f| f.name.starts_with("seen."))
    {
        readings::unit_of(&fact.name).clone_into(&mut fact.unit);
    }
    diagnosis
}

fn findings(held: &[Held], judged: Vec<Finding>, facts: &FactSet) -> Vec<Finding> {
    let untold = ["none", "unknown", "load_errors"];
    let mut judged: Vec<Finding> = judged
        .into_iter()
        .filter(|f| !untold.contains(&f.cause.as_str()))
        .collect();
    let worthy = judged.first().is_some_and(|f| f.worth_changing);
    let mut named: Vec<Finding> = Vec::new();
    for reading in held.iter().filter(|h| h.cause.is_some()) {
        let finding = established(reading);
        if named
            .iter()
            .chain(&judged)
            .all(|f| f.cause != finding.cause)
        {
            named.push(finding);
        }
    }
    let outright = held
        .iter()
        .find(|h| h.cause.is_some())
        .is_some_and(|h| h.weight >= OUTRIGHT || h.of_generator);
    let mut all = if worthy && !outright {
        judged.extend(named);
        judged
    } else if named.is_empty() && !worthy {
        Vec::new()
    } else {
        named.extend(judged);
        named
    };
    let said = held
        .iter()
        .find(|h| h.of_generator && h.weight >= SAID_FIRST && h.cause.is_none());
    match (all.first_mut(), said) {
        (Some(first), Some(said)) => {
            first.why = format!("Of the generator: {}. {}", said.says, first.why);
        }
        (None, _) => all.push(untold_from(held, facts)),
        _ => {}
    }
    all
}

/// A cause that this output is enough for.
fn established(held: &Held) -> Finding {
    let name = held.cause.clone().unwrap_or_default();
    let cause = catalogue().cause(&name);
    Finding {
        title: cause.map(|c| c.title.clone()).unwrap_or_default(),
        cause: name,
        variant: None,
        target: String::new(),
        confidence: held.weight,
        status: Status::Suspected,
        why: format!("{}.", held.says),
        evidence: held.evidence.clone(),
        remedy: format!("{}.", held.next),
        changes: Vec::new(),
        gain_bound: None,
        gain_unknown: Some("pasted output does not say how much of the time it takes".to_owned()),
        predicted: None,
        calibrated: None,
        worth_changing: true,
        proof: None,
    }
}

/// What is shown, row by row, and what to run next.
fn untold_from(held: &[Held], facts: &FactSet) -> Finding {
    let rows: Vec<&Held> = held.iter().take(ROWS).collect();
    let said: Vec<&str> = rows.iter().map(|h| h.says.as_str()).collect();
    let mut steps: Vec<String> = Vec::new();
    for held in &rows {
        // Two readings may end with the same general clause.
        let said = steps.join("; ");
        let new = steps::clauses(&held.next).into_iter().map(str::trim);
        let new =
            new.filter(|c| !said.contains(c.trim_start_matches("then ").trim_start_matches("or ")));
        let new: Vec<&str> = new.collect();
        if steps.len() < STEPS && !new.is_empty() {
            // What was an alternative to a clause that stands there already is one no more.
            steps.push(new.join("; ").trim_start_matches("or ").to_owned());
        }
    }
    let why = match said.is_empty() {
        true => {
            "none of the numbers that were read names a cause by itself; whether they are usual for this server is not known"
                .to_owned()
        }
        false => said.join("; "),
    };
    let next = match steps.is_empty() {
        true => "`prony diagnose --url URL` on the server's machine, or during the load `vmstat 1 5`, `ss -ltn`, `nstat -az` and `perf record -g -p PID -- sleep 10; perf report --stdio | head -60`".to_owned(),
        false => steps.join("; then "),
    };
    let mut evidence: Vec<crate::Evidence> = Vec::new();
    for found in rows.iter().flat_map(|h| &h.evidence) {
        if evidence.iter().all(|e| e.signal != found.signal) {
            evidence.push(found.clone());
        }
    }
    Finding {
        cause: "unknown".to_owned(),
        variant: None,
        title: "Cannot be told from this".to_owned(),
        target: facts.targets.first().cloned().unwrap_or_default(),
        confidence: 0.0,
        status: Status::Suspected,
        why: format!("{why}."),
        evidence,
        remedy: format!("{next}."),
        changes: Vec::new(),
        gain_bound: None,
        gain_unknown: None,
        predicted: None,
        calibrated: None,
        worth_changing: false,
        proof: None,
    }
}

/// What a rule sees of facts that belong to no station.
fn scene(facts: &FactSet) -> Scene<'_> {
    let target = facts.targets.first().map_or("", String::as_str);
    Scene {
        facts: facts.view(target),
        station: "unknown",
    }
}

/// The readings that are compiled in; for tests of the file.
pub(crate) fn all_readings() -> &'static [Reading] {
    readings::readings()
}
