"""The jobs of `jitmod plan . -o jobs` as one Slurm array: python slurm.py [jobs [evidence]], in the clone.

Needs `pip install submitit`, and a file system that all machines share. Run it again after a failure: jobs that have
their evidence are not submitted. Without Slurm, JITMOD_CLUSTER=local runs them here.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import submitit


def trial(job: str, evidence: str) -> None:
    subprocess.run([sys.executable, "-m", "jitmod", "trial", "--job", job, "-o", evidence], check=True)


def main(jobs: Path, evidence: Path) -> int:
    executor = submitit.AutoExecutor(folder=evidence / "logs", cluster=os.environ.get("JITMOD_CLUSTER"))
    executor.update_parameters(
        name="jitmod", timeout_min=30, cpus_per_task=8, mem_gb=32, gpus_per_node=1, slurm_array_parallelism=32,
    )  # fmt: skip
    todo = [file for file in sorted(jobs.glob("*.json")) if not (evidence / file.name).exists()]
    submitted = executor.map_array(trial, map(str, todo), [str(evidence / file.name) for file in todo])
    failed = [file.name for file, one in zip(todo, submitted, strict=True) if one.exception() is not None]
    print(f"{len(todo) - len(failed)} of {len(todo)} jobs have evidence now", *failed, sep="\n")
    return int(bool(failed))


if __name__ == "__main__":
    folders = [Path(argument) for argument in sys.argv[1:]]
    sys.exit(main(*[*folders, *[Path("jobs"), Path("evidence")][len(folders) :]]))
