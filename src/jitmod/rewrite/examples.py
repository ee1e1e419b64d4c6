"""A codemod's own examples, run: whether its text is what they say, and a second run changes nothing."""

from __future__ import annotations

import difflib
from collections.abc import Iterator

from jitmod.model import Finding, Patch, Refusal
from jitmod.rewrite.codemod import Codemod, Example, Leaves, Refuses, Rewrites, scan
from jitmod.rewrite.edits import EditConflict, compose
from jitmod.source.document import Document, UnreadableSource
from jitmod.source.project import Project

_PATH = "example.py"


def failures(codemod: Codemod) -> Iterator[tuple[int, str]]:
    """The examples that do not hold, by number from 1, and how."""
    for number, example in enumerate(codemod.examples, 1):
        try:
            failure = _failure(codemod, example)
        except (EditConflict, UnreadableSource) as error:
            failure = str(error)
        if failure is not None:
            yield number, failure


def _failure(codemod: Codemod, example: Example) -> str | None:
    document, found = _found(codemod, example.before.encode())
    told = "; ".join(_told(finding) for finding in found) or "nothing"
    match example:
        case Leaves():
            return None if not found else f"nothing should be found, and there is: {told}"
        case Refuses(_, reason):
            refused = [f.reason for f in found if isinstance(f, Refusal)]
            return None if refused == [reason] and len(found) == 1 else f"`{reason}` is expected, and there is: {told}"
        case Rewrites(_, after):
            if len(found) != 1 or not isinstance(found[0], Patch):
                return f"one patch is expected, and there is: {told}"
            written = compose(document, found[0].variants[0].realise({}))
            if written.decode() != after:
                lines = (after.splitlines(), written.decode().splitlines())
                return "\n".join(["another text:", *difflib.unified_diff(*lines, "expected", "written", lineterm="")])
            again = _found(codemod, written)[1]
            return None if not again else f"a second run finds: {'; '.join(_told(f) for f in again)}"


def _found(codemod: Codemod, data: bytes) -> tuple[Document, tuple[Finding, ...]]:
    document = Document.parse(_PATH, data)
    return document, scan([codemod], Project.of({_PATH: document}), [_PATH]).findings


def _told(finding: Finding) -> str:
    kind = finding.reason if isinstance(finding, Refusal) else "a patch"
    return f"{kind} at line {finding.site.line} ({finding.message})"
