//! From results with their lines to a record: cases from headings and words, levels, blocks, a plan.
//!
//! A result is named by what the text says of it: the heading when it is the only one below that, else the words right
//! before it. Results of one case that differ in their connections, threads or rate are a sweep; those that differ in
//! nothing are repeats. The surprise is what joins: what was observed of a server belongs to the load under the
//! same heading, and to none below another heading; who knows better says so with `--map`.

use super::caveats::caveats;
use super::error::ImportError;
use super::found::{Found, Harvest, Nature};
use super::place::{Place, Places, flags};
use plan::{Factor, Levels, Plan, Stage, TrialPlan};
use record::pasted::requests_in;
use record::{
    Arrival, CallStats, Examination, LoadSpec, Manifest, Nanos, Reported, RunRecord, Signature,
    TargetSignature, TrialRecord, TrialState, Unavailable, Warning,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What a person says where the text does not.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Levels of every result.
    pub levels: Vec<(String, String)>,
    /// Cases renamed: by their name or their number; two with the same new name become one.
    pub map: Vec<(String, String)>,
    /// Names of the cases in the order of the text, for those that come first.
    pub names: Vec<String>,
    /// Name of the factor that the cases are levels of; `case` when not said.
    pub factor: Option<String>,
    /// Case to compare with; the first when not said.
    pub baseline: Option<String>,
    /// Numbers of the results to take, from 1; all when empty.
    pub select: Vec<u32>,
    /// The record's question.
    pub question: Option<String>,
}

/// Who imports, and when.
#[derive(Clone, Debug, Default)]
pub struct Making {
    /// Version of prony.
    pub prony: String,
    /// Command line as typed.
    pub command: Vec<String>,
    /// Wall-clock time, RFC 3339.
    pub at: String,
}

/// A result as it was imported.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ImportedResult {
    /// Number in the order of the text, from 1; `--map` and `--select` take it.
    pub number: u32,
    /// Trial of the record that holds it.
    pub trial: u32,
    /// Stage of that trial.
    pub stage: String,
    pub levels: Levels,
    /// What the tool said.
    pub reported: Reported,
}

/// Lines that looked like a result and were not taken.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LeftOut {
    pub file: String,
    /// First line, from 1.
    pub from: u32,
    /// Last line.
    pub to: u32,
    pub why: String,
}

/// What came of an import.
#[derive(Clone, Debug, PartialEq)]
pub struct Imported {
    pub record: RunRecord,
    /// Its results, in the order of the texts.
    pub results: Vec<ImportedResult>,
    /// What was checked on the way: gains that a table prints, computed again.
    pub notes: Vec<String>,
    /// What was not taken.
    pub left_out: Vec<LeftOut>,
}

/// Name of the factor of the cases when nobody gives one.
const CASE: &str = "case";
/// Attributes in which the results of a sweep differ.
const ATTRIBUTES: [&str; 3] = ["connections", "threads", "offered_per_s"];
/// Share of failed requests above which a result is not valid, as for `prony load`.
const ERROR_LIMIT: f64 = 0.01;

/// A result on its way into the record.
struct Item {
    found: Found,
    file: usize,
    number: u32,
    place: Place,
    case: String,
    levels: Vec<(String, String)>,
    stage: String,
    /// Numbers of the observations that joined it.
    joined: Vec<u32>,
}

/// One record of all results.
pub(super) fn assemble(
    read: Vec<(String, String, Harvest)>,
    options: &Options,
    making: &Making,
) -> Result<Imported, ImportError> {
    let mut left_out = Vec::new();
    let mut items = Vec::new();
    let mut texts = Vec::new();
    for (file, text, harvest) in read {
        let out = harvest.left_out.into_iter().map(|(from, to, why)| LeftOut {
            file: file.clone(),
            from,
            to,
            why,
        });
        left_out.extend(out);
        items.extend(placed(harvest.found, texts.len(), &file, &text));
        texts.push((file, text));
    }
    for (number, item) in (1..).zip(&mut items) {
        item.number = number;
    }
    select(&mut items, &options.select)?;
    name_cases(&mut items, &texts);
    rename(&mut items, options)?;
    let mut items = join(items);
    levels(&mut items, options);
    let stages = stages(&items, options)?;
    let note = |item: &Item| -> Vec<String> {
        let notes = item.found.notes.iter();
        notes.map(|n| format!("{}: {n}", item.stage)).collect()
    };
    let notes = items.iter().flat_map(note).collect();
    let record = record_of(&items, &stages, &texts, options, making);
    let results = items
        .iter()
        .zip(&record.trials)
        .map(|(item, trial)| ImportedResult {
            number: item.number,
            trial: trial.id,
            stage: trial.stage.clone(),
            levels: trial.levels.clone(),
            reported: item.found.reported.clone(),
        })
        .collect();
    Ok(Imported {
        record,
        results,
        notes,
        left_out,
    })
}

/// Gives each result its place and what its command line says.
fn placed(found: Vec<Found>, file: usize, name: &str, text: &str) -> Vec<Item> {
    let places = Places::of(text);
    let mut after = 0;
    found
        .into_iter()
        .map(|mut found| {
            let (from, to) = found.reported.lines;
            name.clone_into(&mut found.reported.file);
            let place = places.at(from, after);
            let tool = found.reported.tool.clone();
            if let Some(command) = places.command(&tool, from, after) {
                for (name, value) in flags(&tool, &command) {
                    found.set_count(name, value);
                }
                found.reported.command = command;
            }
            if found.nature != Nature::Cell {
                after = after.max(to);
            }
            Item {
                stage: match (&found.stage, found.nature) {
                    (Some(stage), _) => stage.clone(),
                    (None, Nature::Cell) => "sweep".to_owned(),
                    (None, _) => "imported".to_owned(),
                },
                found,
                file,
                number: 0,
                place,
                case: String::new(),
                levels: Vec::new(),
                joined: Vec::new(),
            }
        })
        .collect()
}

fn select(items: &mut Vec<Item>, numbers: &[u32]) -> Result<(), ImportError> {
    let all: Vec<u32> = items.iter().map(|i| i.number).collect();
    if let Some(missing) = numbers.iter().find(|n| !all.contains(n)) {
        return Err(ImportError::NoSuch {
            what: "result",
            name: missing.to_string(),
            known: vec![format!("1..{}", all.len())],
        });
    }
    items.retain(|i| numbers.is_empty() || numbers.contains(&i.number));
    Ok(())
}

/// Names by heading, by the words before, by the file.
fn name_cases(items: &mut [Item], texts: &[(String, String)]) {
    let named: Vec<String> = items
        .iter()
        .map(|item| match item.found.nature {
            Nature::Cell => String::new(),
            _ => case_of(item, items, texts),
        })
        .collect();
    for (item, case) in items.iter_mut().zip(named) {
        item.case = case;
    }
}

fn case_of(item: &Item, items: &[Item], texts: &[(String, String)]) -> String {
    let together =
        |other: &&Item| other.file == item.file && other.place.heading == item.place.heading;
    let of_nature = |nature: Nature| {
        let same = items.iter().filter(together);
        same.filter(move |i| i.found.nature == nature)
    };
    let file = || match texts.len() {
        0 | 1 => String::new(),
        _ => stem(&texts[item.file].0),
    };
    let titled = |title: &str| {
        if title.is_empty() {
            file()
        } else {
            title.to_owned()
        }
    };
    match item.found.nature {
        Nature::Load => {
            let loads = of_nature(Nature::Load).count();
            let label = &item.place.label;
            if loads == 1 && !item.place.title.is_empty() || label.is_empty() {
                titled(&item.place.title)
            } else {
                label.clone()
            }
        }
        // Under which load it was made: the last one before it below the same heading.
        _ => {
            let before = of_nature(Nature::Load).rfind(|l| l.number < item.number);
            match before.or_else(|| of_nature(Nature::Load).next()) {
                Some(load) => case_of(load, items, texts),
                None => {
                    let tool = &item.found.reported.tool;
                    let same =
                        of_nature(Nature::Observation).filter(|o| o.found.reported.tool == *tool);
                    match (
                        same.count(),
                        item.place.label.is_empty(),
                        tool == "sizes of calls",
                    ) {
                        (2.., false, false) => item.place.label.clone(),
                        _ => titled(&item.place.title),
                    }
                }
            }
        }
    }
}

fn stem(file: &str) -> String {
    let name = file.rsplit('/').next().unwrap_or(file);
    let stem = name.rsplit_once('.').map_or(name, |(stem, _)| stem);
    if stem.is_empty() {
        name.to_owned()
    } else {
        stem.to_owned()
    }
}

/// `--name` in the order of the cases, then `--map` by name or number.
fn rename(items: &mut [Item], options: &Options) -> Result<(), ImportError> {
    if !options.names.is_empty() {
        let loads = items.iter().any(|i| i.found.nature == Nature::Load);
        let counted = |i: &Item| match loads {
            true => i.found.nature == Nature::Load,
            false => i.found.nature == Nature::Observation,
        };
        // A name is given to a result; what was observed under it goes along.
        let mut names = options.names.iter();
        let mut renamed: Vec<(usize, String, String)> = Vec::new();
        for (at, item) in items.iter().enumerate().filter(|(_, i)| counted(i)) {
            if let Some(name) = names.next() {
                renamed.push((at, item.case.clone(), name.clone()));
            }
        }
        for (at, old, new) in &renamed {
            let next = renamed
                .iter()
                .find(|(i, ..)| i > at)
                .map_or(items.len(), |(i, ..)| *i);
            for item in &mut items[*at..next] {
                if item.case == *old && item.found.nature != Nature::Cell {
                    new.clone_into(&mut item.case);
                }
            }
        }
    }
    for (from, to) in &options.map {
        let number = from.parse::<u32>().ok();
        let mut known: Vec<String> = Vec::new();
        let mut hit = false;
        for item in items.iter_mut() {
            let in_table = item
                .found
                .levels
                .iter_mut()
                .filter(|(_, level)| level == from);
            for (_, level) in in_table {
                to.clone_into(level);
                hit = true;
            }
            let plain = item.found.nature != Nature::Cell;
            if plain && (item.case.eq_ignore_ascii_case(from) || number == Some(item.number)) {
                to.clone_into(&mut item.case);
                hit = true;
            } else if plain && !known.contains(&item.case) {
                known.push(item.case.clone());
            }
        }
        if !hit {
            return Err(ImportError::NoSuch {
                what: "case",
                name: from.clone(),
                known,
            });
        }
    }
    Ok(())
}

/// Observations join the load of their case; those without one join each other.
fn join(items: Vec<Item>) -> Vec<Item> {
    let (mut kept, observed): (Vec<Item>, Vec<Item>) = items
        .into_iter()
        .partition(|i| i.found.nature != Nature::Observation);
    for item in observed {
        let fits = |other: &&mut Item| {
            let clash = item
                .found
                .reported
                .figures
                .iter()
                .any(|f| other.found.has(&f.name));
            other.found.nature != Nature::Cell && other.case == item.case && !clash
        };
        let before = kept.iter_mut().rfind(|o| o.number < item.number && fits(o));
        let host = match before {
            Some(host) => Some(host),
            None => kept.iter_mut().find(|o| fits(o)),
        };
        match host {
            Some(host) => {
                let (r, own) = (&mut host.found.reported, item.found.reported);
                if !r.tool.split(" + ").any(|t| t == own.tool) {
                    r.tool = format!("{} + {}", r.tool, own.tool);
                }
                r.lines.0 = r.lines.0.min(own.lines.0);
                r.lines.1 = r.lines.1.max(own.lines.1);
                r.figures.extend(own.figures);
                host.found.calls.extend(item.found.calls);
                host.found.doubts.extend(item.found.doubts);
                host.joined.push(item.number);
            }
            None => kept.push(item),
        }
    }
    kept.sort_by_key(|i| i.number);
    kept
}

/// Levels of every result.
fn levels(items: &mut [Item], options: &Options) {
    let factor = options.factor.as_deref().unwrap_or(CASE);
    let plain = |i: &&Item| i.found.nature != Nature::Cell;
    let mut cases: Vec<&str> = items
        .iter()
        .filter(plain)
        .map(|i| i.case.as_str())
        .collect();
    cases.sort_unstable();
    cases.dedup();
    let many = cases.len() > 1;
    let varied: Vec<&str> = ATTRIBUTES
        .into_iter()
        .filter(|name| {
            items.iter().filter(plain).any(|a| {
                items.iter().filter(plain).any(|b| {
                    let (x, y) = (a.found.reported.value(name), b.found.reported.value(name));
                    a.case == b.case && x.is_some() && y.is_some() && x != y
                })
            })
        })
        .collect();
    for item in items.iter_mut() {
        if item.found.nature == Nature::Cell {
            for (name, level) in &item.found.levels {
                let name = if name == CASE { factor } else { name };
                item.levels.push((name.to_owned(), level.clone()));
            }
        } else {
            if many && !item.case.is_empty() {
                item.levels.push((factor.to_owned(), item.case.clone()));
            }
            for name in &varied {
                if let Some(value) = item.found.reported.value(name) {
                    item.levels.push(((*name).to_owned(), value.to_string()));
                }
            }
        }
        for (name, level) in &options.levels {
            item.levels.retain(|(n, _)| n != name);
            item.levels.push((name.clone(), level.clone()));
        }
    }
}

/// Stages in the order of the text, their factors and levels likewise.
fn stages(items: &[Item], options: &Options) -> Result<Vec<Stage>, ImportError> {
    let mut stages: Vec<Stage> = Vec::new();
    for item in items {
        let at = stages.iter().position(|s| s.name == item.stage);
        let at = at.unwrap_or_else(|| {
            stages.push(Stage {
                name: item.stage.clone(),
                factors: Vec::new(),
                baseline: Levels::new(),
                repeats: 1,
                examine: false,
                search: None,
                metric: None,
            });
            stages.len() - 1
        });
        for (name, level) in &item.levels {
            let factors = &mut stages[at].factors;
            match factors.iter_mut().find(|f| f.name == *name) {
                Some(factor) if factor.levels.contains(level) => {}
                Some(factor) => factor.levels.push(level.clone()),
                None => factors.push(Factor {
                    name: name.clone(),
                    levels: vec![level.clone()],
                }),
            }
        }
    }
    let case = options.factor.as_deref().unwrap_or(CASE);
    let mut placed = options.baseline.is_none();
    let mut known = Vec::new();
    for stage in &mut stages {
        let axis = |name: &str| {
            ATTRIBUTES.contains(&name) || ["clients", "processes", "workers"].contains(&name)
        };
        let compared = stage.factors.iter().find(|f| f.name == case).or_else(|| {
            let free = |f: &&Factor| f.levels.len() > 1 && !axis(&f.name);
            stage.factors.iter().find(free)
        });
        let Some(compared) = compared else { continue };
        known.extend(compared.levels.iter().cloned());
        let level = match &options.baseline {
            Some(wanted) => compared
                .levels
                .iter()
                .find(|l| l.eq_ignore_ascii_case(wanted)),
            None => compared.levels.first(),
        };
        if let Some(level) = level.filter(|_| compared.levels.len() > 1) {
            stage.baseline.insert(compared.name.clone(), level.clone());
            placed = true;
        }
    }
    match (&options.baseline, placed) {
        (Some(name), false) => Err(ImportError::NoSuch {
            what: "case to compare with",
            name: name.clone(),
            known,
        }),
        _ => Ok(stages),
    }
}

fn record_of(
    items: &[Item],
    stages: &[Stage],
    texts: &[(String, String)],
    options: &Options,
    making: &Making,
) -> RunRecord {
    let mut trials: Vec<TrialRecord> = Vec::new();
    for (id, item) in (0_u32..).zip(items) {
        let mut trial = trial(id, item);
        let same = |t: &&TrialRecord| t.stage == trial.stage && t.levels == trial.levels;
        trial.block = u32::try_from(trials.iter().filter(same).count()).unwrap_or(u32::MAX);
        // The text goes along once, so that every figure can be looked up.
        let first = !items[..id as usize].iter().any(|i| i.file == item.file);
        if let (true, (file, text)) = (first, &texts[item.file]) {
            let name = file.rsplit('/').next().unwrap_or(file);
            trial.files.insert(name.to_owned(), text.clone());
        }
        trials.push(trial);
    }
    let planned = |t: &TrialRecord| TrialPlan {
        id: t.id,
        stage: stages.iter().position(|s| s.name == t.stage).unwrap_or(0),
        block: t.block,
        levels: t.levels.clone(),
        targets: Vec::new(),
        load: t.load.clone(),
        rate_of_capacity: None,
        topology: None,
        irqs: Vec::new(),
    };
    let names: Vec<&str> = texts.iter().map(|(file, _)| file.as_str()).collect();
    let question = options
        .question
        .clone()
        .unwrap_or_else(|| format!("imported from {}", names.join(", ")));
    let repeats = |stage: &Stage| {
        let of_stage = trials.iter().filter(|t| t.stage == stage.name);
        of_stage.map(|t| t.block + 1).max().unwrap_or(1)
    };
    let plan = Plan {
        question: question.clone(),
        stages: stages
            .iter()
            .map(|s| Stage {
                repeats: repeats(s),
                ..s.clone()
            })
            .collect(),
        trials: trials.iter().map(planned).collect(),
        seed: 0,
        error_limit: ERROR_LIMIT,
        ..Plan::default()
    };
    RunRecord {
        manifest: Manifest {
            format: record::run::FORMAT,
            prony: making.prony.clone(),
            question,
            command: making.command.clone(),
            started: making.at.clone(),
            ended: Some(making.at.clone()),
            interrupted: false,
        },
        plan: serde_json::to_value(plan)
            .expect("a plan has string keys and finite numbers, so it serialises"),
        experiment: format!(
            "# imported from {}: there is no experiment file\n",
            names.join(", ")
        ),
        environment: Vec::new(),
        trials,
        traffic: None,
    }
}

fn trial(id: u32, item: &Item) -> TrialRecord {
    let found = &item.found;
    let doubts = found
        .doubts
        .iter()
        .map(|d| Warning::new("imported_with_doubt", d.clone(), "look it up in the source"));
    TrialRecord {
        id,
        stage: item.stage.clone(),
        block: 0,
        levels: item.levels.iter().cloned().collect(),
        load: load(found),
        state: TrialState::Complete,
        outcome: None,
        reported: Some(found.reported.clone()),
        targets: Vec::new(),
        unavailable: Vec::new(),
        warnings: doubts.chain(caveats(&found.reported)).collect(),
        series: Vec::new(),
        hosts: Vec::new(),
        examination: signature(&found.calls).map(|signature| Examination {
            signature: Some(signature),
            ..Examination::default()
        }),
        files: BTreeMap::new(),
    }
}

/// What is known of the load; the rest of a [`LoadSpec`] is not meant (see `TrialRecord::reported`).
fn load(found: &Found) -> LoadSpec {
    let value = |name: &str| found.reported.value(name);
    let whole = |name: &str| {
        value(name)
            .filter(|v| (0.0..4e9).contains(v))
            .map(|v| v as u32)
    };
    LoadSpec {
        connections: whole("connections").unwrap_or(0),
        threads: whole("threads"),
        duration: value("duration_s").map(|s| Nanos((s * 1e9) as u64)),
        arrival: match value("offered_per_s").filter(|r| *r > 0.0) {
            Some(per_s) => Arrival::Constant { per_s },
            None => Arrival::Closed,
        },
        ..LoadSpec::new(found.url.clone())
    }
}

/// Counts and sizes of calls as a signature; the number of requests is inferred from the counts.
fn signature(calls: &[CallStats]) -> Option<Signature> {
    let mut merged: Vec<CallStats> = Vec::new();
    for call in calls {
        match merged.iter_mut().find(|m| m.call == call.call) {
            Some(same) if same.calls == 0 => {
                let sizes = std::mem::take(&mut same.top_sizes);
                *same = call.clone();
                same.top_sizes.extend(sizes);
            }
            Some(same) if same.top_sizes.is_empty() => same.top_sizes.clone_from(&call.top_sizes),
            Some(_) => {}
            None => merged.push(call.clone()),
        }
    }
    merged.retain(|c| c.calls > 0);
    if merged.is_empty() {
        return None;
    }
    let counts = merged.iter().map(|c| (c.call.clone(), c.calls)).collect();
    let requests = requests_in(&counts);
    let reason = match requests {
        Some(_) => {
            "strace -c does not count requests: their number is the common measure of its counts"
        }
        None => "strace -c does not count requests, and its counts have no common measure",
    };
    Some(Signature {
        requests: requests.map_or(0, |n| n as u64),
        targets: vec![TargetSignature {
            target: "server".to_owned(),
            calls: Some(merged),
            ..TargetSignature::default()
        }],
        unavailable: vec![Unavailable {
            what: "requests of the signature".to_owned(),
            reason: reason.to_owned(),
            remedy: "count them with `prony diagnose`".to_owned(),
        }],
        ..Signature::default()
    })
}
