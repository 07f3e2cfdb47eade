#!/usr/bin/env python3
"""Is a confidence of 0.8 right eight times in ten? The reliability table of recorded cases of the truth set.

Reads the records that `truth/run.py --record DIR` kept (directories CASE-STATE) and those of `bench/predictions.py
--records DIR` (directories CASE), has each judged by the binary that is given, and holds what is named first against
what was planted. The printed confidence is learned from other families of servers than the one that is judged, so the
table is out of sample. `--write FILE` makes the calibration itself: bounds on the gain with their outcomes. What changes brought is
put into the same file by `bench/predictions.py --calibrate`, and stays as it is here.

Rules are mended by what they got wrong, and then get it right: what they are worth on a server that nobody has seen is told
by the build that judged first. `--records DIR:BINARY` has DIR judged by BINARY, the last build before its cases were read.

The surprise: most of what goes wrong on a shared machine is right. Other programs took its CPU, which is a true cause
and not the planted one. It is set aside where others took the CPU: what is named beside it counts in a slow state, and
fixed or healthy states are left out and counted.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import predictions

truth = predictions.truth
EXIT_VALID, EXIT_ENVIRONMENT, EXIT_INVALID = 0, 4, 3
LIMIT_S = 60
# Cores that others may take: what prony itself calls disturbed.
DISTURBED_CORES = 0.1
NEIGHBOUR = "noisy_neighbour"
# What is no cause of the catalogue has frequencies of its own.
APART = ("none", "unlabelled")
CLASSES = ("cause", *APART, "further")
# States in which a place that is blamed is blamed wrongly.
HEALTHY = ("fixed", "healthy", "low", "middle", "full")
BINS = [0.0, 0.2, 0.4, 0.6, 0.7, 0.8, 0.9, 1.0]


def options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--prony", default=truth.default_prony(), help="binary; default: the newest below target/")
    parser.add_argument("--records", metavar="DIR[:BINARY]", action="append", default=[],
                        help="records to judge, by a binary of their own where one is given; may be repeated")
    parser.add_argument("--foreign", type=float, default=DISTURBED_CORES, help="most cores that others took (default 0.1)")
    parser.add_argument("--write", metavar="FILE", help="write the calibration to FILE")
    return parser.parse_args()


def case_of(name, cases):
    """Case and state of a record's directory."""
    if name in cases:
        return cases[name], "slow"
    case, _, state = name.rpartition("-")
    return (cases[case], state) if case in cases and state in cases[case].states else (None, None)


def documents(asked):
    """(case, state, document without proofs) of every record."""
    cases = {case.name: case for case in truth.all_cases()}
    for directory, _, binary in (records.partition(":") for records in asked.records):
        for record in sorted(pathlib.Path(directory).iterdir()):
            case, state = case_of(record.name, cases)
            if case is None:
                continue
            with tempfile.TemporaryDirectory(prefix="prony-reliability-") as scratch:
                plain = judged(binary or asked.prony, without_proofs(record, scratch))
            if plain:
                yield case, state, plain
            else:
                print(f"{record}: no answer", file=sys.stderr)


def without_proofs(record, scratch):
    """The same record as it was before anything was proved: a proof makes its cause as good as certain."""
    for path in record.iterdir():
        if path.name != "proofs.json":
            (pathlib.Path(scratch) / path.name).symlink_to(path.resolve())
    return scratch


def judged(prony, record):
    """What the binary says of a record; None when it says nothing."""
    try:
        argv = [prony, "diagnose", str(record), "--json"]
        return json.loads(subprocess.run(argv, capture_output=True, text=True, timeout=LIMIT_S).stdout)
    except (subprocess.TimeoutExpired, ValueError):
        return None


def fact(document, name):
    """The largest value of a fact over its targets; None where nothing tells it."""
    found = [f["value"] for f in document.get("facts", []) if f["name"] == name and f["value"] is not None]
    return max(found, default=None)


def score(finding):
    """What the rules gave, before it became a frequency."""
    return (finding.get("calibrated") or {}).get("score", finding["confidence"])


def outcomes(case, state, document, asked):
    """(class, finding, right) of what was named; empty where others disturbed it."""
    foreign = fact(document, "host.foreign_cores")
    findings = document["diagnosis"]
    if foreign is not None and foreign >= asked.foreign:
        # The neighbour was there; what was named beside it can still be told to be right or not.
        findings = [f for f in findings if f["cause"] != NEIGHBOUR]
        if state != "slow" or not findings or not findings[0]["worth_changing"]:
            return
    expected = case.expected(state)
    for at, finding in enumerate(findings):
        if finding["cause"] == "unknown" or at > 0 and not finding["worth_changing"]:
            continue
        right = finding["cause"] in expected
        if "never" in case.data[state]:
            right = not truth.named_wrongly(case, state, {"named": finding["cause"]})
        if finding["cause"] == "unlabelled" and not right and state not in HEALTHY:
            # A place without a name is right where it is the planted one; a case without words for it does not tell.
            if at or not case.data[state].get("says"):
                continue
            right = truth.tells(case, state, {"named": "unlabelled", "answer": document})
        kind = "further" if at else finding["cause"] if finding["cause"] in APART else "cause"
        yield kind, finding, right


def table(rows):
    """Printed confidence against the share that was right."""
    print(f"{'confidence':<14} {'cases':>6} {'said':>6} {'right':>6}   95 % interval of the share that was right")
    for low, high in zip(BINS, BINS[1:]):
        inside = [row for row in rows if low <= row["confidence"] < high or high == 1.0 == row["confidence"]]
        if inside:
            right = sum(row["right"] for row in inside)
            said = sum(row["confidence"] for row in inside) / len(inside)
            lower, upper = predictions.wilson(right, len(inside))
            print(f"{low:.1f} to {high:.1f}     {len(inside):6} {said:6.2f} {right / len(inside):6.2f}   {lower:.2f} to {upper:.2f}")
    error = sum((row["confidence"] - row["right"]) ** 2 for row in rows) / len(rows)
    print(f"Brier score {error:.3f} over {len(rows)}")


def numbers(values):
    return "[" + ", ".join(f"{value:.3f}" for value in sorted(values)) + "]"


def write(path, rows):
    """The calibration as data; what changes brought stays as it was."""
    path = pathlib.Path(path)
    _, mark, brought = path.read_text().partition("\n[[brought]]") if path.exists() else ("", "", "")
    families = sorted({row["family"] for row in rows})
    count = {kind: sum(row["kind"] == kind for row in rows) for kind in CLASSES}
    lines = [
        "# What diagnoses and predictions came to in recorded cases; made by bench/reliability.py --write and, what changes brought,",
        "# by bench/predictions.py --calibrate.",
        f'made = "truth set on one machine of two cores: {count["cause"]} causes named first, {count["none"]} servers called'
        f' healthy, {count["unlabelled"]} times a place without a name, {count["further"]} causes named behind the first"',
    ]
    for family in families:
        for kind in CLASSES:
            own = [row for row in rows if row["family"] == family and row["kind"] == kind]
            if own:
                right = numbers(row["bound"] for row in own if row["right"])
                wrong = numbers(row["bound"] for row in own if not row["right"])
                lines += ["", "[[named]]", f'family = "{family}"', f'class = "{kind}"', f"right = {right}", f"wrong = {wrong}"]
    path.write_text("\n".join(lines) + "\n" + mark + brought)


def main():
    asked = options()
    if not asked.prony or not pathlib.Path(asked.prony).exists():
        print("there is no prony binary\nremedy: make build, or --prony PATH", file=sys.stderr)
        return EXIT_ENVIRONMENT
    rows, disturbed = [], 0
    for case, state, document in documents(asked):
        found = list(outcomes(case, state, document, asked))
        disturbed += not found
        for kind, finding, right in found:
            rows.append({"family": case.family, "kind": kind, "score": score(finding), "bound": finding["gain_bound"] or 0.0,
                         "confidence": finding["confidence"], "calibrated": "calibrated" in finding, "right": right})
    if not rows:
        print("no record told anything", file=sys.stderr)
        return EXIT_INVALID
    first = [row for row in rows if row["kind"] != "further"]
    told = [row for row in first if row["calibrated"]]
    print(f"{len(first)} named first, {sum(row['right'] for row in first)} of them right;"
          f" {disturbed} records left out because others took the CPU; {len(first) - len(told)} without a confidence\n")
    if told:
        table(told)
    print("\nthe rules' own scores, before calibration:")
    table([row | {"confidence": row["score"]} for row in first])
    if asked.write:
        write(asked.write, rows)
    return EXIT_VALID


if __name__ == "__main__":
    sys.exit(main())
