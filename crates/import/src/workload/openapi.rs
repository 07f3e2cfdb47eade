//! OpenAPI 3.0 and 3.1 as JSON -> a mix: one request an operation, its parameters and body from examples or schemas.
//!
//! A description says what may be sent and not what is: where it has no example, made values fit the types and may
//! still be refused by the server, so every request has a check of its status. The surprise: nothing is known of what
//! an operation does, so those that change data are told and stay in.

use super::draft::{Call, Draft, name_of};
use super::schema::{Document, Made, Maker, Pieces, example};
use super::secrets::FILL_IN;
use super::{Refusal, url_text};
use record::workload::{Template, WorkloadBody};
use serde_json::Value;
use std::collections::BTreeSet;
use url::Url;

const METHODS: [&str; 8] = [
    "get", "put", "post", "delete", "options", "head", "patch", "trace",
];

/// Reads a description.
pub(super) fn read(text: &str) -> Result<Draft, Refusal> {
    let json: Value =
        serde_json::from_str(text).map_err(|e| match text.trim_start().starts_with('{') {
            true => Refusal::new(
                format!("it is not whole JSON: {e}"),
                "save the whole document",
            ),
            false => Refusal::new(
                "it is not JSON",
                "turn YAML into JSON first, for example with: yq -o json openapi.yaml",
            ),
        })?;
    let version = json.get("openapi").and_then(Value::as_str);
    if !version.is_some_and(|v| v.starts_with("3.")) {
        let found = match (version, json.get("swagger").and_then(Value::as_str)) {
            (Some(version), _) => format!("it is of OpenAPI {version}"),
            (None, Some(version)) => format!("it is of Swagger {version}"),
            (None, None) => "it has no key `openapi`".to_owned(),
        };
        return Err(Refusal::new(found, "give a document of OpenAPI 3"));
    }
    let mut draft = Draft::new(true);
    let document = Document(&json);
    let base = base(&json, &mut draft);
    let mut reader = Reader {
        document,
        base,
        changing: 0,
        schemes: BTreeSet::new(),
        not_made: Vec::new(),
        deprecated: Vec::new(),
    };
    let paths = json.get("paths").and_then(Value::as_object);
    for (path, item) in paths.into_iter().flatten() {
        let item = document.resolved(item)?;
        for method in METHODS {
            let Some(operation) = item.get(method) else {
                continue;
            };
            let call = reader.call(&mut draft, path, method, item, operation);
            match call {
                Ok(Some(call)) => draft.add(call)?,
                Ok(None) => {}
                Err(why) => {
                    let name = name_of(&method.to_uppercase(), path);
                    reader.not_made.push(format!("{name} ({})", why.cause));
                }
            }
        }
    }
    reader.say(&mut draft);
    draft.holds_places_only();
    Ok(draft.close())
}

/// The path that all begin with; the server goes into the draft.
fn base(json: &Value, draft: &mut Draft) -> String {
    let server = json.pointer("/servers/0");
    let mut url = server
        .and_then(|s| s.get("url")?.as_str())
        .unwrap_or("/")
        .to_owned();
    let variables = server.and_then(|s| s.get("variables")?.as_object());
    for (name, variable) in variables.into_iter().flatten() {
        let value = variable
            .get("default")
            .and_then(Value::as_str)
            .unwrap_or("");
        url = url.replace(&format!("{{{name}}}"), value);
    }
    let absolute = Url::parse(&url).ok();
    let absolute = absolute.filter(|u| u.has_host() && ["http", "https"].contains(&u.scheme()));
    let path = match absolute {
        Some(absolute) => {
            draft.server = Some(url_text::server(&absolute));
            absolute.path().to_owned()
        }
        None => {
            draft.note(
                "the document names no server: give it behind the file, as in prony load --workload FILE \
                 http://127.0.0.1:8080",
            );
            let absolute = Url::parse("http://h/").and_then(|h| h.join(&url));
            absolute.map_or_else(|_| String::new(), |u| u.path().to_owned())
        }
    };
    path.trim_end_matches('/').to_owned()
}

struct Reader<'a> {
    document: Document<'a>,
    base: String,
    /// Operations that are not meant to leave the data as it is.
    changing: u32,
    /// What must be filled in.
    schemes: BTreeSet<String>,
    not_made: Vec<String>,
    deprecated: Vec<String>,
}

impl<'a> Reader<'a> {
    /// The request of an operation; `None` for one that nobody should call any more.
    fn call(
        &mut self,
        draft: &mut Draft,
        path: &str,
        method: &str,
        item: &'a Value,
        operation: &'a Value,
    ) -> Result<Option<Call>, Refusal> {
        let upper = method.to_uppercase();
        if operation.get("deprecated") == Some(&Value::Bool(true)) {
            self.deprecated.push(name_of(&upper, path));
            return Ok(None);
        }
        let id = operation.get("operationId").and_then(Value::as_str);
        let mut call = Call {
            name: id.map_or_else(|| name_of(&upper, path), str::to_owned),
            method: upper,
            status: Some(self.expected(operation)?),
            ..Call::default()
        };
        let mut maker = Maker::new(self.document);
        let mut query = Pieces::default();
        let mut cookies = Pieces::default();
        let mut filled = Vec::new();
        let mut headers = Vec::new();
        for parameter in self.parameters(item, operation)? {
            let text = |key: &str| parameter.get(key).and_then(Value::as_str).unwrap_or("");
            let name = text("name");
            let is_required = parameter.get("required") == Some(&Value::Bool(true));
            let Some(value) = self.parameter(parameter, is_required, &mut maker)? else {
                continue;
            };
            let explode = parameter.get("explode") != Some(&Value::Bool(false));
            match text("in") {
                "path" => filled.push((name, value)),
                "query" => value.pairs(name, explode, &mut query),
                "header" => headers.push((name.to_owned(), plain(&value))),
                "cookie" => {
                    cookies.text(&format!("; {name}="));
                    value.plain(&mut cookies, url_text::encoded);
                }
                _ => {}
            }
        }
        let (body, kind) = self.body(operation, &mut maker)?;
        call.body = body;
        let asked = std::mem::take(&mut headers);
        headers.extend(kind.map(|kind| ("Content-Type".to_owned(), Template::plain(kind))));
        headers.extend(accepted(operation).map(|a| ("Accept".to_owned(), Template::plain(a))));
        self.secure(operation, &mut headers, &mut query, &mut cookies)?;
        headers.extend(asked);
        call.target = self.target(path, &filled, query.finish())?;
        let cookies = cookies.finish();
        if !cookies.0.is_empty() {
            headers.push(("Cookie".to_owned(), without_first(cookies, "; ")));
        }
        for (name, value) in headers {
            // What the body and the security schemes ask for comes first.
            if call.header(&name).is_none() {
                draft.header(&mut call, &name, &value);
            }
        }
        if !["GET", "HEAD", "OPTIONS", "TRACE"].contains(&call.method.as_str()) {
            self.changing += 1;
        }
        Ok(Some(call))
    }

    /// Those of the path and the operation's own, which come before them.
    fn parameters(&self, item: &'a Value, operation: &'a Value) -> Result<Vec<&'a Value>, Refusal> {
        let mut all: Vec<&Value> = Vec::new();
        for of in [operation, item] {
            for parameter in of
                .get("parameters")
                .and_then(Value::as_array)
                .into_iter()
                .flatten()
            {
                let parameter = self.document.resolved(parameter)?;
                let same = |other: &&Value| {
                    ["name", "in"]
                        .iter()
                        .all(|key| other.get(key) == parameter.get(key))
                };
                if !all.iter().any(same) {
                    all.push(parameter);
                }
            }
        }
        Ok(all)
    }

    /// One that need not be there is, where the author has an example of it.
    fn parameter(
        &self,
        parameter: &'a Value,
        is_required: bool,
        maker: &mut Maker<'a>,
    ) -> Result<Option<Made>, Refusal> {
        if let Some(example) = example(self.document, parameter) {
            return Ok(Some(Made::Given(example.clone())));
        }
        let media = parameter.get("content").and_then(Value::as_object);
        let media = media.and_then(|media| media.values().next());
        let Some(schema) = parameter
            .get("schema")
            .or(media.and_then(|m| m.get("schema")))
        else {
            let text = Made::Text(Template::plain(FILL_IN));
            return Ok(is_required.then_some(text));
        };
        let has_example = example(self.document, self.document.resolved(schema)?).is_some();
        if !is_required && !has_example {
            return Ok(None);
        }
        let made = maker.make(schema)?;
        if media.is_some() {
            let mut json = Pieces::default();
            made.json(&mut json);
            return Ok(Some(Made::Text(json.finish())));
        }
        Ok(Some(made))
    }

    fn target(
        &self,
        path: &str,
        filled: &[(&str, Made)],
        query: Template,
    ) -> Result<Template, Refusal> {
        let mut target = Pieces::default();
        target.text(&self.base);
        let mut rest = path;
        if !path.starts_with('/') {
            target.text("/");
        }
        while let Some((before, after)) = rest.split_once('{') {
            target.text(&path_text(before));
            let Some((name, behind)) = after.split_once('}') else {
                return Err(Refusal::new("its path has a `{` without `}`", ""));
            };
            match filled.iter().find(|(given, _)| *given == name) {
                Some((_, value)) => value.plain(&mut target, url_text::encoded),
                None => {
                    return Err(Refusal::new(
                        format!("its path needs `{name}`, which is no parameter"),
                        "",
                    ));
                }
            }
            rest = behind;
        }
        target.text(&path_text(rest));
        if !query.0.is_empty() {
            target.text("?");
            target.template(&without_first(query, "&"), str::to_owned);
        }
        Ok(target.finish())
    }

    /// The body and its type.
    fn body(
        &self,
        operation: &'a Value,
        maker: &mut Maker<'a>,
    ) -> Result<(WorkloadBody, Option<String>), Refusal> {
        let Some(body) = operation.get("requestBody") else {
            return Ok((WorkloadBody::None, None));
        };
        let body = self.document.resolved(body)?;
        let Some(content) = body.get("content").and_then(Value::as_object) else {
            return Ok((WorkloadBody::None, None));
        };
        let is_json = |kind: &str| {
            let kind = kind.split(';').next().unwrap_or("").trim();
            kind == "application/json" || kind.ends_with("+json") || kind == "*/*"
        };
        let is_form = |kind: &str| kind.starts_with("application/x-www-form-urlencoded");
        let find = |fits: &dyn Fn(&str) -> bool| content.iter().find(|(kind, _)| fits(kind));
        if let Some((kind, media)) = find(&is_json) {
            let mut out = Pieces::default();
            self.media(media, maker)?.json(&mut out);
            let kind = if kind == "*/*" {
                "application/json"
            } else {
                kind
            };
            return Ok((WorkloadBody::Text(out.finish()), Some(kind.to_owned())));
        }
        if let Some((kind, media)) = find(&is_form) {
            let mut out = Pieces::default();
            let made = self.media(media, maker)?;
            made.pairs("", true, &mut out);
            let body = without_first(out.finish(), "&");
            return Ok((WorkloadBody::Text(body), Some(kind.clone())));
        }
        // Any other text stands for itself, where the author wrote one.
        for (kind, media) in content {
            if let Some(Value::String(text)) = example(self.document, media) {
                let text = Template::plain(text.clone());
                return Ok((WorkloadBody::Text(text), Some(kind.clone())));
            }
            if kind.starts_with("text/plain")
                && let Some(schema) = media.get("schema")
            {
                let text = plain(&maker.make(schema)?);
                return Ok((WorkloadBody::Text(text), Some(kind.clone())));
            }
        }
        if body.get("required") == Some(&Value::Bool(true)) {
            let kinds: Vec<&str> = content.keys().map(String::as_str).collect();
            return Err(Refusal::new(
                format!("no body can be made of {}", kinds.join(", ")),
                "",
            ));
        }
        Ok((WorkloadBody::None, None))
    }

    fn media(&self, media: &'a Value, maker: &mut Maker<'a>) -> Result<Made, Refusal> {
        match (example(self.document, media), media.get("schema")) {
            (Some(example), _) => Ok(Made::Given(example.clone())),
            (None, Some(schema)) => maker.make(schema),
            (None, None) => Ok(Made::Fields(Vec::new())),
        }
    }

    /// Statuses that the operation names as a success.
    fn expected(&self, operation: &'a Value) -> Result<String, Refusal> {
        let responses = operation.get("responses").and_then(Value::as_object);
        let is_success = |status: &&str| {
            status.len() == 3 && status.starts_with(['2', '3']) && status.parse::<u16>().is_ok()
        };
        let statuses = responses
            .into_iter()
            .flatten()
            .map(|(status, _)| status.as_str());
        let statuses: Vec<&str> = statuses.filter(is_success).collect();
        Ok(match statuses.is_empty() {
            true => "200-299".to_owned(),
            false => statuses.join(","),
        })
    }

    /// Places for credentials, by the first of the ways that are enough.
    fn secure(
        &mut self,
        operation: &'a Value,
        headers: &mut Vec<(String, Template)>,
        query: &mut Pieces,
        cookies: &mut Pieces,
    ) -> Result<(), Refusal> {
        let root = self.document.0;
        let ways = operation.get("security").or(root.get("security"));
        let ways = ways
            .and_then(Value::as_array)
            .map_or(&[][..], Vec::as_slice);
        // An empty way: without credentials.
        if ways
            .iter()
            .any(|way| way.as_object().is_some_and(serde_json::Map::is_empty))
        {
            return Ok(());
        }
        let first = ways.first().and_then(Value::as_object);
        for name in first.into_iter().flatten().map(|(name, _)| name) {
            let schemes = root.pointer("/components/securitySchemes");
            let Some(scheme) = schemes.and_then(|all| all.get(name)) else {
                continue;
            };
            let scheme = self.document.resolved(scheme)?;
            let text = |key: &str| scheme.get(key).and_then(Value::as_str).unwrap_or("");
            let mut header = |name: &str, value: String| {
                headers.push((name.to_owned(), Template::plain(value)));
            };
            let what = match (text("type"), text("in")) {
                ("apiKey", "header") => {
                    header(text("name"), FILL_IN.to_owned());
                    format!("the key in the header {}", text("name"))
                }
                ("apiKey", "query") => {
                    query.text(&format!("&{}={FILL_IN}", url_text::encoded(text("name"))));
                    format!("the key in `{}` of the URLs", text("name"))
                }
                ("apiKey", _) => {
                    cookies.text(&format!("; {}={FILL_IN}", text("name")));
                    format!("the cookie {}", text("name"))
                }
                ("http", _) if text("scheme").eq_ignore_ascii_case("basic") => {
                    header("Authorization", format!("Basic {FILL_IN}"));
                    "base64 of user:password in the header Authorization".to_owned()
                }
                ("mutualTLS", _) => {
                    "a client's certificate: prony load --cert and --key".to_owned()
                }
                _ => {
                    header("Authorization", format!("Bearer {FILL_IN}"));
                    "a token in the header Authorization".to_owned()
                }
            };
            self.schemes.insert(format!("{what} ({name})"));
        }
        Ok(())
    }

    fn say(self, draft: &mut Draft) {
        for scheme in &self.schemes {
            draft.note(format!("to be filled in where {FILL_IN} stands: {scheme}"));
        }
        if self.changing > 0 {
            draft.note(format!(
                "{} of {} requests may change or delete what the server holds (POST, PUT, PATCH, DELETE)",
                self.changing,
                draft.calls.len()
            ));
        }
        if !self.deprecated.is_empty() {
            draft.note(format!(
                "left out as deprecated: {}",
                self.deprecated.join(", ")
            ));
        }
        if !self.not_made.is_empty() {
            draft.note(format!("left out: {}", self.not_made.join(", ")));
        }
        if !draft.calls.is_empty() {
            draft.note(
                "values without an example are made from their types, and the server may refuse them; each request is sent \
                 as often as the others until their `weight` says otherwise",
            );
        }
    }
}

/// The first successful response's type.
fn accepted(operation: &Value) -> Option<&str> {
    let responses = operation.get("responses")?.as_object()?;
    let success = responses
        .iter()
        .find(|(status, _)| status.starts_with('2'))?;
    let content = success.1.get("content")?.as_object()?;
    content.keys().next().map(String::as_str)
}

fn plain(made: &Made) -> Template {
    let mut out = Pieces::default();
    made.plain(&mut out, str::to_owned);
    out.finish()
}

/// A path of a description may hold what a URL cannot.
fn path_text(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-._~!$&'()*+,;=:@/%".contains(c);
    let mut out = String::new();
    for c in text.chars() {
        match is_plain(c) {
            true => out.push(c),
            false => out += &url_text::encoded(c.encode_utf8(&mut [0; 4])),
        }
    }
    out
}

fn without_first(template: Template, separator: &str) -> Template {
    let mut pieces = Pieces::default();
    for (n, part) in template.0.into_iter().enumerate() {
        match part {
            record::workload::Part::Text(text) if n == 0 => {
                pieces.text(text.strip_prefix(separator).unwrap_or(&text));
            }
            part => pieces.template(&Template(vec![part]), str::to_owned),
        }
    }
    pieces.finish()
}

#[cfg(test)]
mod tests {
    use crate::workload::{ConvertedWorkload, WorkloadFormat, WorkloadOptions, convert};
    use record::Workload;
    use record::workload::{Check, WorkloadBody, WorkloadRequest};

    const SHOP: &str = include_str!("../../tests/workload/shop.openapi.json");

    fn made(text: &str) -> (Workload, ConvertedWorkload) {
        let options = WorkloadOptions::default();
        let made = convert(
            WorkloadFormat::OpenApi,
            "shop.json",
            text.as_bytes(),
            &options,
        )
        .unwrap();
        (plan::workload::parse(&made.text, "w").unwrap(), made)
    }

    fn named<'a>(workload: &'a Workload, name: &str) -> &'a WorkloadRequest {
        workload.requests.iter().find(|r| r.name == name).unwrap()
    }

    fn body(request: &WorkloadRequest) -> String {
        match &request.body {
            WorkloadBody::Text(body) => body.to_string(),
            other => panic!("{other:?}"),
        }
    }

    fn header(request: &WorkloadRequest, name: &str) -> Option<String> {
        let mut headers = request.headers.iter();
        let found = headers.find(|(n, _)| n.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.to_string())
    }

    #[test]
    fn operations_become_requests_with_values_that_fit() {
        let (workload, made) = made(SHOP);
        assert_eq!(made.server.as_deref(), Some("https://eu.example.test:8443"));
        let mut names = made.requests.clone();
        names.sort();
        assert_eq!(
            names,
            [
                "GET /health",
                "createOrder",
                "deleteItem",
                "getItem",
                "listItems",
                "login",
                "note"
            ]
        );
        let target = |name: &str| {
            let target = named(&workload, name).target.to_string();
            target.replace("https://eu.example.test:8443", "")
        };
        // The example of one, the default and the first of an enumeration of others; what need not be there is not.
        assert_eq!(
            target("listItems"),
            "/v2/items?page=2&sort=price&tag=a%20b&tag=c&filter=x,y"
        );
        assert_eq!(
            target("getItem"),
            "/v2/items/{{integer 10 20}}/parts/{{uuid}}"
        );
        assert_eq!(
            target("deleteItem"),
            "/v2/items/{{integer 1 100}}?api_key=FILL_IN"
        );
        assert_eq!(target("GET /health"), "/v2/health");
        let order = named(&workload, "createOrder");
        assert_eq!(order.method, "POST");
        assert_eq!(
            body(order),
            r#"{"id": "{{uuid}}", "lines": [{"count": {{integer 1 9}}, "sku": "A-1"}, {"count": {{integer 1 9}}, "sku": "A-1"}], "#
                .to_owned()
                + r#""mail": "{{letters 8}}@example.com", "paid": true, "parent": {"id": "{{uuid}}", "kind": "web"}}"#
        );
        assert_eq!(order.checks, [Check::Status(vec![(201, 201), (202, 202)])]);
        assert_eq!(
            header(order, "Content-Type").as_deref(),
            Some("application/json")
        );
        assert_eq!(header(order, "Accept").as_deref(), Some("application/json"));
        assert_eq!(
            header(order, "Authorization").as_deref(),
            Some("Bearer FILL_IN")
        );
        assert_eq!(header(order, "X-Request-Id").as_deref(), Some("{{uuid}}"));
        let login = named(&workload, "login");
        assert_eq!(body(login), "password=FILL_IN&user=ada%20l");
        assert_eq!(header(login, "Authorization"), None);
        assert_eq!(
            body(named(&workload, "note")),
            "remember the {{open}}milk}}"
        );
        for said in [
            "a token in the header Authorization (bearer)",
            "the key in `api_key` of the URLs (key)",
            "left out as deprecated: GET /old",
            "POST /photos (no body can be made of image/png)",
            "GET /lost (the reference `#/components/parameters/none` leads to nothing in it)",
            "4 of 7 requests may change or delete",
        ] {
            assert!(
                made.notes.iter().any(|n| n.contains(said)),
                "{said}: {:#?}",
                made.notes
            );
        }
    }

    #[test]
    fn schemas_without_end_end() {
        let text = r##"{"openapi": "3.1.0", "paths": {"/a": {"post": {"requestBody": {"content": {"application/json":
            {"schema": {"$ref": "#/components/schemas/Node"}}}}}}},
            "components": {"schemas": {"Node": {"type": ["null", "object"], "required": ["left", "right"], "properties":
            {"left": {"$ref": "#/components/schemas/Node"}, "right": {"$ref": "#/components/schemas/Node"}}}}}}"##;
        let (workload, made) = made(text);
        assert!(body(&workload.requests[0]).len() < 100_000);
        assert!(made.notes.iter().any(|n| n.contains("names no server")));
        assert!(made.server.is_none());
    }

    #[test]
    fn what_is_no_description_is_said() {
        for (text, said) in [
            ("openapi: 3.0.0\npaths: {}", "not JSON"),
            ("{\"swagger\": \"2.0\"}", "Swagger 2.0"),
            ("{\"openapi\": \"4.0\"}", "OpenAPI 4.0"),
            ("{\"openapi\": \"3.0.0\"", "not whole JSON"),
            ("{\"openapi\": \"3.0.0\", \"paths\": {}}", "no request"),
            ("{}", "no key `openapi`"),
        ] {
            let options = WorkloadOptions::default();
            let made = convert(WorkloadFormat::OpenApi, "x", text.as_bytes(), &options);
            let error = made.unwrap_err();
            assert!(error.to_string().contains(said), "{text}: {error}");
            assert!(!error.remedy().is_empty());
        }
    }
}
