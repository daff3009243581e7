#!/usr/bin/env bash
# Builds the Python package `weirlab` as dist/weirlab-*.whl, and tests that wheel in an environment of its own (target/python).
# PROFILE=dev builds sooner, and simulates slower. Usage: scripts/python.sh [--install | words for pytest]; with --install it tests nothing.
#
# Where packages cannot be downloaded, this says SKIPPED and why, and with CI=true it fails.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD here=${CARGO_TARGET_DIR:-$PWD/target}/python
env=$here/env

skipped() {
    echo "SKIPPED: make python: $1"
    if [ "${CI:-}" = true ]; then exit 1; fi
    exit 0
}

mkdir -p "$here"
python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || skipped "no python3 from 3.11 on"
[ -x "$env/bin/pip" ] || python3 -m venv "$env" || skipped "python3 makes no environment: install python3-venv"
pip() { "$env/bin/pip" --disable-pip-version-check --quiet "$@"; }
pip install 'maturin>=1.9.4,<2' || skipped "maturin cannot be downloaded"

rm -f dist/weirlab-*.whl
(cd python && "$env/bin/maturin" build --quiet --locked --profile "${PROFILE:-release}" --out ../dist)
wheel=$(ls dist/weirlab-*.whl)
if [ "${1:-}" = --install ]; then
    pip install --upgrade "$wheel" || skipped "what $wheel needs cannot be downloaded"
    pip install --force-reinstall --no-deps "$wheel"
    exit 0
fi
# Ray has no wheel for every Python; its tests say SKIPPED then.
pip install --upgrade "$wheel[ray,test]" || pip install --upgrade "$wheel[test]" || skipped "what $wheel needs cannot be downloaded"
pip install --force-reinstall --no-deps "$wheel"

cd python
"$env/bin/ruff" check --no-cache src tests notebooks
"$env/bin/ruff" format --no-cache --check src tests notebooks
"$env/bin/mypy" --cache-dir "$here/mypy" src/weirlab
export PYTHONDONTWRITEBYTECODE=1 WEIR_ROOT=$root
"$env/bin/pytest" -p no:cacheprovider "$@"
