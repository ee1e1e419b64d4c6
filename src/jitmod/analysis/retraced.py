"""What is lost or changed where a compiled function is traced less often than before."""

from __future__ import annotations

from collections.abc import Iterator

from jitmod.analysis.captures import Captures, lasting_hazards
from jitmod.analysis.effects import Effects
from jitmod.analysis.hazards import Hazard
from jitmod.source.project import Function

_OF_A_TRACE = ("host-effect", "rebound-global", "late-binding", "mutable-self", "unresolved-callee")
# effects of running the compiled function, however often it is traced
_AT_RUN_TIME = ("`jax.debug.", "`jax.pure_callback`", "`jax.experimental.io_callback`", "`eqx.error_if`")


def lasting(function: Function, effects: Effects) -> Iterator[Hazard]:
    """What each trace of a compiled function does or reads anew: fewer traces would show."""
    hazards = effects.of_function(function)
    for found in lasting_hazards(hazards, Captures((), (), (), ()), [function.node], function.module):
        runs = found.reason == "host-effect" and found.what.startswith(_AT_RUN_TIME)
        if found.reason in _OF_A_TRACE and not runs:
            yield found
