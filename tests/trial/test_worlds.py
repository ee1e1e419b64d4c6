"""Two versions of one project in one process: every kind of import finds its own version's code."""

from __future__ import annotations

import builtins
import importlib
import logging
import sys
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location
from pathlib import Path
from typing import Any

import jax
import pytest

from jitmod.trial.child.finder import Tree
from jitmod.trial.child.world import World

from .conftest import write

Open = Callable[..., World]


@pytest.fixture
def roots(tmp_path: Path) -> tuple[Path, Path]:
    """The commit's checkout, and the user's own tree."""
    code, user = tmp_path / "code", tmp_path / "user"
    code.mkdir()
    user.mkdir()
    return code, user


@pytest.fixture
def opened(roots: tuple[Path, Path]) -> Open:
    def open_world(overlay: dict[str, str | None] | None = None) -> World:
        return World(Tree(str(roots[0]), str(roots[1]), overlay or {}))

    return open_world


def call(world: World, file: str, function: str = "run") -> Any:
    with world:
        return getattr(world.import_file(file), function)()


LAYOUTS = {
    "plain module beside the workload": (
        {"bench/part.py": "V = 1\n", "bench/w.py": "import part\n\ndef run():\n    return part.V\n"}, "bench/part.py"),
    "package at the root": (
        {"pkg/__init__.py": "", "pkg/part.py": "V = 1\n",
         "bench/w.py": "from pkg.part import V\n\ndef run():\n    return V\n"}, "pkg/part.py"),
    "src layout": (
        {"src/pkg/__init__.py": "from .part import V\n", "src/pkg/part.py": "V = 1\n",
         "bench/w.py": "import pkg\n\ndef run():\n    return pkg.V\n"}, "src/pkg/part.py"),
    "namespace package": (
        {"space/deep/part.py": "V = 1\n", "w.py": "import space.deep.part as p\n\ndef run():\n    return p.V\n"},
        "space/deep/part.py"),
    "workload inside a package, relative import": (
        {"src/pkg/__init__.py": "", "src/pkg/part.py": "V = 1\n",
         "src/pkg/w.py": "from .part import V\n\ndef run():\n    return V\n"}, "src/pkg/part.py"),
    "circular import": (
        {"a.py": "import b\nV = 1\n\ndef get():\n    return b.twice()\n",
         "b.py": "import a\n\ndef twice():\n    return a.V\n",
         "w.py": "import a\n\ndef run():\n    return a.get()\n"}, "a.py"),
    "import inside the call": (
        {"pkg/__init__.py": "", "pkg/part.py": "V = 1\n",
         "w.py": "def run():\n    import pkg.part\n    return pkg.part.V\n"}, "pkg/part.py"),
    "script run by its path": (
        {"script.py": "V = 1\nassert __name__ == '__main__'\n",
         "w.py": "import runpy\nfrom pathlib import Path\n\ndef run():\n"
                 "    return runpy.run_path(Path(__file__).with_name('script.py'), run_name='__main__')['V']\n"},
        "script.py"),
    "script run by its path from the current folder": (
        {"script.py": "V = 1\n", "w.py": "import runpy\n\ndef run():\n    return runpy.run_path('script.py')['V']\n"},
        "script.py"),
    "module run by its name": (
        {"pkg/__init__.py": "", "pkg/main.py": "V = 1\n",
         "w.py": "import runpy\n\ndef run():\n    return runpy.run_module('pkg.main', alter_sys=True)['V']\n"},
        "pkg/main.py"),
    "module loaded from a file": (
        {"tools/part.py": "V = 1\n",
         "w.py": "import importlib.util\nfrom pathlib import Path\n\ndef run():\n"
                 "    spec = importlib.util.spec_from_file_location('tool', Path(__file__).parent / 'tools/part.py')\n"
                 "    module = importlib.util.module_from_spec(spec)\n    spec.loader.exec_module(module)\n"
                 "    return module.V\n"}, "tools/part.py"),
    "import by name": (
        {"pkg/__init__.py": "", "pkg/part.py": "V = 1\n",
         "w.py": "import importlib\n\ndef run():\n    return importlib.import_module('pkg.part').V\n"}, "pkg/part.py"),
}  # fmt: skip


@pytest.mark.parametrize("name", LAYOUTS)
def test_each_world_runs_its_own_code(name: str, roots: tuple[Path, Path], opened: Open) -> None:
    files, changed = LAYOUTS[name]
    write(roots[0], files)
    workload = next(path for path in files if path.endswith("w.py"))
    before, after = opened(), opened({changed: files[changed].replace("V = 1", "V = 2")})
    assert [call(world, workload) for world in (before, after, before, after)] == [1, 2, 1, 2]


def test_nothing_of_a_world_stays(roots: tuple[Path, Path], opened: Open) -> None:
    write(roots[0], LAYOUTS["src layout"][0])
    state = set(sys.modules), list(sys.path), list(sys.meta_path)
    call(opened(), "bench/w.py")
    assert (set(sys.modules), list(sys.path), list(sys.meta_path)) == state


def test_names_of_files_are_the_users_and_text_is_the_commits(roots: tuple[Path, Path], opened: Open) -> None:
    code, user = roots
    write(code, {"w.py": """\
        from pathlib import Path

        def run():
            return (Path(__file__).parent / "data.txt").read_text()
    """})  # fmt: skip
    write(user, {"w.py": "raise RuntimeError('work in progress')\n", "data.txt": "mine"})
    assert call(opened(), "w.py") == "mine"


def test_module_that_git_does_not_know_belongs_to_the_world(roots: tuple[Path, Path], opened: Open) -> None:
    code, user = roots
    write(code, {"pkg/__init__.py": "", "pkg/part.py": "V = 1\n"})
    write(user, {"pkg/generated.py": "from .part import V\n"})
    write(user, {"w.py": "from pkg.generated import V\n\ndef run():\n    return V\n"})
    worlds = opened(), opened({"pkg/part.py": "V = 2\n"})
    assert [call(world, "w.py") for world in worlds] == [1, 2]


def test_file_that_the_patch_removes_is_gone(roots: tuple[Path, Path], opened: Open) -> None:
    for root in roots:
        write(root, {"part.py": "V = 1\n", "w.py": "def run():\n    import part\n    return part.V\n"})
    assert call(opened(), "w.py") == 1
    with pytest.raises(ImportError):
        call(opened({"part.py": None}), "w.py")


def test_editable_install_of_the_project_is_shadowed(
    roots: tuple[Path, Path], opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, user = roots
    write(code, {"lib/odd/__init__.py": "V = 1\n", "w.py": "import odd_name\n\ndef run():\n    return odd_name.V\n"})
    write(user, {"lib/odd/__init__.py": "V = 'installed'\n"})

    class Editable:  # a build backend's finder: the package has another name than its folder
        @staticmethod
        def find_spec(name: str, path: object = None, target: object = None) -> ModuleSpec | None:
            if name != "odd_name":
                return None
            return spec_from_file_location(name, user / "lib/odd/__init__.py",
                                           submodule_search_locations=[str(user / "lib/odd")])  # fmt: skip

    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, Editable])
    assert [call(opened(o), "w.py") for o in ({}, {"lib/odd/__init__.py": "V = 2\n"})] == [1, 2]
    assert importlib.import_module("odd_name").V == "installed"
    del sys.modules["odd_name"]


def test_workload_named_like_a_loaded_library(roots: tuple[Path, Path], opened: Open) -> None:
    write(roots[0], {"bench/json.py": "def run():\n    return 'mine'\n"})
    assert call(opened(), "bench/json.py") == "mine"
    assert "mine" not in vars(sys.modules["json"]).values()


def test_missing_file_is_named(opened: Open) -> None:
    with pytest.raises(FileNotFoundError, match=r"absent\.py"):
        call(opened(), "absent.py")


def test_jax_configuration_and_log_handlers_stay_in_their_world(roots: tuple[Path, Path], opened: Open) -> None:
    write(roots[0], {"w.py": """\
        import logging
        import jax
        jax.config.update("jax_enable_x64", True)
        logging.getLogger("app").addHandler(logging.NullHandler())

        def run():
            return jax.config.jax_enable_x64, len(logging.getLogger("app").handlers)
    """})  # fmt: skip
    worlds = opened(), opened()
    assert [call(world, "w.py") for world in (*worlds, *worlds)] == [(True, 1)] * 4
    assert not jax.config.values["jax_enable_x64"]
    assert not logging.getLogger("app").handlers


def test_names_that_are_injected_reach_scripts_and_stay_in_their_world(roots: tuple[Path, Path]) -> None:
    write(roots[0], {"script.py": "V = told()\n", "w.py": "import runpy\n\ndef run():\n"
                     "    return runpy.run_path('script.py')['V']\n"})  # fmt: skip
    write(roots[1], {"script.py": "raise RuntimeError('work in progress')\n"})
    worlds = [World(Tree(str(roots[0]), str(roots[1]), {}), injected={"told": lambda n=n: n}) for n in (1, 2)]
    assert [call(world, "w.py") for world in (*worlds, *worlds)] == [1, 2, 1, 2]
    assert not hasattr(builtins, "told")
    assert worlds[0].executions(["script.py"]) == 2
