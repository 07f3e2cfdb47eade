//! `[host.NAME]` of a file: where agents can be started, to send loads or to run targets, and how to get there.

use crate::PlanError;
use crate::error::{Found, Report};
use crate::node::{self, Entry, Field};
use serde::{Deserialize, Serialize};

const KEYS: [&str; 5] = ["ssh", "via", "binary", "sudo", "threads"];

/// A host as a file describes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostSpec {
    /// Its name in the file.
    pub name: String,
    /// How to get there.
    pub way: HostWay,
    /// prony on that host; `None` for a copy of this one.
    pub binary: Option<String>,
    /// The agent runs as root, by `sudo -n`.
    pub sudo: bool,
    /// Load threads on it; `None` for as many as on any other.
    pub threads: Option<u32>,
}

/// How to get to a host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HostWay {
    /// A destination of `ssh`.
    Ssh(String),
    /// A command that runs what is appended to it.
    Via(Vec<String>),
}

/// The `[host.NAME]` sections of a file, which may hold other sections too. `file` is its name for messages.
///
/// # Errors
/// [`PlanError`] with every problem that was found.
pub fn parse(text: &str, file: &str) -> Result<Vec<HostSpec>, PlanError> {
    let mut report = Report::default();
    let parsed = node::parse(text);
    let entries = report.take(parsed).unwrap_or_default();
    let mut hosts = Vec::new();
    for section in entries.iter().filter(|entry| entry.name == "host") {
        hosts.extend(read(section.field(), &mut report));
    }
    if hosts.is_empty() && report.is_empty() {
        let none: Result<(), Found> = Err(Found::missing(
            0,
            "[host.NAME]",
            "the file",
            "[host.gen1] with ssh = \"user@gen1\"",
        ));
        report.take(none);
    }
    if report.is_empty() {
        Ok(hosts)
    } else {
        Err(report.into_error(file, text))
    }
}

/// The hosts of one `[host]` table; what is wrong goes to the report.
pub(crate) fn read(field: Field<'_>, report: &mut Report) -> Vec<HostSpec> {
    let table = field.table();
    let entries = report.take(table).unwrap_or_default();
    let read = |entry| report.take(host(entry));
    entries.iter().filter_map(read).collect()
}

impl HostSpec {
    /// A host that no section describes: a destination of ssh.
    pub fn ssh(destination: &str) -> Self {
        Self {
            name: destination.to_owned(),
            way: HostWay::Ssh(destination.to_owned()),
            binary: None,
            sudo: false,
            threads: None,
        }
    }
}

fn host(entry: &Entry) -> Result<HostSpec, Found> {
    let inside = format!("[host.{}]", entry.name);
    let mut way = None;
    let mut host = HostSpec {
        name: entry.name.clone(),
        way: HostWay::Via(Vec::new()),
        binary: None,
        sudo: false,
        threads: None,
    };
    for entry in entry.field().table()? {
        let field = entry.field();
        let given = match field.name {
            "ssh" => Some(HostWay::Ssh(field.text()?.to_owned())),
            "via" => Some(HostWay::Via(field.words()?)),
            _ => None,
        };
        if let Some(given) = given {
            let empty = match &given {
                HostWay::Ssh(destination) => destination.is_empty() || destination.starts_with('-'),
                HostWay::Via(argv) => argv.is_empty(),
            };
            if empty || way.is_some() {
                return Err(field.must_be("the one way to the host, `ssh` or `via`, and not empty"));
            }
            way = Some(given);
            continue;
        }
        match field.name {
            "binary" => host.binary = Some(field.text()?.to_owned()),
            "sudo" => host.sudo = field.boolean()?,
            "threads" => host.threads = Some(field.count32(1)?),
            _ => return Err(field.unknown_key(&inside, &KEYS)),
        }
    }
    let example = "ssh = \"user@gen1\", or via = [\"ip\", \"netns\", \"exec\", \"gen1\"]";
    host.way = way.ok_or_else(|| Found::missing(entry.at, "ssh or via", &inside, example))?;
    Ok(host)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_read_beside_anything_else() {
        let hosts = parse(
            "question = \"?\"\n[host.a]\nssh = \"me@a\"\nthreads = 4\n[host.b]\nvia = [\"sudo\", \"ip\"]\nbinary = \"/b\"\nsudo = true\n",
            "f",
        )
        .unwrap();
        assert_eq!(hosts[0].way, HostWay::Ssh("me@a".to_owned()));
        assert_eq!(hosts[0].threads, Some(4));
        let via = HostWay::Via(vec!["sudo".to_owned(), "ip".to_owned()]);
        assert_eq!((&hosts[1].way, hosts[1].sudo), (&via, true));
    }

    #[test]
    fn what_is_no_host_is_said_with_its_line() {
        let error = |text: &str| parse(text, "h.toml").unwrap_err().to_string();
        assert!(error("[host.a]\nbinary = \"/b\"\n").contains("ssh or via"));
        assert!(error("[host.a]\nssh = \"a\"\nvia = [\"b\"]\n").contains("h.toml:3"));
        assert!(error("[host.a]\nssh = \"-oProxyCommand=x\"\n").contains("h.toml:2"));
        assert!(error("[host.a]\nshs = \"a\"\n").contains("`shs`"));
        assert!(error("question = \"?\"\n").contains("[host.NAME]"));
    }
}
