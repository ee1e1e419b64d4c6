"""What a recording saw raises a patch only where the code checks it."""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jitmod.codemods.vmapify import Vmapify

from jitmod.model import Applicability, Patch
from jitmod.rewrite.codemod import scan
from jitmod.rewrite.edits import compose
from jitmod.source.loops import loops, names_read
from jitmod.source.project import Project
from jitmod.source.recording import Recorded

ARRAY = {"kind": "array", "dtype": "float32", "key": False, "weak": False, "traced": False}
NET = {"kind": "object", "class": ["__main__", "Net", "main.py"], "traced": False}
LINEAR = {"kind": "object", "class": ["equinox.nn", "Linear", ""], "traced": False}
INT, FLOAT = {"kind": "number", "type": "int"}, {"kind": "number", "type": "float"}
HEAD = """\
    import equinox as eqx
    import jax
    import jax.numpy as jnp


    class Net(eqx.Module):
        layer: eqx.nn.Linear

        def __call__(self, x):
            return jax.nn.relu(self.layer(x))


    """
SCORE = HEAD.rstrip(" ") + """\
    def score(net, crops):
        '''Scores.'''
        out = []
        for crop in crops:
            out.append(net(crop))
        return jnp.stack(out)
    """

Write = Callable[[dict[str, str]], None]


def _items(kind: dict[str, Any], name: str = "list") -> dict[str, Any]:
    return {"kind": name, "items": [kind], "one_by_one": False}


def _found(root: Path, where: str, path: str = "main.py", **kinds: Any) -> list[Any]:
    """The findings where a recording saw these kinds (one, or a list of several) of names in a function's loops."""
    project = Project.build(root, sorted(p.name for p in root.glob("*.py")))
    listed = {name: tuple(kind if isinstance(kind, list) else [kind]) for name, kind in kinds.items()}
    keys = [key for _, key in loops(project.documents[path]) if key.rpartition(":")[0] == where]
    assert keys
    known = Recorded(loops={(path, key): listed for key in keys})
    return list(scan([Vmapify()], project.with_recorded(known), [path]).findings)


def _patched(root: Path, where: str, path: str = "main.py", **kinds: Any) -> str:
    found = next(f for f in _found(root, where, path=path, **kinds) if isinstance(f, Patch))
    document = Project.build(root, [path]).documents[path]
    return compose(document, found.variants[0].realise({})).decode()


def test_without_a_recording_there_is_no_patch(write: Write, tmp_path: Path) -> None:
    write({"main.py": SCORE})
    assert not any(isinstance(f, Patch) for f in _found(tmp_path, ".score"))


def test_a_patch_checks_what_it_rests_on_and_is_not_safe(write: Write, tmp_path: Path) -> None:
    write({"main.py": SCORE})
    (patch,) = _found(tmp_path, ".score", net=NET, crops=ARRAY)
    assert patch.applicability is Applicability.TRIAL
    assert [a.text for a in patch.assumptions if a.code == "recorded-kind"] == [
        "`crops` is a jax.Array, as in every recorded run; else it raises",
        "`net` is a Net, as in every recorded run; else it raises",
    ]
    text = _patched(tmp_path, ".score", net=NET, crops=ARRAY)
    assert """\
    '''Scores.'''
    if not isinstance(crops, jax.Array) or type(net) is not Net:
        raise TypeError("crops must be a jax.Array, net must be a Net")
""" in text


@pytest.fixture
def scored(write: Write, tmp_path: Path) -> ModuleType:
    write({"main.py": SCORE})
    module = ModuleType("scored")
    exec(compile(_patched(tmp_path, ".score", net=NET, crops=ARRAY), "scored", "exec"), vars(module))
    return module


def test_the_patched_code_takes_what_was_seen(scored: ModuleType) -> None:
    import equinox as eqx

    net = scored.Net(eqx.nn.Linear(3, 2, key=jax.random.key(0)))
    crops = jnp.arange(12.0).reshape(4, 3)
    assert jnp.allclose(scored.score(net, crops), jnp.stack([net(crop) for crop in crops]))
    assert jax.jit(lambda xs: scored.score(net, xs))(crops).shape == (4, 2), "a traced array is an array"


@pytest.mark.parametrize(
    "crops",
    [
        pytest.param(np.ones((4, 3)), id="numpy's double precision"),
        pytest.param([jnp.ones(3)] * 4, id="a list"),
        pytest.param({"a": jnp.ones(3)}, id="a dict"),
        pytest.param((jnp.ones(3) for _ in range(4)), id="a generator"),
    ],
)
def test_another_kind_raises(scored: ModuleType, crops: Any) -> None:
    import equinox as eqx

    net = scored.Net(eqx.nn.Linear(3, 2, key=jax.random.key(0)))
    with pytest.raises(TypeError, match=r"crops must be a jax\.Array, net must be a Net"):
        scored.score(net, crops)


def test_another_class_raises_also_a_subclass(scored: ModuleType) -> None:
    class Loud(scored.Net):
        def __call__(self, x: Any) -> Any:
            print("called")
            return x

    with pytest.raises(TypeError, match="net must be a Net"):
        scored.score(Loud(None), jnp.ones((4, 3)))


def test_only_what_is_needed_is_checked(write: Write, tmp_path: Path) -> None:
    write({"main.py": HEAD.rstrip(" ") + """\
    def score(net: Net, crops, verbose, scale):
        if verbose:
            print("scoring")
        return jnp.stack([net(crop) for crop in crops])
    """})
    text = _patched(tmp_path, ".score", net=NET, crops=ARRAY, verbose={"kind": "number", "type": "bool"}, scale=FLOAT)
    assert "    if not isinstance(crops, jax.Array):\n        raise TypeError" in text


def test_lists_numbers_and_classes_of_the_library(write: Write, tmp_path: Path) -> None:
    write({"main.py": HEAD.rstrip(" ") + """\
    def score(net, crops, scale):
        return [net(crop * scale) for crop in crops]
    """})
    text = _patched(tmp_path, ".score", net=LINEAR, crops=_items(ARRAY), scale=FLOAT)
    condition = next(n.test for n in ast.walk(ast.parse(text)) if isinstance(n, ast.If) and "must be" in ast.unparse(n))
    names = {"eqx": __import__("equinox"), "jax": jax}

    def fails(**values: Any) -> bool:
        return bool(eval(compile(ast.Expression(condition), "condition", "eval"), {**names, **values}))

    net = names["eqx"].nn.Linear(3, 2, key=jax.random.key(0))
    right = {"net": net, "crops": [jnp.ones(3)] * 3, "scale": 2.0}
    assert not fails(**right)
    wrong = [{"net": names["eqx"].nn.Identity()}, {"crops": jnp.ones((3, 3))}, {"crops": [np.ones(3)]},
             {"scale": np.float64(2.0)}, {"scale": 2}, {"scale": True}]  # fmt: skip
    for other in wrong:
        assert fails(**{**right, **other}), other


@pytest.mark.parametrize(
    "kinds",
    [
        pytest.param({"net": NET, "crops": [ARRAY, {"kind": "ndarray", "dtype": "float64"}]}, id="two kinds were seen"),
        pytest.param({"net": NET, "crops": {"kind": "iterator", "type": "generator"}}, id="an iterator"),
        pytest.param({"net": NET, "crops": {"kind": "many"}}, id="too many kinds to tell"),
        pytest.param({"net": [NET, LINEAR], "crops": ARRAY}, id="two classes"),
        pytest.param({"net": {"kind": "object", "class": ["lib", "Net", ""]}, "crops": ARRAY}, id="a library's class"),
        pytest.param({"net": {"kind": "function", "name": ["m", "f"]}, "crops": ARRAY}, id="a function"),
        pytest.param({"crops": ARRAY}, id="nothing of the callee"),
    ],
)
def test_left_alone(write: Write, tmp_path: Path, kinds: dict[str, Any]) -> None:
    write({"main.py": SCORE})
    assert not any(isinstance(f, Patch) for f in _found(tmp_path, ".score", **kinds))


def test_a_class_that_the_file_cannot_name_is_left_alone(write: Write, tmp_path: Path) -> None:
    score = "import jax.numpy as jnp\n\ndef score(net, crops):\n    return jnp.stack([net(crop) for crop in crops])\n"
    write({"main.py": HEAD, "score.py": score, "named.py": "from main import Net as N\n" + score})
    assert not any(isinstance(f, Patch) for f in _found(tmp_path, ".score", path="score.py", net=NET, crops=ARRAY))
    text = _patched(tmp_path, ".score", path="named.py", net=NET, crops=ARRAY)
    assert "if not isinstance(crops, jax.Array) or type(net) is not N:" in text


def test_what_the_code_says_goes_before_what_was_seen(write: Write, tmp_path: Path) -> None:
    write({"main.py": SCORE.rstrip(" ") + "\n    import numpy as np\n    score(Net(None), np.ones((3, 3)))\n"})
    plain = scan([Vmapify()], Project.build(tmp_path, ["main.py"]), ["main.py"]).findings
    assert _found(tmp_path, ".score", net=NET, crops=ARRAY) == list(plain) != []


def test_only_the_loop_that_checks_it_believes_it(write: Write, tmp_path: Path) -> None:
    write({"main.py": SCORE.rstrip(" ") + """\
    def outer(net, crops):
        for _ in range(3):
            score(net, crops)
    """})
    found = _found(tmp_path, ".outer", net=NET, crops=ARRAY)
    assert not any(isinstance(f, Patch) for f in found), "score itself would not check it"


def test_every_loop_is_checked_where_it_begins(write: Write, tmp_path: Path) -> None:
    write({"main.py": HEAD.rstrip(" ") + """\
    def score(make, crops):
        if make is None:
            return None
        net = make()
        one = [net(crop) for crop in crops]
        crops = crops + 1
        two = [net(crop) for crop in crops]
        return jnp.stack(one), jnp.stack(two)
    """})
    before = next(f for f in _found(tmp_path, ".score", net=NET, crops=ARRAY) if isinstance(f, Patch))
    text = compose(Project.build(tmp_path, ["main.py"]).documents["main.py"], before.variants[0].realise({})).decode()
    assert text.index("return None") < text.index("net = make()") < text.index("raise TypeError") < text.index("one =")
    write({"main.py": text})
    again = _patched(tmp_path, ".score", net=NET, crops=ARRAY)
    assert again.count("raise TypeError") == 2 and again.count("@eqx.filter_jit") == 2
    assert again.index("crops = crops + 1") < again.rindex("raise TypeError") < again.index("two =")


def test_names_of_the_module_and_results_of_calls(write: Write, tmp_path: Path) -> None:
    write({"main.py": HEAD.rstrip(" ") + """\
    import pickle

    NET = pickle.load(open("net.pkl", "rb"))


    def score(path):
        crops = pickle.load(open(path, "rb"))
        return jnp.stack([NET(crop) for crop in crops])
    """})
    found = _found(tmp_path, ".score", NET=NET, crops=ARRAY)
    assert [f.codemod for f in found if isinstance(f, Patch)] == ["vmapify"]
    text = _patched(tmp_path, ".score", NET=NET, crops=ARRAY)
    assert "if type(NET) is not Net or not isinstance(crops, jax.Array):" in text


@pytest.mark.parametrize(
    "body",
    [
        pytest.param("return [net(crop) for crop in crops] if net else []", id="one of two branches"),
        pytest.param("return crops is not None and [net(crop) for crop in crops]", id="behind an and"),
        pytest.param("return lambda: [net(crop) for crop in crops]", id="later"),
        pytest.param("return [[net(crop) for crop in crops] for _ in range(3)]", id="in another comprehension"),
        pytest.param("if True: return [net(crop) for crop in crops]", id="behind an if on its line"),
        pytest.param("while len([net(crop) for crop in crops]) > 3: pass", id="the test of a while"),
    ],
)
def test_where_a_check_would_run_although_the_loop_does_not(write: Write, tmp_path: Path, body: str) -> None:
    write({"main.py": HEAD.rstrip(" ") + f"    def score(net, crops):\n        {body}\n"})
    assert not any(isinstance(f, Patch) for f in _found(tmp_path, ".score", net=NET, crops=ARRAY))


@pytest.mark.parametrize(
    ("body", "patched"),
    [
        pytest.param("out.append(net(crop))", True, id="its own list"),
        pytest.param("table[i] = net(crop)", True, id="its own dict"),
        pytest.param("log.append(net(crop)[0])", False, id="a list of the caller's, perhaps the same one"),
        pytest.param("log[i] = net(crop)", False, id="an entry of the caller's list"),
        pytest.param("known = out\n            known.append(net(crop))", False, id="a second name"),
        pytest.param("log += [net(crop)]", False, id="in place"),
    ],
)
def test_lists_count_only_where_nothing_of_others_is_changed(
    write: Write, tmp_path: Path, body: str, patched: bool
) -> None:
    write({"main.py": HEAD.rstrip(" ") + f"""\
    def score(net, crops, log):
        out = []
        table = {{}}
        for i, crop in enumerate(crops):
            {body}
        return out, table
    """})
    found = _found(tmp_path, ".score", net=NET, crops=_items(ARRAY))
    assert any(isinstance(f, Patch) for f in found) is patched


def test_names_that_a_loop_binds_do_not_count() -> None:
    text = """\
for x, (y, z) in zip(xs, f(ys)):
    total += x
    def inner(a, b=c): return a + d
    import os.path, numpy as np
    with open(x) as file:
        print([w for w in file], out.shape, (n := 3))
"""
    (loop,) = ast.parse(text).body
    assert isinstance(loop, ast.For)
    assert names_read(loop) == ["c", "d", "f", "open", "out", "print", "xs", "ys", "zip"]


def test_crlf_and_tabs(write: Write, tmp_path: Path) -> None:
    text = dedent(SCORE).replace("    ", "\t").replace("\n", "\r\n")
    (tmp_path / "main.py").write_bytes(text.encode())
    (found,) = _found(tmp_path, ".score", net=NET, crops=ARRAY)
    document = Project.build(tmp_path, ["main.py"]).documents["main.py"]
    after = compose(document, found.variants[0].realise({}))
    assert b"\r\n\tif not isinstance(crops" in after and b"\r\n\t\traise TypeError(" in after
    assert after.count(b"\n") == after.count(b"\r\n")
