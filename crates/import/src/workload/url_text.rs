//! Texts in URLs: percent-encoding and its undoing (RFC 3986 2.1), and a URL taken apart into server and target.

use url::{Position, Url};

/// Everything but unreserved characters as `%XX`.
pub(super) fn encoded(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                out.push(char::from(byte));
            }
            _ => out += &format!("%{byte:02X}"),
        }
    }
    out
}

/// `%XX` and `+` undone; what is no such thing stays.
pub(super) fn decoded(text: &str) -> String {
    let form = url::form_urlencoded::parse(text.as_bytes()).next();
    form.map_or_else(String::new, |(name, _)| name.into_owned())
}

/// Scheme, host and port without credentials.
pub(super) fn server(url: &Url) -> String {
    let scheme = &url[..Position::AfterScheme];
    format!(
        "{scheme}://{}",
        &url[Position::BeforeHost..Position::AfterPort]
    )
}

/// Path and query.
pub(super) fn target(url: &Url) -> &str {
    &url[Position::BeforePath..Position::AfterQuery]
}
