#!/usr/bin/env python3
"""Whether prony tells the truth about a server that freezes: measured response times beside arithmetic.

The built-in origin stops for F in every P. Requests come at a steady rate R, whatever the server does, over fewer
connections than there are requests in a freeze. A generator that waits for the server would hardly notice (the error
is called coordinated omission); the response time from the scheduled send follows from F and P alone, see README.md.
"""

import argparse
import base64
import contextlib
import json
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile
import zlib

from common import (
    EXIT_COMPARISON,
    EXIT_ENVIRONMENT,
    EXIT_INVALID,
    EXIT_VALID,
    Failed,
    free_port,
    progress,
    stop,
    wait_ready,
)

QUANTILES = {"p50": 0.50, "p95": 0.95, "p99": 0.99}
# prony says 3 when it finds the schedule not met; the figures are shown and judged all the same.
PRONY_MEASURED = (0, 3)


# ---- measuring ----


@contextlib.contextmanager
def origin(prony, freeze):
    """A running origin with one thread, stopped at the end; yields its URL."""
    port = free_port()
    argv = [prony, "origin", "--listen", f"127.0.0.1:{port}", "--threads", "1"]
    argv += ["--freeze", freeze] if freeze else []
    with tempfile.TemporaryFile("w+") as messages:
        server = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=messages)
        try:
            wait_ready(server, port, lambda: messages.seek(0) or messages.read())
            yield f"http://127.0.0.1:{port}/bytes/1k"
        finally:
            stop(server)


def load(options, url, seconds):
    """One open-loop load; its JSON."""
    argv = [options.prony, "load", url, "-c", str(options.connections), "-R", str(options.rate)]
    argv += ["-t", "1", "-d", f"{seconds}s", "--json"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=seconds + 30)
    if done.returncode not in PRONY_MEASURED:
        raise Failed(f"{' '.join(argv)}\nexit code {done.returncode}: {done.stderr.strip()}")
    result = json.loads(done.stdout)
    if not result["requests"]["succeeded"]:
        raise Failed(f"no request succeeded: {result['verdict']['why']}")
    return result


def measure(options):
    """A reference on the unfrozen origin before and after the frozen one, so that a drift falls out."""
    references = []
    with origin(options.prony, None) as url:
        progress("reference, before")
        references.append(load(options, url, options.reference_s))
    with origin(options.prony, f"{options.freeze_ms}ms/{options.period_ms}ms") as url:
        progress("frozen")
        frozen = load(options, url, options.seconds)
    with origin(options.prony, None) as url:
        progress("reference, after")
        references.append(load(options, url, options.reference_s))
    return references, frozen


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


def quantile_ns(text, q):
    """Value below which the share q of a stored histogram lies."""
    ranges = list(histogram(text))
    rest = q * sum(count for _, count in ranges)
    for value, count in ranges:
        rest -= count
        if rest <= 0:
            return value
    return ranges[-1][0]


# ---- the arithmetic ----


def analytic_ns(options, references):
    """Mean and quantiles of the response time, from F, P and the unfrozen origin."""
    freeze, period = options.freeze_ms * 1e6, options.period_ms * 1e6
    share = freeze / period
    base_mean = statistics.mean(r["latency_ns"]["response"]["mean"] for r in references)
    base_p50 = statistics.mean(r["latency_ns"]["response"]["p50"] for r in references)
    truth = {"mean": base_mean + freeze**2 / (2 * period)}
    for name, q in QUANTILES.items():
        if q > 1 - share:
            truth[name] = base_p50 + freeze - period * (1 - q)
        else:
            # All frozen requests lie above: the quantile of the others, taken further up.
            unfrozen = (quantile_ns(r["histogram"], q / (1 - share)) for r in references)
            truth[name] = statistics.mean(unfrozen)
    return truth


def deviations(truth, response):
    """(name, analytic, measured, deviation in percent)."""
    return [(name, want, response[name], (response[name] / want - 1) * 100) for name, want in truth.items()]


# ---- showing ----


def show(options, frozen, rows):
    requests = frozen["requests"]
    print(
        f"origin frozen {options.freeze_ms} ms every {options.period_ms} ms; {options.rate} requests/s"
        f" over {options.connections} connections for {options.seconds} s"
    )
    print(f"sent {requests['sent']}, late {requests['late']}, dropped {requests['dropped']}")
    print(f"verdict: {frozen['verdict']['limit']}: {frozen['verdict']['why']}\n")
    service = frozen["latency_ns"]["service"]
    print(f"{'':6}{'analytic ms':>12}{'measured ms':>12}{'deviation':>11}{'from the send ms':>18}")
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
    parser.add_argument("--reference-s", type=int, default=5, help="length of a reference (%(default)s)")
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
        references, frozen = measure(options)
    except Failed as failed:
        print(f"freeze: {failed}", file=sys.stderr)
        return EXIT_INVALID
    rows = deviations(analytic_ns(options, references), frozen["latency_ns"]["response"])
    show(options, frozen, rows)
    worst = max(abs(percent) for *_, percent in rows)
    print(f"\nlargest deviation {worst:.1f} %, allowed {options.limit:.1f} %")
    return EXIT_VALID if worst <= options.limit else EXIT_COMPARISON


if __name__ == "__main__":
    sys.exit(main())
