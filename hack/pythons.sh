#!/usr/bin/env bash
# Runs the default suite on each Python that pyproject.toml names and this machine has, in a clean copy of the checkout
# with a virtual environment of its own. Exit code 1 when a suite fails, 2 when no such Python was found.
#
#   hack/pythons.sh [VERSION...]    e.g. hack/pythons.sh 3.12
#
# A Python is looked for on PATH (python3.12) and among those of pyenv and uv. Those that are missing are named.
set -euo pipefail
cd "$(dirname "$0")/.."
named=("$@")
[ ${#named[@]} -gt 0 ] || mapfile -t named < <(sed -n 's/.*Python :: \(3\.[0-9][0-9]*\)".*/\1/p' pyproject.toml)

interpreter() { # VERSION: the path of such a Python; nothing where there is none
  local found
  for found in "${PYENV_ROOT:-$HOME/.pyenv}"/versions/"$1".*/bin/python3 "$(command -v "python$1" || true)" \
    "${XDG_DATA_HOME:-$HOME/.local/share}"/uv/python/cpython-"$1".*/bin/python3; do
    if [ -x "$found" ] && "$found" -c 'import ctypes, ssl, sqlite3, venv' 2>/dev/null; then
      echo "$found"
      return
    fi
  done
}

copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
ran=0 failed=()
for version in "${named[@]}"; do
  python=$(interpreter "$version")
  if [ -z "$python" ]; then
    echo "== Python $version: not on this machine"
    continue
  fi
  echo "== Python $("$python" -c 'import platform; print(platform.python_version())')"
  ran=$((ran + 1))
  git clone --quiet . "$copy/$version"
  (cd "$copy/$version" && "$python" hack/setup.py .venv && touch .venv/.ready &&
    bash hack/tests.sh -m "not slow and not realcluster") || failed+=("$version")
done
[ "$ran" -gt 0 ] || { echo "none of ${named[*]} is on this machine" >&2; exit 2; }
[ ${#failed[@]} -eq 0 ] || { echo "failed on Python ${failed[*]}" >&2; exit 1; }
echo "== passed on $ran of ${#named[@]} Pythons"
