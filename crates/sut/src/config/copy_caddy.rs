//! A copy of Caddy: the JSON that it runs with, with places of its own.
//!
//! Listeners, storage and files of logs move; the admin endpoint and automatic HTTPS are off. The surprise: what
//! looks like a listener's address decides whether Caddy orders certificates (a site that is named, and is not at
//! the HTTP port), so a copy at another port would order them. A server that does is refused.

use super::copy::{ChangeAction, ConfigChange, Moves, nothing_to_change, refused};
use super::copy_process;
use super::flags::ENVIRONMENT;
use super::running_caddy::running;
use crate::error::TargetError;
use record::Server;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Where plain HTTP is expected, unless `http_port` says otherwise.
const HTTP: u64 = 80;
const NANOS_PER_S: f64 = 1e9;

/// Name and text of the file, and the command line; `env` becomes the copy's own.
pub(crate) fn copied(
    server: &Server,
    changes: &[ConfigChange],
    env: &mut BTreeMap<String, String>,
    moves: &mut Moves,
) -> Result<(&'static str, String, Vec<String>), TargetError> {
    const NAME: &str = "caddy.json";
    let mut config = running(server, &moves.dir)?;
    can_be_copied(server, &config)?;
    let place = |name: &str| moves.dir.join(name).display().to_string();
    let file = place(NAME);
    let mut argv = vec![server.exe.clone(), "run".to_owned()];
    argv.extend(["--config".to_owned(), file]);
    let envfile = super::values_of(&server.command, "--envfile");
    argv.extend(
        envfile
            .into_iter()
            .flat_map(|v| ["--envfile".to_owned(), v]),
    );
    *env = copy_process::own_environment(server.main_pid);
    for name in ["XDG_DATA_HOME", "XDG_CONFIG_HOME"] {
        env.insert(name.to_owned(), place("state"));
    }
    config["storage"] = json!({ "module": "file_system", "root": place("storage") });
    config["admin"] = json!({ "disabled": true, "config": { "persist": false } });
    move_away(server, &mut config, moves)?;
    for change in changes {
        let made = match change.context.first().map(String::as_str) {
            Some(ENVIRONMENT) => copy_process::apply_to_variable(env, change),
            Some(section) => apply(&mut config, section, change),
            None => false,
        };
        if !made {
            return Err(nothing_to_change(server, change));
        }
    }
    Ok((NAME, config.to_string(), argv))
}

/// Refuses what a copy would share with the server, or order from others.
fn can_be_copied(server: &Server, config: &Value) -> Result<(), TargetError> {
    let by_hand = "make the change by hand on a copy of your own and compare with `prony run`";
    let apps = config["apps"].as_object();
    let known = ["http", "tls", "pki"];
    if let Some((name, _)) = apps.and_then(|a| a.iter().find(|(n, _)| !known.contains(&n.as_str())))
    {
        let cause =
            format!("it runs the app `{name}`, of which it is not known what a copy would share");
        return Err(refused(server, &cause, by_hand));
    }
    let tls = &config["apps"]["tls"];
    let is_set = |value: &Value| !value.is_null() && value != &json!([]);
    let site = servers(config).find(|(_, s)| orders(s, http_port(config), loaded(tls)));
    let ordered = match site {
        Some((name, s)) => Some(names(s).next().map_or_else(|| name.clone(), str::to_owned)),
        None => {
            is_set(&tls["certificates"]["automate"]).then(|| "all that it is told to".to_owned())
        }
    };
    if let Some(name) = ordered {
        let cause =
            format!("it orders certificates itself ({name}), and a copy would order them again");
        let remedy = "prove it with plain HTTP (`http://NAME`, `auto_https off`) or with certificates from files (`tls CERT KEY`)";
        return Err(refused(server, &cause, remedy));
    }
    let mut all = Vec::new();
    objects(config, &mut all);
    let handler = |name: &str| all.iter().any(|o| o["handler"] == name);
    if handler("acme_server") {
        return Err(refused(
            server,
            "it issues certificates (acme_server)",
            by_hand,
        ));
    }
    let logs = config["logging"]["logs"].as_object().into_iter().flatten();
    let mut logs = logs.filter(|(_, log)| log["writer"]["output"] == "net");
    match logs.next() {
        Some((name, _)) => {
            let cause =
                format!("its log `{name}` goes to another program, and a copy's would as well");
            Err(refused(
                server,
                &cause,
                "log to a file or to standard error",
            ))
        }
        None => Ok(()),
    }
}

fn servers(config: &Value) -> impl Iterator<Item = (&String, &Value)> {
    let servers = config["apps"]["http"]["servers"].as_object();
    servers.into_iter().flatten()
}

fn http_port(config: &Value) -> u64 {
    config["apps"]["http"]["http_port"].as_u64().unwrap_or(HTTP)
}

/// Whether there are certificates from files.
fn loaded(tls: &Value) -> bool {
    let sources = tls["certificates"].as_object().into_iter().flatten();
    sources.filter(|(name, _)| *name != "automate").count() > 0
}

/// Whether Caddy would get certificates for the names of a server (its automatic HTTPS): where names are given that are
/// not left out, at another port than that of plain HTTP, and none are loaded from files.
fn orders(server: &Value, http_port: u64, loaded: bool) -> bool {
    let automatic = &server["automatic_https"];
    if automatic["disable"] == true || automatic["disable_certificates"] == true {
        return false;
    }
    let left_out = |name: &str| {
        let lists = [&automatic["skip"], &automatic["skip_certificates"]];
        let mut all = lists.iter().filter_map(|l| l.as_array()).flatten();
        all.any(|n| n == name)
    };
    let plain = format!(":{http_port}");
    let mut listens = server["listen"].as_array().into_iter().flatten();
    let is_plain = listens.all(|l| l.as_str().is_some_and(|l| l.ends_with(&plain)));
    !is_plain && !loaded && names(server).any(|name| !left_out(name))
}

/// Names that the routes of a server ask for.
fn names(server: &Value) -> impl Iterator<Item = &str> {
    let mut all = Vec::new();
    objects(&server["routes"], &mut all);
    let hosts = all.into_iter().filter_map(|o| o.get("host")?.as_array());
    hosts.flatten().filter_map(Value::as_str)
}

/// Every object in a value, itself included.
fn objects<'a>(value: &'a Value, found: &mut Vec<&'a Value>) {
    match value {
        Value::Object(fields) => {
            found.push(value);
            fields.values().for_each(|v| objects(v, found));
        }
        Value::Array(items) => items.iter().for_each(|v| objects(v, found)),
        _ => {}
    }
}

/// Calls `change` for every object in a value; how many of them it changed.
fn change_objects(value: &mut Value, change: &mut dyn FnMut(&mut Value) -> bool) -> usize {
    let mut changed = usize::from(value.is_object() && change(value));
    match value {
        Value::Object(fields) => {
            changed += fields
                .values_mut()
                .map(|v| change_objects(v, change))
                .sum::<usize>();
        }
        Value::Array(items) => {
            changed += items
                .iter_mut()
                .map(|v| change_objects(v, change))
                .sum::<usize>();
        }
        _ => {}
    }
    changed
}

fn move_away(server: &Server, config: &mut Value, moves: &mut Moves) -> Result<(), TargetError> {
    for (_, site) in fields_mut(config, "/apps/http/servers") {
        let listens = site["listen"].as_array().cloned().unwrap_or_default();
        let mut moved: Vec<Value> = Vec::new();
        for address in listens {
            let text = address.as_str().unwrap_or_default();
            let to = listener(text, moves).ok_or_else(|| {
                let cause = format!("its listener `{text}` cannot be moved");
                refused(server, &cause, "give it as HOST:PORT, without a range")
            })?;
            if !moved.iter().any(|m| *m == to) {
                moved.push(Value::String(to));
            }
        }
        site["listen"] = Value::Array(moved);
        // Nothing is ordered, and what is at another port now is not taken for a site that must be.
        site["automatic_https"] = json!({ "disable": true });
    }
    if let Some(apps) = config.get_mut("apps").and_then(Value::as_object_mut) {
        apps.remove("pki");
    }
    if let Some(tls) = config
        .pointer_mut("/apps/tls")
        .and_then(Value::as_object_mut)
    {
        tls.remove("automation");
    }
    for (_, log) in fields_mut(config, "/logging/logs") {
        if let Some(file) = log.pointer_mut("/writer/filename")
            && let Some(path) = file.as_str()
        {
            *file = Value::String(moves.path(path));
        }
    }
    Ok(())
}

/// The fields of the object there. To index a value that may change would add what it lacks.
fn fields_mut<'a>(
    config: &'a mut Value,
    pointer: &str,
) -> impl Iterator<Item = (&'a String, &'a mut Value)> {
    let object = config.pointer_mut(pointer).and_then(Value::as_object_mut);
    object.into_iter().flatten()
}

/// A listener where the copy has it: `host:port`, `tcp/host:port`, `unix//path`; `None` for what is not known.
fn listener(text: &str, moves: &mut Moves) -> Option<String> {
    if let Some(path) = text.strip_prefix("unix/") {
        return Some(format!("unix/{}", moves.path(path)));
    }
    let address = text.strip_prefix("tcp/").unwrap_or(text);
    let (host, port) = address.rsplit_once(':')?;
    let port: u16 = port.parse().ok()?;
    Some(moves.address_of(host, port)?.to_string())
}

/// Makes a change that is told as a line of a Caddyfile, wherever its block is.
fn apply(config: &mut Value, section: &str, change: &ConfigChange) -> bool {
    if matches!(change.action, ChangeAction::Remove) {
        return false;
    }
    let number = || change.args.first()?.parse::<u64>().ok();
    match (section, change.name.as_str()) {
        ("encode", format) => {
            let level = number();
            level.is_some_and(|level| {
                in_handlers(config, "encode", &mut |handler| {
                    let encodings = handler.get_mut("encodings");
                    let encoding = encodings.and_then(|e| e.get_mut(format));
                    encoding.is_some_and(|e| set(e, "level", json!(level)))
                })
            })
        }
        ("transport http", "keepalive") => {
            let time = change.args.first().and_then(|t| seconds(t));
            time.is_some_and(|time| {
                in_pools(config, &mut |pool| {
                    set(pool, "enabled", json!(true));
                    set(pool, "idle_timeout", json!((time * NANOS_PER_S) as u64))
                })
            })
        }
        ("transport http", "keepalive_idle_conns_per_host") => {
            let most = number();
            most.is_some_and(|most| {
                in_pools(config, &mut |pool| {
                    set(pool, "max_idle_conns_per_host", json!(most))
                })
            })
        }
        ("log", "level") => {
            let level = change.args.first().cloned();
            let debugging =
                fields_mut(config, "/logging/logs").filter(|(_, log)| log["level"] == "DEBUG");
            level.is_some_and(|level| {
                debugging
                    .map(|(_, log)| set(log, "level", json!(level)))
                    .count()
                    > 0
            })
        }
        _ => false,
    }
}

/// Changes the handlers of a name; whether any was changed.
fn in_handlers(config: &mut Value, name: &str, change: &mut dyn FnMut(&mut Value) -> bool) -> bool {
    change_objects(config, &mut |object| {
        object["handler"] == name && change(object)
    }) > 0
}

/// Changes the pools of connections to upstreams over HTTP, which a proxy has without a word.
fn in_pools(config: &mut Value, change: &mut dyn FnMut(&mut Value) -> bool) -> bool {
    in_handlers(config, "reverse_proxy", &mut |proxy| {
        if proxy["transport"].is_null() {
            proxy["transport"] = json!({ "protocol": "http" });
        }
        let is_http = proxy["transport"]["protocol"] == "http";
        if is_http && proxy["transport"]["keep_alive"].is_null() {
            proxy["transport"]["keep_alive"] = json!({});
        }
        is_http && change(&mut proxy["transport"]["keep_alive"])
    })
}

/// Sets a field of an object.
fn set(object: &mut Value, field: &str, value: Value) -> bool {
    let fields = object.as_object_mut();
    fields
        .map(|fields| fields.insert(field.to_owned(), value))
        .is_some()
}

/// A time as a Caddyfile has it, in seconds: `500ms`, `30s`, `2m`.
fn seconds(text: &str) -> Option<f64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "ms" => 0.001,
        "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        _ => return None,
    };
    Some(digits.parse::<f64>().ok()? * unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moves() -> Moves {
        Moves::sample("/d", "127.0.0.1:8080", "127.0.0.1:7")
    }

    #[test]
    fn listeners_of_all_forms_are_moved() {
        for (text, want) in [
            (":8080", Some("127.0.0.1:7")),
            ("localhost:8080", Some("127.0.0.1:7")),
            ("tcp/0.0.0.0:8080", Some("127.0.0.1:7")),
            ("[::]:8080", Some("127.0.0.1:7")),
            ("unix//run/c.sock", Some("unix//d/run_c.sock")),
            (":8080-8090", None),
            ("udp/:8080", None),
            ("", None),
        ] {
            assert_eq!(listener(text, &mut moves()).as_deref(), want, "{text}");
        }
    }

    #[test]
    fn whoever_would_order_certificates_is_known() {
        let named = json!([{ "match": [{ "host": ["a.test"] }], "handle": [] }]);
        let site = |listen: &str, automatic: Value| json!({ "listen": [listen], "routes": named, "automatic_https": automatic });
        for (server, loaded, want) in [
            (site(":443", Value::Null), false, true),
            (site(":8443", Value::Null), false, true),
            // Its certificate is loaded from a file.
            (site(":443", Value::Null), true, false),
            (site(":80", Value::Null), false, false),
            (site(":8080", json!({ "skip": ["a.test"] })), false, false),
            (site(":443", json!({ "skip": ["b.test"] })), false, true),
            (site(":443", json!({ "disable": true })), false, false),
            (
                site(":443", json!({ "disable_redirects": true })),
                false,
                true,
            ),
            (json!({ "listen": [":443"], "routes": [] }), false, false),
        ] {
            assert_eq!(orders(&server, HTTP, loaded), want, "{server}");
        }
    }

    #[test]
    fn lines_of_a_caddyfile_are_changes_of_the_json() {
        let proxy = json!({ "handler": "reverse_proxy", "upstreams": [] });
        let tuned = json!({ "handler": "reverse_proxy", "transport":
            { "protocol": "http", "keep_alive": { "enabled": false, "max_idle_conns_per_host": 1 } } });
        let other = json!({ "handler": "reverse_proxy", "transport": { "protocol": "fastcgi" } });
        let encode = json!({ "handler": "encode", "encodings": { "gzip": { "level": 9 } } });
        let config = json!({
            "apps": { "http": { "servers": { "s": { "routes": [{ "handle": [proxy, { "routes": [tuned, other, encode] }] }] } } } },
            "logging": { "logs": { "default": { "level": "DEBUG" }, "a": {} } },
        });
        let after = |section: &str, line: &str| {
            let mut words = line.split(' ').map(str::to_owned);
            let change = ConfigChange {
                action: ChangeAction::Set,
                context: vec![section.to_owned()],
                name: words.next().unwrap(),
                args: words.collect(),
                from: Vec::new(),
            };
            let mut config = config.clone();
            apply(&mut config, section, &change).then_some(config)
        };
        let handle = "/apps/http/servers/s/routes/0/handle";
        let kept = after("transport http", "keepalive 2m").unwrap();
        let pool = json!({ "enabled": true, "idle_timeout": 120_000_000_000_u64 });
        let first = format!("{handle}/0/transport/keep_alive");
        assert_eq!(kept.pointer(&first), Some(&pool));
        let inner = format!("{handle}/1/routes");
        let most = after("transport http", "keepalive_idle_conns_per_host 64").unwrap();
        let routes = most.pointer(&inner).unwrap();
        assert_eq!(
            routes[0]["transport"]["keep_alive"]["max_idle_conns_per_host"],
            64
        );
        assert_eq!(routes[1], other);
        let level = after("encode", "gzip 1").unwrap();
        assert_eq!(
            level.pointer(&inner).unwrap()[2]["encodings"]["gzip"]["level"],
            1
        );
        let quiet = after("log", "level INFO").unwrap();
        assert_eq!(
            quiet["logging"]["logs"],
            json!({ "default": { "level": "INFO" }, "a": {} })
        );
        for (section, line) in [
            ("encode", "zstd 1"),
            ("encode", "gzip x"),
            ("transport http", "keepalive 2"),
            ("transport http", "other 1"),
            ("elsewhere", "gzip 1"),
        ] {
            assert_eq!(after(section, line), None, "{section} {line}");
        }
    }

    #[test]
    fn what_a_copy_would_share_is_refused() {
        let server = Server::default();
        for (config, want) in [
            (json!({ "apps": { "http": {}, "tls": {} } }), None),
            (json!({ "apps": { "layer4": {} } }), Some("app `layer4`")),
            (
                json!({ "apps": { "tls": { "certificates": { "automate": ["a"] } } } }),
                Some("orders certificates"),
            ),
            (
                json!({ "apps": { "http": { "a": [{ "handler": "acme_server" }] } } }),
                Some("acme_server"),
            ),
            (
                json!({ "logging": { "logs": { "l": { "writer": { "output": "net" } } } } }),
                Some("log `l`"),
            ),
        ] {
            let got = can_be_copied(&server, &config).err().map(|e| e.to_string());
            match want {
                Some(part) => assert!(got.clone().unwrap_or_default().contains(part), "{got:?}"),
                None => assert_eq!(got, None),
            }
        }
    }
}
