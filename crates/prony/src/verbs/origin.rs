//! `prony origin`: the built-in server in the foreground until Ctrl-C.

use crate::cli::OriginArgs;
use crate::exit::{Exit, Failure};
use crate::interrupt::Interrupt;
use crate::{host, terminal};
use record::{Carrier, Warning};
use traffic::origin::{Delay, Freeze, Origin, OriginSpec};
use traffic::user_space::{AddressRange, Attachment, Words};

/// Runs the verb.
///
/// # Errors
/// [`Failure`] when the flags make no sense or the address cannot be had.
pub fn run(args: &OriginArgs) -> Result<Exit, Failure> {
    let spec = spec(args)?;
    host::check_cpus(&spec.cpus, "the origin's threads")?;
    let interrupt = Interrupt::install()?;
    let origin = Origin::start(&spec)
        .map_err(|e| Failure::new(Exit::Environment, e.to_string(), e.remedy()))?;
    terminal::note(&format!(
        "serving on http://{} with {}; Ctrl-C ends it",
        origin.address(),
        spec.attachment
            .as_ref()
            .map_or_else(|| format!("{} thread(s)", spec.threads), whose_tcp),
    ));
    let gone = interrupt.wait_unless(|| origin.gone());
    let stats = origin.stop();
    if args.json {
        terminal::result(&super::to_json(&stats))?;
    } else {
        terminal::note(&format!(
            "served {} requests on {} connections",
            stats.total.requests, stats.total.accepted
        ));
    }
    if stats.total.accept_errors > 0 {
        terminal::warning(&Warning::new(
            "accept_errors",
            format!(
                "{} connections could not be accepted",
                stats.total.accept_errors
            ),
            "raise the limit of open files (ulimit -n)",
        ));
    }
    gone.map_or(Ok(Exit::Valid), |cause| {
        Err(Failure::new(
            Exit::Environment,
            format!("the device has gone: {cause}"),
            "see whether the interface is still there and up (`ip link`)",
        ))
    })
}

/// Whose TCP, and where else it answers.
fn whose_tcp(attachment: &Attachment) -> String {
    let ranges: Vec<String> = attachment
        .addresses
        .iter()
        .map(ToString::to_string)
        .collect();
    format!(
        "a TCP of its own over {} on {}, for {}",
        attachment.transport.name(),
        attachment.interface,
        ranges.join(", ")
    )
}

/// The device and the addresses; none for the kernel's TCP.
fn attachment(args: &OriginArgs) -> Option<Attachment> {
    if args.transport == Carrier::Kernel {
        return None;
    }
    let mut addresses = args.address.clone();
    let listen = args.listen.ip();
    if addresses.is_empty() && !listen.is_loopback() && !listen.is_unspecified() {
        addresses.extend(AddressRange::new(listen, listen));
    }
    Some(Attachment {
        transport: args.transport,
        interface: args.interface.clone().unwrap_or_default(),
        addresses,
        networks: args.network.clone(),
        gateways: args.gateway.clone(),
        targets: Vec::new(),
        coalesce: args.coalesce,
        words: Words {
            interface: "--interface",
            addresses: "--address",
            transport: "--transport",
        },
    })
}

fn spec(args: &OriginArgs) -> Result<OriginSpec, Failure> {
    let usage = |e: String| Failure::new(Exit::Usage, e, "see `prony origin --help`");
    Ok(OriginSpec {
        listen: args.listen,
        threads: args.threads,
        cpus: args.cpus.clone().map(|c| c.0).unwrap_or_default(),
        body: args.body,
        files: args.files.clone(),
        delay: args
            .delay
            .as_deref()
            .map(|text| text.parse::<Delay>().map_err(|e| usage(e.to_string())))
            .transpose()?,
        freeze: args
            .freeze
            .as_deref()
            .map(|text| text.parse::<Freeze>().map_err(|e| usage(e.to_string())))
            .transpose()?,
        close_after: args.close_after,
        attachment: attachment(args),
        initial_window: None,
    })
}
