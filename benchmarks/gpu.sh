#!/usr/bin/env bash
# The examples on a GPU, in under eight minutes: jitmod and a jax that sees the GPU are installed, nothing is downloaded.
#   benchmarks/gpu.sh [FOLDER]      reports go to FOLDER ($OUT, or a temporary one), a table for each example to stdout
# Each example has its share of the time; what is not done by then is not in the table.
set -euo pipefail
out="${1:-${OUT:-$(mktemp -d)}}"
mkdir -p "$out"
out="$(cd "$out" && pwd)"
source "$(dirname "${BASH_SOURCE[0]}")/../examples/common.sh"
unset JAX_PLATFORMS

python - <<'PYTHON'
import jax

device = jax.devices()[0]
assert device.platform in ("gpu", "cuda", "rocm"), f"jax sees only {device.platform}"
print(f"jax {jax.__version__} on {device.device_kind}")
PYTHON
if command -v nvidia-smi > /dev/null; then
  nvidia-smi --query-gpu=name,driver_version,memory.total,clocks.max.sm --format=csv | tee "$out/device.csv"
fi

# example NAME SECONDS CODEMOD PATH...: try its patches, keep the report and the log of the branch
example() {
  local name="$1" seconds="$2" codemod="$3"
  shift 3
  (
    prepare "$name"
    say "$name: $codemod"
    timeout --signal=INT "$seconds" jitmod apply --codemod "$codemod" --require-gpu --budget 120 --verbose \
      --format json "$@" > "$out/$name.json" || echo "exit code $?"
    git --no-pager log --reverse "HEAD..jitmod/$codemod" -- 2> /dev/null | tee "$out/$name.log" || true
  )
}

example crops 250 vmapify .
example training 180 scanify train.py

python - "$out" <<'PYTHON'
import json
import sys
from pathlib import Path

print("\n| place | codemod | verdict | speedup | cold, s | memory, MiB |\n|---|---|---|---|---|---|")
for file in sorted(Path(sys.argv[1]).glob("*.json")):
    text = file.read_text()
    for found in json.loads(text)["findings"] if text.strip() else ():
        trial = found["trial"]
        if trial is None:
            continue
        low, high = trial["speedup_ci"] or (None, None)
        speed = f"{trial['speedup']:.3g}x ({low:.3g} to {high:.3g})" if low is not None else ""
        cold, memory = (trial[key] or {} for key in ("cold", "memory"))
        arms = ("baseline", "candidate")
        first = " -> ".join(f"{cold[arm]:.2f}" for arm in arms) if all(cold.get(a) is not None for a in arms) else ""
        needs = " -> ".join(f"{memory[a] / 2**20:.0f}" for a in arms) if all(memory.get(a) for a in arms) else ""
        print(f"| {file.stem}/{found['path']}:{found['line']} | {found['codemod']} | {trial['verdict']} | {speed} "
              f"| {first} | {needs} |")
PYTHON
