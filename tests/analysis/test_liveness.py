"""Liveness: examples, and agreement with an independent implementation on generated functions."""

from __future__ import annotations

import ast
import random
import textwrap

import pytest
from malt.pyct import anno, cfg, naming, parser, qual_names, transformer
from malt.pyct.static_analysis import activity, liveness, reaching_fndefs

from jitmod.analysis.liveness import live_after

NAMES = "abcdef"
# malt takes a loop's target for bound even where there are no items, and its iterable for evaluated in every round; so
# here targets and iterables are names of their own, on which both agree
TARGETS = "xyz"


def first_loop(function: ast.FunctionDef) -> ast.stmt:
    return next(n for n in ast.walk(function) if isinstance(n, ast.For | ast.While))


def live(body: str) -> set[str]:
    (function,) = ast.parse("def f(xs, k):\n" + textwrap.indent(textwrap.dedent(body), "    ")).body
    assert isinstance(function, ast.FunctionDef)
    return set(live_after(first_loop(function), function)) - {"xs", "k", "print"}


@pytest.mark.parametrize(("body", "expected"), [
    ("for x in xs:\n    y = x\nreturn y", {"y"}),
    ("for x in xs:\n    y = x\ny = 1\nreturn y", set()),
    ("for x in xs:\n    y = x\nif k:\n    y = 1\nreturn y", {"y"}),
    ("for x in xs:\n    y = x\nreturn [y for y in xs]", set()),
    ("for x in xs:\n    y = x\nreturn [v for v in y]", {"y"}),
    ("for x in xs:\n    y = x\ndel y", {"y"}),
    ("for x in xs:\n    y = x\ndef g():\n    return y\nreturn g", {"y"}),
    ("for x in xs:\n    y = x\ntry:\n    y = k()\nexcept ValueError:\n    print(y)", {"y", "ValueError"}),
    ("for x in xs:\n    y = x\nwith k() as y:\n    print(y)", set()),
    ("global y\nfor x in xs:\n    y = x", {"y"}),
    ("for x in xs:\n    y = x\nmatch k:\n    case [y]:\n        print(y)", set()),
    ("for x in xs:\n    y = x\ny += 1", {"y"}),
    ("for x in xs:\n    y = x\nif (y := k()):\n    print(y)", set()),
    ("for x in xs:\n    y = x\nif k and (y := k()):\n    pass\nprint(y)", {"y"}),
])  # fmt: skip
def test_examples(body: str, expected: set[str]) -> None:
    assert live(body) == expected


def test_the_next_round_of_an_outer_loop_reads() -> None:
    outer = "    t = 0\n    while xs:\n        for x in xs:\n            y = t\n            t = x\n        z = y\n"
    (function,) = ast.parse("def f(xs):\n" + outer).body
    assert isinstance(function, ast.FunctionDef)
    inner = next(n for n in ast.walk(function) if isinstance(n, ast.For))
    assert live_after(inner, function) == {"xs", "t", "y"}


# -- against malt ------------------------------------------------------------------------------------------------------


def block(rng: random.Random, depth: int, loop: bool) -> list[str]:
    lines: list[str] = []
    for _ in range(rng.randint(1, 3)):
        lines += statement(rng, depth, loop)
    return lines


def statement(rng: random.Random, depth: int, loop: bool) -> list[str]:
    a, b, c = rng.choices(NAMES, k=3)
    simple = [f"{a} = {b} + {c}", f"{a} += {b}", f"{a}, {b} = {c}, {a}", f"print({a})", f"{a}[{b}] = {c}",
              f"{a} = [v + {b} for v in {c}]", f"{a} = {b}({c})", f"{a} = {b} if {c} else {a}"]  # fmt: skip
    if loop:
        simple += ["break", "continue"]
    if depth > 2 or rng.random() < 0.5:
        return [rng.choice([*simple, "return " + a]) if rng.random() < 0.15 else rng.choice(simple)]
    inner = [f"    {line}" for line in block(rng, depth + 1, loop)]
    match rng.choice(["for", "for", "while", "if", "else"]):
        case "for":
            return [f"for {rng.choice(TARGETS)} in xs:", *(f"    {line}" for line in block(rng, depth + 1, True))]
        case "while":
            return [f"while {a}:", *(f"    {line}" for line in block(rng, depth + 1, True))]
        case "if":
            return [f"if {a}:", *inner]
    return [f"if {a}:", *inner, "else:", *(f"    {line}" for line in block(rng, depth + 1, loop))]


def by_malt(source: str) -> dict[int, set[str]]:
    """What is live after every loop, by its line."""
    tree = parser.parse(source)
    info = transformer.EntityInfo(name="f", source_code=source, source_file=None, future_features=(), namespace={})
    context = transformer.Context(info, naming.Namer({}), None)
    tree = activity.resolve(qual_names.resolve(tree), context, None)
    graphs = cfg.build(tree)
    tree = liveness.resolve(reaching_fndefs.resolve(tree, context, graphs), context, graphs)
    found: dict[int, set[str]] = {}
    todo = [tree]
    while todo:
        node = todo.pop()
        if type(node).__name__ in ("For", "While") and anno.hasanno(node, anno.Static.LIVE_VARS_OUT):
            names = anno.getanno(node, anno.Static.LIVE_VARS_OUT)
            found[node.lineno] = {str(name) for name in names if name.is_simple()}
        todo += [child for name in node._fields for child in _children(getattr(node, name, None))]
    return found


def _children(value: object) -> list[object]:
    values = value if isinstance(value, list) else [value]
    return [v for v in values if hasattr(v, "_fields")]


@pytest.mark.parametrize("seed", range(200))
def test_agrees_with_malt(seed: int) -> None:
    rng = random.Random(seed)
    lines = [*block(rng, 0, False), "for x in xs:",
             *(f"    {line}" for line in block(rng, 1, True)), *block(rng, 0, False), "return a, b"]  # fmt: skip
    source = f"def f({', '.join(NAMES)}, xs):\n" + textwrap.indent("\n".join(lines), "    ") + "\n"
    (function,) = ast.parse(source).body
    assert isinstance(function, ast.FunctionDef)
    theirs = by_malt(source)
    loops = {n.lineno: n for n in ast.walk(function) if isinstance(n, ast.For | ast.While)}
    for line, names in theirs.items():
        ours = set(live_after(loops[line], function)) - {"print", "xs"}
        assert ours == names - {"print", "xs"}, f"line {line}\n{source}"
