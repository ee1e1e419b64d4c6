"""`jitmod new-codemod` and `jitmod test`: codemods of one's own."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from jitmod.cli.session import UsageError, failing_clearly

_TEMPLATE = '''\
"""{id}: say in one line what it does.

What it does
    `jax.tree_map(f, tree)` becomes `jax.tree.map(f, tree)`. Put your own rewrite in its place.

Why it is slow
    Say why the old code is slow, or that it is not.

When it refuses
    Nothing is refused here. A site that cannot be decided is a `Refusal` with a reason code: jitmod explain --list.

Safety
    Say what may change, if only by rounding.

References
    https://docs.jax.dev/en/latest/
"""

import ast

from jitmod.analysis.jits import analyses
from jitmod.model import Edit, Patch, Variant
from jitmod.rewrite.codemod import Codemod, Leaves, Rewrites


class {name}(Codemod):
    """The codemod; see the module's docstring."""

    id = "{id}"
    summary = "say in one line what it does"
    examples = (
        Rewrites(
            "import jax\\n\\ny = jax.tree_map(abs, [1, -2])\\n",
            "import jax\\n\\ny = jax.tree.map(abs, [1, -2])\\n",
        ),
        Leaves("def tree_map(f, x):\\n    return x\\n\\n\\ny = tree_map(abs, [1, -2])\\n"),
    )

    def find(self, document, project):
        effects, _ = analyses(project)
        module = project.module(document)
        for call in document.of(ast.Call):
            if effects.inference.dotted(call.func, module) == "jax.tree_map":
                start, end = document.span(call.func)
                edit = Edit(start, end, document.text(call.func).replace("tree_map", "tree.map"))
                site = document.site(call, module.scope_of(call).qualname)
                message = "`jax.tree_map` is `jax.tree.map` now"
                # neutral: accepted where results are the same and nothing gets slower; leave it out to ask for a gain
                yield Patch(self.id, site, message, (Variant("text", (edit,)),), neutral=True)
'''


def new_codemod(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Its name, as in `jitmod apply --codemod NAME`.")],
) -> None:
    """Write NAME.py: a codemod that works, with examples, to be changed into one's own."""
    with failing_clearly():
        if re.fullmatch(r"[a-z][a-z0-9]*(?:-[a-z0-9]+)*", name) is None:
            raise UsageError(f"{name!r} is no name for a codemod: small letters and digits, with hyphens between words")
        path = Path(f"{name.replace('-', '_')}.py")
        text = _TEMPLATE.replace("{id}", name).replace("{name}", "".join(part.title() for part in name.split("-")))
        try:
            with path.open("x", encoding="utf-8") as file:
                file.write(text)
        except FileExistsError:
            raise UsageError(f"{path} is there already") from None
        except OSError as error:
            raise UsageError(f"{path} cannot be written: {error.strerror}") from None
        typer.echo(f"{path} is written; try it: jitmod test {path}; jitmod apply --codemod {path} --dry-run .")


def test(
    codemod: Annotated[list[str], typer.Argument(metavar="CODEMOD|FILE", help="Codemods by name, or files with some.")],
) -> None:
    """Run the examples of codemods. Exit code 1 where one does not hold."""
    with failing_clearly():
        from jitmod.rewrite.codemod import select
        from jitmod.rewrite.examples import failures

        failed = False
        for one in select(",".join(codemod)):
            wrong = list(failures(one))
            for number, how in wrong:
                typer.echo(f"{one.id}: example {number} does not hold: {how}")
            count = len(one.examples)
            held = f"{count - len(wrong)} of {count} examples hold" if count else "it has no examples"
            typer.echo(f"{one.id}: {held}")
            failed = failed or bool(wrong)
        if failed:
            raise typer.Exit(1)
