"""The options of a compiled function without some of its static arguments."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from jitmod.analysis.statics import StaticOptions, entries
from jitmod.model import Edit


def without_static(options: StaticOptions, leaving: Sequence[str]) -> Iterator[Edit]:
    """The edits that take the parameters `leaving` out of the static ones."""
    document = options.module.document
    gone: list[ast.keyword] = []
    for keyword in options.keywords:
        listed = entries(keyword)
        positions = {options.index_of(n) for n in leaving if not _is_keyword_only(options, n)}
        count = len(options.function.node.args.posonlyargs) + len(options.function.node.args.args)
        kept = [e for e in listed if e not in leaving and not (isinstance(e, int) and e % count in positions)]
        if kept == listed:
            continue
        if kept:
            texts = [f'"{e}"' if isinstance(e, str) else str(e) for e in kept]
            start, end = document.span(keyword.value)
            yield Edit(start, end, f"({', '.join(texts)}{',' if len(texts) == 1 else ''})")
        else:
            gone.append(keyword)
    if gone:
        yield _without_keywords(options, gone)


def _is_keyword_only(options: StaticOptions, name: str) -> bool:
    return any(p.arg == name for p in options.function.node.args.kwonlyargs)


def _without_keywords(options: StaticOptions, gone: Sequence[ast.keyword]) -> Edit:
    """The call that holds the options, without some of them; a `partial` of nothing but `jax.jit` is `jax.jit`."""
    document, holder = options.module.document, options.holder
    kept = [*[document.text(a) for a in holder.args],
            *[f"{k.arg}={document.text(k.value)}" for k in holder.keywords if k not in gone]]  # fmt: skip
    decorates = isinstance(options.function.node, ast.FunctionDef) and holder in options.function.node.decorator_list
    if decorates and len(kept) <= 1:
        text = kept[0] if kept else document.text(holder.func)
    else:
        text = f"{document.text(holder.func)}({', '.join(kept)})"
    return Edit(*document.span(holder), text)
