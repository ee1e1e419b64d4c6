"""Notebooks as programs write them: one program in many files, which differ in all that is not Python."""

from __future__ import annotations

import json
from typing import Any

HEAD = "import jax\nimport jax.numpy as jnp"
STEP = "def step(u):\n    return u + 0.1 * jnp.sin(u)\n\n\nu = jnp.ones(3)"
LOOP = "# the café's rollout\ntraj = [u]\nfor i in range(20):\n    u = step(u)\n    traj.append(u)"
QUIET = "total = 0\nfor i in range(3):\n    total += i"
END = "print(jnp.stack(traj).sum())"

_IMAGE = {"data": {"image/png": "iVBORw0KGgo=" * 40, "text/plain": ["<Figure size 640x480 with 1 Axes>"]},
          "metadata": {"needs_background": "light"}, "output_type": "display_data"}  # fmt: skip
_STREAM = {"name": "stdout", "output_type": "stream", "text": ["59.4\n", "for i in range(20):\n"]}
_WIDGETS = {"application/vnd.jupyter.widget-state+json": {"state": {"0a": {"model_name": "FloatProgressModel"}},
                                                          "version_major": 2, "version_minor": 0}}  # fmt: skip


def cell(source: str, number: int = 0, *, kind: str = "code", as_list: bool = True, **extra: Any) -> dict[str, Any]:
    """A cell; with a number it has an id, as format 4.5 asks for."""
    made: dict[str, Any] = {"cell_type": kind}
    if kind == "code":
        made |= {"execution_count": None}
    if number:
        made["id"] = f"cell-{number}"
    made["metadata"] = {}
    if kind == "code":
        made["outputs"] = []
    return {**made, **extra, "source": source.splitlines(keepends=True) if as_list else source}


def text(cells: list[dict[str, Any]], *, minor: int = 5, metadata: dict[str, Any] | None = None, **layout: Any) -> str:
    """The file, as Jupyter writes it unless `layout` has it otherwise."""
    kernel = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    document = {"cells": cells, "metadata": {**kernel, **(metadata or {})}, "nbformat": 4, "nbformat_minor": minor}
    return json.dumps(document, **{"indent": 1, "ensure_ascii": False, **layout}) + "\n"


def _program(loop: str, *, as_list: bool = True, ids: bool = True) -> list[dict[str, Any]]:
    parts = [cell("# A *notebook*\n\nfor i in range(20):", 1 if ids else 0, kind="markdown", as_list=as_list)]
    return parts + [cell(source, number if ids else 0, as_list=as_list)
                    for number, source in enumerate((HEAD, STEP, loop, END), 2)]  # fmt: skip


def _between(cells: list[dict[str, Any]], *others: dict[str, Any]) -> list[dict[str, Any]]:
    return [*cells[:3], *others, *cells[3:]]


def _with_outputs(cells: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [*cells[:-1], {**cells[-1], "execution_count": 7, "outputs": [_IMAGE, _STREAM]}]


def ten(loop: str) -> dict[str, bytes]:
    """The notebooks by what is special about each; `loop` is the cell with the loop."""
    plain = _program(loop)
    magics = _between(
        plain,
        cell("%matplotlib inline\n!pip install jax \\\n    optax\nfiles = !ls\nstep?", 11),
        cell("%%bash\nfor i in 1 2; do echo $i; done", 12),
        cell("%%timeit -n 3\nfor i in range(20):\n    u = step(u)", 13),
        cell("text = '''\n%not a magic\n'''\n%time v = step(u)", 14),
    )
    timed = [{**c, "source": ["%%time\n", *c["source"]]} if c["source"][0].startswith(("# the", "total")) else c
             for c in plain]  # fmt: skip
    odd = _between(plain, cell("", 11), cell("raw", 12, kind="raw"), cell("%%html\n<b>", 13), cell("# nothing", 14))
    pieces = [{**c, "source": ["".join(c["source"][:2]), *c["source"][2:]]} for c in plain]
    escaped = text(plain, ensure_ascii=True).replace("/", "\\/")
    inner = [{**c, "source": [line.replace("\n", "\r\n") for line in c["source"]]} for c in plain]
    return {
        "format 4.5 with ids": text(plain).encode(),
        "format 4.2 without ids, sources as strings": text(
            _program(loop, as_list=False, ids=False), minor=2, sort_keys=True).encode(),
        "magics, shell lines and cells of other languages": text(magics).encode(),
        "a timed cell": text(timed).encode(),
        "outputs and widgets": text(_with_outputs(plain), metadata={"widgets": _WIDGETS}).encode(),
        "escapes": escaped.encode(),
        "line ends of Windows and a mark": b"\xef\xbb\xbf" + text(plain, indent=2).replace("\n", "\r\n").encode(),
        "one line, no end": text(plain, indent=None, separators=(",", ":")).rstrip("\n").encode(),
        "one line with spaces": text(plain, indent=None).encode(),
        "empty, raw and foreign cells": text(odd, indent=4).encode(),
        "lists that are no lines": text(pieces).encode(),
        "line ends of Windows in the sources": text(inner).encode(),
    }  # fmt: skip
