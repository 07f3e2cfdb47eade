//! Targets that another host's prony asked for: they run here as targets of our own do, below this host's journal, and
//! are watched by the same monitors.

use super::carry::refusal;
use super::target;
use crate::exit::Exit;
use crate::host;
use agent::message::{Seen, StartTarget, Started, Stopped, WatchAsked};
use agent::{Refusal, Targets};
use monitor::{Extras, Watch, WatchConfig, Watched};
use plan::TargetSpec;
use record::{Clock, TargetRecord};
use std::collections::BTreeMap;
use std::sync::Arc;
use sut::{Launcher, RunningTarget, TargetError};
use traffic::MonotonicClock;

/// Targets of this process.
pub struct Hosted {
    launcher: Launcher,
    targets: Vec<Running>,
    watch: Option<Watch>,
}

struct Running {
    server: RunningTarget,
    /// How it has ended by itself.
    died: Option<String>,
}

impl Hosted {
    /// Ready to start some.
    ///
    /// # Errors
    /// [`Refusal`] when the journal cannot be written: nothing is started then.
    pub fn open() -> Result<Self, Refusal> {
        let launcher = super::launcher().map_err(|e| refusal(&e))?;
        Ok(Self {
            launcher,
            targets: Vec::new(),
            watch: None,
        })
    }
}

impl Targets for Hosted {
    fn lack(&mut self, spec: &TargetSpec) -> Option<Refusal> {
        let missing = sut::lacks(spec).map(|e| refused(&e));
        let cpus = || host::check_cpus(&spec.cpus, &format!("target `{}`", spec.name)).err();
        missing.or_else(|| cpus().map(|failure| refusal(&failure)))
    }

    fn start(
        &mut self,
        asked: &StartTarget,
        interrupted: &dyn Fn() -> bool,
    ) -> Result<Started, Refusal> {
        let started = (self.launcher).start(&asked.spec, &asked.addresses, interrupted);
        let server = started.map_err(|e| refused(&e))?;
        let started = Started {
            address: server.address(),
            record: server.record(),
        };
        self.targets.push(Running { server, died: None });
        Ok(started)
    }

    fn died(&mut self) -> Vec<(String, String)> {
        let mut died = Vec::new();
        for target in self.targets.iter_mut().filter(|t| t.died.is_none()) {
            if let Err(how) = target.server.check_alive() {
                died.push((target.server.record().name, how.clone()));
                target.died = Some(how);
            }
        }
        died
    }

    fn watch(&mut self, asked: WatchAsked) {
        let config = WatchConfig {
            targets: self.targets.iter().map(Running::watched).collect(),
            listen: self.targets.iter().map(|t| t.server.address()).collect(),
            extras: Extras {
                tlb: asked.tlb,
                slabs: asked.slabs,
                queues: asked.queues,
            },
            ..WatchConfig::default()
        };
        let watch = Watch::start(&config, Arc::new(|| MonotonicClock.now()));
        self.watch = Some(watch);
    }

    fn end_watch(&mut self) -> Seen {
        let seen = self.watch.take().map(Watch::stop).unwrap_or_default();
        self.died();
        Seen {
            series: seen.series,
            unavailable: seen.unavailable,
            targets: self.targets.iter().map(Running::record).collect(),
        }
    }

    fn stop(&mut self, target: &str) -> Stopped {
        let mut targets = self.targets.iter();
        let Some(at) = targets.position(|t| t.server.record().name == target) else {
            return Stopped {
                files: BTreeMap::new(),
                failure: None,
            };
        };
        let Running { server, .. } = self.targets.remove(at);
        if self.targets.is_empty() {
            self.watch = None;
        }
        Stopped {
            files: server.files(),
            failure: server.stop().err().map(|e| refused(&e)),
        }
    }
}

impl Drop for Hosted {
    /// A proxy before its backend.
    fn drop(&mut self) {
        while self.targets.pop().is_some() {}
    }
}

impl Running {
    fn watched(&self) -> Watched {
        target::watched(&self.server.record().name, &self.server)
    }

    fn record(&self) -> TargetRecord {
        TargetRecord {
            died: self.died.clone(),
            ..self.server.record()
        }
    }
}

fn refused(error: &TargetError) -> Refusal {
    Refusal {
        what: error.to_string(),
        remedy: error.remedy(),
        exit: Exit::Environment.code(),
    }
}
