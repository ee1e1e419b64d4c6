"""Files that a command writes because it was told to."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from jitmod.cli.session import UsageError


def write_whole(output: Path, text: str) -> None:
    """Write a whole file or leave what was there; what is no regular file (a pipe, /dev/stdout) is written as it is.

    Raises `UsageError`.
    """
    part = output.with_name(f".{output.name}.{os.getpid()}")
    target = output if output.exists() and not output.is_file() else part
    try:
        target.write_text(text, encoding="utf-8")
        if target is part:
            os.replace(part, output)
    except OSError as error:
        with contextlib.suppress(OSError):
            part.unlink()
        raise UsageError(f"--output {output}: cannot be written: {error.strerror}") from None
