//! The configuration that a running Caddy works with, as its JSON.
//!
//! Caddy makes JSON of its Caddyfile (`caddy adapt`, asked as the server's user), and may be given another one while it
//! runs, by its admin endpoint. The surprise: where there is such an endpoint it alone knows, so it is asked as
//! well; where there is none (`admin off`), the file is the truth.

use super::ask::{Question, Unanswered};
use super::copy::refused;
use super::copy_process::environment;
use super::{files, values_of, working_directory};
use crate::error::TargetError;
use linux::procfs::PROC;
use record::Server;
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

/// Where the admin endpoint is unless something else is said.
const ADMIN: &str = "localhost:2019";
/// It answers from its memory.
const LONGEST: Duration = Duration::from_secs(5);
/// Longest configuration, bytes.
const MOST_BYTES: u64 = 16 << 20;

/// The configuration at work.
///
/// # Errors
/// [`TargetError`] where it cannot be had.
pub(crate) fn running(server: &Server, dir: &Path) -> Result<Value, TargetError> {
    let from_file = from_file(server, dir)?;
    let admin = &from_file["admin"];
    if admin["disabled"] == true {
        return Ok(from_file);
    }
    let by_variable = environment(server.main_pid).remove("CADDY_ADMIN");
    let address = admin["listen"].as_str().map(str::to_owned);
    let address = address.or(by_variable).unwrap_or_else(|| ADMIN.to_owned());
    let listens = |a: &SocketAddr| {
        let mut theirs = server.listens.iter().filter_map(|l| l.parse().ok());
        theirs.any(|l: SocketAddr| l.port() == a.port())
    };
    let found = address.to_socket_addrs().into_iter().flatten();
    let asked = found.filter(listens).find_map(|at| ask(at, &address).ok());
    let text = asked.ok_or_else(|| {
        let cause =
            format!("its admin endpoint {address}, which tells what it runs with, does not answer");
        let remedy =
            "see that `caddy reload` works, or start it with `admin off` and the same file";
        refused(server, &cause, remedy)
    })?;
    let running = serde_json::from_str(&text).ok().filter(Value::is_object);
    running.ok_or_else(|| {
        let cause = format!("its admin endpoint {address} tells no configuration");
        refused(server, &cause, "load a configuration into it")
    })
}

/// The configuration at the admin endpoint, which wants to be called by its name.
fn ask(at: SocketAddr, name: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&at, LONGEST)?;
    stream.set_read_timeout(Some(LONGEST))?;
    stream.write_all(format!("GET /config/ HTTP/1.0\r\nHost: {name}\r\n\r\n").as_bytes())?;
    let mut answer = Vec::new();
    stream.take(MOST_BYTES).read_to_end(&mut answer)?;
    let text = body(&answer).and_then(|body| String::from_utf8(body).ok());
    text.ok_or_else(|| std::io::ErrorKind::InvalidData.into())
}

/// The body of a whole response that is good.
fn body(answer: &[u8]) -> Option<Vec<u8>> {
    const OK: u16 = 200;
    let head = http1::parse_response(answer, false).ok()??;
    let mut text = Vec::new();
    let mut decoder = http1::BodyDecoder::new(head.framing);
    let seen = |piece: &[u8]| text.extend_from_slice(piece);
    decoder.feed_with(answer.get(head.head_len..)?, seen).ok()?;
    let is_whole = decoder.is_done() || decoder.finish_at_eof().is_ok();
    (head.status == OK && is_whole).then_some(text)
}

/// What Caddy makes of the file that it was started with.
fn from_file(server: &Server, dir: &Path) -> Result<Value, TargetError> {
    let by_hand = "start it with `caddy run --config FILE`";
    if server.command.get(1).map(String::as_str) != Some("run") {
        return Err(refused(
            server,
            "it was not started by `caddy run`",
            by_hand,
        ));
    }
    let flag = |long: &str, short: &str| {
        let words = &server.command;
        let given = words
            .iter()
            .find_map(|w| w.strip_prefix(long)?.strip_prefix('='));
        let given = given.map(str::to_owned);
        given
            .or_else(|| values_of(words, long).pop())
            .or_else(|| values_of(words, short).pop())
    };
    let directory = PathBuf::from(working_directory(server.main_pid));
    let name = flag("--config", "-c").unwrap_or_else(|| "Caddyfile".to_owned());
    let path = files::join(&directory.display().to_string(), &name);
    let adapter = flag("--adapter", "-a");
    let is_caddyfile = path.file_name().is_some_and(|name| {
        let name = name.to_string_lossy();
        name.starts_with("Caddyfile") || name.ends_with(".caddyfile")
    });
    let text = match (adapter, is_caddyfile) {
        (None, false) => {
            std::fs::read_to_string(&path).map_err(|e| TargetError::file("reading", &path, &e))?
        }
        (adapter, _) => {
            let adapter = adapter.unwrap_or_else(|| "caddyfile".to_owned());
            let variables = flag("--envfile", "--envfile");
            adapted(server, (&path, &adapter, variables), &directory, dir)?
        }
    };
    serde_json::from_str(&text).map_err(|e| {
        let cause = format!("{} is no JSON: {e}", path.display());
        refused(server, &cause, by_hand)
    })
}

fn adapted(
    server: &Server,
    (path, adapter, variables): (&Path, &str, Option<String>),
    directory: &Path,
    dir: &Path,
) -> Result<String, TargetError> {
    let exe = &server.exe;
    let unable = |cause: &str| {
        let asked = format!("{exe} adapt --config {}", path.display());
        let cause = format!("`{asked}`, which tells its configuration, {cause}");
        refused(
            server,
            &cause,
            "see that it works as the server's user, in its directory",
        )
    };
    let process = std::fs::metadata(format!("{PROC}/{}", server.main_pid));
    let owner = process.map_err(|e| unable(&format!("has no user to run as: {e}")))?;
    let file = path.display().to_string();
    let mut args = vec!["adapt", "--config", &file, "--adapter", adapter];
    let variables = variables.as_deref();
    args.extend(variables.iter().flat_map(|file| ["--envfile", file]));
    let question = Question {
        program: exe,
        args: &args,
        user: (owner.uid(), owner.gid()),
        env: &environment(server.main_pid),
        directory,
        dir,
    };
    question.ask(Stdio::null()).map_err(|why| match why {
        Unanswered::Cause(cause) => unable(&cause),
        Unanswered::Failed(errors) => unable(&format!(
            "fails: {}",
            errors.lines().last().unwrap_or_default().trim()
        )),
        Unanswered::File(error) => error,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_whole_good_response_is_a_configuration() {
        for (answer, want) in [
            ("HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\n{}", Some("{}")),
            ("HTTP/1.0 200 OK\r\n\r\n{}", Some("{}")),
            ("HTTP/1.0 200 OK\r\nContent-Length: 9\r\n\r\n{}", None),
            (
                "HTTP/1.0 403 Forbidden\r\nContent-Length: 2\r\n\r\n{}",
                None,
            ),
            ("", None),
        ] {
            let got = body(answer.as_bytes());
            assert_eq!(got.as_deref(), want.map(str::as_bytes), "{answer}");
        }
    }
}
