//! The catalogue of causes as data: what is declared in `crates/analysis/catalogue/*.toml`, read once.
//!
//! The files are compiled in, so a diagnosis needs nothing from the disk. `00-format.md` beside them
//! explains every field with an example. What a fact *is* stands in `facts.toml`; how it is computed from a record
//! stands in the extractors; the tests hold both against each other and against every name that a cause uses.

use super::expression::Expression;
use super::fact::matches_pattern;
use crate::Metric;
use serde::Deserialize;
use std::collections::{BTreeMap, HashMap};
use std::sync::OnceLock;

/// A fact as it is declared: the extractors produce it, the causes use it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FactDeclaration {
    /// Name, segments joined by dots: `cpu.us_per_request`. A `*` stands for any one segment, or for a part of one.
    pub name: String,
    /// Unit: `1` for shares and plain numbers, `us`, `ms`, `bytes`, `cores`, `1/request`, `1/s`.
    pub unit: String,
    /// What it says, in one sentence.
    pub meaning: String,
    pub of: FactOf,
    /// The least that must be there to know it.
    pub tier: FactTier,
}

/// Whose a fact is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FactOf {
    /// One value for each target.
    Target,
    /// One value for the run: the client, the host, the path between.
    Run,
}

/// The least that must be there to know a fact.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FactTier {
    /// The load alone.
    Load,
    /// /proc and sock_diag while the load runs.
    Proc,
    Profile,
    /// A signature pass with counters on tracepoints.
    PerfEvents,
    /// A signature pass with BPF programs.
    Ebpf,
    /// The server's configuration as read.
    Config,
}

/// A cause.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cause {
    /// Name: `small_proxy_buffers`.
    pub name: String,
    /// Title: what is wrong, without numbers.
    pub title: String,
    /// Group: `worker`, `io`, `connections`, `tcp`, `tls`, `computation`, `memory`, `backend`, `none`.
    pub group: String,
    /// What it is about.
    #[serde(default)]
    pub scope: Scope,
    /// Stations at which it can be the cause; empty: at any. A cause at another station ranks behind.
    #[serde(default)]
    pub station: Vec<String>,
    /// Template, one or two sentences with the numbers: what happens and why it costs.
    pub why: String,
    /// All must hold. At least one must be a measured fact.
    pub required: Vec<Condition>,
    /// Each that holds raises the confidence.
    #[serde(default)]
    pub supporting: Vec<Condition>,
    /// One that holds rules the cause out.
    #[serde(default)]
    pub contradicting: Vec<Condition>,
    /// Confidence, 0 to 1, when everything required and supporting is there and nothing contradicts.
    #[serde(default = "usual_confidence")]
    pub confidence: f64,
    /// Expression: the bound on the gain as a share (0 to 1) of the limiting resource's time. Cut to 0..1.
    #[serde(default)]
    pub gain: Option<String>,
    /// Expression: the same as a share of the CPU of the servers behind, where they and not this one are full: a
    /// connection that is opened costs both ends.
    #[serde(default)]
    pub peer_gain: Option<String>,
    /// Bound from which it is worth naming as what limits, 0 to 1; without one, what its kind of bound needs to be
    /// shown.
    #[serde(default)]
    pub worth_from: Option<f64>,
    /// It is named as what limits only where all of these hold; where one is known not to, it is a note.
    #[serde(default)]
    pub worth_when: Vec<Condition>,
    /// It names a server behind, and nothing in it: a cause that explains as much of that server's CPU goes before it.
    #[serde(default)]
    pub whole: bool,
    /// Said only where no other cause explains CPU of the same target.
    #[serde(default)]
    pub general: bool,
    /// It shows in the slowest requests alone: their account's largest row is told with it.
    #[serde(default)]
    pub tail: bool,
    pub explains: Explains,
    /// Kinds of rows of the time ledger that it explains: it gains no more than these.
    #[serde(default)]
    pub rows: Vec<String>,
    /// Kinds that it explains as well where something holds at one of the servers: what waits elsewhere for it, what
    /// comes of it.
    #[serde(default)]
    pub rows_where: Option<RowsWhere>,
    /// More general or look-alike causes that it goes before when both hold.
    #[serde(default)]
    pub beats: Vec<String>,
    /// What tells it from look-alikes, in a sentence.
    pub lookalikes: String,
    /// Where the thresholds come from: the mechanism and the constant, a document, or a measurement.
    pub thresholds: String,
    /// Template by server kind; `generic` is required and is used for kinds without their own.
    pub remedy: BTreeMap<String, String>,
    /// Changes of a configuration that carry the remedy out.
    #[serde(default)]
    pub change: Vec<ChangeTemplate>,
    /// What a proof must see.
    pub proof: ProofSignals,
}

fn usual_confidence() -> f64 {
    0.9
}

/// Kinds of rows, and what must hold.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RowsWhere {
    pub rows: Vec<String>,
    pub when: Condition,
}

/// What a cause is about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// Judged once for each target.
    #[default]
    Target,
    /// The host: judged once, over the facts of the server behind the URL and of the run.
    Host,
    /// The client or the path: likewise.
    Client,
}

/// What a cause explains.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Explains {
    /// CPU time of the target.
    Cpu,
    /// Time in which a request waits and nobody is busy.
    Wait,
    /// Responses that are late by a fixed time (40 ms, 200 ms, 1 s, 3 s).
    Quantum,
    /// A rate or number that something caps.
    Cap,
    /// Requests that fail.
    Errors,
    /// Nothing that could be won.
    Nothing,
}

impl Cause {
    /// Every condition, those inside others included.
    pub(crate) fn conditions(&self) -> Vec<&Condition> {
        let changes = self.change.iter().filter_map(|c| c.when.as_ref());
        let rows = self.rows_where.iter().map(|more| &more.when);
        let judged = [
            &self.required,
            &self.supporting,
            &self.contradicting,
            &self.worth_when,
        ];
        let mut all = Vec::new();
        for condition in judged.into_iter().flatten().chain(changes).chain(rows) {
            condition.collect(&mut all);
        }
        all
    }

    /// What is unknown stays unknown in a condition, so `known(...)` has no place in one.
    fn check(&self) -> Result<(), String> {
        for condition in self.conditions() {
            for text in condition.fact.iter().chain(&condition.ratio_to) {
                let expression = Expression::parse(text);
                let expression = expression.map_err(|e| format!("cause `{}`: {e}", self.name))?;
                if expression.fills_in() {
                    let name = &self.name;
                    return Err(format!(
                        "cause `{name}`: `known(...)` in the condition `{text}` makes a number of what is unknown\n\
                         remedy: the fact alone, or `applies(FACT, ELSE)` where it may have no meaning"
                    ));
                }
            }
        }
        Ok(())
    }
}

/// A condition. Exactly one of `fact`, `any`, `all`, `not`, `server`, `config`, `station` is given; beside
/// `fact` at least one comparison.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Condition {
    /// Expression over facts; most often the name of one.
    pub fact: Option<String>,
    /// Expression that `fact` is divided by. A divisor of 0 makes the condition false.
    pub ratio_to: Option<String>,
    /// Holds from this value on.
    pub at_least: Option<f64>,
    /// Holds up to this value.
    pub at_most: Option<f64>,
    /// Holds above this value.
    pub above: Option<f64>,
    /// Holds below this value.
    pub below: Option<f64>,
    /// Holds within these bounds, both included.
    pub between: Option<[f64; 2]>,
    /// One of these holds.
    pub any: Option<Vec<Condition>>,
    /// All of these hold.
    pub all: Option<Vec<Condition>>,
    /// This does not hold.
    pub not: Option<Box<Condition>>,
    /// The server is of one of these kinds.
    pub server: Option<Vec<String>>,
    /// The configuration says something.
    pub config: Option<ConfigTest>,
    /// The station found is one of these.
    pub station: Option<Vec<String>>,
    /// What it means, in a few words, for the evidence and for what is ruled out.
    pub note: Option<String>,
}

impl Condition {
    fn collect<'a>(&'a self, all: &mut Vec<&'a Condition>) {
        all.push(self);
        let inner = self.any.iter().chain(&self.all).flatten();
        for condition in inner.chain(self.not.as_deref()) {
            condition.collect(all);
        }
    }
}

/// A test of one directive. Exactly one of the tests is given. Unknown when the configuration was not read.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConfigTest {
    /// Directive's name, letter case ignored.
    pub directive: String,
    /// Any argument equals this, letter case ignored.
    pub is: Option<String>,
    /// It is set and no argument equals this.
    pub is_not: Option<String>,
    /// It is set nowhere (`true`), or somewhere (`false`).
    pub unset: Option<bool>,
    /// Argument that the numeric tests look at, from 0.
    #[serde(default)]
    pub arg: usize,
    /// The argument, read as a number with `k`, `m`, `g` (sizes) or `s`, `ms` (times, in s), is at most this.
    pub at_most: Option<f64>,
    /// Likewise, at least this.
    pub at_least: Option<f64>,
    /// An argument contains this text.
    pub contains: Option<String>,
}

/// A change of a configuration.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChangeTemplate {
    /// Server's kind; `any` for what every server has.
    pub server: String,
    /// Directive's name, as the server spells it; leading arguments that it must have may follow (`option httpclose`).
    pub directive: String,
    /// Other names of the same directive. One that stands keeps its name.
    #[serde(default)]
    pub aliases: Vec<String>,
    /// Section that it belongs to when it is not set yet: `http`, `upstream`, `defaults`; `environment` for a variable,
    /// `jvm` and `node` for an option before the program, `limits` for what holds the server from outside.
    #[serde(default)]
    pub context: String,
    /// Template of the whole directive as proposed; empty: it is removed. `$0`, `$1|word` and `$*` are arguments of the
    /// one that stands.
    pub to: String,
    /// Template of what stands now, where no directive says it: in `limits`.
    #[serde(default)]
    pub from: String,
    /// Directives with which it belongs together: it is also set in every section where one of them stands.
    #[serde(default)]
    pub beside: Vec<String>,
    /// A directive with an argument that contains one of these is left as it is.
    #[serde(default)]
    pub except: Vec<String>,
    /// Only when this holds.
    #[serde(default)]
    pub when: Option<Condition>,
}

/// What a proof must see.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProofSignals {
    /// The metric that decides, where it is not the one that follows from what the cause explains.
    #[serde(default)]
    pub metric: Option<Metric>,
    /// Fact that must move with the change.
    pub mechanism: String,
    /// Where to.
    pub moves: Moves,
    /// Fact that must not move.
    #[serde(default)]
    pub control: Option<String>,
    /// Why there is no control.
    #[serde(default)]
    pub no_control: Option<String>,
    /// The change puts work on further cores: the changed copy needs some that the unchanged one does not fill.
    #[serde(default)]
    pub cores: bool,
}

/// Direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Moves {
    /// It gets smaller.
    Down,
    /// It gets larger.
    Up,
}

/// A file of causes.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CauseFile {
    #[serde(default)]
    pub cause: Vec<Cause>,
}

/// The file of facts: by whose they are and the least that must be there, the name with its unit and meaning.
type FactFile = BTreeMap<FactOf, BTreeMap<FactTier, BTreeMap<String, (String, String)>>>;

fn declarations(file: FactFile) -> Vec<FactDeclaration> {
    let mut facts = Vec::new();
    for (of, tiers) in file {
        for (tier, named) in tiers {
            facts.extend(
                named
                    .into_iter()
                    .map(|(name, (unit, meaning))| FactDeclaration {
                        name,
                        unit,
                        meaning,
                        of,
                        tier,
                    }),
            );
        }
    }
    facts
}

/// Everything that is compiled in.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Catalogue {
    facts: Vec<FactDeclaration>,
    /// Where each name stands in `facts`.
    places: HashMap<String, usize>,
    /// Where each pattern stands, with its letters before the first `*`.
    patterns: Vec<(String, usize)>,
    /// Causes, in the order of their files.
    pub causes: Vec<Cause>,
}

/// The files of causes.
const CAUSES: [&str; 10] = [
    include_str!("../../catalogue/worker.toml"),
    include_str!("../../catalogue/io.toml"),
    include_str!("../../catalogue/connections.toml"),
    include_str!("../../catalogue/tcp.toml"),
    include_str!("../../catalogue/tls.toml"),
    include_str!("../../catalogue/computation.toml"),
    include_str!("../../catalogue/general.toml"),
    include_str!("../../catalogue/memory.toml"),
    include_str!("../../catalogue/backend.toml"),
    include_str!("../../catalogue/none.toml"),
];

static CATALOGUE: OnceLock<Catalogue> = OnceLock::new();

/// The catalogue, parsed once.
pub fn catalogue() -> &'static Catalogue {
    CATALOGUE.get_or_init(|| {
        Catalogue::parse(include_str!("../../catalogue/facts.toml"), &CAUSES)
            .expect("a test parses the files that are compiled in")
    })
}

/// Judges by another catalogue than the one that is compiled in, to try rules on stored records. False, and
/// without effect, when something was judged before.
pub fn use_catalogue(other: Catalogue) -> bool {
    CATALOGUE.set(other).is_ok()
}

impl Catalogue {
    /// A catalogue from its file of facts and its files of causes.
    ///
    /// # Errors
    /// The parser's, with line and column; or what a condition must not hold.
    pub fn parse(facts: &str, causes: &[&str]) -> Result<Self, String> {
        let facts: FactFile = toml::from_str(facts).map_err(|e| e.to_string())?;
        let mut all = Vec::new();
        for text in causes {
            let file: CauseFile = toml::from_str(text).map_err(|e| e.to_string())?;
            all.extend(file.cause);
        }
        all.iter().try_for_each(Cause::check)?;
        let facts = declarations(facts);
        let (mut places, mut patterns) = (HashMap::new(), Vec::new());
        for (at, fact) in facts.iter().enumerate() {
            if let Some((head, _)) = fact.name.split_once('*') {
                patterns.push((head.to_owned(), at));
            }
            places.entry(fact.name.clone()).or_insert(at);
        }
        Ok(Catalogue {
            facts,
            places,
            patterns,
            causes: all,
        })
    }

    /// Every declaration.
    pub fn facts(&self) -> &[FactDeclaration] {
        &self.facts
    }

    /// The declaration of a fact; an exact name goes before a pattern.
    pub fn fact(&self, name: &str) -> Option<&FactDeclaration> {
        let fits = |(head, at): &&(String, usize)| {
            name.starts_with(head.as_str()) && matches_pattern(&self.facts[*at].name, name)
        };
        let exact = self.places.get(name).copied();
        let at = exact.or_else(|| self.patterns.iter().find(fits).map(|&(_, at)| at))?;
        self.facts.get(at)
    }

    /// A fact's unit; `1` when it is not declared.
    pub fn unit_of(&self, name: &str) -> &str {
        self.fact(name).map_or("1", |f| f.unit.as_str())
    }

    /// A cause by name.
    pub fn cause(&self, name: &str) -> Option<&Cause> {
        self.causes.iter().find(|c| c.name == name)
    }
}
