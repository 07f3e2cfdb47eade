//! The serving thread on a TCP of our own: a device, the stack above it, and the same conversations as on sockets.
//!
//! Frames in, frames out, and what is due, in one loop; a conversation has its turn inside the call in which its bytes
//! come. The surprise: a freeze stops the conversations only, as it does above a kernel's TCP, whose handshakes and
//! acknowledgements go on. What comes meanwhile is kept and narrows the window.

use super::agenda::{Agenda, Due};
use super::connection::{Connection, Tools};
use super::delay::Delay;
use super::freeze::Freeze;
use super::slots::{Slots, Token};
use super::stack_wire::{FlowWire, Held, Spare};
use super::sys::{self, WakeFlag};
use super::talk::Service;
use crate::clock::now_ns;
use crate::side_report::{self, SideReport};
use crate::user_space::AnyDevice;
use record::Nanos;
use record::traffic::SideOutcome;
use stack::error::Error;
use stack::host::Host;
use stack::link;
use stack::tcp::{App, Event, FlowId, SERVER, Settings, Stack};
use std::io;
use std::net::IpAddr;
use std::sync::Arc;

/// Frames that are taken before anything else has its turn.
const BATCH: usize = 256;
/// The longest wait: the stop flag is looked at between two.
const LOOK_NS: u64 = 50_000_000;
/// The stack's word for a flow that belongs to nobody any more.
const NOBODY: u32 = u32::MAX;
/// Connections at one time, those in TIME-WAIT included; their memory is touched when it is used.
const FLOWS_MAX: u32 = 1 << 20;

/// What a worker is made of.
pub struct StackSpec {
    /// The device, open.
    pub device: AnyDevice,
    /// The link under the stack.
    pub link: link::Settings,
    /// Our addresses.
    pub locals: Vec<IpAddr>,
    /// Where connections are accepted.
    pub port: u16,
    /// How long packets may gather.
    pub coalesce: Nanos,
    /// Up when the origin stops.
    pub stop: Arc<WakeFlag>,
    /// Where answers come from.
    pub service: Service,
    /// Time before an answer.
    pub delay: Option<Delay>,
    /// Pause of the whole server.
    pub freeze: Option<Freeze>,
    /// Segments before the first acknowledgement, where it is not the stack's default.
    pub initial_window: Option<u32>,
    /// The origin's start.
    pub started: Nanos,
}

/// A connection, and after it a flow that waits for its last acknowledgement.
struct Line {
    flow: FlowId,
    connection: Option<Connection>,
    held: Held,
    /// It stands in the agenda, to be looked at after a freeze.
    is_listed: bool,
}

/// The program that the stack sees.
struct Desk {
    lines: Slots<Line>,
    agenda: Agenda,
    tools: Tools,
    spare: Spare,
    is_frozen: bool,
    window_bytes: u32,
}

/// See the module.
pub struct StackWorker {
    host: Host<AnyDevice>,
    desk: Desk,
    coalesce_ns: u64,
    stop: Arc<WakeFlag>,
    transport: String,
    report: SideReport,
}

impl StackWorker {
    /// Sets the stack up over the device; [`StackWorker::run`] serves.
    ///
    /// # Errors
    /// The addresses do not fit the link.
    pub fn new(spec: StackSpec) -> Result<Self, Error> {
        let default = Settings::default();
        let settings = Settings {
            flows_max: FLOWS_MAX,
            initial_window_segments: spec
                .initial_window
                .unwrap_or(default.initial_window_segments),
            ..default
        };
        let window_bytes = settings.receive_window_bytes;
        let seed = now_ns() ^ u64::from(std::process::id()) << 32;
        let mut host = Host::new(
            spec.device,
            &spec.link,
            settings,
            &spec.locals,
            seed,
            now_ns(),
        )?;
        host.stack.listen(spec.port);
        let seed = spec.service.thread as u64;
        Ok(Self {
            transport: side_report::transport(&host, spec.coalesce, false),
            report: SideReport::default(),
            host,
            desk: Desk {
                lines: Slots::new(),
                agenda: Agenda::new(spec.delay, spec.freeze, spec.started, seed),
                tools: Tools::new(spec.service),
                spare: Vec::new(),
                is_frozen: false,
                window_bytes,
            },
            coalesce_ns: spec.coalesce.0,
            stop: spec.stop,
        })
    }

    /// Serves until the stop flag is up or the device has gone, then resets what is open.
    pub fn run(mut self) {
        self.report = SideReport::begin();
        let gone = self.serve().err().map(|e| e.to_string());
        self.host.end(now_ns(), &mut self.desk);
        let refused = self.host.stack.counters(SERVER).err_flow_overflow;
        let service = &self.desk.tools.service;
        service.counters().accept_errors.add(refused);
        let outcome = SideOutcome {
            side: "server".to_owned(),
            transport: self.transport,
            ..self.report.finish(&self.host, &[SERVER])
        };
        service.board.set_stack(outcome, gone);
    }

    fn serve(&mut self) -> io::Result<()> {
        while !self.stop.is_up() {
            let frozen = self.desk.agenda.frozen_for(sys::monotonic);
            self.desk.is_frozen = frozen.is_some();
            if frozen.is_none() {
                self.desk.do_what_is_due(&mut self.host.stack);
            }
            self.host.send(now_ns(), &mut self.desk)?;
            self.report.note_flows(self.host.stack.flows());
            let left = self.nothing_for(frozen);
            if self.coalesce_ns > 0 && left > 0 {
                crate::sys::pause(self.coalesce_ns.min(left));
            }
            let got = self.host.receive(now_ns(), BATCH, &mut self.desk)?;
            if got == 0 {
                // What is due is looked at once more: the pause has taken its time.
                let left = self.nothing_for(frozen);
                self.host.wait(left)?;
            }
        }
        Ok(())
    }

    /// How long there is nothing to do, as far as is known.
    fn nothing_for(&self, frozen: Option<Nanos>) -> u64 {
        let now = now_ns();
        let agenda = &self.desk.agenda;
        let ours = match frozen {
            Some(span) => span.0,
            None if !agenda.again.is_empty() => 0,
            None => agenda
                .timers
                .next_at()
                .map_or(LOOK_NS, |at| at.since(Nanos(now)).0),
        };
        let stacks = self.host.next_deadline_ns();
        let stacks = stacks.map_or(LOOK_NS, |at| at.saturating_sub(now));
        ours.min(stacks).min(LOOK_NS)
    }
}

impl Desk {
    fn do_what_is_due(&mut self, stack: &mut Stack) {
        for token in std::mem::take(&mut self.agenda.again) {
            if let Some(line) = self.lines.get_mut(token) {
                line.is_listed = false;
            }
            self.turn(stack, token, &[]);
        }
        if self.agenda.timers.next_at().is_none() {
            return;
        }
        while let Some(due) = self.agenda.timers.pop_due(sys::monotonic()) {
            match due {
                Due::Answer(token) => self.answer(stack, token),
                Due::LingerEnd(token) => self.close(stack, token),
                // Nothing here stops accepting.
                Due::AcceptAgain => {}
            }
        }
    }

    fn answer(&mut self, stack: &mut Stack, token: Token) {
        if let Some(line) = self.lines.get_mut(token)
            && let Some(connection) = &mut line.connection
        {
            connection.answer(&self.tools);
            self.turn(stack, token, &[]);
        }
    }

    /// One pass of a connection over what has come, and what it asks for afterwards.
    fn turn(&mut self, stack: &mut Stack, token: Token, incoming: &[u8]) {
        let Some(line) = self.lines.get_mut(token) else {
            return;
        };
        let Some(connection) = &mut line.connection else {
            // All is said; what still comes is dropped.
            return;
        };
        if self.is_frozen || (line.held.has_kept() && !incoming.is_empty()) {
            line.held.keep(incoming);
            line.held.set_window(stack, line.flow, self.window_bytes);
        }
        if self.is_frozen {
            if !line.is_listed {
                line.is_listed = true;
                self.agenda.again.push(token);
            }
            return;
        }
        let mut wire = FlowWire {
            stack,
            flow: line.flow,
            incoming: if line.held.has_kept() { &[] } else { incoming },
            held: &mut line.held,
            spare: &mut self.spare,
        };
        let outcome = connection.pass(&mut wire, &mut self.tools);
        wire.keep_rest();
        line.held.set_window(stack, line.flow, self.window_bytes);
        if !self.agenda.note(token, outcome, sys::monotonic) {
            self.close(stack, token);
        }
    }

    /// Ends our side; the flow is forgotten when the peer has all of it.
    fn close(&mut self, stack: &mut Stack, token: Token) {
        let Some(line) = self.lines.get_mut(token) else {
            return;
        };
        if line.connection.take().is_some() {
            self.tools.service.counters().open.subtract(1);
        }
        if line.held.is_acknowledged() {
            self.forget(stack, token);
        } else {
            stack.close(line.flow);
        }
    }

    fn forget(&mut self, stack: &mut Stack, token: Token) {
        if let Some(line) = self.lines.remove(token) {
            stack.set_user(line.flow, NOBODY);
            stack.close_and_forget(line.flow);
        }
    }

    fn accepted(&mut self, stack: &mut Stack, flow: FlowId) {
        let counters = self.tools.service.counters();
        counters.accepted.add(1);
        counters.open.add(1);
        let token = self.lines.insert(Line {
            flow,
            connection: Some(Connection::new()),
            held: Held::default(),
            is_listed: false,
        });
        stack.set_user(flow, token.number());
    }
}

impl App for Desk {
    fn pull(&mut self, _: FlowId, user: u32, offset: u64, into: &mut [u8]) {
        if let Some(line) = self.lines.at(user) {
            let content = &self.tools.service.content;
            line.held.pull(content, offset, into);
        }
    }

    fn received(&mut self, stack: &mut Stack, _: FlowId, user: u32, bytes: &[u8]) {
        let Some(token) = self.lines.token_at(user) else {
            return;
        };
        if let Some(line) = self.lines.get_mut(token)
            && let Some(connection) = &mut line.connection
        {
            connection.note(true, false);
            self.turn(stack, token, bytes);
        }
    }

    fn event(&mut self, stack: &mut Stack, flow: FlowId, user: u32, event: Event) {
        if event == Event::Accepted {
            return self.accepted(stack, flow);
        }
        let Some(token) = self.lines.token_at(user) else {
            return;
        };
        let Some(line) = self.lines.get_mut(token) else {
            return;
        };
        match event {
            Event::Acked { offset } => {
                line.held.acknowledged(offset, &mut self.spare);
                if line.connection.is_none() && line.held.is_acknowledged() {
                    self.forget(stack, token);
                } else if line.held.was_refused {
                    self.turn(stack, token, &[]);
                }
            }
            Event::PeerClosed => {
                line.held.peer_closed = true;
                if let Some(connection) = &mut line.connection {
                    connection.note(false, true);
                    self.turn(stack, token, &[]);
                }
            }
            Event::Ended(_) => {
                if self
                    .lines
                    .remove(token)
                    .is_some_and(|it| it.connection.is_some())
                {
                    self.tools.service.counters().open.subtract(1);
                }
            }
            Event::Accepted | Event::Connected => {}
        }
    }
}
