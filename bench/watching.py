#!/usr/bin/env python3
"""What `prony diagnose --no-load` costs a full server: CPU per request with it over without it, in pairs.

nginx (one worker) or a server in Go runs on core 0, wrk on core 1. Two levels are told apart by what prony holds open:
`watching` has samples of /proc and sock_diag alone, `turns` is the pass that traces sampled connections by BPF. `whole`
is a command with its defaults, from its begin to its end. The surprise: without is not another run but the same prony,
stopped by SIGSTOP while it has no program loaded, so that the two windows of a pair stand side by side; behind a whole
command it is gone. CPU is the process clock of the server; it contains what programs take inside the server, and not
what prony's own threads take, which is told beside it.
"""

import argparse
import contextlib
import itertools
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from dataclasses import dataclass
from pathlib import Path

from common import EXIT_ENVIRONMENT, EXIT_INVALID, EXIT_VALID, Failed, free_port, progress, stop, wait_ready
from peers import interval, nginx

STATS = Path("/proc/sys/kernel/bpf_stats_enabled")
POLL_S = 0.02
SETTLE_S = 0.2
# Longer than all that prony does before its first passes, and between two.
PASS_LIMIT_S = 30
# Below this the server's core was not full, and the ratios are somebody else's noise.
FULL_CORE = 0.9
# Asked of the server's CPU per request, and of the programs' run time.
REACH = {"watching": "1.0 %", "turns": "2.5 %", "whole": "-"}
# What a level adds to the command; nothing to the command as users give it.
LEVELS = {
    "whole": None,
    # No second is slow: after the passes of the beginning there are samples only.
    "watching": "rate<1",
    # Every second is slow: prony looks closer as often as it ever does.
    "turns": "rate>1",
}


class Ended(Exception):
    """prony ended, as it does at the end of its time."""


@dataclass(frozen=True)
class Server:
    """A server under load; `pid` is the process that answers, `watched` what prony is told."""

    url: str
    pid: int
    watched: int
    requests: object


@dataclass(frozen=True)
class Window:
    """What was accounted over a stretch of load."""

    wall_ns: int
    requests: int
    server_ns: int
    prony_ns: int
    programs_ns: int

    @property
    def us_per_request(self):
        return self.server_ns / self.requests / 1e3


@dataclass(frozen=True)
class Pair:
    watched: Window
    alone: Window

    @property
    def ratio(self):
        return self.watched.us_per_request / self.alone.us_per_request


# ---- accounts ----


def run_time_ns(pid):
    """CPU time of a whole process, of threads that have ended too, which a sum over /proc/PID/task loses."""
    # CPUCLOCK_SCHED of that process, as clock_getcpuclockid(3) makes it: what schedstat sums up by thread.
    return time.clock_gettime_ns(~pid << 3 | 2)


def programs(pid):
    """Run time (ns) of each BPF program that a process holds, by the program's id; all of it only with `--account`."""
    held = {}
    for fd in Path(f"/proc/{pid}/fdinfo").iterdir():
        with contextlib.suppress(OSError):
            fields = dict(line.split(":", 1) for line in fd.read_text().splitlines() if ":" in line)
            # A link names its program, too, and has no run time.
            if "run_time_ns" in fields:
                held[int(fields["prog_id"])] = int(fields["run_time_ns"])
    return held


def account_of(server):
    return time.monotonic_ns(), server.requests(), run_time_ns(server.pid)


def account(server, prony):
    return (*account_of(server), run_time_ns(prony.pid), programs(prony.pid))


def between(first, last):
    """The window between two accounts; a program that was loaded within it counts from zero."""
    wall, requests, server, own = (b - a for a, b in zip(first[:4], last[:4]))
    if requests < 100:
        raise Failed(f"only {requests} requests were served in {wall / 1e9:.2f} s")
    ran = sum(ns - first[4].get(number, 0) for number, ns in last[4].items())
    return Window(wall, requests, server, own, ran)


def window(server, prony, seconds):
    first = account(server, prony)
    time.sleep(seconds)
    return between(first, account(server, prony))


# ---- servers, load, prony ----


def children_of(pid):
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@contextlib.contextmanager
def nginx_server(options):
    with nginx(options) as (base, _, requests):
        (main,) = children_of(os.getpid())
        (worker,) = children_of(main)
        yield Server(f"{base}/1k", worker, main, requests)


@contextlib.contextmanager
def go_server(options):
    with tempfile.TemporaryDirectory(prefix="prony-bench-") as home:
        program, port = Path(home) / "counted", free_port()
        subprocess.run(["go", "build", "-o", str(program), str(Path(__file__).with_name("counted.go"))], check=True)
        argv = ["taskset", "-c", str(options.server_core), str(program), f"127.0.0.1:{port}"]
        child = subprocess.Popen(argv, env=os.environ | {"GOMAXPROCS": "1"})
        try:
            wait_ready(child, port, lambda: "nothing")
            base = f"http://127.0.0.1:{port}"
            yield Server(f"{base}/", child.pid, child.pid, lambda: int(urllib.request.urlopen(f"{base}/count", timeout=5).read()))
        finally:
            stop(child)


SERVERS = {"nginx": nginx_server, "go": go_server}


@contextlib.contextmanager
def running(argv, **more):
    child = subprocess.Popen(argv, stdout=subprocess.DEVNULL, **more)
    try:
        yield child
    finally:
        # A stopped process takes no signal but this.
        child.send_signal(signal.SIGCONT)
        child.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(timeout=20)
        stop(child)


def load(options, server):
    argv = ["taskset", "-c", str(options.core), "wrk", "-t1", f"-c{options.connections}", "-d10m", server.url]
    return running(argv, stderr=subprocess.DEVNULL)


def prony(options, server, level, said):
    argv = [options.prony, "diagnose", "--no-load", "--quiet", "--pid", str(server.watched), "--overhead", options.overhead]
    if LEVELS[level]:
        argv += ["--for", f"{options.time}s", "-d", "1s", "--when", LEVELS[level]]
    return running(argv, stderr=said)


@contextlib.contextmanager
def stopped(child):
    child.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        child.send_signal(signal.SIGCONT)


@contextlib.contextmanager
def program_times(asked):
    """The kernel keeps the account of programs all the time, which costs as much as they do; afterwards as before."""
    before = STATS.read_text()
    STATS.write_text("1" if asked else "0")
    try:
        yield
    finally:
        STATS.write_text(before)


# ---- levels ----


def until(holds, child, limit_s=PASS_LIMIT_S):
    end = time.monotonic() + limit_s
    while time.monotonic() < end:
        if child.poll() is not None:
            raise Ended
        if holds():
            return True
        time.sleep(POLL_S)
    return False


def pass_begins(child):
    """Waits until programs are loaded, all of them: the same ones in two looks."""
    seen = {}

    def complete():
        nonlocal seen
        before, seen = seen, programs(child.pid)
        return bool(seen) and before.keys() == seen.keys()

    return until(complete, child)


def pass_ends(child):
    return until(lambda: not programs(child.pid), child)


def watching_pairs(options, server, child):
    """Pairs of short windows, in turn with and without first."""
    for _ in ("counting", "turns"):
        if not pass_begins(child) or not pass_ends(child):
            raise Failed("prony made no passes at the beginning")
    for number in itertools.count():
        done = {}
        for alone in (False, True) if number % 2 == 0 else (True, False):
            with stopped(child) if alone else contextlib.nullcontext():
                time.sleep(SETTLE_S)
                done[alone] = window(server, child, options.seconds)
        if programs(child.pid):
            raise Failed("programs were loaded at the level of samples alone")
        yield Pair(done[False], done[True])


def turns_pairs(options, server, child):
    """Each tracing pass, and a window of its length directly behind it."""
    while pass_begins(child) and pass_ends(child) and pass_begins(child):
        watched = traced(server, child)
        with stopped(child):
            time.sleep(SETTLE_S)
            alone = window(server, child, watched.wall_ns / 1e9)
        if programs(child.pid):
            raise Failed("programs were loaded while prony was stopped")
        yield Pair(watched, alone)


def traced(server, child):
    """From the first account with programs to the last."""
    first = last = account(server, child)
    while True:
        time.sleep(POLL_S * 2)
        now = account(server, child)
        if now[4].keys() != first[4].keys():
            return between(first, last)
        last = now


def whole_pairs(options, server, child):
    """A command from its begin to the last that can be read of it, and a window of its length behind it."""
    first = last = account(server, child)
    while child.poll() is None:
        # Its memory is gone before its end is seen.
        with contextlib.suppress(OSError):
            last = account(server, child)
        time.sleep(POLL_S)
    time.sleep(SETTLE_S)
    begun = account_of(server)
    time.sleep((last[0] - first[0]) / 1e9)
    alone = Window(*(b - a for a, b in zip(begun, account_of(server))), prony_ns=0, programs_ns=0)
    yield Pair(between(first, last), alone)


PAIRS = {"watching": watching_pairs, "turns": turns_pairs, "whole": whole_pairs}


def ends_soon(child):
    with contextlib.suppress(subprocess.TimeoutExpired):
        child.wait(timeout=1)
    return child.poll() is not None


def measured(options, name, level):
    """Pairs of one level at one server, from as many runs of prony as are needed."""
    pairs, wanted = [], options.pairs[level]
    with SERVERS[name](options) as server, load(options, server):
        time.sleep(1)
        while len(pairs) < wanted:
            with tempfile.TemporaryFile("w+") as said, prony(options, server, level, said) as child:
                before = len(pairs)
                try:
                    for pair in itertools.islice(PAIRS[level](options, server, child), wanted - len(pairs)):
                        pairs.append(pair)
                        progress(f"{name}, {level}: pair {len(pairs)} of {wanted}")
                except (Ended, OSError):
                    # An account of it that cannot be read is its end, too.
                    if not ends_soon(child):
                        raise
                    if len(pairs) == before:
                        said.seek(0)
                        raise Failed(f"no pair of {name}, {level}; prony said: {said.read()[-400:]}") from None
    return pairs


# ---- showing ----


def per_cent(values):
    low, high, _ = interval(values)
    return f"{statistics.median(values) * 100:+.2f} % ({low * 100:+.2f} to {high * 100:+.2f})"


def show(name, level, pairs, accounted):
    """A row of the table; whether the core was full."""
    middle = statistics.median
    ratios = [pair.ratio - 1 for pair in pairs]
    ran = [pair.watched.programs_ns / pair.watched.wall_ns for pair in pairs]
    own = [pair.watched.prony_ns / pair.watched.wall_ns / os.cpu_count() for pair in pairs]
    busy = middle(pair.alone.server_ns / pair.alone.wall_ns for pair in pairs)
    alone = middle(pair.alone.us_per_request for pair in pairs)
    length = middle(pair.watched.wall_ns for pair in pairs) / 1e9
    print(f"| {name} | {level} | {REACH[level]} | {per_cent(ratios)} | {per_cent(ran) if accounted else '-'} | {per_cent(own)} "
          f"| {alone:.2f} | {busy * 100:.0f} % | {len(pairs)} of {length:.2f} s |", flush=True)
    return busy >= FULL_CORE


# ---- the command line ----


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--prony", default="target/release/prony", help="binary (%(default)s)")
    parser.add_argument("--server", nargs="+", choices=list(SERVERS), default=list(SERVERS), help="servers (all)")
    parser.add_argument("--level", nargs="+", choices=list(LEVELS), default=list(LEVELS), help="levels (all)")
    parser.add_argument("--watching-pairs", type=int, default=50, help="pairs at the watching level (%(default)s)")
    parser.add_argument("--turns-pairs", type=int, default=12, help="pairs with traced turns (%(default)s)")
    parser.add_argument("--whole-pairs", type=int, default=8, help="pairs of whole commands (%(default)s)")
    parser.add_argument("--seconds", type=float, default=0.4, help="a window at the watching level (%(default)s)")
    parser.add_argument("--time", type=int, default=60, help="seconds that prony watches for (%(default)s)")
    parser.add_argument("--overhead", default="1%", help="prony's budget (%(default)s)")
    parser.add_argument("--account", action="store_true", help="account for the programs' run time, which slows them")
    parser.add_argument("--connections", type=int, default=64, help="connections (%(default)s)")
    parser.add_argument("--server-core", type=int, default=0, help="core of the server (%(default)s)")
    parser.add_argument("--core", type=int, default=1, help="core of wrk (%(default)s)")
    options = parser.parse_args()
    options.pairs = {"watching": options.watching_pairs, "turns": options.turns_pairs, "whole": options.whole_pairs}
    return options


def missing(options):
    """What the machine lacks, as text; empty when nothing."""
    cores = os.sched_getaffinity(0)
    lacks = [name for name in ("nginx", "wrk", "taskset", "openssl", "go") if not shutil.which(name)]
    lacks += [f"core {core}" for core in (options.server_core, options.core) if core not in cores]
    lacks += [] if os.access(STATS, os.W_OK) else ["the right to write kernel.bpf_stats_enabled (root)"]
    lacks += [] if shutil.which(options.prony) else [f"{options.prony} (make build)"]
    return ", ".join(lacks)


def run(options):
    """Whether every row is a measurement."""
    print("| server | level | asked | server's CPU per request | programs' run time, of a core | prony's CPU, of the host "
          "| us a request alone | core busy | pairs |\n|---|---|---|---|---|---|---|---|---|")
    with program_times(options.account):
        rows = [show(name, level, measured(options, name, level), options.account)
                for name in options.server for level in options.level]
    if not all(rows):
        print(f"\n**Not valid**: the server's core was not full ({FULL_CORE * 100:.0f} % asked).")
    return all(rows)


def main():
    os.environ["PATH"] += ":/usr/sbin"  # where nginx lies, out of an ordinary user's sight
    options = parse()
    if lacks := missing(options):
        print(f"watching: this machine lacks {lacks}\nremedy: scripts/setup.sh test", file=sys.stderr)
        return EXIT_ENVIRONMENT
    try:
        return EXIT_VALID if run(options) else EXIT_INVALID
    except Failed as failed:
        print(f"watching: {failed}", file=sys.stderr)
        return EXIT_INVALID


if __name__ == "__main__":
    sys.exit(main())
