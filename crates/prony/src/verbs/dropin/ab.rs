//! `prony ab`: HTTP/1.0, a connection for each request unless `-k`, one thread, as ApacheBench does it.

use super::getopt::{self, Read};
use super::{basic, header, host_of, load, misused, number, refused, unreachable, unresolved};
use crate::exit::{Exit, Failure};
use crate::terminal;
use crate::verbs::load::{Measured, wall_time};
use record::{Body, FailureKind, Habits, LoadSpec, Nanos};
use report::dropin::ab::{self, Options};
use std::path::PathBuf;
use traffic::Load;
use url::Url;

const TOOL: &str = "ab";
/// `EINVAL`: what it does not understand.
const MISUSE: u8 = 22;
/// Requests when only a time is given.
const UNTIL_TIME: u64 = 50_000;
const LETTERS: &str = "n:c:t:b:T:p:u:v:lrkVhwiIx:y:z:C:H:P:A:g:X:de:SqB:m:Z:f:E:s:";
/// Errors of connections by what the system calls them: the exit code, and the words of `strerror`.
const ERRORS: [(FailureKind, u8, &str); 6] = [
    (FailureKind::ConnectRefused, 111, "Connection refused (111)"),
    (
        FailureKind::ConnectTimeout,
        119,
        "The timeout specified has expired (70007)",
    ),
    (FailureKind::ConnectFailed, 113, "No route to host (113)"),
    (FailureKind::Reset, 104, "Connection reset by peer (104)"),
    (
        FailureKind::Timeout,
        119,
        "The timeout specified has expired (70007)",
    ),
    (
        FailureKind::ClosedEarly,
        104,
        "Connection reset by peer (104)",
    ),
];

/// A command line of ab, understood.
#[derive(Debug)]
struct Asked {
    spec: LoadSpec,
    options: Options,
    goes_on: bool,
    csv: Option<PathBuf>,
    gnuplot: Option<PathBuf>,
    verbose: bool,
}

/// Runs the verb.
///
/// # Errors
/// [`Failure`] with ab's exit code, or with 2 for a flag that prony cannot honour.
pub fn run(args: &[String]) -> Result<Exit, Failure> {
    let read = getopt::read(args, &getopt::flags(LETTERS, &[]));
    let read = read.map_err(|why| misused(TOOL, MISUSE, &why))?;
    if read.0.iter().any(|(letter, _)| matches!(letter, 'V' | 'h')) {
        let name = format!(
            "prony {}, in the layout of ApacheBench, Version 2.3",
            env!("CARGO_PKG_VERSION")
        );
        terminal::result(&name)?;
        return Ok(Exit::Valid);
    }
    let asked = understand(&read)?;
    let measured = load(&asked.spec).map_err(|e| unresolved(e, 50))?;
    if asked.verbose {
        let load = Load::prepare(&asked.spec).map_err(|e| crate::verbs::load_failure(&e))?;
        let request = String::from_utf8_lossy(load.request());
        terminal::result(&format!(
            "INFO: {} header == \n---\n{request}\n---",
            asked.spec.method
        ))?;
    }
    if unreachable(&measured).is_none() {
        terminal::result(&ab::text(&asked.spec, &measured.outcome, &asked.options))?;
        write_files(&asked, &measured)?;
    }
    Ok(exit(&asked, &measured))
}

fn exit(asked: &Asked, measured: &Measured) -> Exit {
    let outcome = &measured.outcome;
    let first = ERRORS
        .iter()
        .find(|(kind, ..)| outcome.requests.failed.contains_key(kind));
    match first {
        _ if outcome.interrupted => Exit::Tool(1),
        Some((_, code, words)) if !asked.goes_on => {
            terminal::truth(&format!("apr_socket_recv: {words}"));
            Exit::Tool(*code)
        }
        _ => Exit::Valid,
    }
}

fn write_files(asked: &Asked, measured: &Measured) -> Result<(), Failure> {
    let outcome = &measured.outcome;
    if let Some(path) = &asked.csv {
        crate::verbs::write_file(path, &ab::csv(outcome))?;
    }
    if let Some(path) = &asked.gnuplot {
        let origin = wall_time(outcome).from;
        let date = |at: Nanos| {
            let ns = i128::from(origin) + i128::from(at.0) - i128::from(outcome.measured_from.0);
            let moment = jiff::Timestamp::from_nanosecond(ns).unwrap_or_default();
            let local = moment.to_zoned(jiff::tz::TimeZone::system());
            let text = local.strftime("%a %b %d %H:%M:%S %Y").to_string();
            (text, moment.as_second())
        };
        crate::verbs::write_file(path, &ab::gnuplot(&outcome.log, &date))?;
    }
    Ok(())
}

/// The method of the request, of the flags that may set it.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Method {
    Get,
    Head,
    Named(String),
}

fn understand((flags, operands): &Read) -> Result<Asked, Failure> {
    let misuse = |why: &str| misused(TOOL, MISUSE, why);
    let [address] = operands.as_slice() else {
        return Err(misuse("wrong number of arguments"));
    };
    let with_scheme = match address.contains("://") {
        true => address.clone(),
        false => format!("http://{address}"),
    };
    let has_path = with_scheme.splitn(4, '/').count() == 4;
    let url = Url::parse(&with_scheme).ok().filter(|_| has_path);
    let url = url.ok_or_else(|| misuse("invalid URL"))?;
    let mut spec = LoadSpec::new(url.as_str());
    spec.connections = 1;
    spec.threads = Some(1);
    spec.duration = None;
    spec.requests = Some(1);
    spec.timeout = Nanos::from_secs(30);
    spec.insecure = true;
    spec.requests_per_connection = Some(1);
    spec.habits = Habits {
        http_1_0: true,
        connect_counts: true,
        log_requests: 0,
    };
    let mut asked = Asked {
        spec,
        options: Options {
            host: url.host_str().unwrap_or_default().to_owned(),
            port: url.port_or_known_default().unwrap_or(80),
            path: url[url::Position::BeforePath..url::Position::AfterQuery].to_owned(),
            ..Options::default()
        },
        goes_on: false,
        csv: None,
        gnuplot: None,
        verbose: false,
    };
    let mut request = Request::default();
    for (letter, value) in flags {
        flag(&mut asked, &mut request, *letter, value)?;
    }
    if u64::from(asked.spec.connections) > asked.spec.requests.unwrap_or(0) {
        return Err(misuse(
            "Cannot use concurrency level greater than total number of requests",
        ));
    }
    if asked.gnuplot.is_some() {
        asked.spec.habits.log_requests = asked.spec.requests.unwrap_or(UNTIL_TIME);
    }
    request.finish(&url, &mut asked);
    Ok(asked)
}

/// What the flags say of the request.
#[derive(Debug)]
struct Request {
    method: Method,
    content_type: String,
    headers: Vec<(String, String)>,
}

impl Default for Request {
    fn default() -> Self {
        Request {
            method: Method::Get,
            content_type: "text/plain".to_owned(),
            headers: Vec::new(),
        }
    }
}

impl Request {
    /// The header lines in ab's order; those of `-H` replace ab's own of the same name.
    fn finish(self, url: &Url, asked: &mut Asked) {
        let spec = &mut asked.spec;
        let given = |name: &str| {
            self.headers
                .iter()
                .any(|(n, _)| n.eq_ignore_ascii_case(name))
        };
        let mut own = Vec::new();
        if asked.options.keep_alive {
            own.push(("Connection", "Keep-Alive".to_owned()));
        }
        if spec.body != Body::None {
            own.push(("Content-type", self.content_type));
        }
        own.push(("Host", host_of(url)));
        own.push(("User-Agent", "ApacheBench/2.3".to_owned()));
        own.push(("Accept", "*/*".to_owned()));
        let own = own.into_iter().filter(|(name, _)| !given(name));
        let own: Vec<_> = own.map(|(name, value)| (name.to_owned(), value)).collect();
        spec.headers = own.into_iter().chain(self.headers).collect();
        spec.method = match self.method {
            Method::Named(name) => name,
            Method::Head => "HEAD".to_owned(),
            Method::Get => "GET".to_owned(),
        };
    }
}

/// One flag. `-t` and `-n` mean what they mean in their order: a time implies 50,000 requests until a number is given.
fn flag(
    asked: &mut Asked,
    request: &mut Request,
    letter: char,
    value: &str,
) -> Result<(), Failure> {
    let name = format!("-{letter}");
    let count = |least: u64| {
        let n: u64 = number(TOOL, MISUSE, &name, value)?;
        match n >= least {
            true => Ok(n),
            false => Err(misused(
                TOOL,
                MISUSE,
                &format!("Invalid number `{value}` for {name}"),
            )),
        }
    };
    let file = || Body::File(value.to_owned());
    let Asked { spec, options, .. } = asked;
    match letter {
        'n' => spec.requests = Some(count(1)?),
        'c' => spec.connections = u32::try_from(count(1)?).unwrap_or(u32::MAX),
        't' => {
            spec.duration = Some(Nanos::from_secs(count(1)?));
            spec.requests = Some(UNTIL_TIME);
        }
        's' => spec.timeout = Nanos::from_secs(count(1)?),
        'k' => {
            options.keep_alive = true;
            spec.requests_per_connection = None;
        }
        'i' => request.method = Method::Head,
        'm' => request.method = Method::Named(value.to_owned()),
        'p' => {
            spec.body = file();
            request.method = Method::Named("POST".to_owned());
        }
        'u' => {
            spec.body = file();
            request.method = Method::Named("PUT".to_owned());
        }
        'T' => value.clone_into(&mut request.content_type),
        'C' => request
            .headers
            .push(("Cookie".to_owned(), value.to_owned())),
        'A' => request
            .headers
            .push(("Authorization".to_owned(), basic(value))),
        'H' => request.headers.push(header(TOOL, MISUSE, value)?),
        'B' => {
            let source = value.parse();
            spec.source =
                vec![source.map_err(|_| {
                    misused(TOOL, MISUSE, &format!("`{value}` is no address for -B"))
                })?];
        }
        'l' => options.any_length = true,
        'd' => options.no_percentiles = true,
        'S' => options.no_confidence = true,
        'w' => drop(html(options)),
        'x' => value.clone_into(&mut html(options)[0]),
        'y' => value.clone_into(&mut html(options)[1]),
        'z' => value.clone_into(&mut html(options)[2]),
        'e' => asked.csv = Some(value.into()),
        'g' => asked.gnuplot = Some(value.into()),
        'r' => asked.goes_on = true,
        // Its progress is prony's, and that is only drawn on a terminal.
        'q' => {}
        'v' => asked.verbose = verbosity(count(0)?)?,
        'f' if value.eq_ignore_ascii_case("all") => {}
        _ => return Err(not_taken(letter)),
    }
    Ok(())
}

/// HTML is asked for by any of its flags.
fn html(options: &mut Options) -> &mut [String; 3] {
    let plain = || [String::new(), String::new(), "bgcolor=white".to_owned()];
    options.html.get_or_insert_with(plain)
}

/// 2 shows the request; from 3 on ab shows every response.
fn verbosity(level: u64) -> Result<bool, Failure> {
    match level {
        0 | 1 => Ok(false),
        2 => Ok(true),
        _ => Err(refused(
            TOOL,
            &format!("-v {level}"),
            "responses are counted and not kept",
            "look at one with `curl -v URL`; -v 2 shows the request",
        )),
    }
}

fn not_taken(letter: char) -> Failure {
    let (why, remedy) = match letter {
        'X' | 'P' => (
            "the load goes to the server itself",
            "load the proxy's own address, with -H 'Host: NAME' where it needs one",
        ),
        'b' => (
            "the size of the socket buffers is left to the kernel",
            "set net.ipv4.tcp_rmem and tcp_wmem for the test, for example with `prony tune`",
        ),
        'I' | 'Z' | 'f' | 'E' => (
            "TLS is 1.2 or 1.3 with the library's own choice of ciphers, with SNI and without a client certificate",
            "leave the flag out",
        ),
        _ => ("it is not known", "leave the flag out"),
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
    fn without_k_a_connection_carries_one_request_of_http_1_0() {
        let plain = asked("-n 100 -c10 http://h:8080/a?b").unwrap();
        assert_eq!(
            (plain.spec.requests, plain.spec.connections),
            (Some(100), 10)
        );
        assert_eq!(plain.spec.requests_per_connection, Some(1));
        assert!(plain.spec.habits.http_1_0 && plain.spec.duration.is_none());
        assert_eq!(
            (plain.options.port, plain.options.path.as_str()),
            (8080, "/a?b")
        );
        let names = |a: &Asked| {
            a.spec
                .headers
                .iter()
                .map(|h| h.0.clone())
                .collect::<Vec<_>>()
        };
        assert_eq!(names(&plain), ["Host", "User-Agent", "Accept"]);
        let kept = asked("-kn 100 h/").unwrap();
        assert_eq!(kept.spec.requests_per_connection, None);
        assert_eq!(names(&kept)[0], "Connection");
    }

    #[test]
    fn a_time_implies_fifty_thousand_requests_until_a_number_comes_behind_it() {
        let load = |line| asked(line).unwrap().spec;
        assert_eq!(load("-t 5 http://h/").requests, Some(50_000));
        assert_eq!(load("-n 10 -t 5 http://h/").requests, Some(50_000));
        assert_eq!(load("-t 5 -n 10 http://h/").requests, Some(10));
        assert_eq!(load("-t 5 http://h/").duration, Some(Nanos::from_secs(5)));
    }

    #[test]
    fn what_cannot_be_honoured_is_refused_by_name_and_what_ab_refuses_with_its_code() {
        for (line, code, says) in [
            ("-X proxy:3128 http://h/", 2, "-X"),
            ("-b 4096 http://h/", 2, "-b"),
            ("-Z AES http://h/", 2, "-Z"),
            ("-v 4 http://h/", 2, "-v 4"),
            ("-n 3 http://h", 22, "invalid URL"),
            ("-n 3 -c 4 http://h/", 22, "concurrency"),
            ("-n x http://h/", 22, "-n"),
            ("-n 3", 22, "number of arguments"),
        ] {
            let failure = asked(line).unwrap_err();
            assert_eq!(failure.exit.code(), code, "{line}");
            assert!(
                failure.message.contains(says),
                "{line}: {}",
                failure.message
            );
            assert!(!failure.remedy.is_empty(), "{line}");
        }
    }
}
