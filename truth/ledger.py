"""Holds prony's ledger against a program's own account: row by row, by what a row must name.

| step | a row is it when it names |
|---|---|
| burn | the function |
| upstream | the peer's address (its port) |
| sleep | sleeping, or a wait that a timer ended |
| lock, slot | a lock, semaphore, pool, futex or monitor; or the function in which the holder is |
| file | a file, reading or a disk |
| log, sync | a log, writing; syncing, a journal |
| allocate | memory, faults, pages, allocation, collecting |
| pieces | sending, or (with gaps in between) sleeping |
| stall | the stall's function; for a sleep, a wait that is not a request's own |
| queue | waiting for a CPU, a thread or other requests |
| rest | its smaller rows, each by what it names |
| hidden | nothing: what no thread was seen to do is no step's |
| run_queue, wake_up | in line for a CPU: the program calls it queue, also of its loop's time |
| unanswered | nothing: a program accounts for the requests that it answered |
| client, unsent | the way to the client and back, and what is due and not sent: a program that sees when a request arrived does not count it; one that does not calls the way queue, and what its clients waited beyond its own account |
| collecting | garbage that is collected is the allocating step's or the program's own: the program knows the part that the step itself did |
| sending | what is sent beside upstream steps is theirs (the program's own) or the pieces': the kernel's side does not say for whom |
| own | any other row of work: the program's reading, parsing and answering |

A goroutine that comes back from the disk waits for the runtime's only place to go on, which neither clock of the program
nor the kernel's count shows: its disk steps and its queue are held against the ledger's together, where the ledger's disk is not
the larger one. Threads in Java that a stall held up wake one another: those further behind stand at the lock, where the program
counts them in line, and both are held against the ledger's together, where its stall is not the smaller one. A goroutine's
thread that serves is held against the core, by what it ran.

Classes of one plan that the same words describe (a lock, a slot and a stall that is waited for; sleeps and gaps) are one
group. Rows of an account are taken as they are: shares of the total that the account states, an idle rest taken out on
both sides. Work is told by its label and by the plan's functions, not by the words that the names of a runtime's own
functions contain. What a rate divides (a core, the loop, requests) is the ledger's choice: it is held against the program's
account of the same, and the choice against what was full beyond doubt.
"""

import json
import re


# Points between a row and the program's own account, and from which share on a row counts.
POINTS, FROM = 0.05, 0.10
SUM_POINTS = 0.03

WORDS = {
    "sync": r"sync|journal|jbd2|fsync|flush",
    "file": r"\bfile|\bread(?!y)|disk|pread|page.?cache|copy of a page|io_schedule|direct.?io|fadvise|filemap|ext4",
    "log": r"\blog|\bwrit|append",
    "sleep": r"sleep|timer",
    "slot": r"slot|semaphore|pool|futex|\block|mutex|park|monitor|\bchan",
    "lock": r"\block|mutex|futex|monitor|park|semaphore",
    "allocate": r"alloc|memory|fault|mmap|munmap|zero|clear_page|garbage|\bgc\b|heap",
    "pieces": r"send|sent|tcp.?write|last byte",
    "queue": r"queue|other request|others|behind|for a cpu|for a thread|no free thread|accepted|run queue|wake.?up|not read"
             r"|ahead of it|scheduler|in line|head of line",
}
# Rows of a core's time that are not the program's: taken out, as an idle rest is.
BESIDE = {"idle", "throttled", "steal", "beside", "foreign", "generator", "unanswered"}
# In line for a CPU.
IN_LINE = {"run_queue", "wake_up"}
# The kernel's side of connections, whoever called: what is written there is no log.
NETWORK = {"softirq", "net_send", "net_receive", "connections"}
# A station this full limits: what a rate divides must be it.
SURELY_FULL = 0.95
BASES = {"core": {"cpu"}, "loop": {"threads", "cpu"}, "lock": {"requests", "threads"}, "slot": {"requests", "threads"}}
# The client's side of a response: its own queue, and the way there and back.
CLIENTS = {"client", "unsent"}
# A class of rows that may be a step's or the program's own.
COLLECTING = ("collecting",)
SENDING = ("sending",)
# Rows that name nothing: no step is one of them.
UNNAMED = {"rest", "hidden"}
# A loop that stalls is a loop that runs, or waits, for no request.
OUTSIDE = r"outside of requests"
IDLE = r"\bidle\b|not used|nothing to do|spare|\bfree\b(?! thread)"
# Words that make a row one of waiting for one's turn, whatever it names beside.
QUEUE_FIRST = r"behind|other requests|others|ahead of it|in line|run queue|listen queue|waiting for a (cpu|thread)" \
              r"|waking the thread|not yet read"


def text_of(row):
    """Everything that a row says of where, as one text in lower case."""
    return json.dumps([row.get(name) for name in ("label", "where")]).lower()


def ambiguous(plan):
    """Groups of kinds that the same words describe: {kind: name of the group}."""
    kinds = {step["kind"] for step in plan["steps"]}
    sleeps = {step["kind"] for step in plan["steps"] if step.get("inside") == "sleep"} | (kinds & {"sleep"})
    groups = {}
    if {"lock", "slot"} <= kinds:
        groups |= {"lock": "lock", "slot": "lock"}
    if {"log", "sync"} <= kinds:
        groups |= {"log": "log", "sync": "log"}
    if "stall" in plan and plan["runtime"] != "c" and kinds & {"lock", "slot"}:
        # Whom a stall holds up waits at a lock, too.
        groups |= {"lock": "lock", "slot": "lock", "stall": "lock"}
    gaps = any(step["kind"] == "pieces" and step["gap_us"] for step in plan["steps"])
    if gaps and sleeps:
        groups |= {"pieces": "sleep"}
    return groups


# Words that say what is waited for, whatever else the row names: the call that waits, or what the holder does.
WAITS = r"waiting for (a|the) (lock|permit|semaphore)|waiting for the result of another|waiting (until another|for) thread"


class Names:
    """Tells which class a row of prony's belongs to."""

    def __init__(self, plan, ports):
        self.plan, self.ports, self.groups = plan, ports, ambiguous(plan)
        self.functions = {step["function"] for step in plan["steps"] if step.get("function", "-") != "-"}
        self.kinds = {step["kind"] for step in plan["steps"]}
        if any(step.get("inside") == "sleep" for step in plan["steps"]):
            self.kinds.add("sleep")
        self.gaps = any(step["kind"] == "pieces" and step["gap_us"] for step in plan["steps"])
        self.stall = plan.get("stall")

    def group(self, key):
        """The class under its group's name."""
        return (self.groups[key[0]],) if key[0] in self.groups else key

    def beside_queue(self):
        """Classes that the program cannot tell from its queue, and whether the ledger's may be the larger."""
        if self.plan["runtime"] == "go":
            return {self.group((step["kind"],)) for step in self.plan["steps"]
                    if step["kind"] == "sync" or step["kind"] == "file" and not step["cached"]}, False
        stalls = self.stall and self.plan["runtime"] == "java"
        return ({self.group(("stall",))} if stalls else set()), True

    def of_goroutines(self, account):
        """Whether an account divides the time of a thread that serves goroutines: of that the program knows the core's."""
        return account.get("basis") == "threads" and self.plan["runtime"] == "go"

    def grouped(self, shares):
        table = {}
        for key, share in shares.items():
            table[self.group(key)] = table.get(self.group(key), 0) + share
        return table

    def of(self, row, account):
        """The class of a row of one account (`rate`, `cpu` for a rate of CPU time, `latency` or `tail`); None for an \
idle rest."""
        text = text_of(row)
        if row.get("kind") in BESIDE:
            return None
        if row.get("kind") in CLIENTS:
            # What is due and not sent is no time of a connection.
            sent = row["kind"] == "client" or "share_of_capacity" not in self.plan["load"]
            return ("queue",) if self.plan["runtime"] == "java" and sent else None
        if self.by_label(row, account):
            if row.get("kind") == "gc" and "allocate" in self.kinds:
                return COLLECTING
            named = self.functions | ({self.stall["function"]} if self.stall else set())
            text = json.dumps(row["label"]).lower() + " ".join(one for one in named if one in text)
        inside = re.match(r'\["in upstream-(\d+)', text)
        if inside and int(inside[1]) in self.ports:
            return ("upstream", int(inside[1]))
        if row.get("kind") in UNNAMED and not any(f"upstream-{port}" in text for port in self.ports):
            return (row["kind"],)
        if re.search(OUTSIDE, text):
            return self.group(("stall",)) if self.stall else ("own",) if account in ("rate", "cpu") else ("queue",)
        in_line = row.get("kind") in IN_LINE or account != "rate" and re.search(QUEUE_FIRST, text)
        waits_for_others = account != "cpu" and in_line
        if self.stall and self.stall["inside"] == "burn" and self.stall["function"] in text:
            # A queue may be one for others and for the stall: what it says first is what it mostly is.
            named = [text.find(one) for one in self.functions if one in text]
            if not waits_for_others or text.find(self.stall["function"]) < min(named, default=len(text)):
                return self.group(("stall",))
        if waits_for_others:
            return ("queue",)
        if (held := self.waits_for(text)) is not None:
            return held
        for function in self.functions:
            if function in text:
                return ("burn", function)
        for port in self.ports:
            # Its address, or the name that prony gives to a server that it found there.
            if re.search(rf"(:|upstream-){port}\b", text):
                return ("upstream", port)
        return self.by_words(row, text, account)

    @staticmethod
    def by_label(row, account):
        """Whether a row is one of work: its functions have names like any word."""
        return account == "cpu" or str(row["label"]).startswith("on the CPU in")

    def waits_for(self, text):
        """The class of a row that says that it waits for a lock or a permit; None for one that does not say so."""
        # A file has a lock of its own, which is a part of writing to it.
        if not re.search(WAITS, text):
            return None
        if "filechannel" in text:
            logs = self.kinds & {"log", "sync"}
            return self.group((min(logs),)) if logs else None
        order = ("slot", "lock") if re.search(r"permit|semaphore", text) else ("lock", "slot")
        for kind in order:
            if kind in self.kinds:
                return self.group((kind,))
        return ("stall",) if self.stall else None

    def by_words(self, row, text, account):
        order = ["sync", "sleep", "lock", "slot", "file", "allocate", "pieces", "log"]
        if re.search(IDLE, text):
            return None
        if row.get("kind") == "clock":
            # What is read there is no file.
            return ("own",)
        if row.get("kind") == "file_write" and (written := self.kinds & {"log", "sync"}):
            return self.group((min(written),))
        if self.gaps and "sleep_for" in text_of(row) and self.plan["runtime"] == "c":
            # The way to sleep between two pieces.
            return self.group(("pieces",))
        if row.get("kind") in NETWORK:
            # Nor is it known how much of a piece with a gap before it was the gap's.
            unknown = self.gaps and account == "cpu"
            pieces = "pieces" in self.kinds and row["kind"] != "connections" and not unknown
            if pieces and account == "cpu" and "upstream" in self.kinds:
                return SENDING
            return self.group(("pieces",) if pieces else ("own",))
        # A timed wait ends by a timer, whichever call it is.
        for kind in [kind for kind in order if kind in self.kinds]:
            # What runs does not wait: the CPU of steps that wait is the program's own.
            if account == "cpu" and kind in ("sleep", "lock", "slot"):
                continue
            if re.search(WORDS[kind], text):
                if kind in ("lock", "slot") and self.kinds & {"sleep"} and "timer" in text:
                    continue
                return self.group((kind,))
        if self.gaps and re.search(WORDS["sleep"], text):
            return self.group(("pieces",))
        if self.stall and account != "cpu":
            asleep = self.stall["inside"] == "sleep" and re.search(WORDS["sleep"] + "|" + WORDS["lock"], text)
            if asleep or self.plan["runtime"] != "c" and re.search(WORDS["lock"], text):
                return ("stall",)
        # What runs stands in no queue, whatever its name says of one.
        if account != "cpu" and re.search(WORDS["queue"], text):
            return ("queue",)
        return ("own",)

    def parts(self, row, account):
        """The classes of a row with their parts of it: a queue that says what ran meanwhile (`mostly compact_store 53 %,
        ...`) is one for the stall as far as that is the stall's function."""
        key = self.of(row, account)
        burning = self.stall and self.stall["inside"] == "burn"
        said = re.search(rf"\b{self.stall['function']} ([0-9.]+) %", str(row.get("where"))) if burning else None
        queues = account not in ("rate", "cpu") and key in (("queue",), self.group(("stall",)))
        if not said or not queues or not re.match("mostly ", str(row.get("where"))):
            return [(key, 1.0)]
        share = float(said[1]) / 100
        return [(self.group(("stall",)), share), (("queue",), 1 - share)]


def leaves(rows):
    """The rows, and for one that sums up smaller ones these."""
    for row in rows:
        yield from leaves(row["smaller"]) if row.get("smaller") else [row]


def measured(account, names, which):
    """Shares of prony's rows by class, idle taken out; the share that the rows add up to; rows as text by class."""
    table, total, idle, texts = {}, 0.0, 0.0, {}
    if which == "rate":
        which = {"requests": "latency", "us/request": "cpu"}.get(account.get("unit"), which)
    of_go = names.of_goroutines(account)
    if of_go:
        which = "cpu"
    for row in account.get("rows", []):
        total += row["share"]
    for row in leaves(account.get("rows", [])):
        of_thread = of_go and not row["label"].startswith("on the CPU in")
        for key, part in [(None, 1.0)] if of_thread else names.parts(row, which):
            share = row["share"] * part
            if key is None:
                idle += share
                continue
            table[key] = table.get(key, 0) + share
            texts.setdefault(key, []).append((share, row))
    if 0 < idle < 0.999:
        table = {key: share / (1 - idle) for key, share in table.items()}
    return table, total, texts


def top(shares):
    return max(shares, key=shares.get) if shares else None


def on_basis(account, own, names):
    """The program's shares of what the ledger's rate divides, and whether it may divide that."""
    rates, basis = own.get("rates"), account.get("basis")
    if not rates or not basis:
        return own["rate"], True
    station, utilization = own["station"]
    wanted = BASES.get(station) if utilization >= SURELY_FULL else None
    same = {"cpu": "core", "cpu_used": "core", "threads": "core" if names.of_goroutines(account) else "loop"}.get(basis)
    # Java has a thread for each connection: its time is that of its requests.
    of_requests = basis == "requests" or basis == "threads" and names.plan["runtime"] == "java"
    return (own["latency"] if of_requests else rates.get(same, own["rate"])), wanted is None or basis in wanted


def compare(account, expected, names, which):
    """One account held against the program's own; a row of the table."""
    result = {"which": which}
    if not account or not account.get("rows"):
        return result | {"missing": True, "top_right": False, "rows_right": False, "sums": False, "off": []}
    table, total, _ = measured(account, names, which)
    wanted = names.grouped(expected)
    # The program cannot tell whether this was sleep or queue.
    late = wanted.pop(("late",), 0.0)
    slept = {names.group(("sleep",)), ("queue",)} | ({names.group(("pieces",))} if names.gaps else set())
    most = {key: share + (late if key in slept else 0.0)
            for key, share in (dict.fromkeys(slept, 0.0) | wanted).items()}
    # Nor whose the garbage was, or what the kernel sent.
    either = {}
    for shared, kind in ((COLLECTING, "allocate"), (SENDING, "pieces")):
        part = table.pop(shared, 0.0)
        for key in {names.group((kind,)), ("own",)}:
            either[key] = either.get(key, 0.0) + part
    best = top(wanted)
    # Two rows of the same size are both the top one.
    right = {key for key, share in most.items() if share >= wanted[best] - POINTS}
    if which == "rate" and names.kinds & {"lock", "slot"}:
        right |= held_by(names, right)
    off = [(key, wanted.get(key, 0.0), table.get(key, 0.0)) for key in {*wanted, *table}
           if max(wanted.get(key, 0.0), table.get(key, 0.0)) > FROM
           and not (wanted.get(key, 0.0) - POINTS - either.get(key, 0.0)
                    <= table.get(key, 0.0) <= most.get(key, 0.0) + POINTS)]
    beside, larger = names.beside_queue()
    waits = {("queue",), *beside}
    if beside and (which != "rate" or account.get("basis") == "requests"):
        due, most_due, shown = (sum(one.get(key, 0.0) for key in waits) for one in (wanted, most, table))
        more = [table.get(key, 0.0) - wanted.get(key, 0.0) for key in beside]
        if due - POINTS <= shown <= most_due + POINTS and all((one if larger else -one) >= -POINTS for one in more):
            off = [one for one in off if one[0] not in waits]
            if larger and best in waits and top(table) in waits:
                right |= waits
    if which == "rate" and top(table) in right and top(table) not in wanted:
        # The lock was named, not what its holder does: the same time by another name.
        off = [one for one in off if one[0] not in right]
    return result | {
        "expected_top": best, "named_top": top(table), "top_right": top(table) in right, "rows_right": not off,
        "off": sorted(off, key=lambda one: -max(one[1:])), "total": total, "sums": abs(total - 1) <= SUM_POINTS,
    }


def held_by(names, right):
    """Locks and slots whose holder does what is at the top."""
    found = set()
    for step in names.plan["steps"]:
        if step["kind"] in ("lock", "slot"):
            inside = ("burn", step["function"]) if step["inside"] == "burn" else ("sleep",)
            if names.group(inside) in right:
                found.add(names.group((step["kind"],)))
    return found


def with_arrivals(plan, own, account):
    """The program's mean request with what its clients waited beyond it: a Java program does not see when its requests
    arrived, and where they come by a clock it cannot know it by Little's law."""
    if plan["runtime"] != "java" or "share_of_capacity" not in plan["load"] or not own.get("mean_ns") or not account:
        return own["latency"]
    unsent = sum(row["share"] for row in leaves(account["rows"]) if row.get("kind") == "unsent")
    whole_ns = max(account["total"] * 1e3 * (1 - unsent), own["mean_ns"])
    table = {key: share * own["mean_ns"] / whole_ns for key, share in own["latency"].items()}
    return table | {("queue",): table.get(("queue",), 0.0) + 1 - own["mean_ns"] / whole_ns}


def judge(plan, ports, own, ledger):
    """All accounts of one plan: {account: result}; `own` has the shares `rate`, `latency` and `tail`, and may have \
`rates` (the shares of each station) with `station` (the fullest, with its utilisation) and `mean_ns` (of a request)."""
    names = Names(plan, ports)
    results = {}
    if own.get("latency"):
        own = own | {"latency": with_arrivals(plan, own, (ledger or {}).get("latency"))}
    for which in ("rate", "latency", "tail"):
        expected = own.get(which)
        if not expected or (which == "tail" and "stall" not in plan):
            continue
        account, based = (ledger or {}).get(which), True
        if which == "rate" and account:
            expected, based = on_basis(account, own, names)
        results[which] = compare(account, expected, names, which)
        if not based:
            results[which] |= {"top_right": False, "basis": f"{account['basis']} for {own['station'][0]}"}
    return results


def why(result):
    """The kind of failure in one word or two; empty when nothing failed."""
    if result.get("missing"):
        return "no such account"
    if "basis" in result:
        return f"time of {result['basis']}"
    if not result["top_right"]:
        return f"{words(result['named_top'])} for {words(result['expected_top'])}"
    if not result["sums"]:
        return f"sums to {result['total']:.0%}"
    if not result["rows_right"]:
        key, expected, named = result["off"][0]
        return f"{words(key)} {named:.0%} for {expected:.0%}"
    return ""


def words(key):
    return " ".join(map(str, key)) if key else "nothing"


