#!/usr/bin/env bash
# Builds the compiled wheel, and runs on it the tests of what is compiled and of what stands directly on that.
#
#   hack/compiled.sh [PYTEST ARGUMENTS...]
set -euo pipefail
cd "$(dirname "$0")/.."
python=$PWD/.venv/bin/python
where=$(mktemp -d)
trap 'rm -rf "$where"' EXIT

if ! STEERSMAN_COMPILE=1 "$python" -m hatchling build -t wheel -d "$where" >"$where/log" 2>&1; then
  cat "$where/log"
  exit 1
fi
"$python" -m zipfile -e "$where"/*.whl "$where/package"
export STEERSMAN_COMPILED=$where/package PYTHONPATH=$where/package
PROJECTS='' bash hack/tests.sh -m "not realcluster" "$@" \
  tests/test_compiled.py tests/cache tests/client tests/controller tests/operator tests/telemetry
