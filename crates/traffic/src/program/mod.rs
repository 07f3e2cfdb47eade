//! Traffic programs: a [`TrafficSpec`] run over one or two devices by a TCP of prony's own, to a [`TrafficOutcome`].
//!
//! ```text
//! TrafficSpec + Ends -> run: script (templates, compiled) -> threads of a side: host + program each -> TrafficOutcome
//! ```
//!
//! Each thread of a *side* has one device, one [`stack::host::Host`] and one program above it, and shares nothing with
//! the others but the templates: `part` divides connections and counts among them. The surprise: nothing that is sent
//! is kept anywhere. What a connection sends at an offset of its stream follows from its template, so
//! lost bytes are made again, and received ones compared, without a buffer.

mod conn;
mod content;
mod error;
mod exchanges;
mod flows;
mod http;
mod part;
mod requests;
mod script;
mod settings;
mod side;
mod streams;
mod tls;

#[cfg(test)]
mod tests;

pub use error::ProgramError;
pub(crate) use part::salt;
pub(crate) use settings::ports_for;

use crate::clock::now_ns;
use part::Threads;
use record::traffic::{Side, TemplateOutcome, TrafficInterval};
use record::{Nanos, TrafficOutcome, TrafficSpec};
use script::{Plan, Role, Work};
use side::{Control, Finished, Progress, Task};
use stack::device::Device;
use stack::link::{self, Link};
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, ScopedJoinHandle};
use std::time::Duration;

/// The devices of a side, and the link settings that the caller has made for it: its own addresses, the networks
/// around it and the routers. The link address is the device's.
pub struct End {
    /// What carries its frames, decorated with capture and faults where the spec asks for them: one for each thread,
    /// in their order. Frames get to the thread that has their connection; see [`stack::device::queues`].
    pub devices: Vec<Box<dyn Device + Send>>,
    /// Addresses, networks, routers.
    pub link: link::Settings,
}

/// The ends of a run; those that the spec has must be there.
#[derive(Default)]
pub struct Ends {
    /// Of [`TrafficSpec::client`].
    pub client: Option<End>,
    /// Of [`TrafficSpec::server`].
    pub server: Option<End>,
}

/// How often whoever waits for the sides looks.
const LOOK: Duration = Duration::from_millis(20);
/// Length of an interval.
const INTERVAL_NS: u64 = 1_000_000_000;
/// How long a side may take to say how far it is before the interval does without it.
const ANSWER_NS: u64 = 200_000_000;

/// Runs `spec` to its end. `stop` is asked about fifty times a second whether to end early, as Ctrl-C wants it: then
/// open connections may still finish for as long as [`TrafficSpec::drain`] says, and the outcome says that it was
/// interrupted. `watch` is called about once a second with what that second brought and with the templates' figures
/// from the beginning on.
///
/// # Errors
/// See [`ProgramError`]; when a device goes away, what was counted goes with it.
pub fn run(
    spec: &TrafficSpec,
    ends: Ends,
    stop: &mut dyn FnMut() -> bool,
    watch: &mut dyn FnMut(&TrafficInterval, &[TemplateOutcome]),
) -> Result<TrafficOutcome, ProgramError> {
    let plan = Arc::new(Plan::new(spec)?);
    let mut sides = Vec::new();
    for (role, side, end) in [
        (Role::Server, &spec.server, ends.server),
        (Role::Client, &spec.client, ends.client),
    ] {
        let Some(side) = side else { continue };
        let end = end.ok_or(ProgramError::NoDevice { side: role.name() })?;
        check(role, side, &end, &plan)?;
        sides.push((role, side, end));
    }
    if sides.is_empty() {
        return Err(ProgramError::NoSide);
    }
    let threads = |of: Role| {
        let sides = sides.iter().filter(|(role, ..)| *role == of);
        sides.map(|(_, _, end)| end.devices.len() as u32).sum()
    };
    let (clients, servers) = (threads(Role::Client), threads(Role::Server));
    let control = Control::new(clients, servers);
    let progress: Vec<Mutex<Progress>> = (0..clients + servers).map(|_| Mutex::default()).collect();
    // Two threads that looked without a pause on one CPU would each wait for the other's turn to be over.
    let each = sides.iter().flat_map(|(_, side, end)| {
        let threads = 0..end.devices.len();
        threads.map(|thread| side.cpu_of(thread))
    });
    let cpus: Vec<Option<u32>> = each.collect();
    let has_own_cpu =
        |cpu: Option<u32>| cpu.is_some() && cpus.iter().filter(|c| **c == cpu).count() == 1;
    thread::scope(|scope| {
        let mut running: Vec<Running<'_>> = Vec::new();
        for (role, side, end) in sides {
            let count = end.devices.len();
            for (thread, device) in end.devices.into_iter().enumerate() {
                let cpu = side.cpu_of(thread);
                let task = Task {
                    role,
                    spec,
                    side,
                    threads: Threads { thread, count },
                    cpu,
                    plan: Arc::clone(&plan),
                    link: end.link.clone(),
                    device,
                    polls: side.coalesce.0 == 0 && has_own_cpu(cpu),
                    control: &control,
                    progress: &progress[running.len()],
                };
                let name = match count {
                    1 => format!("traffic-{}", role.name()),
                    _ => format!("traffic-{}{thread}", role.name()),
                };
                let builder = thread::Builder::new().name(name);
                let spawned = builder.spawn_scoped(scope, || side::drive(task));
                match spawned {
                    Ok(handle) => running.push(Running { role, handle }),
                    Err(cause) => {
                        control.is_off.store(true, SeqCst);
                        let side = role.name();
                        return Err(ProgramError::Thread { side, cause });
                    }
                }
            }
        }
        let mut watcher = Watcher {
            control: &control,
            progress: &progress,
            last: Progress::default(),
            before: Progress::default(),
            intervals: Vec::new(),
            plan: &plan,
            roles: running.iter().map(|it| it.role).collect(),
            interrupted: false,
        };
        watcher.wait(&running, stop, watch);
        watcher.outcome(running)
    })
}

/// What can be known before a thread is started.
fn check(role: Role, side: &Side, end: &End, plan: &Plan) -> Result<(), ProgramError> {
    let refused = |cause| ProgramError::Stack {
        side: role.name(),
        cause,
    };
    let mut link = Link::new(end.link.clone()).map_err(refused)?;
    settings::addresses(side, role)?;
    let threads = end.devices.len() as u32;
    let Some(device) = end.devices.first() else {
        return Err(ProgramError::NoDevice { side: role.name() });
    };
    if role == Role::Client {
        ports_for(side, threads)?;
        let busy = part::busy(plan, threads);
        if busy < threads {
            return Err(ProgramError::IdleThreads { threads, busy });
        }
    }
    let mtu_bytes = device.capabilities().mtu_bytes;
    for script in &plan.scripts {
        for target in script.targets.iter().filter(|_| role == Role::Client) {
            // Outside the interface's networks, or what no host may have.
            link.resolve(target.ip(), 0).map_err(refused)?;
        }
        if let Work::Udp(work) = &script.work {
            let is_ipv4 = script.targets.iter().all(|target| target.is_ipv4());
            let headers = if is_ipv4 { 28 } else { 48 };
            let bytes = work.request.len().max(work.response.len());
            if bytes > u64::from(mtu_bytes.saturating_sub(headers)) {
                return Err(ProgramError::DatagramTooLarge {
                    template: script.name.clone(),
                    bytes: u32::try_from(bytes).unwrap_or(u32::MAX),
                    mtu_bytes,
                });
            }
        }
    }
    Ok(())
}

type Outcome = Result<Option<Finished>, ProgramError>;

/// A thread of a side on its way.
struct Running<'scope> {
    role: Role,
    handle: ScopedJoinHandle<'scope, Outcome>,
}

/// Whoever waits for the sides, and says once a second how far they are.
struct Watcher<'a> {
    control: &'a Control,
    progress: &'a [Mutex<Progress>],
    last: Progress,
    /// What `last` was before the last interval.
    before: Progress,
    intervals: Vec<TrafficInterval>,
    plan: &'a Plan,
    roles: Vec<Role>,
    interrupted: bool,
}

impl Watcher<'_> {
    fn wait(
        &mut self,
        running: &[Running<'_>],
        stop: &mut dyn FnMut() -> bool,
        watch: &mut dyn FnMut(&TrafficInterval, &[TemplateOutcome]),
    ) {
        while running.iter().any(|it| !it.handle.is_finished()) {
            thread::sleep(LOOK);
            let now = now_ns();
            if !self.interrupted && stop() {
                self.interrupted = true;
                self.control.stop(now);
            }
            if running.iter().any(|it| it.handle.is_finished()) {
                // The server side ends with the client side, whose threads end together, and nobody begins alone.
                self.control.client_gone.store(true, SeqCst);
                self.control.stop(now);
                if self.control.begin_at().is_none() {
                    self.control.is_off.store(true, SeqCst);
                }
            }
            let begin = self.control.begin_at().unwrap_or(u64::MAX);
            let due = begin.saturating_add((self.intervals.len() as u64 + 1) * INTERVAL_NS);
            if now >= due {
                self.interval(running, begin, watch);
            }
        }
    }

    fn interval(
        &mut self,
        running: &[Running<'_>],
        begin: u64,
        watch: &mut dyn FnMut(&TrafficInterval, &[TemplateOutcome]),
    ) {
        let tick = self.control.tick.fetch_add(1, SeqCst) + 1;
        let asked_at = now_ns();
        let place = |at: usize| (self.progress[at].lock()).unwrap_or_else(PoisonError::into_inner);
        let has_answered = |at: usize| place(at).tick == tick || running[at].handle.is_finished();
        while !(0..running.len()).all(has_answered) && now_ns() < asked_at + ANSWER_NS {
            thread::sleep(Duration::from_millis(1));
        }
        let sides: Vec<Progress> = (0..running.len()).map(|at| place(at).clone()).collect();
        let templates = self.templates(&sides);
        let interval = self.push(&sides, templates, begin, now_ns());
        watch(&interval, &self.last.templates);
    }

    /// The figures of the templates, of all threads: the client side's, with what the server side alone knows; or the
    /// server side's.
    fn templates(&self, threads: &[Progress]) -> Vec<TemplateOutcome> {
        let of = |role| {
            let all = self.roles.iter().zip(threads);
            let own = all.filter(|(it, thread)| **it == role && !thread.templates.is_empty());
            own.map(|(_, thread)| thread.templates.clone())
                .reduce(|mut sums, more| {
                    let both = sums.iter_mut().zip(&more);
                    both.for_each(|(sum, more)| sum.merge(more));
                    sums
                })
        };
        match (of(Role::Client), of(Role::Server)) {
            (Some(client), None) => client,
            (None, Some(server)) => server,
            (Some(client), Some(server)) => {
                let both = client.iter().zip(&server);
                both.map(|(client, server)| merged(client, server))
                    .collect()
            }
            (None, None) => {
                let names = self.plan.scripts.iter().map(|script| &script.name);
                let empty = |name: &String| TemplateOutcome {
                    name: name.clone(),
                    ..TemplateOutcome::default()
                };
                names.map(empty).collect()
            }
        }
    }

    fn push(
        &mut self,
        sides: &[Progress],
        templates: Vec<TemplateOutcome>,
        begin: u64,
        now: u64,
    ) -> TrafficInterval {
        let sum = |of: fn(&Progress) -> u64| sides.iter().map(of).sum::<u64>();
        // Connections are counted where they are begun.
        let has_client = self.roles.contains(&Role::Client);
        let begins = |role: Role| role == Role::Client || !has_client;
        let open = self.roles.iter().zip(sides);
        let open = open.filter(|(role, _)| begins(**role));
        let next = Progress {
            tick: 0,
            at: now,
            open: open.map(|(_, thread)| thread.open).sum(),
            tx_frames: sum(|side| side.tx_frames),
            rx_frames: sum(|side| side.rx_frames),
            tx_bytes: sum(|side| side.tx_bytes),
            rx_bytes: sum(|side| side.rx_bytes),
            retransmitted: sum(|side| side.retransmitted),
            templates,
        };
        self.before = std::mem::replace(&mut self.last, next);
        let (last, next) = (&self.before, &self.last);
        let from = self.intervals.last().map_or(Nanos(0), |it| it.to);
        let all = |of: fn(&TemplateOutcome) -> u64| {
            let total = |progress: &Progress| progress.templates.iter().map(of).sum::<u64>();
            total(next).saturating_sub(total(last))
        };
        let interval = TrafficInterval {
            from,
            to: Nanos(now.saturating_sub(begin)),
            attempted: all(|t| t.attempted),
            connected: all(|t| t.connected),
            completed: all(|t| t.completed),
            failed: all(|t| t.failed.values().sum()),
            exchanges: all(|t| t.exchanges),
            open: next.open,
            tx_frames: next.tx_frames.saturating_sub(last.tx_frames),
            rx_frames: next.rx_frames.saturating_sub(last.rx_frames),
            tx_bytes: next.tx_bytes.saturating_sub(last.tx_bytes),
            rx_bytes: next.rx_bytes.saturating_sub(last.rx_bytes),
            retransmitted: next.retransmitted.saturating_sub(last.retransmitted),
        };
        self.intervals.push(interval);
        interval
    }

    fn outcome(mut self, running: Vec<Running<'_>>) -> Result<TrafficOutcome, ProgramError> {
        let mut threads = Vec::new();
        let mut first = None;
        for Running { role, handle } in running {
            let side = role.name();
            match handle.join().map_err(|_| ProgramError::Panicked { side }) {
                Ok(Ok(Some(finished))) => threads.push((role, finished)),
                // It did not begin since another one could not.
                Ok(Ok(None)) => {}
                Ok(Err(error)) | Err(error) => first = first.or(Some(error)),
            }
        }
        if let Some(error) = first {
            return Err(error);
        }
        let begin = self.control.begin_at().unwrap_or(0);
        // The client side's end, when there is one: a server side lingers.
        let latest = threads
            .iter()
            .map(|(role, thread)| (*role == Role::Client, thread.progress.at));
        let ended_at = latest.max().map_or(begin, |(_, at)| at);
        let progress: Vec<Progress> = (threads.iter())
            .map(|(_, thread)| thread.progress.clone())
            .collect();
        let templates = self.templates(&progress);
        let so_far = self.intervals.last().map_or(0, |it| it.to.0);
        // A short rest belongs to the interval before it, and so does what a side did not say in time.
        if ended_at.saturating_sub(begin) < so_far + INTERVAL_NS / 10 {
            self.intervals.pop();
            self.last = std::mem::take(&mut self.before);
        }
        self.push(&progress, templates, begin, ended_at);
        let (mut sides, mut warnings) = (Vec::new(), Vec::new());
        let (clients, servers) = (threads.into_iter()).partition(|(role, _)| *role == Role::Client);
        let both: [(Role, Vec<(Role, Finished)>); 2] =
            [(Role::Client, clients), (Role::Server, servers)];
        for (role, threads) in both {
            let threads = threads.into_iter().map(|(_, thread)| thread).collect();
            if let Some((outcome, more)) = side::finished(role, threads) {
                sides.push(outcome);
                warnings.extend(more);
            }
        }
        Ok(TrafficOutcome {
            templates: self.last.templates,
            intervals: self.intervals,
            wall_ns: ended_at.saturating_sub(begin),
            interrupted: self.interrupted,
            warnings,
            sides,
        })
    }
}

fn merged(client: &TemplateOutcome, server: &TemplateOutcome) -> TemplateOutcome {
    let mut both = client.clone();
    both.accepted = server.accepted;
    for (kind, count) in &server.failed {
        both.failed.insert(format!("{kind}_at_server"), *count);
    }
    both
}
