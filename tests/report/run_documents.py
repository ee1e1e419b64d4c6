"""What the reports of a page are made of, and text that must do nothing in one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

HOSTILE = (
    "</script><script>alert(1)</script> <!-- ]]> <img src=x onerror=alert(1)> \"'` `b` {{ 7 * 7 }} "
    "::error::forged\r\n::warning::x \x1b[31mred \u202egnp.\u2066 \x00 \ud800 javascript:alert(1) &lt;"
)
DIFF = """\
--- a/src/a, b.py
+++ b/src/a, b.py
@@ -1,4 +1,5 @@
 \"\"\"Scores
 of everything.\"\"\"
-for x in xs:
-    out.append(f(x))
+@jax.jit
+def _batched(xs):
+    return jax.vmap(f)(xs)  # all at once
@@ -10 +11 @@
-old = 1
+new = "text"
\\ No newline at end of file
"""
PARITY = {
    "calls": 2, "failure": None, "error_in_bounds": 0.003, "weak_types": ["output[0]"], "not_compared": [],
    "site": {"compared": 1, "executions": 3, "failure": None, "error_in_bounds": 0.0, "trip_counts": [5, 1, 0],
             "skipped": {"an argument is a generator": 2}},
    "sabotage": {"scaled": "seen", "rolled": "unseen"}, "reference": "float64", "calibrated": True,
}  # fmt: skip
MEASURED = {
    "warm": {"baseline": [[0.2, 0.21], [0.19, 0.2]], "candidate": [[0.02, 0.021], [0.019, 0.02]]},
    "cold": {
        "baseline": [{"trace": 0.1, "lower": 0.05, "compile": 1.0}],
        "candidate": [{"trace": 0.1, "lower": 0.05, "compile": 0.5}],
    },
    "tuning": [
        {"form": "map", "knobs": {"batch_size": 1}, "predicted": 1048576, "seconds": 0.1, "failure": None},
        {"form": "map", "knobs": {"batch_size": 4}, "predicted": 4194304, "seconds": 0.03, "failure": None},
        {"form": "map", "knobs": {"batch_size": 16}, "predicted": 16777216, "seconds": 0.02, "failure": None},
        {"form": "vmap", "knobs": {}, "seconds": 0.5, "failure": None},
    ],
    "device": "cpu", "versions": {"jax": "0.10.2", "python": "3.12.1"},
}  # fmt: skip


def strings(value: Any) -> Iterator[str]:
    """Every text inside of a document."""
    match value:
        case dict():
            for item in value.values():
                yield from strings(item)
        case list():
            for item in value:
                yield from strings(item)
        case str():
            yield value
