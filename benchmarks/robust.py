"""Installed packages and generated programs through `check` and `apply --dry-run`: nothing may fail or change a file.

python benchmarks/robust.py [PACKAGE ...] [--programs N]      # every installed package and 300 programs without words

The programs are hypothesmith's: anything that the grammar of Python allows, behind a head that makes names of it arrays
and Modules. What jitmod fails on is named; the exit code is 1 then.
"""

from __future__ import annotations

import argparse
import ast
import gc
import hashlib
import os
import shutil
import sys
import tempfile
import time
import warnings
from collections.abc import Iterable
from pathlib import Path
from sysconfig import get_path

from jitmod.delivery.untried import Asked, diff, findings
from jitmod.rewrite.codemod import Codemod, select

_HEAD = """\
import equinox as eqx
import jax
import jax.numpy as jnp

A = jnp.ones(3)


class B(eqx.Module):
    C: int


"""


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("packages", nargs="*")
    parser.add_argument("--programs", type=int, default=300)
    parser.add_argument("--no-packages", action="store_true")
    chosen = parser.parse_args()
    gc.disable()  # as the program does
    failures = 0
    with tempfile.TemporaryDirectory(prefix="jitmod-robust-") as folder:
        programs = Path(folder) / "programs"
        programs.mkdir()
        failures += searched("programs", programs, _generate(programs, chosen.programs))
        for package in [] if chosen.no_packages else _packages(chosen.packages):
            copied = Path(folder) / package.name
            shutil.copytree(package, copied, ignore=_all_but_python, symlinks=True)
            failures += searched(package.name, copied, sum(1 for _ in copied.rglob("*.py")))
            shutil.rmtree(copied)
    print(f"{failures} failures")
    return int(failures > 0)


def searched(name: str, root: Path, count: int) -> int:
    """Search a tree both ways; the number of failures."""
    before = _digests(root)
    begun = time.perf_counter()
    asked = Asked(root, (".",), (), ("all",), _codemods, keeps_results=False)
    found, composed = findings(asked), diff(asked)
    errors = [error for one in (found, composed) for error in one.errors]
    wrong = [str(error) for error in errors if "failed on this file" in error.message]
    wrong += ["check and apply --dry-run find something else"] if found.entries != composed.entries else []
    wrong += ["a file has changed"] if _digests(root) != before else []
    for one in wrong:
        print(f"{name}: {one}")
    unread = len(found.errors)
    seconds = time.perf_counter() - begun
    numbers = f"{count:5d} files {len(found.entries):5d} findings {unread:4d} unreadable"
    print(f"{seconds:7.1f} s {numbers}  {name}", flush=True)
    return len(wrong)


def _codemods() -> tuple[Codemod, ...]:
    return tuple(select("all"))


def _packages(wanted: Iterable[str]) -> list[Path]:
    root = Path(get_path("purelib"))
    named = list(wanted)
    folders = [root / name for name in named] if named else sorted(root.iterdir())
    return [folder for folder in folders if folder.is_dir() and next(folder.rglob("*.py"), None) is not None]


def _all_but_python(folder: str, names: list[str]) -> set[str]:
    return {name for name in names if not name.endswith(".py") and not os.path.isdir(os.path.join(folder, name))}


def _digests(root: Path) -> dict[Path, str]:
    return {path: hashlib.sha256(path.read_bytes()).hexdigest() for path in root.rglob("*.py") if path.is_file()}


def _generate(folder: Path, count: int) -> int:
    """Write that many programs; what the head spoils (`from __future__`, say) is left out."""
    import hypothesmith
    from hypothesis import HealthCheck, given, seed, settings

    written: list[str] = []

    @seed(0)
    @settings(max_examples=count, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(hypothesmith.from_node())
    def write(text: str) -> None:
        program = _HEAD + text
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                ast.parse(program)
                data = program.encode()
            except (SyntaxError, ValueError, RecursionError, MemoryError):
                return
        (folder / f"p{len(written)}.py").write_bytes(data)
        written.append(text)

    write()
    return len(written)


if __name__ == "__main__":
    sys.exit(main())
