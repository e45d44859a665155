#!/usr/bin/env bash
# Download, on a connected machine, the wheels that run.sh needs on one without a network. Linux x86-64.
# Usage: fetch_wheels.sh [PYTHON_VERSION] [XFORMERS_VERSION]
#   PYTHON_VERSION    of the machine with the card: python3 --version there (default 3.12)
#   XFORMERS_VERSION  optional: one built for that machine's torch and CUDA (0.0.35 is 3 MB)
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
python_version="${1:-3.12}"
xformers_version="${2:-}"
fetch() {
    local platforms=() tag
    for tag in manylinux_2_28 manylinux_2_27 manylinux_2_17 manylinux2014; do  # pip wants each tag spelled out
        platforms+=(--platform "${tag}_x86_64")
    done
    python3 -m pip download --quiet --no-deps --only-binary=:all: --implementation cp \
        --python-version "$python_version" "${platforms[@]}" --dest "$here/wheels" "$@"
}
rm -rf "$here/wheels"
fetch --constraint "$here/../../tests/constraints.txt" --requirement "$here/packages.txt"
if [ -n "$xformers_version" ]; then fetch "xformers==$xformers_version"; fi
du -sh "$here/wheels"
