//! Agents that nobody can log in to: they connect to a broker (NATS), wait there in a fleet, and are found by whoever
//! connects to the same broker. What is said is what a carrier carries, over messages instead of a child's pipes.
//!
//! A conductor calls a fleet, which is all that a fleet's own subject takes; those that are there answer with a card;
//! it offers its run to those that it wants. From then on an agent hears that run alone, whose name cannot be guessed.
//!
//! ```text
//! prony.FLEET.call             conductor: who is there?
//! prony.FLEET.RUN.AGENT.down   conductor: an offer, and then the stream
//! prony.FLEET.RUN.AGENT.up     agent: a card, and then the stream
//! ```

mod broker;
mod gather;
mod stream;
mod wait;

pub use gather::{Reached, gather};
pub use wait::{Told, wait};

use serde::{Deserialize, Serialize};
use std::net::IpAddr;
use std::path::PathBuf;

/// The kind of a message that holds a note; the others are the stream's.
const NOTE: u8 = 1;
/// What to do about a broker that lets us in, and no further.
const PERMIT: &str =
    "look at the broker, and at what this account may publish and subscribe to: docs/hosts.md";
/// Where a broker listens when its URL does not say.
const PORT: u16 = 4_222;
/// Longest name of a fleet.
const NAME_MAX: usize = 64;

/// A fleet, and the broker where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// `nats://HOST:PORT`, or `tls`.
    server: String,
    is_loopback: bool,
    fleet: String,
}

impl std::str::FromStr for Place {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let example = "nats://broker:4222/lab";
        let bad = |what: &str| format!("{what}; a fleet is a broker and a name, as in {example}");
        let url = url::Url::parse(text).map_err(|e| bad(&e.to_string()))?;
        if !["nats", "tls"].contains(&url.scheme()) {
            return Err(bad(&format!("`{}` is not nats or tls", url.scheme())));
        }
        if !url.username().is_empty() || url.password().is_some() {
            // Lists of processes show it.
            return Err("credentials belong into a file: --nats-creds FILE".to_owned());
        }
        let fleet = url.path().trim_start_matches('/');
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        let fits = (1..=NAME_MAX).contains(&fleet.len()) && fleet.chars().all(is_word);
        let host = url.host_str().filter(|host| !host.is_empty());
        match (
            fits && url.query().is_none() && url.fragment().is_none(),
            host,
        ) {
            (true, Some(host)) => Ok(Self {
                server: format!("{}://{host}:{}", url.scheme(), url.port().unwrap_or(PORT)),
                is_loopback: is_loopback(host),
                fleet: fleet.to_owned(),
            }),
            (true, None) => Err(bad("there is no host")),
            (false, _) => Err(bad(&format!("`{fleet}` is no name of a fleet"))),
        }
    }
}

fn is_loopback(host: &str) -> bool {
    let address = host.trim_start_matches('[').trim_end_matches(']');
    let address: Option<IpAddr> = address.parse().ok();
    host == "localhost" || address.is_some_and(|address| address.is_loopback())
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.server, self.fleet)
    }
}

impl Place {
    fn call(&self) -> String {
        format!("prony.{}.call", self.fleet)
    }

    fn up(&self, run: &str, agent: &str) -> String {
        format!("prony.{}.{run}.{agent}.up", self.fleet)
    }

    fn down(&self, run: &str, agent: &str) -> String {
        format!("prony.{}.{run}.{agent}.down", self.fleet)
    }
}

/// Run and agent of a subject of a stream.
fn run_and_agent(subject: &str) -> Option<(&str, &str)> {
    let mut words = subject.split('.').skip(2);
    Some((words.next()?, words.next()?))
}

/// A fleet, and what opens its broker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Access {
    pub place: Place,
    /// A `.creds` file, or one with an NKEY seed.
    pub creds: Option<PathBuf>,
    /// Authorities of the broker's certificate; `None` for those of this host.
    pub ca: Option<PathBuf>,
    /// Our own certificate and its key.
    pub cert: Option<(PathBuf, PathBuf)>,
    /// No TLS is asked for. To a broker of this machine none is either.
    pub plain: bool,
}

impl Access {
    fn is_plain(&self) -> bool {
        let has_tls =
            self.place.server.starts_with("tls") || self.ca.is_some() || self.cert.is_some();
        !has_tls && (self.plain || self.place.is_loopback)
    }

    fn refused(&self, what: String, remedy: &str) -> BrokerError {
        BrokerError {
            broker: self.place.server.clone(),
            what,
            remedy: remedy.to_owned(),
            is_final: false,
        }
    }

    /// Words for a broker that is gone.
    fn gone(&self, why: &str) -> String {
        format!("the broker {} {why}", self.place.server)
    }
}

/// Why nothing can be had over a broker.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the broker {broker} {what}")]
pub struct BrokerError {
    broker: String,
    what: String,
    pub remedy: String,
    /// It is no use to try again.
    is_final: bool,
}

/// Asks who is there.
#[derive(Debug, Serialize, Deserialize)]
struct Call {
    run: String,
}

/// What an agent answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Answer {
    /// To a call.
    Here(Card),
    /// To an offer that it does not take; else its stream begins.
    Busy(Serves),
}

/// Who is there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Card {
    /// As its host calls itself.
    host: String,
    /// Whom it serves; `None` while it waits.
    serves: Option<Serves>,
}

/// Whom an agent serves.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Serves {
    /// The conductor's host.
    from: String,
    /// Since when, s.
    for_s: u64,
}

impl Serves {
    fn words(&self) -> String {
        format!("it has served {} for {} s", shown(&self.from), self.for_s)
    }
}

/// Asks an agent to serve a run.
#[derive(Debug, Serialize, Deserialize)]
struct Offer {
    /// The conductor's host.
    from: String,
}

/// What the other end says of itself, fit to be shown to people.
fn shown(text: &str) -> String {
    const LONGEST: usize = 256;
    text.chars()
        .filter(|c| !c.is_control())
        .take(LONGEST)
        .collect()
}

/// The message of a note.
fn note(content: &impl Serialize) -> Vec<u8> {
    let body = serde_json::to_vec(content).expect("notes are plain data");
    [vec![NOTE], body].concat()
}

/// The note of a message, if it is one of this kind.
fn noted<'a, T: Deserialize<'a>>(message: &'a [u8]) -> Option<T> {
    let (kind, body) = message.split_first()?;
    (*kind == NOTE).then(|| serde_json::from_slice(body).ok())?
}

/// A name that nobody guesses: 122 random bits of the kernel's, hexadecimal.
fn unguessable(access: &Access) -> Result<String, BrokerError> {
    let uuid = linux::Root::default().read("proc/sys/kernel/random/uuid");
    let uuid = uuid.map(|uuid| uuid.trim().replace('-', ""));
    uuid.map_err(|e| {
        access.refused(
            format!("needs a name that nobody guesses: {e}"),
            "mount /proc",
        )
    })
}

/// As this host calls itself.
fn hostname() -> String {
    let name = linux::Root::default().read("proc/sys/kernel/hostname");
    name.unwrap_or_default().trim().to_owned()
}

/// Whether a word can be a run's name: it becomes a part of subjects.
fn is_run(word: &str) -> bool {
    word.len() == 32 && word.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access(url: &str, plain: bool) -> Access {
        Access {
            place: url.parse().unwrap(),
            creds: None,
            ca: None,
            cert: None,
            plain,
        }
    }

    #[test]
    fn a_fleet_is_a_broker_and_a_name() {
        let place: Place = "nats://broker/lab-1".parse().unwrap();
        assert_eq!(place.to_string(), "nats://broker:4222/lab-1");
        assert!(!place.is_loopback);
        assert_eq!(place.up("r", "a"), "prony.lab-1.r.a.up");
        assert_eq!(run_and_agent(&place.down("r", "a")), Some(("r", "a")));
        for local in [
            "nats://127.0.0.3:1/x",
            "tls://[::1]:4/x",
            "nats://localhost/x",
        ] {
            assert!(local.parse::<Place>().unwrap().is_loopback, "{local}");
        }
    }

    #[test]
    fn what_is_no_fleet_is_said() {
        let error = |text: &str| text.parse::<Place>().unwrap_err();
        assert!(error("lab").contains("nats://broker:4222/lab"));
        assert!(error("http://broker/lab").contains("`http`"));
        assert!(error("nats://broker").contains("no name of a fleet"));
        for name in ["a.b", "a*", "a/b", "a%20b", ">", "a?b"] {
            assert!(
                error(&format!("nats://broker/{name}")).contains("name"),
                "{name}"
            );
        }
        // A secret of a command line is everybody's.
        assert!(error("nats://me:secret@broker/lab").contains("--nats-creds"));
    }

    #[test]
    fn only_a_broker_of_this_machine_is_spoken_to_in_the_clear_unasked() {
        assert!(access("nats://127.0.0.1/x", false).is_plain());
        assert!(!access("nats://10.0.0.1/x", false).is_plain());
        assert!(access("nats://10.0.0.1/x", true).is_plain());
        assert!(!access("tls://127.0.0.1/x", true).is_plain());
    }

    #[test]
    fn names_cannot_be_guessed_and_fit_into_a_subject() {
        let access = access("nats://localhost/x", false);
        let (one, other) = (unguessable(&access).unwrap(), unguessable(&access).unwrap());
        assert!(is_run(&one) && is_run(&other) && one != other);
        assert!(!is_run("prony.>") && !is_run(&"*".repeat(32)));
    }
}
