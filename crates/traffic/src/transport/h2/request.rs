//! Requests: from the bytes that the load loop sends over HTTP/1 to header blocks, each made once.
//!
//! The loop hands out the same bytes again and again, and with several requests in turn. They are recognised by their
//! head, which is short. The first request that a thread ever sends is the one whose fields enter the servers' tables;
//! others refer to what they have in common with it.

use super::hpack::{ENTRY_BYTES, TABLE_BYTES, Write, put_field, static_field};

/// Requests that a thread remembers; beyond that the oldest but the first is forgotten.
const REMEMBERED: usize = 64;

/// One request, encoded.
#[derive(Debug, Default)]
pub(super) struct Request {
    /// Its HTTP/1 head, empty line included.
    head: Vec<u8>,
    /// The block that enters its fields into the peer's table; empty for all but the first.
    pub entering: Vec<u8>,
    /// The block for a peer that has taken the first request's fields in.
    pub indexed: Vec<u8>,
    /// The block for a peer that keeps no table.
    pub plain: Vec<u8>,
}

impl Request {
    /// Length of the HTTP/1 head: what follows is the body.
    pub fn head_bytes(&self) -> usize {
        self.head.len()
    }
}

type Fields = Vec<(String, String)>;

/// The requests of a thread; see the module.
pub(super) struct Requests {
    scheme: &'static str,
    known: Vec<Request>,
    last: usize,
    replaced: usize,
    /// Fields that the first request enters, oldest first.
    entered: Fields,
}

impl Requests {
    /// None yet.
    pub fn new(scheme: &'static str) -> Self {
        Requests {
            scheme,
            known: Vec::with_capacity(REMEMBERED),
            last: 0,
            replaced: 0,
            entered: Vec::new(),
        }
    }

    /// The request that the bytes begin with; `None` when they are no HTTP/1 request.
    #[inline]
    pub fn find(&mut self, bytes: &[u8]) -> Option<&Request> {
        let is = |request: &Request| bytes.starts_with(&request.head);
        if !self.known.get(self.last).is_some_and(is) {
            self.last = match self.known.iter().position(is) {
                Some(at) => at,
                None => self.learn(bytes)?,
            };
        }
        self.known.get(self.last)
    }

    fn learn(&mut self, bytes: &[u8]) -> Option<usize> {
        let (head_len, fields) = read(bytes, self.scheme)?;
        let mut request = Request {
            head: bytes[..head_len].to_vec(),
            ..Request::default()
        };
        if self.known.is_empty() {
            self.enter(&fields);
        }
        for (name, value) in &fields {
            let same = |(n, v): &(String, String)| n == name && v == value;
            let entered = self.entered.iter().position(same);
            let (name, value) = (name.as_bytes(), value.as_bytes());
            let (first, later) = match entered {
                // The newest entry has the lowest index.
                Some(at) => (Write::Entering, Write::Indexed(self.entered.len() - 1 - at)),
                None => (Write::Plain, Write::Plain),
            };
            if self.known.is_empty() {
                put_field(&mut request.entering, name, value, first);
            }
            put_field(&mut request.indexed, name, value, later);
            put_field(&mut request.plain, name, value, Write::Plain);
        }
        Some(self.keep(request))
    }

    /// The fields that fit into a table of the usual size together, and no field twice.
    fn enter(&mut self, fields: &Fields) {
        let mut left = TABLE_BYTES;
        for (name, value) in fields {
            let takes = name.len() + value.len() + ENTRY_BYTES;
            let is_new = !self.entered.iter().any(|(n, v)| n == name && v == value);
            if takes <= left && is_new && static_field(name.as_bytes(), value.as_bytes()).is_none()
            {
                left -= takes;
                self.entered.push((name.clone(), value.clone()));
            }
        }
    }

    fn keep(&mut self, request: Request) -> usize {
        if self.known.len() < REMEMBERED {
            self.known.push(request);
            return self.known.len() - 1;
        }
        self.replaced = self.replaced % (REMEMBERED - 1) + 1;
        self.known[self.replaced] = request;
        self.replaced
    }
}

/// A request's head: its length in HTTP/1, and its fields. RFC 9113 8.2.2 and 8.3.1: pseudo-fields first, names in
/// lower case, nothing that speaks of the connection.
fn read(bytes: &[u8], scheme: &'static str) -> Option<(usize, Fields)> {
    let head = http1::parse_request(bytes).ok().flatten()?;
    let pseudo = [
        (":method", Some(head.method)),
        (":scheme", Some(scheme)),
        (":authority", head.host),
        (":path", Some(head.target)),
    ];
    let named = |(name, value): (&str, Option<&str>)| Some((name.to_owned(), value?.to_owned()));
    let others = http1::peek(&bytes[..head.head_len])?.fields;
    let fields = pseudo.into_iter().filter_map(named);
    let fields = fields.chain(others.into_iter().filter(|(name, value)| match &name[..] {
        "host" | "connection" | "keep-alive" | "proxy-connection" | "upgrade"
        | "transfer-encoding" => false,
        "te" => value == "trailers",
        _ => true,
    }));
    Some((head.head_len, fields.collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GET: &[u8] = b"GET /a HTTP/1.1\r\nHost: x:8080\r\nX-One: 1\r\nConnection: close\r\n\r\n";

    #[test]
    fn a_request_becomes_pseudo_fields_and_what_speaks_not_of_the_connection() {
        let (len, fields) = read(GET, "http").unwrap();
        let fields: Vec<_> = fields.iter().map(|(n, v)| (&n[..], &v[..])).collect();
        let expected = [
            (":method", "GET"),
            (":scheme", "http"),
            (":authority", "x:8080"),
            (":path", "/a"),
            ("x-one", "1"),
        ];
        assert_eq!((len, &fields[..]), (GET.len(), &expected[..]));
    }

    #[test]
    fn later_requests_are_an_index_a_field() {
        let mut requests = Requests::new("http");
        let first = requests.find(GET).unwrap();
        // GET and http are static 2 and 6; authority, path and x-one entered in this order, so x-one is the newest.
        assert_eq!(first.indexed, [0x82, 0x86, 0x80 | 64, 0x80 | 63, 0x80 | 62]);
        assert_eq!(first.head_bytes(), GET.len());
        assert!(first.entering.len() > 20 && first.plain.len() > 20);
        let other = b"GET /b HTTP/1.1\r\nHost: x:8080\r\n\r\nbody";
        let second = requests.find(other).unwrap();
        assert!(second.entering.is_empty());
        assert_eq!(second.indexed, b"\x82\x86\xc0\x04\x02/b");
        assert_eq!(second.head_bytes(), other.len() - 4);
    }

    #[test]
    fn no_more_is_entered_than_a_table_holds_and_no_more_is_remembered_than_need_be() {
        let mut requests = Requests::new("https");
        let long = "y".repeat(3_000);
        let text = format!("GET / HTTP/1.1\r\nHost: x\r\nA: {long}\r\nB: {long}\r\nC: 1\r\n\r\n");
        requests.find(text.as_bytes()).unwrap();
        let names: Vec<&[u8]> = requests.entered.iter().map(|(n, _)| n.as_bytes()).collect();
        assert_eq!(names, [&b":authority"[..], b"a", b"c"]);
        for i in 0..1_000 {
            let text = format!("GET /{i} HTTP/1.1\r\nHost: x\r\n\r\n");
            let found = requests.find(text.as_bytes()).unwrap();
            assert!(found.plain.ends_with(format!("/{i}").as_bytes()));
        }
        assert_eq!(requests.known.len(), REMEMBERED);
        assert!(!requests.known[0].entering.is_empty(), "the first stays");
    }

    #[test]
    fn what_is_no_request_is_none() {
        for bad in [
            &b""[..],
            b"GET",
            b"GET / HTTP/1.1\r\nno colon\r\n\r\n",
            b"\r\n\r\n",
        ] {
            assert!(Requests::new("http").find(bad).is_none());
        }
    }
}
