#!/usr/bin/env python3
"""The project's truth set: servers with one planted cause, the same servers fixed, and healthy ones.

Every case starts real servers on free loopback ports (core 0), lets `prony diagnose` look at them (core 1) and
compares the first cause that it names with the one that was planted. `--effects` shows with plain loads that the
planted cause costs something on this machine: a case without an effect is no case.

Surprise: a server may change its session, its group and its parent. This process declares itself the reaper of all
its descendants, so that whatever a case has started can be found below it and ended.
"""

import argparse
import fnmatch
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from pathlib import Path

import effects
import lab
import table
import without

HERE = Path(__file__).resolve().parent
EXIT_VALID, EXIT_COMPARISON, EXIT_USAGE, EXIT_ENVIRONMENT, EXIT_INTERRUPTED = 0, 1, 2, 4, 130
DIAGNOSE_LIMIT_S = 180
LIVE_BEFORE_S = 1.5
EXAMPLES = """\
examples:
  truth/run.py                            every case, slow and fixed; the confusion table
  truth/run.py --quick                    the part for every test run: nginx, HAProxy and Python
  truth/run.py --only 'nginx-proxy*'      cases whose name matches
  truth/run.py --family haproxy           cases of one family of servers
  truth/run.py --effects --only '*gzip*'  what the planted cause costs: slow beside fixed, without a diagnosis
  truth/run.py --live --quick             the same under somebody else's load: prony diagnose --no-load
  truth/run.py --without DIR              records of --record again, each without the rule that named it first
  truth/run.py --list                     names, planted causes and why they are slow

exit codes: 0 as many right as asked for, 1 fewer, 2 usage, 4 the environment lacks something, 130 interrupted
"""


class Case:
    """One case file."""

    def __init__(self, path):
        self.name = path.stem
        text = path.read_text()
        self.why = next((line[1:].strip() for line in text.splitlines() if line.startswith("#")), "")
        try:
            self.data = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            sys.exit(f"{path}: {error}")
        self.family = self.data["family"]
        self.quick = self.data.get("quick", [])
        self.states = [state for state in lab.STATES if state in self.data]

    def expected(self, state):
        """Names that are right, the planted one first."""
        cause = self.data[state]["cause"]
        return [cause] if isinstance(cause, str) else cause


def all_cases():
    return [Case(path) for path in sorted(HERE.glob("cases/*.toml"))]


def chosen(options):
    cases = all_cases()
    if options.quick:
        cases = [case for case in cases if case.quick]
        for case in cases:
            case.states = case.quick
    if options.family:
        cases = [case for case in cases if case.family == options.family]
    if options.only:
        cases = [case for case in cases if any(matches(case.name, pattern) for pattern in options.only)]
    return cases


def matches(name, pattern):
    return pattern in name or fnmatch.fnmatch(name, pattern)


# ---- one state of one case ----


def somebody_elses_load(options, place):
    """The case's load as another process makes it; the caller ends it."""
    argv = ["taskset", "-c", lab.LOAD_CPU, options.prony, "load", place.url, *place.load, "-d", f"{DIAGNOSE_LIMIT_S}s"]
    return subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def diagnose(options, case, state, place):
    """What prony names first; the whole answer beside it."""
    if not options.live:
        level = middle(options, place) if state == "middle" else []
        return answer_to(options, case, state, ["--url", place.url, *place.load, *level])
    load = somebody_elses_load(options, place)
    try:
        time.sleep(LIVE_BEFORE_S)
        return answer_to(options, case, state, ["--url", place.url, "--no-load"])
    finally:
        load.terminate()
        load.wait()


def answer_to(options, case, state, flags):
    argv = ["taskset", "-c", lab.LOAD_CPU, options.prony, "diagnose", *flags, "--json"]
    if options.duration:
        argv += ["-d", options.duration]
    if options.record:
        argv += ["--out", str(Path(options.record) / f"{case.name}-{state}")]
    began = time.monotonic()
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=DIAGNOSE_LIMIT_S)
    except subprocess.TimeoutExpired:
        return {"named": "(no answer)", "seconds": DIAGNOSE_LIMIT_S, "error": f"no answer within {DIAGNOSE_LIMIT_S} s"}
    seconds = time.monotonic() - began
    try:
        answer = json.loads(done.stdout)
        first = answer["diagnosis"][0]
    except (ValueError, KeyError, IndexError) as error:
        last = (done.stderr.strip().splitlines() or ["nothing on stderr"])[-1]
        return {"named": "(error)", "seconds": seconds, "error": f"exit code {done.returncode}, {error!r}: {last}"}
    others = [finding["cause"] for finding in answer["diagnosis"][1:]]
    return {"named": first["cause"], "others": others, "seconds": seconds, "exit": done.returncode, "answer": answer}


def middle(options, place):
    """Half of the rate that a plain load finds."""
    argv = ["taskset", "-c", lab.LOAD_CPU, options.prony, "load", place.url, "--json", "-d", "2s", *place.load]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=DIAGNOSE_LIMIT_S)
    try:
        rate = json.loads(done.stdout)["rate_per_s"]["achieved"] or 0.0
    except ValueError:
        raise lab.NotReady(f"the load said: {done.stderr.strip()[-300:]}") from None
    return ["-R", str(max(int(rate * lab.MIDDLE), 1))]


# What comes without the name of a mechanism, and with the largest row of where the time went.
PLACES = ["unlabelled", "backend_saturated"]


def tells(case, state, row):
    """Whether an answer that no cause has a name for leads to the place all the same: by words of its largest row."""
    if row["named"] not in PLACES or "answer" not in row:
        return False
    title, why = (row["answer"]["diagnosis"][0][key] for key in ("title", "why"))
    return any(word in f"{title} {why}".lower() for word in case.data[state].get("says", []))


def named_wrongly(case, state, row):
    """Whether a cause was named that this state must not be blamed for."""
    return row["named"] in case.data[state].get("never", []) or row["named"].startswith("(")


def not_measured(row):
    """Whether the answer is that the load was not valid, and so nothing can be told."""
    verdict = row.get("answer", {}).get("verdict") or {}
    return row["named"] == "unknown" and verdict.get("valid") is False


def judge(options, case, state):
    """Starts the servers of a state, diagnoses, stops them; the result as one row."""
    row = {"case": case.name, "state": state, "family": case.family, "expected": case.expected(state)}
    lacking = lab.lacking(case.data)
    if lacking:
        return row | {"skipped": lacking}
    try:
        with lab.Lab(case, state, options.prony, options.keep) as place:
            row |= diagnose(options, case, state, place)
            if not_measured(row):
                # What a person does who is told so.
                if options.record:
                    shutil.rmtree(Path(options.record) / f"{case.name}-{state}", ignore_errors=True)
                row |= diagnose(options, case, state, place) | {"again": True}
    except lab.NotReady as error:
        row |= {"named": "(not started)", "seconds": 0.0, "error": str(error)}
    row["right"] = row["named"] in row["expected"]
    row["told"] = tells(case, state, row)
    if "never" in case.data[state]:
        row["right"] = not named_wrongly(case, state, row)
    return row


def show(row):
    label = f"{row['case']} {row['state']}"
    if "skipped" in row:
        print(f"skip   {label:<52} needs {row['skipped']}", flush=True)
        return
    mark = "ok    " if row["right"] else "told  " if row["told"] else "WRONG "
    wanted = "" if row["right"] else f"  expected {' or '.join(row['expected'])}"
    print(f"{mark} {label:<52} {row['seconds']:5.1f} s  {row['named']}{wanted}", flush=True)
    if row.get("others"):
        print(f"         then {', '.join(row['others'])}")
    if row.get("error"):
        print(f"         {row['error']}")


def run(options, cases):
    """Every state of every case; the rows."""
    rows = []
    try:
        for case in cases:
            for state in case.states:
                if options.state in (None, state):
                    rows.append(judge(options, case, state))
                    show(rows[-1])
    except KeyboardInterrupt:
        print("interrupted; what was judged before:", file=sys.stderr)
        summary(options, rows)
        sys.exit(EXIT_INTERRUPTED)
    return rows


def summary(options, rows):
    """The tables; the share that was right, None when nothing was judged."""
    judged = [row for row in rows if "named" in row]
    if options.json:
        Path(options.json).write_text(json.dumps(rows, indent=1))
    if not judged:
        return None
    print("\n" + table.confusion(judged))
    print(table.precision(judged))
    right = sum(row["right"] for row in judged)
    planted = [row for row in judged if row["expected"] != ["none"]]
    sound = [row for row in judged if row["expected"] == ["none"]]
    print(f"right: {right} of {len(judged)}; causes {sum(r['right'] for r in planted)} of {len(planted)},"
          f" healthy or fixed {sum(r['right'] for r in sound)} of {len(sound)};"
          f" place told without a name {sum(row['told'] for row in judged)};"
          f" {sum(row['seconds'] for row in judged) / len(judged):.1f} s a case;"
          f" skipped {len(rows) - len(judged)}")
    return right / len(judged)


# ---- the command ----


def show_list(cases):
    for case in cases:
        planted = "/".join(case.expected(case.states[0]))
        quick = " (quick)" if case.quick else ""
        print(f"{case.name:<36} {planted:<28}{quick}\n    {case.why}")
    print(f"{len(cases)} cases, {sum('slow' in case.states for case in cases)} with a planted cause,"
          f" {sum(case.expected(state) == ['none'] for case in cases for state in case.states if state != 'fixed')}"
          " healthy states")


def default_prony():
    """The newest of what cargo has built here, else the one in PATH."""
    target = Path(os.environ.get("CARGO_TARGET_DIR", HERE.parent / "target"))
    built = [path for path in (target / "release/prony", target / "debug/prony") if path.exists()]
    return str(max(built, key=lambda path: path.stat().st_mtime)) if built else shutil.which("prony")


def arguments():
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0], epilog=EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--prony", default=default_prony(), help="binary; default: the newest below target/, else PATH")
    parser.add_argument("--quick", action="store_true", help="the short subset")
    parser.add_argument("--only", metavar="PATTERN", action="append", help="cases whose name holds or matches it")
    parser.add_argument("--family", help="cases of one family: nginx, haproxy, apache, python ...")
    parser.add_argument("--state", choices=lab.STATES, help="only the states of this name")
    parser.add_argument("--list", action="store_true", help="list the cases and stop")
    parser.add_argument("--effects", action="store_true", help="measure slow beside fixed with plain loads")
    parser.add_argument("--rounds", type=int, default=2, help="--effects: pairs of loads (default 2)")
    parser.add_argument("--seconds", type=float, default=2.0, help="--effects: length of a load (default 2)")
    parser.add_argument("--threshold", type=float, default=0.9, help="share that must be right (default 0.9)")
    parser.add_argument("--json", metavar="FILE", help="write every row, with prony's answers, to FILE")
    parser.add_argument("--record", metavar="DIR", help="keep the record of every diagnosis below DIR, to be judged again")
    parser.add_argument("--without", metavar="DIR", help="judge records of --record again, each without its first rule")
    parser.add_argument("--live", action="store_true", help="another process makes the load, and prony only watches")
    parser.add_argument("--duration", help="length of the timed load (default: prony's)")
    parser.add_argument("--keep", action="store_true", help="keep the directories of the servers")
    return parser.parse_args()


def main():
    options = arguments()
    cases = chosen(options)
    if not cases:
        print("no case matches; --list shows all", file=sys.stderr)
        return EXIT_USAGE
    if options.list:
        show_list(cases)
        return EXIT_VALID
    if options.without:
        share = without.measure(options.without, cases)
        return EXIT_ENVIRONMENT if share is None else EXIT_VALID if share == 1 else EXIT_COMPARISON
    if not options.prony or not Path(options.prony).exists():
        print("there is no prony binary\nremedy: make build, or --prony PATH", file=sys.stderr)
        return EXIT_ENVIRONMENT
    options.prony = str(Path(options.prony).resolve())
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    lab.become_reaper()
    with tempfile.TemporaryDirectory(prefix="prony-truth-build-") as builds:
        lab.use_build_directory(builds)
        if options.effects:
            return EXIT_VALID if effects.measure(options, cases) else EXIT_COMPARISON
        share = summary(options, run(options, cases))
    if share is None:
        print("every case was skipped\nremedy: scripts/setup.sh truth", file=sys.stderr)
        return EXIT_ENVIRONMENT
    return EXIT_VALID if share >= options.threshold else EXIT_COMPARISON


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(EXIT_INTERRUPTED)
