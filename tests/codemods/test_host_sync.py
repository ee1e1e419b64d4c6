"""What host-sync rewrites and refuses, and that every program does the same before and after."""

from __future__ import annotations

import textwrap

import pytest
from harness import assert_equivalent, findings, program, reasons, rewritten
from jitmod.codemods.host_sync import HostSync

CODEMOD = HostSync()
STEP = """
@jax.jit
def step(w, x):
    loss = jnp.mean((w * x) ** 2)
    return w - 0.1 * loss * x, {"loss": loss, "best": jnp.argmax(x)}


XS = list(jax.random.normal(jax.random.key(0), (5, 3)))
"""
REWRITTEN = {
    "lists and sums": """
        def train(w: jax.Array, batches: list[jax.Array], epochs: int):
            history, best = [], []
            for epoch in range(epochs):
                total, count = 0.0, 0
                # one round for each batch
                for x in batches:
                    w, aux = step(w, x)
                    total += aux["loss"].item()  # summed up
                    if epoch % 2:
                        print(epoch)
                print(f"{total:.4f}", count)
                history.append(total)
            return w, history

        def workload(rep):
            return train(XS[0] + rep, XS, 3), train(XS[0], [], 2)
        """,
    "a list that begins before the outer loop": """
        def train(w: jax.Array, batches: list[jax.Array], epochs: int):
            losses = []
            for epoch in range(epochs):
                for x in batches:
                    w, aux = step(w, x)
                    loss = aux["loss"]
                    losses.append(float(loss))
                print(epoch)
            return w, losses, sum(losses)

        def workload(rep):
            return train(XS[0] + rep, XS, 3)
        """,
    "under a condition, and until a break": """
        def train(w: jax.Array, batches: list[jax.Array], every: int):
            losses: list[float] = []
            count = 0
            for i, x in enumerate(batches):
                w, aux = step(w, x)
                if i % every == 0:
                    losses.append(float(aux["loss"]))
                count += int(aux["best"])
                if i == 3:
                    break
            losses.append(0.5)
            return w, losses, count

        def workload(rep):
            return train(XS[0] + rep, XS, 2)
        """,
    "a while loop in a with statement": """
        def train(w: jax.Array, n: int):
            losses = []
            with open("/dev/null") as file:
                i = 0
                while i < n:
                    w, aux = step(w, XS[i])
                    losses.append(aux["loss"].item())
                    i += 1
            return w, losses

        def workload(rep):
            return train(XS[0] + rep, 4)
        """,
}


@pytest.mark.parametrize("name", REWRITTEN)
def test_same_results(name: str) -> None:
    before = program(STEP + textwrap.dedent(REWRITTEN[name]))
    assert set(reasons(CODEMOD, before)) == {"patch"}
    after = rewritten(CODEMOD, before)
    assert findings(CODEMOD, after) == ()
    assert_equivalent(before, after)
    assert all(line.partition("#")[2] in after for line in before.splitlines() if "#" in line)


LOOP = "    for x in batches:\n        w, aux = step(w, x)\n"
KEEP = LOOP + "        losses.append(float(aux['loss']))\n"
HEAD = "def train(w: jax.Array, batches: list[jax.Array]):\n    losses = []\n"
REFUSED = {
    "read in the loop": (HEAD + KEEP + "        print(len(losses))\n    return losses\n", "results-escape"),
    "an argument": ("def train(w: jax.Array, batches: list[jax.Array], losses):\n" + KEEP, "results-escape"),
    "two names": (HEAD.replace("losses", "other = losses") + KEEP + "    return losses\n", "results-escape"),
    "a closure": (HEAD + KEEP + "    show = lambda: print(losses)\n    show()\n", "late-binding"),
    "another result is read": (HEAD + KEEP + "        print(float(aux['best']))\n    return losses\n", "too-small"),
    "a result is printed": (HEAD + KEEP + "        print(f'{aux[\"best\"]}')\n    return losses\n", "too-small"),
    "a result decides": (
        HEAD + KEEP + "        if aux['loss'] < 0.1:\n            break\n    return losses\n", "data-dependent-exit"),
    "a clock": (
        "import time\n\n\n" + HEAD + KEEP + "        print(time.time())\n    return losses\n", "timing-loop"),
    "an interrupt": (
        HEAD + "    try:\n" + textwrap.indent(KEEP, "    ")
        + "    except KeyboardInterrupt:\n        pass\n    return losses\n",
        "exception-order",
    ),
    "an interrupt, and the list begins inside": (
        HEAD.replace("    losses = []\n", "    try:\n        losses = []\n") + textwrap.indent(KEEP, "    ")
        + "    except KeyboardInterrupt:\n        pass\n    return losses\n",
        "exception-order",
    ),
    "an error is caught": (
        HEAD + LOOP + "        try:\n            losses.append(float(aux['loss']))\n        except ValueError:\n"
        "            pass\n    return losses\n",
        "exception-order",
    ),
    "an unknown loader": (HEAD.replace(": list[jax.Array]", "") + KEEP + "    return losses\n", "may-alias"),
    "a buffer that is filled anew": (
        HEAD + "    x = np.empty(3, np.float32)\n    for batch in batches:\n        x[:] = batch\n"
        "        w, aux = step(w, x)\n        losses.append(float(aux['loss']))\n    return losses\n",
        "may-alias",
    ),
    "a function that may fill it": (
        "def fill(buffer, i):\n    buffer[...] = i\n\n\n" + HEAD + "    x = np.empty(3)\n    for i in range(3):\n"
        "        fill(x, i)\n        w, aux = step(w, x)\n        losses.append(float(aux['loss']))\n",
        "may-alias",
    ),
    "the list is known elsewhere": (HEAD + "    out = {'l': losses}\n" + KEEP + "    return out\n", "results-escape"),
    "the list is filled before": (HEAD + "    losses.append(3)\n" + KEEP + "    return losses\n", "results-escape"),
    "a function that begins the sum anew": (
        "def train(w: jax.Array, batches: list[jax.Array]):\n    total = 0.0\n\n    def reset():\n"
        "        nonlocal total\n        total = 0.0\n\n" + KEEP.replace("losses.append(", "total += (")
        + "    reset()\n    return total\n",
        "results-escape",
    ),
    "a buffer that an outer loop fills anew": (
        HEAD + "    x = np.empty(3, np.float32)\n    for epoch in range(3):\n        x[:] = epoch\n"
        "        for i in range(3):\n            w, aux = step(w, x)\n            losses.append(float(aux['loss']))\n",
        "may-alias",
    ),
    "a buffer that is filled through an attribute": (
        HEAD + "    x = np.empty(3, np.float32)\n    for i in range(3):\n        x.flat = i\n"
        "        w, aux = step(w, x)\n        losses.append(float(aux['loss']))\n    return losses\n",
        "may-alias",
    ),
    "a clock of an outer loop": (
        "import time\n\n\n" + HEAD + "    for epoch in range(3):\n        start = time.time()\n"
        + textwrap.indent(KEEP, "    ") + "        print(time.time() - start)\n    return losses\n",
        "timing-loop",
    ),
    "a clock that ends the loop": (
        "import time\n\n\ndef left(end):\n    return end - time.time()\n\n\n"
        + HEAD + "    while left(3.0) > 0:\n        w, aux = step(w, XS[0])\n"
        "        losses.append(float(aux['loss']))\n    return losses\n",
        "timing-loop",
    ),
    "a step that donates what is kept, by another name": (
        "@functools.partial(jax.jit, donate_argnums=0)\ndef move(s, x):\n"
        "    return {'w': s['w'] + x, 'loss': jnp.sum(x)}\n\n\n" + HEAD + "    s = {'w': w + 0, 'loss': w[0]}\n"
        "    for x in batches:\n        s = move(s, x)\n        loss = s['loss']\n"
        "        losses.append(float(loss))\n    return losses\n",
        "donated-later-read",
    ),
    "a step of an outer loop that donates what is kept": (
        "@functools.partial(jax.jit, donate_argnums=1)\ndef move(w, loss):\n    return w + loss, loss + 1\n\n\n"
        + HEAD + "    for epoch in range(2):\n        for x in batches:\n            w, aux = step(w, x)\n"
        "            loss = aux['loss']\n            losses.append(float(loss))\n        w, loss = move(w, loss)\n",
        "donated-later-read",
    ),
    "a parameter of the name of jax": (
        "def train(jax, w, n):\n    losses = []\n"
        "    for i in range(n):\n        w, aux = step(w, XS[i])\n        losses.append(float(aux['loss']))\n",
        "rebound-global",
    ),
    "a comment in the statement": (
        "def train(w: jax.Array, batches: list[jax.Array]):\n    total = 0.0\n" + LOOP
        + "        total += (  # in all\n            aux['loss'].item()\n        )\n    return total\n",
        "unparsable",
    ),
    "the names of a function": (HEAD + KEEP + "    print(locals())\n", "dynamic-scope"),
    "a step that prints": (
        "@jax.jit\ndef loud(w, x):\n    jax.debug.print('{}', x)\n    return w, jnp.sum(x)\n\n\n" + HEAD
        + "    for x in batches:\n        w, loss = loud(w, x)\n        losses.append(float(loss))\n",
        "host-effect",
    ),
    "a step that donates": (
        "@functools.partial(jax.jit, donate_argnums=(0, 1))\ndef move(w, loss, x):\n    loss = loss + jnp.sum(x)\n"
        "    return w + x, loss\n\n\n" + HEAD + "    loss = jnp.sum(w)\n    for x in batches:\n"
        "        w, loss = move(w, loss, x)\n        losses.append(float(loss))\n    return losses\n",
        "donated-later-read",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("text", "reason"), REFUSED.values(), ids=REFUSED)
def test_refused(text: str, reason: str) -> None:
    assert reasons(CODEMOD, program(STEP + text)) == [reason]


LEFT = {
    "nothing compiled": HEAD + "    for x in batches:\n        losses.append(float(jnp.sum(w * x)))\n",
    "numbers of the host": HEAD + LOOP + "        losses.append(float(len(x)))\n    return losses\n",
    "the module's own loop": "losses = []\nw = XS[0]\nbatches = XS\n" + textwrap.dedent(KEEP),
    "in a trace": "@jax.jit\n" + HEAD + KEEP + "    return losses\n",
}


@pytest.mark.parametrize("text", LEFT.values(), ids=LEFT)
def test_left_alone(text: str) -> None:
    assert findings(CODEMOD, program(STEP + text)) == ()


def test_what_is_written() -> None:
    after = rewritten(CODEMOD, program(STEP + textwrap.dedent(REWRITTEN["lists and sums"])))
    loop = """
        totals = []
        # one round for each batch
        for x in batches:
            w, aux = step(w, x)
            totals.append(aux["loss"])  # summed up
            if epoch % 2:
                print(epoch)
        for value in jax.device_get(totals):
            total += value.item()
"""
    assert loop in after
