#!/usr/bin/env bash
# Builds the compiled wheel, unless it is there, and runs on it the tests of what is compiled and of what stands
# directly on that. The wheel is the one that the benchmarks measure.
#
#   hack/compiled.sh [PYTEST ARGUMENTS...]
set -euo pipefail
cd "$(dirname "$0")/.."

wheel=$(.venv/bin/python -c 'from benchmarks import toolchains; print(toolchains.wheel() or "")')
[ -n "$wheel" ] || exit 1
export STEERSMAN_COMPILED=$wheel PYTHONPATH=$wheel
PROJECTS='' bash hack/tests.sh -m "not realcluster" "$@" \
  tests/test_compiled.py tests/cache tests/client tests/controller tests/operator tests/telemetry
