"""Adds Markdown copies of all pages and their list, llms.txt, to the site: `llms.py SOURCE SITE`.

SOURCE is the folder that prepare.py and reference.php wrote. The copy of NAME.html is NAME.md, and links lead to copies.
The list follows the navigation of mkdocs.yml. Each entry contains the page's first sentence.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

CONFIGURATION = Path(__file__).with_name("mkdocs.yml")
FRONT = re.compile(r"\A---\n.*?\n---\n", re.DOTALL)
SECTION = re.compile(r"^ +- (.+):$")
ENTRY = re.compile(r"^ +- (.+): (\S+\.md)$")


def first_sentence(text: str) -> str:
    """Returns the first sentence of the first paragraph, without links. Empty if the page starts with a table or code."""
    lines = [line.strip() for line in text.splitlines()]
    for line in lines:
        if line.startswith(("```", "|")):
            return ""
        if line and not line.startswith(("#", "<!--", "- ")):
            plain = re.sub(r"\[([^\]]+)\]\([^)]*\)", r"\1", line).replace("**", "")
            return re.split(r"(?<=[.:])(?: |$)", plain, maxsplit=1)[0].rstrip(":")
    return ""


def main() -> int:
    source, site = Path(sys.argv[1]), Path(sys.argv[2])
    for page in source.rglob("*.md"):
        copy = site / page.relative_to(source)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(FRONT.sub("", page.read_text()).lstrip("\n"))
    description = re.search(r"^site_description: (.+)$", CONFIGURATION.read_text(), re.MULTILINE)
    if description is None:
        print("llms.py: mkdocs.yml has no site_description", file=sys.stderr)
        return 1
    listed = [f"# Fermata\n\n> {description[1]}\n\nEvery page of this site is also Markdown, at its address with .md for .html.\n"]
    title = ""
    for line in CONFIGURATION.read_text().split("\nnav:\n", 1)[1].splitlines():
        if entry := ENTRY.match(line):
            listed.append(title)
            title = ""
            about = first_sentence((site / entry[2]).read_text())
            listed.append(f"- [{entry[1]}]({entry[2]}){': ' + about if about else ''}\n")
        elif section := SECTION.match(line):
            title = f"\n## {section[1]}\n\n"
    (site / "llms.txt").write_text("".join(listed))
    return 0


if __name__ == "__main__":
    sys.exit(main())
