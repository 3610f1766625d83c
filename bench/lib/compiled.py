"""Compiles the load generators and small servers in `load/`, written in C and Go."""

from __future__ import annotations

import shutil
import subprocess

from .peers import BENCH, BUILD, CannotRun


def build(name: str) -> None:
    """Compiles `load/NAME.c` or `load/NAME.go` to `BUILD/NAME`. Raises CannotRun."""
    BUILD.mkdir(parents=True, exist_ok=True)
    source = BENCH / "load" / f"{name}.go"
    compiler = ["go", "build"]
    if not source.exists():
        source, compiler = source.with_suffix(".c"), ["cc", "-O2"]
    if shutil.which(compiler[0]) is None:
        raise CannotRun(f"{compiler[0]} is not installed")
    command = [*compiler, "-o", str(BUILD / name), str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise CannotRun(f"the {name} does not compile: {done.stderr.strip()}")
