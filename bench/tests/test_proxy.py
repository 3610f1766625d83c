"""Tests of the suite of proxies."""

from __future__ import annotations

import unittest
from argparse import Namespace

from bench.suites.proxy.main import FLOOR, PROXIES, Sample, report

FACTS = dict.fromkeys(("host", "processor", "cores", "memory", "system", "kernel", "commit"), "x")


def report_of(**costs: float) -> str:
    options = Namespace(rows=["small"], proxies=[id for id in PROXIES if id in costs], quick=False)
    samples = [Sample(id, "small", round, cost, 1.0) for id, cost in costs.items() for round in (1, 2)]
    return report(samples, options, FACTS, 2)


class Report(unittest.TestCase):
    def test_the_goal_is_judged_beside_what_the_kernel_leaves(self) -> None:
        reached = report_of(fermata=7.0, nginx=10.0, floor=6.0)
        self.assertIn("0.70×, reached. System calls alone take 0.60× of nginx's.", reached)
        self.assertIn("0.71×, MISSED. System calls", report_of(fermata=7.1, nginx=10.0, floor=9.0))

    def test_without_nginx_nothing_is_judged(self) -> None:
        self.assertNotIn("Goal:", report_of(fermata=7.0, haproxy=10.0, floor=6.0))
        self.assertIn("0.71×, MISSED.\n", report_of(fermata=7.1, nginx=10.0))

    def test_the_floor_is_one_of_the_proxies(self) -> None:
        self.assertIn(FLOOR, PROXIES)


if __name__ == "__main__":
    unittest.main()
