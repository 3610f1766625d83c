#!/usr/bin/env python3
"""Finds names and comments that a newcomer has to read twice.

It knows two habits, which are easy to find and easy to mend; a review finds the others:

* A comment that begins with `Whoever`, `Nobody`, `Somebody`, `Whom` or `Who has …` has no subject. Name it: the client,
  the worker, the fiber, the process. `Who may …` is a noun and may stay.
* A type or a variant that is called `Told`, `Said`, `Asked`, `Heard` or `Looked` tells what was done and not what the
  value is. Name the value: a pending request, the parts of a response.
"""

import re
import subprocess
import sys

# Comments of tests may speak of people: their users have names.
FILES = ["crates/*/src/*.rs", "ext/*.c", "ext/*.h", "php/src/*.php", "bench/*.py", "scripts/*.py", "scripts/*.sh"]
# A copy of comments of crates/ffi.
GENERATED = {"ext/fermata_core.h"}

COMMENT = re.compile(r"^\s*(?://[/!]?|/\*\*?|\*|#|\"\"\")\s*(?P<text>\S.*)$")
# The beginning of a comment or of a sentence in it; in the middle of a sentence the words are good English.
HEADLESS = re.compile(r"(?:^|[a-z`][.:;] )(?:Whoever|Whom|Nobody|Somebody|Anybody|Who (?!may\b)\w+)\b")
NAMES = re.compile(r"(?:\b(?:struct|enum|type|trait|as) |^\s+|::)(?P<name>Told|Said|Asked|Heard|Looked)\b")


def findings(path, lines):
    for number, line in enumerate(lines, start=1):
        if found := COMMENT.match(line):
            if HEADLESS.search(found["text"]):
                yield f"{path}:{number}: a comment without a subject: {found['text']}"
        elif found := NAMES.search(line):
            yield f"{path}:{number}: a name that does not say what the value is: {found['name']}"


def main():
    listed = subprocess.run(["git", "ls-files", "-z", *FILES], check=True, capture_output=True, text=True).stdout
    found = []
    for path in filter(None, listed.split("\0")):
        if path not in GENERATED:
            with open(path, encoding="utf-8") as file:
                found += findings(path, file)
    print("\n".join(found) if found else "words: clean")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
