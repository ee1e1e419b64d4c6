"""move-jax-imports: modules that jax has moved are imported from where they are now.

What it does
    Renames `jax.experimental.stax`, `jax.experimental.optimizers`, `jax.experimental.export` and `jax.linear_util` to
    `jax.example_libraries.stax`, `jax.example_libraries.optimizers`, `jax.export` and `jax.extend.linear_util`, in
    `import` and `from` statements and where they are written out. It is a Bowler script: it shows how such scripts run
    inside of jitmod, with a diff, a trial and a commit.

Why it is slow
    It is not: this is an update. Its patches are accepted where results are the same and nothing gets slower. With a
    version of jax that has none of the old names the program does not run before the patch, so that nothing can be
    tried: use `--dry-run` and `git apply`.

When it refuses
    Where Bowler cannot read the file: its grammar ends before `match`, positional-only parameters, and newer syntax.
    Imports of several names of which some stay are left alone.

Safety
    Names are changed in code only, not in texts and comments. What moved has the same content at its new place.

References
    https://docs.jax.dev/en/latest/changelog.html
    https://pybowler.io/docs/api-query
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from typing import Any, ClassVar

from jitmod.rewrite.codemod import Example, Leaves, Refuses, Rewrites
from jitmod.rewrite.foreign import Queries

_MOVED = {
    "jax.experimental.export": "jax.export",
    "jax.experimental.optimizers": "jax.example_libraries.optimizers",
    "jax.experimental.stax": "jax.example_libraries.stax",
    "jax.linear_util": "jax.extend.linear_util",
}
_FROM = "import_from< 'from' package=any 'import' any* >"


class MoveJaxImports(Queries):
    """The codemod; see the module's docstring."""

    id = "move-jax-imports"
    summary = "modules that jax has moved are imported from where they are now"
    examples: ClassVar[Sequence[Example]] = (
        Rewrites(
            """\
import jax
from jax.experimental import stax
from jax.experimental.optimizers import adam  # since 0.1
import jax.linear_util as lu

init, update, params = adam(1e-3)
layer = stax.Dense(3)
""",
            """\
import jax
from jax.example_libraries import stax
from jax.example_libraries.optimizers import adam  # since 0.1
import jax.extend.linear_util as lu

init, update, params = adam(1e-3)
layer = stax.Dense(3)
""",
        ),
        Leaves("from jax.experimental import stax, pjit\nfrom jax import jit\n\nname = 'jax.experimental.stax'\n"),
        Refuses(
            "from jax.experimental import stax\n\n\ndef f(x, /):\n    return stax.Dense(x)\n", "bowler-cannot-parse"
        ),
    )

    @classmethod
    def missing(cls) -> str | None:
        return None if importlib.util.find_spec("bowler") else "Bowler: pip install 'jitmod[bowler]'"

    @property
    def queries(self) -> Sequence[Any]:  # type: ignore[override]
        from bowler import Query

        renamed = [Query().select_module(old).rename(new) for old, new in _MOVED.items()]
        return [*renamed, Query().select_pattern(_FROM).modify(_repackage)]

    def transform(self, text: str, path: str) -> str:
        words = {old.rpartition(".")[2] for old in _MOVED}
        return super().transform(text, path) if "jax" in text and any(word in text for word in words) else text


def _repackage(node: Any, capture: dict[str, Any], filename: str) -> None:
    """`from jax.experimental import stax`: another package, where all that is imported has moved to one."""
    package = capture["package"]
    listed = str(node).partition(" import ")[2].partition("#")[0].replace("(", " ").replace(")", " ")
    names = [entry.split()[0] for entry in listed.split(",") if entry.split()]
    homes = {_MOVED.get(f"{str(package).strip()}.{name}", ".").rpartition(".")[0] for name in names}
    kept = all(_MOVED.get(f"{str(package).strip()}.{name}", "").endswith(f".{name}") for name in names)
    if len(homes) == 1 and kept and "" not in homes:
        from fissix.pytree import Leaf

        package.replace(Leaf(1, homes.pop(), prefix=package.prefix))
