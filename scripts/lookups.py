#!/usr/bin/env python3
"""Finds look-ups in state tables that silently ignore a missing entry.

    scripts/lookups.py [FILE...]

A statement such as `let Some(…) = ….get(…) else { return; }` does not show whether the entry can be missing. If it can, the
code needs a comment with the reason, in the statement or above it, or must return an error. If it cannot, the `else` must
call `missed(…)`, which asserts and counts. The same holds for `if let Some(…) = ….get_mut(…) { … }` without `else`: it needs
a comment, or `….known()` in place of `missed(…)`. An `if let` that only reads needs neither. Tests are not checked.
"""

import re
import subprocess
import sys

# Paths whose `if let` statements are not checked yet.
WITHOUT_IF_LET = ("crates/edge/", "crates/engine/src/http/respond/")

# Look-up methods of maps and slabs, and of the engine's connection tables.
LOOK_UP = re.compile(r"\.(?:get|get_mut|at|at_mut|pair|pair_mut|exchange|exchange_mut|remove|key|entry)\((?!\))")
CHANGED = re.compile(r"\.(?:get_mut|at_mut|pair_mut|exchange_mut)\((?!.*\.\.)(?:[^()]|\([^()]*\))+\)\{$")
IF_LET = re.compile(r"^(\s*)if let Some\(")
BEGIN = re.compile(r"^\s*let (?:Some|Ok)\(")
END = re.compile(r"\belse \{$|\belse \{ .* \}$|;$")
SILENT = re.compile(r"^\s*(?:return\b(?! Err\().*;|continue;|break;)")


def code(line):
    return line.split(" //")[0].rstrip()


def changes(path, lines):
    """Yields the findings in `if let` statements."""
    for start, line in enumerate(lines):
        if line.startswith("#[cfg(test)]"):
            return
        match = IF_LET.match(line)
        if not match or path.startswith(WITHOUT_IF_LET):
            continue
        end = start
        while not code(lines[end]).endswith("{"):
            end += 1
        head = re.sub(r"\s+", "", "".join(map(code, lines[start : end + 1])))
        close = end + 1
        while not lines[close].startswith(match[1] + "}"):
            close += 1
        is_told = lines[start - 1].strip().startswith("//") or any("//" in it for it in lines[start : close + 1])
        if "&&" not in head and CHANGED.search(head) and lines[close].strip() == "}" and not is_told:
            yield f"{path}:{start + 1}: nothing is changed in silence: say why it may be, or use missed() or known()"


def findings(path, lines):
    for start, line in enumerate(lines):
        if line.startswith("#[cfg(test)]"):
            return
        if not BEGIN.match(line):
            continue
        end = start
        while end + 1 < len(lines) and not END.search(code(lines[end])):
            end += 1
        statement = lines[start : end + 1]
        if not code(lines[end]).endswith("else {") or not LOOK_UP.search(re.sub(r"\s+", "", "".join(map(code, statement)))):
            continue
        close = end + 1
        while close < len(lines) and lines[close].strip() != "};":
            close += 1
        body = lines[end + 1 : close]
        above = lines[start - 1].strip() if start else ""
        is_told = above.startswith("//") or any("//" in it for it in statement + body) or any("missed(" in it for it in body)
        if not is_told and len(body) == 1 and SILENT.match(body[0]):
            yield f"{path}:{start + 1}: a look-up ends in silence: say why it may, or use missed()"


def main():
    paths = sys.argv[1:]
    if not paths:
        listed = subprocess.run(
            ["git", "ls-files", "-z", "crates/*/src/*.rs"],
            check=True, capture_output=True, text=True,
        ).stdout
        paths = [path for path in listed.split("\0") if path and "/tests/" not in path and not path.endswith("/tests.rs")]
    found = []
    for path in paths:
        with open(path, encoding="utf-8") as file:
            lines = file.read().splitlines()
        found += [*findings(path, lines), *changes(path, lines)]
    print("\n".join(found) if found else "lookups: clean")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
