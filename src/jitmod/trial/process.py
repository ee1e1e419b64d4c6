"""Starting a child, and getting its evidence back whatever happens to it."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

from jitmod.trial import descendants
from jitmod.trial.environment import child_environment
from jitmod.trial.scratch import is_full, no_room, scratch

_CHILD = Path(__file__).parent / "child"
_GRACE = 3.0  # seconds between the child's own deadline and its end by force
_TAIL = 8000
_SHOWN = 600
_SHORT = 60  # characters: the names of sockets, which Python makes in the temporary folder, have 104 at most
_FULL = f"[Errno {errno.ENOSPC}]"  # as exceptions of the project say it
_FATAL = re.compile(r"Fatal Python error|Timeout \(")

# The child's folder becomes the package `_jitmod_child`; the folder that `python -c` puts on the path goes.
_BOOT = """
import importlib.util, os, sys
sys.path[:] = [entry for entry in sys.path if entry]
folder, request, descriptor = sys.argv[1:]
spec = importlib.util.spec_from_file_location(
    "_jitmod_child", os.path.join(folder, "__init__.py"), submodule_search_locations=[folder])
sys.modules["_jitmod_child"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(sys.modules["_jitmod_child"])
from _jitmod_child.main import main
main(request, int(descriptor))
"""


def run_child(
    request: Mapping[str, Any], *, python: Path, folder: Path, seconds: float, environ: Mapping[str, str],
    settings: Mapping[str, str] | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Run one role of a trial and return its evidence; `failure` in it says how the child ended, if not well.

    `settings` are variables of its environment beside those that it may have of `environ`.

    The child has its own process group, which is ended with all that it started, and a folder of its own for what it
    prints. Raises `ScratchError` where that could not hold what the child wrote: then nothing was learnt of any patch.
    """
    with scratch() as own:
        request_file = own / "request.json"
        start = [str(python), "-c", _BOOT, str(_CHILD)]  # also for children of its own
        details = {"seconds": seconds, "scratch": str(own), "command": start}
        try:
            request_file.write_text(json.dumps({**request, **details}), encoding="utf-8")
        except OSError as error:
            raise no_room(error) from None
        with (own / "evidence").open("w+b") as evidence, (own / "output").open("w+b") as output:
            descriptor = evidence.fileno()
            command = [*start, str(request_file), str(descriptor)]
            environment = child_environment(environ) | dict(settings or {}) | _private(own)
            try:
                child = subprocess.Popen(
                    command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                    pass_fds=(descriptor,), start_new_session=True,
                )  # fmt: skip
            except OSError as error:
                return {"failure": {"how": f"cannot start {python}: {error.strerror}", "stage": "starting", "tail": ""}}
            try:
                ended = _wait(child, seconds + _GRACE)
            finally:
                descendants.end(own)
            found = _read(evidence)
            done = found.pop("done", False)
            if is_full(own) and (not done or _FULL in json.dumps(found)):
                raise no_room(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(own.parent)))
            if not done:
                how = ended or f"ended early with exit status {child.returncode}"
                found["failure"] = {"how": how, "stage": found.get("stage", "starting"), "tail": _tail(output)}
            return found


def _private(own: Path) -> dict[str, str]:
    """Temporary files of the project go with the scratch folder, and its processes can be found by it."""
    temporary = own / "t"
    temporary.mkdir()
    known = {descendants.MARK: str(own)}
    return known | ({"TMPDIR": str(temporary)} if len(str(own)) <= _SHORT else {})


def _wait(child: subprocess.Popen[bytes], seconds: float) -> str | None:
    """How the child was ended by force; None where it exited."""
    try:
        child.wait(seconds)
    except subprocess.TimeoutExpired:
        return f"did not finish within {seconds:.0f} s"
    finally:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()
    if child.returncode >= 0:
        return None
    name = signal.Signals(-child.returncode).name
    return f"was ended by {name}" + (" (out of memory?)" if name == "SIGKILL" else "")


def _read(evidence: IO[bytes]) -> dict[str, Any]:
    evidence.seek(0)
    found: dict[str, Any] = {}
    for line in evidence:
        with contextlib.suppress(ValueError):  # the last line may be cut
            found |= json.loads(line)
    return found


def _tail(output: IO[bytes]) -> str:
    """The end of what the child said, without the frames of the trial itself."""
    size = output.seek(0, os.SEEK_END)
    output.seek(max(0, size - _TAIL))
    text = output.read().decode("utf-8", errors="replace")
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]|[\x00-\x08\x0b-\x1f\x7f]", "", text)
    skipped = (f'"{_CHILD}', "frozen importlib", "Extension modules:")
    text = "\n".join(line for line in text.splitlines() if not any(mark in line for mark in skipped)).strip()
    fatal = _FATAL.search(text)  # the interpreter's own report has the most recent call first, an exception's last
    return text[fatal.start() :][:_SHOWN] if fatal else text[-_SHOWN:]
