"""The refusal that an error of the floors below stands for."""

from __future__ import annotations

from jitmod.analysis.loops import Unplannable
from jitmod.model import Refusal, Site
from jitmod.rewrite.edits import EditConflict
from jitmod.rewrite.imports import NameTaken

REFUSING = (EditConflict, NameTaken, Unplannable)


def refused(codemod: str, site: Site, why: EditConflict | NameTaken | Unplannable) -> Refusal:
    """Why `codemod` leaves the site alone: it cannot be decided, or the text cannot be written."""
    match why:
        case EditConflict():
            return Refusal(codemod, site, "unparsable", f"the text cannot be edited safely: {why}")
        case NameTaken():
            return Refusal(codemod, site, "rebound-global", f"`{why}` is not the usual library in this file")
    return Refusal(codemod, site, why.reason, f"{why.message} (line {getattr(why.node, 'lineno', site.line)})")
