"""Plans every loop of installed packages: nothing may raise. Prints seconds for 1,000 files.

python benchmarks/site_packages.py [PACKAGE ...]      # all that are installed, without names
"""

from __future__ import annotations

import gc
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from sysconfig import get_path

from jitmod.analysis.effects import Effects
from jitmod.analysis.infer import Inference
from jitmod.analysis.loops import Unplannable, loops_in
from jitmod.analysis.plan import plan
from jitmod.source.project import Project


def packages(wanted: list[str]) -> Iterator[tuple[Path, list[str]]]:
    root = Path(get_path("purelib"))
    for folder in sorted(root.iterdir()):
        named = folder.name in wanted if wanted else not folder.name.endswith((".dist-info", "cache__"))
        if folder.is_dir() and named:
            paths = sorted(p.relative_to(root).as_posix() for p in folder.rglob("*.py"))
            if paths:
                yield root, paths


def main(wanted: list[str]) -> int:
    gc.disable()  # as the program does
    files = failures = 0
    outcomes: Counter[str] = Counter()
    start = time.perf_counter()
    for root, paths in packages(wanted):
        begun = time.perf_counter()
        project = Project.build(root, paths)
        effects = Effects(Inference(project))
        files += len(paths)
        for module in project.by_path.values():
            for loop in loops_in(module):
                try:
                    outcomes["split" if plan(loop, effects).traced else "host"] += 1
                except Unplannable as why:
                    outcomes[why.reason] += 1
                except Exception:
                    failures += 1
                    print(f"{module.document.path}:{loop.node.lineno}", file=sys.stderr)
                    traceback.print_exc(limit=-4)
        print(
            f"{time.perf_counter() - begun:7.1f} s {len(paths):5d} files {paths[0].partition('/')[0] if paths else ''}"
        )
    seconds = time.perf_counter() - start
    print(f"{files} files, {outcomes.total()} loops, {failures} failures")
    print(f"{seconds:.1f} s, {1000 * seconds / max(files, 1):.1f} s for 1,000 files")
    for outcome, count in outcomes.most_common():
        print(f"{count:7d} {outcome}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
