//! The experiment file, section by section: what was written, before factors meet levels.
//!
//! The top level and each `[[stage]]` have the same three sections (`factor`, `load`, `design`), so both
//! are a [`Section`]; [`Section::over`] lays a stage over the top level. The surprise: a stage that fixes
//! `load.X` drops a factor `X` of the top level, and the reverse.

use crate::error::{Fault, Found, Report, unknown, unknown_name};
use crate::hosts::{self, HostSpec};
use crate::levels::{Shape, variants};
use crate::load::FIELDS;
use crate::node::{Entry, Field, Node};
use crate::onload;
use crate::table;
use crate::target_keys::Read;
use crate::targets::{self, Target};
use crate::template::{TEMPLATE_NAMES, is_word};
use crate::topology;
use crate::tuning::{self, Profile};
use crate::{Factor, IrqPin, Levels, Metric, SearchFor};
use record::Nanos;
use std::collections::BTreeMap;

const KEYS: [&str; 13] = [
    "question", "seed", "target", "factor", "load", "design", "stage", "topology", "irq", "scale",
    "table", "onload", "host",
];
const STAGE_KEYS: [&str; 5] = ["name", "factor", "load", "design", "search"];
const DESIGN_KEYS: [&str; 12] = [
    "baseline",
    "repeats",
    "measure",
    "warmup",
    "examine",
    "metric",
    "budget",
    "errors",
    "tune",
    "until",
    "max_repeats",
    "aa",
];
const STAGE_DESIGN_KEYS: [&str; 7] = [
    "baseline", "repeats", "measure", "warmup", "examine", "metric", "aa",
];

const METRICS: [(&str, Metric); 3] = [
    ("rate_per_s", Metric::Rate),
    ("cpu_us_per_request", Metric::Cpu),
    ("response_ns_p99", Metric::P99),
];

/// The whole file.
#[derive(Default)]
pub(crate) struct Experiment {
    pub question: String,
    pub seed: Option<u64>,
    pub targets: BTreeMap<String, Target>,
    /// `[topology]`, not yet settled.
    pub topology: Option<Entry>,
    /// `[host.NAME]`.
    pub hosts: Vec<HostSpec>,
    /// `[irq]`, not yet settled.
    pub irqs: Option<Entry>,
    pub top: Section,
    pub stages: Vec<Section>,
    /// What `[design] tune` names.
    pub tune: Option<Profile>,
    pub tables: Vec<table::Draft>,
    /// Profiles for a wrapper.
    pub onload: Vec<onload::Profile>,
}

/// The top level, or a stage.
#[derive(Clone, Debug, Default)]
pub(crate) struct Section {
    /// Where it begins in the file.
    pub at: usize,
    pub name: String,
    pub factors: Vec<TypedFactor>,
    pub load: Vec<Entry>,
    pub design: Design,
    pub search: Option<SearchFor>,
}

/// A factor whose levels still know their types and places.
#[derive(Clone, Debug)]
pub(crate) struct TypedFactor {
    pub at: usize,
    pub factor: Factor,
    /// As long as the factor's levels.
    pub levels: Vec<Node>,
}

/// `[design]`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Design {
    pub baseline: Option<Vec<BaselineLevel>>,
    pub repeats: Option<u32>,
    pub measure: Option<Nanos>,
    pub warmup: Option<Nanos>,
    pub examine: Option<bool>,
    pub metric: Option<Metric>,
    /// With its place.
    pub budget: Option<(usize, Nanos)>,
    pub errors: Option<f64>,
    /// Half the width that the intervals shall have.
    pub until: Option<f64>,
    pub max_repeats: Option<u32>,
    /// A twin of each baseline is measured too.
    pub aa: Option<bool>,
    /// Name of a tuning profile, or the path of one, with its place.
    pub tune: Option<(usize, String)>,
}

/// One entry of a baseline.
#[derive(Clone, Debug)]
pub(crate) struct BaselineLevel {
    pub factor: String,
    pub factor_at: usize,
    pub level: String,
    pub level_at: usize,
}

/// Reads the file's entries; what is wrong goes to the report.
pub(crate) fn read(entries: &[Entry], read: Read<'_>, report: &mut Report) -> Experiment {
    let mut experiment = Experiment::default();
    experiment.top.name = "main".to_owned();
    for field in entries.iter().map(Entry::field) {
        let result = experiment.set(field, read, report);
        report.take(result);
    }
    if experiment.question.trim().is_empty() {
        let fault = Fault::Missing {
            what: "question".to_owned(),
            inside: "the experiment".to_owned(),
            example: "question = \"Do fewer workers serve faster?\"".to_owned(),
        };
        report.push(Found::at(0, fault));
    }
    report.take(different_names(&experiment.stages));
    if let Some((at, name)) = &experiment.top.design.tune {
        let found = tuning::profile(name, read).map_err(|e| Found::at(*at, Fault::Tuning(e)));
        experiment.tune = report.take(found);
    }
    experiment
}

impl Experiment {
    fn set(&mut self, field: Field<'_>, read: Read<'_>, report: &mut Report) -> Result<(), Found> {
        match field.name {
            "question" => self.question = field.text()?.to_owned(),
            "seed" => self.seed = Some(field.count(0)?),
            "target" => {
                for entry in field.table()? {
                    if let Some(target) = targets::read(entry, read, report) {
                        self.targets.insert(entry.name.clone(), target);
                    }
                }
            }
            "topology" => {
                let entry = entry_of(field);
                topology::check(&entry, report);
                self.topology = Some(entry);
            }
            "irq" => {
                let entry = entry_of(field);
                for node in variants(entry.field(), IRQ_SHAPE).iter().flatten() {
                    report.take(irqs(Field { node, ..field }));
                }
                self.irqs = Some(entry);
            }
            "stage" => {
                for (i, field) in field.list()?.enumerate() {
                    let result = stage(field, i, report);
                    self.stages.extend(report.take(result));
                }
            }
            "onload" => self.onload = onload::read(field)?,
            "host" => self.hosts = hosts::read(field, report),
            "table" => {
                for field in field.list()? {
                    let result = table::read(field, report);
                    self.tables.extend(report.take(result));
                }
            }
            _ if KEYS.contains(&field.name) => {
                self.top.set(field, &DESIGN_KEYS, report)?;
            }
            _ => return Err(field.unknown_key("the experiment", &KEYS)),
        }
        Ok(())
    }
}

fn entry_of(field: Field<'_>) -> Entry {
    Entry {
        name: field.name.to_owned(),
        at: field.name_at,
        node: field.node.clone(),
    }
}

/// `[irq]`: names of devices, or numbers, with CPUs.
pub(crate) const IRQ_SHAPE: Shape = Shape::Table(|_| Shape::Now);

/// Reads a settled `[irq]`.
pub(crate) fn irqs(field: Field<'_>) -> Result<Vec<IrqPin>, Found> {
    let pin = |e: &Entry| {
        Ok(IrqPin {
            device: e.name.clone(),
            cpus: e.field().cpus()?,
        })
    };
    let mut pins: Vec<IrqPin> = field
        .table()?
        .iter()
        .map(pin)
        .collect::<Result<_, Found>>()?;
    // A level that leaves a device alone gives it no CPUs.
    pins.retain(|p| !p.cpus.is_empty());
    Ok(pins)
}

fn stage(field: Field<'_>, index: usize, report: &mut Report) -> Result<Section, Found> {
    let mut section = Section {
        at: field.node.at,
        name: format!("stage {}", index + 1),
        ..Section::default()
    };
    for f in field.table()?.iter().map(Entry::field) {
        let result = match f.name {
            "name" => f.text().map(|name| section.name = name.to_owned()),
            "search" => f
                .choice(&[("rate", SearchFor::Rate)])
                .map(|search| section.search = Some(search)),
            _ if STAGE_KEYS.contains(&f.name) => section.set(f, &STAGE_DESIGN_KEYS, report),
            _ => Err(f.unknown_key("[[stage]]", &STAGE_KEYS)),
        };
        report.take(result);
    }
    check_search(&section)?;
    Ok(section)
}

/// A search sets the rate of its steps and decides how many there are.
fn check_search(section: &Section) -> Result<(), Found> {
    let own_rate = || {
        let factors = section.factors.iter().map(|f| f.factor.name.as_str());
        let mut set = factors.chain(section.load.iter().map(|e| e.name.as_str()));
        set.any(|name| name == "rate")
    };
    let design = &section.design;
    let (second, why) = if section.search.is_none() {
        return Ok(());
    } else if own_rate() {
        ("rate", "the search chooses the rate of each step")
    } else if design.repeats.is_some() {
        ("repeats", "a search takes as many steps as it needs")
    } else if design.baseline.is_some() {
        ("baseline", "the steps of a search are not compared")
    } else if design.aa == Some(true) {
        ("aa", "the steps of a search are not compared")
    } else {
        return Ok(());
    };
    let fault = Fault::Conflict {
        first: "search".to_owned(),
        second: second.to_owned(),
        inside: format!("stage `{}`", section.name),
        why,
    };
    Err(Found::at(section.at, fault))
}

fn different_names(stages: &[Section]) -> Result<(), Found> {
    for (i, stage) in stages.iter().enumerate() {
        if stages[..i].iter().any(|s| s.name == stage.name) {
            let fault = Fault::Name {
                kind: "stage",
                name: stage.name.clone(),
                why: "an earlier stage has it".to_owned(),
            };
            return Err(Found::at(stage.at, fault));
        }
    }
    Ok(())
}

impl Section {
    /// Reads `factor`, `load` or `design`.
    fn set(
        &mut self,
        field: Field<'_>,
        design_keys: &[&str],
        report: &mut Report,
    ) -> Result<(), Found> {
        match field.name {
            "factor" => {
                for entry in field.table()? {
                    let result = factor(entry);
                    self.factors.extend(report.take(result));
                }
            }
            "load" => {
                for entry in field.table()? {
                    let result = check_load_key(entry);
                    if report.take(result).is_some() {
                        self.load.push(entry.clone());
                    }
                }
            }
            _ => {
                for f in field.table()?.iter().map(Entry::field) {
                    let result = self.design.set(f, design_keys);
                    report.take(result);
                }
            }
        }
        report.take(self.set_once());
        Ok(())
    }

    /// A load field and a factor of the same name in one section: which of them is meant?
    fn set_once(&self) -> Result<(), Found> {
        let is_factor = |e: &&Entry| self.factors.iter().any(|f| f.factor.name == e.name);
        self.load.iter().find(is_factor).map_or(Ok(()), |entry| {
            let fault = Fault::Conflict {
                first: format!("factor.{}", entry.name),
                second: format!("load.{}", entry.name),
                inside: "one section".to_owned(),
                why: "the factor already sets this field of the load",
            };
            Err(Found::at(entry.at, fault))
        })
    }

    /// This stage laid over the top level.
    pub fn over(&self, top: &Section) -> Section {
        let factor_here = |name: &str| self.factors.iter().find(|f| f.factor.name == name);
        // A search chooses the rate, so that one of the top level gives way too.
        let load_here = |name: &str| {
            self.load.iter().any(|e| e.name == name) || (self.search.is_some() && name == "rate")
        };
        let kept = top.factors.iter().filter(|f| !load_here(&f.factor.name));
        let mut factors: Vec<TypedFactor> = kept
            .map(|f| factor_here(&f.factor.name).unwrap_or(f).clone())
            .collect();
        let is_new = |f: &&TypedFactor| top.factors.iter().all(|t| t.factor.name != f.factor.name);
        factors.extend(self.factors.iter().filter(is_new).cloned());
        let kept = top
            .load
            .iter()
            .filter(|e| !load_here(&e.name) && factor_here(&e.name).is_none());
        Section {
            at: self.at,
            name: self.name.clone(),
            load: kept.chain(&self.load).cloned().collect(),
            design: self.design.over(&top.design),
            search: self.search,
            factors,
        }
    }

    /// The factors as plain data.
    pub fn plain_factors(&self) -> Vec<Factor> {
        self.factors.iter().map(|f| f.factor.clone()).collect()
    }
}

impl TypedFactor {
    /// The level of a cell as a load field, when the factor is one.
    pub fn as_load_field(&self, levels: &Levels) -> Option<Field<'_>> {
        let level = levels.get(&self.factor.name)?;
        let index = self.factor.levels.iter().position(|l| l == level)?;
        FIELDS.contains(&self.factor.name.as_str()).then(|| Field {
            name: &self.factor.name,
            name_at: self.at,
            node: &self.levels[index],
        })
    }
}

fn check_load_key(entry: &Entry) -> Result<(), Found> {
    let name = entry.name.as_str();
    if FIELDS.contains(&name) {
        return Ok(());
    }
    let instead = match name {
        // What other tools call it.
        "duration" => "measure",
        _ => name,
    };
    let fault = if STAGE_DESIGN_KEYS.contains(&instead) {
        Fault::Misplaced {
            name: name.to_owned(),
            inside: "[load]".to_owned(),
            instead: format!("`{instead}` in [design]"),
        }
    } else {
        unknown_name("key", name, "[load]", FIELDS)
    };
    Err(Found::at(entry.at, fault))
}

fn factor(entry: &Entry) -> Result<TypedFactor, Found> {
    let field = entry.field();
    check_factor_name(entry)?;
    let mut levels: Vec<String> = Vec::new();
    let mut nodes = Vec::new();
    for item in field.list()? {
        let level = item.plain()?;
        if levels.contains(&level) {
            return Err(item.must_be("different levels"));
        }
        levels.push(level);
        nodes.push(item.node.clone());
    }
    if levels.is_empty() {
        return Err(field.must_be("at least one level"));
    }
    Ok(TypedFactor {
        at: entry.at,
        factor: Factor {
            name: entry.name.clone(),
            levels,
        },
        levels: nodes,
    })
}

fn check_factor_name(entry: &Entry) -> Result<(), Found> {
    let is_taken = TEMPLATE_NAMES.contains(&entry.name.as_str()) && entry.name != "workers";
    let why = if !is_word(&entry.name) {
        "it must consist of letters, digits and `_`, and not start with a digit"
    } else if is_taken {
        "templates have another value under this name"
    } else {
        return Ok(());
    };
    let fault = Fault::Name {
        kind: "factor",
        name: entry.name.clone(),
        why: why.to_owned(),
    };
    Err(Found::at(entry.at, fault))
}

impl Design {
    fn set(&mut self, field: Field<'_>, known: &[&str]) -> Result<(), Found> {
        if !known.contains(&field.name) {
            return Err(field.unknown_key("[design]", known));
        }
        match field.name {
            "baseline" => self.baseline = Some(baseline(field)?),
            "repeats" => self.repeats = Some(field.count32(1)?),
            "measure" => self.measure = Some(field.duration_above_zero()?),
            "warmup" => self.warmup = Some(field.duration()?),
            "examine" => self.examine = Some(field.boolean()?),
            "metric" => self.metric = Some(field.choice(&METRICS)?),
            "budget" => self.budget = Some((field.node.at, field.duration_above_zero()?)),
            "until" => self.until = Some(field.half_width()?),
            "max_repeats" => self.max_repeats = Some(field.count32(1)?),
            "aa" => self.aa = Some(field.boolean()?),
            "tune" => self.tune = Some((field.node.at, field.text()?.to_owned())),
            _ => self.errors = Some(field.share()?),
        }
        Ok(())
    }

    fn over(&self, top: &Design) -> Design {
        Design {
            baseline: self.baseline.clone().or_else(|| top.baseline.clone()),
            repeats: self.repeats.or(top.repeats),
            measure: self.measure.or(top.measure),
            warmup: self.warmup.or(top.warmup),
            examine: self.examine.or(top.examine),
            metric: self.metric.or(top.metric),
            budget: top.budget,
            errors: top.errors,
            until: top.until,
            max_repeats: top.max_repeats,
            aa: self.aa.or(top.aa),
            tune: top.tune.clone(),
        }
    }
}

fn baseline(field: Field<'_>) -> Result<Vec<BaselineLevel>, Found> {
    let level = |e: &Entry| {
        Ok(BaselineLevel {
            factor: e.name.clone(),
            factor_at: e.at,
            level: e.field().plain()?,
            level_at: e.node.at,
        })
    };
    field.table()?.iter().map(level).collect()
}

/// The entries of a baseline whose factors the stage has.
///
/// # Errors
/// A level that its factor does not have, with the near miss.
pub(crate) fn baseline_levels(
    baseline: &[BaselineLevel],
    factors: &[Factor],
) -> Result<Levels, Found> {
    let mut levels = Levels::new();
    for b in baseline {
        let Some(factor) = factors.iter().find(|f| f.name == b.factor) else {
            continue;
        };
        if !factor.levels.contains(&b.level) {
            let known = factor.levels.iter().map(String::as_str);
            let inside = format!("factor `{}`", b.factor);
            return Err(unknown(b.level_at, "level", &b.level, &inside, known));
        }
        levels.insert(b.factor.clone(), b.level.clone());
    }
    Ok(levels)
}
