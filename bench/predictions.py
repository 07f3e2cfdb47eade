#!/usr/bin/env python3
"""Predicted against proved: what prony said that a change would bring, beside what the change brought.

Every case of the truth set whose planted cause is mended by a change of a configuration is diagnosed with `--prove`:
the prediction is made from the diagnosis's one load, before a copy of the server is started; the proof then measures
the same metric in interleaved blocks. `--records DIR` keeps the records, and `--from DIR` prints the table of records
that were kept, whose predictions are made anew by the binary that reads them.

The surprise: most misses are told by which model was used, so the table says what the prediction stood on.
"""

import argparse
import json
import math
import pathlib
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "truth"))

import lab  # noqa: E402
import run as truth  # noqa: E402

EXIT_VALID, EXIT_COMPARISON, EXIT_USAGE, EXIT_ENVIRONMENT, EXIT_INTERRUPTED = 0, 1, 2, 4, 130
PROOF_LIMIT_S = 420
MEDIAN_ERROR, COVERED = 0.15, (0.85, 0.95)


def options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--prony", default=truth.default_prony(), help="binary; default: the newest below target/")
    parser.add_argument("--only", metavar="PATTERN", action="append", help="cases whose name holds or matches it")
    parser.add_argument("--family", help="cases of one family: nginx, haproxy, apache ...")
    parser.add_argument("--records", metavar="DIR", help="keep the records below DIR")
    parser.add_argument("--from", dest="source", metavar="DIR", help="measure nothing: the records below DIR")
    parser.add_argument("--calibrate", metavar="FILE", help="write the quantiles of the errors, by metric, to FILE")
    parser.add_argument("--json", metavar="FILE", help="write the rows to FILE")
    return parser.parse_args()


def cases(asked):
    """Cases with a planted cause, in the order of their names."""
    chosen = [case for case in truth.all_cases() if "slow" in case.states]
    if asked.family:
        chosen = [case for case in chosen if case.family == asked.family]
    if asked.only:
        chosen = [case for case in chosen if any(truth.matches(case.name, pattern) for pattern in asked.only)]
    return chosen


def answer(argv):
    """prony's document; None with a word on stderr when it gave none."""
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=PROOF_LIMIT_S)
        return json.loads(done.stdout)
    except (subprocess.TimeoutExpired, ValueError) as error:
        print(f"  no answer: {error}", file=sys.stderr)
        return None


def measured(asked, case, directory):
    """Diagnoses the slow state of a case and proves what can be proved."""
    lacking = lab.lacking(case.data)
    if lacking:
        print(f"skip {case.name}: needs {lacking}", file=sys.stderr)
        return None
    record = pathlib.Path(directory) / case.name
    argv = ["taskset", "-c", lab.LOAD_CPU, asked.prony, "diagnose", "--json", "--prove", "--out", str(record)]
    try:
        with lab.Lab(case, "slow", asked.prony, False) as place:
            return answer([*argv, "--url", place.url, *place.load])
    except lab.NotReady as error:
        print(f"{case.name} did not start: {error}", file=sys.stderr)
        return None


def rows_of(name, family, document):
    """One row for every finding whose change was measured."""
    for finding in (document or {}).get("diagnosis", []):
        proof = finding.get("proof") or {}
        metric = next((e for e in proof.get("evidence", []) if e["role"] == "metric" and e.get("ratio")), None)
        if metric is None:
            continue
        said = (finding.get("prediction") or {}) | (proof.get("predicted") or {})
        yield {
            "case": name,
            "family": family,
            "cause": finding["cause"],
            "result": proof["result"],
            "metric": metric["signal"],
            "measured": metric["ratio"],
            "measured_interval": metric.get("interval"),
            "predicted": said.get("ratio"),
            "interval": said.get("interval"),
            "net": said.get("net"),
            "withheld": said.get("withheld") or (None if said else "nothing was predicted"),
            "model": said.get("model"),
            "basis": said.get("basis"),
            "rate": said.get("rate"),
            "next": (said.get("next_limit") or {}).get("station"),
        }


def better(row, ratio):
    """Times better: a rate that rises, a time that falls."""
    return ratio if row["metric"] == "rate_per_s" else 1 / ratio


def error(row):
    """Relative error of the predicted ratio."""
    return abs(row["predicted"] / row["measured"] - 1)


def interval(row):
    """The predicted interval; the row alone where too few recorded changes give it a width."""
    return row["interval"] or sorted(row["net"])


def within(row):
    """The measured ratio lies inside the predicted interval."""
    low, high = interval(row)
    return low <= row["measured"] <= high


def table(rows):
    head = f"{'case':<34} {'cause':<28} {'metric':<18} {'predicted':>22} {'measured':>9} {'error':>6}  held"
    print(head)
    for row in rows:
        line = f"{row['case']:<34} {row['cause']:<28} {row['metric']:<18} "
        if row["predicted"] is None:
            print(f"{line}{'-':>22} {row['measured']:9.2f} {'-':>6}  withheld: {row['withheld']}")
            continue
        low, high = interval(row)
        said = f"x{row['predicted']:.2f} ({low:.2f}-{high:.2f})"
        held = "yes" if within(row) else "NO"
        print(f"{line}{said:>22} {row['measured']:9.2f} {error(row):6.0%}  {held}  ({row['result']})")


def wilson(hits, of, z=1.96):
    """Interval of a share."""
    share, weight = hits / of, z * z / of
    middle = (share + weight / 2) / (1 + weight)
    half = z * math.sqrt(share * (1 - share) / of + weight / (4 * of)) / (1 + weight)
    return middle - half, middle + half


def summary(rows):
    """The sentence that counts; whether both promises hold."""
    told = [row for row in rows if row["predicted"] is not None]
    print(f"\n{len(rows)} measured changes, {len(rows) - len(told)} of them without a prediction")
    if not told:
        return False
    middle = statistics.median(error(row) for row in told)
    inside = sum(within(row) for row in told)
    low, high = wilson(inside, len(told))
    print(f"median error {middle:.1%} (asked for: at most {MEDIAN_ERROR:.0%})")
    print(f"90 % intervals held {inside} of {len(told)}, {inside / len(told):.0%} (95 % interval {low:.0%} to {high:.0%})")
    for family in sorted({row["family"] for row in told}):
        own = [row for row in told if row["family"] == family]
        print(f"  {family:<10} {len(own):3} changes, median error {statistics.median(map(error, own)):.1%},"
              f" held {sum(map(within, own))} of {len(own)}")
    return middle <= MEDIAN_ERROR and COVERED[0] <= inside / len(told)


def from_records(asked):
    """Rows of the records below a directory."""
    families = {case.name: case.family for case in truth.all_cases()}
    rows = []
    for directory in sorted(pathlib.Path(asked.source).iterdir()):
        if (directory / "proofs.json").exists():
            document = answer([asked.prony, "diagnose", str(directory), "--json"])
            rows += rows_of(directory.name, families.get(directory.name, "other"), document)
    return rows


def main():
    asked = options()
    if not asked.prony or not pathlib.Path(asked.prony).exists():
        print("there is no prony binary\nremedy: make build, or --prony PATH", file=sys.stderr)
        return EXIT_ENVIRONMENT
    asked.prony = str(pathlib.Path(asked.prony).resolve())
    rows = []
    if asked.source:
        rows = from_records(asked)
    else:
        lab.become_reaper()
        with tempfile.TemporaryDirectory(prefix="prony-predictions-") as scratch:
            lab.use_build_directory(scratch)
            for case in cases(asked):
                document = measured(asked, case, asked.records or scratch)
                found = list(rows_of(case.name, case.family, document))
                for row in found:
                    print(f"{row['case']}: {row['cause']}: predicted {row['predicted']}, measured {row['measured']:.3f}",
                          file=sys.stderr)
                rows += found
    if asked.json:
        pathlib.Path(asked.json).write_text(json.dumps(rows, indent=1))
    if not rows:
        print("no change was measured", file=sys.stderr)
        return EXIT_COMPARISON
    table(rows)
    return EXIT_VALID if summary(rows) else EXIT_COMPARISON


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(EXIT_INTERRUPTED)
