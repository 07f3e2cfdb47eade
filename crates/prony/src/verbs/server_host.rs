//! `prony diagnose --server-host`: the whole diagnosis on the server's host, the load from this one.
//!
//! prony is started there, as an agent is, and stands where the server is: whatever it does on its own host it does
//! there. This process carries the load that it asks for, and takes the record.
//!
//! ```text
//! this host: agent of the load, keeps the record, shows it  <- frames ->  server's host: `prony diagnose --lent`
//! ```
//! The surprise: the conductor of the load is the one that was started, so that clock, probes and the load's times are
//! all of the server's host.

use super::agent::hello;
use super::{diagnose, hosts};
use crate::cli::DiagnoseArgs;
use crate::executor::carry::Loads;
use crate::executor::contained;
use crate::executor::source;
use crate::exit::{Exit, Failure};
use crate::interrupt::Interrupt;
use crate::store::DirStore;
use crate::terminal;
use agent::message::{Message, Stored};
use agent::{Done, Fleet, Gate, Generator, Host, Prepare, Refusal, Right};
use record::{RunRecord, Store};
use std::net::IpAddr;
use std::path::{Component, Path};
use std::process::Child;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use sut::discover;

const VERB: &str = "diagnose";
/// Flags of this side, and whether a value follows.
const OWN: [(&str, bool); 5] = [
    ("--pod", true),
    ("--server-host", true),
    ("--hosts", true),
    ("--out", true),
    ("--json", false),
];
/// After the conversation has ended, the other prony is waited for so long.
const ENDING: Duration = Duration::from_secs(5);

/// Runs the verb.
///
/// # Errors
/// [`Failure`] when the host cannot be reached or is lost, or a flag names what only one of the two hosts has.
pub fn run(args: &DiagnoseArgs, name: &str) -> Result<Exit, Failure> {
    check(args)?;
    let host = hosts::one(args.from_hosts.hosts.as_deref(), name)?;
    // The cluster is known here; on a node it need not be.
    let pod = args.pod.as_ref().map(discover::pod).transpose();
    let pod = pod.map_err(|e| contained::unknown(&e))?;
    let url = match (&args.url, &pod) {
        (None, Some(pod)) if !args.no_load => Some(contained::url(&pod.declared())?),
        (url, _) => url.clone(),
    };
    let mut words = arguments(std::env::args());
    words.extend(
        pod.iter()
            .flat_map(|pod| ["--container".to_owned(), pod.id.clone()]),
    );
    if args.url.is_none() {
        words.extend(url.iter().flat_map(|url| ["--url".to_owned(), url.clone()]));
    }
    let own = hosts::own()?;
    let interrupt = Interrupt::install()?;
    let scratch = tempfile::tempdir().map_err(|e| no_directory(&e))?;
    let directory = scratch.path().join("record");
    let store = diagnose::new_record(args.out.as_deref().unwrap_or(&directory))?;
    let root = store.root().to_owned();
    // The agent brings the program there where it is missing, and it knows whether it is the same.
    drop(Fleet::reach(std::slice::from_ref(&host), &own).map_err(|e| source::unreached(&e))?);
    let mut child = host.start(&own, &words).map_err(|e| {
        let what = format!("starting prony on {name}: {e}");
        Failure::new(Exit::Environment, what, "")
    })?;
    let (Some(to), Some(from)) = (child.stdin.take(), child.stdout.take()) else {
        unreachable!("both were asked for");
    };
    let lender = Arc::new(Lender {
        serves: url.as_deref().and_then(address),
        store: Mutex::new(store),
        interrupt,
    });
    let files = scratch.path().join("files");
    std::fs::create_dir(&files).map_err(|e| no_directory(&e))?;
    let pid = child.id();
    let give_up = move || end(pid);
    let hello = hello(&own.build, vec![Right::Load]);
    let served = agent::serve(from, Box::new(to), &hello, &files, lender, give_up);
    let exit = ended(&mut child);
    let is_kept = root.join("manifest.json").exists();
    match (served, exit) {
        // It has said why on standard error.
        (_, Some(exit)) if exit != Exit::Valid && !is_kept => {
            leave_nothing(&root);
            return Ok(exit);
        }
        (Err(error), _) => {
            leave_nothing(&root);
            return Err(lost(&host, &error.to_string()));
        }
        (Ok(()), None) => return Err(lost(&host, "its prony did not end in order")),
        (Ok(()), Some(_)) => {}
    }
    show(args, &root)?;
    Ok(exit.unwrap_or(Exit::Invalid))
}

/// Refuses what is of this host and would be looked for on the other, and the reverse.
fn check(args: &DiagnoseArgs) -> Result<(), Failure> {
    let refused = |flag: &str, why: &str, remedy: &str| {
        Err(Failure::new(
            Exit::Usage,
            format!("{flag} and --server-host cannot both be given: {why}"),
            remedy,
        ))
    };
    if args.record.is_some() || !args.from.is_empty() {
        return refused(
            "a record or --from",
            "it is diagnosed here",
            "leave one of them out",
        );
    }
    if args.against.is_some() {
        let remedy = "keep the record with --out, and compare two records with `prony compare`";
        return refused("--against", "the earlier record is on this host", remedy);
    }
    if !args.from_hosts.on.is_empty() || args.from_hosts.fleet.access().is_some() {
        let remedy = "start prony on the server's host: prony diagnose --on";
        return refused("--on or --fleet", "the load is sent from this host", remedy);
    }
    let mut spec = args.spec(args.url.as_deref().unwrap_or_default());
    if let Some(file) = spec.files_mut().next() {
        let why = format!("{file} is on this host");
        return refused(
            "a file of the load",
            &why,
            "start prony on the server's host",
        );
    }
    Ok(())
}

/// What the other prony is started with: as this one, less what is this one's own.
fn arguments(all: impl Iterator<Item = String>) -> Vec<String> {
    let mut kept = Vec::new();
    let mut all = all.skip(1);
    while let Some(word) = all.next() {
        if word == VERB && !kept.iter().any(|word| word == VERB) {
            kept.extend([word, "--lent".to_owned()]);
            continue;
        }
        let own = OWN.iter().find(|(flag, _)| {
            let rest = word.strip_prefix(flag);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('='))
        });
        match own {
            Some((flag, true)) if word == *flag => drop(all.next()),
            Some(_) => {}
            None => kept.push(word),
        }
    }
    kept
}

fn no_directory(error: &std::io::Error) -> Failure {
    Failure::new(
        Exit::Environment,
        format!("making a directory for the record: {error}"),
        "set TMPDIR to a directory that may be written to",
    )
}

fn lost(host: &Host, why: &str) -> Failure {
    Failure::new(
        Exit::Invalid,
        format!("host {}: {why}", host.name),
        "look at that host and at the connection to it, and repeat the diagnosis",
    )
}

/// A record that never came leaves its reserve, and a directory only where it was made for it.
fn leave_nothing(root: &Path) {
    DirStore::open(root).give_up_reserve();
    // One that was there already, with files in it, stays.
    let _ = std::fs::remove_dir(root);
}

fn address(url: &str) -> Option<IpAddr> {
    let spec = record::LoadSpec::new(plan::typed::url(url).ok()?);
    traffic::address_of(&spec).map(|address| address.ip())
}

/// How the other prony ended; `None` when its carrier did not bring it to its end.
fn ended(child: &mut Child) -> Option<Exit> {
    let since = Instant::now();
    loop {
        if let Ok(Some(status)) = child.try_wait() {
            return match status.code()? {
                0 => Some(Exit::Valid),
                // ssh's own, and the shell's for a program that is not there.
                255 | 126 | 127 => None,
                code => Some(Exit::of(u8::try_from(code).ok()?)),
            };
        }
        if since.elapsed() > ENDING {
            // It may have ended in this moment.
            let _ = child.kill();
            let _ = child.wait();
            return None;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Another thread hangs in a pipe to the carrier that nobody reads: without the carrier it returns.
fn end(pid: u32) {
    if let Some(pid) = rustix::process::Pid::from_raw(pid.cast_signed()) {
        // It may have ended in this moment.
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
    }
}

/// The record as it came, with the command that a person typed and a page made here.
fn show(args: &DiagnoseArgs, root: &Path) -> Result<(), Failure> {
    let mut store = DirStore::open(root);
    let mut record = RunRecord::load(&store)
        .map_err(|e| Failure::new(Exit::Invalid, e.to_string(), e.remedy()))?;
    record.manifest.command = std::env::args().collect();
    let unwritten = |cause: String| diagnose::not_stored(root, &cause);
    let saved = record.manifest.save(&mut store);
    saved.map_err(|e| unwritten(e.to_string()))?;
    store.give_up_reserve();
    diagnose::stored(args, root)?;
    if args.out.is_some() {
        let analysis = crate::executor::run::analyse(&record)?;
        let diagnoses = super::report::diagnoses(&store, &record, &analysis)?;
        let page = super::report::write_html(&mut store, &record, &analysis, &diagnoses);
        page.map_err(unwritten)?;
        if !args.json {
            let page = root.join(super::report::PAGE);
            terminal::result(&format!("report: {}", page.display()))?;
        }
    }
    Ok(())
}

/// Carries loads of the one server, and keeps the record.
struct Lender {
    /// Where loads may go; `None` for a name that is not known here, or where no load was asked for.
    serves: Option<IpAddr>,
    store: Mutex<DirStore>,
    interrupt: Interrupt,
}

impl Generator for Lender {
    fn carry(
        &self,
        asked: &Prepare,
        files: &Path,
        gate: &Gate,
        tell: &mut dyn FnMut(Message),
    ) -> Result<Done, Refusal> {
        let refused = |what: &str| Refusal {
            what: what.to_owned(),
            remedy: "give the address under which this host reaches the server with --url"
                .to_owned(),
            exit: Exit::Usage.code(),
        };
        // Whoever may start prony there shall not send loads to others from here.
        let asks = traffic::address_of(&asked.spec).map(|address| address.ip());
        if asks.is_none() || asks != self.serves || asked.spec.proxy.is_some() {
            return Err(refused(&format!(
                "a load of {} is none of the server that was named",
                asked.spec.url
            )));
        }
        Loads.carry(asked, files, gate, tell)
    }

    fn keep(&self, stored: &Stored) -> Result<(), String> {
        let path = Path::new(&stored.path);
        let is_below = path
            .components()
            .all(|part| matches!(part, Component::Normal(_)));
        if !is_below || stored.path.is_empty() {
            return Err(format!("{} is no file of a record", stored.path));
        }
        let mut store = self.store.lock().unwrap_or_else(PoisonError::into_inner);
        store.put(&stored.path, &stored.content)
    }

    fn is_interrupted(&self) -> bool {
        self.interrupt.asked()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lender(directory: &Path) -> Lender {
        Lender {
            serves: Some(IpAddr::from([10, 0, 0, 1])),
            store: Mutex::new(DirStore::create(directory).unwrap()),
            interrupt: Interrupt::default(),
        }
    }

    #[test]
    fn what_is_of_this_side_is_not_said_to_the_other() {
        let typed = "prony --quiet diagnose --server-host me@sut --out=dir --json --pod a/b --url http://h/diagnose -d 3s --prove";
        let said = arguments(typed.split(' ').map(str::to_owned));
        let want = "--quiet diagnose --lent --url http://h/diagnose -d 3s --prove";
        assert_eq!(said.join(" "), want);
    }

    #[test]
    fn files_stay_within_the_record() {
        let directory = tempfile::tempdir().unwrap();
        let lender = lender(&directory.path().join("record"));
        let keep = |path: &str| {
            lender.keep(&Stored {
                path: path.to_owned(),
                content: b"x".to_vec(),
            })
        };
        assert_eq!(keep("trials/0000/trial.json"), Ok(()));
        for outside in ["", "/etc/passwd", "../up", "trials/../../up", "./a"] {
            assert!(keep(outside).is_err(), "{outside}");
        }
        assert!(!directory.path().join("up").exists());
    }

    #[test]
    fn loads_go_to_the_server_that_was_named() {
        let directory = tempfile::tempdir().unwrap();
        let lender = lender(&directory.path().join("record"));
        let asked = Prepare {
            spec: record::LoadSpec::new("http://10.0.0.2/"),
            part: record::Part::whole(1),
            timetable: None,
            proxy_user: None,
        };
        let told = &mut |_| panic!("nothing is begun");
        let refused = lender.carry(&asked, directory.path(), &Gate::default(), told);
        assert!(refused.unwrap_err().what.contains("10.0.0.2"));
    }
}
