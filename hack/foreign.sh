#!/usr/bin/env bash
# Builds the Go program that tests/cluster/foreign/ runs against the embedded cluster: it uses client-go and
# controller-runtime. Into ~/.cache/steersman/foreign; needs Go and its module proxy. What is there already is not
# built again. (Helm, which is tested there too, comes from hack/tools.sh.)
set -euo pipefail
cd "$(dirname "$0")/.."

into="${STEERSMAN_FOREIGN_BIN:-$HOME/.cache/steersman/foreign}"
mkdir -p "$into"
command -v go >/dev/null || { echo "foreign client: no go, so it is not built and its test is skipped"; exit 0; }

source=tests/cluster/foreign/go
stamp="$(cat "$source"/*.go "$source"/go.mod "$source"/go.sum | sha256sum | cut -c1-16)"
if [ ! -x "$into/client-$stamp" ]; then
  (cd "$source" && go build -trimpath -o "$into/client-$stamp" .)
fi
echo "foreign client: $into"
