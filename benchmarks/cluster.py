"""Forty jobs of a generated monorepo on a Ray cluster of this machine, one of whose workers is killed midway.

    python benchmarks/cluster.py [JOBS] [--same-as-local]

The cluster has 2 CPUs and says that it has 2 GPUs, so that two trials run at a time. Every job has to bring evidence,
none may run twice but the one whose worker was killed; with --same-as-local all run once more in turn, and the verdicts
have to be the same. Exit code 1 where that is not so.
"""

from __future__ import annotations

import collections
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from jitmod.delivery.cluster import Share, in_worker, on_ray
from jitmod.delivery.executor import Task, here, run_all
from jitmod.delivery.plan import read_job

PACKAGE = '''\
import equinox as eqx
import jax
import jax.numpy as jnp


class Net(eqx.Module):
    net: eqx.nn.MLP

    def __call__(self, x: jax.Array) -> jax.Array:
        return jnp.{function}(self.net(x)) * {number}.0


def rate(model: Net, xs: jax.Array) -> jax.Array:
    out = []
    for x in xs:
        out.append(model(x))
    return jnp.stack(out)
'''
BENCH = '''\
import equinox as eqx
import jax

from {name}.model import Net, rate


def setup():
    one, two = jax.random.split(jax.random.key({number}))
    return Net(eqx.nn.MLP(4, 4, 8, 2, key=one)), jax.random.normal(two, (24, 4))


def run(model, xs):
    {work}
'''
WORKS = (
    "return rate(model, xs)", "return rate(model, xs)", "return model(xs[0])  # the loop is not reached",
    "return rate(model, xs)", "raise ValueError",
)  # fmt: skip
FUNCTIONS = ("tanh", "sin", "cos", "exp")
LOOPBACK = ("0100007F", "00000000000000000000000001000000")  # 127.0.0.1, also as IPv6, and ::1, as /proc/net has them


def monorepo(root: Path, packages: int) -> None:
    """A repository with so many packages, each with a model, a loop and a benchmark; some of these prove nothing."""
    tables = []
    for number in range(1, packages + 1):
        name = f"team{number}"
        (root / name).mkdir(parents=True)
        (root / name / "__init__.py").touch()
        (root / name / "model.py").write_text(PACKAGE.format(function=FUNCTIONS[number % 4], number=number))
        (root / name / "bench.py").write_text(BENCH.format(name=name, number=number, work=WORKS[number % 5]))
        run, setup = (f"{name}/bench.py:{function}" for function in ("run", "setup"))
        tables.append(f'[[tool.jitmod.workloads]]\nname = "{name}"\nrun = "{run}"\nsetup = "{setup}"\n'
                      f'covers = ["{name}/**"]\n')  # fmt: skip
    (root / "pyproject.toml").write_text("\n".join(tables))
    for arguments in (["init", "--quiet"], ["add", "."], ["-c", "user.name=b", "-c", "user.email=b@example.org",
                                                          "commit", "--quiet", "-m", "start"]):  # fmt: skip
        subprocess.run(["git", *arguments], cwd=root, check=True)


def logged(log: str) -> Any:
    """What a worker does, after it has written down which job it has begun, and in which process."""

    def work(job: dict[str, Any], folder: str, python: str, cpus: int) -> tuple[str, str]:
        with open(log, "a", encoding="utf-8") as file:
            file.write(f"{job['id']} {os.getpid()}\n")
        return in_worker(job, folder, python, cpus)

    return work


def open_to_others() -> set[tuple[str, str]]:
    """The sockets of this machine that listen on more than the loopback, by table and address."""
    found = set()
    for table in ("tcp", "tcp6"):
        lines = Path(f"/proc/net/{table}").read_text().splitlines()[1:]
        rows = [line.split() for line in lines]
        found |= {(table, row[1]) for row in rows if row[3] == "0A" and not row[1].partition(":")[0].endswith(LOOPBACK)}
    return found


def kill_one(log: Path, evidence: Path, after: int) -> None:
    """Once there is evidence of `after` jobs, end a worker that is at work."""
    before = open_to_others()
    while True:
        time.sleep(1.0)
        begun = [line.split() for line in log.read_text().splitlines()] if log.exists() else []
        done = {json.loads(file.read_text())["planned"]["id"] for file in evidence.glob("*.json")}
        at_work = [(identity, process) for identity, process in begun if identity not in done]
        if at_work and len(done) >= after:
            print(f"listening beyond the loopback: {sorted(open_to_others() - before) or 'nothing'}")
            os.kill(int(at_work[-1][1]), signal.SIGKILL)
            print(f"killed the worker of {at_work[-1][0]}", flush=True)
            return


def verdicts(folder: Path) -> dict[str, str]:
    return {file.name: json.loads(file.read_text())["verdict"] for file in sorted(folder.glob("*.json"))}


def main(packages: int, same: bool) -> int:
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        root, jobs, log = place / "monorepo", place / "jobs", place / "begun"
        monorepo(root, packages)
        jitmod = str(Path(sys.executable).with_name("jitmod"))
        words = [jitmod, "plan", ".", "--codemod", "vmapify", "-o", str(jobs), "--quiet"]
        subprocess.run(words, cwd=root, check=True, stdout=subprocess.DEVNULL)
        os.chdir(root)
        found: dict[str, dict[str, str]] = {}
        for executor in ("ray", "local")[: 1 + same]:
            evidence = place / executor
            evidence.mkdir()
            tasks = [Task(file.name, read_job(file), evidence / file.name) for file in sorted(jobs.iterdir())]
            python = Path(sys.executable)
            runner = here(root, python)
            if executor == "ray":
                threading.Thread(target=kill_one, args=(log, evidence, packages // 4), daemon=True).start()
                runner = on_ray(root, python, Share(cpus=1), logged(str(log)), declared={"num_cpus": 2, "num_gpus": 2})
            start = time.monotonic()
            missing = run_all(tasks, runner, lambda name, how: print(f"{name}: {how}", flush=True))
            found[executor] = verdicts(evidence)
            counted = dict(collections.Counter(found[executor].values()))
            print(f"{executor}: {len(tasks)} jobs in {time.monotonic() - start:.0f} s: {counted}", *missing, sep="\n")
        begun = collections.Counter(line.split()[0] for line in log.read_text().splitlines())
        twice = [identity for identity, count in begun.items() if count > 1]
        print(f"{begun.total()} times a job was begun, {len(twice)} of them again")
        whole = all(len(one) == packages for one in found.values()) and len(twice) == 1
        return int(not whole or (same and found["ray"] != found["local"]))


if __name__ == "__main__":
    numbers = [argument for argument in sys.argv[1:] if argument.isdecimal()]
    sys.exit(main(int(numbers[0]) if numbers else 40, "--same-as-local" in sys.argv))
