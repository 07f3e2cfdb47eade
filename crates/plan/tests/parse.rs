//! Whole experiment files: those that parse, what they become, and what is said of those that do not.

use plan::{FileContent, Metric, Plan, PlanError, TargetKind, TrialPlan};
use record::{Arrival, Bytes, Nanos};
use std::collections::{BTreeMap, BTreeSet};

/// The files that an experiment may name in these tests.
fn read(path: &str) -> Result<String, String> {
    match path {
        "proxy.conf" => Ok("listen {{listen}};\nproxy_pass http://{{backend}};\n\
                            proxy_buffers {{proxy_buffers}};\n"
            .to_owned()),
        "typo.conf" => Ok("listen {{listen}};\nbuffers {{proxy_bufers}};\n".to_owned()),
        "plain.conf" => Ok("plain\n".to_owned()),
        "broken.conf" => Ok("a;\nb;\n{% if x %}\n".to_owned()),
        _ => Err("No such file or directory".to_owned()),
    }
}

fn parse(text: &str) -> Result<Plan, PlanError> {
    Plan::parse(text, "experiment.toml", &read)
}

/// The example of the design: a proxy in front of the built-in server.
const PROXY: &str = r#"
question = "Why does nginx halve the backend's throughput?"

[target.backend]
origin = { listen = "127.0.0.1:9000", body = "91KiB" }      # or command = [...], adapter = "tomcat"
cpus = [0]

[target.proxy]
adapter = "nginx"
template = "proxy.conf"                                     # {{factors}} are filled in
cpus = [0]

[factor]
path = ["direct", "proxied"]
proxy_buffers = ["8 4k", "128 4k", "4 128k"]

[load]
url = { direct = "http://backend/", proxied = "http://proxy/" }
connections = 500
cpus = [1]

[design]
baseline = { path = "direct" }
repeats = 5
measure = "10s"
"#;

fn names(trial: &TrialPlan) -> Vec<&str> {
    trial.targets.iter().map(|t| t.name.as_str()).collect()
}

#[test]
fn the_proxy_example() {
    let plan = parse(PROXY).unwrap();
    assert_eq!(plan.trials.len(), 2 * 3 * 5);
    assert_eq!(plan.time(), Nanos::from_secs(30 * (1 + 10 + 1)));
    assert_eq!(plan.stages[0].name, "main");
    assert_eq!(plan.stages[0].baseline["path"], "direct");
    let factors: Vec<&str> = plan.stages[0]
        .factors
        .iter()
        .map(|f| f.name.as_str())
        .collect();
    assert_eq!(factors, ["path", "proxy_buffers"]);
    assert_eq!(
        (plan.error_limit, plan.warnings.as_slice()),
        (0.01, [].as_slice())
    );
    for trial in &plan.trials {
        let load = &trial.load;
        assert_eq!(
            (load.connections, load.cpus.as_slice()),
            (500, [1].as_slice())
        );
        assert_eq!(
            (load.duration, load.warmup),
            (Some(Nanos::from_secs(10)), Nanos::SECOND)
        );
        match trial.levels["path"].as_str() {
            "direct" => {
                assert_eq!(load.url, "http://backend/");
                assert_eq!(names(trial), ["backend"]);
            }
            _ => {
                assert_eq!(load.url, "http://proxy/");
                assert_eq!(
                    names(trial),
                    ["backend", "proxy"],
                    "the backend starts first"
                );
                let values = &trial.targets[1].values;
                assert_eq!(values["proxy_buffers"], trial.levels["proxy_buffers"]);
            }
        }
        assert_eq!(
            trial.targets[0].kind,
            TargetKind::Origin {
                threads: 1,
                delay: None,
                freeze: None,
                body: Bytes(93_184)
            }
        );
        assert_eq!(trial.targets[0].listen, "127.0.0.1:9000".parse().unwrap());
        assert_eq!(trial.targets[0].status_path.as_deref(), Some("/stats"));
    }
}

#[test]
fn blocks_hold_every_cell_once_in_an_order_of_the_seed() {
    let order = |seed: u64| -> Vec<BTreeMap<String, String>> {
        let plan = parse(&format!("seed = {seed}\n{PROXY}")).unwrap();
        for (i, trial) in plan.trials.iter().enumerate() {
            assert_eq!((trial.id as usize, trial.block as usize), (i, i / 6));
        }
        for block in plan.trials.chunks(6) {
            let cells: BTreeSet<_> = block.iter().map(|t| t.levels.clone()).collect();
            assert_eq!(cells.len(), 6);
        }
        plan.trials.into_iter().map(|t| t.levels).collect()
    };
    assert_eq!(order(7), order(7));
    assert_ne!(order(7), order(8));
    let first = order(7);
    assert_ne!(first[..6], first[6..12], "blocks differ in their order");
}

fn experiment(name: &str) -> Plan {
    let dir = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments");
    let text = std::fs::read_to_string(dir.join(name)).expect(name);
    let read = |path: &str| std::fs::read_to_string(dir.join(path)).map_err(|e| e.to_string());
    Plan::parse(&text, name, &read).expect(name)
}

#[test]
fn quickstart_is_a_sweep_a_search_and_shares_of_what_the_search_found() {
    let plan = experiment("quickstart.toml");
    assert!(plan.time() <= Nanos::from_secs(60), "{}", plan.time());
    assert_eq!(plan.stages.len(), 3);
    let of_stage = |stage| plan.trials.iter().filter(move |t| t.stage == stage);
    assert_eq!((of_stage(0).count(), of_stage(2).count()), (12, 4));
    assert!(of_stage(0).all(|t| t.load.arrival == Arrival::Closed));
    let steps: Vec<u32> = of_stage(1).map(|t| t.block).collect();
    assert_eq!(steps, (0..plan::SEARCH_STEPS).collect::<Vec<_>>());
    assert_eq!(plan.searches().collect::<Vec<_>>(), ["highest rate"]);
    let shares: BTreeSet<u32> = of_stage(2)
        .map(|t| (t.rate_of_capacity.unwrap() * 100.0).round() as u32)
        .collect();
    assert_eq!(shares.into_iter().collect::<Vec<_>>(), [25, 50, 75, 90]);
    let seeds: BTreeSet<u64> = of_stage(1)
        .chain(of_stage(2))
        .map(|t| match t.load.arrival {
            Arrival::Poisson { seed, .. } => seed,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(seeds.len(), 14, "every trial has arrivals of its own");
}

const CLOSED_THEN: &str = r#"
question = "?"
[target.s]
origin = {}
[load]
url = "http://s/"
[design]
repeats = 3
[[stage]]
name = "closed"
factor.connections = [1, 8]
"#;

/// A search chooses its rates: one that stands above it gives way, and the repeats are those of other stages.
#[test]
fn a_search_has_steps_of_its_own_in_every_cell() {
    let text = format!(
        "{CLOSED_THEN}[[stage]]\nname = \"edge\"\nsearch = \"rate\"\nfactor.pipeline = [1, 2]\n"
    );
    let plan = parse(&text).unwrap();
    let steps: Vec<_> = plan.trials.iter().filter(|t| t.stage == 1).collect();
    assert_eq!(steps.len() as u32, 2 * plan::SEARCH_STEPS);
    for (i, step) in steps.iter().enumerate() {
        let i = i as u32;
        assert_eq!(step.block, i % plan::SEARCH_STEPS);
        assert_eq!(step.load.pipeline, 1 + i / plan::SEARCH_STEPS);
        assert_eq!(step.load.arrival, Arrival::Constant { per_s: 0.0 });
    }
}

#[test]
fn what_a_search_cannot_have_is_refused() {
    for (stage, want) in [
        (
            "search = \"rate\"\nload.rate = 5",
            "`search` and `rate` cannot both be given in stage `s`",
        ),
        (
            "search = \"rate\"\nfactor.rate = [5]",
            "`search` and `rate` cannot both be given in stage `s`",
        ),
        (
            "search = \"rate\"\ndesign.repeats = 2",
            "`search` and `repeats` cannot both be given in stage `s`",
        ),
        (
            "search = \"connections\"",
            "unknown value `connections` in search",
        ),
        (
            "factor.pipeline = [1, 2]\ndesign.metric = \"cpu\"",
            "unknown value `cpu` in metric",
        ),
    ] {
        let text = format!("{CLOSED_THEN}[[stage]]\nname = \"s\"\n{stage}\n");
        let error = Plan::parse(&text, "f", &|_| Err(String::new())).unwrap_err();
        assert!(error.to_string().contains(want), "{stage}: {error}");
    }
    let first = CLOSED_THEN.replace("factor.connections = [1, 8]", "search = \"rate\"");
    let error = Plan::parse(&first, "f", &|_| Err(String::new())).unwrap_err();
    assert!(
        error.to_string().contains(
            "a search for the highest rate begins at the capacity, but no earlier stage measures the capacity"
        ),
        "{error}"
    );
}

#[test]
fn nginx_static_compares_keep_alive_with_a_connection_per_request() {
    let plan = experiment("nginx-static.toml");
    assert!(plan.time() <= Nanos::from_secs(180), "{}", plan.time());
    assert_eq!(plan.trials.len(), 2 * 3 * 7);
    assert_eq!(plan.stages[0].metric, Some(Metric::Cpu));
    for trial in &plan.trials {
        let want = (trial.levels["reuse"] == "per_request").then_some(1);
        assert_eq!(trial.load.requests_per_connection, want);
        let rate = trial.levels["rate"].replace('k', "000");
        let offered = trial.load.arrival.offered_per_s().unwrap();
        assert_eq!(offered.to_string(), rate);
        let server = &trial.targets[0];
        assert_eq!(
            server.files["html/index.html"],
            FileContent::Size(Bytes(2649))
        );
        assert_eq!(server.status_path.as_deref(), Some("/stub_status"));
        assert_eq!(
            (server.cpus.as_slice(), trial.load.cpus.as_slice()),
            ([0].as_slice(), [1].as_slice())
        );
    }
}

/// Everything that a target may say.
#[test]
fn every_key_of_a_target() {
    let plan = parse(
        r#"
question = "?"
[target.s]
command = ["serve", "--port", "{{port}}", "--mode={{mode}}", "{{greeting}}"]
listen = "[::1]:8080"
cpus = "0-2"
env = { LD_PRELOAD = "{{allocator}}", N = 1 }
wrap = ["numactl", "--cpunodebind=0"]
ready = "/ready"
ready_timeout = "3s"
status = "/status"
files = { "a/b" = { text = "hello" } }
values = { greeting = "hi" }
[factor]
mode = ["fast", 2, 1.5, true]
allocator = ["", "libjemalloc.so.2"]
size = ["1k", "91k"]
[load]
url = "http://s/bytes/{{size}}"
[design]
repeats = 1
errors = "2.5%"
"#,
    )
    .unwrap();
    assert_eq!((plan.trials.len(), plan.error_limit), (16, 0.025));
    let target = &plan.trials[0].targets[0];
    assert_eq!(target.listen, "[::1]:8080".parse().unwrap());
    assert_eq!(target.cpus, [0, 1, 2]);
    assert_eq!(target.env["N"], "1");
    assert_eq!(target.wrap, ["numactl", "--cpunodebind=0"]);
    assert_eq!(target.ready_timeout, Nanos::from_secs(3));
    assert_eq!(target.ready_path.as_deref(), Some("/ready"));
    assert_eq!(target.files["a/b"], FileContent::Text("hello".to_owned()));
    assert_eq!(target.values["greeting"], "hi");
    let urls: BTreeSet<&str> = plan.trials.iter().map(|t| t.load.url.as_str()).collect();
    assert_eq!(
        urls.into_iter().collect::<Vec<_>>(),
        ["http://s/bytes/1k", "http://s/bytes/91k"]
    );
    assert_eq!(
        plan.stages[0].factors[0].levels,
        ["fast", "2", "1.5", "true"]
    );
}

/// Everything that may depend on a level, in both ways of saying it.
const BY_LEVEL: &str = r#"
question = "?"
[target.s]
adapter = "{{server}}"
template = { nginx = "", haproxy = "plain.conf" }
cpus = { nginx = [0], haproxy = "1-2" }
wrap = { kernel = [], onload = ["onload", "-p", "{{profile}}"] }
env = { MALLOC = { nginx = "a", haproxy = "b" }, ALWAYS = "{{server}}" }
values = { kernel = { profile = "none" }, onload = { profile = "{{root}}/latency.opf" } }
files = { page = { size = "{{size}}" }, "latency.opf" = { file = "plain.conf" } }
ready_timeout = "{{patience}}s"
[target.back]
origin = { threads = "{{workers}}", body = { 1k = 1, 2k = 2 } }
[factor]
server = ["nginx", "haproxy"]
stack = ["kernel", "onload"]
size = ["1k", "2k"]
workers = [1, 4]
patience = [3, 7]
path = ["direct", "proxied"]
[load]
url = { direct = "http://back/", proxied = "http://s/" }
threads = 1
[design]
repeats = 1
"#;

#[test]
fn nearly_every_key_of_a_target_may_depend_on_a_level() {
    let plan = parse(BY_LEVEL).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(plan.trials.len(), 64);
    for trial in &plan.trials {
        let level = |name: &str| trial.levels[name].as_str();
        let target = &trial.targets[0];
        if level("path") == "direct" {
            let TargetKind::Origin { threads, body, .. } = &target.kind else {
                panic!("{target:?}")
            };
            assert_eq!(threads.to_string(), level("workers"));
            assert_eq!(body.0, if level("size") == "1k" { 1 } else { 2 });
            assert_eq!(names(trial), ["back"], "the other target is not started");
            continue;
        }
        let TargetKind::Adapter {
            adapter, template, ..
        } = &target.kind
        else {
            panic!("{target:?}")
        };
        let is_nginx = level("server") == "nginx";
        assert_eq!(adapter, level("server"));
        assert_eq!(template == "plain\n", !is_nginx);
        assert_eq!(target.cpus, if is_nginx { vec![0] } else { vec![1, 2] });
        assert_eq!(target.env["MALLOC"], if is_nginx { "a" } else { "b" });
        assert_eq!(
            target.env["ALWAYS"], "{{server}}",
            "filled in when it starts"
        );
        let is_kernel = level("stack") == "kernel";
        assert_eq!(target.wrap.len(), if is_kernel { 0 } else { 3 });
        assert_eq!(target.values["profile"] == "none", is_kernel);
        let size = if level("size") == "1k" { 1000 } else { 2000 };
        assert_eq!(target.files["page"], FileContent::Size(Bytes(size)));
        assert_eq!(
            target.files["latency.opf"],
            FileContent::Text("plain\n".to_owned())
        );
        assert_eq!(
            target.ready_timeout,
            Nanos::from_secs(level("patience").parse().unwrap())
        );
    }
    let idle: Vec<_> = plan.warnings.iter().map(|w| w.seen.as_str()).collect();
    assert_eq!(idle, [""; 0]);
}

#[test]
fn what_is_said_of_a_wrong_level_of_a_target() {
    let base =
        "question = \"?\"\nload.url = \"http://s/\"\nfactor.a = [\"x\", \"y\"]\n[target.s]\n";
    for (section, want) in [
        (
            "adapter = \"{{b}}\"",
            "experiment.toml:5:11: the template is malformed: unknown name `b`",
        ),
        (
            "origin = { threads = { x = 1, z = 2 } }",
            "experiment.toml:5:22: `threads` has a value for each of `x`, `z`, but the levels of factor `a` are `x`, `y`",
        ),
        (
            "command = [\"s\"]\ncpus = { x = [0], y = \"fast\" }",
            "experiment.toml:6:23: `cpus` must be CPUs such as \"0-3,6\", not \"fast\"",
        ),
        (
            "command = [\"s\"]\nwrap = [\"{{c}}\"]",
            "experiment.toml:4:9: unknown name `c` in the templates of [target.s]",
        ),
        (
            "command = [\"s\", \"{{v}}\"]\nvalues = { v = \"{{nosuch}}\" }",
            "experiment.toml:4:9: unknown name `nosuch` in the templates of [target.s]",
        ),
        (
            "command = [\"s\"]\ncpus = [0]\nnuma = 0",
            "experiment.toml:4:9: `cpus` and `numa` cannot both be given in [target.s]: a node stands for all of its CPUs",
        ),
        (
            "command = [\"s\"]\nlimits = { cpus = 1 }",
            "experiment.toml:6:12: unknown key `cpus` in `limits`; did you mean `cpu`?",
        ),
        (
            "command = [\"s\"]\nlimits = { open_files = 3 }",
            "experiment.toml:6:25: `open_files` must be a whole number of at least 16, not 3",
        ),
        (
            "command = [\"s\"]\nlimits = { cpu = 0 }",
            "experiment.toml:6:18: `cpu` must be a number of cores of at least 0.01, such as 0.5, not 0",
        ),
    ] {
        let error = parse(&format!("{base}{section}\n"))
            .expect_err(section)
            .to_string();
        let first = error.lines().next().unwrap_or_default();
        assert_eq!(first, want, "{section}");
    }
}

/// A value that names another target makes that target start first.
#[test]
fn a_value_that_names_a_target_is_waited_for() {
    let plan = parse(
        "question = \"?\"\nload.url = \"http://a/\"\n[target]\nz.origin = {}\n\
         a = { command = [\"x\", \"{{upstream}}\"], values = { upstream = \"http://{{z}}/\" } }\n",
    );
    assert_eq!(names(&plan.unwrap().trials[0]), ["z", "a"]);
}

const SCALED: &str = r#"
question = "?"
target.s.origin = { threads = "{{workers}}" }
[factor]
connections = [10, 20]
workers = [1]
[load]
url = "http://s/"
threads = 1
[design]
repeats = 2
[scale.paper.factor]
workers = [1, 2, 4]
threads = [1, 2]
[scale.paper.load]
connections = 500
[scale.paper.design]
repeats = 7
[scale.paper.target.s]
cpus = "0-3"
"#;

#[test]
fn a_scale_is_laid_over_the_file() {
    let text = SCALED;
    let small = parse(text).unwrap();
    assert_eq!((small.scale.as_str(), small.trials.len()), ("small", 2 * 2));
    assert_eq!(small.scales, ["small", "paper"]);
    let paper = Plan::parse_at(text, "experiment.toml", "paper", &read).unwrap();
    assert_eq!(
        (paper.scale.as_str(), paper.trials.len()),
        ("paper", 3 * 2 * 7)
    );
    let trial = &paper.trials[0];
    assert_eq!(
        trial.load.connections, 500,
        "it drops the factor of the same name"
    );
    assert_eq!(
        trial.load.threads.map(|t| t.to_string()).as_ref(),
        trial.levels.get("threads")
    );
    assert_eq!(trial.targets[0].cpus, [0, 1, 2, 3]);
    let unknown = Plan::parse_at(text, "experiment.toml", "papr", &read).unwrap_err();
    assert!(
        unknown
            .to_string()
            .contains("unknown scale `papr` in the experiment; did you mean `paper`?"),
        "{unknown}"
    );
    // What is wrong with a scale is found at every other.
    let wrong = text.replace("repeats = 7", "repeats = 0");
    assert!(
        parse(&wrong)
            .unwrap_err()
            .to_string()
            .contains("`repeats` must be")
    );
    let wrong = text.replace("[scale.paper.design]", "[scale.paper.desing]");
    let wrong = parse(&wrong).unwrap_err().to_string();
    assert!(
        wrong.contains("unknown key `desing` in [scale.paper]; did you mean `design`?"),
        "{wrong}"
    );
}

#[test]
fn what_a_host_lacks_is_skipped_and_the_rest_keeps_its_numbers() {
    let mut plan = parse(PROXY).unwrap();
    let before = plan.clone();
    plan.skip(|trial| {
        (trial.levels["path"] == "proxied").then(|| plan::Lack {
            reason: "cannot start target `proxy`: nginx is not installed".to_owned(),
            remedy: "apt-get install nginx".to_owned(),
        })
    });
    assert_eq!((plan.trials.len(), plan.skipped.len()), (15, 3));
    assert!(
        plan.trials
            .iter()
            .all(|t| before.trials[t.id as usize] == *t)
    );
    let warnings: Vec<_> = plan
        .warnings
        .iter()
        .map(|w| (w.seen.as_str(), w.remedy.as_str()))
        .collect();
    assert_eq!(
        warnings,
        [(
            "3 cells are skipped (path=proxied): cannot start target `proxy`: nginx is not installed",
            "apt-get install nginx"
        )]
    );
}

#[test]
fn a_topology_gives_every_target_a_host() {
    let text = format!(
        "{PROXY}\n[topology]\nclient_addresses = 200\nmtu = 1500\nrate = {{ direct = \"1Gbit\", proxied = \"none\" }}\n\
         [topology.link]\nclient-proxy = {{ initcwnd = 2, mtu = 9000 }}\n"
    );
    let plan = parse(&text).unwrap_or_else(|e| panic!("{e}"));
    for trial in &plan.trials {
        let topology = trial.topology.as_ref().unwrap();
        let is_direct = trial.levels["path"] == "direct";
        let hosts: &[&str] = if is_direct {
            &["client", "backend"]
        } else {
            &["client", "backend", "proxy"]
        };
        assert_eq!(topology.hosts, hosts);
        assert_eq!(
            topology.all.rate_bits_per_s,
            is_direct.then_some(1_000_000_000)
        );
        assert_eq!(trial.targets[0].listen, "10.83.128.1:9000".parse().unwrap());
        if let Some(proxy) = trial.targets.get(1) {
            assert_eq!(proxy.listen, "10.83.129.1:0".parse().unwrap());
            let link = topology.link("proxy", "client");
            assert_eq!((link.mtu, link.initcwnd), (Some(9000), Some(2)));
        }
        assert_eq!(topology.link("backend", "client").mtu, Some(1500));
        let source = &trial.load.source;
        assert_eq!(
            (source.len(), source[0].to_string()),
            (200, "10.83.0.1".to_owned())
        );
    }
    for (wrong, want) in [
        (
            "link = { client-prxy = {} }",
            "unknown host `prxy` in [topology]; did you mean `proxy`?",
        ),
        (
            "link = { proxy = {} }",
            "a link is named by its two hosts: `client-proxy`",
        ),
        (
            "mtu = 100",
            "`mtu` must be a whole number of at least 576, not 100",
        ),
        (
            "rate = \"fast\"",
            "`rate` must be a rate such as \"100Mbit\", of at least 8kbit, not \"fast\"",
        ),
        (
            "inticwnd = 2",
            "unknown key `inticwnd` in [topology]; did you mean `initcwnd`?",
        ),
        (
            "network = \"10.0.0.7\"",
            "`network` must be a network of 65536 addresses such as \"10.83.0.0/16\"",
        ),
    ] {
        let error = parse(&format!("{PROXY}\n[topology]\n{wrong}\n"))
            .expect_err(wrong)
            .to_string();
        assert!(error.contains(want), "{error}");
    }
}

#[test]
fn irqs_by_device_and_level() {
    let text = format!("{PROXY}\n[irq]\neth0 = {{ direct = [0], proxied = [] }}\n27 = \"0-1\"\n");
    for trial in parse(&text).unwrap().trials {
        let pins: Vec<_> = trial
            .irqs
            .iter()
            .map(|p| (p.device.as_str(), p.cpus.as_slice()))
            .collect();
        match trial.levels["path"].as_str() {
            "direct" => assert_eq!(pins, [("eth0", [0].as_slice()), ("27", [0, 1].as_slice())]),
            _ => assert_eq!(pins, [("27", [0, 1].as_slice())]),
        }
    }
}

#[test]
fn a_freeze_may_be_a_factor() {
    let plan = parse(
        "question = \"?\"\ntarget.s.origin = { freeze = \"{{freeze}}\" }\nload.url = \"http://s/\"\n\
         factor.freeze = [\"\", \"200ms/2s\"]\n",
    )
    .unwrap();
    let levels: BTreeSet<&str> = plan
        .trials
        .iter()
        .map(|t| t.targets[0].values["freeze"].as_str())
        .collect();
    assert_eq!(levels.into_iter().collect::<Vec<_>>(), ["", "200ms/2s"]);
}

#[test]
fn an_outside_address_has_no_targets() {
    let plan = parse("question = \"?\"\nload.url = \"https://www.example.org:8443/x\"\n").unwrap();
    assert_eq!((plan.trials.len(), plan.trials[0].targets.len()), (6, 0));
}

#[test]
fn an_adapter_without_a_template_has_a_built_in_one() {
    let plan = parse("question = \"?\"\ntarget.s.adapter = \"nginx\"\nload.url = \"http://s/\"\n");
    let target = &plan.unwrap().trials[0].targets[0];
    let TargetKind::Adapter {
        template_name,
        template,
        ..
    } = &target.kind
    else {
        panic!("{target:?}")
    };
    assert_eq!(template_name, "built-in nginx.conf");
    assert!(template.contains("listen {{listen}};"));
}

#[test]
fn a_stage_overrides_the_top_level() {
    let plan = parse(
        r#"
question = "?"
target.s.origin = {}
factor.connections = [1, 2]
load = { url = "http://s/", timeout = "1s" }
design = { repeats = 1, baseline = { connections = 1 } }
[[stage]]
[[stage]]
name = "fixed"
load = { connections = 7, rate = "50%" }
[[stage]]
name = "more"
factor = { connections = [1, 3, 4], timeout = ["5ms", "6ms"] }
design = { measure = "3s" }
"#,
    )
    .unwrap();
    let seen: BTreeSet<(&str, u32, Nanos)> = plan
        .trials
        .iter()
        .map(|t| {
            (
                plan.stages[t.stage].name.as_str(),
                t.load.connections,
                t.load.timeout,
            )
        })
        .collect();
    let (second, five, six) = (Nanos::SECOND, Nanos::from_millis(5), Nanos::from_millis(6));
    assert_eq!(
        seen.into_iter().collect::<Vec<_>>(),
        [
            ("fixed", 7, second),
            ("more", 1, five),
            ("more", 1, six),
            ("more", 3, five),
            ("more", 3, six),
            ("more", 4, five),
            ("more", 4, six),
            ("stage 1", 1, second),
            ("stage 1", 2, second),
        ]
    );
    assert!(plan.stages[1].baseline.is_empty(), "it has no such factor");
    assert_eq!(plan.stages[2].baseline["connections"], "1");
    assert_eq!(
        plan.trials.last().unwrap().load.duration,
        Some(Nanos::from_secs(3))
    );
}

#[test]
fn a_factor_that_changes_nothing_is_a_warning() {
    let misspelt = PROXY.replace("[factor]\n", "[factor]\nconection = [1, 2]\n");
    let warnings = parse(&misspelt).unwrap().warnings;
    let seen: Vec<&str> = warnings.iter().map(|w| w.seen.as_str()).collect();
    assert_eq!(
        seen,
        [
            "factor `conection` changes nothing: its 2 levels run the same load against the same servers; \
          did you mean `connections`?"
        ]
    );
    // Arrivals have seeds of their own in every trial; that is no effect of a factor.
    let poisson = misspelt.replace("connections = 500", "rate = 100\narrival = \"poisson\"");
    assert_eq!(parse(&poisson).unwrap().warnings.len(), 1);
    let used = PROXY.replace("[factor]\n", "[factor]\nconnections = [1, 2]\n");
    assert_eq!(
        parse(&used.replace("connections = 500\n", ""))
            .unwrap()
            .warnings,
        []
    );
}

#[test]
fn a_shared_core_is_a_warning() {
    let plan = parse(&PROXY.replace("cpus = [1]", "cpus = \"0-1\"")).unwrap();
    let seen: Vec<&str> = plan.warnings.iter().map(|w| w.seen.as_str()).collect();
    assert_eq!(
        seen[0],
        "the generator and target `backend` share core 0: the figures say nothing about the server alone"
    );
    assert_eq!(
        (seen.len(), plan.warnings[0].name.as_str()),
        (2, "shared_core")
    );
}

/// First line of the error, and its remedy, after one replacement in the proxy example.
fn complaint(from: &str, to: &str) -> (String, String) {
    assert!(PROXY.contains(from), "{from}");
    let error = parse(&PROXY.replacen(from, to, 1)).expect_err(to);
    let first = error
        .to_string()
        .lines()
        .next()
        .unwrap_or_default()
        .to_owned();
    (first, error.remedy())
}

#[test]
fn what_is_said_of_a_wrong_file() {
    for (from, to, want) in [
        (
            "connections = 500",
            "conections = 500",
            "experiment.toml:19:1: unknown key `conections` in [load]; did you mean `connections`?",
        ),
        (
            "connections = 500",
            "connections = 0",
            "experiment.toml:19:15: `connections` must be a whole number of at least 1, not 0",
        ),
        (
            "connections = 500",
            "connections = \"5 lots\"",
            "experiment.toml:19:15: `connections` must be a count in one of the units k, M, G, not \"5 lots\"",
        ),
        (
            "connections = 500",
            "duration = \"3s\"",
            "experiment.toml:19:1: `duration` does not belong in [load]; use `measure` in [design]",
        ),
        (
            "connections = 500",
            "arrival = \"poison\"\nrate = 1",
            "experiment.toml:19:11: unknown value `poison` in arrival; did you mean `poisson`?",
        ),
        (
            "connections = 500",
            "arrival = \"poisson\"",
            "experiment.toml:19:11: arrival `poisson` needs a `rate`",
        ),
        (
            "connections = 500",
            "rate = \"80%\"",
            "experiment.toml:19:8: a `rate` of 80 % is a share of the capacity, but no earlier stage measures the capacity",
        ),
        (
            "repeats = 5",
            "repeats = 5.5",
            "experiment.toml:24:11: `repeats` must be a whole number of at least 1, not 5.5",
        ),
        (
            "measure = \"10s\"",
            "measure = \"10 weeks\"",
            "experiment.toml:25:11: `measure` must be a duration in one of the units ns, us, ms, s, m, h, not \"10 weeks\"",
        ),
        (
            "measure = \"10s\"",
            "budget = \"1m\"",
            "experiment.toml:25:10: the plan takes 360s, longer than the budget of 60.0s",
        ),
        (
            "baseline = { path",
            "baseline = { paht",
            "experiment.toml:23:14: unknown factor `paht` in `baseline`; did you mean `path`?",
        ),
        (
            "path = \"direct\" }",
            "path = \"dirct\" }",
            "experiment.toml:23:21: unknown level `dirct` in factor `path`; did you mean `direct`?",
        ),
        (
            "adapter = \"nginx\"",
            "adapter = \"ngnix\"",
            "experiment.toml:9:11: unknown adapter `ngnix` in `adapter`; did you mean `nginx`?",
        ),
        (
            "adapter = \"nginx\"",
            "adapter = \"nginx\"\ncommand = [\"x\"]",
            "experiment.toml:8:9: `adapter` and `command` cannot both be given in [target.proxy]: a target is one server",
        ),
        (
            "adapter = \"nginx\"",
            "",
            "experiment.toml:8:9: [target.proxy] has no `adapter`",
        ),
        (
            "proxied = \"http://proxy/\"",
            "proxid = \"http://proxy/\"",
            "experiment.toml:18:7: `url` has a value for each of `direct`, `proxid`, but the levels of factor `path` are `direct`, `proxied`",
        ),
        (
            "http://proxy/",
            "http://proxi/",
            "experiment.toml:18:47: unknown target `proxi` in the URL; did you mean `proxy`?",
        ),
        (
            "http://proxy/",
            "http://www.example.org/",
            "experiment.toml:8:9: target `proxy` is never used: no URL names it and no used target's template does",
        ),
        (
            "http://proxy/",
            "http://proxy:80/",
            "experiment.toml:18:47: `http://proxy:80/` cannot be loaded: the port of a target is set by its `listen`",
        ),
        (
            "http://proxy/",
            "ftp://proxy/",
            "experiment.toml:18:47: `ftp://proxy/` cannot be loaded: it must start with http://, https://, ws:// or wss://",
        ),
        (
            "proxy.conf",
            "prxy.conf",
            "experiment.toml:10:12: cannot read `prxy.conf`: No such file or directory",
        ),
        (
            "proxy.conf",
            "typo.conf",
            "typo.conf:2: unknown name `proxy_bufers` in the template of target `proxy`; did you mean `proxy_buffers`?",
        ),
        (
            "proxy.conf",
            "broken.conf",
            "broken.conf:3: the template is malformed: syntax error: unexpected end of input, expected end of block",
        ),
        (
            "proxy_buffers = [\"8 4k\", \"128 4k\", \"4 128k\"]",
            "proxy_buffers = [\"8 4k\", \"8 4k\"]",
            "experiment.toml:15:26: `proxy_buffers` must be different levels, not \"8 4k\"",
        ),
        (
            "path = [",
            "proxy = [",
            "experiment.toml:14:1: the factor `proxy` cannot have this name: a target has it",
        ),
        (
            "[target.backend]",
            "[target.listen]",
            "experiment.toml:4:9: the target `listen` cannot have this name: templates have another value under this name",
        ),
        (
            "question = ",
            "qestion = ",
            "experiment.toml:1:1: the experiment has no `question`",
        ),
        (
            "[load]",
            "[load",
            "experiment.toml:17:6: this is not TOML: unclosed table, expected `]`",
        ),
        (
            "[design]",
            "[desing]",
            "experiment.toml:22:2: unknown key `desing` in the experiment; did you mean `design`?",
        ),
    ] {
        assert_eq!(complaint(from, to).0, want);
    }
}

#[test]
fn a_remedy_names_what_is_known() {
    assert_eq!(
        complaint("adapter = \"nginx\"", "adapter = \"x\"").1,
        "known here: nginx, haproxy, apache, caddy, tomcat, naviserver"
    );
    assert!(
        complaint("connections = 500", "zebra = 1")
            .1
            .contains("connections, threads")
    );
}

#[test]
fn all_problems_are_reported_once_and_in_the_order_of_the_file() {
    let text = PROXY
        .replace("connections = 500", "conections = 500")
        .replace("cpus = [0]", "cpus = [-1]")
        .replace("repeats = 5", "repeats = 0");
    let lines: Vec<usize> = parse(&text)
        .unwrap_err()
        .problems
        .iter()
        .map(|p| p.line)
        .collect();
    assert_eq!(lines, [6, 11, 19, 24]);
    let cells = PROXY.replace("http://proxy/", "nowhere");
    assert_eq!(
        parse(&cells).unwrap_err().problems.len(),
        1,
        "not once per cell"
    );
}

#[test]
fn targets_that_need_each_other_are_refused() {
    let error = parse(
        "question = \"?\"\nload.url = \"http://a/\"\n[target]\na.command = [\"x\", \"{{b}}\"]\n\
         b.command = [\"x\", \"{{a}}\", \"{{port}}\"]\n",
    )
    .unwrap_err();
    assert_eq!(
        error.to_string(),
        "experiment.toml:4:1: the targets a -> b -> a need each other's address: none of them can be started first"
    );
}

#[test]
fn a_field_keyed_by_two_equal_factors_is_ambiguous() {
    let error = parse(
        "question = \"?\"\nfactor = { a = [1, 2], b = [1, 2] }\n[load]\nurl = \"http://x.y/\"\n\
         pipeline = { 1 = 4, 2 = 8 }\n",
    )
    .unwrap_err();
    assert!(
        error
            .to_string()
            .contains("could be keyed by any of the factors `a`, `b`"),
        "{error}"
    );
}

#[test]
fn one_section_sets_a_field_once() {
    let error = parse(
        "question = \"?\"\nfactor.connections = [1, 2]\nload = { url = \"http://x.y/\", connections = 4 }\n",
    )
    .unwrap_err();
    assert!(
        error
            .to_string()
            .contains("`factor.connections` and `load.connections` cannot both"),
        "{error}"
    );
}

/// A file that is cut off, or has a character changed, is refused or read, never a panic.
#[test]
fn no_file_is_a_panic() {
    for (at, c) in PROXY.char_indices() {
        let (before, after) = (&PROXY[..at], &PROXY[at + c.len_utf8()..]);
        let _ = parse(before);
        for other in ["", "\"", "{", "=", "0", "-", "%"] {
            if let Err(error) = parse(&format!("{before}{other}{after}")) {
                assert!(!error.to_string().is_empty());
            }
        }
    }
}

#[test]
fn a_run_may_repeat_until_it_is_precise() {
    let with = |design: &str| PROXY.replace("repeats = 5", &format!("repeats = 5\n{design}"));
    assert_eq!(parse(PROXY).unwrap().until, None);
    for (text, half_width) in [("\"±1%\"", 0.01), ("\"2.5%\"", 0.025), ("0.05", 0.05)] {
        let until = parse(&with(&format!("until = {text}")))
            .unwrap()
            .until
            .unwrap();
        assert_eq!(until.half_width, half_width);
        assert_eq!(
            (until.most_repeats, until.budget),
            (plan::MOST_REPEATS, None)
        );
    }
    let limited = with("until = \"1%\"\nmax_repeats = 9\nbudget = \"1h\"");
    let until = parse(&limited).unwrap().until.unwrap();
    assert_eq!(until.most_repeats, 9);
    assert_eq!(until.budget, Some(Nanos::from_secs(3_600)));
    for bad in [
        "until = 0",
        "until = \"0%\"",
        "until = \"much\"",
        "until = \"100%\"",
    ] {
        let error = parse(&with(bad)).unwrap_err().to_string();
        assert!(error.contains("a precision such as"), "{error}");
    }
    let error = parse(&with("untill = \"1%\"")).unwrap_err().to_string();
    assert!(error.contains("`until`"), "{error}");
}

#[test]
fn a_block_more_has_every_cell_once_and_later_stages_move_back() {
    let two = format!("{PROXY}\n[[stage]]\nname = \"first\"\n[[stage]]\nname = \"second\"\n");
    let mut plan = parse(&two).unwrap();
    let before = plan.clone();
    assert_eq!(plan.block_time(0), Nanos::from_secs(6 * 12));
    assert_eq!(plan.add_block(0), 5);
    assert_eq!(plan.add_block(0), 6);
    assert_eq!(plan.trials.len(), 60 + 12);
    for (i, trial) in plan.trials.iter().enumerate() {
        assert_eq!(trial.id as usize, i);
    }
    assert_eq!(plan.trials[..30], before.trials[..30]);
    for block in [&plan.trials[30..36], &plan.trials[36..42]] {
        let cells: BTreeSet<_> = block.iter().map(|t| t.levels.clone()).collect();
        assert_eq!((cells.len(), block[0].stage), (6, 0));
    }
    assert!(plan.trials[42..].iter().all(|t| t.stage == 1));
    let mut again = before.clone();
    again.add_block(0);
    assert_eq!(
        again.trials[30..36],
        plan.trials[30..36],
        "the order is the seed's"
    );
}

#[test]
fn a_block_more_has_numbers_of_its_own_where_cells_were_skipped() {
    let two = format!("{PROXY}\n[[stage]]\nname = \"first\"\n[[stage]]\nname = \"second\"\n");
    let mut plan = parse(&two).unwrap();
    plan.skip(|t| {
        (t.levels["path"] == "direct").then(|| plan::Lack {
            reason: "no direct way".into(),
            remedy: "build one".into(),
        })
    });
    plan.add_block(0);
    let ids: BTreeSet<u32> = plan.trials.iter().map(|t| t.id).collect();
    assert_eq!(ids.len(), plan.trials.len());
    assert!(plan.trials.is_sorted_by_key(|t| t.id));
}

#[test]
fn a_twin_of_the_baseline_is_a_cell_like_any_other() {
    let plan = parse(&PROXY.replace("repeats = 5", "repeats = 5\naa = true")).unwrap();
    // Three cells are baselines (path direct, any buffers): each has a twin.
    assert_eq!(plan.trials.len(), (6 + 3) * 5);
    assert_eq!(plan.warnings, []);
    assert_eq!(plan.stages[0].baseline["twin"], "no");
    let twins: Vec<&TrialPlan> = plan
        .trials
        .iter()
        .filter(|t| t.levels["twin"] == "yes")
        .collect();
    assert_eq!(twins.len(), 3 * 5);
    assert!(twins.iter().all(|t| t.levels["path"] == "direct"));
    let taken = PROXY.replace("[factor]", "[factor]\ntwin = [1, 2]");
    let error = parse(&taken.replace("repeats = 5", "aa = true"))
        .unwrap_err()
        .to_string();
    assert!(error.contains("`aa = true` in [design]"), "{error}");
}

#[test]
fn a_tuning_profile_is_part_of_the_plan() {
    let tuned = |name: &str| parse(&format!("{PROXY}tune = \"{name}\"\n"));
    let plan = tuned("connection-rate").unwrap();
    assert_eq!(plan.tune.unwrap().name, "connection-rate");
    assert_eq!(parse(PROXY).unwrap().tune, None);
    let error = tuned("connection-rat").unwrap_err();
    assert!(
        error
            .to_string()
            .contains("did you mean `connection-rate`?"),
        "{error}"
    );
    assert!(
        error.to_string().starts_with("experiment.toml:26:"),
        "{error}"
    );
    assert!(error.remedy().contains("throughput"), "{}", error.remedy());
    let error = tuned("mine.toml").unwrap_err();
    assert!(error.to_string().contains("No such file"), "{error}");
}

const TABLE: &str = r#"
question = "q"
[target.s]
origin = {}
[factor]
workers = [1, 2]
stack = ["kernel", "bypass"]
[load]
url = "http://s/"
"#;

#[test]
fn tables_name_factors_and_figures() {
    let text = format!(
        "{TABLE}[[table]]\ntitle = \"Requests\"\nrows = \"workers\"\ncolumns = [\"stack\"]\n\
         figures = [\"rate_per_s.max\", \"response_ns_p99\"]\nonly = {{ workers = 2 }}\n\
         [[table]]\nkind = \"calls\"\ntarget = \"s\"\nstage = \"main\"\n"
    );
    let tables = parse(&text).unwrap().tables;
    assert_eq!(
        (tables[0].rows.as_slice(), tables[0].columns.as_slice()),
        (
            ["workers".to_owned()].as_slice(),
            ["stack".to_owned()].as_slice()
        )
    );
    let figures: Vec<String> = tables[0].figures.iter().map(|f| f.to_string()).collect();
    assert_eq!(figures, ["rate_per_s.max", "response_ns_p99"]);
    let level = |workers: &str| BTreeMap::from([("workers".to_owned(), workers.to_owned())]);
    assert!(tables[0].keeps(&level("2")) && !tables[0].keeps(&level("1")));
    assert_eq!(tables[1].kind.name(), "calls");
}

#[test]
fn what_is_wrong_with_a_table() {
    for (table, what) in [
        ("rows = \"workers\"", "[[table]] has no `figures`"),
        (
            "figures = \"rate_per_sec\"",
            "unknown figure `rate_per_sec` in [[table]]; did you mean `rate_per_s`?",
        ),
        (
            "figures = \"rate_per_s\"\nrows = \"worker\"",
            "unknown factor `worker` in [[table]]; did you mean `workers`?",
        ),
        (
            "figures = \"rate_per_s\"\nonly = { stack = \"kernal\" }",
            "unknown level `kernal` in factor `stack`; did you mean `kernel`?",
        ),
        (
            "figures = \"rate_per_s\"\nstage = \"mian\"",
            "unknown stage `mian` in [[table]]; did you mean `main`?",
        ),
        (
            "kind = \"call\"",
            "unknown value `call` in kind; did you mean `calls`?",
        ),
        (
            "kind = \"calls\"\ntarget = \"t\"",
            "unknown target `t` in [[table]]",
        ),
        (
            "kind = \"cores\"\nfigures = \"rate_per_s\"",
            "`figures` and `kind = \"cores\"` cannot both be given in one [[table]]: \
             this kind of table has columns of its own",
        ),
        (
            "figure = \"rate_per_s\"",
            "unknown key `figure` in [[table]]; did you mean `figures`?",
        ),
    ] {
        let error = parse(&format!("{TABLE}[[table]]\n{table}\n")).unwrap_err();
        let all: Vec<String> = error.problems.iter().map(|p| p.fault.to_string()).collect();
        assert!(all.iter().any(|fault| fault == what), "{table}: {all:?}");
    }
}

/// Ids of the trials of one block with these levels of `path`.
fn of_block(plan: &Plan, block: u32, path: &str) -> Vec<u32> {
    let here = |t: &&TrialPlan| t.block == block && t.levels["path"] == path;
    plan.trials.iter().filter(here).map(|t| t.id).collect()
}

#[test]
fn a_disturbed_trial_is_measured_again_beside_its_baseline() {
    let mut plan = parse(PROXY).unwrap();
    let before = plan.clone();
    let id = of_block(&plan, 2, "proxied")[0];
    let levels = plan.trials[id as usize].levels.clone();
    assert_eq!(plan.measure_again(&[id]), 1);
    assert_eq!(plan.trials[..30], before.trials[..]);
    let [one, other] = &plan.trials[30..] else {
        panic!("two trials: {:?}", plan.trials.len());
    };
    assert_eq!((one.block, other.block), (5, 5));
    let replaces: Vec<_> = plan.again.iter().filter(|a| a.replaces).collect();
    assert_eq!((replaces.len(), replaces[0].of), (1, id));
    let by = plan.trials.iter().find(|t| t.id == replaces[0].trial);
    assert_eq!(by.unwrap().levels, levels);
    let beside = plan.again.iter().find(|a| !a.replaces).unwrap();
    let baseline = &before.trials[beside.of as usize];
    assert_eq!(
        (baseline.block, baseline.levels["path"].as_str()),
        (2, "direct")
    );
    assert_eq!(baseline.levels["proxy_buffers"], levels["proxy_buffers"]);
    // Once is enough, also for what was added.
    let added: Vec<u32> = plan.again.iter().map(|a| a.trial).collect();
    assert_eq!(plan.measure_again(&[id, added[0], added[1]]), 0);
    // What is stored is read again, and a block more comes after all of it.
    let stored = serde_json::to_value(&plan).unwrap();
    let mut read: Plan = serde_json::from_value(stored).unwrap();
    assert_eq!(read, plan);
    assert_eq!(read.add_block(0), 6);
    assert_eq!(read.trials[..32], plan.trials[..]);
    let ids: BTreeSet<u32> = read.trials.iter().map(|t| t.id).collect();
    assert_eq!(ids.len(), 38);
}

#[test]
fn a_disturbed_baseline_is_measured_again_with_all_that_are_compared_with_it() {
    let path = "path = [\"direct\", \"proxied\"]";
    let three = PROXY
        .replace(path, "path = [\"direct\", \"proxied\", \"twice\"]")
        .replace(
            "proxied = \"http://proxy/\" }",
            "proxied = \"http://proxy/\", twice = \"http://proxy/\" }",
        );
    let mut plan = parse(&three).unwrap();
    let id = of_block(&plan, 0, "direct")[0];
    assert_eq!(plan.measure_again(&[id]), 1);
    let added = &plan.trials[45..];
    let paths: BTreeSet<&str> = added.iter().map(|t| t.levels["path"].as_str()).collect();
    assert_eq!((added.len(), paths.len()), (3, 3));
    assert_eq!(plan.again.iter().filter(|a| a.replaces).count(), 1);
}

/// Without a budget a quarter of the planned time, with one what it leaves; each cell's first before any second.
#[test]
fn what_is_measured_again_keeps_to_the_budget() {
    let all = |plan: &Plan| plan.trials.iter().map(|t| t.id).collect::<Vec<_>>();
    let mut plan = parse(PROXY).unwrap();
    let disturbed = all(&plan);
    let again = plan.measure_again(&disturbed);
    assert!(plan.time() <= Nanos::from_secs(360 + 90));
    let replaces = plan.again.iter().filter(|a| a.replaces).count();
    assert_eq!((again, replaces), (6, 6), "{:?}", plan.again);
    let cells: BTreeSet<_> = plan.trials[30..].iter().map(|t| t.levels.clone()).collect();
    assert_eq!(cells.len(), 6);
    let limited = PROXY.replace("repeats = 5", "repeats = 5\nbudget = \"6m\"");
    let mut none_left = parse(&limited).unwrap();
    assert_eq!(none_left.budget, Some(Nanos::from_secs(360)));
    assert_eq!(none_left.measure_again(&disturbed), 0);
    let ample = PROXY.replace("repeats = 5", "repeats = 5\nbudget = \"1h\"");
    let mut ample = parse(&ample).unwrap();
    assert_eq!(ample.measure_again(&disturbed), 30);
    // Trials of different loads are not mixed up where there is no baseline.
    let alone = PROXY.replace("baseline = { path = \"direct\" }\n", "");
    let mut alone = parse(&alone).unwrap();
    assert_eq!(alone.measure_again(&[3]), 1);
    assert_eq!(alone.trials.len(), 31);
}

#[test]
fn six_repeats_are_the_default() {
    let plan = parse(&PROXY.replace("repeats = 5\n", "")).unwrap();
    assert_eq!(plan.stages[0].repeats, 6);
}

#[test]
fn a_load_names_its_hosts() {
    let with = |load: &str, rest: &str| {
        let text = format!(
            "question = \"?\"\n{rest}\n[host.near]\nvia = [\"env\"]\n[load]\nurl = \"http://10.0.0.1/\"\n{load}\n"
        );
        parse(&text)
    };
    let names =
        |plan: &Plan| -> Vec<String> { plan.hosts.iter().map(|h| h.name.clone()).collect() };
    let plan = with("hosts = [\"near\", \"me@far\"]", "").unwrap();
    assert_eq!(plan.trials[0].load.hosts, ["near", "me@far"]);
    assert_eq!(
        plan.hosts[0].way,
        plan::hosts::HostWay::Via(vec!["env".to_owned()])
    );
    assert_eq!(
        plan.hosts[1].way,
        plan::hosts::HostWay::Ssh("me@far".to_owned())
    );
    // As a factor, and a section that no load names is left alone.
    let plan = with("", "[factor]\nhosts = [\"a\", \"a,b\"]").unwrap();
    assert_eq!(names(&plan), ["a", "b"]);
    let levels: BTreeSet<usize> = plan.trials.iter().map(|t| t.load.hosts.len()).collect();
    assert_eq!(levels, BTreeSet::from([1, 2]));
    let error = |load: &str, rest: &str| with(load, rest).unwrap_err().to_string();
    assert!(error("hosts = \"-x\"", "").contains("must be names of [host.NAME]"));
    let open = "[target.web]\norigin = { listen = \"0.0.0.0:0\" }";
    let load = "hosts = \"near\"\nconnections = 1";
    let on = |rest: &str| error(load, rest);
    assert!(on(&format!("{open}\n[topology]")).contains("[topology]"));
}

#[test]
fn a_target_runs_on_a_host_that_is_reached() {
    let with = |backend: &str, rest: &str| {
        let text = format!(
            "question = \"?\"\n{rest}\n[host.far]\nssh = \"root@10.0.0.3\"\n[target.backend]\norigin = {{}}\n\
             cpus = [1]\n{backend}\n[target.proxy]\ncommand = [\"p\", \"{{{{backend}}}}\"]\n\
             [load]\nurl = \"http://proxy/\"\ncpus = [1]\n"
        );
        parse(&text)
    };
    let there = "host = \"far\"\nlisten = \"10.0.0.3:8080\"";
    let plan = with(there, "").unwrap_or_else(|e| panic!("{e}"));
    let trial = &plan.trials[0];
    let hosts = trial
        .targets
        .iter()
        .map(|t| (t.name.as_str(), trial.reached_host(t)));
    assert_eq!(
        hosts.collect::<Vec<_>>(),
        [("backend", Some("far")), ("proxy", None)]
    );
    assert_eq!(plan.target_hosts()[0].name, "far");
    assert!(plan.load_hosts().is_empty());
    assert_eq!(plan.warnings, [], "its core 1 is not the generator's");
    let plan = with(there, "[design]\ntune = \"connection-rate\"");
    let warnings = plan.unwrap().warnings;
    assert!(
        warnings.iter().any(|w| w.name == "not_tuned_there"),
        "{warnings:?}"
    );
    for (backend, rest, want) in [
        (
            "host = \"fra\"\nlisten = \"10.0.0.3:8080\"",
            "",
            "unknown host `fra` in [target.backend] (a [host.NAME], or [topology])",
        ),
        (
            "host = \"far\"",
            "",
            "`listen = 127.0.0.1:0` and `host = far` cannot both be given",
        ),
        (
            "host = \"far\"\nlisten = \"0.0.0.0:8080\"",
            "",
            "`listen = 0.0.0.0:8080` and `host = far` cannot both be given",
        ),
        (
            there,
            "[topology]",
            "`host` and `[topology]` cannot both be given",
        ),
    ] {
        let error = with(backend, rest).expect_err(want).to_string();
        assert!(error.contains(want), "{error}");
    }
    // A proxy there uses a backend here, which only this host would reach.
    let error = parse(
        "question = \"?\"\n[host.far]\nssh = \"f\"\n[target.backend]\norigin = {}\n[target.proxy]\n\
         command = [\"p\", \"{{backend}}\"]\nhost = \"far\"\nlisten = \"10.0.0.3:80\"\n\
         [load]\nurl = \"http://proxy/\"\n",
    );
    let error = error.unwrap_err().to_string();
    assert!(
        error.contains("`listen = 127.0.0.1:0` and `a target on another host`"),
        "{error}"
    );
}
