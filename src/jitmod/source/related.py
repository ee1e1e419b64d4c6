"""Which files have to do with JAX: decided on bytes, before anything is decoded or parsed.

A finding needs a value of JAX or Equinox. It comes from a library that the file names itself, through an import from a
file that has to do with JAX, or it is passed by a caller, which reaches both. So a file without any way of imports to
one that names a library, and that no file with such a way reaches, has no site. Files that hang together by imports, in
either direction, are a part: what is known of one file may depend on every other file of its part, and on no other.

Imports are read generously: text that merely looks like one joins files that have nothing to do with each other, which
costs time and nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

_LIBRARIES = (b"jax", b"equinox", b"optax", b"flax", b"chex")
_COOKIE = re.compile(rb"^[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)", re.MULTILINE)
_LIKE_ASCII = re.compile(rb"utf-?8|latin-?1|ascii|us-ascii|iso-?8859-?\d+|cp125\d|windows-125\d", re.IGNORECASE)
# from `import` or `from` to the end of the logical line
_IMPORT = re.compile(rb"\b(?:from|import)\b(?:[^\\\n\r(#;]++|\\\r?\n|\\\r|\((?:[^)#]++|#[^\n\r]*+)*+\))*+")
_DOTTED = re.compile(rb"[\w.\x80-\xff]+")
_NAME = re.compile(rb"[A-Za-z_\x80-\xff][\w\x80-\xff]*")
_CODE = re.compile(rb"\b(?:import|def|class)\b|[=(]")
_DYNAMIC = (b"import_module", b"__import__", b"spec_from_file", b"runpy", b"exec(", b"SourceFileLoader")
_INIT = "__init__"


@dataclass(frozen=True)
class Related:
    """`parts` are the files that must be read together; `sites` are the files that may have one."""

    parts: tuple[tuple[str, ...], ...]
    sites: frozenset[str]


@dataclass(frozen=True)
class _File:
    path: str
    folder: str
    stem: str  # of a package's `__init__` the name of its folder
    is_init: bool
    is_inert: bool


def related(contents: Mapping[str, bytes], recorded: Iterable[str] = ()) -> Related:
    """The files that have to do with JAX, of all of a project's by path. `recorded` are files that a recording saw."""
    named = {path for path, data in contents.items() if _names_library(data)} | (set(recorded) & set(contents))
    if 2 * len(named) > len(contents):  # nothing is to be gained by looking closer
        return Related((tuple(sorted(contents)),), frozenset(contents))
    imports = _imports(contents)
    importers: dict[str, set[str]] = {}
    for path, targets in imports.items():
        for target in targets:
            importers.setdefault(target, set()).add(path)
    reaching = _closure(named, importers)
    sites = _closure(reaching, imports)
    if any(word in contents[path] for path in sites for word in _DYNAMIC):  # what that loads cannot be seen
        return Related((tuple(sorted(contents)),), frozenset(sites))
    parts: list[tuple[str, ...]] = []
    taken: set[str] = set()
    for path in sorted(sites):
        if path not in taken:
            part = _closure({path}, imports, importers)
            taken |= part
            parts.append(tuple(sorted(part | _inits_above(part, contents))))
    return Related(tuple(parts), frozenset(sites))


def _names_library(data: bytes) -> bool:
    if any(library in data for library in _LIBRARIES):
        return True
    cookie = _COOKIE.search(data[:300])
    return cookie is not None and _LIKE_ASCII.fullmatch(cookie[1]) is None


def _closure(start: Iterable[str], *steps: Mapping[str, set[str]]) -> set[str]:
    found = set(start)
    todo = list(found)
    while todo:
        path = todo.pop()
        for step in steps:
            fresh = step.get(path, set()) - found
            found |= fresh
            todo += fresh
    return found


def _inits_above(part: Iterable[str], contents: Mapping[str, bytes]) -> set[str]:
    """The `__init__` files of the packages that hold the files: they make up the names of modules."""
    inits = {f"{folder}/{_INIT}.py" for path in part for folder in _folders(path)} | {f"{_INIT}.py"}
    return {path for path in inits if path in contents}


def _folders(path: str) -> Sequence[str]:
    """The folders that hold a file, without the root, the nearest first."""
    return [str(parent) for parent in PurePosixPath(path).parents][:-1]


def _imports(contents: Mapping[str, bytes]) -> dict[str, set[str]]:
    """The files of the project that a file may import."""
    files = [_file(path, data) for path, data in contents.items()]
    index = _Index.of([file for file in files if file.path.endswith(".py")])
    found: dict[str, set[str]] = {}
    for file in files:
        targets = index.targets(file, contents[file.path])
        targets.discard(file.path)
        if targets:
            found[file.path] = targets
    return found


def _file(path: str, data: bytes) -> _File:
    pure = PurePosixPath(path)
    folder = "" if str(pure.parent) == "." else str(pure.parent)
    is_init = pure.name == f"{_INIT}.py"
    return _File(path, folder, pure.parent.name if is_init else pure.stem, is_init, _CODE.search(data) is None)


@dataclass(frozen=True)
class _Index:
    """The modules of a project by the words with which an import may name them."""

    packages: frozenset[str]  # folders with an `__init__`
    package_names: frozenset[str]
    at: Mapping[tuple[str, str], Sequence[str]]  # by the folder around and the name
    by_parent: Mapping[str, Mapping[str, Sequence[str]]]  # by name, then by the name of the package around
    free: Mapping[str, Sequence[str]]  # by name: modules in no package
    below: Mapping[str, Mapping[str, Sequence[str]]]  # by the name of a folder above, then by name
    unusual: Sequence[str]  # modules whose name is not ASCII

    @classmethod
    def of(cls, files: Sequence[_File]) -> _Index:
        packages = frozenset(file.folder for file in files if file.is_init)
        at: dict[tuple[str, str], list[str]] = {}
        by_parent: dict[str, dict[str, list[str]]] = {}
        free: dict[str, list[str]] = {}
        below: dict[str, dict[str, list[str]]] = {}
        unusual: list[str] = []
        for file in files:
            around = str(PurePosixPath(file.folder).parent) if file.is_init else file.folder
            around = "" if around == "." else around
            for folder in (PurePosixPath(around), *PurePosixPath(around).parents) if around else ():
                below.setdefault(folder.name, {}).setdefault(file.stem, []).append(file.path)
            if file.is_inert:
                continue
            at.setdefault((around, file.stem), []).append(file.path)
            by_parent.setdefault(file.stem, {}).setdefault(PurePosixPath(around).name, []).append(file.path)
            if around not in packages:
                free.setdefault(file.stem, []).append(file.path)
            if not file.stem.isascii():
                unusual.append(file.path)
        names = frozenset(below)
        return cls(packages, names, at, by_parent, free, below, unusual)

    def targets(self, file: _File, data: bytes) -> set[str]:
        found: set[str] = set()
        if file.path.endswith(".ipynb"):
            data = data.replace(b"\\n", b"\n").replace(b"\\r", b"\r")
        folders = [file.folder, *[str(parent) for parent in PurePosixPath(file.folder).parents if str(parent) != "."]]
        folders = [*dict.fromkeys([*folders, ""])]
        for folder in folders:
            found.update(self.at.get(_split(folder), ()) if folder in self.packages else ())
            found.update(self.at.get((folder, "conftest"), ()))  # pytest hands its fixtures to every test below
        mentioned: set[str] = set()
        for text in set(_IMPORT.findall(data)):
            if text.startswith(b"from") and b"import" not in text:
                continue
            dotted = _DOTTED.findall(text)[1:]
            names = {part.decode("latin-1") for name in dotted for part in name.split(b".") if part}
            if not text.isascii():
                found.update(self.unusual)
            head = dotted[0].decode("latin-1").partition(".")[0] if dotted and text.startswith(b"from") else None
            for name in names:
                for folder in folders:
                    found.update(self.at.get((folder, name), ()))
                parents = self.by_parent.get(name)
                if parents:
                    for parent in names & parents.keys():
                        found.update(parents[parent])
                if name in self.free and (head is None or head == name):
                    found.update(self.free[name])
            bound = dotted[1:] if text.startswith(b"from") else dotted
            whole = {name.rpartition(b".")[2].decode("latin-1") for name in bound} & self.package_names
            if whole:  # `import package`, and then `package.module.f(...)`
                mentioned = mentioned or {name.decode("latin-1") for name in set(_NAME.findall(data))}
                for package in whole:
                    for name in mentioned & self.below[package].keys():
                        found.update(self.below[package][name])
        return found


def _split(folder: str) -> tuple[str, str]:
    around, _, name = folder.rpartition("/")
    return around, name
