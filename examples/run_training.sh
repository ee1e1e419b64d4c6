#!/usr/bin/env bash
# jitmod on a copy of examples/training, or on the files of it that are named: the diff, the trials, the commits.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
prepare training

say "The diff, of a script and a notebook: nothing runs, nothing is written"
run apply --codemod scanify --dry-run .

say "Every patch is tried"
run apply --codemod scanify --verbose "${@:-.}"

say "git log --stat jitmod/scanify"
git --no-pager log --stat --reverse HEAD..jitmod/scanify --
