#!/usr/bin/env bash
# Every codemod on a copy of examples/kitchen: rivals for the same lines, and the branch tried as a whole.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
prepare kitchen

run apply --codemod all --verbose .

say "git log jitmod/all"
git --no-pager log --reverse HEAD..jitmod/all --
