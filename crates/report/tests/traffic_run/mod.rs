//! A run of `prony traffic` that was recorded, as a record of today's format.

use record::run::FORMAT;
use record::{Manifest, RunRecord, TrafficRun};

/// Both sides over memory with a lossy wire: pages, and connections that time out on purpose.
pub fn recorded() -> TrafficRun {
    serde_json::from_str(include_str!("run.json")).unwrap()
}

/// Its record.
pub fn record() -> RunRecord {
    let run = recorded();
    let (plan, trials) = analysis::traffic::trials(&run, "What does it reach?");
    RunRecord {
        manifest: Manifest {
            format: FORMAT,
            prony: "0.1.0".to_owned(),
            question: plan.question.clone(),
            command: vec!["prony".to_owned(), "traffic".to_owned()],
            started: "2026-01-01T00:00:00Z".to_owned(),
            ended: None,
            interrupted: false,
        },
        plan: serde_json::to_value(&plan).unwrap(),
        experiment: "transport = \"loopback\"\n".to_owned(),
        environment: Vec::new(),
        trials,
        traffic: Some(run),
    }
}
