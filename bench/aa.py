#!/usr/bin/env python3
"""A/A on real loads: how often are two cells called different that are the same?

One prony run with a twin of its baseline (`aa = true`), the built-in origin against itself. The record is cut into
experiments of a few blocks each, and prony judges each by itself. Beside it the same trials without their blocks: each
piece against the next as two records, which is what `prony compare` has.

With `--proofs N` it is proofs instead: `prony diagnose --aa` of a real nginx, N times: three copies that are the same,
one of which plays the change. A copy that is called better is a change that would have been proved by doing nothing.
"""

import argparse
import contextlib
import json
import math
import pathlib
import shutil
import subprocess
import sys
import tempfile

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

EXPERIMENT = """
question = "Is the origin as fast as itself?"
[target.origin]
origin = {{ listen = "127.0.0.1:0", body = "64KiB" }}
cpus = {server}
[load]
url = "http://origin/"
connections = 64
cpus = {generator}
[design]
aa = true
repeats = {blocks}
measure = "{measure}"
warmup = "100ms"
"""
NGINX = """
daemon off;
worker_processes 1;
user {user};
pid {home}/nginx.pid;
error_log {home}/error.log;
events {{ worker_connections 512; }}
http {{
    access_log off;
    keepalive_requests 1000000;
    gzip on;
    gzip_types text/plain;
    default_type text/plain;
    client_body_temp_path {home}/t1;
    proxy_temp_path {home}/t2;
    fastcgi_temp_path {home}/t3;
    uwsgi_temp_path {home}/t4;
    scgi_temp_path {home}/t5;
    server {{ listen 127.0.0.1:{port}; root {home}; }}
}}
"""
ALPHA = 0.05
RUN_LIMIT_S = 900
PROOF_LIMIT_S = 240


def options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--prony", default="target/release/prony", help="binary to measure with")
    parser.add_argument("--experiments", type=int, default=16, help="experiments to cut the run into")
    parser.add_argument("--blocks", type=int, default=6, help="blocks of each")
    parser.add_argument("--measure", default="300ms", help="length of a trial")
    parser.add_argument("--server", default="[0]", help="CPUs of the origin")
    parser.add_argument("--generator", default="[1]", help="CPUs of the load")
    parser.add_argument("--proofs", type=int, default=0, help="proofs of no change, of nginx, instead of a run")
    return parser.parse_args()


def read(path):
    return json.loads(path.read_text())


def piece(record, target, first, blocks, only=None):
    """A record of the blocks `first` to `first + blocks`; `only` keeps one level of the twin."""
    target.mkdir(parents=True)
    for name in ("manifest.json", "experiment.toml", "environment.json"):
        shutil.copy(record / name, target / name)
    plan = read(record / "plan.json")
    kept = [
        t
        for t in plan["trials"]
        if first <= t["block"] < first + blocks and only in (None, t["levels"]["twin"])
    ]
    plan["trials"] = kept
    (target / "plan.json").write_text(json.dumps(plan))
    for trial in kept:
        source = record / "trials" / f"{trial['id']:04}"
        copy = target / "trials" / source.name
        copy.mkdir(parents=True)
        for name in ("trial.json", "series.json"):
            shutil.copy(source / name, copy / name)
    return target


def judged_in_blocks(prony, directory):
    done = subprocess.run([prony, "report", directory, "--json"], capture_output=True, text=True, timeout=60)
    document = json.loads(done.stdout)
    [stage] = document["fairness"]
    return {
        "tested": stage["comparisons"] > 0,
        "differs": stage["twins_differ"] > 0,
        "ratio": (stage["twin_ratio"] or {}).get("ratio"),
        "smallest_effect": stage["smallest_effect"],
        "noise": stage["trial_noise"],
    }


def judged_apart(prony, before, after):
    done = subprocess.run([prony, "compare", before, after, "--json"], capture_output=True, text=True, timeout=60)
    document = json.loads(done.stdout)
    rates = [f for c in document["cells"] for f in c["figures"] if f["figure"] == "rate_per_s"]
    return {
        "tested": any(f["ratio"]["p"] is not None for f in rates),
        "differs": any((f["ratio"]["p"] or 1) <= ALPHA for f in rates),
    }


def at_least(n, k):
    """Probability of k or more alarms in n experiments at the promised rate."""
    return sum(math.comb(n, i) * ALPHA**i * (1 - ALPHA) ** (n - i) for i in range(k, n + 1))


def line(name, results):
    tested = [r for r in results if r["tested"]]
    alarms = sum(r["differs"] for r in tested)
    p = at_least(len(tested), alarms)
    print(f"{name:<24} {len(tested):>4} {alarms:>7}   {p:.2f}")
    return len(tested), p


def cpu_list(text):
    return text.strip("[] ").replace(" ", "")


def proof(o, url):
    """One proof of no change; the document's `aa`, or None where it came to nothing."""
    argv = [o.prony, "diagnose", "--url", url, "--aa", "--json", "-c", "16", "-d", "1s"]
    argv += ["-H", "Accept-Encoding: gzip", "--cpus", cpu_list(o.generator)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=PROOF_LIMIT_S)
    try:
        return json.loads(done.stdout).get("aa")
    except ValueError:
        raise Failed(f"prony said: {done.stderr.strip()[-400:]}") from None


def logs(found, role, signal):
    rows = [r for p in found for r in p["evidence"] if r["role"] == role and r["signal"] == signal and r["interval"]]
    return [(math.log(r["ratio"]), [math.log(end) for end in r["interval"]]) for r in rows]


def prove(o):
    """A/A proofs of nginx: how often a copy that is the same would have been a proved change."""
    if shutil.which("nginx") is None:
        print("nginx is not installed", file=sys.stderr)
        return EXIT_ENVIRONMENT
    port = free_port()
    with tempfile.TemporaryDirectory() as home:
        home = pathlib.Path(home)
        home.chmod(0o755)
        text = "".join(f"line {n} of a text that compresses as texts do\n" for n in range(700))
        (home / "text.txt").write_text(text)
        user = pathlib.Path(home).owner()
        (home / "nginx.conf").write_text(NGINX.format(home=home, port=port, user=user))
        argv = ["taskset", "-c", cpu_list(o.server), shutil.which("nginx"), "-p", home, "-c", home / "nginx.conf"]
        child = subprocess.Popen([*argv, "-e", home / "error.log"], stderr=subprocess.DEVNULL)
        try:
            wait_ready(child, port, lambda: (home / "error.log").read_text()[-400:])
            found = []
            # Whoever ends it early keeps what was measured.
            with contextlib.suppress(KeyboardInterrupt):
                for n in range(o.proofs):
                    progress(f"proof {n + 1} of {o.proofs}")
                    found.append(proof(o, f"http://127.0.0.1:{port}/text.txt"))
        finally:
            stop(child)
    return show([p for p in found if p and p["result"] in ("equal", "differs")], o.proofs)


def show(found, asked):
    if not found:
        print("no proof was measured", file=sys.stderr)
        return EXIT_INVALID
    decides = ("metric", "against_twin")
    better = sum(all(r["as_predicted"] for r in p["evidence"] if r["role"] in decides) for p in found)
    differs = sum(p["result"] == "differs" for p in found)
    p = at_least(len(found), better)
    print(f"A/A proofs {len(found)}, called better {better}, better or worse {differs}; P(as many or more better at 5 %) {p:.2f}")
    print(f"judged by {', '.join(sorted({f['judged_by']['metric'] for f in found}))}")
    print(f"{'twin / unchanged':<24} {'n':>4} {'interval without 1':>20} {'median distance':>16} {'half interval':>14}")
    for signal in sorted({r["signal"] for p in found for r in p["evidence"] if r["role"] == "noise"}):
        rows = logs(found, "noise", signal)
        apart = sum(low > 0 or high < 0 for _, (low, high) in rows)
        distance = sorted(abs(by) for by, _ in rows)[len(rows) // 2]
        half = sorted((high - low) / 2 for _, (low, high) in rows)[len(rows) // 2]
        print(f"{signal:<24} {len(rows):>4} {apart:>20} {100 * distance:>14.1f} % {100 * half:>12.1f} %")
    if len(found) < asked:
        print(f"{asked - len(found)} of {asked} proofs came to nothing and are left out")
    return EXIT_COMPARISON if p < 0.01 else EXIT_VALID


def main():
    o = options()
    if o.proofs:
        return prove(o)
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        text = EXPERIMENT.format(
            server=o.server, generator=o.generator, blocks=o.experiments * o.blocks, measure=o.measure
        )
        (scratch / "aa.toml").write_text(text)
        record = scratch / "record"
        ran = subprocess.run(
            [o.prony, "run", scratch / "aa.toml", "--out", record, "--json"],
            capture_output=True,
            text=True,
            timeout=RUN_LIMIT_S,
        )
        if not (record / "trials").is_dir():
            print(ran.stderr, file=sys.stderr)
            return EXIT_ENVIRONMENT
        starts = [n * o.blocks for n in range(o.experiments)]
        cut = [piece(record, scratch / f"blocks-{s}", s, o.blocks) for s in starts]
        alone = [piece(record, scratch / f"apart-{s}", s, o.blocks, "no") for s in starts]
        blocks = [judged_in_blocks(o.prony, d) for d in cut]
        apart = [judged_apart(o.prony, a, b) for a, b in zip(alone, alone[1:])]
        whole = judged_in_blocks(o.prony, record)
    print(f"{'A/A':<24} {'n':>4} {'alarms':>7}   P(as many or more at 5 %)")
    tested, p = line("pairs in blocks", blocks)
    line("record against record", apart)
    effects = sorted(r["smallest_effect"] for r in blocks if r["smallest_effect"] is not None)
    if effects:
        print(f"smallest detectable effect, median: {100 * effects[len(effects) // 2]:.1f} %")
    if whole["ratio"] is not None and whole["noise"] is not None:
        print(
            f"all {o.experiments * o.blocks} blocks as one: ratio {whole['ratio']:.4f}, host noise "
            f"{100 * whole['noise']:.1f} %, smallest detectable effect {100 * whole['smallest_effect']:.2f} %"
        )
    if tested < o.experiments:
        print(f"{o.experiments - tested} of {o.experiments} experiments had too few valid trials and are left out")
    if tested == 0:
        print("no experiment had valid trials enough", file=sys.stderr)
        return EXIT_INVALID
    return EXIT_COMPARISON if p < 0.01 else EXIT_VALID


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Failed as failed:
        print(failed, file=sys.stderr)
        sys.exit(EXIT_ENVIRONMENT)
