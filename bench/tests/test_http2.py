"""Reading what h2load reports, and that all peers of the suite can be read."""

from __future__ import annotations

import unittest

from bench.lib.peers import SUBJECT, load_all
from bench.suites.http2.rows import LoadError, read_h2load

REPORT = """starting benchmark...
Application protocol: h2
progress: 100% done

finished in 2.50s, 2000.00 req/s, 100.00KB/s
requests: 5000 total, 5000 started, 5000 done, 5000 succeeded, 0 failed, 0 errored, 0 timeout
status codes: 5000 2xx, 0 3xx, 0 4xx, 0 5xx
"""


class H2load(unittest.TestCase):
    def test_requests_and_their_time(self) -> None:
        self.assertEqual(read_h2load(REPORT), (5000, 2.5))

    def test_what_is_no_measurement(self) -> None:
        for old, new in (
            ("protocol: h2", "protocol: http/1.1"),
            ("0 errored", "1 errored"),
            ("0 5xx", "3 5xx"),
            ("finished in", "ended after"),
            ("2000.00 req/s", "0.00 req/s"),
        ):
            with self.subTest(new), self.assertRaises(LoadError):
                read_h2load(REPORT.replace(old, new))


class Peers(unittest.TestCase):
    def test_they_are_found(self) -> None:
        found = list(load_all(("h2",)))
        self.assertEqual(found[0], SUBJECT)
        self.assertIn("nginx", found)


if __name__ == "__main__":
    unittest.main()
