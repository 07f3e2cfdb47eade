//! Cells that a host cannot run are taken out of the plan, and named in it.
//!
//! Only these cells: what the others need is there, and they are measured. The numbers of the trials that stay are
//! kept, so that a record can be continued on a host that lacks something else.

use crate::{Levels, Plan, SkippedCell, TrialPlan};
use record::Warning;

/// Why a trial cannot run, and what would help.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lack {
    /// What is missing, in words.
    pub reason: String,
    /// What would bring it.
    pub remedy: String,
}

impl Plan {
    /// Takes out the cells that lack something, as `lack` says of a cell's trial, and warns once for each reason.
    pub fn skip(&mut self, mut lack: impl FnMut(&TrialPlan) -> Option<Lack>) {
        let mut judged: Vec<(usize, Levels, bool)> = Vec::new();
        let mut skipped = Vec::new();
        self.trials.retain(|trial| {
            let is_cell = |(stage, levels, _): &&(usize, Levels, bool)| {
                *stage == trial.stage && *levels == trial.levels
            };
            if let Some((.., kept)) = judged.iter().find(is_cell) {
                return *kept;
            }
            let found = lack(trial);
            judged.push((trial.stage, trial.levels.clone(), found.is_none()));
            let Some(Lack { reason, remedy }) = found else {
                return true;
            };
            skipped.push(SkippedCell {
                stage: trial.stage,
                levels: trial.levels.clone(),
                reason,
                remedy,
            });
            false
        });
        self.warnings.extend(self.warnings_of(&skipped));
        self.skipped.append(&mut skipped);
    }

    /// One warning for each reason, which names the levels that all of its cells have.
    fn warnings_of(&self, skipped: &[SkippedCell]) -> Vec<Warning> {
        let mut warnings: Vec<Warning> = Vec::new();
        let mut told: Vec<&str> = Vec::new();
        for cell in skipped {
            if told.contains(&cell.reason.as_str()) {
                continue;
            }
            told.push(&cell.reason);
            let same: Vec<&SkippedCell> =
                skipped.iter().filter(|c| c.reason == cell.reason).collect();
            let many = match same.len() {
                1 => "1 cell is skipped".to_owned(),
                n => format!("{n} cells are skipped"),
            };
            warnings.push(Warning::new(
                "cells_skipped",
                format!("{many}{}: {}", self.common(&same), cell.reason),
                cell.remedy.clone(),
            ));
        }
        warnings
    }

    /// ` (stack=onload)`: the levels that these cells have in common, of factors that have others.
    fn common(&self, cells: &[&SkippedCell]) -> String {
        let is_varied = |stage: usize, factor: &str| {
            let factors = self.stages.get(stage).map_or(&[][..], |s| &s.factors);
            factors
                .iter()
                .any(|f| f.name == factor && f.levels.len() > 1)
        };
        let common: Vec<String> = cells[0]
            .levels
            .iter()
            .filter(|(factor, _)| is_varied(cells[0].stage, factor))
            .filter(|(factor, level)| cells.iter().all(|c| c.levels.get(*factor) == Some(*level)))
            .map(|(factor, level)| format!("{factor}={level}"))
            .collect();
        if common.is_empty() {
            String::new()
        } else {
            format!(" ({})", common.join(", "))
        }
    }
}
