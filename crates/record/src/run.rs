//! The run record: everything that a run knew, as named byte strings that later versions can read.
//!
//! ```text
//! manifest.json              format version, question, command, times
//! plan.json                  the plan as run, resolved
//! experiment.toml            the file as given
//! environment.json           kernel, CPU, sysctls, versions
//! traffic.json               what `prony traffic` was asked for and what came of it; absent of other runs
//! proofs.json                what measured changes said of causes (see `analysis`); absent without a proof
//! trials/0000/trial.json     levels, load asked, state, outcome, targets, warnings
//! trials/0000/series.json    the monitors' samples
//! trials/0000/examination.json  who serves, the signature, a single client's load; absent when not examined
//! trials/0000/profiles.json  stacks on and off the CPU; absent when not profiled
//! trials/0000/files/...      configuration as run, output of the targets
//! ```
//! A trial is written when it ends, so that an interrupted or crashed run keeps what is complete.

use crate::{
    Examination, HostPart, LoadOutcome, LoadSpec, Reported, Series, TrafficRun, Unavailable,
    Warning,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Version of the directory layout and of the files in it. Readers refuse a newer one.
pub const FORMAT: u32 = 1;

/// Stage of the trials that a proof is made of: copies of a server, loaded in turn. What they say is a comparison of
/// theirs, and nothing of the server's capacity.
pub const PROOF_STAGE: &str = "proof";

/// Where a record's files live: a directory for the `prony` crate, a map for tests.
pub trait Store {
    /// Writes `bytes` under the relative `path`, replacing what was there. Atomic per file.
    ///
    /// # Errors
    /// The store's own message.
    fn put(&mut self, path: &str, bytes: &[u8]) -> Result<(), String>;
    /// The bytes under `path`, `None` when there is no such file.
    ///
    /// # Errors
    /// The store's own message.
    fn get(&self, path: &str) -> Result<Option<Vec<u8>>, String>;
    /// Paths that start with `prefix`, sorted.
    ///
    /// # Errors
    /// The store's own message.
    fn list(&self, prefix: &str) -> Result<Vec<String>, String>;
}

/// A store in memory.
#[derive(Clone, Debug, Default)]
pub struct MemoryStore(pub BTreeMap<String, Vec<u8>>);

impl Store for MemoryStore {
    fn put(&mut self, path: &str, bytes: &[u8]) -> Result<(), String> {
        self.0.insert(path.to_owned(), bytes.to_vec());
        Ok(())
    }
    fn get(&self, path: &str) -> Result<Option<Vec<u8>>, String> {
        Ok(self.0.get(path).cloned())
    }
    fn list(&self, prefix: &str) -> Result<Vec<String>, String> {
        Ok(self
            .0
            .keys()
            .filter(|k| k.starts_with(prefix))
            .cloned()
            .collect())
    }
}

/// Why a record could not be written or read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// The store refused.
    #[error("{doing} `{path}`: {cause}")]
    Store {
        /// "writing" or "reading".
        doing: &'static str,
        /// File within the record.
        path: String,
        /// The store's words.
        cause: String,
    },
    /// A file that every record has is missing.
    #[error(
        "`{path}` is missing: this is not a prony record, or its run died before the first trial"
    )]
    Missing {
        /// File within the record.
        path: String,
    },
    /// A file is not what it should be.
    #[error("reading `{path}`: {cause}")]
    Malformed {
        /// File within the record.
        path: String,
        /// The parser's words.
        cause: String,
    },
    /// The record was written by a later version.
    #[error("the record has format {found}; this version reads up to {FORMAT}")]
    TooNew {
        /// Its format.
        found: u32,
    },
}

impl RecordError {
    /// What to do about it; empty when the text says it all.
    pub fn remedy(&self) -> &'static str {
        match self {
            RecordError::Store { .. } => {
                "check the free space and the permissions of the directory"
            }
            RecordError::Missing { .. } => "give the directory that `prony run --out` wrote",
            RecordError::Malformed { .. } => "restore the file, or delete that trial's directory",
            RecordError::TooNew { .. } => "read it with the version that wrote it, or a later one",
        }
    }
}

/// First file of a record.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// Layout version, [`FORMAT`].
    pub format: u32,
    /// Version of prony that wrote it.
    pub prony: String,
    /// The experiment's question.
    pub question: String,
    /// Command line as typed.
    pub command: Vec<String>,
    /// Wall-clock start, RFC 3339.
    pub started: String,
    /// Wall-clock end, RFC 3339; `None` while running or after a crash.
    pub ended: Option<String>,
    /// A person stopped it before its end.
    pub interrupted: bool,
}

/// One fact about the host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EnvironmentItem {
    /// `kernel`, `cpu`, `sysctl`, `limit`, `memory`, `tool`, ...
    pub group: String,
    /// Name, for example `net.core.somaxconn`.
    pub name: String,
    /// Value as read; `None` when it could not be.
    pub value: Option<String>,
    /// Why not, when there is no value.
    pub reason: Option<String>,
}

/// A process of a target.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessRecord {
    /// Process id.
    pub pid: i32,
    /// `main`, `worker`, `helper`.
    pub role: String,
    /// Name as the kernel shows it.
    pub name: String,
    /// CPUs that it may run on.
    pub cpus: Vec<u32>,
}

/// Another host that a target ran on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RanOn {
    /// Its name in the experiment.
    pub name: String,
    /// It is the machine that prony ran on under another name (a namespace, a container): its cores are those that were
    /// watched here.
    pub is_this_machine: bool,
}

impl TargetRecord {
    /// The other machine that it ran on, by the host's name: its CPUs and its network are not those watched here.
    pub fn elsewhere(&self) -> Option<&str> {
        let host = self.host.as_ref().filter(|host| !host.is_this_machine);
        host.map(|host| host.name.as_str())
    }
}

/// A target as it ran in a trial.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TargetRecord {
    /// Name in the experiment.
    pub name: String,
    /// `origin`, `command`, or the adapter's name.
    pub kind: String,
    /// Address it listens on.
    pub address: String,
    /// Another host that it ran on, with an agent; `None` where prony ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<RanOn>,
    /// Version as the server states it.
    pub version: String,
    /// Command line as started.
    pub command: Vec<String>,
    /// CPUs that it was pinned to; empty when not pinned.
    pub cpus: Vec<u32>,
    /// Its processes while the load ran.
    pub processes: Vec<ProcessRecord>,
    /// Requests that the server itself counted over warm-up and measurement; `None` when it does not say.
    pub requests_counted: Option<u64>,
    /// Requests that each of its workers counted, by the worker's name; empty when it does not say.
    pub requests_by_worker: BTreeMap<String, u64>,
    /// It ended while the load ran: how, and its last words.
    pub died: Option<String>,
}

/// How a trial ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum TrialState {
    /// The load ran to its end.
    Complete,
    /// A person stopped it; what was measured is kept.
    Interrupted,
    /// It could not run or a target died.
    Failed {
        /// What happened, in the server's or the system's words.
        error: String,
        /// What to do.
        remedy: String,
    },
}

/// One trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TrialRecord {
    /// Number in the plan.
    pub id: u32,
    /// Stage of the experiment.
    pub stage: String,
    /// Block (repeat) that it belongs to.
    pub block: u32,
    /// Level of each factor.
    pub levels: BTreeMap<String, String>,
    /// Load asked.
    pub load: LoadSpec,
    /// How it ended.
    pub state: TrialState,
    /// What came of the load; `None` when it never started.
    pub outcome: Option<LoadOutcome>,
    /// What another tool reported, for a trial that was imported and not measured here. Then `outcome` is `None`, and
    /// of `load` only that is meant which the figures name too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reported: Option<Reported>,
    /// Targets as they ran.
    pub targets: Vec<TargetRecord>,
    /// What could not be watched.
    pub unavailable: Vec<Unavailable>,
    /// What a reader must know.
    pub warnings: Vec<Warning>,
    /// Samples of the monitors; stored in a file of their own.
    #[serde(skip)]
    pub series: Vec<Series>,
    /// What each of the hosts brought that carried the load, empty for one of this host; stored in a file of its own.
    #[serde(skip)]
    pub hosts: Vec<HostPart>,
    /// What was examined beside the timed load; stored in files of its own.
    #[serde(skip)]
    pub examination: Option<Examination>,
    /// Configuration as run and output of the targets, by file name; stored as files.
    #[serde(skip)]
    pub files: BTreeMap<String, String>,
}

/// A run as read back.
#[derive(Clone, Debug, PartialEq)]
pub struct RunRecord {
    /// First file.
    pub manifest: Manifest,
    /// The plan as run (type `plan::Plan`, which this crate does not know).
    pub plan: serde_json::Value,
    /// The experiment file as given.
    pub experiment: String,
    /// Facts about the host.
    pub environment: Vec<EnvironmentItem>,
    /// Trials that ended, by id.
    pub trials: Vec<TrialRecord>,
    /// Traffic of a TCP in user space, whose counters the trials hold as figures.
    pub traffic: Option<TrafficRun>,
}

fn put(store: &mut dyn Store, path: &str, bytes: &[u8]) -> Result<(), RecordError> {
    store.put(path, bytes).map_err(|cause| RecordError::Store {
        doing: "writing",
        path: path.to_owned(),
        cause,
    })
}

fn put_json(store: &mut dyn Store, path: &str, value: &impl Serialize) -> Result<(), RecordError> {
    let mut bytes = serde_json::to_vec_pretty(value)
        .expect("our types have string keys and finite numbers, so they serialise");
    bytes.push(b'\n');
    put(store, path, &bytes)
}

fn get(store: &dyn Store, path: &str) -> Result<Vec<u8>, RecordError> {
    store
        .get(path)
        .map_err(|cause| RecordError::Store {
            doing: "reading",
            path: path.to_owned(),
            cause,
        })?
        .ok_or_else(|| RecordError::Missing {
            path: path.to_owned(),
        })
}

/// `None` when there is no such file.
fn get_json_if<T: serde::de::DeserializeOwned>(
    store: &dyn Store,
    path: &str,
) -> Result<Option<T>, RecordError> {
    match get_json(store, path) {
        Err(RecordError::Missing { .. }) => Ok(None),
        read => read.map(Some),
    }
}

fn get_json<T: serde::de::DeserializeOwned>(
    store: &dyn Store,
    path: &str,
) -> Result<T, RecordError> {
    serde_json::from_slice(&get(store, path)?).map_err(|e| RecordError::Malformed {
        path: path.to_owned(),
        cause: e.to_string(),
    })
}

impl Manifest {
    /// Writes the manifest; called at the start and again at the end of a run.
    ///
    /// # Errors
    /// [`RecordError::Store`].
    pub fn save(&self, store: &mut dyn Store) -> Result<(), RecordError> {
        put_json(store, "manifest.json", self)
    }
}

impl TrialRecord {
    /// Directory of a trial within the record.
    pub fn directory(id: u32) -> String {
        format!("trials/{id:04}")
    }

    /// Writes the trial's files; `trial.json` last, so that its presence means that the trial is whole.
    ///
    /// # Errors
    /// [`RecordError::Store`].
    pub fn save(&self, store: &mut dyn Store) -> Result<(), RecordError> {
        let dir = Self::directory(self.id);
        for (name, content) in &self.files {
            put(store, &format!("{dir}/files/{name}"), content.as_bytes())?;
        }
        let series = serde_json::to_vec(&self.series)
            .expect("our types have string keys and finite numbers, so they serialise");
        put(store, &format!("{dir}/series.json"), &series)?;
        if !self.hosts.is_empty() {
            let hosts = serde_json::to_vec(&self.hosts)
                .expect("our types have string keys and finite numbers, so they serialise");
            put(store, &format!("{dir}/hosts.json"), &hosts)?;
        }
        if let Some(examination) = &self.examination {
            put_json(store, &format!("{dir}/examination.json"), examination)?;
            let profiles = serde_json::to_vec(&examination.profiles)
                .expect("our types have string keys and finite numbers, so they serialise");
            put(store, &format!("{dir}/profiles.json"), &profiles)?;
        }
        put_json(store, &format!("{dir}/trial.json"), self)
    }

    /// Reads one trial.
    ///
    /// # Errors
    /// [`RecordError`] when a file is missing or malformed.
    pub fn load(store: &dyn Store, id: u32) -> Result<Self, RecordError> {
        let dir = Self::directory(id);
        let mut trial: Self = get_json(store, &format!("{dir}/trial.json"))?;
        trial.series = get_json(store, &format!("{dir}/series.json"))?;
        trial.hosts = get_json_if(store, &format!("{dir}/hosts.json"))?.unwrap_or_default();
        let examined: Option<Examination> = get_json_if(store, &format!("{dir}/examination.json"))?;
        trial.examination = match examined {
            Some(examination) => Some(Examination {
                profiles: get_json_if(store, &format!("{dir}/profiles.json"))?.unwrap_or_default(),
                ..examination
            }),
            None => None,
        };
        let prefix = format!("{dir}/files/");
        let names = store.list(&prefix).map_err(|cause| RecordError::Store {
            doing: "reading",
            path: prefix.clone(),
            cause,
        })?;
        for path in names {
            let text = String::from_utf8_lossy(&get(store, &path)?).into_owned();
            trial.files.insert(path[prefix.len()..].to_owned(), text);
        }
        Ok(trial)
    }
}

impl RunRecord {
    /// Writes what is known before the first trial: manifest, plan, experiment file, environment.
    ///
    /// # Errors
    /// [`RecordError::Store`].
    pub fn save_head(&self, store: &mut dyn Store) -> Result<(), RecordError> {
        self.manifest.save(store)?;
        put_json(store, "plan.json", &self.plan)?;
        put(store, "experiment.toml", self.experiment.as_bytes())?;
        put_json(store, "environment.json", &self.environment)
    }

    /// Writes the whole record.
    ///
    /// # Errors
    /// [`RecordError::Store`].
    pub fn save(&self, store: &mut dyn Store) -> Result<(), RecordError> {
        self.save_head(store)?;
        if let Some(traffic) = &self.traffic {
            put_json(store, "traffic.json", traffic)?;
        }
        self.trials.iter().try_for_each(|t| t.save(store))
    }

    /// Reads a record; trials without a `trial.json` never ended and are left out.
    ///
    /// # Errors
    /// [`RecordError`] when a file is missing, malformed or too new.
    pub fn load(store: &dyn Store) -> Result<Self, RecordError> {
        let manifest: Manifest = get_json(store, "manifest.json")?;
        if manifest.format > FORMAT {
            return Err(RecordError::TooNew {
                found: manifest.format,
            });
        }
        let listed = store.list("trials/").map_err(|cause| RecordError::Store {
            doing: "reading",
            path: "trials/".to_owned(),
            cause,
        })?;
        let ids = listed.iter().filter_map(|path| {
            path.strip_prefix("trials/")?
                .strip_suffix("/trial.json")?
                .parse::<u32>()
                .ok()
        });
        Ok(Self {
            manifest,
            plan: get_json(store, "plan.json")?,
            experiment: String::from_utf8_lossy(&get(store, "experiment.toml")?).into_owned(),
            environment: get_json(store, "environment.json")?,
            trials: ids
                .map(|id| TrialRecord::load(store, id))
                .collect::<Result<_, _>>()?,
            traffic: get_json_if(store, "traffic.json")?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Kind, Nanos};

    fn record() -> RunRecord {
        let mut series = Series::new("cpu.user_s", "s", "/proc/stat", Kind::Counter);
        series.push(Nanos(1), 0.5);
        RunRecord {
            manifest: Manifest {
                format: FORMAT,
                prony: "0.1.0".into(),
                question: "why?".into(),
                command: vec!["prony".into(), "run".into()],
                started: "2026-01-01T00:00:00Z".into(),
                ended: None,
                interrupted: false,
            },
            plan: serde_json::json!({"trials": []}),
            experiment: "question = 'why?'\n".into(),
            environment: vec![EnvironmentItem {
                group: "sysctl".into(),
                name: "net.core.somaxconn".into(),
                value: Some("4096".into()),
                reason: None,
            }],
            trials: vec![TrialRecord {
                id: 3,
                stage: "closed".into(),
                block: 1,
                levels: BTreeMap::from([("connections".into(), "10".into())]),
                load: LoadSpec::new("http://127.0.0.1:1/"),
                state: TrialState::Failed {
                    error: "port taken".into(),
                    remedy: "free it".into(),
                },
                outcome: None,
                reported: None,
                targets: vec![TargetRecord::default()],
                unavailable: vec![],
                warnings: vec![Warning::new("x", "y", "z")],
                series: vec![series],
                hosts: Vec::new(),
                examination: Some(Examination {
                    signature: Some(crate::Signature {
                        requests: 3000,
                        ..crate::Signature::default()
                    }),
                    profiles: vec![crate::Profile {
                        kind: crate::ProfileKind::OnCpu,
                        hz: 99,
                        samples: 1,
                        lost: 0,
                        unwound: 1,
                        frames: vec![],
                        stacks: vec![],
                    }],
                    ..Examination::default()
                }),
                files: BTreeMap::from([("nginx.conf".into(), "events {}\n".into())]),
            }],
            traffic: Some(TrafficRun::default()),
        }
    }

    #[test]
    fn reads_what_it_wrote() {
        let mut store = MemoryStore::default();
        record().save(&mut store).unwrap();
        assert_eq!(RunRecord::load(&store).unwrap(), record());
    }

    #[test]
    fn a_trial_that_never_ended_is_left_out() {
        let mut store = MemoryStore::default();
        record().save(&mut store).unwrap();
        store.0.remove("trials/0003/trial.json");
        assert_eq!(RunRecord::load(&store).unwrap().trials, vec![]);
    }

    #[test]
    fn a_newer_format_is_refused() {
        let mut store = MemoryStore::default();
        let mut newer = record();
        newer.manifest.format = FORMAT + 1;
        newer.save(&mut store).unwrap();
        assert_eq!(
            RunRecord::load(&store),
            Err(RecordError::TooNew { found: FORMAT + 1 })
        );
        assert!(matches!(
            RunRecord::load(&MemoryStore::default()),
            Err(RecordError::Missing { .. })
        ));
    }
}
