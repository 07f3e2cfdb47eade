"""Records judged again without the rule that named them first: nothing may become healthy, and a row must still tell.

`--record DIR` of run.py keeps the records; the judge is the example `rejudge` of the crate `analysis`. A record whose rule is
taken out is right when no `none` comes first, and told when the largest row of an account that is not the server's own work
is of a kind that the rule would have named, or what comes first instead explains such a row, or one of them holds a word of the
place (`says`): the same function, call or peer without its name.
"""

import os
import re
import subprocess
from pathlib import Path

HERE = Path(__file__).resolve().parent
ANSWER = re.compile(r"(?:ok|WRONG)?\s*(\S+)\s+\[\w+\] ~?(\w+)@")
ROW = re.compile(r"\s+row (\w+) (same|other) ([\d.]+) (.+)")


def judge():
    """The newest build of the example; None when there is none."""
    target = Path(os.environ.get("CARGO_TARGET_DIR", HERE.parent / "target"))
    built = [path for path in target.glob("*/examples/rejudge") if path.exists()]
    return max(built, key=lambda path: path.stat().st_mtime, default=None)


def ask(program, record, cause=""):
    """(the first cause, {account: (whether it is a row of that cause, its text)}) of one record."""
    leave_out = ["--without", cause] if cause else []
    said = subprocess.run([program, *leave_out, record], capture_output=True, text=True, check=True).stdout
    return read(said)


def read(said):
    """What `rejudge` printed of one record."""
    first = next((found[2] for line in said.splitlines() if (found := ANSWER.match(line.strip()))), "")
    rows = {found[1]: (found[2] == "same", found[4]) for line in said.splitlines() if (found := ROW.match(line))}
    return first, rows


def measure(records, chosen):
    """Prints what every record of a planted cause says without its rule; the share that is not called healthy, or None."""
    program = judge()
    if not program:
        print("there is no judge\nremedy: cargo build -p analysis --example rejudge")
        return None
    healthy, told, others, judged = 0, 0, 0, 0
    wanted = {f"{case.name}-{state}": case.expected(state) for case in chosen for state in case.states}
    places = {f"{case.name}-{state}": case.data[state].get("says", []) for case in chosen for state in case.states}
    for record in sorted(Path(records).iterdir()):
        rule, _ = ask(program, record)
        right = wanted.get(record.name, [])
        # Only what is right with all rules can lose its rule; where `none` is right, too, it may be healthy.
        if rule not in right or "none" in right:
            continue
        then, rows = ask(program, record, rule)
        judged += 1
        healthy += then == "none"
        mark = ""
        same = any(same for same, _ in rows.values())
        if same or any(word in text.lower() for _, text in rows.values() for word in places[record.name]):
            mark = "told"
            told += 1
        else:
            others += then not in ("none", "unknown", "unlabelled")
        largest = next((text for name, (_, text) in rows.items() if name != "first"), "")
        print(f"{'HEALTHY' if then == 'none' else mark:<8} {record.name:<44} {rule} -> {then}: {largest}", flush=True)
    if not judged:
        return None
    print(f"\nof {judged} records without the rule that named them, {healthy} are called healthy; in {told} the largest row, or "
          f"what comes first, is of the kind that the rule names, {others} more get another cause first")
    return 1 - healthy / judged
