//! One connection's side of the conversation, without the connection: requests in, answers out.
//!
//! [`Talk::advance`] takes bytes from wherever they were read and writes answers into an [`Output`];
//! it says by a [`Verdict`] why it stopped. Pipelined requests are answered one behind the other in one
//! output. The socket, the delay and the freeze are the worker's.

use super::answer::{Answer, ConnectionField};
use super::content::{Content, Route};
use super::stats::{Board, Counters};
use super::store::Tail;
use http1::{BodyDecoder, CodecError, Framing, RequestHead, parse_request};

/// Largest request head.
pub const HEAD_BYTES_MAX: usize = 32 * 1024;

/// Once so much waits to be sent it is sent before more is answered: bounds the memory of a client that
/// pipelines without reading.
const OUTPUT_BYTES_MAX: usize = 64 * 1024;

/// What one thread answers from.
pub struct Service {
    /// Bodies and paths.
    pub content: std::sync::Arc<Content>,
    /// Counters of all threads, for `/stats`.
    pub board: std::sync::Arc<Board>,
    /// This thread's index.
    pub thread: usize,
    /// Answers have to wait: [`Talk::advance`] returns [`Verdict::Delay`].
    pub delays: bool,
    /// Answers on one connection before it is closed.
    pub close_after: Option<u64>,
}

impl Service {
    /// This thread's counters.
    pub fn counters(&self) -> &Counters {
        self.board.counters(self.thread)
    }
}

/// What waits to be sent on a connection.
#[derive(Debug, Default)]
pub struct Output {
    /// Heads, and bodies that are small.
    pub bytes: Vec<u8>,
    /// So much of `bytes` has gone.
    pub sent: usize,
    /// The large body that comes behind `bytes`.
    pub tail: Option<Tail>,
}

impl Output {
    /// Nothing waits.
    pub fn is_empty(&self) -> bool {
        self.sent == self.bytes.len() && self.tail.is_none()
    }

    /// The bytes, moved out; `empty` gives what stands in their place. `None` when there are none, and only a tail is
    /// left.
    pub fn take_bytes(&mut self, empty: impl FnOnce() -> Vec<u8>) -> Option<Vec<u8>> {
        debug_assert!(self.sent == 0, "a wire takes bytes in parts or moves them");
        (!self.bytes.is_empty()).then(|| std::mem::replace(&mut self.bytes, empty()))
    }

    /// `n` bytes have gone; an output that is empty starts anew.
    pub fn took(&mut self, n: usize) {
        let of_bytes = n.min(self.bytes.len() - self.sent);
        self.sent += of_bytes;
        if let Some(tail) = self.tail {
            self.tail = tail.after((n - of_bytes) as u64);
        }
        if self.is_empty() {
            self.bytes.clear();
            self.sent = 0;
        }
    }

    fn is_full(&self) -> bool {
        self.tail.is_some() || self.bytes.len() >= OUTPUT_BYTES_MAX
    }
}

/// Why [`Talk::advance`] stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// What is left of the input is the start of a head: more must be read.
    NeedInput,
    /// The output must leave first; then it goes on with the rest of the input.
    NeedOutput,
    /// A request is complete, and its answer is due after the delay: call [`Talk::answer`] then.
    Delay,
    /// The last answer is in the output.
    Close,
}

/// A request whose head was read.
#[derive(Debug)]
struct Request {
    route: Route,
    is_head: bool,
    keep_alive: bool,
    /// HTTP/1.0: keep-alive must be said.
    says_keep_alive: bool,
    body: BodyDecoder,
}

/// Where a connection stands between two requests or in one.
#[derive(Debug, Default)]
pub struct Talk {
    request: Option<Request>,
    answered: u64,
}

impl Talk {
    /// Takes as much of `input` as it can use; how much that was, and why it stopped.
    pub fn advance(
        &mut self,
        service: &Service,
        input: &[u8],
        out: &mut Output,
    ) -> (usize, Verdict) {
        let mut used = 0;
        let verdict = loop {
            if out.is_full() {
                break Verdict::NeedOutput;
            }
            match self.step(service, &input[used..], out) {
                Ok((n, Some(verdict))) => {
                    used += n;
                    break verdict;
                }
                Ok((n, None)) => used += n,
                Err(refusal) => {
                    refuse(service, &refusal, out);
                    break Verdict::Close;
                }
            }
        };
        (used, verdict)
    }

    /// Answers the request that [`Verdict::Delay`] spoke of; says whether that was the last answer.
    pub fn answer(&mut self, service: &Service, out: &mut Output) -> Verdict {
        let Some(request) = self.request.take() else {
            return Verdict::NeedInput;
        };
        self.answered += 1;
        let stays = request.keep_alive && service.close_after.is_none_or(|n| self.answered < n);
        let connection = match (stays, request.says_keep_alive) {
            (false, _) => ConnectionField::Close,
            (true, false) => ConnectionField::Omitted,
            (true, true) => ConnectionField::KeepAlive,
        };
        let answer = Answer::new(&mut out.bytes, connection, request.is_head);
        out.tail = respond(service, &request, answer);
        if stays {
            Verdict::NeedInput
        } else {
            Verdict::Close
        }
    }

    /// Content bytes of the current body that may be dropped unseen; see [`Talk::discarded`].
    pub fn discardable(&self) -> Option<u64> {
        self.request.as_ref()?.body.remaining_length()
    }

    /// So many of them were.
    pub fn discarded(&mut self, n: u64) {
        if let Some(request) = &mut self.request {
            request.body.discard(n);
        }
    }

    /// One head, one stretch of a body, or one answer. Without a verdict there is more to do.
    fn step(
        &mut self,
        service: &Service,
        input: &[u8],
        out: &mut Output,
    ) -> Result<(usize, Option<Verdict>), Refusal> {
        let Some(request) = &mut self.request else {
            return self.head(service, input, out);
        };
        let fed = request.body.feed(input)?;
        if !fed.done {
            return Ok((fed.consumed, Some(Verdict::NeedInput)));
        }
        if service.delays && request.route != Route::Stats {
            return Ok((fed.consumed, Some(Verdict::Delay)));
        }
        let last = self.answer(service, out) == Verdict::Close;
        Ok((fed.consumed, last.then_some(Verdict::Close)))
    }

    fn head(
        &mut self,
        service: &Service,
        input: &[u8],
        out: &mut Output,
    ) -> Result<(usize, Option<Verdict>), Refusal> {
        if input.is_empty() {
            return Ok((0, Some(Verdict::NeedInput)));
        }
        match parse_request(input)? {
            Some(head) => {
                if head.expect_continue && head.framing != Framing::None {
                    out.bytes
                        .extend_from_slice(b"HTTP/1.1 100 Continue\r\n\r\n");
                }
                self.request = Some(Request::new(&head, &service.content));
                Ok((head.head_len, None))
            }
            None if input.len() >= HEAD_BYTES_MAX => Err(Refusal::HeadTooLarge),
            None => Ok((0, Some(Verdict::NeedInput))),
        }
    }
}

impl Request {
    fn new(head: &RequestHead<'_>, content: &Content) -> Self {
        Self {
            route: content.route(head.target),
            is_head: head.method == "HEAD",
            keep_alive: head.keep_alive,
            says_keep_alive: head.minor_version == 0,
            body: BodyDecoder::new(head.framing),
        }
    }
}

/// Writes and counts the answer; the part of its body that is too large to be copied comes back.
fn respond(service: &Service, request: &Request, answer: Answer<'_>) -> Option<Tail> {
    let counters = service.counters();
    if request.route == Route::Stats {
        counters.stats_requests.add(1);
        let stats = serde_json::to_vec(&service.board.read())
            .expect("numbers and fixed names always serialize");
        answer.json(&stats);
        return None;
    }
    counters.answered(Content::status(&request.route));
    if request.route == Route::Upload {
        let bytes = request.body.body_bytes();
        counters.upload_bytes.add(bytes);
        answer.json(format!("{{\"upload_bytes\":{bytes}}}\n").as_bytes());
        return None;
    }
    service.content.answer(&request.route, answer)
}

/// Why the conversation cannot go on.
enum Refusal {
    Malformed(CodecError),
    HeadTooLarge,
}

impl From<CodecError> for Refusal {
    fn from(error: CodecError) -> Self {
        Refusal::Malformed(error)
    }
}

/// Says so: where the next request would start is not known, so this answer is the last.
fn refuse(service: &Service, refusal: &Refusal, out: &mut Output) {
    let (status, text) = match refusal {
        Refusal::Malformed(error) => (400, format!("{error}\n")),
        Refusal::HeadTooLarge => (431, format!("a head of more than {HEAD_BYTES_MAX} bytes\n")),
    };
    service.counters().answered(status);
    Answer::new(&mut out.bytes, ConnectionField::Close, false).text(status, &text);
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::Bytes;
    use std::sync::Arc;

    fn service() -> Service {
        Service {
            content: Arc::new(Content::new(Bytes(4), None).unwrap()),
            board: Arc::new(Board::new([None])),
            thread: 0,
            delays: false,
            close_after: None,
        }
    }

    /// The whole conversation over `input`, in pieces; what is not used is kept, as a worker does.
    fn converse(service: &Service, pieces: &[&[u8]]) -> (String, Verdict) {
        let (mut talk, mut out) = (Talk::default(), Output::default());
        let mut kept = Vec::new();
        let mut verdict = Verdict::NeedInput;
        for piece in pieces {
            kept.extend_from_slice(piece);
            let used;
            (used, verdict) = talk.advance(service, &kept, &mut out);
            kept.drain(..used);
            if verdict == Verdict::Close {
                break;
            }
        }
        (String::from_utf8_lossy(&out.bytes).into_owned(), verdict)
    }

    fn statuses(answers: &str) -> Vec<&str> {
        let behind_version = answers.split("HTTP/1.1 ").map(|a| &a[..a.len().min(3)]);
        behind_version
            .filter(|a| a.parse::<u16>().is_ok())
            .collect()
    }

    const UPLOAD: &str = "POST /upload HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n";
    const STATUS: &str = "GET /status/503 HTTP/1.1\r\nHost: h\r\n\r\n";
    const ROOT: &str = "GET / HTTP/1.1\r\nHost: h\r\n\r\n";

    #[test]
    fn a_pipeline_split_anywhere_gives_the_same_answers() {
        let input = [UPLOAD, STATUS, ROOT].concat();
        let whole = converse(&service(), &[input.as_bytes()]);
        assert_eq!(statuses(&whole.0), ["200", "503", "200"]);
        assert!(whole.0.contains("{\"upload_bytes\":5}\n"));
        assert_eq!(whole.1, Verdict::NeedInput);
        for at in 0..=input.len() {
            let (a, b) = input.as_bytes().split_at(at);
            assert_eq!(converse(&service(), &[a, b]), whole, "split at {at}");
        }
        let bytes: Vec<&[u8]> = input.as_bytes().chunks(1).collect();
        assert_eq!(converse(&service(), &bytes), whole);
    }

    #[test]
    fn who_closes_and_says_so() {
        let mut closing = service();
        closing.close_after = Some(2);
        for (service, input, closes, says) in [
            (&service(), ROOT.repeat(3), false, None),
            (&closing, ROOT.to_owned(), false, None),
            (&closing, ROOT.repeat(2), true, Some("Connection: close")),
            (
                &service(),
                "GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n".to_owned(),
                true,
                Some("Connection: close"),
            ),
            (
                &service(),
                "GET / HTTP/1.0\r\n\r\n".to_owned(),
                true,
                Some("Connection: close"),
            ),
            (
                &service(),
                "GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n".to_owned(),
                false,
                Some("Connection: keep-alive"),
            ),
        ] {
            let (answers, verdict) = converse(service, &[input.as_bytes()]);
            assert_eq!(verdict == Verdict::Close, closes, "{input}");
            let found = answers.lines().find(|l| l.starts_with("Connection"));
            assert_eq!(found, says, "{input}");
        }
    }

    #[test]
    fn what_is_behind_the_last_answer_is_not_answered() {
        let mut service = service();
        service.close_after = Some(1);
        let (answers, _) = converse(&service, &[ROOT.repeat(3).as_bytes()]);
        assert_eq!(statuses(&answers), ["200"]);
        assert_eq!(service.board.read().total.requests, 1);
    }

    #[test]
    fn the_client_that_waits_is_told_to_continue() {
        let head =
            "POST /upload HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n";
        let (answers, verdict) = converse(&service(), &[head.as_bytes()]);
        assert_eq!(
            (statuses(&answers), verdict),
            (vec!["100"], Verdict::NeedInput)
        );
        let (answers, _) = converse(&service(), &[head.as_bytes(), b"abc"]);
        assert_eq!(statuses(&answers), ["100", "200"]);
    }

    #[test]
    fn a_malformed_request_gets_400_behind_the_good_ones() {
        for (bad, status) in [
            ("\x16\x03\x01", "400"),
            ("GET / HTTP/1.1\r\n\r\n", "400"),
            (
                "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nx",
                "400",
            ),
            (&format!("GET /{}", "x".repeat(HEAD_BYTES_MAX)), "431"),
        ] {
            let service = service();
            let (answers, verdict) = converse(&service, &[[ROOT, bad].concat().as_bytes()]);
            assert_eq!(
                (statuses(&answers), verdict),
                (vec!["200", status], Verdict::Close)
            );
            assert_eq!(service.board.read().total.responses.status_4xx, 1);
        }
    }

    #[test]
    fn a_head_request_gets_the_head() {
        let (answers, _) = converse(&service(), &[b"HEAD /bytes/9 HTTP/1.1\r\nHost: h\r\n\r\n"]);
        assert!(answers.contains("Content-Length: 9\r\n"));
        assert!(answers.ends_with("\r\n\r\n"));
    }

    #[test]
    fn an_answer_waits_for_its_delay_but_stats_do_not() {
        let mut service = service();
        service.delays = true;
        let (mut talk, mut out) = (Talk::default(), Output::default());
        let input = ["GET /stats HTTP/1.1\r\nHost: h\r\n\r\n", ROOT, ROOT].concat();
        let (used, verdict) = talk.advance(&service, input.as_bytes(), &mut out);
        assert_eq!((used, verdict), (input.len() - ROOT.len(), Verdict::Delay));
        assert_eq!(talk.answer(&service, &mut out), Verdict::NeedInput);
        let again = talk.advance(&service, ROOT.as_bytes(), &mut out);
        assert_eq!(again, (ROOT.len(), Verdict::Delay));
        let total = service.board.read().total;
        assert_eq!((total.requests, total.stats_requests), (1, 1));
    }

    #[test]
    fn a_large_body_leaves_before_the_next_request_is_read() {
        let (mut talk, mut out) = (Talk::default(), Output::default());
        let large = "GET /bytes/1M HTTP/1.1\r\nHost: h\r\n\r\n";
        let input = [large, ROOT].concat();
        let (used, verdict) = talk.advance(&service(), input.as_bytes(), &mut out);
        assert_eq!((used, verdict), (large.len(), Verdict::NeedOutput));
        assert!(out.tail.is_some());
    }
}
