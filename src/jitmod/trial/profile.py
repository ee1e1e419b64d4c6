"""A trace of jax's profiler for each arm of a trial."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jitmod.trial import gpu
from jitmod.trial.needs import ARMS
from jitmod.trial.process import run_child
from jitmod.trial.scratch import scratch

_SECONDS = 300.0


def profile(
    job: Mapping[str, Any], chosen: int, folder: Path, *, code_root: Path, user_root: Path, python: Path
) -> dict[str, str]:
    """Write the traces to `folder/baseline` and `folder/candidate`; why there is none of an arm, by its name.

    Each arm has a process of its own, and calls that are warm. A child may not write into the project, so it writes
    elsewhere first. Raises `OSError`.
    """
    failed: dict[str, str] = {}
    settings = gpu.pinned(gpu.pick(os.environ), os.environ)
    for arm in ARMS:
        with scratch() as traces:
            request = {
                "code_root": str(code_root.resolve()), "user_root": str(user_root.resolve()), "job": job,
                "role": "profile", "opening": {"how": arm, "number": chosen}, "traces": str(traces),
            }  # fmt: skip
            found = run_child(
                request, python=python, folder=user_root, seconds=_SECONDS, environ=os.environ, settings=settings
            )
            trouble = found.get("error") or found.get("failure")
            if trouble is not None:
                failed[arm] = trouble.get("text") or trouble["how"]
                continue
            shutil.copytree(traces, folder / arm, dirs_exist_ok=True)
    return failed
