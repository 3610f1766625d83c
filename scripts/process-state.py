#!/usr/bin/env python3
"""Checks that every field of PHP's per-process state has a class in ext/state/process_state.list.

  scripts/process-state.py [FOLDER…]    FOLDER contains PHP's headers or source; default: the headers of php-config, and PHP
                                        sources and headers found below FERMATA_CACHE
  scripts/process-state.py --fields F   prints the fields found in the folders and checks nothing

The fields are read from structures of globals: those named in NAMED and LATER, and each ZEND_BEGIN_MODULE_GLOBALS block. A
new PHP version that adds a field without a class fails the check.
"""

import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
LIST = ROOT / "ext/state/process_state.list"
CLASSES = {"exchanged", "cleared", "harmless", "refused"}
# Structures of globals that no macro declares, and their names in the list.
NAMED = {
    "_zend_executor_globals": "executor",
    "_zend_compiler_globals": "compiler",
    "_zend_ini_scanner_globals": "ini_scanner",
    "_zend_php_scanner_globals": "language_scanner",
    "_php_core_globals": "core",
    "_sapi_globals_struct": "sapi",
    "_php_basic_globals": "basic",
    "_php_ps_globals": "ps",
    "_php_session_rfc1867_progress": "ps_progress",
}
MODULE = re.compile(r"ZEND_BEGIN_MODULE_GLOBALS\((\w+)\)(.*?)ZEND_END_MODULE_GLOBALS", re.S)
STRUCT = re.compile(r"(?:typedef\s+)?struct\s+(\w+)\s*\{", re.S)
LATER = re.compile(r"typedef\s+struct\s*\{((?:[^{}]|\{[^{}]*\})*)\}\s*(php_file_globals|php_dir_globals)\s*;", re.S)


def without_comments(text):
    text = re.sub(r"/\*.*?\*/", " ", text, flags=re.S)
    text = re.sub(r"//[^\n]*", " ", text)
    return re.sub(r"^\s*#.*(?:\\\n.*)*$", " ", text, flags=re.M)


def block(text, start):
    depth = 1
    at = start
    while depth and at < len(text):
        depth += {"{": 1, "}": -1}.get(text[at], 0)
        at += 1
    return text[start : at - 1]


def fields(body):
    """Yields the field names of a structure. A nested structure counts as one field."""
    body = re.sub(r"\{[^{}]*(?:\{[^{}]*\}[^{}]*)*\}", " ", body)
    for declaration in body.split(";"):
        declaration = declaration.strip()
        if not declaration:
            continue
        pointer = re.search(r"\(\s*\*\s*(\w+)\s*\)\s*\(", declaration)
        if pointer:
            yield pointer.group(1)
            continue
        for part in declaration.split(","):
            name = re.search(r"(\w+)\s*(?:\[[^\]]*\]\s*)*(?::\s*\d+)?$", part.strip())
            if name and not name.group(1).isdigit():
                yield name.group(1)


def read(folder):
    found = {}
    for file in sorted(folder.rglob("*.[hc]")):
        path = file.relative_to(folder).as_posix()
        if "/tests/" in path or "skeleton" in path or path.startswith(("sapi/", "win32/", "build/")):
            continue
        text = file.read_text(errors="replace")
        if "_globals" not in text and "GLOBALS" not in text and "rfc1867" not in text:
            continue
        text = without_comments(text)
        for match in MODULE.finditer(text):
            for field in fields(match.group(2)):
                found[f"{match.group(1)}.{field}"] = path
        for match in LATER.finditer(text):
            for field in fields(match.group(1)):
                found[f"{match.group(2)[4:-8]}.{field}"] = path
        for match in STRUCT.finditer(text):
            if match.group(1) in NAMED:
                for field in fields(block(text, match.end())):
                    found[f"{NAMED[match.group(1)]}.{field}"] = path
    return found


def folders():
    config = os.environ.get("PHP_CONFIG", "php-config")
    answer = subprocess.run([config, "--include-dir"], capture_output=True, text=True, check=False)
    if answer.returncode == 0:
        yield pathlib.Path(answer.stdout.strip())
    caches = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
    cache = pathlib.Path(os.environ.get("FERMATA_CACHE") or caches / "fermata")
    for pattern in ("php*-source/tree", "*/usr/include/php/20*", "php-*/include/php"):
        yield from sorted(cache.glob(pattern))


def classes():
    known = {}
    current = None
    for number, line in enumerate(LIST.read_text().splitlines(), 1):
        line = line.split("#", 1)[0].rstrip()
        heading = re.match(r"(\w+): (.+)", line)
        if heading:
            current = heading.group(1)
            if current not in CLASSES:
                sys.exit(f"process-state: {LIST.name}:{number}: no class is named {current}")
            continue
        for name in line.split():
            if name in known:
                sys.exit(f"process-state: {LIST.name}:{number}: {name} has two classes")
            known[name] = current
    return known


def main(arguments):
    only_fields = arguments[:1] == ["--fields"]
    places = [pathlib.Path(argument) for argument in arguments[only_fields:]] or list(folders())
    if only_fields:
        for place in places:
            print("\n".join(sorted(read(place))))
        return 0
    known = classes()
    whole = {name[:-2] for name in known if name.endswith(".*")}
    status = 0
    for place in places:
        found = read(place)
        if len(found) < 100:
            message = f"process-state: found only {len(found)} fields in {place}; it has no headers of PHP, or the parser fails"
            print(message, file=sys.stderr)
            status = 1
        for name, path in sorted(found.items()):
            if name not in known and name.split(".")[0] not in whole:
                print(f"process-state: {name} ({place}/{path}) has no class in {LIST.relative_to(ROOT)}", file=sys.stderr)
                status = 1
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
