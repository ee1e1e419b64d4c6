"""What is kept of a rejection, and what its name depends on."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

from jitmod.delivery.memory import Memory, digest, environment, programs
from jitmod.model import Edit, Patch, Site, Status, Variant, Verdict
from jitmod.source.config import GateSettings, Workload
from jitmod.source.document import Document
from jitmod.source.project import Project

PATCH = Patch("vmapify", Site("a.py", 1, 1, 2), "m", (Variant("text", (Edit(0, 1, "y"),)),))
WORKLOAD = Workload("w", "w.py:run")
REJECTED = Verdict(
    Status.REJECTED, "slower: 0.5x", test="slower", device="cpu", speedup=0.5, speedup_ci=(0.4, 0.6),
    knobs={"n": 4}, cold={"baseline": 1.0}, evidence_digest="d" * 64,
)  # fmt: skip


def test_rejections_come_back_as_they_were(tmp_path: Path) -> None:
    memory = Memory(tmp_path / "rejected", "jax 1")
    key = memory.key(PATCH, "c", [WORKLOAD], GateSettings())
    assert memory.recall(key) is None
    memory.keep(key, replace(REJECTED, status=Status.INCONCLUSIVE))
    assert memory.recall(key) is None
    memory.keep(key, REJECTED)
    assert memory.recall(key) == REJECTED
    assert replace(memory, is_fresh=True).recall(key) is None
    assert [path.name for path in (tmp_path / "rejected").iterdir()] == [f"{key}.json"]


def test_the_name_depends_on_all_that_a_trial_does(tmp_path: Path) -> None:
    memory, gate = Memory(tmp_path, "jax 1"), GateSettings()
    moved = replace(PATCH, site=replace(PATCH.site, line=9), message="other words")
    other = replace(PATCH, variants=(Variant("text", (Edit(0, 1, "z"),)),))
    same = {memory.key(PATCH, "c", [WORKLOAD], gate), memory.key(moved, "c", [WORKLOAD], gate)}
    names = same | {
        memory.key(other, "c", [WORKLOAD], gate),
        memory.key(PATCH, "d", [WORKLOAD], gate),
        memory.key(PATCH, "c", [replace(WORKLOAD, run="w.py:other")], gate),
        memory.key(PATCH, "c", [WORKLOAD], replace(gate, min_speedup=2.0)),
        memory.key(PATCH, "c", [WORKLOAD], gate, "python3"),
        replace(memory, environment="jax 2").key(PATCH, "c", [WORKLOAD], gate),
    }
    assert len(same) == 1 and len(names) == 7


def test_a_folder_that_cannot_be_written_loses_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    Memory(tmp_path / "file", "").keep("k", REJECTED)
    assert (tmp_path / "file").read_text() == ""


def test_a_benchmark_counts_where_the_project_excludes_it(tmp_path: Path) -> None:
    before = programs([WORKLOAD], tmp_path)
    (tmp_path / "w.py").write_text("def run(): ...\n")
    after = programs([WORKLOAD], tmp_path)
    assert before != after == programs([replace(WORKLOAD, run="w.py::run", setup="no.py:f")], tmp_path)


def test_code_and_environment() -> None:
    texts = ("x = 1\n", "x = 2\n", "x = 1\n")
    one, two, again = (digest(Project.of({"a.py": Document.parse("a.py", text.encode())})) for text in texts)
    assert one == again != two
    assert "\njax " in f"\n{environment(Path(sys.executable))}"
