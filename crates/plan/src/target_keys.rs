//! The keys of `[target.NAME]`: what each means and what may stand there.
//!
//! Read by [`crate::targets`], once for every value that a key may have and once for each cell.

use crate::adapter;
use crate::error::{Fault, Found, unknown};
use crate::levels::Shape;
use crate::node::{Entry, Field, Value};
use crate::template::{TEMPLATE_NAMES, is_word};
use crate::{FileContent, Limits, TargetKind, TargetSpec};
use record::{Bytes, Nanos};
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};

pub(crate) const KEYS: [&str; 16] = [
    "origin",
    "command",
    "adapter",
    "template",
    "listen",
    "host",
    "cpus",
    "numa",
    "limits",
    "env",
    "wrap",
    "ready",
    "ready_timeout",
    "status",
    "files",
    "values",
];
const ORIGIN_KEYS: [&str; 5] = ["listen", "body", "threads", "delay", "freeze"];
const LIMIT_KEYS: [&str; 3] = ["cpu", "memory", "open_files"];
const FILE_KEYS: [&str; 3] = ["size", "text", "file"];

/// Reads a file named in the experiment.
pub(crate) type Read<'a> = &'a dyn Fn(&str) -> Result<String, String>;

/// What may stand under a key.
pub(crate) fn shape(key: &str) -> Shape {
    match key {
        "command" | "wrap" => Shape::Later,
        "env" | "values" => Shape::Map(&Shape::Later),
        "files" => Shape::Map(&Shape::Table(file_shape)),
        "origin" => Shape::Table(origin_shape),
        "limits" => Shape::Table(|_| Shape::Now),
        _ => Shape::Now,
    }
}

fn origin_shape(key: &str) -> Shape {
    match key {
        "delay" | "freeze" => Shape::Later,
        _ => Shape::Now,
    }
}

/// A text is laid out as it stands: it may be a template of something else.
fn file_shape(key: &str) -> Shape {
    match key {
        "text" => Shape::Later,
        _ => Shape::Now,
    }
}

/// A target while its keys are read.
pub(crate) struct Draft {
    spec: TargetSpec,
    kinds: Vec<&'static str>,
    /// File of the template.
    template: Option<(usize, String)>,
    listen: Option<usize>,
    /// A `ready_timeout` was given.
    is_patient: bool,
}

impl Draft {
    pub fn new(name: &str) -> Self {
        let spec = TargetSpec {
            name: name.to_owned(),
            kind: TargetKind::Command { argv: Vec::new() },
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            host: None,
            cpus: Vec::new(),
            numa: None,
            limits: Limits::default(),
            env: BTreeMap::new(),
            wrap: Vec::new(),
            ready_path: None,
            ready_timeout: Nanos::from_secs(10),
            status_path: None,
            files: BTreeMap::new(),
            values: BTreeMap::new(),
        };
        Self {
            spec,
            kinds: Vec::new(),
            template: None,
            listen: None,
            is_patient: false,
        }
    }

    /// Sets one key; `inside` is the section for messages.
    pub fn set(&mut self, field: Field<'_>, inside: &str, read: Read<'_>) -> Result<(), Found> {
        let spec = &mut self.spec;
        match field.name {
            "origin" => {
                self.kinds.push("origin");
                self.set_origin(field)?;
            }
            "command" => {
                self.kinds.push("command");
                spec.kind = command(field)?;
            }
            "adapter" => {
                self.kinds.push("adapter");
                spec.kind = adapter(field)?;
            }
            "template" => self.template = Some((field.node.at, field.text()?.to_owned())),
            "listen" => self.set_listen(field, inside)?,
            "host" => spec.host = Some(host(field)?),
            "cpus" => spec.cpus = field.cpus()?,
            "numa" => spec.numa = Some(field.count32(0)?),
            "limits" => spec.limits = limits(field)?,
            "env" => spec.env = field.plain_table()?,
            "wrap" => spec.wrap = wrap(field)?,
            "ready" => spec.ready_path = Some(path(field)?),
            "ready_timeout" => {
                spec.ready_timeout = field.duration_above_zero()?;
                self.is_patient = true;
            }
            "status" => spec.status_path = Some(path(field)?),
            "files" => spec.files = files(field, read)?,
            "values" => spec.values = values(field)?,
            _ => return Err(field.unknown_key(inside, &KEYS)),
        }
        Ok(())
    }

    fn set_listen(&mut self, field: Field<'_>, inside: &str) -> Result<(), Found> {
        if self.listen.replace(field.name_at).is_some() {
            let fault = Fault::Conflict {
                first: "listen".to_owned(),
                second: "origin.listen".to_owned(),
                inside: inside.to_owned(),
                why: "a target listens on one address",
            };
            return Err(Found::at(field.name_at, fault));
        }
        self.spec.listen = field.text()?.parse().map_err(|_| {
            field.must_be("an address and a port such as \"127.0.0.1:8080\" (port 0: any free one)")
        })?;
        Ok(())
    }

    fn set_origin(&mut self, field: Field<'_>) -> Result<(), Found> {
        let (mut threads, mut body) = (1, Bytes(1024));
        let (mut delay, mut freeze) = (None, None);
        for f in field.table()?.iter().map(Entry::field) {
            match f.name {
                "listen" => self.set_listen(f, "`origin`")?,
                "body" => body = f.bytes()?,
                "threads" => threads = f.count32(1)?,
                "delay" => delay = Some(f.text()?.to_owned()),
                "freeze" => freeze = Some(f.text()?.to_owned()),
                _ => return Err(f.unknown_key("`origin`", &ORIGIN_KEYS)),
            }
        }
        self.spec.kind = TargetKind::Origin {
            threads,
            delay,
            freeze,
            body,
        };
        Ok(())
    }

    /// Checks what concerns several keys and reads the template.
    pub fn finish(mut self, at: usize, inside: &str, read: Read<'_>) -> Result<TargetSpec, Found> {
        match self.kinds.as_slice() {
            [_] => {}
            [] => return Err(Found::at(at, no_kind(inside))),
            [first, second, ..] => {
                let fault = Fault::Conflict {
                    first: (*first).to_owned(),
                    second: (*second).to_owned(),
                    inside: inside.to_owned(),
                    why: "a target is one server",
                };
                return Err(Found::at(at, fault));
            }
        }
        if let Some((template_at, path)) = self.template.take() {
            self.set_template(template_at, path, inside, read)?;
        }
        if self.spec.numa.is_some() && !self.spec.cpus.is_empty() {
            let fault = Fault::Conflict {
                first: "cpus".to_owned(),
                second: "numa".to_owned(),
                inside: inside.to_owned(),
                why: "a node stands for all of its CPUs",
            };
            return Err(Found::at(at, fault));
        }
        if let TargetKind::Adapter { adapter, .. } = &self.spec.kind
            && let Some(adapter) = adapter::find(adapter)
            && !self.is_patient
        {
            self.spec.ready_timeout = adapter.ready_timeout;
        }
        if matches!(self.spec.kind, TargetKind::Origin { .. }) {
            // The built-in server always counts its requests there.
            self.spec.status_path.get_or_insert("/stats".to_owned());
        }
        Ok(self.spec)
    }

    fn set_template(
        &mut self,
        at: usize,
        path: String,
        inside: &str,
        read: Read<'_>,
    ) -> Result<(), Found> {
        if path.is_empty() {
            return Ok(()); // A level without a template of its own.
        }
        let TargetKind::Adapter {
            template_name,
            template,
            ..
        } = &mut self.spec.kind
        else {
            let fault = Fault::Conflict {
                first: self.kinds.concat(),
                second: "template".to_owned(),
                inside: inside.to_owned(),
                why: "only an adapter knows what to do with a configuration",
            };
            return Err(Found::at(at, fault));
        };
        *template = read(&path).map_err(|cause| {
            let path = path.clone();
            Found::at(at, Fault::Unreadable { path, cause })
        })?;
        *template_name = path;
        Ok(())
    }
}

fn no_kind(inside: &str) -> Fault {
    Fault::Missing {
        what: "adapter".to_owned(),
        inside: inside.to_owned(),
        example: "adapter = \"nginx\", command = [\"program\", \"{{port}}\"] or \
                  origin = { body = \"1KiB\" }"
            .to_owned(),
    }
}

fn command(field: Field<'_>) -> Result<TargetKind, Found> {
    let argv = field.words()?;
    if argv.first().is_none_or(String::is_empty) {
        return Err(field.must_be("a program and its arguments"));
    }
    Ok(TargetKind::Command { argv })
}

/// A list of words, or all of them in one text.
fn wrap(field: Field<'_>) -> Result<Vec<String>, Found> {
    match &field.node.value {
        Value::Text(text) => Ok(vec![text.clone()]),
        _ => field.words(),
    }
}

/// A host is named as targets are.
fn host(field: Field<'_>) -> Result<String, Found> {
    let name = field.text()?;
    if !is_word(name) {
        return Err(field.must_be("a name of letters, digits and `_`"));
    }
    Ok(name.to_owned())
}

fn limits(field: Field<'_>) -> Result<Limits, Found> {
    let mut limits = Limits::default();
    for f in field.table()?.iter().map(Entry::field) {
        match f.name {
            "cpu" => limits.cpu = f.limit(Field::cores)?,
            "memory" => limits.memory = f.limit(|f| f.bytes())?,
            "open_files" => limits.open_files = f.limit(|f| f.count(16))?,
            _ => return Err(f.unknown_key("`limits`", &LIMIT_KEYS)),
        }
    }
    Ok(limits)
}

fn adapter(field: Field<'_>) -> Result<TargetKind, Found> {
    let name = field.text()?;
    let found = adapter::find(name).ok_or_else(|| {
        let known = adapter::adapters();
        unknown(field.node.at, "adapter", name, "`adapter`", known)
    })?;
    Ok(TargetKind::Adapter {
        adapter: found.name.to_owned(),
        template_name: found.template_name.to_owned(),
        template: found.template.to_owned(),
    })
}

fn path(field: Field<'_>) -> Result<String, Found> {
    let text = field.text()?;
    if !text.starts_with('/') || text.contains(char::is_whitespace) {
        return Err(field.must_be("a path such as \"/status\""));
    }
    Ok(text.to_owned())
}

fn values(field: Field<'_>) -> Result<BTreeMap<String, String>, Found> {
    for entry in field.table()? {
        let is_taken = TEMPLATE_NAMES.contains(&entry.name.as_str()) && entry.name != "workers";
        if is_taken || !is_word(&entry.name) {
            let fault = Fault::Name {
                kind: "value",
                name: entry.name.clone(),
                why: "templates need a word that has no other meaning".to_owned(),
            };
            return Err(Found::at(entry.at, fault));
        }
    }
    field.plain_table()
}

fn files(field: Field<'_>, read: Read<'_>) -> Result<BTreeMap<String, FileContent>, Found> {
    let mut files = BTreeMap::new();
    for entry in field.table()? {
        check_relative(entry)?;
        files.insert(entry.name.clone(), content(entry.field(), read)?);
    }
    Ok(files)
}

/// A file must stay within the target's own directory.
fn check_relative(entry: &Entry) -> Result<(), Found> {
    let inside = |part: &str| !part.is_empty() && part != "." && part != "..";
    if entry.name.split('/').all(inside) {
        return Ok(());
    }
    let fault = Fault::Name {
        kind: "file",
        name: entry.name.clone(),
        why: "it must be a path within the target's directory, without `.` and `..`".to_owned(),
    };
    Err(Found::at(entry.at, fault))
}

fn content(field: Field<'_>, read: Read<'_>) -> Result<FileContent, Found> {
    let one_key = || field.must_be("{ size = ... }, { text = ... } or { file = ... }");
    let [entry] = field.table()? else {
        return Err(one_key());
    };
    let f = entry.field();
    match f.name {
        "size" => Ok(FileContent::Size(f.bytes()?)),
        "text" => Ok(FileContent::Text(f.text()?.to_owned())),
        "file" => {
            let path = f.text()?.to_owned();
            let text = read(&path).map_err(|cause| {
                let path = path.clone();
                Found::at(f.node.at, Fault::Unreadable { path, cause })
            })?;
            Ok(FileContent::Text(text))
        }
        _ => Err(f.unknown_key(&format!("`{}`", field.name), &FILE_KEYS)),
    }
}
