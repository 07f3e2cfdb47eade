//! `prony check`: the host as it is, held against what is advised.
//!
//! In the flow: `monitor` reads and looks, `analysis` judges, `report` shows; nothing is changed. The surprise:
//! a difference is no failure. Only `--strict` makes one of it, for scripts.

use crate::cli::CheckArgs;
use crate::exit::{Exit, Failure};
use crate::terminal;
use analysis::advice::{WORKLOADS, advise};
use linux::Root;
use monitor::environment;
use plan::near_miss;
use std::time::Duration;

/// How long the host is looked at.
const LOOK: Duration = Duration::from_secs(1);

/// Runs the verb.
///
/// # Errors
/// [`Failure`] when there is no such workload, or nothing of the host can be read.
pub fn run(args: &CheckArgs) -> Result<Exit, Failure> {
    let workload = args.workload.as_deref();
    if let Some(name) = workload.filter(|name| !WORKLOADS.contains(name)) {
        let near = near_miss(name, WORKLOADS)
            .map_or_else(String::new, |near| format!("; did you mean `{near}`?"));
        return Err(Failure::new(
            Exit::Usage,
            format!("there is no workload `{name}`{near}"),
            format!("known workloads: {}", WORKLOADS.join(", ")),
        ));
    }
    super::recover();
    let root = args.root.as_ref().map_or_else(Root::default, Root::new);
    let mut items = environment::collect(&root);
    if items.iter().all(|item| item.value.is_none()) {
        let why = items.iter().find_map(|item| item.reason.clone());
        return Err(Failure::new(
            Exit::Environment,
            format!(
                "nothing of this host can be read: {}",
                why.unwrap_or_default()
            ),
            "mount /proc and /sys: prony can neither watch nor start a server without them",
        ));
    }
    items.extend(environment::look(&root, LOOK));
    items.extend(environment::abilities(&root));
    let document = report::check::document(advise(&items, workload), workload);
    if args.json {
        terminal::result(&super::to_json(&document))?;
    } else {
        terminal::result(&report::check::text(&document, terminal::style()))?;
    }
    Ok(match document.summary.differs {
        n if n > 0 && args.strict => Exit::Failed,
        _ => Exit::Valid,
    })
}
