"""`jitmod record` and `jitmod apply -- COMMAND` as a user meets them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

Write = Callable[[dict[str, str]], None]
Jitmod = Callable[..., subprocess.CompletedProcess[str]]

MODEL = """\
    import equinox as eqx
    import jax
    import jax.numpy as jnp


    class Net(eqx.Module):
        layers: list

        def __init__(self, key):
            self.layers = [eqx.nn.Linear(16, 16, key=k) for k in jax.random.split(key, 4)]

        def __call__(self, x):
            for layer in self.layers:
                x = jax.nn.gelu(layer(x))
            return x


    """
SCORE = """\
    def score(net: Net, crops: jax.Array):
        out = []
        for crop in crops:
            out.append(net(crop))
        return jnp.stack(out)
    """
SCRIPT = MODEL.rstrip(" ") + SCORE.rstrip(" ") + """\


    def main():
        net = Net(jax.random.key(0))
        for n in range(1000):
            print(n, score(net, jax.random.normal(jax.random.key(n), (24, 16))).shape)


    if __name__ == "__main__":
        main()
    """
TESTS = """\
    import jax
    import pytest

    from app.model import Net
    from app.score import score


    @pytest.mark.parametrize("n", [8, 24, 40])
    def test_score(n):
        assert score(Net(jax.random.key(0)), jax.random.normal(jax.random.key(n), (n, 16))).shape == (n, 16)
    """


@pytest.fixture
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def jitmod(tmp_path: Path, cache: Path) -> Jitmod:
    """Run jitmod in the folder, with a cache of its own, and the environment's programs on the path."""
    environ = {**os.environ, "XDG_CACHE_HOME": str(cache), "GIT_CONFIG_GLOBAL": os.devnull,
               "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])}  # fmt: skip

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", "from jitmod.cli.main import main; main()", *arguments]
        return subprocess.run(command, cwd=tmp_path, env=environ, capture_output=True, text=True, check=False)

    return run


@pytest.fixture
def commit(tmp_path: Path) -> Callable[[], None]:
    def make() -> None:
        git = ["git", "-c", "init.defaultBranch=main"]
        subprocess.run([*git, "init", "--quiet"], cwd=tmp_path, check=True)
        for name in ("name", "email"):
            subprocess.run(["git", "config", f"user.{name}", "x@example.org"], cwd=tmp_path, check=True)
        subprocess.run(["git", "add", "."], cwd=tmp_path, check=True)
        subprocess.run(["git", "commit", "--quiet", "-m", "x"], cwd=tmp_path, check=True)

    return make


def test_one_script_outside_git_is_recorded_tried_and_written(
    write: Write, jitmod: Jitmod, tmp_path: Path, cache: Path
) -> None:
    write({"script.py": SCRIPT})
    before = (tmp_path / "script.py").read_text()
    done = jitmod("apply", ".", "--codemod", "vmapify", "--write", "--", "python", "script.py")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 patch tried on cpu: 1 accepted" in done.stdout
    assert "(24, 16)" not in done.stdout and "(24, 16)" in done.stderr, "the program's output is no result of jitmod's"
    assert "999 (24, 16)" not in done.stderr, "it was stopped"
    after = (tmp_path / "script.py").read_text()
    assert "@eqx.filter_jit" in after and after != before
    assert [p.name for p in tmp_path.iterdir() if p.name != "__pycache__"] == ["script.py"]
    (backup,) = cache.rglob("backups/*/script.py")
    assert backup.read_text() == before and str(backup.parent) in done.stderr
    use = "import script, jax; print(script.score(script.Net(jax.random.key(0)), jax.numpy.ones((5, 16))).shape)"
    ran = subprocess.run([sys.executable, "-c", use], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert ran.stdout == "(5, 16)\n"


def test_the_tests_of_a_project_prove_its_patches(
    write: Write, jitmod: Jitmod, commit: Callable[[], None], tmp_path: Path
) -> None:
    head = "    import jax\n    import jax.numpy as jnp\n\n    from .model import Net\n\n\n"
    write({
        "src/app/__init__.py": "", "src/app/model.py": MODEL, "src/app/score.py": head + SCORE,
        "tests/test_score.py": TESTS, "pytest.ini": "[pytest]\npythonpath = src\n", ".gitignore": "*_cache\n__*\n",
    })  # fmt: skip
    commit()
    without = jitmod("apply", "--codemod", "vmapify", "src")
    assert without.returncode == 1 and "no workload" in without.stdout and "jitmod record -- COMMAND" in without.stdout
    recorded = jitmod("record", "--", "pytest", "-q", "-p", "no:cacheprovider")
    assert recorded.returncode == 0 and "3 passed" in recorded.stdout, recorded.stdout + recorded.stderr
    assert "jitmod: recorded 7 calls of 3 functions" in recorded.stderr
    done = jitmod("apply", "--codemod", "vmapify", "src")
    assert done.returncode == 0, done.stdout + done.stderr
    message = subprocess.run(["git", "log", "-1", "--format=%B", "jitmod/vmapify"], cwd=tmp_path, capture_output=True,
                             text=True, check=True)  # fmt: skip
    assert "(on 3 recorded calls of score (pytest))" in " ".join(message.stdout.split())
    status = subprocess.run(["git", "status", "--porcelain"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert status.stdout == "", "nothing but git's own folder was written"


def test_annotations_are_the_last_resort_and_named_as_such(
    write: Write, jitmod: Jitmod, commit: Callable[[], None], tmp_path: Path
) -> None:
    more = "import jax.numpy as jnp\n    from jaxtyping import Array, Float\n"
    text = MODEL.replace("import jax.numpy as jnp\n", more)
    score = SCORE.replace("crops: jax.Array", 'crops: Float[Array, "n 16"]')
    write({"app.py": text.rstrip(" ") + score})
    commit()
    done = jitmod("apply", "--codemod", "vmapify", "app.py")
    assert done.returncode == 0, done.stdout + done.stderr
    message = subprocess.run(["git", "log", "-1", "--format=%B", "jitmod/vmapify"], cwd=tmp_path, capture_output=True,
                             text=True, check=True)  # fmt: skip
    assert "on arguments made from the annotations of score, for want of a workload" in " ".join(message.stdout.split())


def test_record_is_the_program_and_says_what_it_saw(write: Write, jitmod: Jitmod) -> None:
    write({"main.py": "import sys\n\ndef f(xs):\n    return [x for x in xs]\n\nprint(f([1]), sys.argv)\nsys.exit(5)\n"})
    done = jitmod("record", "--", "python", "main.py", "--format", "json", "--", "x")
    assert (done.returncode, done.stdout) == (5, "[1] ['main.py', '--format', 'json', '--', 'x']\n")
    assert "jitmod: recorded 1 call of 1 function, and the kinds of 1" in done.stderr
    assert jitmod("record", "--quiet", "--", "python", "main.py").stderr == ""


def test_a_recording_travels_only_with_trust(write: Write, jitmod: Jitmod, cache: Path) -> None:
    write({"main.py": "def f(xs):\n    return [x for x in xs]\n\nf([1])\n", "pyproject.toml": ""})
    assert jitmod("record", "--export", "r.zip").returncode == 2
    assert jitmod("record", "--", "python", "main.py").returncode == 0
    assert jitmod("record", "--export", "r.zip").returncode == 0
    (state,) = (cache / "jitmod").iterdir()
    state.rename(cache / "gone")
    assert jitmod("record", "--trust", "r.zip").returncode == 0
    assert len(list(state.glob("recordings/*/recording.json"))) == 1
    refused = jitmod("record", "--trust", "main.py")
    assert refused.returncode == 2 and "main.py cannot be read" in refused.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param(["record"], "give a command after --, or --export FILE, or --trust FILE", id="nothing"),
        pytest.param(["record", "--"], "no command after --", id="no command"),
        pytest.param(["record", "--export", "x", "--", "python", "main.py"], "give a command after --, or", id="two"),
        pytest.param(["record", "--", "sh", "-c", "true"], "sh is not a Python program", id="shell"),
        pytest.param(["apply", "--dry-run", "--", "python", "main.py"], "--dry-run runs nothing", id="dry run"),
        pytest.param(["apply", "--write", "--branch", "x"], "--write changes the files as they are", id="two places"),
        pytest.param(["apply", "--", "python", "main.py"], "not a git repository", id="found out before it runs"),
        pytest.param(["apply", "--write", "--", "python", "-c", "pass"], "no function of the project", id="none ran"),
    ],
)
def test_bad_arguments(write: Write, jitmod: Jitmod, arguments: list[str], message: str) -> None:
    write({"main.py": "def f(xs):\n    return [x for x in xs]\n\nf([1])\nprint('it ran')\n"})
    done = jitmod(*arguments)
    assert done.returncode == 2 and message in done.stderr and "it ran" not in done.stdout + done.stderr


def test_write_refuses_a_dirty_file_and_takes_a_clean_one(
    write: Write, jitmod: Jitmod, commit: Callable[[], None], tmp_path: Path
) -> None:
    write({"a.py": "x = 1\n", "b.py": "y = 1\n"})
    commit()
    write({"a.py": "x = 2\n", "new.py": ""})
    for path in ("a.py", "new.py", "."):
        done = jitmod("apply", "--write", path)
        assert done.returncode == 2 and "not committed, so --write would mix" in done.stderr, path
    assert jitmod("apply", "--write", "b.py").returncode == 0
