#!/usr/bin/env bash
# The campaign of this study, about 40 minutes on two cores: run.sh FOLDER
set -euo pipefail
mkdir -p "$1" && cd "$1"
pip download --quiet --no-deps plotnine==0.15.9
unzip -o -q -j plotnine-0.15.9-py3-none-any.whl plotnine/data/diamonds.csv
archopt search diamonds.csv --target price --d-model 48 --samples 1e3,3.2e3,1e4,3.2e4 --timeout 2400
archopt report diamonds-n32000-d48 --storage "sqlite:///$PWD/archopt-results/diamonds/study.db" --out n32000
archopt recommend --d-model 48 --samples 6.4e4 --name diamonds || true  # says why it cannot
