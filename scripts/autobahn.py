"""Summarises reports of the Autobahn Testsuite. Called by scripts/autobahn.sh.

    autobahn.py [--keep] FOLDER SIDE…   reads FOLDER/SIDE/index.json and prints a summary; --keep also saves it
    autobahn.py --check                 fails unless the saved summary passes and docs/conformance.md agrees with it

A case passes if its behaviour is OK, NON-STRICT or INFORMATIONAL and its close handling also passes.
"""

import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
KEPT = ROOT / "tests/conformance/autobahn.json"
PAGE = ROOT / "docs/conformance.md"
BEGIN, END = "<!-- autobahn:begin -->", "<!-- autobahn:end -->"
VERSION = "25.10.1"
SIDES = {
    "server": "`Server::websocket()`, epoll",
    "server-io_uring": "`Server::websocket()`, io_uring",
    "server-http2": "`Server::websocket()` over HTTP/2, epoll",
    "client": "`Fermata\\WebSocket\\Client`",
}
REQUIRED = ("server", "server-io_uring")
"""Sides whose results must exist: the server on both io drivers. The client is only for tests and scripts."""
PASSES = ("OK", "NON-STRICT", "INFORMATIONAL", "UNIMPLEMENTED")
GROUPS = {
    "1": "Framing",
    "2": "Pings and pongs",
    "3": "Reserved bits",
    "4": "Opcodes",
    "5": "Fragmentation",
    "6": "UTF-8",
    "7": "Close handling",
    "9": "Large messages and many",
    "10": "Fragments of the sender's choice",
    "12": "Compression, different messages",
    "13": "Compression, different parameters",
}
# Number of cases in each group of a full run. A saved summary must contain all of them.
COUNTS = {"1": 16, "2": 11, "3": 7, "4": 10, "5": 20, "6": 145, "7": 37, "9": 54, "10": 1, "12": 90, "13": 126}


def order(case):
    return [int(part) for part in case.split(".")]


def outcome(result):
    """Returns the outcome of a case: its behaviour, followed by its close handling if the latter did not pass."""
    behaviour, close = result["behavior"], result["behaviorClose"]
    if close not in PASSES:
        return f"{behaviour}, close {close}"
    return behaviour


def read(path):
    """Returns the outcome of each case in a report, which must contain exactly one agent."""
    (agent,) = json.loads(path.read_text()).values()
    return {case: outcome(agent[case]) for case in sorted(agent, key=order)}


def summarise(cases):
    """Returns the number of cases per group and outcome, and the cases whose outcome is not OK."""
    groups = {}
    for case, result in cases.items():
        group = groups.setdefault(case.split(".")[0], {})
        group[result] = group.get(result, 0) + 1
    return {"groups": groups, "others": {case: result for case, result in cases.items() if result != "OK"}}


def failures(summary):
    others = summary["others"]
    return {case: result for case, result in others.items() if result not in PASSES or result == "UNIMPLEMENTED"}


def table(kept):
    lines = [
        f"Autobahn Testsuite {VERSION} (Python 2.7), commit {kept['commit']}, {kept['machine']}.",
        "",
        "| Cases | " + " | ".join(SIDES[side] for side in kept["sides"]) + " |",
        "|---|" + "---|" * len(kept["sides"]),
    ]
    for group, name in GROUPS.items():
        cells = []
        for side in kept["sides"].values():
            found = side["groups"].get(group, {})
            cells.append(", ".join(f"{count} {result}" for result, count in sorted(found.items(), reverse=True)) or "not run")
        lines.append(f"| {group} {name} | " + " | ".join(cells) + " |")
    for name, side in kept["sides"].items():
        others = ", ".join(f"{case} {result}" for case, result in side["others"].items()) or "none"
        lines += ["", f"Not simply OK for {SIDES[name]}: {others}."]
    return "\n".join(lines)


def page(kept):
    text = PAGE.read_text()
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    return f"{before}{BEGIN}\n{table(kept)}\n{END}{after}"


def check():
    kept = json.loads(KEPT.read_text())
    problems = []
    for name in SIDES:
        side = kept["sides"].get(name)
        if side is None:
            if name in REQUIRED:
                problems.append(f"{name} was never run")
            continue
        problems += [f"{name}: case {case} is {result}" for case, result in failures(side).items()]
        counts = {group: sum(found.values()) for group, found in side["groups"].items()}
        if counts != COUNTS:
            problems.append(f"{name}: not all cases were run: {counts}")
        listed = {}
        for case, result in side["others"].items():
            group = listed.setdefault(case.split(".")[0], {})
            group[result] = group.get(result, 0) + 1
        for group, found in side["groups"].items():
            if {result: count for result, count in found.items() if result != "OK"} != listed.get(group, {}):
                problems.append(f"{name}: group {group} and the listed cases differ")
    if page(kept) != PAGE.read_text():
        problems.append(f"{PAGE.relative_to(ROOT)} is not what {KEPT.relative_to(ROOT)} says; run scripts/autobahn.sh")
    return problems


def machine():
    lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
    model = [line.split(":")[1].strip() for line in lines if line.startswith("model name")]
    return f"{model[0]}, {len(model)} cores" if model else "unknown machine"


def main(arguments):
    if arguments == ["--check"]:
        problems = check()
        for problem in problems:
            print(f"conformance: {problem}", file=sys.stderr)
        return 1 if problems else 0
    keep = arguments[:1] == ["--keep"]
    folder, *sides = arguments[keep:]
    new = {side: summarise(read(pathlib.Path(folder) / side / "index.json")) for side in sides}
    failed = 0
    for side, summary in new.items():
        counts = {}
        for found in summary["groups"].values():
            for result, count in found.items():
                counts[result] = counts.get(result, 0) + count
        print(f"{side}: " + ", ".join(f"{count} {result}" for result, count in sorted(counts.items())))
        for case, result in failures(summary).items():
            print(f"  {case}: {result}")
            failed += 1
    if keep:
        kept = json.loads(KEPT.read_text()) if KEPT.exists() else {"sides": {}}
        commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True)
        kept = {
            "suite": f"autobahntestsuite {VERSION}",
            "commit": commit.stdout.strip(),
            "machine": machine(),
            "sides": {side: new.get(side) or kept["sides"].get(side) for side in SIDES if side in new or side in kept["sides"]},
        }
        KEPT.write_text(json.dumps(kept, indent=1) + "\n")
        PAGE.write_text(page(kept))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
