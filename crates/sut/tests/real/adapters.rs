//! Every adapter with its real server: started from the built-in template, asked, reloaded, refused, stopped.
//!
//! A server that is not installed is named by the package that has it, which is what its test holds then.

use crate::bench::{Bench, lives, spec};
use crate::servers::{get, started};
use plan::TargetSpec;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use sut::{TargetError, lacks};

/// Is the server there? Where it is not, the message must name what is missing and how to get it.
fn is_here(spec: &TargetSpec, package: &str) -> bool {
    let Some(missing) = lacks(spec) else {
        return true;
    };
    assert!(
        missing.to_string().ends_with(" is not installed"),
        "{missing}"
    );
    assert!(missing.remedy().contains(package), "{}", missing.remedy());
    false
}

/// A launcher whose directories everybody may enter: Apache's children are not root.
fn open_bench() -> Bench {
    let bench = Bench::new();
    let dir = bench
        .launcher
        .work_dir
        .parent()
        .expect("below a temporary directory");
    std::fs::set_permissions(dir, PermissionsExt::from_mode(0o755)).expect("our own directory");
    bench
}

/// Starts a server, asks it for its page, lets it reload when it can, and stops it without a trace.
fn check(adapter: &str, page: &str, package: &str, version: &str, roles: &[&str], reloads: bool) {
    let section = format!(
        "adapter = \"{adapter}\"\nfiles = {{ \"{page}\" = {{ text = \"hello\" }} }}\nready_timeout = \"60s\""
    );
    let spec = spec(&section, "");
    if !is_here(&spec, package) {
        return;
    }
    let bench = open_bench();
    let mut server = started(&bench, &spec);
    let answer = get(server.address(), "/");
    assert!(
        answer.starts_with("HTTP/1.") && answer.contains(" 200"),
        "{answer}"
    );
    // HAProxy serves no files: its built-in answer is short.
    let body = if adapter == "haproxy" { "ok" } else { "hello" };
    assert!(answer.ends_with(&format!("\r\n\r\n{body}")), "{answer}");
    let record = server.record();
    assert_eq!(record.kind, adapter);
    assert!(record.version.starts_with(version), "{}", record.version);
    let mut seen: Vec<&str> = record.processes.iter().map(|p| p.role.as_str()).collect();
    seen.dedup();
    assert_eq!(seen, roles, "{record:?}");
    let pids: Vec<i32> = record.processes.iter().map(|p| p.pid).collect();
    let mut seen = sut::discover::of_pids(&pids, "s");
    sut::config::read(&mut seen);
    assert_eq!(seen.kind, adapter, "{seen:?}");
    // There is no reader of Caddy's and NaviServer's grammars: what is run is among the files.
    let is_read = !["caddy", "naviserver"].contains(&adapter);
    let of_a_file = seen.directives.iter().any(|d| !d.file.is_empty());
    assert_eq!(of_a_file, is_read, "{seen:?}");
    assert!(!server.files().is_empty());

    let reloaded = server.reload();
    assert_eq!(reloaded.is_ok(), reloads, "{reloaded:?}");
    assert_eq!(server.check_alive(), Ok(()));
    let again = get(server.address(), "/");
    assert!(again.ends_with(body), "after the reload: {again}");
    let pids: Vec<i32> = server
        .processes()
        .iter()
        .map(|p| p.pid)
        .chain(pids)
        .collect();
    server.stop().expect("it stops");
    assert!(!pids.into_iter().any(lives));
    assert_eq!(bench.left(), Vec::<String>::new());
}

#[test]
fn haproxy() {
    check(
        "haproxy",
        "unused",
        "haproxy",
        "HAProxy version ",
        &["main", "worker"],
        true,
    );
}

#[test]
fn apache() {
    check(
        "apache",
        "html/index.html",
        "apache2-bin",
        "Apache/2.",
        &["main", "worker"],
        true,
    );
}

#[test]
fn caddy() {
    check(
        "caddy",
        "html/index.html",
        "caddy",
        "Caddy/",
        &["main"],
        true,
    );
}

#[test]
fn tomcat() {
    check(
        "tomcat",
        "webapps/ROOT/index.html",
        "apt-get install",
        "Apache Tomcat ",
        &["main"],
        false,
    );
}

#[test]
fn naviserver() {
    check(
        "naviserver",
        "html/index.html",
        "NaviServer",
        "NaviServer/",
        &["main"],
        false,
    );
}

/// A refused configuration: the server's words, and the line of the template, which a loop has moved.
#[test]
fn a_refusal_has_the_servers_words_and_the_templates_line() {
    let bench = Bench::new();
    const LOOP: &str = "{% for i in range(3) %}\n# {{i}}\n{% endfor %}\n";
    for (adapter, package, text, want) in [
        (
            "nginx",
            "nginx",
            "events {}\nhttp {\n  lisen 1;\n}\n",
            "unknown directive \"lisen\" in my.conf:6",
        ),
        (
            "haproxy",
            "haproxy",
            "global\n  nbthreads 1\n",
            "parsing [my.conf:5] : unknown keyword 'nbthreads' in 'global' section",
        ),
        (
            "apache",
            "apache2-bin",
            "LoadModule mpm_event_module {{modules}}/mod_mpm_event.so\nListn 80\n",
            "Syntax error on line 5 of my.conf:\nInvalid command 'Listn'",
        ),
        (
            "caddy",
            "caddy",
            "http://:{{port}} {\n  fileserver\n}\n",
            ":5: unrecognized directive: fileserver",
        ),
    ] {
        let spec = spec(
            &format!("adapter = \"{adapter}\"\ntemplate = \"my.conf\""),
            &format!("{LOOP}{text}"),
        );
        if !is_here(&spec, package) {
            continue;
        }
        let (said, remedy) = bench.complaint(&spec);
        assert!(
            said.starts_with("target `s` refuses its configuration: "),
            "{said}"
        );
        assert!(said.contains(want), "{adapter}: {said}");
        assert_eq!(remedy, "correct the target's template");
    }
}

/// Tomcat has no check of its own: its last words tell a refusal from any other death.
#[test]
fn tomcat_refuses_a_broken_server_xml() {
    let spec = spec(
        "adapter = \"tomcat\"\ntemplate = \"my.xml\"",
        "<?xml version=\"1.0\"?>\n{% for i in range(3) %}\n{% endfor %}\n<Server port=\"-1\">\n  <Service>\n</Server>\n",
    );
    if !is_here(&spec, "apt-get install") {
        return;
    }
    let (said, _) = Bench::new().complaint(&spec);
    assert!(said.contains("my.xml; lineNumber: 6;"), "{said}");
}

#[test]
fn a_preload_that_is_missing_stops_the_start() {
    let bench = Bench::new();
    let spec = spec(
        "adapter = \"nginx\"\nenv = { LD_PRELOAD = \"{{root}}/libabsent.so\" }",
        "",
    );
    assert_eq!(lacks(&spec), None, "it may still be laid out");
    let (said, _) = bench.complaint(&spec);
    assert!(
        said.contains("libabsent.so cannot be preloaded: cannot open shared object file"),
        "{said}"
    );
}

#[test]
fn a_level_may_be_a_wrapper_that_names_its_own_file() {
    let bench = Bench::new();
    let mut spec = spec(
        "adapter = \"nginx\"\nwrap = [\"{{stack}}\"]\nvalues = { stack = \"sh {{root}}/wrapper\" }\n\
         files = { wrapper = { text = \"export WRAPPED=yes; exec \\\"$@\\\"\" } }",
        "",
    );
    spec.values
        .insert("unused".to_owned(), "{{another_target}}".to_owned());
    let server = started(&bench, &spec);
    let argv = server.record().command;
    assert!(
        argv[0].ends_with("/sh") && argv[1].ends_with("/wrapper"),
        "{argv:?}"
    );
}

/// Control groups need root, and a kernel that has them: where they cannot be had that is said.
#[test]
fn limits_hold_and_leave_nothing() {
    let bench = Bench::new();
    let spec = spec(
        "adapter = \"nginx\"\nlimits = { cpu = 0.5, memory = \"256MiB\" }",
        "",
    );
    if let Some(error) = lacks(&spec) {
        assert!(matches!(error, TargetError::NoLimit { .. }), "{error}");
        assert!(!error.remedy().is_empty());
        return;
    }
    let server = started(&bench, &spec);
    let groups: Vec<String> = server
        .processes()
        .iter()
        .map(|p| std::fs::read_to_string(format!("/proc/{}/cgroup", p.pid)).expect("it runs"))
        .collect();
    assert!(
        groups.len() > 1 && groups.iter().all(|g| g.contains("/prony-")),
        "{groups:?}"
    );
    let name = groups[0]
        .lines()
        .find_map(|l| Some(l.split_once("/prony-")?.1.to_owned()))
        .expect("seen above");
    let is_left = |dir: &str| {
        Path::new("/sys/fs/cgroup")
            .join(dir)
            .join(format!("prony-{name}"))
            .exists()
    };
    assert!(["cpu", "memory", "", "unified"].into_iter().any(is_left));
    server.stop().expect("it stops");
    assert!(!["cpu", "memory", "", "unified"].into_iter().any(is_left));
    let nowhere = crate::bench::spec("adapter = \"nginx\"\nnuma = 4000000", "");
    assert_eq!(
        lacks(&nowhere).map(|e| e.to_string()),
        Some(bench.complaint(&nowhere).0),
        "known before it starts"
    );
    assert!(bench.complaint(&nowhere).0.contains("to NUMA node 4000000"));
}

#[test]
fn a_target_is_bound_to_a_node() {
    let bench = Bench::new();
    let spec = spec("adapter = \"nginx\"\nnuma = 0", "");
    if !Path::new("/sys/devices/system/node/node0/cpulist").exists() {
        assert!(bench.complaint(&spec).0.contains("NUMA node 0"));
        return;
    }
    let server = started(&bench, &spec);
    let cpus = linux::affinity::of_node(0).expect("seen above");
    assert!(
        server.processes().iter().all(|p| p.cpus == cpus),
        "{:?}",
        server.processes()
    );
    let maps = format!("/proc/{}/numa_maps", server.processes()[0].pid);
    // Kernels without NUMA have no such file; where it is, it shows the policy.
    if let Ok(text) = std::fs::read_to_string(maps) {
        assert!(text.contains("bind:0"), "{text}");
    }
}
