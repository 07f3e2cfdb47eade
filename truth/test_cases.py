"""The cases' files, held against the catalogue and the laboratory: `python3 -m unittest discover -s truth`."""

import tomllib
import unittest
from pathlib import Path

import families
import lab
import without

HERE = Path(__file__).resolve().parent
CATALOGUE = HERE.parent / "crates/analysis/catalogue"


def read(path):
    return tomllib.loads(path.read_text())


class Cases(unittest.TestCase):
    def setUp(self):
        self.cases = {path.stem: read(path) for path in sorted(HERE.glob("cases/*.toml"))}

    def test_accepted_causes_are_in_the_catalogue(self):
        known = {cause["name"] for path in CATALOGUE.glob("*.toml") for cause in read(path).get("cause", [])}
        for name, case in self.cases.items():
            for state in set(case) & set(lab.STATES):
                accepted = case[state]["cause"]
                unknown = {accepted} if isinstance(accepted, str) else set(accepted)
                self.assertLessEqual(unknown, known | {"none", "unknown"}, f"{name} {state}")

    def test_a_planted_cause_has_its_mended_twin(self):
        for name, case in self.cases.items():
            self.assertEqual("slow" in case, "fixed" in case, name)
            self.assertTrue(set(case) & set(lab.STATES), name)

    def test_servers_are_known_and_their_programs_exist(self):
        for name, case in self.cases.items():
            for server in case["server"]:
                self.assertIn(server["kind"], lab.COMMANDS, name)
                self.assertIn(server["kind"], lab.PROGRAMS, name)
                app = server.get("app", "")
                if app.endswith((".py", ".js", ".go")):
                    self.assertTrue((HERE / "apps" / app).exists(), f"{name}: {app}")

    def test_every_family_without_rules_is_seen_healthy_and_with_a_planted_cause(self):
        for kind in families.COMMANDS:
            own = [case for case in self.cases.values() if case["family"] == kind]
            self.assertTrue(any("slow" in case for case in own), kind)
            self.assertTrue(any("healthy" in case or "middle" in case for case in own), kind)

class WithoutARule(unittest.TestCase):
    def test_the_first_cause_and_the_rows_are_read(self):
        said = """       a-slow      [worker] ~none@server 0.80, ~mmap_churn@server 0.15<0.00
    row rate other 0.31 library: ld-linux-x86-64.so.2
    row latency same 0.75 listen_queue: waiting to be accepted
"""
        first, rows = without.read(said)
        self.assertEqual(first, "none")
        self.assertEqual(rows["latency"], (True, "listen_queue: waiting to be accepted"))
        self.assertFalse(rows["rate"][0])
        self.assertEqual(without.read("ok     b-slow  [blocked] unlabelled@server 0.98<0.57\n")[0], "unlabelled")


if __name__ == "__main__":
    unittest.main()
