"""Tests of the driver and of what the README takes from its runs."""

from __future__ import annotations

import json
import random
import tempfile
import unittest
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from unittest import mock

from bench import readme
from bench.lib.load import LoadError
from bench.lib.peers import SUBJECT, Lacks, load_all
from bench.suites.tables import main as driver
from bench.suites.tables.report import Run, write
from bench.suites.tables.rows import ROWS
from bench.suites.tables.summary import CONTROL, load_goals

from .test_suite import sample

MACHINE = dict.fromkeys(("host", "processor", "cores", "memory", "system", "kernel", "commit"), "x")


def new_run(table: str, rows: list[str], peers: list[str], rounds: int = 1) -> Run:
    known = load_all()
    options = {"core": 0, "rounds": rounds, "quick": False, "rows": rows}
    return Run(table, datetime(2026, 1, 2, tzinfo=UTC), MACHINE, options, {id: known[id] for id in peers})


class Rounds(unittest.TestCase):
    def take_rounds(self, rounds: int, fails: str = "") -> tuple[Run, Counter[str]]:
        run = new_run("json", ["json"], [SUBJECT, "c", "amphp"], rounds)
        taken: Counter[str] = Counter()

        def take(id: str, at: int):  # type: ignore[no-untyped-def]
            taken[id] += 1
            if id == fails:
                raise LoadError("it broke")
            return sample(id, at, 1000)

        row = next(row for row in ROWS if row.id == "json")
        with mock.patch.object(driver, "note"):
            driver.rounds_of(run, row, list(run.peers), {"c"}, random.Random(1), float("inf"), take)
        return run, taken

    def test_peers_of_goals_are_in_every_round_and_others_in_every_third(self) -> None:
        run, taken = self.take_rounds(7)
        measured = Counter(found.peer for found in run.samples)
        self.assertEqual(measured, {SUBJECT: 7, CONTROL: 7, "c": 7, "amphp": 3})
        # Each peer has one additional warm-up run.
        self.assertEqual((taken["c"], taken["amphp"]), (8, 4))

    def test_one_round_has_everybody(self) -> None:
        run, _ = self.take_rounds(1)
        self.assertEqual({found.peer for found in run.samples}, {SUBJECT, CONTROL, "c", "amphp"})

    def test_a_peer_that_breaks_is_left_out_with_its_reason(self) -> None:
        run, taken = self.take_rounds(3, fails="amphp")
        self.assertEqual(taken["amphp"], 1)
        self.assertEqual(run.not_run, {"amphp/json": "it broke"})
        self.assertEqual(driver.exit_status(run), 0)

    def test_a_feature_that_this_build_lacks_fails_nothing(self) -> None:
        run = new_run("files", ["waits"], [SUBJECT, "node"])
        row = next(row for row in ROWS if row.id == "waits")
        lacks = Lacks("it lacks what it needs")
        with mock.patch.object(driver, "note"), mock.patch.object(driver, "Running", side_effect=lacks):
            driver.start(run, row, {}, SUBJECT)
        self.assertEqual(run.not_run, {f"{SUBJECT}/waits": "it lacks what it needs"})
        self.assertEqual(driver.exit_status(run), 0)

    def test_the_subject_that_breaks_fails_the_run(self) -> None:
        run, _ = self.take_rounds(3, fails=SUBJECT)
        self.assertEqual(driver.exit_status(run), 1)


class Readme(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        self.runs = self.root / "bench" / "runs"
        for name, value in (("ROOT", self.root), ("RUNS", self.runs)):
            patch = mock.patch.object(readme, name, value)
            patch.start()
            self.addCleanup(patch.stop)

    def keep(self, run: Run) -> Path:
        shown, raw = write(run, load_goals(), self.runs / "2026-01-02-vm")
        self.assertEqual(json.loads(raw.read_text())["table"], run.table)
        return shown

    def test_the_block_stays_until_a_table_has_a_run_and_has_those_that_have(self) -> None:
        self.assertEqual(readme.block("as it was"), "as it was")
        self.keep(new_run("files", ["files"], [SUBJECT]))
        block = readme.block("as it was")
        self.assertIn("make bench-files", block)
        self.assertNotIn("make bench-json", block)

    def test_the_block_shows_ratios_the_absent_and_every_goal(self) -> None:
        compared = new_run("json", ["json", "json-new-url"], [SUBJECT, "c", "swoole"])
        compared.samples += [sample(SUBJECT, 1, 3000), sample("c", 1, 2000), sample(CONTROL, 1, 3000)]
        compared.not_run["swoole"] = "not here"
        self.keep(compared)
        self.keep(new_run("chat", ["page"], [SUBJECT]))
        block = readme.block("")
        self.assertIn("| Fermata | – | 1,500/s | – | – |", block)
        self.assertIn("| C | – | 1.50× | – | – |", block)
        self.assertNotIn("again", block)
        self.assertIn("Not run: Swoole; [everything this run printed](../bench/runs/2026-01-02-vm/json-000000.md)", block)
        self.assertIn("| json: rate | ≥ 1× c | 1.50× | met |", block)
        self.assertIn("| json: rate | ≥ 1.4× swoole | – | **not measured** |", block)


if __name__ == "__main__":
    unittest.main()
