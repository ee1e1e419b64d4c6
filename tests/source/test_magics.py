"""What IPython adds to Python, line by line."""

from __future__ import annotations

import ast

import pytest

from jitmod.source.magics import translate

IN_PLACE = [
    pytest.param("%matplotlib inline", "get_ipython().run_line_magic('matplotlib', 'inline')", id="line magic"),
    pytest.param("%time x = f(1)", "x = f(1)", id="a statement that is timed"),
    pytest.param("%time for x in y: f(x)", "get_ipython().run_line_magic('time', 'for x in y: f(x)')", id="timed loop"),
    pytest.param("%timeit -n 10 -r3 f(x)", "(lambda: f(x))", id="an expression that is timed again and again"),
    pytest.param("!ls *.csv", "get_ipython().system('ls *.csv')", id="shell"),
    pytest.param("!!ls", "get_ipython().getoutput('ls')", id="shell with its output"),
    pytest.param("files = !ls", "files = get_ipython().getoutput('ls')", id="output assigned"),
    pytest.param("d['k'], b = %f x", "d['k'], b = get_ipython().run_line_magic('f', 'x')", id="magic assigned"),
    pytest.param("v = %time f(1)", "v = f(1)", id="timed and assigned"),
    pytest.param("jax.jit??", "get_ipython().run_line_magic('pinfo', 'jax.jit')", id="question"),
    pytest.param("?jax", "get_ipython().run_line_magic('pinfo', 'jax')", id="question first"),
]


@pytest.mark.parametrize(("line", "python"), IN_PLACE)
@pytest.mark.parametrize("indent", ["", "    "])
def test_lines(line: str, python: str, indent: str) -> None:
    before = "if True:\n" if indent else ""
    made = translate(f"{before}{indent}{line}\ny = 1  # why?", "cell 1")
    number = before.count("\n")
    assert made.lines[number] == f"{indent}{python}  # cell 1:1"
    assert made.lines[-1] == "y = 1  # why?" and made.fixed == (number,) and not made.whole


@pytest.mark.parametrize(
    "source",
    [
        pytest.param("x = (a\n % b)", id="a remainder"),
        pytest.param("s = '''\n%no\n!ls\nwhat?\n'''", id="a string"),
        pytest.param("x = a \\\n  % b", id="a line that goes on"),
        pytest.param("x = {\n  'a': 1,  # (\n}\n# really?", id="comments"),
        pytest.param("print(f'{x!r}')", id="a conversion"),
        pytest.param("", id="nothing"),
    ],
)
def test_python_is_left_as_it_is(source: str) -> None:
    assert translate(source, "cell 1").lines == tuple(source.split("\n"))
    mixed = translate(f"{source}\n!ls", "cell 1")
    assert mixed.lines[:-1] == tuple(source.split("\n")) and mixed.fixed == (source.count("\n") + 1,)


@pytest.mark.parametrize(
    ("source", "fixed", "whole"),
    [
        pytest.param("%%time\nx = 1\n%cd ..", (0, 2), False, id="time"),
        pytest.param("\n%%capture out\nx = 1", (1,), False, id="capture, after an empty line"),
        pytest.param("%%time\n%%capture\nx = 1", (0, 1), False, id="two of them"),
        pytest.param("%%bash\nfor x in 1; do\necho\ndone", (), True, id="another language"),
        pytest.param("%%timeit\nfor i in x:\n    f(i)", (), True, id="timeit"),
        pytest.param("%%timeit", (), True, id="timeit without anything"),
        pytest.param("%%timeit\nx = (", (), True, id="timeit of what is no Python"),
        pytest.param("  x = 1\n  y = 2", (), True, id="indented as a whole"),
        pytest.param("!pip install \\\n  jax \\\n  optax\nx = 1", (0, 1, 2), False, id="a command of several lines"),
    ],
)
def test_cells(source: str, fixed: tuple[int, ...], whole: bool) -> None:
    made = translate(source, "cell 1")
    assert len(made.lines) == source.count("\n") + 1
    assert (made.fixed, made.whole) == (fixed, whole)
    ast.parse("\n".join(made.lines))


def test_names_of_a_captured_cell_and_of_a_timed_one() -> None:
    assert translate("%%capture -q out\nx = 1", "cell 1").lines[0].startswith("out = get_ipython()")
    made = translate("%%timeit -n 3\nx = f(1)", "cell 7")
    assert made.lines == ("def _timeit_cell_7():", "    x = f(1)") and made.is_timed
