"""Tests of the counts: reading callgrind's files, and what fails a check."""

from __future__ import annotations

import unittest
from pathlib import Path

from bench.lib.peers import PAGE, SUBJECT, load_all
from bench.suites.counts.count import CASES, Counts, by_library, static_at_fixed_depth
from bench.suites.counts.main import judge

CALLGRIND = """\
version: 1
positions: line
events: Ir
summary: 161

ob=(1) /usr/lib/fermata.so
fl=(1) core.rs
fn=(1) handle
12 40
+3 1
cob=(2) /lib/libc.so.6
cfn=(2) memcpy
calls=2 7
* 100
16 20

ob=(2)
fn=(2)
7 100
"""

HERE = {"machine": "x86_64", "PHP": "8.2", "rustc": "1.95", "cc": "cc 12", "valgrind": "3.19", "profile": "release"}
BUDGET = {
    "recorded_with": HERE,
    "cases": {"json": {"instructions": 1000, "own": 500, "syscalls": 3.0}},
}


def counts(instructions: float = 1000, own: float = 500, syscalls: float = 3.0) -> Counts:
    return Counts(instructions, own, syscalls, {})


class Callgrind(unittest.TestCase):
    def test_instructions_belong_to_the_library_they_are_in_and_not_to_its_callers(self) -> None:
        self.assertEqual(by_library(CALLGRIND.splitlines()), {"fermata.so": 61, "libc.so.6": 100})


class Check(unittest.TestCase):
    def judge(self, now: Counts, **changed: str) -> tuple[bool, str]:
        grown, notes = judge({"json": now}, ["json"], BUDGET, HERE | changed)
        return grown, "\n".join(notes)

    def test_three_percent_are_allowed_and_more_fails(self) -> None:
        self.assertFalse(self.judge(counts(instructions=1030))[0])
        self.assertTrue(self.judge(counts(instructions=1031))[0])
        self.assertTrue(self.judge(counts(own=516))[0])

    def test_a_system_call_more_fails_everywhere(self) -> None:
        self.assertTrue(self.judge(counts(syscalls=4.0))[0])
        self.assertTrue(self.judge(counts(syscalls=4.0), machine="aarch64")[0])

    def test_another_php_leaves_the_extension_compared(self) -> None:
        grown, notes = self.judge(counts(instructions=2000), PHP="8.4")
        self.assertFalse(grown)
        self.assertIn("PHP 8.2 there, 8.4 here", notes)
        self.assertTrue(self.judge(counts(own=600), PHP="8.4")[0])

    def test_another_compiler_or_profile_compares_no_instructions_and_says_so(self) -> None:
        for changed in ({"rustc": "1.96"}, {"profile": "CARGO_PROFILE_RELEASE_LTO=off"}):
            grown, notes = self.judge(counts(instructions=2000, own=1000), **changed)
            self.assertFalse(grown)
            self.assertIn("instructions are not compared", notes)

    def test_less_is_no_failure_and_is_said(self) -> None:
        grown, notes = self.judge(counts(instructions=900))
        self.assertFalse(grown)
        self.assertIn("record it", notes)

    def test_a_case_without_a_budget_fails(self) -> None:
        grown, notes = judge({"new": counts()}, ["new"], BUDGET, HERE)
        self.assertTrue(grown)
        self.assertIn("no budget", notes[0])

    def test_what_issue_3_asks_for_is_counted(self) -> None:
        wanted = {"json", "json-new-url", "json-connect", "static", "sse-delivery", "websocket-echo"}
        self.assertLessEqual(wanted, {case.id for case in CASES})

    def test_the_page_lies_at_the_same_depth_in_every_checkout(self) -> None:
        case = next(case for case in CASES if case.id == "static")
        with static_at_fixed_depth(load_all()[SUBJECT], case) as peer:
            folder = Path(peer.services["static"].start[-1])
            self.assertEqual(len(folder.parts), 3)
            self.assertEqual((folder / "index.html").read_bytes(), PAGE.read_bytes())
        self.assertFalse(folder.exists())


if __name__ == "__main__":
    unittest.main()
