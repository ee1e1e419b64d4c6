"""Random loop programs against the replay of their plans; writes how they were split, by cell, to oracle.md.

python benchmarks/oracle.py [PROGRAMS]        # make oracle: 20,000
"""

from __future__ import annotations

import sys
import time
from collections import Counter, defaultdict
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "tests" / "fuzz"))

from loops import CELLS, Cell, program  # noqa: E402
from oracle import difference  # noqa: E402

FEATURES = ("collector", "carry", "effect", "scope")
LEAST = 0.6  # of the programs of a cell that can be split


def outcome(number: int) -> tuple[int, str, str | None]:
    """How one program was split, and what its plans did differently, if anything."""
    text = program(Cell(*CELLS[number % len(CELLS)]), number)
    found, how = difference(text)
    return number, how, None if found is None else f"{text}\n{found}"


def main(count: int) -> int:
    start = time.perf_counter()
    cells: dict[Cell, Counter[str]] = defaultdict(Counter)
    wrong = 0
    with ProcessPoolExecutor() as pool:
        for number, how, found in pool.map(outcome, range(count), chunksize=50):
            cells[Cell(*CELLS[number % len(CELLS)])][how] += 1
            if found is not None:
                wrong += 1
                print(found, file=sys.stderr)
    seconds = time.perf_counter() - start
    weak = {cell: counts for cell, counts in cells.items() if cell.can_be_split and _share(counts) < LEAST}
    (HERE / "oracle.md").write_text(_report(count, wrong, cells, weak))
    print(f"{count} programs, {wrong} differences, {len(weak)} weak cells of {len(cells)}, {seconds:.0f} s")
    return 1 if wrong or weak else 0


def _share(counts: Counter[str]) -> float:
    return (counts["split"] + counts["split by period"]) / counts.total()


def _report(count: int, wrong: int, cells: dict[Cell, Counter[str]], weak: dict[Cell, Counter[str]]) -> str:
    lines = [
        "# Loop programs and their plans",
        "",
        f"{count:,} generated programs, each run as it is and as its plans say: {wrong} differ in values, text, logs,",
        "objects or errors. A program is split where a heavy computation is traced and no host work stands between its",
        f"iterations. Of {len(cells):,} cells (collector x carry x effect x scope) those with `break` are not expected",
        f"to be split; of the others {len(weak)} are split in fewer than {LEAST:.0%} of their programs.",
        "",
        "| feature | value | programs | split | by period | host | refused |",
        "|---|---|---:|---:|---:|---:|---:|",
    ]
    for feature in FEATURES:
        rows: dict[str, Counter[str]] = defaultdict(Counter)
        for cell, counts in cells.items():
            rows[getattr(cell, feature)].update(counts)
        for value, counts in rows.items():
            split, periods = counts["split"], counts["split by period"]
            host = counts["host"] + counts["host by period"]
            refused = counts.total() - split - periods - host
            lines.append(f"| {feature} | {value} | {counts.total()} | {split} | {periods} | {host} | {refused} |")
    for cell, counts in sorted(weak.items(), key=str):
        name = f"{cell.collector}, {cell.carry}, {cell.effect}, {cell.scope}"
        split = counts["split"] + counts["split by period"]
        lines.append(f"| weak | {name} | {counts.total()} | {split} | | {counts['host']} | |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 20_000))
