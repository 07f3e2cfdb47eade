//! NaviServer: one process whose driver threads share a port by SO_REUSEPORT. It logs to standard error in the
//! foreground, and cannot check a configuration, so a refusal is read from its last words.

use super::{Adapter, Job, asked, is_root, lines};
use crate::error::TargetError;
use crate::installed;
use crate::server::{Refusal, Server};
use std::path::Path;

/// Where it is installed when it is not on the `PATH`.
const PROGRAMS: [&str; 4] = [
    "nsd",
    "/usr/local/ns/bin/nsd",
    "/opt/naviserver/bin/nsd",
    "/usr/lib/naviserver/bin/nsd",
];

pub(super) const ADAPTER: Adapter = Adapter {
    program: |target| installed::program(target, &PROGRAMS),
    values: |program| {
        let home = Path::new(program).parent().and_then(Path::parent);
        let home = home.unwrap_or(Path::new("/usr/local/ns"));
        vec![("home", home.display().to_string())]
    },
    prepare,
};

fn prepare(program: &str, job: &Job<'_>) -> Result<Server, TargetError> {
    let path = job.write("nsd.tcl")?;
    let mut argv = vec![
        program.to_owned(),
        "-f".to_owned(),
        "-t".to_owned(),
        path.display().to_string(),
    ];
    if is_root() {
        // It refuses to be root by default, and the working directory is root's.
        argv.extend(["-u", "root", "-g", "root"].map(str::to_owned));
    }
    Ok(Server {
        kind: "naviserver".to_owned(),
        version: lines(&asked(program, &["-V"]), |l| l.starts_with("NaviServer/")),
        argv,
        configuration: [("nsd.tcl".to_owned(), job.text.to_owned())].into(),
        refusal: Some(Refusal {
            path,
            places: job.places.clone(),
            marks: &["Error: ", "Fatal: ", "(file \""],
        }),
        ..Server::default()
    })
}
