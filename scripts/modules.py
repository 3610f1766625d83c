#!/usr/bin/env python3
"""Checks the dependencies among crates and among their modules; `make lint` runs it.

    modules.py            fails on a circle of modules larger than CIRCLES allows, on a dependency that ALLOWED does not
                          list, on methods of the struct of JOINTS outside its files, and on a struct of STRUCTS with
                          more methods, more files or a larger circle of files that call each other than allowed there;
                          then shows sizes, which have no limits
    modules.py --circles  lists the modules and files of each circle
    modules.py --edges    shows what each module or file of a circle uses of the same circle

A module uses another if a path in it contains the other module or one of its items. An item that a `mod.rs` only
re-exports by `pub use` counts as a use of the importing module, and not of the `mod.rs`. Tests do not count.
"""

import functools
import pathlib
import re
import sys
import tomllib
from typing import NamedTuple

ROOT = pathlib.Path(__file__).resolve().parent.parent

# Crates of this workspace that each crate may depend on, from the lowest floor to the highest.
ALLOWED = {
    "shm": set(),
    "proto": set(),
    "io": set(),
    "config": set(),
    "grip": set(),
    "testkit": set(),
    "pusher": set(),
    "sockjs": set(),
    "hub": {"shm"},
    "table": {"shm"},
    "cluster": set(),
    "mercure": set(),
    "tls": {"io"},
    "origin": {"grip", "proto"},
    "load": {"io", "proto", "tls"},
    "engine": {"cluster", "config", "hub", "io", "proto", "tls"},
    "edge-pushpin": {"grip", "proto"},
    "fastcgi": {"config", "engine", "io", "tls"},
    "edge": {"config", "edge-pushpin", "engine", "fastcgi", "grip", "io", "proto", "sockjs", "tls"},
    "gateway": {"config", "engine", "io", "mercure", "origin", "proto", "pusher", "sockjs", "tls"},
    "ffi": {"config", "engine", "fastcgi", "gateway", "grip", "io", "origin", "proto", "pusher", "table", "tls"},
    "cli": {"edge", "engine", "gateway", "grip", "io", "load", "origin", "tls"},
}

# Maximum number of modules in each dependency circle of a crate, the largest circle first. Other crates may have no circle.
# Lower these numbers when circles shrink; never raise them.
CIRCLES = {
    "edge": [5],
}

# The struct that combines the parts of a crate, and the files and folders (with a slash) that may define its methods. In other
# files, a function receives only the parts that it needs, never the complete struct.
JOINTS = {
    "engine": ("Worker", ("worker/", "start.rs", "drain.rs", "embed/")),
}

LONGEST = 10
"""Files and functions that are shown."""


class Ceiling(NamedTuple):
    """Maximum values for the methods of a struct. `None`: no limit."""

    circle: int
    """Files whose methods call each other in a circle."""
    methods: int | None = None
    files: int | None = None


# Limits of the largest structs. Never raise them. A new method belongs to the part whose state it changes.
STRUCTS = {
    "cluster": {"Nats": Ceiling(6, methods=72, files=6)},
    "engine": {
        "Channels": Ceiling(14, methods=120, files=20),
        "Http": Ceiling(7, methods=119, files=25),
        "Net": Ceiling(14, methods=142, files=31),
        "Worker": Ceiling(5),
    },
    "edge": {
        "Edge": Ceiling(0),
        "Turn": Ceiling(0),
        "Holds": Ceiling(0),
        "Outbound": Ceiling(0),
        "Publications": Ceiling(2),
    },
    "gateway": {"Gateway": Ceiling(6, methods=119, files=9)},
}

WORD = r"[A-Za-z_][A-Za-z0-9_]*"


def without_comments(text):
    """Returns the text with comments, strings and character literals blanked. Lines and columns do not change."""
    def blank(match):
        return re.sub(r"[^\n]", " ", match[0])
    token = re.compile(
        r"//[^\n]*|/\*.*?\*/"
        r'|\bb?r(#*)".*?"\1'
        r'|b?"(?:\\.|[^"\\])*"'
        r"|b?'(?:\\(?:x[0-9a-fA-F]{2}|u\{[0-9a-fA-F]+\}|.)|[^'\\\n])'",
        re.S,
    )
    return token.sub(blank, text)


def without_tests(text):
    """Returns the text with items under `#[cfg(test)]` blanked."""
    while match := re.search(r"#\[cfg\(test\)\]", text):
        depth = 0
        for at in range(match.end(), len(text)):
            character = text[at]
            if character in "([{":
                depth += 1
            elif character in ")]}":
                depth -= 1
                if depth == 0 and character == "}":
                    break
                if depth < 0:
                    at -= 1
                    break
            elif character in ";," and depth == 0:
                break
        cut = text[match.start() : at + 1]
        text = text[: match.start()] + re.sub(r"[^\n]", " ", cut) + text[at + 1 :]
    return text


def tree(text):
    """Yields each path of a `use` declaration as a list of segments, with the name that it introduces."""
    text = re.sub(r"\s+", " ", text).strip()
    if match := re.fullmatch(r"(.*?)\{(.*)\}", text):
        before = [word for word in match[1].split("::") if word.strip()]
        depth, parts, part = 0, [], ""
        for character in match[2]:
            depth += (character == "{") - (character == "}")
            if character == "," and depth == 0:
                parts.append(part)
                part = ""
            else:
                part += character
        for branch in [*parts, part]:
            if branch.strip():
                for words, name in tree(branch):
                    yield [*map(str.strip, before), *words], name
        return
    path, _, name = text.partition(" as ")
    words = [word.strip() for word in path.split("::") if word.strip()]
    if words:
        yield words, name.strip() or words[-1]


@functools.cache
def code(file):
    """Returns the text of a file without comments, strings and tests. Cached: several checks read each file."""
    return without_tests(without_comments(file.read_text()))


class Crate:
    """The modules of a crate, by path. A path is a tuple; the root's is empty."""

    def __init__(self, folder):
        self.folder = folder
        self.text, self.passed, self.used = {}, {}, {}
        source = folder / "src"
        for root in (source / "lib.rs", source / "main.rs"):
            if root.exists():
                self.add((), root, source)
        for module in self.text:
            self.read(module)

    def add(self, module, file, folder):
        text = code(file)
        self.text[module] = self.text.get(module, "") + text
        for name in re.findall(rf"^\s*(?:pub(?:\([^)]*\))? )?mod ({WORD});", text, re.M):
            for child in (folder / f"{name}.rs", folder / name / "mod.rs"):
                if child.exists():
                    self.add((*module, name), child, folder / name)

    def read(self, module):
        text = self.text[module]
        self.passed[module], self.used[module] = {}, []
        children = {path[-1] for path in self.text if path and path[:-1] == module}
        for match in re.finditer(r"^\s*(pub(?:\([^)]*\))? )?use ([^;]+);", text, re.M):
            for words, name in tree(match[2]):
                path = (*module, *words) if words[0] in children else self.absolute(module, words)
                if path is None:
                    continue
                if match[1]:
                    self.passed[module][name] = path
                else:
                    self.used[module].append(tuple(path))
        rest = re.sub(r"^\s*(?:pub(?:\([^)]*\))? )?use [^;]+;", "", text, flags=re.M)
        first = "|".join(["crate", "super", "self", *sorted(children)])
        for match in re.finditer(rf"(?<![\w:])(?:{first})(?:::{WORD})+", rest):
            words = match[0].split("::")
            path = (*module, *words) if words[0] in children else self.absolute(module, words)
            if path is not None:
                self.used[module].append(tuple(path))

    @staticmethod
    def absolute(module, words):
        if words[0] == "crate":
            return tuple(words[1:])
        if words[0] not in ("self", "super"):
            return None
        base, words = list(module), list(words)
        while words and words[0] in ("self", "super"):
            if words.pop(0) == "super":
                base.pop()
        return (*base, *words)

    def owner(self, path, seen=()):
        """Returns the module that defines the item of a path, after following `pub use`."""
        at = ()
        for place, word in enumerate(path):
            if (*at, word) in self.text:
                at = (*at, word)
            elif word in self.passed[at] and (at, word) not in seen:
                rest = path[place + 1 :]
                return self.owner((*self.passed[at][word], *rest), (*seen, (at, word)))
            else:
                break
        return at

    def edges(self):
        found = {}
        for module, paths in self.used.items():
            targets = {self.owner(path) for path in paths}
            # Items declared in the crate root are shared by all modules, so uses of the root do not count.
            found[module] = {target for target in targets if target != module and target}
        return found


def circles(edges):
    """Returns the strongly connected components with more than one member, the largest first (Tarjan's algorithm)."""
    number, low, stack, on, found = {}, {}, [], set(), []

    def visit(node):
        number[node] = low[node] = len(number)
        stack.append(node)
        on.add(node)
        for target in sorted(edges.get(node, ())):
            if target not in number:
                visit(target)
                low[node] = min(low[node], low[target])
            elif target in on:
                low[node] = min(low[node], number[target])
        if low[node] == number[node]:
            part = []
            while True:
                part.append(stack.pop())
                on.discard(part[-1])
                if part[-1] == node:
                    break
            if len(part) > 1:
                found.append(sorted(part))

    for node in sorted(edges):
        if node not in number:
            visit(node)
    return sorted(found, key=len, reverse=True)


def show(module):
    return "::".join(module) or "(root)"


def check_crates(folders):
    failures = []
    for folder in folders:
        name = folder.name
        manifest = tomllib.loads((folder / "Cargo.toml").read_text())
        ours = {key.removeprefix("fermata-") for key in manifest.get("dependencies", {}) if key.startswith("fermata-")}
        if name not in ALLOWED:
            failures.append(f"crates/{name} is not in ALLOWED of scripts/modules.py: say what it may depend on")
        for other in sorted(ours - ALLOWED.get(name, ours)):
            failures.append(f"crates/{name} depends on {other}, which it must not know")
    return failures


def check_circles(folder, crate, options):
    failures = []
    edges = crate.edges()
    found = circles(edges)
    allowed = CIRCLES.get(folder.name, [])
    sizes = [len(part) for part in found]
    for size, part in zip(sizes, found, strict=True):
        if options & {"--circles", "--edges"}:
            print(f"{folder.name}: {size} modules in a circle")
            for module in part:
                inside = sorted(show(target) for target in edges[module] if target in part)
                print(f"  {show(module)}" + (f" -> {', '.join(inside)}" if "--edges" in options else ""))
    for place, size in enumerate(sizes):
        most = allowed[place] if place < len(allowed) else 0
        if size > most:
            names = ", ".join(show(module) for module in found[place])
            failures.append(f"crates/{folder.name}: {size} modules depend on each other in a circle, {most} may: {names}")
    if not failures and sizes != allowed:
        print(f"circles of {folder.name} are {sizes} now: lower CIRCLES of scripts/modules.py from {allowed}")
    return failures


def check_joints(folder):
    """Checks that only the files in JOINTS define methods of the crate's struct or accept a mutable reference to it."""
    if folder.name not in JOINTS:
        return []
    failures = []
    name, places = JOINTS[folder.name]
    method = re.compile(rf"^impl(?:<[^{{]*?>)? (?:\w+::)*{name}\b", re.M)
    argument = re.compile(rf"&(?:'\w+ )?mut (?:\w+::)*{name}\b")
    for file in sorted((folder / "src").rglob("*.rs")):
        path = str(file.relative_to(folder / "src"))
        if path.startswith(("tests/", *places)):
            continue
        text = code(file)
        if method.search(text):
            failures.append(f"crates/{folder.name}/src/{path} has methods of {name}: give them to the part that they change")
        if argument.search(text):
            failures.append(f"crates/{folder.name}/src/{path} takes a whole {name}: hand it the parts that it needs")
    return failures


class Methods:
    """The methods of a struct by file, and the calls between these files."""

    def __init__(self, folder, name):
        self.texts, self.homes = {}, {}
        block = re.compile(rf"^impl(?:<[^{{]*?>)? (?:\w+::)*{name}(?:<[^{{]*>)? \{{\n(.*?)^\}}", re.M | re.S)
        for file in sorted((folder / "src").rglob("*.rs")):
            text = "\n".join(match[1] for match in block.finditer(code(file)))
            if text:
                path = str(file.relative_to(folder / "src"))
                self.texts[path] = text
                for method in re.findall(rf"^    (?:pub(?:\([^)]*\))? )?(?:const )?fn ({WORD})", text, re.M):
                    self.homes[method] = path

    def edges(self):
        found = {}
        # Closures name the receiver after the struct.
        call = re.compile(rf"\b(?:self|edge|turn|worker)\s*\.\s*({WORD})\(")
        for path, text in self.texts.items():
            called = {self.homes.get(method) for method in call.findall(text)}
            found[path] = called - {path, None}
        return found


def check_methods(folder, options):
    failures = []
    for name, ceiling in STRUCTS.get(folder.name, {}).items():
        methods = Methods(folder, name)
        edges = methods.edges()
        found = circles(edges)
        largest = len(found[0]) if found else 0
        print(f"{name} of {folder.name}: {len(methods.homes)} methods in {len(methods.texts)} files, {largest} in a circle")
        for part in found if options else []:
            for path in part:
                inside = sorted(edges[path] & set(part))
                print(f"  {path}" + (f" -> {', '.join(inside)}" if "--edges" in options else ""))
        counts = Ceiling(largest, len(methods.homes), len(methods.texts))
        for what, count, most in zip(("circle", "methods", "files"), counts, ceiling, strict=True):
            if most is None or count == most:
                continue
            if count < most:
                print(f"lower {what} of {name} in STRUCTS of scripts/modules.py from {most} to {count}")
            elif what == "circle":
                names = ", ".join(found[0])
                failures.append(
                    f"crates/{folder.name}: {count} files call methods of {name} in a circle, {most} may: {names}"
                )
            else:
                hint = "give new methods to the part whose state they change"
                failures.append(f"crates/{folder.name}: {name} has {count} {what}, {most} are allowed: {hint}")
    return failures


def functions(file):
    """Yields the length in lines and the name of each function of a file."""
    name = None
    for number, line in enumerate(file.read_text().splitlines()):
        if match := re.match(rf"^(\s*)(?:pub(?:\([^)]*\))? )?(?:const |unsafe |extern \"C\" )*fn ({WORD})", line):
            indent, name, start = match[1], match[2], number
        elif name and line == indent + "}":
            yield number - start + 1, name
            name = None


def print_sizes(folders):
    files = [file for folder in folders for file in (folder / "src").rglob("*.rs") if "tests" not in str(file)]
    lengths = sorted(((len(file.read_text().splitlines()), file.relative_to(ROOT)) for file in files), reverse=True)
    print("longest files:")
    for length, file in lengths[:LONGEST]:
        print(f"  {length:5} {file}")
    longest = sorted(((*it, file.relative_to(ROOT)) for file in files for it in functions(file)), reverse=True)
    print("longest functions:")
    for length, name, file in longest[:LONGEST]:
        print(f"  {length:5} {name} in {file}")


def main():
    sys.setrecursionlimit(10_000)
    options = set(sys.argv[1:])
    if options - {"--circles", "--edges"}:
        sys.exit(__doc__)
    folders = sorted(path.parent for path in (ROOT / "crates").glob("*/Cargo.toml"))
    crates = {folder.name: Crate(folder) for folder in folders}
    failures = check_crates(folders)
    for folder in folders:
        failures += check_joints(folder)
        failures += check_circles(folder, crates[folder.name], options)
        failures += check_methods(folder, options)
    print_sizes(folders)
    for failure in failures:
        print(f"modules.py: {failure}", file=sys.stderr)
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
