"""The arithmetic of `bench cluster --nodes`."""

from __future__ import annotations

import unittest
from typing import Any

from bench.suites.cluster.nodes import faults, recovered, sources, workers_for


def series(*open_at: tuple[float, int]) -> list[dict[str, Any]]:
    return [{"at_s": at, "open": open} for at, open in open_at]


class Recovered(unittest.TestCase):
    def test_from_the_first_loss_to_the_first_moment_in_which_all_are_there(self) -> None:
        points = series((0.1, 4), (0.2, 9), (3.0, 9), (3.1, 6), (3.2, 7), (4.6, 9), (4.7, 9))
        self.assertEqual(recovered(points, 9), 1.5)

    def test_nothing_was_lost_between_two_looks(self) -> None:
        self.assertEqual(recovered(series((0.1, 9), (0.2, 9)), 9), 0.0)

    def test_clients_that_never_came_back(self) -> None:
        self.assertIsNone(recovered(series((0.1, 9), (0.2, 3), (9.0, 8)), 9))

    def test_clients_that_were_never_there(self) -> None:
        self.assertIsNone(recovered(series((0.1, 3)), 9))


class Sizes(unittest.TestCase):
    def test_two_servers_have_workers_for_the_clients_of_three(self) -> None:
        self.assertEqual([workers_for(clients) for clients in (300, 30_000, 60_000, 300_000)], [1, 1, 2, 10])

    def test_no_address_has_more_connections_than_ports(self) -> None:
        self.assertEqual(sources(300).split(), ["*", "127.2.0.1;"])
        lines = sources(300_000).splitlines()
        self.assertEqual(len(lines), 21)
        self.assertEqual(lines[0].split(), ["4.76%", "127.2.0.1;"])


class Faults(unittest.TestCase):
    def test_what_no_client_may_have_seen(self) -> None:
        counters = {"lost": 0, "repeated": 2, "gap_events": 1, "reconnects": 7}
        self.assertEqual(faults({"counters": counters}), {"repeated": 2, "gap_events": 1})


if __name__ == "__main__":
    unittest.main()
