#!/usr/bin/env bash
# Builds the program that `make run`, `make demo` and `make install` use: with `weir attach` where scripts/setup.sh finds what its BPF programs are
# made with, else without, and then says so. Usage: scripts/build.sh [words for cargo build]
#
# A recipe of make cannot decide that: make expands all of its lines before it runs the first, which is the set-up that installs what is missing.
set -euo pipefail
cd "$(dirname "$0")/.."

# Each as `libelf-dev (/usr/include/libelf.h)`.
lacks=$(scripts/setup.sh --missing run | sed -n 's|^\([^ ]*\) \([^ ]*\) the BPF programs of weir attach$|\2 (\1)|p')
features=()
[ -z "$lacks" ] || features=(--no-default-features)
cargo build --release --locked --package weir "${features[@]}" "$@"
if [ -n "$lacks" ]; then
    echo "build: this weir has no \`attach\`; for that, install ${lacks//$'\n'/, } and run this again" >&2
fi
