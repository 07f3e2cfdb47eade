//! What the tests share: a launcher with its own state and work directories, and specifications as an
//! experiment file would give them.

use plan::{Plan, TargetSpec};
use std::path::PathBuf;
use sut::{Journal, Launcher, RunningTarget, TargetError};

/// A launcher whose traces can be looked for.
pub struct Bench {
    pub launcher: Launcher,
    dir: tempfile::TempDir,
}

impl Bench {
    pub fn new() -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let launcher = Launcher {
            journal: Journal::open(&dir.path().join("state")).expect("a journal"),
            prony: PathBuf::from("/nonexistent/prony"),
            work_dir: dir.path().join("work"),
        };
        Self { launcher, dir }
    }

    pub fn start(&self, spec: &TargetSpec) -> Result<RunningTarget, TargetError> {
        self.launcher.start(spec, &[].into(), &|| false)
    }

    /// The message of a start that must fail, its remedy, and nothing left behind.
    pub fn complaint(&self, spec: &TargetSpec) -> (String, String) {
        let error = match self.start(spec) {
            Ok(_) => panic!("it started"),
            Err(error) => error,
        };
        assert_eq!(self.left(), Vec::<String>::new());
        (error.to_string(), error.remedy())
    }

    /// Working directories of targets that still are there.
    pub fn left(&self) -> Vec<String> {
        std::fs::read_dir(self.dir.path().join("work"))
            .into_iter()
            .flatten()
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .collect()
    }
}

/// The target `s` of an experiment with this `[target.s]` section. `template` is what its template says.
pub fn spec(section: &str, template: &str) -> TargetSpec {
    let text = format!("question = \"?\"\nload.url = \"http://s/\"\n[target.s]\n{section}\n");
    let read = |_: &str| Ok(template.to_owned());
    let plan = Plan::parse(&text, "test.toml", &read).unwrap_or_else(|e| panic!("{e}"));
    plan.trials[0].targets[0].clone()
}

/// Does the process run? One that has ended and was not waited for does not.
pub fn lives(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ")
        .is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}
