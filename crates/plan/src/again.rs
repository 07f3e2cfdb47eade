//! Trials that are measured again at the end of a run, because programs outside the experiment took CPU in them.
//!
//! A trial is compared within its block, so one that is measured again makes a block of its own together with the
//! baseline that it is compared with, or with all that are compared with it. The surprise: it is measured again once.
//! On a host that is never quiet a second time would tell no more than the first.

use crate::order::SplitMix;
use crate::{Levels, Plan, TrialPlan, expand};
use record::Nanos;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Without a budget of its own, a run may become longer by this share of its planned time.
const LONGER: u64 = 4;

/// A trial that was added at the end of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Again {
    /// Its number.
    pub trial: u32,
    /// The disturbed trial that it takes the place of; or, of one that runs beside it to be compared with it, the trial
    /// that it is like, which stays.
    pub of: u32,
    /// It takes the place of the other.
    pub replaces: bool,
}

/// One block that is added.
struct Block {
    stage: usize,
    trials: Vec<(TrialPlan, bool)>,
}

impl Plan {
    /// Adds those of the `disturbed` trials that were not measured again yet, as far as the budget of time allows:
    /// every cell's first before any cell's second. Returns how many there are.
    pub fn measure_again(&mut self, disturbed: &[u32]) -> usize {
        let limit = self.budget.unwrap_or_else(|| {
            let planned = self.trials.iter().filter(|t| !self.is_added(t.id));
            let planned = planned.map(|t| t.time().0).fold(0, u64::saturating_add);
            Nanos(planned + planned / LONGER)
        });
        let mut time = self.time();
        let mut blocks: Vec<((usize, usize), Block)> = Vec::new();
        let mut added = 0;
        for (turn, trial) in self.in_turns(disturbed) {
            let key = (turn, trial.stage);
            let at = blocks.iter().position(|(k, _)| *k == key);
            let holds = |t: &TrialPlan| {
                let block = at.map(|at| &blocks[at].1);
                block.is_some_and(|b| b.trials.iter().any(|(other, _)| other.levels == t.levels))
            };
            let wanted = std::iter::once(&trial).chain(self.compared_with(&trial));
            let more: Vec<TrialPlan> = wanted.filter(|t| !holds(t)).cloned().collect();
            let longer = more.iter().fold(time, |sum, t| sum + t.time());
            if longer > limit {
                break;
            }
            time = longer;
            added += 1;
            let at = at.unwrap_or_else(|| {
                let stage = trial.stage;
                let trials = Vec::new();
                blocks.push((key, Block { stage, trials }));
                blocks.len() - 1
            });
            let trials = &mut blocks[at].1.trials;
            trials.extend(more.into_iter().map(|t| (t, false)));
            // One that came beside another takes the place of its own trial when its turn comes.
            let own = trials.iter_mut().find(|(t, _)| t.levels == trial.levels);
            if let Some(own) = own {
                *own = (trial, true);
            }
        }
        for (_, block) in blocks {
            self.append(block);
        }
        added
    }

    fn is_added(&self, id: u32) -> bool {
        self.again.iter().any(|a| a.trial == id)
    }

    /// The disturbed trials with the turn of each within its cell, turn by turn.
    fn in_turns(&self, disturbed: &[u32]) -> Vec<(usize, TrialPlan)> {
        let done =
            |id: u32| self.is_added(id) || self.again.iter().any(|a| a.replaces && a.of == id);
        let mut cells: Vec<(usize, &Levels, usize)> = Vec::new();
        let mut found: Vec<(usize, TrialPlan)> = Vec::new();
        let wanted = |t: &&TrialPlan| disturbed.contains(&t.id) && !done(t.id);
        for trial in self.trials.iter().filter(wanted) {
            let is_cell = |(stage, levels, _): &&mut (usize, &Levels, usize)| {
                *stage == trial.stage && **levels == trial.levels
            };
            let turn = match cells.iter_mut().find(is_cell) {
                Some((.., turns)) => {
                    *turns += 1;
                    *turns
                }
                None => {
                    cells.push((trial.stage, &trial.levels, 0));
                    0
                }
            };
            found.push((turn, trial.clone()));
        }
        found.sort_by_key(|(turn, trial)| (*turn, trial.stage));
        found
    }

    /// Trials of the same block that this one is compared with, or that are compared with it.
    fn compared_with(&self, trial: &TrialPlan) -> impl Iterator<Item = &TrialPlan> {
        let baseline = |t: &TrialPlan| {
            let mut levels = t.levels.clone();
            levels.extend(self.stages[t.stage].baseline.clone());
            levels
        };
        let (own, levels) = (baseline(trial), trial.levels.clone());
        let (stage, block) = (trial.stage, trial.block);
        let of_block = self
            .trials
            .iter()
            .filter(move |t| t.stage == stage && t.block == block && t.levels != levels);
        let levels = trial.levels.clone();
        let compares = !self.stages[stage].baseline.is_empty();
        of_block.filter(move |t| compares && (t.levels == own || baseline(t) == levels))
    }

    fn append(&mut self, block: Block) {
        let Block { stage, mut trials } = block;
        let of_stage = self.trials.iter().filter(|t| t.stage == stage);
        let number = of_stage.map(|t| t.block + 1).max().unwrap_or(0);
        let place = (stage as u64) << 32 | u64::from(number);
        let mut random = SplitMix::new(self.seed ^ SplitMix::new(place).next());
        random.shuffle(&mut trials);
        let next = self.trials.iter().map(|t| t.id as usize + 1).max();
        for (i, (trial, replaces)) in trials.into_iter().enumerate() {
            let placed = expand::placed(&trial, next.unwrap_or(0) + i, number, &mut random);
            self.again.push(Again {
                trial: placed.id,
                of: trial.id,
                replaces,
            });
            self.trials.push(placed);
        }
    }

    /// Trials whose place another one has taken that is among the `complete`.
    pub fn replaced(&self, complete: &BTreeSet<u32>) -> Vec<Again> {
        let taken = |a: &&Again| a.replaces && complete.contains(&a.trial);
        self.again.iter().filter(taken).copied().collect()
    }
}
