#!/usr/bin/env python3
"""Finds names and comments that a newcomer has to read twice.

It knows three habits, which are easy to find and easy to mend; a review finds the others:

* A comment that begins with `Whoever`, `Nobody`, `Somebody`, `Whom` or `Who has …` has no subject. Name it: the client,
  the worker, the fiber, the process. `Who may …` is a noun and may stay.
* A type or a variant that is called `Told`, `Said`, `Asked`, `Heard` or `Looked` tells what was done and not what the
  value is. Name the value: a pending request, the parts of a response.
* A sentence of the docs and the name of a test that begin with `Who …` or `Whoever` have no subject either.
"""

import re
import subprocess
import sys

# Comments of tests may speak of people: their users have names.
FILES = ["crates/*/src/*.rs", "ext/*.c", "ext/*.h", "php/src/*.php", "bench/*.py", "scripts/*.py", "scripts/*.sh"]
DOCS = ["*.md"]
# Raw runs are kept as they were printed.
OLD = "bench/runs/"
TESTS = ["*.rs", "php/tests/*.php"]
# A copy of comments of crates/ffi.
GENERATED = {"ext/fermata_core.h"}

COMMENT = re.compile(r"^\s*(?://[/!]?|/\*\*?|\*|#|\"\"\")\s*(?P<text>\S.*)$")
# The beginning of a comment or of a sentence in it; in the middle of a sentence the words are good English.
HEADLESS = re.compile(r"(?:^|[a-z`][.:;] )(?:Whoever|Whom|Nobody|Somebody|Anybody|Who (?!may\b)\w+)\b")
NAMES = re.compile(r"(?:\b(?:struct|enum|type|trait|as) |^\s+|::)(?P<name>Told|Said|Asked|Heard|Looked)\b")
# A heading of a table's column or a question (`| Who gets the item |`, `Who are you?`) may begin so.
HEADLESS_DOCS = re.compile(r"(?:^|[a-z0-9`*)][.:;] |^- |\*\*)(?:Whoever\b|Who (?!may\b|are you\b)\w+ )")
TEST = re.compile(r"\bfn (?P<name>who(?:ever)?_\w+)|\bfunction (?P<method>test(?:Who[A-Z]|Whoever)\w*)")


def findings(path, lines):
    for number, line in enumerate(lines, start=1):
        if found := COMMENT.match(line):
            if HEADLESS.search(found["text"]):
                yield f"{path}:{number}: a comment without a subject: {found['text']}"
        elif found := NAMES.search(line):
            yield f"{path}:{number}: a name that does not say what the value is: {found['name']}"


def findings_of_docs(path, lines):
    for number, line in enumerate(lines, start=1):
        if HEADLESS_DOCS.search(line):
            yield f"{path}:{number}: a sentence without a subject: {line.strip()}"


def findings_of_tests(path, lines):
    for number, line in enumerate(lines, start=1):
        if found := TEST.search(line):
            yield f"{path}:{number}: a test that does not name what it is about: {found['name'] or found['method']}"


def main():
    found = []
    for patterns, rule in [(FILES, findings), (DOCS, findings_of_docs), (TESTS, findings_of_tests)]:
        listed = subprocess.run(["git", "ls-files", "-z", *patterns], check=True, capture_output=True, text=True).stdout
        for path in filter(None, listed.split("\0")):
            if path not in GENERATED and not path.startswith(OLD):
                with open(path, encoding="utf-8") as file:
                    found += rule(path, file)
    print("\n".join(found) if found else "words: clean")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
