#!/usr/bin/env bash
# Builds the integration tests of controller-runtime and of kube-rs, which tests/cluster/foreign/ runs against the
# embedded cluster: `hack/upstream.sh [controller-runtime] [kube-rs]`. Into ~/.cache/steersman/foreign; needs Go and its
# module proxy, Rust and its registry. Suites that are built already are not built again. The first build takes ten
# minutes for each; without Go or Rust the tests are skipped.
set -euo pipefail
cd "$(dirname "$0")/.."

into="${STEERSMAN_FOREIGN_BIN:-$HOME/.cache/steersman/foreign}"
KUBE_RS=4.2.0 # the release for Kubernetes 1.36
mkdir -p "$into"

built() { # DIRECTORY STAMP: whether what the stamp says is there
  [ "$(cat "$1/.built" 2>/dev/null)" = "$2" ]
}

stamp="$(sha256sum hack/upstream.sh | cut -c1-16)"

controller_runtime() { # the version is that of tests/cluster/foreign/go
  local source home package
  (cd tests/cluster/foreign/go && go mod download sigs.k8s.io/controller-runtime)
  source="$(cd tests/cluster/foreign/go && go list -m -f '{{.Dir}}' sigs.k8s.io/controller-runtime)"
  home="$into/controller-runtime"
  if ! built "$home" "$source $stamp"; then
    echo "building the suites of $(basename "$source")"
    rm -rf "$home"
    cp -r "$source" "$home"
    chmod -R u+w "$home"
    grep -rl 'envtest.Environment{' --include='*_test.go' "$home/pkg" | xargs -n1 dirname | sort -u |
      while read -r package; do
        (cd "$package" && go test -c -p 1 -ldflags='-s -w' -o suite.test .)
      done
    echo "$source $stamp" >"$home/.built"
  fi
  echo "suites of controller-runtime: $home"
}

kube_rs() {
  local home target crate source
  home="$into/kube-rs"
  if ! built "$home" "$KUBE_RS $stamp"; then
    echo "building the tests of kube-rs $KUBE_RS"
    rm -rf "$home"
    mkdir -p "$home/fetch/src"
    touch "$home/fetch/src/lib.rs"
    printf '[package]\nname = "fetch"\nversion = "0.0.0"\n\n[dependencies]\n' >"$home/fetch/Cargo.toml"
    for crate in kube kube-client kube-runtime; do
      printf '%s = { version = "=%s", default-features = false }\n' "$crate" "$KUBE_RS" >>"$home/fetch/Cargo.toml"
    done
    printf '[dependencies.k8s-openapi]\nversion = "0"\nfeatures = ["latest"]\n' >>"$home/fetch/Cargo.toml"
    (cd "$home/fetch" && cargo metadata --quiet --format-version 1 >metadata.json)
    for crate in kube kube-client kube-runtime; do
      source="$(python3 -c '
import json, os, sys
found = [p for p in json.load(open(sys.argv[1]))["packages"] if p["name"] == sys.argv[2]]
print(os.path.dirname(found[0]["manifest_path"]))' "$home/fetch/metadata.json" "$crate")"
      cp -r "$source" "$home/$crate"
      # The versions that the release was tested with, as far as they are the same crates.
      [ "$crate" != kube-client ] || cp "$home/$crate/Cargo.lock" "$home/Cargo.lock"
    done
    rm -rf "$home/fetch"
    # In their repository the crates test each other; what is published lacks those dependencies.
    for crate in kube-client kube-runtime; do
      printf '\n[dev-dependencies.kube]\npath = "../kube"\nfeatures = [%s]\n' \
        '"derive", "client", "ws", "runtime", "kubelet-debug"' >>"$home/$crate/Cargo.toml"
    done
    printf '[workspace]\nresolver = "2"\nmembers = ["kube", "kube-client", "kube-runtime"]\n\n[patch.crates-io]\n' \
      >"$home/Cargo.toml"
    for crate in kube kube-client kube-runtime; do
      printf '%s = { path = "%s" }\n' "$crate" "$crate" >>"$home/Cargo.toml"
    done
    target="$home/target"
    features=kube-client/client,kube-client/rustls-tls,kube-client/openssl-tls,kube-client/ws,kube-client/kubelet-debug
    features+=,kube-client/jsonpatch,kube-client/unstable-client,kube/derive,kube/runtime,kube/ws,kube/rustls-tls
    features+=,kube/unstable-runtime,kube/unstable-client
    (
      cd "$home"
      export CARGO_TARGET_DIR="$target" CARGO_PROFILE_TEST_DEBUG=0 CARGO_PROFILE_DEV_DEBUG=0
      cargo test --quiet --workspace --lib --no-run --features "$features"
      for crate in kube kube_client kube_runtime; do
        find "$target/debug/deps" -maxdepth 1 -type f -executable -name "$crate-*" -exec mv {} "$home/$crate.test" \;
      done
    )
    rm -rf "$target"
    echo "$KUBE_RS $stamp" >"$home/.built"
  fi
  echo "tests of kube-rs: $home"
}

for suite in ${*:-controller-runtime kube-rs}; do
  case $suite in
  controller-runtime)
    if command -v go >/dev/null; then controller_runtime; else echo "no go: the suites of controller-runtime are skipped"; fi
    ;;
  kube-rs)
    if command -v cargo >/dev/null; then kube_rs; else echo "no cargo: the tests of kube-rs are skipped"; fi
    ;;
  *)
    echo "$suite: there is no such suite; known are controller-runtime and kube-rs" >&2
    exit 1
    ;;
  esac
done
