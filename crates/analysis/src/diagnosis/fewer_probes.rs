//! Fewer probes never allege more: a condition that loses facts keeps its truth or becomes unknown.
//!
//! Every cause is judged over seeded sheets whose numbers lie around its thresholds, each again without the facts of
//! one tier. What is unknown may leave a cause unseen, or suspected where nothing can contradict it any more.

use super::catalogue::{CauseFile, FactTier};
use super::rules::{Outcome, Scene, Truth, condition, judge};
use super::*;
use record::{Directive, Server};

const TIERS: [FactTier; 6] = [
    FactTier::Load,
    FactTier::Proc,
    FactTier::Profile,
    FactTier::PerfEvents,
    FactTier::Ebpf,
    FactTier::Config,
];
const SHEETS: u64 = 12;

/// SplitMix64: the sheets are the same in every run.
struct Seeded(u64);

impl Seeded {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) % n as u64) as usize
    }
}

/// A fact as a sheet may have it: a number, without meaning, or unknown.
#[derive(Clone)]
enum State {
    Number(f64),
    Meaningless,
    Missing,
}

struct Sheet {
    facts: Vec<(String, State)>,
    server: Option<Server>,
}

impl Sheet {
    /// Numbers near what the cause compares its facts with.
    fn around(cause: &Cause, random: &mut Seeded) -> Self {
        let mut facts: Vec<(String, State)> = Vec::new();
        let mut directives = Vec::new();
        for c in cause.conditions() {
            let limits = [c.at_least, c.at_most, c.above, c.below];
            let limits = limits.into_iter().chain([
                c.between.map(|[low, _]| low),
                c.between.map(|[_, high]| high),
            ]);
            let limits: Vec<f64> = limits.flatten().collect();
            for text in c.fact.iter().chain(&c.ratio_to) {
                let expression = super::expression::Expression::parse(text).unwrap();
                for name in expression.facts() {
                    if facts.iter().all(|(known, _)| known != name) {
                        let limit = limits[random.below(limits.len())];
                        let factor = [0.0, 0.3, 0.9, 1.0, 1.1, 3.0][random.below(6)];
                        let state = match random.below(10) {
                            0 => State::Missing,
                            1 => State::Meaningless,
                            _ => State::Number(limit.max(0.0) * factor),
                        };
                        facts.push((name.to_owned(), state));
                    }
                }
            }
            if let Some(test) = c.config.as_ref().filter(|_| random.below(2) == 0) {
                let value = test.is.clone().or(test.contains.clone());
                directives.push(Directive {
                    name: test.directive.clone(),
                    args: vec![value.unwrap_or_else(|| "1".to_owned())],
                    ..Directive::default()
                });
            }
        }
        let kinds = ["nginx", "haproxy", "node", "python", "tomcat"];
        let server = Server {
            target: "web".into(),
            kind: kinds[random.below(kinds.len())].into(),
            config_files: vec!["web.conf".into()],
            directives,
            ..Server::default()
        };
        Sheet {
            facts,
            server: (random.below(4) > 0).then_some(server),
        }
    }

    /// All facts, or all but those of a tier.
    fn facts(&self, without: Option<FactTier>) -> FactSet {
        let mut set = FactSet::default();
        set.targets = vec!["web".into()];
        for (name, state) in &self.facts {
            let declared = catalogue().fact(name);
            if without.is_some() && declared.map(|f| f.tier) == without {
                continue;
            }
            let run = declared.is_some_and(|f| f.of == FactOf::Run);
            let target = if run { "" } else { "web" };
            match state {
                State::Number(value) => set.known(target, name, *value, "test"),
                State::Meaningless => set.not_applicable(target, name, "there is none"),
                State::Missing => {}
            }
        }
        if without != Some(FactTier::Config) {
            let servers = self.server.iter().cloned();
            set.servers = servers.map(|s| (s.target.clone(), s)).collect();
        }
        set
    }
}

/// What a cause says with fewer facts and did not say with all; empty when nothing.
fn alleged(cause: &Cause, sheet: &Sheet, tier: FactTier, station: &str) -> Vec<String> {
    let (all, fewer) = (sheet.facts(None), sheet.facts(Some(tier)));
    let scene = |facts| Scene { facts, station };
    let (all, fewer) = (scene(all.view("web")), scene(fewer.view("web")));
    let mut found = Vec::new();
    for c in cause.conditions() {
        let (with, without) = (condition(c, all).truth, condition(c, fewer).truth);
        if without != with && without != Truth::Unknown {
            found.push(format!("{with:?} became {without:?}: {c:?}"));
        }
    }
    let holds = |scene| match judge(cause, scene) {
        Outcome::Holds { status, .. } => Some(status),
        _ => None,
    };
    if holds(all).is_none() && holds(fewer).is_some_and(|status| status != Status::Suspected) {
        found.push("it holds, and is more than suspected".to_owned());
    }
    found
}

fn all_alleged(causes: &[Cause]) -> Vec<String> {
    let mut found = Vec::new();
    for cause in causes {
        for seed in 0..SHEETS {
            let sheet = Sheet::around(cause, &mut Seeded(seed));
            let tiers = TIERS.into_iter();
            let of_tier = |tier| {
                let said = alleged(cause, &sheet, tier, "worker").into_iter();
                said.map(move |what| {
                    format!("{} without {tier:?}, sheet {seed}: {what}", cause.name)
                })
            };
            found.extend(tiers.flat_map(of_tier));
        }
    }
    found
}

#[test]
fn fewer_probes_never_add_a_cause() {
    let found = all_alleged(&catalogue().causes);
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// The sheets reach the causes: nearly all hold in one of them, or the test above would say nothing.
#[test]
fn the_sheets_reach_the_causes() {
    let holds = |cause: &&Cause| {
        (0..10 * SHEETS).any(|seed| {
            let set = Sheet::around(cause, &mut Seeded(seed)).facts(None);
            let held = |c| {
                let scene = Scene {
                    facts: set.view("web"),
                    station: "worker",
                };
                condition(c, scene).truth == Truth::True
            };
            cause.required.iter().all(held)
        })
    };
    let causes = &catalogue().causes;
    let reached = causes.iter().filter(holds).count();
    assert!(reached * 2 > causes.len(), "{reached} of {}", causes.len());
}

/// The canary: filling in what is unknown is what both tests are there for.
#[test]
fn a_filled_in_unknown_is_caught() {
    let text = |fact: &str| {
        format!(
            r#"[[cause]]
            name = "x"
            title = "X"
            group = "io"
            why = ""
            explains = "cpu"
            lookalikes = ""
            thresholds = ""
            required = [{{ any = [{{ fact = "{fact}", below = 0.5 }}] }}]
            remedy = {{ generic = "" }}
            proof = {{ mechanism = "cpu.user_share", moves = "down", control = "cpu.user_share" }}"#
        )
    };
    let filled = text("client.errors_share + known(worker.run_queue_wait_share, 0)");
    let file: CauseFile = toml::from_str(&filled).unwrap();
    assert_ne!(all_alleged(&file.cause), Vec::<String>::new());
    let refused = Catalogue::parse("", &[&filled]).unwrap_err();
    assert!(
        refused.contains("`known(...)` in the condition"),
        "{refused}"
    );

    let sound = text("client.errors_share + applies(worker.run_queue_wait_share, 0)");
    let file: CauseFile = toml::from_str(&sound).unwrap();
    assert_eq!(all_alleged(&file.cause), Vec::<String>::new());
    Catalogue::parse("", &[&sound]).unwrap();
}
