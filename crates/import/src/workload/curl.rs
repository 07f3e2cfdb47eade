//! Command lines of curl -> a request each: one alone is a request, several are a session's steps.
//!
//! Options go by curl's manual (curl(1), 8.x): those that change a request are carried over, those of curl's own
//! output are passed over, those that a load has a flag for are named with it. One that is not known is refused, for
//! nobody can tell whether the next word is its value.

use super::draft::{Call, Draft, name_of};
use super::{Refusal, WorkloadOptions, shell, url_text};
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use record::workload::{Template, WorkloadBody};
use url::Url;

/// What a form's parts are separated by; RFC 2046 5.1.1 asks only that it is in none of them.
const BOUNDARY: &str = "----prony-form-boundary-7d1b3c5a";

/// What an option does.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Does {
    /// Without a value: one of curl's output, of no effect on the request.
    Nothing,
    /// The same, with a value.
    NothingWith,
    /// Told with what a load has in its place; without a value.
    Told(&'static str),
    /// The same, with a value.
    ToldWith(&'static str),
    /// Changes the request; without a value.
    Flag,
    /// Changes the request; with a value.
    With,
}

/// Long name, short one, what it does.
const OPTIONS: &[(&str, char, Does)] = &[
    ("request", 'X', Does::With),
    ("header", 'H', Does::With),
    ("data", 'd', Does::With),
    ("data-ascii", ' ', Does::With),
    ("data-raw", ' ', Does::With),
    ("data-binary", ' ', Does::With),
    ("data-urlencode", ' ', Does::With),
    ("json", ' ', Does::With),
    ("form", 'F', Does::With),
    ("form-string", ' ', Does::With),
    ("upload-file", 'T', Does::With),
    ("get", 'G', Does::Flag),
    ("head", 'I', Does::Flag),
    ("user", 'u', Does::With),
    ("oauth2-bearer", ' ', Does::With),
    ("cookie", 'b', Does::With),
    ("user-agent", 'A', Does::With),
    ("referer", 'e', Does::With),
    ("range", 'r', Does::With),
    ("compressed", ' ', Does::Flag),
    ("url", ' ', Does::With),
    ("globoff", 'g', Does::Flag),
    ("next", ':', Does::Flag),
    ("basic", ' ', Does::Nothing),
    ("insecure", 'k', Does::Told("give prony load --insecure")),
    ("location", 'L', Does::Told(REDIRECTS)),
    ("location-trusted", ' ', Does::Told(REDIRECTS)),
    ("http1.1", ' ', Does::Nothing),
    ("http1.0", '0', Does::Told("a load speaks HTTP/1.1 or 2")),
    ("http2", ' ', Does::Told("give prony load --http 2")),
    (
        "http2-prior-knowledge",
        ' ',
        Does::Told("give prony load --http 2"),
    ),
    ("http3", ' ', Does::Told("a load speaks HTTP/1.1 or 2")),
    (
        "resolve",
        ' ',
        Does::ToldWith("give prony load --connect-to ADDRESS"),
    ),
    (
        "connect-to",
        ' ',
        Does::ToldWith("give prony load --connect-to ADDRESS"),
    ),
    ("proxy", 'x', Does::ToldWith(NOT_CARRIED)),
    ("proxy-user", 'U', Does::ToldWith(NOT_CARRIED)),
    ("socks5", ' ', Does::ToldWith(NOT_CARRIED)),
    ("socks5-hostname", ' ', Does::ToldWith(NOT_CARRIED)),
    ("noproxy", ' ', Does::NothingWith),
    ("unix-socket", ' ', Does::ToldWith(NOT_CARRIED)),
    (
        "interface",
        ' ',
        Does::ToldWith("give prony load --source ADDRESS"),
    ),
    ("limit-rate", ' ', Does::ToldWith(NOT_CARRIED)),
    ("rate", ' ', Does::ToldWith("give prony load -R RATE")),
    (
        "max-time",
        'm',
        Does::ToldWith("give prony load --timeout TIME"),
    ),
    (
        "connect-timeout",
        ' ',
        Does::ToldWith("give prony load --timeout TIME"),
    ),
    (
        "cacert",
        ' ',
        Does::ToldWith("give prony load --cacert FILE"),
    ),
    ("cert", 'E', Does::ToldWith("give prony load --cert FILE")),
    ("key", ' ', Does::ToldWith("give prony load --key FILE")),
    (
        "cookie-jar",
        'c',
        Does::ToldWith("`cookies = true` in the file keeps cookies, for each client"),
    ),
    ("digest", ' ', Does::Told(NOT_CARRIED)),
    ("ntlm", ' ', Does::Told(NOT_CARRIED)),
    ("negotiate", ' ', Does::Told(NOT_CARRIED)),
    ("anyauth", ' ', Does::Told(NOT_CARRIED)),
    ("netrc", 'n', Does::Told(NOT_CARRIED)),
    ("silent", 's', Does::Nothing),
    ("show-error", 'S', Does::Nothing),
    ("verbose", 'v', Does::Nothing),
    ("include", 'i', Does::Nothing),
    ("show-headers", ' ', Does::Nothing),
    ("fail", 'f', Does::Nothing),
    ("fail-with-body", ' ', Does::Nothing),
    ("fail-early", ' ', Does::Nothing),
    ("progress-bar", '#', Does::Nothing),
    ("no-progress-meter", ' ', Does::Nothing),
    ("no-buffer", 'N', Does::Nothing),
    ("buffer", ' ', Does::Nothing),
    ("no-keepalive", ' ', Does::Nothing),
    ("ipv4", '4', Does::Nothing),
    ("ipv6", '6', Does::Nothing),
    ("disable", 'q', Does::Nothing),
    ("parallel", 'Z', Does::Nothing),
    ("path-as-is", ' ', Does::Nothing),
    ("tcp-nodelay", ' ', Does::Nothing),
    ("tlsv1.2", ' ', Does::Nothing),
    ("tlsv1.3", ' ', Does::Nothing),
    ("remote-name", 'O', Does::Nothing),
    ("remote-header-name", 'J', Does::Nothing),
    ("output", 'o', Does::NothingWith),
    ("output-dir", ' ', Does::NothingWith),
    ("create-dirs", ' ', Does::Nothing),
    ("write-out", 'w', Does::NothingWith),
    ("dump-header", 'D', Does::NothingWith),
    ("trace", ' ', Does::NothingWith),
    ("trace-ascii", ' ', Does::NothingWith),
    ("stderr", ' ', Does::NothingWith),
    ("max-redirs", ' ', Does::NothingWith),
    ("retry", ' ', Does::NothingWith),
    ("retry-delay", ' ', Does::NothingWith),
    ("retry-max-time", ' ', Does::NothingWith),
    ("retry-connrefused", ' ', Does::Nothing),
    ("keepalive-time", ' ', Does::NothingWith),
    ("ciphers", ' ', Does::NothingWith),
    ("proto", ' ', Does::NothingWith),
    ("proto-default", ' ', Does::NothingWith),
];
const REDIRECTS: &str = "a load follows no redirects: write a step for the place that it leads to";
const NOT_CARRIED: &str = "it is not carried over";

/// Reads one or several commands.
pub(super) fn read(text: &str, options: &WorkloadOptions) -> Result<Draft, Refusal> {
    let mut draft = Draft::new(options.secrets);
    let mut commands = Vec::new();
    for command in shell::commands(text)? {
        // A prompt, or a program that runs or times it.
        let at = command.iter().position(|word| {
            let program = word.rsplit('/').next().unwrap_or(word);
            program == "curl" || program == "curl.exe"
        });
        let before = &command[..at.unwrap_or(0)];
        let is_prompt =
            |word: &String| ["$", "%", "#", "time", "exec", "sudo"].contains(&word.as_str());
        match at {
            Some(at) if before.iter().all(is_prompt) => commands.push(command[at + 1..].to_vec()),
            _ => {
                let first = command.first().map_or("", String::as_str);
                return Err(Refusal::new(
                    format!("`{first}` is not curl"),
                    "give commands of curl alone",
                ));
            }
        }
    }
    let mut server = None;
    for words in commands {
        for words in words.split(|word| word == "--next" || word == "-:") {
            let command = Command::read(words, &mut draft)?;
            for url in &command.urls {
                let url = url_of(url, command.is_literal)?;
                let this = url_text::server(&url);
                let server = server.get_or_insert_with(|| this.clone());
                if *server != this {
                    return Err(Refusal::new(
                        format!("it names two servers, {server} and {this}"),
                        "a load has one server: give the commands of one",
                    ));
                }
                let call = command.call(&url, &mut draft)?;
                draft.sent(call)?;
            }
        }
    }
    draft.server = server;
    draft.is_session = draft.calls.len() > 1;
    Ok(draft.close())
}

fn url_of(text: &str, is_literal: bool) -> Result<Url, Refusal> {
    let with_scheme = match text.contains("://") {
        true => text.to_owned(),
        false => format!("http://{text}"),
    };
    let path_at = with_scheme.find("://").map_or(0, |at| at + 3);
    let path_at = with_scheme[path_at..]
        .find('/')
        .map_or(with_scheme.len(), |at| path_at + at);
    if !is_literal && with_scheme[path_at..].contains(['{', '[']) {
        return Err(Refusal::new(
            format!("curl makes several URLs of `{text}`"),
            "give one of them, and write {{integer 1 100}} in the file; or give curl's -g if it is meant as it is",
        ));
    }
    let refused = |cause: String| {
        Refusal::new(
            format!("`{text}` is no URL that a load can send to: {cause}"),
            "give a URL such as http://127.0.0.1:8080/",
        )
    };
    let url = Url::parse(&with_scheme).map_err(|e| refused(e.to_string()))?;
    if !["http", "https"].contains(&url.scheme()) || !url.has_host() {
        return Err(refused("it is not of http or https".to_owned()));
    }
    Ok(url)
}

/// A part of a body, as it was given.
enum Data {
    Text(String),
    File(String),
}

#[derive(Default)]
struct Command {
    urls: Vec<String>,
    method: Option<String>,
    /// Names and values; `None` takes curl's own away.
    headers: Vec<(String, Option<String>)>,
    data: Vec<Data>,
    is_json: bool,
    form: Vec<(String, String)>,
    upload: Option<String>,
    is_get: bool,
    is_head: bool,
    is_literal: bool,
    is_compressed: bool,
    user: Option<String>,
}

impl Command {
    fn read(words: &[String], draft: &mut Draft) -> Result<Self, Refusal> {
        let mut command = Command::default();
        let mut words = words.iter();
        let mut only_urls = false;
        while let Some(word) = words.next() {
            if only_urls || !word.starts_with('-') || word == "-" {
                command.urls.push(word.clone());
            } else if word == "--" {
                only_urls = true;
            } else if let Some(name) = word.strip_prefix("--") {
                let (long, _, does) = long(name)?;
                let value = match takes_value(does) {
                    true => Some(words.next().ok_or_else(|| lacks_value(word))?.clone()),
                    false => None,
                };
                command.apply(long, does, value, word, draft)?;
            } else {
                let mut letters = word[1..].chars();
                while let Some(letter) = letters.next() {
                    let (long, _, does) = short(letter)?;
                    let mut value = None;
                    if takes_value(does) {
                        let rest = letters.as_str().to_owned();
                        letters = "".chars();
                        value = Some(match rest.is_empty() {
                            true => words.next().ok_or_else(|| lacks_value(word))?.clone(),
                            false => rest,
                        });
                    }
                    command.apply(long, does, value, &format!("-{letter}"), draft)?;
                }
            }
        }
        if command.urls.is_empty() {
            return Err(Refusal::new(
                "a command of curl has no URL",
                "copy the whole command",
            ));
        }
        Ok(command)
    }

    fn apply(
        &mut self,
        long: &str,
        does: Does,
        value: Option<String>,
        typed: &str,
        draft: &mut Draft,
    ) -> Result<(), Refusal> {
        match does {
            Does::Nothing | Does::NothingWith => return Ok(()),
            Does::Told(what) | Does::ToldWith(what) => {
                draft.note(format!("{typed} of curl: {what}"));
                return Ok(());
            }
            Does::Flag | Does::With => {}
        }
        let value = value.unwrap_or_default();
        match long {
            "request" => self.method = Some(value),
            "header" => self.header(&value)?,
            "data" | "data-ascii" => match value.strip_prefix('@') {
                Some(file) => {
                    draft.note(format!(
                        "{typed} @{file}: curl takes line ends out of the file, the load sends it as it is"
                    ));
                    self.data.push(file_of(file, typed)?);
                }
                None => self.data.push(Data::Text(value)),
            },
            "data-raw" => self.data.push(Data::Text(value)),
            "data-binary" | "json" => {
                self.is_json |= long == "json";
                match value.strip_prefix('@') {
                    Some(file) => self.data.push(file_of(file, typed)?),
                    None => self.data.push(Data::Text(value)),
                }
            }
            "data-urlencode" => self.data.push(Data::Text(url_encoded(&value, typed)?)),
            "form" => self.form.push(form_field(&value)?),
            "form-string" => self.form.push(name_and_value(&value)?),
            "upload-file" => self.upload = Some(value),
            "get" => self.is_get = true,
            "head" => self.is_head = true,
            "globoff" => self.is_literal = true,
            "compressed" => self.is_compressed = true,
            "user" => self.user = Some(value),
            "oauth2-bearer" => self.set("Authorization", &format!("Bearer {value}")),
            "cookie" if value.contains('=') => self.set("Cookie", &value),
            "cookie" => draft.note(format!(
                "{typed} {value} of curl: cookies of a file are not carried over; `cookies = true` keeps those of the server"
            )),
            "user-agent" => self.set("User-Agent", &value),
            "referer" => self.set("Referer", value.trim_end_matches(";auto")),
            "range" => self.set("Range", &format!("bytes={value}")),
            _ => self.urls.push(value),
        }
        Ok(())
    }

    fn set(&mut self, name: &str, value: &str) {
        self.headers.push((name.to_owned(), Some(value.to_owned())));
    }

    /// `Name: value`; `Name:` takes curl's own away, `Name;` is one without a value.
    fn header(&mut self, line: &str) -> Result<(), Refusal> {
        if let Some(file) = line.strip_prefix('@') {
            return Err(Refusal::new(
                format!("-H @{file} takes headers from a file, which is not read"),
                "write each header as -H 'Name: value'",
            ));
        }
        match line.split_once(':') {
            Some((name, value)) if value.trim().is_empty() => {
                self.headers.push((name.trim().to_owned(), None));
            }
            Some((name, value)) => self.set(name.trim(), value.trim()),
            None => match line.trim_end().strip_suffix(';') {
                Some(name) => self.set(name, ""),
                None => {
                    return Err(Refusal::new(
                        format!("-H '{line}' is no header"),
                        "write it as -H 'Name: value'",
                    ));
                }
            },
        }
        Ok(())
    }

    fn call(&self, url: &Url, draft: &mut Draft) -> Result<Call, Refusal> {
        let mut url = url.clone();
        let mut call = Call::default();
        let mut kind = None;
        let mut method = "GET";
        if self.is_get {
            let mut query: Vec<&str> = url.query().into_iter().collect();
            for data in &self.data {
                match data {
                    Data::Text(text) => query.push(text),
                    Data::File(file) => {
                        return Err(Refusal::new(
                            format!("-G takes the query from `{file}`, which is not read"),
                            "write the query into the URL",
                        ));
                    }
                }
            }
            if !query.is_empty() {
                let query = query.join("&");
                url.set_query(Some(&query));
            }
        } else if !self.form.is_empty() {
            (method, kind) = (
                "POST",
                Some(format!("multipart/form-data; boundary={BOUNDARY}")),
            );
            call.body = WorkloadBody::Text(Template::plain(multipart(&self.form)));
        } else if !self.data.is_empty() {
            let of = match self.is_json {
                true => "application/json",
                false => "application/x-www-form-urlencoded",
            };
            (method, kind) = ("POST", Some(of.to_owned()));
            call.body = self.body()?;
        } else if let Some(file) = &self.upload {
            method = "PUT";
            if let Data::File(file) = file_of(file, "-T")? {
                if url.path().ends_with('/') {
                    let name = file.rsplit('/').next().unwrap_or(&file);
                    let path = format!("{}{}", url.path(), url_text::encoded(name));
                    url.set_path(&path);
                }
                call.body = WorkloadBody::File(file);
            }
        }
        if self.is_head {
            method = "HEAD";
        }
        call.method = self.method.clone().unwrap_or_else(|| method.to_owned());
        let target = url_text::target(&url).to_owned();
        call.name = name_of(&call.method, &target);
        call.target = Template::plain(target);
        self.headers_of(&mut call, &url, kind, draft);
        Ok(call)
    }

    fn headers_of(&self, call: &mut Call, url: &Url, kind: Option<String>, draft: &mut Draft) {
        for (name, value) in &self.headers {
            if let Some(value) = value {
                match name.eq_ignore_ascii_case("host") {
                    // Meant: another host than that of the URL.
                    true => call
                        .headers
                        .push(("Host".to_owned(), Template::plain(value))),
                    false => draft.header(call, name, &Template::plain(value)),
                }
            }
        }
        let user = self.user.clone().or_else(|| {
            let user = url_text::decoded(url.username());
            let password = url_text::decoded(url.password().unwrap_or(""));
            (!user.is_empty()).then(|| format!("{user}:{password}"))
        });
        let mut own = Vec::new();
        if let Some(user) = user {
            // curl asks for a password that is not given; here it is empty.
            let user = if user.contains(':') { user } else { user + ":" };
            own.push(("Authorization", format!("Basic {}", BASE64.encode(user))));
        }
        own.extend(kind.map(|kind| ("Content-Type", kind)));
        let accept = if self.is_json {
            "application/json"
        } else {
            "*/*"
        };
        own.push(("Accept", accept.to_owned()));
        if self.is_compressed {
            own.push(("Accept-Encoding", "deflate, gzip, br, zstd".to_owned()));
        }
        for (name, value) in own {
            let mut given = self.headers.iter();
            if !given.any(|(given, _)| given.eq_ignore_ascii_case(name)) {
                draft.header(call, name, &Template::plain(value));
            }
        }
    }

    fn body(&self) -> Result<WorkloadBody, Refusal> {
        let mut texts = Vec::new();
        for data in &self.data {
            match data {
                Data::Text(text) => texts.push(text.as_str()),
                Data::File(file) if self.data.len() == 1 => {
                    return Ok(WorkloadBody::File(file.clone()));
                }
                Data::File(file) => {
                    return Err(Refusal::new(
                        format!("a body is put together from `{file}` and other parts"),
                        "write the whole body into one file and send it with --data-binary @FILE",
                    ));
                }
            }
        }
        let with = if self.is_json { "" } else { "&" };
        Ok(WorkloadBody::Text(Template::plain(texts.join(with))))
    }
}

fn takes_value(does: Does) -> bool {
    matches!(does, Does::With | Does::NothingWith | Does::ToldWith(_))
}

fn lacks_value(word: &str) -> Refusal {
    Refusal::new(format!("{word} has no value"), "copy the whole command")
}

fn long(name: &str) -> Result<(&'static str, char, Does), Refusal> {
    let found = OPTIONS.iter().find(|(long, ..)| *long == name);
    found.copied().ok_or_else(|| {
        let near = plan::near_miss(name, OPTIONS.iter().map(|(long, ..)| *long));
        unknown(&format!("--{name}"), near)
    })
}

fn short(letter: char) -> Result<(&'static str, char, Does), Refusal> {
    let found = OPTIONS
        .iter()
        .find(|(_, short, _)| *short == letter && letter != ' ');
    found
        .copied()
        .ok_or_else(|| unknown(&format!("-{letter}"), None))
}

fn unknown(option: &str, near: Option<String>) -> Refusal {
    Refusal::new(
        format!("the option {option} of curl is not known here"),
        match near {
            Some(near) => format!("did you mean --{near}? otherwise take it out of the command"),
            None => "take it out of the command, with its value if it has one".to_owned(),
        },
    )
}

fn file_of(file: &str, typed: &str) -> Result<Data, Refusal> {
    match file.is_empty() || file == "-" || file == "." {
        true => Err(Refusal::new(
            format!("{typed} takes its content from standard input, which a load has not"),
            "write it into a file and name that",
        )),
        false => Ok(Data::File(file.to_owned())),
    }
}

/// `content`, `=content`, `name=content`; `@file` and `name@file` are files.
fn url_encoded(value: &str, typed: &str) -> Result<String, Refusal> {
    match value.find(['=', '@']) {
        Some(at) if value[at..].starts_with('@') => Err(Refusal::new(
            format!("{typed} '{value}' encodes a file, which is not read"),
            "give the text itself",
        )),
        Some(0) => Ok(url_text::encoded(&value[1..])),
        Some(at) => Ok(format!(
            "{}={}",
            &value[..at],
            url_text::encoded(&value[at + 1..])
        )),
        None => Ok(url_text::encoded(value)),
    }
}

fn name_and_value(field: &str) -> Result<(String, String), Refusal> {
    let pair = field.split_once('=');
    let (name, value) = pair.ok_or_else(|| {
        Refusal::new(
            format!("-F '{field}' is no field of a form"),
            "write it as -F 'name=value'",
        )
    })?;
    Ok((name.to_owned(), value.to_owned()))
}

fn form_field(field: &str) -> Result<(String, String), Refusal> {
    let (name, value) = name_and_value(field)?;
    if value.starts_with(['@', '<']) {
        return Err(Refusal::new(
            format!("-F '{field}' sends a file as a part of a form, and files are not read here"),
            "make the whole body with another program and send it with --data-binary @FILE and its Content-Type",
        ));
    }
    // `;type=...` of a text part is its own header, which servers seldom look at.
    let value = value.split(";type=").next().unwrap_or("").trim_matches('"');
    Ok((name, value.to_owned()))
}

/// RFC 7578.
fn multipart(fields: &[(String, String)]) -> String {
    let mut body = String::new();
    for (name, value) in fields {
        let name = name.replace('"', "%22").replace(['\r', '\n'], " ");
        body += &format!(
            "--{BOUNDARY}\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n"
        );
    }
    body + &format!("--{BOUNDARY}--\r\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::{ConvertedWorkload, WorkloadFormat, convert};
    use record::Workload;
    use record::workload::Order;

    fn made(text: &str, secrets: bool) -> (Workload, ConvertedWorkload) {
        let options = WorkloadOptions {
            secrets,
            ..WorkloadOptions::default()
        };
        let made = convert(WorkloadFormat::Curl, "curl.txt", text.as_bytes(), &options).unwrap();
        (plan::workload::parse(&made.text, "w").unwrap(), made)
    }

    fn refused(text: &str) -> String {
        let options = WorkloadOptions::default();
        let made = convert(WorkloadFormat::Curl, "c", text.as_bytes(), &options);
        let error = made.unwrap_err();
        assert!(!error.remedy().is_empty(), "{error}");
        error.to_string()
    }

    /// Method, target and the named header of the one request.
    fn check(command: &str, expected: (&str, &str), header: &str, value: Option<&str>) {
        let (workload, made) = made(command, true);
        let [request] = workload.requests.as_slice() else {
            panic!("{}", made.text)
        };
        let target = request.target.to_string();
        assert_eq!(
            (request.method.as_str(), target.as_str()),
            expected,
            "{command}"
        );
        let mut headers = request.headers.iter();
        let found = headers.find(|(name, _)| name.eq_ignore_ascii_case(header));
        let found = found.map(|(_, value)| value.literal().unwrap());
        assert_eq!(found, value, "{command}");
    }

    fn body(command: &str) -> String {
        match made(command, true).0.requests.remove(0).body {
            WorkloadBody::Text(body) => body.literal().unwrap().to_owned(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_chrome_copies_becomes_a_request() {
        let copied = "curl 'https://shop.example.test/api/cart?x=1' \\\n  -H 'accept: application/json' \\\n  \
                      -H 'content-type: application/json' \\\n  -b 'sid=s3cret; theme=dark' \\\n  \
                      -H 'authorization: Bearer eyJ' \\\n  -H 'user-agent: Mozilla/5.0' \\\n  \
                      --data-raw $'{\"note\": \"it\\'s\\u0021\", \"password\": \"s3cret\"}' \\\n  --compressed \\\n  -k -L";
        let (workload, made) = made(copied, false);
        assert_eq!(workload.order, Order::Mix);
        let request = &workload.requests[0];
        assert_eq!(
            request.target.to_string(),
            "https://shop.example.test/api/cart?x=1"
        );
        assert_eq!(request.method, "POST");
        assert_eq!(
            request.body,
            WorkloadBody::Text(Template::plain(
                r#"{"note": "it's!", "password": "FILL_IN"}"#
            ))
        );
        let names: Vec<&str> = request
            .headers
            .iter()
            .map(|(name, _)| name.as_str())
            .collect();
        assert_eq!(
            names,
            ["accept", "content-type", "user-agent", "Accept-Encoding"]
        );
        for said in [
            "-k of curl: give prony load --insecure",
            "-L of curl: a load follows no redirects",
            "left out as credentials: Cookie, authorization",
            "replaced by FILL_IN as credentials: password",
        ] {
            assert!(
                made.notes.iter().any(|n| n.contains(said)),
                "{said}: {:#?}",
                made.notes
            );
        }
        assert!(!made.text.contains("s3cret"));
    }

    #[test]
    fn options_change_the_request_as_curl_does() {
        let h = |path: &'static str| match path {
            "/" => "http://h/",
            "/a" => "http://h/a",
            "/a?x=1&y=2" => "http://h/a?x=1&y=2",
            _ => "http://h/?q=a%20b%26&n=1",
        };
        check("curl h", ("GET", h("/")), "accept", Some("*/*"));
        check(
            "curl -XPUT h/a -H 'Accept:'",
            ("PUT", h("/a")),
            "accept",
            None,
        );
        check(
            "curl -sSIL http://h",
            ("HEAD", h("/")),
            "accept",
            Some("*/*"),
        );
        check(
            "curl -d a=1 h",
            ("POST", h("/")),
            "content-type",
            Some("application/x-www-form-urlencoded"),
        );
        check(
            "curl --json '{}' h",
            ("POST", h("/")),
            "accept",
            Some("application/json"),
        );
        check(
            "curl -G -d y=2 'h/a?x=1'",
            ("GET", h("/a?x=1&y=2")),
            "content-type",
            None,
        );
        check(
            "curl -G --data-urlencode 'q=a b&' -d n=1 h",
            ("GET", h("q")),
            "content-type",
            None,
        );
        check(
            "curl -u ada:pw h",
            ("GET", h("/")),
            "authorization",
            Some("Basic YWRhOnB3"),
        );
        check(
            "curl http://ada:pw@h/a",
            ("GET", h("/a")),
            "authorization",
            Some("Basic YWRhOnB3"),
        );
        check(
            "curl -b 'a=1' -H 'Cookie: b=2' h",
            ("GET", h("/")),
            "cookie",
            Some("a=1; b=2"),
        );
        check(
            "curl -A x -e 'http://r/' h",
            ("GET", h("/")),
            "referer",
            Some("http://r/"),
        );
        check(
            "curl -H 'Host: other' h",
            ("GET", h("/")),
            "host",
            Some("other"),
        );
        check("curl -H 'X-Empty;' h", ("GET", h("/")), "x-empty", Some(""));
        check(
            "$ curl -o /dev/null -w '%{http_code}' --max-time 3 h",
            ("GET", h("/")),
            "x",
            None,
        );
        assert_eq!(body("curl -d a=1 --data-raw '@b' h"), "a=1&@b");
        assert_eq!(body("curl --json '{\"a\":' --json '1}' h"), "{\"a\":1}");
        assert_eq!(body("curl --data-binary $'a\\nb' h"), "a\nb");
        let form = body("curl -F 'a=1;type=text/plain' --form-string 'b=@x' h");
        assert!(form.contains("name=\"a\"\r\n\r\n1\r\n"), "{form}");
        assert!(form.contains("name=\"b\"\r\n\r\n@x\r\n--") && form.ends_with("--\r\n"));
    }

    #[test]
    fn bodies_in_files_stay_names() {
        let (workload, read) = made(
            "curl --data-binary @order.json -H 'Content-Type: a/b' h",
            false,
        );
        assert_eq!(
            workload.requests[0].body,
            WorkloadBody::File("order.json".to_owned())
        );
        assert!(read.notes.is_empty(), "{:?}", read.notes);
        let (workload, _) = made("curl -T dir/up.bin http://h/put/", false);
        let request = &workload.requests[0];
        assert_eq!(request.method, "PUT");
        assert_eq!(request.target.to_string(), "http://h/put/up.bin");
        let (_, told) = made("curl -d @f h", false);
        assert!(told.notes[0].contains("line ends"), "{:?}", told.notes);
    }

    #[test]
    fn several_commands_are_steps() {
        let all = "curl 'http://h/a' ;\ncurl 'http://h/a' --next -d x h/b";
        let (workload, made) = made(all, false);
        assert_eq!(workload.order, Order::Session);
        assert_eq!(made.requests, ["GET /a", "GET /a (2)", "POST /b"]);
        assert_eq!(workload.requests[2].target.to_string(), "/b");
    }

    #[test]
    fn what_cannot_be_a_workload_is_refused_by_name() {
        for (text, said) in [
            ("curl --frobnicate 3 h", "--frobnicate of curl is not known"),
            ("curl -? h", "-? of curl"),
            ("curl -F 'a=@photo.png' h", "sends a file"),
            ("curl -d @- h", "standard input"),
            ("curl -H @headers h", "headers from a file"),
            ("curl -d a -d @f h", "put together"),
            ("curl 'h/[1-100]'", "several URLs"),
            ("curl -X", "has no value"),
            ("curl -s", "no URL"),
            ("curl ftp://h/", "not of http"),
            ("curl h; curl http://other/", "two servers"),
            ("wget h", "`wget` is not curl"),
            ("curl $H", "fill in"),
            ("curl --compresed h", "--compresed"),
        ] {
            let error = refused(text);
            assert!(error.contains(said), "{text}: {error}");
        }
    }
}
