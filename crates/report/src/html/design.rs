//! What the page shows of the plan: the order of the factors, the baseline, the repeats.
//!
//! Read leniently from `plan.json`: the record keeps the plan as plain JSON, and a page must also come
//! out of a record whose plan has other or fewer fields than today's.

use serde::Deserialize;
use std::collections::BTreeMap;

/// The design of a run.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Design {
    /// Stages in the order in which they ran.
    pub stages: Vec<Stage>,
    /// Seed of the order within the blocks.
    pub seed: Option<u64>,
    /// Largest share of failed requests for a trial to be valid.
    pub error_limit: Option<f64>,
}

/// A stage's part of the design.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Stage {
    /// Name.
    pub name: String,
    factors: Vec<Factor>,
    /// Levels of the baseline; empty without one.
    pub baseline: BTreeMap<String, String>,
    /// Trials per cell.
    pub repeats: Option<u32>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
struct Factor {
    name: String,
}

impl Design {
    /// The design in a record's plan; empty when the plan is not one.
    pub fn of(plan: &serde_json::Value) -> Self {
        Self::deserialize(plan).unwrap_or_default()
    }

    /// A stage by name.
    pub fn stage(&self, name: &str) -> Option<&Stage> {
        self.stages.iter().find(|s| s.name == name)
    }
}

impl Stage {
    /// Names of the factors in the order of the experiment file.
    pub fn factors(&self) -> impl Iterator<Item = &str> {
        self.factors.iter().map(|f| f.name.as_str())
    }

    /// Whether a cell with these levels is (part of) the baseline.
    pub fn is_baseline(&self, levels: &BTreeMap<String, String>) -> bool {
        !self.baseline.is_empty()
            && self
                .baseline
                .iter()
                .all(|(factor, level)| levels.get(factor) == Some(level))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn reads_a_plan_and_survives_another() {
        let plan = json!({"seed": 7, "later": true, "stages": [{
            "name": "main", "repeats": 5, "baseline": {"path": "direct"},
            "factors": [{"name": "path", "levels": ["direct"]}, {"name": "connections", "levels": []}],
        }]});
        let design = Design::of(&plan);
        let stage = design.stage("main").unwrap();
        assert_eq!(stage.factors().collect::<Vec<_>>(), ["path", "connections"]);
        let levels = |path: &str| BTreeMap::from([("path".to_owned(), path.to_owned())]);
        assert!(stage.is_baseline(&levels("direct")));
        assert!(!stage.is_baseline(&levels("proxied")));
        assert_eq!(Design::of(&json!("nothing")), Design::default());
    }
}
