"""Which nodes can be computed for all items at once, and why others cannot."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

from jitmod.analysis import library
from jitmod.analysis.graph import Clash, Graph
from jitmod.analysis.legality import clash_refusal
from jitmod.analysis.library import Role
from jitmod.analysis.loops import header, is_range
from jitmod.analysis.ssa import Blocker, Node, Value
from jitmod.analysis.syntax import calls
from jitmod.analysis.values import Array, Kind
from jitmod.source.nodes import walk


@dataclass(eq=False)
class Batchable:
    """The largest set of nodes that depend only on items, on what the loop does not change, and on each other.

    `chains` are the names of PRNG keys whose next value depends on keys alone: a scan gives them out beforehand.
    """

    graph: Graph
    chains: dict[str, set[Node]] = field(default_factory=dict)
    nodes: set[Node] = field(default_factory=set)
    causes: dict[Node, Blocker] = field(default_factory=dict)  # why candidates are out, those that it began with first

    def __post_init__(self) -> None:
        self._clashes: dict[Node, Clash] = {}
        self._in_windows = {n for window in self.graph.body.windows.values() for n in (*window.names, *window.bounds)}
        self._item_names = {n for read in self.graph.body.item_reads for n in walk(read) if n is not read}
        for clash in self.graph.clashes:
            self._clashes.setdefault(clash.device, clash)
        self.chains = self._key_chains()
        self.nodes = set(self.graph.candidates)
        while True:
            out = {n: why for n in self.graph.body.nodes if n in self.nodes and (why := self.cause(n)) is not None}
            if not out:
                return
            self.causes |= out
            self.nodes -= set(out)

    def cause(self, node: Node) -> Blocker | None:
        """Why a device node cannot be computed for all items at once; None where it can."""
        if node.blocker is not None and node.blocker.reason == "stateful-module":
            return node.blocker
        if node.guards:
            what = ast.unparse(node.expr) if node.expr is not None else "it"
            message = f"`{what}` runs only under a condition; batching would run it always"
            return Blocker("guarded-work", node.statement, message)
        if node.blocker is not None and not isinstance(node.expr, ast.Call):
            return node.blocker
        for expr, value in node.uses.items():
            found = self._unavailable(value, expr) if expr not in self._item_names else None
            if found is not None:
                return found
        if node.blocker is not None:
            return node.blocker
        clash = self._clashes.get(node)
        if clash is not None:
            why = clash_refusal(clash.read, clash.touch)
            return Blocker(why.reason, why.node, why.message)
        return None

    def _unavailable(self, value: Value, at: ast.AST) -> Blocker | None:
        if at in self._in_windows:
            return None
        if value.is_position:
            message = f"the loop index `{value.name}` is used as a Python value"
            return None if self._counts_keys(value, at) else Blocker("index-as-python", at, message)
        if value.origin == "carried":
            return None if value.name in self.chains else self._of_carried(value, at)
        if value.maker is None or value.maker in self.nodes:
            return None
        if not value.name:  # a part of the same statement
            return self.cause(value.maker) or self._made_on_host(value, at)
        return self._made_on_host(value, at)

    def _counts_keys(self, value: Value, at: ast.AST) -> bool:
        """`fold_in(key, i)`, `fold_in(key, 2 * i + 1)`: an array of positions does as well as the numbers."""
        module = self.graph.loop.module
        inner: ast.AST = at
        call = module.parents.get(at)
        while isinstance(call, ast.BinOp) and isinstance(call.op, ast.Add | ast.Mult):
            other = call.right if call.left is inner else call.left
            if not (isinstance(other, ast.Constant) and type(other.value) is int and 0 <= other.value < 2**15):
                return False
            inner, call = call, module.parents.get(call)
        folds = isinstance(call, ast.Call) and call.args[1:2] == [inner]
        named = isinstance(call, ast.Call) and self.graph.effects.inference.dotted(call.func, module)
        known = value.stream is not None and (value.stream.from_zero or is_range(header(self.graph.loop)[1]))
        return folds and named == "jax.random.fold_in" and known

    def _of_carried(self, value: Value, at: ast.AST) -> Blocker:
        name = value.name
        if self._is_state(value, at):
            return Blocker("stateful-module", at, f"`{name}` is an eqx.nn.State that goes from item to item")
        if isinstance(value.kind, Array) and value.kind.is_key:
            return Blocker("prng-order", at, f"the key `{name}` goes from item to item and cannot be scanned")
        return Blocker("carried-state", at, f"`{name}` goes from one item to the next; jax.lax.scan can carry it")

    def _is_state(self, value: Value, at: ast.AST) -> bool:
        infer, module = self.graph.effects.inference, self.graph.loop.module
        scope = infer.scope_binding(value.name, at, module)
        bindings = scope.bindings[value.name] if scope else []
        return any(_is_state(infer.bound(b, module)) for b in bindings if b.how != "def")

    def _made_on_host(self, value: Value, at: ast.AST) -> Blocker:
        """Why a value of a host statement is on the host, in terms of the statement that makes it."""
        maker = value.maker
        assert maker is not None
        name = value.name or ast.unparse(at)
        todo, seen = [maker], {maker}
        while todo:
            for used in todo.pop().reads():
                if used.origin == "carried" and used.name not in self.chains:
                    message = f"`{name}` depends on `{used.name}` of the item before; jax.lax.scan can carry it"
                    return Blocker("carried-state", at, message)
                inner = used.maker if used.maker is not None and used.maker.statement is maker.statement else None
                if inner is not None and inner not in seen:
                    seen.add(inner)
                    todo.append(inner)
        for call in calls(maker.statement):
            for hazard in self.graph.effects.of_call(call, self.graph.loop.module):
                if hazard.reason in ("host-effect", "host-arithmetic", "unresolved-callee"):
                    message = f"`{name}` feeds the computation and is made on the host: {hazard.what}"
                    return Blocker(hazard.reason, at, message)
        return Blocker("host-arithmetic", at, f"`{name}` feeds the computation and is computed on the host")

    # -- keys --------------------------------------------------------------------------------------------------------

    def _key_chains(self) -> dict[str, set[Node]]:
        """The carried PRNG keys whose next value is made from keys alone, with the nodes that make it."""
        carried = self.graph.body.carried
        keys = {n for n, v in carried.items() if n in self.graph.body.env and self._is_split(n)}
        while True:
            chains = {name: chain for name in keys if (chain := self._chain(name, keys)) is not None}
            if len(chains) == len(keys):
                return chains
            keys = set(chains)

    def _is_split(self, name: str) -> bool:
        """Whether a name goes into a `split` or `fold_in` of the body, itself or through what it is made from."""
        infer, module = self.graph.effects.inference, self.graph.loop.module
        todo, seen = [self.graph.body.env[name]], set[Value]()
        while todo:
            value = todo.pop()
            if value in seen or value.maker is None:
                continue
            seen.add(value)
            expr = value.maker.expr
            called = {infer.dotted(c.func, module) for c in calls(expr)} if expr is not None else set()
            if called & {"jax.random.split", "jax.random.fold_in"}:
                return True
            todo += value.maker.uses.values()
        return False

    def _chain(self, name: str, keys: set[str]) -> set[Node] | None:
        chain: set[Node] = set()
        todo = [self.graph.body.env[name]]
        while todo:
            value = todo.pop()
            if value.origin == "invariant" or (value.origin == "carried" and value.name in keys):
                continue
            maker = value.maker
            if maker is None or maker not in self.graph.candidates or maker.heavy or maker.guards:
                return None
            if maker not in chain:
                chain.add(maker)
                todo += maker.uses.values()
        whole = all(n.whole or (n.parent is not None and n.parent in chain) for n in chain)
        return chain if chain and whole else None


def _is_state(kind: Kind) -> bool:
    cls = getattr(kind, "cls", None)
    return isinstance(cls, str) and library.role(cls) is Role.STATE
