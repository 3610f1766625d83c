"""Tests of the suite itself: `python3 -m unittest discover -s bench/tests -t bench`."""

from __future__ import annotations

import os
import subprocess
import sys
import unittest

from suite import process
from suite.load import LoadError, parse_ab
from suite.peers import SUBJECT, load_all
from suite.rows import ROWS, Sample
from suite.stats import interval, ratios
from suite.summary import CONTROL, Goal, load_goals, summarise

AB_REPORT = """
Concurrency Level:      10
Time taken for tests:   0.250 seconds
Complete requests:      500
Failed requests:        3
   (Connect: 0, Receive: 0, Length: 3, Exceptions: 0)
Non-2xx responses:      2
Keep-Alive requests:    495
Requests per second:    2000.00 [#/sec] (mean)

Percentage of the requests served within a certain time (ms)
  50%      1
  99%      4
"""


def sample(peer: str, round: int, requests: int, cpu_ns: int = 1_000_000) -> Sample:
    return Sample(
        row="json",
        peer=peer,
        round=round,
        requests=requests,
        seconds=2.0,
        server_cpu_ns=cpu_ns,
        client_cpu_ns=0,
        receiver_cpu_ns=0,
        idle=0.0,
        steal=0.0,
        foreign=0.0,
        delivered=None,
        command="",
    )


class Statistics(unittest.TestCase):
    def test_ratios_pair_only_rounds_that_both_have(self) -> None:
        self.assertEqual(ratios({1: 10.0, 2: 30.0, 3: 5.0}, {1: 5.0, 3: 10.0}), [2.0, 0.5])

    def test_interval_holds_the_median_and_repeats(self) -> None:
        values = [1.0, 1.1, 0.9, 1.05, 0.95, 1.02, 0.98]
        first, second = interval(values), interval(values)
        assert first is not None
        self.assertEqual(first, second)
        self.assertEqual(first.median, 1.0)
        self.assertTrue(0.9 <= first.low <= first.median <= first.high <= 1.1)

    def test_no_values_no_interval(self) -> None:
        self.assertIsNone(interval([]))


class Reports(unittest.TestCase):
    def test_ab_report_is_read_with_its_errors(self) -> None:
        load = parse_ab(AB_REPORT, "ab", 7)
        self.assertEqual((load.requests, load.seconds, load.kept_alive), (500, 0.25, 495))
        self.assertEqual(load.errors, {"failed": 3, "not 2xx": 2})
        self.assertEqual(load.latency_us, {"p50": 1000, "p99": 4000})

    def test_ab_without_a_result_is_an_error(self) -> None:
        with self.assertRaises(LoadError):
            parse_ab("apr_socket_connect(): Connection refused (111)", "ab", 0)

    def test_lines_compare_with_the_subject_of_the_same_round(self) -> None:
        samples = [
            sample(SUBJECT, 1, 1000),
            sample("c", 1, 2000),
            sample(SUBJECT, 2, 3000),
            sample("c", 2, 3000),
            sample(CONTROL, 1, 1000),
            sample(CONTROL, 2, 3000),
        ]
        lines = {line.peer: line for line in summarise(samples, "json", [SUBJECT, "c", CONTROL])}
        ratio = lines["c"].rate_ratio
        control = lines[CONTROL].rate_ratio
        assert ratio is not None and control is not None
        self.assertEqual(ratio.median, 0.75)
        self.assertEqual(control.median, 1.0)
        self.assertIsNone(lines[SUBJECT].rate_ratio)

    def test_goal_verdicts(self) -> None:
        goal = Goal(row="json", peer="c", metric="rate", source="test", at_least=0.9)
        self.assertEqual(goal.verdict(interval([0.95, 0.96])), "met")
        self.assertEqual(goal.verdict(interval([0.5, 0.6])), "missed")
        self.assertEqual(goal.verdict(interval([0.5, 0.95, 1.2])), "met, within the noise")
        self.assertEqual(goal.verdict(None), "not measured")


class Configuration(unittest.TestCase):
    def test_goals_name_rows_and_peers_that_exist(self) -> None:
        peers, rows = load_all(), {row.id: row for row in ROWS}
        for goal in load_goals():
            self.assertTrue(rows[goal.row].fits(peers[goal.peer]), goal)

    def test_every_row_has_the_subject_and_a_rival(self) -> None:
        peers = load_all()
        for row in ROWS:
            fitting = [id for id, peer in peers.items() if row.fits(peer)]
            self.assertIn(SUBJECT, fitting)
            self.assertGreater(len(fitting), 1, row.id)


class Processes(unittest.TestCase):
    def test_tree_and_cpu_include_children(self) -> None:
        script = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'print(1, flush=True); input()'])"
        parent = subprocess.Popen(
            [sys.executable, "-c", script],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        assert parent.stdin and parent.stdout
        try:
            parent.stdout.readline()
            pids = process.tree(parent.pid)
            self.assertEqual(len(pids), 2)
            self.assertEqual(process.leaves(parent.pid), [pid for pid in pids if pid != parent.pid])
            self.assertGreater(process.cpu_ns(pids), process.cpu_ns([parent.pid]))
            self.assertGreater(process.memory(pids).pss, 0)
        finally:
            process.stop(parent)
            parent.stdin.close()
            parent.stdout.close()
        self.assertFalse(os.path.exists(f"/proc/{parent.pid}"))


if __name__ == "__main__":
    unittest.main()
