//! A stream of server-sent events (WHATWG HTML, 9.2.6 "Interpreting an event stream"), byte ranges in, counts out.
//!
//! [`Reader`] is fed the body of a response in pieces of any size. It keeps no content: of a line only the field's name
//! matters, and of an event whether it has data, so a stream of any length, even of one endless line, takes constant
//! memory. The surprise: an event without a `data` field is none, whatever else it holds.

use memchr::memchr2;

/// The longest name of a field that means something, `retry`.
const NAME_MAX: usize = 5;

/// What a piece of a stream held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Came {
    /// Events that ended in it.
    pub events: u64,
    /// Comments that ended in it, which servers send to keep a connection alive.
    pub comments: u64,
}

/// What a line is, by the name before its colon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field {
    Data,
    Retry,
    Comment,
    /// `event`, `id`, and all that the standard ignores.
    Other,
}

/// Where the reader stands in a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    /// At this byte of a byte order mark, which the first line may begin with.
    Mark(u8),
    LineStart,
    /// In a name of so many bytes.
    Name(u8),
    /// Behind the colon, where one space does not count.
    ValueStart(Field),
    Value(Field),
}

/// Where one stream stands; see the module.
#[derive(Clone, Copy, Debug)]
pub struct Reader {
    at: At,
    /// The last byte was a CR, so that an LF belongs to it.
    after_cr: bool,
    name: [u8; NAME_MAX],
    /// The event under way has a line of data.
    has_data: bool,
    /// Value of the `retry` line under way; `None` where it is no number.
    number: Option<u64>,
    /// That line has a digit.
    has_digit: bool,
    retry_ms: Option<u64>,
}

impl Default for Reader {
    fn default() -> Self {
        Reader {
            at: At::Mark(0),
            after_cr: false,
            name: [0; NAME_MAX],
            has_data: false,
            number: Some(0),
            has_digit: false,
            retry_ms: None,
        }
    }
}

impl Reader {
    /// Takes in the next bytes of the stream.
    pub fn feed(&mut self, bytes: &[u8]) -> Came {
        let mut came = Came::default();
        let mut rest = bytes;
        while let Some((&byte, behind)) = rest.split_first() {
            let follows_cr = std::mem::take(&mut self.after_cr);
            match byte {
                b'\n' if follows_cr => rest = behind,
                b'\r' | b'\n' => {
                    self.after_cr = byte == b'\r';
                    self.end_line(&mut came);
                    rest = behind;
                }
                _ => rest = self.go_on(byte, rest),
            }
        }
        came
    }

    /// An event has begun that has data and no end: the end of the stream now would lose it.
    pub fn is_mid_event(&self) -> bool {
        let in_data = matches!(
            self.at,
            At::ValueStart(Field::Data) | At::Value(Field::Data)
        );
        self.has_data || in_data
    }

    /// How long to wait before the stream is opened anew, ms, as the server has said last; `None` where it has not.
    pub fn retry_ms(&self) -> Option<u64> {
        self.retry_ms
    }

    /// Takes `byte`, the first of `rest`, or all that is left of its line; returns what is left then.
    #[inline]
    fn go_on<'a>(&mut self, byte: u8, rest: &'a [u8]) -> &'a [u8] {
        match self.at {
            At::Mark(n) => match (n, byte) {
                (0, 0xef) | (1, 0xbb) => self.at = At::Mark(n + 1),
                (2, 0xbf) => self.at = At::LineStart,
                (0, _) => {
                    self.at = At::LineStart;
                    return rest;
                }
                // What began like a mark is a name that means nothing.
                _ => self.at = At::Value(Field::Other),
            },
            At::LineStart => self.name_goes_on(0, byte),
            At::Name(len) => self.name_goes_on(len, byte),
            At::ValueStart(field) => {
                self.at = At::Value(field);
                if byte != b' ' {
                    return rest;
                }
            }
            At::Value(field) => return self.value_goes_on(field, rest),
        }
        &rest[1..]
    }

    fn name_goes_on(&mut self, len: u8, byte: u8) {
        self.at = match (byte, self.name.get_mut(usize::from(len))) {
            (b':', _) => At::ValueStart(self.field(len)),
            (_, Some(place)) => {
                *place = byte;
                At::Name(len + 1)
            }
            (_, None) => At::Value(Field::Other),
        };
        if self.at == At::ValueStart(Field::Retry) {
            (self.number, self.has_digit) = (Some(0), false);
        }
    }

    fn field(&self, len: u8) -> Field {
        match &self.name[..usize::from(len)] {
            b"" => Field::Comment,
            b"data" => Field::Data,
            b"retry" => Field::Retry,
            _ => Field::Other,
        }
    }

    #[inline]
    fn value_goes_on<'a>(&mut self, field: Field, rest: &'a [u8]) -> &'a [u8] {
        let len = memchr2(b'\r', b'\n', rest).unwrap_or(rest.len());
        let (value, behind) = rest.split_at(len);
        if field == Field::Retry {
            value.iter().for_each(|byte| self.digit(*byte));
        }
        behind
    }

    fn digit(&mut self, byte: u8) {
        self.has_digit = true;
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'));
        let number = self.number.zip(digit);
        self.number = number.map(|(number, digit)| number.saturating_mul(10).saturating_add(digit));
    }

    fn end_line(&mut self, came: &mut Came) {
        let field = match self.at {
            At::Mark(0) | At::LineStart => return self.end_event(came),
            At::Mark(_) => Field::Other,
            // A line without a colon is a name without a value.
            At::Name(len) => match self.field(len) {
                Field::Retry => Field::Other,
                field => field,
            },
            At::ValueStart(field) | At::Value(field) => field,
        };
        match field {
            Field::Data => self.has_data = true,
            Field::Retry if self.has_digit => self.retry_ms = self.number.or(self.retry_ms),
            Field::Comment => came.comments += 1,
            Field::Retry | Field::Other => {}
        }
        self.at = At::LineStart;
    }

    fn end_event(&mut self, came: &mut Came) {
        self.at = At::LineStart;
        came.events += u64::from(std::mem::take(&mut self.has_data));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Events, comments and `retry`, at every split into two and byte by byte.
    fn check(stream: &[u8], expected: (u64, u64, Option<u64>)) {
        let read = |pieces: &[&[u8]]| {
            let mut reader = Reader::default();
            let mut sum = Came::default();
            for piece in pieces {
                let came = reader.feed(piece);
                sum.events += came.events;
                sum.comments += came.comments;
            }
            (sum.events, sum.comments, reader.retry_ms())
        };
        let words = stream.escape_ascii();
        for cut in 0..=stream.len() {
            let (a, b) = stream.split_at(cut);
            assert_eq!(read(&[a, b]), expected, "{words} cut at {cut}");
        }
        let bytes: Vec<&[u8]> = stream.chunks(1).collect();
        assert_eq!(read(&bytes), expected, "{words} byte by byte");
    }

    #[test]
    fn an_event_ends_with_an_empty_line_and_has_data() {
        check(b"data: hello\n\n", (1, 0, None));
        check(b"data:hello\n\ndata: x\n\n", (2, 0, None));
        // The examples of the standard.
        check(b"data: YHOO\ndata: +2\ndata: 10\n\n", (1, 0, None));
        check(
            b": test stream\n\ndata: first event\nid: 1\n\ndata:second event\nid\n\ndata:  third event\n\n",
            (3, 1, None),
        );
        check(b"data\n\ndata\ndata\n\ndata:", (2, 0, None));
        check(b"data:test\n\ndata: test\n\n", (2, 0, None));
        check(b"event: add\nid: 7\n\n", (0, 0, None));
        check(b"data: lost", (0, 0, None));
        check(b"data: lost\n", (0, 0, None));
    }

    #[test]
    fn lines_end_with_cr_lf_or_both() {
        for end in ["\n", "\r", "\r\n"] {
            let stream = format!("data: a{end}data: b{end}{end}: c{end}data: d{end}{end}");
            check(stream.as_bytes(), (2, 1, None));
        }
        check(b"data: a\r\n\r\ndata: b\r\rdata: c\n\n", (3, 0, None));
        check(b"data: a\n\r\n", (1, 0, None));
    }

    #[test]
    fn a_byte_order_mark_counts_once_and_at_the_start_alone() {
        check(b"\xef\xbb\xbfdata: a\n\n", (1, 0, None));
        check(b"\xef\xbb\xbf\xef\xbb\xbfdata: a\n\n", (0, 0, None));
        check(b"data: a\n\n\xef\xbb\xbfdata: b\n\n", (1, 0, None));
        check(b"\xef\xbbdata: a\n\ndata: b\n\n", (1, 0, None));
        check(b"\xef\n\ndata: b\n\n", (1, 0, None));
    }

    #[test]
    fn names_are_read_to_the_letter() {
        for name in [
            "Data", " data", "data ", "dat", "datas", "database", "retryx",
        ] {
            let stream = format!("{name}: 1\n\n");
            check(stream.as_bytes(), (0, 0, None));
        }
        check(b"::data: x\n\n", (0, 1, None));
    }

    #[test]
    fn a_time_to_wait_has_digits_alone() {
        check(b"retry: 3000\n\n", (0, 0, Some(3_000)));
        check(b"retry:5\rretry: 10\n", (0, 0, Some(10)));
        for none in [
            "retry\n",
            "retry:\n",
            "retry: \n",
            "retry: 1s\n",
            "retry: -1\n",
            "retry:  1\n",
            "retry: 1",
        ] {
            check(none.as_bytes(), (0, 0, None));
        }
        check(b"retry: 7\nretry: x\n", (0, 0, Some(7)));
        let large = format!("retry: {}\n", "9".repeat(40));
        check(large.as_bytes(), (0, 0, Some(u64::MAX)));
    }

    #[test]
    fn the_end_loses_an_event_only_where_data_has_come() {
        for (stream, lost) in [
            ("", false),
            ("data: a\n\n", false),
            ("data: a\n\n: alive\n", false),
            ("event: a\n", false),
            ("data: a\n", true),
            ("data: a", true),
            ("data:", true),
            ("data\n", true),
            ("data: a\nid: 1", true),
        ] {
            let mut reader = Reader::default();
            reader.feed(stream.as_bytes());
            assert_eq!(reader.is_mid_event(), lost, "{stream:?}");
        }
    }
}
