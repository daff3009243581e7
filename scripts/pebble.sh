#!/usr/bin/env bash
# Builds below target/tools the authority that certificates by ACME are tested against: Pebble, and the DNS server for its tests,
# pebble-challtestsrv. Once; it needs Go and its module proxy. Without them those tests are SKIPPED, and this says so.
set -euo pipefail
cd "$(dirname "$0")/.."
tools=${CARGO_TARGET_DIR:-$PWD/target}/tools
version=v2.10.3
export PATH="$PATH:/usr/local/go/bin"
mkdir -p "$tools"

lost() { echo "setup: without $1 this is skipped: certificates by ACME against Pebble" >&2; }

if ! command -v go >/dev/null; then
    lost "Go (package golang-go)"
    exit 0
fi
for program in pebble pebble-challtestsrv; do
    if [ "$(cat "$tools/$program.version" 2>/dev/null)" = "$version" ] && [ -x "$tools/$program" ]; then continue; fi
    echo "setup: building $program $version below target/tools"
    if timeout 300 env GOBIN="$tools" GOFLAGS=-buildvcs=false go install "github.com/letsencrypt/pebble/v2/cmd/$program@$version" >&2; then
        echo "$version" >"$tools/$program.version"
    else
        lost "$program $version"
    fi
done
