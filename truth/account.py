"""What a program that executed a plan says of itself: its time by step, read from the rows that it wrote.

`Account` holds three shares of a whole: `latency` (the mean response), `tail` (that of the slowest 1 %) and `rate` (the
time of what limits). Keys are the steps' classes: ("burn", FUNCTION), ("upstream", PORT), ("sleep",) and so on, with
("queue",) for a request that waits for its turn or for a CPU and ("own",) for the rest of the program's work. Nothing here
has seen a word of prony's.

Surprise: a step that waits ends later than what it waited for, when the CPU is taken. The programs know by how much (an
upstream's answer and a lock by its own stamp, a sleep in C by the kernel's count of the thread's time in line, elsewhere
by its clock), and that part is queue, not wait. By its clock alone a program cannot tell a timer that fires late from a CPU
that is taken: what a sleep takes too long is ("late",) there, and may be either.
"""

import bisect
import mmap
import struct
from array import array

import planned

FIXED, STALLS = 6, 1024
HEADER = 16 + 24 * STALLS
UNKNOWN = 0xFFFFFFFF
# The slowest are those of prony's ledger: 1 %, and where that is few, so many, up to that part of all.
SLOWEST, LEAST_SLOW, MOST_SLOW = 0.01, 20, 0.05
# A station this full limits the rate.
FULL = 0.85


def size_of(plan, capacity):
    """Bytes of the shared file."""
    return HEADER + 4 * capacity * (FIXED + 3 * len(planned.columns(plan)))


class Rows:
    """The rows of one window, column by column, ns; and the stalls."""

    def __init__(self, path, plan, capacity, begin, end):
        width = FIXED + 3 * len(planned.columns(plan))
        with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            written, stalls = struct.unpack_from("<QQ", data)
            cells = array("I", data[HEADER:HEADER + 4 * width * min(written, capacity)])
            times = struct.unpack_from(f"<{3 * min(stalls, STALLS)}Q", data, 16)
        stalls = sorted(zip(times[::3], times[1::3], times[2::3]))
        # Begin and end, and the CPU time of each.
        self.stalls, self.stall_cpu = [(at, to) for at, to, _ in stalls], [ran for *_, ran in stalls]
        done = [low + (high << 32) for low, high in zip(cells[0::width], cells[1::width])]
        inside = [index for index, at in enumerate(done) if begin <= at < end]
        # An overwritten beginning would be a window with a hole.
        self.whole = written <= capacity or min(done) <= begin
        self.done = [done[index] for index in inside]
        self.column = [[one[index] for index in inside] for one in (cells[at::width] for at in range(width))]

    def __len__(self):
        return len(self.done)


def step_key(plan, kind, step, ports):
    """The class of a column."""
    if kind == "inside":
        return ("burn", step["function"]) if step["inside"] == "burn" else ("sleep",)
    if kind == "burn":
        return ("burn", step["function"])
    if kind == "upstream":
        return ("upstream", ports[step["upstream"]])
    return (kind,)


def overlap(stalls, ends, begin, end):
    """Time of the stalls that lies between begin and end."""
    total = 0
    for at in range(bisect.bisect_right(ends, begin), len(stalls)):
        if stalls[at][0] >= end:
            break
        total += min(end, stalls[at][1]) - max(begin, stalls[at][0])
    return total


class Account:
    """Shares by class; `totals` in ns a request, `station` what limits the rate with its utilisation."""

    def __init__(self, plan, ports, rows, window_ns, cpu_ns):
        self.plan, self.ports, self.rows = plan, ports, rows
        self.window_ns, self.cpu_ns = window_ns, cpu_ns
        count = len(rows)
        # A Java program does not see when its requests arrived; by Little's law it knows the mean in a closed loop.
        self.sees_arrivals = plan["runtime"] != "java"
        all_of_them = range(count)
        mean = self.sums(all_of_them)
        load = plan["load"]
        if not self.sees_arrivals and "share_of_capacity" not in load:
            rest = load["connections"] * window_ns - sum(mean.values())
            mean[("queue",)] = mean.get(("queue",), 0) + max(rest, 0)
        self.latency = shares(mean)
        self.mean_ns = sum(mean.values()) / max(count, 1)
        slowest = sorted(all_of_them, key=self.response)[count - max(int(count * SLOWEST), LEAST_SLOW):]
        self.tail = shares(self.sums(slowest)) if count * MOST_SLOW >= LEAST_SLOW else None
        self.tail_count = len(slowest)
        self.rates = {}
        self.station, self.utilization, self.rate = self.limit()

    def response(self, index):
        queue = self.rows.column[2][index]
        return self.rows.column[3][index] + (0 if queue == UNKNOWN else queue)

    def sums(self, chosen):
        """Time by class over some requests."""
        total, column, stalls = {}, self.rows.column, self.rows.stalls
        ends = [to for _, to in stalls]

        def add(key, ns):
            if ns > 0:
                total[key] = total.get(key, 0) + ns

        # A goroutine changes threads where it waits, and the thread's CPU clock with it.
        own_cpu = self.plan["runtime"] != "go"
        own = sum(column[3][index] for index in chosen)
        running = sum(column[4][index] for index in chosen)
        for index in chosen:
            queue = column[2][index]
            if queue == UNKNOWN:
                continue
            read = self.rows.done[index] - column[3][index]
            stalled = overlap(stalls, ends, read - queue, read) if self.stalls_all() else 0
            add(("stall",), stalled)
            add(("queue",), queue - stalled)
        for at, (kind, step) in enumerate(planned.columns(self.plan)):
            wall, cpu, late = (sum(column[FIXED + 3 * at + i][index] for index in chosen) for i in range(3))
            key = step_key(self.plan, kind, step, self.ports)
            own -= wall
            running -= cpu
            if not own_cpu and key[0] != "burn":
                cpu = 0
            if key[0] == "burn":
                add(key, cpu)
                add(("queue",), wall - cpu)
            elif key[0] in ("sleep", "upstream", "lock", "slot"):
                add(key, wall - late - cpu)
                add(("own",), cpu)
                add(self.lateness(key), late)
            elif key == ("stall",):
                late = sum(self.late_of_stall(at, index) for index in chosen)
                add(key, wall - late)
                add(("queue",), late)
            else:
                add(key, wall - late)
                add(self.lateness(key), late)
        ran = min(max(running, 0), own) if own_cpu else own
        add(("own",), ran)
        add(("queue",), own - ran)
        return total

    def lateness(self, key):
        """The class of what a step took too long: only the kernel knows of a timer whether it was late."""
        timed = key[0] in ("sleep", "pieces") and self.plan["runtime"] != "c"
        return ("late",) if timed else ("queue",)

    def stalls_all(self):
        """Whether nothing else goes on in a stall: in the loop, and where it takes the only CPU of the runtime."""
        stall = self.plan.get("stall", {})
        return self.plan["runtime"] == "c" or self.plan["runtime"] == "go" and stall.get("inside") == "burn"

    def late_of_stall(self, at, index):
        """How long after the end of a stall the request that was held up went on, ns. It is the first thing that is
        waited for."""
        read = self.rows.done[index] - self.rows.column[3][index]
        wall = self.rows.column[FIXED + 3 * at][index]
        ends = [to for _, to in self.rows.stalls]
        return wall - overlap(self.rows.stalls, ends, read, read + wall)

    # ---- what limits the rate ----

    def column_sums(self, which):
        """Wall (0), CPU (1) or late (2) time by column."""
        return [sum(self.rows.column[FIXED + 3 * at + which]) for at in range(len(planned.columns(self.plan)))]

    def limit(self):
        """(name, utilisation, shares of its time by class)."""
        wall, cpu = self.column_sums(0), self.column_sums(1)
        columns = planned.columns(self.plan)
        keys = [step_key(self.plan, kind, step, self.ports) for kind, step in columns]
        stalled = sum(max(0, to - at) for at, to in self.rows.stalls if self.within(at))
        stall = self.plan.get("stall", {})
        found = []
        work = {}
        waits = ("sleep", "lock", "slot", "upstream")
        for at, (key, (_, step)) in enumerate(zip(keys, columns)):
            # A goroutine that waited may go on on another thread, whose clock says nothing of it. Nor does a thread's
            # clock say how much of sending in pieces is the way to sleep between them.
            waited = key[0] in waits and self.plan["runtime"] == "go" or step.get("gap_us")
            if key[0] != "stall" and not waited:
                work[key] = work.get(key, 0) + cpu[at]
        if stall.get("inside") == "burn":
            # Others may have run before a stall was over.
            work[("stall",)] = sum(ran for (at, _), ran in zip(self.rows.stalls, self.rows.stall_cpu) if self.within(at))
        # CPU of steps that wait is the program's own: the kernel's way to sleep, to lock and to ask.
        own = sum(work.pop(key) for key in [*work] if key[0] in waits)
        work[("own",)] = max(self.cpu_ns - sum(work.values()), own)
        found.append(("core", self.cpu_ns / self.window_ns, shares(work)))
        if self.plan["runtime"] == "c":
            asking = [ran if key[0] in waits else 0 for ran, key in zip(cpu, keys)]
            found.append(self.loop(wall, asking, keys, stalled))
        held = {}
        for at, (kind, step) in enumerate(columns):
            if kind == "inside":
                name = "lock" if step["kind"] == "lock" else "slot"
                parallel = step.get("slots", 1)
                held[name] = (wall[at] / parallel, keys[at])
        for name, (ns, key) in held.items():
            found.append((name, ns / self.window_ns, {key: 1.0}))
        self.rates = {name: table for name, _, table in found}
        fullest = max(found, key=lambda one: one[1])
        # A core and a loop that are both full are one thing; the core's rows are the finer ones.
        full = [one for one in found if one[1] >= FULL and one[1] >= fullest[1] - 0.05]
        if full:
            return full[0]
        if "share_of_capacity" in self.plan["load"]:
            # Nothing limits but what is asked for; what it takes is CPU.
            return "offered", fullest[1], found[0][2]
        return "concurrency", fullest[1], {key: share for key, share in self.latency.items()}

    def within(self, at):
        return self.rows.done and self.rows.done[0] <= at <= self.rows.done[-1]

    def loop(self, wall, asking, keys, stalled):
        """The event loop's time: whatever its steps take, on a CPU or not; `asking` is the CPU of steps that wait."""
        time = {("stall",): stalled} if stalled else {}
        for ns, ran, late, key in zip(wall, asking, self.column_sums(2), keys):
            time[key] = time.get(key, 0) + ns - late - ran
            time[("queue",)] = time.get(("queue",), 0) + late
        time[("own",)] = max(sum(self.rows.column[3]) - sum(wall), 0) + sum(asking)
        return "loop", sum(time.values()) / self.window_ns, shares(time)

    def document(self):
        """The account as JSON."""
        def named(table):
            return {" ".join(map(str, key)): round(share, 4) for key, share in sorted(table.items(), key=lambda o: -o[1])}
        return {"requests": len(self.rows), "window_s": self.window_ns / 1e9, "cpu_s": self.cpu_ns / 1e9,
                "mean_ns": round(self.mean_ns), "station": self.station, "utilization": round(self.utilization, 3),
                "rates": {name: named(table) for name, table in self.rates.items()}, "rate": named(self.rate), "latency": named(self.latency), "tail": named(self.tail or {}),
                "tail_requests": self.tail_count}


def shares(table):
    """Each as a share of all."""
    total = sum(table.values())
    return {key: ns / total for key, ns in table.items() if ns > 0} if total else {}
