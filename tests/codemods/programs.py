"""Programs for the tests of vmapify: a common head, and a way to run the codemod on a text."""

from __future__ import annotations

import contextlib
import io
import textwrap
from typing import Any

import jax
import numpy as np
from jitmod.codemods.vmapify import Vmapify

from jitmod.model import Finding, Patch, Refusal
from jitmod.rewrite.codemod import scan
from jitmod.rewrite.edits import compose
from jitmod.source.document import Document
from jitmod.source.project import Project

HEAD = '''\
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np


class Net(eqx.Module):
    layer: eqx.nn.Linear

    def __call__(self, x):
        return jax.nn.relu(self.layer(x))


'''
DATA = """
NET = Net(eqx.nn.Linear(3, 3, key=jax.random.key(0)))
XS = jax.random.normal(jax.random.key(1), (5, 3))
YS = jax.random.normal(jax.random.key(2), (5, 3))
ITEMS = list(XS)
NAMES = ["a", "b", "c"]
"""


def program(body: str) -> str:
    return HEAD + textwrap.dedent(body).lstrip("\n")


def project_of(files: dict[str, str]) -> Project:
    return Project.of({path: Document.parse(path, text.encode()) for path, text in files.items()})


def findings(text: str, **others: str) -> tuple[Finding, ...]:
    """What vmapify finds in `text`, the file main.py of a project with `others` (module name → text)."""
    files = {"main.py": text} | {f"{name}.py": other for name, other in others.items()}
    return scan([Vmapify()], project_of(files), ["main.py"]).findings


def rewritten(text: str) -> str:
    """The text after every patch, one after the other."""
    for _ in range(10):
        document = Document.parse("main.py", text.encode())
        patches = [f for f in scan([Vmapify()], Project.of({"main.py": document}), ["main.py"]).findings
                   if isinstance(f, Patch)]  # fmt: skip
        if not patches:
            return text
        text = compose(document, patches[0].variants[0].realise({})).decode()
    raise AssertionError("the rewrite never comes to an end")


def reasons(text: str, **others: str) -> list[str]:
    """The reason codes of the refusals, in order; a patch is "patch"."""
    return [f.reason if isinstance(f, Refusal) else "patch" for f in findings(text, **others)]


def messages(text: str) -> list[str]:
    """The sentences of the refusals, in order."""
    return [f.message for f in findings(text) if isinstance(f, Refusal)]


def run(text: str) -> tuple[Any, str]:
    """The results of two calls of `workload()`, and what they print."""
    space: dict[str, Any] = {}
    exec(compile(text, "main.py", "exec"), space)
    sink = io.StringIO()
    with contextlib.redirect_stdout(sink):
        results = [space["workload"](), space["workload"]()]
    return results, sink.getvalue()


def assert_same(a: Any, b: Any) -> None:
    leaves, tree = jax.tree.flatten(a)
    others, other_tree = jax.tree.flatten(b)
    assert tree == other_tree
    for x, y in zip(leaves, others, strict=True):
        assert type(x) is type(y)
        if isinstance(x, str):
            assert x == y
        else:
            assert getattr(x, "dtype", None) == getattr(y, "dtype", None)
            np.testing.assert_allclose(np.asarray(x), np.asarray(y), rtol=1e-5, atol=1e-6)
