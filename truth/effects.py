"""What a planted cause costs here: slow and fixed servers loaded in turn, the ratios of what was measured.

Slow and fixed never run at the same time: a neighbour or a quota of the one would touch the other.
"""

import json
import statistics
import subprocess

import lab

# A ratio nearer to 1 than this is noise on a shared machine.
LEAST_EFFECT = 1.15
ROUNDING = 1e-9
# Share of failed requests and answers with an error that a healthy server may show.
MOST_BAD = 0.01


def load(options, case, state, place):
    """One load: rate, response times, CPU of the servers per request, share of failures."""
    before, front_before = place.cpu_seconds(), place.front_cpu_seconds()
    argv = ["taskset", "-c", lab.LOAD_CPU, options.prony, "load", place.url, "--json", "--warmup", "500ms",
            "-d", f"{int(options.seconds * 1000)}ms", *place.load]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=options.seconds + 60)
    used, front_used = place.cpu_seconds() - before, place.front_cpu_seconds() - front_before
    try:
        answer = json.loads(done.stdout)
    except ValueError:
        raise lab.NotReady(f"the load said: {done.stderr.strip()[-300:]}") from None
    requests, times = answer["requests"], answer["latency_ns"]["response"] or {}
    seconds = options.seconds + 0.5
    # A load that may hang on a server without an answer takes longer than asked; the CPU is of the whole of it.
    completed = max(requests["completed"] * seconds / options.seconds, 1)
    failed = sum(requests["failed"].values())
    bad = sum(n for status, n in answer["status"].items() if status[0] in "45")
    return {
        "rate": answer["rate_per_s"]["achieved"] or 0.0,
        "p50_ms": times.get("p50", 0) / 1e6,
        "p99_ms": times.get("p99", 0) / 1e6,
        "cpu_us": used * 1e6 / completed,
        "front_us": front_used * 1e6 / completed,
        "bad": (failed + bad) / max(requests["completed"] + failed, 1),
    }


def medians(loads):
    return {name: statistics.median(one[name] for one in loads) for name in loads[0]}


def compare(options, case):
    """Medians of each state."""
    loads = {state: [] for state in case.states}
    for _ in range(options.rounds):
        for state in case.states:
            with lab.Lab(case, state, options.prony, options.keep) as place:
                loads[state].append(load(options, case, state, place))
    return {state: medians(all_loads) for state, all_loads in loads.items()}


def costs(slow, fixed):
    """By how much the slow one is worse, quantity by quantity; above 1 is worse."""
    return {
        "rate": (fixed["rate"] + ROUNDING) / (slow["rate"] + ROUNDING),
        "p50_ms": (slow["p50_ms"] + ROUNDING) / (fixed["p50_ms"] + ROUNDING),
        "p99_ms": (slow["p99_ms"] + ROUNDING) / (fixed["p99_ms"] + ROUNDING),
        "cpu_us": (slow["cpu_us"] + ROUNDING) / (fixed["cpu_us"] + ROUNDING),
        "bad": 1.0 + max(slow["bad"] - fixed["bad"], 0.0) * 100,
    }


def line(name, state, one):
    return (f"{name:<34} {state:<7} {one['rate']:>9.0f} {one['p50_ms']:>9.2f} {one['p99_ms']:>9.2f}"
            f" {one['cpu_us']:>9.1f} {one['bad']:>6.1%}")


def measure(options, cases):
    """Prints every case; true when every planted cause has an effect and every healthy server answers."""
    print(f"{'case':<34} {'state':<7} {'req/s':>9} {'p50 ms':>9} {'p99 ms':>9} {'CPU us':>9} {'bad':>6}")
    sound = True
    for case in cases:
        lacking = lab.lacking(case.data)
        if lacking:
            print(f"{case.name:<34} skipped: needs {lacking}", flush=True)
            continue
        try:
            result = compare(options, case)
        except (lab.NotReady, subprocess.TimeoutExpired) as error:
            print(f"{case.name:<34} FAILED: {error}", flush=True)
            sound = False
            continue
        for state in case.states:
            print(line(case.name, state, result[state]), flush=True)
        if "slow" in result and "fixed" in result:
            worse = costs(result["slow"], result["fixed"])
            felt = max(worse.values()) >= LEAST_EFFECT
            sound &= felt
            ratios = " ".join(f"{name} x{ratio:.2f}" for name, ratio in worse.items() if name != "bad")
            print(f"{'':<34} {'worse' if felt else 'NO EFFECT'}: {ratios}", flush=True)
        else:
            sound &= result[case.states[-1]]["bad"] < MOST_BAD or case.data.get("answers_errors", False)
    return sound
