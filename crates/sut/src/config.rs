//! The configuration that a server runs with, read from its command line, its environment and its files.
//!
//! Nothing is asked of the server: `nginx -t` would open its logs, and a reload would change it. What it would read
//! today is read, which is what it runs with unless a file was changed since; that is said. The surprise:
//! there is no common form. Each server has a reader of its own grammar, and all give the same list: directives in the
//! order in which the server reads them, a section before what it holds, so that [`effective`] can apply the
//! server's own rule of inheritance.

mod apache;
mod ask;
mod copy;
mod copy_apache;
mod copy_caddy;
mod copy_haproxy;
mod copy_lighttpd;
mod copy_nginx;
mod copy_process;
mod copy_tomcat;
mod copy_varnish;
mod files;
mod flags;
mod haproxy;
mod ini;
mod lighttpd;
mod lighttpd_value;
mod loaded_vcl;
mod merged_lighttpd;
mod nginx;
mod running_caddy;
mod told;
mod tomcat;
mod varnish;
mod vcl;

pub use copy::{ChangeAction, ConfigChange, CopiedConfig, copy};
pub(crate) use copy::{bound_at, refused};

use crate::discover;
use files::Files;
use linux::procfs::{self, PROC};
use record::{Directive, Server, Unavailable};
use std::path::Path;
use std::time::SystemTime;

/// Fills in `directives` and `config_files`, and adds to `unavailable` what could not be read.
pub fn read(server: &mut Server) {
    let mut files = Files::of(server.main_pid);
    match server.kind.as_str() {
        "nginx" => nginx::read(server, &mut files),
        "haproxy" => haproxy::read(server, &mut files),
        "apache" => apache::read(server, &mut files),
        "lighttpd" => lighttpd::read(server, &mut files),
        "tomcat" => tomcat::read(server, &mut files),
        "varnish" => vcl::read(server, &mut files),
        "php-fpm" => ini::read_fpm(server, &mut files),
        "python" if server.version.starts_with("uwsgi") => ini::read_uwsgi(server, &mut files),
        _ => {}
    }
    flags::read(server);
    note_changed(server, &files);
    server.config_files.append(&mut files.read);
    server.unavailable.append(&mut files.unavailable);
}

/// The directives named `name` that apply in `context`: those of the innermost section that has any. For HAProxy
/// the section's `defaults` stand behind it. A name that may be given several times gives several.
pub fn effective<'a>(
    directives: &'a [Directive],
    name: &str,
    context: &[String],
) -> Vec<&'a Directive> {
    let within = |context: &[String]| -> Vec<&Directive> {
        let is_it = |d: &&Directive| d.name == name && d.context == context;
        directives.iter().filter(is_it).collect()
    };
    for depth in (0..=context.len()).rev() {
        let found = within(&context[..depth]);
        if !found.is_empty() {
            return found;
        }
    }
    haproxy::defaults_of(directives, context).map_or_else(Vec::new, |range| {
        directives[range]
            .iter()
            .filter(|d| d.name == name)
            .collect()
    })
}

/// Working directory of a process; the root where it is hidden.
fn working_directory(pid: i32) -> String {
    procfs::working_directory(Path::new(PROC), pid)
        .map_or_else(|| "/".to_owned(), |path| path.display().to_string())
}

/// A variable of a process's environment.
fn variable(pid: i32, name: &str) -> Option<String> {
    discover::words(Path::new(PROC), pid, "environ")
        .iter()
        .find_map(|entry| {
            entry
                .strip_prefix(name)?
                .strip_prefix('=')
                .map(str::to_owned)
        })
}

/// Values of a flag, given apart (`-f x`) or, for a flag of one letter, glued (`-fx`).
fn values_of(command: &[String], flag: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut words = command.iter().skip(1);
    while let Some(word) = words.next() {
        if word == flag {
            found.extend(words.next().cloned());
        } else if let Some(glued) = word.strip_prefix(flag) {
            found.push(glued.to_owned());
        }
    }
    found
}

/// Says it when a file is younger than the server: it may run with something else.
fn note_changed(server: &mut Server, files: &Files) {
    let started = std::fs::metadata(format!("{PROC}/{}", server.main_pid))
        .and_then(|m| m.modified())
        .unwrap_or(SystemTime::UNIX_EPOCH);
    let is_younger = |path: &&String| {
        std::fs::metadata(files.outside(Path::new(path)))
            .and_then(|m| m.modified())
            .is_ok_and(|changed| changed > started)
    };
    if started == SystemTime::UNIX_EPOCH {
        return;
    }
    if let Some(path) = files.read.iter().find(is_younger) {
        server.unavailable.push(Unavailable {
            what: "configuration as it was loaded".to_owned(),
            reason: format!("{path} was changed after the server was started"),
            remedy: "reload the server if it has not been reloaded since".to_owned(),
        });
    }
}

/// Directives as the readers' tests hold them: context, name, arguments, line.
#[cfg(test)]
fn listed(directives: &[Directive], between: &str) -> Vec<String> {
    let line = |d: &Directive| {
        let (context, args) = (d.context.join(">"), d.args.join(between));
        format!("{context}|{}|{args}|{}", d.name, d.line)
    };
    directives.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directive(context: &[&str], name: &str, args: &[&str]) -> Directive {
        let owned = |words: &[&str]| words.iter().map(|w| (*w).to_owned()).collect();
        Directive {
            name: name.to_owned(),
            args: owned(args),
            context: owned(context),
            ..Directive::default()
        }
    }

    #[test]
    fn the_innermost_section_wins() {
        let all = [
            directive(&["http"], "gzip", &["on"]),
            directive(&["http", "server"], "root", &["/a"]),
            directive(&["http", "server", "location /"], "gzip", &["off"]),
        ];
        let value = |name: &str, context: &[&str]| {
            let context: Vec<String> = context.iter().map(|c| (*c).to_owned()).collect();
            let found = effective(&all, name, &context);
            found.first().map(|d| d.args[0].clone())
        };
        assert_eq!(
            value("gzip", &["http", "server", "location /"]).as_deref(),
            Some("off")
        );
        assert_eq!(value("gzip", &["http", "server"]).as_deref(), Some("on"));
        assert_eq!(
            value("root", &["http", "server", "location /"]).as_deref(),
            Some("/a")
        );
        assert_eq!(value("root", &["http"]), None);
    }

    #[test]
    fn a_flag_apart_and_glued() {
        let words: Vec<String> = ["x", "-f", "a", "-fb", "-f"].map(str::to_owned).to_vec();
        assert_eq!(values_of(&words, "-f"), ["a", "b"]);
    }

    /// A number that follows from the one before (xorshift).
    fn next(state: &mut u64) -> usize {
        *state ^= *state << 13;
        *state ^= *state >> 7;
        *state ^= *state << 17;
        *state as usize
    }

    #[test]
    fn no_reader_panics_on_mangled_files() {
        const TEXTS: [&str; 5] = [
            "http { include x*; server { listen 80; set $a \"${b}\\\"c\"; a_by_lua_block { x = [==[ } ]==] -- }\n } } }",
            "global\n maxconn 1 # x\nfrontend a from b\n bind \"/x y\",'z'\\ \ndefaults b\n timeout client 5s\n",
            "Define A b\n<VirtualHost *:80>\nX ${A}${\n \"a \\\"\" \\\n</VirtualHost>\nInclude *\n",
            "a.b += ( \"x\", \"y\" ) # c\n$HTTP[\"a\"] =~ \"^{\" { x = 1 } else { y := 2 }\ninclude \"[\"\n",
            "<Server port=\"1\"><a b='${c:-d}'/></Server>[s]\nx = \"y\ninclude=*\n",
        ];
        const NOISE: &[u8] = b"{}[]()<>\"'\\;#$=*?!\n\0\xff\xc3 -";
        let dir = tempfile::tempdir().unwrap();
        let conf = dir.path().join("conf");
        std::fs::create_dir(&conf).unwrap();
        let path = conf.join("server.xml");
        let text = path.display().to_string();
        let mut seed = 0x9e37_79b9_7f4a_7c15;
        for round in 0..400 {
            let mut bytes = TEXTS[round % TEXTS.len()].as_bytes().to_vec();
            for _ in 0..next(&mut seed) % 8 {
                let at = next(&mut seed) % bytes.len();
                match next(&mut seed) % 3 {
                    0 => bytes[at] = NOISE[next(&mut seed) % NOISE.len()],
                    1 => bytes.insert(at, NOISE[next(&mut seed) % NOISE.len()]),
                    _ => bytes.truncate(at + 1),
                }
            }
            std::fs::write(&path, &bytes).unwrap();
            for kind in [
                "nginx", "haproxy", "apache", "lighttpd", "tomcat", "php-fpm",
            ] {
                let flags = [
                    "x".to_owned(),
                    "-f".to_owned(),
                    text.clone(),
                    format!("-c{text}"),
                    format!("-y{text}"),
                    format!("-Dcatalina.base={}", dir.path().display()),
                ];
                let mut server = Server {
                    kind: kind.to_owned(),
                    command: flags.to_vec(),
                    ..Server::default()
                };
                read(&mut server);
                assert!(server.config_files.contains(&text), "{kind}: {server:?}");
                let contexts: Vec<_> = server
                    .directives
                    .iter()
                    .map(|d| d.context.clone())
                    .collect();
                for context in contexts.iter().take(4) {
                    effective(&server.directives, "bind", context);
                }
            }
        }
    }
}
