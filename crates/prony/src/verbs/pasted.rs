//! `prony diagnose --from FILE ...`: a diagnosis of what other tools printed.

use crate::cli::DiagnoseArgs;
use crate::exit::{Exit, Failure};
use crate::terminal;

/// What is looked for in a file.
const KNOWN: &str = "give the output of a load generator (wrk, wrk2, ab, hey, h2load, oha, k6, vegeta, siege, JMeter, \
     locust, Gatling, ...), strace -c or -T, vmstat, top, iotop, iostat, mpstat, sar, pidstat, ss, netstat, nstat, \
     conntrack -S, sysctl, /proc/interrupts, perf, pprof, folded stacks, a dump of threads, tcpdump, curl -w or -I, a \
     database's slow log or list of processes, redis' SLOWLOG or INFO, HAProxy's show info or show profiling, \
     stub_status, an access, error or GC log, or a bpftrace histogram";

/// Runs the verb on files.
///
/// # Errors
/// [`Failure`] when a file cannot be read or nothing in it is known.
pub fn run(args: &DiagnoseArgs) -> Result<Exit, Failure> {
    let texts: Result<Vec<(String, String)>, Failure> = args
        .from
        .iter()
        .map(|path| {
            let bytes = std::fs::read(path).map_err(|e| {
                Failure::new(
                    Exit::Usage,
                    format!("reading `{}`: {e}", path.display()),
                    KNOWN,
                )
            })?;
            let text = String::from_utf8_lossy(&bytes).into_owned();
            Ok((path.display().to_string(), text))
        })
        .collect();
    let pasted = import::read_pasted(&texts?);
    if pasted.is_empty() {
        return Err(Failure::new(
            Exit::Usage,
            "nothing in these files is the output of a tool that prony knows",
            KNOWN,
        ));
    }
    let diagnosis = analysis::diagnose_pasted(&pasted);
    if args.json {
        let document = report::json::diagnose_document(None, None, &diagnosis, Default::default());
        terminal::result(&super::to_json(&document))?;
    } else {
        terminal::note(&format!("read: {}", pasted.contents().join(", ")));
        let text = report::text::diagnosis_text(&diagnosis, None, terminal::style());
        terminal::result(&text)?;
    }
    let told = diagnosis.findings.iter().any(|f| f.cause != "unknown");
    Ok(if told { Exit::Valid } else { Exit::Invalid })
}
