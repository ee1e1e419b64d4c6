"""Entry of the child: read the request, do one role of a trial, report on the evidence descriptor."""

from __future__ import annotations

import contextlib
import faulthandler
import json
import os
import platform
import sys
import time
import traceback
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import guard, orphans
from .channel import Channel
from .room import Peak

if TYPE_CHECKING:
    from .arms import Bench

_PLUGINS = ("jax-cuda12-plugin", "jax-cuda13-plugin", "jax-rocm7-plugin")
_ALLOCATOR = ("XLA_PYTHON_CLIENT_PREALLOCATE", "XLA_PYTHON_CLIENT_MEM_FRACTION", "XLA_PYTHON_CLIENT_ALLOCATOR",
              "TF_GPU_ALLOCATOR")  # fmt: skip


def main(request_file: str, descriptor: int) -> None:
    """Never returns: the process ends here, whatever threads the workload left behind."""
    request = json.loads(Path(request_file).read_text(encoding="utf-8"))
    orphans.end_with_parent()
    orphans.go_first()
    peak = Peak()
    guard.protect(request["user_root"], request["scratch"])
    deadline = time.monotonic() + request["seconds"]
    status = 1
    try:
        if request["role"] == "arm":
            _serve_arm(request, descriptor, deadline)
        else:
            channel = Channel(descriptor)
            _serve(request, channel, deadline, peak)
            channel.put("done", True)
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def _serve(request: dict[str, Any], channel: Channel, deadline: float, peak: Peak) -> None:
    """Explore, measure, or look at one arm alone; `paired` says why every arm is to have its own process, if it is."""
    channel.stage("starting: importing jax")
    try:
        import jax
    except ImportError as error:
        channel.put("problem", {"status": "unproven", "why": f"{sys.executable} cannot import jax: {error}"})
        return
    # The imports below need jax, and a missing jax is to be said in words.
    from .hosts import Host, Paired, Together

    job, why = request["job"], request.get("paired")
    bench = _bench(request)
    channel.put("arms", {"processes": 2 if why else 1, "why": why or ""})
    channel.stage("starting: finding a device")
    if request["role"] in ("solo", "profile"):
        from .served import Opening
        from .solo import profile, solo

        _watch_for_hangs(deadline)
        opening = Opening(**request["opening"])
        if request["role"] == "profile":
            profile(bench, channel, opening, request["traces"])
        else:
            solo(bench, channel, deadline, opening, peak)
        return
    host: Host
    if why:
        host = Paired(bench, request, channel, deadline)
    else:
        _watch_for_hangs(deadline)
        device = jax.devices()[0]
        for key, value in _facts(device).items():
            channel.put(key, value)
        if job["require_gpu"] and device.platform not in {"gpu", "cuda", "rocm"}:
            return
        host = Together(bench)
    if request["role"] == "explore":
        from .explore import explore

        explore(host, channel, deadline, request.get("ruled_out", {}))
    else:
        from .measure import measure

        options = {key: request[key] for key in ("chosen", "seed", "steps", "patient")}
        measure(host, channel, deadline, **options)


def _serve_arm(request: dict[str, Any], descriptor: int, deadline: float) -> None:
    """One arm of a pair, for the process that started this one."""
    from multiprocessing.connection import Connection

    import jax

    from .hosts import serve
    from .room import room
    from .served import Opening

    os.set_inheritable(descriptor, False)  # programs that the workload starts do not get it
    _watch_for_hangs(deadline)
    bench = _bench(request)
    device = jax.devices()[0]
    serve(bench, Opening(**request["opening"]), {**_facts(device), "room": room(device)}, Connection(descriptor))


def _bench(request: dict[str, Any]) -> Bench:
    from . import bars, capture, logs
    from .arms import Bench, Place

    sys.argv[:] = [request["job"]["workload"]["run"].partition(":")[0]]
    bench = Bench(
        request["job"], Place(request["code_root"], request["user_root"], request["scratch"]), capture.install()
    )
    if request.get("asked", request["role"]) == "explore":
        bars.listen()
        logs.listen(bench.any_tree)
    return bench


def _watch_for_hangs(deadline: float) -> None:
    """A hang shows where it hangs, a crash of the interpreter where it was."""
    shown = os.dup(2)  # whatever the workload does to the descriptor
    faulthandler.enable(shown)
    faulthandler.dump_traceback_later(deadline - time.monotonic() + 1.0, file=shown)


def _facts(device: Any) -> dict[str, Any]:
    import jax

    found = {"platform": device.platform, "kind": device.device_kind, "count": jax.device_count()}
    if hasattr(os, "sched_getaffinity"):
        found["cpus"] = len(os.sched_getaffinity(0))
    allocator = {name: os.environ[name] for name in _ALLOCATOR if name in os.environ}
    if device.platform != "cpu":
        found["allocator"] = allocator  # of jax, where it is not as jax has it
    return {"device": found, "versions": _versions()}


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for name in ("jax", "jaxlib", "equinox", "numpy"):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = "none"
    for name in _PLUGINS:
        with contextlib.suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    return found
