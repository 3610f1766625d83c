#!/usr/bin/env python3
"""Checks that the tests named in SECURITY.md and docs/pusher-and-mercure.md exist, and also folders and `make` targets.

A test is named as `file::function`, as `file.phpt` of ext/tests, or by its file only. A path is relative to the root, or to
the folder of another file in the same row.
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TEST = re.compile(r"`([\w./-]+\.(?:rs|phpt|php|sh|py|js)|(?:tests|crates|ext|fuzz)/[\w/-]*)(?:::(\w+))?`")
DOCUMENTS = [ROOT / "SECURITY.md", ROOT / "docs/pusher-and-mercure.md"]


def find(name: str, row: str) -> Path | None:
    """Returns a file by its path from the root, or from the folder of another file in the same row."""
    if name.endswith(".phpt") and "/" not in name:
        return next((path for path in [ROOT / "ext/tests" / name] if path.is_file()), None)
    folders = [ROOT] + [ROOT / Path(one).parent for one in re.findall(r"`([\w./-]+/[\w.-]+)(?:::\w+)?`", row)]
    return next((path for folder in folders if (path := folder / name).exists()), None)


def problems(document: Path) -> list[str]:
    targets = set(re.findall(r"^([a-z][\w-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    found = []
    for number, row in enumerate(document.read_text().splitlines(), 1):
        for target in re.findall(r"`make ([\w-]+)[^`]*`", row):
            if target not in targets:
                found.append(f"{document.name}:{number}: there is no `make {target}`")
        for name, function in TEST.findall(row):
            path = find(name, row)
            if path is None:
                found.append(f"{document.name}:{number}: there is no {name}")
            elif function and not re.search(rf"\b(?:fn|function) {function}\(", path.read_text()):
                found.append(f"{document.name}:{number}: {name} has no test {function}")
    return found


if __name__ == "__main__":
    all_problems = [one for document in DOCUMENTS for one in problems(document)]
    print("\n".join(all_problems), end="\n" if all_problems else "")
    sys.exit(bool(all_problems))
