"""What is still to be done in a file after one of its patches went in."""

from __future__ import annotations

from jitmod.delivery.queue import FoundPatch, Waiting, in_turn
from jitmod.model import Patch, Site, Variant


def found(mark: str, line: int, number: int = 0, codemod: str = "toy") -> FoundPatch:
    patch = Patch(codemod, Site("a.py", line, 1, line), mark, (Variant("plain", ()),))
    return FoundPatch(f"{mark}-{number}", mark, patch, patch)


def lines(waiting: Waiting) -> list[tuple[str, int]]:
    return [(one.mark, one.finding.site.line) for one in waiting.queue]


def test_moved_patches_keep_their_names_and_their_first_site() -> None:
    _, waiting = Waiting.of([found("a", 1), found("b", 5)]).pop()
    waiting, gone = waiting.refound([found("b", 9)])
    assert lines(waiting) == [("b", 9)] and gone == ()
    assert waiting.queue[0].shown.site.line == 5 and waiting.queue[0].id == "b-0"


def test_of_equal_sites_the_last_are_still_waiting() -> None:
    _, waiting = Waiting.of([found("a", 1, 0), found("a", 2, 1), found("a", 3, 2)]).pop()
    _, waiting = waiting.pop()
    waiting, _ = waiting.refound([found("a", 11), found("a", 13)])  # the first was rejected, the second went in
    assert lines(waiting) == [("a", 13)] and waiting.queue[0].id == "a-2"


def test_a_tried_site_does_not_come_back() -> None:
    _, waiting = Waiting.of([found("rejected", 1), found("b", 5)]).pop()
    waiting, gone = waiting.refound([found("rejected", 1)])
    assert lines(waiting) == [] and [one.mark for one in gone] == ["b"]


def test_a_fresh_patch_takes_the_place_of_a_lost_one_but_no_more() -> None:
    _, waiting = Waiting.of([found("a", 1), found("b", 5), found("c", 9)]).pop()
    waiting, gone = waiting.refound([found("new", 2), found("c", 9), found("newer", 12)])
    assert lines(waiting) == [("new", 2), ("c", 9)] and gone == ()
    _, waiting = waiting.pop()
    waiting, gone = waiting.refound([found("new", 2), found("newer", 12)])
    assert lines(waiting) == [("newer", 12)]


def test_what_depends_on_its_callers_is_tried_last_but_rivals_together() -> None:
    inner, rival = found("layers", 1, codemod="scan"), found("steps", 5, codemod="scan")
    queue = [inner, found("other", 5), rival, found("more", 9)]
    first, last = in_turn(queue, {"scan"})
    assert [one.mark for one in first] == ["other", "steps", "more"] and last == [inner]


def test_a_patch_of_the_other_queue_is_no_fresh_one() -> None:
    waiting = Waiting.of([found("a", 1), found("b", 5)], [found("layers", 3)])
    _, waiting = waiting.pop()
    waiting, gone = waiting.refound([found("layers", 3)])
    assert lines(waiting) == [] and [one.mark for one in gone] == ["b"]
