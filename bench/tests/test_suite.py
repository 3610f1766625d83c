"""Tests of the suite itself: `python3 -m unittest discover -s bench/tests -t bench`."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import unittest
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from unittest import mock
from xml.etree import ElementTree

from bench.lib import process
from bench.lib.check import check_pipelining
from bench.lib.load import LoadError, parse_ab
from bench.lib.peers import BENCH, SUBJECT, CannotRun, Lacks, load_all, read_table
from bench.lib.process import Memory
from bench.lib.stats import interval, ratios
from bench.suites.tables import plot
from bench.suites.tables.report import MemoryLine, Run, markdown, picture, write
from bench.suites.tables.rows import LATENCY, MEMORY, PIPELINE, ROWS, TABLES, Row, Sample, settle
from bench.suites.tables.summary import CONTROL, MEMORY_METRIC, METRICS, UNITS, Goal, load_goals, rivals, summarise

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


def row(id: str) -> Row:
    return next(row for row in ROWS if row.id == id)


def sample(peer: str, round: int, requests: int, cpu_ns: int = 1_000_000, row: str = "json", p99: int = 0) -> Sample:
    return Sample(
        row=row,
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
        latency_us={"p50": p99 // 2, "p99": p99, "p99.9": p99},
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
        lines = {line.peer: line for line in summarise(samples, row("json"), [SUBJECT, "c", CONTROL])}
        self.assertEqual(lines["c"].ratios["rate"].median, 0.75)
        self.assertEqual(lines[CONTROL].ratios["rate"].median, 1.0)
        self.assertEqual(lines[SUBJECT].ratios, {})
        self.assertEqual((lines["c"].lowest, lines["c"].highest), (1000.0, 1500.0))

    def test_a_peer_that_misses_rounds_is_compared_in_its_own(self) -> None:
        samples = [sample(SUBJECT, 1, 100), sample(SUBJECT, 2, 900), sample("go", 2, 300)]
        lines = {line.peer: line for line in summarise(samples, row("json"), [SUBJECT, "go"])}
        self.assertEqual((lines["go"].ratios["rate"].median, lines["go"].ratios["rate"].rounds), (3.0, 1))

    def test_the_quickest_to_answer_comes_first_in_a_latency_row(self) -> None:
        samples = [sample(SUBJECT, 1, 10, row="half-load", p99=900), sample("nginx", 1, 10, row="half-load", p99=300)]
        lines = summarise(samples, row("half-load"), [SUBJECT, "nginx"])
        self.assertEqual([line.peer for line in lines], ["nginx", SUBJECT])
        self.assertEqual(lines[0].ratios["p99"].median, 3.0)

    def test_goal_verdicts(self) -> None:
        goal = Goal(row="json", peer="c", metric="rate", source="test", at_least=0.9)
        self.assertEqual(goal.limit(), "≥ 0.9× c")
        most = Goal(row="cold-start", unit="ms", metric="first-byte", source="test", at_most=30)
        self.assertEqual(most.limit(), "≤ 30 ms")
        self.assertEqual((most.verdict(interval([20.0])), most.verdict(interval([40.0]))), ("met", "missed"))
        self.assertEqual(goal.verdict(interval([0.95, 0.96])), "met")
        self.assertEqual(goal.verdict(interval([0.5, 0.6])), "missed")
        self.assertEqual(goal.verdict(interval([0.5, 0.95, 1.2])), "met, within the noise")
        self.assertEqual(goal.verdict(None), "not measured")


class Tables(unittest.TestCase):
    def run_of(self, *samples: Sample) -> Run:
        peers = load_all()
        machine = dict.fromkeys(("host", "processor", "cores", "memory", "system", "kernel", "commit"), "x")
        options = {"core": 0, "rounds": 2, "quick": False, "rows": ["json", "half-load", "cold-start", MEMORY]}
        chosen = {id: peers[id] for id in (SUBJECT, "c", "swoole", "nginx")}
        run = Run("json", datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC), machine, options, chosen)
        run.samples += samples
        return run

    def test_a_peer_that_is_not_run_is_named_with_its_reason_and_no_figure(self) -> None:
        run = self.run_of(sample(SUBJECT, 1, 1000))
        run.not_run["swoole"] = "swoole.so does not exist"
        text = markdown(run, load_goals())
        self.assertIn("| Swoole | not run: swoole.so does not exist |  |", text)
        self.assertIn("| json: rate | ≥ 1.4× swoole | – | **not measured** |", text)

    def test_goals_are_ratios_or_values_in_their_unit(self) -> None:
        run = self.run_of(sample(SUBJECT, 1, 3000), sample("c", 1, 2000))
        ratio = run.value(Goal("json", "rate", "test", peer="c", at_least=1))
        assert ratio is not None
        self.assertEqual(ratio.median, 1.5)
        run.samples.append(sample(SUBJECT, 1, 1, row="cold-start"))
        value = run.value(Goal("cold-start", "first-byte", "test", unit="ms", at_most=30))
        assert value is not None
        self.assertEqual(value.median, 2000.0)
        self.assertIsNone(run.value(Goal(MEMORY, MEMORY_METRIC, "test", unit="MB", at_most=6)))

    def test_the_picture_has_a_bar_for_every_peer_and_is_well_formed(self) -> None:
        late = sample(SUBJECT, 1, 9, row="half-load", p99=800)
        run = self.run_of(sample(SUBJECT, 1, 1000), sample("c", 1, 2000), late)
        root = ElementTree.fromstring(picture(run))
        texts = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
        self.assertIn("Fermata", texts)
        self.assertIn("C", texts)
        self.assertIn("0.80 ms", texts)
        # The background, and one bar per line.
        self.assertEqual(len(list(root.iter("{http://www.w3.org/2000/svg}rect"))), 1 + 3)
        half = Memory(1, 1, 1)
        run.memory.append(MemoryLine(SUBJECT, half, half, 700_000, 300))
        self.assertIn("0.7 MB", picture(run))

    def test_names_of_peers_cannot_break_the_picture(self) -> None:
        panel = plot.Panel("<a>", [plot.Bar("A & B", 1.0, 1.0, 1.0, "", plot.OTHERS)], str)
        ElementTree.fromstring(plot.plot("x < y", [panel]))

    def test_written_are_table_picture_and_raw_data(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            shown, raw = write(self.run_of(sample(SUBJECT, 1, 1000)), load_goals(), Path(folder))
            self.assertEqual(shown.name, "json-030405.md")
            self.assertIn("](json-030405.svg)", shown.read_text())
            self.assertTrue((Path(folder) / "json-030405.svg").is_file())
            document = json.loads(raw.read_text())
            self.assertEqual(document["summary"]["json"][0]["values"]["rate"], 500.0)
            self.assertEqual({goal["row"] for goal in document["goals"]}, {"json", "half-load", "cold-start", MEMORY})


class Answers(unittest.TestCase):
    def serve(self, answers: bytes) -> int:
        """A server that sends these bytes to its only client, whatever it says, and closes."""
        listener = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(listener.close)

        def answer() -> None:
            client, _ = listener.accept()
            with client:
                client.recv(65536)
                client.sendall(answers)

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        self.addCleanup(thread.join)
        return int(listener.getsockname()[1])

    ANSWER = b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 15\r\n\r\n{"status":"OK"}'

    def test_as_many_answers_as_pipelined_requests_are_right(self) -> None:
        check_pipelining(self.serve(self.ANSWER * 3), 3)

    def test_a_missing_or_another_answer_is_wrong(self) -> None:
        for answers in (self.ANSWER * 2, self.ANSWER + self.ANSWER.replace(b'OK"}', b'KO"}')):
            with self.assertRaises(CannotRun):
                check_pipelining(self.serve(answers), 3)


class Configuration(unittest.TestCase):
    def test_goals_name_rows_metrics_and_peers_that_exist(self) -> None:
        peers, rows = load_all(), {row.id: row for row in ROWS}
        for goal in load_goals():
            if goal.row == MEMORY:
                self.assertEqual((goal.metric, goal.unit), (MEMORY_METRIC, "MB"))
                continue
            self.assertIn(goal.metric, METRICS)
            self.assertTrue(rows[goal.row].fits(peers[goal.peer or SUBJECT]), goal)
            self.assertTrue(goal.peer or goal.unit in UNITS, goal)
        self.assertIn("swoole", rivals(load_goals(), "json"))

    def test_every_row_has_the_subject_and_a_rival_and_belongs_to_a_table(self) -> None:
        peers = load_all()
        for row in ROWS:
            fitting = [id for id, peer in peers.items() if row.fits(peer)]
            self.assertIn(SUBJECT, fitting)
            self.assertGreater(len(fitting), 1, row.id)
            self.assertIn(row.table, TABLES)
            self.assertLessEqual(set(row.peers), set(peers))

    def test_all_peers_of_the_seeds_are_there(self) -> None:
        seeds = {
            "chat": "c java node node-net apache nginx php-seed",
            "json": "go nginx node node-cluster php-single php-select php-nonblocking php-prefork amphp revolt "
            "roadrunner mod-php php-fpm workerman swoole openswoole",
            "files": "node node-cluster php-fpm php-fpm-jit mod-php fermata-hooks fermata-file fermata-interpreted "
            "fermata-blocking",
        }
        peers = load_all()
        for table, ids in seeds.items():
            rows = [row for row in ROWS if row.table == table]
            for id in ids.split():
                self.assertTrue(any(row.fits(peers[id]) for row in rows), id)

    def test_a_server_that_closes_is_in_no_row_that_needs_its_connections(self) -> None:
        single = load_all()["php-single"]
        self.assertFalse(row("json-pipelined").fits(single))
        self.assertFalse(any(row.fits(single) for row in ROWS if row.kind == LATENCY))
        self.assertTrue(row("json").fits(single))

    def test_what_a_service_requires_of_the_extension_is_asked_of_it(self) -> None:
        peer = load_all()[SUBJECT]
        for requires, lacks in (("true", False), ("function_exists('no_such_function')", True)):
            service = replace(peer.services["waits"], requires=requires)
            asked = replace(peer, services={"waits": service})
            with mock.patch("bench.lib.peers.EXTENSION", "ctype"):
                if lacks:
                    self.assertRaises(Lacks, asked.check_requires, "waits")
                else:
                    asked.check_requires("waits")

    def test_a_server_has_come_to_rest_when_it_uses_no_processor(self) -> None:
        readings = iter([0, 50_000_000, 99_000_000, 99_100_000])
        running = mock.Mock(pids=lambda: [])
        with (
            mock.patch("bench.suites.tables.rows.process.cpu_ns", side_effect=lambda _: next(readings)),
            mock.patch("bench.suites.tables.rows.time.sleep"),
        ):
            settle(running)
        self.assertEqual(list(readings), [])

    def test_an_unknown_key_of_a_peer_is_an_error_that_names_it(self) -> None:
        with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
            file.write('name = "X"\nabout = "x"\nversion = ["x"]\nstrat = []\n')
            file.flush()
            with self.assertRaisesRegex(ValueError, "strat"):
                read_table(Path(file.name), set())

    def test_pipelining_is_as_deep_in_the_script_as_in_the_check(self) -> None:
        self.assertIn(f"string.rep(wrk.format(), {PIPELINE})", (BENCH / "load" / "pipeline.lua").read_text())


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
