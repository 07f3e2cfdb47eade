#!/usr/bin/env python3
"""Whether prony tells the truth about a server that freezes: measured response times beside arithmetic.

The built-in origin stops for F in every P. Requests come at a steady rate R, whatever the server does, over fewer
connections than there are requests in a freeze. A generator that waits for the server would hardly notice (the error
is called coordinated omission); the response time from the scheduled send follows from F, P, the rate at which the
server works off what has gathered (measured without a freeze, over the same connections), and the same run's times from
the actual send, see README.md.
"""

import argparse
import base64
import json
import shutil
import struct
import subprocess
import sys
import tempfile
import zlib
from pathlib import Path

from common import EXIT_COMPARISON, EXIT_ENVIRONMENT, EXIT_INVALID, EXIT_VALID, Failed, progress

QUANTILES = {"p50": 0.50, "p95": 0.95, "p99": 0.99}
# prony says 3 when it finds the schedule not met; the figures are shown and judged all the same.
PRONY_MEASURED = (0, 3)
EXPERIMENT = """
question = "Are the response times of a server that freezes what they must be?"
[target.origin]
origin = {{ listen = "127.0.0.1:0", threads = 1{freeze} }}
[load]
url = "http://origin/bytes/1k"
connections = {connections}
threads = 1
{rate}
[design]
repeats = 1
warmup = "{period_ms}ms"
measure = "{seconds}s"
"""
CAPACITY_SECONDS = 2


# ---- measuring ----


def measure(options):
    """One trial with the built-in origin that freezes; its outcome as stored, all histograms included."""
    freeze = f', freeze = "{options.freeze_ms}ms/{options.period_ms}ms"'
    return trial(options, freeze, f"rate = {options.rate}", options.seconds)


def capacity(options):
    """Requests per second that the origin serves over these connections when it never freezes and always has work."""
    outcome = trial(options, "", "", CAPACITY_SECONDS)
    seconds = (outcome["measured_to"] - outcome["measured_from"]) / 1e9
    return outcome["requests"]["succeeded"] / seconds


def trial(options, freeze, rate, seconds):
    with tempfile.TemporaryDirectory() as home:
        experiment = Path(home, "freeze.toml")
        experiment.write_text(EXPERIMENT.format(**vars(options) | {"freeze": freeze, "rate": rate, "seconds": seconds}))
        out = Path(home, "record")
        argv = [options.prony, "run", str(experiment), "--out", str(out)]
        progress("frozen" if freeze else "capacity")
        done = subprocess.run(argv, capture_output=True, text=True, timeout=seconds + 60)
        if done.returncode not in PRONY_MEASURED:
            raise Failed(f"{' '.join(argv)}\nexit code {done.returncode}: {done.stderr.strip()}")
        stored = json.loads(Path(out, "trials/0000/trial.json").read_text())
    outcome = stored["outcome"]
    if not outcome or not outcome["requests"]["succeeded"]:
        raise Failed(f"no request succeeded: {stored['state']}")
    return outcome


# ---- HdrHistogram, V2 compressed: the reverse of what prony writes ----


def varints(data):
    """ZigZag LEB128 numbers; a ninth byte carries all its eight bits."""
    value = shift = 0
    for byte in data:
        last = shift == 56
        value |= (byte if last else byte & 0x7F) << shift
        shift += 7
        if last or byte < 0x80:
            yield (value >> 1) ^ -(value & 1)
            value = shift = 0


def histogram(text):
    """(value in ns, count) of the non-empty ranges, rising; the value is a range's highest."""
    packed = base64.b64decode(text)
    plain = zlib.decompress(packed[8:])
    _cookie, length, _offset, digits, lowest = struct.unpack_from(">iiiiq", plain)
    half_bits = (2 * 10**digits - 1).bit_length() - 1
    unit_bits = lowest.bit_length() - 1
    index = 0
    for count in varints(plain[40 : 40 + length]):
        if count <= 0:
            index += max(-count, 1)
            continue
        bucket = max((index >> half_bits) - 1, 0)
        sub = index - (bucket << half_bits)
        yield ((sub + 1) << (bucket + unit_bits)) - 1, count
        index += 1


def mean_ns(ranges):
    return sum(value * count for value, count in ranges) / sum(count for _, count in ranges)


def quantile_ns(ranges, q):
    """Value at or below which the share q lies."""
    rest = q * sum(count for _, count in ranges)
    for value, count in ranges:
        rest -= count
        if rest <= 0:
            return value
    return ranges[-1][0]


def without_slowest(ranges, n):
    """The same without its n highest values."""
    kept = []
    for value, count in reversed(ranges):
        gone = min(n, count)
        n -= gone
        if count > gone:
            kept.append((value, count - gone))
    return kept[::-1]


# ---- the arithmetic ----


def unfrozen_ns(options, service):
    """Times from the send of the requests that met no freeze. In each freeze every connection holds one that did: it
    was sent at the beginning and answered at the end, so these are the slowest of all."""
    freezes = options.seconds * 1000 // options.period_ms
    return without_slowest(service, freezes * options.connections)


def behind_ns(freeze, rate, capacity):
    """From the begin of a freeze until nothing is left of what has gathered. At u from the begin u R requests have come;
    served at C from F on, the one that comes then is done at F + u R / C, so it waits F - u (1 - R / C): as long as F for
    the first one, and nothing from F / (1 - R / C) on."""
    return freeze / (1 - rate / capacity)


def share_below(t, freeze, behind, unfrozen):
    """Share of requests whose response time is at most t: those that come while nothing has gathered take a time S from
    the send; the share `behind` waits first, a time that is uniform over 0 to F."""
    total = sum(count for _, count in unfrozen)
    outside = sum(count for value, count in unfrozen if value <= t) / total
    inside = sum(count * min(max((t - value) / freeze, 0), 1) for value, count in unfrozen) / total
    return outside * (1 - behind) + inside * behind


def model_quantile_ns(q, freeze, behind, unfrozen):
    low, high = 0, freeze + unfrozen[-1][0]
    while high - low > 1:
        middle = (low + high) // 2
        if share_below(middle, freeze, behind, unfrozen) < q:
            low = middle
        else:
            high = middle
    return high


def model_ns(options, service, served):
    """Mean and quantiles of the response time, from F, P, the rate, the capacity and the times from the send."""
    freeze, period = options.freeze_ms * 1e6, options.period_ms * 1e6
    unfrozen = unfrozen_ns(options, service)
    behind = behind_ns(freeze, options.rate, served) / period
    if not 0 < behind < 1:
        raise Failed(f"at {options.rate}/s what gathers is not worked off before the next freeze ({served:.0f}/s served)")
    truth = {"mean": mean_ns(unfrozen) + freeze * behind / 2}
    for name, q in QUANTILES.items():
        truth[name] = model_quantile_ns(q, freeze, behind, unfrozen)
    return truth


def measured_ns(ranges):
    return {"mean": mean_ns(ranges)} | {name: quantile_ns(ranges, q) for name, q in QUANTILES.items()}


def deviations(truth, response):
    """(name, modelled, measured, deviation in percent)."""
    return [(name, want, response[name], (response[name] / want - 1) * 100) for name, want in truth.items()]


# ---- showing ----


def show(options, requests, service, rows, served):
    print(
        f"origin frozen {options.freeze_ms} ms every {options.period_ms} ms; {options.rate} requests/s"
        f" over {options.connections} connections for {options.seconds} s"
    )
    print(f"sent {requests['sent']}, late {requests['late']}, dropped {requests['dropped']}; {served:.0f}/s served unfrozen\n")
    print(f"{'':6}{'model ms':>12}{'measured ms':>12}{'deviation':>11}{'from the send ms':>18}")
    for name, want, got, percent in rows:
        print(f"{name:6}{want / 1e6:12.3f}{got / 1e6:12.3f}{percent:10.1f}%{service[name] / 1e6:18.3f}")


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--prony", default="target/release/prony", help="binary (%(default)s)")
    parser.add_argument("--rate", type=int, default=1000, help="requests per second (%(default)s)")
    parser.add_argument("--connections", type=int, default=10, help="connections (%(default)s)")
    parser.add_argument("--freeze-ms", type=int, default=200, help="length of a freeze (%(default)s)")
    parser.add_argument("--period-ms", type=int, default=2000, help="from freeze to freeze (%(default)s)")
    parser.add_argument("--seconds", type=int, default=20, help="length, whole periods (%(default)s)")
    parser.add_argument("--limit", type=float, default=5.0, help="largest deviation, percent (%(default)s)")
    options = parser.parse_args()
    if options.seconds * 1000 % options.period_ms:
        parser.error("--seconds must hold whole periods, or the share of frozen requests is not F/P")
    return options


def main():
    options = parse()
    if not shutil.which(options.prony):
        print(f"freeze: there is no {options.prony}\nremedy: make build", file=sys.stderr)
        return EXIT_ENVIRONMENT
    try:
        served = capacity(options)
        outcome = measure(options)
        response, service = (list(histogram(outcome[name])) for name in ("response", "service"))
        rows = deviations(model_ns(options, service, served), measured_ns(response))
    except Failed as failed:
        print(f"freeze: {failed}", file=sys.stderr)
        return EXIT_INVALID
    show(options, outcome["requests"], measured_ns(service), rows, served)
    worst = max(abs(percent) for *_, percent in rows)
    print(f"\nlargest deviation {worst:.1f} %, allowed {options.limit:.1f} %")
    return EXIT_VALID if worst <= options.limit else EXIT_COMPARISON


if __name__ == "__main__":
    sys.exit(main())
