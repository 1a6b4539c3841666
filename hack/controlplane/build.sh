#!/bin/sh
# Builds etcd, kube-apiserver, kube-controller-manager, kube-scheduler and kubectl for the tests, from the
# modules that go.mod pins, into a cache outside the tree (about ten minutes on two cores, once). With --node it also
# builds the programs of a real node: kubelet, kube-proxy, CoreDNS and pause (five minutes more).
#
#     ${XDG_CACHE_HOME:-~/.cache}/steersman/controlplane/v<kubernetes>-<hash of the sources>/bin
#
# `current` beside it names the newest build; steersman.testing.controlplane looks there. Binaries appear
# only when complete, and a build that is already there is left alone. Needs Go; no C compiler, no Docker.
#
#     build.sh            build what is missing
#     build.sh --node     build what is missing, and what is missing for a real node
#     build.sh --print    only print the directory of the binaries
set -eu
cd "$(dirname "$0")"

version=$(sed -n 's|^[[:space:]]*k8s.io/kubernetes \(v[0-9.]*\).*|\1|p' go.mod)
pause=../conformance/cmd/pause/main.go
hash=$(cat go.mod go.sum build.sh cmd/*/main.go coredns/go.* coredns/main.go $pause | sha256sum | cut -c1-10)
root=${XDG_CACHE_HOME:-$HOME/.cache}/steersman/controlplane
target=$root/$version-$hash

if [ "${1:-}" = --print ]; then
	echo "$target/bin"
	exit 0
fi

minor=${version#v1.}
minor=${minor%%.*}
stamp="-s -w"
for package in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
	stamp="$stamp -X $package.gitVersion=$version -X $package.gitMajor=1 -X $package.gitMinor=$minor"
	stamp="$stamp -X $package.gitTreeState=clean"
done

mkdir -p "$target/bin"
# Two builds at once would do the work twice; the second waits and then finds everything there.
if command -v flock >/dev/null; then
	exec 9>"$target/.lock"
	flock 9
fi

staging=$(mktemp -d "$target/.build.XXXXXX")
trap 'rm -rf "$staging"' EXIT
trap 'exit 130' INT TERM

build() { # NAME DIRECTORY PACKAGE: builds one program, unless it is there
	[ ! -x "$target/bin/$1" ] || return 0
	command -v go >/dev/null || {
		echo "build.sh: Go is not installed; get it from https://go.dev/dl (the version go.mod names)," \
			"or point KUBEBUILDER_ASSETS at envtest binaries" >&2
		exit 1
	}
	began=$(date +%s)
	echo "controlplane: building $1 ..."
	(
		cd "$2"
		CGO_ENABLED=0 GOFLAGS="-buildvcs=false ${STEERSMAN_GOFLAGS:--mod=readonly}" \
			nice -n 5 go build -trimpath -ldflags "$stamp" -o "$staging/$1" "$3"
	)
	mv "$staging/$1" "$target/bin/$1"
	echo "controlplane: built $1 in $(($(date +%s) - began)) s"
}

# The API server and etcd come first: they alone are enough for most tests.
for name in etcd kube-apiserver kubectl kube-controller-manager kube-scheduler; do
	build "$name" . "./cmd/$name"
done
if [ "${1:-}" = --node ]; then
	for name in kubelet kube-proxy; do
		build "$name" . "./cmd/$name"
	done
	build coredns coredns .
	build pause . "$pause"
fi

ln -sfn "$(basename "$target")" "$staging/current"
mv -T "$staging/current" "$root/current"
echo "controlplane: $target/bin"
