"""Running the user's program as `__main__`, with probes in the project's files and nothing else changed."""

from __future__ import annotations

import ast
import atexit
import builtins
import importlib
import importlib.machinery
import importlib.util
import json
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from types import CodeType, FrameType, ModuleType, TracebackType

from . import kernel
from .record_finder import Plan, RecordingFinder
from .record_log import Log
from .record_marks import Mark, marks
from .record_probes import Limits, Recorder

_OWN = os.path.dirname(os.path.abspath(__file__))
_SECRET_LENGTH = 6  # shorter values would be found in anything


class _Script:
    """The main file, if it is one of the project's, and how far its top level has come."""

    def __init__(self, root: str, log: Log) -> None:
        self._root = root
        self._log = log
        self._file = ""
        self._marks: list[tuple[int, int, Mark]] = []

    def is_at(self, file: str, source: bytes, module: str | None) -> None:
        real = os.path.realpath(file)
        if real.startswith(self._root + os.sep):
            relative = real[len(self._root) + 1 :].replace(os.sep, "/")
            self._file, self._marks = file, marks(ast.parse(source), relative)
            self._log.script({"path": relative, "module": module, "arguments": sys.argv[1:]})

    def mark(self, frame: FrameType) -> Mark | None:
        inner: FrameType | None = frame
        while inner is not None:
            if inner.f_code.co_name == "<module>" and inner.f_code.co_filename == self._file:
                line = inner.f_lineno
                return next((mark for first, last, mark in self._marks if first <= line <= last), None)
            inner = inner.f_back
        return None


def main(request_file: str, target: Sequence[str]) -> None:
    """Run the program. Its exceptions, its exit status and its signals are its own."""
    request = json.loads(Path(request_file).read_text(encoding="utf-8"))
    at = sys.orig_argv.index(request_file)
    del sys.orig_argv[at - 1 : at + 1]
    plan = Plan(request["files"])
    finder = RecordingFinder(plan)
    functions = [{**f, "file": entry["file"]} for entry in request["files"] for f in entry["functions"]]
    log = Log(Path(request["folder"]))
    script = _Script(request["root"], log)
    stop = _Stop(log) if request["stop"] else None
    loops = [loop for entry in request["files"] for loop in entry["loops"]]
    recorder = Recorder(
        functions, loops, request["sites"], request["root"], log, Limits(**request["limits"]), script.mark,
        finder.foreign, _secrets(request["secret_names"]), stop.ask if stop is not None else None,
    )  # fmt: skip
    for name, probe in recorder.probes().items():
        setattr(builtins, name, probe)
    sys.meta_path.insert(0, finder)
    atexit.register(recorder.finish)
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=recorder.forget)
    try:
        _run(list(target), plan, script)
    except BaseException as error:
        recorder.finish()
        _hide_own_frames(stop is not None and stop.asked and isinstance(error, KeyboardInterrupt))
        raise


class _Stop:
    """Ends the program as Ctrl-C does, so that it can tidy up."""

    def __init__(self, log: Log) -> None:
        self.asked = False
        self._log = log
        if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # started in the background of a shell
            signal.signal(signal.SIGINT, signal.default_int_handler)

    def ask(self) -> None:
        self.asked = True
        self._log.enough()
        os.kill(os.getpid(), signal.SIGINT)


def _run(target: list[str], plan: Plan, script: _Script) -> None:
    match target:
        case ["-m", name, *rest]:
            _run_module(name, rest, plan, script)
        case ["-c", code, *rest]:
            module = _new_main()
            _enter(["-c", *rest], "")
            exec(compile(code, "<string>", "exec", dont_inherit=True), vars(module))
        case [file, *rest]:
            _run_file(file, rest, plan, script)


def _run_file(file: str, rest: list[str], plan: Plan, script: _Script) -> None:
    _enter([file, *rest], os.path.dirname(os.path.realpath(file)))
    if os.path.isdir(file):  # a folder or archive with a __main__ in it
        sys.path.insert(0, file)
        _run_module("__main__", rest, plan, script, argv0=file)
        return
    try:
        source = Path(file).read_bytes()
    except OSError as error:
        print(f"{sys.executable}: can't open file {os.path.abspath(file)!r}: [Errno {error.errno}] {error.strerror}",
              file=sys.stderr)  # fmt: skip
        sys.exit(2)
    place = os.path.abspath(file)
    module = _new_main()
    module.__file__ = place
    module.__loader__ = importlib.machinery.SourceFileLoader("__main__", file)
    vars(module)["__cached__"] = None
    if place.endswith(kernel.SUFFIX):
        _enter_notebook(place, module, plan)
    exec(_compiled(source, place, None, plan, script), vars(module))


def _enter_notebook(place: str, module: ModuleType, plan: Plan) -> None:
    """Make it look like the notebook's kernel, which is in the folder of the notebook."""
    if not plan.holds(place):
        sys.exit(f"{place} is none of the notebooks that jitmod looks at")
    vars(module).update(kernel.names())
    os.chdir(os.path.dirname(place))


def _run_module(name: str, rest: list[str], plan: Plan, script: _Script, argv0: str | None = None) -> None:
    if argv0 is None:
        _enter(["-m", *rest], os.getcwd())
    found = _find(name)
    assert found.loader is not None and found.origin is not None
    sys.argv[0] = argv0 or found.origin
    module = _new_main()
    module.__spec__, module.__loader__, module.__package__ = found, found.loader, found.parent
    module.__file__ = found.origin
    vars(module)["__cached__"] = found.cached
    source = found.loader.get_source(found.name) if found.origin.endswith(".py") else None  # type: ignore[attr-defined]
    if source is None:
        code: CodeType = found.loader.get_code(found.name)  # type: ignore[attr-defined]
    else:
        code = _compiled(Path(found.origin).read_bytes(), found.origin, name, plan, script)
    exec(code, vars(module))


def _find(name: str) -> importlib.machinery.ModuleSpec:
    try:
        found = importlib.util.find_spec(name)
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        sys.exit(f"{sys.executable}: Error while finding module specification for {name!r} "
                 f"({type(error).__name__}: {error})")  # fmt: skip
    if found is None:
        sys.exit(f"{sys.executable}: No module named {name}")
    if found.submodule_search_locations is not None:
        inner = f"{name}.__main__"
        importlib.import_module(name)
        package = importlib.util.find_spec(inner)
        if package is None:
            sys.exit(f"{sys.executable}: No module named {inner}; "
                     f"{name!r} is a package and cannot be directly executed")  # fmt: skip
        return package
    return found


def _compiled(source: bytes, file: str, module: str | None, plan: Plan, script: _Script) -> CodeType:
    tree = None
    if plan.holds(file):
        try:
            tree = plan.tree(file, source)
            if tree is not None:
                script.is_at(file, plan.code(file, source), module)
        except (SyntaxError, ValueError):
            tree = None
    return compile(tree if tree is not None else plan.code(file, source), file, "exec", dont_inherit=True)


def _enter(argv: list[str], folder: str) -> None:
    sys.argv[:] = argv
    if not sys.flags.safe_path:
        sys.path.insert(0, folder)


def _new_main() -> ModuleType:
    """A fresh `__main__`, as the interpreter makes it."""
    module = ModuleType("__main__")
    vars(module)["__builtins__"] = builtins
    vars(module)["__annotations__"] = {}
    sys.modules["__main__"] = module
    return module


def _hide_own_frames(silent: bool) -> None:
    """What is printed of an exception starts with the program's own frames; after our own stop nothing is."""
    shown = sys.excepthook

    def show(kind: type[BaseException], error: BaseException, at: TracebackType | None) -> None:
        if silent:
            return
        while at is not None and at.tb_frame.f_code.co_filename.startswith(_OWN + os.sep):
            at = at.tb_next
        shown(kind, error.with_traceback(at), at)

    sys.excepthook = show


def _secrets(names: Sequence[str]) -> list[bytes]:
    values = [os.environ.get(name, "") for name in names]
    return [value.encode("utf-8", "surrogateescape") for value in values if len(value) >= _SECRET_LENGTH]
