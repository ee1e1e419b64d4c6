"""The import hook of a recording: files of the project are loaded with probes, everything else as always."""

from __future__ import annotations

import ast
import hashlib
import os
import sys
from collections.abc import Mapping, Sequence
from importlib.machinery import ModuleSpec, SourceFileLoader
from types import CodeType, ModuleType
from typing import Any

from .record_transform import Wanted, instrumented


class Plan:
    """What to watch, by file. Files whose contents are not those that were planned for are left alone."""

    def __init__(self, files: Sequence[Mapping[str, Any]]) -> None:
        self._digests = {entry["file"]: entry["digest"] for entry in files}
        self._texts = {entry["file"]: entry["text"] for entry in files}
        self._wanted = {
            entry["file"]: Wanted(
                {(f["qualname"], f["line"]): f["number"] for f in entry["functions"]},
                {(s["line"], s["column"]): s["number"] for s in entry["sites"]},
                {(loop["line"], loop["column"]): loop["number"] for loop in entry["loops"]},
            )
            for entry in files
        }

    def holds(self, file: str) -> bool:
        return os.path.realpath(file) in self._wanted

    def code(self, file: str, source: bytes) -> bytes:
        """The Python in a file with these contents: those of a notebook are known from the plan."""
        text = self._texts.get(os.path.realpath(file))
        return source if text is None else text.encode()

    def tree(self, file: str, source: bytes) -> ast.Module | None:
        """The file's syntax tree with probes; None where it is not to be watched. Raises SyntaxError."""
        real = os.path.realpath(file)
        if real not in self._wanted or hashlib.sha256(source).hexdigest() != self._digests[real]:
            return None
        code = self.code(file, source)
        tree = ast.parse(code, file)
        return instrumented(tree, _text(code), self._wanted[real])


class RecordingLoader(SourceFileLoader):
    """Compiles one file with its probes; no bytecode is read or written."""

    def __init__(self, name: str, path: str, plan: Plan) -> None:
        super().__init__(name, path)
        self._plan = plan

    def get_code(self, fullname: str) -> CodeType | None:
        try:
            tree = self._plan.tree(self.path, self.get_data(self.path))
            if tree is not None:
                return compile(tree, self.path, "exec", dont_inherit=True)
        except Exception:  # whatever it is, the plain import says it better
            pass
        return super().get_code(fullname)


class RecordingFinder:
    """Stands on `sys.meta_path`, lets the others find, and takes over the loading of planned files.

    A loader of another kind (assertions of pytest, type checkers) keeps its own way with a file.
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan

    def foreign(self) -> dict[str, str]:
        """The planned files that are loaded, but by a loader of another kind, and its name."""
        found = {}
        for name, module in list(sys.modules.items()):
            file, loader = getattr(module, "__file__", None), type(getattr(module, "__loader__", None))
            ours = name == "__main__" or loader is RecordingLoader
            if isinstance(file, str) and not ours and self._plan.holds(file):
                found[os.path.realpath(file)] = f"{loader.__module__}.{loader.__qualname__}"
        return found

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        for finder in sys.meta_path:
            find = getattr(finder, "find_spec", None)
            if finder is self or find is None:
                continue
            spec: ModuleSpec | None = find(name, path, target)
            if spec is not None:
                if type(spec.loader) is SourceFileLoader and spec.origin and self._plan.holds(spec.origin):
                    spec.loader = RecordingLoader(name, spec.loader.path, self._plan)
                return spec
        return None


def _text(source: bytes) -> bytes:
    """The text in UTF-8: the coordinates of ast."""
    import io
    import tokenize

    encoding, _ = tokenize.detect_encoding(io.BytesIO(source).readline)
    return source.decode(encoding).encode()
