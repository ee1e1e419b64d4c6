"""Memory on a CPU: how well the compiler predicts what a call takes, and what becomes of a batch that cannot fit.

    python benchmarks/memory.py [--predictions | --limit]

Three models in batches, as vmapify writes it: bytes of temporary values and results as `memory_analysis()` has them,
against the growth of the process in a warm call, each in a process of its own. Attention is shown beside them: XLA's
library fusions on CPUs allocate memory that the analysis does not know of, so that it says less than is needed. Then a
trial in 2.3 GiB of address space: the largest batch does not fit. Exit code 1 where a prediction for the three is 25 %
off, or where the trial chooses what does not fit, or crashes.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

_MOST = 0.25
_SETTINGS = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}  # as a trial measures memory
_LIMIT = 2.3  # GiB
_BATCH = {"mlp": 512, "recurrent": 512, "convolution": 128, "attention": 128}

MODEL = """\
import jax
import jax.numpy as jnp


def score(w, x):
    return w.T @ jnp.tanh(w @ x)


def run(w, xs):
    return jnp.stack([score(w, x) for x in xs])


def setup():
    one, two = jax.random.split(jax.random.key(0))
    return jax.random.normal(one, (1 << 21, 4)) / 1000, jax.random.normal(two, (64, 4))
"""
LOOP = "    return jnp.stack([score(w, x) for x in xs])\n"
CHUNKED = MODEL.replace(LOOP, "    return scores(w, xs)\n").replace("def run", """\
@jax.jit
def scores(w, xs):
    return jax.lax.map(lambda x: score(w, x), xs, batch_size=BATCH)


def run""")  # fmt: skip


def predicted_and_measured(name: str) -> tuple[int, int]:
    """Bytes, of one model in this process."""
    import equinox as eqx
    import jax
    import jax.numpy as jnp

    from jitmod.trial.child.room import Peak

    key = jax.random.key(0)
    match name:
        case "mlp":
            model: Any = eqx.nn.MLP(64, 64, 16384, 2, key=key)
            xs = jnp.ones((1024, 64))
        case "recurrent":
            cell = eqx.nn.GRUCell(64, 256, key=key)
            model = lambda x: jax.lax.scan(lambda h, y: (cell(y, h),) * 2, jnp.zeros(256), x)[1]  # noqa: E731
            xs = jnp.ones((1024, 64, 64))
        case "attention":
            attention = eqx.nn.MultiheadAttention(8, 128, key=key)
            model = lambda x: attention(x, x, x)  # noqa: E731
            xs = jnp.ones((1024, 128, 128))
        case _:
            model = eqx.nn.Sequential([
                eqx.nn.Conv2d(3, 32, 3, padding=1, key=key), eqx.nn.Lambda(jax.nn.relu),
                eqx.nn.Conv2d(32, 32, 3, padding=1, key=key), eqx.nn.Lambda(jnp.mean),
            ])  # fmt: skip
            xs = jnp.ones((256, 3, 64, 64))

    @eqx.filter_jit
    def scores(model: Any, xs: Any) -> Any:
        return jax.lax.map(model, xs, batch_size=_BATCH[name])

    found = scores.lower(model, xs).compile().compiled.memory_analysis()
    peak, most = Peak(), 0
    for number in range(4):
        peak.restart()
        jax.block_until_ready(scores(model, xs))
        if number and peak.growth is not None:
            most = max(most, peak.growth)
    return found.temp_size_in_bytes + found.output_size_in_bytes, most


def predictions() -> bool:
    good = True
    for name in _BATCH:
        words = [sys.executable, __file__, "--model", name]
        done = subprocess.run(words, env={**os.environ, **_SETTINGS}, capture_output=True, text=True, check=True)
        before, after = json.loads(done.stdout)
        off = before / after - 1
        good = good and (abs(off) <= _MOST or name == "attention")
        told = (f"{count / 2**20:.1f} MiB" for count in (before, after))
        print(f"{name}: predicted {next(told)}, measured {next(told)}: {off:+.1%}", flush=True)
    return good


def limited() -> bool:
    """A trial whose process, and all of its children, have little address space."""
    from jitmod.delivery.figures import describe, knobs
    from jitmod.model import Site
    from jitmod.source.config import GateSettings, Workload
    from jitmod.trial.job import make_job
    from jitmod.trial.trial import try_job

    resource.setrlimit(resource.RLIMIT_AS, (int(_LIMIT * 2**30),) * 2)
    candidates = [{"variant": 0, "form": "lax.map", "knobs": {"batch_size": size}, "default": size == 64,
                   "files": {"model.py": CHUNKED.replace("BATCH", str(size))}} for size in (64, 4, 16)]  # fmt: skip
    job = make_job(
        candidates, baseline={}, base_commit="", workload=Workload("w", "model.py:run", "model.py:setup"),
        settings=GateSettings(), seed=0, budget=1500.0, require_gpu=False, site=Site("model.py", 10, 12, 10, "run"),
        new_functions=("scores",), fingerprint="f",
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        (root / "model.py").write_text(MODEL)
        trial = try_job(job, code_root=root, user_root=root, python=Path(sys.executable))
    print(describe(trial.verdict), knobs(trial.verdict), json.dumps(dict(trial.verdict.memory)), sep="\n", flush=True)
    for out in trial.evidence["explore"].get("ruled_out", []):
        print(f"ruled out: {out['knobs']}: {out['why']}")
    return trial.verdict.status != "crashed" and trial.verdict.knobs["batch_size"] < 64


if __name__ == "__main__":
    if "--model" in sys.argv:
        print(json.dumps(predicted_and_measured(sys.argv[-1])))
    else:
        checks = {"--predictions": predictions, "--limit": limited}
        asked = [check for name, check in checks.items() if name in sys.argv] or list(checks.values())
        sys.exit(int(not all([check() for check in asked])))
