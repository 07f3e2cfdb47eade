//! Flame graphs as SVG that reads without scripts; `assets/flame.js` adds zoom, search and the line of details.
//!
//! Each frame is a nested `<svg>` placed in per cent: it cuts its own label, keeps its letters readable at every width,
//! and takes its colours from the page's theme. In a difference the width is the mean of both shares, so that
//! what vanished is still seen; the colour says which way it went.

use analysis::words;
use record::{Nanos, Profile, ProfileKind};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// A frame below this share is cut, and the caption says how much that is.
const LEAST_SHARE: f64 = 0.001;
/// Height of a frame, CSS pixels.
const ROW: usize = 17;
/// Narrower frames carry no label, as a share of the whole.
const LEAST_LABELLED: f64 = 0.01;
/// A change of a share below this is drawn as none: a thousandth is noise in any profile.
const LEAST_CHANGE: f64 = 0.002;

/// A drawn graph.
#[derive(Debug)]
pub struct Graph {
    /// The `<svg>` element.
    pub svg: String,
    /// Share of all samples that fell on frames too small to draw, 0 to 1.
    pub cut: f64,
}

/// Kinds of code, which have colours.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum Kind {
    /// The whole, or a target.
    #[default]
    Group,
    Kernel,
    Library,
    /// The server's own program, or code that it made.
    Program,
}

impl Kind {
    fn class(self) -> &'static str {
        match self {
            Kind::Group => "g",
            Kind::Kernel => "k",
            Kind::Library => "l",
            Kind::Program => "p",
        }
    }
}

#[derive(Debug, Default)]
struct Node {
    kind: Kind,
    /// Shares of the first and of the second profile; only the first of a single one.
    shares: [f64; 2],
    /// By symbol and module: equal frames under one parent are one.
    children: BTreeMap<(String, String), Node>,
}

struct Tree {
    root: Node,
    sides: usize,
    kind: ProfileKind,
    totals: [u64; 2],
}

impl Tree {
    /// `None` when a profile is empty: there is nothing to take a share of.
    fn new(profiles: &[&Profile]) -> Option<Self> {
        let mut tree = Tree {
            root: Node::default(),
            sides: profiles.len(),
            kind: profiles.first()?.kind,
            totals: [0; 2],
        };
        for (side, profile) in profiles.iter().enumerate().take(2) {
            let total: u64 = profile.stacks.iter().map(|s| s.weight).sum();
            if total == 0 {
                return None;
            }
            tree.totals[side] = total;
            for stack in &profile.stacks {
                let share = stack.weight as f64 / total as f64;
                tree.root.shares[side] += share;
                let key = (stack.target.clone(), String::new());
                let mut node = tree.root.children.entry(key).or_default();
                node.shares[side] += share;
                for frame in &stack.frames {
                    // An index beyond the list is a damaged record; the stack ends there.
                    let Some(frame) = profile.frames.get(*frame as usize) else {
                        break;
                    };
                    let key = (frame.symbol.clone(), frame.module.clone());
                    node = node.children.entry(key).or_default();
                    node.shares[side] += share;
                    node.kind = if frame.kernel {
                        Kind::Kernel
                    } else if is_library(&frame.module) {
                        Kind::Library
                    } else {
                        Kind::Program
                    };
                }
            }
        }
        Some(tree)
    }

    fn width(&self, node: &Node) -> f64 {
        node.shares.iter().sum::<f64>() / self.sides as f64
    }

    /// Nodes that are at least `least` wide, and how much the others hide.
    fn count(&self, node: &Node, least: f64) -> (usize, usize, f64) {
        let mut all = (1, 1, 0.0);
        for child in node.children.values() {
            let width = self.width(child);
            if width < least {
                all.2 += width;
                continue;
            }
            let (frames, depth, cut) = self.count(child, least);
            all = (all.0 + frames, all.1.max(depth + 1), all.2 + cut);
        }
        all
    }
}

/// `libc.so.6`, `libnio.so`: by the name that every dynamic linker expects.
fn is_library(module: &str) -> bool {
    module.ends_with(".so") || module.contains(".so.")
}

/// A graph of one profile, or of the difference of two, with at most `frames` frames: where there are more, the
/// smallest are cut. `None` for an empty profile.
pub fn graph(profiles: &[&Profile], frames: usize) -> Option<Graph> {
    let tree = Tree::new(profiles)?;
    let mut least = LEAST_SHARE;
    let (mut drawn, mut depth, mut cut) = tree.count(&tree.root, least);
    while drawn > frames && least < 1.0 {
        least *= 1.5;
        (drawn, depth, cut) = tree.count(&tree.root, least);
    }
    let mut svg = format!(
        "<svg class=\"flame{}\" width=\"100%\" height=\"{}\" role=\"img\">",
        if tree.sides == 2 { " difference" } else { "" },
        depth * ROW
    );
    let root = ("all".to_owned(), String::new());
    draw(
        &mut svg,
        &tree,
        (&root, &tree.root),
        (0.0, depth - 1),
        least,
    );
    svg += "</svg>";
    Some(Graph { svg, cut })
}

fn draw(
    svg: &mut String,
    tree: &Tree,
    ((symbol, module), node): (&(String, String), &Node),
    (x, row): (f64, usize),
    least: f64,
) {
    let width = tree.width(node);
    let class = match tree.sides {
        2 => change_class(node.shares[1] - node.shares[0]),
        _ => node.kind.class(),
    };
    let place = match module.as_str() {
        "" => String::new(),
        module => format!(" ({module})"),
    };
    let label = escaped(symbol);
    write!(
        svg,
        "<svg class=\"{class}\" x=\"{:.3}%\" y=\"{}\" width=\"{:.3}%\" height=\"{ROW}\"><title>{label}{}: {}</title><rect/>",
        100.0 * x,
        row * ROW,
        100.0 * width,
        escaped(&place),
        amount(tree, node),
    )
    .expect("writing to a string does not fail");
    // No letter fits into less; the script gives it its label when it is zoomed.
    if width >= LEAST_LABELLED {
        write!(svg, "<text x=\"3\" y=\"12\">{label}</text>")
            .expect("writing to a string does not fail");
    }
    *svg += "</svg>";
    let mut at = x;
    for (key, child) in &node.children {
        let width = tree.width(child);
        if width >= least {
            draw(svg, tree, (key, child), (at, row.saturating_sub(1)), least);
            at += width;
        }
    }
}

/// `12 % of the samples, 45`, or both shares of a difference.
fn amount(tree: &Tree, node: &Node) -> String {
    let [before, after] = node.shares;
    if tree.sides == 2 {
        return format!(
            "{} before, {} after",
            words::percent(before),
            words::percent(after)
        );
    }
    let weight = (before * tree.totals[0] as f64).round() as u64;
    match tree.kind {
        ProfileKind::OnCpu | ProfileKind::Tasks => {
            let samples = words::plural(weight, "sample");
            format!("{}, {samples}", words::percent(before))
        }
        ProfileKind::OffCpu => format!("{}, {} off the CPU", words::percent(before), Nanos(weight)),
    }
}

/// Three steps each way, by thousandths, hundredths and tenths of all samples.
fn change_class(change: f64) -> &'static str {
    let step = match change.abs() {
        c if c < LEAST_CHANGE => return "same",
        c if c < 0.02 => 0,
        c if c < 0.1 => 1,
        _ => 2,
    };
    match change > 0.0 {
        true => ["more1", "more2", "more3"][step],
        false => ["less1", "less2", "less3"][step],
    }
}

/// Text for an element's content.
pub fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::{Frame, Stack};

    fn profile(stacks: &[(&[u32], u64)]) -> Profile {
        let frame = |symbol: &str, module: &str| Frame {
            symbol: symbol.into(),
            module: module.into(),
            kernel: module == "kernel",
        };
        Profile {
            kind: ProfileKind::OnCpu,
            hz: 99,
            samples: 0,
            lost: 0,
            unwound: 0,
            frames: vec![
                frame("main", "nginx"),
                frame("operator<", "libx.so.1"),
                frame("tcp_sendmsg", "kernel"),
            ],
            stacks: stacks
                .iter()
                .map(|(frames, weight)| Stack {
                    target: "server".into(),
                    pid: 1,
                    thread: "nginx".into(),
                    frames: frames.to_vec(),
                    weight: *weight,
                    state: None,
                })
                .collect(),
        }
    }

    #[test]
    fn widths_are_shares_and_colours_are_kinds() {
        let graph = graph(&[&profile(&[(&[0, 1], 75), (&[0, 2], 25)])], 100).unwrap();
        assert!(
            graph
                .svg
                .contains("operator&lt; (libx.so.1): 75 %, 75 samples")
        );
        for class in ["g", "p", "l", "k"] {
            assert!(
                graph.svg.contains(&format!("<svg class=\"{class}\" x=")),
                "{class}"
            );
        }
        assert!(
            graph
                .svg
                .contains("class=\"k\" x=\"75.000%\" y=\"0\" width=\"25.000%\"")
        );
        assert_eq!(graph.cut, 0.0);
    }

    #[test]
    fn what_is_cut_is_told() {
        let found = graph(&[&profile(&[(&[0, 1], 99_950), (&[0, 2], 50)])], 100).unwrap();
        assert!(!found.svg.contains("tcp_sendmsg"));
        assert!((found.cut - 0.000_5).abs() < 1e-9, "{}", found.cut);
        // Frames beyond the number allowed go too.
        let few = graph(&[&profile(&[(&[0, 1], 75), (&[0, 2], 25)])], 4).unwrap();
        assert!(!few.svg.contains("tcp_sendmsg") && few.cut == 0.25);
    }

    #[test]
    fn a_difference_keeps_what_vanished() {
        let (before, after) = (
            profile(&[(&[0, 1], 50), (&[0, 2], 50)]),
            profile(&[(&[0, 1], 9)]),
        );
        let svg = graph(&[&before, &after], 100).unwrap().svg;
        assert!(svg.contains("tcp_sendmsg (kernel): 50 % before, 0 % after"));
        assert!(svg.contains("class=\"less3\"") && svg.contains("class=\"more3\""));
    }

    #[test]
    fn an_empty_profile_has_no_graph() {
        assert!(graph(&[&profile(&[])], 100).is_none());
        assert!(graph(&[], 100).is_none());
    }
}
