# What the examples share: a copy of one in a scratch folder, committed, which goes when the script ends.

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
scratch="$(mktemp -d)"
trap 'rm -rf "$scratch"' EXIT

say() { printf '\n== %s\n' "$*"; }

# prepare NAME: go into a fresh repository that holds the example.
prepare() {
  cp -R "$here/$1" "$scratch/$1"
  cd "$scratch/$1"
  unset "${!GIT_@}"
  git init --quiet
  git config user.name "jitmod demo"
  git config user.email "demo@example.org"
  git add .
  git commit --quiet --message "The example as it is"
}

# jitmod, whose exit code 1 only says that there is something to show, or that a patch was not accepted.
run() {
  say "jitmod $*"
  jitmod "$@" || [ $? -eq 1 ]
}
