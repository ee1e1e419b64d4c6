#!/usr/bin/env bash
# The main job on a copy of examples/crops: the diff, the trials, the branch with one commit for each accepted patch.
set -euo pipefail

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
scratch="$(mktemp -d)"
trap 'rm -rf "$scratch"' EXIT

say() { printf '\n== %s\n' "$*"; }

cp -R "$here/crops" "$scratch/crops"
cd "$scratch/crops"
unset "${!GIT_@}"
git init --quiet
git config user.name "jitmod demo"
git config user.email "demo@example.org"
git add .
git commit --quiet --message "The example as it is"

say "jitmod apply --codemod vmapify --dry-run .   (nothing runs, nothing is written)"
jitmod apply --codemod vmapify --dry-run . || [ $? -eq 1 ] # 1: there is something to show

say "jitmod apply --codemod vmapify .   (every patch is tried; this takes a few minutes)"
jitmod apply --codemod vmapify --verbose . || [ $? -eq 1 ] # 1: a patch was not accepted

say "git log jitmod/vmapify"
git --no-pager log --reverse HEAD..jitmod/vmapify --

say "The working tree is as it was"
git status --short --branch

"$here/run_training.sh" train.py
