//! An agent in a thread of the test, over pipes.

use agent::carrier::Way;
use agent::{Agent, Generator, Hello, Host, Right, serve};
use std::io::{PipeReader, PipeWriter};
use std::sync::Arc;
use std::thread::JoinHandle;

pub type Served = JoinHandle<Result<(), agent::ServeError>>;

/// Serves with these rights: what the agent says, what it hears, and the thread.
pub fn serving(
    rights: &[Right],
    generator: impl Generator + 'static,
) -> (PipeReader, PipeWriter, Served) {
    let (from_agent, to_conductor) = std::io::pipe().unwrap();
    let (from_conductor, to_agent) = std::io::pipe().unwrap();
    let hello = Hello {
        version: "1".to_owned(),
        build: "b".to_owned(),
        hostname: "h".to_owned(),
        boot_id: "i".to_owned(),
        kernel: "k".to_owned(),
        user: 0,
        cpus: vec![0, 1],
        open_files: 1_000,
        rights: rights.to_vec(),
    };
    let served = std::thread::spawn(move || {
        let files = tempfile::tempdir().unwrap();
        let (output, generator) = (Box::new(to_conductor), Arc::new(generator));
        serve(
            from_conductor,
            output,
            &hello,
            files.path(),
            generator,
            || (),
        )
    });
    (from_agent, to_agent, served)
}

/// The conductor's end of a conversation over pipes.
pub fn met(name: &str, from_agent: PipeReader, to_agent: PipeWriter) -> Agent {
    let host = Host {
        name: name.to_owned(),
        way: Way::Via(Vec::new()),
        binary: None,
        sudo: false,
        threads: None,
    };
    Agent::over(&host, from_agent, Box::new(to_agent), || ()).unwrap()
}
