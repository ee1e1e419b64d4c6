"""Random loops with a carried state before and after scanify; writes what became of them to carries.md.

python benchmarks/carries.py [PROGRAMS]        # make carries: 500
python benchmarks/carries.py --compile         # how long a 256-step RNN in one jit takes to compile, both ways
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import jax
from jitmod.codemods.scanify import Scanify

from jitmod.rewrite.codemod import scan
from jitmod.rewrite.edits import compose
from jitmod.source.document import Document
from jitmod.source.project import Project

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "tests" / "fuzz"))

RNN = """\
import equinox as eqx
import jax
import jax.numpy as jnp


class Rnn(eqx.Module):
    cell: eqx.nn.GRUCell

    def __call__(self, xs):
        h = jnp.zeros(self.cell.hidden_size)
        hs = []
        for t in range(xs.shape[0]):
            h = self.cell(xs[t], h)
            hs.append(h)
        return jnp.stack(hs)


@eqx.filter_jit
def forward(rnn, xs):
    return jax.vmap(rnn)(xs)


RNN = Rnn(eqx.nn.GRUCell(16, 64, key=jax.random.key(0)))
XS = jax.random.normal(jax.random.key(1), (8, 256, 16))
"""


def outcome(seed: int) -> tuple[int, str, str | None]:
    """What became of one program, and how the rewritten one differs, if it does."""
    from test_carries import outcome as judged

    with jax.enable_x64(True):
        try:
            return seed, judged(seed), None
        except AssertionError as error:
            return seed, "differs", str(error)


def histogram(count: int) -> int:
    """Run `count` programs and write the table."""
    found: Counter[str] = Counter()
    with ProcessPoolExecutor(max_tasks_per_child=50) as pool:
        for _, how, why in pool.map(outcome, range(count), chunksize=10):
            found[how] += 1
            if why is not None:
                print(why, file=sys.stderr)
    rows = "\n".join(f"| {how} | {number} |" for how, number in found.most_common())
    text = f"""\
# Loops with a carried state, before and after scanify

{count:,} generated programs in double precision; `patch` means that values (rtol 1e-9), types and text of the rewritten
program are those of the original. {found["differs"]} differ.

| outcome | programs |
|---|---:|
{rows}
"""
    (HERE / "carries.md").write_text(text)
    print(text)
    return 1 if found["differs"] else 0


def compilation() -> int:
    """Seconds to trace, lower and compile the RNN, as it is and as a scan."""
    document = Document.parse("rnn.py", RNN.encode())
    (finding,) = scan([Scanify()], Project.of({"rnn.py": document}), ["rnn.py"]).findings
    written = compose(document, finding.variants[0].realise({})).decode()  # type: ignore[union-attr]
    seconds = []
    for text in (RNN, written):
        space: dict[str, Any] = {"__name__": "rnn"}
        exec(compile(text, "rnn.py", "exec"), space)
        start = time.perf_counter()
        space["forward"].lower(space["RNN"], space["XS"]).compile()
        seconds.append(time.perf_counter() - start)
    print(f"unrolled {seconds[0]:.2f} s, scanned {seconds[1]:.2f} s: {seconds[0] / seconds[1]:.1f}x")
    return 0


if __name__ == "__main__":
    given = sys.argv[1:]
    sys.exit(compilation() if given == ["--compile"] else histogram(int(given[0]) if given else 500))
