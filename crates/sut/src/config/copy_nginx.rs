//! A copy of nginx's configuration: one file, with the included ones in their places.
//!
//! The surprise: the prefix stays that of the running server, since most relative paths hang on it; those that hang on
//! the directory of the configuration file are made absolute.

use super::copy::{ChangeAction, ConfigChange, Moves, meant, nothing_to_change, refused};
use super::files::{self, Files};
use super::nginx::{self, Body, Node, Paths};
use crate::error::TargetError;
use record::Server;
use std::net::IpAddr;

/// Directives of which there may be several, one for each first argument.
const KEYED: [&str; 12] = [
    "add_header",
    "fastcgi_param",
    "fastcgi_hide_header",
    "grpc_set_header",
    "listen",
    "proxy_hide_header",
    "proxy_set_header",
    "server",
    "set",
    "proxy_cache_valid",
    "uwsgi_param",
    "scgi_param",
];
/// How an upstream is chosen; what keeps connections builds on it and must stand behind it.
const BALANCING: [&str; 5] = ["least_conn", "ip_hash", "hash", "random", "least_time"];
/// Directives whose last path is relative to the directory of the configuration file.
const CONF_RELATIVE: [&str; 17] = [
    "ssl_certificate",
    "ssl_certificate_key",
    "ssl_client_certificate",
    "ssl_trusted_certificate",
    "ssl_crl",
    "ssl_dhparam",
    "ssl_password_file",
    "ssl_session_ticket_key",
    "ssl_stapling_file",
    "auth_basic_user_file",
    "proxy_ssl_certificate",
    "proxy_ssl_certificate_key",
    "proxy_ssl_trusted_certificate",
    "proxy_ssl_crl",
    "geoip_country",
    "geoip_city",
    "js_include",
];
/// Modules with a directory for temporary files, whose built-in path the running server uses.
const TEMPORARY: [&str; 5] = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];

/// Name and text of the file, and the command line.
pub(crate) fn copied(
    server: &Server,
    changes: &[ConfigChange],
    files: &mut Files,
    moves: &mut Moves,
) -> Result<(&'static str, String, Vec<String>), TargetError> {
    const NAME: &str = "nginx.conf";
    let Some(built_in) = nginx::built_in(server) else {
        return Err(refused(
            server,
            "the program does not say how it was built",
            "run as root",
        ));
    };
    let cwd = super::working_directory(server.main_pid);
    let paths = Paths::of(&server.command, &built_in, &cwd);
    let mut tree = nginx::tree(&paths, files);
    // Changes speak of the running server's addresses and files, so they come before those are moved.
    for change in changes {
        let mut touched = 0;
        let exactly = stands(&tree, &[], change);
        apply(&mut tree, &[], change, exactly, &mut touched);
        if touched == 0 {
            return Err(nothing_to_change(server, change));
        }
    }
    move_away(&mut tree, &paths, &built_in, moves);
    let file = moves.dir.join(NAME).display().to_string();
    let log = moves.dir.join("start.log").display().to_string();
    let argv = [&server.exe, "-p", &paths.prefix, "-c", &file, "-e", &log];
    let mut text = String::new();
    write(&tree, 0, &mut text);
    Ok((NAME, text, argv.map(str::to_owned).to_vec()))
}

fn move_away(tree: &mut Vec<Node>, paths: &Paths, built_in: &str, moves: &mut Moves) {
    tree.retain(|n| !matches!(n.name.as_str(), "daemon" | "pid" | "lock_file"));
    walk(tree, &[], &paths.conf_dir(), moves);
    for node in tree.iter_mut() {
        point_inside(node, moves);
    }
    let own = |moves: &Moves, name: &str| vec![moves.dir.join(name).display().to_string()];
    let mut added = vec![
        Node::new("daemon", &["off".to_owned()]),
        Node::new("pid", &own(moves, "nginx.pid")),
        Node::new("lock_file", &own(moves, "nginx.lock")),
    ];
    if !tree.iter().any(|n| n.name == "error_log") {
        added.push(Node::new("error_log", &own(moves, "error.log")));
    }
    for node in tree.iter_mut().filter(|n| n.name == "http") {
        let Body::Block(inner) = &mut node.body else {
            continue;
        };
        let mut missing: Vec<Node> = TEMPORARY
            .iter()
            .filter(|m| !built_in.contains(&format!("--without-http_{m}_module")))
            .map(|m| format!("{m}_temp_path"))
            .filter(|name| !inner.iter().any(|n| n.name == *name))
            .map(|name| Node::new(&name, &own(moves, &name)))
            .collect();
        if !inner.iter().any(|n| n.name == "access_log") {
            missing.push(Node::new("access_log", &own(moves, "access.log")));
        }
        inner.splice(..0, missing);
    }
    tree.splice(..0, added);
}

fn walk(nodes: &mut Vec<Node>, context: &[&str], conf_dir: &str, moves: &mut Moves) {
    let is_server = context.last() == Some(&"server");
    if is_server && !nodes.iter().any(|n| n.name == "listen") {
        // What nginx takes for a server without an address.
        nodes.insert(0, Node::new("listen", &["80".to_owned()]));
    }
    let mut taken: Vec<String> = Vec::new();
    let mut kept = Vec::new();
    for mut node in std::mem::take(nodes) {
        if is_server && node.name == "listen" {
            match listen(&node.args, moves) {
                Some(args) if !taken.contains(&args[0]) => {
                    taken.push(args[0].clone());
                    kept.push(Node::new("listen", &args));
                }
                Some(_) => {}
                None => moves
                    .notes
                    .push(format!("left out: listen {}", node.args.join(" "))),
            }
            continue;
        }
        move_paths(&mut node, conf_dir, moves);
        if let Body::Block(inner) = &mut node.body {
            let mut inside = context.to_vec();
            // In `upstream` a `server` is no block, and its context none of ours.
            let name = node.name.clone();
            inside.push(&name);
            walk(inner, &inside, conf_dir, moves);
        }
        kept.push(node);
    }
    *nodes = kept;
}

fn move_paths(node: &mut Node, conf_dir: &str, moves: &Moves) {
    let is_file = |path: &str| {
        !matches!(path, "off" | "stderr")
            && !path.starts_with("syslog:")
            && !path.starts_with("memory:")
    };
    let Some(first) = node.args.first().cloned() else {
        return;
    };
    let name = node.name.as_str();
    let is_log = matches!(name, "access_log" | "error_log") && is_file(&first);
    let is_temporary = name.ends_with("_temp_path") || name.ends_with("_cache_path");
    let new = if is_log || is_temporary {
        moves.path(&first)
    } else if CONF_RELATIVE.contains(&name)
        && !first.starts_with(['/', '$'])
        && !first.contains(':')
    {
        files::join(conf_dir, &first).display().to_string()
    } else {
        return;
    };
    node.raw[0] = nginx::quoted(&new);
    node.args[0] = new;
}

/// The moved address with the options that hold for it; `None` when it is left out.
fn listen(args: &[String], moves: &mut Moves) -> Option<Vec<String>> {
    // Options of the socket: given once for an address, and addresses may fall together in the copy.
    const KEPT: [&str; 4] = ["ssl", "http2", "proxy_protocol", "reuseport"];
    let address = args.first()?;
    if args.iter().any(|a| a == "quic" || a == "udp") {
        return None;
    }
    let new = if let Some(path) = address.strip_prefix("unix:") {
        format!("unix:{}", moves.path(path))
    } else {
        let (ip, port) = split_address(address)?;
        moves.address(ip, port)?.to_string()
    };
    let is_kept = |a: &&String| {
        KEPT.contains(&a.as_str()) || a.starts_with("backlog=") || *a == "default_server"
    };
    Some(
        std::iter::once(new)
            .chain(args[1..].iter().filter(is_kept).cloned())
            .collect(),
    )
}

/// `80`, `*:80`, `1.2.3.4`, `[::]:80`, `name:80`; a name stands for any address.
fn split_address(text: &str) -> Option<(Option<IpAddr>, u16)> {
    if let Ok(port) = text.parse() {
        return Some((None, port));
    }
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, port.parse().ok()?),
        _ => (text, 80),
    };
    Some((host.trim_matches(['[', ']']).parse().ok(), port))
}

/// What is forwarded to a listener of the server itself goes to that of the copy.
fn point_inside(node: &mut Node, moves: &Moves) {
    if let Body::Block(inner) = &mut node.body {
        for node in inner {
            point_inside(node, moves);
        }
        return;
    }
    if !node.name.ends_with("_pass") && node.name != "server" {
        return;
    }
    if let Some(first) = node.args.first_mut()
        && let Some(new) = moves.inside(first)
    {
        node.raw[0] = nginx::quoted(&new);
        *first = new;
    }
}

/// Does a directive stand in a section of that name as the change spells it? Then sections of the same name are not
/// meant.
fn stands(nodes: &[Node], context: &[String], change: &ConfigChange) -> bool {
    if context == change.context {
        let is_it = |n: &Node| n.name == change.name && n.args == change.from;
        return !change.from.is_empty() && nodes.iter().any(is_it);
    }
    nodes.iter().any(|node| {
        let inside = [context, &[node.label()]].concat();
        matches!(&node.body, Body::Block(inner)
            if change.context.starts_with(&inside) && stands(inner, &inside, change))
    })
}

fn apply(
    nodes: &mut Vec<Node>,
    context: &[String],
    change: &ConfigChange,
    exactly: bool,
    touched: &mut usize,
) {
    if context == change.context {
        if exactly && !stands(nodes, context, change) {
            return;
        }
        let keyed = KEYED.contains(&change.name.as_str());
        let section = nodes.iter().map(|n| (n.name.as_str(), n.args.as_slice()));
        let found = meant(change, section, keyed);
        let new = Node::new(&change.name, &change.args);
        match (change.action, found.first()) {
            (ChangeAction::Add, _) | (ChangeAction::Set, None) => {
                let first = BALANCING.contains(&change.name.as_str());
                nodes.insert(if first { 0 } else { nodes.len() }, new);
            }
            (ChangeAction::Remove, Some(_)) => {
                for at in found.into_iter().rev() {
                    nodes.remove(at);
                }
            }
            (_, Some(at)) => nodes[*at] = new,
            (_, None) => return,
        }
        *touched += 1;
        return;
    }
    for node in nodes {
        let label = node.label();
        if let Body::Block(inner) = &mut node.body {
            let mut inside = context.to_vec();
            inside.push(label);
            if change.context.starts_with(&inside) {
                apply(inner, &inside, change, exactly, touched);
            }
        }
    }
}

fn write(nodes: &[Node], depth: usize, out: &mut String) {
    for node in nodes {
        let indent = "    ".repeat(depth);
        // Keys of a map are words that may need quotes themselves.
        let name = nginx::quoted(&node.name);
        let words = std::iter::once(name.as_str()).chain(node.raw.iter().map(String::as_str));
        let line = words.collect::<Vec<_>>().join(" ");
        match &node.body {
            Body::None => out.push_str(&format!("{indent}{line};\n")),
            Body::Text(text) => out.push_str(&format!("{indent}{line} {{{text}}}\n")),
            Body::Block(inner) => {
                out.push_str(&format!("{indent}{line} {{\n"));
                write(inner, depth + 1, out);
                out.push_str(&format!("{indent}}}\n"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        for (text, want) in [
            ("80", Some((None, 80))),
            ("*:81", Some((None, 81))),
            ("[::]:82", Some((Some("::".parse().unwrap()), 82))),
            ("127.0.0.1", Some((Some("127.0.0.1".parse().unwrap()), 80))),
            ("[::1]", Some((Some("::1".parse().unwrap()), 80))),
            ("a:x", None),
        ] {
            assert_eq!(split_address(text), want, "{text}");
        }
    }

    #[test]
    fn what_is_written_reads_the_same() {
        let text = "a 1;\nhttp { map $x $y { \"~*a b\" \"c d\"; } location ~ \"\\.x{2}\" { b_by_lua_block { x = {} } } }";
        let tree = nginx::parse(text, "");
        let mut out = String::new();
        write(&tree, 0, &mut out);
        let names = |t: &[Node]| {
            nginx::flat(t)
                .iter()
                .map(|d| (d.name.clone(), d.args.clone()))
                .collect::<Vec<_>>()
        };
        assert_eq!(names(&nginx::parse(&out, "")), names(&tree), "{out}");
    }
}
