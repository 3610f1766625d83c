#!/usr/bin/env python3
"""Compares the claims of documentation pages with the stub, the settings, the commands and the CI suites.

A page may begin with lists, between two lines `---`:

    ---
    promises:
      - setting cluster_replicas
      - method Request::earlyHints
    denies:
      - setting http3_listen
    ---

A promise fails when its subject does not exist, and a denial when it does. Kinds of subjects:

    class NAME              ext/fermata.stub.php or php/src, with its namespace below Fermata
    method CLASS::NAME      of a class in ext/fermata.stub.php
    argument CLASS::$NAME   of the constructor or a method of that class
    function NAME           ext/fermata.stub.php
    setting NAME            docs/reference/settings.md; `edge setting NAME` and `hub setting NAME` are the other two pages
    command NAME            of `fermata`
    make NAME               target of the Makefile
    ci NAME                 suite that CI runs: `make test-NAME`
    file PATH               in this repository

Every page (*.md) is also searched for sentences such as "There is no setting `io`" or "there is no class
`Table`", whose subject must not exist.

Relative links of every page must lead to a file. scripts/site.sh checks the anchors, too.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FRONT = re.compile(r"\A---\n(.*?)\n---\n", re.DOTALL)
DENIAL = re.compile(r"\b(?:[Tt]here (?:is|are)|has|have) no (class|method|function|setting|command) `([\w\\:$()]+)`")

LINK = re.compile(r"\]\(([^)#\s:]+)(?:#[^)\s]*)?\)")
CODE = re.compile(r"^```.*?^```|`[^`\n]*`", re.DOTALL | re.MULTILINE)


def read(path: str) -> str:
    return (ROOT / path).read_text()


def stub() -> tuple[set[str], set[str], set[str], set[str]]:
    """Classes, methods, arguments and functions of ext/fermata.stub.php, below the namespace Fermata."""
    classes: set[str] = set()
    methods: set[str] = set()
    arguments: set[str] = set()
    functions: set[str] = set()
    namespace = current = ""
    for line in read("ext/fermata.stub.php").splitlines():
        if found := re.match(r"namespace (\S+)", line):
            namespace = found[1].removeprefix("Fermata").lstrip("\\")
        elif found := re.match(r" {4}(?:(?:final|abstract|readonly) )*(?:class|enum|interface) (\w+)", line):
            current = f"{namespace}\\{found[1]}".lstrip("\\")
            classes.add(current)
        elif found := re.match(r" {4}function (\w+)\(", line):
            functions.add(found[1])
        elif current:
            if found := re.match(r" {8}public (?:static )?function (\w+)\(", line):
                methods.add(f"{current}::{found[1]}")
            if " function " in line or re.match(r" {12}\S", line):
                arguments |= {f"{current}::${name}" for name in re.findall(r"\$(\w+)", line)}
    return classes, methods, arguments, functions


def commands() -> set[str]:
    body = read("crates/cli/src/main.rs").split("enum Command {", 1)[1].split("\n}", 1)[0]
    return {name.lower() for name in re.findall(r"^    ([A-Z]\w+)\(", body, re.MULTILINE)}


def suites() -> set[str]:
    lists = re.findall(r"^(?:alone|suites|beside)=\((.*?)\)", read("scripts/test-all.sh"), re.MULTILINE)
    return set(" ".join(lists).split())


class Facts:
    def __init__(self) -> None:
        classes, methods, arguments, functions = stub()
        library = {
            str(path.relative_to(ROOT / "php/src").with_suffix("")).replace("/", "\\")
            for path in (ROOT / "php/src").rglob("*.php")
        }
        row = re.compile(r"^\| `(\w+)` \|", re.MULTILINE)
        settings = read("docs/reference/settings.md")
        self.known = {
            "class": classes | library,
            "method": methods,
            "argument": arguments,
            "function": functions,
            "setting": set(re.findall(r"^### (\w+)$", settings, re.MULTILINE)),
            "edge setting": set(row.findall(read("docs/reference/edge.md"))),
            "hub setting": set(row.findall(read("docs/reference/hub.md"))),
            "command": commands(),
            "make": set(re.findall(r"^([a-z][\w-]*):", read("Makefile"), re.MULTILINE)),
            "ci": suites(),
        }
        empty = [kind for kind, names in self.known.items() if not names]
        if empty:
            sys.exit(f"claims: cannot find any {', '.join(empty)}: the format of its source has changed")

    def has(self, kind: str, name: str) -> bool | None:
        """Returns true if the subject exists; None for an unknown kind."""
        if kind == "file":
            return (ROOT / name).exists()
        names = self.known.get(kind)
        return None if names is None else name.removeprefix("Fermata\\").removesuffix("()") in names


def claims(front: str) -> list[tuple[bool, str, str]]:
    """Returns the lists of a page as (is promised, kind, name)."""
    found, promised = [], None
    for line in front.splitlines():
        if line in ("promises:", "denies:"):
            promised = line == "promises:"
        elif promised is not None and (item := re.fullmatch(r"  - (\S.*) (\S+)", line)):
            found.append((promised, item[1], item[2]))
        elif line.startswith("  - "):
            found.append((bool(promised), "", line[4:]))
    return found


def problems(name: str, text: str, facts: Facts) -> list[str]:
    """Returns a line for each false claim of a page."""
    found = []
    front = FRONT.match(text)
    for promised, kind, subject in claims(front[1]) if front else []:
        exists = facts.has(kind, subject)
        if exists is None:
            found.append(f"{name}: cannot check `{kind} {subject}`: unknown kind of claim")
        elif exists != promised:
            verb, state = ("promises", "does not exist") if promised else ("denies", "exists")
            found.append(f"{name}: {verb} {kind} {subject}, which {state}")
    for kind, subject in DENIAL.findall(text):
        if facts.has(kind, subject):
            found.append(f"{name}: states that there is no {kind} {subject}, which exists")
    folder = (ROOT / name).parent
    links = LINK.findall(CODE.sub("", text))
    found += [f"{name}: link to {link}, which does not exist" for link in links if not (folder / link).exists()]
    return found


def main() -> int:
    facts = Facts()
    listed = subprocess.run(["git", "ls-files", "*.md"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    pages = [ROOT / name for name in listed.splitlines()]
    found = [problem for page in pages for problem in problems(str(page.relative_to(ROOT)), page.read_text(), facts)]
    for problem in found:
        print(problem, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
