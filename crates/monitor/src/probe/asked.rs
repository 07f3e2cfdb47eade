//! What upstreams are asked: some questions with their answers, by their shape.
//!
//! In the flow: the kernel's side hands out the first bytes of a question when the first data of its answer has been
//! read; here they are put into words without their values, counted, and kept with the peer that was asked.
//!
//! The surprise: a question stands for as many as were passed over, so that what is summed is an estimate of all.

mod shape;
mod wire;

use super::collect;
use super::layout::{ANSWER_BEGINS, ANSWER_ENDS, HEAD, Peer};
use aya::maps::{MapData, RingBuf};
use record::Question;
use std::collections::{BTreeMap, BTreeSet};
use std::mem::size_of;

/// Questions that are kept of a peer; the others become one without words.
const KEPT: usize = 16;
/// Shapes of one kind beyond which they differ by a value that is none by its looks: only what goes before it is kept.
const ALIKE: usize = 24;

/// By target and address of the peer.
pub(crate) type Asked = BTreeMap<(u32, String), Vec<Question>>;

/// A question and the first read of its answer, as the kernel's side hands them out.
struct Seen<'a> {
    peer: Peer,
    stands_for: u64,
    wait_ns: u64,
    question: &'a [u8],
    answer: wire::Answer<'a>,
}

/// Reads every question in the ring.
pub(crate) fn drain(mut ring: RingBuf<MapData>) -> Asked {
    let mut asked = Asked::new();
    while let Some(item) = ring.next() {
        if let Some(seen) = decode(&item) {
            let key = (seen.peer.target, collect::address(&seen.peer));
            add(asked.entry(key).or_default(), count(&seen));
        }
    }
    asked.values_mut().for_each(fewer);
    asked
}

/// `struct question`.
fn decode(item: &[u8]) -> Option<Seen<'_>> {
    let (peer, rest) = item.split_at_checked(size_of::<Peer>())?;
    let (stands_for, rest) = rest.split_first_chunk()?;
    let (wait_ns, rest) = rest.split_first_chunk()?;
    let (bytes, rest) = rest.split_first_chunk()?;
    let (length, rest) = rest.split_first_chunk()?;
    let (begins, rest) = rest.split_at_checked(ANSWER_BEGINS)?;
    let (ends, question) = rest.split_at_checked(ANSWER_ENDS)?;
    let length = (u32::from_ne_bytes(*length) as usize).min(HEAD);
    let bytes = u32::from_ne_bytes(*bytes) as usize;
    Some(Seen {
        peer: peer_of(peer)?,
        stands_for: u64::from(u32::from_ne_bytes(*stands_for)),
        wait_ns: u64::from_ne_bytes(*wait_ns),
        question: question.get(..length)?,
        answer: wire::Answer {
            begins: &begins[..bytes.min(ANSWER_BEGINS)],
            ends: if bytes < ANSWER_ENDS { &[] } else { ends },
        },
    })
}

/// `struct peer`.
fn peer_of(bytes: &[u8]) -> Option<Peer> {
    let (target, rest) = bytes.split_first_chunk()?;
    let (family, rest) = rest.split_first_chunk()?;
    let (port, address) = rest.split_first_chunk()?;
    Some(Peer {
        target: u32::from_ne_bytes(*target),
        family: u16::from_ne_bytes(*family),
        port: u16::from_ne_bytes(*port),
        address: address.try_into().ok()?,
    })
}

fn count(seen: &Seen<'_>) -> Question {
    let read = wire::read(seen.question);
    let (protocol, text) = read.unwrap_or_default();
    let told = seen.answer.tells(protocol);
    Question {
        protocol: protocol.to_owned(),
        text,
        seen: 1,
        turns: seen.stands_for,
        wait_ns: seen.wait_ns * seen.stands_for,
        told: u64::from(told.is_some()) * seen.stands_for,
        empty: u64::from(told == Some(0)) * seen.stands_for,
        rows: told.unwrap_or(0) * seen.stands_for,
    }
}

fn add(questions: &mut Vec<Question>, one: Question) {
    let same = |q: &&mut Question| q.protocol == one.protocol && q.text == one.text;
    match questions.iter_mut().find(same) {
        Some(known) => merge(known, &one),
        None => questions.push(one),
    }
}

fn merge(into: &mut Question, other: &Question) {
    into.seen += other.seen;
    into.turns += other.turns;
    into.wait_ns += other.wait_ns;
    into.told += other.told;
    into.empty += other.empty;
    into.rows += other.rows;
}

/// The questions that are waited for longest. Of many of a kind, which differ in a word that is a value, one remains.
fn fewer(questions: &mut Vec<Question>) {
    // A digest may happen to have no digit.
    let texts: BTreeSet<String> = questions.iter().map(|q| q.text.clone()).collect();
    for question in questions.iter_mut() {
        let of_digest = shape::as_digest(&question.text);
        if let Some(value) = of_digest.filter(|value| texts.contains(value)) {
            question.text = value;
        }
    }
    let mut kinds: BTreeMap<String, usize> = BTreeMap::new();
    for question in questions.iter() {
        *kinds.entry(shape::wider(&question.text)).or_default() += 1;
    }
    let mut kept: Vec<Question> = Vec::new();
    for mut question in questions.drain(..) {
        let wider = shape::wider(&question.text);
        if kinds.get(&wider).is_some_and(|&n| n > ALIKE) {
            question.text = wider;
        }
        add(&mut kept, question);
    }
    kept.sort_by(|a, b| (b.wait_ns, &a.text).cmp(&(a.wait_ns, &b.text)));
    let others = kept.split_off(kept.len().min(KEPT));
    for question in others {
        let nameless = Question {
            protocol: String::new(),
            text: String::new(),
            ..question
        };
        add(&mut kept, nameless);
    }
    *questions = kept;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A question as the kernel's side writes it.
    fn item(question: &[u8], answer: &[u8], stands_for: u32, wait_ns: u64) -> Vec<u8> {
        let mut item = Vec::new();
        item.extend(3_u32.to_ne_bytes());
        item.extend((libc::AF_INET as u16).to_ne_bytes());
        item.extend(5432_u16.to_ne_bytes());
        item.extend([127, 0, 0, 1]);
        item.resize(size_of::<Peer>(), 0);
        item.extend(stands_for.to_ne_bytes());
        item.extend(wait_ns.to_ne_bytes());
        item.extend((answer.len() as u32).to_ne_bytes());
        item.extend((question.len() as u32).to_ne_bytes());
        let mut begins = answer.to_vec();
        begins.resize(ANSWER_BEGINS.max(answer.len()), b'*');
        item.extend(&begins[..ANSWER_BEGINS]);
        let ends = &answer[answer.len().saturating_sub(ANSWER_ENDS)..];
        item.resize(item.len() + ANSWER_ENDS - ends.len(), 0);
        item.extend(ends);
        let end = item.len() + HEAD;
        item.extend(question);
        item.resize(end, 0);
        item
    }

    fn counted(items: &[Vec<u8>]) -> Vec<Question> {
        let mut questions = Vec::new();
        for item in items {
            let seen = decode(item).expect("it is whole");
            assert_eq!(collect::address(&seen.peer), "127.0.0.1:5432");
            assert_eq!(seen.peer.target, 3);
            add(&mut questions, count(&seen));
        }
        fewer(&mut questions);
        questions
    }

    #[test]
    fn questions_are_counted_by_their_shape_and_stand_for_those_passed_over() {
        let questions = counted(&[
            item(b"get user:17\r\n", b"END\r\n", 1, 1000),
            item(
                b"get user:18\r\n",
                b"VALUE user:18 0 2\r\nhi\r\nEND\r\n",
                16,
                2000,
            ),
            item(b"\x17\x03\x03\x00\x20 what is this", b"?", 1, 500),
        ]);
        let cache = &questions[0];
        assert_eq!(
            (cache.protocol.as_str(), cache.text.as_str()),
            ("memcached", "get user:?")
        );
        assert_eq!((cache.seen, cache.turns, cache.wait_ns), (2, 17, 33_000));
        assert_eq!((cache.told, cache.empty), (17, 1));
        assert_eq!(questions[1].text, "");
        assert_eq!((questions[1].turns, questions[1].told), (1, 0));
    }

    #[test]
    fn of_many_that_differ_in_a_word_one_remains_and_of_many_kinds_those_waited_for() {
        let names: Vec<_> = (0..30_u8)
            .map(|i| {
                let word = [b'a' + i % 26, b'a' + i / 26];
                let text = format!(
                    "get product:{}\r\n",
                    str::from_utf8(&word).expect("letters")
                );
                item(text.as_bytes(), b"END\r\n", 1, 10)
            })
            .collect();
        let questions = counted(&names);
        assert_eq!(questions.len(), 1);
        assert_eq!(
            (questions[0].text.as_str(), questions[0].turns),
            ("get product:*", 30)
        );

        let digests = ["get p:b3c9", "get p:bee", "get p:name"]
            .map(|text| item(format!("{text}\r\n").as_bytes(), b"END\r\n", 1, 10));
        let questions = counted(&digests);
        let told: Vec<_> = questions
            .iter()
            .map(|q| (q.text.as_str(), q.turns))
            .collect();
        assert_eq!(told, [("get p:?", 2), ("get p:name", 1)]);

        let kinds: Vec<_> = (0..20_u8)
            .map(|i| {
                let text = format!("get {}:x\r\n", char::from(b'a' + i));
                item(text.as_bytes(), b"END\r\n", 1, u64::from(i))
            })
            .collect();
        let questions = counted(&kinds);
        assert_eq!(questions.len(), KEPT + 1);
        assert_eq!(questions[0].text, "get t:x");
        let rest = questions.last().expect("the rest is counted too");
        assert_eq!((rest.text.as_str(), rest.turns, rest.wait_ns), ("", 4, 6));
    }
}
