"""One arm alone in its process: what a warm call of it needs. Peaks cannot be told apart where both arms live."""

from __future__ import annotations

import time

import jax

from .arms import Bench
from .channel import Channel
from .program import describe
from .room import Peak, memory_in_use, room
from .served import Opening, Served

_CALLS = 3
_TRACED = 3  # calls in a trace
_SLOW = 20.0  # seconds of a call that is made only once more


def solo(bench: Bench, channel: Channel, deadline: float, opening: Opening, peak: Peak) -> None:
    """Report what a warm call needs, in bytes, and the room that there was for it.

    On a CPU that is how far the memory of the process grows in a call, on a GPU the peak of all that lies there. What
    the compiler said of its largest compiled function goes with it.
    """
    device = jax.devices()[0]
    channel.stage(f"{opening.how}: alone")
    needs: list[int] = []
    try:
        with Served(bench, opening) as arm:
            found = room(device)
            if found is not None:
                channel.put("room", {"size": found.size, "what": found.what})
            for number in range(_CALLS):
                start = time.monotonic()
                grown = arm.grow(peak)
                if number and grown is not None:  # the first call compiles
                    needs.append(grown)
                if number and time.monotonic() - start > min(_SLOW, deadline - time.monotonic()):
                    break
            channel.put("predicted", arm.predicted())
    except (Exception, SystemExit) as error:
        channel.put("error", describe(error))
        return
    channel.put("needs", memory_in_use(device) or max(needs, default=None))


def profile(bench: Bench, channel: Channel, opening: Opening, traces: str) -> None:
    """Write a trace of warm calls to the folder `traces`."""
    channel.stage(f"{opening.how}: in the profiler")
    try:
        with Served(bench, opening) as arm:
            arm.grow(None)
            with jax.profiler.trace(traces):
                for _ in range(_TRACED):
                    arm.grow(None)
    except (Exception, SystemExit) as error:
        channel.put("error", describe(error))
