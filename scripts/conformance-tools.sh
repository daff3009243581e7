#!/usr/bin/env bash
# Installs below target/tools what `cargo xtask conformance` needs and Debian does not package: sslyze, in a Python environment of its own,
# and h2spec, built from scripts/h2spec. Each once. `scripts/setup.sh conformance` calls it. One that cannot be installed is named, with what
# is lost; the other is installed all the same.
set -euo pipefail
cd "$(dirname "$0")/.."
tools=$PWD/target/tools
sslyze_version=6.3.1
mkdir -p "$tools"

sslyze() {
    if [ "$("$tools/sslyze/bin/python" -c 'import sslyze.__version__ as v; print(v.__version__)' 2>/dev/null)" = "$sslyze_version" ]; then return; fi
    echo "setup: installing sslyze $sslyze_version below target/tools"
    rm -rf "$tools/sslyze"
    python3 -m venv "$tools/sslyze" && "$tools/sslyze/bin/pip" install --quiet --disable-pip-version-check "sslyze==$sslyze_version"
}

h2spec() {
    if [ "$tools/h2spec" -nt scripts/h2spec/main.go ] && [ "$tools/h2spec" -nt scripts/h2spec/go.mod ]; then return; fi
    echo "setup: building h2spec below target/tools"
    (cd scripts/h2spec && go build -o "$tools/h2spec" .)
}

sslyze >&2 || echo "setup: without sslyze $sslyze_version this is skipped: sslyze's verdict on TLS" >&2
h2spec >&2 || echo "setup: without h2spec this is skipped: h2spec's verdict on HTTP/2" >&2
