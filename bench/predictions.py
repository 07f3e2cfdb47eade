#!/usr/bin/env python3
"""Predicted against proved: what prony said that a change would bring, beside what the change brought.

Every case of the truth set whose planted cause is mended by a change of a configuration is diagnosed with `--prove`:
the prediction is made from the diagnosis's one load, before a copy of the server is started; the proof then measures
the same metric in interleaved blocks. Where no copy can be made of a server (`--pairs`), the case itself is the proof:
its slow and its fixed state are loaded in turn, and the metric is that of the prediction. `--records DIR` keeps both, and
`--from DIR` prints the table of what was kept, with predictions made anew by the binary that reads them. A slow state's
record beside the fixed one's (`truth/run.py --record DIR`) is such a pair, measured by the loads of both diagnoses.

The surprise: the predictions of a binary are learned from other families of servers than the one that is judged, so this
table leaves each family out; `cargo run -p analysis --example holdout` leaves each cause out as well.
"""

import argparse
import json
import math
import pathlib
import statistics
import subprocess
import sys
import tempfile
import tomllib

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "truth"))

import effects  # noqa: E402
import lab  # noqa: E402
import run as truth  # noqa: E402

EXIT_VALID, EXIT_COMPARISON, EXIT_USAGE, EXIT_ENVIRONMENT, EXIT_INTERRUPTED = 0, 1, 2, 4, 130
PROOF_LIMIT_S = 420
# The lab counts what children took that have ended, and prony's metric does not.
OTHER_CPU = {"process_per_request"}
# Slow and fixed states in turn, and seconds of each load.
PAIRS, PAIR_SECONDS = 3, 2
MEDIAN_ERROR, COVERED = 0.15, (0.85, 0.95)


def options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--prony", default=truth.default_prony(), help="binary; default: the newest below target/")
    parser.add_argument("--only", metavar="PATTERN", action="append", help="cases whose name holds or matches it")
    parser.add_argument("--family", help="cases of one family: nginx, haproxy, apache ...")
    parser.add_argument("--records", metavar="DIR", help="keep the records below DIR")
    parser.add_argument("--pairs", action="store_true", help="slow and fixed states in turn, in place of --prove")
    parser.add_argument("--from", dest="source", metavar="DIR", help="measure nothing: the records below DIR")
    parser.add_argument("--calibrate", metavar="FILE", help="write what changes brought into the calibration FILE")
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


def paired(asked, case, directory):
    """Diagnoses the slow state of a case, and loads it and the fixed one in turn; the document and the loads."""
    lacking = lab.lacking(case.data)
    if lacking or "fixed" not in case.states:
        print(f"skip {case.name}: needs {lacking or 'a fixed state'}", file=sys.stderr)
        return None, None
    argv = ["taskset", "-c", lab.LOAD_CPU, asked.prony, "diagnose", "--json", "--out", f"{directory}/{case.name}-slow"]
    load = argparse.Namespace(prony=asked.prony, seconds=PAIR_SECONDS, keep=False)
    try:
        with lab.Lab(case, "slow", asked.prony, False) as place:
            document = answer([*argv, "--url", place.url, *place.load])
        loads = {"slow": [], "fixed": []}
        for _ in range(PAIRS):
            for state, found in loads.items():
                with lab.Lab(case, state, asked.prony, False) as place:
                    found.append(effects.load(load, case, state, place))
    except (lab.NotReady, subprocess.TimeoutExpired) as error:
        print(f"{case.name} was not measured: {error}", file=sys.stderr)
        return None, None
    (pathlib.Path(directory) / f"{case.name}.json").write_text(json.dumps({"case": case.name, "loads": loads}))
    return document, loads


def predicted(case, document):
    """The finding of a slow state that names the planted cause, with its prediction; None without one."""
    expected = case.expected("slow")
    named = [f for f in (document or {}).get("diagnosis", []) if f["cause"] in expected and f.get("prediction")]
    if not named or named[0]["cause"] in OTHER_CPU and named[0]["prediction"]["metric"] == "cpu_us_per_request":
        return None
    return named[0]


def row_of_pair(case, document, loads):
    """The planted cause's prediction beside what its end brought; at most one row."""
    finding = predicted(case, document)
    if not finding:
        return
    said = finding["prediction"]
    servers = [server for server in case.data["server"] if not server.get("absent")]
    # What a server behind it takes is no part of the front's CPU time.
    cpu = "cpu_us" if len(servers) == 1 else "front_us"
    of = {"rate_per_s": "rate", "response_ns_p50": "p50_ms", "response_ns_p99": "p99_ms", "cpu_us_per_request": cpu}
    field = of[said["metric"]]
    both = [statistics.median(load.get(field) or 0 for load in loads[state]) for state in ("slow", "fixed")]
    yield from row_of_states(case, finding, "pair", both)


def row_of_records(case, slow, fixed):
    """The same by the loads of two diagnoses, of the slow state and of the mended one."""
    finding = predicted(case, slow)
    if not finding or not fixed:
        return
    metric = finding["prediction"]["metric"]
    both = [measured_of(metric, document, finding["target"]) or 0 for document in (slow, fixed)]
    yield from row_of_states(case, finding, "records", both)


def row_of_states(case, finding, result, both):
    """The row of a metric in the slow and in the fixed state; none where one of them was not measured."""
    if min(both) > 0:
        said = finding["prediction"]
        yield row(case.name, case.family, finding["cause"], result, said["metric"], both[1] / both[0], None, said)


def measured_of(metric, document, target):
    """A metric of a diagnosis's load; CPU is that of the target, or of the only server behind; None where unknown."""
    response = document["latency_ns"]["response"]
    if metric == "cpu_us_per_request":
        took = {f["target"]: f["value"] for f in document["facts"] if f["name"] == "cpu.us_per_request"}
        behind = [value for name, value in took.items() if name != "server"]
        if target in took:
            return took[target]
        return behind[0] if len(behind) == 1 else None
    of = {"rate_per_s": document["rate_per_s"]["achieved"], "response_ns_p50": response["p50"],
          "response_ns_p99": response["p99"]}
    return of[metric]


def row(name, family, cause, result, metric, ratio, interval, said):
    """A measured change beside what was said of it."""
    return {
        "case": name,
        "family": family,
        "cause": cause,
        "result": result,
        "metric": metric,
        "measured": ratio,
        "measured_interval": interval,
        "predicted": said.get("ratio"),
        "interval": said.get("interval"),
        "net": said.get("net"),
        "kind": said.get("kind"),
        "withheld": said.get("withheld") or (None if said else "nothing was predicted"),
        "model": said.get("model"),
        "basis": said.get("basis"),
        "rate": said.get("rate"),
        "next": (said.get("next_limit") or {}).get("station"),
    }


def rows_of(name, family, document):
    """One row for every finding whose change was measured."""
    for finding in (document or {}).get("diagnosis", []):
        proof = finding.get("proof") or {}
        metric = next((e for e in proof.get("evidence", []) if e["role"] == "metric" and e.get("ratio")), None)
        if metric is None:
            continue
        said = finding.get("prediction") or {}
        if said.get("metric", metric["signal"]) != metric["signal"]:
            said = {"withheld": "the proof was judged by another metric"}
        yield row(name, family, finding["cause"], proof["result"], metric["signal"], metric["ratio"],
                  metric.get("interval"), said)


def error(row):
    """Relative error of the predicted ratio."""
    return abs(row["predicted"] / row["measured"] - 1)


def within(row):
    """The measured ratio lies inside the predicted interval."""
    low, high = row["interval"]
    return low <= row["measured"] <= high


def table(rows):
    head = f"{'case':<34} {'cause':<28} {'metric':<18} {'kind':<11} {'predicted':>22} {'measured':>9} {'error':>6}  held"
    print(head)
    for row in rows:
        line = f"{row['case']:<34} {row['cause']:<28} {row['metric']:<18} {row['kind'] or '':<11} "
        said = "-" if row["predicted"] is None else f"x{row['predicted']:.2f}"
        off = "-" if row["predicted"] is None else f"{error(row):.0%}"
        if row["interval"]:
            said += " ({:.2f}-{:.2f})".format(*row["interval"])
        held = "" if not row["interval"] else "yes" if within(row) else "NO"
        why = f"  {row['withheld']}" if row["withheld"] and not row["interval"] else ""
        print(f"{line}{said:>22} {row['measured']:9.3f} {off:>6}  {held:<3} ({row['result']}){why}")


def wilson(hits, of, z=1.96):
    """Interval of a share."""
    share, weight = hits / of, z * z / of
    middle = (share + weight / 2) / (1 + weight)
    half = z * math.sqrt(share * (1 - share) / of + weight / (4 * of)) / (1 + weight)
    return middle - half, middle + half


def summary(rows):
    """The sentences that count; whether both promises hold."""
    told = [row for row in rows if row["predicted"] is not None]
    wide = [row for row in rows if row["interval"]]
    print(f"\n{len(rows)} measured changes: a number for {len(told)}, an interval for {len(wide)}, nothing for"
          f" {sum(not row['interval'] and row['predicted'] is None for row in rows)}")
    if not told or not wide:
        return False
    for name, own in groups(rows):
        number = [row for row in own if row["predicted"] is not None]
        held = [row for row in own if row["interval"]]
        middle = f"{statistics.median(map(error, number)):6.1%}" if number else "     -"
        print(f"  {name:<22} {len(own):3} changes, {len(number):3} numbers, median error {middle},"
              f" intervals held {sum(map(within, held))} of {len(held)}")
    middle = statistics.median(error(row) for row in told)
    inside = sum(within(row) for row in wide)
    low, high = wilson(inside, len(wide))
    print(f"median error of the numbers {middle:.1%} (asked for: at most {MEDIAN_ERROR:.0%})")
    print(f"90 % intervals held {inside} of {len(wide)}, {inside / len(wide):.0%} (95 % interval {low:.0%} to {high:.0%})")
    print(f"intervals of those with a number held {sum(map(within, told))} of {len(told)}")
    return middle <= MEDIAN_ERROR and COVERED[0] <= inside / len(wide) <= COVERED[1]


def groups(rows):
    """By how they were measured, by kind, and by family of servers."""
    states = {"pair", "records"}
    yield "proofs", [row for row in rows if row["result"] not in states]
    yield "slow and fixed states", [row for row in rows if row["result"] in states]
    for field in ("kind", "family"):
        for value in sorted({row[field] for row in rows if row[field]}):
            yield f"{field} {value}", [row for row in rows if row[field] == value]


def calibrate(path, rows):
    """Puts what changes brought into the file, in place of what it held of the same cases and metrics."""
    path = pathlib.Path(path)
    lines = [path.read_text().split("\n[[brought]]")[0].rstrip()]
    found = {(row["case"], row["metric"]): row for row in tomllib.loads(path.read_text()).get("brought", [])}
    found |= {(row["case"], row["metric"]): row for row in rows if row["net"]}
    for row in found.values():
        net = ", ".join(f"{ratio:.4f}" for ratio in row["net"])
        lines += [
            "", "[[brought]]", f'family = "{row["family"]}"', f'case = "{row["case"]}"', f'cause = "{row["cause"]}"',
            f'kind = "{row["kind"]}"', f'metric = "{row["metric"]}"', f"net = [{net}]",
            f"noise = {row['noise']:.4f}", f"measured = {row['measured']:.4f}",
        ]
    path.write_text("\n".join(lines) + "\n")


def noise_of(document):
    """Relative spread of the rate of the load that was predicted from."""
    found = [f["value"] for f in (document or {}).get("facts", []) if f["name"] == "client.rate_spread"]
    return next((value for value in found if value is not None), 0.0)


def from_records(asked):
    """Rows of what was kept below a directory: CASE with proofs, CASE-slow with the loads of CASE.json."""
    cases_by_name = {case.name: case for case in truth.all_cases()}
    for directory in sorted(pathlib.Path(asked.source).iterdir()):
        if (directory / "proofs.json").exists():
            case = cases_by_name.get(directory.name)
            document = answer([asked.prony, "diagnose", str(directory), "--json"])
            found = rows_of(directory.name, case.family if case else "other", document)
        elif directory.name.endswith("-slow") and directory.name.removesuffix("-slow") in cases_by_name:
            case = cases_by_name[directory.name.removesuffix("-slow")]
            loads = pathlib.Path(asked.source) / f"{case.name}.json"
            loads = json.loads(loads.read_text()).get("loads") if loads.exists() else None
            mended = directory.with_name(f"{case.name}-fixed")
            if loads and "fixed" not in loads or not loads and not mended.exists():
                continue
            document = answer([asked.prony, "diagnose", str(directory), "--json"])
            if not loads:
                there = answer([asked.prony, "diagnose", str(mended), "--json"])
                found = row_of_records(case, document, there)
            else:
                found = row_of_pair(case, document, loads)
        else:
            continue
        yield from (one | {"noise": noise_of(document)} for one in found)


def measured_now(asked):
    """Rows of what is measured now, printed as they come."""
    lab.become_reaper()
    with tempfile.TemporaryDirectory(prefix="prony-predictions-") as scratch:
        lab.use_build_directory(scratch)
        for case in cases(asked):
            place = asked.records or scratch
            if asked.pairs:
                document, loads = paired(asked, case, place)
                found = row_of_pair(case, document, loads) if loads else ()
            else:
                document = measured(asked, case, place)
                found = rows_of(case.name, case.family, document)
            for one in found:
                print(f"{one['case']}: {one['cause']}: predicted {one['predicted']}, measured {one['measured']:.3f}",
                      file=sys.stderr)
                yield one | {"noise": noise_of(document)}


def main():
    asked = options()
    if not asked.prony or not pathlib.Path(asked.prony).exists():
        print("there is no prony binary\nremedy: make build, or --prony PATH", file=sys.stderr)
        return EXIT_ENVIRONMENT
    asked.prony = str(pathlib.Path(asked.prony).resolve())
    rows = list(from_records(asked) if asked.source else measured_now(asked))
    if asked.json:
        pathlib.Path(asked.json).write_text(json.dumps(rows, indent=1))
    if not rows:
        print("no change was measured", file=sys.stderr)
        return EXIT_COMPARISON
    if asked.calibrate:
        calibrate(asked.calibrate, rows)
    table(rows)
    return EXIT_VALID if summary(rows) else EXIT_COMPARISON


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(EXIT_INTERRUPTED)
