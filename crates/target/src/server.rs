//! How each kind of target is run: its command line, its configuration, and the values of its templates.
//!
//! Everything here happens before the server's process exists. Programs become absolute paths, since a
//! target runs in its own working directory.

use crate::error::TargetError;
use crate::nginx::{self, Build};
use plan::template;
use plan::{TargetKind, TargetSpec, reachable};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Directories with servers that an ordinary user's `PATH` lacks on Debian.
const SYSTEM_DIRECTORIES: [&str; 3] = ["/usr/local/sbin", "/usr/sbin", "/sbin"];

/// Names and values for a target's templates.
pub(crate) type Values = BTreeMap<String, String>;

/// How a kind of target is run.
#[derive(Default)]
pub(crate) struct Server {
    pub kind: String,
    pub version: String,
    pub argv: Vec<String>,
    /// Configuration as run, by file name.
    pub configuration: BTreeMap<String, String>,
    /// Child processes that must be there before it is ready.
    pub workers: usize,
}

impl Server {
    /// `prony` is our own binary; `dir` the target's working directory.
    pub fn prepare(
        spec: &TargetSpec,
        address: SocketAddr,
        values: &Values,
        dir: &Path,
        prony: &Path,
    ) -> Result<Self, TargetError> {
        let mut server = match &spec.kind {
            TargetKind::Origin { .. } => origin(spec, address, values, prony),
            TargetKind::Command { argv } => command(spec, argv, values),
            TargetKind::Adapter {
                adapter,
                template_name,
                template,
            } if adapter == "nginx" => {
                let rendered = render(spec, template_name, template, values)?;
                nginx(spec, &rendered, template_name, dir)
            }
            TargetKind::Adapter { adapter, .. } => Err(TargetError::NoAdapter {
                target: spec.name.clone(),
                adapter: adapter.clone(),
            }),
        }?;
        server.argv = wrapped(spec, values, server.argv)?;
        Ok(server)
    }
}

fn origin(
    spec: &TargetSpec,
    address: SocketAddr,
    values: &Values,
    prony: &Path,
) -> Result<Server, TargetError> {
    let program = std::path::absolute(prony).unwrap_or_else(|_| prony.to_owned());
    let mut argv = vec![program.display().to_string(), "origin".to_owned()];
    let mut flag = |name: &str, value: String| {
        if !value.is_empty() {
            argv.extend([name.to_owned(), value]);
        }
    };
    flag("--listen", address.to_string());
    if let TargetKind::Origin {
        threads,
        delay,
        freeze,
        body,
    } = &spec.kind
    {
        let filled_in = |text: &Option<String>| {
            render(spec, "origin", text.as_deref().unwrap_or_default(), values)
        };
        flag("--threads", threads.to_string());
        flag("--body", body.0.to_string());
        flag("--delay", filled_in(delay)?);
        flag("--freeze", filled_in(freeze)?);
    }
    Ok(Server {
        kind: "origin".to_owned(),
        // The binary is our own, so its version is.
        version: concat!("prony/", env!("CARGO_PKG_VERSION")).to_owned(),
        argv,
        ..Server::default()
    })
}

fn command(spec: &TargetSpec, argv: &[String], values: &Values) -> Result<Server, TargetError> {
    let words: Result<Vec<String>, _> = argv
        .iter()
        .map(|word| render(spec, "command", word, values))
        .collect();
    let mut argv = words?;
    let program = argv.first().map(String::as_str).unwrap_or_default();
    let program = find_program(&spec.name, program, None)?;
    argv.splice(..1, [program]);
    // The version stays empty: there is no way to ask for it that all programs understand.
    Ok(Server {
        kind: "command".to_owned(),
        argv,
        ..Server::default()
    })
}

fn nginx(
    spec: &TargetSpec,
    rendered: &str,
    template_name: &str,
    dir: &Path,
) -> Result<Server, TargetError> {
    let program = find_program(&spec.name, "nginx", Some("nginx"))?;
    let build = Build::ask(&spec.name, &program)?;
    let prepared = nginx::prepare(&spec.name, &program, &build, rendered, template_name, dir)?;
    Ok(Server {
        kind: "nginx".to_owned(),
        version: build.version,
        argv: prepared.argv,
        configuration: BTreeMap::from([("nginx.conf".to_owned(), prepared.configuration)]),
        workers: prepared.workers,
    })
}

/// What the target's templates may name; see `plan::TargetSpec`.
pub(crate) fn values(
    spec: &TargetSpec,
    address: SocketAddr,
    dir: &Path,
    addresses: &BTreeMap<String, SocketAddr>,
) -> Values {
    let workers = spec.cpus.len().max(1).to_string();
    let mut values = Values::from([("workers".to_owned(), workers)]);
    values.extend(spec.values.clone());
    for (name, address) in addresses {
        values.insert(name.clone(), reachable(*address).to_string());
    }
    let mut own = |name: &str, value: String| values.insert(name.to_owned(), value);
    own(&spec.name, reachable(address).to_string());
    own("listen", address.to_string());
    own("address", address.ip().to_string());
    own("port", address.port().to_string());
    own("root", dir.display().to_string());
    values
}

fn render(
    spec: &TargetSpec,
    file: &str,
    text: &str,
    values: &Values,
) -> Result<String, TargetError> {
    template::render(file, text, values).map_err(|cause| TargetError::Template {
        target: spec.name.clone(),
        cause: Box::new(cause),
    })
}

/// The wrapper's words before the server's. A word is split at white space once it is filled in, so
/// that a level may hold a whole wrapper, and an empty level none.
fn wrapped(
    spec: &TargetSpec,
    values: &Values,
    argv: Vec<String>,
) -> Result<Vec<String>, TargetError> {
    let mut words = Vec::new();
    for word in &spec.wrap {
        let rendered = render(spec, "wrap", word, values)?;
        words.extend(rendered.split_whitespace().map(str::to_owned));
    }
    if let Some(program) = words.first_mut() {
        *program = find_program(&spec.name, program, None)?;
    }
    words.extend(argv);
    Ok(words)
}

/// The environment, filled in.
pub(crate) fn environment(spec: &TargetSpec, values: &Values) -> Result<Values, TargetError> {
    spec.env
        .iter()
        .map(|(name, value)| Ok((name.clone(), render(spec, "env", value, values)?)))
        .collect()
}

/// The absolute path of a program, since the target runs in another directory.
fn find_program(
    target: &str,
    program: &str,
    package: Option<&'static str>,
) -> Result<String, TargetError> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let directories = std::env::split_paths(&path).chain(SYSTEM_DIRECTORIES.map(PathBuf::from));
    let found = if program.contains('/') {
        std::path::absolute(program)
            .ok()
            .filter(|p| is_executable(p))
    } else {
        directories
            .map(|dir| dir.join(program))
            .find(|p| is_executable(p))
    };
    found
        .map(|p| p.display().to_string())
        .ok_or_else(|| TargetError::NoProgram {
            target: target.to_owned(),
            program: program.to_owned(),
            package,
        })
}

fn is_executable(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
}
