//! How each kind of target is run: its command line, its configuration, and the values of its templates.
//!
//! Everything here happens before the server's process exists. Programs become absolute paths, since a
//! target runs in its own working directory.

use crate::adapter::{self, Job};
use crate::error::TargetError;
use crate::installed::find_program;
use crate::places::Places;
use plan::template;
use plan::{TargetKind, TargetSpec, reachable};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// Names and values for a target's templates.
pub(crate) type Values = BTreeMap<String, String>;

/// How a kind of target is run.
#[derive(Default)]
pub(crate) struct Server {
    pub kind: String,
    pub version: String,
    pub argv: Vec<String>,
    /// Environment that it needs; the target's own goes over it.
    pub env: Values,
    /// Configuration as run, by file name.
    pub configuration: BTreeMap<String, String>,
    /// Child processes that must be there before it is ready.
    pub workers: usize,
    /// It listens before it can answer: only an answer shows that it is ready.
    pub listens_early: bool,
    /// How it reads its configuration again.
    pub reload: Reload,
    /// How a refused configuration looks when the server cannot check one.
    pub refusal: Option<Refusal>,
}

/// How a server reads its configuration again without ending.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Reload {
    /// It cannot.
    #[default]
    Never,
    /// By a signal to its main process.
    Signal(i32),
    Command(Vec<String>),
}

/// Last words that mean that the configuration was refused.
pub(crate) struct Refusal {
    /// The configuration as run.
    pub path: PathBuf,
    pub places: Places,
    /// A line with one of these says why.
    pub marks: &'static [&'static str],
}

impl Refusal {
    /// Why the configuration was refused, its lines being those of the template; `None` when it was not.
    pub fn of(&self, output: &str) -> Option<String> {
        let says = |line: &&str| self.marks.iter().any(|mark| line.contains(mark));
        let mut lines: Vec<&str> = output.lines().map(str::trim).filter(says).collect();
        lines.dedup();
        (!lines.is_empty()).then(|| self.places.placed(&lines.join("\n"), &self.path))
    }
}

impl Server {
    /// `prony` is our own binary; `dir` the target's working directory; `env` its environment, filled in.
    pub fn prepare(
        spec: &TargetSpec,
        address: SocketAddr,
        values: &Values,
        env: &Values,
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
            } => {
                let found = adapter::find(adapter).ok_or_else(|| TargetError::NoAdapter {
                    target: spec.name.clone(),
                    adapter: adapter.clone(),
                })?;
                let program = (found.program)(&spec.name)?;
                let mut values = values.clone();
                let own = (found.values)(&program);
                values.extend(
                    own.into_iter()
                        .map(|(name, value)| (name.to_owned(), value)),
                );
                let text = render(spec, template_name, template, &values)?;
                let job = Job {
                    target: &spec.name,
                    text: &text,
                    places: Places::of(template_name, template, &values),
                    dir,
                    env,
                };
                (found.prepare)(&program, &job)
            }
        }?;
        let mut argv = wrapper(spec, values)?;
        argv.append(&mut server.argv);
        server.argv = argv;
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
    let program = find_program(&spec.name, program)?;
    argv.splice(..1, [program]);
    // The version stays empty: there is no way to ask for it that all programs understand.
    Ok(Server {
        kind: "command".to_owned(),
        argv,
        ..Server::default()
    })
}

/// What the target's templates may name; see `plan::TargetSpec`. A level or value may be a template itself, of the
/// names that are no values; one that names what this target does not have stays as it is.
pub(crate) fn values(
    spec: &TargetSpec,
    address: SocketAddr,
    dir: &Path,
    addresses: &BTreeMap<String, SocketAddr>,
) -> Values {
    let workers = spec.cpus.len().max(1).to_string();
    let mut plain = Values::from([("workers".to_owned(), workers)]);
    plain.extend(spec.values.clone());
    for (name, address) in addresses {
        plain.insert(name.clone(), reachable(*address).to_string());
    }
    let mut own = |name: &str, value: String| plain.insert(name.to_owned(), value);
    own(&spec.name, reachable(address).to_string());
    own("listen", address.to_string());
    own("address", address.ip().to_string());
    own("port", address.port().to_string());
    own("root", dir.display().to_string());
    own("cpu_mask", cpu_mask(&spec.cpus));
    let mut values = plain.clone();
    for (name, text) in &spec.values {
        if text.contains('{')
            && let Ok(filled_in) = template::render(name, text, &plain)
        {
            values.insert(name.clone(), filled_in);
        }
    }
    values
}

/// One digit a CPU, the highest first, as nginx's `worker_cpu_affinity` has it; empty where none is given. The
/// surprise: nginx's `auto` alone takes all CPUs of the host, those that the target was not given included.
fn cpu_mask(cpus: &[u32]) -> String {
    let digit = |cpu: u32| if cpus.contains(&cpu) { '1' } else { '0' };
    let highest = cpus.iter().max();
    highest.map_or_else(String::new, |&most| (0..=most).rev().map(digit).collect())
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

/// The wrapper's words, which go before the server's. A word is split at white space once it is filled in, so
/// that a level may hold a whole wrapper, and an empty level none.
pub(crate) fn wrapper(spec: &TargetSpec, values: &Values) -> Result<Vec<String>, TargetError> {
    let mut words = Vec::new();
    for word in &spec.wrap {
        let rendered = render(spec, "wrap", word, values)?;
        words.extend(rendered.split_whitespace().map(str::to_owned));
    }
    if let Some(program) = words.first_mut() {
        *program = find_program(&spec.name, program)?;
    }
    Ok(words)
}

/// The environment, filled in.
pub(crate) fn environment(spec: &TargetSpec, values: &Values) -> Result<Values, TargetError> {
    spec.env
        .iter()
        .map(|(name, value)| Ok((name.clone(), render(spec, "env", value, values)?)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::cpu_mask;

    #[test]
    fn a_mask_has_its_highest_cpu_first() {
        for (cpus, want) in [
            (&[][..], ""),
            (&[0], "1"),
            (&[1], "10"),
            (&[4, 0, 2], "10101"),
        ] {
            assert_eq!(cpu_mask(cpus), want);
        }
    }
}
