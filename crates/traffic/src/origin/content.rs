//! What the origin answers with: bodies, heads and the paths that lead to them.
//!
//! Bodies are never made for a request. Sizes on demand are cut from one fixed pattern of 64 KiB, files
//! are read once at the start, and a large body leaves through [`Tail`]s that point into either.
//!
//! Files are read at the start rather than sent from the disk per request: the origin is there to be a
//! known quantity, and no path of a request can name anything outside the directory.

use super::OriginError;
use record::{Bytes, parse_bytes};
use std::collections::HashMap;
use std::io::{IoSlice, Write as _};
use std::path::Path;

/// Most that all files may take together.
pub const FILES_BYTES_MAX: u64 = 1 << 30;

/// Longest body that is copied behind its head, to leave in one send with its neighbours.
const COPIED_BODY_MAX: u64 = 16 * 1024;

const PATTERN_BYTES: usize = 64 * 1024;

/// Incompressible filling, so that a proxy that compresses finds nothing to save.
static PATTERN: [u8; PATTERN_BYTES] = pattern();

/// Xorshift64 (Marsaglia, 2003), which can run at compile time.
const fn pattern() -> [u8; PATTERN_BYTES] {
    let mut bytes = [0; PATTERN_BYTES];
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut at = 0;
    while at < PATTERN_BYTES {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let word = state.to_le_bytes();
        let mut i = 0;
        while i < word.len() {
            bytes[at + i] = word[i];
            i += 1;
        }
        at += word.len();
    }
    bytes
}

/// Where a body's bytes come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    Pattern,
    File(usize),
}

/// The part of a large body that has yet to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tail {
    source: Source,
    at: u64,
    end: u64,
}

impl Tail {
    /// `sent` more bytes have gone; `None` when that was the last of it.
    pub fn after(self, sent: u64) -> Option<Tail> {
        let at = self.at + sent;
        (at < self.end).then_some(Tail { at, ..self })
    }
}

/// What a request's target leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Route {
    /// `/`.
    Root,
    /// `/bytes/SIZE`.
    Sized(Bytes),
    /// A given file.
    File(usize),
    /// `/status/CODE`.
    Status(u16),
    /// `/upload`.
    Upload,
    /// `/stats`.
    Stats,
    /// Nothing.
    NotFound,
    /// A known path with a part that cannot be understood; the text says why.
    Refused(u16, String),
}

/// A file in memory.
#[derive(Debug)]
struct File {
    content_type: &'static str,
    bytes: Vec<u8>,
}

/// All that the origin can answer with; the threads share one.
#[derive(Debug)]
pub struct Content {
    root: Page,
    files: Vec<File>,
    /// By path in decoded form, `/` in front.
    paths: HashMap<String, usize>,
}

/// An answer whose head is known before the request comes.
#[derive(Debug)]
struct Page {
    head: Vec<u8>,
    body_bytes: u64,
}

/// What becomes of the connection, as far as the answer must say it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionField {
    /// HTTP/1.1 that stays: nothing to say.
    Omitted,
    /// HTTP/1.0 that stays.
    KeepAlive,
    /// This answer is the last.
    Close,
}

const OCTETS: &str = "application/octet-stream";
const TEXT: &str = "text/plain; charset=utf-8";
const JSON: &str = "application/json";

/// Writes one answer behind those that wait to be sent.
pub struct Answer<'a> {
    out: &'a mut Vec<u8>,
    connection: ConnectionField,
    request_was_head: bool,
}

impl<'a> Answer<'a> {
    /// An answer into `out`.
    pub fn new(out: &'a mut Vec<u8>, connection: ConnectionField, request_was_head: bool) -> Self {
        Self {
            out,
            connection,
            request_was_head,
        }
    }

    /// A short text.
    pub fn text(self, status: u16, text: &str) {
        self.bytes(status, TEXT, text.as_bytes());
    }

    /// A JSON document.
    pub fn json(self, document: &[u8]) {
        self.bytes(200, JSON, document);
    }

    fn bytes(mut self, status: u16, content_type: &str, body: &[u8]) {
        write_head(self.out, status, content_type, body.len() as u64);
        self.end_head();
        if !self.request_was_head {
            self.out.extend_from_slice(body);
        }
    }

    /// A head and nothing else: 204 and 304 have no body and say no length.
    fn head_only(mut self, status: u16) {
        write_status(self.out, status);
        self.end_head();
    }

    /// Copies a body that is small, hands back one that is large; `held` are its bytes, or as many of them
    /// as a small body has.
    fn body(self, source: Source, length: u64, held: &[u8]) -> Option<Tail> {
        if self.request_was_head {
            return None;
        }
        if length <= COPIED_BODY_MAX {
            self.out.extend_from_slice(&held[..length as usize]);
            return None;
        }
        Some(Tail {
            source,
            at: 0,
            end: length,
        })
    }

    fn end_head(&mut self) {
        self.out.extend_from_slice(match self.connection {
            ConnectionField::Omitted => b"\r\n",
            ConnectionField::KeepAlive => b"Connection: keep-alive\r\n\r\n",
            ConnectionField::Close => b"Connection: close\r\n\r\n",
        });
    }
}

fn write_status(out: &mut Vec<u8>, status: u16) {
    write!(
        out,
        "HTTP/1.1 {status} {}\r\nServer: prony\r\n",
        reason(status)
    )
    .expect("writing to memory does not fail");
}

fn write_head(out: &mut Vec<u8>, status: u16, content_type: &str, length: u64) {
    write_status(out, status);
    write!(
        out,
        "Content-Type: {content_type}\r\nContent-Length: {length}\r\n"
    )
    .expect("writing to memory does not fail");
}

impl Content {
    /// `/` answers with `body` bytes; `files` is read now.
    ///
    /// # Errors
    /// [`OriginError::File`] and [`OriginError::FilesTooLarge`].
    pub fn new(body: Bytes, files: Option<&Path>) -> Result<Self, OriginError> {
        let mut head = Vec::new();
        write_head(&mut head, 200, OCTETS, body.0);
        let mut content = Self {
            root: Page {
                head,
                body_bytes: body.0,
            },
            files: Vec::new(),
            paths: HashMap::new(),
        };
        if let Some(root) = files {
            content.read_directory(root)?;
        }
        Ok(content)
    }

    /// Where `target` leads. A given file hides a built-in path, except `/stats`.
    pub fn route(&self, target: &str) -> Route {
        let path = path_of(target);
        match path {
            "/stats" => return Route::Stats,
            _ if self.paths.is_empty() => {}
            _ => {
                if let Some(&file) = self.paths.get(&*percent_decoded(path)) {
                    return Route::File(file);
                }
            }
        }
        match path.trim_start_matches('/').split_once('/') {
            None if path == "/" => Route::Root,
            None if path == "/upload" => Route::Upload,
            Some(("bytes", size)) => sized(size),
            Some(("status", code)) => status(code),
            _ => Route::NotFound,
        }
    }

    /// Writes the answer of a route that needs to know nothing else, and returns the part of its body
    /// that is too large to be copied.
    pub fn answer(&self, route: &Route, answer: Answer<'_>) -> Option<Tail> {
        match route {
            Route::Root => self.root(answer),
            Route::Sized(size) => sized_answer(*size, answer),
            Route::File(index) => self.file(*index, answer),
            Route::Status(code) => {
                status_answer(*code, answer);
                None
            }
            Route::Refused(code, why) => {
                answer.text(*code, why);
                None
            }
            Route::NotFound | Route::Upload | Route::Stats => {
                answer.text(404, &self.known_paths());
                None
            }
        }
    }

    /// The status of that answer.
    pub fn status(route: &Route) -> u16 {
        match route {
            Route::Root | Route::Sized(_) | Route::File(_) | Route::Upload | Route::Stats => 200,
            Route::Status(code) | Route::Refused(code, _) => *code,
            Route::NotFound => 404,
        }
    }

    /// Slices of `tail`, as many as fit into `slices`; how many there are.
    pub fn slices<'a>(&'a self, tail: Tail, slices: &mut [IoSlice<'a>]) -> usize {
        let mut left = Some(tail);
        let mut filled = 0;
        for slice in slices {
            let Some(tail) = left else { break };
            let piece = self.piece(tail);
            *slice = IoSlice::new(piece);
            left = tail.after(piece.len() as u64);
            filled += 1;
        }
        filled
    }

    /// The longest contiguous start of `tail`.
    fn piece(&self, tail: Tail) -> &[u8] {
        let (bytes, at) = match tail.source {
            Source::Pattern => (&PATTERN[..], tail.at % PATTERN_BYTES as u64),
            Source::File(index) => (&self.files[index].bytes[..], tail.at),
        };
        // Both are below the length of a slice, which is a usize.
        let from_here = &bytes[at as usize..];
        let length = (tail.end - tail.at).min(from_here.len() as u64);
        &from_here[..length as usize]
    }

    fn root(&self, mut answer: Answer<'_>) -> Option<Tail> {
        answer.out.extend_from_slice(&self.root.head);
        answer.end_head();
        answer.body(Source::Pattern, self.root.body_bytes, &PATTERN)
    }

    fn file(&self, index: usize, mut answer: Answer<'_>) -> Option<Tail> {
        let file = &self.files[index];
        let length = file.bytes.len() as u64;
        write_head(answer.out, 200, file.content_type, length);
        answer.end_head();
        answer.body(Source::File(index), length, &file.bytes)
    }

    fn known_paths(&self) -> String {
        let mut text = "no such path; known are:\n/\n/bytes/SIZE (91k, 91KiB)\n/status/CODE\n/upload\n/stats\n".to_owned();
        let mut files: Vec<&str> = self.paths.keys().map(String::as_str).collect();
        files.sort_unstable();
        for path in files {
            text.push_str(path);
            text.push('\n');
        }
        text
    }

    /// Reads all regular files below `root`. Links to files are followed, links to directories are not:
    /// they may lead in circles.
    fn read_directory(&mut self, root: &Path) -> Result<(), OriginError> {
        let mut total_bytes = 0;
        let mut directories = vec![root.to_owned()];
        while let Some(directory) = directories.pop() {
            for path in entries(&directory)? {
                if path.is_dir() {
                    if !path.is_symlink() {
                        directories.push(path);
                    }
                    continue;
                }
                if !path.is_file() {
                    continue;
                }
                total_bytes += size_of_file(&path)?;
                if total_bytes > FILES_BYTES_MAX {
                    return Err(OriginError::FilesTooLarge {
                        directory: root.to_owned(),
                    });
                }
                self.read_file(root, &path)?;
            }
        }
        Ok(())
    }

    fn read_file(&mut self, root: &Path, path: &Path) -> Result<(), OriginError> {
        let bytes = std::fs::read(path).map_err(|cause| file_error(path, cause))?;
        let index = self.files.len();
        self.files.push(File {
            content_type: content_type(path),
            bytes,
        });
        let below = path.strip_prefix(root).unwrap_or(path);
        let name = format!("/{}", below.to_string_lossy());
        if let Some(directory) = name.strip_suffix("/index.html") {
            self.paths.insert(format!("{directory}/"), index);
        }
        self.paths.insert(name, index);
        Ok(())
    }
}

fn file_error(path: &Path, cause: std::io::Error) -> OriginError {
    OriginError::File {
        path: path.to_owned(),
        cause,
    }
}

fn entries(directory: &Path) -> Result<Vec<std::path::PathBuf>, OriginError> {
    std::fs::read_dir(directory)
        .and_then(|entries| entries.map(|e| e.map(|e| e.path())).collect())
        .map_err(|cause| file_error(directory, cause))
}

fn size_of_file(path: &Path) -> Result<u64, OriginError> {
    std::fs::metadata(path)
        .map(|m| m.len())
        .map_err(|cause| file_error(path, cause))
}

/// The path of a request target: no query, and no scheme and authority (RFC 9112 3.2.2: a server must
/// accept the absolute form as well).
fn path_of(target: &str) -> &str {
    let path = match target.split_once("://") {
        Some((_, rest)) if !target.starts_with('/') => {
            rest.find('/').map_or("/", |slash| &rest[slash..])
        }
        _ => target,
    };
    path.split_once('?').map_or(path, |(path, _)| path)
}

/// `%41` as `A`; what is not such a triple stays as it is.
fn percent_decoded(path: &str) -> std::borrow::Cow<'_, str> {
    if !path.contains('%') {
        return path.into();
    }
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path.as_bytes();
    while let Some((&first, behind)) = rest.split_first() {
        match (first, behind) {
            (b'%', [high, low, behind @ ..]) if both_hex(*high, *low) => {
                bytes.push(hex_value(*high) << 4 | hex_value(*low));
                rest = behind;
            }
            _ => {
                bytes.push(first);
                rest = behind;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned().into()
}

fn both_hex(high: u8, low: u8) -> bool {
    high.is_ascii_hexdigit() && low.is_ascii_hexdigit()
}

/// Value of a digit that is known to be one.
fn hex_value(digit: u8) -> u8 {
    char::from(digit).to_digit(16).unwrap_or(0) as u8
}

fn sized(size: &str) -> Route {
    match parse_bytes(size) {
        Ok(size) => Route::Sized(size),
        Err(why) => Route::Refused(400, format!("/bytes/SIZE: {why}\n")),
    }
}

fn status(code: &str) -> Route {
    match code.parse::<u16>() {
        Ok(code @ 200..=599) => Route::Status(code),
        // A status below 200 announces another answer, and there would be none.
        _ => Route::Refused(
            400,
            format!("/status/CODE: `{code}` is not in 200 to 599\n"),
        ),
    }
}

fn sized_answer(size: Bytes, mut answer: Answer<'_>) -> Option<Tail> {
    write_head(answer.out, 200, OCTETS, size.0);
    answer.end_head();
    answer.body(Source::Pattern, size.0, &PATTERN)
}

fn status_answer(code: u16, answer: Answer<'_>) {
    match code {
        204 | 304 => answer.head_only(code),
        _ => answer.text(code, &format!("{code} {}\n", reason(code))),
    }
}

/// The usual words for a status (RFC 9110 15); they mean nothing to a client.
fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        201 => "Created",
        202 => "Accepted",
        204 => "No Content",
        206 => "Partial Content",
        301 => "Moved Permanently",
        302 => "Found",
        304 => "Not Modified",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        413 => "Content Too Large",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        500 => "Internal Server Error",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        _ => "Status",
    }
}

fn content_type(path: &Path) -> &'static str {
    match path.extension().and_then(|e| e.to_str()) {
        Some("html" | "htm") => "text/html; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("js" | "mjs") => "text/javascript; charset=utf-8",
        Some("txt" | "md") => TEXT,
        Some("json") => JSON,
        Some("svg") => "image/svg+xml",
        Some("png") => "image/png",
        Some("jpg" | "jpeg") => "image/jpeg",
        Some("webp") => "image/webp",
        _ => OCTETS,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::{Framing, parse_response};

    fn content() -> Content {
        Content::new(Bytes(1024), None).unwrap()
    }

    #[test]
    fn where_targets_lead() {
        for (target, route) in [
            ("/", Route::Root),
            ("/?x=1", Route::Root),
            ("http://a.example", Route::Root),
            ("http://a.example:80/stats?x", Route::Stats),
            ("/bytes/91k", Route::Sized(Bytes(91_000))),
            ("/bytes/91KiB?a=/b", Route::Sized(Bytes(93_184))),
            ("/status/503", Route::Status(503)),
            ("/upload", Route::Upload),
            ("/upload/x", Route::NotFound),
            ("*", Route::NotFound),
            ("/bytes", Route::NotFound),
            ("/index.html", Route::NotFound),
        ] {
            assert_eq!(content().route(target), route, "{target}");
        }
        for target in [
            "/bytes/elephant",
            "/status/99",
            "/status/100",
            "/status/x",
            "/status/",
        ] {
            assert!(
                matches!(content().route(target), Route::Refused(400, _)),
                "{target}"
            );
        }
    }

    /// The answer's head, and its body put together.
    fn answered(
        content: &Content,
        target: &str,
        head: bool,
    ) -> (crate::http::ResponseHead, Vec<u8>) {
        let mut out = Vec::new();
        let answer = Answer::new(&mut out, ConnectionField::Omitted, head);
        let mut tail = content.answer(&content.route(target), answer);
        let parsed = parse_response(&out, head).unwrap().expect("a whole head");
        let mut body = out.split_off(parsed.head_len);
        while let Some(rest) = tail {
            let mut slices = [IoSlice::new(&[]); 3];
            let filled = content.slices(rest, &mut slices);
            let before = body.len();
            slices[..filled]
                .iter()
                .for_each(|s| body.extend_from_slice(s));
            tail = rest.after((body.len() - before) as u64);
        }
        (parsed, body)
    }

    #[test]
    fn bodies_have_the_length_that_the_head_says() {
        for size in [
            0,
            1,
            1023,
            COPIED_BODY_MAX,
            COPIED_BODY_MAX + 1,
            65_536,
            1_000_003,
        ] {
            let target = format!("/bytes/{size}");
            let (head, body) = answered(&content(), &target, false);
            assert_eq!((head.status, head.framing), (200, Framing::Length(size)));
            assert_eq!(body.len() as u64, size);
            let expected = PATTERN.iter().cycle().take(size as usize);
            assert!(body.iter().eq(expected), "{size}");
            assert!(answered(&content(), &target, true).1.is_empty());
        }
        let (head, body) = answered(&content(), "/", false);
        assert_eq!((head.framing, body.len()), (Framing::Length(1024), 1024));
    }

    #[test]
    fn statuses() {
        for (code, framing) in [
            (204, Framing::None),
            (304, Framing::None),
            (503, Framing::Length(24)),
        ] {
            let (head, body) = answered(&content(), &format!("/status/{code}"), false);
            assert_eq!((head.status, head.framing), (code, framing));
            assert_eq!(body.is_empty(), framing == Framing::None);
        }
        let (head, body) = answered(&content(), "/nowhere", false);
        assert_eq!(head.status, 404);
        assert!(String::from_utf8(body).unwrap().contains("/bytes/SIZE"));
    }

    #[test]
    fn files_below_the_directory_and_no_others() {
        let root = tempfile::tempdir().unwrap();
        let served = root.path().join("www");
        std::fs::create_dir_all(served.join("sub dir")).unwrap();
        std::fs::write(served.join("index.html"), "<p>").unwrap();
        std::fs::write(served.join("sub dir/large.bin"), vec![7; 100_000]).unwrap();
        std::fs::write(root.path().join("secret"), "x").unwrap();
        std::os::unix::fs::symlink(&served, served.join("circle")).unwrap();
        let content = Content::new(Bytes(1), Some(&served)).unwrap();
        for (target, length) in [
            ("/", 3),
            ("/index.html?x", 3),
            ("/sub%20dir/large.bin", 100_000),
            ("/bytes/5", 5),
        ] {
            let (head, body) = answered(&content, target, false);
            assert_eq!((head.status, body.len()), (200, length), "{target}");
        }
        for target in [
            "/../secret",
            "/%2e%2e/secret",
            "/circle/index.html",
            "/sub%20dir/",
            "/%zz%",
        ] {
            let (head, body) = answered(&content, target, false);
            assert_eq!(head.status, 404, "{target}");
            assert!(
                String::from_utf8(body)
                    .unwrap()
                    .contains("/sub dir/large.bin")
            );
        }
    }

    #[test]
    fn a_missing_directory_is_named() {
        let error = Content::new(Bytes(1), Some(Path::new("/nonexistent/www"))).unwrap_err();
        assert!(error.to_string().contains("/nonexistent/www"), "{error}");
    }
}
