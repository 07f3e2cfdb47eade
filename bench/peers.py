#!/usr/bin/env python3
"""What a request costs prony, beside wrk and other peers: CPU time per request on one core, in turn against one server.

The server runs on core 0, the generator on core 1. nginx counts its requests itself; `prony origin` cannot be asked
while it runs, so there the tool's own count is taken. The CPU time is the kernel's account of the generator's whole
process. The surprise: the machine's speed wanders, so only the ratio of two runs of the same round means anything.
"""

import argparse
import contextlib
import json
import math
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path

from common import EXIT_ENVIRONMENT, EXIT_INVALID, EXIT_VALID, Failed, free_port, progress, stop, wait_ready

NGINX_CONF = """\
{user}
daemon off;
worker_processes 1;
worker_cpu_affinity {mask};
worker_rlimit_nofile 20000;
pid nginx.pid;
error_log error.log;
events {{ worker_connections 16384; }}
http {{
    access_log off;
    sendfile on;
    tcp_nopush on;
    keepalive_requests 1000000000;
    keepalive_timeout 1h;
    ssl_certificate cert.pem;
    ssl_certificate_key key.pem;
    ssl_session_cache off;
    ssl_session_tickets off;
    client_body_temp_path body;
    proxy_temp_path proxy;
    fastcgi_temp_path fastcgi;
    uwsgi_temp_path uwsgi;
    scgi_temp_path scgi;
    server {{
        listen 127.0.0.1:{port} backlog=4096;
        listen 127.0.0.1:{tls_port} ssl backlog=4096;
        location / {{ root www; }}
        location = /status {{ stub_status; }}
    }}
}}
"""
CERTIFICATE = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=localhost -keyout key.pem -out cert.pem"
FILES = {"1k": 1024, "91k": 91 * 1024, "1m": 1 << 20}
# prony says 3 when its own core was the limit, which is what happens here by design.
PRONY_MEASURED = (0, 3)
BASELINE = "wrk"
COVERAGE = 0.95


@dataclass(frozen=True)
class Work:
    """A load that every tool is asked for."""

    name: str
    server: str
    connections: int
    file: str = "1k"
    each: bool = False
    tls: bool = False
    # Variants of prony: label and flags.
    prony: dict = field(default_factory=lambda: {"prony": []})


ENGINES = {"prony epoll": ["--engine", "epoll"], "prony uring": ["--engine", "uring"]}
GATHERING = {"prony": [], "prony 50us": ["--coalesce", "50us"]}
WORKS = [
    Work("origin-256", "origin", 256, prony=ENGINES),
    Work("origin-1000", "origin", 1000, prony=ENGINES),
    Work("nginx-16", "nginx", 16, prony=GATHERING),
    Work("nginx-64", "nginx", 64, prony=GATHERING),
    Work("nginx-10000", "nginx", 10000),
    Work("91k", "nginx", 16, file="91k"),
    Work("1m", "nginx", 16, file="1m"),
    Work("connection-each", "nginx", 64, each=True, prony={"prony fin": [], "prony rst": ["--close", "rst"]}),
    Work("https", "nginx", 64, tls=True),
    Work("handshakes", "nginx", 64, each=True, tls=True, prony=ENGINES),
]


@dataclass(frozen=True)
class Run:
    """One run of one tool."""

    requests: int
    cpu_user_s: float
    cpu_system_s: float
    wall_s: float

    @property
    def cpu_us(self):
        return (self.cpu_user_s + self.cpu_system_s) / self.requests * 1e6

    @property
    def user_us(self):
        return self.cpu_user_s / self.requests * 1e6

    @property
    def rate_per_s(self):
        return self.requests / self.wall_s


# ---- servers ----


@contextlib.contextmanager
def nginx(options):
    """A running nginx in a directory of its own, stopped and removed at the end; yields (plain URL, TLS URL, counter)."""
    port, tls_port = free_port(), free_port()
    with tempfile.TemporaryDirectory(prefix="prony-bench-") as directory:
        home = Path(directory)
        (home / "www").mkdir()
        for name, size in FILES.items():
            (home / "www" / name).write_bytes(b"x" * size)
        subprocess.run(CERTIFICATE.split(), cwd=home, check=True, capture_output=True)
        # As root the worker would drop to a user that cannot read this directory.
        user = "user root;" if os.geteuid() == 0 else ""
        mask = bin(1 << options.server_core)[2:]
        (home / "nginx.conf").write_text(NGINX_CONF.format(user=user, mask=mask, port=port, tls_port=tls_port))
        argv = ["nginx", "-p", directory, "-c", "nginx.conf", "-e", "error.log"]
        server = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            wait_ready(server, port, (home / "error.log").read_text)
            base = f"http://127.0.0.1:{port}"
            yield base, f"https://127.0.0.1:{tls_port}", lambda: nginx_requests(base)
        finally:
            stop(server)


def nginx_requests(base):
    """Requests since nginx started, the asking one included."""
    with urllib.request.urlopen(f"{base}/status", timeout=5) as answer:
        return int(re.search(r"^ \d+ \d+ (\d+) $", answer.read().decode(), re.MULTILINE)[1])


@contextlib.contextmanager
def origin(options):
    """A running `prony origin`; yields as `nginx`, without a counter."""
    port = free_port()
    argv = [options.prony, "origin", "--quiet", "--listen", f"127.0.0.1:{port}", "--cpus", str(options.server_core)]
    server = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_ready(server, port, lambda: "nothing")
        yield f"http://127.0.0.1:{port}", None, None
    finally:
        stop(server)


# ---- tools ----


def commands(options, work, url):
    """Command line of each tool for the same load."""
    connections, seconds = str(work.connections), str(options.seconds)
    close = ["-H", "Connection: close"] if work.each else []
    tools = {BASELINE: ["wrk", "-t", "1", "-c", connections, "-d", seconds, *close, url]}
    for label, flags in work.prony.items():
        each = ["--requests-per-connection", "1"] if work.each else []
        load = [options.prony, "load", url, "--quiet", "--json", "-t", "1", "-c", connections, "-d", f"{seconds}s"]
        tools[label] = load + ["--cpus", str(options.core)] + each + flags + (["--insecure"] if work.tls else [])
    if options.peers:
        keep = [] if work.each else ["-k"]
        tools["ab"] = ["ab", "-q", "-n", "1000000000", "-t", seconds, "-c", connections, *keep, url]
        if not work.each:
            tools["h2load"] = ["h2load", "--h1", "-t", "1", "-c", connections, "-D", seconds, url]
        tools["oha"] = ["oha", "--no-tui", "--insecure", "-z", f"{seconds}s", "-c", connections, url]
        tools["oha"] += ["--disable-keepalive"] if work.each else []
        tools["hey"] = ["hey", "-cpus", "1", "-z", f"{seconds}s", "-c", connections, url]
        tools["hey"] += ["-disable-keepalive"] if work.each else []
    return {name: argv for name, argv in tools.items() if shutil.which(argv[0])}


def own_count(name, output):
    """Requests by the tool's own word."""
    if name.startswith("prony"):
        return json.loads(output)["requests"]["succeeded"]
    patterns = {
        "wrk": r"(\d+) requests in",
        "ab": r"Complete requests: +(\d+)",
        "h2load": r"(\d+) succeeded",
        "oha": r"\[200\] (\d+) responses",
        "hey": r"\[200\]\s+(\d+) responses",
    }
    found = re.search(patterns[name], output)
    if not found:
        raise Failed(f"{name} said no number of requests: {output.strip()[-400:]}")
    return int(found[1])


def measure(options, name, argv, counter):
    """Runs one command to its end and accounts for it."""
    before = counter() if counter else 0
    started = time.monotonic()
    pinned = ["taskset", "-c", str(options.core), *argv]
    with tempfile.TemporaryFile("w+") as messages:
        child = subprocess.Popen(pinned, stdout=subprocess.PIPE, stderr=messages, text=True)
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
    # The second question is in nginx's answer to it.
    requests = counter() - before - 1 if counter else own_count(name, output)
    return Run(requests, usage.ru_utime, usage.ru_stime, wall_s)


def refuse_failure(name, argv, code, output, messages):
    """A run with errors is no measurement."""
    failed = None
    if name.startswith("prony") and code in PRONY_MEASURED:
        failed = json.loads(output)["requests"]["failed"]
    elif code != 0:
        failed = f"exit code {code}: {(messages or output).strip()[-400:]}"
    elif found := re.search(r"(Socket errors|Non-2xx).*", output):
        failed = found.group(0)
    if failed:
        raise Failed(f"{' '.join(argv)}\nfailed: {failed}")


def calls_per_request(options, name, argv):
    """System calls of the whole process per request by the tool's own count; None where perf cannot tell."""
    with tempfile.NamedTemporaryFile("r") as counted:
        perf = ["perf", "stat", "-x,", "-o", counted.name, "-e", "raw_syscalls:sys_enter", "--"]
        pinned = ["taskset", "-c", str(options.core), *perf, *argv]
        done = subprocess.run(pinned, capture_output=True, text=True, check=False)
        found = re.search(r"^(\d+),,raw_syscalls", counted.read(), re.MULTILINE)
    if not found:
        return None
    return int(found[1]) / max(own_count(name, done.stdout), 1)


def memory_per_connection(options, work, url):
    """Resident bytes per connection: what a run with many connections holds beyond one with few."""
    few, many = 16, work.connections

    def resident(connections, name):
        argv = commands(options, Work(work.name, work.server, connections, prony=work.prony), url)[name]
        pinned = ["taskset", "-c", str(options.core), *argv]
        child = subprocess.Popen(pinned, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            time.sleep(options.seconds * 0.8)
            status = Path(f"/proc/{child.pid}/status").read_text()
            return int(re.search(r"VmRSS:\s+(\d+) kB", status)[1]) * 1024
        finally:
            stop(child)

    return {name: (resident(many, name) - resident(few, name)) / (many - few) for name in commands(options, work, url)}


def rounds(options, work, url, counter):
    """All rounds; within a round the tools run one after the other, the first place alternates."""
    argv = commands(options, work, url)
    done = []
    for number in range(options.rounds):
        order = list(argv) if number % 2 == 0 else list(reversed(argv))
        done.append({name: measure(options, name, argv[name], counter) for name in order})
        progress(f"{work.name}: round {number + 1} of {options.rounds}")
    calls = {}
    if shutil.which("perf"):
        calls = {name: calls_per_request(options, name, line) for name, line in argv.items()}
    return done, calls


# ---- computing and showing ----


def interval(values):
    """The median's interval by ranks, with the share of cases in which it holds."""
    ranked, n = sorted(values), len(values)
    inner = lambda k: 1 - 2 * sum(math.comb(n, i) for i in range(k + 1)) / 2**n
    cut = max((k for k in range(n // 2) if inner(k) >= COVERAGE), default=0)
    return ranked[cut], ranked[n - 1 - cut], inner(cut)


def show(work, done, calls):
    what = "a connection per request" if work.each else "keep-alive"
    print(f"\n{work.name}: {what}{', TLS' if work.tls else ''}, {work.connections} connections, {work.file}, {work.server}, {len(done)} rounds")
    print(f"{'':14}{'CPU us/req':>11}{'user':>7}{'req/s':>10}{'calls/req':>11}{'CPU / wrk':>11}  interval        rate / wrk")
    for name in done[0]:
        runs = [r[name] for r in done]
        middle = lambda value: statistics.median(map(value, runs))
        cpu, user, rate = middle(lambda r: r.cpu_us), middle(lambda r: r.user_us), middle(lambda r: r.rate_per_s)
        ratios = [r[name].cpu_us / r[BASELINE].cpu_us for r in done]
        speed = statistics.median(r[name].rate_per_s / r[BASELINE].rate_per_s for r in done)
        low, high, _ = interval(ratios)
        made = f"{calls[name]:.2f}" if calls.get(name) else "-"
        print(f"{name:14}{cpu:11.2f}{user:7.2f}{rate:10.0f}{made:>11}{statistics.median(ratios):11.3f}  {low:.3f} to {high:.3f}{speed:11.2f}")


# ---- the command line ----


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--prony", default="target/release/prony", help="binary (%(default)s)")
    parser.add_argument("--rounds", type=int, default=5, help="rounds (%(default)s)")
    parser.add_argument("--seconds", type=int, default=2, help="length of a run (%(default)s)")
    parser.add_argument("--server-core", type=int, default=0, help="core of the server (%(default)s)")
    parser.add_argument("--core", type=int, default=1, help="core of the generator (%(default)s)")
    parser.add_argument("--only", nargs="+", choices=[work.name for work in WORKS], help="some of the loads")
    parser.add_argument("--peers", action="store_true", help="ab, h2load, oha and hey too, as far as they are installed")
    parser.add_argument("--memory", action="store_true", help="only memory per connection, at 9,000 connections")
    return parser.parse_args()


def missing(options):
    """What the machine lacks, as text; empty when nothing."""
    cores = os.sched_getaffinity(0)
    lacks = [name for name in ("nginx", "wrk", "taskset", "openssl") if not shutil.which(name)]
    lacks += [f"core {core}" for core in (options.server_core, options.core) if core not in cores]
    lacks += [] if shutil.which(options.prony) else [f"{options.prony} (make build)"]
    return ", ".join(lacks)


def run(options):
    servers = {"nginx": nginx, "origin": origin}
    if options.memory:
        with origin(options) as (plain, _, _):
            for name, size in memory_per_connection(options, Work("memory", "origin", 9000), f"{plain}/").items():
                print(f"{name:14}{size:10.0f} bytes per connection")
        return
    for work in WORKS:
        if options.only and work.name not in options.only:
            continue
        with servers[work.server](options) as (plain, tls, counter):
            path = f"/{work.file}" if work.server == "nginx" else "/"
            show(work, *rounds(options, work, (tls if work.tls else plain) + path, counter))


def main():
    os.environ["PATH"] += ":/usr/sbin"  # where nginx lies, out of an ordinary user's sight
    options = parse()
    options.prony = str(Path(options.prony).resolve())
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
