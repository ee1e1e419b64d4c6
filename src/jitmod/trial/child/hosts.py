"""Where arms live: beside each other in this process, or each in a process of its own."""

from __future__ import annotations

import dataclasses
import faulthandler
import itertools
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from multiprocessing.connection import Connection
from typing import Any, Protocol

import jax

from .arms import Bench
from .channel import Channel
from .program import Elsewhere, Observation, WorkloadError, describe
from .room import Room, room
from .sampling import Sample
from .served import Opening, Pace, Seen, Served

_ENDING = 5.0  # seconds in which an arm that is no longer needed may end by itself


class Arm(Protocol):
    """`Served`, wherever it is."""

    takes_rep: bool

    def __enter__(self) -> Arm: ...
    def __exit__(self, *_: object) -> None: ...
    def observe(self, rep: int) -> Observation: ...
    def observe_moved(self, rep: int, names: Sequence[str]) -> Observation: ...
    def observe_set(self, rep: int, names: Sequence[str]) -> Observation: ...
    def first_call(self) -> tuple[Observation, dict[str, Any]]: ...
    def in_double(self, rep: int) -> Observation: ...
    def claims(self) -> list[str]: ...
    def seen(self) -> Seen: ...
    def restart_clock(self) -> None: ...
    def share(self, seconds: float) -> float | None: ...
    def site(self) -> tuple[dict[str, Any], dict[str, Any] | None]: ...
    def predicted(self) -> int | None: ...
    def prepare(self, mutates: bool, changed: Sequence[str]) -> None: ...
    def warm_up(self) -> Pace: ...
    def settle(self) -> None: ...
    def sample(self, batch: int, rep: int) -> Sample: ...
    def cold(self) -> dict[str, Any]: ...
    def novelty(self) -> dict[str, float] | None: ...
    def loading(self) -> dict[str, float]: ...


class Host(Protocol):
    """Opens the arms of a job. `is_paired`: each has a process of its own."""

    is_paired: bool

    @property
    def bench(self) -> Bench: ...
    def open(self, opening: Opening) -> Arm: ...
    def room(self) -> Room | None: ...


class Together:
    """All arms in this process, each in its world."""

    is_paired = False

    def __init__(self, bench: Bench) -> None:
        self.bench = bench

    def open(self, opening: Opening) -> Arm:
        return Served(self.bench, opening)

    def room(self) -> Room | None:
        """The memory that there is now."""
        return room(jax.devices()[0])


class Paired:
    """Every arm in its own process, and only one of them works at a time.

    This process never touches the device; it takes the device's name from the first arm that tells it.
    """

    is_paired = True

    def __init__(self, bench: Bench, request: Mapping[str, Any], channel: Channel, deadline: float) -> None:
        self.bench = bench
        self._request, self._channel, self._deadline = request, channel, deadline
        self._numbers = itertools.count(1)
        self._told = False
        self._room: Room | None = None

    def room(self) -> Room | None:
        """The memory that there was for the last arm, when it was loaded."""
        return self._room

    def open(self, opening: Opening) -> Arm:
        own = os.path.join(self.bench.place.scratch, f"arm{next(self._numbers)}")
        os.makedirs(own)
        request_file = os.path.join(own, "request.json")
        alone = dataclasses.replace(opening, alone=True)
        details = {
            "role": "arm", "asked": self._request["role"], "opening": dataclasses.asdict(alone), "scratch": own,
            "seconds": max(1.0, self._deadline - time.monotonic()),
        }  # fmt: skip
        with open(request_file, "w", encoding="utf-8") as file:
            json.dump({**self._request, **details}, file)
        ours, theirs = multiprocessing.Pipe()
        with theirs:
            descriptor = theirs.fileno()
            process = subprocess.Popen(
                [*self._request["command"], request_file, str(descriptor)], stdin=subprocess.DEVNULL,
                env={**os.environ, "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}, pass_fds=(descriptor,),
            )  # fmt: skip
        arm = Remote(process, ours)
        facts = arm.start()
        self._room = facts["room"]
        if not self._told:
            for key in ("device", "versions"):
                self._channel.put(key, facts[key])
            self._told = True
        return arm


class Remote:
    """An arm in another process. Where that ends unasked, this one ends in the same way, for the trial's parent."""

    takes_rep = False

    def __init__(self, process: subprocess.Popen[bytes], connection: Connection) -> None:
        self._process, self._connection = process, connection

    def start(self) -> dict[str, Any]:
        """Wait until the arm is loaded; what it says of itself. Raises what loading raised."""
        try:
            facts: dict[str, Any] = self._answer()
        except BaseException:
            self.__exit__()
            raise
        self.takes_rep = facts["takes_rep"]
        return facts

    def __enter__(self) -> Remote:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()
        try:
            self._process.wait(_ENDING)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _ask(self, method: str, *arguments: Any) -> Any:
        self._connection.send((method, arguments))
        return self._answer()

    def _answer(self) -> Any:
        try:
            kind, value = self._connection.recv()
        except (EOFError, ConnectionError):
            _end_like(self._process.wait())
        match kind:
            case "value":
                return value
            case "unusable":
                raise WorkloadError(value)
            case _:
                raise Elsewhere(value)

    def observe(self, rep: int) -> Observation:
        return self._ask("observe", rep)  # type: ignore[no-any-return]

    def observe_moved(self, rep: int, names: Sequence[str]) -> Observation:
        return self._ask("observe_moved", rep, tuple(names))  # type: ignore[no-any-return]

    def observe_set(self, rep: int, names: Sequence[str]) -> Observation:
        return self._ask("observe_set", rep, tuple(names))  # type: ignore[no-any-return]

    def first_call(self) -> tuple[Observation, dict[str, Any]]:
        return self._ask("first_call")  # type: ignore[no-any-return]

    def in_double(self, rep: int) -> Observation:
        return self._ask("in_double", rep)  # type: ignore[no-any-return]

    def claims(self) -> list[str]:
        return self._ask("claims")  # type: ignore[no-any-return]

    def seen(self) -> Seen:
        return self._ask("seen")  # type: ignore[no-any-return]

    def restart_clock(self) -> None:
        self._ask("restart_clock")

    def share(self, seconds: float) -> float | None:
        return self._ask("share", seconds)  # type: ignore[no-any-return]

    def site(self) -> tuple[dict[str, Any], dict[str, Any] | None]:
        return self._ask("site")  # type: ignore[no-any-return]

    def predicted(self) -> int | None:
        return self._ask("predicted")  # type: ignore[no-any-return]

    def prepare(self, mutates: bool, changed: Sequence[str]) -> None:
        self._ask("prepare", mutates, tuple(changed))

    def warm_up(self) -> Pace:
        return self._ask("warm_up")  # type: ignore[no-any-return]

    def settle(self) -> None:
        self._ask("settle")

    def sample(self, batch: int, rep: int) -> Sample:
        return self._ask("sample", batch, rep)  # type: ignore[no-any-return]

    def cold(self) -> dict[str, Any]:
        return self._ask("cold")  # type: ignore[no-any-return]

    def novelty(self) -> dict[str, float] | None:
        return self._ask("novelty")  # type: ignore[no-any-return]

    def loading(self) -> dict[str, float]:
        return self._ask("loading")  # type: ignore[no-any-return]


def serve(bench: Bench, opening: Opening, facts: Mapping[str, Any], connection: Connection) -> None:
    """The other end of `Remote`, until that closes it."""
    try:
        arm = Served(bench, opening)
    except WorkloadError as error:
        connection.send(("unusable", str(error)))
        return
    except (Exception, SystemExit) as error:
        connection.send(("raised", describe(error)))
        return
    connection.send(("value", {**facts, "takes_rep": arm.takes_rep}))
    while True:
        try:
            method, arguments = connection.recv()
        except (EOFError, ConnectionError):
            return
        try:
            answer = "value", getattr(arm, method)(*arguments)
        except (Exception, SystemExit) as error:
            answer = "raised", describe(error)
        connection.send(answer)


def _end_like(status: int) -> None:
    sys.stdout.flush()
    sys.stderr.flush()
    if status < 0:
        faulthandler.disable()  # the arm has said where it was
        if -status != signal.SIGKILL:
            signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    os._exit(status)
