"""A compiled function that a factory makes from constants becomes a constant of the module level."""

from __future__ import annotations

import ast

from jitmod.analysis.captures import Captures, lasting_hazards
from jitmod.analysis.constructions import Construction, construction, is_constant, is_pure_construction
from jitmod.analysis.effects import Effects
from jitmod.analysis.factories import FactoryCall
from jitmod.analysis.loops import Unplannable
from jitmod.analysis.stable import block_of
from jitmod.analysis.syntax import first_line
from jitmod.model import Edit
from jitmod.rewrite.lifted import at_module_level, margin, removed
from jitmod.rewrite.names import Namer
from jitmod.rewrite.place import before_top_level, top_level
from jitmod.rewrite.spliced import replacing, text_with
from jitmod.rewrite.text import reindent
from jitmod.source.nodes import walk
from jitmod.source.scopes import Scope


def factory_edits(call: FactoryCall, effects: Effects, namer: Namer, names: list[str]) -> tuple[Edit, ...]:
    """The edits; the new function's name goes into `names`. Raises `Unplannable`."""
    module, document, scope = call.module, call.module.document, call.function.scope
    made = _constants(call, effects)
    _check_factory(call, effects)
    if len(scope.bindings[call.name]) != 1 or any(call.name in s.rebinds for s in module.scopes.values()):
        raise Unplannable("late-binding", call.statement, f"`{call.name}` is bound in several places")
    gone = [*[c.statement for c in made], call.statement]
    for statement in gone:
        if all(other in gone for other in block_of(statement, module)):
            raise Unplannable("unparsable", statement, "nothing would be left in the block")
    renamed = {c.name: namer.fresh(f"_{c.name.strip('_').upper()}") for c in made}
    renamed[call.name] = namer.fresh(f"_{call.name.strip('_').upper()}")
    names.append(renamed[call.name])
    reads = [replacing(document, read, renamed[read.id]) for read in _reads(call, scope) if read.id in renamed]
    spans = [removed(document, statement) for statement in gone]
    lines: list[str] = []
    for statement in gone:
        assert isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name)
        inner = [e for e in reads if _inside(e, document.span(statement.value))]
        text = _text(call, statement.value, inner)
        comments = [c for line, c in document.comments if line == statement.end_lineno]
        beside = f"  {comments[0]}" if comments else ""
        lines.append(f"{renamed[statement.targets[0].id]} = {text}{beside}")
    place = before_top_level(call.statement, module)
    kept = [e for e in reads if not any(s.start <= e.start and e.end <= s.end for s in spans)]
    return (at_module_level(document, place, lines), *spans, *kept)


def _inside(edit: Edit, span: tuple[int, int]) -> bool:
    return span[0] <= edit.start and edit.end <= span[1]


def _text(call: FactoryCall, value: ast.expr, inner: list[Edit]) -> str:
    document = call.module.document
    return reindent(text_with(document, *document.span(value), inner), margin(document, call.statement), "")


def _reads(call: FactoryCall, scope: Scope) -> list[ast.Name]:
    names = [n for n in walk(call.function.node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)]
    return [n for n in names if call.module.scope_of(n).find(n.id) is scope]


def _constants(call: FactoryCall, effects: Effects) -> list[Construction]:
    """The optimisers that the arguments name, each built from constants. Raises `Unplannable`."""
    module, found = call.module, []
    line = first_line(top_level(call.statement, module))
    arguments = [*call.call.args, *[k.value for k in call.call.keywords]]
    for argument in arguments:
        local = construction(argument.id, call.function.scope, effects) if isinstance(argument, ast.Name) else None
        expr = local.value if local is not None else argument
        if not (is_pure_construction(expr, module, effects) and is_constant(expr, module, effects)):
            what = f"`{ast.unparse(argument)}` exists only here"
            todo = f"call `{call.factory.name}` once, outside, and pass its result on"
            raise Unplannable("local-callable", argument, f"{what}; {todo}")
        found += [local] if local is not None else []
    exprs = [call.call.func, *[c.value for c in found], *[a for a in arguments]]
    for node in (n for e in exprs for n in walk(e) if isinstance(n, ast.Name)):
        scope = module.scope_of(node).find(node.id)
        if scope is not None and scope.parent is None:
            body = module.document.tree.body
            if not all(b.node in body and getattr(b.node, "lineno", line) < line for b in scope.bindings[node.id]):
                raise Unplannable("local-callable", node, f"`{node.id}` is defined further down")
    return found


def _check_factory(call: FactoryCall, effects: Effects) -> None:
    """What the factory does when it runs, and what its function does when it is traced, may depend on nothing else."""
    factory = call.factory
    parameters = {p.arg for p in factory.parameters}
    hazards = lasting_hazards(effects.of_function(factory), Captures((), (), (), ()), [factory.node], factory.module)
    for hazard in hazards:
        subject = hazard.what.split("`")[1] if hazard.what.count("`") >= 2 else ""
        once = subject in parameters and len(factory.scope.bindings[subject]) == 1
        if not (hazard.reason == "late-binding" and once):
            raise Unplannable(hazard.reason, call.call, f"{hazard.what} ({hazard.path}:{hazard.line})")
    body = [s for s in getattr(factory.node, "body", []) if not isinstance(s, ast.FunctionDef | ast.Return | ast.Expr)]
    if body:
        raise Unplannable("host-effect", call.call, f"`{factory.name}` does more than to define a function")
