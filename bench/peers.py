#!/usr/bin/env python3
"""What a request costs prony, beside wrk: CPU time per request on one core, in turn against one nginx.

nginx runs with one worker on core 0, the generator on core 1. The requests are counted by nginx, not by the tool;
the CPU time is the kernel's account of the whole child process, start-up included. The surprise: the machine's
speed wanders, so only the ratio of two runs of the same round means anything; single figures are shown beside it.
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
import time
import urllib.request
from dataclasses import dataclass
from pathlib import Path

from common import EXIT_ENVIRONMENT, EXIT_INVALID, EXIT_VALID, Failed, free_port, progress, stop, wait_ready

NGINX_CONF = """\
{user}
daemon off;
worker_processes 1;
worker_cpu_affinity {mask};
pid nginx.pid;
error_log error.log;
events {{ worker_connections 4096; }}
http {{
    access_log off;
    sendfile on;
    tcp_nopush on;
    keepalive_requests 1000000000;
    keepalive_timeout 1h;
    client_body_temp_path body;
    proxy_temp_path proxy;
    fastcgi_temp_path fastcgi;
    uwsgi_temp_path uwsgi;
    scgi_temp_path scgi;
    server {{
        listen 127.0.0.1:{port} backlog=4096;
        location / {{ root www; }}
        location = /status {{ stub_status; }}
    }}
}}
"""

# prony says 3 when its own core was the limit, which is what happens here by design.
PRONY_MEASURED = (0, 3)


@dataclass(frozen=True)
class Run:
    """One run of one tool."""

    requests: int
    accepts: int
    cpu_user_s: float
    cpu_system_s: float
    wall_s: float

    @property
    def cpu_us_per_request(self):
        return (self.cpu_user_s + self.cpu_system_s) / self.requests * 1e6

    @property
    def cpu_user_us_per_request(self):
        return self.cpu_user_s / self.requests * 1e6

    @property
    def rate_per_s(self):
        return self.requests / self.wall_s


# ---- nginx ----


@contextlib.contextmanager
def nginx(core, body_bytes):
    """A running nginx in a directory of its own, stopped and removed at the end; yields its base URL."""
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="prony-bench-") as directory:
        home = Path(directory)
        (home / "www").mkdir()
        (home / "www" / "file").write_bytes(b"x" * body_bytes)
        # As root the worker would drop to a user that cannot read this directory.
        user = "user root;" if os.geteuid() == 0 else ""
        config = NGINX_CONF.format(user=user, mask=bin(1 << core)[2:], port=port)
        (home / "nginx.conf").write_text(config)
        argv = ["nginx", "-p", directory, "-c", "nginx.conf", "-e", "error.log"]
        server = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            wait_ready(server, port, (home / "error.log").read_text)
            yield f"http://127.0.0.1:{port}"
        finally:
            stop(server)


def counters(base):
    """(accepts, requests) since nginx started; the asking request is in both."""
    with urllib.request.urlopen(f"{base}/status", timeout=2) as answer:
        text = answer.read().decode()
    accepts, _handled, requests = re.search(r"^ (\d+) (\d+) (\d+) $", text, re.MULTILINE).groups()
    return int(accepts), int(requests)


# ---- the tools ----


def commands(options, url, per_request):
    """Command line of each tool for the same load."""
    threads, connections, seconds = "1", str(options.connections), f"{options.seconds}s"
    prony = [options.prony, "load", url, "-c", connections, "-t", threads, "-d", seconds]
    prony += ["--cpus", str(options.core), "--json"]
    wrk = ["taskset", "-c", str(options.core), "wrk", "-t", threads, "-c", connections, "-d", seconds]
    if per_request:
        prony += ["--requests-per-connection", "1"]
        wrk += ["-H", "Connection: close"]
    return {"wrk": wrk + [url], "prony": prony}


def measure(name, argv, base):
    """Runs one command to its end and accounts for it."""
    accepts, requests = counters(base)
    started = time.monotonic()
    with tempfile.TemporaryFile("w+") as messages:
        child = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=messages, text=True)
        try:
            output = child.stdout.read()
            # wait4, because it gives this one child's account.
            _, status, usage = os.wait4(child.pid, 0)
            child.returncode = os.waitstatus_to_exitcode(status)
        finally:
            stop(child)
        wall_s = time.monotonic() - started
        messages.seek(0)
        refuse_failure(name, argv, child.returncode, output, messages.read())
    accepts_after, requests_after = counters(base)
    # The second question is in nginx's answer to it.
    return Run(requests_after - requests - 1, accepts_after - accepts - 1, usage.ru_utime, usage.ru_stime, wall_s)


def refuse_failure(name, argv, code, output, messages):
    """A run with errors is no measurement."""
    failed = None
    if name == "prony" and code in PRONY_MEASURED:
        failed = json.loads(output)["requests"]["failed"]
    elif code != 0:
        failed = f"exit code {code}: {(messages or output).strip()[-400:]}"
    elif found := re.search(r"(Socket errors|Non-2xx).*", output):
        failed = found.group(0)
    if failed:
        raise Failed(f"{' '.join(argv)}\nfailed: {failed}")


def rounds(options, base, per_request):
    """All rounds; within a round the tools run one after the other, the first place alternates."""
    argv = commands(options, f"{base}/file", per_request)
    done = []
    for number in range(options.rounds):
        order = list(argv) if number % 2 == 0 else list(reversed(argv))
        done.append({name: measure(name, argv[name], base) for name in order})
        progress(f"round {number + 1} of {options.rounds}")
    return done


# ---- computing and showing ----


def ratios(done, value):
    """prony / wrk of each round."""
    return [value(r["prony"]) / value(r["wrk"]) for r in done]


def median_row(done, name):
    runs = [r[name] for r in done]
    columns = (
        lambda r: r.cpu_us_per_request,
        lambda r: r.cpu_user_us_per_request,
        lambda r: r.rate_per_s,
        lambda r: r.requests / max(r.accepts, 1),
    )
    return [statistics.median(map(column, runs)) for column in columns]


def show(title, done):
    print(f"\n{title}, {len(done)} rounds")
    print(f"{'':8}{'CPU us/request':>16}{'of it user':>12}{'requests/s':>12}{'requests/conn.':>16}")
    for name in ("wrk", "prony"):
        cpu, user, rate, reuse = median_row(done, name)
        print(f"{name:8}{cpu:16.2f}{user:12.2f}{rate:12.0f}{reuse:16.1f}")
    show_ratio("CPU per request", ratios(done, lambda r: r.cpu_us_per_request))
    show_ratio("requests/s", ratios(done, lambda r: r.rate_per_s))


def show_ratio(what, values):
    middle = statistics.median(values)
    print(f"prony / wrk, {what}: median {middle:.3f}, from {min(values):.3f} to {max(values):.3f}")


# ---- the command line ----


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--prony", default="target/release/prony", help="binary (%(default)s)")
    parser.add_argument("--rounds", type=int, default=7, help="pairs of runs (%(default)s)")
    parser.add_argument("--seconds", type=int, default=3, help="length of a run (%(default)s)")
    parser.add_argument("--connections", type=int, default=64, help="connections (%(default)s)")
    parser.add_argument("--body-bytes", type=int, default=1024, help="size of the file (%(default)s)")
    parser.add_argument("--server-core", type=int, default=0, help="core of nginx (%(default)s)")
    parser.add_argument("--core", type=int, default=1, help="core of the generator (%(default)s)")
    parser.add_argument("--only", choices=["keep-alive", "per-request"], help="one of the two loads")
    return parser.parse_args()


def missing(options):
    """What the machine lacks, as text; empty when nothing."""
    cores = os.sched_getaffinity(0)
    lacks = [name for name in ("nginx", "wrk", "taskset") if not shutil.which(name)]
    lacks += [f"core {core}" for core in (options.server_core, options.core) if core not in cores]
    lacks += [] if shutil.which(options.prony) else [f"{options.prony} (make build)"]
    return ", ".join(lacks)


def run(options):
    with nginx(options.server_core, options.body_bytes) as base:
        size = f"{options.connections} connections, {options.body_bytes} bytes, {options.seconds} s each"
        if options.only != "per-request":
            show(f"keep-alive, {size}", rounds(options, base, per_request=False))
        if options.only != "keep-alive":
            show(f"connection per request, {size}", rounds(options, base, per_request=True))


def main():
    os.environ["PATH"] += ":/usr/sbin"  # where nginx lies, out of an ordinary user's sight
    options = parse()
    if lacks := missing(options):
        print(f"peers: this machine lacks {lacks}\nremedy: scripts/setup.sh test", file=sys.stderr)
        return EXIT_ENVIRONMENT
    try:
        run(options)
    except Failed as failed:
        print(f"peers: {failed}", file=sys.stderr)
        return EXIT_INVALID
    return EXIT_VALID


if __name__ == "__main__":
    sys.exit(main())
