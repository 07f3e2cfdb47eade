//! What the origin answers with: the paths, where they lead, and the given files.
//!
//! Files are read at the start rather than opened per request: the origin is there to be a known
//! quantity, and no path of a request can name anything outside the directory.

use super::OriginError;
use super::answer::{Answer, JSON, OCTETS, Page, TEXT};
use super::store::{Body, Store, Tail};
use record::{Bytes, parse_bytes};
use std::borrow::Cow;
use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

/// Most that all files may take together.
pub const FILES_BYTES_MAX: u64 = 1 << 30;

/// What a request's target leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Route {
    Root,
    /// `/bytes/SIZE`.
    Sized(Bytes),
    /// A given file.
    File(usize),
    /// `/status/CODE`.
    Status(u16),
    Upload,
    Stats,
    NotFound,
    /// A known path with a part that cannot be understood; the text says why.
    Refused(u16, String),
}

/// All that the origin can answer with; the threads share one.
#[derive(Debug)]
pub struct Content {
    root: Page,
    store: Store,
    files: Vec<Page>,
    /// By path in decoded form, `/` in front.
    paths: HashMap<String, usize>,
}

impl Content {
    /// `/` answers with `body` bytes; `files` is read now.
    ///
    /// # Errors
    /// [`OriginError::File`], [`OriginError::FilesTooLarge`] and [`OriginError::Store`].
    pub fn new(body: Bytes, files: Option<&Path>) -> Result<Self, OriginError> {
        let mut content = Self {
            root: Page::new(OCTETS, Body::Pattern(body.0)),
            store: Store::new().map_err(store_error)?,
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
        if path == "/stats" {
            return Route::Stats;
        }
        self.file_at(path)
            .map_or_else(|| built_in(path), Route::File)
    }

    fn file_at(&self, path: &str) -> Option<usize> {
        if self.paths.is_empty() {
            return None;
        }
        self.paths.get(&*percent_decoded(path)).copied()
    }

    /// Writes the answer of a route that needs to know nothing else, and returns the part of its body
    /// that is too large to be copied.
    pub fn answer(&self, route: &Route, answer: Answer<'_>) -> Option<Tail> {
        match route {
            Route::Root => answer.page(&self.root),
            Route::Sized(size) => answer.pattern(size.0),
            Route::File(index) => answer.page(&self.files[*index]),
            Route::Status(code) => {
                answer.status(*code);
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

    /// What [`Tail`]s are parts of.
    pub fn store(&self) -> BorrowedFd<'_> {
        self.store.as_fd()
    }

    /// Copies what stands `skip` bytes into a tail.
    pub fn copy(&self, tail: Tail, skip: u64, into: &mut [u8]) {
        self.store.copy(tail, skip, into);
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
        let body = self.store.keep(bytes).map_err(store_error)?;
        self.files.push(Page::new(content_type(path), body));
        let below = path.strip_prefix(root).unwrap_or(path);
        let name = format!("/{}", below.to_string_lossy());
        if let Some(directory) = name.strip_suffix("/index.html") {
            self.paths.insert(format!("{directory}/"), index);
        }
        self.paths.insert(name, index);
        Ok(())
    }
}

fn store_error(cause: io::Error) -> OriginError {
    OriginError::Store { cause }
}

fn file_error(path: &Path, cause: io::Error) -> OriginError {
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
fn percent_decoded(path: &str) -> Cow<'_, str> {
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

fn built_in(path: &str) -> Route {
    match path {
        "/" => Route::Root,
        "/upload" => Route::Upload,
        _ => match (path.strip_prefix("/bytes/"), path.strip_prefix("/status/")) {
            (Some(size), _) => sized(size),
            (_, Some(code)) => status(code),
            _ => Route::NotFound,
        },
    }
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
    use crate::origin::answer::ConnectionField;
    use http1::parse_response;

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
            ("//bytes/5", Route::NotFound),
            ("bytes/5", Route::NotFound),
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

    /// The answer's status, and its body put together.
    fn answered(content: &Content, target: &str) -> (u16, Vec<u8>) {
        let mut out = Vec::new();
        let answer = Answer::new(&mut out, ConnectionField::Omitted, false);
        let tail = content.answer(&content.route(target), answer);
        let head = parse_response(&out, false).unwrap().expect("a whole head");
        let mut body = out.split_off(head.head_len);
        if let Some(tail) = tail {
            body.extend(content.store.read(Err(tail)));
        }
        (head.status, body)
    }

    #[test]
    fn the_status_is_known_before_the_answer() {
        let content = content();
        for (target, status) in [
            ("/", 200),
            ("/bytes/1M", 200),
            ("/status/503", 503),
            ("/nowhere", 404),
            ("/bytes/x", 400),
        ] {
            assert_eq!(answered(&content, target).0, status, "{target}");
            assert_eq!(Content::status(&content.route(target)), status, "{target}");
        }
        assert_eq!(answered(&content, "/").1.len(), 1024);
        let (_, known) = answered(&content, "/nowhere");
        assert!(String::from_utf8(known).unwrap().contains("/bytes/SIZE"));
    }

    #[test]
    fn files_below_the_directory_and_no_others() {
        let root = tempfile::tempdir().unwrap();
        let served = root.path().join("www");
        std::fs::create_dir_all(served.join("sub dir")).unwrap();
        std::fs::write(served.join("index.html"), "<p>").unwrap();
        std::fs::write(served.join("sub dir/large.bin"), vec![7; 100_000]).unwrap();
        std::fs::write(served.join("other.bin"), vec![8; 20_000]).unwrap();
        std::fs::write(root.path().join("secret"), "x").unwrap();
        std::os::unix::fs::symlink(&served, served.join("circle")).unwrap();
        let content = Content::new(Bytes(1), Some(&served)).unwrap();
        for (target, expected) in [
            ("/", b"<p>".to_vec()),
            ("/index.html?x", b"<p>".to_vec()),
            ("/sub%20dir/large.bin", vec![7; 100_000]),
            ("/other.bin", vec![8; 20_000]),
        ] {
            let (status, body) = answered(&content, target);
            assert!(status == 200 && body == expected, "{target}");
        }
        for target in [
            "/../secret",
            "/%2e%2e/secret",
            "/circle/index.html",
            "/sub%20dir/",
            "/%zz%",
        ] {
            let (status, body) = answered(&content, target);
            assert_eq!(status, 404, "{target}");
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
