"""A world: one version of the project, loaded beside others in one process.

Its modules are in `sys.modules` only while it is active. Every call of project code happens inside `with world:`,
because lazy imports, pickling and `sys.modules[cls.__module__]` would mix two versions otherwise.
"""

from __future__ import annotations

import builtins
import importlib
import importlib.util
import os
import sys
from collections.abc import Collection, Mapping
from types import ModuleType, TracebackType
from typing import Any

from . import doors
from .finder import Transform, Tree, WorldFinder
from .state import ProcessState


class World:
    """The modules of `tree`. `transform` sees every syntax tree, `injected` are names given to every module.

    `folder` is the current folder of its calls, the user's own if it is not given.
    """

    def __init__(
        self,
        tree: Tree,
        transform: Transform | None = None,
        injected: Mapping[str, Any] | None = None,
        folder: str | None = None,
    ) -> None:
        self.tree = tree
        self.folder = folder or tree.user_root
        self._finder = WorldFinder(tree, transform, injected or {})
        self._modules: dict[str, ModuleType] = {}
        self._extra_roots: list[str] = []
        self._state: ProcessState | None = None
        self._outer: ProcessState | None = None
        self._before: set[str] = set()

    def __enter__(self) -> World:
        self._outer = ProcessState.capture()
        if self._state is None:
            sys.meta_path.insert(0, self._finder)
            roots = [self.tree.place("src")] if self.tree.has_folder("src") else []
            sys.path[:0] = [self.tree.user_root, *roots]
            os.chdir(self.folder)
        else:
            self._state.restore()
        doors.enter(self._finder)
        vars(builtins).update(self._finder.injected)  # a script that is run by path has its names from nowhere else
        self._before = set(sys.modules)
        sys.modules.update(self._modules)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for name in list(sys.modules):
            if name in self._modules or (name not in self._before and self._owns(sys.modules[name])):
                self._modules[name] = sys.modules.pop(name)
        doors.leave()
        for name in self._finder.injected:
            vars(builtins).pop(name, None)
        self._state = ProcessState.capture()
        assert self._outer is not None
        self._outer.restore()

    @property
    def modules(self) -> dict[str, ModuleType]:
        """The project's modules as this world has them; complete while the world is not active."""
        return dict(self._modules)

    def executions(self, paths: Collection[str]) -> int:
        """How often the bodies of these files were run."""
        return sum(self._finder.executed[path] for path in paths)

    def seconds(self, paths: Collection[str]) -> float:
        """How long it took to load these files, without what they import."""
        return sum(self._finder.seconds[path] for path in paths)

    def _owns(self, module: ModuleType) -> bool:
        """Does it belong to this version of the project? Files that git does not know do: they may import it."""
        names = getattr(module, "__dict__", {})
        spec = names.get("__spec__")
        places = [names.get("__file__"), getattr(spec, "origin", None)]
        if not any(places):
            places = list(getattr(spec, "submodule_search_locations", None) or [])
        return any(isinstance(p, str) and (self.tree.relative(p) is not None or self._is_extra(p)) for p in places)

    def _is_extra(self, place: str) -> bool:
        return any(os.path.realpath(place).startswith(root + os.sep) for root in self._extra_roots)

    def add_root(self, folder: str) -> None:
        """Make the modules of `folder` importable, and this world's own where it lies outside the project."""
        if self.tree.relative(folder) is None:
            self._extra_roots.append(os.path.realpath(folder))
        if folder in sys.path:
            sys.path.remove(folder)
        sys.path.insert(0, folder)

    def find(self, file: str) -> str:
        """Where the user has the file at a path, relative to the root or absolute. Raises FileNotFoundError."""
        relative = self.tree.relative(os.path.join(self.tree.user_root, file))
        place = self.tree.place(relative) if relative is not None else os.path.realpath(file)
        if not os.path.isfile(place) and (relative is None or self.tree.source(relative) is None):
            raise FileNotFoundError(f"there is no file {file} in {self.tree.user_root}")
        return place

    def import_file(self, file: str) -> ModuleType:
        """Import a file by its path, relative to the project's root or absolute. The world must be active.

        A file of a package is imported as a member of it, so that its relative imports work.
        """
        place = self.find(file)
        relative = self.tree.relative(place)
        in_arm = relative is not None and self.tree.source(relative) is not None
        folder, name = os.path.dirname(place), os.path.basename(place).removesuffix(".py")
        while self._is_package(folder):
            folder, parent = os.path.split(folder)
            name = f"{parent}.{name}"
        self.add_root(folder)
        name = name.removesuffix(".__init__")
        if name in self._before and name not in self._modules:  # a library of that name is loaded already
            name = "_jitmod_workload_" + name.replace(".", "_")
            if name in sys.modules:
                return sys.modules[name]
            spec = self._finder.spec(name, relative) if in_arm and relative else None
            spec = spec or importlib.util.spec_from_file_location(name, place)
            assert spec is not None and spec.loader is not None
            module = importlib.util.module_from_spec(spec)
            sys.modules[name] = module
            spec.loader.exec_module(module)
            return module
        return importlib.import_module(name)

    def _is_package(self, folder: str) -> bool:
        relative = self.tree.relative(folder)
        tracked = relative is not None and self.tree.source(f"{relative}/__init__.py".lstrip("/")) is not None
        return tracked or os.path.isfile(os.path.join(folder, "__init__.py"))
