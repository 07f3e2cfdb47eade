"""Random plans for servers whose account of themselves is known: what each request does, and which load comes.

A plan is JSON with the seed that it was made from. `columns` are the places of the program's account, in the order of
its rows; a step that first waits and then works (a lock, a slot) has two of them.
"""

import random

RUNTIMES = ("c", "go", "java")
FUNCTIONS = ["sort_records", "hash_blocks", "scan_text", "multiply_matrix", "parse_numbers"]
STALL_FUNCTION = "compact_store"
# What each runtime can be asked for. A loop waits for a slot with nobody, and shares a lock with a thread beside it.
KINDS = {
    "c": ["burn", "burn", "lock", "sleep", "upstream", "file", "log", "sync", "allocate", "pieces"],
    "go": ["burn", "burn", "lock", "sleep", "upstream", "file", "log", "sync", "allocate", "pieces", "slot"],
    "java": ["burn", "burn", "lock", "sleep", "upstream", "file", "log", "sync", "allocate", "pieces", "slot"],
}
CONNECTIONS = [1, 2, 4, 8, 16, 32, 64]
# Steps that do the same number of rounds, turns or bytes twice when they are doubled.
DOUBLED = {"burn": "us", "sleep": "us", "lock": "us", "slot": "us", "upstream": "turns", "file": "bytes",
           "log": "bytes", "sync": "times", "allocate": "bytes", "pieces": "gap_us"}


def log_uniform(source, low, high):
    return int(low * (high / low) ** source.random())


def inside(source, functions):
    """Work done while something is held: a burn or a sleep."""
    us = log_uniform(source, 50, 500)
    if source.random() < 0.5:
        return {"inside": "burn", "function": functions.pop(), "us": us}
    return {"inside": "sleep", "function": "-", "us": us * 2}


def make_step(source, kind, functions, upstreams):
    """One step of a kind; sizes are log-uniform, so that any of several may be the largest."""
    step = {"kind": kind}
    if kind == "burn":
        return step | {"function": functions.pop(), "us": log_uniform(source, 30, 600)}
    if kind == "sleep":
        return step | {"us": log_uniform(source, 200, 3000)}
    if kind == "lock":
        return step | {"lock": 0} | inside(source, functions)
    if kind == "slot":
        return step | {"slots": source.choice([1, 2, 4])} | inside(source, functions)
    if kind == "upstream":
        upstreams.append({"delay_us": log_uniform(source, 100, 2000)})
        turns = source.choice([1, 1, 2, 4, 8])
        return step | {"upstream": len(upstreams) - 1, "turns": turns, "at_once": turns > 1 and source.random() < 0.4}
    if kind == "file":
        return step | {"bytes": 4096 * log_uniform(source, 2, 64), "cached": source.random() < 0.5}
    if kind == "log":
        return step | {"bytes": log_uniform(source, 200, 20_000)}
    if kind == "sync":
        return step | {"bytes": log_uniform(source, 200, 4000)}
    if kind == "allocate":
        return step | {"bytes": 4096 * log_uniform(source, 16, 128)}
    return step | {"pieces": source.choice([2, 3, 4, 8]), "gap_us": source.choice([0, log_uniform(source, 100, 1000)])}


def make_plan(seed, runtime):
    """The plan of a seed: the same for the same seed and runtime."""
    source = random.Random(f"{seed}-{runtime}")
    functions, upstreams, steps = source.sample(FUNCTIONS, len(FUNCTIONS)), [], []
    for kind in source.sample(KINDS[runtime], source.randint(2, 5)):
        steps.append(make_step(source, kind, functions, upstreams))
    if not any(step.get("function", "-") != "-" for step in steps):
        # So that the rate stays within what one core of load can offer.
        steps.append(make_step(source, "burn", functions, upstreams))
    source.shuffle(steps)
    # What is sent in pieces is the response, and that is the last.
    steps.sort(key=lambda step: step["kind"] == "pieces")
    # Sizes that two, three, four and eight pieces divide.
    plan = {"seed": seed, "runtime": runtime, "response": source.choice([240, 1200, 9600]), "steps": steps,
            "upstreams": upstreams}
    if runtime == "c" and any(step["kind"] == "lock" for step in steps):
        plan["holders"] = [{"lock": 0, "inside": "sleep", "function": "-", "us": log_uniform(source, 200, 2000),
                            "pause_us": log_uniform(source, 500, 5000)}]
    if source.random() < 0.4:
        kind = source.choice(["burn", "sleep"])
        plan["stall"] = {"every_ms": source.choice([200, 300, 500]), "us": log_uniform(source, 8000, 60_000),
                         "inside": kind, "function": STALL_FUNCTION if kind == "burn" else "-"}
    plan["load"] = {"connections": source.choice(CONNECTIONS)}
    if source.random() < 0.3:
        plan["load"] = {"connections": 64, "share_of_capacity": round(source.uniform(0.25, 0.75), 2)}
    return plan


def columns(plan):
    """Names of the program's columns with what stands in each: [(kind, step or stall)]."""
    found = []
    for step in plan["steps"]:
        found.append((step["kind"], step))
        if step["kind"] in ("lock", "slot"):
            found.append(("inside", step))
    if "stall" in plan and plan["runtime"] != "c":
        found.append(("stall", plan["stall"]))
    return found


def doubled(plan, index):
    """The same plan with one step doubled."""
    step = dict(plan["steps"][index])
    what = DOUBLED[step["kind"]]
    if step["kind"] == "upstream" and step["turns"] > 8:
        return None
    step[what] = 2 * step.get(what, 1)
    steps = [*plan["steps"]]
    steps[index] = step
    return plan | {"steps": steps, "doubled": index}


def lines(plan, place):
    """The plan as the servers read it: a word a field. `place` has port, records, capacity, log, files and peers."""
    text = [f"port {place['port']}", f"response {plan['response']}", f"columns {len(columns(plan))}",
            f"records {place['records']} {place['capacity']}", f"log {place['log']}"]
    text += [f"upstream {index} {port}" for index, port in enumerate(place["peers"])]
    column = 0
    for index, step in enumerate(plan["steps"]):
        text.append(f"step {step_line(step, column, place['files'].get(index))}")
        column += 2 if step["kind"] in ("lock", "slot") else 1
    text += [f"holder {one['lock']} {one['us']} {one['pause_us']} {one['inside']} {one['function']}"
             for one in plan.get("holders", [])]
    if stall := plan.get("stall"):
        text.append(f"stall {stall['every_ms']} {stall['us']} {stall['inside']} {stall['function']} {column}")
    return "\n".join(text) + "\n"


def step_line(step, column, path):
    kind = step["kind"]
    if kind == "burn":
        return f"burn {column} {step['function']} {step['us']}"
    if kind == "sleep":
        return f"sleep {column} {step['us']}"
    if kind in ("lock", "slot"):
        which = step["lock"] if kind == "lock" else step["slots"]
        return f"{kind} {column} {which} {step['inside']} {step['function']} {step['us']}"
    if kind == "upstream":
        return f"upstream {column} {step['upstream']} {step['turns']} {int(step['at_once'])}"
    if kind == "file":
        return f"file {column} {path} {step['bytes']} {int(step['cached'])}"
    if kind == "log":
        return f"log {column} {step['bytes']} 0"
    if kind == "sync":
        return f"log {column} {step['bytes']} {step.get('times', 1)}"
    if kind == "allocate":
        return f"allocate {column} {step['bytes']}"
    return f"pieces {column} {step['pieces']} {step['gap_us']}"


def shown(plan):
    """The plan in one line."""
    words = []
    for step in plan["steps"]:
        kind = step["kind"]
        detail = {
            "burn": lambda: f"{step['function']} {step['us']} us",
            "sleep": lambda: f"{step['us']} us",
            "lock": lambda: f"{step['inside']} {step['us']} us",
            "slot": lambda: f"of {step['slots']} {step['inside']} {step['us']} us",
            "upstream": lambda: f"{step['turns']}{' at once' if step['at_once'] else ''} x"
                                f" {plan['upstreams'][step['upstream']]['delay_us']} us",
            "file": lambda: f"{step['bytes'] >> 10} KiB{'' if step['cached'] else ' uncached'}",
            "pieces": lambda: f"{step['pieces']} every {step['gap_us']} us",
        }.get(kind, lambda: f"{step['bytes']} B")()
        words.append(f"{kind} {detail}")
    if stall := plan.get("stall"):
        words.append(f"stall {stall['inside']} {stall['us'] / 1000:.0f} ms every {stall['every_ms']} ms")
    load = plan["load"]
    words.append(f"{load['connections']} connections")
    if "share_of_capacity" in load:
        words.append(f"at {load['share_of_capacity']:.0%} of the capacity")
    return "; ".join(words)
