#!/usr/bin/env bash
# The tests in tests/gpu and the timing of attention kernels, in one command of under 8 minutes and without a network.
# Usage: [OUT=folder] [PYTHON=python3] [WHEELS=folder] run.sh [options of kernels.py, such as --device cpu --quick]
# Uses the torch that PYTHON has and never replaces it. Packages that PYTHON lacks come from WHEELS, which
# fetch_wheels.sh fills. Writes to OUT: table.csv, table.md, tests.xml (JUnit), tests.txt, timing.txt.
# Exit code: 0 if tests and timing went through, else 1.
set -uo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
root="$(cd "$here/../.." && pwd)"
python="${PYTHON:-python3}"
wheels="${WHEELS:-$here/wheels}"
out="${OUT:-$PWD/out}"
mkdir -p "$out"
out="$(cd "$out" && pwd)"

if ! "$python" -c "import torch"; then
    echo "run.sh needs a Python with torch: PYTHON=$python has none; set PYTHON to one that has" >&2
    exit 1
fi

site="$(mktemp -d)"
trap 'rm -rf "$site"' EXIT
missing=()
while read -r package; do
    "$python" - "$package" <<'PY' || missing+=("$package")
import sys
from importlib import metadata
try:
    metadata.version(sys.argv[1])
except metadata.PackageNotFoundError:
    sys.exit(1)
PY
done < <(grep -v '^#' "$here/packages.txt"; compgen -G "$wheels/xformers-*.whl" > /dev/null && echo xformers)
if [ ${#missing[@]} -gt 0 ]; then
    echo "installing beside torch, from $wheels: ${missing[*]}"
    if ! timeout 60 "$python" -m pip install --quiet --disable-pip-version-check --no-index --find-links "$wheels" \
        --no-deps --no-compile --no-cache-dir --target "$site" "${missing[@]}"; then
        echo "run.sh lacks wheels for: ${missing[*]}; run fetch_wheels.sh on a connected machine and copy wheels/" >&2
        exit 1
    fi
fi
export PYTHONPATH="$root:$site${PYTHONPATH:+:$PYTHONPATH}" PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1

rm -f "$out"/table.csv "$out"/table.md "$out"/tests.xml "$out"/tests.txt "$out"/timing.txt
failed=0
cd "$root" || exit 1
timeout --kill-after=5 180 "$python" -m pytest tests/gpu -p no:cacheprovider --durations=5 \
    --junitxml="$out/tests.xml" 2>&1 | tee "$out/tests.txt" || failed=1
timeout --kill-after=5 215 "$python" "$here/kernels.py" "$out" --seconds 180 "$@" 2>&1 | tee "$out/timing.txt" \
    || failed=1
if [ -e "$out/table.md" ]; then cat "$out/table.md"; fi
exit "$failed"
