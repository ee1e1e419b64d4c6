"""A test beside the user's own that keeps what a patch has won: it runs the workload and counts compilations.

It goes into the commit only where it was run and fails without the patch and passes with it.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from jitmod.delivery.figures import one_line
from jitmod.model import Patch, Verdict
from jitmod.rewrite.names import snake
from jitmod.source.config import Workload
from jitmod.trial.environment import child_environment

_SECONDS = 300.0
_DRIVER = "import runpy, sys\nfor name, value in runpy.run_path(sys.argv[1]).items():\n    "
_DRIVER += "if name.startswith('test_'):\n        value()\n"
_SKIPPED = frozenset({".git", ".venv", "venv", "node_modules", "build", "dist", "site-packages", "__pycache__"})
_FIRST, _LATER = "the first call", "later calls"


@dataclass(frozen=True)
class Style:
    """Where a project has its tests, from its root, and whether they are `unittest.TestCase` classes."""

    folder: str
    is_unittest: bool


@dataclass(frozen=True)
class Addition:
    """A new test file: its path from the root and its text."""

    path: str
    text: str


class NoTest(Exception):
    """Why there is no test; the message can be read by a user."""


def guard_for(
    patch: Patch, verdict: Verdict, evidence: Mapping[str, Any], workload: Workload, *, root: Path, user_root: Path,
    content: bytes, python: Path,
) -> Addition:  # fmt: skip
    """The test for an accepted patch whose file becomes `content`, seen to fail without it. Raises `NoTest`.

    `root` has the sources as they are before the patch, `user_root` the data.
    """
    style = style_of(root)
    addition = regression_test(patch, verdict, evidence, workload, style)
    check(addition, root, user_root, {patch.site.path: content}, python, style.is_unittest)
    return addition


def style_of(root: Path) -> Style:
    """How the tests below `root` look: the folder that holds most of them, and the style of most of those."""
    files: list[Path] = []
    for folder, names, found in os.walk(root):
        names[:] = sorted(n for n in names if n not in _SKIPPED and not n.startswith("."))
        files += [Path(folder, f) for f in sorted(found) if f.endswith(".py") and _is_test(f)]
    if not files:
        return Style("tests", False)
    folders = [f.parent for f in files]
    chosen = max(dict.fromkeys(folders), key=folders.count)
    texts = [f.read_bytes() for f in files if f.parent == chosen]
    return Style(chosen.relative_to(root).as_posix(), 2 * sum(b"TestCase" in text for text in texts) > len(texts))


def _is_test(name: str) -> bool:
    return name.startswith("test_") or name.endswith("_test.py")


def regression_test(
    patch: Patch, verdict: Verdict, evidence: Mapping[str, Any], workload: Workload, style: Style
) -> Addition:
    """The test for an accepted patch. Raises `NoTest` where no count of compilations tells the arms apart."""
    if ".py:" not in workload.run or "::" in workload.run:
        raise NoTest(f"the workload {one_line(workload.run)} is no function of a file that a test could call")
    counts = verdict.compiles
    before, after = (counts.get(arm, {}) for arm in ("baseline", "candidate"))
    symbol = snake(patch.site.symbol.rpartition(".")[2]) if patch.site.symbol != "<module>" else "module"
    path = str(PurePosixPath(style.folder) / f"test_compilations_of_{symbol.strip('_')}.py")
    takes_rep = bool(evidence.get("explore", {}).get("takes_rep"))
    if before.get("warm", 0) > 0 == after.get("warm"):
        text = _text(path, symbol.strip("_"), workload, style, _LATER, 0, takes_rep)
    elif before.get("cold", 0) > after.get("cold", 0) > 0:
        text = _text(path, symbol.strip("_"), workload, style, _FIRST, int(after["cold"]), takes_rep)
    else:
        raise NoTest("both arms compile as often, so that no count of compilations tells them apart")
    return Addition(path, text)


def _text(path: str, symbol: str, workload: Workload, style: Style, which: str, most: int, takes_rep: bool) -> str:
    """The file. Indented for a function of pytest; a class of unittest has one level more."""
    file, _, function = workload.run.rpartition(":")
    up = len(PurePosixPath(path).parts) - 1
    imports = ["import runpy", "import sys", *(["import unittest"] if style.is_unittest else []),
               "from pathlib import Path", "from unittest import mock", "", "import jax"]  # fmt: skip
    body = [
        "compiled = []",
        "",
        "def note(event, seconds, **details):",
        '    if event.endswith("backend_compile_duration"):',
        '        compiled.append(details.get("fun_name", "an operation"))',
        "",
        "with mock.patch.object(sys, \"path\", [*PLACES, *sys.path]):",
        *[f"    {line}" for line in _calls(file, function, workload.setup, takes_rep, which)],
    ]
    if which == _LATER:
        checks, shown = ["first > 0", "compiled[first:] == []"], "compiled again: {compiled[first:]}"
        why = "later calls must find what the first one has compiled"
    else:
        checks, shown = ["0 < len(compiled)", f"len(compiled) <= {most}"], "compiled: {compiled}"
        why = f"the first call compiles {most} time{'s' if most > 1 else ''}"
    if style.is_unittest:
        body += [f"self.assertTrue({checks[0]}, \"nothing was compiled, so nothing was counted\")",
                 f"self.assertTrue({checks[1]}, f\"{shown}\")"]  # fmt: skip
    else:
        body += [f"assert {checks[0]}, \"nothing was compiled, so nothing was counted\"",
                 f"assert {checks[1]}, f\"{shown}\""]  # fmt: skip
    name = f"test_compilations_of_{symbol}"
    places = dict.fromkeys([".", "src", str(PurePosixPath(file).parent)])
    listed = ", ".join("ROOT" if p == "." else f'ROOT / "{p}"' for p in places)
    head = [f'"""Compilations of {symbol}: {why}."""', "", *imports, ""]
    head += [f"ROOT = Path(__file__).resolve().parents[{up}]", f"PLACES = [str(place) for place in ({listed})]", "", ""]
    if style.is_unittest:
        title = "".join(part.capitalize() for part in symbol.split("_"))
        inner = [f"class {title}Compilations(unittest.TestCase):", f"    def {name}(self):"]
        lines = [*head, *inner, *_indented(body, 2), "", "", 'if __name__ == "__main__":', "    unittest.main()"]
    else:
        lines = [*head, f"def {name}():", *_indented(body, 1)]
    return "\n".join(lines) + "\n"


def _calls(file: str, function: str, setup: str | None, takes_rep: bool, which: str) -> list[str]:
    """The lines that run the workload while compilations are counted."""
    read = [f'names = runpy.run_path(str(ROOT / "{file}"))']
    given, before = "", []
    if setup is not None:
        other, _, maker = setup.rpartition(":")
        if other != file:
            read.append(f'made = runpy.run_path(str(ROOT / "{other}"))')
        before = [f'arguments = {"names" if other == file else "made"}["{maker}"]()']
        given = "*arguments"
    call = 'names["{}"]({})'.format(function, ", ".join(a for a in (given, "rep=0" if takes_rep else "") if a))
    counted = [f"jax.block_until_ready({call})"]
    if which == _LATER:
        counted += ["first = len(compiled)", f"for {'rep' if takes_rep else '_'} in range(1, 4):",
                    *[f"    {line}" for line in before],
                    f"    jax.block_until_ready({call.replace('rep=0', 'rep=rep')})"]  # fmt: skip
    return [
        *read,
        "jax.clear_caches()",
        *before,
        "jax.monitoring.register_event_duration_secs_listener(note)",
        "try:",
        *[f"    {line}" for line in counted],
        "finally:",
        "    jax.monitoring.unregister_event_duration_listener(note)",
    ]


def _indented(lines: Sequence[str], levels: int) -> list[str]:
    return [f"{'    ' * levels}{line}" if line else "" for line in lines]


def check(
    addition: Addition, root: Path, user_root: Path, patched: Mapping[str, bytes], python: Path, is_unittest: bool
) -> None:
    """Run the test on the sources at `root`, without and with the files `patched`, and leave them as they were.

    Raises `NoTest` where it does not fail and then pass.
    """
    file = root / addition.path
    if file.exists() or (user_root / addition.path).exists():
        raise NoTest(f"{addition.path} exists already")
    missing = [p for p in reversed(file.parents) if not p.exists()]
    file.parent.mkdir(parents=True, exist_ok=True)
    kept = {path: (root / path).read_bytes() for path in patched}
    try:
        file.write_text(addition.text, encoding="utf-8")
        before = _run(file, root, user_root, python, is_unittest)
        if before is None:
            raise NoTest("it passes without the patch too")
        for path, content in patched.items():
            (root / path).write_bytes(content)
        after = _run(file, root, user_root, python, is_unittest)
        if after is not None:
            raise NoTest(f"it fails with the patch: {after}")
        if "AssertionError" not in before:
            raise NoTest(f"without the patch it does not get as far as to count: {before}")
    finally:
        for path, content in kept.items():
            (root / path).write_bytes(content)
        file.unlink(missing_ok=True)
        for folder in reversed(missing):
            folder.rmdir()


def _run(file: Path, root: Path, user_root: Path, python: Path, is_unittest: bool) -> str | None:
    """The last line of what a failing test prints; None where it passes."""
    command = [str(python), str(file)] if is_unittest else [str(python), "-c", _DRIVER, str(file)]
    places = os.pathsep.join([str(root), str(root / "src"), os.environ.get("PYTHONPATH", "")])
    environ = {**child_environment(os.environ), "PYTHONPATH": places.rstrip(os.pathsep)}
    try:
        done = subprocess.run(
            command, cwd=user_root, env=environ, capture_output=True, text=True, errors="replace", timeout=_SECONDS
        )
    except subprocess.TimeoutExpired:
        return f"it takes more than {_SECONDS:.0f} s"
    if done.returncode == 0:
        return None
    said = [line for line in done.stderr.splitlines() if line.strip()]
    raised = [line for line in said if line.startswith("AssertionError")]
    return one_line((raised or said or [f"exit status {done.returncode}"])[-1])
