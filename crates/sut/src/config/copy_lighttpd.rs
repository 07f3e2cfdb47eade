//! A copy of lighttpd's configuration: one file, as lighttpd itself puts it together (`merged_lighttpd.rs`).
//!
//! Lines are kept as it prints them, except those that name what two instances would share. The surprise is
//! `$SERVER["socket"]`: a condition that also opens the listener that it names. So it moves with the listeners, and an
//! address that the main section listens on as well must stay the same as that.

use super::copy::{
    ChangeAction, ConfigChange, Moves, make_for_workers, nothing_to_change, refused,
};
use super::files;
use super::lighttpd::{assignment, statements};
use super::lighttpd_value::Value;
use super::merged_lighttpd::merged;
use crate::error::TargetError;
use record::Server;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

/// Settings that name a file that is written.
const WRITTEN: [&str; 7] = [
    "accesslog.filename",
    "rrdtool.db-name",
    "server.breakagelog",
    "server.errorlog",
    "server.pid-file",
    "trigger-before-download.gdbm-filename",
    "webdav.sqlite-db-name",
];
/// Settings that name directories in which files are written.
const WRITTEN_IN: [&str; 3] = [
    "compress.cache-dir",
    "deflate.cache-dir",
    "server.upload-dirs",
];
/// Where the main section listens; the copy's own is given in its first lines.
const LISTENS: [&str; 4] = [
    "server.bind",
    "server.port",
    "server.systemd-socket-activation",
    "server.use-ipv6",
];

/// A cause and its remedy.
type Refusal = (String, &'static str);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Opens,
    Says,
    Closes,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Line {
    role: Role,
    /// Of a setting; else the condition.
    name: String,
    value: String,
    /// Conditions around it.
    context: Vec<String>,
}

impl Line {
    fn says(name: &str, value: &Value) -> Self {
        Self {
            role: Role::Says,
            name: name.to_owned(),
            value: value.written(),
            context: Vec::new(),
        }
    }

    fn text(&self) -> String {
        match self.role {
            Role::Opens => format!("{} {{\n", self.name),
            Role::Says => format!("{} = {}\n", self.name, self.value),
            Role::Closes => "}\n".to_owned(),
        }
    }

    fn is_setting(&self, names: &[&str]) -> bool {
        self.role == Role::Says && names.contains(&self.name.as_str())
    }

    /// The text of its value, where it is one.
    fn word(&self) -> Option<String> {
        Value::parse(&self.value)?.word().map(str::to_owned)
    }
}

/// Name and text of the file, and the command line.
pub(crate) fn copied(
    server: &Server,
    changes: &[ConfigChange],
    moves: &mut Moves,
) -> Result<(&'static str, String, Vec<String>), TargetError> {
    const NAME: &str = "lighttpd.conf";
    let refuse = |(cause, remedy): Refusal| refused(server, &cause, remedy);
    let mut lines = lines(&merged(server, moves)?);
    // Changes speak of the running server's addresses, so they come before those are moved.
    for change in changes {
        let value = new_value(change).map_err(refuse)?;
        if !apply(&mut lines, change, &value) {
            return Err(nothing_to_change(server, change));
        }
    }
    move_listeners(&mut lines, moves).map_err(refuse)?;
    move_backends(&mut lines, moves).map_err(refuse)?;
    let directory = super::working_directory(server.main_pid);
    shared_beyond_files(&lines, &directory).map_err(refuse)?;
    for path in move_files(&mut lines, &directory, moves).map_err(refuse)? {
        make_for_workers(server, &path)?;
    }
    let text = lines.iter().map(Line::text).collect();
    Ok((NAME, text, words(server, &moves.dir.join(NAME))))
}

/// The same program with the same modules, in the foreground.
fn words(server: &Server, file: &Path) -> Vec<String> {
    let mut argv = vec![server.exe.clone(), "-D".to_owned()];
    let modules = super::values_of(&server.command, "-m").pop();
    argv.extend(modules.map(|m| ["-m".to_owned(), m]).into_iter().flatten());
    argv.extend(["-f".to_owned(), file.display().to_string()]);
    argv
}

fn lines(text: &str) -> Vec<Line> {
    let mut context: Vec<String> = Vec::new();
    let mut found = Vec::new();
    for (_, statement) in statements(text) {
        let (role, name, value) = match statement.strip_suffix('{') {
            Some(condition) => (Role::Opens, condition.trim(), ""),
            None => match assignment(&statement) {
                Some((name, _, value)) => (Role::Says, name, value),
                None => (Role::Closes, "", ""),
            },
        };
        if role == Role::Closes {
            context.pop();
        }
        found.push(Line {
            role,
            name: name.to_owned(),
            value: value.to_owned(),
            context: context.clone(),
        });
        if role == Role::Opens {
            context.push(name.to_owned());
        }
    }
    found
}

/// A condition in the form that it has in common with others that say the same: lighttpd prints `=~ "^/a"` as
/// `=^ "/a"`, and blanks do not matter.
fn canonical(condition: &str) -> String {
    let without_blanks = |text: &str| text.split_whitespace().collect::<String>();
    let Some((left, right)) = condition.split_once(']') else {
        return without_blanks(condition);
    };
    let right = right.trim();
    let (operator, text) = right.split_at(right.find('"').unwrap_or(right.len()));
    let text = text.trim_matches('"');
    let pattern = match operator.trim() {
        "=^" => format!("=~^{}", literally(text)),
        "=$" => format!("=~{}$", literally(text)),
        operator => format!("{operator}{text}"),
    };
    format!("{}]{pattern}", without_blanks(left))
}

/// A regular expression for this text alone.
fn literally(text: &str) -> String {
    let mut pattern = String::new();
    for c in text.chars() {
        if r"\.+*?()[]{}|^$".contains(c) {
            pattern.push('\\');
        }
        pattern.push(c);
    }
    pattern
}

/// The value that a change gives; nothing for one that takes a setting out.
fn new_value(change: &ConfigChange) -> Result<Value, Refusal> {
    let words = match change.args.split_first() {
        Some((first, rest)) if first == "=" => rest,
        _ => &change.args,
    };
    match words {
        _ if change.action == ChangeAction::Remove => Ok(Value::Text(String::new())),
        [word] if !word.starts_with('(') => Ok(Value::of_word(word)),
        _ => {
            let cause = format!("`{}` is not given one number or text", change.name);
            Err((cause, "make the change by hand"))
        }
    }
}

/// Applies it in the section of that condition; false when it found no place. lighttpd takes a setting once in a
/// section, and has one section for each condition.
fn apply(lines: &mut Vec<Line>, change: &ConfigChange, value: &Value) -> bool {
    let same = |own: &[String]| {
        own.len() == change.context.len()
            && own
                .iter()
                .zip(&change.context)
                .all(|(own, theirs)| canonical(own) == canonical(theirs))
    };
    let stands = |l: &Line| l.is_setting(&[change.name.as_str()]) && same(&l.context);
    let at = lines.iter().position(stands);
    match (change.action, at) {
        (ChangeAction::Remove, Some(at)) => {
            lines.remove(at);
        }
        (_, Some(at)) => lines[at].value = value.written(),
        (ChangeAction::Set | ChangeAction::Add, None) => {
            let inside = |l: &Line| [l.context.as_slice(), std::slice::from_ref(&l.name)].concat();
            let opens = |l: &Line| l.role == Role::Opens && same(&inside(l));
            let first = match change.context.is_empty() {
                true => Some(0),
                false => lines.iter().position(opens).map(|at| at + 1),
            };
            let Some(first) = first else { return false };
            let new = Line {
                context: change.context.clone(),
                ..Line::says(&change.name, value)
            };
            lines.insert(first, new);
        }
        (_, None) => return false,
    }
    true
}

/// Where something listens.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    Unix(String),
    Tcp(IpAddr, u16),
}

impl Place {
    /// `/path`, `1.2.3.4:80`, `[::]:80`, `:80`, `1.2.3.4`; `all` is the address of one that names none.
    fn of(text: &str, port: u16, all: IpAddr) -> Option<Self> {
        if text.starts_with('/') {
            return Some(Self::Unix(text.to_owned()));
        }
        let (host, given) = match text.strip_prefix('[') {
            Some(rest) => {
                let (host, after) = rest.split_once(']')?;
                (host, after.strip_prefix(':'))
            }
            None => match text.rsplit_once(':') {
                Some((host, given)) => (host, Some(given)),
                None => (text, None),
            },
        };
        let ip = match host {
            "" | "*" => all,
            "localhost" => Ipv4Addr::LOCALHOST.into(),
            host => host.parse().ok()?,
        };
        let port = given.map_or(Some(port), |given| given.parse().ok())?;
        Some(Self::Tcp(ip, port))
    }

    fn at(address: SocketAddr) -> Self {
        Self::Tcp(address.ip(), address.port())
    }

    /// As a condition names it.
    fn text(&self) -> String {
        match self {
            Self::Unix(path) => path.clone(),
            Self::Tcp(ip, port) => SocketAddr::new(*ip, *port).to_string(),
        }
    }

    /// As the main section says it.
    fn lines(&self) -> Vec<Line> {
        let bind = |text: String| Line::says("server.bind", &Value::Text(text));
        match self {
            Self::Unix(path) => vec![bind(path.clone())],
            Self::Tcp(ip, port) => {
                let host = match ip {
                    IpAddr::V4(ip) => ip.to_string(),
                    IpAddr::V6(ip) => format!("[{ip}]"),
                };
                let port = Value::Number(port.to_string());
                vec![bind(host), Line::says("server.port", &port)]
            }
        }
    }

    /// How well it fits an address that is served; nothing where it cannot serve it.
    fn serves(&self, moves: &Moves) -> Option<u8> {
        let Self::Tcp(ip, port) = self else {
            return None;
        };
        let wanted = moves.serves.ip();
        match *port == moves.serves.port() {
            true if *ip == wanted => Some(3),
            true if ip.is_unspecified() && ip.is_ipv4() == wanted.is_ipv4() => Some(2),
            true if ip.is_unspecified() && ip.is_ipv6() => Some(1),
            _ => None,
        }
    }
}

/// The operator and the text of a condition on the listener that a connection came to.
fn socket_condition(name: &str) -> Option<(&str, &str)> {
    let (_, rest) = name.split_once("$SERVER[\"socket\"]")?;
    let (operator, text) = rest.split_once('"')?;
    Some((operator.trim(), text.strip_suffix('"')?))
}

/// Whether the section of `context` says it; the main one for all.
fn is_on(lines: &[Line], context: &[String], name: &str) -> bool {
    let says = |l: &&Line| l.is_setting(&[name]) && l.context == context;
    lines
        .iter()
        .find(says)
        .is_some_and(|l| l.word().as_deref() == Some("enable"))
}

/// What an address without a host stands for in a section.
fn all_addresses(lines: &[Line], context: &[String]) -> IpAddr {
    let v6 = is_on(lines, context, "server.use-ipv6") || is_on(lines, &[], "server.use-ipv6");
    match v6 {
        true => Ipv6Addr::UNSPECIFIED.into(),
        false => Ipv4Addr::UNSPECIFIED.into(),
    }
}

fn unknown_address(text: &str) -> Refusal {
    (
        format!("the address of `{text}` is not known"),
        "write address and port out, in numbers",
    )
}

/// Where the main section listens.
fn main_place(lines: &[Line]) -> Result<Place, Refusal> {
    let said = |name: &str| {
        let says = |l: &&Line| l.is_setting(&[name]) && l.context.is_empty();
        lines.iter().find(says).and_then(Line::word)
    };
    let usual = match is_on(lines, &[], "ssl.engine") {
        true => 443,
        false => 80,
    };
    let bind = said("server.bind").unwrap_or_default();
    let port = said("server.port").map_or(Some(usual), |port| port.parse().ok());
    let place = port.and_then(|port| Place::of(&bind, port, all_addresses(lines, &[])));
    place.ok_or_else(|| unknown_address(&format!("server.bind = \"{bind}\"")))
}

/// A condition on the listener that a connection came to.
struct Condition {
    /// Its line.
    at: usize,
    place: Place,
    /// It opens that listener (`==`); else it only asks for it.
    opens: bool,
}

fn conditions(lines: &[Line]) -> Result<Vec<Condition>, Refusal> {
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let condition = match line.role {
            Role::Opens => socket_condition(&line.name),
            _ => None,
        };
        let Some((operator, text)) = condition else {
            continue;
        };
        if !matches!(operator, "==" | "!=") {
            let cause = format!("`{}` asks for a listener by a pattern", line.name);
            return Err((cause, "name each listener by == in a condition of its own"));
        }
        let within = [line.context.as_slice(), std::slice::from_ref(&line.name)].concat();
        let place = Place::of(text, 80, all_addresses(lines, &within));
        found.push(Condition {
            at,
            place: place.ok_or_else(|| unknown_address(&line.name))?,
            opens: operator == "==",
        });
    }
    Ok(found)
}

/// Moves every listener, and the conditions on them.
fn move_listeners(lines: &mut Vec<Line>, moves: &mut Moves) -> Result<(), Refusal> {
    let main = main_place(lines)?;
    let conditions = conditions(lines)?;
    let opened = conditions.iter().filter(|c| c.opens).map(|c| &c.place);
    let moved = moved(std::iter::once(&main).chain(opened), moves)?;
    let new_of = |place: &Place| moved.iter().find(|(old, _)| old == place);
    for condition in &conditions {
        if let Some((_, new)) = new_of(&condition.place) {
            let name = &mut lines[condition.at].name;
            let end = name.trim_end_matches('"').rfind('"').unwrap_or(0);
            *name = format!("{}\"{}\"", &name[..end], new.text());
        }
    }
    lines.retain(|l| !l.is_setting(&LISTENS));
    let own = new_of(&main).map_or_else(Vec::new, |(_, new)| new.lines());
    lines.splice(..0, own);
    Ok(())
}

/// Old and new places of listeners: that which serves goes to the address of the copy, every other one elsewhere.
fn moved<'a>(
    places: impl Iterator<Item = &'a Place>,
    moves: &mut Moves,
) -> Result<Vec<(Place, Place)>, Refusal> {
    let places: Vec<&Place> = places.collect();
    let fits = places.iter().filter_map(|p| Some((p.serves(moves)?, *p)));
    let Some((_, served)) = fits.max_by_key(|(fit, _)| *fit) else {
        let cause = format!("no listener of its configuration is at {}", moves.serves);
        return Err((cause, "start it again with the configuration as it is now"));
    };
    let mut moved: Vec<(Place, Place)> = Vec::new();
    for place in &places {
        if moved.iter().any(|(old, _)| old == *place) {
            continue;
        }
        let new = match place {
            Place::Unix(path) => Place::Unix(moves.path(path)),
            place if *place == served => Place::at(moves.listen),
            Place::Tcp(_, port) => {
                let free = moves.apart(*port);
                Place::at(free.ok_or(("no port is free".to_owned(), "end what holds the ports"))?)
            }
        };
        moved.push(((*place).clone(), new));
    }
    Ok(moved)
}

/// Backends that lighttpd starts itself (`bin-path`) are the copy's own, with sockets of their own; what is forwarded
/// to a listener of the server goes to that of the copy.
fn move_backends(lines: &mut [Line], moves: &mut Moves) -> Result<(), Refusal> {
    let forwards = |l: &&mut Line| l.role == Role::Says && l.name.ends_with(".server");
    for line in lines.iter_mut().filter(forwards) {
        let mut value = parsed(line)?;
        value.each_list(&mut |backend| move_backend(backend, moves));
        line.value = value.written();
    }
    Ok(())
}

fn move_backend(backend: &mut Value, moves: &mut Moves) {
    let port = |value: &mut Value| value.word().and_then(|p| p.parse::<u16>().ok());
    let old = backend.at("port").and_then(port);
    let new = match backend.at("bin-path").is_some() {
        true => {
            if let Some(Value::Text(path)) = backend.at("socket") {
                *path = moves.path(path);
            }
            old.and_then(|old| Some(moves.apart(old)?.port()))
        }
        false => {
            let host = backend.at("host").and_then(|h| h.word());
            let is_here = matches!(host, Some("127.0.0.1" | "localhost"));
            old.filter(|_| is_here)
                .and_then(|old| moves.ports.get(&old).copied())
        }
    };
    if let (Some(new), Some(port)) = (new, backend.at("port")) {
        *port = Value::Number(new.to_string());
    }
}

fn parsed(line: &Line) -> Result<Value, Refusal> {
    let unknown = || {
        let cause = format!("the value of `{} = {}` is not known", line.name, line.value);
        (cause, "make the change by hand on a copy of your own")
    };
    Value::parse(&line.value).ok_or_else(unknown)
}

/// What two instances would share though each has a path of its own: a log that a program reads.
fn shared_beyond_files(lines: &[Line], directory: &str) -> Result<(), Refusal> {
    for line in lines.iter().filter(|l| l.is_setting(&WRITTEN)) {
        let path = line.word().unwrap_or_default();
        let is_fifo =
            std::fs::metadata(files::join(directory, &path)).is_ok_and(|m| m.file_type().is_fifo());
        if path.starts_with('|') || is_fifo {
            let cause = format!(
                "`{} = {}` logs to a program, and a second one would write where the first does",
                line.name, line.value
            );
            return Err((cause, "log to a file while it is examined"));
        }
    }
    Ok(())
}

/// Moves what is written; the directories that are to be made.
fn move_files(
    lines: &mut [Line],
    directory: &str,
    moves: &mut Moves,
) -> Result<Vec<String>, Refusal> {
    let new = |path: &str, moves: &Moves| {
        let path = files::join(directory, path).display().to_string();
        match path.starts_with("/dev/") || path.starts_with("/proc/") {
            true => path,
            false => moves.path(&path),
        }
    };
    let mut made = Vec::new();
    for line in lines.iter_mut() {
        let is_directory = line.is_setting(&WRITTEN_IN);
        if !is_directory && !line.is_setting(&WRITTEN) {
            continue;
        }
        let mut value = parsed(line)?;
        let mut all = match &mut value {
            Value::List(items) => items.iter_mut().map(|(_, v)| v).collect(),
            one => vec![one],
        };
        for path in all.iter_mut() {
            if let Value::Text(path) = path {
                *path = new(path, moves);
                made.extend(is_directory.then(|| path.clone()));
            }
        }
        if is_directory || line.name.ends_with("db-name") {
            let note = format!("{} begins empty: {}", line.name, line.value);
            moves.notes.push(note);
        }
        line.value = value.written();
    }
    Ok(made)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moves() -> Moves {
        Moves::sample("/c", "10.0.0.1:80", "127.0.0.1:9000")
    }

    /// One line, with `NEW` for ports that were free.
    fn written(lines: &[Line], moves: &Moves) -> String {
        let text: Vec<String> = lines.iter().map(|l| l.text().trim().to_owned()).collect();
        let new = |text: String, port: &u16| text.replace(&port.to_string(), "NEW");
        moves.ports.values().fold(text.join("|"), new)
    }

    #[test]
    fn listeners_move_with_the_conditions_on_them() {
        for (text, want) in [
            ("", "server.bind = \"127.0.0.1\"|server.port = 9000"),
            (
                "server.port = 80\nserver.use-ipv6 = \"disable\"\na = 1",
                "server.bind = \"127.0.0.1\"|server.port = 9000|a = 1",
            ),
            // Debian's: the second family has a listener of its own, which is not the one that is served.
            (
                "server.port = 80\n$SERVER[\"socket\"] == \"[::]:80\" {\n}",
                "server.bind = \"127.0.0.1\"|server.port = 9000|$SERVER[\"socket\"] == \"127.0.0.1:NEW\" {|}",
            ),
            // The same address twice stays the same.
            (
                "$SERVER[\"socket\"] == \":80\" {\na = 1\n}\n$SERVER[\"socket\"] != \"0.0.0.0:80\" {\n}",
                "server.bind = \"127.0.0.1\"|server.port = 9000|$SERVER[\"socket\"] == \"127.0.0.1:9000\" {|a = 1|}|$SERVER[\"socket\"] != \"127.0.0.1:9000\" {|}",
            ),
            // What is only asked for opens nothing, and serves nothing.
            (
                "$SERVER[\"socket\"] != \"10.0.0.1:80\" {\n}",
                "server.bind = \"127.0.0.1\"|server.port = 9000|$SERVER[\"socket\"] != \"10.0.0.1:80\" {|}",
            ),
            // An exact address goes before all addresses.
            (
                "server.port = 8080\n$SERVER[\"socket\"] == \"0.0.0.0:80\" {\n}\nelse $SERVER[\"socket\"] == \"10.0.0.1:80\" {\n}",
                "server.bind = \"127.0.0.1\"|server.port = NEW|$SERVER[\"socket\"] == \"127.0.0.1:NEW\" {|}|else $SERVER[\"socket\"] == \"127.0.0.1:9000\" {|}",
            ),
            (
                "server.bind = \"/run/l.sock\"\n$SERVER[\"socket\"] == \"[::]:80\" {\n}",
                "server.bind = \"/c/run_l.sock\"|$SERVER[\"socket\"] == \"127.0.0.1:9000\" {|}",
            ),
        ] {
            let (mut lines, mut moves) = (lines(text), moves());
            assert_eq!(move_listeners(&mut lines, &mut moves), Ok(()), "{text}");
            assert_eq!(written(&lines, &moves), want, "{text}");
        }
        for (text, cause) in [
            ("server.port = 81", "no listener of its configuration is at"),
            ("server.bind = \"www\"", "\"www\"` is not known"),
            ("server.port = 99999", "is not known"),
            ("$SERVER[\"socket\"] =~ \":80\" {\n}", "by a pattern"),
            ("$SERVER[\"socket\"] == \"www:80\" {\n}", "is not known"),
        ] {
            let said = move_listeners(&mut lines(text), &mut moves()).unwrap_err();
            assert!(said.0.contains(cause) && !said.1.is_empty(), "{said:?}");
        }
    }

    #[test]
    fn backends_of_its_own_are_started_anew() {
        for (line, want) in [
            (
                r#"fastcgi.server = (".php" => (("bin-path" => "/p", "socket" => "/run/s", "max-procs" => 1)))"#,
                r#"fastcgi.server = (".php" => (("bin-path" => "/p", "socket" => "/c/run_s", "max-procs" => 1)))"#,
            ),
            (
                r#"scgi.server = ("" => (("bin-path" => "/p", "port" => 4000)))"#,
                r#"scgi.server = ("" => (("bin-path" => "/p", "port" => NEW)))"#,
            ),
            (
                r#"fastcgi.server = ("" => (("socket" => "/run/s")))"#,
                r#"fastcgi.server = ("" => (("socket" => "/run/s")))"#,
            ),
            // A listener of its own, and others.
            (
                r#"proxy.server = ("" => (("host" => "127.0.0.1", "port" => 8081), ("host" => "10.0.0.9", "port" => 8081), ("host" => "127.0.0.1", "port" => "8082")))"#,
                r#"proxy.server = ("" => (("host" => "127.0.0.1", "port" => 9081), ("host" => "10.0.0.9", "port" => 8081), ("host" => "127.0.0.1", "port" => "8082")))"#,
            ),
        ] {
            let (mut lines, mut moves) = (lines(line), moves());
            moves.ports.insert(8081, 9081);
            assert_eq!(move_backends(&mut lines, &mut moves), Ok(()), "{line}");
            moves.ports.remove(&8081);
            assert_eq!(written(&lines, &moves), want, "{line}");
        }
    }

    #[test]
    fn what_is_written_goes_to_the_copy() {
        for (line, want, made) in [
            (
                "server.errorlog = \"e.log\"",
                "server.errorlog = \"/c/d_e.log\"",
                0,
            ),
            (
                "server.pid-file = \"/run/p\"",
                "server.pid-file = \"/c/run_p\"",
                0,
            ),
            (
                "accesslog.filename = \"/dev/stdout\"",
                "accesslog.filename = \"/dev/stdout\"",
                0,
            ),
            (
                "server.upload-dirs = (\"/a\", \"/b\")",
                "server.upload-dirs = (\"/c/a\", \"/c/b\")",
                2,
            ),
            (
                "deflate.cache-dir = \"/a\"",
                "deflate.cache-dir = \"/c/a\"",
                1,
            ),
            (
                "server.document-root = \"/a\"",
                "server.document-root = \"/a\"",
                0,
            ),
        ] {
            let (mut lines, mut moves) = (lines(line), moves());
            let directories = move_files(&mut lines, "/d", &mut moves).unwrap();
            assert_eq!(written(&lines, &moves), want, "{line}");
            assert_eq!(directories.len(), made, "{line}");
        }
    }

    #[test]
    fn a_log_that_a_program_reads_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let fifo = dir.path().join("fifo");
        let made = std::process::Command::new("mkfifo").arg(&fifo).status();
        assert!(made.unwrap().success());
        let fifo = format!("server.breakagelog = \"{}\"", fifo.display());
        for line in ["accesslog.filename = \"|cronolog /l/a\"", &fifo] {
            let (cause, remedy) = shared_beyond_files(&lines(line), "/").unwrap_err();
            assert!(cause.contains(line) && !remedy.is_empty(), "{cause}");
        }
        let file = lines("accesslog.filename = \"/none/a\"");
        assert_eq!(shared_beyond_files(&file, "/"), Ok(()));
    }

    #[test]
    fn conditions_that_say_the_same_are_one() {
        for (one, other, same) in [
            ("$HTTP[\"url\"]=~\"^/a\"", "$HTTP[\"url\"] =^ \"/a\"", true),
            (
                "$HTTP[\"url\"] =~ \"\\.php$\"",
                "$HTTP[\"url\"] =$ \".php\"",
                true,
            ),
            (
                "$HTTP[\"url\"] =~ \"a b\"",
                "$HTTP[\"url\"] =~ \"ab\"",
                false,
            ),
            (
                "$HTTP[\"url\"] == \"/a\"",
                "$HTTP[\"url\"] =^ \"/a\"",
                false,
            ),
            (
                "else  $HTTP[\"host\"] == \"a\"",
                "else $HTTP[\"host\"] == \"a\"",
                true,
            ),
            ("else", "else ", true),
        ] {
            assert_eq!(canonical(one) == canonical(other), same, "{one} {other}");
        }
    }

    #[test]
    fn changes_find_their_section() {
        use ChangeAction::{Remove, Replace, Set};
        let text =
            "a = 1\n$HTTP[\"url\"] =^ \"/a\" {\na = 2\n$HTTP[\"host\"] == \"b\" {\nc = \"3\"\n}\n}";
        let url: &[&str] = &["$HTTP[\"url\"]=~\"^/a\""];
        let host: &[&str] = &["$HTTP[\"url\"]=~\"^/a\"", "$HTTP[\"host\"]==\"b\""];
        for (action, context, words, want) in [
            (Set, &[][..], "a = 9", Some((0, "a = 9"))),
            (Set, &[], "b = x", Some((0, "b = \"x\""))),
            (Set, url, "a = 9", Some((2, "a = 9"))),
            (Set, host, "a = 9", Some((4, "a = 9"))),
            (Set, host, "c = 9", Some((4, "c = 9"))),
            (Remove, url, "a", Some((2, "$HTTP[\"host\"] == \"b\" {"))),
            (Remove, host, "a", None),
            (Replace, host, "a = 9", None),
            (Set, &["$HTTP[\"url\"]=~\"^/b\""], "a = 9", None),
        ] {
            let mut words = words.split(' ').map(str::to_owned);
            let change = ConfigChange {
                action,
                context: context.iter().map(|c| (*c).to_owned()).collect(),
                name: words.next().unwrap(),
                args: words.collect(),
                from: Vec::new(),
            };
            let mut lines = lines(text);
            let value = new_value(&change).unwrap();
            let touched = apply(&mut lines, &change, &value);
            assert_eq!(touched, want.is_some(), "{change:?}");
            if let Some((at, want)) = want {
                assert_eq!(lines[at].text().trim(), want, "{change:?}");
            }
        }
    }

    #[test]
    fn a_list_is_no_change() {
        for args in [&["=", "(", "a", ")"][..], &["=", "(a)"], &["="]] {
            let change = ConfigChange {
                action: ChangeAction::Set,
                context: Vec::new(),
                name: "server.modules".to_owned(),
                args: args.iter().map(|a| (*a).to_owned()).collect(),
                from: Vec::new(),
            };
            let (cause, _) = new_value(&change).unwrap_err();
            assert!(cause.contains("server.modules"), "{cause}");
        }
    }
}
