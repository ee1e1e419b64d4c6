"""What project code does to the world outside of its process: programs that it starts, places that it connects to."""

from __future__ import annotations

import contextlib
import re
import sys
import sysconfig
from collections.abc import Iterator
from typing import Any

from .finder import Tree
from .writes import PROGRAMS

NAME = "programs and connections"
_SENT = {"socket.connect", "socket.sendto", "socket.sendmsg"}
_STANDARD = sysconfig.get_paths()["stdlib"]
_NUMBER = re.compile(r"\d+(\.\d+)?([eE][-+]?\d+)?")
_heard: list[tuple[Tree, list[str]]] = []
_installed: list[bool] = []


@contextlib.contextmanager
def listening(tree: Tree) -> Iterator[dict[str, str]]:
    """Fills the dictionary, when the block ends, with what the code of `tree` did: what libraries do is theirs.

    Numbers that a program is given are left out, since they may be results.
    """
    if not _installed:
        sys.addaudithook(_audit)
        _installed.append(True)
    events: list[str] = []
    found: dict[str, str] = {}
    _heard.append((tree, events))
    try:
        yield found
    finally:
        _heard.pop()
        if events:
            found[NAME] = ", ".join(events)


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    if _heard and event in PROGRAMS | _SENT:
        tree, events = _heard[-1]
        given = arguments[-1] if event in _SENT else arguments[1 if event == "subprocess.Popen" else 0]
        if (event not in _SENT or isinstance(given, tuple)) and _is_projects(tree):
            said = repr(given)
            events.append(f"{event} {said if event in _SENT else _NUMBER.sub('#', said)}")


def _is_projects(tree: Tree) -> bool:
    """Is it project code that has asked Python's own library for it?"""
    frame = sys._getframe(2)
    while frame.f_back is not None and frame.f_code.co_filename.startswith((_STANDARD, "<frozen")):
        if "site-packages" in frame.f_code.co_filename:
            return False
        frame = frame.f_back
    return tree.has_code(frame.f_code.co_filename)
