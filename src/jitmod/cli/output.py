"""Files that a command writes because it was told to."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from jitmod.cli.session import UsageError


def is_stream(output: Path) -> bool:
    """Whether it is there and no regular file: a pipe, /dev/stdout, /dev/null."""
    return output.exists() and not output.is_file()


def write_whole(output: Path, text: str, *, made_of: Path | None = None) -> None:
    """Write a whole file or leave what was there; a stream is written as it is.

    Raises `UsageError`, also where that would write over `made_of`, the file that the text was made of.
    """
    if made_of is not None and output.is_file() and made_of.is_file() and output.samefile(made_of):
        raise UsageError(f"--output {output}: is the file that is read; name another")
    part = output.with_name(f".{output.name}.{os.getpid()}")
    target = output if is_stream(output) else part
    try:
        target.write_text(text, encoding="utf-8")
        if target is part:
            os.replace(part, output)
    except OSError as error:
        with contextlib.suppress(OSError):
            part.unlink()
        raise UsageError(f"--output {output}: cannot be written: {error.strerror}") from None
