"""trace-scalars: Python numbers that vary enter compiled functions as arrays, not as constants.

What it does
    Finds calls of `eqx.filter_jit` functions that pass a Python number which is new at every call (a loop index, a
    counter, a schedule, a value read back), alone or inside of a tuple, dict or Module that is made for the call, and
    wraps it in `jnp.asarray(...)`. Takes a varying number out of `static_argnums` and `static_argnames` of `jax.jit`
    where the function does not need it as a Python value. Starts a loop's state from float32 where its first round
    would compile for a Python float. Tells which arguments make a compiled function compile again where no edit can
    help: growing shapes, new lengths, a hashed `self`.

Why it is slow
    `eqx.filter_jit` holds everything static that is no array, and `jax.jit` what it is told to: each new value is a new
    key of the cache, so the function is traced and compiled again.

When it refuses
    When the function, or one that it calls, needs the number as a Python value (a shape, a slice, a branch, a key, a
    text), when it computes with it on the host where float32 would show, when it hands back what holds the number, and
    when it cannot be told what happens to it.
    Plain `jax.jit` arguments are traced already and left alone, and so are flags, strings and None.

Safety
    `jnp.asarray` of a Python number is weakly typed, as the number itself, so bfloat16 stays bfloat16. Products of
    numbers inside the function, and sums of numbers of one sign, are as good in float32. Where it cannot be proved that
    the numbers of a sum have one sign, the call compares them, and passes them as they are where one is negative.

References
    https://docs.kidger.site/equinox/faq/
    https://docs.jax.dev/en/latest/jit-compilation.html
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from jitmod.analysis.boundaries import function_around
from jitmod.analysis.effects import Effects
from jitmod.analysis.first_round import first_round
from jitmod.analysis.infer import Inference
from jitmod.analysis.inner import Inner, InnerReads, Step, inner_values
from jitmod.analysis.jits import Contexts, analyses, jitted_target
from jitmod.analysis.loops import Unplannable
from jitmod.analysis.numeric import FLOATS, Numeric
from jitmod.analysis.recompiles import recompiling
from jitmod.analysis.retraced import lasting
from jitmod.analysis.scalars import Need, Scalars
from jitmod.analysis.statics import StaticOptions, hashed_self, static_options
from jitmod.analysis.values import UNKNOWN, Array, Device, Kind, Number
from jitmod.analysis.varying import Varying
from jitmod.model import Assumption, Edit, Finding, Patch, Refusal, Variant
from jitmod.rewrite.codemod import Codemod, Example, Leaves, Refuses, Rewrites
from jitmod.rewrite.edits import EditConflict, compose
from jitmod.rewrite.guarded import compared, guarded, is_fallback
from jitmod.rewrite.imports import Imports, NameTaken
from jitmod.rewrite.options import without_static
from jitmod.rewrite.text import is_exact
from jitmod.rewrite.typed import typed
from jitmod.source.document import Document
from jitmod.source.project import Function, Project, SourceModule
from jitmod.source.signatures import argument, is_static

_HEAD = "import equinox as eqx\nimport jax\nimport jax.numpy as jnp\n\n\n"
_STEP = _HEAD + "@eqx.filter_jit\ndef step(x, t):\n    return x * t\n\n\n"
_GUARDED = Assumption("scalar-guard", "what the call compares with zero is one Python number, and no array of several")


class TraceScalars(Codemod):
    """The codemod; see the module's docstring."""

    id = "trace-scalars"
    summary = "Python numbers that vary enter compiled functions as arrays, not as constants"
    examples: ClassVar[Sequence[Example]] = (
        Rewrites(
            _STEP + "def run(x: jax.Array, n: int):\n    for i in range(n):\n        x = step(x, i)\n    return x\n",
            _STEP
            + "def run(x: jax.Array, n: int):\n    for i in range(n):\n        x = step(x, jnp.asarray(i))\n"
            + "    return x\n",
        ),
        Rewrites(
            _HEAD
            + """\
@jax.jit(static_argnames=("rate", "n"))
def update(x, rate, n):
    return jnp.tile(x, n) * rate


def run(x: jax.Array):
    return [update(x, 0.1 * i, 2) for i in range(9)]
""",
            _HEAD
            + """\
@jax.jit(static_argnames=("n",))
def update(x, rate, n):
    return jnp.tile(x, n) * rate


def run(x: jax.Array):
    return [update(x, 0.1 * i, 2) for i in range(9)]
""",
        ),
        Leaves(
            _HEAD
            + "@jax.jit\ndef step(x, t):\n    return x * t\n\n\ndef run(x: jax.Array):\n"
            + "    return [step(x, i) for i in range(9)]\n"
        ),
        Refuses(
            _HEAD
            + "@eqx.filter_jit\ndef head(x, n):\n    return x[:n].sum()\n\n\ndef run(x: jax.Array):\n"
            + "    return [head(x, i) for i in range(9)]\n",
            "scalar-needed-as-python",
        ),
        Refuses(
            _HEAD
            + "@eqx.filter_jit\ndef corrected(x, t):\n    return x / (1.0 - 0.999**t)\n\n\ndef run(x: jax.Array):\n"
            + "    return [corrected(x, i + 1) for i in range(9)]\n",
            "host-arithmetic",
        ),
    )

    def find(self, document: Document, project: Project) -> Iterator[Finding]:
        effects, contexts = analyses(project)
        module = project.module(document)
        found: list[Finding] = []
        for call in document.of(ast.Call):
            found += self._of_call(call, module, effects, contexts)
        for options in static_options(module, effects.inference):
            found += self._of_options(options, effects)
        yield from sorted(found, key=lambda f: (f.site.line, f.site.column))

    # -- arguments of calls ------------------------------------------------------------------------------------------

    def _of_call(
        self, call: ast.Call, module: SourceModule, effects: Effects, contexts: Contexts
    ) -> Iterator[Finding]:
        infer = effects.inference
        jit, function = jitted_target(infer.kind(call.func, module), infer)
        around = function_around(call, module)
        if jit is None or function is None or (around is not None and contexts.of(around) == {"traced"}):
            return
        symbol = around.name if around is not None else "<module>"
        site = module.document.site(call, symbol)
        known = list(recompiling(call, function, jit, module, infer))
        yield from (Refusal(self.id, site, reason, what) for reason, what in known)
        if any(reason != "ragged-items" for reason, _ in known):
            return
        if jit == "jax.jit":
            yield from self._first_round(call, function, _Place(module, effects, symbol))
            return
        if jit != "equinox.filter_jit":
            return
        values = [a for a in (*call.args, *[k.value for k in call.keywords]) if not isinstance(a, ast.Starred)]
        parts = [(v, Inner(v, ())) for v in values]
        parts += [(v, inner) for v in values for inner in inner_values(v, module, infer)]
        numbers = [(v, inner) for v, inner in parts if Numeric(infer).holds(inner.value, module)]
        varying = [_Leak(inner.value, why, v, inner.path) for v, inner in numbers
                   if (why := Varying(infer).why(inner.value, module)) is not None]  # fmt: skip
        if varying and not is_fallback(call, module):
            yield self._wrapped(call, function, varying, _Place(module, effects, symbol))

    def _wrapped(self, call: ast.Call, function: Function, varying: Sequence[_Leak], place: _Place) -> Finding:
        module, effects = place.module, place.effects
        document, infer = module.document, effects.inference
        site = document.site(call, place.symbol)
        traced = frozenset(
            p for p in function.parameters
            if (given := argument(function, call, p.arg)) is not None
            and isinstance(infer.kind(given, module), Array | Device)
        )  # fmt: skip
        needs: list[Need] = []
        causes = ", ".join(leak.words for leak in varying)
        for leak in varying:
            given = leak.argument
            name = next((p.arg for p in function.parameters if argument(function, call, p.arg) is given), None)
            if name is None or name in _extras(function):
                what = f"it cannot be told which parameter of `{function.name}` gets `{ast.unparse(given)}`"
                return Refusal(self.id, site, "unresolved-callee", f"{what} (line {call.lineno})")
            found = _needs(leak, function, name, traced, place)
            if found is None:
                what = f"`{function.name}` compiles again for every new {causes}, and it cannot be told what becomes of"
                what += f" it inside of `{ast.unparse(given)}`; pass it as an argument of its own"
                return Refusal(self.id, site, "unresolved-callee", f"{what} (line {call.lineno})")
            if found and (found[0].positive is None or leak.path):
                return self._needed(site, function, leak.value, found[0], causes)
            needs += found
        more = next(lasting(function, effects), None)
        if more is not None:
            what = f"`{function.name}` compiles again for every new {causes}, and does more than to compute then"
            return Refusal(self.id, site, more.reason, f"{what}: {more.what} ({more.path}:{more.line})")
        imports = Imports(module)
        try:
            asarray = imports.refer("jax.numpy.asarray")
        except NameTaken as taken:
            return Refusal(self.id, site, "rebound-global", f"`{taken}` is not the usual library in this file")
        for leak in varying:
            if not is_exact(document, leak.value):
                what = f"`{ast.unparse(leak.value)}` cannot be edited where it stands"
                return Refusal(self.id, site, "unparsable", f"{what} (line {leak.value.lineno})")
        guard: list[str] = []
        for need in needs:
            texts = compared(need, function, call, module, infer)
            if texts is None:
                return self._needed(site, function, varying[0].value, need, causes)
            guard += [text for text in texts if text not in guard]
        wrapped = [Edit(*document.span(v), f"{asarray}({document.text(v)})") for v in (leak.value for leak in varying)]
        edits = guarded(call, guard, wrapped, module) if guard else wrapped
        if edits is None:
            return Refusal(self.id, site, "unparsable", f"`{ast.unparse(call)[:60]}` cannot be written twice")
        local = module.scope_of(call).find(asarray.partition(".")[0])
        if local is not None and local.parent is not None:
            return Refusal(self.id, site, "rebound-global", f"`{asarray}` means something else here")
        message = f"`{function.name}` compiles again for every new {causes}; traced, it compiles once"
        variant = Variant("traced", (*imports.edits(), *edits))
        try:
            compose(document, variant.edits)
        except EditConflict as conflict:
            return Refusal(self.id, site, "unparsable", f"the text cannot be edited safely: {conflict}")
        assumptions = (_GUARDED,) if guard else ()
        return Patch(self.id, site, message, (variant,), assumptions, needs_fresh_values=True)

    def _needed(self, site, function: Function, value: ast.expr, need: Need, causes: str) -> Refusal:  # type: ignore[no-untyped-def]
        what = f"`{function.name}` compiles again for every new {causes}, but `{ast.unparse(value)}` must stay a number"
        todo = "compute that on the host and pass the result" if need.reason == "host-arithmetic" else ""
        return Refusal(self.id, site, need.reason, f"{what}: {need.where}{f'; {todo}' if todo else ''}")

    def _first_round(self, call: ast.Call, function: Function, place: _Place) -> Iterator[Finding]:
        """A number that becomes an array: the first round of a loop compiles for one type, the second for another."""
        module, document = place.module, place.module.document
        site = document.site(call, place.symbol)
        try:
            found = first_round(call, function, module, place.effects.inference)
            if found is None:
                return
            imports = Imports(module)
            edits = list(typed(found, imports.refer("numpy.float32"), document))
        except Unplannable as why:
            line = getattr(why.node, "lineno", site.line)
            yield Refusal(self.id, site, why.reason, f"`{function.name}`: {why.message} (line {line})")
            return
        except NameTaken as taken:
            yield Refusal(self.id, site, "rebound-global", f"`{taken}` is not the usual library in this file")
            return
        names = ", ".join(f"`{name}`" for name in found.names)
        more = next(lasting(function, place.effects), None)
        what = f"`{function.name}` compiles twice: {names} starts as a Python float and comes back as a float32 array"
        if more is not None:
            what += f", and each compilation does more: {more.what}"
            yield Refusal(self.id, site, more.reason, f"{what} ({more.path}:{more.line})")
            return
        variant = Variant("typed", (*imports.edits(), *edits))
        yield Patch(self.id, site, f"{what}; as float32 from the start it compiles once", (variant,))

    # -- static arguments --------------------------------------------------------------------------------------------

    def _of_options(self, options: StaticOptions, effects: Effects) -> Iterator[Finding]:
        module, function, infer = options.module, options.function, effects.inference
        called, sites = options.called(infer)
        own = next((c for m, c in sites if m is module), None)  # a run reaches the call; the options are only read
        around = function_around(own, module) if own is not None else function
        site = module.document.site(own or options.holder, around.name if around is not None else "<module>")
        static = options.names()
        first = function.parameters[0].arg if function.parameters else ""
        if function.owner is not None and not is_static(function) and first in static:
            yield from self._hashed_self(options, effects)
            return
        leaving: list[str] = []
        causes: list[str] = []
        for name in static:
            given = [(m, v) for m, c in sites if (v := argument(function, c, name)) is not None]
            numbers = [(m, v) for m, v in given if Numeric(infer).holds(v, m)]
            why = next((w for m, v in numbers if (w := Varying(infer).why(v, m)) is not None), None)
            if why is None:
                continue
            other = next((v for m, v in given if (m, v) not in numbers), None)
            if other is not None or infer.project.escapes(called):
                what = f"`{name}` is static and varies ({why}), but"
                rest = f"`{ast.unparse(other)}` is passed too" if other is not None else "not every call is seen"
                yield Refusal(self.id, site, "varying-static", f"{what} {rest} (line {site.line})")
                return
            where, value = given[0]
            kind = _type_of(value, where, infer)
            traced = self._traced(function, sites, static, effects)
            needs = Scalars(effects).needs_of_parameter(function, name, kind, traced)
            hard = [n for n in needs if any(compared(n, function, c, m, infer) != [] for m, c in sites)]
            if hard:
                what = f"`{function.name}` compiles again for every new `{name}` ({why}), which must stay static"
                yield Refusal(self.id, site, hard[0].reason, f"{what}: {hard[0].where}")
                continue
            leaving.append(name)
            causes.append(f"`{name}` ({why})")
        more = next(lasting(function, effects), None)
        if leaving and more is not None:
            what = f"`{function.name}` compiles again for every new {', '.join(causes)}"
            what += ", and does more than to compute then"
            yield Refusal(self.id, site, more.reason, f"{what}: {more.what} ({more.path}:{more.line})")
        elif leaving:
            message = f"`{function.name}` compiles again for every new {', '.join(causes)}; traced, it compiles once"
            variant = Variant("traced", tuple(without_static(options, leaving)))
            yield Patch(self.id, site, message, (variant,), needs_fresh_values=True)

    def _traced(
        self, function: Function, sites: Sequence[tuple[SourceModule, ast.Call]], static: object, effects: Effects
    ) -> frozenset[ast.arg]:
        assert isinstance(static, dict)
        found = set()
        for parameter in function.parameters:
            given = [(m, argument(function, c, parameter.arg)) for m, c in sites]
            kinds = [effects.inference.kind(v, m) for m, v in given if v is not None]
            known = len(kinds) == len(given) and all(isinstance(k, Array | Device) for k in kinds)
            if given and known and parameter.arg not in static:
                found.add(parameter)
        return frozenset(found)

    def _hashed_self(self, options: StaticOptions, effects: Effects) -> Iterator[Finding]:
        """A jitted method with a static self: compiled anew for every object, and blind to what changes on it."""
        site = options.module.document.site(options.holder, options.function.name)
        yield Refusal(self.id, site, "mutable-self", hashed_self(options, effects.frozen.changed_names))


@dataclass(frozen=True, eq=False)
class _Place:
    """Where a call stands, and what is known of the project."""

    module: SourceModule
    effects: Effects
    symbol: str


@dataclass(frozen=True, eq=False)
class _Leak:
    """A number that is new at each call: the argument that it is, or that holds it at the end of `path`."""

    value: ast.expr
    why: str
    argument: ast.expr
    path: tuple[Step, ...]

    @property
    def words(self) -> str:
        where = f" in `{ast.unparse(self.argument)}`" if self.path else ""
        return f"`{ast.unparse(self.value)}`{where} ({self.why})"


def _needs(
    leak: _Leak, function: Function, name: str, traced: frozenset[ast.arg], place: _Place
) -> list[Need] | None:
    """What the compiled function needs of the number; None where it cannot be followed."""
    infer, scalars = place.effects.inference, Scalars(place.effects)
    kind = _type_of(leak.value, place.module, infer)
    if not leak.path:
        return scalars.needs_of_parameter(function, name, kind, traced)
    inner = InnerReads(infer, traced)
    reads = inner.of_parameter(function, name, leak.path)
    if reads is None:
        return None
    known = traced | inner.traced
    return [need for read, module in reads for need in scalars.needs([read], module, function, kind, known)]


def _type_of(value: ast.expr, module: SourceModule, infer: Inference) -> Kind:
    """The kind of a number; a float for certain where it has no kind, but could be nothing else."""
    kind = infer.kind(value, module)
    floats = kind == UNKNOWN and Numeric(infer, types=FLOATS).holds(value, module)
    return Number("float") if floats else kind


def _extras(function: Function) -> set[str]:
    a = function.node.args
    return {x.arg for x in (a.vararg, a.kwarg) if x is not None}
