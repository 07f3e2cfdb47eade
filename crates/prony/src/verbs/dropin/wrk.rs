//! `prony wrk` and `prony wrk2`: keep-alive over HTTP/1.1, 10 connections, 2 threads, 10 s; wrk2 always at a rate.

use super::getopt::{self, Read};
use super::{header, load, misused, refused, unreachable, unresolved};
use crate::exit::{Exit, Failure};
use crate::terminal;
use plan::typed::{self, Misfit};
use record::{Arrival, LoadSpec};
use report::dropin::wrk::{self, Options};

/// What wrk exits with when it does not understand, or finds no server.
const FAILED: u8 = 1;
const LETTERS: &str = "t:c:d:s:H:LT:vh";
const LETTERS_2: &str = "t:c:d:s:H:LUBT:R:vh";
const LONG: [(char, &str); 10] = [
    ('t', "threads"),
    ('c', "connections"),
    ('d', "duration"),
    ('s', "script"),
    ('H', "header"),
    ('L', "latency"),
    ('T', "timeout"),
    ('R', "rate"),
    ('U', "u_latency"),
    ('v', "version"),
];

/// `prony wrk`.
///
/// # Errors
/// [`Failure`] with wrk's exit code, or with 2 for a flag that prony cannot honour.
pub fn run(args: &[String]) -> Result<Exit, Failure> {
    whole(args, false)
}

/// `prony wrk2`.
///
/// # Errors
/// As [`run`].
pub fn run_2(args: &[String]) -> Result<Exit, Failure> {
    whole(args, true)
}

fn whole(args: &[String], wrk2: bool) -> Result<Exit, Failure> {
    let tool = if wrk2 { "wrk2" } else { "wrk" };
    let letters = if wrk2 { LETTERS_2 } else { LETTERS };
    let read = getopt::read(args, &getopt::flags(letters, &LONG));
    let read = read.map_err(|why| misused(tool, FAILED, &why))?;
    if read.0.iter().any(|(letter, _)| matches!(letter, 'v' | 'h')) {
        let name = format!(
            "prony {}, in the layout of {tool}",
            env!("CARGO_PKG_VERSION")
        );
        terminal::result(&name)?;
        return Ok(Exit::Tool(FAILED));
    }
    let (spec, options) = understand(tool, &read)?;
    let measured = load(&spec).map_err(|e| unresolved(e, FAILED))?;
    if let Some((_, words)) = unreachable(&measured) {
        terminal::truth(&format!("unable to connect to {} {words}", spec.url));
        return Ok(Exit::Tool(FAILED));
    }
    let threads = spec.threads.unwrap_or(1);
    terminal::result(&wrk::text(&spec, &measured.outcome, threads, options))?;
    Ok(Exit::Valid)
}

fn understand(tool: &str, (flags, operands): &Read) -> Result<(LoadSpec, Options), Failure> {
    let misuse = |why: &str| misused(tool, FAILED, why);
    let [url] = operands.as_slice() else {
        return Err(misuse("give one URL"));
    };
    if !url.contains("://") {
        return Err(misuse(&format!("invalid URL: {url}")));
    }
    let wrk2 = tool == "wrk2";
    let mut spec = LoadSpec::new(url);
    spec.threads = Some(2);
    // It does not verify certificates.
    spec.insecure = true;
    let mut options = Options {
        wrk2,
        ..Options::default()
    };
    let mut rate = None;
    for (letter, value) in flags {
        let bad = |e: Misfit| misuse(&format!("-{letter} {value} {e}"));
        match letter {
            't' => spec.threads = Some(typed::count32(value, 1).map_err(bad)?),
            'c' => spec.connections = typed::count32(value, 1).map_err(bad)?,
            'd' => spec.duration = Some(typed::duration_above_zero(value).map_err(bad)?),
            'T' => spec.timeout = typed::duration_above_zero(value).map_err(bad)?,
            'H' => spec.headers.push(header(tool, FAILED, value)?),
            'L' => options.latency = true,
            'U' => (options.latency, options.uncorrected) = (true, true),
            'R' => rate = Some(typed::count(value, 1).map_err(bad)? as f64),
            's' => {
                return Err(refused(
                    tool,
                    &format!("-s {value}"),
                    "there is no Lua",
                    "method, headers and body are flags of `prony load` (-m, -H, --body)",
                ));
            }
            _ => {
                return Err(refused(
                    tool,
                    &format!("-{letter}"),
                    "a response has one time, with or without the others of its batch",
                    "leave the flag out",
                ));
            }
        }
    }
    match (wrk2, rate) {
        (true, None) => {
            return Err(misuse(
                "Throughput MUST be specified with the --rate or -R option",
            ));
        }
        (true, Some(per_s)) => spec.arrival = Arrival::Constant { per_s },
        (false, _) => {}
    }
    if spec.threads > Some(spec.connections) {
        return Err(misuse("number of connections must be >= threads"));
    }
    Ok((spec, options))
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::Nanos;

    fn asked(tool: &str, line: &str) -> Result<(LoadSpec, Options), Failure> {
        let args: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        let letters = if tool == "wrk2" { LETTERS_2 } else { LETTERS };
        understand(
            tool,
            &getopt::read(&args, &getopt::flags(letters, &LONG)).unwrap(),
        )
    }

    #[test]
    fn defaults_and_suffixes_are_wrks() {
        let (spec, options) = asked("wrk", "http://h/").unwrap();
        assert_eq!((spec.connections, spec.threads), (10, Some(2)));
        assert_eq!(
            (spec.duration, spec.timeout),
            (Some(Nanos::from_secs(10)), Nanos::from_secs(2))
        );
        assert!(!options.latency && spec.arrival == Arrival::Closed);
        let (spec, options) =
            asked("wrk", "-t4 -c1k -d 1m --latency --timeout 5s http://h/").unwrap();
        assert_eq!((spec.connections, spec.threads), (1_000, Some(4)));
        assert_eq!(spec.duration, Some(Nanos::from_secs(60)));
        assert_eq!(spec.timeout, Nanos::from_secs(5));
        assert!(options.latency);
        let (spec, options) = asked("wrk2", "-R 20k -U http://h/").unwrap();
        assert_eq!(spec.arrival, Arrival::Constant { per_s: 20_000.0 });
        assert!(options.wrk2 && options.latency && options.uncorrected);
    }

    #[test]
    fn what_cannot_be_honoured_is_refused() {
        for (tool, line, code, says) in [
            ("wrk", "-s x.lua http://h/", 2, "-s x.lua"),
            ("wrk2", "-R 1 -B http://h/", 2, "-B"),
            ("wrk2", "http://h/", 1, "--rate"),
            (
                "wrk",
                "-c1 -t2 http://h/",
                1,
                "connections must be >= threads",
            ),
            ("wrk", "", 1, "one URL"),
            ("wrk", "h", 1, "invalid URL"),
            ("wrk", "-d soon http://h/", 1, "-d soon"),
        ] {
            let failure = asked(tool, line).unwrap_err();
            assert_eq!(failure.exit.code(), code, "{line}");
            assert!(
                failure.message.contains(says),
                "{line}: {}",
                failure.message
            );
        }
    }
}
