"""Seconds of `jitmod check`, cold and warm, beside ruff and a codemod of libcst that does nothing, on the same files.

python benchmarks/engine.py [FOLDER ...] [--rounds N] [--generated N]

FOLDER holds Python packages; without one, those installed beside jitmod that use JAX are taken. They are copied to a
scratch folder, and the programs run by turns, so that a busy machine is as bad for one as for the other. A second tree
has N generated files (10,000), of which one in a hundred uses JAX, in packages that import each other.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from sysconfig import get_path

BIN = Path(sys.executable).parent
_INSTALLED = ("equinox", "optax", "flax", "diffrax", "lineax", "optimistix", "haiku", "chex", "distrax", "jax")
_LINES = 210_000  # no more packages are taken when there are as many

_NOTHING = """\
from libcst.codemod import VisitorBasedCodemodCommand


class NothingCommand(VisitorBasedCodemodCommand):
    DESCRIPTION = "Changes nothing."
"""


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("folders", nargs="*", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--generated", type=int, default=10_000)
    chosen = parser.parse_args()
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # every program is compiled once, as where it is installed
    with tempfile.TemporaryDirectory(prefix="jitmod-engine-") as scratch:
        os.environ["XDG_CACHE_HOME"] = f"{scratch}/cache"
        real = _copied(chosen.folders or _installed(), Path(scratch) / "real")
        _report("public JAX code", real, _with_libcst(real, Path(scratch)), chosen.rounds)
        tree = Path(scratch) / "generated"
        generate(tree, chosen.generated)
        _report("one file in a hundred uses JAX", tree, _programs(tree, Path(scratch)), chosen.rounds)
        _one("jitmod --help", [[str(BIN / "jitmod"), "--help"]], scratch, 10)
        _one("jitmod --version", [[str(BIN / "jitmod"), "--version"]], scratch, 10)
    return 0


def _installed() -> list[Path]:
    found, lines = [], 0
    for name in _INSTALLED:
        folder = Path(get_path("purelib")) / name
        if folder.is_dir() and lines < _LINES:
            found.append(folder)
            lines += sum(path.read_bytes().count(b"\n") for path in folder.rglob("*.py"))
    return found


def _copied(folders: Iterable[Path], to: Path) -> Path:
    for folder in folders:
        for path in folder.rglob("*.py"):
            target = to / folder.name / path.relative_to(folder)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)
    return to


def generate(root: Path, count: int, seed: int = 0) -> None:
    """`count` files in packages of fifty; one in a hundred uses JAX, in one package of forty."""
    draw = random.Random(seed)
    for number in range(count):
        package = root / f"area{number // 500}" / f"pkg{number // 50}"
        if not package.exists():
            package.mkdir(parents=True)
            (package / "__init__.py").write_text("")
            (package.parent / "__init__.py").write_text("")
        uses_jax = number // 50 % 40 == 0 and number % 50 < 20
        (package / f"m{number % 50}.py").write_text(_jax_file(draw) if uses_jax else _plain_file(draw, number % 50))


def _plain_file(draw: random.Random, number: int) -> str:
    others = sorted({draw.randrange(number) for _ in range(2)}) if number else []
    text = "import os\nimport json\n" + "".join(f"from .m{other} import step_{draw.randrange(6)}\n" for other in others)
    for index in range(6):
        name = draw.choice(["rows", "items", "values", "records"])
        text += f"\n\ndef step_{index}({name}, update=None):\n    found = []\n    for x in {name}:\n"
        text += "        if update is not None:\n            x = update(x)\n"
        text += f"        found.append(f'{{x}} {draw.random()}')\n"
        text += "    return os.sep.join(found) if found else json.dumps([])\n"
    return text


def _jax_file(draw: random.Random) -> str:
    text = "import equinox as eqx\nimport jax\nimport jax.numpy as jnp\n"
    text += f"\n\nclass Net(eqx.Module):\n    layer: eqx.nn.Linear\n    width: int = {draw.randrange(64)}\n"
    text += "\n    def __call__(self, x):\n        return jax.nn.relu(self.layer(x))\n"
    for index in range(4):
        text += f"\n\n@jax.jit\ndef loss_{index}(x: jax.Array, y: jax.Array):\n"
        text += f"    weight = jnp.exp(-x * {draw.random()})\n    return jnp.mean(weight * (x - y) ** 2)\n"
    for index in range(2):
        text += f"\n\ndef predict_{index}(net: Net, crops: jax.Array):\n"
        text += f"    return [net(crop) * {draw.random()} for crop in crops]\n"
    return text


def _programs(tree: Path, scratch: Path) -> dict[str, Callable[[], float]]:
    ruff = [str(BIN / "ruff"), "check", "--isolated", "--no-cache", "-q", str(tree)]
    check = [str(BIN / "jitmod"), "check", str(tree), "--format", "json"]

    def cold() -> float:
        shutil.rmtree(scratch / "cache", ignore_errors=True)
        return _seconds(check, scratch)

    return {
        "ruff check": lambda: _seconds(ruff, scratch),
        "jitmod check, cold": cold,
        "jitmod check, warm": lambda: _seconds(check, scratch),
    }


def _with_libcst(tree: Path, scratch: Path) -> dict[str, Callable[[], float]]:
    where = scratch / "libcst"
    where.mkdir()
    (where / "nothing.py").write_text(_NOTHING)
    tool = [sys.executable, "-m", "libcst.tool", "codemod", "-x", "nothing.NothingCommand", str(tree)]
    return {"libcst, a codemod that does nothing": lambda: _seconds(tool, where), **_programs(tree, scratch)}


def _seconds(command: Sequence[str], folder: Path | str) -> float:
    begun = time.perf_counter()
    paths = os.environ | {"PYTHONPATH": str(folder)}
    done = subprocess.run(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=paths)
    if done.returncode not in (0, 1):
        print(f"{command[:3]}: exit status {done.returncode}: {done.stderr.decode()[-300:]}")
    return time.perf_counter() - begun


def _report(title: str, tree: Path, programs: dict[str, Callable[[], float]], rounds: int) -> None:
    files = list(tree.rglob("*.py"))
    lines = sum(path.read_bytes().count(b"\n") for path in files)
    machine = f"{len(os.sched_getaffinity(0))} processors, load {os.getloadavg()[0]:.1f}"
    print(f"{title}: {len(files)} files, {lines} lines; {machine}")
    taken: dict[str, list[float]] = {name: [] for name in programs}
    for _ in range(rounds):
        for name, run in programs.items():
            taken[name].append(run())
    first = min(next(iter(taken.values())))
    for name, seconds in taken.items():
        least = min(seconds)
        median = statistics.median(seconds)
        print(f"  {name:<38} {least:8.2f} s (median {median:.2f}), the first is {first / least:.2f}x", flush=True)


def _one(title: str, commands: Sequence[Sequence[str]], folder: str, rounds: int) -> None:
    seconds = [_seconds(command, folder) for _ in range(rounds) for command in commands]
    print(f"{title}: {min(seconds):.2f} s (median {statistics.median(seconds):.2f})")


if __name__ == "__main__":
    sys.exit(main())
