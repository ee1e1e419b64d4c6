#!/usr/bin/env bash
# jitmod on a copy of examples/training, or on the files of it that are named: the diff, the trials, the commits.
set -euo pipefail

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
scratch="$(mktemp -d)"
trap 'rm -rf "$scratch"' EXIT

say() { printf '\n== %s\n' "$*"; }

cp -R "$here/training" "$scratch/training"
cd "$scratch/training"
unset "${!GIT_@}"
git init --quiet
git config user.name "jitmod demo"
git config user.email "demo@example.org"
git add .
git commit --quiet --message "The example as it is"

say "jitmod apply --codemod scanify --dry-run .   (a script and a notebook; nothing runs, nothing is written)"
jitmod apply --codemod scanify --dry-run . || [ $? -eq 1 ] # 1: there is something to show

say "jitmod apply --codemod scanify ${*:-.}"
jitmod apply --codemod scanify --verbose "${@:-.}" || [ $? -eq 1 ] # 1: a patch was not accepted

say "git log --stat jitmod/scanify"
git --no-pager log --stat --reverse HEAD..jitmod/scanify --
