"""Copies docs/ for the site: `prepare.py FOLDER`.

Links out of docs/ become links into the repository and must lead to an existing file. Info strings of code blocks keep only
the language. A file name in an info string becomes the title of the code block.
"""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
REPOSITORY = "https://github.com/fermata-php/fermata/blob/main"
STUB = "ext/fermata.stub.php"
FENCE = re.compile(r"^```(\w+) +(.+)$", re.MULTILINE)
LINK = re.compile(r"\]\((?P<path>(?:\.\./)+[^)#\s]+)(?P<anchor>#[^)\s]*)?\)")
WORDS = {"server", "script", "background", "first"}


def fence(match: re.Match[str]) -> str:
    language, rest = match.groups()
    return f"```{language}" if rest in WORDS else f'```{language} title="{rest}"'


def prepared(page: Path, text: str, missing: list[str]) -> str:
    def link(match: re.Match[str]) -> str:
        target = (page.parent / match["path"]).resolve()
        path = target.relative_to(ROOT)
        if not target.exists():
            missing.append(f"{page.relative_to(ROOT)}: {match['path']}")
        if str(path) == STUB:
            depth = len(page.relative_to(DOCS).parts) - 1
            return f"]({'../' * depth}reference/php/index.md)"
        return f"]({REPOSITORY}/{path}{match['anchor'] or ''})"

    return LINK.sub(link, FENCE.sub(fence, text))


def main() -> int:
    out = Path(sys.argv[1])
    shutil.rmtree(out, ignore_errors=True)
    missing: list[str] = []
    for source in sorted(DOCS.rglob("*")):
        target = out / source.relative_to(DOCS)
        if source.is_dir():
            target.mkdir(parents=True, exist_ok=True)
        elif source.suffix == ".md":
            target.parent.mkdir(parents=True, exist_ok=True)
            # The list of pages is the site's navigation.
            target.write_text(prepared(source, source.read_text(), missing))
        else:
            shutil.copy(source, target)
    home = (ROOT / "README.md").read_text().replace("](docs/", "](")
    home = re.sub(r"\]\((?!https?:|#)((?:[A-Z]+\.md|bench/|examples/)[^)]*)\)", rf"]({REPOSITORY}/\1)", home)
    (out / "README.md").rename(out / "pages.md")
    home = home.replace("](README.md)", "](pages.md)")
    (out / "index.md").write_text(FENCE.sub(fence, home))
    for name in missing:
        print(f"dead link in {name}", file=sys.stderr)
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
