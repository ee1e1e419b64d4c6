"""Programs for the tests of vmapify: a common head, and a way to run the codemod on a text."""

from __future__ import annotations

import textwrap

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
