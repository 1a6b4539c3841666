#!/usr/bin/env bash
# Runs all tests: the project's own, and those of each operator and example, which are projects of their own.
#
#   hack/tests.sh [PYTEST ARGUMENTS...]
#   hack/tests.sh --node [PYTEST ARGUMENTS...]
#
# --node runs only those that need a real node.
#
# PROJECTS=... runs those of other directories than all operators and examples; none, where it is empty.
#
# FORGIVE=N (the gate's; 0 otherwise): where at most so many tests of a project fail, each runs once more, alone. What
# passes then is a flake of a busy machine: its failure stays in the output, it is named at the end, and should be
# mended. What fails again, fails.
#
# WORKERS=N runs so many tests at a time, 2 by default: they partly wait for their servers. Files start in alphabetical
# order, not those with the most tests first: a few long tests would come last, in one file.
set -euo pipefail
cd "$(dirname "$0")/.."
python=$PWD/.venv/bin/python
forgive=${FORGIVE:-0}
workers=(-n "${WORKERS:-2}" --dist loadfile --no-loadscope-reorder)
flaky=()
cluster=()

failed() { # the tests that the last run of the project here has failed, one a line
  "$python" -c 'import json; print(*json.load(open(".pytest_cache/v/cache/lastfailed")), sep="\n")' 2>/dev/null || true
}

suite() { # DIRECTORY [PYTEST ARGUMENTS...]
  local code=0 names=()
  pushd "$1" >/dev/null
  shift
  [ "$forgive" = 0 ] || rm -f .pytest_cache/v/cache/lastfailed # what another run has left there
  "$python" -m pytest -q ${cluster[@]+"${cluster[@]}"} "$@" || code=$?
  if [ "$code" = 1 ] && [ "$forgive" -gt 0 ]; then
    mapfile -t names < <(failed)
    if [ ${#names[@]} -gt 0 ] && [ ${#names[@]} -le "$forgive" ]; then
      printf '\n== %s failed: once more, alone\n' "${#names[@]}"
      code=0
      "$python" -m pytest -q ${cluster[@]+"${cluster[@]}"} "${names[@]}" || code=$?
      [ "$code" != 0 ] || flaky+=("${names[@]}")
    fi
  fi
  popd >/dev/null
  [ "$code" = 0 ] || exit "$code"
}

if [ "${1:-}" = --node ]; then
  shift
  cluster=(--cluster=node)
  suite . tests/node "$@"
else
  suite . "${workers[@]}" "$@"
  for project in ${PROJECTS-operators/*/ examples/*/}; do
    case $project in
      operators/mysqlcluster/ | operators/rocketmq/) suite "$project" "${workers[@]}" "$@" ;;
      *) suite "$project" "$@" ;;
    esac
  done
fi

for name in ${flaky[@]+"${flaky[@]}"}; do
  printf 'FLAKY: %s failed, and passed alone: its failure is above, and needs mending\n' "$name"
done
