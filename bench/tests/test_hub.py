"""Tests of the suite of hubs."""

from __future__ import annotations

import json
import socket
import tempfile
import unittest
from datetime import UTC, datetime
from pathlib import Path

from bench.suites.crowd.network import Network
from bench.suites.hub import crowd
from bench.suites.hub.clients import EVENT, Frames, MercureClient, masked
from bench.suites.hub.main import Run, Sample, report, write
from bench.suites.hub.servers import FLOOR, HUBS, SUBJECT, channel_info, mercure_update, pusher_event

FACTS = ("host", "processor", "cores", "memory", "system", "kernel", "commit")


def frame(payload: bytes, opcode: int = 1) -> bytes:
    length = len(payload)
    head = bytes([length]) if length < 126 else bytes([126]) + length.to_bytes(2)
    return bytes([0x80 | opcode]) + head + payload


def a_run() -> Run:
    options = {"rounds": 2, "subscribers": 1_000, "hearers": 10, "events": 5, "command": "x"}
    return Run(datetime.now(UTC), dict.fromkeys(FACTS, "x"), options)


def sample(hub: str, round: int, bytes: float, publish_us: float) -> Sample:
    return Sample(hub, "pusher", round, 1_000, bytes, 10.0, 10, publish_us, 1.5)


class Clients(unittest.TestCase):
    def test_frames_are_found_in_any_split(self) -> None:
        expected = [(1, b"x" * 10), (9, b""), (1, b"y" * 300)]
        data = b"".join(frame(payload, opcode) for opcode, payload in expected)
        for first in range(len(data)):
            frames = Frames()
            self.assertEqual(frames.feed(data[:first]) + frames.feed(data[first:]), expected)

    def test_events_are_counted_once_in_any_split(self) -> None:
        data = b"id: 1\ndata: " + EVENT + b"\n\n: beat\n\nid: 2\ndata: " + EVENT + b" " + EVENT + b"\n\n"
        with socket.socket() as line:
            for first in range(len(data)):
                client = MercureClient(line)
                self.assertEqual(client.feed(data[:first]) + client.feed(data[first:]), 3, first)

    def test_a_message_is_masked_by_nothing(self) -> None:
        self.assertEqual(masked("ab"), b"\x81\x82\0\0\0\0ab")
        with self.assertRaises(ValueError):
            masked("x" * 126)


class Servers(unittest.TestCase):
    def test_events_are_signed_for_all_of_their_text(self) -> None:
        path, body, _ = pusher_event(1, now_s=0)
        self.assertEqual(pusher_event(1, now_s=0), (path, body, {"Content-Type": "application/json"}))
        self.assertNotEqual(pusher_event(2, now_s=0)[0], path)
        self.assertIn(EVENT, body)
        self.assertIn(EVENT, mercure_update(1)[1])

    def test_parameters_are_signed_in_the_order_of_their_names(self) -> None:
        for path in (channel_info(now_s=0), pusher_event(1, now_s=0)[0]):
            names = [pair.partition("=")[0] for pair in path.partition("?")[2].split("&")]
            self.assertEqual(names, [*sorted(names[:-1]), "auth_signature"])

    def test_every_hub_says_where_it_comes_from(self) -> None:
        for hub in HUBS.values():
            self.assertTrue(hub.source or hub.id == SUBJECT)
            with tempfile.TemporaryDirectory() as folder:
                command, _ = hub.start(4321, Path(folder), 2)
                self.assertTrue(command)


class Report(unittest.TestCase):
    def test_ratios_are_of_rounds_and_goals_are_judged(self) -> None:
        run = a_run()
        for round in (1, 2):
            run.samples += [sample(SUBJECT, round, 390.0, 100.0), sample("sockudo", round, 39_000.0, 400.0)]
        run.not_run["soketi/pusher"] = "not | here\nnor there"
        text = report(run)
        self.assertIn("390 bytes, at most 400 bytes: reached", text)
        self.assertIn("0.250× Sockudo's (0.250 to 0.250), at most 0.2× the peer's: MISSED", text)
        self.assertIn("0.010× Sockudo's", text)
        self.assertIn("not run: not \\| here |", text)
        self.assertNotIn("## Mercure", text)

    def test_a_goal_below_what_system_calls_take_is_named(self) -> None:
        for floor_us, is_told in ((90.0, True), (70.0, False)):
            run = a_run()
            for hub, publish_us in ((SUBJECT, 100.0), (FLOOR, floor_us), ("sockudo", 400.0)):
                run.samples.append(sample(hub, 1, 390.0, publish_us))
            text = report(run)
            self.assertIn(f"{100 / floor_us:.2f}× what its system calls take alone", text)
            self.assertEqual(is_told, f"alone take {floor_us / 400:.3f}× Sockudo's, above the goal" in text)

    def test_a_run_without_peers_has_a_table(self) -> None:
        run = a_run()
        run.samples.append(sample(SUBJECT, 1, 401.0, 100.0))
        with tempfile.TemporaryDirectory() as folder:
            table, raw = write(run, Path(folder))
            self.assertIn("MISSED", table.read_text())
            self.assertEqual(json.loads(raw.read_text())["samples"][0]["bytes"], 401.0)

    def test_a_crowd_that_failed_shows_what_was_found(self) -> None:
        options = {"subscribers": 100_000, "workers": 7, "events": 10, "build": "a debug build", "command": "x", "load": 1.0}
        figures = {"user_bytes": 401.0, "connects_per_s": 12_345.6}
        with tempfile.TemporaryDirectory() as folder:
            facts = dict.fromkeys(FACTS, "x")
            table = crowd.write(Path(folder), datetime.now(UTC), figures, options, facts, Network(is_own=True), "one was lost")
            text = table.read_text()
        self.assertIn("**Failed**: one was lost", text)
        self.assertIn("| 12,346 /s |", text)
        self.assertIn("401 B, at most 400 B: MISSED", text)
        self.assertIn("a debug build", text)


if __name__ == "__main__":
    unittest.main()
