"""Random call graphs before and after the codemods of boundaries; writes what was found to call_graphs.md.

python benchmarks/call_graphs.py [PROGRAMS]        # make graphs: 500
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "tests" / "fuzz"))

from graph_outcome import Outcome, outcome  # noqa: E402

_PROGRAMS_EACH = 25  # of one process: what jax has compiled is dropped with it


def main(count: int) -> int:
    start = time.perf_counter()
    with ProcessPoolExecutor(2, max_tasks_per_child=1) as pool:
        blocks = list(pool.map(several, range(0, count, _PROGRAMS_EACH), [count] * -(-count // _PROGRAMS_EACH)))
    outcomes = [one for block in blocks for one in block]
    wrong = [one.wrong for one in outcomes if one.wrong is not None]
    for text in wrong:
        print(text, file=sys.stderr)
    (HERE / "call_graphs.md").write_text(report(outcomes, len(wrong)))
    print(f"{count} programs, {len(wrong)} differ, {time.perf_counter() - start:.0f} s")
    return 1 if wrong else 0


def several(first: int, count: int) -> list[Outcome]:
    return [outcome(seed) for seed in range(first, min(first + _PROGRAMS_EACH, count))]


def report(outcomes: list[Outcome], wrong: int) -> str:
    found: Counter[tuple[str, str]] = Counter()
    for one in outcomes:
        found.update(one.found)
    rewritten = sum(any(reason == "patch" for _, reason in one.found) for one in outcomes)
    before, after = sum(one.before for one in outcomes), sum(one.after for one in outcomes)
    raised = sum(one.raised for one in outcomes)
    lines = [
        "# Call graphs and the codemods of boundaries",
        "",
        f"{len(outcomes)} generated programs, {rewritten} of them rewritten. Each of these ran four times before and",
        f"after: {wrong} differ in values, types, text or exceptions, or compile more often in any call. {raised} of",
        f"the calls raise. All calls but the first compile {before:,} times before and {after:,} times after.",
        "",
        "| codemod | found | times |",
        "|---|---|---:|",
        *[f"| {codemod} | {reason} | {times} |" for (codemod, reason), times in sorted(found.items())],
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 500))
