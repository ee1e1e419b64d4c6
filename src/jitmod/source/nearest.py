"""What somebody may have meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that is closest to a misspelt one; None where none is close."""
    found = difflib.get_close_matches(name.lower(), list(known), n=1, cutoff=0.6)
    return found[0] if found else None


def suggestion(name: str, known: Iterable[str]) -> str:
    """`; did you mean X?`, empty where nothing is close."""
    found = nearest(name, known)
    return f"; did you mean {found}?" if found else ""
