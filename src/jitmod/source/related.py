"""Which files have to do with JAX: decided on bytes, before anything is decoded or parsed.

A finding needs a value of JAX or Equinox. It comes from a library that the file names itself, through an import from a
file that has to do with JAX, or it is passed by a caller, which reaches both. So a file without any way of imports to
one that names a library, and that no file with such a way reaches, has no site. What is known of a file with a site may
depend on every file that hangs together with one by imports, in either direction; on others it does not depend.

Imports are read generously: text that merely looks like one joins files that have nothing to do with each other, which
costs time and nothing else. A string names a module as well where one is patched or loaded (`patch("model.RATE")`).
A file with comments for us is looked at whatever it is about, so that one that is of no use is told.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

_LIBRARIES = (b"jax", b"JAX", b"equinox", b"optax", b"flax", b"chex")
_FOR_US = b"jitmod:"
_COOKIE = re.compile(rb"^[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)", re.MULTILINE)
_LIKE_ASCII = re.compile(rb"utf-?8|latin-?1|ascii|us-ascii|iso-?8859-?\d+|cp125\d|windows-125\d", re.IGNORECASE)
# from `import` or `from` to the end of the logical line
_IMPORT = re.compile(
    rb"\b(?:from|import)\b(?:[^\\\n\r(#;]++|\\\r?\n|\\\r|\((?:[\w\s,\\\x80-\xff]++|#[^\n\r]*+)*+\))*+"
)
_ORIGIN = re.compile(rb"from[\s\\]*([\w.\x80-\xff]+)[\s\\]+import\b")
_DOTTED = re.compile(rb"[\w.\x80-\xff]+")
_NAME = re.compile(rb"[A-Za-z_\x80-\xff][\w\x80-\xff]*")
_CODE = re.compile(rb"\b(?:import|def|class)\b|[=(]|^[ \t]*(?:for|with|match)\b", re.MULTILINE)
_DYNAMIC = (b"import_module", b"__import__", b"spec_from_file", b"runpy", b"exec(", b"SourceFileLoader")
_BY_NAME = (*_DYNAMIC, b"patch(", b"patch.", b"setattr(", b"delattr(", b"setitem(", b"modules[", b"modules.",
            b"pytest_plugins", b"resolve_name")  # fmt: skip
_STRING = re.compile(rb"[\"']([.\w/\x80-\xff]+)[\"']")
_INIT = "__init__"


@dataclass(frozen=True)
class Related:
    """`read` are the files to be read, sorted; `sites` are those of them that may have one."""

    read: tuple[str, ...]
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
    contents = {path: _code(path, data) for path, data in contents.items()}
    named = {path for path, data in contents.items() if _names_library(data)} | (set(recorded) & set(contents))
    imports = _imports(contents) if len(named) < len(contents) else {}
    importers: dict[str, set[str]] = {}
    for path, targets in imports.items():
        for target in targets:
            importers.setdefault(target, set()).add(path)
    sites = _closure(_closure(named, importers), imports)
    if any(word in contents[path] for path in sites for word in _DYNAMIC):  # what that loads cannot be seen
        return Related(tuple(sorted(contents)), frozenset(sites))
    read = _closure(sites, imports, importers)
    return Related(tuple(sorted(read | _inits_above(read, contents))), frozenset(sites))


def _code(path: str, data: bytes) -> bytes:
    """The text of a file as Python reads names in it; that of a notebook's cells."""
    if path.endswith(".ipynb"):
        try:
            cells = json.loads(data)["cells"]
            data = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code").encode()
        except (ValueError, KeyError, TypeError, RecursionError):  # of another make: what can be seen of it
            data = data.replace(b"\\n", b"\n").replace(b"\\r", b"\n").replace(b"\\t", b"\t")
    if not data.isascii():
        try:
            text = data.decode()
        except UnicodeDecodeError:
            return data
        if not unicodedata.is_normalized("NFKC", text):
            return unicodedata.normalize("NFKC", text).encode()
    return data


def _names_library(data: bytes) -> bool:
    if _FOR_US in data or any(library in data for library in _LIBRARIES):
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


def _inits_above(paths: Iterable[str], contents: Mapping[str, bytes]) -> set[str]:
    """The `__init__` files of the packages that hold the files: they make up the names of modules."""
    inits = {f"{folder}/{_INIT}.py" for path in paths for folder in _folders(path)} | {f"{_INIT}.py"}
    return {path for path in inits if path in contents}


def _folders(path: str) -> list[str]:
    """The folders that hold a file, without the root, the nearest first."""
    parts = path.split("/")[:-1]
    return ["/".join(parts[:count]) for count in range(len(parts), 0, -1)]


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
    folder, _, name = path.rpartition("/")
    is_init = name == f"{_INIT}.py"
    stem = folder.rpartition("/")[2] if is_init else name.rpartition(".")[0]
    return _File(path, folder, stem, is_init, _CODE.search(data) is None)


@dataclass(frozen=True)
class _Index:
    """The modules of a project by the words with which an import may name them."""

    packages: frozenset[str]  # folders with an `__init__`
    words: frozenset[str]  # the names of all modules, and of the folders that hold them
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
            around = file.folder.rpartition("/")[0] if file.is_init else file.folder
            for folder in around.split("/") if around else ():
                below.setdefault(folder, {}).setdefault(file.stem, []).append(file.path)
            if file.is_inert:
                continue
            at.setdefault((around, file.stem), []).append(file.path)
            by_parent.setdefault(file.stem, {}).setdefault(around.rpartition("/")[2], []).append(file.path)
            if around not in packages:
                free.setdefault(file.stem, []).append(file.path)
            if not file.stem.isascii():
                unusual.append(file.path)
        return cls(packages, frozenset(below) | frozenset(by_parent), at, by_parent, free, below, unusual)

    def targets(self, file: _File, data: bytes) -> set[str]:
        """The files that a file may import, by what it says and by where it lies."""
        folders = [*_folders(file.path), ""]
        found: set[str] = set()
        for folder in folders:
            around, _, name = folder.rpartition("/")
            found.update(self.at.get((around, name), ()) if folder in self.packages else ())
            found.update(self.at.get((folder, "conftest"), ()))  # pytest hands its fixtures to every test below
        mentioned: set[str] = set()
        for text in _mentions(data):
            if not text.isascii():
                found.update(self.unusual)
            if text.startswith(b"from") and b"import" not in text:
                continue
            is_from = _ORIGIN.match(text) is not None
            dotted = [name.decode("latin-1") for name in _DOTTED.findall(text)[1:]]
            names = {part for name in dotted for part in name.split(".")} & self.words
            if names:
                head = dotted[0].partition(".")[0] if is_from else None
                found.update(self._named(names, head, folders))
                whole = {name.rpartition(".")[2] for name in (dotted[1:] if is_from else dotted)} & self.below.keys()
                if whole:  # `import package`, and then `package.module.f(...)`
                    mentioned = mentioned or {name.decode("latin-1") for name in set(_NAME.findall(data))}
                    for package in whole:
                        for name in mentioned & self.below[package].keys():
                            found.update(self.below[package][name])
        return found

    def _named(self, names: set[str], head: str | None, folders: Sequence[str]) -> Iterator[str]:
        """The modules of these names that lie where an import may look for them."""
        for name in names:
            for folder in folders:
                yield from self.at.get((folder, name), ())
            parents = self.by_parent.get(name, {})
            for parent in names & parents.keys():
                yield from parents[parent]
            if head is None or head == name:
                yield from self.free.get(name, ())


def _mentions(data: bytes) -> set[bytes]:
    """The imports of a text, and its strings as imports where some may name a module."""
    found = set(_IMPORT.findall(data))
    if any(word in data for word in _BY_NAME):
        found |= {b"import " + name.replace(b"/", b".") for name in _STRING.findall(data)}
    return found
