#!/usr/bin/env bash
# The noise figure and the authors' setting on two more engines: OpenFHE (50-bit scale; CPython 3.10, as in
# test_openfhe.sh) and desilofhe 1.17.0 with use_bootstrap=True, the engine of the paper's time. 10 minutes, 8 GiB.
# Usage: scripts/bench/noise_engines.sh [FOLDER], results/bench by default; scripts/bench/noise.py then shows what is there.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
export PYTHONPATH=$PWD # these environments have the engines alone
out=${1:-results/bench}
mkdir -p "$out"

old=.venv_desilofhe1
if [ ! -f "$old/.installed" ]; then
    python3.11 -m venv "$old"
    "$old/bin/pip" install --quiet --disable-pip-version-check numpy==2.2.6 scipy==1.15.3 desilofhe==1.17.0
    touch "$old/.installed"
fi
OMP_NUM_THREADS=1 "$old/bin/python" scripts/bench/noise_engine.py desilo1 "$out/noise_desilofhe1.json"

py310=${VENV310:-.venv310}/bin/python
if [ ! -x "$py310" ]; then
    echo "skipped: OpenFHE needs the environment that scripts/repo/test_openfhe.sh makes (or VENV310=FOLDER)"
    exit 0
fi
OMP_NUM_THREADS="${THREADS:-1}" "$py310" scripts/bench/noise_engine.py openfhe "$out/noise_openfhe.json"
