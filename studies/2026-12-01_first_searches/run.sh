#!/usr/bin/env bash
# The four searches of this study with archopt's defaults, one after the other; about 14 minutes on two cores.
# Usage: run.sh FOLDER, in an environment where archopt is installed as the README says.
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
mkdir -p "$1"
cd "$1"
python "$here/houses.py" houses.csv
search() {
    local begun=$SECONDS
    archopt search "$@" > "$name.txt" 2> "$name.log"
    echo "$name: $((SECONDS - begun)) s"
}
name=digits;   search sklearn:digits --d-model 48 --out "$name"
name=diabetes; search sklearn:diabetes --d-model 48 --out "$name"
name=topics;   search text:python-topics --d-model 48 --out "$name"
name=houses;   search houses.csv --target price --d-model 96 --out "$name"
