//! `prony origin`: the built-in server in the foreground until Ctrl-C.

use crate::cli::OriginArgs;
use crate::exit::{Exit, Failure};
use crate::interrupt::Interrupt;
use crate::{host, terminal};
use record::Warning;
use traffic::origin::{Delay, Freeze, Origin, OriginSpec};

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
        "serving on http://{} with {} thread(s); Ctrl-C ends it",
        origin.address(),
        spec.threads
    ));
    interrupt.wait();
    let stats = origin.stats();
    origin.stop();
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
    Ok(Exit::Valid)
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
    })
}
