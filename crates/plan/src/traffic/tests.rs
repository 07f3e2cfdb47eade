//! Traffic files as people write them: short ones, every key, and what is wrong said with its place and the remedy.

use super::*;
use crate::traffic::pcap::made;
use record::Close;
use record::traffic::{Congestion, Data, Order, Protocol, Step};

const CLIENT: &str =
    "[client]\ntransport = \"tap\"\ninterface = \"tap0\"\naddresses = \"10.9.0.2-10.9.0.250\"\n";

fn read(path: &str) -> Result<Vec<u8>, String> {
    match path {
        "flow.pcap" => Ok(made::pcap(&[
            (0, true, 0, 0, "S", b""),
            (0, false, 0, 1, "SA", b""),
            (1, true, 1, 1, "A", b"ping"),
            (9, false, 1, 5, "A", b"pong"),
            (9, false, 5, 5, "FA", b""),
        ])),
        "half.pcap" => Ok(made::pcap(&[(0, true, 0, 0, "S", b"")])),
        "s.pem" => Ok(b"-----BEGIN CERTIFICATE-----\n".to_vec()),
        "s.key" => Ok(b"-----BEGIN PRIVATE KEY-----\n".to_vec()),
        _ => Err("No such file or directory".to_owned()),
    }
}

fn parse(text: &str) -> Result<TrafficSpec, PlanError> {
    TrafficFile::parse(text, "t.toml", &read).map(|file| file.spec)
}

/// The template of a file with one.
fn template(keys: &str) -> record::traffic::Template {
    let spec = parse(&format!("{CLIENT}[[template]]\n{keys}")).unwrap();
    spec.templates[0].clone()
}

#[test]
fn a_short_file_is_enough() {
    let text =
        format!("{CLIENT}[[template]]\ntarget = \"http://10.9.0.1/bytes/32KiB\"\nrate = \"2k\"\n");
    let spec = parse(&text).unwrap();
    let client = spec.client.unwrap();
    assert_eq!(
        (client.transport, client.interface.as_str()),
        (Carrier::Tap, "tap0")
    );
    assert_eq!(
        client.coalesce,
        Nanos(50_000),
        "the same as of `prony load`"
    );
    assert_eq!(spec.server, None);
    assert_eq!(
        (spec.duration, spec.drain),
        (Some(Nanos::from_secs(10)), Nanos::from_secs(1))
    );
    let page = &spec.templates[0];
    assert_eq!(
        (page.name.as_str(), page.pace),
        ("template1", Pace::Constant(2e3))
    );
    let Protocol::Http(http) = &page.protocol else {
        panic!("{page:?}");
    };
    assert_eq!((http.requests, http.response_bytes), (1, 32_768));
    assert_eq!(http.headers, [("Host".to_owned(), "10.9.0.1".to_owned())]);
}

#[test]
fn memory_needs_no_side_at_all() {
    let text = "transport = \"loopback\"\n[[template]]\ntarget = \"http://10.9.0.1/\"\ncount = 1000\nconcurrent = 8\n";
    let spec = parse(text).unwrap();
    let (client, server) = (spec.client.unwrap(), spec.server.unwrap());
    assert_eq!(client.addresses, ["10.9.0.2-10.9.0.250"]);
    assert_eq!(server.addresses, ["10.9.0.1"]);
    assert_eq!(
        (client.transport, server.coalesce),
        (Carrier::Loopback, Nanos(0))
    );
    assert_eq!(spec.duration, None, "it ends with its count");
}

#[test]
fn in_memory_a_thread_faces_a_thread() {
    const TEMPLATE: &str = "[[template]]\ntarget = \"http://10.9.0.1/\"\nconcurrent = 8\n";
    let of = |sides: &str| {
        let text = format!("transport = \"loopback\"\n{sides}{TEMPLATE}");
        parse(&text).map(|spec| (spec.client.unwrap().threads, spec.server.unwrap().threads))
    };
    assert_eq!(of("").unwrap(), (1, 1));
    assert_eq!(of("[client]\nthreads = 3\n").unwrap(), (3, 3));
    assert_eq!(of("[server]\nthreads = 2\n").unwrap(), (2, 2));
    let error = of("[client]\nthreads = 3\n[server]\nthreads = 2\n").unwrap_err();
    let text = format!("{error:?}");
    assert!(text.contains("faces one thread of the other"), "{text}");
    assert!(of("[client]\nthreads = 0\n").is_err());
}

#[test]
fn every_key_of_a_side() {
    let text = r#"
        question = "How many?"
        seed = 7
        ramp = "1s"
        [client]
        transport = "af_xdp"
        interface = "eth1"
        addresses = ["10.9.0.0/24", "fd00::2-fd00::9"]
        order = "random"
        ports = "2000-60000"
        gateway = "10.9.0.254"
        coalesce = "20us"
        threads = 3
        cpu = [1, 4]
        capture = "c.pcap"
        snap = 96
        [client.tcp]
        mss = 1400
        initial_window = 2
        receive_window = "64KiB"
        congestion = "new_reno"
        delayed_ack = "100ms"
        nagle = true
        sack = false
        timestamps = false
        window_scaling = false
        ecn = true
        rto_min = "200ms"
        time_wait = "1s"
        keep_alive = "30s"
        hop_limit = 32
        traffic_class = 8
        flows_max = "1M"
        [client.faults]
        loss = "1%"
        duplicate = 0.01
        reorder = "2%"
        corrupt = "0.1%"
        delay = "5ms"
        jitter = "1ms"
        rate = "100Mbit"
        [[template]]
        target = "tcp://10.10.0.1:80"
        steps = ["client 1"]
        rate = 1
    "#;
    let file = TrafficFile::parse(text, "t.toml", &read).unwrap();
    assert_eq!((file.question.as_str(), file.spec.seed), ("How many?", 7));
    let client = file.spec.client.unwrap();
    assert_eq!(
        (client.order, client.ports, client.cpu),
        (Order::Random, Some((2_000, 60_000)), Some(1))
    );
    assert_eq!((client.threads, client.cpus), (3, vec![1, 4]));
    let capture = client.capture.unwrap();
    assert_eq!((capture.path.as_str(), capture.snap_bytes), ("c.pcap", 96));
    let tcp = client.tcp;
    assert_eq!(
        (tcp.mss_bytes, tcp.receive_window_bytes, tcp.flows_max),
        (Some(1_400), Some(65_536), Some(1_000_000))
    );
    assert_eq!(
        (tcp.congestion, tcp.delayed_ack_ms, tcp.rto_min_ms),
        (Some(Congestion::NewReno), Some(100), Some(200))
    );
    // No key is read and forgotten.
    let values = serde_json::to_value(tcp).unwrap();
    assert!(
        values.as_object().unwrap().values().all(|v| !v.is_null()),
        "{values}"
    );
    let faults = client.faults.unwrap();
    assert_eq!(
        (faults.loss, faults.jitter, faults.rate_bits_per_s),
        (0.01, Nanos::from_millis(1), 100_000_000)
    );
}

#[test]
fn what_templates_carry() {
    let http = template(
        "target = [\"https://10.9.0.1:8443/a\", \"https://10.9.1.3/a\"]\nrate = 1\narrival = \"poisson\"\nmethod = \"POST\"\n\
         body = \"2k\"\nrequests = 9\nresponse = 77\nthink = \"1ms\"\nheaders = { Host = \"x\" }\nserver_name = \"x\"\n\
         certificate = \"s.pem\"\nkey = \"s.key\"\nclose = \"rst\"\ntimeout = \"1s\"\nconcurrent_max = 5\ncount = \"1k\"\n",
    );
    assert_eq!(
        (http.pace, http.close, http.timeout),
        (Pace::Poisson(1.0), Close::Rst, Nanos::from_secs(1))
    );
    assert_eq!(
        (http.concurrent_max, http.count, http.targets.len()),
        (Some(5), Some(1_000), 2)
    );
    let tls = http.tls.unwrap();
    assert_eq!(
        (
            tls.server_name.as_deref(),
            tls.insecure,
            tls.certificate.is_some()
        ),
        (Some("x"), false, true)
    );
    let Protocol::Http(http) = http.protocol else {
        panic!("HTTP");
    };
    assert_eq!(
        (http.body_bytes, http.requests, http.response_bytes),
        (2_000, 9, 77)
    );
    assert_eq!(http.headers, [("Host".to_owned(), "x".to_owned())]);
    let udp = template(
        "target = \"udp://10.9.0.1:53\"\nrate = 1\nrequest = 40\nresponse = 400\nexchanges = 3\ngap = \"2ms\"\n",
    );
    let asked = Protocol::Udp {
        request_bytes: 40,
        response_bytes: 400,
        exchanges: 3,
        gap: Nanos::from_millis(2),
    };
    assert_eq!(udp.protocol, asked);
    let replayed =
        template("target = \"tcp://10.9.0.1:80\"\nrate = 1\npcap = \"flow.pcap\"\npauses = true\n");
    let Protocol::Stream(steps) = replayed.protocol else {
        panic!("a stream");
    };
    let [client, pause, server, close] = steps.as_slice() else {
        panic!("{steps:?}");
    };
    assert_eq!(*client, Step::ClientSends(Data::Bytes(b"ping".to_vec())));
    assert_eq!(*pause, Step::Pause(Nanos::from_millis(8)));
    assert_eq!(*server, Step::ServerSends(Data::Bytes(b"pong".to_vec())));
    assert_eq!(*close, Step::ServerCloses(Close::Fin));
}

#[test]
fn a_total_is_shared_by_weight() {
    let paces = |total: &str, keys: [&str; 3]| {
        let each = keys.iter().map(|k| {
            format!("[[template]]\nname = \"of {k}\"\ntarget = \"http://10.9.0.1/\"\n{k}\n")
        });
        let file = format!("{total}\n{CLIENT}{}", each.collect::<String>());
        parse(&file)
            .unwrap()
            .templates
            .into_iter()
            .map(|t| t.pace)
            .collect::<Vec<_>>()
    };
    assert_eq!(
        paces(
            "rate = 1000\narrival = \"poisson\"",
            ["weight = 3", "", "rate = 5"]
        ),
        [
            Pace::Poisson(750.0),
            Pace::Poisson(250.0),
            Pace::Poisson(5.0)
        ]
    );
    assert_eq!(
        paces(
            "concurrent = 10",
            ["weight = 98", "weight = 1", "weight = 1 "]
        ),
        [
            Pace::Concurrent(8),
            Pace::Concurrent(1),
            Pace::Concurrent(1)
        ]
    );
    assert_eq!(
        shares(10, &[1.0, 1.0, 1.0]).unwrap().iter().sum::<u32>(),
        10
    );
    assert_eq!(shares(2, &[1.0, 1.0, 1.0]), None);
}

/// What a file's first problem is not, when it is not at that place with that text and that remedy.
fn misses(text: &str, place: &str, part: &str, remedy: &str) -> Option<String> {
    let error = match parse(text) {
        Ok(_) => return Some(format!("accepted:\n{text}")),
        Err(error) => error,
    };
    let (first, said) = (error.to_string(), error.remedy());
    let fits = first.starts_with(&format!("t.toml:{place}:")) && first.contains(part);
    (!fits || !said.contains(remedy)).then(|| format!("{text}\n{first}\n{said}\n"))
}

#[test]
fn what_is_wrong_is_said_with_its_place_and_the_remedy() {
    let mut missed = Vec::new();
    let page = "[[template]]\ntarget = \"http://10.9.0.1/\"\nrate = 1\n";
    let with = |keys: &str| format!("{CLIENT}[[template]]\ntarget = \"tcp://10.9.0.1:80\"\n{keys}");
    for (text, place, part, remedy) in [
        (String::new(), "1:1", "no `[[template]]`", "[[template]]"),
        (
            page.to_owned(),
            "1:1",
            "no `[client] or [server]`",
            "transport",
        ),
        (
            format!("{CLIENT}drian = 1\n{page}"),
            "5:1",
            "unknown key `drian` in [client]",
            "known here",
        ),
        (
            format!("drian = 1\n{CLIENT}{page}"),
            "1:1",
            "did you mean `drain`?",
            "duration",
        ),
        (
            CLIENT.replace("tap\"", "tapp\"") + page,
            "2:13",
            "did you mean `tap`?",
            "af_xdp",
        ),
        (
            CLIENT.replace("tap\"", "kernel\"") + page,
            "2:13",
            "unknown value `kernel`",
            "loopback",
        ),
        (
            CLIENT.replace("interface = \"tap0\"\n", "") + page,
            "1:2",
            "no `interface`",
            "tap0",
        ),
        (
            CLIENT.replace("10.9.0.2-10.9.0.250", "10.9.0.2-") + page,
            "4:13",
            "must be addresses such as",
            "",
        ),
        (
            CLIENT.replace("10.9.0.2-", "10.9.0.1-") + page,
            "4:13",
            "not the target 10.9.0.1 too",
            "",
        ),
        (
            CLIENT.replace("10.9.0.2-10.9.0.250", "fd00::2") + page,
            "4:13",
            "must be IPv4 too",
            "",
        ),
        (
            format!("{CLIENT}[client.tcp]\nmss = \"1MiB\"\n{page}"),
            "6:7",
            "must be at most 65535",
            "",
        ),
        (
            format!("{CLIENT}[client.tcp]\ndelayed_ack = \"1us\"\n{page}"),
            "6:15",
            "whole milliseconds",
            "",
        ),
        (
            format!("{CLIENT}[client.tcp]\ninitial_windw = 2\n{page}"),
            "6:1",
            "did you mean `initial_window`?",
            "",
        ),
        (
            format!("{CLIENT}[client.faults]\nloss = \"200%\"\n{page}"),
            "6:8",
            "must be",
            "",
        ),
        (
            CLIENT.replace("client", "server") + "ports = 80\n" + page,
            "5:1",
            "does not belong in [server]",
            "",
        ),
        (
            format!("{CLIENT}{CLIENT}{page}").replacen("[client]", "[server]", 1),
            "4:13",
            "all targets",
            "",
        ),
        (
            format!("transport = \"loopback\"\n{CLIENT}{page}"),
            "2:2",
            "cannot both be given",
            "",
        ),
        (
            with("steps = [\"client 1\"]\n"),
            "5:1",
            "no `rate or concurrent`",
            "rate = 2000",
        ),
        (
            with("rate = 1\nconcurrent = 2\n"),
            "8:1",
            "`rate` and `concurrent` cannot both",
            "remove",
        ),
        (
            with("rate = \"80%\"\n"),
            "7:8",
            "connections per second",
            "",
        ),
        (with("rate = 1\n"), "5:1", "no `steps or pcap`", "steps = "),
        (
            with("rate = 1\nsteps = [\"client 1\", \"pause\"]\n"),
            "8:22",
            "`steps` must be a step such as",
            "",
        ),
        (
            with("rate = 1\nrequests = 2\n"),
            "8:1",
            "use a target of http://",
            "",
        ),
        (
            with("rate = 1\nserver_name = \"x\"\n"),
            "8:1",
            "use a target of https:// or tls://",
            "",
        ),
        (
            with("rate = 1\nstep = [\"client 1\"]\n"),
            "8:1",
            "did you mean `steps`?",
            "",
        ),
        (
            with("rate = 1\npcap = \"none.pcap\"\n"),
            "8:8",
            "cannot read `none.pcap`: No such file",
            "relative",
        ),
        (
            with("rate = 1\npcap = \"s.pem\"\n"),
            "8:8",
            "neither a pcap nor a pcapng",
            "tcpdump",
        ),
        (
            with("rate = 1\npcap = \"half.pcap\"\n"),
            "8:8",
            "no whole flow: 1 is 10.0.0.1:40000",
            "tcpdump",
        ),
        (
            with("rate = 1\nsteps = [\"client 1\"]\npauses = true\n"),
            "5:1",
            "`steps` and `pcap`",
            "",
        ),
        (
            with("rate = 1\nweight = 1\nsteps = [\"client 1\"]\n"),
            "5:1",
            "`weight` and `rate`",
            "",
        ),
        (
            format!("{CLIENT}{page}name = \"x\"\n{page}name = \"x\"\n"),
            "9:1",
            "the template `x` cannot have this name",
            "",
        ),
        (
            format!("rate = 5\n{CLIENT}{page}"),
            "1:1",
            "no template is left",
            "",
        ),
        (
            format!("{CLIENT}[[template]]\ntarget = \"10.9.0.1\"\nrate = 1\n"),
            "6:10",
            "it has no scheme",
            "",
        ),
        (
            format!(
                "{CLIENT}[[template]]\ntarget = \"udp://10.9.0.1:9\"\nrate = 1\nrequest = \"1M\"\n"
            ),
            "5:1",
            "at most 65507",
            "",
        ),
        (
            format!(
                "{CLIENT}[[template]]\ntarget = \"tls://10.9.0.1:9\"\nrate = 1\nsteps = [\"client 1\"]\ncertificate = \"s.pem\"\n"
            ),
            "9:15",
            "no `key`",
            "server.key",
        ),
        (
            format!(
                "{CLIENT}[[template]]\ntarget = \"tls://10.9.0.1:9\"\nrate = 1\nsteps = [\"client 1\"]\ncertificate = \"s.key\"\nkey = \"s.key\"\n"
            ),
            "9:15",
            "no PEM block `CERTIFICATE`",
            "",
        ),
        (format!("{CLIENT}[[template]\n"), "5:12", "not TOML", ""),
    ] {
        missed.extend(misses(&text, place, part, remedy));
    }
    assert!(missed.is_empty(), "{}", missed.join("\n"));
}

#[test]
fn every_problem_is_said_and_each_once() {
    let text = format!(
        "{CLIENT}cpu = \"x\"\n[[template]]\ntarget = \"http://10.9.0.1/\"\nrate = 0\ncount = 0\n"
    );
    let problems = parse(&text).unwrap_err().problems;
    let lines: Vec<usize> = problems.iter().map(|p| p.line).collect();
    assert_eq!(lines, [5, 8, 9]);
}

#[test]
fn what_a_response_must_be() {
    use record::traffic::{Data, Expect};
    let of = |keys: &str| {
        let text = format!(
            "{CLIENT}[[template]]\ntarget = \"http://10.9.0.1/bytes/2000\"\nrate = 1\n{keys}"
        );
        let file = TrafficFile::parse(&text, "t.toml", &|path| match path {
            "page.html" => Ok(b"<p>hello</p>".to_vec()),
            _ => Err("no such file".to_owned()),
        });
        file.map(|file| match file.spec.templates[0].protocol.clone() {
            Protocol::Http(http) => http.expect,
            other => panic!("{other:?}"),
        })
        .map_err(|error| format!("{error:?}"))
    };
    let body = |bytes, data| {
        Some(Expect {
            status: None,
            bytes: Some(bytes),
            body: Some(data),
        })
    };
    assert_eq!(of("").unwrap(), None);
    let status = Expect {
        status: Some(404),
        ..Expect::default()
    };
    assert_eq!(of("expect_status = 404\n").unwrap(), Some(status));
    let page = Data::Bytes(b"<p>hello</p>".to_vec());
    assert_eq!(of("expect_file = \"page.html\"\n").unwrap(), body(12, page));
    let text = Data::Bytes(b"ok".to_vec());
    assert_eq!(of("expect_text = \"ok\"\n").unwrap(), body(2, text));
    let pattern = body(2_000, Data::Pattern(2_000));
    assert_eq!(of("expect_pattern = true\n").unwrap(), pattern);
    for (keys, said) in [
        ("expect_status = 99\n", "a status from 200 to 599"),
        (
            "expect_text = \"a\"\nexpect_file = \"page.html\"\n",
            "one body",
        ),
        (
            "expect_file = \"page.html\"\nexpect_bytes = 9\n",
            "another length",
        ),
        ("expect_file = \"none\"\n", "no such file"),
    ] {
        let error = of(keys).unwrap_err();
        assert!(error.contains(said), "{error}");
    }
}
