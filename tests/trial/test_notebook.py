"""A notebook as a workload: its cells run as a program, without a kernel."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from jitmod.codemods.scanify import Scanify

from jitmod.model import Patch, Status
from jitmod.rewrite.codemod import scan
from jitmod.source.config import GateSettings, Workload
from jitmod.source.document import Document
from jitmod.source.project import Project
from jitmod.trial import notebooks
from jitmod.trial.child import files
from jitmod.trial.child.capture import Router
from jitmod.trial.child.finder import Tree
from jitmod.trial.child.program import Observation, Program
from jitmod.trial.child.world import World
from jitmod.trial.trial import try_arms, try_patch

sys.path.insert(0, str(Path(__file__).parents[1] / "source"))

from notebooks import cell, text

PATH = "notes/book.ipynb"
LOADED = [
    "%matplotlib inline\n!pip install something",
    "import helper\nfrom pathlib import Path\n\nvalue = helper.twice(int(Path('number.txt').read_text()))",
    "%%time\n%time other = value + 1\nvalue",
    "display(other)\nPath('written.txt').write_text('x')\nprint(__name__)",
    "%%bash\necho no",
]


def book(root: Path, cells: list[str]) -> Path:
    (root / "notes").mkdir(exist_ok=True)
    (root / PATH).write_text(text([cell(source) for source in cells]))
    (root / "notes" / "number.txt").write_text("21")
    (root / "notes" / "helper.py").write_text("def twice(x):\n    return 2 * x\n")
    return root / PATH


def observed(root: Path, tmp_path: Path) -> Observation:
    overlay = dict(notebooks.overlay(root, root, [PATH]))
    folder = files.scratch(str(root), str(tmp_path))
    routers = Router("stdout", sys.stdout), Router("stderr", sys.stderr)
    world = World(Tree(str(root), str(root), overlay), folder=folder)
    return Program(world, {"run": PATH}, 7, routers, ("value", "other")).observe(0)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "project").mkdir()
    return tmp_path / "project"


def test_cells_run_in_order_in_the_notebooks_own_folder(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = book(root, LOADED).read_bytes()
    seen = observed(root, tmp_path)
    assert seen.error is None
    assert {entry.path: entry.data for entry in seen.output if "'" in entry.path} == {
        "output['value']": 42, "output['other']": 43}  # fmt: skip
    assert capsys.readouterr().out == "43\n__main__\n"
    assert (root / PATH).read_bytes() == before and not (root / "notes" / "written.txt").exists()


@pytest.mark.parametrize("source", ["files = !ls", "%run other.ipynb", "%%bash --out x\nls"])
def test_what_only_a_kernel_could_give_is_said(source: str, root: Path, tmp_path: Path) -> None:
    book(root, [source])
    error = observed(root, tmp_path).error
    assert error is not None and error["type"].endswith("NotRun") and "not run" in error["text"]


def test_what_changes_folder_and_environment_is_done(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("JITMOD_A", "old")
    changes = "import os\n%cd ..\n%env JITMOD_A=new\nhere = %pwd"
    book(root, [changes, "print(os.path.basename(here), os.environ['JITMOD_A'])"])
    assert observed(root, tmp_path).error is None
    assert capsys.readouterr().out == "project new\n"


def test_lines_in_a_verdict_are_those_of_cells(root: Path) -> None:
    document = Document.parse(PATH, book(root, ["x = 1", "a = 2\nb = 3"]).read_bytes())
    after = document.source.decode().replace("a = 2", "new = 1\na = 2")
    job = {"baseline": {PATH: document.source.decode()}, "candidates": [{"files": {PATH: after}}]}
    line = document.source.decode().split("\n").index("b = 3") + 1
    assert notebooks.in_cells(f"raises in the baseline (/x/{PATH}:{line})", job, root).endswith(f"{PATH}:cell 2:2)")
    assert notebooks.in_cells(f"raises ({PATH}:{line + 1}), other.ipynb:3", job, root) == (
        f"raises ({PATH}:cell 2:3), other.ipynb:3"
    )


ROLLOUT = [
    "import jax\nimport jax.numpy as jnp",
    "def step(u):\n    return u + 0.1 * jnp.sin(jnp.roll(u, 1)) - 0.01 * u * jnp.sum(u)",
    "%%time\nu = jnp.linspace(0.0, 1.0, 8)\nfor i in range(200):\n    u = step(u)",
    "print('final', u)",
]


def test_a_patch_of_a_notebook_is_tried_on_the_notebook(root: Path) -> None:
    file = book(root, ROLLOUT)
    document = Document.parse(PATH, file.read_bytes())
    (patch,) = scan([Scanify()], Project.of({PATH: document}), [PATH]).findings
    assert isinstance(patch, Patch)
    places = {"code_root": root, "user_root": root, "python": Path(sys.executable), "settings": GateSettings()}
    tried = try_patch(patch, document, base_commit="", workload=Workload("itself", PATH), budget=240.0, **places)
    assert tried.evidence["explore"]["candidate_execution"]["entered"]
    assert tried.verdict.parity["failure"] is None and tried.verdict.status is not Status.CRASHED, tried.verdict
    wrong = document.source.decode().replace("u = step(u)", "u = step(u) + 1e-2")
    tried = try_arms({PATH: wrong}, workload=Workload("itself", PATH), budget=240.0, **places)
    assert (tried.verdict.status, tried.verdict.test) == (Status.REJECTED, "values"), tried.verdict
