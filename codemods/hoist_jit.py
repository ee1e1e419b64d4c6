"""hoist-jit: a compiled function that is made anew on every call is made once, at the module level.

What it does
    Finds `jax.jit(...)` and `eqx.filter_jit(...)` of lambdas, partials, nested functions, `vmap(...)`, `grad(...)`
    inside functions and loops, eager `lax.scan` and `lax.map` over a local body, and factories of compiled steps that
    are called again and again. The definition moves to the module level; what it read from the function around it
    becomes an argument, static where Python needs the value. Optimisers built from constants move along.

Why it is slow
    The cache of a jit belongs to the function object. A new lambda, partial or nested function is a new object, so
    every call traces and compiles again: some thousand times the cost of a cached call.

When it refuses
    When the form hits the cache already (an `lru_cache`d factory, `self._step = jit(...)` in `__init__`, `jit` of one
    and the same function), when a name that is read is rebound later, when the function is handed on together with
    local values, when it has effects at trace time, and when it cannot be told what a captured value is.

Safety
    A captured array becomes a traced argument, a captured number one only where it meets device values alone; all other
    values stay static. Results may differ by rounding, as a constant is folded where an argument is not.

References
    https://docs.jax.dev/en/latest/jit-compilation.html
    https://docs.kidger.site/equinox/api/transformations/
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

from jitmod.analysis.boundaries import Creation, creations_in, makes_boundary, runs_once
from jitmod.analysis.closures import late_closures
from jitmod.analysis.effects import Effects
from jitmod.analysis.factories import FactoryCall, factory_calls
from jitmod.analysis.jits import Contexts, analyses
from jitmod.analysis.loops import Unplannable
from jitmod.model import Edit, Finding, Patch, Refusal, Site, Variant
from jitmod.rewrite.codemod import Codemod, Example, Leaves, Refuses, Rewrites
from jitmod.rewrite.edits import compose
from jitmod.rewrite.factory import factory_edits
from jitmod.rewrite.hoisted import Hoisting
from jitmod.rewrite.imports import NameTaken
from jitmod.rewrite.names import Namer
from jitmod.rewrite.refused import REFUSING, refused
from jitmod.source.document import Document
from jitmod.source.nodes import walk
from jitmod.source.project import Project

_HEAD = "import jax\nimport jax.numpy as jnp\n\n\n"


class HoistJit(Codemod):
    """The codemod; see the module's docstring."""

    id = "hoist-jit"
    summary = "a compiled function that is made on every call is made once, at the module level"
    rounds = False
    examples: ClassVar[Sequence[Example]] = (
        Rewrites(
            _HEAD
            + """\
def smooth(signal: jax.Array, widths: list[jax.Array]):
    outs = []
    for width in widths:
        f = jax.jit(lambda x: jnp.tanh(x) / width)
        outs.append(f(signal))  # compiles every time
    return outs
""",
            _HEAD
            + """\
@jax.jit
def _smooth_f(x, width):
    return jnp.tanh(x) / width


def smooth(signal: jax.Array, widths: list[jax.Array]):
    outs = []
    for width in widths:
        outs.append(_smooth_f(signal, width))  # compiles every time
    return outs
""",
        ),
        Rewrites(
            _HEAD
            + """\
class Agent:
    def __init__(self, gain: jax.Array, power: int):
        self.gain = gain
        self.power = power

    def act(self, obs: jax.Array):
        # the policy
        @jax.jit
        def policy(obs):
            return jnp.tanh(obs * self.gain) ** self.power

        return policy(obs)
""",
            "import functools\n\n" + _HEAD
            + """\
# the policy
@functools.partial(jax.jit, static_argnames=("power",))
def _act_policy(obs, gain, power):
    return jnp.tanh(obs * gain) ** power


class Agent:
    def __init__(self, gain: jax.Array, power: int):
        self.gain = gain
        self.power = power

    def act(self, obs: jax.Array):
        return _act_policy(obs, self.gain, self.power)
""",
        ),
        Leaves(_HEAD + "@jax.jit\ndef f(x):\n    return x + 1\n\n\ndef g(x):\n    return f(x)\n"),
        Refuses(
            _HEAD
            + """\
def steps(rates: list[jax.Array]):
    made = []
    for rate in rates:
        made.append(jax.jit(lambda x: x * rate))
    return made
""",
            "late-binding",
        ),
        Refuses(
            _HEAD
            + """\
class Codec:
    def __init__(self):
        self.step = jax.jit(lambda x: jnp.round(x * 8) / 8)
""",
            "cached-factory",
        ),
    )

    def find(self, document: Document, project: Project) -> Iterator[Finding]:
        effects, contexts = analyses(project)
        module = project.module(document)
        namer = Namer.of(module)
        creations = list(creations_in(module, effects.inference))
        found: list[Finding] = []
        for creation in creations:
            finding = self._decide(creation, effects, contexts, namer)
            found += [finding] if finding is not None else []
        for call in factory_calls(module, effects.inference):
            found.append(self._decide_factory(call, effects, contexts, namer))
        made = {id(part) for c in creations for part in walk(c.node)}
        for closure, name in late_closures(module, effects.inference):
            if id(closure) not in made:
                symbol = module.scope_of(closure).qualname
                message = f"it is kept for later and reads `{name}`: the loop rebinds it, and all see the last value"
                found.append(Refusal(self.id, document.site(closure, symbol), "late-binding", message))
        yield from sorted(found, key=lambda f: (f.site.line, f.site.column))

    def _decide(
        self, creation: Creation, effects: Effects, contexts: Contexts, namer: Namer
    ) -> Finding | None:
        document = creation.module.document
        site = document.site(creation.node, creation.symbol)
        if creation.function is not None:
            context = contexts.of(creation.function)
            if context == {"traced"} or (creation.is_eager and "eager" not in context):
                return None  # it is inlined into the trace around it
            made = makes_boundary(creation.function, effects.inference)
            called = made is not None and bool(contexts.inference.call_sites(creation.function))
            if called and not _is_free_standing(creation, effects, namer):
                return None  # the calls of the factory are the sites
        once = runs_once(creation, contexts)
        if once is not None:
            return Refusal(self.id, site, "cached-factory", f"{once} (line {site.line})")
        hoisting = Hoisting(creation, effects, namer)
        what = "it is compiled anew whenever this runs"
        return self._patch(site, lambda: hoisting.edits(), lambda: hoisting.name, what, document)

    def _decide_factory(self, call: FactoryCall, effects: Effects, contexts: Contexts, namer: Namer) -> Finding:
        document = call.module.document
        site = document.site(call.statement, call.symbol)
        once = runs_once(call.as_creation(), contexts)
        if once is not None:
            return Refusal(self.id, site, "cached-factory", f"{once} (line {site.line})")
        names: list[str] = []
        what = f"`{call.factory.name}` makes a new compiled function whenever this runs"
        return self._patch(
            site, lambda: factory_edits(call, effects, namer, names), lambda: names[0], what, document
        )

    def _patch(self, site: Site, edits, name, what: str, document: Document) -> Finding:  # type: ignore[no-untyped-def]
        try:
            made: tuple[Edit, ...] = edits()
            compose(document, made)
        except REFUSING as why:
            return refused(self.id, site, why)
        message = f"{what}; `{name()}` is compiled once"
        defined = any(f"def {name()}(" in edit.text for edit in made)  # a constant has no lines of its own to run
        return Patch(self.id, site, message, (Variant("hoisted", made),), (), (name(),) if defined else ())


def _is_free_standing(creation: Creation, effects: Effects, namer: Namer) -> bool:
    """Whether a factory's compiled function reads nothing of the factory, so that it can simply move out."""
    try:
        Hoisting(creation, effects, Namer(set(namer.taken))).edits()
    except (Unplannable, NameTaken):
        return False
    return True
