"""Tests of the suite of the edge: no server, no network."""

from __future__ import annotations

import json
import tempfile
import unittest
from datetime import UTC, datetime
from pathlib import Path
from unittest import mock

from bench.lib.peers import BACKEND, load_all
from bench.suites.crowd import report as crowd_report
from bench.suites.crowd.network import Network
from bench.suites.crowd.parts import Part
from bench.suites.edge.main import MARKS
from bench.suites.edge.report import FIGURES, RIVAL, SUBJECT, Goal, Run, figure_of, load_goals, markdown, write
from bench.suites.edge.rows import QUICK, ROWS, Sample

FACTS = ("host", "processor", "cores", "memory", "system", "kernel", "commit", "load average")


def a_run() -> Run:
    return Run(
        started=datetime(2026, 1, 1, tzinfo=UTC),
        machine=dict.fromkeys(FACTS, "x"),
        options={"rounds": 2, "quick": False, "levels": QUICK.levels},
        peers=load_all(("edge",)),
    )


def sample(peer: str, round: int, row: str, **figures: float) -> Sample:
    return Sample(peer, round, row, figures, seconds=1.0)


class Peers(unittest.TestCase):
    def test_both_have_one_configuration_and_the_backend_as_their_only_route(self) -> None:
        peers = load_all(("edge",))
        self.assertIn(SUBJECT, peers)
        self.assertIn(RIVAL, peers)
        text = (peers[RIVAL].here / "pushpin.conf").read_text()
        with mock.patch.dict("os.environ", {BACKEND: "127.0.0.1:9"}):
            for id in peers.keys() - MARKS.keys():
                peer, service = peers[id], peers[id].services["edge"]
                self.assertIn("pushpin.conf", service.render, id)
                self.assertEqual((peer.here / "pushpin.conf").read_text(), text, id)
                self.assertIn("* 127.0.0.1:9", [peer.fill(word) for word in service.start], id)
                self.assertEqual(json.loads(service.publish_body)["items"][0]["channel"], "group-{n}", id)


    def test_what_is_no_edge_has_the_backend_and_rows_that_need_none(self) -> None:
        for id, rows in MARKS.items():
            peer = load_all(("edge",))[id]
            with mock.patch.dict("os.environ", {BACKEND: "127.0.0.1:9"}):
                text = "".join(peer.fill((peer.here / name).read_text()) for name in peer.services["edge"].render)
            self.assertIn("server 127.0.0.1:9;", text)
            self.assertIn("$http_host", text)
            self.assertEqual(rows, ("proxy",))


class Reporting(unittest.TestCase):
    def test_every_figure_has_a_row_and_every_goal_a_figure(self) -> None:
        known = {figure.id for figure in FIGURES}
        self.assertEqual(len(known), len(FIGURES))
        self.assertTrue(all(figure.row in ROWS for figure in FIGURES))
        for goal in load_goals():
            self.assertIn(goal.figure, known)
            self.assertNotEqual(goal.at_least is None, goal.at_most is None, goal)

    def test_ratios_are_taken_within_a_round(self) -> None:
        run = a_run()
        for round, ours, theirs in ((1, 200.0, 20_000.0), (2, 400.0, 10_000.0), (3, 100.0, None)):
            run.samples.append(sample(SUBJECT, round, "stream", memory=ours))
            if theirs:
                run.samples.append(sample(RIVAL, round, "stream", memory=theirs))
        value = run.ratio(figure_of("stream-memory"))
        assert value is not None
        self.assertAlmostEqual(value.median, 0.025)
        self.assertEqual((value.low, value.high, value.rounds), (0.01, 0.04, 2))
        self.assertEqual(Goal("stream-memory", at_most=0.03).verdict(value), "met, within the noise")
        self.assertEqual(Goal("stream-memory", at_most=0.005).verdict(value), "missed")
        self.assertEqual(Goal("stream-memory", at_least=0.005).verdict(value), "met")
        self.assertEqual(Goal("stream-memory", at_least=1).verdict(None), "not measured")

    def test_the_table_names_what_went_wrong_and_who_disturbed(self) -> None:
        run = a_run()
        run.samples.append(sample(SUBJECT, 1, "proxy", cpu=20_000.0, rate=30_000.0))
        run.samples.append(sample(RIVAL, 1, "proxy", cpu=400_000.0, rate=2_000.0))
        run.samples[1].errors = {"timeouts": 3}
        run.samples[1].foreign = 0.5
        run.not_run["pushpin/slow"] = "it fell over"
        text = markdown(run, load_goals())
        self.assertIn("| CPU of a plain request through the edge | 20.0 µs |", text)
        self.assertIn("| 400 µs | 0.0500× [0.0500, 0.0500] |", text)
        self.assertIn("pushpin/proxy went wrong**: 3 timeouts", text)
        self.assertIn("The machine was not quiet", text)
        self.assertIn("pushpin/slow: not run: it fell over", text)
        self.assertIn("| ≤ 0.3× | 0.0500× [0.0500, 0.0500] | **met** |", text)

    def test_what_is_written_can_be_read_again(self) -> None:
        run = a_run()
        run.samples.append(sample(SUBJECT, 1, "first", p50=200.0, p99=300.0, cpu=1.0))
        with tempfile.TemporaryDirectory() as folder:
            table, raw = write(run, load_goals(), Path(folder))
            found = json.loads(raw.read_text())
            self.assertIn("publish to first byte", table.read_text())
        self.assertEqual(found["figures"]["first-p50"]["shown"], {SUBJECT: "0.20 ms"})
        self.assertEqual({goal["verdict"] for goal in found["goals"]}, {"not measured"})


class Million(unittest.TestCase):
    def test_a_crowd_behind_the_edge_has_goals_of_its_own(self) -> None:
        figures = {"held": 1_000_000.0, "php_answers": 999_999.0, "lost": 0.0, "connects_per_s": 5_000.0}
        part = Part("edge", figures=figures, details={"workers": 54})
        facts = dict.fromkeys(FACTS, "x")
        options = {"clients": 1_000_000}
        text = crowd_report.markdown([part], facts, Network(True), datetime.now(UTC), options, "crowd-edge")
        self.assertIn("# 1,000,000 held clients through the edge, each answered by PHP-FPM", text)
        self.assertIn(
            "| of them by an answer of PHP-FPM, by its own count | 999,999 | ≥ 1,000,000 | **missed** |", text
        )
        self.assertIn("| connect and subscribe | 5,000/s | | |", text)


if __name__ == "__main__":
    unittest.main()
