//! A stream of bytes over messages of a broker that promises nothing: each has a number, so that one that is lost or
//! comes twice ends the stream, and no more is under way than a window.
//!
//! The window is the broker's: it cuts off whoever has more waiting for it than it likes to keep (64 MiB), and a
//! conductor of five hundred agents is told what became of all loads at one moment.

use crate::SILENCE;
use std::io;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Bytes under way that the other end has not taken: with five hundred agents, half of what a broker keeps.
const WINDOW: u64 = 64 << 10;
/// The other end is told of so many bytes that were taken.
const TELL: u64 = WINDOW / 4;
/// Bytes of a message at most.
pub(super) const PART: usize = 16 << 10;
/// Its kind, its number, and how many bytes were taken here.
pub(super) const HEAD: usize = 1 + 8 + 8;
/// Kinds of messages; [`super::NOTE`] is another.
const BYTES: u8 = 2;
const END: u8 = 3;

/// What hands a message to the broker. Does not wait.
pub(super) type Publish = Box<dyn Fn(Vec<u8>) + Send + Sync>;

/// One end.
pub(super) struct Stream {
    publish: Publish,
    part: usize,
    state: Mutex<State>,
    room: Condvar,
}

#[derive(Default)]
struct State {
    /// Messages sent.
    sent: u64,
    sent_bytes: u64,
    /// Of those, taken at the other end.
    taken_there: u64,
    /// Messages received.
    received: u64,
    received_bytes: u64,
    /// Of those, taken here, and as the other end was last told.
    taken: u64,
    told: u64,
    /// Why nothing more is sent.
    over: Option<String>,
}

/// What a message brought.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// Bytes to be handed on, maybe none.
    Bytes(Vec<u8>),
    /// Nothing follows; why, unless it ended in order.
    End(String),
}

impl Stream {
    /// Over `publish`, in messages of at most `payload` bytes.
    pub fn new(publish: Publish, payload: usize) -> Self {
        Self {
            publish,
            part: PART.min(payload.saturating_sub(HEAD)).max(1),
            state: Mutex::default(),
            room: Condvar::new(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends `bytes`, and waits while the window is full.
    ///
    /// # Errors
    /// When the stream is over, or when the other end takes nothing for [`SILENCE`].
    pub fn send(&self, bytes: &[u8]) -> io::Result<()> {
        for part in bytes.chunks(self.part) {
            let mut state = self.wait_for_room(part.len() as u64)?;
            state.sent_bytes += part.len() as u64;
            self.message(&mut state, BYTES, part);
        }
        Ok(())
    }

    fn wait_for_room(&self, bytes: u64) -> io::Result<MutexGuard<'_, State>> {
        let mut state = self.state();
        let (mut since, mut taken) = (Instant::now(), state.taken_there);
        loop {
            if let Some(why) = &state.over {
                return Err(io::Error::new(io::ErrorKind::BrokenPipe, why.clone()));
            }
            if state.sent_bytes + bytes <= state.taken_there + WINDOW {
                return Ok(state);
            }
            if taken != state.taken_there {
                (since, taken) = (Instant::now(), state.taken_there);
            }
            let Some(left) = SILENCE.checked_sub(since.elapsed()) else {
                let words = format!("nothing was taken for {} s", SILENCE.as_secs());
                return Err(io::Error::new(io::ErrorKind::TimedOut, words));
            };
            let woken = self.room.wait_timeout(state, left);
            state = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Under the lock, so that messages leave in the order of their numbers.
    fn message(&self, state: &mut State, kind: u8, body: &[u8]) {
        state.sent += 1;
        state.told = state.taken;
        let mut message = Vec::with_capacity(HEAD + body.len());
        message.push(kind);
        message.extend(state.sent.to_be_bytes());
        message.extend(state.taken.to_be_bytes());
        message.extend(body);
        (self.publish)(message);
    }

    /// What a message of the other end brings.
    ///
    /// # Errors
    /// Words when one is missing before it, or when it is none of the other end's.
    pub fn hear(&self, message: &[u8]) -> Result<Part, String> {
        let foreign = || "what came is no message of an agent or a conductor".to_owned();
        let (head, body) = message.split_at_checked(HEAD).ok_or_else(foreign)?;
        let number = |at: usize| {
            let bytes = head[at..at + 8].try_into();
            u64::from_be_bytes(bytes.expect("eight bytes were taken"))
        };
        let (number, taken_there) = (number(1), number(9));
        let mut state = self.state();
        let expected = state.received + 1;
        if number != expected {
            return Err(match number.checked_sub(expected) {
                Some(lost) => format!("the broker lost {lost} messages"),
                None => format!("message {number} came twice"),
            });
        }
        state.received = number;
        if taken_there < state.taken_there || taken_there > state.sent_bytes {
            return Err(foreign());
        }
        state.taken_there = taken_there;
        self.room.notify_all();
        match head[0] {
            BYTES => {
                state.received_bytes += body.len() as u64;
                if state.received_bytes > state.taken + WINDOW {
                    return Err("more came than may be under way".to_owned());
                }
                Ok(Part::Bytes(body.to_owned()))
            }
            END => Ok(Part::End(String::from_utf8_lossy(body).into_owned())),
            _ => Err(foreign()),
        }
    }

    /// So many of the bytes that came were handed on.
    pub fn took(&self, bytes: usize) {
        let mut state = self.state();
        state.taken += bytes as u64;
        if state.over.is_none() && state.taken >= state.told + TELL {
            self.message(&mut state, BYTES, &[]);
        }
    }

    /// Tells the other end that nothing follows, and why.
    pub fn end(&self, why: &str) {
        let mut state = self.state();
        if state.over.is_none() {
            let why = &why[..why.floor_char_boundary(self.part.min(WHY_MAX))];
            self.message(&mut state, END, why.as_bytes());
            state.over = Some("it was ended here".to_owned());
            self.room.notify_all();
        }
    }

    /// Nothing can be sent any more.
    pub fn close(&self, why: &str) {
        self.state().over.get_or_insert_with(|| why.to_owned());
        self.room.notify_all();
    }
}

/// Longest reason of an end.
const WHY_MAX: usize = 1_024;

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::mpsc;

    /// One end, and what it publishes.
    fn end(payload: usize) -> (Arc<Stream>, mpsc::Receiver<Vec<u8>>) {
        let (sender, messages) = mpsc::channel();
        let publish = move |message| sender.send(message).unwrap();
        (Arc::new(Stream::new(Box::new(publish), payload)), messages)
    }

    #[test]
    fn bytes_are_cut_to_what_a_broker_carries_and_come_whole() {
        let ((here, sent), (there, _)) = (end(HEAD + 3), end(1_000));
        here.send(b"0123456789").unwrap();
        here.end("why");
        let parts: Vec<_> = sent.try_iter().collect();
        assert!(parts.iter().all(|part| part.len() <= HEAD + 3));
        let heard = parts.iter().map(|part| there.hear(part).unwrap());
        let bytes = |text: &str| Part::Bytes(text.as_bytes().to_owned());
        let expected = ["012", "345", "678", "9"].map(bytes);
        let heard: Vec<_> = heard.collect();
        assert_eq!(heard[..4], expected);
        assert_eq!(heard[4], Part::End("why".to_owned()));
        assert_eq!(
            here.send(b"more").unwrap_err().to_string(),
            "it was ended here"
        );
    }

    #[test]
    fn a_message_that_is_lost_or_comes_twice_is_known() {
        let ((here, sent), (there, _)) = (end(HEAD + 1), end(100));
        here.send(b"0123").unwrap();
        let parts: Vec<_> = sent.try_iter().collect();
        there.hear(&parts[0]).unwrap();
        assert_eq!(there.hear(&parts[0]).unwrap_err(), "message 1 came twice");
        assert_eq!(
            there.hear(&parts[3]).unwrap_err(),
            "the broker lost 2 messages"
        );
    }

    #[test]
    fn what_is_none_of_ours_is_refused() {
        let (here, _) = end(100);
        let mut foreign = vec![0; HEAD];
        assert!(here.hear(&[]).is_err() && here.hear(&foreign).is_err());
        foreign[8] = 1;
        // The first message, of no kind.
        assert!(here.hear(&foreign).unwrap_err().contains("no message"));
        // What was taken there cannot be more than was sent.
        let (here, _) = end(100);
        (foreign[0], foreign[16]) = (BYTES, 1);
        assert!(here.hear(&foreign).unwrap_err().contains("no message"));
        // Nobody can fill the memory of an end that hands on nothing.
        let (here, _) = end(100);
        let ended = (1..).find_map(|number: u64| {
            let mut message = vec![BYTES];
            message.extend(number.to_be_bytes());
            message.extend([0; 8]);
            message.extend([0; PART]);
            here.hear(&message).err()
        });
        assert_eq!(ended.unwrap(), "more came than may be under way");
    }

    #[test]
    fn no_more_is_under_way_than_the_window_and_all_of_it_comes() {
        let ((here, sent), (there, told)) = (end(1 << 20), end(1 << 20));
        let all = vec![7; 5 * WINDOW as usize];
        let sender = {
            let (here, all) = (Arc::clone(&here), all.clone());
            std::thread::spawn(move || here.send(&all))
        };
        let (mut came, mut under_way, mut most) = (Vec::new(), 0, 0);
        while came.len() < all.len() {
            // As much as comes before the other end must wait, and then one message is taken.
            let message = sent.recv().unwrap();
            let Part::Bytes(bytes) = there.hear(&message).unwrap() else {
                panic!("no end was sent");
            };
            under_way += bytes.len() as u64;
            most = most.max(under_way);
            there.took(bytes.len());
            came.extend(bytes);
            for message in told.try_iter() {
                under_way = 0;
                here.hear(&message).unwrap();
            }
        }
        sender.join().unwrap().unwrap();
        assert!(came == all && most <= WINDOW, "{most}");
    }

    #[test]
    fn who_waits_for_room_is_woken_by_the_end_of_the_connection() {
        let (here, sent) = end(1 << 20);
        let waits = {
            let here = Arc::clone(&here);
            std::thread::spawn(move || here.send(&vec![0; 2 * WINDOW as usize]))
        };
        // The window is full behind these.
        for _ in 0..WINDOW as usize / PART {
            sent.recv().unwrap();
        }
        here.close("the broker is gone");
        let error = waits.join().unwrap().unwrap_err();
        assert_eq!(error.to_string(), "the broker is gone");
    }
}
