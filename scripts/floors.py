#!/usr/bin/env python3
"""Checks the layers of the extension; `make lint` runs it.

    floors.py            fails if a figure exceeds its limit in CEILINGS, and reports each limit that can be lowered
    floors.py --up       lists every use of a room on a higher floor
    floors.py --circle   lists the files of each circle, and the files of the circle that each of them uses
    floors.py --run      lists the files that use fermata_run, and the number of uses

A unit is a .c file with the header of the same name, or a header without a .c file. A unit uses another if it includes its
header or names a function or variable that the other defines. A use goes up if the other unit's room is on a higher floor.
"""

import pathlib
import re
import sys

from modules import circles

ROOT = pathlib.Path(__file__).resolve().parent.parent
EXT = ROOT / "ext"

# Rooms of each floor, from the lowest to the highest floor. Rooms on one floor may use each other.
FLOORS = [
    {"abi"},
    {"base"},
    {"handler"},
    {"fibers"},
    {"state"},
    {"hooks"},
    {"clients"},
    {"channels", "files", "http", "jobs", "sockets"},
    {"worker"},
]

# Rooms of the units that are directly in ext/, where phpize and the generators expect them.
ROOMS = {
    "abi": "fermata_core",
    "worker": "fermata fermata_arginfo php_fermata",
}

# Maximum value of each figure. Lower it when the figure falls. Never raise it.
CEILINGS = {
    "uses that go up": 0,
    "files in the largest circle": 0,
    "members of fermata_fiber": 20,
    "files that use fermata_run": 1,
    "uses of fermata_run": 251,
}

GENERATED = {"fermata_core.h", "fermata_arginfo.h"}


def code(file):
    """Returns the text of a file without comments and strings."""
    text = re.sub(r"/\*.*?\*/|//[^\n]*", " ", file.read_text(), flags=re.S)
    return re.sub(r'(#\s*include\s+"[^"\n]*")|"(?:\\.|[^"\\\n])*"', lambda match: match[1] or '""', text)


def unit_of(path):
    """Returns the name of the unit of a file: its path below ext/ without the suffix."""
    return str(path.with_suffix("").relative_to(EXT))


def read_units():
    """Returns the text of each unit, by its name."""
    units = {}
    for file in sorted([*EXT.glob("*.[ch]"), *EXT.glob("*/*.[ch]")]):
        if "tests" not in file.parts:
            units.setdefault(unit_of(file), {})[file.name] = code(file)
    return units


def definitions(text, is_header):
    """Yields the functions and variables with a name of ours that a file defines."""
    text = re.sub(r"^\s*#(?:[^\n]*\\\n)*[^\n]*", "", text, flags=re.M)
    for match in re.finditer(r"^(?!typedef|extern|return)(?:[\w *]+?[ *])(fermata_\w+)\s*(\([^;{]*\)\s*\{|[\[=;,])", text, re.M):
        if is_header and "static" not in match[0]:
            continue
        yield match[1]
        if match[2] == ",":
            # The declaration continues: fermata_ce_a, *fermata_ce_b.
            rest = text[match.end() : text.index(";", match.end())]
            yield from re.findall(r"\*?(fermata_\w+)", rest)


def read_uses(units):
    """Returns the uses of each unit: for each other unit, the names that are used, with `#include` for the header."""
    homes = {}
    for unit, files in units.items():
        for name, text in files.items():
            if name not in GENERATED:
                homes.update(dict.fromkeys(definitions(text, name.endswith(".h")), unit))
    uses = {unit: {} for unit in units}
    for unit, files in units.items():
        for name, text in files.items():
            if name in GENERATED:
                continue
            folder = (EXT / unit).parent
            for header in re.findall(r'#\s*include\s+"([^"]+)"', text):
                path = next((path for path in (folder / header, EXT / header) if path.exists()), None)
                if path and (target := unit_of(path.resolve())) != unit:
                    uses[unit].setdefault(target, set()).add("#include")
            if name.endswith(".c"):
                for word in set(re.findall(r"\bfermata_\w+", text)):
                    if (target := homes.get(word, unit)) != unit:
                        uses[unit].setdefault(target, set()).add(word)
    return uses


def room_of(unit):
    """Returns the room of a unit."""
    for room, names in ROOMS.items():
        if unit in names.split():
            return room
    return unit.split("/")[0]


def floor_of(unit):
    """Returns the index in FLOORS of a unit's room."""
    room = room_of(unit)
    for floor, rooms in enumerate(FLOORS):
        if room in rooms:
            return floor
    sys.exit(f"floors.py: ext/{unit}: no room {room} in FLOORS")


def members(units):
    """Returns the number of members of fermata_fiber."""
    for files in units.values():
        for text in files.values():
            if match := re.search(r"^struct fermata_fiber \{\n(.*?)^\};", text, re.M | re.S):
                # A nested struct or a function pointer counts as one member.
                body = re.sub(r"\{[^{}]*\}", "", match[1])
                body = re.sub(r"\([^()]*\)", "", body)
                return sum(declaration.count(",") + 1 for declaration in body.split(";") if declaration.strip())
    sys.exit("floors.py: cannot find struct fermata_fiber")


def main():
    options = set(sys.argv[1:])
    if options - {"--up", "--circle", "--run"}:
        sys.exit(__doc__)
    units = read_units()
    uses = read_uses(units)
    up = [
        (unit, target, name)
        for unit, targets in uses.items()
        for target, names in targets.items()
        for name in names
        if floor_of(target) > floor_of(unit)
    ]
    found = circles({unit: set(targets) for unit, targets in uses.items()})
    run = {unit: sum(len(re.findall(r"\bfermata_run\b", text)) for text in files.values()) for unit, files in units.items()}
    run = {unit: count for unit, count in run.items() if count}
    figures = {
        "uses that go up": len(up),
        "files in the largest circle": len(found[0]) if found else 0,
        "members of fermata_fiber": members(units),
        "files that use fermata_run": len([unit for unit in run if room_of(unit) not in ("handler", "fibers")]),
        "uses of fermata_run": sum(run.values()),
    }
    total = sum(len(names) for targets in uses.values() for names in targets.values())
    print(f"ext: {len(units)} units, {total} uses of each other")
    if "--up" in options:
        for unit, target, name in sorted(up, key=lambda use: (room_of(use[0]), room_of(use[1]), use)):
            print(f"  {room_of(unit)} -> {room_of(target)}: {unit} uses {name} of {target}")
    if "--circle" in options:
        for part in found:
            print(f"  circle of {len(part)}:")
            for unit in part:
                print(f"    {unit} -> {', '.join(sorted(set(uses[unit]) & set(part)))}")
    if "--run" in options:
        for unit, count in sorted(run.items(), key=lambda item: -item[1]):
            print(f"  {count:4} {unit} ({room_of(unit)})")
    failed = False
    for figure, value in figures.items():
        print(f"{figure}: {value} (ceiling {CEILINGS[figure]})")
        if value > CEILINGS[figure]:
            failed = True
            print(f"floors.py: {figure}: {value} exceed the ceiling of {CEILINGS[figure]}; see floors.py --help", file=sys.stderr)
        elif value < CEILINGS[figure]:
            print(f"floors.py: lower the ceiling of \"{figure}\" in CEILINGS to {value}")
    sys.exit(failed)


if __name__ == "__main__":
    main()
