//! From a [`LoadSpec`] to the bytes of its request, made once before the load.

use super::event_streams::MEDIA_TYPE;
use super::{LoadError, way};
use crate::transport::{Upgrade, grpc, websocket};
use record::{Body, Close, LoadSpec};
use url::{Position, Url};

/// A request, ready to be sent.
#[derive(Debug)]
pub(crate) struct PreparedRequest {
    /// Head and body.
    pub bytes: Vec<u8>,
    /// It says `Connection: close`.
    pub announces_close: bool,
}

/// Reads the URL of a load.
pub(crate) fn parse_url(text: &str) -> Result<Url, LoadError> {
    let url = Url::parse(text).map_err(|cause| LoadError::Url {
        url: text.to_owned(),
        cause,
    })?;
    let text = text.to_owned();
    match url.scheme() {
        "http" | "https" | "ws" | "wss" => {}
        scheme => {
            let scheme = scheme.to_owned();
            return Err(LoadError::Scheme { url: text, scheme });
        }
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(LoadError::Credentials { url: text });
    }
    Ok(url)
}

/// Builds the request.
///
/// A request that is the only one on its connection announces the close (RFC 9112 9.6), so that the
/// server closes first and TIME_WAIT does not use up the client's ports; with a reset there is none.
pub(crate) fn build(spec: &LoadSpec, url: &Url) -> Result<PreparedRequest, LoadError> {
    check_method(&spec.method)?;
    let mut body = read_body(&spec.body)?;
    let mut method = spec.method.as_str();
    let mut own: &[(&str, &str)] = &[];
    if spec.grpc {
        body = grpc::framed(&body);
        method = "POST";
        own = &[("Content-Type", "application/grpc"), ("TE", "trailers")];
    }
    if spec.sse {
        own = &[("Accept", MEDIA_TYPE)];
    }
    if spec.is_websocket() {
        return Ok(PreparedRequest {
            bytes: websocket::sending::framed(&body, spec.ws_binary),
            announces_close: false,
        });
    }
    let given = |name: &str| given(spec, name);
    let mut bytes = head(spec, url, method, own)?;
    let framed = given("content-length").or_else(|| given("transfer-encoding"));
    if framed.is_none() && (!body.is_empty() || expects_body(method)) {
        let length = body.len().to_string();
        push(&mut bytes, &["Content-Length: ", &length, "\r\n"]);
    }
    let mut announces_close = given("connection").is_some_and(|(_, value)| {
        value
            .split(',')
            .any(|o| o.trim().eq_ignore_ascii_case("close"))
    });
    // HTTP/1.0 ends a connection that does not ask to be kept (RFC 9112 9.3).
    announces_close |= spec.habits.http_1_0 && given("connection").is_none();
    let only_one = spec.requests_per_connection == Some(1) && spec.close == Close::Fin;
    let only_one = only_one && !announces_close;
    if only_one && given("connection").is_none() {
        push(&mut bytes, &["Connection: close\r\n"]);
        announces_close = true;
    }
    push(&mut bytes, &["\r\n"]);
    bytes.extend_from_slice(&body);
    Ok(PreparedRequest {
        bytes,
        announces_close,
    })
}

fn given<'a>(spec: &'a LoadSpec, name: &str) -> Option<&'a (String, String)> {
    let mut named = spec.headers.iter();
    named.find(|(given, _)| given.eq_ignore_ascii_case(name))
}

/// The request that opens a WebSocket, or `None` for another load.
pub(crate) fn upgrade(spec: &LoadSpec, url: &Url) -> Result<Option<Upgrade>, LoadError> {
    if !spec.is_websocket() {
        return Ok(None);
    }
    let offered = given(spec, "sec-websocket-protocol");
    let offered = offered.map_or("", |(_, value)| value);
    Ok(Some(Upgrade::new(&head(spec, url, "GET", &[])?, offered)))
}

/// Request line and the headers that do not speak of a body or the connection.
fn head(
    spec: &LoadSpec,
    url: &Url,
    method: &str,
    own: &[(&str, &str)],
) -> Result<Vec<u8>, LoadError> {
    let mut bytes = Vec::new();
    let target = &url[Position::BeforePath..Position::AfterQuery];
    let version = if spec.habits.http_1_0 { "0" } else { "1" };
    let prefix = way::prefix(spec, url);
    let line = [method, " ", prefix, target, " HTTP/1.", version, "\r\n"];
    push(&mut bytes, &line);
    if given(spec, "host").is_none() {
        let host = &url[Position::BeforeHost..Position::AfterPort];
        push(&mut bytes, &["Host: ", host, "\r\n"]);
    }
    push(&mut bytes, &[&way::authorization(spec, url)]);
    for (name, value) in own.iter().filter(|(name, _)| given(spec, name).is_none()) {
        push(&mut bytes, &[name, ": ", value, "\r\n"]);
    }
    for (name, value) in &spec.headers {
        check_header(name, value)?;
        push(&mut bytes, &[name, ": ", value, "\r\n"]);
    }
    Ok(bytes)
}

fn push(bytes: &mut Vec<u8>, parts: &[&str]) {
    for part in parts {
        bytes.extend_from_slice(part.as_bytes());
    }
}

fn read_body(body: &Body) -> Result<Vec<u8>, LoadError> {
    match body {
        Body::None => Ok(Vec::new()),
        Body::Text(text) => Ok(text.as_bytes().to_vec()),
        Body::File(path) => std::fs::read(path).map_err(|cause| LoadError::BodyFile {
            path: path.clone(),
            cause,
        }),
    }
}

/// RFC 9110 8.6: methods that give a meaning to content send a length even of nothing.
pub(crate) fn expects_body(method: &str) -> bool {
    matches!(method, "POST" | "PUT" | "PATCH")
}

/// RFC 9110 5.6.2.
fn is_token(text: &str) -> bool {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
    !text.is_empty() && text.bytes().all(allowed)
}

pub(crate) fn check_method(method: &str) -> Result<(), LoadError> {
    is_token(method)
        .then_some(())
        .ok_or_else(|| LoadError::Method {
            method: method.to_owned(),
        })
}

pub(crate) fn check_header(name: &str, value: &str) -> Result<(), LoadError> {
    let cause = if !is_token(name) {
        "its name is not a header name"
    } else if value.bytes().any(|b| matches!(b, b'\r' | b'\n' | 0)) {
        "its value holds a line end or a NUL"
    } else {
        return Ok(());
    };
    Err(LoadError::Header {
        name: name.to_owned(),
        value: value.escape_debug().to_string(),
        cause,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn built(change: impl FnOnce(&mut LoadSpec)) -> Result<String, LoadError> {
        let mut spec = LoadSpec::new("http://example.test:8080/a%20b?c=d#e");
        change(&mut spec);
        let url = parse_url(&spec.url)?;
        build(&spec, &url).map(|request| String::from_utf8_lossy(&request.bytes).into_owned())
    }

    #[test]
    fn requests_are_as_short_as_the_protocol_allows() {
        let host = "Host: example.test:8080\r\n";
        let header = |name: &str, value: &str| vec![(name.to_owned(), value.to_owned())];
        let get = format!("GET /a%20b?c=d HTTP/1.1\r\n{host}\r\n");
        assert_eq!(built(|_| {}).unwrap(), get);
        assert_eq!(
            built(|s| s.headers = header("host", "other")).unwrap(),
            "GET /a%20b?c=d HTTP/1.1\r\nhost: other\r\n\r\n"
        );
        assert_eq!(
            built(|s| s.requests_per_connection = Some(1)).unwrap(),
            format!("GET /a%20b?c=d HTTP/1.1\r\n{host}Connection: close\r\n\r\n")
        );
        let reset = |s: &mut LoadSpec| {
            s.requests_per_connection = Some(1);
            s.close = Close::Rst;
        };
        assert_eq!(built(reset).unwrap(), get);
        let post = |s: &mut LoadSpec| {
            s.method = "POST".to_owned();
            s.body = Body::Text("hello".to_owned());
        };
        assert_eq!(
            built(post).unwrap(),
            format!("POST /a%20b?c=d HTTP/1.1\r\n{host}Content-Length: 5\r\n\r\nhello")
        );
        assert!(
            built(|s| s.method = "PUT".to_owned())
                .unwrap()
                .contains("Content-Length: 0\r\n")
        );
    }

    #[test]
    fn default_ports_are_not_named() {
        let url = parse_url("http://[::1]:80").unwrap();
        let request = build(&LoadSpec::new("http://[::1]:80"), &url).unwrap();
        assert_eq!(request.bytes, b"GET / HTTP/1.1\r\nHost: [::1]\r\n\r\n");
    }

    #[test]
    fn what_cannot_be_sent_is_refused_with_the_near_miss() {
        let remedy = |text: &str| parse_url(text).unwrap_err().remedy();
        assert_eq!(
            remedy("localhost:8080/x"),
            "did you mean http://localhost:8080/x?"
        );
        assert_eq!(remedy("htps://a/"), "did you mean https://a/?");
        assert_eq!(remedy("htp://a/"), "did you mean http://a/?");
        assert!(matches!(parse_url("http://"), Err(LoadError::Url { .. })));
        assert!(matches!(
            parse_url("http://me:secret@a/"),
            Err(LoadError::Credentials { .. })
        ));
        let smuggled = built(|s| s.headers = vec![("X".to_owned(), "a\r\nB: c".to_owned())]);
        assert!(matches!(smuggled, Err(LoadError::Header { .. })));
        let method = built(|s| s.method = "GE T".to_owned());
        assert!(matches!(method, Err(LoadError::Method { .. })));
        let missing = built(|s| s.body = Body::File("/nonexistent/body".to_owned()));
        assert!(matches!(missing, Err(LoadError::BodyFile { .. })));
    }
}
