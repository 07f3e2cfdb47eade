#!/usr/bin/env python3
"""How true is the latency that prony measures over a TCP of its own? Beside a capture of the same packets on the wire.

nginx with one worker on core 0, prony on core 1, a TAP between them. The kernel stamps every packet of the TAP into a socket's
buffer, which is read after the load: nothing of the measurement runs beside it. A request's time on the wire is from its first
packet to the last of its response; prony's is its `service`, since a wire knows nothing of schedules. Printed are the
percentiles of both and their distance, which is what writing, waking up and reading add.

Needs root, two cores, nginx and `ip`.
"""

import argparse
import json
import math
import pathlib
import socket
import statistics
import struct
import subprocess
import sys
import tempfile

import user_space

SO_TIMESTAMPNS, SO_RCVBUFFORCE, ETH_P_ALL = 35, 33, 3
BUFFER_BYTES = 512 << 20
LOADS = {"closed, 1 connection": ["-c", "1"], "open, 2000/s on 16": ["-c", "16", "-R", "2000"],
         "closed, 16 connections": ["-c", "16", "-n", "40000"]}


def capture(space):
    """A socket in the namespace that keeps every packet of its TAP, with the kernel's time."""
    own = open("/proc/self/ns/net")
    with open(f"/run/netns/{space}") as there:
        set_namespace(there)
    try:
        taken = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
        taken.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, BUFFER_BYTES)
        taken.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        taken.bind(("tap0", 0))
        taken.setblocking(False)
        return taken
    finally:
        set_namespace(own)
        own.close()


def set_namespace(file):
    import ctypes
    if ctypes.CDLL(None, use_errno=True).setns(file.fileno(), 0):
        sys.exit("cannot enter the namespace")


def wire_times_ns(taken):
    """Of each request with a whole response behind it; and how many packets were lost by the socket."""
    begun, last, times = {}, {}, []
    while True:
        try:
            frame, extra, _, _ = taken.recvmsg(128, 128)
        except BlockingIOError:
            break
        if frame[12:14] != b"\x08\0" or frame[23] != 6:
            continue
        seconds, nanoseconds = struct.unpack("qq", extra[0][2])
        at, tcp = seconds * 10**9 + nanoseconds, 14 + (frame[14] & 15) * 4
        source, target = struct.unpack(">HH", frame[tcp:tcp + 4])
        payload = struct.unpack(">H", frame[16:18])[0] - (tcp - 14) - (frame[tcp + 12] >> 4) * 4
        if payload <= 0:
            continue
        if target == user_space.PORT:
            flow = frame[26:30], source
            if flow in last:
                times.append(last.pop(flow) - begun[flow])
            begun[flow] = at
        else:
            flow = frame[30:34], target
            if flow in begun:
                last[flow] = at
    times.extend(at - begun[flow] for flow, at in last.items())
    lost = struct.unpack("II", taken.getsockopt(263, 6, 8))[1]  # SOL_PACKET, PACKET_STATISTICS
    return times, lost


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--prony", required=True, help="binary to measure")
    parser.add_argument("--rounds", type=int, default=3, help="interleaved rounds (default 3)")
    parser.add_argument("--seconds", type=int, default=3, help="length of a load at most (default 3)")
    parser.add_argument("--coalesce", default="0", help="how long packets may gather (default 0)")
    asked = parser.parse_args()
    asked.prony = str(pathlib.Path(asked.prony).resolve())
    seen = {}
    with tempfile.TemporaryDirectory(prefix="prony-bench-") as scratch, user_space.Lab(scratch) as lab:
        for _ in range(asked.rounds):
            for name, flags in LOADS.items():
                taken = capture(lab.server)
                command = [asked.prony, "load", "--json", "--transport", "tap", "--interface", "tap0", "--source",
                           "10.9.0.2-10.9.0.31", "-d", f"{asked.seconds}s", "--cpus", "1", "--coalesce", asked.coalesce,
                           *flags, f"http://10.9.0.1:{user_space.PORT}/1k"]
                done = subprocess.run(["ip", "netns", "exec", lab.server, *command], capture_output=True, text=True,
                                      timeout=user_space.LIMIT_S, check=False)
                if not done.stdout:
                    sys.exit(done.stderr[-500:])
                result = json.loads(done.stdout)
                times, lost = wire_times_ns(taken)
                taken.close()
                times.sort()
                cuts = [times[math.ceil(len(times) * share) - 1] for share in (0.5, 0.99)]
                seen.setdefault(name, []).append((result["latency_ns"]["service"], *cuts, len(times), lost))
    print(f"coalesced by {asked.coalesce}, {asked.rounds} rounds; microseconds, medians (largest distance of a round)")
    for name, rows in seen.items():
        for at, label in enumerate(["p50", "p99"]):
            own = [row[0][label] / 1e3 for row in rows]
            wire = [row[1 + at] / 1e3 for row in rows]
            away = sorted((a - b for a, b in zip(own, wire)), key=abs)
            print(f"{name:24} {label}  prony {statistics.median(own):8.1f}   wire {statistics.median(wire):8.1f}   "
                  f"distance {statistics.median(away):5.1f} ({away[-1]:.1f})   {rows[0][3]} requests, "
                  f"{sum(row[4] for row in rows)} packets lost by the capture")


if __name__ == "__main__":
    main()
