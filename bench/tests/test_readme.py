"""Tests of `readme.py`: figures of the README have their date and commit, and old ones are reported."""

from __future__ import annotations

import unittest
from datetime import date, timedelta

from bench import readme


class Figures(unittest.TestCase):
    def test_every_figure_has_its_date_and_commit(self) -> None:
        rows = readme.figures().splitlines()[2:]
        self.assertEqual(len(rows), len(readme.figure_sources()))
        for row in rows:
            self.assertRegex(row, r"\| \d{4}-\d\d-\d\d, commit [0-9a-f]{7,40} \|$")

    def test_reports_figures_older_than_the_limit(self) -> None:
        newest = max(date.fromisoformat(path.parent.name[:10]) for path in readme.figure_sources())
        late = newest + timedelta(days=readme.DAYS_MAX + 1)
        self.assertEqual(len(readme.too_old(late)), len(readme.figure_sources()))


if __name__ == "__main__":
    unittest.main()
