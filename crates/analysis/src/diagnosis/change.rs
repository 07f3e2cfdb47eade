//! What a remedy changes in a configuration that was read: which directive, where it stands, and what it becomes.
//!
//! Changes are made on copies, and people make them by hand: each must be one that the server takes. The surprise is
//! inheritance: nginx drops all inherited `proxy_set_header` where a section has one of its own, and buffers that fit
//! each other in one section do not fit those that another one keeps. So a change says what it belongs with
//! (`beside`), and is made wherever that stands.

use super::Change;
use super::catalogue::{Cause, ChangeTemplate};
use super::expression::Template;
use super::fact::FactView;
use super::rules::{Scene, Truth, condition};
use record::Directive;

/// The changes that carry a cause's remedy out at one target. Without a configuration that was read there is nothing to
/// change; a change whose number is not known is left out, and one that is already made as well.
pub fn proposed_changes(cause: &Cause, facts: &FactView<'_>) -> Vec<Change> {
    let scene = Scene {
        facts: *facts,
        station: "unknown",
    };
    changes(cause, scene)
}

pub(crate) fn changes(cause: &Cause, scene: Scene<'_>) -> Vec<Change> {
    let Some(server) = scene.facts.server() else {
        return Vec::new();
    };
    // Tomcat is a Java machine too.
    let of_machine = |c: &ChangeTemplate| c.context == JVM && server.kind == "tomcat";
    let of_server =
        |c: &&ChangeTemplate| c.server == server.kind || c.server == ANY || of_machine(c);
    let complete = |text: &str| Template::parse(text).ok()?.complete(&scene.facts);
    let mut found = Vec::new();
    for template in cause.change.iter().filter(of_server) {
        let when = template.when.as_ref();
        if when.is_some_and(|w| condition(w, scene).truth != Truth::True) {
            continue;
        }
        let Some(to) = complete(&template.to) else {
            continue;
        };
        if template.context == LIMITS {
            found.extend(relimited(complete(&template.from).unwrap_or_default(), to));
        } else if let Some(directives) = scene.facts.directives() {
            found.extend(made_by(template, &to, directives));
        }
    }
    found
}

/// Stands for every kind of server in a template.
const ANY: &str = "any";
/// Section of what holds a server from outside.
const LIMITS: &str = "limits";
/// Section of Varnish's parameters.
const PARAM: &str = "param";
/// Section of a Java machine's options.
const JVM: &str = "jvm";
/// Section of variables of the environment.
const ENVIRONMENT: &str = "environment";

/// A change of what holds the server, which no file of its own says.
fn relimited(from: String, to: String) -> Option<Change> {
    (from != to).then(|| Change {
        place: "as it was started".to_owned(),
        context: LIMITS.to_owned(),
        sections: vec![LIMITS.to_owned()],
        from,
        to,
    })
}

fn made_by(template: &ChangeTemplate, to: &str, directives: &[Directive]) -> Vec<Change> {
    let within: Vec<&Directive> = directives
        .iter()
        .filter(|d| template.server != "nginx" || in_reach(&template.context, &d.context))
        .collect();
    let standing: Vec<&Directive> = within
        .iter()
        .copied()
        .filter(|d| is_about(template, d, to))
        .collect();
    let mut changes = Vec::new();
    let mut written: Vec<&str> = Vec::new();
    for directive in first_of_each(&standing, to) {
        if let Some(new) = filled_in(&by_its_name(template, to, directive), directive)
            && spelled(&template.server, directive) != new
        {
            changes.push(replaced(&template.server, directive, new));
        }
        written.extend(directive.args.first().map(String::as_str));
    }
    // What only takes something out, or extends what stands, adds nothing.
    let Some(new) = filled_in(to, &Directive::default()).filter(|new| !new.is_empty()) else {
        return changes;
    };
    let places = sections(&template.context, directives);
    let lacks = |place: &Vec<String>| !standing.iter().any(|d| d.context == *place);
    let mut lacking: Vec<Vec<String>> = Vec::new();
    if !template.beside.is_empty() {
        let stands_there = |d: &&Directive| template.beside.contains(&d.name);
        let kin = within.iter().copied().filter(stands_there);
        let places = places.into_iter().chain(kin.map(|d| d.context.clone()));
        lacking.extend(places.filter(lacks));
    } else if is_one_of_many(&template.context) || changes.is_empty() {
        lacking.extend(places.into_iter().filter(lacks));
    }
    let mut seen: Vec<Vec<String>> = Vec::new();
    for place in lacking {
        if !seen.contains(&place) {
            changes.push(added(place.clone(), new.clone()));
            seen.push(place);
        }
    }
    changes
}

/// `to` under the name by which the directive stands.
fn by_its_name(template: &ChangeTemplate, to: &str, directive: &Directive) -> String {
    match to.split_once(' ') {
        Some((_, args)) if template.aliases.contains(&directive.name) => {
            format!("{} {args}", directive.name)
        }
        _ => to.to_owned(),
    }
}

fn replaced(kind: &str, directive: &Directive, to: String) -> Change {
    let section = directive.context.last().cloned().unwrap_or_default();
    let (place, context) = match directive.file.as_str() {
        "" if section == ENVIRONMENT => (section, String::new()),
        "" => ("command line".to_owned(), section),
        file => (format!("{file}:{}", directive.line), section),
    };
    Change {
        place,
        context,
        sections: directive.context.clone(),
        from: spelled(kind, directive),
        to,
    }
}

fn added(sections: Vec<String>, to: String) -> Change {
    Change {
        place: String::new(),
        context: sections.last().cloned().unwrap_or_default(),
        sections,
        from: String::new(),
        to,
    }
}

/// A section of which a configuration has several, each by its own name.
fn is_one_of_many(context: &str) -> bool {
    context == "upstream"
}

/// Whether nginx takes a directive of this section for one that the template is about: names are used again for other
/// ends in `upstream`, and `stream` and `mail` serve something else.
fn in_reach(wanted: &str, context: &[String]) -> bool {
    let root = context.first().map_or("", String::as_str);
    let in_upstream = context.iter().any(|s| s.starts_with("upstream "));
    match wanted {
        "" => !matches!(root, "stream" | "mail"),
        "upstream" => root == "http" && in_upstream,
        "http" => root == "http" && !in_upstream,
        other => context.last().is_some_and(|s| s == other),
    }
}

/// The directive that a template names: its name, with the arguments that the template gives with it, or the subject
/// that `to` has in common with it.
fn is_about(template: &ChangeTemplate, directive: &Directive, to: &str) -> bool {
    let mut words = template.directive.split_whitespace();
    let is_named = words
        .next()
        .is_some_and(|name| directive.name.eq_ignore_ascii_case(name))
        || template.aliases.contains(&directive.name);
    let given: Vec<&str> = words.collect();
    let excepted = |arg: &String| template.except.iter().any(|e| arg.contains(e.as_str()));
    is_named
        && directive.args.len() >= given.len()
        && given.iter().zip(&directive.args).all(|(g, a)| g == a)
        && (!given.is_empty() || same_subject(directive, to))
        && !directive.args.iter().any(excepted)
}

/// Directives that stand once for each subject: their first argument says which.
const PER_SUBJECT: [&str; 9] = [
    "proxy_set_header",
    "add_header",
    "option",
    "timeout",
    "fastcgi_param",
    "log_format",
    "no",
    "SetEnv",
    "Header",
];

/// Whether a directive that stands is the one that `to` would replace.
fn same_subject(directive: &Directive, to: &str) -> bool {
    let per_subject = PER_SUBJECT
        .iter()
        .any(|name| directive.name.eq_ignore_ascii_case(name));
    let subject = to.split_whitespace().nth(1);
    !per_subject || subject.is_none() || directive.args.first().map(String::as_str) == subject
}

/// What extends a directive by an option (`$*`) is made once for each subject, and where the option stands if it does:
/// an address listens in one way, however many servers share it.
fn first_of_each<'a>(standing: &[&'a Directive], to: &str) -> Vec<&'a Directive> {
    if !to.contains("$*") {
        return standing.to_vec();
    }
    let keys = keys_of(to);
    let has_key = |d: &&&Directive| d.args.iter().any(|a| keys.iter().any(|k| a.starts_with(k)));
    let first = standing.iter().filter(has_key);
    let rest = standing.iter().filter(|d| !has_key(d));
    let mut found: Vec<&Directive> = Vec::new();
    for directive in first.chain(rest) {
        if !found
            .iter()
            .any(|d| d.args.first() == directive.args.first())
        {
            found.push(directive);
        }
    }
    found
}

/// `key=` of each `key=value` in `to`.
fn keys_of(to: &str) -> Vec<&str> {
    let words = to.split_whitespace().filter(|w| !w.starts_with('$'));
    words
        .filter_map(|w| w.find('=').map(|at| &w[..=at]))
        .collect()
}

/// `to` with arguments of the directive that stands: `$0` the first, `$1|word` the second or this word, `$*` all but
/// those that `to` gives anew. `None` where it lacks one.
fn filled_in(to: &str, directive: &Directive) -> Option<String> {
    let keys = keys_of(to);
    let mut words: Vec<String> = Vec::new();
    for word in to.split(' ') {
        let argument = word.strip_prefix('$');
        let Some(argument) =
            argument.filter(|a| a.starts_with(|c: char| c == '*' || c.is_ascii_digit()))
        else {
            words.push(word.to_owned());
            continue;
        };
        if argument == "*" {
            let kept = |a: &&String| !keys.iter().any(|k| a.starts_with(k));
            words.extend(directive.args.iter().filter(kept).map(|a| in_quotes(a)));
            if directive.args.is_empty() {
                return None;
            }
            continue;
        }
        let (index, other) = argument.split_once('|').unwrap_or((argument, ""));
        let given = index
            .parse()
            .ok()
            .and_then(|i: usize| directive.args.get(i));
        match given {
            Some(arg) => words.push(in_quotes(arg)),
            None if other.is_empty() => return None,
            None => words.push(other.to_owned()),
        }
    }
    Some(words.join(" "))
}

fn in_quotes(arg: &str) -> String {
    match arg.is_empty() || arg.contains(char::is_whitespace) {
        true => format!("\"{arg}\""),
        false => arg.to_owned(),
    }
}

/// The directive as a server of this kind spells it.
fn spelled(kind: &str, directive: &Directive) -> String {
    if kind == "lighttpd" {
        return assigned(directive);
    }
    if kind == "tomcat" && !directive.file.is_empty() {
        return format!("{}=\"{}\"", directive.name, directive.args.join(" "));
    }
    if directive.context.first().is_some_and(|c| c == PARAM) {
        return format!("-p {}={}", directive.name, directive.args.join(","));
    }
    let between = between(directive);
    let mut text = directive.name.clone();
    for arg in &directive.args {
        text.push_str(between);
        text.push_str(&in_quotes(arg));
    }
    text
}

/// lighttpd's `name = value`: numbers and lists as they are, texts in quotes. An operator other than `=` stands behind
/// the value.
fn assigned(directive: &Directive) -> String {
    let value = directive.args.first().map_or("", String::as_str);
    let operator = directive.args.get(1).map_or("=", String::as_str);
    let is_number = !value.is_empty() && value.chars().all(|c| c.is_ascii_digit());
    match is_number || value.contains('"') || value.starts_with('(') {
        true => format!("{} {operator} {value}", directive.name),
        false => format!("{} {operator} \"{value}\"", directive.name),
    }
}

/// What stands between a name and its value: `GOGC=50`, `-Xmx1g`, `-XX:A=b`, `--workers 2`.
fn between(directive: &Directive) -> &'static str {
    let is_size = ["-Xmx", "-Xms", "-Xmn", "-Xss"].contains(&directive.name.as_str());
    match directive.context.first().map(String::as_str) {
        Some(JVM) if is_size => "",
        Some(ENVIRONMENT | JVM | "node") => "=",
        _ => " ",
    }
}

/// The sections into which a directive is added that is not set: each one of that kind (`upstream a` and `upstream b`
/// for `upstream`), or the one that the template names where nothing stands in it. Where there can be several, there
/// may be none, and then there is no place for it.
fn sections(context: &str, directives: &[Directive]) -> Vec<Vec<String>> {
    if context.is_empty() {
        return vec![Vec::new()];
    }
    let mut found: Vec<Vec<String>> = Vec::new();
    for directive in directives {
        let at = directive.context.iter().position(|section| {
            section.split_whitespace().next() == context.split_whitespace().next()
                && section.starts_with(context)
        });
        if let Some(at) = at {
            let path = directive.context[..=at].to_vec();
            if !found.contains(&path) {
                found.push(path);
            }
        }
    }
    if found.is_empty() && !is_one_of_many(context) {
        found.push(vec![context.to_owned()]);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue;
    use crate::diagnosis::fact::FactSet;
    use record::Server;

    fn directive(context: &[&str], name: &str, arg: &str) -> Directive {
        Directive {
            name: name.to_owned(),
            args: vec![arg.to_owned()],
            context: context.iter().map(|c| (*c).to_owned()).collect(),
            ..Directive::default()
        }
    }

    /// The changes for a cause at a server of this kind, as `section: from -> to`.
    fn proposed(
        cause: &str,
        kind: &str,
        directives: &[Directive],
        known: &[(&str, f64)],
    ) -> String {
        let mut facts = FactSet::default();
        facts.targets.push("server".to_owned());
        for (name, value) in known {
            let of = if name.starts_with("client.") {
                ""
            } else {
                "server"
            };
            facts.known(of, name, *value, "a number");
        }
        let server = Server {
            kind: kind.to_owned(),
            directives: directives.to_vec(),
            ..Server::default()
        };
        facts.servers.insert("server".to_owned(), server);
        let cause = catalogue().cause(cause).unwrap();
        let changes = proposed_changes(cause, &facts.view("server"));
        let line = |c: &Change| format!("{}: {} -> {}", c.sections.join(" "), c.from, c.to);
        changes.iter().map(line).collect::<Vec<_>>().join("; ")
    }

    #[test]
    fn processes_are_changed_as_they_are_told() {
        let environment = |name, arg| directive(&["environment"], name, arg);
        let gunicorn = || directive(&[], "argument", "/usr/bin/gunicorn");
        let cores = [("cpu.cores_allowed", 2.0), ("client.connections", 32.0)];
        let jvm = [("jvm.heap_max_bytes", 28.0 * 1048576.0)];
        for (cause, kind, directives, known, want) in [
            (
                "gc_small_heap",
                "go",
                vec![environment("GOGC", "1")],
                &[][..],
                "environment: GOGC=1 -> GOGC=400",
            ),
            (
                "gc_small_heap",
                "go",
                vec![environment("GOGC", "800")],
                &[],
                "",
            ),
            (
                "gc_small_heap",
                "java",
                vec![directive(&["jvm"], "-Xmx", "28m")],
                &jvm,
                "jvm: -Xmx28m -> -Xmx112m",
            ),
            // The largest heap is not known: there is no number to propose.
            (
                "gc_small_heap",
                "java",
                vec![directive(&["jvm"], "-Xmx", "28m")],
                &[],
                "",
            ),
            (
                "gc_small_heap",
                "node",
                vec![directive(&["node"], "--max-old-space-size", "48")],
                &[],
                "node: --max-old-space-size=48 -> --max-old-space-size=2048; node:  -> --max-semi-space-size=64",
            ),
            (
                "single_worker_saturated",
                "go",
                vec![environment("GOMAXPROCS", "1")],
                &cores,
                "environment: GOMAXPROCS=1 -> GOMAXPROCS=2",
            ),
            (
                "single_worker_saturated",
                "go",
                vec![environment("GOGC", "1")],
                &cores,
                "",
            ),
            (
                "single_threaded_runtime",
                "python",
                vec![gunicorn(), directive(&[], "-w", "1")],
                &cores,
                ": -w 1 -> -w 2",
            ),
            (
                "single_threaded_runtime",
                "python",
                vec![gunicorn()],
                &cores,
                ":  -> --workers 2",
            ),
            (
                "single_threaded_runtime",
                "python",
                vec![directive(&[], "argument", "app.py")],
                &cores,
                "",
            ),
            (
                "thread_pool_too_small",
                "python",
                vec![gunicorn()],
                &cores,
                ":  -> --threads 16",
            ),
            (
                "thread_pool_too_small",
                "python",
                vec![gunicorn(), directive(&[], "-k", "gevent")],
                &cores,
                "",
            ),
            (
                "thread_pool_too_small",
                "node",
                vec![gunicorn()],
                &cores,
                "environment:  -> UV_THREADPOOL_SIZE=32",
            ),
            (
                "threads_beyond_quota",
                "go",
                vec![gunicorn()],
                &[("cgroup.quota_cores", 1.4)],
                "environment:  -> GOMAXPROCS=1",
            ),
            (
                "threads_beyond_quota",
                "go",
                vec![gunicorn()],
                &[("cgroup.quota_cores", 3.4)],
                "environment:  -> GOMAXPROCS=3",
            ),
        ] {
            assert_eq!(
                proposed(cause, kind, &directives, known),
                want,
                "{cause} {kind}"
            );
        }
    }

    #[test]
    fn lighttpd_is_changed_by_assignments() {
        let mut appended = directive(&[], "server.network-backend", "write");
        appended.args.push("+=".to_owned());
        for (cause, directives, want) in [
            (
                "server_keepalive_off",
                vec![directive(&["c"], "server.max-keep-alive-requests", "0")],
                "c: server.max-keep-alive-requests = 0 -> server.max-keep-alive-requests = 65535",
            ),
            (
                "server_keepalive_off",
                vec![directive(&[], "server.max-keep-alive-requests", "65535")],
                "",
            ),
            (
                "no_sendfile",
                vec![directive(&[], "server.network-backend", "writev")],
                ": server.network-backend = \"writev\" -> server.network-backend = \"sendfile\"",
            ),
            (
                "no_sendfile",
                vec![directive(&[], "server.network-backend", "sendfile")],
                "",
            ),
            (
                "no_sendfile",
                vec![appended],
                ": server.network-backend += \"write\" -> server.network-backend = \"sendfile\"",
            ),
            // More than 16 bits hold would be taken for less.
            (
                "worker_connections_limit",
                vec![directive(&[], "server.port", "80")],
                ":  -> server.max-connections = 32767; :  -> server.max-fds = 65535",
            ),
        ] {
            let known = [("client.connections", 20_000.0)];
            let got = proposed(cause, "lighttpd", &directives, &known);
            assert_eq!(got, want, "{cause}");
        }
    }

    #[test]
    fn varnish_is_changed_by_its_parameters() {
        let parameter = |name, value| directive(&["param"], name, value);
        for (cause, directives, want) in [
            (
                "thread_pool_too_small",
                vec![
                    parameter("thread_pool_min", "5"),
                    parameter("thread_pool_max", "8"),
                ],
                "param: -p thread_pool_max=8 -> -p thread_pool_max=5000; \
                 param: -p thread_pool_min=5 -> -p thread_pool_min=200",
            ),
            // Its own default is as large.
            (
                "thread_pool_too_small",
                vec![parameter("thread_pools", "1")],
                "",
            ),
            (
                "listen_backlog_overflow",
                vec![directive(&[], "-a", ":80")],
                "param:  -> -p listen_depth=4096",
            ),
            (
                "listen_backlog_overflow",
                vec![parameter("listen_depth", "4096")],
                "",
            ),
        ] {
            let got = proposed(cause, "varnish", &directives, &[]);
            assert_eq!(got, want, "{cause}");
        }
    }

    #[test]
    fn tomcat_is_changed_by_attributes_and_options_of_its_machine() {
        let of = |section: &str, name, value| Directive {
            file: "server.xml".to_owned(),
            ..directive(&["Server -1", section], name, value)
        };
        let connector = |name, value| of("Connector 80", name, value);
        let clients = [("client.connections", 32.0)];
        let heap = [("jvm.heap_max_bytes", 28.0 * 1048576.0)];
        for (cause, directives, known, want) in [
            (
                "thread_pool_too_small",
                vec![connector("port", "80")],
                &clients[..],
                "Server -1 Connector 80:  -> maxThreads=\"200\"",
            ),
            // Its threads are those of an executor.
            (
                "thread_pool_too_small",
                vec![
                    of("Executor e", "maxThreads", "2"),
                    connector("executor", "e"),
                ],
                &clients,
                "Server -1 Executor e: maxThreads=\"2\" -> maxThreads=\"200\"",
            ),
            (
                "nagle_delayed_ack",
                vec![connector("tcpNoDelay", "true")],
                &[],
                "",
            ),
            (
                "gc_small_heap",
                vec![directive(&["jvm"], "-Xmx", "28m")],
                &heap,
                "jvm: -Xmx28m -> -Xmx112m",
            ),
        ] {
            let got = proposed(cause, "tomcat", &directives, known);
            assert_eq!(got, want, "{cause}");
        }
    }

    #[test]
    fn limits_are_changed_of_any_server_and_need_no_configuration() {
        let nice = [("worker.nice", 19.0), ("cgroup.shares", 1024.0)];
        let quota = [("cgroup.quota_cores", 0.1), ("cpu.cores_allowed", 2.0)];
        let files = [("limit.files_limit", 64.0), ("client.connections", 2_000.0)];
        for (cause, kind, directives, known, want) in [
            (
                "cgroup_cpu_quota",
                "generic",
                vec![],
                &quota[..],
                "limits: CPUQuota=10% -> CPUQuota=200%",
            ),
            (
                "fd_limit",
                "go",
                vec![],
                &files,
                "limits: LimitNOFILE=64 -> LimitNOFILE=8000",
            ),
            (
                "low_priority",
                "go",
                vec![],
                &nice,
                "limits: Nice=19 -> Nice=0",
            ),
            (
                "low_priority",
                "go",
                vec![],
                &[("worker.nice", 0.0), ("cgroup.shares", 2.0)],
                "limits: CPUWeight=1 -> CPUWeight=100",
            ),
            // nginx sets its workers' own.
            (
                "low_priority",
                "nginx",
                vec![directive(&[], "worker_priority", "19")],
                &nice,
                ": worker_priority 19 -> ",
            ),
        ] {
            assert_eq!(
                proposed(cause, kind, &directives, known),
                want,
                "{cause} {kind}"
            );
        }
    }
}
