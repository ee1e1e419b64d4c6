#!/usr/bin/env bash
# The main job on a copy of examples/crops: the diff, the trials, the branch with one commit for each accepted patch.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
prepare crops

say "The diff: nothing runs, nothing is written"
run apply --codemod vmapify --dry-run .

say "Every patch is tried; this takes a few minutes"
run apply --codemod vmapify --verbose .

say "git log jitmod/vmapify"
git --no-pager log --reverse HEAD..jitmod/vmapify --

say "The working tree is as it was"
git status --short --branch

bash "$here/run_training.sh" train.py
