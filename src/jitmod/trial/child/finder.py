"""Where a world's modules come from: text from the commit (and the patch), places from the user's tree.

`__file__`, `__path__` and data files are those of the user's tree, because data, compiled extensions and generated
files live there and are not in git. The source text of every file that the commit has comes from the commit.
"""

from __future__ import annotations

import ast
import contextlib
import os
import sys
import sysconfig
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location
from types import CodeType, ModuleType
from typing import Any

Transform = Callable[[str, ast.Module], ast.Module]
"""Rewrites the syntax tree of the file at a relative path; it must keep the tree's meaning, unless it sabotages."""

listeners: list[Callable[[ModuleType], None]] = []
"""Called with every module of the project after it was loaded."""

OLD = "<the baseline's "  # what the files of old functions that stand beside new ones are called
_STANDARD = os.path.realpath(sysconfig.get_paths()["stdlib"])


class Tree:
    """The project's files as one arm has them. Relative paths use `/` and are relative to the project's root."""

    def __init__(self, code_root: str, user_root: str, overlay: Mapping[str, str | None]) -> None:
        self.code_root = os.path.realpath(code_root)
        self.user_root = os.path.realpath(user_root)
        self.overlay = dict(overlay)
        self._relative: dict[str, str | None] = {}

    def relative(self, path: str) -> str | None:
        """`path` relative to the root; None where it is outside, or belongs to an installed library."""
        if path not in self._relative:
            self._relative[path] = self._find_relative(os.path.realpath(path))
        return self._relative[path]

    def has_code(self, file: str) -> bool:
        """Is it, by the file name of its code, a function of the project, of either version?"""
        return file.startswith(OLD) or self.relative(file) is not None

    def _find_relative(self, real: str) -> str | None:
        parts = real.split(os.sep)
        if "site-packages" in parts or "dist-packages" in parts or (real + os.sep).startswith(_STANDARD + os.sep):
            return None
        for root in (self.code_root, self.user_root):
            if real == root:
                return ""
            if real.startswith(root + os.sep):
                return real[len(root) + 1 :].replace(os.sep, "/")
        return None

    def source(self, relative: str) -> str | bytes | None:
        """The text of a file: the patch's, else the commit's; None where the arm has no such file."""
        if relative in self.overlay:
            return self.overlay[relative]
        try:
            with open(os.path.join(self.code_root, relative), "rb") as file:
                return file.read()
        except OSError:
            return None

    def has_folder(self, relative: str) -> bool:
        inside = relative + "/"
        return os.path.isdir(os.path.join(self.code_root, relative)) or any(p.startswith(inside) for p in self.overlay)

    def place(self, relative: str) -> str:
        """Where the user has it."""
        return os.path.join(self.user_root, *relative.split("/")) if relative else self.user_root


class WorldLoader(SourceFileLoader):
    """Loads one file of the arm's text under the user's file name. Nothing is read from or written to a cache."""

    def __init__(self, name: str, finder: WorldFinder, relative: str) -> None:
        super().__init__(name, finder.tree.place(relative))
        self._finder = finder
        self._tree = finder.tree
        self._relative_path = relative

    def get_data(self, path: str) -> bytes:
        relative = self._tree.relative(path)
        text = self._tree.source(relative) if relative is not None else None
        if text is None:
            return bytes(super().get_data(path))
        return text.encode() if isinstance(text, str) else text

    def get_code(self, fullname: str) -> CodeType:
        code = self._finder.code(self._relative_path, self.path)
        if code is None:
            raise ImportError(f"{self._relative_path} is not in this arm", name=fullname, path=self.path)
        return code

    def exec_module(self, module: ModuleType) -> None:
        vars(module).update(self._finder.injected)
        with self._finder.timed(self._relative_path):
            super().exec_module(module)
        for listener in listeners:
            listener(module)


class WorldFinder:
    """The meta-path finder of one world; it stands first on `sys.meta_path` while the world is active."""

    def __init__(self, tree: Tree, transform: Transform | None, injected: Mapping[str, Any]) -> None:
        self.tree = self._tree = tree
        self.injected = injected
        self.executed: Counter[str] = Counter()
        self.seconds: defaultdict[str, float] = defaultdict(float)  # that loading a file took, without its imports
        self._within: list[float] = []
        self._transform = transform

    @contextlib.contextmanager
    def timed(self, relative: str) -> Iterator[None]:
        """Count the seconds of the block for the file; those of blocks inside belong to other files."""
        start = time.perf_counter()
        self._within.append(0.0)
        try:
            yield
        finally:
            whole = time.perf_counter() - start
            self.seconds[relative] += whole - self._within.pop()
            if self._within:
                self._within[-1] += whole

    def code(self, relative: str, place: str) -> CodeType | None:
        """The code of the arm's file at `relative`, to be run once; None where the arm has no such file."""
        text = self._tree.source(relative)
        if text is None:
            return None
        syntax = ast.parse(text, place)
        if self._transform is not None:
            syntax = ast.fix_missing_locations(self._transform(relative, syntax))
        self.executed[relative] += 1
        return compile(syntax, place, "exec", dont_inherit=True)

    def code_of(self, file: str) -> CodeType | None:
        """The same for a place in the user's tree, or below the current folder, which looks like it."""
        place = os.path.join(os.getcwd(), file)
        relative = self._tree.relative(place)
        return None if relative is None else self.code(relative, self._tree.place(relative))

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        tail = name.rpartition(".")[2]
        portions: list[str] = []
        for entry in sys.path if path is None else path:
            folder = self._tree.relative(entry or os.getcwd())
            if folder is None:
                continue
            base = f"{folder}/{tail}" if folder else tail
            if self._tree.source(f"{base}/__init__.py") is not None:
                return self.spec(name, f"{base}/__init__.py")
            if self._tree.source(f"{base}.py") is not None:
                return self.spec(name, f"{base}.py")
            if self._tree.has_folder(base):
                portions.append(self._tree.place(base))
        return self._elsewhere(name, path, target, portions)

    def spec(self, name: str, relative: str) -> ModuleSpec:
        """The spec of the arm's file at `relative` under the module name `name`."""
        loader = WorldLoader(name, self, relative)
        package = [os.path.dirname(loader.path)] if relative.endswith("/__init__.py") else None
        spec = spec_from_file_location(name, loader.path, loader=loader, submodule_search_locations=package)
        assert spec is not None
        return spec

    def _elsewhere(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None, portions: list[str]
    ) -> ModuleSpec | None:
        """What the ordinary finders say: libraries, and files of the user's tree that git does not know.

        An editable install may map a package to any folder of the user's tree; its files come from the arm too.
        """
        removed = False
        for finder in sys.meta_path:
            if finder is self or not hasattr(finder, "find_spec"):
                continue
            spec = finder.find_spec(name, path, target)
            if spec is None:
                continue
            if spec.origin is None and spec.submodule_search_locations is not None:
                portions += [p for p in spec.submodule_search_locations if p not in portions]
                break
            relative = self._tree.relative(spec.origin) if spec.has_location and spec.origin else None
            if self._tree.overlay.get(relative or "", "") is None:
                removed = True  # the user has a file that this arm has not
                continue
            if relative is not None and relative.endswith(".py") and self._tree.source(relative) is not None:
                return self.spec(name, relative)
            return spec
        if not portions and removed:
            raise ModuleNotFoundError(f"this arm has no module {name}", name=name)
        if not portions:
            return None
        namespace = ModuleSpec(name, None, is_package=True)
        namespace.submodule_search_locations = portions
        return namespace
