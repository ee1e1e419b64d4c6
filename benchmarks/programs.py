"""Random loop programs before and after vmapify, through JAX in double precision; the outcome goes to programs.md.

python benchmarks/programs.py [PROGRAMS] [FIRST]        # make programs: 500
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "tests" / "fuzz"))


def tried(number: int) -> tuple[int, str, str | None]:
    """What became of one program, and how a rewritten one differs, if it does."""
    import jax
    from test_programs import outcome

    with jax.enable_x64(True):
        try:
            return number, outcome(number), None
        except Exception as error:
            return number, "differs", f"program {number}: {type(error).__name__}: {error}"
        except BaseException as failure:  # an assertion of pytest's
            return number, "differs", f"program {number}: {failure}"


def main(count: int, first: int) -> int:
    start = time.perf_counter()
    counts: Counter[str] = Counter()
    with ProcessPoolExecutor(2) as pool:
        for _, how, why in pool.map(tried, range(first, first + count), chunksize=10):
            counts[how] += 1
            if why is not None:
                print(why, file=sys.stderr)
    (HERE / "programs.md").write_text(_report(count, first, counts))
    print(f"{count} programs, {counts['differs']} differences, {time.perf_counter() - start:.0f} s")
    return 1 if counts["differs"] else 0


def _report(count: int, first: int, counts: Counter[str]) -> str:
    forms = sum(number for how, number in counts.items() if "lax.map" in how)
    lines = [
        "# Loop programs before and after vmapify",
        "",
        f"{count:,} generated programs (seeds {first} to {first + count - 1}), run through JAX in double precision as",
        "they are and in every form that the patch has: values and dtypes (rtol 1e-9), structure, printed text and the",
        f"lists that were handed in are compared. {counts['differs']} differ; {forms / count:.0%} are rewritten.",
        "A second run finds nothing in what the first one wrote.",
        "",
        "| what became of it | programs |",
        "|---|---:|",
        *[f"| {how} | {number} |" for how, number in counts.most_common()],
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    given = [int(a) for a in sys.argv[1:]]
    sys.exit(main(given[0] if given else 500, given[1] if len(given) > 1 else 0))
