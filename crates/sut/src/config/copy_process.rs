//! A copy of a plain process: the same program with its command line and environment, told to listen elsewhere.
//!
//! For servers without a configuration that prony writes anew: Go, Java, Node, Python, Ruby, and whatever nobody knows
//! by name. The surprise is how much refuses: an address that no word tells, a second one, a file that it writes. A
//! copy that shares one of these with the running server would take its clients or spoil its files.

use super::copy::{ChangeAction, ConfigChange, Moves, nothing_to_change, refused};
use super::flags;
use super::told::{By, Untold, told};
use crate::discover;
use crate::error::TargetError;
use linux::procfs::PROC;
use linux::sockets;
use record::Server;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Variables that belong to the running process alone: sockets and channels that it was given, a manager that it
/// reports to.
const ITS_OWN: [&str; 7] = [
    "NOTIFY_SOCKET",
    "WATCHDOG_PID",
    "WATCHDOG_USEC",
    "LISTEN_PID",
    "LISTEN_FDS",
    "LISTEN_FDNAMES",
    "NODE_CHANNEL_FD",
];

/// Where nothing else helps.
const BY_HAND: &str = "make the change by hand on a copy of your own and compare with `prony run`";

/// A program as it is started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Started {
    pub argv: Vec<String>,
    pub env: BTreeMap<String, String>,
}

/// Servers of this kind are told by their command line and environment alone where they listen.
pub(crate) fn is_plain(kind: &str) -> bool {
    ["go", "java", "node", "python", "ruby", "generic"].contains(&kind)
}

/// How the server is started at its new address, with the changes.
pub(crate) fn copied(
    server: &Server,
    changes: &[ConfigChange],
    moves: &mut Moves,
) -> Result<Started, TargetError> {
    let pid = server.main_pid;
    let mut started = Started {
        argv: server.command.clone(),
        env: own_environment(pid),
    };
    is_in_our_network(server)?;
    is_a_command_line(server)?;
    let directory = PathBuf::from(super::working_directory(pid));
    let program = program(server, &started.env, &directory)?;
    move_listeners(server, &mut started, moves)?;
    let own = OwnFiles::of(server, &directory);
    own.move_away(&mut started, moves)
        .map_err(|path| writes(server, &path))?;
    for change in changes {
        if !apply(&server.kind, &mut started, change) {
            return Err(nothing_to_change(server, change));
        }
    }
    if let Some(first) = started.argv.first_mut() {
        *first = program;
    }
    Ok(started)
}

/// Environment that a process was started with.
pub(crate) fn environment(pid: i32) -> BTreeMap<String, String> {
    discover::words(Path::new(PROC), pid, "environ")
        .iter()
        .filter_map(|entry| entry.split_once('='))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

/// The same without what belongs to that process alone.
pub(crate) fn own_environment(pid: i32) -> BTreeMap<String, String> {
    let mut env = environment(pid);
    env.retain(|name, _| !ITS_OWN.contains(&name.as_str()));
    env
}

fn is_in_our_network(server: &Server) -> Result<(), TargetError> {
    let pid = server.main_pid;
    let of = |pid: &str| std::fs::read_link(format!("{PROC}/{pid}/ns/net")).ok();
    match (of(&pid.to_string()), of("self")) {
        (Some(theirs), Some(ours)) if theirs != ours => Err(refused(
            server,
            "it lives in another network namespace",
            &format!("run prony in it: nsenter -t {pid} -n"),
        )),
        _ => Ok(()),
    }
}

/// A title that a program has written over its command line does not start anything.
fn is_a_command_line(server: &Server) -> Result<(), TargetError> {
    let first = server.command.first().map_or("", String::as_str);
    let is_title = first.contains(": ") || (server.command.len() == 1 && first.contains(' '));
    let is_cut = server.command.iter().any(|w| w.contains('\u{fffd}'));
    if first.is_empty() || is_title {
        let cause = "it has written a title over its command line, which is not known any more";
        let remedy = "start it so that it keeps its command line (for example without the module setproctitle)";
        return Err(refused(server, cause, remedy));
    }
    match is_cut {
        true => Err(refused(server, "its command line is not UTF-8", BY_HAND)),
        false => Ok(()),
    }
}

/// The path of its program: the one that it was called by where that still leads to what runs, because interpreters
/// find their libraries, and programs of many names their task, by it.
pub(crate) fn program(
    server: &Server,
    env: &BTreeMap<String, String>,
    directory: &Path,
) -> Result<String, TargetError> {
    let identity = |path: &Path| std::fs::metadata(path).ok().map(|m| (m.dev(), m.ino()));
    let runs = identity(Path::new(&format!("{PROC}/{}/exe", server.main_pid)));
    let called = server.command.first().map_or("", String::as_str);
    let mut candidates = match called.contains('/') {
        true => vec![directory.join(called)],
        false => {
            let path = env.get("PATH").map_or("", String::as_str);
            path.split(':')
                .map(|dir| directory.join(dir).join(called))
                .collect()
        }
    };
    candidates.push(PathBuf::from(&server.exe));
    let same = candidates
        .iter()
        .find(|path| runs.is_some() && identity(path) == runs);
    same.map(|path| path.display().to_string()).ok_or_else(|| {
        let cause = format!(
            "its program {} was replaced since it was started",
            server.exe
        );
        let remedy = "restart it, so that a copy runs the same program";
        refused(server, &cause, remedy)
    })
}

/// Tells the copy other addresses than the server's.
fn move_listeners(
    server: &Server,
    started: &mut Started,
    moves: &mut Moves,
) -> Result<(), TargetError> {
    for path in unix_listeners(server) {
        let mut found = false;
        for word in started.argv.iter_mut().skip(1) {
            if let Some(before) = word.strip_suffix(path.as_str()) {
                *word = format!("{before}{}", moves.path(&path));
                found = true;
            }
        }
        if !found {
            let cause =
                format!("no word of its command line is the socket {path} that it listens on");
            return Err(refused(server, &cause, "tell it the socket by an argument"));
        }
    }
    // The words that tell the addresses are found before any of them is changed.
    let original = started.clone();
    for listener in server.listens.iter().filter_map(|l| l.parse().ok()) {
        move_listener(server, listener, (&original, started), moves)?;
    }
    Ok(())
}

pub(crate) fn move_listener(
    server: &Server,
    listener: SocketAddr,
    (original, started): (&Started, &mut Started),
    moves: &mut Moves,
) -> Result<(), TargetError> {
    let told = told(&original.argv, &original.env, listener)
        .map_err(|why| not_told(server, listener, &why))?;
    let ip = listener.ip().to_canonical();
    let ip = Some(ip).filter(|ip| !ip.is_unspecified());
    let to = moves
        .address(ip, listener.port())
        .ok_or_else(|| refused(server, "no port is free", "end what holds the ports"))?;
    match &told.by {
        By::Argument(at) => {
            started.argv[*at] = told.with_port(&original.argv[*at], to.port());
        }
        By::Variable(name) => {
            let value = told.with_port(&original.env[name], to.port());
            started.env.insert(name.clone(), value);
        }
    }
    Ok(())
}

fn not_told(server: &Server, listener: SocketAddr, why: &Untold) -> TargetError {
    match why {
        Untold::Nowhere => refused(
            server,
            &format!(
                "neither its command line nor its environment says that it listens on {listener}"
            ),
            "start it with its address as an argument or a variable (--port N, --bind HOST:PORT, PORT=N)",
        ),
        Untold::Several(words) => refused(
            server,
            &format!(
                "several words could tell it to listen on {listener}: {}",
                words.join(", ")
            ),
            "give the address as HOST:PORT, so that it stands for nothing else",
        ),
    }
}

/// Unix sockets that its processes listen on.
fn unix_listeners(server: &Server) -> Vec<String> {
    let listening: Vec<_> = sockets::unix()
        .into_iter()
        .filter(|s| s.listens && !s.name.is_empty())
        .collect();
    let inodes: BTreeSet<u64> = listening.iter().map(|s| s.inode).collect();
    let pids: Vec<i32> = server.processes.iter().map(|p| p.pid).collect();
    let held = sockets::holders(Path::new(PROC), &inodes, &pids);
    // A Java machine that was asked for its threads listens at a path with its number: a copy has another.
    let shared = |name: &String| pids.iter().all(|pid| !is_named_by(Path::new(name), *pid));
    let theirs = listening
        .into_iter()
        .filter(|s| held.contains_key(&s.inode));
    theirs.map(|s| s.name).filter(shared).collect()
}

pub(crate) fn writes(server: &Server, path: &str) -> TargetError {
    let cause = format!("it writes to {path}, and a copy would as well");
    let remedy =
        "give the file by an argument, which a copy gets another for, or write to standard output";
    refused(server, &cause, remedy)
}

/// Files that are the running server's: those that it holds open for writing, and one with its process number.
pub(crate) struct OwnFiles {
    directory: PathBuf,
    pid: i32,
    written: BTreeSet<PathBuf>,
}

impl OwnFiles {
    pub fn of(server: &Server, directory: &Path) -> Self {
        let pids = server.processes.iter().map(|p| p.pid);
        Self {
            directory: directory.to_owned(),
            pid: server.main_pid,
            written: pids.flat_map(written_by).collect(),
        }
    }

    /// Leaves out those in a directory of which the copy has one of its own.
    pub fn leave_out(&mut self, directory: &Path) {
        let real = std::fs::canonicalize(directory);
        let real = real.unwrap_or_else(|_| directory.to_owned());
        self.written.retain(|path| !path.starts_with(&real));
    }

    /// Gives the copy files of its own for those that its words name.
    ///
    /// # Errors
    /// The path of one that no word names.
    pub fn move_away(&self, started: &mut Started, moves: &Moves) -> Result<(), String> {
        let mut named: BTreeSet<PathBuf> = BTreeSet::new();
        let words = started.argv.iter_mut().skip(1);
        for word in words.chain(started.env.values_mut()) {
            let begins = word.find('=').map_or(0, |at| at + 1);
            for begins in [0, begins] {
                let path = self.directory.join(&word[begins..]);
                if !word[begins..].is_empty() && self.is_own(&path) {
                    let moved = moves.path(&path.display().to_string());
                    word.replace_range(begins.., &moved);
                    named.insert(path);
                    break;
                }
            }
        }
        let is_named = |path: &PathBuf| named.iter().any(|n| same_file(n, path));
        match self.written.iter().find(|path| !is_named(path)) {
            Some(path) => Err(path.display().to_string()),
            None => Ok(()),
        }
    }

    fn is_own(&self, path: &Path) -> bool {
        self.written.iter().any(|own| same_file(own, path)) || self.holds_our_number(path)
    }

    fn holds_our_number(&self, path: &Path) -> bool {
        const LONGEST: u64 = 32;
        let is_small = std::fs::metadata(path).is_ok_and(|m| m.is_file() && m.len() <= LONGEST);
        let text = is_small
            .then(|| std::fs::read_to_string(path).ok())
            .flatten();
        text.is_some_and(|text| text.trim() == self.pid.to_string())
    }
}

fn same_file(one: &Path, other: &Path) -> bool {
    let identity = |path: &Path| std::fs::metadata(path).ok().map(|m| (m.dev(), m.ino()));
    one == other || identity(one).is_some_and(|id| Some(id) == identity(other))
}

/// Regular files that a process holds open for writing. Its standard streams are not among them, as a copy has others,
/// nor what has no name any more, nor files that are named by its number.
fn written_by(pid: i32) -> Vec<PathBuf> {
    let dir = PathBuf::from(format!("{PROC}/{pid}"));
    let link = |fd: &str| std::fs::read_link(dir.join("fd").join(fd)).ok();
    let streams: Vec<PathBuf> = ["0", "1", "2"].iter().filter_map(|fd| link(fd)).collect();
    let entries = std::fs::read_dir(dir.join("fd")).into_iter().flatten();
    let names = entries.flatten().map(|e| e.file_name());
    let names = names.filter_map(|name| name.into_string().ok());
    names
        .filter(|fd| is_open_for_writing(&dir, fd))
        .filter_map(|fd| link(&fd))
        .filter(|path| path.is_file() && !streams.contains(path) && !is_named_by(path, pid))
        .collect()
}

/// A file that has the number of a process in its name is that process's alone.
fn is_named_by(path: &Path, pid: i32) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let mut numbers = name.split(|c: char| !c.is_ascii_digit());
    numbers.any(|number| number == pid.to_string())
}

fn is_open_for_writing(process: &Path, fd: &str) -> bool {
    let info = std::fs::read_to_string(process.join("fdinfo").join(fd)).unwrap_or_default();
    let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
    let flags = flags.and_then(|octal| i32::from_str_radix(octal.trim(), 8).ok());
    flags.is_some_and(|flags| flags & libc::O_ACCMODE != libc::O_RDONLY)
}

/// Makes a change; false when there is nothing like it to change.
fn apply(kind: &str, started: &mut Started, change: &ConfigChange) -> bool {
    match change.context.first().map(String::as_str) {
        Some(flags::ENVIRONMENT) => apply_to_variable(&mut started.env, change),
        Some(flags::JVM | flags::NODE) => apply_to_runtime(kind, started, change),
        None => apply_to_flag(&mut started.argv, change),
        Some(_) => false,
    }
}

pub(crate) fn apply_to_variable(env: &mut BTreeMap<String, String>, change: &ConfigChange) -> bool {
    let (name, value) = change
        .name
        .split_once('=')
        .unwrap_or((change.name.as_str(), ""));
    match change.action {
        ChangeAction::Remove => env.remove(name).is_some(),
        ChangeAction::Replace if !env.contains_key(name) => false,
        _ => {
            env.insert(name.to_owned(), value.to_owned());
            true
        }
    }
}

/// Variables with further options of the runtime.
fn variables_of(kind: &str) -> &'static [&'static str] {
    match kind {
        "java" => &["JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS"],
        "node" => &["NODE_OPTIONS"],
        _ => &[],
    }
}

/// An option is changed wherever it stands, since which of several counts differs between runtimes; else it is put
/// before all others.
pub(crate) fn apply_to_runtime(kind: &str, started: &mut Started, change: &ConfigChange) -> bool {
    let name = flags::option_name(&change.name);
    let is_it = |word: &str| flags::option_name(word) == name;
    let removes = change.action == ChangeAction::Remove;
    let to = (!removes).then(|| change.name.clone());
    let options = flags::runtime_options(kind, &started.argv);
    let mut found = false;
    for at in (1..=options).rev() {
        if is_it(&started.argv[at]) {
            found = true;
            started.argv.splice(at..=at, to.clone());
        }
    }
    for variable in variables_of(kind) {
        let Some(value) = started.env.get_mut(*variable) else {
            continue;
        };
        if value.split_whitespace().any(is_it) {
            found = true;
            let words = value.split_whitespace();
            let words = words.filter_map(|w| {
                if is_it(w) {
                    to.clone()
                } else {
                    Some(w.to_owned())
                }
            });
            *value = words.collect::<Vec<_>>().join(" ");
        }
    }
    if !found && matches!(change.action, ChangeAction::Set | ChangeAction::Add) {
        started.argv.splice(1..1, to);
        found = true;
    }
    found
}

/// A flag of the program: `--workers 2`, `--workers=2`. One that is not there yet comes last, where it counts most.
fn apply_to_flag(argv: &mut Vec<String>, change: &ConfigChange) -> bool {
    let glued = format!("{}=", change.name);
    let found = (1..argv.len())
        .rev()
        .find(|&at| argv[at] == change.name || argv[at].starts_with(&glued));
    let new = std::iter::once(change.name.clone()).chain(change.args.iter().cloned());
    match (change.action, found) {
        (ChangeAction::Add, _) | (ChangeAction::Set, None) => argv.extend(new),
        (_, None) => return false,
        (action, Some(at)) => {
            let is_apart = argv[at] == change.name;
            let has_value = match action {
                ChangeAction::Remove => !change.args.is_empty(),
                _ => !change.from.is_empty(),
            };
            let end = if is_apart && has_value {
                at + 2
            } else {
                at + 1
            };
            let new: Vec<String> = match action {
                ChangeAction::Remove => Vec::new(),
                _ => new.collect(),
            };
            argv.splice(at..end.min(argv.len()), new);
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    fn change(action: ChangeAction, context: &[&str], to: &str, from: &str) -> ConfigChange {
        let mut to = words(to).into_iter();
        ConfigChange {
            action,
            context: context.iter().map(|c| (*c).to_owned()).collect(),
            name: to.next().unwrap(),
            args: to.collect(),
            from: words(from),
        }
    }

    /// Command line and environment after a change; `refused` where there is nothing to change.
    fn changed(kind: &str, command: &str, env: &str, change: &ConfigChange) -> String {
        let pairs = words(env);
        let pairs = pairs.iter().filter_map(|pair| pair.split_once('='));
        let mut started = Started {
            argv: words(command),
            env: pairs
                .map(|(n, v)| (n.to_owned(), v.replace('_', " ")))
                .collect(),
        };
        if !apply(kind, &mut started, change) {
            return "refused".to_owned();
        }
        let env: Vec<String> = started
            .env
            .iter()
            .map(|(n, v)| format!(" {n}={v}"))
            .collect();
        started.argv.join(" ") + &env.concat()
    }

    #[test]
    fn flags_are_changed_where_they_stand_and_added_last() {
        use ChangeAction::{Remove, Replace, Set};
        for (command, action, to, from, want) in [
            ("g -w 1 a:b", Set, "-w 2", "1", "g -w 2 a:b"),
            (
                "g --workers=1 a:b",
                Set,
                "--workers 2",
                "1",
                "g --workers 2 a:b",
            ),
            ("g a:b", Set, "--threads 8", "", "g a:b --threads 8"),
            // The last one counts.
            ("g -w 1 -w 3 a", Set, "-w 2", "3", "g -w 1 -w 2 a"),
            ("g --preload a", Remove, "--preload", "", "g a"),
            ("g -k sync a", Remove, "-k sync", "", "g a"),
            ("g a", Replace, "-w 2", "", "refused"),
            ("g a", Remove, "-w", "", "refused"),
        ] {
            let change = change(action, &[], to, from);
            assert_eq!(changed("python", command, "", &change), want, "{command}");
        }
    }

    fn kind_section(kind: &str) -> &'static str {
        match kind {
            "java" => flags::JVM,
            _ => flags::NODE,
        }
    }

    #[test]
    fn options_of_a_runtime_are_changed_in_its_variables_too() {
        use ChangeAction::{Remove, Replace, Set};
        for (kind, command, env, action, to, want) in [
            (
                "java",
                "java -Xmx28m -cp a M -Xmx1",
                "",
                Set,
                "-Xmx112m",
                "java -Xmx112m -cp a M -Xmx1",
            ),
            (
                "java",
                "java -cp a M",
                "",
                Set,
                "-Xmx112m",
                "java -Xmx112m -cp a M",
            ),
            (
                "java",
                "java M",
                "JAVA_TOOL_OPTIONS=-Xmx28m_-Da=b",
                Set,
                "-Xmx112m",
                "java M JAVA_TOOL_OPTIONS=-Xmx112m -Da=b",
            ),
            (
                "java",
                "java -XX:ActiveProcessorCount=1 M",
                "",
                Remove,
                "-XX:ActiveProcessorCount=1",
                "java M",
            ),
            (
                "node",
                "node --max-old-space-size=48 s.js 80",
                "",
                Set,
                "--max-old-space-size=2048",
                "node --max-old-space-size=2048 s.js 80",
            ),
            (
                "node",
                "node s.js --max-old-space-size=1",
                "",
                Set,
                "--max-old-space-size=2048",
                "node --max-old-space-size=2048 s.js --max-old-space-size=1",
            ),
            (
                "node",
                "node s.js",
                "NODE_OPTIONS=--max-old-space-size=48",
                Set,
                "--max-old-space-size=2048",
                "node s.js NODE_OPTIONS=--max-old-space-size=2048",
            ),
            (
                "node",
                "node s.js",
                "",
                Replace,
                "--max-old-space-size=1",
                "refused",
            ),
        ] {
            let change = change(action, &[kind_section(kind)], to, "");
            assert_eq!(changed(kind, command, env, &change), want, "{command}");
        }
    }

    #[test]
    fn a_file_of_one_process_is_known_by_its_number() {
        for (path, want) in [
            ("/tmp/.java_pid613.tmp", true),
            ("/tmp/hsperfdata_u/613", true),
            ("/tmp/613/app.log", false),
            ("/tmp/app-16131.log", false),
        ] {
            assert_eq!(is_named_by(Path::new(path), 613), want, "{path}");
        }
    }

    #[test]
    fn variables_are_set_and_taken_out() {
        use ChangeAction::{Remove, Replace, Set};
        for (env, action, to, want) in [
            ("GOGC=1", Set, "GOGC=400", "s GOGC=400"),
            ("", Set, "GOGC=400", "s GOGC=400"),
            ("GOGC=1", Remove, "GOGC=1", "s"),
            ("", Remove, "GOGC=1", "refused"),
            ("", Replace, "GOGC=1", "refused"),
        ] {
            let change = change(action, &[flags::ENVIRONMENT], to, "");
            assert_eq!(changed("go", "s", env, &change), want, "{env} {to}");
        }
        let elsewhere = change(Set, &["http"], "gzip on", "");
        assert_eq!(changed("go", "s", "", &elsewhere), "refused");
    }
}
