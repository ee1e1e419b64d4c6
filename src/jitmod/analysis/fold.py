"""Nodes of one statement that end up on one side are joined again, so that text moves in the largest pieces."""

from __future__ import annotations

from jitmod.analysis.ssa import Body


def fold(body: Body) -> None:
    """Join every node with the node in whose expression it stands, where the plan put both on one side."""
    for node in list(body.nodes):  # parts come before what they are part of
        parent = node.parent
        if parent is None or parent.side != node.side:
            continue
        assert node.expr is not None
        parent.uses.pop(node.expr, None)
        parent.uses.update(node.uses)
        parent.heavy = parent.heavy or node.heavy
        for other in body.nodes:
            if other.parent is node:
                other.parent = parent
        body.nodes.remove(node)
