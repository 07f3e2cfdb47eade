//! `[[table]]`: how an experiment wants its results laid out, so that a study's own tables come out of its file.
//!
//! The analysis fills them from the record. A table names factors for its rows and columns, and figures; the
//! surprise: without `rows` the figures themselves are the rows, which is how before/after tables are read.

use crate::error::{Fault, Found, Report, unknown};
use crate::figure::{Figure, FigureOver};
use crate::node::{Entry, Field, Value};
use crate::{Levels, Plan};
use serde::{Deserialize, Serialize};

const KEYS: [&str; 8] = [
    "title", "kind", "stage", "rows", "columns", "figures", "only", "target",
];

/// What a table holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TableKind {
    /// Figures by levels, with their gains against the baseline.
    #[default]
    Figures,
    /// System calls per request and their mean sizes, by levels.
    Calls,
    /// The most frequent sizes of reads and writes, by levels.
    Sizes,
    /// Each worker's share, by levels.
    Workers,
    /// The modes of every core, by levels.
    Cores,
    /// Packets of each queue of the network devices, by levels.
    Queues,
}

impl TableKind {
    /// All of them.
    pub const ALL: [TableKind; 6] = [
        TableKind::Figures,
        TableKind::Calls,
        TableKind::Sizes,
        TableKind::Workers,
        TableKind::Cores,
        TableKind::Queues,
    ];

    /// Name in the experiment file.
    pub const fn name(self) -> &'static str {
        match self {
            TableKind::Figures => "figures",
            TableKind::Calls => "calls",
            TableKind::Sizes => "sizes",
            TableKind::Workers => "workers",
            TableKind::Cores => "cores",
            TableKind::Queues => "queues",
        }
    }
}

/// A table as the experiment asks for it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TableSpec {
    pub title: String,
    /// What it holds.
    pub kind: TableKind,
    /// Stage; `None`: one table for each stage that has its factors.
    pub stage: Option<String>,
    /// Factors whose levels name the rows; empty: a row for each figure.
    pub rows: Vec<String>,
    /// Factors whose levels name the columns; empty: a column for each figure.
    pub columns: Vec<String>,
    /// Figures, in order.
    pub figures: Vec<FigureOver>,
    /// Only cells with these levels; any of the listed ones of a factor.
    pub only: Vec<Only>,
    /// Target whose calls, sizes or workers are shown; `None`: the one behind the URL.
    pub target: Option<String>,
}

/// Levels of one factor that a table keeps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Only {
    pub factor: String,
    pub levels: Vec<String>,
}

impl TableSpec {
    /// A cell with these levels belongs into the table.
    pub fn keeps(&self, levels: &Levels) -> bool {
        self.only.iter().all(|only| {
            let level = levels.get(&only.factor);
            level.is_none_or(|level| only.levels.contains(level))
        })
    }
}

/// A table with the places of its names, until the stages are known.
#[derive(Clone, Debug, Default)]
pub(crate) struct Draft {
    pub at: usize,
    pub spec: TableSpec,
    stage_at: usize,
    target_at: usize,
    /// Factors that it names, with their places.
    factors: Vec<(usize, String)>,
    only: Vec<(usize, Only)>,
}

/// Reads one `[[table]]`.
///
/// # Errors
/// The first thing that is wrong with it.
pub(crate) fn read(field: Field<'_>, report: &mut Report) -> Result<Draft, Found> {
    let mut draft = Draft {
        at: field.node.at,
        ..Draft::default()
    };
    for f in field.table()?.iter().map(Entry::field) {
        let result = draft.set(f);
        report.take(result);
    }
    draft.finish()
}

/// One text, or a list of them.
fn texts(field: Field<'_>) -> Result<Vec<(usize, String)>, Found> {
    let one = |f: Field<'_>| Ok((f.node.at, f.plain()?));
    match field.node.value {
        Value::List(_) => field.list()?.map(one).collect(),
        _ => Ok(vec![one(field)?]),
    }
}

impl Draft {
    fn set(&mut self, field: Field<'_>) -> Result<(), Found> {
        match field.name {
            "title" => self.spec.title = field.text()?.to_owned(),
            "kind" => {
                self.spec.kind = field.choice(&TableKind::ALL.map(|k| (k.name(), k)))?;
            }
            "stage" => {
                self.stage_at = field.node.at;
                self.spec.stage = Some(field.text()?.to_owned());
            }
            "target" => {
                self.target_at = field.node.at;
                self.spec.target = Some(field.text()?.to_owned());
            }
            "rows" => self.spec.rows = self.factor_names(field)?,
            "columns" => self.spec.columns = self.factor_names(field)?,
            "figures" => self.spec.figures = figures(field)?,
            "only" => self.set_only(field)?,
            _ => return Err(field.unknown_key("[[table]]", &KEYS)),
        }
        Ok(())
    }

    fn factor_names(&mut self, field: Field<'_>) -> Result<Vec<String>, Found> {
        let named = texts(field)?;
        self.factors.extend(named.iter().cloned());
        Ok(named.into_iter().map(|(_, name)| name).collect())
    }

    fn set_only(&mut self, field: Field<'_>) -> Result<(), Found> {
        for entry in field.table()? {
            let levels = texts(entry.field())?;
            self.factors.push((entry.at, entry.name.clone()));
            let only = Only {
                factor: entry.name.clone(),
                levels: levels.into_iter().map(|(_, level)| level).collect(),
            };
            self.only.push((entry.node.at, only.clone()));
            self.spec.only.push(only);
        }
        Ok(())
    }

    fn finish(self) -> Result<Self, Found> {
        let wants_figures = self.spec.kind == TableKind::Figures;
        if wants_figures == self.spec.figures.is_empty() {
            let fault = if wants_figures {
                Fault::Missing {
                    what: "figures".to_owned(),
                    inside: "[[table]]".to_owned(),
                    example: "figures = [\"rate_per_s\", \"response_ns_p99\"]".to_owned(),
                }
            } else {
                Fault::Conflict {
                    first: "figures".to_owned(),
                    second: format!("kind = \"{}\"", self.spec.kind.name()),
                    inside: "one [[table]]".to_owned(),
                    why: "this kind of table has columns of its own",
                }
            };
            return Err(Found::at(self.at, fault));
        }
        Ok(self)
    }

    /// Checks its names against the stages and targets of the plan.
    pub fn check(&self, plan: &Plan, targets: &[&str], report: &mut Report) {
        let stages = || plan.stages.iter().map(|s| s.name.as_str());
        let asked = self.spec.stage.as_deref();
        if let Some(stage) = asked.filter(|asked| !stages().any(|s| s == *asked)) {
            let found = unknown(self.stage_at, "stage", stage, "[[table]]", stages());
            report.push(found);
            return;
        }
        let asked = self.spec.target.as_deref();
        if let Some(target) = asked.filter(|asked| !targets.contains(asked)) {
            let known = targets.iter().copied();
            report.push(unknown(
                self.target_at,
                "target",
                target,
                "[[table]]",
                known,
            ));
        }
        let of_stages = plan.stages.iter().filter(|s| {
            let asked = self.spec.stage.as_ref();
            asked.is_none_or(|asked| *asked == s.name)
        });
        let factors: Vec<&crate::Factor> = of_stages.flat_map(|s| &s.factors).collect();
        let known = || factors.iter().map(|f| f.name.as_str());
        for (at, name) in &self.factors {
            if !known().any(|k| k == name) {
                report.push(unknown(*at, "factor", name, "[[table]]", known()));
            }
        }
        for (at, only) in &self.only {
            let of_factor = factors.iter().filter(|f| f.name == only.factor);
            let levels: Vec<&str> = of_factor
                .flat_map(|f| &f.levels)
                .map(String::as_str)
                .collect();
            let missing = only.levels.iter().find(|l| !levels.contains(&l.as_str()));
            if let (Some(level), false) = (missing, levels.is_empty()) {
                let inside = format!("factor `{}`", only.factor);
                report.push(unknown(
                    *at,
                    "level",
                    level,
                    &inside,
                    levels.iter().copied(),
                ));
            }
        }
    }
}

fn figures(field: Field<'_>) -> Result<Vec<FigureOver>, Found> {
    let one = |(at, name): (usize, String)| {
        name.parse::<FigureOver>().map_err(|_| {
            let known = Figure::ALL.map(Figure::name);
            unknown(at, "figure", &name, "[[table]]", known)
        })
    };
    texts(field)?.into_iter().map(one).collect()
}
