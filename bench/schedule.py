#!/usr/bin/env python3
"""How evenly an open loop's requests arrive, stamped by the server.

`prony load -R` runs on one core against a small server on another (crates/traffic/examples/arrivals.rs), which notes
the time of every arrival and nothing else. The middle half of the stamps is held against a schedule of equal gaps.
The generator's own word is not asked. See README.md.
"""

import argparse
import os
import shutil
import statistics
import struct
import subprocess
import sys

from common import EXIT_COMPARISON, EXIT_ENVIRONMENT, EXIT_INVALID, EXIT_VALID, Failed, progress, stop

MEDIAN_GAP = (0.95, 1.05)
DEVIATION_P50_MS = 0.1
# prony says 3 when it finds the schedule not met; the arrivals are shown and judged all the same.
PRONY_MEASURED = (0, 3)


# ---- measuring ----


def pinned(cpu):
    return lambda: os.sched_setaffinity(0, {cpu})


def arrivals_ns(options, rate):
    """Times of arrival at the server of one load."""
    argv = [options.server, str(2 * rate * options.seconds)]
    server = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, preexec_fn=pinned(options.server_cpu))
    try:
        address = server.stdout.readline().decode().strip()
        load(options, rate, address)
        stamps, _ = server.communicate(timeout=10)
    finally:
        stop(server)
    return [at for (at,) in struct.iter_unpack("<Q", stamps)]


def load(options, rate, address):
    argv = [options.prony, "load", f"http://{address}/", "-R", str(rate), "-c", str(options.connections)]
    argv += ["-t", "1", "-d", f"{options.seconds}s", "--cpus", str(options.load_cpu), "--json"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=options.seconds + 30)
    if done.returncode not in PRONY_MEASURED:
        raise Failed(f"{' '.join(argv)}\nexit code {done.returncode}: {done.stderr.strip()}")


# ---- the arithmetic ----


def evaluate(stamps, rate):
    """Rate, variation of the gaps, and distance from the schedule of equal gaps that fits best."""
    middle = stamps[len(stamps) // 4 : -len(stamps) // 4]
    if len(middle) < 100:
        raise Failed(f"only {len(stamps)} requests arrived")
    gap_ns = 1e9 / rate
    gaps = [later - earlier for earlier, later in zip(middle, middle[1:])]
    offsets = [at - middle[0] - number * gap_ns for number, at in enumerate(middle)]
    # The best fit in the sense of the smallest sum of distances.
    origin = statistics.median(offsets)
    distances_ms = sorted(abs(offset - origin) / 1e6 for offset in offsets)
    return {
        "rate": len(gaps) / (middle[-1] - middle[0]) * 1e9,
        "gap CV": statistics.pstdev(gaps) / statistics.mean(gaps),
        "median gap": statistics.median(gaps) / gap_ns,
        "largest ms": max(gaps) / 1e6,
        "p50 ms": distances_ms[len(distances_ms) // 2],
        "p99 ms": distances_ms[len(distances_ms) * 99 // 100],
    }


def is_even(figures):
    return MEDIAN_GAP[0] <= figures["median gap"] <= MEDIAN_GAP[1] and figures["p50 ms"] < DEVIATION_P50_MS


# ---- showing ----


def show(rows):
    names = list(rows[0][1])
    print(f"{'asked':>7}" + "".join(f"{name:>12}" for name in names))
    for rate, figures in rows:
        print(f"{rate:7}{figures['rate']:12.1f}" + "".join(f"{figures[name]:12.3f}" for name in names[1:]))


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--prony", default="target/release/prony", help="binary (%(default)s)")
    parser.add_argument("--server", default="target/release/examples/arrivals", help="binary (%(default)s)")
    parser.add_argument("--rates", type=int, nargs="+", default=[5_000, 20_000], help="per second (5000 20000)")
    parser.add_argument("--rounds", type=int, default=3, help="loads of each rate (%(default)s)")
    parser.add_argument("--connections", type=int, default=64, help="connections (%(default)s)")
    parser.add_argument("--seconds", type=int, default=4, help="length of a load (%(default)s)")
    parser.add_argument("--server-cpu", type=int, default=0, help="core of the server (%(default)s)")
    parser.add_argument("--load-cpu", type=int, default=1, help="core of the generator (%(default)s)")
    return parser.parse_args()


def medians(rounds):
    return {name: statistics.median(figures[name] for figures in rounds) for name in rounds[0]}


def main():
    options = parse()
    for binary in (options.prony, options.server):
        if not shutil.which(binary):
            print(
                f"schedule: there is no {binary}\n"
                "remedy: make build; cargo build --release -p traffic --example arrivals",
                file=sys.stderr,
            )
            return EXIT_ENVIRONMENT
    rows = []
    try:
        for rate in options.rates:
            rounds = []
            for number in range(options.rounds):
                progress(f"{rate}/s, {number + 1} of {options.rounds}")
                rounds.append(evaluate(arrivals_ns(options, rate), rate))
            rows.append((rate, medians(rounds)))
    except (Failed, OSError, subprocess.TimeoutExpired) as failed:
        print(f"schedule: {failed}", file=sys.stderr)
        return EXIT_INVALID
    show(rows)
    print(f"\nmedians of {options.rounds}; gaps in parts of the asked gap, distances from equal gaps")
    return EXIT_VALID if all(is_even(figures) for _, figures in rows) else EXIT_COMPARISON


if __name__ == "__main__":
    sys.exit(main())
