//! What a stage's comparisons allow to say: the best level where the stage is fastest, and each level over all
//! settings.
//!
//! The surprise: in an open loop the rate is given, so its levels are judged by their p99 instead. Both are turned
//! into gains, above 1 is better, so that there is one way of judging.

use super::{NAMED, Said, Sentence};
use crate::intervals::shown;
use crate::json::RunDocument;
use crate::number::{Source, Unit};
use analysis::words::{levels as levels_words, plural};
use analysis::{Cell, Levels, Ratio};
use std::cmp::Ordering;

/// What a stage is judged by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Metric {
    /// Closed loop: more is better.
    Rate,
    /// Open loop: the rate is given, so the tail says which is better.
    P99,
}

impl Metric {
    fn field(self) -> &'static str {
        match self {
            Metric::Rate => "rate_ratio",
            Metric::P99 => "p99_ratio",
        }
    }

    fn words(self) -> &'static str {
        match self {
            Metric::Rate => "rate",
            Metric::P99 => "p99 of the response time",
        }
    }

    fn best_word(self) -> &'static str {
        match self {
            Metric::Rate => "fastest",
            Metric::P99 => "lowest in p99",
        }
    }

    fn of(self, cell: &Cell) -> Option<Ratio> {
        match self {
            Metric::Rate => cell.rate_ratio,
            Metric::P99 => cell.p99_ratio,
        }
    }

    /// Gain of a ratio: above 1 is better, whatever the metric.
    fn gain(self, ratio: f64) -> f64 {
        match self {
            Metric::Rate => ratio,
            Metric::P99 => 1.0 / ratio,
        }
    }

    /// The interval as gains, low end first.
    fn gains(self, (low, high): (f64, f64)) -> (f64, f64) {
        match self {
            Metric::Rate => (low, high),
            Metric::P99 => (self.gain(high), self.gain(low)),
        }
    }
}

/// A cell that may be spoken of: it has valid trials, and an interval against its baseline.
#[derive(Clone, Copy)]
struct Compared<'a> {
    index: usize,
    cell: &'a Cell,
    gain: f64,
    /// Greater: better than the baseline; equal: no difference shown.
    shown: Ordering,
    /// Ends of the interval as gains.
    low: f64,
    high: f64,
}

impl Compared<'_> {
    fn at(&self, metric: Metric) -> String {
        format!("/comparisons/{}/{}", self.index, metric.field())
    }

    fn better(&self) -> bool {
        self.shown == Ordering::Greater
    }

    fn worse(&self) -> bool {
        self.shown == Ordering::Less
    }
}

/// One stage with what its cells are held against.
pub(super) struct Stage<'a> {
    name: &'a str,
    source: &'a Source,
    baseline: Levels,
    cells: Vec<(usize, &'a Cell)>,
    metric: Metric,
}

impl<'a> Stage<'a> {
    /// The stage `name` of the document.
    pub fn new(
        document: &'a RunDocument,
        source: &'a Source,
        name: &'a str,
        baseline: Levels,
    ) -> Self {
        let all = document.comparisons.iter().enumerate();
        let cells: Vec<(usize, &Cell)> = all.filter(|(_, c)| c.stage == name).collect();
        let open_loop = cells.iter().any(|(_, c)| c.offered_per_s.is_some());
        Self {
            name,
            source,
            baseline,
            cells,
            metric: if open_loop { Metric::P99 } else { Metric::Rate },
        }
    }

    fn sentence(&self, said: Said, index: usize) -> Sentence {
        Sentence::new(said, self.name, format!("#/comparisons/{index}"))
    }

    /// `In stage a: `, where there are several to mix up.
    fn opening(&self) -> String {
        match self.name {
            "main" => String::new(),
            name => format!("Stage {name}, "),
        }
    }

    /// Levels of a cell without those that the baseline fixes.
    fn setting(&self, cell: &Cell) -> Levels {
        let mut levels = cell.levels.clone();
        levels.retain(|factor, _| !self.baseline.contains_key(factor));
        levels
    }

    /// Levels of a cell of the factors that the baseline fixes.
    fn level(&self, cell: &Cell) -> Levels {
        let mut levels = cell.levels.clone();
        levels.retain(|factor, _| self.baseline.contains_key(factor));
        levels
    }

    fn compared(&self) -> Vec<Compared<'a>> {
        let with_interval = |&(index, cell): &(usize, &'a Cell)| {
            let ratio = self.metric.of(cell).filter(|_| cell.is_measured())?;
            let (low, high) = self.metric.gains(ratio.interval()?);
            let order = shown(ratio)?;
            Some(Compared {
                index,
                cell,
                gain: self.metric.gain(ratio.ratio),
                shown: match self.metric {
                    Metric::Rate => order,
                    Metric::P99 => order.reverse(),
                },
                low,
                high,
            })
        };
        self.cells.iter().filter_map(with_interval).collect()
    }

    /// The cell with the highest rate of all that may be spoken of.
    fn fastest(&self) -> Option<(usize, &'a Cell)> {
        let rate = |c: &Cell| c.achieved_per_s.map_or(0.0, |s| s.median);
        let speak = |&&(_, c): &&(usize, &'a Cell)| c.is_measured() && c.achieved_per_s.is_some();
        let cells = self.cells.iter().filter(speak);
        cells
            .max_by(|a, b| rate(a.1).total_cmp(&rate(b.1)))
            .copied()
    }

    /// Which level is best where the stage is fastest, and each level over all settings.
    pub fn against_baseline(&self) -> Vec<Sentence> {
        let compared = self.compared();
        let Some((_, fastest)) = self.fastest().filter(|_| !compared.is_empty()) else {
            return Vec::new();
        };
        let mut setting = self.setting(fastest);
        if !compared.iter().any(|c| self.setting(c.cell) == setting) {
            // Nothing is compared at the peak: the fastest setting in which something is.
            let rate = |c: &Compared| c.cell.achieved_per_s.map_or(0.0, |s| s.median);
            let most = compared.iter().max_by(|a, b| rate(a).total_cmp(&rate(b)));
            setting = most.map_or(setting, |c| self.setting(c.cell));
        }
        let here: Vec<Compared> = compared
            .iter()
            .filter(|c| self.setting(c.cell) == setting)
            .copied()
            .collect();
        let mut all = self.best(&here, &setting);
        let settings = compared.iter().map(|c| self.setting(c.cell));
        if settings.filter(|s| *s != setting).count() > 0 {
            all.extend(self.each_level(&compared));
        }
        all
    }

    fn at_setting(setting: &Levels) -> String {
        match setting.is_empty() {
            true => String::new(),
            false => format!("at {}: ", levels_words(setting)),
        }
    }

    fn best(&self, here: &[Compared], setting: &Levels) -> Vec<Sentence> {
        let better: Vec<&Compared> = here.iter().filter(|c| c.better()).collect();
        let best = better.iter().max_by(|a, b| a.gain.total_cmp(&b.gain));
        let opening = format!("{}{}", self.opening(), Self::at_setting(setting));
        let baseline = levels_words(&self.baseline);
        let Some(best) = best else {
            return self.none_better(here, &opening, &baseline);
        };
        let at = best.at(self.metric);
        let sentence = self
            .sentence(Said::Best, best.index)
            .words(format!(
                "{opening}{} is {}: its {} against {baseline} changes by ",
                levels_words(&self.level(best.cell)),
                self.metric.best_word(),
                self.metric.words(),
            ))
            .change(self.source, &at)
            .words(".");
        let mut all = vec![self.with_p99(sentence, best)];
        let near: Vec<&Compared> = here
            .iter()
            .filter(|c| c.index != best.index && c.high >= best.low)
            .collect();
        if let Some(first) = near.first() {
            let mut tie = self.sentence(Said::Tie, first.index).words(format!(
                "{opening}the interval of {} overlaps with that of ",
                levels_words(&self.level(best.cell))
            ));
            for (i, other) in near.iter().take(NAMED).enumerate() {
                let between = if i == 0 { "" } else { ", " };
                tie = tie
                    .words(format!(
                        "{between}{}, ",
                        levels_words(&self.level(other.cell))
                    ))
                    .change(self.source, &other.at(self.metric));
            }
            let more = match near.len().saturating_sub(NAMED) {
                0 => String::new(),
                n => format!(" and of {n} more"),
            };
            all.push(tie.words(format!("{more}: which of them is better was not shown.")));
        }
        all
    }

    fn none_better(&self, here: &[Compared], opening: &str, baseline: &str) -> Vec<Sentence> {
        let Some(first) = here.first() else {
            return Vec::new();
        };
        let all_worse = here.iter().all(Compared::worse);
        let (said, start) = if all_worse {
            let others = match here.len() {
                1 => "the other level is".to_owned(),
                n => format!("each of the {n} other levels is"),
            };
            (
                Said::Best,
                format!(
                    "{opening}the baseline {baseline} is {}: {others} shown to be worse, ",
                    self.metric.best_word()
                ),
            )
        } else {
            (
                Said::NoDifference,
                format!(
                    "{opening}no level is shown to be better than the baseline {baseline} in its {}: ",
                    self.metric.words()
                ),
            )
        };
        let mut sentence = self.sentence(said, first.index).words(start);
        for (i, other) in here.iter().take(NAMED).enumerate() {
            let between = if i == 0 { "" } else { ", " };
            sentence = sentence
                .words(format!(
                    "{between}{} ",
                    levels_words(&self.level(other.cell))
                ))
                .change(self.source, &other.at(self.metric));
        }
        let more = match here.len().saturating_sub(NAMED) {
            0 => String::new(),
            n => format!(" and {n} more"),
        };
        vec![sentence.words(format!("{more}."))]
    }

    /// What becomes of the tail where the rate is best.
    fn with_p99(&self, sentence: Sentence, best: &Compared) -> Sentence {
        let ratio = best.cell.p99_ratio.filter(|_| self.metric == Metric::Rate);
        let Some((low, high)) = ratio.and_then(|r| r.interval()) else {
            return sentence;
        };
        let at = format!("/comparisons/{}/p99_ratio", best.index);
        let start = if high < 1.0 {
            " Its p99 falls: "
        } else if low > 1.0 {
            " Its p99 rises: "
        } else {
            " No change of its p99 is shown: "
        };
        sentence.words(start).change(self.source, &at).words(".")
    }

    /// One sentence for each level: in how many settings it is better, worse, or not shown to be either.
    fn each_level(&self, compared: &[Compared]) -> Vec<Sentence> {
        let mut levels: Vec<Levels> = Vec::new();
        for cell in compared {
            let level = self.level(cell.cell);
            if !levels.contains(&level) {
                levels.push(level);
            }
        }
        let of_level = |level: &Levels| {
            let of: Vec<&Compared> = compared
                .iter()
                .filter(|c| self.level(c.cell) == *level)
                .collect();
            let gain = |a: &&&Compared, b: &&&Compared| a.gain.total_cmp(&b.gain);
            let (least, most) = (of.iter().min_by(gain)?, of.iter().max_by(gain)?);
            let better = of.iter().filter(|c| c.better()).count();
            let worse = of.iter().filter(|c| c.worse()).count();
            let start = format!(
                "{}{} against {}, by its {} in {}: better in {better}, worse in {worse}, no difference shown in {}; from ",
                self.opening(),
                levels_words(level),
                levels_words(&self.baseline),
                self.metric.words(),
                plural(of.len() as u64, "setting"),
                of.len() - better - worse,
            );
            let sentence = self
                .sentence(Said::Difference, least.index)
                .words(start)
                .change(self.source, &least.at(self.metric))
                .words(format!(" at {}", levels_words(&self.setting(least.cell))));
            Some(match least.index == most.index {
                true => sentence.words("."),
                false => sentence
                    .words(" to ")
                    .change(self.source, &most.at(self.metric))
                    .words(format!(" at {}.", levels_words(&self.setting(most.cell)))),
            })
        };
        levels.iter().filter_map(of_level).collect()
    }

    /// The highest rate of a closed loop that has nothing to be compared with. Its interval is the range of the
    /// trials, which three span and two do not.
    pub fn highest(&self) -> Option<Sentence> {
        let compares = |c: &Cell| c.rate_ratio.is_some() || c.no_ratio.is_some();
        if self.metric != Metric::Rate || self.cells.iter().any(|(_, c)| compares(c)) {
            return None;
        }
        let (index, cell) = self.fastest()?;
        let at = |field: &str| format!("/comparisons/{index}/achieved_per_s/{field}");
        let number = |s: Sentence, field| s.number(self.source, &at(field), Unit::PerSecond);
        if cell.valid.len() < FEWEST_TRIALS {
            let said = self
                .sentence(Said::CannotSay, index)
                .words(format!("{}the highest rate, ", self.opening()));
            return Some(number(said, "median").words(format!(
                "/s{}, comes from {}: how far a repeat would be from it cannot be said. Repeat three times at least.",
                at_levels(&cell.levels),
                plural(cell.valid.len() as u64, "valid trial"),
            )));
        }
        let said = self
            .sentence(Said::Highest, index)
            .words(format!("{}the highest rate is ", self.opening()));
        let said = number(said, "median").words(format!(
            "/s{}; its {} lie between ",
            at_levels(&cell.levels),
            plural(cell.valid.len() as u64, "valid trial"),
        ));
        let said = number(said, "min").words(" and ");
        Some(number(said, "max").words("/s."))
    }
}

/// Fewest valid trials whose range is worth as much as the interval of [`Ratio::interval`].
const FEWEST_TRIALS: usize = 3;

fn at_levels(levels: &Levels) -> String {
    match levels.is_empty() {
        true => String::new(),
        false => format!(" at {}", levels_words(levels)),
    }
}
