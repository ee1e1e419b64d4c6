"""Kinds of values: through imports, annotations, constructors, fields, call sites and flow."""

from __future__ import annotations

import ast

import pytest

from jitmod.analysis.infer import Inference
from jitmod.analysis.values import (
    UNKNOWN,
    Array,
    Constant,
    Device,
    Instance,
    Kind,
    Mapping,
    NdArray,
    Number,
    Range,
    Record,
    Routine,
    Sequence,
    Transformed,
)
from jitmod.source.document import Document
from jitmod.source.project import Class, Project

HEAD = """
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from typing import Callable
from jaxtyping import Array as A, Float


class Net(eqx.Module):
    lin: eqx.nn.Linear
    act: Callable
    layers: list

    def __init__(self, key, act=jax.nn.relu):
        self.lin = eqx.nn.Linear(3, 3, key=key)
        self.act = act
        self.layers = [eqx.nn.Linear(3, 3, key=k) for k in jax.random.split(key, 4)]

    def __call__(self, x):
        return self.act(self.lin(x))


class Runner:
    def __init__(self, net: Net):
        self.net = net


def step(w, x):
    return jnp.dot(w, x)


fast = jax.jit(step)
NET = Net(jax.random.key(0))
XS = jnp.zeros((5, 3))
"""

CASES = {
    "jnp.stack([XS[0]])": Array(1),
    "XS[0]": Array(),
    "XS.sum()": Array(),
    "XS.shape": Sequence(Number("int")),
    "NET(XS[0])": Array(),
    "fast(XS, XS)": Array(),
    "NET.layers[0](XS)": Array(),
    "np.asarray(XS)": NdArray(),
    "jax.random.split(jax.random.key(0), 7)": Array(7, is_key=True),
    "[1.0, 'a']": Record((Number("float"), Constant()), is_tuple=False),
    "{'a': XS}": Mapping(Array("=5")),
    "range(4)": Range(4),
    "jnp.nonzero(XS)": Device(),
    "XS > 0": Array(),
    "XS + np.ones(3)": Array(),
    "np.ones(3) / 2": NdArray(),
    "1 / 2": Number("float"),
    "undefined(XS)": UNKNOWN,
    "[jnp.ones(3) * i for i in range(4)]": Sequence(Array(), 4, uniform=True),
    "[jnp.ones(i) for i in range(4)]": Sequence(Array(), 4),
}


def kind_of(text: str, name: str = "result") -> Kind:
    """The kind of the last module-level binding of `name`."""
    document = Document.parse("main.py", text.encode())
    project = Project.of({"main.py": document})
    module = project.by_path["main.py"]
    assignment = [s for s in document.tree.body if isinstance(s, ast.Assign)][-1]
    assert isinstance(assignment.targets[0], ast.Name) and assignment.targets[0].id == name
    return Inference(project).kind(assignment.value, module)


@pytest.mark.parametrize(("expression", "expected"), CASES.items(), ids=CASES)
def test_expression(expression: str, expected: Kind) -> None:
    assert kind_of(f"{HEAD}\nresult = {expression}\n") == expected


@pytest.mark.parametrize(
    ("body", "is_net"),
    [
        ("def f(m: Net):\n    return m\nresult = f(1)\n", True),
        ("def f(m: 'Net'):\n    return m\nresult = f(1)\n", True),
        ("def f(m):\n    return m\nresult = f(NET)\n", True),
        ("def f(m):\n    return g(m)\ndef g(m):\n    return m\nf(NET)\nresult = f(NET)\n", True),
        ("def f(r: Runner):\n    return r.net\nresult = f(1)\n", True),
        ("def f(m):\n    m = eqx.nn.inference_mode(m)\n    return m\nresult = f(NET)\n", True),
        ("def f(m):\n    return m\nf(3)\nresult = f(NET)\n", True),
        ("def f(m):\n    return m\nf(NET)\nresult = f(3)\n", False),
        ("def f(m):\n    m = [m]\n    return m\nresult = f(NET)\n", False),
    ],
)
def test_modules_are_found_through(body: str, is_net: bool) -> None:
    kind = kind_of(f"{HEAD}\n{body}")
    found = isinstance(kind, Instance) and isinstance(kind.cls, Class) and kind.cls.node.name == "Net"
    assert found == is_net


def test_transforms_keep_what_they_transform() -> None:
    kind = kind_of(f"{HEAD}\nresult = eqx.filter_jit(jax.vmap(NET))\n")
    assert isinstance(kind, Transformed) and kind.transform == "equinox.filter_jit"
    assert isinstance(kind.base, Transformed) and isinstance(kind.base.base, Instance)


def test_a_field_may_hold_a_function() -> None:
    assert kind_of(f"{HEAD}\nresult = NET.act\n") == Routine("jax.nn.relu")


def test_a_list_that_changes_forgets_its_length() -> None:
    body = "xs = [jnp.ones(3) for _ in range(4)]\nxs.append(jnp.zeros(3))\nresult = xs\n"
    assert kind_of(f"{HEAD}\n{body}") == Sequence(Array(3))


def test_a_name_that_a_package_imports_from_itself_is_unknown() -> None:
    texts = {
        "p/__init__.py": "from p.a import *\n",
        "p/a.py": "try:\n    from p import f\nexcept ImportError:\n    f = None\n",
        "p/b.py": "from p.a import f\n\nresult = f(1)\n",
    }
    project = Project.of({path: Document.parse(path, text.encode()) for path, text in texts.items()})
    module = project.by_path["p/b.py"]
    (assignment,) = module.document.of(ast.Assign)
    assert Inference(project).kind(assignment.value, module) == UNKNOWN


def test_what_all_of_a_library_hangs_on_ends_as_unknown() -> None:
    """Every function calls every other: one question leads to all, again and again."""
    names = [f"f{number}" for number in range(40)]
    body = "\n".join(f"def {name}(x):\n    return {' + '.join(f'{other}(x)' for other in names)}\n" for name in names)
    assert kind_of(f"{body}\nresult = f0(object())\n") == UNKNOWN
