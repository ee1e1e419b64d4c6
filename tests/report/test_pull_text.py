"""The text of a pull request: complete, within the limit, and nothing from code does anything in it."""

from __future__ import annotations

import re

from jitmod.delivery.pull import Commit
from jitmod.report.pull import LIMIT, Rewrite, body, title

EVIDENCE = {
    "judges": [{"warm": {"seconds": {"baseline": [0.2], "candidate": [0.01]}}}],
    "explore": {"versions": {"jax": "0.10", "python": "3.12"}, "device": {"kind": "cpu"}},
}
JOB = {"workload": {"run": "bench/x.py:run", "setup": None}}
HOSTILE = (
    "vmapify: batch `a`b``` ![x](http://evil) <script>alert(1)</script> @everyone #1 | cell | https://evil.test "
    "::error::forged (src/`x`.py)"
)


def rewrite(subject: str, text: str = "Why it was slow.\n\n    warm call  1  2", **more: str) -> Rewrite:
    trailers = {"Codemod": "vmapify", "Speedup": "20", "Device": "cpu"} | more
    message = f"{subject}\n\n{text}\n\n" + "".join(f"Jitmod-{name}: {value}\n" for name, value in trailers.items())
    return Rewrite(Commit("ab12" * 10, message, JOB, EVIDENCE))


def test_what_is_told() -> None:
    text = body([rewrite("vmapify: batch f (a.py)"), rewrite("vmapify: batch g (a.py)")], "jitmod/vmapify", "c0ffee")
    assert "| ab12ab12ab | vmapify: batch f (a.py) | 200 ms | 10 ms | 20x |" in text
    assert "Why it was slow.\n\n```text\nwarm call  1  2\n```" in text
    assert "Measured with jax 0.10, python 3.12 on cpu." in text
    assert "```sh\njitmod trial ab12ab12ab~ ab12ab12ab --workload bench/x.py:run\n```" in text
    assert "    bar [20, 20]\n" in text and "`git log -p c0ffee..jitmod/vmapify`" in text
    assert "without a person looking at it" in text and "# jitmod: ignore" in text


def test_titles() -> None:
    one, two = rewrite("vmapify: batch f (a.py)"), rewrite("jitify: g", Codemod="jitify", Speedup="2.5")
    assert title([one]) == "vmapify: batch f (a.py)"
    assert title([one, two]) == "jitify, vmapify: 2 rewrites, up to 20x faster on cpu"
    assert title([rewrite("tidy: x", Speedup="0.99"), rewrite("tidy: y", Speedup="1")]) == "vmapify: 2 rewrites"
    assert len(title([rewrite("x" * 500)])) == 200


def test_text_from_code_does_nothing() -> None:
    wild = rewrite(HOSTILE, "A ``` fence\n\n    table ```` of\n    ::error::x\x1b[31m </script>", Speedup="1); x")
    text = body([wild, wild], "jitmod/`x`", "c0ffee")
    outside = re.sub(r"(?ms)^(`{3,})[a-z]*\n.*?^\1$", "", text)
    prose = re.sub(r"(?<!\\)`[^`\n]*`", "", outside)
    for mark in ("<script", "[x]", "@every", "#1", "://", "\x1b", "`"):
        assert re.search(rf"(?<!\\){re.escape(mark)}", prose) is None, mark
    assert all(row.count(" | ") == 4 for row in prose.splitlines() if row.startswith("| ab12"))
    assert "\n::error" not in text and "\n: :error::x" in text
    assert "`````text\ntable ```` of\n" in text


def test_the_limit_of_a_body_is_kept() -> None:
    many = [rewrite(f"vmapify: batch f{n} (a.py)", "Long. " * 300) for n in range(120)]
    text = body(many, "jitmod/vmapify", "c0ffee")
    assert len(text) <= LIMIT + 300
    told = text.count("Measured with")
    assert 10 < told < 120 and f"{120 - told} more: their evidence is in the commit messages." in text
    assert "### How to review" in text
