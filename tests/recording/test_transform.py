"""Code with probes means what it meant: with a recorder, and without one."""

from __future__ import annotations

import ast
import builtins
import traceback
from textwrap import dedent
from typing import Any

import pytest

from jitmod.trial.child.record_transform import NAMES, Wanted, functions, instrumented

TEXT = dedent('''\
    from __future__ import annotations

    def every(xs, /, scale=2, *rest, flag=False, **named):
        """A docstring."""
        global LAST
        out = []
        for x in xs:
            if x == 2: continue
            if x == 5: break
            out.append(x * scale)
        else:
            out.append("else")
        while out and out[-1] == 99:
            out.pop()
        LAST = out
        return out, [y for y in rest], {k: v for k, v in named.items()}, {z for z in xs}, sum(x for x in xs)

    class Box:
        """Kept."""
        __private = [1]

        def get(self):
            return [item for item in self.__private for _ in range(2) if item]

        async def later(self): return [1 for _ in ()]

    def fails(xs):
        for x in xs:
            try:
                return 1 / x
            finally:
                done.append(x)

    def numbers(xs):
        for x in xs: yield x

    def empty():
        """Nothing but this."""

    done = []
    walrus = [last := n for n in range(3)]
    nested = [[(lambda: i + j)() for i in range(2)] for j in range(2)]
    ''')


def _run(tree: ast.Module) -> dict[str, Any]:
    names: dict[str, Any] = {"__name__": "text"}
    exec(compile(tree, "text.py", "exec", dont_inherit=True), names)
    found: dict[str, Any] = {
        "every": names["every"]([1, 2, 3, 99], 3, 7, flag=True, a=1), "break": names["every"]([5]),
        "box": names["Box"]().get(), "numbers": list(names["numbers"]([1, 2])), "empty": names["empty"](),
        "texts": [names["every"].__doc__, names["Box"].__doc__, names["empty"].__doc__],
        "kept": [names[k] for k in ("LAST", "walrus", "last", "nested")],
    }  # fmt: skip
    try:
        names["fails"]([0])
    except ZeroDivisionError as error:
        found["lines"] = [frame.lineno for frame in traceback.extract_tb(error.__traceback__)][1:]
    found["done"] = names["done"]
    found["names"] = sorted(names)
    return found


def _everything() -> ast.Module:
    tree = ast.parse(TEXT)
    kinds = ast.For | ast.While | ast.ListComp | ast.DictComp | ast.SetComp
    loops = [n for n in ast.walk(tree) if isinstance(n, kinds)]
    wanted = Wanted(
        {(name, node.lineno): i for i, (node, name) in enumerate(functions(tree))},
        {(n.lineno, n.col_offset + 1): i for i, n in enumerate(loops)},
        {(n.lineno, n.col_offset): i for i, n in enumerate(loops)},
    )
    return instrumented(tree, TEXT.encode(), wanted)


def test_without_a_recorder() -> None:
    assert not any(hasattr(builtins, name) for name in NAMES)
    assert _run(_everything()) == _run(ast.parse(TEXT))


def test_with_a_recorder_every_probe_fires(monkeypatch: pytest.MonkeyPatch) -> None:
    fired: dict[str, list[Any]] = {name: [] for name in NAMES}
    for name in NAMES:
        monkeypatch.setattr(builtins, name, lambda *a, n=name: fired[n].append(a), raising=False)
    assert _run(_everything()) == _run(ast.parse(TEXT))
    enter, _, _, start, stop = (fired[name] for name in NAMES)
    assert all(fired.values()) and len(start) == len(stop), "every site that is entered is left"
    assert ([1, 2, 3, 99], 3, (7,), True, {"a": 1}) in [values for _, values in enter]
