"""Hazards of functions: through calls, recursions and subclasses."""

from __future__ import annotations

from jitmod.analysis.effects import Effects
from jitmod.analysis.infer import Inference
from jitmod.source.document import Document
from jitmod.source.project import Project

CLASSES = 30

FAMILY = """
class Base:
    def first(self, other: "Base", x):
        return other.second(other, x) + other.first(other, x) + other.third(other, x)

    def second(self, other: "Base", x):
        return other.first(other, x) + other.third(other, x)

    def third(self, other: "Base", x):
        return other.first(other, x) + other.second(other, x)
"""

OVERRIDES = """
class Sub{number}(Base):
    def first(self, other: "Base", x):
        return other.second(other, x) + other.third(other, x)

    def second(self, other: "Base", x):
        return other.third(other, x) + other.first(other, x)

    def third(self, other: "Base", x):
        {extra}
        return other.second(other, x) + other.first(other, x)
"""


def hazards(text: str) -> dict[str, list[str]]:
    project = Project.of({"m.py": Document.parse("m.py", text.encode())})
    effects = Effects(Inference(project))
    return {
        function.name: [h.reason for h in effects.of_function(function)]
        for function in project.by_path["m.py"].functions.values()
    }


def test_functions_of_one_recursion_share_their_hazards() -> None:
    found = hazards(
        """
def first(x):
    return second(x)

def second(x):
    print(x)
    return third(x)

def third(x):
    return first(x) if x.ndim else x
"""
    )
    assert found["first"] == found["second"] == found["third"] == ["host-effect"]


def test_methods_that_many_subclasses_override_are_entered_once() -> None:
    """Every method calls the others: entered again on each way to it, it would take for ever."""
    subclasses = "".join(
        OVERRIDES.format(number=n, extra="print(x)" if n == CLASSES - 1 else "pass") for n in range(CLASSES)
    )
    found = hazards(f"{FAMILY}{subclasses}\ndef f(base: Base, x):\n    return base.first(base, x)\n")
    assert "host-effect" in found["f"]
