"""The comparator and the programs' accounts, on documents and rows made by hand: `python3 -m unittest discover -s truth`."""

import struct
import tempfile
import unittest
from pathlib import Path
from types import SimpleNamespace

import account
import ledger
import planned
import plans

BURN = {"kind": "burn", "function": "sort_records", "us": 100}
SLEEP = {"kind": "sleep", "us": 500}
ASK = {"kind": "upstream", "upstream": 0, "turns": 2, "at_once": False}
LOCK = {"kind": "lock", "lock": 0, "inside": "burn", "function": "hash_blocks", "us": 50}


def plan(*steps, runtime="c", **more):
    return {"seed": 1, "runtime": runtime, "response": 240, "steps": list(steps), "upstreams": [{"delay_us": 100}],
            "load": {"connections": 4}} | more


def rows(*pairs):
    """An account of a document; a row is (share, label) or (share, label, where)."""
    return {"total": 1.0, "unit": "s", "rows": [
        {"label": one[1], "share": one[0], "where": one[2] if len(one) > 2 else ""} for one in pairs]}


class Naming(unittest.TestCase):
    def check(self, the_plan, row, expected, which="latency"):
        label, where = row
        named = ledger.Names(the_plan, [4711]).of({"label": label, "where": where, "share": 1.0}, which)
        self.assertEqual(named, expected, row)

    def test_rows_belong_to_what_they_name(self):
        everything = plan(BURN, SLEEP, ASK, LOCK)
        for row, expected in [
            (("on the CPU", "sort_records in plan_server; called from run_step"), ("burn", "sort_records")),
            (("on the CPU", ["hash_blocks", "run_step", "main"]), ("burn", "hash_blocks")),
            (("waiting for 127.0.0.1:4711", "plan_peer, 1 turn in flight"), ("upstream", 4711)),
            (("in upstream-4711: asleep until a timer", ""), ("upstream", 4711)),
            (("asleep", "clock_nanosleep; woken by a timer"), ("sleep",)),
            (("waiting for a lock", "futex; woken by thread worker"), ("lock",)),
            (("waiting for thread worker, which is asleep until a timer", "hold_lock"), ("lock",)),
            (("behind other requests", "sort_records"), ("queue",)),
            (("waiting for a CPU", ""), ("queue",)),
            (("TCP send", "tcp_sendmsg"), ("own",)),
            (("idle", ""), None),
        ]:
            self.check(everything, row, expected)

    def test_a_stall_that_threads_wait_for_is_a_lock_beside_a_lock(self):
        stall = {"inside": "burn", "function": "compact_store", "us": 9, "every_ms": 200}
        both = plan(LOCK, runtime="java", stall=stall)
        self.check(both, ("waiting in a futex", "woken by thread stall"), ("lock",), "tail")
        self.assertEqual(ledger.Names(both, []).group(("stall",)), ("lock",))
        alone = plan(BURN, runtime="java", stall=stall)
        self.check(alone, ("waiting in a futex", "woken by thread stall"), ("stall",), "tail")

    def test_a_wait_is_what_it_says_whatever_its_holder_does(self):
        slot = {"kind": "slot", "slots": 2, "inside": "sleep", "function": "-", "us": 10}
        held = ("waiting for a lock: Connection.step", "ReentrantLock$Sync.lock; held by thread a in PlanServer.hash_blocks")
        self.check(plan(LOCK, {"kind": "sync"}), held, ("lock",))
        permit = ("waiting for a permit of a semaphore or pool: Connection.step", "Semaphore.acquire")
        self.check(plan(BURN, slot), permit, ("slot",))
        self.check(plan(BURN, runtime="java", stall={"inside": "sleep"}), held, ("stall",))
        # A file's own lock is a part of writing to it.
        log = {"kind": "log", "bytes": 100, "turns": 0}
        self.check(plan(LOCK, log), ("waiting for the lock of FileChannelImpl.write: Connection.step", ""), ("log",))
        self.check(plan(BURN, log), ("waiting for a lock: Connection.step", "FileChannelImpl.write"), ("log",))

    def test_a_row_that_names_nothing_is_no_steps(self):
        names = ledger.Names(plan(BURN), [])
        for kind in ("rest", "hidden"):
            self.assertEqual(names.of({"kind": kind, "label": "9 smaller rows", "share": 0.2}, "latency"), (kind,))

    def test_what_is_sent_beside_upstream_steps_is_theirs_or_the_pieces(self):
        pieces = {"kind": "pieces", "pieces": 4, "gap_us": 0}
        row = {"kind": "net_send", "label": "sending over TCP", "share": 0.2}
        for steps, expected in [((ASK, pieces), ledger.SENDING), ((BURN, pieces), ("pieces",)), ((ASK,), ("own",))]:
            self.assertEqual(ledger.Names(plan(*steps), [4711]).of(row, "cpu"), expected, steps)

    def test_another_peer_is_not_the_planned_one(self):
        self.check(plan(ASK), ("waiting for 127.0.0.1:47111", ""), ("own",))

    def test_the_rate_of_a_loop_knows_no_queue(self):
        self.check(plan(BURN), ("behind other requests", "sort_records"), ("burn", "sort_records"), "rate")

    def test_a_timed_wait_on_a_futex_is_a_sleep_where_both_are_planned(self):
        self.check(plan(LOCK, SLEEP), ("blocked: futex", "woken by timer"), ("sleep",))

    def test_the_stall_is_known_by_its_function_or_as_others_sleep(self):
        burning = plan(BURN, stall={"inside": "burn", "function": "compact_store", "us": 9, "every_ms": 200})
        self.check(burning, ("behind other requests", "compact_store"), ("stall",), "tail")
        sleeping = plan(BURN, stall={"inside": "sleep", "function": "-", "us": 9, "every_ms": 200})
        self.check(sleeping, ("the worker is asleep", "outside of requests"), ("stall",), "tail")

    def test_words_that_fit_two_steps_make_one_group(self):
        slot = {"kind": "slot", "slots": 2, "inside": "sleep", "function": "-", "us": 10}
        both = plan(LOCK, slot, runtime="go")
        names = ledger.Names(both, [])
        self.assertEqual(names.group(("slot",)), names.group(("lock",)))
        self.assertEqual(names.grouped({("slot",): 0.25, ("lock",): 0.5}), {("lock",): 0.75})


class Comparing(unittest.TestCase):
    def judge(self, the_plan, expected, document):
        return ledger.judge(the_plan, [4711], expected, document)

    def test_a_ledger_that_says_the_same_is_right_in_all(self):
        result = self.judge(plan(BURN, SLEEP), {"rate": {("burn", "sort_records"): 0.62, ("own",): 0.38}},
                            {"rate": rows((0.6, "sort_records"), (0.2, "TCP send"), (0.2, "epoll"))})["rate"]
        self.assertTrue(result["top_right"] and result["rows_right"] and result["sums"], result)
        self.assertEqual(ledger.why(result), "")

    def test_a_row_six_points_off_is_seen_and_one_four_points_off_is_not(self):
        expected = {"rate": {("burn", "sort_records"): 0.70, ("own",): 0.30}}
        for share, right in [(0.66, True), (0.64, False)]:
            document = {"rate": rows((share, "sort_records"), (1 - share, "kernel"))}
            self.assertEqual(self.judge(plan(BURN), expected, document)["rate"]["rows_right"], right, share)

    def test_another_function_at_the_top_is_wrong(self):
        result = self.judge(plan(BURN, LOCK), {"rate": {("burn", "sort_records"): 0.7, ("burn", "hash_blocks"): 0.3}},
                            {"rate": rows((0.7, "hash_blocks"), (0.3, "sort_records"))})["rate"]
        self.assertFalse(result["top_right"])
        self.assertEqual(ledger.why(result), "burn hash_blocks for burn sort_records")

    def test_a_row_that_nobody_planned_is_wrong(self):
        expected = {"latency": {("sleep",): 1.0}}
        result = self.judge(plan(SLEEP), expected, {"latency": rows((0.85, "asleep: timer"), (0.15, "TLS"))})
        self.assertEqual({key for key, *_ in result["latency"]["off"]}, {("own",), ("sleep",)})

    def test_rows_that_do_not_add_up_are_wrong(self):
        result = self.judge(plan(BURN), {"rate": {("burn", "sort_records"): 1.0}},
                            {"rate": rows((0.96, "sort_records"))})["rate"]
        self.assertFalse(result["sums"])
        self.assertEqual(ledger.why(result), "sums to 96%")

    def test_a_goroutines_disk_and_its_way_back_from_it_are_held_against_the_ledger_together(self):
        synced = {"kind": "sync", "bytes": 300}
        expected = {"latency": {("sync",): 0.5, ("queue",): 0.3, ("own",): 0.2}}
        for runtime, disk, queue, right in [("go", 0.3, 0.5, True), ("c", 0.3, 0.5, False), ("go", 0.3, 0.3, False),
                                            ("go", 0.6, 0.2, False)]:
            document = {"latency": rows((disk, "syncing"), (queue, "waiting for a CPU"), (1 - disk - queue, "kernel"))}
            result = self.judge(plan(BURN, synced, runtime=runtime), expected, document)["latency"]
            self.assertEqual(result["rows_right"], right, (runtime, disk, queue))

    def test_smaller_rows_are_what_each_of_them_names(self):
        expected = {"rate": {("burn", "sort_records"): 0.86, ("own",): 0.14}}
        for small, right in [("kernel", True), ("sort_records", False)]:
            document = {"rate": rows((0.8, "sort_records"), (0.06, "sort_records"), (0.14, "2 smaller rows"))}
            document["rate"]["rows"][2] |= {"kind": "rest", "smaller": rows((0.08, small), (0.06, "TCP send"))["rows"]}
            result = self.judge(plan(BURN), expected, document)["rate"]
            self.assertEqual((result["rows_right"], result["sums"]), (right, True), result)

    def test_a_loop_that_waits_for_a_cpu_stands_in_line_and_reads_no_file(self):
        names = ledger.Names(plan(BURN, {"kind": "file", "bytes": 9, "cached": True}), [])
        woken = {"kind": "wake_up", "label": "waking the thread that reads", "share": 0.1}
        line = {"kind": "run_queue", "label": "waiting for a CPU", "where": "while process sort_records ran", "share": 0.1}
        for row in (woken, line):
            self.assertEqual(names.of(row, "rate"), ("queue",))

    def test_requests_that_nobody_answered_are_in_no_account_of_the_program(self):
        unanswered = {"kind": "unanswered", "label": "requests on 4 connections that got no answer at all", "share": 0.5}
        self.assertIsNone(ledger.Names(plan(BURN), []).of(unanswered, "latency"))

    def test_an_idle_rest_is_taken_out(self):
        result = self.judge(plan(BURN), {"rate": {("burn", "sort_records"): 0.8, ("own",): 0.2}},
                            {"rate": rows((0.4, "sort_records"), (0.1, "kernel"), (0.5, "idle"))})["rate"]
        self.assertTrue(result["rows_right"] and result["sums"], result)

    def test_a_full_lock_may_be_named_instead_of_what_its_holder_does(self):
        expected = {"rate": {("burn", "hash_blocks"): 1.0}}
        for label in ("hash_blocks", "a lock: futex"):
            result = self.judge(plan(LOCK, runtime="java"), expected, {"rate": rows((1.0, label))})["rate"]
            self.assertTrue(result["top_right"] and result["rows_right"], result)

    def test_a_rate_is_held_against_what_it_divides(self):
        expected = {"rate": {("burn", "sort_records"): 1.0}, "latency": {("burn", "sort_records"): 0.6, ("queue",): 0.4},
                    "rates": {"core": {("burn", "sort_records"): 1.0}}}
        document = {"rate": rows((0.6, "on the CPU in server: sort_records"), (0.4, "waiting for a CPU"))
                    | {"basis": "requests", "unit": "requests"}}
        for utilization, right in [(0.9, True), (0.97, False)]:
            result = self.judge(plan(BURN), expected | {"station": ("core", utilization)}, document)["rate"]
            self.assertTrue(result["rows_right"], result)
            self.assertEqual(result["top_right"], right, utilization)
        self.assertEqual(ledger.why(result), "time of requests for core")

    def test_work_is_told_by_its_label(self):
        names = ledger.Names(plan(BURN, LOCK), [4711])
        compiling = {"kind": "compiling", "label": "compiling code", "where": "Monitor::lock_without_check", "share": 1.0}
        self.assertEqual(names.of(compiling, "cpu"), ("own",))
        self.assertEqual(names.of(compiling | {"label": "on the CPU in server: compiling code"}, "latency"), ("own",))
        self.assertEqual(names.of({"kind": "clock", "label": "reading the clock", "share": 1.0}, "cpu"), ("own",))
        spinning = {"kind": "lock_spin", "label": "spinning for a lock", "share": 0.1}
        self.assertEqual(names.of(spinning, "cpu"), ("own",))
        inside = {"kind": "run_queue", "label": "in upstream-4711: waiting for a CPU", "share": 1.0}
        self.assertEqual(names.of(inside, "latency"), ("upstream", 4711))

    def test_what_clients_waited_beyond_a_program_that_sees_no_arrivals_is_queue(self):
        by_clock = plan(BURN, SLEEP, runtime="java", load={"connections": 64, "share_of_capacity": 0.5})
        expected = {"latency": {("sleep",): 0.8, ("burn", "sort_records"): 0.2}, "mean_ns": 500_000}
        document = {"latency": rows((0.4, "asleep until a timer"), (0.1, "on the CPU in server: sort_records"),
                                    (0.5, "waiting for a CPU")) | {"total": 1000.0, "unit": "us"}}
        self.assertTrue(self.judge(by_clock, expected, document)["latency"]["rows_right"])
        document["latency"]["rows"][2] |= {"label": "due and not sent", "kind": "unsent"}
        self.assertTrue(self.judge(by_clock, expected, document)["latency"]["rows_right"])
        document["latency"]["rows"][2] |= {"label": "the client and the path to it", "kind": "client"}
        self.assertTrue(self.judge(by_clock, expected, document)["latency"]["rows_right"])
        # One that sees them has counted the queue.
        in_c = by_clock | {"runtime": "c"}
        document["latency"]["rows"][2] |= {"label": "waiting for a CPU", "kind": "run_queue"}
        self.assertFalse(self.judge(in_c, expected, document)["latency"]["rows_right"])

    def test_the_way_to_the_client_is_its_own_where_arrivals_are_seen(self):
        client = {"kind": "client", "label": "the client and the path to it", "share": 0.1}
        self.assertIsNone(ledger.Names(plan(BURN), []).of(client, "latency"))
        self.assertEqual(ledger.Names(plan(BURN, runtime="java"), []).of(client, "latency"), ("queue",))

    def test_what_may_be_sleep_or_queue_is_right_as_either(self):
        expected = {"latency": {("sleep",): 0.6, ("late",): 0.2, ("queue",): 0.2}}
        for asleep, right in [(0.6, True), (0.7, True), (0.8, True), (0.5, False), (0.9, False)]:
            document = {"latency": rows((asleep, "asleep"), (1 - asleep, "waiting for a CPU"))}
            result = self.judge(plan(SLEEP, runtime="go"), expected, document)["latency"]
            self.assertEqual(result["rows_right"], right, asleep)

    def test_what_is_due_and_not_sent_is_the_clients(self):
        unsent = {"kind": "unsent", "label": "due and not sent: every connection of the load is at a request", "share": 0.4}
        self.assertIsNone(ledger.Names(plan(BURN), []).of(unsent, "latency"))

    def test_what_runs_stands_in_no_queue(self):
        futex = {"kind": "futex", "label": "futex calls (locks and wake-ups of threads)", "share": 0.1}
        self.assertEqual(ledger.Names(plan(BURN), []).of(futex, "cpu"), ("own",))

    def test_a_queue_is_one_for_the_stall_as_far_as_it_says(self):
        stall = {"inside": "burn", "function": "compact_store", "us": 9, "every_ms": 200}
        names = ledger.Names(plan(BURN, stall=stall), [])
        for said, parts in [
            ("mostly sort_records 60 %, compact_store 31 %", [(("stall",), 0.31), (("queue",), 0.69)]),
            ("mostly compact_store 96 %", [(("stall",), 0.96), (("queue",), 0.04)]),
            ("mostly sort_records 99 %", [(("queue",), 1.0)]),
        ]:
            row = {"kind": "other_turns", "label": "waiting while the worker serves other requests", "where": said, "share": 1.0}
            found = names.parts(row, "latency")
            self.assertEqual([(key, round(part, 6)) for key, part in found], parts, said)

    def test_collected_garbage_is_the_steps_or_the_programs(self):
        allocate = {"kind": "allocate", "bytes": 4096}
        collector = {"kind": "gc", "label": "garbage collection", "share": 0.2, "where": ""}
        for own, right in [(0.30, True), (0.50, True), (0.20, False), (0.60, False)]:
            document = {"rate": {"unit": "us/request", "rows": [
                collector, {"label": "sort_records", "where": "", "share": 0.5},
                {"label": "other functions", "where": "", "share": 0.3}]}}
            expected = {"rate": {("burn", "sort_records"): 0.5, ("own",): own, ("allocate",): 0.5 - own}}
            result = self.judge(plan(BURN, allocate, runtime="go"), expected, document)["rate"]
            self.assertEqual(result["rows_right"], right, own)

    def test_no_ledger_is_no_answer(self):
        for document in (None, {}, {"rate": None}, {"rate": {"rows": []}}):
            result = self.judge(plan(BURN), {"rate": {("own",): 1.0}}, document)["rate"]
            self.assertFalse(result["top_right"])
            self.assertEqual(ledger.why(result), "no such account")

    def test_a_tail_is_asked_for_only_where_a_stall_is_planned(self):
        expected = {"rate": {("own",): 1.0}, "tail": {("own",): 1.0}}
        document = {"rate": rows((1.0, "kernel")), "tail": rows((1.0, "kernel"))}
        self.assertNotIn("tail", self.judge(plan(BURN), expected, document))
        stalled = plan(BURN, stall={"inside": "burn", "function": "compact_store", "us": 9, "every_ms": 200})
        self.assertIn("tail", self.judge(stalled, expected, document))


class Doubling(unittest.TestCase):
    def test_a_ledger_predicts_by_the_share_of_the_step(self):
        document = {"rate": rows((0.5, "sort_records"), (0.3, "asleep until a timer"), (0.2, "kernel"))}
        own = SimpleNamespace(station="core", ports=[4711])
        for key, expected in [(("burn", "sort_records"), 1 / 1.5), (("sleep",), 1 / 1.3), (("file",), 1.0)]:
            self.assertAlmostEqual(plans.predicted_ratio(plan(BURN, SLEEP), own, key, document), expected)
        self.assertIsNone(plans.predicted_ratio(plan(BURN), own, ("sleep",), None))
        own.station = "offered"
        self.assertIsNone(plans.predicted_ratio(plan(BURN), own, ("burn", "sort_records"), document))

    def test_words_that_fit_two_steps_predict_nothing(self):
        slot = {"kind": "slot", "slots": 2, "inside": "sleep", "function": "-", "us": 10}
        own = SimpleNamespace(station="core", ports=[])
        document = {"rate": rows((1.0, "waiting for a lock"))}
        self.assertIsNone(plans.predicted_ratio(plan(LOCK, slot), own, ("slot",), document))


class Accounts(unittest.TestCase):
    """Rows as a program writes them, read back as shares."""

    def account(self, the_plan, requests, cpu_ns=0, stalls=()):
        """`requests`: (done, queue, serve, CPU, [(wall, CPU, late) by column])."""
        data = struct.pack("<QQ", len(requests), len(stalls))
        data += b"".join(struct.pack("<QQQ", *stall) for stall in stalls).ljust(24 * account.STALLS, b"\0")
        for done, queue, serve, cpu, cells in requests:
            flat = [part for cell in cells for part in cell]
            data += struct.pack(f"<Q{4 + len(flat)}I", done, queue, serve, cpu, 0, *flat)
        with tempfile.TemporaryDirectory() as place:
            path = Path(place) / "rows"
            path.write_bytes(data.ljust(account.size_of(the_plan, len(requests)), b"\0"))
            found = account.Rows(path, the_plan, len(requests), 0, 10**9)
        return account.Account(the_plan, [4711], found, 10**9, cpu_ns)

    def test_a_wait_that_ended_late_is_a_queue_for_as_long_as_it_was_late(self):
        own = self.account(plan(SLEEP), [(1000, 100, 900, 50, [(850, 10, 240)])])
        # Asleep 600 of 1000, late 240 and in the queue 100, 50 by its own CPU; 10 ns of the serve time on no CPU.
        self.assertAlmostEqual(own.latency[("sleep",)], 0.60)
        self.assertAlmostEqual(own.latency[("queue",)], 0.35)
        self.assertAlmostEqual(own.latency[("own",)], 0.05)
        self.assertAlmostEqual(sum(own.latency.values()), 1.0)

    def test_a_full_core_is_divided_by_cpu_time(self):
        own = self.account(plan(BURN, runtime="go"), [(500, 0, 400_000, 400_000, [(400_000, 300_000, 0)])] * 1000, 10**9)
        self.assertEqual(own.station, "core")
        self.assertAlmostEqual(own.rate[("burn", "sort_records")], 0.3)

    def test_a_goroutine_that_changed_threads_has_no_cpu_time_of_its_wait(self):
        garbage = (400_000, 0, 500_000, 0, [(90_000, 90_000, 0), (300_000, 300_000, 0)])
        own = self.account(plan(SLEEP, BURN, runtime="go"), [garbage] * 1000, 10**9)
        self.assertAlmostEqual(own.rate[("burn", "sort_records")], 0.3)

    def test_a_loop_that_waits_is_full_without_a_cpu(self):
        request = (10**6, 0, 950_000, 50_000, [(900_000, 0, 0)])
        own = self.account(plan(SLEEP), [request] * 1000, 5 * 10**7)
        self.assertEqual(own.station, "loop")
        self.assertAlmostEqual(own.rate[("sleep",)], 900 / 950)

    def test_the_cpu_of_a_step_that_waits_is_the_loops_own(self):
        request = (10**6, 0, 950_000, 150_000, [(900_000, 100_000, 0)])
        own = self.account(plan(SLEEP), [request] * 1000, 15 * 10**7)
        self.assertAlmostEqual(own.rates["loop"][("sleep",)], 800 / 950)
        self.assertAlmostEqual(own.rates["loop"][("own",)], 150 / 950)

    def test_what_waited_for_a_stall_of_the_loop_waited_for_the_stall(self):
        own = self.account(plan(BURN), [(2000, 1500, 100, 100, [(100, 100, 0)])], stalls=[(300, 1300, 900)])
        # In the queue from 400 to 1900, of which the stall took 400 to 1300.
        self.assertAlmostEqual(own.latency[("stall",)], 900 / 1600)
        self.assertAlmostEqual(own.latency[("queue",)], 600 / 1600)

    def test_java_knows_its_queue_by_littles_law(self):
        unknown = account.UNKNOWN
        own = self.account(plan(SLEEP, runtime="java"), [(1000, unknown, 10**6, 0, [(10**6, 0, 0)])] * 1000)
        # 4 connections for 1 s are 4 s; 1,000 requests slept 1 s of them.
        self.assertAlmostEqual(own.latency[("queue",)], 0.75)

    def test_the_slowest_requests_have_an_account_of_their_own(self):
        fast = (1000, 0, 100, 100, [(100, 100, 0), (0, 0, 0)])
        slow = (1000, 0, 10_000, 100, [(100, 100, 0), (9900, 0, 0)])
        own = self.account(plan(BURN, SLEEP), [fast] * 1980 + [slow] * 20)
        self.assertEqual(own.tail_count, 20)
        self.assertAlmostEqual(own.tail[("sleep",)], 0.99)
        self.assertLess(own.latency[("sleep",)], 0.6)


    def test_few_requests_have_as_many_slow_ones_as_the_ledger_asks_for_or_none(self):
        request = (1000, 0, 100, 100, [(100, 100, 0)])
        self.assertEqual(self.account(plan(BURN), [request] * 500).tail_count, 20)
        self.assertIsNone(self.account(plan(BURN), [request] * 399).tail)

    def test_who_stands_at_a_stall_when_it_is_over_stands_in_line(self):
        stall = {"inside": "sleep", "function": "-", "us": 600, "every_ms": 200}
        # Read at 1000, on at 2000; the stall was over at 1600.
        request = (2000, 0, 1000, 0, [(0, 0, 0), (1000, 0, 0)])
        own = self.account(plan(BURN, runtime="java", stall=stall, load={"connections": 1, "share_of_capacity": 0.5}),
                           [request], stalls=[(900, 1600, 700)])
        self.assertAlmostEqual(own.latency[("stall",)], 0.6)
        self.assertAlmostEqual(own.latency[("queue",)], 0.4)

    def test_a_burning_stall_of_the_only_cpu_is_what_unread_requests_wait_for(self):
        stall = {"inside": "burn", "function": "compact_store", "us": 900, "every_ms": 200}
        for runtime, inside, stalled in [("go", "burn", 0.5), ("go", "sleep", None), ("java", "burn", None)]:
            the_plan = plan(BURN, runtime=runtime, stall=stall | {"inside": inside})
            own = self.account(the_plan, [(2000, 1000, 800, 800, [(800, 800, 0), (0, 0, 0)])], stalls=[(200, 1100, 900)])
            found = own.latency.get(("stall",))
            self.assertEqual(found if found is None else round(found, 6), stalled, (runtime, inside))

    def test_a_stall_takes_of_the_core_what_it_ran_itself(self):
        stall = {"inside": "burn", "function": "compact_store", "us": 900, "every_ms": 200}
        request = (2000, 0, 1000, 500, [(500, 500, 0), (500, 0, 0)])
        own = self.account(plan(BURN, runtime="java", stall=stall), [request], 2000, stalls=[(2000, 3200, 600)])
        self.assertAlmostEqual(own.rates["core"][("stall",)], 0.3)
        self.assertAlmostEqual(own.rates["core"][("burn", "sort_records")], 0.25)

    def test_a_gap_that_ends_late_is_told_as_a_sleep_is(self):
        pieces = {"kind": "pieces", "pieces": 2, "gap_us": 500}
        for runtime, key in [("c", ("queue",)), ("go", ("late",))]:
            own = self.account(plan(pieces, runtime=runtime), [(1000, 0, 900, 0, [(900, 0, 300)])])
            self.assertAlmostEqual(own.latency[key], 1 / 3)


class Planning(unittest.TestCase):
    def test_a_seed_makes_the_same_plan_again_and_another_seed_another(self):
        self.assertEqual(planned.make_plan(5, "go"), planned.make_plan(5, "go"))
        self.assertNotEqual(planned.make_plan(5, "go")["steps"], planned.make_plan(6, "go")["steps"])

    def test_every_plan_can_be_written_for_its_server(self):
        for runtime in planned.RUNTIMES:
            for seed in range(300):
                one = planned.make_plan(seed, runtime)
                functions = [step["function"] for step in one["steps"] if step.get("function", "-") != "-"]
                self.assertEqual(len(functions), len(set(functions)), one)
                self.assertTrue({step["kind"] for step in one["steps"]} <= set(planned.KINDS[runtime]))
                place = {"port": 1, "records": "r", "capacity": 8, "log": "l", "peers": [2] * 9,
                         "files": dict.fromkeys(range(9), "f")}
                text = planned.lines(one, place)
                used = [int(line.split()[2]) for line in text.splitlines() if line.startswith("step")]
                self.assertEqual(len(used), len(set(used)))
                self.assertLess(max(used), len(planned.columns(one)))

    def test_a_doubled_plan_differs_in_one_step(self):
        one = planned.make_plan(5, "c")
        other = planned.doubled(one, 0)
        self.assertEqual(other["steps"][1:], one["steps"][1:])
        self.assertNotEqual(other["steps"][0], one["steps"][0])


if __name__ == "__main__":
    unittest.main()
