"""Tests of what `million.py` and `soak.py` compute: no server, no network."""

from __future__ import annotations

import select
import socket
import unittest
from datetime import UTC, datetime

from bench.suites.crowd import kernel, plot, report
from bench.suites.crowd.network import Network
from bench.suites.crowd.parts import Part, Size, faults, rate_within
from bench.suites.crowd.polls import Message, Messages, Plan, Polls, checksum
from bench.suites.crowd.soaking import Size as SoakSize
from bench.suites.crowd.soaking import Soak
from bench.suites.crowd.watch import Reading, costs


def load(**counters: int) -> dict:
    names = ("not_held", "lost", "missing", "repeated", "corrupt", "misdirected", "gap_events", "publish_skipped",
             "publish_failures", "disconnects", "churned", "deliveries")
    return {
        "counters": dict.fromkeys(names, 0) | counters,
        "incomplete_publishes": 0,
        "passed": True,
        "series": [
            {"at_s": at, "open": 5, "connects_per_s": 1, "deliveries_per_s": 10 * at, "max_us": 7} for at in range(1, 7)
        ],
        "steps": [{"name": "<a>", "from_s": 2.0, "hold_s": 3}],
    }


class Figures(unittest.TestCase):
    def test_costs_are_shares_of_a_core(self) -> None:
        readings = [Reading(10.0, 0, 0), Reading(11.0, 500_000_000, 10), Reading(12.0, 500_000_000, 30)]
        found = costs(readings)
        self.assertEqual((found.mean, found.per_second, found.wakes_per_s), (0.25, [0.5, 0.0], 15))

    def test_the_server_has_half_of_what_both_ends_have(self) -> None:
        before = kernel.Kernel({"TCP": 1_000_000}, 0, 0, 0, 9_000_000)
        after = kernel.Kernel({"TCP": 5_000_000, "tcp_bind2_bucket": 2_000_000}, 0, 0, 0, 1_000_000)
        found = kernel.share(before, after)
        self.assertEqual((found.both, found.server, found.available_drop), (6_000_000, 2_000_000, 8_000_000))
        self.assertEqual(found.kinds, {"TCP": 4_000_000, "tcp_bind2_bucket": 2_000_000})

    def test_a_rate_is_that_of_the_middle_of_a_step(self) -> None:
        self.assertEqual(rate_within(load(), {"from_s": 2.0, "hold_s": 3}), 45)

    def test_any_fault_counts(self) -> None:
        self.assertEqual(faults(load()), 0)
        self.assertEqual(faults(load(lost=2, not_held=1)), 3)
        self.assertEqual(faults(load() | {"passed": False}), 1)
        # A publish without a response may not have taken effect.
        self.assertEqual(faults(load(publish_failures=2) | {"incomplete_publishes": 3}), 1)

    def test_workers_have_room_for_an_uneven_spread(self) -> None:
        self.assertEqual(Size().workers_for(1_000_000), 54)
        self.assertEqual(Size().workers_for(10), 2)
        self.assertEqual(Size(workers=7).workers_for(1_000_000), 7)


class Reports(unittest.TestCase):
    def test_a_goal_is_met_or_missed(self) -> None:
        part = Part("crowd", figures={"held": 999_999.0, "get_p99_ms": 5.0}, details={"workers": 54})
        facts = dict.fromkeys(("processor", "cores", "memory", "system", "kernel", "commit", "load average"), "x")
        text = report.markdown([part], facts, Network(True), datetime.now(UTC), {"clients": 1_000_000})
        self.assertIn("| SSE clients held | 999,999 | ≥ 1,000,000 | **missed** |", text)
        self.assertIn("| 5 ms | ≤ 5 ms | met |", text)
        small = report.markdown([part], facts, Network(True), datetime.now(UTC), {"clients": 2_000})
        self.assertNotIn("missed", small)

    def test_every_goal_has_a_name_and_one_bound(self) -> None:
        goals = report.goals()
        self.assertEqual(len({goal.figure for goal in goals}), len(goals))
        self.assertTrue(all((goal.at_least is None) != (goal.at_most is None) for goal in goals))

    def test_a_plot_has_its_steps_and_nothing_breaks_out_of_them(self) -> None:
        svg = plot.plot([Part("crowd", load=load()), Part("failed")])
        self.assertTrue(svg.startswith("<svg ") and svg.endswith("</svg>\n"))
        self.assertIn("&lt;a&gt;", svg)
        self.assertEqual([plot.ceiling_of(value) for value in (1, 3, 51, 999_999)], [1, 5, 100, 1_000_000])


class Soaking(unittest.TestCase):
    def test_it_fails_for_each_reason(self) -> None:
        good = load(disconnects=5, churned=5, deliveries=5)
        soak = Soak(SoakSize(duration_s=10, kill_every_s=5), seed=1)
        soak.kills = [(5.0, 1)]
        soak.samples = [{"pss": 100.0} for _ in range(8)]
        soak.loads["streams"] = good
        self.assertTrue(passes(soak, quick=False))
        for changed in ({"lost": 1}, {"disconnects": 0}, {"churned": 0}, {"deliveries": 0}):
            counters = good["counters"] | changed
            soak.loads["streams"] = good | {"counters": counters}
            self.assertFalse(passes(soak, quick=True), changed)
        soak.loads["streams"] = good
        soak.samples[-2:] = [{"pss": 110.0}] * 2
        self.assertFalse(passes(soak, quick=False))
        soak.kills = []
        self.assertFalse(passes(soak, quick=True))


def passes(soak: Soak, quick: bool) -> bool:
    return all(passed for _, passed in soak.verdicts(quick))


def message(sequence: int, confirmed: int, group: int = 3) -> bytes:
    """As `fermata load` writes it."""
    content = f"fl1.00000001.{group:08x}.{sequence:08x}.{confirmed:08x}.00000009.{5:016x}.".encode()
    content += b"a" * (120 - len(content))
    return content + f"{checksum(content):08x}".encode()


class Asking(unittest.TestCase):
    def test_messages_are_found_and_damaged_ones_told(self) -> None:
        good = message(7, 6)
        found = Messages().find(b"[" + good + b"," + good.replace(b"a", b"b") + b"]")
        self.assertEqual(found, [Message(3, 7, 6), None])

    def test_each_fault_is_counted(self) -> None:
        polls = Polls(Plan("poll", clients=4, groups=4, port=1, tls_port=0, connect_rate=1, churn=0, settle_s=1))
        client = polls.clients[3]
        for one in (message(1, 0), message(4, 2), message(4, 2), message(5, 4, group=2)):
            polls._take(client, one)
        self.assertEqual(dict(polls.counts), {
            "lost": 1, "unconfirmed": 1, "deliveries": 2, "repeated": 1, "misdirected": 1,
        })
        self.assertEqual(polls.missing(), 0)
        polls.newest[3] = 6
        self.assertEqual(polls.missing(), 2)

    def test_an_answer_that_waits_to_be_read_came_in_time(self) -> None:
        polls = Polls(Plan("poll", clients=1, groups=1, port=1, tls_port=0, connect_rate=1, churn=0, settle_s=1))
        client = polls.clients[0]
        client.socket, server = socket.socketpair()
        client.socket.setblocking(False)
        polls._clients[client.socket.fileno()] = client
        polls._epoll.register(client.socket.fileno(), select.EPOLLIN)
        client.turn = 1
        server.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        polls._on_timer(client, 1, "answer")
        self.assertEqual((polls.counts["unanswered"], polls.counts["requests"]), (0, 1))
        polls._on_timer(client, client.turn, "answer")
        self.assertEqual(polls.counts["unanswered"], 1)
        server.close()


if __name__ == "__main__":
    unittest.main()
