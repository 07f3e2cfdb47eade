//! What runtimes below the servers say of themselves: names of what they compiled, and where their threads are.
//!
//! In the flow: found when all servers are known, asked around the timed load and through the trace of turns. To read
//! changes nothing and is always done; to ask makes the runtime act, so it is done where a load of ours is put on the
//! server anyway, or a person said so. The surprise: nothing is a failure here. What was not told is a gap of that
//! runtime, with its remedy, and the rows it would have named keep the names that the machine shows.

use crate::terminal;
use monitor::attach::{Dumped, Dumper, Jvm, is_jvm};
use monitor::profile::CodeNames;
use monitor::scripts::{self, Language, ReadError, Sampler};
use monitor::turns::TimeSamples;
use record::{AskedRuntime, ProbeCost, Server, Unavailable};

/// Whether runtimes may be asked, which makes them act.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Consent {
    /// Yes.
    Attach,
    /// No, and a person said so.
    Refused,
    /// No, as nobody said so.
    NotAsked,
}

/// The runtimes below the servers.
#[derive(Debug)]
pub struct Runtimes {
    consent: Consent,
    jvms: Vec<(String, Jvm)>,
    /// Interpreters in processes, with their targets' names.
    interpreters: Vec<(String, Language, i32)>,
    names: CodeNames,
    all: Vec<AskedRuntime>,
}

/// What reads runtimes while turns are traced.
pub(super) struct Reading {
    dumper: Option<Dumper>,
    interpreters: Option<Sampler>,
}

/// What was read.
#[derive(Default)]
pub(super) struct Read {
    pub samples: TimeSamples,
    pub cost: Vec<ProbeCost>,
}

/// Interpreters of one server that are looked into.
const MOST_INTERPRETERS: usize = 16;
const INSIDE: &str = "where threads of the JVM wait, and the names of what it compiled";
const NAMES: &str = "names of code that the JVM compiled";

impl Runtimes {
    /// None yet.
    pub fn new(consent: Consent) -> Self {
        Self {
            consent,
            jvms: Vec::new(),
            interpreters: Vec::new(),
            names: CodeNames::default(),
            all: Vec::new(),
        }
    }

    /// Finds those of the servers that are not known yet, and says so before one is made to act.
    pub(super) fn find(&mut self, servers: &[Server]) {
        for server in servers {
            let pids = server.processes.iter().map(|p| p.pid);
            let new = |pid: &i32| !self.all.iter().any(|one| one.pid == *pid);
            let jvms: Vec<i32> = pids.filter(new).filter(|&pid| is_jvm(pid)).collect();
            for pid in jvms {
                match scripts::open(Language::Java, pid) {
                    Ok(_) => self.will_read(&server.target, pid),
                    Err(error) => self.attach(&server.target, pid, &error),
                }
            }
            let pids = server.processes.iter().map(|p| p.pid);
            let known = |pid: &i32| self.interpreters.iter().any(|(_, _, known)| known == pid);
            let new = pids.filter(|pid| !known(pid));
            let found = new.flat_map(|pid| {
                let languages = scripts::found_in(pid).into_iter();
                let languages = languages.filter(|&language| language != Language::Java);
                languages.map(move |language| (language, pid))
            });
            let found: Vec<(Language, i32)> = found.take(MOST_INTERPRETERS).collect();
            let of = |(language, pid)| (server.target.clone(), language, pid);
            self.interpreters.extend(found.into_iter().map(of));
        }
    }

    /// A JVM that tells its layout is read, and need not be asked.
    fn will_read(&mut self, target: &str, pid: i32) {
        let of = (target.to_owned(), Language::Java, pid);
        self.interpreters.push(of);
        self.all.push(AskedRuntime {
            target: target.to_owned(),
            pid,
            runtime: Language::Java.runtime().to_owned(),
            ..AskedRuntime::default()
        });
    }

    /// One that cannot be read is asked, where that is allowed.
    fn attach(&mut self, target: &str, pid: i32, unread: &ReadError) {
        let gap = match self.consent {
            Consent::Attach => {
                terminal::note(&format!(
                    "asking the JVM of {target} (pid {pid}) for thread dumps and the names of its compiled code; each \
                     dump stops its threads for about a millisecond (--no-attach leaves it out)"
                ));
                match Jvm::attach(pid) {
                    Ok(jvm) => {
                        self.jvms.push((target.to_owned(), jvm));
                        None
                    }
                    Err(error) => Some(error.unavailable(INSIDE)),
                }
            }
            Consent::Refused => Some(Unavailable {
                what: INSIDE.to_owned(),
                reason: format!("{unread}; and the JVM was not asked (--no-attach)"),
                remedy: "diagnose without --no-attach".to_owned(),
            }),
            Consent::NotAsked => Some(Unavailable {
                what: INSIDE.to_owned(),
                reason: format!(
                    "{unread}; and to ask a JVM makes it act, which is not done without being told to"
                ),
                remedy: "prony diagnose with --attach".to_owned(),
            }),
        };
        self.all.push(AskedRuntime {
            target: target.to_owned(),
            pid,
            runtime: "jvm".to_owned(),
            unavailable: gap.into_iter().collect(),
            ..AskedRuntime::default()
        });
    }

    /// Asks for the names of what is compiled by now.
    pub(super) fn name_code(&mut self) {
        for (_, jvm) in &self.jvms {
            let began = linux::clock::monotonic_ns();
            let said = jvm.code_names();
            let took = linux::clock::monotonic_ns() - began;
            let Some(one) = self.all.iter_mut().find(|one| one.pid == jvm.pid()) else {
                continue;
            };
            match said {
                Ok(map) => {
                    self.names.add_java(jvm.pid(), &map);
                    *one.asked.entry("Compiler.perfmap".to_owned()).or_default() += 1;
                    one.longest_ns = one.longest_ns.max(took);
                }
                Err(error) => add_gap(one, error.unavailable(NAMES)),
            }
        }
    }

    /// Names that were told.
    pub(super) fn names(&self) -> &CodeNames {
        &self.names
    }

    /// Begins to read where threads are.
    pub(super) fn read(&mut self) -> Reading {
        let jvms = std::mem::take(&mut self.jvms);
        let mut interpreters = Vec::new();
        for (target, language, pid) in self.interpreters.clone() {
            match scripts::open(language, pid) {
                Ok(interpreter) => interpreters.push((target, interpreter)),
                // A process that is no interpreter only has a library of that name.
                Err(ReadError::Absent { .. }) => {}
                Err(error) => self.add(AskedRuntime {
                    target,
                    pid,
                    runtime: language.runtime().to_owned(),
                    unavailable: vec![error.unavailable()],
                    ..AskedRuntime::default()
                }),
            }
        }
        Reading {
            dumper: (!jvms.is_empty()).then(|| Dumper::start(jvms)),
            interpreters: (!interpreters.is_empty()).then(|| Sampler::start(interpreters)),
        }
    }

    /// Ends it.
    pub(super) fn take(&mut self, reading: Reading) -> Read {
        let mut read = Read::default();
        if let Some(dumper) = reading.dumper {
            let Dumped {
                samples,
                asked,
                cost,
                jvms,
            } = dumper.end();
            read.samples.extend(&samples);
            read.cost.extend(cost);
            self.jvms = jvms;
            for one in asked {
                self.add(one);
            }
        }
        if let Some(sampler) = reading.interpreters {
            let gathered = sampler.end();
            read.samples.extend(&gathered.samples);
            read.cost.extend(gathered.cost);
            for one in gathered.asked {
                self.add(one);
            }
        }
        read
    }

    fn add(&mut self, told: AskedRuntime) {
        let Some(one) = self.all.iter_mut().find(|one| one.pid == told.pid) else {
            self.all.push(told);
            return;
        };
        for (what, times) in told.asked {
            *one.asked.entry(what).or_default() += times;
        }
        one.longest_ns = one.longest_ns.max(told.longest_ns);
        one.lock = told.lock.or(one.lock.take());
        for gap in told.unavailable {
            add_gap(one, gap);
        }
    }

    /// All that were found, for the record.
    pub(super) fn record(&self) -> Vec<AskedRuntime> {
        self.all.clone()
    }
}

fn add_gap(one: &mut AskedRuntime, gap: Unavailable) {
    if !one.unavailable.contains(&gap) {
        one.unavailable.push(gap);
    }
}
