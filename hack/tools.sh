#!/bin/sh
# Builds the field's own tools, which judge what Steersman writes in the tests that find them: `hack/tools.sh [NAME…]`.
#
# They are Go programs from the public module proxy, pinned, and go to ~/.cache/steersman/tools (or $STEERSMAN_TOOLS). One that is there
# already is left alone; one that cannot be built is told, and its tests skip. Exit code 1 when any is missing.
set -u
here=$(cd "$(dirname "$0")" && pwd)
target=${STEERSMAN_TOOLS:-$HOME/.cache/steersman/tools}
wanted=${*:-controller-gen kustomize helm operator-verify promtool opm}
failed=""

if ! command -v go >/dev/null 2>&1; then
    echo "go is not installed: the tests that need $wanted will be skipped" >&2
    exit 1
fi
mkdir -p "$target"

pinned() { # the module, its version, and the program's path below it, or of a program here that uses the module
    case $1 in
    controller-gen) echo sigs.k8s.io/controller-tools v0.23.0 cmd/controller-gen ;;
    kustomize) echo sigs.k8s.io/kustomize/kustomize/v5 v5.8.1 . ;;
    helm) echo helm.sh/helm/v3 v3.22.0 cmd/helm ;;
    operator-verify) echo github.com/operator-framework/api v0.42.0 cmd/operator-verify ;;
    opm) echo github.com/operator-framework/operator-registry v1.65.0 cmd/opm ;;
    olm) echo github.com/operator-framework/operator-lifecycle-manager v0.38.0 cmd/olm ;;
    olm-catalog) echo github.com/operator-framework/operator-lifecycle-manager v0.38.0 cmd/catalog ;;
    prometheus-operator) echo github.com/prometheus-operator/prometheus-operator v0.85.0 cmd/operator ;;
    prometheus) echo github.com/prometheus/prometheus v0.305.0 cmd/prometheus ;;
    prometheus-config-reloader) echo github.com/prometheus-operator/prometheus-operator v0.85.0 cmd/prometheus-config-reloader ;;
    cert-manager) echo github.com/cert-manager/cert-manager v1.21.0 hack/cert-manager/main.go ;;
    promtool) echo github.com/prometheus/prometheus v0.315.0 cmd/promtool ;;
    esac
}

# opm would want C libraries for image stores that catalogs in files never touch.
TAGS=containers_image_openpgp,exclude_graphdriver_btrfs,exclude_graphdriver_devicemapper,json1

# Replaces the module by a copy whose plugins are the discovery of Kubernetes alone, without SDKs of clouds.
only_kubernetes() {
    directory=$(go mod download -json "$1" | sed -n 's/^[[:space:]]*"Dir": "\(.*\)",*$/\1/p') &&
        cp -r "$directory" module && chmod -R u+w module &&
        printf 'package plugins\n\nimport _ "%s/discovery/kubernetes"\n' "$1" >module/plugins/plugins.go &&
        go mod edit -replace="$1=./module"
}

build() { # in a module of our own: `go install` refuses programs whose module replaces others
    scratch=$(mktemp -d) || return 1
    (
        cd "$scratch" &&
            printf 'module tools\n\ngo 1.25.0\n' >go.mod &&
            go mod edit -require="$2@$3" &&
            case $4 in
            hack/*) cp "$here/../$4" main.go && package=. ;;
            *) package=$2/$4 ;;
            esac &&
            if [ "$1" = prometheus ]; then only_kubernetes "$2"; fi &&
            go build -mod=mod -trimpath -tags "$TAGS" -o "$target/$1" "$package"
    )
    code=$?
    rm -rf "$scratch"
    return $code
}

for name in $wanted; do
    [ -x "$target/$name" ] && continue
    # Words on purpose: module, version, path.
    # shellcheck disable=SC2046
    set -- $(pinned "$name")
    if [ $# -ne 3 ]; then
        echo "$name: there is no such tool; the function pinned in $0 has the known ones" >&2
        failed="$failed $name"
        continue
    fi
    echo "building $name ($1@$2)"
    build "$name" "$1" "$2" "$3" || failed="$failed $name"
done
if [ -n "$failed" ]; then
    echo "not built:$failed" >&2
    exit 1
fi
