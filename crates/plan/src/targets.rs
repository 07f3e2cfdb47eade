//! `[target.NAME]`: one system under test, and the names that its templates need.

use crate::adapter;
use crate::error::{Fault, Found, Place, Report, unknown};
use crate::node::{Entry, Field};
use crate::template;
use crate::{FileContent, TargetKind, TargetSpec};
use record::{Bytes, Nanos};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, SocketAddr};

/// Names that every template has; `workers` may be given another value.
pub(crate) const TEMPLATE_NAMES: [&str; 5] = ["address", "listen", "port", "root", "workers"];

const KEYS: [&str; 13] = [
    "origin",
    "command",
    "adapter",
    "template",
    "listen",
    "cpus",
    "env",
    "wrap",
    "ready",
    "ready_timeout",
    "status",
    "files",
    "values",
];
const ORIGIN_KEYS: [&str; 5] = ["listen", "body", "threads", "delay", "freeze"];
const FILE_KEYS: [&str; 2] = ["size", "text"];

/// Reads a file named in the experiment.
pub(crate) type Read<'a> = &'a dyn Fn(&str) -> Result<String, String>;

/// A target as the file describes it.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    /// Where its name stands in the file.
    pub at: usize,
    /// What it is, its `values` being only those that the file adds.
    pub spec: TargetSpec,
    /// Names that its templates use, each with the place of its first use.
    pub names: BTreeMap<String, Place>,
}

/// A target while its keys are read.
struct Draft {
    spec: TargetSpec,
    kinds: Vec<&'static str>,
    /// File of the template.
    template: Option<(usize, String)>,
    listen: Option<usize>,
}

/// Reads one target; what is wrong goes to the report.
pub(crate) fn read(entry: &Entry, read: Read<'_>, report: &mut Report) -> Option<Target> {
    let inside = format!("[target.{}]", entry.name);
    let fields = report.take(entry.field().table())?;
    let mut draft = Draft::new(&entry.name);
    for field in fields.iter().map(Entry::field) {
        let result = draft.set(field, &inside);
        report.take(result);
    }
    let result = draft.finish(entry.at, &inside, read);
    let spec = report.take(result)?;
    let names = names(&spec, entry.at, report);
    Some(Target {
        at: entry.at,
        spec,
        names,
    })
}

impl Draft {
    fn new(name: &str) -> Self {
        let spec = TargetSpec {
            name: name.to_owned(),
            kind: TargetKind::Command { argv: Vec::new() },
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            cpus: Vec::new(),
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
        }
    }

    fn set(&mut self, field: Field<'_>, inside: &str) -> Result<(), Found> {
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
            "cpus" => spec.cpus = field.cpus()?,
            "env" => spec.env = field.plain_table()?,
            "wrap" => spec.wrap = field.words()?,
            "ready" => spec.ready_path = Some(path(field)?),
            "ready_timeout" => spec.ready_timeout = field.duration_above_zero()?,
            "status" => spec.status_path = Some(path(field)?),
            "files" => spec.files = files(field)?,
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
    fn finish(mut self, at: usize, inside: &str, read: Read<'_>) -> Result<TargetSpec, Found> {
        check_name(&self.spec.name, at)?;
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

/// Templates and URLs write a target's name as a word, so it must be one.
fn check_name(name: &str, at: usize) -> Result<(), Found> {
    let why = if !is_word(name) {
        "it must consist of letters, digits and `_`, and not start with a digit"
    } else if TEMPLATE_NAMES.contains(&name) {
        "templates have another value under this name"
    } else {
        return Ok(());
    };
    let fault = Fault::Name {
        kind: "target",
        name: name.to_owned(),
        why: why.to_owned(),
    };
    Err(Found::at(at, fault))
}

/// An identifier of the template language.
pub(crate) fn is_word(name: &str) -> bool {
    name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        && name.starts_with(|c: char| !c.is_ascii_digit())
}

fn command(field: Field<'_>) -> Result<TargetKind, Found> {
    let argv = field.words()?;
    if argv.first().is_none_or(String::is_empty) {
        return Err(field.must_be("a program and its arguments"));
    }
    Ok(TargetKind::Command { argv })
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

fn files(field: Field<'_>) -> Result<BTreeMap<String, FileContent>, Found> {
    let mut files = BTreeMap::new();
    for entry in field.table()? {
        check_relative(entry)?;
        files.insert(entry.name.clone(), content(entry.field())?);
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

fn content(field: Field<'_>) -> Result<FileContent, Found> {
    let one_key = || field.must_be("{ size = ... } or { text = ... }");
    let [entry] = field.table()? else {
        return Err(one_key());
    };
    let f = entry.field();
    match f.name {
        "size" => Ok(FileContent::Size(f.bytes()?)),
        "text" => Ok(FileContent::Text(f.text()?.to_owned())),
        _ => Err(f.unknown_key(&format!("`{}`", field.name), &FILE_KEYS)),
    }
}

/// The texts of a target that are templates: name for messages, text.
fn templates(spec: &TargetSpec) -> Vec<(Option<&str>, &str)> {
    let mut texts: Vec<(Option<&str>, &str)> = Vec::new();
    match &spec.kind {
        TargetKind::Origin { .. } => {}
        TargetKind::Command { argv } => texts.extend(argv.iter().map(|a| (None, a.as_str()))),
        TargetKind::Adapter {
            template_name,
            template,
            ..
        } => texts.push((Some(template_name), template)),
    }
    texts.extend(spec.wrap.iter().map(|w| (None, w.as_str())));
    texts.extend(spec.env.values().map(|v| (None, v.as_str())));
    texts
}

/// Names that the target's templates use, with the place of the first use.
fn names(spec: &TargetSpec, at: usize, report: &mut Report) -> BTreeMap<String, Place> {
    let mut names = BTreeMap::new();
    for (file, text) in templates(spec) {
        let place = |line| match file {
            Some(file) => Place::Line(file.to_owned(), line),
            None => Place::Offset(at),
        };
        match template::names(file.unwrap_or(&spec.name), text) {
            Ok(found) => {
                for name in found {
                    let line = template::line_of(text, &name);
                    names.entry(name).or_insert_with(|| place(line));
                }
            }
            Err(e) => {
                let fault = Fault::Template { cause: e.cause() };
                report.push(Found::new(place(e.line()), fault));
            }
        }
    }
    names
}

/// The targets that `start` needs, transitively, in the order in which they must start; `start` last.
///
/// # Errors
/// [`Fault::Cycle`] when they need each other.
pub(crate) fn start_order<'a>(
    start: &'a Target,
    all: &'a BTreeMap<String, Target>,
) -> Result<Vec<&'a Target>, Found> {
    let mut order = Vec::new();
    let mut done = BTreeSet::new();
    visit(start, all, &mut Vec::new(), &mut done, &mut order)?;
    Ok(order)
}

fn visit<'a>(
    target: &'a Target,
    all: &'a BTreeMap<String, Target>,
    path: &mut Vec<&'a str>,
    done: &mut BTreeSet<&'a str>,
    order: &mut Vec<&'a Target>,
) -> Result<(), Found> {
    let name = target.spec.name.as_str();
    if done.contains(name) {
        return Ok(());
    }
    if let Some(from) = path.iter().position(|n| *n == name) {
        path.push(name);
        let targets = path[from..].join(" -> ");
        return Err(Found::at(target.at, Fault::Cycle { targets }));
    }
    path.push(name);
    // A target's own name in its template is its own address, not something to wait for.
    for needed in target.names.keys().filter(|n| *n != name) {
        if let Some(needed) = all.get(needed) {
            visit(needed, all, path, done, order)?;
        }
    }
    path.pop();
    done.insert(name);
    order.push(target);
    Ok(())
}
