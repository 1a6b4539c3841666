#!/usr/bin/env bash
# Builds Kubernetes' end-to-end test suite and the programs of the images that its conformance tests use, from the
# modules that hack/conformance/go.mod and SAMPLE_APISERVER pin, into a cache outside the tree (five minutes, once):
#
#     ${XDG_CACHE_HOME:-~/.cache}/steersman/conformance/v<kubernetes>-<hash of the sources>/bin
#
# `python -m tests.e2e` runs the suite. Programs appear only when complete, and those that are there are left alone.
# Needs Go; no C compiler, no Docker.
#
#     conformance.sh            build what is missing; the last line is the directory
#     conformance.sh --print    only print the directory
set -euo pipefail
cd "$(dirname "$0")/conformance"

SAMPLE_APISERVER=v0.36.2

version="$(sed -n 's|^require k8s.io/kubernetes \(v[0-9.]*\).*|\1|p' go.mod)"
hash="$(cat go.mod go.sum ../conformance.sh cmd/*/main.go | sha256sum | cut -c1-10)"
target="${XDG_CACHE_HOME:-$HOME/.cache}/steersman/conformance/$version-$hash/bin"

if [ "${1:-}" = --print ]; then
  echo "$target"
  exit 0
fi

mkdir -p "$target"
if command -v flock >/dev/null; then
  exec 9>"$target/../.lock"
  flock 9
fi
staging="$(mktemp -d "$target/../.build.XXXXXX")"
trap 'rm -rf "$staging"' EXIT
trap 'exit 130' INT TERM
export CGO_ENABLED=0 GOFLAGS="-buildvcs=false -trimpath"
stamp="-s -w"
for package in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
  stamp="$stamp -X $package.gitVersion=$version -X $package.gitMajor=1 -X $package.gitTreeState=clean"
done

build() { # NAME COMMAND...: runs the command, which writes the program NAME into the staging directory
  local name="$1" began="$SECONDS"
  shift
  [ ! -x "$target/$name" ] || return 0
  command -v go >/dev/null || {
    echo "conformance.sh: Go is not installed; get it from https://go.dev/dl (the version that go.mod names)" >&2
    exit 1
  }
  echo "conformance: building $name ($version) ..."
  nice -n 5 "$@"
  mv "$staging/$name" "$target/$name"
  echo "conformance: built $name in $((SECONDS - began)) s"
}

suite=k8s.io/kubernetes/test
build e2e.test go test -c -vet=off -ldflags "$stamp" -o "$staging/e2e.test" $suite/e2e
build agnhost go build -ldflags "$stamp" -o "$staging/agnhost" $suite/images/agnhost
build resource-consumer go build -ldflags "$stamp" -o "$staging/resource-consumer" $suite/images/resource-consumer
build consume-cpu go build -ldflags "$stamp" -o "$staging/consume-cpu" $suite/images/resource-consumer/consume-cpu
build nnp go build -ldflags "$stamp" -o "$staging/nnp" $suite/images/nonewprivs
build pause go build -ldflags "$stamp" -o "$staging/pause" ./cmd/pause
build sample-apiserver env GOBIN="$staging" go install "k8s.io/sample-apiserver@$SAMPLE_APISERVER"
echo "$target"
