//! Programs that a request's own thread has started for it: CGI programs, filters, converters of images.
//!
//! In the flow: between the pieces and the walk. What such a process does until its turn ends is done for that turn,
//! and the walk looks there while the turn's thread waits for it. The surprise: whoever waits does so in a poll, a pipe
//! or for the end of a child, none of which says for whom; that it forked within the turn does.

use super::pieces::{Piece, overlapping};
use super::sockets::{Sockets, Turn};
use super::threads::{State, WaitKind};
use super::wire::{Event, Kind};
use std::collections::{BTreeMap, HashMap, HashSet};

/// Processes that read requests and came to be while they were traced.
#[derive(Debug, Default)]
pub(super) struct Born {
    /// When the process of a thread began.
    at: HashMap<u32, u64>,
    /// Of each target whose processes grew in number, when the last of them began.
    grown: HashMap<usize, u64>,
}

impl Born {
    pub(super) fn find(events: &[Event], sockets: &Sockets, tgid: &HashMap<u32, u32>) -> Self {
        let mut began = HashMap::new();
        let mut ended = HashSet::new();
        for event in events.iter().filter(|event| event.tid == event.tgid) {
            match event.kind() {
                Some(Kind::Forked) => _ = began.insert(event.tgid, event.at_ns),
                Some(Kind::Ended) => _ = ended.insert(event.tgid),
                _ => {}
            }
        }
        let mut born = Self::default();
        let mut readers: BTreeMap<usize, HashSet<u32>> = BTreeMap::new();
        for turn in &sockets.turns {
            let process = tgid.get(&turn.reader).copied().unwrap_or(turn.reader);
            readers.entry(turn.target).or_default().insert(process);
            let began = began.get(&process).map(|&at| (turn.reader, at));
            born.at.extend(began);
        }
        for (target, processes) in readers {
            let gone = processes.intersection(&ended).count();
            let new: Vec<u64> = processes
                .iter()
                .filter_map(|p| began.get(p))
                .copied()
                .collect();
            let last = new.iter().copied().max().filter(|_| new.len() > gone);
            born.grown.extend(last.map(|last| (target, last)));
        }
        born
    }

    /// Whether a connection that waited to be accepted from one time to another waited for a process: the one that
    /// took it, or another that was about to.
    pub(super) fn was_awaited(&self, turn: &Turn, from: u64, to: u64) -> bool {
        let own = self.at.get(&turn.reader).is_some_and(|&at| at > from);
        own || self.grown.get(&turn.target).is_some_and(|&last| to <= last)
    }
}

/// Threads of processes that were started for turns.
#[derive(Debug, Default)]
pub(super) struct Started {
    /// The turn of each.
    turns: HashMap<u32, u32>,
    /// Those of each turn, the first first.
    tids: HashMap<u32, Vec<u32>>,
}

impl Started {
    /// Gives the time of each such thread to its turn. Whoever reads requests of its own serves, however it came to be.
    pub(super) fn find(
        events: &[Event],
        sockets: &Sockets,
        pieces: &mut BTreeMap<u32, Vec<Piece>>,
    ) -> Self {
        let mut started = Self::default();
        let readers: HashSet<u32> = sockets.turns.iter().map(|turn| turn.reader).collect();
        for event in events.iter().filter(|e| e.kind() == Some(Kind::Forked)) {
            let parent = started.turns.get(&event.other_tid).copied();
            let is_process = event.tgid != event.other_tgid;
            let turn = parent.or_else(|| {
                let own = pieces.get(&event.other_tid).filter(|_| is_process)?;
                let piece = overlapping(own, event.at_ns, event.at_ns + 1).first()?;
                let turn = sockets.turns.get(piece.owner as usize)?;
                let open = (turn.arrived..turn.end).contains(&event.at_ns);
                (open && !piece.after).then_some(piece.owner)
            });
            let Some(turn) = turn.filter(|_| !readers.contains(&event.tid)) else {
                continue;
            };
            started.turns.insert(event.tid, turn);
            started.tids.entry(turn).or_default().push(event.tid);
            for piece in pieces.get_mut(&event.tid).into_iter().flatten() {
                piece.owner = turn;
                piece.idle = false;
                piece.after = false;
            }
        }
        started
    }

    /// The turn that a thread was started for.
    pub(super) fn turn_of(&self, tid: u32) -> Option<u32> {
        self.turns.get(&tid).copied()
    }

    /// What the programs of a turn were at from one time to another, as from, to and the thread that the turn was with;
    /// `None` where all of them waited for each other or for whoever has started them, or none was there.
    pub(super) fn at<'a>(
        &self,
        turn: u32,
        pieces: &'a BTreeMap<u32, Vec<Piece>>,
        (from, to): (u64, u64),
        part: &mut dyn FnMut(u64, u64, Option<(u32, &'a Piece)>),
    ) {
        let Some(tids) = self.tids.get(&turn) else {
            return part(from, to, None);
        };
        let of = |tid: &u32| pieces.get(tid).map_or(&[][..], Vec::as_slice);
        let all: Vec<(u32, &[Piece])> = tids
            .iter()
            .map(|tid| (*tid, overlapping(of(tid), from, to)))
            .filter(|(_, some)| !some.is_empty())
            .collect();
        let mut cuts: Vec<u64> = (all.iter().flat_map(|(_, some)| *some))
            .flat_map(|piece| [piece.from, piece.to])
            .filter(|at| (from..to).contains(at))
            .chain([from, to])
            .collect();
        cuts.sort_unstable();
        cuts.dedup();
        for pair in cuts.windows(2) {
            let here = all.iter().filter_map(|(tid, some)| {
                let piece = overlapping(some, pair[0], pair[1]).first()?;
                Some((*tid, piece))
            });
            let with = here
                .filter(|(_, piece)| rank(piece) > 0)
                .max_by_key(|(_, piece)| rank(piece));
            part(pair[0], pair[1], with);
        }
    }
}

/// Whom of several a turn is with: whoever works, else whoever would, else whoever waits for something outside.
fn rank(piece: &Piece) -> u8 {
    match piece.state {
        State::Running => 3,
        State::Ready { .. } => 2,
        State::Waiting(wait) => match wait.kind {
            WaitKind::Poll
            | WaitKind::Pipe
            | WaitKind::PipeWrite
            | WaitKind::Child
            | WaitKind::Unix
            | WaitKind::Other => 0,
            _ => 1,
        },
    }
}
