//! Sections -> trials: every cell of every stage resolved to one load and the targets that it needs.
//!
//! A cell is resolved once and repeated in every block. Faults found on the way are met once a cell and
//! reported once; the surprise is that a stage with a fault still lets the others be checked.

use crate::address::{self, Parts};
use crate::error::{Fault, Found, Place, Report, unknown, unknown_name};
use crate::experiment::{self, Design, Experiment, IRQ_SHAPE, Section, baseline_levels};
use crate::hosts::HostSpec;
use crate::idle::idle_factors;
use crate::levels;
use crate::load::{Draft, Load, pick};
use crate::node::Field;
use crate::onload;
use crate::order::{SplitMix, cells};
use crate::reached;
use crate::target_keys::Read;
use crate::targets::{Resolved, start_order};
use crate::topology::{self, CLIENT};
use crate::{
    Factor, IrqPin, Levels, MOST_REPEATS, MOST_TRIALS, Plan, SEARCH_STEPS, Stage, TWIN, TWIN_NO,
    TWIN_YES, TargetSpec, Topology, TrialPlan, Until, template,
};
use record::{Arrival, Nanos, Warning};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

const DEFAULT_SEED: u64 = 1;
/// The fewest for which ranks, which assume nothing of the noise, can decide a comparison (2/2^6 is below 5 %).
const DEFAULT_REPEATS: u32 = 6;
const DEFAULT_MEASURE: Nanos = Nanos::from_secs(10);
const DEFAULT_WARMUP: Nanos = Nanos::SECOND;
const DEFAULT_ERROR_LIMIT: f64 = 0.01;

/// Turns an experiment into a plan; what is wrong goes to the report, and the plan is then of no use.
pub(crate) fn plan(experiment: &Experiment, read: Read<'_>, report: &mut Report) -> Plan {
    let top = &experiment.top;
    let sections = if experiment.stages.is_empty() {
        vec![top.clone()]
    } else {
        experiment.stages.iter().map(|s| s.over(top)).collect()
    };
    let mut plan = Plan {
        question: experiment.question.clone(),
        stages: Vec::new(),
        trials: Vec::new(),
        seed: experiment.seed.unwrap_or(DEFAULT_SEED),
        error_limit: top.design.errors.unwrap_or(DEFAULT_ERROR_LIMIT),
        hosts: Vec::new(),
        tune: experiment.tune.clone(),
        warnings: Vec::new(),
        tables: experiment.tables.iter().map(|t| t.spec.clone()).collect(),
        scale: String::new(),
        scales: Vec::new(),
        skipped: Vec::new(),
        until: until(&top.design),
        budget: top.design.budget.map(|(_, budget)| budget),
        again: Vec::new(),
    };
    check_baseline_factors(&sections, report);
    let mut random = SplitMix::new(plan.seed);
    for section in &sections {
        add_stage(&mut plan, section, experiment, read, &mut random, report);
    }
    check_used(&plan, experiment, report);
    add_hosts(&mut plan, experiment, report);
    add_onload(&mut plan, experiment, report);
    check_budget(&plan, top, report);
    let targets: Vec<&str> = experiment.targets.keys().map(String::as_str).collect();
    for table in &experiment.tables {
        table.check(&plan, &targets, report);
    }
    plan.warnings.extend(shared_cores(&plan.trials));
    plan.warnings
        .extend(idle_factors(&plan.stages, &plan.trials));
    plan
}

/// A baseline of the top level may name a factor that only some stages have, but not one that none has.
fn check_baseline_factors(sections: &[Section], report: &mut Report) {
    let known: BTreeSet<&str> = sections
        .iter()
        .flat_map(|s| &s.factors)
        .map(|f| f.factor.name.as_str())
        .collect();
    for b in sections.iter().flat_map(|s| &s.design.baseline).flatten() {
        if !known.contains(b.factor.as_str()) {
            let known = known.iter().copied();
            report.push(unknown(
                b.factor_at,
                "factor",
                &b.factor,
                "`baseline`",
                known,
            ));
        }
    }
}

fn add_stage(
    plan: &mut Plan,
    section: &Section,
    experiment: &Experiment,
    read: Read<'_>,
    random: &mut SplitMix,
    report: &mut Report,
) {
    let mut factors = section.plain_factors();
    let design = &section.design;
    let (repeats, baseline) = match section.search {
        Some(_) => (SEARCH_STEPS, &[][..]),
        None => (
            design.repeats.unwrap_or(DEFAULT_REPEATS),
            design.baseline.as_deref().unwrap_or_default(),
        ),
    };
    let stage = plan.stages.len();
    let mut baseline = report
        .take(baseline_levels(baseline, &factors))
        .unwrap_or_default();
    let mut levels = cells(&factors);
    if design.aa == Some(true) && section.search.is_none() {
        report.take(check_twin(section));
        add_twins(&mut factors, &mut baseline, &mut levels);
    }
    plan.stages.push(Stage {
        name: section.name.clone(),
        baseline,
        factors: factors.clone(),
        repeats,
        examine: design.examine.unwrap_or(true) && section.search.is_none(),
        search: section.search,
        metric: design.metric,
    });
    if report
        .take(check_size(section, &factors, repeats))
        .is_none()
    {
        return;
    }
    report.take(check_names(section, experiment));
    let has_capacity = plan
        .trials
        .iter()
        .any(|t| t.load.arrival == Arrival::Closed);
    let cell = |levels| Cell {
        section,
        experiment,
        factors: &factors,
        levels,
        has_capacity,
    };
    let mut trials: Vec<TrialPlan> = levels
        .into_iter()
        .filter_map(|levels| cell(levels).trial(stage, read, report))
        .collect();
    if section.search.is_some() {
        // The search of one cell ends before that of the next begins.
        for trial in &trials {
            for step in 0..repeats {
                plan.trials
                    .push(placed(trial, plan.trials.len(), step, random));
            }
        }
        return;
    }
    for block in 0..repeats {
        random.shuffle(&mut trials);
        for trial in &trials {
            plan.trials
                .push(placed(trial, plan.trials.len(), block, random));
        }
    }
}

/// The precision that the file asks for.
fn until(design: &Design) -> Option<Until> {
    Some(Until {
        half_width: design.until?,
        most_repeats: design.max_repeats.unwrap_or(MOST_REPEATS),
        budget: design.budget.map(|(_, budget)| budget),
    })
}

/// `twin` is the name of the factor that tells a baseline from its second copy.
fn check_twin(section: &Section) -> Result<(), Found> {
    match section.factors.iter().find(|f| f.factor.name == TWIN) {
        None => Ok(()),
        Some(taken) => Err(Found::at(
            taken.at,
            Fault::Name {
                kind: "factor",
                name: TWIN.to_owned(),
                why: "`aa = true` in [design] adds a factor of this name".to_owned(),
            },
        )),
    }
}

/// A second cell for every baseline, told from the first by a factor of its own: to the rest of the program an A/A
/// comparison is a comparison like any other.
fn add_twins(factors: &mut Vec<Factor>, baseline: &mut Levels, cells: &mut Vec<Levels>) {
    let with = |levels: &Levels, level: &str| {
        let mut levels = levels.clone();
        levels.insert(TWIN.to_owned(), level.to_owned());
        levels
    };
    let is_baseline = |levels: &&Levels| baseline.iter().all(|(k, v)| levels.get(k) == Some(v));
    // Without a baseline the first cell is as good as any.
    let twins: Vec<Levels> = match baseline.is_empty() {
        true => cells.iter().take(1).map(|c| with(c, TWIN_YES)).collect(),
        false => cells
            .iter()
            .filter(is_baseline)
            .map(|c| with(c, TWIN_YES))
            .collect(),
    };
    *cells = cells
        .iter()
        .map(|c| with(c, TWIN_NO))
        .chain(twins)
        .collect();
    *baseline = with(baseline, TWIN_NO);
    factors.push(Factor {
        name: TWIN.to_owned(),
        levels: vec![TWIN_NO.to_owned(), TWIN_YES.to_owned()],
    });
}

/// See [`Plan::add_block`]. The order is that of the seed, the stage and the block alone, so that a run that was
/// interrupted and continued has the blocks of one that was not.
pub(crate) fn add_block(plan: &mut Plan, stage: usize) -> u32 {
    let of_stage = |t: &&TrialPlan| t.stage == stage;
    let block = plan
        .trials
        .iter()
        .filter(of_stage)
        .map(|t| t.block + 1)
        .max()
        .unwrap_or(0);
    let mut cells: Vec<TrialPlan> = plan
        .trials
        .iter()
        .filter(|t| t.stage == stage && t.block == 0)
        .cloned()
        .collect();
    cells.sort_by(|a, b| a.levels.cmp(&b.levels));
    let place = (stage as u64) << 32 | u64::from(block);
    let mut random = SplitMix::new(plan.seed ^ SplitMix::new(place).next());
    random.shuffle(&mut cells);
    // Trials that are measured again stand at the end and have run: nothing is put before them.
    let last = plan.trials.iter().rposition(|t| t.stage == stage);
    let at = match last {
        Some(last) if plan.again.is_empty() => last + 1,
        _ => plan.trials.len(),
    };
    let later = plan.trials.split_off(at);
    // By the last number, not by the count: cells that are skipped have left gaps.
    let next = plan.trials.last().map_or(0, |t| t.id as usize + 1);
    for (i, cell) in cells.iter().enumerate() {
        plan.trials.push(placed(cell, next + i, block, &mut random));
    }
    for mut trial in later {
        trial.id += u32::try_from(cells.len()).expect("fewer than MOST_TRIALS a stage");
        plan.trials.push(trial);
    }
    block
}

/// A cell's trial at its place in the plan. Every trial has arrivals of its own: repeats with the same
/// gaps would agree with each other better than with the truth.
pub(crate) fn placed(cell: &TrialPlan, id: usize, block: u32, random: &mut SplitMix) -> TrialPlan {
    let mut trial = cell.clone();
    trial.id = u32::try_from(id).expect("fewer than MOST_TRIALS a stage");
    trial.block = block;
    if let Arrival::Poisson { seed, .. } = &mut trial.load.arrival {
        *seed = random.next();
    }
    trial
}

fn check_size(section: &Section, factors: &[Factor], repeats: u32) -> Result<(), Found> {
    let trials = factors
        .iter()
        .map(|f| f.levels.len() as u64)
        .fold(u64::from(repeats), u64::saturating_mul);
    if trials <= MOST_TRIALS {
        return Ok(());
    }
    let stage = section.name.clone();
    Err(Found::at(
        section.at,
        Fault::TooManyTrials { stage, trials },
    ))
}

/// A template must not find two meanings under one name.
fn check_names(section: &Section, experiment: &Experiment) -> Result<(), Found> {
    let has_target = |name: &str| experiment.targets.contains_key(name);
    match section.factors.iter().find(|f| has_target(&f.factor.name)) {
        None => Ok(()),
        Some(typed) => {
            let why = "a target has it".to_owned();
            Err(taken(typed.at, &typed.factor.name, why))
        }
    }
}

fn taken(at: usize, name: &str, why: String) -> Found {
    let fault = Fault::Name {
        kind: "factor",
        name: name.to_owned(),
        why,
    };
    Found::at(at, fault)
}

/// One combination of levels in one stage.
struct Cell<'a> {
    section: &'a Section,
    experiment: &'a Experiment,
    factors: &'a [Factor],
    levels: Levels,
    /// An earlier stage measures the capacity.
    has_capacity: bool,
}

impl Cell<'_> {
    /// The cell's trial; what is wrong goes to the report.
    fn trial(self, stage: usize, read: Read<'_>, report: &mut Report) -> Option<TrialPlan> {
        let all = self.all_targets(read, report);
        let (url_at, mut load) = report.take(self.load())?;
        let mut targets = report.take(self.targets(&all?, url_at, &load.spec.url))?;
        let topology = report.take(self.topology(&mut targets))?;
        if let Some(topology) = &topology
            && topology.clients > 1
            && load.spec.source.is_empty()
        {
            load.spec.source = topology.client_addresses().map(IpAddr::V4).collect();
        }
        let irqs = report.take(self.irqs())?;
        Some(TrialPlan {
            id: 0,
            stage,
            block: 0,
            levels: self.levels,
            targets,
            load: load.spec,
            rate_of_capacity: load.rate_of_capacity,
            topology,
            irqs,
        })
    }

    fn levelled(&self) -> levels::Cell<'_> {
        levels::Cell {
            factors: self.factors,
            levels: &self.levels,
        }
    }

    /// Every target of the file for this cell; `None` when something is wrong with one.
    fn all_targets(
        &self,
        read: Read<'_>,
        report: &mut Report,
    ) -> Option<BTreeMap<String, Resolved>> {
        let mut all = BTreeMap::new();
        for (name, target) in &self.experiment.targets {
            let resolved = target.resolve(self.levelled(), read, report)?;
            report.take(self.check_values(&resolved))?;
            all.insert(name.clone(), resolved);
        }
        Some(all)
    }

    fn check_values(&self, target: &Resolved) -> Result<(), Found> {
        let values = &target.spec.values;
        let is_value = |name: &str| values.contains_key(name);
        match self
            .section
            .factors
            .iter()
            .find(|f| is_value(&f.factor.name))
        {
            None => Ok(()),
            Some(typed) => {
                let why = format!("it is among the `values` of target `{}`", target.spec.name);
                Err(taken(typed.at, &typed.factor.name, why))
            }
        }
    }

    /// The hosts and links, with the targets put on them.
    fn topology(&self, targets: &mut [TargetSpec]) -> Result<Option<Topology>, Found> {
        let Some(entry) = &self.experiment.topology else {
            return Ok(None);
        };
        let mut hosts: BTreeSet<String> = self.experiment.targets.keys().cloned().collect();
        hosts.insert(CLIENT.to_owned());
        hosts.extend(targets.iter().filter_map(|t| t.host.clone()));
        topology::place(entry, self.levelled(), &hosts, targets).map(Some)
    }

    fn irqs(&self) -> Result<Vec<IrqPin>, Found> {
        let Some(entry) = &self.experiment.irqs else {
            return Ok(Vec::new());
        };
        let node = self.levelled().settle(entry.field(), IRQ_SHAPE)?;
        experiment::irqs(Field {
            node: &node,
            ..entry.field()
        })
    }

    /// The load, and where its URL stands.
    fn load(&self) -> Result<(usize, Load), Found> {
        let mut draft = Draft::new();
        for entry in &self.section.load {
            draft.set(pick(entry.field(), self.levelled())?, "[load]")?;
        }
        for factor in &self.section.factors {
            if let Some(field) = factor.as_load_field(&self.levels) {
                draft.set(field, "[factor]")?;
            }
        }
        let design = &self.section.design;
        draft.spec.duration = Some(design.measure.unwrap_or(DEFAULT_MEASURE));
        draft.spec.warmup = design.warmup.unwrap_or(DEFAULT_WARMUP);
        draft.spec.url = self.url(&draft)?;
        let url_at = draft.url_at;
        if self.section.search.is_some() {
            draft.search_rate(self.section.at);
        }
        let load = draft.finish()?;
        let asks = match load.rate_of_capacity {
            Some(share) => format!("a `rate` of {} % is a share of the capacity", share * 100.0),
            None if self.section.search.is_some() => {
                "a search for the highest rate begins at the capacity".to_owned()
            }
            None => return Ok((url_at, load)),
        };
        match self.has_capacity {
            true => Ok((url_at, load)),
            false => Err(Found::at(load.rate_at, Fault::NoCapacity { asks })),
        }
    }

    /// The URL with the levels filled in, so that `http://server/bytes/{{size}}` is a sweep over sizes.
    fn url(&self, draft: &Draft) -> Result<String, Found> {
        let url = &draft.spec.url;
        if url.is_empty() {
            let fault = Fault::Missing {
                what: "url".to_owned(),
                inside: "[load]".to_owned(),
                example: "url = \"http://server/\", where [target.server] is a target".to_owned(),
            };
            return Err(Found::at(self.section.at, fault));
        }
        template::render("url", url, &self.levels).map_err(|e| {
            let cause = e.cause();
            Found::at(draft.url_at, Fault::Template { cause })
        })
    }

    /// The targets that the URL needs, in the order in which they start; none for an outside address.
    fn targets(
        &self,
        all: &BTreeMap<String, Resolved>,
        url_at: usize,
        url: &str,
    ) -> Result<Vec<TargetSpec>, Found> {
        let bad_url = |cause: &str| {
            let fault = Fault::Url {
                url: url.to_owned(),
                cause: cause.to_owned(),
            };
            Found::at(url_at, fault)
        };
        let Parts { host, port, .. } = address::parts(url).map_err(|cause| bad_url(&cause))?;
        let Some(first) = all.get(host) else {
            // Other machines have names too; only what looks like a slip is refused.
            let fault = unknown_name("target", host, "the URL", all.keys().map(String::as_str));
            let is_slip = matches!(fault, Fault::UnknownName { near: Some(_), .. });
            return if is_slip && !host.contains('.') {
                Err(Found::at(url_at, fault))
            } else {
                Ok(Vec::new())
            };
        };
        if port.is_some() {
            return Err(bad_url("the port of a target is set by its `listen`"));
        }
        let order = start_order(first, all)?;
        if self.experiment.topology.is_none() {
            reached::check(&order, &self.experiment.hosts)?;
        }
        order.into_iter().map(|t| self.target(t)).collect()
    }

    /// A target with the levels of the cell among its values.
    fn target(&self, target: &Resolved) -> Result<TargetSpec, Found> {
        let known = || {
            let others = self.experiment.targets.keys().map(String::as_str);
            let levels = self.levels.keys().map(String::as_str);
            target.known().chain(levels).chain(others)
        };
        for (name, place) in &target.names {
            if !known().any(|k| k == name) {
                let fault = unknown_name("name", name, &inside(place, target), known());
                return Err(Found::new(place.clone(), fault));
            }
        }
        let mut spec = target.spec.clone();
        spec.values.extend(self.levels.clone());
        Ok(spec)
    }
}

fn inside(place: &Place, target: &Resolved) -> String {
    match place {
        Place::Line(..) => format!("the template of target `{}`", target.spec.name),
        Place::Offset(_) => format!("the templates of [target.{}]", target.spec.name),
    }
}

/// A target that no trial starts is a mistake, usually in the URL.
fn check_used(plan: &Plan, experiment: &Experiment, report: &mut Report) {
    if !report.is_empty() {
        return; // A trial that could not be resolved may be the one that uses it.
    }
    let used: BTreeSet<&str> = plan
        .trials
        .iter()
        .flat_map(|t| &t.targets)
        .map(|t| t.name.as_str())
        .collect();
    for (name, target) in &experiment.targets {
        if !used.contains(name.as_str()) {
            let target_name = name.clone();
            report.push(Found::at(
                target.at,
                Fault::Unused {
                    target: target_name,
                },
            ));
        }
    }
}

/// Profiles of Onload beside the configurations whose wrappers name them.
fn add_onload(plan: &mut Plan, experiment: &Experiment, report: &mut Report) {
    if experiment.onload.is_empty() || !report.is_empty() {
        return;
    }
    let Plan {
        trials, warnings, ..
    } = plan;
    for target in trials.iter_mut().flat_map(|t| &mut t.targets) {
        report.take(onload::lay_out(&experiment.onload, target, warnings));
    }
    let targets: Vec<&TargetSpec> = trials.iter().flat_map(|t| &t.targets).collect();
    report.take(onload::check_used(&experiment.onload, &targets));
}

/// The hosts that loads and targets of the plan name, in the order in which they come.
fn add_hosts(plan: &mut Plan, experiment: &Experiment, report: &mut Report) {
    let conflict_in = |first: &str, second: &str, inside: &str, why| {
        let fault = Fault::Conflict {
            first: first.to_owned(),
            second: second.to_owned(),
            inside: inside.to_owned(),
            why,
        };
        Found::at(0, fault)
    };
    let conflict = |second: &str, why| conflict_in("hosts", second, "[load]", why);
    let on_hosts = || plan.trials.iter().filter(|t| !t.load.hosts.is_empty());
    if on_hosts().any(|trial| trial.topology.is_some()) {
        let why = "the load comes from the topology's client, or from hosts";
        report.push(conflict("[topology]", why));
    }
    let is_wild = |target: &TargetSpec| target.listen.ip().is_unspecified();
    if on_hosts().any(|trial| trial.targets.iter().any(is_wild)) {
        let why =
            "the hosts need an address of the target: let it listen on the one that they reach";
        report.push(conflict("listen on every address", why));
    }
    let placed = |trial: &&TrialPlan| {
        let mut hosts = trial.targets.iter().filter_map(|t| t.host.as_ref());
        let is_reached = |name: &String| experiment.hosts.iter().any(|host| host.name == *name);
        trial.topology.is_some() && hosts.any(is_reached)
    };
    if plan.trials.iter().any(|trial| placed(&trial)) {
        let why = "a target runs on a host that the topology makes, or on one that is reached";
        report.push(conflict_in("host", "[topology]", "[target]", why));
    }
    let mut hosts: Vec<HostSpec> = Vec::new();
    for trial in &plan.trials {
        let of_targets = trial.targets.iter().filter_map(|t| trial.reached_host(t));
        for name in (trial.load.hosts.iter().map(String::as_str)).chain(of_targets) {
            if !hosts.iter().any(|host| host.name == name) {
                let known = experiment.hosts.iter().find(|host| host.name == name);
                hosts.push(known.cloned().unwrap_or_else(|| HostSpec::ssh(name)));
            }
        }
    }
    plan.hosts = hosts;
    plan.warnings.extend(reached::untuned(plan));
}

fn check_budget(plan: &Plan, top: &Section, report: &mut Report) {
    let planned = plan.time();
    match top.design.budget {
        Some((at, budget)) if planned > budget => {
            report.push(Found::at(at, Fault::OverBudget { planned, budget }));
        }
        _ => {}
    }
}

/// One warning for each target that has a core in common with the generator.
fn shared_cores(trials: &[TrialPlan]) -> Vec<Warning> {
    let mut shared: BTreeMap<&str, BTreeSet<u32>> = BTreeMap::new();
    // Cores of other hosts are none of the targets'.
    for trial in trials.iter().filter(|t| t.load.hosts.is_empty()) {
        let here = trial.targets.iter();
        for target in here.filter(|t| trial.reached_host(t).is_none()) {
            let cores = target.cpus.iter().filter(|c| trial.load.cpus.contains(c));
            shared.entry(&target.name).or_default().extend(cores);
        }
    }
    shared.retain(|_, cores| !cores.is_empty());
    shared
        .into_iter()
        .map(|(target, cores)| shared_core(target, &cores))
        .collect()
}

fn shared_core(target: &str, cores: &BTreeSet<u32>) -> Warning {
    let plural = if cores.len() == 1 { "core" } else { "cores" };
    let cores: Vec<String> = cores.iter().map(u32::to_string).collect();
    Warning::new(
        "shared_core",
        format!(
            "the generator and target `{target}` share {plural} {}: the figures say nothing about \
             the server alone",
            cores.join(", ")
        ),
        "give [load] and the target different `cpus`",
    )
}
