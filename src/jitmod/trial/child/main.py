"""Entry of the child: read the request, do one role of a trial, report on the evidence descriptor."""

from __future__ import annotations

import faulthandler
import json
import os
import platform
import sys
import time
import traceback
from importlib import metadata
from pathlib import Path
from typing import Any

from . import orphans
from .channel import Channel


def main(request_file: str, descriptor: int) -> None:
    """Never returns: the process ends here, whatever threads the workload left behind."""
    request = json.loads(Path(request_file).read_text(encoding="utf-8"))
    orphans.end_with_parent()
    channel = Channel(descriptor)
    status = 1
    try:
        _serve(request, channel)
        channel.put("done", True)
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def _serve(request: dict[str, Any], channel: Channel) -> None:
    deadline = time.monotonic() + request["seconds"]
    faulthandler.enable()
    faulthandler.dump_traceback_later(request["seconds"] + 1.0)  # a hang shows where it hangs
    channel.stage("starting: importing jax")
    try:
        import jax
    except ImportError as error:
        channel.put("problem", {"status": "unproven", "why": f"{sys.executable} cannot import jax: {error}"})
        return
    # The imports below need jax, and a missing jax is to be said in words.
    from . import capture
    from .arms import Bench, Place

    job = request["job"]
    place = Place(request["code_root"], request["user_root"], request["scratch"])
    bench = Bench(job, place, capture.install())
    sys.argv[:] = [job["workload"]["run"].rpartition(":")[0]]
    channel.stage("starting: finding a device")
    device = jax.devices()[0]
    channel.put("device", {"platform": device.platform, "kind": device.device_kind, "count": jax.device_count()})
    channel.put("versions", _versions())
    if job["require_gpu"] and device.platform not in {"gpu", "cuda", "rocm"}:
        return
    if request["role"] == "explore":
        from . import bars
        from .explore import explore

        bars.listen()
        explore(bench, channel, deadline)
    else:
        from .measure import measure

        options = {key: request[key] for key in ("chosen", "seed", "steps", "patient")}
        measure(bench, channel, deadline, **options)


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for name in ("jax", "jaxlib", "equinox", "numpy"):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = "none"
    return found
