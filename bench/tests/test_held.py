"""Tests of the suite of held clients: `python3 -m unittest discover -s bench/tests -t bench`."""

from __future__ import annotations

import unittest
from datetime import UTC, datetime

from bench.lib.peers import SUBJECT, load_all
from bench.lib.process import Memory
from bench.suites.held.report import FIGURES, Goal, Run, goal_value, load_goals, markdown, values
from bench.suites.held.rows import Broadcast, Ladder, Level, completed_calls, least_squares

TRACE = """\
7 100.2 epoll_wait(14,  <unfinished ...>
6 100.3 read(8, 0x7ffc, 1) = -1 EAGAIN (Resource temporarily unavailable)
6 101.1 epoll_wait(10, [], 512, 100) = 0
7 101.2 <... epoll_wait resumed>[{events=EPOLLIN, data={u32=1}}], 512, -1) = 1
7 101.3 sendto(9, "3\\r\\n:\\n\\n\\r\\n", 8, MSG_NOSIGNAL, NULL, 0) = 8
6 101.4 epoll_wait(10,  <detached ...>
7 101.4 +++ exited with 0 +++
"""


def memory(bytes: int) -> Memory:
    return Memory(pss=bytes, rss=bytes, private=bytes)


def ladder(peer: str, bytes_per_client: int) -> Ladder:
    found = Ladder(peer, 1, "stream", memory(1_000_000), memory(500_000))
    found.levels = [
        Level(clients, memory(1_000_000 + clients * bytes_per_client), clients * 10_000)
        for clients in (2_000, 6_000, 18_000)
    ]
    found.rest_seconds = 10.0
    return found


def run(*ladders: Ladder) -> Run:
    found = Run(
        started=datetime(2026, 1, 1, tzinfo=UTC),
        machine=dict.fromkeys(("host", "processor", "cores", "memory", "system", "kernel", "commit", "load average"), "x"),
        options={"rounds": 1, "levels": (2_000, 18_000), "subscribers": 1_000, "message_bytes": 128, "quick": False},
        peers=load_all(("held",)),
    )
    found.ladders += ladders
    return found


class Measuring(unittest.TestCase):
    def test_the_slope_is_that_of_the_line_through_the_levels(self) -> None:
        self.assertAlmostEqual(least_squares([(0, 5.0), (1, 7.0), (2, 9.0)]), 2.0)
        self.assertAlmostEqual(least_squares([(0, 0.0), (1, 3.0), (2, 0.0), (3, 3.0)]), 0.6)
        self.assertEqual(least_squares([(1, 5.0)]), 0.0)

    def test_a_ladder_says_what_one_more_client_costs(self) -> None:
        found = ladder(SUBJECT, 150)
        self.assertAlmostEqual(found.slope(), 150.0)
        self.assertAlmostEqual(found.connect_cpu_ns(), 10_000.0)
        self.assertIsNone(found.burst())
        found.rest_bytes = [8, 8, 24, 0]
        self.assertEqual(found.burst(), 2.4)

    def test_only_calls_that_ended_while_watching_count(self) -> None:
        self.assertEqual(completed_calls(TRACE, 100.5), {"epoll_wait": 2, "sendto": 1})
        self.assertEqual(completed_calls(TRACE, 102.0), {})


class Reporting(unittest.TestCase):
    def test_every_goal_names_a_figure_and_peers_that_exist(self) -> None:
        known = {figure.id: figure for figure in FIGURES}
        self.assertEqual(len(known), len(FIGURES))
        peers = load_all(("held",))
        for goal in load_goals():
            self.assertIn(goal.figure, known)
            self.assertIn(goal.against, ["", *peers])
            self.assertNotEqual(goal.at_least is None, goal.at_most is None, goal)

    def test_figures_are_compared_with_the_peer_of_the_same_run(self) -> None:
        found = run(ladder(SUBJECT, 150), ladder("pushpin", 45_000))
        against = Goal("memory", "test", at_most=0.01, against="pushpin")
        self.assertAlmostEqual(goal_value(found, against) or 0.0, 150 / 45_000)
        self.assertEqual(against.verdict(goal_value(found, against)), "met")
        self.assertEqual(Goal("memory", "test", at_most=100).verdict(150.0), "missed")
        text = markdown(found, [against])
        self.assertIn("| user memory for each held client, private pages | 150 B | 45,000 B | 0.0033× |", text)
        self.assertIn("- **met** user memory for each held client, private pages (stream) ≤ 0.01× pushpin", text)

    def test_a_peer_that_is_missing_is_named_with_the_reason(self) -> None:
        found = run(ladder(SUBJECT, 150))
        found.not_run["pushpin"] = "pushpin is not installed"
        text = markdown(found, load_goals())
        self.assertIn("not run: pushpin is not installed", text)
        self.assertIn("| user memory for each held client, private pages | 150 B | – | – |", text)
        self.assertIn("**not measured**", text)

    def test_lost_messages_show_in_the_table_and_are_an_error(self) -> None:
        found = run()
        last = {"p50": 1.0, "p99": 2.0}
        found.broadcasts.append(Broadcast(SUBJECT, 1, "slow", 10, 100, 1_000_000, last, 1.0, {"lost": 3}))
        self.assertEqual(found.errors(), {f"{SUBJECT}/slow": {"lost": 3}})
        self.assertIn("went wrong**: 3 lost", markdown(found, []))
        slow = next(figure for figure in FIGURES if figure.id == "slow-cpu")
        self.assertEqual(values(found, slow, SUBJECT), [10_000.0])


if __name__ == "__main__":
    unittest.main()
