"""Tests of the WebSocket suite."""

from __future__ import annotations

import json
import tempfile
import unittest
from datetime import UTC, datetime
from pathlib import Path

from bench.lib.peers import SUBJECT, CannotRun
from bench.suites.tables.summary import CONTROL
from bench.suites.websocket import idle, peers, protocol
from bench.suites.websocket.main import all_rows, share_time
from bench.suites.websocket.report import BEHIND, IDLE, Goal, Run, load_goals, markdown, write
from bench.suites.websocket.rows import ROWS, Sample, fits

NOWHERE = Path("/nowhere")


def a_run() -> Run:
    options = {"core": 0, "rounds": 2, "seconds": 1.0, "quick": False, "rows": all_rows()}
    facts = dict.fromkeys(("host", "processor", "cores", "memory", "system", "kernel", "commit"), "x")
    return Run(datetime.now(UTC), facts, options, peers.load_all(NOWHERE), protocol.libraries(NOWHERE))


def sample(row: str, entry: str, round: int, units: int, cpu_ns: int) -> Sample:
    return Sample(row, entry, round, units, 1.0, cpu_ns, 0, 0.0, 0.0, 0.0, "")


class Peers(unittest.TestCase):
    def test_every_peer_does_everything(self) -> None:
        found = peers.load_all(NOWHERE)
        self.assertEqual(next(iter(found)), SUBJECT)
        for id, peer in found.items():
            self.assertTrue(set(peers.MODES) <= set(peer.services), id)
            self.assertTrue(peer.here.is_dir(), id)

    def test_names_in_commands_are_replaced(self) -> None:
        for id, peer in peers.load_all(NOWHERE).items():
            for service in peer.services.values():
                for word in service.start:
                    self.assertNotIn("$", peer.fill(word, (1, 2, 3)), id)

    def test_a_peer_that_is_not_there_says_so(self) -> None:
        with self.assertRaisesRegex(CannotRun, "/nowhere/ext-websocket"):
            peers.load_all(NOWHERE)["ext-websocket"].prepare()

    def test_the_configuration_of_nginx_keeps_its_own_names(self) -> None:
        proxy = peers.terminator("nginx", 4321, "x-echo")
        text = proxy.fill((proxy.here / "nginx.conf").read_text(), (1234, 0, 0))
        for expected in ("server 127.0.0.1:4321;", "listen 127.0.0.1:1234 ssl", "Upgrade $http_upgrade;"):
            self.assertIn(expected, text)


class Rows(unittest.TestCase):
    def test_who_is_in_a_row(self) -> None:
        found, rows = peers.load_all(NOWHERE), {row.id: row for row in ROWS}
        self.assertTrue(fits(rows["echo-64"], found["go"], ""))
        self.assertFalse(fits(rows["wss-echo-1024"], found["ext-websocket"], ""))
        self.assertTrue(fits(rows["wss-echo-1024"], found["ext-websocket"], "proxy"))
        self.assertFalse(fits(rows["wss-echo-1024"], found["go"], "proxy"))

    def test_goals_are_about_rows_and_peers_that_exist(self) -> None:
        known = {*peers.load_all(NOWHERE), "best", "proxy", ""}
        for goal in load_goals():
            self.assertIn(goal.row, all_rows())
            self.assertIn(goal.peer, known)
            self.assertNotEqual(goal.at_least is None, goal.at_most is None)

    def test_every_row_has_a_share_of_the_time(self) -> None:
        shares = share_time(a_run(), 100.0, 10.0)
        self.assertEqual(set(shares), {row.id for row in ROWS})
        ends = list(shares.values())
        self.assertEqual(ends, sorted(ends))
        self.assertLess(ends[-1], 100.0 + 600.0)


class Report(unittest.TestCase):
    def test_the_best_peer_is_of_php_and_another(self) -> None:
        run = a_run()
        for round in (1, 2):
            run.samples += [
                sample("echo-64", SUBJECT, round, 100, 1_000),
                sample("echo-64", CONTROL, round, 300, 1_000),
                sample("echo-64", "go", round, 400, 1_000),
                sample("echo-64", "swoole", round, 50, 2_000),
                sample("echo-64", "amphp", round, 20, 9_000),
            ]
        against, ratio = run.ratio("echo-64", "rate", "best")
        self.assertEqual((against, ratio and ratio.median), ("swoole", 2.0))
        against, ratio = run.ratio("echo-64", "cpu", "best")
        self.assertEqual((against, ratio and ratio.median), ("swoole", 0.25))
        self.assertIsNone(run.ratio("echo-64", "cpu", "proxy")[1])

    def test_behind_the_proxy_is_another_entry(self) -> None:
        run = a_run()
        run.samples += [
            sample("wss-echo-1024", SUBJECT, 1, 500, 1_000),
            sample("wss-echo-1024", f"ratchet{BEHIND}proxy", 1, 100, 1_000),
            sample("wss-echo-1024", f"ratchet{BEHIND}nginx", 1, 200, 1_000),
            sample("wss-echo-1024", f"{SUBJECT}{BEHIND}proxy", 1, 400, 1_000),
        ]
        against, ratio = run.ratio("wss-echo-1024", "rate", "proxy")
        self.assertEqual((against, ratio and ratio.median), (f"ratchet{BEHIND}proxy", 5.0))
        self.assertIn("| Ratchet behind PHP terminator | 100 |", markdown(run, load_goals()))

    def test_time_per_call_becomes_a_rate(self) -> None:
        run = a_run()
        run.nanoseconds["encode-64"] = {SUBJECT: {1: 20.0}, "swoole": {1: 30.0}, "ratchet": {1: 900.0}}
        self.assertEqual(run.ratio("encode-64", "rate", "best")[1].median, 1.5)

    def test_an_empty_run_has_a_table_that_says_what_is_missing(self) -> None:
        run = a_run()
        run.not_run = {"openswoole": "no such file", f"swoole/{IDLE}-tls": "ended", "amphp/echo-64": "lost 3"}
        with tempfile.TemporaryDirectory() as folder:
            table, raw = write(run, load_goals(), Path(folder))
            text, document = table.read_text(), json.loads(raw.read_text())
        self.assertIn("| OpenSwoole | not run: no such file", text)
        self.assertIn("| Swoole over wss | not run: ended", text)
        self.assertIn("| AMPHP | not run: lost 3", text)
        self.assertTrue(all(goal["verdict"] == "not measured" for goal in document["goals"]))

    def test_verdicts(self) -> None:
        goal = Goal("x", "y", "rate", at_least=2.0)
        self.assertTrue(goal.met(2.0) and not goal.met(1.9))
        self.assertEqual(goal.verdict(None), "not measured")
        line = idle.Idle(SUBJECT, "echo", 100, 1_100, 10_000, 210_000, 2.0, 50_000_000, 1_000, 1.0)
        self.assertEqual((line.bytes_each, line.connect_us, line.rate), (200.0, 50.0, 500.0))


if __name__ == "__main__":
    unittest.main()
