#!/usr/bin/env python3
"""Random programs that account for themselves, and whether prony's ledger says the same.

A plan is made from a seed (planned.py), a server in C, Go or Java executes it on core 0 (plans/), `prony diagnose` looks
at it from core 1, and every row of its ledger is held against the program's own account of the same seconds (account.py,
ledger.py). Nothing here was made by looking at what a rule knows.

Surprise: a plan whose server is slow is loaded for as long as a fast one; its slowest 1 % may be ten requests. Accounts of
fewer than 500 requests have no tail.
"""

import argparse
import contextlib
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

import account
import lab
import ledger
import planned
import run

HERE = Path(__file__).resolve().parent
CAPACITY = 1 << 18
EXIT_VALID, EXIT_COMPARISON, EXIT_USAGE, EXIT_ENVIRONMENT, EXIT_INTERRUPTED = 0, 1, 2, 4, 130
DIAGNOSE_LIMIT_S = 180
# A load by somebody else runs for so long before it is looked at.
LIVE_BEFORE_S = 1.0
# Java's functions are compiled one by one, as they are told apart by name.
JAVA_FLAGS = ["-Xmx512m", "-Xms512m", "-XX:+UseSerialGC", "-XX:-BackgroundCompilation",
              "-XX:CompileCommand=quiet", *[f"-XX:CompileCommand=dontinline,PlanServer::{name}" for name in
                [*planned.FUNCTIONS, planned.STALL_FUNCTION]]]
EXAMPLES = """\
examples:
  truth/plans.py --plans 3 --quick              a plan of each runtime, a minute
  truth/plans.py --plans 300 --seed 1           what the reach table asks for, two hours
  truth/plans.py --seed 17 --runtime go         one plan again, by its seed
  truth/plans.py --plans 9 --account            no diagnosis: the programs' accounts beside a plain load
  truth/plans.py --plans 9 --live               under a load by wrk: prony diagnose --no-load
  truth/plans.py --plans 9 --double             one step doubled: predicted against measured

exit codes: 0 the reach was met, 1 it was not, 2 usage, 4 the environment lacks something, 130 interrupted
"""
# What the reach asks for: share of plans.
REACH = {"top": 0.95, "tail_top": 0.90}


class Program:
    """Context: a server that executes a plan, with its peers; ended and removed afterwards."""

    def __init__(self, plan, builds):
        self.plan, self.builds, self.children = plan, builds, []

    def __enter__(self):
        self.dir = Path(tempfile.mkdtemp(prefix="prony-plan-"))
        # In memory: a program's account of itself must not wait for a disk.
        self.records = Path(tempfile.mkdtemp(prefix="prony-plan-", dir="/dev/shm")) / "rows"
        try:
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        lab.end_all(self.children)
        shutil.rmtree(self.records.parent, ignore_errors=True)
        shutil.rmtree(self.dir, ignore_errors=True)

    def start(self):
        with open(self.records, "wb") as file:
            file.truncate(account.size_of(self.plan, CAPACITY))
        files = {}
        for index, step in enumerate(self.plan["steps"]):
            if step["kind"] == "file":
                files[index] = self.dir / f"file{index}"
                files[index].write_bytes(os.urandom(step["bytes"]))
                lab.forget(files[index])
        ports = free_ports(1 + len(self.plan["upstreams"]))
        self.port, self.ports = ports[0], ports[1:]
        for port, upstream in zip(self.ports, self.plan["upstreams"]):
            self.launch(lab.LOAD_CPU, [self.builds / "plan_peer", port, upstream["delay_us"]], port)
        place = {"port": self.port, "records": self.records, "capacity": CAPACITY, "log": self.dir / "log",
                 "files": files, "peers": self.ports}
        (self.dir / "plan").write_text(planned.lines(self.plan, place))
        (self.dir / "plan.json").write_text(json.dumps(self.plan, indent=1))
        command = {"c": [self.builds / "plan_server"], "go": [self.builds / "plan_go"],
                   "java": [lab.find("java"), *JAVA_FLAGS, "-cp", self.builds, "PlanServer"]}[self.plan["runtime"]]
        self.server = self.launch(lab.SERVER_CPU, [*command, self.dir / "plan"], self.port)
        self.url = f"http://127.0.0.1:{self.port}/"

    def launch(self, cpu, argv, port):
        with open(self.dir / f"output-{len(self.children)}", "wb") as log:
            child = subprocess.Popen(
                ["taskset", "-c", cpu, *map(str, argv)], stdin=subprocess.DEVNULL, stdout=log,
                stderr=subprocess.STDOUT, cwd=self.dir, start_new_session=True)
        self.children.append(child)
        end = time.monotonic() + lab.READY_LIMIT_S
        while time.monotonic() < end and child.poll() is None:
            if listens(port):
                return child
            time.sleep(0.03)
        said = (self.dir / f"output-{len(self.children) - 1}").read_text(errors="replace")[-300:]
        raise lab.NotReady(f"{Path(argv[0]).name}: {said.strip() or 'did not listen'}")

    def account(self, begin, end, cpu_ns):
        rows = account.Rows(self.records, self.plan, CAPACITY, begin, end)
        return account.Account(self.plan, self.ports, rows, end - begin, cpu_ns)


def listens(port):
    """Whether somebody listens there, without a connection that would become part of the account."""
    wanted = f"0100007F:{port:04X}"
    for name in ("/proc/net/tcp", "/proc/net/tcp6"):
        with contextlib.suppress(OSError):
            for line in Path(name).read_text().splitlines()[1:]:
                fields = line.split()
                if fields[1].endswith(wanted) and fields[3] == "0A":
                    return True
    return False


def free_ports(count):
    import socket
    held = [socket.socket() for _ in range(count)]
    for one in held:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in held]
    for one in held:
        one.close()
    return ports


class CpuTime(threading.Thread):
    """CPU time of one process, all its threads, by the monotonic clock."""

    def __init__(self, pid):
        super().__init__(daemon=True)
        self.path, self.samples, self.over = Path(f"/proc/{pid}/stat"), [], threading.Event()
        self.tick_ns = 1_000_000_000 // os.sysconf("SC_CLK_TCK")

    def run(self):
        while not self.over.wait(0.05):
            with contextlib.suppress(OSError):
                fields = self.path.read_text().rpartition(")")[2].split()
                self.samples.append((time.monotonic_ns(), sum(map(int, fields[11:13])) * self.tick_ns))

    def between(self, begin, end):
        """CPU time within a window, interpolated at its ends."""
        return self.at(end) - self.at(begin)

    def at(self, moment):
        before = [one for one in self.samples if one[0] <= moment] or self.samples[:1]
        after = [one for one in self.samples if one[0] > moment] or self.samples[-1:]
        (t0, c0), (t1, c1) = before[-1], after[0]
        return c0 if t1 <= t0 else c0 + (c1 - c0) * (moment - t0) / (t1 - t0)


# ---- programs ----


def build(runtimes, builds):
    """Builds what the runtimes need; names what is lacking, as text."""
    needed = {"gcc": "gcc"}
    for runtime, (program, package) in {"go": ("go", "golang-go"), "java": ("javac", "default-jdk-headless")}.items():
        if runtime in runtimes:
            needed[program] = package
    lacking = [package for program, package in needed.items() if not lab.find(program)]
    if lacking:
        return " ".join(lacking)
    sources = HERE / "plans"
    for name in ("plan_server", "plan_peer"):
        command(["gcc", "-O2", "-g", "-o", builds / name, sources / f"{name}.c", "-lpthread"])
    if "go" in runtimes:
        command([lab.find("go"), "build", "-o", builds / "plan_go", "plan_server.go"], cwd=sources,
                env=os.environ | {"GO111MODULE": "off"})
    if "java" in runtimes:
        command([lab.find("javac"), "-d", builds, sources / "PlanServer.java"])
    return ""


def command(argv, **more):
    done = subprocess.run(list(map(str, argv)), capture_output=True, text=True, **more)
    if done.returncode:
        sys.exit(f"{argv[0]}: {done.stderr.strip()}")


# ---- loads ----


def load(options, url, flags, seconds):
    """A plain load; its document."""
    argv = ["taskset", "-c", lab.LOAD_CPU, options.prony, "load", url, "--json", "-d", f"{int(seconds * 1000)}ms", *flags]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=seconds + 60)
    try:
        return json.loads(done.stdout)
    except ValueError:
        raise lab.NotReady(f"the load said: {done.stderr.strip()[-300:]}") from None


def achieved(document):
    """The rate of a load, of which something must have come back."""
    rate = document["rate_per_s"]["achieved"]
    if not rate:
        raise lab.NotReady(f"no response: {document['verdict']['why']}")
    return rate


def load_flags(options, plan, program):
    """Flags of the plan's load; a share of the capacity becomes a rate, by a load that finds it."""
    wanted = plan["load"]
    flags = ["-c", str(wanted["connections"])]
    # Compiles what is to be compiled, opens what is to be opened.
    found = load(options, program.url, flags, 3 if plan["runtime"] == "java" and not options.quick else 1)
    if "share_of_capacity" in wanted:
        flags += ["-R", str(max(10, int(achieved(found) * wanted["share_of_capacity"])))]
    return flags


def diagnose(options, program, flags, out):
    """prony's document, its windows (the timed load, and the load under which turns were traced, where it says so; live, all
that it watched), and how long it took."""
    argv = ["taskset", "-c", lab.LOAD_CPU, options.prony, "diagnose", "--url", program.url, "--json", "--out", str(out)]
    argv += ["--no-load"] if options.live else flags
    if options.duration:
        argv += ["-d", options.duration]
    with somebody_elses_load(options, program, flags):
        began = time.monotonic_ns()
        done = subprocess.run(argv, capture_output=True, text=True, timeout=DIAGNOSE_LIMIT_S)
        ended = time.monotonic_ns()
    seconds = (ended - began) / 1e9
    try:
        document = json.loads(done.stdout)
    except ValueError:
        raise lab.NotReady(f"diagnose said: {done.stderr.strip()[-300:]}") from None
    if options.live:
        return document, [(began, ended)], seconds
    trial = out / "trials/0000"
    loads = [json.loads((trial / "trial.json").read_text())["outcome"]]
    turns = json.loads((trial / "examination.json").read_text()).get("turns") or {}
    loads += [turns["load"]] if turns.get("load") else []
    return document, [(load["measured_from"], load["measured_to"]) for load in loads], seconds


@contextlib.contextmanager
def somebody_elses_load(options, program, flags):
    """Live, the plan's load comes from a process that prony knows nothing of: wrk, where it is and no rate is asked."""
    if not options.live:
        yield
        return
    argv = [options.prony, "load", program.url, *flags, "-d", f"{DIAGNOSE_LIMIT_S}s"]
    if lab.find("wrk") and "-R" not in flags:
        argv = [lab.find("wrk"), "-t1", f"-d{DIAGNOSE_LIMIT_S}s", *flags, program.url]
    load = subprocess.Popen(["taskset", "-c", lab.LOAD_CPU, *map(str, argv)], stdout=subprocess.DEVNULL,
                            stderr=subprocess.DEVNULL)
    try:
        time.sleep(LIVE_BEFORE_S)
        yield
    finally:
        load.terminate()
        load.wait()


def judge(options, plan, builds):
    """One plan executed and held against its account."""
    row = {"seed": plan["seed"], "runtime": plan["runtime"], "plan": plan}
    try:
        with Program(plan, builds) as program:
            flags = load_flags(options, plan, program)
            cpu = CpuTime(program.server.pid)
            cpu.start()
            if options.account:
                began = time.monotonic_ns()
                document = load(options, program.url, flags, 4)
                windows, seconds = [(began, time.monotonic_ns())], 0.0
            else:
                out = Path(options.record or program.dir).resolve() / f"{plan['seed']}-{plan['runtime']}"
                document, windows, seconds = diagnose(options, program, flags, out)
            cpu.over.set()
            cpu.join()
            own, *more = [program.account(*window, cpu.between(*window)) for window in windows]
    except (lab.NotReady, subprocess.TimeoutExpired, OSError, KeyError) as error:
        return row | {"error": f"{error!r}"}
    # The time of requests is that of the load under which it was traced: another load, at another moment.
    turns = more[0] if more else own
    row |= {"ports": program.ports, "seconds": seconds, "own": own.document(), "turns": turns.document(),
            "whole": own.rows.whole}
    if options.account:
        response = document["latency_ns"]["service"] or {}
        return row | {"client_mean_ns": response.get("mean"), "valid": document["verdict"]["valid"]}
    tables = {"rate": own.rate, "latency": turns.latency, "tail": turns.tail if own.sees_arrivals else None,
              "rates": own.rates | {"loop": turns.rates["loop"]} if "loop" in own.rates else own.rates,
              "station": (own.station, own.utilization), "mean_ns": turns.mean_ns}
    row |= {"cause": document["diagnosis"][0]["cause"] if document["diagnosis"] else None,
            "ledger": document.get("ledger"), "verdict": (document.get("verdict") or {}).get("limit")}
    row["results"] = ledger.judge(plan, program.ports, tables, document.get("ledger"))
    if options.double:
        row["doubled"] = double(options, plan, builds, own, document)
    return row


def judged_again(row):
    """A row of an earlier run with today's words; its account and its ledger as they were."""
    if "results" in row:
        def keyed(table):
            parts = {name: name.split(" ") for name in table}
            return {tuple(int(word) if word.isdigit() else word for word in parts[name]): share
                    for name, share in table.items()}
        turns = row.get("turns", row["own"])
        tables = {"rate": keyed(row["own"]["rate"])} | {which: keyed(turns[which]) for which in ("latency", "tail")}
        tables |= {"rates": {name: keyed(table) for name, table in row["own"].get("rates", {}).items()},
                   "station": (row["own"]["station"], row["own"]["utilization"]), "mean_ns": turns["mean_ns"]}
        if "loop" in tables["rates"] and "loop" in turns["rates"]:
            tables["rates"]["loop"] = keyed(turns["rates"]["loop"])
        if row["runtime"] == "java":
            del tables["tail"]
        row["results"] = ledger.judge(row["plan"], row["ports"], tables, row["ledger"])
    return row


# ---- one step doubled ----


def double(options, plan, builds, own, document):
    """The plan with its largest step doubled: rate and mean measured in pairs, beside what was predicted."""
    index = max(range(len(plan["steps"])), key=lambda i: own.latency.get(largest_key(plan, i, own.ports), 0))
    other = planned.doubled(plan, index)
    if other is None:
        return None
    loads = {"planned": [], "doubled": []}
    for _ in range(2):
        for name, one in (("planned", plan), ("doubled", other)):
            with Program(one, builds) as program:
                flags = ["-c", str(plan["load"]["connections"])]
                load(options, program.url, flags, 3 if plan["runtime"] == "java" else 1)
                loads[name].append(load(options, program.url, flags, 2))
    rates = {name: statistics.median(map(achieved, all_of)) for name, all_of in loads.items()}
    key = largest_key(plan, index, own.ports)
    return {"step": index, "kind": plan["steps"][index]["kind"], "rate_ratio": rates["doubled"] / rates["planned"],
            "expected_ratio": expected_ratio(own, key),
            "predicted_ratio": predicted_ratio(plan, own, key, document.get("ledger"))}


def largest_key(plan, index, ports):
    """The class in which a step's own work stands."""
    step = plan["steps"][index]
    kind = "inside" if step["kind"] in ("lock", "slot") else step["kind"]
    return account.step_key(plan, kind, step, ports)


def expected_ratio(own, key):
    """What the program's account alone says of the rate after its doubling: the station's time grows by the row.

    None where the plan's load is a rate, as the pairs are closed loops, in which something else limits.
    """
    if own.station == "offered":
        return None
    share = own.rate.get(key, 0.0)
    return 1.0 / (1.0 + share)


def predicted_ratio(plan, own, key, said):
    """What prony's ledger says of the same, by Amdahl where cores or threads are full and by Little's law where requests
    stand somewhere; None where its load is a rate, where there is no account, and where its words fit other steps too."""
    account, names = (said or {}).get("rate"), ledger.Names(plan, own.ports)
    if own.station == "offered" or not account or names.group(key) != key:
        return None
    table, *_ = ledger.measured(account, names, "rate")
    return 1.0 / (1.0 + table.get(key, 0.0))


# ---- tables ----


def mark(result, name):
    return "-" if result is None else "ok" if result[name] else "NO"


def show(row):
    label = f"{row['seed']:>5} {row['runtime']:<4}"
    if "error" in row:
        print(f"{label} ERROR {row['error']}", flush=True)
        return
    own = row["own"]
    if "client_mean_ns" in row:
        ratio = own["mean_ns"] / row["client_mean_ns"] if row["client_mean_ns"] else 0.0
        print(f"{label} {own['station']:<11} {own['utilization']:5.0%} {own['requests']:>7} requests"
              f" {own['mean_ns'] / 1e6:8.3f} ms, client's x{ratio:.2f}  {planned.shown(row['plan'])}")
        for which in ("rate", "latency", "tail"):
            print(f"            {which:<8}" + ", ".join(f"{name} {share:.0%}" for name, share in own[which].items()
                                                       if share >= 0.02), flush=True)
        return
    results = row["results"]
    cells = []
    for which in ("rate", "latency", "tail"):
        one = results.get(which)
        cells.append(f"{mark(one, 'top_right'):>4} {mark(one, 'rows_right'):>4} {mark(one, 'sums'):>4}")
    print(f"{label} {own['station']:<11} {' |'.join(cells)} | {row['seconds']:4.1f} s {row['cause']}; "
          f"{planned.shown(row['plan'])}")
    for which, result in results.items():
        if said := ledger.why(result):
            print(f"            {which}: {said}")
    if twice := row.get("doubled"):
        said = {name: "none" if twice[name] is None else f"x{twice[name]:.2f}"
                for name in ("expected_ratio", "predicted_ratio")}
        print(f"            {twice['kind']} doubled: rate x{twice['rate_ratio']:.2f}, from the program's account"
              f" {said['expected_ratio']}, from the ledger {said['predicted_ratio']}")
    sys.stdout.flush()


def summary(rows):
    """Counts of what was right; whether the reach was met (None when nothing was judged)."""
    judged = [row for row in rows if "results" in row]
    if not judged:
        return None
    met = True
    print(f"\n{'account':<10} {'plans':>5} {'top row':>8} {'rows':>6} {'sums':>6}")
    for which in ("rate", "latency", "tail"):
        results = [row["results"][which] for row in judged if which in row["results"]]
        if not results:
            continue
        share = {name: sum(result[name] for result in results) / len(results)
                 for name in ("top_right", "rows_right", "sums")}
        print(f"{which:<10} {len(results):>5} {share['top_right']:>8.0%} {share['rows_right']:>6.0%} {share['sums']:>6.0%}")
        met &= share["top_right"] >= REACH["tail_top" if which == "tail" else "top"]
        met &= which == "tail" or (share["rows_right"] == 1 and share["sums"] == 1)
    for runtime in planned.RUNTIMES:
        own = [row["results"]["rate"] for row in judged if row["runtime"] == runtime and "rate" in row["results"]]
        if own:
            print(f"{runtime:<10} {len(own):>5} {sum(one['top_right'] for one in own) / len(own):>8.0%} (rate)")
    for name, whose in (("expected_ratio", "the program's account"), ("predicted_ratio", "the ledger")):
        twice = [row["doubled"] for row in judged if row.get("doubled") and row["doubled"][name]]
        if errors := [abs(one[name] / one["rate_ratio"] - 1) for one in twice]:
            print(f"one step doubled, {len(errors)} plans: {whose} is off by {statistics.median(errors):.0%} (median),"
                  f" {max(errors):.0%} at most")
    failures = Counter(f"{which}: {kind_of(ledger.why(result))}" for row in judged
                       for which, result in row["results"].items() if ledger.why(result))
    for name, count in failures.most_common(20):
        print(f"  {count:>4} {name}")
    healthy = sum(row["cause"] == "none" for row in judged)
    print(f"{len(judged)} plans judged, {len(rows) - len(judged)} failed to run; cause `none` in {healthy};"
          f" {statistics.mean(row['seconds'] for row in judged):.1f} s a diagnosis")
    return met


def kind_of(text):
    """A failure without its names and figures, to be counted."""
    words = [word for word in text.split() if not any(c.isdigit() for c in word)
             and word not in planned.FUNCTIONS]
    return " ".join(words)


# ---- the command ----


def write_rows(options, rows):
    if options.json:
        Path(options.json).write_text(json.dumps(rows, indent=1, default=str))


def arguments():
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0], epilog=EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--prony", default=run.default_prony(), help="binary; default: the newest below target/, else PATH")
    parser.add_argument("--plans", type=int, default=1, help="how many (default 1)")
    parser.add_argument("--seed", type=int, default=1, help="the first seed (default 1)")
    parser.add_argument("--runtime", default=",".join(planned.RUNTIMES), help="c,go,java: taken in turn")
    parser.add_argument("--quick", action="store_true", help="short loads, and errors alone fail: the part for test runs")
    parser.add_argument("--account", action="store_true", help="no diagnosis: the programs' accounts beside a plain load")
    parser.add_argument("--live", action="store_true", help="another process makes the load, and prony only watches")
    parser.add_argument("--double", action="store_true", help="measure each plan with its largest step doubled, too")
    parser.add_argument("--duration", help="length of the timed load (default: prony's)")
    parser.add_argument("--json", metavar="FILE", help="write every row to FILE")
    parser.add_argument("--record", metavar="DIR", help="keep the record of each diagnosis below DIR")
    parser.add_argument("--again", metavar="FILE", nargs="+", help="judge rows that --json wrote before, without a run")
    parser.add_argument("--show", action="store_true", help="print the plans as JSON and stop")
    return parser.parse_args()


def main():
    options = arguments()
    runtimes = options.runtime.split(",")
    if unknown := set(runtimes) - set(planned.RUNTIMES):
        print(f"unknown runtime {' '.join(unknown)}; known are {' '.join(planned.RUNTIMES)}", file=sys.stderr)
        return EXIT_USAGE
    if options.quick:
        options.duration = options.duration or "2s"
    plans = [planned.make_plan(options.seed + i, runtimes[i % len(runtimes)]) for i in range(options.plans)]
    if options.show:
        print(json.dumps(plans, indent=1))
        return EXIT_VALID
    if options.again:
        rows = [judged_again(row) for path in options.again for row in json.loads(Path(path).read_text())]
        for row in rows:
            show(row)
        return EXIT_VALID if summary(rows) else EXIT_COMPARISON
    if not options.prony or not Path(options.prony).exists():
        print("there is no prony binary\nremedy: make build, or --prony PATH", file=sys.stderr)
        return EXIT_ENVIRONMENT
    options.prony = str(Path(options.prony).resolve())
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    lab.become_reaper()
    rows = []
    with tempfile.TemporaryDirectory(prefix="prony-plan-build-") as builds:
        if lacking := build(runtimes, Path(builds)):
            print(f"programs are lacking\nremedy: as root, apt-get install {lacking}", file=sys.stderr)
            return EXIT_ENVIRONMENT
        try:
            for plan in plans:
                rows.append(judge(options, plan, Path(builds)))
                show(rows[-1])
        except KeyboardInterrupt:
            print("interrupted; what was judged before:", file=sys.stderr)
            write_rows(options, rows)
            summary(rows)
            return EXIT_INTERRUPTED
    write_rows(options, rows)
    met = summary(rows)
    if options.account or options.quick:
        return EXIT_COMPARISON if any("error" in row for row in rows) else EXIT_VALID
    return EXIT_VALID if met else EXIT_COMPARISON


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(EXIT_INTERRUPTED)
