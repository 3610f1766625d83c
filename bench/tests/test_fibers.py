"""Tests of `make bench-fibers`: how its goals are judged, and what makes things slow."""

from __future__ import annotations

import tempfile
import unittest
from pathlib import Path
from unittest import mock

from bench.lib.peers import SUBJECT, CannotRun, load_all
from bench.suites.fibers import main as fibers
from bench.suites.fibers import slow
from bench.suites.fibers.goals import GOALS, percentile, table


class Judged(unittest.TestCase):
    def test_a_goal_is_reached_at_its_limit_and_missed_above(self) -> None:
        for goal in GOALS:
            self.assertFalse(table({goal.id: goal.at_most}, {})[1])
            lines, missed = table({goal.id: goal.at_most * 1.01}, {})
            self.assertTrue(missed)
            self.assertIn("MISSED", "\n".join(lines))

    def test_what_was_not_run_says_why_and_is_not_missed(self) -> None:
        lines, missed = table({}, {"late-query": "mariadbd is not installed"})
        self.assertFalse(missed)
        self.assertEqual(len(lines), 3)
        self.assertIn("not run: mariadbd is not installed", lines[2])

    def test_every_goal_has_a_name_of_its_own(self) -> None:
        self.assertEqual(len({goal.id for goal in GOALS}), len(GOALS))


class Percentiles(unittest.TestCase):
    def test_one_in_a_hundred_is_above_the_99th(self) -> None:
        self.assertEqual(percentile(range(100), 0.99), 99)
        self.assertEqual(percentile([5.0], 0.99), 5.0)
        self.assertEqual(percentile([], 0.99), 0.0)
        self.assertEqual(percentile([3, 1, 2], 0.5), 2)


class Servers(unittest.TestCase):
    def test_each_variant_is_the_subject_with_the_same_script(self) -> None:
        subject = fibers.variants(load_all()[SUBJECT], Path("/tmp/x"))
        self.assertEqual(list(subject.services), ["plain", "waiting", "timer"])
        for name, service in subject.services.items():
            self.assertEqual(service.start[-2:], (name, "/tmp/x"))
        self.assertTrue(fibers.SERVER.exists())


class Slow(unittest.TestCase):
    def test_a_machine_without_control_groups_for_disks_is_told_so(self) -> None:
        with (
            mock.patch.object(slow, "THROTTLES", Path("/nowhere")),
            mock.patch.object(slow, "UNIFIED", Path("/nowhere")),
            self.assertRaisesRegex(CannotRun, "control group"),
            slow.disk(Path("/tmp"), [], 1),
        ):
            pass

    def test_a_file_that_is_forgotten_keeps_its_content(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "file"
            path.write_bytes(b"content")
            slow.forget(path)
            self.assertEqual(path.read_bytes(), b"content")
