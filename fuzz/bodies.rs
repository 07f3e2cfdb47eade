//! What is fuzzed, one function a target: whatever the bytes are, nothing panics, and what is made of them holds.
//!
//! cargo-fuzz runs these by coverage (`make fuzz`), the test suite on mutants of the same corpus from a seed
//! (`crates/prony/tests/fuzz.rs`), so that a target that has rotted fails where everybody sees it.

#![allow(dead_code, reason = "each target has one of them")]

use agent::frame::Receiver;
use agent::message::{Message, Side};
use http1::{BodyDecoder, CodecError, Framing, parse_request, parse_response};
use import::{Format, ImportError, Making, Options, Source, WorkloadFormat, WorkloadOptions};
use traffic::event_stream;
use traffic::websocket::{Reader, Said};

/// Bytes that a body takes, whether it is done, or why it is none.
type Walk = Result<(u64, usize, bool), CodecError>;

fn walk(framing: Framing, pieces: [&[u8]; 2]) -> Walk {
    let mut decoder = BodyDecoder::new(framing);
    let mut consumed = 0;
    for piece in pieces {
        let fed = decoder.feed(piece)?;
        assert!(fed.consumed <= piece.len());
        consumed += fed.consumed;
    }
    Ok((decoder.body_bytes(), consumed, decoder.is_done()))
}

/// A body says the same of itself however it was split.
fn split_anywhere(framing: Framing, body: &[u8]) {
    let whole = walk(framing, [body, &[]]);
    for at in [1, body.len() / 3, body.len() / 2] {
        let (a, b) = body.split_at(at.min(body.len()));
        assert_eq!(walk(framing, [a, b]), whole);
    }
}

/// A response, and a response to HEAD.
pub fn response(input: &[u8]) {
    for to_head in [false, true] {
        if let Ok(Some(head)) = parse_response(input, to_head) {
            assert!(head.head_len <= input.len());
            split_anywhere(head.framing, &input[head.head_len..]);
        }
    }
}

/// A request.
pub fn request(input: &[u8]) {
    if let Ok(Some(head)) = parse_request(input) {
        assert!(head.head_len <= input.len());
        split_anywhere(head.framing, &input[head.head_len..]);
    }
}

/// A chunked body.
pub fn chunked(input: &[u8]) {
    split_anywhere(Framing::Chunked, input);
}

/// What a server says over WebSocket in pieces of this size, and how it breaks the rules.
fn said(input: &[u8], piece: usize) -> (Vec<(Said, Vec<u8>)>, Option<&'static str>) {
    let mut reader = Reader::default();
    let mut said = Vec::new();
    for mut rest in input.chunks(piece) {
        loop {
            match reader.feed(&mut rest) {
                Ok(None) => break,
                Ok(Some(told)) => said.push((told, reader.control().to_vec())),
                Err(words) => return (said, Some(words)),
            }
        }
        assert!(rest.is_empty());
    }
    (said, None)
}

/// A server's frames of WebSocket: the same however they are split, and no more than came.
pub fn websocket(input: &[u8]) {
    let whole = said(input, input.len().max(1));
    for piece in [1, 2, 7] {
        assert_eq!(said(input, piece), whole, "in pieces of {piece}");
    }
    let bytes = whole.0.iter().map(|(said, _)| match said {
        Said::Message(bytes) => *bytes,
        Said::Ping | Said::Close(_) => 0,
    });
    assert!(bytes.sum::<u64>() <= input.len() as u64);
}

/// What a stream of events in pieces of this size holds, whether its end would lose an event, and its `retry`.
fn events(input: &[u8], piece: usize) -> (event_stream::Came, bool, Option<u64>) {
    let mut reader = event_stream::Reader::default();
    let mut sum = event_stream::Came::default();
    for piece in input.chunks(piece) {
        let came = reader.feed(piece);
        sum.events += came.events;
        sum.comments += came.comments;
    }
    (sum, reader.is_mid_event(), reader.retry_ms())
}

/// The same by the standard's steps, line by line and with the values kept.
fn events_by_line(input: &[u8]) -> (event_stream::Came, Option<u64>) {
    let text = input.strip_prefix(b"\xef\xbb\xbf").unwrap_or(input);
    let mut came = event_stream::Came::default();
    let (mut data, mut retry_ms) = (Vec::new(), None);
    let mut from = 0;
    let is_end = |byte: &u8| matches!(byte, b'\r' | b'\n');
    while let Some(end) = text[from..].iter().position(is_end) {
        let line = &text[from..from + end];
        let is_pair = text[from + end..].starts_with(b"\r\n");
        from += end + 1 + usize::from(is_pair);
        let colon = line.iter().position(|b| *b == b':').unwrap_or(line.len());
        let value = line.get(colon + 1..).unwrap_or_default();
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match &line[..colon] {
            b"data" => data.extend([value, b"\n"].concat()),
            b"retry" if !value.is_empty() && value.iter().all(u8::is_ascii_digit) => {
                let digits = std::str::from_utf8(value).unwrap_or_default();
                retry_ms = Some(digits.parse().unwrap_or(u64::MAX));
            }
            b"" if !line.is_empty() => came.comments += 1,
            b"" => came.events += u64::from(!std::mem::take(&mut data).is_empty()),
            _ => {}
        }
    }
    (came, retry_ms)
}

/// A stream of server-sent events: the same however it is split, and what the standard's own steps come to.
pub fn event_stream(input: &[u8]) {
    let whole = events(input, input.len().max(1));
    for piece in [1, 2, 7] {
        assert_eq!(events(input, piece), whole, "in pieces of {piece}");
    }
    assert_eq!(events_by_line(input), (whole.0, whole.2));
}

/// What a conductor says to an agent, and an agent to a conductor: what was heard can be said again.
pub fn frames(input: &[u8]) {
    for side in [Side::Conductor, Side::Agent] {
        let Ok(mut heard) = Receiver::begin(input, side) else {
            continue;
        };
        while let Ok(Some(message)) = heard.receive() {
            assert!(message.kind().is_of(side));
            let again = Message::parse(message.kind(), &message.body());
            // Not the same to the last bit: JSON's numbers are decimal.
            assert!(again.is_ok_and(|again| again.kind() == message.kind()));
        }
    }
}

/// What other tools print, by content.
pub fn results(input: &[u8]) {
    let source = Source {
        file: "fuzz",
        bytes: input,
    };
    let made = import::import(
        Format::Auto,
        &[source],
        &Options::default(),
        &Making::default(),
    );
    if let Ok(made) = made {
        assert!(!made.results.is_empty());
    }
}

/// What a person pasted: each artefact is of some line, and says something.
pub fn pasted(input: &[u8]) {
    let text = String::from_utf8_lossy(input).into_owned();
    let pasted = import::read_pasted(&[("fuzz".to_owned(), text)]);
    for artefact in &pasted.artefacts {
        assert!(artefact.line > 0 && !artefact.tool.is_empty());
        assert!(!artefact.is_empty());
    }
}

/// What is converted can be loaded; that it is read back is a part of the conversion, and fails by this error.
fn converted(format: WorkloadFormat, input: &[u8]) {
    for secrets in [false, true] {
        let options = WorkloadOptions {
            secrets,
            ..WorkloadOptions::default()
        };
        match import::convert(format, "fuzz", input, &options) {
            Ok(made) => assert!(plan::workload::parse(&made.text, "fuzz").is_ok()),
            Err(error) => {
                assert!(!error.to_string().is_empty());
                assert!(!matches!(error, ImportError::Unknown { .. }));
            }
        }
    }
}

/// A browser's recording.
pub fn har(input: &[u8]) {
    converted(WorkloadFormat::Har, input);
}

/// Command lines of curl.
pub fn curl(input: &[u8]) {
    converted(WorkloadFormat::Curl, input);
}

/// A description of OpenAPI 3.
pub fn openapi(input: &[u8]) {
    converted(WorkloadFormat::OpenApi, input);
}

/// A workload file.
pub fn workload(input: &[u8]) {
    if let Ok(text) = std::str::from_utf8(input)
        && let Ok(workload) = plan::workload::parse(text, "fuzz")
    {
        assert!(!workload.requests.is_empty());
    }
}

/// An access log. What is sent of it has a place in time and a request, and every line that is not a reason.
pub fn access_log(input: &[u8]) {
    for takes_unsafe in [false, true] {
        let mut log = import::AccessLog::new(takes_unsafe);
        let mut lines = 0;
        for line in input.split(|byte| *byte == b'\n') {
            lines += u64::from(!line.trim_ascii().is_empty());
            assert_eq!(log.line(line), Ok(()));
        }
        let cut = import::Cut {
            speed: 2.0,
            span_ns: None,
            requests: None,
        };
        match log.finish(cut) {
            Ok(made) => {
                let left_out: u64 = made.left_out.values().sum();
                assert_eq!(made.timetable.len() as u64 + left_out, lines);
                let requests = &made.workload.requests;
                for i in 0..made.timetable.len() {
                    let which = made.timetable.which(i).map(|which| which as usize);
                    assert!(which.is_some_and(|which| which < requests.len()));
                }
                for request in requests {
                    let target = request.target.literal().unwrap_or_default();
                    assert!(
                        target.starts_with('/') && target.bytes().all(|b| b > b' ' && b != 127)
                    );
                }
                assert_eq!(made.status.values().sum::<u64>() + left_out, lines);
            }
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
}
