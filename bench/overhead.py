#!/usr/bin/env python3
"""What watching costs the watched: CPU per request and throughput of a fully loaded nginx, monitor by monitor.

nginx runs with one worker on core 0, the load on core 1. Every run with an observer stands between two without
one, and is told as a ratio to their mean, because the machine's speed wanders. CPU is the kernel's account of
the worker (`schedstat`), requests are counted by nginx. The surprise: time that an interrupt or a probe takes is
booked on the worker, so this account contains the observer's cost inside the server, and not its cost outside.

Each part is short: `--only VARIANT` appends its rounds to `--out`, `--table FILE` prints all of them.
"""

import argparse
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
from dataclasses import dataclass, field
from pathlib import Path

from common import EXIT_ENVIRONMENT, EXIT_INVALID, EXIT_VALID, Failed, progress, stop
from peers import nginx, nginx_requests

# From the start of a load to its measurement: connections are made, the worker's core is full.
SETTLE_S = 0.4
# One load serves many stretches: to start another would move the ratios more than most observers do.
LOAD_S = 60
# Longer than any observer took to get ready.
READY_LIMIT_S = 10
# Below this the server's core was not full: something else used the machine, and the ratios are its noise.
FULL_CORE = 0.9
# An observer that does not say that it is ready is taken to be so after this.
SILENT_S = 1.5


class Skipped(Exception):
    """An observer that this machine cannot run; the text is its reason."""


@dataclass(frozen=True)
class Variant:
    """An observer: its command line for a server, and how it says that it is ready."""

    name: str
    what: str
    argv: list = field(default_factory=list)
    ready: str = ""
    # How it is told to end.
    ends: str = "input"


def watch(name, what, *flags):
    argv = ["{watch}", "{main}", "--listen", "{address}", "-d", "60", *flags]
    return Variant(name, what, argv, ready="^armed")


COUNT_CALLS = "tracepoint:raw_syscalls:sys_enter /pid == {worker}/ {{ @[args->id] = count(); }}"

VARIANTS = [
    Variant("null", "nothing"),
    watch("proc", "/proc and sock_diag, 100 ms", "--proc"),
    watch("profile-99", "on-CPU profile, 99 Hz", "--profile", "99"),
    watch("profile-199", "on-CPU profile, 199 Hz", "--profile", "199"),
    watch("profile-499", "on-CPU profile, 499 Hz", "--profile", "499"),
    watch("timing", "the timing pass: /proc and profile 199 Hz", "--proc", "--profile", "199"),
    Variant("diagnose", "the same by `prony diagnose --no-load`", ["{prony}", "diagnose", "--no-load", "--pid", "{main}",
            "-d", "60s", "--probes", "proc"], ends="signal"),
    watch("probes-ebpf", "the signature pass: all probes, eBPF", "--probes", "ebpf"),
    watch("probes-perf", "the signature pass: all probes, perf events", "--probes", "perf_events"),
    watch("off-cpu", "off-CPU profile", "--off-cpu"),
    Variant("perf-record", "`perf record -g`, 199 Hz", ["perf", "record", "-F", "199", "-g", "-p", "{worker}",
            "-o", "{home}/perf.data"], ends="signal"),
    Variant("perf-record-dwarf", "`perf record --call-graph dwarf`, 199 Hz", ["perf", "record", "-F", "199",
            "--call-graph", "dwarf", "-p", "{worker}", "-o", "{home}/perf.data"], ends="signal"),
    Variant("bpftrace", "`bpftrace`, system calls by number", ["bpftrace", "-e", COUNT_CALLS], "Attach", "signal"),
    Variant("perf-trace", "`perf trace -s`", ["perf", "trace", "-s", "-p", "{worker}", "-o", "{home}/trace"],
            ends="signal"),
    Variant("strace", "`strace -c -f`", ["strace", "-c", "-f", "-p", "{worker}"], "attached", "signal"),
]
BY_NAME = {variant.name: variant for variant in VARIANTS}


# ---- the server ----


@dataclass(frozen=True)
class Server:
    """The nginx under test."""

    base: str
    main: int
    worker: int

    @property
    def address(self):
        return self.base.removeprefix("http://")


def children_of(pid):
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [int(word) for word in text.split()]


def as_server(base):
    """The processes behind the address: at this time nginx is our only child."""
    (main,) = children_of(os.getpid())
    workers = children_of(main)
    if len(workers) != 1:
        raise Failed(f"nginx has {len(workers)} workers, not 1")
    return Server(base, main, workers[0])


def run_time_ns(pid):
    """Time on a CPU of the one thread of the worker."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0])


# ---- one run ----


@dataclass(frozen=True)
class Run:
    """One measured stretch of load."""

    cpu_us_per_request: float
    rate_per_s: float
    busy: float
    # CPU time of the observer itself, in cores; 0 without one.
    observer_cores: float = 0.0


def load_command(options, url):
    core, connections = str(options.core), str(options.connections)
    lasts = f"{LOAD_S}s"
    if options.load == "prony":
        return [options.prony, "load", url, "-c", connections, "-t", "1", "-d", lasts, "--cpus", core]
    return ["taskset", "-c", core, "wrk", "-t1", f"-c{connections}", f"-d{lasts}", url]


class Load:
    """The load, renewed when it is about to end."""

    def __init__(self, options, server):
        self.options, self.server = options, server
        self.process, self.ends = None, 0.0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process:
            stop(self.process)

    def keep(self, needed_s):
        """Sees to it that the load lasts for so long."""
        if time.monotonic() + needed_s < self.ends:
            return
        self.__exit__()
        self.ends = time.monotonic() + LOAD_S
        self.process = subprocess.Popen(load_command(self.options, f"{self.server.base}/1k"),
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(SETTLE_S)

    def check(self):
        if self.process.poll() is not None:
            raise Failed(f"{self.process.args[0]} ended early, with code {self.process.returncode}")


def measure(options, server, load):
    """A stretch of the load, by the accounts of nginx and the kernel."""
    load.keep(options.seconds + 1)
    first = account(server)
    time.sleep(options.seconds)
    last = account(server)
    load.check()
    wall_ns, requests, cpu_ns = (b - a for a, b in zip(first, last))
    if requests < 100:
        raise Failed(f"only {requests} requests were served in {wall_ns / 1e9:.1f} s")
    return Run(cpu_ns / requests / 1e3, requests / wall_ns * 1e9, cpu_ns / wall_ns)


def account(server):
    """(clock ns, requests, worker's CPU ns), in one go."""
    return time.monotonic_ns(), nginx_requests(server.base), run_time_ns(server.worker)


# ---- observers ----


def start_observer(variant, options, server, home):
    """The observer at work, and the file with what it says."""
    values = {"watch": options.watch, "prony": options.prony, "main": server.main, "worker": server.worker,
              "address": server.address, "home": home}
    argv = [word.format(**values) for word in variant.argv]
    if not shutil.which(argv[0]):
        raise Skipped(f"{argv[0]} is not there")
    said = tempfile.TemporaryFile("w+")
    observer = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=said, stderr=subprocess.STDOUT, text=True)
    end = time.monotonic() + (READY_LIMIT_S if variant.ready else SILENT_S)
    while time.monotonic() < end and observer.poll() is None:
        if variant.ready and re.search(variant.ready, words_of(said), re.MULTILINE):
            return observer, said
        time.sleep(0.02)
    if observer.poll() is None and not variant.ready:
        return observer, said
    stop(observer)
    raise Skipped(words_of(said).strip()[-300:] or f"it did not get ready within {READY_LIMIT_S} s")


def words_of(said):
    # Not by the file's own position, which the observer writes at.
    return os.pread(said.fileno(), 65536, 0).decode(errors="replace")


def end_observer(variant, observer):
    """Lets it end in its own way, so that nothing of it stays attached to the server."""
    if observer.poll() is None and variant.ends == "signal":
        observer.send_signal(2)
    observer.stdin.close()
    try:
        observer.wait(timeout=15)
    except subprocess.TimeoutExpired:
        stop(observer)


def observed(variant, options, server, load):
    """One run with the observer attached."""
    if not variant.argv:
        return measure(options, server, load)
    load.keep(READY_LIMIT_S + SILENT_S + options.seconds)
    with tempfile.TemporaryDirectory(prefix="prony-bench-") as home:
        observer, said = start_observer(variant, options, server, home)
        with said:
            try:
                before = process_cpu_s(observer.pid)
                began = time.monotonic()
                run = measure(options, server, load)
                if observer.poll() is not None:
                    raise Failed(f"{variant.name} ended early: {words_of(said).strip()[-300:]}")
                cores = (process_cpu_s(observer.pid) - before) / (time.monotonic() - began)
            finally:
                end_observer(variant, observer)
    return Run(run.cpu_us_per_request, run.rate_per_s, run.busy, cores)


def process_cpu_s(pid):
    """CPU time of a process with its threads, in clock ticks' resolution."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


# ---- rounds ----


def measured_rounds(options, variants, server, load, skipped):
    """(variant, before, run, after) of every round; neighbours share a run without an observer.

    A variant that cannot run is left out of the later rounds, with its reason in `skipped`."""
    before = measure(options, server, load)
    for number in range(options.rounds):
        turned = list(variants) if number % 2 == 0 else list(reversed(variants))
        for variant in (v for v in turned if v.name not in skipped):
            try:
                run = observed(variant, options, server, load)
            except Skipped as reason:
                skipped[variant.name] = str(reason)
                continue
            after = measure(options, server, load)
            yield variant, before, run, after
            before = after
        progress(f"round {number + 1} of {options.rounds}")


def as_line(options, variant, before, run, after):
    """One round as it is stored."""
    def ratio(value):
        return value(run) / statistics.mean((value(before), value(after)))

    return {
        "variant": variant.name,
        "cpu_ratio": ratio(lambda r: r.cpu_us_per_request),
        "rate_ratio": ratio(lambda r: r.rate_per_s),
        "neighbours_cpu_ratio": after.cpu_us_per_request / before.cpu_us_per_request,
        "cpu_us_per_request": run.cpu_us_per_request,
        "baseline_cpu_us_per_request": statistics.mean((before.cpu_us_per_request, after.cpu_us_per_request)),
        "baseline_rate_per_s": statistics.mean((before.rate_per_s, after.rate_per_s)),
        "baseline_busy": statistics.mean((before.busy, after.busy)),
        "observer_cores": run.observer_cores,
        "conditions": f"{options.load}, {options.connections} connections, {options.seconds} s a run",
    }


def run_rounds(options):
    variants = [BY_NAME[name] for name in options.only or BY_NAME]
    skipped = {}
    with nginx(options) as (base, _, _), open(options.out, "a", encoding="utf-8") as out:
        server = as_server(base)
        with Load(options, server) as load:
            for done in measured_rounds(options, variants, server, load, skipped):
                print(json.dumps(as_line(options, *done)), file=out, flush=True)
        for name, reason in skipped.items():
            print(json.dumps({"variant": name, "skipped": reason}), file=out)
            print(f"{name} skipped: {reason}", file=sys.stderr)


# ---- computing and showing ----


def interval(values):
    """The order statistics that hold the median with 95 % (binomial); smallest and largest below six values."""
    ordered, n = sorted(values), len(values)
    outside, rank = 0.0, 0
    while rank < n // 2:
        outside += 2 * math.comb(n, rank) / 2**n
        if outside > 0.05:
            break
        rank += 1
    at = max(rank - 1, 0)
    return ordered[at], ordered[n - 1 - at]


def per_cent(values):
    low, high = interval(values)
    return f"{(statistics.median(values) - 1) * 100:+.1f} % ({(low - 1) * 100:+.1f} to {(high - 1) * 100:+.1f})"


def row(variant, rounds):
    measured = [r for r in rounds if "cpu_ratio" in r]
    if not measured:
        reason = rounds[-1]["skipped"].splitlines()[0]
        return f"| {variant.name} | {variant.what} | skipped: {reason} | | | |"
    cpu, rate = ([r[key] for r in measured] for key in ("cpu_ratio", "rate_ratio"))
    own = statistics.median(r["observer_cores"] for r in measured)
    return (f"| {variant.name} | {variant.what} | {per_cent(cpu)} | {per_cent(rate)} "
            f"| {own * 100:.1f} % | {len(measured)} |")


def table(path):
    """Prints the stored rounds as Markdown; whether they are a measurement."""
    lines = [json.loads(line) for line in Path(path).read_text(encoding="utf-8").splitlines()]
    measured = [line for line in lines if "cpu_ratio" in line]
    print("| observer | what it does | server's CPU per request | requests per second | its own CPU, of a core "
          "| rounds |\n|---|---|---|---|---|---|")
    for variant in VARIANTS:
        if rounds := [line for line in lines if line["variant"] == variant.name]:
            print(row(variant, rounds))
    return show_baseline(measured) if measured else False


def show_baseline(measured):
    def median(key):
        return statistics.median(line[key] for line in measured)

    drift = [abs(line["neighbours_cpu_ratio"] - 1) for line in measured]
    print(f"\nWithout an observer: {median('baseline_cpu_us_per_request'):.2f} us of the worker's CPU per request, "
          f"{median('baseline_rate_per_s'):.0f} requests/s, worker {median('baseline_busy') * 100:.0f} % busy; "
          f"neighbouring runs without one differ by {statistics.median(drift) * 100:.1f} % in the median. "
          f"{'; '.join(sorted({line['conditions'] for line in measured}))}.")
    if median("baseline_busy") < FULL_CORE:
        print(f"\n**Not valid**: the worker's core was not full ({FULL_CORE * 100:.0f} % asked): something else used the "
              "machine, or the load was too weak.")
        return False
    return True


# ---- the command line ----


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", action="append", choices=list(BY_NAME), help="this variant; may be repeated")
    parser.add_argument("--list", action="store_true", help="print the variants and end")
    parser.add_argument("--table", metavar="FILE", help="print the rounds stored in FILE as Markdown and end")
    parser.add_argument("--out", default="overhead.jsonl", help="file that rounds are appended to (%(default)s)")
    parser.add_argument("--rounds", type=int, default=9, help="runs of each variant (%(default)s)")
    parser.add_argument("--seconds", type=float, default=1.5, help="length of a run (%(default)s)")
    parser.add_argument("--load", choices=["wrk", "prony"], default="wrk", help="who loads (%(default)s)")
    parser.add_argument("--prony", default="target/release/prony", help="binary (%(default)s)")
    parser.add_argument("--watch", default="target/release/examples/watch",
                        help="the monitors alone (%(default)s)")
    parser.add_argument("--connections", type=int, default=64, help="connections (%(default)s)")
    parser.add_argument("--server-core", type=int, default=0, help="core of nginx (%(default)s)")
    parser.add_argument("--core", type=int, default=1, help="core of the load (%(default)s)")
    return parser.parse_args()


def missing(options):
    """What the machine lacks, as text; empty when nothing."""
    cores = os.sched_getaffinity(0)
    lacks = [name for name in ("nginx", "taskset") if not shutil.which(name)]
    lacks += [f"core {core}" for core in (options.server_core, options.core) if core not in cores]
    loader = options.prony if options.load == "prony" else "wrk"
    lacks += [] if shutil.which(loader) else [loader]
    return ", ".join(lacks)


def main():
    os.environ["PATH"] += ":/usr/sbin"  # where nginx lies, out of an ordinary user's sight
    options = parse()
    if options.list:
        print("\n".join(f"{variant.name:18} {variant.what}" for variant in VARIANTS))
        return EXIT_VALID
    if options.table:
        return EXIT_VALID if table(options.table) else EXIT_INVALID
    if lacks := missing(options):
        print(f"overhead: this machine lacks {lacks}\nremedy: scripts/setup.sh test", file=sys.stderr)
        return EXIT_ENVIRONMENT
    try:
        run_rounds(options)
    except Failed as failed:
        print(f"overhead: {failed}", file=sys.stderr)
        return EXIT_INVALID
    return EXIT_VALID


if __name__ == "__main__":
    sys.exit(main())
