"""The small C programs of `load/` that a run needs beside its peers."""

from __future__ import annotations

import subprocess

from .peers import BENCH, BUILD, CannotRun


def build(name: str) -> None:
    """Compile `load/NAME.c` to `BUILD/NAME`. Raises CannotRun."""
    BUILD.mkdir(parents=True, exist_ok=True)
    command = ["cc", "-O2", "-o", str(BUILD / name), str(BENCH / "load" / f"{name}.c")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise CannotRun(f"the {name} does not compile: {done.stderr.strip()}")
