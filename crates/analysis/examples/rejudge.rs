//! Judges stored records again, by the catalogue as it lies on the disk: rules are tried without a build.
//!
//! ```text
//! rejudge [--catalogue DIR] [--without CAUSE,...] [--cases DIR] [--facts PART] [--why CAUSE] [--ledger] RECORD ...
//! ```
//! `--cases` holds the truth set's case files: a record named CASE-STATE is held against them, and the last line
//! counts. After a finding stand its confidence and the bound on its gain. `--facts` prints the facts whose name
//! contains PART, `--why` what was said of one cause, `--ledger` the rows of the accounts. `--without` judges as if no
//! rule knew these causes, and says whether the largest row of an account that is not the server's own work is one of
//! those that they would have named, and whether what comes first then explains such a row; `truth/run.py --without`
//! does so for every record and counts.
#![allow(clippy::print_stdout, reason = "an example speaks for itself")]

use analysis::diagnosis::{Catalogue, Cause, use_catalogue};
use analysis::{Diagnosis, Row, analyse, diagnose_run};
use record::{RunRecord, Store};
use std::error::Error;
use std::path::{Path, PathBuf};

struct Files(PathBuf);

impl Store for Files {
    fn put(&mut self, _: &str, _: &[u8]) -> Result<(), String> {
        Err("records are only read here".to_owned())
    }
    fn get(&self, path: &str) -> Result<Option<Vec<u8>>, String> {
        Ok(std::fs::read(self.0.join(path)).ok())
    }
    fn list(&self, prefix: &str) -> Result<Vec<String>, String> {
        let mut found = Vec::new();
        let mut pending = vec![self.0.join(prefix)];
        while let Some(dir) = pending.pop() {
            for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
                let path = entry.path();
                if path.is_dir() {
                    pending.push(path);
                } else if let Ok(relative) = path.strip_prefix(&self.0) {
                    found.push(relative.display().to_string());
                }
            }
        }
        found.sort();
        Ok(found)
    }
}

#[derive(Default)]
struct Asked {
    catalogue: Option<PathBuf>,
    without: Vec<String>,
    cases: Option<PathBuf>,
    facts: Option<String>,
    why: Option<String>,
    ledger: bool,
    records: Vec<PathBuf>,
}

fn asked() -> Asked {
    let mut asked = Asked::default();
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        match word.as_str() {
            "--catalogue" => asked.catalogue = words.next().map(PathBuf::from),
            "--without" => {
                let names = words.next().unwrap_or_default();
                asked.without = names.split(',').map(str::to_owned).collect();
            }
            "--cases" => asked.cases = words.next().map(PathBuf::from),
            "--ledger" => asked.ledger = true,
            "--facts" => asked.facts = words.next(),
            "--why" => asked.why = words.next(),
            _ => asked.records.push(PathBuf::from(word)),
        }
    }
    asked
}

fn read_catalogue(dir: &Path) -> Result<Catalogue, Box<dyn Error>> {
    let facts = std::fs::read_to_string(dir.join("facts.toml"))?;
    let mut causes = Vec::new();
    for entry in std::fs::read_dir(dir)? {
        let path = entry?.path();
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        if name.ends_with(".toml") && text.contains("[[cause]]") {
            causes.push(text);
        }
    }
    let causes: Vec<&str> = causes.iter().map(String::as_str).collect();
    Ok(Catalogue::parse(&facts, &causes)?)
}

/// What the case file of a record accepts; `None` when there is none.
fn expected(cases: &Path, record: &Path) -> Option<Vec<String>> {
    let name = record.file_name()?.to_str()?;
    let (case, state) = name.rsplit_once('-')?;
    let text = std::fs::read_to_string(cases.join(format!("{case}.toml"))).ok()?;
    let table: toml::Table = text.parse().ok()?;
    let cause = table.get(state)?.get("cause")?;
    Some(match cause {
        toml::Value::Array(names) => names
            .iter()
            .filter_map(|n| n.as_str().map(str::to_owned))
            .collect(),
        name => vec![name.as_str()?.to_owned()],
    })
}

fn show(diagnosis: &Diagnosis, asked: &Asked) {
    if asked.ledger {
        show_ledger(diagnosis);
    }
    if let Some(part) = &asked.facts {
        for fact in diagnosis
            .facts
            .iter()
            .filter(|f| f.name.contains(part.as_str()))
        {
            let value = fact.value.map_or("-".to_owned(), |v| format!("{v:.5}"));
            println!(
                "    {:<16} {:<44} {value:>14} {:<10} {}",
                fact.target, fact.name, fact.unit, fact.source
            );
        }
    }
    let Some(cause) = &asked.why else {
        return;
    };
    for finding in diagnosis.findings.iter().filter(|f| f.cause == *cause) {
        println!(
            "    holds on {:?}: confidence {:.2}, bound {:?}, worth {}: {}",
            finding.target,
            finding.confidence,
            finding.gain_bound,
            finding.worth_changing,
            finding.why
        );
        for e in &finding.evidence {
            println!(
                "      {} = {:.4?} {} (threshold {:?})",
                e.signal, e.value, e.unit, e.threshold
            );
        }
    }
    for out in diagnosis.ruled_out.iter().filter(|r| r.cause == *cause) {
        println!("    ruled out on {:?}: {}", out.target, out.why);
    }
    for unseen in diagnosis.unseen.iter().filter(|u| u.cause == *cause) {
        println!(
            "    unseen on {:?}: {} ({:?})",
            unseen.target, unseen.why, unseen.signals
        );
    }
}

/// Kinds of rows that show what a cause names. Where connections are opened and closed costs more than that row, so no
/// cause of connections is bounded by it; it names them all the same.
fn rows_of(cause: &Cause) -> Vec<String> {
    match cause.rows.is_empty() && cause.group == "connections" {
        true => vec!["connections".to_owned()],
        false => cause.rows.clone(),
    }
}

/// Whether a row is one of these kinds; who names a server behind is told by any row in it.
fn is_one_of(row: &Row, rows: &[String]) -> bool {
    let behind = !row.server.is_empty() && rows.iter().any(|kind| kind == "upstream");
    behind || rows.contains(&row.kind)
}

/// Whether the first finding, and the largest row of each account that is no work of the server's own, are of the kinds
/// `rows`.
fn show_rows(diagnosis: &Diagnosis, rows: &[String], known: &Catalogue) {
    let first = diagnosis.findings.first();
    let explains = first.and_then(|f| known.cause(&f.cause)).map(rows_of);
    if let Some((first, kinds)) = first.zip(explains) {
        let same = kinds.iter().any(|kind| rows.contains(kind));
        let same = if same { "same" } else { "other" };
        println!(
            "    row first {same} {:.2} {}",
            first.confidence, first.title
        );
    }
    let Some(ledger) = &diagnosis.ledger else {
        println!("    no account");
        return;
    };
    let accounts = [
        ("rate", &ledger.rate),
        ("latency", &ledger.latency),
        ("tail", &ledger.tail),
    ];
    for (name, account) in accounts {
        let open = account.iter().flat_map(|a| &a.rows).filter(|r| !r.own_work);
        let Some(row) = open.max_by(|a, b| a.share.total_cmp(&b.share)) else {
            continue;
        };
        let same = if is_one_of(row, rows) {
            "same"
        } else {
            "other"
        };
        println!(
            "    row {name} {same} {:.2} {}: {} | {}",
            row.share, row.kind, row.label, row.place
        );
    }
}

fn show_ledger(diagnosis: &Diagnosis) {
    let Some(ledger) = &diagnosis.ledger else {
        return;
    };
    for (name, _, account) in ledger.accounts() {
        println!(
            "    {name}: {} ({:.1} {})",
            account.of, account.total, account.unit
        );
        for branch in &account.branches {
            println!("      {}", branch.words());
        }
        for row in &account.rows {
            let own = if row.own_work { "own" } else { "" };
            let cause = row.cause.as_deref().unwrap_or_default();
            println!(
                "      {:5.1} % {:<16} {own:<4} {cause} {} | {}",
                row.share * 100.0,
                row.kind,
                row.label,
                row.place
            );
        }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let asked = asked();
    let mut known = match &asked.catalogue {
        Some(dir) => read_catalogue(dir)?,
        None => read_catalogue(&Path::new(env!("CARGO_MANIFEST_DIR")).join("catalogue"))?,
    };
    let gone = |name: &String| asked.without.contains(name);
    let rows = known.causes.iter().filter(|c| gone(&c.name));
    let rows: Vec<String> = rows.flat_map(rows_of).collect();
    known.causes.retain(|c| !gone(&c.name));
    use_catalogue(known.clone());
    let (mut right, mut judged) = (0, 0);
    for path in &asked.records {
        let Ok(record) = RunRecord::load(&Files(path.clone())) else {
            println!("?      {}: not a record", path.display());
            continue;
        };
        for diagnosis in diagnose_run(&record, &analyse(&record)?.trials)?.values() {
            let named = |f: &analysis::Finding| {
                let mark = if f.worth_changing { "" } else { "~" };
                let bound = f.gain_bound.map_or(String::new(), |g| format!("<{g:.2}"));
                format!("{mark}{}@{} {:.2}{bound}", f.cause, f.target, f.confidence)
            };
            let all: Vec<String> = diagnosis.findings.iter().map(named).collect();
            let first = diagnosis.findings.first().map_or("", |f| f.cause.as_str());
            let wanted = asked.cases.as_ref().and_then(|cases| expected(cases, path));
            let mark = match &wanted {
                None => "      ",
                Some(names) => {
                    judged += 1;
                    let ok = names.iter().any(|n| n == first);
                    right += u32::from(ok);
                    if ok { "ok    " } else { "WRONG " }
                }
            };
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            println!(
                "{mark} {name:<44} [{}] {}",
                diagnosis.station.name,
                all.join(", ")
            );
            if let Some(names) = wanted.filter(|_| mark.starts_with('W')) {
                println!("         expected {}", names.join(" or "));
            }
            show(diagnosis, &asked);
            if !asked.without.is_empty() {
                show_rows(diagnosis, &rows, &known);
            }
        }
    }
    if judged > 0 {
        println!("{right} of {judged} right");
    }
    Ok(())
}
