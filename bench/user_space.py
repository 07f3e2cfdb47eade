#!/usr/bin/env python3
"""What does a request cost the generator's core over a TCP of prony's own, beside wrk on sockets?

nginx with one worker on core 0, the generator on core 1, in network namespaces that go with this program: prony speaks
through a TAP, wrk through a veth pair. What a side's packets cost in softirq is led to that side's core (RPS), and the
core's whole user, system and softirq time is divided by the requests. Rounds are interleaved; medians are printed.

The surprise: the server's own cost falls too when packets gather, so a ratio of rates is not the generator's alone.
Needs root, two cores, nginx, wrk and `ip`.
"""

import argparse
import json
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import common

WORKS = {"1 KiB, a connection each": ("1k", True), "1 KiB, keep-alive": ("1k", False),
         "32 KiB, a connection each": ("32k", True), "32 KiB, keep-alive": ("32k", False)}
NGINX = """worker_processes 1; daemon off; master_process off; pid {dir}/nginx.pid; error_log {dir}/error.log;
worker_rlimit_nofile 19000; events {{ worker_connections 16384; }}
http {{ access_log off; sendfile on; tcp_nopush on; keepalive_requests 100000000; keepalive_timeout 600;
  server {{ listen 8080 backlog=4096; root {dir}; }} }}
"""
PORT, CONNECTIONS, LIMIT_S = 8080, 256, 60


def options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--prony", required=True, help="binary to measure")
    parser.add_argument("--rounds", type=int, default=3, help="interleaved rounds (default 3)")
    parser.add_argument("--seconds", type=int, default=3, help="length of a load (default 3)")
    parser.add_argument("--coalesce", default="50us", help="how long packets may gather (default 50us)")
    return parser.parse_args()


class Lab:
    """Two namespaces, a TAP and a veth pair, and nginx; all of it is taken away at the end."""

    def __init__(self, scratch):
        self.server, self.client = (f"prony-bench-{os.getpid()}{side}" for side in "sc")
        self.scratch, self.nginx = pathlib.Path(scratch), None

    def __enter__(self):
        try:
            self.build()
        except BaseException:
            self.__exit__()
            raise
        return self

    def build(self):
        s, c = self.server, self.client
        for line in [f"netns add {s}", f"netns add {c}", f"-n {s} tuntap add dev tap0 mode tap vnet_hdr",
                     f"-n {s} addr add 10.9.0.1/24 dev tap0", f"-n {s} link set tap0 up",
                     f"-n {s} link add veth0 type veth peer name veth1 netns {c}",
                     f"-n {s} addr add 10.8.0.1/24 dev veth0", f"-n {s} link set veth0 up",
                     f"-n {c} addr add 10.8.0.2/24 dev veth1", f"-n {c} link set veth1 up"]:
            subprocess.run(["ip", *line.split()], check=True)
        for space, device, mask in [(s, "tap0", 1), (s, "veth0", 1), (c, "veth1", 2)]:
            steer = f"echo {mask} > /sys/class/net/{device}/queues/rx-0/rps_cpus"
            subprocess.run(["ip", "netns", "exec", space, "sh", "-c", steer], check=True)
        # wrk needs a port for each connection of its own.
        ports = ["net.ipv4.tcp_tw_reuse=1", "net.ipv4.ip_local_port_range=10000 65535"]
        subprocess.run(["ip", "netns", "exec", c, "sysctl", "-qw", *ports], check=True)
        for name, size in [("1k", 1024), ("32k", 32768)]:
            (self.scratch / name).write_bytes(b"x" * size)
        self.scratch.chmod(0o755)
        (self.scratch / "nginx.conf").write_text(NGINX.format(dir=self.scratch))
        nginx = ["nginx", "-p", str(self.scratch), "-c", str(self.scratch / "nginx.conf")]
        self.nginx = subprocess.Popen(["ip", "netns", "exec", s, "taskset", "-c", "0", *nginx],
                                      stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 10
        listening = ["ip", "netns", "exec", s, "ss", "-Hltn", f"sport = :{PORT}"]
        while not subprocess.run(listening, capture_output=True, check=True).stdout:
            if self.nginx.poll() is not None or time.monotonic() > deadline:
                sys.exit(f"nginx did not start: {(self.scratch / 'error.log').read_text()[-500:]}")
            time.sleep(0.05)

    def __exit__(self, *_):
        if self.nginx:
            common.stop(self.nginx)
        for space in (self.server, self.client):
            subprocess.run(["ip", "netns", "del", space], stderr=subprocess.DEVNULL, check=False)


def busy_us(core):
    """User, nice, system, irq and softirq time of a core."""
    fields = next(line for line in open("/proc/stat") if line.startswith(f"cpu{core} ")).split()[1:]
    ticks = [int(fields[at]) for at in (0, 1, 2, 5, 6)]
    return sum(ticks) * 1e6 / os.sysconf("SC_CLK_TCK")


def load(lab, asked, tool, path, each):
    """Requests that succeeded, and what both cores took for one, us."""
    if tool == "wrk":
        command = [lab.client, "taskset", "-c", "1", "wrk", "-t1", f"-c{CONNECTIONS}", f"-d{asked.seconds}s",
                   *(["-H", "Connection: close"] if each else []), f"http://10.8.0.1:{PORT}/{path}"]
    else:
        command = [lab.server, asked.prony, "load", "--json", "--transport", "tap", "--interface", "tap0",
                   "--source", "10.9.0.2-10.9.0.31", "-c", str(CONNECTIONS), "-d", f"{asked.seconds}s", "--cpus", "1",
                   "--coalesce", asked.coalesce, *(["--requests-per-connection", "1"] if each else []),
                   f"http://10.9.0.1:{PORT}/{path}"]
    before = [busy_us(core) for core in (0, 1)]
    done = subprocess.run(["ip", "netns", "exec", *command], capture_output=True, text=True, timeout=LIMIT_S,
                          check=False)
    took = [busy_us(core) - was for core, was in zip((0, 1), before)]
    if tool == "wrk":
        count = re.search(r"(\d+) requests in", done.stdout)
        requests = int(count.group(1)) if count else 0
    else:
        requests = json.loads(done.stdout)["requests"]["succeeded"] if done.stdout else 0
    if not requests:
        sys.exit(f"{tool} had no response: {done.stderr[-500:]}")
    return requests / asked.seconds, took[1] / requests, took[0] / requests


def main():
    asked = options()
    missing = [tool for tool in ("nginx", "wrk", "ip", "ss") if not shutil.which(tool)]
    if missing or os.geteuid() or (os.cpu_count() or 1) < 2:
        sys.exit(f"needs root, two cores, and what is missing: {', '.join(missing) or 'nothing'}")
    asked.prony = str(pathlib.Path(asked.prony).resolve())
    seen = {}
    with tempfile.TemporaryDirectory(prefix="prony-bench-") as scratch, Lab(scratch) as lab:
        for turn in range(asked.rounds):
            for work, (path, each) in WORKS.items():
                for tool in ("wrk", "prony") if turn % 2 == 0 else ("prony", "wrk"):
                    common.progress(f"round {turn + 1} of {asked.rounds}: {work}, {tool}")
                    seen.setdefault((work, tool), []).append(load(lab, asked, tool, path, each))
    print(f"{CONNECTIONS} connections, {asked.rounds} rounds of {asked.seconds} s, coalesced by {asked.coalesce}; "
          "medians (smallest to largest ratio of a round)")
    for work in WORKS:
        wrk, own = seen[work, "wrk"], seen[work, "prony"]
        middle = [[statistics.median(column) for column in zip(*rows)] for rows in (wrk, own)]
        ratios = sorted(a[1] / b[1] for a, b in zip(wrk, own))
        print(f"{work:26} wrk {middle[0][0]:8.0f}/s {middle[0][1]:6.1f} us   tap {middle[1][0]:8.0f}/s "
              f"{middle[1][1]:6.1f} us   rate x{middle[1][0] / middle[0][0]:.2f}   CPU 1/{statistics.median(ratios):.1f} "
              f"({ratios[0]:.1f} to {ratios[-1]:.1f})   server {middle[0][2]:.0f} -> {middle[1][2]:.0f} us")


if __name__ == "__main__":
    main()
