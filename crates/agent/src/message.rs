//! What conductor and agents say to each other.

use plan::TargetSpec;
use record::{
    Interval, LoadOutcome, LoadSpec, Nanos, Part, Series, TargetRecord, Timetable, Unavailable,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// What an agent is, said first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// Version of prony.
    pub version: String,
    /// What tells two builds of a version apart; conductor and agents must have the same.
    pub build: String,
    /// As the host calls itself.
    pub hostname: String,
    /// Of the kernel that runs: two agents with one are on one machine.
    pub boot_id: String,
    pub kernel: String,
    /// Numeric user id.
    pub user: u32,
    /// CPUs that it may use.
    pub cpus: Vec<u32>,
    /// Files that it may have open.
    pub open_files: u64,
    /// What it does when it is asked to.
    pub rights: Vec<Right>,
}

/// What an agent is allowed to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Right {
    /// Send a load.
    Load,
    /// Start targets, watch and stop them.
    Target,
}

impl Right {
    /// As it is typed.
    pub fn name(self) -> &'static str {
        match self {
            Right::Load => "load",
            Right::Target => "target",
        }
    }
}

/// Times of an exchange so far: the agent's of its own clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockTimes {
    /// The conductor's, when it asked.
    pub asked: Nanos,
    /// When the question came.
    pub received: Nanos,
    /// When the answer went.
    pub answered: Nanos,
}

/// A file that a load or a target needs, sent before it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct File {
    /// SHA-256 of the content, hexadecimal: the name by which the load's description calls it.
    pub hash: String,
    #[serde(with = "bytes")]
    pub content: Vec<u8>,
}

/// A file of a record, for whoever had it measured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stored {
    /// Within the record.
    pub path: String,
    #[serde(with = "bytes")]
    pub content: Vec<u8>,
}

/// A part of a load, to be made ready.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Prepare {
    /// Files are named by their hash.
    pub spec: LoadSpec,
    /// Which threads of it.
    pub part: Part,
    /// What the description leaves out, because it is not kept in records.
    pub timetable: Option<Timetable>,
    /// Likewise.
    pub proxy_user: Option<String>,
}

/// A target to be started.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StartTarget {
    /// The texts of its files are the hashes of files that were sent.
    pub spec: TargetSpec,
    /// Where the targets listen that run already, by name.
    pub addresses: BTreeMap<String, SocketAddr>,
}

/// A target that is ready.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Started {
    /// With the real port.
    pub address: SocketAddr,
    pub record: TargetRecord,
}

/// What is to be watched beside the host and its targets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WatchAsked {
    /// Data TLB loads and misses of the targets.
    pub tlb: bool,
    /// Slabs of TCP sockets.
    pub slabs: bool,
    /// Queues of the network devices.
    pub queues: bool,
}

/// What was watched of a host and the targets on it, all times of the agent's clock.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Seen {
    pub series: Vec<Series>,
    pub unavailable: Vec<Unavailable>,
    /// The targets as they ran, at the end.
    pub targets: Vec<TargetRecord>,
}

/// A target that has been stopped.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Stopped {
    /// Its configuration as run and the end of its output, by name.
    pub files: BTreeMap<String, String>,
    /// Why it was not stopped whole.
    pub failure: Option<Refusal>,
}

/// A slice of an agent's load. Times count from the start of the load, so that those of all agents have the same edges.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Slice {
    pub interval: Interval,
    /// Response times, from which percentiles of several agents can be had: HdrHistogram V2 compressed, base64. It is
    /// unpacked, to a thousand times its size, when it is merged and not before.
    pub response: String,
}

/// A load that has ended, all times of the agent's clock.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Done {
    pub outcome: LoadOutcome,
    /// What was watched of the agent's host beside the load.
    pub series: Vec<Series>,
    pub unavailable: Vec<Unavailable>,
}

/// Why an agent does not do what it was asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    pub what: String,
    pub remedy: String,
    /// The exit code that a local load would have had.
    pub exit: u8,
}

/// One end of a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    Conductor,
    Agent,
}

macro_rules! messages {
    ($($(#[$doc:meta])* $name:ident $(($content:ty))? $({ $($field:ident: $type:ty),* })? = $byte:literal, $limit:expr, $sides:expr;)*) => {
        /// One message.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        pub enum Message {
            $($(#[$doc])* $name $(($content))? $({ $($field: $type),* })?,)*
        }

        /// What kind of message a frame holds.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub enum Kind {
            $($(#[$doc])* $name = $byte,)*
        }

        impl Kind {
            /// All kinds.
            pub const ALL: &[Kind] = &[$(Kind::$name,)*];

            /// The most bytes of a body.
            pub fn limit(self) -> u32 {
                match self {
                    $(Kind::$name => $limit,)*
                }
            }

            /// Whether this side says it; the other one hears it.
            pub fn is_of(self, side: Side) -> bool {
                match self {
                    $(Kind::$name => $sides.contains(&side),)*
                }
            }

            /// The kind of this number.
            pub fn from_byte(byte: u8) -> Option<Kind> {
                match byte {
                    $($byte => Some(Kind::$name),)*
                    _ => None,
                }
            }
        }

        impl Message {
            /// What a frame says of it.
            pub fn kind(&self) -> Kind {
                match self {
                    $(messages!(@pattern $name $(($content))? $({ $($field),* })?) => Kind::$name,)*
                }
            }
        }
    };
    (@pattern $name:ident ($content:ty)) => { Message::$name(_) };
    (@pattern $name:ident { $($field:ident),* }) => { Message::$name { .. } };
    (@pattern $name:ident) => { Message::$name };
}

const SMALL: u32 = 1 << 10;
const MIDDLE: u32 = 1 << 20;
const LARGE: u32 = 64 << 20;
const CONDUCTOR: &[Side] = &[Side::Conductor];
const AGENT: &[Side] = &[Side::Agent];
const BOTH: &[Side] = &[Side::Conductor, Side::Agent];

messages! {
    /// Agent: who it is.
    Hello(Hello) = 1, 64 * SMALL, AGENT;
    /// Conductor: what time is it?
    ClockAsk { asked: Nanos } = 2, SMALL, CONDUCTOR;
    /// Agent: this.
    ClockAnswer(ClockTimes) = 3, SMALL, AGENT;
    /// Conductor: content that a load will name.
    File(File) = 4, LARGE, CONDUCTOR;
    /// Conductor: open the connections of this load.
    Prepare(Box<Prepare>) = 5, LARGE, CONDUCTOR;
    /// Agent: they are open, or as many as would.
    Ready = 6, SMALL, AGENT;
    /// Conductor: begin at this time of the agent's clock, or not at all when it has passed.
    Start { at: Nanos } = 7, SMALL, CONDUCTOR;
    /// Both: I live.
    Beat = 8, SMALL, BOTH;
    /// Agent: what the load did in the last second.
    Slices(Vec<Slice>) = 9, MIDDLE, AGENT;
    /// Conductor: end the load, and say what came of it; or give up the start of a target.
    Stop = 10, SMALL, CONDUCTOR;
    /// Conductor: whether the server is seen to be full.
    ServerFull { is_full: bool } = 11, SMALL, CONDUCTOR;
    /// Agent: what came of the load.
    Done(Box<Done>) = 12, LARGE, AGENT;
    /// Agent: I do not do that.
    Refused(Refusal) = 13, 64 * SMALL, AGENT;
    /// Conductor: a file of the record that it was started for.
    Stored(Stored) = 15, LARGE, CONDUCTOR;
    /// Agent: a person wants the end of what the conductor was started for.
    Interrupt = 16, SMALL, AGENT;
    /// Conductor: what would this target lack on your host?
    CheckTarget(Box<TargetSpec>) = 17, LARGE, CONDUCTOR;
    /// Agent: this, or nothing.
    Lack(Option<Refusal>) = 18, 64 * SMALL, AGENT;
    /// Conductor: start this target.
    StartTarget(Box<StartTarget>) = 19, LARGE, CONDUCTOR;
    /// Agent: it is ready.
    Started(Box<Started>) = 20, MIDDLE, AGENT;
    /// Agent: this target has ended by itself; how, and its last words.
    Died { target: String, how: String } = 21, MIDDLE, AGENT;
    /// Conductor: watch the host and its targets.
    Watch(WatchAsked) = 22, SMALL, CONDUCTOR;
    /// Agent: the first sample is taken.
    Watching = 23, SMALL, AGENT;
    /// Conductor: end the watch.
    EndWatch = 24, SMALL, CONDUCTOR;
    /// Agent: what was seen.
    Seen(Box<Seen>) = 25, LARGE, AGENT;
    /// Conductor: stop this target.
    StopTarget { target: String } = 26, SMALL, CONDUCTOR;
    /// Agent: it is stopped, and this it left.
    Stopped(Box<Stopped>) = 27, LARGE, AGENT;
    /// Both: so many messages came before this, and none comes after it.
    Bye { frames: u64 } = 14, SMALL, BOTH;
}

impl Message {
    /// The body of its frame.
    pub fn body(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("messages are plain data with string keys")
    }

    /// The message of a frame.
    ///
    /// # Errors
    /// Words for a body that is none of its kind.
    pub fn parse(kind: Kind, body: &[u8]) -> Result<Self, String> {
        let message: Message = serde_json::from_slice(body).map_err(|e| e.to_string())?;
        if message.kind() == kind {
            Ok(message)
        } else {
            Err(format!("it holds {:?}", message.kind()))
        }
    }
}

/// Bytes as base64, which JSON can hold.
mod bytes {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use serde::{Deserialize, Deserializer, Serializer};

    pub fn serialize<S: Serializer>(bytes: &[u8], to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&STANDARD.encode(bytes))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u8>, D::Error> {
        let text = String::deserialize(from)?;
        STANDARD.decode(text).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_have_a_number_each() {
        for kind in Kind::ALL {
            assert_eq!(Kind::from_byte(*kind as u8), Some(*kind));
        }
        assert_eq!(Kind::from_byte(0), None);
    }

    #[test]
    fn a_body_of_another_kind_is_refused() {
        let body = Message::Stop.body();
        assert_eq!(Message::parse(Kind::Stop, &body), Ok(Message::Stop));
        assert_eq!(
            Message::parse(Kind::Beat, &body),
            Err("it holds Stop".to_owned())
        );
        assert!(Message::parse(Kind::Stop, b"{").is_err());
    }

    #[test]
    fn files_come_as_they_were() {
        let file = File {
            hash: "ab".to_owned(),
            content: (0..=255).collect(),
        };
        let message = Message::File(file);
        assert_eq!(Message::parse(Kind::File, &message.body()), Ok(message));
    }
}
