"""Tests of what `attack.py` computes: no server, no network."""

from __future__ import annotations

import unittest
from datetime import UTC, datetime

from bench.suites.attack import floods, parts
from bench.suites.attack.report import markdown, passed
from bench.suites.attack.resets import FORM, REQUESTS


def result(**changes: object) -> dict:
    return {"counters": {"responses": 3}, "errors": [], "passed": True, "latency_us": {"p50": 1}} | changes


class Figures(unittest.TestCase):
    def test_every_error_is_a_fault_and_so_is_a_run_that_failed(self) -> None:
        self.assertEqual(parts.figures(result())["faults"], 0)
        errors = [{"text": "reset", "count": 2}]
        self.assertEqual(parts.figures(result(errors=errors, passed=False))["faults"], 3)

    def test_a_form_announces_its_length(self) -> None:
        self.assertIn(b"Content-Length: %d\r\n\r\n--B" % len(FORM), REQUESTS["upload"])


class Floods(unittest.TestCase):
    def test_a_flood_is_frames_behind_a_preface(self) -> None:
        for name in floods.ATTACKS:
            wire, at = floods.wire(name), len(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
            while at < len(wire):
                length = int.from_bytes(wire[at:at + 3], "big")
                self.assertLessEqual(length, 16_384, name)
                at += 9 + length
            self.assertEqual(at, len(wire), name)


class Verdicts(unittest.TestCase):
    def test_a_part_that_is_missing_says_nothing_or_fails_fails_the_run(self) -> None:
        good, silent, bad, skipped = (parts.Part(name) for name in ("good", "silent", "bad", "skipped"))
        good.check("it is", True)
        bad.check("it is not", False)
        skipped.skipped = "no disk"
        self.assertTrue(passed([good, skipped], 2))
        self.assertFalse(passed([good], 2))
        self.assertFalse(passed([good, silent], 2))
        self.assertFalse(passed([good, bad], 2))

    def test_the_report_has_every_verdict_and_figure(self) -> None:
        slow = parts.Part("slow body")
        latency = {"p50": 1_000, "p99": 20_000, "max": 30_500}
        slow.figures = {"attackers": 10, "quiet": {"latency_us": latency}, "beside": {"latency_us": latency},
                        "private_before": 1_000_000, "private_peak": 1_050_000}
        slow.check("nobody was harmed", True)
        disk = parts.Part("disk full", skipped="no disk")
        memory = parts.Part("memory")
        memory.figures["samples"] = [{"requests": 5_000, "private": 2_500_000, "pss": 1, "rss": 1}]
        memory.check("memory is flat", False)
        facts = dict.fromkeys(("host", "processor", "cores", "memory", "system", "kernel", "commit",
                               "load average"), "x")
        text = markdown([slow, disk, memory], parts.QUICK, facts, datetime(2026, 1, 2, tzinfo=UTC), True)
        for expected in ("- passed: nobody was harmed", "- not run: no disk", "- **FAILED**: memory is flat",
                         "| slow body | 1.00 ms | 20.00 ms | 1.00 ms | 20.00 ms | 30.50 ms | 5.0 kB |",
                         "| 5,000 | 2.50 MB |"):
            self.assertIn(expected, text)


if __name__ == "__main__":
    unittest.main()
