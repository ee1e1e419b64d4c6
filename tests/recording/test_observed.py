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
from jitmod.source.project import Project
from jitmod.source.recording import Recorded, RecordedFunction

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


def _found(root: Path, qualname: str, believed: bool = True, path: str = "main.py", **kinds: Any) -> list[Any]:
    """The findings where a recording saw these kinds (one, or a list of several) of a function's parameters."""
    project = Project.build(root, sorted(p.name for p in root.glob("*.py")))
    listed = {name: tuple(kind if isinstance(kind, list) else [kind]) for name, kind in kinds.items()}
    function = RecordedFunction(root, "x.py", path, qualname, qualname, 3, listed, {}, (), {}, ())
    known = Recorded({(path, qualname): function})
    return list(scan([Vmapify()], project.with_recorded(known), [path]).findings)


def _patched(root: Path, qualname: str, path: str = "main.py", **kinds: Any) -> str:
    (found,) = _found(root, qualname, path=path, **kinds)
    assert isinstance(found, Patch), found
    document = Project.build(root, [path]).documents[path]
    return compose(document, found.variants[0].realise({})).decode()


def test_without_a_recording_there_is_no_patch(write: Write, tmp_path: Path) -> None:
    write({"main.py": SCORE})
    assert not any(isinstance(f, Patch) for f in _found(tmp_path, "score"))


def test_a_patch_checks_what_it_rests_on_and_is_not_safe(write: Write, tmp_path: Path) -> None:
    write({"main.py": SCORE})
    (patch,) = _found(tmp_path, "score", net=NET, crops=ARRAY)
    assert patch.applicability is Applicability.TRIAL
    assert [a.text for a in patch.assumptions if a.code == "recorded-kind"] == [
        "`net` is a Net, as in every recorded call; another kind raises",
        "`crops` is a jax.Array, as in every recorded call; another kind raises",
    ]
    text = _patched(tmp_path, "score", net=NET, crops=ARRAY)
    assert """\
    '''Scores.'''
    if type(net) is not Net or not isinstance(crops, jax.Array):
        raise TypeError("score: net must be a Net, crops must be a jax.Array")
""" in text


@pytest.fixture
def scored(write: Write, tmp_path: Path) -> ModuleType:
    write({"main.py": SCORE})
    module = ModuleType("scored")
    exec(compile(_patched(tmp_path, "score", net=NET, crops=ARRAY), "scored", "exec"), vars(module))
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
    with pytest.raises(TypeError, match=r"score: net must be a Net, crops must be a jax.Array"):
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
    text = _patched(tmp_path, "score", net=NET, crops=ARRAY, verbose={"kind": "number", "type": "bool"}, scale=FLOAT)
    assert "    if not isinstance(crops, jax.Array):\n        raise TypeError" in text


def test_lists_numbers_and_classes_of_the_library(write: Write, tmp_path: Path) -> None:
    write({"main.py": HEAD.rstrip(" ") + """\
    def score(net, crops, scale):
        return [net(crop * scale) for crop in crops]
    """})
    text = _patched(tmp_path, "score", net=LINEAR, crops=_items(ARRAY), scale=FLOAT)
    condition = next(n.test for n in ast.walk(ast.parse(text)) if isinstance(n, ast.If) and "score:" in ast.unparse(n))
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
    assert not any(isinstance(f, Patch) for f in _found(tmp_path, "score", **kinds))


def test_a_class_that_the_file_cannot_name_is_left_alone(write: Write, tmp_path: Path) -> None:
    score = "import jax.numpy as jnp\n\ndef score(net, crops):\n    return jnp.stack([net(crop) for crop in crops])\n"
    write({"main.py": HEAD, "score.py": score, "named.py": "from main import Net as N\n" + score})
    assert not any(isinstance(f, Patch) for f in _found(tmp_path, "score", path="score.py", net=NET, crops=ARRAY))
    text = _patched(tmp_path, "score", path="named.py", net=NET, crops=ARRAY)
    assert "type(net) is not N or not isinstance(crops, jax.Array)" in text


def test_what_the_code_says_goes_before_what_was_seen(write: Write, tmp_path: Path) -> None:
    write({"main.py": SCORE.rstrip(" ") + "\n    import numpy as np\n    score(Net(None), np.ones((3, 3)))\n"})
    plain = scan([Vmapify()], Project.build(tmp_path, ["main.py"]), ["main.py"]).findings
    assert _found(tmp_path, "score", net=NET, crops=ARRAY) == list(plain) != []


def test_only_the_functions_own_parameters_count(write: Write, tmp_path: Path) -> None:
    write({"main.py": SCORE.rstrip(" ") + "\n    def outer(net, crops):\n        return score(net, crops)\n"})
    found = _found(tmp_path, "outer", net=NET, crops=ARRAY)
    assert not any(isinstance(f, Patch) for f in found), "score itself would not check it"


def test_a_second_loop_of_the_function_is_checked_once(write: Write, tmp_path: Path) -> None:
    write({"main.py": HEAD.rstrip(" ") + """\
    def score(net, crops):
        one = [net(crop) for crop in crops]
        two = [net(crop + 1) for crop in crops]
        return jnp.stack(one), jnp.stack(two)
    """})
    first = next(f for f in _found(tmp_path, "score", net=NET, crops=ARRAY) if isinstance(f, Patch))
    text = compose(Project.build(tmp_path, ["main.py"]).documents["main.py"], first.variants[0].realise({})).decode()
    write({"main.py": dedent(text)})
    again = _patched(tmp_path, "score", net=NET, crops=ARRAY)
    assert again.count("raise TypeError") == 1 and again.count("@eqx.filter_jit") == 2


def test_crlf_and_tabs(write: Write, tmp_path: Path) -> None:
    text = dedent(SCORE).replace("    ", "\t").replace("\n", "\r\n")
    (tmp_path / "main.py").write_bytes(text.encode())
    (found,) = _found(tmp_path, "score", net=NET, crops=ARRAY)
    document = Project.build(tmp_path, ["main.py"]).documents["main.py"]
    after = compose(document, found.variants[0].realise({}))
    assert b"\r\n\tif type(net) is not Net" in after and b"\r\n\t\traise TypeError(" in after
    assert after.count(b"\n") == after.count(b"\r\n")
