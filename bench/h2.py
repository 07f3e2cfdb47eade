#!/usr/bin/env python3
"""What a request over HTTP/2 costs prony, beside h2load: CPU time per request on one core, in turn against one server.

The server (nginx with one worker, or nghttpd with one) is on core 0, the generator on core 1; 1 KiB over h2c, and over TLS by
nginx. The CPU time is the kernel's account of the whole child process, start-up included. The surprise: requests are counted
by the tools, since nghttpd counts nothing; a run with a failure is none. Only ratios within a round mean anything.
"""

import argparse
import contextlib
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from common import EXIT_ENVIRONMENT, EXIT_INVALID, EXIT_VALID, Failed, free_port, progress, stop, wait_ready

NGINX_CONF = """\
{user}
daemon off;
worker_processes 1;
worker_cpu_affinity 1;
pid nginx.pid;
error_log error.log;
events {{ worker_connections 4096; }}
http {{
    access_log off;
    keepalive_requests 1000000000;
    keepalive_timeout 1h;
    client_body_temp_path body;
    proxy_temp_path proxy;
    fastcgi_temp_path fastcgi;
    uwsgi_temp_path uwsgi;
    scgi_temp_path scgi;
    server {{
        listen 127.0.0.1:{port} http2;
        listen 127.0.0.1:{tls_port} http2 ssl;
        ssl_certificate cert.pem;
        ssl_certificate_key key.pem;
        root www;
    }}
}}
"""

# Connections and streams on each.
SHAPES = ((8, 8), (1, 100))
# prony says 3 when its own core was the limit, or somebody else used the server's.
PRONY_MEASURED = (0, 3)


@contextlib.contextmanager
def servers():
    """nginx and nghttpd, stopped and removed at the end; yields URLs by name."""
    with contextlib.ExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="prony-bench-")))
        (home / "www").mkdir()
        (home / "www" / "file").write_bytes(b"x" * 1024)
        argv = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout key.pem -out cert.pem"
        argv = argv.split() + ["-days", "2", "-subj", "/CN=localhost"]
        subprocess.run(argv, cwd=home, check=True, stderr=subprocess.DEVNULL)
        port, tls_port, nghttpd_port = free_port(), free_port(), free_port()
        user = "user root;" if os.geteuid() == 0 else ""
        (home / "nginx.conf").write_text(NGINX_CONF.format(user=user, port=port, tls_port=tls_port))
        nginx = ["nginx", "-p", str(home), "-c", "nginx.conf", "-e", "error.log"]
        nghttpd = ["taskset", "-c", "0", "nghttpd", "--no-tls", "-a", "127.0.0.1", "-d", str(home / "www")]
        for argv, at in ((nginx, port), (nghttpd + [str(nghttpd_port)], nghttpd_port)):
            server = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            stack.callback(stop, server)
            wait_ready(server, at, lambda: "")
        yield {
            "nginx, h2c": f"http://127.0.0.1:{port}/file",
            "nghttpd, h2c": f"http://127.0.0.1:{nghttpd_port}/file",
            "nginx, TLS": f"https://127.0.0.1:{tls_port}/file",
        }


def commands(options, url, shape):
    """Command line of each tool for the same load."""
    connections, streams = map(str, shape)
    seconds = str(options.seconds)
    h2load = ["taskset", "-c", "1", "h2load", "-t", "1", "-c", connections, "-m", streams, "-D", seconds, url]
    prony = [options.prony, "load", "--json", "--http", "2", "--insecure", "--cpus", "1", "-t", "1"]
    prony += ["-c", connections, "--streams", streams, "-d", f"{seconds}s", url]
    return {"h2load": h2load, "prony": prony, "prony 100us": prony + ["--coalesce", "100us"]}


def measure(name, argv):
    """(requests, user s, system s) of one command."""
    child = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        output = child.stdout.read()
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    finally:
        stop(child)
    if name.startswith("prony"):
        if child.returncode not in PRONY_MEASURED:
            raise Failed(f"{' '.join(argv)}: exit code {child.returncode}")
        counts = json.loads(output)["requests"]
        requests, failed = counts["succeeded"], sum(counts["failed"].values())
    else:
        found = re.search(r"(\d+) succeeded, (\d+) failed, (\d+) errored", output)
        if not found:
            raise Failed(f"{' '.join(argv)}: no result in its output")
        requests, *others = map(int, found.groups())
        failed = sum(others)
    if failed or not requests:
        raise Failed(f"{' '.join(argv)}: {requests} succeeded, {failed} failed")
    return requests, usage.ru_utime, usage.ru_stime


def cell(options, url, shape):
    """Rounds of both tools in turn."""
    argv = commands(options, url, shape)
    done = []
    for number in range(options.rounds):
        order = list(argv) if number % 2 == 0 else list(reversed(argv))
        done.append({name: measure(name, argv[name]) for name in order})
        progress(f"round {number + 1} of {options.rounds}")
    return done


def show(title, done):
    def us(run):
        return (run[1] + run[2]) / run[0] * 1e6

    print(f"\n{title}, {len(done)} rounds")
    print(f"{'':12}{'CPU us/req':>11}{'user':>7}  CPU / h2load  range          rate / h2load")
    for name in done[0]:
        runs = [r[name] for r in done]
        user = statistics.median(run[1] / run[0] * 1e6 for run in runs)
        ratios = sorted(us(r[name]) / us(r["h2load"]) for r in done)
        rate = statistics.median(r[name][0] / r["h2load"][0] for r in done)
        spread = f"{ratios[0]:.2f} to {ratios[-1]:.2f}"
        print(f"{name:12}{statistics.median(map(us, runs)):11.2f}{user:7.2f}  {statistics.median(ratios):12.2f}  {spread:13}  {rate:13.2f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--prony", default="target/release/prony", help="the binary, built for release")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=2)
    options = parser.parse_args()
    missing = [p for p in ("nginx", "nghttpd", "h2load", "openssl", "taskset", options.prony) if not shutil.which(p)]
    if missing:
        print(f"missing: {', '.join(missing)}", file=sys.stderr)
        return EXIT_ENVIRONMENT
    try:
        with servers() as urls:
            for name, url in urls.items():
                for shape in SHAPES:
                    show(f"{name}, {shape[0]} x {shape[1]}", cell(options, url, shape))
    except Failed as cause:
        print(cause, file=sys.stderr)
        return EXIT_INVALID
    return EXIT_VALID


if __name__ == "__main__":
    sys.exit(main())
