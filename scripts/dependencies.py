#!/usr/bin/env python3
"""Checks licences, versions and sources of third-party crates; `make lint` runs it.

    dependencies.py          fails on a licence that LICENCES does not allow, on a crate in two versions that TWICE does
                             not list, on a crate of BANNED, and on a crate that is not from crates.io
    dependencies.py --list   also shows every crate with its licence

It reads `Cargo.lock` by `cargo metadata`, without network. Advisories are not checked: their database is not available.
"""

import collections
import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent

# Licences that permit shipping a crate inside Fermata's binaries.
LICENCES = {
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-3-Clause",
    "ISC",
    "MIT",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
}

# Crates under other licences, and why these are acceptable.
EXCEPTIONS = {
    "cbindgen": "MPL-2.0: makes the C header, and is in nothing that is handed on",
}

# Crates that are compiled in two versions, and the crates that need the second version.
TWICE = {
    "base64": "the newer one is of rcgen, which makes certificates for tests",
    "bit-vec": "one is of proptest, the other of nothing that is built here",
    "const-oid": "the older one is of x509-cert, the newer one of sha1",
    "getrandom": "the older one is of ring",
    "pem": "the older one is of jsonwebtoken, the newer one of rcgen",
    "syn": "the older one is of der_derive",
    "toml_datetime": "the newer one is of nothing that is built here",
    "windows-sys": "neither is built here",
    "winnow": "the newer one is of nothing that is built here",
}

# Crates that shipped binaries must not contain, not even as indirect dependencies.
BANNED = {
    "async-std": "there is one loop per worker, and no async runtime",
    "native-tls": "TLS is rustls",
    "openssl-sys": "TLS is rustls",
    "tokio": "there is one loop per worker, and no async runtime",
}

# Crates of the shipped binaries: the command and the extension's core.
SHIPPED = {"fermata-cli", "fermata-ffi"}

CRATES_IO = "registry+https://github.com/rust-lang/crates.io-index"


def is_allowed(expression):
    """Returns true if LICENCES satisfies an SPDX expression. `/` is an old form of OR."""
    tokens = re.findall(r"\(|\)|[^\s()/]+(?: WITH [^\s()/]+)?|/", expression)

    def any_of():
        met = all_of()
        while tokens and tokens[0] in ("OR", "/"):
            tokens.pop(0)
            met = all_of() or met
        return met

    def all_of():
        met = one()
        while tokens and tokens[0] == "AND":
            tokens.pop(0)
            met = one() and met
        return met

    def one():
        token = tokens.pop(0)
        if token != "(":
            return token in LICENCES
        met = any_of()
        tokens.pop(0)
        return met

    return any_of()


def shipped(metadata):
    """Returns the ids of all packages in the shipped binaries."""
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    reached = set()
    pending = [package["id"] for package in metadata["packages"] if package["name"] in SHIPPED]
    while pending:
        at = pending.pop()
        if at not in reached:
            reached.add(at)
            needed = (it for it in nodes[at]["deps"] if any(kind["kind"] != "dev" for kind in it["dep_kinds"]))
            pending += [it["pkg"] for it in needed]
    return reached


def main():
    if set(sys.argv[1:]) - {"--list"}:
        sys.exit(__doc__)
    command = ["cargo", "metadata", "--locked", "--format-version", "1"]
    metadata = json.loads(subprocess.run(command, cwd=ROOT, check=True, capture_output=True).stdout)
    packages = [package for package in metadata["packages"] if package["source"]]
    ours = shipped(metadata)
    failures = []
    versions = collections.defaultdict(set)
    for package in packages:
        name, licence = package["name"], package["license"] or "none"
        versions[name].add(package["version"])
        if "--list" in sys.argv:
            print(f"{name} {package['version']}: {licence}")
        if not is_allowed(licence) and name not in EXCEPTIONS:
            failures.append(f"{name} has the licence {licence}: see LICENCES and EXCEPTIONS")
        if package["source"] != CRATES_IO:
            failures.append(f"{name} comes from {package['source']}, and not from crates.io")
        if name in BANNED and package["id"] in ours:
            failures.append(f"{name} must not be used: {BANNED[name]}")
    for name, found in sorted(versions.items()):
        if len(found) > 1 and name not in TWICE:
            failures.append(f"{name} is there as {' and '.join(sorted(found))}: see `cargo tree --invert {name}`, and TWICE")
    for name in [*(name for name in TWICE if len(versions[name]) < 2), *(name for name in EXCEPTIONS if name not in versions)]:
        failures.append(f"{name} need not be named any more in TWICE or EXCEPTIONS")
    for failure in failures:
        print(f"dependencies.py: {failure}", file=sys.stderr)
    print(f"{len(versions)} crates of others: {'clean' if not failures else f'{len(failures)} failures'}")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
