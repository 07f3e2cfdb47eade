//! `prony weighttp`: a new connection for each request unless `-k`, and no latency unless the flags are those of 0.5.
//!
//! Versions 0.3 and 0.4 print lines, 0.5 prints JSON. Which is meant is told by the flags: one that only 0.5 has asks
//! for its JSON.

use super::getopt::{self, Read};
use super::{basic, header, host_of, load, misused, number, refused};
use crate::exit::{Exit, Failure};
use crate::terminal;
use record::{Body, LoadSpec, Nanos};
use report::dropin::weighttp;
use std::path::PathBuf;
use url::Url;

const TOOL: &str = "weighttp";
const FAILED: u8 = 1;
const LETTERS: &str = "hVvikqdlr6FSa:m:n:t:c:b:e:p:s:u:A:B:C:H:K:P:T:X:";
/// Flags that 0.4 does not have.
const NEW: &str = "iqdlrFSambepsuABCKPTX";

#[derive(Debug)]
struct Asked {
    spec: LoadSpec,
    json: bool,
    extended: bool,
    csv: Option<PathBuf>,
}

/// Runs the verb.
///
/// # Errors
/// [`Failure`] with weighttp's exit code, or with 2 for a flag that prony cannot honour.
pub fn run(args: &[String]) -> Result<Exit, Failure> {
    let read = getopt::read(args, &getopt::flags(LETTERS, &[]));
    let read = read.map_err(|why| misused(TOOL, FAILED, &why))?;
    if read
        .0
        .iter()
        .any(|(letter, _)| matches!(letter, 'V' | 'v' | 'h'))
    {
        let name = format!(
            "prony {}, in the layout of {TOOL}",
            env!("CARGO_PKG_VERSION")
        );
        terminal::result(&name)?;
        return Ok(Exit::Valid);
    }
    let asked = understand(&read)?;
    let measured = load(&asked.spec)?;
    let outcome = &measured.outcome;
    let threads = asked.spec.threads.unwrap_or(1);
    terminal::result(&match asked.json {
        true => weighttp::json(outcome, asked.extended),
        false => weighttp::text(&asked.spec, outcome, threads),
    })?;
    match asked.csv.as_deref() {
        Some(path) if path.as_os_str() == "-" => terminal::result(&weighttp::csv(outcome))?,
        Some(path) => crate::verbs::write_file(path, &weighttp::csv(outcome))?,
        None => {}
    }
    Ok(Exit::Valid)
}

fn understand((flags, operands): &Read) -> Result<Asked, Failure> {
    let misuse = |why: &str| misused(TOOL, FAILED, why);
    let [address] = operands.as_slice() else {
        return Err(misuse("missing url argument"));
    };
    let with_scheme = match address.contains("://") {
        true => address.clone(),
        false => format!("http://{address}"),
    };
    let url = Url::parse(&with_scheme).map_err(|e| misuse(&format!("{address}: {e}")))?;
    let mut spec = LoadSpec::new(url.as_str());
    spec.connections = 1;
    spec.threads = Some(1);
    spec.duration = None;
    spec.requests = None;
    spec.requests_per_connection = Some(1);
    spec.timeout = Nanos::from_secs(4);
    spec.habits.connect_counts = true;
    let mut asked = Asked {
        spec,
        json: flags.iter().any(|(letter, _)| NEW.contains(*letter)),
        extended: true,
        csv: None,
    };
    let mut content_type = None;
    let mut keep_alive = false;
    let mut given = Vec::new();
    for (letter, value) in flags {
        let name = format!("-{letter}");
        let count = || number::<u64>(TOOL, FAILED, &name, value);
        let Asked { spec, .. } = &mut asked;
        match letter {
            'n' => spec.requests = Some(count()?),
            'c' => spec.connections = number(TOOL, FAILED, &name, value)?,
            't' => spec.threads = Some(number(TOOL, FAILED, &name, value)?),
            'a' => spec.duration = Some(Nanos::from_secs(count()?)),
            's' => spec.timeout = Nanos::from_secs(count()?),
            'k' => keep_alive = true,
            'K' => (keep_alive, spec.pipeline) = (true, number(TOOL, FAILED, &name, value)?),
            'i' => "HEAD".clone_into(&mut spec.method),
            'm' => spec.method.clone_from(value),
            'p' | 'u' => {
                spec.body = Body::File(value.clone());
                let method = if *letter == 'p' { "POST" } else { "PUT" };
                method.clone_into(&mut spec.method);
            }
            'T' => content_type = Some(value.clone()),
            'H' => given.push(header(TOOL, FAILED, value)?),
            'C' => given.push(("Cookie".to_owned(), value.clone())),
            'A' => given.push(("Authorization".to_owned(), basic(value))),
            'B' => {
                let bad = |_| misuse(&format!("`{value}` is no address for -B"));
                spec.source = vec![value.parse().map_err(bad)?];
            }
            'd' => asked.extended = false,
            'e' => asked.csv = Some(value.into()),
            // -q is about progress, -S about a remark, and -l and -r do nothing there either.
            'q' | 'S' | 'l' | 'r' => {}
            _ => return Err(not_taken(*letter)),
        }
    }
    let Asked { spec, .. } = &mut asked;
    if spec.requests.unwrap_or(0) == 0 {
        return Err(misuse("number of requests has to be > 0 (-n)"));
    }
    if spec.threads > Some(spec.connections) || spec.threads == Some(0) {
        return Err(misuse(
            "thread count has to be from 1 to the number of clients (-t, -c)",
        ));
    }
    if keep_alive {
        spec.requests_per_connection = None;
    }
    let kept = if keep_alive { "keep-alive" } else { "close" };
    let own = [
        ("Host", Some(host_of(&url))),
        ("User-Agent", Some("weighttp/0.4".to_owned())),
        ("Connection", Some(kept.to_owned())),
        ("Content-Type", content_type),
    ];
    let is_given = |name: &str| {
        given
            .iter()
            .any(|(n, _): &(String, String)| n.eq_ignore_ascii_case(name))
    };
    let own = own.into_iter().filter(|(name, _)| !is_given(name));
    let own = own.filter_map(|(name, value)| Some((name.to_owned(), value?)));
    spec.headers = own.collect();
    spec.headers.extend(given);
    Ok(asked)
}

fn not_taken(letter: char) -> Failure {
    let (why, remedy) = match letter {
        '6' => (
            "the family follows from the address",
            "give an IPv6 address: http://[::1]:8080/",
        ),
        'X' | 'P' => (
            "the load goes to the server itself",
            "load the proxy's own address, with -H 'Host: NAME' where it needs one",
        ),
        'b' => (
            "the size of the socket buffers is left to the kernel",
            "set net.ipv4.tcp_rmem and tcp_wmem for the test, for example with `prony tune`",
        ),
        _ => (
            "connections are opened by a handshake",
            "leave the flag out",
        ),
    };
    refused(TOOL, &format!("-{letter}"), why, remedy)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(line: &str) -> Result<Asked, Failure> {
        let args: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        understand(&getopt::read(&args, &getopt::flags(LETTERS, &[])).unwrap())
    }

    #[test]
    fn the_flags_tell_the_version() {
        let old = asked("-n 100 -c 10 -t 2 -k http://h/").unwrap();
        assert!(!old.json && old.spec.requests_per_connection.is_none());
        let new = asked("-n 100 -q http://h/").unwrap();
        assert!(new.json && new.spec.requests_per_connection == Some(1));
        assert_eq!(new.spec.timeout, Nanos::from_secs(4));
        assert_eq!(asked("-n 9 -K 4 h").unwrap().spec.pipeline, 4);
    }

    #[test]
    fn what_cannot_be_honoured_is_refused() {
        for (line, code, says) in [
            ("-n 1 -F http://h/", 2, "-F"),
            ("-n 1 -6 http://h/", 2, "-6"),
            ("-n 1 -X p http://h/", 2, "-X"),
            ("http://h/", 1, "-n"),
            ("-n 1 -t 2 http://h/", 1, "-t"),
            ("-n 1", 1, "url"),
        ] {
            let failure = asked(line).unwrap_err();
            assert_eq!(failure.exit.code(), code, "{line}");
            assert!(
                failure.message.contains(says),
                "{line}: {}",
                failure.message
            );
        }
    }
}
