"""Codemods that know nothing of jitmod: whatever makes new text of the text of a file gives a patch for the file.

LibCST commands and Bowler queries are such. They see one file at a time, with `\\n` at the end of its lines; line ends,
encoding and byte-order mark stay those of the file. What has to change in several files at once fails in the trial.
"""

from __future__ import annotations

import difflib
import logging
import re
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from jitmod.model import Edit, Finding, Patch, Refusal, Site, Variant
from jitmod.rewrite.codemod import Codemod, Example
from jitmod.rewrite.edits import EditConflict, compose
from jitmod.source.document import Document
from jitmod.source.project import Project

if TYPE_CHECKING:
    from libcst.codemod import CodemodCommand


class CannotParse(Exception):
    """The other tool cannot read the file."""


class Foreign(Codemod):
    """The base of adapters. Their patches need not be faster: they are accepted where nothing gets slower."""

    examples: ClassVar[Sequence[Example]] = ()
    on_request = True

    @abstractmethod
    def transform(self, text: str, path: str) -> str:
        """The new text of a file. Raises `CannotParse`; whatever else it raises is told as a refusal."""

    def find(self, document: Document, project: Project) -> Iterator[Finding]:
        newline = document.newline
        text = document.source.decode().replace(newline, "\n")
        whole = Site(document.path, 1, 1, 1)
        try:
            after = self.transform(text, document.path)
            if after == text:
                return
            edits = tuple(_edits(document, text, after))
            compose(document, edits)
        except CannotParse as error:
            yield Refusal(self.id, whole, "bowler-cannot-parse", f"Bowler cannot read this file: {error}")
            return
        except EditConflict as conflict:
            yield Refusal(self.id, whole, "unparsable", f"what {self.id} makes of the file cannot be used: {conflict}")
            return
        except (Exception, SystemExit) as error:
            yield Refusal(self.id, whole, "unparsable", f"{self.id} raised {type(error).__name__}: {error}")
            return
        site = _site(document, project, edits)
        yield Patch(self.id, site, self.summary, (Variant("text", edits),), neutral=True)


def _edits(document: Document, before: str, after: str) -> Iterator[Edit]:
    """The lines that differ, as edits of the document."""
    old, new = (re.findall(r".*\n|.+", text) for text in (before, after))
    starts = [*document.line_starts[: len(old)], len(document.source)]
    for kind, first, last, start, end in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if kind != "equal":
            yield Edit(starts[first], starts[last], "".join(new[start:end]))


def _site(document: Document, project: Project, edits: Sequence[Edit]) -> Site:
    """From the first to the last line that changes, in the function that holds them all."""
    first, last = min(e.start for e in edits), max(max(e.start, e.end - 1) for e in edits)
    lines = [sum(start <= place for start in document.line_starts) for place in (first, last)]
    inner = project.module(document).function_at(*lines)
    return Site(document.path, lines[0], 1, lines[1], inner.name if inner is not None else "<module>")


class Command(Foreign):
    """A LibCST command that needs no arguments."""

    command: ClassVar[type[CodemodCommand]]

    def transform(self, text: str, path: str) -> str:
        from libcst.codemod import CodemodContext, TransformFailure, TransformSuccess, transform_module

        made = transform_module(self.command(CodemodContext(filename=path)), text)
        if isinstance(made, TransformFailure):
            raise made.error
        return made.code if isinstance(made, TransformSuccess) else text


class Queries(Foreign):
    """Bowler queries, one after the other. Nothing is written, asked or shown by them."""

    queries: ClassVar[Sequence[Any]]

    @cached_property
    def _tools(self) -> list[tuple[Any, Any]]:
        """A tool for each query: one holds pipes and semaphores, so that there must not be one for each file."""
        from bowler.tool import BowlerTool

        made = []
        for query in self.queries:
            tool = BowlerTool(query.compile(), in_process=True, silent=True, options={"print_function": True})
            tool.log_error = _raise  # it reports failure as success
            made.append((query, tool))
        return made

    def transform(self, text: str, path: str) -> str:
        ended = text if text.endswith("\n") else f"{text}\n"  # its parser wants the end of the last line
        for query, tool in self._tools:
            if query.filename_matcher is None or query.filename_matcher(path):
                ended = str(tool.refactor_string(ended, path))
        return ended if text.endswith("\n") else ended.removesuffix("\n")


def _raise(message: str, *args: object, **_: object) -> None:
    logging.getLogger(__name__).debug(message, *args)
    raise CannotParse(message % args if args else message)
