//! A value that fits a schema of OpenAPI 3 (JSON Schema): the author's example where there is one, a made one else.
//!
//! Made values are those of a workload (`{{integer 1 100}}`), so that requests differ. The surprise: schemas refer to
//! themselves and, in bad documents, without an end, so depth and number of what is made are bounded.

use super::Refusal;
use super::url_text::encoded;
use record::workload::{Part, Template};
use serde_json::{Map, Value};

/// References of references, and schemas in schemas.
const DEPTH_MAX: u32 = 12;
/// Values in all of one request.
const VALUES_MAX: u32 = 2_000;
/// A made text is no longer where the schema asks for more.
const LETTERS_MAX: u64 = 4_096;

/// The document that references point into.
#[derive(Clone, Copy)]
pub(super) struct Document<'a>(pub &'a Value);

impl<'a> Document<'a> {
    /// The value itself, or that which its `$ref` names.
    pub fn resolved(self, value: &'a Value) -> Result<&'a Value, Refusal> {
        let mut value = value;
        for _ in 0..DEPTH_MAX {
            let Some(name) = value.get("$ref").and_then(Value::as_str) else {
                return Ok(value);
            };
            let here = name.strip_prefix('#');
            value = here.and_then(|here| self.0.pointer(here)).ok_or_else(|| {
                Refusal::new(
                    format!("the reference `{name}` leads to nothing in it"),
                    "put all parts into one document (bundle it)",
                )
            })?;
        }
        Err(Refusal::new(
            "its references go in a circle",
            "check the `$ref`s of the document",
        ))
    }
}

/// The author's own value of a parameter, a media type or a schema.
pub(super) fn example<'a>(document: Document<'a>, of: &'a Value) -> Option<&'a Value> {
    if let Some(example) = of.get("example") {
        return Some(example);
    }
    match of.get("examples") {
        // JSON Schema has a list, a parameter and a media type have named ones.
        Some(Value::Array(list)) => list.first(),
        Some(Value::Object(named)) => {
            let first = document.resolved(named.values().next()?).ok()?;
            first.get("value")
        }
        _ => None,
    }
}

/// A value in the making.
pub(super) enum Made {
    /// An example, a default, one of an enumeration.
    Given(Value),
    /// Text to be filled in, in quotes in JSON.
    Text(Template),
    /// A number to be filled in.
    Number(Template),
    List(Vec<Made>),
    Fields(Vec<(String, Made)>),
}

/// Makes values of schemas.
pub(super) struct Maker<'a> {
    document: Document<'a>,
    left: u32,
    /// Schemas around the one that is made, by their places in the document.
    around: Vec<&'a Value>,
}

impl<'a> Maker<'a> {
    /// For one request.
    pub fn new(document: Document<'a>) -> Self {
        Maker {
            document,
            left: VALUES_MAX,
            around: Vec::new(),
        }
    }

    /// A value of that schema.
    pub fn make(&mut self, schema: &'a Value) -> Result<Made, Refusal> {
        self.at(schema, 0)
    }

    fn at(&mut self, schema: &'a Value, depth: u32) -> Result<Made, Refusal> {
        self.left = self.left.saturating_sub(1);
        if depth > DEPTH_MAX || self.left == 0 {
            return Ok(Made::Given(Value::Null));
        }
        let schema = self.document.resolved(schema)?;
        if self.is_around(schema) {
            return Ok(Made::Given(Value::Null));
        }
        self.around.push(schema);
        let made = self.of(schema, depth);
        self.around.pop();
        made
    }

    /// A schema that is in itself has no end.
    fn is_around(&self, schema: &Value) -> bool {
        self.around.iter().any(|other| std::ptr::eq(*other, schema))
    }

    fn of(&mut self, schema: &'a Value, depth: u32) -> Result<Made, Refusal> {
        if let Some(example) = example(self.document, schema) {
            return Ok(Made::Given(example.clone()));
        }
        let one_of = schema.get("enum").and_then(|e| e.as_array()?.first());
        let given = schema.get("default").or(schema.get("const")).or(one_of);
        if let Some(given) = given {
            return Ok(Made::Given(given.clone()));
        }
        let list = |key: &str| schema.get(key).and_then(Value::as_array);
        if let Some(all) = list("allOf") {
            return self.all_of(schema, all, depth);
        }
        if let Some(first) = list("oneOf").or(list("anyOf")).and_then(|of| of.first()) {
            return self.at(first, depth + 1);
        }
        match kind(schema) {
            "object" => {
                let mut fields = Vec::new();
                self.fields(schema, depth, &mut fields)?;
                Ok(Made::Fields(fields))
            }
            "array" => {
                let least = schema.get("minItems").and_then(Value::as_u64).unwrap_or(1);
                let n = least.clamp(1, 10);
                let Some(items) = schema.get("items") else {
                    return Ok(Made::List(Vec::new()));
                };
                let items = (0..n).map(|_| self.at(items, depth + 1));
                Ok(Made::List(items.collect::<Result<_, _>>()?))
            }
            "integer" => Ok(Made::Number(integer(schema))),
            "number" => Ok(Made::Number(integer(schema))),
            "boolean" => Ok(Made::Given(Value::Bool(true))),
            "null" => Ok(Made::Given(Value::Null)),
            _ => Ok(text(schema)),
        }
    }

    /// Fields of all; a part that is no object stands for the whole.
    fn all_of(&mut self, schema: &'a Value, all: &'a [Value], depth: u32) -> Result<Made, Refusal> {
        let mut fields = Vec::new();
        for part in all {
            match self.at(part, depth + 1)? {
                Made::Fields(more) => add(&mut fields, more),
                Made::Given(Value::Object(more)) => {
                    let more = more.into_iter();
                    add(
                        &mut fields,
                        more.map(|(k, v)| (k, Made::Given(v))).collect(),
                    );
                }
                other if all.len() == 1 => return Ok(other),
                _ => {}
            }
        }
        self.fields(schema, depth, &mut fields)?;
        Ok(Made::Fields(fields))
    }

    fn fields(
        &mut self,
        schema: &'a Value,
        depth: u32,
        fields: &mut Vec<(String, Made)>,
    ) -> Result<(), Refusal> {
        let properties = schema.get("properties").and_then(Value::as_object);
        for (name, property) in properties.into_iter().flatten() {
            let inner = self.document.resolved(property)?;
            if inner.get("readOnly") == Some(&Value::Bool(true)) {
                continue;
            }
            let is_required = schema.get("required").and_then(Value::as_array);
            let is_required = is_required.is_some_and(|r| r.iter().any(|n| n == name.as_str()));
            // What refers to itself ends where it may.
            if !is_required && (depth >= DEPTH_MAX || self.is_around(inner)) {
                continue;
            }
            let made = self.at(property, depth + 1)?;
            add(fields, vec![(name.clone(), made)]);
        }
        Ok(())
    }
}

fn add(fields: &mut Vec<(String, Made)>, more: Vec<(String, Made)>) {
    for (name, made) in more {
        match fields.iter_mut().find(|(other, _)| *other == name) {
            Some((_, before)) => *before = made,
            None => fields.push((name, made)),
        }
    }
}

/// `type` is one name, or in 3.1 several, of which `null` may be one.
fn kind(schema: &Value) -> &str {
    let said = match schema.get("type") {
        Some(Value::Array(kinds)) => {
            let mut kinds = kinds.iter().filter_map(Value::as_str);
            kinds.find(|kind| *kind != "null")
        }
        said => said.and_then(Value::as_str),
    };
    let implied = || {
        let has = |key: &str| schema.get(key).is_some();
        match () {
            () if has("properties") => "object",
            () if has("items") => "array",
            () => "string",
        }
    };
    said.unwrap_or_else(implied)
}

fn integer(schema: &Value) -> Template {
    let bound = |key: &str| schema.get(key).and_then(Value::as_f64).map(|n| n as i64);
    // 3.0 has a flag beside the bound, 3.1 a bound of its own.
    let exclusive = |key: &str| match schema.get(key) {
        Some(Value::Bool(true)) => (1, None),
        Some(Value::Number(n)) => (1, n.as_f64().map(|n| n as i64)),
        _ => (0, None),
    };
    let (above, own_least) = exclusive("exclusiveMinimum");
    let (below, own_most) = exclusive("exclusiveMaximum");
    let least = own_least
        .or(bound("minimum"))
        .map(|n| n.saturating_add(above));
    let most = own_most
        .or(bound("maximum"))
        .map(|n| n.saturating_sub(below));
    let (from, to) = match (least, most) {
        (Some(from), Some(to)) => (from, to.max(from)),
        (Some(from), None) => (from, from.saturating_add(99)),
        (None, Some(to)) if to < 1 => (to.saturating_sub(99), to),
        (None, most) => (1, most.unwrap_or(100)),
    };
    Template(vec![Part::Integer { from, to }])
}

fn text(schema: &Value) -> Made {
    let length = |key: &str| schema.get(key).and_then(Value::as_u64);
    let fixed = |text: &str| Made::Text(Template::plain(text));
    match schema.get("format").and_then(Value::as_str).unwrap_or("") {
        "uuid" => Made::Text(Template(vec![Part::Uuid])),
        "date-time" => fixed("2024-01-01T00:00:00Z"),
        "date" => fixed("2024-01-01"),
        "time" => fixed("00:00:00Z"),
        "email" | "idn-email" => Made::Text(Template(vec![
            Part::Letters(8),
            Part::Text("@example.com".to_owned()),
        ])),
        "uri" | "url" | "uri-reference" => fixed("https://example.com/"),
        "hostname" => fixed("example.com"),
        "ipv4" => fixed("192.0.2.1"),
        "ipv6" => fixed("2001:db8::1"),
        "byte" => fixed("cHJvbnk="),
        "password" => fixed(super::secrets::FILL_IN),
        _ => {
            let n = length("maxLength").map_or(8, |most| most.min(8));
            let n = n.max(length("minLength").unwrap_or(0)).min(LETTERS_MAX);
            match u32::try_from(n) {
                Ok(n) if n > 0 => Made::Text(Template(vec![Part::Letters(n)])),
                _ => fixed(""),
            }
        }
    }
}

/// Text of pieces, whose neighbouring texts are one.
#[derive(Default)]
pub(super) struct Pieces(Template);

impl Pieces {
    /// As it is.
    pub fn text(&mut self, text: &str) {
        match self.0.0.last_mut() {
            Some(Part::Text(last)) => last.push_str(text),
            _ if text.is_empty() => {}
            _ => self.0.0.push(Part::Text(text.to_owned())),
        }
    }

    /// With values; text through `write`.
    pub fn template(&mut self, template: &Template, write: impl Fn(&str) -> String) {
        for part in &template.0 {
            match part {
                Part::Text(text) => self.text(&write(text)),
                value => self.0.0.push(value.clone()),
            }
        }
    }

    /// All of it.
    pub fn finish(self) -> Template {
        self.0
    }
}

impl Made {
    /// As JSON.
    pub fn json(&self, out: &mut Pieces) {
        match self {
            Made::Given(value) => out.text(&value.to_string()),
            Made::Number(template) => out.template(template, str::to_owned),
            Made::Text(template) => {
                out.text("\"");
                out.template(template, |text| {
                    let quoted = Value::from(text).to_string();
                    quoted[1..quoted.len() - 1].to_owned()
                });
                out.text("\"");
            }
            Made::List(items) => {
                out.text("[");
                for (n, item) in items.iter().enumerate() {
                    out.text(if n == 0 { "" } else { ", " });
                    item.json(out);
                }
                out.text("]");
            }
            Made::Fields(fields) => {
                out.text("{");
                for (n, (name, value)) in fields.iter().enumerate() {
                    out.text(if n == 0 { "" } else { ", " });
                    out.text(&format!("{}: ", Value::from(name.as_str())));
                    value.json(out);
                }
                out.text("}");
            }
        }
    }

    /// As one text; lists and fields with commas, as `style: simple` has it.
    pub fn plain(&self, out: &mut Pieces, write: fn(&str) -> String) {
        match self {
            Made::Given(value) => match value {
                Value::String(text) => out.text(&write(text)),
                Value::Null => {}
                Value::Array(items) => {
                    let items = items.iter().map(|v| Made::Given(v.clone()));
                    Made::List(items.collect()).plain(out, write);
                }
                Value::Object(fields) => fields_of(fields).plain(out, write),
                other => out.text(&write(&other.to_string())),
            },
            Made::Number(template) | Made::Text(template) => out.template(template, write),
            Made::List(items) => {
                for (n, item) in items.iter().enumerate() {
                    out.text(if n == 0 { "" } else { "," });
                    item.plain(out, write);
                }
            }
            Made::Fields(fields) => {
                for (n, (name, value)) in fields.iter().enumerate() {
                    out.text(if n == 0 { "" } else { "," });
                    out.text(&write(name));
                    out.text(",");
                    value.plain(out, write);
                }
            }
        }
    }

    /// As fields of a query or a form: `style: form`, `explode: true`, which both are unless they say otherwise.
    pub fn pairs(&self, name: &str, explode: bool, out: &mut Pieces) {
        let one = |name: &str, value: &Made, out: &mut Pieces| {
            out.text(&format!("&{}=", encoded(name)));
            value.plain(out, encoded);
        };
        match self {
            Made::Given(Value::Array(items)) if explode => {
                let all = items.iter().map(|item| Made::Given(item.clone()));
                all.for_each(|item| one(name, &item, out));
            }
            Made::List(items) if explode => items.iter().for_each(|item| one(name, item, out)),
            Made::Given(Value::Object(fields)) if explode => {
                fields_of(fields).pairs(name, explode, out);
            }
            Made::Fields(fields) if explode => {
                fields
                    .iter()
                    .for_each(|(name, value)| one(name, value, out));
            }
            value => one(name, value, out),
        }
    }
}

fn fields_of(fields: &Map<String, Value>) -> Made {
    let fields = fields.iter();
    Made::Fields(
        fields
            .map(|(k, v)| (k.clone(), Made::Given(v.clone())))
            .collect(),
    )
}
