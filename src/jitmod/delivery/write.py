"""Accepted patches in the user's own files: none that was changed since, none without a copy of what was there."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from jitmod.delivery.repository import DeliveryError
from jitmod.model import Patch, Verdict


class FileChanged(Exception):
    """The user's file is not what was tried any more."""


class WritePlace:
    """Trials read a scratch copy of the files; what is accepted changes the copy and the user's file alike."""

    def __init__(self, scratch: Path, tip: str, user_root: Path, backups: Path) -> None:
        self.root, self.tip = scratch, tip
        self._user_root = user_root
        self.backup = backups / f"{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}"
        self.written: list[str] = []

    def keep(
        self, patch: Patch, content: bytes, verdict: Verdict, evidence: Mapping[str, Any], added: Mapping[str, bytes]
    ) -> str | None:
        """Raises `FileChanged`."""
        path = patch.site.path
        file, copy = self._user_root / path, self.root / path
        if file.read_bytes() != copy.read_bytes():
            raise FileChanged(f"{path} was changed by someone else during the trial: run again")
        if path not in self.written:
            kept = self.backup / path
            kept.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(file, kept)
            self.written.append(path)
        replace_file(file, content)
        copy.write_bytes(content)
        for other, text in added.items():
            for root in (self._user_root, self.root):
                (root / other).parent.mkdir(parents=True, exist_ok=True)
                (root / other).write_bytes(text)
            self.written.append(other)
        return None

    def file_evidence(self, result: Any) -> str | None:
        digest: str | None = result.verdict.evidence_digest
        return digest


def check_clean(dirty: Sequence[str], wanted: Sequence[str]) -> None:
    """Raise `DeliveryError` where a file that may be written differs from what is committed."""
    mixed = sorted(set(dirty) & set(wanted))
    if mixed:
        raise DeliveryError(
            f"{', '.join(mixed[:3])}{' and others' if len(mixed) > 3 else ''}: not committed, so --write would mix "
            f"your changes with its own; commit or stash first"
        )


def replace_file(file: Path, content: bytes) -> None:
    """All or nothing, with the file's mode."""
    handle, name = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")
    try:
        with os.fdopen(handle, "wb") as unfinished:
            unfinished.write(content)
        if file.exists():
            shutil.copymode(file, name)
        os.replace(name, file)
    except BaseException:
        os.unlink(name)
        raise
