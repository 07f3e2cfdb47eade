//! A copy of Tomcat: a base directory of its own with `conf/server.xml` written anew, and the words that start it.
//!
//! The text of the file stays as it is but for attributes that name what two instances would share, and those of the
//! changes. What else stands in the base directory is linked, apart from where Tomcat writes. The surprise is an
//! application's archive: Tomcat unpacks it beside itself, and throws away an unpacked one that looks older. So a copy
//! is given the archives alone and unpacks them in its own directory.

use super::copy::{ChangeAction, ConfigChange, Moves, nothing_to_change, refused};
use super::copy_process::{self, OwnFiles, Started};
use super::files::Files;
use super::flags;
use super::tomcat::{Source, path_of};
use crate::error::TargetError;
use linux::procfs::PROC;
use record::Server;
use roxmltree::Node;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Component, Path, PathBuf};

/// Directories of the base in which Tomcat writes: the copy has its own.
const WRITTEN: [&str; 3] = ["logs", "temp", "work"];
/// Options by which a machine listens for those who watch or debug it.
const WATCHED_BY: [&str; 4] = [
    "-Dcom.sun.management.jmxremote",
    "-agentlib:jdwp",
    "-Xrunjdwp",
    "-Dcom.sun.management.config",
];
/// Attributes that name a directory of which each instance needs its own.
const DIRECTORIES: [&str; 2] = ["directory", "workDir"];

/// Name and text of the file, and the command line.
pub(crate) fn copied(
    server: &Server,
    changes: &[ConfigChange],
    files: &mut Files,
    env: &mut BTreeMap<String, String>,
    moves: &mut Moves,
) -> Result<(&'static str, String, Vec<String>), TargetError> {
    const NAME: &str = "conf/server.xml";
    let Some(source) = Source::of(server, files) else {
        return Err(refused(server, "its conf/server.xml cannot be read", ""));
    };
    let document = source
        .document()
        .map_err(|why| refused(server, &format!("{NAME}: {why}"), "correct the file"))?;
    let elements = || document.descendants().filter(Node::is_element);
    if let Some((cause, remedy)) = elements().find_map(shares_beyond_files) {
        return Err(refused(server, &cause, remedy));
    }
    let mut started = Started {
        argv: server.command.clone(),
        env: copy_process::own_environment(server.main_pid),
    };
    let mut edits = Edits::default();
    // Changes speak of the running server's connectors, so they come before those are moved.
    for change in changes {
        let made = match change.context.first().map(String::as_str) {
            Some(flags::JVM) => copy_process::apply_to_runtime("java", &mut started, change),
            Some(flags::ENVIRONMENT) => copy_process::apply_to_variable(&mut started.env, change),
            _ => edits.apply(elements(), change),
        };
        if !made {
            return Err(nothing_to_change(server, change));
        }
    }
    let ports = move_connectors(server, &source, elements(), (&mut edits, &mut *moves))?;
    let reader = std::fs::metadata(format!("{PROC}/{}", server.main_pid));
    let base = Base {
        source: &source,
        dir: &moves.dir,
        reader: reader.map_or((u32::MAX, u32::MAX), |m| (m.uid(), m.gid())),
    };
    let laid_out = base
        .lay_out()
        .and_then(|()| base.lay_out_hosts(elements(), &mut edits));
    laid_out.map_err(failed)?;
    let directory = PathBuf::from(super::working_directory(server.main_pid));
    let mut own = OwnFiles::of(server, &directory);
    for name in WRITTEN {
        own.leave_out(&source.base.join(name));
    }
    for path in own_directories(&source, elements(), (&mut edits, &*moves)).map_err(failed)? {
        own.leave_out(&path);
    }
    own_words(&mut started, &source.base, moves);
    own.move_away(&mut started, moves)
        .map_err(|path| copy_process::writes(server, &path))?;
    let watched = leave_out_watchers(&mut started, moves);
    let original = started.clone();
    let listeners = server.listens.iter().filter_map(|l| l.parse().ok());
    for listener in listeners.filter(|l: &SocketAddr| !watched && !ports.contains(&l.port())) {
        copy_process::move_listener(server, listener, (&original, &mut started), moves)?;
    }
    let program = copy_process::program(server, &started.env, &directory)?;
    if let Some(first) = started.argv.first_mut() {
        *first = program;
    }
    *env = started.env;
    Ok((NAME, edits.written(&source.text), started.argv))
}

/// Gives every connector another port, and takes the port for shutting down out; the ports that these had.
fn move_connectors<'a, 'i: 'a>(
    server: &Server,
    source: &Source,
    elements: impl Iterator<Item = Node<'a, 'i>>,
    (edits, moves): (&mut Edits, &mut Moves),
) -> Result<BTreeSet<u16>, TargetError> {
    let mut ports: BTreeSet<u16> = BTreeSet::new();
    let mut taken: Vec<SocketAddr> = Vec::new();
    for node in elements {
        let port = source.value(node, "port").and_then(|p| p.parse().ok());
        let port = port.filter(|port| *port > 0);
        match (node.tag_name().name(), port) {
            ("Server", port) => {
                ports.extend(port);
                edits.set(node, "port", "-1");
            }
            ("Connector", Some(port)) => {
                ports.insert(port);
                let host = source.value(node, "address").unwrap_or_default();
                let to = moves.address_of(&host, port);
                let Some(to) = to.filter(|to| !taken.contains(to)) else {
                    let cause = format!("its connector at port {port} cannot be moved");
                    let remedy = "give each connector a port, and an address that is known here";
                    return Err(refused(server, &cause, remedy));
                };
                taken.push(to);
                edits.set(node, "port", &to.port().to_string());
                edits.set(node, "address", &to.ip().to_string());
            }
            _ => {}
        }
    }
    Ok(ports)
}

/// Moves directories outside of the base that an attribute names; where they were.
fn own_directories<'a, 'i: 'a>(
    source: &Source,
    elements: impl Iterator<Item = Node<'a, 'i>>,
    (edits, moves): (&mut Edits, &Moves),
) -> Result<Vec<PathBuf>, Failed> {
    let mut moved = Vec::new();
    for node in elements {
        for name in DIRECTORIES {
            let path = source.value(node, name).map(PathBuf::from);
            let Some(path) = path.filter(|path| path.is_absolute()) else {
                continue;
            };
            let new = moves.path(&path.display().to_string());
            std::fs::create_dir_all(&new).map_err(|e| (PathBuf::from(&new), e))?;
            edits.set(node, name, &new);
            moved.push(path);
        }
    }
    Ok(moved)
}

/// What two instances would share that no path in the configuration tells: cause and remedy.
fn shares_beyond_files(node: Node<'_, '_>) -> Option<(String, &'static str)> {
    let class = node.attribute("className").unwrap_or_default();
    match node.tag_name().name() {
        "Cluster" => Some((
            "it is a member of a cluster, which a copy would join".to_owned(),
            "take <Cluster> out while it is examined",
        )),
        "Store" if !class.ends_with("FileStore") => Some((
            format!("its sessions are in a store that a copy would share ({class})"),
            "keep sessions in memory while it is examined",
        )),
        _ => None,
    }
}

/// Words that name the base directory or one of its own files name those of the copy.
fn own_words(started: &mut Started, base: &Path, moves: &Moves) {
    for word in started.argv.iter_mut().skip(1) {
        let Some((name, value)) = word.split_once('=') else {
            continue;
        };
        let within = Path::new(value).strip_prefix(base).ok();
        let first = within.and_then(|w| w.components().next());
        let first = first.and_then(|c| c.as_os_str().to_str());
        let is_own = first.is_some_and(|f| f == "conf" || WRITTEN.contains(&f));
        let new = match (name, within) {
            ("-Dcatalina.base", _) => moves.dir.clone(),
            ("-Djava.io.tmpdir", _) => moves.dir.join("temp"),
            (_, Some(within)) if is_own => moves.dir.join(within),
            _ => continue,
        };
        *word = format!("{name}={}", new.display());
    }
    // One that was started without a base of its own has its home for it.
    if !started
        .argv
        .iter()
        .any(|w| w.starts_with("-Dcatalina.base="))
    {
        let word = format!("-Dcatalina.base={}", moves.dir.display());
        started.argv.insert(1, word);
    }
}

/// Takes the options out by which it would listen for those who watch it; whether there were any.
fn leave_out_watchers(started: &mut Started, moves: &mut Moves) -> bool {
    let is_one = |word: &String| WATCHED_BY.iter().any(|w| word.starts_with(w));
    let (out, kept): (Vec<String>, Vec<String>) = std::mem::take(&mut started.argv)
        .into_iter()
        .partition(is_one);
    started.argv = kept;
    let notes = out.iter().map(|word| format!("left out: {word}"));
    moves.notes.extend(notes);
    !out.is_empty()
}

/// What is written where, by the element's place in the text and the attribute's name.
#[derive(Default)]
struct Edits {
    attributes: BTreeMap<(usize, String), Edit>,
}

struct Edit {
    /// Bytes of the text that go: the old value, the whole attribute, or nothing.
    range: std::ops::Range<usize>,
    text: String,
}

impl Edits {
    fn set(&mut self, node: Node<'_, '_>, name: &str, value: &str) {
        let value = escaped(value);
        let edit = match node.attribute_node(name) {
            Some(attribute) => Edit {
                range: attribute.range_value(),
                text: value,
            },
            None => {
                let at = after_name(node);
                Edit {
                    range: at..at,
                    text: format!(" {name}=\"{value}\""),
                }
            }
        };
        self.attributes
            .insert((node.range().start, name.to_owned()), edit);
    }

    /// Makes a change at every element that it is about; false when there is none.
    fn apply<'a, 'i: 'a>(
        &mut self,
        elements: impl Iterator<Item = Node<'a, 'i>>,
        change: &ConfigChange,
    ) -> bool {
        let (name, value) = change
            .name
            .split_once('=')
            .unwrap_or((change.name.as_str(), ""));
        let mut touched = false;
        for node in elements.filter(|n| path_of(*n) == change.context) {
            let stands = node.attribute_node(name);
            match (change.action, stands) {
                (ChangeAction::Remove, Some(attribute)) => {
                    let edit = Edit {
                        range: attribute.range(),
                        text: String::new(),
                    };
                    self.attributes
                        .insert((node.range().start, name.to_owned()), edit);
                }
                (ChangeAction::Remove | ChangeAction::Replace, None) => continue,
                _ => self.set(node, name, value),
            }
            touched = true;
        }
        touched
    }

    fn written(self, text: &str) -> String {
        let mut edits: Vec<Edit> = self.attributes.into_values().collect();
        edits.sort_by_key(|edit| edit.range.start);
        let mut out = String::with_capacity(text.len());
        let mut at = 0;
        for edit in edits {
            out.push_str(&text[at..edit.range.start]);
            out.push_str(&edit.text);
            at = edit.range.end;
        }
        out + &text[at..]
    }
}

/// Where an element's attributes begin: after `<`, its name and the name's prefix.
fn after_name(node: Node<'_, '_>) -> usize {
    let text = node.document().input_text();
    let start = node.range().start + 1;
    let ends = |c: char| c.is_whitespace() || matches!(c, '/' | '>');
    start + text[start..].find(ends).unwrap_or(0)
}

fn escaped(value: &str) -> String {
    value
        .replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('"', "&quot;")
        .replace('\'', "&apos;")
}

/// The path without `.` and `..`.
fn plain(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                out.pop();
            }
            part => out.push(part),
        }
    }
    out
}

/// What was being laid out when it failed.
type Failed = (PathBuf, std::io::Error);

fn failed((path, e): Failed) -> TargetError {
    TargetError::file("laying out a base directory from", &path, &e)
}

/// The base directory of a copy.
struct Base<'a> {
    source: &'a Source,
    dir: &'a Path,
    /// User and group of the server.
    reader: (u32, u32),
}

/// Depth of the directories below `conf`.
const MOST_DEPTH: usize = 8;

impl Base<'_> {
    fn lay_out(&self) -> Result<(), Failed> {
        self.copy_files(&self.source.base.join("conf"), &self.dir.join("conf"), 0)?;
        for name in WRITTEN {
            let dir = self.dir.join(name);
            std::fs::create_dir_all(&dir).map_err(|e| (dir, e))?;
        }
        let is_own = |name: &str| name == "conf" || WRITTEN.contains(&name);
        for (name, path) in entries(&self.source.base)? {
            if !is_own(&name) {
                link(&path, &self.dir.join(name))?;
            }
        }
        Ok(())
    }

    /// Copies files with their modes, as some hold passwords: but for `server.xml`, which is written anew, those that
    /// the server can read. Whoever may write there gains nothing by prony's rights.
    fn copy_files(&self, from: &Path, to: &Path, depth: usize) -> Result<(), Failed> {
        std::fs::create_dir_all(to).map_err(|e| (to.to_owned(), e))?;
        for (name, path) in entries(from)? {
            let to = to.join(&name);
            if path.is_dir() && depth < MOST_DEPTH {
                self.copy_files(&path, &to, depth + 1)?;
            } else if path.is_file() && (depth > 0 || name != "server.xml") {
                self.copy_file(&path, &to).map_err(|e| (path, e))?;
            }
        }
        Ok(())
    }

    fn copy_file(&self, from: &Path, to: &Path) -> std::io::Result<()> {
        let mut file = std::fs::File::open(from)?;
        let about = file.metadata()?;
        if !is_readable(&about, self.reader) {
            return Ok(());
        }
        let mut options = std::fs::OpenOptions::new();
        options
            .write(true)
            .create_new(true)
            .mode(about.mode() & 0o777);
        std::io::copy(&mut file, &mut options.open(to)?)?;
        Ok(())
    }

    fn lay_out_hosts<'a, 'i: 'a>(
        &self,
        elements: impl Iterator<Item = Node<'a, 'i>>,
        edits: &mut Edits,
    ) -> Result<(), Failed> {
        let hosts = elements.filter(|n| n.tag_name().name() == "Host");
        for (at, host) in hosts.enumerate() {
            let old = self.source.value(host, "appBase");
            let old = old.unwrap_or_else(|| "webapps".to_owned());
            let old = self.source.base.join(old);
            let new = self.dir.join(format!("applications-{at}"));
            applications(&old, &new)?;
            edits.set(host, "appBase", &new.display().to_string());
            for context in host.children().filter(|n| n.tag_name().name() == "Context") {
                if let Some(docs) = self.source.value(context, "docBase") {
                    let docs = plain(&old.join(docs));
                    edits.set(context, "docBase", &docs.display().to_string());
                }
            }
        }
        Ok(())
    }
}

/// Whether a user with this group may read a file, by its mode.
fn is_readable(about: &std::fs::Metadata, (user, group): (u32, u32)) -> bool {
    let bit = match (about.uid() == user, about.gid() == group) {
        (true, _) => 0o400,
        (_, true) => 0o040,
        _ => 0o004,
    };
    user == 0 || about.mode() & bit != 0
}

/// The applications of a host: archives, and directories that came from none.
fn applications(from: &Path, to: &Path) -> Result<(), Failed> {
    std::fs::create_dir_all(to).map_err(|e| (to.to_owned(), e))?;
    if !from.exists() {
        return Ok(());
    }
    let found = entries(from)?;
    let is_archived = |name: &str| found.iter().any(|(n, _)| *n == format!("{name}.war"));
    for (name, path) in &found {
        if !path.is_dir() || !is_archived(name) {
            link(path, &to.join(name))?;
        }
    }
    Ok(())
}

fn entries(dir: &Path) -> Result<Vec<(String, PathBuf)>, Failed> {
    let failed = |e| (dir.to_owned(), e);
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        if let Ok(name) = entry.file_name().into_string() {
            found.push((name, entry.path()));
        }
    }
    Ok(found)
}

fn link(path: &Path, at: &Path) -> Result<(), Failed> {
    std::os::unix::fs::symlink(path, at).map_err(|e| (at.to_owned(), e))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changed(text: &str, change: &ConfigChange) -> Option<String> {
        let document = roxmltree::Document::parse(text).unwrap();
        let mut edits = Edits::default();
        let elements = document.descendants().filter(Node::is_element);
        edits.apply(elements, change).then(|| edits.written(text))
    }

    #[test]
    fn attributes_are_changed_where_they_stand() {
        use ChangeAction::{Remove, Replace, Set};
        const TEXT: &str = "<Server port='1'><!-- <Connector port='80'/> -->\n\
            <Connector port=\"80\" a=\"1\" /><Connector port=\"81\"/></Server>";
        let change = |action, connector: &str, name: &str| ConfigChange {
            action,
            context: vec!["Server 1".to_owned(), format!("Connector {connector}")],
            name: name.to_owned(),
            args: Vec::new(),
            from: Vec::new(),
        };
        for (action, connector, name, from, to) in [
            (Set, "80", "a=2", "a=\"1\"", "a=\"2\""),
            (
                Set,
                "81",
                "a=<\"",
                "<Connector port=\"81\"",
                "<Connector a=\"&lt;&quot;\" port=\"81\"",
            ),
            (Replace, "80", "a=", "a=\"1\"", "a=\"\""),
            (Remove, "80", "a", " a=\"1\" ", "  "),
        ] {
            let want = TEXT.replace(from, to);
            assert_eq!(changed(TEXT, &change(action, connector, name)), Some(want));
        }
        for (action, connector) in [(Replace, "81"), (Remove, "81"), (Set, "82")] {
            assert_eq!(changed(TEXT, &change(action, connector, "a=2")), None);
        }
    }

    #[test]
    fn only_what_the_server_can_read_is_copied() {
        use std::os::unix::fs::PermissionsExt;
        let file = tempfile::NamedTempFile::new().unwrap();
        let own = file.as_file().metadata().unwrap();
        for (mode, user, group, want) in [
            (0o400, own.uid(), own.gid(), true),
            (0o040, own.uid() + 1, own.gid(), true),
            (0o604, own.uid() + 1, own.gid(), false),
            (0o660, own.uid() + 1, own.gid() + 1, false),
            (0o604, own.uid() + 1, own.gid() + 1, true),
            (0o000, 0, 0, true),
        ] {
            let permissions = std::fs::Permissions::from_mode(mode);
            file.as_file().set_permissions(permissions).unwrap();
            let about = file.as_file().metadata().unwrap();
            assert_eq!(is_readable(&about, (user, group)), want, "{mode:o} {user}");
        }
    }

    #[test]
    fn an_archive_is_unpacked_by_the_copy_itself() {
        let dir = tempfile::tempdir().unwrap();
        let (old, new) = (dir.path().join("old"), dir.path().join("new"));
        for name in ["a", "b"] {
            std::fs::create_dir_all(old.join(name)).unwrap();
        }
        std::fs::write(old.join("a.war"), "").unwrap();
        applications(&old, &new).unwrap();
        let mut names: Vec<String> = entries(&new).unwrap().into_iter().map(|e| e.0).collect();
        names.sort();
        assert_eq!(names, ["a.war", "b"]);
        assert!(new.join("b").is_symlink());
        applications(&dir.path().join("none"), &dir.path().join("empty")).unwrap();
    }

    #[test]
    fn what_a_copy_would_share_is_refused() {
        let refused = |text: &str| {
            let document = roxmltree::Document::parse(text).unwrap();
            let mut elements = document.descendants().filter(Node::is_element);
            elements.find_map(shares_beyond_files).is_some()
        };
        assert!(refused("<Engine><Cluster className='a.Simple'/></Engine>"));
        assert!(refused(
            "<Manager><Store className='a.JDBCStore'/></Manager>"
        ));
        assert!(!refused(
            "<Manager><Store className='a.FileStore'/></Manager>"
        ));
    }
}
