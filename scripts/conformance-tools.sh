#!/usr/bin/env bash
# Installs below target/tools what `cargo xtask conformance` needs and Debian does not package: sslyze, redbot and aioquic, each in a Python
# environment of its own, and h2spec and quic-go, built from scripts/. Each once. `scripts/setup.sh conformance` calls it. One that cannot be
# installed is named, with what is lost; the others are installed all the same.
set -euo pipefail
cd "$(dirname "$0")/.."
tools=$PWD/target/tools
sslyze_version=6.3.1
redbot_version=2.7.1
aioquic_version=1.7.2
mkdir -p "$tools"

# NAME VERSION: a package of Python's, and the programs that it brings.
python_tool() {
    if "$tools/$1/bin/pip" show "$1" 2>/dev/null | grep -qx "Version: $2"; then return; fi
    echo "setup: installing $1 $2 below target/tools"
    rm -rf "${tools:?}/$1"
    if python3 -m venv "$tools/$1" &&
        "$tools/$1/bin/pip" install --quiet --disable-pip-version-check --timeout 10 --retries 2 "$1==$2"; then return; fi
    # A Python without it would look as if it were there.
    rm -rf "${tools:?}/$1"
    return 1
}

# NAME: a program of Go's in scripts/NAME.
go_tool() {
    if [ "$tools/$1" -nt "scripts/$1/main.go" ] && [ "$tools/$1" -nt "scripts/$1/go.mod" ]; then return; fi
    echo "setup: building $1 below target/tools"
    (cd "scripts/$1" && go build -o "$tools/$1" .)
}

lost() { echo "setup: without $1 this is skipped: $2" >&2; }

python_tool aioquic "$aioquic_version" >&2 || lost aioquic "aioquic's checks of HTTP/3"
go_tool quic-go >&2 || lost quic-go "quic-go's checks of HTTP/3 (it needs Go 1.24)"
go_tool h2spec >&2 || lost h2spec "h2spec's verdict on HTTP/2"
python_tool sslyze "$sslyze_version" >&2 || lost sslyze "sslyze's verdict on TLS"
python_tool redbot "$redbot_version" >&2 || lost redbot "redbot's verdict on caching, validators and ranges"
